"""Rules by which an engine refuses to start as asked, each with its reason; `scaling` has those of ranks."""

from collections.abc import Iterator

from willitserve import precision, scaling
from willitserve.architecture import Architecture
from willitserve.catalog import Catalog
from willitserve.checkpoint import Checkpoint
from willitserve.engine import EngineSpec
from willitserve.gpu import GpuSpec, TotalMemory
from willitserve.memory import Card, RankMemory
from willitserve.report import RejectedTp
from willitserve.request import PlanRequest
from willitserve.units import GIB
from willitserve.weights import main_format


def of_model(
    architecture: Architecture,
    quantization: scaling.ShardedQuantization | None,
    request: PlanRequest,
    *,
    context: int,
    dtype_refusal: str | None,
) -> tuple[RejectedTp, ...]:
    """Rules about the model's shape, its dtype and its context."""
    found: list[RejectedTp] = []
    rejected = scaling.check_tp(architecture, request.tp, quantization=quantization)
    if rejected is not None:
        found.append(rejected)
    if dtype_refusal is not None:
        found.append(RejectedTp(tp=request.tp, rule="bf16 on old cards", reason=dtype_refusal))
    longest = architecture.max_model_len
    if longest is not None and context > longest:
        reason = (
            f"{context:,} tokens is more than the model's {longest:,} ({architecture.max_model_len_because}),"
            " so the engine refuses that max_model_len."
        )
        found.append(RejectedTp(tp=request.tp, rule="context", reason=reason))
    if request.pp > len(architecture.layers):
        reason = f"{request.pp} pipeline stages are more than the {len(architecture.layers)} layers."
        found.append(RejectedTp(tp=request.tp, rule="pipeline", reason=reason))
    return tuple(found)


def of_formats(
    catalog: Catalog, checkpoint: Checkpoint, request: PlanRequest, gpu: GpuSpec
) -> Iterator[RejectedTp]:
    """Formats of weights and cache that the engine refuses on this card."""
    capability = gpu.compute_capability
    name = request.weights if request.weights != "checkpoint" else main_format(checkpoint)
    table_name = precision.STORED_FORMATS.get(name, "")
    if table_name not in ("", "bf16", "fp16"):
        reason = precision.refusal_of(
            catalog.formats, table_name, name.upper(), card=gpu.name, capability=capability
        )
        if reason is not None:
            yield RejectedTp(tp=request.tp, rule="format", reason=reason)
    kv_name = precision.KV_TABLE_NAMES.get(request.kv, "")
    reason = precision.refusal_of(
        catalog.formats, kv_name, "An FP8 KV cache", card=gpu.name, capability=capability
    )
    if reason is not None:
        yield RejectedTp(tp=request.tp, rule="kv dtype", reason=reason)


def of_memory(
    request: PlanRequest,
    engine: EngineSpec,
    card: Card,
    *,
    total: TotalMemory | None,
    requested: int | None,
    rank: RankMemory,
    most_bytes: int | None,
    max_num_seqs: int,
) -> Iterator[RejectedTp]:
    """Rules about memory by which the engine gives up before it serves, where the band leaves no doubt.

    `most_bytes`: the upper edge of the pool's band.
    Source: vLLM vllm/v1/worker/utils.py `request_memory`; vllm/config/compilation.py
    `resolve_cudagraph_mode_and_sizes` ("exceeds available Mamba cache blocks").
    """
    # Weights that exceed the card are the first thing to say.
    fits = total is not None and rank.weights + rank.non_torch <= total.total_bytes
    if total is not None and requested is not None and fits and engine.refuses_less_free_memory:
        in_use = engine.overhead.context_bytes(
            large=card.has_large_workspaces, multicast=card.has_multicast and request.tp * request.pp > 1
        )
        if requested > total.total_bytes - in_use:
            reason = (
                f"Free memory at start is at most {(total.total_bytes - in_use) / GIB:.2f} of"
                f" {total.total_bytes / GIB:.2f} GiB, less than the asked {requested / GIB:.2f} GiB: lower"
                " gpu_memory_utilization."
            )
            yield RejectedTp(tp=request.tp, rule="free memory", reason=reason)
    layout = rank.layout
    if (
        most_bytes is None
        or most_bytes <= 0
        or layout is None
        or not layout.holds_states
        or not engine.refuses_more_sequences_than_state_blocks
        or request.eager
    ):
        return
    blocks = layout.num_blocks(most_bytes)
    if max_num_seqs > blocks > 0:
        reason = (
            f"max_num_seqs is {max_num_seqs:,}, but the pool has at most {blocks:,} blocks for the recurrent"
            " state that each sequence needs: lower max_num_seqs."
        )
        yield RejectedTp(tp=request.tp, rule="mamba blocks", reason=reason)
