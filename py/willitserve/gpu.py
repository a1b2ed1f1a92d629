"""One accelerator part as the catalog knows it: figures in the unit of their source, converted to base units
here, once.

A part is what has one memory size, one memory rate and one bus: several parts may carry the same everyday
name. None means not known, never zero; a figure without a source is not in the catalog.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, Self

from pydantic import Field, model_validator

from willitserve.record import Record
from willitserve.units import GB, GIB, MIB

Platform = Literal["cuda", "rocm", "xpu", "hpu", "tpu", "neuron", "metal"]
LinkType = Literal["nvlink", "infinity_fabric", "xe_link", "ici", "neuronlink", "ethernet", "pcie", "unified"]

# Transfer rate of one lane, transfers per second, by PCI Express generation; 3.0 to 5.0 code 128 bits in 130.
_PCIE_TRANSFERS_PER_S = {"3.0": 8_000_000_000, "4.0": 16_000_000_000, "5.0": 32_000_000_000}
_PCIE = re.compile(r"PCIe (3\.0|4\.0|5\.0) x(4|8|16)")


class TotalMemory(NamedTuple):
    """The memory that an engine sees on one device, and how firmly that is known."""

    total_bytes: int
    basis: Literal["exact", "estimated", "assumed"]
    """exact: as CUDA or HIP reported it; estimated: from the driver's figure; assumed: from the marketed
    size."""
    because: str


class MigProfile(Record):
    """One way to cut an instance out of a card (Multi-Instance GPU)."""

    name: str
    """As `nvidia-smi mig -lgip` prints it: `1g.10gb`; `+me` adds the media engines."""
    memory_gb_nominal: int
    """The size in the name, which is no exact measure."""
    memory_mib: int | None = None
    """As the driver prints it for the instance."""
    memory_gib: float | None = None
    """As `nvidia-smi mig -lgip` prints it, GiB, where `memory_mib` was not seen."""
    compute_slices: int
    memory_slices: int
    memory_slices_of: int
    """Memory slices of the whole card: the instance has memory_slices / memory_slices_of of its memory and
    bandwidth."""
    max_instances: int
    """How many of this profile fit on one card."""
    num_multiprocessors: int | None = None

    @property
    def memory_bytes(self) -> int | None:
        """Memory of the instance as the driver prints it, bytes; None where nobody has published it."""
        if self.memory_mib is not None:
            return self.memory_mib * MIB
        return None if self.memory_gib is None else round(self.memory_gib * GIB)

    def bandwidth_bytes_per_s(self, card_bandwidth_bytes_per_s: int) -> int:
        """The instance's share of the card's memory bandwidth, bytes per second, by memory slices."""
        return card_bandwidth_bytes_per_s * self.memory_slices // self.memory_slices_of


class Mig(Record):
    """Multi-Instance GPU of a card that has it."""

    max_instances: int
    profiles: tuple[MigProfile, ...] | None
    """None: the card can be cut, but its profiles were not seen in a source."""


class Interconnect(Record):
    """How one device reaches its neighbours."""

    type: LinkType
    bidir_gb_per_s: float | None = None
    """Both directions together per GPU, GB/s, of the links other than PCIe; one way is half."""
    bridge: bool = False
    """Whether the link is a bridge between a few cards, sold apart: without it the cards meet on PCIe."""
    domain_size: int | None = None
    """GPUs that reach each other over that link; 1: none but itself."""
    pcie: str | None = None
    """Generation and width: `PCIe 5.0 x16`."""
    peer_to_peer: Literal["link", "pcie", "disabled", "none"]
    """How one GPU reads another's memory; disabled: the stock driver refuses, traffic goes through host
    memory."""
    note: str = ""

    @property
    def one_way_bytes_per_s(self) -> int | None:
        """Link bandwidth in one direction, bytes per second; None where it is not known or there is only
        PCIe."""
        return None if self.bidir_gb_per_s is None else round(self.bidir_gb_per_s * GB / 2)

    @property
    def pcie_one_way_bytes_per_s(self) -> int | None:
        """PCIe bandwidth in one direction, bytes per second, before protocol overhead: lanes x rate x 128/130
        / 8."""
        match = _PCIE.fullmatch(self.pcie or "")
        if match is None:
            return None
        return int(match[2]) * _PCIE_TRANSFERS_PER_S[match[1]] * 128 // 130 // 8


class GpuSpec(Record):
    """One part. Figures are of the whole part; the properties are of one device, as an engine sees it."""

    id: str
    """Lower case; memory size and, where it matters, bus are in it."""
    name: str
    aliases: tuple[str, ...] = ()
    """What drivers, engines and Kubernetes labels call this part and no other."""
    shared_names: tuple[str, ...] = ()
    """Everyday or driver names that other parts carry as well: asking by one of them is ambiguous."""
    vendor: Literal["NVIDIA", "AMD", "Intel", "Google", "AWS", "Apple"]
    platform: Platform
    architecture: str
    compute_capability: str | None
    """CUDA compute capability `9.0` or LLVM target `gfx942`, text because 8.10 is no number; None: not known
    or no such thing."""
    status: Literal["shipping", "announced"]
    devices: int = 1
    """Devices that the operating system shows for one part; each has its share of memory, bandwidth and
    compute."""

    marketed_memory_gb: int | None = None
    """Nominal size in the name, decimal GB."""
    marketed_memory_gib: int | None = None
    """Nominal size where the vendor prints GiB."""
    memory_options_gb: tuple[int, ...] | None = None
    """Sizes sold, where the memory is the machine's."""
    memory_mib: int | None
    """Total as nvidia-smi or rocm-smi prints it, MiB."""
    torch_total_gib: float | None
    """Total that CUDA or HIP reports to torch, GiB: the base of vLLM's budget. The lowest firm figure of
    current Linux drivers."""
    memory_notes: tuple[str, ...] = ()
    memory_type: str | None
    memory_bus_bits: int | None
    memory_bandwidth_gb_per_s: float | None
    """Peak of the datasheet, decimal GB/s."""

    num_multiprocessors: int | None
    """Streaming multiprocessors or compute units."""
    dense_tflops: dict[str, float]
    """Peak of matrix hardware without sparsity, 10^12 operations per second, with FP32 accumulate where that
    matters, by format."""
    dense_tflops_sources: dict[str, str]
    """Source code of each entry of `dense_tflops`."""
    native_dtypes: tuple[str, ...] | None
    """Formats that the matrix hardware multiplies; empty: it has none; None: not known."""

    interconnect: Interconnect
    form_factor: str
    typical_node_gpus: int | None
    """Devices in a usual machine."""
    tdp_w: int | None
    tdp_note: str = ""
    release_year: int | None
    mig: Mig | None
    """None: the card cannot be cut, or its vendor has no such thing."""

    confidence: Literal["high", "medium", "low"]
    disagreements: tuple[str, ...] = ()
    """Where sources differ; the figure taken stands in its field, none is averaged."""
    notes: tuple[str, ...] = ()
    sources: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Source codes by figure; `identity` covers names, architecture, form, memory type and nominal size."""

    @model_validator(mode="after")
    def _every_figure_has_a_source(self) -> Self:
        figures = dict(self._figures())
        missing = [figure for figure, known in figures.items() if known and not self.sources.get(figure)]
        if missing:
            raise ValueError(f"{self.id}: no source for {', '.join(missing)}")
        idle = [figure for figure in self.sources if not figures.get(figure)]
        if idle:
            raise ValueError(f"{self.id}: a source for {', '.join(idle)}, which has no value")
        if self.dense_tflops.keys() != self.dense_tflops_sources.keys():
            odd = self.dense_tflops.keys() ^ self.dense_tflops_sources.keys()
            raise ValueError(f"{self.id}: dense_tflops and their sources differ in {', '.join(sorted(odd))}")
        return self

    def _figures(self) -> Iterator[tuple[str, bool]]:
        """The figures that need a source, and whether this part has them."""
        yield "identity", True
        yield "compute_capability", self.compute_capability is not None
        yield "memory_options_gb", self.memory_options_gb is not None
        yield "memory_mib", self.memory_mib is not None
        yield "torch_total_gib", self.torch_total_gib is not None
        yield "memory_bus_bits", self.memory_bus_bits is not None
        yield "memory_bandwidth_gb_per_s", self.memory_bandwidth_gb_per_s is not None
        yield "num_multiprocessors", self.num_multiprocessors is not None
        yield "link", self.interconnect.bidir_gb_per_s is not None
        yield "pcie", self.interconnect.pcie is not None
        yield "tdp_w", self.tdp_w is not None
        yield "release_year", self.release_year is not None
        yield "mig", self.mig is not None

    def source_codes(self) -> Iterator[str]:
        """Every source code that this entry names."""
        for codes in self.sources.values():
            yield from codes
        yield from self.dense_tflops_sources.values()

    @property
    def memory_bytes(self) -> int | None:
        """Total of one device as the driver prints it, bytes; None: not known."""
        return None if self.memory_mib is None else self.memory_mib * MIB // self.devices

    @property
    def torch_total_bytes(self) -> int | None:
        """Total of one device as CUDA or HIP reports it, bytes (the source has two or three digits); None:
        not known."""
        return None if self.torch_total_gib is None else round(self.torch_total_gib * GIB) // self.devices

    @property
    def marketed_memory_bytes(self) -> int | None:
        """Nominal size of one device, bytes."""
        if self.marketed_memory_gib is not None:
            return self.marketed_memory_gib * GIB // self.devices
        return None if self.marketed_memory_gb is None else self.marketed_memory_gb * GB // self.devices

    @property
    def bandwidth_bytes_per_s(self) -> int | None:
        """Peak memory bandwidth of one device, bytes per second; None: not known."""
        if self.memory_bandwidth_gb_per_s is None:
            return None
        return round(self.memory_bandwidth_gb_per_s * GB) // self.devices

    def dense_flops_per_s(self, dtype: str) -> int | None:
        """Peak operations per second of one device in `dtype` (bf16, fp8, …) without sparsity; None: not
        known or not native."""
        tflops = self.dense_tflops.get(dtype)
        return None if tflops is None else round(tflops * 10**12) // self.devices

    @property
    def total_memory(self) -> TotalMemory | None:
        """What an engine takes as the memory of one device; None: the size is the machine's, or not known.

        Source
            Differences between the driver's total and torch's: public logs of both for the same card (source
            code `torchoom`).
        """
        torch_bytes, driver_bytes = self.torch_total_bytes, self.memory_bytes
        if torch_bytes is not None:
            return TotalMemory(torch_bytes, "exact", "the total that torch reports on this card")
        if driver_bytes is not None:
            reserve_mib = _driver_reserve_mib(self.platform, driver_bytes)
            kept = f" and keeps about {reserve_mib} MiB of them" if reserve_mib else ""
            because = f"the driver prints {driver_bytes // MIB} MiB{kept}"
            return TotalMemory(driver_bytes - reserve_mib * MIB, "estimated", because)
        if self.marketed_memory_bytes is not None:
            because = "the nominal size: no driver's figure for this card was seen"
            return TotalMemory(self.marketed_memory_bytes, "assumed", because)
        return None

    @property
    def deciding_figures(self) -> tuple[object, ...]:
        """What makes two parts answer differently: memory, rates, bus, formats."""
        return (
            self.platform,
            self.compute_capability,
            self.devices,
            self.memory_mib,
            self.torch_total_gib,
            self.marketed_memory_bytes,
            self.memory_options_gb,
            self.memory_bus_bits,
            self.memory_bandwidth_gb_per_s,
            self.interconnect.type,
            self.interconnect.bidir_gb_per_s,
            self.interconnect.bridge,
            self.interconnect.domain_size,
            self.interconnect.pcie,
            tuple(sorted(self.dense_tflops.items())),
        )


def _driver_reserve_mib(platform: Platform, driver_bytes: int) -> int:
    """How much more nvidia-smi prints than CUDA reports on Linux, MiB, by size of the card.

    Seen: 357 to 494 up to 32 GB, 479 to 638 from 40 to 141 GB (A100 80 GB: 768), 729 to 925 above. ROCm
    reports what it prints.
    """
    if platform != "cuda":
        return 0
    if driver_bytes <= 33 * GIB:
        return 450
    return 600 if driver_bytes <= 141 * GIB else 925
