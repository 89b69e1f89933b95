"""Relations of plans on a DuckDB connection, with the Arrow tables and views that their queries need there.

Relations are lazy: they look such things up by name each time that they run, and so do relations that a user derives
from them, which nobody can know of. So nothing is ever taken away but by `release`. What is on a user's connection has
a name that follows from its content, so that the same plan, read again, finds it there and leaves nothing new.
"""

from __future__ import annotations

import hashlib
import itertools
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

from harness.engines import sqltext
from harness.engines.column_values import conform
from harness.engines.duckdb.failures import engine_error
from harness.engines.duckdb.instance import cursor, forget
from harness.engines.duckdb.lowering import Use, lower, named, numbered
from harness.engines.union_arms import refuse_same_names
from harness.errors import HarnessError, RequestError
from harness.metadata.filters.predicate import Filter, depends_on_zone, in_any_zone
from harness.metadata.model.schema import StringType, arrow_field, walk
from harness.metadata.plan.scan_plan import ScanPlan

_counter = itertools.count()
_PREFIX = f"harness_{secrets.token_hex(8)}_"
"""The prefix of this process: no text of a user holds it by chance."""


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
    """The things on a user's connection, as one read finds them and adds to them."""

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
        """Notes a name; tells whether it is new. Each read asks anew: a user may drop the thing, or roll back."""
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
    with pa.ipc.new_stream(_DigestSink(digest), table.schema) as writer:
        writer.write_table(table)
    return digest.hexdigest()


class _DigestSink:
    """An output for Arrow that only digests."""

    closed = False

    def __init__(self, digest: hashlib.blake2b) -> None:
        self._digest = digest

    def write(self, data: Any) -> None:
        self._digest.update(data)

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Nothing is open."""


# Plans run on a connection, the user's or one of harness's own.


def relation(
    plan: ScanPlan, connection: duckdb.DuckDBPyConnection | None = None, *, name: str | None = None
) -> duckdb.DuckDBPyRelation:
    """The plan's rows as a lazy relation.

    Args:
        plan: what to read.
        connection: the user's; None: one of harness's own.
        name: also make the rows a temporary view of this name.

    Raises:
        HarnessError: as `harness.engines.duckdb.lowering.lower` says.
    """
    own = cursor(lossless=False) if connection is None else connection
    with about(plan):
        if name is None:
            add = registrar(own) if connection is None else Registrations(own).table
            return own.sql(lowered(plan, own, add, Use.VIEW))
        register(plan, own, name)
        return own.sql(f"SELECT * FROM {sqltext.name(name)}")


def register(plan: ScanPlan, connection: duckdb.DuckDBPyConnection, name: str, *, use: Use = Use.VIEW) -> None:
    """Makes the plan's rows the temporary view `name` of a connection, replacing a view of that name.

    Raises:
        HarnessError: as for `relation`.
    """
    with about(plan):
        query = lowered(plan, connection, Registrations(connection).table, use)
        connection.execute(f"CREATE OR REPLACE TEMPORARY VIEW {sqltext.name(name)} AS {query}")


def to_arrow(plan: ScanPlan) -> pa.Table:
    """All rows of a plan, in the exact types of its columns (`harness.metadata.model.schema.arrow_type`); row order
    is open.

    Raises:
        HarnessError: as for `relation`.
        CorruptFileError: DuckDB could not decode a data file.
        EngineError: DuckDB failed otherwise while it ran the query.
    """
    connection = cursor()
    with about(plan):
        query = numbered(lower(plan, connection, registrar(connection), Use.ONCE), plan)
        # `pa.table` asks whether it is a frame of pandas, which imports pandas: 0.2 s of the first read
        rows = pa.RecordBatchReader.from_stream(connection.sql(query)).read_all()
        return conform(rows, pa.schema([arrow_field(f) for f in plan.columns])) if plan.columns else rows.select([])


def lowered(
    plan: ScanPlan, connection: duckdb.DuckDBPyConnection, register: Callable[[pa.Table], str], use: Use
) -> str:
    """The query of a plan, its columns under their own names.

    register: as for `harness.engines.duckdb.lowering.lower`.

    Raises:
        HarnessError: as for `relation`.
    """
    with about(plan):
        refuse_same_names(plan.columns, plan.table)
        _check_time_zone(plan, connection)
        _check_collation(plan, connection)
        return named(lower(plan, connection, register, use), plan)


@contextmanager
def about(plan: ScanPlan) -> Iterator[None]:
    """Errors on the way to the rows are harness's, and name the table and the snapshot."""
    try:
        yield
    except HarnessError as error:
        error.within(table=plan.table, snapshot=plan.snapshot, format=plan.format)
        raise
    except (duckdb.Error, pa.ArrowException, OSError, OverflowError, UnicodeError) as error:
        raise engine_error(error, plan).within(format=plan.format) from error


def zoned(filter_: Filter, connection: duckdb.DuckDBPyConnection | None) -> Filter:
    """The filter for planning a read on a connection, which reads its text in the session's time zone (iceberg 11.10).

    connection: the user's; None: one of harness's own, in UTC.
    """
    if connection is None or filter_.any_zone or not depends_on_zone(filter_):
        return filter_
    ((zone,),) = connection.execute("SELECT current_setting('TimeZone')").fetchall()
    return filter_ if zone in ("UTC", "Etc/UTC", "GMT", "Etc/GMT") else in_any_zone(filter_)


def _check_time_zone(plan: ScanPlan, connection: duckdb.DuckDBPyConnection) -> None:
    """A plan that was made for another zone may lack files."""
    if plan.filter is not None and zoned(plan.filter, connection) is not plan.filter:
        raise RequestError(
            "Cannot filter instants on a connection whose time zone is not UTC, by a plan that was made for UTC: plan "
            "the filter for the connection",
            table=plan.table,
        )


def _check_collation(plan: ScanPlan, connection: duckdb.DuckDBPyConnection) -> None:
    """Planning skips files by the bytes of text; the connection must compare text in the same way (iceberg 3.3)."""
    if plan.filter is None or not any(isinstance(f.type, StringType) for _, f in walk(plan.filter.columns)):
        return
    ((collation,),) = connection.execute("SELECT current_setting('default_collation')").fetchall()
    if collation.upper() not in ("", "C", "POSIX", "BINARY"):
        raise RequestError(
            f"Cannot filter text on a connection with default collation {collation!r}: "
            "run RESET default_collation on it first",
            table=plan.table,
        )
