"""Number 2, bandwidth: bytes that one step reads, the ceiling they set, and the band that real runs fall
into.

The ceiling is bandwidth over bytes and is hard; the band is a step-time model fitted on published
measurements, with constants by engine family and card class (`catalog/engines`), none by model or product.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from willitserve.architecture import Architecture
from willitserve.checkpoint import Checkpoint, Part, TensorGroup
from willitserve.engine import AllReduce, StepTime
from willitserve.gpu import GpuSpec
from willitserve.kv_cache import kv_read_bytes
from willitserve.units import ceil_div
from willitserve.weights import WeightFormat, loaded_bytes, rank_share, step_groups


def distinct_experts(num_experts: int, experts_per_token: int, users: int) -> float:
    """Expected number of distinct experts that one step of `users` tokens reads in one layer.

    Formula
        E x (1 - (1 - k/E)^B), routing taken as uniform: an upper bound where sequences resemble each other.
    """
    if not 0 < experts_per_token < num_experts:
        return float(num_experts)
    return num_experts * (1.0 - _power(1.0 - experts_per_token / num_experts, users))


def _power(base: float, exponent: int) -> float:
    """base ** exponent by multiplications alone: C libraries differ in the last digit of pow, reports must
    not."""
    result = 1.0
    while exponent:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBytes:
    """What one rank of each stage reads in one step, summed over the stages."""

    dense_weights: int
    """Read whatever the batch is: attention, dense MLPs, shared experts, norms, output head."""
    routed_weights: float
    """Of the routed experts that this batch is expected to choose."""
    kv_per_user: int
    fullest_stage_share: float
    """Share of the weights that stand on the fullest stage: 1 without pipeline."""

    def total(self, users: int) -> float:
        """Bytes of one step for `users` sequences."""
        return self.dense_weights + self.routed_weights + users * self.kv_per_user


def _head_is_embedding(group: TensorGroup, architecture: Architecture) -> bool:
    return group.shape[-1] == architecture.hidden_size and len(group.shape) == 2


def read_bytes(
    checkpoint: Checkpoint,
    architecture: Architecture,
    *,
    tp: int,
    stages: tuple[range, ...],
    users: int,
    context: int,
    run_dtype_bits: int,
    kv_dtype_bits: int,
    weight_format: WeightFormat | None,
) -> StepBytes:
    """Bytes that one rank reads per decode step.

    The input embedding is a table of which one row per token is read: it counts only where it is the output
    head too.
    """
    dense = 0
    routed = 0.0
    by_stage = [0.0] * len(stages)
    moe = architecture.moe
    share_read = (
        distinct_experts(moe.num_experts, moe.experts_per_token, users) / moe.num_experts if moe else 1.0
    )
    has_head = any(g.part is Part.OUTPUT_HEAD and g.served for g in checkpoint.groups)
    for group in step_groups(checkpoint):
        if group.part is Part.EMBEDDING and (has_head or not _head_is_embedding(group, architecture)):
            continue
        numerator, denominator = rank_share(group, architecture, tp=tp)
        whole = loaded_bytes(group, run_dtype_bits=run_dtype_bits, weight_format=weight_format)
        held = ceil_div(whole * numerator, denominator)
        if group.part is Part.ROUTED_EXPERT:
            read = held * share_read
            routed += read
        else:
            read = float(held)
            dense += held
        stage = next((i for i, layers in enumerate(stages) if group.layer in layers), len(stages) - 1)
        by_stage[stage] += read
    total = sum(by_stage)
    return StepBytes(
        dense_weights=dense,
        routed_weights=routed,
        kv_per_user=kv_read_bytes(architecture, context, kv_dtype_bits=kv_dtype_bits, tp=tp),
        fullest_stage_share=max(by_stage) / total if total else 1.0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """Hard bounds, tokens per second."""

    per_user: float
    aggregate: float


def ceiling(step: StepBytes, *, bandwidth_bytes_per_s: int, users: int) -> Ceiling:
    """Bandwidth over bytes read.

    A pipeline does not speed one sequence up: its stages are read one after the other. With several sequences
    the stages overlap, and the fullest one bounds the aggregate.
    """
    seconds = step.total(users) / bandwidth_bytes_per_s
    return Ceiling(per_user=1.0 / seconds, aggregate=users / (seconds * step.fullest_stage_share))


def card_class(gpu: GpuSpec) -> str | None:
    """The class of memory system whose efficiency a card shares; None: no measurement of such cards is in the
    fit."""
    memory = gpu.memory_type or ""
    if memory.startswith("LPDDR") and gpu.platform in ("cuda", "rocm", "metal"):
        return "soc"
    if memory.startswith("GDDR") and gpu.platform in ("cuda", "rocm", "xpu"):
        return "gddr"
    if memory.startswith("HBM") and gpu.platform == "rocm":
        return "instinct"
    if memory.startswith("HBM") and gpu.platform == "cuda":
        if gpu.architecture == "Hopper":
            return "hopper"
        return "blackwell-hbm" if gpu.architecture.startswith(("Blackwell", "Rubin")) else "ampere-hbm"
    return None


def all_reduce_of(gpu: GpuSpec, tables: Mapping[str, AllReduce], *, tp: int) -> AllReduce | None:
    """The all-reduce table for `tp` of these cards; a bridge joins only as many cards as its domain has."""
    link = gpu.interconnect.type
    domain = gpu.interconnect.domain_size
    if gpu.interconnect.bridge and (domain is None or tp > domain):
        link = "pcie"
    for table in tables.values():
        if link not in table.links:
            continue
        if table.architectures and gpu.architecture not in table.architectures:
            continue
        if table.memory_types and gpu.memory_type not in table.memory_types:
            continue
        if table.pcie and not (gpu.interconnect.pcie or "").startswith(table.pcie):
            continue
        return table
    return None


def active_block_params(checkpoint: Checkpoint, architecture: Architecture) -> int:
    """Parameters that one token multiplies: all served blocks, of the routed experts only those chosen, no
    embedding."""
    moe = architecture.moe
    total = 0
    for group in step_groups(checkpoint):
        if group.part in (Part.EMBEDDING, Part.OUTPUT_HEAD):
            continue
        if group.part is Part.ROUTED_EXPERT and moe is not None:
            total += group.num_params * moe.experts_per_token // moe.num_experts
        else:
            total += group.num_params
    return total


def weight_width(checkpoint: Checkpoint, weight_format: WeightFormat | None) -> int:
    """Width of most of the block weights as stored, bits: 16, 8 or 4."""
    if weight_format is not None:
        return (
            4
            if weight_format.bits_per_weight_x100 < 600
            else 8
            if weight_format.bits_per_weight_x100 < 1200
            else 16
        )
    stored = params = 0
    for group in step_groups(checkpoint):
        if group.layer is not None and group.num_params and len(group.shape) >= 2:
            stored += group.stored_bytes
            params += group.num_params
    bits = 8 * stored / params if params else 16.0
    return 4 if bits < 6 else 8 if bits < 12 else 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One card and how it meets its neighbours, as the step-time model sees them."""

    bandwidth_bytes_per_s: int
    card_class: str
    dense_flops_per_s: int | None
    """Peak of the format that the matrices are multiplied in."""
    all_reduce: AllReduce | None


