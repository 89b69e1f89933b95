"""Rows as a stream: the same rows as in one table, batches of limited size, and an end when the stream is closed."""

import gc
import os
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from harness.engines.duckdb.engine import RelationStream
from harness.engines.registry import Batches
from harness.errors import CorruptFileError, RequestError
from harness.snapshot import Snapshot
from harness.storage import threads
from harness.table import open_table
from harness.writing.iceberg.builder import IcebergTable

MANY = 150_000
ENDLESS = 1_000_000  # rows of a file; DuckDB's threads may read the rest of MANY into the streaming buffer


def two_files(directory: Path, rows: int) -> Snapshot:
    t = IcebergTable.create(directory / "t", {"id": "long", "s": "string"})
    files = [t.write_data(pa.table({"id": np.arange(i, i + rows), "s": pa.repeat("text", rows)})) for i in (0, rows)]
    t.append(*files)
    t.commit(add=[t.write_position_deletes([(files[1], 0), (files[1], rows - 1)])])
    return open_table(t.location).snapshot()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return two_files(tmp_path_factory.mktemp("large"), MANY)


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return two_files(tmp_path_factory.mktemp("endless"), ENDLESS)


def open_files(snapshot: Snapshot) -> list[str]:
    links = [Path(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    opened = [os.readlink(link) for link in links if os.path.lexists(link)]
    return [path for path in opened if path.startswith(str(Path(snapshot._source.location).resolve()))]


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not list open files")


def test_a_stream_has_all_rows_in_batches_of_at_most_the_size_asked_for(large: Snapshot) -> None:
    with large.to_batches(columns=["id"], batch_rows=50_000) as batches:
        sizes, ids = [], []
        for batch in batches:
            sizes.append(batch.num_rows)
            ids += batch.column("id").to_pylist()
    assert max(sizes) <= 50_000
    assert sorted(ids) == [i for i in range(2 * MANY) if i not in (MANY, 2 * MANY - 1)]


@needs_proc
@pytest.mark.parametrize("end", ["close", "leave the block", "drop"])
def test_ending_a_stream_early_ends_its_query(endless: Snapshot, end: str) -> None:
    batches: Batches | None = endless.to_batches(batch_rows=2048)
    assert batches is not None
    next(batches)
    assert open_files(endless)
    match end:
        case "close":
            batches.close()
            batches.close()
        case "leave the block":
            with batches:
                pass
        case _:
            batches = None
            gc.collect()
    assert not open_files(endless)
    assert list(batches or ()) == []


@needs_proc
def test_a_consumer_of_arrow_streams_reads_a_snapshot_in_batches(endless: Snapshot) -> None:
    reader = pa.RecordBatchReader.from_stream(endless)
    assert reader.read_next_batch().num_rows < ENDLESS
    assert open_files(endless)
    reader.close()
    assert not open_files(endless)


def damaged(tmp_path: Path) -> tuple[Snapshot, Path]:
    """Return a table whose second file has damaged pages. Its footer is intact."""
    t = IcebergTable.create(tmp_path / "t", {"id": "long"})
    first = t.write_data(pa.table({"id": np.arange(MANY)}))
    second = t.write_data(pa.table({"id": np.arange(MANY)}))
    t.append(first, second)
    data = bytearray(second.file.read_bytes())
    data[4:4000] = bytes(3996)
    second.file.write_bytes(data)
    return open_table(t.location).snapshot(), second.file


def test_a_damaged_file_is_an_error_while_the_stream_is_read(tmp_path: Path) -> None:
    snapshot, file = damaged(tmp_path)
    with pytest.raises(CorruptFileError, match=file.name):
        list(snapshot.to_batches())
    with pytest.raises((CorruptFileError, pa.ArrowException), match=file.name):
        pa.table(snapshot)


@pytest.mark.parametrize("batch_rows", [0, -1, 1.5, True, "8"])
def test_an_invalid_batch_size_is_refused(large: Snapshot, batch_rows: Any) -> None:
    with pytest.raises(RequestError, match="batch_rows"):
        large.to_batches(batch_rows=batch_rows)


# -- interrupts: DuckDB 1.5 reports only that a stream was interrupted -------------------------------------------------

FAILURE = "Conversion Error: Could not convert string 'x' to INT32"
INTERRUPTION = "INTERRUPT Error: Interrupted!"
SCHEMA = pa.schema([("v", pa.int32())])


class Relation:
    """A relation whose stream fails when it is created or read, as happens by chance if a thread fails."""

    def __init__(self, failure: str, *, at_once: bool) -> None:
        self.failure, self.at_once, self.runs = failure, at_once, 0

    def to_arrow_reader(self, rows: int) -> pa.RecordBatchReader:
        if self.at_once:
            raise OSError(self.failure)
        return pa.RecordBatchReader.from_batches(SCHEMA, self._batches())

    def _batches(self):
        yield pa.record_batch([pa.array([1], pa.int32())], SCHEMA)
        raise OSError(self.failure)

    def to_arrow_table(self) -> pa.Table:
        self.runs += 1
        raise OSError(FAILURE)


def test_a_closed_connection_keeps_no_query_from_being_ended():
    class Query:
        is_ended = False

        def interrupt(self) -> None:
            self.is_ended = True

    closed, query = threads.track(duckdb.connect()), threads.track(Query())
    closed.close()
    threads.interrupt_all()
    assert query.is_ended


def read_to_the_end(relation: Relation, *, interrupted: bool) -> None:
    stream = RelationStream(relation, 10)  # type: ignore[arg-type]
    if interrupted:
        threads.interrupt_all()
    assert stream.read().num_rows == 1
    while stream.read() is not None:
        pass


@pytest.mark.parametrize(
    ("failure", "at_once", "interrupted", "message", "runs"),
    [
        (INTERRUPTION, True, False, FAILURE, 1),
        (INTERRUPTION, False, False, FAILURE, 1),
        (INTERRUPTION, False, True, INTERRUPTION, 0),  # the consumer stopped reading
        (FAILURE, False, False, FAILURE, 0),
    ],
)
def test_a_stream_raises_the_original_failure(failure, at_once, interrupted, message, runs):
    relation = Relation(failure, at_once=at_once)
    with pytest.raises(OSError, match=message):
        read_to_the_end(relation, interrupted=interrupted)
    assert relation.runs == runs
