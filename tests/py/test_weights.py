"""Bytes of weights on one rank, against what engines printed as “Model loading took”.

Origin of the figures: vLLM 0.19.0 on H100 80GB, published with llm-d-planner (printed to 0.01 GiB), and
public logs of vLLM 0.6 to 0.14 (printed to 0.0001 GiB): dennislee22/vLLM-benchmarking and others.
"""

from collections.abc import Callable

import pytest

from starts import planned_start
from willitserve.allocator import allocated_bytes
from willitserve.assess import Subject
from willitserve.catalog import Catalog
from willitserve.expert_padding import MARLIN, TRITON, TRTLLM, expert_kernel
from willitserve.kv_cache import layers_of_stages
from willitserve.units import GIB, MIB
from willitserve.weights import stage_weight_bytes

SubjectOf = Callable[[str], Subject]


def loaded_gib(subject: Subject, *, tp: int = 1, pp: int = 1, bits: int = 16) -> float:
    """The fullest stage's weights, GiB."""
    architecture = subject.architecture
    stages = layers_of_stages(len(architecture.layers), pp)
    found = stage_weight_bytes(subject.checkpoint, architecture, stages, tp=tp, run_dtype_bits=bits)
    return max(found) / GIB


@pytest.mark.parametrize(
    ("model", "tp", "pp", "printed", "printed_to"),
    [
        pytest.param("Qwen/Qwen2-7B-Instruct", 1, 1, 14.2488, 2e-4, id="rests of 2 MiB a layer"),
        pytest.param("Qwen/Qwen2-7B-Instruct", 2, 1, 7.1217, 2e-4, id="TP 2"),
        pytest.param("TinyLlama/TinyLlama-1.1B-Chat-v1.0", 1, 1, 2.0512, 1e-4, id="nothing to round"),
        pytest.param("Qwen/Qwen3-Next-80B-A3B-Instruct", 2, 1, 74.2812, 4e-4, id="512 experts, TP 2"),
        pytest.param("google/gemma-3-1b-it", 1, 1, 1.9148, 1e-3, id="two rotary tables"),
        pytest.param("deepseek-ai/DeepSeek-R1-Distill-Qwen-14B", 2, 1, 13.9476, 5e-3, id="3.5 MiB a layer"),
        pytest.param("meta-llama/Llama-3.1-8B", 1, 1, 14.99, 0.006, id="rotary table of 131,072 rows"),
        pytest.param("meta-llama/Llama-3.1-8B", 4, 1, 3.77, 0.006, id="table whole on each of 4 ranks"),
        pytest.param("meta-llama/Llama-3.1-8B", 1, 4, 4.26, 0.006, id="first of 4 stages holds embeddings"),
        pytest.param("Qwen/Qwen2.5-72B-Instruct", 2, 1, 67.80, 0.006, id="72B, TP 2"),
        pytest.param("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", 4, 1, 16.96, 0.006, id="FP8, TP 4"),
        pytest.param("deepseek-ai/DeepSeek-V2-Lite", 1, 1, 29.43, 0.006, id="copy of the latent expansion"),
        pytest.param("mistralai/Mistral-Small-3.1-24B-Instruct-2503", 1, 1, 44.76, 0.006, id="and tower"),
    ],
)
def test_what_an_engine_prints_after_loading(
    subject_of: SubjectOf, model: str, tp: int, pp: int, printed: float, printed_to: float
) -> None:
    assert loaded_gib(subject_of(model), tp=tp, pp=pp) == pytest.approx(printed, abs=printed_to)


def test_float32_doubles_weights_and_tables(subject_of: SubjectOf) -> None:
    assert loaded_gib(subject_of("meta-llama/Llama-3.1-8B"), bits=32) == pytest.approx(29.98, abs=0.006)


