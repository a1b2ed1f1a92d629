"""The worker's door: every method, and that nothing is raised through it."""

import json
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from willitserve import api

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 256,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def call(method: str, params: object = None, payload: bytes | None = None) -> Any:  # noqa: ANN401  a JSON reply
    reply = json.loads(api.handle(json.dumps({"method": method, "params": params or {}}), payload))
    assert "error" not in reply, reply["error"]
    return reply["value"]


def failure(method: str, params: object = None, payload: bytes | None = None) -> dict[str, str]:
    return json.loads(api.handle(json.dumps({"method": method, "params": params or {}}), payload))["error"]


def tensors() -> Iterator[tuple[str, list[int]]]:
    yield "model.embed_tokens.weight", [256, 64]
    for i in range(2):
        at = f"model.layers.{i}."
        yield at + "self_attn.q_proj.weight", [64, 64]
        yield at + "self_attn.k_proj.weight", [32, 64]
        yield at + "self_attn.v_proj.weight", [32, 64]
        yield at + "self_attn.o_proj.weight", [64, 64]
        yield at + "mlp.gate_proj.weight", [128, 64]
        yield at + "mlp.up_proj.weight", [128, 64]
        yield at + "mlp.down_proj.weight", [64, 128]
        yield at + "input_layernorm.weight", [64]
        yield at + "post_attention_layernorm.weight", [64]
    yield "model.norm.weight", [64]
    yield "lm_head.weight", [256, 64]


