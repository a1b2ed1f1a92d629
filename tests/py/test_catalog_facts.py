"""The packaged figures, the precision matrix and the model patterns, each against literals of its source."""

import hashlib
import json
from collections.abc import Mapping
from math import prod
from pathlib import Path

import pytest

from willitserve.catalog import Catalog
from willitserve.catalog_files import load_packaged_catalog

ROOT = Path(__file__).resolve().parents[2]
DIGESTS: Mapping[str, Mapping[str, object]] = json.loads(
    (ROOT / "tests/data/headers/digests.json").read_text("utf-8")
)


@pytest.fixture(scope="module")
def packaged() -> Catalog:
    return load_packaged_catalog()


# Figures that decide most answers, each as its vendor or its driver prints it.
FIGURES = {
    "a100-pcie-40gb": (40960, 1555, 312),
    "a100-pcie-80gb": (81920, 1935, 312),
    "a100-sxm4-40gb": (40960, 1555, 312),
    "a100-sxm4-80gb": (81920, 2039, 312),
    "b200-180gb": (183359, 7700, 2250),
    "gh200-96gb": (97871, 4000, 989.5),
    "h100-nvl-94gb": (95830, 3940, 835.5),
    "h100-pcie-80gb": (81559, 2000, 756.5),
    "h100-sxm5-80gb": (81559, 3350, 989.5),
    "h200-sxm5-141gb": (143771, 4800, 989.5),
    "l4-24gb": (23034, 300, 121),
    "l40s-48gb": (46068, 864, 362.05),
    "mi300x-192gb": (196592, 5300, 1307.4),
    "rtx4090-24gb": (24564, 1008, 165.2),
}


@pytest.mark.parametrize("gpu_id", FIGURES)
def test_figures_of_common_cards(packaged: Catalog, gpu_id: str) -> None:
    card = packaged.find_gpu(gpu_id)
    found = (card.memory_mib, card.memory_bandwidth_gb_per_s, card.dense_tflops["bf16"])
    assert found == FIGURES[gpu_id]


def test_what_nobody_measured_is_null(packaged: Catalog) -> None:
    custom = packaged.find_gpu("a100-sxm4-64gb")
    assert custom.memory_bandwidth_gb_per_s is None
    assert custom.dense_tflops == {}
    assert packaged.find_gpu("h20-3e-141gb").memory_bandwidth_gb_per_s is None
    assert packaged.find_gpu("mi455x-432gb").compute_capability is None


def test_no_text_shows_what_is_not_verified(packaged: Catalog) -> None:
    texts = [(ROOT / "catalog/gpus").iterdir(), (ROOT / "catalog").glob("*.yaml")]
    assert packaged.gpus
    for path in (path for group in texts for path in group):
        assert "unverified" not in path.read_text("utf-8"), path.name


def test_torch_never_sees_more_than_the_driver_prints(packaged: Catalog) -> None:
    for card in packaged.gpus:
        if card.torch_total_bytes is not None and card.memory_bytes is not None:
            assert 0.95 < card.torch_total_bytes / card.memory_bytes <= 1.001, card.id


def test_every_capability_is_answered_or_named(packaged: Catalog) -> None:
    """A card's capability has a column, a stand-in, or a sentence that says why not."""
    table = packaged.formats
    for card in packaged.gpus:
        if card.compute_capability is not None:
            answer = table.support("bf16", card.compute_capability)
            named = any(target.startswith(card.compute_capability) for target in table.not_covered)
            assert (answer is not None) != named, card.id


