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
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import harness
from harness.contained.bounds import Bounds
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
_PASSED_ON = ("LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PYTHONPYCACHEPREFIX", "TZ")
"""Of the environment. All else, such as the tokens of a CI job, stays here."""


@dataclass(frozen=True, slots=True)
class Finished:
    """What a worker gave back, all of it from a process that may have been taken over.

    code: 0, 1 or 2. output: its result. said: what it wrote to standard error, as text that is not yet `visible`.
    """

    code: int
    output: bytes
    said: str


def run(
    work: str,
    request: Any,
    *,
    bounds: Bounds,
    waived: Collection[str] = (),
    directories: Sequence[str] = (),
    libraries: Sequence[str] = (),
) -> Finished:
    """What work gives back that is done in a worker.

    Args:
        work: `module:function`, as `harness.contained.worker.Work` says.
        request: what it is given, a value that JSON has.
        bounds: what the process may use.
        waived: limits that need not hold, see `harness.contained.bounds.WAIVABLE`.
        directories: whose files it may read besides Python's and the system's own, absolute, links resolved.
        libraries: modules to import before the limits hold, so that they count neither as memory nor as time.

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
    with tempfile.TemporaryDirectory(prefix="harness-untrusted-", ignore_cleanup_errors=True) as scratch:
        scratch = os.path.realpath(scratch)
        message = {
            "parent": os.getpid(),
            "work": work,
            "request": request,
            "bounds": dataclasses.asdict(bounds),
            "waived": sorted(waived),
            "directories": list(directories),
            "libraries": list(libraries),
            "scratch": scratch,
        }
        with _worker(scratch) as process:
            output, said = _Exchange(process, bounds).all(json.dumps(message).encode())
            return _finished(process.returncode, output, said, bounds)


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
    """What goes to a worker and comes from it, within its time and number of bytes."""

    def __init__(self, process: subprocess.Popen[bytes], bounds: Bounds) -> None:
        self._process, self._bounds = process, bounds
        self._end = time.monotonic() + bounds.wall_seconds

    def all(self, message: bytes) -> tuple[bytes, str]:
        """Output and what was said, once the worker has ended.

        Raises:
            LimitError: it takes too long, or gives back too much.
        """
        process = self._process
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # then how it ends says why
            process.stdin.write(message)
            process.stdin.close()
        output, said = bytearray(), bytearray()
        with selectors.DefaultSelector() as waiting:
            for stream, kept in ((process.stdout, output), (process.stderr, said)):
                assert stream is not None
                waiting.register(stream, selectors.EVENT_READ, kept)
            while waiting.get_map():
                for key, _ in waiting.select(self._left()):
                    self._take(waiting, key, said)
        try:
            process.wait(self._left())
        except subprocess.TimeoutExpired:  # it has closed its output, and lives on
            raise self._late() from None
        return bytes(output), said.decode("utf-8", "replace")

    def _take(self, waiting: selectors.BaseSelector, key: selectors.SelectorKey, said: bytearray) -> None:
        stream: IO[bytes] = key.fileobj  # type: ignore[assignment]
        kept: bytearray = key.data
        data = os.read(stream.fileno(), _CHUNK)
        if not data:
            waiting.unregister(stream)
        elif kept is said:
            kept += data[: _SAID_BYTES - len(kept)]
        else:
            kept += data
            if len(kept) > self._bounds.output_bytes:
                raise _beyond("output_bytes", self._bounds, "gave back too many bytes")

    def _left(self) -> float:
        """Seconds.

        Raises:
            LimitError: there are none.
        """
        left = self._end - time.monotonic()
        if left <= 0:
            raise self._late()
        return left

    def _late(self) -> LimitError:
        return _beyond("wall_seconds", self._bounds, "took too many seconds")


def _finished(code: int, output: bytes, said: str, bounds: Bounds) -> Finished:
    if code - DONE in _KNOWN_CODES:
        return Finished(code - DONE, output, said)
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
        f"memory_bytes of the option bounds{f': {visible(last)}' if last else ''}",
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
        reasons = {str(name): visible(str(why)) for name, why in json.loads(output).items()}
    except (ValueError, AttributeError):
        reasons = {}
    told = "; ".join(f"{visible(name)}: {why}" for name, why in reasons.items())
    waived = ", ".join(map(visible, reasons))
    return RequestError(
        f"Cannot hold an untrusted table to its limits here: {told}. Run it on Linux, in a container if need be, or "
        f"accept by the option waived that there is no limit for {waived}",
        cause="Unenforced",
        options=("waived",),
    )
