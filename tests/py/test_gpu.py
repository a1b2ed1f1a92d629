"""Units are converted once, and every figure has its source."""

from collections.abc import Mapping

import pytest
from pydantic import ValidationError

from willitserve.gpu import GpuSpec, Interconnect, MigProfile

BARE: Mapping[str, object] = {
    "id": "x1-80gb",
    "name": "X1",
    "vendor": "NVIDIA",
    "platform": "cuda",
    "architecture": "Hopper",
    "compute_capability": None,
    "status": "shipping",
    "memory_mib": None,
    "torch_total_gib": None,
    "memory_type": "HBM3",
    "memory_bus_bits": None,
    "memory_bandwidth_gb_per_s": None,
    "num_multiprocessors": None,
    "dense_tflops": {},
    "dense_tflops_sources": {},
    "native_dtypes": None,
    "interconnect": {"type": "pcie", "peer_to_peer": "pcie"},
    "form_factor": "PCIe",
    "typical_node_gpus": None,
    "tdp_w": None,
    "release_year": None,
    "mig": None,
    "confidence": "low",
    "sources": {"identity": ["a"]},
}


def gpu(**figures: object) -> GpuSpec:
    """A part with these figures, each sourced where it needs to be."""
    needs_source = ("memory_mib", "torch_total_gib", "memory_bandwidth_gb_per_s", "compute_capability")
    sources = {"identity": ["a"], **{name: ["a"] for name in needs_source if figures.get(name) is not None}}
    return GpuSpec.model_validate({**BARE, "sources": sources, **figures})


def test_memory_is_binary_and_bandwidth_decimal() -> None:
    card = gpu(memory_mib=81559, torch_total_gib=79.18, memory_bandwidth_gb_per_s=3350, marketed_memory_gb=80)
    assert card.memory_bytes == 85_520_809_984
    assert card.torch_total_bytes == 85_018_877_624
    assert card.bandwidth_bytes_per_s == 3_350_000_000_000
    assert card.marketed_memory_bytes == 80_000_000_000


def test_unknown_stays_unknown() -> None:
    card = gpu()
    assert card.memory_bytes is None
    assert card.torch_total_bytes is None
    assert card.bandwidth_bytes_per_s is None
    assert card.marketed_memory_bytes is None
    assert card.total_memory is None
    assert card.dense_flops_per_s("bf16") is None


def test_a_part_of_two_devices_gives_each_its_half() -> None:
    card = gpu(
        devices=2,
        marketed_memory_gib=128,
        memory_bandwidth_gb_per_s=3277,
        dense_tflops={"bf16": 383},
        dense_tflops_sources={"bf16": "a"},
    )
    assert card.marketed_memory_bytes == 68_719_476_736
    assert card.bandwidth_bytes_per_s == 1_638_500_000_000
    assert card.dense_flops_per_s("bf16") == 191_500_000_000_000


@pytest.mark.parametrize(
    ("figures", "total_bytes", "basis"),
    [
        pytest.param(
            {"torch_total_gib": 22.05, "memory_mib": 23034}, 23_676_007_219, "exact", id="torch wins"
        ),
        pytest.param({"memory_mib": 24564}, 25_285_361_664, "estimated", id="small card keeps 450 MiB"),
        pytest.param({"memory_mib": 49140}, 50_897_879_040, "estimated", id="large card keeps 600 MiB"),
        pytest.param({"memory_mib": 189471}, 197_704_810_496, "estimated", id="largest cards keep 925 MiB"),
        pytest.param(
            {"memory_mib": 196592, "platform": "rocm"}, 206_141_652_992, "estimated", id="ROCm keeps none"
        ),
        pytest.param({"marketed_memory_gb": 48}, 48_000_000_000, "assumed", id="nominal"),
    ],
)
def test_total_memory_says_what_it_rests_on(figures: dict[str, object], total_bytes: int, basis: str) -> None:
    total = gpu(**figures).total_memory
    assert total is not None
    assert (total.total_bytes, total.basis) == (total_bytes, basis)


@pytest.mark.parametrize(
    ("pcie", "bytes_per_s"),
    [
        pytest.param("PCIe 3.0 x16", 15_753_846_153, id="3.0"),
        pytest.param("PCIe 4.0 x8", 15_753_846_153, id="half the lanes, twice the rate"),
        pytest.param("PCIe 5.0 x16", 63_015_384_615, id="5.0"),
        pytest.param(None, None, id="not known"),
        pytest.param("PCIe 6.0 x16", None, id="another coding"),
    ],
)
def test_pcie_rate(pcie: str | None, bytes_per_s: int | None) -> None:
    link = Interconnect(type="pcie", pcie=pcie, peer_to_peer="pcie")
    assert link.pcie_one_way_bytes_per_s == bytes_per_s


def test_a_link_is_quoted_in_both_directions() -> None:
    assert (
        Interconnect(type="nvlink", bidir_gb_per_s=900, peer_to_peer="link").one_way_bytes_per_s
        == 450 * 10**9
    )
    assert Interconnect(type="pcie", peer_to_peer="pcie").one_way_bytes_per_s is None


def test_a_mig_slice_has_its_share() -> None:
    profile = MigProfile(
        name="3g.40gb",
        memory_gb_nominal=40,
        memory_gib=39.5,
        compute_slices=3,
        memory_slices=4,
        memory_slices_of=8,
        max_instances=2,
    )
    assert profile.memory_bytes == 42_412_802_048
    assert profile.bandwidth_bytes_per_s(3_350_000_000_000) == 1_675_000_000_000
    assert profile.model_copy(update={"memory_gib": None}).memory_bytes is None
    assert profile.model_copy(update={"memory_mib": 40192}).memory_bytes == 42_144_366_592


@pytest.mark.parametrize(
    ("figures", "complaint"),
    [
        pytest.param({"tdp_w": 700}, "no source for tdp_w", id="figure without source"),
        pytest.param({"sources": {}}, "no source for identity", id="no source at all"),
        pytest.param(
            {"sources": {"identity": ["a"], "mig": ["a"]}},
            "a source for mig, which has no value",
            id="idle source",
        ),
        pytest.param({"dense_tflops": {"bf16": 1}}, "differ in bf16", id="rate without source"),
        pytest.param({"compute_capability": 9.0}, "compute_capability", id="capability as number"),
        pytest.param({"memory_gb": 80}, "memory_gb", id="unknown field"),
    ],
)
def test_a_figure_needs_exactly_its_source(figures: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        GpuSpec.model_validate({**BARE, **figures})
