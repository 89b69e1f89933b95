"""What a worker may use: memory, processor time, no socket; and what it did use."""

from __future__ import annotations

import math
import resource
import sys
from pathlib import Path
from typing import Any

MOST_SECONDS = 20
"""Of processor time, for one mutant and its judges."""

MOST_BYTES = 1 << 30
"""Of memory, beyond what the process had before."""

_ADDRESS_SPACE = 4 << 30


class SocketWatch:
    """Hears which files the process opens by Python, and refuses it sockets. One for the process: it stays for ever.

    opened: paths, while it is a set. sockets: how often one was asked for.
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
    """How much more memory the process has at most inside of the block than before it. bytes: known after it."""

    def __init__(self) -> None:
        self.bytes = 0

    def __enter__(self) -> MemoryMeter:
        Path("/proc/self/clear_refs").write_text("5")  # from now on VmHWM is the most since now
        self._before = _resident("VmRSS")
        return self

    def __exit__(self, *_: object) -> None:
        self.bytes = _resident("VmHWM") - self._before


def limit_process() -> None:
    """No more memory than a mutant could have a reason for, and no core file of a crash."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, resource.RLIM_INFINITY))


def allow_seconds() -> None:
    """So much processor time from now on; then the system ends the process by SIGXCPU."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = math.ceil(used.ru_utime + used.ru_stime) + MOST_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


def _resident(name: str) -> int:
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))