@pytest.mark.parametrize(
    ("format_name", "capability", "support"),
    [
        ("bf16", "7.5", "unsupported"),
        ("bf16", "8.0", "native"),
        ("bf16", "7.0", "no_binary"),
        ("fp8_w8a8", "8.0", "weight_only"),
        ("fp8_w8a8", "8.9", "native"),
        ("fp8_w8a8", "gfx90a", "unsupported"),
        ("fp8_block_w8a8", "gfx1100", "unclear"),
        ("int8_w8a8", "9.0", "native"),
        ("int8_w8a8", "10.0", "unsupported"),
        ("int4_w4a16", "10.0", "weight_only"),
        ("mxfp4", "7.5", "unsupported"),
        ("mxfp4", "9.0", "weight_only"),
        ("mxfp4", "gfx950", "native"),
        ("mxfp4", "gfx1201", "emulated"),
        ("nvfp4", "9.0", "weight_only"),
        ("nvfp4", "12.0", "native"),
        ("nvfp4", "gfx942", "emulated"),
        ("kv_fp8_e4m3", "8.0", "storage_only"),
        ("kv_fp8_e4m3", "9.0", "native"),
        ("kv_fp8_e5m2", "7.5", "unsupported"),
        ("nvfp4", "8.7", "weight_only"),
        ("nvfp4", "10.7", "native"),
        ("bf16", "6.1", "no_binary"),
        ("fp8_w8a8", "gfx1151", "unsupported"),
        ("bf16", "11.0", None),
        ("bf16", None, None),
        ("fp3", "9.0", None),
    ],
)
def test_precision_matrix(
    packaged: Catalog, format_name: str, capability: str | None, support: str | None
) -> None:
    assert packaged.formats.support(format_name, capability) == support


@pytest.mark.parametrize("model_id", DIGESTS)
def test_patterns_expand_to_the_whole_header(packaged: Catalog, model_id: str) -> None:
    entry = packaged.find_model(model_id)
    assert entry is not None
    assert entry.id == model_id
    lines = sorted(f"{tensor.name} {tensor.dtype} {list(tensor.shape)}\n" for tensor in entry.expand())
    assert len(lines) == DIGESTS[model_id]["tensors"]
    assert hashlib.sha256("".join(lines).encode()).hexdigest() == DIGESTS[model_id]["sha256"]


