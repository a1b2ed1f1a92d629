"""Which files of a repository hold the weights that an engine would load, told from the list of its files.

Rules, those of vLLM's default loader (vllm/model_executor/model_loader/default_loader.py, weight_utils.py):
files at the root only; safetensors before anything else; of several sets the one that
model.safetensors.index.json names. Where the list alone cannot tell two copies apart, one set is taken and
said, never both: a second copy in Mistral's own format (`consolidated*`), in another precision
(`model.fp16…`), or of other shard count doubles every number.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from willitserve.errors import RepositoryError
from willitserve.units import GB

Kind = Literal["safetensors", "gguf", "pytorch-bin", "adapter", "diffusers", "onnx", "mlx", "none"]

INDEX_NAME = "model.safetensors.index.json"
MAX_SHARDS = 10_000


@dataclass(frozen=True, slots=True)
class FileChoice:
    """What to read of a repository."""

    kind: Kind
    read: tuple[str, ...]
    """Names of the safetensors files to read headers of; empty for every kind but `safetensors`."""
    configs: tuple[str, ...]
    """Names of the JSON files to fetch: config.json, the ModelOpt sidecar, the index where the set is
    ambiguous."""
    ignored: tuple[tuple[str, str], ...]
    """(name, reason) of every other file that holds weights."""
    sentence: str
    """What was found, and what to do where it cannot be planned with."""


def shards_of_index(index_text: str) -> tuple[str, ...]:
    """The files that an index names, each once, in the order in which it first names them.

    Raises RepositoryError when the text is no index, or names a file that is not a plain safetensors file at
    the root: an index is data of a stranger, and its names become addresses.
    """
    try:
        index: object = json.loads(index_text)
    except (ValueError, RecursionError):
        raise RepositoryError(f"{INDEX_NAME} is not valid JSON") from None
    weight_map = cast("Mapping[str, object]", index).get("weight_map") if isinstance(index, dict) else None
    if not isinstance(weight_map, dict) or not weight_map:
        raise RepositoryError(f"{INDEX_NAME} has no weight_map")
    shards: dict[str, None] = {}
    for name in cast("Mapping[str, object]", weight_map).values():
        if not isinstance(name, str) or not _is_plain_name(name) or not name.endswith(".safetensors"):
            raise RepositoryError(
                f"{INDEX_NAME} names {repr(name)[:100]}, which is no safetensors file of this folder"
            )
        shards[name] = None
    if len(shards) > MAX_SHARDS:
        raise RepositoryError(f"{INDEX_NAME} names {len(shards):,} files, above the limit of {MAX_SHARDS:,}")
    return tuple(shards)


def choose_files(files: Sequence[tuple[str, int | None]], index_text: str | None = None) -> FileChoice:
    """The set of weight files that an engine would load from a repository with these (name, bytes).

    `index_text` is model.safetensors.index.json where it was fetched; the listing alone decides without it.
    Nothing is raised: what cannot be loaded is a kind with a sentence.
    """
    sizes = {name: size for name, size in files if _is_safe_path(name)}
    unsafe = tuple((name, "its name leads out of the repository") for name, _ in files if name not in sizes)
    root = [name for name in sizes if "/" not in name]
    if "model_index.json" in root:
        return _other(
            "diffusers", sizes, unsafe, "A diffusers pipeline: its parts are not served by a text engine."
        )
    weights = sorted(name for name in root if name.endswith(".safetensors"))
    adapters = [name for name in weights if name.startswith("adapter_")]
    weights = [name for name in weights if name not in adapters]
    if not weights:
        return _without_safetensors(sizes, root, adapters, unsafe)
    chosen = _choose_set(weights, root, index_text)
    if chosen.missing:
        return FileChoice("none", (), _configs(root), (*unsafe, *_ignored(sizes, ())), chosen.sentence)
    configs = _configs(root)
    if chosen.is_ambiguous and index_text is None and INDEX_NAME in root:
        configs = (*configs, INDEX_NAME)
    ignored = (*unsafe, *_ignored(sizes, chosen.names))
    return FileChoice("safetensors", chosen.names, configs, ignored, _found(chosen, sizes, ignored))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Set:
    """A set of files, or why there is none."""

    names: tuple[str, ...] = ()
    sentence: str
    """How the set was told; where there is none, the whole sentence."""
    remark: str = ""
    is_ambiguous: bool = False
    """The index would settle it."""
    missing: bool = False


# The usual `model-00001-of-00163`, and `model_00012-of-00072`, `model-00001-of-000163` as publishers write
# them too.
_NUMBERED = re.compile(r"(?P<prefix>.*?)[-_]?(?P<number>\d{3,6})-of-(?P<total>\d{3,6})\.safetensors")
_VARIANT = re.compile(
    r".*[._-](?:fp16|bf16|fp32|f16|f32|ema|non_ema)(?:[._-].*)?\.safetensors", re.IGNORECASE
)
_WEIGHT_FILE = re.compile(r".*(?:\.(?:safetensors|gguf|onnx|pth|pt|h5|msgpack|npz)|\.safetensors\.part.*)")
_PYTORCH_FILE = re.compile(r"(?:pytorch_model|model|adapter_model|consolidated)[^/]*\.(?:bin|pth|pt)")


def _choose_set(weights: list[str], root: list[str], index_text: str | None) -> _Set:
    """Of the safetensors at the root the one set to load."""
    remark = ""
    if index_text is not None:
        try:
            return _indexed(shards_of_index(index_text), weights)
        except RepositoryError as error:
            remark = f"{error.message}: it was passed over."
    own = [name for name in weights if not name.startswith("consolidated")]
    plain = [name for name in own if not _VARIANT.fullmatch(name)]
    if not own:
        candidates, what = weights, "Mistral’s own format, without a Hugging Face copy"
    elif not plain:
        candidates, what = own, "another precision only"
    else:
        candidates, what = plain, ""
    chosen = _by_number(candidates, has_index=INDEX_NAME in root)
    if what and not chosen.missing:
        text = f"{chosen.sentence}, {what}" if chosen.sentence else what
        chosen = replace(chosen, sentence=text)
    return replace(chosen, remark=remark)


def _indexed(shards: tuple[str, ...], weights: list[str]) -> _Set:
    present = set(weights)
    absent = [name for name in shards if name not in present]
    if absent:
        others = f" and {len(absent) - 1:,} more" if len(absent) > 1 else ""
        sentence = (
            f"{INDEX_NAME} names {absent[0]}{others}, which is not there: the engine stops at that."
            " Complete the download, or use another revision."
        )
        return _Set(sentence=sentence, missing=True)
    return _Set(names=tuple(sorted(shards)), sentence=f"named by {INDEX_NAME}")


def _by_number(candidates: list[str], *, has_index: bool) -> _Set:
    """By names alone: a complete numbered set, model.safetensors, or whatever there is."""
    sets: dict[tuple[str, int], dict[int, str]] = {}
    single: list[str] = []
    for name in candidates:
        numbered = _NUMBERED.fullmatch(name)
        if numbered:
            sets.setdefault((numbered["prefix"], int(numbered["total"])), {})[int(numbered["number"])] = name
        else:
            single.append(name)
    complete = {key: shards for key, shards in sets.items() if _is_complete(sorted(shards), key[1])}
    # With an index the engine loads what it names, which is never the single file beside a numbered set.
    if "model.safetensors" in single and not (has_index and complete):
        return _Set(names=("model.safetensors",), sentence="", is_ambiguous=has_index)
    if complete:
        prefix, total = max(complete, key=lambda key: (key[0] == "model", key[1], key[0]))
        numbered_shards = sorted(complete[prefix, total].items())
        names = tuple(name for _, name in numbered_shards)
        text = f"numbered {numbered_shards[0][0]} to {numbered_shards[-1][0]}"
        text = text if has_index else f"{text}, without an index"
        is_ambiguous = len(sets) > 1 or bool(single)
        return _Set(names=names, sentence=text, is_ambiguous=is_ambiguous)
    if sets and not single:
        (prefix, total), shards = max(sets.items(), key=lambda item: (item[0][0] == "model", len(item[1])))
        absent = next((number for number in range(1, total + 1) if number not in shards), None)
        what = "their numbers do not agree with that" if absent is None else f"number {absent} is missing"
        sentence = (
            f"Of {total} shards {len(shards)} are there, {what}: the upload is not complete."
            " Use another revision, or wait for it."
        )
        return _Set(sentence=sentence, missing=True)
    text = "" if len(candidates) == 1 else "under names of their own"
    return _Set(names=tuple(candidates), sentence=text, is_ambiguous=len(candidates) > 1)


def _is_complete(numbers: list[int], total: int) -> bool:
    """From 1 to the total; gpt-oss counts from 0 to the total, others from 0 to one below it."""
    first, last = numbers[0], numbers[-1]
    return last - first + 1 == len(numbers) and (first, last) in ((1, total), (0, total), (0, total - 1))


def _without_safetensors(
    sizes: Mapping[str, int | None], root: list[str], adapters: list[str], unsafe: tuple[tuple[str, str], ...]
) -> FileChoice:
    """What a repository without servable safetensors at its root is, and what to do about it."""
    has_adapter = "adapter_config.json" in root or bool(adapters)
    if has_adapter and (adapters or any(name.startswith("adapter_model") for name in root)):
        sentence = (
            "An adapter: it is loaded on top of the base model that adapter_config.json names"
            " (base_model_name_or_path). Plan that model."
        )
        return _other("adapter", sizes, unsafe, sentence, configs=("adapter_config.json",), root=root)
    if any(name.endswith(".npz") for name in root):
        sentence = "MLX weights (npz), which run on Apple silicon and which vLLM cannot load."
        return _other("mlx", sizes, unsafe, sentence, root=root)
    gguf = [name for name in sizes if name.endswith(".gguf")]
    if gguf:
        count = "1 file" if len(gguf) == 1 else f"{len(gguf)} files"
        sentence = (
            f"GGUF only ({count}), which has no safetensors header to read."
            " Plan the original model, with a weight format of 4 or 8 bits."
        )
        return _other("gguf", sizes, unsafe, sentence, root=root)
    pickled = [name for name in root if _PYTORCH_FILE.fullmatch(name)]
    if pickled:
        amount = _amount(pickled, sizes)
        sentence = (
            f"PyTorch .bin files only ({amount}), which have no header to read."
            " Look for a safetensors revision (refs/pr/… by SFconvertbot), or convert the model."
        )
        return _other("pytorch-bin", sizes, unsafe, sentence, configs=_configs(root), root=root)
    below = sorted(name for name in sizes if "/" in name and ".safetensors" in name)
    if below:
        folder = below[0].rpartition("/")[0]
        sentence = (
            f"The safetensors are not at the root but in {folder}/, where an engine does not look by itself."
        )
        return _other("none", sizes, unsafe, sentence, root=root)
    if any(name.endswith(".onnx") for name in sizes):
        sentence = "ONNX only: no safetensors, so there is nothing that vLLM would load."
        return _other("onnx", sizes, unsafe, sentence, root=root)
    if INDEX_NAME in root:
        sentence = f"{INDEX_NAME} is there, but none of the files that it names: a copy without its weights."
    elif any(name.startswith("tokenizer") for name in root):
        sentence = "No weight files, only tokenizer and configuration."
    else:
        sentence = "No weight files."
    return _other("none", sizes, unsafe, sentence, configs=_configs(root), root=root)


def _other(
    kind: Kind,
    sizes: Mapping[str, int | None],
    unsafe: tuple[tuple[str, str], ...],
    sentence: str,
    *,
    configs: tuple[str, ...] = (),
    root: Iterable[str] = (),
) -> FileChoice:
    present = set(root)
    return FileChoice(
        kind,
        (),
        tuple(name for name in configs if name in present),
        (*unsafe, *_ignored(sizes, ())),
        sentence,
    )


def _configs(root: Iterable[str]) -> tuple[str, ...]:
    present = set(root)
    return tuple(name for name in ("config.json", "hf_quant_config.json") if name in present)


def _ignored(sizes: Mapping[str, int | None], read: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Every weight file that is not read, with the reason."""
    chosen = set(read)
    return tuple(
        (name, _reason(name, bool(read)))
        for name in sorted(sizes)
        if name not in chosen and _is_weights(name)
    )


