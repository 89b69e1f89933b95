"""`harness shell`: SQL over the tables of a catalog, statement by statement."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated

import typer

import harness
from harness.cli import FAILED, interruption, options, terminal, untrusted
from harness.cli.shell.session import ApartSession, Session, warehouse
from harness.cli.shell.terminal_lines import TerminalLines
from harness.cli.text_table import MAX_ROWS
from harness.cli.writers import RowFormat, number_of_rows
from harness.tools.connections.texts import finished, locations_in


class Inputs:
    """Puts lines together to inputs: a command is a line, statements end with a semicolon. unfinished: such lines."""

    def __init__(self) -> None:
        self.unfinished = ""

    def add(self, line: str) -> str | None:
        """The command or the statements that the line completes; None: more lines must come."""
        if not self.unfinished.strip() and line.lstrip().startswith("."):
            self.unfinished = ""
            return line.strip()
        self.unfinished += line.rstrip("\n") + "\n"
        return self.give_up() if finished(self.unfinished) else None

    def give_up(self) -> str:
        """The unfinished lines, which are forgotten."""
        text, self.unfinished = self.unfinished, ""
        return text


@options.grouped
def shell(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="CATALOG",
            help="Where tables are found by name: a catalog, or a warehouse directory. Without one, all configured "
            "catalogs.",
        ),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option("--table", metavar="NAME=TABLE", help="A table by a name of its own. Repeatable."),
    ] = None,
    format_: Annotated[RowFormat, typer.Option("--format", help="How rows are written.")] = RowFormat.TEXT,
    max_rows: Annotated[
        str,
        typer.Option(metavar="N", help="How many rows are shown as text; the others are counted. all: all of them."),
    ] = str(MAX_ROWS),
    *,
    context: typer.Context,
    opening: options.OpeningOptions,
) -> None:
    """Run statements as they are typed, or from standard input, on the tables of a catalog, or of all.

    Examples:
        harness shell warehouse
        harness shell prod --format csv < report.sql
    """
    if source is not None and opening.catalog is not None:
        raise typer.BadParameter("say the catalog once: as the argument, or with --catalog")
    if format_.is_binary():
        raise typer.BadParameter(f"--format {format_.value} is binary: harness sql writes it, one result a file")
    rows = number_of_rows(max_rows)
    locations = options.pairs(table, "--table")
    source = source or opening.catalog
    if untrusted.is_for_worker(context):
        place = warehouse(source)
        run_apart = partial(_run_apart, context, opening, [*filter(None, (place,)), *locations.values()], place)
        _run(ApartSession(run_apart, row_format=format_, max_rows=rows))
        return
    with terminal.progress("opening the catalog"):
        # Catalogs are configured where no worker can look.
        connection = harness.connect({} if source is None and opening.untrusted else source, **opening.arguments())
    for name, location in locations.items():
        connection.register(name, location)
    with connection:
        _run(Session(connection, row_format=format_, max_rows=rows))


def _run_apart(
    context: typer.Context,
    opening: options.OpeningOptions,
    locations: Sequence[str],
    source: str | None,
    text: str,
    shown: Mapping[str, object],
) -> bool:
    """Runs one input in a worker; tells whether all of it could be done."""
    instead = {**shown, "source": source, "catalog": None}
    return untrusted.run_input(context, text, [*locations, *_locations_in(text)], opening.roots(), instead=instead)


def _locations_in(text: str) -> Iterable[str]:
    """The locations of tables that statements name, also one behind `.plan`."""
    inputs = Inputs()
    found = [inputs.add(line) or "" for line in text.splitlines(keepends=True)]
    for statement in (*found, inputs.give_up()):
        yield from locations_in(statement.removeprefix(".plan "))


def _run(session: Session | ApartSession) -> None:
    if sys.stdin is not None and sys.stdin.isatty():
        _converse(session)
        return
    if isinstance(session, ApartSession):
        session.run_all("".join(sys.stdin or ()))
    else:
        _run_all(session, sys.stdin or ())
    if session.has_failed:
        raise typer.Exit(FAILED)


def _converse(session: Session | ApartSession) -> None:
    """Runs inputs until the person ends. Ctrl-C ends the running input, or gives up the typed one."""
    terminal.message(f"harness {harness.__version__}: .help says what there is, .quit or Ctrl-D ends")
    inputs = Inputs()
    with interruption.set_aside(), TerminalLines(session.connection) as lines:
        while not session.is_over:
            try:
                with interruption.anew():
                    line = lines.ask(inputs.unfinished)
                    if line is None:
                        return
                    if (text := inputs.add(line)) is not None:
                        lines.remember(text)
                        session.run(text)
            except KeyboardInterrupt:
                inputs.give_up()
                terminal.message("interrupted")


def _run_all(session: Session, lines: Iterable[str]) -> None:
    """All that standard input holds; what no semicolon ends too."""
    inputs = Inputs()
    for line in lines:
        if (text := inputs.add(line)) is not None:
            session.run(text)
        if session.is_over:
            return
    session.run(inputs.give_up())
