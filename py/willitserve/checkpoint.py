"""A checkpoint as an engine would load it: tensors of all shards folded into groups, with part, format and logical size."""

from dataclasses import dataclass
from enum import StrEnum


class Part(StrEnum):
    """Where in the model a tensor stands."""

    EMBEDDING = "embedding"
    OUTPUT_HEAD = "output_head"
    ATTENTION = "attention"
    STATE = "state"
    DENSE_MLP = "dense_mlp"
    ROUTED_EXPERT = "routed_expert"
    SHARED_EXPERT = "shared_expert"
    ROUTER = "router"
    NORM = "norm"
    VISION = "vision"
    AUDIO = "audio"
    DRAFT = "draft"
    BUFFER = "buffer"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class TensorGroup:
    """Tensors of one layer that share name pattern, dtype and shape (the experts of a layer are one group)."""

    pattern: str
    """The tensor name with each run of digits between dots replaced by `*`: `model.layers.*.mlp.experts.*.up_proj.weight`."""
    layer: int | None
    """Index of the decoder layer, None outside the layers (embedding, head, towers)."""
    part: Part
    module: str
    """The name below the layer without its last word: `self_attn.q_proj`, `mlp.experts.*.up_proj`."""
    dtype: str
    """As the header spells it."""
    shape: tuple[int, ...]
    count: int
    stored_bytes: int
    """Of all `count` tensors together."""
    num_params: int
    """Logical parameters of all `count` tensors: packed values unpacked; 0 for scales, zero points, indices, buffers."""
    format: str
    """Storage format of the weight it belongs to: `bf16`, `f16`, `f32`, `fp8`, `fp8-block`, `nvfp4`, `mxfp4`, `int4`, `int8`, …"""
    served: bool
    """False for what plain serving does not load: draft blocks, stored copies of tied matrices, buffers, unused shared k/v."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All tensors of the chosen shard set."""

    groups: tuple[TensorGroup, ...]
    num_tensors: int
    stored_bytes: int
    """Sum of all data_offsets lengths, everything stored included."""
    num_params: int
    """Logical parameters that plain serving loads."""
    num_draft_params: int
    num_active_params: int | None
    """Parameters used for one token: all but the routed experts that are not chosen; None where routing is not known."""
    quantization: str | None
    """None for an unquantized checkpoint, else words that name method and width: `fp8-block e4m3 128x128`."""
    formats: dict[str, int]
    """Stored bytes by format, largest first."""
    not_understood: tuple[str, ...]
    """Sentences about tensors whose format is not known: their bytes are right, their parameters are withheld."""
