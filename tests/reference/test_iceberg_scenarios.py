"""Every Iceberg scenario, built by harness and read by Apache Iceberg's own reader for Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from iceberg_differences import DIFFERENCES
from reference_runs import MARKS
from reference_scenarios import Reference

from harness.testing.scenarios.loading import find
from harness.testing.scenarios.model import Scenario

pytestmark = MARKS

SCENARIOS = find("iceberg/*")


@pytest.fixture(scope="module")
def iceberg(iceberg_spark: Any) -> Reference:
    """The suite's reader of Apache Iceberg, in a session beside the tests' own."""
    from harness.conformance.readers import spark_reference_reader as readers

    session = readers.beside(iceberg_spark, "iceberg")
    return Reference("Iceberg", readers.Reader("iceberg", lambda: session), readers.Unsupported, DIFFERENCES)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[each.name.removeprefix("iceberg/") for each in SCENARIOS])
def test_harness_writes_and_iceberg_reads(
    scenario: Scenario, iceberg: Reference, tmp_path: Path, counted: Counter[str]
) -> None:
    iceberg.check(scenario, tmp_path, counted)


def test_iceberg_differences_are_of_scenarios_that_exist() -> None:
    assert {key.partition("#")[0] for key in DIFFERENCES} <= {scenario.name for scenario in SCENARIOS}
