"""What each span of versions does by itself, against the engine's source and its own lines."""

from itertools import pairwise

import pytest

from willitserve.catalog import Catalog
from willitserve.engine import EngineSpec
from willitserve.plan import find_engine
from willitserve.units import GIB


def engine_of(catalog: Catalog, version: str) -> EngineSpec:
    return find_engine(catalog, f"vllm@{version}")


@pytest.mark.parametrize(
    ("version", "memory_gib", "name", "capability", "seqs", "tokens"),
    [
        pytest.param("0.7", 79.19, "H100", "9.0", 256, 2048, id="0.7: one default for all"),
        pytest.param("0.8", 79.25, "A100", "8.0", 1024, 8192, id="0.8: 70 GiB and more"),
        pytest.param("0.8", 69.99, "A100", "8.0", 256, 2048, id="0.8: below"),
        pytest.param("0.9", 79.25, "NVIDIA A100 80GB", "8.0", 256, 2048, id="0.9: A100 set apart"),
        pytest.param("0.19", 79.19, "H100", "9.0", 1024, 8192, id="0.19: H100"),
        pytest.param("0.19", 44.4, "L40S", "8.9", 256, 2048, id="0.19: 48 GB"),
        pytest.param("0.33", 160.0, "H200", "9.0", 1024, 16384, id="0.33: 160 GiB"),
        pytest.param("0.33", 159.9, "H200", "9.0", 1024, 8192, id="0.33: just below"),
        pytest.param("0.33", 119.0, "GB10", "12.1", 256, 2048, id="0.33: GB10 set apart"),
    ],
)
def test_batch_limits_by_card(
    catalog: Catalog, version: str, memory_gib: float, name: str, capability: str, seqs: int, tokens: int
) -> None:
    """vLLM vllm/engine/arg_utils.py, API server."""
    limits = engine_of(catalog, version).batch_limits_for(
        total_gib=memory_gib, device_name=name, capability=capability
    )
    assert (limits.max_num_seqs, limits.max_num_batched_tokens) == (seqs, tokens)


@pytest.mark.parametrize(
    ("version", "share", "graphs", "printed", "batches", "states"),
    [
        ("0.6", 0.9, False, "blocks", 0, 0),
        ("0.8", 0.9, False, "blocks", 1, 0),
        ("0.10", 0.9, False, "blocks", 1, 1),
        ("0.19", 0.9, False, "blocks", 1, 1),
        ("0.20", 0.92, True, "blocks", 1, 1),
        ("0.21", 0.92, True, "concurrency", 1, 1),
        ("0.25", 0.92, True, "concurrency", 1, 2),
        ("0.26", 0.92, True, "concurrency", 2, 2),
        ("0.33", 0.92, True, "concurrency", 2, 2),
    ],
)
def test_spans(
    catalog: Catalog, version: str, share: float, graphs: bool, printed: str, batches: int, states: int
) -> None:
    engine = engine_of(catalog, version)
    assert engine.gpu_memory_utilization == share
    assert engine.subtracts_cuda_graphs is graphs
    assert engine.printed_tokens == printed
    assert engine.in_flight_batches == batches
    assert engine.cache_rules.state_blocks == states


@pytest.mark.parametrize(
    ("version", "context", "tokens"),
    [
        pytest.param("0.7", 2047, 2048, id="no fewer than 2,048"),
        pytest.param("0.7", 8192, 8192, id="a whole prompt"),
        pytest.param("0.7", 32768, 32768, id="up to 32K"),
        pytest.param("0.7", 32769, 2048, id="chunked beyond"),
        pytest.param("0.10", 32768, 2048, id="always chunked in V1"),
    ],
)
def test_batched_tokens(catalog: Catalog, version: str, context: int, tokens: int) -> None:
    engine = engine_of(catalog, version)
    limits = engine.batch_limits_for(total_gib=22.0, device_name="A10G", capability="8.6")
    assert engine.batched_tokens_for(limits, max_model_len=context) == tokens


