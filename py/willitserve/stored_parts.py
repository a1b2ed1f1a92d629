"""What a checkpoint stores, by part of the model and by format, each amount with the shapes that add up to
it."""

from collections.abc import Iterable
from math import prod
from typing import Final

from willitserve.checkpoint import Checkpoint, TensorGroup
from willitserve.dtypes import find_dtype
from willitserve.packing import UNKNOWN
from willitserve.parts import Part
from willitserve.report import CheckpointPart, Figure
from willitserve.units import GIB

MODEL_ORDER: Final = (
    (Part.EMBEDDING, "Embedding"),
    (Part.ATTENTION, "Attention"),
    (Part.STATE, "State mixers"),
    (Part.DENSE_MLP, "Dense MLP"),
    (Part.ROUTED_EXPERT, "Routed experts"),
    (Part.SHARED_EXPERT, "Shared experts"),
    (Part.ROUTER, "Routers"),
    (Part.NORM, "Norms"),
    (Part.OUTPUT_HEAD, "Output head"),
    (Part.VISION, "Vision"),
    (Part.AUDIO, "Audio"),
    (Part.OTHER, "Other"),
    (Part.DRAFT, "Draft block"),
    (Part.BUFFER, "Buffers"),
)
"""Parts from the model's input to its output, then towers and what is not loaded."""

_LEFT_OUT: Final = {
    Part.DRAFT: "plain serving does not load draft (MTP) blocks; their parameters are counted apart",
    Part.BUFFER: "the model class computes buffers, so that stored ones are not loaded",
    Part.EMBEDDING: "a stored copy of a tied matrix, which is loaded once",
    Part.OUTPUT_HEAD: "a stored copy of a tied matrix, which is loaded once",
    Part.ATTENTION: "keys and values of layers that read another layer's cache are not loaded",
}
"""Why plain serving leaves tensors of a part out."""

_FORMAT_LABELS: Final = {
    "f16": ("FP16", 16),
    "f32": ("FP32", 32),
    "f64": ("FP64", 64),
    "fp8-block": ("FP8 in blocks", 8),
    "fp4-bnb": ("FP4 (bitsandbytes)", 4),
    "ternary": ("ternary", 2),
    UNKNOWN: ("format not known", None),
}
"""Labels and widths of formats whose name alone does not tell them."""

_SHOWN_SHAPES = 4
_SOURCE = "headers of the safetensors files"


def format_label(name: str) -> str:
    """`FP8 in blocks` for `fp8-block`, `BF16` for `bf16`."""
    known = _FORMAT_LABELS.get(name)
    return known[0] if known else name.upper()


def format_bits(name: str) -> int | None:
    """Bits of one value in a format, its scales left aside; None where the name tells no width."""
    known = _FORMAT_LABELS.get(name)
    if known:
        return known[1]
    digits = name[len(name.rstrip("0123456789")) :]
    return int(digits) if digits else None


