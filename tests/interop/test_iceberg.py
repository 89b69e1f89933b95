"""Apache Iceberg reads tables of harness, and harness reads tables of Apache Iceberg; jobs run with its jar."""

import re
from typing import Any

import pytest
from drawn.strategies import DrawnHistory, histories
from drawn_statements import histories as statements
from hypothesis import given
from hypothesis import strategies as st
from iceberg_changes import compare_changes
from iceberg_histories import HISTORIES, READINGS
from interop_jobs import check_reads_and_writes, registered, rows_of_a_job_in_a_session_of
from interop_runs import drawn, of_scenarios, params
from interop_scenarios import ReferenceImplementation, differences
from interop_slices import check
from written_tables import IcebergWrittenTable

from harness.suite.scenarios.loading import find

pytestmark = pytest.mark.interop
BEFORE_A_MERGE = (
    "copy-on-write-v2",
    "copy-on-write-v3",
    "merge-on-read-v2",
    "merge-on-read-v3",
    "partitioned-deletes",
    "upgrade-lineage",
    "equality-deletes-v2",
    "nested-columns",
    "partition-evolution-v2",
    "types",
    "avro-files-v3",
    "variants",
)
"""One history of each kind: both forms of deletes, row ids, evolved schemas and partitions, values, file formats,
variants.
"""
LACKING = re.compile(r"\b(time|timestamp_ns|timestamptz_ns|geometry|unknown)\b")
"""Types that Iceberg does not support in Spark."""
DIFFERENCES = differences("iceberg")
SCENARIOS = find("iceberg/*")
SLICES_BEFORE_A_MERGE = ("iceberg/deletes/many-vectors-in-one-puffin", "iceberg/deletes/shared-position-delete-files")
SLICES = (
    *SLICES_BEFORE_A_MERGE,
    "iceberg/deletes/stream-of-upserts",
    "iceberg/deletes/vector-replaces-position-deletes",
    "iceberg/metadata/row-lineage",
    "iceberg/metadata/v1-table",
    "iceberg/partitions/every-transform",
    "iceberg/schema/nested-evolution",
    "iceberg/time-travel/snapshots-and-schemas",
)


@pytest.mark.filterwarnings("ignore:.*Files outside of the table are read")
@pytest.mark.parametrize("name", params(HISTORIES, BEFORE_A_MERGE))
def test_iceberg_writes_and_harness_reads(name, iceberg_spark, warehouse, counted):
    location = warehouse / "they_write" / name.replace("-", "_")
    table = IcebergWrittenTable(iceberg_spark, location, counted, READINGS.get(name))
    table.run(HISTORIES[name])
    compare_changes(table)


@pytest.mark.nightly
@drawn(6)
@given(steps=statements("iceberg"))
def test_iceberg_writes_drawn_histories(steps, iceberg_spark, warehouse, counted):
    counted["Iceberg histories drawn"] += 1
    table = IcebergWrittenTable(
        iceberg_spark, warehouse / "drawn" / f"drawn_{counted['Iceberg histories drawn']}", counted
    )
    table.run(steps)
    compare_changes(table)


@pytest.fixture(scope="module")
def iceberg(iceberg_spark: Any) -> ReferenceImplementation:
    """The suite's reader of Apache Iceberg, in a separate session."""
    from harness.suite import other_readers as readers

    session = iceberg_spark.newSession()
    session.conf.set("spark.sql.caseSensitive", "true")  # some scenarios have names that differ only in case
    return ReferenceImplementation(
        "Iceberg", readers.SparkReference("iceberg", session), readers.Unsupported, DIFFERENCES
    )


@pytest.mark.parametrize("scenario", of_scenarios(SCENARIOS))
def test_harness_writes_and_iceberg_reads(scenario, iceberg, tmp_path, counted):
    iceberg.check(scenario, tmp_path, counted)


def in_spark(history: DrawnHistory) -> bool:
    """Return whether Spark has all types of a history."""
    return LACKING.search(repr((history.table, history.operations))) is None


@pytest.mark.nightly
@drawn(30)
@given(history=st.sampled_from(("iceberg-1", "iceberg-2", "iceberg-3")).flatmap(histories).filter(in_spark))
def test_harness_draws_and_iceberg_reads(history, iceberg, tmp_path_factory, counted):
    iceberg.check_drawn(history, tmp_path_factory.mktemp("drawn"), counted)


def test_iceberg_differences_are_of_scenarios_that_exist():
    assert {key.partition("#")[0] for key in DIFFERENCES} <= {scenario.name for scenario in SCENARIOS}


@pytest.mark.filterwarnings("ignore::harness.errors.HarnessWarning")
@pytest.mark.parametrize("name", params(SLICES, SLICES_BEFORE_A_MERGE))
def test_iceberg_reads_slices_and_appends_to_them(name, iceberg_spark, tmp_path, counted):
    check(name, tmp_path, iceberg_spark, "iceberg", counted)


def test_names_of_the_jar_stay_its_own(iceberg_spark, tmp_path):
    iceberg_spark.sql("CREATE TABLE ice.own (id bigint) USING iceberg")
    iceberg_spark.sql("INSERT INTO ice.own VALUES (7)")
    before = iceberg_spark.conf.get("spark.sql.catalog.ice")
    job = registered(iceberg_spark, tmp_path)
    try:
        assert not {key for key in job.settings if "iceberg" in key or key.endswith(".ice")}
        assert iceberg_spark.conf.get("spark.sql.catalog.ice") == before
        check_reads_and_writes(job, tmp_path, "ice.own")
    finally:
        job.close()


@pytest.mark.nightly
def test_a_session_with_the_jar_alone(tmp_path):
    assert rows_of_a_job_in_a_session_of("iceberg", tmp_path) == [[1, 11], [2, 99]]
