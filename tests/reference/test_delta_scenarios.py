"""Every Delta scenario, whose table harness writes, read by Delta Lake: the same rows, or both refuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from delta_differences import DIFFERENCES, known
from delta_reading import asked, judged

from harness.conformance.outcomes import Outcome
from harness.testing.scenarios.building import build
from harness.testing.scenarios.loading import fixtures_directory, load

pytestmark = [
    pytest.mark.reference,
    pytest.mark.filterwarnings("ignore:.*unclosed <socket:ResourceWarning"),  # PySpark 4.2's toArrow leaves them open
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

NAMES = sorted(
    path.relative_to(fixtures_directory()).with_suffix("").as_posix()
    for path in (fixtures_directory() / "delta").rglob("*.yaml")
)


@pytest.fixture(scope="module")
def reader(delta_spark: Any) -> Iterator[Any]:
    """The suite's reader of Delta Lake, in a session beside the tests' own."""
    from harness.conformance.readers import spark_delta_reader

    session = delta_spark.newSession()
    session.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    patch = pytest.MonkeyPatch()
    patch.setattr(spark_delta_reader, "_session", lambda: session)
    yield spark_delta_reader
    patch.undo()


@pytest.mark.parametrize("name", NAMES)
def test_delta_reads_the_scenario(
    name: str, reader: Any, delta_spark: Any, tmp_path: Path, counted: Counter[str]
) -> None:
    built = build(load(fixtures_directory() / f"{name}.yaml", name), tmp_path)
    differing = {}
    for expectation in filter(asked, built.expectations):
        check = judged(reader, delta_spark, built, expectation)
        if check.outcome is Outcome.SKIP:
            continue
        counted["Delta reads of scenarios"] += 1
        reason = known(name, check.number)
        if check.outcome is Outcome.PASS:
            assert reason is None, f"read {check.number} agrees: take it off the list, which says: {reason}"
        elif reason is None:
            differing[check.number] = f"{check.read}: {check.outcome.value}, {check.message}"
        else:
            counted["Delta reads of scenarios, known differences"] += 1
    counted["Delta scenarios"] += 1
    assert not differing, "\n".join(f"read {number}, {said}" for number, said in differing.items())


def test_delta_differences_are_of_scenarios_that_exist() -> None:
    assert {key.partition("#")[0] for key in DIFFERENCES} <= set(NAMES)
