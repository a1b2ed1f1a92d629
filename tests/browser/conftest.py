"""Browser tests over the Hub stand-in.

Fixtures
    hub       the stand-in (`HubStandIn`), empty at each test: `hub.add(Repo…)`, `hub.renamed`,
              `hub.accounts`, `hub.misbehave(…)`, `hub.log`
    site      `site({"/": folder})` serves folders under URL paths of one http://localhost origin, gives it
    chromium  the browser of the session; the Hub's host names lead to the stand-in, others are not found
    console   what the page may write as an error: `console.expect("404")` (a regular expression) allows it
    page      a page in a fresh context; an undeclared console error or page error fails the test, and so
              does a declared one that never came. Chromium writes each failed load (401, 404, a refused
              connection) as a console error.
    open_page the built page, opened once for a module and answering: `open_page.choose(model)`. Its console
              is held like that of `page`; its clock can be moved; between tests no model is left in it
    hub_page  such a page with the Hub reader alone, and nothing else of the site

No test here reaches the network: a host that is not the stand-in's does not resolve. CHROMIUM names another
browser binary.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright
from playwright.sync_api import Error as PageError

from browser.hub_page import PAGES, WEB, HubPage
from browser.plan_page import DIST, START_MS, PlanPage
from browser.standin.hub import HubStandIn
from browser.standin.serving import issue_certificate, resolver_rules, served, static_site

CHROMIUM_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


@dataclass
class _RunningHub:
    app: HubStandIn
    port: int
    public_key_hash: str


@dataclass
class ConsoleWatch:
    """The errors that a page wrote, and those that its test declared."""

    errors: list[str] = field(default_factory=list[str])
    expected: list[str] = field(default_factory=list[str])

    def expect(self, *patterns: str) -> None:
        """Declare that errors matching these regular expressions belong to the scenario."""
        self.expected.extend(patterns)

    def on_message(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"{message.text} [{message.location.get('url', '')}]")

    def on_page_error(self, error: PageError) -> None:
        self.errors.append(f"uncaught: {error.message}")

    def verify(self) -> None:
        surprises = [e for e in self.errors if not any(re.search(pattern, e) for pattern in self.expected)]
        assert not surprises, "the page wrote errors: " + "; ".join(surprises)
        absent = [pattern for pattern in self.expected if not any(re.search(pattern, e) for e in self.errors)]
        assert not absent, f"declared errors that never came: {absent}; the page wrote {self.errors}"


@pytest.fixture(scope="session")
def _running_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_RunningHub]:
    app = HubStandIn()
    certificate = tmp_path_factory.mktemp("tls") / "hub.pem"
    public_key_hash = issue_certificate(certificate)
    with served(app, certificate=certificate) as port:
        yield _RunningHub(app, port, public_key_hash)


@pytest.fixture
def hub(_running_hub: _RunningHub) -> Iterator[HubStandIn]:
    _running_hub.app.reset()
    yield _running_hub.app
    _running_hub.app.reset()


@pytest.fixture(scope="session")
def chromium(_running_hub: _RunningHub) -> Iterator[Browser]:
    flags = [
        *CHROMIUM_FLAGS,
        f"--host-resolver-rules={resolver_rules(_running_hub.port)}",
        f"--ignore-certificate-errors-spki-list={_running_hub.public_key_hash}",
    ]
    with sync_playwright() as playwright:
        binary = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        browser = playwright.chromium.launch(executable_path=binary, args=flags)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def site() -> Iterator[Callable[[Mapping[str, Path]], str]]:
    with ExitStack() as stack:
        addresses: dict[tuple[tuple[str, Path], ...], str] = {}

        def serve(mounts: Mapping[str, Path]) -> str:
            key = tuple(sorted(mounts.items()))
            if key not in addresses:
                port = stack.enter_context(served(static_site(mounts)))
                addresses[key] = f"http://localhost:{port}"
            return addresses[key]

        yield serve


@pytest.fixture
def console() -> ConsoleWatch:
    return ConsoleWatch()


@pytest.fixture
def page(chromium: Browser, hub: HubStandIn, console: ConsoleWatch) -> Iterator[Page]:
    context = chromium.new_context()
    page = context.new_page()
    page.on("console", console.on_message)
    page.on("pageerror", console.on_page_error)
    yield page
    context.close()
    console.verify()


@dataclass
class _OpenPage:
    plan_page: PlanPage
    watch: ConsoleWatch
    """That of the test which has the page now."""


@pytest.fixture(scope="module")
def _open_page(chromium: Browser, site: Callable[[Mapping[str, Path]], str]) -> Iterator[_OpenPage]:
    assert DIST.is_dir(), "there is no dist/: run `python3 build.py` first"
    context = chromium.new_context()
    page = context.new_page()
    page.set_default_timeout(START_MS)
    opened = _OpenPage(PlanPage(page, site({"/": DIST})), ConsoleWatch())
    page.on("console", lambda message: opened.watch.on_message(message))
    page.on("pageerror", lambda error: opened.watch.on_page_error(error))
    page.clock.install()
    opened.plan_page.open({"gpu": "l4-24gb", "users": "2", "context": "1024"})
    opened.watch.verify()
    yield opened
    context.close()


@pytest.fixture
def open_page(_open_page: _OpenPage, hub: HubStandIn, console: ConsoleWatch) -> Iterator[PlanPage]:
    _open_page.watch = console
    yield _open_page.plan_page
    _open_page.plan_page.choose("")
    console.verify()


@pytest.fixture
def hub_page(page: Page, site: Callable[[Mapping[str, Path]], str]) -> HubPage:
    # The addresses are laid out like the repository, so that the page's imports are right on disk too.
    page.goto(site({"/web": WEB, "/tests/browser/pages": PAGES}) + "/tests/browser/pages/hub.html")
    page.wait_for_function("'calls' in globalThis")
    return HubPage(page)
