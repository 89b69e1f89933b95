"""Reports for programs: JSON, JUnit XML and GitHub annotations.

`docs/reference/json.md` describes the keys of the JSON report. Snapshot ids beyond ±2^53 are texts, because JSON
readers would round them. Unprintable characters are escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TypeVar
from xml.etree import ElementTree

from harness.diff.reports.text import to_text
from harness.diff.result import ComparisonResult, SideInfo
from harness.errors import HarnessError, counted, json_text, visible

T = TypeVar("T")

FORMAT = 1
_EXACT = 2**53
_MOST = 10


def to_json(comparison: ComparisonResult) -> str:
    """Return the comparison as a JSON document."""
    document = {
        "format": FORMAT,
        "kind": "comparison",
        "verdict": comparison.outcome.value,
        "summary": comparison.sentence,
        "made": comparison.made and asdict(comparison.made),
        "left": _side(comparison.left),
        "right": _side(comparison.right),
        "columns": comparison.columns,
        "keys": comparison.keys,
        "schema": [
            {**asdict(each), "kind": each.kind.name.lower(), "counts": each.counts} for each in comparison.schema
        ],
        "only_left": comparison.only_left,
        "only_right": comparison.only_right,
        "changed": comparison.changed,
        "truncated": comparison.truncated,
        "allowed": comparison.allowed,
        "relaxations": comparison.relaxations,
        "schema_only": comparison.schema_only,
        "by_column": [asdict(column) for column in comparison.by_column],
        "grouped_by": comparison.grouped_by,
        "groups": comparison.groups,
        "by_group": [asdict(group) for group in comparison.by_group],
        "by_key": comparison.by_key and asdict(comparison.by_key),
        "by_file": comparison.by_file and asdict(comparison.by_file),
        "rows": [{**asdict(row), "kind": row.kind.name.lower()} for row in comparison.rows],
    }
    return json_text(document, indent=2) + "\n"


def _side(side: SideInfo) -> dict[str, object]:
    return {
        "name": side.name,
        "engine": side.engine,
        "table": side.table,
        "snapshot": snapshot_id(side.snapshot),
        "rows": side.rows,
        "error": error_document(side.error),
    }


def snapshot_id(number: int | None) -> int | str | None:
    """Return a snapshot id or version, as text if JSON readers would round it."""
    return number if number is None or -_EXACT <= number <= _EXACT else str(number)


def error_document(error: HarnessError | None) -> dict[str, object] | None:
    """Return an error as a JSON object, or None if there is no error."""
    if error is None:
        return None
    return {"class": type(error).__name__, "cause": error.cause, "rule": error.rule, "message": str(error)}


_COUNTED = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}


def suite(
    name: str, properties: Iterable[tuple[str, str]], cases: Sequence[ElementTree.Element]
) -> ElementTree.Element:
    """Return a JUnit suite with its counts. The values of properties may be any text."""
    element = ElementTree.Element("testsuite", {"name": name})
    container = ElementTree.SubElement(element, "properties")
    for key, value in properties:
        ElementTree.SubElement(container, "property", {"name": key, "value": visible(value)})
    element.extend(cases)
    element.attrib.update(_numbers(element))
    return element


def document(suites: Sequence[ElementTree.Element]) -> str:
    """Return the whole XML document."""
    root = ElementTree.Element("testsuites")
    root.extend(suites)
    root.attrib.update(_numbers(root))
    ElementTree.indent(root)
    # ElementTree writes its own XML declaration with single quotes.
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _numbers(element: ElementTree.Element) -> dict[str, str]:
    cases = list(element.iter("testcase"))
    numbers = {
        word: str(sum(1 for case in cases if tag == "testcase" or case.find(tag) is not None))
        for word, tag in _COUNTED.items()
    }
    seconds = sum(float(case.get("time", "0")) for case in cases)
    return {**numbers, "time": f"{seconds:.3f}".rstrip("0").rstrip(".") or "0"}


def to_junit(comparison: ComparisonResult) -> str:
    """Return the comparison as a JUnit XML document for CI servers.

    The suite `harness diff` has the cases `outcome`, `schema`, and `rows`. A difference is a failure with the text
    report. If both sides fail, `outcome` is an error. Cases that could not be compared are skipped.
    """
    outcome = None
    if comparison.failed:
        outcome = f"could not compare: {comparison.sentence}"
    elif comparison.outcomes_differ:
        outcome = comparison.sentence
    counting, differing = comparison.counted_schema_differences, comparison.differing
    schema = f"{counted(counting, 'column')} of different schema" if counting else None
    rows = f"{counted(differing, 'row')} of different content" if differing else None
    cases = [
        _case(name, message, comparison) for name, message in (("outcome", outcome), ("schema", schema), ("rows", rows))
    ]
    properties = [
        (f"{label}.{name}", str(value))
        for label, side in (("left", comparison.left), ("right", comparison.right))
        for name, value in {**_side(side), "error": side.error}.items()
        if value is not None
    ]
    return document([suite("harness diff", properties, cases)])


def _case(name: str, message: str | None, comparison: ComparisonResult) -> ElementTree.Element:
    """Return a case that fails with a message or, if there is no message, passes or is skipped."""
    case = ElementTree.Element("testcase", {"classname": "harness.diff", "name": name, "time": "0"})
    if message is not None:
        text = {"type": comparison.outcome.value, "message": visible(message)}
        result = ElementTree.SubElement(case, "error" if comparison.failed else "failure", text)
        result.text = "\n" + to_text(comparison)  # only printable characters and line feeds, which XML allows
    elif name != "outcome" and (comparison.failed or comparison.outcomes_differ):
        ElementTree.SubElement(case, "skipped", {"message": "a side failed"})
    elif name == "rows" and comparison.schema_only:
        ElementTree.SubElement(case, "skipped", {"message": "schemas alone were compared"})
    return case


def annotation(level: str, text: str, **properties: str) -> str:
    """Return a GitHub workflow command that makes an annotation, as one line.

    Args:
        level: `error`, `warning`, or `notice`.
        text: The annotation's text.
        properties: The annotation's properties, for example `file` and `line`.
    """
    parameters = ",".join(f"{name}={_escaped(value, ':', ',')}" for name, value in properties.items())
    return f"::{level} {parameters}::{_escaped(text)}"


def limit_annotations(items: Sequence[T], line: Callable[[T], str], more: Callable[[int], str]) -> Iterator[str]:
    """Yield the annotations of one level, at most ten, because GitHub shows at most ten of a level per step.

    Args:
        items: The items to annotate.
        line: A function that returns the annotation of an item.
        more: A function that returns the tenth annotation, which says how many items are left.
    """
    first_items = items if len(items) <= _MOST else items[: _MOST - 1]
    yield from map(line, first_items)
    if omitted_count := len(items) - len(first_items):
        yield more(omitted_count)


def _escaped(text: str, *more: str) -> str:
    for mark in ("%", "\r", "\n", *more):
        text = text.replace(mark, f"%{ord(mark):02X}")
    return text
