"""The memory bar: all up to the card's edge is accounted for, and only what has no room lies past it."""

import pytest

from willitserve.catalog import Catalog
from willitserve.catalog_files import load_packaged_catalog
from willitserve.plan import plan
from willitserve.reading import from_catalog
from willitserve.report import PlanReport
from willitserve.request import read_query


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_packaged_catalog()


def _report(catalog: Catalog, **query: str) -> PlanReport:
    entry = catalog.find_model(query["model"])
    assert entry is not None
    model = from_catalog(entry, query["model"])
    return plan(catalog, model, read_query(query), page_context=8192, versions={})


SMALL = "Qwen/Qwen3-8B"
LARGE = "meta-llama/Llama-3.3-70B-Instruct"


def _keys(report: PlanReport) -> list[str]:
    assert report.memory is not None
    return [segment.key for segment in report.memory.bar]


@pytest.mark.parametrize("users", ["1", "2", "16", "500"])
@pytest.mark.parametrize("gpu", ["l4-24gb", "h100-sxm5-80gb", "rtx-5090-32gb"])
def test_what_fits_ends_at_the_edge_of_the_card(catalog: Catalog, gpu: str, users: str) -> None:
    memory = _report(catalog, model=SMALL, gpu=gpu, users=users).memory
    assert memory is not None
    assert memory.gpu_total_bytes is not None

    inside = [segment.bytes for segment in memory.bar if segment.key != "outside"]
    assert abs(sum(inside) - memory.gpu_total_bytes) <= 1


def test_users_without_room_lie_past_the_edge(catalog: Catalog) -> None:
    report = _report(catalog, model=SMALL, gpu="l4-24gb", users="16")
    assert _keys(report) == ["weights", "overhead", "kv_used", "kv_free", "unusable", "outside"]
    memory = report.memory
    assert memory is not None
    amounts = {segment.key: segment.bytes for segment in memory.bar}
    assert memory.max_users is not None
    assert memory.needed_kv_bytes_per_gpu is not None
    assert amounts["kv_used"] == memory.max_users * memory.needed_kv_bytes_per_gpu
    kv = amounts["kv_used"] + amounts["kv_free"] + amounts["outside"]
    assert kv == 16 * memory.needed_kv_bytes_per_gpu


def test_users_with_room_leave_the_rest_of_the_pool_free(catalog: Catalog) -> None:
    report = _report(catalog, model=SMALL, gpu="h100-sxm5-80gb", users="16")
    assert _keys(report) == ["weights", "overhead", "kv_used", "kv_free", "unusable"]


def test_weights_past_the_edge_leave_nothing_to_others(catalog: Catalog) -> None:
    report = _report(catalog, model=LARGE, gpu="l4-24gb", users="1")
    assert _keys(report) == ["weights", "overhead", "outside"]


def test_overhead_may_reach_into_the_share_of_others(catalog: Catalog) -> None:
    memory = _report(catalog, model="Qwen/Qwen3-14B", gpu="rtx-5090-32gb", users="1").memory
    assert memory is not None
    assert memory.gpu_total_bytes is not None
    amounts = {segment.key: segment.bytes for segment in memory.bar}
    assert "kv_free" not in amounts
    assert amounts["weights"] + amounts["overhead"] + amounts["unusable"] == memory.gpu_total_bytes


def test_every_stretch_has_its_amount_as_a_figure(catalog: Catalog) -> None:
    report = _report(catalog, model=SMALL, gpu="l4-24gb", users="16")
    assert report.memory is not None
    for segment in report.memory.bar:
        figure = report.figures[f"memory.bar.{segment.key}"]
        assert figure.value == segment.bytes / 2**30
        assert figure.label == segment.label
