"""The lines that an engine version is expected to print at start, in its own form (`catalog/engines`,
log_lines)."""

from willitserve.architecture import LatentAttention
from willitserve.assess import Assessment
from willitserve.units import GIB

SWAP_SPACE_BYTES = 4 * GIB
"""What V0 set aside in host memory by default (vLLM 0.7 vllm/config.py `swap_space`)."""


def predicted_lines(plan: Assessment) -> list[str]:
    """Start-up lines of one rank; a figure that is not known leaves its line out, and so do graphs in eager
    mode."""
    rank, pool, layout = plan.rank, plan.pool, plan.rank.layout
    values: dict[str, int | float | str] = {
        "weights_gib": rank.weights / GIB,
        "weights_gib_short": round(rank.weights / GIB, 2),
        "non_torch_gib": rank.non_torch / GIB,
        "seconds": "…",
        "max_model_len": plan.context,
    }
    if not plan.request.eager:
        values["cuda_graph_gib"] = rank.cuda_graphs / GIB
    if rank.activation is not None:
        values["activation_gib"] = rank.activation / GIB
    if plan.pool_bytes is not None:
        values["kv_gib"] = plan.pool_bytes / GIB
        values["kv_gib_short"] = round(plan.pool_bytes / GIB, 2)
    if pool is not None and pool.num_blocks is not None and layout is not None:
        values["num_gpu_blocks"] = pool.num_blocks
        values["num_cpu_blocks"] = SWAP_SPACE_BYTES // layout.block_bytes
    if pool is not None and pool.tokens is not None:
        values["tokens"] = pool.tokens
    if pool is not None and pool.concurrency is not None:
        values["max_concurrency"] = pool.concurrency
    if pool is not None and pool.tokens is not None and layout is not None and plan.pool_bytes is not None:
        # SGLang prints keys and values apart, and GiB as GB.
        if isinstance(layout.groups[0].kind, LatentAttention):
            values["latent_size_gib"] = plan.pool_bytes / GIB
        else:
            values["k_size_gib"] = values["v_size_gib"] = plan.pool_bytes / GIB / 2
    lines: list[str] = []
    for form in plan.engine.log_lines.values():
        try:
            lines.append(form.format_map(values))
        except KeyError:
            continue
    return lines
