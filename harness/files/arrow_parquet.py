"""Parquet files through Arrow: no value wraps, all rows come, and each has a value that there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from harness.errors import CorruptFileError

if TYPE_CHECKING:
    import pyarrow.parquet as pq


def open_parquet(source: Any, **options: Any) -> pq.ParquetFile:
    """The file in `source`, which pyarrow can open, with INT96 in micros (iceberg 6.9).

    By default pyarrow gives INT96 in nanos, and a time outside the years 1677 to 2262 as another one, without a word.

    options: of `pyarrow.parquet.ParquetFile`.
    """
    import pyarrow.parquet as pq

    return pq.ParquetFile(source, coerce_int96_timestamp_unit="us", **options)


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

    Nor does it look whether the indices of a column that it reads as a dictionary are within the dictionary. Whoever
    takes them, takes what lies behind it in memory, or loses rows.

    rows: how many `row_count` found.

    Raises:
        CorruptFileError: it has other rows, or indices of no value; with that cause.
    """
    if read.num_rows != rows:
        raise CorruptFileError(
            f"Cannot read file: its columns hold {read.num_rows} rows, its footer counts {rows}; restore it",
            cause=cause,
            file=file,
        )
    for field, column in zip(read.schema, read.columns, strict=True):
        if not _has_dictionary(field.type):
            continue
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise CorruptFileError(
                f"Cannot read file: values of a dictionary are damaged: {error}; restore it",
                cause=cause,
                file=file,
                field=field.name,
            ) from error
    return read


def _has_dictionary(type_: pa.DataType) -> bool:
    if pa.types.is_nested(type_):
        return any(_has_dictionary(type_.field(i).type) for i in range(type_.num_fields))
    return bool(pa.types.is_dictionary(type_))
