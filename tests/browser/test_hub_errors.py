"""Each fault between page and file, made on purpose: the sentence it leads to, and the requests."""

import time

import pytest

from browser.conftest import ConsoleWatch
from browser.hub_page import CHECKPOINTS, HubPage, Outcome
from browser.standin.faults import (
    CdnHost,
    ContentRange,
    Delay,
    IgnoredRange,
    Silence,
    Status,
    Truncated,
)
from browser.standin.hub import CDN_HOST, DEAD_CDN_HOST, HUB_HOST, HubStandIn
from browser.standin.repo import Repo, StoredFile, Tensor, git_file, raw_weights, safetensors

pytestmark = pytest.mark.browser
WEIGHTS = "model.safetensors"
RATE_LIMITED = Status(
    429,
    "<h1>429</h1><p>We had to rate limit you.",
    headers={"RateLimit": '"resolvers";r=0;t=7', "Retry-After": "7"},
)


@pytest.fixture
def gpt2(hub: HubStandIn) -> Repo:
    return hub.add(Repo.from_folder(CHECKPOINTS / "openai-community__gpt2"))


def read(hub_page: HubPage, repo: Repo, **ask: object) -> Outcome:
    return hub_page.call("header", id=repo.id, sha=repo.sha, path=WEIGHTS, **ask)


def test_a_server_that_ignores_ranges_is_not_read(hub: HubStandIn, hub_page: HubPage) -> None:
    repo = hub.add(Repo("org/big", {WEIGHTS: raw_weights(safetensors([]).head, 5_000_000_000)}))
    hub.misbehave("cdn", "*", IgnoredRange())

    outcome = read(hub_page, repo)

    assert outcome.code == "no-range"
    assert outcome.error["message"] == (
        "The server offers model.safetensors of org/big only whole, and this page reads no more than headers."
    )
    (answer,) = hub.log.of(host=CDN_HOST)
    deadline = time.monotonic() + 10
    while not answer.finished and time.monotonic() < deadline:
        hub_page.page.wait_for_timeout(20)
    assert answer.finished, "the connection is closed, not left waiting with a body that nobody reads"
    assert answer.sent_bytes < 50_000_000


@pytest.mark.parametrize(
    ("content_range", "found"),
    [
        ("bytes 8-65535/{total}", "bytes 8 to 65535"),
        ("bytes 0-65536/{total}", "bytes 0 to 65536"),
        ("bytes 0-65535/4711", "a file of 4711 bytes where the Hub lists 299225728"),
        ("chapters 1-2/3", '"chapters 1-2/3"'),
    ],
)
def test_another_range_than_asked_is_refused(
    hub: HubStandIn, hub_page: HubPage, gpt2: Repo, content_range: str, found: str
) -> None:
    hub.misbehave("cdn", "*", ContentRange(content_range))

    outcome = read(hub_page, gpt2, size=gpt2.files[WEIGHTS].size)

    assert outcome.code == "bad-range"
    assert outcome.error["message"].endswith(f"the server sent another part than was asked for: {found}.")


def test_a_body_that_breaks_off_is_read_once_more(
    hub: HubStandIn, hub_page: HubPage, gpt2: Repo, console: ConsoleWatch
) -> None:
    hub.misbehave("cdn", "*", Truncated(10_000), times=1)
    console.expect("ERR_CONTENT_LENGTH_MISMATCH")

    outcome = read(hub_page, gpt2)

    assert outcome.value["length"] == 14_464
    assert outcome.retries == ["truncated"]
    assert len(hub.log.of(host=HUB_HOST)) == 2, "the second read went through resolve"


def test_a_body_that_breaks_off_twice_is_an_error(
    hub: HubStandIn, hub_page: HubPage, gpt2: Repo, console: ConsoleWatch
) -> None:
    hub.misbehave("cdn", "*", Truncated(10_000))
    console.expect("ERR_CONTENT_LENGTH_MISMATCH")

    outcome = read(hub_page, gpt2)

    assert outcome.code == "truncated"
    assert outcome.error["message"] == (
        "model.safetensors of openai-community/gpt2 broke off before all that was asked for had come."
    )
    assert len(hub.log.of(host=CDN_HOST)) == 2


def test_a_refused_signature_is_resolved_once_more(
    hub: HubStandIn, hub_page: HubPage, gpt2: Repo, console: ConsoleWatch
) -> None:
    hub.misbehave("cdn", "*", Status(403, "Auth failed: expired"), times=1)
    console.expect("status of 403")

    outcome = read(hub_page, gpt2)

    assert outcome.value["requests"] == 2
    assert outcome.retries == ["cdn-refused"]
    first, second = hub.log.of(host=HUB_HOST)
    assert first.path == second.path


