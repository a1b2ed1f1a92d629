"""Number 4: the tensor-parallel widths at which an engine starts, and the rule that forbids each of the
others.

Every rule names the file of vLLM that refuses. Expert parallelism is off unless it is asked for.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from willitserve.architecture import (
    Architecture,
    Cache,
    CompressedAttention,
    IndexerCache,
    LatentAttention,
    RecurrentState,
)
from willitserve.checkpoint import Part
from willitserve.model_classes import EXPERTS_NOT_FEWER_THAN_RANKS
from willitserve.report import RejectedTp
from willitserve.units import round_up

WIDTHS: Final = (1, 2, 4, 8, 16)

VOCABULARY_PADDING: Final = 64
"""vLLM pads the vocabulary to it before it is split (layers/vocab_parallel_embedding.py)."""

SMALLEST_HALVED_GROUP: Final = 32
"""vLLM halves the group of AWQ and GPTQ experts down to it (layers/quantization/moe_wna16.py; inc.py hands
it the experts of AutoRound)."""

BLOCK_MATRICES: Final = frozenset(
    {Part.ATTENTION, Part.STATE, Part.DENSE_MLP, Part.ROUTED_EXPERT, Part.SHARED_EXPERT}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedQuantization:
    """What the divisibility rules of quantized kernels need to know of a checkpoint."""

    method: str
    """As config.json names it: `fp8`, `awq`, `gptq`, `compressed-tensors`, `modelopt`, `mxfp4`,
    `bitsandbytes`, …"""
    block: tuple[int, int] | None = None
    """Output and input elements of one weight block with a scale of its own."""
    group_size: int | None = None
    """Input elements that share a scale; None or -1: a whole row."""
    tile: tuple[int, int] | None = None
    """Smallest output and input of a kernel that pads nothing: (64, 128) for Marlin in vLLM up to 0.19, whose
    GPTQ and compressed-tensors layers have no other kernel for BF16; None where the engine pads or has a
    fallback."""
    parts: frozenset[Part] = BLOCK_MATRICES
    """Parts of the model that are stored quantized."""


@dataclass(frozen=True, slots=True)
class SplitWidth:
    """One width of a weight matrix that tensor parallelism divides."""

    part: Part
    label: str
    width: int
    is_input: bool
    """Row parallel: the input is split; else only the output is, in a matrix of its own."""


def check_tp(
    architecture: Architecture,
    tp: int,
    *,
    quantization: ShardedQuantization | None = None,
    expert_parallel: bool = False,
) -> RejectedTp | None:
    """The first rule that stops an engine at `tp` ranks, None where it starts."""
    for rule in _STRUCTURE_RULES:
        found = rule(architecture, tp)
        if found is not None:
            return RejectedTp(tp=tp, rule=found[0], reason=found[1])
    widths = tuple(split_widths(architecture, expert_parallel=expert_parallel))
    found = _experts(architecture, tp, expert_parallel=expert_parallel) or _even(widths, tp)
    if found is None and quantization is not None:
        stored = tuple(width for width in widths if width.part in quantization.parts)
        for kernel_rule in _KERNEL_RULES:
            found = found or kernel_rule(quantization, stored, tp)
    return None if found is None else RejectedTp(tp=tp, rule=found[0], reason=found[1])


def valid_tp(
    architecture: Architecture,
    *,
    quantization: ShardedQuantization | None = None,
    expert_parallel: bool = False,
    widths: tuple[int, ...] = WIDTHS,
) -> tuple[list[int], list[RejectedTp]]:
    """The widths that start, and those that do not with the rule that forbids them."""
    checked = {
        tp: check_tp(architecture, tp, quantization=quantization, expert_parallel=expert_parallel)
        for tp in widths
    }
    valid = [tp for tp, rejected in checked.items() if rejected is None]
    return valid, [rejected for rejected in checked.values() if rejected is not None]


Refusal = tuple[str, str]
"""Rule and sentence."""


def _heads(architecture: Architecture, tp: int) -> Refusal | None:
    """Query heads must divide.

    Source: vLLM vllm/config/model.py `verify_with_parallel_config`; layers/linear.py `QKVParallelLinear` per
    layer.
    """
    counts = [architecture.num_attention_heads, *(heads for heads, _ in _attention_counts(architecture))]
    for heads in counts:
        if heads % tp:
            return "heads", f"{heads} query heads do not divide by {tp}."
    return None


def _kv_heads(architecture: Architecture, tp: int) -> Refusal | None:
    """KV heads must divide, or be replicated evenly. A latent cache has no KV heads to split.

    Source: vLLM vllm/model_executor/layers/linear.py `QKVParallelLinear` (`divide`).
    """
    for _, kv_heads in _attention_counts(architecture):
        if kv_heads % tp and tp % kv_heads:
            return "kv heads", f"{kv_heads} KV heads neither divide by {tp} nor are divided by it."
    return None


def _state_heads(architecture: Architecture, tp: int) -> Refusal | None:
    """Heads of a recurrent state must divide; its groups too, unless there is one that every rank copies.

    Source: vLLM vllm/model_executor/layers/mamba/mamba_mixer2.py (assertions), mamba_utils.py (`divide`).
    """
    for state in _states(architecture):
        if state.num_heads % tp:
            return "state heads", f"{state.num_heads} {state.kind} heads do not divide by {tp}."
        if state.kind == "mamba2" and state.num_groups > 1 and state.num_groups % tp:
            return "state heads", f"{state.num_groups} Mamba-2 groups do not divide by {tp}."
        if state.kind == "gated-delta" and state.num_groups % tp:
            return "state heads", f"{state.num_groups} key heads of the delta net do not divide by {tp}."
        if state.num_heads == 0 and state.width % tp:
            return "state heads", f"A {state.kind} width of {state.width} does not divide by {tp}."
    return None


def _vocabulary(architecture: Architecture, tp: int) -> Refusal | None:
    """The vocabulary, padded to a multiple of 64, must divide: no rule at powers of two up to 64.

    Source: vLLM vllm/model_executor/layers/vocab_parallel_embedding.py `pad_vocab_size`, `divide`.
    """
    if architecture.vocab_size is None:
        return None
    padded = round_up(architecture.vocab_size, VOCABULARY_PADDING)
    if padded % tp:
        return "vocabulary", f"A vocabulary of {padded:,} (padded to 64) does not divide by {tp}."
    return None


def _experts(architecture: Architecture, tp: int, *, expert_parallel: bool) -> Refusal | None:
    """Whole experts over ranks: never fewer than ranks.

    Source: vLLM vllm/model_executor/models/qwen3_moe.py and the classes of `EXPERTS_NOT_FEWER_THAN_RANKS`.
    """
    moe = architecture.moe
    if moe is None or tp <= moe.num_experts:
        return None
    if expert_parallel or architecture.decoder_type in EXPERTS_NOT_FEWER_THAN_RANKS:
        return "experts over ranks", f"{moe.num_experts} experts are fewer than {tp} ranks."
    return None


def _even(widths: tuple[SplitWidth, ...], tp: int) -> Refusal | None:
    """Every split width must divide.

    Source: vLLM vllm/model_executor/layers/linear.py (`divide`), layers/fused_moe/config.py.
    """
    for width in widths:
        if width.width % tp:
            return "ffn width", f"The {width.label} of {width.width:,} does not divide by {tp}."
    return None


def _prequantized(quantization: ShardedQuantization, _: tuple[SplitWidth, ...], tp: int) -> Refusal | None:
    """Weights that bitsandbytes has packed cannot be split.

    Source: vLLM 0.19 vllm/model_executor/model_loader/bitsandbytes_loader.py.
    """
    if quantization.method == "bitsandbytes" and tp > 1:
        return "bitsandbytes", f"Weights packed by bitsandbytes cannot be split over {tp} ranks."
    return None


def _fp8_block(quantization: ShardedQuantization, widths: tuple[SplitWidth, ...], tp: int) -> Refusal | None:
    """A rank's part of a width must be whole blocks.

    Source: vLLM vllm/model_executor/layers/quantization/utils/fp8_utils.py `validate_fp8_block_shape` and
    `validate_fp8_block_shape_moe`. Fused matrices (QKV, gate with up) are let through there; the matrix that
    follows them has the same width as input and is not.
    """
    if quantization.block is None:
        return None
    block_out, block_in = quantization.block
    for width in widths:
        # Experts are checked on one rank too, dense matrices only where they are split.
        if tp == 1 and width.part is not Part.ROUTED_EXPERT:
            continue
        block = block_in if width.is_input else block_out
        if width.width // tp % block:
            part = f"{width.width:,} / {tp} = {width.width // tp:,}"
            return "fp8 block", f"The {width.label} of {part} is no multiple of the weight block of {block}."
    return None


def _quant_group(
    quantization: ShardedQuantization, widths: tuple[SplitWidth, ...], tp: int
) -> Refusal | None:
    """A group of inputs that share a scale must not straddle ranks.

    Source: vLLM vllm/model_executor/layers/quantization/utils/marlin_utils.py
    `verify_group_size_divides_partition`, auto_awq.py,
    compressed_tensors/schemes/compressed_tensors_wNa16.py; moe_wna16.py halves the groups of experts. MXFP4
    experts are padded per rank (mxfp4.py).
    """
    group = quantization.group_size
    if quantization.block is not None or group is None or group <= 0 or quantization.method == "mxfp4":
        return None
    for width in widths:
        allowed = group
        if width.part is Part.ROUTED_EXPERT and quantization.method in ("awq", "gptq", "auto-round"):
            allowed = min(group, SMALLEST_HALVED_GROUP)
        if width.is_input and group < width.width and width.width // tp % allowed:
            part = f"{width.width:,} / {tp} = {width.width // tp:,}"
            return "quant group", f"The {width.label} of {part} is no multiple of the group of {allowed}."
    return None


def _marlin_tile(
    quantization: ShardedQuantization, widths: tuple[SplitWidth, ...], tp: int
) -> Refusal | None:
    """A rank's part must be whole kernel tiles, in engines that do not pad.

    Source: vLLM 0.19 vllm/model_executor/layers/quantization/utils/marlin_utils.py
    `verify_marlin_supports_shape`. Experts have another kernel to fall back to (moe_wna16.py).
    """
    if quantization.tile is None:
        return None
    tile_out, tile_in = quantization.tile
    for width in widths:
        if width.part is Part.ROUTED_EXPERT:
            continue
        tile = tile_in if width.is_input else tile_out
        if width.width // tp % tile:
            part = f"{width.width:,} / {tp} = {width.width // tp:,}"
            return "marlin tile", f"The {width.label} of {part} is no multiple of the kernel's {tile}."
    return None


_STRUCTURE_RULES: Final[tuple[Callable[[Architecture, int], Refusal | None], ...]] = (
    _heads,
    _kv_heads,
    _state_heads,
    _vocabulary,
)
_KERNEL_RULES: Final[
    tuple[Callable[[ShardedQuantization, tuple[SplitWidth, ...], int], Refusal | None], ...]
] = (_prequantized, _fp8_block, _quant_group, _marlin_tile)


def split_widths(architecture: Architecture, *, expert_parallel: bool = False) -> Iterator[SplitWidth]:
    """The distinct widths of weight matrices that `tp` ranks divide among them.

    An expert's width is whole on every rank under expert parallelism.
    """
    seen: set[SplitWidth] = set()
    for width in _all_widths(architecture, expert_parallel=expert_parallel):
        if width.width and width not in seen:
            seen.add(width)
            yield width


def _all_widths(architecture: Architecture, *, expert_parallel: bool) -> Iterator[SplitWidth]:
    for layer in architecture.layers:
        for cache in layer.caches:
            yield from _attention_widths(cache)
        if layer.ffn_width:
            yield SplitWidth(Part.DENSE_MLP, "feed-forward width", layer.ffn_width, is_input=True)
    moe = architecture.moe
    if moe is not None and any(layer.ffn == "moe" for layer in architecture.layers):
        if not expert_parallel:
            yield SplitWidth(Part.ROUTED_EXPERT, "expert width", moe.expert_width, is_input=True)
        yield SplitWidth(Part.SHARED_EXPERT, "shared-expert width", moe.shared_width, is_input=True)


def _attention_widths(cache: Cache) -> Iterator[SplitWidth]:
    match cache:
        case RecurrentState():
            yield SplitWidth(Part.STATE, f"{cache.kind} width", cache.width, is_input=True)
        case IndexerCache():
            return
        case LatentAttention():
            query = cache.num_heads * (cache.qk_nope_head_dim + cache.qk_rope_head_dim)
            expanded = cache.num_heads * (cache.qk_nope_head_dim + cache.v_head_dim)
            yield SplitWidth(Part.ATTENTION, "query projection", query, is_input=False)
            yield SplitWidth(Part.ATTENTION, "latent expansion", expanded, is_input=False)
            output = cache.num_heads * cache.v_head_dim
            yield SplitWidth(Part.ATTENTION, "attention output", output, is_input=True)
        case CompressedAttention():
            query = cache.num_heads * cache.head_dim
            yield SplitWidth(Part.ATTENTION, "query projection", query, is_input=False)
        case _:
            v_head_dim = getattr(cache, "v_head_dim", cache.head_dim)
            yield SplitWidth(Part.ATTENTION, "attention output", cache.num_heads * v_head_dim, is_input=True)


def _attention_counts(architecture: Architecture) -> Iterator[tuple[int, int]]:
    """Distinct (query heads, KV heads) of attention that splits its keys and values by head."""
    seen: set[tuple[int, int]] = set()
    for layer in architecture.layers:
        for cache in layer.caches:
            if isinstance(cache, RecurrentState | IndexerCache | LatentAttention | CompressedAttention):
                continue
            counts = (cache.num_heads, cache.num_kv_heads)
            if counts not in seen:
                seen.add(counts)
                yield counts


def _states(architecture: Architecture) -> Iterator[RecurrentState]:
    seen: set[RecurrentState] = set()
    for layer in architecture.layers:
        for cache in layer.caches:
            if isinstance(cache, RecurrentState) and cache not in seen:
                seen.add(cache)
                yield cache
