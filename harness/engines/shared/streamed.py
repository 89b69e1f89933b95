"""A relation's rows as a stream that tells why it ended.

If one thread of a query fails while others run, DuckDB 1.5 tells the reader of a stream at times that the query was
interrupted, and not what failed: 3 of 150 times on two threads. The same query without a stream always tells it, and so
does 2.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from harness.engines.shared.running_queries import interruptions

if TYPE_CHECKING:
    import duckdb

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
