"""Which mixer every decoder layer has, from the many ways in which config.json writes a pattern of layers
down."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from willitserve.config_keys import ConfigKeys, as_sequence, shown, whole_number
from willitserve.errors import ConfigError
from willitserve.model_classes import PARALLEL_HYBRID_CLASSES, PURE_STATE_CLASSES

MixerKind = Literal[
    "full", "sliding", "chunked", "cross", "state", "full+state", "compressed", "none", "unknown"
]


@dataclass(frozen=True, slots=True)
class Mixer:
    """What a layer mixes tokens with: attention of some reach, a recurrent state, both or nothing."""

    kind: MixerKind
    reach: int = 0
    """Window or chunk, tokens; tokens per compressed row of a compressed cache (0: window only)."""
    word: str = ""
    """As config.json names it, where it does."""


FULL: Final = Mixer("full")
STATE: Final = Mixer("state")
NONE: Final = Mixer("none")

WORDS: Final[dict[str, MixerKind]] = {
    "full_attention": "full",
    "attention": "full",
    "global_attention": "full",
    "global": "full",
    "full": "full",
    # A sparse read of a full cache: what an indexer keeps beside it is described by the index keys.
    "indexed_attention": "full",
    "deepseek_sparse_attention": "full",
    "sliding_attention": "sliding",
    "sliding_window_attention": "sliding",
    "local_attention": "sliding",
    "local": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "state",
    "mamba": "state",
    "mamba2": "state",
    "recurrent": "state",
    "kda": "state",
    "conv": "state",
    "hybrid": "full+state",
    "mlp": "none",
    "moe": "none",
}
"""Words of `layer_types` and its older spellings (transformers configuration_utils.py
ALLOWED_LAYER_TYPES)."""

PATTERN_LETTERS: Final[dict[str, MixerKind]] = {"M": "state", "*": "full", "-": "none", "E": "none"}
"""`hybrid_override_pattern` of Nemotron-H: Mamba-2, attention, MLP, mixture of experts."""

MOST_LAYERS: Final = 1024
"""More layers than any published model has; a larger count is a broken file."""

MARKERS: Final = (
    "block_sparse_attention",
    "cca_time0",  # ZAYA
    "cross_layer_interval",  # IDEFICS
    "decoder_retention_heads",  # RetNet
    "expand_k",  # flash-linear-attention: GLA, DeltaNet and their relatives
    "expand_v",
    "hyena_filter_groups",  # StripedHyena
    "indexer_compress_ratio",
    "indexer_n_heads",
    "loop_window_size",
    "mb_per_layer",  # Phi-4-mini-flash
    "mlstm_round_up_to_multiple_of",  # xLSTM
    "moba_config",
    "n_recurrent_loops",
    "nsa_config",
    "ple_layer_ids",
    "qk_dim_factor",  # xLSTM as transformers writes it
    "rswa_window",
    "sconv_kernel_size",  # Inkling
    "use_sconv",
    "use_short_conv",
)
"""Keys that say that a layer caches something this version has no rule for."""


def num_layers(keys: ConfigKeys) -> int:
    """Decoder layers as config.json counts them; the length of the pattern where only that is given."""
    count = keys.integer("num_hidden_layers")
    if count is None:
        for name in ("hybrid_override_pattern", "layers_block_type", "layer_types", "block_configs"):
            found = keys.found(name)
            listed = (
                None if found is None else found[1] if isinstance(found[1], str) else as_sequence(found[1])
            )
            if listed is not None:
                count = len(listed)
                break
    if not count:
        return keys.required("num_hidden_layers")
    if count > MOST_LAYERS:
        raise ConfigError(f"config.json: {count} layers are more than any model has")
    return count


def mixers(keys: ConfigKeys, count: int) -> tuple[Mixer, ...]:
    """The mixer of each of `count` layers. Explicit lists win over periods, periods over one window for
    all."""
    for marker in MARKERS:
        if keys.has(marker) and keys.values[marker] not in (False, 0, []):
            keys.give_up(f"{marker} changes what attention caches and this version has no rule for it")
    for read in _READERS:
        found = read(keys, count)
        if found is not None:
            return _with_cross_attention(keys, found)
    return _with_cross_attention(keys, _one_window_for_all(keys, count))


def window_of(keys: ConfigKeys) -> int:
    """The sliding window in tokens; 0 where there is none or it can never be reached."""
    if keys.flag("use_sliding_window") is False:
        return 0
    listed = keys.found("sliding_window")
    if listed is not None and as_sequence(listed[1]) is not None:
        return 0
    window = keys.integer("sliding_window", minimum=0) or keys.integer("attention_window_size") or 0
    longest = keys.integer("max_position_embeddings", minimum=0)
    # A window as wide as all positions keeps every token of every request.
    return 0 if longest and window >= longest else window


def _sliding(window: int, word: str = "") -> Mixer:
    return Mixer("sliding", window, word) if window else Mixer("full", 0, word)


def _listed(keys: ConfigKeys, name: str, items: Sequence[object], count: int) -> Sequence[object]:
    """The entries of the first `count` layers: a longer list describes draft layers too, a shorter one
    nothing."""
    if len(items) < count:
        raise ConfigError(f"config.json: {name} lists {len(items)} layers, the model has {count}")
    return items[:count]


def _from_word(keys: ConfigKeys, word: object, name: str) -> Mixer:
    if not isinstance(word, str):
        raise ConfigError(f"config.json: {name} must list words, found {shown(word)}")
    kind = WORDS.get(word)
    if kind is None:
        keys.give_up(f'layers of the type "{word[:60]}" ({name})')
        return Mixer("unknown", 0, word)
    if kind == "sliding":
        return _sliding(window_of(keys), word)
    if kind == "chunked":
        return Mixer("chunked", keys.required("attention_chunk_size"), word)
    return Mixer(kind, 0, word)


def _compress_ratios(keys: ConfigKeys, count: int) -> tuple[Mixer, ...] | None:
    ratios = keys.integers("compress_ratios")
    if ratios is None:
        rates = keys.child("compress_rates")
        words = keys.words("layer_types")
        if rates is None or words is None:
            return None
        ratios = tuple(rates.integer(word, minimum=0) or 0 for word in words)
    return tuple(
        Mixer("compressed", whole_number("compress_ratios", ratio, minimum=0))
        for ratio in _listed(keys, "compress_ratios", ratios, count)
    )


def _layer_words(keys: ConfigKeys, count: int) -> tuple[Mixer, ...] | None:
    for name in ("layer_types", "layers_block_type", "attention_layers"):
        words = keys.words(name)
        if words:
            return tuple(_from_word(keys, word, name) for word in _listed(keys, name, words, count))
    blocks = keys.words("block_types")
    if blocks:
        # RecurrentGemma: the short list repeats, and its attention blocks are all local.
        local = {"attention": "local_attention"}
        cycle = [_from_word(keys, local.get(word, word), "block_types") for word in blocks]
        return tuple(cycle[i % len(cycle)] for i in range(count))
    return None


def _attention_types(keys: ConfigKeys, count: int) -> tuple[Mixer, ...] | None:
    """GPT-Neo: `[[["global", "local"], 12]]` repeats the words."""
    found = keys.found("attention_types")
    if found is None or (entries := as_sequence(found[1])) is None:
        return None
    flat: list[object] = []
    for entry in entries:
        pair = as_sequence(entry)
        words = as_sequence(pair[0]) if pair is not None and len(pair) == 2 else None
        if pair is None or words is None:
            raise ConfigError(f"config.json: attention_types must list [words, times], found {shown(entry)}")
        times = whole_number("attention_types", pair[1], minimum=1)
        flat.extend(list(words) * min(times, count))
    window = keys.integer("window_size") or 0
    return tuple(
        _sliding(window, "local") if word == "local" else _from_word(keys, word, "attention_types")
        for word in _listed(keys, "attention_types", flat, count)
    )


def _override_pattern(keys: ConfigKeys, count: int) -> tuple[Mixer, ...] | None:
    pattern = keys.text("hybrid_override_pattern")
    if pattern is None:
        return None
    unknown = sorted(set(pattern) - set(PATTERN_LETTERS))
    if unknown:
        keys.give_up(f"hybrid_override_pattern has the letters {' '.join(unknown)[:40]}")
    letters = _listed(keys, "hybrid_override_pattern", pattern, count)
    return tuple(Mixer(PATTERN_LETTERS.get(str(letter), "unknown"), 0, str(letter)) for letter in letters)


def _block_configs(keys: ConfigKeys, count: int) -> tuple[Mixer, ...] | None:
    """Nemotron NAS: one object per layer, which may leave attention out or replace it by a plain matrix."""
    if not keys.has("block_configs"):
        return None
    plan: list[Mixer] = []
    for index in range(count):
        block = keys.item("block_configs", index)
        if block is None:
            raise ConfigError(f"config.json: block_configs lists fewer than {count} layers")
        kind = block.text("block_type")
        if kind is not None:
            plan.append(_from_word(keys, kind, "block_configs"))
            continue
        attention = block.child("attention")
        if attention is None:
            raise ConfigError(f"config.json: block_configs[{index}] has no attention")
        if attention.flag("no_op") or attention.flag("replace_with_linear"):
            plan.append(NONE)
        else:
            plan.append(_sliding(attention.integer("window_length") or 0))
    return tuple(plan)


def _numbered_layers(keys: ConfigKeys, count: int) -> tuple[Mixer, ...] | None:
    """Lists of 0 and 1, and lists of layer numbers."""
    softmax = keys.integers("attn_type_list")
    if softmax is not None:
        return tuple(FULL if one else STATE for one in _listed(keys, "attn_type_list", softmax, count))
    sliding = keys.integers("hybrid_layer_pattern")
    if sliding is not None:
        window = window_of(keys) or keys.integer("sliding_window_size") or 0
        return tuple(
            _sliding(window) if one else FULL for one in _listed(keys, "hybrid_layer_pattern", sliding, count)
        )
    for name in ("attn_layer_indices", "full_attn_idxs"):
        attention = keys.integers(name)
        if attention is not None or (name in keys.values and keys.has("mamba_num_heads")):
            return tuple(FULL if i in (attention or ()) else STATE for i in range(count))
    return None


def _parallel_hybrid(keys: ConfigKeys, count: int) -> tuple[Mixer, ...] | None:
    """Falcon-H1: every layer has attention and a Mamba-2 state; `mamba_d_ssm` is its key alone."""
    if keys.model_type in PARALLEL_HYBRID_CLASSES or keys.has("mamba_d_ssm"):
        return (Mixer("full+state"),) * count
    return None


def _linear_attention_lists(keys: ConfigKeys, count: int) -> tuple[Mixer, ...] | None:
    """Kimi-Linear: `full_attn_layers` and `kda_layers` count from one; together they cover every layer
    once."""
    lists = keys.child("linear_attn_config")
    if lists is None:
        return None
    full, state = lists.integers("full_attn_layers"), lists.integers("kda_layers")
    if full is None or state is None:
        return None
    numbered = set(full) | set(state)
    for first in (1, 0):
        if numbered == set(range(first, count + first)) and not set(full) & set(state):
            return tuple(FULL if i + first in full else STATE for i in range(count))
    raise ConfigError(
        f"config.json: linear_attn_config names {len(numbered)} layers, the model has {count}: "
        "full_attn_layers and kda_layers must cover each layer once"
    )


def _periods(keys: ConfigKeys, count: int) -> tuple[Mixer, ...] | None:
    period = keys.integer("attn_layer_period")
    if period is not None:
        offset = keys.integer("attn_layer_offset", minimum=0) or 0
        return tuple(FULL if i % period == offset else STATE for i in range(count))
    for name in ("full_attention_interval", "layer_group_size"):
        interval = keys.integer(name)
        if interval is not None:
            return tuple(FULL if (i + 1) % interval == 0 else STATE for i in range(count))
    step = keys.integer("mamba_step")
    if step is not None and keys.flag("mamba_enabled") is not False:
        # PLaMo 2: one attention layer in the middle of every `mamba_step` layers.
        if count <= step // 2:
            return tuple(FULL if i == count - 1 else STATE for i in range(count))
        return tuple(FULL if i % step == step // 2 else STATE for i in range(count))
    return None


def _states_everywhere(keys: ConfigKeys, count: int) -> tuple[Mixer, ...] | None:
    if keys.model_type in PURE_STATE_CLASSES:
        return (STATE,) * count
    if not keys.has("mamba_state_size"):
        return None
    if not keys.has("num_attention_heads"):
        return (STATE,) * count
    keys.give_up("a state space model whose config.json does not say which layers have attention")
    return (Mixer("unknown"),) * count


def _states_without_a_place(keys: ConfigKeys, count: int) -> tuple[Mixer, ...] | None:
    """A linear attention is described and nothing says which layers have it."""
    named = next(
        (n for n in ("linear_attn_config", "linear_num_value_heads", "linear_num_heads") if keys.has(n)), None
    )
    if named is None:
        return None
    keys.give_up(f"{named} without the layers that have linear attention")
    return (Mixer("unknown"),) * count


def _window_lists(keys: ConfigKeys, count: int) -> tuple[Mixer, ...] | None:
    """One window per layer, repeated where the list is short; null or 0 means that the layer sees
    everything."""
    for name in ("sliding_windows", "interleaved_sliding_window", "sliding_window"):
        found = keys.found(name)
        windows = as_sequence(found[1]) if found is not None else None
        if windows:
            reach = [0 if w is None else whole_number(name, w, minimum=0) for w in windows]
            return tuple(_sliding(reach[i % len(reach)]) for i in range(count))
    return None


def _window_pattern(keys: ConfigKeys, count: int) -> tuple[Mixer, ...] | None:
    """Every n-th layer sees everything (`sliding_window_pattern: 6`), or letters say which do (`"LLLG"`)."""
    window = window_of(keys)
    found = keys.found("sliding_window_pattern")
    if not window or found is None:
        return None
    name, pattern = found
    if isinstance(pattern, str):
        if not pattern or set(pattern) - {"L", "G"}:
            raise ConfigError(
                f"config.json: {name} must be a number or letters L and G, found {shown(pattern)}"
            )
        return tuple(_sliding(window) if pattern[i % len(pattern)] == "L" else FULL for i in range(count))
    listed = as_sequence(pattern)
    if listed is not None:
        if not listed or not all(isinstance(item, bool | int) for item in listed):
            raise ConfigError(f"config.json: {name} must list true or false, found {shown(pattern)}")
        return tuple(_sliding(window) if listed[i % len(listed)] else FULL for i in range(count))
    every = whole_number(name, pattern, minimum=0)
    if every == 0:
        return None
    return tuple(_sliding(window) if (i + 1) % every else FULL for i in range(count))


def _chunks(keys: ConfigKeys, count: int) -> tuple[Mixer, ...] | None:
    """Llama 4: layers with rotary positions attend inside a chunk, the others (0 in `no_rope_layers`) to
    everything."""
    chunk = keys.integer("attention_chunk_size")
    if chunk is None:
        return None
    rotary = keys.integers("no_rope_layers")
    if not rotary:
        interval = keys.integer("no_rope_layer_interval")
        if interval is None:
            keys.give_up("attention_chunk_size without no_rope_layers: which layers are chunked is not said")
            return (Mixer("unknown"),) * count
        rotary = tuple((i + 1) % interval for i in range(count))
    return tuple(
        Mixer("chunked", chunk) if one else FULL for one in _listed(keys, "no_rope_layers", rotary, count)
    )


def _one_window_for_all(keys: ConfigKeys, count: int) -> tuple[Mixer, ...]:
    window = window_of(keys)
    first = keys.integer("max_window_layers", minimum=0) if window else None
    # Qwen and dots: the window starts at that layer; elsewhere one window holds for all layers.
    return tuple(_sliding(window) if first is None or i >= first else FULL for i in range(count))


def _with_cross_attention(keys: ConfigKeys, plan: tuple[Mixer, ...]) -> tuple[Mixer, ...]:
    crossed = keys.integers("cross_attention_layers")
    if crossed is None:
        return plan
    return tuple(Mixer("cross") if i in crossed else mixer for i, mixer in enumerate(plan))


_READERS: Final[tuple[Callable[[ConfigKeys, int], tuple[Mixer, ...] | None], ...]] = (
    _compress_ratios,
    _block_configs,
    _parallel_hybrid,
    _attention_types,
    _layer_words,
    _override_pattern,
    _numbered_layers,
    _linear_attention_lists,
    _periods,
    _states_everywhere,
    _states_without_a_place,
    _window_lists,
    _window_pattern,
    _chunks,
)
