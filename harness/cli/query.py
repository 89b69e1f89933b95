"""`harness sql`: a query on tables, run by DuckDB on the planned files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer

import harness
from harness.cli import options, results, terminal, untrusted
from harness.cli.writers import RowFormat, write_rows
from harness.errors import EngineError
from harness.query import missing_file

if TYPE_CHECKING:
    from harness.snapshot import Snapshot
    from harness.table import Table

# `harness.sql` takes tables as keyword arguments, beside these.
_TAKEN = {"connection", "dialect", "engine", "spark"}


@options.grouped
def sql(
    query: Annotated[str, typer.Argument(metavar="SQL", help="The query; - reads it from standard input.")],
    table: Annotated[
        list[str] | None, typer.Option("--table", metavar="NAME=TABLE", help="A table of the query. Repeatable.")
    ] = None,
    format_: Annotated[RowFormat, typer.Option("--format", help="How rows are written.")] = RowFormat.TEXT,
    output_file: Annotated[
        Path | None, typer.Option("--output-file", metavar="FILE", help="Write here instead of standard output.")
    ] = None,
    dialect: Annotated[str, typer.Option(metavar="NAME", help="The SQL dialect of the query.")] = "duckdb",
    *,
    context: typer.Context,
    selector: options.Selector,
    opening: options.Opening,
    reading: options.Reading,
    trust: options.Trust,
) -> None:
    """Run a query. --snapshot, --timestamp and --ref hold for every table."""
    if format_.is_binary() and output_file is None and results.is_terminal_output():
        raise typer.BadParameter(f"--format {format_.value} is binary: use --output-file, or redirect standard output")
    locations = pairs_of_tables(table)
    text = sys.stdin.read() if query == "-" else query
    if untrusted.is_for_worker(trust):
        untrusted.run(
            context,
            trust,
            locations.values(),
            opening.roots(),
            output=output_file,
            binary=format_.is_binary(),
            instead={"query": text, "output_file": None},
        )
        return
    with terminal.progress("reading metadata"):
        tables = {name: _chosen(opening.open(place, trust, reading), selector) for name, place in locations.items()}
    with terminal.progress("running the query"):
        rows = run(text, tables, dialect)
    with results.destination(output_file) as stream:
        write_rows(rows, format_, stream)


def run(query: str, tables: dict[str, Any], dialect: str = "duckdb") -> pa.RecordBatchReader:
    """The rows of the query: run to its end, so that an error comes before the first row is written.

    Their types are those of `docs/reference/result-types.md`: UUIDs and JSON are no text here, as files can say so.

    Raises:
        EngineError: DuckDB refuses the query, or fails on a row.
        MissingFileError: a file went since the query was planned.
        HarnessError: see `harness.sql`.
    """
    import duckdb

    from harness.engines.shared.duckdb_instance import cursor

    try:
        result = harness.sql(query, dialect=dialect, connection=cursor(), **tables)
        return with_booleans(pa.RecordBatchReader.from_stream(result))
    except duckdb.Error as error:
        gone = missing_file(error, tables) if isinstance(error, duckdb.IOException) else None
        raise gone or EngineError(f"DuckDB cannot run the query: {error}") from error


def with_booleans(rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """The rows, with booleans where DuckDB's Arrow output has bytes for them: files would say that they are numbers."""
    return rows.cast(pa.schema([field.with_type(_with_booleans(field.type)) for field in rows.schema]))


def _with_booleans(type_: pa.DataType) -> pa.DataType:
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
        case _:  # a union, which Arrow does not cast
            return type_


def pairs_of_tables(values: list[str] | None) -> dict[str, str]:
    """Locations by table name.

    Raises:
        typer.BadParameter: a value that is not of the form NAME=TABLE, or a name given twice or not possible.
    """
    locations = options.pairs(values, "--table")
    if taken := _TAKEN & locations.keys():
        raise typer.BadParameter(f"--table cannot name a table {min(taken)!r}; choose another name")
    return locations


def _chosen(table: Table, selector: options.Selector) -> Table | Snapshot:
    return table if selector.is_current() else selector.select(table)
