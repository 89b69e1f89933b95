"""Files without columns: their rows are the number in the footer, whatever the metadata says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness
from harness.engines.duckdb.instance import cursor
from harness.engines.duckdb.scans import counted
from harness.engines.registry import find_engine
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
