"""Delta Lake reads tables of harness, and harness reads tables of Delta Lake; jobs run with its jar."""

from typing import Any

import pytest
from delta_histories import HISTORIES, READINGS
from drawn.strategies import histories
from drawn_statements import histories as statements
from hypothesis import given
from interop_jobs import check_reads_and_writes, registered, rows_of_a_job_in_a_session_of
from interop_runs import drawn, of_scenarios, params
from interop_scenarios import ReferenceImplementation, differences
from interop_slices import check
from written_tables import DeltaWrittenTable

from harness.suite.scenarios.loading import find

pytestmark = pytest.mark.interop
BEFORE_A_MERGE = ("deletion-vectors", "change-data-feed", "log-compaction", "mapped-by-name", "partitions", "types")
"""Deletes, changes, logs, mapped columns, partitions, and values.

Row ids, V2 checkpoints, and widened columns run nightly.
"""
DIFFERENCES = differences("delta")
SCENARIOS = find("delta/*")
NOT_ASKED = frozenset({"_file", "_pos", "_spec_id", "_partition", "_deleted"})
SLICES_BEFORE_A_MERGE = ("delta/deletion-vectors/shared-file", "delta/column-mapping/rename-and-drop")
SLICES = (
    *SLICES_BEFORE_A_MERGE,
    "delta/deletion-vectors/absolute-path",
    "delta/deletion-vectors/inline",
    "delta/checkpoints/struct-statistics-only",
    "delta/column-mapping/id-mode-follows-ids",
    "delta/partitions/special-characters",
    "delta/paths/shallow-clone",
    "delta/row-tracking/materialised-ids",
    "delta/time-travel/in-commit-timestamps",
)


@pytest.mark.filterwarnings("ignore:.*Files outside of the table are read")
@pytest.mark.parametrize("name", params(HISTORIES, BEFORE_A_MERGE))
def test_delta_writes_and_harness_reads(name, delta_spark, warehouse, counted):
    location = warehouse / "they_write_delta" / name
    DeltaWrittenTable(delta_spark, location, counted, READINGS.get(name)).run(HISTORIES[name])


@pytest.mark.nightly
@drawn(4)
@given(steps=statements("delta"))
def test_delta_writes_drawn_histories_and_harness_reads(steps, delta_spark, tmp_path_factory, counted):
    DeltaWrittenTable(delta_spark, tmp_path_factory.mktemp("drawn") / "t", counted).run(steps)
    counted["Delta histories drawn"] += 1


@pytest.fixture(scope="module")
def delta(delta_spark: Any) -> ReferenceImplementation:
    """The suite's reader of Delta Lake, in a separate session."""
    from harness.suite import other_readers as readers

    reader = readers.SparkReference("delta", delta_spark.newSession())
    return ReferenceImplementation("Delta", reader, readers.Unsupported, DIFFERENCES, NOT_ASKED)


@pytest.mark.parametrize("scenario", of_scenarios(SCENARIOS))
def test_harness_writes_and_delta_reads(scenario, delta, tmp_path, counted):
    delta.check(scenario, tmp_path, counted)


@pytest.mark.nightly
@drawn(8)
@given(history=histories("delta"))
def test_harness_draws_and_delta_reads(history, delta, tmp_path_factory, counted):
    delta.check_drawn(history, tmp_path_factory.mktemp("drawn"), counted)


def test_delta_differences_are_of_scenarios_that_exist():
    assert {key.partition("#")[0] for key in DIFFERENCES} <= {scenario.name for scenario in SCENARIOS}


@pytest.mark.filterwarnings("ignore::harness.errors.HarnessWarning")
@pytest.mark.parametrize("name", params(SLICES, SLICES_BEFORE_A_MERGE))
def test_delta_reads_slices_and_appends_to_them(name, delta_spark, tmp_path, counted):
    check(name, tmp_path, delta_spark, "delta", counted)


def test_names_of_the_jar_stay_its_own(delta_spark, tmp_path):
    delta_spark.sql(f"CREATE TABLE own (id bigint) USING delta LOCATION '{tmp_path}/own'")
    delta_spark.sql("INSERT INTO own VALUES (7)")
    job = registered(delta_spark, tmp_path)
    try:
        assert not {key for key in job.settings if key.endswith((".delta", "spark_catalog"))}
        assert "the Delta jar of this session handles them" in job.missing[0]
        check_reads_and_writes(job, tmp_path, "own")
        (newest, *_) = delta_spark.sql("DESCRIBE HISTORY own").collect()
        assert newest.operation == "MERGE"
    finally:
        job.close()
        delta_spark.sql("DROP TABLE own")


@pytest.mark.nightly
def test_a_session_with_the_jar_alone(tmp_path):
    assert rows_of_a_job_in_a_session_of("delta", tmp_path) == [[1, 11], [2, 99]]
