"""What a reader does with the page: each change is answered, and the address follows it."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browser.plan_page import FIXTURES, SHOWN, PlanPage, plan_page_over_reports
from browser.standin.hub import HubStandIn

pytestmark = pytest.mark.browser


@pytest.fixture
def plan_page(page: Page, hub: HubStandIn, site: Callable[[Mapping[str, Path]], str]) -> PlanPage:
    return plan_page_over_reports(page, hub, site)


def test_the_report_shown_is_in_the_page(plan_page: PlanPage) -> None:
    plan_page.open(SHOWN["serves"])

    expected = json.loads((FIXTURES / "serves.json").read_text("utf-8"))
    report = plan_page.report()
    assert report["verdict"] == expected["verdict"]
    assert plan_page.text("#verdict") == expected["verdict"]["sentence"]
    root = plan_page.page.locator("html")
    assert root.get_attribute("data-engine") == "ready"
    assert root.get_attribute("data-boot") == "one-zip"
    assert plan_page.text("[role=alert]") == ""


def test_the_form_shows_the_link(plan_page: PlanPage) -> None:
    plan_page.open({**SHOWN["serves"], "context": "4096", "kv": "fp8", "tp": "2"})
    page = plan_page.page

    expect(page.get_by_label("Model", exact=True)).to_have_value("Qwen/Qwen3-8B")
    expect(page.get_by_label("GPU", exact=True)).to_have_value("h100-sxm5-80gb")
    expect(page.get_by_label("Users", exact=True)).to_have_value("16")
    expect(page.get_by_label("Context, tokens", exact=True)).to_have_value("4096")
    page.get_by_role("button", name="More").click()
    expect(page.get_by_label("KV cache dtype")).to_have_value("fp8")
    expect(page.get_by_label("Tensor parallel")).to_have_value("2")


def test_the_form_is_filled_before_the_engine_is_there(plan_page: PlanPage) -> None:
    plan_page.page.route(
        "**/engine-worker.js", lambda route: route.fulfill(content_type="text/javascript", body="")
    )
    plan_page.open(SHOWN["fewer-users"], until="pending")
    page = plan_page.page

    expect(page.get_by_label("Model", exact=True)).to_have_value("Qwen/Qwen3-8B")
    expect(page.get_by_label("Users", exact=True)).to_have_value("16")
    assert plan_page.text("#verdict") == "Will Qwen/Qwen3-8B serve 16 users on l4-24gb?"
    assert plan_page.text("#load-status").startswith("Engine: ")
    for name in ["Memory", "Bandwidth", "Precision", "Scaling"]:
        expect(page.get_by_role("heading", name=name)).to_be_visible()


def test_without_a_link_the_page_shows_an_example(plan_page: PlanPage) -> None:
    plan_page.open({})

    assert plan_page.report()["query"]["model"] == "Qwen/Qwen3-8B"
    assert plan_page.query() == ""


def test_a_slider_asks_anew_and_the_address_follows(plan_page: PlanPage) -> None:
    plan_page.open(SHOWN["serves"])
    slider = plan_page.page.get_by_label("Users, slider")
    slider.focus()
    slider.press("ArrowRight")

    expect(plan_page.page.get_by_label("Users", exact=True)).to_have_value("24")
    plan_page.wait()
    assert plan_page.report()["query"]["users"] == "24"
    plan_page.page.wait_for_url("**/?model=Qwen/Qwen3-8B&gpu=h100-sxm5-80gb&users=24")


def test_dragging_ends_with_the_answer_to_the_last_place(plan_page: PlanPage) -> None:
    plan_page.open(SHOWN["serves"])
    plan_page.page.get_by_label("Users, slider").evaluate(
        """slider => { for (let place = 0; place <= 12; place++) {
          slider.value = place;
          slider.dispatchEvent(new Event("input", { bubbles: true }));
        } }"""
    )
    plan_page.wait()

    users = plan_page.page.get_by_label("Users", exact=True).input_value()
    assert plan_page.report()["query"]["users"] == users == "96"


def test_a_typed_amount_is_answered_while_it_is_typed(plan_page: PlanPage) -> None:
    plan_page.open(SHOWN["serves"])
    plan_page.page.get_by_label("Context, tokens", exact=True).fill("6000")
    plan_page.wait()

    assert plan_page.report()["query"]["context"] == "6000"


def test_a_default_is_not_in_the_address(plan_page: PlanPage) -> None:
    plan_page.open(SHOWN["serves"])
    plan_page.page.get_by_role("button", name="More").click()
    width = plan_page.page.get_by_label("Tensor parallel")
    width.fill("2")
    width.press("Enter")
    plan_page.page.wait_for_url("**&tp=2")
    width.fill("1")
    width.press("Enter")

    plan_page.page.wait_for_url("**/?model=Qwen/Qwen3-8B&gpu=h100-sxm5-80gb&users=16")


def test_a_way_out_applies_in_place(plan_page: PlanPage) -> None:
    plan_page.open(SHOWN["fewer-users"])
    way = plan_page.report()["ways_out"][0]
    link = plan_page.page.get_by_role("link", name=way["sentence"])
    assert (link.get_attribute("href") or "").startswith("?model=Qwen/Qwen3-8B&gpu=l4-24gb&users=")
    plan_page.page.evaluate("document.body.dataset.same = 'page'")
    link.click()
    plan_page.wait()

    query = plan_page.report()["query"]
    assert {key: query[key] for key in way["query"]} == way["query"]
    assert plan_page.page.evaluate("document.body.dataset.same") == "page"


def test_an_ambiguous_card_is_asked_back(plan_page: PlanPage) -> None:
    plan_page.open(SHOWN["ambiguous-gpu"])
    choices = plan_page.report()["choices"]
    assert plan_page.page.locator("#chooser li").count() == len(choices) > 1
    expect(plan_page.page.locator("#numbers")).to_be_hidden()
    plan_page.page.get_by_role("link", name="H100 SXM5 80GB").click()
    plan_page.wait()

    assert plan_page.report()["gpu"]["id"] == "h100-sxm5-80gb"
    expect(plan_page.page.locator("#chooser")).to_be_hidden()
    expect(plan_page.page.get_by_label("GPU", exact=True)).to_have_value("h100-sxm5-80gb")


def test_another_card_is_picked_from_its_vendors_group(plan_page: PlanPage) -> None:
    plan_page.open(SHOWN["serves"])
    picker = plan_page.page.get_by_label("GPU", exact=True)
    assert picker.locator("optgroup").evaluate_all("groups => groups.map(group => group.label)") == ["NVIDIA"]
    picker.select_option("l4-24gb")
    plan_page.wait()

    assert plan_page.report()["gpu"]["id"] == "l4-24gb"


@pytest.mark.parametrize(
    "pasted",
    [
        "https://huggingface.co/openai/gpt-oss-120b",
        "https://huggingface.co/openai/gpt-oss-120b/tree/main/original?x=1",
        "hf.co/openai/gpt-oss-120b",
    ],
)
def test_a_pasted_address_becomes_a_model(plan_page: PlanPage, pasted: str) -> None:
    plan_page.open(SHOWN["serves"])
    box = plan_page.page.get_by_label("Model", exact=True)
    box.fill(pasted)
    box.press("Enter")

    plan_page.page.wait_for_url("**/?model=openai/gpt-oss-120b**")


def test_what_a_link_brings_along_is_text_and_is_reported(plan_page: PlanPage) -> None:
    bad = "<img src=x onerror=alert(1)>"
    plan_page.open({**SHOWN["serves"], bad: "1", "theme": bad, "tp": "2"})

    said = plan_page.text("#problems")
    assert bad in said
    assert '"theme" is light or dark' in said
    assert plan_page.page.locator("main img").count() == 0
    assert plan_page.report()["query"]["tp"] == "2"


def test_values_that_the_core_refuses_are_said_and_its_defaults_are_shown(plan_page: PlanPage) -> None:
    plan_page.open({**SHOWN["serves-nobody"], "users": "many"})

    assert "“many” is not" in plan_page.text("#problems")


def test_pinning_puts_the_commit_into_the_address(plan_page: PlanPage) -> None:
    plan_page.open(SHOWN["unknown-kv"])
    sha = plan_page.report()["model"]["revision"]
    plan_page.page.get_by_role("button", name=f"Pin to commit {sha[:7]}").click()

    plan_page.page.wait_for_url(f"**/?model=example/lightning-8b@{sha}&**")


def test_copying_gives_the_link_of_the_answer(plan_page: PlanPage) -> None:
    plan_page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    plan_page.open({"users": "16", "tp": "1", "gpu": "h100-sxm5-80gb", "model": "Qwen/Qwen3-8B"})
    plan_page.page.get_by_role("button", name="Copy link").click()
    expect(plan_page.page.get_by_text("Link copied.")).to_be_visible()

    copied = plan_page.page.evaluate("navigator.clipboard.readText()")
    assert copied == f"{plan_page.origin}/?model=Qwen/Qwen3-8B&gpu=h100-sxm5-80gb&users=16"


def test_an_opened_line_stays_open_while_the_numbers_change(plan_page: PlanPage) -> None:
    plan_page.open(SHOWN["serves"])
    line = plan_page.page.locator("#memory details.figure-line").first
    line.locator("summary").click()
    plan_page.page.get_by_label("Users", exact=True).fill("20")
    plan_page.wait()

    assert line.evaluate("line => line.open")


def test_a_phone_has_the_form_in_a_sheet(plan_page: PlanPage) -> None:
    plan_page.page.set_viewport_size({"width": 360, "height": 740})
    plan_page.open(SHOWN["serves"])
    form = plan_page.page.locator("#controls")
    expect(form).to_be_hidden()
    opener = plan_page.page.get_by_role("button", name="Change")
    assert "Qwen3-8B" in opener.inner_text()
    opener.click()
    expect(form).to_be_visible()
    slider = plan_page.page.get_by_label("Users, slider").bounding_box()
    assert slider is not None
    assert slider["height"] >= 44
    plan_page.page.get_by_role("button", name="Done").click()
    expect(form).to_be_hidden()


def test_keyboard_reaches_answer_and_form(plan_page: PlanPage) -> None:
    plan_page.open(SHOWN["serves"])
    focused = "document.activeElement.id || document.activeElement.textContent.trim()"
    plan_page.page.keyboard.press("Tab")
    assert plan_page.page.evaluate(focused) == "Skip to the answer"
    order: list[str] = []
    for _ in range(8):
        plan_page.page.keyboard.press("Tab")
        order.append(plan_page.page.evaluate(focused))
    assert order[1:] == ["model", "gpu", "users", "users-slider", "context", "context-slider", "more"]


def test_an_embed_is_the_answer_and_a_link_to_the_whole(plan_page: PlanPage) -> None:
    plan_page.open({**SHOWN["fewer-users"], "embed": "1"})
    page = plan_page.page

    for hidden in ["#controls", "#share", "#warnings", "#startup", ".panel-lines >> nth=0"]:
        expect(page.locator(hidden)).to_be_hidden()
    for shown in ["#verdict", ".bar-card", "#memory .state", "#scaling .state"]:
        expect(page.locator(shown)).to_be_visible()
    link = page.get_by_role("link", name="Open the whole answer")
    assert link.get_attribute("target") == "_blank"
    assert link.get_attribute("rel") == "noopener"
    assert link.get_attribute("href") == "?model=Qwen/Qwen3-8B&gpu=l4-24gb&users=16"


DOCS_PAGE = """<!doctype html><title>Docs</title><h1>Docs</h1>
<script type="module" src="{origin}/embed.js"></script>
<will-it-serve model="Qwen/Qwen3-8B" gpu="l4-24gb" users="16" theme="light"></will-it-serve>"""


def test_the_element_shows_an_embed_of_the_height_of_its_content(plan_page: PlanPage) -> None:
    page = plan_page.page
    page.route(
        f"{plan_page.origin}/docs",
        lambda route: route.fulfill(content_type="text/html", body=DOCS_PAGE.format(origin=plan_page.origin)),
    )
    page.goto(f"{plan_page.origin}/docs")
    frame = page.frame_locator("will-it-serve iframe")
    expect(frame.locator("html[data-answer=ready] #verdict")).to_contain_text("Serves 2 of 16 users")

    content = frame.locator("body").evaluate("body => Math.ceil(body.getBoundingClientRect().height)")
    page.wait_for_function(
        "height => document.querySelector('iframe').getBoundingClientRect().height === height", arg=content
    )
    # A message of another window changes nothing.
    page.evaluate("postMessage({ kind: 'will-it-serve:height', height: 999 }, '*')")
    page.wait_for_timeout(50)
    assert page.locator("iframe").bounding_box() is not None
    assert page.locator("iframe").evaluate("frame => frame.getBoundingClientRect().height") == content


def test_a_model_that_is_taken_out_does_not_come_back(plan_page: PlanPage) -> None:
    plan_page.open(SHOWN["serves"])
    box = plan_page.page.get_by_label("Model", exact=True)
    box.fill("")

    assert box.input_value() == ""
