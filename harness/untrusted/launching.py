"""Starting a worker, receiving its result, and ending it: when it finishes, at a limit, or when it is interrupted."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import errno
import itertools
import json
import os
import platform
import select
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import harness
from harness.errors import EngineError, LimitError, RequestError, visible
from harness.storage.records import dataclass
from harness.untrusted.bounds import Bounds
from harness.untrusted.cgroups import EVERY_S, ResourceWatch, worker_group
from harness.untrusted.children import Child, Stream
from harness.untrusted.seccomp import NUMBERS
from harness.untrusted.worker import DONE, UNENFORCED

PREFIX = "harness-untrusted-"
_TRIES = 10


@contextlib.contextmanager
def worker_directory() -> Iterator[str]:
    """Create an empty directory for this process only, with links resolved, and delete it afterwards.

    This process holds a lock on the directory, which the system releases however the process ends. Directories of ended
    processes therefore have no lock, and are deleted before the new directory is created.

    Raises:
        OSError: No directory can be created.
    """
    _remove_stale()
    path, lock = _make_locked_directory()
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):
            _remove(path)
        if lock is not None:
            os.close(lock)


def _remove_stale() -> None:
    """Delete the directories of this user that are not locked by a running process."""
    paths: list[str] = []
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        paths = [entry.path for entry in entries if entry.name.startswith(PREFIX)]
    for path in paths:
        with contextlib.suppress(OSError):
            lock = _lock(path, wait=False)
            if lock is not None:
                try:
                    _remove(path)
                finally:
                    os.close(lock)


def _make_locked_directory() -> tuple[str, int | None]:
    for _ in range(_TRIES):
        path = os.path.realpath(tempfile.mkdtemp(prefix=PREFIX))
        try:
            lock = _lock(path, wait=True)
        except FileNotFoundError:  # deleted as stale between the two steps
            continue
        except OSError:  # the file system has no locks, so nobody deletes the directory as stale
            return path, None
        if lock is not None:
            return path, lock
    raise FileNotFoundError(f"every new directory disappears from {tempfile.gettempdir()}")


def _lock(path: str, *, wait: bool) -> int | None:
    """Lock a directory, and return the descriptor that holds the lock.

    Returns None if the directory belongs to another user, is locked, or no longer exists.

    Raises:
        OSError: It is not a directory, or cannot be locked.
    """
    import fcntl

    opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        result = os.fstat(opened)
        if result.st_uid == os.geteuid() and stat.S_ISDIR(result.st_mode):
            fcntl.flock(opened, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if os.path.samestat(result, os.stat(path, follow_symlinks=False)):
                opened, descriptor = -1, opened
                return descriptor
        return None
    except BlockingIOError:
        return None
    finally:
        if opened >= 0:
            os.close(opened)


def _remove(directory: str) -> None:
    """Delete a directory and all its content, at any depth.

    Directories two levels below are moved up until none are left, because their paths may be too long for the system,
    and their nesting too deep for a recursive function.

    Raises:
        OSError: Something cannot be deleted.
    """
    numbers = itertools.count()
    marks = f"{directory}/.{os.getpid()}-"
    while inner := _remove_files(directory):
        for path in inner:
            os.chmod(path, 0o700)  # the worker may have made it unreadable
            for deeper in _remove_files(path):
                os.chmod(deeper, 0o700)  # the worker may have made it immovable
                os.rename(deeper, f"{marks}{next(numbers)}")
            os.rmdir(path)
    os.rmdir(directory)


def _remove_files(directory: str) -> list[str]:
    """Delete everything in a directory except directories, and return these."""
    with os.scandir(directory) as entries:
        result = list(entries)
    for entry in result:
        if not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.path)
    return [entry.path for entry in result if entry.is_dir(follow_symlinks=False)]


_RECEIVE, _SEND = 0xC0502100, 0xC0182101
"""Requests of ioctl, as in linux/seccomp.h, with structures of 80 and 24 bytes."""
_ASKED_BYTES, _ASKED, _ANSWER = 80, "=Q8xi", "=QqiI"
_MOST_NAMES, _MOST_CALLS = 8, 1000
"""The most names to record, and the most calls to answer. Later calls get the system's own error."""
_END_S = 1.0


