"""The JSON report: everything that a run found, under keys that stay.

format        1; changes when a key changes its meaning or goes
kind          "conformance"
summary       the counts in a sentence, for people
environment   versions, and what else results may depend on
engines       name, version, asked (by what name it was asked for), counts by outcome, verified, reads
missing       by name of an engine that could not run, why
unused        lines of lists that nothing matches: pattern, reason, file, line
features      by name, by engine: counts by outcome
scenarios     name, title, format, clauses, features, file, reads
cases         engine, scenario, outcome, command, seconds, listed (reason, file, line) or null, and checks: number,
              read, outcome, message, notes, seconds, difference (see `harness.differ.reports.json_report`) or null
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from harness.conformance.outcomes import Check, Expected, Outcome
from harness.conformance.reports.wording import headline
from harness.conformance.results import Case, EngineInfo, Run, ScenarioInfo
from harness.differ.reports.json_report import to_json as difference_to_json
from harness.printable import json_text

FORMAT = 1


def to_json(run: Run) -> str:
    """The run as one JSON document, see the module's table."""
    document = {
        "format": FORMAT,
        "kind": "conformance",
        "summary": headline(run),
        "seconds": round(run.seconds, 3),
        "environment": dict(run.environment),
        "engines": [_engine(run, engine) for engine in run.engines],
        "missing": dict(run.missing),
        "unused": [_line(line) for line in run.unused],
        "features": {feature: _feature(run, feature) for feature in run.features()},
        "scenarios": [_scenario(scenario) for scenario in run.scenarios],
        "cases": [_case(case) for case in run.cases],
    }
    return json_text(document, indent=2) + "\n"


def _counts(counts: Counter[Outcome]) -> dict[str, int]:
    return {outcome.value: counts[outcome] for outcome in Outcome if counts[outcome]}


def _engine(run: Run, engine: EngineInfo) -> dict[str, Any]:
    share = run.share(engine)
    return {
        "name": engine.name,
        "version": engine.version,
        "asked": engine.asked,
        "counts": _counts(run.counts(engine)),
        "verified": share.verified,
        "reads": share.reads,
    }


def _feature(run: Run, feature: str) -> dict[str, Any]:
    return {
        engine.name: _counts(Counter(case.outcome for case in run.of_feature(feature, engine)))
        for engine in run.engines
    }


def _scenario(scenario: ScenarioInfo) -> dict[str, Any]:
    return {
        "name": scenario.name,
        "title": scenario.title,
        "format": scenario.format,
        "clauses": scenario.clauses,
        "features": scenario.features,
        "file": scenario.file,
        "reads": scenario.reads,
    }


def _case(case: Case) -> dict[str, Any]:
    return {
        "engine": case.engine.name,
        "scenario": case.scenario.name,
        "outcome": case.outcome.value,
        "command": case.command,
        "seconds": round(case.seconds, 3),
        "listed": None if case.expected is None else _line(case.expected),
        "checks": [_check(check) for check in case.checks],
    }


def _check(check: Check) -> dict[str, Any]:
    return {
        "number": check.number,
        "read": check.read,
        "outcome": check.outcome.value,
        "message": check.message,
        "notes": check.notes,
        "seconds": round(check.seconds, 3),
        "difference": None if check.comparison is None else json.loads(difference_to_json(check.comparison)),
    }


def _line(line: Expected) -> dict[str, Any]:
    return {"pattern": line.pattern, "reason": line.reason, "file": line.file, "line": line.line}
