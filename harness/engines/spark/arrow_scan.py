"""Files that Spark's own readers would not read right: executors read them through Arrow, with harness's own readers.

These are Avro files, and what `native_reads.reads_natively` refuses of ORC and Parquet. A task reads one file after
another, each as a whole, and hands its rows to Spark in batches of bounded size. The executors' Python needs harness
(`executor_python` sends it) with pyarrow, and neither DuckDB nor a JVM gateway.

What goes wrong on an executor reaches the driver as text: `worker_errors.unwrap` gives back the error raised there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import LongType, StructField

from harness.engines.arrow_files import variants
from harness.engines.spark import types
from harness.engines.spark.arrow_worker import ArrowFile, FileReader, packed, uses
from harness.engines.spark.executor_python import prepare
from harness.metadata.model.schema import Field, ListType, MapType
from harness.metadata.plan.projection import ColumnSource, PhysicalField, PhysicalSchema
from harness.storage.stores import Storage

__all__ = ["ArrowFile", "arrow_frame", "packed"]


# The Spark types in which files that are read through Arrow show their columns, and the Arrow types for these.
#
# Spark compares the types of what comes back from a Python worker with what was announced, exactly, nested nullability
# included. So every nested value may be null here, as in what Spark's own readers give.


Place: TypeAlias = tuple[int, ...]


def natural(stored: PhysicalField, place: Place, encoded: frozenset[Place]) -> spark.DataType:
    """The Spark type of a stored column: that of `types.natural`, but text where a variant is.

    Args:
        place: where the column is, from the top level down.
        encoded: the places of variants.
    """
    if place in encoded:
        return spark.StringType()
    if not any(variant[: len(place)] == place for variant in encoded):
        return types.natural(stored).dataType
    inner = [natural(child, (*place, i), encoded) for i, child in enumerate(stored.children)]
    if isinstance(stored.type, ListType):
        return spark.ArrayType(inner[0])
    if isinstance(stored.type, MapType):
        return spark.MapType(inner[0], inner[1])
    named = zip(stored.children, inner, strict=True)
    return spark.StructType([spark.StructField(child.name, type_) for child, type_ in named])


_SINGLE: dict[type[spark.DataType], pa.DataType] = {
    spark.BooleanType: pa.bool_(),
    spark.ByteType: pa.int8(),
    spark.ShortType: pa.int16(),
    spark.IntegerType: pa.int32(),
    spark.LongType: pa.int64(),
    spark.FloatType: pa.float32(),
    spark.DoubleType: pa.float64(),
    spark.DateType: pa.date32(),
    spark.TimestampType: pa.timestamp("us", "UTC"),
    spark.TimestampNTZType: pa.timestamp("us"),
    spark.StringType: pa.string(),
    spark.BinaryType: pa.binary(),
    spark.NullType: pa.null(),
}


def arrow_type(type_: spark.DataType) -> pa.DataType:
    """The Arrow type that a Python worker has to return for a column of `type_`."""
    match type_:
        case spark.StructType():
            return pa.struct([pa.field(f.name, arrow_type(f.dataType)) for f in type_.fields])
        case spark.ArrayType():
            return pa.list_(arrow_type(type_.elementType))
        case spark.MapType():
            return pa.map_(arrow_type(type_.keyType), arrow_type(type_.valueType))
        case spark.DecimalType():
            return pa.decimal128(type_.precision, type_.scale)
        case _:
            return _SINGLE[type(type_)]


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
    shown += [StructField("pos", LongType()), StructField("deleted", spark.BooleanType())]
    tasks = max(1, min(len(files), _MAX_TASKS))
    return session.range(0, len(files), 1, tasks).mapInArrow(reader.batches, spark.StructType(shown))
