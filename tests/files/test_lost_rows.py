"""Parquet files whose columns count no values, though their footer and row groups count rows.

pyarrow 26 gives no rows of such a file and no error, so deletes would be lost, and rows read through Arrow.
"""

import io
import struct
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import harness
from harness.errors import CorruptFileError
from harness.testing.writing.iceberg.builder import IcebergTable

ROWS = 4242
COUNT, NONE = b"\xa4\x42", b"\x80\x00"
"""The number of rows as Thrift has it in a footer, and 0 in as many bytes."""


def lose_rows(path: Path) -> None:
    """Every column of the one row group counts no values; the counts of rows stay: one before, one after these."""
    data = path.read_bytes()
    start = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
    first, *between, last = data[start:-8].split(COUNT)
    assert between
    path.write_bytes(data[:start] + first + COUNT + NONE.join(between) + COUNT + last + data[-8:])
    footer = pq.read_metadata(path)
    assert (footer.num_rows, footer.row_group(0).num_rows) == (ROWS, ROWS)
    assert pq.read_table(io.BytesIO(path.read_bytes())).num_rows == 0


def damaged(directory: Path, column: str, damage: str) -> harness.Snapshot:
    """A table of one file, whose rows are all deleted if it is the deletes that lose their rows."""
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
        ("file_index", "data", "duckdb"),  # read through Arrow: the name is one of DuckDB's own
        ("v", "data", "oracle"),
    ],
)
def test_rows_that_pyarrow_does_not_give_are_damage(tmp_path: Path, column: str, damage: str, engine: str) -> None:
    """iceberg 4.10: a delete file that cannot be read is an error, and never none."""
    snapshot = damaged(tmp_path, column, damage)
    with pytest.raises(CorruptFileError) as caught:
        snapshot.to_arrow(engine=engine)
    assert caught.value.file is not None


def test_a_file_whose_columns_count_no_values_is_refused(tmp_path: Path) -> None:
    """DuckDB 2.0 compares the counts where it reads the column, 1.5 nowhere."""
    with pytest.raises(CorruptFileError, match=r"column 'v' of row group 0 has 0 values \(num_values\)"):
        damaged(tmp_path, "v", "data").to_arrow()
