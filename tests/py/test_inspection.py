"""The inspector's view: stored bytes by part and format, layers by kind, and a figure for every number."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from willitserve.assess import Subject
from willitserve.catalog import Catalog
from willitserve.config import describe, read_config
from willitserve.inspection import inspect_checkpoint, inspect_subject
from willitserve.layer_map import LayerMap, layer_map
from willitserve.parts import Part
from willitserve.plan import Model, plan
from willitserve.reading import OpenCheckpoint, inspect
from willitserve.report import CheckpointPart, CheckpointReport, Figure, PlanReport
from willitserve.request import read_query
from willitserve.stored_parts import MODEL_ORDER, amount, format_bits, format_label

CONFIGS = Path(__file__).parents[1] / "data" / "configs"

SubjectOf = Callable[[str], Subject]
ModelOf = Callable[[str], Model]


def _report(subject: Subject) -> tuple[CheckpointReport, dict[str, Figure]]:
    return inspect_checkpoint(subject.architecture, subject.checkpoint)


def _rows(parts: list[CheckpointPart]) -> list[tuple[str, str, int, int | None, bool]]:
    return [(part.part, part.format, part.bytes, part.num_params, part.served) for part in parts]


def _map(config: str) -> LayerMap:
    architecture = describe(read_config((CONFIGS / f"{config}.json").read_text("utf-8")))
    return layer_map(architecture, kv_dtype_bits=16, kv_dtype="16 bit")


def _plan(catalog: Catalog, model: Model, **query: str) -> PlanReport:
    return plan(
        catalog, model, read_query({"gpu": "h200-sxm5-141gb", **query}), page_context=8192, versions={}
    )


# --- parts ------------------------------------------------------------------------------------------------


def test_parts_of_llama_in_model_order(subject_of: SubjectOf) -> None:
    # 32 layers, hidden 4096, MLP 14336, 8 of 32 heads for keys and values, vocabulary 128256 twice, BF16.
    report, _ = _report(subject_of("meta-llama/Llama-3.1-8B"))
    assert _rows(report.parts) == [
        ("embedding", "bf16", 1_050_673_152, 525_336_576, True),
        ("attention", "bf16", 2_684_354_560, 1_342_177_280, True),
        ("dense_mlp", "bf16", 11_274_289_152, 5_637_144_576, True),
        ("norm", "bf16", 532_480, 266_240, True),
        ("output_head", "bf16", 1_050_673_152, 525_336_576, True),
    ]
    assert [round(part.ratio, 4) for part in report.parts] == [0.0654, 0.1671, 0.702, 0.0, 0.0654]


def test_experts_of_gpt_oss_are_mxfp4_and_its_attention_is_bf16(subject_of: SubjectOf) -> None:
    # 24 layers of 32 experts: 5760 and 2880 rows of 90 blocks of 16 B and one scale; biases in BF16.
    report, _ = _report(subject_of("openai/gpt-oss-20b"))
    rows = [row for row in _rows(report.parts) if row[0] in ("attention", "routed_expert")]
    assert rows == [
        ("attention", "bf16", 1_274_406_912, 637_203_456, True),
        ("routed_expert", "mxfp4", 10_152_345_600, 19_110_297_600, True),
        ("routed_expert", "bf16", 13_271_040, 6_635_520, True),
    ]
    assert [part.bits for part in report.parts if part.part == "routed_expert"] == [4, 16]


def test_the_draft_block_of_deepseek_stands_apart(subject_of: SubjectOf) -> None:
    report, figures = _report(subject_of("deepseek-ai/DeepSeek-V3"))
    drafts = [part for part in report.parts if not part.served]
    assert _rows(drafts) == [
        ("draft", "fp8-block", 11_508_243_680, 11_505_434_624, False),
        ("draft", "bf16", 3_915_982_848, 1_957_991_424, False),
        ("draft", "f32", 1_024, 256, False),
    ]
    assert [part.part for part in report.parts[-3:]] == ["draft"] * 3
    assert "draft" in figures[drafts[0].bytes_figure].because
    served = sum(part.num_params or 0 for part in report.parts if part.served)
    assert served == 671_026_419_200


def test_a_stored_copy_of_a_tied_head_is_told_from_what_is_loaded(subject_of: SubjectOf) -> None:
    report, figures = _report(subject_of("Qwen/Qwen3-0.6B"))
    head = next(part for part in report.parts if part.part == "output_head")
    assert (head.bytes, head.served) == (311_164_928, False)
    assert head.bytes_figure == "checkpoint.parts.output_head.bf16.not_loaded.bytes"
    assert "copy of a tied matrix" in figures[head.bytes_figure].because


@pytest.mark.parametrize(
    ("model", "part", "arithmetic"),
    [
        pytest.param(
            "meta-llama/Llama-3.1-8B",
            "attention.bf16.bytes",
            "64 x (4,096 x 4,096) x 2 B + 64 x (1,024 x 4,096) x 2 B = 2,684,354,560 B",
            id="matrices",
        ),
        pytest.param(
            "meta-llama/Llama-3.1-8B",
            "embedding.bf16.num_params",
            "(128,256 x 4,096) = 525,336,576",
            id="one-matrix",
        ),
        pytest.param(
            "openai/gpt-oss-20b",
            "routed_expert.mxfp4.num_params",
            "24 x (32 x 5,760 x 90 x 16 x 2 values) + 24 x (32 x 2,880 x 90 x 16 x 2 values)"
            " = 19,110,297,600",
            id="packed",
        ),
        pytest.param(
            "deepseek-ai/DeepSeek-V3",
            "attention.fp8-block.bytes",
            "61 x (7,168 x 16,384) x 1 B + 61 x (24,576 x 1,536) x 1 B + 61 x (32,768 x 512) x 1 B"
            " + 61 x (1,536 x 7,168) x 1 B + 254,648,160 B in 366 further tensors = 11,416,215,392 B",
            id="many-shapes",
        ),
    ],
)
def test_the_arithmetic_of_a_part_is_its_shapes(
    subject_of: SubjectOf, model: str, part: str, arithmetic: str
) -> None:
    _, figures = _report(subject_of(model))
    assert figures[f"checkpoint.parts.{part}"].arithmetic == arithmetic


def test_parts_of_every_model_add_up(catalog: Catalog, subject_of: SubjectOf) -> None:
    for entry in catalog.models:
        checkpoint = subject_of(entry.id).checkpoint
        report, figures = _report(subject_of(entry.id))
        assert sum(part.bytes for part in report.parts) == checkpoint.stored_bytes, entry.id
        served = sum(part.num_params or 0 for part in report.parts if part.served)
        assert served == checkpoint.num_params, entry.id
        keys = [key for part in report.parts for key in (part.bytes_figure, part.params_figure)]
        keys += [key for kind in report.layer_kinds for key in kind.figures]
        assert sorted(keys) == sorted(figures), entry.id
        assert all(figure.arithmetic and figure.source for figure in figures.values()), entry.id


def test_a_packing_that_is_not_known_withholds_parameters_and_not_bytes() -> None:
    opened = OpenCheckpoint(model_id="a/b", revision=None, source="folder", source_sentence="read")
    opened.set_config((CONFIGS / "Qwen__Qwen3-14B.json").read_text("utf-8"))
    header = json.dumps(
        {"model.layers.0.self_attn.q_proj.weight": {"dtype": "F3_X", "shape": [8], "data_offsets": [0, 3]}}
    ).encode()
    opened.add("model.safetensors", len(header).to_bytes(8, "little") + header, file_size=8 + len(header) + 3)
    subject = opened.finish().subject
    assert subject is not None

    report, figures = _report(subject)
    [part] = report.parts
    assert (part.part, part.format_label, part.bits) == ("attention", "format not known", None)
    assert (part.bytes, part.num_params) == (3, None)
    figure = figures[part.params_figure]
    assert (figure.value, figure.basis) == (None, "unknown")
    assert figures[part.bytes_figure].arithmetic == "(8) x 0.375 B = 3 B"


def test_every_part_has_a_place_in_the_order() -> None:
    assert sorted(part.value for part, _ in MODEL_ORDER) == sorted(part.value for part in Part)


@pytest.mark.parametrize(
    ("name", "label", "bits"),
    [
        ("bf16", "BF16", 16),
        ("f16", "FP16", 16),
        ("f32", "FP32", 32),
        ("fp8", "FP8", 8),
        ("fp8-block", "FP8 in blocks", 8),
        ("mxfp8", "MXFP8", 8),
        ("nvfp4", "NVFP4", 4),
        ("nf4", "NF4", 4),
        ("int3", "INT3", 3),
        ("aqlm", "AQLM", None),
        ("unknown", "format not known", None),
    ],
)
def test_formats_are_written_as_engineers_write_them(name: str, label: str, bits: int | None) -> None:
    assert (format_label(name), format_bits(name)) == (label, bits)


@pytest.mark.parametrize(
    ("num_bytes", "shown"),
    [
        (0, (0, "B", 0)),
        (102, (102, "B", 0)),
        (1024, (1.0, "KiB", 2)),
        (3 * 2**19, (1.5, "MiB", 2)),
        (2**29, (0.5, "GiB", 2)),
        (609 * 2**30, (609.0, "GiB", 1)),
    ],
)
def test_an_amount_is_shown_in_the_unit_it_can_be_read_in(
    num_bytes: int, shown: tuple[float, str, int]
) -> None:
    assert amount(num_bytes) == shown


# --- layers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "pattern"),
    [
        ("Qwen/Qwen2.5-7B", "28 layers: full attention with dense MLP"),
        (
            "google/gemma-3-27b-it",
            "62 layers, each with dense MLP: 10 x (5 window 1,024 + 1 full attention) + 2 window 1,024",
        ),
        (
            "Qwen/Qwen3-Next-80B-A3B-Instruct",
            "48 layers, each with MoE: 12 x (3 gated delta net + 1 full attention)",
        ),
        ("deepseek-ai/DeepSeek-V3", "61 layers, each with latent attention: 3 dense MLP + 58 MoE"),
        ("openai/gpt-oss-20b", "24 layers, each with MoE: 12 x (1 window 128 + 1 full attention)"),
        (
            "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
            "52 layers: 23 Mamba-2 + 23 MoE + 6 full attention, in no order that repeats",
        ),
        ("tiiuae/Falcon-H1-7B-Instruct", "44 layers: full attention and Mamba-2 with dense MLP"),
        ("state-spaces/mamba-2.8b-hf", "64 layers: Mamba"),
        ("zai-org/GLM-5-FP8", "78 layers, each with latent attention and indexer: 3 dense MLP + 75 MoE"),
    ],
)
def test_the_order_of_layers_in_words(subject_of: SubjectOf, model: str, pattern: str) -> None:
    assert _report(subject_of(model))[0].layer_pattern == pattern


@pytest.mark.parametrize(
    ("config", "pattern"),
    [
        (
            "moonshotai__Kimi-Linear-48B-A3B-Instruct",
            "27 layers: 1 Kimi delta attention with dense MLP + 6 x (2 Kimi delta attention with MoE"
            " + 1 latent attention with MoE + 1 Kimi delta attention with MoE)"
            " + 1 Kimi delta attention with MoE + 1 latent attention with MoE",
        ),
        (
            "tencent__Tencent-Hunyuan-Large",
            "64 layers, each with MoE: 32 x (1 full attention + 1 shared cache)",
        ),
        ("stepfun-ai__step3", "61 layers, each with full attention: 4 dense MLP + 56 MoE + 1 dense MLP"),
        ("meituan-longcat__LongCat-Flash-Chat", "28 layers: 2 x latent attention with MoE"),
        ("facebook__bart-large-cnn", "12 layers: full attention and cross-attention with dense MLP"),
        ("BAAI__bge-m3", "24 layers: uncached attention with dense MLP"),
        (
            "deepseek-ai__DeepSeek-V4-Pro",
            "61 layers, each with MoE: 1 compressed 128:1 + 30 x (1 compressed 128:1 + 1 compressed 4:1)",
        ),
        (
            "meta-llama__Llama-4-Maverick-17B-128E-Instruct",
            "48 layers: 12 x (1 chunk 8,192 with dense MLP + 1 chunk 8,192 with MoE"
            " + 1 chunk 8,192 with dense MLP + 1 full attention with MoE)",
        ),
    ],
)
def test_the_order_of_further_structures(config: str, pattern: str) -> None:
    assert _map(config).pattern == pattern


def test_kinds_of_gemma_with_the_cache_of_each(subject_of: SubjectOf) -> None:
    report, figures = _report(subject_of("google/gemma-3-27b-it"))
    window, full = report.layer_kinds
    assert (window.shape, window.ffn, window.count) == ("window", "dense", 52)
    assert (full.label, full.count, full.layers) == ("Full attention with dense MLP", 10, "5, 11, … 59")
    assert report.layers == [0, 0, 0, 0, 0, 1] * 10 + [0, 0]
    # 16 KV heads of 128, keys and values in 16 bit: 8,192 B a token and layer.
    [growing] = [figures[key] for key in full.figures]
    assert (growing.value, growing.unit) == (81_920, "B")
    assert growing.arithmetic == "2 x 10 layers x 16 KV heads x 128 x 2 B = 81,920 B per token"
    [bounded] = [figures[key] for key in window.figures]
    assert (bounded.value, bounded.unit) == (0.40625, "GiB")
    assert bounded.arithmetic == (
        "one layer: 1,024 tokens x 8,192 B; 52 window-1,024 layers x 8,388,608 B = 436,207,616 B per sequence"
    )


def test_a_state_tells_its_convolution_and_its_matrix(subject_of: SubjectOf) -> None:
    report, figures = _report(subject_of("Qwen/Qwen3-Next-80B-A3B-Instruct"))
    delta = report.layer_kinds[0]
    assert (delta.shape, delta.count, delta.layers) == ("state", 36, "0–2, 4–6, … 44–46")
    [state] = [figures[key] for key in delta.figures]
    assert state.arithmetic.startswith("one layer: 24,576 of convolution x 2 B + 524,288 of state x ")


def test_a_compressed_cache_tells_its_rows_and_its_window() -> None:
    # Per 4 tokens a row of 512 values and an indexer key of 128 B with its scale; 128 tokens uncompressed.
    found = _map("deepseek-ai__DeepSeek-V4-Pro")
    growing, bounded = (found.figures[key] for key in found.kinds[-1].figures)
    assert growing.arithmetic == "30 compressed layers x (512 x 2 B + 132 B) / 4 = 8,670 B per token"
    assert bounded.arithmetic.startswith(
        "one layer: 128 tokens x 512 x 2 B + tokens that are not compressed yet"
    )


def test_layers_of_both_sorts_have_both_figures(subject_of: SubjectOf) -> None:
    report, figures = _report(subject_of("tiiuae/Falcon-H1-7B-Instruct"))
    [kind] = report.layer_kinds
    assert kind.shape == "mixed"
    assert [figures[key].label for key in kind.figures] == ["Cache per token", "Cache per sequence, filled"]


def test_layers_without_a_cache_of_their_own_say_so() -> None:
    shared = _map("tencent__Tencent-Hunyuan-Large").kinds[1]
    assert (shared.shape, shared.figures) == ("shared", [])
    assert shared.note == "Reads the cache of an earlier layer (layer 1 that of 0) and keeps none."
    [encoder] = _map("BAAI__bge-m3").kinds
    assert (encoder.shape, encoder.note) == ("none", "Keeps no cache.")


def test_layers_of_a_cache_that_is_not_understood_are_withheld(subject_of: SubjectOf) -> None:
    config = json.loads((CONFIGS / "Qwen__Qwen3-14B.json").read_text("utf-8"))
    config |= {"model_type": "never-heard-of", "architectures": ["NeverHeardOf"], "layer_types": ["odd"] * 40}
    architecture = describe(read_config(json.dumps(config)))
    assert architecture.kv_withheld
    checkpoint = subject_of("Qwen/Qwen3-14B").checkpoint

    report, figures = inspect_checkpoint(architecture, checkpoint)
    assert (report.layer_kinds, report.layers) == ([], [])
    assert report.layer_pattern == architecture.kv_withheld[0]
    assert all(key.startswith("checkpoint.parts.") for key in figures)
    assert sum(part.bytes for part in report.parts) == checkpoint.stored_bytes


def test_kinds_share_out_the_whole_cache(catalog: Catalog, subject_of: SubjectOf) -> None:
    for entry in catalog.models:
        report, figures = _report(subject_of(entry.id))
        told = sum(
            figures[key].value or 0
            for kind in report.layer_kinds
            for key in kind.figures
            if key.endswith("kv_bytes_per_token")
        )
        found = inspect(_opened(entry.id, catalog))
        assert found is not None
        assert told == found.kv_bytes_per_token, entry.id
        assert sum(kind.count for kind in report.layer_kinds) == len(report.layers), entry.id


def _opened(model_id: str, catalog: Catalog) -> Model:
    from willitserve.reading import from_catalog

    entry = catalog.find_model(model_id)
    assert entry is not None
    return from_catalog(entry, model_id)


# --- in the reports ---------------------------------------------------------------------------------------


def test_a_plan_carries_the_inspection_and_its_figures(catalog: Catalog, model_of: ModelOf) -> None:
    report = _plan(catalog, model_of("openai/gpt-oss-20b"), kv="fp8")
    assert report.checkpoint is not None
    assert report.checkpoint.layer_kinds[1].label == "Full attention with MoE"
    # FP8 keys and values: half of 24,576 B.
    assert report.figures["checkpoint.layer_kinds.1.kv_bytes_per_token"].value == 12_288
    assert report.figures["checkpoint.parts.routed_expert.mxfp4.bytes"].unit == "GiB"


def test_without_a_card_the_checkpoint_is_still_told(catalog: Catalog, model_of: ModelOf) -> None:
    report = _plan(catalog, model_of("Qwen/Qwen3-8B"), gpu="h100")
    assert report.memory is None
    assert report.checkpoint is not None
    assert report.figures["checkpoint.layer_kinds.0.kv_bytes_per_token"].value == 147_456


def test_the_same_subject_is_inspected_once(subject_of: SubjectOf) -> None:
    subject = subject_of("Qwen/Qwen3-8B")
    assert inspect_subject(subject, 16, "bfloat16") is inspect_subject(subject, 16, "bfloat16")
    assert inspect_subject(subject, 8, "fp8") is not inspect_subject(subject, 16, "bfloat16")


def test_inspect_carries_it_too(model_of: ModelOf) -> None:
    found = inspect(model_of("meta-llama/Llama-3.1-8B"))
    assert found is not None
    assert sum(part.bytes for part in found.checkpoint.parts) == found.weight_bytes
