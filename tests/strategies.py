"""Hypothesis strategies for what arrives from outside: safetensors headers, valid and damaged."""

import json
from collections.abc import Mapping, Sequence
from math import prod

from hypothesis import strategies as st

from willitserve.dtypes import DTYPES

Entry = tuple[str, str, tuple[int, ...]]
"""name, dtype, shape."""

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).filter(
    lambda name: name != "__metadata__"
)
layer_names = st.builds(
    "model.layers.{}.mlp.experts.{}.{}.{}".format,
    st.integers(0, 9),
    st.integers(0, 9),
    st.sampled_from(["gate_proj", "up_proj", "down_proj"]),
    st.sampled_from(["weight", "bias"]),
)


def _ends_on_a_byte(entry: Entry) -> bool:
    return prod(entry[2]) * DTYPES[entry[1]].bits % 8 == 0


def entries(names: st.SearchStrategy[str] = names) -> st.SearchStrategy[list[Entry]]:
    """Tensors of one file: names are unique, every tensor ends on a byte."""
    shape = st.lists(st.integers(0, 7), max_size=4).map(tuple)
    entry = st.tuples(names, st.sampled_from(sorted(DTYPES)), shape).filter(_ends_on_a_byte)
    return st.lists(entry, max_size=12, unique_by=lambda entry: entry[0])


def header_of(tensors: Sequence[Entry], metadata: Mapping[str, str] | None = None) -> bytes:
    """The JSON that a writer makes of these tensors, their data in this order."""
    header: dict[str, object] = {} if metadata is None else {"__metadata__": metadata}
    begin = 0
    for name, dtype, shape in tensors:
        end = begin + prod(shape) * DTYPES[dtype].bits // 8
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
        begin = end
    return json.dumps(header, ensure_ascii=False).encode()


def data_bytes_of(tensors: Sequence[Entry]) -> int:
    """Bytes of all tensors."""
    return sum(prod(shape) * DTYPES[dtype].bits // 8 for _, dtype, shape in tensors)


def file_of(header: bytes, data: int = 0) -> bytes:
    """A file: length, header, and `data` bytes of zeros."""
    return len(header).to_bytes(8, "little") + header + bytes(data)
