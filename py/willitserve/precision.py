"""Number 3, precision: what a card multiplies natively, what the engine does with the rest, and which format
to pick.

Policy: the smallest format that the card runs natively, NVFP4 and MXFP4 before plain INT4 (which no engine
here runs natively: it saves memory and bandwidth, the math stays 16-bit). An unknown card: BF16 only, and
that is said.
"""

from dataclasses import dataclass
from typing import Literal

from willitserve.formats import FormatTable, Support
from willitserve.gpu import GpuSpec

Answer = Literal["native", "weight-only", "emulated", "refused", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatRow:
    """One weight format of the ladder."""

    name: str
    """As the `weights` key of a request spells it."""
    label: str
    table_name: str
    """Row of the precision matrix."""
    hardware: str
    """As a card's `native_dtypes` and `dense_tflops` spell it."""


LADDER: tuple[FormatRow, ...] = (
    FormatRow(name="nvfp4", label="NVFP4", table_name="nvfp4", hardware="nvfp4"),
    FormatRow(name="mxfp4", label="MXFP4", table_name="mxfp4", hardware="mxfp4"),
    FormatRow(name="int4", label="INT4", table_name="int4_w4a16", hardware="int4"),
    FormatRow(name="fp8", label="FP8", table_name="fp8_w8a8", hardware="fp8"),
    FormatRow(name="int8", label="INT8", table_name="int8_w8a8", hardware="int8"),
    FormatRow(name="bf16", label="BF16", table_name="bf16", hardware="bf16"),
    FormatRow(name="fp16", label="FP16", table_name="fp16", hardware="fp16"),
)
"""Smallest first; among equals the one whose scales cost accuracy least comes first."""

STORED_FORMATS: dict[str, str] = {
    "bf16": "bf16",
    "f16": "fp16",
    "f32": "fp32",
    "fp8": "fp8_w8a8",
    "fp8-block": "fp8_block_w8a8",
    "int8": "int8_w8a8",
    "int4": "int4_w4a16",
    "awq": "int4_w4a16",
    "gptq": "int4_w4a16",
    "nf4": "bnb_nf4",
    "fp4-bnb": "bnb_nf4",
    "nvfp4": "nvfp4",
    "mxfp4": "mxfp4",
    "mxfp8": "mxfp8",
}
"""Storage format of a checkpoint -> row of the precision matrix."""

_ANSWERS: dict[Support, Answer] = {
    "native": "native",
    "weight_only": "weight-only",
    "storage_only": "weight-only",
    "emulated": "emulated",
    "unsupported": "refused",
    "no_binary": "refused",
    "unclear": "unknown",
}


def answer_for(table: FormatTable, table_name: str, compute_capability: str | None) -> Answer:
    """What the engine does with a format on a card of that capability."""
    support = table.support(table_name, compute_capability)
    return "unknown" if support is None else _ANSWERS[support]


def recommend(table: FormatTable, gpu: GpuSpec | None) -> tuple[FormatRow, str]:
    """The format that the policy picks for a card, and why."""
    capability = gpu.compute_capability if gpu is not None else None
    for row in LADDER:
        if answer_for(table, row.table_name, capability) == "native":
            name = gpu.name if gpu is not None else "the card"
            return (
                row,
                f"{row.label} is the smallest format that {name} multiplies natively under {table.engine}.",
            )
    bf16 = next(row for row in LADDER if row.name == "bf16")
    if gpu is not None and capability is not None and table.support("fp16", capability) == "native":
        fp16 = next(row for row in LADDER if row.name == "fp16")
        return fp16, f"{gpu.name} has no BF16: FP16 is what it multiplies."
    return (
        bf16,
        "What this card multiplies natively under the engine is not known: BF16 is taken, nothing smaller.",
    )


def refusal_of(
    table: FormatTable, table_name: str, label: str, *, card: str, capability: str | None
) -> str | None:
    """Why the engine will not run a format on a card; None where it does, or where that is not known."""
    if answer_for(table, table_name, capability) != "refused":
        return None
    notes = table.formats[table_name].notes
    because = f" ({notes[0].rstrip('.')})" if notes else ""
    return f"{label} is refused on {card}, compute capability {capability}{because}."


KV_TABLE_NAMES: dict[str, str] = {"fp8": "kv_fp8_e4m3", "fp8_e4m3": "kv_fp8_e4m3", "fp8_e5m2": "kv_fp8_e5m2"}
"""KV dtype of a request -> row of the precision matrix."""


def sentence_for(row: FormatRow, answer: Answer, *, card: str) -> str:
    """One sentence on what a format means on a card."""
    match answer:
        case "native":
            return f"{card} multiplies {row.label} natively."
        case "weight-only":
            return (
                f"{row.label} weights are stored as such and widened to 16 bit for the math on {card}:"
                " memory and bandwidth saved, no math gain."
            )
        case "emulated":
            return f"{row.label} loads on {card} but is emulated: little or no gain."
        case "refused":
            return f"The engine refuses {row.label} on {card}, or has no kernel for it."
        case "unknown":
            return f"What the engine does with {row.label} on {card} is not known."


def run_dtype(
    asked: str, config_dtype: str | None, *, bf16: Answer, capability: str | None
) -> tuple[str, str | None, str | None]:
    """The dtype that the engine computes in, as (dtype, change, refusal).

    `change` is a sentence when the engine falls back by itself, `refusal` when it will not start.

    Source
        vLLM `_get_and_verify_dtype` (vllm/config/model.py): auto keeps the config's dtype, takes a 16-bit one
        for float32 configs and FP16 where the card has no BF16; an explicit bfloat16 is refused there.
    """
    names = {"half": "float16", "float": "float32"}
    asked = names.get(asked, asked)
    config = (config_dtype or "bfloat16").removeprefix("torch.")
    if asked != "auto":
        if asked == "bfloat16" and bf16 == "refused":
            refusal = (
                f"Bfloat16 needs compute capability 8.0 or newer, this card has {capability}:"
                " ask for dtype float16 instead."
            )
            return asked, None, refusal
        return asked, None, None
    wanted = "bfloat16" if config == "float32" else config
    if wanted == "bfloat16" and bf16 == "refused":
        change = (
            f"FP16 instead of BF16: compute capability {capability} has no BF16, so the engine casts"
            " the weights."
            " FP16 overflows above 65,504; models trained in BF16 may lose accuracy or emit NaN."
        )
        return "float16", change, None
    return wanted, None, None


def kv_dtype(asked: str, *, run: str, checkpoint: str | None = None) -> tuple[str, int, str]:
    """The KV cache's dtype as (name, bits, sentence).

    `checkpoint` is what it declares for its cache, None where it declares nothing or the engine does not read
    it.

    Source
        vLLM 0.18 vllm/utils/torch_utils.py `resolve_kv_cache_dtype_string`, layers/attention/attention.py
        (`kv_cache_scheme`): auto is what the checkpoint declares, else the run dtype.
    """
    if asked.startswith("fp8"):
        return asked, 8, "KV cache in FP8, as asked."
    if asked in ("bf16", "fp16"):
        return asked, 16, "KV cache in 16 bit, as asked."
    if checkpoint is not None and checkpoint.startswith("fp8"):
        return "fp8", 8, "KV cache in FP8: the checkpoint brings scales for it, and the engine reads them."
    bits = 32 if run == "float32" else 16
    return run, bits, f"KV cache in {run}, the dtype the model runs in."
