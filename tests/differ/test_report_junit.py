from __future__ import annotations

from xml.etree import ElementTree

import pytest
from comparing import ALL, CUT, EQUAL, FAILED, KEYED, OUTCOME, UNKEYED, with_value

from harness.differ.reports.documents import to_junit
from harness.differ.reports.text import to_text


def suite(comparison) -> ElementTree.Element:
    document = ElementTree.fromstring(to_junit(comparison).encode("utf-8"))
    assert document.tag == "testsuites"
    (only,) = document
    return only


def outcomes(comparison) -> dict[str, str]:
    """The kind of child of each case; `passed` where it has none."""
    return {case.get("name"): case[0].tag if len(case) else "passed" for case in suite(comparison).iter("testcase")}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("equal", {"outcome": "passed", "schema": "passed", "rows": "passed"}),
        ("keyed", {"outcome": "passed", "schema": "failure", "rows": "failure"}),
        ("unkeyed", {"outcome": "passed", "schema": "passed", "rows": "failure"}),
        ("outcome", {"outcome": "failure", "schema": "skipped", "rows": "skipped"}),
        ("failed", {"outcome": "error", "schema": "skipped", "rows": "skipped"}),
    ],
)
def test_cases(name, expected):
    assert outcomes(ALL[name]) == expected


@pytest.mark.parametrize("comparison", [KEYED, UNKEYED, OUTCOME, FAILED, CUT], ids=lambda c: c.right.engine)
def test_failures_carry_the_text_report(comparison):
    problems = [child for case in suite(comparison).iter("testcase") for child in case if child.tag != "skipped"]
    assert problems
    assert all(problem.text == "\n" + to_text(comparison) for problem in problems)


def test_properties_name_the_sides():
    properties = {p.get("name"): p.get("value") for p in suite(OUTCOME).iter("property")}
    assert properties["left.engine"] == "duckdb 2.0.0"
    assert properties["left.snapshot"] == "4"
    assert properties["right.error"] == "Cannot run the plan: executor lost [Engine; table lake/orders]"
    assert "left.error" not in properties
    assert "left.error" not in {p.get("name") for p in suite(EQUAL).iter("property")}


@pytest.mark.parametrize("value", ["\x00", "\x1b", "\ufffe", "\ud800", "]]>", "<a b='c'>&amp;\"", "a\nb\tc"], ids=ascii)
def test_every_value_makes_valid_xml(value):
    comparison = with_value(value)
    failure = next(suite(comparison).iter("failure"))
    assert failure.text == "\n" + to_text(comparison)
