"""A shell session: runs inputs, which are SQL statements or commands that begin with a dot."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import duckdb

from harness.cli import interruption, results, terminal
from harness.cli.formats import RowFormat, number_of_rows
from harness.cli.inspection import explained
from harness.cli.writers import QueryRows, engine_error, write_rows
from harness.connections.connection import Connection
from harness.connections.statements import is_finished, statements
from harness.connections.tables import in_sql
from harness.errors import RequestError, visible
from harness.metadata.catalogs.catalog import nearest_names
from harness.metadata.model.text_tables import align

_BARE_WORDS = ("help", "quit", "exit")
"""Commands that need no dot, because no SQL statement consists of such a word."""


class InputLines:
    """Collects the lines of an input. A command is one line, and statements end with a semicolon.

    Attributes:
        unfinished: The lines of incomplete statements.
    """

    def __init__(self) -> None:
        self.unfinished = ""

    def add(self, line: str) -> str | None:
        """Add a line and return the command or statements that it completes, or None if more lines are needed."""
        if not self.unfinished.strip():
            word = line.strip().rstrip(";").rstrip().lower()
            is_word = word in _BARE_WORDS
            if is_word or line.lstrip().startswith("."):
                self.unfinished = ""
                return f".{word}" if is_word else line.strip()
        self.unfinished += line.rstrip("\n") + "\n"
        return self.take() if is_finished(self.unfinished) else None

    def take(self) -> str:
        """Return the unfinished lines and discard them."""
        text, self.unfinished = self.unfinished, ""
        return text


_COUNTS = (["Count"], ["Success"])
"""Columns of DuckDB's result for statements that return no rows."""


