"""URL keys to a typed request: bad values are named, the rest applies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from willitserve.request import MAX_TEXT, read_query, shown


def test_a_whole_query_is_read() -> None:
    request = read_query(
        {
            "model": "Qwen/Qwen3-8B",
            "gpu": "l4-24gb",
            "users": "16",
            "context": "8,192",
            "weights": "FP8",
            "kv": "fp8",
            "tp": "2",
            "util": "0.95",
            "eager": "1",
        }
    )
    assert request.problems == ()
    assert (request.model, request.gpu, request.users, request.context) == (
        "Qwen/Qwen3-8B",
        "l4-24gb",
        16,
        8192,
    )
    assert (request.weights, request.kv, request.tp, request.util, request.eager) == (
        "fp8",
        "fp8",
        2,
        0.95,
        True,
    )


@pytest.mark.parametrize(
    ("key", "text"),
    [
        pytest.param("users", "0", id="no user"),
        pytest.param("users", "-1", id="negative"),
        pytest.param("users", "1e3", id="exponent"),
        pytest.param("users", "1000001", id="above the limit"),
        pytest.param("users", "١٦", id="digits of another script"),
        pytest.param("context", "-1", id="negative context"),
        pytest.param("context", "8k", id="unit"),
        pytest.param("tp", "1.5", id="fraction"),
        pytest.param("util", "0", id="share of nothing"),
        pytest.param("util", "1.01", id="more than the card"),
        pytest.param("util", "nan", id="not a number"),
        pytest.param("mem", "inf", id="infinite"),
        pytest.param("weights", "q4_k_m", id="format that is not planned"),
        pytest.param("kv", "<img src=x>", id="markup"),
        pytest.param("dtype", "bf17", id="no dtype"),
        pytest.param("eager", "maybe", id="no flag"),
        pytest.param("model", "x" * (MAX_TEXT + 1), id="too long"),
    ],
)
def test_a_bad_value_is_named_and_its_default_applies(key: str, text: str) -> None:
    request = read_query({"gpu": "h100-sxm5-80gb", key: text})
    assert [problem.field for problem in request.problems] == [key]
    assert request.gpu == "h100-sxm5-80gb"
    default = read_query({})
    name = "mem_gib" if key == "mem" else key
    assert getattr(request, name) == getattr(default, name)


def test_an_unknown_key_is_named() -> None:
    (problem,) = read_query({"colour": "red"}).problems
    assert problem.code == "unknown-key"
    assert "colour" in problem.sentence


def test_keys_of_the_page_are_left_to_it() -> None:
    assert read_query({"embed": "1", "theme": "dark", "endpoint": "https://hub.example"}).problems == ()


def test_empty_values_are_defaults() -> None:
    assert read_query({"users": "", "context": " "}).problems == ()


def test_what_is_shown_of_a_hostile_value_is_one_short_line() -> None:
    text = shown("a\nb\x00" + "c" * 500)
    assert len(text) <= 60
    assert text.startswith("a?b?c")


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=400), max_size=8))
def test_no_query_raises(query: dict[str, str]) -> None:
    request = read_query(query)
    assert request.users >= 1
    assert request.tp >= 1
    for problem in request.problems:
        assert len(problem.sentence) < 400
