"""The DuckDB engine: runs a `ScanPlan` as one SQL query, with DuckDB's own Parquet reader where that reads right.

`lowering` puts a query together out of `scans` and `columns`; `relations` runs queries on connections of `instance`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import duckdb
import pyarrow as pa

from harness.engines.column_values import conform_batch, conformed
from harness.engines.duckdb import relations
from harness.engines.duckdb.instance import cursor
from harness.engines.duckdb.lowering import Use, lower, numbered
from harness.engines.duckdb.relations import Registrations, about, limited, lowered, query, registrar, to_arrow
from harness.engines.registry import Batches, Context, Engine
from harness.errors import RequestError
from harness.metadata.filters import sqltext
from harness.metadata.model.schema import arrow_field
from harness.metadata.planned_scan import PlannedScan
from harness.storage.records import dataclass
from harness.storage.threads import interruptions

# Plans as views of a user's DuckDB, by qualified name, for tools that know nothing of plans.
#
# The views belong to the database, the Arrow tables of deletes and constants that they read to one connection. Another
# connection to the instance, such as a cursor, needs these registered too: `Attached.bind`. A comment marks the views,
# so that `release` finds them and replaces nothing of the user's.


_MARK = "made by harness.attach"
_MARK_WITH_SCHEMA = f"{_MARK}, as was its schema"


@dataclass(frozen=True, slots=True)
class Attached:
    """Arrow tables by name, which views need on each connection that uses them."""

    tables: Mapping[str, pa.Table] = field(repr=False)

    def bind(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Lets another connection to the same instance, such as a cursor, use the views."""
        for name, table in self.tables.items():
            connection.register(name, table)


def attach(plans: Mapping[tuple[str | None, str], PlannedScan], connection: duckdb.DuckDBPyConnection) -> Attached:
    """Makes plans views of a connection's current database.

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

    for (given, name), plan in plans.items():
        schema = given or "main"
        place = f"{sqltext.name(schema)}.{sqltext.name(name)}"
        _refuse_other(schema, name, connection)
        with about(plan):
            query = lowered(plan, connection, keep, Use.VIEW)
        try:
            mark = _MARK_WITH_SCHEMA if _made_schema(schema, connection) else _MARK
            connection.execute(f"CREATE OR REPLACE VIEW {place} AS {query}")
            connection.execute(f"COMMENT ON VIEW {place} IS {sqltext.text(mark)}")
        except duckdb.Error as error:
            raise RequestError(f"Cannot make the view {schema}.{name}: {error}", table=plan.table) from error
    return Attached(registered)


def release(connection: duckdb.DuckDBPyConnection) -> None:
    """Takes away the views and schemas of `attach`, and what other reads left; what the user's views need stays."""
    found = connection.execute(
        "SELECT schema_name, view_name, comment FROM duckdb_views() "
        "WHERE database_name = current_database() AND starts_with(comment, ?)",
        [_MARK],
    ).fetchall()
    for schema, name, _ in found:
        connection.execute(f"DROP VIEW {sqltext.name(schema)}.{sqltext.name(name)}")
    for schema in {schema for schema, _, comment in found if comment == _MARK_WITH_SCHEMA}:
        rest = connection.execute(
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
        )
        if not rest.fetchall():
            connection.execute(f"DROP SCHEMA {sqltext.name(schema)}")
    relations.release(connection)


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


# If one thread of a query fails while others run, DuckDB 1.5 tells the reader of a stream at times that the query was
# interrupted, and not what failed: 3 of 150 times on two threads. The same query without a stream always tells it.
_INTERRUPTED = "INTERRUPT Error"


class Streamed:
    """The rows of a relation that can be run again, batch by batch while DuckDB goes on.

    Args:
        relation: on a connection of harness, which nobody else interrupts.
        rows: of a batch, at most.

    Raises duckdb.Error, pa.ArrowException, OSError: DuckDB cannot compute a row; an OSError of a stream that runs.
    """

    def __init__(self, relation: duckdb.DuckDBPyRelation, rows: int) -> None:
        self._relation, self._asked = relation, interruptions()
        try:
            self._reader = relation.to_arrow_reader(rows)
        except Exception as error:
            self._tell(error)
            raise
        self.schema: pa.Schema = self._reader.schema

    def read(self) -> pa.RecordBatch | None:
        """The next batch; None: there are no more. Raises as the class does."""
        try:
            return next(self._reader, None)
        except (pa.ArrowException, OSError) as error:
            self._tell(error)
            raise

    def close(self) -> None:
        """End the query."""
        self._reader.close()

    def _tell(self, error: Exception) -> None:
        """Raises what failed, if `error` hides it: nobody asked for an end. Ends with the row that fails, as before."""
        if _INTERRUPTED in str(error) and interruptions() == self._asked:
            self._relation.to_arrow_table()


def batches(plan: PlannedScan, *, rows: int, context: Context) -> Batches:
    """The rows of a plan as a stream, in the types that `to_arrow` gives; raises as that, also while it is read.

    Footers and deletes are read now, rows as they are asked for: DuckDB runs ahead by no more than its streaming buffer
    (a megabyte), and stops when the stream is closed.

    rows: of a batch, at most; DuckDB fills whole vectors. context: entered around each read of the stream.
    """
    connection = cursor()
    try:
        with about(plan):
            query = numbered(lower(plan, connection, registrar(connection), Use.STREAM), plan)
            stream = Streamed(connection.sql(limited(query, plan)), rows)
            schema = conformed(pa.schema([arrow_field(f) for f in plan.columns]))
    except BaseException:
        connection.close()
        raise

    def read() -> pa.RecordBatch | None:
        with about(plan):
            batch = stream.read()
            return None if batch is None else conform_batch(batch, schema)

    def close() -> None:
        stream.close()
        connection.close()

    return Batches(schema, read, close, context)


ENGINE = Engine(name="duckdb", version=lambda: duckdb.__version__, to_arrow=to_arrow, dialect="duckdb", query=query)
