"""Figures of what was read: the model's size and the card's rates, apart from any plan."""

from willitserve.gpu import GpuSpec
from willitserve.report import Figure, ModelFacts
from willitserve.units import GB, GIB

BILLION = 10**9


def model_figures(facts: ModelFacts) -> dict[str, Figure]:
    """Parameters and bytes of a model, as far as they are known."""
    figures: dict[str, Figure] = {}
    if facts.weight_bytes is not None:
        figures["model.weight_bytes"] = Figure(
            label="Weights as stored",
            value=facts.weight_bytes / GIB,
            unit="GiB",
            digits=1,
            basis="exact",
            arithmetic=f"{facts.weight_bytes:,} B = {facts.weight_bytes / GB:,.1f} GB",
            because="sizes of the weight files"
            if facts.source == "hub-totals"
            else "the sum of all data_offsets",
        )
    if facts.num_params is not None:
        figures["model.num_params"] = Figure(
            label="Parameters",
            value=facts.num_params / BILLION,
            unit="billion",
            digits=2,
            basis="derived",
            arithmetic=f"{facts.num_params:,}",
            because="packed values unpacked; scales, buffers, tied copies and draft blocks not counted",
        )
    if facts.num_active_params is not None and facts.num_active_params != facts.num_params:
        figures["model.num_active_params"] = Figure(
            label="Parameters that one token uses",
            value=facts.num_active_params / BILLION,
            unit="billion",
            digits=2,
            basis="derived",
            arithmetic=f"{facts.num_active_params:,}",
            because="all but the routed experts that are not chosen",
        )
    return figures


def gpu_figures(gpu: GpuSpec) -> dict[str, Figure]:
    """Memory bandwidth of a card, known or not."""
    rate = gpu.bandwidth_bytes_per_s
    if rate is None:
        unknown = Figure(
            label="Memory bandwidth",
            value=None,
            unit="GB/s",
            basis="unknown",
            because="no source in the catalog gives it",
        )
        return {"gpu.bandwidth_bytes_per_s": unknown}
    return {
        "gpu.bandwidth_bytes_per_s": Figure(
            label="Memory bandwidth",
            value=rate / GB,
            unit="GB/s",
            digits=0,
            basis="exact",
            arithmetic=f"{rate:,} B/s, the datasheet's peak",
            because="decimal GB, as datasheets print it",
            source=", ".join(gpu.sources.get("memory_bandwidth_gb_per_s", ())),
            check="nvbandwidth or a device-to-device copy reaches 0.85 to 0.93 of it",
        )
    }
