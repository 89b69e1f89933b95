"""Code that runs in a cluster's Python workers. It reads whole files and returns record batches of bounded size.

A worker imports this module and its dependencies but no engine: neither Spark's Python classes nor DuckDB.
"""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.engines.data_files import (
    FileName,
    check_file,
    check_format,
    corrupt_file,
    load,
    load_parquet,
    open_stream,
    with_canonical_geometries,
)
from harness.errors import CorruptFileError, HarnessError
from harness.metadata.files.avro import schema_of_avro
from harness.metadata.files.orc import OrcTraits, orc_traits, schema_of_orc
from harness.metadata.files.parquet_footer import TAIL_BYTES
from harness.metadata.model.arrow_values import child_types, children_of, with_children
from harness.metadata.model.file_schema import PhysicalSchema
from harness.metadata.model.schema import Field
from harness.metadata.plan.projection import ColumnSource, FileColumn
from harness.storage.stores import Storage

Use: TypeAlias = "Mapping[int, Use] | None"
"""The parts of a column that are read, by index. None for all parts."""


def column_uses(sources: Iterable[ColumnSource]) -> dict[int, Use]:
    """Return the parts of each column that are read, for the columns of one level."""
    uses: dict[int, Use] = {}
    for source in sources:
        if isinstance(source, FileColumn):
            whole = source.place in uses or not source.parts
            uses[source.place] = None if whole else column_uses(source.parts)
    return uses


