"""The summary of the mutation check."""

from __future__ import annotations

from collections import Counter

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.getreports(kind)]
    seeded = [dict(r.user_properties) for r in reports if "caught_by" in dict(r.user_properties)]
    if not seeded:
        return
    by_suite = Counter(found["caught_by"] for found in seeded)
    missed = by_suite.pop(None, 0)
    shown = ", ".join(f"{count} by {suite}" for suite, count in sorted(by_suite.items()))
    terminalreporter.section("mutations")
    terminalreporter.line(f"caught {len(seeded) - missed}/{len(seeded)} seeded faults: {shown}")
