"""Messages, warnings, errors, and progress on stderr.

Progress is drawn by rich. NO_COLOR is respected, and there are no colors and no progress if stderr is not a terminal.
Texts from tables and files are only printed after `harness.errors.visible` has escaped them.
"""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import stat
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from harness.cli import interruption
from harness.cli.results import ByteStream, discard, style_of
from harness.errors import HarnessError, HarnessWarning, visible, visible_lines
from harness.metadata.model.text_tables import unstyled
from harness.storage import threads
from harness.storage.clients import TRAFFIC
from harness.storage.records import dataclass
from harness.storage.threads import Phase

if TYPE_CHECKING:
    import click
    from rich.console import Console, ConsoleOptions
    from rich.control import Control
    from rich.text import Text


def message(text: str) -> None:
    """Print a line on stderr."""
    _print(visible(text))


def error(text: str, excerpt: str = "") -> None:
    """Print `error: text` as one line on stderr, then `excerpt` with its line breaks. `text` may end with `excerpt`."""
    _print(_one_line(text.removesuffix(excerpt)), label=("error:", "red"))
    if excerpt:
        write_lines(f"{excerpt}\n")


def failure(problem: Exception) -> None:
    """Print on stderr why a command failed. For a bug in harness, also print the traceback."""
    if isinstance(problem, HarnessError):
        from harness.cli import options

        if problem.rule is not None:
            from harness.cli.rule import address

            problem.rule = f"{problem.rule} ({place})" if (place := address(problem.rule)) else problem.rule
        error(str(problem.with_option_names(options.option_for)), problem.excerpt)
    elif _is_usage_error(problem):
        _print_usage_error(cast("click.ClickException", problem))
    elif isinstance(problem, UnicodeEncodeError) and problem.encoding == sys.getfilesystemencoding():
        remedy = "give paths in UTF-8" if problem.encoding == "utf-8" else "set PYTHONUTF8=1"
        error(f"Cannot use {problem.object[problem.start]!r} in a path, whose encoding is {problem.encoding}: {remedy}")
    elif _is_out_of_memory(problem):
        text = " ".join(str(problem).split())
        error(f"The process ran out of memory ({type(problem).__name__}: {text}); free memory, or request fewer rows")
    else:
        write_lines("".join(traceback.format_exception(problem)))
        error(f"internal error, please report it: {type(problem).__name__}: {problem}")


def _print_usage_error(problem: click.ClickException) -> None:
    """Print the usage of a command and why its arguments are wrong. click's own text depends on its version."""
    context = getattr(problem, "ctx", None)
    usage = "" if context is None else f"{context.get_usage()}\nTry '{context.command_path} --help' for help.\n\n"
    write_lines(f"{usage}error: {problem.format_message()}\n".replace("\n\t", " "))


def _is_usage_error(problem: Exception) -> bool:
    """Return whether an error is click's error about arguments."""
    import click  # importing click takes 0.03 s, which a command without errors saves

    return isinstance(problem, click.ClickException)


_MEMORY_SIGNS = ("failed to map segment", "cannot allocate", "can't start new thread")


def _is_out_of_memory(problem: Exception) -> bool:
    """Return whether memory ran out. Each library reports this in its own way, even during import."""
    text = str(problem).lower()
    if isinstance(problem, OSError):
        return problem.errno == errno.ENOMEM
    if isinstance(problem, ImportError | RuntimeError) and any(sign in text for sign in _MEMORY_SIGNS):
        return True
    # DuckDB's exception is matched by name to avoid the import.
    return isinstance(problem, MemoryError) or type(problem).__name__ == "OutOfMemoryException"


def fill_closed_streams() -> None:
    """Replace closed standard streams by the null device, so that opened files do not get their descriptors.

    `sys.stdout` stays None, because writing results without stdout is an error. Undecodable bytes on stdin become
    escapes, so that an error can show the statement.
    """
    if isinstance(sys.stdin, io.TextIOWrapper) and not sys.stdin.closed:
        with contextlib.suppress(io.UnsupportedOperation):  # a caller of `main` has already read from it
            sys.stdin.reconfigure(errors="surrogateescape")
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # opens the lowest free descriptor, which is this one
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # it stays open


def write_lines(text: str) -> None:
    """Write text to stderr, keeping its line breaks."""
    with _to_stderr():
        sys.stderr.write(visible_lines(text))
        sys.stderr.flush()


