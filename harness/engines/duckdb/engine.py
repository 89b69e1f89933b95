"""Runs lowered plans on a DuckDB connection, the user's or one of harness's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from harness.engines.duckdb.conform import conform
from harness.engines.duckdb.failures import engine_error
from harness.engines.duckdb.lowering import Use, lower, named, numbered
from harness.engines.duckdb.registrations import Registrations, registrar
from harness.engines.shared import sqltext
from harness.engines.shared.duckdb_instance import cursor
from harness.engines.shared.names import refuse_same_names
from harness.errors import HarnessError, RequestError
from harness.filters.parsed import depends_on_zone, in_any_zone
from harness.filters.predicate import Filter
from harness.model.schema import StringType, arrow_field, walk
from harness.plan.scan_plan import ScanPlan


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
    """All rows of a plan, in the exact types of its columns (`harness.model.schema.arrow_type`); row order is open.

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
