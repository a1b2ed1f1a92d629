"""The element types of safetensors: one table of widths and kinds, and the names that people know them by.

Source: the `Dtype` enum of the safetensors reference (0.8.0). Two rules go beyond it, for files of newer
writers:

- `ALIASES`: other spellings of listed types that Hub tooling accepts.
- A type that is not listed is unknown, not an error, when its name states its width the way listed names do
  (`F3_X`: 3 bits), so that the offsets can be checked against it. The bytes of such a tensor are right, what
  they mean stays unknown.
"""

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["float", "int", "bool", "complex", "scale", "unknown"]


@dataclass(frozen=True, slots=True)
class Dtype:
    """One element type."""

    name: str
    """The reference spelling: `BF16`."""
    bits: int
    kind: Kind
    """scale: exponents without a mantissa, which only ever scale other values."""
    label: str
    """As engineers write it: `bf16`, `fp8 e4m3`."""


_LISTED = (
    Dtype("BOOL", 8, "bool", "bool"),
    Dtype("F4", 4, "float", "fp4"),
    Dtype("F6_E2M3", 6, "float", "fp6 e2m3"),
    Dtype("F6_E3M2", 6, "float", "fp6 e3m2"),
    Dtype("U8", 8, "int", "uint8"),
    Dtype("I8", 8, "int", "int8"),
    Dtype("F8_E5M2", 8, "float", "fp8 e5m2"),
    Dtype("F8_E4M3", 8, "float", "fp8 e4m3"),
    Dtype("F8_E8M0", 8, "scale", "e8m0"),
    Dtype("F8_E4M3FNUZ", 8, "float", "fp8 e4m3fnuz"),
    Dtype("F8_E5M2FNUZ", 8, "float", "fp8 e5m2fnuz"),
    Dtype("I16", 16, "int", "int16"),
    Dtype("U16", 16, "int", "uint16"),
    Dtype("F16", 16, "float", "fp16"),
    Dtype("BF16", 16, "float", "bf16"),
    Dtype("I32", 32, "int", "int32"),
    Dtype("U32", 32, "int", "uint32"),
    Dtype("F32", 32, "float", "fp32"),
    Dtype("C64", 64, "complex", "complex64"),
    Dtype("F64", 64, "float", "fp64"),
    Dtype("I64", 64, "int", "int64"),
    Dtype("U64", 64, "int", "uint64"),
)

ALIASES = {
    "E8M0": "F8_E8M0",
    "UE8": "F8_E8M0",
    "F8_UE8M0": "F8_E8M0",
    "FP4": "F4",
    "F4_E2M1": "F4",
    "F8_E4M3FN": "F8_E4M3",
}
"""Spellings that the reference refuses and other tools accept, with the listed type that they mean."""

DTYPES: dict[str, Dtype] = {dtype.name: dtype for dtype in _LISTED}
"""By the reference spelling."""

# A width of more than four digits is no element type, and int() of a long run of digits is slow.
_STATES_ITS_WIDTH = re.compile(r"[A-Z]{1,8}([1-9][0-9]{0,3})(?:_[A-Z0-9]{1,16})*")


def find_dtype(name: str) -> Dtype | None:
    """The type that a header calls `name`: listed, an alias, or unknown with the width that its name states;
    else None."""
    listed = DTYPES.get(ALIASES.get(name, name))
    if listed is not None:
        return listed
    stated = _STATES_ITS_WIDTH.fullmatch(name)
    return Dtype(name, int(stated[1]), "unknown", name.lower()) if stated else None


def dtype_label(name: str) -> str:
    """How an engineer writes the type that a header calls `name`; the name itself where it is not known."""
    dtype = find_dtype(name)
    return dtype.label if dtype else name
