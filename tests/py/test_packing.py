"""Packings by the tensors of one linear layer of 4096 outputs and 14,336 inputs, as each format's writer
stores it."""

import pytest

from willitserve.packing import UNKNOWN, Packing, Stored, find_packing, is_company
from willitserve.quantization import Scheme

LOGICAL = 58_720_256
"""4096 x 14336."""

Tensors = dict[str, tuple[str, tuple[int, ...]]]
NOTHING = Scheme()
INT4 = Scheme(bits=4, is_float=False, group_size=128)

TOLD_BY_SHAPES: list[tuple[str, Tensors, str]] = [
    (
        "GPTQ 4 bit",
        {
            "qweight": ("I32", (1792, 4096)),
            "qzeros": ("I32", (112, 512)),
            "scales": ("F16", (112, 4096)),
            "g_idx": ("I32", (14336,)),
        },
        "int4",
    ),
    (
        "GPTQ 8 bit",
        {"qweight": ("I32", (3584, 4096)), "qzeros": ("I32", (112, 1024)), "scales": ("F16", (112, 4096))},
        "int8",
    ),
    (
        "GPTQ 3 bit",
        {"qweight": ("I32", (1344, 4096)), "qzeros": ("I32", (1, 384)), "scales": ("F16", (1, 4096))},
        "int3",
    ),
    (
        "GPTQ 2 bit",
        {"qweight": ("I32", (896, 4096)), "qzeros": ("I32", (112, 256)), "scales": ("F16", (112, 4096))},
        "int2",
    ),
    (
        "GPTQ by its order",
        {"qweight": ("I32", (1792, 4096)), "scales": ("F16", (112, 4096)), "g_idx": ("I32", (14336,))},
        "int4",
    ),
    (
        "AWQ",
        {"qweight": ("I32", (14336, 512)), "qzeros": ("I32", (112, 512)), "scales": ("F16", (112, 4096))},
        "int4",
    ),
    (
        "compressed-tensors with an order",
        {
            "weight_packed": ("I32", (4096, 1792)),
            "weight_scale": ("BF16", (4096, 112)),
            "weight_g_idx": ("I32", (14336,)),
        },
        "int4",
    ),
    (
        "compressed-tensors NVFP4",
        {
            "weight_packed": ("U8", (4096, 7168)),
            "weight_scale": ("F8_E4M3", (4096, 896)),
            "weight_global_scale": ("F32", (1,)),
        },
        "nvfp4",
    ),
    (
        "ModelOpt NVFP4",
        {
            "weight": ("U8", (4096, 7168)),
            "weight_scale": ("F8_E4M3", (4096, 896)),
            "weight_scale_2": ("F32", ()),
        },
        "nvfp4",
    ),
    ("FP4 dtype", {"weight": ("F4", (4096, 14336)), "weight_scale": ("F8_E4M3", (4096, 896))}, "nvfp4"),
    ("MXFP4 with U8 scales", {"weight": ("U8", (4096, 7168)), "weight_scale": ("U8", (4096, 448))}, "mxfp4"),
    (
        "MXFP4 with E8M0 scales in I8",
        {"weight": ("I8", (4096, 7168)), "scale": ("F8_E8M0", (4096, 448))},
        "mxfp4",
    ),
    ("MXFP6", {"weight_packed": ("U8", (4096, 10752)), "weight_scale": ("U8", (4096, 448))}, "mxfp6"),
    ("MXFP8", {"weight": ("F8_E4M3", (4096, 14336)), "weight_scale": ("U8", (4096, 448))}, "mxfp8"),
    ("MXINT8", {"weight": ("I8", (4096, 14336)), "weight_scale": ("F8_E8M0", (4096, 448))}, "int8"),
    (
        "FP8 per tensor",
        {"weight": ("F8_E4M3", (4096, 14336)), "weight_scale": ("F32", ()), "input_scale": ("F32", ())},
        "fp8",
    ),
    ("FP8 per row", {"weight": ("F8_E4M3", (4096, 14336)), "weight_scale": ("BF16", (4096, 1))}, "fp8"),
    ("FP8 without scales", {"weight": ("F8_E5M2", (4096, 14336))}, "fp8"),
    (
        "FP8 in blocks",
        {"weight": ("F8_E4M3", (4096, 14336)), "weight_scale_inv": ("F32", (32, 112))},
        "fp8-block",
    ),
    ("INT8", {"weight": ("I8", (4096, 14336)), "weight_scale": ("BF16", (4096, 1))}, "int8"),
    ("EETQ", {"weight": ("I8", (14336, 4096)), "weight_scales": ("F16", (4096,))}, "int8"),
    (
        "bitsandbytes int8",
        {"weight": ("I8", (4096, 14336)), "SCB": ("F32", (4096,)), "weight_format": ("U8", ())},
        "int8",
    ),
    (
        "bitsandbytes NF4",
        {
            "weight": ("U8", (29_360_128, 1)),
            "weight.absmax": ("U8", (917_504,)),
            "weight.quant_state.bitsandbytes__nf4": ("U8", (173,)),
        },
        "nf4",
    ),
    (
        "bitsandbytes FP4 kept in BF16",
        {
            "weight": ("BF16", (14_680_064, 1)),
            "weight.absmax": ("F32", (917_504,)),
            "weight.quant_state.bitsandbytes__fp4": ("U8", (100,)),
        },
        "fp4-bnb",
    ),
    ("Marlin", {"B": ("I32", (896, 8192)), "s": ("F16", (112, 4096))}, "int4"),
    (
        "AQLM",
        {
            "codes": ("I16", (4096, 1792, 2)),
            "codebooks": ("F16", (2, 256, 1, 8)),
            "scales": ("F16", (4096, 1, 1, 1)),
        },
        "aqlm",
    ),
    (
        "torchao FP8",
        {"_weight_qdata": ("F8_E4M3", (4096, 14336)), "_weight_scale": ("F32", (4096, 1))},
        "fp8",
    ),
    ("quanto int8", {"weight._data": ("I8", (4096, 14336)), "weight._scale": ("BF16", (4096, 1))}, "int8"),
]

