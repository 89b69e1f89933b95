"""`harness demo`: makes small tables with deletes, then plans and queries them: the main job, to look at."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

import harness
from harness.cli import terminal
from harness.cli.plan import explained
from harness.cli.writers import text_lines
from harness.errors import RequestError


def demo(
    directory: Annotated[
        Path | None, typer.Option("--directory", metavar="DIR", help="Keep the tables here; it must not exist yet.")
    ] = None,
) -> None:
    """Make tables with deletes, plan them and query them on DuckDB. Needs nothing else: no Java, no network."""
    if directory is None:
        with tempfile.TemporaryDirectory(prefix="harness-demo-") as scratch:
            show(Path(scratch))
        terminal.message("The tables are gone again; keep them with: harness demo --directory demo-tables")
        return
    if directory.exists():
        raise RequestError("Cannot make the demo tables: the directory exists; name a new one", file=str(directory))
    show(directory)
    terminal.message(f"The tables are in {directory}")


def show(directory: Path) -> None:
    """Make the tables in `directory` and print, for each, its plan and its rows under the commands that show them."""
    from harness.testing.demo import build_demo_tables

    with terminal.progress("making tables"):
        tables: Mapping[str, str] = {name: str(path) for name, path in build_demo_tables(directory).items()}
    for name, location in tables.items():
        query = f"SELECT * FROM {name} ORDER BY ALL"
        terminal.print_result(f"$ harness plan {shlex.quote(location)}\n")
        table = harness.open_table(location)
        terminal.print_result(explained(table.snapshot().plan().explain()), "\n")
        terminal.print_result(f"$ harness sql {shlex.quote(query)} --table {name}={shlex.quote(location)}\n")
        rows = pa.RecordBatchReader.from_stream(harness.sql(query, **{name: table}))
        terminal.print_result(*text_lines(rows.schema, rows), "\n")
