"""What the Hub reader sends and gets when the Hub does its part."""

import hashlib
import json

import pytest

from browser.conftest import ConsoleWatch
from browser.hub_page import CHECKPOINTS, HubPage
from browser.standin.faults import CdnHost, Delay, HiddenHeaders
from browser.standin.hub import CDN_HOST, DEAD_CDN_HOST, HUB_HOST, OTHER_CDN_HOST, HubStandIn
from browser.standin.repo import Repo, Tensor, git_file, raw_weights, safetensors

pytestmark = pytest.mark.browser


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def small_tensors(count: int) -> list[Tensor]:
    return [Tensor(f"model.layers.{layer}.mlp.up_proj.weight", "BF16", (64, 32)) for layer in range(count)]


def test_one_request_describes_the_model(hub: HubStandIn, hub_page: HubPage) -> None:
    repo = hub.add(Repo.from_folder(CHECKPOINTS / "meta-llama__Llama-3.1-8B"))

    info = hub_page.call("info", id=repo.id).value

    assert info["id"] == "meta-llama/Llama-3.1-8B"
    assert info["sha"] == repo.sha
    assert info["gated"] is False
    assert info["parameters"] == {"BF16": 8_030_261_248}
    sizes = {file["name"]: file["size"] for file in info["files"]}
    assert sizes["model-00001-of-00004.safetensors"] == 4_953_586_352
    assert sizes["config.json"] == 825
    assert hub.log.lines == ["GET huggingface.co/api/models/meta-llama/Llama-3.1-8B - -> 200"]
    assert hub.log.exchanges[0].query == "blobs=true"


def test_config_is_text_after_a_redirect_and_gzip(hub: HubStandIn, hub_page: HubPage) -> None:
    repo = hub.add(Repo.from_folder(CHECKPOINTS / "openai-community__gpt2"))

    text = hub_page.call("text", id=repo.id, sha=repo.sha, path="config.json").value

    assert text == (CHECKPOINTS / "openai-community__gpt2" / "config.json").read_text("utf-8")
    assert [(one.path, one.status) for one in hub.log.exchanges] == [
        (f"/openai-community/gpt2/resolve/{repo.sha}/config.json", 307),
        (f"/api/resolve-cache/models/openai-community/gpt2/{repo.sha}/config.json", 200),
    ]
    assert hub.log.exchanges[1].sent_bytes < len(text), "the stand-in compressed it"


def test_anonymous_header_read_needs_no_preflight_and_leaks_nothing(
    hub: HubStandIn, hub_page: HubPage
) -> None:
    repo = hub.add(Repo.from_folder(CHECKPOINTS / "openai-community__gpt2"))
    weights = repo.files["model.safetensors"]

    header = hub_page.call("header", id=repo.id, sha=repo.sha, path="model.safetensors").value

    assert header == {
        "length": 14_464,
        "sha256": digest(weights.head),
        "fileSize": 299_225_728,
        "requests": 1,
    }
    to_hub, to_cdn = hub.log.exchanges
    assert hub.log.preflights == []
    assert (to_hub.host, to_hub.status, to_hub.range) == (HUB_HOST, 302, "bytes=0-65535")
    assert (to_cdn.host, to_cdn.status, to_cdn.range) == (CDN_HOST, 206, "bytes=0-65535")
    assert to_hub.origin == hub_page.page.evaluate("location.origin")
    assert to_cdn.origin == "null"
    for exchange in (to_hub, to_cdn):
        assert exchange.referer is None
        assert exchange.authorization is None
        assert "cookie" not in exchange.headers
        assert exchange.accept_encoding == "identity"


def test_long_header_takes_a_second_range_through_resolve(hub: HubStandIn, hub_page: HubPage) -> None:
    weights = safetensors(small_tensors(900), header_bytes=100_000)
    repo = hub.add(Repo("org/long", {"model.safetensors": weights}))

    header = hub_page.call("header", id=repo.id, sha=repo.sha, path="model.safetensors").value

    assert header["sha256"] == digest(weights.head)
    assert header["requests"] == 2
    asked = [(one.host, one.range) for one in hub.log.exchanges]
    assert asked == [
        (HUB_HOST, "bytes=0-65535"),
        (CDN_HOST, "bytes=0-65535"),
        (HUB_HOST, "bytes=65536-100007"),
        (CDN_HOST, "bytes=65536-100007"),
    ]
    first, second = hub.log.of(host=CDN_HOST)
    assert first.query != second.query, "each range has its own signed address"


