"""The JUnit XML report: a suite for each engine, with a case for each scenario.

FAIL is a failure, ERROR an error, UNSUPPORTED, OPEN, SKIP and XFAIL are skipped with their reason. XPASS passes; the
text of its case says that it is on the list of expected failures.
"""

from __future__ import annotations

from typing import assert_never
from xml.etree import ElementTree

from harness.conformance.outcomes import Outcome
from harness.conformance.reports.wording import lines_of, summary_of
from harness.conformance.results import Case, EngineInfo, Run
from harness.differ.reports.junit_xml import document, suite
from harness.printable import visible


def to_junit(run: Run) -> str:
    """The run as a JUnit XML document, for CI servers."""
    return document([_suite(run, engine) for engine in run.engines])


def _suite(run: Run, engine: EngineInfo) -> ElementTree.Element:
    properties = [("engine", engine.name), ("version", engine.version), ("verified", str(run.share(engine)))]
    cases = [_case(case) for case in run.cases if case.engine is engine]
    return suite(visible(f"harness.{engine.name}"), [*properties, *run.environment.items()], cases)


def _case(case: Case) -> ElementTree.Element:
    place = {"classname": visible(f"harness.{case.engine.name}"), "name": visible(case.scenario.name)}
    element = ElementTree.Element("testcase", {**place, "time": f"{case.seconds:.3f}"})
    match case.outcome:
        case Outcome.PASS:
            pass
        case Outcome.XPASS:
            ElementTree.SubElement(element, "system-out").text = _body(case)
        case Outcome.FAIL:
            _add(element, "failure", case)
        case Outcome.ERROR:
            _add(element, "error", case)
        case Outcome.UNSUPPORTED | Outcome.OPEN | Outcome.SKIP | Outcome.XFAIL:
            message = f"{case.outcome.value}: {_reason(case)}"
            ElementTree.SubElement(element, "skipped", {"message": visible(message)})
        case _:
            assert_never(case.outcome)
    return element


def _reason(case: Case) -> str:
    return summary_of(case) if case.expected is None else case.expected.reason


def _add(element: ElementTree.Element, kind: str, case: Case) -> None:
    attributes = {"type": case.outcome.value, "message": summary_of(case)}
    ElementTree.SubElement(element, kind, attributes).text = _body(case)


def _body(case: Case) -> str:
    """Printable characters and line feeds only, all of which XML allows."""
    lines = [visible(case.scenario.title), *lines_of(case), visible(f"again: {case.command}")]
    return "\n" + "\n".join(lines) + "\n"
