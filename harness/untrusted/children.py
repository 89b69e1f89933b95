"""Programs in separate processes, whose pipes this process reads and writes without waiting longer than a limit.

The workers for untrusted tables and the readers of other projects are such programs.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Literal, TypeAlias

Stream: TypeAlias = Literal["output", "errors"]

_CHUNK = 1 << 18
_WAITING = 8
"""The most chunks of a program's output that are queued. After that, the program waits."""
_ROUNDS = 100
_GRACE_S = 5.0


class Child:
    """A program in a separate session. Its output waits in a bounded queue.

    Attributes:
        process: The process. Only this class reads or writes its pipes.
    """

    def __init__(self, process: subprocess.Popen[bytes], mark: str) -> None:
        self.process = process
        self._mark = mark
        self._open: set[Stream] = {"output", "errors"}
        self._written: queue.Queue[tuple[Stream, bytes]] = queue.Queue(_WAITING)
        self._unsent: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._is_ended = False
        # Threads, because Windows has no other way to wait for a pipe.
        self._threads = [
            threading.Thread(target=self._collect, args=("output", process.stdout), daemon=True),
            threading.Thread(target=self._collect, args=("errors", process.stderr), daemon=True),
            threading.Thread(target=self._write, daemon=True),
        ]
        try:
            for thread in self._threads:
                thread.start()
        except BaseException:
            self.end()
            raise

    @classmethod
    def start(cls, command: Sequence[str], environment: Mapping[str, str]) -> Child:
        """Start a program.

        Raises:
            OSError: The program cannot be started.
        """
        mark = f"HARNESS_CHILD_{uuid.uuid4().hex}"
        process = subprocess.Popen(
            command,
            env={**environment, mark: "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # Ctrl-C reaches only this process, which then ends the program
        )
        return cls(process, mark)

    def is_open(self, stream: Stream | None = None) -> bool:
        """Return whether the program may still write to a stream, or to any stream if none is given."""
        return bool(self._open) if stream is None else stream in self._open

    def send(self, data: bytes) -> None:
        """Write to the program's standard input in the background, as soon as the program reads."""
        self._unsent.put(data)

    def send_end(self) -> None:
        """Close the program's standard input in the background, after everything was sent."""
        self._unsent.put(None)

    def receive(self, limit_s: float) -> tuple[Stream, bytes] | None:
        """Return the next bytes that the program writes, and their stream, or None after the time limit.

        Empty bytes mean that the stream has ended.
        """
        try:
            stream, data = self._written.get(timeout=max(0.0, limit_s))
        except queue.Empty:
            return None
        if not data:
            self._open.discard(stream)
        return stream, data

    def end(self) -> None:
        """Kill the program and all processes that it started, and close its pipes."""
        self._is_ended = True
        self.kill()
        self.process.wait()
        self.send_end()
        with contextlib.suppress(queue.Empty):  # so that no thread waits for space
            while True:
                self._written.get_nowait()
        until = time.monotonic() + _GRACE_S
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, until - time.monotonic()))
        if not any(thread.is_alive() for thread in self._threads):  # a pipe cannot be closed while a thread reads it
            for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
                with contextlib.suppress(OSError):
                    if stream is not None:
                        stream.close()

    def kill(self) -> None:
        """Kill the processes of the program's group and, on Linux, processes that have left the group."""
        with contextlib.suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()
        for _ in range(_ROUNDS):  # a process may start another one in the meantime
            processes = list(_marked_processes(self._mark.encode()))
            for process in processes:
                with contextlib.suppress(OSError):
                    os.kill(process, signal.SIGKILL)
            if not processes:
                return

    def _collect(self, stream: Stream, pipe: IO[bytes]) -> None:
        data = b"more"
        while data:
            try:
                data = pipe.read(_CHUNK)
            except (OSError, ValueError):
                data = b""
            if not self._is_ended:
                self._written.put((stream, data))

    def _write(self) -> None:
        pipe = self.process.stdin
        assert pipe is not None
        for data in iter(self._unsent.get, None):
            rest = memoryview(data)
            with contextlib.suppress(OSError, ValueError):  # the program's exit status gives the reason
                while rest:
                    rest = rest[pipe.write(rest) :]
        with contextlib.suppress(OSError):
            pipe.close()


def _marked_processes(mark: bytes) -> Iterator[int]:
    """Yield the processes that inherited a mark in their environment, in whatever session they are now."""
    with contextlib.suppress(OSError), os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit():
                with contextlib.suppress(OSError), open(f"{entry.path}/environ", "rb") as variables:
                    if mark in variables.read():
                        yield int(entry.name)
