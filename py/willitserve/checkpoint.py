"""A checkpoint as an engine would load it: tensors of all shards folded into groups, with part, format and
logical size.

`CheckpointBuilder` takes header after header and keeps only what differs: name pattern, layer, dtype and
shape. `finish` reads the groups against config.json's description of the model and says what is loaded and
what it holds.

What counts as a parameter: every learned value that plain serving loads, packed values unpacked, vision and
audio towers and router correction biases included. Not counted: scales, zero points, orders and shape
tensors; buffers (rotary frequencies, masks, position ids, clip ranges, expert tables); draft (MTP) blocks,
which are counted apart; a stored copy of a tied matrix; keys and values of layers that read another layer's
cache.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

from willitserve.architecture import Architecture
from willitserve.dtypes import find_dtype
from willitserve.errors import RepositoryError
from willitserve.packing import UNKNOWN
from willitserve.parts import Part, Place, place
from willitserve.quantization import read_quantization
from willitserve.quantization_summary import summarize
from willitserve.safetensors import Header
from willitserve.stored_groups import StoredGroup, leave_out, read_packings, settle_layers, settle_parts

__all__ = ["Checkpoint", "CheckpointBuilder", "Part", "TensorGroup"]


@dataclass(frozen=True, slots=True)
class TensorGroup:
    """Tensors of one layer that share name pattern, dtype and shape (the experts of a layer are one
    group)."""

    pattern: str
    """The tensor name with each run of digits between dots replaced by `*`:
    `model.layers.*.mlp.experts.*.up_proj.weight`."""
    layer: int | None
    """Index of the decoder layer, None outside the layers (embedding, head, towers)."""
    part: Part
    module: str
    """The name below the layer without the tensor's own word (`weight`, `bias`, `qweight`, `weight_scale`,
    `_blocks`, …): `self_attn.q_proj`, `mlp.experts.*.up_proj`. A matrix stored without such a word keeps its
    name: `mlp.experts.gate_up_proj`."""
    dtype: str
    """As the header spells it."""
    shape: tuple[int, ...]
    count: int
    stored_bytes: int
    """Of all `count` tensors together."""
    num_params: int
    """Logical parameters of all `count` tensors: packed values unpacked; 0 for scales, zero points, indices,
    buffers, and for tensors of format `unknown`, whose parameters are withheld."""
    format: str
    """Storage format of the weight it belongs to: `bf16`, `f16`, `f32`, `fp8`, `fp8-block`, `mxfp8`, `nvfp4`,
    `mxfp4`, `nf4`, `int4`, `int8`, …; `unknown` where neither config.json nor the headers tell how values are
    packed."""
    served: bool
    """False for what plain serving does not load: draft blocks, stored copies of tied matrices, buffers,
    unused shared k/v."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All tensors of the chosen shard set."""

    groups: tuple[TensorGroup, ...]
    num_tensors: int
    stored_bytes: int
    """Sum of all data_offsets lengths, everything stored included."""
    num_params: int | None
    """Logical parameters that plain serving loads; None where the packing of a served tensor is not
    understood."""
    num_draft_params: int | None
    """Logical parameters of draft (MTP) blocks; None where their packing is not understood."""
    num_active_params: int | None
    """Parameters used for one token: all but the routed experts that are not chosen; None where routing is
    not known."""
    quantization: str | None
    """None for an unquantized checkpoint, else words that name method and width: `fp8-block e4m3 128x128`."""
    formats: dict[str, int]
    """Stored bytes by format, largest first."""
    not_understood: tuple[str, ...]
    """Sentences about tensors whose format is not known: their bytes are right, their parameters are
    withheld."""
    quantization_method: str | None
    """`gptq`, `awq`, `compressed-tensors`, `fp8`, `modelopt`, `bitsandbytes`, `mlx`, …; None: unquantized, or
    not named anywhere."""
    activation_format: str | None
    """What matrix inputs are quantized to at run time: `fp8`, `int8`, `nvfp4`, `mxfp4`, …; None: weights
    only, math in 16 bit."""
    weight_block: tuple[int, int] | None
    """Rows and columns that share one scale in block formats: (128, 128)."""
    group_size: int | None
    """Input values that share one scale in group formats; None: whole rows, blocks, or no groups at all."""
    kv_cache_format: str | None
    """`fp8`, … where the checkpoint carries or declares scales for a quantized KV cache."""
    notes: tuple[str, ...]
    """Sentences about what was found and left out: tied copies, draft blocks, a declared format that no
    tensor has."""


