"""The four numbers of one request on one card, before they become sentences: the arithmetic that every view
shares."""

from dataclasses import dataclass, replace

from willitserve import bandwidth, memory, precision, scaling, start_rules, step_time
from willitserve.architecture import Architecture
from willitserve.catalog import Catalog
from willitserve.checkpoint import Checkpoint
from willitserve.engine import BatchLimits, EngineSpec
from willitserve.expert_padding import expert_kernel
from willitserve.gpu import GpuSpec, TotalMemory
from willitserve.kv_cache import kv_bytes_for_sequence, kv_read_bytes, layers_of_stages
from willitserve.memory import card_of
from willitserve.report import RejectedTp
from willitserve.request import PlanRequest
from willitserve.units import GIB
from willitserve.weights import WEIGHT_FORMATS, WeightFormat, main_format


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Subject:
    """A model that is understood well enough to be planned with; a key of caches by its identity."""

    architecture: Architecture
    checkpoint: Checkpoint
    quantization: scaling.ShardedQuantization | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Number 2 at the asked users and context; None: not known for this card."""

    step: bandwidth.StepBytes
    """The fewest bytes that a step reads: with routed experts, those of one token."""
    distinct_experts: int
    """Experts of a layer that uniform routing of all users is expected to choose; 0 without routed
    experts."""
    experts_per_token: int
    ceiling: bandwidth.Ceiling
    one_user: bandwidth.Ceiling
    seconds: step_time.StepSeconds | None
    """Expected time of a step by what it is spent on."""
    low: float | None
    high: float | None
    ttft_low: float | None
    ttft_high: float | None
    input_tokens: int
    load: step_time.Workload | None
    machine: step_time.Machine | None
    """What a curve against users is drawn from; None where there is no band."""
    because: str
    """Why there is no band, or what it rests on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """All numbers of one request; the fullest rank decides."""

    request: PlanRequest
    gpu: GpuSpec
    engine: EngineSpec
    task: str
    """As in Architecture."""
    context: int
    context_is_default: bool
    total: TotalMemory | None
    utilization: float
    limits: BatchLimits
    max_num_seqs: int
    batched_tokens: int
    weight_format: WeightFormat | None
    weight_bits: int
    """Width of most block weights as planned: 16, 8 or 4."""
    format_name: str
    """Storage format of most block weights as planned: `bf16`, `fp8-block`, `nvfp4`, …"""
    run_dtype: str
    dtype_change: str | None
    refusals: tuple[RejectedTp, ...]
    """Rules by which the engine will not start as asked; `tp` is the asked one."""
    kv_dtype: str
    kv_dtype_bits: int
    kv_dtype_because: str
    ranks: tuple[memory.RankMemory, ...]
    rank: memory.RankMemory
    """The rank that decides: the one with the fewest blocks."""
    requested_bytes: int | None
    pool_bytes: int | None
    """KV pool of the deciding rank, bytes, not below zero."""
    missing_bytes: int
    """By how much weights and overhead exceed the budget, bytes; 0 where there is a pool."""
    band_bytes: int
    """Half width of the band of the pool, bytes."""
    sort_bytes: int
    """By how much the pool may be smaller still, where the installation decides how the sampler works."""
    pool: memory.Pool | None
    running_users: int
    """How many of the asked users decode at once: the speed is theirs."""
    speed: Speed | None
    valid_tp: tuple[int, ...]
    rejected_tp: tuple[RejectedTp, ...]

    @property
    def max_users(self) -> int | None:
        """Requests of `context` tokens that run at once: by blocks, and by the engine's limit on
        sequences."""
        if self.pool is None or self.pool.max_users is None:
            return None
        return min(self.pool.max_users, self.max_num_seqs)


def running_users(request: PlanRequest, *, pool_bytes: int, sequence_bytes: int, max_num_seqs: int) -> int:
    """The asked users, or as many as may decode at once.

    `pool_bytes` is the upper edge of the pool, `sequence_bytes` what a sequence holds while it decodes (one
    that is still being read may need more, which `max_users` counts). Where none fits, all are taken: a
    what-if.
    """
    held = pool_bytes // sequence_bytes if sequence_bytes else max_num_seqs
    return min(request.users, held, max_num_seqs) if held else request.users


