"""Number 1, memory: weights, KV cache and overhead against what the engine may use of one card.

Every amount is bytes of one GPU. Weights and KV cache are arithmetic on what was read; the overheads are laws
fitted on measured starts (`catalog/engines`), each with the half width of its band.
"""

import math
from dataclasses import dataclass

from willitserve.architecture import Architecture
from willitserve.checkpoint import Checkpoint, Part
from willitserve.engine import CacheRules, Overhead
from willitserve.expert_padding import ExpertKernel
from willitserve.gpu import GpuSpec
from willitserve.kv_blocks import NEWEST, BlockLayout, lay_out
from willitserve.kv_cache import kv_bytes_per_token, kv_fixed_bytes_per_sequence, layers_of_stages
from willitserve.units import GIB, ceil_div
from willitserve.weights import WeightFormat, stage_weight_bytes


def requested_bytes(total_bytes: int, gpu_memory_utilization: float) -> int:
    """The engine's budget on one card.

    Source
        vLLM `request_memory` (vllm/v1/worker/utils.py): ceil(total x gpu_memory_utilization).
    """
    return math.ceil(total_bytes * gpu_memory_utilization)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What the overheads need to know of one device."""

    num_multiprocessors: int | None
    has_large_workspaces: bool
    """Hopper and newer: cuBLAS takes more workspace there."""
    has_multicast: bool
    """Hopper and newer behind NVSwitch: NCCL keeps buffers for reductions in the switch (NVLS)."""


def card_of(gpu: GpuSpec) -> Card:
    """What the overheads need to know of a part."""
    major = (gpu.compute_capability or "").split(".")[0]
    is_large = major.isdigit() and int(major) >= 9
    link = gpu.interconnect
    return Card(
        num_multiprocessors=gpu.num_multiprocessors,
        has_large_workspaces=is_large,
        has_multicast=is_large and link.type == "nvlink" and not link.bridge,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The batch that the engine profiles itself with, on one rank."""

    max_num_seqs: int
    batched_tokens: int
    tp: int
    dtype_bits: int


def sampler_bytes(overhead: Overhead, card: Card, batch: Batch, *, vocab_size: int) -> int:
    """Peak of the sampler's dummy run.

    Formula
        max_num_seqs x vocabulary x (run dtype + FP32 copies) + one FP32 row of the vocabulary for every
        multiprocessor where the sampler is the Triton one. Logits are gathered: tensor parallelism does not
        divide them.

    Source
        vLLM vllm/v1/sample/sampler.py and ops/topk_topp_sampler.py: logits as computed, in FP32 (4 B), their
        probabilities (4 B), random numbers (4 B); where it sorts, sorted values (4), indices in and out (16)
        and the sort's second buffer (12) instead of the last two.
        ops/topk_topp_triton.py: a buffer of a row per program.
    """
    per_logit = batch.dtype_bits / 8 + overhead.sampler_bytes_per_logit
    rows = min(card.num_multiprocessors or 132, batch.max_num_seqs) if overhead.sampler_row_buffers else 0
    return round(batch.max_num_seqs * vocab_size * per_logit) + rows * vocab_size * 4


def forward_bytes(overhead: Overhead, batch: Batch, *, hidden_size: int, mlp_width: int) -> int:
    """Peak of one forward pass: hidden rows, and gate, up and their product of the widest MLP.

    Formula
        tokens x (rows x hidden + 3 x intermediate / tp) x dtype.
    """
    per_token = overhead.forward_hidden_rows * hidden_size + overhead.mlp_rows * mlp_width / batch.tp
    return round(batch.batched_tokens * per_token * batch.dtype_bits / 8)


def expert_workspace_bytes(batch: Batch, *, experts_per_token: int, hidden_size: int, width: int) -> int:
    """Workspace of the fused MoE kernel.

    Formula
        tokens x experts per token x (max(2 x width / tp, hidden) + max(width / tp, hidden)) x dtype

    Source
        vLLM vllm/model_executor/layers/fused_moe/experts/triton_moe.py `workspace_shapes` (fused_moe.py
        before 0.20).
    """
    rank_width = ceil_div(width, batch.tp)
    columns = max(2 * rank_width, hidden_size) + max(rank_width, hidden_size)
    return batch.batched_tokens * experts_per_token * columns * batch.dtype_bits // 8


