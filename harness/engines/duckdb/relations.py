"""Lazy relations of plans on a DuckDB connection, with the Arrow tables and views that their queries need.

A relation looks up its tables and views by name each time it runs, and so does every relation that a user derives from
it without harness noticing. So these objects are removed only by `release`. On a user's connection their names are
derived from their content, so that reading the same plan again creates nothing new.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import itertools
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import duckdb
import pyarrow as pa

from harness.engines.column_values import conform
from harness.engines.duckdb.failures import engine_error, file_failure
from harness.engines.duckdb.instance import IS_DUCKDB_1, cursor, ends_instance
from harness.engines.duckdb.lowering import QueryUse, lower, with_labels, with_numbered_columns
from harness.engines.union_arms import refuse_same_names
from harness.errors import HarnessError, RequestError, UnsupportedError
from harness.metadata.filters import sqltext
from harness.metadata.filters.predicate import Filter, depends_on_zone, in_any_zone
from harness.metadata.model.schema import StringType, TimestampType, arrow_field, walk
from harness.metadata.planned_scan import PlannedScan

_counter = itertools.count()
_PREFIX = f"harness_{secrets.token_hex(8)}_"
"""A random prefix for this process, which does not occur in a user's texts by chance."""


def registrar(connection: duckdb.DuckDBPyConnection) -> Callable[[pa.Table], str]:
    """Return a function that registers Arrow tables on an internal connection and returns their names."""

    def add(table: pa.Table) -> str:
        name = f"{_PREFIX}{next(_counter)}"
        connection.register(name, table)
        return name

    return add


class Registrations:
    """The tables and views that harness has created on a user's connection. One instance serves one read."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._there: set[str] | None = None

    def table(self, table: pa.Table) -> str:
        """Return the name of an Arrow table with this content. Register the table if necessary."""
        name = f"{_PREFIX}t{_digest(table)}"
        if self._is_new(name):
            self._connection.register(name, table)
        return name

    def view(self, query: str) -> str:
        """Return the name of a temporary view of a query. Create the view if necessary."""
        name = f"{_PREFIX}v{hashlib.blake2b(query.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"
        if self._is_new(name):
            self._connection.execute(f"CREATE OR REPLACE TEMPORARY VIEW {sqltext.name(name)} AS {query}")
        return name

    def _is_new(self, name: str) -> bool:
        """Record a name and return whether it is new.

        Each read lists the existing names again, because a user may drop an object or roll back.
        """
        if self._there is None:
            self._there = set(_views(self._connection))
        if name in self._there:
            return False
        self._there.add(name)
        return True


def release(connection: duckdb.DuckDBPyConnection) -> None:
    """Remove the objects that harness created on a connection, except those that the user's own views need."""
    texts = [
        text
        for name, text in connection.execute("SELECT view_name, sql FROM duckdb_views() WHERE NOT internal").fetchall()
        if not name.startswith(_PREFIX)
    ]
    for name in _views(connection):
        if not any(name in text for text in texts):
            connection.unregister(name)
            connection.execute(f"DROP VIEW IF EXISTS {sqltext.name(name)}")
    if connection.list_filesystems():
        from harness.engines.duckdb.store_files import forget  # imports fsspec, which local files do not need

        forget(connection, unless=lambda literal: any(literal in text for text in texts))


def _views(connection: duckdb.DuckDBPyConnection) -> list[str]:
    views = connection.execute(
        f"SELECT view_name FROM duckdb_views() WHERE temporary AND starts_with(view_name, '{_PREFIX}')"
    )
    return [name for (name,) in views.fetchall()]


def _digest(table: pa.Table) -> str:
    digest = hashlib.blake2b(digest_size=16)
    with pa.ipc.new_stream(_DigestSink(digest), table.schema) as writer:
        writer.write_table(table)
    return digest.hexdigest()


class _DigestSink:
    """A file-like object that only computes a digest of the bytes written to it."""

    closed = False

    def __init__(self, digest: hashlib.blake2b) -> None:
        self._digest = digest

    def write(self, data: Any) -> None:
        self._digest.update(data)

    def flush(self) -> None:
        """Do nothing: no bytes are buffered."""

    def close(self) -> None:
        """Do nothing: no resource is open."""


