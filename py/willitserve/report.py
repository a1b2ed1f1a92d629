"""All that crosses to the page, the terminal and the tests: figures with their basis, the verdict, the
plan."""

from typing import Literal

from pydantic import Field

from willitserve.record import Record

Basis = Literal["exact", "derived", "estimated", "assumed", "unknown"]
"""exact: read; derived: arithmetic on exact; estimated: a fitted model, with a band; assumed: with the
reason; unknown: withheld."""

VerdictCode = Literal[
    "serves",
    "serves-with-changes",
    "context-too-long",
    "serves-nobody",
    "does-not-fit",
    "will-not-start",
    "unknown",
]
State = Literal["ok", "tight", "no", "unknown"]


class Figure(Record):
    """One number as it is shown: in display units, with its basis, its arithmetic and how to check it."""

    label: str
    value: float | None
    """In `unit`; None: not known, `because` says why."""
    unit: str
    digits: int = 0
    """Digits after the decimal point that mean something."""
    basis: Basis
    low: float | None = None
    high: float | None = None
    """The honest band of an estimated figure, in `unit`."""
    arithmetic: str = ""
    """One line with the numbers put in: `2 x 80 layers x 8 KV heads x 128 x 2 B = 327,680 B per token`."""
    because: str = ""
    """Why this basis, or what was assumed."""
    source: str = ""
    """Where the inputs or the formula come from."""
    check: str = ""
    """How to see the same number on the real machine."""


class Verdict(Record):
    """About the plan as asked; ways out stand beside it and never soften it."""

    code: VerdictCode
    sentence: str


class Note(Record):
    """One sentence with a stable code: a warning or a way out."""

    code: str
    sentence: str


class Problem(Record):
    """A value of the request that could not be used; the rest of the request applies."""

    field: str
    code: str
    sentence: str


class WayOut(Record):
    """A change of the request that would serve, computed by the same rules."""

    sentence: str
    query: dict[str, str]
    """URL keys to change."""
    code: VerdictCode
    """The verdict after the change."""


class RejectedTp(Record):
    """A tensor-parallel width at which the engine refuses to start."""

    tp: int
    rule: str
    reason: str


SegmentKey = Literal["weights", "overhead", "kv_used", "kv_free", "outside", "unusable"]


class BarSegment(Record):
    """A stretch of the memory bar of one card."""

    key: SegmentKey
    label: str
    bytes: int
    ratio: float
    """Of the card's total memory; the segments of an over-full bar add up to more than 1."""


class MemoryReport(Record):
    """Number 1. Every amount is bytes of the fullest GPU."""

    gpu_total_bytes: int | None
    requested_bytes: int | None
    weight_bytes_per_gpu: int | None
    activation_bytes_per_gpu: int | None
    non_torch_bytes_per_gpu: int | None
    cuda_graph_bytes_per_gpu: int | None
    kv_cache_bytes_per_gpu: int | None
    kv_bytes_per_token_per_gpu: int | None
    kv_fixed_bytes_per_sequence_per_gpu: int | None
    num_gpu_blocks: int | None
    kv_cache_tokens: int | None
    max_concurrency: float | None
    needed_kv_bytes_per_gpu: int | None
    estimated_max_model_len: int | None
    max_users: int | None
    kv_cache_dtype: str
    state: State
    bar: list[BarSegment]


class BandwidthReport(Record):
    """Number 2. Tokens per second at the asked users and context."""

    decode_tokens_per_s_ceiling: float | None
    decode_tokens_per_s_low: float | None
    decode_tokens_per_s_high: float | None
    aggregate_tokens_per_s_ceiling: float | None
    one_user_tokens_per_s_ceiling: float | None
    ttft_s_low: float | None
    ttft_s_high: float | None
    state: State


class FormatAnswer(Record):
    """What one weight format means on this card."""

    format: str
    label: str
    support: Literal["native", "weight-only", "emulated", "refused", "unknown"]
    sentence: str
    weight_bytes: int | None
    """Of the whole model stored in that format; None where it cannot be said."""


class PrecisionReport(Record):
    """Number 3."""

    checkpoint_format: str
    compute_format: str
    native: bool | None
    native_formats: list[str] | None
    """None: the card's formats are not known."""
    recommended: str
    recommended_because: str
    alternatives: list[FormatAnswer]
    state: State


class ScalingReport(Record):
    """Number 4."""

    tp: int
    pp: int
    replicas: int | None
    gpus_per_replica: int
    valid_tp: list[int]
    rejected_tp: list[RejectedTp]
    nvlink_domain: int | None
    state: State


SourceName = Literal["catalog", "hub", "folder", "hub-totals", "none"]
"""Where a model was read; hub-totals: only the listing, none: nothing."""


