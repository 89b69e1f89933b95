"""Relations of plans on a DuckDB connection, with the Arrow tables and views that their queries need there.

Relations are lazy: they look such things up by name each time that they run, and so do relations that a user derives
from them, which nobody can know of. So nothing is ever taken away but by `release`. What is on a user's connection has
a name that follows from its content, so that the same plan, read again, finds it there and leaves nothing new.
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
"""The prefix of this process: no text of a user holds it by chance."""


def registrar(connection: duckdb.DuckDBPyConnection) -> Callable[[pa.Table], str]:
    """A function that registers Arrow tables on a connection of harness's own, and returns the name of each."""

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
    if connection.list_filesystems():
        from harness.engines.duckdb.store_files import forget  # fsspec, which local files need not

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
    plan: PlannedScan, connection: duckdb.DuckDBPyConnection | None = None, *, name: str | None = None
) -> duckdb.DuckDBPyRelation:
    """The plan's rows as a lazy relation; raises as `harness.engines.duckdb.lowering.lower` says.

    connection: the user's; None: one of harness's own. name: also make the rows a temporary view of this name.
    """
    own = cursor(lossless=False) if connection is None else connection
    with naming_table(plan):
        if name is None:
            add = registrar(own) if connection is None else Registrations(own).table
            return own.sql(lowered(plan, own, add, QueryUse.VIEW))
        register(plan, own, name)
        return own.sql(f"SELECT * FROM {sqltext.name(name)}")


def register(
    plan: PlannedScan, connection: duckdb.DuckDBPyConnection, name: str, *, use: QueryUse = QueryUse.VIEW
) -> None:
    """Makes the plan's rows the temporary view `name` of a connection, replacing one; raises as `relation`."""
    with naming_table(plan):
        query = lowered(plan, connection, Registrations(connection).table, use)
        connection.execute(f"CREATE OR REPLACE TEMPORARY VIEW {sqltext.name(name)} AS {query}")


def to_arrow(plan: PlannedScan) -> pa.Table:
    """All rows of a plan, as `harness.engines.registry.Engine` says; raises as `relation`, or `engine_error`."""
    connection = cursor()
    with naming_table(plan):
        query = limited(
            with_numbered_columns(lower(plan, connection, registrar(connection), QueryUse.ONCE), plan), plan
        )
        # `pa.table` asks whether it is a frame of pandas, which imports pandas: 0.2 s of the first read
        rows = pa.RecordBatchReader.from_stream(connection.sql(query)).read_all()
        return conform(rows, pa.schema([arrow_field(f) for f in plan.columns]))


def limited(query: str, plan: PlannedScan) -> str:
    """The query of a plan that ends once there are enough rows."""
    return query if plan.enough is None else f"{query} LIMIT {plan.enough}"


def lowered(
    plan: PlannedScan, connection: duckdb.DuckDBPyConnection, register: Callable[[pa.Table], str], use: QueryUse
) -> str:
    """The query of a plan, its columns under their own names; `register` and what is raised are `lower`'s."""
    with naming_table(plan):
        refuse_same_names(plan.columns, plan.table)
        _check_calendar(plan, connection)
        if plan.filter is not None:
            _check_settings(plan.filter, plan.table, connection)
        return with_labels(lower(plan, connection, register, use), plan, [sqltext.name(f.name) for f in plan.columns])


@contextmanager
def naming_table(plan: PlannedScan) -> Iterator[None]:
    """Errors on the way to the rows are harness's, and name the table and the snapshot."""
    try:
        yield
    except HarnessError as error:
        error.within(table=plan.table, snapshot=plan.snapshot, format=plan.format)
        raise
    except (duckdb.Error, pa.ArrowException, OSError, OverflowError, UnicodeError) as error:
        raise engine_error(error, plan).within(format=plan.format) from error


def filter_for_connection(filter_: Filter, connection: duckdb.DuckDBPyConnection | None) -> Filter:
    """The filter for planning a read on a connection, which reads its text in the session's time zone (iceberg 11.10).

    connection: the user's; None: one of harness's own, in UTC.
    """
    if connection is None or filter_.any_zone or not depends_on_zone(filter_):
        return filter_
    ((zone,),) = connection.execute("SELECT current_setting('TimeZone')").fetchall()
    return filter_ if zone in ("UTC", "Etc/UTC", "GMT", "Etc/GMT") else in_any_zone(filter_)


