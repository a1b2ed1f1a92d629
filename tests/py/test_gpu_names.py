"""What people, drivers and labels call a card: one part, a question back, or nothing with a hint."""

import pytest

from willitserve.catalog import Catalog
from willitserve.catalog_files import load_packaged_catalog
from willitserve.errors import AmbiguousGpuError, UnknownGpuError


@pytest.fixture(scope="module")
def packaged() -> Catalog:
    return load_packaged_catalog()


@pytest.mark.parametrize(
    ("name", "gpu_id"),
    [
        ("h100-sxm5-80gb", "h100-sxm5-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm5-80gb"),
        ("NVIDIA-H100-80GB-HBM3", "h100-sxm5-80gb"),
        ("nvidia_h100_pcie", "h100-pcie-80gb"),
        ("H100 NVL", "h100-nvl-94gb"),
        ("NVIDIA H200", "h200-sxm5-141gb"),
        ("NVIDIA GH200 480GB", "gh200-96gb"),
        ("NVIDIA B200", "b200-180gb"),
        ("GB200", "gb200-186gb"),
        ("A100 80GB SXM", "a100-sxm4-80gb"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm4-40gb"),
        ("L4", "l4-24gb"),
        ("NVIDIA L4", "l4-24gb"),
        ("l40s", "l40s-48gb"),
        ("L40", "l40-48gb"),
        ("RTX 4090", "rtx4090-24gb"),
        ("4090", "rtx4090-24gb"),
        ("GeForce RTX 3060 12GB", "rtx3060-12gb"),
        ("rtx 3060 8 gb", "rtx3060-8gb"),
        ("RTX 6000 Ada", "rtx6000-ada-48gb"),
        ("A6000", "rtx-a6000-48gb"),
        ("Tesla T4", "t4-16gb"),
        ("A10G", "a10g-24gb"),
        ("AMD Instinct MI300X", "mi300x-192gb"),
        ("AMD_Instinct_MI300X_HF", "mi300x-192gb"),
        ("Intel(R) Arc(TM) Pro B60 Graphics", "arc-pro-b60-24gb"),
        ("DGX Spark", "gb10-128gb"),
        ("Apple M2 Ultra", "m2-ultra"),
    ],
)
def test_a_full_name_means_one_part(packaged: Catalog, name: str, gpu_id: str) -> None:
    assert packaged.find_gpu(name).id == gpu_id


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("H100", {"h100-nvl-94gb", "h100-pcie-80gb", "h100-sxm5-64gb", "h100-sxm5-80gb", "h100-sxm5-96gb"}),
        (
            "NVIDIA H100",
            {"h100-nvl-94gb", "h100-pcie-80gb", "h100-sxm5-64gb", "h100-sxm5-80gb", "h100-sxm5-96gb"},
        ),
        ("h100 80gb", {"h100-pcie-80gb", "h100-sxm5-80gb"}),
        ("A100", {"a100-pcie-40gb", "a100-pcie-80gb", "a100-sxm4-40gb", "a100-sxm4-64gb", "a100-sxm4-80gb"}),
        ("A100 40GB", {"a100-pcie-40gb", "a100-sxm4-40gb"}),
        ("H200", {"h200-nvl-141gb", "h200-sxm5-141gb"}),
        ("B200", {"b200-180gb", "gb200-186gb"}),
        ("NVIDIA GeForce RTX 3060", {"rtx3060-12gb", "rtx3060-8gb"}),
        ("RTX PRO 6000", {"rtx-pro-6000-maxq-96gb", "rtx-pro-6000-server-96gb", "rtx-pro-6000-ws-96gb"}),
        ("M3 Max", {"m3-max-30c", "m3-max-40c"}),
    ],
)
def test_a_bare_name_is_asked_back(packaged: Catalog, name: str, choices: set[str]) -> None:
    with pytest.raises(AmbiguousGpuError) as raised:
        packaged.find_gpu(name)
    assert set(raised.value.choices) == choices
    assert raised.value.field == "gpu"


def test_the_two_common_h100_differ_by_their_bandwidth(packaged: Catalog) -> None:
    assert packaged.find_gpu("h100-sxm5-80gb").bandwidth_bytes_per_s == 3_350_000_000_000
    assert packaged.find_gpu("h100-pcie-80gb").bandwidth_bytes_per_s == 2_000_000_000_000


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("MI300", "mi300x-192gb"),
        ("Quadro RTX 6000", "rtx6000-ada-48gb"),
        ("H1000", "h100"),
        ("nothing", "list of cards"),
    ],
)
def test_an_unknown_name_gets_the_nearest(packaged: Catalog, name: str, hint: str) -> None:
    with pytest.raises(UnknownGpuError) as raised:
        packaged.find_gpu(name)
    assert hint in raised.value.hint


@pytest.mark.parametrize("name", ["", " - ", "日本"])
def test_a_name_without_letters_or_digits_is_no_card(packaged: Catalog, name: str) -> None:
    with pytest.raises(UnknownGpuError, match="No GPU was named"):
        packaged.find_gpu(name)
