"""The whole answer: verdicts at their edges, ways out, warnings, bad input beside what is still true."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from willitserve.catalog import Catalog
from willitserve.errors import InputError
from willitserve.plan import Model, find_engine, plan
from willitserve.report import PlanReport
from willitserve.request import read_query

ModelOf = Callable[[str], Model]
PlanOf = Callable[..., PlanReport]

SMALL = "meta-llama/Llama-3.1-8B-Instruct"
LARGE = "meta-llama/Llama-3.3-70B-Instruct"


@pytest.fixture(scope="module")
def plan_of(catalog: Catalog, model_of: ModelOf) -> PlanOf:
    def plan_of(model: str, gpu: str, **query: str) -> PlanReport:
        request = read_query({"model": model, "gpu": gpu, **query})
        return plan(catalog, model_of(model), request, page_context=8192, versions={})

    return plan_of


@pytest.mark.parametrize(
    ("model", "gpu", "query", "code", "words"),
    [
        pytest.param(SMALL, "l40s-48gb", {"users": "16"}, "serves", "16 users", id="serves"),
        pytest.param(
            SMALL, "l4-24gb", {"users": "16"}, "serves-with-changes", "of 16 users", id="fewer users"
        ),
        pytest.param(SMALL, "l4-24gb", {"context": "131072"}, "context-too-long", "131,072", id="too long"),
        pytest.param(SMALL, "l4-24gb", {"mem": "17"}, "serves-nobody", "no KV block", id="no block"),
        pytest.param(LARGE, "h100-sxm5-80gb", {}, "does-not-fit", "131.4 GiB", id="weights do not fit"),
        pytest.param(SMALL, "l40s-48gb", {"tp": "3"}, "will-not-start", "32 query heads", id="heads"),
        pytest.param(
            SMALL, "l40s-48gb", {"context": "131073"}, "will-not-start", "131,072", id="beyond the model"
        ),
        pytest.param(SMALL, "l40s-48gb", {"pp": "33"}, "will-not-start", "33 pipeline stages", id="stages"),
        pytest.param("openai/gpt-oss-20b", "t4-16gb", {}, "will-not-start", "MXFP4", id="format refused"),
        pytest.param(
            SMALL, "t4-16gb", {"mem": "40"}, "serves-with-changes", "FP16 instead of BF16", id="fp16"
        ),
        pytest.param(
            SMALL,
            "t4-16gb",
            {"mem": "40", "dtype": "bfloat16"},
            "will-not-start",
            "Bfloat16",
            id="bf16 asked for",
        ),
    ],
)
def test_the_verdict_and_its_sentence(
    plan_of: PlanOf, model: str, gpu: str, query: dict[str, str], code: str, words: str
) -> None:
    verdict = plan_of(model, gpu, **query).verdict
    assert (verdict.code, words in verdict.sentence) == (code, True), verdict.sentence


def test_users_at_the_edge(plan_of: PlanOf) -> None:
    """As many as fit are served; one more waits."""
    memory = plan_of(SMALL, "l40s-48gb").memory
    assert memory is not None
    assert memory.max_users is not None
    assert plan_of(SMALL, "l40s-48gb", users=str(memory.max_users)).verdict.code == "serves"
    assert plan_of(SMALL, "l40s-48gb", users=str(memory.max_users + 1)).verdict.code == "serves-with-changes"


def test_the_engine_s_limit_on_sequences_caps_the_users(plan_of: PlanOf) -> None:
    report = plan_of(SMALL, "h200-sxm5-141gb", users="40", context="1024", seqs="32")
    assert report.memory is not None
    assert report.memory.max_users == 32
    assert "max_num_seqs is 32" in report.verdict.sentence


@pytest.mark.parametrize(
    ("model", "gpu", "query"),
    [
        (SMALL, "l4-24gb", {"users": "16"}),
        (SMALL, "l4-24gb", {"context": "131072"}),
        (LARGE, "h100-sxm5-80gb", {"users": "16"}),
        (SMALL, "l40s-48gb", {"tp": "3"}),
        (SMALL, "l40s-48gb", {"context": "200000"}),
    ],
)
def test_every_way_out_holds_when_it_is_taken(
    plan_of: PlanOf, model: str, gpu: str, query: dict[str, str]
) -> None:
    ways = plan_of(model, gpu, **query).ways_out
    assert ways
    for way in ways:
        changed = plan_of(model, gpu, **(query | way.query))
        assert changed.verdict.code == way.code
        assert changed.verdict.code in ("serves", "serves-with-changes")
        assert changed.verdict.sentence in way.sentence


def test_what_serves_has_no_ways_out(plan_of: PlanOf) -> None:
    assert plan_of(SMALL, "l40s-48gb").ways_out == []


def test_a_pcie_card_is_told_that_tp_crosses_the_bus(plan_of: PlanOf) -> None:
    codes = [note.code for note in plan_of(SMALL, "l4-24gb", tp="4").warnings]
    assert "tp-beyond-link" in codes
    codes = [note.code for note in plan_of(SMALL, "h100-sxm5-80gb", tp="4").warnings]
    assert "tp-beyond-link" not in codes


def test_bad_values_leave_the_rest_of_the_answer(plan_of: PlanOf) -> None:
    report = plan_of(SMALL, "l40s-48gb", users="0", context="-1", engine="tgi", colour="<script>")
    assert {problem.field for problem in report.problems} == {"users", "context", "engine", "colour"}
    assert report.verdict.code == "serves"
    assert report.memory is not None


def test_an_ambiguous_card_is_asked_back_with_what_each_would_answer(plan_of: PlanOf) -> None:
    report = plan_of(LARGE, "H100", tp="4", users="16")
    assert report.memory is None
    assert {"h100-sxm5-80gb", "h100-pcie-80gb", "h100-nvl-94gb"} <= {choice.id for choice in report.choices}
    sentences = [choice.sentence for choice in report.choices]
    assert any("3,350 GB/s" in sentence for sentence in sentences)
    assert len(set(sentences)) == len(sentences)


def test_an_unknown_card_keeps_the_model(plan_of: PlanOf) -> None:
    report = plan_of(SMALL, "voodoo2")
    assert report.model.num_params == 8_030_261_248
    assert [problem.code for problem in report.problems] == ["gpu-unknown"]


@pytest.mark.parametrize(
    "name", ["vllm@0.6.6", "vllm@0.19", "vllm@0.19.1", "vLLM@v0.20.0", "vllm@0.25.1", "vllm@1.0"]
)
def test_a_version_finds_its_span(catalog: Catalog, name: str) -> None:
    """The span begins at or before the version, and the next one after it."""

    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(".")]

    version = numbers(name.lower().split("@")[1].removeprefix("v"))
    found = find_engine(catalog, name)
    assert numbers(found.first_version) <= version
    later = [
        e
        for e in catalog.engines
        if e.family == "vllm" and numbers(e.first_version) > numbers(found.first_version)
    ]
    assert all(numbers(e.first_version) > version for e in later)


def test_without_a_version_the_newest_is_taken(catalog: Catalog) -> None:
    assert find_engine(catalog, "vllm").last_version is None
    assert find_engine(catalog, "vllm") == find_engine(catalog, "vllm@")


@pytest.mark.parametrize("name", ["tgi", "vllm@x", "vllm@0.5", "vllm@0.1.2.3.4.5", "@0.19", ""])
def test_an_engine_that_is_not_described_is_refused(catalog: Catalog, name: str) -> None:
    with pytest.raises(InputError):
        find_engine(catalog, name)


def numbers_of(report: PlanReport) -> tuple[int, int, float]:
    """KV of one request, users and ceiling of a report that knows them; its band lies below its ceiling."""
    assert report.memory is not None
    assert report.memory.needed_kv_bytes_per_gpu is not None
    assert report.memory.max_users is not None
    speed = report.bandwidth
    assert speed is not None
    assert speed.decode_tokens_per_s_low is not None
    assert speed.decode_tokens_per_s_high is not None
    assert speed.decode_tokens_per_s_ceiling is not None
    low, high = speed.decode_tokens_per_s_low, speed.decode_tokens_per_s_high
    assert low <= high <= speed.decode_tokens_per_s_ceiling
    return report.memory.needed_kv_bytes_per_gpu, report.memory.max_users, speed.decode_tokens_per_s_ceiling


@settings(deadline=None, max_examples=40)
@given(
    users=st.integers(1, 400),
    context=st.integers(1, 131_072),
    tp=st.sampled_from(["1", "2", "4", "8"]),
    more=st.integers(1, 400),
)
def test_more_never_needs_less(plan_of: PlanOf, users: int, context: int, tp: str, more: int) -> None:
    """Longer contexts need more KV, more users slow each one down, and the bar's free part never grows."""
    small = plan_of(SMALL, "h100-sxm5-80gb", users=str(users), context=str(context), tp=tp)
    longer = plan_of(
        SMALL, "h100-sxm5-80gb", users=str(users), context=str(min(131_072, context + more)), tp=tp
    )
    fuller = plan_of(SMALL, "h100-sxm5-80gb", users=str(users + more), context=str(context), tp=tp)
    shorter_kv, shorter_users, ceiling = numbers_of(small)
    longer_kv, longer_users, longer_ceiling = numbers_of(longer)
    assert shorter_kv <= longer_kv
    assert shorter_users >= longer_users
    if users <= longer_users:
        assert ceiling >= longer_ceiling
    assert ceiling >= numbers_of(fuller)[2]


