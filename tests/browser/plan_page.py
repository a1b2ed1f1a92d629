"""The whole page in a browser, as a test uses it.

Two sites show it: the built dist/, and the page's own files over a stand-in for the engine's worker that
answers with reports from files.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.sync_api import Page, Route

from browser.hub_page import WEB
from browser.standin.faults import Silence
from browser.standin.hub import HubStandIn

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
FIXTURES = ROOT / "tests" / "web" / "fixtures"
ENGINE_STAND_IN = ROOT / "tests" / "web" / "harness" / "engine-worker.js"

START_MS = 60_000
"""Python starts within this on a busy machine."""

SHOWN: dict[str, dict[str, str]] = {
    "serves": {"model": "Qwen/Qwen3-8B", "gpu": "h100-sxm5-80gb", "users": "16"},
    "fewer-users": {"model": "Qwen/Qwen3-8B", "gpu": "l4-24gb", "users": "16"},
    "does-not-fit": {"model": "meta-llama/Llama-3.3-70B-Instruct", "gpu": "l4-24gb", "users": "16"},
    "serves-nobody": {"model": "Qwen/Qwen3-14B", "gpu": "rtx5090-32gb", "users": "4"},
    "ambiguous-gpu": {"model": "Qwen/Qwen3-8B", "gpu": "h100", "users": "64"},
    "unknown-kv": {"model": "example/lightning-8b", "gpu": "h100-sxm5-80gb", "users": "16"},
    "moe": {"model": "openai/gpt-oss-120b", "gpu": "h100-sxm5-80gb", "users": "16"},
    "hybrid": {"model": "Qwen/Qwen3-Next-80B-A3B-Instruct", "gpu": "h200-sxm5-141gb", "tp": "2"},
    "draft": {"model": "deepseek-ai/DeepSeek-V3", "gpu": "h200-sxm5-141gb", "tp": "8"},
}
"""The query that each report of tests/web/fixtures answers."""


@dataclass(frozen=True)
class PlanPage:
    """A page that can be opened on any query."""

    page: Page
    origin: str

    def open(self, query: dict[str, str], *, until: str = "ready") -> None:
        """Open the page on a query and wait for its answer."""
        text = "&".join(f"{key}={quote(value, safe='/@')}" for key, value in query.items())
        self.page.goto(f"{self.origin}/?{text}")
        self.wait(until)

    def choose(self, model: str, *, until: str | None = "ready") -> None:
        """Type another model into the form and wait for its answer; None: for nothing."""
        box = self.page.get_by_label("Model", exact=True)
        box.fill(model)
        box.press("Enter")
        if until is not None:
            self.wait(until)

    def wait(self, answer: str = "ready") -> None:
        self.page.wait_for_selector(f"html[data-answer={answer}]")

    def wait_for_source(self, source: str) -> None:
        """Until the answer rests on this: `hub`, `catalog`, …"""
        self.page.wait_for_function(
            "(source) => JSON.parse(document.getElementById('plan-report').textContent)?.model.source"
            " === source",
            arg=source,
        )
        self.wait()

    def wait_for_report(self) -> None:
        """Until the core has answered, whether or not something is in the model's way."""
        self.page.wait_for_function("() => document.getElementById('plan-report').textContent !== 'null'")

    @property
    def alert(self) -> str:
        """The sentence that stands in the way; empty when none does."""
        return self.text("[role=alert]")

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()

    def report(self) -> dict[str, Any]:
        """What `#plan-report` holds."""
        return self.page.evaluate("JSON.parse(document.getElementById('plan-report').textContent)")

    def query(self) -> str:
        """The page's query string, as the address bar shows it."""
        return self.page.evaluate("location.search")


def plan_page_over_reports(
    page: Page, hub: HubStandIn, site: Callable[[Mapping[str, Path]], str]
) -> PlanPage:
    """A page whose engine answers with the reports of tests/web/fixtures, and whose Hub says nothing."""

    def give_stand_in(route: Route) -> None:
        route.fulfill(path=ENGINE_STAND_IN, content_type="text/javascript")

    page.route("**/engine-worker.js", give_stand_in)
    hub.misbehave("hub", "*", Silence())
    return PlanPage(page, site({"/": WEB, "/fixtures": FIXTURES}))
