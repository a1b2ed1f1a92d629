"""What the page writes down of the core stays true: types of a report, keys of a link, options of a form."""

import re
from pathlib import Path

import pytest

from willitserve import report
from willitserve.record import Record
from willitserve.request import DEFAULTS, KV_DTYPES, PAGE_KEYS, WEIGHTS, read_query

WEB = Path(__file__).resolve().parents[2] / "web"
REPORTS = WEB.parent / "tests" / "web" / "fixtures"
TYPES = (WEB / "report.d.ts").read_text("utf-8")
NOT_OF_THE_PAGE = {"InspectReport", "RoughReport"}
MODELS = [
    model
    for model in vars(report).values()
    if isinstance(model, type) and issubclass(model, Record) and model is not Record
]


def _interface(name: str) -> dict[str, bool]:
    """Fields of an interface, and whether each may be null."""
    found = re.search(rf"export interface {name} \{{(.*?)\n\}}", TYPES, re.DOTALL)
    assert found, f"report.d.ts has no {name}"
    fields = re.findall(r"^  (\w+): (.*);$", found[1], re.MULTILINE)
    return {field: type_.endswith("| null") for field, type_ in fields}


@pytest.mark.parametrize("model", [one for one in MODELS if one.__name__ not in NOT_OF_THE_PAGE])
def test_types_of_the_page_are_those_of_the_report(model: type[Record]) -> None:
    fields = {
        name: field.annotation is not None and type(None) in getattr(field.annotation, "__args__", ())
        for name, field in model.model_fields.items()
    }
    assert _interface(model.__name__) == fields


@pytest.mark.parametrize("path", sorted(REPORTS.glob("*.json")), ids=lambda path: path.stem)
def test_reports_that_the_page_is_tested_with_are_reports(path: Path) -> None:
    assert report.PlanReport.model_validate_json(path.read_bytes()).verdict.sentence


@pytest.mark.parametrize("alias", ["Basis", "VerdictCode", "State", "SegmentKey", "PartName", "CacheShape"])
def test_words_of_the_page_are_those_of_the_report(alias: str) -> None:
    found = re.search(rf"export type {alias} =(.*?);", TYPES, re.DOTALL)
    assert found
    assert tuple(re.findall(r'"([^"]+)"', found[1])) == getattr(report, alias).__args__


def test_every_key_of_a_link_is_one_that_the_core_reads() -> None:
    text = (WEB / "state.js").read_text("utf-8")
    plan_keys = re.search(r"PLAN_KEYS = .*?\(\[(.*?)\]\)", text, re.DOTALL)
    page_keys = re.search(r"PAGE_KEYS = .*?\(\[(.*?)\]\)", text, re.DOTALL)
    assert plan_keys
    assert page_keys
    keys = re.findall(r'"(\w+)"', plan_keys[1])
    assert set(keys) == set(DEFAULTS) | {"model", "gpu"}
    assert set(re.findall(r'"(\w+)"', page_keys[1])) == PAGE_KEYS
    assert all(problem.code != "unknown-key" for problem in read_query(dict.fromkeys(keys, "1")).problems)


@pytest.mark.parametrize(("field", "words"), [("weights", WEIGHTS), ("kv", KV_DTYPES)])
def test_options_of_the_form_are_those_of_the_core(field: str, words: tuple[str, ...]) -> None:
    page = (WEB / "index.html").read_text("utf-8")
    select = re.search(rf'<select id="{field}" name="{field}">(.*?)</select>', page, re.DOTALL)
    assert select
    assert tuple(re.findall(r'<option value="([^"]*)"', select[1])) == words
