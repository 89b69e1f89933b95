"""Rows that pyarrow silently loses from Parquet files: old and late INT96, and invalid dictionary indexes."""

import io
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import harness
from harness.errors import CorruptFileError
from harness.metadata.deletes.position_files import POSITION_ID
from harness.metadata.files.parquet import check_rows
from harness.metadata.plan.deletes import FILE_PATH_ID
from harness.writing.iceberg.builder import IcebergTable

RUNS = b"\x01\x10\x00\x10\x01"
"""A page of indices in one bit: eight times the first value, eight times the second."""
BEYOND = b"\x01\x10\x02\x10\x01"
"""The same, with a value after the last in place of the first."""


def write_damaged(path: Path, **columns: tuple[int, pa.Array]) -> None:
    """A Parquet file whose first column has indexes beyond its dictionary. columns: field ids and values."""
    fields = [
        pa.field(name, values.type, nullable=False, metadata={"PARQUET:field_id": str(id_)})
        for name, (id_, values) in columns.items()
    ]
    rows = pa.table([values for _, values in columns.values()], schema=pa.schema(fields))
    pq.write_table(rows, path, compression="none", use_dictionary=[fields[0].name])
    data = path.read_bytes()
    assert data.count(RUNS) == 1
    path.write_bytes(data.replace(RUNS, BEYOND))


def test_position_deletes(tmp_path: Path) -> None:
    """iceberg 4.10: if rows of this delete file matched no data file, the deleted rows would come back."""
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    files = [table.write_data([{"id": i} for i in range(8)]) for _ in range(2)]
    table.append(*files)
    deletes = table.write_position_deletes([(file, i) for file in files for i in range(8)])
    table.commit(add=[deletes])
    paths = pa.array([file.path for file in files for _ in range(8)])
    positions = pa.array([*range(8), *range(8)], pa.int64())
    write_damaged(Path(deletes.path), file_path=(FILE_PATH_ID, paths), pos=(POSITION_ID, positions))
    with pytest.raises(CorruptFileError) as caught:
        harness.open_table(str(tmp_path / "t")).snapshot().to_arrow()
    assert caught.value.rule == "iceberg 4.10"


def test_data_read_through_arrow(tmp_path: Path) -> None:
    """The column name is reserved by DuckDB, and the file records that Arrow had a dictionary."""
    table = IcebergTable.create(tmp_path / "t", {"file_index": "string"})
    file = table.write_data([{"file_index": text} for text in ("a",) * 8 + ("b",) * 8])
    table.append(file)
    texts = pa.array(["a"] * 8 + ["b"] * 8).dictionary_encode()
    write_damaged(Path(file.path), file_index=(1, texts))
    with pytest.raises(CorruptFileError) as caught:
        harness.open_table(str(tmp_path / "t")).snapshot().to_arrow()
    assert caught.value.file is not None


INSIDE = pa.DictionaryArray.from_arrays(pa.array([0, 2], pa.int32()), pa.array(["a", "b"]), safe=False)


@pytest.mark.parametrize(
    "values", [pa.ListArray.from_arrays([0, 1, 2], INSIDE), pa.StructArray.from_arrays([INSIDE], ["a"])]
)
def test_within_nested_values(values: pa.Array) -> None:
    with pytest.raises(CorruptFileError, match="dictionary"):
        check_rows(pa.table({"v": values}), 2, file="f")


ROWS = 4242
COUNT, NONE = b"\xa4\x42", b"\x80\x00"
"""The number of rows as Thrift has it in a footer, and 0 in as many bytes."""


def lose_rows(path: Path) -> None:
    """Every column of the only row group counts no values.

    The row counts stay: one before the columns, one after them.
    """
    data = path.read_bytes()
    start = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
    first, *between, last = data[start:-8].split(COUNT)
    assert between
    path.write_bytes(data[:start] + first + COUNT + NONE.join(between) + COUNT + last + data[-8:])
    footer = pq.read_metadata(path)
    assert (footer.num_rows, footer.row_group(0).num_rows) == (ROWS, ROWS)
    assert pq.read_table(io.BytesIO(path.read_bytes())).num_rows == 0


def damaged(directory: Path, column: str, damage: str) -> harness.Snapshot:
    """A table of one file, whose rows are all deleted if the damaged file is the delete file."""
    table = IcebergTable.create(directory / "t", {column: "long"})
    data = table.write_data([{column: i} for i in range(ROWS)])
    table.append(data)
    if damage == "position deletes":
        deletes = table.write_position_deletes([(data, i) for i in range(ROWS)])
        table.commit(add=[deletes])
        lose_rows(Path(deletes.path))
    else:
        lose_rows(Path(data.path))
    return harness.open_table(str(directory / "t")).snapshot()


@pytest.mark.parametrize(
    ("column", "damage", "engine"),
    [
        ("v", "position deletes", "duckdb"),
        ("v", "position deletes", "oracle"),
        ("file_index", "data", "duckdb"),  # read through Arrow, because DuckDB reserves the column name
        ("v", "data", "oracle"),
    ],
)
def test_rows_that_pyarrow_omits_are_damage(tmp_path: Path, column: str, damage: str, engine: str) -> None:
    """iceberg 4.10: a delete file that cannot be read is an error, and never treated as empty."""
    snapshot = damaged(tmp_path, column, damage)
    with pytest.raises(CorruptFileError) as caught:
        snapshot.to_arrow(engine=engine)
    assert caught.value.file is not None


def test_a_file_whose_columns_count_no_values_is_refused(tmp_path: Path) -> None:
    """DuckDB 2.0 compares the counts when it reads the column; 1.5 never does."""
    with pytest.raises(CorruptFileError, match=r"column 'v' of row group 0 has 0 values \(num_values\)"):
        damaged(tmp_path, "v", "data").to_arrow()
