"""Query results as text, csv, json, jsonl, parquet, or Arrow.

    text     columns for people: the first rows, and the number of rows that are not shown. Nulls are NULL, and control
             characters are escaped.
    csv      header and rows, RFC 4180 quoting, line feeds. A null is empty, an empty string is `""`, and nested values
             are JSON.
    json     one document: format, kind, columns (name, type), rows as arrays in column order, row_count.
    jsonl    one object per row. Refused if two columns have the same name, because one would be lost.
    parquet  a Parquet file (zstandard).
    arrow    an Arrow IPC file, which Feather and Polars read.
    arrows   an Arrow IPC stream.

`harness.cli.values` defines the format of single values. Only the first rows of text are kept in memory.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from harness.cli import results
from harness.cli.formats import MAX_ROWS, RowFormat
from harness.cli.results import ByteStream, write_texts
from harness.cli.values import cell, csv_quoted, is_nested, json_object, json_value
from harness.errors import EngineError, HarnessError, RequestError, json_lines, json_text, visible_lines
from harness.metadata.model.text_tables import Style, column_of, table_lines, unstyled
from harness.storage.records import dataclass

if TYPE_CHECKING:
    import duckdb

FORMAT = 1
"""The version of the JSON document. It changes if a key is removed or changes its meaning."""
_BATCH_ROWS = 8_192
"""The number of rows in a batch.

It is small because a batch of text lines may not exceed 2 GB, and because a terminal then shows the first rows early.
"""


def engine_error(error: Exception) -> HarnessError:
    """Return the error for a DuckDB failure without further details."""
    return EngineError(f"DuckDB cannot run the query: {error}")


@dataclass(frozen=True, slots=True)
class QueryRows:
    """The rows of a query, which runs each time they are read. `docs/reference/result-types.md` lists the types.

    Attributes:
        relation: The query, on a connection that harness created.
        failure: Translates an error of DuckDB.
    """

    relation: duckdb.DuckDBPyRelation
    failure: Callable[[Exception], HarnessError] = engine_error

    @classmethod
    def from_arrow(cls, table: pa.Table) -> QueryRows:
        """Wrap the rows of an Arrow table."""
        from harness.engines.duckdb.instance import cursor
        from harness.metadata.filters import sqltext

        names = table.column_names
        if len({name.casefold() for name in names}) == len(names):
            return cls(cursor().from_arrow(table))
        places = cursor().from_arrow(table.rename_columns([f"c{i}" for i in range(len(names))]))
        return cls(places.project(", ".join(f"#{i} AS {sqltext.name(name)}" for i, name in enumerate(names, 1))))

    @property
    def columns(self) -> list[tuple[str, Any]]:
        """Name and DuckDBPyType of each column. Names may repeat."""
        return list(zip(self.relation.columns, self.relation.types, strict=True))

    def schema(self) -> pa.Schema:
        """Return the schema of the batches without reading rows."""
        with self._translating_errors():
            return _file_schema(self.relation.limit(0).to_arrow_table().schema)

    def selected(self, *columns: str) -> QueryRows:
        """Return the rows with new columns.

        Each new column is a SQL expression that refers to the existing columns as #1, #2, and so on.
        """
        return dataclasses.replace(self, relation=self.relation.project(", ".join(columns)))

    def as_arrow(self) -> QueryRows:
        """Return the rows with columns converted to types that Arrow has."""
        from harness.engines.duckdb.relations import output_list

        columns = output_list(self.relation.columns, self.relation.types, as_arrow=True)
        return self if columns is None else self.selected(columns)

    def batches(self, size: int = _BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the rows while DuckDB runs, at most `size` per batch.

        A failure on the first row is raised before any batch.
        """
        from harness.engines.duckdb.engine import RelationStream

        with self._translating_errors():
            stream = RelationStream(self.relation, size)
        schema = _file_schema(stream.schema)
        with contextlib.closing(stream):
            while True:
                with self._translating_errors():
                    batch = stream.read()
                if batch is None:
                    return
                yield batch.cast(schema)

    @contextlib.contextmanager
    def _translating_errors(self) -> Iterator[None]:
        import duckdb

        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError) as error:  # streams report DuckDB's errors as OSError
            raise self.failure(error) from error


def _file_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_type(_with_booleans(field.type)) for field in schema])


