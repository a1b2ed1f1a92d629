"""The predicted start-up lines, in the form of the version, against lines that were printed.

Origin: vLLM 0.19.0 on H100 80GB, published with llm-d-planner; forms from the engine's source.
"""

from collections.abc import Callable

import pytest

from starts import planned_start
from willitserve.assess import Subject
from willitserve.catalog import Catalog
from willitserve.startup_log import predicted_lines

SubjectOf = Callable[[str], Subject]


@pytest.mark.parametrize(
    ("version", "lines"),
    [
        pytest.param(
            "0.6",
            [
                "Loading model weights took 14.9888 GB",
                "model weights take 14.99GiB; non_torch_memory takes 0.06GiB; PyTorch activation peak memory"
                " takes 1.27GiB; the rest of the memory reserved for KV Cache is 58.92GiB.",
                "# GPU blocks: 30165, # CPU blocks: 2048",
                "Maximum concurrency for 8192 tokens per request: 58.92x",
                "Graph capturing finished in … secs, took 0.21 GiB",
            ],
            id="V0",
        ),
        pytest.param(
            "0.13",
            [
                "Model loading took 14.9888 GiB memory and … seconds",
                "Available KV cache memory: 55.44 GiB",
                "GPU KV cache size: 454,192 tokens",
                "Maximum concurrency for 8,192 tokens per request: 55.44x",
                "Graph capturing finished in … secs, took 0.90 GiB",
            ],
            id="four digits, thousands set apart",
        ),
        pytest.param(
            "0.19",
            [
                "Model loading took 14.99 GiB memory and … seconds",
                "Available KV cache memory: 58.11 GiB",
                "GPU KV cache size: 476,000 tokens",
                "Maximum concurrency for 8,192 tokens per request: 58.11x",
                "Graph capturing finished in … secs, took 0.90 GiB",
            ],
            id="as measured",
        ),
        pytest.param(
            "0.33",
            [
                "Model loading took 14.99 GiB memory and … seconds",
                "Available KV cache memory: 57.27 GiB",
                "GPU KV cache size: 469,184 tokens, Maximum concurrency for 8,192 tokens per request: 57.27x",
                "Graph capturing finished in … secs, took 0.90 GiB",
            ],
            id="tokens and concurrency in one line",
        ),
    ],
)
def test_forms_by_version(catalog: Catalog, subject_of: SubjectOf, version: str, lines: list[str]) -> None:
    subject = subject_of("meta-llama/Llama-3.1-8B")
    query = {"engine": f"vllm@{version}", "util": "0.95", "mem": "79.19", "context": "8192"}
    assert predicted_lines(planned_start(catalog, subject, "h100-sxm5-80gb", **query)) == lines


def test_an_unknown_figure_leaves_its_line_out(catalog: Catalog, subject_of: SubjectOf) -> None:
    """Cross-attention pages are not described: neither tokens nor blocks are claimed."""
    subject = subject_of("meta-llama/Llama-3.2-11B-Vision-Instruct")
    lines = predicted_lines(
        planned_start(catalog, subject, "h100-sxm5-80gb", engine="vllm@0.19", context="8192")
    )
    assert any(line.startswith("Available KV cache memory") for line in lines)
    assert not any(line.startswith("GPU KV cache size") for line in lines)


def test_no_graphs_are_captured_in_eager_mode(catalog: Catalog, subject_of: SubjectOf) -> None:
    subject = subject_of("Qwen/Qwen3-8B")
    lines = predicted_lines(planned_start(catalog, subject, "h100-sxm5-80gb", eager="1", context="8192"))
    assert not any("Graph" in line for line in lines)


@pytest.mark.parametrize(
    ("model", "gpu", "line"),
    [
        pytest.param(
            "Qwen/Qwen3-235B-A22B-FP8",
            "h100-sxm5-80gb",
            "KV Cache is allocated. #tokens: {tokens}, K size: {half:.2f} GB, V size: {half:.2f} GB",
            id="keys and values apart",
        ),
        pytest.param(
            "deepseek-ai/DeepSeek-V2-Lite",
            "h100-sxm5-80gb",
            "KV Cache is allocated. #tokens: {tokens}, KV size: {pool:.2f} GB",
            id="latent",
        ),
    ],
)
def test_forms_of_sglang(catalog: Catalog, subject_of: SubjectOf, model: str, gpu: str, line: str) -> None:
    """sglang/srt/mem_cache/memory_pool.py; its GB are GiB."""
    plan = planned_start(catalog, subject_of(model), gpu, engine="sglang", tp="4", context="8192")
    assert plan.pool is not None
    assert plan.pool_bytes is not None
    pool_gib = plan.pool_bytes / 2**30
    assert line.format(tokens=plan.pool.tokens, half=pool_gib / 2, pool=pool_gib) in predicted_lines(plan)
