"""What a checkpoint's files declare about quantization: method, widths, activations, KV cache, per module if
need be.

Read from wherever publishers put it: `quantization_config` at the top of config.json or in a nested text
config, `compression_config`, `quantization` (MLX), or the ModelOpt sidecar hf_quant_config.json. How the
tensors are really stored is told by the headers (`packing`); what is declared here fills in what they cannot
show and names the method.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """How the weights of some modules are declared to be stored."""

    bits: int | None = None
    """Per weight."""
    is_float: bool | None = None
    format: str | None = None
    """The method's own name of the storage format: `pack-quantized`, `NVFP4`, `Int4WeightOnlyConfig`."""
    group_size: int | None = None
    """Input values per scale; None: not by groups, or not declared."""
    activation_format: str | None = None
    """As `Checkpoint.activation_format`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """All that is declared. `default` holds for every module that no override names."""

    method: str
    """`gptq`, `awq`, `compressed-tensors`, `fp8`, `modelopt`, …; `unknown` where the block names none."""
    default: Scheme
    overrides: tuple[tuple[str, Scheme], ...] = ()
    """(target, scheme): a module's name or the end of it, or `re:` and a pattern, as compressed-tensors
    writes it."""
    weight_block: tuple[int, int] | None = None
    kv_cache_format: str | None = None

    def scheme_for(self, module: str) -> Scheme:
        """The scheme of the module with this full name, numbers filled in."""
        for target, scheme in self.overrides:
            if target.startswith("re:"):
                if _matches(target[3:], module):
                    return scheme
            elif module == target or module.endswith(f".{target}"):
                return scheme
        return self.default


def read_quantization(
    config: Mapping[str, object] | None, hf_quant_config: Mapping[str, object] | None = None
) -> Quantization | None:
    """What config.json and the ModelOpt sidecar declare; None: nothing, which says nothing about the
    tensors."""
    block = _find_block(config) if config is not None else None
    if block is None and hf_quant_config is not None:
        block = _mapping(hf_quant_config.get("quantization"))
        if block is not None:
            block = {"quant_method": "modelopt", **block}
    if block is None:
        return None
    method = _method(block)
    groups = list(_config_groups(block, method))
    default = _default_scheme(block, method, groups)
    overrides = [entry for entry in groups if entry[0] not in _ANY_LINEAR]
    if method == "mlx":
        overrides += [
            (name, _mlx_scheme(entry, default))
            for name, value in block.items()
            if (entry := _mapping(value)) is not None
        ]
    return Quantization(
        method=method,
        default=default,
        overrides=tuple(overrides),
        weight_block=_weight_block(block, groups),
        kv_cache_format=_kv_cache_format(block),
    )


_ANY_LINEAR = frozenset({"Linear", "*"})
"""Targets that name no module but all of them."""

_MAX_DEPTH = 4
"""Configs inside configs: thinker_config > text_config is the deepest known."""

_BLOCK_KEYS = ("quantization_config", "compression_config", "quantization")
_METHOD_SPELLINGS = {
    "compressed_tensors": "compressed-tensors",
    "sparseml": "compressed-tensors",
    "bnb": "bitsandbytes",
    "intel/auto-round": "auto-round",
    "auto_round": "auto-round",
    "modelopt_fp4": "modelopt",
    "modelopt_mxfp8": "modelopt",
    "modelopt_mixed": "modelopt",
    "awq_marlin": "awq",
    "gptq_marlin": "gptq",
}


def _find_block(config: Mapping[str, object], depth: int = 0) -> Mapping[str, object] | None:
    """The declaration, at the top first, then in nested configs (`text_config`, `llm_config`, …)."""
    for key in _BLOCK_KEYS:
        block = _mapping(config.get(key))
        if block:
            return block
    for key, value in config.items():
        nested = _mapping(value) if key.endswith("_config") and depth < _MAX_DEPTH else None
        found = _find_block(nested, depth + 1) if nested is not None else None
        if found is not None:
            return found
    return None


def _method(block: Mapping[str, object]) -> str:
    named = _text(block.get("quant_method")).lower()
    if named:
        return _METHOD_SPELLINGS.get(named, named)
    if "config_groups" in block:
        return "compressed-tensors"
    if "quant_algo" in block:
        return "modelopt"
    if "load_in_4bit" in block or "load_in_8bit" in block:
        return "bitsandbytes"
    if "desc_act" in block:
        return "gptq"
    if "zero_point" in block or "w_bit" in block:
        return "awq"
    if "bits" in block and "group_size" in block:
        return "mlx"
    return "unknown"


def _config_groups(block: Mapping[str, object], method: str) -> Iterator[tuple[str, Scheme]]:
    """(target, scheme) of every group of a compressed-tensors or ModelOpt declaration."""
    for value in (_mapping(block.get("config_groups")) or {}).values():
        group = _mapping(value) or {}
        weights = _mapping(group.get("weights")) or {}
        scheme = Scheme(
            bits=_integer(weights.get("num_bits")),
            is_float=_is_float(weights),
            format=_text(group.get("format"))
            or _text(block.get("format"))
            or _text(block.get("quant_algo"))
            or None,
            group_size=_positive(weights.get("group_size")),
            activation_format=_activation_format(_mapping(group.get("input_activations")), method),
        )
        targets = group.get("targets")
        names = cast("list[object]", targets) if isinstance(targets, list) else ["Linear"]
        for name in names:
            if isinstance(name, str):
                yield name, scheme


def _default_scheme(block: Mapping[str, object], method: str, groups: list[tuple[str, Scheme]]) -> Scheme:
    for target, scheme in groups:
        if target in _ANY_LINEAR:
            return scheme
    if groups:
        # Only named modules are quantized: what holds for all others is what the groups agree on.
        schemes = {scheme for _, scheme in groups}
        return schemes.pop() if len(schemes) == 1 else Scheme()
    match method:
        case "bitsandbytes":
            return _bitsandbytes_scheme(block)
        case "hqq":
            params = _mapping((_mapping(block.get("quant_config")) or {}).get("weight_quant_params")) or {}
            return Scheme(bits=_integer(params.get("nbits")), group_size=_positive(params.get("group_size")))
        case "quark":
            return _quark_scheme(block)
        case "torchao":
            return _named_scheme(_torchao_name(block))
        case "modelopt":
            return _modelopt_scheme(block)
        case "quanto" | "eetq":
            return _named_scheme(_text(block.get("weights")))
        case "fp8" | "fbgemm_fp8":
            return Scheme(bits=8, is_float=True, activation_format="fp8")
        case "mxfp8":
            return Scheme(bits=8, is_float=True, activation_format="mxfp8")
        case _:
            bits = _integer(block.get("bits")) or _integer(block.get("w_bit"))
            group_size = _positive(block.get("group_size")) or _positive(block.get("q_group_size"))
            return Scheme(bits=bits, format=_text(block.get("mode")) or None, group_size=group_size)


def _bitsandbytes_scheme(block: Mapping[str, object]) -> Scheme:
    if block.get("load_in_8bit") is True:
        return Scheme(bits=8, is_float=False, activation_format="int8")
    kind = _text(block.get("bnb_4bit_quant_type")) or "fp4"
    return Scheme(bits=4, is_float=True, format=kind)


def _quark_scheme(block: Mapping[str, object]) -> Scheme:
    config = _mapping(block.get("global_quant_config")) or {}
    weight = _mapping(config.get("weight")) or {}
    scheme = _named_scheme(_text(weight.get("dtype")))
    inputs = _mapping(config.get("input_tensors"))
    activation = _named_scheme(_text(inputs.get("dtype"))) if inputs is not None else Scheme()
    return Scheme(
        bits=scheme.bits,
        is_float=scheme.is_float,
        format=scheme.format,
        group_size=_positive(weight.get("group_size")),
        activation_format=_format_of(activation.bits, activation.is_float, "quark"),
    )


def _torchao_name(block: Mapping[str, object]) -> str:
    quant_type = block.get("quant_type")
    if isinstance(quant_type, str):
        return quant_type
    default = (_mapping(quant_type) or {}).get("default")
    return default if isinstance(default, str) else _text((_mapping(default) or {}).get("_type"))


_WIDTH_IN_NAME = re.compile(r"(u?int|float|fp|mxfp|nvfp|w)_?([1-9]\d?)", re.IGNORECASE)


def _named_scheme(name: str) -> Scheme:
    """What a name such as `Int4WeightOnlyConfig`, `fp8_e4m3` or `qint8` says."""
    found = _WIDTH_IN_NAME.search(name)
    if found is None:
        return Scheme(format=name or None)
    is_float = "int" not in found[1].lower()
    lower = name.lower()
    activation = (
        ("fp8" if "float8dynamicactivation" in lower else "int8") if "dynamicactivation" in lower else None
    )
    return Scheme(bits=int(found[2]), is_float=is_float, format=name, activation_format=activation)


def _modelopt_scheme(block: Mapping[str, object]) -> Scheme:
    """From `quant_algo`: FP8, NVFP4, W4A8_AWQ, FP8_PB_WO (blocks, weights only), MIXED_PRECISION, …

    Source: modelopt/torch/export/quant_utils.py (0.47), the names that it writes.
    """
    algo = _text(block.get("quant_algo")).upper()
    width = re.match(r"W(\d+)A(\d+)", algo)
    bits = (
        int(width[1])
        if width
        else {"NVFP4": 4, "MXFP4": 4, "FP8": 8, "MXFP8": 8, "INT8": 8}.get(algo.split("_")[0])
    )
    weight_only = "WO" in algo.split("_") or (width is not None and width[2] == "16")
    activation: str | None = None
    if not weight_only:
        formats = {"NVFP4": "nvfp4", "MXFP4": "mxfp4", "FP8": "fp8", "MXFP8": "mxfp8", "INT8": "int8"}
        activation = formats.get(algo.split("_")[0])
        if width is not None and width[2] == "8":
            activation = "int8" if "SQ" in algo else "fp8"
    return Scheme(
        bits=bits,
        is_float="FP" in algo if algo else None,
        format=algo or None,
        group_size=_positive(block.get("group_size")),
        activation_format=activation,
    )


def _mlx_scheme(entry: Mapping[str, object], default: Scheme) -> Scheme:
    return Scheme(
        bits=_integer(entry.get("bits")) or default.bits,
        format=_text(entry.get("mode")) or default.format,
        group_size=_positive(entry.get("group_size")) or default.group_size,
    )


def _weight_block(block: Mapping[str, object], groups: list[tuple[str, Scheme]]) -> tuple[int, int] | None:
    candidates = [block.get("weight_block_size")]
    if groups:
        entries = (_mapping(block.get("config_groups")) or {}).values()
        candidates += [
            (_mapping((_mapping(entry) or {}).get("weights")) or {}).get("block_structure")
            for entry in entries
        ]
    for value in candidates:
        if isinstance(value, list):
            sides = [_positive(side) for side in cast("list[object]", value)]
            if len(sides) == 2 and sides[0] is not None and sides[1] is not None:
                return sides[0], sides[1]
    return None


def _kv_cache_format(block: Mapping[str, object]) -> str | None:
    scheme = _mapping(block.get("kv_cache_scheme"))
    if scheme is not None:
        return _format_of(_integer(scheme.get("num_bits")), _is_float(scheme), "")
    named = _text(block.get("kv_cache_quant_algo")).lower()
    return named or None


def _activation_format(activations: Mapping[str, object] | None, method: str) -> str | None:
    if activations is None:
        return None
    return _format_of(_integer(activations.get("num_bits")), _is_float(activations), method)


def _format_of(bits: int | None, is_float: bool | None, method: str) -> str | None:
    if bits is None or bits >= 16:
        return None
    if is_float:
        return {4: "mxfp4" if method == "quark" else "nvfp4"}.get(bits, f"fp{bits}")
    return f"int{bits}"


def _is_float(entry: Mapping[str, object]) -> bool | None:
    kind = _text(entry.get("type"))
    return kind == "float" if kind else None


# A repeated group, as in `(a+)+`, can take time exponential in the length of a name; the file is a
# stranger's.
_REPEATED_GROUP = re.compile(r"\)[*+{]")


def _matches(pattern: str, module: str) -> bool:
    if len(pattern) > 1000 or _REPEATED_GROUP.search(pattern):
        return False
    try:
        return re.match(pattern, module) is not None
    except re.error:
        return False


def _mapping(value: object) -> Mapping[str, object] | None:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _positive(value: object) -> int | None:
    number = _integer(value)
    return number if number is not None and number > 0 else None
