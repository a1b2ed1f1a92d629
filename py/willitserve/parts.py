"""Where in the model a tensor stands, told from its name: word rules that hold across naming families.

A name is words between dots: `model.layers.7.mlp.experts.12.up_proj.weight`. Its pattern has `*` for the
numbers. The rules read words, and the parts of words between underscores; no rule knows a model. What a name
alone cannot tell (is layer 61 beyond the last one? does this layer hold a recurrent state?) is decided in
`checkpoint`.
"""

import re
from dataclasses import dataclass
from enum import StrEnum


class Part(StrEnum):
    """Where in the model a tensor stands."""

    EMBEDDING = "embedding"
    OUTPUT_HEAD = "output_head"
    ATTENTION = "attention"
    STATE = "state"
    DENSE_MLP = "dense_mlp"
    ROUTED_EXPERT = "routed_expert"
    SHARED_EXPERT = "shared_expert"
    ROUTER = "router"
    NORM = "norm"
    VISION = "vision"
    AUDIO = "audio"
    DRAFT = "draft"
    BUFFER = "buffer"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Place:
    """What a name pattern says."""

    part: Part
    layer_position: int | None
    """Which word of the name is the index of a layer of the main stack; None outside of it."""
    owner: str
    """Pattern of the module that holds the tensor: the name without the tensor's own word."""
    word: str
    """The tensor's own word: `weight`, `bias`, `qweight`, `weight.absmax`; empty where the name has none."""
    module: str
    """The owner below the layer."""
    stack: str
    """`encoder` or `decoder` where the words before the layer say so, else empty."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TENSOR_WORDS = _words(
    """
    weight bias gamma beta qweight weight_packed W_q B codes codebooks _weight_qdata
    scales scale s SCB weight_scale weight_scale_inv weight_scale_2 weight_scales weight_global_scale
    scale_inv scale_packed input_scale input_scale_inv input_global_scale input_scale_ub activation_scale
    act_scale output_scale k_scale v_scale q_scale kv_scale prob_scale pre_quant_scale _weight_scale
    qzeros zero biases weight_zero_point input_zero_point _weight_zero_point g_idx weight_g_idx weight_shape
    weight_format meta compressed bitmask row_offsets tables tables2
    """
)
"""Last words of names that belong to a tensor and not to the module that holds it: values, biases, scales,
and the zero points, orders and shapes that go with packed values."""

# `experts.gate_up_proj_blocks`: a matrix without a module of its own carries the tensor's word at its end.
_FUSED_WORD = re.compile(
    r"(?P<owner>.*(?:proj|projection|linear|w\d+|fc\d?))"
    r"_(?P<word>weight|bias|blocks|scales|scale|scale_inv|weight_scale|weight_scale_inv|weight_scale_2"
    r"|weight_global_scale|input_scale|input_global_scale|weight_packed|weight_shape|weight_zero_point)"
)

_BUFFERS = _words(
    """
    inv_freq original_inv_freq inv_timescales freqs_cis cos_cached sin_cached position_ids token_type_ids
    masked_bias causal_mask attn_mask relative_position_index relative_coords_table tid2eid slope_rate
    query_decay key_decay diagonal_decay
    input_min input_max output_min output_max gradient_clipping softcap final_logits_bias embed_scale
    running_mean running_var num_batches_tracked _float_tensor _extra_state
    """
)
"""Last words of tensors that the model class computes or fixes: nothing in them was learned."""

_LEARNED_ROTARY = _words("alpha weight bias")
"""Last words of what a rotary module learned; all else in it is computed."""

_FIXED_ACTIVATION = _words("beta eps")
"""Constants of an activation function (xIELU) beside the ones that it learns."""

_STACKS = _words("layers layer h block blocks decoder_layers encoder_layers")
_VISION = _words(
    """
    vision visual image img video vit siglip clip sam vpm vqmodel resampler qformer perceiver projector
    connector aligner merger mlp1 view
    """
)
_AUDIO = _words("audio speech sound apm acoustic talker token2wav code2wav tts")
_DRAFT = _words("mtp nextn eagle medusa")
_DRAFT_MODULES = _words("eh_proj enorm hnorm shared_head")
"""Modules that only a draft block has: it joins the last hidden state with the next token's embedding."""

_HEADS = _words(
    "lm_head head output output_layer embed_out proj_out ff_out unembed score classifier cls qa_outputs"
)
_ROUTERS = _words("gate router wg gating expert_bias e_score_correction_bias moe_statics per_expert_scale")
_STATES = _words("mamba ssm conv shortconv linear_attn recurrent rwkv time_mix kda delta")
_MIXER_STATES = _words(
    "in_proj out_proj conv1d x_proj dt_proj norm a_log d dt_bias linear_x linear_y linear_out conv_1d rg_lru"
)
_MOE_BLOCKS = _words("block_sparse_moe moe moe_block sparse_moe_block")
_MLPS = _words(
    "mlp mlps ffn ff intermediate output fc1 fc2 wi wo wi_0 wi_1 w1 w2 w3 densereludense channel_mix"
)


