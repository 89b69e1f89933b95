"""Query results as text, csv, json, jsonl, parquet or Arrow.

text     columns for people. Nulls as NULL, control characters escaped; widths come from the first batch.
csv      header and rows, RFC 4180 quoting, line feeds. A null is empty, an empty string is `""`; nested values as JSON.
json     one document: format, kind, columns (name, type), rows as arrays in column order, row_count.
jsonl    one object per row. Refused if two columns have one name, as one of them would be lost.
parquet  a Parquet file (zstandard).
arrow    an Arrow IPC stream.

How single values look is in `harness.cli.values`.
"""

from __future__ import annotations

import enum
import io
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from rich.cells import cell_len

from harness.cli.results import ByteStream, write_texts
from harness.cli.values import json_values, text_of
from harness.errors import RequestError
from harness.printable import json_text, visible

FORMAT = 1
"""Of the JSON document; it changes when a key changes its meaning or goes."""


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


def write_rows(rows: pa.RecordBatchReader, row_format: RowFormat, stream: ByteStream) -> None:
    """All of `rows` to `stream`.

    Raises:
        RequestError: the format cannot hold these columns.
    """
    match row_format:
        case RowFormat.TEXT:
            write_texts(text_lines(rows.schema, rows), stream)
        case RowFormat.CSV:
            write_texts(csv_lines(rows.schema, rows), stream)
        case RowFormat.JSON:
            write_texts(json_parts(rows.schema, rows), stream)
        case RowFormat.JSONL:
            write_texts(jsonl_lines(rows.schema, rows), stream)
        case RowFormat.PARQUET:
            _write_parquet(rows, stream)
        case RowFormat.ARROW:
            with pa.ipc.new_stream(_Sink(stream), rows.schema) as writer:
                for batch in rows:
                    writer.write_batch(batch)


def text_lines(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """A header, a rule, and a line per row; numbers to the right."""
    names = [visible(name) for name in schema.names]
    right = [pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t) for t in schema.types]
    widths: list[int] = []
    for batch in batches:
        rows = [tuple(_text_cell(text_of(value)) for value in row) for row in _rows(batch)]
        if not widths:
            widths = [max(map(cell_len, column)) for column in zip(names, *rows, strict=True)]
            yield from _header(names, widths, right)
        yield from (_aligned(row, widths, right) for row in rows)
    if not widths:
        yield from _header(names, [cell_len(name) for name in names], right)


def csv_lines(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """A header and a line per row."""
    yield ",".join(map(_csv_cell, schema.names)) + "\n"
    for batch in batches:
        for row in _rows(batch):
            yield ",".join(_csv_cell(text_of(value)) for value in row) + "\n"


def json_parts(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """One JSON document in pieces, a row per line."""
    columns = [{"name": field.name, "type": str(field.type)} for field in schema]
    yield f'{{"format": {FORMAT}, "kind": "rows", "columns": {json_text(columns)}, "rows": ['
    count = 0
    for batch in batches:
        for row in _rows(batch):
            yield ("\n" if count == 0 else ",\n") + json_text(row)
            count += 1
    yield f'{"" if count == 0 else chr(10)}], "row_count": {count}}}\n'


def jsonl_lines(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """One JSON object per row.

    Raises:
        RequestError: two columns have the same name.
    """
    names = schema.names
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise RequestError(
            f"Cannot write rows as jsonl: more than one column is named {twice[0]!r}; rename it with AS", field=twice[0]
        )
    for batch in batches:
        for row in _rows(batch):
            yield json_text(dict(zip(names, row, strict=True))) + "\n"


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*(json_values(column) for column in batch.columns), strict=True)


def _csv_cell(text: str | None) -> str:
    if text is None:
        return ""
    if text == "" or any(sign in text for sign in ',"\r\n') or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text


def _text_cell(text: str | None) -> str:
    return "NULL" if text is None else visible(text)


def _header(names: list[str], widths: list[int], right: list[bool]) -> Iterator[str]:
    yield _aligned(tuple(names), widths, right)
    yield "  ".join("-" * width for width in widths) + "\n"


def _aligned(cells: tuple[str, ...], widths: list[int], right: list[bool]) -> str:
    parts = []
    for cell, width, to_right in zip(cells, widths, right, strict=True):
        padding = " " * (width - cell_len(cell))
        parts.append(padding + cell if to_right else cell + padding)
    return "  ".join(parts).rstrip() + "\n"


def _write_parquet(rows: pa.RecordBatchReader, stream: ByteStream) -> None:
    import pyarrow.parquet as pq

    try:
        with pq.ParquetWriter(_Sink(stream), rows.schema, compression="zstd") as writer:
            for batch in rows:
                writer.write_batch(batch)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        for field in rows.schema:
            _check_parquet(field)
        raise RequestError(f"Cannot write rows as parquet: {error}; cast the column in the query") from error


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
