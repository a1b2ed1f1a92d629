"""How the values of one module are stored, told from its tensors: their words, dtypes and shapes.

A linear layer of o outputs and i inputs has o x i logical parameters. Quantized, it is stored as a tensor of
packed values and company: scales, zero points, orders. The shapes of the two say how many values share a
word, so most formats need no declaration; where they do not (compressed-tensors integers, MLX, HQQ), the
declared width is used, and without one the format is unknown: the bytes are right and no parameters are
claimed.

Sources: the layouts that the writers of each format store (gptqmodel 7.7, autoawq 0.2.9, compressed-tensors
0.20, nvidia-modelopt 0.47, bitsandbytes 0.50, hqq 0.2.8, aqlm 1.1.7, torchao 0.18, mlx-lm 0.32, transformers
5.24).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from willitserve.dtypes import Dtype, find_dtype
from willitserve.quantization import Scheme
from willitserve.units import ceil_div

UNKNOWN = "unknown"
"""The format of values whose packing neither the headers nor config.json tell."""


@dataclass(frozen=True, slots=True)
class Stored:
    """dtype and shape of one tensor."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """How a module's weight is stored."""

    format: str
    word: str
    """The tensor that holds the values: `weight`, `qweight`, …"""
    num_params: int | None
    """Logical values in one such tensor; None: not known."""
    weight_block: tuple[int, int] | None = None
    group_size: int | None = None


ALWAYS_COMPANY = frozenset(
    """
    SCB weight_scale weight_scale_inv weight_scale_2 weight_scales weight_global_scale scale_inv scale_packed
    input_scale input_scale_inv input_global_scale input_scale_ub activation_scale act_scale output_scale
    k_scale v_scale q_scale kv_scale prob_scale pre_quant_scale _weight_scale
    qzeros weight_zero_point input_zero_point _weight_zero_point g_idx weight_g_idx weight_shape weight_format
    bitmask row_offsets
    """.split()  # noqa: SIM905
)
"""Tensor words that only ever stand beside values."""

COMPANY_OF_PACKED = frozenset(
    {"scales", "scale", "s", "zero", "biases", "meta", "codebooks", "tables", "tables2"}
)
"""Tensor words that are company beside packed values and parameters of their own elsewhere: a router has a
`scale`."""

KV_SCALES = frozenset({"k_scale", "v_scale", "kv_scale"})

_WIDTHS = (2, 3, 4, 5, 6, 8)
_FP8 = frozenset({"F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ"})
_SCALE_WORDS = (
    "weight_scale_inv",
    "weight_scale",
    "scale_inv",
    "scale",
    "scales",
    "weight_scales",
    "_weight_scale",
)
_BNB_STATE = re.compile(r"weight\.quant_state\.bitsandbytes__(\w+)")


def is_company(word: str, packing: Packing | None) -> bool:
    """Whether a tensor of a module stands beside its values and holds no parameters."""
    if word in ALWAYS_COMPANY:
        return True
    if packing is None or word == packing.word:
        return False
    return word in COMPANY_OF_PACKED or word.startswith("weight.")


def find_packing(tensors: Mapping[str, Stored], scheme: Scheme, method: str | None) -> Packing | None:
    """How the weight among these tensors, by their words, is packed; None: it is not, each element is a
    value."""
    for word, read in _BY_WORD.items():
        if word in tensors:
            return read(tensors, scheme)
    for word in ("weight", ""):
        if word in tensors:
            return _plain_word(word, tensors, scheme, method)
    return None


def _plain_word(
    word: str, tensors: Mapping[str, Stored], scheme: Scheme, method: str | None
) -> Packing | None:
    """Formats that keep their values under the word that dense weights have: the dtype tells."""
    stored = tensors[word]
    if any(other == "weight.absmax" or _BNB_STATE.fullmatch(other) for other in tensors):
        return _bitsandbytes_4bit(word, tensors, scheme)
    dtype = _dtype(stored)
    scale = _scale_of(tensors)
    if dtype.kind == "unknown":
        return Packing(format=UNKNOWN, word=word, num_params=None)
    if dtype.name in _FP8:
        return _fp8(word, stored, scale)
    if dtype.kind == "float" and dtype.bits < 8:
        return _small_float(word, stored, scale, scheme)
    if dtype.kind != "int":
        return None
    if "SCB" in tensors:
        return Packing(format="int8", word=word, num_params=prod(stored.shape))
    if scale is None:
        return _integers_alone(word, stored, scheme, method)
    if dtype.name == "U32":
        return _mlx(word, stored, scale, scheme)
    if dtype.bits > 8:
        return _declared_integers(word, stored, scheme)
    if method == "bitnet":
        # transformers integrations/bitnet.py packs four ternary values per byte.
        return Packing(format="ternary", word=word, num_params=4 * prod(stored.shape))
    if dtype.name == "U8" or _dtype(scale).bits == 8:
        return _small_float(word, stored, scale, scheme)
    return Packing(format="int8", word=word, num_params=prod(stored.shape))


