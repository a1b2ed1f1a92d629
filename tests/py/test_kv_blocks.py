"""Blocks, groups and pages, against what real starts printed.

Origin of the starts: vLLM 0.19.0 on H100 80GB, published with llm-d-planner (pool, blocks, tokens,
concurrency), and public logs of vLLM 0.10 (Qwen3-Next on 2 x H200, gpt-oss-120b on 4 x A100). The pool is
printed to 0.01 GiB, so counts may differ by what that hides.
"""

from collections.abc import Callable

import pytest

from willitserve.assess import Subject
from willitserve.engine import CacheRules
from willitserve.kv_blocks import BlockLayout, lay_out
from willitserve.units import GIB

RULES_OF_0_10 = CacheRules(padding_ratio=1)
SubjectOf = Callable[[str], Subject]


def layout_of(
    subject: Subject,
    *,
    tp: int = 1,
    in_flight: int = 8192,
    kv_bits: int = 16,
    rules: CacheRules = RULES_OF_0_10,
) -> BlockLayout:
    layers = range(len(subject.architecture.layers))
    layout = lay_out(
        subject.architecture,
        layers,
        kv_dtype_bits=kv_bits,
        tp=tp,
        block_size=16,
        in_flight_tokens=in_flight,
        rules=rules,
    )
    assert layout is not None
    return layout


@pytest.mark.parametrize(
    ("model", "tp", "in_flight", "context", "pool_gib", "blocks", "tokens", "concurrency"),
    [
        pytest.param(
            "google/gemma-3-27b-it", 1, 8192, 8192, 19.53, 15997, 36560, 4.46, id="10 full, 52 window"
        ),
        pytest.param(
            "google/gemma-3-12b-it", 1, 8192, 8192, 47.72, 48867, 130304, 15.88, id="8 full, 40 window"
        ),
        pytest.param(
            "google/gemma-3-4b-it", 1, 8192, 8192, 62.51, 204817, 468144, 57.05, id="5 full, 29 window"
        ),
        pytest.param(
            "meta-llama/Llama-3.1-8B-Instruct", 1, 8192, 8192, 58.11, 29750, 476000, 58.11, id="dense"
        ),
        pytest.param(
            "Qwen/Qwen2.5-7B-Instruct", 4, 8192, 8192, 67.34, 315205, 5043280, 615.63, id="dense, TP 4"
        ),
        pytest.param(
            "deepseek-ai/DeepSeek-V2-Lite-Chat", 1, 8192, 8192, 43.61, 94097, 1505552, 183.78, id="latent"
        ),
        pytest.param(
            "Qwen/Qwen3-Next-80B-A3B-Instruct",
            2,
            8192,
            262144,
            44.59,
            7162,
            973760,
            14.77,
            id="delta net, TP 2",
        ),
        pytest.param(
            "openai/gpt-oss-120b", 4, 2048, 16384, 45.32, 330018, 2640144, 284.25, id="every other window"
        ),
    ],
)
def test_a_pool_holds_what_the_engine_printed(
    subject_of: SubjectOf,
    model: str,
    tp: int,
    in_flight: int,
    context: int,
    pool_gib: float,
    blocks: int,
    tokens: int,
    concurrency: float,
) -> None:
    layout = layout_of(subject_of(model), tp=tp, in_flight=in_flight)
    rounding = 0.005 * GIB / layout.block_bytes + 1
    found = layout.num_blocks(round(pool_gib * GIB))
    assert abs(found - blocks) <= rounding
    found_tokens = found // layout.num_groups * layout.block_size
    assert abs(found_tokens - tokens) <= rounding * layout.block_size
    assert found / layout.blocks_for(context) == pytest.approx(concurrency, abs=0.01 + concurrency * 2e-4)


def test_a_state_page_sets_the_attention_block(subject_of: SubjectOf) -> None:
    """vLLM printed for this model and width that it set the attention block size to 544 tokens."""
    layout = layout_of(subject_of("Qwen/Qwen3-Next-80B-A3B-Instruct"), tp=2)
    assert layout.block_size == 544


@pytest.mark.parametrize(("tokens", "blocks"), [(1, 1), (15, 1), (16, 1), (17, 2), (8192, 512)])
def test_requests_take_whole_blocks(subject_of: SubjectOf, tokens: int, blocks: int) -> None:
    assert layout_of(subject_of("meta-llama/Llama-3.1-8B-Instruct")).blocks_for(tokens) == blocks


def test_the_longest_request_is_rounded_to_blocks(subject_of: SubjectOf) -> None:
    layout = layout_of(subject_of("meta-llama/Llama-3.1-8B-Instruct"))
    pool = 100 * layout.block_bytes
    assert layout.longest_request(pool, at_most=10_000) == 1600
    assert layout.longest_request(pool - 1, at_most=10_000) == 1584
    assert layout.longest_request(layout.block_bytes - 1, at_most=10_000) == 0
    assert layout.longest_request(pool, at_most=1000) == 1000


def test_fp8_halves_attention_pages_and_leaves_states(subject_of: SubjectOf) -> None:
    subject = subject_of("Qwen/Qwen3-Next-80B-A3B-Instruct")
    wide, narrow = layout_of(subject, tp=2), layout_of(subject, tp=2, kv_bits=8)
    assert narrow.block_size == 1072  # twice the tokens fill the page that one state needs, in steps of 16
    assert narrow.block_bytes == pytest.approx(wide.block_bytes, rel=0.02)


def test_widths_that_do_not_make_equal_pages_are_withheld(subject_of: SubjectOf) -> None:
    architecture = subject_of("meta-llama/Llama-3.2-11B-Vision-Instruct").architecture
    layers = range(len(architecture.layers))
    found = lay_out(architecture, layers, kv_dtype_bits=16, tp=1, block_size=16, in_flight_tokens=0)
    assert found is None
