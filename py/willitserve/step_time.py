"""How long a decode step and a prefill take: the band that real runs fall into.

A step-time model fitted on published measurements, with constants by engine family and card class
(`catalog/engines`), none by model or product.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum, sqrt

from willitserve.architecture import (
    Architecture,
    ChunkedAttention,
    CompressedAttention,
    CrossAttention,
    IndexerCache,
    RecurrentState,
    SlidingAttention,
)
from willitserve.bandwidth import Ceiling, StepWeights, ceiling, step_bytes
from willitserve.engine import AllReduce, StepTime

BLOCK_FP8_FORMATS = frozenset({"fp8-block", "mxfp8"})
"""Formats whose activations are scaled block by block: a kernel before each matrix product."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One card and how it meets its neighbours, as the step-time model sees them."""

    bandwidth_bytes_per_s: int
    card_class: str
    dense_flops_per_s: int | None
    """Peak of the format that the matrices are multiplied in."""
    math_bits: int
    """Width of that format: 16, 8 or 4."""
    all_reduce: AllReduce | None
    tp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A model in one format, read at one context, as the step-time model sees it."""

    weights: StepWeights
    kv_per_user: int
    """Bytes that one sequence reads per step on one rank."""
    least_kv_per_user: int
    """As `bandwidth.least_kv_read_bytes`."""
    kv_bits: int
    weight_bits: int
    block_fp8: bool
    active_params: int
    """As `bandwidth.active_block_params`."""
    half_layers: int
    """Token mixers and feed-forward parts together: two in a usual layer, each ended by an all-reduce."""
    num_layers: int
    moe_layers: int
    hidden_size: int
    attention: tuple[tuple[int | None, int], ...]
    """Windows (None: all tokens) and in how many layers."""
    attention_width: int
    """Query heads x head_dim, elements."""
    prompt_tokens: int
    output_tokens: int | None
    """None: not asked; the prefill of other users is then left out of decode."""
    batched_tokens: int
    """Tokens of one prefill step."""


def half_layers(architecture: Architecture) -> int:
    """Token mixers and feed-forward parts of all layers: hybrids have layers with one of them alone."""
    return sum((1 if layer.caches else 0) + (layer.ffn != "none") for layer in architecture.layers)


def attention_windows(architecture: Architecture) -> tuple[tuple[int | None, int], ...]:
    """How far the attention of a prompt looks back, and in how many layers; recurrent layers do not look."""
    counted: dict[int | None, int] = {}
    for layer in architecture.layers:
        for cache in layer.caches:
            if isinstance(cache, RecurrentState | IndexerCache | CrossAttention):
                continue
            window = cache.window if isinstance(cache, SlidingAttention | CompressedAttention) else None
            if isinstance(cache, ChunkedAttention):
                window = cache.chunk
            counted[window] = counted.get(window, 0) + 1
    return tuple(counted.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSeconds:
    """Expected time of one step by what it is spent on, seconds."""

    weights: float
    """Reading weights, or multiplying them where the batch is large."""
    kv: float
    overhead: float
    """Launches and small kernels, routing, scheduler, sampler."""
    all_reduce: float
    prefill: float
    """Of other users' prompts, which chunked prefill mixes into the steps."""
    error: float
    """Half width of the band, as a share of the total."""

    @property
    def total(self) -> float:
        """Time between two tokens of one user, seconds."""
        return self.weights + self.kv + self.overhead + self.all_reduce + self.prefill


