"""Blocks, groups and pages, against what real starts printed.

Origin of the starts: vLLM 0.19.0 on H100 80GB, published with llm-d-planner (pool, blocks, tokens,
concurrency), and public logs of vLLM 0.10 (Qwen3-Next on 2 x H200, gpt-oss-120b on 4 x A100). The pool is
printed to 0.01 GiB, so counts may differ by what that hides.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from willitserve.architecture import Architecture, FullAttention, SlidingAttention
from willitserve.assess import Subject
from willitserve.config import describe
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


@pytest.mark.parametrize(
    ("tp", "pool_gib", "context", "tokens"),
    [
        pytest.param(2, 17.02, 262144, 3382054, id="2 x RTX 5090"),
        pytest.param(2, 16.58, 262144, 3292687, id="2 x RTX 5090, smaller pool"),
        pytest.param(1, 2.0, 65536, 172463, id="vLLM 0.25.1, fixed 2 GiB"),
    ],
)
def test_prefix_caching_keeps_two_states_per_request(
    subject_of: SubjectOf, tp: int, pool_gib: float, context: int, tokens: int
) -> None:
    """Qwen3.6-35B-A3B (the shape of Qwen3.5) with an FP8 cache, printed as concurrency x max_model_len:
    noonghunna/club-3090 BENCHMARKS.md."""
    subject = subject_of("Qwen/Qwen3.5-35B-A3B")
    layout = layout_of(subject, tp=tp, in_flight=0, kv_bits=8, rules=CacheRules(state_blocks=2))
    found = layout.num_blocks(round(pool_gib * GIB)) / layout.blocks_for(context) * context
    assert found == pytest.approx(tokens, rel=0.0008)


def mixed(num_full: int, num_window: int, *, full_head_dim: int = 128) -> Architecture:
    """Full and window layers of the same KV heads, full ones possibly wider."""
    full = FullAttention(num_heads=8, num_kv_heads=1, head_dim=full_head_dim, v_head_dim=full_head_dim)
    window = SlidingAttention(num_heads=8, num_kv_heads=1, head_dim=128, v_head_dim=128, window=512)
    base = describe(
        {
            "model_type": "llama",
            "num_hidden_layers": num_full + num_window,
            "hidden_size": 1024,
            "num_attention_heads": 8,
            "intermediate_size": 4096,
            "vocab_size": 32000,
        }
    )
    caches = [full] * num_full + [window] * num_window
    layers = tuple(replace(layer, caches=(cache,)) for layer, cache in zip(base.layers, caches, strict=True))
    return replace(base, layers=layers)


@pytest.mark.parametrize(
    ("num_full", "num_window", "ratio", "group_layers", "num_groups"),
    [
        pytest.param(13, 12, 1.5, 13, 2, id="0.18: 13 and 12 padded to 13"),
        pytest.param(13, 12, 1, 12, 3, id="0.10: 12 sets the group, 13 needs two"),
        pytest.param(10, 15, 1.5, 10, 3, id="0.18: exactly half more is not padded"),
        pytest.param(10, 14, 1.5, 14, 2, id="0.18: below half more is"),
        pytest.param(8, 10, 1.25, 8, 3, id="0.13: exactly a quarter more is not padded"),
        pytest.param(8, 9, 1.25, 9, 2, id="0.13: below a quarter more is"),
    ],
)
def test_groups_of_unlike_counts(
    num_full: int, num_window: int, ratio: float, group_layers: int, num_groups: int
) -> None:
    """vLLM kv_cache_utils.py `_get_kv_cache_groups_uniform_page_size` of 0.10.2, 0.13.0 and 0.18.0."""
    layout = lay_out(
        mixed(num_full, num_window),
        range(num_full + num_window),
        kv_dtype_bits=16,
        tp=1,
        block_size=16,
        in_flight_tokens=0,
        rules=CacheRules(padding_ratio=ratio),
    )
    assert layout is not None
    assert (layout.group_layers, layout.num_groups) == (group_layers, num_groups)


def test_narrower_layers_take_more_tokens_to_the_page() -> None:
    """Gemma 4 E2B: 3 full layers of 512, 12 window layers of 256. vLLM on a Turing card printed 31.72 x
    16,384 tokens for 4.66 GiB, two batches of 2,048 in flight."""
    wide = FullAttention(num_heads=8, num_kv_heads=1, head_dim=512, v_head_dim=512)
    narrow = SlidingAttention(num_heads=8, num_kv_heads=1, head_dim=256, v_head_dim=256, window=512)
    base = mixed(3, 12)
    caches = [wide] * 3 + [narrow] * 12
    layers = tuple(replace(layer, caches=(cache,)) for layer, cache in zip(base.layers, caches, strict=True))
    layout = lay_out(
        replace(base, layers=layers),
        range(15),
        kv_dtype_bits=16,
        tp=1,
        block_size=16,
        in_flight_tokens=4096,
    )
    assert layout is not None
    assert sorted(group.block_size for group in layout.groups) == [16, 32]
    assert layout.block_bytes == 3 * 16 * 2 * 512 * 2
    assert layout.blocks_for(16384) == 1024 + 4 * 145
    found = layout.num_blocks(round(4.66 * GIB)) / layout.blocks_for(16384)
    assert found == pytest.approx(31.72, abs=0.04)


def test_pages_that_do_not_divide_are_padded() -> None:
    layout = lay_out(
        mixed(2, 2, full_head_dim=192),
        range(4),
        kv_dtype_bits=16,
        tp=1,
        block_size=16,
        in_flight_tokens=0,
    )
    assert layout is not None
    assert {group.block_size for group in layout.groups} == {16}
    assert layout.block_bytes == 2 * 16 * 2 * 192 * 2


def test_v0_keeps_every_token_of_a_window() -> None:
    rules = CacheRules(state_blocks=0, windows_bounded=False)
    layout = lay_out(
        mixed(2, 2), range(4), kv_dtype_bits=16, tp=1, block_size=16, in_flight_tokens=0, rules=rules
    )
    assert layout is not None
    assert layout.num_groups == 1
    assert layout.blocks_for(8192) == 512


def test_sparse_latent_attention_reads_blocks_of_64(subject_of: SubjectOf) -> None:
    """GLM-5 on 8 x H200 printed block size 64 and 373,696 tokens for 34.86 GiB."""
    layout = layout_of(subject_of("zai-org/GLM-5-FP8"), tp=8)
    assert layout.block_size == 64
    assert layout.num_blocks(round(34.86 * GIB)) * 64 == pytest.approx(373696, rel=0.0003)


def test_models_of_states_alone_keep_one_state(subject_of: SubjectOf) -> None:
    """vLLM 0.33 config/model.py: attention-free models support no prefix caching."""
    layout = layout_of(subject_of("mistralai/Mamba-Codestral-7B-v0.1"), rules=CacheRules(state_blocks=2))
    assert layout.blocks_for(100_000) == 1
    assert layout.holds_states