TOLD_BY_DECLARATION: list[tuple[str, Tensors, Scheme, str | None, str]] = [
    (
        "compressed-tensors",
        {"weight_packed": ("I32", (4096, 1792)), "weight_scale": ("BF16", (4096, 112))},
        INT4,
        "compressed-tensors",
        "int4",
    ),
    ("GPTQ without company", {"qweight": ("I32", (1792, 4096))}, INT4, "gptq", "int4"),
    (
        "AWQ for GEMV",
        {"qweight": ("I16", (1024, 14336)), "scales": ("F16", (112, 4096))},
        INT4,
        "awq",
        "int4",
    ),
    (
        "HQQ 4 bit",
        {"W_q": ("U8", (29_360_128, 1)), "scale": ("F16", (1, 1)), "zero": ("F16", (1, 1))},
        INT4,
        "hqq",
        "int4",
    ),
    (
        "HIGGS",
        {"weight": ("I16", (3584, 4096)), "scales": ("F16", (56, 4096)), "tables": ("F16", (16, 1))},
        Scheme(bits=4, group_size=256),
        "higgs",
        "int4",
    ),
    (
        "MLX 4 bit",
        {"weight": ("U32", (4096, 1792)), "scales": ("BF16", (4096, 224)), "biases": ("BF16", (4096, 224))},
        Scheme(bits=4, group_size=64),
        "mlx",
        "int4",
    ),
    (
        "MLX 8 bit where 4 is the default",
        {"weight": ("U32", (4096, 3584)), "scales": ("BF16", (4096, 224))},
        Scheme(bits=4, group_size=64),
        "mlx",
        "int8",
    ),
    (
        "MLX MXFP4",
        {"weight": ("U32", (4096, 1792)), "scales": ("U8", (4096, 448))},
        Scheme(bits=4, group_size=32, format="mxfp4"),
        "mlx",
        "mxfp4",
    ),
    (
        "Quark int4",
        {"weight": ("I32", (4096, 1792)), "weight_scale": ("F32", (4096, 112))},
        INT4,
        "quark",
        "int4",
    ),
    (
        "torchao int4",
        {"_weight_qdata": ("I8", (4096, 7168)), "_weight_scale": ("BF16", (112, 4096))},
        INT4,
        "torchao",
        "int4",
    ),
    (
        "quanto int4",
        {"weight._data._data": ("U8", (4096, 7168)), "weight._scale": ("BF16", (4096, 1))},
        INT4,
        "quanto",
        "int4",
    ),
    (
        "BitNet",
        {"weight": ("U8", (1024, 14336)), "weight_scale": ("BF16", (1,))},
        NOTHING,
        "bitnet",
        "ternary",
    ),
    (
        "NVFP4 with swizzled scales",
        {"weight": ("U8", (4096, 7168)), "weight_scale": ("F8_E4M3", (32, 224, 32, 16))},
        Scheme(bits=4, is_float=True),
        "modelopt",
        "nvfp4",
    ),
    ("int8 without scales", {"weight": ("I8", (4096, 14336))}, Scheme(bits=8), "bitsandbytes", "int8"),
]

