"""Places of results: standard output, or a file with all its content or none."""

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
    """Nobody reads standard output any more: the command ends quietly with 0."""


def discard(stream: TextIO) -> None:
    """Drops the rest of a standard stream that takes no more: Python would try again at exit, and end with 120."""
    with contextlib.suppress(OSError, ValueError):  # it may have no descriptor, as in tests
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


class ByteStream:
    """A stream of bytes whose errors name it. A reader that has gone away stays a BrokenPipeError.

    file: None: standard output. failed: whether it had one. before: is called before each write.
    """

    def __init__(self, stream: BinaryIO, name: str, file: Path | None = None) -> None:
        self._stream, self._name, self.file = stream, name, file
        self.failed = False
        self.before: Callable[[], None] | None = None

    def write(self, data: object, /) -> None:
        """Write all of the bytes."""
        if self.before is not None:
            self.before()
        self._do(self._stream.write, data)

    def flush(self) -> None:
        """Hand on the written bytes."""
        self._do(self._stream.flush)

    def _do(self, action: Callable[..., object], *arguments: object) -> None:
        try:
            with outputs.write_errors(self._name, self.file):
                action(*arguments)
        except (BrokenPipeError, RequestError):
            self.failed = True  # for good: the rest of its buffer can go nowhere
            raise

    def isatty(self) -> bool:
        """Tells whether the stream is a terminal."""
        return self._stream.isatty()


@contextlib.contextmanager
def result_stream() -> Iterator[ByteStream]:
    """Stdout as bytes, flushed at the end; if its reader has gone away, the command ends quietly with 0."""
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
    """Standard output, or a regular file."""
    return result_stream() if path is None else _file_stream(path)


def print_result(*texts: str) -> None:
    """Writes texts for people to stdout as UTF-8."""
    with result_stream() as stream:
        write_lines(texts, stream)


def print_version() -> None:
    """Write the version of harness to stdout."""
    print_result(f"harness {harness.__version__}\n")


def write_texts(texts: Iterable[str], stream: ByteStream) -> None:
    """Texts to `stream` as UTF-8; what UTF-8 cannot hold (undecodable bytes of a path) as a backslash escape.

    A terminal gets what is unprintable escaped too: only there, because CSV must hold values as they are.
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
"""Lines on a terminal by how they begin, and their styles: differences, deletes, skipped files."""
_CODES = {"red": 31, "green": 32, "yellow": 33, "dim": 2}


def write_lines(texts: Iterable[str], stream: ByteStream) -> None:
    """Texts for people, as `write_texts`; on a terminal folded between words, with the style of each line."""
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
    """The cells of a line of text; None: it is not for a terminal, and lines are as long as they are."""
    return shutil.get_terminal_size().columns if output is None and is_terminal_output() else None


def style_of(stream: ByteStream | TextIO) -> Style:
    """The function that gives a text its style; texts stay as they are off a terminal, and with NO_COLOR."""
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return unstyled
    return lambda text, name: f"\x1b[{_CODES[name]}m{text}\x1b[0m"


def is_terminal_output() -> bool:
    """Tells whether stdout is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def is_ascii(output: Path | None) -> bool:
    """Tells whether pictures for that `--output` are for a terminal without other characters."""
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