@pytest.mark.parametrize(
    ("model", "gpu", "tp", "engine", "printed"),
    [
        pytest.param("openai/gpt-oss-120b", "h100-sxm5-80gb", "1", "vllm@0.14", 64.38, id="Triton on Hopper"),
        pytest.param("openai/gpt-oss-20b", "a100-sxm4-80gb", "1", "vllm@0.19", 13.72, id="Marlin on Ampere"),
        pytest.param("openai/gpt-oss-120b", "a100-sxm4-80gb", "4", "vllm@0.10", 17.2217, id="Marlin, TP 4"),
    ],
)
def test_mxfp4_experts_are_padded_for_their_kernel(
    catalog: Catalog, subject_of: SubjectOf, model: str, gpu: str, tp: str, engine: str, printed: float
) -> None:
    plan = planned_start(catalog, subject_of(model), gpu, tp=tp, engine=engine, context="16384")
    assert plan.rank.weights / GIB == pytest.approx(printed, rel=0.003)


@pytest.mark.parametrize(
    ("capability", "kernel"),
    [
        ("8.0", MARLIN),
        ("8.9", MARLIN),
        ("9.0", TRITON),
        ("10.0", TRTLLM),
        ("12.0", MARLIN),
        (None, MARLIN),
    ],
)
def test_the_kernel_of_a_card(capability: str | None, kernel: object) -> None:
    assert expert_kernel(capability) is kernel


@pytest.mark.parametrize(
    ("asked", "held"),
    [
        pytest.param(1, 512, id="smallest block"),
        pytest.param(512, 512, id="whole block"),
        pytest.param(513, 1024, id="next block"),
        pytest.param(10 * MIB - 512, 10 * MIB - 512, id="shares a segment"),
        pytest.param(10 * MIB, 10 * MIB, id="fills its segment"),
        pytest.param(11 * MIB - 512, 11 * MIB - 512, id="rest above 1 MiB is given back"),
        pytest.param(11 * MIB, 12 * MIB, id="rest of 1 MiB stays"),
        pytest.param(12 * MIB, 12 * MIB, id="nothing left"),
    ],
)
def test_the_allocator_hands_out_blocks(asked: int, held: int) -> None:
    """PyTorch c10/cuda/CUDACachingAllocator.cpp: kMinBlockSize, kMinLargeAlloc, kRoundLarge, kSmallSize."""
    assert allocated_bytes(asked) == held


@pytest.mark.parametrize(
    ("model", "tables"),
    [
        pytest.param("meta-llama/Llama-3.1-8B", [(131072, 128)], id="llama3 scaling is in the positions"),
        pytest.param("google/gemma-3-27b-it", [(131072, 128), (1048576, 128)], id="factor 8, windows 1"),
        pytest.param("openai/gpt-oss-20b", [(131072, 64)], id="YaRN: 4,096 x 32"),
        pytest.param("deepseek-ai/DeepSeek-V3", [(163840, 64)], id="YaRN of the rotated part"),
        pytest.param("Qwen/Qwen3.5-9B", [(1048576, 64)], id="images: four times, a quarter rotated"),
        pytest.param("Qwen/Qwen2.5-VL-7B-Instruct", [(512000, 128)], id="images: four times"),
        pytest.param("microsoft/phi-2", [(2048, 32)], id="0.4 of 80"),
        pytest.param("zai-org/GLM-4.5-Air", [(131072, 64)], id="half"),
        pytest.param("internlm/internlm2_5-7b", [(65536, 128)], id="dynamic factor 2"),
        pytest.param("bigscience/bloom", [], id="ALiBi"),
        pytest.param("openai-community/gpt2", [], id="learned positions"),
        pytest.param("ibm-granite/granite-4.0-h-small", [], id="no positions"),
        pytest.param("state-spaces/mamba-2.8b-hf", [], id="states"),
    ],
)
def test_rotary_tables(subject_of: SubjectOf, model: str, tables: list[tuple[int, int]]) -> None:
    found = sorted((table.rows, table.width) for table in subject_of(model).architecture.rotary_tables)
    assert found == tables