def default_context(architecture: Architecture, at_most: int | None) -> int:
    """The context that is planned when none is asked for: what the engine would take, capped for a page."""
    longest = architecture.max_model_len or 8192
    return longest if at_most is None else min(longest, at_most)


def pick_weight_format(request: PlanRequest) -> WeightFormat | None:
    """The format that the request brings the block matrices to; None: as stored."""
    return None if request.weights == "checkpoint" else WEIGHT_FORMATS[request.weights]


def _total_memory(request: PlanRequest, gpu: GpuSpec) -> TotalMemory | None:
    if request.mem_gib is not None:
        return TotalMemory(round(request.mem_gib * GIB), "exact", "as given in the request")
    return gpu.total_memory


def _engine_on(catalog: Catalog, engine: EngineSpec, gpu: GpuSpec) -> EngineSpec:
    """The engine that a version runs on this card: an older one where its own does not know the card."""
    if not engine.falls_back_on(capability=gpu.compute_capability, platform=gpu.platform):
        return engine
    return next((one for one in catalog.engines if one.id == engine.older_engine), engine)


def assess(
    catalog: Catalog,
    subject: Subject,
    request: PlanRequest,
    gpu: GpuSpec,
    engine: EngineSpec,
    *,
    page_context: int | None = None,
) -> Assessment:
    """Work the four numbers out. `page_context` caps the context that is taken when none was asked for."""
    architecture, checkpoint = subject.architecture, subject.checkpoint
    engine = _engine_on(catalog, engine, gpu)
    context = request.context or default_context(architecture, page_context)
    total = _total_memory(request, gpu)
    limits = engine.batch_limits_for(
        total_gib=total.total_bytes / GIB if total else 0.0,
        device_name=gpu.name,
        capability=gpu.compute_capability or "",
    )
    batched_tokens = request.batched or engine.batched_tokens_for(limits, max_model_len=context)
    max_num_seqs = request.seqs or min(limits.max_num_seqs, batched_tokens)
    utilization = request.util or engine.utilization_for(
        limits,
        total_bytes=total.total_bytes if total else None,
        tokens=batched_tokens,
        ranks=request.tp * request.pp,
    )
    weight_format = pick_weight_format(request)

    bf16 = precision.answer_for(catalog.formats, "bf16", gpu.compute_capability)
    run, change, refusal = precision.run_dtype(
        request.dtype, architecture.dtype, bf16=bf16, capability=gpu.compute_capability
    )
    run_bits = 32 if run == "float32" else 16
    kv_name, kv_bits, kv_because = precision.kv_dtype(
        request.kv,
        run=run,
        checkpoint=checkpoint.kv_cache_format if engine.reads_kv_dtype_of_checkpoint else None,
    )

    num_stages = min(request.pp, len(architecture.layers))
    card = card_of(gpu)
    ranks = memory.rank_memory(
        checkpoint,
        architecture,
        engine.overhead,
        card,
        tp=request.tp,
        pp=num_stages,
        run_dtype_bits=run_bits,
        kv_dtype_bits=kv_bits,
        weight_format=weight_format,
        max_num_seqs=max_num_seqs,
        batched_tokens=batched_tokens,
        block_size=engine.block_size,
        in_flight_batches=engine.in_flight_batches,
        eager=request.eager,
        expert_kernel=expert_kernel(gpu.compute_capability),
        cache_rules=engine.cache_rules,
    )
    requested = None
    if total is not None:
        shared = total.total_bytes
        if engine.shares_free_memory:
            shared -= engine.overhead.context_bytes(
                large=card.has_large_workspaces, multicast=card.has_multicast and request.tp > 1
            )
        requested = memory.requested_bytes(max(0, shared), utilization)

    def pool_of(rank: memory.RankMemory) -> int | None:
        if requested is None or rank.beside_kv is None:
            return None
        graphs = rank.cuda_graphs if engine.subtracts_cuda_graphs else 0
        return requested - rank.beside_kv - graphs

    def fill(rank: memory.RankMemory) -> memory.Pool | None:
        room = pool_of(rank)
        if room is None:
            return None
        return memory.fill_pool(rank, max(0, room), context=context, printed_tokens=engine.printed_tokens)

    # All stages get the block count of the poorest one.
    filled = [(rank, fill(rank)) for rank in ranks]
    rank, pool = min(filled, key=lambda item: (item[1].concurrency or 0.0) if item[1] else 0.0)
    room = pool_of(rank)
    overhead = engine.overhead
    band = (
        (rank.activation or 0) * overhead.activation_error_ratio
        + overhead.non_torch_error_gib * GIB
        + (overhead.cuda_graph_error_gib * GIB if engine.subtracts_cuda_graphs and not request.eager else 0)
    )
    running = request.users
    if room is not None:
        running = running_users(
            request,
            pool_bytes=max(0, room + round(band)),
            sequence_bytes=kv_bytes_for_sequence(
                architecture, context, kv_dtype_bits=kv_bits, tp=request.tp, layers=rank.layers
            ),
            max_num_seqs=max_num_seqs,
        )
    sort_bytes = round(overhead.sampler_sort_bytes_per_logit * max_num_seqs * (architecture.vocab_size or 0))
    quantization = subject.quantization
    if (
        quantization is not None
        and quantization.method in engine.marlin_tile_methods
        and main_format(checkpoint) == "int4"
        and checkpoint.activation_format is None
    ):
        quantization = replace(quantization, tile=engine.marlin_tile)
    valid, rejected = scaling.valid_tp(architecture, quantization=quantization)
    return Assessment(
        request=request,
        gpu=gpu,
        engine=engine,
        task=architecture.task,
        context=context,
        context_is_default=request.context is None,
        total=total,
        utilization=utilization,
        limits=limits,
        max_num_seqs=max_num_seqs,
        batched_tokens=batched_tokens,
        weight_format=weight_format,
        weight_bits=bandwidth.weight_width(checkpoint, weight_format),
        format_name=main_format(checkpoint) if weight_format is None else weight_format.name,
        run_dtype=run,
        dtype_change=change,
        refusals=(
            *start_rules.of_model(
                architecture, quantization, request, context=context, dtype_refusal=refusal
            ),
            *start_rules.of_formats(catalog, checkpoint, request, gpu),
            *start_rules.of_memory(
                request,
                engine,
                card,
                total=total,
                requested=requested,
                rank=rank,
                most_bytes=None if room is None else room + round(band),
                max_num_seqs=max_num_seqs,
            ),
        ),
        kv_dtype=kv_name,
        kv_dtype_bits=kv_bits,
        kv_dtype_because=kv_because,
        ranks=tuple(ranks),
        rank=rank,
        requested_bytes=requested,
        pool_bytes=None if room is None else max(0, room),
        missing_bytes=0 if room is None else max(0, -room),
        band_bytes=round(band),
        sort_bytes=sort_bytes,
        pool=pool,
        running_users=running,
        speed=_speed(
            catalog,
            subject,
            replace(request, users=running),
            gpu,
            engine,
            context,
            batched_tokens,
            run_bits,
            kv_bits,
            weight_format,
        ),
        valid_tp=tuple(valid),
        rejected_tp=tuple(rejected),
    )


