"""What an engine version does by itself: its defaults, what it takes from the budget, how fast its steps are.

One entry of `catalog/engines/*.yaml` is one span of versions that behave alike. Figures keep the unit of
their key; conversion to base units happens in the properties here, once.
"""

from typing import Literal

from pydantic import Field

from willitserve.record import Record
from willitserve.units import GB, GIB


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


class Overhead(Record):
    """The engine's own memory beside weights and KV cache: laws fitted on measured starts, and the error they
    left."""

    sampler_logits_copies: float
    """Peak of the sampler's dummy run, in FP32 logits of max_num_seqs x vocabulary."""
    forward_hidden_rows: float
    """Rows of hidden_size per batched token that a forward pass holds at its peak, beside the MLP's."""
    mlp_rows: float
    """Rows of intermediate_size per batched token: gate and up (2) and their product (1)."""
    non_torch_gib: float
    """One GPU: CUDA context growth, cuBLAS, compiled kernels."""
    non_torch_group_gib: float
    """Added when ranks talk to each other: NCCL buffers and custom all-reduce."""
    cuda_graph_gib: float
    cuda_graph_gib_per_layer: float
    activation_error_ratio: float
    """Half width of the band of the activation peak, as a share of it."""
    non_torch_error_gib: float
    cuda_graph_error_gib: float
    source: str

    @property
    def non_torch_bytes(self) -> int:
        """Non-torch memory of a lone GPU, bytes."""
        return round(self.non_torch_gib * GIB)

    @property
    def non_torch_group_bytes(self) -> int:
        """Non-torch memory that a group of ranks adds on each, bytes."""
        return round(self.non_torch_group_gib * GIB)


class StepTime(Record):
    """Constants of the decode step model and of prefill."""

    bandwidth_efficiency: dict[str, float]
    """Share of the card's bandwidth that kernels reach, by card class."""
    four_bit_efficiency: float
    """Factor on that share while 4-bit weights are unpacked."""
    compute_efficiency: float
    """Share of the dense peak that large decode batches reach."""
    layer_us: float
    """Launch and small kernels of one layer, microseconds."""
    moe_layer_us: float
    """Added by routing in an MoE layer, microseconds."""
    fixed_ms: float
    """Scheduler, sampler and host work of one step, milliseconds."""
    all_reduce_factor: float
    """Measured all-reduce inside a model over the bare kernel's time."""
    prefill_mfu: dict[str, float]
    """Model FLOP utilisation of prefill by format width: 16, 8, 4."""
    prefill_fixed_ms: float
    speed_low: float
    speed_high: float
    """Measured speed over the model's, lower and upper edge of the band."""
    ttft_low: float
    ttft_high: float
    source: str


class AllReduce(Record):
    """Time of one all-reduce kernel, alpha + bytes / beta by number of ranks, and the cards it stands for."""

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
    alpha_us: dict[int, float]
    beta_gb_per_s: dict[int, float]
    source: str

    def seconds(self, num_bytes: int, ranks: int) -> float:
        """One all-reduce of `num_bytes` over `ranks` GPUs, seconds; the next measured width stands for
        others."""
        if ranks < 2:
            return 0.0
        width = min((n for n in self.alpha_us if n >= ranks), default=max(self.alpha_us))
        return self.alpha_us[width] * 1e-6 + num_bytes / (self.beta_gb_per_s[width] * GB)


class EngineSpec(Record):
    """One span of versions of one engine."""

    id: str
    """`vllm@0.33`: family and first version of the span's newest behaviour."""
    family: str
    name: str
    first_version: str
    last_version: str | None
    """None: still current."""
    gpu_memory_utilization: float
    block_size: int
    batch_limits: list[BatchLimits]
    subtracts_cuda_graphs: bool
    """Whether an estimate of graph memory is taken from the KV pool."""
    printed_tokens: Literal["blocks", "concurrency"]
    """blocks: blocks // groups x block_size; concurrency: max_concurrency x max_model_len."""
    in_flight_batches: int
    """Batches of max_num_batched_tokens that a window layer keeps beyond its window (0: none, 2:
    asynchronous)."""
    marlin_tile: tuple[int, int] | None = None
    """Smallest output and input of a 4-bit kernel that pads nothing; None: the engine pads, or falls back."""
    log_lines: dict[str, str]
    """Form of the start-up lines, by what they say."""
    overhead: Overhead
    step_time: StepTime
    source: str

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
