"""Number 2, bandwidth: the bytes that one step reads and the ceiling they set.

The ceiling is bandwidth over the fewest bytes that a step can read, and is hard; what real runs reach of it
is the business of `step_time.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from willitserve.architecture import (
    Architecture,
    Cache,
    CompressedAttention,
    IndexerCache,
    LatentAttention,
    Layer,
)
from willitserve.checkpoint import Checkpoint, Part, TensorGroup
from willitserve.engine import AllReduce
from willitserve.gpu import GpuSpec
from willitserve.identity_memo import IdentityMemo
from willitserve.kv_cache import kv_read_bytes
from willitserve.units import ceil_div
from willitserve.weights import WeightFormat, loaded_bytes, main_format, rank_share, step_groups


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


@dataclass(frozen=True, slots=True)
class _Folded:
    """A checkpoint as one step meets it: layers that are alike folded into one entry."""

    groups: tuple[tuple[TensorGroup, tuple[int | None, ...]], ...]
    """One group of each kind, and the layers that have such a group."""
    has_head: bool
    main_format: str


_folded: IdentityMemo[Checkpoint, _Folded] = IdentityMemo(4)
"""Of the open checkpoint and those it is compared with."""


def _fold(checkpoint: Checkpoint) -> _Folded:
    """Fold a checkpoint once."""
    return _folded.get(checkpoint, None, lambda: _fold_anew(checkpoint))


def _fold_anew(checkpoint: Checkpoint) -> _Folded:
    kinds: dict[tuple[object, ...], tuple[TensorGroup, list[int | None]]] = {}
    for group in step_groups(checkpoint):
        key = (group.part, group.module, group.format, group.shape, group.count, group.stored_bytes,
               group.num_params, group.layer is None)  # fmt: skip
        kinds.setdefault(key, (group, []))[1].append(group.layer)
    return _Folded(
        groups=tuple((group, tuple(layers)) for group, layers in kinds.values()),
        has_head=any(group.part is Part.OUTPUT_HEAD and group.served for group in checkpoint.groups),
        main_format=main_format(checkpoint),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWeights:
    """Weights that one rank reads per step, bytes by pipeline stage, whatever the number of users."""

    dense: tuple[int, ...]
    """Attention, dense MLPs, shared experts, norms, output head."""
    routed: tuple[int, ...]
    """All routed experts that the rank holds."""
    num_experts: int
    experts_per_token: int
    """Both 0 without routed experts."""

    def expected_share(self, users: int) -> float:
        """Share of the routed experts that `users` tokens are expected to choose."""
        if not self.num_experts:
            return 1.0
        return distinct_experts(self.num_experts, self.experts_per_token, users) / self.num_experts

    @property
    def least_share(self) -> float:
        """Share of the routed experts below which no routing reads: one token's choice, which all users may
        share."""
        if not 0 < self.experts_per_token < self.num_experts:
            return 1.0
        return self.experts_per_token / self.num_experts


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBytes:
    """What one rank of each stage reads in one step, summed over the stages."""

    dense_weights: int
    """Read whatever the batch is: attention, dense MLPs, shared experts, norms, output head."""
    routed_weights: float
    """Of the routed experts: as chosen by this batch, expected or fewest."""
    kv_per_user: int
    fullest_stage_share: float
    """Share of the weights that stand on the fullest stage: 1 without pipeline."""

    def total(self, users: int) -> float:
        """Bytes of one step for `users` sequences."""
        return self.dense_weights + self.routed_weights + users * self.kv_per_user


def _head_is_embedding(group: TensorGroup, architecture: Architecture) -> bool:
    return group.shape[-1] == architecture.hidden_size and len(group.shape) == 2


def step_weights(
    checkpoint: Checkpoint,
    architecture: Architecture,
    *,
    tp: int,
    stages: tuple[range, ...],
    run_dtype_bits: int,
    weight_format: WeightFormat | None,
) -> StepWeights:
    """Weights that one rank reads per decode step.

    The input embedding is a table of which one row per token is read: it counts only where it is the output
    head too.

    Source
        Which tensors a rank holds: `weights.rank_share`.

    Not covered
        Padding that an engine adds at load, and tables that it makes then: both are read in part at most.
    """
    folded = _fold(checkpoint)
    dense = [0] * len(stages)
    routed = [0] * len(stages)
    for group, layers in folded.groups:
        if group.part is Part.EMBEDDING and (folded.has_head or not _head_is_embedding(group, architecture)):
            continue
        numerator, denominator = rank_share(group, architecture, tp=tp)
        whole = loaded_bytes(group, run_dtype_bits=run_dtype_bits, weight_format=weight_format)
        held = ceil_div(whole * numerator, denominator)
        into = routed if group.part is Part.ROUTED_EXPERT else dense
        if len(stages) == 1:
            into[0] += held * len(layers)
            continue
        for layer in layers:
            into[next((i for i, of in enumerate(stages) if layer in of), len(stages) - 1)] += held
    moe = architecture.moe
    return StepWeights(
        dense=tuple(dense),
        routed=tuple(routed),
        num_experts=moe.num_experts if moe else 0,
        experts_per_token=moe.experts_per_token if moe else 0,
    )


def step_bytes(weights: StepWeights, *, routed_share: float, kv_per_user: int) -> StepBytes:
    """The bytes of one step in which `routed_share` of the routed experts are read."""
    by_stage = [d + r * routed_share for d, r in zip(weights.dense, weights.routed, strict=True)]
    total = sum(by_stage)
    return StepBytes(
        dense_weights=sum(weights.dense),
        routed_weights=sum(weights.routed) * routed_share,
        kv_per_user=kv_per_user,
        fullest_stage_share=max(by_stage) / total if total else 1.0,
    )


def least_kv_read_bytes(architecture: Architecture, tokens: int, *, kv_dtype_bits: int, tp: int) -> int:
    """KV bytes of one sequence below which no step reads: a layer whose indexer picks tokens reads the
    indexer's keys, and of what they point to nothing is counted.

    Formula
        as `kv_read_bytes`, without the latent rows beside an indexer

    Not covered
        A prefix that users share and that an engine reads once for all of them (cascade attention).
    """
    layers = tuple(
        replace(layer, caches=tuple(least for cache in layer.caches for least in _least(cache)))
        if _is_sparse(layer)
        else layer
        for layer in architecture.layers
    )
    return kv_read_bytes(replace(architecture, layers=layers), tokens, kv_dtype_bits=kv_dtype_bits, tp=tp)


def has_sparse_attention(architecture: Architecture) -> bool:
    """Whether an indexer picks the tokens that some layer reads, so that not all of the cache is read."""
    return any(_is_sparse(layer) for layer in architecture.layers)


def _is_sparse(layer: Layer) -> bool:
    return any(
        isinstance(cache, IndexerCache)
        or (isinstance(cache, CompressedAttention) and cache.indexer_head_dim > 0)
        for cache in layer.caches
    )


def _least(cache: Cache) -> tuple[Cache, ...]:
    """What of a cache beside an indexer is read for certain."""
    if isinstance(cache, LatentAttention):
        return ()
    return (replace(cache, head_dim=0),) if isinstance(cache, CompressedAttention) else (cache,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """Hard bounds, tokens per second."""

    per_user: float
    aggregate: float


def ceiling(step: StepBytes, *, bandwidth_bytes_per_s: int, users: int, pp: int = 1) -> Ceiling:
    """Bandwidth over bytes read. It is hard when `step` is the fewest bytes (`StepWeights.least_share`).

    A pipeline does not speed one sequence up: its stages are read one after the other. Several sequences are
    dealt out to the stages, so that a step holds a pp-th of them, and the fullest stage bounds the aggregate.

    Formula
        each user: bandwidth of one rank / (weights + ceil(users / pp) x KV of one rank)
        all: users times that, at most users x bandwidth / (bytes of all users x share of the fullest stage)

    Not covered
        Speculative decoding, which yields several tokens per step.
    """
    per_user = bandwidth_bytes_per_s / step.total(ceil_div(users, pp))
    fullest = users * bandwidth_bytes_per_s / (step.total(users) * step.fullest_stage_share)
    return Ceiling(per_user=per_user, aggregate=min(users * per_user, fullest))


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
    for group, layers in _fold(checkpoint).groups:
        if group.part in (Part.EMBEDDING, Part.OUTPUT_HEAD):
            continue
        params = group.num_params * len(layers)
        if group.part is Part.ROUTED_EXPERT and moe is not None:
            params = params * moe.experts_per_token // moe.num_experts
        total += params
    return total


def block_format(checkpoint: Checkpoint, weight_format: WeightFormat | None) -> str:
    """The format of most block matrices as planned."""
    return _fold(checkpoint).main_format if weight_format is None else weight_format.name


def weight_width(checkpoint: Checkpoint, weight_format: WeightFormat | None) -> int:
    """Width of most of the block weights as planned, bits: 16, 8 or 4."""
    if weight_format is not None:
        bits = weight_format.bits_per_weight_x100 / 100
    else:
        stored = params = 0
        for group, layers in _fold(checkpoint).groups:
            if group.layer is not None and group.num_params and len(group.shape) >= 2:
                stored += group.stored_bytes * len(layers)
                params += group.num_params * len(layers)
        bits = 8 * stored / params if params else 16.0
    return 4 if bits < 6 else 8 if bits < 12 else 16
