"""Messages, warnings, errors and progress on stderr.

They are coloured by rich, which respects NO_COLOR and leaves out colours and progress where stderr is not a terminal.
What tables and files say reaches stderr only through `harness.errors.visible`.
"""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Any

import typer

from harness.cli.results import ByteStream, forget
from harness.errors import HarnessWarning, visible, visible_lines
from harness.storage.clients import TRAFFIC
from harness.storage.records import dataclass
from harness.storage.threads import WATCHED, percent

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_USAGE_ERRORS = typer.BadParameter.__bases__
"""Typer's errors about arguments, whose common class has no exported name."""


def _console() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)  # made anew: stderr may have been replaced


def message(text: str) -> None:
    """A line on stderr."""
    _print(visible(text))


def error(text: str, excerpt: str = "") -> None:
    """`error: text` as one line on stderr, whatever line ends are in `text`; then the lines of `excerpt`, its end."""
    _print(_one_line(text.removesuffix(excerpt)), label=("error:", "red"))
    if excerpt:
        _lines(f"{excerpt}\n")


def failure(problem: Exception) -> None:
    """Prints on stderr what Typer says of wrong arguments, or the traceback of a fault of harness."""
    if isinstance(problem, _USAGE_ERRORS):
        text = io.StringIO()
        problem.show(text)  # type: ignore[attr-defined]
        _lines(re.sub(r"\n\t", " ", text.getvalue()).replace("\nError: ", "\nerror: "))
    elif isinstance(problem, UnicodeEncodeError) and problem.encoding == sys.getfilesystemencoding():
        remedy = "give paths in UTF-8" if problem.encoding == "utf-8" else "set PYTHONUTF8=1"
        error(f"Cannot use {problem.object[problem.start]!r} in a path, whose encoding is {problem.encoding}: {remedy}")
    elif _is_want_of_memory(problem):
        said = " ".join(str(problem).split())
        error(f"The process ran out of memory ({type(problem).__name__}: {said}); give it more, or ask for fewer rows")
    else:
        _lines("".join(traceback.format_exception(problem)))
        error(f"internal error, please report it: {type(problem).__name__}: {problem}")


_MEMORY_SIGNS = ("failed to map segment", "cannot allocate", "can't start new thread")


def _is_want_of_memory(problem: Exception) -> bool:
    """Tells whether memory ran out. Each library, even while imported, says so in its own way."""
    said = str(problem).lower()
    if isinstance(problem, OSError):
        return problem.errno == errno.ENOMEM
    if isinstance(problem, ImportError | RuntimeError) and any(sign in said for sign in _MEMORY_SIGNS):
        return True
    # DuckDB's is not imported to be known.
    return isinstance(problem, MemoryError) or type(problem).__name__ == "OutOfMemoryException"


def fill_closed_streams() -> None:
    """Puts the null device in place of closed standard streams, so that no opened file gets their numbers.

    `sys.stdout` stays None: results have nowhere to go then, which is an error. Stdin gives bytes that are no text as
    escapes, so that an error can tell the statement.
    """
    if isinstance(sys.stdin, io.TextIOWrapper) and not sys.stdin.closed:
        sys.stdin.reconfigure(errors="surrogateescape")
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, which is this one
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # it stays open


def _lines(text: str) -> None:
    with _to_stderr():
        sys.stderr.write(visible_lines(text))
        sys.stderr.flush()


def _print(text: str, *, label: tuple[str, str] | None = None) -> None:
    """A line, behind a label and its colour."""
    from rich.text import Text

    line = Text(text) if label is None else Text.assemble(label, " ", text)
    with _to_stderr():
        _console().print(line)


@contextlib.contextmanager
def _to_stderr() -> Iterator[None]:
    try:
        yield
    except OSError:  # nobody is left to be told that it takes no more
        forget(sys.stderr)


@contextlib.contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Prints each HarnessWarning of the block once, as a line `warning: …`; others are as Python has them."""
    seen = set[str]()

    def show(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any) -> None:
        if not issubclass(category, HarnessWarning):
            _lines(warnings.formatwarning(message, category, filename, lineno))
        elif (sentence := _one_line(str(message))) not in seen:
            seen.add(sentence)
            _print(sentence, label=("warning:", "yellow"))

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@contextlib.contextmanager
def logs_as_lines(interrupted: object) -> Iterator[None]:
    """Prints what is logged as lines, unless a caller has it: warnings of libraries, and what `say_more` lets through.

    interrupted: true once the user has ended the command: some libraries log how they were broken off.
    """
    own = logging.getLogger("harness")
    level, lines = own.level, _LogLines(interrupted)
    is_alone = not logging.root.handlers
    if is_alone:
        logging.root.addHandler(lines)
    try:
        yield
    finally:
        own.setLevel(level)
        if is_alone:
            logging.root.removeHandler(lines)


def say_more() -> None:
    """Let through all that harness logs, until the end of `logs_as_lines`."""
    logging.getLogger("harness").setLevel(logging.DEBUG)


class _LogLines(logging.Handler):
    def __init__(self, interrupted: object) -> None:
        super().__init__()
        self._interrupted = interrupted

    def emit(self, record: logging.LogRecord) -> None:
        is_own = record.name.partition(".")[0] == "harness"
        if (is_own or record.levelno >= logging.WARNING) and not self._interrupted:
            _print(_one_line(f"{record.name}: {record.getMessage()}"))


@contextlib.contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """While the block runs, shows `text`, the last step that the function was called with, the percentage that is done
    where it is known, and the amount read of stores. Only if stderr is a terminal: rich takes 0.03 s to import."""
    console = _console() if sys.stderr.isatty() else None
    if console is None or not console.is_terminal:
        yield lambda step: None
        return
    WATCHED.set()
    with console.status(_Reading(text)) as status:
        yield lambda step: status.update(_Reading(f"{text} {visible(step)}"))


@dataclass(slots=True)
class _Reading:
    """A step, and how far it is, which is asked at each showing."""

    text: str
    _before: str = field(default_factory=lambda: TRAFFIC.summary())  # noqa: PLW0108  # tests replace it

    def __rich__(self) -> Text:
        from rich.text import Text

        done, now = percent(), TRAFFIC.summary()
        notes = [*([] if done is None else [f"{done:.0f} %"]), *([] if now == self._before else [now])]
        return Text(f"{self.text} ({', '.join(notes)})" if notes else self.text)


@contextlib.contextmanager
def progress_until_written(text: str, stream: ByteStream) -> Iterator[None]:
    """Shows progress as `progress` does, until something is written to the stream."""
    with contextlib.ExitStack() as shown:
        shown.enter_context(progress(text))
        stream.before = shown.close
        yield


def _one_line(text: str) -> str:
    return visible(" ".join(text.split()))
