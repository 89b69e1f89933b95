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
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import pyarrow as pa
import typer

from harness.cli import results
from harness.cli.results import ByteStream, write_texts
from harness.cli.rows import Rows
from harness.cli.text_table import MAX_ROWS, text_lines
from harness.cli.values import EXACT, infinite_moment
from harness.engines import sqltext
from harness.errors import RequestError, json_lines, json_text, visible_lines
from harness.storage.records import dataclass

# The rules of `harness.cli.values` as SQL, so that DuckDB itself writes values as JSON and as text.
#
# Python takes 2 µs for each value. Here is only the text of expressions; nothing is run. Types are those that a query's
# result has (`docs/reference/result-types.md`), on a connection in time zone UTC.


_SPACES = r"\x09-\x0d\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
"""Python's white space, which a reader of CSV may strip."""
_QUOTED = sqltext.text(rf'[,"\r\n]|^[{_SPACES}]|[{_SPACES}]$|^$')

_WHOLE = {"tinyint", "smallint", "integer", "utinyint", "usmallint", "uinteger"}
_UNITS = {
    **{"date": "D", "timestamp_s": "s", "timestamp_ms": "ms", "timestamp": "us", "timestamp_ns": "ns"},
    **{"timestamp with time zone": "us", "timestamptz_ns": "ns"},
}
_NESTED = {"list", "array", "map", "struct", "tuple", "union"}


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A value that is not nested, in SQL.

    text: NULL for a null. bare: whether it is a JSON number or boolean. escaped: whether JSON may have to escape it.
    """

    text: str
    bare: str = "false"
    escaped: bool = False


def cell(value: str, type_: Any) -> str:
    """A value as one text, NULL for null: strings bare, nested values as compact JSON, as `text_of` has them.

    Args:
        value: SQL of the value, which may be repeated.
        type_: its DuckDBPyType.
    """
    if type_.id == "union":
        return _of_member(value, type_, cell)
    if type_.id in _NESTED:
        return _unless_null(value, _json_value(value, type_))
    return _leaf(value, type_).text


def _csv_quoted(text: str, type_: Any) -> str:
    """The text of a cell, in quotes where CSV needs them; `type_`: of the cell's value."""
    if not (type_.id in _NESTED or type_.id == "blob" or _leaf(text, type_).escaped):
        return text
    quoted = f"""concat('"', replace({text}, '"', '""'), '"')"""
    return f"CASE WHEN regexp_matches({text}, {_QUOTED}) THEN {quoted} ELSE {text} END"


def _json_value(value: str, type_: Any, *, spaced: bool = False, depth: int = 0) -> str:
    """A value as JSON, `null` for null. Of what is unprintable only control characters are escaped.

    Args:
        value, type_: as for `cell`.
        spaced: a space follows each comma and colon.
        depth: how many lambdas are around it, whose parameters have names of their own.
    """
    comma, item = ", " if spaced else ",", f"x{depth}"

    def part(text: str, of: Any) -> str:
        return _json_value(text, of, spaced=spaced, depth=depth)

    def in_lambda(text: str, of: Any) -> str:
        return _json_value(text, of, spaced=spaced, depth=depth + 1)

    match type_.id:
        case "list":
            text = _joined(value, item, in_lambda(item, dict(type_.children)["child"]), comma)
        case "array":
            child = dict(type_.children)["child"]
            text = _joined(f"CAST({value} AS {child}[])", item, in_lambda(item, child), comma)
        case "map":
            pair = [in_lambda(f"struct_extract({item}, '{name}')", of) for name, of in type_.children]
            text = _joined(f"map_entries({value})", item, f"concat('[', {pair[0]}, '{comma}', {pair[1]}, ']')", comma)
        case "struct" | "tuple":
            parts = (part(f"struct_extract_at({value}, {n})", of) for n, (_, of) in enumerate(type_.children, 1))
            # Fields of a tuple have no names; Arrow has these.
            names = [name or f"element{n}" for n, (name, _) in enumerate(type_.children, 1)]
            text = _json_object(names, parts, spaced=spaced)
        case "union":
            return f"coalesce({_of_member(value, type_, part)}, 'null')"
        case _:
            return f"coalesce({_json_leaf(_leaf(value, type_))}, 'null')"
    return f"coalesce({_unless_null(value, text)}, 'null')"