# Numbers of more than nine digits index nothing, and int() of a long run of digits is slow.
_NUMBERS = re.compile(r"\.[0-9]{1,9}(?=\.)")
_MAX_SENTENCES = 8


class CheckpointBuilder:
    """Folds headers, file by file, into groups; the headers themselves are not kept."""

    def __init__(self) -> None:
        self.num_tensors = 0
        self.stored_bytes = 0
        self._counts: dict[tuple[str, int | None, str, tuple[int, ...]], list[int]] = {}
        self._places: dict[str, Place] = {}
        self._file_of: dict[str, int] = {}
        self._files: list[str] = []

    def add(self, file_name: str, header: Header) -> None:
        """Fold one file in. Raises RepositoryError when a tensor of it came with an earlier file."""
        names = [tensor[0] for tensor in header.tensors]
        if not self._file_of.keys().isdisjoint(names):
            raise self._repeated(file_name, names)
        self._file_of.update(dict.fromkeys(names, len(self._files)))
        self._files.append(file_name)
        counts, places, pattern_of = self._counts, self._places, _NUMBERS.sub
        for name, dtype, shape, begin, end in header.tensors:
            pattern = pattern_of(".*", name)
            where = places.get(pattern)
            if where is None:
                where = places[pattern] = place(pattern)
            position = where.layer_position
            layer = None if position is None else int(name.split(".", position + 1)[position])
            key = (pattern, layer, dtype, shape)
            count = counts.get(key)
            if count is None:
                counts[key] = [1, end - begin]
            else:
                count[0] += 1
                count[1] += end - begin
        self.num_tensors += len(names)
        self.stored_bytes += header.data_bytes

    def finish(
        self,
        architecture: Architecture | None,
        config: Mapping[str, object] | None,
        hf_quant_config: Mapping[str, object] | None = None,
    ) -> Checkpoint:
        """The checkpoint as far as its names, shapes and declarations tell.

        `config` is config.json, `hf_quant_config` the ModelOpt sidecar where there is one. Without an
        architecture tied copies, shared keys and values and active parameters are not known.
        """
        declared = read_quantization(config, hf_quant_config)
        groups = settle_layers(self._stored_groups(), architecture)
        read_packings(groups, declared)
        settle_parts(groups, architecture)
        leave_out(groups, architecture)
        summary = summarize(groups, declared)
        counted = [_counted(group) for group in groups]
        notes = _notes(groups)
        return Checkpoint(
            groups=tuple(counted),
            num_tensors=self.num_tensors,
            stored_bytes=self.stored_bytes,
            num_params=_sum(group for group in counted if group.served),
            num_draft_params=_sum(group for group in counted if group.part is Part.DRAFT),
            num_active_params=_active_params(counted, architecture),
            quantization=summary.text,
            formats=_bytes_by_format(counted),
            not_understood=_not_understood(counted),
            quantization_method=summary.method,
            activation_format=summary.activation_format,
            weight_block=summary.weight_block,
            group_size=summary.group_size,
            kv_cache_format=summary.kv_cache_format,
            notes=(*notes, summary.note) if summary.note else notes,
        )

    def _stored_groups(self) -> Iterable[StoredGroup]:
        # Headers arrive in any order; what is said of them is always in the same one.
        by_name = sorted(self._counts, key=lambda key: (key[0], -1 if key[1] is None else key[1], *key[2:]))
        for key in by_name:
            pattern, layer, dtype, shape = key
            count, stored_bytes = self._counts[key]
            where = self._places[pattern]
            yield StoredGroup(pattern, layer, dtype, shape, count, stored_bytes, where, where.part)

    def _repeated(self, file_name: str, names: list[str]) -> RepositoryError:
        name = next(name for name in names if name in self._file_of)
        first = self._files[self._file_of[name]]
        count = sum(name in self._file_of for name in names)
        others = f" and {count - 1:,} more" if count > 1 else ""
        return RepositoryError(
            f"tensor {name!r}{others} is in {first} and again in {file_name}",
            hint="Two copies of the weights are mixed: read the files that the index names, and only those.",
        )


