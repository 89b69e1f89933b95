"""The DuckDB engine: runs a `ScanPlan` as one SQL query.

DuckDB's own Parquet reader is used if it returns the right values. `lowering` builds the query from `scans` and
`columns`, and `relations` runs queries on the connections of `instance`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import duckdb
import pyarrow as pa

from harness.engines.column_values import conform_batch, nullable_schema
from harness.engines.duckdb import relations
from harness.engines.duckdb.instance import cursor
from harness.engines.duckdb.lowering import QueryUse, lower, with_numbered_columns
from harness.engines.duckdb.relations import Registrations, limited, lowered, naming_table, query, registrar, to_arrow
from harness.engines.registry import Batches, Context, Engine
from harness.errors import RequestError
from harness.metadata.filters import sqltext
from harness.metadata.model.schema import arrow_field
from harness.metadata.planned_scan import PlannedScan
from harness.storage.records import dataclass
from harness.storage.threads import interruptions

# Views for plans in a user's database, for tools that know nothing about plans.
#
# The views belong to the database. The Arrow tables with deletes and constants that the views read belong to one
# connection; every other connection to the instance, including a cursor, has to register them too
# (`AttachedTables.bind`). A comment marks the views, so that `release` drops only views that harness created.


_MARK = "made by harness.attach"
_MARK_WITH_SCHEMA = f"{_MARK}, as was its schema"


@dataclass(frozen=True, slots=True)
class AttachedTables:
    """The Arrow tables by name that every connection has to register before it uses the views."""

    tables: Mapping[str, pa.Table] = field(repr=False)

    def bind(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Register the tables on another connection to the same instance, for example a cursor."""
        for name, table in self.tables.items():
            connection.register(name, table)


def attach(
    plans: Mapping[tuple[str | None, str], PlannedScan], connection: duckdb.DuckDBPyConnection
) -> AttachedTables:
    """Create or replace a view of each plan in the current database of a connection.

    Args:
        plans: The plans by schema and name of the view. The schema None means `main`. A missing schema is created.
        connection: The user's connection.

    Raises:
        RequestError: Another object has a view's name, or the database is read-only.
        HarnessError: The errors of `harness.engines.duckdb.relations.relation`.
    """
    registered: dict[str, pa.Table] = {}
    add = Registrations(connection).table

    def keep(table: pa.Table) -> str:
        name = add(table)
        registered[name] = table
        return name

    for (schema_name, name), plan in plans.items():
        schema = schema_name or "main"
        place = f"{sqltext.name(schema)}.{sqltext.name(name)}"
        _refuse_foreign_object(schema, name, connection)
        with naming_table(plan):
            query = lowered(plan, connection, keep, QueryUse.VIEW)
        try:
            mark = _MARK_WITH_SCHEMA if _create_schema(schema, connection) else _MARK
            connection.execute(f"CREATE OR REPLACE VIEW {place} AS {query}")
            connection.execute(f"COMMENT ON VIEW {place} IS {sqltext.text(mark)}")
        except duckdb.Error as error:
            raise RequestError(f"Cannot make the view {schema}.{name}: {error}", table=plan.table) from error
    return AttachedTables(registered)


def release(connection: duckdb.DuckDBPyConnection) -> None:
    """Drop the views and schemas that `attach` created and the objects that other reads created on a connection.

    Objects that the user's own views depend on are kept.
    """
    views = connection.execute(
        "SELECT schema_name, view_name, comment FROM duckdb_views() "
        "WHERE database_name = current_database() AND starts_with(comment, ?)",
        [_MARK],
    ).fetchall()
    for schema, name, _ in views:
        connection.execute(f"DROP VIEW {sqltext.name(schema)}.{sqltext.name(name)}")
    for schema in {schema for schema, _, comment in views if comment == _MARK_WITH_SCHEMA}:
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


def _refuse_foreign_object(schema: str, name: str, connection: duckdb.DuckDBPyConnection) -> None:
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
        raise RequestError(f"Cannot make the view {schema}.{name}: another object has this name; drop it")


def _create_schema(schema: str, connection: duckdb.DuckDBPyConnection) -> bool:
    """Create a schema unless it exists. Return True if this call or an earlier call of `attach` created it."""
    schemas = connection.execute(
        "SELECT count(*) FROM duckdb_schemas() "
        "WHERE database_name = current_database() AND lower(schema_name) = lower(?)",
        [schema],
    ).fetchall()
    if schemas == [(0,)]:
        connection.execute(f"CREATE SCHEMA {sqltext.name(schema)}")
        return True
    ours = connection.execute(
        "SELECT count(*) FROM duckdb_views() "
        "WHERE database_name = current_database() AND lower(schema_name) = lower(?) AND comment = ?",
        [schema, _MARK_WITH_SCHEMA],
    ).fetchall()
    return ours != [(0,)]


# If one thread of a query fails while others run, DuckDB 1.5 may report an interrupted query to the reader of a stream
# instead of the failure (3 of 150 times with two threads). Without a stream DuckDB always reports the failure.
_INTERRUPTED = "INTERRUPT Error"


class RelationStream:
    """The rows of a relation as a stream of batches. DuckDB computes the next rows meanwhile.

    The relation must be repeatable, because it is run again to find the cause of an interrupt.

    Attributes:
        schema: The schema of the batches.

    Args:
        relation: A relation on an internal connection, which only harness interrupts.
        rows: The most rows in a batch.

    Raises:
        duckdb.Error, pa.ArrowException, OSError: DuckDB cannot compute a row. A running stream raises OSError.
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
        """Return the next batch, or None at the end. Raises the errors of the class."""
        try:
            return next(self._reader, None)
        except (pa.ArrowException, OSError) as error:
            self._tell(error)
            raise

    def close(self) -> None:
        """End the query."""
        self._reader.close()

    def _tell(self, error: Exception) -> None:
        """Re-raise the original failure if `error` only reports the interrupt that the failure caused."""
        if _INTERRUPTED in str(error) and interruptions() == self._asked:
            self._relation.to_arrow_table()


def batches(plan: PlannedScan, *, rows: int, context: Context) -> Batches:
    """Return the rows of a plan as a stream, in the types of `to_arrow`.

    Footers and deletes are read at once, and rows on demand. DuckDB computes ahead until its streaming buffer (1 MB) is
    full, and stops when the stream is closed.

    Args:
        plan: The plan.
        rows: The most rows in a batch, which DuckDB fills with whole vectors.
        context: A context that is entered around each read of the stream.

    Raises:
        HarnessError: The errors of `to_arrow`, also while the stream is read.
    """
    connection = cursor()
    try:
        with naming_table(plan):
            query = with_numbered_columns(lower(plan, connection, registrar(connection), QueryUse.STREAM), plan)
            stream = RelationStream(connection.sql(limited(query, plan)), rows)
            schema = nullable_schema(pa.schema([arrow_field(f) for f in plan.columns]))
    except BaseException:
        connection.close()
        raise

    def read() -> pa.RecordBatch | None:
        with naming_table(plan):
            batch = stream.read()
            return None if batch is None else conform_batch(batch, schema)

    def close() -> None:
        stream.close()
        connection.close()

    return Batches(schema, read, close, context)


ENGINE = Engine(name="duckdb", version=lambda: duckdb.__version__, to_arrow=to_arrow, dialect="duckdb", query=query)
