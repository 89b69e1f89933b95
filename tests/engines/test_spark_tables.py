"""Whole tables on Spark: the same rows in the same types as on DuckDB, and what only Spark could get wrong."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from as_compared import agreed, snapshot_of

import harness
from harness.engines.spark import engine as spark_engine
from harness.testing.demo import build_demo_tables
from harness.testing.writing.iceberg.builder import IcebergTable


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(build_demo_tables(tmp_path_factory.mktemp("demo")).orders.location)


def small(folder: Path, **how: Any) -> tuple[IcebergTable, Any]:
    table = IcebergTable.create(folder / "t", {"a": "long", "b": "long"})
    rows = [{"a": i, "b": 1000 + i} for i in range(100)]
    handle = table.write_data(rows, row_group_size=10, **how)
    table.append(handle)
    return table, handle


def test_a_filter_never_uses_the_dictionary_of_a_column_of_the_same_dotted_path(tmp_path: Path, spark: Any) -> None:
    table = IcebergTable.create(tmp_path / "t", {"a.b": "int", "a": "struct<b: int>"})
    table.append(table.write_data([{"a.b": 1, "a": {"b": 2}}, {"a.b": 3, "a": None}]))
    rows = agreed(harness.open_table(str(tmp_path / "t")).snapshot(), spark, columns=["a.b"], where='"a.b" = 1')
    assert rows.to_pylist() == [{"a.b": 1}]


SKIPPED_DAYS = [
    ("d = DATE '1582-10-10'", ["10"]),
    ("d IN (DATE '1582-10-10', DATE '1582-10-14')", ["10", "14"]),
    ("d IN (DATE '1582-10-10', DATE '1999-01-01')", ["10"]),
    ("d > DATE '1582-10-09' AND d < DATE '1582-10-15'", ["10", "14"]),
    ("d >= DATE '1582-10-10'", ["10", "14", "15"]),
    ("d < DATE '1582-10-14'", ["04", "10"]),
    ("d <> DATE '1582-10-14'", ["04", "10", "15"]),
    ("NOT (d < DATE '1582-10-10' OR d > DATE '1582-10-14')", ["10", "14"]),
    ("d = DATE '1582-10-04' OR d = DATE '1582-10-14'", ["04", "14"]),
    ("d = DATE '1582-10-15'", ["15"]),
    ("t = TIMESTAMPTZ '1582-10-10 12:00:00Z'", ["10"]),
    ("t >= TIMESTAMPTZ '1582-10-10 12:00:00Z' AND t < TIMESTAMPTZ '1582-10-15 00:00:00Z'", ["10", "14"]),
    ("n = TIMESTAMP '1582-10-14 12:00:00'", ["14"]),
]


@pytest.mark.parametrize(("where", "expected"), SKIPPED_DAYS)
def test_filters_on_days_that_the_old_calendar_leaves_out(
    tmp_path: Path, spark: Any, where: str, expected: list[str]
) -> None:
    """Spark pushes a day as a `java.sql.Date`, which has no days from 1582-10-05 to 1582-10-14 (trap)."""
    table = IcebergTable.create(tmp_path / "t", {"name": "string", "d": "date", "t": "timestamptz", "n": "timestamp"})
    rows = []
    for name in ("04", "10", "14", "15"):
        noon = datetime(1582, 10, int(name), 12)
        rows.append({"name": name, "d": noon.date(), "t": noon.replace(tzinfo=UTC), "n": noon})
    table.append(table.write_data(rows, row_group_size=1))
    snapshot = snapshot_of(table)
    found = agreed(snapshot, spark, columns=["name"], where=where)
    assert sorted(found.column("name").to_pylist()) == expected
    later = snapshot.to_spark(spark).where(
        where.replace("TIMESTAMPTZ", "TIMESTAMP").replace("n = TIMESTAMP", "n = TIMESTAMP_NTZ")
    )
    assert sorted(row.name for row in later.collect()) == expected


def test_filters_and_projections_reach_the_parquet_scan(tmp_path: Path, spark: Any) -> None:
    table, handle = small(tmp_path)
    table.rename_column("b", "renamed")
    table.commit(add=[table.write_position_deletes([(handle, 3)])])
    frame = snapshot_of(table).to_spark(spark).where("renamed > 1050").select("renamed")
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "GreaterThan(b,1050)" in plan
    assert "ReadSchema: struct<b:bigint,_tmp_metadata_row_index:bigint>" in plan
    assert sorted(row[0] for row in frame.collect()) == list(range(1051, 1100))


@pytest.mark.smoke
def test_the_users_session_stays_as_it_is(orders: str, spark: Any) -> None:
    before = {row.key: row.value for row in spark.sql("SET").collect()}
    harness.open_table(orders).snapshot().to_spark(spark).count()
    assert {row.key: row.value for row in spark.sql("SET").collect()} == before
    assert spark.catalog.listTables() == []


@pytest.mark.smoke
def test_missing_files_are_named(tmp_path: Path, spark: Any) -> None:
    table, handle = small(tmp_path)
    Path(table.file_of(handle.path)).unlink()
    with pytest.raises(harness.MissingFileError, match="a data file: it is missing"):
        spark_engine.to_arrow(snapshot_of(table).plan(), spark)
