"""A query's rows, batch by batch as DuckDB produces them."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from harness.engines.batches import Batches, Context
from harness.engines.duckdb.conform import conform_batch, conformed
from harness.engines.duckdb.engine import about
from harness.engines.duckdb.lowering import Use, lower, numbered
from harness.engines.duckdb.registrations import registrar
from harness.engines.shared.duckdb_instance import cursor
from harness.engines.shared.streamed import Streamed
from harness.model.schema import arrow_field
from harness.plan.scan_plan import ScanPlan


def batches(plan: ScanPlan, *, rows: int, context: Context) -> Batches:
    """The rows of a plan as a stream, in the types that `to_arrow` gives; row order is open.

    Footers and deletes are read now, rows as they are asked for: DuckDB runs ahead by no more than its streaming buffer
    (a megabyte), and stops when the stream is closed.

    Args:
        plan: what to read.
        rows: of a batch, at most; DuckDB fills whole vectors.
        context: entered around each read of the stream.

    Raises:
        HarnessError: as `harness.engines.duckdb.engine.to_arrow`, also while the stream is read.
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