def _integers_alone(word: str, stored: Stored, scheme: Scheme, method: str | None) -> Packing | None:
    """Integers without scales: a table or a mask, unless they are called a weight or a method was
    declared."""
    if _dtype(stored).name == "I8" and scheme.bits == 8:
        return Packing(format="int8", word=word, num_params=prod(stored.shape))
    is_table = _dtype(stored).name in ("I64", "U64") or prod(stored.shape) <= 4096
    if word == "weight" or (not is_table and (method is not None or _dtype(stored).bits == 8)):
        return Packing(format=UNKNOWN, word=word, num_params=None)
    return None


def _gptq_or_awq(tensors: Mapping[str, Stored], scheme: Scheme) -> Packing:
    """qweight of GPTQ, [i x bits / 32, o], and of AWQ, [i, o x bits / 32]: scales [groups, o] tell them
    apart."""
    stored = tensors["qweight"]
    scales, zeros, order = tensors.get("scales"), tensors.get("qzeros"), tensors.get("g_idx")
    rows, columns = _last_two(stored)
    word_bits = _dtype(stored).bits
    widths: list[int] = []
    if scales is not None and _last_two(scales)[1] == columns:
        if zeros is not None:
            widths.append(_ratio(_last_two(zeros)[1] * _dtype(zeros).bits, columns))
        if order is not None:
            widths.append(_ratio(rows * word_bits, prod(order.shape)))
    elif scales is not None:
        widths.append(_ratio(columns * word_bits, _last_two(scales)[1]))
    bits = next((width for width in widths if width in _WIDTHS), scheme.bits)
    group = _group_size(scheme, scales, transposed=True)
    return _integers("qweight", stored, bits, group_size=group)


def _compressed_tensors(tensors: Mapping[str, Stored], scheme: Scheme) -> Packing:
    """weight_packed: 32-bit words of integers, [o, ceil(i x bits / 32)], or bytes of small floats."""
    stored = tensors["weight_packed"]
    scale = tensors.get("weight_scale")
    if "meta" in tensors or "bitmask" in tensors or scale is None:
        return Packing(format=UNKNOWN, word="weight_packed", num_params=None)
    if _dtype(stored).bits == 8:
        return _small_float("weight_packed", stored, scale, scheme)
    order = tensors.get("weight_g_idx")
    rows, columns = _last_two(stored)
    bits = _ratio(columns * 32, prod(order.shape)) if order is not None else scheme.bits
    packing = _integers(
        "weight_packed", stored, bits, group_size=_group_size(scheme, scale, transposed=False)
    )
    if packing.num_params is None or bits is None or scheme.group_size is None:
        return packing
    # The last word of a row may be part empty: whole groups then say how long a row is.
    inputs = scheme.group_size * _last_two(scale)[1]
    if ceil_div(inputs * bits, 32) == columns:
        return Packing(
            format=packing.format,
            word=packing.word,
            num_params=prod(stored.shape[:-2]) * rows * inputs,
            group_size=packing.group_size,
        )
    return packing


def _gpt_oss(tensors: Mapping[str, Stored], _: Scheme) -> Packing:
    """blocks [experts, o, i / 32, 16]: sixteen bytes hold the 32 FP4 values that share one scale."""
    return Packing(format="mxfp4", word="blocks", num_params=2 * prod(tensors["blocks"].shape), group_size=32)


def _aqlm(tensors: Mapping[str, Stored], _: Scheme) -> Packing:
    """codes [o / out_group, i / in_group, codebooks], codebooks [codebooks, entries, out_group, in_group]."""
    codes, books = tensors["codes"], tensors.get("codebooks")
    if books is None or len(codes.shape) != 3 or len(books.shape) != 4:
        return Packing(format=UNKNOWN, word="codes", num_params=None)
    return Packing(format="aqlm", word="codes", num_params=prod(codes.shape[:2]) * prod(books.shape[2:]))


