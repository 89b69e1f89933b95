"""Test profiles, and the summary of the corpus run."""

from __future__ import annotations

import os

import hypothesis
import pytest

# A shared machine's pauses are no failures of a test. Where CI is set, Hypothesis loads a profile of its own.
hypothesis.settings.register_profile("harness", deadline=None)
if "CI" not in os.environ:
    hypothesis.settings.load_profile("harness")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    passed, excepted, failed = (
        [report for report in terminalreporter.getreports(kind) if _is_case(report)]
        for kind in ("passed", "xfailed", "failed")
    )
    count = len(passed) + len(excepted) + len(failed)
    if count == 0:
        return
    errors = sum(_properties(report)["corpus_outcome"] == "error" for report in passed)
    terminalreporter.section("corpus")
    terminalreporter.line(
        f"Iceberg: {count} cases, {len(passed)} as expected ({len(passed) - errors} rows, {errors} errors), "
        f"{len(excepted)} exceptions, {len(failed)} failed"
    )
    for report in excepted:
        terminalreporter.line(f"  exception {_properties(report)['corpus_case']}: {report.wasxfail}")
    for report in failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        reason = (crash.message if crash is not None else str(report.longrepr)).split("\n")[0]
        terminalreporter.line(f"  failed {_properties(report)['corpus_case']}: {reason}")


def _properties(report: pytest.TestReport) -> dict[str, object]:
    return dict(report.user_properties)


def _is_case(report: object) -> bool:
    return isinstance(report, pytest.TestReport) and "corpus_case" in _properties(report)
