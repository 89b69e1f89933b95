"""How tests against the reference implementations run."""

from collections.abc import Collection, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from harness.suite.scenarios.model import Scenario


def drawn(examples: int) -> settings:
    """The same histories in every run, none of them shrunk: each step of one takes seconds."""
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )


def of_scenarios(scenarios: Sequence[Scenario]) -> list[Any]:
    """A parameter for each scenario of one format; two of three wait for the night, since each takes a second."""
    return [
        pytest.param(each, id=each.name.partition("/")[2], marks=pytest.mark.nightly if place % 3 else ())
        for place, each in enumerate(scenarios)
    ]


def params(names: Collection[str], before_a_merge: Collection[str]) -> list[Any]:
    """A parameter for each name; those that are not of the others wait for the night."""
    assert set(before_a_merge) <= set(names)
    return [pytest.param(name, marks=() if name in before_a_merge else pytest.mark.nightly) for name in names]
