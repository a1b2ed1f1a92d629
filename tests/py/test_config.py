"""config.json to keys: what is refused and with which sentence, aliases, class defaults, context, tying."""

import json

import pytest

from published_configs import MODEL_IDS, published_architecture
from willitserve.architecture import FullAttention
from willitserve.config import MAX_CONFIG_DEPTH, describe, read_config
from willitserve.errors import ConfigError
from willitserve.kv_cache import (
    kv_bytes_per_token,
    kv_fixed_bytes_per_sequence,
)

Config = dict[str, object]

LLAMA: Config = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 2,
    "hidden_size": 1024,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 2048,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}


def first_attention(config: Config) -> FullAttention:
    cache = describe(config).layers[0].caches[0]
    assert isinstance(cache, FullAttention)
    return cache


def without(config: Config, *names: str, **values: object) -> Config:
    return {name: value for name, value in config.items() if name not in names} | values


# Reading


def test_infinity_and_nan_are_read() -> None:
    # `time_step_limit` of Codestral Mamba and Nemotron-H.
    config = read_config('{"time_step_limit": [0.0, Infinity], "x": NaN}')
    assert config["time_step_limit"] == [0.0, float("inf")]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("", "config.json is not JSON", id="empty"),
        pytest.param("{", "config.json is not JSON", id="cut off"),
        pytest.param('\ufeff{"a": 1}', "config.json is not JSON", id="byte order mark"),
        pytest.param("<!doctype html>", "config.json is not JSON", id="a page instead of the file"),
        pytest.param("[1]", "must be a JSON object, found [1]", id="a list"),
        pytest.param('"llama"', "must be a JSON object, found 'llama'", id="a string"),
        pytest.param("null", "must be a JSON object, found None", id="null"),
        pytest.param(f'{{"a": {"1" * 5000}}}', "config.json is not JSON", id="a number of 5000 digits"),
    ],
)
def test_no_config_is_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_config(text)
    assert sentence in refused.value.message


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_depth_is_capped(extra: int) -> None:
    depth = MAX_CONFIG_DEPTH + extra - 1  # the object itself is one level
    text = '{"a": ' + "[" * depth + "]" * depth + "}"
    if extra > 0:
        with pytest.raises(ConfigError, match="nested 65 deep"):
            read_config(text)
    else:
        assert "a" in read_config(text)


def test_brackets_inside_strings_are_no_depth() -> None:
    assert read_config(json.dumps({"chat": "[" * 500 + '"' + "{" * 500})) != {}


def test_size_is_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps({"a": "b" * 100})
    monkeypatch.setattr("willitserve.config.MAX_CONFIG_CHARACTERS", len(text))
    assert read_config(text)["a"] == "b" * 100
    monkeypatch.setattr("willitserve.config.MAX_CONFIG_CHARACTERS", len(text) - 1)
    with pytest.raises(ConfigError, match="characters, more than"):
        read_config(text)