def _hqq(tensors: Mapping[str, Stored], scheme: Scheme) -> Packing:
    """W_q: bytes of 8 / bits values; 3-bit values go ten into a 32-bit word."""
    stored, scale = tensors["W_q"], tensors.get("scale")
    width = _dtype(stored).bits
    if scheme.bits not in (1, *_WIDTHS):
        return Packing(format=UNKNOWN, word="W_q", num_params=None)
    per_word, (rows, columns) = width // scheme.bits, _last_two(stored)
    num_params = rows * columns * per_word
    grouped = prod(scale.shape) * scheme.group_size if scale is not None and scheme.group_size else 0
    if grouped % columns == 0 and ceil_div(grouped // columns, per_word) == rows:
        num_params = grouped  # the last row of words may be part empty
    return Packing(
        format=f"int{scheme.bits}", word="W_q", num_params=num_params, group_size=scheme.group_size
    )


def _torchao(tensors: Mapping[str, Stored], scheme: Scheme) -> Packing:
    stored = tensors["_weight_qdata"]
    if _dtype(stored).name in _FP8:
        return Packing(format="fp8", word="_weight_qdata", num_params=prod(stored.shape))
    return _integers(
        "_weight_qdata", stored, scheme.bits, group_size=_group_size(scheme, None, transposed=False)
    )


def _marlin(tensors: Mapping[str, Stored], scheme: Scheme) -> Packing | None:
    """B [i / 16, o x 16 x bits / 32] beside scales s [groups, o]."""
    stored, scales = tensors["B"], tensors.get("s")
    if scales is None:
        return None
    bits = _ratio(_last_two(stored)[1] * 32, 16 * _last_two(scales)[1])
    return _integers("B", stored, bits, group_size=_group_size(scheme, scales, transposed=True))


def _quanto(tensors: Mapping[str, Stored], scheme: Scheme) -> Packing:
    word = next(word for word in ("weight._data", "weight._data._data") if word in tensors)
    stored = tensors[word]
    if _dtype(stored).name in _FP8:
        return Packing(format="fp8", word=word, num_params=prod(stored.shape))
    return _integers(word, stored, 8 if _dtype(stored).name == "I8" else scheme.bits)


def _sparse(_: Mapping[str, Stored], __: Scheme) -> Packing:
    return Packing(format=UNKNOWN, word="compressed", num_params=None)


_BY_WORD = {
    "qweight": _gptq_or_awq,
    "weight_packed": _compressed_tensors,
    "blocks": _gpt_oss,
    "codes": _aqlm,
    "W_q": _hqq,
    "_weight_qdata": _torchao,
    "weight._data": _quanto,
    "weight._data._data": _quanto,
    "compressed": _sparse,
    "B": _marlin,
}
"""Words that name a format by themselves."""


def _bitsandbytes_4bit(word: str, tensors: Mapping[str, Stored], scheme: Scheme) -> Packing:
    """weight [o x i / 2, 1] of whatever storage dtype, beside weight.absmax: two values per byte."""
    states = (_BNB_STATE.fullmatch(other) for other in tensors)
    kind = next((state[1] for state in states if state), scheme.format or "")
    if "weight.absmax" not in tensors:
        return Packing(format=UNKNOWN, word=word, num_params=None)
    stored = tensors[word]
    return Packing(
        format="fp4-bnb" if kind == "fp4" else "nf4",
        word=word,
        num_params=prod(stored.shape) * _dtype(stored).bits // 4,
        group_size=64,
    )


def _fp8(word: str, stored: Stored, scale: Stored | None) -> Packing:
    """One byte per value. The scales' shape tells blocks [o / 128, i / 128] from rows [o, 1] and single
    scales."""
    num_params = prod(stored.shape)
    plain = Packing(format="fp8", word=word, num_params=num_params)
    if scale is None or len(scale.shape) < 2 or len(stored.shape) < 2:
        return plain
    (outputs, inputs), (down, across) = _last_two(stored), _last_two(scale)
    if down * across <= 1 or (across == 1 and down == outputs):
        return plain
    rows, columns = _power_of_two(ceil_div(outputs, down)), _power_of_two(ceil_div(inputs, across))
    if rows > 1:
        return Packing(format="fp8-block", word=word, num_params=num_params, weight_block=(rows, columns))
    is_microscaled = columns == 32 and _dtype(scale).name in ("U8", "F8_E8M0")
    return Packing(
        format="mxfp8" if is_microscaled else "fp8", word=word, num_params=num_params, group_size=columns
    )


def _small_float(word: str, stored: Stored, scale: Stored | None, scheme: Scheme) -> Packing:
    """Values of 4 or 6 bits, or 8, beside one scale per 16 (NVFP4, scale FP8) or per 32 (MX, scale E8M0 or
    U8).

    In a row of n bytes and s scales the width is the one for which s x block values fill n bytes.
    """
    unknown = Packing(format=UNKNOWN, word=word, num_params=None)
    if scale is None:
        return unknown
    is_nv = _dtype(scale).name == "F8_E4M3"
    group = 16 if is_nv else 32
    elements, bits = prod(stored.shape), _dtype(stored).bits
    columns = stored.shape[-1] if stored.shape else 1
    if _dtype(scale).bits == 8 and scale.shape:
        for width in (bits,) if bits < 8 else (4, 6, 8):
            values = columns * bits // width
            if scale.shape[-1] == ceil_div(values, group):
                name = f"nvfp{width}" if is_nv else f"mxfp{width}"
                name = "int8" if _dtype(stored).name == "I8" and width == 8 else name
                return Packing(format=name, word=word, num_params=elements * bits // width, group_size=group)
    if scheme.bits is None or scheme.is_float is None:
        return unknown
    if not scheme.is_float:
        return _integers(word, stored, scheme.bits)
    name = f"nvfp{scheme.bits}" if is_nv else f"mxfp{scheme.bits}"
    return Packing(format=name, word=word, num_params=elements * bits // scheme.bits, group_size=group)


def _mlx(word: str, stored: Stored, scales: Stored, scheme: Scheme) -> Packing:
    """32-bit words [o, i x bits / 32] beside scales [o, i / group]."""
    columns, groups = stored.shape[-1], scales.shape[-1] if scales.shape else 0
    bits = _ratio(columns * 32, scheme.group_size * groups) if scheme.group_size and groups else scheme.bits
    packing = _integers(word, stored, bits, group_size=scheme.group_size)
    if (
        packing.num_params is not None
        and scheme.format is not None
        and scheme.format.startswith(("mxfp", "nvfp"))
    ):
        return Packing(
            format=scheme.format, word=word, num_params=packing.num_params, group_size=scheme.group_size
        )
    return packing


def _declared_integers(word: str, stored: Stored, scheme: Scheme) -> Packing:
    return _integers(word, stored, scheme.bits, group_size=scheme.group_size)


def _integers(word: str, stored: Stored, bits: int | None, *, group_size: int | None = None) -> Packing:
    """Integers of `bits` each that fill the elements of `stored` without gaps."""
    if bits not in _WIDTHS:
        return Packing(format=UNKNOWN, word=word, num_params=None)
    num_params = prod(stored.shape) * _dtype(stored).bits // bits
    return Packing(format=f"int{bits}", word=word, num_params=num_params, group_size=group_size)


def _group_size(scheme: Scheme, scales: Stored | None, *, transposed: bool) -> int | None:
    """The declared group, unless the scales show one group for the whole row."""
    if scales is not None and _last_two(scales)[0 if transposed else 1] == 1:
        return None
    return scheme.group_size


def _scale_of(tensors: Mapping[str, Stored]) -> Stored | None:
    return next((tensors[word] for word in _SCALE_WORDS if word in tensors), None)


def _last_two(stored: Stored) -> tuple[int, int]:
    """Rows and columns; 1 where a dimension is missing."""
    padded = (1, 1, *stored.shape)
    return padded[-2], padded[-1]


def _ratio(dividend: int, divisor: int) -> int:
    """The exact quotient, 0 where there is none."""
    return dividend // divisor if divisor and dividend % divisor == 0 else 0


def _power_of_two(value: int) -> int:
    """The smallest power of two that is not below `value`: the block whose last one may be cut off."""
    return 1 << max(value - 1, 0).bit_length()


def _dtype(stored: Stored) -> Dtype:
    dtype = find_dtype(stored.dtype)
    if dtype is None:
        raise ValueError(f"{stored.dtype} passed the header reader and is no dtype")
    return dtype