def _with_booleans(type_: pa.DataType) -> pa.DataType:
    """Replace DuckDB's one-byte booleans by Arrow's booleans, because files would treat them as numbers."""
    if isinstance(type_, pa.BaseExtensionType):
        return pa.bool_() if type_.extension_name == "arrow.bool8" else type_
    parts = [_with_booleans(type_.field(i).type) for i in range(type_.num_fields)]
    if all(part.equals(type_.field(i).type) for i, part in enumerate(parts)):
        return type_
    match type_:
        case pa.StructType():
            return pa.struct([field.with_type(part) for field, part in zip(type_, parts, strict=True)])
        case pa.ListType():
            return pa.list_(type_.value_field.with_type(parts[0]))
        case pa.FixedSizeListType():
            return pa.list_(type_.value_field.with_type(parts[0]), type_.list_size)
        case pa.MapType():
            return pa.map_(*(_with_booleans(part) for part in (type_.key_type, type_.item_type)))
        case _:  # a union, which Arrow cannot cast
            return type_


def text_lines(
    rows: QueryRows,
    *,
    max_rows: int | None = None,
    width: int | None = None,
    style: Style = unstyled,
    option: str = "--max-rows",
) -> Iterator[str]:
    """Yield names, types, a separator, a line per row, and the number of rows that are not shown.

    Args:
        rows: The rows.
        max_rows: The maximum number of rows to show, or None for all. If None, the first batch determines column
            widths.
        width: The maximum width of a line in cells, or None.
        style: Styles the text.
        option: The name of the option that sets `max_rows`.
    """
    columns = [column_of(name, type_) for name, type_ in rows.columns]
    rows, total = rows.as_arrow(), 0
    cells: Iterable[list[tuple[str | None, ...]]] = _cells(rows)
    if max_rows is not None:
        first_batches = []
        for batch in rows.batches():
            if total < max_rows:
                first_batches.append(batch[: max_rows - total])
            total += batch.num_rows
        texts = _cells(QueryRows.from_arrow(pa.Table.from_batches(first_batches))) if first_batches else ()
        cells = [list(chain.from_iterable(texts))]
    yield from (f"{line}\n" for line in table_lines(columns, cells, width=width, style=style))
    if max_rows is not None and total > max_rows:
        yield f"({max_rows:,} of {total:,} rows; {option} all shows all)\n"


def _cells(rows: QueryRows) -> Iterator[list[tuple[str | None, ...]]]:
    """Yield the cells of the rows, batch by batch."""
    types = [type_ for _, type_ in rows.columns]
    for batch in _as_texts(rows).batches():
        columns = []
        for column, type_ in zip(batch.columns, types, strict=True):
            escaped = json_lines if is_nested(type_) else str
            columns.append([None if text is None else escaped(text) for text in column.to_pylist()])
        yield list(zip(*columns, strict=True))


def _as_texts(rows: QueryRows) -> QueryRows:
    return rows.selected(*(cell(f"#{place}", type_) for place, (_, type_) in enumerate(rows.columns, 1)))


def _write_csv(rows: QueryRows, stream: ByteStream) -> None:
    separated = ", ',', ".join(csv_quoted(f"#{place}", type_) for place, (_, type_) in enumerate(rows.columns, 1))
    head = ",".join(csv_quotes(name) for name, _ in rows.columns) + "\n"
    for text, _ in _texts(_as_texts(rows).selected(f"concat({separated}, chr(10))")):
        write_texts([head], stream)
        head = ""
        if stream.isatty():
            write_texts([str(text, "utf-8")], stream)
        else:
            stream.write(text)
    write_texts([head], stream)


def _json_values(rows: QueryRows) -> list[str]:
    return [json_value(f"#{place}", type_, spaced=True) for place, (_, type_) in enumerate(rows.columns, 1)]


def _write_json_document(rows: QueryRows, stream: ByteStream) -> None:
    # Arrow does not know DuckDB's own types, for example hugeint.
    types = [(f.name, f.type.type_name if isinstance(f.type, pa.OpaqueType) else str(f.type)) for f in rows.schema()]
    columns = [{"name": name, "type": type_} for name, type_ in types]
    separated = ", ', ', ".join(_json_values(rows))
    before, count = f'{{"format": {FORMAT}, "kind": "rows", "columns": {json_text(columns)}, "rows": [', 0
    for text, number in _texts(rows.selected(f"concat(',', chr(10), '[', {separated}, ']')")):
        if count == 0:
            write_texts([before], stream)
        _write_json(text[1:] if count == 0 else text, stream)  # without the leading comma
        count += number
    head, end = (before, "") if count == 0 else ("", "\n")
    write_texts([f'{head}{end}], "row_count": {count}}}\n'], stream)


