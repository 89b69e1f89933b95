"""Settings and parameters of tests against the reference implementations."""

from collections.abc import Collection, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from harness.suite.scenarios.model import Scenario


def drawn(examples: int) -> settings:
    """Return settings that draw the same histories in every run and do not shrink them, because each step takes
    seconds.
    """
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )


def of_scenarios(scenarios: Sequence[Scenario]) -> list[Any]:
    """Return a parameter for each scenario of one format. Two of three run nightly only, since each takes a second."""
    return [
        pytest.param(each, id=each.name.partition("/")[2], marks=pytest.mark.nightly if place % 3 else ())
        for place, each in enumerate(scenarios)
    ]


def params(names: Collection[str], before_a_merge: Collection[str]) -> list[Any]:
    """Return a parameter for each name. Names that are not in `before_a_merge` run nightly only."""
    assert set(before_a_merge) <= set(names)
    return [pytest.param(name, marks=() if name in before_a_merge else pytest.mark.nightly) for name in names]