def _print(text: str, *, label: tuple[str, str] | None = None) -> None:
    """Print a line with a colored label. While a progress line is shown, rich prints the line above it."""
    with _to_stderr():
        start = "" if label is None else f"{style_of(sys.stderr)(*label)} "
        sys.stderr.write(f"{start}{text}\n")
        sys.stderr.flush()


@contextlib.contextmanager
def _to_stderr() -> Iterator[None]:
    try:
        yield
    except OSError:  # stderr is broken, so nobody can be informed
        discard(sys.stderr)


@contextlib.contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print each different HarnessWarning in the block once, as `warning: …`.

    Other warnings are printed as Python does.
    """
    printed = set[str]()

    def show(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: object, **__: object
    ) -> None:
        if not issubclass(category, HarnessWarning):
            write_lines(warnings.formatwarning(message, category, filename, lineno))
        elif (sentence := _one_line(str(message))) not in printed:
            printed.add(sentence)
            _print(sentence, label=("warning:", "yellow"))

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@contextlib.contextmanager
def logs_as_lines() -> Iterator[None]:
    """Print libraries' warnings and enabled logs as lines, unless the caller has installed a log handler."""
    logger = logging.getLogger("harness")
    level, lines = logger.level, _LogLines()
    if not logging.root.handlers:
        logging.root.addHandler(lines)
    try:
        yield
    finally:
        logger.setLevel(level)
        logging.root.removeHandler(lines)


def enable_debug_logs() -> None:
    """Enable all logs of harness until the end of `logs_as_lines`."""
    logging.getLogger("harness").setLevel(logging.DEBUG)


class _LogLines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        is_own = record.name.partition(".")[0] == "harness"
        # libraries log the interruption itself
        if (is_own or record.levelno >= logging.WARNING) and not interruption.was_interrupted():
            _print(_one_line(f"{record.name}: {record.getMessage()}"))


def _one_line(text: str) -> str:
    return visible(" ".join(text.split()))


@dataclass(slots=True)
class _Command:
    """The running command.

    Attributes:
        began: The start, by `threads.clock`.
        traffic: The traffic with stores before the command.
        live: The console that prints the progress line, or None.
    """

    began: float
    traffic: str
    live: Console | None = None


_command = _Command(threads.clock(), TRAFFIC.summary())
_MOVES_A_SECOND = 10
_DOTS, _ASCII = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "-\\|/"


def begin() -> None:
    """Start the time measurement of a command."""
    _command.began, _command.traffic = threads.clock(), TRAFFIC.summary()


@contextlib.contextmanager
def progress(text: str, total: int | None = None, unit: str = "rows") -> Iterator[Callable[[int], None]]:
    """Show a phase, its inner phases (`harness.storage.threads.phase`), and the elapsed time while the block runs.

    Nothing is shown unless stderr is a terminal that can redraw a line and NO_COLOR is not set. rich takes 0.03 s to
    import.
    """
    if _command.live is not None or style_of(sys.stderr) is unstyled:
        with threads.phase(text, total, unit) as advance:
            yield advance
        return
    from rich.console import Console
    from rich.live import Live

    threads.WATCHED.set()
    _command.live = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        live = Live(_Line(), console=_command.live, refresh_per_second=_MOVES_A_SECOND, transient=True)
        with threads.phase(text, total, unit) as advance, live:
            yield advance
    finally:
        _command.live = None


@contextlib.contextmanager
def progress_until_written(text: str, stream: ByteStream) -> Iterator[None]:
    """Show progress like `progress`. If the stream is standard output, stop at the first write."""
    with contextlib.ExitStack() as display:
        display.enter_context(progress(text))
        if stream.file is None:
            stream.before = display.close
        yield


def finished(done: str) -> None:
    """Print what was done and how long it took, if over 1 second and stderr is a terminal. Not if stdout is a pipe.

    Args:
        done: A text in the past tense, for example `counted 20 rows`.
    """
    seconds, is_piped = threads.clock() - _command.began, False
    with contextlib.suppress(OSError, ValueError, AttributeError):  # stdout may be closed or have no descriptor
        is_piped = stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
    if seconds >= 1 and sys.stderr.isatty() and not is_piped:  # the reader of the pipe may use the terminal
        message(f"{done} in {_duration(seconds, digits=1)}")


