"""What decides cache, compute and widths of a decoder: read from config.json by `config.py`, used by the four
numbers.

A layer keeps zero or more caches. The union of cache kinds is closed: a new kind breaks the type check, not a
number.
"""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class FullAttention:
    """Keys and values of every past token."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    """Width of one key head, elements."""
    v_head_dim: int
    """Width of one value head, elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingAttention:
    """Keys and values of the last `window` tokens."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    v_head_dim: int
    window: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkedAttention:
    """Keys and values of the current chunk of `chunk` tokens."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    v_head_dim: int
    chunk: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """One latent vector per token (MLA), the same on every tensor-parallel rank."""

    num_heads: int
    kv_lora_rank: int
    qk_rope_head_dim: int
    qk_nope_head_dim: int
    v_head_dim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexerCache:
    """Keys by which sparse attention chooses tokens: one per token, in a width of its own whatever the KV
    dtype."""

    head_dim: int
    key_dtype_bits: int = 8
    scale_bytes: int = 4
    """Beside each key."""
    pool: int = 1
    """Tokens that one cached key stands for; the tokens of an unfinished pool wait in 16 bit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressedAttention:
    """Rows for every `ratio` tokens beside a window of uncompressed ones (0: window only)."""

    num_heads: int
    head_dim: int
    rope_head_dim: int
    ratio: int
    window: int
    indexer_head_dim: int
    """Width of the indexer's keys, 0 where the layer has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentState:
    """A state of fixed size per sequence: Mamba, gated delta nets, linear attention, short convolution."""

    kind: Literal["mamba1", "mamba2", "gated-delta", "kda", "lightning", "short-conv", "rg-lru", "rwkv"]
    conv_elements: int
    """Elements of the convolution window: (kernel - 1) rows of the convolved width."""
    conv_dtype_bits: int
    state_elements: int
    """Elements of the recurrent matrix state."""
    state_dtype_bits: int
    num_heads: int
    """Heads that tensor parallelism splits (0: the state is split by width)."""
    num_groups: int
    """Groups of B and C in Mamba-2, key heads of a delta net (0: none)."""
    width: int = 0
    """Input width of the output projection, elements: what tensor parallelism splits; 0: not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossAttention:
    """Keys and values of the encoder's output: fixed per sequence."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    encoder_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedKv:
    """Attention that reads the cache of an earlier layer and keeps none."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    source_layer: int
    window: int | None
    """The window that it reads, None: all."""


Cache = (
    FullAttention
    | SlidingAttention
    | ChunkedAttention
    | LatentAttention
    | IndexerCache
    | CompressedAttention
    | RecurrentState
    | CrossAttention
    | SharedKv
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One decoder layer: what it caches and what its feed-forward part is."""

    index: int
    caches: tuple[Cache, ...]
    ffn: Literal["dense", "moe", "none"]
    ffn_width: int
    """Intermediate width of the dense part (dense layers), elements; 0 where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MixtureOfExperts:
    """The routed part of MoE layers."""

    num_experts: int
    experts_per_token: int
    expert_width: int
    """Intermediate width of one routed expert, elements."""
    num_shared_experts: int
    shared_width: int
    """Intermediate width of all shared experts together, elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RotaryTable:
    """Sines and cosines of every position, which an engine computes when it loads the model."""

    rows: int
    """Positions."""
    width: int
    """Elements of one row: half of them sines."""
    base: float
    """Base frequency: tables of another base are other tables."""
    in_fp32: bool
    """Kept in FP32, whatever the run dtype."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A model's decoder (or encoder) as config.json describes it."""

    name: str
    """`architectures[0]` of config.json, or the model_type where the list is absent."""
    model_type: str
    """Of the whole file; a multimodal model's language model has its own, `decoder_type`."""
    task: Literal["generate", "embed", "encoder-decoder"]
    """embed: an encoder without KV cache."""
    layers: tuple[Layer, ...]
    num_hidden_layers: int
    """As config.json counts them: tensors with a higher layer index are draft (MTP) blocks."""
    hidden_size: int
    vocab_size: int | None
    num_attention_heads: int
    num_kv_heads: int
    """Of the first attention layer; per-layer values stand in `layers`."""
    head_dim: int
    moe: MixtureOfExperts | None
    max_model_len: int | None
    """As vLLM derives it from the position keys, tokens; None: the config does not say."""
    max_model_len_because: str
    dtype: str | None
    """The config's `dtype` or `torch_dtype`, as written."""
    tie_word_embeddings: bool
    tie_because: str
    decoder_type: str = ""
    """`model_type` of the language model itself: the same for a plain text model."""
    rotary_tables: tuple[RotaryTable, ...] = field(default=())
    not_understood: tuple[str, ...] = field(default=())
    """Sentences about keys or layers this version cannot describe; figures that depend on them are
    withheld."""
    kv_withheld: tuple[str, ...] = field(default=())
    """The part of `not_understood` that concerns caches: not empty means that `kv_cache` refuses with a
    ConfigError."""
    assumed: tuple[str, ...] = field(default=())
    """Sentences about values that the config leaves to its model class, with the reason they are taken."""
