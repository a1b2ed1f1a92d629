"""What config.json and the ModelOpt sidecar declare, from the blocks that publishers write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from willitserve.quantization import Quantization, Scheme, read_quantization

Block = dict[str, object]

FP8_DYNAMIC: Block = {
    "quant_method": "compressed-tensors",
    "format": "float-quantized",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 8, "type": "float", "strategy": "channel"},
            "input_activations": {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True},
        }
    },
    "kv_cache_scheme": None,
}
W4A16: Block = {
    "quant_method": "compressed-tensors",
    "format": "pack-quantized",
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32},
            "input_activations": None,
        }
    },
}
MIXED: Block = {
    "quant_method": "compressed-tensors",
    "format": "mixed-precision",
    "config_groups": {
        "experts": {
            "format": "pack-quantized",
            "targets": ["re:.*mlp\\.experts\\.\\d+\\..*"],
            "weights": {"num_bits": 4, "type": "int", "group_size": 128},
        },
        "attention": {
            "format": "float-quantized",
            "targets": ["re:.*self_attn.*", "model.layers.0.mlp.up_proj"],
            "weights": {"num_bits": 8, "type": "float"},
            "input_activations": {"num_bits": 8, "type": "float"},
        },
    },
}
DEEPSEEK: Block = {
    "activation_scheme": "dynamic",
    "fmt": "e4m3",
    "quant_method": "fp8",
    "weight_block_size": [128, 128],
}
NVFP4: Block = {
    "quant_method": "modelopt",
    "quant_algo": "NVFP4",
    "kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": False},
    "config_groups": {
        "group_0": {
            "input_activations": {"dynamic": False, "num_bits": 4, "type": "float", "group_size": 16},
            "weights": {"dynamic": False, "num_bits": 4, "type": "float", "group_size": 16},
        }
    },
}
GPTQ: Block = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
NF4: Block = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
INT8: Block = {"quant_method": "bitsandbytes", "load_in_8bit": True, "load_in_4bit": False}
QUARK: Block = {
    "quant_method": "quark",
    "global_quant_config": {
        "weight": {"dtype": "fp4", "group_size": 32},
        "input_tensors": {"dtype": "fp4"},
    },
}
TORCHAO: Block = {
    "quant_method": "torchao",
    "quant_type": {"default": {"_type": "Float8DynamicActivationFloat8WeightConfig", "_data": {}}},
}

DECLARED: list[tuple[str, Block, str, int | None, str | None]] = [
    ("compressed-tensors FP8", FP8_DYNAMIC, "compressed-tensors", 8, "fp8"),
    ("compressed-tensors W4A16", W4A16, "compressed-tensors", 4, None),
    ("DeepSeek FP8", DEEPSEEK, "fp8", 8, "fp8"),
    ("fbgemm", {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0}, "fbgemm_fp8", 8, "fp8"),
    ("ModelOpt NVFP4", NVFP4, "modelopt", 4, "nvfp4"),
    ("ModelOpt FP8", {"quant_method": "modelopt", "quant_algo": "FP8"}, "modelopt", 8, "fp8"),
    ("ModelOpt FP8, weights only", {"quant_algo": "FP8_PB_WO"}, "modelopt", 8, None),
    ("ModelOpt W4A8", {"quant_algo": "W4A8_AWQ", "group_size": 128}, "modelopt", 4, "fp8"),
    ("ModelOpt NVFP4, weights only", {"quant_algo": "W4A16_NVFP4"}, "modelopt", 4, None),
    ("ModelOpt mixed", {"quant_algo": "MIXED_PRECISION"}, "modelopt", None, None),
    ("GPTQ", GPTQ, "gptq", 4, None),
    ("AWQ", {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, "awq", 4, None),
    ("AutoRound", {"quant_method": "intel/auto-round", "bits": 4, "group_size": 128}, "auto-round", 4, None),
    ("bitsandbytes NF4", NF4, "bitsandbytes", 4, None),
    ("bitsandbytes int8", INT8, "bitsandbytes", 8, "int8"),
    ("HQQ", {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 3}}}, "hqq", 3, None),
    ("Quark MXFP4", QUARK, "quark", 4, "mxfp4"),
    ("torchao", TORCHAO, "torchao", 8, "fp8"),
    ("torchao by name", {"quant_method": "torchao", "quant_type": "int4_weight_only"}, "torchao", 4, None),
    ("quanto", {"quant_method": "quanto", "weights": "int4"}, "quanto", 4, None),
    ("MXFP4", {"quant_method": "mxfp4"}, "mxfp4", None, None),
    ("VPTQ", {"quant_method": "vptq"}, "vptq", None, None),
    ("nothing named", {"foo": 1}, "unknown", None, None),
]


def declared(block: Block) -> Quantization:
    """The block at the top of config.json."""
    quantization = read_quantization({"quantization_config": block})
    assert quantization is not None
    return quantization


@pytest.mark.parametrize(
    ("block", "method", "bits", "activation"), [pytest.param(*entry[1:], id=entry[0]) for entry in DECLARED]
)
def test_methods(block: Block, method: str, bits: int | None, activation: str | None) -> None:
    quantization = declared(block)
    assert quantization.method == method
    assert quantization.default.bits == bits
    assert quantization.default.activation_format == activation


@pytest.mark.parametrize(
    "config",
    [
        pytest.param({"quantization_config": W4A16}, id="top"),
        pytest.param({"compression_config": W4A16}, id="compression_config"),
        pytest.param({"text_config": {"quantization_config": W4A16}}, id="text_config"),
        pytest.param({"thinker_config": {"text_config": {"quantization_config": W4A16}}}, id="deeper"),
        pytest.param(
            {"quantization_config": None, "text_config": {"quantization_config": W4A16}}, id="null at the top"
        ),
    ],
)
def test_the_declaration_is_found_where_publishers_put_it(config: Block) -> None:
    quantization = read_quantization(config)
    assert quantization is not None
    assert (quantization.method, quantization.default.bits) == ("compressed-tensors", 4)
    assert quantization.default.group_size == 32


@pytest.mark.parametrize(
    "config", [None, {}, {"quantization_config": {}}, {"quantization": "fp8"}, {"quantization_config": [1]}]
)
def test_nothing_declared(config: Block | None) -> None:
    assert read_quantization(config) is None


def test_configs_nested_without_end_declare_nothing() -> None:
    config: Block = {"quantization_config": W4A16}
    for _ in range(2000):
        config = {"text_config": config}
    assert read_quantization(config) is None


def test_the_modelopt_sidecar_is_read_where_config_json_is_silent() -> None:
    sidecar: Block = {
        "producer": {"name": "modelopt"},
        "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"},
    }
    quantization = read_quantization({"model_type": "llama"}, sidecar)
    assert quantization is not None
    assert (quantization.method, quantization.kv_cache_format) == ("modelopt", "fp8")
    assert read_quantization({"quantization_config": GPTQ}, sidecar) == declared(GPTQ)


def test_mlx_overrides_single_modules() -> None:
    block: Block = {
        "group_size": 64,
        "bits": 4,
        "model.layers.0.mlp.down_proj": {"group_size": 32, "bits": 8},
    }
    quantization = read_quantization({"quantization": block, "quantization_config": block})
    assert quantization is not None
    assert quantization.method == "mlx"
    assert quantization.scheme_for("model.layers.0.mlp.down_proj") == Scheme(bits=8, group_size=32)
    assert quantization.scheme_for("model.layers.1.mlp.down_proj") == Scheme(bits=4, group_size=64)


@pytest.mark.parametrize(
    ("module", "bits"),
    [
        ("model.layers.3.mlp.experts.12.up_proj", 4),
        ("model.layers.3.self_attn.q_proj", 8),
        ("model.layers.0.mlp.up_proj", 8),
        ("model.layers.10.mlp.up_proj", None),
    ],
)
def test_groups_hold_for_the_modules_that_they_target(module: str, bits: int | None) -> None:
    assert declared(MIXED).scheme_for(module).bits == bits


@pytest.mark.parametrize("target", ["re:(", "re:(a+)+$", "re:" + "a" * 1001])
def test_a_target_that_cannot_be_trusted_matches_nothing(target: str) -> None:
    block: Block = {
        "config_groups": {
            "a": {"targets": [target], "weights": {"num_bits": 4}},
            "b": {"weights": {"num_bits": 8}},
        }
    }
    assert declared(block).scheme_for("a" * 60).bits == 8


@pytest.mark.parametrize(
    ("block", "kv_cache_format", "weight_block"),
    [
        pytest.param(NVFP4, "fp8", None, id="kv_cache_scheme"),
        pytest.param({"quant_algo": "FP8", "kv_cache_quant_algo": None}, None, None, id="none"),
        pytest.param(DEEPSEEK, None, (128, 128), id="blocks"),
        pytest.param({"quant_method": "fp8", "weight_block_size": None}, None, None, id="no blocks"),
        pytest.param(
            {"quant_method": "fp8", "weight_block_size": [0, 128]}, None, None, id="impossible blocks"
        ),
    ],
)
def test_cache_and_blocks(
    block: Block, kv_cache_format: str | None, weight_block: tuple[int, int] | None
) -> None:
    quantization = declared(block)
    assert quantization.kv_cache_format == kv_cache_format
    assert quantization.weight_block == weight_block


keys = st.sampled_from(
    """
    quantization_config quantization quant_method quant_algo bits group_size config_groups weights num_bits
    targets input_activations kv_cache_scheme weight_block_size quant_type default _type global_quant_config
    weight dtype text_config load_in_8bit quant_config weight_quant_params
    """.split()  # noqa: SIM905
) | st.text(max_size=3)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=20,
)


@given(
    st.dictionaries(keys, json_values, max_size=5),
    st.none() | st.dictionaries(keys, json_values, max_size=3),
)
def test_any_declaration_is_read_or_passed_over(config: Block, sidecar: Block | None) -> None:
    quantization = read_quantization(config, sidecar)
    if quantization is not None:
        assert isinstance(quantization.scheme_for("model.layers.0.mlp.up_proj"), Scheme)
