"""Tables and types on Spark: the same rows and types as on DuckDB, and cases that only Spark could get wrong."""

import base64
import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from as_compared import agreed, snapshot_of
from pyspark.sql import functions
from pyspark.sql import types as s

import harness
from harness.engines.column_values import PerFile
from harness.engines.spark import engine as spark_engine
from harness.engines.spark.columns import ColumnTranslation, FileConstants
from harness.engines.spark.engine import conform
from harness.engines.spark.types import output_column, physical_column, storage_type
from harness.metadata.model import schema as dt
from harness.metadata.model.file_schema import STORED_STRUCT, PhysicalField
from harness.testing.demo import build_demo_tables
from harness.writing.iceberg.builder import IcebergTable


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(build_demo_tables(tmp_path_factory.mktemp("demo")).orders.location)


def small(folder: Path, **how: Any) -> tuple[IcebergTable, Any]:
    table = IcebergTable.create(folder / "t", {"a": "long", "b": "long"})
    rows = [{"a": i, "b": 1000 + i} for i in range(100)]
    handle = table.write_data(rows, row_group_size=10, **how)
    table.append(handle)
    return table, handle


@pytest.mark.parametrize(
    ("type_", "path", "value"),
    [
        ("list<float>", "a.element", [None]),
        ("list<int>", "a.element", [None, None]),
        ("list<list<float>>", "a.element.element", [[None], None]),
        ("list<struct<x: float>>", "a.element.x", [{"x": None}, None]),
        ("map<string, float>", "a.value", [("k", None)]),
    ],
)
def test_widened_values_may_all_be_null(tmp_path, spark, type_, path, value):
    """A column chunk that has only nulls has a dictionary without values."""
    table = IcebergTable.create(tmp_path / "t", {"a": type_})
    written = dict(value) if type_.startswith("map") else value
    table.append(table.write_data([{"a": written}, {"a": None}]))
    table.widen_column(path, "long" if "int" in type_ else "double")
    rows = agreed(harness.open_table(str(tmp_path / "t")).snapshot(), spark)
    assert rows.to_pylist() == [{"a": value}, {"a": None}]


def test_a_filter_never_uses_the_dictionary_of_a_column_of_the_same_dotted_path(tmp_path, spark):
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
def test_filters_on_days_that_the_old_calendar_leaves_out(tmp_path, spark, where, expected):
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


def test_filters_and_projections_reach_the_parquet_scan(tmp_path, spark):
    table, handle = small(tmp_path)
    table.rename_column("b", "renamed")
    table.commit(add=[table.write_position_deletes([(handle, 3)])])
    frame = snapshot_of(table).to_spark(spark).where("renamed > 1050").select("renamed")
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "GreaterThan(b,1050)" in plan
    assert "ReadSchema: struct<b:bigint,_tmp_metadata_row_index:bigint>" in plan
    assert sorted(row[0] for row in frame.collect()) == list(range(1051, 1100))


@pytest.mark.smoke
def test_the_users_session_stays_as_it_is(orders, spark):
    before = {row.key: row.value for row in spark.sql("SET").collect()}
    harness.open_table(orders).snapshot().to_spark(spark).count()
    assert {row.key: row.value for row in spark.sql("SET").collect()} == before
    assert spark.catalog.listTables() == []


@pytest.mark.smoke
def test_missing_files_are_named(tmp_path, spark):
    table, handle = small(tmp_path)
    Path(table.file_of(handle.path)).unlink()
    with pytest.raises(harness.MissingFileError, match="a data file: it is missing"):
        spark_engine.to_arrow(snapshot_of(table).plan(), spark)


def test_types_inside_an_unknown_type_do_not_matter():
    stored = PhysicalField(name="f", id=None, type=dt.OpaqueType("x"))
    parent = PhysicalField(name="s", id=None, type=STORED_STRUCT, children=(stored,))
    assert physical_column(parent) == s.StructField("s", s.StructType([s.StructField("f", s.BinaryType())]))


@pytest.mark.parametrize("type_", [dt.OpaqueType("quux"), dt.UnsignedType(8), dt.FloatType(16)], ids=str)
def test_types_that_never_leave(type_):
    with pytest.raises(harness.UnsupportedError, match="leave the column out"):
        storage_type(type_)


def test_a_shown_column_says_its_exact_type():
    column = output_column(dt.Field(id=1, name="a.b", type=dt.TimestampType("ns", utc=True), required=True))
    assert (column.name, column.dataType, column.nullable) == ("a.b", s.LongType(), True)
    exact = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(column.metadata["harness.arrow"])))
    assert exact == pa.schema([pa.field("a.b", pa.timestamp("ns", "UTC"), nullable=False)])


LIST = dt.ListType(dt.Field(id=2, name="element", type=dt.IntegerType(32)))


@pytest.mark.parametrize("type_", [LIST, dt.VariantType(), dt.UnknownType(), dt.StructType(())], ids=str)
def test_types_that_no_partition_has(type_):
    with pytest.raises(harness.UnsupportedError, match="per-file constant"):
        ColumnTranslation(functions.col, FileConstants(1)).expression(PerFile((None,), type_))


BAD_TEXT = pa.Array.from_buffers(
    pa.string(), 1, [None, pa.py_buffer(struct.pack("<2i", 0, 2)), pa.py_buffer(b"\xff\xfe")]
)
UNFIT: list[tuple[pa.Array, Any]] = [
    (pa.array([b"abcd"]), pa.binary(3)),
    (pa.array(["f79c3e09"]), pa.uuid()),
    (pa.array(["z" * 32]), pa.uuid()),
    (pa.array([2**40]), pa.int32()),
    (BAD_TEXT, pa.string()),
    (pa.ListArray.from_arrays([0, 1], BAD_TEXT), pa.list_(pa.string())),
]


@pytest.mark.parametrize(("array", "type_"), UNFIT, ids=[str(t) for _, t in UNFIT])
def test_what_does_not_fit_is_an_error(array, type_):
    with pytest.raises(harness.EngineError, match="Cannot return column c as") as caught:
        conform(pa.table({"x": array}), pa.schema([pa.field("c", type_)]))
    assert caught.value.field == "c"
