"""Limits for a worker (memory, processor time, no sockets), and measurements of what it used."""

from __future__ import annotations

import math
import resource
import sys
from pathlib import Path
from typing import Any

MOST_SECONDS = 20
"""The CPU seconds for one mutant, including the oracle."""

MOST_BYTES = 1 << 30
"""The bytes of memory in addition to the process's memory at the start."""

_ADDRESS_SPACE = 4 << 30


class SocketWatch:
    """An observer of files that Python code opens, which also refuses sockets.

    There is one, and it lasts as long as the process.

    Attributes:
        opened: A set that collects paths, or None.
        sockets: How often a socket was requested.
    """

    def __init__(self) -> None:
        self.opened: set[str] | None = None
        self.sockets = 0
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and self.opened is not None and isinstance(arguments[0], str):
            self.opened.add(arguments[0])
        elif event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"):
            self.sockets += 1
            raise PermissionError("a read of a local table opens no socket")


class MemoryMeter:
    """A meter of the peak memory in a block, compared with the memory before. `bytes` is known after the block."""

    def __init__(self) -> None:
        self.bytes = 0

    def __enter__(self) -> MemoryMeter:
        Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM, the peak of resident memory
        self._before = _resident("VmRSS")
        return self

    def __exit__(self, *_: object) -> None:
        self.bytes = _resident("VmHWM") - self._before


def limit_process() -> None:
    """Limit memory to more than any mutant can need, and write no core file after a crash."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, resource.RLIM_INFINITY))


def allow_seconds() -> None:
    """Limit the processor time from now on. The system ends the process with SIGXCPU."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = math.ceil(used.ru_utime + used.ru_stime) + MOST_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


def _resident(name: str) -> int:
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))