class Session:
    """Runs statements and commands of the shell. A failure is printed on stderr, and the next input runs.

    Attributes:
        connection: The connection.
        row_format: The format of rows.
        max_rows: The maximum number of rows to show, or None for all.
        last_statement: The statement that `.plan` uses without an argument, or None.
        files: The files that `.read` is running, to detect cycles.
        is_timed: True if the duration of statements is printed.
        has_failed: True after a failure.
        is_over: True after the user ended the session.
    """

    def __init__(self, connection: Connection, *, row_format: RowFormat, max_rows: int | None) -> None:
        self.connection, self.row_format, self.max_rows = connection, row_format, max_rows
        self.last_statement: str | None = None
        self.files: list[Path] = []
        self.is_timed, self.has_failed, self.is_over = False, False, False

    def run_all(self, lines: Iterable[str]) -> None:
        """Run all lines. The last statement needs no semicolon."""
        inputs = InputLines()
        for line in lines:
            if (text := inputs.add(line)) is not None:
                self.run(text)
            if self.is_over:
                return
        self.run(inputs.take())

    def run(self, text: str) -> None:
        """Run a command or statements. A failure is printed on stderr."""
        is_command = text.startswith(".")
        for each in [text] if is_command else statements(text):
            try:
                (self._run_command if is_command else self._run)(each)
            except results.ReaderGoneError:
                raise
            except Exception as error:
                interruption.check()
                terminal.failure(engine_error(error) if isinstance(error, duckdb.Error) else error)
                self.has_failed = True

    def _run_command(self, line: str) -> None:
        name, _, argument = line.strip().rstrip(";").partition(" ")
        if name not in COMMANDS:
            near = nearest_names((name[1:],), [(each[1:],) for each in COMMANDS]) or (("help",),)
            raise RequestError(f"There is no command {name}; the nearest is .{near[0][0]}")
        COMMANDS[name][0](self, argument.strip())

    def _run(self, statement: str) -> None:
        self.last_statement = statement
        began = time.perf_counter()
        terminal.begin()
        try:
            with terminal.progress("planning"):
                relation = self.connection.sql(statement)
            if relation is not None and relation.columns not in _COUNTS:
                with results.result_stream() as stream, terminal.progress_until_written("running the query", stream):
                    rows = QueryRows(relation)
                    write_rows(rows, self.row_format, stream, max_rows=self.max_rows, option=".maxrows")
        finally:
            with contextlib.suppress(duckdb.Error):  # raised after an interruption
                self.connection.release()
        if self.is_timed:
            terminal.message(f"run time {time.perf_counter() - began:.3f} s")

    def _help(self, argument: str) -> None:
        lines = [f"{name + ' ' + takes:<18} {summary}\n" for name, (_, takes, summary) in COMMANDS.items() if summary]
        first = "Statements end with a semicolon; Ctrl-C cancels a running statement, or discards what is typed.\n"
        results.print_result(first, *lines)

    def _tables(self, argument: str) -> None:
        names = (in_sql(name) for name in self.connection.names(everywhere=False))
        results.print_result(*(f"{visible(name)}\n" for name in names if argument.casefold() in name.casefold()))

    def _schema(self, argument: str) -> None:
        if not argument:
            raise RequestError("Cannot show a schema: name a table, as in .schema sales.orders")
        fields = self.connection.table(argument.strip("'")).schema.fields
        results.print_result(*(f"{line}\n" for line in align([(field.name, str(field.type)) for field in fields])))

    def _plan(self, argument: str) -> None:
        query = argument or self.last_statement
        if query is None:
            raise RequestError("Cannot show a plan: there was no query yet; write one, as in .plan SELECT …")
        parts = [f"{visible(name)}:\n{explained(plan)}" for name, plan in self.connection.plans(query)]
        results.print_result("\n".join(parts) or "The query reads no table of the catalog.\n")

    def _mode(self, argument: str) -> None:
        formats = [each.value for each in RowFormat if not each.is_binary()]
        if argument not in formats:
            raise RequestError(f"Cannot write rows as {argument or 'nothing'}: use one of {', '.join(formats)}")
        self.row_format = RowFormat(argument)

    def _max_rows(self, argument: str) -> None:
        self.max_rows = number_of_rows(argument)

    def _timer(self, argument: str) -> None:
        if argument not in ("on", "off"):
            raise RequestError(f"Cannot set the timer to {argument or 'nothing'}: use on or off")
        self.is_timed = argument == "on"

    def _read(self, argument: str) -> None:
        file = Path(argument).expanduser()
        try:
            lines, path = file.read_text("utf-8").splitlines(keepends=True), file.resolve()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise RequestError(f"Cannot read statements from {argument or 'nothing'}: {reason}; name a file") from error
        if path in self.files:
            raise RequestError(
                f"Cannot read statements from {argument}: it is already being read, so it would never end"
            )
        self.files.append(path)
        self.run_all(lines)
        self.files.remove(path)

    def _quit(self, argument: str) -> None:
        self.is_over = True


COMMANDS: dict[str, tuple[Callable[[Session, str], None], str, str]] = {
    ".tables": (
        Session._tables,
        "[TEXT]",
        "list tables whose names contain the text; after USE, only in that namespace",
    ),
    ".schema": (Session._schema, "TABLE", "show the columns of a table and their types"),
    ".plan": (
        Session._plan,
        "[QUERY]",
        "show which files a query reads and skips, and why; by default for the last query",
    ),
    ".mode": (Session._mode, "NAME", "set the format of rows: text, csv, json, or jsonl"),
    ".maxrows": (Session._max_rows, "N", "set how many rows are shown as text, or all"),
    ".timer": (Session._timer, "on|off", "print the seconds that a statement took, on standard error"),
    ".read": (Session._read, "FILE", "run the statements and commands in a file"),
    ".help": (Session._help, "", "print this list; also help without a dot"),
    ".quit": (Session._quit, "", "end the shell; also quit, exit, and Ctrl-D"),
    ".exit": (Session._quit, "", ""),
}
"""For each command: the function, the argument, and the help text, which is empty for a synonym."""
