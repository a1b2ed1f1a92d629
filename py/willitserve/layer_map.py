"""The layers of a model by what they cache and how they feed forward: kinds, their order, and the cache of
each kind with its arithmetic."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Final, assert_never

from willitserve.architecture import (
    Architecture,
    Cache,
    ChunkedAttention,
    CompressedAttention,
    CrossAttention,
    FullAttention,
    IndexerCache,
    LatentAttention,
    Layer,
    RecurrentState,
    SharedKv,
    SlidingAttention,
)
from willitserve.kv_cache import (
    arithmetic,
    cache_bytes_per_token,
    fixed_arithmetic,
    kv_bytes_per_token,
    kv_fixed_bytes_per_sequence,
)
from willitserve.report import CacheShape, Figure, LayerKind
from willitserve.stored_parts import amount

_STATES: Final = {
    "mamba1": "Mamba",
    "mamba2": "Mamba-2",
    "gated-delta": "gated delta net",
    "kda": "Kimi delta attention",
    "lightning": "lightning attention",
    "short-conv": "short convolution",
    "rg-lru": "RG-LRU",
    "rwkv": "RWKV",
}
_FEED_FORWARD: Final = {"dense": "dense MLP", "moe": "MoE", "none": ""}
_SOURCE = "config.json; vLLM vllm/v1/kv_cache_interface.py"
_MAX_TERMS = 6
"""A pattern of more terms is harder to read than the map."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """What two layers have in common when they are of one kind."""

    shape: CacheShape
    mixer: str
    """The name of its caches; empty: no attention at all."""
    ffn: str

    @property
    def name(self) -> str:
        """`window 1,024 with MoE`."""
        feed_forward = _FEED_FORWARD[self.ffn]
        if self.mixer and feed_forward:
            return f"{self.mixer} with {feed_forward}"
        return self.mixer or feed_forward or "nothing"


@dataclass(frozen=True, slots=True)
class LayerMap:
    """The layers in order."""

    kinds: list[LayerKind]
    layers: list[int]
    """Of each layer the place of its kind in `kinds`."""
    pattern: str
    figures: dict[str, Figure]


def layer_map(architecture: Architecture, *, kv_dtype_bits: int, kv_dtype: str) -> LayerMap:
    """Kinds in order of appearance, the kind of each layer, the pattern in words, and figures of the caches.

    Bytes are of the whole model at TP 1. Where the caches are not understood there are no kinds, and the
    pattern is the sentence that says why.
    """
    if architecture.kv_withheld:
        return LayerMap([], [], architecture.kv_withheld[0], {})
    encodes = architecture.task == "embed"
    of_layers = [_kind_of(layer, encodes=encodes) for layer in architecture.layers]
    found = list(dict.fromkeys(of_layers))
    kinds: list[LayerKind] = []
    figures: dict[str, Figure] = {}
    for place, kind in enumerate(found):
        members = [layer for layer, its in zip(architecture.layers, of_layers, strict=True) if its == kind]
        its_figures = _figures(
            f"checkpoint.layer_kinds.{place}",
            kind,
            replace(architecture, layers=tuple(members)),
            kv_dtype_bits=kv_dtype_bits,
            kv_dtype=kv_dtype,
        )
        figures |= its_figures
        kinds.append(
            LayerKind(
                shape=kind.shape,
                ffn=members[0].ffn,
                label=kind.name[0].upper() + kind.name[1:],
                count=len(members),
                layers=_indices([layer.index for layer in members]),
                note=_note(kind, members[0]),
                figures=list(its_figures),
            )
        )
    places = {kind: place for place, kind in enumerate(found)}
    return LayerMap(kinds, [places[kind] for kind in of_layers], _pattern(of_layers), figures)


def _kind_of(layer: Layer, *, encodes: bool) -> _Kind:
    if not layer.caches:
        return _Kind("none", "uncached attention" if encodes else "", layer.ffn)
    named = [_named(cache) for cache in layer.caches]
    shapes = {shape for shape, _ in named}
    shape: CacheShape = "mixed"
    if len(shapes) == 1:
        shape = named[0][0]
    elif shapes == {"latent", "indexer"}:
        shape = "indexer"
    counted = {name: [each for _, each in named].count(name) for _, name in named}
    names = [name if count == 1 else f"{count} x {name}" for name, count in counted.items()]
    return _Kind(shape, " and ".join(names), layer.ffn)


def _named(cache: Cache) -> tuple[CacheShape, str]:
    match cache:
        case FullAttention():
            return "full", "full attention"
        case SlidingAttention(window=window):
            return "window", f"window {window:,}"
        case ChunkedAttention(chunk=chunk):
            return "chunk", f"chunk {chunk:,}"
        case LatentAttention():
            return "latent", "latent attention"
        case IndexerCache():
            return "indexer", "indexer"
        case CompressedAttention(ratio=0, window=window):
            return "window", f"window {window:,}"
        case CompressedAttention(ratio=ratio):
            return "compressed", f"compressed {ratio}:1"
        case RecurrentState(kind=kind):
            return "state", _STATES[kind]
        case CrossAttention():
            return "cross", "cross-attention"
        case SharedKv(window=window):
            return "shared", "shared cache" if window is None else f"shared window {window:,}"
        case _:
            assert_never(cache)


def _note(kind: _Kind, layer: Layer) -> str:
    """What a kind without figures does instead."""
    if kind.shape == "shared":
        sources = [cache.source_layer for cache in layer.caches if isinstance(cache, SharedKv)]
        example = f"layer {layer.index} that of {sources[0]}"
        return f"Reads the cache of an earlier layer ({example}) and keeps none."
    return "Keeps no cache." if kind.shape == "none" else ""


def _figures(
    key: str, kind: _Kind, members: Architecture, *, kv_dtype_bits: int, kv_dtype: str
) -> dict[str, Figure]:
    """Bytes that these layers add per token, and those that they hold per sequence, where there are any."""
    figures: dict[str, Figure] = {}
    because = f"KV cache in {kv_dtype}, whole model (TP 1)"
    per_token = kv_bytes_per_token(members, kv_dtype_bits=kv_dtype_bits)
    if per_token:
        figures[f"{key}.kv_bytes_per_token"] = Figure(
            label="Cache per token",
            value=per_token,
            unit="B",
            basis="derived",
            arithmetic=arithmetic(members, kv_dtype_bits=kv_dtype_bits),
            because=because,
            source=_SOURCE,
        )
    fixed = kv_fixed_bytes_per_sequence(members, kv_dtype_bits=kv_dtype_bits)
    if fixed:
        value, unit, digits = amount(fixed)
        line = fixed_arithmetic(members, kv_dtype_bits=kv_dtype_bits)
        each = _each_layer(members.layers, kv_dtype_bits=kv_dtype_bits)
        figures[f"{key}.kv_fixed_bytes_per_sequence"] = Figure(
            label="State per sequence" if kind.shape == "state" else "Cache per sequence, filled",
            value=value,
            unit=unit,
            digits=digits,
            basis="derived",
            arithmetic=f"{each}; {line}" if each else line,
            because="its own dtypes, whatever the KV cache’s" if kind.shape == "state" else because,
            source=_SOURCE,
        )
    return figures


def _each_layer(layers: Iterable[Layer], *, kv_dtype_bits: int) -> str:
    """How the bytes of one layer come about, once for each unlike cache."""
    terms: dict[str, None] = {}
    for layer in layers:
        for cache in layer.caches:
            row = cache_bytes_per_token(cache, kv_dtype_bits=kv_dtype_bits, tp=1)
            match cache:
                case SlidingAttention(window=tokens) | ChunkedAttention(chunk=tokens):
                    terms[f"{tokens:,} tokens x {row:,} B"] = None
                case CrossAttention(encoder_tokens=tokens):
                    terms[f"{tokens:,} tokens x {row:,} B"] = None
                case RecurrentState():
                    terms[_state_term(cache)] = None
                case CompressedAttention():
                    terms[_window_term(cache, kv_dtype_bits=kv_dtype_bits)] = None
                case IndexerCache(pool=pool) if pool > 1:
                    terms[f"key and score of {pool} tokens x {cache.head_dim} x 2 B"] = None
                case FullAttention() | LatentAttention() | IndexerCache() | SharedKv():
                    pass
                case _:
                    assert_never(cache)
    return "one layer: " + " or ".join(terms) if terms else ""


def _window_term(cache: CompressedAttention, *, kv_dtype_bits: int) -> str:
    rows = f"{cache.window:,} tokens x {cache.head_dim} x {kv_dtype_bits / 8:g} B"
    return f"{rows} + tokens that are not compressed yet, in FP32" if cache.ratio else rows


def _state_term(cache: RecurrentState) -> str:
    conv = f"{cache.conv_elements:,} of convolution x {cache.conv_dtype_bits / 8:g} B"
    state = f"{cache.state_elements:,} of state x {cache.state_dtype_bits / 8:g} B"
    return " + ".join(
        term for term, size in ((conv, cache.conv_elements), (state, cache.state_elements)) if size
    )


def _indices(indices: Sequence[int]) -> str:
    """`0, 2` or `5, 11, … 59`: which layers, from zero as tensor names count them."""
    steps = {after - before for before, after in pairwise(indices)}
    if len(indices) > 3 and len(steps) == 1 and steps != {1}:
        return f"{indices[0]}, {indices[1]}, … {indices[-1]}"
    runs: list[list[int]] = []
    for index in indices:
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs]
    return ", ".join(texts if len(texts) <= 4 else [*texts[:2], f"… {texts[-1]}"])


# --- the pattern in words ---------------------------------------------------------------------------------


def _pattern(kinds: Sequence[_Kind]) -> str:
    """`62 layers, each with dense MLP: 10 x (5 window 1,024 + 1 full attention) + 2 window 1,024`."""
    total = f"{len(kinds):,} layers" if len(kinds) != 1 else "1 layer"
    if not kinds:
        return "no layers"
    if len(set(kinds)) == 1:
        return f"{total}: {kinds[0].name}"
    mixers = {kind.mixer for kind in kinds}
    ffns = {kind.ffn for kind in kinds}
    names = [kind.name for kind in kinds]
    if len(ffns) == 1 and "" not in mixers:
        feed_forward = _FEED_FORWARD[kinds[0].ffn]
        total += f", each with {feed_forward}" if feed_forward else ""
        names = [kind.mixer for kind in kinds]
    elif len(mixers) == 1 and "none" not in ffns:
        total += f", each with {kinds[0].mixer}"
        names = [_FEED_FORWARD[kind.ffn] for kind in kinds]
    lead, period, times, tail = _repetition(names)
    plain = _runs(names)
    if len(plain) <= len(lead) + len(period) + len(tail) and len(plain) <= _MAX_TERMS:
        return f"{total}: {' + '.join(plain)}"
    if len(lead) + len(period) + len(tail) > _MAX_TERMS:
        counts = " + ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))
        return f"{total}: {counts}, in no order that repeats"
    repeated = f"{times} x ({' + '.join(period)})"
    return f"{total}: {' + '.join([*lead, repeated, *tail])}"


def _runs(names: Sequence[str]) -> list[str]:
    return [f"{len(list(run))} {name}" for name, run in groupby(names)]


def _repetition(names: Sequence[str]) -> tuple[list[str], list[str], int, list[str]]:
    """The shortest way to say a sequence as lead + times x (period) + tail, each as runs."""
    size = len(names)
    best: tuple[list[str], list[str], int, list[str]] = (_runs(names), [], 0, [])
    best_cost = len(best[0])
    for period in range(1, size // 2 + 1):
        # How far the sequence repeats itself at this distance, from each place on.
        alike = 0
        for start in range(size - period - 1, -1, -1):
            alike = alike + 1 if names[start] == names[start + period] else 0
            times = alike // period + 1
            if times < 2:
                continue
            end = start + times * period
            said = _runs(names[:start]), _runs(names[start : start + period]), times, _runs(names[end:])
            cost = len(said[0]) + len(said[1]) + len(said[3])
            if cost < best_cost or (cost == best_cost and times >= best[2]):
                best, best_cost = said, cost
    return best