class ModelFacts(Record):
    """What was read of the model, and from where."""

    id: str
    revision: str | None
    source: SourceName
    source_sentence: str
    architecture: str | None
    gated: bool | None
    """Whether the Hub asks for a licence first; None: not known."""
    num_params: int | None
    num_active_params: int | None
    weight_bytes: int | None
    quantization: str | None
    max_model_len: int | None
    not_understood: list[str]


class GpuFacts(Record):
    """The card as planned with."""

    id: str
    name: str
    memory_bytes: int | None
    bandwidth_bytes_per_s: int | None
    namesakes: list[Note]
    """Cards that the same everyday name fits, each with its bandwidth and what it would answer."""
    notes: list[str]
    """Where sources differ, and how firm the figures are."""


class GpuChoice(Record):
    """One candidate of an ambiguous name, with what it would answer."""

    id: str
    name: str
    sentence: str
    code: VerdictCode


PartName = Literal[
    "embedding",
    "attention",
    "state",
    "dense_mlp",
    "routed_expert",
    "shared_expert",
    "router",
    "norm",
    "output_head",
    "vision",
    "audio",
    "other",
    "draft",
    "buffer",
]


class CheckpointPart(Record):
    """What one part of the model stores in one format."""

    part: PartName
    label: str
    format: str
    """As in InspectReport.formats: `bf16`, `fp8-block`."""
    format_label: str
    bits: int | None
    """Width of one value in that format, scales left aside; None: the format's name tells none."""
    bytes: int
    num_params: int | None
    """Logical parameters; None: how the values are packed is not known."""
    ratio: float
    """Of all stored bytes."""
    served: bool
    """Whether plain serving loads it."""
    bytes_figure: str
    """Key of the figure of `bytes`."""
    params_figure: str
    """Key of the figure of `num_params`."""


CacheShape = Literal[
    "full",
    "window",
    "chunk",
    "latent",
    "indexer",
    "compressed",
    "state",
    "cross",
    "shared",
    "mixed",
    "none",
]
"""What layers keep of the past; indexer: latent attention that chooses by an indexer; mixed: several of them
side by side."""


class LayerKind(Record):
    """Layers that keep the same of the past and have the same feed-forward part."""

    shape: CacheShape
    ffn: Literal["dense", "moe", "none"]
    label: str
    count: int
    layers: str
    """Their indices from zero, shortened: `3–60`; `5, 11, … 59`."""
    note: str
    """What is to be said where there is no figure."""
    figures: list[str]
    """Keys of their figures: bytes per token, bytes per sequence."""


class CheckpointReport(Record):
    """What the inspector shows: the stored parts and the layers."""

    parts: list[CheckpointPart]
    """In model order; their bytes add up to all that is stored."""
    layer_kinds: list[LayerKind]
    layers: list[int]
    """Of each layer, in order, the place of its kind in `layer_kinds`; empty: not understood."""
    layer_pattern: str
    """In words; where the layers are not understood, why not."""


class PlanReport(Record):
    """The whole answer."""

    verdict: Verdict
    model: ModelFacts
    gpu: GpuFacts | None
    engine: str
    query: dict[str, str]
    """The request as applied: every URL key with its value, defaults filled in."""
    defaults: dict[str, str]
    """The value each URL key has when it is left out."""
    memory: MemoryReport | None
    bandwidth: BandwidthReport | None
    precision: PrecisionReport | None
    scaling: ScalingReport | None
    checkpoint: CheckpointReport | None
    """None: nothing was read."""
    figures: dict[str, Figure] = Field(default_factory=dict)
    """Keyed by the path of the number they explain: `memory.weight_bytes_per_gpu`."""
    startup_log: list[str] = Field(default_factory=list)
    warnings: list[Note] = Field(default_factory=list)
    ways_out: list[WayOut] = Field(default_factory=list)
    problems: list[Problem] = Field(default_factory=list)
    choices: list[GpuChoice] = Field(default_factory=list)
    """Not empty: the GPU name was ambiguous and nothing was picked."""
    versions: dict[str, str] = Field(default_factory=dict)


class InspectReport(Record):
    """What the precise calculator knows of a checkpoint, before any GPU is named."""

    model_id: str
    architecture: str
    num_params: int | None
    num_active_params: int | None
    num_draft_params: int | None
    weight_bytes: int
    bytes_per_param: float | None
    quantization: str | None
    formats: dict[str, int]
    kv_bytes_per_token: int | None
    kv_fixed_bytes_per_sequence: int | None
    max_model_len: int | None
    kv_bytes_at_max_model_len: int | None
    valid_tp: list[int]
    rejected_tp: list[RejectedTp]
    not_understood: list[str]
    checkpoint: CheckpointReport


class RoughReport(Record):
    """The planning calculator: rough on purpose."""

    weight_bytes: int
    needed_bytes: int
    usable_bytes_per_gpu: int
    gpus_per_replica: int
    sentence: str
    arithmetic: str
