"""A config.json and headers that do not speak of the same model."""

import pytest

from willitserve.agreement import disagreements
from willitserve.checkpoint import CheckpointBuilder
from willitserve.config import describe
from willitserve.header_pattern import NamedTensor
from willitserve.safetensors import lay_out

CONFIG: dict[str, object] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 256,
    "max_position_embeddings": 2048,
}


def found(*, layers: list[int], config: dict[str, object] | None = None) -> tuple[str, ...]:
    """What is said of CONFIG beside an embedding and the keys of these layers."""
    tensors = [NamedTensor("model.embed_tokens.weight", "BF16", (256, 64))]
    tensors += [
        NamedTensor(f"model.layers.{layer}.self_attn.k_proj.weight", "BF16", (32, 64)) for layer in layers
    ]
    settings = CONFIG | (config or {})
    architecture = describe(settings)
    builder = CheckpointBuilder()
    builder.add("model.safetensors", lay_out(tensors))
    return disagreements(architecture, builder.finish(architecture=architecture, config=settings))


def test_nothing_is_said_where_they_agree() -> None:
    assert found(layers=[0, 1, 2]) == ()


@pytest.mark.parametrize(
    ("layers", "sentence"),
    [
        pytest.param([], "config.json says 3 layers, the tensors are of none", id="none"),
        pytest.param([0, 1], "config.json says 3 layers, the tensors are of 2", id="last"),
        pytest.param([1, 2], "config.json says 3 layers, the tensors have nothing of layer 0", id="first"),
        pytest.param([0, 2], "config.json says 3 layers, the tensors have nothing of layer 1", id="middle"),
    ],
)
def test_layers_that_are_not_there(layers: list[int], sentence: str) -> None:
    assert found(layers=layers) == (sentence,)


def test_another_width() -> None:
    assert found(layers=[0, 1, 2], config={"hidden_size": 128})[0] == (
        "config.json says hidden_size 128, the embedding is (256, 64)"
    )


def test_keys_of_another_width() -> None:
    assert found(layers=[0, 1, 2], config={"num_key_value_heads": 1}) == (
        "config.json gives keys of 16 rows in layer 0, the tensor is (32, 64)",
    )
