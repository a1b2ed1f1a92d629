"""A checkpoint as an engine would load it: tensors of all shards folded into groups, with part, format and
logical size."""

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
