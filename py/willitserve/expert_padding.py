"""MXFP4 experts as their kernels want them: widths rounded up when the weights are repacked at load."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from willitserve.architecture import Architecture
from willitserve.checkpoint import Part, TensorGroup
from willitserve.units import ceil_div, round_up

MXFP4_GROUP: Final = 32
"""Inputs that share a scale; a rank gets whole groups of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertKernel:
    """What one kernel for MXFP4 experts rounds up, elements."""

    name: str
    hidden: int
    width: int
    """The expert width of one rank."""
    packed_inputs: int = 1
    """Inputs of packed values, beyond the widths above; scales keep theirs."""


MARLIN: Final = ExpertKernel(name="Marlin", hidden=256, width=128)
TRITON: Final = ExpertKernel(name="Triton", hidden=1, width=64, packed_inputs=256)
TRTLLM: Final = ExpertKernel(name="FlashInfer TRT-LLM", hidden=256, width=256)
AITER: Final = ExpertKernel(name="AITER or Triton on ROCm", hidden=256, width=256)


def expert_kernel(capability: str | None) -> ExpertKernel:
    """The kernel that vLLM chooses for MXFP4 experts on a card.

    Source
        vLLM vllm/model_executor/layers/fused_moe/oracle/mxfp4.py
        `mxfp4_round_up_hidden_size_and_intermediate_size` and
        layers/quantization/mxfp4.py `get_mxfp4_backend`: Triton on compute capability 9, FlashInfer on 10,
        Marlin elsewhere. The inputs of packed values on Hopper: triton_kernels HopperMXValueLayout, and
        gpt-oss-120b on H100, which loads 64.38 GiB.
    """
    text = capability or ""
    if text.startswith("gfx"):
        return AITER
    major = text.split(".")[0]
    return {"9": TRITON, "10": TRTLLM}.get(major, MARLIN)


def padded_ratio(
    kernel: ExpertKernel, group: TensorGroup, architecture: Architecture, *, tp: int
) -> Fraction:
    """Bytes that a rank holds of a group of tensors over its even share; 1 for all but MXFP4 experts.

    Formula
        rounded hidden x rounded width per rank x tp / (hidden x width), inputs of packed values rounded once
        more
    """
    moe = architecture.moe
    if moe is None or group.part is not Part.ROUTED_EXPERT or group.format != "mxfp4":
        return Fraction(1)
    hidden, width = architecture.hidden_size, moe.expert_width
    rank_width = round_up(
        ceil_div(ceil_div(width, MXFP4_GROUP), tp) * MXFP4_GROUP if tp > 1 else width, kernel.width
    )
    rank_hidden = round_up(hidden, kernel.hidden)
    ratio = Fraction(rank_hidden * rank_width * tp, hidden * width)
    if group.num_params:
        inputs = rank_width if "down" in group.module or group.module.endswith("w2") else rank_hidden
        ratio *= Fraction(round_up(inputs, kernel.packed_inputs), inputs)
    return ratio
