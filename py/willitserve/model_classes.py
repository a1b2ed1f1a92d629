"""What sets a model class apart beyond its keys: facts about classes, keyed by `model_type`.

The values that a class puts in the place of absent keys stand in `class_defaults.py`.
"""

from collections.abc import Mapping
from typing import Final

ENCODER_CLASSES: Final = frozenset(
    [
        "albert",
        "bert",
        "big_bird",
        "bros",
        "camembert",
        "canine",
        "convbert",
        "data2vec-text",
        "deberta",
        "deberta-v2",
        "distilbert",
        "electra",
        "ernie",
        "ernie_m",
        "esm",
        "eurobert",
        "flaubert",
        "fnet",
        "funnel",
        "gte",
        "ibert",
        "jina_embeddings_v3",
        "layoutlm",
        "layoutlmv2",
        "layoutlmv3",
        "lilt",
        "longformer",
        "luke",
        "megatron-bert",
        "mobilebert",
        "modernbert",
        "modernvbert",
        "mpnet",
        "mra",
        "new",
        "nezha",
        "nomic_bert",
        "nystromformer",
        "roberta",
        "roberta-prelayernorm",
        "roc_bert",
        "rembert",
        "roformer",
        "splinter",
        "squeezebert",
        "xlm",
        "xlm-roberta",
        "xlm-roberta-xl",
        "xmod",
        "yoso",
    ]
)
"""Classes whose attention sees both ways and keeps no KV cache."""

ENCODER_ARCHITECTURES: Final = frozenset(
    [
        "GteModel",
        "GteNewModel",
        "JinaRobertaModel",
        "Lfm2BidirectionalModel",
        "LlamaBidirectionalModel",
        "NewModel",
        "NomicBertModel",
        "VoyageQwen3BidirectionalEmbedModel",
    ]
)
"""Architectures that run a decoder's weights as an encoder (vLLM vllm/model_executor/models/registry.py)."""

TEXT_CLASSES: Final[Mapping[str, str]] = {
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text",
    "llama4": "llama4_text",
    "llava": "llama",
    "llava_next": "llama",
    "llava_next_video": "llama",
    "video_llava": "llama",
    "vipllava": "llama",
    "mllama": "mllama_text_model",
    "paligemma": "gemma",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
}
"""The class of a nested text model that does not name its own."""

PURE_STATE_CLASSES: Final = frozenset({"mamba", "mamba2", "falcon_mamba", "rwkv", "rwkv5", "rwkv6", "rwkv7"})
"""Classes without any attention layer."""

CLASSES_WITHOUT_ROTARY: Final = (
    ENCODER_CLASSES
    | PURE_STATE_CLASSES
    | {
        "bart",
        "biogpt",
        "bloom",
        "gpt2",
        "gpt_bigcode",
        "gpt_neo",
        "jamba",
        "kimi_linear",
        "mpt",
        "opt",
        "t5",
        "whisper",
        "xglm",
        "zamba",
    }
)
"""Classes whose decoder rotates nothing: learned positions, ALiBi, or states that carry the order (their
files in vLLM vllm/model_executor/models call no `get_rope`)."""

PARALLEL_HYBRID_CLASSES: Final = frozenset({"falcon_h1"})
"""Every layer runs attention and a state side by side."""

EXPANDED_LATENT_CLASSES: Final = frozenset({"minicpm3"})
"""The config has MLA ranks, but the engine caches expanded keys and values (vLLM models/minicpm3.py)."""

EXPERTS_NOT_FEWER_THAN_RANKS: Final = frozenset(
    [
        "cohere2_moe",
        "ernie4_5_moe",
        "ernie4_5_vl_moe_text",
        "exaone_moe",
        "hunyuan_v1_moe",
        "hy_v3",
        "laguna",
        "lfm2_moe",
        "mimo_v2_flash",
        "minimax_m2",
        "qwen2_moe",
        "qwen3_5_moe_text",
        "qwen3_moe",
        "qwen3_next",
        "qwen3_omni_moe_text",
        "qwen3_vl_moe_text",
        "step3_text",
        "step3p5",
    ]
)
"""Classes whose engine code refuses more ranks than experts ("Tensor parallel size … is greater than the
number of experts", vLLM vllm/model_executor/models/qwen3_moe.py and its relatives)."""

HIDDEN_WIDTHS_OF_ATTENTION: Final[Mapping[str, int]] = {"zamba": 2, "zamba2": 2}
"""Attention works on that many hidden widths (the input beside the embedding); 1 where not listed."""

FFN_HALVED_CLASSES: Final = frozenset({"qwen", "recurrent_gemma"})
"""Classes whose `intermediate_size` counts gate and up projection together (vLLM models/qwen.py,
transformers models/recurrent_gemma/modeling_recurrent_gemma.py)."""

FFN_HIDDEN_WIDTHS: Final[Mapping[str, int]] = dict.fromkeys(
    [
        "bloom",
        "codegen",
        "falcon",
        "gpt2",
        "gpt_bigcode",
        "gpt_neo",
        "gptj",
        "mpt",
        "RefinedWeb",
        "RefinedWebModel",
        "zamba2",
    ],
    4,
)
"""The feed-forward width in hidden widths, for classes whose configs leave it out."""
