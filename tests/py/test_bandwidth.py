"""Number 2: bytes of a step, a ceiling that no published run exceeds, and a band that published runs fall
into."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from willitserve.assess import Assessment, Speed, Subject, assess
from willitserve.bandwidth import (
    all_reduce_of,
    card_class,
    distinct_experts,
    has_sparse_attention,
    least_kv_read_bytes,
    step_weights,
)
from willitserve.catalog import Catalog
from willitserve.kv_cache import kv_read_bytes, layers_of_stages
from willitserve.plan import find_engine
from willitserve.request import PlanRequest
from willitserve.step_time import (
    Machine,
    Workload,
    attention_windows,
    batch_curve,
    compute_knee,
    first_token_seconds,
    half_layers,
    prompt_flops,
    step_seconds,
)

LLAMA_70B = "meta-llama/Llama-3.1-70B-Instruct"
LLAMA_70B_FP8 = "nvidia/Llama-3.1-70B-Instruct-FP8"
LLAMA_70B_NVFP4 = "nvidia/Llama-3.3-70B-Instruct-NVFP4"
LLAMA_8B = "meta-llama/Llama-3.1-8B"
GPT_OSS = "openai/gpt-oss-120b"
MINIMAX = "MiniMaxAI/MiniMax-M2.5"

SubjectOf = Callable[[str], Subject]
SpeedOf = Callable[..., Speed]


@pytest.fixture(scope="module")
def assessed(catalog: Catalog, subject_of: SubjectOf) -> Callable[..., Assessment]:
    """A plan of a catalog model on a card, by request fields."""

    def assessed(model_id: str, gpu: str, **changes: object) -> Assessment:
        request = replace(PlanRequest(model=model_id, gpu=gpu), **changes)
        return assess(
            catalog, subject_of(model_id), request, catalog.find_gpu(gpu), find_engine(catalog, "vllm")
        )

    return assessed


@pytest.fixture(scope="module")
def speed_of(assessed: Callable[..., Assessment]) -> SpeedOf:
    """Number 2 of such a plan."""

    @cache
    def speed_of(model_id: str, gpu: str, **changes: object) -> Speed:
        speed = assessed(model_id, gpu, **changes).speed
        assert speed is not None
        return speed

    return speed_of


def parts_of(speed: Speed) -> tuple[Workload, Machine]:
    """What the step-time model of a plan was asked."""
    assert speed.load is not None
    assert speed.machine is not None
    return speed.load, speed.machine


@pytest.mark.parametrize(
    ("num_experts", "experts_per_token", "users", "expected"),
    [
        pytest.param(8, 2, 1, 2.0, id="one-token-reads-its-own"),
        pytest.param(8, 2, 2, 3.5, id="two-tokens-share-one-in-four"),
        pytest.param(128, 4, 32, 81.66, id="gpt-oss-120b-at-32"),
        pytest.param(256, 8, 4096, 256.0, id="a-large-batch-reads-all"),
        pytest.param(8, 8, 1, 8.0, id="no-choice"),
        pytest.param(0, 0, 5, 0.0, id="no-experts"),
    ],
)
def test_distinct_experts(num_experts: int, experts_per_token: int, users: int, expected: float) -> None:
    assert distinct_experts(num_experts, experts_per_token, users) == pytest.approx(expected, abs=0.005)


def test_a_step_reads_all_weights_but_the_input_embedding(subject_of: SubjectOf) -> None:
    subject = subject_of(LLAMA_70B)
    weights = step_weights(
        subject.checkpoint,
        subject.architecture,
        tp=1,
        stages=layers_of_stages(80, 1),
        run_dtype_bits=16,
        weight_format=None,
    )
    # 70,553,706,496 parameters less 128,256 x 8,192 of the embedding, 2 B each.
    assert weights.dense == (139_006_066_688,)
    assert weights.routed == (0,)


def test_a_tied_embedding_is_read_as_the_output_head(subject_of: SubjectOf) -> None:
    subject = subject_of("Qwen/Qwen3-4B")
    weights = step_weights(
        subject.checkpoint,
        subject.architecture,
        tp=1,
        stages=layers_of_stages(36, 1),
        run_dtype_bits=16,
        weight_format=None,
    )
    assert weights.dense == (2 * 4_022_468_096,)  # all 4,022,468,096 parameters


def test_ceiling_of_one_user_is_bandwidth_over_bytes(speed_of: SpeedOf) -> None:
    speed = speed_of(LLAMA_70B, "h200-sxm5-141gb", context=8192)
    # 4.8 TB/s / (139.006 GB + 8,192 x 327,680 B) = 33.88
    assert speed.ceiling.per_user == pytest.approx(4.8e12 / (139_006_066_688 + 2_684_354_560))
    assert speed.ceiling.per_user == pytest.approx(33.88, abs=0.01)


def test_ceiling_counts_the_experts_of_one_token_whatever_the_batch(speed_of: SpeedOf) -> None:
    one, many = (speed_of(GPT_OSS, "h200-sxm5-141gb", users=n, context=1024) for n in (1, 64))
    assert many.step.routed_weights == one.step.routed_weights
    load, _ = parts_of(many)
    assert load.weights.least_share == 4 / 128
    assert load.weights.expected_share(1) == pytest.approx(4 / 128)
    assert load.weights.expected_share(64) == pytest.approx(0.869, abs=0.001)  # 1 - (31/32)^64


def test_a_pipeline_does_not_speed_one_user_up(speed_of: SpeedOf) -> None:
    alone = speed_of(LLAMA_70B, "b200-180gb", users=1, context=1024)
    piped = speed_of(LLAMA_70B, "b200-180gb", users=1, context=1024, pp=2)
    assert piped.ceiling.per_user == pytest.approx(alone.ceiling.per_user)
    assert piped.ceiling.aggregate == pytest.approx(piped.ceiling.per_user)


def test_a_pipeline_deals_its_users_out_to_the_stages(speed_of: SpeedOf) -> None:
    """Each step holds half of them: the same bound as for half the users without a pipeline."""
    half = speed_of(LLAMA_70B, "b200-180gb", users=4, context=1024)
    piped = speed_of(LLAMA_70B, "b200-180gb", users=8, context=1024, pp=2)
    assert piped.ceiling.per_user == pytest.approx(half.ceiling.per_user)
    assert piped.ceiling.aggregate == pytest.approx(8 * piped.ceiling.per_user)


def test_only_the_users_that_run_share_a_step(speed_of: SpeedOf) -> None:
    """Three of forty fit on this card: the others wait and slow nobody down."""
    three = speed_of("Qwen/Qwen3-8B", "l4-24gb", users=3, context=8192)
    forty = speed_of("Qwen/Qwen3-8B", "l4-24gb", users=40, context=8192)
    assert forty.ceiling.per_user == pytest.approx(three.ceiling.per_user)
    assert forty.ceiling.aggregate == pytest.approx(3 * forty.ceiling.per_user)


def test_tensor_parallelism_divides_what_each_rank_reads(speed_of: SpeedOf) -> None:
    one, two = (speed_of(LLAMA_70B_FP8, "b200-180gb", context=8192, tp=tp) for tp in (1, 2))
    assert two.ceiling.per_user == pytest.approx(2 * one.ceiling.per_user, rel=0.001)
    assert one.high is not None
    assert two.high is not None
    assert one.high < two.high < 1.9 * one.high


def test_all_reduces_over_pcie_cost_more_than_over_nvlink(speed_of: SpeedOf) -> None:
    pcie = speed_of(LLAMA_8B, "l40s-48gb", users=16, context=1024, tp=4)
    nvlink = speed_of(LLAMA_8B, "h100-sxm5-80gb", users=16, context=1024, tp=4)
    assert pcie.seconds is not None
    assert nvlink.seconds is not None
    assert pcie.seconds.all_reduce > 4 * nvlink.seconds.all_reduce


def test_an_indexer_lowers_what_is_read_for_certain(subject_of: SubjectOf) -> None:
    architecture = subject_of("zai-org/GLM-5-FP8").architecture
    assert has_sparse_attention(architecture)
    least = least_kv_read_bytes(architecture, 100_000, kv_dtype_bits=16, tp=1)
    assert 0 < least < kv_read_bytes(architecture, 100_000, kv_dtype_bits=16, tp=1) / 4


@pytest.mark.parametrize("model_id", [LLAMA_70B, "deepseek-ai/DeepSeek-V3"])
def test_without_an_indexer_all_of_the_cache_is_read(subject_of: SubjectOf, model_id: str) -> None:
    architecture = subject_of(model_id).architecture
    assert not has_sparse_attention(architecture)
    least = least_kv_read_bytes(architecture, 9000, kv_dtype_bits=8, tp=2)
    assert least == kv_read_bytes(architecture, 9000, kv_dtype_bits=8, tp=2)


@pytest.mark.parametrize(
    ("model_id", "expected"),
    [
        pytest.param(LLAMA_70B, 160, id="two-per-layer"),
        pytest.param("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 52, id="one-per-layer-of-a-hybrid"),
    ],
)
def test_half_layers(subject_of: SubjectOf, model_id: str, expected: int) -> None:
    assert half_layers(subject_of(model_id).architecture) == expected


def test_attention_windows_of_gpt_oss_alternate(subject_of: SubjectOf) -> None:
    assert dict(attention_windows(subject_of(GPT_OSS).architecture)) == {128: 18, None: 18}


def test_prompt_flops_of_a_full_and_a_windowed_model(speed_of: SpeedOf) -> None:
    full, _ = parts_of(speed_of(LLAMA_8B, "h100-sxm5-80gb", context=4096, input=2048))
    # 6,979,588,096 block parameters; 32 layers of 4 x 32 x 128 x 2048^2 / 2.
    assert full.active_params == 6_979_588_096
    assert prompt_flops(full) == 2 * 6_979_588_096 * 2048 + 32 * 4 * 4096 * 2048 * 2048 // 2
    windowed = replace(full, attention=((512, 32),))
    assert prompt_flops(windowed) == 2 * 6_979_588_096 * 2048 + 32 * 4 * 4096 * (2048 * 512 - 512 * 256)


@pytest.mark.parametrize(
    ("gpu", "weights", "bits"),
    [
        pytest.param("b200-180gb", "nvfp4", 4, id="native-fp4"),
        pytest.param("h100-sxm5-80gb", "nvfp4", 16, id="fp4-is-unpacked-on-hopper"),
        pytest.param("b200-180gb", "int4", 16, id="int4-is-unpacked-everywhere"),
        pytest.param("h100-sxm5-80gb", "fp8", 8, id="native-fp8"),
        pytest.param("a100-sxm4-80gb", "fp8", 16, id="fp8-is-unpacked-on-ampere"),
        pytest.param("h100-sxm5-80gb", "checkpoint", 16, id="bf16"),
    ],
)
def test_width_that_the_card_multiplies(speed_of: SpeedOf, gpu: str, weights: str, bits: int) -> None:
    _, machine = parts_of(speed_of(LLAMA_8B, gpu, weights=weights))
    assert machine.math_bits == bits


@pytest.mark.parametrize(
    ("num_bytes", "ranks", "microseconds"),
    [
        pytest.param(1, 8, 4.27, id="below-the-smallest"),
        pytest.param(1_048_576, 8, 20.95, id="as-measured"),
        pytest.param((1_048_576 + 4_194_304) // 2, 8, (20.95 + 70.09) / 2, id="between"),
        pytest.param(2 * 268_435_456, 2, 2 * 1682.85, id="above-the-largest"),
        pytest.param(65_536, 3, 5.83, id="three-ranks-as-four"),
        pytest.param(65_536, 16, 7.16, id="sixteen-ranks-as-eight"),
        pytest.param(65_536, 1, 0.0, id="one-rank-has-none"),
    ],
)
def test_all_reduce_of_h100(catalog: Catalog, num_bytes: int, ranks: int, microseconds: float) -> None:
    table = all_reduce_of(catalog.find_gpu("h100-sxm5-80gb"), catalog.all_reduce, tp=ranks)
    assert table is not None
    assert table.seconds(num_bytes, ranks) * 1e6 == pytest.approx(microseconds)


def test_every_card_class_has_its_constants(catalog: Catalog) -> None:
    classes = {card_class(gpu) for gpu in catalog.gpus} - {None}
    for engine in catalog.engines:
        assert classes == engine.step_time.bandwidth_efficiency.keys()
        assert classes == engine.step_time.class_error.keys()


# Published: (model, card, TP, users, tokens in, tokens out, request fields, tokens/s of one user), with the
# source in the id. aiconfigurator: systems/silicon_sample.csv, closed-loop clients of vLLM.
PUBLISHED = [
    pytest.param(LLAMA_70B_FP8, "h200-sxm5-141gb", 1, 4, 1024, 1024, 46.59, id="aiconfigurator-h200-tp1"),
    pytest.param(LLAMA_70B_FP8, "h200-sxm5-141gb", 2, 16, 1024, 8192, 58.21, id="aiconfigurator-h200-tp2"),
    pytest.param(LLAMA_70B_FP8, "h200-sxm5-141gb", 8, 64, 1024, 1024, 78.53, id="aiconfigurator-h200-tp8"),
    pytest.param(LLAMA_70B_FP8, "h100-sxm5-80gb", 4, 32, 8192, 1024, 30.47, id="aiconfigurator-h100-long"),
    pytest.param(LLAMA_70B_FP8, "b200-180gb", 8, 4, 1024, 1024, 158.28, id="aiconfigurator-b200-tp8"),
    pytest.param(LLAMA_70B_NVFP4, "b200-180gb", 2, 64, 1024, 1024, 73.04, id="aiconfigurator-b200-nvfp4"),
    pytest.param(GPT_OSS, "h100-sxm5-80gb", 8, 32, 1024, 1024, 173.25, id="aiconfigurator-h100-moe"),
    pytest.param(GPT_OSS, "b200-180gb", 1, 32, 1024, 1024, 126.05, id="aiconfigurator-b200-moe"),
    pytest.param(MINIMAX, "b300-288gb", 4, 32, 1024, 1024, 78.91, id="aiconfigurator-b300-block-fp8"),
    pytest.param(LLAMA_70B, "h200-sxm5-141gb", 4, 8, 32, 128, 61.61, id="vllm-benchmark-build-9515"),
    pytest.param(
        "mistralai/Mixtral-8x7B-v0.1", "h200-sxm5-141gb", 2, 8, 32, 128, 66.76, id="vllm-build-9515-moe"
    ),
    pytest.param("Qwen/Qwen3-4B", "rtx4090-24gb", 1, 1, 128, 1024, 96.15, id="tt-inference-server-394"),
    pytest.param(LLAMA_8B, "a100-sxm4-40gb", 1, 1, 1024, 128, 75.0, id="johnmusgrave.com"),
    pytest.param(GPT_OSS, "arc-pro-b60-24gb", 4, 20, 5120, 5120, 32.68, id="vllm-post-2025-11-11"),
]


@pytest.mark.parametrize(("model_id", "gpu", "tp", "users", "prompt", "wanted", "measured"), PUBLISHED)
def test_a_published_speed_is_below_the_ceiling_and_in_the_band(
    speed_of: SpeedOf,
    model_id: str,
    gpu: str,
    tp: int,
    users: int,
    prompt: int,
    wanted: int,
    measured: float,
) -> None:
    speed = speed_of(
        model_id, gpu, tp=tp, users=users, context=prompt + wanted // 2, input=prompt, output=wanted
    )
    assert speed.low is not None
    assert speed.high is not None
    assert speed.low <= measured <= speed.high <= speed.ceiling.per_user
    assert speed.high / speed.low < 1.75


@pytest.mark.parametrize(
    ("model_id", "gpu", "tp", "users", "prompt", "seconds"),
    [
        pytest.param(LLAMA_70B_FP8, "h200-sxm5-141gb", 1, 4, 8192, 1.345, id="aiconfigurator-h200-tp1"),
        pytest.param(LLAMA_70B_FP8, "h200-sxm5-141gb", 8, 4, 8192, 0.303, id="aiconfigurator-h200-tp8"),
        pytest.param(LLAMA_70B_NVFP4, "b200-180gb", 2, 4, 8192, 0.350, id="aiconfigurator-b200-nvfp4"),
        pytest.param(GPT_OSS, "b200-180gb", 8, 4, 1024, 0.025, id="aiconfigurator-b200-moe"),
    ],
)
def test_a_published_time_to_first_token_is_in_the_band(
    speed_of: SpeedOf, model_id: str, gpu: str, tp: int, users: int, prompt: int, seconds: float
) -> None:
    speed = speed_of(model_id, gpu, tp=tp, users=users, context=prompt + 512, input=prompt, output=1024)
    assert speed.ttft_low is not None
    assert speed.ttft_high is not None
    assert speed.ttft_low <= seconds <= speed.ttft_high


def test_prefill_of_other_users_stretches_a_step_only_where_lengths_are_given(speed_of: SpeedOf) -> None:
    plain = speed_of(LLAMA_70B_FP8, "h200-sxm5-141gb", users=16, context=4096)
    served = speed_of(LLAMA_70B_FP8, "h200-sxm5-141gb", users=16, context=4096, input=3968, output=256)
    alone = speed_of(LLAMA_70B_FP8, "h200-sxm5-141gb", users=1, context=4096, input=3968, output=256)
    assert plain.seconds is not None
    assert served.seconds is not None
    assert alone.seconds is not None
    assert plain.seconds.prefill == alone.seconds.prefill == 0.0
    assert "no prefill of other users" in plain.because
    assert served.seconds.prefill > 0.0
    assert served.seconds.total == pytest.approx(plain.seconds.total + served.seconds.prefill)


def test_a_card_without_measurements_gets_the_ceiling_alone(speed_of: SpeedOf) -> None:
    speed = speed_of(LLAMA_8B, "tpu-v5e")
    assert speed.ceiling.per_user > 0
    assert speed.low is speed.high is speed.ttft_low is speed.seconds is None
    assert "only the ceiling" in speed.because


@pytest.mark.parametrize("model_id", [LLAMA_70B_FP8, GPT_OSS])
@given(users=st.integers(1, 5000), more=st.integers(1, 500))
def test_more_users_slow_each_one_and_never_lower_the_aggregate_ceiling(
    catalog: Catalog, speed_of: SpeedOf, model_id: str, users: int, more: int
) -> None:
    load, machine = parts_of(speed_of(model_id, "h200-sxm5-141gb", context=2048, tp=2))
    constants = find_engine(catalog, "vllm").step_time
    few, many = batch_curve(load, machine, constants, users=(users, users + more), max_users=users)
    assert many.low <= few.low <= few.high <= few.ceiling.per_user
    assert many.high <= few.high
    assert many.ceiling.per_user <= few.ceiling.per_user
    assert many.ceiling.aggregate >= few.ceiling.aggregate
    assert few.fits
    assert not many.fits


@given(short=st.integers(1, 100_000), longer=st.integers(1, 100_000))
def test_a_longer_prompt_takes_longer(catalog: Catalog, speed_of: SpeedOf, short: int, longer: int) -> None:
    load, machine = parts_of(speed_of(LLAMA_70B_FP8, "h200-sxm5-141gb", context=2048, tp=2))
    constants = find_engine(catalog, "vllm").step_time
    first, second = (
        first_token_seconds(replace(load, prompt_tokens=n), machine, constants, users=2)
        for n in (short, short + longer)
    )
    assert first is not None
    assert second is not None
    assert first <= second


@pytest.mark.parametrize("model_id", [LLAMA_70B_FP8, GPT_OSS])
def test_from_the_knee_on_multiplying_takes_longer_than_reading(
    catalog: Catalog, speed_of: SpeedOf, model_id: str
) -> None:
    load, machine = parts_of(speed_of(model_id, "h200-sxm5-141gb", context=2048))
    constants = find_engine(catalog, "vllm").step_time
    knee = compute_knee(load, machine, constants)
    assert knee is not None

    def is_compute_bound(users: int) -> bool:
        read = step_seconds(load, replace(machine, dense_flops_per_s=None), constants, users=users).weights
        both = step_seconds(load, machine, constants, users=users).weights
        # Where the two are equal the soft knee is the fourth root of two above either.
        return both >= read * 2**0.25 * 0.999_999

    assert is_compute_bound(knee)
    assert not is_compute_bound(knee - 1)
    assert compute_knee(load, replace(machine, dense_flops_per_s=None), constants) is None
