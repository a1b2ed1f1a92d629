"""Files of the Hub that are not what they should be: the sentence on the page, and the rest of it."""

import json

import pytest

from browser.conftest import ConsoleWatch
from browser.plan_page import PlanPage
from browser.small_model import (
    CONFIG,
    OUTSIDE,
    TENSORS,
    WEIGHTS,
    assert_rest_is_there,
    facts,
    of_file,
    with_weights,
)
from browser.standin.hub import HubStandIn
from browser.standin.repo import Repo, StoredFile, from_header, git_file, raw_weights, safetensors

pytestmark = pytest.mark.browser


def lying(claimed: int, size: int) -> StoredFile:
    return raw_weights(claimed.to_bytes(8, "little") + b'{"a":', size)


HOLE = (
    b'{"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},'
    b'"b":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]}}'
)
MORE_THAN_THE_FILE = b'{"a":{"dtype":"BF16","shape":[1000],"data_offsets":[0,4]}}'


@pytest.mark.parametrize(
    ("file", "sentence", "reads"),
    [
        pytest.param(raw_weights(b""), "it is too small for a header", 1, id="empty"),
        pytest.param(raw_weights(b"abc"), "it is 3 bytes long", 1, id="3-bytes"),
        pytest.param(raw_weights(b"<!doctype html><p>Log in"), "it begins as a web page", 1, id="web-page"),
        pytest.param(
            raw_weights(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
            "it begins as a Git LFS pointer",
            1,
            id="lfs-pointer",
        ),
        pytest.param(lying(25_000_001, 10**9), "is more than the 25 MB that this page reads", 1, id="25-MB"),
        pytest.param(lying(10**8, 10**9), "is more than the 25 MB that this page reads", 1, id="100-MB"),
        pytest.param(lying(10**8 + 1, 10**9), "with a header length above 100 MB", 1, id="above-100-MB"),
        pytest.param(
            lying(70_000, 60_000),
            "its header should be 70000 bytes and the whole file is 60000",
            1,
            id="longer-than-the-file",
        ),
        pytest.param(from_header(HOLE), "model.safetensors: ", 1, id="hole"),
        pytest.param(from_header(MORE_THAN_THE_FILE), "model.safetensors: ", 1, id="shape-and-bytes-differ"),
    ],
)
def test_a_file_that_is_no_safetensors_file(
    hub: HubStandIn, open_page: PlanPage, console: ConsoleWatch, file: StoredFile, sentence: str, reads: int
) -> None:
    if file.size == 0:
        console.expect("status of 416")
    hub.add(with_weights("example/broken", file))
    open_page.choose("example/broken", until="error")

    assert sentence in open_page.alert
    assert WEIGHTS in open_page.alert
    assert len(of_file(hub)) == reads
    assert_rest_is_there(open_page)


def test_a_dtype_nobody_knows(hub: HubStandIn, open_page: PlanPage) -> None:
    head = safetensors([tensor for tensor in TENSORS if tensor.name != "lm_head.weight"])
    entries = json.loads(head.head[8:])
    start = head.size - len(head.head)
    entries["lm_head.weight"] = {"dtype": "F3_X", "shape": [256, 64], "data_offsets": [start, start + 6144]}
    hub.add(with_weights("example/f3", from_header(json.dumps(entries).encode())))
    open_page.choose("example/f3")

    assert "How lm_head.weight (1 x F3_X) packs its values is not known" in open_page.text("#warnings")
    model = facts(open_page)
    assert model["num_params"] is None
    # 90,432 values in BF16, and the bytes of the other as they are.
    assert model["weight_bytes"] == 187_008


def test_a_set_that_lacks_the_layers(hub: HubStandIn, open_page: PlanPage) -> None:
    hub.add(with_weights("example/outside-alone", safetensors(OUTSIDE)))
    open_page.choose("example/outside-alone")

    assert "config.json says 2 layers, the tensors are of none" in open_page.text("#verdict")
    assert_rest_is_there(open_page)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        pytest.param("{", "config.json is not JSON: Expecting property name", id="no-json"),
        pytest.param(
            json.dumps({**CONFIG, "hidden_size": float("nan")}),
            "config.json: hidden_size must be a whole number of at least 1, found nan.",
            id="nan",
        ),
        pytest.param("[]", "config.json must be a JSON object, found [].", id="a-list"),
    ],
)
def test_a_config_that_cannot_be_read(
    hub: HubStandIn, open_page: PlanPage, config: str, sentence: str
) -> None:
    hub.add(Repo("example/config", {"config.json": git_file(config), WEIGHTS: safetensors(TENSORS)}))
    open_page.choose("example/config")

    assert sentence in open_page.text("#verdict")
    assert_rest_is_there(open_page)


def test_a_config_far_too_large(hub: HubStandIn, open_page: PlanPage) -> None:
    hub.add(
        Repo(
            "example/config",
            {"config.json": StoredFile(b"{", 20_000_000, large=False), WEIGHTS: safetensors(TENSORS)},
        )
    )
    open_page.choose("example/config", until="error")

    assert "config.json is more than the 4 MB that this page reads." in open_page.alert
    assert_rest_is_there(open_page)