# Wrong and missing values


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("num_attention_heads", -8, "num_attention_heads must be a whole number of at least 1, found -8"),
        ("num_attention_heads", 8.0, "num_attention_heads must be a whole number of at least 1, found 8.0"),
        ("num_attention_heads", "8", "num_attention_heads must be a whole number of at least 1, found '8'"),
        ("num_attention_heads", True, "num_attention_heads must be a whole number of at least 1, found True"),
        ("num_attention_heads", {"a": 1}, "num_attention_heads must be a whole number"),
        ("num_attention_heads", [8], "num_attention_heads lists 1 layers, layer 1 is not among them"),
        ("num_key_value_heads", 16, "16 KV heads are more than 8 query heads"),
        ("hidden_size", 1023, "has no head_dim and hidden_size 1023 is not divisible by 8 heads"),
        ("hidden_size", 2**50, "hidden_size must be a whole number"),
        ("num_hidden_layers", 5000, "5000 layers are more than any model has"),
        ("num_hidden_layers", 0, "gives no num_hidden_layers"),
        ("model_type", 7, "model_type must be a string, found 7"),
        ("architectures", "LlamaForCausalLM", "architectures must be a list of strings"),
        ("layer_types", "full_attention", "layer_types must be a list of strings"),
        ("layer_types", ["full_attention"], "layer_types lists 1 layers, the model has 2"),
        ("text_config", 5, "text_config must be an object, found 5"),
        ("rope_scaling", [1], "rope_scaling must be an object, found [1]"),
        (
            "rope_scaling",
            {"type": "linear", "factor": "8"},
            "factor of rope_scaling must be a positive number",
        ),
        ("tie_word_embeddings", "yes", "tie_word_embeddings must be true or false, found 'yes'"),
        ("sliding_window", -1, "sliding_window must be a whole number, found -1"),
        ("torch_dtype", 16, "torch_dtype must be a string, found 16"),
        ("num_kv_shared_layers", 2, "2 of 2 layers share KV"),
        ("block_configs", 3, "block_configs must be a list of objects, found 3"),
        ("block_configs", [3, 4], "block_configs[0] must be an object, found 3"),
        ("block_configs", [dict[str, object]()], "block_configs[0] has no attention"),
        ("hybrid_override_pattern", 8, "hybrid_override_pattern must be a string"),
        ("linear_attn_config", {"full_attn_layers": [2], "kda_layers": [2]}, "must cover each layer once"),
    ],
)
def test_wrong_values_are_sentences(name: str, value: object, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        describe(LLAMA | {name: value})
    assert sentence in refused.value.message


@pytest.mark.parametrize("name", ["num_hidden_layers", "hidden_size", "num_attention_heads"])
def test_a_class_without_that_default_needs_the_key(name: str) -> None:
    with pytest.raises(ConfigError, match=f"gives no {name}"):
        describe(without(LLAMA, name, model_type="never-heard-of"))


# Spellings


@pytest.mark.parametrize(
    ("gone", "put", "heads", "kv_heads", "head_dim"),
    [
        pytest.param([], {}, 8, 2, 128, id="llama"),
        pytest.param(["num_key_value_heads"], {}, 8, 8, 128, id="no KV heads: as many as query heads"),
        pytest.param(["num_key_value_heads"], {"num_key_value_heads": None}, 8, 8, 128, id="null KV heads"),
        pytest.param([], {"head_dim": 64}, 8, 2, 64, id="explicit head_dim wins"),
        pytest.param([], {"head_dim": None}, 8, 2, 128, id="null head_dim is derived"),
        pytest.param([], {"head_dim": 0}, 8, 2, 128, id="zero head_dim is derived (DeepSeek-VL2)"),
        pytest.param([], {"kv_channels": 96}, 8, 2, 96, id="Qwen 1 and ChatGLM"),
        pytest.param([], {"attention_head_dim": 160}, 8, 2, 160, id="Nemotron-H, Hunyuan"),
        pytest.param([], {"d_kv": 64}, 8, 2, 64, id="T5"),
        pytest.param(["num_attention_heads"], {"n_head": 4}, 4, 2, 256, id="GPT-2"),
        pytest.param(["num_attention_heads"], {"n_heads": 4}, 4, 2, 256, id="MPT"),
        pytest.param(["num_key_value_heads"], {"n_head_kv": 4}, 8, 4, 128, id="RefinedWeb"),
        pytest.param(["num_key_value_heads"], {"num_kv_heads": 4}, 8, 4, 128, id="Falcon"),
        pytest.param(["num_key_value_heads"], {"num_attention_groups": 1}, 8, 1, 128, id="Step"),
        pytest.param(["num_key_value_heads"], {"multi_query_group_num": 2}, 8, 2, 128, id="ChatGLM groups"),
        pytest.param(
            ["num_key_value_heads"],
            {"multi_query_attention": False, "multi_query_group_num": 2},
            8,
            8,
            128,
            id="ChatGLM without groups",
        ),
        pytest.param(
            [], {"multi_query": True, "num_kv_heads": 8}, 8, 1, 128, id="Falcon 7B ignores num_kv_heads"
        ),
        pytest.param(
            ["num_key_value_heads"],
            {"multi_query": True, "new_decoder_architecture": True, "num_kv_heads": 4},
            8,
            4,
            128,
            id="Falcon 180B ignores multi_query",
        ),
        pytest.param([], {"attn_config": {"kv_n_heads": 4}}, 8, 4, 128, id="DBRX"),
        pytest.param(
            [], {"attn_config": {"attn_type": "multiquery_attention"}}, 8, 1, 128, id="MPT, one head"
        ),
        pytest.param([], {"num_attention_heads_per_layer": [4, 8]}, 4, 2, 256, id="Laguna, a list per layer"),
        pytest.param(
            [], {"per_layer_config": {"0": {"head_dim": 512}}}, 8, 2, 512, id="transformers 5 per layer"
        ),
        pytest.param(
            [],
            {"per_layer_config": {"00": {"head_dim": 512}, "10": {"head_dim": 64}}},
            8,
            2,
            512,
            id="transformers 5, padded layer numbers",
        ),
    ],
)
def test_heads_in_every_spelling(
    gone: list[str], put: dict[str, object], heads: int, kv_heads: int, head_dim: int
) -> None:
    cache = first_attention(without(LLAMA, *gone) | put)
    assert (cache.num_heads, cache.num_kv_heads, cache.head_dim) == (heads, kv_heads, head_dim)


@pytest.mark.parametrize("name", ["n_layer", "n_layers", "num_layers", "num_transformer_layers"])
def test_layers_in_every_spelling(name: str) -> None:
    assert len(describe(without(LLAMA, "num_hidden_layers", **{name: 7})).layers) == 7


@pytest.mark.parametrize("name", ["n_embd", "n_embed", "d_model", "model_dim"])
def test_hidden_size_in_every_spelling(name: str) -> None:
    assert describe(without(LLAMA, "hidden_size", model_type="", **{name: 2048})).hidden_size == 2048


def test_values_may_be_narrower_than_keys() -> None:
    cache = first_attention(LLAMA | {"head_dim": 192, "v_head_dim": 128})
    assert (cache.head_dim, cache.v_head_dim) == (192, 128)


# Class defaults


def test_an_absent_key_has_the_default_of_its_class_and_says_so() -> None:
    # llava-1.5-7b: the text model says nothing but its class, which is Llama-2-7B's shape.
    text = {"model_type": "llama", "max_position_embeddings": 4096, "vocab_size": 32064}
    architecture = describe({"model_type": "llava", "text_config": text})
    assert (len(architecture.layers), architecture.hidden_size, architecture.num_kv_heads) == (32, 4096, 32)
    assert "num_hidden_layers = 32 is not in config.json: it is the default of the llama class" in (
        architecture.assumed
    )


def test_null_is_not_absent() -> None:
    # Mistral's class says 4096; v0.2 and later switch the window off with null.
    mistral = LLAMA | {"model_type": "mistral", "max_position_embeddings": 32768}
    assert kv_bytes_per_token(describe(mistral), kv_dtype_bits=16) == 0
    assert kv_bytes_per_token(describe(mistral | {"sliding_window": None}), kv_dtype_bits=16) == 2048


def test_another_class_lends_no_default() -> None:
    architecture = describe(without(LLAMA, "max_position_embeddings", model_type="never-heard-of"))
    assert architecture.max_model_len is None
    assert architecture.assumed == ()


@pytest.mark.parametrize(
    ("config", "tied", "because"),
    [
        pytest.param(LLAMA, False, "of config.json", id="stated"),
        pytest.param(without(LLAMA, "tie_word_embeddings"), False, "default of the llama class", id="llama"),
        pytest.param(
            without(LLAMA, "tie_word_embeddings", model_type="cohere"),
            True,
            "default of the cohere class",
            id="cohere",
        ),
        pytest.param(
            {
                "model_type": "qwen3_vl",
                "tie_word_embeddings": True,
                "text_config": without(LLAMA, "tie_word_embeddings"),
            },
            True,
            "of config.json",
            id="outer key",
        ),
        pytest.param(
            {
                "model_type": "qwen3_vl_moe",
                "tie_word_embeddings": False,
                "text_config": LLAMA | {"tie_word_embeddings": True},
            },
            False,
            "disagree",
            id="the text model contradicts the whole",
        ),
        pytest.param(
            without(LLAMA, "tie_word_embeddings", model_type="x"), False, "are silent", id="unknown class"
        ),
    ],
)
def test_tied_embeddings(config: Config, tied: bool, because: str) -> None:
    architecture = describe(config)
    assert architecture.tie_word_embeddings is tied
    assert because in architecture.tie_because


@pytest.mark.parametrize("key", ["text_config", "llm_config", "language_config"])
def test_language_model_of_a_multimodal_config(key: str) -> None:
    outer = {"model_type": "some_vl", "architectures": ["SomeVL"], "vision_config": {"num_hidden_layers": 27}}
    architecture = describe({**outer, key: LLAMA})
    assert (architecture.name, architecture.model_type, architecture.decoder_type) == (
        "SomeVL",
        "some_vl",
        "llama",
    )
    assert len(architecture.layers) == 2


@pytest.mark.parametrize(
    ("model_type", "kv_heads", "head_dim"),
    [("qwen3_5_text", 4, 256), ("glm4v_text", 2, 256), ("paddleocr_vl_text", 2, 128)],
)
def test_a_text_model_that_leaves_out_what_its_class_sets(
    model_type: str, kv_heads: int, head_dim: int
) -> None:
    # transformers 5 writes of a nested config only what differs from its class.
    text = without(LLAMA, "num_key_value_heads", "head_dim") | {
        "model_type": model_type,
        "layer_types": ["full_attention"] * 2,
        "num_attention_heads": 8,
        "hidden_size": 2048,
    }
    full = first_attention({"model_type": "some_vl", "text_config": text})
    assert (full.num_kv_heads, full.head_dim) == (kv_heads, head_dim)


def test_a_stub_text_config_leaves_the_outer_keys() -> None:
    assert len(describe(LLAMA | {"model_type": "odd", "text_config": {"model_type": "odd_text"}}).layers) == 2


# Context


@pytest.mark.parametrize(
    ("put", "longest", "because"),
    [
        pytest.param({}, 4096, "max_position_embeddings", id="plain"),
        pytest.param({"seq_length": 2048}, 2048, "seq_length", id="the smallest key"),
        pytest.param({"model_max_length": 131072}, 131072, "model_max_length", id="Command-R's key wins"),
        pytest.param({"rope_scaling": {"type": "linear", "factor": 4.0}}, 16384, "x 4 (linear", id="linear"),
        pytest.param({"rope_scaling": {"type": "dynamic", "factor": 2}}, 8192, "x 2 (dynamic", id="dynamic"),
        pytest.param(
            {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 512}},
            4096,
            "max_position",
            id="llama3 is scaled already",
        ),
        pytest.param(
            {"rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096}},
            4096,
            "max_position",
            id="yarn is scaled already",
        ),
        pytest.param(
            {"rope_scaling": {"type": "longrope"}, "original_max_position_embeddings": 1024},
            1024,
            "LongRoPE",
            id="longrope starts short",
        ),
        pytest.param({"rope_scaling": {"type": "mrope", "factor": 9}}, 4096, "max_position", id="mrope"),
        pytest.param(
            {"rope_scaling": {"type": "linear", "factor": None}}, 4096, "max_position", id="null factor"
        ),
        pytest.param(
            {
                "rope_parameters": {
                    "full_attention": {"rope_type": "linear", "factor": 2.0},
                    "sliding_attention": None,
                }
            },
            8192,
            "x 2",
            id="one setting per layer type",
        ),
        pytest.param(
            {"model_type": "gemma3_text", "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
            4096,
            "max_position",
            id="gemma3 is scaled already",
        ),
    ],
)
def test_context_as_the_engine_derives_it(put: dict[str, object], longest: int, because: str) -> None:
    architecture = describe(LLAMA | put)
    assert architecture.max_model_len == longest
    assert because in architecture.max_model_len_because


# Not understood


@pytest.mark.parametrize(
    ("put", "sentence"),
    [
        pytest.param(
            {"layer_types": ["full_attention", "telepathy"]}, '"telepathy" (layer_types)', id="word"
        ),
        pytest.param({"nsa_config": {"block": 64}}, "nsa_config changes what attention caches", id="marker"),
        pytest.param(
            {"linear_num_value_heads": 4}, "linear_num_value_heads without the layers", id="no place"
        ),
        pytest.param({"sconv_kernel_size": 4}, "sconv_kernel_size changes what attention", id="Inkling"),
        pytest.param({"qk_dim_factor": 0.5}, "qk_dim_factor changes what attention caches", id="xLSTM"),
        pytest.param(
            {"sparse_attention_config": {"use": True}}, "sparse_attention_freq", id="sparse, no list"
        ),
        pytest.param(
            {"layer_types": ["linear_attention"] * 2}, "whose size no key", id="state without sizes"
        ),
        pytest.param({"hybrid_override_pattern": "M?"}, "letters ?", id="letter"),
        pytest.param({"attention_chunk_size": 512}, "which layers are chunked", id="chunks without layers"),
        pytest.param({"cross_attention_layers": [1]}, "image of unknown size", id="image without size"),
        pytest.param(
            {"mamba_d_state": 16, "mamba_expand": 2}, "which layers have attention", id="hybrid, no list"
        ),
    ],
)
def test_what_is_not_understood_withholds_the_cache(put: dict[str, object], sentence: str) -> None:
    config = LLAMA | put | {"mamba_num_heads": 8} if "hybrid_override_pattern" in put else LLAMA | put
    if "hybrid_override_pattern" in put:
        config |= {"ssm_state_size": 16, "mamba_head_dim": 64, "conv_kernel": 4}
    architecture = describe(config)
    assert any(
        sentence in note and note.startswith("not understood: ") for note in architecture.not_understood
    )
    for ask in (kv_bytes_per_token, kv_fixed_bytes_per_sequence):
        with pytest.raises(ConfigError, match="The cache of this model is not known"):
            ask(architecture, kv_dtype_bits=16)


def test_incomplete_experts_withhold_no_cache() -> None:
    architecture = describe(LLAMA | {"num_local_experts": 8})
    assert architecture.moe is None
    assert architecture.not_understood == ("not understood: 8 experts without the number chosen per token",)
    assert kv_bytes_per_token(architecture, kv_dtype_bits=16) == 2048


@pytest.mark.parametrize("model_id", MODEL_IDS)
def test_published_configs_are_understood(model_id: str) -> None:
    architecture = published_architecture(model_id)
    assert architecture.not_understood == ()
    assert architecture.layers
