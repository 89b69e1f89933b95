"""The JSON and JUnit reports of a run.

The keys of the JSON report are stable:

format        1; changes if a key is removed or changes its meaning
kind          "run"
summary       the counts in a sentence, for people
environment   versions, and other properties that results may depend on
engines       name, version, argument (its name on the command line), counts by outcome, and
              score: the numbers of reads that are wrong, broken, right, failed, and declined, and of reads that follow
              harness's policies (kept) out of all (policies); formats: the same by format
missing       by name of an engine that could not run, the reason
meanings      the meaning of each feature in one line
unused        lines of lists that match nothing: pattern, reason, file, line
features      by name, by engine: counts by outcome
scenarios     name, title, format, clauses, features, file, story (the text of the file), reads, policies, and
              expected: number, read, demand (must, policy or open), why, error, columns, rows (the first), count
cases         engine, scenario, outcome, command, seconds, listed (reason, file, line) or null, and checks: number,
              read, outcome, policy, message, notes, seconds, difference (see
              `harness.diff.reports.documents`) or null
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import assert_never
from xml.etree import ElementTree

from harness.diff.reports.documents import document, suite
from harness.diff.reports.documents import to_json as difference_to_json
from harness.errors import json_text, visible
from harness.suite.reports.text import case_lines, case_summary, headline
from harness.suite.results import Case, Check, EngineInfo, Outcome, Run

FORMAT = 1


def to_json(run: Run) -> str:
    """Return the run as one JSON document; the module's docstring lists the keys."""
    document = {
        "format": FORMAT,
        "kind": "run",
        "summary": headline(run),
        "seconds": round(run.seconds, 3),
        "environment": dict(run.environment),
        "engines": [_engine(run, engine) for engine in run.engines],
        "missing": dict(run.missing),
        "meanings": dict(run.meanings),
        "unused": [asdict(line) for line in run.unused_lines],
        "features": {
            feature: {
                e.name: _counts(Counter(case.outcome for case in run.cases_with_feature(feature, e)))
                for e in run.engines
            }
            for feature in run.features()
        },
        "scenarios": [{k: v for k, v in asdict(each).items() if k != "argument"} for each in run.scenarios],
        "cases": [_case(case) for case in run.cases],
    }
    return json_text(document, indent=2) + "\n"


def _counts(counts: Counter[Outcome]) -> dict[str, int]:
    return {outcome.value: counts[outcome] for outcome in Outcome if counts[outcome]}


def _engine(run: Run, engine: EngineInfo) -> dict[str, object]:
    return {
        "name": engine.name,
        "version": engine.version,
        "argument": engine.argument,
        "counts": _counts(run.counts(engine)),
        "score": asdict(run.score(engine)),
        "formats": {format_: asdict(run.score(engine, format_)) for format_ in run.formats()},
    }


def _case(case: Case) -> dict[str, object]:
    return {
        "engine": case.engine.name,
        "scenario": case.scenario.name,
        "outcome": case.outcome.value,
        "command": case.command,
        "seconds": round(case.seconds, 3),
        "listed": None if case.expected is None else asdict(case.expected),
        "checks": [_check(check) for check in case.checks],
    }


def _check(check: Check) -> dict[str, object]:
    return {
        "number": check.number,
        "read": check.read,
        "outcome": check.outcome.value,
        "policy": check.policy,
        "message": check.message,
        "notes": check.notes,
        "seconds": round(check.seconds, 3),
        "difference": None if check.comparison is None else json.loads(difference_to_json(check.comparison)),
    }


def to_junit(run: Run) -> str:
    """Return the run as a JUnit XML document: a test suite for each engine, with a test case for each scenario.

    FAIL and XPASS are failures, and ERROR is an error. UNSUPPORTED, POLICY, OPEN, SKIP and XFAIL are skipped with their
    reason.
    """
    suites = []
    for engine in run.engines:
        properties = [("engine", engine.name), ("version", engine.version), ("score", str(run.score(engine)))]
        cases = [_junit_case(case) for case in run.cases if case.engine is engine]
        suites.append(suite(visible(f"harness.{engine.name}"), [*properties, *run.environment.items()], cases))
    return document(suites)


def _junit_case(case: Case) -> ElementTree.Element:
    place = {"classname": visible(f"harness.{case.engine.name}"), "name": visible(case.scenario.name)}
    element = ElementTree.Element("testcase", {**place, "time": f"{case.seconds:.3f}"})
    match case.outcome:
        case Outcome.PASS:
            pass
        case Outcome.FAIL | Outcome.XPASS:
            _add(element, "failure", case)
        case Outcome.ERROR:
            _add(element, "error", case)
        case Outcome.UNSUPPORTED | Outcome.POLICY | Outcome.OPEN | Outcome.SKIP | Outcome.XFAIL:
            reason = case_summary(case) if case.expected is None else case.expected.reason
            message = f"{case.outcome.value}: {reason}"
            ElementTree.SubElement(element, "skipped", {"message": visible(message)})
        case _:
            assert_never(case.outcome)
    return element


def _add(element: ElementTree.Element, kind: str, case: Case) -> None:
    attributes = {"type": case.outcome.value, "message": case_summary(case)}
    ElementTree.SubElement(element, kind, attributes).text = _body(case)


def _body(case: Case) -> str:
    """Return the text of a failure, with only printable characters and line feeds, which XML allows."""
    lines = [visible(case.scenario.title), *case_lines(case), visible(f"again: {case.command}")]
    return "\n" + "\n".join(lines) + "\n"
