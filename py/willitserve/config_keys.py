"""One typed reader for config.json: every spelling of a key, the model class's own default, and errors as
sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, cast

from willitserve.class_defaults import class_defaults
from willitserve.errors import ConfigError

LARGEST_PLAUSIBLE = 2**40
"""A count or width above this is a broken file, not a model."""

ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "num_hidden_layers": (
        "num_hidden_layers",
        "n_layer",  # GPT-2, BLOOM, early Falcon
        "n_layers",  # MPT, DBRX, DistilBERT
        "num_layers",  # ChatGLM, LongCat, GPT-Neo
        "num_transformer_layers",  # OpenELM
    ),
    "decoder_layers": ("decoder_layers", "num_decoder_layers", "num_hidden_layers", "num_layers", "n_layers"),
    "hidden_size": ("hidden_size", "n_embd", "n_embed", "d_model", "model_dim", "dim"),
    "num_attention_heads": (
        "num_attention_heads",
        "n_head",
        "n_heads",
        "num_heads",  # T5, GPT-Neo
        "num_query_heads",  # OpenELM, one per layer
        "attention_heads",  # XGLM
    ),
    "decoder_attention_heads": ("decoder_attention_heads", "num_attention_heads", "num_heads", "n_heads"),
    "num_key_value_heads": (
        "n_head_kv",  # RefinedWeb
        "num_kv_heads",  # Falcon, OpenELM
        "num_key_value_heads",
        "num_attention_groups",  # Step
        "num_query_groups",  # Megatron style
        "num_multi_query_heads",  # CogVLM2
        "n_kv_heads",  # Llama's and Mistral's own params.json
    ),
    "head_dim": (
        "head_dim",
        "attention_head_dim",  # Nemotron-H, Zamba2 (its kv_channels is another width), Hunyuan
        "kv_channels",  # Qwen 1, ChatGLM
        "d_kv",  # T5
        "hidden_size_per_head",  # PLaMo
    ),
    "v_head_dim": ("v_head_dim", "value_head_dim"),
    "intermediate_size": (
        "dense_intermediate_size",  # MiniMax-M3: intermediate_size is one expert there
        "intermediate_size",
        "ffn_hidden_size",  # ChatGLM, Falcon, LongCat
        "n_inner",  # GPT-2, GPT-J
        "ffn_dim",  # OPT, XGLM
        "d_ff",  # T5
        "block_ff_dim",  # LFM2
        "decoder_ffn_dim",  # Whisper, BART
    ),
    "vocab_size": ("vocab_size", "padded_vocab_size"),
    "sliding_window_pattern": (
        "sliding_window_pattern",
        "_sliding_window_pattern",
        "global_attn_every_n_layers",
    ),
    "num_experts": (
        "num_experts",  # Qwen, Jamba, OLMoE
        "moe_num_experts",  # DBRX, Ernie, Step
        "n_routed_experts",  # DeepSeek, GLM
        "num_local_experts",  # Mixtral, gpt-oss, MiniMax
    ),
    "num_experts_per_tok": (
        "num_experts_per_tok",
        "num_experts_per_token",  # Kimi-Linear
        "experts_per_token",
        "top_k_experts",  # Gemma 4
        "moe_topk",  # Hunyuan, LongCat
        "moe_top_k",  # DBRX, Step
        "moe_k",  # Ernie
    ),
    "moe_intermediate_size": (
        "moe_intermediate_size",
        "expert_ffn_hidden_size",  # LongCat
        "moe_ffn_hidden_size",
        "expert_intermediate_size",
    ),
    "num_shared_experts": (
        "n_shared_experts",  # DeepSeek, GLM
        "num_shared_experts",  # Kimi-Linear, Bailing
        "moe_num_shared_experts",  # Ernie
        "num_shared_expert",  # Hunyuan
    ),
    "shared_expert_intermediate_size": (
        "shared_expert_intermediate_size",  # Qwen
        "share_expert_dim",  # Step
        "share_expert_dims",
        "shared_intermediate_size",  # Granite
    ),
    "tie_word_embeddings": ("tie_word_embeddings", "share_input_output_layers"),
    "mamba_num_heads": ("mamba_num_heads", "mamba_n_heads", "n_mamba_heads"),
    "mamba_head_dim": ("mamba_head_dim", "mamba_d_head", "mamba_headdim"),
    "mamba_num_groups": ("mamba_n_groups", "mamba_ngroups", "mamba_num_groups", "n_groups"),
    "mamba_state_size": ("mamba_d_state", "ssm_state_size", "state_size"),
    "mamba_conv_kernel": ("mamba_d_conv", "conv_kernel", "mamba_conv_kernel"),
    "mamba_expand": ("mamba_expand", "expand"),
    "mamba_ssm_dtype": ("mamba_ssm_cache_dtype", "mamba_ssm_dtype"),
}
"""Spellings of one quantity, in the order in which they win. A name that is no key here has a single
spelling."""


def as_object(value: object) -> Mapping[str, object] | None:
    """The value as a JSON object, None where it is something else."""
    if not isinstance(value, Mapping):
        return None
    mapping = cast("Mapping[object, object]", value)
    if not all(isinstance(key, str) for key in mapping):
        return None
    return cast("Mapping[str, object]", mapping)


def as_sequence(value: object) -> Sequence[object] | None:
    """The value as a JSON array, None where it is something else."""
    if isinstance(value, list | tuple):
        return cast("Sequence[object]", value)
    return None


def shown(value: object) -> str:
    """The value as a sentence may quote it: short, on one line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


