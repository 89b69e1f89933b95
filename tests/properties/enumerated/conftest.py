"""Options of the enumerated tests: the length of words and the engines; and a summary of the reads."""

from collections.abc import Sequence

import pytest

from harness.testing.plugin import MARKER, engines_of


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--length", type=int, default=3, help="the most operations of a small history (3)")


def pytest_itemcollected(item: pytest.Item) -> None:
    if "engines" in getattr(item, "fixturenames", ()) and "spark" in engines_of(item.config):
        item.add_marker(MARKER)  # the marker starts Spark


@pytest.fixture
def engines(request: pytest.FixtureRequest) -> Sequence[str]:
    """Return the readers: the engines of the test run, and the oracle."""
    return tuple(dict.fromkeys((*engines_of(request.config), "oracle")))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.getreports(kind)]
    lines = [text for report in reports for name, text in report.user_properties if name == "read"]
    if lines:
        terminalreporter.section("enumerated histories and pairs")
    for line in lines:
        terminalreporter.line(line)
