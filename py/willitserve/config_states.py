"""The recurrent state of a layer without attention: sizes of Mamba, delta nets, linear attention,
convolutions, RWKV.

Source
    vLLM vllm/model_executor/layers/mamba/mamba_utils.py: `MambaStateShapeCalculator` for shapes,
    `MambaStateDtypeCalculator` for dtypes: 16 bit with the model unless config.json names the state's dtype;
    KDA keeps its recurrent state in 32 bit.
"""

from willitserve.architecture import RecurrentState
from willitserve.config_keys import ConfigKeys, shown
from willitserve.errors import ConfigError

MODEL_DTYPE_BITS = 16
"""Engines run state models in BF16 or FP16, float32 checkpoints included."""

STATE_DTYPE_BITS = {
    "float32": 32,
    "float": 32,
    "bfloat16": 16,
    "float16": 16,
    "half": 16,
    "auto": MODEL_DTYPE_BITS,
}


def recurrent_state(keys: ConfigKeys) -> RecurrentState | None:
    """The state of one layer, the same on every state layer; None (and a note) where no key describes it."""
    if keys.has("linear_attn_config") or keys.has("linear_num_heads"):
        return _kimi_delta(keys)
    if keys.integer("linear_num_value_heads") is not None:
        return _gated_delta(keys)
    if keys.integer("conv_L_cache") is not None:
        return _short_convolution(keys)
    if keys.integer("conv1d_width") is not None:
        return _gated_linear_recurrence(keys)
    if keys.model_type.startswith("rwkv"):
        return _rwkv(keys)
    if keys.integer("mamba_state_size") is not None:
        # Only Mamba-1 has a low-rank step size; Zamba splits it into heads and is Mamba-1 all the same.
        first_generation = keys.has("mamba_dt_rank") or (
            keys.integer("mamba_num_heads") is None and keys.integer("mamba_num_groups") is None
        )
        return _mamba1(keys) if first_generation else _mamba2(keys)
    if keys.has("attn_type_list") or keys.has("layer_group_size") or keys.model_type == "minimax":
        return _lightning(keys)
    keys.give_up("layers with a recurrent state whose size no key of config.json gives")
    return None


def _state_dtype_bits(keys: ConfigKeys, otherwise: int = MODEL_DTYPE_BITS) -> int:
    name = keys.text("mamba_ssm_dtype")
    if name is None or name == "auto":
        return otherwise
    bits = STATE_DTYPE_BITS.get(name)
    if bits is None:
        raise ConfigError(
            f"config.json: the dtype of the recurrent state is {shown(name)}, which no engine keeps"
        )
    return bits


def _mamba1(keys: ConfigKeys) -> RecurrentState:
    # Pure Mamba has no MLP, so its intermediate_size is the inner width; in a hybrid that key is the MLP's.
    width = None if keys.has("num_attention_heads") else keys.integer("intermediate_size")
    if width is None:
        width = keys.required("mamba_expand") * keys.required("hidden_size")
    return RecurrentState(
        kind="mamba1",
        conv_elements=width * (keys.required("mamba_conv_kernel") - 1),
        conv_dtype_bits=MODEL_DTYPE_BITS,
        state_elements=width * keys.required("mamba_state_size"),
        state_dtype_bits=_state_dtype_bits(keys),
        num_heads=0,
        num_groups=0,
        width=width,
    )


def _mamba2(keys: ConfigKeys) -> RecurrentState:
    heads = keys.integer("mamba_num_heads") or keys.required("num_heads")
    found = keys.found("mamba_head_dim")
    if found is not None and found[1] != "auto":
        head_dim = keys.required("mamba_head_dim")
    elif not keys.has("mamba_num_heads") and keys.has("head_dim"):
        head_dim = keys.required("head_dim")  # Mamba2ForCausalLM: num_heads and head_dim are the state's
    else:
        width = keys.integer("mamba_d_ssm") or keys.required("mamba_expand") * keys.required("hidden_size")
        if width % heads:
            raise ConfigError(f"config.json: the Mamba width {width} is not divisible by its {heads} heads")
        head_dim = width // heads
    groups = keys.integer("mamba_num_groups") or 1
    state_size = keys.required("mamba_state_size")
    width = heads * head_dim
    return RecurrentState(
        kind="mamba2",
        conv_elements=(width + 2 * groups * state_size) * (keys.required("mamba_conv_kernel") - 1),
        conv_dtype_bits=MODEL_DTYPE_BITS,
        state_elements=width * state_size,
        state_dtype_bits=_state_dtype_bits(keys),
        num_heads=heads,
        num_groups=groups,
        width=width,
    )


