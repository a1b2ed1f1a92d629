"""The tables of rotary positions that an engine computes when it loads a model, from config.json."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from willitserve.architecture import FullAttention, LatentAttention, Layer, RotaryTable, SlidingAttention
from willitserve.config_context import POSITION_KEYS
from willitserve.config_keys import ConfigKeys, as_object
from willitserve.model_classes import CLASSES_WITHOUT_ROTARY

DEFAULT_POSITIONS: Final = 8192
"""What vLLM's model classes take where config.json has no key for positions."""

MROPE_LENGTHENING: Final = 4
"""A table for images and video is four times as long (vLLM layers/rotary_embedding/mrope.py)."""

ROTATED_SHARE_KEYS: Final = ("partial_rotary_factor", "rotary_pct", "rotary_emb_fraction")
ROTATED_WIDTH_KEYS: Final = ("rotary_dim", "rotary_emb_dim", "attn_rotary_emb")

HALF_ROTATED_CLASSES: Final = frozenset({"chatglm", "glm", "glm4", "glm4_moe"})
"""Classes that rotate half of each head without a key that says so (vLLM models/chatglm.py, glm.py)."""

_MULTIPLIED: Final = frozenset({"linear", "dynamic"})
_MULTIPLIED_FROM_ORIGINAL: Final = frozenset({"yarn", "deepseek_yarn", "deepseek_llama_scaling"})


def rotary_tables(keys: ConfigKeys, layers: Iterable[Layer]) -> tuple[RotaryTable, ...]:
    """The distinct tables, one for each kind of attention and rotary setting; empty for models without.

    Formula
        rows x rotated width: positions of config.json; x factor for linear and dynamic scaling; original
        positions x factor for YaRN; original + longest for LongRoPE; x 4 with `mrope_section`. The rotated
        width is head_dim x partial_rotary_factor, all of head_dim for proportional scaling.

    Source
        vLLM vllm/model_executor/layers/rotary_embedding/__init__.py `get_rope` and the classes beside it:
        one table per distinct setting, kept in the run dtype (latent attention with YaRN: FP32).

    Not covered
        Dual-chunk attention, and the tables of image and sound encoders.
    """
    if (
        keys.model_type in CLASSES_WITHOUT_ROTARY
        or keys.values.get("position_embedding_type") in ("nope", "absolute", "alibi")
        or keys.values.get("alibi") is True
    ):
        return ()
    positions = _positions(keys)
    found: dict[RotaryTable, None] = {}
    for kind, head_dim in _rotated_heads(layers):
        settings = _settings(keys, kind)
        rows = _rows(settings, positions, keys)
        latent = kind == "latent"
        width = head_dim if latent else _rotated_width(keys, settings, head_dim)
        scaled = _kind(settings) in _MULTIPLIED_FROM_ORIGINAL
        theta = settings.get("rope_theta")
        table = RotaryTable(
            rows=rows,
            width=width,
            base=float(theta) if isinstance(theta, int | float) else 0.0,
            in_fp32=latent and scaled,
        )
        found.setdefault(table, None)
    return tuple(found)


def _positions(keys: ConfigKeys) -> int:
    names = [name for name in POSITION_KEYS if keys.has(name)] or list(POSITION_KEYS)
    return next((value for name in names if (value := keys.integer(name)) is not None), DEFAULT_POSITIONS)


def _rotated_heads(layers: Iterable[Layer]) -> Iterator[tuple[str, int]]:
    """(kind of attention, width of the head that is rotated), each once."""
    seen: set[tuple[str, int]] = set()
    for layer in layers:
        for cache in layer.caches:
            match cache:
                case FullAttention():
                    one = ("full_attention", cache.head_dim)
                case SlidingAttention():
                    one = ("sliding_attention", cache.head_dim)
                case LatentAttention():
                    one = ("latent", cache.qk_rope_head_dim)
                case _:
                    continue
            if one not in seen and one[1] > 0:
                seen.add(one)
                yield one


def _settings(keys: ConfigKeys, kind: str) -> Mapping[str, object]:
    """The rotary settings of one kind of attention: nested by layer type, one for all, or windows with a base
    frequency of their own and no scaling."""
    base = {"rope_theta": keys.values.get("rope_theta")}
    for name in ("rope_parameters", "rope_scaling"):
        settings = as_object(keys.values.get(name))
        if settings is None:
            continue
        own = as_object(settings.get(kind))
        if own is not None:
            return own
        if kind == "sliding_attention" and keys.has("rope_local_base_freq"):
            return {"rope_theta": keys.values["rope_local_base_freq"]}
        return {**base, **settings}
    if kind == "sliding_attention" and keys.has("rope_local_base_freq"):
        return {"rope_theta": keys.values["rope_local_base_freq"]}
    return base


def _kind(settings: Mapping[str, object]) -> str:
    kind = settings.get("rope_type", settings.get("type"))
    return kind if isinstance(kind, str) else "default"


def _number(settings: Mapping[str, object], name: str) -> float | None:
    value = settings.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        return None
    return float(value)


def _rows(settings: Mapping[str, object], positions: int, keys: ConfigKeys) -> int:
    kind = _kind(settings)
    factor = _number(settings, "factor") or 1.0
    original = _number(settings, "original_max_position_embeddings")
    if original is None:
        original = float(keys.integer("original_max_position_embeddings") or positions)
    rows = float(positions)
    if kind in _MULTIPLIED and "alpha" not in settings:
        rows = positions * factor
    elif kind in _MULTIPLIED_FROM_ORIGINAL:
        rows = original * factor
    elif kind in ("longrope", "su"):
        rows = original + positions
    if "mrope_section" in settings:
        rows *= MROPE_LENGTHENING
    return int(rows)


def _rotated_width(keys: ConfigKeys, settings: Mapping[str, object], head_dim: int) -> int:
    if _kind(settings) == "proportional":
        return head_dim
    for name in ROTATED_WIDTH_KEYS:
        value = keys.values.get(name)
        if isinstance(value, int) and 0 < value <= head_dim:
            return value
    for source in (settings, keys.values):
        for name in ROTATED_SHARE_KEYS:
            share = _number(source, name)
            if share is not None and share <= 1:
                return int(head_dim * share)
    return head_dim // 2 if keys.model_type in HALF_ROTATED_CLASSES else head_dim
