"""What is asked of a store, as log records of `harness.storage`: at DEBUG each request, at INFO each repetition.

A record says what was asked, for which file, what came, and how long it took. A request that failed in a way that
passes is asked again here (`harness.storage.retries`), so that each time it is asked shows.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeVar

from harness.storage import retries
from harness.storage.clients import Client
from harness.storage.listings import Entry, FileStatus, FileVersion
from harness.storage.paths import shown
from harness.storage.traffic import LOG, TRAFFIC

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class LoggedClient:
    """A client whose requests are logged, and repeated where that may help."""

    client: Client

    @property
    def identity(self) -> Hashable:
        """As `Client` says."""
        return self.client.identity

    @property
    def reads_ends(self) -> bool:
        """As `Client` says."""
        return self.client.reads_ends

    @property
    def most_retries(self) -> int:
        """As `Client` says."""
        return self.client.most_retries

    def read(self, path: str, offset: int, length: int | None) -> tuple[bytes, FileStatus | None]:
        """As `Client` says."""
        what = "all" if length is None and offset == 0 else f"from byte {offset}"
        return self._asked(f"read {what} of", path, lambda: self.client.read(path, offset, length), _bytes)

    def end(self, path: str, length: int) -> tuple[bytes, FileStatus]:
        """As `Client` says."""
        return self._asked("read the end of", path, lambda: self.client.end(path, length), _bytes)

    def status(self, path: str) -> FileStatus:
        """As `Client` says."""
        return self._asked("ask the status of", path, lambda: self.client.status(path), lambda s: f"{s.size} bytes")

    def version(self, path: str) -> FileVersion | None:
        """As `Client` says."""
        return self._asked("ask the version of", path, lambda: self.client.version(path), lambda found: "done")

    def is_file(self, path: str) -> bool:
        """As `Client` says."""
        return self._asked("look for file", path, lambda: self.client.is_file(path), _yes_or_no)

    def is_directory(self, path: str) -> bool:
        """As `Client` says."""
        return self._asked("look for directory", path, lambda: self.client.is_directory(path), _yes_or_no)

    def entries(self, directory: str) -> list[Entry]:
        """As `Client` says."""
        return self._asked(
            "list files of", directory, lambda: self.client.entries(directory), lambda f: f"{len(f)} files"
        )

    def directories(self, directory: str) -> set[str]:
        """As `Client` says."""
        return self._asked(
            "list directories of", directory, lambda: self.client.directories(directory), lambda f: f"{len(f)} of them"
        )

    def _asked(self, what: str, path: str, ask: Callable[[], _Result], came: Callable[[_Result], str]) -> _Result:
        most = self.most_retries

        def tell(found: retries.Passing, wait_s: float, number: int) -> None:
            TRAFFIC.repeat()
            told = f"{found.reason}, asked again in {wait_s:.1f} s, {number} of {most}"
            LOG.info("%s %s: %s", what, shown(path), told)

        return retries.asked(lambda: _told(what, path, ask, came), most, tell)


def _told(what: str, path: str, ask: Callable[[], _Result], came: Callable[[_Result], str]) -> _Result:
    if not LOG.isEnabledFor(logging.DEBUG):
        found = ask()
        TRAFFIC.add(_size(found))
        return found
    start = time.monotonic()
    try:
        found = ask()
    except Exception as error:
        LOG.debug("%s %s: %s, %.0f ms", what, shown(path), type(error).__name__, _elapsed_ms(start))
        raise
    TRAFFIC.add(_size(found))
    LOG.debug("%s %s: %s, %.0f ms", what, shown(path), came(found), _elapsed_ms(start))
    return found


def _elapsed_ms(start: float) -> float:
    return (time.monotonic() - start) * 1000


def _size(found: object) -> int:
    """The bytes of a file in what came."""
    return len(found[0]) if isinstance(found, tuple) and isinstance(found[0], bytes) else 0


def _bytes(found: tuple[bytes, FileStatus | None]) -> str:
    return f"{len(found[0])} bytes"


def _yes_or_no(found: bool) -> str:
    return "there" if found else "not there"