def _json_object(names: Iterable[str], values: Iterable[str], *, spaced: bool) -> str:
    """A JSON object of these members, whose values are SQL of JSON; `spaced` as for `_json_value`."""
    comma, colon = (", ", ": ") if spaced else (",", ":")
    members = [
        f"{sqltext.text((comma if place else '') + json_text(name) + colon)}, {value}"
        for place, (name, value) in enumerate(zip(names, values, strict=True))
    ]
    braced = ["'{'", *members, "'}'"]
    return f"concat({', '.join(braced)})"


def _joined(items: str, item: str, text: str, comma: str) -> str:
    return f"concat('[', array_to_string(list_transform({items}, lambda {item}: {text}), '{comma}'), ']')"


def _unless_null(value: str, text: str) -> str:
    return f"CASE WHEN {value} IS NOT NULL THEN {text} END"


def _of_member(value: str, type_: Any, convert: Callable[[str, Any], str]) -> str:
    cases = (
        f"WHEN {sqltext.text(name)} THEN {convert(f'union_extract({value}, {sqltext.text(name)})', of)}"
        for name, of in type_.children[1:]  # the first is the tag
    )
    return f"CASE CAST(union_tag({value}) AS VARCHAR) {' '.join(cases)} END"


def _json_leaf(leaf: _Leaf) -> str:
    if leaf.bare == "true":
        return leaf.text
    quoted = (
        f"CAST(to_json({leaf.text}) AS VARCHAR)"
        if leaf.escaped
        else _unless_null(leaf.text, f"""concat('"', {leaf.text}, '"')""")
    )
    return quoted if leaf.bare == "false" else f"CASE WHEN {leaf.bare} THEN {leaf.text} ELSE {quoted} END"


def _leaf(value: str, type_: Any) -> _Leaf:
    text = f"CAST({value} AS VARCHAR)"
    match type_.id:
        case "boolean":
            return _Leaf(text, "true")
        case kind if kind in _WHOLE:
            return _Leaf(text, "true")
        case "bigint" | "ubigint":
            return _Leaf(text, _is_exact(value))
        case "decimal":
            return _decimal(value, text, *(int(size) for _, size in type_.children))
        case "float" | "double":
            is_finite = f"isfinite({value})"
            other = f"CASE WHEN isnan({value}) THEN 'NaN' WHEN {value} > 0 THEN 'Infinity' ELSE '-Infinity' END"
            return _Leaf(f"CASE WHEN {is_finite} THEN {text} ELSE {_unless_null(value, other)} END", is_finite)
        case "blob":
            return _Leaf(f"hex({value})")
        case "geometry":
            return _Leaf(f"hex(ST_AsWKB({value}))")
        case "uuid" | "time" | "time_ns":
            return _Leaf(text)
        case "interval":
            return _Leaf(_interval(value))
        case kind if kind in _UNITS:
            return _Leaf(_moment(value, text, type_))
        case _:
            return _Leaf(text, escaped=True)


def _is_exact(value: str) -> str:
    return f"{value} BETWEEN {-EXACT} AND {EXACT}"


def _decimal(value: str, text: str, precision: int, scale: int) -> _Leaf:
    if scale == 0:
        return _Leaf(text, "true" if precision < len(str(EXACT)) else _is_exact(value))
    # Where there is no digit before the point, DuckDB writes none.
    return _Leaf(rf"regexp_replace({text}, '^(-?)\.', '\10.')" if scale == precision else text)


