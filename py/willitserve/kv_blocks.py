"""The KV cache as the engine lays it out: blocks of equal bytes, shared by groups of layers that cache alike.

Source
    vLLM vllm/v1/core/kv_cache_planning.py (0.33; kv_cache_utils.py before 0.28): layers with the same cache
    form groups of equal size, the smallest kind sets that size, missing layers are padding; all groups draw
    block ids from one pool. Narrower layers take more tokens to the block, so that all pages are equal. Where
    recurrent states and attention share a pool, the attention block grows until its page holds one state
    (vllm/platforms/interface.py `update_block_size_for_backend`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

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
from willitserve.engine import CacheRules
from willitserve.kv_cache import cache_bytes_per_token, state_bytes
from willitserve.units import ceil_div, round_up

NEWEST = CacheRules(state_blocks=2)

SPARSE_BLOCK_SIZE = 64
"""The only block that sparse latent attention reads (vLLM v1/attention/backends/mla/flashmla_sparse.py,
indexer.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheGroup:
    """Layers that draw one block for the same stretch of tokens."""

    kind: Cache
    num_groups: int
    block_size: int
    """Tokens of one block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockLayout:
    """How one rank's pool is cut."""

    block_bytes: int
    """Bytes of one block: `group_layers` pages."""
    group_layers: int
    groups: tuple[CacheGroup, ...]
    in_flight_tokens: int
    state_blocks: int = 1

    @property
    def block_size(self) -> int:
        """Tokens of the shortest block: what the engine prints as its block size and counts tokens by."""
        attention = [group.block_size for group in self.groups if not isinstance(group.kind, RecurrentState)]
        return min(attention, default=self.groups[0].block_size)

    @property
    def num_groups(self) -> int:
        """Groups of layers that draw blocks for one request."""
        return sum(group.num_groups for group in self.groups)

    @property
    def holds_states(self) -> bool:
        """Whether recurrent states draw blocks from this pool."""
        return any(isinstance(group.kind, RecurrentState) for group in self.groups)

    def blocks_for(self, tokens: int) -> int:
        """Blocks that one request of `tokens` tokens draws from the pool, over all groups."""
        return sum(group.num_groups * self._blocks_of(group, tokens) for group in self.groups)

    def _blocks_of(self, group: CacheGroup, tokens: int) -> int:
        match group.kind:
            case SlidingAttention(window=window):
                held = min(window - 1 + self.in_flight_tokens, tokens)
                return ceil_div(held, group.block_size) + 1
            case ChunkedAttention(chunk=chunk):
                return ceil_div(min(chunk + self.in_flight_tokens, tokens), group.block_size)
            case RecurrentState():
                return self.state_blocks
            case _:
                return ceil_div(tokens, group.block_size)

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


def _kinds(architecture: Architecture, layers: range, rules: CacheRules) -> Iterator[Cache]:
    """One cache for each that a layer draws blocks for, told apart only by what decides its blocks."""
    for layer in architecture.layers:
        if layer.index not in layers:
            continue
        for cache in layer.caches:
            match cache:
                case SharedKv():
                    continue
                case SlidingAttention() | ChunkedAttention():
                    yield replace(cache, num_heads=0) if rules.windows_bounded else _unbounded(cache)
                case FullAttention():
                    yield replace(cache, num_heads=0)
                case RecurrentState() if rules.state_blocks == 0:
                    continue
                case _:
                    yield cache


def _unbounded(cache: SlidingAttention | ChunkedAttention) -> FullAttention:
    return FullAttention(
        num_heads=0,
        num_kv_heads=cache.num_kv_heads,
        head_dim=cache.head_dim,
        v_head_dim=cache.v_head_dim,
    )


def _keeps_every_token(kinds: Iterable[Cache]) -> bool:
    return all(isinstance(kind, FullAttention | LatentAttention | IndexerCache) for kind in kinds)


def lay_out(
    architecture: Architecture,
    layers: range,
    *,
    kv_dtype_bits: int,
    tp: int,
    block_size: int,
    in_flight_tokens: int,
    rules: CacheRules = NEWEST,
) -> BlockLayout | None:
    """The block layout of the layers of one stage; None where this version cannot say it.

    None is answered for caches whose pages do not come out equal by these rules (compressed caches, cross
    attention, an indexer beside windows) and for models that cache nothing.

    Not covered
        Packed groups of backends that keep a block's layers together, and decode context parallelism.
    """
    kinds = Counter(_kinds(architecture, layers, rules))
    if not kinds or any(isinstance(kind, CompressedAttention | CrossAttention) for kind in kinds):
        return None

    def width(kind: Cache) -> int:
        return cache_bytes_per_token(kind, kv_dtype_bits=kv_dtype_bits, tp=tp)

    if _keeps_every_token(kinds):
        if any(isinstance(kind, IndexerCache) for kind in kinds):
            block_size = max(block_size, SPARSE_BLOCK_SIZE)
        # Layers that all keep every token need not be alike: one group, one page for the sum of them.
        bytes_per_token = sum(width(kind) * count for kind, count in kinds.items())
        return BlockLayout(
            block_bytes=bytes_per_token * block_size,
            group_layers=sum(kinds.values()),
            groups=(CacheGroup(kind=next(iter(kinds)), num_groups=1, block_size=block_size),),
            in_flight_tokens=in_flight_tokens,
        )
    if not rules.groups_layers or any(isinstance(kind, IndexerCache) for kind in kinds):
        return None

    widths: dict[Cache, int] = {kind: width(kind) for kind in kinds if not isinstance(kind, RecurrentState)}
    page = max((state_bytes(kind, tp=tp) for kind in kinds if isinstance(kind, RecurrentState)), default=0)
    if widths:
        full = [kind for kind in widths if isinstance(kind, FullAttention | LatentAttention)]
        first = widths[full[0]] if full else max(widths.values())
        block_size = round_up(max(block_size, ceil_div(page, first)), block_size)
        page = block_size * max(widths.values())
    counts = sorted(kinds.values())
    group_layers = counts[-1] if counts[-1] < counts[0] * rules.padding_ratio else counts[0]
    return BlockLayout(
        block_bytes=page * group_layers,
        group_layers=group_layers,
        groups=tuple(
            CacheGroup(
                kind=kind,
                num_groups=ceil_div(count, group_layers),
                block_size=_tokens_of_a_page(page, widths.get(kind), block_size),
            )
            for kind, count in kinds.items()
        ),
        in_flight_tokens=in_flight_tokens,
        # Prefixes are cached where attention can find them again, so not in models of states alone.
        state_blocks=rules.state_blocks if widths else min(1, rules.state_blocks),
    )


def _tokens_of_a_page(page: int, width: int | None, block_size: int) -> int:
    """A layer's block: as many tokens as fill the page, where they fill it evenly; else padding."""
    if width is None or page % (block_size * width):
        return block_size
    return page // width
