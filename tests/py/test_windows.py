"""Sliding windows and layers whose widths differ by reach, in the ways in which config.json writes them."""

import pytest

from willitserve.architecture import FullAttention, SlidingAttention
from willitserve.config import describe

WINDOWED: dict[str, object] = {
    "model_type": "w",
    "num_hidden_layers": 6,
    "hidden_size": 512,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
    "vocab_size": 1000,
    "max_position_embeddings": 32768,
    "sliding_window": 1024,
}


@pytest.mark.parametrize(
    ("put", "windows"),
    [
        pytest.param({}, [1024] * 6, id="one for all"),
        pytest.param({"sliding_window": None}, [0] * 6, id="null"),
        pytest.param({"sliding_window": 0}, [0] * 6, id="zero"),
        pytest.param({"use_sliding_window": False}, [0] * 6, id="switched off"),
        pytest.param({"sliding_window": 32767}, [32767] * 6, id="one less than all positions"),
        pytest.param({"sliding_window": 32768}, [0] * 6, id="as wide as all positions"),
        pytest.param({"use_sliding_window": True, "max_window_layers": 4}, [0] * 4 + [1024] * 2, id="Qwen2"),
        pytest.param({"sliding_window_pattern": 3}, [1024, 1024, 0] * 2, id="pattern as number"),
        pytest.param({"_sliding_window_pattern": 2}, [1024, 0] * 3, id="pattern as re-saved"),
        pytest.param({"sliding_window_pattern": "LLG"}, [1024, 1024, 0] * 2, id="pattern as letters"),
        pytest.param({"sliding_window_pattern": [True, False]}, [1024, 0] * 3, id="pattern as list"),
        pytest.param({"sliding_window_pattern": 0}, [1024] * 6, id="no pattern"),
        pytest.param({"global_attn_every_n_layers": 6}, [1024] * 5 + [0], id="AFMoE"),
        pytest.param(
            {"sliding_windows": [512, 0, 256, 512, None, 256]}, [512, 0, 256, 512, 0, 256], id="per layer"
        ),
        pytest.param({"interleaved_sliding_window": [None, 64, 64]}, [0, 64, 64] * 2, id="repeated list"),
        pytest.param({"sliding_window": [128, None]}, [128, 0] * 3, id="list in the place of a number"),
        pytest.param(
            {"layer_types": ["full_attention"] + ["sliding_attention"] * 5, "sliding_window_pattern": 2},
            [0] + [1024] * 5,
            id="layer_types win",
        ),
        pytest.param(
            {"layer_types": ["sliding_attention"] * 6, "sliding_window": None}, [0] * 6, id="no window given"
        ),
        pytest.param({"model_type": "gemma2"}, [1024, 0] * 3, id="Gemma 2: the class alternates"),
        pytest.param(
            {"model_type": "olmo3"}, [1024, 1024, 1024, 0, 1024, 1024], id="Olmo 3: the class has 3 + 1"
        ),
        pytest.param(
            {"model_type": "gpt_oss", "num_key_value_heads": 2},
            [1024, 0] * 3,
            id="gpt-oss: the class alternates",
        ),
        pytest.param({"model_type": "cwm"}, [0, 1024, 1024, 1024, 0, 1024], id="CWM: the first of four"),
    ],
)
def test_windows(put: dict[str, object], windows: list[int]) -> None:
    found: list[int] = []
    for layer in describe(WINDOWED | put).layers:
        (cache,) = layer.caches
        found.append(cache.window if isinstance(cache, SlidingAttention) else 0)
    assert found == windows


def test_gemma_4_global_layers_have_their_own_width() -> None:
    # Gemma 4 26B: local layers 8 x 256, global layers 2 x 512.
    architecture = describe(
        WINDOWED
        | {
            "model_type": "gemma4_text",
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 256,
            "global_head_dim": 512,
            "num_global_key_value_heads": 2,
            "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
        }
    )
    local, distant = architecture.layers[0].caches[0], architecture.layers[5].caches[0]
    assert isinstance(local, SlidingAttention)
    assert isinstance(distant, FullAttention)
    assert (local.num_kv_heads, local.head_dim) == (8, 256)
    assert (distant.num_kv_heads, distant.head_dim) == (2, 512)


def test_step_sliding_layers_have_more_heads() -> None:
    other = {
        "attention_type": "sliding_attention",
        "num_attention_heads": 96,
        "num_attention_groups": 8,
        "head_dim": 128,
    }
    architecture = describe(
        WINDOWED
        | {
            "num_attention_heads": 64,
            "num_attention_groups": 4,
            "head_dim": 128,
            "attention_other_setting": other,
            "layer_types": ["full_attention"] + ["sliding_attention"] * 5,
        }
    )
    assert architecture.layers[0].caches[0] == FullAttention(
        num_heads=64, num_kv_heads=4, head_dim=128, v_head_dim=128
    )
    sliding = architecture.layers[1].caches[0]
    assert isinstance(sliding, SlidingAttention)
    assert (sliding.num_heads, sliding.num_kv_heads) == (96, 8)
