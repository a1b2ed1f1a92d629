"""Models that mix attention with states, or whose layers differ, in the ways in which config.json says so."""

from collections import Counter

import pytest

from willitserve.architecture import Architecture, FullAttention, RecurrentState
from willitserve.config import describe
from willitserve.errors import ConfigError


def kinds(architecture: Architecture) -> dict[str, int]:
    """How many caches of each kind the model keeps."""
    return dict(Counter(type(cache).__name__ for layer in architecture.layers for cache in layer.caches))


NO_LAYERS: list[int] = []

MAMBA2: dict[str, object] = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 100352,
    "mamba_d_conv": 4,
    "mamba_d_head": 64,
    "mamba_d_state": 128,
    "mamba_expand": 2,
    "mamba_n_groups": 1,
    "mamba_n_heads": 128,
}


@pytest.mark.parametrize(
    ("put", "expected"),
    [
        pytest.param(
            {"model_type": "bamba", "num_hidden_layers": 32, "attn_layer_indices": [9, 18, 27]},
            {"FullAttention": 3, "RecurrentState": 29},
            id="Bamba-9B",
        ),
        pytest.param(
            {"model_type": "bamba", "num_hidden_layers": 4, "attn_layer_indices": None},
            {"RecurrentState": 4},
            id="Bamba without attention",
        ),
        pytest.param(
            {
                "model_type": "granitemoehybrid",
                "num_hidden_layers": 4,
                "layer_types": ["mamba"] * 3 + ["attention"],
            },
            {"FullAttention": 1, "RecurrentState": 3},
            id="Granite 4 H",
        ),
        pytest.param(
            {"model_type": "granitemoehybrid", "num_hidden_layers": 4, "layer_types": ["attention"] * 4},
            {"FullAttention": 4},
            id="Granite 4 micro: state keys, no state",
        ),
        pytest.param(
            {
                "model_type": "falcon_h1",
                "num_hidden_layers": 4,
                "attn_layer_indices": None,
                "mamba_d_ssm": 8192,
            },
            {"FullAttention": 4, "RecurrentState": 4},
            id="Falcon-H1: both in every layer",
        ),
        pytest.param(
            {"model_type": "nemotron_h", "layers_block_type": ["mamba", "mlp", "attention", "moe"]},
            {"FullAttention": 1, "RecurrentState": 1},
            id="Nemotron-H as words, counted by the list",
        ),
        pytest.param(
            {"model_type": "plamo2", "num_hidden_layers": 8, "mamba_step": 2, "mamba_enabled": True},
            {"FullAttention": 4, "RecurrentState": 4},
            id="PLaMo 2: every second",
        ),
    ],
)
def test_hybrids(put: dict[str, object], expected: dict[str, int]) -> None:
    assert kinds(describe(MAMBA2 | put)) == expected


def test_a_head_width_of_auto_is_derived() -> None:
    config = MAMBA2 | {
        "model_type": "bamba",
        "num_hidden_layers": 2,
        "attn_layer_indices": NO_LAYERS,
        "mamba_d_head": "auto",
    }
    state = describe(config).layers[0].caches[0]
    assert isinstance(state, RecurrentState)
    assert state.state_elements == 128 * 64 * 128


def test_nemotron_keeps_its_state_in_the_dtype_that_it_names() -> None:
    config = MAMBA2 | {"model_type": "bamba", "num_hidden_layers": 1, "attn_layer_indices": NO_LAYERS}
    for name, bits in (("float32", 32), ("bfloat16", 16), ("auto", 16)):
        state = describe(config | {"mamba_ssm_cache_dtype": name}).layers[0].caches[0]
        assert isinstance(state, RecurrentState)
        assert state.state_dtype_bits == bits
    with pytest.raises(ConfigError, match="dtype of the recurrent state is 'int3'"):
        describe(config | {"mamba_ssm_cache_dtype": "int3"})


