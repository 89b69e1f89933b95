"""Queries over several plans, each of them a view."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Mapping

import duckdb
import pyarrow as pa

from harness.engines.duckdb.engine import about, is_utc, lowered
from harness.engines.duckdb.failures import file_failure
from harness.engines.duckdb.lowering import Use
from harness.engines.duckdb.registrations import Registrations, registrar
from harness.engines.duckdb.result_types import given_out
from harness.engines.duckdb.unbound import better_told
from harness.engines.shared import sqltext
from harness.engines.shared.duckdb_instance import cursor
from harness.engines.shared.names import refuse_same_names
from harness.plan.scan_plan import ScanPlan
from harness.queries.present import Now


def query(
    text: str,
    plans: Mapping[str, ScanPlan | pa.Table],
    connection: duckdb.DuckDBPyConnection | None = None,
    *,
    aliased: Collection[str] = (),
) -> duckdb.DuckDBPyRelation:
    """The result of a query that reads plans by name, as a lazy relation; its rows keep the order of the query.

    Columns of types that only DuckDB reads are cast, as `harness.engines.duckdb.result_types` says.

    Args:
        text: one query in DuckDB's dialect.
        plans: by the name that the query calls each, or a table that is there already. Filters of plans must be implied
            by the query's own conditions.
        connection: the user's; None: one of harness's own.
        aliased: those of the names that have an alias in the query, so that a subquery can stand in their place. No
            other text may contain them.

    Raises:
        HarnessError: as for `register`.
        UnsupportedError: a column of the result cannot leave DuckDB.
        duckdb.Error: DuckDB refuses the query.
    """
    own = cursor(lossless=False) if connection is None else connection
    put = _filled(text, plans, own, registrar(own) if connection is None else None, aliased)
    try:
        result = own.sql(put)
    except duckdb.Error as error:
        raise _told(error, text, plans, own) from None
    columns = given_out(result.columns, result.types)
    return result if columns is None else result.project(columns)


def filled(
    text: str,
    plans: Mapping[str, ScanPlan | pa.Table],
    connection: duckdb.DuckDBPyConnection,
    *,
    aliased: Collection[str] = (),
) -> str:
    """A statement of any kind, with what DuckDB reads in place of the names of plans; the arguments are `query`'s.

    Raises:
        HarnessError: as for `register`.
    """
    return _filled(text, plans, connection, None, aliased)


def query_text(
    text: str,
    plans: Mapping[str, ScanPlan | pa.Table],
    connection: duckdb.DuckDBPyConnection,
    *,
    aliased: Collection[str] = (),
    parameters: object = None,
) -> str:
    """A query as text for the connection to run, in whose result columns are cast as in that of `query`.

    Args:
        text, plans, connection, aliased: as for `query`.
        parameters: values, as DuckDB's `execute` takes them.

    Raises:
        As `query`.
    """
    put = _filled(text, plans, connection, None, aliased)
    try:
        if parameters is None:
            bound = connection.sql(put)
            columns = given_out(bound.columns, bound.types)
        else:  # a relation with parameters would run
            rows = connection.execute(f"DESCRIBE (FROM ({put}\n))", parameters).fetchall()
            columns = given_out([name for name, *_ in rows], [connection.type(type_) for _, type_, *_ in rows])
    except duckdb.Error as error:
        raise _told(error, text, plans, connection) from None
    return put if columns is None else f"SELECT {columns} FROM ({put}\n)"


def moment(connection: duckdb.DuckDBPyConnection | None) -> Now:
    """When a query on a connection, or None for a new one, is made: at the start of its transaction."""
    if connection is None:
        return Now()
    ((started, zone),) = connection.execute("SELECT epoch_us(now()), current_setting('TimeZone')").fetchall()
    begun = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=started)
    return Now(min(begun, Now().earliest), is_utc=is_utc(zone))


def columns_of(text: str, plans: Mapping[str, ScanPlan]) -> tuple[tuple[str, str], ...]:
    """Name and DuckDB type of the query's columns, before `query` casts any; reads no file.

    Raises:
        HarnessError: a table's columns cannot be named, or cannot leave DuckDB.
        duckdb.Error: DuckDB refuses the query.
    """
    connection = cursor()
    for name, plan in plans.items():
        refuse_same_names(plan.columns, plan.table)
        columns = [f"{sqltext.name(f.name)} {sqltext.type_name(f.type)}" for f in plan.columns] or ['"NULL" INTEGER']
        connection.execute(f"CREATE TEMPORARY TABLE {sqltext.name(name)} ({', '.join(columns)})")
    try:
        result = connection.sql(text)
    except duckdb.BinderException as error:
        raise better_told(error, text, plans, cursor()) from None
    return tuple(zip(result.columns, map(str, result.types), strict=True))


def _told(
    error: duckdb.Error, text: str, plans: Mapping[str, ScanPlan | pa.Table], connection: duckdb.DuckDBPyConnection
) -> Exception:
    """What to say of an error of the binder, which opens a file of each arm."""
    scans = _scans(plans)
    if isinstance(error, duckdb.BinderException):
        return better_told(error, text, scans, connection)
    if isinstance(error, duckdb.IOException | duckdb.InvalidInputException):
        return file_failure(error, scans.values()) or error
    return error


def _scans(plans: Mapping[str, ScanPlan | pa.Table]) -> dict[str, ScanPlan]:
    return {name: plan for name, plan in plans.items() if isinstance(plan, ScanPlan)}


def _filled(
    text: str,
    plans: Mapping[str, ScanPlan | pa.Table],
    connection: duckdb.DuckDBPyConnection,
    register: Callable[[pa.Table], str] | None,
    aliased: Collection[str],
) -> str:
    registrations = Registrations(connection)
    for name, plan in plans.items():
        put = register or registrations.table
        if isinstance(plan, pa.Table):
            text = text.replace(sqltext.name(name), sqltext.name(put(plan)))
            continue
        rows = lowered(plan, connection, put, Use.ONCE)
        with about(plan):
            place = f"({rows})" if name in aliased else sqltext.name(registrations.view(rows))
        text = text.replace(sqltext.name(name), place)
    return text
