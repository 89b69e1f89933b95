"""Files that Spark's own readers would not read right: executors read them through Arrow, with harness's own readers.

Those are Avro files, and the ORC and Parquet files that `reads_natively` refuses. A task reads one file after another,
each as a whole, and hands its rows to Spark in batches of bounded size. The executors' Python needs harness
(`executor_python` sends it) with pyarrow, and neither DuckDB nor a JVM gateway.

ORC goes by a list of types that were tried on Spark 4.3 against harness's reader, vectorised and not. Not among them:

- timestamps: Spark cuts nanoseconds, and turns `timestamp` by the zones of writer and JVM;
- dates: Spark shifts those before 1582, and in a file in the proleptic calendar still those from 1582-10-05 to -14;
- text in a file with `char` columns: Spark takes their blanks away, and the physical schema does not show them;
- fixed: only harness checks their length.

Geometries come in one form (frontier F1.6): Spark's binary would be the stored bytes, and its own types are encoded
anew. Spark reads no file without columns: its readers refuse the file, or find no rows. Spark has no Brotli codec. In
some files the dotted path of a column may also be that of another, see `_has_plain_paths`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import LongType, StructField

from harness.engines.data_files import FileName, geometries, variants
from harness.engines.spark import types
from harness.engines.spark.arrow_worker import ArrowFile, FileReader, column_uses
from harness.engines.spark.executor_python import prepare
from harness.metadata.files.orc import OrcTraits
from harness.metadata.model import schema as dt
from harness.metadata.model.file_schema import PhysicalField, PhysicalSchema, walk_stored
from harness.metadata.plan.projection import ColumnSource, FileColumn
from harness.storage.stores import Storage

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_]+")
_ROW_INDEX = "_tmp_metadata_row_index"
"""Spark fills a column of this name itself."""
_LONG_DIGITS = 18
"""The most digits of decimals that Spark holds as integers."""
_POSITIONAL = "_col"
"""The name of old Hive's unnamed columns: where all are called so, Spark goes by position."""


class FileTraits(Protocol):
    """Facts of footers beside the schema; raises HarnessError naming the file."""

    def needs_brotli(self, files: Sequence[FileName]) -> bool:
        """Tells whether the pages of one of some Parquet files are in Brotli."""

    def orc_traits(self, file: FileName) -> OrcTraits:
        """The traits of an ORC file."""


def reads_natively(
    file_format: str,
    schema: PhysicalSchema,
    fields: Sequence[dt.Field],
    sources: Sequence[ColumnSource],
    *,
    positions: bool,
    files: Sequence[FileName] = (),
    traits: FileTraits | None = None,
) -> bool:
    """Tells whether Spark's own reader gives the columns that `sources` read, exactly.

    positions: whether the rows' positions are needed; Spark has them of Parquet files only.
    files, traits: the files of that schema, and what their footers say beside it; without traits the answer for ORC is
        the careful one.

    Raises HarnessError: a footer cannot be read; naming the file.
    """
    if not schema or any(variants(fields, sources)) or any(geometries(fields, sources)):
        return False
    places = {source.place for source in sources if isinstance(source, FileColumn)}
    used = [schema[place] for place in sorted(places)]
    match file_format:
        case "parquet":
            is_known = not any(isinstance(f.type, dt.OpaqueType) or _fails_in_spark(f) for f in walk_stored(used))
            distinct = _has_distinct_names(schema) and _has_distinct_names(used, folded=str.casefold)
            plain = is_known and distinct and all(f.name != _ROW_INDEX for f in used)
            return plain and _has_plain_paths(schema) and not (traits is not None and traits.needs_brotli(files))
        case "orc":
            if positions or all(f.name.startswith(_POSITIONAL) for f in schema):
                return False
            plain = all(map(_is_exact, walk_stored(used))) and all(map(_is_plainly_named, used))
            if not plain or not any(isinstance(f.type, dt.StringType) for f in walk_stored(used)):
                return plain
            return traits is not None and not any(traits.orc_traits(file).pads_text for file in files)
        case _:
            return False