@pytest.mark.parametrize("first", [0, 1])
def test_layer_lists_may_count_from_zero_or_one(first: int) -> None:
    # Kimi-Linear counts from one; its successors' files also count from zero.
    lists = {"full_attn_layers": [3 + first], "kda_layers": [first, 1 + first, 2 + first]}
    sizes = {"num_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4}
    architecture = describe(
        {
            "num_hidden_layers": 4,
            "hidden_size": 2304,
            "num_attention_heads": 32,
            "head_dim": 72,
            "intermediate_size": 9216,
            "linear_attn_config": lists | sizes,
        }
    )
    assert [isinstance(layer.caches[0], FullAttention) for layer in architecture.layers] == [False] * 3 + [
        True
    ]


def test_jamba_periods() -> None:
    # Jamba v0.1: attention every 8th layer from 4, experts every 2nd from 1.
    architecture = describe(
        {
            "model_type": "jamba",
            "num_hidden_layers": 32,
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "attn_layer_period": 8,
            "attn_layer_offset": 4,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "num_experts": 16,
            "num_experts_per_tok": 2,
            "mamba_d_conv": 4,
            "mamba_d_state": 16,
            "mamba_dt_rank": 256,
            "mamba_expand": 2,
        }
    )
    assert kinds(architecture) == {"FullAttention": 4, "RecurrentState": 28}
    assert [layer.index for layer in architecture.layers if layer.ffn == "moe"] == [*range(1, 32, 2)]
    state = architecture.layers[0].caches[0]
    assert isinstance(state, RecurrentState)
    assert (state.kind, state.conv_elements, state.state_elements) == ("mamba1", 8192 * 3, 8192 * 16)


def test_openelm_has_its_own_heads_and_widths_in_every_layer() -> None:
    # OpenELM-270M: 16 layers; the first with 3 KV heads of 64, the last with 5; widths 768 … 5120.
    kv_heads = [3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5]
    architecture = describe(
        {
            "model_type": "openelm",
            "ffn_dim_divisor": 256,
            "ffn_multipliers": [
                0.5,
                0.73,
                0.97,
                1.2,
                1.43,
                1.67,
                1.9,
                2.13,
                2.37,
                2.6,
                2.83,
                3.07,
                3.3,
                3.53,
                3.77,
                4.0,
            ],
            "head_dim": 64,
            "max_context_length": 2048,
            "model_dim": 1280,
            "num_kv_heads": kv_heads,
            "num_query_heads": [4 * heads for heads in kv_heads],
            "num_transformer_layers": 16,
            "share_input_output_layers": True,
            "vocab_size": 32000,
        }
    )
    caches = [
        cache for layer in architecture.layers for cache in layer.caches if isinstance(cache, FullAttention)
    ]
    assert [cache.num_kv_heads for cache in caches] == kv_heads
    assert [layer.ffn_width for layer in architecture.layers][:3] == [768, 1024, 1280]
    assert architecture.layers[-1].ffn_width == 5120
    assert architecture.max_model_len == 2048
    assert architecture.tie_word_embeddings


def test_nas_blocks_leave_attention_out_and_set_each_width() -> None:
    # Llama-3.3-Nemotron-Super-49B: 64 heads in groups of 8, some blocks without attention, FFN multipliers of
    # 8192.
    def block(group: int | None, ffn: dict[str, object]) -> dict[str, object]:
        attention = {"n_heads_in_group": group, "no_op": group is None, "replace_with_linear": False}
        return {"attention": attention, "ffn": ffn}

    architecture = describe(
        {
            "model_type": "nemotron-nas",
            "architectures": ["DeciLMForCausalLM"],
            "hidden_size": 8192,
            "intermediate_size": None,
            "num_attention_heads": 64,
            "num_key_value_heads": None,
            "num_hidden_layers": 4,
            "vocab_size": 128256,
            "block_configs": [
                block(8, {"ffn_mult": 5.25, "no_op": False}),
                block(None, {"ffn_mult": 2.625, "no_op": False}),
                block(16, {"ffn_mult": None, "no_op": True}),
                block(8, {"intermediate_size": 4096, "no_op": False}),
            ],
        }
    )
    found = [
        [cache.num_kv_heads for cache in layer.caches if isinstance(cache, FullAttention)]
        for layer in architecture.layers
    ]
    assert found == [[8], [], [4], [8]]
    assert [(layer.ffn, layer.ffn_width) for layer in architecture.layers] == [
        ("dense", 28672),
        ("dense", 14336),
        ("none", 0),
        ("dense", 4096),
    ]
