"""Checkpoints folded from headers: published models counted to the unit, and the rules that their counts rest
on."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from math import prod
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given

from strategies import Entry, entries, layer_names
from willitserve.architecture import (
    Architecture,
    FullAttention,
    Layer,
    MixtureOfExperts,
    RecurrentState,
    SharedKv,
)
from willitserve.checkpoint import Checkpoint, CheckpointBuilder, Part, TensorGroup
from willitserve.errors import RepositoryError
from willitserve.header_pattern import TensorPattern, expand
from willitserve.safetensors import lay_out

PATTERNS = Path(__file__).resolve().parents[1] / "data" / "header_patterns"
Model = dict[str, object]

ATTENTION = FullAttention(num_heads=8, num_kv_heads=8, head_dim=64, v_head_dim=64)
STATE = RecurrentState(
    kind="kda",
    conv_elements=1,
    conv_dtype_bits=16,
    state_elements=1,
    state_dtype_bits=32,
    num_heads=8,
    num_groups=0,
)


def architecture(
    *,
    num_layers: int,
    tied: bool = False,
    experts: tuple[int, int] | None = None,
    sharing_kv: Iterable[int] = (),
    recurrent: Iterable[int] = (),
) -> Architecture:
    """A description with what counting asks for; the rest is of no consequence here."""
    sharing, states = set(sharing_kv), set(recurrent)

    def layer(index: int) -> Layer:
        shared = SharedKv(num_heads=8, num_kv_heads=8, head_dim=64, source_layer=0, window=None)
        cache = shared if index in sharing else STATE if index in states else ATTENTION
        return Layer(index=index, caches=(cache,), ffn="dense", ffn_width=4)

    moe = None
    if experts is not None:
        moe = MixtureOfExperts(
            num_experts=experts[0],
            experts_per_token=experts[1],
            expert_width=4,
            num_shared_experts=0,
            shared_width=0,
        )
    return Architecture(
        name="Test",
        model_type="test",
        task="generate",
        layers=tuple(layer(index) for index in range(num_layers)),
        num_hidden_layers=num_layers,
        hidden_size=512,
        vocab_size=None,
        num_attention_heads=8,
        num_kv_heads=8,
        head_dim=64,
        moe=moe,
        max_model_len=None,
        max_model_len_because="",
        dtype=None,
        tie_word_embeddings=tied,
        tie_because="",
    )


def fold(
    *files: Iterable[Entry],
    described: Architecture | None = None,
    config: Mapping[str, object] | None = None,
) -> Checkpoint:
    """The checkpoint of these files."""
    builder = CheckpointBuilder()
    for number, tensors in enumerate(files, 1):
        builder.add(f"model-{number:05}.safetensors", lay_out(tensors))
    return builder.finish(described, config)


def named(checkpoint: Checkpoint, pattern: str) -> TensorGroup:
    """The one group of that pattern."""
    (group,) = [group for group in checkpoint.groups if group.pattern == pattern]
    return group


PUBLISHED = sorted(path.stem for path in PATTERNS.glob("*.json"))


@cache
def published(stem: str) -> Model:
    """A file of tests/data/header_patterns."""
    return cast("Model", json.loads((PATTERNS / f"{stem}.json").read_text("utf-8")))


@cache
def checkpoint_of(stem: str) -> Checkpoint:
    """The checkpoint that such a file describes."""
    model = published(stem)
    lines = cast("list[tuple[str, str, list[int]]]", model["tensors"])
    patterns = [TensorPattern(name=name, dtype=dtype, shape=tuple(shape)) for name, dtype, shape in lines]
    described = architecture(
        num_layers=cast("int", model["num_hidden_layers"]),
        tied=cast("bool", model["tie_word_embeddings"]),
        experts=cast("tuple[int, int] | None", model["experts"]),
        sharing_kv=cast("list[int]", model["layers_sharing_kv"]),
    )
    return fold(expand(patterns), described=described, config=cast("Mapping[str, object]", model["config"]))


@pytest.mark.parametrize("stem", PUBLISHED)
def test_what_plain_serving_loads(stem: str) -> None:
    checkpoint = checkpoint_of(stem)
    found = {
        "num_params": checkpoint.num_params,
        "num_draft_params": checkpoint.num_draft_params,
        "stored_bytes": checkpoint.stored_bytes,
    }
    assert found == published(stem)["expected"]
    assert checkpoint.not_understood == ()


@pytest.mark.parametrize("stem", PUBLISHED)
def test_all_that_is_stored_is_what_the_hub_publishes(stem: str) -> None:
    told = cast("dict[str, object] | None", published(stem)["published"])
    groups = checkpoint_of(stem).groups
    elements = {group: prod(group.shape) * group.count for group in groups}
    logical = sum(group.num_params for group in groups)
    buffers = sum(elements[group] for group in groups if group.part is Part.BUFFER)
    counts = {
        "logical": logical,
        "logical and buffers": logical + buffers,
        "elements": sum(elements.values()),
    }
    if told is None:
        assert logical > 0
    else:
        assert counts[cast("str", told["counts"])] == told["elements"]


QUANTIZATIONS = {
    "deepseek-ai__DeepSeek-V3": ("fp8-block e4m3 128x128", "fp8", "fp8", (128, 128), None, None),
    "deepseek-ai__DeepSeek-V4-Flash": ("mxfp4 + fp8-block e4m3 128x128", "fp8", "fp8", (128, 128), 32, None),
    "hugging-quants__Meta-Llama-3.1-8B-Instruct-AWQ-INT4": (
        "awq int4 group 128",
        "awq",
        None,
        None,
        128,
        None,
    ),
    "hugging-quants__Meta-Llama-3.1-8B-Instruct-GPTQ-INT4": (
        "gptq int4 group 128",
        "gptq",
        None,
        None,
        128,
        None,
    ),
    "jeevanchaps__Meta-Llama3.1-8B-Instruct-bnb-int8": (
        "bitsandbytes int8",
        "bitsandbytes",
        "int8",
        None,
        None,
        None,
    ),
    "moonshotai__Kimi-K2.5": ("compressed-tensors int4 group 32", "compressed-tensors", None, None, 32, None),
    "nvidia__Llama-3.1-70B-Instruct-FP8": ("modelopt fp8 e4m3", "modelopt", "fp8", None, None, "fp8"),
    "nvidia__Qwen3-235B-A22B-NVFP4": ("modelopt nvfp4", "modelopt", "nvfp4", None, 16, "fp8"),
    "openai__gpt-oss-20b": ("mxfp4", "mxfp4", None, None, 32, None),
    "Qwen__Qwen3-14B-MLX-4bit": ("mlx 4-bit group 64", "mlx", None, None, 64, None),
    "RedHatAI__Meta-Llama-3.1-8B-Instruct-FP8-dynamic": (
        "compressed-tensors fp8 e4m3",
        "compressed-tensors",
        "fp8",
        None,
        None,
        None,
    ),
    "RedHatAI__Meta-Llama-3.1-8B-Instruct-quantized.w8a8": (
        "compressed-tensors int8",
        "compressed-tensors",
        "int8",
        None,
        None,
        None,
    ),
    "unsloth__Meta-Llama-3.1-8B-bnb-4bit": ("bitsandbytes nf4", "bitsandbytes", None, None, 64, None),
}


@pytest.mark.parametrize("stem", PUBLISHED)
def test_quantization_is_named_as_engineers_name_it(stem: str) -> None:
    checkpoint = checkpoint_of(stem)
    found = (
        checkpoint.quantization,
        checkpoint.quantization_method,
        checkpoint.activation_format,
        checkpoint.weight_block,
        checkpoint.group_size,
        checkpoint.kv_cache_format,
    )
    assert found == QUANTIZATIONS.get(stem, (None, None, None, None, None, None))


@pytest.mark.parametrize(
    ("stem", "active"),
    [
        # openai/gpt-oss model card: 3.61 B active, embeddings (0.58 B) aside.
        ("openai__gpt-oss-20b", 4_187_440_704),
        # 671,026,419,200 less 248 of 256 experts of 44,040,192 in each of 58 layers: the report says 37 B.
        ("deepseek-ai__DeepSeek-V3", 37_552_297_472),
        ("meta-llama__Llama-2-7b-hf", 6_738_415_616),
    ],
)
def test_active_parameters(stem: str, active: int) -> None:
    assert checkpoint_of(stem).num_active_params == active


def test_experts_of_a_layer_are_one_group() -> None:
    tensors: list[Entry] = [
        (f"model.layers.{layer}.mlp.experts.{expert}.up_proj.weight", "BF16", (4, 8))
        for layer in range(3)
        for expert in range(10)
    ]
    checkpoint = fold(tensors, described=architecture(num_layers=3, experts=(10, 2)))
    assert [(group.layer, group.count, group.stored_bytes) for group in checkpoint.groups] == [
        (0, 10, 640),
        (1, 10, 640),
        (2, 10, 640),
    ]
    assert checkpoint.num_active_params == 3 * 2 * 32


def test_active_parameters_are_withheld_where_routing_is_not_known() -> None:
    tensors: list[Entry] = [("model.layers.0.mlp.experts.0.up_proj.weight", "BF16", (4, 8))]
    assert fold(tensors, described=architecture(num_layers=1)).num_active_params is None


def test_a_tensor_in_two_files_is_refused_with_both_names() -> None:
    tensors: list[Entry] = [("model.norm.weight", "BF16", (8,)), ("lm_head.weight", "BF16", (8, 8))]
    builder = CheckpointBuilder()
    builder.add("model.safetensors", lay_out(tensors))
    with pytest.raises(
        RepositoryError, match=r"'model\.norm\.weight' and 1 more is in model\.safetensors and again in con"
    ):
        builder.add("consolidated.safetensors", lay_out(tensors))
    assert (builder.num_tensors, builder.stored_bytes) == (2, 144)


@pytest.mark.parametrize(
    ("tied", "head_rows", "served"),
    [(True, 16, False), (False, 16, True), pytest.param(True, 24, True, id="another vocabulary is no copy")],
)
def test_a_stored_copy_of_a_tied_matrix_is_not_loaded(tied: bool, head_rows: int, served: bool) -> None:
    tensors: list[Entry] = [
        ("model.embed_tokens.weight", "BF16", (16, 8)),
        ("lm_head.weight", "BF16", (head_rows, 8)),
        ("lm_head.bias", "BF16", (head_rows,)),
    ]
    checkpoint = fold(tensors, described=architecture(num_layers=1, tied=tied))
    assert named(checkpoint, "lm_head.weight").served is served
    assert named(checkpoint, "lm_head.bias").served
    assert checkpoint.num_params == 128 + head_rows + (head_rows * 8 if served else 0)


def test_a_classifier_is_no_copy_of_an_embedding_of_its_shape() -> None:
    # bge-reranker-v2-m3: one segment and one label, both 1 x 1024.
    tensors: list[Entry] = [
        ("roberta.embeddings.word_embeddings.weight", "F32", (16, 8)),
        ("roberta.embeddings.token_type_embeddings.weight", "F32", (1, 8)),
        ("classifier.out_proj.weight", "F32", (1, 8)),
    ]
    checkpoint = fold(tensors, described=architecture(num_layers=1, tied=True))
    assert (checkpoint.num_params, checkpoint.notes) == (144, ())


def test_a_quantized_copy_is_left_out_with_its_scales() -> None:
    def matrix(name: str) -> list[Entry]:
        return [
            (f"{name}.weight", "U32", (16, 8)),
            (f"{name}.scales", "BF16", (16, 1)),
            (f"{name}.biases", "BF16", (16, 1)),
        ]

    checkpoint = fold(
        [*matrix("model.embed_tokens"), *matrix("lm_head")],
        described=architecture(num_layers=1, tied=True),
        config={"quantization": {"bits": 4, "group_size": 64}},
    )
    assert checkpoint.num_params == 16 * 64
    assert {group.pattern for group in checkpoint.groups if not group.served} == {
        "lm_head.weight",
        "lm_head.scales",
        "lm_head.biases",
    }


@pytest.mark.parametrize("described", [architecture(num_layers=2), None], ids=["by index", "by its modules"])
def test_layers_beyond_the_last_are_draft_blocks(described: Architecture | None) -> None:
    tensors: list[Entry] = [
        (f"model.layers.{layer}.mlp.up_proj.weight", "BF16", (4, 8)) for layer in range(3)
    ]
    tensors += [
        ("model.layers.2.eh_proj.weight", "BF16", (8, 16)),
        ("model.layers.2.enorm.weight", "BF16", (8,)),
    ]
    checkpoint = fold(tensors, described=described)
    assert (checkpoint.num_params, checkpoint.num_draft_params) == (64, 168)
    assert {group.layer for group in checkpoint.groups if not group.served} == {2}


def test_keys_and_values_that_no_layer_reads_are_not_loaded() -> None:
    tensors: list[Entry] = [
        (f"model.layers.{layer}.self_attn.{name}.weight", "BF16", shape)
        for layer in range(2)
        for name, shape in (("q_proj", (8, 8)), ("k_proj", (4, 8)), ("v_proj", (4, 8)), ("k_norm", (4,)))
    ]
    checkpoint = fold(tensors, described=architecture(num_layers=2, sharing_kv=[1]))
    assert checkpoint.num_params == 2 * 64 + 68
    assert any("another layer's cache" in note for note in checkpoint.notes)


def test_only_the_decoder_has_layers() -> None:
    tensors: list[Entry] = [
        (f"model.encoder.layers.{layer}.fc1.weight", "F16", (4, 8)) for layer in range(32)
    ]
    tensors += [(f"model.decoder.layers.{layer}.fc1.weight", "F16", (4, 8)) for layer in range(4)]
    tensors += [("model.encoder.conv1.weight", "F16", (8, 2, 3))]
    checkpoint = fold(tensors, described=architecture(num_layers=4))
    assert named(checkpoint, "model.encoder.layers.*.fc1.weight").count == 32
    assert named(checkpoint, "model.encoder.layers.*.fc1.weight").part is Part.AUDIO
    assert sorted(group.layer for group in checkpoint.groups if group.layer is not None) == [0, 1, 2, 3]
    assert checkpoint.num_draft_params == 0


def test_a_second_stack_beside_towers_is_a_tower() -> None:
    tensors: list[Entry] = [
        (f"model.layers.{layer}.mlp.up_proj.weight", "BF16", (64, 64)) for layer in range(2)
    ]
    tensors += [
        (f"model.qwen2_model.layers.{layer}.mlp.up_proj.weight", "BF16", (4, 8)) for layer in range(4)
    ]
    tensors += [("model.sam_model.neck.0.weight", "BF16", (4, 8))]
    checkpoint = fold(tensors, described=architecture(num_layers=2))
    second = named(checkpoint, "model.qwen2_model.layers.*.mlp.up_proj.weight")
    assert (second.part, second.layer, second.count) == (Part.VISION, None, 4)
    assert checkpoint.num_params == 2 * 4096 + 5 * 32


def test_shared_mlp_without_routed_experts_is_dense() -> None:
    tensors: list[Entry] = [("model.layers.0.shared_mlp.input_linear.weight", "BF16", (4, 8))]
    assert fold(tensors).groups[0].part is Part.DENSE_MLP


def test_all_experts_in_one_tensor_are_told_by_their_number() -> None:
    tensors: list[Entry] = [("model.layers.0.mlp.input_linear.weight", "BF16", (8, 4, 8))]
    checkpoint = fold(tensors, described=architecture(num_layers=1, experts=(8, 2)))
    assert checkpoint.groups[0].part is Part.ROUTED_EXPERT
    assert checkpoint.num_active_params == 64


def test_attention_of_a_recurrent_layer_is_its_state() -> None:
    tensors: list[Entry] = [
        (f"model.layers.{layer}.self_attn.q_proj.weight", "BF16", (4, 8)) for layer in range(2)
    ]
    checkpoint = fold(tensors, described=architecture(num_layers=2, recurrent=[0]))
    assert [group.part for group in checkpoint.groups] == [Part.STATE, Part.ATTENTION]


@pytest.mark.parametrize(
    ("name", "dtype", "shape"),
    [
        ("gpt_neox.layers.0.attention.bias", "BOOL", (1, 1, 16, 16)),
        ("h.0.attn.bias", "F32", (1, 1, 16, 16)),
        ("gpt_neox.layers.0.attention.masked_bias", "F32", ()),
        ("model.layers.0.self_attn.rotary_emb.inv_freq", "F32", (64,)),
        ("roberta.embeddings.position_ids", "I64", (1, 514)),
        ("model.layers.0.self_attn.query_decay", "F32", (64, 256, 1)),
        ("model.layers.0.self_attn.diagonal_decay", "F32", (64, 1, 256, 256)),
        ("encoder.conv.num_batches_tracked", "I64", ()),
        ("model.visual.some_index_table", "I32", (16, 16)),
    ],
)
def test_buffers_are_not_parameters(name: str, dtype: str, shape: tuple[int, ...]) -> None:
    (group,) = fold([(name, dtype, shape)]).groups
    assert (group.part, group.num_params, group.served) == (Part.BUFFER, 0, False)


def test_what_is_not_understood_is_named_and_withheld() -> None:
    tensors: list[Entry] = [
        ("model.embed_tokens.weight", "BF16", (16, 8)),
        ("model.layers.0.mlp.up_proj.weight", "U8", (64, 100)),
        ("model.layers.1.mlp.up_proj.weight", "U8", (64, 100)),
        ("mtp.fc.weight", "BF16", (4, 8)),
    ]
    checkpoint = fold(tensors, config={"quantization_config": {"quant_method": "new"}})
    assert (checkpoint.num_params, checkpoint.num_active_params, checkpoint.num_draft_params) == (
        None,
        None,
        32,
    )
    assert checkpoint.stored_bytes == 256 + 2 * 6400 + 64
    assert checkpoint.formats == {"unknown": 12_800, "bf16": 320}
    assert checkpoint.quantization == "new (packing not understood)"
    assert checkpoint.not_understood == (
        "How model.layers.*.mlp.up_proj.weight (2 x U8) packs its values is not known:"
        " its bytes are counted, its parameters are not.",
    )


def test_an_unknown_dtype_is_never_zero_bytes() -> None:
    checkpoint = fold([("model.layers.0.mlp.up_proj.weight", "F3_X", (8, 8))])
    assert (checkpoint.stored_bytes, checkpoint.num_params) == (24, None)
    assert checkpoint.groups[0].format == "unknown"


def test_sentences_about_what_is_not_understood_stay_few() -> None:
    tensors: list[Entry] = [(f"model.layers.0.mlp.p{number}.weight", "U8", (8, 8)) for number in range(20)]
    not_understood = fold(tensors).not_understood
    assert len(not_understood) == 9
    assert not_understood[-1] == "The same holds for 12 more name patterns."


def test_a_declared_format_that_no_tensor_has_is_said() -> None:
    tensors: list[Entry] = [("model.layers.0.mlp.up_proj.weight", "BF16", (8, 8))]
    checkpoint = fold(tensors, config={"quantization_config": {"quant_method": "fp8"}})
    assert checkpoint.quantization is None
    assert checkpoint.notes == ("fp8 quantization is declared, but every stored weight is plain.",)


def test_int4_weights_with_int8_activations_say_both() -> None:
    tensors: list[Entry] = [
        ("model.layers.0.mlp.up_proj.weight_packed", "I32", (8, 16)),
        ("model.layers.0.mlp.up_proj.weight_scale", "BF16", (8, 1)),
    ]
    weights = {"num_bits": 4, "type": "int", "group_size": 128}
    group = {"targets": ["Linear"], "weights": weights, "input_activations": {"num_bits": 8, "type": "int"}}
    checkpoint = fold(
        tensors,
        config={"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"g": group}}},
    )
    assert checkpoint.quantization == "compressed-tensors int4, int8 activations"


def test_speech_output_of_an_omni_model_is_not_loaded() -> None:
    tensors: list[Entry] = [
        ("thinker.model.layers.0.mlp.up_proj.weight", "BF16", (8, 8)),
        ("talker.model.layers.0.mlp.up_proj.weight", "BF16", (8, 8)),
    ]
    checkpoint = fold(tensors, described=architecture(num_layers=1))
    assert checkpoint.num_params == 64
    assert not named(checkpoint, "talker.model.layers.*.mlp.up_proj.weight").served


def test_a_number_too_long_for_an_index_is_part_of_the_name() -> None:
    tensors: list[Entry] = [(f"model.layers.{'9' * 5000}.mlp.up_proj.weight", "BF16", (8, 8))]
    (group,) = fold(tensors).groups
    assert group.layer is None


@given(entries(layer_names))
def test_neither_order_nor_shards_change_the_checkpoint(tensors: list[Entry]) -> None:
    whole = fold(tensors, described=architecture(num_layers=5, experts=(10, 2)))
    parted = fold(tensors[1::2], tensors[::2], described=architecture(num_layers=5, experts=(10, 2)))
    assert parted == whole


@given(entries())
def test_any_names_are_counted(tensors: list[Entry]) -> None:
    checkpoint = fold(tensors, described=architecture(num_layers=2, tied=True))
    assert checkpoint.num_tensors == len(tensors) == sum(group.count for group in checkpoint.groups)
    assert checkpoint.stored_bytes == sum(group.stored_bytes for group in checkpoint.groups)
    assert sum(checkpoint.formats.values()) == checkpoint.stored_bytes
