"""What of a repository is read, by which requests, and under which names, seen on the whole page.

The page is opened once; each test chooses a model in its form. What hub.js does request by request is in
test_hub_*.py.
"""

import json

import pytest

from browser.conftest import ConsoleWatch
from browser.plan_page import PlanPage
from browser.small_model import (
    CONFIG,
    OUTSIDE,
    TENSORS,
    WEIGHTS,
    assert_nothing_leaks,
    assert_read,
    assert_rest_is_there,
    facts,
    layer,
    of_file,
    small,
)
from browser.standin.faults import HiddenHeaders
from browser.standin.hub import CDN_HOST, HUB_HOST, HubStandIn
from browser.standin.repo import Repo, StoredFile, git_file, index_of, raw_weights, safetensors

pytestmark = pytest.mark.browser

INDEX = "model.safetensors.index.json"
FIRST_READ_BYTES = 65_536


def test_a_small_model_takes_three_requests_and_their_redirects(
    hub: HubStandIn, open_page: PlanPage
) -> None:
    repo = hub.add(small("example/small"))
    open_page.choose("example/small")

    assert_read(open_page, repo)
    assert_nothing_leaks(hub)
    asked = sorted((one.host, one.path.replace(repo.sha, "SHA").split("?")[0]) for one in hub.log.exchanges)
    assert asked == sorted([
        (HUB_HOST, "/api/models/example/small"),
        (HUB_HOST, "/example/small/resolve/SHA/config.json"),
        (HUB_HOST, "/api/resolve-cache/models/example/small/SHA/config.json"),
        (HUB_HOST, "/example/small/resolve/SHA/model.safetensors"),
        (CDN_HOST, f"/xet-bridge-us/{repo.object_id}/{repo.files[WEIGHTS].sha256}"),
    ])
    (header,) = hub.log.of(host=CDN_HOST)
    assert (header.status, header.range) == (206, "bytes=0-65535")


def test_a_long_header_is_read_on_through_resolve(hub: HubStandIn, open_page: PlanPage) -> None:
    repo = hub.add(small("example/long-header", header_bytes=100_000))
    open_page.choose("example/long-header")

    assert_read(open_page, repo)
    assert [one.range for one in of_file(hub)] == ["bytes=0-65535", "bytes=65536-100007"]
    first, second = hub.log.of(host=CDN_HOST)
    assert (first.status, second.status) == (206, 206)
    assert first.query != second.query


@pytest.mark.parametrize("beyond", [-8, -7, -1, 0, 1, 7, 8])
def test_a_header_that_ends_about_where_the_first_read_does(
    hub: HubStandIn, open_page: PlanPage, beyond: int
) -> None:
    repo = hub.add(small(f"example/edge{beyond}", header_bytes=FIRST_READ_BYTES - 8 + beyond))
    open_page.choose(repo.id)

    assert_read(open_page, repo)
    rest = [f"bytes=65536-{65535 + beyond}"] if beyond > 0 else []
    assert [one.range for one in of_file(hub)] == ["bytes=0-65535", *rest]


def test_a_file_shorter_than_the_first_read(hub: HubStandIn, open_page: PlanPage) -> None:
    shards = {
        "model-00001-of-00003.safetensors": OUTSIDE,
        "model-00002-of-00003.safetensors": layer(0),
        "model-00003-of-00003.safetensors": [],
    }
    repo = hub.add(Repo.from_tensors("example/short", shards, config=CONFIG))
    assert repo.files["model-00003-of-00003.safetensors"].size < FIRST_READ_BYTES
    open_page.choose(repo.id)

    # One layer of two is missing: that must not pass for a smaller model.
    assert "layer" in open_page.text("#verdict")


def test_shards_are_summed_and_each_is_read_once(hub: HubStandIn, open_page: PlanPage) -> None:
    shards = {
        "model-00001-of-00003.safetensors": OUTSIDE,
        "model-00002-of-00003.safetensors": layer(0),
        "model-00003-of-00003.safetensors": layer(1),
    }
    repo = hub.add(Repo.from_tensors("example/shards", shards, config=CONFIG))
    open_page.choose(repo.id)

    assert_read(open_page, repo)
    assert_nothing_leaks(hub)
    assert {name: len(of_file(hub, name)) for name in shards} == dict.fromkeys(shards, 1)
    assert of_file(hub, INDEX) == [], "numbered shards need no index"
    assert len(of_file(hub, "config.json")) == 1