def amount(num_bytes: int) -> tuple[float, str, int]:
    """Bytes as (value, unit, digits after the point), in the unit in which they can be read."""
    for size, unit in ((GIB, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if num_bytes >= size / 10:
            value = num_bytes / size
            return value, unit, 1 if value >= 100 else 2
    return num_bytes, "B", 0


def _count(num_params: int) -> tuple[float, str, int]:
    for size, unit in ((10**9, "billion"), (10**6, "million")):
        if num_params >= size / 10:
            value = num_params / size
            return value, unit, 1 if value >= 100 else 2
    return num_params, "", 0


def stored_parts(checkpoint: Checkpoint) -> tuple[list[CheckpointPart], dict[str, Figure]]:
    """The parts in model order, within a part the format that stores most first, and their figures.

    What is stored and not loaded stands apart from what is loaded. The bytes of all parts add up to
    `Checkpoint.stored_bytes`.
    """
    gathered: dict[tuple[Part, bool, str], list[TensorGroup]] = {}
    for group in checkpoint.groups:
        gathered.setdefault((group.part, group.served, group.format), []).append(group)
    parts: list[CheckpointPart] = []
    figures: dict[str, Figure] = {}
    for part, label in MODEL_ORDER:
        found = [(key, groups, _bytes(groups)) for key, groups in gathered.items() if key[0] is part]
        for (_, served, storage), groups, stored in sorted(found, key=lambda each: (-each[0][1], -each[2])):
            key = f"checkpoint.parts.{part.value}.{storage}" + ("" if served else ".not_loaded")
            num_params = None if storage == UNKNOWN else sum(group.num_params for group in groups)
            entry = CheckpointPart(
                part=part.value,
                label=label,
                format=storage,
                format_label=format_label(storage),
                bits=format_bits(storage),
                bytes=stored,
                num_params=num_params,
                ratio=stored / checkpoint.stored_bytes if checkpoint.stored_bytes else 0.0,
                served=served,
                bytes_figure=f"{key}.bytes",
                params_figure=f"{key}.num_params",
            )
            parts.append(entry)
            left_out = "" if served else _LEFT_OUT.get(part, "plain serving does not load it")
            figures[entry.bytes_figure] = _bytes_figure(entry, groups, left_out)
            figures[entry.params_figure] = _params_figure(entry, groups, left_out)
    return parts, figures


def _bytes(groups: Iterable[TensorGroup]) -> int:
    return sum(group.stored_bytes for group in groups)


def _bytes_figure(part: CheckpointPart, groups: list[TensorGroup], left_out: str) -> Figure:
    value, unit, digits = amount(part.bytes)
    amounts: dict[str, tuple[int, int]] = {}
    shapes: dict[tuple[str, tuple[int, ...]], tuple[int, int]] = {}
    for group in groups:
        count, stored = shapes.get((group.dtype, group.shape), (0, 0))
        shapes[group.dtype, group.shape] = count + group.count, stored + group.stored_bytes
    for (dtype, shape), (count, stored) in shapes.items():
        amounts[f"{_times(count, shape)} x {_size(dtype)}"] = stored, count
    return Figure(
        label=f"{part.label}, {part.format_label}: stored",
        value=value,
        unit=unit,
        digits=digits,
        basis="exact",
        arithmetic=f"{_sum(amounts, ' B')} = {part.bytes:,} B",
        because=left_out or "read from the data_offsets of the headers",
        source=_SOURCE,
    )


def _params_figure(part: CheckpointPart, groups: list[TensorGroup], left_out: str) -> Figure:
    label = f"{part.label}, {part.format_label}: parameters"
    if part.num_params is None:
        because = "neither config.json nor the headers tell how its values are packed"
        return Figure(label=label, value=None, unit="", basis="unknown", because=because, source=_SOURCE)
    value, unit, digits = _count(part.num_params)
    terms: dict[str, tuple[int, int]] = {}
    for group in groups:
        if group.num_params:
            term = _values(group)
            params, count = terms.get(term, (0, 0))
            terms[term] = params + group.num_params, count + group.count
    counted = {
        (f"{count:,} x {term}" if count > 1 else term): (params, count)
        for term, (params, count) in terms.items()
    }
    return Figure(
        label=label,
        value=value,
        unit=unit,
        digits=digits,
        basis="derived",
        arithmetic=f"{_sum(counted, '')} = {part.num_params:,}" if counted else "nothing here was learned",
        because=left_out or "packed values unpacked; scales, zero points and index tensors not counted",
        source=_SOURCE,
    )


def _times(count: int, shape: tuple[int, ...]) -> str:
    dims = " x ".join(f"{size:,}" for size in shape) or "1"
    return f"{count:,} x ({dims})" if count > 1 else f"({dims})"


def _size(dtype: str) -> str:
    found = find_dtype(dtype)
    return f"{found.bits / 8:g} B" if found else dtype


def _values(group: TensorGroup) -> str:
    """The parameters of one tensor of the group: its shape, and how many values one element holds."""
    dims = " x ".join(f"{size:,}" for size in group.shape) or "1"
    each = group.num_params // group.count
    elements = prod(group.shape)
    if each == elements:
        return f"({dims})"
    if elements and each % elements == 0:
        return f"({dims} x {each // elements} values)"
    return f"{each:,}"


def _sum(terms: dict[str, tuple[int, int]], unit: str) -> str:
    """The largest terms, and one number for the others."""
    largest = sorted(terms.items(), key=lambda item: -item[1][0])
    shown = [term for term, _ in largest[:_SHOWN_SHAPES]]
    rest = largest[_SHOWN_SHAPES:]
    if rest:
        total = sum(value for _, (value, _) in rest)
        tensors = sum(count for _, (_, count) in rest)
        shown.append(f"{total:,}{unit} in {tensors:,} further tensors")
    return " + ".join(shown)
