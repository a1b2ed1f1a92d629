"""The KV cache as the engine lays it out: blocks of equal bytes, shared by groups of layers that cache alike.

Source
    vLLM vllm/v1/core/kv_cache_planning.py (0.33; kv_cache_utils.py before 0.28): layers with the same cache
    form groups of equal size, the smallest kind sets that size, missing layers are padding; all groups draw
    block ids from one pool. Where recurrent states and attention share a pool, the attention block grows
    until its page holds one state.
"""

from collections import Counter
from dataclasses import dataclass

from willitserve.architecture import (
    Architecture,
    Cache,
    ChunkedAttention,
    CompressedAttention,
    CrossAttention,
    FullAttention,
    IndexerCache,
    LatentAttention,
    RecurrentState,
    SharedKv,
    SlidingAttention,
)
from willitserve.kv_cache import cache_bytes_per_token, state_bytes
from willitserve.units import ceil_div, round_up


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheGroup:
    """Layers that draw one block for the same stretch of tokens."""

    kind: Cache
    num_groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockLayout:
    """How one rank's pool is cut."""

    block_size: int
    """Tokens of one block of a layer that keeps every token."""
    block_bytes: int
    """Bytes of one block: `group_layers` pages."""
    group_layers: int
    groups: tuple[CacheGroup, ...]
    in_flight_tokens: int

    @property
    def num_groups(self) -> int:
        """Groups of layers that draw blocks for one request."""
        return sum(group.num_groups for group in self.groups)

    def blocks_for(self, tokens: int) -> int:
        """Blocks that one request of `tokens` tokens draws from the pool, over all groups."""
        return sum(group.num_groups * self._blocks_of(group.kind, tokens) for group in self.groups)

    def _blocks_of(self, kind: Cache, tokens: int) -> int:
        match kind:
            case SlidingAttention(window=window):
                held = min(window - 1 + self.in_flight_tokens, tokens)
                return ceil_div(held, self.block_size) + 1
            case ChunkedAttention(chunk=chunk):
                return ceil_div(min(chunk + self.in_flight_tokens, tokens), self.block_size)
            case RecurrentState():
                return 1
            case _:
                return ceil_div(tokens, self.block_size)

    def num_blocks(self, pool_bytes: int) -> int:
        """Whole blocks in a pool."""
        return max(0, pool_bytes // self.block_bytes)

    def longest_request(self, pool_bytes: int, *, at_most: int) -> int:
        """The longest request, tokens, that a pool holds alone; 0 when not even one token fits.

        Source
            vLLM `estimate_max_model_len`: binary search over the bytes that a request of that length needs.
        """
        low, high = 0, at_most
        while low < high:
            middle = (low + high + 1) // 2
            if self.blocks_for(middle) * self.block_bytes <= pool_bytes:
                low = middle
            else:
                high = middle - 1
        return low


def _key(cache: Cache) -> Cache | None:
    """What makes two layers cache alike; None for a layer that keeps nothing in the pool."""
    match cache:
        case SharedKv():
            return None
        case _:
            return cache


def lay_out(
    architecture: Architecture,
    layers: range,
    *,
    kv_dtype_bits: int,
    tp: int,
    block_size: int,
    in_flight_tokens: int,
) -> BlockLayout | None:
    """The block layout of the layers of one stage; None where this version cannot say it.

    None is answered for caches whose pages do not come out equal by these rules (compressed caches, cross
    attention, window layers of another width than the full ones) and for models that cache nothing.
    """
    kinds: Counter[Cache] = Counter()
    indexer_bytes = 0
    uniform_bytes = 0
    for layer in architecture.layers:
        if layer.index not in layers:
            continue
        for cache in layer.caches:
            if isinstance(cache, (CompressedAttention, CrossAttention)):
                return None
            if isinstance(cache, IndexerCache):
                indexer_bytes += cache_bytes_per_token(cache, kv_dtype_bits=kv_dtype_bits, tp=tp)
                continue
            key = _key(cache)
            if key is None:
                continue
            kinds[key] += 1
            if isinstance(cache, (FullAttention, LatentAttention)):
                uniform_bytes += cache_bytes_per_token(cache, kv_dtype_bits=kv_dtype_bits, tp=tp)
    if not kinds:
        return None

    if all(isinstance(kind, (FullAttention, LatentAttention)) for kind in kinds):
        # Layers that all keep every token need not be alike: one group, one page for the sum of them.
        return BlockLayout(
            block_size=block_size,
            block_bytes=(uniform_bytes + indexer_bytes) * block_size,
            group_layers=sum(kinds.values()),
            groups=(CacheGroup(kind=next(iter(kinds)), num_groups=1),),
            in_flight_tokens=in_flight_tokens,
        )
    if indexer_bytes:
        return None

    attention = [kind for kind in kinds if not isinstance(kind, RecurrentState)]
    states = [kind for kind in kinds if isinstance(kind, RecurrentState)]
    widths = {cache_bytes_per_token(kind, kv_dtype_bits=kv_dtype_bits, tp=tp) for kind in attention}
    if len(widths) > 1:
        return None
    largest_state = max((state_bytes(kind, tp=tp) for kind in states), default=0)
    if widths:
        (width,) = widths
        if largest_state:
            block_size = round_up(max(block_size, ceil_div(largest_state, width)), block_size)
        page = block_size * width
    else:
        page = largest_state
    counts = sorted(kinds.values())
    # A quarter more of one kind than of the other is padded up to it; beyond that the smaller sets the group.
    group_layers = counts[-1] if counts[-1] < counts[0] * 1.25 else counts[0]
    return BlockLayout(
        block_size=block_size,
        block_bytes=page * group_layers,
        group_layers=group_layers,
        groups=tuple(
            CacheGroup(kind=kind, num_groups=ceil_div(n, group_layers)) for kind, n in kinds.items()
        ),
        in_flight_tokens=in_flight_tokens,
    )