def test_a_file_server_that_refuses_twice(
    hub: HubStandIn, hub_page: HubPage, gpt2: Repo, console: ConsoleWatch
) -> None:
    hub.misbehave("cdn", "*", Status(403, "Auth failed: invalid range"))
    console.expect("status of 403")

    outcome = read(hub_page, gpt2)

    assert outcome.code == "cdn-refused"
    assert (
        "refused to send model.safetensors of openai-community/gpt2 (status 403)" in outcome.error["message"]
    )
    assert len(hub.log.of(host=HUB_HOST)) == 2


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        pytest.param(raw_weights(b""), "it is too small for a header", id="empty"),
        pytest.param(raw_weights(b"\x02\0\0\0\0\0\0"), "it is 7 bytes long", id="7-bytes"),
        pytest.param(
            raw_weights(b"<!DOCTYPE html><title>Log in</title>"), "it begins as a web page", id="html"
        ),
        pytest.param(
            raw_weights(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"),
            "it begins as a Git LFS pointer, in the place of the file itself",
            id="lfs-pointer",
        ),
        pytest.param(
            raw_weights((100_000_001).to_bytes(8, "little") + b"{}", 10**10),
            "it begins as no safetensors file does, with a header length above 100 MB",
            id="above-the-format's-limit",
        ),
        pytest.param(
            raw_weights((100).to_bytes(8, "little") + b"{}      ", 20),
            "its header should be 100 bytes and the whole file is 20",
            id="header-longer-than-file",
        ),
    ],
)
def test_what_is_no_safetensors_file(
    hub: HubStandIn, hub_page: HubPage, request: pytest.FixtureRequest, file: StoredFile, sentence: str
) -> None:
    repo = hub.add(Repo("org/odd", {WEIGHTS: file}))
    if file.size == 0:
        request.getfixturevalue("console").expect("status of 416")

    outcome = read(hub_page, repo)

    assert outcome.code == "bad-file"
    assert outcome.error["message"] == f"model.safetensors of org/odd is not a safetensors file: {sentence}."
    assert len(hub.log.of(host=HUB_HOST)) == 1


@pytest.mark.parametrize("length", [25_000_001, 100_000_000])
def test_header_above_the_stated_limit_is_not_fetched(
    hub: HubStandIn, hub_page: HubPage, length: int
) -> None:
    file = raw_weights(length.to_bytes(8, "little") + b"{}", 10**10)
    repo = hub.add(Repo("org/huge", {WEIGHTS: file}))

    outcome = read(hub_page, repo)

    assert outcome.code == "too-large"
    assert outcome.error["message"] == (
        f"The header of model.safetensors, {length} bytes, is more than the 25 MB that this page reads."
    )
    assert [one.range for one in hub.log.of(host=CDN_HOST)] == ["bytes=0-65535"]


def test_missing_or_private_says_nothing_of_passwords(
    hub: HubStandIn, hub_page: HubPage, console: ConsoleWatch
) -> None:
    console.expect("status of 401")

    outcome = hub_page.call("info", id="nope/nope")

    assert outcome.code == "not-found"
    assert outcome.error["message"] == "nope/nope was not found on the Hub, or it is private."
    assert "password" not in outcome.error["message"] + outcome.error["hint"]
    assert len(hub.log.exchanges) == 1


def test_gated_model_gives_its_totals_and_then_says_so(
    hub: HubStandIn, hub_page: HubPage, console: ConsoleWatch
) -> None:
    repo = hub.add(Repo.from_folder(CHECKPOINTS / "meta-llama__Llama-3.1-8B", gated="manual"))
    console.expect("status of 401")

    info = hub_page.call("info", id=repo.id).value
    outcome = hub_page.call("header", id=repo.id, sha=repo.sha, path="model-00001-of-00004.safetensors")

    assert info["gated"] == "manual"
    assert info["parameters"] == {"BF16": 8_030_261_248}
    assert outcome.code == "gated"
    assert outcome.error["message"] == (
        "meta-llama/Llama-3.1-8B is gated: its files are open only to accounts that were given access."
    )
    assert outcome.error["link"] == "https://huggingface.co/meta-llama/Llama-3.1-8B"
    assert "token" in outcome.error["hint"]