def _write_jsonl(rows: QueryRows, stream: ByteStream) -> None:
    names = [name for name, _ in rows.columns]
    if repeated_names := sorted({name for name in names if names.count(name) > 1}):
        raise RequestError(
            f"Cannot write rows as jsonl: more than one column is named {repeated_names[0]!r}; rename it with AS",
            field=repeated_names[0],
        )
    for text, _ in _texts(rows.selected(f"concat({json_object(names, _json_values(rows), spaced=True)}, chr(10))")):
        _write_json(text, stream)


def csv_quotes(text: str) -> str:
    """Quote text as a CSV cell if necessary."""
    if text == "" or any(sign in text for sign in ',"\r\n') or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text


def _texts(rows: QueryRows) -> Iterator[tuple[memoryview, int]]:
    """Yield the texts of the only column as UTF-8, batch by batch, with the number of rows."""
    for batch in rows.batches():
        if batch.num_rows:
            texts = batch.column(0)
            _, places, data = texts.buffers()
            start, end = np.frombuffer(places, np.int32)[[texts.offset, texts.offset + len(texts)]]
            yield memoryview(data)[start:end], batch.num_rows


def _write_json(text: memoryview, stream: ByteStream) -> None:
    """Write JSON without unprintable characters. DuckDB escapes control characters, but not DEL and above."""
    plain = bytes(text)
    is_printable = plain.isascii() and b"\x7f" not in plain
    stream.write(plain if is_printable else json_lines(plain.decode()).encode())


_ROW_GROUP = 122_880
"""The size of a row group in DuckDB's own writer."""
_DICTIONARY_BYTES = 128 * 1024
"""The maximum size of a dictionary. With Arrow's megabyte, mostly distinct values take twice the time and space."""
_EXPLAIN_COLUMNS = ["explain_key", "explain_value"]


def write_rows(
    rows: QueryRows,
    row_format: RowFormat,
    stream: ByteStream,
    *,
    max_rows: int | None = MAX_ROWS,
    option: str = "--max-rows",
) -> None:
    """Write all rows while they are read. Text shows at most `max_rows`, which `option` sets, or all if it is None."""
    match row_format:
        case RowFormat.TEXT if [name for name, _ in rows.columns] == _EXPLAIN_COLUMNS:
            for batch in rows.batches():  # EXPLAIN output has its own lines
                write_texts((visible_lines(text).rstrip("\n") + "\n" for text in batch[1].to_pylist()), stream)
        case RowFormat.TEXT:
            width = shutil.get_terminal_size().columns if stream.isatty() else None
            style = results.style_of(stream)
            for line in text_lines(rows, max_rows=max_rows, width=width, style=style, option=option):
                stream.write(line.encode())
        case RowFormat.CSV:
            _write_csv(rows, stream)
        case RowFormat.JSON:
            _write_json_document(rows, stream)
        case RowFormat.JSONL:
            _write_jsonl(rows, stream)
        case RowFormat.PARQUET:
            _write_parquet(rows, stream)
        case RowFormat.ARROW | RowFormat.ARROWS:
            schema, batches = _started(rows)
            begin = pa.ipc.new_file if row_format is RowFormat.ARROW else pa.ipc.new_stream
            with begin(_Sink(stream), schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)


def _write_parquet(rows: QueryRows, stream: ByteStream) -> None:
    import pyarrow.parquet as pq

    schema, batches = _started(rows)
    try:
        with pq.ParquetWriter(
            _Sink(stream), schema, compression="zstd", dictionary_pagesize_limit=_DICTIONARY_BYTES
        ) as writer:
            for batch in batches:
                writer.write_batch(batch)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        for field in schema:
            try:
                pq.ParquetWriter(io.BytesIO(), pa.schema([field])).close()
            except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
                raise RequestError(
                    f"Cannot write rows as parquet: the format cannot contain column {field.name!r}, of type "
                    f"{field.type}; cast it in the query, with CAST(... AS VARCHAR)",
                    field=field.name,
                ) from error
        raise RequestError(f"Cannot write rows as parquet: {error}; cast the column in the query") from error


def _started(rows: QueryRows) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the schema and the batches. The first batch is read now, so that early failures precede any output."""
    rows = rows.as_arrow()
    schema, batches = rows.schema(), rows.batches(_ROW_GROUP)
    return schema, chain([batch for batch in [next(batches, None)] if batch is not None], batches)


class _Sink(io.RawIOBase):
    """An output for Arrow that counts written bytes, because a pipe does not know its position."""

    def __init__(self, stream: ByteStream) -> None:
        super().__init__()
        self._stream, self._position = stream, 0

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._stream.write(view)
        self._position += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self._position

    def writable(self) -> bool:
        return True
