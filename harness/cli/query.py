"""`harness sql`: a query on tables, run by DuckDB on the planned files."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import pyarrow as pa
import typer

import harness
from harness.cli import options, terminal
from harness.cli.writers import RowFormat, write_rows
from harness.errors import EngineError, RequestError

# `harness.sql` takes tables as keyword arguments, beside these.
_TAKEN = {"connection", "dialect"}


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
    snapshot: options.SnapshotId = None,
    timestamp: options.Timestamp = None,
    ref: options.Ref = None,
    path_map: options.PathMap = None,
    storage_option: options.StorageOption = None,
    allow_version_guess: options.AllowVersionGuess = False,
    format_hint: options.FormatHint = None,
    prune: options.PruneLevel = None,
    lenient_delete_partition: options.LenientDeletePartition = False,
    allow_duplicate_files: options.AllowDuplicateFiles = False,
) -> None:
    """Run a query. --snapshot, --timestamp and --ref hold for every table."""
    if format_.is_binary() and output_file is None and terminal.is_terminal_output():
        raise typer.BadParameter(f"--format {format_.value} is binary: use --output-file, or redirect standard output")
    opening = options.Opening(
        path_map=path_map,
        storage_option=storage_option,
        allow_version_guess=allow_version_guess,
        format_hint=format_hint,
        prune=prune,
        lenient_delete_partition=lenient_delete_partition,
        allow_duplicate_files=allow_duplicate_files,
    )
    selector = options.Selector(snapshot=snapshot, timestamp=timestamp, ref=ref)
    locations = pairs_of_tables(table)
    with terminal.progress("reading metadata"):
        tables = {name: _chosen(opening, selector, location) for name, location in locations.items()}
    with terminal.progress("running the query"):
        rows = run(sys.stdin.read() if query == "-" else query, tables, dialect)
    with _destination(output_file) as stream:
        write_rows(rows, format_, stream)


def run(query: str, tables: dict[str, Any], dialect: str = "duckdb") -> pa.RecordBatchReader:
    """The rows of the query: run to its end, so that an error comes before the first row is written.

    Raises:
        EngineError: DuckDB refuses the query, or fails on a row.
        HarnessError: see `harness.sql`.
    """
    import duckdb

    try:
        return pa.RecordBatchReader.from_stream(harness.sql(query, dialect=dialect, **tables))
    except duckdb.Error as error:
        raise EngineError(f"DuckDB cannot run the query: {error}") from error


def pairs_of_tables(values: list[str] | None) -> dict[str, str]:
    """Locations by table name.

    Raises:
        typer.BadParameter: a value that is not of the form NAME=TABLE, or a name given twice or not possible.
    """
    locations = options.pairs(values, "--table")
    if taken := _TAKEN & locations.keys():
        raise typer.BadParameter(f"--table cannot name a table {min(taken)!r}; choose another name")
    return locations


def _chosen(opening: options.Opening, selector: options.Selector, location: str) -> Any:
    table = opening.open(location)
    return table if selector.is_current() else selector.select(table)


@contextlib.contextmanager
def _destination(path: Path | None) -> Iterator[BinaryIO]:
    """Standard output, or a file that is there with all its content or not at all."""
    if path is None:
        with terminal.result_stream() as stream:
            yield stream
        return
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise RequestError(f"Cannot write to the output file: {error.strerror}", file=str(path)) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        os.chmod(name, 0o666 & ~_umask())  # mkstemp's files are private
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
