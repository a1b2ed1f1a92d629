"""Where tensors stand, told from names of many families; each name is one that published checkpoints have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from willitserve.parts import Part, marks_draft, place

IN_LAYERS = [
    # Llama and what follows it
    ("model.layers.*.self_attn.q_proj.weight", Part.ATTENTION, "self_attn.q_proj"),
    ("model.layers.*.self_attn.q_norm.weight", Part.NORM, "self_attn.q_norm"),
    ("model.layers.*.input_layernorm.weight", Part.NORM, "input_layernorm"),
    ("model.layers.*.mlp.gate_up_proj.weight", Part.DENSE_MLP, "mlp.gate_up_proj"),
    ("language_model.model.layers.*.mlp.up_proj.weight", Part.DENSE_MLP, "mlp.up_proj"),
    ("model.language_model.layers.*.self_attn.k_proj.bias", Part.ATTENTION, "self_attn.k_proj"),
    ("model.layers.*.self_attn.sinks", Part.ATTENTION, "self_attn.sinks"),
    ("layers.*.mlp.down_proj.weight", Part.DENSE_MLP, "mlp.down_proj"),
    ("encoder.layer.*.attention.output.LayerNorm.gamma", Part.NORM, "attention.output.LayerNorm"),
    ("model.layers.*.mlp.act_fn.alpha_p", Part.DENSE_MLP, "mlp.act_fn.alpha_p"),
    # GPT-2, GPT-J, NeoX, BLOOM, Falcon, MPT, OPT, ChatGLM, InternLM2, Molmo, Qwen 1
    ("h.*.attn.c_attn.weight", Part.ATTENTION, "attn.c_attn"),
    ("h.*.ln_1.weight", Part.NORM, "ln_1"),
    ("transformer.h.*.mlp.fc_in.weight", Part.DENSE_MLP, "mlp.fc_in"),
    ("transformer.h.*.ln_attn.weight", Part.NORM, "ln_attn"),
    ("gpt_neox.layers.*.attention.query_key_value.weight", Part.ATTENTION, "attention.query_key_value"),
    ("h.*.self_attention.dense.weight", Part.ATTENTION, "self_attention.dense"),
    ("h.*.mlp.dense_4h_to_h.weight", Part.DENSE_MLP, "mlp.dense_4h_to_h"),
    ("transformer.blocks.*.ffn.up_proj.weight", Part.DENSE_MLP, "ffn.up_proj"),
    ("transformer.blocks.*.norm_1.weight", Part.NORM, "norm_1"),
    ("model.decoder.layers.*.fc1.weight", Part.DENSE_MLP, "fc1"),
    ("transformer.encoder.layers.*.mlp.dense_h_to_4h.weight", Part.DENSE_MLP, "mlp.dense_h_to_4h"),
    ("model.layers.*.attention.wqkv.weight", Part.ATTENTION, "attention.wqkv"),
    ("model.layers.*.feed_forward.w1.weight", Part.DENSE_MLP, "feed_forward.w1"),
    ("model.transformer.blocks.*.att_proj.weight", Part.ATTENTION, "att_proj"),
    ("model.transformer.blocks.*.ff_out.weight", Part.DENSE_MLP, "ff_out"),
    ("transformer.h.*.mlp.w1.weight", Part.DENSE_MLP, "mlp.w1"),
    # BERT and T5
    ("bert.encoder.layer.*.attention.output.dense.weight", Part.ATTENTION, "attention.output.dense"),
    ("bert.encoder.layer.*.output.dense.weight", Part.DENSE_MLP, "output.dense"),
    ("bert.encoder.layer.*.output.LayerNorm.weight", Part.NORM, "output.LayerNorm"),
    ("decoder.block.*.layer.*.EncDecAttention.q.weight", Part.ATTENTION, "layer.*.EncDecAttention.q"),
    ("decoder.block.*.layer.*.DenseReluDense.wi_0.weight", Part.DENSE_MLP, "layer.*.DenseReluDense.wi_0"),
    # experts and routers
    ("model.layers.*.mlp.experts.*.up_proj.weight", Part.ROUTED_EXPERT, "mlp.experts.*.up_proj"),
    ("model.layers.*.mlp.experts.gate_up_proj", Part.ROUTED_EXPERT, "mlp.experts.gate_up_proj"),
    ("model.layers.*.mlp.experts.gate_up_proj_blocks", Part.ROUTED_EXPERT, "mlp.experts.gate_up_proj"),
    ("model.layers.*.mlp.experts.down_proj_bias", Part.ROUTED_EXPERT, "mlp.experts.down_proj"),
    ("model.language_model.layers.*.experts.down_proj", Part.ROUTED_EXPERT, "experts.down_proj"),
    (
        "model.layers.*.block_sparse_moe.experts.*.w2.weight",
        Part.ROUTED_EXPERT,
        "block_sparse_moe.experts.*.w2",
    ),
    (
        "model.layers.*.block_sparse_moe.input_linear.weight",
        Part.ROUTED_EXPERT,
        "block_sparse_moe.input_linear",
    ),
    ("model.layers.*.block_sparse_moe.mlp.w1.weight", Part.DENSE_MLP, "block_sparse_moe.mlp.w1"),
    ("model.layers.*.moe.gate_proj.weight", Part.ROUTED_EXPERT, "moe.gate_proj"),
    ("transformer.blocks.*.ffn.experts.mlp.w1", Part.ROUTED_EXPERT, "ffn.experts.mlp.w1"),
    ("transformer.blocks.*.ffn.router.layer.weight", Part.ROUTER, "ffn.router.layer"),
    ("model.layers.*.mlp.gate.weight", Part.ROUTER, "mlp.gate"),
    ("model.layers.*.mlp.gate.wg.weight", Part.ROUTER, "mlp.gate.wg"),
    ("model.layers.*.mlp.gate.e_score_correction_bias", Part.ROUTER, "mlp.gate.e_score_correction_bias"),
    (
        "model.layers.*.mlp.moe_statics.e_score_correction_bias",
        Part.ROUTER,
        "mlp.moe_statics.e_score_correction_bias",
    ),
    ("model.layers.*.feed_forward.expert_bias", Part.ROUTER, "feed_forward.expert_bias"),
    ("model.layers.*.moe.router_bias", Part.ROUTER, "moe.router_bias"),
    ("model.language_model.layers.*.router.scale", Part.ROUTER, "router"),
    ("model.layers.*.mlp.shared_experts.up_proj.weight", Part.SHARED_EXPERT, "mlp.shared_experts.up_proj"),
    ("model.layers.*.share_expert.up_proj.weight", Part.SHARED_EXPERT, "share_expert.up_proj"),
    ("model.layers.*.mlp.shared_expert_gate.weight", Part.ROUTER, "mlp.shared_expert_gate"),
    ("model.layers.*.shared_mlp.input_linear.weight", Part.SHARED_EXPERT, "shared_mlp.input_linear"),
    ("model.layers.*.mlps.*.down_proj.weight", Part.DENSE_MLP, "mlps.*.down_proj"),
    # recurrent layers
    ("model.layers.*.mamba.in_proj.weight", Part.STATE, "mamba.in_proj"),
    ("model.layers.*.mamba.norm.weight", Part.STATE, "mamba.norm"),
    ("model.layers.*.mamba.A_log", Part.STATE, "mamba.A_log"),
    ("model.layers.*.linear_attn.in_proj_qkvz.weight", Part.STATE, "linear_attn.in_proj_qkvz"),
    ("model.layers.*.conv.in_proj.weight", Part.STATE, "conv.in_proj"),
    ("backbone.layers.*.mixer.in_proj.weight", Part.STATE, "mixer.in_proj"),
    ("backbone.layers.*.mixer.q_proj.weight", Part.ATTENTION, "mixer.q_proj"),
    ("backbone.layers.*.mixer.up_proj.weight", Part.DENSE_MLP, "mixer.up_proj"),
    ("backbone.layers.*.mixer.experts.*.up_proj.weight", Part.ROUTED_EXPERT, "mixer.experts.*.up_proj"),
    ("backbone.layers.*.mixer.gate.weight", Part.ROUTER, "mixer.gate"),
    (
        "backbone.layers.*.mixer.shared_experts.up_proj.weight",
        Part.SHARED_EXPERT,
        "mixer.shared_experts.up_proj",
    ),
    (
        "model.layers.*.temporal_block.rg_lru.recurrent_param",
        Part.STATE,
        "temporal_block.rg_lru.recurrent_param",
    ),
    ("model.layers.*.temporal_block.q_proj.weight", Part.ATTENTION, "temporal_block.q_proj"),
    # DeepSeek V4
    ("layers.*.attn.indexer.wq_b.weight", Part.ATTENTION, "attn.indexer.wq_b"),
    ("layers.*.hc_attn_fn", Part.OTHER, "hc_attn_fn"),
    ("layers.*.ffn.experts.*.w1.scale", Part.ROUTED_EXPERT, "ffn.experts.*.w1"),
]

OUTSIDE = [
    ("model.embed_tokens.weight", Part.EMBEDDING),
    ("model.language_model.embed_tokens_per_layer.weight", Part.EMBEDDING),
    ("transformer.wte.weight", Part.EMBEDDING),
    ("wpe.weight", Part.EMBEDDING),
    ("word_embeddings.weight", Part.EMBEDDING),
    ("transformer.embedding.word_embeddings.weight", Part.EMBEDDING),
    ("backbone.embeddings.weight", Part.EMBEDDING),
    ("model.tok_embeddings.weight", Part.EMBEDDING),
    ("model.transformer.wte.new_embedding", Part.EMBEDDING),
    ("shared.weight", Part.EMBEDDING),
    ("word_embeddings_layernorm.weight", Part.NORM),
    ("model.embedding_norm.weight", Part.NORM),
    ("bert.embeddings.LayerNorm.bias", Part.NORM),
    ("backbone.norm_f.weight", Part.NORM),
    ("transformer.ln_f.bias", Part.NORM),
    ("lm_head.weight", Part.OUTPUT_HEAD),
    ("language_model.lm_head.weight", Part.OUTPUT_HEAD),
    ("output.weight", Part.OUTPUT_HEAD),
    ("transformer.output_layer.weight", Part.OUTPUT_HEAD),
    ("embed_out.weight", Part.OUTPUT_HEAD),
    ("proj_out.weight", Part.OUTPUT_HEAD),
    ("model.transformer.ff_out.weight", Part.OUTPUT_HEAD),
    ("cls.predictions.decoder.weight", Part.OUTPUT_HEAD),
    ("head.weight", Part.OUTPUT_HEAD),
    ("hc_head_fn", Part.OTHER),
    ("model.language_model.per_layer_model_projection.weight", Part.OTHER),
    # towers: layers in them are not the decoder's
    ("vision_tower.vision_model.encoder.layers.*.self_attn.q_proj.weight", Part.VISION),
    ("model.visual.blocks.*.attn.qkv.weight", Part.VISION),
    ("transformer.visual.transformer.resblocks.*.attn.in_proj_weight", Part.VISION),
    ("multi_modal_projector.linear_1.weight", Part.VISION),
    ("model.mm_projector.*.weight", Part.VISION),
    ("mlp1.*.weight", Part.VISION),
    ("model.image_newline", Part.VISION),
    ("model.embed_vision.embedding_projection.weight", Part.VISION),
    ("model.vision_embed_tokens.img_processor.vision_model.embeddings.class_embedding", Part.VISION),
    ("model.sam_model.blocks.*.attn.rel_pos_h", Part.VISION),
    ("vision_model.vision_adapter.mlp.fc1.weight", Part.VISION),
    ("model.audio_tower.layers.*.self_attn.post.linear.weight", Part.AUDIO),
    ("model.embed_audio.embedding_projection.weight", Part.AUDIO),
    ("audio_projector.linear.weight", Part.AUDIO),
    ("thinker.audio_tower.layers.*.fc1.weight", Part.AUDIO),
    # draft blocks
    ("mtp.layers.*.mlp.experts.*.up_proj.weight", Part.DRAFT),
    ("mtp.fc.weight", Part.DRAFT),
    ("mtp.*.attn.wkv.weight", Part.DRAFT),
    ("model.mtp_layers.*.input_proj.weight", Part.DRAFT),
    ("model.mtp_block.*.mlp.up_proj.weight", Part.DRAFT),
    ("model.mtp_emb_norm.*.weight", Part.DRAFT),
    # buffers
    ("transformer.rotary_pos_emb.inv_freq", Part.BUFFER),
    ("model.layers.*.self_attn.rotary_emb.inv_freq", Part.BUFFER),
    ("model.language_model.rotary_emb.alpha", Part.OTHER),
    ("model.layers.*.mlp.act_fn.beta", Part.BUFFER),
    ("roberta.embeddings.position_ids", Part.BUFFER),
    ("h.*.attn.masked_bias", Part.BUFFER),
    ("layers.*.ffn.gate.tid2eid", Part.BUFFER),
    ("model.vision_tower.encoder.layers.*.mlp.up_proj.input_max", Part.BUFFER),
]


@pytest.mark.parametrize(("pattern", "part", "module"), IN_LAYERS, ids=[entry[0] for entry in IN_LAYERS])
def test_parts_in_layers(pattern: str, part: Part, module: str) -> None:
    found = place(pattern)
    assert (found.part, found.module) == (part, module)
    assert found.layer_position == pattern.split(".").index("*")


@pytest.mark.parametrize(("pattern", "part"), OUTSIDE, ids=[entry[0] for entry in OUTSIDE])
def test_parts_outside_the_layers(pattern: str, part: Part) -> None:
    found = place(pattern)
    assert found.part is part
    if part is not Part.BUFFER:
        assert found.layer_position is None


@pytest.mark.parametrize(
    ("pattern", "owner", "word"),
    [
        ("model.layers.*.mlp.up_proj.weight_scale_inv", "model.layers.*.mlp.up_proj", "weight_scale_inv"),
        ("model.layers.*.mlp.up_proj.weight.absmax", "model.layers.*.mlp.up_proj", "weight.absmax"),
        (
            "model.layers.*.mlp.up_proj.weight.quant_state.bitsandbytes__nf4",
            "model.layers.*.mlp.up_proj",
            "weight.quant_state.bitsandbytes__nf4",
        ),
        ("model.layers.*.mlp.experts.down_proj_scales", "model.layers.*.mlp.experts.down_proj", "scales"),
        (
            "model.layers.*.experts.gate_up_proj_weight_scale_2",
            "model.layers.*.experts.gate_up_proj",
            "weight_scale_2",
        ),
        ("visual.attn.in_proj_bias", "visual.attn.in_proj", "bias"),
        ("model.layers.*.mamba.dt_bias", "model.layers.*.mamba.dt_bias", ""),
        ("hc_attn_scale", "hc_attn_scale", ""),
        ("weight", "", "weight"),
    ],
)
def test_the_word_of_a_tensor_is_told_from_its_module(pattern: str, owner: str, word: str) -> None:
    found = place(pattern)
    assert (found.owner, found.word) == (owner, word)


@pytest.mark.parametrize(
    ("module", "is_draft"), [("eh_proj", True), ("shared_head.head", True), ("mlp.up_proj", False)]
)
def test_draft_blocks_are_told_by_the_modules_that_only_they_have(module: str, is_draft: bool) -> None:
    assert marks_draft(module) is is_draft


@pytest.mark.parametrize(
    "name", ["x" * 1_000_000 + "proj_weightx", "layers.*." + "ln_" * 300_000, "*." * 300_000]
)
def test_a_name_of_any_length_has_a_place(name: str) -> None:
    assert place(name).part in Part


@given(st.text())
def test_any_name_has_a_place(pattern: str) -> None:
    found = place(pattern)
    assert found.part in Part
    assert found.layer_position is None or pattern.split(".")[found.layer_position] == "*"
