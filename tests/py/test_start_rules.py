"""Each rule by which an engine refuses to start, at its boundary. Messages are those of public failures."""

from collections.abc import Callable

import pytest

from starts import planned_start
from willitserve.assess import Assessment, Subject
from willitserve.catalog import Catalog

SubjectOf = Callable[[str], Subject]


def rules_of(plan: Assessment) -> list[str]:
    return [refusal.rule for refusal in plan.refusals]


@pytest.mark.parametrize(
    ("model", "gpu", "query", "rule", "word"),
    [
        pytest.param("Qwen/Qwen3-8B", "h100-sxm5-80gb", {"tp": "3"}, "heads", "32 query heads", id="heads"),
        pytest.param("Qwen/Qwen3-8B", "h100-sxm5-80gb", {"tp": "4"}, None, "", id="heads divide"),
        pytest.param(
            "Qwen/Qwen3-235B-A22B-FP8", "h100-sxm5-80gb", {"tp": "8"}, "fp8 block", "block", id="fp8 block"
        ),
        pytest.param(
            "Qwen/Qwen3-235B-A22B-FP8", "h200-sxm5-141gb", {"tp": "4"}, None, "", id="fp8 blocks are whole"
        ),
        pytest.param(
            "Qwen/Qwen3-0.6B",
            "t4-16gb",
            {"dtype": "bfloat16"},
            "bf16 on old cards",
            "Bfloat16",
            id="bf16 on Turing",
        ),
        pytest.param("Qwen/Qwen3-0.6B", "t4-16gb", {"dtype": "float16"}, None, "", id="fp16 on Turing"),
        pytest.param("Qwen/Qwen3-0.6B", "a10-24gb", {"dtype": "bfloat16"}, None, "", id="bf16 on Ampere"),
        pytest.param(
            "Qwen/Qwen3-0.6B", "a10-24gb", {"context": "40961"}, "context", "40,960", id="beyond the model"
        ),
        pytest.param("Qwen/Qwen3-0.6B", "a10-24gb", {"context": "40960"}, None, "", id="all of the model"),
        pytest.param("Qwen/Qwen3-0.6B", "a10-24gb", {"pp": "29"}, "pipeline", "28 layers", id="pipeline"),
        pytest.param("Qwen/Qwen3-0.6B", "a10-24gb", {"pp": "28"}, None, "", id="a layer a stage"),
    ],
)
def test_a_rule_and_its_boundary(
    catalog: Catalog,
    subject_of: SubjectOf,
    model: str,
    gpu: str,
    query: dict[str, str],
    rule: str | None,
    word: str,
) -> None:
    plan = planned_start(catalog, subject_of(model), gpu, **query)
    assert rules_of(plan) == ([] if rule is None else [rule])
    if rule is not None:
        assert word in plan.refusals[0].reason


@pytest.mark.parametrize(
    ("tp", "util", "refused"),
    [
        pytest.param("1", "0.995", True, id="78.68 of 79.19 GiB were free"),
        pytest.param("1", "0.99", False, id="below that"),
        pytest.param("2", "0.985", True, id="77.66 of 79.19 GiB were free when ranks had met"),
        pytest.param("2", "0.98", False, id="below that, ranks"),
    ],
)
def test_free_memory(catalog: Catalog, subject_of: SubjectOf, tp: str, util: str, refused: bool) -> None:
    """“Free memory on device … on startup is less than desired GPU memory utilization”; the free memory is
    that of the measured starts on H100."""
    subject = subject_of("Qwen/Qwen3-8B")
    plan = planned_start(
        catalog, subject, "h100-sxm5-80gb", tp=tp, util=util, mem="79.19", engine="vllm@0.19", context="8192"
    )
    assert ("free memory" in rules_of(plan)) is refused


@pytest.mark.parametrize(
    ("engine", "tp", "util", "refused"),
    [
        pytest.param("vllm@0.7", "1", "1.0", False, id="V0 does not look"),
        pytest.param("vllm@0.8", "1", "1.0", False, id="0.8 does not either"),
        pytest.param("vllm@0.9", "1", "1.0", True, id="0.9 does"),
        pytest.param("vllm@0.10", "2", "0.985", False, id="0.10 looks before ranks meet"),
        pytest.param("vllm@0.13", "2", "0.985", True, id="0.13 looks after"),
    ],
)
def test_free_memory_by_version(
    catalog: Catalog, subject_of: SubjectOf, engine: str, tp: str, util: str, refused: bool
) -> None:
    """vLLM vllm/v1/worker/gpu_worker.py `init_device`."""
    subject = subject_of("Qwen/Qwen3-8B")
    plan = planned_start(
        catalog, subject, "h100-sxm5-80gb", tp=tp, util=util, mem="79.19", engine=engine, context="8192"
    )
    assert ("free memory" in rules_of(plan)) is refused


def test_more_sequences_than_state_blocks(catalog: Catalog, subject_of: SubjectOf) -> None:
    """“max_num_seqs (1024) exceeds available Mamba cache blocks (978)” on a 96 GB card; 256 works."""
    subject, gpu = subject_of("Qwen/Qwen3.5-27B"), "rtx-pro-6000-server-96gb"
    plan = planned_start(catalog, subject, gpu, seqs="1024")
    assert rules_of(plan) == ["mamba blocks"]
    assert "max_num_seqs is 1,024" in plan.refusals[0].reason
    assert plan.pool_bytes is not None
    assert plan.rank.layout is not None
    # The same pool, with as many sequences as its largest estimate has blocks, and one more.
    most = plan.rank.layout.num_blocks(plan.pool_bytes + plan.band_bytes)
    assert f"at most {most:,} blocks" in plan.refusals[0].reason
    for allowed in ({"seqs": "256"}, {"seqs": "1024", "eager": "1"}, {"seqs": "1024", "engine": "vllm@0.19"}):
        assert rules_of(planned_start(catalog, subject, gpu, **allowed)) == []


def test_full_attention_has_no_state_blocks(catalog: Catalog, subject_of: SubjectOf) -> None:
    plan = planned_start(catalog, subject_of("Qwen/Qwen3-32B"), "h100-sxm5-80gb", seqs="1024", context="512")
    assert rules_of(plan) == []


def test_tiles_are_no_rule_for_other_formats(catalog: Catalog, subject_of: SubjectOf) -> None:
    """gpt-oss-120b started on 4 x A100 with vLLM 0.10: its MXFP4 experts are padded to 768 per rank."""
    plan = planned_start(
        catalog,
        subject_of("openai/gpt-oss-120b"),
        "a100-sxm4-80gb",
        tp="4",
        util="0.8",
        context="16384",
        engine="vllm@0.10",
    )
    assert rules_of(plan) == []
