"""What harness puts on a DuckDB connection beside the query: Arrow tables, and a view where no subquery can stand.

Relations are lazy: they look such things up by name each time that they run, and so do relations that a user derives
from them, which nobody can know of. So nothing is ever taken away but by `release`. What is on a user's connection has
a name that follows from its content, so that the same plan, read again, finds it there and leaves nothing new.
"""

from __future__ import annotations

import hashlib
import itertools
import secrets
from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa

from harness.engines import sqltext
from harness.engines.duckdb.files import forget

_counter = itertools.count()
_PREFIX = f"harness_{secrets.token_hex(8)}_"
"""Of this process alone: no text of a user holds it by chance."""


def registrar(connection: duckdb.DuckDBPyConnection) -> Callable[[pa.Table], str]:
    """A function that registers Arrow tables on a connection of harness's own under new names, and returns each name.

    Registered tables live as long as the connection: relations and views made from a plan need them.
    """

    def add(table: pa.Table) -> str:
        name = f"{_PREFIX}{next(_counter)}"
        connection.register(name, table)
        return name

    return add


class Registrations:
    """What is on a user's connection, as one read finds it and adds to it."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._there: set[str] | None = None

    def table(self, table: pa.Table) -> str:
        """The name of an Arrow table of this content, which is registered if it is not."""
        name = f"{_PREFIX}t{_digest(table)}"
        if self._is_new(name):
            self._connection.register(name, table)
        return name

    def view(self, query: str) -> str:
        """The name of a temporary view of a query, which is made if it is not there."""
        name = f"{_PREFIX}v{hashlib.blake2b(query.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"
        if self._is_new(name):
            self._connection.execute(f"CREATE OR REPLACE TEMPORARY VIEW {sqltext.name(name)} AS {query}")
        return name

    def _is_new(self, name: str) -> bool:
        """Whether it was not there; it is from now on. Asked anew by each read: a user may drop it, or roll back."""
        if self._there is None:
            self._there = set(_views(self._connection))
        if name in self._there:
            return False
        self._there.add(name)
        return True


def release(connection: duckdb.DuckDBPyConnection) -> None:
    """Take away what harness has put on a connection, but for what the user's own views on it need."""
    texts = [
        text
        for name, text in connection.execute("SELECT view_name, sql FROM duckdb_views() WHERE NOT internal").fetchall()
        if not name.startswith(_PREFIX)
    ]
    for name in _views(connection):
        if not any(name in text for text in texts):
            connection.unregister(name)
            connection.execute(f"DROP VIEW IF EXISTS {sqltext.name(name)}")
    forget(connection, unless=lambda literal: any(literal in text for text in texts))


def _views(connection: duckdb.DuckDBPyConnection) -> list[str]:
    found = connection.execute(
        f"SELECT view_name FROM duckdb_views() WHERE temporary AND starts_with(view_name, '{_PREFIX}')"
    )
    return [name for (name,) in found.fetchall()]


def _digest(table: pa.Table) -> str:
    digest = hashlib.blake2b(digest_size=16)
    with pa.ipc.new_stream(_Sink(digest), table.schema) as writer:
        writer.write_table(table)
    return digest.hexdigest()


class _Sink:
    """What Arrow needs of an output."""

    closed = False

    def __init__(self, digest: hashlib.blake2b) -> None:
        self._digest = digest

    def write(self, data: Any) -> None:
        self._digest.update(data)

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Nothing is open."""
