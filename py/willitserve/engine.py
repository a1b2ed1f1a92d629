"""What an engine version does by itself: its defaults, what it takes from the budget, how fast its steps are.

One entry of `catalog/engines/*.yaml` is one span of versions that behave alike. Figures keep the unit of
their key; conversion to base units happens in the properties here, once.
"""

from bisect import bisect_right
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import Field, model_validator

from willitserve.record import Record
from willitserve.units import GIB, MIB


class BatchLimits(Record):
    """Defaults that the engine picks by card, first match wins."""

    min_memory_gib: float = 0.0
    """Total memory that CUDA reports, GiB, from which this row applies."""
    not_named: list[str] = Field(default_factory=list)
    """Words of a device name, lower case, that exclude the card."""
    not_capability: list[str] = Field(default_factory=list)
    """Compute capabilities that are excluded."""
    max_num_seqs: int
    max_num_batched_tokens: int
    captured_batch: int = 0
    """Largest batch captured as a graph, where the memory that the engine reserves follows from it."""
    captured_batch_from_tp_4: int = 0
    """The same for four ranks and more."""


class Reserve(Record):
    """Memory that an engine leaves out of its share instead of measuring its needs: a rule of thumb, MiB."""

    constant_mib: float
    batched_token_mib: float
    """For each token of max_num_batched_tokens, of which at least `least_batched_tokens` count."""
    least_batched_tokens: int
    captured_sequence_mib: float
    rank_mib: float
    least_mib: float
    """No less than this on cards of more than `least_from_mib`."""
    least_from_mib: int

    def share(self, limits: BatchLimits, *, total_mib: float, tokens: int, ranks: int) -> float:
        """The share of the card that is left to weights and KV cache, three digits."""
        captured = limits.captured_batch_from_tp_4 if ranks >= 4 else limits.captured_batch
        reserved = (
            self.constant_mib
            + max(tokens, self.least_batched_tokens) * self.batched_token_mib
            + captured * self.captured_sequence_mib
            + ranks * self.rank_mib
        )
        if total_mib > self.least_from_mib:
            reserved = max(reserved, self.least_mib)
        return round((total_mib - reserved) / total_mib, 3)


class Overhead(Record):
    """The engine's own memory beside weights and KV cache: sizes its source gives, and constants fitted on
    measured starts with the error they left."""

    sampler_bytes_per_logit: float
    """Peak of the sampler's dummy run beside the logits themselves, bytes for each of max_num_seqs x
    vocabulary."""
    sampler_sort_bytes_per_logit: float = 0.0
    """What comes on top where the sampler has to sort, in versions where the installation decides; it widens
    the band."""
    sampler_row_buffers: bool = False
    """Whether the sampler keeps an FP32 row of the vocabulary for every multiprocessor."""
    forward_hidden_rows: float
    """Rows of hidden_size per batched token that a forward pass holds at its peak, beside the MLP's."""
    mlp_rows: float
    """Rows of intermediate_size per batched token: gate and up (2) and their product (1)."""
    activation_in_reserve: bool = False
    """Activations live in what the engine's share leaves free: none of the pool's memory."""
    expert_workspace_stays: bool
    """Whether the workspace of the MoE kernel is kept once it was made."""
    library_workspace_mib: float
    """cuBLAS and the like, in PyTorch's allocator."""
    library_workspace_mib_large: float
    """The same on Hopper and newer."""
    context_gib: float
    """CUDA context and libraries in use before the engine's first snapshot: what is not free at start."""
    context_gib_large: float
    """The same on Hopper and newer."""
    context_multicast_gib: float
    """Added where ranks have met behind NVSwitch."""
    non_torch_gib: float
    """One GPU: CUDA context growth, cuBLAS, compiled kernels."""
    non_torch_pipeline_gib: float
    """The same where ranks met before the first snapshot and layers are not divided."""
    non_torch_group_gib: float
    """Added when ranks divide layers: NCCL buffers and custom all-reduce."""
    non_torch_multicast_gib: float
    """Added instead where NCCL reduces in the switch."""
    non_torch_rank_gib: float
    """Added for every rank of a group."""
    cuda_graph_gib: float
    cuda_graph_gib_large: float
    """The same on Hopper and newer."""
    cuda_graph_gib_per_layer: float
    cuda_graph_gib_per_moe_layer: float = 0.0
    largest_capture: int
    """Largest batch that is captured as a graph by default."""
    activation_error_ratio: float
    """Half width of the band of the activation peak, as a share of it."""
    non_torch_error_gib: float
    cuda_graph_error_gib: float
    source: str

    def context_bytes(self, *, large: bool, multicast: bool) -> int:
        """Memory of one card that is not free when the engine looks for the first time, bytes."""
        gib = self.context_gib_large if large else self.context_gib
        return round((gib + (self.context_multicast_gib if multicast else 0)) * GIB)

    def library_workspace_bytes(self, *, large: bool) -> int:
        """Workspaces of the math libraries on one card, bytes."""
        return round((self.library_workspace_mib_large if large else self.library_workspace_mib) * MIB)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRules:
    """What differs between versions of an engine."""

    padding_ratio: float = 1.5
    """Kinds of layers whose counts differ by less are padded to the larger count; beyond it the smaller count
    sets the group. 1: always the smaller."""
    state_blocks: int = 1
    """Blocks that one request's recurrent state draws: 2 where prefixes are cached, one being computed and
    one kept; 0: states are kept outside of the pool."""
    windows_bounded: bool = True
    """Whether a window layer gives blocks back: False where it is given as many as a full layer."""
    groups_layers: bool = True
    """False: layers that cache unlike are not described."""


