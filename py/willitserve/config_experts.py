"""The feed-forward half of every layer: dense, mixture of experts or none, with the widths that ranks
split."""

from dataclasses import dataclass
from typing import Final, Literal

from willitserve.architecture import MixtureOfExperts
from willitserve.config_keys import ConfigKeys, as_sequence, shown, whole_number
from willitserve.config_layers import Mixer
from willitserve.errors import ConfigError
from willitserve.model_classes import FFN_HALVED_CLASSES, FFN_HIDDEN_WIDTHS, PURE_STATE_CLASSES
from willitserve.units import round_up

EXPERT_WORDS: Final = frozenset({"sparse", "moe", "hash_moe"})
"""Words of `mlp_layer_types` for a mixture of experts."""

NAS_WIDTH_MULTIPLE: Final = 256
"""Nemotron NAS rounds feed-forward widths up to it (vLLM models/nemotron_nas.py
`_ffn_mult_to_intermediate_size`)."""


@dataclass(frozen=True, slots=True)
class FeedForward:
    """The feed-forward half of one layer."""

    kind: Literal["dense", "moe", "none"]
    width: int
    """Intermediate width of the dense part, elements; 0 where there is none or config.json does not say."""


def mixture_of_experts(keys: ConfigKeys) -> MixtureOfExperts | None:
    """The routed part, the same in every MoE layer; None for a dense model, and with a note where it is
    incomplete."""
    ffn = keys.child("ffn_config")  # DBRX
    if ffn is not None and ffn.has("num_experts"):
        keys = keys.with_values({name: value for name, value in ffn.values.items() if value is not None})
    num_experts = keys.first_integer("num_experts")
    if num_experts is None or num_experts < 2:
        return None
    chosen = keys.first_integer("num_experts_per_tok")
    if not chosen:
        keys.give_up(f"{num_experts} experts without the number chosen per token", caches=False)
        return None
    if chosen > num_experts:
        raise ConfigError(f"config.json: {chosen} experts per token are more than {num_experts} experts")
    width = keys.first_integer("moe_intermediate_size") or keys.first_integer("intermediate_size")
    if not width:
        keys.give_up(f"{num_experts} experts without their intermediate width", caches=False)
        return None
    num_shared, shared_width = _shared(keys, width)
    return MixtureOfExperts(
        num_experts=num_experts,
        experts_per_token=chosen,
        expert_width=width,
        num_shared_experts=num_shared,
        shared_width=shared_width,
    )


def feed_forwards(
    keys: ConfigKeys, plan: tuple[Mixer, ...], moe: MixtureOfExperts | None
) -> tuple[FeedForward, ...]:
    """The feed-forward half of each layer of `plan`."""
    if keys.has("block_configs"):
        return tuple(_block_feed_forward(keys, i, moe) for i in range(len(plan)))
    pattern = keys.text("hybrid_override_pattern")
    if pattern is not None:
        dense, kinds = _dense_width(keys), {"-": "dense", "E": "moe"}
        return tuple(_one(kinds.get(pattern[i : i + 1], "none"), dense) for i in range(len(plan)))
    if any(mixer.word in ("mlp", "moe") for mixer in plan):
        # Nemotron-H as a list of words: a block is a mixer or a feed-forward part, never both.
        dense, words = _dense_width(keys), {"mlp": "dense", "moe": "moe"}
        return tuple(_one(words.get(mixer.word, "none"), dense) for mixer in plan)
    if is_pure_state(keys, plan):
        # Mamba blocks carry no feed-forward half; RWKV's channel mixing is one.
        is_rwkv = keys.model_type.startswith("rwkv")
        return (FeedForward("dense", _dense_width(keys)) if is_rwkv else FeedForward("none", 0),) * len(plan)
    routed = _routed_layers(keys, len(plan)) if moe is not None else (False,) * len(plan)
    beside = _dense_beside_experts(keys)
    widths = _dense_widths(keys, len(plan))
    return tuple(
        FeedForward("moe", beside) if is_routed else FeedForward("dense", width)
        for is_routed, width in zip(routed, widths, strict=True)
    )


