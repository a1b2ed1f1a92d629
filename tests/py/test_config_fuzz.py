"""Any config.json is answered or refused with a sentence, never with a traceback."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from published_configs import MODEL_IDS, published_config
from willitserve.config import describe, read_config
from willitserve.config_keys import as_object
from willitserve.errors import ConfigError
from willitserve.kv_cache import (
    kv_bytes_for_sequence,
    kv_bytes_per_token,
    kv_fixed_bytes_per_sequence,
    kv_read_bytes,
)
from willitserve.scaling import valid_tp

JSON_VALUES: st.SearchStrategy[object] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(0, 70)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["full_attention", "linear_attention", "auto", "M*-E", "LLLG", 2**70, -1, 10**6])
    | st.lists(st.integers(0, 4), max_size=90),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def keys_of(config: object) -> set[str]:
    """The keys of an object and of the objects inside it."""
    mapping = as_object(config)
    if mapping is None:
        return set()
    return set(mapping).union(*(keys_of(value) for value in mapping.values()))


ALL_KEYS: list[str] = sorted({key for model_id in MODEL_IDS for key in keys_of(published_config(model_id))})


def exercise(config: dict[str, object]) -> None:
    """Everything that is asked of a config; only ConfigError may leave it."""
    message = "answered"
    try:
        architecture = describe(config)
        valid_tp(architecture, widths=(1, 3, 8))
        for tp in (1, 3, 8):
            kv_bytes_per_token(architecture, kv_dtype_bits=8, tp=tp)
            kv_fixed_bytes_per_sequence(architecture, kv_dtype_bits=16, tp=tp)
            kv_bytes_for_sequence(architecture, 1000, kv_dtype_bits=16, tp=tp)
            kv_read_bytes(architecture, 1000, kv_dtype_bits=16, tp=tp)
    except ConfigError as refused:
        message = refused.message
    assert message


def changed(values: object, changes: dict[str, object], dropped: set[str]) -> dict[str, object]:
    """The object without some keys and with others set."""
    mapping = as_object(values) or {}
    return {key: value for key, value in mapping.items() if key not in dropped} | changes


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    model_id=st.sampled_from(MODEL_IDS),
    changes=st.dictionaries(st.sampled_from(ALL_KEYS), JSON_VALUES, min_size=1, max_size=3),
    dropped=st.sets(st.sampled_from(ALL_KEYS), max_size=2),
)
def test_changed_configs_are_answered_or_refused(
    model_id: str, changes: dict[str, object], dropped: set[str]
) -> None:
    config = published_config(model_id)
    nested = [key for key in ("text_config", "llm_config") if key in config]
    if nested:
        exercise(config | {key: changed(config[key], changes, dropped) for key in nested})
    else:
        exercise(changed(config, changes, dropped))


@settings(max_examples=100, deadline=None)
@given(config=st.dictionaries(st.sampled_from(ALL_KEYS), JSON_VALUES, max_size=8))
def test_any_object_is_answered_or_refused(config: dict[str, object]) -> None:
    exercise(config)


@given(text=st.text() | JSON_VALUES.map(json.dumps))
def test_any_text_is_read_or_refused(text: str) -> None:
    message = "config.json was read"
    try:
        read_config(text)
    except ConfigError as refused:
        message = refused.message
    assert message.startswith("config.json")
