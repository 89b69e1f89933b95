"""A session of the shell: how one input runs, SQL or a command that begins with a dot."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Protocol

import duckdb
import typer

from harness.cli import interruption, options, results, terminal
from harness.cli.describing import explained
from harness.cli.rows import QueryRows, engine_error
from harness.cli.writers import RowFormat, number_of_rows, write_rows
from harness.errors import HarnessError, RequestError, visible
from harness.metadata.catalogs.catalog import nearest
from harness.metadata.catalogs.resolving import open_catalog
from harness.metadata.catalogs.warehouse import Warehouse
from harness.tools.connections.connection import Connection
from harness.tools.connections.texts import in_sql, statements


class Settings(Protocol):
    """Settings: how rows are shown, and whether the person wants to end."""

    row_format: RowFormat
    max_rows: int | None
    is_over: bool


def _run_command(session: Session, line: str) -> None:
    """Run a command."""
    name, argument = _parts(line)
    COMMANDS[name][0](session, argument)


def _set_only(settings: Settings, line: str) -> bool:
    """Runs a command that reads no table; tells whether it is one. Raises as `_run_command`."""
    name, argument = _parts(line)
    if name not in _SETTING:
        return False
    _SETTING[name][0](settings, argument)
    return True


def _parts(line: str) -> tuple[str, str]:
    """The command's name and its argument."""
    name, _, argument = line.strip().rstrip(";").partition(" ")
    if name not in COMMANDS:
        near = nearest((name[1:],), [(each[1:],) for each in COMMANDS]) or ((".help"[1:],),)
        raise RequestError(f"There is no command {name}; the nearest is .{near[0][0]}")
    return name, argument.strip()


def _help(settings: Settings, argument: str) -> None:
    lines = [f"{name + ' ' + takes:<18} {what}\n" for name, (_, takes, what) in COMMANDS.items() if what]
    results.print_result("Statements end with a semicolon; Ctrl-C ends the one that runs, or gives up what is typed.\n")
    results.print_result(*lines)


def _tables(session: Session, argument: str) -> None:
    names = (in_sql(name) for name in session.connection.names(everywhere=False))
    results.print_result(*(f"{visible(name)}\n" for name in names if argument.casefold() in name.casefold()))


def _schema(session: Session, argument: str) -> None:
    if not argument:
        raise RequestError("Cannot show a schema: say whose, .schema sales.orders")
    fields = session.connection.table(argument).schema.fields
    width = max((len(field.name) for field in fields), default=0)
    results.print_result(*(f"{visible(f'{field.name:<{width}}  {field.type}')}\n" for field in fields))


def _plan(session: Session, argument: str) -> None:
    query = argument or session.last_statement
    if query is None:
        raise RequestError("Cannot show a plan: there was no query yet; say one, .plan SELECT …")
    parts = [f"{visible(name)}:\n{explained(plan.explain())}" for name, plan in session.connection.plans(query)]
    results.print_result("\n".join(parts) or "The query reads no table of the catalog.\n")


def _format(settings: Settings, argument: str) -> None:
    known = [each.value for each in RowFormat if not each.is_binary()]
    if argument not in known:
        raise RequestError(f"Cannot write rows as {argument or 'nothing'}: say one of {', '.join(known)}")
    settings.row_format = RowFormat(argument)


def _max_rows(settings: Settings, argument: str) -> None:
    settings.max_rows = number_of_rows(argument)


def _quit(settings: Settings, argument: str) -> None:
    settings.is_over = True


_SETTING: dict[str, tuple[Callable[[Settings, str], None], str, str]] = {
    ".format": (_format, "NAME", "how rows are written: text, csv, json or jsonl"),
    ".max-rows": (_max_rows, "N", "how many rows are shown as text, or all"),
    ".help": (_help, "", "what there is"),
    ".quit": (_quit, "", "end; Ctrl-D does too"),
    ".exit": (_quit, "", ""),
}
COMMANDS: dict[str, tuple[Callable[[Session, str], None], str, str]] = {
    ".tables": (_tables, "[TEXT]", "the tables whose names hold the text; after USE, those in what it chose"),
    ".schema": (_schema, "TABLE", "the columns of a table, and their types"),
    ".plan": (_plan, "[QUERY]", "which files a query reads and skips, and why; of the last one, if none is said"),
    **_SETTING,
}
"""By name: the function, the argument, and the help text, which is empty for a second name."""


