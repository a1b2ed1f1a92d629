"""Both ways to start the engine, in a real browser over the built dist/, and all the ways to fail."""

import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from browser.conftest import ConsoleWatch
from browser.faulty_site import FaultySite
from browser.standin.serving import served, static_site
from willitserve import api

pytestmark = pytest.mark.browser

DIST = Path(__file__).resolve().parents[2] / "dist"
PAGES = Path(__file__).resolve().parent / "pages"
GOLDEN = Path(__file__).resolve().parents[1] / "golden"
# Far from the root: every address in dist/ must be relative.
MOUNT = "/docs/latest/will-it-serve"
# More than the client waits for a sign of life.
PATIENCE_MS = 61_000
BOOT_MS = 300_000

HEADER = json.dumps({"a.weight": {"dtype": "BF16", "shape": [4, 4], "data_offsets": [0, 32]}}).encode()
FILE_START = struct.pack("<Q", len(HEADER)) + HEADER
SHARD = {"name": "model.safetensors", "size": len(FILE_START) + 32}
OPEN = {
    "key": "k",
    "model_id": "org/model",
    "revision": "0" * 40,
    "config": None,
    "hf_quant_config": None,
    "files": [SHARD],
    "read": [SHARD["name"]],
}
ADD_HEADER = {"key": "k", "file": SHARD["name"], "file_size": SHARD["size"]}


@pytest.fixture
def faulty_site() -> FaultySite:
    assert DIST.is_dir(), "there is no dist/: run `python3 build.py` first"
    return FaultySite(static_site({MOUNT: DIST, "/boot": PAGES}))


@pytest.fixture
def boot(page: Page, faulty_site: FaultySite) -> Iterator[Callable[..., list[dict[str, Any]]]]:
    """Open the engine's page and wait for the end of its start; gives all that it said."""
    with served(faulty_site) as port:

        def start(*, worker: str = "", stalls: int = 0) -> list[dict[str, Any]]:
            page.clock.install()
            page.goto(f"http://localhost:{port}/boot/boot.html?dist={MOUNT}&worker={worker}")
            for boot in ("one-zip", "packages")[:stalls]:
                # The page's clock jumps over the wait: a busy machine makes no difference.
                page.wait_for_function(f"globalThis.statuses?.at(-1).boot === '{boot}'", timeout=BOOT_MS)
                page.clock.fast_forward(PATIENCE_MS)
            page.wait_for_function(
                "['ready', 'failed'].includes(globalThis.statuses?.at(-1).stage)", timeout=BOOT_MS
            )
            return page.evaluate("statuses")

        yield start
        # Open connections to a stalled file would hold the server up.
        page.goto("about:blank")


def ask(page: Page, method: str, params: dict[str, Any], payload: bytes | None = None) -> dict[str, Any]:
    """One call of the engine's client, as {"value"} or {"error"}."""
    return page.evaluate(
        "([method, params, bytes]) => ask(method, params, bytes)",
        [method, params, None if payload is None else list(payload)],
    )


def cpython_reply(method: str, params: dict[str, Any], payload: bytes | None = None) -> dict[str, Any]:
    """The same call, answered here."""
    return json.loads(api.handle(json.dumps({"method": method, "params": params}), payload))


def assert_answers_as_cpython(page: Page) -> None:
    calls: list[tuple[str, dict[str, Any], bytes | None]] = [
        ("catalog", {}, None),
        ("open_checkpoint", OPEN, None),
        ("add_header", ADD_HEADER, FILE_START[:5]),
        ("add_header", ADD_HEADER, FILE_START),
        ("no such method", {}, None),
    ]
    for call in calls:
        assert ask(page, *call) == cpython_reply(*call)


def assert_gives_the_golden_reports(page: Page) -> None:
    """Every request of tests/golden gives the report that was accepted: same keys, same order, same values.

    Both are written by the browser, which writes 1.0 as 1.
    """
    requests: dict[str, dict[str, str]] = json.loads((GOLDEN / "requests.json").read_text("utf-8"))
    for name, query in requests.items():
        golden = (GOLDEN / "reports" / f"{name}.json").read_text("utf-8")
        answered, accepted = page.evaluate(
            "async ([query, golden]) => [await ask('plan', { query }), JSON.parse(golden)]"
            ".map((reply) => JSON.stringify(reply, null, 1))",
            [query, golden],
        )
        assert answered == accepted, name


