"""The summary of the planted faults."""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.getreports(kind)]
    seeded = [(r, dict(r.user_properties)) for r in reports if "caught_by" in dict(r.user_properties)]
    if not seeded:
        return
    terminalreporter.section("faults")
    for report, found in seeded:
        fault = report.nodeid.partition("[")[2].removesuffix("]")
        terminalreporter.line(f"{found['caught_by'] or 'NOTHING'} caught: {fault}")
    missed = sum(found["caught_by"] is None for _, found in seeded)
    terminalreporter.line(f"caught {len(seeded) - missed}/{len(seeded)} planted faults")
