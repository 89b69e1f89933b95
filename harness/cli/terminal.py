"""The two ends of the command: results to stdout, everything else to stderr.

Results carry no colour and no markup, on a terminal or not. Messages are coloured by rich, which respects NO_COLOR and
leaves out colours and progress where stderr is not a terminal. What tables and files say reaches stderr only through
`harness.printable.visible`, and a terminal on stdout too.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

import typer
from rich.console import Console
from rich.text import Text

from harness.errors import HarnessWarning, RequestError
from harness.printable import visible, visible_lines

_USAGE_ERRORS = typer.BadParameter.__bases__
"""What Typer raises about arguments; it exports no name of the class that they have in common."""


def _console() -> Console:
    return Console(stderr=True, highlight=False, soft_wrap=True)  # made anew: stderr may have been replaced


def message(text: str) -> None:
    """A line on stderr."""
    _console().print(Text(visible(text)))


def error(text: str) -> None:
    """`error: text` as one line on stderr, whatever line ends are in `text`."""
    _console().print(Text.assemble(("error:", "red"), " ", _one_line(text)))


def failure(problem: Exception) -> None:
    """What Typer says of wrong arguments, on stderr; of any other exception the traceback, as it is harness's fault."""
    if isinstance(problem, _USAGE_ERRORS):
        text = io.StringIO()
        problem.show(text)  # type: ignore[attr-defined]
        _lines(text.getvalue())
    else:
        _lines("".join(traceback.format_exception(problem)))
        error(f"internal error, please report it: {type(problem).__name__}: {problem}")


def _lines(text: str) -> None:
    sys.stderr.write(visible_lines(text))
    sys.stderr.flush()


@contextlib.contextmanager
def warnings_as_lines() -> Iterator[None]:
    """While the block runs, a HarnessWarning is a line `warning: …` on stderr, once; others are as Python has them."""
    seen = set[str]()

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if not issubclass(category, HarnessWarning):
            _lines(warnings.formatwarning(message, category, filename, lineno, line))
        elif (sentence := _one_line(str(message))) not in seen:
            seen.add(sentence)
            _console().print(Text.assemble(("warning:", "yellow"), " ", sentence))

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@contextlib.contextmanager
def progress(text: str) -> Iterator[None]:
    """A spinner with `text` while the block runs, if stderr is a terminal."""
    console = _console()
    if not console.is_terminal:
        yield
        return
    with console.status(text):
        yield


@contextlib.contextmanager
def steps(text: str) -> Iterator[Callable[[str], None]]:
    """A spinner with `text` and the step that the function is last called with, if stderr is a terminal."""
    console = _console()
    if not console.is_terminal:
        yield lambda step: None
        return
    with console.status(text) as status:
        yield lambda step: status.update(Text(f"{text} {visible(step)}"))


@contextlib.contextmanager
def result_stream() -> Iterator[BinaryIO]:
    """Stdout as bytes, flushed at the end; if its reader has gone away, the command ends quietly with 0."""
    stream = sys.stdout.buffer
    try:
        sys.stdout.flush()
        yield stream
        stream.flush()
    except BrokenPipeError:
        # Python flushes stdout once more at exit, and would complain there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None


@contextlib.contextmanager
def destination(path: Path | None) -> Iterator[BinaryIO]:
    """Standard output, or a file that is there with all its content or not at all.

    Raises:
        RequestError: the file cannot be written.
    """
    if path is None:
        with result_stream() as stream:
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


def print_result(*texts: str) -> None:
    """Texts to stdout as UTF-8, without any separator or line end of their own."""
    with result_stream() as stream:
        write_texts(texts, stream)


def write_texts(texts: Iterable[str], stream: BinaryIO) -> None:
    """Texts to `stream` as UTF-8; what UTF-8 cannot hold (undecodable bytes of a path) as a backslash escape.

    A terminal gets what is unprintable escaped too: only there, because CSV must hold values as they are.
    """
    shown = visible_lines if stream.isatty() else str
    for text in texts:
        stream.write(shown(text).encode("utf-8", "backslashreplace"))


def is_terminal_output() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout.isatty()


def _one_line(text: str) -> str:
    return visible(" ".join(text.split()))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
