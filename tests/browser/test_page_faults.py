"""What can stand between the page and the files: the sentence, the way on, and the rest of the page."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from browser.conftest import ConsoleWatch
from browser.hub_page import CHECKPOINTS
from browser.plan_page import PlanPage
from browser.small_model import (
    assert_nothing_leaks,
    assert_read,
    assert_rest_is_there,
    facts,
    of_file,
    small,
    wait_until_finished,
    with_weights,
)
from browser.standin.faults import CdnHost, ContentRange, IgnoredRange, Silence, Status, Truncated
from browser.standin.hub import CDN_HOST, DEAD_CDN_HOST, HUB_HOST, Account, HubStandIn
from browser.standin.repo import Repo, raw_weights, safetensors

pytestmark = pytest.mark.browser

GATED = CHECKPOINTS / "meta-llama__Llama-3.1-8B"


def test_a_server_that_sends_whole_files_is_not_read(hub: HubStandIn, open_page: PlanPage) -> None:
    hub.add(with_weights("example/whole", raw_weights(safetensors([]).head, 5_000_000_000)))
    hub.misbehave("cdn", "*", IgnoredRange())
    open_page.choose("example/whole", until="error")

    assert "The server offers model.safetensors of example/whole only whole" in open_page.alert
    wait_until_finished(open_page, hub.log.of(host=CDN_HOST))
    assert sum(one.sent_bytes for one in hub.log.of(host=CDN_HOST)) < 50_000_000
    # What the listing alone tells is still told.
    assert (facts(open_page)["source"], facts(open_page)["weight_bytes"]) == ("hub-totals", 5_000_000_000)
    assert_rest_is_there(open_page)


@pytest.mark.parametrize("text", ["bytes 8-65535/{total}", "bytes 0-65535/4711"])
def test_another_part_than_was_asked_for(hub: HubStandIn, open_page: PlanPage, text: str) -> None:
    hub.add(small("example/part"))
    hub.misbehave("cdn", "*", ContentRange(text))
    open_page.choose("example/part", until="error")

    assert "For model.safetensors of example/part the server sent another part" in open_page.alert
    assert_rest_is_there(open_page)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Truncated(1000), id="truncated"),
        pytest.param(Status(403, "Auth failed: invalid range"), id="refused"),
        pytest.param(Status(403, "Auth failed: expired"), id="expired"),
    ],
)
def test_one_failed_read_is_made_good_through_resolve(
    hub: HubStandIn, open_page: PlanPage, console: ConsoleWatch, fault: Truncated | Status
) -> None:
    console.expect("status of 403" if isinstance(fault, Status) else "ERR_CONTENT_LENGTH_MISMATCH")
    repo = hub.add(small("example/once"))
    hub.misbehave("cdn", "*", fault, times=1)
    open_page.choose(repo.id)

    assert_read(open_page, repo)
    assert len(of_file(hub)) == 2


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        pytest.param(Truncated(1000), "broke off before all that was asked for had come.", id="truncated"),
        pytest.param(
            Status(403, "Auth failed: expired"), "file server refused to send model.safetensors", id="refused"
        ),
    ],
)
def test_two_failed_reads_are_said(
    hub: HubStandIn, open_page: PlanPage, console: ConsoleWatch, fault: Truncated | Status, sentence: str
) -> None:
    console.expect("status of 403" if isinstance(fault, Status) else "ERR_CONTENT_LENGTH_MISMATCH")
    hub.add(small("example/twice"))
    hub.misbehave("cdn", "*", fault)
    open_page.choose("example/twice", until="error")

    assert sentence in open_page.alert
    assert len(of_file(hub)) == 2
    assert_rest_is_there(open_page)


def test_nobody_listens_where_the_files_are(
    hub: HubStandIn, open_page: PlanPage, console: ConsoleWatch
) -> None:
    console.expect("ERR_CONNECTION_REFUSED")
    hub.add(small("example/dead"))
    hub.misbehave("hub", "*/resolve/*safetensors", CdnHost(DEAD_CDN_HOST))
    open_page.choose("example/dead", until="error")

    assert (
        "The Hub answers, but the server that holds model.safetensors of example/dead could not be read."
        in open_page.alert
    )
    assert "*.hf.co" in open_page.alert
    assert_rest_is_there(open_page)


def test_an_outage_is_waited_out(hub: HubStandIn, open_page: PlanPage, console: ConsoleWatch) -> None:
    console.expect("status of 503")
    repo = hub.add(small("example/outage"))
    hub.misbehave("hub", "/api/models/*", Status(503, "<h1>Service unavailable</h1>"), times=1)
    open_page.choose(repo.id)

    assert_read(open_page, repo)
    assert len(hub.log.of(containing="/api/models/")) == 2


def test_silence_ends_with_a_sentence(hub: HubStandIn, open_page: PlanPage) -> None:
    hub.add(small("example/silent"))
    hub.misbehave("cdn", "*", Silence())
    open_page.choose("example/silent", until="pending")
    expect(open_page.page.locator("#load-status")).to_contain_text("Headers: 0 of 1")
    while not hub.log.of(host=CDN_HOST):
        open_page.page.wait_for_timeout(20)
    open_page.page.clock.fast_forward(30_001)
    open_page.wait("error")

    assert "Nothing came for 30 s when the Hub was asked for model.safetensors" in open_page.alert
    assert_rest_is_there(open_page)


def test_another_choice_ends_a_silent_read(hub: HubStandIn, open_page: PlanPage) -> None:
    hub.add(small("example/silent"))
    repo = hub.add(small("example/other"))
    hub.misbehave("cdn", "example/silent/*", Silence())
    open_page.choose("example/silent", until="pending")
    while not hub.log.of(host=CDN_HOST):
        open_page.page.wait_for_timeout(20)
    silent = hub.log.of(host=CDN_HOST)
    open_page.choose(repo.id)

    assert_read(open_page, repo)
    wait_until_finished(open_page, silent)


def test_a_rate_limit_is_counted_down_and_left_by_another_choice(
    hub: HubStandIn, open_page: PlanPage, console: ConsoleWatch
) -> None:
    console.expect("status of 429")
    hub.add(small("example/limited"))
    repo = hub.add(small("example/other"))
    hub.misbehave("hub", "/api/models/example/limited", Status(429, "<h1>429</h1>"))
    open_page.choose("example/limited", until="pending")
    status = open_page.page.locator("#load-status")
    expect(status).to_contain_text("Hub: asks to wait 5 s")
    expect(status).to_contain_text("Hub: asks to wait 4 s")
    open_page.choose(repo.id)

    assert_read(open_page, repo)
    open_page.page.clock.fast_forward(10_000)
    assert len(hub.log.of(containing="/api/models/example/limited")) == 1


# --- gated files and tokens


def test_a_gated_model_gives_what_its_listing_tells_and_the_ways_on(
    hub: HubStandIn, open_page: PlanPage, console: ConsoleWatch
) -> None:
    console.expect("status of 401")
    repo = hub.add(Repo.from_folder(GATED, "example/gated", gated="manual"))
    open_page.choose(repo.id, until="error")

    alert = open_page.page.get_by_role("alert")
    assert open_page.alert.startswith("example/gated is gated: its files are open only to accounts")
    expect(alert.get_by_role("link")).to_have_attribute("href", "https://huggingface.co/example/gated")
    model = facts(open_page)
    assert (model["source"], model["gated"]) == ("hub-totals", True)
    assert model["weight_bytes"] == sum(file.size for file in repo.files.values() if file.large)
    assert "16.06 GB" in open_page.text("#verdict")
    assert "8.03 B stored values" in open_page.text("#verdict")
    expect(open_page.page.get_by_text("Read gated files with a token")).to_be_visible()
    assert hub.log.of(host=CDN_HOST) == []
    assert_nothing_leaks(hub)
    assert_rest_is_there(open_page)


def use_token(open_page: PlanPage, token: str) -> None:
    page = open_page.page
    field = page.get_by_label("Access token")
    if not field.is_visible():
        page.get_by_text("Read gated files with a token").click()
    field.fill(token)
    field.press("Enter")


@pytest.fixture
def forget_token(open_page: PlanPage) -> Iterator[None]:
    yield
    open_page.page.get_by_role("button", name="Forget").click()


@pytest.mark.usefixtures("forget_token")
def test_a_token_that_is_not_accepted(
    hub: HubStandIn, open_page: PlanPage, console: ConsoleWatch
) -> None:
    console.expect("status of 401")
    repo = hub.add(Repo.from_folder(GATED, "example/gated", gated="manual"))
    hub.accounts["hf_good"] = Account(approved=frozenset({repo.id}))
    open_page.choose(repo.id, until="error")
    use_token(open_page, "hf_mistyped")
    expect(open_page.page.get_by_role("alert")).to_contain_text("The Hub does not accept this token.")

    assert facts(open_page)["source"] == "hub-totals"
    kept = open_page.page.evaluate(
        "[location.href, JSON.stringify({...localStorage}), JSON.stringify({...sessionStorage}),"
        " document.cookie, document.documentElement.outerHTML].join()"
    )
    assert "hf_mistyped" not in kept
    use_token(open_page, "hf_good")
    open_page.wait("ready")
    assert facts(open_page)["num_params"] == 8_030_261_248
    for one in hub.log.exchanges:
        assert one.host == HUB_HOST or one.authorization is None


@pytest.mark.usefixtures("forget_token")
def test_an_account_that_was_not_let_in(
    hub: HubStandIn, open_page: PlanPage, console: ConsoleWatch
) -> None:
    console.expect("status of 401", "status of 403")
    hub.add(Repo.from_folder(GATED, "example/gated", gated="manual"))
    hub.accounts["hf_stranger"] = Account()
    open_page.choose("example/gated", until="error")
    use_token(open_page, "hf_stranger")
    alert = open_page.page.get_by_role("alert")
    expect(alert).to_contain_text("is gated, and the account of this token has not been let in.")
    expect(alert.get_by_role("link")).to_have_attribute("href", "https://huggingface.co/example/gated")