def relation(
    plan: PlannedScan, connection: duckdb.DuckDBPyConnection | None = None, *, name: str | None = None
) -> duckdb.DuckDBPyRelation:
    """Return the plan's rows as a lazy relation.

    Args:
        plan: The plan.
        connection: The user's connection. None for an internal one.
        name: If given, the rows also become a temporary view with this name.

    Raises:
        HarnessError: The errors of `harness.engines.duckdb.lowering.lower`.
    """
    target = cursor(lossless=False) if connection is None else connection
    with naming_table(plan):
        if name is None:
            add = registrar(target) if connection is None else Registrations(target).table
            return target.sql(lowered(plan, target, add, QueryUse.VIEW))
        register(plan, target, name)
        return target.sql(f"SELECT * FROM {sqltext.name(name)}")


def register(
    plan: PlannedScan, connection: duckdb.DuckDBPyConnection, name: str, *, use: QueryUse = QueryUse.VIEW
) -> None:
    """Create or replace a temporary view of the plan's rows on a connection. Raises the errors of `relation`."""
    with naming_table(plan):
        query = lowered(plan, connection, Registrations(connection).table, use)
        connection.execute(f"CREATE OR REPLACE TEMPORARY VIEW {sqltext.name(name)} AS {query}")


def to_arrow(plan: PlannedScan) -> pa.Table:
    """Return all rows of a plan as an Arrow table.

    Raises the errors of `relation`, or those that `engine_error` returns.
    """
    connection = cursor()
    with naming_table(plan):
        query = limited(
            with_numbered_columns(lower(plan, connection, registrar(connection), QueryUse.ONCE), plan), plan
        )
        # `pa.table` would check for a pandas frame and import pandas: 0.2 s of the first read
        rows = pa.RecordBatchReader.from_stream(connection.sql(query)).read_all()
        return conform(rows, pa.schema([arrow_field(f) for f in plan.columns]))


def limited(query: str, plan: PlannedScan) -> str:
    """Add the plan's limit to its query, if the plan has one."""
    return query if plan.enough is None else f"{query} LIMIT {plan.enough}"


def lowered(
    plan: PlannedScan, connection: duckdb.DuckDBPyConnection, register: Callable[[pa.Table], str], use: QueryUse
) -> str:
    """Return the plan's query with the filter and the user's column names applied.

    Raises:
        HarnessError: The errors of `lower`, or column names that differ only in case, or a setting of the connection
            that would change the values or the meaning of the filter.
    """
    with naming_table(plan):
        refuse_same_names(plan.columns, plan.table)
        _check_calendar(plan, connection)
        if plan.filter is not None:
            _check_settings(plan.filter, plan.table, connection)
        return with_labels(lower(plan, connection, register, use), plan, [sqltext.name(f.name) for f in plan.columns])


@contextmanager
def naming_table(plan: PlannedScan) -> Iterator[None]:
    """Translate errors that occur while rows are read, and add the table and the snapshot to them."""
    try:
        yield
    except HarnessError as error:
        error.within(table=plan.table, snapshot=plan.snapshot, format=plan.format)
        raise
    except (duckdb.Error, pa.ArrowException, OSError, OverflowError, UnicodeError) as error:
        raise engine_error(error, plan).within(format=plan.format) from error


def filter_for_connection(filter_: Filter, connection: duckdb.DuckDBPyConnection | None) -> Filter:
    """Return the filter for planning a read on a connection, considering its time zone (iceberg 11.10).

    A connection whose time zone is not UTC reads timestamps in the filter's text in its own zone. Then the result only
    skips files that cannot match in any zone.

    Args:
        filter_: The filter.
        connection: The user's connection. None for an internal one, which is in UTC.
    """
    if connection is None or filter_.any_zone or not depends_on_zone(filter_):
        return filter_
    ((zone,),) = connection.execute("SELECT current_setting('TimeZone')").fetchall()
    return filter_ if zone in ("UTC", "Etc/UTC", "GMT", "Etc/GMT") else in_any_zone(filter_)


def _check_calendar(plan: PlannedScan, connection: duckdb.DuckDBPyConnection) -> None:
    """Raise RequestError if the plan has instants and the connection uses a calendar other than the Gregorian."""
    fields = (*plan.columns, *plan.schema.fields, *(plan.filter.columns if plan.filter is not None else ()))
    if not any(isinstance(f.type, TimestampType) and f.type.utc for _, f in walk(fields)):
        return
    calendar = connection.execute("SELECT value FROM duckdb_settings() WHERE name = 'Calendar'").fetchall()
    if calendar and calendar[0][0] not in (
        "",
        "gregorian",
    ):  # no setting before the extension icu is loaded
        raise RequestError(
            f"Cannot read instants on a connection with the calendar {calendar[0][0]!r}: "
            "run RESET Calendar on it first",
            table=plan.table,
        )