def test_a_content_range_that_the_page_may_not_read(hub: HubStandIn, open_page: PlanPage) -> None:
    repo = hub.add(small("example/hidden-headers"))
    hub.misbehave("cdn", "*", HiddenHeaders())
    open_page.choose(repo.id)

    assert_read(open_page, repo)


def test_a_model_seen_before_costs_one_request(hub: HubStandIn, open_page: PlanPage) -> None:
    first, second = hub.add(small("example/first")), hub.add(small("example/second"))
    open_page.choose(first.id)
    open_page.choose(second.id)
    hub.log.clear()
    open_page.choose(first.id)

    assert_read(open_page, first)
    assert [one.path for one in hub.log.exchanges] == ["/api/models/example/first"]
    first.revisions["main"] = "f" * 40
    open_page.choose(second.id)
    open_page.choose(first.id)
    assert facts(open_page)["revision"] == "f" * 40
    assert len(of_file(hub)) == 1


# --- names


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param("old-name", id="legacy"),
        pytest.param("former/name", id="renamed"),
        pytest.param("EXAMPLE/Present", id="wrong-case"),
    ],
)
def test_another_name_of_a_model_leads_to_its_present_one(
    hub: HubStandIn, open_page: PlanPage, asked: str
) -> None:
    repo = hub.add(small("example/present"))
    hub.renamed.update({"old-name": repo.id, "former/name": repo.id})
    open_page.choose(asked)

    model = facts(open_page)
    assert (model["id"], model["source"]) == ("example/present", "hub")
    assert "example/present" in open_page.text("#inputs")
    assert {one.path.split("/resolve/")[0] for one in hub.log.of(containing="/resolve/")} <= {
        "/example/present"
    }


def test_a_revision_with_slashes(hub: HubStandIn, open_page: PlanPage) -> None:
    repo = small("example/converted")
    repo.revisions["refs/pr/1"] = "1" * 40
    hub.add(repo)
    open_page.choose("example/converted@refs/pr/1")

    assert facts(open_page)["revision"] == "1" * 40
    assert hub.log.exchanges[0].path == "/api/models/example/converted/revision/refs%2Fpr%2F1"
    assert all("/resolve/" + "1" * 40 in one.path for one in of_file(hub))


def test_a_revision_that_is_not_there(
    hub: HubStandIn, open_page: PlanPage, console: ConsoleWatch
) -> None:
    console.expect("status of 404")
    hub.add(small("example/small"))
    open_page.choose("example/small@v9", until="error")

    assert 'example/small has no revision "v9".' in open_page.alert
    assert "Give a branch, a tag or a commit" in open_page.alert
    assert_rest_is_there(open_page)


def test_a_model_that_is_missing_or_private(
    hub: HubStandIn, open_page: PlanPage, console: ConsoleWatch
) -> None:
    console.expect("status of 401")
    open_page.choose("nope/nope", until="error")

    assert "nope/nope was not found on the Hub, or it is private." in open_page.alert
    assert "password" not in open_page.page.locator("body").inner_text().lower()
    assert_rest_is_there(open_page)


def test_a_disabled_model(hub: HubStandIn, open_page: PlanPage) -> None:
    repo = small("example/disabled")
    repo.disabled = True
    hub.add(repo)
    open_page.choose(repo.id, until="error")

    assert open_page.alert.startswith("example/disabled is disabled on the Hub. Choose another model")
    assert len(hub.log.exchanges) == 1
    assert_rest_is_there(open_page)


# --- which files


