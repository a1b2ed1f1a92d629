"""Where the page may lie and be shown: below a path, and in a frame of another site's page."""

from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from browser.conftest import ConsoleWatch
from browser.faulty_site import FaultySite
from browser.hub_page import CHECKPOINTS
from browser.plan_page import DIST, START_MS, PlanPage
from browser.standin.hub import HubStandIn
from browser.standin.repo import Repo
from browser.standin.serving import served, static_site

pytestmark = pytest.mark.browser

SANDBOX = "allow-scripts allow-same-origin allow-popups allow-popups-to-escape-sandbox"
SANDBOX_NEEDED = 'needs sandbox="allow-scripts allow-same-origin"'
PLAN = {"gpu": "l4-24gb", "users": "2", "context": "1024"}


def test_below_a_path(hub: HubStandIn, page: Page) -> None:
    page.set_default_timeout(START_MS)
    hub.add(Repo.from_folder(CHECKPOINTS / "openai-community__gpt2", "example/new-model"))
    site = FaultySite(static_site({"/docs/x": DIST}))
    with served(site) as port:
        plan_page = PlanPage(page, f"http://localhost:{port}/docs/x")
        plan_page.open({"model": "example/new-model", **PLAN})

        assert plan_page.report()["model"]["source"] == "hub"
        assert plan_page.report()["verdict"]["code"] == "serves"
        users = page.get_by_label("Users", exact=True)
        users.fill("3")
        plan_page.wait()
        page.wait_for_url("**/docs/x/?model=example/new-model&gpu=l4-24gb&users=3&context=1024")
        assert [path for path in site.requested if not path.startswith("/docs/x/")] == []
        page.goto("about:blank")


def embedding(folder: Path, body: str) -> Path:
    """A page that shows this one."""
    folder.mkdir(exist_ok=True)
    head = '<!doctype html><meta charset=utf-8><title>Docs</title><link rel="icon" href="data:,">'
    (folder / "index.html").write_text(head + body, "utf-8")
    return folder


def test_the_embed_element_shows_the_answer_at_its_height(
    page: Page, hub: HubStandIn, site: Callable[[Mapping[str, Path]], str], tmp_path: Path
) -> None:
    page.set_default_timeout(START_MS)
    body = (
        '<script type="module" src="app/embed.js"></script>'
        '<will-it-serve model="openai-community/gpt2" gpu="l4-24gb" users="2" context="1024"></will-it-serve>'
    )
    page.goto(site({"/": embedding(tmp_path / "docs", body), "/app": DIST}))
    expect(page.locator("iframe")).to_have_attribute("sandbox", SANDBOX)
    frame = page.frame_locator("iframe")
    expect(frame.locator("html")).to_have_attribute("data-answer", "ready", timeout=START_MS)

    expect(frame.locator("#verdict")).to_contain_text("Serves 2 users at 1,024 tokens")
    expect(frame.get_by_role("link", name="Open the whole answer")).to_be_visible()
    page.wait_for_function(
        "() => {"
        "  const frame = document.querySelector('iframe');"
        "  const { height } = frame.contentDocument.body.getBoundingClientRect();"
        "  return frame.clientHeight === Math.ceil(height);"
        "}"
    )
    assert hub.log.exchanges == []


@pytest.mark.parametrize(
    ("shared", "sentences"),
    [
        pytest.param(
            True,
            ["could not start the engine's worker", SANDBOX_NEEDED],
            id="a-host-that-shares-with-all-origins",
        ),
        pytest.param(
            False,
            ["The scripts of this page have not started.", SANDBOX_NEEDED],
            id="a-host-that-does-not",
        ),
    ],
)
def test_a_frame_without_an_origin_says_what_is_wrong(
    page: Page, console: ConsoleWatch, tmp_path: Path, shared: bool, sentences: list[str]
) -> None:
    page.set_default_timeout(START_MS)
    if not shared:
        console.expect("from origin 'null' has been blocked by CORS policy", "ERR_FAILED")
    app = FaultySite(static_site({"/": DIST}))
    if shared:
        app.break_file("*", headers={"access-control-allow-origin": "*"})
    with served(app) as app_port:
        query = urlencode({"model": "openai-community/gpt2", **PLAN, "embed": "1"})
        address = f"http://localhost:{app_port}/?{query}"
        docs = embedding(tmp_path / "docs", f'<iframe sandbox="allow-scripts" src="{address}"></iframe>')
        with served(static_site({"/": docs})) as port:
            page.goto(f"http://127.0.0.1:{port}/")
            said = page.frame_locator("iframe").locator("main")
            for sentence in sentences:
                expect(said).to_contain_text(sentence, use_inner_text=True, timeout=START_MS)
            page.goto("about:blank")
