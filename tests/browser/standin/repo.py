"""Repositories of the Hub stand-in: every file's true first bytes and its size, never its weights.

A checkpoint of 700 GB is a few hundred kB here: what follows the header of a safetensors file is zeros, made
when asked for.
"""

import gzip
import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Self

BITS_OF_DTYPE = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4,
    "I16": 16, "F16": 16, "BF16": 16, "I32": 32, "F32": 32, "I64": 64, "F64": 64,
}  # fmt: skip

CHUNK_BYTES = 1 << 16
_number = itertools.count(1)


class Tensor(NamedTuple):
    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class StoredFile:
    """A file of `size` bytes: `head`, then zeros. `large` files are on the CDN, the others in git."""

    head: bytes
    size: int
    large: bool

    def read(self, start: int, stop: int) -> bytes:
        stop = min(stop, self.size)
        true_bytes = self.head[start:stop]
        return true_bytes + bytes(max(0, stop - max(start, len(self.head))))

    def chunks(self, start: int, stop: int) -> Iterator[bytes]:
        for begin in range(start, stop, CHUNK_BYTES):
            yield self.read(begin, min(begin + CHUNK_BYTES, stop))

    @property
    def sha256(self) -> str:
        """Names the content; not the digest of the zeros, which would take minutes for a shard."""
        return hashlib.sha256(self.head + self.size.to_bytes(8, "little")).hexdigest()


def git_file(data: bytes | str) -> StoredFile:
    """A small file: config.json, an index."""
    data = data.encode() if isinstance(data, str) else data
    return StoredFile(data, len(data), large=False)


def raw_weights(head: bytes, size: int | None = None) -> StoredFile:
    """A file on the CDN with these first bytes, well formed or not."""
    return StoredFile(head, len(head) if size is None else size, large=True)


def padded_header(text: bytes) -> bytes:
    """The 8-byte length and the header, padded with spaces to a multiple of 8 like the reference writer's."""
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def from_header(text: bytes) -> StoredFile:
    """A safetensors file with this header, as long as its last offset says."""
    entries: dict[str, dict[str, list[int]]] = json.loads(text)
    entries.pop("__metadata__", None)
    end = max((entry["data_offsets"][1] for entry in entries.values()), default=0)
    head = padded_header(text)
    return raw_weights(head, len(head) + end)


def safetensors(tensors: Sequence[Tensor], *, header_bytes: int | None = None) -> StoredFile:
    """A valid safetensors file of these tensors; `header_bytes` pads its header to exactly that length."""
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    begin = 0
    for name, dtype, shape in tensors:
        end = begin + math.prod(shape) * BITS_OF_DTYPE[dtype] // 8
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    if header_bytes is None:
        return from_header(text)
    if len(text) > header_bytes:
        raise ValueError(f"the header takes {len(text)} bytes, more than {header_bytes}")
    head = header_bytes.to_bytes(8, "little") + text.ljust(header_bytes)
    return raw_weights(head, len(head) + begin)


def index_of(shards: Mapping[str, Sequence[Tensor]]) -> StoredFile:
    """model.safetensors.index.json of these shards."""
    weight_map = {tensor.name: shard for shard, tensors in shards.items() for tensor in tensors}
    total = sum(
        math.prod(tensor.shape) * BITS_OF_DTYPE[tensor.dtype] // 8
        for tensors in shards.values()
        for tensor in tensors
    )
    return git_file(json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}, indent=2))


@dataclass
class Repo:
    """One model repository as the Hub holds it."""

    id: str
    files: dict[str, StoredFile]
    gated: Literal[False, "auto", "manual"] = False
    private: bool = False
    disabled: bool = False
    revisions: dict[str, str] = field(default_factory=dict[str, str])
    """Branch, tag or `refs/…` to commit; `main` is filled in, with a commit that no other repository has."""

    def __post_init__(self) -> None:
        self.revisions.setdefault("main", hashlib.sha1(f"{self.id} {next(_number)}".encode()).hexdigest())

    @property
    def sha(self) -> str:
        return self.revisions["main"]

    @property
    def object_id(self) -> str:
        return hashlib.sha256(self.id.encode()).hexdigest()[:24]

    def commit(self, revision: str) -> str | None:
        """The commit a revision names, or None."""
        if revision in self.revisions.values():
            return revision
        return self.revisions.get(revision)

    def parameters(self) -> dict[str, int]:
        """Elements by dtype over the safetensors files at the root, as the Hub's own totals count them."""
        counts: dict[str, int] = {}
        for name, file in self.files.items():
            if not name.endswith(".safetensors") or "/" in name:
                continue
            length = int.from_bytes(file.head[:8], "little")
            try:
                entries = json.loads(file.head[8 : 8 + length])
            except ValueError:
                continue
            for tensor, entry in entries.items():
                if tensor != "__metadata__":
                    counts[entry["dtype"]] = counts.get(entry["dtype"], 0) + math.prod(entry["shape"])
        return counts

    @classmethod
    def from_tensors(
        cls,
        id: str,  # noqa: A002  (the Hub's own word)
        shards: Mapping[str, Sequence[Tensor]] | Sequence[Tensor],
        *,
        config: Mapping[str, object] | None = None,
        gated: Literal[False, "auto", "manual"] = False,
    ) -> Self:
        """A repository with valid headers for these tensors.

        One list makes `model.safetensors`; a mapping makes the shards it names, and their index.
        """
        mapping = shards if isinstance(shards, Mapping) else {"model.safetensors": shards}
        files = {name: safetensors(tensors) for name, tensors in mapping.items()}
        if len(mapping) > 1:
            files["model.safetensors.index.json"] = index_of(mapping)
        if config is not None:
            files["config.json"] = git_file(json.dumps(config, indent=2))
        return cls(id, files, gated=gated)

    @classmethod
    def from_folder(
        cls,
        folder: Path,
        id: str | None = None,  # noqa: A002  (the Hub's own word)
        *,
        gated: Literal[False, "auto", "manual"] = False,
    ) -> Self:
        """A folder `<org>__<name>` of `<shard>.safetensors.header.json.gz` files, config.json and index."""
        files: dict[str, StoredFile] = {}
        for item in sorted(folder.iterdir()):
            if item.name.endswith(".header.json.gz"):
                header = gzip.decompress(item.read_bytes())
                files[item.name.removesuffix(".header.json.gz")] = from_header(header)
            elif item.name.endswith(".json.gz"):
                files[item.name.removesuffix(".gz")] = git_file(gzip.decompress(item.read_bytes()))
            else:
                files[item.name] = git_file(item.read_bytes())
        return cls(id or folder.name.replace("__", "/"), files, gated=gated)
