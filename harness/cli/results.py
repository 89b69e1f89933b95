"""Destinations of results: standard output, or a file that is written completely or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, TextIO

import harness
from harness.cli import interruption
from harness.errors import RequestError, visible, visible_lines
from harness.metadata.model.text_tables import Style, fold, unstyled
from harness.storage import outputs


class ReaderGoneError(Exception):
    """Raised if standard output has no reader any more. The command then ends quietly with 0."""


def discard(stream: TextIO) -> None:
    """Redirect a broken standard stream to the null device, because Python would retry at exit and end with 120."""
    with contextlib.suppress(OSError, ValueError):  # in tests the stream may have no descriptor
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


class ByteStream:
    """A byte stream whose errors name it. BrokenPipeError is not translated.

    Attributes:
        file: The file, or None for standard output.
        failed: True after an error.
        before: Called before each write, or None.
    """

    def __init__(self, stream: BinaryIO, name: str, file: Path | None = None) -> None:
        self._stream, self._name, self.file = stream, name, file
        self.failed = False
        self.before: Callable[[], None] | None = None

    def write(self, data: object, /) -> None:
        """Write all bytes."""
        if self.before is not None:
            self.before()
        self._do(self._stream.write, data)

    def flush(self) -> None:
        """Flush the written bytes."""
        self._do(self._stream.flush)

    def _do(self, action: Callable[..., object], *arguments: object) -> None:
        try:
            with outputs.write_errors(self._name, self.file):
                action(*arguments)
        except (BrokenPipeError, RequestError):
            self.failed = True  # permanent: the rest of the buffer cannot be written
            raise

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self._stream.isatty()


@contextlib.contextmanager
def result_stream() -> Iterator[ByteStream]:
    """Yield stdout as a byte stream and flush it at the end. If its reader is gone, the command ends quietly with 0."""
    interruption.check()
    if sys.stdout is None:
        raise RequestError("Cannot write to standard output: it is closed")
    stream = ByteStream(sys.stdout.buffer, "standard output")
    try:
        sys.stdout.flush()
        yield stream
        stream.flush()
    except BrokenPipeError:
        discard(sys.stdout)
        raise ReaderGoneError from None
    except RequestError:
        if stream.failed:
            discard(sys.stdout)
        raise


def destination(path: Path | None) -> AbstractContextManager[ByteStream]:
    """Return a context for standard output or, if there is a path, for a regular file."""
    return result_stream() if path is None else _file_stream(path)


def print_result(*texts: str) -> None:
    """Write texts for people to stdout as UTF-8."""
    with result_stream() as stream:
        write_lines(texts, stream)


def print_version() -> None:
    """Write the version of harness to stdout."""
    print_result(f"harness {harness.__version__}\n")


def write_texts(texts: Iterable[str], stream: ByteStream) -> None:
    """Write texts as UTF-8, with backslash escapes for text that UTF-8 cannot encode.

    On a terminal, unprintable characters are escaped too. Elsewhere they stay, because CSV must keep values unchanged.
    """
    escape = visible_lines if stream.isatty() else str
    for text in texts:
        stream.write(escape(text).encode("utf-8", "backslashreplace"))


_STYLES = {
    "red": re.compile(r"different|could not|(left|right) failed:| +-( [\d,]+x)?  |≠ |! |FAIL|ERROR|XPASS"),
    "green": re.compile(r"equal:| +\+( [\d,]+x)?  |= "),
    "yellow": re.compile(
        r" +[~!]  |[?≈] |warning:|deletes |  #\d+ .*  (positions|equality #)|  .*  (deletion|position d)"
    ),
    "dim": re.compile(r" +(left|right): |  (?! *#).*  (partition|statistics)$|UNSUPPORTED"),
}
"""Patterns for the start of lines on a terminal, by style: differences, deletes, and skipped files."""
_CODES = {"red": 31, "green": 32, "yellow": 33, "dim": 2}


def write_lines(texts: Iterable[str], stream: ByteStream) -> None:
    """Write texts for people. On a terminal, lines are folded between words and styled."""
    if not stream.isatty():
        write_texts(texts, stream)
        return
    style, width = style_of(stream), shutil.get_terminal_size().columns
    whole = "".join(texts)
    for line in whole.removesuffix("\n").split("\n") if whole else ():
        text = fold(visible(line), width)
        name = next((name for name, pattern in _STYLES.items() if pattern.match(line)), None)
        bars = re.sub("▒+|░+|✗ [0-9,]+", lambda run: style(run[0], "dim" if run[0][0] == "░" else "red"), text)
        stream.write((bars if name is None else style(text, name)).encode() + b"\n")


def width_for(output: Path | None) -> int | None:
    """Return the width of a text line in cells, or None if the output is not a terminal and lines are not limited."""
    return shutil.get_terminal_size().columns if output is None and is_terminal_output() else None


def style_of(stream: ByteStream | TextIO) -> Style:
    """Return the function that styles text. It returns text unchanged if there is no terminal or NO_COLOR is set."""
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return unstyled
    return lambda text, name: f"\x1b[{_CODES[name]}m{text}\x1b[0m"


def is_terminal_output() -> bool:
    """Return whether stdout is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def is_ascii(output: Path | None) -> bool:
    """Return whether drawings for this `--output` go to a terminal that only supports ASCII."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return output is None and is_terminal_output() and not encoding.lower().startswith("utf")


@contextlib.contextmanager
def _file_stream(path: Path) -> Iterator[ByteStream]:
    interruption.check()
    with outputs.new_file(path) as file:
        stream = ByteStream(file, outputs.OUTPUT_FILE, path)
        yield stream
        stream.flush()
        interruption.check()
