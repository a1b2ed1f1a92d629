"""The longest context that an engine derives from config.json, with the keys it comes from."""

from collections.abc import Iterator, Mapping
from typing import Final

from willitserve.config_keys import ConfigKeys, as_object, shown
from willitserve.errors import ConfigError

POSITION_KEYS: Final = (
    "max_position_embeddings",
    "n_positions",  # GPT-2
    "max_seq_len",  # MPT, DBRX
    "seq_length",  # ChatGLM, BLOOM
    "max_target_positions",  # Whisper
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
    "max_context_length",  # OpenELM
)
"""Where config.json writes positions down; the smallest one present counts."""

ALREADY_SCALED: Final = frozenset(
    {"su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling", "telechat3-yarn"}
)
"""Rotary scalings whose factor is part of max_position_embeddings already."""


def max_model_len(keys: ConfigKeys) -> tuple[int | None, str]:
    """The longest context in tokens and why; None where no key says.

    Formula
        the smallest position key (`model_max_length` wins over all), times the factor of linear or dynamic
        rotary scaling; LongRoPE starts at `original_max_position_embeddings`.

    Source
        vLLM 0.33 vllm/config/model.py `_get_and_verify_max_len` and
        transformers_utils/model_arch_config_convertor.py `derive_max_model_len_and_key`. Versions before it
        multiply the factor of YaRN on `original_max_position_embeddings`, which is the same number in configs
        that follow transformers.

    Not covered
        `sentence_bert_config.json` and the tokenizer's limit, which engines read for some embedding models.
    """
    # A key of the file wins over the class default of another spelling of the same quantity.
    candidates = [name for name in POSITION_KEYS if keys.has(name)] or list(POSITION_KEYS)
    found = {name: value for name in candidates if (value := keys.integer(name)) is not None}
    declared = keys.integer("model_max_length")
    if declared is not None:
        found = {"model_max_length": declared}
    if not found:
        return None, "config.json has no key for positions; vLLM would assume 2,048"
    name = min(found, key=lambda key: found[key])
    longest = found[name]
    because = (
        f"{name} of config.json" if keys.has(name) else f"{name}, default of the {keys.model_type} class"
    )
    kinds = list(_rotary_settings(keys))
    if any(kind == "longrope" for kind, _ in kinds):
        original = keys.integer("original_max_position_embeddings")
        if original is not None:
            return original, "original_max_position_embeddings: LongRoPE starts at its short range"
    if "gemma3" in keys.model_type:
        return longest, because
    for kind, factor in kinds:
        if kind not in ALREADY_SCALED and factor != 1:
            return int(longest * factor), f"{because} x {factor:g} ({kind} rotary scaling)"
    return longest, because


def _rotary_settings(keys: ConfigKeys) -> Iterator[tuple[str, float]]:
    """(type, factor) of each rotary setting: one for the model, or one per layer type."""
    for name in ("rope_parameters", "rope_scaling"):
        settings = keys.child(name)
        if settings is None:
            continue
        nested = [as_object(value) for value in settings.values.values()]
        for one in [inner for inner in nested if inner is not None] or [settings.values]:
            yield _kind_and_factor(name, one)
        return


def _kind_and_factor(name: str, settings: Mapping[str, object]) -> tuple[str, float]:
    kind = settings.get("rope_type", settings.get("type", "default"))
    factor = settings.get("factor")
    if kind is None:
        kind = "default"
    if not isinstance(kind, str):
        raise ConfigError(f"config.json: the type of {name} must be a string, found {shown(kind)}")
    if factor is None or kind in ("default", "mrope"):
        return kind, 1.0
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < 1_000_000:
        raise ConfigError(
            f"config.json: the factor of {name} must be a positive number, found {shown(factor)}"
        )
    return kind, float(factor)