@pytest.mark.parametrize(
    ("files", "sentences"),
    [
        pytest.param(
            {"pytorch_model.bin": raw_weights(b"PK", 1_000_000_000)},
            ["PyTorch .bin files only (1 file, 1.00 GB)", "refs/pr/"],
            id="pytorch",
        ),
        pytest.param({"m.Q4_K_M.gguf": raw_weights(b"GGUF", 10)}, ["GGUF only (1 file)"], id="gguf"),
        pytest.param({"tokenizer.json": git_file("{}")}, ["No weight files, only tokenizer"], id="nothing"),
        pytest.param(
            {"adapter_model.safetensors": raw_weights(b"x"), "adapter_config.json": git_file("{}")},
            ["An adapter", "Plan that model."],
            id="adapter",
        ),
        pytest.param({INDEX: git_file("{}")}, ["none of the files that it names"], id="index-alone"),
    ],
)
def test_a_repository_without_safetensors_says_what_it_is(
    hub: HubStandIn, open_page: PlanPage, files: dict[str, StoredFile], sentences: list[str]
) -> None:
    hub.add(Repo("example/other", {"config.json": git_file(json.dumps(CONFIG)), **files}))
    open_page.choose("example/other", until="error")

    for sentence in sentences:
        assert sentence in open_page.alert
    assert hub.log.of(host=CDN_HOST) == []
    assert_rest_is_there(open_page)


def test_of_several_copies_one_is_read_and_named(hub: HubStandIn, open_page: PlanPage) -> None:
    copies = ["consolidated.safetensors", "model.fp16.safetensors", "original/model.safetensors"]
    repo = small("example/copies")
    repo.files.update(dict.fromkeys(copies, safetensors(TENSORS)))
    hub.add(repo)
    open_page.choose(repo.id)

    assert_read(open_page, repo)
    notes = open_page.text("#warnings")
    assert "Not counted: consolidated.safetensors and 2 more (a second copy of the weights" in notes
    assert len(hub.log.of(host=CDN_HOST)) == 1


def two_sets(repo_id: str, index: StoredFile) -> Repo:
    """Two complete sets: by number one would take that of three shards."""
    three = {"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors"}
    files = {name: safetensors([]) for name in [*three, "model-00003-of-00003.safetensors"]}
    files["model-00001-of-00002.safetensors"] = safetensors([*OUTSIDE, *layer(0)])
    files["model-00002-of-00002.safetensors"] = safetensors(layer(1))
    return Repo(repo_id, {"config.json": git_file(json.dumps(CONFIG)), INDEX: index, **files})


def test_of_two_sets_the_one_that_the_index_names(hub: HubStandIn, open_page: PlanPage) -> None:
    named = {
        "model-00001-of-00002.safetensors": [*OUTSIDE, *layer(0)],
        "model-00002-of-00002.safetensors": layer(1),
    }
    repo = hub.add(two_sets("example/two-sets", index_of(named)))
    open_page.choose(repo.id)

    assert_read(open_page, repo)
    assert f"named by {INDEX}" in open_page.text("#warnings")
    assert len(of_file(hub, INDEX)) == 1
    assert {one.path.split("/")[-1] for one in of_file(hub, ".safetensors")} >= set(named)


@pytest.mark.parametrize("name", ["../x.safetensors", "/x.safetensors", "https://example.org/x.safetensors"])
def test_an_index_that_leads_elsewhere_is_refused(hub: HubStandIn, open_page: PlanPage, name: str) -> None:
    hub.add(two_sets("example/climbs", git_file(json.dumps({"weight_map": {"a": name}}))))
    open_page.choose("example/climbs")

    said = f"{INDEX} names '{name}', which is no safetensors file of this folder: it was passed over."
    assert said in open_page.text("#warnings")
    assert [one.path for one in hub.log.exchanges if "/x.safetensors" in one.path] == []


def test_an_index_too_large_to_fetch_is_left(hub: HubStandIn, open_page: PlanPage) -> None:
    index = StoredFile(b"{", 60_000_000, large=False)
    hub.add(two_sets("example/large-index", index))
    open_page.choose("example/large-index")

    assert "is above the 16 MB that this page reads of an index" in open_page.text("#warnings")
    assert of_file(hub, INDEX) == []
