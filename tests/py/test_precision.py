"""Formats, dtypes and the policy. Origin of the support table: vLLM 0.33.0 (catalog/formats.yaml)."""

import pytest

from willitserve import precision
from willitserve.catalog import Catalog
from willitserve.precision import Answer


@pytest.mark.parametrize(
    ("gpu", "recommended"),
    [
        ("b200-180gb", "nvfp4"),
        ("mi355x-288gb", "mxfp4"),
        ("h100-sxm5-80gb", "fp8"),
        ("l4-24gb", "fp8"),
        ("mi300x-192gb", "fp8"),
        ("a100-sxm4-80gb", "int8"),
        ("t4-16gb", "int8"),
    ],
)
def test_the_smallest_native_format_is_recommended(catalog: Catalog, gpu: str, recommended: str) -> None:
    row, because = precision.recommend(catalog.formats, catalog.find_gpu(gpu))
    assert row.name == recommended
    assert row.label in because


def test_int4_is_never_recommended(catalog: Catalog) -> None:
    """It is weight-only everywhere: memory and bandwidth saved, no math gain."""
    assert all(precision.recommend(catalog.formats, gpu)[0].name != "int4" for gpu in catalog.gpus)


def test_an_unknown_card_gets_bf16_and_that_is_said(catalog: Catalog) -> None:
    row, because = precision.recommend(catalog.formats, None)
    assert row.name == "bf16"
    assert "not known" in because


@pytest.mark.parametrize(
    ("table_name", "capability", "answer"),
    [
        ("fp8_w8a8", "9.0", "native"),
        ("fp8_w8a8", "8.0", "weight-only"),
        ("fp8_w8a8", "gfx90a", "refused"),
        ("mxfp4", "7.5", "refused"),
        ("mxfp4", "9.0", "weight-only"),
        ("nvfp4", "gfx942", "emulated"),
        ("bf16", "7.5", "refused"),
        ("bf16", None, "unknown"),
        ("no such format", "9.0", "unknown"),
    ],
)
def test_four_answers_and_not_known(
    catalog: Catalog, table_name: str, capability: str | None, answer: Answer
) -> None:
    assert precision.answer_for(catalog.formats, table_name, capability) == answer


def test_an_fp8_checkpoint_on_an_a100_saves_memory_and_no_math(catalog: Catalog) -> None:
    row = next(entry for entry in precision.LADDER if entry.name == "fp8")
    answer = precision.answer_for(catalog.formats, row.table_name, "8.0")
    sentence = precision.sentence_for(row, answer, card="A100")
    assert "memory and bandwidth saved, no math gain" in sentence


@pytest.mark.parametrize(
    ("asked", "config", "bf16", "dtype", "changes", "refuses"),
    [
        pytest.param("auto", "bfloat16", "native", "bfloat16", False, False, id="as stored"),
        pytest.param("auto", "torch.float16", "native", "float16", False, False, id="fp16 checkpoint"),
        pytest.param("auto", "float32", "native", "bfloat16", False, False, id="fp32 is halved"),
        pytest.param("auto", "bfloat16", "refused", "float16", True, False, id="old card falls back"),
        pytest.param("bfloat16", "bfloat16", "refused", "bfloat16", False, True, id="old card, asked for"),
        pytest.param("half", "bfloat16", "refused", "float16", False, False, id="old card, fp16 asked for"),
        pytest.param("float32", "bfloat16", "native", "float32", False, False, id="fp32 asked for"),
        pytest.param("auto", None, "native", "bfloat16", False, False, id="config is silent"),
    ],
)
def test_the_run_dtype(
    asked: str, config: str | None, bf16: Answer, dtype: str, *, changes: bool, refuses: bool
) -> None:
    found, change, refusal = precision.run_dtype(asked, config, bf16=bf16, capability="7.5")
    assert found == dtype
    assert (change is not None) is changes
    assert (refusal is not None) is refuses


@pytest.mark.parametrize(
    ("asked", "run", "name", "bits"),
    [
        ("auto", "bfloat16", "bfloat16", 16),
        ("auto", "float32", "float32", 32),
        ("fp8", "bfloat16", "fp8", 8),
        ("fp8_e5m2", "float16", "fp8_e5m2", 8),
        ("bf16", "float32", "bf16", 16),
    ],
)
def test_the_cache_dtype(asked: str, run: str, name: str, bits: int) -> None:
    found, found_bits, sentence = precision.kv_dtype(asked, run=run)
    assert (found, found_bits) == (name, bits)
    assert sentence.startswith("KV cache in")


def test_every_row_of_the_ladder_is_in_the_table(catalog: Catalog) -> None:
    assert {row.table_name for row in precision.LADDER} <= set(catalog.formats.formats)
    assert set(precision.STORED_FORMATS.values()) - {"fp32"} <= set(catalog.formats.formats)
    assert set(precision.KV_TABLE_NAMES.values()) <= set(catalog.formats.formats)
