"""Lines typed into the shell: prompt, history, and completion."""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

import harness
from harness.cli import interruption, terminal
from harness.cli.formats import RowFormat
from harness.cli.shell.session import COMMANDS, InputLines, Session
from harness.connections.connection import Connection
from harness.connections.tables import in_sql
from harness.errors import HarnessError, HarnessWarning
from harness.metadata.catalogs.catalog import Name


def converse(session: Session) -> None:
    """Run inputs until the user ends the shell. Ctrl-C ends a running input or discards a typed one."""
    terminal.message(f"harness {harness.__version__}: help lists the commands, quit or Ctrl-D exits")
    inputs = InputLines()
    with TerminalLines(session.connection) as lines:
        while not session.is_over:
            try:
                with interruption.listening():
                    line = lines.ask(inputs.unfinished)
                    if line is None:
                        return
                    if (text := inputs.add(line)) is not None:
                        lines.remember(text)
                        session.run(text)
            except KeyboardInterrupt:
                inputs.take()
                terminal.message("interrupted")


# Completion offers commands, table names, and columns of mentioned tables, and SQL words if nothing else matches.


_SQL = """
all and as asc between by case cast copy count create cross delete desc describe distinct else end except exists explain
false from full group having in inner insert intersect into is join left like limit not null offset on or order outer
over partition pivot qualify right select semi summarize table temp then to true union unnest using values view when
where window with
"""
WORDS = tuple(_SQL.split())
"""SQL words that people type."""
_QUALIFIED_NAME = re.compile(r'(?:"(?:[^"]|"")*"|[\w$]+)(?:\.(?:"(?:[^"]|"")*"|[\w$]+))*')


def completions(
    word: str, text: str, names: Callable[[], Iterable[Name]], columns: Callable[[str], Sequence[str]]
) -> list[str]:
    """Return the completions of a word, in order.

    Args:
        word: The word up to the cursor. A qualified name is one word.
        text: The input before the word.
        names: Returns the names of tables.
        columns: Returns the columns of a table.
    """
    if not text.strip() and word.startswith("."):
        return _starting(word, COMMANDS)
    command = text.split(maxsplit=1)[0] if text.lstrip().startswith(".") else ""
    if command == ".mode":
        return _starting(word, [each.value for each in RowFormat if not each.is_binary()])
    tables = [in_sql(name) for name in names()]
    if command in (".schema", ".tables"):
        return _starting(word, tables)
    mentioned = [
        table for table in tables if table.casefold() in {name.casefold() for name in _QUALIFIED_NAME.findall(text)}
    ]
    columns_ = [in_sql((column,)) for table in mentioned for column in columns(table)]
    front, dot, _ = word.rpartition(".")
    qualified = [
        f"{front}.{in_sql((column,))}"
        for table in tables
        if dot and front.casefold() in (table.casefold(), table.rpartition(".")[2].casefold())
        for column in columns(table)
    ]
    as_typed = str.upper if word.isupper() else str.lower
    return _starting(word, [*columns_, *tables, *qualified]) or _starting(word, map(as_typed, WORDS if word else ()))


def _starting(word: str, choices: Iterable[str]) -> list[str]:
    matches = (each for each in choices if each.casefold().startswith(word.casefold()))
    return list(dict.fromkeys(matches))


# Lines are read by Python's `readline`, not by a library like prompt_toolkit. It has editing, a history, and completion
# with Tab, respects the user's `.inputrc`, and needs no installation. Where Python lacks it (on Windows), lines have no
# editing.


try:
    import readline as _editor
except ImportError:
    _editor = None  # type: ignore[assignment]  # by its import it is a module

PROMPT, MORE = "harness> ", "    ...> "
_HISTORY_LINES = 10_000
_BETWEEN_WORDS = " \t\n,;()=<>+-*/%'"


class TerminalLines:
    """A context that reads lines from a terminal. `connection` provides the names for completion."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._before = ""
        self._completions: list[str] = []
        self._names = cache(self._load_names)
        self._columns = cache(self._load_columns)

    def __enter__(self) -> TerminalLines:
        if _editor is not None:
            _editor.set_completer(self._complete)
            _editor.set_completer_delims(_BETWEEN_WORDS)
            is_libedit = "libedit" in (_editor.__doc__ or "")
            _editor.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
            _editor.set_auto_history(False)
            _editor.set_history_length(_HISTORY_LINES)
            with contextlib.suppress(OSError):  # the history does not exist yet or cannot be read
                _editor.read_history_file(_history())
        return self

    def __exit__(self, *_: object) -> None:
        if _editor is not None:
            _editor.set_completer(None)
            with contextlib.suppress(OSError):
                place = _history()
                place.parent.mkdir(parents=True, exist_ok=True)
                place.touch(mode=0o600)  # statements may contain secrets
                _editor.write_history_file(place)

    def ask(self, unfinished: str) -> str | None:
        """Return the next line of the unfinished statement, or None if the user ended the input."""
        self._before = unfinished
        try:
            return input(MORE if unfinished.strip() else PROMPT)
        except EOFError:
            print()
            return None
        except KeyboardInterrupt:
            print()
            raise

    def remember(self, text: str) -> None:
        """Add an input to the history, as one line if that does not change its meaning."""
        lines = [line.strip() for line in text.strip().splitlines()]
        if _editor is None or not lines:
            return
        for line in lines if "--" in text or "'" in text else [" ".join(lines)]:
            _editor.add_history(line)

    def _complete(self, word: str, number: int) -> str | None:
        """Return a completion by number from 0, as `readline` requests them, or None if there are no more."""
        if number == 0 and _editor is not None:
            typed = _editor.get_line_buffer()[: _editor.get_begidx()]
            self._completions = completions(word, self._before + typed, self._all_names, self._columns)
        return self._completions[number] if number < len(self._completions) else None

    def _all_names(self) -> Sequence[Name]:
        """Return the names of tables, those of the current namespace first.

        A catalog is queried once for each namespace.
        """
        current = self._names(self._connection.within)
        return (*current, *self._names(())) if self._connection.within else current

    def _load_names(self, within: Name) -> Sequence[Name]:
        try:
            with warnings.catch_warnings():  # completion must not print warnings
                warnings.simplefilter("ignore", HarnessWarning)
                return tuple(self._connection.names(everywhere=not within))
        except HarnessError:
            return ()

    def _load_columns(self, table: str) -> Sequence[str]:
        try:
            return tuple(self._connection.table(table).schema.names())
        except HarnessError:
            return ()


def _history() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    return Path(state) / "harness" / "history"