def failure(statuses: list[dict[str, Any]]) -> dict[str, str]:
    """The error of a start that failed, which must be the last thing said."""
    assert [status["stage"] for status in statuses].index("failed") == len(statuses) - 1
    return statuses[-1]["error"]


def boots_tried(statuses: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(status["boot"] for status in statuses))


class TestOneZip:
    def test_starts_and_answers_as_cpython_does(self, boot: Callable[..., Any], page: Page) -> None:
        statuses = boot()
        assert statuses[-1] == {"kind": "status", "stage": "ready", "boot": "one-zip"}
        assert_answers_as_cpython(page)
        assert_gives_the_golden_reports(page)

    def test_tells_real_bytes_up_to_the_total(self, boot: Callable[..., Any]) -> None:
        progress = [status for status in boot() if "loaded" in status]
        totals = {status["total"] for status in progress}
        loaded = [status["loaded"] for status in progress]
        assert len(totals) == 1
        assert loaded == sorted(loaded)
        assert loaded[-1] == totals.pop()
        assert progress[-1]["stage"] == "start"
        assert len(progress) > 10

    def test_asks_for_nothing_outside_the_folder(
        self, boot: Callable[..., Any], faulty_site: FaultySite
    ) -> None:
        boot()
        outside = [path for path in faulty_site.requested if not path.startswith((f"{MOUNT}/", "/boot/"))]
        assert outside == []

    def test_a_host_that_misnames_wasm_does_not_matter(
        self, boot: Callable[..., Any], faulty_site: FaultySite
    ) -> None:
        faulty_site.break_file("*.wasm", headers={"content-type": "application/octet-stream"})
        assert boot()[-1]["boot"] == "one-zip"


class TestPackages:
    @pytest.mark.parametrize(
        "pattern",
        [
            pytest.param("*/engine-*.pack", id="archive"),
            pytest.param("*/pydantic_core-*.so.wasm", id="side-module"),
        ],
    )
    def test_takes_over_when_a_file_of_the_first_boot_is_missing(
        self,
        boot: Callable[..., Any],
        faulty_site: FaultySite,
        page: Page,
        pattern: str,
    ) -> None:
        faulty_site.break_file(pattern, status=404)
        statuses = boot()
        assert statuses[-1]["stage"] == "ready"
        assert boots_tried(statuses) == ["one-zip", "packages"]
        assert "answered 404" in next(status["detail"] for status in statuses if status["boot"] == "packages")
        assert_answers_as_cpython(page)
        assert_gives_the_golden_reports(page)

    @pytest.mark.parametrize(
        ("pattern", "body"),
        [
            pytest.param("*/engine-*.pack", b"no gzip", id="archive"),
            pytest.param("*/pydantic_core-*.so.wasm", b"no WebAssembly", id="side-module"),
        ],
    )
    def test_takes_over_when_a_file_of_the_first_boot_is_broken(
        self, boot: Callable[..., Any], faulty_site: FaultySite, pattern: str, body: bytes
    ) -> None:
        faulty_site.break_file(pattern, body=body)
        statuses = boot()
        assert statuses[-1] == {"kind": "status", "stage": "ready", "boot": "packages"}

    def test_takes_over_when_the_first_boot_stalls(
        self, boot: Callable[..., Any], faulty_site: FaultySite
    ) -> None:
        faulty_site.break_file("*/engine-*.pack", stalls=True)
        statuses = boot(stalls=1)
        assert statuses[-1] == {"kind": "status", "stage": "ready", "boot": "packages"}

    def test_tells_real_bytes_up_to_the_total(
        self, boot: Callable[..., Any], faulty_site: FaultySite
    ) -> None:
        faulty_site.break_file("*/engine-*.pack", status=404)
        progress = [status for status in boot() if status["boot"] == "packages" and "loaded" in status]
        assert progress[-1]["stage"] == "start"
        assert progress[-1]["loaded"] == progress[-1]["total"]


