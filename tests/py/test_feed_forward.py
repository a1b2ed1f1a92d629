"""The feed-forward half of every layer: experts in every naming, dense widths, and blocks that have none."""

import pytest

from published_configs import published_architecture
from willitserve.architecture import MixtureOfExperts
from willitserve.config import describe
from willitserve.errors import ConfigError

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
    ("model_id", "moe", "routed", "widths"),
    [
        ("databricks/dbrx-instruct", (16, 4, 10752, 0, 0), [*range(40)], {0}),
        ("xai-org/grok-2", (8, 2, 16384, 0, 0), [*range(64)], {32768}),
        ("zai-org/GLM-4.7-Flash", (64, 4, 1536, 1, 1536), [*range(1, 47)], {0, 10240}),
        ("moonshotai/Kimi-Linear-48B-A3B-Instruct", (256, 8, 1024, 1, 1024), [*range(1, 27)], {0, 9216}),
        ("baidu/ERNIE-4.5-300B-A47B-PT", (64, 8, 3584, 0, 0), [*range(3, 54)], {0, 28672}),
        ("stepfun-ai/step3", (48, 3, 5120, 1, 5120), [*range(4, 60)], {0, 18432}),
        ("XiaomiMiMo/MiMo-V2-Flash", (256, 8, 2048, 0, 0), [*range(1, 48)], {0, 16384}),
        ("poolside/Laguna-XS.2-FP8", (256, 8, 512, 1, 512), [*range(1, 40)], {0, 8192}),
        ("tencent/Hunyuan-A13B-Instruct", (64, 8, 3072, 1, 3072), [*range(32)], {0}),
        (
            "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
            (128, 1, 8192, 1, 8192),
            [*range(1, 48, 2)],
            {0, 16384},
        ),
        ("Snowflake/snowflake-arctic-instruct", (128, 2, 4864, 0, 0), [*range(1, 35, 2)], {4864}),
        ("meituan-longcat/LongCat-Flash-Chat", (512, 12, 2048, 0, 0), [*range(28)], {24576}),
    ],
)
def test_mixtures_of_experts(
    model_id: str, moe: tuple[int, int, int, int, int], routed: list[int], widths: set[int]
) -> None:
    architecture = published_architecture(model_id)
    assert architecture.moe == MixtureOfExperts(
        num_experts=moe[0],
        experts_per_token=moe[1],
        expert_width=moe[2],
        num_shared_experts=moe[3],
        shared_width=moe[4],
    )
    assert [layer.index for layer in architecture.layers if layer.ffn == "moe"] == routed
    assert {layer.ffn_width for layer in architecture.layers} == widths


@pytest.mark.parametrize(
    ("put", "moe", "routed"),
    [
        pytest.param(
            {
                "num_experts": 60,
                "num_experts_per_tok": 4,
                "moe_intermediate_size": 1408,
                "decoder_sparse_step": 2,
            }
            | {"mlp_only_layers": [3], "shared_expert_intermediate_size": 5632},
            MixtureOfExperts(
                num_experts=60,
                experts_per_token=4,
                expert_width=1408,
                num_shared_experts=1,
                shared_width=5632,
            ),
            [1, 5],
            id="Qwen",
        ),
        pytest.param(
            {"num_local_experts": 8, "num_experts_per_tok": 2},
            MixtureOfExperts(
                num_experts=8, experts_per_token=2, expert_width=1024, num_shared_experts=0, shared_width=0
            ),
            [0, 1, 2, 3, 4, 5],
            id="Mixtral: intermediate_size is the expert's",
        ),
        pytest.param(
            {
                "n_routed_experts": 64,
                "num_experts_per_tok": 6,
                "moe_intermediate_size": 1408,
                "n_shared_experts": 2,
            }
            | {"first_k_dense_replace": 1},
            MixtureOfExperts(
                num_experts=64,
                experts_per_token=6,
                expert_width=1408,
                num_shared_experts=2,
                shared_width=2816,
            ),
            [1, 2, 3, 4, 5],
            id="DeepSeek",
        ),
        pytest.param(
            {
                "n_routed_experts": 128,
                "num_experts_per_tok": 6,
                "moe_intermediate_size": 1856,
                "n_shared_experts": 1,
            }
            | {"moe_shared_expert_intermediate_size": 3712, "moe_layer_freq": [0, 1, 0, 1, 0, 1]},
            MixtureOfExperts(
                num_experts=128,
                experts_per_token=6,
                expert_width=1856,
                num_shared_experts=1,
                shared_width=3712,
            ),
            [1, 3, 5],
            id="Nemotron 3 widths, one entry per layer",
        ),
        pytest.param(
            {
                "moe_num_experts": [64, 64],
                "moe_k": 6,
                "moe_intermediate_size": [1536, 512],
                "moe_num_shared_experts": 2,
            },
            MixtureOfExperts(
                num_experts=64,
                experts_per_token=6,
                expert_width=1536,
                num_shared_experts=2,
                shared_width=3072,
            ),
            [0, 1, 2, 3, 4, 5],
            id="ERNIE VL: text and vision experts, the wider counts",
        ),
        pytest.param(
            {
                "num_experts": 32,
                "num_experts_per_tok": 4,
                "moe_intermediate_size": 1792,
                "num_dense_layers": 2,
            },
            MixtureOfExperts(
                num_experts=32, experts_per_token=4, expert_width=1792, num_shared_experts=0, shared_width=0
            ),
            [2, 3, 4, 5],
            id="LFM2-MoE",
        ),
        pytest.param(
            {"num_local_experts": 0, "num_experts_per_tok": 0}, None, [], id="Granite 4 micro: no experts"
        ),
        pytest.param({"num_experts": 1, "moe_topk": 1}, None, [], id="Hunyuan dense: one expert is none"),
    ],
)
def test_experts_in_every_naming(
    put: dict[str, object], moe: MixtureOfExperts | None, routed: list[int]
) -> None:
    architecture = describe(PLAIN | put)
    assert architecture.moe == moe
    assert [layer.index for layer in architecture.layers if layer.ffn == "moe"] == routed


def test_more_chosen_than_there_are_experts_is_refused() -> None:
    with pytest.raises(ConfigError, match="9 experts per token are more than 8 experts"):
        describe(PLAIN | {"num_experts": 8, "num_experts_per_tok": 9})


@pytest.mark.parametrize(
    ("put", "width"),
    [
        pytest.param({}, 1024, id="plain"),
        pytest.param(
            {"model_type": "gpt2", "intermediate_size": None, "n_inner": None}, 2048, id="GPT-2: 4 x hidden"
        ),
        pytest.param(
            {"model_type": "qwen", "kv_channels": 128}, 512, id="Qwen 1 counts gate and up together"
        ),
        pytest.param(
            {"intermediate_size": 12288, "block_auto_adjust_ff_dim": True, "block_multiple_of": 256},
            8192,
            id="LFM2 keeps two thirds",
        ),
    ],
)
def test_dense_width(put: dict[str, object], width: int) -> None:
    assert describe(PLAIN | put).layers[0].ffn_width == width


def test_pure_state_blocks_have_no_feed_forward_half() -> None:
    for model_id in ("tiiuae/falcon-mamba-7b",):
        architecture = published_architecture(model_id)
        assert {layer.ffn for layer in architecture.layers} == {"none"}
        assert (architecture.num_attention_heads, architecture.num_kv_heads, architecture.head_dim) == (
            0,
            0,
            0,
        )
