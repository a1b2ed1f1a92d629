"""The memory bar of one card: what fills it from its start to its edge, and what would lie past the edge."""

from willitserve.assess import Assessment
from willitserve.report import BarSegment, Basis, Figure, SegmentKey
from willitserve.units import GIB


def memory_bar(plan: Assessment) -> list[BarSegment]:
    """The stretches of one card's memory in drawing order; empty where the card's memory is not known.

    Up to the card's edge stand weights, overhead, KV cache and the share that the engine leaves to others;
    where weights and overhead take of that share, it is shown by what is left of it. KV cache that was asked
    for and has no room comes last, past the edge.
    """
    if plan.total is None or plan.requested_bytes is None:
        return []
    total = plan.total.total_bytes
    rank = plan.rank
    graphs = rank.cuda_graphs if plan.engine.subtracts_cuda_graphs else 0
    overhead = (rank.activation or 0) + rank.non_torch + graphs
    pool = plan.pool_bytes or 0
    users = plan.request.users
    held = min(users, plan.max_users or 0)
    needed = plan.pool.needed_bytes if plan.pool else 0
    used = min(held * needed, pool)
    missing = max(0, users * needed - pool)
    others = min(total - plan.requested_bytes, max(0, total - rank.weights - overhead))
    parts: list[tuple[SegmentKey, str, int]] = [
        ("weights", "Weights", rank.weights),
        ("overhead", "Engine overhead", overhead),
        ("kv_used", f"KV cache of {held:,} user{'' if held == 1 else 's'}", used),
        ("kv_free", "KV cache free" if plan.pool else "Left for the KV cache", pool - used),
        ("unusable", "Left to others", others),
        ("outside", f"KV cache without room, for {users:,} user{'' if users == 1 else 's'} in all", missing),
    ]
    return [
        BarSegment(key=key, label=label, bytes=num_bytes, ratio=num_bytes / total)
        for key, label, num_bytes in parts
        if num_bytes > 0
    ]


_BASES: dict[SegmentKey, tuple[Basis, str]] = {
    "weights": ("derived", "bytes of the fullest GPU"),
    "overhead": ("estimated", "activation peak, memory outside PyTorch and CUDA graphs"),
    "kv_used": ("estimated", "whole requests in the KV pool, which is an estimate"),
    "kv_free": ("estimated", "what is left of the KV pool"),
    "unusable": ("derived", "the card's memory that gpu_memory_utilization does not give to the engine"),
    "outside": ("estimated", "asked for, less the KV pool"),
}


def bar_figures(bar: list[BarSegment]) -> dict[str, Figure]:
    """The amount of each stretch, keyed `memory.bar.<key>`."""
    return {
        f"memory.bar.{segment.key}": Figure(
            label=segment.label,
            value=segment.bytes / GIB,
            unit="GiB",
            digits=1,
            basis=_BASES[segment.key][0],
            arithmetic=f"{segment.bytes:,} B",
            because=_BASES[segment.key][1],
        )
        for segment in bar
    }
