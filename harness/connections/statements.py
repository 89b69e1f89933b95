"""Statements of a connection. Names of tables of the catalog are found in them and replaced by views for DuckDB.

DuckDB determines the kind of a statement, and sqlglot finds its names. Statements without a table of the catalog are
passed to DuckDB unchanged.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import duckdb
import pyarrow as pa
from sqlglot import exp

from harness.connections.tables import NamedTables
from harness.engines.duckdb import relations
from harness.errors import AmbiguousTableError, HarnessError, RequestError, TableNotFoundError
from harness.metadata.catalogs.catalog import Catalog, Name, name_text, parse_name
from harness.metadata.catalogs.resolving import AllCatalogs
from harness.metadata.filters.sqltext import quoted, refuse_half_characters
from harness.metadata.filters.sqltext import text as literal
from harness.metadata.planned_scan import PlannedScan
from harness.metadata.tables.reading import NAMES, is_metadata_table
from harness.queries import rewrite
from harness.queries.changes import ChangesCall, unknown_table
from harness.queries.inputs import MetadataTables, QuerySource, at_moment, no_changes_error, plan_reference
from harness.queries.plain import TableReference, may_time_travel
from harness.queries.time_travel import Moment, Pinned, pin
from harness.snapshot import Snapshot
from harness.table import Table

_TOKEN = re.compile(
    r"""
    (?P<end>;)
    | --[^\n]*(?:\n|\Z)
    | /\*.*?(?:\*/|(?P<open_comment>\Z))
    | (?<![\w])[eE]'(?:[^'\\]|\\.|'')*(?:'|(?P<open_escaped>\Z))
    | '(?:[^']|'')*(?:'|(?P<open_text>\Z))
    | "(?:[^"]|"")*(?:"|(?P<open_name>\Z))
    | (?<![\w$])\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?(?:\$(?P=tag)\$|(?P<open_dollar>\Z))
    | (?P<other>[^\s])
    """,
    re.VERBOSE | re.DOTALL,
)
_OPEN = ("open_comment", "open_escaped", "open_text", "open_name", "open_dollar")


def statements(text: str) -> list[str]:
    """Split a text into statements, without their semicolons. Blank text and comments are not statements.

    DuckDB can split texts too, but DuckDB 1.5 splits a PIVOT into statements without a text, and no version reports
    whether the last statement is finished, which a shell needs to know.
    """
    return [part for part, _ in _split(text)]


def is_finished(text: str) -> bool:
    """Return whether the text ends after the semicolon of a statement."""
    *_, last = ((None, True), *_split(text))
    return last[1]


def _split(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the statements, each with a flag that says whether a semicolon ends it."""
    start, has_content, is_open = 0, False, False
    for token in _TOKEN.finditer(text):
        if token["end"] is not None:
            if has_content:
                yield text[start : token.start()].strip(), True
            start, has_content = token.end(), False
        elif not token[0].startswith(("--", "/*")):
            has_content = True
        is_open = is_open or any(token[kind] is not None for kind in _OPEN)
    if has_content or is_open:
        yield text[start:].strip(), False


_SPACE = r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*"
_NAME = r"""(?P<name>(?:"(?:[^"]|"")+"|[^\s".]+)(?:\.(?:"(?:[^"]|"")+"|[^\s".]+))*)"""
_USE = re.compile(rf"{_SPACE}USE\s+{_NAME}{_SPACE}", re.IGNORECASE | re.DOTALL)
_SHOW = re.compile(
    rf"{_SPACE}SHOW\s+(?:(?P<what>TABLES|SCHEMAS|NAMESPACES)(?:\s+(?:FROM|IN)\s+{_NAME})?|DATABASES|CATALOGS){_SPACE}",
    re.IGNORECASE | re.DOTALL,
)
_SHOW_TABLE = re.compile(rf"{_SPACE}SHOW\s+{_NAME}{_SPACE}", re.IGNORECASE | re.DOTALL)
_SHOWN = ("TABLES", "SCHEMAS", "NAMESPACES", "DATABASES", "CATALOGS", "VARIABLES")
"""Words after SHOW that list something. After other words, SHOW describes a table."""


def _prepare_use(text: str, tables: NamedTables, connection: duckdb.DuckDBPyConnection) -> Prepared | None:
    """Return a USE statement with the tables of the selected namespace, or None if the statement is not USE.

    It raises the errors of `_choose_namespace`.
    """
    matches = _USE.fullmatch(text)
    if matches is None or tables.catalog is None:
        return None
    selection = _choose_namespace(parse_name(matches["name"]), tables, connection)
    if selection is None:
        return Prepared(text=text, gives_rows=False, chosen=replace(tables, within=()))
    # Selecting DuckDB's present schema changes nothing, and has the same result as USE.
    (row,) = connection.execute("SELECT current_database(), current_schema()").fetchall()
    return Prepared(text=f"USE {'.'.join(map(quoted, row))}", gives_rows=False, chosen=selection)


def _show_query(text: str, tables: NamedTables, connection: duckdb.DuckDBPyConnection) -> str | None:
    """Return a query that includes the catalog for SHOW TABLES, SCHEMAS, or DATABASES, or None for other statements.

    It raises the errors of `_choose_namespace`.
    """
    result = _SHOW.fullmatch(text)
    if result is None or tables.catalog is None:
        return None
    name = None if result["name"] is None else parse_name(result["name"])
    if result["what"] is None:
        duckdb_query = "SELECT database_name FROM duckdb_databases() WHERE NOT internal"
        catalogs = sorted(tables.catalog.catalogs) if isinstance(tables.catalog, AllCatalogs) else [tables.catalog.name]
        return _listing_query(duckdb_query, ((each,) for each in catalogs), "database_name")
    inside = None if name is None else _choose_namespace(name, tables, connection)
    if result["what"].upper() == "TABLES":
        if name is None:
            names = (name_text(each) for each in tables.names(everywhere=False))
            return _listing_query("SELECT name FROM (SHOW TABLES)", ((each,) for each in names), "name")
        if inside is None:
            return text
        return _listing_query(None, (each[-1:] for each in tables.catalog.tables(inside.within)), "name")
    if name is not None and inside is None:
        return f"SELECT * FROM (SHOW SCHEMAS) WHERE lower(database_name) = {literal(name[0].lower())}"
    schemas = None if name is not None else "SELECT database_name, schema_name FROM (SHOW SCHEMAS)"
    return _listing_query(schemas, _namespaces(tables.catalog, tables, inside), "database_name, schema_name")


def _choose_namespace(name: Name, tables: NamedTables, connection: duckdb.DuckDBPyConnection) -> NamedTables | None:
    """Return the tables with the given namespace selected, or None if DuckDB itself has the namespace.

    Raises:
        TableNotFoundError: Neither the catalog nor DuckDB has that namespace. The message lists similar names.
        AmbiguousTableError: Both have it, or the catalog has several.
        StorageError: The catalog does not answer.
    """
    rows = connection.execute("SELECT lower(database_name), lower(schema_name) FROM duckdb_schemas()").fetchall()
    folded = tuple(part.lower() for part in name)
    is_own = any(folded in ((database,), (schema,), (database, schema)) for database, schema in rows)
    try:
        selection = tables.in_namespace(name, is_taken=is_own)
    except TableNotFoundError as error:
        if is_own and error.cause == "NoSuchNamespace":
            return None
        raise
    if is_own:
        raise AmbiguousTableError(
            f"Namespace {name_text(name)} is both {tables.qualified(selection.within)} and a schema of this "
            "connection: write the catalog or the database before it",
            cause="AmbiguousName",
        )
    return selection


def _namespaces(catalog: Catalog, tables: NamedTables, inside: NamedTables | None) -> Iterable[tuple[str, str]]:
    """Yield pairs of a catalog and a namespace: those directly in the selected namespace, or else at the top level."""
    outer = [()] if inside is None else [inside.within]
    if inside is None and isinstance(catalog, AllCatalogs):
        outer = [tables.within[:1]] if tables.within else list(catalog.namespaces())
    for each in (inner for namespace in outer for inner in catalog.namespaces(namespace)):
        whole = (catalog.name, *each) if catalog.name else each
        yield whole[0], name_text(whole[1:])


def _listing_query(own_query: str | None, rows: Iterable[tuple[str, ...]], columns: str) -> str:
    """Return a query for `SHOW`: the given rows, and the rows of `own_query`, which lists DuckDB's own names."""
    values = ", ".join(f"({', '.join(map(literal, row))})" for row in rows)
    parts = [own_query] if own_query is not None else []
    parts += [f"VALUES {values}"] if values else []
    if not parts:
        empty = ", ".join("''" for _ in columns.split(","))
        return f"SELECT * FROM (VALUES ({empty})) AS t({columns}) WHERE false"
    return f"SELECT * FROM ({' UNION ALL '.join(parts)}) AS t({columns}) ORDER BY ALL"


_QUERIES = {"SELECT", "MULTI"}
"""Kinds of statements that return rows. MULTI is a statement with a PIVOT on DuckDB 2.0."""
_OTHERS = {"EXPLAIN", "CREATE", "INSERT", "COPY", "UPDATE", "DELETE", "MERGE_INTO", "DROP", "ALTER"}
"""Kinds of other statements that may name a table of a catalog."""
_calls = itertools.count()
_token = secrets.token_hex(8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A statement that is ready to run.

    Attributes:
        text: The statement, with views in place of the catalog's tables.
        gives_rows: True if it is a query.
        reads: The places that read a table of the catalog, in the order of the text, with the content of their views.
        tables: The tables of the catalog that it reads, by full name.
        unknown: Names that are neither tables of the catalog nor of the connection.
        unparsed: The reason why the statement's names are not known, or None if they are.
        chosen: The tables with the namespace that the statement selects, or None if it selects none.
    """

    text: str
    gives_rows: bool
    reads: tuple[tuple[TableReference, PlannedScan | pa.Table], ...] = ()
    tables: Mapping[str, QuerySource] = field(default_factory=dict)
    unknown: tuple[Name, ...] = ()
    unparsed: RequestError | None = None
    chosen: NamedTables | None = None

    def runnable(self, connection: duckdb.DuckDBPyConnection, parameters: object = None) -> str:
        """Return the statement for DuckDB. It raises the errors of `harness.sql`."""
        plans = {reference.view: plan for reference, plan in self.reads}
        aliased = {reference.view for reference, _ in self.reads if reference.aliased}
        if self.gives_rows:
            originals = {reference.put: reference.original for reference, _ in self.reads}
            return relations.query_text(
                self.text, plans, connection, aliased=aliased, originals=originals, parameters=parameters
            )
        return relations.with_sources(self.text, plans, connection, aliased=aliased)


def prepare(text: str, tables: NamedTables, connection: duckdb.DuckDBPyConnection) -> Prepared:
    """Prepare a statement. The tables of the catalog that it reads are planned as they are now.

    Raises:
        RequestError: The statement cannot be parsed, writes a table of the catalog, or creates a view over one.
        AmbiguousTableError: A name may mean several tables.
        HarnessError: A table cannot be opened or planned.
    """
    if (use := _prepare_use(text, tables, connection)) is not None:
        return use
    if (listing := _show_query(text, tables, connection)) is not None:
        return Prepared(text=listing, gives_rows=True)
    described = _SHOW_TABLE.fullmatch(text)
    if described is not None and described["name"].upper() not in _SHOWN:
        text = f"DESCRIBE {described['name']}"  # the same for DuckDB, but sqlglot can parse it
    pinned = _pin_moments(text, tables, connection)
    text = pinned.query
    kind = _statement_kind(text, connection)
    as_it_is = Prepared(text=text, gives_rows=kind in _QUERIES)
    if kind not in _QUERIES and kind not in _OTHERS:
        return as_it_is
    try:
        parsed = rewrite.parse_statement(text)
    except RequestError as error:  # DuckDB's own syntax; the statement may name no table of the catalog
        return replace(as_it_is, unparsed=error)
    names = dict.fromkeys(reference.name for reference in rewrite.references(parsed))
    result = {name: _find_table(name, tables, connection, pinned) for name in names}
    bound = {name: table for name, table in result.items() if table is not None}
    others = [name for name in names if name not in bound and not _is_own(name, connection)]
    about = {name: table for name in others if (table := _metadata_table_owner(name, tables, connection)) is not None}
    target = _target(parsed)
    unknown = tuple(name for name in others if name != target and name not in about)
    if not bound and not about:
        return replace(as_it_is, unknown=unknown)
    wholes = {name: whole for name, (whole, _) in bound.items()}
    _check_writes(parsed, target, wholes)
    snapshots: dict[str, QuerySource] = {}
    for whole, snapshot in (*bound.values(), *about.values()):  # two names of one table are the same version
        snapshots.setdefault(whole, snapshot)
    schemas = {whole: snapshot.schema for whole, snapshot in snapshots.items()}
    metadata = MetadataTables(snapshots)
    rewritten = rewrite.rewrite_statement(
        parsed,
        wholes,
        schemas,
        prefix=f"_harness_{_token}_{next(_calls)}",
        now=partial(relations.transaction_start, connection),
        metadata={
            name: rewrite.MetadataReference(whole, name[-1], columns)
            for name, (whole, _) in about.items()
            if (columns := metadata.columns(whole, name[-1])) is not None
        },
    )
    reads = tuple(
        (
            reference,
            plan_reference(reference, snapshots[reference.table], connection)
            if reference.metadata is None
            else metadata.read(reference),
        )
        for reference in rewritten.references
    )
    return replace(as_it_is, text=rewritten.sql, reads=reads, tables=snapshots, unknown=unknown)


def _pin_moments(text: str, tables: NamedTables, connection: duckdb.DuckDBPyConnection) -> Pinned:
    """Return the statement with a separate name for each table of the catalog that is read at a point in time.

    So are calls of `changes`.
    """
    as_it_is = Pinned(text, {})
    if not may_time_travel(text):
        return as_it_is
    try:
        statement = rewrite.parse_statement(text)
    except RequestError:  # DuckDB's own syntax; `prepare` records the reason
        return as_it_is
    return pin(statement, lambda name: tables.open(name, is_taken=_is_own(name, connection)) is not None) or as_it_is


def missing_name_error(error: duckdb.Error, prepared: Prepared, tables: NamedTables) -> HarnessError | None:
    """Return the error for a name without a table, or None if DuckDB's error has another cause."""
    text = str(error).casefold()
    if (called := unknown_table(error, prepared.text)) is not None:
        return tables.missing_table_error(called)
    if isinstance(error, duckdb.BinderException):  # for a name of three parts, DuckDB 1.5 reports only the first part
        names = (name for name in prepared.unknown if f'catalog "{name[0].casefold()}" does not exist' in text)
    elif prepared.unparsed is not None:
        return prepared.unparsed
    else:
        names = (name for name in prepared.unknown if name[-1].casefold() in text)
    return next((tables.missing_table_error(name) for name in names), None)


def _statement_kind(text: str, connection: duckdb.DuckDBPyConnection) -> str:
    """Return DuckDB's type of the statement, or of its last part."""
    refuse_half_characters(text, "query")
    try:
        parts = connection.extract_statements(text)
    except duckdb.ParserException as error:
        if "NameListToString" in str(error):
            parsed = rewrite.parse_statement(text)  # DuckDB 1.5 rejects names of four parts, like a.b.c.orders
            try:
                rewrite.refuse_writes(parsed)
            except RequestError:
                return "CREATE"
            return "EXPLAIN" if parsed.explain else "SELECT"
        raise (relations.parse_error(text) or RequestError(f"Cannot parse the statement: {error}")) from error
    return parts[-1].type.name if parts else "NONE"


def _target(statement: rewrite.SqlStatement) -> Name | None:
    """Return the table that a statement writes or creates, or None if it only reads."""
    tree = statement.tree
    if not isinstance(tree, exp.Create | exp.Insert | exp.Update | exp.Delete | exp.Drop | exp.Alter | exp.Merge):
        return None
    place = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    return tuple(part.name for part in place.parts) if isinstance(place, exp.Table) else None


def _check_writes(statement: rewrite.SqlStatement, target: Name | None, bound: Mapping[Name, str]) -> None:
    """Raise RequestError if the statement writes a table of the catalog or creates a view over one.

    Queries may read these tables, also to fill the user's own tables and files.
    """
    match statement.tree:
        case exp.Create(kind="VIEW"):
            raise RequestError(
                f"Cannot create a view over {next(iter(bound.values()))}: it would stay at one version of the table; "
                "write the query with WITH, copy its rows with CREATE TEMP TABLE … AS, or use harness.attach"
            )
        case exp.Create(kind="TABLE", expression=source) | exp.Insert(expression=source):
            is_read = isinstance(source, exp.Query)
        case exp.Copy(this=source):
            is_read = isinstance(source, exp.Query)
        case _ if target is None:
            rewrite.refuse_writes(statement)
            return
        case _:
            is_read = False
    if not is_read or target in bound:
        table = next(iter(bound.values())) if target is None or target not in bound else bound[target]
        raise RequestError(
            f"Cannot run {statement.tree.key.upper()} with {table}: tables of a catalog are only read, by queries, "
            "CREATE TABLE … AS, INSERT INTO … SELECT and COPY (SELECT …) TO"
        )


def _find_table(
    name: Name, tables: NamedTables, connection: duckdb.DuckDBPyConnection, pinned: Pinned
) -> tuple[str, QuerySource] | None:
    """Return the full name of a table of the catalog and its snapshot or changes, or None if there is no such table."""
    moment: Moment | ChangesCall | None = None
    if len(name) == 1 and name[0] in pinned.moments:
        name, moment = pinned.moments[name[0]]
    is_own = _is_own(name, connection)
    opened = tables.open(name, is_taken=is_own)
    if opened is None:
        return None
    whole, table = opened
    if is_own:
        raise AmbiguousTableError(
            f"Table {name_text(name)} is both one of this connection and {whole}: drop the former, or write the full "
            "name of the latter",
            cause="AmbiguousName",
        )
    match moment:
        case None:
            return whole, table.snapshot() if isinstance(table, Table) else table
        case ChangesCall():
            if isinstance(table, Snapshot):
                raise no_changes_error(name)
            return moment.text, at_moment(table, moment)
        case Moment():
            source = table if isinstance(table, Table) else Table(table._source)
            return f"{whole} at {moment}", at_moment(source, moment)


def _metadata_table_owner(
    name: Name, tables: NamedTables, connection: duckdb.DuckDBPyConnection
) -> tuple[str, QuerySource] | None:
    """Return the table whose metadata table has this name, like `sales.orders.files`, or None."""
    if len(name) < 2 or not any(is_metadata_table(f, name[-1]) for f in NAMES):
        return None
    owner = _find_table(name[:-1], tables, connection, Pinned("", {}))
    return owner if owner is not None and is_metadata_table(owner[1]._source.format, name[-1]) else None


def _is_own(name: Name, connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether the DuckDB connection has a table or view of that name."""
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
