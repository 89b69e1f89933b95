"""Equality deletes as joins on Spark: the number and the kind of the joins (iceberg 4.6, 4.26, 4.29)."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame

from harness.engines.spark import engine
from harness.metadata.plan.scan_plan import ScanPlan
from harness.table import open_table
from harness.writing.iceberg.builder import IcebergTable

pytestmark = pytest.mark.filterwarnings("ignore:Recorded row counts")


def planned(table: IcebergTable, record_count: int | None) -> ScanPlan:
    """Return the table's newest plan. Each delete file claims this number of rows."""
    plan = open_table(table.location).snapshot().plan()
    deletes = tuple(replace(delete, record_count=record_count) for delete in plan.equality_deletes)
    return replace(plan, equality_deletes=deletes)


def joins(frame: DataFrame) -> int:
    return str(frame._jdf.queryExecution().analyzed().toString()).count("Join LeftAnti")


@pytest.fixture
def keyed(tmp_path: Path) -> IcebergTable:
    """Return a table with ids 0, 1, and null in two files. 1 and null are deleted."""
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}, {"id": None}]), table.write_data([{"id": 0}]))
    table.commit(add=[table.write_equality_deletes(["id"], [{"id": None}, {"id": 1}])])
    return table


@pytest.mark.parametrize(
    ("record_count", "join"),
    [(1_000, "BroadcastHashJoin"), (None, "BroadcastHashJoin"), (50_000_000, "SortMergeJoin")],
    ids=["few", "unknown", "many"],
)
def test_spark_broadcasts_unless_there_are_too_many_deletes(spark, keyed, record_count, join):
    frame = engine.dataframe(planned(keyed, record_count), spark)
    assert join in str(frame._jdf.queryExecution().executedPlan().toString())
    assert [row.id for row in frame.collect()] == [0]


@pytest.fixture
def separate_delete_sets(tmp_path: Path) -> IcebergTable:
    """Return a table with five files. Four of them have their own delete sets because of the bounds of their ids."""
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    table.append(*[table.write_data([{"id": first + i} for i in range(4)]) for first in (0, 10, 20, 30)])
    table.commit(add=[table.write_equality_deletes(["id"], [{"id": id}]) for id in (1, 12, 23)])
    table.append(table.write_data([{"id": 1}, {"id": 12}]))
    return table


def test_files_with_different_bounds_are_joined_once(spark, separate_delete_sets):
    frame = open_table(separate_delete_sets.location).snapshot().to_spark(spark)
    assert sorted(row.id for row in frame.collect()) == sorted([0, 2, 3, 10, 11, 13, 20, 21, 22, *range(30, 34), 1, 12])
    assert joins(frame) == 1
