"""The frame of JUnit XML that all reports share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree import ElementTree

from harness.printable import visible

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
