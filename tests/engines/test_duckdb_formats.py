"""Row counts that are wrong, files of two formats and files without columns on DuckDB (iceberg section 7)."""

from pathlib import Path

import pytest

import harness
from harness.engines.duckdb.instance import cursor
from harness.engines.duckdb.scans import counted
from harness.errors import CorruptFileError, HarnessWarning
from harness.testing.writing.delta.builder import DeltaTable
from harness.testing.writing.iceberg.builder import DataFileHandle, IcebergTable


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
    assert f"{files[1].path} has 1 rows, the metadata says 0, and those of 1 more files" in str(warning.message)


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

    def write(rows: list[tuple[int | None, int | None]], format: str) -> DataFileHandle:
        (id_, a), *_ = rows
        records = [{"id": id_, "a": a} for id_, a in rows]
        return t.write_data(records, partition={"id": id_, "a": a}, format=format)

    deleted = write([(1, 1)], "parquet")
    t.append(write([(None, None)] * 2, "parquet"), write([(1, None)] * 2, "parquet"), deleted)
    t.append(*(write([row], "avro") for row in ((2, None), (None, None), (1, 2), (1, None), (1, 3))))
    t.append(t.write_position_deletes([(deleted, 0)]))
    query = "SELECT a.id, count(*) FROM t AS a JOIN t AS b ON a.id = b.id GROUP BY a.id ORDER BY a.id"
    assert harness.sql(query, t=t.location).fetchall() == [(1, 25), (2, 1)]


# -- files without columns, whose rows are the number in the footer ----------------------------------------------------


def test_a_footer_that_claims_many_rows_costs_nothing_until_they_are_read() -> None:
    connection, tables = cursor(), []
    relation = counted((3, 2**50), lambda table: tables.append(table) or "t")
    (table,) = tables
    connection.register("t", table)
    assert connection.sql(f"SELECT * FROM {relation} LIMIT 5").fetchall() is not None
    assert connection.sql(f"SELECT max(file_row_number) FROM {relation} WHERE file_index = 0").fetchall() == [(2,)]


@pytest.mark.parametrize("engine", ["duckdb", "oracle"])
def test_a_footer_whose_row_groups_say_otherwise(tmp_path: Path, engine: str) -> None:
    table = IcebergTable.create(tmp_path / "t", {"u": "unknown"}, format_version=3)
    file = table.write_data([{}] * 3)
    table.append(file)
    table.add_column("a", "int")
    table.append(table.write_data([{"a": 1}]))
    path = Path(table.file_of(file.path))
    total = b"\x16\x06"  # of the file, which comes before that of its row group: a long, 3
    path.write_bytes(path.read_bytes().replace(total, b"\x16\x08", 1))
    file.data_file["record_count"] = 4
    with pytest.raises(harness.CorruptFileError, match="footer counts 4 rows, its row groups 3") as caught:
        harness.open_table(table.location).snapshot().to_arrow(engine=engine)
    assert caught.value.file == str(path)


@pytest.mark.parametrize("engine", ["duckdb", "oracle"])
def test_a_column_whose_name_is_no_text(tmp_path: Path, engine: str) -> None:
    """Arrow fails to say so: its message has the name's bytes in it."""
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    file = table.write_data([{"id": 1}])
    table.commit(add=[file])
    data = file.file.read_bytes()
    file.file.write_bytes(data.replace(b"id", b"\xc8d"))
    with pytest.raises(harness.CorruptFileError):
        harness.open_table(str(tmp_path / "t")).snapshot().to_arrow(engine=engine)
