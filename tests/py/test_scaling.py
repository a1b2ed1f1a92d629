"""Which tensor-parallel widths start, and the rule that forbids each other one. Origins: engine source and
public failures."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from published_configs import MODEL_IDS, published_architecture
from willitserve.architecture import Architecture
from willitserve.checkpoint import Part
from willitserve.config import describe
from willitserve.scaling import ShardedQuantization, check_tp, split_widths, valid_tp

FP8_BLOCK = ShardedQuantization(method="fp8", block=(128, 128))
AWQ = ShardedQuantization(method="awq", group_size=128)


def dense(**put: object) -> Architecture:
    """A Llama-like model whose widths divide by everything common."""
    config: dict[str, object] = {
        "model_type": "llama",
        "num_hidden_layers": 2,
        "hidden_size": 8192,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 28672,
        "vocab_size": 128256,
    }
    return describe(config | put)


def routed(width: int, **put: object) -> Architecture:
    """The same with experts of that width."""
    return dense(num_experts=128, num_experts_per_tok=8, moe_intermediate_size=width, **put)


@pytest.mark.parametrize(
    ("model_id", "valid", "rules"),
    [
        ("Qwen/Qwen3-14B", [1, 2, 4, 8], {16: "heads"}),
        # Phi-4: 40 query heads, 10 KV heads: 8 divides the first and not the second.
        ("microsoft/phi-4", [1, 2], {4: "kv heads", 8: "kv heads", 16: "heads"}),
        ("OpenGVLab/InternVL3-8B", [1, 2, 4], {8: "heads", 16: "heads"}),
        ("zai-org/GLM-4.7-Flash", [1, 2, 4], {8: "heads", 16: "heads"}),
        ("stepfun-ai/step3", [1, 2, 4, 8, 16], {}),  # one KV head on every rank
        ("Zyphra/Zamba2-7B-Instruct", [1, 2], {4: "state heads", 8: "state heads", 16: "state heads"}),
        ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", [1, 2, 4, 8], {16: "heads"}),
        ("openai/whisper-large-v3", [1, 2, 4], {8: "heads", 16: "heads"}),
        ("google/embeddinggemma-300m", [1], {2: "heads", 4: "heads", 8: "heads", 16: "heads"}),
        ("MiniMaxAI/MiniMax-Text-01", [1, 2, 4, 8, 16], {}),
        ("tiiuae/falcon-mamba-7b", [1, 2, 4, 8, 16], {}),
        ("poolside/Laguna-XS.2-FP8", [1, 2, 4, 8, 16], {}),
    ],
)
def test_published_models(model_id: str, valid: list[int], rules: dict[int, str]) -> None:
    found, rejected = valid_tp(published_architecture(model_id))
    assert found == valid
    assert {item.tp: item.rule for item in rejected} == rules


@pytest.mark.parametrize(
    ("model_id", "tp", "reason"),
    [
        ("Qwen/Qwen3-14B", 6, "40 query heads do not divide by 6."),
        ("microsoft/phi-4", 8, "10 KV heads neither divide by 8 nor are divided by it."),
        ("Zyphra/Zamba2-7B-Instruct", 4, "2 Mamba-2 groups do not divide by 4."),
    ],
)
def test_reasons_are_sentences(model_id: str, tp: int, reason: str) -> None:
    rejected = check_tp(published_architecture(model_id), tp)
    assert rejected is not None
    assert (rejected.tp, rejected.reason) == (tp, reason)


def test_heads_of_every_layer_count() -> None:
    # 48 heads in full layers divide by 3, 64 in sliding ones do not.
    rejected = check_tp(published_architecture("poolside/Laguna-XS.2-FP8"), 3)
    assert rejected is not None
    assert rejected.reason == "64 query heads do not divide by 3."


@pytest.mark.parametrize(
    ("vocabulary", "tp", "refused"),
    [
        pytest.param(151_936, 5, True, id="Qwen at 5"),
        pytest.param(151_936, 2, False, id="Qwen at 2"),
        pytest.param(50_257, 4, False, id="GPT-2 is padded to 50,304"),
        pytest.param(128_000, 5, False, id="128,000 divides by 5"),
    ],
)
def test_vocabulary(vocabulary: int, tp: int, refused: bool) -> None:
    heads = {
        "num_attention_heads": 40,
        "num_key_value_heads": 40,
        "hidden_size": 5120,
        "intermediate_size": 5120,
    }
    rejected = check_tp(dense(vocab_size=vocabulary, **heads), tp)
    assert (rejected is not None and rejected.rule == "vocabulary") is refused


def test_a_vocabulary_that_is_not_known_is_no_rule() -> None:
    architecture = replace(
        dense(num_attention_heads=60, num_key_value_heads=60, intermediate_size=600), vocab_size=None
    )
    assert check_tp(architecture, 5) is None


@pytest.mark.parametrize(
    ("width", "tp", "rule"),
    [
        # vllm-project/vllm#17569 (Qwen3-235B-A22B-FP8) and public logs: 1536 / 8 = 192, 2560 / 8 = 320, 320 /
        # 4 = 80
        pytest.param(1536, 8, "fp8 block", id="Qwen3-235B and MiniMax-M2 at 8"),
        pytest.param(1536, 4, None, id="Qwen3-235B at 4"),
        pytest.param(2560, 8, "fp8 block", id="Qwen3-Coder-480B at 8"),
        pytest.param(2560, 4, None, id="Qwen3-Coder-480B at 4"),
        pytest.param(768, 4, "fp8 block", id="Qwen3-30B at 4"),
        pytest.param(2048, 16, None, id="DeepSeek-V3 at 16"),
        pytest.param(320, 1, "fp8 block", id="experts are checked on one rank too"),
    ],
)
def test_fp8_blocks_of_experts(width: int, tp: int, rule: str | None) -> None:
    rejected = check_tp(routed(width), tp, quantization=FP8_BLOCK)
    assert (rejected.rule if rejected else None) == rule


def test_fp8_block_sentence() -> None:
    rejected = check_tp(routed(1536), 8, quantization=FP8_BLOCK)
    assert rejected is not None
    assert rejected.reason == "The expert width of 1,536 / 8 = 192 is no multiple of the weight block of 128."


def test_expert_parallelism_keeps_experts_whole() -> None:
    assert check_tp(routed(1536), 8, quantization=FP8_BLOCK, expert_parallel=True) is None


@pytest.mark.parametrize(
    ("put", "tp", "rule"),
    [
        pytest.param({"intermediate_size": 18432}, 16, None, id="dense 18432 / 16 = 9 x 128"),
        pytest.param({"intermediate_size": 10944}, 1, None, id="dense on one rank is not checked"),
        pytest.param({"intermediate_size": 10944}, 2, "fp8 block", id="dense 10944 / 2 = 42.75 x 128"),
        pytest.param(
            {"head_dim": 64, "num_attention_heads": 32}, 32, "fp8 block", id="attention output 2048 / 32 = 64"
        ),
    ],
)
def test_fp8_blocks_of_dense_layers(put: dict[str, object], tp: int, rule: str | None) -> None:
    rejected = check_tp(dense(**put), tp, quantization=FP8_BLOCK)
    assert (rejected.rule if rejected else None) == rule


def test_parts_that_are_not_quantized_are_no_rule() -> None:
    only_experts = replace(FP8_BLOCK, parts=frozenset({Part.ROUTED_EXPERT}))
    architecture = routed(2048, intermediate_size=10944, first_k_dense_replace=1)
    assert check_tp(architecture, 2, quantization=FP8_BLOCK) is not None
    assert check_tp(architecture, 2, quantization=only_experts) is None


@pytest.mark.parametrize(
    ("quantization", "architecture", "tp", "rule"),
    [
        # Qwen2.5-VL-72B-Instruct-AWQ on 2 x A800: 29568 / 2 = 14784 = 115.5 x 128
        pytest.param(AWQ, dense(intermediate_size=29568), 2, "quant group", id="Qwen2.5-VL-72B-AWQ at 2"),
        pytest.param(AWQ, dense(intermediate_size=29568), 1, None, id="Qwen2.5-VL-72B-AWQ at 1"),
        pytest.param(AWQ, dense(), 8, None, id="Llama-3.1-70B-AWQ at 8: 28672 / 8 = 28 x 128"),
        pytest.param(AWQ, routed(768), 8, None, id="experts: 96 is 3 halved groups of 32"),
        pytest.param(AWQ, routed(768), 16, "quant group", id="experts: 48 is not"),
        pytest.param(
            ShardedQuantization(method="auto-round", group_size=128),
            routed(768),
            8,
            None,
            id="AutoRound hands experts to the same kernel",
        ),
        pytest.param(
            ShardedQuantization(method="compressed-tensors", group_size=128),
            routed(768),
            4,
            "quant group",
            id="compressed-tensors does not halve: 192",
        ),
        pytest.param(
            ShardedQuantization(method="gptq", group_size=-1),
            dense(intermediate_size=10944),
            8,
            None,
            id="rows",
        ),
        pytest.param(
            ShardedQuantization(method="fp8"), dense(intermediate_size=10944), 8, None, id="FP8 per tensor"
        ),
        pytest.param(
            ShardedQuantization(method="mxfp4", group_size=32),
            routed(2880),
            8,
            None,
            id="gpt-oss: MXFP4 experts are padded",
        ),
        pytest.param(
            ShardedQuantization(method="bitsandbytes"), dense(), 2, "bitsandbytes", id="packed, split"
        ),
        pytest.param(ShardedQuantization(method="bitsandbytes"), dense(), 1, None, id="packed, whole"),
    ],
)
def test_quantization_groups(
    quantization: ShardedQuantization, architecture: Architecture, tp: int, rule: str | None
) -> None:
    rejected = check_tp(architecture, tp, quantization=quantization)
    assert (rejected.rule if rejected else None) == rule


def test_kernel_tiles_of_engines_that_do_not_pad() -> None:
    # vllm-project/vllm#9913: DeepSeek-Coder-V2-Lite-Instruct-AWQ, group 64: 10944 is no multiple of 128, on
    # one GPU already.
    group_64 = ShardedQuantization(method="awq", group_size=64)
    architecture = dense(intermediate_size=10944)
    assert check_tp(architecture, 1, quantization=group_64) is None
    rejected = check_tp(architecture, 1, quantization=replace(group_64, tile=(64, 128)))
    assert rejected is not None
    assert rejected.rule == "marlin tile"
    assert (
        rejected.reason == "The feed-forward width of 10,944 / 1 = 10,944 is no multiple of the kernel's 128."
    )


@pytest.mark.parametrize(
    ("model_type", "tp", "expert_parallel", "rule"),
    [
        pytest.param("qwen3_moe", 16, False, "experts over ranks", id="the class refuses"),
        pytest.param("mixtral", 16, False, None, id="Mixtral splits every expert"),
        pytest.param("mixtral", 16, True, "experts over ranks", id="whole experts over more ranks"),
        pytest.param("mixtral", 8, True, None, id="one expert each"),
    ],
)
def test_experts_over_ranks(model_type: str, tp: int, expert_parallel: bool, rule: str | None) -> None:
    architecture = dense(
        model_type=model_type, num_local_experts=8, num_experts_per_tok=2, intermediate_size=14336
    )
    rejected = check_tp(architecture, tp, expert_parallel=expert_parallel)
    assert (rejected.rule if rejected else None) == rule


def test_a_width_that_does_not_divide() -> None:
    rejected = check_tp(dense(num_attention_heads=63, num_key_value_heads=63, vocab_size=192), 3)
    assert rejected is not None
    assert (rejected.rule, rejected.reason) == (
        "ffn width",
        "The feed-forward width of 28,672 does not divide by 3.",
    )


@pytest.mark.parametrize(
    ("model_id", "tp", "reason"),
    [
        ("moonshotai/Kimi-Linear-48B-A3B-Instruct", 32, None),
        ("RWKV/rwkv-4-169m-pile", 5, "A rwkv width of 768 does not divide by 5."),
        ("tiiuae/falcon-mamba-7b", 3, "A mamba1 width of 8192 does not divide by 3."),
    ],
)
def test_states_split_by_width_or_head(model_id: str, tp: int, reason: str | None) -> None:
    rejected = check_tp(published_architecture(model_id), tp)
    assert (rejected.reason if rejected else None) == reason


def test_one_mamba_group_is_copied_to_every_rank() -> None:
    # Bamba-9B: 128 state heads, one group.
    architecture = dense(
        model_type="bamba",
        attn_layer_indices=[1],
        mamba_n_heads=128,
        mamba_d_head=64,
        mamba_n_groups=1,
        mamba_d_state=128,
        mamba_d_conv=4,
        mamba_expand=1,
    )
    assert valid_tp(architecture) == ([1, 2, 4, 8, 16], [])


def test_key_heads_of_a_delta_net() -> None:
    # Qwen3-Next: 16 key heads, 32 value heads.
    architecture = dense(
        model_type="qwen3_next",
        num_key_value_heads=2,
        num_hidden_layers=4,
        num_experts=512,
        num_experts_per_tok=10,
        moe_intermediate_size=512,
    )
    assert check_tp(architecture, 16) is None
    rejected = check_tp(architecture, 32)
    assert rejected is not None
    assert rejected.reason == "16 key heads of the delta net do not divide by 32."


def test_widths_that_are_split() -> None:
    widths = {
        (width.part, width.label, width.width)
        for width in split_widths(published_architecture("zai-org/GLM-4.7-Flash"))
    }
    assert widths == {
        (Part.ATTENTION, "query projection", 20 * 256),
        (Part.ATTENTION, "latent expansion", 20 * 448),
        (Part.ATTENTION, "attention output", 20 * 256),
        (Part.DENSE_MLP, "feed-forward width", 10240),
        (Part.ROUTED_EXPERT, "expert width", 1536),
        (Part.SHARED_EXPERT, "shared-expert width", 1536),
    }


# Laws

MODELS = st.sampled_from(MODEL_IDS).map(published_architecture)


@given(architecture=MODELS)
def test_one_rank_always_starts_unquantized(architecture: Architecture) -> None:
    assert check_tp(architecture, 1) is None


@given(architecture=MODELS, widths=st.lists(st.integers(1, 64), max_size=6, unique=True))
def test_every_width_is_answered_once(architecture: Architecture, widths: list[int]) -> None:
    valid, rejected = valid_tp(architecture, widths=tuple(widths))
    assert sorted([*valid, *(item.tp for item in rejected)]) == sorted(widths)
    assert all(item.reason.endswith(".") for item in rejected)


@given(architecture=MODELS, tp=st.sampled_from([2, 4, 8, 16, 32]))
def test_a_width_that_starts_starts_at_half(architecture: Architecture, tp: int) -> None:
    if check_tp(architecture, tp) is None:
        assert check_tp(architecture, tp // 2) is None


@given(
    architecture=MODELS,
    tp=st.integers(1, 32),
    block=st.sampled_from([32, 64, 128]),
    group=st.sampled_from([-1, 32, 128]),
)
def test_quantization_only_adds_rules(architecture: Architecture, tp: int, block: int, group: int) -> None:
    for quantization in (
        ShardedQuantization(method="fp8", block=(block, block)),
        ShardedQuantization(method="gptq", group_size=group),
    ):
        if check_tp(architecture, tp) is not None:
            assert check_tp(architecture, tp, quantization=quantization) is not None
