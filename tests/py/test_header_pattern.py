"""Patterns and tensor lists stand for each other exactly."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from willitserve.errors import CatalogError
from willitserve.header_pattern import NamedTensor, TensorPattern, compact, expand

HEADERS = Path(__file__).resolve().parents[1] / "data" / "headers"


def pattern(name: str) -> TensorPattern:
    return TensorPattern(name=name, dtype="BF16", shape=(2, 3))


def names(*texts: str) -> list[str]:
    return [tensor.name for tensor in expand(pattern(text) for text in texts)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("lm_head.weight", ["lm_head.weight"], id="one tensor"),
        pytest.param("h.{0-2}.w", ["h.0.w", "h.1.w", "h.2.w"], id="both ends belong to the range"),
        pytest.param("h.{7}.w", ["h.7.w"], id="one index"),
        pytest.param("h.{3-12/4}.w", ["h.3.w", "h.7.w", "h.11.w"], id="step"),
        pytest.param("h.{0,2-3,9}", ["h.0", "h.2", "h.3", "h.9"], id="list"),
        pytest.param("a.{0-1}.b.{4-5}", ["a.0.b.4", "a.0.b.5", "a.1.b.4", "a.1.b.5"], id="every combination"),
    ],
)
def test_expand(text: str, expected: list[str]) -> None:
    assert names(text) == expected


def test_expand_keeps_dtype_and_shape() -> None:
    scalar = TensorPattern(name="m.{0-1}.scale", dtype="F32", shape=())
    assert list(expand([scalar])) == [
        NamedTensor("m.0.scale", "F32", ()),
        NamedTensor("m.1.scale", "F32", ()),
    ]


@pytest.mark.parametrize(
    "text", ["h.{", "h.}", "h.{a}", "h.{1-}", "h.{0-3/}", "h.{}", "h.{{0}}", "h.{-1}", "h.{1,}"]
)
def test_malformed_braces_are_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="name"):
        pattern(text)


@pytest.mark.parametrize("text", ["h.{3-1}", "h.{2,2}", "h.{0-4,3}"])
def test_indices_must_ascend(text: str) -> None:
    with pytest.raises(CatalogError, match="must ascend"):
        names(text)


def test_a_negative_extent_is_refused() -> None:
    with pytest.raises(ValidationError, match="shape"):
        TensorPattern(name="w", dtype="BF16", shape=(2, -1))


def test_compact_writes_exceptions_as_further_lines() -> None:
    wide = [NamedTensor(f"h.{layer}.w", "BF16", (8, 8)) for layer in (0, 1, 2, 5)]
    narrow = [NamedTensor(f"h.{layer}.w", "BF16", (4, 8)) for layer in (3, 4)]
    quantized = NamedTensor("h.6.w", "F8_E4M3", (8, 8))
    written = [(line.name, line.dtype, line.shape) for line in compact([*wide, *narrow, quantized])]
    assert written == [
        ("h.{0-2,5}.w", "BF16", (8, 8)),
        ("h.{3-4}.w", "BF16", (4, 8)),
        ("h.6.w", "F8_E4M3", (8, 8)),
    ]


def test_compact_joins_only_full_grids() -> None:
    points = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]
    tensors = [NamedTensor(f"h.{layer}.e.{expert}", "BF16", (1,)) for layer, expert in points]
    assert [line.name for line in compact(tensors)] == ["h.{0-1}.e.{0-1}", "h.2.e.0"]


def test_compact_leaves_numbers_that_would_not_come_back() -> None:
    tensors = [NamedTensor("h.00.w", "BF16", (1,)), NamedTensor("h.01.w", "BF16", (1,))]
    assert [line.name for line in compact(tensors)] == ["h.00.w", "h.01.w"]


index = st.one_of(st.integers(0, 12), st.integers(0, 10**6)).map(str)
word = st.sampled_from(["h", "w", "experts", "q_proj", "weight", "01"])
tensor = st.builds(
    NamedTensor,
    st.lists(st.one_of(index, word), min_size=1, max_size=5).map(".".join),
    st.sampled_from(["BF16", "F8_E4M3"]),
    st.sampled_from([(), (4,), (4, 8)]),
)


@given(st.lists(tensor, unique_by=lambda one: one.name, max_size=40))
def test_expand_undoes_compact(tensors: list[NamedTensor]) -> None:
    assert sorted(expand(compact(tensors))) == sorted(tensors)


@pytest.mark.parametrize(
    ("folder", "lines"),
    [("HuggingFaceTB__SmolLM2-135M", 11), ("LiquidAI__LFM2-1.2B", 16), ("openai-community__gpt2", 17)],
)
def test_a_whole_header_comes_back_from_a_few_lines(folder: str, lines: int) -> None:
    tensors = header_of(folder)
    patterns = compact(tensors)
    assert len(patterns) == lines
    assert sorted(expand(patterns)) == sorted(tensors)


def header_of(folder: str) -> list[NamedTensor]:
    header = json.loads(gzip.decompress((HEADERS / f"{folder}.header.json.gz").read_bytes()))
    return [
        NamedTensor(name, entry["dtype"], tuple(entry["shape"]))
        for name, entry in header.items()
        if name != "__metadata__"
    ]
