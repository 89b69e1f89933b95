"""`USE sales` and `SHOW TABLES` on a connection, whose namespaces are a catalog's beside DuckDB's own schemas."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

import duckdb

from harness.catalogs.names import Name, parse_name, written
from harness.catalogs.together import Together
from harness.connections.tables import Tables
from harness.engines.shared.sqltext import text as literal
from harness.errors import AmbiguousTableError, TableNotFoundError
from harness.filters.column_names import quoted

_SPACE = r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*"
_NAME = r"""(?P<name>(?:"(?:[^"]|"")+"|[^\s".]+)(?:\.(?:"(?:[^"]|"")+"|[^\s".]+))*)"""
_USE = re.compile(rf"{_SPACE}USE\s+{_NAME}{_SPACE}", re.IGNORECASE | re.DOTALL)
_SHOW = re.compile(
    rf"{_SPACE}SHOW\s+(?:(?P<what>TABLES|SCHEMAS|NAMESPACES)(?:\s+(?:FROM|IN)\s+{_NAME})?|DATABASES|CATALOGS){_SPACE}",
    re.IGNORECASE | re.DOTALL,
)
_SHOW_TABLE = re.compile(rf"{_SPACE}SHOW\s+{_NAME}{_SPACE}", re.IGNORECASE | re.DOTALL)
_SHOWN = ("TABLES", "SCHEMAS", "NAMESPACES", "DATABASES", "CATALOGS", "VARIABLES")
"""What SHOW lists, and does not describe."""


def as_described(text: str) -> str:
    """`SHOW orders` as DESCRIBE, which is the same to DuckDB and can be parsed; other statements as they are."""
    found = _SHOW_TABLE.fullmatch(text)
    return text if found is None or found["name"].upper() in _SHOWN else f"DESCRIBE {found['name']}"


def used(text: str, tables: Tables, connection: duckdb.DuckDBPyConnection) -> tuple[str, Tables] | None:
    """What DuckDB runs of a USE statement, and the tables with the namespace that it chooses; None: it is none.

    Raises:
        TableNotFoundError: neither the catalog nor DuckDB has such a namespace; the message has the nearest names.
        AmbiguousTableError: there are several.
        RequestError: the name is none.
        StorageError: the catalog does not answer.
    """
    found = _USE.fullmatch(text)
    if found is None or tables.catalog is None:
        return None
    chosen = _chosen(parse_name(found["name"]), tables, connection)
    if chosen is None:
        return text, replace(tables, within=())
    return f"USE {_current(connection)}", chosen


def shown(text: str, tables: Tables, connection: duckdb.DuckDBPyConnection) -> str | None:
    """What DuckDB runs in place of SHOW TABLES, SCHEMAS or DATABASES, which lists the catalog's too; None: it is none.

    Raises:
        As `used`.
    """
    found = _SHOW.fullmatch(text)
    if found is None or tables.catalog is None:
        return None
    name = None if found["name"] is None else parse_name(found["name"])
    if found["what"] is None:
        own = "SELECT database_name FROM duckdb_databases() WHERE NOT internal"
        catalogs = sorted(tables.catalog.configured) if isinstance(tables.catalog, Together) else [tables.catalog.name]
        return _listing(own, ((each,) for each in catalogs), "database_name")
    inside = None if name is None else _chosen(name, tables, connection)
    if found["what"].upper() == "TABLES":
        if name is None:
            names = (written(each) for each in tables.names(everywhere=False))
            return _listing("SELECT name FROM (SHOW TABLES)", ((each,) for each in names), "name")
        if inside is None:
            return text
        return _listing(None, (each[-1:] for each in tables.catalog.tables(inside.within)), "name")
    if name is not None and inside is None:
        return f"SELECT * FROM (SHOW SCHEMAS) WHERE lower(database_name) = {literal(name[0].lower())}"
    schemas = None if name is not None else "SELECT database_name, schema_name FROM (SHOW SCHEMAS)"
    return _listing(schemas, _namespaces(tables, inside), "database_name, schema_name")


def _chosen(name: Name, tables: Tables, connection: duckdb.DuckDBPyConnection) -> Tables | None:
    """The tables with names in that namespace; None: it is one of DuckDB's own. Raises as `used`."""
    is_own = _is_own(name, connection)
    try:
        chosen = tables.inside(name, is_taken=is_own)
    except TableNotFoundError as error:
        if is_own and error.cause == "NoSuchNamespace":
            return None
        raise
    if is_own:
        raise AmbiguousTableError(
            f"Namespace {written(name)} is both {tables.qualified(chosen.within)} and a schema of this connection: "
            "write the catalog or the database before it",
            cause="AmbiguousName",
        )
    return chosen


def _namespaces(tables: Tables, inside: Tables | None) -> Iterable[tuple[str, str]]:
    """Catalogs and namespaces, those directly in the one that is meant, or directly in the catalogs."""
    catalog = tables.catalog
    assert catalog is not None, "what is in nothing is not found"
    outer = [()] if inside is None else [inside.within]
    if inside is None and isinstance(catalog, Together):
        outer = [tables.within[:1]] if tables.within else list(catalog.namespaces())
    for each in (inner for namespace in outer for inner in catalog.namespaces(namespace)):
        whole = (catalog.name, *each) if catalog.name else each
        yield whole[0], written(whole[1:])


def _listing(own: str | None, rows: Iterable[tuple[str, ...]], columns: str) -> str:
    """A query for rows of names besides those of `own`."""
    values = ", ".join(f"({', '.join(map(literal, row))})" for row in rows)
    parts = [own] if own is not None else []
    parts += [f"VALUES {values}"] if values else []
    if not parts:
        empty = ", ".join("''" for _ in columns.split(","))
        return f"SELECT * FROM (VALUES ({empty})) AS t({columns}) WHERE false"
    return f"SELECT * FROM ({' UNION ALL '.join(parts)}) AS t({columns}) ORDER BY ALL"


def _is_own(name: Name, connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether DuckDB itself has a database or a schema of that name."""
    rows = connection.execute("SELECT lower(database_name), lower(schema_name) FROM duckdb_schemas()").fetchall()
    folded = tuple(part.lower() for part in name)
    return any(folded in ((database,), (schema,), (database, schema)) for database, schema in rows)


def _current(connection: duckdb.DuckDBPyConnection) -> str:
    """The schema that DuckDB is in: to choose it changes nothing, and answers as USE does."""
    (row,) = connection.execute("SELECT current_database(), current_schema()").fetchall()
    return ".".join(map(quoted, row))
