"""A session of the shell: what was set, and how one input is run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial

import duckdb
import typer

from harness.cli import interruption, options, results, terminal
from harness.cli.rows import Rows, engine_error
from harness.cli.shell import dot_commands
from harness.cli.writers import RowFormat, write_rows
from harness.errors import HarnessError, RequestError
from harness.metadata.catalogs.resolving import open_catalog
from harness.metadata.catalogs.warehouse import Warehouse
from harness.tools.connections.connection import Connection
from harness.tools.connections.texts import statements

_COUNTS = (["Count"], ["Success"])
"""Columns of what DuckDB says of a statement that gives no rows."""


class Session:
    """Runs statements and commands of the shell. What fails is a line on stderr, and the next one runs.

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
            actions = [partial(dot_commands.run, self, text)]
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
        with (
            results.result_stream() as stream,
            terminal.progress_until_written("running the query", stream) as written,
        ):
            write_rows(Rows(relation), self.row_format, written, max_rows=self.max_rows, option=".max-rows")


def guarded(action: Callable[[], None]) -> bool:
    """Do something of which a failure is a line on stderr; whether it could be done."""
    try:
        action()
    except typer.Exit:
        raise
    except Exception as error:
        interruption.check()
        match error:
            case HarnessError():
                terminal.error(str(error.respelled(options.spelled)))
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
    """As `harness.cli.shell.session.Session`, for inputs that run in workers. What only sets something is done here.

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
        if text.startswith(".") and dot_commands.set_only(self, text):
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
