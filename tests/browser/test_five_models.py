"""Five published models through the page and through CPython: the same report, and the published numbers.

Each repository is made of the tensors and the configuration that the catalog has of the model, split into
shards as a publisher would, and is read once under an id that the catalog does not know and once under its
own, where live headers take the place of the catalog's.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import pytest

from browser.conftest import ConsoleWatch
from browser.plan_page import PlanPage
from browser.standin.hub import CDN_HOST, HUB_HOST, Account, HubStandIn
from browser.standin.repo import BITS_OF_DTYPE, Repo, StoredFile, Tensor
from willitserve import api
from willitserve.catalog_files import load_packaged_catalog

pytestmark = pytest.mark.browser

TOKEN = "hf_let_in"
QUERY = {"gpu": "l4-24gb", "users": "2", "context": "1024"}


@dataclass(frozen=True)
class Published:
    """What is known of a model from its publisher and from runs of it."""

    id: str
    shard_bytes: int
    """Size above which a new shard is begun, near the publisher's own."""
    num_shards: int
    num_params: int
    weight_bytes: int
    kv_bytes_per_token: int
    """At TP 1, with a 16-bit cache."""
    gated: bool = False


# Parameters and bytes: the headers of the published files, counted; for the KV cache see each line.
FIVE = [
    # 36 layers x 2 x 8 KV heads x 128 x 2 B
    Published("Qwen/Qwen3-8B", 4 * 10**9, 5, 8_190_735_360, 16_381_470_720, 147_456),
    # 80 layers x 2 x 8 KV heads x 128 x 2 B
    Published(
        "meta-llama/Llama-3.1-70B-Instruct", 49 * 10**8, 30, 70_553_706_496, 141_107_412_992, 327_680, True
    ),
    # 32 layers x 2 x 8 KV heads x 128 x 2 B
    Published("mistralai/Mixtral-8x7B-v0.1", 5 * 10**9, 19, 46_702_792_704, 93_405_585_408, 131_072),
    # 61 layers x (512 + 64) x 2 B; the draft layer is in the bytes, not in the parameters served
    Published("deepseek-ai/DeepSeek-V3", 425 * 10**7, 163, 671_026_419_200, 688_574_839_360, 70_272),
    # 94 layers x 2 x 4 KV heads x 128 x 2 B
    Published("Qwen/Qwen3-235B-A22B", 4 * 10**9, 118, 235_093_634_560, 470_187_269_120, 192_512),
]


def name_of(model: Published) -> str:
    return model.id.split("/")[1]


def bytes_of(tensor: Tensor) -> int:
    return math.prod(tensor.shape) * BITS_OF_DTYPE[tensor.dtype] // 8


def in_order(tensor: Tensor) -> list[tuple[int, str]]:
    """Sorts layers and experts by number, and what belongs to an expert side by side."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in tensor.name.split(".")]


def shards_of(tensors: list[Tensor], shard_bytes: int) -> dict[str, list[Tensor]]:
    """In order, a new shard where the next tensor would make one too large: as the publishers' tool does."""
    shards: list[list[Tensor]] = [[]]
    size = 0
    for tensor in tensors:
        if shards[-1] and size + bytes_of(tensor) > shard_bytes:
            shards.append([])
            size = 0
        shards[-1].append(tensor)
        size += bytes_of(tensor)
    total = len(shards)
    return {f"model-{place:05}-of-{total:05}.safetensors": shard for place, shard in enumerate(shards, 1)}


@cache
def published_files(model: Published) -> dict[str, StoredFile]:
    entry = load_packaged_catalog().find_model(model.id)
    assert entry is not None
    tensors = sorted((Tensor(*tensor) for tensor in entry.expand()), key=in_order)
    return Repo.from_tensors(model.id, shards_of(tensors, model.shard_bytes), config=entry.config).files


def call(method: str, params: Mapping[str, object], payload: bytes | None = None) -> Any:  # noqa: ANN401  JSON
    reply = json.loads(api.handle(json.dumps({"method": method, "params": params}), payload))
    assert "error" not in reply, reply
    return reply["value"]


def cpython_report(repo: Repo, query: Mapping[str, str]) -> dict[str, Any]:
    """The report of the core, here, over the same files."""
    files = [{"name": name, "size": file.size} for name, file in repo.files.items()]
    read = call("choose_files", {"files": files})["read"]
    opened = {
        "key": "here",
        "model_id": repo.id,
        "revision": repo.sha,
        "gated": repo.gated is not False,
        "config": repo.files["config.json"].head.decode(),
        "files": files,
        "read": read,
    }
    call("open_checkpoint", opened)
    for name in read:
        file = repo.files[name]
        call("add_header", {"key": "here", "file": name, "file_size": file.size}, file.head)
    report = call("plan", {"query": query, "checkpoint": "here"})
    call("drop", {"key": "here"})
    return report


