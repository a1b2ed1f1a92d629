"""A token opens what it should, and goes to no one but the Hub."""

import pytest

from browser.conftest import ConsoleWatch
from browser.hub_page import CHECKPOINTS, HubPage
from browser.standin.faults import Preflight, Status
from browser.standin.hub import CDN_HOST, HUB_HOST, Account, HubStandIn
from browser.standin.repo import Repo

pytestmark = pytest.mark.browser
LLAMA = "meta-llama/Llama-3.1-8B"
SHARD = "model-00001-of-00004.safetensors"


@pytest.fixture
def llama(hub: HubStandIn) -> Repo:
    hub.accounts["hf_approved"] = Account(approved=frozenset({LLAMA}))
    hub.accounts["hf_stranger"] = Account()
    hub.accounts["hf_narrow"] = Account(approved=frozenset({LLAMA}), may_read=False)
    return hub.add(Repo.from_folder(CHECKPOINTS / "meta-llama__Llama-3.1-8B", gated="manual"))


def assert_token_stayed_with_the_hub(hub: HubStandIn, token: str) -> None:
    for exchange in hub.log.exchanges:
        if exchange.host != HUB_HOST:
            assert exchange.authorization is None
        assert token not in exchange.path + exchange.query
        assert exchange.referer is None


def test_approved_token_reads_a_gated_model(hub: HubStandIn, hub_page: HubPage, llama: Repo) -> None:
    value = hub_page.call("model", reference=LLAMA, token="hf_approved").value

    assert len(value["headers"]) == 4
    gets = hub.log.of(method="GET", host=HUB_HOST)
    assert {one.authorization for one in gets} == {"Bearer hf_approved"}
    assert {one.asked_headers for one in hub.log.preflights} == {"authorization"}
    assert len(hub.log.of(method="GET", host=CDN_HOST)) == 4
    assert_token_stayed_with_the_hub(hub, "hf_approved")


def test_file_server_that_refuses_the_preflight_does_not_matter_here(
    hub: HubStandIn, hub_page: HubPage, llama: Repo
) -> None:
    hub.misbehave("cdn", "*", Preflight(403))

    value = hub_page.call("model", reference=LLAMA, token="hf_approved").value

    assert len(value["headers"]) == 4
    assert hub.log.of(method="OPTIONS", host=CDN_HOST) == [], "Chromium sends none after the redirect"


def test_file_server_that_refuses_for_the_token_leaves_other_ways(
    hub: HubStandIn, hub_page: HubPage, console: ConsoleWatch, llama: Repo
) -> None:
    # what Firefox meets when the CDN refuses the preflight that it alone sends: a TypeError without a reason
    hub.misbehave("cdn", "*", Status(403, "Forbidden", cors=False))
    console.expect("blocked by CORS policy", "ERR_FAILED")

    outcome = hub_page.call("header", id=LLAMA, sha=llama.sha, path=SHARD, token="hf_approved")

    assert outcome.code == "cdn-unreachable"
    assert outcome.error["hint"] == (
        "A firewall may stop *.hf.co, or that server refuses what this browser asks when there is a token."
        " Try another browser, or an open model without the token,"
        " or read the model's folder on this computer."
    )


def test_small_file_with_a_token(hub: HubStandIn, hub_page: HubPage, llama: Repo) -> None:
    text = hub_page.call("text", id=LLAMA, sha=llama.sha, path="config.json", token="hf_approved").value

    assert text == (CHECKPOINTS / "meta-llama__Llama-3.1-8B" / "config.json").read_text("utf-8")


@pytest.mark.parametrize(
    ("token", "status", "code", "message", "link"),
    [
        pytest.param(
            "hf_stranger",
            403,
            "gated-not-approved",
            f"{LLAMA} is gated, and the account of this token has not been let in.",
            f"https://huggingface.co/{LLAMA}",
            id="not-approved",
        ),
        pytest.param(
            "hf_narrow",
            403,
            "forbidden",
            f"The Hub does not let this token read {SHARD} of {LLAMA}.",
            "https://huggingface.co/settings/tokens",
            id="fine-grained",
        ),
        pytest.param(
            "hf_expired",
            401,
            "bad-token",
            "The Hub does not accept this token.",
            "https://huggingface.co/settings/tokens",
            id="not-accepted",
        ),
    ],
)
def test_token_that_does_not_open_the_file(
    hub: HubStandIn,
    hub_page: HubPage,
    console: ConsoleWatch,
    llama: Repo,
    token: str,
    status: int,
    code: str,
    message: str,
    link: str,
) -> None:
    console.expect(f"status of {status}")

    outcome = hub_page.call("header", id=LLAMA, sha=llama.sha, path=SHARD, token=token)

    assert (outcome.code, outcome.error["message"], outcome.error["link"]) == (code, message, link)
    assert token not in str(outcome)
    assert_token_stayed_with_the_hub(hub, token)


def test_missing_model_with_a_token(
    hub: HubStandIn, hub_page: HubPage, console: ConsoleWatch, llama: Repo
) -> None:
    console.expect("status of 404")

    outcome = hub_page.call("info", id="nope/nope", token="hf_approved")

    assert outcome.code == "not-found"
    assert outcome.error["message"] == "nope/nope was not found on the Hub, or it is private."


def test_private_model_opens_to_its_owner_only(
    hub: HubStandIn, hub_page: HubPage, console: ConsoleWatch
) -> None:
    repo = Repo.from_folder(CHECKPOINTS / "openai-community__gpt2", "org/secret")
    repo.private = True
    hub.add(repo)
    hub.accounts["hf_owner"] = Account(private=frozenset({"org/secret"}))
    hub.accounts["hf_other"] = Account()
    console.expect("status of 404", "status of 401")

    owner = hub_page.call("model", reference="org/secret", token="hf_owner")
    other = hub_page.call("model", reference="org/secret", token="hf_other")
    nobody = hub_page.call("model", reference="org/secret")

    assert owner.value["info"]["private"] is True
    assert len(owner.value["headers"]) == 1
    assert other.code == nobody.code == "not-found"


def test_renamed_model_with_a_token(hub: HubStandIn, hub_page: HubPage, llama: Repo) -> None:
    hub.renamed["meta-llama/Meta-Llama-3.1-8B"] = LLAMA

    value = hub_page.call("model", reference="meta-llama/Meta-Llama-3.1-8B", token="hf_approved").value

    assert value["info"]["id"] == LLAMA
    described = [(one.method, one.path, one.status) for one in hub.log.of(containing="/api/models/")]
    assert described == [
        ("OPTIONS", "/api/models/meta-llama/Meta-Llama-3.1-8B", 200),
        ("GET", "/api/models/meta-llama/Meta-Llama-3.1-8B", 307),
        ("OPTIONS", f"/api/models/{LLAMA}", 200),
        ("GET", f"/api/models/{LLAMA}", 200),
    ]


def test_public_model_with_a_token_that_is_not_accepted(hub: HubStandIn, hub_page: HubPage) -> None:
    repo = hub.add(Repo.from_folder(CHECKPOINTS / "openai-community__gpt2"))

    value = hub_page.call("model", reference=repo.id, token="hf_expired").value

    assert len(value["headers"]) == 1, "the Hub answers, so there is nothing to say"


def test_text_that_cannot_be_a_token_is_not_sent(hub: HubStandIn, hub_page: HubPage) -> None:
    outcome = hub_page.call("info", id="org/name", token="hf_a\r\nX-Evil: 1")

    assert outcome.code == "bad-token"
    assert hub.log.exchanges == []