def _gated_delta(keys: ConfigKeys) -> RecurrentState:
    key_heads, value_heads = keys.required("linear_num_key_heads"), keys.required("linear_num_value_heads")
    key_dim, value_dim = keys.required("linear_key_head_dim"), keys.required("linear_value_head_dim")
    convolved = 2 * key_heads * key_dim + value_heads * value_dim
    return RecurrentState(
        kind="gated-delta",
        conv_elements=convolved * (keys.required("linear_conv_kernel_dim") - 1),
        conv_dtype_bits=MODEL_DTYPE_BITS,
        state_elements=value_heads * value_dim * key_dim,
        state_dtype_bits=_state_dtype_bits(keys),
        num_heads=value_heads,
        num_groups=key_heads,
        width=value_heads * value_dim,
    )


def _kimi_delta(keys: ConfigKeys) -> RecurrentState | None:
    linear = keys.child("linear_attn_config")
    if linear is None:
        # The spelling of transformers 5.
        heads, head_dim = keys.required("linear_num_heads"), keys.integer("linear_head_dim")
        kernel = keys.integer("linear_conv_kernel_dim")
    else:
        heads, head_dim = linear.integer("num_heads"), linear.integer("head_dim")
        kernel = linear.integer("short_conv_kernel_size")
    if heads is None or head_dim is None or kernel is None:
        keys.give_up("a delta net without its heads, their width and the width of its convolution")
        return None
    return RecurrentState(
        kind="kda",
        conv_elements=3 * heads * head_dim * (kernel - 1),
        conv_dtype_bits=MODEL_DTYPE_BITS,
        state_elements=heads * head_dim * head_dim,
        state_dtype_bits=_state_dtype_bits(keys, otherwise=32),
        num_heads=heads,
        num_groups=0,
        width=heads * head_dim,
    )


def _lightning(keys: ConfigKeys) -> RecurrentState:
    heads = keys.required("num_attention_heads")
    head_dim = keys.integer("head_dim") or keys.required("hidden_size") // heads
    return RecurrentState(
        kind="lightning",
        conv_elements=0,
        conv_dtype_bits=MODEL_DTYPE_BITS,
        state_elements=heads * head_dim * head_dim,
        state_dtype_bits=MODEL_DTYPE_BITS,
        num_heads=heads,
        num_groups=0,
        width=heads * head_dim,
    )


def _short_convolution(keys: ConfigKeys) -> RecurrentState:
    width = keys.integer("conv_dim") or keys.required("hidden_size")
    return RecurrentState(
        kind="short-conv",
        conv_elements=width * (keys.required("conv_L_cache") - 1),
        conv_dtype_bits=MODEL_DTYPE_BITS,
        state_elements=0,
        state_dtype_bits=MODEL_DTYPE_BITS,
        num_heads=0,
        num_groups=0,
        width=width,
    )


def _gated_linear_recurrence(keys: ConfigKeys) -> RecurrentState:
    """RG-LRU of RecurrentGemma; transformers keeps the recurrence in 32 bit (modeling_recurrent_gemma.py)."""
    width = keys.integer("lru_width") or keys.required("hidden_size")
    return RecurrentState(
        kind="rg-lru",
        conv_elements=width * (keys.required("conv1d_width") - 1),
        conv_dtype_bits=MODEL_DTYPE_BITS,
        state_elements=width,
        state_dtype_bits=32,
        num_heads=0,
        num_groups=0,
        width=width,
    )


def _rwkv(keys: ConfigKeys) -> RecurrentState:
    """Token shift of both halves, and three vectors (version 4) or one matrix per head (later) in 32 bit.

    Source: `RwkvModel.forward` in transformers models/rwkv/modeling_rwkv.py (`state` has five entries);
    RWKV papers for versions 5 to 7 (multi-headed matrix-valued state).
    """
    hidden = keys.required("hidden_size")
    width = keys.integer("attention_hidden_size") or hidden
    head_dim = keys.integer("head_size") or keys.integer("head_dim")
    if keys.model_type == "rwkv":
        state, heads = 3 * width, 0
    elif head_dim is None or width % head_dim:
        raise ConfigError(f"config.json gives no head_size that divides the RWKV width {width}")
    else:
        state, heads = width * head_dim, width // head_dim
    return RecurrentState(
        kind="rwkv",
        conv_elements=2 * hidden,
        conv_dtype_bits=MODEL_DTYPE_BITS,
        state_elements=state,
        state_dtype_bits=32,
        num_heads=heads,
        num_groups=0,
        width=width,
    )
