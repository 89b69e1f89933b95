"""Whole tables on Spark: the same rows in the same types as on DuckDB, and what only Spark could get wrong.

The tables of the other engine tests are read on Spark as well where pytest runs with `--on-spark`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from on_spark import comparable

import harness
from harness.engines.spark import engine as spark_engine
from harness.testing.demo import build_demo_tables
from harness.writing.iceberg.builder import IcebergTable


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    tables = build_demo_tables(tmp_path_factory.mktemp("demo"))
    return {table.name: str(table.location) for table in (tables.orders, tables.events, tables.clicks)}


def agreed(snapshot: harness.Snapshot, spark: Any, **how: Any) -> pa.Table:
    """The rows by Spark; asserts that DuckDB gives the same ones in the same types."""
    plan = snapshot.plan(**how)
    rows, other = spark_engine.to_arrow(plan, spark), snapshot.to_arrow(**how)
    assert rows.schema == other.schema
    assert comparable(rows) == comparable(other)
    return rows


@pytest.mark.parametrize("name", [pytest.param("orders", marks=pytest.mark.smoke), "events", "clicks"])
def test_engines_agree_at_every_snapshot(name: str, demo: dict[str, str], spark: Any) -> None:
    table = harness.open_table(demo[name])
    counts = [agreed(table.snapshot(s["id"]), spark).num_rows for s in table.snapshots()]
    assert counts[-1] == {"orders": 3610, "events": 1798}.get(name, counts[-1])  # by hand, see harness.testing.demo


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("orders", {"columns": ["id", "_file", "_pos", "_spec_id", "_partition", "_row_id"], "where": "region = 'eu'"}),
        ("orders", {"columns": ["id", "_deleted"]}),
        ("orders", {"columns": [], "where": "total > 100"}),
        ("orders", {"columns": ["total"], "where": "ordered_at < TIMESTAMP '2024-06-01' OR channel IS NULL"}),
        ("events", {"columns": ["id", "_deleted", "_last_updated_sequence_number"], "where": "id % 7 = 3"}),
        ("clicks", {"where": "market = 'de'"}),
        ("clicks", {"columns": ["_file", "_pos"]}),
    ],
    ids=str,
)
def test_engines_agree_on_projections_and_filters(name: str, how: dict, demo: dict[str, str], spark: Any) -> None:
    assert agreed(harness.open_table(demo[name]).snapshot(), spark, **how).num_rows > 0


def small(folder: Path, **how: Any) -> tuple[IcebergTable, Any]:
    table = IcebergTable.create(folder / "t", {"a": "long", "b": "long"})
    rows = [{"a": i, "b": 1000 + i} for i in range(100)]
    handle = table.write_data(rows, row_group_size=10, **how)
    table.append(handle)
    return table, handle


def snapshot_of(table: IcebergTable) -> harness.Snapshot:
    return harness.open_table(str(table.store.directory)).snapshot()


def test_a_recorded_size_that_is_too_small_loses_no_rows(tmp_path: Path, spark: Any) -> None:
    """Spark drops the row groups that lie beyond the size that it is told (trap; iceberg 7.2)."""
    table, handle = small(tmp_path)

    def halve(manifest: Any) -> None:
        for entry in manifest.records:
            entry["data_file"]["file_size_in_bytes"] //= 2

    table.edit_manifest(handle, halve)
    assert agreed(snapshot_of(table), spark).num_rows == 100


@pytest.mark.parametrize("setting", ["true", "false"])
def test_the_users_field_id_setting_changes_nothing(tmp_path: Path, spark: Any, setting: str) -> None:
    """With Spark's own resolution by id, columns are null if the setting is off when the query runs (trap)."""
    table, _ = small(tmp_path)
    table.rename_column("a", "c")
    before = spark.conf.get("spark.sql.parquet.fieldId.read.enabled")
    frame = snapshot_of(table).to_spark(spark)
    spark.conf.set("spark.sql.parquet.fieldId.read.enabled", setting)
    try:
        assert [tuple(row) for row in frame.where("c = 7").collect()] == [(7, 1007)]
    finally:
        spark.conf.set("spark.sql.parquet.fieldId.read.enabled", before)