def activation_bytes(
    overhead: Overhead,
    architecture: Architecture,
    card: Card,
    batch: Batch,
    *,
    samples: bool,
    sees_images: bool = False,
) -> int | None:
    """Peak of activations while the engine profiles itself; None without a vocabulary or hidden size.

    Formula
        max(sampler + hidden states of the batch and of the sampled rows, forward pass)
        + library workspace + MoE workspace (kept through the sampler where the version keeps it)
        + for models that see or hear, the encoder's output of one batch

    Not covered
        The encoder's own peak, and chunked MLA prefill.
    """
    if overhead.activation_in_reserve:
        return 0
    if architecture.vocab_size is None:
        return None
    hidden_row = architecture.hidden_size * batch.dtype_bits // 8
    forward = forward_bytes(
        overhead,
        batch,
        hidden_size=architecture.hidden_size,
        mlp_width=max((layer.ffn_width for layer in architecture.layers), default=0),
    )
    sampler = 0
    if samples:
        sampler = sampler_bytes(overhead, card, batch, vocab_size=architecture.vocab_size)
        sampler += (batch.batched_tokens + batch.max_num_seqs) * hidden_row
    else:
        # A stage that is not the last hands on hidden states and residual.
        forward += 2 * batch.batched_tokens * hidden_row
    if architecture.moe is not None:
        workspace = expert_workspace_bytes(
            batch,
            experts_per_token=architecture.moe.experts_per_token,
            hidden_size=architecture.hidden_size,
            width=architecture.moe.expert_width,
        )
        forward += workspace
        if overhead.expert_workspace_stays:
            sampler += workspace
    encoder = batch.batched_tokens * hidden_row if sees_images else 0
    return max(sampler, forward) + overhead.library_workspace_bytes(large=card.has_large_workspaces) + encoder


def non_torch_bytes(overhead: Overhead, card: Card, *, tp: int, pp: int) -> int:
    """Memory outside PyTorch's allocator: kernels and libraries, and buffers of a group of ranks.

    Formula
        one rank: a constant; a group that divides layers: a constant by link and a little for every rank; a
        pipeline: the libraries' share was taken before the engine's first snapshot.
    """
    if tp == 1:
        return round((overhead.non_torch_gib if pp == 1 else overhead.non_torch_pipeline_gib) * GIB)
    group = overhead.non_torch_multicast_gib if card.has_multicast else overhead.non_torch_group_gib
    return round((overhead.non_torch_gib + group + overhead.non_torch_rank_gib * tp) * GIB)


def num_capture_sizes(overhead: Overhead, *, max_num_seqs: int) -> int:
    """Batch sizes for which the engine captures a graph.

    Formula
        1, 2, 4, then every 8th up to 256 and every 16th up to twice max_num_seqs, at most 512 (256 in V0)

    Source
        vLLM vllm/config/vllm.py `_set_cudagraph_sizes`.
    """
    largest = min(overhead.largest_capture, max_num_seqs * 2)
    return sum(
        1
        for size in (1, 2, 4, *range(8, 256, 8), *range(256, overhead.largest_capture + 1, 16))
        if size <= largest
    )


def cuda_graph_bytes(
    overhead: Overhead,
    card: Card,
    architecture: Architecture,
    layers: range,
    *,
    max_num_seqs: int,
    eager: bool,
) -> int:
    """What graph capture takes; nothing in eager mode.

    Formula
        (constant + layers x a little, more in MoE layers) x captured sizes over those of a full set
    """
    if eager:
        return 0
    num_moe = sum(1 for layer in architecture.layers if layer.index in layers and layer.ffn == "moe")
    full = num_capture_sizes(overhead, max_num_seqs=overhead.largest_capture)
    share = num_capture_sizes(overhead, max_num_seqs=max_num_seqs) / full
    constant = overhead.cuda_graph_gib_large if card.has_large_workspaces else overhead.cuda_graph_gib
    gib = constant + overhead.cuda_graph_gib_per_layer * len(layers)
    return round((gib + overhead.cuda_graph_gib_per_moe_layer * num_moe) * share * GIB)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMemory:
    """Terms of one rank of one pipeline stage, bytes."""

    stage: int
    layers: range
    weights: int
    activation: int | None
    non_torch: int
    cuda_graphs: int
    kv_per_token: int
    kv_fixed_per_sequence: int
    layout: BlockLayout | None

    @property
    def beside_kv(self) -> int | None:
        """Weights, activation peak and non-torch memory together."""
        if self.activation is None:
            return None
        return self.weights + self.activation + self.non_torch