def _check_settings(filter_: Filter, table: str, connection: duckdb.DuckDBPyConnection) -> None:
    """Raise RequestError if the connection reads the filter differently than planning did.

    A plan for another reading of the filter may lack files that the filter needs (iceberg 3.3).
    """
    if filter_for_connection(filter_, connection) is not filter_:
        raise RequestError(
            "Cannot apply a filter that was planned for UTC on a connection with another time zone: plan the filter "
            "for the connection",
            table=table,
        )
    if not any(isinstance(f.type, StringType) for _, f in walk(filter_.columns)):
        return
    ((collation,),) = connection.execute("SELECT current_setting('default_collation')").fetchall()
    if collation.upper() not in ("", "C", "POSIX", "BINARY"):
        raise RequestError(
            f"Cannot filter text on a connection with default collation {collation!r}: "
            "run RESET default_collation on it first",
            table=table,
        )


# Errors about unknown columns: a plan's view has only the columns that the query uses. DuckDB would suggest from these
# alone, and nothing if the query uses a single, misspelled column.


def with_suggestions(
    error: duckdb.BinderException,
    text: str,
    plans: Mapping[str, PlannedScan],
    connection: duckdb.DuckDBPyConnection,
    parameters: object,
) -> duckdb.Error:
    """Return DuckDB's error for a query after replacing the plans' views by empty tables with all columns.

    DuckDB's suggestions for a misspelled column are then complete.
    """
    created_tables = []
    try:
        for name, plan in plans.items():
            table = sqltext.name(name)
            connection.unregister(name)
            connection.execute(f"DROP VIEW IF EXISTS {table}")
            fields = {f.name.casefold(): f for f in (*plan.columns, *plan.schema.fields)}.values()
            columns = ", ".join(f"{sqltext.name(f.name)} {sqltext.type_name(f.type)}" for f in fields)
            connection.execute(f"CREATE TEMPORARY TABLE {table} ({columns})")
            created_tables.append(table)
        _describe(text, connection, parameters)
    except duckdb.BinderException as better:
        return better
    except (duckdb.Error, HarnessError):  # DuckDB cannot create a table with this name or type
        return error
    finally:
        for table in created_tables:
            with contextlib.suppress(duckdb.Error):
                connection.execute(f"DROP TABLE {table}")
    return error


# Types of result columns
#
# For some DuckDB types, neither Arrow nor Parquet has an equivalent: Arrow output would carry them as bytes that only
# DuckDB reads, round them, or drop a part. They are cast in the SQL, at every level of a nested type:
#
#     HUGEINT                              unchanged; Arrow has DECIMAL(38,0), and a longer value is an error
#     UHUGEINT                             DECIMAL(38,0), because pandas has no type for it; a longer value is an error
#     BIT, BIGNUM, TIME WITH TIME ZONE     text
#     TYPE                                 its name
#     VARIANT                              JSON text, like variant columns of tables
#     a struct without names (DuckDB 1)    fields called element1, element2, ..., like tuples in DuckDB 2
#     "NULL" (DuckDB 2)                    INTEGER, like DuckDB 1 and Spark; Arrow has no maps with such keys
#
# All other types stay unchanged. `docs/reference/result-types.md` lists each type in every output.


_WHOLE = "DECIMAL(38,0)"
_LEAVES = {
    "uhugeint": _WHOLE,
    "bit": "VARCHAR",
    "bignum": "VARCHAR",
    "time with time zone": "VARCHAR",
    "type": "VARCHAR",
    "variant": "JSON",
    "null": "INTEGER",
}


