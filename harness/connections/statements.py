"""Statements of a connection: which of its names are tables of the catalog, and what DuckDB runs in their place.

DuckDB says of what kind a statement is, and sqlglot which names are in it. One without a table of the catalog goes to
DuckDB as it is.
"""

from __future__ import annotations

import enum
import itertools
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import duckdb
import pyarrow as pa
from sqlglot import exp

from harness.catalogs.names import Name, written
from harness.connections.namespaces import as_described, shown, used
from harness.connections.tables import Tables
from harness.engines.registry import duckdb_engine
from harness.errors import AmbiguousTableError, HarnessError, RequestError
from harness.metadata_tables.naming import NAMES, is_metadata_table
from harness.plan.scan_plan import ScanPlan
from harness.queries.plain import may_name_moments
from harness.queries.rewrite import MetadataReference, refuse_writes, rewrite_statement
from harness.queries.statements import Statement, parse_statement, references
from harness.queries.time_travel import Pinned, pin
from harness.query import MetadataTables, planned
from harness.snapshot import Snapshot
from harness.table import Table

_QUERIES = {"SELECT", "MULTI"}
"""Kinds of statements that give rows; DuckDB 2.0 calls those with a PIVOT MULTI."""
_OTHERS = {"EXPLAIN", "CREATE", "INSERT", "COPY", "UPDATE", "DELETE", "MERGE_INTO", "DROP", "ALTER"}
"""Kinds of others that may name a table of a catalog."""
_calls = itertools.count()
_token = secrets.token_hex(8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One place where a statement reads a table of the catalog.

    table: its whole name.
    view: what stands there in the text. aliased: whether an alias follows it.
    put, original: as of a `TableReference`.
    plan: what the view must give; of a metadata table the rows themselves.
    """

    table: str
    view: str
    aliased: bool
    put: str
    original: str
    plan: ScanPlan | pa.Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A statement that is ready to run.

    text: with views in place of the tables that it reads from the catalog.
    gives_rows: whether it is a query.
    reads: in the order of the text.
    tables: the tables of the catalog that it reads, by whole name.
    unknown: names that it reads which are no table of the catalog, nor the connection's.
    unparsed: why it is not known which names it has; None: it is.
    chosen: the tables with the namespace that it chooses; None: it chooses none.
    """

    text: str
    gives_rows: bool
    reads: tuple[Read, ...] = ()
    tables: Mapping[str, Snapshot] = field(default_factory=dict)
    unknown: tuple[Name, ...] = ()
    unparsed: RequestError | None = None
    chosen: Tables | None = None

    def runnable(self, connection: duckdb.DuckDBPyConnection, parameters: object = None) -> str:
        """What DuckDB runs.

        Raises:
            As `harness.sql`.
        """
        plans = {read.view: read.plan for read in self.reads}
        aliased = {read.view for read in self.reads if read.aliased}
        if self.gives_rows:
            originals = {read.put: read.original for read in self.reads}
            return duckdb_engine().query_text(
                self.text, plans, connection, aliased=aliased, originals=originals, parameters=parameters
            )
        return duckdb_engine().filled(self.text, plans, connection, aliased=aliased)


def prepare(text: str, tables: Tables, connection: duckdb.DuckDBPyConnection) -> Prepared:
    """One statement, with the tables of the catalog that it reads planned as they are now.

    Raises:
        RequestError: it cannot be parsed, writes a table of the catalog, or keeps a view over one.
        AmbiguousTableError: a name may be more than one table.
        HarnessError: a table cannot be opened or planned.
    """
    if (use := used(text, tables, connection)) is not None:
        return Prepared(text=use[0], gives_rows=False, chosen=use[1])
    if (listing := shown(text, tables, connection)) is not None:
        return Prepared(text=listing, gives_rows=True)
    pinned = _pinned(as_described(text), tables, connection)
    text = pinned.query
    kind = _kind(text, connection)
    as_it_is = Prepared(text=text, gives_rows=kind in _QUERIES)
    if kind not in _QUERIES and kind not in _OTHERS:
        return as_it_is
    try:
        parsed = parse_statement(text)
    except RequestError as error:  # DuckDB's own syntax, and maybe without any table of the catalog
        return replace(as_it_is, unparsed=error)
    names = dict.fromkeys(reference.name for reference in references(parsed))
    found = {name: _found(name, tables, connection, pinned) for name in names}
    about = {name: table for name in names if (table := _owner(name, found[name], tables, connection)) is not None}
    target = _target(parsed)
    unknown = tuple(
        name for name, table in found.items() if table is _Other.UNKNOWN and name != target and name not in about
    )
    bound = {name: table for name, table in found.items() if isinstance(table, _Bound)}
    if not bound and not about:
        return replace(as_it_is, unknown=unknown)
    wholes = {name: table.whole for name, table in bound.items()}
    _refuse(parsed, target, wholes)
    snapshots: dict[str, Snapshot] = {}
    for table in (*bound.values(), *about.values()):  # two names of one table are one version
        snapshots.setdefault(table.whole, table.snapshot)
    schemas = {whole: snapshot.schema for whole, snapshot in snapshots.items()}
    metadata = MetadataTables(snapshots)
    rewritten = rewrite_statement(
        parsed,
        wholes,
        schemas,
        prefix=f"_harness_{_token}_{next(_calls)}",
        now=partial(duckdb_engine().moment, connection),
        metadata={
            name: MetadataReference(table.whole, name[-1], columns)
            for name, table in about.items()
            if (columns := metadata.columns(table.whole, name[-1])) is not None
        },
    )
    reads = tuple(
        Read(
            table=reference.table,
            view=reference.view,
            aliased=reference.aliased,
            put=reference.put,
            original=reference.original,
            plan=planned(reference, snapshots[reference.table], connection)
            if reference.metadata is None
            else metadata.read(reference),
        )
        for reference in rewritten.references
    )
    return replace(as_it_is, text=rewritten.sql, reads=reads, tables=snapshots, unknown=unknown)


def _pinned(text: str, tables: Tables, connection: duckdb.DuckDBPyConnection) -> Pinned:
    """The statement with tables of the catalog at moments under names of their own."""
    as_it_is = Pinned(text, {})
    if not may_name_moments(text):
        return as_it_is
    try:
        statement = parse_statement(text)
    except RequestError:  # DuckDB's own syntax; `prepare` keeps the reason
        return as_it_is
    return pin(statement, lambda name: tables.open(name, is_taken=_is_own(name, connection)) is not None) or as_it_is


def absent(error: duckdb.Error, prepared: Prepared, tables: Tables) -> HarnessError | None:
    """The error about a name that stands for nothing, if that is what DuckDB complains of."""
    said = str(error).casefold()
    if isinstance(error, duckdb.BinderException):  # DuckDB 1.5 on a name of three parts, of which it says the first
        names = (name for name in prepared.unknown if f'catalog "{name[0].casefold()}" does not exist' in said)
    elif prepared.unparsed is not None:
        return prepared.unparsed
    else:
        names = (name for name in prepared.unknown if name[-1].casefold() in said)
    name = next(names, None)
    return None if name is None else tables.absent(name)


def _kind(text: str, connection: duckdb.DuckDBPyConnection) -> str:
    """What DuckDB calls the statement; of one that it takes apart, the last part."""
    try:
        parts = connection.extract_statements(text)
    except duckdb.ParserException as error:
        if "NameListToString" in str(error):
            return _kind_by_words(text)
        raise RequestError(f"Cannot parse the statement: {' '.join(str(error).split())}") from error
    return parts[-1].type.name if parts else "NONE"


def _kind_by_words(text: str) -> str:
    """For statements with names of four parts, such as a.b.c.orders, which DuckDB 1.5 cannot parse."""
    parsed = parse_statement(text)
    try:
        refuse_writes(parsed)
    except RequestError:
        return "CREATE"
    return "EXPLAIN" if parsed.explain else "SELECT"


def _target(statement: Statement) -> Name | None:
    """The table that a statement writes or makes; None: it is no such one."""
    tree = statement.tree
    if not isinstance(tree, exp.Create | exp.Insert | exp.Update | exp.Delete | exp.Drop | exp.Alter | exp.Merge):
        return None
    place = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    return tuple(part.name for part in place.parts) if isinstance(place, exp.Table) else None


def _refuse(statement: Statement, target: Name | None, bound: Mapping[Name, str]) -> None:
    """Tables of a catalog are read: by queries, and to fill tables and files of the user's."""
    match statement.tree:
        case exp.Create(kind="VIEW"):
            raise RequestError(
                f"Cannot keep a view over {next(iter(bound.values()))}: it would stay at one version of the table; "
                "write the query with WITH, copy its rows with CREATE TEMP TABLE … AS, or use harness.attach"
            )
        case exp.Create(kind="TABLE", expression=source) | exp.Insert(expression=source):
            is_read = isinstance(source, exp.Query)
        case exp.Copy(this=source):
            is_read = isinstance(source, exp.Query)
        case _ if target is None:
            refuse_writes(statement)
            return
        case _:
            is_read = False
    if not is_read or target in bound:
        table = next(iter(bound.values())) if target is None or target not in bound else bound[target]
        raise RequestError(
            f"Cannot run {statement.tree.key.upper()} with {table}: tables of a catalog are only read, by queries, "
            "CREATE TABLE … AS, INSERT INTO … SELECT and COPY (SELECT …) TO"
        )


@dataclass(frozen=True, slots=True)
class _Bound:
    whole: str
    snapshot: Snapshot


class _Other(enum.Enum):
    OWN = "a table of the connection"
    UNKNOWN = "nothing that is known"


def _found(name: Name, tables: Tables, connection: duckdb.DuckDBPyConnection, pinned: Pinned) -> _Bound | _Other:
    if len(name) == 1 and name[0] in pinned.moments:
        return _at_moment(name[0], tables, connection, pinned)
    is_own = _is_own(name, connection)
    found = tables.open(name, is_taken=is_own)
    if found is None:
        return _Other.OWN if is_own else _Other.UNKNOWN
    whole, table = found
    if is_own:
        raise AmbiguousTableError(
            f"Table {written(name)} is both one of this connection and {whole}: drop the former, or write more of its "
            "name",
            cause="AmbiguousName",
        )
    return _Bound(whole, table.snapshot() if isinstance(table, Table) else table)


def _owner(name: Name, found: _Bound | _Other, tables: Tables, connection: duckdb.DuckDBPyConnection) -> _Bound | None:
    """The table of the catalog whose metadata table a name is, `sales.orders.files`; None: it is none's."""
    if found is not _Other.UNKNOWN or len(name) < 2 or not any(is_metadata_table(f, name[-1]) for f in NAMES):
        return None
    owner = _found(name[:-1], tables, connection, Pinned("", {}))
    if not isinstance(owner, _Bound) or not is_metadata_table(owner.snapshot.source.format, name[-1]):
        return None
    return owner


def _at_moment(alias: str, tables: Tables, connection: duckdb.DuckDBPyConnection, pinned: Pinned) -> _Bound | _Other:
    name, moment = pinned.moments[alias]
    found = _found(name, tables, connection, pinned)
    if not isinstance(found, _Bound):
        return found
    source = found.snapshot.source
    return _Bound(f"{found.whole} at {moment}", Table(source).snapshot(**moment.selector(source.format)))


def _is_own(name: Name, connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether the DuckDB connection itself has a table or view of that name."""
    rows = connection.execute(
        """
        SELECT lower(database_name), lower(schema_name), schema_name IN ('main', current_schema())
        FROM (FROM duckdb_tables() SELECT database_name, schema_name, table_name AS name
              UNION ALL FROM duckdb_views() SELECT database_name, schema_name, view_name)
        WHERE lower(name) = lower(?)
        """,
        [name[-1]],
    ).fetchall()
    front = tuple(part.lower() for part in name[:-1])
    return any(
        is_near if not front else front in ((database,), (schema,), (database, schema))
        for database, schema, is_near in rows
    )
