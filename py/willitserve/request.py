"""The request as a reader writes it: URL keys to typed values; what cannot be used is named and its default
applies."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from willitserve.report import Problem

DEFAULTS: dict[str, str] = {
    "users": "1",
    "tp": "1",
    "pp": "1",
    "kv": "auto",
    "weights": "checkpoint",
    "engine": "vllm",
    "input": "",
    "output": "",
    "context": "",
    "util": "",
    "seqs": "",
    "batched": "",
    "price": "",
    "mem": "",
    "dtype": "auto",
    "eager": "",
}
"""Value of each key when it is left out; an empty text is decided by model, card and engine."""

PAGE_KEYS = frozenset({"endpoint", "embed", "theme"})
"""Keys that the page reads for itself."""

MAX_TEXT = 300
"""Characters of a value beyond which it is refused unread."""

WEIGHTS = ("checkpoint", "bf16", "fp16", "fp8", "int8", "mxfp8", "nvfp4", "mxfp4", "int4")
KV_DTYPES = ("auto", "bf16", "fp16", "fp8", "fp8_e4m3", "fp8_e5m2")
DTYPES = ("auto", "bfloat16", "float16", "float32", "half", "float")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """A request with every value checked on its own; None means: decided by model, card and engine."""

    model: str = ""
    gpu: str = ""
    users: int = 1
    context: int | None = None
    weights: str = "checkpoint"
    kv: str = "auto"
    tp: int = 1
    pp: int = 1
    engine: str = "vllm"
    util: float | None = None
    seqs: int | None = None
    batched: int | None = None
    input: int | None = None
    output: int | None = None
    price: float | None = None
    mem_gib: float | None = None
    dtype: str = "auto"
    eager: bool = False
    problems: tuple[Problem, ...] = field(default=())


class _UnusableError(ValueError):
    """A value that breaks the rule of its key; the text is the rule."""


def _whole(low: int, high: int, what: str) -> Callable[[str], int]:
    def read(text: str) -> int:
        digits = text.replace(",", "").replace("_", "").strip()
        if not re.fullmatch(r"[0-9]{1,12}", digits, re.ASCII) or not low <= int(digits) <= high:
            raise _UnusableError(f"{what} is a whole number from {low:,} to {high:,}")
        return int(digits)

    return read


def _decimal(low: float, high: float, what: str) -> Callable[[str], float]:
    def read(text: str) -> float:
        if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?|\.[0-9]{1,9}", text.strip(), re.ASCII):
            raise _UnusableError(f"{what} is a number above {low:g} and up to {high:,.10g}")
        value = float(text)
        if not low < value <= high:
            raise _UnusableError(f"{what} is a number above {low:g} and up to {high:,.10g}")
        return value

    return read


def _one_of(options: tuple[str, ...], what: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        lowered = text.strip().lower()
        if lowered not in options:
            raise _UnusableError(f"{what} is one of {', '.join(options)}")
        return lowered

    return read


def _flag(text: str) -> bool:
    if text.strip().lower() not in ("0", "1", "true", "false"):
        raise _UnusableError("eager is 1 or 0")
    return text.strip().lower() in ("1", "true")


_READERS: dict[str, tuple[str, Callable[[str], object]]] = {
    "model": ("model", str.strip),
    "gpu": ("gpu", str.strip),
    "engine": ("engine", str.strip),
    "users": ("users", _whole(1, 1_000_000, "users")),
    "context": ("context", _whole(1, 100_000_000, "context (tokens)")),
    "weights": ("weights", _one_of(WEIGHTS, "weights")),
    "kv": ("kv", _one_of(KV_DTYPES, "kv (dtype of the KV cache)")),
    "tp": ("tp", _whole(1, 1024, "tp (GPUs that share each layer)")),
    "pp": ("pp", _whole(1, 1024, "pp (pipeline stages)")),
    "util": ("util", _decimal(0.0, 1.0, "util (share of the card's memory)")),
    "seqs": ("seqs", _whole(1, 1_000_000, "seqs (max_num_seqs)")),
    "batched": ("batched", _whole(1, 100_000_000, "batched (max_num_batched_tokens)")),
    "input": ("input", _whole(1, 100_000_000, "input (prompt tokens)")),
    "output": ("output", _whole(1, 100_000_000, "output (generated tokens)")),
    "price": ("price", _decimal(0.0, 1_000_000.0, "price (per GPU-hour)")),
    "mem": ("mem_gib", _decimal(0.0, 100_000.0, "mem (GiB of one card)")),
    "dtype": ("dtype", _one_of(DTYPES, "dtype")),
    "eager": ("eager", _flag),
}


def _bounded(key: str, text: str) -> str:
    if len(text) > MAX_TEXT:
        raise _UnusableError(f"{key} has at most {MAX_TEXT} characters")
    return text


def shown(text: str) -> str:
    """A value as it may stand in a sentence: one line, at most 60 characters, control characters escaped."""
    clean = "".join(c if c.isprintable() else "?" for c in text[:61])
    return clean[:57] + "..." if len(clean) > 60 else clean


def read_query(query: Mapping[str, str]) -> PlanRequest:
    """Read URL keys into a request; unknown keys and bad values become `problems`, the rest applies."""
    values: dict[str, object] = {}
    problems: list[Problem] = []
    for key, text in query.items():
        if key in PAGE_KEYS:
            continue
        reader = _READERS.get(key)
        if reader is None:
            sentence = f"“{shown(key)}” is not a key of this page and was left out."
            problems.append(Problem(field=shown(key), code="unknown-key", sentence=sentence))
            continue
        if text.strip() == "":
            continue
        name, read = reader
        try:
            values[name] = read(_bounded(key, text))
        except _UnusableError as rule:
            default = DEFAULTS.get(key) or "the default"
            sentence = f"{rule}; “{shown(text)}” is not, so {default} is used."
            problems.append(Problem(field=key, code="bad-value", sentence=sentence[0].upper() + sentence[1:]))
    return PlanRequest(**values, problems=tuple(problems))  # pyright: ignore[reportArgumentType]  # typed by _READERS