@pytest.mark.parametrize(
    ("version", "capability", "platform", "expected"),
    [
        ("0.8", "7.5", "cuda", True),
        ("0.8", "8.0", "cuda", False),
        ("0.9", "7.0", "cuda", True),
        ("0.8", "gfx942", "rocm", True),
        ("0.9", "gfx942", "rocm", False),
        ("0.8", None, "cuda", False),
        ("0.10", "7.5", "cuda", False),
        ("0.7", "7.5", "cuda", False),
    ],
)
def test_v0_on_cards_that_v1_does_not_run(
    catalog: Catalog, version: str, capability: str | None, platform: str, expected: bool
) -> None:
    engine = engine_of(catalog, version)
    assert engine.falls_back_on(capability=capability, platform=platform) is expected


@pytest.mark.parametrize(
    ("version", "methods"),
    [
        pytest.param("0.6", ["awq", "compressed-tensors", "gptq"], id="0.6 has no other kernel for AWQ"),
        pytest.param("0.7", ["compressed-tensors", "gptq"], id="AWQ falls back since 0.7"),
        pytest.param("0.19", ["compressed-tensors", "gptq"], id="the last that pads nothing"),
        pytest.param("0.20", [], id="pads since 0.20"),
    ],
)
def test_methods_with_one_kernel(catalog: Catalog, version: str, methods: list[str]) -> None:
    """vLLM vllm/model_executor/layers/quantization/awq_marlin.py, utils/marlin_utils.py."""
    engine = engine_of(catalog, version)
    assert engine.marlin_tile_methods == methods
    assert (engine.marlin_tile == (64, 128)) is bool(methods)


@pytest.mark.parametrize(
    ("memory_gib", "name", "ranks", "share"),
    [
        # (81,080 MiB - 512 - 8,192 x 1.5 - 256 x 2 - 128) / 81,080
        pytest.param(79.18, "H100", 1, 0.834, id="H100"),
        pytest.param(79.18, "H100", 8, 0.817, id="8 ranks capture more and reserve more"),
        pytest.param(22.03, "L4", 1, 0.833, id="24 GB"),
        pytest.param(14.56, "T4", 1, 0.75, id="16 GB"),
        pytest.param(44.4, "L40S", 1, 0.849, id="48 GB"),
    ],
)
def test_the_share_of_sglang_follows_card_and_batch(
    catalog: Catalog, memory_gib: float, name: str, ranks: int, share: float
) -> None:
    """sglang/srt/server_args.py `_handle_gpu_memory_settings`, worked by hand."""
    engine = find_engine(catalog, "sglang")
    limits = engine.batch_limits_for(total_gib=memory_gib, device_name=name, capability="9.0")
    found = engine.utilization_for(
        limits,
        total_bytes=round(memory_gib * GIB),
        tokens=limits.max_num_batched_tokens,
        ranks=ranks,
    )
    assert found == share


def test_what_a_span_names_exists(catalog: Catalog) -> None:
    ids = {engine.id for engine in catalog.engines}
    assert len(ids) == len(catalog.engines)
    for engine in catalog.engines:
        assert engine.older_engine is None or engine.older_engine in ids
        assert engine.source in catalog.engine_sources
        assert engine.overhead.source in catalog.engine_sources


def test_spans_of_a_family_meet_without_a_gap(catalog: Catalog) -> None:
    """Every version between the first and the newest belongs to one span; variants for old cards aside."""
    variants = {engine.older_engine for engine in catalog.engines}
    spans = [one for one in catalog.engines if one.family == "vllm" and one.id not in variants]
    assert spans[-1].last_version is None
    for earlier, later in pairwise(spans):
        assert earlier.last_version is not None
        last, first = (version.split(".") for version in (earlier.last_version, later.first_version))
        assert int(last[1]) + 1 == int(first[1])