def step_seconds(load: Workload, machine: Machine, constants: StepTime, *, users: int) -> StepSeconds:
    """Expected time of one decode step with `users` sequences in it.

    Formula
        fourth root of (read^4 + multiply^4): read = weights / (bandwidth x e), of the routed experts k plus a
        share of what uniform routing adds; multiply = 2 x active parameters x users / (TP x peak x e)
        + KV / (bandwidth x e)
        + launch (half layers, MoE layers, block-scaled FP8 layers), users and fixed
        + half layers x all-reduce(users x hidden x 2 B)
        + (users - 1) x prefill / output tokens, where the lengths are given: a closed loop in which each
          prompt is read once while the others decode

    Source
        Published measurements, see `StepTime.source`; KV of a paged cache is read at near the full bandwidth.

    Not covered
        Requests that wait because the KV pool is full, prefix caching, speculative decoding, CUDA graphs off.
    """
    reach = machine.bandwidth_bytes_per_s * constants.bandwidth_efficiency[machine.card_class]
    if load.weight_bits == 4:
        reach *= constants.four_bit_efficiency
    dense, routed = sum(load.weights.dense), sum(load.weights.routed)
    least = load.weights.least_share
    share = least + constants.expert_spread * (load.weights.expected_share(users) - least)
    weights = (dense + routed * share) / reach
    if machine.dense_flops_per_s:
        peak = machine.tp * machine.dense_flops_per_s * constants.compute_efficiency
        weights = _fourth_root_sum(weights, 2 * load.active_params * users / peak)
    kv_reach = machine.bandwidth_bytes_per_s * constants.kv_efficiency["8" if load.kv_bits <= 8 else "16"]
    kv = users * load.kv_per_user / kv_reach
    overhead = _launch_seconds(load, machine, constants) + users * constants.sequence_us * 1e-6
    all_reduce = 0.0
    if machine.tp > 1 and machine.all_reduce is not None:
        empty = machine.all_reduce.seconds(0, machine.tp)
        full = machine.all_reduce.seconds(users * load.hidden_size * 2, machine.tp)
        all_reduce = load.half_layers * (
            constants.all_reduce_latency_factor * empty
            + constants.all_reduce_transfer_factor * (full - empty)
        )
    prefill = 0.0
    if users > 1 and load.output_tokens is not None:
        one = _prompt_seconds(load, machine, constants) or 0.0
        prefill = constants.prefill_share * (users - 1) * one / load.output_tokens
    total = weights + kv + overhead + all_reduce + prefill
    error = constants.band_error
    parts = (
        error["base"],
        error["weights"] * weights / total,
        error["kv"] * kv / total,
        error["overhead"] * overhead / total,
        error["all_reduce"] * all_reduce / total,
        error["prefill"] * prefill / total,
        error["moe"] if load.moe_layers else 0.0,
        constants.class_error[machine.card_class],
    )
    return StepSeconds(
        weights=weights,
        kv=kv,
        overhead=overhead,
        all_reduce=all_reduce,
        prefill=prefill,
        error=sqrt(fsum(part * part for part in parts)),
    )


def _fourth_root_sum(first: float, second: float) -> float:
    """(a^4 + b^4)^(1/4): the larger one, with a soft knee where they meet."""
    first *= first
    second *= second
    return sqrt(sqrt(first * first + second * second))


def _launch_seconds(load: Workload, machine: Machine, constants: StepTime) -> float:
    layers = (
        load.half_layers * constants.layer_us / 2
        + load.moe_layers * constants.moe_layer_us
        + (load.num_layers * constants.block_fp8_layer_us if load.block_fp8 else 0.0)
    )
    ratio = constants.launch_ratio.get(machine.card_class, 1.0)
    return layers * ratio * 1e-6 + constants.fixed_ms * 1e-3


def prompt_flops(load: Workload) -> int:
    """Operations of one prompt of n tokens through the blocks.

    Formula
        2 x active parameters x n + sum over layers of 4 x heads x head_dim x pairs of tokens that see each
        other: n^2 / 2, or n x w - w^2 / 2 within a window w < n
    """
    tokens = load.prompt_tokens
    doubled_pairs = 0
    for window, layers in load.attention:
        reach = tokens if window is None else min(window, tokens)
        doubled_pairs += layers * (2 * tokens * reach - reach * reach)
    return 2 * load.active_params * tokens + 2 * load.attention_width * doubled_pairs


def _prompt_seconds(load: Workload, machine: Machine, constants: StepTime) -> float | None:
    if not machine.dense_flops_per_s:
        return None
    utilisation = constants.prefill_mfu[str(machine.math_bits)]
    if load.moe_layers:
        utilisation *= constants.moe_prefill_ratio
    seconds = prompt_flops(load) / (machine.tp * machine.dense_flops_per_s * utilisation)
    if machine.tp > 1 and machine.all_reduce is not None:
        one = machine.all_reduce.seconds(load.prompt_tokens * load.hidden_size * 2, machine.tp)
        seconds += load.half_layers * one
    return seconds


