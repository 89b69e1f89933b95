"""Lines that a person types, with history and completion.

They are read by Python's own `readline`, and not by a library such as prompt_toolkit: it has what is wanted, editing, a
history and completion with Tab, with the keys of the user's `.inputrc`, and nothing to install or to import for it.
Where Python has none (on Windows), lines are read plainly.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType, TracebackType

from harness.catalogs.names import Name
from harness.cli.shell.completion import completions
from harness.connections.connection import Connection
from harness.errors import HarnessError, HarnessWarning

try:
    import readline
except ImportError:
    _editor: ModuleType | None = None
else:
    _editor = readline

PROMPT, MORE = "harness> ", "    ...> "
_HISTORY_LINES = 10_000
_BETWEEN_WORDS = " \t\n,;()=<>+-*/%'"


class TerminalLines:
    """Asks for lines while it is entered.

    connection: knows the names that lines may have; None: nobody is asked for them.
    """

    def __init__(self, connection: Connection | None) -> None:
        self._connection = connection
        self._before = ""
        self._found: list[str] = []
        self._names = cache(self._asked_names)
        self._columns = cache(self._asked_columns)

    def __enter__(self) -> TerminalLines:
        if _editor is not None:
            _editor.set_completer(self._complete)
            _editor.set_completer_delims(_BETWEEN_WORDS)
            is_libedit = "libedit" in (_editor.__doc__ or "")
            _editor.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
            _editor.set_auto_history(False)
            _editor.set_history_length(_HISTORY_LINES)
            with contextlib.suppress(OSError):  # there is none yet, or it cannot be read
                _editor.read_history_file(_history())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if _editor is not None:
            _editor.set_completer(None)
            with contextlib.suppress(OSError):
                place = _history()
                place.parent.mkdir(parents=True, exist_ok=True)
                place.touch(mode=0o600)  # statements may have secrets in them
                _editor.write_history_file(place)

    def ask(self, unfinished: str) -> str | None:
        """The next line; None: the person ended the input.

        unfinished: the lines before it that belong to the same statement.
        """
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
        """Put an input into the history, as one line where that means the same."""
        lines = [line.strip() for line in text.strip().splitlines()]
        if _editor is None or not lines:
            return
        for line in lines if "--" in text or "'" in text else [" ".join(lines)]:
            _editor.add_history(line)

    def _complete(self, word: str, number: int) -> str | None:
        """The completion of that number, as `readline` asks for them, from 0 on; None: there are no more."""
        if number == 0 and _editor is not None:
            typed = _editor.get_line_buffer()[: _editor.get_begidx()]
            self._found = completions(word, self._before + typed, self._all_names, self._columns)
        return self._found[number] if number < len(self._found) else None

    def _all_names(self) -> Sequence[Name]:
        """The names of tables, those first that are in the chosen namespace; a catalog is asked once for each."""
        if self._connection is None:
            return ()
        chosen = self._names(self._connection.within)
        return (*chosen, *self._names(())) if self._connection.within else chosen

    def _asked_names(self, within: Name) -> Sequence[Name]:
        assert self._connection is not None, "a name is of its tables"
        try:
            with warnings.catch_warnings():  # a key that was pressed is no place to say so
                warnings.simplefilter("ignore", HarnessWarning)
                return tuple(self._connection.names(everywhere=not within))
        except HarnessError:
            return ()

    def _asked_columns(self, table: str) -> Sequence[str]:
        assert self._connection is not None, "a name is of its tables"
        try:
            return tuple(self._connection.table(table).schema.names())
        except HarnessError:
            return ()


def _history() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    return Path(state) / "harness" / "history"