def _is_weights(name: str) -> bool:
    return bool(_WEIGHT_FILE.fullmatch(name) or _PYTORCH_FILE.fullmatch(name.rpartition("/")[2]))


def _reason(name: str, has_set: bool) -> str:
    folder, _, base = name.rpartition("/")
    if folder:
        return f"it is in {folder}/: an engine reads the root"
    if base.startswith("adapter_"):
        return "an adapter, which is loaded on top of a base model"
    if not base.endswith(".safetensors"):
        return (
            "another file format; safetensors are read"
            if has_set
            else "not safetensors: it has no header to read"
        )
    if not has_set:
        return "the set that it belongs to is not complete"
    if base.startswith("consolidated"):
        return "a second copy of the weights, in Mistral’s own format"
    if _VARIANT.fullmatch(base):
        return "a second copy of the weights, in another precision"
    return "not of the set that is loaded"


def _found(chosen: _Set, sizes: Mapping[str, int | None], ignored: Sequence[tuple[str, str]]) -> str:
    told = f", {chosen.sentence}" if chosen.sentence else ""
    sentences = [f"{_amount(chosen.names, sizes)} of safetensors{told}."]
    passed = [(name, reason) for name, reason in ignored if name.endswith(".safetensors")]
    if passed:
        name, reason = passed[0]
        more = f" and {len(passed) - 1:,} more" if len(passed) > 1 else ""
        sentences.append(f"Not counted: {name}{more} ({reason}).")
    return " ".join([*sentences, chosen.remark]).strip()


def _amount(names: Sequence[str], sizes: Mapping[str, int | None]) -> str:
    count = f"{len(names):,} file{'' if len(names) == 1 else 's'}"
    known = [sizes.get(name) for name in names]
    if any(size is None for size in known):
        return count
    return f"{count}, {sum(size or 0 for size in known) / GB:,.2f} GB"


def _is_plain_name(name: str) -> bool:
    return "/" not in name and _is_safe_path(name)


def _is_safe_path(name: str) -> bool:
    """A relative path that stays inside: no scheme or drive, no parent, no backslash, nothing unprintable."""
    steps = name.split("/")
    return (
        0 < len(name) <= 1000
        and name.isprintable()
        and not any(step in ("", ".", "..") for step in steps)
        and not set(name) & set("\\:")
    )