def _check_calendar(plan: PlannedScan, connection: duckdb.DuckDBPyConnection) -> None:
    """Refuse a connection that reads the instants in the plan's SQL in another calendar than the Gregorian."""
    fields = (*plan.columns, *plan.schema.fields, *(plan.filter.columns if plan.filter is not None else ()))
    if not any(isinstance(f.type, TimestampType) and f.type.utc for _, f in walk(fields)):
        return
    found = connection.execute("SELECT value FROM duckdb_settings() WHERE name = 'Calendar'").fetchall()
    if found and found[0][0] not in ("", "gregorian"):  # there is none before the extension icu is loaded
        raise RequestError(
            f"Cannot read instants on a connection with the calendar {found[0][0]!r}: run RESET Calendar on it first",
            table=plan.table,
        )


def _check_settings(filter_: Filter, table: str, connection: duckdb.DuckDBPyConnection) -> None:
    """Refuses a connection that reads a filter in another way than its plan, which may lack files (iceberg 3.3)."""
    if filter_for_connection(filter_, connection) is not filter_:
        raise RequestError(
            "Cannot filter instants on a connection whose time zone is not UTC, by a plan that was made for UTC: plan "
            "the filter for the connection",
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


# DuckDB's words on a column that is not there. A view of a plan has only the columns that the query uses: among those
# DuckDB would suggest, and none for a misspelt column that is the only one.


def with_suggestions(
    error: duckdb.BinderException,
    text: str,
    plans: Mapping[str, PlannedScan],
    connection: duckdb.DuckDBPyConnection,
    parameters: object,
) -> duckdb.Error:
    """The error that the query gives where its tables have all their columns, which replace the plans' views."""
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
    except (duckdb.Error, HarnessError):  # a name or type that DuckDB's tables cannot have
        return error
    finally:
        for table in created_tables:
            with contextlib.suppress(duckdb.Error):
                connection.execute(f"DROP TABLE {table}")
    return error


# The types in which a query's columns leave DuckDB.
#
# DuckDB has types for which neither Arrow nor Parquet has an equal: its Arrow output carries them as bytes that only
# DuckDB reads, rounds them or drops a part. They are cast in the SQL, at every level of a nested type:
#
#     HUGEINT                              itself, which Arrow has as DECIMAL(38,0); a longer value is an error
#     UHUGEINT                             DECIMAL(38,0), for pandas has no type for it; a longer value is an error
#     BIT, BIGNUM, TIME WITH TIME ZONE     their text
#     TYPE                                 its name
#     VARIANT                              JSON text, as variant columns of tables have it
#     a struct without names (DuckDB 1)    fields called element1, element2, ..., as tuples leave DuckDB 2
#     "NULL" (DuckDB 2)                    INTEGER, as on DuckDB 1 and Spark; Arrow has no maps with such keys
#
# All others stay. `docs/reference/result-types.md` shows what each gives in every output.


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
    names: Sequence[str], types: Iterable[Any], shown: Sequence[str] | None = None, *, as_arrow: bool = False
) -> str | None:
    """The list of a SELECT that gives a result out; None where all columns stay as they are.

    types: of the columns, as a relation has them. shown: what they are called from here on; None: as they are.
    as_arrow: HUGEINT becomes DECIMAL(38,0), for files have no type of that size.

    Raises UnsupportedError: no type can hold a column's values; the message names it, and what to write in its place.
    """
    shown = names if shown is None else shown
    columns = list(zip(shown, types, strict=True))
    found = [_output_expression(f"#{place}", *column, as_arrow=as_arrow) for place, column in enumerate(columns, 1)]
    if all(text == f"#{place}" for place, text in enumerate(found, 1)) and list(shown) == list(names):
        return None
    return ", ".join(f"{text} AS {sqltext.name(name)}" for text, name in zip(found, shown, strict=True))


