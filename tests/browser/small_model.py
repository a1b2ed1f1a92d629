"""A model small enough to be told by heart, and what the page shows when it was read, or could not be."""

import json
import time
from typing import Any

from playwright.sync_api import expect

from browser.plan_page import PlanPage
from browser.standin.hub import CDN_HOST, HUB_HOST, HubStandIn
from browser.standin.log import Exchange
from browser.standin.repo import Repo, StoredFile, Tensor, git_file, safetensors

WEIGHTS = "model.safetensors"

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 256,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
LAYER = {
    "input_layernorm.weight": (64,),
    "self_attn.q_proj.weight": (64, 64),
    "self_attn.k_proj.weight": (32, 64),
    "self_attn.v_proj.weight": (32, 64),
    "self_attn.o_proj.weight": (64, 64),
    "post_attention_layernorm.weight": (64,),
    "mlp.gate_proj.weight": (128, 64),
    "mlp.up_proj.weight": (128, 64),
    "mlp.down_proj.weight": (64, 128),
}
OUTER = {"model.embed_tokens.weight": (256, 64), "model.norm.weight": (64,), "lm_head.weight": (256, 64)}
# Two layers of 36,992 and 32,832 outside them.
NUM_PARAMS = 106_816
KV_BYTES_PER_TOKEN = 256
"""2 x 2 layers x 2 KV heads x 16 x 2 B."""


def layer(number: int) -> list[Tensor]:
    return [Tensor(f"model.layers.{number}.{name}", "BF16", shape) for name, shape in LAYER.items()]


OUTSIDE = [Tensor(name, "BF16", shape) for name, shape in OUTER.items()]
TENSORS = [*OUTSIDE, *layer(0), *layer(1)]


def small(repo_id: str, *, header_bytes: int | None = None) -> Repo:
    """A model of two layers in one file."""
    weights = safetensors(TENSORS, header_bytes=header_bytes)
    return Repo(repo_id, {"config.json": git_file(json.dumps(CONFIG)), WEIGHTS: weights})


def with_weights(repo_id: str, weights: StoredFile) -> Repo:
    return Repo(repo_id, {"config.json": git_file(json.dumps(CONFIG)), WEIGHTS: weights})


def facts(open_page: PlanPage) -> dict[str, Any]:
    return open_page.report()["model"]


def assert_read(open_page: PlanPage, repo: Repo) -> None:
    """The whole small model was read from the Hub, and nothing is in its way."""
    model = facts(open_page)
    assert (model["id"], model["source"], model["revision"]) == (repo.id, "hub", repo.sha)
    assert model["num_params"] == NUM_PARAMS
    assert open_page.report()["memory"]["kv_bytes_per_token_per_gpu"] == KV_BYTES_PER_TOKEN
    assert open_page.report()["verdict"]["code"] == "serves"
    assert open_page.alert == ""
    assert open_page.text("#load-status") == ""
    assert f"read from the Hub at {repo.sha[:7]}" in open_page.text("#basis")


def assert_rest_is_there(open_page: PlanPage) -> None:
    """What was asked stays on the page when the model cannot be read."""
    page = open_page.page
    expect(page.get_by_label("GPU", exact=True)).to_have_value("l4-24gb")
    expect(page.get_by_label("Users", exact=True)).to_have_value("2")
    expect(page.get_by_label("Context, tokens", exact=True)).to_have_value("1024")
    report = open_page.report()
    assert report["query"]["users"] == "2"
    assert report["gpu"]["id"] == "l4-24gb"
    assert report["verdict"]["code"] == "unknown"
    assert open_page.text("#load-status") == ""


def of_file(hub: HubStandIn, name: str = WEIGHTS) -> list[Exchange]:
    """Requests to the Hub for one file."""
    asked = hub.log.of(method="GET", host=HUB_HOST, containing="/resolve/")
    return [one for one in asked if name in one.path]


def assert_nothing_leaks(hub: HubStandIn) -> None:
    """An anonymous reader sends single ranges without preflight, and nothing about himself."""
    assert hub.log.preflights == []
    assert hub.log.exchanges != []
    for one in hub.log.exchanges:
        assert one.referer is None, one.line
        assert one.authorization is None, one.line
        assert one.headers.get("cookie") is None, one.line
    for one in hub.log.of(host=CDN_HOST):
        assert one.origin == "null", one.line
        assert one.range is not None, one.line


def wait_until_finished(open_page: PlanPage, exchanges: list[Exchange]) -> None:
    deadline = time.monotonic() + 10
    while not all(one.finished for one in exchanges) and time.monotonic() < deadline:
        open_page.page.wait_for_timeout(20)
    assert [one.line for one in exchanges if not one.finished] == [], "still waiting for a body nobody reads"
