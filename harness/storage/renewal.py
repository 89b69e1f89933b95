"""Renewal of temporary credentials that a catalog vends as storage options.

If a store rejects credentials because they have expired, the error has the cause `ExpiredCredentials`, see
`harness.storage.object_client`.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, NoReturn, TypeAlias

from harness.errors import HarnessError, StorageError
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

    Another process gets the current options. It has no connection to the catalog, so they are not renewed there.

    Attributes:
        options: The current options.
        expires_ms: Their expiry in milliseconds since 1970-01-01 UTC, or None.
        ask: Requests new options.
        table: The table that is read with the options, for messages.
        generation: The number of renewals.
        number: A number that no other instance of this process has.
    """

    options: Mapping[str, object] = field(repr=False)
    expires_ms: int | None
    ask: Callable[[], ExpiringOptions] = field(repr=False)
    table: str | None = None
    generation: int = 0
    number: int = field(default_factory=itertools.count().__next__, init=False)
    _due_ms: int | None = None
    _lock: Lock = field(default_factory=Lock, repr=False)

    def __post_init__(self) -> None:
        self._due_ms = _due(self.expires_ms)

    def __reduce__(self) -> tuple[type[Renewal], tuple[object, ...]]:
        """Pickle the current options without the connection to the catalog."""
        return Renewal, (self.current(), self.expires_ms, _refuse, self.table)

    def current(self) -> Mapping[str, Any]:
        """Return valid options, after renewing them if necessary.

        Raises:
            HarnessError: The options have expired and renewal failed. The error names the table.
        """
        return self.versioned()[0]

    def versioned(self) -> tuple[Mapping[str, Any], int]:
        """Return the result of `current`, and the number of renewals before it."""
        with self._lock:
            if self._due_ms is not None and _now_ms() >= self._due_ms:
                try:
                    self.options, self.expires_ms = self._renewed()
                except HarnessError as error:
                    if self.expires_ms is None or _now_ms() >= self.expires_ms:
                        raise error.within(table=self.table) from error.__cause__
                else:  # after an error, the options are still valid for a while
                    self.generation += 1
                    self._due_ms = _due(self.expires_ms)
            return self.options, self.generation

    def _renewed(self) -> ExpiringOptions:
        options, expires_ms = self.ask()
        if expires_ms is not None and _now_ms() >= expires_ms:
            raise StorageError(
                "Cannot read the table: its catalog returned credentials that have already expired; check the clock of "
                "this machine, and that of the server",
                cause="ExpiredCredentials",
            )
        return options, expires_ms


def _refuse() -> NoReturn:
    raise StorageError(
        "Cannot read the table: the credentials of its catalog have expired, and another process than the one that "
        "opened the table cannot renew them; read again",
        cause="ExpiredCredentials",
    )


def _due(expires_ms: int | None) -> int | None:
    if expires_ms is None:
        return None
    now = _now_ms()
    return expires_ms - min(_EARLY_MS, max(0, expires_ms - now) // _EARLY_PART)
