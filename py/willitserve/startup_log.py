"""The lines that an engine version is expected to print at start, in its own form (`catalog/engines`,
log_lines)."""

from willitserve.assess import Assessment
from willitserve.units import GIB


def predicted_lines(plan: Assessment) -> list[str]:
    """Start-up lines of one rank; a figure that is not known leaves its line out."""
    pool = plan.pool
    values: dict[str, str] = {"weights_gib": f"{plan.rank.weights / GIB:.2f}", "seconds": "…"}
    if plan.pool_bytes is not None:
        values["kv_gib"] = f"{plan.pool_bytes / GIB:.2f}"
    if pool is not None:
        values["context"] = f"{plan.context:,}"
        if pool.num_blocks is not None:
            values["num_gpu_blocks"] = str(pool.num_blocks)
            values["num_cpu_blocks"] = "…"
        if pool.tokens is not None:
            values["tokens"] = f"{pool.tokens:,}"
        if pool.concurrency is not None:
            values["max_concurrency"] = f"{pool.concurrency:.2f}"
    lines: list[str] = []
    for form in plan.engine.log_lines.values():
        try:
            lines.append(form.format_map(values))
        except KeyError:
            continue
    return lines