def _math_format(
    catalog: Catalog, gpu: GpuSpec, checkpoint: Checkpoint, weight_format: WeightFormat | None
) -> tuple[str, int]:
    """The format in which the card multiplies the block matrices, as `dense_tflops` spells it, and its
    width: weights that are unpacked first are multiplied in 16 bit."""
    table_name = precision.STORED_FORMATS.get(bandwidth.block_format(checkpoint, weight_format), "")
    hardware = {
        "fp8_w8a8": ("fp8", 8),
        "fp8_block_w8a8": ("fp8", 8),
        "mxfp8": ("fp8", 8),
        "int8_w8a8": ("int8", 8),
        "nvfp4": ("fp4", 4),
        "mxfp4": ("fp4", 4),
    }.get(table_name)
    if hardware is None:
        return "bf16", 16
    if precision.answer_for(catalog.formats, table_name, gpu.compute_capability) != "native":
        return "bf16", 16
    return hardware if gpu.dense_flops_per_s(hardware[0]) else ("bf16", 16)


def _speed(
    catalog: Catalog,
    subject: Subject,
    request: PlanRequest,
    gpu: GpuSpec,
    engine: EngineSpec,
    context: int,
    batched_tokens: int,
    run_bits: int,
    kv_bits: int,
    weight_format: WeightFormat | None,
) -> Speed | None:
    card_bandwidth = gpu.bandwidth_bytes_per_s
    if card_bandwidth is None or subject.architecture.task == "embed":
        return None
    architecture, checkpoint, users = subject.architecture, subject.checkpoint, request.users
    weights = bandwidth.step_weights(
        checkpoint,
        architecture,
        tp=request.tp,
        stages=layers_of_stages(len(architecture.layers), min(request.pp, len(architecture.layers))),
        run_dtype_bits=run_bits,
        weight_format=weight_format,
    )
    kv = kv_read_bytes(architecture, context, kv_dtype_bits=kv_bits, tp=request.tp)
    least_kv = kv
    if bandwidth.has_sparse_attention(architecture):
        least_kv = bandwidth.least_kv_read_bytes(architecture, context, kv_dtype_bits=kv_bits, tp=request.tp)
    step = bandwidth.step_bytes(weights, routed_share=weights.least_share, kv_per_user=least_kv)
    bound = bandwidth.ceiling(step, bandwidth_bytes_per_s=card_bandwidth, users=users, pp=request.pp)
    unknown = Speed(
        step=step,
        distinct_experts=round(weights.expected_share(users) * weights.num_experts),
        experts_per_token=weights.experts_per_token,
        ceiling=bound,
        one_user=bandwidth.ceiling(step, bandwidth_bytes_per_s=card_bandwidth, users=1),
        seconds=None,
        low=None,
        high=None,
        ttft_low=None,
        ttft_high=None,
        input_tokens=request.input or context,
        load=None,
        machine=None,
        because="no measurements of cards of this class are in the fit: only the ceiling is given",
    )
    klass = bandwidth.card_class(gpu)
    if klass is None:
        return unknown
    table = bandwidth.all_reduce_of(gpu, catalog.all_reduce, tp=request.tp)
    if request.tp > 1 and table is None:
        return replace(
            unknown, because="no all-reduce times are known for this card's link: only the ceiling is given"
        )
    math_format, math_bits = _math_format(catalog, gpu, checkpoint, weight_format)
    machine = step_time.Machine(
        bandwidth_bytes_per_s=card_bandwidth,
        card_class=klass,
        dense_flops_per_s=gpu.dense_flops_per_s(math_format) or gpu.dense_flops_per_s("fp16"),
        math_bits=math_bits,
        all_reduce=table,
        tp=request.tp,
    )
    load = step_time.Workload(
        weights=weights,
        kv_per_user=kv,
        least_kv_per_user=least_kv,
        kv_bits=kv_bits,
        weight_bits=bandwidth.weight_width(checkpoint, weight_format),
        block_fp8=bandwidth.block_format(checkpoint, weight_format) in step_time.BLOCK_FP8_FORMATS,
        active_params=bandwidth.active_block_params(checkpoint, architecture),
        half_layers=step_time.half_layers(architecture),
        num_layers=len(architecture.layers),
        moe_layers=sum(1 for layer in architecture.layers if layer.ffn == "moe"),
        hidden_size=architecture.hidden_size,
        attention=step_time.attention_windows(architecture),
        attention_width=architecture.num_attention_heads * architecture.head_dim,
        prompt_tokens=unknown.input_tokens,
        output_tokens=request.output if request.input else None,
        batched_tokens=batched_tokens,
    )
    constants = engine.step_time
    seconds = step_time.step_seconds(load, machine, constants, users=users)
    low, high = step_time.band(seconds, at_most=bound.per_user)
    first = step_time.first_token_seconds(load, machine, constants, users=users)
    because = "step-time model fitted on published measurements"
    if users > 1 and load.output_tokens is None:
        because += "; without input and output lengths no prefill of other users is in it"
    if table is not None and not table.measured and request.tp > 1:
        because += "; all-reduce times of NVLink cards stand in for this card's link"
    return replace(
        unknown,
        seconds=seconds,
        low=low,
        high=high,
        ttft_low=None if first is None else first * constants.ttft_low,
        ttft_high=None if first is None else first * constants.ttft_high,
        load=load,
        machine=machine,
        because=because,
    )
