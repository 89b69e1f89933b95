"""How tests against the reference implementations run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

MARKS = [
    pytest.mark.reference,
    pytest.mark.filterwarnings("ignore:.*unclosed <socket:ResourceWarning"),  # PySpark's toArrow leaves them open
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


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


def params(histories: Sequence[Any], before_a_merge: Collection[str]) -> list[Any]:
    """A parameter for each history by its name; those that are not named wait for the night."""
    assert set(before_a_merge) <= {history.name for history in histories}
    return [
        pytest.param(each, id=each.name, marks=() if each.name in before_a_merge else pytest.mark.nightly)
        for each in histories
    ]
