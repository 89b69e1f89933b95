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
    passed = [dict(report.user_properties) for report in terminalreporter.getreports("passed") if _is_case(report)]
    failed = [report for report in terminalreporter.getreports("failed") if _is_case(report)]
    if not passed and not failed:
        return
    errors = sum(properties["corpus_outcome"] == "error" for properties in passed)
    terminalreporter.section("corpus")
    terminalreporter.line(
        f"Iceberg: {len(passed) + len(failed)} cases, {len(passed)} as expected "
        f"({len(passed) - errors} rows, {errors} errors), {len(failed)} exceptions"
    )
    for report in failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        reason = (crash.message if crash is not None else str(report.longrepr)).split("\n")[0]
        terminalreporter.line(f"  {dict(report.user_properties)['corpus_case']}: {reason}")


def _is_case(report: object) -> bool:
    return isinstance(report, pytest.TestReport) and "corpus_case" in dict(report.user_properties)