def _output_expression(text: str, name: str, stored: Any, *, as_arrow: bool) -> str:
    """A column as it is given out. A NULL stays one: DuckDB 1 would make a JSON null of a VARIANT's."""
    whole, to = _target(stored, name, _WHOLE), _target(stored, name, _WHOLE if as_arrow else None)
    if whole is None:
        return text
    value = f"CAST({text} AS {whole})"
    if _is_long(stored):
        problem = (
            f"Cannot give out column {name!r}: an integer in it has more than 38 digits, which DECIMAL(38,0) does not "
            "hold; cast it in the query, with CAST(... AS VARCHAR) for all of its digits"
        )
        # Nothing but a number of too many digits makes these casts fail, and TRY gives NULL then. Nested values go
        # through a list, because DuckDB 1 has no COALESCE of arrays.
        nested = bool(_parts(stored))
        kept = f"coalesce(TRY({f'[{value}]' if nested else value}), error({sqltext.text(problem)}))"
        value = f"list_extract({kept}, 1)" if nested else kept
        value = value if whole == to else f"CAST({value} AS {to or stored})"
    return f"CASE WHEN {text} IS NOT NULL THEN {value} END"


def _target(stored: Any, column: str, huge: str | None, *, nested: bool = False) -> str | None:
    """The type to cast to, as SQL, with `huge` in place of HUGEINT; None: as it is."""
    if str(stored).startswith("AGGREGATE_STATE"):
        # DuckDB 2.0 says that it is what the state is stored in, and ends the process where Arrow asks for it.
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
    """The types in a nested type, with their names, where they have any."""
    match stored.id:
        case "list" | "array":
            return [stored.children[0]]
        case "map" | "struct" | "tuple":
            return list(stored.children)
        case "union":
            return list(stored.children[1:])  # the first is the tag
        case _:
            return []


def _is_long(stored: Any) -> bool:
    """Tells whether there are integers in it that DECIMAL(38,0) may not hold."""
    return stored.id in ("hugeint", "uhugeint") or any(_is_long(part) for _, part in _parts(stored))


def _unsupported_output(column: str, what: str, instead: str) -> UnsupportedError:
    return UnsupportedError(
        f"Cannot give out column {column!r}: it holds {what}; convert it in the query, {instead}", field=column
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
    """The result of a query in DuckDB's dialect that reads plans by name, as a lazy relation, in the query's order.

    Args:
        plans: by the name that the query calls each, or a table that is there already. Filters of plans must be implied
            by the query's own conditions.
        connection: the user's; None: one of harness's own.
        aliased: those of the names that have an alias in the query, so that a subquery can stand in their place. No
            other text may contain them.
        originals: of texts in the query, each around a name of a plan, what the user has written in their place:
            DuckDB names columns for what they are made of.
        parameters: values, as DuckDB's `execute` takes them.

    Raises:
        HarnessError: as for `register`.
        UnsupportedError: a column of the result cannot leave DuckDB.
        duckdb.Error: DuckDB refuses the query.
    """
    own = cursor(lossless=False) if connection is None else connection
    places = _sources_by_name(plans, own, registrar(own) if connection is None else None, aliased)
    try:
        result = own.sql(_replace_names(text, places), params=parameters)
    except duckdb.Error as error:
        raise _query_error(error, text, plans, own, parameters) from None
    columns = output_list(result.columns, result.types, _original_names(result.columns, originals, places))
    return result if columns is None else result.project(columns)


def with_sources(
    text: str,
    plans: Mapping[str, PlannedScan | pa.Table],
    connection: duckdb.DuckDBPyConnection,
    *,
    aliased: Collection[str] = (),
) -> str:
    """A statement of any kind, with what DuckDB reads in place of the names of plans; all is as for `query`."""
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
    """A query as text for the connection to run, in whose result columns are cast and named as in that of `query`.

    Args:
        text, plans, connection, aliased, originals, parameters: as for `query`. Raises as `query`.
    """
    places = _sources_by_name(plans, connection, None, aliased)
    put = _replace_names(text, places)
    try:
        names, types = _describe(put, connection, parameters)
    except duckdb.Error as error:
        raise _query_error(error, text, plans, connection, parameters) from None
    columns = output_list(names, types, _original_names(names, originals, places))
    return put if columns is None else f"SELECT {columns} FROM ({put}\n)"


def _describe(text: str, connection: duckdb.DuckDBPyConnection, parameters: object) -> tuple[list[str], list[Any]]:
    """Names and types of a query's columns."""
    if parameters is None:
        bound = connection.sql(text)
        return bound.columns, bound.types
    # DuckDB 1 runs a relation with parameters at once.
    rows = connection.execute(f"DESCRIBE (FROM ({text}\n))", parameters).fetchall()
    return [name for name, *_ in rows], [connection.type(type_) for _, type_, *_ in rows]


def transaction_start(connection: duckdb.DuckDBPyConnection | None) -> datetime.datetime:
    """The start of a connection's transaction, or for None the present, in UTC without a zone."""
    present = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    if connection is None:
        return present
    ((started,),) = connection.execute("SELECT epoch_us(now())").fetchall()
    begun = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=started)
    return min(begun, present)