def test_a_filter_never_uses_another_columns_statistics(tmp_path: Path, spark: Any) -> None:
    """After the names were swapped, a filter pushed by the logical name would skip every row group (trap)."""
    table, _ = small(tmp_path)
    table.rename_column("a", "x")
    table.rename_column("b", "a")
    table.rename_column("x", "b")
    frame = snapshot_of(table).to_spark(spark)
    assert frame.columns == ["b", "a"]
    assert [tuple(row) for row in frame.where("a = 1007").collect()] == [(7, 1007)]
    assert [tuple(row) for row in frame.where("b = 7").collect()] == [(7, 1007)]


def test_a_filter_never_uses_the_dictionary_of_a_column_of_the_same_dotted_path(tmp_path: Path, spark: Any) -> None:
    table = IcebergTable.create(tmp_path / "t", {"a.b": "int", "a": "struct<b: int>"})
    table.append(table.write_data([{"a.b": 1, "a": {"b": 2}}, {"a.b": 3, "a": None}]))
    rows = agreed(harness.open_table(str(tmp_path / "t")).snapshot(), spark, columns=["a.b"], where='"a.b" = 1')
    assert rows.to_pylist() == [{"a.b": 1}]


@pytest.mark.parametrize("where", ["x > 5", "s.y > 5", "NOT (x <= 5)", "x = 'nan'"])
def test_row_groups_with_nan_are_not_skipped(tmp_path: Path, spark: Any, where: str) -> None:
    """Bounds of a row group leave NaN out, and NaN is above all numbers (trap; delta F9)."""
    table = IcebergTable.create(tmp_path / "t", {"x": "double", "s": "struct<y: float>"})
    nan = float("nan")
    table.append(table.write_data([{"x": 1.0, "s": {"y": 1.0}}, {"x": nan, "s": {"y": nan}}]))
    frame = snapshot_of(table).to_spark(spark)
    assert frame.where(where.replace("'nan'", "double('nan')")).count() == 1
    assert agreed(snapshot_of(table), spark, columns=["x"], where=where).num_rows == 1


def test_filters_and_projections_reach_the_parquet_scan(tmp_path: Path, spark: Any) -> None:
    table, handle = small(tmp_path)
    table.rename_column("b", "renamed")
    table.commit(add=[table.write_position_deletes([(handle, 3)])])
    frame = snapshot_of(table).to_spark(spark).where("renamed > 1050").select("renamed")
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "GreaterThan(b,1050)" in plan
    assert "ReadSchema: struct<b:bigint,_tmp_metadata_row_index:bigint>" in plan
    assert sorted(row[0] for row in frame.collect()) == list(range(1051, 1100))


ODD = ["with blank", "per%20cent", "%zz", "br[a]ck{e}t", "st*r?", "ha#sh", "co:lon", "_hidden", ".dotted", "naïve"]


@pytest.mark.parametrize("name", ODD)
def test_odd_names_in_paths(tmp_path: Path, spark: Any, name: str) -> None:
    table = IcebergTable.create(tmp_path / "t", {"a": "long"})
    table.append(table.write_data([{"a": 1}], path=f"{table.location}/data/{name}/{name}.parquet"))
    assert agreed(snapshot_of(table), spark, columns=["a", "_file"]).column("a").to_pylist() == [1]


@pytest.mark.smoke
def test_the_users_session_stays_as_it_is(demo: dict[str, str], spark: Any) -> None:
    before = {row.key: row.value for row in spark.sql("SET").collect()}
    harness.open_table(demo["orders"]).snapshot().to_spark(spark).count()
    assert {row.key: row.value for row in spark.sql("SET").collect()} == before
    assert spark.catalog.listTables() == []


@pytest.mark.smoke
def test_missing_files_are_named(tmp_path: Path, spark: Any) -> None:
    table, handle = small(tmp_path)
    Path(table.file_of(handle.path)).unlink()
    with pytest.raises(harness.MissingFileError, match="a data file: it is missing"):
        spark_engine.to_arrow(snapshot_of(table).plan(), spark)
