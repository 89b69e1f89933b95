"""Every Iceberg scenario, built by harness and read by Apache Iceberg's own reader for Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from iceberg_differences import DIFFERENCES

from harness.conformance import runner
from harness.conformance.engines import TableAt
from harness.conformance.outcomes import Check, Outcome
from harness.errors import UnsupportedError
from harness.testing.scenarios import Scenario, find

pytestmark = [
    pytest.mark.reference,
    pytest.mark.filterwarnings("ignore:.*unclosed <socket:ResourceWarning"),  # PySpark 4.1's toArrow leaves them open
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SCENARIOS = find("iceberg/*")


class InProcess:
    """The conformance engine `spark-iceberg` without a process of its own."""

    name = "spark-iceberg"

    def __init__(self) -> None:
        from harness.conformance.readers import spark_iceberg_reader

        self._script = spark_iceberg_reader

    def version(self) -> str:
        return self._script.version()

    def capabilities(self) -> None:
        return None

    def read(self, table: TableAt, *, columns: tuple[str, ...] | None, where: str | None) -> Any:
        try:
            return self._script.read(table, columns=columns, where=where)
        except self._script.Unsupported as error:
            raise UnsupportedError(str(error)) from error


@pytest.fixture(scope="module")
def reference(iceberg_spark: Any) -> runner.UnderTest:
    return runner.UnderTest(reader=InProcess(), asked=InProcess.name)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[each.name.removeprefix("iceberg/") for each in SCENARIOS])
def test_harness_writes_and_iceberg_reads(
    scenario: Scenario, reference: runner.UnderTest, tmp_path: Path, counted: Counter[str]
) -> None:
    (case,) = runner.run([scenario], [reference], keep=tmp_path).cases
    counted["Iceberg scenarios read"] += 1
    counted["Iceberg reads of scenarios"] += len(case.checks)
    counted["Iceberg reads of scenarios that differ"] += sum(map(_differs, case.checks))
    listed = DIFFERENCES.get(scenario.name)
    known = set() if listed is None else set(listed.reads)
    wrong = [f"{check.number} {check.outcome.value} {check.message}" for check in case.checks if _differs(check)]
    assert {check.number for check in case.checks if _differs(check)} == known, "\n".join(wrong)
    if listed is not None:
        pytest.xfail(f"Iceberg {listed.reason}")


def _differs(check: Check) -> bool:
    """Whether Iceberg does not do what harness does; of what the specification leaves open too."""
    if check.outcome is Outcome.OPEN:
        return not (check.message or "").endswith("as harness decided")
    return check.outcome is not Outcome.PASS


def test_every_listed_difference_is_of_a_scenario() -> None:
    assert set(DIFFERENCES) <= {scenario.name for scenario in SCENARIOS}
