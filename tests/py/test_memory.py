"""Overheads and the pool, against what engines printed at start.

Origin of the figures: 40 measured starts of vLLM 0.19.0 on H100 80GB (gpu_memory_utilization 0.95, 79.19
GiB), published with llm-d-planner; public logs of vLLM 0.7 to 0.10 where a row says so.
"""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from starts import planned_start
from willitserve.assess import Subject
from willitserve.catalog import Catalog
from willitserve.config import describe
from willitserve.engine import CacheRules
from willitserve.kv_blocks import lay_out
from willitserve.memory import Batch, RankMemory, expert_workspace_bytes, fill_pool, num_capture_sizes
from willitserve.plan import find_engine
from willitserve.units import GIB

SubjectOf = Callable[[str], Subject]

H100 = {"gpu": "h100-sxm5-80gb", "engine": "vllm@0.19", "util": "0.95", "mem": "79.19", "context": "8192"}
LLAMA = "meta-llama/Llama-3.1-8B"
QWEN = "Qwen/Qwen2.5-7B-Instruct"


@pytest.mark.parametrize(
    ("model", "query", "activation", "non_torch", "graphs", "pool"),
    [
        pytest.param("codellama/CodeLlama-7b-hf", {}, 0.77, 0.25, 0.89, 61.66, id="forward pass decides"),
        pytest.param(LLAMA, {}, 1.89, 0.25, 0.91, 58.11, id="sampler decides"),
        pytest.param(LLAMA, {"kv": "fp8"}, 1.89, 0.25, 0.91, 58.11, id="FP8 cache changes nothing here"),
        pytest.param(LLAMA, {"dtype": "float32"}, 2.21, 0.25, 0.79, 42.8, id="float32 logits"),
        pytest.param(LLAMA, {"tp": "2"}, 1.89, 2.07, 0.76, 63.76, id="TP 2"),
        pytest.param(QWEN, {}, 2.21, 0.24, 0.87, 58.53, id="larger vocabulary"),
        pytest.param(QWEN, {"tp": "4"}, 2.21, 2.13, 0.64, 67.34, id="TP 4"),
        pytest.param("Qwen/Qwen2.5-72B-Instruct", {"tp": "2"}, 2.29, 2.09, 1.61, 3.04, id="80 layers, TP 2"),
        pytest.param("Qwen/Qwen3-8B", {}, 2.21, 0.25, 0.96, 57.5, id="Qwen3"),
        pytest.param("Qwen/Qwen1.5-MoE-A2.7B", {}, 2.47, 0.25, 1.1, 45.83, id="experts' workspace stays"),
        pytest.param("deepseek-ai/DeepSeek-V2-Lite", {}, 1.93, 0.26, 1.57, 43.61, id="6 of 64 experts"),
        pytest.param("google/gemma-3-27b-it", {}, 3.99, 0.26, 1.14, 19.53, id="262,208 entries, images"),
        pytest.param("microsoft/phi-2", {"context": "2048"}, 0.79, 0.24, 0.76, 69.0, id="small"),
    ],
)
def test_measured_starts_of_0_19_on_h100(
    catalog: Catalog,
    subject_of: SubjectOf,
    model: str,
    query: dict[str, str],
    activation: float,
    non_torch: float,
    graphs: float,
    pool: float,
) -> None:
    plan = planned_start(catalog, subject_of(model), **(H100 | query))
    assert plan.rank.activation is not None
    assert plan.rank.activation / GIB == pytest.approx(activation, rel=0.045)
    assert plan.rank.non_torch / GIB == pytest.approx(non_torch, abs=0.08)
    assert plan.rank.cuda_graphs / GIB == pytest.approx(graphs, abs=0.3)
    assert plan.pool_bytes is not None
    assert plan.pool_bytes / GIB == pytest.approx(pool, abs=0.2)
    assert abs(plan.pool_bytes / GIB - pool) <= plan.band_bytes / GIB