class TestFailure:
    def test_names_a_missing_file_that_both_boots_need(
        self, boot: Callable[..., Any], faulty_site: FaultySite, page: Page
    ) -> None:
        faulty_site.break_file("*/pyodide-*.asm.wasm", status=404)
        statuses = boot()
        error = failure(statuses)
        assert error["code"] == "engine-file"
        assert ".asm.wasm" in error["message"]
        assert "404" in error["message"]
        assert "dist" in error["hint"]
        assert boots_tried(statuses) == ["one-zip", "packages"]
        assert ask(page, "catalog", {})["error"] == error

    def test_names_a_missing_script(
        self, boot: Callable[..., Any], faulty_site: FaultySite
    ) -> None:
        faulty_site.break_file("*/pyodide-*.asm.js", status=404)
        error = failure(boot())
        assert error["code"] == "engine-file"
        assert ".asm.js" in error["message"]

    def test_a_call_made_early_is_refused_with_the_cause(
        self, boot: Callable[..., Any], faulty_site: FaultySite, page: Page
    ) -> None:
        faulty_site.break_file("*/engine/manifest.js", status=500)
        error = failure(boot())
        assert ask(page, "catalog", {}) == {"error": error}

    def test_says_that_the_policy_forbids_webassembly(
        self, boot: Callable[..., Any], faulty_site: FaultySite
    ) -> None:
        faulty_site.break_file("*/engine-worker.js", headers={"content-security-policy": "script-src 'self'"})
        statuses = boot()
        error = failure(statuses)
        assert error["code"] == "wasm-blocked"
        assert "wasm-unsafe-eval" in error["hint"]
        assert boots_tried(statuses) == ["one-zip"]

    def test_starts_under_a_policy_that_allows_only_what_it_needs(
        self, boot: Callable[..., Any], faulty_site: FaultySite, page: Page
    ) -> None:
        policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'"
        faulty_site.break_file("*/engine-worker.js", headers={"content-security-policy": policy})
        assert boot()[-1]["boot"] == "one-zip"
        assert_answers_as_cpython(page)

    def test_says_that_the_worker_could_not_start(
        self, boot: Callable[..., Any], faulty_site: FaultySite, console: ConsoleWatch
    ) -> None:
        faulty_site.break_file("/boot/boot.html", headers={"content-security-policy": "worker-src 'none'"})
        console.expect("worker-src|Content Security Policy")
        error = failure(boot())
        assert error["code"] == "worker-blocked"
        assert "engine-worker.js" in error["message"]
        assert "worker-src" in error["hint"]

    def test_says_that_the_worker_script_is_missing(
        self, boot: Callable[..., Any], faulty_site: FaultySite
    ) -> None:
        faulty_site.break_file("*/engine-worker.js", status=404)
        assert failure(boot())["code"] == "worker-blocked"

    def test_says_that_nothing_arrives(self, boot: Callable[..., Any], faulty_site: FaultySite) -> None:
        faulty_site.break_file("*/pyodide-*.asm.wasm", stalls=True)
        statuses = boot(stalls=2)
        error = failure(statuses)
        assert error["code"] == "engine-timeout"
        assert "download its files" in error["message"]
        assert boots_tried(statuses) == ["one-zip", "packages"]

    @pytest.mark.parametrize(
        ("lack", "code", "word"),
        [
            pytest.param("memory", "out-of-memory", "memory", id="memory"),
            pytest.param("webassembly", "no-webassembly", "WebAssembly", id="webassembly"),
        ],
    )
    def test_says_what_the_browser_lacks(
        self, boot: Callable[..., Any], lack: str, code: str, word: str
    ) -> None:
        error = failure(boot(worker=f"poor-worker.js%3Flacks={lack}%26dist={MOUNT}"))
        assert error["code"] == code
        assert word in error["message"]
