"""Groups of stored tensors before they are counted: their layer, their part, and what plain serving loads of
them.

A name alone gives a place (`parts`); here the places of all names together, and the description of the model,
settle what is left: which numbered stack is the decoder's, which layers are draft blocks, which matrices are
stored twice.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from willitserve.architecture import Architecture, RecurrentState, SharedKv
from willitserve.dtypes import find_dtype
from willitserve.packing import KV_SCALES, Packing, Stored, find_packing, is_company
from willitserve.parts import Part, Place, marks_draft
from willitserve.quantization import Quantization, Scheme


@dataclass(slots=True)
class StoredGroup:
    """Tensors that share name pattern, layer, dtype and shape."""

    pattern: str
    layer: int | None
    dtype: str
    shape: tuple[int, ...]
    count: int
    stored_bytes: int
    place: Place
    part: Part
    packing: Packing | None = None
    """Of the weight of their module, None where it is stored plainly."""
    is_company: bool = False
    """Scales, zero points, orders: no parameters."""
    left_out: str = field(default="")
    """Why plain serving does not load them; empty: it does."""

    @property
    def owner(self) -> tuple[str, int | None]:
        """The module, one per layer."""
        return self.place.owner, self.layer


def settle_layers(groups: Iterable[StoredGroup], architecture: Architecture | None) -> list[StoredGroup]:
    """Leave layer indices to the decoder's stack alone, and mark its draft blocks.

    Of several numbered stacks the decoder's is the one with as many layers as config.json says, else the one
    that stores most; the others are towers of other inputs or an encoder.
    """
    groups = list(groups)
    expected = architecture.num_hidden_layers if architecture is not None else None
    main = _main_stack(groups, expected)
    has_towers = any(group.part in (Part.VISION, Part.AUDIO) for group in groups)
    hears = any(group.pattern.endswith("encoder.conv1.weight") for group in groups)
    for group in groups:
        if group.layer is None or _stack(group) == main:
            continue
        group.layer = None
        if group.part in (Part.BUFFER, Part.DRAFT):
            continue
        if group.place.stack == "encoder" and hears:
            group.part = Part.AUDIO
        elif has_towers and not group.place.stack:
            group.part = Part.VISION
    drafts = {group.layer for group in groups if group.layer is not None and marks_draft(group.place.module)}
    for group in groups:
        beyond = group.layer is not None and expected is not None and group.layer >= expected
        if (beyond or (group.layer is not None and group.layer in drafts)) and group.part is not Part.BUFFER:
            group.part = Part.DRAFT
    return _merged(groups)


def settle_parts(groups: list[StoredGroup], architecture: Architecture | None) -> None:
    """Correct the parts that depend on what else is stored or on the model's description."""
    moe = architecture.moe if architecture is not None else None
    for group in groups:
        # All experts of a layer as one tensor, in a block whose names do not say so.
        is_stack = moe is not None and len(group.shape) == 3 and group.shape[0] == moe.num_experts
        if group.part is Part.DENSE_MLP and is_stack:
            group.part = Part.ROUTED_EXPERT
    has_experts = any(group.part is Part.ROUTED_EXPERT for group in groups)
    recurrent = _recurrent_layers(architecture)
    for group in groups:
        dtype = find_dtype(group.dtype)
        is_value = group.packing is None and not group.is_company
        if is_value and (_is_mask(group) or (dtype is not None and dtype.kind in ("int", "bool"))):
            group.part = Part.BUFFER
        elif group.part is Part.SHARED_EXPERT and not has_experts:
            group.part = Part.DENSE_MLP
        elif group.part is Part.ATTENTION and group.layer in recurrent:
            group.part = Part.STATE


def read_packings(groups: list[StoredGroup], declared: Quantization | None) -> None:
    """Find how each module's weight is packed, and which tensors only stand beside one."""
    modules: dict[tuple[str, int | None], dict[str, list[StoredGroup]]] = {}
    for group in groups:
        modules.setdefault(group.owner, {}).setdefault(group.place.word, []).append(group)
    method = declared.method if declared is not None else None
    for (owner, layer), by_word in modules.items():
        companions = _Companions(by_word)
        scheme = declared.scheme_for(_concrete(owner, layer)) if declared is not None else Scheme()
        for members in by_word.values():
            for group in members:
                packing = find_packing(companions.of(group), scheme, method)
                group.packing = packing
                group.is_company = is_company(group.place.word, packing) or group.dtype == "F8_E8M0"


def leave_out(groups: list[StoredGroup], architecture: Architecture | None) -> None:
    """Say of every group that plain serving does not load why it does not."""
    copies = _tied_copies(groups, architecture)
    reading = _layers_that_share_kv(architecture)
    thinks = any(group.pattern.startswith("thinker.") for group in groups)
    for group in groups:
        if group.part is Part.BUFFER:
            group.left_out = "buffers, which the model class computes"
        elif group.part is Part.DRAFT:
            group.left_out = "draft (MTP) blocks"
        elif group.owner in copies and group.place.word != "bias":
            group.left_out = "stored copies of tied matrices"
        elif group.layer in reading and group.place.module.rsplit(".", 1)[-1] in _KEY_VALUE:
            group.left_out = "keys and values of layers that read another layer's cache"
        elif thinks and group.pattern.split(".", 1)[0] in ("talker", "token2wav", "code2wav"):
            group.left_out = "the speech output, which text serving does not load"