class StepTime(Record):
    """Constants of the decode step model and of prefill (`step_time.py`)."""

    bandwidth_efficiency: dict[str, float]
    """Share of the card's bandwidth that matrix kernels reach, by card class."""
    four_bit_efficiency: float
    """Factor on that share while 4-bit weights are unpacked."""
    kv_efficiency: dict[str, float]
    """Share of the bandwidth that attention reaches on the KV cache, by its width: 16, 8."""
    compute_efficiency: float
    """Share of the dense peak that large decode batches reach."""
    expert_spread: float
    """Of the experts that uniform routing adds to one token's choice, the share that is read."""
    layer_us: float
    """Launch and small kernels of one layer, microseconds."""
    moe_layer_us: float
    """Added by routing in an MoE layer, microseconds."""
    block_fp8_layer_us: float
    """Added by scaling activations block by block, microseconds of one layer."""
    launch_ratio: dict[str, float]
    """Factor on the three above by card class; 1 where none is given."""
    sequence_us: float
    """Scheduling, sampling and detokenising one sequence, microseconds per step."""
    fixed_ms: float
    """Scheduler, sampler and host work of one step, milliseconds."""
    all_reduce_latency_factor: float
    """Measured all-reduce inside a model over the bare kernel's time, for an empty message: ranks wait for
    each other."""
    all_reduce_transfer_factor: float
    """The same for what the bytes add: engines fuse it with the norm that follows."""
    prefill_mfu: dict[str, float]
    """Model FLOP utilisation of prefill by width of the multiplied format: 16, 8, 4."""
    moe_prefill_ratio: float
    """Factor on that where experts are routed: many small matrices."""
    prefill_share: float
    """Share of other users' prefill that decode steps are stretched by."""
    first_token_ms: float
    """HTTP front end, tokeniser and scheduling before the first step, milliseconds."""
    first_token_steps: float
    """Decode steps that a prompt waits for where others are served, steps."""
    band_error: dict[str, float]
    """Errors that make the band, each as a share of what it is of: weights, kv, overhead, all_reduce and
    prefill of their part of the step; base of all; moe of all where experts are routed."""
    class_error: dict[str, float]
    """Added by card class: larger where few measurements are in the fit."""
    ttft_low: float
    """Measured time to the first token over the model's, lower and upper edge of the band."""
    ttft_high: float
    source: str


class AllReduce(Record):
    """Measured time of one all-reduce kernel by message size and number of ranks, and the cards it stands
    for."""

    links: list[str]
    """Link types of the catalog that it was measured on."""
    architectures: list[str] = Field(default_factory=list)
    """Empty: any."""
    memory_types: list[str] = Field(default_factory=list)
    """Empty: any."""
    pcie: str = ""
    """Start of the PCIe generation, empty: any."""
    measured: bool = True
    """False: no measurement for such cards exists; the nearest kind stands in."""
    message_bytes: list[int]
    """Sizes that the times below are of, rising."""
    time_us: dict[int, list[float]]
    """By number of ranks, microseconds."""
    source: str

    @model_validator(mode="after")
    def _one_time_for_each_size(self) -> Self:
        if any(len(times) != len(self.message_bytes) for times in self.time_us.values()):
            raise ValueError("time_us needs one time for each entry of message_bytes")
        return self

    def seconds(self, num_bytes: int, ranks: int) -> float:
        """One all-reduce of `num_bytes` over `ranks` GPUs, seconds.

        Formula
            linear between the measured sizes, the first time below them, in proportion above them; a width
            that was not measured takes the next larger one's times

        Not covered
            Groups that span machines, and more ranks than were measured.
        """
        if ranks < 2:
            return 0.0
        width = min((n for n in self.time_us if n >= ranks), default=max(self.time_us))
        sizes, times = self.message_bytes, self.time_us[width]
        if num_bytes <= sizes[0]:
            return times[0] * 1e-6
        if num_bytes >= sizes[-1]:
            return times[-1] * 1e-6 * num_bytes / sizes[-1]
        above = bisect_right(sizes, num_bytes)
        share = (num_bytes - sizes[above - 1]) / (sizes[above] - sizes[above - 1])
        return (times[above - 1] + share * (times[above] - times[above - 1])) * 1e-6


