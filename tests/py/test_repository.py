"""Which files an engine would load: listings of the kinds that the Hub holds."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from willitserve.errors import RepositoryError
from willitserve.repository import INDEX_NAME, MAX_SHARDS, FileChoice, Kind, choose_files, shards_of_index

SIZE = 1_500_000_000


def shards(total: int, *, form: str = "model-{:05}-of-{:05}.safetensors", first: int = 1) -> list[str]:
    """Names of a numbered set."""
    return [form.format(number, total) for number in range(first, total + 1)]


def choose(*names: str, index: list[str] | None = None) -> FileChoice:
    """The choice for files of 1.5 GB each, and an index that names `index`."""
    text = None if index is None else index_of(index)
    return choose_files([(name, SIZE) for name in names], index_text=text)


def index_of(names: list[str]) -> str:
    """An index with one tensor per file."""
    return json.dumps(
        {"metadata": {}, "weight_map": {f"tensor.{number}": name for number, name in enumerate(names)}}
    )


READ: list[tuple[str, list[str], list[str]]] = [
    ("one file", ["config.json", "model.safetensors"], ["model.safetensors"]),
    ("shards", [*shards(3), INDEX_NAME], shards(3)),
    ("shards without an index", shards(3), shards(3)),
    (
        "six digits in the total, deepseek-ai/DeepSeek-R1",
        [*shards(163, form="model-{:05}-of-{:06}.safetensors"), INDEX_NAME],
        shards(163, form="model-{:05}-of-{:06}.safetensors"),
    ),
    (
        "an underscore before the number, bigscience/bloom",
        [
            *shards(72, form="model_{:05}-of-{:05}.safetensors"),
            *shards(72, form="pytorch_model_{:05}-of-{:05}.bin"),
        ],
        shards(72, form="model_{:05}-of-{:05}.safetensors"),
    ),
    (
        "counted from 0, and copies in subfolders, openai/gpt-oss-20b",
        [*shards(2, first=0), INDEX_NAME, "original/model.safetensors", "metal/model.bin"],
        shards(2, first=0),
    ),
    (
        "a copy in Mistral's format, mistralai/Mistral-7B-Instruct-v0.3",
        [*shards(3), INDEX_NAME, "consolidated.safetensors", "params.json"],
        shards(3),
    ),
    ("Mistral's format only", ["consolidated.safetensors", "params.json"], ["consolidated.safetensors"]),
    (
        "Meta's copy, meta-llama",
        [*shards(2), INDEX_NAME, "original/consolidated.00.pth", "original/params.json"],
        shards(2),
    ),
    ("another precision", ["model.safetensors", "model.fp16.safetensors"], ["model.safetensors"]),
    ("another precision only", ["model.fp16.safetensors"], ["model.fp16.safetensors"]),
    ("one file and a set, no index", ["model.safetensors", *shards(2)], ["model.safetensors"]),
    ("one file and a set with its index", ["model.safetensors", *shards(2), INDEX_NAME], shards(2)),
    ("two complete sets", [*shards(2), *shards(3)], shards(3)),
    ("a complete set and remains of another", [*shards(2), "model-00001-of-00009.safetensors"], shards(2)),
    (
        "an adapter beside its base",
        ["model.safetensors", "adapter_model.safetensors", "adapter_config.json"],
        ["model.safetensors"],
    ),
    (
        "a name of its own, TheBloke",
        ["gptq_model-4bit-128g.safetensors", "quantize_config.json"],
        ["gptq_model-4bit-128g.safetensors"],
    ),
    (
        "names without numbers, PANDASANG1231",
        ["embed_tokens.safetensors", "model-00001-model.layers.0.mlp.safetensors", INDEX_NAME],
        ["embed_tokens.safetensors", "model-00001-model.layers.0.mlp.safetensors"],
    ),
    (
        "training state",
        ["model.safetensors", "optimizer.pt", "rng_state.pth", "training_args.bin"],
        ["model.safetensors"],
    ),
    (
        "ONNX beside it, intfloat/multilingual-e5-large-instruct",
        ["model.safetensors", "onnx/model.onnx", "1_Pooling/config.json"],
        ["model.safetensors"],
    ),
]

REFUSED: list[tuple[str, list[str], Kind, str]] = [
    (
        "PyTorch only, tiiuae/falcon-40b",
        shards(9, form="pytorch_model-{:05}-of-{:05}.bin"),
        "pytorch-bin",
        "13.50 GB",
    ),
    ("GGUF only", ["model-Q4_K_M.gguf", "model-Q8_0.gguf", "config.json"], "gguf", "2 files"),
    (
        "an adapter",
        ["adapter_config.json", "adapter_model.safetensors"],
        "adapter",
        "base_model_name_or_path",
    ),
    ("a pickled adapter", ["adapter_config.json", "adapter_model.bin"], "adapter", "base_model_name_or_path"),
    (
        "diffusers, stable-diffusion-v1-4",
        ["model_index.json", "unet/diffusion_pytorch_model.safetensors", "v1-4.safetensors"],
        "diffusers",
        "pipeline",
    ),
    ("ONNX only, Supabase/gte-small", ["onnx/model.onnx", "config.json", "vocab.txt"], "onnx", "ONNX"),
    ("MLX npz", ["weights.npz", "config.json"], "mlx", "Apple"),
    (
        "a subfolder, Logics-MLLM/Logics-Thinking",
        ["model/model-00001-of-00002.safetensors"],
        "none",
        "model/",
    ),
    (
        "a missing shard",
        ["model-00001-of-00003.safetensors", "model-00003-of-00003.safetensors"],
        "none",
        "number 2",
    ),
    ("numbers above the total", [*shards(2), "model-00005-of-00002.safetensors"], "none", "do not agree"),
    ("an index without its files", [INDEX_NAME, "config.json"], "none", "none of the files"),
    ("tokenizer only", ["tokenizer.json", "tokenizer_config.json"], "none", "tokenizer"),
    ("nothing", [], "none", "No weight files."),
    ("Flax only", ["flax_model.msgpack", "tf_model.h5"], "none", "No weight files."),
]


@pytest.mark.parametrize(("names", "read"), [pytest.param(*entry[1:], id=entry[0]) for entry in READ])
def test_the_set_that_is_read(names: list[str], read: list[str]) -> None:
    choice = choose(*names)
    assert choice.kind == "safetensors"
    assert list(choice.read) == read
    assert not set(choice.read) & {name for name, _ in choice.ignored}


@pytest.mark.parametrize(
    ("names", "kind", "words"), [pytest.param(*entry[1:], id=entry[0]) for entry in REFUSED]
)
def test_what_cannot_be_planned_with_says_so(names: list[str], kind: Kind, words: str) -> None:
    choice = choose(*names)
    assert (choice.kind, choice.read) == (kind, ())
    assert words in choice.sentence


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["model.safetensors", "consolidated.safetensors"], "Mistral"),
        (["model.safetensors", "original/model.safetensors"], "original/"),
        (["model.safetensors", "model.fp16.safetensors"], "another precision"),
        (["model.safetensors", "adapter_model.safetensors"], "adapter"),
        (["model.safetensors", "../model.safetensors"], "out of the repository"),
    ],
)
def test_what_is_passed_over_is_told(names: list[str], reason: str) -> None:
    choice = choose(*names)
    ((name, why),) = choice.ignored
    assert name == names[1]
    assert reason in why
    assert name in choice.sentence


def test_a_sentence_says_how_much_was_found() -> None:
    assert choose(*shards(3), INDEX_NAME).sentence == "3 files, 4.50 GB of safetensors, numbered 1 to 3."
    assert choose_files([("model.safetensors", None)]).sentence == "1 file of safetensors."


@pytest.mark.parametrize(
    ("names", "configs"),
    [
        ([*shards(2), INDEX_NAME, "config.json"], ("config.json",)),
        (
            ["model.safetensors", "config.json", "hf_quant_config.json"],
            ("config.json", "hf_quant_config.json"),
        ),
        pytest.param(
            [*shards(2), *shards(3), INDEX_NAME, "config.json"],
            ("config.json", INDEX_NAME),
            id="two sets: the index tells",
        ),
        pytest.param(["a.safetensors", "b.safetensors", INDEX_NAME], (INDEX_NAME,), id="names of their own"),
        pytest.param(["a.safetensors", "b.safetensors"], (), id="no index to fetch"),
    ],
)
def test_the_configs_to_fetch(names: list[str], configs: tuple[str, ...]) -> None:
    assert choose(*names).configs == configs


def test_the_index_decides_between_sets() -> None:
    choice = choose(*shards(2), *shards(3), INDEX_NAME, index=shards(2))
    assert list(choice.read) == shards(2)
    assert choice.configs == ()
    assert {name for name, _ in choice.ignored} == set(shards(3))


def test_a_file_that_the_index_names_and_nobody_has_is_an_error() -> None:
    choice = choose(*shards(2), index=shards(4))
    assert choice.kind == "none"
    assert choice.sentence.startswith(
        f"{INDEX_NAME} names model-00001-of-00004.safetensors and 3 more, which is not there"
    )


def test_an_unreadable_index_is_passed_over_and_told() -> None:
    choice = choose_files([(name, SIZE) for name in shards(2)], index_text='{"weight_map": {}} trailing')
    assert list(choice.read) == shards(2)
    assert "is not valid JSON" in choice.sentence


@pytest.mark.parametrize(
    "name",
    [
        "../model.safetensors",
        "/etc/model.safetensors",
        "https://example.org/model.safetensors",
        "sub/model.safetensors",
        "..\\model.safetensors",
        "model.bin",
        "",
        "model\n.safetensors",
        1,
        None,
    ],
)
def test_an_index_that_names_anything_but_files_of_its_folder_is_refused(name: object) -> None:
    text = json.dumps({"weight_map": {"a": "model.safetensors", "b": name}})
    with pytest.raises(RepositoryError, match="names"):
        shards_of_index(text)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", "{}", '{"weight_map": []}', '{"weight_map": {}}', '{"weight_map": 1}', "[" * 100_000],
)
def test_a_text_that_is_no_index_is_refused(text: str) -> None:
    with pytest.raises(RepositoryError, match=INDEX_NAME):
        shards_of_index(text)


@pytest.mark.parametrize(("count", "is_read"), [(MAX_SHARDS, True), (MAX_SHARDS + 1, False)])
def test_the_limit_of_shards(count: int, is_read: bool) -> None:
    text = index_of([f"{number}.safetensors" for number in range(count)])
    if is_read:
        assert len(shards_of_index(text)) == count
    else:
        with pytest.raises(RepositoryError, match="10,001"):
            shards_of_index(text)


def test_shards_come_once_in_the_order_of_the_index() -> None:
    assert shards_of_index(index_of(["b.safetensors", "a.safetensors", "b.safetensors"])) == (
        "b.safetensors",
        "a.safetensors",
    )


file_names = st.sampled_from(
    [
        *shards(2),
        *shards(3),
        "model.safetensors",
        "consolidated.safetensors",
        "model.fp16.safetensors",
        "a.gguf",
        INDEX_NAME,
    ]
) | st.text(max_size=12).map(lambda text: f"{text}.safetensors")


@given(st.lists(st.tuples(file_names, st.none() | st.integers(0, 10**12)), max_size=8))
def test_any_listing_is_chosen_from(files: list[tuple[str, int | None]]) -> None:
    choice = choose_files(files)
    listed = {name for name, _ in files}
    assert set(choice.read) <= listed
    assert len(set(choice.read)) == len(choice.read)
    assert bool(choice.read) == (choice.kind == "safetensors")
    assert choice.sentence.endswith(".")
    assert not ("model.safetensors" in choice.read and len(choice.read) > 1)