@pytest.mark.parametrize(("beyond", "requests"), [(-8, 1), (-7, 1), (-1, 1), (0, 1), (1, 2), (7, 2), (8, 2)])
def test_no_byte_is_lost_where_header_and_first_read_end_together(
    hub: HubStandIn, hub_page: HubPage, beyond: int, requests: int
) -> None:
    weights = safetensors(small_tensors(20), header_bytes=65_536 - 8 + beyond)
    repo = hub.add(Repo("org/edge", {"model.safetensors": weights}))

    header = hub_page.call("header", id=repo.id, sha=repo.sha, path="model.safetensors").value

    assert header["length"] == 65_536 + beyond
    assert header["sha256"] == digest(weights.head)
    assert header["requests"] == requests


def test_file_shorter_than_the_first_read(hub: HubStandIn, hub_page: HubPage) -> None:
    weights = safetensors(small_tensors(2))
    repo = hub.add(Repo("org/tiny", {"model.safetensors": weights}))
    assert weights.size < 65_536

    header = hub_page.call(
        "header", id=repo.id, sha=repo.sha, path="model.safetensors", size=weights.size
    ).value

    assert header["fileSize"] == weights.size
    assert header["sha256"] == digest(weights.head)
    assert hub.log.of(host=CDN_HOST)[0].sent_bytes == weights.size


def test_sharded_model_reads_each_shard_once(hub: HubStandIn, hub_page: HubPage) -> None:
    repo = hub.add(Repo.from_folder(CHECKPOINTS / "meta-llama__Llama-3.1-8B"))

    value = hub_page.call("model", reference="https://huggingface.co/meta-llama/Llama-3.1-8B/tree/main").value

    shards = [name for name in repo.files if name.endswith(".safetensors")]
    assert sorted(header["name"] for header in value["headers"]) == shards
    for header in value["headers"]:
        assert header["sha256"] == digest(repo.files[header["name"]].head)
        assert header["fileSize"] == repo.files[header["name"]].size
    read = hub.log.of(host=HUB_HOST, containing="/resolve/")
    assert sorted(one.path.rsplit("/", 1)[-1] for one in read) == shards
    assert value["progress"][-1] == {"done": 4, "total": 4, "bytes": 6_832 + 12_328 + 11_672 + 3_016}


def expert_shards(count: int) -> dict[str, list[Tensor]]:
    """A mixture of experts: a short first shard, headers of some 70 kB, a shorter last one."""
    shards: dict[str, list[Tensor]] = {}
    for number in range(1, count + 1):
        experts = 12 if number == 1 else 40 if number == count else 96 + number % 3
        tensors = [Tensor("model.embed_tokens.weight", "BF16", (129_280, 7_168))] if number == 1 else []
        for expert in range(experts):
            for projection in ("gate_proj", "up_proj", "down_proj"):
                name = f"model.layers.{number}.mlp.experts.{expert}.{projection}.weight"
                tensors.append(Tensor(name, "F8_E4M3", (2_048, 7_168)))
                tensors.append(Tensor(f"{name}_scale_inv", "F32", (16, 56)))
        shards[f"model-{number:05}-of-{count:06}.safetensors"] = tensors
    return shards


def test_163_shards_take_one_request_each(hub: HubStandIn, hub_page: HubPage) -> None:
    repo = hub.add(Repo.from_tensors("org/experts", expert_shards(163)))
    hub.misbehave("cdn", "*", Delay(0.02))
    exact = {name: file.head for name, file in repo.files.items() if name.endswith(".safetensors")}
    above_64_kib = sum(len(head) > 65_536 for head in exact.values())
    assert above_64_kib == 161, "a fixed first read of 64 KiB would need a second one for nearly all"

    value = hub_page.call("model", reference="org/experts").value

    assert {header["name"]: header["sha256"] for header in value["headers"]} == {
        name: digest(head) for name, head in exact.items()
    }
    reads = hub.log.of(host=HUB_HOST, containing="/resolve/")
    assert len(reads) <= 163 * 1.05
    assert hub.log.preflights == []
    sent = sum(one.sent_bytes for one in hub.log.of(host=CDN_HOST))
    assert sent <= 1.3 * sum(len(head) for head in exact.values())
    assert hub.log.max_in_flight <= 16


