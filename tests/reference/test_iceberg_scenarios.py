"""Every Iceberg scenario, built by harness and read by Apache Iceberg's own reader for Spark."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from drawn.strategies import DrawnHistory, histories
from hypothesis import given
from hypothesis import strategies as st
from iceberg_differences import DIFFERENCES
from reference_runs import drawn, of_scenarios
from reference_scenarios import Reference

from harness.testing.scenarios.loading import find
from harness.testing.scenarios.model import Scenario

pytestmark = pytest.mark.reference

KINDS = ("iceberg-1", "iceberg-2", "iceberg-3")
LACKING = re.compile(r"\b(time|timestamp_ns|timestamptz_ns|geometry|unknown)\b")
"""Types that Iceberg has not in Spark."""
SCENARIOS = find("iceberg/*")


@pytest.fixture(scope="module")
def iceberg(iceberg_spark: Any) -> Reference:
    """The suite's reader of Apache Iceberg, in a session beside the tests' own."""
    from harness.testing.conformance import other_readers as readers

    session = readers.beside(iceberg_spark, "iceberg")
    return Reference("Iceberg", readers.SparkReference("iceberg", session), readers.Unsupported, DIFFERENCES)


@pytest.mark.parametrize("scenario", of_scenarios(SCENARIOS))
def test_harness_writes_and_iceberg_reads(
    scenario: Scenario, iceberg: Reference, tmp_path: Path, counted: Counter[str]
) -> None:
    iceberg.check(scenario, tmp_path, counted)


def in_spark(history: DrawnHistory) -> bool:
    """Whether Spark has all types of a history."""
    return LACKING.search(repr((history.table, history.operations))) is None


@pytest.mark.nightly
@drawn(30)
@given(history=st.sampled_from(KINDS).flatmap(histories).filter(in_spark))
def test_harness_draws_and_iceberg_reads(
    history: DrawnHistory, iceberg: Reference, tmp_path_factory: pytest.TempPathFactory, counted: Counter[str]
) -> None:
    iceberg.check_drawn(history, tmp_path_factory.mktemp("drawn"), counted)


def test_iceberg_differences_are_of_scenarios_that_exist() -> None:
    assert {key.partition("#")[0] for key in DIFFERENCES} <= {scenario.name for scenario in SCENARIOS}
