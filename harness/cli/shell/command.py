"""`harness shell`: SQL on the tables of a catalog, statement by statement."""

from __future__ import annotations

import sys
from typing import Annotated

import click

import harness
from harness.cli import FAILED, options, terminal
from harness.cli.formats import MAX_ROWS, MaxRows, RowFormat, RowsFormat, number_of_rows
from harness.cli.parameters import Argument, Option


def shell(
    source: Annotated[
        str | None,
        Argument(
            metavar="CATALOG",
            help="The catalog or warehouse directory whose tables are available by name. [default: all "
            "configured catalogs]",
        ),
    ] = None,
    table: options.NamedTables = None,
    format_: RowsFormat = None,
    max_rows: MaxRows = str(MAX_ROWS),
    command: Annotated[
        list[str] | None,
        Option("-c", "--command", metavar="TEXT", help="Run these statements or this command, then exit. Repeatable."),
    ] = None,
    *,
    opening: options.OpeningOptions,
) -> None:
    """Run SQL interactively, or from standard input.

    Examples:
        harness shell warehouse
        harness shell prod --format csv < report.sql

    Statements can use the tables of the given catalog, or of all configured catalogs.
    """
    if opening.untrusted:
        raise click.BadParameter("a shell cannot be --untrusted: use harness sql --untrusted for each query")
    if source is not None and opening.catalog is not None:
        raise click.BadParameter("give the catalog once: as the argument, or with --catalog")
    row_format = format_ or RowFormat.TEXT
    if row_format.is_binary():
        raise click.BadParameter(
            f"--format {row_format.value} is binary: use harness sql to write one result to a file"
        )
    from harness.cli.shell.session import Session

    rows = number_of_rows(max_rows)
    locations = options.named_tables(table)
    with terminal.progress("opening the catalog"):
        connection = harness.connect(source or opening.catalog, **opening.arguments())
    for name, location in locations.items():
        connection.register(name, location)
    with connection:
        session = Session(connection, row_format=row_format, max_rows=rows)
        if command is not None:
            for text in command:
                if not session.is_over:
                    session.run_all(text.splitlines(keepends=True))
        elif sys.stdin is not None and sys.stdin.isatty():
            from harness.cli.shell.lines import converse

            converse(session)
        else:
            session.run_all(sys.stdin or ())
        if session.has_failed:
            raise click.exceptions.Exit(FAILED)
