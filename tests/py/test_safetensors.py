"""The header reader against the verdicts of the reference reader, at its limits, and under damage."""

import base64
import json
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import Entry, data_bytes_of, entries, file_of, header_of
from willitserve.errors import HeaderError
from willitserve.safetensors import HEADER_LIMIT_BYTES, Header, header_length, lay_out, parse_header

DATA = Path(__file__).resolve().parents[1] / "data"
Case = dict[str, object]


def _reference_cases() -> list[object]:
    """Small files with what the reference reader 0.8.0 says of each."""
    text = (DATA / "safetensors_vectors.json").read_text("utf-8")
    cases = cast("dict[str, dict[str, object]]", json.loads(text)["cases"])
    return [
        pytest.param(base64.b64decode(cast("str", case["file_b64"])), case["reference"], id=name)
        for name, case in cases.items()
    ]


def one_tensor(entry: str) -> bytes:
    """A header with the tensor `a`, its entry spelled out."""
    return file_of(f'{{"a":{entry}}}'.encode(), 8)


@pytest.mark.parametrize(("file", "reference"), _reference_cases())
def test_the_verdict_is_that_of_the_reference(file: bytes, reference: Case) -> None:
    if reference["ok"]:
        assert len(parse_header(file, file_size=len(file)).tensors) == reference["tensors"]
    else:
        with pytest.raises(HeaderError):
            parse_header(file, file_size=len(file))


@pytest.mark.parametrize(
    ("length", "is_read"),
    [(HEADER_LIMIT_BYTES - 1, True), (HEADER_LIMIT_BYTES, True), (HEADER_LIMIT_BYTES + 1, False)],
)
def test_the_limit_of_the_header(length: int, is_read: bool) -> None:
    first_eight = length.to_bytes(8, "little")
    if is_read:
        assert header_length(first_eight) == length
    else:
        with pytest.raises(HeaderError, match="100,000,001"):
            header_length(first_eight)


@pytest.mark.parametrize("missing", [1, 7, 8])
def test_a_header_that_was_not_read_to_its_end_is_refused(missing: int) -> None:
    file = file_of(b'{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}', 8)
    with pytest.raises(HeaderError, match="were read"):
        parse_header(file[: -8 - missing], file_size=len(file))


@pytest.mark.parametrize("data_read", [0, 1, 7, 8])
def test_bytes_read_past_the_header_do_not_matter(data_read: int) -> None:
    file = file_of(b'{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}', 8)
    header = parse_header(file[: len(file) - 8 + data_read], file_size=len(file))
    assert header.tensors == (("a", "U8", (8,), 0, 8),)
    assert (header.header_bytes, header.data_bytes) == (len(file) - 8, 8)


def test_without_the_size_of_the_file_its_end_is_not_checked() -> None:
    file = file_of(b'{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}', 3)
    assert parse_header(file).data_bytes == 8
    with pytest.raises(HeaderError, match="the file has"):
        parse_header(file, file_size=len(file))


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param('{"dtype":"F32","shape":[-0],"data_offsets":[0,0]}', id="minus zero is a float"),
        pytest.param('{"dtype":"F32","shape":[true,2],"data_offsets":[0,8]}', id="a bool is no number"),
        pytest.param('{"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,8]}', id="2**64"),
        pytest.param(f'{{"dtype":"F32","shape":[{"9" * 4301}],"data_offsets":[0,8]}}', id="4301 digits"),
        pytest.param('{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1e999}', id="number out of range"),
        pytest.param(
            '{"dtype":"F32","shape":[1099511627776,1099511627776,0],"data_offsets":[0,0]}', id="overflow"
        ),
        pytest.param('{"dtype":"F32","shape":{},"data_offsets":[0,4]}', id="shape is an object"),
        pytest.param('{"dtype":["F32"],"shape":[2],"data_offsets":[0,8]}', id="dtype is a list"),
        pytest.param('{"dtype":"F32","shape":[2],"data_offsets":[0,8],"dtype":"F32"}', id="dtype twice"),
        pytest.param(
            '{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":"\\ud800"}', id="half a surrogate pair"
        ),
        pytest.param('["F32",[2],[0,8]]', id="an array, which the reference takes and the format forbids"),
        pytest.param("null", id="null"),
        pytest.param("1", id="number"),
        pytest.param("[" * 100_000, id="deep and cut off"),
        pytest.param(
            '{"dtype":"F32","shape":' + "[" * 50_000 + "]" * 50_000 + ',"data_offsets":[0,8]}', id="deep"
        ),
    ],
)
def test_hostile_entries_are_refused(entry: str) -> None:
    with pytest.raises(HeaderError):
        parse_header(one_tensor(entry))


