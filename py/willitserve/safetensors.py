"""safetensors headers: the first bytes of a file to its list of tensors, every rule of the format enforced.

A file is 8 bytes little-endian length N, N bytes of UTF-8 JSON, then the data. The JSON maps each tensor name
to `{"dtype", "shape", "data_offsets": [begin, end)}`, offsets counted from the data, and `__metadata__` to
strings.

The verdict is that of the reference reader, version 0.8.0: the tests hold its answers to 58 files. It differs
here:

- accepted, though refused there: the spellings of `dtypes.ALIASES`; dtypes that are not listed but state in
  their name the width that the offsets show; fields beside the three of a tensor that nest deeper than 127
  levels;
- refused, though accepted there: a tensor entry written as a JSON array, which the format's text does not
  allow;
- full coverage is checked when the size of the file is known, since only its first bytes are read here.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from math import isinf
from operator import itemgetter
from typing import NoReturn, cast

from willitserve.dtypes import Dtype, find_dtype
from willitserve.errors import HeaderError

LENGTH_BYTES = 8
HEADER_LIMIT_BYTES = 100_000_000
"""Longest header that is read: the limit of the reference."""

_WORD_LIMIT = 2**64 - 1

Tensor = tuple[str, str, tuple[int, ...], int, int]
"""One entry of a header: name, dtype as the header spells it, shape, and the [begin, end) of its bytes,
counted from where the data begins. A plain tuple, which the garbage collector soon stops tracking: there are
up to half a million."""


@dataclass(frozen=True, slots=True)
class Header:
    """A checked header: its tensors cover the data without hole or overlap."""

    tensors: tuple[Tensor, ...]
    """In the order of their data."""
    metadata: dict[str, str]
    header_bytes: int
    """With the 8 bytes of length: where the data begins."""
    data_bytes: int
    unknown_dtypes: tuple[str, ...]
    """Spellings that `dtypes` does not list."""


def header_length(first_eight: bytes) -> int:
    """N, the bytes of JSON, from the first 8 bytes of a file.

    Raises HeaderError when fewer than 8 bytes are given or when N is above `HEADER_LIMIT_BYTES`, as it is for
    any text that is served in place of a safetensors file.
    """
    if len(first_eight) < LENGTH_BYTES:
        raise _refused(f"{len(first_eight)} bytes are too few for a safetensors file")
    length = int.from_bytes(first_eight[:LENGTH_BYTES], "little")
    if length > HEADER_LIMIT_BYTES:
        raise _refused(
            f"the first 8 bytes give a header of {length:,} bytes, above the limit of {HEADER_LIMIT_BYTES:,}"
        )
    return length


def parse_header(data: bytes, *, file_size: int | None = None) -> Header:
    """The header in the first bytes of a file.

    `data` holds at least 8 + N bytes and may hold more; `file_size` is the size of the whole file in bytes,
    None when it is not known. Raises HeaderError for all that is not the start of a valid file, and nothing
    else.
    """
    length = header_length(data)
    header_bytes = LENGTH_BYTES + length
    if file_size is not None and header_bytes > file_size:
        raise _refused(f"a header of {length:,} bytes does not fit into a file of {file_size:,}")
    if header_bytes > len(data):
        raise HeaderError(
            f"the header ends at byte {header_bytes:,} and only {len(data):,} bytes were read",
            hint="Read the file up to the end of its header.",
        )
    entries, metadata = _read_entries(_read_json(data[LENGTH_BYTES:header_bytes]))
    tensors, unknown = _check_cover(entries)
    data_bytes = tensors[-1][4] if tensors else 0
    if file_size is not None and header_bytes + data_bytes != file_size:
        raise HeaderError(
            f"header and tensors make {header_bytes + data_bytes:,} bytes, the file has {file_size:,}",
            hint="The file was cut off or something was appended to it.",
        )
    return Header(tuple(tensors), metadata, header_bytes, data_bytes, unknown)


def lay_out(tensors: Iterable[tuple[str, str, tuple[int, ...]]]) -> Header:
    """A header of these (name, dtype, shape), their data one after the other, for lists that come from no
    file.

    `header_bytes` is 0. Raises HeaderError for a dtype or a shape that no file can have.
    """
    entries: list[Tensor] = []
    unknown: dict[str, None] = {}
    begin = 0
    for name, spelling, shape in tensors:
        dtype = _dtype(name, spelling)
        if dtype.kind == "unknown":
            unknown[spelling] = None
        end = begin + _data_bytes(name, dtype, shape)
        entries.append((name, spelling, shape, begin, end))
        begin = end
    return Header(tuple(entries), {}, 0, begin, tuple(unknown))


_Pairs = tuple[tuple[str, object], ...]
_Entry = tuple[str, tuple[object, ...], object, object]


def _read_object(pairs: list[tuple[str, object]]) -> _Entry | _Pairs:
    """An object as its pairs, so that repeated keys stay visible; a tensor as writers spell it as an
    `_Entry`.

    Exact tuples, since lists by the hundred thousand keep the garbage collector busy for longer than all the
    rest.
    """
    if len(pairs) == 3:
        (first, dtype), (second, shape), (third, offsets) = pairs
        if first == "dtype" and second == "shape" and third == "data_offsets":
            entry = _entry(dtype, shape, offsets)
            if entry is not None:
                return entry
    return tuple(pairs)


def _entry(dtype: object, shape: object, offsets: object) -> _Entry | None:
    if type(dtype) is not str or type(shape) is not list or type(offsets) is not list:
        return None
    if len(cast("list[object]", offsets)) != 2:
        return None
    begin, end = cast("list[object]", offsets)
    return dtype, tuple(cast("list[object]", shape)), begin, end


def _read_json(text: bytes) -> _Pairs:
    """The pairs of the root object."""
    try:
        decoded = text.decode("utf-8")
        root: object = json.loads(
            decoded,
            object_pairs_hook=_read_object,
            parse_constant=_refuse_constant,
            parse_float=_read_float,
            # The reference takes -0 for a float; int("-0") would pass as the valid 0.
            parse_int=_read_int if "-0" in decoded else None,
        )
        if "\\u" in decoded:
            # An escape can spell half of a surrogate pair, which is no text.
            json.dumps(root, ensure_ascii=False).encode("utf-8")
    except UnicodeError:
        raise _refused("the header is not valid UTF-8") from None
    except (RecursionError, MemoryError):
        raise _refused("the header nests too deeply to be read") from None
    except ValueError as error:
        raise _refused(f"the header is not valid JSON: {_shown(error)}") from None
    if type(root) is not tuple:
        raise _refused("the header is JSON, but not an object of tensors")
    return cast("_Pairs", root)


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _read_float(text: str) -> float:
    value = float(text)
    if isinf(value):
        raise ValueError("a number is out of range")
    return value


def _read_int(text: str) -> int | float:
    return -0.0 if text == "-0" else int(text)


def _read_entries(root: _Pairs) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors by name, the last of repeated names, and the metadata; types are checked, sizes are not."""
    entries: dict[str, Tensor] = {}
    metadata: dict[str, str] | None = None
    known: set[str] = set()
    shapes: dict[tuple[int, ...], tuple[int, ...]] = {}
    for name, value in root:
        if name == "__metadata__":
            if metadata is not None:
                raise _refused("the header has two __metadata__ entries")
            metadata = _read_metadata(value)
            continue
        if type(value) is not tuple:
            raise _bad(name, "entry", value)
        entry = cast("_Entry | _Pairs", value)
        # An entry begins with its dtype, pairs with a pair.
        is_entry = bool(entry) and type(entry[0]) is str
        spelling, dims, begin, end = cast("_Entry", entry) if is_entry else _fields(name, entry)
        if spelling not in known:
            _dtype(name, spelling)
            known.add(spelling)
        for dim in dims:
            if type(dim) is not int or not 0 <= dim <= _WORD_LIMIT:
                raise _bad(name, "shape", list(dims))
        if type(begin) is not int or type(end) is not int or not 0 <= begin <= _WORD_LIMIT >= end >= 0:
            raise _bad(name, "data_offsets", [begin, end])
        shape = cast("tuple[int, ...]", dims)
        entries[name] = (name, spelling, shapes.setdefault(shape, shape), begin, end)
    return entries, metadata or {}