def _counted(group: StoredGroup) -> TensorGroup:
    """The group with its logical parameters and the format of its weight."""
    packing, word = group.packing, group.place.word
    num_params = 0
    is_values = packing is not None and packing.word == word
    if packing is not None and (is_values or group.is_company):
        storage = packing.format
        num_params = (packing.num_params or 0) * group.count if is_values else 0
    else:
        dtype = find_dtype(group.dtype)
        is_known = dtype is not None and dtype.kind != "unknown"
        storage = group.dtype.lower() if is_known else UNKNOWN
        if is_known and not group.is_company and group.part is not Part.BUFFER:
            num_params = prod(group.shape) * group.count
    return TensorGroup(
        pattern=group.pattern,
        layer=group.layer,
        part=group.part,
        module=group.place.module,
        dtype=group.dtype,
        shape=group.shape,
        count=group.count,
        stored_bytes=group.stored_bytes,
        num_params=num_params,
        format=storage,
        served=not group.left_out,
    )


def _sum(groups: Iterable[TensorGroup]) -> int | None:
    """Parameters of all; None when some of them are of unknown format."""
    total = 0
    for group in groups:
        if group.format == UNKNOWN:
            return None
        total += group.num_params
    return total


def _active_params(groups: list[TensorGroup], architecture: Architecture | None) -> int | None:
    total = _sum(group for group in groups if group.served)
    routed = _sum(group for group in groups if group.served and group.part is Part.ROUTED_EXPERT)
    if total is None or not routed:
        return total
    moe = architecture.moe if architecture is not None else None
    if moe is None or moe.num_experts <= 0:
        return None
    return total - routed + routed * moe.experts_per_token // moe.num_experts


def _bytes_by_format(groups: list[TensorGroup]) -> dict[str, int]:
    total: dict[str, int] = {}
    for group in groups:
        total[group.format] = total.get(group.format, 0) + group.stored_bytes
    return dict(sorted(total.items(), key=lambda item: -item[1]))


def _not_understood(groups: list[TensorGroup]) -> tuple[str, ...]:
    """One sentence per name pattern whose packing is unknown."""
    counts: dict[tuple[str, str], int] = {}
    for group in groups:
        if group.format == UNKNOWN:
            key = (group.pattern, group.dtype)
            counts[key] = counts.get(key, 0) + group.count
    sentences = [
        f"How {pattern} ({count:,} x {dtype}) packs its values is not known:"
        " its bytes are counted, its parameters are not."
        for (pattern, dtype), count in counts.items()
    ]
    if len(sentences) > _MAX_SENTENCES:
        more = len(sentences) - _MAX_SENTENCES
        sentences = [*sentences[:_MAX_SENTENCES], f"The same holds for {more:,} more name patterns."]
    return tuple(sentences)


def _notes(groups: list[StoredGroup]) -> tuple[str, ...]:
    """What is stored and not loaded, one sentence per reason."""
    stored: dict[str, int] = {}
    for group in groups:
        if group.left_out:
            stored[group.left_out] = stored.get(group.left_out, 0) + group.stored_bytes
    return tuple(f"{amount:,} B of {reason} are stored and not loaded." for reason, amount in stored.items())
