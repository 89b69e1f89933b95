"""What Python workers of a cluster look at before rows are read: the ends of files that the JVM does not look at.

A worker imports this module and what it needs, and no engine: not Spark's Python classes, not DuckDB.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from harness.engines.shared.arrow_worker import told
from harness.engines.shared.data_files import FileName, check_file
from harness.engines.shared.heads import read_head, read_orc_traits
from harness.errors import HarnessError
from harness.files.orc import OrcTraits
from harness.files.parquet_tail import TAIL_BYTES
from harness.plan.projection import PhysicalSchema
from harness.storage.stores import Storage

_MAGIC = 4
_FRAME = 8
_MOST = 1 << 28


@dataclass(frozen=True, slots=True)
class Head:
    """What is known of an Avro or ORC file. size: in bytes. rows, orc: of ORC files."""

    size: int
    schema: PhysicalSchema
    rows: int | None
    orc: OrcTraits | None


@dataclass(frozen=True, slots=True)
class Ends:
    """The first four bytes and the end of a Parquet file, which has all of its footer. size: of the file, in bytes."""

    size: int
    head: bytes
    tail: bytes


@dataclass(frozen=True, slots=True)
class HeadReader:
    """Which files are looked at, each with its format; travels to the workers."""

    files: tuple[tuple[FileName, str], ...]
    storage: Storage
    table: str
    table_format: str

    def batches(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Number and pickled look of each of these files: Head, Ends, or the text of an error (`arrow_worker.told`)."""
        for batch in numbers:
            wanted = batch.column(0).to_pylist()
            looks = [pickle.dumps(self._look(number)) for number in wanted]
            yield pa.RecordBatch.from_arrays(
                [pa.array(wanted, pa.int64()), pa.array(looks, pa.binary())], ["n", "look"]
            )

    def _look(self, number: int) -> Head | Ends | str:
        file, file_format = self.files[number]
        try:
            if file_format == "parquet":
                return self._ends(file)
            schema, rows = read_head(file, file_format, self.storage, table=self.table)
            traits = read_orc_traits(file, self.storage) if file_format == "orc" else None
            return Head(self.storage.size(file.physical), schema, rows, traits)
        except HarnessError as error:
            return str(told(error.within(table=self.table, format=self.table_format)))

    def _ends(self, file: FileName) -> Ends:
        check_file(file, self.storage, table=self.table)
        size = self.storage.size(file.physical)
        head = self.storage.read(file.physical, length=_MAGIC)
        tail = self._end(file, size, TAIL_BYTES)
        needed = int.from_bytes(tail[-_FRAME:-_MAGIC], "little") + _FRAME
        if len(tail) < needed <= min(size, _MOST):
            tail = self._end(file, size, needed)
        return Ends(size, head, tail)

    def _end(self, file: FileName, size: int, length: int) -> bytes:
        return self.storage.read(file.physical, offset=max(0, size - length), length=min(size, length))


def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Gives the batches back. A Python that runs this can import the module."""
    return batches
