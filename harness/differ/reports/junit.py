"""The JUnit XML report: one suite, `harness diff`, with the cases `outcome`, `schema` and `rows`.

A difference is a failure, and its text is the text report. Both sides failing is an error of `outcome`; what could not
be compared is skipped.
"""

from __future__ import annotations

from xml.etree import ElementTree

from harness.differ.reports.junit_xml import document, suite
from harness.differ.reports.text import to_text
from harness.differ.reports.verdict import Verdict, counted, differing_rows, sentence, verdict
from harness.differ.result import ComparisonResult, SideInfo
from harness.printable import visible

_SUITE = "harness diff"


def to_junit(comparison: ComparisonResult) -> str:
    """The comparison as a JUnit XML document, for CI servers."""
    cases = [_outcome(comparison), _schema(comparison), _rows(comparison)]
    properties = [*_properties("left", comparison.left), *_properties("right", comparison.right)]
    return document([suite(_SUITE, properties, cases)])


def _outcome(comparison: ComparisonResult) -> ElementTree.Element:
    case = _case("outcome")
    match verdict(comparison):
        case Verdict.FAILED:
            _add(case, "error", "could not compare: both sides failed", comparison)
        case Verdict.OUTCOME:
            _add(case, "failure", sentence(comparison), comparison)
        case Verdict.EQUAL | Verdict.DIFFERENT:
            pass
    return case


def _schema(comparison: ComparisonResult) -> ElementTree.Element:
    case = _case("schema")
    counting = sum(difference.counts for difference in comparison.schema)
    if counting:
        _add(case, "failure", f"{counted(counting, 'column')} of different schema", comparison)
    elif _one_failed(comparison):
        ElementTree.SubElement(case, "skipped", {"message": "a side failed"})
    return case


def _rows(comparison: ComparisonResult) -> ElementTree.Element:
    case = _case("rows")
    if differing := differing_rows(comparison):
        _add(case, "failure", f"{counted(differing, 'row')} of different content", comparison)
    elif _one_failed(comparison):
        ElementTree.SubElement(case, "skipped", {"message": "a side failed"})
    return case


def _one_failed(comparison: ComparisonResult) -> bool:
    return verdict(comparison) in (Verdict.FAILED, Verdict.OUTCOME)


def _case(name: str) -> ElementTree.Element:
    return ElementTree.Element("testcase", {"classname": "harness.diff", "name": name, "time": "0"})


def _add(case: ElementTree.Element, kind: str, message: str, comparison: ComparisonResult) -> None:
    # The text report holds printable characters and line feeds only, all of which XML allows.
    ElementTree.SubElement(case, kind, {"type": verdict(comparison).value, "message": visible(message)}).text = (
        "\n" + to_text(comparison)
    )


def _properties(prefix: str, side: SideInfo) -> list[tuple[str, str]]:
    values = {
        "name": side.name,
        "engine": side.engine,
        "table": side.table,
        "snapshot": side.snapshot,
        "rows": side.rows,
        "error": side.error,
    }
    return [(f"{prefix}.{name}", str(value)) for name, value in values.items() if value is not None]
