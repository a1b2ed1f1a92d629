"""The worked figures of the field's primer, by the precise calculator."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from willitserve.assess import Assessment, Subject, assess
from willitserve.catalog import Catalog
from willitserve.errors import AmbiguousGpuError
from willitserve.kv_cache import arithmetic, kv_bytes_per_token
from willitserve.plan import find_engine
from willitserve.request import PlanRequest
from willitserve.scaling import valid_tp
from willitserve.verdict import judge

LLAMA_70B = "meta-llama/Llama-3.1-70B-Instruct"


SubjectOf = Callable[[str], Subject]
Assess = Callable[..., Assessment]


@pytest.fixture(scope="module")
def assessed(catalog: Catalog, subject_of: SubjectOf) -> Callable[..., Assessment]:
    """A plan of a catalog model on a card, by request fields."""

    def assessed(model_id: str, gpu: str, **changes: object) -> Assessment:
        request = replace(PlanRequest(model=model_id, gpu=gpu), **changes)
        card, engine = catalog.find_gpu(gpu), find_engine(catalog, "vllm")
        return assess(catalog, subject_of(model_id), request, card, engine)

    return assessed


def test_llama_3_70b_takes_327680_bytes_per_token(subject_of: SubjectOf) -> None:
    subject = subject_of(LLAMA_70B)
    assert kv_bytes_per_token(subject.architecture, kv_dtype_bits=16) == 327_680
    line = arithmetic(subject.architecture, kv_dtype_bits=16)
    assert line == "2 x 80 layers x 8 KV heads x 128 x 2 B = 327,680 B per token"


def test_sixteen_users_at_8k_hold_42_9_gb_beside_140_gb_of_weights(assessed: Assess) -> None:
    plan = assessed(LLAMA_70B, "b200-180gb", users=16, context=8192)
    assert plan.pool is not None
    kv = 16 * plan.pool.needed_bytes
    assert kv == 42_949_672_960  # 42.9 GB
    weights = plan.rank.weights
    assert weights == pytest.approx(141e9, rel=0.01)  # "about 140 GB"
    assert weights + kv == pytest.approx(184e9, rel=0.01)  # "about 185 GB with that traffic"


def test_70b_in_fp8_on_an_h100_sxm_gives_one_user_48_tokens_per_second(assessed: Assess) -> None:
    plan = assessed(LLAMA_70B, "h100-sxm5-80gb", weights="fp8", context=1)
    assert plan.speed is not None
    assert plan.speed.ceiling.per_user == pytest.approx(48, abs=1)


def test_deepseek_v3_takes_70272_bytes_per_token_on_every_rank(subject_of: SubjectOf) -> None:
    subject = subject_of("deepseek-ai/DeepSeek-V3")
    for tp in (1, 2, 8, 16):
        assert kv_bytes_per_token(subject.architecture, kv_dtype_bits=16, tp=tp) == 70_272


def test_forty_heads_with_eight_kv_heads_start_on_8_and_crash_on_6_and_16(subject_of: SubjectOf) -> None:
    subject = subject_of("Qwen/Qwen3-14B")
    assert (subject.architecture.num_attention_heads, subject.architecture.num_kv_heads) == (40, 8)
    valid, rejected = valid_tp(subject.architecture, quantization=None, widths=(1, 2, 4, 6, 8, 16))
    assert valid == [1, 2, 4, 8]
    reasons = {entry.tp: entry.reason for entry in rejected}
    assert set(reasons) == {6, 16}
    assert "40" in reasons[6]
    assert "40" in reasons[16]


def test_forty_heads_with_ten_kv_heads_crash_on_8_through_the_kv_rule(subject_of: SubjectOf) -> None:
    """So only does the primer's "8 GPUs on a model with 40 heads is a crash" hold: 8 divides 40, not 10."""
    subject = subject_of("microsoft/phi-4")
    assert (subject.architecture.num_attention_heads, subject.architecture.num_kv_heads) == (40, 10)
    valid, rejected = valid_tp(subject.architecture, quantization=None, widths=(1, 2, 8))
    assert valid == [1, 2]
    assert [(entry.tp, entry.rule) for entry in rejected] == [(8, "kv heads")]
    assert "10 KV heads" in rejected[0].reason


def test_h100_is_several_cards_and_they_answer_differently(catalog: Catalog, assessed: Assess) -> None:
    with pytest.raises(AmbiguousGpuError) as caught:
        catalog.find_gpu("H100")
    assert {"h100-sxm5-80gb", "h100-pcie-80gb"} <= set(caught.value.choices)
    sxm = assessed("meta-llama/Llama-3.1-8B-Instruct", "h100-sxm5-80gb", context=8192)
    pcie = assessed("meta-llama/Llama-3.1-8B-Instruct", "h100-pcie-80gb", context=8192)
    assert sxm.gpu.bandwidth_bytes_per_s == 3_350_000_000_000
    assert pcie.gpu.bandwidth_bytes_per_s is not None
    assert pcie.gpu.bandwidth_bytes_per_s == pytest.approx(2.0e12, rel=0.03)
    assert sxm.speed is not None
    assert pcie.speed is not None
    ratio = sxm.speed.ceiling.per_user / pcie.speed.ceiling.per_user
    assert ratio == pytest.approx(3.35 / 2.0, rel=0.03)


def test_70b_in_bf16_does_not_fit_one_h100_and_serves_16_users_on_four(assessed: Assess) -> None:
    asked = {"users": 16, "context": 8192}
    assert judge(assessed(LLAMA_70B, "h100-sxm5-80gb", **asked)).code == "does-not-fit"
    assert judge(assessed(LLAMA_70B, "h100-sxm5-80gb", tp=4, **asked)).code == "serves"
