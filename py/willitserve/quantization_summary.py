"""What a checkpoint's quantization comes to: what is declared, held against what the tensors show."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from willitserve.dtypes import dtype_label
from willitserve.packing import UNKNOWN, Packing
from willitserve.quantization import Quantization
from willitserve.stored_groups import StoredGroup, has_kv_scales


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizationSummary:
    """The quantization fields of `Checkpoint`, which documents them."""

    text: str | None = None
    method: str | None = None
    activation_format: str | None = None
    weight_block: tuple[int, int] | None = None
    group_size: int | None = None
    kv_cache_format: str | None = None
    note: str = ""


_SELF_NAMED = frozenset({"fp8", "mxfp4", "mxfp8", "nvfp4"})
"""Methods that the storage format names already."""


def summarize(groups: Iterable[StoredGroup], declared: Quantization | None) -> QuantizationSummary:
    """From groups whose packing is read."""
    groups = list(groups)
    kv_cache_format = declared.kv_cache_format if declared is not None else None
    if kv_cache_format is None and has_kv_scales(groups):
        kv_cache_format = "fp8"
    packed = [
        (group, group.packing)
        for group in groups
        if group.packing is not None and group.packing.word == group.place.word
    ]
    if not packed:
        note = (
            f"{declared.method} quantization is declared, but every stored weight is plain."
            if declared
            else ""
        )
        return QuantizationSummary(kv_cache_format=kv_cache_format, note=note)
    formats = _by_weight((packing.format, group.stored_bytes) for group, packing in packed)
    blocks = _by_weight((p.weight_block, group.stored_bytes) for group, p in packed if p.weight_block)
    sizes = _by_weight((p.group_size, group.stored_bytes) for group, p in packed if p.group_size)
    block = blocks[0] if blocks else None
    if block is not None and declared is not None and declared.weight_block is not None:
        block = declared.weight_block
    group_size = sizes[0] if sizes else None
    method = declared.method if declared is not None and declared.method != UNKNOWN else None
    method = method or _method_of(groups, packed) or formats[0]
    activation = _activation_format(declared, formats[0], groups)
    labels = [dtype_label(group.dtype) for group, packing in packed if packing.format.startswith("fp8")]
    mantissa = labels[0].partition(" ")[2] if labels else ""
    return QuantizationSummary(
        text=_text(
            method, formats, block=block, group_size=group_size, activation=activation, mantissa=mantissa
        ),
        method=method,
        activation_format=activation,
        weight_block=block,
        group_size=group_size,
        kv_cache_format=kv_cache_format,
    )


_Key = TypeVar("_Key", bound=Hashable)


def _by_weight(pairs: Iterable[tuple[_Key, int]]) -> list[_Key]:
    """The keys, the one with most bytes first."""
    total: dict[_Key, int] = {}
    for key, stored_bytes in pairs:
        total[key] = total.get(key, 0) + stored_bytes
    return sorted(total, key=lambda key: -total[key])


def _method_of(groups: list[StoredGroup], packed: list[tuple[StoredGroup, Packing]]) -> str | None:
    """The method whose names for tensors these are, where nothing is declared."""
    words = {group.place.word for group in groups}
    formats = {packing.format for _, packing in packed}
    if "qweight" in words:
        # Only GPTQ keeps the order of inputs; AWQ packs along the outputs and needs none.
        return "gptq" if "g_idx" in words else "awq"
    for word, method in (
        ("weight_packed", "compressed-tensors"),
        ("weight_scale_2", "modelopt"),
        ("blocks", "mxfp4"),
        ("weight.absmax", "bitsandbytes"),
        ("SCB", "bitsandbytes"),
        ("codes", "aqlm"),
        ("W_q", "hqq"),
        ("_weight_qdata", "torchao"),
        ("weight._data", "quanto"),
    ):
        if word in words:
            return method
    if any(group.dtype == "U32" for group, _ in packed):
        return "mlx"
    # ModelOpt stores the scales of whole tensors without a dimension, compressed-tensors with one of length
    # 1.
    if any(group.place.word == "input_scale" and not group.shape for group in groups):
        return "modelopt"
    return "fp8" if formats & {"fp8", "fp8-block"} else None


def _activation_format(
    declared: Quantization | None, main_format: str, groups: list[StoredGroup]
) -> str | None:
    if declared is not None:
        schemes = (declared.default, *(scheme for _, scheme in declared.overrides))
        return next((scheme.activation_format for scheme in schemes if scheme.activation_format), None)
    if main_format in ("fp8", "fp8-block"):
        return "fp8"
    has_input_scales = any(group.place.word.startswith("input_") for group in groups)
    return main_format if has_input_scales or main_format == "mxfp8" else None


def _text(
    method: str,
    formats: list[str],
    *,
    block: tuple[int, int] | None,
    group_size: int | None,
    activation: str | None,
    mantissa: str,
) -> str:
    """Words that an engineer would use: `gptq int4 group 128`, `fp8-block e4m3 128x128 + mxfp4`."""
    words = [] if method in _SELF_NAMED or method in formats else [method]
    named: list[str] = []
    for name in formats:
        if name == "fp8-block":
            named.append(f"fp8-block {mantissa} {block[0]}x{block[1]}" if block else f"fp8-block {mantissa}")
        elif name == "fp8":
            named.append(f"fp8 {mantissa}".strip())
        elif name == UNKNOWN:
            named.append("(packing not understood)")
        elif method == "mlx" and name.startswith("int"):
            named.append(f"{name.removeprefix('int')}-bit")
        else:
            named.append(name)
    words.append(" + ".join(named))
    if group_size is not None and any(name.startswith("int") for name in formats):
        words.append(f"group {group_size}")
    text = " ".join(words)
    is_usual = activation is None or any(name.startswith(activation) for name in formats)
    return text if is_usual else f"{text}, {activation} activations"