def test_gated_shards_are_not_asked_for_one_after_another(
    hub: HubStandIn, hub_page: HubPage, console: ConsoleWatch
) -> None:
    shards = {
        f"model-{number:05}-of-00040.safetensors": [Tensor(f"layers.{number}.weight", "BF16", (8, 8))]
        for number in range(1, 41)
    }
    hub.add(Repo.from_tensors("org/closed", shards, gated="auto"))
    console.expect("status of 401")

    outcome = hub_page.call("model", reference="org/closed")

    assert outcome.code == "gated"
    assert len(hub.log.of(containing="/resolve/")) == 1


def test_unknown_revision(hub: HubStandIn, hub_page: HubPage, gpt2: Repo, console: ConsoleWatch) -> None:
    console.expect("status of 404")

    outcome = hub_page.call("info", id=gpt2.id, revision="v9")

    assert outcome.code == "bad-revision"
    assert outcome.error["message"] == 'openai-community/gpt2 has no revision "v9".'


def test_absent_file_is_not_an_absent_model(
    hub: HubStandIn, hub_page: HubPage, gpt2: Repo, console: ConsoleWatch
) -> None:
    console.expect("status of 404")

    outcome = hub_page.call("text", id=gpt2.id, sha=gpt2.sha, path="hf_quant_config.json")

    assert outcome.code == "no-file"
    assert outcome.error["message"] == "openai-community/gpt2 has no file hf_quant_config.json."
    assert outcome.error["link"] == f"https://huggingface.co/openai-community/gpt2/tree/{gpt2.sha}"


def test_disabled_model(hub: HubStandIn, hub_page: HubPage, gpt2: Repo, console: ConsoleWatch) -> None:
    gpt2.disabled = True
    console.expect("status of 403")

    from_info = hub_page.call("info", id=gpt2.id)
    from_file = read(hub_page, gpt2)

    assert from_info.code == from_file.code == "disabled"
    assert from_file.error["message"] == "openai-community/gpt2 is disabled on the Hub."


def test_rate_limit_is_waited_for(
    hub: HubStandIn, hub_page: HubPage, gpt2: Repo, console: ConsoleWatch
) -> None:
    hub.misbehave("hub", "*/resolve/*", RATE_LIMITED, times=3)
    console.expect("status of 429")

    outcome = read(hub_page, gpt2)

    assert outcome.value["requests"] == 4
    countdown = [event["secondsLeft"] for event in outcome.events if event["kind"] == "waiting"]
    assert countdown == [*range(5, 0, -1), *range(10, 0, -1), *range(20, 0, -1)]


def test_rate_limit_that_outlasts_the_window(
    hub: HubStandIn, hub_page: HubPage, gpt2: Repo, console: ConsoleWatch
) -> None:
    hub.misbehave("hub", "*", RATE_LIMITED)
    console.expect("status of 429")

    outcome = hub_page.call("info", id=gpt2.id)

    assert outcome.code == "rate-limited"
    assert outcome.error["message"] == "The Hub takes no more requests from this address for now."
    assert sum(outcome.slept) == 300_000
    assert len(hub.log.exchanges) == 7


def test_waiting_can_be_cancelled(
    hub: HubStandIn, hub_page: HubPage, gpt2: Repo, console: ConsoleWatch
) -> None:
    hub.misbehave("hub", "*", RATE_LIMITED)
    console.expect("status of 429")

    outcome = hub_page.call("info", id=gpt2.id, cancelAfterEvents=3)

    assert outcome.error["name"] == "AbortError"
    assert [event["secondsLeft"] for event in outcome.events] == [5, 4, 3]
    assert len(hub.log.exchanges) == 1


def test_all_shards_wait_together(hub: HubStandIn, hub_page: HubPage, console: ConsoleWatch) -> None:
    shards = {
        f"model-{number:05}-of-00040.safetensors": [Tensor(f"layers.{number}.weight", "BF16", (8, 8))]
        for number in range(1, 41)
    }
    hub.add(Repo.from_tensors("org/many", shards))
    hub.misbehave("hub", "*-0001*", RATE_LIMITED, times=6)
    hub.misbehave("cdn", "*", Delay(0.01))
    console.expect("status of 429")

    outcome = hub_page.call("model", reference="org/many")

    assert len(outcome.value["headers"]) == 40
    refused = [one for one in hub.log.exchanges if one.status == 429]
    assert len(refused) == 6
    assert len(hub.log.of(host=HUB_HOST, containing="/resolve/")) == 46
    assert sum(outcome.slept) < 300_000


