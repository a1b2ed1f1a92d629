"""The page as it is seen: accessible in both themes, nothing cut off at any width, nothing that jumps."""

import re
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


def test_parts_of_the_checkpoint_are_to_scale(plan_page: PlanPage) -> None:
    plan_page.open(SHOWN["draft"])

    bar = plan_page.page.locator(".strip-bar").bounding_box()
    widths: list[float] = plan_page.page.locator(".strip-stretch").evaluate_all(
        "parts => parts.map(part => part.getBoundingClientRect().width)"
    )
    assert bar is not None
    ratios = [part["ratio"] for part in plan_page.report()["checkpoint"]["parts"]]
    assert [width / bar["width"] for width in widths] == pytest.approx(ratios, abs=0.002)
    assert sum(widths) == pytest.approx(bar["width"], abs=2)


def test_a_part_is_named_by_the_pointer_and_by_the_keyboard(plan_page: PlanPage) -> None:
    plan_page.open(SHOWN["moe"])
    sentence = "Routed experts, MXFP4: 56.73 GiB, 93% of what is stored, 114.7 billion parameters"
    plan_page.page.locator(".strip-stretch").nth(2).hover()
    assert plan_page.text(".strip-readout") == sentence
    plan_page.page.locator("#layers-title").hover()
    assert plan_page.text(".strip-readout") == ""

    plan_page.page.locator(".strip-list summary").nth(2).focus()
    assert plan_page.text(".strip-readout") == sentence
    named = plan_page.page.locator(".strip-stretch.named")
    assert named.locator(".strip-inside").inner_text() == "Routed experts MXFP4"


def test_a_part_too_small_to_see_shows_where_it_is(plan_page: PlanPage) -> None:
    plan_page.open(SHOWN["draft"])
    plan_page.page.locator(".strip-list summary").nth(6).focus()

    assert plan_page.text(".strip-readout").startswith("Routers, FP32: 58.00 KiB")
    outline = plan_page.page.locator(".strip-stretch.named").evaluate(
        "part => getComputedStyle(part).outline"
    )
    assert "3px" in outline


@pytest.mark.parametrize("width", [360, 1280])
def test_naming_a_part_or_a_layer_moves_nothing(plan_page: PlanPage, width: int) -> None:
    plan_page.page.set_viewport_size({"width": width, "height": 800})
    plan_page.open(SHOWN["moe"])
    tops = "[...document.querySelectorAll('.strip-list, .layer-kinds')].map(list => list.offsetTop)"
    before = plan_page.page.evaluate(tops)
    plan_page.page.locator(".strip-stretch").nth(2).hover()
    assert plan_page.text(".strip-readout") != ""
    assert plan_page.page.evaluate(tops) == before
    plan_page.page.locator(".layer-cell").nth(3).hover()
    assert plan_page.text(".layer-readout") != ""
    assert plan_page.page.evaluate(tops) == before


def test_a_part_opens_to_the_arithmetic_of_both_its_numbers(plan_page: PlanPage) -> None:
    plan_page.open(SHOWN["serves"])
    plan_page.page.locator(".strip-list summary").first.click()

    details = plan_page.text(".strip-list .strip-details >> nth=0")
    assert "Embedding, BF16: stored" in details
    assert "(151,936 x 4,096) x 2 B = 1,244,659,712 B" in details
    assert "(151,936 x 4,096) = 622,329,856" in details
    assert details.count("Basis") == details.count("Source") == 2


def test_formats_and_kinds_are_patterns_shapes_and_words(plan_page: PlanPage) -> None:
    plan_page.open(SHOWN["moe"])
    fills: list[str] = plan_page.page.locator(".strip-swatch").evaluate_all(
        "swatches => swatches.map(swatch => getComputedStyle(swatch).backgroundImage)"
    )
    formats = plan_page.page.locator(".strip-format").all_inner_texts()
    assert len(set(fills)) == len(set(formats)) == 2

    shapes: list[str] = plan_page.page.locator(".layer-kinds .layer-symbol").evaluate_all(
        "symbols => symbols.map(symbol => symbol.querySelector('use').getAttribute('href'))"
    )
    assert shapes == ["#layer-window", "#layer-full"]
    assert plan_page.page.locator(".layer-label").all_inner_texts() == [
        "Window 128 with MoE",
        "Full attention with MoE",
    ]


def test_every_symbol_of_a_layer_is_drawn(plan_page: PlanPage) -> None:
    plan_page.open(SHOWN["serves"])
    types = (WEB / "report.d.ts").read_text("utf-8")
    alias = re.search(r"export type CacheShape =(.*?);", types, re.DOTALL)
    assert alias
    for shape in re.findall(r'"([^"]+)"', alias[1]):
        assert plan_page.page.locator(f"#layer-{shape}").count() == 1, shape
    for feed_forward in ("dense", "moe"):
        assert plan_page.page.locator(f"#feed-{feed_forward}").count() == 1


def test_every_layer_has_a_cell_in_rows_of_twenty(plan_page: PlanPage) -> None:
    for width in (320, 1280):
        plan_page.page.set_viewport_size({"width": width, "height": 740})
        plan_page.open(SHOWN["hybrid"])
        tops: list[float] = plan_page.page.locator(".layer-cell").evaluate_all(
            "cells => cells.map(cell => cell.getBoundingClientRect().top)"
        )
        assert len(tops) == 48
        assert [tops.count(top) for top in dict.fromkeys(tops)] == [20, 20, 8]


def test_a_kind_shows_its_layers_and_a_cell_its_kind(plan_page: PlanPage) -> None:
    plan_page.open(SHOWN["hybrid"])
    plan_page.page.locator(".layer-kinds > li").nth(1).hover()
    assert plan_page.page.locator(".layer-cell.named").count() == 12

    plan_page.page.locator(".layer-cell").nth(3).hover()
    assert plan_page.text(".layer-readout") == "Layer 3: Full attention with MoE"
    assert plan_page.page.locator(".layer-cell.named").count() == 1


def test_what_is_open_stays_open_while_a_plan_changes(plan_page: PlanPage) -> None:
    plan_page.open(SHOWN["moe"])
    plan_page.page.locator(".strip-list summary").first.click()
    plan_page.page.locator(".layer-kinds summary").first.click()
    plan_page.page.locator("#users").fill("3")
    plan_page.page.locator("#users").press("Enter")
    plan_page.page.wait_for_function(
        "JSON.parse(document.getElementById('plan-report').textContent).query.users === '3'"
    )

    assert plan_page.page.locator("#layers details[open]").count() == 2


def test_layers_that_are_not_understood_say_why(plan_page: PlanPage) -> None:
    plan_page.open(SHOWN["unknown-kv"])

    assert "lightning_v9" in plan_page.text(".layer-pattern")
    assert not plan_page.page.locator(".layer-cells").is_visible()
    assert plan_page.page.locator(".strip-stretch").count() == 5


def test_a_link_leads_to_the_layers(plan_page: PlanPage) -> None:
    query = "&".join(f"{key}={value}" for key, value in SHOWN["hybrid"].items())
    plan_page.page.set_viewport_size({"width": 360, "height": 740})
    plan_page.page.goto(f"{plan_page.origin}/?{query}#layers")
    plan_page.wait()

    top: float = plan_page.page.locator("#layers").evaluate("section => section.getBoundingClientRect().top")
    assert 0 <= top < 740 / 2


def test_the_embed_has_no_layers(plan_page: PlanPage) -> None:
    plan_page.open({**SHOWN["hybrid"], "embed": "1"})

    assert not plan_page.page.locator("#layers").is_visible()
