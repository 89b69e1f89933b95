"""Unusual names and shapes on DuckDB: columns, files of two formats, wrong counts (iceberg 5.19, 5.21, 6.14, 7)."""

import dataclasses
from pathlib import Path

import pytest
from reading import arrow, rows

import harness
from harness.engines.duckdb import scans
from harness.engines.duckdb.instance import cursor
from harness.engines.duckdb.scans import row_count_relation
from harness.errors import CorruptFileError, HarnessWarning
from harness.metadata.model.schema import Field, IntegerType, Schema, StringType, StructType
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergFile, IcebergTable


def test_the_empty_name(make):  # possible in Arrow but not in DuckDB's SQL
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


def test_columns_that_differ_only_in_case(make):  # 5.21, 11.9
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


def test_struct_fields_that_differ_only_in_case_are_refused(make):  # DuckDB cannot create this struct
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
def test_user_columns_named_like_internal_columns(tmp_path: Path, name: str) -> None:
    """iceberg 5.21: internal names do not collide with the table's names."""
    t = IcebergTable.create(tmp_path / "t", {name: "long", "_c0": "int"})
    f = t.write_data([{name: i, "_c0": -i} for i in range(5)])
    t.append(f)
    t.commit(add=[t.write_position_deletes([(f, 0)])])
    t.commit(add=[t.write_equality_deletes([name], [{name: 3}])])
    assert rows(t, [name, "_pos"]) == [(1, 1), (2, 2), (4, 4)]
    assert rows(t, [name, "_deleted"], f'"{name}" < 2') == [(0, True), (1, False)]
    assert rows(t, ["_c0"], f'"{name}" <> 2') == [(-1,), (-4,)]


def test_a_struct_that_is_seen_flat_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = IcebergTable.create(tmp_path / "t", {"s": "struct<a:int,b:string>"})
    table.append(table.write_data([{"s": {"a": 1, "b": "x"}}], format="orc"))
    table.rename_column("s.b", "c")  # so that the struct is rebuilt
    seen = scans.duckdb_column
    monkeypatch.setattr(scans, "duckdb_column", lambda label, type_: dataclasses.replace(seen(label, type_), parts=()))
    with pytest.raises(harness.SchemaMismatchError, match="Cannot read a column: Arrow reads it as"):
        harness.open_table(str(tmp_path / "t")).snapshot().to_arrow()


def with_a_wrong_count(make, format):
    t = make({"id": "long", "s": "string"})
    empty = t.write_data([], format=format)
    empty.data_file["record_count"] = 5
    t.append(empty, t.write_data([{"id": 1}], format=format))
    return t


@pytest.mark.parametrize("prune", ["files", "off"])
def test_one_warning_names_the_first_of_many_wrong_counts(make, prune):  # 2.21: no count drops a file
    t = make({"id": "long"})
    files = [t.write_data([{"id": i}]) for i in range(3)]
    for file in files[1:]:
        file.data_file["record_count"] = 0
    t.append(*files)
    snapshot = harness.open_table(str(t.store.directory), prune=prune).snapshot()
    with pytest.warns(HarnessWarning) as caught:
        assert sorted(snapshot.to_arrow(where="id > 0").column("id").to_pylist()) == [1, 2]
    (warning,) = caught
    assert f"{files[1].path} has 1 rows, the metadata says 0; 1 more files are affected" in str(warning.message)


@pytest.mark.parametrize("engine", ["duckdb", "oracle", pytest.param("spark", marks=pytest.mark.harness_spark)])
@pytest.mark.parametrize("format", ["avro", "orc"])
def test_files_without_a_footer_that_counts_must_have_their_rows(make, format, engine):  # 7.2: cut at a block
    snapshot = harness.open_table(with_a_wrong_count(make, format).location).snapshot()
    with pytest.raises(CorruptFileError, match="it has 0 rows, the metadata says 5"):
        snapshot.to_arrow(engine=engine)


def test_files_of_two_formats_are_joined_with_themselves(tmp_path: Path) -> None:
    """DuckDB 1.5.6 pushes a Bloom filter into both scans of Arrow."""
    t = IcebergTable.create(
        tmp_path / "t", {"id": "long", "a": "long"}, partition_spec=[("id", "identity"), ("a", "identity")]
    )

    def write(rows: list[tuple[int | None, int | None]], format: str) -> IcebergFile:
        (id_, a), *_ = rows
        records = [{"id": id_, "a": a} for id_, a in rows]
        return t.write_data(records, partition={"id": id_, "a": a}, format=format)

    deleted = write([(1, 1)], "parquet")
    t.append(write([(None, None)] * 2, "parquet"), write([(1, None)] * 2, "parquet"), deleted)
    t.append(*(write([row], "avro") for row in ((2, None), (None, None), (1, 2), (1, None), (1, 3))))
    t.append(t.write_position_deletes([(deleted, 0)]))
    query = "SELECT a.id, count(*) FROM t AS a JOIN t AS b ON a.id = b.id GROUP BY a.id ORDER BY a.id"
    assert harness.sql(query, {"t": t.location}).fetchall() == [(1, 25), (2, 1)]


# -- files without columns: the footer's row count is all there is to read
# ----------------------------------------------


def test_a_footer_that_claims_many_rows_costs_nothing_until_they_are_read() -> None:
    connection, tables = cursor(), []
    relation = row_count_relation((3, 2**50), lambda table: tables.append(table) or "t")
    (table,) = tables
    connection.register("t", table)
    assert connection.sql(f"SELECT * FROM {relation} LIMIT 5").fetchall() is not None
    assert connection.sql(f"SELECT max(file_row_number) FROM {relation} WHERE file_index = 0").fetchall() == [(2,)]


@pytest.mark.parametrize("engine", ["duckdb", "oracle"])
def test_a_footer_whose_row_groups_contradict_it(tmp_path: Path, engine: str) -> None:
    table = IcebergTable.create(tmp_path / "t", {"u": "unknown"}, format_version=3)
    file = table.write_data([{}] * 3)
    table.append(file)
    table.add_column("a", "int")
    table.append(table.write_data([{"a": 1}]))
    path = Path(table.file_of(file.path))
    total = b"\x16\x06"  # the file's count, which precedes the row group's: a long, 3
    path.write_bytes(path.read_bytes().replace(total, b"\x16\x08", 1))
    file.data_file["record_count"] = 4
    with pytest.raises(harness.CorruptFileError, match="counts 4 rows, its row groups 3") as caught:
        harness.open_table(table.location).snapshot().to_arrow(engine=engine)
    assert caught.value.file == str(path)


@pytest.mark.parametrize("engine", ["duckdb", "oracle"])
def test_a_column_whose_name_is_not_text(tmp_path: Path, engine: str) -> None:
    """Arrow cannot report this error, because its message contains the bytes of the name."""
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    file = table.write_data([{"id": 1}])
    table.commit(add=[file])
    data = file.file.read_bytes()
    file.file.write_bytes(data.replace(b"id", b"\xc8d"))
    with pytest.raises(harness.CorruptFileError):
        harness.open_table(str(tmp_path / "t")).snapshot().to_arrow(engine=engine)
