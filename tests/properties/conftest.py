"""Who reads the tables of property tests, where their failures are left, and how many examples each ran."""

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from drawn.repro import reproducing
from hypothesis.statistics import collector


@pytest.fixture
def repro(request):
    """Wraps a property: a failure leaves a repro directory where --harness-repro says."""
    place = request.config.getoption("--harness-repro", None) or os.environ.get("HARNESS_REPRO")
    return lambda: reproducing(None if place is None else Path(place))


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Adds `examples` to a report's properties, which a JUnit report shows too; Hypothesis' own count stays."""
    runs: list[Any] = []
    outer = collector.value

    def note(statistics: Any) -> None:
        runs.append(statistics)
        if outer is not None:
            outer(statistics)

    with collector.with_value(note):
        try:
            return (yield)
        finally:
            phases = [phase for run in runs for phase in run.values() if isinstance(phase, dict)]
            cases = [case for phase in phases for case in phase.get("test-cases", ())]
            whole = sum(case["status"] in ("valid", "interesting") for case in cases)
            item.user_properties.append(("examples", whole))