def header_of(entries: Iterator[tuple[str, list[int]]]) -> tuple[bytes, int]:
    """(first bytes, file size) of a BF16 file with these tensors."""
    table: dict[str, object] = {}
    end = 0
    for name, shape in entries:
        size = 2
        for dim in shape:
            size *= dim
        table[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(table).encode()
    return struct.pack("<Q", len(text)) + text, 8 + len(text) + end


def open_small(key: str = "small") -> None:
    call(
        "open_checkpoint",
        {
            "key": key,
            "model_id": "org/small",
            "revision": "0" * 40,
            "config": json.dumps(CONFIG),
            "read": ["model.safetensors"],
        },
    )


def test_catalog_lists_what_a_form_needs() -> None:
    value = call("catalog")
    assert {"id", "name", "vendor", "memory_text", "bandwidth_text"} <= set(value["gpus"][0])
    ids = {model["id"] for model in value["models"]}
    assert {"meta-llama/Llama-3.3-70B-Instruct", "Qwen/Qwen3-8B", "deepseek-ai/DeepSeek-V3"} <= ids
    assert value["defaults"]["users"] == "1"
    assert value["versions"]["core"]


def test_a_checkpoint_is_read_header_by_header_and_planned() -> None:
    open_small()
    header, size = header_of(tensors())
    done = call("add_header", {"key": "small", "file": "model.safetensors", "file_size": size}, header)
    assert done == {"tensors": 21, "done": 1, "of": 1}
    report = call(
        "plan",
        {
            "query": {"model": "org/small", "gpu": "l4-24gb", "users": "4", "context": "1024"},
            "checkpoint": "small",
        },
    )
    assert report["verdict"]["code"] == "serves"
    # 2 layers x (q and o 64x64, k and v 32x64, three of 128x64, two norms of 64) + two of 256x64 + one norm
    assert report["model"]["num_params"] == 2 * (2 * 4096 + 2 * 2048 + 3 * 8192 + 128) + 2 * 16384 + 64
    assert report["memory"]["kv_bytes_per_token_per_gpu"] == 2 * 2 * 2 * 16 * 2
    assert report["model"]["source"] == "hub"
    call("drop", {"key": "small"})
    assert failure("plan", {"query": {}, "checkpoint": "small"})["code"] == "input"


def test_a_checkpoint_with_a_missing_file_says_which() -> None:
    call(
        "open_checkpoint",
        {
            "key": "two",
            "model_id": "org/two",
            "config": json.dumps(CONFIG),
            "read": ["a.safetensors", "b.safetensors"],
        },
    )
    header, size = header_of(tensors())
    call("add_header", {"key": "two", "file": "a.safetensors", "file_size": size}, header)
    report = call("plan", {"query": {"model": "org/two", "gpu": "l4-24gb"}, "checkpoint": "two"})
    assert report["verdict"]["code"] == "unknown"
    assert "b.safetensors is missing" in report["verdict"]["sentence"]


def test_a_lying_header_is_refused_with_the_reason() -> None:
    open_small("lying")
    header, size = header_of(tensors())
    error = failure(
        "add_header", {"key": "lying", "file": "model.safetensors", "file_size": size + 1}, header
    )
    assert error["code"] == "header"
    assert f"{size + 1:,}" in error["message"]


@pytest.mark.parametrize(
    ("config", "word"),
    [
        pytest.param(None, "config.json", id="absent"),
        pytest.param("{", "config.json", id="no JSON"),
        pytest.param("[]", "config.json", id="no object"),
        pytest.param(
            json.dumps(CONFIG | {"num_attention_heads": -4}), "num_attention_heads", id="negative heads"
        ),
        pytest.param(json.dumps({"model_type": "llama"}), "layers", id="another model's"),
    ],
)
def test_a_config_that_cannot_be_used_leaves_the_weights_told(config: str | None, word: str) -> None:
    call("open_checkpoint", {"key": "c", "model_id": "o/c", "config": config, "read": ["model.safetensors"]})
    header, size = header_of(tensors())
    call("add_header", {"key": "c", "file": "model.safetensors", "file_size": size}, header)
    report = call("plan", {"query": {"model": "o/c", "gpu": "l4-24gb"}, "checkpoint": "c"})
    assert report["verdict"]["code"] == "unknown"
    assert word in report["verdict"]["sentence"]
    assert report["model"]["weight_bytes"] == size - len(header)


def test_a_config_that_contradicts_the_headers_withholds_all_but_the_weights() -> None:
    other = json.dumps(CONFIG | {"num_hidden_layers": 3})
    call("open_checkpoint", {"key": "o", "model_id": "o/o", "config": other, "read": ["model.safetensors"]})
    header, size = header_of(tensors())
    call("add_header", {"key": "o", "file": "model.safetensors", "file_size": size}, header)
    report = call("plan", {"query": {"model": "o/o", "gpu": "l4-24gb"}, "checkpoint": "o"})
    assert report["memory"] is None
    assert "3 layers" in report["verdict"]["sentence"]
    assert report["figures"]["memory.weight_bytes_per_gpu"]["value"] > 0
    assert report["model"]["weight_bytes"] == size - len(header)


def test_a_catalog_model_needs_no_header() -> None:
    report = call(
        "plan", {"query": {"model": "Qwen/Qwen3-8B", "gpu": "l4-24gb", "users": "16", "context": "8192"}}
    )
    assert report["model"]["source"] == "catalog"
    assert "catalog" in report["model"]["source_sentence"]
    assert report["model"]["num_params"] == 8_190_735_360


def test_without_a_context_the_page_plans_8192_and_says_so() -> None:
    report = call("plan", {"query": {"model": "Qwen/Qwen3-8B", "gpu": "h200-sxm5-141gb"}})
    assert report["query"]["context"] == "8192"
    assert report["defaults"]["context"] == "8192"


def test_a_gated_repository_is_answered_from_its_totals() -> None:
    hub = {
        "id": "org/gated",
        "sha": "1" * 40,
        "gated": True,
        "file_bytes": 16_060_556_376,
        "parameters": {"BF16": 8_030_261_248},
    }
    report = call("plan", {"query": {"model": "org/gated", "gpu": "h100-sxm5-80gb"}, "hub": hub})
    assert report["verdict"]["code"] == "unknown"
    assert "gated" in report["verdict"]["sentence"]
    assert "16.06 GB" in report["verdict"]["sentence"]
    assert report["model"]["weight_bytes"] == 16_060_556_376


def test_an_unknown_model_says_what_to_do() -> None:
    report = call("plan", {"query": {"model": "no/such", "gpu": "l4-24gb"}})
    assert report["verdict"]["code"] == "unknown"
    assert "no/such" in report["verdict"]["sentence"]
    assert "Name a model" in call("plan", {"query": {"gpu": "l4-24gb"}})["verdict"]["sentence"]


def test_choose_files_names_the_set_and_what_is_left_out() -> None:
    files = [
        {"name": name, "size": 10}
        for name in (
            "config.json",
            "consolidated.safetensors",
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
            "original/model.safetensors",
        )
    ]
    choice = call("choose_files", {"files": files})
    assert choice["kind"] == "safetensors"
    assert choice["read"] == ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    ignored = {entry["name"] for entry in choice["ignored"]}
    assert {"consolidated.safetensors", "original/model.safetensors"} <= ignored


def test_a_tensor_without_a_module_is_counted() -> None:
    open_small("odd")
    header, size = header_of(iter([*tensors(), ("", [2]), (".weight", [2]), ("model.layers.0..weight", [2])]))
    call("add_header", {"key": "odd", "file": "model.safetensors", "file_size": size}, header)
    report = call("plan", {"query": {"model": "org/odd", "gpu": "l4-24gb"}, "checkpoint": "odd"})
    assert report["model"]["weight_bytes"] == size - len(header)


def test_a_prompt_beyond_the_context_is_named() -> None:
    query = {"model": "Qwen/Qwen3-8B", "gpu": "l40s-48gb", "context": "8192", "input": "100000000"}
    report = call("plan", {"query": query})
    assert [problem["field"] for problem in report["problems"]] == ["input"]
    assert report["bandwidth"]["ttft_s_high"] < 60


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("[]", id="no object"),
        pytest.param("{" * 10_000, id="deep"),
        pytest.param('{"method": "plan", "params": {"query": {"users": 3}}}', id="value that is no text"),
        pytest.param('{"method": "plan", "params": {"surprise": 1}}', id="unknown parameter"),
        pytest.param('{"method": "__class__"}', id="no such method"),
        pytest.param('{"method": "add_header", "params": {"key": "x", "file": "y"}}', id="not open"),
    ],
)
def test_a_bad_call_is_an_input_error(text: str) -> None:
    assert json.loads(api.handle(text))["error"]["code"] == "input"


@given(st.text(max_size=200), st.binary(max_size=64))
def test_nothing_is_raised_through_the_door(text: str, payload: bytes) -> None:
    assert "error" in json.loads(api.handle(text, payload))


@given(
    st.sampled_from(["catalog", "choose_files", "open_checkpoint", "add_header", "plan", "drop"]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=8,
    ),
)
def test_no_parameters_are_an_internal_failure(method: str, params: object) -> None:
    reply = json.loads(api.handle(json.dumps({"method": method, "params": params})))
    assert reply.get("error", {}).get("code") != "internal"
