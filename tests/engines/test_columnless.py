"""Files without columns: their rows are the number in the footer, whatever the metadata says of it."""

from __future__ import annotations

import warnings
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest
from reading import snapshot_arrow

import harness
from harness.engines.duckdb.instance import cursor
from harness.engines.duckdb.scans import counted
from harness.engines.registry import find_engine
from harness.testing.writing.arrow import group_sizes
from harness.testing.writing.delta.builder import DeltaTable
from harness.testing.writing.iceberg.builder import DataFileHandle, IcebergTable


def make(directory: Path, *rows: int) -> tuple[IcebergTable, list[DataFileHandle]]:
    """A table of one unknown column, with a file per number, of so many rows, and a file of one column and row."""
    table = IcebergTable.create(directory / "t", {"u": "unknown"}, format_version=3)
    files = [table.write_data([{}] * number) for number in rows]
    table.append(*files)
    table.add_column("a", "int")
    table.append(table.write_data([{"a": 1}]))
    return table, files


def snapshot(table: IcebergTable) -> harness.Snapshot:
    return harness.open_table(str(table.store.directory)).snapshot()


# Some files are a list of positions on DuckDB, others a range.
@pytest.mark.parametrize("sizes", [(0, 3, 2), (12_000, 3), (10_001, 20_000)])
def test_as_many_rows_as_the_footers_count(tmp_path: Path, sizes: tuple[int, ...]) -> None:  # iceberg 5.8
    table, files = make(tmp_path, *sizes)
    table.append(*table.write_deletion_vectors({file: [1] for file, size in zip(files, sizes, strict=True) if size}))
    found = snapshot_arrow(snapshot(table), columns=["a", "_file", "_pos"])
    for file, size in zip(files, sizes, strict=True):
        rows = found.filter(pa.compute.equal(found["_file"], str(file.path)))
        assert sorted(rows["_pos"].to_pylist()) == [i for i in range(size) if i != 1]
        assert rows["a"].null_count == rows.num_rows
    assert found.num_rows == sum(sizes) - sum(size > 0 for size in sizes) + 1


def test_a_footer_that_claims_many_rows_costs_nothing_until_they_are_read() -> None:
    connection, tables = cursor(), []
    relation = counted((3, 2**50), lambda table: tables.append(table) or "t")
    (table,) = tables
    connection.register("t", table)
    assert connection.sql(f"SELECT * FROM {relation} LIMIT 5").fetchall() is not None
    assert connection.sql(f"SELECT max(file_row_number) FROM {relation} WHERE file_index = 0").fetchall() == [(2,)]


@pytest.mark.parametrize("engine", ["duckdb", "oracle"])
def test_a_footer_whose_row_groups_say_otherwise(tmp_path: Path, engine: str) -> None:
    table, (file,) = make(tmp_path, 3)
    path = Path(table.file_of(file.path))
    total = b"\x16\x06"  # of the file, which comes before that of its row group: a long, 3
    path.write_bytes(path.read_bytes().replace(total, b"\x16\x08", 1))
    file.data_file["record_count"] = 4
    with pytest.raises(harness.CorruptFileError, match="footer counts 4 rows, its row groups 3") as caught:
        find_engine(engine).to_arrow(snapshot(table).plan())
    assert caught.value.file == str(path)


def test_a_damaged_file_beside_one_is_the_one_that_is_named(tmp_path: Path) -> None:  # iceberg 7.6
    table, _ = make(tmp_path, 3)
    damaged = table.write_data([{"a": 1}])
    table.append(damaged)
    path = Path(table.file_of(damaged.path))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(harness.CorruptFileError) as caught:
        snapshot(table).to_arrow()
    assert caught.value.file == str(path)


def test_nothing_is_taken_by_position(tmp_path: Path) -> None:  # iceberg 5.6
    table, _ = make(tmp_path, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert snapshot(table).to_arrow(columns=["a"])["a"].null_count == 3


@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_delta_table_that_maps_columns(tmp_path: Path, mode: str) -> None:  # delta T5, T11
    table = DeltaTable.create(tmp_path / "t", {"p": "long", "v": "void"}, partition_columns=["p"], column_mapping=mode)
    table.append(table.write_data([{}, {}], partition={"p": 7}))
    found = snapshot_arrow(harness.open_table(str(tmp_path / "t")).snapshot(), columns=["p"])
    assert found.to_pylist() == [{"p": 7}, {"p": 7}]


def test_a_remote_table(tmp_path: Path) -> None:
    remote = fsspec.filesystem("memory")
    table, _ = make(tmp_path, 3)
    try:
        remote.put(str(table.store.directory), "/remote/t", recursive=True)
        assert harness.open_table("memory://remote/t").snapshot().to_arrow().num_rows == 4
    finally:
        remote.rm("/remote", recursive=True)


@pytest.mark.parametrize(("rows", "group", "sizes"), [(0, 2, []), (5, 2, [2, 2, 1]), (3, None, [3])])
def test_row_groups_of_the_builder(rows: int, group: int | None, sizes: list[int]) -> None:
    assert group_sizes(rows, group) == sizes


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