_COUNTS = (["Count"], ["Success"])
"""Columns of what DuckDB says of a statement that gives no rows."""


class Session:
    """Runs statements and commands of the shell. A failure is a line on stderr, and the next input runs.

    connection: whose tables the statements have.
    row_format: how rows are shown. max_rows: how many; None: all.
    last_statement: what `.plan` without a query is about.
    has_failed: whether anything did.
    is_over: whether the person wants to end.
    """

    def __init__(self, connection: Connection, *, row_format: RowFormat, max_rows: int | None) -> None:
        self.connection, self.row_format, self.max_rows = connection, row_format, max_rows
        self.last_statement: str | None = None
        self.has_failed, self.is_over = False, False

    def run(self, text: str) -> None:
        """Run a command, or statements."""
        if text.startswith("."):
            actions = [partial(_run_command, self, text)]
        else:
            actions = [partial(self._run, statement) for statement in statements(text)]
        for action in actions:
            self.has_failed = not guarded(action) or self.has_failed

    def _run(self, statement: str) -> None:
        self.last_statement = statement
        try:
            with terminal.progress("planning"):
                relation = self.connection.sql(statement)
            if relation is not None and relation.columns not in _COUNTS:
                self._show(relation)
        finally:
            with contextlib.suppress(duckdb.Error):  # after an interruption
                self.connection.release()

    def _show(self, relation: duckdb.DuckDBPyRelation) -> None:
        with results.result_stream() as stream, terminal.progress_until_written("running the query", stream) as written:
            write_rows(QueryRows(relation), self.row_format, written, max_rows=self.max_rows, option=".max-rows")


def guarded(action: Callable[[], None]) -> bool:
    """Runs an action whose failure is a line on stderr; tells whether it succeeded."""
    try:
        action()
    except typer.Exit:
        raise
    except Exception as error:
        interruption.check()
        match error:
            case HarnessError():
                terminal.error(str(error.respelled(options.spelled)), error.excerpt)
            case duckdb.Error():
                terminal.error(str(engine_error(error)))
            case _:
                terminal.failure(error)
        return False
    return True


# `harness shell --untrusted`: each input runs in a worker of its own, as the shell runs it here.
#
# What a statement leaves behind, such as a temporary table or a USE, goes with its worker. From a pipe, all is one
# input.


class ApartSession:
    """A session whose inputs run in workers. Commands that only set something run here.

    run_apart: runs an input in a worker, given how rows are shown there; tells whether all of it could be done.
    """

    connection = None

    def __init__(
        self, run_apart: Callable[[str, dict[str, object]], bool], *, row_format: RowFormat, max_rows: int | None
    ) -> None:
        self.row_format, self.max_rows = row_format, max_rows
        self.has_failed, self.is_over = False, False
        self._run_apart, self._last = run_apart, ""

    def run(self, text: str) -> None:
        """Run a command, or statements."""
        self.has_failed = not guarded(partial(self._run, text)) or self.has_failed

    def run_all(self, text: str) -> None:
        """Run all that a pipe holds, in one worker."""
        if text.strip():
            self.has_failed = not guarded(partial(self._run_there, text)) or self.has_failed

    def _run(self, text: str) -> None:
        if text.startswith(".") and _set_only(self, text):
            return
        if text.rstrip(" ;") == ".plan":
            text = f".plan {' '.join(self._last.split())}"
        elif not text.startswith("."):
            self._last = text
        self._run_there(text)

    def _run_there(self, text: str) -> None:
        shown = "all" if self.max_rows is None else str(self.max_rows)
        if not self._run_apart(text, {"format_": self.row_format, "max_rows": shown}):
            self.has_failed = True


def warehouse(source: str | None) -> str | None:
    """The directory whose tables are there by name; None: none was said.

    Raises:
        RequestError: the catalog is none that a worker can ask.
        HarnessError: it is not there, see `harness.metadata.catalogs.resolving.open_catalog`.
    """
    if source is None:
        return None
    found = open_catalog(source)
    if not isinstance(found, Warehouse):
        raise RequestError(
            f"Cannot ask catalog {source} with --untrusted: there is no network where it reads; give a warehouse "
            "directory, or tables by --table NAME=PATH"
        )
    return found.location