def _interval(value: str) -> str:
    months = f"(date_part('year', {value}) * 12 + date_part('month', {value}))"
    days = f"date_part('day', {value})"
    micros = " + ".join(
        f"date_part('{part}', {value}) * {size}"
        for part, size in (("hour", 3_600_000_000), ("minute", 60_000_000), ("microseconds", 1))
    )
    seconds = f"rtrim(rtrim(CAST(CAST({micros} AS DECIMAL(20,0)) * 0.000001::DECIMAL(7,6) AS VARCHAR), '0'), '.')"
    parts = (
        f"CASE WHEN {months} <> 0 THEN concat({months}, 'M') END",
        f"CASE WHEN {days} <> 0 THEN concat({days}, 'D') END",
        f"CASE WHEN {micros} <> 0 OR ({months} = 0 AND {days} = 0) THEN concat('T', {seconds}, 'S') END",
    )
    return _unless_null(value, f"concat('P', {', '.join(parts)})")


def _moment(value: str, text: str, type_: Any) -> str:
    """ISO 8601. What is infinite is the moment that Arrow takes it for; years before 1 are counted from 0 down."""
    kind, unit = type_.id, _UNITS[type_.id]
    zone = "Z" if kind in ("timestamp with time zone", "timestamptz_ns") else ""
    usual, local = f"replace({text}, ' ', 'T')", value
    if kind == "timestamp with time zone":
        # Not by way of the time zone, whose calendar is the Julian one before 1582.
        local = f"make_timestamp(epoch_us({value}))"
        usual = f"replace(CAST({local} AS VARCHAR), ' ', 'T') || 'Z'"
    elif zone:
        usual = f"left({usual}, -3) || 'Z'"  # in place of +00
    day = ", ".join(f"date_part('{part}', {local})" for part in ("year", "month", "day"))
    early = f"printf('%04d-%02d-%02d', {day})"
    if kind != "date":
        early = f"concat({early}, 'T', CAST(CAST({local} AS TIMESTAMP) AS TIME), '{zone}')"
    cases = [
        f"WHEN {value} = CAST('{sign}infinity' AS {type_}) THEN '{infinite_moment(unit, sign)}{zone}'"
        for sign in ("", "-")
    ]
    if not kind.endswith("_ns"):  # which begin in 1677
        cases.append(f"WHEN {value} < CAST('0001-01-01' AS {type_}) THEN {early}")
    return f"CASE {' '.join(cases)} ELSE {usual} END"


# Rows as lines of CSV and JSON, which DuckDB puts together: what it hands over is the text to write, as bytes.


FORMAT = 1
"""The number of the JSON document. It changes when a key changes its meaning or goes."""


def write_csv(rows: Rows, stream: ByteStream) -> None:
    """Writes a header and a line a row."""
    types = [type_ for _, type_ in rows.columns]
    cells = rows.selected(*(cell(f"#{place}", type_) for place, type_ in enumerate(types, 1)))
    quoted = [_csv_quoted(f"#{place}", type_) for place, type_ in enumerate(types, 1)]
    separated = ", ',', ".join(quoted)
    head = ",".join(csv_quotes(name) for name, _ in rows.columns) + "\n"
    for text, _ in _texts(cells.selected(f"concat({separated}, chr(10))")):
        _write_csv(head, text, stream)
        head = ""
    _write_csv(head, memoryview(b""), stream)


def write_json(rows: Rows, stream: ByteStream) -> None:
    """Writes a JSON document, a row a line."""
    columns = [{"name": field.name, "type": str(field.type)} for field in rows.schema()]
    values = [_json_value(f"#{place}", type_, spaced=True) for place, (_, type_) in enumerate(rows.columns, 1)]
    separated = ", ', ', ".join(values)
    before, count = f'{{"format": {FORMAT}, "kind": "rows", "columns": {json_text(columns)}, "rows": [', 0
    for text, number in _texts(rows.selected(f"concat(',', chr(10), '[', {separated}, ']')")):
        if count == 0:
            write_texts([before], stream)
        _write_json(text[1:] if count == 0 else text, stream)  # without the first comma
        count += number
    head, end = (before, "") if count == 0 else ("", "\n")
    write_texts([f'{head}{end}], "row_count": {count}}}\n'], stream)