def is_pure_state(keys: ConfigKeys, plan: tuple[Mixer, ...]) -> bool:
    """A model of state blocks alone, as against a hybrid that happens to have no attention layer."""
    return all(mixer.kind == "state" for mixer in plan) and (
        keys.model_type in PURE_STATE_CLASSES or not keys.has("num_attention_heads")
    )


def _one(kind: str, dense_width: int) -> FeedForward:
    if kind == "dense":
        return FeedForward("dense", dense_width)
    return FeedForward("moe", 0) if kind == "moe" else FeedForward("none", 0)


def _shared(keys: ConfigKeys, expert_width: int) -> tuple[int, int]:
    count = keys.first_integer("num_shared_experts") or 0
    each = keys.integer(
        "moe_shared_expert_intermediate_size", minimum=0
    )  # Nemotron: width of each shared expert
    if each is not None:
        return count, count * each
    together = keys.first_integer("shared_expert_intermediate_size")
    if together is not None:
        return (count or 1, together) if together else (0, 0)
    if keys.integer("interleave_moe_layer_step") is not None:
        return 1, expert_width  # Llama 4: one shared expert as wide as a routed one (vLLM models/llama4.py)
    return count, count * expert_width


def _routed_layers(keys: ConfigKeys, count: int) -> tuple[bool, ...]:
    """Which layers route; every naming of dense first, dense last, every n-th and listed layers."""
    words = keys.words("mlp_layer_types")
    if words is not None:
        return tuple(i < len(words) and words[i] in EXPERT_WORDS for i in range(count))
    enumerated = keys.found("moe_layers_enum")  # Step: "4,5,6"
    if enumerated is not None:
        listed = _enumerated(*enumerated)
        return tuple(i in listed for i in range(count))
    frequency = keys.integers("moe_layer_freq")  # MiMo, MiniMax-M3: one entry per layer
    if frequency is not None:
        return tuple(i < len(frequency) and frequency[i] != 0 for i in range(count))
    listed_moe = keys.integers("moe_layers")  # Llama 4, computed when absent
    if listed_moe:
        return tuple(i in listed_moe for i in range(count))
    first_dense = (
        keys.integer("first_k_dense_replace", minimum=0)
        or keys.integer("num_dense_layers", minimum=0)  # LFM2, AFMoE
        or keys.integer("moe_layer_num_skipped", minimum=0)  # Hunyuan
        or 0
    )
    dense = set(keys.integers("mlp_only_layers") or ())
    start = keys.first_integer("moe_layer_start_index") or 0
    end = keys.first_integer("moe_layer_end_index")
    if end is None or end < start:
        end = count - 1
    every_listed = keys.integer("moe_layer_freq") or 1
    interval = keys.first_integer("moe_layer_interval") or 1
    step = (
        keys.integer("decoder_sparse_step")  # Qwen
        or keys.integer("interleave_moe_layer_step")  # Llama 4
        or keys.integer("moe_layer_frequency")  # Arctic
        or 1
    )
    period = keys.integer("expert_layer_period") or 1
    offset = keys.integer("expert_layer_offset", minimum=0) or 0
    return tuple(
        i >= first_dense
        and i not in dense
        and start <= i <= end
        and i % every_listed == 0
        and (i + 1) % interval == 0
        and (i + 1) % step == 0
        and i % period == offset % period
        for i in range(count)
    )


def _enumerated(name: str, value: object) -> frozenset[int]:
    items = value.split(",") if isinstance(value, str) else as_sequence(value)
    if items is None:
        raise ConfigError(f"config.json: {name} must list layer numbers, found {shown(value)}")
    numbers: list[int] = []
    for item in items:
        text = item.strip() if isinstance(item, str) else item
        is_number = isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 8
        numbers.append(
            whole_number(name, int(text) if is_number and isinstance(text, str) else text, minimum=0)
        )
    return frozenset(numbers)


