"""The reading of `RowSource` rows, with pyarrow or with a separate DuckDB instance."""

from __future__ import annotations

import glob
from collections.abc import Mapping
from contextlib import ExitStack

import duckdb
import pyarrow as pa

from harness.diff.schemas import normal_type
from harness.diff.sources import RowSource, SourceKind
from harness.errors import EngineError, MissingFileError, RequestError
from harness.metadata.catalogs.catalog import parse_name
from harness.metadata.filters import sqltext
from harness.storage.threads import track

_INTEGER = r"\s*[-+]?\d+(\.0*)?\s*"
_FRACTION = r"\.\d{6}\d*[1-9]"
_MOST_DIGITS = 38
_EXACT_DIGITS = 36
"""The most digits of a decimal type whose differences stay exact within 38 digits, as tolerances need it."""
_EXTRA_DIGITS = 10
"""The digits after the decimal point that are read beyond the opposite side's scale, to show them as a difference."""


def typed_expression(text: str, column: str, type_: pa.DataType) -> str:
    """Return SQL that reads a text as a value of a type.

    A text that does not represent a value of the type raises an error that names the column and the text. For types
    without a text form here (nested types and bytes), the text stays text.
    """
    type_, kind = normal_type(type_), pa.types
    if kind.is_integer(type_):
        name = f"{'U' if kind.is_unsigned_integer(type_) else ''}{_INTEGERS[type_.bit_width]}"
        return _checked_cast(text, column, name, f"regexp_full_match({text}, {sqltext.text(_INTEGER)})")
    if kind.is_decimal(type_):
        extra_digits = min(_EXTRA_DIGITS, _MOST_DIGITS - min(type_.precision, _MOST_DIGITS))
        scale = type_.scale + extra_digits
        width = _EXACT_DIGITS if type_.precision + extra_digits <= _EXACT_DIGITS else _MOST_DIGITS
        digits = rf"\s*[-+]?\d*\.?\d{{0,{scale}}}0*\s*"
        return _checked_cast(
            text, column, f"DECIMAL({width}, {scale})", f"regexp_full_match({text}, {sqltext.text(digits)})"
        )
    if kind.is_date(type_):
        moment = f"CAST({text} AS TIMESTAMP)"
        return _checked_cast(text, column, "DATE", f"{moment} = date_trunc('day', {moment})")
    if kind.is_timestamp(type_):
        name = "TIMESTAMP" if type_.tz is None else "TIMESTAMP WITH TIME ZONE"
        return _checked_cast(text, column, name, f"NOT regexp_matches({text}, {sqltext.text(_FRACTION)})")
    name = _PLAIN.get(str(type_), "")
    return f"CAST({text} AS {name})" if name else text


def _checked_cast(text: str, column: str, name: str, holds: str) -> str:
    wrong = f"error({sqltext.text(f'column {column} has a text that is not of type {name}: ')} || {text})"
    return f"CASE WHEN {text} IS NULL THEN NULL WHEN {holds} THEN CAST({text} AS {name}) ELSE {wrong} END"


_INTEGERS = {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}
_PLAIN = {
    "bool": "BOOLEAN",
    "float": "FLOAT",
    "double": "DOUBLE",
    "time64[us]": "TIME",
    "time32[ms]": "TIME",
    "time32[s]": "TIME",
}


_EXTENSIONS = {SourceKind.SQLITE: "sqlite", SourceKind.POSTGRES: "postgres"}


def open_rows(source: RowSource, like: Mapping[str, pa.DataType] | None, resources: ExitStack) -> object:
    """Open the rows of a source as a DuckDB relation or as a stream of Arrow batches.

    Args:
        source: The source.
        like: The types of the opposite side's columns by name. Text columns are read as these types, after the query of
            a text source.
        resources: Closed after the comparison.

    Raises:
        RequestError: The database cannot be attached, it has no table of that name, or the query is wrong.
        EngineError: The file is not of the kind that its name says.
    """
    if source.kind in _EXTENSIONS or source.kind is SourceKind.DUCKDB:
        return _open_database(source, _connection(resources))
    if source.kind is SourceKind.ARROW:
        rows = _open_arrow_file(source.place, resources)
        if source.query is None:
            return rows
        connection = _connection(resources)
        return _run_query(connection, connection.from_arrow(rows), source)
    connection = _connection(resources)
    try:
        relation = connection.sql(f"SELECT * FROM {_scan(source, connection)}")
    except duckdb.Error as error:
        raise EngineError(f"Cannot read {source.place} as a {source.kind.value}: {_one_line(error)}") from error
    if source.query is not None:
        relation = _run_query(connection, relation, source)
    return relation if source.has_types or like is None else _with_types(relation, like)


