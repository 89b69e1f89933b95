"""Starts a worker, takes what it gives back, and ends it: at a limit, at its end, or at an interruption."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import harness
from harness.contained.bounds import Bounds
from harness.contained.cgroups import own_group
from harness.contained.refusals import Refusals
from harness.contained.scratch import own_directory
from harness.contained.watching import EVERY_S, Watch
from harness.contained.worker import DONE, UNENFORCED
from harness.errors import EngineError, LimitError, RequestError
from harness.printable import visible
from harness.records import dataclass

LIBRARIES = ("harness.query", "harness.engines.duckdb")
"""What a read of a table takes."""
CRASHED, KILLED = "Crashed", "Killed"
_WORKER = "The process that reads the untrusted table"
_KNOWN_CODES = (0, 1, 2)
_SAID_BYTES = 1 << 16
_CHUNK = 1 << 18
_TAIL = 300
_LINE_BYTES = 16
_PASSED_ON = ("LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PYTHONPYCACHEPREFIX", "TZ")
"""Of the environment. All else, such as the tokens of a CI job, stays here."""


@dataclass(frozen=True, slots=True)
class Finished:
    """What a worker gave back, all of it from a process that may have been taken over.

    code: 0, 1 or 2. output: its result. said: what it wrote to standard error, as text that is not yet `visible`.
    refused: the names of system calls that it asked for, and was refused, where the system tells.
    """

    code: int
    output: bytes
    said: str
    refused: tuple[str, ...] = ()


def run(
    work: str,
    request: Any,
    *,
    bounds: Bounds,
    waived: Collection[str] = (),
    directories: Sequence[str] = (),
    libraries: Sequence[str] = (),
    calls: Sequence[str] = (),
) -> Finished:
    """What work gives back that is done in a worker.

    Args:
        work: `module:function`, as `harness.contained.worker.Work` says.
        request: what it is given, a value that JSON has.
        bounds: what the process may use.
        waived: limits that need not hold, see `harness.contained.bounds.WAIVABLE`.
        directories: whose files it may read besides Python's and the system's own, absolute, links resolved.
        libraries: modules to import before the limits hold, so that they count neither as memory nor as time.
        calls: names of system calls that it may make besides those that a read takes.

    Raises:
        RequestError: a limit cannot be enforced here, and is not waived.
        LimitError: the worker was ended at a limit.
        EngineError: it crashed, or was killed.
    """
    if os.name != "posix":
        raise RequestError(
            "Cannot read an untrusted table on this system: limits of a process are those of Linux; run it there, such "
            "as in WSL or a container"
        )
    with own_directory() as scratch, own_group(bounds, scratch) as group:
        message = {
            "parent": os.getpid(),
            "work": work,
            "request": request,
            "bounds": dataclasses.asdict(bounds),
            "waived": sorted(waived),
            "directories": list(directories),
            "libraries": list(libraries),
            "calls": list(calls),
            "scratch": scratch,
        }
        with _worker(scratch) as process:
            group.take(process.pid)
            exchange = _Exchange(process, bounds, Watch(process.pid, scratch, bounds))
            output, said = exchange.all(json.dumps(message).encode())
            if process.returncode == -signal.SIGKILL and group.ran_out_of_memory():
                raise _beyond("memory_bytes", bounds, "was killed for want of memory")
            return _finished(process.returncode, output, said, exchange.refusals.names(), bounds)


@contextlib.contextmanager
def _worker(scratch: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        # Not the working directory: in a checkout of a stranger's, modules lie there.
        [sys.executable, "-P", "-m", "harness.contained.worker"],
        env=_environment(scratch),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for this process, which ends the worker
    )
    try:
        yield process
    finally:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()


def _environment(scratch: str) -> dict[str, str]:
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    root = str(Path(harness.__file__).parents[1])
    # Address space that libraries would take for each thread, in advance.
    sparing = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2", "OMP_NUM_THREADS": "4"}
    # Entries that are relative lead into the working directory, which may be a checkout of a stranger's.
    path = [root, *filter(os.path.isabs, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    own = {"HOME": scratch, "TMPDIR": scratch, "PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1"}
    return {**passed, **sparing, **own}


class _Exchange:
    """The exchange with a worker, within its time and number of bytes, and a watch over its memory meanwhile.

    Its first line names the descriptor by which refusals are told (`harness.contained.seccomp.install`). It begins with
    the work, and its output, once it was answered by an empty one.
    """

    def __init__(self, process: subprocess.Popen[bytes], bounds: Bounds, watch: Watch) -> None:
        self._process, self._bounds, self._watch = process, bounds, watch
        self._end = time.monotonic() + bounds.wall_seconds
        self._next_look = time.monotonic() + EVERY_S
        self._first_line: bytearray | None = bytearray()
        self._meanwhile = contextlib.ExitStack()
        self.refusals = Refusals()

    def all(self, message: bytes) -> tuple[bytes, str]:
        """Output and what was said, once the worker has ended.

        Raises:
            LimitError: it takes too long, gives back too much, or holds too much.
        """
        process = self._process
        self._send(message + b"\n")
        output, said = bytearray(), bytearray()
        with self._meanwhile, selectors.DefaultSelector() as waiting:
            for stream, kept in ((process.stdout, output), (process.stderr, said)):
                assert stream is not None
                waiting.register(stream, selectors.EVENT_READ, kept)
            while waiting.get_map():
                for key, _ in waiting.select(self._left()):
                    self._take(waiting, key, said)
            while process.poll() is None:  # it has closed its output, and may live on
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(self._left())
        return bytes(output), said.decode("utf-8", "replace")

    def _send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # then how it ends says why
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def _take(self, waiting: selectors.BaseSelector, key: selectors.SelectorKey, said: bytearray) -> None:
        stream: IO[bytes] = key.fileobj  # type: ignore[assignment]
        kept: bytearray = key.data
        data = os.read(stream.fileno(), _CHUNK)
        if not data:
            waiting.unregister(stream)
        elif kept is said:
            kept += data[: _SAID_BYTES - len(kept)]
        else:
            kept += data if self._first_line is None else self._begun(self._first_line, data)
            if len(kept) > self._bounds.output_bytes:
                raise _beyond("output_bytes", self._bounds, "gave back too many bytes")

    def _begun(self, line: bytearray, data: bytes) -> bytes:
        """The output so far, once the worker has said its first line and was answered."""
        line += data
        told, end, rest = line.partition(b"\n")
        if not end:
            if len(line) > _LINE_BYTES:
                raise EngineError(f"{_WORKER} began with no line of its own", cause=CRASHED)
            return b""
        self._first_line = None
        if told.isdigit() and len(told) <= _LINE_BYTES:
            self._meanwhile.enter_context(self.refusals.heard(self._process.pid, int(told)))
        self._send(b"\n")
        return bytes(rest)

    def _left(self) -> float:
        """Seconds until the worker is looked at again, or ended.

        Raises:
            LimitError: it is beyond a bound.
        """
        now = time.monotonic()
        if now >= self._end:
            raise _beyond("wall_seconds", self._bounds, "took too many seconds")
        if now >= self._next_look:
            exceeded = self._watch.exceeded()
            if exceeded is not None:
                raise _beyond(exceeded[0], self._bounds, exceeded[1])
            self._next_look = time.monotonic() + EVERY_S
        return max(0.0, min(self._end, self._next_look) - now)


def refused(calls: Sequence[str]) -> str:
    """The end of a message: which system calls a worker was refused; nothing if it was none."""
    return f"; of the system calls that it asked for, it was refused {', '.join(calls)}" if calls else ""


def _finished(code: int, output: bytes, said: str, calls: tuple[str, ...], bounds: Bounds) -> Finished:
    if code - DONE in _KNOWN_CODES:
        return Finished(code - DONE, output, said, calls)
    if code == UNENFORCED:
        raise _unenforced(output)
    if code == -signal.SIGXCPU:
        raise _beyond("cpu_seconds", bounds, "took too many seconds of processor time")
    if code == -signal.SIGKILL:
        raise EngineError(f"{_WORKER} was killed, maybe for want of memory", cause=KILLED)
    try:
        how = f"crashed with {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    except ValueError:
        how = f"crashed with signal {-code}"
    last = " ".join(said.split())[-_TAIL:]
    raise EngineError(
        f"{_WORKER} {how}; {bounds.memory_bytes:,} bytes of memory were allowed by "
        f"memory_bytes of the option bounds{refused(calls)}{f': {visible(last)}' if last else ''}",
        cause=CRASHED,
        options=("bounds",),
    )


def _beyond(name: str, bounds: Bounds, what: str) -> LimitError:
    return LimitError(
        f"{_WORKER} {what}, {getattr(bounds, name):,} are allowed; if you expect that, "
        f"raise {name} by the option bounds",
        cause="LimitReached",
        options=("bounds",),
    )


def _unenforced(output: bytes) -> RequestError:
    try:
        reasons = {str(name): visible(str(why)) for name, why in json.loads(output[:_SAID_BYTES]).items()}
    except (ValueError, AttributeError, RecursionError):
        reasons = {}
    told = "; ".join(f"{visible(name)}: {why}" for name, why in reasons.items())
    waived = ", ".join(map(visible, reasons))
    return RequestError(
        f"Cannot hold an untrusted table to its limits here: {told}. Run it on Linux, in a container if need be, or "
        f"accept by the option waived that there is no limit for {waived}",
        cause="Unenforced",
        options=("waived",),
    )