def reshape(array: pa.Array, target: pa.DataType, use: Use) -> pa.Array:
    """Convert an array to a declared type by position, regardless of the names of nested fields.

    Parts that are not read become nulls. Times and timestamps become integers in their own unit if `target` is an
    integer type. Time zone flags never change a value.

    Args:
        array: The array.
        target: The declared type.
        use: The parts that are read.

    Raises:
        pa.ArrowException: A value does not fit the type.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if not pa.types.is_nested(target):
        return _single(array, target)
    if pa.types.is_map(target) and use is not None:
        use = {0: None, **use}  # a map needs its keys
    parts = []
    for place, (child, type_) in enumerate(zip(children_of(array), child_types(target), strict=True)):
        if use is None or place in use:
            parts.append(reshape(child, type_, None if use is None else use[place]))
        else:
            parts.append(pa.nulls(len(child), type_))
    return with_children(array, parts, target)


def _single(array: pa.Array, target: pa.DataType) -> pa.Array:
    stored = array.type
    if stored == target:
        return array
    if pa.types.is_timestamp(target):
        if stored.unit not in ("us", "ms"):
            raise pa.ArrowInvalid(f"a timestamp in {stored.unit} cannot be returned in microseconds")
        values = array.view(pa.int64())
        return (values if stored.unit == "us" else pc.multiply_checked(values, 1000)).view(target)
    if pa.types.is_integer(target) and (pa.types.is_time(stored) or pa.types.is_timestamp(stored)):
        return array.view(pa.int32() if pa.types.is_time32(stored) else pa.int64()).cast(target)
    if pa.types.is_float16(stored) and pa.types.is_binary(target):
        return array.view(pa.binary(2)).cast(target)
    return array.cast(target)


_ERROR_PARTS = ("cause", "table", "snapshot", "file", "field", "rule", "options")
_BATCH_ROWS = 16_384
_BATCH_BYTES = 16 << 20


class WorkerError(Exception):
    """A HarnessError in the form that a worker raises: its text, followed by its encoded fields."""


def worker_error(error: HarnessError) -> WorkerError:
    """Return the exception that represents a HarnessError on an executor."""
    parts = {"class": type(error).__name__, "message": error.message} | {p: getattr(error, p) for p in _ERROR_PARTS}
    encoded = base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()
    return WorkerError(f"{error} [harness:{encoded}]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowFile:
    """A file to read on an executor.

    Attributes:
        name: The file.
        exact_rows: The row count that the file must have. None for any.
        deleted: The positions of its deleted rows, encoded by `pack_positions`. None if no row is deleted.
    """

    name: FileName
    exact_rows: int | None = None
    deleted: bytes | None = None


def pack_positions(positions: npt.NDArray[np.uint64]) -> bytes:
    """Encode ascending positions for workers: compressed differences, which can be decoded without a bitmap library."""
    return zlib.compress(np.diff(positions, prepend=np.uint64(0)).tobytes(), level=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReader:
    """Reads files with one physical schema. Instances are pickled and sent to the workers.

    Attributes:
        files: The files.
        file_format: Their format.
        schema: Their physical schema.
        fields: All fields to read, including stored row lineage.
        sources: For each field, its place in the files.
        uses: By column index, the parts of the column that are read.
        types: By column index, the Arrow type of the column.
        constants: One row per file, unless it has no columns. The values should be small, because every row carries
            them.
        storage: The storage that reads the files.
        table: The table's location, for errors.
        table_format: The table's format, for errors.
    """

    files: tuple[ArrowFile, ...]
    file_format: str
    schema: PhysicalSchema
    fields: tuple[Field, ...]
    sources: tuple[ColumnSource, ...]
    uses: Mapping[int, Use]
    types: Mapping[int, pa.DataType]
    constants: pa.Table
    storage: Storage
    table: str
    table_format: str

    def batches(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the files with these numbers."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                try:
                    columns, rows = self._columns(number)
                except HarnessError as error:
                    raise worker_error(error.within(format=self.table_format)) from error
                yield from self._rows(number, columns, rows)

    def _columns(self, number: int) -> tuple[dict[int, pa.Array], int]:
        """Return the requested columns of a file by index, and the number of its rows."""
        file, expected = self.files[number].name, self.files[number].exact_rows
        if self.file_format == "parquet":
            check_file(file, self.storage, table=self.table)
            stored = load_parquet(file, self.schema, self.fields, self.sources, self.storage, table=self.table)
        else:
            schema, stored = load(file, self.file_format, self.storage, table=self.table)
            if schema != self.schema:
                reason = "its columns changed while the table was read; read it again"
                raise corrupt_file(f"Cannot read file: {reason}", file, table=self.table)
        stored = with_canonical_geometries(stored, self.fields, self.sources, file=file, table=self.table)
        if expected is not None and expected != stored.num_rows:
            reason = f"Cannot read file: it has {stored.num_rows} rows, the metadata says {expected}; restore the file"
            raise corrupt_file(reason, file, table=self.table, field="record_count", rule="iceberg 7.2")
        try:
            columns = {
                p: reshape(stored.column(p).combine_chunks(), type_, self.uses[p]) for p, type_ in self.types.items()
            }
        except pa.ArrowException as error:
            reason = f"Cannot read file: a value does not fit its type: {error}"
            raise corrupt_file(reason, file, table=self.table) from error
        return columns, stored.num_rows

    def _rows(self, number: int, columns: Mapping[int, pa.Array], rows: int) -> Iterator[pa.RecordBatch]:
        constants = [column[number] for column in self.constants.columns]
        size = sum(array.nbytes for array in columns.values()) // max(rows, 1)
        size += self.constants.nbytes // len(self.files)
        length = max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(size, 1)))
        steps = self.files[number].deleted
        deleted = np.cumsum(np.frombuffer(zlib.decompress(steps) if steps else b"", np.uint64), dtype=np.uint64)
        for start in range(0, rows, length):
            yield self._batch(columns, constants, deleted, range(start, min(start + length, rows)))

    def _batch(
        self,
        columns: Mapping[int, pa.Array],
        constants: Sequence[pa.Scalar],
        deleted: npt.NDArray[np.uint64],
        rows: range,
    ) -> pa.RecordBatch:
        arrays: dict[str, Any] = {f"p{place}": a.slice(rows.start, len(rows)) for place, a in columns.items()}
        for name, value in zip(self.constants.column_names, constants, strict=True):
            arrays[name] = pa.repeat(value, len(rows))
        arrays["pos"] = pa.array(rows, pa.int64())
        marks = np.zeros(len(rows), np.bool_)
        first, end = np.searchsorted(deleted, np.array([rows.start, rows.stop], np.uint64))
        marks[deleted[first:end] - np.uint64(rows.start)] = True
        arrays["deleted"] = pa.array(marks)
        return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


# Reading schemas and row counts of Avro and ORC files. Only one end of a file is read: the header of an Avro container,
# or the footer of an ORC file.


_FIRST_BYTES = 1 << 16


def read_head(file: FileName, file_format: str, storage: Storage, *, table: str) -> tuple[PhysicalSchema, int | None]:
    """Return the columns of an Avro or ORC file and its row count.

    The row count of an Avro file is None, because only reading the whole file shows it.

    Raises:
        UnsupportedError: The file has another format (iceberg 7.5).
        MissingFileError, EncryptedTableError, CorruptFileError: As their names say, with the file's name.
    """
    check_format(file, file_format, table=table)
    check_file(file, storage, table=table)
    try:
        if file_format == "avro":
            name, limits = str(file), storage.limits
            length, size = _FIRST_BYTES, storage.size(file.physical)
            while length < size:  # schemas are usually small; for a longer header, read more bytes
                try:
                    return schema_of_avro(storage.read(file.physical, length=length), file=name, limits=limits), None
                except CorruptFileError:
                    length *= 4
            return schema_of_avro(storage.read(file.physical), file=name, limits=limits), None
        return schema_of_orc(open_stream(file, storage), file=str(file))
    except HarnessError as error:
        raise error.within(table=table, file=str(file)) from error.__cause__


def read_orc_traits(file: FileName, storage: Storage) -> OrcTraits:
    """Return facts from the footer of an ORC file other than its columns. Raises HarnessError with the file's name."""
    return orc_traits(open_stream(file, storage), file=str(file))


