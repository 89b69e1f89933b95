"""Options of the enumerated tests: the length of words and the engines."""

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