def output_list(
    names: Sequence[str], types: Iterable[Any], output_names: Sequence[str] | None = None, *, as_arrow: bool = False
) -> str | None:
    """Return the SELECT list that casts a result's columns for output. None if no column changes.

    Args:
        names: The names of the columns.
        types: The types of the columns in the relation.
        output_names: The output names. None to keep the names.
        as_arrow: If True, HUGEINT becomes DECIMAL(38,0), because files have no type of that size.

    Raises:
        UnsupportedError: No type can hold a column's values. The message names the column and an alternative.
    """
    output_names = names if output_names is None else output_names
    columns = list(zip(output_names, types, strict=True))
    casts = [_output_expression(f"#{place}", *column, as_arrow=as_arrow) for place, column in enumerate(columns, 1)]
    if all(text == f"#{place}" for place, text in enumerate(casts, 1)) and list(output_names) == list(names):
        return None
    return ", ".join(f"{text} AS {sqltext.name(name)}" for text, name in zip(casts, output_names, strict=True))


def _output_expression(text: str, name: str, stored: Any, *, as_arrow: bool) -> str:
    """Return the expression of a column for output.

    NULL stays NULL: DuckDB 1 would cast a VARIANT's NULL to a JSON null.
    """
    whole, to = _target(stored, name, _WHOLE), _target(stored, name, _WHOLE if as_arrow else None)
    if whole is None:
        return text
    value = f"CAST({text} AS {whole})"
    if _is_long(stored):
        problem = (
            f"Cannot return column {name!r}: an integer in it has more than 38 digits, which DECIMAL(38,0) does not "
            "hold; cast it in the query, with CAST(... AS VARCHAR) for all of its digits"
        )
        # These casts fail only for numbers with too many digits, and TRY returns NULL then. Nested values are wrapped
        # in a list, because DuckDB 1 has no COALESCE for arrays.
        nested = bool(_parts(stored))
        checked = f"coalesce(TRY({f'[{value}]' if nested else value}), error({sqltext.text(problem)}))"
        value = f"list_extract({checked}, 1)" if nested else checked
        value = value if whole == to else f"CAST({value} AS {to or stored})"
    return f"CASE WHEN {text} IS NOT NULL THEN {value} END"


def _target(stored: Any, column: str, huge: str | None, *, nested: bool = False) -> str | None:
    """Return the SQL type to cast a column to, with `huge` in place of HUGEINT. None if the column stays unchanged."""
    if str(stored).startswith("AGGREGATE_STATE"):
        # DuckDB 2.0 reports the state's storage type, and ends the process when Arrow requests the column.
        raise _unsupported_output(column, "the state of an aggregate", "with finalize(...)")
    if nested and IS_DUCKDB_1 and stored.id == "variant":
        raise _unsupported_output(
            column, "a VARIANT in a nested type, whose NULL DuckDB 1 casts to a JSON null", "to VARCHAR"
        )
    if stored.id == "hugeint":
        return huge
    if stored.id in _LEAVES:
        return _LEAVES[stored.id]
    parts = _parts(stored)
    casts = [_target(part, column, huge, nested=True) for _, part in parts]
    is_bare = stored.id == "struct" and any(name == "" for name, _ in parts)
    if not is_bare and all(cast is None for cast in casts):
        return None
    inner = [str(part) if cast is None else cast for (_, part), cast in zip(parts, casts, strict=True)]
    if is_bare:
        return _struct("STRUCT", [f"element{place}" for place in range(1, len(parts) + 1)], inner)
    match stored.id:
        case "list":
            return f"{inner[0]}[]"
        case "array":
            return f"{inner[0]}[{dict(stored.children)['size']}]"
        case "map" | "tuple":
            return f"{stored.id}({', '.join(inner)})"
        case kind:
            return _struct(kind, [name for name, _ in parts], inner)


def _struct(kind: str, names: list[str], types: list[str]) -> str:
    return f"{kind}({', '.join(f'{sqltext.name(n)} {t}' for n, t in zip(names, types, strict=True))})"


def _parts(stored: Any) -> list[tuple[str, Any]]:
    """Return the types inside a nested type, with their names if they have any."""
    match stored.id:
        case "list" | "array":
            return [stored.children[0]]
        case "map" | "struct" | "tuple":
            return list(stored.children)
        case "union":
            return list(stored.children[1:])  # the first child is the tag
        case _:
            return []


def _is_long(stored: Any) -> bool:
    """Return whether the type contains integers that may not fit in DECIMAL(38,0)."""
    return stored.id in ("hugeint", "uhugeint") or any(_is_long(part) for _, part in _parts(stored))


def _unsupported_output(column: str, what: str, instead: str) -> UnsupportedError:
    return UnsupportedError(
        f"Cannot return column {column!r}: it holds {what}; convert it in the query, {instead}", field=column
    )


