"""What each published architecture caches, layer by layer, and what its feed-forward half is.

Expected values are counts and widths that the publishers state in config.json, model card or paper.
"""

from collections import Counter

import pytest

from published_configs import published_architecture
from willitserve.architecture import (
    Architecture,
    ChunkedAttention,
    CompressedAttention,
    CrossAttention,
    FullAttention,
    LatentAttention,
    RecurrentState,
    SharedKv,
    SlidingAttention,
)
from willitserve.config import describe


def kinds(architecture: Architecture) -> dict[str, int]:
    """How many caches of each kind the model keeps."""
    return dict(Counter(type(cache).__name__ for layer in architecture.layers for cache in layer.caches))


@pytest.mark.parametrize(
    ("model_id", "expected"),
    [
        ("meta-llama/Meta-Llama-3-70B", {"FullAttention": 80}),
        ("mistralai/Mistral-7B-Instruct-v0.1", {"SlidingAttention": 32}),
        ("EleutherAI/gpt-neo-1.3B", {"FullAttention": 12, "SlidingAttention": 12}),
        ("CohereLabs/c4ai-command-a-03-2025", {"FullAttention": 16, "SlidingAttention": 48}),
        ("google/gemma-3-4b-it", {"FullAttention": 5, "SlidingAttention": 29}),
        # 35 layers, every fifth full; the last 15 read layers 18 (local) and 19 (global).
        ("google/gemma-3n-E4B-it", {"FullAttention": 4, "SlidingAttention": 16, "SharedKv": 15}),
        ("XiaomiMiMo/MiMo-V2-Flash", {"FullAttention": 9, "SlidingAttention": 39}),
        ("poolside/Laguna-XS.2-FP8", {"FullAttention": 10, "SlidingAttention": 30}),
        ("meta-llama/Llama-4-Maverick-17B-128E-Instruct", {"FullAttention": 12, "ChunkedAttention": 36}),
        ("meta-llama/Llama-3.2-11B-Vision-Instruct", {"FullAttention": 32, "CrossAttention": 8}),
        # A window as wide as all positions never drops a token.
        ("microsoft/Phi-3.5-MoE-instruct", {"FullAttention": 32}),
        ("microsoft/Phi-4-mini-instruct", {"FullAttention": 32}),
        ("Qwen/Qwen2.5-Omni-7B", {"FullAttention": 28}),
        ("zai-org/GLM-4.7-Flash", {"LatentAttention": 47}),
        ("deepseek-ai/DeepSeek-V3.2-Exp", {"LatentAttention": 61, "IndexerCache": 61}),
        ("deepseek-ai/DeepSeek-V4-Pro", {"CompressedAttention": 61}),
        # Two attention blocks in each of 28 layers.
        ("meituan-longcat/LongCat-Flash-Chat", {"LatentAttention": 56}),
        # The engine expands the latent of this class: 62 layers of plain attention.
        ("openbmb/MiniCPM3-4B", {"FullAttention": 62}),
        ("moonshotai/Kimi-Linear-48B-A3B-Instruct", {"LatentAttention": 7, "RecurrentState": 20}),
        ("MiniMaxAI/MiniMax-Text-01", {"FullAttention": 10, "RecurrentState": 70}),
        ("inclusionAI/Ring-mini-linear-2.0", {"FullAttention": 4, "RecurrentState": 16}),
        # 13 uses of two shared attention blocks, each with a cache of its own; a state in all 81 layers.
        ("Zyphra/Zamba2-7B-Instruct", {"FullAttention": 13, "RecurrentState": 81}),
        ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", {"FullAttention": 4, "RecurrentState": 27}),
        ("google/recurrentgemma-2b", {"SlidingAttention": 8, "RecurrentState": 18}),
        ("tiiuae/falcon-mamba-7b", {"RecurrentState": 64}),
        ("RWKV/rwkv-4-169m-pile", {"RecurrentState": 12}),
        ("tencent/Tencent-Hunyuan-Large", {"FullAttention": 32, "SharedKv": 32}),
        ("tencent/Hunyuan-A13B-Instruct", {"FullAttention": 32}),
        ("openai/whisper-large-v3", {"FullAttention": 32, "CrossAttention": 32}),
        ("google/flan-t5-xxl", {"FullAttention": 24, "CrossAttention": 24}),
        ("BAAI/bge-m3", {}),
        ("google/embeddinggemma-300m", {}),
    ],
)
def test_caches_by_kind(model_id: str, expected: dict[str, int]) -> None:
    assert kinds(published_architecture(model_id)) == expected


