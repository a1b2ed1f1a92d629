"""What a link can get wrong, over the built page: a clear sentence each, and all the rest of the answer."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browser.plan_page import DIST, START_MS, PlanPage
from browser.standin.faults import Silence
from browser.standin.hub import HubStandIn

pytestmark = pytest.mark.browser

CATALOGUED = {"model": "Qwen/Qwen3-8B", "gpu": "l4-24gb"}


@pytest.fixture
def plan_page(page: Page, hub: HubStandIn, site: Callable[[Mapping[str, Path]], str]) -> PlanPage:
    """The built page; the catalog answers, the Hub says nothing."""
    page.set_default_timeout(START_MS)
    hub.misbehave("hub", "*", Silence())
    return PlanPage(page, site({"/": DIST}))


def assert_answered(plan_page: PlanPage, code: str) -> None:
    """A whole plan with this verdict is on the page."""
    report = plan_page.report()
    assert report["verdict"]["code"] == code
    assert report["memory"]["weight_bytes_per_gpu"] > 0
    assert plan_page.text("#verdict") == report["verdict"]["sentence"]
    for number in ["Memory", "Bandwidth", "Precision", "Scaling"]:
        expect(plan_page.page.get_by_role("heading", name=number)).to_be_visible()
    assert plan_page.alert == ""


def test_numbers_that_are_none(plan_page: PlanPage) -> None:
    plan_page.open({**CATALOGUED, "users": "0", "context": "-1", "tp": "two", "util": "7", "theme": "pink"})

    said = plan_page.text("#problems")
    for sentence in [
        "Users is a whole number from 1 to 1,000,000; “0” is not, so 1 is used.",
        "Context (tokens) is a whole number from 1 to 100,000,000; “-1” is not, so the default is used.",
        "“two” is not, so 1 is used.",
        "“7” is not",
        '"theme" is light or dark, not "pink".',
    ]:
        assert sentence in said
    assert_answered(plan_page, "serves")
    query = plan_page.report()["query"]
    assert (query["users"], query["context"], query["tp"]) == ("1", "8192", "1")

    # More tokens than the model knows, from the form: the engine refuses, and the rest is still told.
    plan_page.page.get_by_label("Context, tokens", exact=True).fill("1000000")
    plan_page.wait()
    assert "1,000,000 tokens is more than the model's 40,960" in plan_page.text("#verdict")
    assert_answered(plan_page, "will-not-start")


def test_a_card_that_is_not_known(plan_page: PlanPage) -> None:
    plan_page.open({**CATALOGUED, "gpu": "voodoo2", "users": "3"})

    assert "No GPU called 'voodoo2' is in the catalog. Pick one" in plan_page.text("#problems")
    report = plan_page.report()
    assert report["verdict"]["code"] == "unknown"
    assert (report["model"]["num_params"], report["query"]["users"]) == (8_190_735_360, "3")
    assert "15.3 GiB of weights" in plan_page.text("#verdict")
    gpu = plan_page.page.get_by_label("GPU", exact=True)
    expect(gpu).to_have_value("voodoo2")
    gpu.select_option("l4-24gb")
    plan_page.wait()
    assert plan_page.text("#problems") == ""
    assert_answered(plan_page, "serves")


def test_a_model_that_is_none(plan_page: PlanPage, hub: HubStandIn) -> None:
    plan_page.open({"model": "not a model id", "gpu": "l4-24gb", "users": "3"}, until="error")

    assert '"not a model id" does not name a model. Write it as owner/name' in plan_page.alert
    plan_page.wait_for_report()
    report = plan_page.report()
    assert (report["gpu"]["id"], report["query"]["users"]) == ("l4-24gb", "3")
    assert hub.log.exchanges == []
    plan_page.choose("Qwen/Qwen3-8B")
    assert_answered(plan_page, "serves")


def test_markup_everywhere(plan_page: PlanPage, hub: HubStandIn) -> None:
    markup = "<img src=x onerror=globalThis.hit=1>"
    keys = ["model", "gpu", "users", "context", "weights", "kv", "tp", "engine", "endpoint", "theme", "<b>"]
    plan_page.open(dict.fromkeys(keys, markup), until="error")
    page = plan_page.page

    assert f'"{markup}" does not name a model.' in plan_page.alert
    plan_page.wait_for_report()
    said = plan_page.text("#problems")
    assert f"No GPU called '{markup}'" in said
    for field in ["users", "context", "weights", "kv", "tp", "engine"]:
        (sentence,) = [one["sentence"] for one in plan_page.report()["problems"] if one["field"] == field]
        assert sentence in said
    assert 'The link has "<b>", which this page does not know' in said
    assert page.locator("img").count() == 0
    assert page.evaluate("globalThis.hit") is None
    assert hub.log.exchanges == []
    page.get_by_label("GPU", exact=True).select_option("l4-24gb")
    plan_page.choose("Qwen/Qwen3-8B")
    assert_answered(plan_page, "serves")