def test_content_range_that_pages_may_not_read(hub: HubStandIn, hub_page: HubPage) -> None:
    weights = safetensors(small_tensors(900), header_bytes=100_000)
    repo = hub.add(Repo("org/hidden", {"model.safetensors": weights}))
    hub.misbehave("cdn", "*", HiddenHeaders())

    header = hub_page.call("header", id=repo.id, sha=repo.sha, path="model.safetensors").value

    assert header["sha256"] == digest(weights.head)
    assert header["fileSize"] is None, "not guessed"


@pytest.mark.parametrize("asked", ["gpt2", "OpenAI-Community/GPT2"])
def test_other_spelling_leads_to_the_present_id(hub: HubStandIn, hub_page: HubPage, asked: str) -> None:
    repo = hub.add(Repo.from_folder(CHECKPOINTS / "openai-community__gpt2"))
    hub.renamed["gpt2"] = repo.id

    value = hub_page.call("model", reference=asked).value

    assert value["info"]["id"] == "openai-community/gpt2"
    assert [(one.path, one.status, one.query) for one in hub.log.of(containing="/api/models/")] == [
        (f"/api/models/{asked}", 307, "blobs=true"),
        ("/api/models/openai-community/gpt2", 200, "blobs=true"),
    ]
    (read,) = hub.log.of(host=HUB_HOST, containing="/resolve/")
    assert read.path.startswith("/openai-community/gpt2/resolve/")


@pytest.mark.parametrize(
    "reference", ["org/branchy@refs/pr/1", "https://huggingface.co/org/branchy/tree/refs%2Fpr%2F1"]
)
def test_revision_with_slashes_is_one_segment(hub: HubStandIn, hub_page: HubPage, reference: str) -> None:
    converted = "b" * 40
    repo = Repo("org/branchy", {"model.safetensors": safetensors(small_tensors(3))})
    repo.revisions["refs/pr/1"] = converted
    hub.add(repo)

    value = hub_page.call("model", reference=reference).value

    assert value["info"]["sha"] == converted
    (info,) = hub.log.of(containing="/api/models/")
    assert info.path == "/api/models/org/branchy/revision/refs%2Fpr%2F1"
    (read,) = hub.log.of(host=HUB_HOST, containing="/resolve/")
    assert read.path == f"/org/branchy/resolve/{converted}/model.safetensors"


def test_file_names_are_encoded_once(hub: HubStandIn, hub_page: HubPage) -> None:
    weights = raw_weights(safetensors(small_tensors(1)).head, 10_000)
    repo = hub.add(
        Repo("org/names", {"sub folder/a+b #1.safetensors": weights, "é.json": git_file(json.dumps({}))})
    )

    header = hub_page.call("header", id=repo.id, sha=repo.sha, path="sub folder/a+b #1.safetensors")
    text = hub_page.call("text", id=repo.id, sha=repo.sha, path="é.json")

    assert header.value["sha256"] == digest(weights.head)
    assert text.value == "{}"
    assert hub.log.exchanges[0].path == f"/org/names/resolve/{repo.sha}/sub%20folder/a%2Bb%20%231.safetensors"


def test_dead_file_server_is_left_for_another(
    hub: HubStandIn, hub_page: HubPage, console: ConsoleWatch
) -> None:
    repo = hub.add(Repo.from_folder(CHECKPOINTS / "openai-community__gpt2"))
    hub.misbehave("hub", "*/model.safetensors", CdnHost(DEAD_CDN_HOST), times=1)
    hub.misbehave("hub", "*/model.safetensors", CdnHost(OTHER_CDN_HOST))
    console.expect(rf"ERR_CONNECTION_REFUSED \[https://{DEAD_CDN_HOST}/")

    outcome = hub_page.call("header", id=repo.id, sha=repo.sha, path="model.safetensors")

    assert outcome.value["requests"] == 2
    assert outcome.retries == ["unreachable"]
    assert [one.host for one in hub.log.exchanges] == [HUB_HOST, HUB_HOST, OTHER_CDN_HOST]


@pytest.mark.parametrize(
    "text",
    [
        "<b>x</b>/y",
        "../../etc",
        "javascript:alert(1)",
        "https://evil.example/org/name",
        "datasets/squad",
        "a/b/c",
    ],
)
def test_text_that_names_no_model_is_never_sent(hub: HubStandIn, hub_page: HubPage, text: str) -> None:
    outcome = hub_page.call("model", reference=text)

    assert outcome.value["kind"] == "problem"
    assert hub.log.exchanges == []
