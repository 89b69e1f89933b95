"""How many rows a Parquet file has, by its footer, and whether Arrow read them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.errors import CorruptFileError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


def row_count(footer: pq.FileMetaData, *, file: str, cause: str = "CorruptDataFile") -> int:
    """The rows of a file: what its footer counts in all, which is what its row groups have, each 0 or more.

    Who reads a file gets the rows of its groups, so a number in all that is another one would bound nothing.

    Raises:
        CorruptFileError: they differ, or one is negative; with that cause.
    """
    groups = [int(footer.row_group(i).num_rows) for i in range(footer.num_row_groups)]
    if min(groups, default=0) < 0 or sum(groups) != footer.num_rows:
        raise CorruptFileError(
            f"Cannot read file: its footer counts {footer.num_rows} rows, its row groups {sum(groups)}; restore it",
            cause=cause,
            file=file,
        )
    return int(footer.num_rows)


def whole(read: pa.Table, rows: int, *, file: str, cause: str = "CorruptDataFile") -> pa.Table:
    """What Arrow read of a file, if it has all rows: without a word pyarrow 26 gives none where no column counts any.

    rows: how many `row_count` found.

    Raises:
        CorruptFileError: it has others; with that cause.
    """
    if read.num_rows != rows:
        raise CorruptFileError(
            f"Cannot read file: its columns hold {read.num_rows} rows, its footer counts {rows}; restore it",
            cause=cause,
            file=file,
        )
    return read
