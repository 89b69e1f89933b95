"""How much this process has read of stores: for whoever shows progress, and in the log on long reads."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import field

from harness.forks import Lock
from harness.records import dataclass

LOG = logging.getLogger("harness.storage")
_EVERY_S = 5.0


@dataclass(slots=True)
class Traffic:
    """Requests that were answered, the bytes of files that came, and how often a request that failed was repeated.
    While they come, the log says so at INFO.

    clock: the time in seconds; the log is told when five have passed since it was.
    """

    clock: Callable[[], float] = time.monotonic
    requests: int = 0
    size: int = 0
    repeated: int = 0
    _told: float | None = None
    _lock: Lock = field(default_factory=Lock, repr=False)

    def add(self, size: int) -> None:
        """One more answer, with so many bytes of a file."""
        with self._lock:
            now = self.clock()
            self.requests, self.size = self.requests + 1, self.size + size
            if self._told is None:
                self._told = now
            if now - self._told < _EVERY_S:
                return
            self._told = now
        LOG.info("%s so far", self.summary())

    def repeat(self) -> None:
        """A request failed, and is asked again."""
        with self._lock:
            self.repeated += 1

    def summary(self) -> str:
        """Such as `63.8 MB of stores in 83 requests, 2 asked again`."""
        plural = "" if self.requests == 1 else "s"
        repeated = f", {self.repeated} asked again" if self.repeated else ""
        return f"{self.size / 1e6:.1f} MB of stores in {self.requests} request{plural}{repeated}"


TRAFFIC = Traffic()
"""Of this process, since it began."""
