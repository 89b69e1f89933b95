"""The JUnit XML report: one suite, `harness diff`, with the cases `outcome`, `schema` and `rows`.

A difference is a failure, and its text is the text report. Both sides failing is an error of `outcome`; what could not
be compared is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree import ElementTree

from harness.differ.reports.text import to_text
from harness.differ.reports.verdict import Verdict, counted, differing_rows, sentence, verdict
from harness.differ.result import ComparisonResult, SideInfo
from harness.errors import visible

# The frame of JUnit XML that all reports share.


_COUNTED = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}


def suite(
    name: str, properties: Iterable[tuple[str, str]], cases: Sequence[ElementTree.Element]
) -> ElementTree.Element:
    """A suite with its numbers; the properties' values may be any text."""
    element = ElementTree.Element("testsuite", {"name": name})
    listed = ElementTree.SubElement(element, "properties")
    for key, value in properties:
        ElementTree.SubElement(listed, "property", {"name": key, "value": visible(value)})
    element.extend(cases)
    element.attrib.update(_numbers(element))
    return element


def document(suites: Sequence[ElementTree.Element]) -> str:
    """The whole document."""
    root = ElementTree.Element("testsuites")
    root.extend(suites)
    root.attrib.update(_numbers(root))
    ElementTree.indent(root)
    # Not as bytes with a declaration of ElementTree's own: that one is written with single quotes.
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _numbers(element: ElementTree.Element) -> dict[str, str]:
    cases = list(element.iter("testcase"))
    numbers = {
        word: str(sum(1 for case in cases if tag == "testcase" or case.find(tag) is not None))
        for word, tag in _COUNTED.items()
    }
    seconds = sum(float(case.get("time", "0")) for case in cases)
    return {**numbers, "time": f"{seconds:.3f}".rstrip("0").rstrip(".") or "0"}


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
