"""Renewal of temporary credentials that a catalog vends as storage options.

If a store rejects credentials because they have expired, the error has the cause `ExpiredCredentials`, see
`harness.storage.object_client`.
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
"""Options and their expiry in milliseconds since 1970-01-01 UTC, or None if they do not expire."""

_EARLY_MS = 60_000
_EARLY_PART = 10


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class Renewal:
    """Options that are renewed before they expire: 1 minute, or a tenth of their lifetime if that is shorter.

    Attributes:
        options: The current options.
        expires_ms: Their expiry in milliseconds since 1970-01-01 UTC, or None.
        ask: Requests new options.
        generation: The number of renewals.
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
        """Return valid options, after renewing them if necessary.

        Raises:
            HarnessError: The options have expired and renewal failed.
        """
        with self._lock:
            if self._due_ms is not None and _now_ms() >= self._due_ms:
                try:
                    self.options, self.expires_ms = self.ask()
                except HarnessError:
                    if self.expires_ms is None or _now_ms() >= self.expires_ms:
                        raise
                    return self.options  # they are still valid for a while
                self.generation += 1
                self._due_ms = _due(self.expires_ms)
            return self.options


def _due(expires_ms: int | None) -> int | None:
    if expires_ms is None:
        return None
    now = _now_ms()
    return expires_ms - min(_EARLY_MS, max(0, expires_ms - now) // _EARLY_PART)