_MAGIC = 4
_FRAME = 8
_MOST = 1 << 28


@dataclass(frozen=True, slots=True)
class FileHead:
    """The schema and size of an Avro or ORC file.

    Attributes:
        size: The size in bytes.
        schema: The physical schema.
        rows: The row count. None for Avro.
        orc: Further facts of an ORC file. None for Avro.
    """

    size: int
    schema: PhysicalSchema
    rows: int | None
    orc: OrcTraits | None


@dataclass(frozen=True, slots=True)
class EndBytes:
    """The first 4 bytes of a file, and its end with the whole footer.

    Attributes:
        size: The size of the file in bytes.
        head: The first 4 bytes.
        tail: The end.
        modified: The modification time, in ms since 1970. 0 if unknown.
    """

    size: int
    head: bytes
    tail: bytes
    modified: int = 0


@dataclass(frozen=True, slots=True)
class HeadReader:
    """Reads schemas and row counts of files. Instances are pickled and sent to the workers.

    Attributes:
        files: The files, each with its format.
        storage: The storage that reads them.
        table: The table's location, for errors.
        table_format: The table's format, for errors.
    """

    files: tuple[tuple[FileName, str], ...]
    storage: Storage
    table: str
    table_format: str

    def batches(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the number of each file and a pickled result: FileHead, EndBytes, or the text of a `worker_error`."""
        for batch in numbers:
            requested = batch.column(0).to_pylist()
            results = [pickle.dumps(self._read_file(number)) for number in requested]
            yield pa.RecordBatch.from_arrays(
                [pa.array(requested, pa.int64()), pa.array(results, pa.binary())], ["n", "look"]
            )

    def _read_file(self, number: int) -> FileHead | EndBytes | str:
        file, file_format = self.files[number]
        try:
            if file_format == "parquet":
                return self._ends(file)
            schema, rows = read_head(file, file_format, self.storage, table=self.table)
            traits = read_orc_traits(file, self.storage) if file_format == "orc" else None
            return FileHead(self.storage.size(file.physical), schema, rows, traits)
        except HarnessError as error:
            return str(worker_error(error.within(table=self.table, format=self.table_format)))

    def _ends(self, file: FileName) -> EndBytes:
        check_file(file, self.storage, table=self.table)
        size = self.storage.size(file.physical)
        head = self.storage.read(file.physical, length=_MAGIC)

        def end(length: int) -> bytes:
            return self.storage.read(file.physical, offset=max(0, size - length), length=min(size, length))

        tail = end(TAIL_BYTES)
        needed = int.from_bytes(tail[-_FRAME:-_MAGIC], "little") + _FRAME
        return EndBytes(size, head, end(needed) if len(tail) < needed <= min(size, _MOST) else tail)


def unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the batches unchanged. If this runs, the worker's Python can import this module."""
    return batches