def _fields(name: str, pairs: object) -> _Entry:
    """The fields of an entry in another order, or with further fields, which are passed over."""
    found: dict[str, object] = {}
    for key, value in cast("_Pairs", pairs):
        if key in found and key in ("dtype", "shape", "data_offsets"):
            raise _refused(f"tensor {_shown(name)} has two fields {key}")
        found[key] = value
    for key in ("dtype", "shape", "data_offsets"):
        if key not in found:
            raise _refused(f"tensor {_shown(name)} has no {key}")
    entry = _entry(found["dtype"], found["shape"], found["data_offsets"])
    if entry is None:
        raise _bad(name, "entry", found)
    return entry


def _read_metadata(entry: object) -> dict[str, str]:
    if entry is None:
        return {}
    if type(entry) is not tuple:
        raise _refused(f"__metadata__ is {_shown(entry)}, not an object of strings")
    metadata: dict[str, str] = {}
    for key, value in cast("_Pairs", entry):
        if type(value) is not str:
            raise _refused(f"__metadata__ holds {_shown(value)}, not a string")
        metadata[key] = value
    return metadata


def _check_cover(entries: dict[str, Tensor]) -> tuple[list[Tensor], tuple[str, ...]]:
    """The tensors in the order of their data, which they cover without hole or overlap, and the unknown
    dtypes."""
    tensors = sorted(entries.values(), key=itemgetter(3, 4))
    sizes: dict[tuple[str, tuple[int, ...]], int] = {}
    unknown: dict[str, None] = {}
    start = 0
    for name, spelling, shape, begin, end in tensors:
        if begin != start or end < begin:
            raise _refused(
                f"tensor {_shown(name)} takes bytes {begin:,} to {end:,}, the data before it end at {start:,}"
            )
        start = end
        size = sizes.get((spelling, shape))
        if size is None:
            dtype = _dtype(name, spelling)
            if dtype.kind == "unknown":
                unknown[spelling] = None
            size = sizes[spelling, shape] = _data_bytes(name, dtype, shape)
        if size != end - begin:
            raise _refused(
                f"tensor {_shown(name)}, {spelling} {_shown(list(shape))}, "
                f"needs {size:,} bytes and has {end - begin:,}"
            )
    return tensors, tuple(unknown)


