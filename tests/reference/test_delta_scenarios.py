"""Every Delta scenario, built by harness and read by Delta Lake."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from delta_differences import DIFFERENCES
from drawn.strategies import DrawnHistory, histories
from hypothesis import given
from hypothesis import strategies as st
from reference_runs import drawn, of_scenarios
from reference_scenarios import Reference

from harness.testing.scenarios.loading import find
from harness.testing.scenarios.model import Scenario

pytestmark = pytest.mark.reference

KINDS = ("delta",)
SCENARIOS = find("delta/*")
NOT_ASKED = frozenset({"_file", "_pos", "_spec_id", "_partition", "_deleted"})


@pytest.fixture(scope="module")
def delta(delta_spark: Any) -> Reference:
    """The suite's reader of Delta Lake, in a session beside the tests' own."""
    from harness.testing.conformance import other_readers as readers

    session = readers.beside(delta_spark, "delta")

    def feed(location: str, versions: tuple[int, int]) -> Any:
        options = {"readChangeFeed": "true", "startingVersion": versions[0], "endingVersion": versions[1]}
        return session.read.format("delta").options(**options).load(location)

    reader = readers.SparkReference("delta", session)
    return Reference("Delta", reader, readers.Unsupported, DIFFERENCES, NOT_ASKED, feed)


@pytest.mark.parametrize("scenario", of_scenarios(SCENARIOS))
def test_harness_writes_and_delta_reads(
    scenario: Scenario, delta: Reference, tmp_path: Path, counted: Counter[str]
) -> None:
    delta.check(scenario, tmp_path, counted)


@pytest.mark.nightly
@drawn(8)
@given(history=st.sampled_from(KINDS).flatmap(histories))
def test_harness_draws_and_delta_reads(
    history: DrawnHistory, delta: Reference, tmp_path_factory: pytest.TempPathFactory, counted: Counter[str]
) -> None:
    delta.check_drawn(history, tmp_path_factory.mktemp("drawn"), counted)


def test_delta_differences_are_of_scenarios_that_exist() -> None:
    assert {key.partition("#")[0] for key in DIFFERENCES} <= {scenario.name for scenario in SCENARIOS}
