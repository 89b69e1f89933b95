"""Plans as views of a user's DuckDB, by qualified name, for tools that know nothing of plans.

The views are of the database, as only its schemas have names, while the Arrow tables of deletes and constants that they
read belong to one connection. Another connection to the same instance, such as a cursor, needs them registered too:
`Attached.bind`. A comment marks the views, so that `detach` finds them and nothing of the user's is replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import duckdb
import pyarrow as pa

from harness.engines import sqltext
from harness.engines.duckdb.lowering import Use
from harness.engines.duckdb.relations import Registrations, about, lowered
from harness.errors import RequestError
from harness.metadata.plan.scan_plan import ScanPlan
from harness.storage.records import dataclass

_MARK = "made by harness.attach"
_MARK_WITH_SCHEMA = f"{_MARK}, as was its schema"
_MAIN = "main"


@dataclass(frozen=True, slots=True)
class Attached:
    """Arrow tables by name, which views need on each connection that uses them."""

    tables: Mapping[str, pa.Table] = field(repr=False)

    def bind(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Lets another connection to the same instance, such as a cursor, use the views."""
        for name, table in self.tables.items():
            connection.register(name, table)


def attach(plans: Mapping[tuple[str | None, str], ScanPlan], connection: duckdb.DuckDBPyConnection) -> Attached:
    """Makes plans views of a connection's current database.

    Args:
        plans: by schema and name of the view; no schema is `main`. Schemas are made where they are missing; views that
            `attach` has made are replaced.

    Raises:
        RequestError: something else is there by that name, or the database cannot be written.
        HarnessError: as for `harness.engines.duckdb.relations.relation`.
    """
    registered: dict[str, pa.Table] = {}
    add = Registrations(connection).table

    def keep(table: pa.Table) -> str:
        name = add(table)
        registered[name] = table
        return name

    for (schema, name), plan in plans.items():
        place = f"{sqltext.name(schema or _MAIN)}.{sqltext.name(name)}"
        _refuse_other(schema or _MAIN, name, connection)
        with about(plan):
            query = lowered(plan, connection, keep, Use.VIEW)
        try:
            mark = _MARK_WITH_SCHEMA if _made_schema(schema or _MAIN, connection) else _MARK
            connection.execute(f"CREATE OR REPLACE VIEW {place} AS {query}")
            connection.execute(f"COMMENT ON VIEW {place} IS {sqltext.text(mark)}")
        except duckdb.Error as error:
            raise RequestError(f"Cannot make the view {schema or _MAIN}.{name}: {error}", table=plan.table) from error
    return Attached(registered)


def detach(connection: duckdb.DuckDBPyConnection) -> None:
    """Drops the views that `attach` has made, and the schemas that it made for them and that are empty then."""
    found = connection.execute(
        "SELECT schema_name, view_name, comment FROM duckdb_views() "
        "WHERE database_name = current_database() AND starts_with(comment, ?)",
        [_MARK],
    ).fetchall()
    for schema, name, _ in found:
        connection.execute(f"DROP VIEW {sqltext.name(schema)}.{sqltext.name(name)}")
    for schema in {schema for schema, _, comment in found if comment == _MARK_WITH_SCHEMA}:
        if not _holds_anything(schema, connection):
            connection.execute(f"DROP SCHEMA {sqltext.name(schema)}")


def _refuse_other(schema: str, name: str, connection: duckdb.DuckDBPyConnection) -> None:
    comments = connection.execute(
        """
        SELECT comment FROM (
            FROM duckdb_views() SELECT database_name, schema_name, view_name AS name, comment
            UNION ALL FROM duckdb_tables() SELECT database_name, schema_name, table_name, NULL)
        WHERE database_name = current_database() AND lower(schema_name) = lower(?) AND lower(name) = lower(?)
        """,
        [schema, name],
    ).fetchall()
    if any(comment is None or not comment.startswith(_MARK) for (comment,) in comments):
        raise RequestError(f"Cannot make the view {schema}.{name}: the connection has something of that name; drop it")


def _made_schema(schema: str, connection: duckdb.DuckDBPyConnection) -> bool:
    """Makes a schema that is not there; tells whether `attach` makes it, or has made it."""
    known = connection.execute(
        "SELECT count(*) FROM duckdb_schemas() "
        "WHERE database_name = current_database() AND lower(schema_name) = lower(?)",
        [schema],
    ).fetchall()
    if known == [(0,)]:
        connection.execute(f"CREATE SCHEMA {sqltext.name(schema)}")
        return True
    ours = connection.execute(
        "SELECT count(*) FROM duckdb_views() "
        "WHERE database_name = current_database() AND lower(schema_name) = lower(?) AND comment = ?",
        [schema, _MARK_WITH_SCHEMA],
    ).fetchall()
    return ours != [(0,)]


def _holds_anything(schema: str, connection: duckdb.DuckDBPyConnection) -> bool:
    return bool(
        connection.execute(
            """
            SELECT 1 FROM (
                FROM duckdb_views() SELECT database_name, schema_name
                UNION ALL FROM duckdb_tables() SELECT database_name, schema_name
                UNION ALL FROM duckdb_functions() SELECT database_name, schema_name
                UNION ALL FROM duckdb_sequences() SELECT database_name, schema_name
                UNION ALL FROM duckdb_types() SELECT database_name, schema_name)
            WHERE database_name = current_database() AND schema_name = ? LIMIT 1
            """,
            [schema],
        ).fetchall()
    )