def place(pattern: str) -> Place:
    """What the name pattern says about where its tensors stand."""
    owner, word = _split_word(pattern)
    names = pattern.split(".")
    first_number = names.index("*") if "*" in names else len(names)
    before = [name.lower() for name in names[:first_number]]
    owner_names = owner.split(".")
    position = (
        first_number if before and before[-1] in _STACKS and len(owner_names) > first_number + 1 else None
    )
    lead = before if position is not None else [name.lower() for name in owner_names]
    tower = _tower(lead)
    if tower is not None or any(_tokens(name) & _DRAFT for name in before or lead):
        position = None
    below = owner_names[position + 1 :] if position is not None else owner_names
    return Place(
        part=_part(names, below, lead, tower, position),
        layer_position=position,
        owner=owner,
        word=word,
        module=".".join(below),
        stack=next((name for name in ("encoder", "decoder") if name in lead), ""),
    )


def marks_draft(module: str) -> bool:
    """Whether a layer that holds this module is a draft (MTP) block."""
    return not _DRAFT_MODULES.isdisjoint(module.split("."))


def _split_word(pattern: str) -> tuple[str, str]:
    """(owner, tensor's own word) of a name."""
    head, found, tail = pattern.rpartition(".weight.")
    if found:
        # bitsandbytes and quanto hang the company of a weight below it: `….weight.absmax`.
        return head, f"weight.{tail}"
    head, _, last = pattern.rpartition(".")
    if last in TENSOR_WORDS:
        return head, last
    # No matrix has a longer name, and the expression takes time quadratic in the length of some.
    fused = _FUSED_WORD.fullmatch(last) if len(last) <= 100 else None
    if fused:
        return f"{head}.{fused['owner']}" if head else fused["owner"], fused["word"]
    return pattern, ""


def _tokens(name: str) -> set[str]:
    return set(name.lower().split("_"))


def _tower(lead: list[str]) -> Part | None:
    """The tower that the words before the layer name, audio first: an audio projector is a projector too."""
    tokens = {token for name in lead for token in _tokens(name)}
    if tokens & _AUDIO:
        return Part.AUDIO
    return Part.VISION if tokens & _VISION else None


def _part(
    names: list[str], below: list[str], lead: list[str], tower: Part | None, position: int | None
) -> Part:
    is_rotary = any("rotary" in _tokens(name) for name in names) and names[-1] not in _LEARNED_ROTARY
    is_activation = names[-2:-1] == ["act_fn"] and names[-1] in _FIXED_ACTIVATION
    if names[-1] in _BUFFERS or is_rotary or is_activation:
        return Part.BUFFER
    if any(_tokens(name) & _DRAFT for name in lead):
        return Part.DRAFT
    if tower is not None:
        return tower
    lower = [name.lower() for name in below if name != "*"] or [""]
    return _part_in_layer(lower) if position is not None else _part_outside(lower)


def _part_outside(names: list[str]) -> Part:
    """Outside the layers: embeddings, the output head, final norms."""
    if _is_norm(names[-1]):
        return Part.NORM
    if not _HEADS.isdisjoint(names):
        return Part.OUTPUT_HEAD
    if any(_is_embedding(name) for name in names):
        return Part.EMBEDDING
    return Part.OTHER


def _part_in_layer(names: list[str]) -> Part:
    if "mixer" in names or "temporal_block" in names:
        # One word for every kind of layer: the module below it tells which.
        return _part_in_mixer(names)
    in_attention = any("attn" in name or "attention" in name or "att" in _tokens(name) for name in names)
    in_state = any(name in _STATES or _tokens(name) & _STATES for name in names)
    if _is_router(names) and not in_attention and not in_state:
        return Part.ROUTER
    if any(_is_shared_expert(name) for name in names):
        return Part.SHARED_EXPERT
    if "experts" in names or (not _MOE_BLOCKS.isdisjoint(names) and "mlp" not in names):
        return Part.ROUTED_EXPERT
    if in_state:
        return Part.STATE
    if _is_norm(names[-1]):
        return Part.NORM
    if any("hc" in _tokens(name) for name in names):
        # Hyper-connections mix the streams around a block; their names say which block.
        return Part.OTHER
    if in_attention or names[-1] in ("wqkv", "qkv", "sinks"):
        return Part.ATTENTION
    if any(name in _MLPS or _tokens(name) & {"mlp", "ff", "feed", "ffn"} for name in names):
        return Part.DENSE_MLP
    return Part.OTHER


def _part_in_mixer(names: list[str]) -> Part:
    last = names[-1]
    if _is_router(names):
        return Part.ROUTER
    if any(_is_shared_expert(name) for name in names):
        return Part.SHARED_EXPERT
    if "experts" in names:
        return Part.ROUTED_EXPERT
    if last in _MIXER_STATES or "rg_lru" in names:
        return Part.STATE
    return (
        Part.DENSE_MLP
        if last in ("up_proj", "down_proj", "gate_proj") or "latent" in last
        else Part.ATTENTION
    )


def _is_router(names: list[str]) -> bool:
    return (
        not _ROUTERS.isdisjoint(names)
        or names[-1] == "shared_expert_gate"
        or any("router" in _tokens(name) for name in names)
    )


def _is_shared_expert(name: str) -> bool:
    tokens = _tokens(name)
    return bool(tokens & {"shared", "share"}) and bool(tokens & {"expert", "experts", "mlp"})


def _is_norm(name: str) -> bool:
    return "norm" in name or any(token.rstrip("0123456789") == "ln" for token in name.split("_"))


def _is_embedding(name: str) -> bool:
    return name in {"wte", "wpe", "emb", "shared"} or any(
        token.startswith("embed") for token in _tokens(name)
    )
