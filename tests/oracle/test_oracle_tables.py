"""Small tables by hand, read by the oracle: what a person can check with pencil and paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import harness
from harness.engines.registry import find_engine
from harness.testing.writing.delta.builder import DeltaTable
from harness.testing.writing.iceberg.builder import IcebergTable, truncate


def rows(location: Any, columns: list[str] | None = None, where: str | None = None) -> list[tuple[Any, ...]]:
    table = harness.open_table(str(location)).snapshot().to_arrow(columns=columns, where=where, engine="oracle")
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)


def iceberg(tmp_path: Path, schema: dict[str, str], **more: Any) -> IcebergTable:
    return IcebergTable.create(tmp_path / "t", schema, **more)


def test_it_is_an_engine_like_the_others(tmp_path: Path) -> None:
    t = iceberg(tmp_path, {"id": "long not null", "s": "struct<a: uuid, b: list<date>>", "m": "map<string, time>"})
    plan = harness.open_table(str(tmp_path / "t")).snapshot().plan()
    found = find_engine("oracle")
    assert (found.name, found.version()[:8]) == ("oracle", "Python 3")
    assert found.to_arrow(plan).schema == find_engine("duckdb").to_arrow(plan).schema
    t.append(t.write_data([{"id": 1, "s": None, "m": None}]))
    plan = harness.open_table(str(tmp_path / "t")).snapshot().plan(["id"])
    assert found.to_arrow(plan) == pa.table({"id": pa.array([1], pa.int64())})


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_text_is_read_in_whatever_arrow_type_its_writer_says(tmp_path: Path, kind: pa.DataType) -> None:
    t = DeltaTable.create(tmp_path / "t", {"name": "string"})
    add = t.write_data([{"name": "é"}])
    t.append(add)
    (file,) = tmp_path.rglob("*.parquet")
    pq.write_table(pa.table({"name": pa.array(["é"], kind)}), file)
    assert rows(tmp_path / "t") == [("é",)]


@pytest.mark.parametrize("file_format", ["parquet", "avro", "orc"])
def test_formats_of_data_and_position_delete_files(tmp_path: Path, file_format: Any) -> None:
    t = iceberg(tmp_path, {"id": "long", "s": "struct<a: int, b: string>"})
    f = t.write_data([{"id": i, "s": {"a": i, "b": None}} for i in range(4)], format=file_format)
    t.append(f)
    t.commit(add=[t.write_position_deletes([(f, 0), (f, 2)], format=file_format)])
    assert rows(tmp_path / "t") == [(1, {"a": 1, "b": None}), (3, {"a": 3, "b": None})]
    assert rows(tmp_path / "t", ["_pos"], "id > 1") == [(3,)]  # positions are those of the file


def test_an_equality_delete_spares_its_own_commit_and_later_rows(tmp_path: Path) -> None:
    t = iceberg(tmp_path, {"k": "string", "v": "int"})
    t.append(t.write_data([{"k": "a", "v": 1}, {"k": None, "v": 2}, {"k": "b", "v": 3}]))
    delete = t.write_equality_deletes(["k"], [{"k": "a"}, {"k": None}])
    t.commit(add=[delete, t.write_data([{"k": "a", "v": 4}])])
    t.append(t.write_data([{"k": None, "v": 5}]))
    assert rows(tmp_path / "t", ["v"]) == [(3,), (4,), (5,)]
    assert rows(tmp_path / "t", ["v", "_deleted"], "v < 4") == [(1, True), (2, True), (3, False)]


def test_an_equality_delete_stays_in_its_partition(tmp_path: Path) -> None:
    t = iceberg(tmp_path, {"p": "int", "k": "int"}, partition_spec=[("p", "identity")])
    t.append(*(t.write_data([{"p": p, "k": 1}], partition={"p": p}) for p in (1, 2)))
    t.commit(add=[t.write_equality_deletes(["k"], [{"k": 1}], partition={"p": 1})])
    assert rows(tmp_path / "t") == [(2, 1)]


def test_columns_added_renamed_widened_and_dropped(tmp_path: Path) -> None:
    t = iceberg(tmp_path, {"a": "int", "b": "string", "s": "struct<x: int>"}, format_version=3)
    t.append(t.write_data([{"a": 1, "b": "old", "s": {"x": 1}}, {"a": 2, "b": "old", "s": None}]))
    t.widen_column("a", "long")
    t.rename_column("a", "n")
    t.drop_column("b")
    t.add_column("b", "string", initial_default="new")
    t.add_column("y", "int", parent="s", initial_default=9)
    assert rows(tmp_path / "t") == [(1, {"x": 1, "y": 9}, "new"), (2, None, "new")]
    assert rows(tmp_path / "t", ["n"], "b = 'new' AND s.y = 9") == [(1,)]


def test_three_valued_filters(tmp_path: Path) -> None:
    t = iceberg(tmp_path, {"a": "double"})
    t.append(t.write_data([{"a": v} for v in (1.0, None, float("nan"), -0.0)]))
    assert rows(tmp_path / "t", where="NOT a > 0.5") == [(-0.0,)]
    assert [repr(a) for (a,) in rows(tmp_path / "t", where="a > 0.5")] == ["1.0", "nan"]
    with pytest.raises(harness.UnsupportedError, match="the oracle does not know"):
        rows(tmp_path / "t", where="sqrt(a) = 1")


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_delta_with_vectors_partitions_and_mapping(tmp_path: Path, mode: Any) -> None:
    schema = {"id": "long", "p": "string", "s": "struct<a: integer>"}
    t = DeltaTable.create(tmp_path / "d", schema, partition_columns=["p"], column_mapping=mode)
    f = t.write_data([{"id": i, "p": "x", "s": {"a": i}} for i in range(3)])
    t.append(f)
    t.delete(f, [1])
    t.append(t.write_data([{"id": 7, "p": None, "s": None}]))
    t.add_column("late", "integer")
    expected = [(0, "x", {"a": 0}, None), (2, "x", {"a": 2}, None), (7, None, None, None)]
    assert rows(tmp_path / "d") == expected
    assert rows(tmp_path / "d", ["id"], "p IS DISTINCT FROM 'x'") == [(7,)]


def test_a_value_of_a_row_that_the_filter_drops_is_not_looked_at(tmp_path: Path) -> None:
    legacy = {"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyDateTime": ""}
    t = DeltaTable.create(tmp_path / "d", {"id": "long", "d": "date"})
    t.append(t.write_data([{"id": 1, "d": 0}, {"id": 2, "d": -719164}], footer=legacy))
    assert rows(tmp_path / "d", ["id"], "id < 3") == [(1,), (2,)]
    assert [d.year for _, d in rows(tmp_path / "d", where="id = 1")] == [1970]
    with pytest.raises(harness.SchemaMismatchError, match="-719164 is in the calendar of an old writer"):
        rows(tmp_path / "d", ["d"], "id = 2")


def test_comparing_its_rows_and_not_its_queries(tmp_path: Path) -> None:
    t = iceberg(tmp_path, {"id": "long", "u": "uuid"})
    t.append(t.write_data([{"id": 1, "u": "00000000-0000-0000-0000-000000000001"}]))
    table, other = harness.open_table(str(tmp_path / "t")), pa.table({"id": pa.array([2], pa.int64())})
    assert harness.compare(table, table, engines=("duckdb", "oracle")).equal
    found = harness.compare(table, other, engines=("oracle", "duckdb"), columns=["id"])
    assert (found.left.engine[:6], found.only_left, found.only_right) == ("oracle", 1, 1)
    with pytest.raises(harness.RequestError, match="it only reads plans"):
        harness.sql("SELECT 1 FROM t", t=table, engine="oracle")


def test_damaged_and_missing_files_are_named(tmp_path: Path) -> None:
    t = iceberg(tmp_path, {"id": "long"})
    f = t.write_data([{"id": 1}])
    t.append(f)
    path = t.file_of(f.path)
    truncate(path, 10)
    with pytest.raises(harness.CorruptFileError, match=path.name):
        rows(tmp_path / "t")
    path.unlink()
    with pytest.raises(harness.MissingFileError, match=path.name):
        rows(tmp_path / "t")
