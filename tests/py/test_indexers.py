"""Sparse attention: which layers keep keys of an indexer, and what those keys take beside the cache."""

import pytest

from willitserve.architecture import IndexerCache
from willitserve.config import describe
from willitserve.kv_cache import arithmetic, fixed_arithmetic, kv_bytes_per_token, kv_fixed_bytes_per_sequence


@pytest.mark.parametrize(
    ("put", "own"),
    [
        pytest.param({}, [0, 1, 2, 3, 4, 5], id="all"),
        pytest.param({"indexer_types": ["full", "shared", "shared"] * 2}, [0, 3], id="GLM-5.2 words"),
        pytest.param({"index_topk_pattern": "FSSFSS"}, [0, 3], id="letters"),
        pytest.param({"index_topk_freq": 2}, [0, 1, 3, 5], id="every second from layer 2 on"),
        pytest.param(
            {"index_topk_freq": 4, "index_skip_topk_offset": 1}, [0, 4], id="every fourth from layer 1 on"
        ),
    ],
)
def test_indexers_that_are_shared_cache_nothing(put: dict[str, object], own: list[int]) -> None:
    config: dict[str, object] = {
        "model_type": "glm_moe_dsa",
        "num_hidden_layers": 6,
        "hidden_size": 6144,
        "intermediate_size": 12288,
        "num_attention_heads": 64,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 192,
        "qk_rope_head_dim": 64,
        "v_head_dim": 256,
        "index_head_dim": 128,
        "index_n_heads": 32,
        "index_topk": 2048,
        "vocab_size": 154880,
    }
    layers = describe(config | put).layers
    assert [layer.index for layer in layers if any(isinstance(c, IndexerCache) for c in layer.caches)] == own


def test_block_indexers_of_minimax_m3() -> None:
    # Defaults of vLLM's MiniMaxM3TextConfig: 60 layers, 57 of them with a 16-bit index key of 128.
    architecture = describe(
        {
            "model_type": "minimax_m3_vl",
            "text_config": {
                "dense_intermediate_size": 12288,
                "head_dim": 128,
                "hidden_size": 6144,
                "intermediate_size": 3072,
                "moe_layer_freq": [0] * 3 + [1] * 57,
                "n_shared_experts": 1,
                "num_attention_heads": 64,
                "num_experts_per_tok": 4,
                "num_hidden_layers": 60,
                "num_key_value_heads": 4,
                "num_local_experts": 128,
                "shared_intermediate_size": 3072,
                "sparse_attention_config": {
                    "sparse_attention_freq": [0] * 3 + [1] * 57,
                    "sparse_index_dim": 128,
                    "use_sparse_attention": True,
                },
                "vocab_size": 200064,
            },
        }
    )
    assert kv_bytes_per_token(architecture, kv_dtype_bits=16) == 60 * 2 * 4 * 128 * 2 + 57 * 256
    # FP8 keys and values leave the index keys in 16 bit; four KV heads over four ranks leave them whole.
    assert kv_bytes_per_token(architecture, kv_dtype_bits=8, tp=4) == 60 * 2 * 128 + 57 * 256
    assert arithmetic(architecture, kv_dtype_bits=16).endswith(
        "+ 57 indexer layers x 256 B = 137,472 B per token"
    )
    assert [layer.ffn_width for layer in architecture.layers[:4]] == [12288, 12288, 12288, 0]


def test_pooled_indexers_of_glm_5_next() -> None:
    # Defaults of Glm5NextTextConfig in transformers 5.24: every fourth of 45 layers has latent attention
    # without rotary part and an index key for every 16 tokens; the others keep a delta net of 64 heads x 128.
    architecture = describe(
        {
            "model_type": "glm5_next_text",
            "hidden_size": 4096,
            "index_head_dim": 128,
            "index_kpool": 16,
            "index_n_heads": 32,
            "index_topk": 2048,
            "intermediate_size": 12288,
            "kv_lora_rank": 512,
            "layer_types": ["indexed_attention" if i % 4 == 3 else "linear_attention" for i in range(45)],
            "linear_conv_kernel_dim": 4,
            "linear_head_dim": 128,
            "linear_num_heads": 64,
            "num_attention_heads": 64,
            "num_hidden_layers": 45,
            "qk_nope_head_dim": 256,
            "qk_rope_head_dim": 0,
            "v_head_dim": 256,
            "vocab_size": 154880,
        }
    )
    # 11 x (512 x 2 + 132 / 16), rounded up
    assert kv_bytes_per_token(architecture, kv_dtype_bits=16) == 11_355
    # 34 x (3 x 64 x 128 x 3 x 2 + 64 x 128 x 128 x 4) and 11 unfinished pools of 16 x 2 x 128 x 2
    assert kv_fixed_bytes_per_sequence(architecture, kv_dtype_bits=16) == 34 * 4_341_760 + 11 * 8_192
    assert "11 indexer layers x (128 + 4) B / 16" in arithmetic(architecture, kv_dtype_bits=16)
    assert "11 indexer-pool layers x 8,192 B" in fixed_arithmetic(architecture, kv_dtype_bits=16)