def _fails_in_spark(stored: PhysicalField) -> bool:
    """Return whether Spark's vectorized reader fails on a decimal of up to 18 digits in bytes of any length (4.3).

    The reader makes a vector of integers and appends bytes to it, which is a NullPointerException.
    """
    return stored.is_binary and isinstance(stored.type, dt.DecimalType) and stored.type.precision <= _LONG_DIGITS


def _has_plain_paths(level: Sequence[PhysicalField]) -> bool:
    """Tells whether no column's path with dots can be another's: Parquet's Java library finds dictionaries by such."""
    dotted = [f.name for f in level if "." in f.name]
    apart = not any(name.startswith(f"{f.name}.") for name in dotted for f in level)
    return apart and all(_has_plain_paths(f.children) for f in level)


def _has_distinct_names(level: Sequence[PhysicalField], folded: Callable[[str], str] = str) -> bool:
    """Tells whether no names differ by case alone: Spark's optimizer and row reader may go by the user's session."""
    names = [folded(f.name) for f in level]
    return len(set(names)) == len(names) and all(
        not isinstance(f.type, dt.StructType) or _has_distinct_names(f.children, folded) for f in walk_stored(level)
    )


def _is_plainly_named(stored: PhysicalField) -> bool:
    """Spark tells ORC the columns in a text of its own grammar."""
    inner = all(map(_is_plainly_named, stored.children))
    return inner and _PLAIN_NAME.fullmatch(stored.name) is not None


def _is_exact(stored: PhysicalField) -> bool:
    match stored.type:
        case (
            dt.BooleanType() | dt.IntegerType() | dt.FloatType() | dt.DecimalType() | dt.StringType() | dt.BinaryType()
        ):
            return True
        case dt.TimeType() | dt.GeometryType() | dt.GeographyType() | dt.StructType() | dt.ListType() | dt.MapType():
            return True  # the first three are stored as long and binary
        case _:
            return False


# The Spark types in which files that are read through Arrow show their columns, and the Arrow types for these.
#
# Spark compares the types of what comes back from a Python worker with what was announced, exactly, nested nullability
# included. So every nested value may be null here, as in what Spark's own readers give.


Place: TypeAlias = tuple[int, ...]


def physical_type(stored: PhysicalField, place: Place, encoded: frozenset[Place]) -> spark.DataType:
    """The Spark type of a stored column at a place: that of `types.natural`, but text at those of variants."""
    if place in encoded:
        return spark.StringType()
    if not any(variant[: len(place)] == place for variant in encoded):
        return types.physical_column(stored).dataType
    inner = [physical_type(child, (*place, i), encoded) for i, child in enumerate(stored.children)]
    if isinstance(stored.type, dt.ListType):
        return spark.ArrayType(inner[0])
    if isinstance(stored.type, dt.MapType):
        return spark.MapType(inner[0], inner[1])
    named = zip(stored.children, inner, strict=True)
    return spark.StructType([spark.StructField(child.name, type_) for child, type_ in named])


SINGLE: dict[type[spark.DataType], pa.DataType] = {
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
"""Types without parts."""


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
            return SINGLE[type(type_)]


_MAX_TASKS = 1024
"""A task costs some milliseconds, whatever it reads; where files are more, a task reads several."""


def arrow_frame(
    session: SparkSession,
    *,
    files: Sequence[ArrowFile],
    file_format: str,
    schema: PhysicalSchema,
    fields: Sequence[dt.Field],
    sources: Sequence[ColumnSource],
    constants: pa.Table,
    storage: Storage,
    table: str,
    table_format: str,
) -> DataFrame:
    """The rows of files of one physical schema, read on executors; the arguments are fields of `FileReader`.

    Columns: `p{i}` by place in `schema`, only those that `sources` read, typed as Spark's Parquet reader would give
    them (`types.natural`), but a variant as its JSON text, and null where no source reads a nested part; then the
    columns of `constants`; `pos`, the physical row from 0 (bigint); and `deleted`, whether the row is deleted.

    Raises:
        EngineError: executors have no Python that can read files.
        Exception: while rows are read, Spark's own, in which `executor_python.unwrap` finds the HarnessError.
    """
    prepare(session)
    encoded = frozenset(variants(fields, sources))
    used = column_uses(sources)
    places = sorted(used)
    columns = [StructField(f"p{place}", physical_type(schema[place], (place,), encoded)) for place in places]
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
