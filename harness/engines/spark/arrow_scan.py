"""Files that Spark's own readers would not read right: executors read them through Arrow, with harness's own readers.

These are Avro files, and what `native_reads.reads_natively` refuses of ORC and Parquet. A task reads one file after
another, each as a whole, and hands its rows to Spark in batches of bounded size. The executors' Python needs harness
(`executor_python` sends it) with pyarrow, and neither DuckDB nor a JVM gateway.

What goes wrong on an executor reaches the driver as text: `worker_errors.unwrap` gives back the error raised there.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from harness.engines.shared.arrow_files import variants
from harness.engines.shared.arrow_shapes import uses
from harness.engines.shared.arrow_worker import ArrowFile, FileReader, packed
from harness.engines.spark.arrow_shapes import arrow_type, natural
from harness.engines.spark.executor_python import prepare
from harness.model.schema import Field
from harness.plan.projection import ColumnSource, PhysicalSchema
from harness.storage.stores import Storage

__all__ = ["ArrowFile", "arrow_frame", "packed"]

_MAX_TASKS = 1024
"""A task costs some milliseconds, whatever it reads; where files are more, a task reads several."""


def arrow_frame(
    session: SparkSession,
    *,
    files: Sequence[ArrowFile],
    file_format: str,
    schema: PhysicalSchema,
    fields: Sequence[Field],
    sources: Sequence[ColumnSource],
    constants: pa.Table,
    storage: Storage,
    table: str,
    table_format: str,
) -> DataFrame:
    """The rows of files of one physical schema, read on executors.

    Columns: `p{i}` by place in `schema`, only those that `sources` read, typed as Spark's Parquet reader would give
    them (`types.natural`), but a variant as its JSON text, and null where no source reads a nested part; then the
    columns of `constants`; `pos`, the physical row from 0 (bigint); and `deleted`, whether the row is among its file's
    deleted ones (boolean, never null).

    Args:
        fields, sources: everything that is read from the files, stored row lineage included.
        constants: one row per file, unless it has no columns; small values, because every row carries them. Hence
            deleted positions are looked up here.
        storage: travels to the executors with its options; they must reach the same places.

    Raises:
        EngineError: executors have no Python that can read files.
        Exception: while rows are read, Spark's own; `worker_errors.unwrap` finds MissingFileError, CorruptFileError,
            EncryptedTableError, UnsupportedError in it, naming the file.
    """
    prepare(session)
    encoded = frozenset(variants(fields, sources))
    used = uses(sources)
    places = sorted(used)
    columns = [StructField(f"p{place}", natural(schema[place], (place,), encoded)) for place in places]
    reader = FileReader(
        files=tuple(files),
        file_format=file_format,
        schema=schema,
        fields=tuple(fields),
        sources=tuple(sources),
        uses=used,
        types={place: arrow_type(column.dataType) for place, column in zip(places, columns, strict=True)},
        constants=constants,
        storage=storage,
        table=table,
        table_format=table_format,
    )
    shown = [*columns, *(StructField(f.name, from_arrow_type(f.type, True)) for f in constants.schema)]
    shown += [StructField("pos", LongType()), StructField("deleted", BooleanType())]
    tasks = max(1, min(len(files), _MAX_TASKS))
    return session.range(0, len(files), 1, tasks).mapInArrow(reader.batches, StructType(shown))