@pytest.mark.parametrize(
    ("model_id", "full"),
    [
        (
            "moonshotai/Kimi-Linear-48B-A3B-Instruct",
            [3, 7, 11, 15, 19, 23, 26],
        ),  # published from one: 4, 8, …, 27
        ("MiniMaxAI/MiniMax-Text-01", [7, 15, 23, 31, 39, 47, 55, 63, 71, 79]),
        ("google/gemma-3-4b-it", [5, 11, 17, 23, 29]),
        ("CohereLabs/c4ai-command-a-03-2025", [*range(3, 64, 4)]),
        ("XiaomiMiMo/MiMo-V2-Flash", [0, 5, 11, 17, 23, 29, 35, 41, 47]),
        ("meta-llama/Llama-4-Maverick-17B-128E-Instruct", [*range(3, 48, 4)]),
        ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", [14, 21, 30, 39]),
    ],
)
def test_places_of_the_layers_that_keep_every_token(model_id: str, full: list[int]) -> None:
    layers = published_architecture(model_id).layers
    found = [
        layer.index
        for layer in layers
        if any(isinstance(cache, FullAttention | LatentAttention) for cache in layer.caches)
    ]
    assert found == full


def test_shared_layers_read_the_last_layer_of_their_own_kind() -> None:
    layers = published_architecture("google/gemma-3n-E4B-it").layers
    local, last = layers[20].caches[0], layers[34].caches[0]
    assert isinstance(local, SharedKv)
    assert isinstance(last, SharedKv)
    assert (local.source_layer, local.window) == (18, 512)
    assert (last.source_layer, last.window) == (19, None)


def test_cross_layer_attention_shares_in_pairs() -> None:
    layers = published_architecture("tencent/Tencent-Hunyuan-Large").layers
    shared = layers[5].caches[0]
    assert isinstance(shared, SharedKv)
    assert (shared.source_layer, shared.num_kv_heads, shared.head_dim) == (4, 8, 128)


@pytest.mark.parametrize(
    ("model_id", "layer", "expected"),
    [
        (
            "XiaomiMiMo/MiMo-V2-Flash",
            0,
            FullAttention(num_heads=64, num_kv_heads=4, head_dim=192, v_head_dim=128),
        ),
        (
            "XiaomiMiMo/MiMo-V2-Flash",
            1,
            SlidingAttention(num_heads=64, num_kv_heads=8, head_dim=192, v_head_dim=128, window=128),
        ),
        (
            "poolside/Laguna-XS.2-FP8",
            1,
            SlidingAttention(num_heads=64, num_kv_heads=8, head_dim=128, v_head_dim=128, window=512),
        ),
        (
            "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
            0,
            ChunkedAttention(num_heads=40, num_kv_heads=8, head_dim=128, v_head_dim=128, chunk=8192),
        ),
        (
            "zai-org/GLM-4.7-Flash",
            0,
            LatentAttention(
                num_heads=20, kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=192, v_head_dim=256
            ),
        ),
        (
            "Zyphra/Zamba2-7B-Instruct",
            6,
            FullAttention(num_heads=32, num_kv_heads=32, head_dim=224, v_head_dim=224),
        ),
        (
            "stepfun-ai/step3",
            0,
            FullAttention(num_heads=64, num_kv_heads=1, head_dim=256, v_head_dim=256),
        ),
        (
            "deepseek-ai/DeepSeek-V4-Pro",
            2,
            CompressedAttention(
                num_heads=128, head_dim=512, rope_head_dim=64, ratio=4, window=128, indexer_head_dim=128
            ),
        ),
        (
            # 4 tiles of (560 / 14)^2 patches and a class token each
            "meta-llama/Llama-3.2-11B-Vision-Instruct",
            3,
            CrossAttention(num_heads=32, num_kv_heads=8, head_dim=128, encoder_tokens=6404),
        ),
    ],
)
def test_widths_of_one_layer(model_id: str, layer: int, expected: object) -> None:
    assert published_architecture(model_id).layers[layer].caches[0] == expected


