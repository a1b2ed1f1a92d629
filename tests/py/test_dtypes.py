"""The dtype table against the reference's enum, and the two rules that go beyond it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from willitserve.dtypes import ALIASES, DTYPES, dtype_label, find_dtype

REFERENCE_BITS = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}
"""safetensors 0.8.0, `Dtype::bitsize`."""


def test_the_table_is_the_reference_enum() -> None:
    assert {name: dtype.bits for name, dtype in DTYPES.items()} == REFERENCE_BITS


@pytest.mark.parametrize("alias", sorted(ALIASES))
def test_an_alias_is_the_type_that_it_means(alias: str) -> None:
    assert find_dtype(alias) == DTYPES[ALIASES[alias]]


@pytest.mark.parametrize(
    ("name", "bits"),
    [("F3_X", 3), ("F8_E3M4", 8), ("I4", 4), ("U2", 2), ("BF8", 8), ("C128", 128), ("I512", 512)],
)
def test_an_unlisted_type_is_as_wide_as_its_name_says(name: str, bits: int) -> None:
    dtype = find_dtype(name)
    assert dtype is not None
    assert (dtype.bits, dtype.kind) == (bits, "unknown")


@pytest.mark.parametrize(
    "name", ["", "f32", "float32", "BF16 ", "F", "BFLOAT", "8", "F08", "F32-", "F99999", "F٣"]
)
def test_a_name_that_states_no_width_is_no_type(name: str) -> None:
    assert find_dtype(name) is None


@pytest.mark.parametrize(
    ("name", "label"),
    [("BF16", "bf16"), ("F16", "fp16"), ("F8_E4M3", "fp8 e4m3"), ("F3_X", "f3_x"), ("?", "?")],
)
def test_labels_are_what_engineers_write(name: str, label: str) -> None:
    assert dtype_label(name) == label


@given(st.text())
def test_any_text_is_a_type_or_none(name: str) -> None:
    dtype = find_dtype(name)
    assert dtype is None or 0 < dtype.bits < 10_000
