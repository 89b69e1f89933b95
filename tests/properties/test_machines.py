"""Tables of every kind, step by step: engines = model, at every point of the history, deletes included."""

from __future__ import annotations

import pytest
from hypothesis.stateful import run_state_machine_as_test

from harness.testing.properties.machine import machine
from harness.testing.properties.profiles import property_settings

# A drawn history may drop every column that an old file has.
pytestmark = pytest.mark.filterwarnings("ignore:Data file .* has no column of:harness.errors.HarnessWarning")

KINDS = {"iceberg-1": 6, "iceberg-2": 16, "iceberg-3": 16, "delta": 16}
"""Examples of the quick profile."""


@pytest.mark.parametrize(("kind", "examples"), KINDS.items(), ids=KINDS)
def test_duckdb_and_the_oracle_agree_with_the_model(kind, examples, repro) -> None:
    with repro():
        run_state_machine_as_test(machine(kind), settings=property_settings(examples))


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("kind", ["iceberg-2", "iceberg-3", "delta"])
def test_spark_agrees_too(kind, repro) -> None:
    # The last choice is the one that shrinking leaves first.
    choices = (("oracle",), ("duckdb", "spark"), ("duckdb", "oracle", "spark"))
    with repro():
        run_state_machine_as_test(machine(kind, engines=choices), settings=property_settings(5, steps=5))