def test_a_shape_of_a_million_dimensions_is_read() -> None:
    entry = '{"dtype":"U8","shape":[' + ",".join(["1"] * 1_000_000) + '],"data_offsets":[0,1]}'
    assert len(parse_header(file_of(f'{{"a":{entry}}}'.encode(), 1)).tensors[0][2]) == 1_000_000


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param('{"shape":[2],"data_offsets":[0,8],"dtype":"F32"}', id="other order"),
        pytest.param('{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":-0}', id="minus zero elsewhere"),
        pytest.param(
            '{"dtype":"F32","shape":[0,1099511627776,1099511627776,2],"data_offsets":[0,0]}', id="empty"
        ),
        pytest.param('{"dtype":"F3\\u0032","shape":[2],"data_offsets":[0,8]}', id="escaped"),
    ],
)
def test_unusual_entries_are_read_as_the_reference_reads_them(entry: str) -> None:
    assert len(parse_header(one_tensor(entry)).tensors) == 1


def test_an_unknown_dtype_is_kept_and_named() -> None:
    file = one_tensor('{"dtype":"F3_X","shape":[8],"data_offsets":[0,3]}')
    header = parse_header(file, file_size=len(file) - 5)
    assert header.unknown_dtypes == ("F3_X",)
    assert header.tensors == (("a", "F3_X", (8,), 0, 3),)


@pytest.mark.parametrize(
    "entry",
    ['{"dtype":"F3_X","shape":[8],"data_offsets":[0,4]}', '{"dtype":"E","shape":[1],"data_offsets":[0,1]}'],
)
def test_an_unknown_dtype_that_its_offsets_contradict_is_refused(entry: str) -> None:
    with pytest.raises(HeaderError, match="'a'"):
        parse_header(one_tensor(entry))


def test_another_spelling_of_a_dtype_is_read() -> None:
    header = parse_header(one_tensor('{"dtype":"E8M0","shape":[8],"data_offsets":[0,8]}'))
    assert header.tensors[0][1] == "E8M0"
    assert header.unknown_dtypes == ()


def test_messages_stay_short_whatever_the_file_holds() -> None:
    name = "x" * 100_000
    file = file_of(f'{{"{name}":{{"dtype":"{name}","shape":[1],"data_offsets":[0,1]}}}}'.encode(), 1)
    with pytest.raises(HeaderError) as caught:
        parse_header(file)
    assert len(caught.value.message) < 400


@given(
    entries(), st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.just("pt"), max_size=2)
)
def test_what_a_writer_wrote_is_read_back(tensors: list[Entry], metadata: dict[str, str]) -> None:
    header = header_of(tensors, metadata)
    file = file_of(header, data_bytes_of(tensors))
    read = parse_header(file, file_size=len(file))
    assert [tensor[:3] for tensor in sorted(read.tensors)] == sorted(tensors)
    assert read.metadata == metadata
    assert read.data_bytes == data_bytes_of(tensors)


@given(entries())
def test_a_list_is_laid_out_as_a_writer_lays_it_out(tensors: list[Entry]) -> None:
    parsed = parse_header(file_of(header_of(tensors)))
    laid_out = lay_out(tensors)
    assert sorted(laid_out.tensors) == sorted(parsed.tensors)
    assert laid_out.data_bytes == parsed.data_bytes


@given(st.binary(max_size=200))
def test_any_bytes_are_a_header_or_an_error(data: bytes) -> None:
    for file in (data, file_of(data)):
        header: Header | None = None
        with suppress(HeaderError):
            header = parse_header(file)
        assert header is None or header.header_bytes <= len(file)


@given(entries(), st.data())
def test_a_damaged_header_is_a_header_or_an_error(tensors: list[Entry], data: st.DataObject) -> None:
    header = bytearray(header_of(tensors))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(len(header) - 1, 0)))
        header[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    try:
        read = parse_header(file_of(bytes(header)))
    except HeaderError:
        return
    assert read.data_bytes == max((tensor[4] for tensor in read.tensors), default=0)
