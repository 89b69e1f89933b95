"""Files that Spark's own readers would read wrong: executors read them with harness's readers, through Arrow.

These are Avro files, and the ORC and Parquet files that `reads_natively` rejects. A task reads its files one by one,
each completely, and passes the rows to Spark in batches of bounded size. The executors' Python needs harness
(`executor_python` sends it) and pyarrow, but neither DuckDB nor a JVM gateway.

ORC types were compared on Spark 4.3 with harness's reader, with and without vectorization. Spark does not read these
exactly:

- timestamps: Spark truncates nanoseconds, and converts `timestamp` between the time zones of the writer and the JVM;
- dates: Spark shifts dates before 1582, and in files with the proleptic calendar dates from 1582-10-05 to 1582-10-14;
- text in a file with `char` columns: Spark strips their blanks, and the physical schema does not show these columns;
- fixed: only harness checks the length.

Geometries are returned in one form (frontier F1.6), whereas Spark would return the stored bytes as binary, and would
re-encode its own geometry types. Spark refuses files without columns or finds no rows in them, and has no Brotli codec.
In some files, two columns may have the same dotted path, see `_has_plain_paths`.
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
"""A column name that Spark reserves: Spark fills this column with row indexes."""
_LONG_DIGITS = 18
"""The most digits of a decimal that Spark stores as an integer."""
_POSITIONAL = "_col"
"""The prefix of column names in files of old Hive versions.

If all columns have it, Spark matches columns by position.
"""


class FileTraits(Protocol):
    """Facts that file footers state in addition to the schema. The methods raise HarnessError with the file's name."""

    def needs_brotli(self, files: Sequence[FileName]) -> bool:
        """Return whether any of the Parquet files has pages compressed with Brotli."""

    def orc_traits(self, file: FileName) -> OrcTraits:
        """Return the `OrcTraits` of an ORC file."""


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
    """Return whether Spark's own reader returns exactly the values of the columns that `sources` read.

    Args:
        file_format: The format of the files.
        schema: Their physical schema.
        fields: The table's fields.
        sources: For each field, its place in the files.
        positions: True if row positions are needed. Spark provides them for Parquet files only.
        files: The files.
        traits: Reads further facts from the files' footers. If None, the answer for ORC assumes the worst.

    Raises:
        HarnessError: A footer cannot be read. The error names the file.
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

    The reader creates a vector of integers and appends bytes to it, which causes a NullPointerException.
    """
    return stored.is_binary and isinstance(stored.type, dt.DecimalType) and stored.type.precision <= _LONG_DIGITS


def _has_plain_paths(level: Sequence[PhysicalField]) -> bool:
    """Return whether all dotted column paths are unambiguous.

    Parquet's Java library finds dictionaries by dotted path.
    """
    dotted = [f.name for f in level if "." in f.name]
    no_prefix = not any(name.startswith(f"{f.name}.") for name in dotted for f in level)
    return no_prefix and all(_has_plain_paths(f.children) for f in level)


def _has_distinct_names(level: Sequence[PhysicalField], folded: Callable[[str], str] = str) -> bool:
    """Return whether names differ in more than case. Spark's optimizer and row reader may follow the user's setting."""
    names = [folded(f.name) for f in level]
    return len(set(names)) == len(names) and all(
        not isinstance(f.type, dt.StructType) or _has_distinct_names(f.children, folded) for f in walk_stored(level)
    )


def _is_plainly_named(stored: PhysicalField) -> bool:
    """Return whether all names can be written unquoted.

    Spark passes column names to ORC in a text with its own grammar.
    """
    inner = all(map(_is_plainly_named, stored.children))
    return inner and _PLAIN_NAME.fullmatch(stored.name) is not None


def _is_exact(stored: PhysicalField) -> bool:
    match stored.type:
        case (
            dt.BooleanType() | dt.IntegerType() | dt.FloatType() | dt.DecimalType() | dt.StringType() | dt.BinaryType()
        ):
            return True
        case dt.TimeType() | dt.GeometryType() | dt.GeographyType() | dt.StructType() | dt.ListType() | dt.MapType():
            return True  # times and geometries are stored as long and binary
        case _:
            return False


# Spark compares the types of a Python worker's result exactly with the declared types, including nested nullability. So
# every nested value is nullable here, as in the results of Spark's own readers.


Place: TypeAlias = tuple[int, ...]


def physical_type(stored: PhysicalField, place: Place, encoded: frozenset[Place]) -> spark.DataType:
    """Return the Spark type of a stored column, as `types.physical_column` does, but with text for variants.

    Args:
        stored: The column.
        place: Its place in the file, as a path of indexes.
        encoded: The places of variants.
    """
    if place in encoded:
        return spark.StringType()
    if not any(variant[: len(place)] == place for variant in encoded):
        return types.physical_column(stored).dataType
    inner = [physical_type(child, (*place, i), encoded) for i, child in enumerate(stored.children)]
    if isinstance(stored.type, dt.ListType):
        return spark.ArrayType(inner[0])
    if isinstance(stored.type, dt.MapType):
        return spark.MapType(inner[0], inner[1])
    typed_children = zip(stored.children, inner, strict=True)
    return spark.StructType([spark.StructField(child.name, type_) for child, type_ in typed_children])


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
"""The Arrow types of Spark types that are not nested."""


def arrow_type(type_: spark.DataType) -> pa.DataType:
    """Return the Arrow type that a Python worker has to return for a column of a Spark type."""
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
"""The most tasks of a read. A task costs some milliseconds, so tasks read several files if there are more files."""


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
    """Return the rows of files with one physical schema. Executors read them.

    The arguments are fields of `FileReader`.

    Returns:
        A frame with these columns: `p{i}` for each column of `schema` that `sources` read, in the type that Spark's
            Parquet reader would return (`types.physical_column`), except that variants are JSON text and nested parts
            that no source reads are null; the columns of `constants`; `pos`, the physical row number from 0 (bigint);
            and `deleted`, whether the row is deleted.

    Raises:
        EngineError: The executors have no Python that can read files.
        Exception: While rows are read, Spark's own exception. `executor_python.unwrap` extracts the HarnessError.
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
    output_fields = [*columns, *(StructField(f.name, from_arrow_type(f.type, True)) for f in constants.schema)]
    output_fields += [StructField("pos", LongType()), StructField("deleted", spark.BooleanType())]
    tasks = max(1, min(len(files), _MAX_TASKS))
    return session.range(0, len(files), 1, tasks).mapInArrow(reader.batches, spark.StructType(output_fields))
