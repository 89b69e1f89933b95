"""Looks at Avro and ORC files before their rows are read: the columns, and in ORC the number of rows.

Only an end of the file is read: the header of an Avro container, the footer of an ORC file.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from harness.engines.data_files import FileName, check_file, check_format, opened
from harness.engines.spark.arrow_worker import told
from harness.errors import CorruptFileError, HarnessError
from harness.metadata.files.avro import schema_of_avro
from harness.metadata.files.orc import OrcTraits, orc_traits, schema_of_orc
from harness.metadata.files.parquet_tail import TAIL_BYTES
from harness.metadata.plan.projection import PhysicalSchema
from harness.storage.stores import Storage

_FIRST_BYTES = 1 << 16


def read_head(file: FileName, file_format: str, storage: Storage, *, table: str) -> tuple[PhysicalSchema, int | None]:
    """The columns of an Avro or ORC file, and its number of rows; None: only reading the file tells (avro).

    Raises:
        UnsupportedError: another format (iceberg 7.5).
        MissingFileError, EncryptedTableError, CorruptFileError: naming the file.
    """
    check_format(file, file_format, table=table)
    check_file(file, storage, table=table)
    try:
        if file_format == "avro":
            return _avro_schema(file, storage), None
        return schema_of_orc(opened(file, storage), file=str(file))
    except HarnessError as error:
        raise error.within(table=table, file=str(file)) from error.__cause__


def read_orc_traits(file: FileName, storage: Storage) -> OrcTraits:
    """Facts of the footer of an ORC file beside its columns.

    Raises:
        MissingFileError, CorruptFileError, UnsupportedError: naming the file.
    """
    return orc_traits(opened(file, storage), file=str(file))


def _avro_schema(file: FileName, storage: Storage) -> PhysicalSchema:
    """Schemas are small as a rule; a header beyond the first bytes is read again, with twice as many."""
    length, size = _FIRST_BYTES, storage.size(file.physical)
    while length < size:
        try:
            return schema_of_avro(storage.read(file.physical, length=length), file=str(file), limits=storage.limits)
        except CorruptFileError:
            length *= 4
    return schema_of_avro(storage.read(file.physical), file=str(file), limits=storage.limits)


# What Python workers of a cluster look at before rows are read: the ends of files that the JVM does not look at.
#
# A worker imports this module and what it needs, and no engine: not Spark's Python classes, not DuckDB.


_MAGIC = 4
_FRAME = 8
_MOST = 1 << 28


@dataclass(frozen=True, slots=True)
class Head:
    """A look at an Avro or ORC file. size: in bytes. rows, orc: of ORC files."""

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
    """Looks at files, each with its format; travels to the workers."""

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
