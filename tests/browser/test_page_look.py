"""The page as it is seen: accessible in both themes, nothing cut off at any width, nothing that jumps."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from browser.hub_page import WEB
from browser.plan_page import SHOWN, PlanPage, plan_page_over_reports
from browser.standin.hub import HubStandIn

pytestmark = pytest.mark.browser

AXE = WEB / "node_modules" / "axe-core" / "axe.min.js"
WIDTHS = [320, 360, 768, 1280]
COUNT_SHIFTS = """
globalThis.shifts = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    const moved = entry.sources.map(({ node }) => node?.id || node?.className || String(node?.nodeName));
    globalThis.shifts.push([entry.value, moved]);
  }
}).observe({ type: "layout-shift", buffered: true });
"""


@pytest.fixture
def plan_page(page: Page, hub: HubStandIn, site: Callable[[Mapping[str, Path]], str]) -> PlanPage:
    return plan_page_over_reports(page, hub, site)


def violations(page: Page) -> list[str]:
    """What axe finds wrong, one line each; an empty list is what is wanted."""
    page.evaluate(AXE.read_text("utf-8"))
    found: list[dict[str, Any]] = page.evaluate("axe.run().then(({ violations }) => violations)")
    return [
        f"{rule['id']}: {node['html']} ({node['failureSummary']})" for rule in found for node in rule["nodes"]
    ]


def open_all(page: Page) -> None:
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", SHOWN)
def test_axe_finds_nothing(plan_page: PlanPage, name: str, theme: str) -> None:
    plan_page.open({**SHOWN[name], "theme": theme})
    plan_page.page.locator("#more").click()
    open_all(plan_page.page)

    assert violations(plan_page.page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_the_sheet_of_a_phone(plan_page: PlanPage, theme: str) -> None:
    plan_page.page.set_viewport_size({"width": 360, "height": 740})
    plan_page.open({**SHOWN["fewer-users"], "theme": theme})
    plan_page.page.locator("#open-controls").click()
    plan_page.page.locator("#controls #more").click()

    assert violations(plan_page.page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_an_embed(plan_page: PlanPage, theme: str) -> None:
    plan_page.open({**SHOWN["does-not-fit"], "embed": "1", "theme": theme})

    assert violations(plan_page.page) == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", SHOWN)
def test_nothing_is_wider_than_the_window(plan_page: PlanPage, name: str, width: int) -> None:
    plan_page.page.set_viewport_size({"width": width, "height": 740})
    plan_page.open(SHOWN[name])
    open_all(plan_page.page)

    assert plan_page.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(
    ("width", "limit"), [pytest.param(1280, 0.1, id="1280"), pytest.param(360, 0.25, id="360")]
)
@pytest.mark.parametrize("name", ["serves", "moe", "does-not-fit"])
def test_the_answer_comes_into_places_that_were_kept(
    plan_page: PlanPage, name: str, width: int, limit: float
) -> None:
    # web.dev calls 0.1 good and 0.25 the limit; on a phone a number of ways out stands above the numbers.
    plan_page.page.set_viewport_size({"width": width, "height": 800})
    plan_page.page.add_init_script(COUNT_SHIFTS)
    plan_page.open(SHOWN[name])
    plan_page.page.wait_for_timeout(100)

    shifts = plan_page.page.evaluate("shifts")
    assert sum(value for value, _ in shifts) < limit, shifts


def test_the_theme_of_the_link_wins_over_the_systems(plan_page: PlanPage) -> None:
    plan_page.page.emulate_media(color_scheme="dark")
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    plan_page.open(SHOWN["serves"])
    dark = plan_page.page.evaluate(paper)
    plan_page.open({**SHOWN["serves"], "theme": "light"})
    light = plan_page.page.evaluate(paper)

    assert dark != light
    plan_page.open({**SHOWN["serves"], "theme": "dark"})
    assert plan_page.page.evaluate(paper) == dark


def test_what_has_no_room_is_drawn_past_the_edge_to_scale(plan_page: PlanPage) -> None:
    plan_page.open(SHOWN["does-not-fit"])

    card = plan_page.page.locator(".bar-card").bounding_box()
    weights = plan_page.page.locator('.bar-segment[data-key="weights"]').bounding_box()
    track = plan_page.page.locator(".bar-track").bounding_box()
    assert card is not None
    assert weights is not None
    assert track is not None
    memory = plan_page.report()["memory"]
    expected = memory["weight_bytes_per_gpu"] / memory["gpu_total_bytes"]
    assert weights["width"] / card["width"] == pytest.approx(expected, rel=0.01)
    assert weights["x"] + weights["width"] <= track["x"] + track["width"] + 1
    assert plan_page.page.locator(".bar-past").is_visible()


def test_what_fits_fills_the_card_to_its_edge(plan_page: PlanPage) -> None:
    plan_page.open(SHOWN["serves"])

    widths: list[float] = plan_page.page.locator(".bar-segment").evaluate_all(
        "parts => parts.map(part => part.getBoundingClientRect().width)"
    )
    card = plan_page.page.locator(".bar-card").bounding_box()
    assert card is not None
    assert sum(widths) == pytest.approx(card["width"], abs=2)
    assert not plan_page.page.locator(".bar-past").is_visible()


def test_a_part_of_the_bar_names_itself_to_the_keyboard(plan_page: PlanPage) -> None:
    plan_page.open(SHOWN["serves"])
    parts = plan_page.page.locator(".bar-segment button")
    names: list[str] = []
    for place in range(parts.count()):
        parts.nth(place).focus()
        names.append(plan_page.text(".bar-readout"))

    assert len(set(names)) == parts.count()
    assert names[0].startswith("Weights: 15.3 GiB, ")
    assert names == [parts.nth(place).get_attribute("aria-label") for place in range(parts.count())]


def test_states_are_words_and_shapes(plan_page: PlanPage) -> None:
    plan_page.open(SHOWN["does-not-fit"])

    assert plan_page.text("#memory .state") == "no room"
    assert plan_page.page.locator("#memory .state use").get_attribute("href") == "#shape-no"
    assert plan_page.page.locator("#verdict use").get_attribute("href") == "#shape-no"


def test_marks_of_the_basis_are_also_words(plan_page: PlanPage) -> None:
    plan_page.open(SHOWN["serves"])
    headline = plan_page.page.locator("#memory .figure-headline summary")

    assert headline.locator(".mark").inner_text() == "~"
    assert headline.locator(".visually-hidden").text_content() == "estimated "
    headline.click()
    details = plan_page.text("#memory .figure-headline .figure-details")
    for word in ["Arithmetic", "estimated: ", "Source", "Check"]:
        assert word in details


def test_motion_is_left_out_for_who_asks(plan_page: PlanPage) -> None:
    plan_page.page.emulate_media(reduced_motion="reduce")
    plan_page.open(SHOWN["serves"])
    duration = plan_page.page.locator(".bar-segment").first.evaluate(
        "part => getComputedStyle(part).transitionDuration"
    )

    assert duration == "0s"
