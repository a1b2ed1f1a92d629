"""Bytes of weights on one GPU: which tensors an engine divides among ranks, and which each rank holds whole.

Rules are those of vLLM's layers (vllm/model_executor/layers/linear.py, vocab_parallel_embedding.py,
fused_moe/layer.py): column- and row-parallel matrices are divided, norms, routers, MLA down-projections and
one-element tensors are not, KV heads are replicated when there are fewer than ranks, the vocabulary is padded
to 64 before it is divided.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, prod
from typing import Final

from willitserve.allocator import allocated_bytes
from willitserve.architecture import Architecture, LatentAttention
from willitserve.checkpoint import Checkpoint, Part, TensorGroup
from willitserve.expert_padding import ExpertKernel, padded_ratio
from willitserve.identity_memo import IdentityMemo
from willitserve.units import ceil_div, round_up

VOCABULARY_PADDING = 64
"""vllm/model_executor/layers/vocab_parallel_embedding.py, DEFAULT_VOCAB_PADDING_SIZE."""

FLOAT_FORMATS = {"bf16": 16, "f16": 16, "f32": 32, "f64": 64}
"""Formats that an engine casts to the run dtype when it loads them, bits."""

WHOLE_PARTS = frozenset({Part.NORM, Part.ROUTER, Part.BUFFER, Part.OTHER})

WHOLE_WORDS = frozenset(
    {
        "q_a_proj",
        "kv_a_proj_with_mqa",
        "fused_qkv_a_proj_with_mqa",
        "wq_a",
        "wkv",
        "indexer",
        "compressor",
        "shared_expert_gate",
        "position_embeddings",
        "wpe",
    }
)
"""Modules that every rank holds whole: MLA and indexer down-projections, learned positions, one-row gates."""

ROW_PARALLEL = frozenset(
    {
        "o_proj",
        "down_proj",
        "out_proj",
        "dense",
        "dense_4h_to_h",
        "c_proj",
        "fc2",
        "fc_out",
        "w2",
        "wo",
        "wo_b",
    }
)
"""Matrices divided along their input: a bias or a per-row scale beside them is held whole."""

KEY_VALUE = frozenset({"k_proj", "v_proj", "wk", "wv", "k", "v", "key", "value"})
FUSED_QUERY_KEY_VALUE = frozenset({"qkv_proj", "query_key_value", "c_attn", "Wqkv", "W_pack", "wqkv", "qkv"})

FUSED: Final[dict[str, str]] = {
    **dict.fromkeys(("q_proj", "k_proj", "v_proj", "query", "key", "value", "wq", "wk", "wv"), "qkv"),
    **dict.fromkeys(("gate_proj", "up_proj", "w1", "w3"), "gate_up"),
    **dict.fromkeys(("q_a_proj", "kv_a_proj_with_mqa"), "qkv_a"),
    **dict.fromkeys(("in_proj_qkv", "in_proj_z"), "in_qkvz"),
    **dict.fromkeys(("in_proj_b", "in_proj_a"), "in_ba"),
}
"""Matrices that the engine stacks into one tensor (`packed_modules_mapping` of vLLM's model classes)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightFormat:
    """A format that linear layers are brought to, when it is not the stored one."""

    name: str
    bits_per_weight_x100: int
    """Hundredths of a bit per weight, block scales included: 850 is 8.5 bits."""


WEIGHT_FORMATS: dict[str, WeightFormat] = {
    entry.name: entry
    for entry in (
        WeightFormat(name="bf16", bits_per_weight_x100=1600),
        WeightFormat(name="fp16", bits_per_weight_x100=1600),
        WeightFormat(name="fp8", bits_per_weight_x100=800),
        WeightFormat(name="int8", bits_per_weight_x100=800),
        WeightFormat(name="mxfp8", bits_per_weight_x100=825),
        WeightFormat(name="nvfp4", bits_per_weight_x100=450),
        WeightFormat(name="mxfp4", bits_per_weight_x100=425),
        WeightFormat(name="int4", bits_per_weight_x100=416),
    )
}
"""nvfp4: one FP8 scale per 16 weights; mxfp4, mxfp8: one 8-bit scale per 32; int4: one 16-bit scale and one
4-bit zero point per 128. Per-tensor and per-channel scales of fp8 and int8 are below a hundredth of a bit."""

LINEAR_PARTS = frozenset({Part.ATTENTION, Part.STATE, Part.DENSE_MLP, Part.ROUTED_EXPERT, Part.SHARED_EXPERT})
"""What quantized checkpoints usually quantize: the matrices of the blocks, not embeddings, head, norms or
routers."""


def is_block_matrix(group: TensorGroup) -> bool:
    """Whether the tensors are weight matrices of decoder blocks: what a change of weight format touches."""
    return group.part in LINEAR_PARTS and group.num_params > 0 and len(group.shape) >= 2


def loaded_bytes(group: TensorGroup, *, run_dtype_bits: int, weight_format: WeightFormat | None) -> int:
    """Bytes of a whole group once loaded on one GPU, before any division among ranks.

    Formula
        float tensors: parameters x run dtype; block matrices under another format: parameters x its bits per
        weight, and the scales they had vanish; everything else: as stored.
    """
    if weight_format is not None and group.part in LINEAR_PARTS and group.layer is not None:
        if is_block_matrix(group):
            return ceil_div(group.num_params * weight_format.bits_per_weight_x100, 800)
        if group.num_params == 0 and group.format not in FLOAT_FORMATS:
            return 0
    if group.format in FLOAT_FORMATS:
        return prod(group.shape) * group.count * run_dtype_bits // 8
    return group.stored_bytes


def rank_share(group: TensorGroup, architecture: Architecture, *, tp: int) -> tuple[int, int]:
    """The part of a group that one of `tp` ranks holds, as (numerator, denominator)."""
    if tp == 1:
        return 1, 1
    words = set(group.module.split("."))
    last = group.module.rsplit(".", 1)[-1]
    if group.part in WHOLE_PARTS or words & WHOLE_WORDS or prod(group.shape) <= 1:
        return 1, 1
    if group.part in (Part.EMBEDDING, Part.OUTPUT_HEAD):
        rows = group.shape[0]
        return round_up(rows, VOCABULARY_PADDING) // tp or 1, rows
    is_vector = len(group.shape) == 1 or (len(group.shape) == 2 and group.shape[1] == 1)
    if is_vector and last in ROW_PARALLEL:
        return 1, 1
    if group.part is Part.ATTENTION:
        kv_heads = architecture.num_kv_heads
        if last in KEY_VALUE and kv_heads:
            return 1, min(tp, kv_heads)
        if last in FUSED_QUERY_KEY_VALUE and kv_heads and kv_heads < tp:
            heads = architecture.num_attention_heads
            return heads // tp + 2, heads + 2 * kv_heads
    return 1, tp


def _on_stage(group: TensorGroup, layers: range, *, first: bool, last: bool, tied: bool) -> bool:
    if group.layer is not None:
        return group.layer in layers
    if group.part is Part.EMBEDDING:
        return first or (last and tied)
    if group.part in (Part.OUTPUT_HEAD, Part.NORM):
        return last
    return first


def stage_weight_bytes(
    checkpoint: Checkpoint,
    architecture: Architecture,
    stages: tuple[range, ...],
    *,
    tp: int,
    run_dtype_bits: int,
    weight_format: WeightFormat | None = None,
    expert_kernel: ExpertKernel | None = None,
    made_at_load: bool = True,
) -> list[int]:
    """Bytes of weights on one rank of each pipeline stage once they are loaded, tables made at load included.

    `stages` are the layer ranges of the stages, in order. Embeddings stand on the first, the output head and
    the final norm on the last, a tied matrix on both. `expert_kernel` pads MXFP4 experts; None: as stored.
    `made_at_load` False: the stored bytes alone, for a config.json that cannot be trusted.

    Formula
        sum of `allocated_bytes` over the engine's tensors: stored ones divided among ranks, stacked where the
        engine stacks them (query with key and value, gate with up, all experts of a layer), plus
        `table_bytes` on every stage and `absorbed_bytes` of its layers.

    Source
        vLLM `Model loading took` counts `torch.cuda.memory_allocated` (vllm/utils/mem_utils.py
        `DeviceMemoryProfiler`).
    """
    key = (id(architecture), stages, tp, run_dtype_bits, weight_format, expert_kernel, made_at_load)

    def add_up() -> tuple[Architecture, list[int]]:
        added = _stage_weight_bytes(
            checkpoint,
            architecture,
            stages,
            tp=tp,
            run_dtype_bits=run_dtype_bits,
            weight_format=weight_format,
            expert_kernel=expert_kernel,
            made_at_load=made_at_load,
        )
        return architecture, added

    return list(_added_up.get(checkpoint, key, add_up)[1])


_added_up: IdentityMemo[Checkpoint, tuple[Architecture, list[int]]] = IdentityMemo(32)
"""Users and context are dragged, weights stay: the sum is kept, with the architecture whose id is a key."""


def _stage_weight_bytes(
    checkpoint: Checkpoint,
    architecture: Architecture,
    stages: tuple[range, ...],
    *,
    tp: int,
    run_dtype_bits: int,
    weight_format: WeightFormat | None,
    expert_kernel: ExpertKernel | None,
    made_at_load: bool,
) -> list[int]:
    tied = architecture.tie_word_embeddings
    last = len(stages) - 1
    total = [0] * len(stages)
    for tensor in _rank_tensors(
        checkpoint,
        architecture,
        tp=tp,
        run_dtype_bits=run_dtype_bits,
        weight_format=weight_format,
        expert_kernel=expert_kernel,
    ):
        allocated = tensor.num_bytes
        if made_at_load:
            allocated = allocated_bytes(ceil_div(allocated, tensor.count)) * tensor.count
        for stage, layers in enumerate(stages):
            if _on_stage(tensor.group, layers, first=stage == 0, last=stage == last, tied=tied):
                total[stage] += allocated
    if not made_at_load:
        return total
    tables = table_bytes(architecture, run_dtype_bits=run_dtype_bits)
    return [
        stored + tables + absorbed_bytes(architecture, layers, tp=tp, run_dtype_bits=run_dtype_bits)
        for stored, layers in zip(total, stages, strict=True)
    ]


def table_bytes(architecture: Architecture, *, run_dtype_bits: int) -> int:
    """Bytes of the rotary tables, whole on every rank: rows x width x dtype.

    Source
        vLLM vllm/model_executor/layers/rotary_embedding/base.py `cos_sin_cache`.
    """
    return sum(
        allocated_bytes(table.rows * table.width * (32 if table.in_fp32 else run_dtype_bits) // 8)
        for table in architecture.rotary_tables
    )


def absorbed_bytes(architecture: Architecture, layers: range, *, tp: int, run_dtype_bits: int) -> int:
    """Bytes of the copy of the latent expansion that decoding multiplies with, in the run dtype.

    Formula
        layers x heads / tp x (qk_nope_head_dim + v_head_dim) x kv_lora_rank x dtype

    Source
        vLLM vllm/model_executor/layers/attention/mla_attention.py `process_weights_after_loading` (W_UK_T,
        W_UV: "we just store fp16/bf16 copies"); DeepSeek-V2-Lite on H100 loads that much more.
    """
    total = 0
    for layer in architecture.layers:
        for cache in layer.caches:
            if layer.index in layers and isinstance(cache, LatentAttention):
                rows = ceil_div(cache.num_heads, tp) * (cache.qk_nope_head_dim + cache.v_head_dim)
                total += allocated_bytes(rows * cache.kv_lora_rank * run_dtype_bits // 8)
    return total


@dataclass(slots=True)
class _RankTensor:
    """Tensors of one rank that are alike: one per layer, or one per layer of a tower."""

    group: TensorGroup
    """One of the stored groups it is made of: they stand at the same place."""
    num_bytes: int
    """Of all `count` tensors."""
    count: int


def _rank_tensors(
    checkpoint: Checkpoint,
    architecture: Architecture,
    *,
    tp: int,
    run_dtype_bits: int,
    weight_format: WeightFormat | None,
    expert_kernel: ExpertKernel | None,
) -> Iterator[_RankTensor]:
    found: dict[tuple[int | None, str], _RankTensor] = {}
    for group in checkpoint.groups:
        if not group.served:
            continue
        numerator, denominator = rank_share(group, architecture, tp=tp)
        whole = loaded_bytes(group, run_dtype_bits=run_dtype_bits, weight_format=weight_format)
        share = ceil_div(whole * numerator, denominator)
        if expert_kernel is not None and weight_format is None:
            share = ceil(share * padded_ratio(expert_kernel, group, architecture, tp=tp))
        # All experts of a layer are one tensor.
        count = 1 if group.part is Part.ROUTED_EXPERT else group.count
        key = (group.layer, _engine_name(group))
        tensor = found.get(key)
        if tensor is None:
            found[key] = _RankTensor(group, share, count)
        else:
            tensor.num_bytes += share
    yield from found.values()


def _engine_name(group: TensorGroup) -> str:
    """The name pattern of the tensor that the engine keeps: stacked matrices share one."""
    if not group.module:
        return group.pattern
    owner, found, word = group.pattern.rpartition(group.module)
    parent, _, last = group.module.rpartition(".")
    fused = FUSED.get(last)
    return f"{owner}{parent}.{fused}{word}" if found and fused else group.pattern


def step_groups(checkpoint: Checkpoint) -> Iterator[TensorGroup]:
    """The groups that one decode step reads: everything served but buffers, the towers of other inputs, and
    an encoder, which runs once per request."""
    for group in checkpoint.groups:
        is_encoder = group.layer is None and "encoder" in group.pattern.split(".")
        if group.served and not is_encoder and group.part not in (Part.VISION, Part.AUDIO, Part.BUFFER):
            yield group


def main_format(checkpoint: Checkpoint) -> str:
    """The storage format of most of the block weights, or of the whole where there are no blocks."""
    stored: dict[str, int] = {}
    for group in checkpoint.groups:
        if group.served and is_block_matrix(group):
            stored[group.format] = stored.get(group.format, 0) + group.stored_bytes
    if not stored:
        return next(iter(checkpoint.formats), "unknown")
    return max(stored, key=lambda name: stored[name])
