"""Whether config.json and the headers speak of the same model: a stranger's config must not decide a plan."""

from willitserve.architecture import (
    Architecture,
    ChunkedAttention,
    FullAttention,
    SharedKv,
    SlidingAttention,
)
from willitserve.checkpoint import Checkpoint, Part, TensorGroup
from willitserve.weights import FLOAT_FORMATS


def disagreements(architecture: Architecture, checkpoint: Checkpoint) -> tuple[str, ...]:
    """Sentences about what config.json says and the tensors deny; empty where they agree or tell nothing.

    Compared are the decoder layers (each must have a tensor, and no other may), the width of the embedding,
    and the rows of key matrices.
    """
    found = [
        _layers(architecture, checkpoint),
        _width(architecture, checkpoint),
        _keys(architecture, checkpoint),
    ]
    return tuple(sentence for sentence in found if sentence is not None)


def _layers(architecture: Architecture, checkpoint: Checkpoint) -> str | None:
    if architecture.task != "generate":
        return None
    expected = architecture.num_hidden_layers
    there = {g.layer for g in checkpoint.groups if g.served and g.layer is not None}
    if not there:
        return f"config.json says {expected} layers, the tensors are of none"
    if max(there) + 1 != expected:
        return f"config.json says {expected} layers, the tensors are of {max(there) + 1}"
    absent = next((layer for layer in range(expected) if layer not in there), None)
    if absent is None:
        return None
    return f"config.json says {expected} layers, the tensors have nothing of layer {absent}"


def _width(architecture: Architecture, checkpoint: Checkpoint) -> str | None:
    tables = [g for g in checkpoint.groups if _is_plain_matrix(g) and g.part is Part.EMBEDDING]
    if not tables or any(architecture.hidden_size in table.shape for table in tables):
        return None
    return f"config.json says hidden_size {architecture.hidden_size:,}, the embedding is {tables[0].shape}"


def _keys(architecture: Architecture, checkpoint: Checkpoint) -> str | None:
    expected: dict[int, set[int]] = {}
    for layer in architecture.layers:
        rows = {
            cache.num_kv_heads * cache.head_dim
            for cache in layer.caches
            if isinstance(cache, FullAttention | SlidingAttention | ChunkedAttention | SharedKv)
        }
        if rows:
            expected[layer.index] = rows
    for group in checkpoint.groups:
        if group.layer not in expected or group.part is not Part.ATTENTION or not _is_plain_matrix(group):
            continue
        if group.module.rsplit(".", 1)[-1] != "k_proj" or not group.served:
            continue
        if not expected[group.layer] & set(group.shape):
            want = " or ".join(f"{rows:,}" for rows in sorted(expected[group.layer]))
            return (
                f"config.json gives keys of {want} rows in layer {group.layer}, the tensor is {group.shape}"
            )
    return None


def _is_plain_matrix(group: TensorGroup) -> bool:
    return len(group.shape) == 2 and group.format in FLOAT_FORMATS and group.num_params > 0