def _dtype(name: str, spelling: str) -> Dtype:
    dtype = find_dtype(spelling)
    if dtype is None:
        raise HeaderError(
            f"tensor {_shown(name)} has the unknown dtype {_shown(spelling)}",
            hint="It was written by a newer version of safetensors, or it is damaged.",
        )
    return dtype


def _data_bytes(name: str, dtype: Dtype, shape: tuple[int, ...]) -> int:
    """Bytes of a tensor; as in the reference, each product on the way must fit in 64 bits."""
    elements = 1
    for dim in shape:
        elements *= dim
        if elements > _WORD_LIMIT:
            break
    bits = elements * dtype.bits
    if bits > _WORD_LIMIT:
        raise _refused(f"tensor {_shown(name)} has an impossible shape {_shown(list(shape))}")
    if bits % 8:
        raise _refused(f"tensor {_shown(name)}, {dtype.name} {_shown(list(shape))}, does not end on a byte")
    return bits // 8


def _bad(name: str, what: str, value: object) -> HeaderError:
    return _refused(f"tensor {_shown(name)}: {what} is {_shown(value)}")


def _refused(message: str) -> HeaderError:
    return HeaderError(message, hint="It is not a safetensors file, or it was damaged on the way.")


def _shown(value: object) -> str:
    """Text for a message: one line of bounded length, whatever the file holds."""
    text = str(value) if isinstance(value, Exception) else repr(value)
    return text if len(text) <= 100 else text[:99] + "…"
