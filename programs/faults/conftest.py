"""The summary of the planted faults."""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.getreports(kind)]
    planted = [(r, dict(r.user_properties)) for r in reports if "caught_by" in dict(r.user_properties)]
    if not planted:
        return
    terminalreporter.section("faults")
    for report, properties in planted:
        fault = report.nodeid.partition("[")[2].removesuffix("]")
        terminalreporter.line(f"{properties['caught_by'] or 'NOTHING'} caught: {fault}")
    missed = sum(properties["caught_by"] is None for _, properties in planted)
    terminalreporter.line(f"caught {len(planted) - missed}/{len(planted)} planted faults")