def step_seconds(
    step: StepBytes,
    machine: Machine,
    constants: StepTime,
    architecture: Architecture,
    *,
    users: int,
    tp: int,
    active_params: int,
    weight_bits: int,
) -> float:
    """Expected time of one decode step, seconds.

    Formula
        max(weights / (bandwidth x e), 2 x active parameters x users / (TP x peak x 0.6)) + KV / (bandwidth x
        e) + layers x launch (+ MoE routing) + fixed + 2 x layers x all-reduce(users x hidden x 2 B).
    """
    reach = machine.bandwidth_bytes_per_s * constants.bandwidth_efficiency[machine.card_class]
    weights = (step.dense_weights + step.routed_weights) / (
        reach * (constants.four_bit_efficiency if weight_bits == 4 else 1.0)
    )
    if machine.dense_flops_per_s:
        compute = 2 * active_params * users / (tp * machine.dense_flops_per_s * constants.compute_efficiency)
        weights = max(weights, compute)
    layers = len(architecture.layers)
    moe_layers = sum(1 for layer in architecture.layers if layer.ffn == "moe")
    seconds = weights + users * step.kv_per_user / reach
    seconds += layers * constants.layer_us * 1e-6 + moe_layers * constants.moe_layer_us * 1e-6
    seconds += constants.fixed_ms * 1e-3
    if tp > 1 and machine.all_reduce is not None:
        one = machine.all_reduce.seconds(users * architecture.hidden_size * 2, tp)
        seconds += 2 * layers * constants.all_reduce_factor * one
    return seconds


def prefill_seconds(
    machine: Machine,
    constants: StepTime,
    architecture: Architecture,
    *,
    tokens: int,
    tp: int,
    active_params: int,
    weight_bits: int,
) -> float | None:
    """Unloaded time to the first token of a prompt, seconds; None where the card's peak is not known.

    Formula
        (2 x active parameters x n + 2 x layers x heads x head_dim x n^2) / (TP x peak x MFU)
        + 0.55 x 2 x layers x all-reduce(n x hidden x 2 B) + fixed.
    """
    if not machine.dense_flops_per_s:
        return None
    layers = len(architecture.layers)
    attention = 2 * layers * architecture.num_attention_heads * architecture.head_dim * tokens * tokens
    flops = 2 * active_params * tokens + attention
    mfu = constants.prefill_mfu[str(weight_bits)]
    seconds = flops / (tp * machine.dense_flops_per_s * mfu) + constants.prefill_fixed_ms * 1e-3
    if tp > 1 and machine.all_reduce is not None:
        one = machine.all_reduce.seconds(tokens * architecture.hidden_size * 2, tp)
        seconds += 0.55 * 2 * layers * one
    return seconds
