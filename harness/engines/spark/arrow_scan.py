"""Files that Spark's own readers would not read right: executors read them through Arrow, with harness's own readers.

These are Avro files, and what `native_reads.reads_natively` refuses of ORC and Parquet. A task reads one file after
another, each as a whole, and hands its rows to Spark in batches of bounded size. The executors' Python needs harness
with pyarrow and fastavro, and neither DuckDB nor a JVM gateway.

What goes wrong on an executor reaches the driver as text: `worker_errors.unwrap` gives back the error raised there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from harness.engines.arrow_files import load, load_parquet, variants
from harness.engines.data_files import FileName, check_file
from harness.engines.spark.arrow_shapes import Use, arrow_type, natural, reshaped, uses
from harness.engines.spark.native_reads import reads_natively
from harness.engines.spark.worker_errors import told, unwrap
from harness.errors import CorruptFileError, HarnessError
from harness.projection import PhysicalSchema, Source
from harness.schema import Field
from harness.storage import Storage

__all__ = ["arrow_frame", "reads_natively", "unwrap"]

_BATCH_ROWS = 16_384
_BATCH_BYTES = 16 << 20
_MAX_TASKS = 1024
"""A task costs some milliseconds, whatever it reads; where files are more, a task reads several."""


def arrow_frame(
    session: SparkSession,
    *,
    files: Sequence[FileName],
    file_format: str,
    schema: PhysicalSchema,
    fields: Sequence[Field],
    sources: Sequence[Source],
    constants: pa.Table,
    storage: Storage,
    table: str,
    exact_rows: Sequence[int | None] | None = None,
    deleted: Sequence[BitMap64 | None] | None = None,
) -> DataFrame:
    """The rows of files of one physical schema, read on executors.

    Columns: `p{i}` by place in `schema`, only those that `sources` read, typed as Spark's Parquet reader would give
    them (`types.natural`), but a variant as its JSON text, and null where no source reads a nested part; then the
    columns of `constants`; `pos`, the physical row from 0 (bigint); and with `deleted` a column of that name, whether
    the row's position is among them (boolean, never null).

    Args:
        fields, sources: everything that is read from the files, stored row lineage included.
        constants: one row per file; small values, because every row carries them. Bitmaps go into `deleted` instead.
        storage: travels to the executors with its options; they must reach the same places.
        exact_rows: per file, how many rows it must have; None: any number.
        deleted: per file, the positions of its deleted rows; None: no row.

    Raises:
        Exception: while rows are read, Spark's own; `worker_errors.unwrap` finds MissingFileError, CorruptFileError,
            EncryptedTableError, UnsupportedError in it, naming the file.
    """
    encoded = frozenset(variants(fields, sources))
    used = uses(sources)
    places = sorted(used)
    columns = [StructField(f"p{place}", natural(schema[place], (place,), encoded)) for place in places]
    reader = _Reader(
        files=tuple(files),
        file_format=file_format,
        schema=schema,
        fields=tuple(fields),
        sources=tuple(sources),
        uses=used,
        types={place: arrow_type(column.dataType) for place, column in zip(places, columns, strict=True)},
        constants=constants,
        storage=replace(storage, options=dict(storage.options)),  # without the file systems that it has open
        table=table,
        exact_rows=(None,) * len(files) if exact_rows is None else tuple(exact_rows),
        deleted=None if deleted is None else tuple(deleted),
    )
    shown = [*columns, *(StructField(f.name, from_arrow_type(f.type, True)) for f in constants.schema)]
    shown.append(StructField("pos", LongType()))
    if deleted is not None:
        shown.append(StructField("deleted", BooleanType()))
    tasks = max(1, min(len(files), _MAX_TASKS))
    return session.range(0, len(files), 1, tasks).mapInArrow(reader.batches, StructType(shown))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """What travels to the executors. uses, types: by place, what is read of a column, and its Arrow type."""

    files: tuple[FileName, ...]
    file_format: str
    schema: PhysicalSchema
    fields: tuple[Field, ...]
    sources: tuple[Source, ...]
    uses: Mapping[int, Use]
    types: Mapping[int, pa.DataType]
    constants: pa.Table
    storage: Storage
    table: str
    exact_rows: tuple[int | None, ...]
    deleted: tuple[BitMap64 | None, ...] | None

    def batches(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the files with these numbers."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                try:
                    columns, rows = self.columns(number)
                except HarnessError as error:
                    raise told(error) from error
                yield from self.rows(number, columns, rows)

    def columns(self, number: int) -> tuple[dict[int, pa.Array], int]:
        """The wanted columns of a file by place, and how many rows it has."""
        file = self.files[number]
        stored = self.load(file)
        expected = self.exact_rows[number]
        if expected is not None and expected != stored.num_rows:
            raise self.corrupt(
                file, f"it has {stored.num_rows} rows, the metadata says {expected}; restore the file", "iceberg 7.2"
            )
        try:
            columns = {p: reshaped(_whole(stored.column(p)), type_, self.uses[p]) for p, type_ in self.types.items()}
        except pa.ArrowException as error:
            raise self.corrupt(file, f"a value does not fit its type: {error}", "iceberg 7.6") from error
        return columns, stored.num_rows

    def load(self, file: FileName) -> pa.Table:
        if self.file_format == "parquet":
            check_file(file, self.storage, table=self.table)
            return load_parquet(file, self.schema, self.fields, self.sources, self.storage, table=self.table)
        schema, rows = load(file, self.file_format, self.storage, table=self.table)
        if schema != self.schema:
            raise self.corrupt(file, "its columns changed while the table was read; read it again", "iceberg 7.6")
        return rows

    def rows(self, number: int, columns: Mapping[int, pa.Array], rows: int) -> Iterator[pa.RecordBatch]:
        constants = [column[number] for column in self.constants.columns]
        size = sum(array.nbytes for array in columns.values()) // max(rows, 1) + self.constants.nbytes // len(
            self.files
        )
        length = max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(size, 1)))
        for start in range(0, rows, length):
            yield self.batch(number, columns, constants, range(start, min(start + length, rows)))

    def batch(
        self, number: int, columns: Mapping[int, pa.Array], constants: Sequence[pa.Scalar], rows: range
    ) -> pa.RecordBatch:
        arrays: dict[str, Any] = {f"p{place}": a.slice(rows.start, len(rows)) for place, a in columns.items()}
        for name, value in zip(self.constants.column_names, constants, strict=True):
            arrays[name] = pa.repeat(value, len(rows))
        arrays["pos"] = pa.array(rows, pa.int64())
        if self.deleted is not None:
            arrays["deleted"] = _marks(self.deleted[number], rows)
        return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))

    def corrupt(self, file: FileName, reason: str, rule: str) -> CorruptFileError:
        return CorruptFileError(
            f"Cannot read file: {reason}", cause="CorruptDataFile", table=self.table, file=str(file), rule=rule
        )


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _marks(deleted: BitMap64 | None, rows: range) -> pa.Array:
    """Per row, whether its position is deleted."""
    marks = np.zeros(len(rows), np.bool_)
    if deleted is not None:
        hit = deleted & BitMap64(range(rows.start, rows.stop))
        marks[np.fromiter(hit, np.int64, len(hit)) - rows.start] = True
    return pa.array(marks)