@pytest.mark.parametrize(
    ("model", "gpu", "query", "activation"),
    [
        pytest.param(
            "Qwen/Qwen2.5-1.5B-Instruct",
            "t4-16gb",
            {"engine": "vllm@0.7", "context": "32768", "dtype": "float16"},
            2.02,
            id="V0: a whole prompt of 32,768 tokens in one batch",
        ),
        pytest.param(
            "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B",
            "v100-sxm2-32gb",
            {"engine": "vllm@0.7", "context": "2048", "dtype": "float16"},
            1.40,
            id="V0: the sampler sorts",
        ),
        pytest.param(
            "Qwen/Qwen2.5-Math-1.5B",
            "a10g-24gb",
            {"engine": "vllm@0.7", "context": "4096"},
            1.40,
            id="V0, 1.5B",
        ),
        pytest.param(
            "Qwen/Qwen3-4B",
            "t4-16gb",
            {"engine": "vllm@0.8", "context": "10000", "seqs": "1", "dtype": "float16"},
            0.74,
            id="0.8 runs V0 on Turing",
        ),
    ],
)
def test_activation_of_older_engines(
    catalog: Catalog, subject_of: SubjectOf, model: str, gpu: str, query: dict[str, str], activation: float
) -> None:
    plan = planned_start(catalog, subject_of(model), gpu, **query)
    assert plan.rank.activation is not None
    assert plan.rank.activation / GIB == pytest.approx(activation, abs=0.025)


def test_the_band_reaches_both_where_the_installation_decides(
    catalog: Catalog, subject_of: SubjectOf
) -> None:
    """vLLM 0.10.1 with FlashInfer left 24.83 GiB; 0.10.2 without it took 38 B per logit."""
    query = {"engine": "vllm@0.10", "util": "0.5", "context": "16384"}
    plan = planned_start(catalog, subject_of("Qwen/Qwen2-7B-Instruct"), "a100-sxm4-80gb", **query)
    assert plan.pool_bytes is not None
    assert plan.pool_bytes / GIB == pytest.approx(24.83, abs=0.05)
    assert plan.sort_bytes == 24 * 256 * 152064


def test_multicast_buffers_only_behind_nvswitch_of_hopper(catalog: Catalog, subject_of: SubjectOf) -> None:
    """2 x A100 of vLLM 0.10.1 left 31.83 GiB of half the card: about 0.1 GiB for NCCL, 1.3 on H200."""
    query = {"engine": "vllm@0.10", "util": "0.5", "context": "16384", "tp": "2"}
    ampere = planned_start(catalog, subject_of("Qwen/Qwen2-7B-Instruct"), "a100-sxm4-80gb", **query)
    assert ampere.pool_bytes is not None
    assert ampere.pool_bytes / GIB == pytest.approx(31.83, abs=0.05)
    hopper = planned_start(catalog, subject_of("Qwen/Qwen2-7B-Instruct"), "h200-sxm5-141gb", **query)
    assert hopper.rank.non_torch / GIB == pytest.approx(1.38, abs=0.05)
    bridged = planned_start(catalog, subject_of("Qwen/Qwen2-7B-Instruct"), "h100-nvl-94gb", **query)
    assert bridged.rank.non_torch == ampere.rank.non_torch


@pytest.mark.parametrize(
    ("max_num_seqs", "sizes"),
    [
        pytest.param(1, 2, id="1, 2"),
        pytest.param(2, 3, id="1, 2, 4"),
        pytest.param(32, 11, id="up to 64"),
        pytest.param(256, 51, id="all of 0.19"),
        pytest.param(1024, 51, id="never above 512"),
    ],
)
def test_capture_sizes(catalog: Catalog, max_num_seqs: int, sizes: int) -> None:
    """vLLM 0.19 captures 51 sizes by default."""
    overhead = find_engine(catalog, "vllm@0.19").overhead
    assert num_capture_sizes(overhead, max_num_seqs=max_num_seqs) == sizes


def test_no_graphs_in_eager_mode(catalog: Catalog, subject_of: SubjectOf) -> None:
    plan = planned_start(catalog, subject_of(LLAMA), **H100, eager="1")
    assert plan.rank.cuda_graphs == 0


@pytest.mark.parametrize(
    ("tp", "expected"),
    [
        # Qwen1.5-MoE: 8192 x 4 x (2816 + 2048) x 2 B; a width of 704 leaves hidden_size the wider
        pytest.param(1, 8192 * 4 * (2816 + 2048) * 2, id="gate and up are the wider"),
        pytest.param(2, 8192 * 4 * (2048 + 2048) * 2, id="hidden_size is the wider"),
    ],
)
def test_expert_workspace(tp: int, expected: int) -> None:
    batch = Batch(max_num_seqs=1024, batched_tokens=8192, tp=tp, dtype_bits=16)
    assert expert_workspace_bytes(batch, experts_per_token=4, hidden_size=2048, width=1408) == expected