def _connection(resources: ExitStack) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB instance that downloads no extensions and reads times without a zone as UTC."""
    connection = track(duckdb.connect(config={"autoinstall_known_extensions": False}))
    resources.callback(connection.close)
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def check_exists(source: RowSource) -> None:
    """Raise MissingFileError if a local file does not exist: a misspelled name is not a difference of rows."""
    local = source.kind is not SourceKind.POSTGRES and "://" not in source.place
    if local and source.place and not glob.glob(source.place):
        raise MissingFileError(f"Cannot find the {source.kind.value} {source.place}")


def _scan(source: RowSource, connection: duckdb.DuckDBPyConnection) -> str:
    place = sqltext.text(source.place)
    match source.kind:
        case SourceKind.CSV:
            tabs = ", delim = '\t'" if ".tsv" in source.place.lower() else ""
            return f"read_csv({place}, all_varchar = true, header = true, allow_quoted_nulls = false{tabs})"
        case SourceKind.JSON:
            result = connection.sql(f"SELECT * FROM read_json({place}, convert_strings_to_integers = false)")
            columns = {
                name: str(type_) if type_.id in ("list", "struct", "map") else "VARCHAR"
                for name, type_ in zip(result.columns, result.types, strict=True)
            }
            column_list = ", ".join(f"{sqltext.name(name)}: {sqltext.text(type_)}" for name, type_ in columns.items())
            return f"read_json({place}, columns = {{{column_list}}})"
        case _:
            return f"read_parquet({place})"


def _with_types(relation: duckdb.DuckDBPyRelation, types: Mapping[str, pa.DataType]) -> duckdb.DuckDBPyRelation:
    outputs = []
    for place, (name, type_) in enumerate(zip(relation.columns, relation.types, strict=True), 1):
        column_type = types.get(name) if type_.id == "varchar" else None
        text = f"#{place}" if column_type is None else typed_expression(f"#{place}", name, column_type)
        outputs.append(f"{text} AS {sqltext.name(name)}")
    return relation.project(", ".join(outputs))


def _open_arrow_file(place: str, resources: ExitStack) -> pa.RecordBatchReader:
    try:
        opened = resources.enter_context(pa.memory_map(place))
        try:
            file = pa.ipc.open_file(opened)
            batches = (file.get_batch(i) for i in range(file.num_record_batches))
            return pa.RecordBatchReader.from_batches(file.schema, batches)
        except pa.ArrowInvalid:
            opened.seek(0)
            return pa.ipc.open_stream(opened)
    except (pa.ArrowException, OSError) as error:
        raise EngineError(f"Cannot read {place} as an Arrow file: {_one_line(error)}") from error


def _open_database(source: RowSource, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    if source.place:
        kind = _EXTENSIONS.get(source.kind)
        how = "READ_ONLY" if kind is None else f"TYPE {kind}, READ_ONLY"
        try:
            connection.execute(f"ATTACH {sqltext.text(source.place)} AS side ({how})")
            connection.execute("USE side")
        except duckdb.Error as error:
            advice = f"; install it in DuckDB with INSTALL {kind}" if kind and "xtension" in str(error) else ""
            first = f"DuckDB's extension {kind} is not installed" if advice else _one_line(error, source)
            raise RequestError(f"Cannot attach the {source.kind.value} {source.name}: {first}{advice}") from error
    try:
        if source.table is None:
            return connection.sql(str(source.query))
        relation = connection.sql(f"SELECT * FROM {'.'.join(map(sqltext.name, parse_name(source.table)))}")
    except duckdb.Error as error:
        raise RequestError(f"Cannot read {source.name}: {_one_line(error, source)}") from error
    return relation if source.query is None else _run_query(connection, relation, source)


def _run_query(
    connection: duckdb.DuckDBPyConnection, rows: duckdb.DuckDBPyRelation, source: RowSource
) -> duckdb.DuckDBPyRelation:
    try:
        rows.create_view("t", replace=True)
        return connection.sql(str(source.query))
    except duckdb.Error as error:
        raise RequestError(f"Cannot run the {source.name}: {_one_line(error, source)}") from error


def _one_line(error: Exception, source: RowSource | None = None) -> str:
    """Return the error's text on one line, without the connection text of Postgres, which may hold a password."""
    line = " ".join(str(error).split())
    hides = source is not None and source.kind is SourceKind.POSTGRES and source.place
    return line.replace(source.place, "...") if source is not None and hides else line