@dataclass(frozen=True, slots=True)
class ConfigKeys:
    """The keys of one model's decoder, with the defaults that its model class documents for absent ones.

    A key that is present wins even when it is null: null means "not set", and no class default replaces it.
    Every default that was taken is written down in `assumed`, every key that cannot be described in
    `not_understood`.
    """

    values: Mapping[str, object]
    model_type: str
    assumed: list[str] = field(default_factory=list[str])
    not_understood: list[str] = field(default_factory=list[str])
    kv_withheld: list[str] = field(default_factory=list[str])
    """The part of `not_understood` that concerns caches."""

    def found(self, name: str) -> tuple[str, object] | None:
        """The spelling that was used and its value; None where the key is absent or null everywhere.

        Falls back to the class default only when no spelling is present at all.
        """
        absent = True
        for spelling in ALIASES.get(name, (name,)):
            if spelling in self.values:
                absent = False
                if (value := self.values[spelling]) is not None:
                    return spelling, value
        default = class_defaults(self.model_type).get(name)
        if not absent or default is None:
            return None
        sentence = (
            f"{name} = {default} is not in config.json: it is the default of the {self.model_type} class"
        )
        if sentence not in self.assumed:
            self.assumed.append(sentence)
        return name, default

    def has(self, name: str) -> bool:
        """Whether config.json itself gives a value that is not null, class defaults aside."""
        return any(self.values.get(spelling) is not None for spelling in ALIASES.get(name, (name,)))

    def integer(self, name: str, *, minimum: int = 1) -> int | None:
        """A whole number, None where absent or null; zero counts as null when `minimum` is 1 or more."""
        found = self.found(name)
        if found is None or (minimum > 0 and found[1] == 0 and not isinstance(found[1], bool | float)):
            return None
        return whole_number(found[0], found[1], minimum=minimum)

    def required(self, name: str) -> int:
        """A whole number that every model of this kind states."""
        value = self.integer(name)
        if value is None:
            spellings = ", ".join(ALIASES.get(name, (name,)))
            raise ConfigError(f"config.json gives no {name} (looked for {spellings})")
        return value

    def integers(self, name: str) -> tuple[int, ...] | None:
        """A list of whole numbers, None where the key is absent, null or a single number."""
        found = self.found(name)
        if found is None or (sequence := as_sequence(found[1])) is None:
            return None
        return tuple(whole_number(f"{found[0]}[{i}]", item, minimum=0) for i, item in enumerate(sequence))

    def first_integer(self, name: str, *, minimum: int = 0) -> int | None:
        """A whole number, or the largest of a list of them."""
        listed = self.integers(name)
        if listed is None:
            return self.integer(name, minimum=minimum)
        return max(listed, default=None)

    def flag(self, name: str) -> bool | None:
        """True, false, or None where absent or null."""
        found = self.found(name)
        if found is None:
            return None
        if not isinstance(found[1], bool):
            raise ConfigError(f"config.json: {found[0]} must be true or false, found {shown(found[1])}")
        return found[1]

    def text(self, name: str) -> str | None:
        """A string, None where absent or null."""
        found = self.found(name)
        if found is None:
            return None
        if not isinstance(found[1], str):
            raise ConfigError(f"config.json: {found[0]} must be a string, found {shown(found[1])}")
        return found[1]

    def words(self, name: str) -> tuple[str, ...] | None:
        """A list of strings, None where absent or null."""
        found = self.found(name)
        if found is None:
            return None
        sequence = as_sequence(found[1])
        if sequence is None or not all(isinstance(item, str) for item in sequence):
            raise ConfigError(f"config.json: {found[0]} must be a list of strings, found {shown(found[1])}")
        return tuple(str(item) for item in sequence)

    def child(self, name: str) -> "ConfigKeys | None":
        """A nested object, read with the same notes and no class defaults; None where absent or null."""
        found = self.found(name)
        if found is None:
            return None
        mapping = as_object(found[1])
        if mapping is None:
            raise ConfigError(f"config.json: {found[0]} must be an object, found {shown(found[1])}")
        return ConfigKeys(mapping, "", self.assumed, self.not_understood, self.kv_withheld)

    def item(self, name: str, index: int) -> "ConfigKeys | None":
        """Entry `index` of a list of nested objects; None where the list is absent, null or shorter."""
        found = self.found(name)
        if found is None:
            return None
        items = as_sequence(found[1])
        if items is None:
            raise ConfigError(f"config.json: {found[0]} must be a list of objects, found {shown(found[1])}")
        if index >= len(items):
            return None
        mapping = as_object(items[index])
        if mapping is None:
            raise ConfigError(
                f"config.json: {found[0]}[{index}] must be an object, found {shown(items[index])}"
            )
        return ConfigKeys(mapping, "", self.assumed, self.not_understood, self.kv_withheld)

    def with_values(self, overrides: Mapping[str, object]) -> "ConfigKeys":
        """The same keys with some of them replaced, as per-layer settings do."""
        return replace(self, values={**self.values, **overrides})

    def give_up(self, what: str, *, caches: bool = True) -> None:
        """Note something that this version cannot describe; `caches`: no cache figure can be trusted without
        it."""
        sentence = f"not understood: {what}"
        for notes in (self.not_understood, self.kv_withheld) if caches else (self.not_understood,):
            if sentence not in notes:
                notes.append(sentence)


def whole_number(name: str, value: object, *, minimum: int) -> int:
    """`value` as an int of at least `minimum`, else a ConfigError that names the key."""
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= LARGEST_PLAUSIBLE:
        kind = "a whole number" if minimum <= 0 else f"a whole number of at least {minimum}"
        raise ConfigError(f"config.json: {name} must be {kind}, found {shown(value)}")
    return value
