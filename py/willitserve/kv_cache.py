"""Bytes of keys, values and states: per token, per sequence, and read by one decode step.

All functions are about one tensor-parallel rank (`tp` = 1: the whole model) and raise ConfigError for an
architecture whose caches are not understood (`Architecture.kv_withheld`).
"""

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from math import ceil
from typing import assert_never

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
from willitserve.errors import ConfigError
from willitserve.units import ceil_div

INDEXER_SCALE_BYTES = 4
"""One FP32 scale beside the 8-bit indexer key of a compressed row (vLLM models/deepseek_v4/attention.py)."""

COMPRESSOR_VECTORS = 2
"""A compressor keeps the value and the score of every token that is still being compressed, in FP32."""


def layers_of_stages(num_layers: int, pp: int) -> tuple[range, ...]:
    """The layers of each of `pp` pipeline stages.

    Formula
        num_layers // pp each; the remainder goes one by one to the stages before the last, from the back.

    Source
        vLLM vllm/distributed/utils.py `get_pp_indices`.

    Not covered
        `VLLM_PP_LAYER_PARTITION`.
    """
    if pp < 1 or num_layers < 0:
        raise ValueError(f"{num_layers} layers cannot form {pp} stages")
    sizes = [num_layers // pp] * pp
    for i in range(num_layers % pp):
        sizes[-2 - i] += 1
    starts = [sum(sizes[:stage]) for stage in range(pp)]
    return tuple(range(start, start + size) for start, size in zip(starts, sizes, strict=True))


def layers_of_stage(num_layers: int, pp: int, stage: int) -> range:
    """The layers of pipeline stage `stage`, counted from zero; see `layers_of_stages`."""
    return layers_of_stages(num_layers, pp)[stage]


def kv_heads_per_rank(num_kv_heads: int, tp: int) -> int:
    """KV heads that one rank keeps: its share, at least one (fewer heads than ranks are replicated).

    Source
        vLLM vllm/config/model.py `get_num_kv_heads`. Rounded up, so that a width that the engine refuses
        loses no head.
    """
    return max(1, ceil_div(num_kv_heads, tp))


def cache_bytes_per_token(cache: Cache, *, kv_dtype_bits: int, tp: int) -> int:
    """Bytes that one token takes in one cache of one rank, while the cache keeps that token.

    Formula
        keys and values: KV heads per rank x (head_dim + v_head_dim) x kv_dtype_bits / 8
        MLA: (kv_lora_rank + qk_rope_head_dim) x kv_dtype_bits / 8, whole on every rank
        indexer: (head_dim x its own width + scale) / tokens per key, whatever kv_dtype_bits and tp
        compressed (DeepSeek-V4): one row of head_dim and its indexer key per `ratio` tokens, rounded up
        states and shared caches: 0

    Source
        vLLM vllm/v1/kv_cache_interface.py `AttentionSpec.unpadded_page_size_bytes` at block_size = 1,
        models/deepseek_v2.py `DeepseekV32IndexerCache`, models/deepseek_v4/attention.py.

    Not covered
        Page padding, scales kept beside a quantised cache, and the packed FP8 layout of sparse MLA on Hopper
        (`fp8_ds_mla`: 656 B per token and layer instead of 576 B).
    """
    return ceil(_row_bytes(cache, kv_dtype_bits=kv_dtype_bits, tp=tp))


def _row_bytes(cache: Cache, *, kv_dtype_bits: int, tp: int) -> Fraction:
    match cache:
        case FullAttention() | SlidingAttention() | ChunkedAttention():
            heads = kv_heads_per_rank(cache.num_kv_heads, tp)
            return Fraction(heads * (cache.head_dim + cache.v_head_dim) * kv_dtype_bits, 8)
        case CrossAttention():
            return Fraction(kv_heads_per_rank(cache.num_kv_heads, tp) * 2 * cache.head_dim * kv_dtype_bits, 8)
        case LatentAttention():
            return Fraction((cache.kv_lora_rank + cache.qk_rope_head_dim) * kv_dtype_bits, 8)
        case IndexerCache():
            return (Fraction(cache.head_dim * cache.key_dtype_bits, 8) + cache.scale_bytes) / cache.pool
        case CompressedAttention():
            if cache.ratio == 0:
                return Fraction(0)
            row = Fraction(cache.head_dim * kv_dtype_bits, 8)
            if cache.indexer_head_dim:
                row += cache.indexer_head_dim + INDEXER_SCALE_BYTES
            return row / cache.ratio
        case RecurrentState() | SharedKv():
            return Fraction(0)
        case _:
            assert_never(cache)


def state_bytes(cache: RecurrentState, *, tp: int) -> int:
    """Bytes of one sequence's state in one layer of one rank.

    Formula
        (conv elements x bits + state elements x bits) / 8 / tp, each rounded up; the groups of a Mamba-2
        layer are replicated when there are fewer than ranks

    Source
        vLLM vllm/model_executor/layers/mamba/mamba_utils.py `MambaStateShapeCalculator`.

    Not covered
        Rows for speculative tokens, and the copies that prefix caching keeps.
    """
    conv_elements = ceil_div(cache.conv_elements, tp)
    if cache.kind == "mamba2" and cache.num_groups % tp:
        # conv width = heads x head_dim + 2 x groups x state size, and the groups are extended to `tp`.
        heads_width, groups_width = _mamba2_convolved(cache)
        rows = cache.conv_elements // (heads_width + groups_width)
        conv_elements = rows * ceil_div(heads_width + groups_width // cache.num_groups * tp, tp)
    state_elements = ceil_div(cache.state_elements, tp)
    return ceil_div(conv_elements * cache.conv_dtype_bits, 8) + ceil_div(
        state_elements * cache.state_dtype_bits, 8
    )


def _mamba2_convolved(cache: RecurrentState) -> tuple[int, int]:
    """Widths of x and of B with C, from heads x head_dim and the state size."""
    return cache.width, 2 * cache.num_groups * (cache.state_elements // cache.width)


def kv_bytes_per_token(
    architecture: Architecture, *, kv_dtype_bits: int, tp: int = 1, layers: range | None = None
) -> int:
    """Bytes that every further token adds to the cache of one rank, for good.

    Formula
        sum over layers of `cache_bytes_per_token`, of caches that grow without bound: full, latent, indexer
        and the rows of compressed attention; not windows, chunks, states and the encoder's output.
    """
    return ceil(
        sum(
            (
                _row_bytes(cache, kv_dtype_bits=kv_dtype_bits, tp=tp)
                for cache in _caches(architecture, layers)
                if _is_unbounded(cache)
            ),
            start=Fraction(0),
        )
    )


def kv_fixed_bytes_per_sequence(
    architecture: Architecture, *, kv_dtype_bits: int, tp: int = 1, layers: range | None = None
) -> int:
    """Bytes that a sequence holds on one rank however long it is: the bounded caches, filled.

    Formula
        sum over layers of window (chunk, encoder) tokens x `cache_bytes_per_token`, plus `state_bytes`

    Not covered
        Tokens in flight during prefill, page rounding, and grouping into pages.
    """
    return sum(
        _bounded_bytes(cache, None, kv_dtype_bits=kv_dtype_bits, tp=tp, block_size=1)
        for cache in _caches(architecture, layers)
    )


def kv_bytes_for_sequence(
    architecture: Architecture,
    tokens: int,
    *,
    kv_dtype_bits: int,
    tp: int = 1,
    block_size: int = 16,
    layers: range | None = None,
) -> int:
    """Bytes that one request of `tokens` tokens occupies on one rank: whole blocks, windows bounded, states
    once.

    Not covered
        Tokens in flight during prefill and the engine's grouping of unlike layers into equal pages.
    """
    blocks = ceil_div(tokens, block_size) * block_size
    total = Fraction(0)
    for cache in _caches(architecture, layers):
        if _is_unbounded(cache):
            total += blocks * _row_bytes(cache, kv_dtype_bits=kv_dtype_bits, tp=tp)
        total += _bounded_bytes(cache, tokens, kv_dtype_bits=kv_dtype_bits, tp=tp, block_size=block_size)
    return ceil(total)


def kv_read_bytes(
    architecture: Architecture, tokens: int, *, kv_dtype_bits: int, tp: int = 1, layers: range | None = None
) -> int:
    """Bytes that one decode step of one sequence reads from the caches of one rank at a context of `tokens`.

    Windows and chunks are capped, states are read once; a layer that shares a cache reads it again.

    Not covered
        The choice of a sparse indexer: the keys of the indexer are all read, and so is the whole latent
        cache, which makes the figure an upper bound for such models.
    """
    total = Fraction(0)
    for cache in _caches(architecture, layers):
        if _is_unbounded(cache):
            total += tokens * _row_bytes(cache, kv_dtype_bits=kv_dtype_bits, tp=tp)
        elif isinstance(cache, SharedKv):
            heads = kv_heads_per_rank(cache.num_kv_heads, tp)
            reach = tokens if cache.window is None else min(tokens, cache.window)
            total += Fraction(reach * heads * 2 * cache.head_dim * kv_dtype_bits, 8)
        total += _bounded_bytes(cache, tokens, kv_dtype_bits=kv_dtype_bits, tp=tp, block_size=1)
    return ceil(total)


def _bounded_bytes(cache: Cache, tokens: int | None, *, kv_dtype_bits: int, tp: int, block_size: int) -> int:
    """The bounded part of a cache at `tokens` tokens (None: filled), in whole blocks."""

    def held(limit: int) -> int:
        return ceil_div(limit if tokens is None else min(limit, tokens), block_size) * block_size

    match cache:
        case SlidingAttention(window=limit) | ChunkedAttention(chunk=limit):
            return held(limit) * cache_bytes_per_token(cache, kv_dtype_bits=kv_dtype_bits, tp=tp)
        case CrossAttention():
            return cache.encoder_tokens * cache_bytes_per_token(cache, kv_dtype_bits=kv_dtype_bits, tp=tp)
        case RecurrentState():
            return state_bytes(cache, tp=tp)
        case CompressedAttention():
            window = ceil_div(held(cache.window) * cache.head_dim * kv_dtype_bits, 8)
            return window + _compressor_bytes(cache, tokens)
        case IndexerCache():
            # Key and score of every token of the unfinished pool, in 16 bit (vLLM
            # models/glm5next/common/attention.py).
            return 0 if cache.pool == 1 else cache.pool * 2 * cache.head_dim * 2
        case FullAttention() | LatentAttention() | SharedKv():
            return 0
        case _:
            assert_never(cache)


def _compressor_bytes(cache: CompressedAttention, tokens: int | None) -> int:
    """FP32 state of the tokens that are not compressed yet.

    Source: vLLM models/deepseek_v4/compressor.py: ratio 4 overlaps two groups and keeps both halves of each
    vector.
    """
    if cache.ratio == 0:
        return 0
    overlap = 2 if cache.ratio == 4 else 1
    pending = overlap * cache.ratio if tokens is None else min(tokens, overlap * cache.ratio)
    return pending * overlap * COMPRESSOR_VECTORS * (cache.head_dim + cache.indexer_head_dim) * 4


def arithmetic(
    architecture: Architecture, *, kv_dtype_bits: int, tp: int = 1, layers: range | None = None
) -> str:
    """`kv_bytes_per_token` as a line for people, one term for each kind of layer.

    `2 x 80 layers x 8 KV heads x 128 x 2 B = 327,680 B per token`
    """
    total = kv_bytes_per_token(architecture, kv_dtype_bits=kv_dtype_bits, tp=tp, layers=layers)
    counted = Counter(cache for cache in _caches(architecture, layers) if _is_unbounded(cache))
    terms = [_term(cache, count, kv_dtype_bits=kv_dtype_bits, tp=tp) for cache, count in counted.items()]
    merged = list(dict.fromkeys(term for term in terms if term))
    if not merged:
        return "no cache grows with the context: 0 B per token"
    return f"{' + '.join(merged)} = {total:,} B per token"


def fixed_arithmetic(
    architecture: Architecture, *, kv_dtype_bits: int, tp: int = 1, layers: range | None = None
) -> str:
    """`kv_fixed_bytes_per_sequence` as a line for people, one term for each kind of layer; empty where there
    is none."""
    total = kv_fixed_bytes_per_sequence(architecture, kv_dtype_bits=kv_dtype_bits, tp=tp, layers=layers)
    if total == 0:
        return ""
    counted: Counter[tuple[str, int]] = Counter()
    for cache in _caches(architecture, layers):
        size = _bounded_bytes(cache, None, kv_dtype_bits=kv_dtype_bits, tp=tp, block_size=1)
        if size:
            counted[_bounded_label(cache), size] += 1
    terms = [f"{count} {label} layers x {size:,} B" for (label, size), count in counted.items()]
    return f"{' + '.join(terms)} = {total:,} B per sequence"


def _bounded_label(cache: Cache) -> str:
    match cache:
        case SlidingAttention(window=limit):
            return f"window-{limit:,}"
        case ChunkedAttention(chunk=limit):
            return f"chunk-{limit:,}"
        case CrossAttention():
            return "cross-attention"
        case RecurrentState():
            return cache.kind
        case IndexerCache():
            return "indexer-pool"
        case _:
            return "window"


def _is_unbounded(cache: Cache) -> bool:
    return isinstance(cache, FullAttention | LatentAttention | IndexerCache | CompressedAttention)


def _term(cache: Cache, count: int, *, kv_dtype_bits: int, tp: int) -> str:
    """One summand; layers that differ only in query heads give the same text with their own count."""
    size = f"{kv_dtype_bits // 8} B" if kv_dtype_bits % 8 == 0 else f"{kv_dtype_bits / 8:g} B"
    match cache:
        case FullAttention():
            heads = kv_heads_per_rank(cache.num_kv_heads, tp)
            noun = "KV head" if heads == 1 else "KV heads"
            if cache.head_dim == cache.v_head_dim:
                return f"2 x {count} layers x {heads} {noun} x {cache.head_dim} x {size}"
            return f"{count} layers x {heads} {noun} x ({cache.head_dim} + {cache.v_head_dim}) x {size}"
        case LatentAttention():
            return f"{count} latent layers x ({cache.kv_lora_rank} + {cache.qk_rope_head_dim}) x {size}"
        case IndexerCache():
            key = cache.head_dim * cache.key_dtype_bits // 8
            each = f"({key} + {cache.scale_bytes}) B" if cache.scale_bytes else f"{key} B"
            return f"{count} indexer layers x {each}" + (f" / {cache.pool}" if cache.pool > 1 else "")
        case CompressedAttention():
            if cache.ratio == 0:
                return ""
            index = f" + {cache.indexer_head_dim + INDEXER_SCALE_BYTES} B" if cache.indexer_head_dim else ""
            return f"{count} compressed layers x ({cache.head_dim} x {size}{index}) / {cache.ratio}"
        case _:
            return ""


def _caches(architecture: Architecture, layers: range | None) -> Iterable[Cache]:
    if architecture.kv_withheld:
        raise ConfigError(f"The cache of this model is not known: {architecture.kv_withheld[0]}")
    for layer in architecture.layers:
        if layers is None or layer.index in layers:
            yield from layer.caches
