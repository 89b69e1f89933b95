"""The DuckDB engine: runs a `ScanPlan` as one SQL query, with DuckDB's own Parquet reader where that reads right.

This module is what `harness.engines.registry.DuckDBEngine` says, and has the streams of rows. `lowering` puts a query
together out of `scans`, which open file groups and apply equality deletes, and `columns`, which translate values.
`relations` and `queries` run queries on connections; `instance` makes these.
"""

from __future__ import annotations

import duckdb
import pyarrow as pa

from harness.engines.column_values import conform_batch, conformed
from harness.engines.duckdb import attached, relations
from harness.engines.duckdb.attached import attach
from harness.engines.duckdb.failures import engine_error
from harness.engines.duckdb.instance import connect, cursor, interruptions
from harness.engines.duckdb.lowering import Use, lower, numbered
from harness.engines.duckdb.queries import columns_of, filled, moment, query, query_text, syntax_trees
from harness.engines.duckdb.relations import (
    about,
    register,
    registrar,
    relation,
    to_arrow,
    zoned,
)
from harness.engines.registry import Batches, Context
from harness.metadata.model.schema import arrow_field
from harness.metadata.plan.scan_plan import ScanPlan

__all__ = [
    "attach",
    "batches",
    "columns_of",
    "connect",
    "cursor",
    "engine_error",
    "filled",
    "moment",
    "name",
    "query",
    "query_text",
    "register",
    "relation",
    "release",
    "syntax_trees",
    "to_arrow",
    "version",
    "zoned",
]


def release(connection: duckdb.DuckDBPyConnection) -> None:
    """Take away views that were attached, and what other reads have left, but for what the user's own views need."""
    attached.detach(connection)
    relations.release(connection)


# If one thread of a query fails while others run, DuckDB 1.5 tells the reader of a stream at times that the query was
# interrupted, and not what failed: 3 of 150 times on two threads. The same query without a stream always tells it.
_INTERRUPTED = "INTERRUPT Error"


class Streamed:
    """The rows of a relation that can be run again, batch by batch while DuckDB goes on.

    Args:
        relation: on a connection of harness, which nobody else interrupts.
        rows: of a batch, at most.

    Raises:
        duckdb.Error, pa.ArrowException, OSError: DuckDB cannot compute a row; of a stream that runs they are OSErrors.
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


def batches(plan: ScanPlan, *, rows: int, context: Context) -> Batches:
    """The rows of a plan as a stream, in the types that `to_arrow` gives; row order is open.

    Footers and deletes are read now, rows as they are asked for: DuckDB runs ahead by no more than its streaming buffer
    (a megabyte), and stops when the stream is closed.

    Args:
        plan: what to read.
        rows: of a batch, at most; DuckDB fills whole vectors.
        context: entered around each read of the stream.

    Raises:
        HarnessError: as `harness.engines.duckdb.relations.to_arrow`, also while the stream is read.
    """
    connection = cursor()
    try:
        with about(plan):
            query = numbered(lower(plan, connection, registrar(connection), Use.STREAM), plan)
            stream = Streamed(connection.sql(query), rows)
            schema = conformed(pa.schema([arrow_field(f) for f in plan.columns]))
    except BaseException:
        connection.close()
        raise
    return Batches(schema, _Running(plan, connection, stream, schema), context)


class _Running:
    """A query that runs on a connection of its own."""

    def __init__(
        self, plan: ScanPlan, connection: duckdb.DuckDBPyConnection, stream: Streamed, schema: pa.Schema
    ) -> None:
        self._plan, self._connection, self._stream, self._schema = plan, connection, stream, schema

    def read(self) -> pa.RecordBatch | None:
        """The next batch; None: there are no more."""
        with about(self._plan):
            batch = self._stream.read()
            return None if batch is None else conform_batch(batch, self._schema)

    def close(self) -> None:
        """End the query, with what is registered for it."""
        self._stream.close()
        self._connection.close()


name = "duckdb"


def version() -> str:
    """The version of DuckDB."""
    return duckdb.__version__