@pytest.mark.parametrize(
    ("model_id", "elements"),
    [
        pytest.param("google/gemma-2-27b-it", 27_227_128_320, id="gemma-2-27b"),
        pytest.param("google/gemma-2-2b-it", 2_614_341_888, id="gemma-2-2b"),
        pytest.param("meta-llama/Llama-3.2-3B-Instruct", 3_212_749_824, id="llama-3.2-3b"),
        pytest.param("microsoft/phi-4", 14_659_507_200, id="phi-4"),
        pytest.param("mistralai/Mistral-7B-Instruct-v0.3", 7_248_023_552, id="mistral-7b-v0.3"),
        pytest.param("mistralai/Mixtral-8x22B-v0.1", 140_620_634_112, id="mixtral-8x22b"),
        pytest.param("Qwen/Qwen2.5-14B-Instruct", 14_770_033_664, id="qwen2.5-14b"),
        pytest.param("Qwen/Qwen2.5-32B-Instruct", 32_763_876_352, id="qwen2.5-32b"),
        pytest.param("CohereLabs/c4ai-command-r-08-2024", 32_296_476_672, id="c4ai-command-r-08-2024"),
        pytest.param("google/embeddinggemma-300m", 302_863_104, id="embeddinggemma-300m"),
        pytest.param("allenai/OLMo-2-0325-32B", 32_234_279_936, id="olmo-2-0325-32b"),
        pytest.param("rednote-hilab/dots.llm1.base", 142_774_381_696, id="dots.llm1.base"),
        pytest.param("Qwen/Qwen2.5-VL-3B-Instruct", 3_754_622_976, id="qwen2.5-vl-3b-instruct"),
        pytest.param(
            "Qwen/Qwen3-Coder-480B-A35B-Instruct", 480_154_875_392, id="qwen3-coder-480b-a35b-instruct"
        ),
        pytest.param("CohereLabs/c4ai-command-a-03-2025", 111_057_580_032, id="c4ai-command-a-03-2025"),
        pytest.param("CohereLabs/c4ai-command-r7b-12-2024", 8_028_033_024, id="c4ai-command-r7b-12-2024"),
        pytest.param("google/gemma-3n-E4B-it", 7_849_978_192, id="gemma-3n-e4b-it"),
        pytest.param("google/recurrentgemma-9b", 8_579_977_216, id="recurrentgemma-9b"),
        pytest.param(
            "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
            401_583_781_376,
            id="llama-4-maverick-17b-128e-instruct",
        ),
        pytest.param("microsoft/Phi-3.5-MoE-instruct", 41_873_153_344, id="phi-3.5-moe-instruct"),
        pytest.param("microsoft/Phi-4-mini-instruct", 3_836_021_760, id="phi-4-mini-instruct"),
        pytest.param("openai/whisper-large-v3", 1_543_490_560, id="whisper-large-v3"),
        pytest.param("openai/whisper-large-v3-turbo", 808_878_080, id="whisper-large-v3-turbo"),
        pytest.param("databricks/dbrx-instruct", 131_596_523_520, id="dbrx-instruct"),
        pytest.param("EleutherAI/pythia-12b", 11_997_067_840, id="pythia-12b"),
        pytest.param("meituan-longcat/LongCat-Flash-Chat", 561_862_880_256, id="longcat-flash-chat"),
        pytest.param("MiniMaxAI/MiniMax-M1-80k", 456_089_655_296, id="minimax-m1-80k"),
        pytest.param(
            "moonshotai/Kimi-Linear-48B-A3B-Instruct", 49_122_681_728, id="kimi-linear-48b-a3b-instruct"
        ),
        pytest.param("tencent/Hunyuan-7B-Instruct", 7_504_568_320, id="hunyuan-7b-instruct"),
        pytest.param("tencent/Tencent-Hunyuan-Large", 388_701_402_880, id="tencent-hunyuan-large"),
        pytest.param("tiiuae/falcon-mamba-7b", 7_272_665_088, id="falcon-mamba-7b"),
        pytest.param("XiaomiMiMo/MiMo-V2-Flash", 308_797_449_600, id="mimo-v2-flash"),
        pytest.param("Zyphra/Zamba2-2.7B", 2_662_214_560, id="zamba2-2.7b"),
        pytest.param("Qwen/Qwen3-Embedding-0.6B", 595_776_512, id="qwen3-embedding-0.6b"),
        pytest.param("zai-org/GLM-4.5", 358_337_791_296, id="glm-4.5"),
        pytest.param("answerdotai/ModernBERT-base", 149_655_232, id="modernbert-base"),
        pytest.param("BAAI/bge-large-en-v1.5", 335_142_400, id="bge-large-en-v1.5"),
        pytest.param("BAAI/bge-reranker-v2-m3", 567_755_777, id="bge-reranker-v2-m3"),
        pytest.param("google-bert/bert-base-uncased", 110_106_428, id="bert-base-uncased"),
        pytest.param("google/flan-t5-large", 783_150_080, id="flan-t5-large"),
        pytest.param(
            "intfloat/multilingual-e5-large-instruct", 559_890_432, id="multilingual-e5-large-instruct"
        ),
    ],
)
def test_derived_patterns_have_their_number_of_elements(
    packaged: Catalog, model_id: str, elements: int
) -> None:
    entry = packaged.find_model(model_id)
    assert entry is not None
    assert entry.id not in DIGESTS
    tensors = list(entry.expand())
    assert sum(prod(tensor.shape) for tensor in tensors) == elements
    assert len({tensor.name for tensor in tensors}) == len(tensors)


def test_every_model_is_held_against_something(packaged: Catalog) -> None:
    assert len(packaged.models) == len(DIGESTS) + 41


@pytest.mark.parametrize(
    ("asked", "answered", "gated"),
    [
        ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B", True),
        ("meta-llama/llama-3.1-8b-instruct", "meta-llama/Llama-3.1-8B", True),
        ("meta-llama/Meta-Llama-3.1-70B-Instruct", "meta-llama/Llama-3.1-70B-Instruct", True),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "meta-llama/Llama-3.1-8B", False),
        ("deepseek-ai/DeepSeek-R1", "deepseek-ai/DeepSeek-V3", False),
        (" Qwen/Qwen3-8B ", "Qwen/Qwen3-8B", False),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mistralai/Mixtral-8x7B-v0.1", None),
    ],
)
def test_a_model_answers_to_its_aliases(
    packaged: Catalog, asked: str, answered: str, gated: bool | None
) -> None:
    entry = packaged.find_model(asked)
    assert entry is not None
    assert entry.id == answered
    assert entry.gated_as(asked.strip()) is gated


def test_a_model_that_is_not_there_is_none(packaged: Catalog) -> None:
    assert packaged.find_model("nobody/nothing") is None
