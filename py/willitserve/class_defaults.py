"""What a model class puts in the place of a key that config.json leaves out, keyed by `model_type`.

Source of every value: the configuration class of that model_type in transformers 5.24
(transformers/models/<family>/configuration_<family>.py), for classes outside transformers the one that vLLM
brings or names (vllm/transformers_utils/configs/, `_CONFIG_REGISTRY`). An engine reads config.json through
these classes, so an absent key has the class's value. A class that is not listed here has no default: an
absent key is then an error or unknown. Layer counts and widths stand only in classes that published configs
nest as a text model and abbreviate.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

ClassValue = int | bool | str
_NOTHING: Final[Mapping[str, ClassValue]] = MappingProxyType({})

_LLAMA: Final[Mapping[str, ClassValue]] = {
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "intermediate_size": 11008,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}
_MISTRAL: Final[Mapping[str, ClassValue]] = {
    **_LLAMA,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "sliding_window": 4096,
    "max_position_embeddings": 131072,
}
_GEMMA2: Final[Mapping[str, ClassValue]] = {
    "num_hidden_layers": 26,
    "hidden_size": 2304,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "intermediate_size": 9216,
    "vocab_size": 256000,
    "sliding_window": 4096,
    "sliding_window_pattern": 2,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
_QWEN2: Final[Mapping[str, ClassValue]] = {
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "intermediate_size": 22016,
    "vocab_size": 151936,
    "sliding_window": 4096,
    "use_sliding_window": False,
    "max_window_layers": 28,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": False,
}
_QWEN3: Final[Mapping[str, ClassValue]] = {**_QWEN2, "head_dim": 128}
_QWEN2_VL: Final[Mapping[str, ClassValue]] = {
    **_QWEN2,
    "num_hidden_layers": 80,
    "hidden_size": 8192,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 29568,
    "vocab_size": 152064,
    "max_window_layers": 80,
}
_GATED_DELTA: Final[Mapping[str, ClassValue]] = {
    "head_dim": 256,
    "full_attention_interval": 4,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": False,
}
_MAMBA2_HYBRID: Final[Mapping[str, ClassValue]] = {
    "mamba_num_heads": 128,
    "mamba_head_dim": "auto",
    "mamba_num_groups": 1,
    "mamba_state_size": 256,
    "mamba_conv_kernel": 4,
    "mamba_expand": 2,
    "tie_word_embeddings": False,
}
_MAMBA: Final[Mapping[str, ClassValue]] = {
    "mamba_state_size": 16,
    "mamba_conv_kernel": 4,
    "mamba_expand": 2,
    "tie_word_embeddings": True,
}
_GPT2: Final[Mapping[str, ClassValue]] = {"n_positions": 1024, "tie_word_embeddings": True}
_GPTJ: Final[Mapping[str, ClassValue]] = {"n_positions": 2048, "tie_word_embeddings": False}
_TIED: Final[Mapping[str, ClassValue]] = {"tie_word_embeddings": True}
_UNTIED: Final[Mapping[str, ClassValue]] = {"tie_word_embeddings": False}
_BERT: Final[Mapping[str, ClassValue]] = {"max_position_embeddings": 512, "tie_word_embeddings": True}
_BART: Final[Mapping[str, ClassValue]] = {
    "is_encoder_decoder": True,
    "max_position_embeddings": 1024,
    "tie_word_embeddings": True,
}
_T5: Final[Mapping[str, ClassValue]] = {"is_encoder_decoder": True, "d_kv": 64, "tie_word_embeddings": True}

_CLASSES: Final[Mapping[str, Mapping[str, ClassValue]]] = {
    # Llama and its relatives
    "llama": _LLAMA,
    "mllama_text_model": {
        **_LLAMA,
        "num_hidden_layers": 40,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
    },
    "llama4_text": {
        "num_hidden_layers": 48,
        "hidden_size": 5120,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 8192,
        "intermediate_size_mlp": 16384,
        "vocab_size": 202048,
        "attention_chunk_size": 8192,
        "no_rope_layer_interval": 4,
        "num_experts": 16,
        "num_experts_per_tok": 1,
        "interleave_moe_layer_step": 1,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": False,
    },
    "mistral": _MISTRAL,
    "ministral": _MISTRAL,
    "mixtral": {
        "num_key_value_heads": 8,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": False,
    },
    "mistral4": _UNTIED,
    "ministral3": _UNTIED,
    "arcee": _UNTIED,
    "apertus": _UNTIED,
    "helium": _UNTIED,
    "internlm3": _UNTIED,
    "seed_oss": {"head_dim": 128, **_UNTIED},
    "smollm3": {"use_sliding_window": False, "max_position_embeddings": 32768, **_TIED},
    "bitnet": {"num_key_value_heads": 5, **_UNTIED},
    "persimmon": _UNTIED,
    "stablelm": {"max_position_embeddings": 4096, **_UNTIED},
    "chameleon": _UNTIED,
    # Gemma
    "gemma": {
        "num_hidden_layers": 28,
        "hidden_size": 3072,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "head_dim": 256,
        "intermediate_size": 24576,
        "vocab_size": 256000,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
    },
    "gemma2": _GEMMA2,
    "gemma3_text": {
        **_GEMMA2,
        "vocab_size": 262208,
        "sliding_window_pattern": 6,
        "max_position_embeddings": 131072,
    },
    "gemma3n_text": {
        **_GEMMA2,
        "num_hidden_layers": 35,
        "hidden_size": 2048,
        "num_key_value_heads": 2,
        "intermediate_size": 16384,
        "vocab_size": 262400,
        "sliding_window": 512,
        "sliding_window_pattern": 5,
        "num_kv_shared_layers": 15,
        "max_position_embeddings": 32768,
    },
    "gemma4_text": {
        **_GEMMA2,
        "num_hidden_layers": 30,
        "vocab_size": 262144,
        "sliding_window": 512,
        "sliding_window_pattern": 6,
        "global_head_dim": 512,
        "num_kv_shared_layers": 0,
        "max_position_embeddings": 131072,
    },
    # Qwen
    "qwen2": _QWEN2,
    "qwen2_moe": {
        "use_sliding_window": False,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": False,
        "num_experts": 60,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": 1408,
        "shared_expert_intermediate_size": 5632,
        "decoder_sparse_step": 1,
    },
    "qwen3": _QWEN3,
    "qwen3_moe": {"use_sliding_window": False, "max_position_embeddings": 32768, **_UNTIED},
    "qwen2_vl": _QWEN2_VL,
    "qwen2_vl_text": _QWEN2_VL,
    "qwen2_5_vl": _QWEN2_VL,
    "qwen2_5_vl_text": _QWEN2_VL,
    "qwen2_5_omni_text": {"use_sliding_window": False, "max_position_embeddings": 32768},
    "qwen3_vl_text": {"head_dim": 128, "max_position_embeddings": 128000},
    "qwen3_vl_moe_text": {"max_position_embeddings": 128000},
    "qwen3_next": {"num_key_value_heads": 2, "decoder_sparse_step": 1, **_GATED_DELTA},
    "qwen3_5_text": _GATED_DELTA,
    "qwen3_5_moe_text": _GATED_DELTA,
    # GLM, DeepSeek and other latent attention
    "chatglm": {"seq_length": 2048, **_UNTIED},
    "glm": {"num_key_value_heads": 2, "head_dim": 128, "max_position_embeddings": 131072, **_UNTIED},
    "glm4": {"num_key_value_heads": 2, "head_dim": 128, "max_position_embeddings": 131072, **_UNTIED},
    "glm4_moe": {"num_key_value_heads": 8, "first_k_dense_replace": 1, **_UNTIED},
    "glm4_moe_lite": _UNTIED,
    "glm_moe_dsa": {"index_head_dim": 128, "index_topk": 2048, **_UNTIED},
    "deepseek": _UNTIED,
    "deepseek_v2": _UNTIED,
    "deepseek_v3": {"first_k_dense_replace": 3, **_UNTIED},
    "deepseek_v32": {"first_k_dense_replace": 3, "index_head_dim": 128, "index_topk": 2048, **_UNTIED},
    "deepseek_v4": {"sliding_window": 128, "index_head_dim": 128, **_UNTIED},
    "kimi_k2": _UNTIED,
    "kimi_linear": _UNTIED,
    "longcat_flash": _UNTIED,
    "minicpm3": {"tie_word_embeddings": True},
    # Other mixtures of experts
    "gpt_oss": {
        "head_dim": 64,
        "num_key_value_heads": 8,
        "sliding_window": 128,
        "sliding_window_pattern": 2,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": False,
    },
    "olmoe": {"num_experts": 64, "num_experts_per_tok": 8, "max_position_embeddings": 4096, **_UNTIED},
    "phimoe": {"num_key_value_heads": 8, "num_experts": 16, "num_experts_per_tok": 2, **_UNTIED},
    "dbrx": _UNTIED,
    "minimax": _UNTIED,
    "minimax_m2": _UNTIED,
    "ernie4_5": {"head_dim": 128, **_TIED},
    "ernie4_5_moe": {"moe_layer_start_index": 1, **_TIED},
    "granitemoe": {"num_experts": 8, "num_experts_per_tok": 2, "max_position_embeddings": 2048, **_UNTIED},
    "granitemoeshared": {"num_experts": 8, "num_experts_per_tok": 2, **_UNTIED},
    "hunyuan_v1_dense": _UNTIED,
    "hunyuan_v1_moe": _UNTIED,
    "dots1": {"sliding_window": 4096, "max_window_layers": 62, **_UNTIED},
    "afmoe": {"head_dim": 128, "sliding_window": 1024, "global_attn_every_n_layers": 4, **_UNTIED},
    "mimo_v2_flash": {"head_dim": 192, "v_head_dim": 128, **_UNTIED},
    # Other decoders
    "cohere": {"max_position_embeddings": 8192, **_TIED},
    "cohere2": {
        "sliding_window": 4096,
        "sliding_window_pattern": 4,
        "max_position_embeddings": 8192,
        **_TIED,
    },
    "cwm": {"sliding_window": 8192, "sliding_window_pattern": "GLLL", **_UNTIED},
    "granite_swa": {"sliding_window": 128, "sliding_window_pattern": "GLLL", **_TIED},
    "granitemoe_swa": {"sliding_window": 128, "sliding_window_pattern": "GLLL", **_UNTIED},
    "vaultgemma": {"sliding_window": 4096, "sliding_window_pattern": 2, **_TIED},
    "olmo": {"max_position_embeddings": 2048, **_UNTIED},
    "olmo2": {"max_position_embeddings": 2048, **_UNTIED},
    "olmo3": {
        "sliding_window": 4096,
        "sliding_window_pattern": 4,
        "max_position_embeddings": 2048,
        **_UNTIED,
    },
    "exaone": {"max_position_embeddings": 4096, **_UNTIED},
    "exaone4": {
        "sliding_window": 4096,
        "sliding_window_pattern": 4,
        "max_position_embeddings": 2048,
        **_UNTIED,
    },
    "exaone_moe": {"sliding_window": 4096, "sliding_window_pattern": 4, **_UNTIED},
    "granite": {"max_position_embeddings": 2048, **_UNTIED},
    "nemotron": {"max_position_embeddings": 4096, **_UNTIED},
    "nemotron-nas": _UNTIED,
    "phi": {
        "num_hidden_layers": 24,
        "hidden_size": 2048,
        "num_attention_heads": 32,
        "intermediate_size": 8192,
        "vocab_size": 51200,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": False,
    },
    "phi3": {"max_position_embeddings": 4096, **_UNTIED},
    "starcoder2": {"num_key_value_heads": 2, "max_position_embeddings": 4096, **_TIED},
    "falcon": {
        "multi_query": True,
        "new_decoder_architecture": False,
        "max_position_embeddings": 2048,
        **_TIED,
    },
    "RefinedWeb": {"new_decoder_architecture": True, **_TIED},  # vLLM transformers_utils/configs/falcon.py
    "RefinedWebModel": {"new_decoder_architecture": False, **_TIED},
    "gpt2": _GPT2,
    "gpt_bigcode": {"multi_query": True, **_GPT2},
    "gptj": _GPTJ,
    "codegen": _GPTJ,
    "gpt_neo": {"window_size": 256, "max_position_embeddings": 2048, **_TIED},
    "gpt_neox": {"max_position_embeddings": 2048, **_UNTIED},
    "opt": {
        "num_hidden_layers": 12,
        "hidden_size": 768,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "vocab_size": 50272,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": True,
    },
    "bloom": _TIED,
    "mpt": _TIED,
    "xglm": _TIED,
    # Models with a recurrent state
    "mamba": _MAMBA,
    "falcon_mamba": _MAMBA,
    "mamba2": {**_MAMBA, "mamba_state_size": 128, "mamba_num_groups": 8, **_UNTIED},
    "rwkv": _UNTIED,
    "jamba": {
        **_MAMBA,
        "num_key_value_heads": 8,
        "attn_layer_period": 8,
        "attn_layer_offset": 4,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
        "num_experts": 16,
        "num_experts_per_tok": 2,
        "max_position_embeddings": 262144,
        "tie_word_embeddings": False,
    },
    "bamba": {"num_key_value_heads": 8, "max_position_embeddings": 262144, **_MAMBA2_HYBRID},
    "granitemoehybrid": _MAMBA2_HYBRID,
    "falcon_h1": {"num_key_value_heads": 8, "max_position_embeddings": 8192, **_MAMBA2_HYBRID},
    "zamba": {**_MAMBA, "max_position_embeddings": 4096},
    "zamba2": {
        "mamba_num_heads": 8,
        "mamba_num_groups": 1,
        "mamba_state_size": 64,
        "mamba_conv_kernel": 4,
        "mamba_expand": 2,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": True,
    },
    "nemotron_h": {"num_key_value_heads": 8, **_UNTIED},
    "recurrent_gemma": {"attention_window_size": 2048, "conv1d_width": 4, **_TIED},
    "lfm2": {"num_key_value_heads": 8, "conv_L_cache": 3, "max_position_embeddings": 128000, **_TIED},
    "lfm2_moe": {"num_key_value_heads": 8, "conv_L_cache": 3, "num_dense_layers": 2, **_TIED},
    "olmo_hybrid": {"linear_conv_kernel_dim": 4, "full_attention_interval": 4, **_UNTIED},
    # Encoders
    **dict.fromkeys(("bert", "camembert", "distilbert", "electra", "roberta", "xlm-roberta"), _BERT),
    "modernbert": {"max_position_embeddings": 8192, **_TIED},
    # Encoder-decoders
    "t5": _T5,
    "mt5": _T5,
    "umt5": _T5,
    "longt5": _T5,
    "bart": _BART,
    "mbart": _BART,
    "m2m_100": _BART,
    "marian": _BART,
    "pegasus": _BART,
    "blenderbot": {**_BART, "max_position_embeddings": 128},
    "whisper": {
        "is_encoder_decoder": True,
        "max_source_positions": 1500,
        "max_target_positions": 448,
        "tie_word_embeddings": True,
    },
}


def class_defaults(model_type: str) -> Mapping[str, ClassValue]:
    """The class's documented values by canonical key name; empty for a class that is not known here."""
    return _CLASSES.get(model_type, _NOTHING)
