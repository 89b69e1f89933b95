"""Renewal of credentials that a catalog vends for a while: options of a store that end, and are asked for anew.

What a store says of credentials that have ended is the cause `ExpiredCredentials`, in `harness.storage.object_client`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from harness.errors import HarnessError
from harness.storage.records import dataclass
from harness.storage.threads import Lock

ExpiringOptions: TypeAlias = tuple[Mapping[str, Any], int | None]
"""Options, and when they end: milliseconds since 1970-01-01 UTC; None: never."""

_EARLY_MS = 60_000
_EARLY_PART = 10


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class Renewal:
    """Options that are asked for anew a minute before they end, or a tenth of their time, whichever is less.

    options, expires_ms: those of the first answer.
    ask: gives the next ones.
    """

    options: Mapping[str, object] = field(repr=False)
    expires_ms: int | None
    ask: Callable[[], ExpiringOptions] = field(repr=False)
    generation: int = 0
    _due_ms: int | None = None
    _lock: Lock = field(default_factory=Lock, repr=False)

    def __post_init__(self) -> None:
        self._due_ms = _due(self.expires_ms)

    def current(self) -> Mapping[str, Any]:
        """The options that hold now; `generation` counts how often there were other ones.

        Raises HarnessError: they ended, and whoever gives new ones does not.
        """
        with self._lock:
            if self._due_ms is not None and _now_ms() >= self._due_ms:
                try:
                    self.options, self.expires_ms = self.ask()
                except HarnessError:
                    if self.expires_ms is None or _now_ms() >= self.expires_ms:
                        raise
                    return self.options  # they hold for a while yet
                self.generation += 1
                self._due_ms = _due(self.expires_ms)
            return self.options


def _due(expires_ms: int | None) -> int | None:
    if expires_ms is None:
        return None
    now = _now_ms()
    return expires_ms - min(_EARLY_MS, max(0, expires_ms - now) // _EARLY_PART)