def _dense_beside_experts(keys: ConfigKeys) -> int:
    """Width of a dense part that stands beside the experts of a MoE layer, 0 where there is none."""
    if keys.flag("enable_moe_block"):  # Gemma 4
        return keys.integer("intermediate_size") or 0
    if keys.has("zero_expert_num"):  # LongCat-Flash: two dense MLPs per layer
        return 2 * (keys.integer("intermediate_size") or 0)
    if keys.flag("parallel_attn_mlp_res") or keys.flag("residual_moe"):  # Arctic, Grok 2
        return keys.integer("intermediate_size") or 0
    return 0


def _dense_width(keys: ConfigKeys) -> int:
    return _dense_widths(keys, 1)[0]


def _dense_widths(keys: ConfigKeys, count: int) -> tuple[int, ...]:
    multipliers = keys.found("ffn_multipliers")
    if multipliers is not None:
        return _openelm_widths(keys, multipliers[1], count)
    listed = keys.integers("intermediate_size")  # Gemma 3n: one width per layer
    if listed is not None:
        return tuple(listed[i] if i < len(listed) else 0 for i in range(count))
    hidden = keys.required("hidden_size")
    width = keys.integer("intermediate_size_mlp")  # Llama 4: intermediate_size is the expert's
    width = width or keys.integer("intermediate_size")
    if width is None:
        expansion = keys.integer("expansion_ratio") or FFN_HIDDEN_WIDTHS.get(keys.model_type, 0)
        width = expansion * hidden
    if keys.model_type in FFN_HALVED_CLASSES:
        width //= 2
    if keys.flag("block_auto_adjust_ff_dim"):
        width = _lfm2_width(keys, width)
    return (width,) * count


def _openelm_widths(keys: ConfigKeys, multipliers: object, count: int) -> tuple[int, ...]:
    """Source: `make_divisible` in OpenELM's modeling code: rounded to the divisor, never below 90 %."""
    factors = as_sequence(multipliers)
    hidden, divisor = keys.required("hidden_size"), keys.integer("ffn_dim_divisor") or 1
    if factors is None or len(factors) < count:
        raise ConfigError(
            f"config.json: ffn_multipliers must list {count} numbers, found {shown(multipliers)}"
        )
    widths: list[int] = []
    for factor in factors[:count]:
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < 1000:
            raise ConfigError(f"config.json: ffn_multipliers must list numbers, found {shown(factor)}")
        wanted = factor * hidden
        width = max(divisor, int(wanted + divisor / 2) // divisor * divisor)
        widths.append(width + divisor if width < 0.9 * wanted else width)
    return tuple(widths)


def _lfm2_width(keys: ConfigKeys, width: int) -> int:
    """LFM2 keeps two thirds of the stated width, rounded up (vLLM models/lfm2.py `Lfm2MLP`)."""
    multiplier = keys.found("block_ffn_dim_multiplier")
    factor = multiplier[1] if multiplier is not None else 1
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < 1000:
        raise ConfigError(f"config.json: block_ffn_dim_multiplier must be a number, found {shown(factor)}")
    return round_up(int(factor * (2 * width // 3)), keys.integer("block_multiple_of") or 1)


def _block_feed_forward(keys: ConfigKeys, index: int, moe: MixtureOfExperts | None) -> FeedForward:
    block = keys.item("block_configs", index)
    kind = block.text("block_type") if block is not None else None
    if kind is not None:
        return _one(
            {"mlp": "dense", "moe": "moe" if moe is not None else "none"}.get(kind, "none"),
            _dense_width(keys),
        )
    ffn = block.child("ffn") if block is not None else None
    if ffn is None or ffn.flag("no_op"):
        return FeedForward("none", 0)
    if ffn.flag("replace_with_linear"):
        return FeedForward("dense", 0)
    if ffn.has("intermediate_size"):
        return FeedForward("dense", ffn.required("intermediate_size"))
    found = ffn.found("ffn_mult")
    if found is None:
        return FeedForward("dense", 0)
    factor = found[1]
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < 1000:
        raise ConfigError(f"config.json: ffn_mult must be a number, found {shown(factor)}")
    width = int(2 * factor * keys.required("hidden_size") / 3)
    return FeedForward("dense", round_up(width, NAS_WIDTH_MULTIPLE))
