"""The planning calculator: rough on purpose, for a first talk about money.

Formula
    weights = parameters x bits / 8;  needed = weights x 1.3;  usable per card = 0.9 x memory;  cards = needed
    / usable, rounded up. The 1.3 stands for KV cache and overhead, the 0.9 for the engine's default share of
    a card.
"""

import re

from willitserve.errors import InputError
from willitserve.report import RoughReport
from willitserve.units import GB, ceil_div
from willitserve.weights import WEIGHT_FORMATS

SUFFIXES = {"T": 10**12, "B": 10**9, "M": 10**6, "K": 10**3, "": 1}


def parse_parameters(text: str) -> int:
    """`70B`, `0.6b`, `8_030_261_248` as a number of parameters; InputError otherwise."""
    match = re.fullmatch(
        r"\s*([0-9][0-9_,]{0,20})(?:\.([0-9]{1,9}))?\s*([TBMK]?)\s*", text, re.ASCII | re.IGNORECASE
    )
    if match is None:
        raise InputError(
            f"“{text[:40]}” is not a number of parameters", field="model", hint="Write 70B, 0.6B or 405B."
        )
    whole, fraction, suffix = match.groups()
    scale = SUFFIXES[suffix.upper()]
    digits = int(whole.replace("_", "").replace(",", ""))
    count = digits * scale + (int(fraction) * scale // 10 ** len(fraction) if fraction else 0)
    if not 10**5 <= count <= 10**16:
        raise InputError(
            f"{count:,} parameters is out of range", field="model", hint="Write 70B, 0.6B or 405B."
        )
    return count


def rough_plan(num_params: int, *, weights: str, gpu_memory_bytes: int, gpu_name: str) -> RoughReport:
    """How many cards one replica takes, by rule of thumb. `gpu_memory_bytes` is the card's marketed
    memory."""
    weight_format = WEIGHT_FORMATS[weights]
    weight_bytes = ceil_div(num_params * weight_format.bits_per_weight_x100, 800)
    needed_bytes = ceil_div(weight_bytes * 13, 10)
    usable_bytes = gpu_memory_bytes * 9 // 10
    cards = ceil_div(needed_bytes, usable_bytes)
    return RoughReport(
        weight_bytes=weight_bytes,
        needed_bytes=needed_bytes,
        usable_bytes_per_gpu=usable_bytes,
        gpus_per_replica=cards,
        sentence=f"About {cards} x {gpu_name} for one replica in {weights.upper()}, roughly.",
        arithmetic=(
            f"{num_params / 1e9:,.4g} B parameters x {weight_format.bits_per_weight_x100 / 800:g} B"
            f" = {weight_bytes / GB:,.1f} GB; x 1.3 = {needed_bytes / GB:,.1f} GB;"
            f" / ({gpu_memory_bytes / GB:,.0f} GB x 0.9) = {needed_bytes / usable_bytes:.2f}, so {cards}"
        ),
    )
