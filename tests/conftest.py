"""Fixtures that several folders use, and a summary of what drawn and enumerated histories were."""

import shutil
import time

import pytest
from browsing import BROWSERS, Browser


@pytest.fixture
def clock_ahead(monkeypatch):
    """A clock that is a minute ahead, so that files that were just written count as unchanged since then."""
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + 60_000_000_000)


@pytest.fixture
def browser(tmp_path):
    """A headless browser. The test is skipped if no browser is on PATH."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"no browser on PATH: none of {', '.join(BROWSERS)}")
    return Browser(program, tmp_path)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the numbers of histories and reads that tests record as the property `read`."""
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.getreports(kind)]
    lines = [text for report in reports for name, text in report.user_properties if name == "read"]
    if lines:
        terminalreporter.section("histories and reads")
    for line in lines:
        terminalreporter.line(line)
