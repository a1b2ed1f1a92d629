"""The whole page, over the built dist/ and the Hub stand-in: models are read, obstacles are said."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browser.conftest import ConsoleWatch
from browser.faulty_site import FaultySite
from browser.hub_page import CHECKPOINTS
from browser.plan_page import DIST, START_MS, PlanPage
from browser.standin.faults import Silence, Status
from browser.standin.hub import HUB_HOST, Account, HubStandIn
from browser.standin.repo import Repo, git_file
from browser.standin.serving import served, static_site

pytestmark = pytest.mark.browser

GPT2 = CHECKPOINTS / "openai-community__gpt2"
LLAMA = CHECKPOINTS / "meta-llama__Llama-3.1-8B"
CARD = {"gpu": "l4-24gb", "users": "2", "context": "1024"}


@pytest.fixture
def plan_page(page: Page, site: Callable[[Mapping[str, Path]], str]) -> PlanPage:
    assert DIST.is_dir(), "there is no dist/: run `python3 build.py` first"
    page.set_default_timeout(START_MS)
    return PlanPage(page, site({"/": DIST}))


def source_of(plan_page: PlanPage) -> str:
    return plan_page.report()["model"]["source"]


def test_a_model_of_the_hub_is_read_and_answered(hub: HubStandIn, plan_page: PlanPage) -> None:
    repo = hub.add(Repo.from_folder(GPT2, "example/new-model"))
    plan_page.open({"model": "example/new-model", **CARD})

    report = plan_page.report()
    assert report["model"]["source"] == "hub"
    assert report["model"]["revision"] == repo.sha
    assert report["verdict"]["code"] == "serves"
    assert repo.sha[:7] in plan_page.text("#basis")
    assert plan_page.text("#load-status") == ""


def test_every_shard_is_read_once_and_nothing_but_headers(hub: HubStandIn, plan_page: PlanPage) -> None:
    hub.add(Repo.from_folder(LLAMA, "example/sharded"))
    plan_page.open({"model": "example/sharded", **CARD})

    assert plan_page.report()["model"]["num_params"] == 8_030_261_248
    shards = [
        one for one in hub.log.of(method="GET", host=HUB_HOST) if ".safetensors" in one.path and one.range
    ]
    assert len({one.path for one in shards}) == len(shards) == 4


def test_live_headers_take_the_place_of_the_catalogs(hub: HubStandIn, plan_page: PlanPage) -> None:
    hub.misbehave("hub", "*", Silence())
    plan_page.open({"model": "openai-community/gpt2", **CARD})
    assert source_of(plan_page) == "catalog"
    catalog_weights = plan_page.report()["model"]["num_params"]
    hub.reset()
    hub.add(Repo.from_folder(GPT2))
    plan_page.open({"model": "openai-community/gpt2", **CARD})
    plan_page.wait_for_source("hub")

    assert plan_page.report()["model"]["num_params"] == catalog_weights
    assert "read from the Hub" in plan_page.text("#basis")


def test_a_catalog_answer_stays_when_the_hub_fails(
    hub: HubStandIn, plan_page: PlanPage, console: ConsoleWatch
) -> None:
    console.expect("status of 401")
    plan_page.open({"model": "openai-community/gpt2", **CARD})
    note = plan_page.page.get_by_text("The Hub was not read: openai-community/gpt2 was not found")
    expect(note).to_be_visible()

    assert source_of(plan_page) == "catalog"
    assert "From the catalog" in plan_page.text("#basis")
    assert plan_page.text("[role=alert]") == ""


def test_a_model_that_is_nowhere_is_said_and_the_page_stays(
    hub: HubStandIn, plan_page: PlanPage, console: ConsoleWatch
) -> None:
    console.expect("status of 401")
    plan_page.open({"model": "nobody/nothing", **CARD}, until="error")

    alert = plan_page.text("[role=alert]")
    assert "nobody/nothing was not found on the Hub, or it is private." in alert
    assert "Check the spelling" in alert
    box = plan_page.page.get_by_label("Model", exact=True)
    hub.add(Repo.from_folder(GPT2, "example/new-model"))
    box.fill("example/new-model")
    box.press("Enter")
    plan_page.wait()
    assert plan_page.text("[role=alert]") == ""
    assert plan_page.report()["model"]["id"] == "example/new-model"


def test_a_gated_model_opens_with_a_token_that_goes_nowhere_else(
    hub: HubStandIn, plan_page: PlanPage, console: ConsoleWatch
) -> None:
    console.expect("status of 401")
    hub.accounts["hf_secret_of_the_reader"] = Account(approved=frozenset({"example/gated"}))
    hub.add(Repo.from_folder(LLAMA, "example/gated", gated="manual"))
    plan_page.open({"model": "example/gated", **CARD}, until="error")
    assert "example/gated is gated" in plan_page.text("[role=alert]")
    assert plan_page.report()["model"]["source"] == "hub-totals"

    page = plan_page.page
    page.get_by_text("Read gated files with a token").click()
    field = page.get_by_label("Access token")
    field.fill("hf_secret_of_the_reader")
    field.press("Enter")
    plan_page.wait()

    assert source_of(plan_page) == "hub"
    assert plan_page.text("[role=alert]") == ""
    kept = page.evaluate(
        "[location.href, document.documentElement.outerHTML, JSON.stringify({...localStorage}),"
        " JSON.stringify({...sessionStorage}), document.cookie].join()"
    )
    assert "hf_secret" not in kept
    assert field.input_value() == ""
    for exchange in hub.log.exchanges:
        assert exchange.host == HUB_HOST or exchange.authorization is None


def test_a_token_is_not_offered_to_an_address_of_the_link(
    hub: HubStandIn, plan_page: PlanPage, console: ConsoleWatch
) -> None:
    console.expect("ERR_NAME_NOT_RESOLVED|ERR_FAILED|Failed to load")
    plan_page.open({"model": "nobody/nothing", "endpoint": "https://hub.example.org", **CARD}, until="error")

    assert "hub.example.org" in plan_page.text("#warnings")
    assert "hub.example.org" in plan_page.text("[role=alert]")
    assert hub.log.exchanges == []


def test_a_repository_without_safetensors_says_what_it_has(hub: HubStandIn, plan_page: PlanPage) -> None:
    hub.add(Repo("example/quants", {"config.json": git_file("{}"), "model-Q4_K_M.gguf": git_file("GGUF")}))
    plan_page.open({"model": "example/quants", **CARD}, until="error")

    assert "GGUF" in plan_page.text("[role=alert]")


def test_another_revision_is_read_at_its_commit(hub: HubStandIn, plan_page: PlanPage) -> None:
    repo = hub.add(Repo.from_folder(GPT2))
    plan_page.open({"model": f"openai-community/gpt2@{repo.sha}", **CARD})

    assert plan_page.report()["model"]["revision"] == repo.sha
    assert source_of(plan_page) == "hub"


def test_an_embed_of_a_catalog_model_leaves_the_hub_alone(hub: HubStandIn, plan_page: PlanPage) -> None:
    plan_page.open({"model": "openai-community/gpt2", "embed": "1", **CARD})
    plan_page.page.wait_for_timeout(200)

    assert source_of(plan_page) == "catalog"
    assert hub.log.exchanges == []


def test_a_folder_of_this_computer_stands_in_for_the_model(
    hub: HubStandIn, plan_page: PlanPage, tmp_path: Path
) -> None:
    folder = tmp_path / "my-gpt2"
    folder.mkdir()
    for name, file in Repo.from_folder(GPT2).files.items():
        with (folder / name).open("wb") as out:
            out.write(file.head)
            out.truncate(file.size)
    hub.misbehave("hub", "*", Silence())
    plan_page.open({"model": "nobody/nothing", **CARD}, until="pending")
    page = plan_page.page
    page.get_by_role("button", name="More").click()
    page.get_by_label("Or a model folder on this computer").set_input_files(folder)
    plan_page.wait()

    report = plan_page.report()
    assert (report["model"]["id"], report["model"]["source"]) == ("my-gpt2", "folder")
    assert report["verdict"]["code"] == "serves"
    page.wait_for_function("() => !location.search.includes('model=')")
    assert "no link can carry it" in plan_page.text("#warnings")


@pytest.fixture
def broken_dist(page: Page) -> Iterator[tuple[PlanPage, FaultySite]]:
    page.set_default_timeout(START_MS)
    site = FaultySite(static_site({"/": DIST}))
    with served(site) as port:
        yield PlanPage(page, f"http://localhost:{port}"), site
        page.goto("about:blank")


def test_an_engine_that_cannot_start_is_said_with_a_next_step(
    hub: HubStandIn, broken_dist: tuple[PlanPage, FaultySite]
) -> None:
    plan_page, site = broken_dist
    hub.misbehave("hub", "*", Silence())
    site.break_file("*.wasm", status=404)
    plan_page.open({"model": "openai-community/gpt2", **CARD}, until="error")

    assert plan_page.page.locator("html").get_attribute("data-engine") == "failed"
    alert = plan_page.text("[role=alert]")
    assert ".wasm" in alert
    assert "Publish the whole dist folder again" in alert
    expect(plan_page.page.get_by_label("Model", exact=True)).to_have_value("openai-community/gpt2")


def test_a_file_of_the_hub_that_breaks_off_is_said(
    hub: HubStandIn, plan_page: PlanPage, console: ConsoleWatch
) -> None:
    console.expect("404|Failed to load")
    hub.add(Repo.from_folder(GPT2, "example/new-model"))
    hub.misbehave("cdn", "*", Status(404))
    plan_page.open({"model": "example/new-model", **CARD}, until="error")

    assert "model.safetensors of example/new-model" in plan_page.text("[role=alert]")
    assert source_of(plan_page) == "hub-totals"
