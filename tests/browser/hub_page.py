"""The Hub reader of web/, alone in a page, called from a test."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

PAGES = Path(__file__).parent / "pages"
WEB = Path(__file__).parents[2] / "web"
CHECKPOINTS = Path(__file__).parents[1] / "data" / "checkpoints"


@dataclass(frozen=True)
class Outcome:
    """What a call came to: a value, or the fields of the error; and what was told on the way."""

    value: Any = None
    error: dict[str, str] = field(default_factory=dict[str, str])
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    slept: list[float] = field(default_factory=list[float])
    """Milliseconds of each sleep; the page's clock jumps over them."""

    @property
    def code(self) -> str | None:
        return self.error.get("code")

    @property
    def retries(self) -> list[str]:
        return [event["code"] for event in self.events if event["kind"] == "retry"]


@dataclass(frozen=True)
class HubPage:
    page: Page

    def call(self, name: str, **ask: object) -> Outcome:
        """`info`, `text`, `header` or `model` of hub-page.js with these fields, and `token`, `idleMs`, … ."""
        return Outcome(**self.page.evaluate(f"(ask) => calls.{name}(ask)", ask))
