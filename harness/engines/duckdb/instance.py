"""DuckDB instances under the settings that harness reads with: one that all of harness's own reads share, and others.

Starting an instance takes some 30 ms, which is most of what reading a small table costs, while a cursor of a running
one takes 10 µs. A cursor has views, registered tables and a transaction of its own. Settings, file systems and memory
belong to the instance, so its configuration is locked: whoever holds a relation of it could change them for everybody.

An internal error while a query runs makes DuckDB give up the whole instance: whatever runs on it fails from then on. So
an instance is asked for a sign of life before a cursor of it is handed out, and replaced where there is none.
"""

from __future__ import annotations

import os
import threading
from functools import cache
from typing import Protocol, TypeVar
from weakref import WeakSet

import duckdb

from harness.engines.duckdb import confinement
from harness.storage.threads import Lock

# The connections and sessions on which queries of harness may be running, so that Ctrl-C can end them.
#
# Python handles a signal only in the main thread, and only once that comes back from C code: from DuckDB not before the
# query is done. And what waits for Spark gives up the wait, not the jobs. Another thread can end both, if it knows
# where.


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


GEOMETRY_CONVERSION = "enable_geoparquet_conversion"
"""DuckDB's setting; it has no say on columns that Parquet itself annotates as geometries."""

_SETTINGS = (
    "TimeZone = 'UTC'",
    "preserve_insertion_order = false",
    "autoinstall_known_extensions = false",
    f"{GEOMETRY_CONVERSION} = false",
    # DuckDB 1.5 keeps what it read of local files too, and takes one of the same size and time for the one before.
    *(["enable_external_file_cache = false"] if int(duckdb.__version__.split(".")[0]) < 2 else []),
)


def connect(*, lossless: bool = True, locked: bool = False) -> duckdb.DuckDBPyConnection:
    """A new in-memory instance, for a caller who may change it, under the settings that harness reads with.

    UTC, so that no value depends on the machine; no extension is downloaded; row order is not kept, because a table has
    none and DuckDB is faster without; the bytes of binary columns come as they are stored, whatever a file's GeoParquet
    metadata says of them (frontier F0.2).

    Args:
        lossless: Arrow results keep UUIDs as UUIDs and JSON as JSON, but have bytes (`arrow.bool8`) for booleans, which
            Polars and Parquet take for numbers. Without, as is DuckDB's own default, both are text, and booleans are.
        locked: no setting can be changed; so it is of every instance in a process that is confined.
    """
    connection = tracked(duckdb.connect())
    for setting in (*_SETTINGS, f"arrow_lossless_conversion = {lossless}"):
        connection.execute(f"SET GLOBAL {setting}")  # a cursor has the settings of the instance, not of the connection
    confined = confinement.settings()
    for setting in confined:
        connection.execute(f"SET GLOBAL {setting}")
    if locked or confined:
        connection.execute("SET GLOBAL lock_configuration = true")
    return connection


def cursor(*, lossless: bool = True) -> duckdb.DuckDBPyConnection:
    """A connection of its own to the instance of this process for harness's own reads; the settings are `connect`'s.

    Every `SET` on it is refused by DuckDB. An instance that DuckDB has given up is replaced by another. A process that
    was forked gets an instance of its own: the threads of DuckDB do not live on in it.
    """
    made = _of_process(os.getpid()).cursor(lossless)
    _own.add(made)
    return made


def is_own(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether `cursor` has made a connection, so that what harness sets on it is in nobody's way."""
    return connection in _own


def is_given_up(error: BaseException) -> bool:
    """Tells whether an error is one that may have ended its instance, or says that another did."""
    return isinstance(error, duckdb.InternalException | duckdb.FatalException)


_own: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()


class _Instances:
    """The instances of one process, each made when it is first wanted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[bool, duckdb.DuckDBPyConnection] = {}

    def cursor(self, lossless: bool) -> duckdb.DuckDBPyConnection:
        with self._lock:
            made = self._made[lossless].cursor() if lossless in self._made else None
            if made is None or not _is_alive(made):
                self._made[lossless] = connect(lossless=lossless, locked=True)
                made = self._made[lossless].cursor()
            return tracked(made)


def _is_alive(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether the instance of a connection takes statements: this one is the quickest that is refused by one that is
    given up (66 us, 1.5 and 2.0), as it is bound to fail before it is planned."""
    try:
        connection.execute("EXECUTE harness_sign_of_life")
    except duckdb.Error as error:
        return not is_given_up(error)
    return True


@cache
def _of_process(number: int) -> _Instances:
    """Those of a parent stay where they are: a child can neither use nor end them, and their lock may be held."""
    return _Instances()