def restore() -> None:
    """Remove the progress line from the terminal when the process ends abruptly."""
    if _command.live is not None:
        with contextlib.suppress(OSError):
            os.write(2, b"\r\x1b[2K\x1b[?25h")


class _Line:
    """The phases, their progress, and the elapsed time, shortened to fit into a line."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text | Control]:
        from rich.cells import cell_len
        from rich.control import Control
        from rich.segment import ControlType
        from rich.text import Text

        *longer, shortest = _status_texts(threads.phases(), threads.clock(), threads.percent())
        line = next((text for text in longer if cell_len(text) <= options.max_width - 2), shortest)
        frames = _ASCII if options.ascii_only else _DOTS
        frame = frames[int(threads.clock() * _MOVES_A_SECOND) % len(frames)]
        yield Text.assemble((frame, "green"), " ", line, no_wrap=True, overflow="ellipsis", end="")
        yield Control(ControlType.CARRIAGE_RETURN)  # output of Spark's JVM replaces the line


def _status_texts(phases: Sequence[Phase], now: float, measured: float | None) -> list[str]:
    """Return the state of the work in texts of decreasing length.

    `measured` is the progress of DuckDB's queries in percent, which belongs to the last phase.
    """
    shares = [_share(each, measured if each is phases[-1] else None) for each in phases]
    *above, last = [_phase_text(each, share) for each, share in zip(phases, shares, strict=True)]
    counted = [text for each, text in zip(phases, above, strict=False) if each.done is not None]
    brief = _phase_text(phases[-1], shares[-1], brief=True)
    seconds, remaining, traffic = now - _command.began, _seconds_left(phases, shares, now), TRAFFIC.summary()
    times = [
        *([_duration(seconds)] if seconds >= 1 else []),
        *([] if remaining is None else [f"{_duration(remaining)} left"]),
    ]
    notes = [*times, *([] if traffic == _command.traffic else [traffic])]
    texts = ([*above, last], [*above, last], [*counted, last], [*counted, brief], counted[:1] or [brief])
    suffixes = [f" ({', '.join(parts)})" if parts else "" for parts in (notes, times)]
    return [": ".join(text) + suffixes[min(place, 1)] for place, text in enumerate(texts)]


def _share(phase: Phase, measured: float | None) -> float | None:
    """Return the completed part of a phase, or None if unknown. DuckDB reports 0 if it does not know."""
    if phase.done is not None:
        return min(phase.done / phase.total, 1.0) if phase.total and phase.total > 1 else None
    return None if measured is None or measured < 1 else measured / 100


def _phase_text(phase: Phase, share: float | None, *, brief: bool = False) -> str:
    """Describe a phase and its progress, for example `reading footers, 500 of 2,000 files, 25 %`.

    If `brief`, the numbers are left out.
    """
    is_bytes, counts = phase.unit == "bytes", [each for each in (phase.done, phase.total) if each is not None]
    numbers = " of ".join(f"{each / (1 << 20):,.1f}" if is_bytes else f"{each:,}" for each in counts)
    is_alone = brief or not counts or phase.total in (0, 1)  # "1 of 1 manifests" is not informative
    amount = [] if is_alone else [f"{numbers} {'MiB' if is_bytes else phase.unit}"]
    return ", ".join([visible(phase.name), *amount, *([] if share is None else [f"{100 * share:.0f} %"])])


_MIN_SECONDS, _MIN_SHARE = 2.0, 0.01
"""The minimum time and the minimum completed part of a phase before the remaining time is estimated."""


def _seconds_left(phases: Sequence[Phase], shares: Sequence[float | None], now: float) -> float | None:
    """Estimate the remaining seconds of the outermost phase with known progress, or return None."""
    for phase, share in zip(phases, shares, strict=True):
        elapsed = now - phase.began
        if share is not None and _MIN_SHARE <= share < 1 and elapsed >= _MIN_SECONDS:
            return max(elapsed * (1 - share) / share, 1.0)
    return None


def _duration(seconds: float, *, digits: int = 0) -> str:
    """Format seconds, for example `12 s`, `2 min 5 s`, and `1 h 2 min`."""
    if seconds < 59.5:
        return f"{seconds:.{digits}f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
