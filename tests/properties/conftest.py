"""Options of the property tests: the engines, the directory for failures, and the number of examples in reports."""

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from drawn.repro import reproducing
from hypothesis.statistics import collector


@pytest.fixture
def repro(request):
    """Run a property so that a failure leaves a repro directory in the directory of --harness-repro."""
    place = request.config.getoption("--harness-repro", None) or os.environ.get("HARNESS_REPRO")
    return lambda: reproducing(None if place is None else Path(place))


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Add `examples` to a report's properties, which JUnit reports show too. Hypothesis' own count stays."""
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
