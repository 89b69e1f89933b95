"""Queries over several plans, each of them a view."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

import duckdb
import pyarrow as pa

from harness.engines.duckdb.engine import about, lowered
from harness.engines.duckdb.failures import file_failure
from harness.engines.duckdb.lowering import Use
from harness.engines.duckdb.registrations import Registrations, registrar
from harness.engines.duckdb.result_types import given_out
from harness.engines.duckdb.unbound import better_told
from harness.engines.shared import sqltext
from harness.engines.shared.duckdb_instance import cursor, is_given_up
from harness.engines.shared.names import refuse_same_names
from harness.plan.scan_plan import ScanPlan
from harness.queries.present import Now

_NONE: Mapping[str, str] = MappingProxyType({})


def query(
    text: str,
    plans: Mapping[str, ScanPlan | pa.Table],
    connection: duckdb.DuckDBPyConnection | None = None,
    *,
    aliased: Collection[str] = (),
    originals: Mapping[str, str] = _NONE,
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
        originals: of texts in the query, each around a name of a plan, what the user has written in their place.
            Columns that DuckDB names for what they are made of are called what they are there.

    Raises:
        HarnessError: as for `register`.
        UnsupportedError: a column of the result cannot leave DuckDB.
        duckdb.Error: DuckDB refuses the query.
    """
    own = cursor(lossless=False) if connection is None else connection
    places = _places(plans, own, registrar(own) if connection is None else None, aliased)
    try:
        result = own.sql(_put(text, places))
    except duckdb.Error as error:
        raise _told(error, text, plans, own) from None
    columns = given_out(result.columns, result.types, _named(result.columns, originals, places))
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
    return _put(text, _places(plans, connection, None, aliased))


def query_text(
    text: str,
    plans: Mapping[str, ScanPlan | pa.Table],
    connection: duckdb.DuckDBPyConnection,
    *,
    aliased: Collection[str] = (),
    originals: Mapping[str, str] = _NONE,
    parameters: object = None,
) -> str:
    """A query as text for the connection to run, in whose result columns are cast and named as in that of `query`.

    Args:
        text, plans, connection, aliased, originals: as for `query`.
        parameters: values, as DuckDB's `execute` takes them.

    Raises:
        As `query`.
    """
    places = _places(plans, connection, None, aliased)
    put = _put(text, places)
    try:
        if parameters is None:
            bound = connection.sql(put)
            names, types = bound.columns, bound.types
        else:  # a relation with parameters would run
            rows = connection.execute(f"DESCRIBE (FROM ({put}\n))", parameters).fetchall()
            names, types = [name for name, *_ in rows], [connection.type(type_) for _, type_, *_ in rows]
    except duckdb.Error as error:
        raise _told(error, text, plans, connection) from None
    columns = given_out(names, types, _named(names, originals, places))
    return put if columns is None else f"SELECT {columns} FROM ({put}\n)"


def moment(connection: duckdb.DuckDBPyConnection | None) -> Now:
    """When a query on a connection, or None for a new one, is made: at the start of its transaction."""
    if connection is None:
        return Now()
    ((started,),) = connection.execute("SELECT epoch_us(now())").fetchall()
    begun = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=started)
    return Now(min(begun, Now().earliest))


def columns_of(
    text: str, plans: Mapping[str, ScanPlan], originals: Mapping[str, str] = _NONE
) -> tuple[tuple[str, str], ...]:
    """Name and DuckDB type of the query's columns, before `query` casts any; reads no file.

    Args:
        text, plans, originals: as for `query`.

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
    return tuple(zip(_named(result.columns, originals, {}), map(str, result.types), strict=True))


def syntax_trees(*texts: str) -> tuple[str, ...]:
    """The trees of DuckDB's parser for queries, as JSON; of what it cannot parse, or cannot show, why it cannot."""
    options = "skip_default := true, skip_empty := true, skip_null := true"
    trees = ", ".join(f"json_serialize_sql(${place}, {options})" for place in range(1, len(texts) + 1))
    (found,) = cursor().execute(f"SELECT {trees}", list(texts)).fetchall()
    return tuple(found)


def _told(
    error: duckdb.Error, text: str, plans: Mapping[str, ScanPlan | pa.Table], connection: duckdb.DuckDBPyConnection
) -> Exception:
    """What to say of an error of the binder, which opens a file of each arm."""
    scans = _scans(plans)
    if isinstance(error, duckdb.BinderException):
        return better_told(error, text, scans, connection)
    if is_given_up(error) or isinstance(error, duckdb.IOException | duckdb.InvalidInputException):
        return file_failure(error, scans.values()) or error
    return error


def _scans(plans: Mapping[str, ScanPlan | pa.Table]) -> dict[str, ScanPlan]:
    return {name: plan for name, plan in plans.items() if isinstance(plan, ScanPlan)}


def _places(
    plans: Mapping[str, ScanPlan | pa.Table],
    connection: duckdb.DuckDBPyConnection,
    register: Callable[[pa.Table], str] | None,
    aliased: Collection[str],
) -> dict[str, str]:
    """The scan that DuckDB reads in place of each name of a plan, by the name as it stands in the query."""
    registrations = Registrations(connection)
    put = register or registrations.table
    places = {}
    for name, plan in plans.items():
        if isinstance(plan, pa.Table):
            place = sqltext.name(put(plan))
        else:
            rows = lowered(plan, connection, put, Use.ONCE)
            with about(plan):
                place = f"({rows})" if name in aliased else sqltext.name(registrations.view(rows))
        places[sqltext.name(name)] = place
    return places


def _put(text: str, places: Mapping[str, str]) -> str:
    for name, place in places.items():
        text = text.replace(name, place)
    return text


def _named(names: Sequence[str], originals: Mapping[str, str], places: Mapping[str, str]) -> list[str]:
    """The names of columns with what the user has written; DuckDB calls `(SELECT max(i) FROM t)` for what it reads."""
    if not any("(SELECT " in name for name in names):
        return list(names)
    shown = {_shown(_put(put, places)): _shown(original) for put, original in originals.items()}
    longest_first = {text: shown[text] for text in sorted(shown, key=len, reverse=True)}  # one may be within another
    return [_put(name, longest_first) for name in names]


def _shown(relation: str) -> str:
    """The source in FROM, as DuckDB writes it in the names of columns."""
    start = "SELECT 1 FROM "
    found = cursor().execute("SELECT json_deserialize_sql(json_serialize_sql($1))", [start + relation]).fetchone()
    assert found is not None, "a row for a value"
    return str(found[0]).removeprefix(start)
