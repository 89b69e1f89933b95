"""Odd names of columns on DuckDB, and shapes that DuckDB sees otherwise (iceberg 5.19, 5.21, 6.14)."""

import dataclasses
from pathlib import Path

import pytest
from reading import arrow, rows

import harness
from harness.engines.duckdb import scans
from harness.metadata.model.schema import Field, IntegerType, Schema, StringType, StructType
from harness.testing.writing.iceberg.builder import IcebergTable


def test_the_empty_name(make):  # Arrow can say it, DuckDB's SQL cannot
    t = make({"": "int", "s": "struct<a: int>", "b": "int"})
    t.append(t.write_data([{"": 1, "s": {"a": 2}, "b": 3}]))
    snapshot = harness.open_table(str(t.store.directory)).snapshot()
    assert snapshot.to_arrow().to_pylist() == [{"": 1, "s": {"a": 2}, "b": 3}]
    assert snapshot.to_duckdb(columns=["b"]).fetchall() == [(3,)]
    with pytest.raises(harness.UnsupportedError, match="UnsupportedName") as caught:
        snapshot.to_duckdb()
    assert (caught.value.table, caught.value.rule) == (str(t.store.directory), "iceberg 5.21")
    t.rename_column("s.a", "")
    with pytest.raises(harness.UnsupportedError, match="UnsupportedName"):  # DuckDB has no structs with empty names
        arrow(t)


def test_columns_equal_but_for_case(make):  # 5.21, 11.9
    t = make({"a": "int", "A": "int", "a_1": "int", "á": "int", "Á": "int"})
    t.append(t.write_data([{"a": 1, "A": 2, "a_1": 3, "á": 4, "Á": 5}]))
    assert rows(t) == [(1, 2, 3, 4, 5)]
    assert rows(t, columns=["A", "a_1"]) == [(2, 3)]
    assert rows(t, columns=["A"], where='"A" = 2') == [(2,)]
    assert rows(t, columns=["A"], where='"A" = 1') == []
    snapshot = harness.open_table(str(t.store.directory)).snapshot()
    with pytest.raises(harness.SchemaMismatchError, match="AmbiguousColumn"):
        snapshot.to_duckdb()
    assert snapshot.to_duckdb(columns=["A"]).fetchall() == [(2,)]


def test_struct_fields_equal_but_for_case_are_refused(make):  # DuckDB cannot make such a struct
    fields = (Field(id=2, name="a", type=IntegerType(32)), Field(id=3, name="A", type=IntegerType(32)))
    t = make(Schema(fields=(Field(id=1, name="s", type=StructType(fields)), Field(id=4, name="b", type=StringType()))))
    t.append(t.write_data([{"s": {"a": 1, "A": 2}, "b": "x"}]))
    with pytest.raises(harness.SchemaMismatchError, match="AmbiguousColumn") as caught:
        arrow(t)
    assert (caught.value.field, caught.value.rule) == ("s", "iceberg 5.21")
    assert rows(t, columns=["b"]) == [("x",)]


@pytest.mark.parametrize(
    "name", ["deleted", "Deleted", "c0", "e0", "s", "d", "f", "p", "k0", "file_row_number", "FILE_INDEX"]
)
def test_user_columns_named_like_ours_inside(tmp_path: Path, name: str) -> None:
    """iceberg 5.21: internal names never meet the table's."""
    t = IcebergTable.create(tmp_path / "t", {name: "long", "_c0": "int"})
    f = t.write_data([{name: i, "_c0": -i} for i in range(5)])
    t.append(f)
    t.commit(add=[t.write_position_deletes([(f, 0)])])
    t.commit(add=[t.write_equality_deletes([name], [{name: 3}])])
    assert rows(t, [name, "_pos"]) == [(1, 1), (2, 2), (4, 4)]
    assert rows(t, [name, "_deleted"], f'"{name}" < 2') == [(0, True), (1, False)]
    assert rows(t, ["_c0"], f'"{name}" <> 2') == [(-1,), (-4,)]


def test_a_struct_that_duckdb_sees_flat_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = IcebergTable.create(tmp_path / "t", {"s": "struct<a:int,b:string>"})
    table.append(table.write_data([{"s": {"a": 1, "b": "x"}}], format="orc"))
    table.rename_column("s.b", "c")  # so that the struct is built anew
    seen = scans.exposed
    monkeypatch.setattr(scans, "exposed", lambda label, type_: dataclasses.replace(seen(label, type_), parts=()))
    with pytest.raises(harness.SchemaMismatchError, match="Cannot read column 'a': DuckDB sees what holds it"):
        harness.open_table(str(tmp_path / "t")).snapshot().to_arrow()