def test_only_the_last_stage_samples(catalog: Catalog, subject_of: SubjectOf) -> None:
    """Two stages of Llama-3.1-8B printed 1.10 GiB on the first."""
    plan = planned_start(catalog, subject_of(LLAMA), **H100, pp="2")
    first, last = plan.ranks
    assert first.activation is not None
    assert last.activation is not None
    assert first.activation / GIB == pytest.approx(1.10, abs=0.06)
    assert last.activation / GIB == pytest.approx(1.89, abs=0.01)
    assert plan.rank is last
    assert first.non_torch / GIB == pytest.approx(0.07, abs=0.005)


def test_graphs_come_off_the_pool_since_0_20(catalog: Catalog, subject_of: SubjectOf) -> None:
    before = planned_start(catalog, subject_of(LLAMA), **H100)
    after = planned_start(catalog, subject_of(LLAMA), **(H100 | {"engine": "vllm@0.20"}))
    assert before.pool_bytes is not None
    assert after.pool_bytes is not None
    assert before.pool_bytes - after.pool_bytes == after.rank.cuda_graphs


def test_a_checkpoint_s_own_cache_dtype_is_read_since_0_17(catalog: Catalog, subject_of: SubjectOf) -> None:
    subject = subject_of("nvidia/Llama-3.1-70B-Instruct-FP8")
    for engine, bits in (("vllm@0.13", 16), ("vllm@0.19", 8)):
        plan = planned_start(catalog, subject, "h200-sxm5-141gb", engine=engine, context="8192")
        assert plan.kv_dtype_bits == bits
    asked = planned_start(catalog, subject, "h200-sxm5-141gb", kv="bf16", context="8192")
    assert asked.kv_dtype_bits == 16


def test_sglang_s_pool_is_its_share_less_the_weights(catalog: Catalog, subject_of: SubjectOf) -> None:
    """SGLang on 4 x H100 with mem_fraction_static 0.93 printed 367,404 tokens, K and V 8.23 GB each."""
    subject = subject_of("Qwen/Qwen3-235B-A22B-FP8")
    query = {"engine": "sglang", "tp": "4", "util": "0.93", "context": "32768"}
    plan = planned_start(catalog, subject, "h100-sxm5-80gb", **query)
    assert plan.pool is not None
    assert plan.pool.tokens == pytest.approx(367404, rel=0.01)
    assert plan.rank.activation == 0


def test_sglang_s_mixed_layers_are_not_described(catalog: Catalog, subject_of: SubjectOf) -> None:
    plan = planned_start(catalog, subject_of("openai/gpt-oss-20b"), "h100-sxm5-80gb", engine="sglang")
    assert plan.pool is not None
    assert plan.pool.tokens is None
    assert plan.rank.layout is None


@given(st.integers(0, 200 * GIB), st.integers(0, 4 * GIB), st.integers(1, 100_000))
def test_more_pool_holds_no_less(pool: int, more: int, context: int) -> None:
    rank = _llama_rank()
    small = fill_pool(rank, pool, context=context, printed_tokens="blocks")
    large = fill_pool(rank, pool + more, context=context, printed_tokens="blocks")
    assert small.tokens is not None
    assert large.tokens is not None
    assert small.tokens <= large.tokens
    assert small.needed_bytes == large.needed_bytes


def _llama_rank() -> RankMemory:
    architecture = describe(
        {
            "model_type": "llama",
            "num_hidden_layers": 32,
            "hidden_size": 4096,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "intermediate_size": 14336,
            "vocab_size": 128256,
        }
    )
    layers = range(32)
    layout = lay_out(
        architecture,
        layers,
        kv_dtype_bits=16,
        tp=1,
        block_size=16,
        in_flight_tokens=8192,
        rules=CacheRules(),
    )
    return RankMemory(
        stage=0,
        layers=layers,
        weights=0,
        activation=0,
        non_torch=0,
        cuda_graphs=0,
        kv_per_token=131072,
        kv_fixed_per_sequence=0,
        layout=layout,
    )
