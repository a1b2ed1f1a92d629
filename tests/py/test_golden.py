"""Whole answers, word for word (`tests/golden/update.py` writes them anew); browser tests ask the same."""

import json
from pathlib import Path

import pytest

from golden.update import golden_text

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
REQUESTS: dict[str, dict[str, str]] = json.loads((GOLDEN / "requests.json").read_text("utf-8"))


@pytest.mark.parametrize("name", REQUESTS)
def test_the_answer_is_the_one_that_was_read_and_accepted(name: str) -> None:
    expected = (GOLDEN / "reports" / f"{name}.json").read_text("utf-8")
    assert golden_text(REQUESTS[name]) == expected


def test_no_report_is_left_of_a_request_that_is_gone() -> None:
    assert {path.stem for path in (GOLDEN / "reports").glob("*.json")} == set(REQUESTS)