def test_rate_limit_without_cors_is_one_of_the_unexplained(
    hub: HubStandIn, hub_page: HubPage, gpt2: Repo, console: ConsoleWatch
) -> None:
    hub.misbehave("hub", "*", Status(429, RATE_LIMITED.body, cors=False))
    console.expect("blocked by CORS policy", "ERR_FAILED")

    outcome = hub_page.call("info", id=gpt2.id)

    assert outcome.code == "unreachable"
    assert outcome.error["message"] == (
        "huggingface.co could not be reached, or turned this page away without a reason."
    )
    assert "Too many requests" in outcome.error["hint"]


def test_outage_is_tried_twice_more(
    hub: HubStandIn, hub_page: HubPage, gpt2: Repo, console: ConsoleWatch
) -> None:
    hub.misbehave("hub", "/api/*", Status(503, "<h1>Service unavailable</h1>"), times=2)
    console.expect("status of 503")

    outcome = hub_page.call("info", id=gpt2.id)

    assert outcome.value["id"] == gpt2.id
    assert outcome.retries == ["unavailable", "unavailable"]
    assert outcome.slept == [1_000, 4_000]


def test_outage_that_stays(hub: HubStandIn, hub_page: HubPage, gpt2: Repo, console: ConsoleWatch) -> None:
    hub.misbehave("hub", "/api/*", Status(503, "<h1>Service unavailable</h1>"))
    console.expect("status of 503")

    outcome = hub_page.call("info", id=gpt2.id)

    assert outcome.code == "unavailable"
    assert outcome.error["message"] == "The Hub answered with an error of its own (status 503)."
    assert len(hub.log.exchanges) == 3


def test_nobody_listens(hub_page: HubPage, console: ConsoleWatch) -> None:
    console.expect("ERR_CONNECTION_REFUSED")

    outcome = hub_page.call("info", id="org/name", endpoint=f"https://{DEAD_CDN_HOST}")

    assert outcome.code == "unreachable"
    assert outcome.error["message"].startswith(f"{DEAD_CDN_HOST} could not be reached")


@pytest.mark.parametrize("silent", ["hub", "cdn"])
def test_silence_ends(hub: HubStandIn, hub_page: HubPage, gpt2: Repo, silent: str) -> None:
    hub.misbehave("hub" if silent == "hub" else "cdn", "*", Silence())

    outcome = read(hub_page, gpt2, idleMs=200)

    assert outcome.code == "timeout"
    assert outcome.error["message"] == (
        "Nothing came for 0.2 s when the Hub was asked for model.safetensors of openai-community/gpt2."
    )


def test_a_silent_read_can_be_cancelled(hub: HubStandIn, hub_page: HubPage, gpt2: Repo) -> None:
    hub.misbehave("cdn", "*", Silence())

    outcome = hub_page.call("model", reference=gpt2.id, cancelAfterMs=200)

    assert outcome.error["name"] == "AbortError"


def test_dead_file_servers_are_told_from_a_dead_hub(
    hub: HubStandIn, hub_page: HubPage, gpt2: Repo, console: ConsoleWatch
) -> None:
    hub.misbehave("hub", "*/resolve/*", CdnHost(DEAD_CDN_HOST))
    console.expect("ERR_CONNECTION_REFUSED")

    outcome = read(hub_page, gpt2)

    assert outcome.code == "cdn-unreachable"
    assert outcome.error["message"] == (
        "The Hub answers, but the server that holds model.safetensors of openai-community/gpt2"
        " could not be read."
    )
    assert [one.path for one in hub.log.exchanges][2:] == ["/api/models"]


def test_text_above_its_limit_is_let_go(hub: HubStandIn, hub_page: HubPage) -> None:
    repo = hub.add(Repo("org/wordy", {"config.json": git_file("{" + " " * 20_000_000 + "}")}))

    outcome = hub_page.call("text", id=repo.id, sha=repo.sha, path="config.json")

    assert outcome.code == "too-large"
    assert outcome.error["message"] == "config.json is more than the 4 MB that this page reads."


def test_names_that_climb_are_not_sent(hub: HubStandIn, hub_page: HubPage, gpt2: Repo) -> None:
    outcomes = [
        hub_page.call("header", id=gpt2.id, sha=gpt2.sha, path=path)
        for path in ("../../other/model.safetensors", "/model.safetensors", "https://evil.example/x", "a//b")
    ]

    assert {outcome.code for outcome in outcomes} == {"bad-file"}
    assert hub.log.exchanges == []