NOT_TOLD: list[tuple[str, Tensors, str | None]] = [
    (
        "compressed-tensors integers",
        {"weight_packed": ("I32", (4096, 1792)), "weight_scale": ("BF16", (4096, 112))},
        None,
    ),
    ("MLX", {"weight": ("U32", (4096, 1792)), "scales": ("BF16", (4096, 224))}, None),
    ("HQQ", {"W_q": ("U8", (4096, 7168)), "scale": ("F16", (1, 1))}, None),
    ("bytes called a weight", {"weight": ("U8", (4096, 7168))}, None),
    ("bytes beside wide scales", {"weight": ("U8", (4096, 7168)), "weight_scale": ("F32", (4096, 1))}, None),
    (
        "2:4 sparse",
        {"compressed": ("F16", (4096, 7168)), "bitmask": ("U8", (4096, 1792))},
        "compressed-tensors",
    ),
    (
        "Marlin 2:4",
        {
            "weight_packed": ("I32", (448, 8192)),
            "scale_packed": ("F16", (112, 4096)),
            "meta": ("I16", (448, 8192)),
        },
        "compressed-tensors",
    ),
    ("VPTQ", {"": ("I32", (1, 4096, 1792))}, "vptq"),
    ("an unknown dtype", {"weight": ("F3_X", (4096, 14336))}, None),
    ("AQLM without its books", {"codes": ("I16", (4096, 1792, 2))}, "aqlm"),
]

PLAIN: list[tuple[str, Tensors]] = [
    ("dense", {"weight": ("BF16", (4096, 14336)), "bias": ("BF16", (4096,))}),
    ("dense with scales of a quantized cache", {"weight": ("BF16", (4096, 14336)), "k_scale": ("F32", ())}),
    ("a router with a scale of its own", {"weight": ("BF16", (128, 2816)), "scale": ("BF16", (2816,))}),
    ("a table of expert ids", {"": ("I64", (129280, 6))}),
    ("a parameter without a word", {"": ("F32", (64,))}),
    ("a norm", {"weight": ("F32", (4096,))}),
]


def stored(tensors: Tensors) -> dict[str, Stored]:
    """The tensors as the reader gives them."""
    return {word: Stored(dtype, shape) for word, (dtype, shape) in tensors.items()}


@pytest.mark.parametrize(
    ("tensors", "name"), [pytest.param(*entry[1:], id=entry[0]) for entry in TOLD_BY_SHAPES]
)
def test_shapes_tell_the_packing(tensors: Tensors, name: str) -> None:
    packing = find_packing(stored(tensors), NOTHING, None)
    assert packing is not None
    assert (packing.format, packing.num_params) == (name, LOGICAL)


@pytest.mark.parametrize(
    ("tensors", "scheme", "method", "name"),
    [pytest.param(*entry[1:], id=entry[0]) for entry in TOLD_BY_DECLARATION],
)
def test_the_declaration_tells_what_shapes_do_not(
    tensors: Tensors, scheme: Scheme, method: str | None, name: str
) -> None:
    packing = find_packing(stored(tensors), scheme, method)
    assert packing is not None
    assert (packing.format, packing.num_params) == (name, LOGICAL)


