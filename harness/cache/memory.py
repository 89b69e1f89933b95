"""Entries that this process has made or read, in its memory: the least recently used go first."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from harness.forks import Lock

if TYPE_CHECKING:
    from harness.cache.entries import Entry

MOST_BYTES: Final = 64 << 20
"""Entries are compressed: what a plan needs of a million files takes 15 MB."""


class Sized(Protocol):
    """Something that takes memory."""

    @property
    def size(self) -> int:
        """Bytes."""


Held = TypeVar("Held", bound=Sized)


class Memory(Generic[Held]):
    """Entries by name, or others that know their size. Threads may use it at once.

    most: bytes that all entries together may have.
    """

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._size = 0
        self._entries: OrderedDict[str, Held] = OrderedDict()
        self._lock = Lock()

    @property
    def size(self) -> int:
        """Bytes of all entries."""
        return self._size

    def get(self, name: str) -> Held | None:
        """The entry of that name; None: there is none."""
        with self._lock:
            found = self._entries.get(name)
            if found is not None:
                self._entries.move_to_end(name)
            return found

    def put(self, name: str, entry: Held) -> None:
        """Keeps an entry, in place of those that were not used for longest; one that is too large is not kept."""
        with self._lock:
            self._forget(name)
            if entry.size > self._most:
                return
            self._entries[name] = entry
            self._size += entry.size
            while self._size > self._most:
                self._forget(next(iter(self._entries)))

    def drop(self, name: str) -> None:
        """Forgets an entry."""
        with self._lock:
            self._forget(name)

    def clear(self) -> None:
        """Forgets all entries."""
        with self._lock:
            self._entries.clear()
            self._size = 0

    def _forget(self, name: str) -> None:
        gone = self._entries.pop(name, None)
        self._size -= 0 if gone is None else gone.size


SHARED: Final[Memory[Entry]] = Memory()
"""The memory of this process."""