def first_token_seconds(load: Workload, machine: Machine, constants: StepTime, *, users: int) -> float | None:
    """Time to the first token of a prompt that finds no queue, seconds; None where the card's peak is not
    known.

    Formula
        fourth root of (multiply^4 + read^4): multiply = FLOPs / (TP x peak x MFU) + half layers x
        all-reduce(n x hidden x 2 B), read = all weights / (bandwidth x e)
        + launches of each chunk of max_num_batched_tokens + front end
        + steps of the other users that it waits for

    Not covered
        Queueing behind other prompts, prefix caching, context parallelism.
    """
    compute = _prompt_seconds(load, machine, constants)
    if compute is None:
        return None
    reach = machine.bandwidth_bytes_per_s * constants.bandwidth_efficiency[machine.card_class]
    read = (sum(load.weights.dense) + sum(load.weights.routed)) / reach
    chunks = -(-load.prompt_tokens // load.batched_tokens)
    seconds = _fourth_root_sum(compute, read) + chunks * _launch_seconds(load, machine, constants)
    seconds += constants.first_token_ms * 1e-3
    if users > 1:
        seconds += constants.first_token_steps * step_seconds(load, machine, constants, users=users).total
    return seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPoint:
    """Speed at one number of users, tokens per second."""

    users: int
    low: float
    """Each user."""
    high: float
    ceiling: Ceiling
    fits: bool
    """Whether the KV pool holds so many at once."""

    @property
    def aggregate_low(self) -> float:
        """All users together, tokens per second; without a pipeline."""
        return self.users * self.low

    @property
    def aggregate_high(self) -> float:
        """All users together, tokens per second; without a pipeline."""
        return self.users * self.high


def band(step: StepSeconds, *, at_most: float) -> tuple[float, float]:
    """Speed of one user that about four of five measured runs fall into, tokens per second, never above the
    ceiling.

    Formula
        1 / (t x (1 + error)) to (1 + error) / t
    """
    high = min((1.0 + step.error) / step.total, at_most)
    return min(1.0 / (step.total * (1.0 + step.error)), high), high


def batch_curve(
    load: Workload,
    machine: Machine,
    constants: StepTime,
    *,
    users: Iterable[int],
    max_users: int | None,
) -> tuple[BatchPoint, ...]:
    """Speed against the number of users at the load's context; `max_users` is the memory wall, None where it
    is not known.

    Weights are read once for all users and KV once for each: the aggregate rises until KV or compute bounds
    it, while each user gets slower.
    """
    points: list[BatchPoint] = []
    least = step_bytes(
        load.weights, routed_share=load.weights.least_share, kv_per_user=load.least_kv_per_user
    )
    for count in users:
        bound = ceiling(least, bandwidth_bytes_per_s=machine.bandwidth_bytes_per_s, users=count)
        low, high = band(step_seconds(load, machine, constants, users=count), at_most=bound.per_user)
        points.append(
            BatchPoint(
                users=count,
                low=low,
                high=high,
                ceiling=bound,
                fits=max_users is None or count <= max_users,
            )
        )
    return tuple(points)


def compute_knee(load: Workload, machine: Machine, constants: StepTime) -> int | None:
    """The number of users from which multiplying takes longer than reading weights; None where the peak is
    not known or routing keeps reading ahead up to a million users.

    Formula
        smallest B with 2 x active parameters x B / (TP x peak x e) >= weights(B) / (bandwidth x e)
    """
    if not machine.dense_flops_per_s:
        return None
    per_user = (
        2 * load.active_params / (machine.tp * machine.dense_flops_per_s * constants.compute_efficiency)
    )
    reach = machine.bandwidth_bytes_per_s * constants.bandwidth_efficiency[machine.card_class]
    if load.weight_bits == 4:
        reach *= constants.four_bit_efficiency
    dense, routed = sum(load.weights.dense), sum(load.weights.routed)

    def is_beyond(users: int) -> bool:
        least = load.weights.least_share
        share = least + constants.expert_spread * (load.weights.expected_share(users) - least)
        return per_user * users >= (dense + routed * share) / reach

    low, high = 0, 1
    while not is_beyond(high):
        low, high = high, high * 2
        if high > 1_000_000:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_beyond(middle) else (middle, high)
    return high
