"""The caches of one decoder layer, from its mixer and the widths that config.json gives for that kind of
layer."""

from dataclasses import dataclass
from typing import Final

from willitserve.architecture import (
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
from willitserve.config_keys import ConfigKeys, as_object
from willitserve.config_layers import Mixer
from willitserve.config_states import recurrent_state
from willitserve.errors import ConfigError
from willitserve.model_classes import EXPANDED_LATENT_CLASSES, HIDDEN_WIDTHS_OF_ATTENTION

MLLAMA_TILES: Final = 4
"""`max_num_tiles` of MllamaVisionConfig in transformers, for configs without a vision_config."""


@dataclass(frozen=True, slots=True)
class Heads:
    """Widths of one attention layer."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    v_head_dim: int


def attention_heads(keys: ConfigKeys, mixer: Mixer, index: int) -> Heads:
    """Heads of layer `index`: per-layer lists, then the keys of its kind (`swa_…`, `global_…`), then the
    model's."""
    keys = _for_layer(keys, mixer, index)
    num_heads = _of_layer(keys, "num_attention_heads", index)
    if num_heads is None:
        num_heads = keys.required("num_attention_heads")
    num_kv_heads = _num_kv_heads(keys, num_heads, index)
    if num_kv_heads > num_heads:
        raise ConfigError(f"config.json: {num_kv_heads} KV heads are more than {num_heads} query heads")
    head_dim = keys.integer("head_dim") or _derived_head_dim(keys, num_heads)
    return Heads(num_heads, num_kv_heads, head_dim, keys.integer("v_head_dim") or head_dim)


def layer_caches(keys: ConfigKeys, mixer: Mixer, index: int) -> tuple[Cache, ...]:
    """What layer `index` keeps between steps."""
    match mixer.kind:
        case "none" | "unknown":
            return ()
        case "state":
            return _state(keys)
        case "full+state":
            return (*_attention(keys, Mixer("full"), index), *_state(keys))
        case "compressed":
            return (_compressed(keys, mixer),)
        case "cross":
            heads = attention_heads(keys, mixer, index)
            return (
                CrossAttention(
                    num_heads=heads.num_heads,
                    num_kv_heads=heads.num_kv_heads,
                    head_dim=heads.head_dim,
                    encoder_tokens=image_tokens(keys),
                ),
            )
        case "full" | "sliding" | "chunked":
            return _attention(keys, mixer, index)


def image_tokens(keys: ConfigKeys) -> int:
    """Vision tokens of one image that cross attention reads: every tile with one class token (Llama 3.2
    Vision)."""
    vision = keys.child("vision_config")
    if vision is None or not vision.has("image_size") or not vision.has("patch_size"):
        keys.give_up(
            "cross attention to an image of unknown size: vision_config gives no image_size and patch_size"
        )
        return 1
    side = vision.required("image_size") // vision.required("patch_size")
    return (side * side + 1) * (vision.integer("max_num_tiles") or MLLAMA_TILES)


def share_across_layers(keys: ConfigKeys, layers: list[tuple[Cache, ...]]) -> list[tuple[Cache, ...]]:
    """Replace the caches of layers that read an earlier layer's keys and values.

    Source
        vLLM models/gemma3n.py and gemma4.py (`num_kv_shared_layers`: the last layers read the last unshared
        layer of their own kind); Hunyuan-Large's modeling code (`use_cla`: every `cla_share_factor`-th layer
        keeps a cache).
    """
    shared = list(layers)
    factor = keys.integer("cla_share_factor") if keys.flag("use_cla") else None
    last = keys.integer("num_kv_shared_layers", minimum=0) or 0
    if last >= len(layers) and last:
        raise ConfigError(f"config.json: {last} of {len(layers)} layers share KV, none is left to share from")
    for index, caches in enumerate(layers):
        source: int | None = None
        if factor is not None:
            source = index - index % factor if index % factor else None
        elif last and index >= len(layers) - last and caches:
            kind = type(caches[0])
            source = max((i for i in range(len(layers) - last) if _is_kind(layers[i], kind)), default=None)
        if source is not None:
            shared[index] = tuple(_reader(cache, source) for cache in caches)
    return shared


def _is_kind(caches: tuple[Cache, ...], kind: type) -> bool:
    return bool(caches) and isinstance(caches[0], kind)


def _reader(cache: Cache, source: int) -> Cache:
    if not isinstance(cache, FullAttention | SlidingAttention):
        return cache
    return SharedKv(
        num_heads=cache.num_heads,
        num_kv_heads=cache.num_kv_heads,
        head_dim=cache.head_dim,
        source_layer=source,
        window=cache.window if isinstance(cache, SlidingAttention) else None,
    )


def _for_layer(keys: ConfigKeys, mixer: Mixer, index: int) -> ConfigKeys:
    """The keys with the values that hold for this kind of layer and this layer laid over them."""
    values: dict[str, object] = {}
    if mixer.kind == "sliding":
        # MiMo-V2: swa_num_key_value_heads, swa_head_dim, …; Step: num_sliding_attention_heads.
        own = {name.removeprefix("swa_"): v for name, v in keys.values.items() if name.startswith("swa_")}
        if keys.has("num_sliding_attention_heads"):
            own["num_attention_heads"] = keys.values["num_sliding_attention_heads"]
        values |= {name: v for name, v in own.items() if v is not None}
    if mixer.kind == "full":
        # Gemma 4: the global layers have their own width and their own number of KV heads.
        for own_name, name in (
            ("global_head_dim", "head_dim"),
            ("num_global_key_value_heads", "num_key_value_heads"),
        ):
            value = keys.integer(own_name)
            if value is not None:
                values[name] = value
    other = keys.child("attention_other_setting")  # Step 3.5
    if other is not None and other.text("attention_type") == mixer.word:
        values |= {name: v for name, v in other.values.items() if v is not None}
    per_layer = keys.child("per_layer_config")  # heterogeneous configs of transformers 5
    if per_layer is not None:
        for number, own in per_layer.values.items():
            if number.lstrip("0") == str(index or ""):  # padded with zeros to one width
                values |= as_object(own) or {}
    block = _block_attention(keys, index)  # Nemotron NAS
    if block is not None:
        group = block.integer("n_heads_in_group")
        if group is not None:
            heads = keys.required("num_attention_heads")
            if heads % group:
                raise ConfigError(
                    f"config.json: {heads} query heads do not form groups of {group} (block {index})"
                )
            values["num_key_value_heads"] = heads // group
        elif block.has("num_key_value_heads"):
            values["num_key_value_heads"] = block.values["num_key_value_heads"]
    return keys.with_values(values) if values else keys


def _block_attention(keys: ConfigKeys, index: int) -> ConfigKeys | None:
    block = keys.item("block_configs", index)
    return None if block is None else block.child("attention")


def _of_layer(keys: ConfigKeys, name: str, index: int) -> int | None:
    """Entry `index` of a per-layer list, or the one number for all."""
    listed = keys.integers(f"{name}_per_layer") or keys.integers(name)
    if listed is None:
        return keys.integer(name)
    if index >= len(listed):
        raise ConfigError(f"config.json: {name} lists {len(listed)} layers, layer {index} is not among them")
    return listed[index] or None


def _num_kv_heads(keys: ConfigKeys, num_heads: int, index: int) -> int:
    # Falcon 7B, StarCoder: one KV head whatever the other keys say, unless the newer layout is named.
    if keys.flag("multi_query") and not keys.flag("new_decoder_architecture") and not keys.has("n_head_kv"):
        return 1
    attention = keys.child("attn_config")  # MPT, DBRX
    if attention is not None:
        if attention.text("attn_type") == "multiquery_attention":
            return 1
        if attention.has("kv_n_heads"):
            return attention.required("kv_n_heads")
    if keys.flag("multi_query_attention") is not False and keys.has("multi_query_group_num"):
        return keys.required("multi_query_group_num")  # ChatGLM
    return _of_layer(keys, "num_key_value_heads", index) or num_heads


def _derived_head_dim(keys: ConfigKeys, num_heads: int) -> int:
    hidden = keys.integer("attention_hidden_size")
    if hidden is None:
        hidden = keys.required("hidden_size") * HIDDEN_WIDTHS_OF_ATTENTION.get(keys.model_type, 1)
    if hidden % num_heads:
        raise ConfigError(
            f"config.json has no head_dim and hidden_size {hidden} is not divisible by {num_heads} heads",
            hint="The head width cannot be derived; check that config.json is complete.",
        )
    return hidden // num_heads


def _state(keys: ConfigKeys) -> tuple[RecurrentState, ...]:
    state = recurrent_state(keys)
    return () if state is None else (state,)


def _attention(keys: ConfigKeys, mixer: Mixer, index: int) -> tuple[Cache, ...]:
    latent_rank = keys.integer("kv_lora_rank")
    if latent_rank is not None and keys.flag("use_mla") is not False:
        if keys.model_type not in EXPANDED_LATENT_CLASSES:
            return _latent(keys, mixer, latent_rank, index)
        return (_expanded_latent(keys),)
    heads = attention_heads(keys, mixer, index)
    if mixer.kind == "sliding":
        return (
            SlidingAttention(
                num_heads=heads.num_heads,
                num_kv_heads=heads.num_kv_heads,
                head_dim=heads.head_dim,
                v_head_dim=heads.v_head_dim,
                window=mixer.reach,
            ),
        )
    if mixer.kind == "chunked":
        return (
            ChunkedAttention(
                num_heads=heads.num_heads,
                num_kv_heads=heads.num_kv_heads,
                head_dim=heads.head_dim,
                v_head_dim=heads.v_head_dim,
                chunk=mixer.reach,
            ),
        )
    full = FullAttention(
        num_heads=heads.num_heads,
        num_kv_heads=heads.num_kv_heads,
        head_dim=heads.head_dim,
        v_head_dim=heads.v_head_dim,
    )
    return (full, *_block_indexer(keys, index))


def _block_indexer(keys: ConfigKeys, index: int) -> tuple[IndexerCache, ...]:
    """MiniMax-M3: some layers choose blocks of tokens by one 16-bit key per token.

    Source: vLLM models/minimax_m3/common/indexer.py `MiniMaxM3IndexerCache`.
    """
    sparse = keys.child("sparse_attention_config")
    if sparse is None or sparse.flag("use_sparse_attention") is False:
        return ()
    chosen = sparse.integers("sparse_attention_freq")
    if chosen is None or index >= len(chosen) or not sparse.has("sparse_index_dim"):
        keys.give_up(
            "sparse_attention_config without sparse_attention_freq for every layer and sparse_index_dim"
        )
        return ()
    if not chosen[index]:
        return ()
    return (IndexerCache(head_dim=sparse.required("sparse_index_dim"), key_dtype_bits=16, scale_bytes=0),)


def _latent(keys: ConfigKeys, mixer: Mixer, rank: int, index: int) -> tuple[Cache, ...]:
    if mixer.kind != "full":
        keys.give_up(f"latent attention over a bounded reach (layer {index})")
        return ()
    nope = keys.integer("qk_nope_head_dim", minimum=0) or 0
    attention = LatentAttention(
        num_heads=keys.required("num_attention_heads"),
        kv_lora_rank=rank,
        qk_rope_head_dim=keys.integer("qk_rope_head_dim", minimum=0) or 0,
        qk_nope_head_dim=nope,
        v_head_dim=keys.integer("v_head_dim") or nope,
    )
    sublayers = _attention_per_layer(keys)
    if keys.integer("index_topk") is not None and _has_own_indexer(keys, index):
        indexer = IndexerCache(
            head_dim=keys.required("index_head_dim"), pool=keys.integer("index_kpool") or 1
        )
        return (attention, indexer) * sublayers
    return (attention,) * sublayers


def _attention_per_layer(keys: ConfigKeys) -> int:
    """LongCat-Flash runs two attention blocks in every layer (vLLM models/longcat_flash.py)."""
    return 2 if keys.has("expert_ffn_hidden_size") and keys.has("zero_expert_num") else 1


def _has_own_indexer(keys: ConfigKeys, index: int) -> bool:
    """Whether the layer scores tokens itself; the others reuse the choice of an earlier layer and cache no
    keys.

    Source: vLLM models/deepseek_v32/attention.py (`index_topk_pattern`, `index_topk_freq`,
    `index_skip_topk_offset`).
    """
    types = keys.words("indexer_types")
    if types is not None:
        return index >= len(types) or types[index] == "full"
    pattern = keys.text("index_topk_pattern")
    if pattern is not None:
        return index >= len(pattern) or pattern[index] != "S"
    every = keys.integer("index_topk_freq") or 1
    offset = keys.integer("index_skip_topk_offset", minimum=0)
    return max(index - (2 if offset is None else offset) + 1, 0) % every == 0


def _expanded_latent(keys: ConfigKeys) -> FullAttention:
    heads = keys.required("num_attention_heads")
    width = keys.required("qk_nope_head_dim") + keys.required("qk_rope_head_dim")
    # The engine pads values to the width of the keys.
    return FullAttention(num_heads=heads, num_kv_heads=heads, head_dim=width, v_head_dim=width)


def _compressed(keys: ConfigKeys, mixer: Mixer) -> CompressedAttention:
    return CompressedAttention(
        num_heads=keys.required("num_attention_heads"),
        head_dim=keys.required("head_dim"),
        rope_head_dim=keys.integer("qk_rope_head_dim") or 0,
        ratio=mixer.reach,
        window=keys.required("sliding_window"),
        # Only the finely compressed layers choose among their rows (vLLM models/deepseek_v4/attention.py:
        # ratio 4).
        indexer_head_dim=(keys.integer("index_head_dim") or 0) if mixer.reach == 4 else 0,
    )
