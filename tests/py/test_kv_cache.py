"""Bytes of keys, values and states. Expected values are worked out by hand from published widths; the formula
stands beside each."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from published_configs import MODEL_IDS, published_architecture
from willitserve.architecture import (
    Architecture,
    Cache,
    CompressedAttention,
    CrossAttention,
    FullAttention,
    IndexerCache,
    LatentAttention,
    RecurrentState,
    SharedKv,
    SlidingAttention,
)
from willitserve.config import describe
from willitserve.errors import ConfigError
from willitserve.kv_cache import (
    arithmetic,
    cache_bytes_per_token,
    fixed_arithmetic,
    kv_bytes_for_sequence,
    kv_bytes_per_token,
    kv_fixed_bytes_per_sequence,
    kv_heads_per_rank,
    kv_read_bytes,
    layers_of_stage,
    layers_of_stages,
    state_bytes,
)

GQA = FullAttention(num_heads=64, num_kv_heads=8, head_dim=128, v_head_dim=128)
MLA = LatentAttention(
    num_heads=128, kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128
)
WINDOW = SlidingAttention(num_heads=32, num_kv_heads=16, head_dim=128, v_head_dim=128, window=1024)
STATE = RecurrentState(
    kind="mamba2",
    conv_elements=36_864,
    conv_dtype_bits=16,
    state_elements=1_310_720,
    state_dtype_bits=16,
    num_heads=128,
    num_groups=8,
    width=10_240,
)


@pytest.mark.parametrize(
    ("cache", "bits", "tp", "expected"),
    [
        pytest.param(GQA, 16, 1, 4_096, id="2 x 8 x 128 x 2 B"),
        pytest.param(GQA, 8, 1, 2_048, id="fp8 is half"),
        pytest.param(GQA, 16, 8, 512, id="one head per rank"),
        pytest.param(GQA, 16, 16, 512, id="fewer heads than ranks are replicated"),
        pytest.param(
            FullAttention(num_heads=64, num_kv_heads=4, head_dim=192, v_head_dim=128),
            16,
            1,
            2_560,
            id="MiMo: 4 x 320 x 2",
        ),
        pytest.param(MLA, 16, 1, 1_152, id="(512 + 64) x 2 B"),
        pytest.param(MLA, 16, 8, 1_152, id="MLA is whole on every rank"),
        pytest.param(IndexerCache(head_dim=128), 16, 8, 132, id="128 B and an FP32 scale"),
        pytest.param(IndexerCache(head_dim=128), 8, 1, 132, id="whatever the KV dtype"),
        pytest.param(WINDOW, 16, 2, 4_096, id="window, while it holds the token"),
        pytest.param(
            CompressedAttention(
                num_heads=64, head_dim=512, rope_head_dim=64, ratio=4, window=128, indexer_head_dim=128
            ),
            16,
            8,
            289,
            id="(512 x 2 + 132) / 4",
        ),
        pytest.param(
            CompressedAttention(
                num_heads=64, head_dim=512, rope_head_dim=64, ratio=0, window=128, indexer_head_dim=0
            ),
            16,
            1,
            0,
            id="window only",
        ),
        pytest.param(
            CrossAttention(num_heads=20, num_kv_heads=20, head_dim=64, encoder_tokens=1500),
            16,
            4,
            1_280,
            id="2 x 5 x 64 x 2",
        ),
        pytest.param(STATE, 16, 1, 0, id="a state has no tokens"),
    ],
)
def test_bytes_of_one_token_in_one_layer(cache: Cache, bits: int, tp: int, expected: int) -> None:
    assert cache_bytes_per_token(cache, kv_dtype_bits=bits, tp=tp) == expected


@pytest.mark.parametrize(
    ("model_id", "per_token", "fixed"),
    [
        # 2 x 80 x 8 x 128 x 2; confirmed by public starts of Llama-3-70B
        ("meta-llama/Meta-Llama-3-70B", 327_680, 0),
        ("Qwen/Qwen3-14B", 163_840, 0),  # a start that failed on A100-40GB: 5.0 GiB at 32,768 tokens
        ("facebook/opt-6.7b", 524_288, 0),  # 2 x 32 x 4096 x 2
        ("EleutherAI/gpt-neox-20b", 1_081_344, 0),  # 2 x 44 x 6144 x 2
        ("EleutherAI/gpt-neo-1.3B", 98_304, 25_165_824),  # 12 x 8192; 12 x 256 x 8192
        ("mosaicml/mpt-7b", 524_288, 0),
        ("databricks/dbrx-instruct", 163_840, 0),  # 40 x 4096
        ("xai-org/grok-2", 262_144, 0),  # 64 x 4096
        ("bigcode/starcoder", 20_480, 0),  # 2 x 40 x 1 x 128 x 2
        ("tiiuae/falcon-40b", 122_880, 0),  # 2 x 60 x 8 x 64 x 2
        ("Qwen/Qwen-7B", 524_288, 0),
        ("microsoft/phi-4", 204_800, 0),  # 2 x 40 x 10 x 128 x 2
        ("OpenGVLab/InternVL3-8B", 57_344, 0),
        ("llava-hf/llava-v1.6-mistral-7b-hf", 131_072, 0),
        ("LGAI-EXAONE/EXAONE-3.5-7.8B-Instruct", 131_072, 0),
        ("stepfun-ai/step3", 62_464, 0),  # 61 x 2 x 256 x 2
        ("mistralai/Mistral-7B-Instruct-v0.1", 0, 536_870_912),  # 32 x 4096 x 4096
        ("CohereLabs/c4ai-command-a-03-2025", 65_536, 805_306_368),  # 16 x 4096; 48 x 4096 x 4096
        ("google/gemma-3-4b-it", 20_480, 121_634_816),  # 5 x 4096; 29 x 1024 x 4096
        ("google/gemma-3n-E4B-it", 8_192, 16_777_216),  # 4 x 2048; 16 x 512 x 2048
        ("XiaomiMiMo/MiMo-V2-Flash", 23_040, 25_559_040),  # 9 x 4 x 320 x 2; 39 x 128 x 8 x 320 x 2
        (
            "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
            49_152,
            1_207_959_552,
        ),  # 12 x 4096; 36 x 8192 x 4096
        ("meta-llama/Llama-3.2-11B-Vision-Instruct", 131_072, 209_846_272),  # 32 x 4096; 8 x 6404 x 4096
        ("zai-org/GLM-4.7-Flash", 54_144, 0),  # 47 x 1152
        ("meituan-longcat/LongCat-Flash-Chat", 64_512, 0),  # 2 x 28 x 1152
        ("deepseek-ai/DeepSeek-V3.2-Exp", 78_324, 0),  # 61 x (1152 + 132)
        ("openbmb/MiniCPM3-4B", 952_320, 0),  # 2 x 62 x 40 x 96 x 2
        ("moonshotai/Kimi-Linear-48B-A3B-Instruct", 8_064, 43_417_600),  # 7 x 1152; 20 x (73,728 + 2,097,152)
        ("MiniMaxAI/MiniMax-Text-01", 40_960, 146_800_640),  # 10 x 4096; 70 x 64 x 128 x 128 x 2
        ("Zyphra/Zamba2-7B-Instruct", 372_736, 77_925_888),  # 13 x 2 x 32 x 224 x 2; 81 x (44,544 + 917,504)
        ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", 16_384, 72_769_536),  # 4 x 4096; 27 x (73,728 + 2,621,440)
        ("google/recurrentgemma-2b", 0, 17_238_016),  # 8 x 2048 x 1024; 18 x (15,360 + 10,240)
        ("tiiuae/falcon-mamba-7b", 0, 19_922_944),  # 64 x (49,152 + 262,144)
        ("RWKV/rwkv-4-169m-pile", 0, 147_456),  # 12 x (2 x 768 x 2 + 3 x 768 x 4)
        ("tencent/Tencent-Hunyuan-Large", 131_072, 0),  # 32 of 64 layers x 4096
        ("tencent/Hunyuan-A13B-Instruct", 131_072, 0),  # use_cla is false: 32 of 32
        ("openai/whisper-large-v3", 163_840, 245_760_000),  # 32 x 5120; 1500 encoder tokens of the same
        ("google/flan-t5-xxl", 393_216, 201_326_592),  # 24 x 2 x 64 x 64 x 2; 512 of the same
        ("facebook/bart-large-cnn", 49_152, 50_331_648),
        ("BAAI/bge-m3", 0, 0),
    ],
)
def test_published_models(model_id: str, per_token: int, fixed: int) -> None:
    architecture = published_architecture(model_id)
    assert kv_bytes_per_token(architecture, kv_dtype_bits=16) == per_token
    assert kv_fixed_bytes_per_sequence(architecture, kv_dtype_bits=16) == fixed


def test_deepseek_v3_is_not_divided() -> None:
    # 61 x (512 + 64) x 2 B; public starts of Kimi-K2 (the same shape) print it at TP 8.
    config: dict[str, object] = {
        "model_type": "deepseek_v3",
        "num_hidden_layers": 61,
        "hidden_size": 7168,
        "intermediate_size": 18432,
        "num_attention_heads": 128,
        "num_key_value_heads": 128,
        "kv_lora_rank": 512,
        "q_lora_rank": 1536,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "vocab_size": 129280,
    }
    architecture = describe(config)
    assert [kv_bytes_per_token(architecture, kv_dtype_bits=16, tp=tp) for tp in (1, 2, 8, 16)] == [70_272] * 4
    without_rank = {**config, "q_lora_rank": None}
    assert kv_bytes_per_token(describe(without_rank), kv_dtype_bits=16) == 70_272


def test_compressed_caches_of_deepseek_v4_pro() -> None:
    architecture = published_architecture("deepseek-ai/DeepSeek-V4-Pro")
    # 30 layers of ratio 4: (1024 + 132) / 4 B; 31 of ratio 128: 1024 / 128 B
    assert kv_bytes_per_token(architecture, kv_dtype_bits=16) == 30 * 289 + 31 * 8
    # Windows 61 x 128 x 1024 B; FP32 compressors: ratio 4 keeps 8 tokens of 2 x 2 x 640 values, ratio 128
    # keeps 128 tokens of 2 x 512.
    compressors = 30 * 8 * 4 * 640 * 4 + 31 * 128 * 2 * 512 * 4
    assert kv_fixed_bytes_per_sequence(architecture, kv_dtype_bits=16) == 61 * 128 * 1024 + compressors


@pytest.mark.parametrize(
    ("tp", "expected"),
    [
        pytest.param(1, 2_695_168, id="73,728 + 2,621,440"),
        pytest.param(8, 336_896, id="an eighth"),
        pytest.param(16, 168_448 + 3 * 128 * 2, id="8 groups are extended to 16: 3 rows of 2 x 128 / 2 more"),
    ],
)
def test_state_over_ranks(tp: int, expected: int) -> None:
    assert state_bytes(STATE, tp=tp) == expected


def test_one_group_is_copied_to_every_rank() -> None:
    # Bamba-9B: 128 heads x 64, one group of 128: (8192 + 2 x 128) x 3 rows; 128 x 64 x 128.
    state = replace(STATE, conv_elements=25_344, state_elements=1_048_576, num_groups=1, width=8_192)
    assert state_bytes(state, tp=1) == 2_147_840
    # A rank of 4: 2048 + 2 x 128 columns of 3 rows, a quarter of the heads.
    assert state_bytes(state, tp=4) == (2_048 + 256) * 3 * 2 + 262_144 * 2


# Sequences


def test_a_sequence_in_whole_blocks() -> None:
    architecture = published_architecture("meta-llama/Meta-Llama-3-70B")
    block = 16 * 327_680
    sizes = [kv_bytes_for_sequence(architecture, tokens, kv_dtype_bits=16) for tokens in (0, 1, 16, 17)]
    assert sizes == [0, block, block, 2 * block]
    assert kv_bytes_for_sequence(architecture, 17, kv_dtype_bits=16, block_size=1) == 17 * 327_680


def test_a_sequence_with_windows() -> None:
    # Gemma 3 4B: 5 full layers, 29 windows of 1,024, 4,096 B per token and layer.
    architecture = published_architecture("google/gemma-3-4b-it")
    for tokens in (1_008, 1_024, 8_192):
        expected = 5 * 4_096 * tokens + 29 * 4_096 * min(tokens, 1_024)
        assert kv_bytes_for_sequence(architecture, tokens, kv_dtype_bits=16) == expected


def test_reading_one_step() -> None:
    llama = published_architecture("meta-llama/Meta-Llama-3-70B")
    assert kv_read_bytes(llama, 1_000, kv_dtype_bits=16, tp=8) == 1_000 * 40_960
    # Shared layers read what another layer stored: 4 + 3 full layers, 16 + 12 windows of 512; 2,048 B each.
    gemma = published_architecture("google/gemma-3n-E4B-it")
    assert kv_read_bytes(gemma, 10_000, kv_dtype_bits=16) == 7 * 10_000 * 2_048 + 28 * 512 * 2_048
    # A state is read once, whatever the context.
    mamba = published_architecture("tiiuae/falcon-mamba-7b")
    assert {kv_read_bytes(mamba, tokens, kv_dtype_bits=16) for tokens in (1, 100_000)} == {19_922_944}


# Pipeline stages


@pytest.mark.parametrize(
    ("layers", "pp", "sizes"),
    [
        # vLLM get_pp_indices: the remainder goes to the stages before the last, from the back.
        (80, 4, [20, 20, 20, 20]),
        (61, 2, [31, 30]),
        (61, 4, [15, 15, 16, 15]),
        (62, 4, [15, 16, 16, 15]),
        (63, 4, [16, 16, 16, 15]),
        (7, 1, [7]),
        (2, 3, [1, 1, 0]),
    ],
)
def test_layers_of_each_stage(layers: int, pp: int, sizes: list[int]) -> None:
    stages = layers_of_stages(layers, pp)
    assert [len(stage) for stage in stages] == sizes
    assert layers_of_stage(layers, pp, pp - 1) == stages[-1]


@pytest.mark.parametrize(("layers", "pp"), [(10, 0), (-1, 2)])
def test_impossible_stages(layers: int, pp: int) -> None:
    with pytest.raises(ValueError, match="cannot form"):
        layers_of_stages(layers, pp)


def test_a_stage_counts_its_own_layers() -> None:
    architecture = published_architecture("moonshotai/Kimi-Linear-48B-A3B-Instruct")
    stages = layers_of_stages(27, 2)
    assert [kv_bytes_per_token(architecture, kv_dtype_bits=16, layers=stage) for stage in stages] == [
        3_456,
        4_608,
    ]
    fixed = [kv_fixed_bytes_per_sequence(architecture, kv_dtype_bits=16, layers=stage) for stage in stages]
    assert fixed == [11 * 2_170_880, 9 * 2_170_880]


# Lines for people


@pytest.mark.parametrize(
    ("model_id", "line"),
    [
        ("meta-llama/Meta-Llama-3-70B", "2 x 80 layers x 8 KV heads x 128 x 2 B = 327,680 B per token"),
        ("bigcode/starcoder", "2 x 40 layers x 1 KV head x 128 x 2 B = 20,480 B per token"),
        ("XiaomiMiMo/MiMo-V2-Flash", "9 layers x 4 KV heads x (192 + 128) x 2 B = 23,040 B per token"),
        (
            "deepseek-ai/DeepSeek-V3.2-Exp",
            "61 latent layers x (512 + 64) x 2 B + 61 indexer layers x (128 + 4) B = 78,324 B per token",
        ),
        (
            "deepseek-ai/DeepSeek-V4-Pro",
            "31 compressed layers x (512 x 2 B) / 128 + 30 compressed layers x (512 x 2 B + 132 B) / 4"
            " = 8,918 B per token",
        ),
        ("tiiuae/falcon-mamba-7b", "no cache grows with the context: 0 B per token"),
    ],
)
def test_arithmetic(model_id: str, line: str) -> None:
    assert arithmetic(published_architecture(model_id), kv_dtype_bits=16) == line


def test_arithmetic_of_narrow_dtypes_and_ranks() -> None:
    architecture = published_architecture("meta-llama/Meta-Llama-3-70B")
    assert (
        arithmetic(architecture, kv_dtype_bits=8, tp=8)
        == "2 x 80 layers x 1 KV head x 128 x 1 B = 20,480 B per token"
    )
    assert "x 0.5 B =" in arithmetic(architecture, kv_dtype_bits=4)


@pytest.mark.parametrize(
    ("model_id", "line"),
    [
        ("meta-llama/Meta-Llama-3-70B", ""),
        ("google/gemma-3-4b-it", "29 window-1,024 layers x 4,194,304 B = 121,634,816 B per sequence"),
        ("openai/whisper-large-v3", "32 cross-attention layers x 7,680,000 B = 245,760,000 B per sequence"),
        (
            "moonshotai/Kimi-Linear-48B-A3B-Instruct",
            "20 kda layers x 2,170,880 B = 43,417,600 B per sequence",
        ),
    ],
)
def test_fixed_arithmetic(model_id: str, line: str) -> None:
    assert fixed_arithmetic(published_architecture(model_id), kv_dtype_bits=16) == line


# Laws

MODELS = st.sampled_from(MODEL_IDS).map(published_architecture)
WIDTHS = st.sampled_from([1, 2, 3, 4, 6, 8, 16])
BITS = st.sampled_from([4, 8, 16])


@given(heads=st.integers(1, 256), tp=st.integers(1, 64))
def test_sharding_loses_no_head(heads: int, tp: int) -> None:
    per_rank = kv_heads_per_rank(heads, tp)
    assert per_rank >= 1
    assert per_rank * tp >= heads


@given(architecture=MODELS, bits=BITS, tp=WIDTHS, tokens=st.integers(0, 100_000), more=st.integers(0, 5_000))
def test_more_tokens_never_need_less(
    architecture: Architecture, bits: int, tp: int, tokens: int, more: int
) -> None:
    for size in (kv_bytes_for_sequence, kv_read_bytes):
        assert size(architecture, tokens + more, kv_dtype_bits=bits, tp=tp) >= size(
            architecture, tokens, kv_dtype_bits=bits, tp=tp
        )


@given(architecture=MODELS, bits=BITS, tp=WIDTHS)
def test_ranks_never_need_more_per_token_and_together_hold_all(
    architecture: Architecture, bits: int, tp: int
) -> None:
    whole = kv_bytes_per_token(architecture, kv_dtype_bits=bits)
    rank = kv_bytes_per_token(architecture, kv_dtype_bits=bits, tp=tp)
    assert rank <= whole <= rank * tp


@given(architecture=MODELS, tp=WIDTHS, pp=st.integers(1, 6), tokens=st.integers(1, 10_000))
def test_stages_add_up(architecture: Architecture, tp: int, pp: int, tokens: int) -> None:
    stages = layers_of_stages(len(architecture.layers), pp)
    parts = [
        kv_fixed_bytes_per_sequence(architecture, kv_dtype_bits=16, tp=tp, layers=stage) for stage in stages
    ]
    assert sum(parts) == kv_fixed_bytes_per_sequence(architecture, kv_dtype_bits=16, tp=tp)
    held = [
        kv_bytes_for_sequence(architecture, tokens, kv_dtype_bits=16, tp=tp, layers=stage) for stage in stages
    ]
    whole = kv_bytes_for_sequence(architecture, tokens, kv_dtype_bits=16, tp=tp)
    assert whole <= sum(held) <= whole + pp  # rows of compressed caches round up once per stage


@given(architecture=MODELS, tokens=st.integers(1, 50_000))
def test_a_long_sequence_grows_by_the_bytes_per_token(architecture: Architecture, tokens: int) -> None:
    # Past every window, in steps of 128 tokens, which fill whole rows of every compressed cache.
    start = 2**21
    grown = kv_bytes_for_sequence(
        architecture, start + 128 * tokens, kv_dtype_bits=16, block_size=1
    ) - kv_bytes_for_sequence(architecture, start, kv_dtype_bits=16, block_size=1)
    assert grown == 128 * tokens * kv_bytes_per_token(architecture, kv_dtype_bits=16)


def test_a_withheld_cache_is_refused_with_its_reason() -> None:
    architecture = replace(
        published_architecture("Qwen/Qwen3-14B"), kv_withheld=("not understood: telepathy",)
    )
    for ask in (kv_bytes_per_token, kv_fixed_bytes_per_sequence, arithmetic, fixed_arithmetic):
        with pytest.raises(ConfigError, match="not understood: telepathy"):
            ask(architecture, kv_dtype_bits=16)
    for ask in (kv_bytes_for_sequence, kv_read_bytes):
        with pytest.raises(ConfigError, match="not understood: telepathy"):
            ask(architecture, 100, kv_dtype_bits=16)


def test_a_shared_cache_keeps_nothing() -> None:
    shared = SharedKv(num_heads=8, num_kv_heads=2, head_dim=256, source_layer=1, window=None)
    assert cache_bytes_per_token(shared, kv_dtype_bits=16, tp=1) == 0