def assert_same(shown: Any, expected: Any, place: str = "report") -> None:  # noqa: ANN401  JSON
    """Field by field, so that a difference is named."""
    if isinstance(expected, dict) and isinstance(shown, dict):
        assert list(cast("dict[str, Any]", shown)) == list(cast("dict[str, Any]", expected)), place
        for key, value in cast("dict[str, Any]", expected).items():
            assert_same(shown[key], value, f"{place}.{key}")
    elif isinstance(expected, list) and isinstance(shown, list):
        assert len(cast("list[Any]", shown)) == len(cast("list[Any]", expected)), place
        for number, value in enumerate(cast("list[Any]", expected)):
            assert_same(shown[number], value, f"{place}[{number}]")
    else:
        assert shown == expected, place


def assert_page_read(open_page: PlanPage, repo: Repo, model: Published) -> None:
    report = open_page.report()
    assert_same(report, cpython_report(repo, {"model": repo.id, **QUERY}))
    assert (report["model"]["source"], report["model"]["revision"]) == ("hub", repo.sha)
    assert report["model"]["num_params"] == model.num_params
    assert report["model"]["weight_bytes"] == model.weight_bytes
    assert report["memory"]["kv_bytes_per_token_per_gpu"] == model.kv_bytes_per_token
    assert open_page.alert == ""


def assert_headers_alone_were_read(hub: HubStandIn, repo: Repo, model: Published) -> None:
    shards = [name for name in repo.files if name.endswith(".safetensors")]
    assert len(shards) == model.num_shards
    reads = [one for one in hub.log.of(method="GET", host=HUB_HOST, containing=".safetensors") if one.range]
    assert {one.path.split("/")[-1] for one in reads} == set(shards)
    # The shard that is read before the length of any header is known may take two.
    assert len(reads) <= len(shards) + 1
    assert hub.log.max_in_flight <= 16 + 1
    from_cdn = hub.log.of(method="GET", host=CDN_HOST)
    assert all(one.status == 206 and one.origin == "null" and one.authorization is None for one in from_cdn)
    header_bytes = sum(len(repo.files[name].head) for name in shards)
    # One read of 64 KiB before any length is known, and for the first and last shard; no read is below 8 KiB.
    assert sum(one.sent_bytes for one in from_cdn) < 1.3 * header_bytes + 10_000 * len(shards) + 3 * 65_536
    assert len(hub.log.of(method="GET", containing=f"/resolve/{repo.sha}/config.json")) == 1
    assert all(one.referer is None for one in hub.log.exchanges)


@pytest.fixture
def read_with_token(hub: HubStandIn, open_page: PlanPage) -> Iterator[Callable[[Repo], None]]:
    hub.accounts[TOKEN] = Account(approved=frozenset(published.id for published in FIVE))
    page = open_page.page

    def read(repo: Repo) -> None:
        page.get_by_text("Read gated files with a token").click()
        page.get_by_label("Access token").fill(TOKEN)
        page.get_by_label("Access token").press("Enter")
        open_page.wait_for_source("hub")

    yield read
    forget = page.get_by_role("button", name="Forget")
    if forget.is_visible():
        forget.click()


@pytest.mark.parametrize("model", FIVE, ids=name_of)
def test_a_mirror_of_the_model(hub: HubStandIn, open_page: PlanPage, model: Published) -> None:
    repo = hub.add(Repo(f"mirror/{name_of(model)}", published_files(model)))
    open_page.choose(repo.id)

    assert_page_read(open_page, repo, model)
    assert hub.log.preflights == []
    assert_headers_alone_were_read(hub, repo, model)


@pytest.mark.parametrize("model", [one for one in FIVE if not one.gated], ids=name_of)
def test_live_headers_under_its_own_id(hub: HubStandIn, open_page: PlanPage, model: Published) -> None:
    repo = hub.add(Repo(model.id, published_files(model)))
    open_page.choose(repo.id, until=None)
    open_page.wait_for_source("hub")

    assert_page_read(open_page, repo, model)


def test_the_gated_one_is_answered_from_the_catalog_and_read_with_a_token(
    hub: HubStandIn,
    open_page: PlanPage,
    console: ConsoleWatch,
    read_with_token: Callable[[Repo], None],
) -> None:
    console.expect("status of 401")
    model = next(one for one in FIVE if one.gated)
    repo = hub.add(Repo(model.id, published_files(model), gated="manual"))
    open_page.choose(repo.id)
    assert open_page.report()["model"]["source"] == "catalog"
    hub.log.clear()
    read_with_token(repo)

    assert_page_read(open_page, repo, model)
    assert_headers_alone_were_read(hub, repo, model)