_NONE: Mapping[str, str] = MappingProxyType({})


def query(
    text: str,
    plans: Mapping[str, PlannedScan | pa.Table],
    connection: duckdb.DuckDBPyConnection | None = None,
    *,
    aliased: Collection[str] = (),
    originals: Mapping[str, str] = _NONE,
    parameters: object = None,
) -> duckdb.DuckDBPyRelation:
    """Return the result of a query in DuckDB's dialect that refers to plans by name.

    The result is a lazy relation whose rows have the query's order.

    Args:
        text: The query.
        plans: The plans by the names that the query uses. A value may also be an Arrow table. The query's own
            conditions must imply the filters of the plans.
        connection: The user's connection. None for an internal one.
        aliased: The names that have an alias in the query, so that a subquery can replace them. No other part of the
            query may contain these names.
        originals: The user's own text by the text that replaced it in the query. Each replacement contains the name of
            a plan. DuckDB derives column names from the query text; in these names, the user's text is restored.
        parameters: The values of parameters, in the form that DuckDB's `execute` accepts.

    Raises:
        HarnessError: The errors of `register`.
        UnsupportedError: A result column has a type that cannot be converted for output.
        duckdb.Error: DuckDB refuses the query.
    """
    target = cursor(lossless=False) if connection is None else connection
    places = _sources_by_name(plans, target, registrar(target) if connection is None else None, aliased)
    try:
        result = target.sql(_replace_names(text, places), params=parameters)
    except duckdb.Error as error:
        raise _query_error(error, text, plans, target, parameters) from None
    columns = output_list(result.columns, result.types, _original_names(result.columns, originals, places))
    return result if columns is None else result.project(columns)


def with_sources(
    text: str,
    plans: Mapping[str, PlannedScan | pa.Table],
    connection: duckdb.DuckDBPyConnection,
    *,
    aliased: Collection[str] = (),
) -> str:
    """Replace the names of plans in a statement of any kind by FROM items. See `query` for the arguments."""
    return _replace_names(text, _sources_by_name(plans, connection, None, aliased))


def query_text(
    text: str,
    plans: Mapping[str, PlannedScan | pa.Table],
    connection: duckdb.DuckDBPyConnection,
    *,
    aliased: Collection[str] = (),
    originals: Mapping[str, str] = _NONE,
    parameters: object = None,
) -> str:
    """Return the text of a query for the connection to run. Its result has the casts and column names of `query`.

    See `query` for the arguments.
    """
    places = _sources_by_name(plans, connection, None, aliased)
    resolved = _replace_names(text, places)
    try:
        names, types = _describe(resolved, connection, parameters)
    except duckdb.Error as error:
        raise _query_error(error, text, plans, connection, parameters) from None
    columns = output_list(names, types, _original_names(names, originals, places))
    return resolved if columns is None else f"SELECT {columns} FROM ({resolved}\n)"


def _describe(text: str, connection: duckdb.DuckDBPyConnection, parameters: object) -> tuple[list[str], list[Any]]:
    """Return the names and types of a query's columns."""
    if parameters is None:
        bound = connection.sql(text)
        return bound.columns, bound.types
    # DuckDB 1 runs a relation with parameters immediately.
    rows = connection.execute(f"DESCRIBE (FROM ({text}\n))", parameters).fetchall()
    return [name for name, *_ in rows], [connection.type(type_) for _, type_, *_ in rows]


def transaction_start(connection: duckdb.DuckDBPyConnection | None) -> datetime.datetime:
    """Return the start time of a connection's transaction, in UTC without a zone. For None, return the current time."""
    present = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    if connection is None:
        return present
    ((started,),) = connection.execute("SELECT epoch_us(now())").fetchall()
    start = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=started)
    return min(start, present)


def query_columns(
    text: str, plans: Mapping[str, PlannedScan], originals: Mapping[str, str] = _NONE, *, parameters: object = None
) -> tuple[tuple[str, str], ...]:
    """Return the name and DuckDB type of each column of a query, before output casts. No file is read.

    See `query` for the arguments and errors.
    """
    connection = cursor()
    for name, plan in plans.items():
        refuse_same_names(plan.columns, plan.table)
        columns = [f"{sqltext.name(f.name)} {sqltext.type_name(f.type)}" for f in plan.columns] or ['"NULL" INTEGER']
        connection.execute(f"CREATE TEMPORARY TABLE {sqltext.name(name)} ({', '.join(columns)})")
    try:
        names, types = _describe(text, connection, parameters)
    except duckdb.BinderException as error:
        raise with_suggestions(error, text, plans, cursor(), parameters) from None
    return tuple(zip(_original_names(names, originals, {}), map(str, types), strict=True))