@pytest.mark.parametrize(
    ("model_id", "kind", "conv_elements", "state_elements", "state_dtype_bits", "num_heads", "num_groups"),
    [
        # (width 7168 + 2 x 2 groups x 64) x 3 rows; 112 heads x 64 x 64
        ("Zyphra/Zamba2-7B-Instruct", "mamba2", 22_272, 458_752, 16, 112, 2),
        # (128 x 80 + 2 x 8 x 128) x 3; 128 x 80 x 128
        ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", "mamba2", 36_864, 1_310_720, 16, 128, 8),
        # intermediate_size 8192 wins over expand 16 x 4096
        ("tiiuae/falcon-mamba-7b", "mamba1", 24_576, 131_072, 16, 0, 0),
        # q, k and v of 32 x 128, 3 rows; 32 x 128 x 128 in 32 bit
        ("moonshotai/Kimi-Linear-48B-A3B-Instruct", "kda", 36_864, 524_288, 32, 32, 0),
        ("MiniMaxAI/MiniMax-Text-01", "lightning", 0, 1_048_576, 16, 64, 0),
        ("google/recurrentgemma-2b", "rg-lru", 7_680, 2_560, 32, 0, 0),
        ("RWKV/rwkv-4-169m-pile", "rwkv", 1_536, 2_304, 32, 0, 0),
    ],
)
def test_states(
    model_id: str,
    kind: str,
    conv_elements: int,
    state_elements: int,
    state_dtype_bits: int,
    num_heads: int,
    num_groups: int,
) -> None:
    states = [
        cache
        for layer in published_architecture(model_id).layers
        for cache in layer.caches
        if isinstance(cache, RecurrentState)
    ]
    state = states[0]
    assert all(other == state for other in states)
    assert (state.kind, state.conv_elements, state.state_elements) == (kind, conv_elements, state_elements)
    assert (state.state_dtype_bits, state.num_heads, state.num_groups) == (
        state_dtype_bits,
        num_heads,
        num_groups,
    )


PLAIN: dict[str, object] = {
    "model_type": "plain",
    "num_hidden_layers": 6,
    "hidden_size": 512,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
    "vocab_size": 1000,
    "max_position_embeddings": 32768,
}


@pytest.mark.parametrize(
    ("model_id", "task", "heads", "kv_heads", "head_dim"),
    [
        ("meta-llama/Meta-Llama-3-70B", "generate", 64, 8, 128),
        ("deepseek-ai/DeepSeek-V3.2-Exp", "generate", 128, 128, 192),
        ("deepseek-ai/DeepSeek-V4-Pro", "generate", 128, 1, 512),
        ("bigcode/starcoder", "generate", 48, 1, 128),
        ("tiiuae/falcon-40b", "generate", 128, 8, 64),
        ("OpenGVLab/InternVL3-8B", "generate", 28, 4, 128),
        ("openai/whisper-large-v3", "encoder-decoder", 20, 20, 64),
        ("google/flan-t5-xxl", "encoder-decoder", 64, 64, 64),
        ("BAAI/bge-m3", "embed", 16, 16, 64),
        ("google/embeddinggemma-300m", "embed", 3, 1, 256),
    ],
)
def test_the_model_at_a_glance(model_id: str, task: str, heads: int, kv_heads: int, head_dim: int) -> None:
    architecture = published_architecture(model_id)
    assert architecture.task == task
    assert (architecture.num_attention_heads, architecture.num_kv_heads, architecture.head_dim) == (
        heads,
        kv_heads,
        head_dim,
    )


@pytest.mark.parametrize(
    "put",
    [
        {"architectures": ["LlamaBidirectionalModel"]},
        {"architectures": ["SomethingForMaskedLM"]},
        {"is_causal": False},
        {"use_bidirectional_attention": True},
        {"use_bidirectional_attention": "all"},
    ],
)
def test_attention_that_sees_both_ways_caches_nothing(put: dict[str, object]) -> None:
    architecture = describe(PLAIN | put)
    assert architecture.task == "embed"
    assert kinds(architecture) == {}


@pytest.mark.parametrize(
    "put",
    [
        pytest.param({"use_bidirectional_attention": "vision"}, id="Gemma 4: image tokens alone"),
        pytest.param(
            {
                "architectures": ["PaliGemmaForConditionalGeneration"],
                "text_config": PLAIN | {"use_bidirectional_attention": True},
            },
            id="PaliGemma: the prompt",
        ),
    ],
)
def test_a_prompt_seen_both_ways_leaves_the_cache(put: dict[str, object]) -> None:
    architecture = describe(PLAIN | put)
    assert architecture.task == "generate"
    assert kinds(architecture) != {}
