"""The connections and sessions on which queries of harness may be running, so that Ctrl-C can end them.

Python handles a signal only in the main thread, and only once that comes back from C code: from DuckDB not before the
query is done. And what waits for Spark gives up the wait, not the jobs. Another thread can end both, if it knows where.
"""

from __future__ import annotations

from typing import Protocol, TypeVar
from weakref import WeakSet

from harness.forks import Lock


class Interruptible(Protocol):
    """A DuckDB connection, or a Spark session."""

    def interrupt(self) -> None:
        """End what runs, if anything does."""


_Connection = TypeVar("_Connection", bound=Interruptible)

_lock = Lock()
_connections: WeakSet[Interruptible] = WeakSet()
_asked: list[None] = []  # an item each time


def tracked(connection: _Connection) -> _Connection:
    """The connection, known to `interrupt_all` for as long as it lives."""
    with _lock:
        _connections.add(connection)
    return connection


def interrupt_all() -> None:
    """End all queries that run now; those that start later run."""
    with _lock:
        _asked.append(None)
        connections = list(_connections)
    for connection in connections:
        connection.interrupt()


def interruptions() -> int:
    """How often all queries were ended: of those that began at another number, somebody asked for the end."""
    return len(_asked)