def user_tables(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the names of the tables and views that the user created on a connection."""
    rows = connection.execute(
        "SELECT table_name FROM duckdb_tables() WHERE NOT internal "
        "UNION SELECT view_name FROM duckdb_views() WHERE NOT internal"
    )
    return [name for (name,) in rows.fetchall() if not name.startswith(_PREFIX)]


def parse_error(text: str) -> RequestError | None:
    """Return an error with DuckDB's message if DuckDB cannot parse a text. None if DuckDB can parse it."""
    try:
        cursor().extract_statements(text)
    except duckdb.ParserException as error:
        message, line, excerpt = str(error).partition("LINE ")
        return RequestError(f"Cannot parse the query: {message}", excerpt=(line + excerpt).rstrip())
    return None


def syntax_trees(*texts: str, connection: duckdb.DuckDBPyConnection | None = None) -> tuple[str, ...]:
    """Return DuckDB's syntax trees of queries as JSON. For a query that has no tree, the JSON holds the reason.

    Args:
        texts: The queries.
        connection: The user's connection. None for an internal one.
    """
    options = "skip_default := true, skip_empty := true, skip_null := true"
    trees = ", ".join(f"json_serialize_sql(${place}, {options})" for place in range(1, len(texts) + 1))
    target = cursor(lossless=False) if connection is None else connection.cursor()
    (result,) = target.execute(f"SELECT {trees}", list(texts)).fetchall()
    return tuple(result)


def _query_error(
    error: duckdb.Error,
    text: str,
    plans: Mapping[str, PlannedScan | pa.Table],
    connection: duckdb.DuckDBPyConnection,
    parameters: object,
) -> Exception:
    """Return the error to raise for a query that DuckDB refused.

    Binding a query opens one file per arm, so a file may be at fault.
    """
    scans = {name: plan for name, plan in plans.items() if isinstance(plan, PlannedScan)}
    if isinstance(error, duckdb.BinderException):
        return with_suggestions(error, text, scans, connection, parameters)
    if ends_instance(error) or isinstance(error, duckdb.IOException | duckdb.InvalidInputException):
        return file_failure(error, scans.values()) or error
    return error


def _sources_by_name(
    plans: Mapping[str, PlannedScan | pa.Table],
    connection: duckdb.DuckDBPyConnection,
    register: Callable[[pa.Table], str] | None,
    aliased: Collection[str],
) -> dict[str, str]:
    """Return the FROM item that replaces each plan, by the plan's quoted name in the query."""
    registrations = Registrations(connection)
    register_table = register or registrations.table
    places = {}
    for name, plan in plans.items():
        if isinstance(plan, pa.Table):
            place = sqltext.name(register_table(plan))
        else:
            rows = lowered(plan, connection, register_table, QueryUse.ONCE)
            with naming_table(plan):
                place = f"({rows})" if name in aliased else sqltext.name(registrations.view(rows))
        places[sqltext.name(name)] = place
    return places


def _replace_names(text: str, places: Mapping[str, str]) -> str:
    for name, place in places.items():
        text = text.replace(name, place)
    return text


def _original_names(names: Sequence[str], originals: Mapping[str, str], places: Mapping[str, str]) -> list[str]:
    """Return column names with the user's own text in place of the text that harness inserted.

    DuckDB names a column without an alias after its query text, for example `(SELECT max(i) FROM t)`.
    """
    if not any("(SELECT " in name for name in names):
        return list(names)
    printed = {
        _printed_source(_replace_names(put, places)): _printed_source(original) for put, original in originals.items()
    }
    # one text may be part of another
    longest_first = {text: printed[text] for text in sorted(printed, key=len, reverse=True)}
    return [_replace_names(name, longest_first) for name in names]


def _printed_source(relation: str) -> str:
    """Return a FROM item as DuckDB prints it in column names."""
    start = "SELECT 1 FROM "
    row = cursor().execute("SELECT json_deserialize_sql(json_serialize_sql($1))", [start + relation]).fetchone()
    assert row is not None, "a row for a value"
    return str(row[0]).removeprefix(start)