class _RefusedCalls:
    """The names of system calls that a worker was refused, in order, for the error that says how it ended.

    Linux passes a refused call to the holder of the filter's listener, and makes the caller wait for an answer. This
    process takes the listener's descriptor from the worker before the worker reads a byte of the table. If the system
    forbids this (before 5.6, or in some containers), calls fail in the same way, but their names are not known.
    """

    def __init__(self) -> None:
        self.names: dict[str, None] = {}

    @contextmanager
    def record(self, process: int, descriptor: int) -> Iterator[None]:
        """Answer and record the refused calls of a process while the block runs.

        Args:
            process: The process.
            descriptor: The number of the listener's descriptor in that process.
        """
        listener = _copy_descriptor(process, descriptor)
        if listener is None:
            yield
            return
        end, ending = os.pipe()
        # In a separate thread: if a call is withdrawn after the poll, the ioctl that reads it blocks.
        thread = threading.Thread(target=self._listen, args=(listener, end), name="harness-refusals", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread can be started; calls fail once the listener is closed
            for each in (listener, end, ending):
                os.close(each)
            yield
            return
        try:
            yield
        finally:
            os.close(ending)
            thread.join(_END_S)

    def _listen(self, listener: int, end: int) -> None:
        import fcntl

        poll = select.poll()
        for each in (listener, end):
            poll.register(each, select.POLLIN)
        names = {number: name for name, number in NUMBERS[platform.machine()].items()}
        try:
            for _ in range(_MOST_CALLS):
                ready = dict(poll.poll())
                if end in ready or not ready[listener] & select.POLLIN:
                    return
                requested = bytearray(_ASKED_BYTES)
                try:
                    fcntl.ioctl(listener, _RECEIVE, requested, True)
                    call, number = struct.unpack_from(_ASKED, requested)
                    if len(self.names) < _MOST_NAMES:
                        self.names[names.get(number, f"call {number}")] = None
                    fcntl.ioctl(listener, _SEND, bytearray(struct.pack(_ANSWER, call, 0, -errno.EPERM, 0)), True)
                except OSError:  # the calling thread has ended
                    continue
        finally:
            os.close(listener)
            os.close(end)


def _copy_descriptor(process: int, descriptor: int) -> int | None:
    """Return a copy of another process's descriptor, or None if the system does not permit it."""
    try:
        of_process = os.pidfd_open(process)
    except (OSError, AttributeError):
        return None
    try:
        call = ctypes.CDLL(None, use_errno=True).syscall
        number = NUMBERS[platform.machine()]["pidfd_getfd"]
        duplicate: int = call(*map(ctypes.c_long, (number, of_process, descriptor, 0)))
        return duplicate if duplicate >= 0 else None
    finally:
        os.close(of_process)


LIBRARIES = ("harness.queries.sql", "harness.engines.duckdb.engine")
"""Modules that reading a table imports."""
CRASHED, KILLED = "Crashed", "Killed"
_WORKER = "The process that reads the untrusted table"
_KNOWN_CODES = (0, 1, 2)
_SAID_BYTES = 1 << 16
_TAIL = 300
_LINE_BYTES = 16
_PASSED_ON = ("LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PYTHONPYCACHEPREFIX", "TZ")
"""Environment variables that the worker receives. It gets no others, for example tokens of a CI job."""


@dataclass(frozen=True, slots=True)
class WorkerResult:
    """The result of a worker. It is not trusted, because the table may have taken over the worker.

    Attributes:
        code: The exit code, which is what the work returned: 0, 1, or 2.
        output: The result.
        stderr: The standard error as text. It may contain unprintable characters (see `harness.errors.visible`).
        refused_calls: The names of system calls that the worker was refused, if the system reports them.
    """

    code: int
    output: bytes
    stderr: str
    refused_calls: tuple[str, ...] = ()


def run(
    work: str,
    request: object,
    *,
    bounds: Bounds,
    waived: Collection[str] = (),
    directories: Sequence[str] = (),
    libraries: Sequence[str] = (),
    calls: Sequence[str] = (),
) -> WorkerResult:
    """Do work in a worker, and return the result.

    Args:
        work: `module:function`. The function takes a JSON value, writes its result to a stream, and returns 0, 1, or 2.
        request: The function's argument, a JSON value.
        bounds: The limits of the process.
        waived: Limits that need not be enforced, see `harness.untrusted.bounds.WAIVABLE`.
        directories: Directories that the worker may read in addition to Python's and the system's, as absolute paths
            with links resolved.
        libraries: Modules to import before the limits apply, so that they do not count as memory or time.
        calls: Names of further system calls to allow.

    Returns:
        The result.

    Raises:
        RequestError: A limit cannot be enforced here, and is not waived.
        LimitError: The worker exceeded a limit and was ended.
        EngineError: The worker crashed or was killed.
    """
    if os.name != "posix":
        raise RequestError(
            "Cannot read an untrusted table on this system: the limits need Linux; run it there, for example "
            "in WSL or a container"
        )
    with worker_directory() as scratch, worker_group(bounds, scratch) as group:
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
        with _worker(scratch) as child:
            group.add_process(child.process.pid)
            exchange = _Exchange(child, bounds, scratch)
            output, stderr = exchange.read_all(json.dumps(message).encode())
            if child.process.returncode == -signal.SIGKILL and group.ran_out_of_memory():
                raise _limit_error("memory_bytes", bounds, "needed too many bytes of memory and was killed")
            return _worker_result(child.process.returncode, output, stderr, tuple(exchange.refusals.names), bounds)


@contextlib.contextmanager
def _worker(scratch: str) -> Iterator[Child]:
    # -P keeps the working directory off the path, because a checkout of untrusted code may contain modules.
    child = Child.start([sys.executable, "-P", "-m", "harness.untrusted.worker"], _environment(scratch))
    try:
        yield child
    finally:
        child.end()


def _environment(scratch: str) -> dict[str, str]:
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    root = str(Path(harness.__file__).parents[1])
    # Reduces the address space that libraries reserve for each thread.
    sparing = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2", "OMP_NUM_THREADS": "4"}
    # Relative entries refer to the working directory, which may be a checkout of untrusted code.
    path = [root, *filter(os.path.isabs, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    settings = {"HOME": scratch, "TMPDIR": scratch, "PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1"}
    return {**passed, **sparing, **settings}


class _Exchange:
    """The exchange of data with a worker. It enforces limits of time and size, and watches the worker's resources.

    The worker's first line names the listener of refused calls (`harness.untrusted.seccomp.install`). The worker begins
    its work when it has received an empty line as the answer.
    """

    def __init__(self, child: Child, bounds: Bounds, scratch: str) -> None:
        self._child, self._bounds = child, bounds
        self._watch = ResourceWatch(child.process.pid, scratch, bounds)
        self._end = time.monotonic() + bounds.wall_seconds
        self._next_look = time.monotonic() + EVERY_S
        self._first_line: bytearray | None = bytearray()
        self._output, self._errors = bytearray(), bytearray()
        self._meanwhile = contextlib.ExitStack()
        self.refusals = _RefusedCalls()

    def read_all(self, message: bytes) -> tuple[bytes, str]:
        """Return the output and standard error after the worker has ended.

        Raises:
            LimitError: The worker takes too long, returns too much, or uses too many resources.
        """
        child = self._child
        child.send(message + b"\n")
        with self._meanwhile:
            while child.is_open():
                written = child.receive(self._seconds_to_wait())
                if written is not None:
                    self._accept(*written)
            while child.process.poll() is None:  # the worker has closed its output, but may still run
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.process.wait(self._seconds_to_wait())
        return bytes(self._output), self._errors.decode("utf-8", "replace")

    def _accept(self, stream: Stream, data: bytes) -> None:
        if stream == "errors":
            self._errors += data[: _SAID_BYTES - len(self._errors)]
            return
        self._output += data if self._first_line is None else self._read_first_line(self._first_line, data)
        if len(self._output) > self._bounds.output_bytes:
            raise _limit_error("output_bytes", self._bounds, "returned too many bytes")

    def _read_first_line(self, line: bytearray, data: bytes) -> bytes:
        """Return the output so far, and answer the worker's first line when it is complete."""
        line += data
        notes, end, rest = line.partition(b"\n")
        if not end:
            if len(line) > _LINE_BYTES:
                raise EngineError(f"{_WORKER} did not begin with the expected line", cause=CRASHED)
            return b""
        self._first_line = None
        if notes.isdigit() and len(notes) <= _LINE_BYTES:
            self._meanwhile.enter_context(self.refusals.record(self._child.process.pid, int(notes)))
        self._child.send(b"\n")
        return bytes(rest)

    def _seconds_to_wait(self) -> float:
        """Return the seconds until the next check of the worker, or until its end.

        Raises:
            LimitError: The worker exceeds a bound.
        """
        now = time.monotonic()
        if now >= self._end:
            raise _limit_error("wall_seconds", self._bounds, "took too many seconds")
        if now >= self._next_look:
            exceeded = self._watch.exceeded()
            if exceeded is not None:
                raise _limit_error(exceeded[0], self._bounds, exceeded[1])
            self._next_look = time.monotonic() + EVERY_S
        return max(0.0, min(self._end, self._next_look) - now)


def refused_calls_text(calls: Sequence[str]) -> str:
    """Return the end of a message that lists the system calls that a worker was refused. Empty if there are none."""
    return f"; it was refused the system calls {', '.join(calls)}" if calls else ""


def _worker_result(code: int, output: bytes, stderr: str, calls: tuple[str, ...], bounds: Bounds) -> WorkerResult:
    if code - DONE in _KNOWN_CODES:
        return WorkerResult(code - DONE, output, stderr, calls)
    if code == UNENFORCED:
        raise _unenforced_error(output)
    if code == -signal.SIGXCPU:
        raise _limit_error("cpu_seconds", bounds, "took too many seconds of processor time")
    if code == -signal.SIGKILL:
        raise EngineError(f"{_WORKER} was killed, possibly because memory ran out", cause=KILLED)
    try:
        outcome = f"crashed with {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    except ValueError:
        outcome = f"crashed with signal {-code}"
    last = " ".join(stderr.split())[-_TAIL:]
    raise EngineError(
        f"{_WORKER} {outcome}; {bounds.memory_bytes:,} bytes of memory were allowed by "
        f"the option bounds.memory_bytes{refused_calls_text(calls)}{f': {visible(last)}' if last else ''}",
        cause=CRASHED,
        options=("bounds",),
    )


def _limit_error(name: str, bounds: Bounds, what: str) -> LimitError:
    return LimitError(
        f"{_WORKER} {what}, {getattr(bounds, name):,} are allowed; if you expect that, raise the option bounds.{name}",
        cause="LimitReached",
        options=("bounds",),
    )


def _unenforced_error(output: bytes) -> RequestError:
    try:
        reasons = {str(name): visible(str(why)) for name, why in json.loads(output[:_SAID_BYTES]).items()}
    except (ValueError, AttributeError, RecursionError):
        reasons = {}
    texts = "; ".join(f"{visible(name)}: {why}" for name, why in reasons.items())
    waived = ", ".join(map(visible, reasons))
    return RequestError(
        f"Cannot enforce the limits for an untrusted table here: {texts}. Run it on Linux, in a container if "
        f"necessary, or use the option waived to accept that there is no limit for {waived}",
        cause="Unenforced",
        options=("waived",),
    )