class EngineSpec(Record):
    """One span of versions of one engine."""

    id: str
    """`vllm@0.33`: family and first version of the span's newest behaviour."""
    family: str
    name: str
    first_version: str
    last_version: str | None
    """None: still current."""
    older_engine: str | None = None
    """Id of the span whose behaviour this version falls back to on cards that its own engine does not run."""
    older_engine_below: str = ""
    """Compute capability below which it does so."""
    older_engine_on_rocm: bool = False
    gpu_memory_utilization: float
    share_name: str = "gpu_memory_utilization"
    """What the engine calls its share of the card."""
    reserve: Reserve | None = None
    """Where the default share follows from card and batch; None: it is `gpu_memory_utilization`."""
    shares_free_memory: bool = False
    """Whether the share is one of the memory that is free before loading, not of the whole card."""
    groups_layers: bool = True
    """Whether layers that cache unlike share blocks by the rules of `kv_blocks`; False: only models whose
    layers all keep every token are described."""
    block_size: int
    batch_limits: list[BatchLimits]
    batches_whole_prompts_up_to: int = 0
    """Longest max_model_len at which a whole prompt is one batch by default, tokens: no chunked prefill."""
    refuses_less_free_memory: bool = False
    """Whether a start is refused when less memory is free than the budget."""
    subtracts_cuda_graphs: bool
    """Whether an estimate of graph memory is taken from the KV pool."""
    printed_tokens: Literal["blocks", "concurrency"]
    """blocks: blocks // groups x block_size; concurrency: max_concurrency x max_model_len."""
    in_flight_batches: int
    """Batches of max_num_batched_tokens that a window layer keeps beyond its window (0: none, 2:
    asynchronous)."""
    group_padding_ratio: float = 1.5
    """Kinds of cache layers whose counts differ by less than this are padded to the larger count."""
    state_blocks_per_request: int = 1
    """Blocks that a request's recurrent state draws from the pool; 2 where prefixes of hybrids are cached; 0:
    states are kept outside of it."""
    windows_bounded: bool = True
    """Whether window layers give blocks back; False: the pool treats them as full attention."""
    refuses_more_sequences_than_state_blocks: bool = False
    """Whether a start with max_num_seqs above the blocks of a hybrid's pool is refused."""
    reads_kv_dtype_of_checkpoint: bool = False
    """Whether `kv_cache_dtype=auto` takes the FP8 that a checkpoint declares for its cache."""
    marlin_tile: tuple[int, int] | None = None
    """Smallest output and input of a 4-bit kernel that pads nothing; None: the engine pads, or falls back."""
    marlin_tile_methods: list[str] = Field(default_factory=list)
    """Methods of 4-bit weights for which it is the only kernel."""
    log_lines: dict[str, str]
    """Form of the start-up lines, by what they say."""
    overhead: Overhead
    step_time: StepTime
    source: str

    def falls_back_on(self, *, capability: str | None, platform: str) -> bool:
        """Whether this version runs its older engine on such a card.

        Source
            vLLM 0.8 and 0.9 vllm/engine/arg_utils.py `_is_v1_supported_oracle`.
        """
        if self.older_engine is None:
            return False
        if platform == "rocm":
            return self.older_engine_on_rocm
        if capability is None or not capability.replace(".", "", 1).isdigit() or not self.older_engine_below:
            return False
        return float(capability) < float(self.older_engine_below)

    def batched_tokens_for(self, limits: BatchLimits, *, max_model_len: int) -> int:
        """The default of max_num_batched_tokens: the card's, or a whole prompt where prefill is not chunked.

        Source
            vLLM 0.7 vllm/config.py `SchedulerConfig.__post_init__`, engine/arg_utils.py (chunked beyond 32K).
        """
        if max_model_len <= self.batches_whole_prompts_up_to:
            return max(limits.max_num_batched_tokens, max_model_len)
        return limits.max_num_batched_tokens

    def utilization_for(
        self, limits: BatchLimits, *, total_bytes: int | None, tokens: int, ranks: int
    ) -> float:
        """The default share of the card."""
        if self.reserve is None or not total_bytes:
            return self.gpu_memory_utilization
        return max(0.05, self.reserve.share(limits, total_mib=total_bytes / MIB, tokens=tokens, ranks=ranks))

    @property
    def cache_rules(self) -> CacheRules:
        """How this version forms groups and blocks."""
        return CacheRules(
            padding_ratio=self.group_padding_ratio,
            state_blocks=self.state_blocks_per_request,
            windows_bounded=self.windows_bounded,
            groups_layers=self.groups_layers,
        )

    def batch_limits_for(self, *, total_gib: float, device_name: str, capability: str) -> BatchLimits:
        """The defaults that this engine takes on a card that reports `total_gib` GiB."""
        lowered = device_name.lower()
        for row in self.batch_limits:
            if total_gib < row.min_memory_gib or capability in row.not_capability:
                continue
            if any(word in lowered for word in row.not_named):
                continue
            return row
        return self.batch_limits[-1]


class EngineFile(Record):
    """One file of catalog/engines."""

    sources: dict[str, str]
    engines: list[EngineSpec]
    all_reduce: dict[str, AllReduce] = Field(default_factory=dict)
    """By kind of link, in the file's order: the first that matches a card holds for it."""
