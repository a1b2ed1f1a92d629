"""The planning calculator."""

import pytest

from willitserve.errors import InputError
from willitserve.rough import parse_parameters, rough_plan


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("70B", 70_000_000_000),
        ("0.6b", 600_000_000),
        ("405 B", 405_000_000_000),
        ("1.1T", 1_100_000_000_000),
        ("8_030_261_248", 8_030_261_248),
        ("137M", 137_000_000),
    ],
)
def test_parameters_are_read(text: str, count: int) -> None:
    assert parse_parameters(text) == count


@pytest.mark.parametrize("text", ["", "B", "70GB", "-7B", "7e9", "0B", "99999999T", "seventy"])
def test_what_is_no_number_of_parameters_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_parameters(text)


def test_70b_in_bf16_takes_three_cards_of_80_gb() -> None:
    """The primer's worked figure: 140 GB x 1.3 = 182 GB, 72 GB usable per card: 2.53, so 3."""
    report = rough_plan(70_000_000_000, weights="bf16", gpu_memory_bytes=80_000_000_000, gpu_name="H100")
    assert report.weight_bytes == 140_000_000_000
    assert report.needed_bytes == 182_000_000_000
    assert report.usable_bytes_per_gpu == 72_000_000_000
    assert report.gpus_per_replica == 3


@pytest.mark.parametrize(("weights", "cards"), [("bf16", 3), ("fp8", 2), ("int4", 1), ("nvfp4", 1)])
def test_smaller_formats_take_fewer_cards(weights: str, cards: int) -> None:
    report = rough_plan(70_000_000_000, weights=weights, gpu_memory_bytes=80_000_000_000, gpu_name="H100")
    assert report.gpus_per_replica == cards


def test_exactly_full_cards_are_not_rounded_up() -> None:
    report = rough_plan(36_000_000_000, weights="fp8", gpu_memory_bytes=52_000_000_000, gpu_name="card")
    assert (report.needed_bytes, report.usable_bytes_per_gpu) == (46_800_000_000, 46_800_000_000)
    assert report.gpus_per_replica == 1