@pytest.mark.parametrize(("tensors", "method"), [pytest.param(*entry[1:], id=entry[0]) for entry in NOT_TOLD])
def test_without_either_the_parameters_are_withheld(tensors: Tensors, method: str | None) -> None:
    packing = find_packing(stored(tensors), NOTHING, method)
    assert packing is not None
    assert (packing.format, packing.num_params) == (UNKNOWN, None)


@pytest.mark.parametrize("tensors", [pytest.param(entry[1], id=entry[0]) for entry in PLAIN])
def test_plain_tensors_have_no_packing(tensors: Tensors) -> None:
    assert find_packing(stored(tensors), NOTHING, None) is None


def test_fused_experts_of_gpt_oss() -> None:
    tensors: Tensors = {
        "blocks": ("U8", (32, 5760, 90, 16)),
        "scales": ("U8", (32, 5760, 90)),
        "bias": ("BF16", (32, 5760)),
    }
    packing = find_packing(stored(tensors), NOTHING, "mxfp4")
    assert packing == Packing(format="mxfp4", word="blocks", num_params=530_841_600, group_size=32)


@pytest.mark.parametrize(
    ("weight", "scale", "block"),
    [
        ((18432, 7168), (144, 56), (128, 128)),
        pytest.param((576, 7168), (5, 56), (128, 128), id="last block cut off"),
        pytest.param((512, 128), (4, 1), (128, 128), id="one block wide"),
        pytest.param((16, 1536, 3072), (16, 12, 24), (128, 128), id="fused experts"),
        pytest.param((4096, 14336), (4096, 112), None, id="groups along the row"),
        pytest.param((128, 128), (1, 1), None, id="one scale"),
    ],
)
def test_blocks_are_read_from_the_scales(
    weight: tuple[int, ...], scale: tuple[int, ...], block: tuple[int, int] | None
) -> None:
    packing = find_packing(
        stored({"weight": ("F8_E4M3", weight), "weight_scale_inv": ("F32", scale)}), NOTHING, "fp8"
    )
    assert packing is not None
    assert packing.weight_block == block


def test_a_part_empty_word_at_the_end_of_a_row_is_not_counted() -> None:
    # 100 values of 4 bits take 12.5 words of 32.
    tensors: Tensors = {"weight_packed": ("I32", (64, 13)), "weight_scale": ("BF16", (64, 5))}
    packing = find_packing(
        stored(tensors), Scheme(bits=4, is_float=False, group_size=20), "compressed-tensors"
    )
    assert packing is not None
    assert packing.num_params == 6_400


def test_hqq_packs_ten_three_bit_values_into_a_word() -> None:
    packing = find_packing(stored({"W_q": ("I32", (410, 64))}), Scheme(bits=3), "hqq")
    assert packing is not None
    assert packing.num_params == 262_400


def test_hqq_scales_say_where_a_three_bit_row_ends() -> None:
    # 4096 x 64 values in 410 rows of ten: the last row holds six.
    tensors = stored({"W_q": ("I32", (410, 64)), "scale": ("F16", (4096, 1))})
    packing = find_packing(tensors, Scheme(bits=3, group_size=64), "hqq")
    assert packing is not None
    assert packing.num_params == 262_144


@pytest.mark.parametrize(
    ("word", "packed", "plain"),
    [
        ("weight_scale", True, True),
        ("qzeros", True, True),
        ("k_scale", True, True),
        ("scale", True, False),
        ("biases", True, False),
        ("weight.absmax", True, False),
        ("weight", False, False),
        ("bias", False, False),
        ("", False, False),
    ],
)
def test_company_of_packed_values_is_no_parameter(word: str, packed: bool, plain: bool) -> None:
    packing = Packing(format="int4", word="weight", num_params=1)
    assert is_company(word, packing) is packed
    assert is_company(word, None) is plain