def has_kv_scales(groups: Iterable[StoredGroup]) -> bool:
    """Whether scales of a quantized KV cache are stored."""
    return any(group.place.word in KV_SCALES for group in groups)


_KEY_VALUE = frozenset({"k_proj", "v_proj", "k_norm", "v_norm"})


def _stack(group: StoredGroup) -> str:
    position = group.place.layer_position
    return "" if position is None else ".".join(group.pattern.split(".")[:position])


def _main_stack(groups: list[StoredGroup], expected: int | None) -> str:
    layers: dict[str, set[int]] = {}
    stored: dict[str, int] = {}
    for group in groups:
        if group.layer is not None:
            name = _stack(group)
            layers.setdefault(name, set()).add(group.layer)
            stored[name] = stored.get(name, 0) + group.stored_bytes
    has_decoder = any(group.place.stack == "decoder" for group in groups)

    def rank(name: str) -> tuple[bool, bool, int]:
        is_encoder = has_decoder and "encoder" in name.split(".")
        return not is_encoder, expected is not None and len(layers[name]) >= expected, stored[name]

    return max(layers, key=rank, default="")


def _merged(groups: list[StoredGroup]) -> list[StoredGroup]:
    """Groups that became alike when they lost their layer, as one."""
    merged: dict[tuple[str, int | None, str, tuple[int, ...]], StoredGroup] = {}
    for group in groups:
        key = (group.pattern, group.layer, group.dtype, group.shape)
        same = merged.setdefault(key, group)
        if same is not group:
            same.count += group.count
            same.stored_bytes += group.stored_bytes
    return list(merged.values())


def _is_mask(group: StoredGroup) -> bool:
    """A causal mask [1, 1, n, n], which old model classes stored under the name `bias`."""
    shape = group.shape
    return group.place.word == "bias" and len(shape) == 4 and shape[:2] == (1, 1) and shape[2] == shape[3]


def _recurrent_layers(architecture: Architecture | None) -> frozenset[int]:
    """Layers whose only memory is a recurrent state: what looks like attention there is not."""
    layers = architecture.layers if architecture is not None else ()
    return frozenset(
        layer.index
        for layer in layers
        if layer.caches and all(isinstance(cache, RecurrentState) for cache in layer.caches)
    )


def _layers_that_share_kv(architecture: Architecture | None) -> frozenset[int]:
    layers = architecture.layers if architecture is not None else ()
    return frozenset(
        layer.index for layer in layers if any(isinstance(cache, SharedKv) for cache in layer.caches)
    )


def _concrete(owner: str, layer: int | None) -> str:
    """A module's name with numbers in it, as declared targets are matched against names."""
    head, star, tail = owner.partition("*")
    return f"{head}{layer}{tail}".replace("*", "0") if star and layer is not None else owner.replace("*", "0")


class _Companions:
    """The tensors of one module by word; of several under one word those that fit a group: as many, and as
    long."""

    def __init__(self, by_word: Mapping[str, list[StoredGroup]]) -> None:
        self._best: dict[str, dict[object, StoredGroup]] = {}
        for word, members in by_word.items():
            best = self._best.setdefault(word, {})
            for member in members:
                for key in _likeness(member):
                    best.setdefault(key, member)

    def of(self, group: StoredGroup) -> dict[str, Stored]:
        """The group's own tensor, and one of each other word."""
        found: dict[str, Stored] = {}
        for word, best in self._best.items():
            if word == group.place.word:
                found[word] = Stored(group.dtype, group.shape)
            else:
                match = next(best[key] for key in _likeness(group) if key in best)
                found[word] = Stored(match.dtype, match.shape)
        return found


def _likeness(group: StoredGroup) -> tuple[object, ...]:
    """Keys of groups that are alike, from close to any at all."""
    return (group.count, group.shape[:1]), group.count, None


def _tied_copies(
    groups: list[StoredGroup], architecture: Architecture | None
) -> frozenset[tuple[str, int | None]]:
    """Modules that store a matrix a second time: a tied output head, and the embeddings of a model that
    shares one."""
    sizes = {_matrix(group) for group in groups if _embeds_tokens(group)} - {None}
    copies: set[tuple[str, int | None]] = set()
    if architecture is not None and architecture.tie_word_embeddings:
        copies |= {
            group.owner for group in groups if group.part is Part.OUTPUT_HEAD and _matrix(group) in sizes
        }
    shared = {_matrix(group) for group in groups if group.place.module.rsplit(".", 1)[-1] == "shared"} - {
        None
    }
    copies |= {
        group.owner
        for group in groups
        if group.place.module.endswith("embed_tokens")
        and group.part is Part.EMBEDDING
        and _matrix(group) in shared
    }
    return frozenset(copies)


def _embeds_tokens(group: StoredGroup) -> bool:
    """An embedding of the vocabulary; one of positions or segments may chance to have a head's shape."""
    words = {word for name in group.place.module.lower().split(".") for word in name.split("_")}
    return group.part is Part.EMBEDDING and words.isdisjoint(("position", "positions", "pos", "type", "wpe"))


def _matrix(group: StoredGroup) -> tuple[int, int] | None:
    """(rows, logical values) of a stored matrix; None for what is none."""
    if group.is_company or len(group.shape) != 2 or group.count != 1:
        return None
    values = group.shape[0] * group.shape[1]
    if group.packing is not None and group.packing.word == group.place.word:
        values = group.packing.num_params or 0
    return group.shape[0], values
