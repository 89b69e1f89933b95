"""Query results as text, csv, json, jsonl, parquet or Arrow.

text     columns for people: the first rows, and how many more there are. Nulls as NULL, control characters escaped.
csv      header and rows, RFC 4180 quoting, line feeds. A null is empty, an empty string is `""`; nested values as JSON.
json     one document: format, kind, columns (name, type), rows as arrays in column order, row_count.
jsonl    one object per row. Refused if two columns have one name, as one of them would be lost.
parquet  a Parquet file (zstandard).
arrow    an Arrow IPC stream.

How single values look is in `harness.cli.values`. Nothing but the first rows of text is kept in memory.
"""

from __future__ import annotations

import enum
import io
import shutil
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pyarrow as pa

from harness.cli.lines import write_csv, write_json, write_jsonl
from harness.cli.results import ByteStream, write_texts
from harness.cli.rows import Rows
from harness.cli.text_table import MAX_ROWS, text_lines
from harness.errors import RequestError
from harness.printable import visible_lines

_ROW_GROUP = 122_880
"""As many rows as DuckDB's own writer puts into one."""
_DICTIONARY_BYTES = 128 * 1024
"""Of a column in a row group at most. Arrow's own megabyte holds all values of a group, and each once more as an index:
of 5 M rows with mostly different values, writing takes twice the time and the file twice the room."""


_EXPLAINED = ["explain_key", "explain_value"]


class RowFormat(enum.Enum):
    """How rows are written."""

    TEXT = "text"
    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    PARQUET = "parquet"
    ARROW = "arrow"

    def is_binary(self) -> bool:
        """Whether the format is unfit for a terminal."""
        return self in (RowFormat.PARQUET, RowFormat.ARROW)


def write_rows(
    rows: Rows,
    row_format: RowFormat,
    stream: ByteStream,
    *,
    max_rows: int | None = MAX_ROWS,
    option: str = "--max-rows",
) -> None:
    """All of `rows` to `stream`, while they are read; as text at most `max_rows`, if that is not None.

    option: what sets `max_rows`, as the person says it.

    Raises:
        RequestError: the format cannot hold these columns.
        HarnessError: a row cannot be read, as `rows` says.
    """
    match row_format:
        case RowFormat.TEXT if [name for name, _ in rows.columns] == _EXPLAINED:
            write_texts(_explained(rows), stream)
        case RowFormat.TEXT:
            width = shutil.get_terminal_size().columns if stream.isatty() else None
            lines = text_lines(rows.schema(), rows.batches(), max_rows=max_rows, width=width, option=option)
            write_texts(lines, stream)
        case RowFormat.CSV:
            write_csv(rows, stream)
        case RowFormat.JSON:
            write_json(rows, stream)
        case RowFormat.JSONL:
            write_jsonl(rows, stream)
        case RowFormat.PARQUET:
            _write_parquet(rows, stream)
        case RowFormat.ARROW:
            _write_arrow(rows, stream)


def _explained(rows: Rows) -> Iterator[str]:
    """What EXPLAIN gives, which has lines of its own."""
    for batch in rows.batches():
        yield from (visible_lines(text).rstrip("\n") + "\n" for text in batch[1].to_pylist())


def _write_arrow(rows: Rows, stream: ByteStream) -> None:
    schema, batches = _begun(rows)
    with pa.ipc.new_stream(_Sink(stream), schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _write_parquet(rows: Rows, stream: ByteStream) -> None:
    import pyarrow.parquet as pq

    schema, batches = _begun(rows)
    try:
        with pq.ParquetWriter(
            _Sink(stream), schema, compression="zstd", dictionary_pagesize_limit=_DICTIONARY_BYTES
        ) as writer:
            for batch in batches:
                writer.write_batch(batch)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        for field in schema:
            _check_parquet(field)
        raise RequestError(f"Cannot write rows as parquet: {error}; cast the column in the query") from error


def _begun(rows: Rows) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The schema and the batches, the first of which is there: what fails at once does so before a byte is written."""
    schema, batches = rows.schema(), rows.batches(_ROW_GROUP)
    return schema, chain([batch for batch in [next(batches, None)] if batch is not None], batches)


def _check_parquet(field: pa.Field) -> None:
    import pyarrow.parquet as pq

    try:
        pq.ParquetWriter(io.BytesIO(), pa.schema([field])).close()
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise RequestError(
            f"Cannot write rows as parquet: it cannot hold column {field.name!r}, of type {field.type}; cast it in the "
            "query, with CAST(... AS VARCHAR)",
            field=field.name,
        ) from error


class _Sink:
    """What Arrow needs of an output: writes counted, because a pipe cannot tell its position."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._position = 0
        self.closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._stream.write(view)
        self._position += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False
