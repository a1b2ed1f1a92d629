"""Number 1, memory: weights, KV cache and overhead against what the engine may use of one card.

Every amount is bytes of one GPU. Weights and KV cache are arithmetic on what was read; the overheads are laws
fitted on measured starts (`catalog/engines`), each with the half width of its band.
"""

import math
from dataclasses import dataclass

from willitserve.architecture import Architecture
from willitserve.checkpoint import Checkpoint
from willitserve.engine import Overhead
from willitserve.expert_padding import ExpertKernel
from willitserve.kv_blocks import BlockLayout, lay_out
from willitserve.kv_cache import kv_bytes_per_token, kv_fixed_bytes_per_sequence, layers_of_stages
from willitserve.units import GIB
from willitserve.weights import WeightFormat, stage_weight_bytes


def requested_bytes(total_bytes: int, gpu_memory_utilization: float) -> int:
    """The engine's budget on one card.

    Source
        vLLM `request_memory` (vllm/v1/worker/utils.py): ceil(total x gpu_memory_utilization).
    """
    return math.ceil(total_bytes * gpu_memory_utilization)


def sampler_bytes(overhead: Overhead, *, max_num_seqs: int, vocab_size: int) -> int:
    """Peak of the sampler's dummy run: FP32 logits of max_num_seqs requests and the copies that sorting
    needs.

    Formula
        copies x max_num_seqs x vocabulary x 4 B. Logits are gathered, so tensor parallelism does not divide
        them.
    """
    return round(overhead.sampler_logits_copies * max_num_seqs * vocab_size * 4)


def forward_bytes(
    overhead: Overhead, *, batched_tokens: int, hidden_size: int, mlp_width: int, tp: int, dtype_bits: int
) -> int:
    """Peak of one forward pass: hidden rows, and gate, up and their product of the widest MLP.

    Formula
        tokens x (rows x hidden + 3 x intermediate / tp) x dtype.
    """
    per_token = overhead.forward_hidden_rows * hidden_size + overhead.mlp_rows * mlp_width / tp
    return round(batched_tokens * per_token * dtype_bits / 8)


def expert_workspace_bytes(
    *, batched_tokens: int, experts_per_token: int, expert_width: int, tp: int, dtype_bits: int
) -> int:
    """Workspace of the fused MoE kernel, kept after the profile run.

    Formula
        tokens x experts per token x (2 + 1) x expert width / tp x dtype.

    Source
        vLLM fused_moe: one buffer for gate and up, one for their product.
    """
    return batched_tokens * experts_per_token * 3 * expert_width // tp * dtype_bits // 8


def activation_bytes(
    overhead: Overhead,
    architecture: Architecture,
    *,
    max_num_seqs: int,
    batched_tokens: int,
    tp: int,
    dtype_bits: int,
    samples: bool,
) -> int | None:
    """Peak of activations while the engine profiles itself; None without a vocabulary or hidden size.

    Formula
        max(sampler, forward pass) + the hidden states of the batch + MoE workspace.

    Not covered
        Encoders of images and sound, chunked MLA prefill.
    """
    if architecture.vocab_size is None:
        return None
    mlp_width = max((layer.ffn_width for layer in architecture.layers), default=0)
    forward = forward_bytes(
        overhead,
        batched_tokens=batched_tokens,
        hidden_size=architecture.hidden_size,
        mlp_width=mlp_width,
        tp=tp,
        dtype_bits=dtype_bits,
    )
    hidden = batched_tokens * architecture.hidden_size * dtype_bits // 8
    sampler = sampler_bytes(overhead, max_num_seqs=max_num_seqs, vocab_size=architecture.vocab_size) + hidden
    workspace = 0
    if architecture.moe is not None:
        workspace = expert_workspace_bytes(
            batched_tokens=batched_tokens,
            experts_per_token=architecture.moe.experts_per_token,
            expert_width=architecture.moe.expert_width,
            tp=tp,
            dtype_bits=dtype_bits,
        )
    return max(sampler if samples else 0, forward) + workspace


def non_torch_bytes(overhead: Overhead, *, tp: int, pp: int) -> int:
    """Memory outside PyTorch's allocator: kernels and libraries, and buffers of a group of ranks."""
    return overhead.non_torch_bytes + (overhead.non_torch_group_bytes if tp * pp > 1 else 0)


def cuda_graph_bytes(overhead: Overhead, *, num_layers: int, eager: bool) -> int:
    """What graph capture takes: a constant and a little for every layer; nothing in eager mode."""
    if eager:
        return 0
    return round((overhead.cuda_graph_gib + overhead.cuda_graph_gib_per_layer * num_layers) * GIB)


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
) -> list[RankMemory]:
    """The terms of one rank on every pipeline stage, in order."""
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
                overhead,
                architecture,
                max_num_seqs=max_num_seqs,
                batched_tokens=batched_tokens,
                tp=tp,
                dtype_bits=run_dtype_bits,
                samples=stage == pp - 1,
            ),
            non_torch=non_torch_bytes(overhead, tp=tp, pp=pp),
            cuda_graphs=cuda_graph_bytes(overhead, num_layers=len(layers), eager=eager),
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