def query_columns(
    text: str, plans: Mapping[str, PlannedScan], originals: Mapping[str, str] = _NONE, *, parameters: object = None
) -> tuple[tuple[str, str], ...]:
    """Name and DuckDB type of the query's columns, before `query` casts any; reads no file. Else as for `query`."""
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
    """The names of the user's tables and views on a connection."""
    rows = connection.execute(
        "SELECT table_name FROM duckdb_tables() WHERE NOT internal "
        "UNION SELECT view_name FROM duckdb_views() WHERE NOT internal"
    )
    return [name for (name,) in rows.fetchall() if not name.startswith(_PREFIX)]


def parse_error(text: str) -> RequestError | None:
    """The error about a text that DuckDB cannot parse, in DuckDB's words; None: it can."""
    try:
        cursor().extract_statements(text)
    except duckdb.ParserException as error:
        said, line, excerpt = str(error).partition("LINE ")
        return RequestError(f"Cannot parse the query: {said}", excerpt=(line + excerpt).rstrip())
    return None


def syntax_trees(*texts: str, connection: duckdb.DuckDBPyConnection | None = None) -> tuple[str, ...]:
    """Return the trees of DuckDB's parser for queries as JSON. A query without a tree has the reason instead.

    Args:
        texts: The queries.
        connection: The user's; None for one of harness's own.
    """
    options = "skip_default := true, skip_empty := true, skip_null := true"
    trees = ", ".join(f"json_serialize_sql(${place}, {options})" for place in range(1, len(texts) + 1))
    own = cursor(lossless=False) if connection is None else connection.cursor()
    (found,) = own.execute(f"SELECT {trees}", list(texts)).fetchall()
    return tuple(found)


def _query_error(
    error: duckdb.Error,
    text: str,
    plans: Mapping[str, PlannedScan | pa.Table],
    connection: duckdb.DuckDBPyConnection,
    parameters: object,
) -> Exception:
    """The error to raise for one of the binder, which opens a file of each arm."""
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
    """The scan that DuckDB reads in place of each name of a plan, by the name as it stands in the query."""
    registrations = Registrations(connection)
    put = register or registrations.table
    places = {}
    for name, plan in plans.items():
        if isinstance(plan, pa.Table):
            place = sqltext.name(put(plan))
        else:
            rows = lowered(plan, connection, put, QueryUse.ONCE)
            with naming_table(plan):
                place = f"({rows})" if name in aliased else sqltext.name(registrations.view(rows))
        places[sqltext.name(name)] = place
    return places


def _replace_names(text: str, places: Mapping[str, str]) -> str:
    for name, place in places.items():
        text = text.replace(name, place)
    return text


def _original_names(names: Sequence[str], originals: Mapping[str, str], places: Mapping[str, str]) -> list[str]:
    """The names of columns with what the user has written; DuckDB calls `(SELECT max(i) FROM t)` for what it reads."""
    if not any("(SELECT " in name for name in names):
        return list(names)
    shown = {
        _printed_source(_replace_names(put, places)): _printed_source(original) for put, original in originals.items()
    }
    longest_first = {text: shown[text] for text in sorted(shown, key=len, reverse=True)}  # one may be within another
    return [_replace_names(name, longest_first) for name in names]


def _printed_source(relation: str) -> str:
    """The source in FROM, as DuckDB writes it in the names of columns."""
    start = "SELECT 1 FROM "
    found = cursor().execute("SELECT json_deserialize_sql(json_serialize_sql($1))", [start + relation]).fetchone()
    assert found is not None, "a row for a value"
    return str(found[0]).removeprefix(start)
