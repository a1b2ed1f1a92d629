"""Compact, readable patterns of a safetensors header, and the tensor list they stand for.

A pattern is one line of a `catalog/models/` file: a tensor name in which braces hold the indices that it
takes, with the dtype and shape that all those tensors share.

    {name: "model.layers.{0-79}.self_attn.q_proj.weight", dtype: BF16, shape: [8192, 8192]}
    {name: "model.layers.{3-60}.mlp.experts.{0-255}.up_proj.weight", dtype: F8_E4M3, shape: [2048, 7168]}
    {name: "model.layers.{3-47/4}.self_attn.k_proj.weight", dtype: BF16, shape: [512, 2048]}

Inside braces: one or more of `7`, `0-79` (both ends belong to it) and `3-47/4` (every fourth), separated by
commas. A name with several braces takes every combination.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise, product
from typing import Annotated, NamedTuple

from pydantic import Field, NonNegativeInt

from willitserve.errors import CatalogError
from willitserve.record import Record

_ITEM = r"\d+(?:-\d+(?:/\d+)?)?"
_NAME = rf"^[^{{}}]*(?:\{{{_ITEM}(?:,{_ITEM})*\}}[^{{}}]*)*$"
_BRACES = re.compile(r"\{([^{}]*)\}")


class NamedTensor(NamedTuple):
    """One tensor of a header, without its place in the file."""

    name: str
    dtype: str
    """As the header spells it: `BF16`, `F8_E4M3`, …"""
    shape: tuple[int, ...]


class TensorPattern(Record):
    """Tensors that differ only in the indices of their names."""

    name: Annotated[str, Field(pattern=_NAME)]
    """With indices in braces where the pattern stands for several tensors."""
    dtype: str
    """As the header spells it: `BF16`, `F8_E4M3`, …"""
    shape: tuple[NonNegativeInt, ...]
    """Elements along each dimension; empty for a scalar."""


def expand(patterns: Iterable[TensorPattern]) -> Iterator[NamedTensor]:
    """The tensors that the patterns stand for, pattern by pattern, indices ascending, the last braces
    fastest.

    Raises
        CatalogError: indices in braces that do not ascend.
    """
    for pattern in patterns:
        literals, indices = _split(pattern.name)
        head, *tails = literals
        columns = [
            [f"{index}{tail}" for index in column] for column, tail in zip(indices, tails, strict=True)
        ]
        for words in product(*columns):
            yield NamedTensor(head + "".join(words), pattern.dtype, pattern.shape)


def compact(tensors: Iterable[NamedTensor]) -> list[TensorPattern]:
    """Patterns that stand for exactly these tensors, in the order in which each kind of name first appears.

    Only name parts that are whole numbers between dots become indices. Tensors of one name but different
    dtypes or shapes, and index sets that are no full grid, become further lines.
    """
    grids: dict[tuple[tuple[str, ...], str, tuple[int, ...]], list[tuple[int, ...]]] = {}
    for name, dtype, shape in tensors:
        parts = name.split(".")
        literals = tuple("" if _is_index(part) else part for part in parts)
        grids.setdefault((literals, dtype, shape), []).append(
            tuple(int(part) for part in parts if _is_index(part))
        )
    patterns: list[TensorPattern] = []
    for (literals, dtype, shape), points in grids.items():
        for columns in _full_grids(points):
            texts = iter(columns)
            name = ".".join(literal or _write_indices(next(texts)) for literal in literals)
            patterns.append(TensorPattern(name=name, dtype=dtype, shape=shape))
    return patterns


def _is_index(part: str) -> bool:
    """A number as programs write it; `007` stays text, since it would not come back."""
    return part.isascii() and part.isdigit() and (part == "0" or part[0] != "0")


def _split(name: str) -> tuple[list[str], list[list[int]]]:
    """The literal text around the braces, and the indices in them."""
    pieces = _BRACES.split(name)
    return pieces[::2], [_read_indices(name, column) for column in pieces[1::2]]


def _read_indices(name: str, text: str) -> list[int]:
    indices: list[int] = []
    for item in text.split(","):
        bounds, _, step = item.partition("/")
        first, _, last = bounds.partition("-")
        indices.extend(range(int(first), int(last or first) + 1, max(1, int(step or 1))))
    if not indices or any(right <= left for left, right in pairwise(indices)):
        raise CatalogError(f"{name}: the indices in {{{text}}} must ascend")
    return indices


def _write_indices(indices: tuple[int, ...]) -> str:
    if len(indices) == 1:
        return str(indices[0])
    items: list[str] = []
    start = 0
    while start < len(indices):
        end = start + 1
        step = indices[end] - indices[start] if end < len(indices) else 1
        while end < len(indices) and indices[end] - indices[end - 1] == step:
            end += 1
        if end - start >= 3:
            items.append(f"{indices[start]}-{indices[end - 1]}" + (f"/{step}" if step > 1 else ""))
        elif end - start == 2 and step == 1:
            items.append(f"{indices[start]}-{indices[end - 1]}")
        else:
            # Two indices are no progression: the second may open one.
            items.append(str(indices[start]))
            end = start + 1
        start = end
    return "{" + ",".join(items) + "}"


def _full_grids(points: list[tuple[int, ...]]) -> list[tuple[tuple[int, ...], ...]]:
    """The index tuples as a union of full grids, first index outermost."""
    if not points[0]:
        return [()]
    rest_of: dict[int, list[tuple[int, ...]]] = {}
    for first, *rest in sorted(set(points)):
        rest_of.setdefault(first, []).append(tuple(rest))
    firsts_of: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for first, rests in rest_of.items():
        firsts_of.setdefault(tuple(rests), []).append(first)
    return [
        (tuple(firsts), *columns)
        for rests, firsts in firsts_of.items()
        for columns in _full_grids(list(rests))
    ]