def rank_memory(
    checkpoint: Checkpoint,
    architecture: Architecture,
    overhead: Overhead,
    card: Card,
    *,
    tp: int,
    pp: int,
    run_dtype_bits: int,
    kv_dtype_bits: int,
    weight_format: WeightFormat | None,
    max_num_seqs: int,
    batched_tokens: int,
    block_size: int,
    in_flight_batches: int,
    eager: bool,
    expert_kernel: ExpertKernel | None = None,
    cache_rules: CacheRules = NEWEST,
) -> list[RankMemory]:
    """The terms of one rank on every pipeline stage, in order."""
    batch = Batch(max_num_seqs=max_num_seqs, batched_tokens=batched_tokens, tp=tp, dtype_bits=run_dtype_bits)
    sees_images = any(group.served and group.part in (Part.VISION, Part.AUDIO) for group in checkpoint.groups)
    stages = layers_of_stages(len(architecture.layers), pp)
    weights = stage_weight_bytes(
        checkpoint,
        architecture,
        stages,
        tp=tp,
        run_dtype_bits=run_dtype_bits,
        weight_format=weight_format,
        expert_kernel=expert_kernel,
    )
    return [
        RankMemory(
            stage=stage,
            layers=layers,
            weights=weights[stage],
            activation=activation_bytes(
                overhead, architecture, card, batch, samples=stage == pp - 1, sees_images=sees_images
            ),
            non_torch=non_torch_bytes(overhead, card, tp=tp, pp=pp),
            cuda_graphs=cuda_graph_bytes(
                overhead, card, architecture, layers, max_num_seqs=max_num_seqs, eager=eager
            ),
            kv_per_token=kv_bytes_per_token(architecture, kv_dtype_bits=kv_dtype_bits, tp=tp, layers=layers),
            kv_fixed_per_sequence=kv_fixed_bytes_per_sequence(
                architecture, kv_dtype_bits=kv_dtype_bits, tp=tp, layers=layers
            ),
            layout=lay_out(
                architecture,
                layers,
                kv_dtype_bits=kv_dtype_bits,
                tp=tp,
                block_size=block_size,
                in_flight_tokens=batched_tokens * in_flight_batches,
                rules=cache_rules,
            ),
        )
        for stage, layers in enumerate(stages)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """What a KV pool holds."""

    pool_bytes: int
    num_blocks: int | None
    tokens: int | None
    concurrency: float | None
    """Requests of `context` tokens at once."""
    needed_bytes: int
    """Of one request of `context` tokens."""
    longest_request: int | None

    @property
    def max_users(self) -> int | None:
        """Whole requests at once."""
        return None if self.concurrency is None else int(self.concurrency)


def fill_pool(rank: RankMemory, pool_bytes: int, *, context: int, printed_tokens: str) -> Pool:
    """What `pool_bytes` hold of requests of `context` tokens, in the engine's own counting.

    printed_tokens: `blocks` (blocks // groups x block size) or `concurrency` (concurrency x context).
    """
    layout = rank.layout
    if layout is None:
        needed = rank.kv_per_token * context + rank.kv_fixed_per_sequence
        concurrency = pool_bytes / needed if needed and pool_bytes > 0 else None
        longest = None
        if rank.kv_per_token:
            longest = max(0, (pool_bytes - rank.kv_fixed_per_sequence) // rank.kv_per_token)
        return Pool(
            pool_bytes=pool_bytes,
            num_blocks=None,
            tokens=None,
            concurrency=concurrency,
            needed_bytes=needed,
            longest_request=longest,
        )
    blocks = layout.num_blocks(pool_bytes)
    per_request = layout.blocks_for(context)
    concurrency = blocks / per_request
    tokens = (
        int(concurrency * context)
        if printed_tokens == "concurrency"
        else blocks // layout.num_groups * layout.block_size
    )
    return Pool(
        pool_bytes=pool_bytes,
        num_blocks=blocks,
        tokens=tokens,
        concurrency=concurrency,
        needed_bytes=per_request * layout.block_bytes,
        longest_request=layout.longest_request(pool_bytes, at_most=context),
    )
