"""What a stream says of its end where DuckDB 1.5 says no more than that it was interrupted."""

from __future__ import annotations

import pyarrow as pa
import pytest

from harness.engines.duckdb.engine import Streamed
from harness.storage import threads

FAILURE = "Conversion Error: Could not convert string 'x' to INT32"
INTERRUPTION = "INTERRUPT Error: Interrupted!"
SCHEMA = pa.schema([("v", pa.int32())])


class Relation:
    """One whose stream fails when it is made or when it is read, as some threads' failures do by chance."""

    def __init__(self, said: str, *, at_once: bool) -> None:
        self.said, self.at_once, self.runs = said, at_once, 0

    def to_arrow_reader(self, rows: int) -> pa.RecordBatchReader:
        if self.at_once:
            raise OSError(self.said)
        return pa.RecordBatchReader.from_batches(SCHEMA, self._batches())

    def _batches(self):
        yield pa.record_batch([pa.array([1], pa.int32())], SCHEMA)
        raise OSError(self.said)

    def to_arrow_table(self) -> pa.Table:
        self.runs += 1
        raise OSError(FAILURE)


def read(relation: Relation, *, asked: bool) -> None:
    stream = Streamed(relation, 10)  # type: ignore[arg-type]
    if asked:
        threads.interrupt_all()
    assert stream.read().num_rows == 1
    while stream.read() is not None:
        pass


@pytest.mark.parametrize(
    ("said", "at_once", "asked", "told", "runs"),
    [
        (INTERRUPTION, True, False, FAILURE, 1),
        (INTERRUPTION, False, False, FAILURE, 1),
        (INTERRUPTION, False, True, INTERRUPTION, 0),  # somebody wanted no more of it
        (FAILURE, False, False, FAILURE, 0),
    ],
)
def test_a_stream_says_what_failed(said, at_once, asked, told, runs):
    relation = Relation(said, at_once=at_once)
    with pytest.raises(OSError, match=told):
        read(relation, asked=asked)
    assert relation.runs == runs