def _write_jsonl(rows: Rows, stream: ByteStream) -> None:
    """Writes a JSON object a row."""
    names = [name for name, _ in rows.columns]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise RequestError(
            f"Cannot write rows as jsonl: more than one column is named {twice[0]!r}; rename it with AS", field=twice[0]
        )
    values = [_json_value(f"#{place}", type_, spaced=True) for place, (_, type_) in enumerate(rows.columns, 1)]
    for text, _ in _texts(rows.selected(f"concat({_json_object(names, values, spaced=True)}, chr(10))")):
        _write_json(text, stream)


def csv_quotes(text: str) -> str:
    """A text that is no null, quoted as a cell of CSV where it must be."""
    if text == "" or any(sign in text for sign in ',"\r\n') or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text


def _texts(rows: Rows) -> Iterator[tuple[memoryview, int]]:
    """The texts of the only column one after the other, in UTF-8, batch by batch; and of how many rows each is."""
    for batch in rows.batches():
        if batch.num_rows:
            texts = batch.column(0)
            _, places, data = texts.buffers()
            start, end = np.frombuffer(places, np.int32)[[texts.offset, texts.offset + len(texts)]]
            yield memoryview(data)[start:end], batch.num_rows


def _write_csv(head: str, text: memoryview, stream: ByteStream) -> None:
    """Values as they are; a terminal gets what is unprintable escaped."""
    if stream.isatty():
        write_texts([head, str(text, "utf-8")], stream)
    else:
        write_texts([head], stream)
        stream.write(text)


def _write_json(text: memoryview, stream: ByteStream) -> None:
    r"""Nothing unprintable: of that DuckDB escapes control characters, but not DEL and what is beyond ASCII."""
    plain = bytes(text)
    is_printable = plain.isascii() and b"\x7f" not in plain
    stream.write(plain if is_printable else json_lines(plain.decode()).encode())


_ROW_GROUP = 122_880
"""The size of a row group of DuckDB's own writer."""
_DICTIONARY_BYTES = 128 * 1024
"""The limit of a dictionary. Arrow's own megabyte holds all values of a group, and each once more as an index:
of 5 M rows with mostly different values, writing takes twice the time and the file twice the room."""


_EXPLAINED = ["explain_key", "explain_value"]


class RowFormat(enum.Enum):
    """Forms of written rows."""

    TEXT = "text"
    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    PARQUET = "parquet"
    ARROW = "arrow"

    def is_binary(self) -> bool:
        """Tells whether the format is unfit for a terminal."""
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
            _write_jsonl(rows, stream)
        case RowFormat.PARQUET:
            _write_parquet(rows, stream)
        case RowFormat.ARROW:
            _write_arrow(rows, stream)


def _explained(rows: Rows) -> Iterator[str]:
    """The text of EXPLAIN, which has lines of its own."""
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
    """An output for Arrow that counts its writes, because a pipe cannot tell its position."""

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


# Options of commands that print rows.


Format: TypeAlias = Annotated[RowFormat, typer.Option("--format", help="How rows are written.")]
OutputFile: TypeAlias = Annotated[
    Path | None, typer.Option("--output-file", metavar="FILE", help="Write here instead of standard output.")
]
MaxRows: TypeAlias = Annotated[
    str,
    typer.Option(
        "--max-rows", metavar="N", help="How many rows are shown as text; the others are counted. all: all of them."
    ),
]


def number_of_rows(text: str) -> int | None:
    """The value of --max-rows; None: all, for which 0 stands too.

    Raises:
        typer.BadParameter: it is no number of rows.
    """
    if text != "all" and not text.isdecimal():
        raise typer.BadParameter(f"--max-rows {text!r}: expected a number of rows, or all")
    return None if text == "all" else int(text) or None


def check_place(row_format: RowFormat, output_file: Path | None) -> None:
    """Refuses to write a binary format to a terminal."""
    if row_format.is_binary() and output_file is None and results.is_terminal_output():
        raise typer.BadParameter(
            f"--format {row_format.value} is binary: use --output-file, or redirect standard output"
        )
