"""Rows as a stream of Arrow batches, for tables that are larger than memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 65_536
"""Rows of a batch where nobody asks for another number: a few megabytes of a common table."""

Context = Callable[[], AbstractContextManager[None]]
"""What is entered around each step of a read, to say more of its errors."""


class Source(Protocol):
    """Where batches come from."""

    def read(self) -> pa.RecordBatch | None:
        """The next batch; None: there are no more."""

    def close(self) -> None:
        """End the query, and let go of all that it holds."""


class Batches(Iterator["pa.RecordBatch"]):
    """The rows of one read, batch by batch as the engine produces them. None is kept.

        with snapshot.to_batches(columns=["id"]) as batches:
            for batch in batches:
                ...

    Closing it ends the query, and so does dropping it; there are no more batches then. Anything that takes an Arrow
    stream takes what is left of it, as `pyarrow.RecordBatchReader.from_stream(batches)` does.

    Attributes:
        schema: of every batch.
    """

    def __init__(self, schema: pa.Schema, source: Source, context: Context) -> None:
        self.schema = schema
        self._source: Source | None = source
        self._context = context

    def __next__(self) -> pa.RecordBatch:
        if self._source is None:
            raise StopIteration
        try:
            with self._context():
                batch = self._source.read()
        except BaseException:
            self.close()
            raise
        if batch is None:
            self.close()
            raise StopIteration
        return batch

    def close(self) -> None:
        """End the query. Closing twice is no error."""
        source, self._source = self._source, None
        if source is not None:
            source.close()

    def __enter__(self) -> Batches:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self).__arrow_c_stream__(requested_schema)
