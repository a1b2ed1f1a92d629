"""config.json -> Architecture: rules by structure and key, class defaults as data, never a model's name."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal, cast

from willitserve.architecture import (
    Architecture,
    Cache,
    CompressedAttention,
    CrossAttention,
    FullAttention,
    IndexerCache,
    LatentAttention,
    Layer,
    RecurrentState,
)
from willitserve.class_defaults import class_defaults
from willitserve.config_caches import attention_heads, layer_caches, share_across_layers
from willitserve.config_context import max_model_len
from willitserve.config_experts import feed_forwards, mixture_of_experts
from willitserve.config_keys import ConfigKeys, as_object, shown
from willitserve.config_layers import FULL, Mixer, mixers, num_layers
from willitserve.config_rotary import rotary_tables
from willitserve.errors import ConfigError
from willitserve.model_classes import ENCODER_ARCHITECTURES, ENCODER_CLASSES, TEXT_CLASSES

MAX_CONFIG_CHARACTERS: Final = 16 * 2**20
"""Quantized checkpoints list every module they leave alone: published files reach a few MB."""

MAX_CONFIG_DEPTH: Final = 64

TEXT_CONFIG_KEYS: Final = ("text_config", "llm_config", "language_config", "thinker_config")
"""Where a multimodal config keeps its language model; a thinker has a text_config of its own."""

ENCODER_TOKEN_KEYS: Final = (
    "max_source_positions",  # Whisper
    "max_encoder_position_embeddings",  # LED
    "n_positions",  # T5
    "max_position_embeddings",
)

Task = Literal["generate", "embed", "encoder-decoder"]


def read_config(text: str) -> dict[str, object]:
    """The JSON object of a config.json.

    NaN and Infinity are accepted, as published files of state space models contain them.

    Raises
        ConfigError: too large, too deeply nested, no JSON, or JSON that is not an object.
    """
    if len(text) > MAX_CONFIG_CHARACTERS:
        raise ConfigError(f"config.json has {len(text):,} characters, more than {MAX_CONFIG_CHARACTERS:,}")
    depth = deepest = 0
    for bracket in re.findall(r'"(?:[^"\\]|\\.)*"|([\[\]{}])', text):
        depth += 1 if bracket in ("[", "{") else -1 if bracket else 0
        deepest = max(deepest, depth)
    if deepest > MAX_CONFIG_DEPTH:
        raise ConfigError(f"config.json is nested {deepest} deep, more than {MAX_CONFIG_DEPTH}")
    try:
        value = cast("object", json.loads(text))
    except (ValueError, RecursionError) as error:
        hint = "Is the file complete, and is it config.json itself?"
        raise ConfigError(f"config.json is not JSON: {str(error)[:120]}", hint=hint) from error
    mapping = as_object(value)
    if mapping is None:
        raise ConfigError(f"config.json must be a JSON object, found {shown(value)}")
    return dict(mapping)


def describe(config: Mapping[str, object]) -> Architecture:
    """The architecture that a config.json describes, as an engine reads it.

    Raises
        ConfigError: a key has the wrong type, contradicts another, or one that every model states is missing.
    """
    keys, outer = _decoder_keys(config)
    task = _task(keys, outer)
    if task == "encoder-decoder":
        layers = _encoder_decoder_layers(keys)
    elif task == "embed":
        layers = _encoder_layers(keys)
    else:
        layers = _decoder_layers(keys)
    num_heads, num_kv_heads, head_dim = _first_attention(keys, task, layers)
    longest, longest_because = max_model_len(keys)
    tied, tied_because = _tied(keys, outer)
    return Architecture(
        name=_name(keys, outer),
        model_type=outer.model_type or keys.model_type,
        task=task,
        layers=layers,
        num_hidden_layers=len(layers),
        hidden_size=keys.required("hidden_size"),
        vocab_size=keys.integer("vocab_size") or outer.integer("vocab_size"),
        num_attention_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        moe=None if task == "embed" else mixture_of_experts(keys),
        max_model_len=longest,
        max_model_len_because=longest_because,
        dtype=_dtype(keys, outer),
        tie_word_embeddings=tied,
        tie_because=tied_because,
        decoder_type=keys.model_type,
        rotary_tables=rotary_tables(keys, layers),
        not_understood=tuple(keys.not_understood),
        kv_withheld=tuple(keys.kv_withheld),
        assumed=tuple(keys.assumed),
    )


def _decoder_keys(config: Mapping[str, object]) -> tuple[ConfigKeys, ConfigKeys]:
    """The keys of the language model and those of the whole file (the same for a plain text model)."""
    outer = ConfigKeys(config, _model_type(config))
    values: Mapping[str, object] = config
    model_type = outer.model_type
    for _ in range(3):
        name = next((key for key in TEXT_CONFIG_KEYS if values.get(key)), None)
        if name is None:
            break
        nested = as_object(values[name])
        if nested is None:
            raise ConfigError(f"config.json: {name} must be an object, found {shown(values[name])}")
        own_type = _model_type(nested)
        model_type = own_type or TEXT_CLASSES.get(model_type, "")
        values = nested
    if values is config:
        return outer, outer
    # An image decides how long the cross-attention cache is; its description stands outside the text model.
    beside = {"vision_config": config["vision_config"]} if "vision_config" in config else {}
    text = replace(outer, values={**beside, **values}, model_type=model_type)
    if text.integer("num_hidden_layers") is None and outer.has("num_hidden_layers"):
        # Some files keep a stub of the text model and the real keys at the top.
        return outer, outer
    return text, outer


def _model_type(values: Mapping[str, object]) -> str:
    value = values.get("model_type")
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ConfigError(f"config.json: model_type must be a string, found {shown(value)}")
    return value


def _name(keys: ConfigKeys, outer: ConfigKeys) -> str:
    listed = outer.words("architectures") or keys.words("architectures")
    return listed[0] if listed else outer.model_type or keys.model_type or "unknown"


def _task(keys: ConfigKeys, outer: ConfigKeys) -> Task:
    if keys.flag("is_encoder_decoder") or outer.flag("is_encoder_decoder"):
        return "encoder-decoder"
    name = _name(keys, outer)
    sees_both_ways = keys.found("use_bidirectional_attention")
    # A prompt that is seen both ways, as in PaliGemma, is still continued word by word.
    generates = name.endswith(("ForCausalLM", "ForConditionalGeneration"))
    if (
        keys.model_type in ENCODER_CLASSES
        or name in ENCODER_ARCHITECTURES
        or name.endswith("ForMaskedLM")
        or keys.flag("is_causal") is False
        or (sees_both_ways is not None and sees_both_ways[1] in (True, "all") and not generates)
    ):
        return "embed"
    return "generate"


def _decoder_layers(keys: ConfigKeys) -> tuple[Layer, ...]:
    plan = mixers(keys, num_layers(keys))
    caches = share_across_layers(keys, [layer_caches(keys, mixer, i) for i, mixer in enumerate(plan)])
    return _layers(keys, plan, caches)


def _encoder_layers(keys: ConfigKeys) -> tuple[Layer, ...]:
    count = num_layers(keys)
    return _layers(keys, (FULL,) * count, [()] * count)


def _encoder_decoder_layers(keys: ConfigKeys) -> tuple[Layer, ...]:
    count = keys.integer("decoder_layers") or num_layers(keys)
    if keys.has("decoder_attention_heads"):
        keys = keys.with_values({"num_attention_heads": keys.required("decoder_attention_heads")})
    heads = attention_heads(keys, FULL, 0)
    lengths = [keys.integer(name) for name in ENCODER_TOKEN_KEYS]
    tokens = next((length for length in lengths if length is not None), None)
    if tokens is None:
        keys.give_up("an encoder whose longest input no key gives: its part of the cache is not known")
    self_attention = FullAttention(
        num_heads=heads.num_heads,
        num_kv_heads=heads.num_kv_heads,
        head_dim=heads.head_dim,
        v_head_dim=heads.v_head_dim,
    )
    cross = CrossAttention(
        num_heads=heads.num_heads,
        num_kv_heads=heads.num_kv_heads,
        head_dim=heads.head_dim,
        encoder_tokens=tokens or 1,
    )
    return _layers(keys, (FULL,) * count, [(self_attention, cross)] * count)


def _layers(keys: ConfigKeys, plan: tuple[Mixer, ...], caches: list[tuple[Cache, ...]]) -> tuple[Layer, ...]:
    moe = mixture_of_experts(keys)
    halves = feed_forwards(keys, plan, moe)
    return tuple(
        Layer(index=i, caches=layer, ffn=half.kind, ffn_width=half.width)
        for i, (layer, half) in enumerate(zip(caches, halves, strict=True))
    )


def _first_attention(keys: ConfigKeys, task: Task, layers: tuple[Layer, ...]) -> tuple[int, int, int]:
    """Query heads, KV heads and head width of the first attention layer; zeros without attention."""
    for layer in layers:
        for cache in layer.caches:
            match cache:
                case RecurrentState() | IndexerCache():
                    continue
                case LatentAttention():
                    # Keys and values are expanded to every query head when they are read.
                    return cache.num_heads, cache.num_heads, cache.qk_nope_head_dim + cache.qk_rope_head_dim
                case CompressedAttention():
                    return cache.num_heads, 1, cache.head_dim
                case _:
                    return cache.num_heads, cache.num_kv_heads, cache.head_dim
    if task == "embed":
        heads = attention_heads(keys, FULL, 0)
        return heads.num_heads, heads.num_kv_heads, heads.head_dim
    return 0, 0, 0


def _tied(keys: ConfigKeys, outer: ConfigKeys) -> tuple[bool, str]:
    stated = {
        bool(source.flag("tie_word_embeddings"))
        for source in (keys, outer)
        if source.has("tie_word_embeddings")
    }
    if len(stated) == 2:
        # A head that was one with the embedding would not have been stored.
        return False, "config.json and its text model disagree: what the checkpoint stores decides"
    if stated:
        return stated.pop(), "tie_word_embeddings of config.json"
    default = class_defaults(keys.model_type).get("tie_word_embeddings")
    if isinstance(default, bool):
        return default, f"config.json is silent; default of the {keys.model_type} class"
    return False, "config.json and its class are silent: what the checkpoint stores decides"


def _dtype(keys: ConfigKeys, outer: ConfigKeys) -> str | None:
    for source in (outer, keys):
        for name in ("dtype", "torch_dtype"):
            value = source.text(name)
            if value is not None:
                return value
    return None