def test_ranks_together_hold_at_least_the_whole(plan_of: PlanOf) -> None:
    """Sharding loses nothing: replicated parts make the sum larger, never smaller."""
    whole = plan_of(LARGE, "h200-sxm5-141gb").memory
    assert whole is not None
    assert whole.weight_bytes_per_gpu is not None
    for tp in (2, 4, 8):
        memory = plan_of(LARGE, "h200-sxm5-141gb", tp=str(tp)).memory
        assert memory is not None
        assert memory.weight_bytes_per_gpu is not None
        assert (
            whole.weight_bytes_per_gpu
            <= tp * memory.weight_bytes_per_gpu
            <= whole.weight_bytes_per_gpu * 1.01
        )


def test_an_encoder_is_placed_and_does_not_decode(plan_of: PlanOf) -> None:
    report = plan_of("BAAI/bge-reranker-v2-m3", "l4-24gb")
    assert report.verdict.code == "serves"
    assert "no KV cache" in report.verdict.sentence
    assert report.bandwidth is not None
    assert report.bandwidth.decode_tokens_per_s_ceiling is None


def test_an_encoder_beside_a_decoder_is_not_read_in_its_steps(plan_of: PlanOf) -> None:
    """flan-t5-large has 24 encoder and 24 decoder layers; a step reads the decoder and the head."""
    report = plan_of("google/flan-t5-large", "l4-24gb", context="512")
    assert report.memory is not None
    assert report.memory.weight_bytes_per_gpu is not None
    assert report.bandwidth is not None
    assert report.bandwidth.decode_tokens_per_s_ceiling is not None
    read = 300e9 / report.bandwidth.decode_tokens_per_s_ceiling
    assert read < 0.75 * report.memory.weight_bytes_per_gpu
