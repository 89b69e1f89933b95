"""The driver's JVM, as far as harness uses it: planned files become a DataFrame without any path being listed again.

Frames are made in a private session beside the user's, because what a read needs (exact column names, nanoseconds as
numbers, UTC) are settings of a session, and the user's are not ours to change. `Gateway.expose` then wraps the
analysed plan into the user's session: the scan keeps the private session and its settings, everything that the user
builds on top follows the user's.

The parts that only a JVM class can do are Java, see `compiled`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from harness.engines.shared.data_files import look_at
from harness.engines.spark.compiled import class_named, load_classes
from harness.errors import RequestError, UnsupportedError
from harness.storage.paths import is_local, local_path
from harness.storage.stores import Storage

FileFormat: TypeAlias = Literal["parquet", "orc"]

_FORMATS = {
    "parquet": "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat",
    "orc": "org.apache.spark.sql.execution.datasources.orc.OrcFileFormat",
}
# What every read needs, whatever the user's session says. Anything with a say in which rows or values come out.
_SETTINGS = {
    "spark.sql.caseSensitive": "true",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.parquet.int96TimestampConversion": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.enableVectorizedReader": "true",
    "spark.sql.parquet.enableNestedColumnVectorizedReader": "true",
    "spark.sql.parquet.filterPushdown": "true",
    "spark.sql.parquet.recordLevelFilter.enabled": "false",
    "spark.sql.orc.impl": "native",
    "spark.sql.orc.filterPushdown": "true",
    "spark.sql.orc.enableVectorizedReader": "true",
    "spark.sql.orc.enableNestedColumnVectorizedReader": "true",
}
# Spark looks for these in the session that executes, unless the read itself says otherwise.
OPTIONS = {
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    # Local files by Hadoop's file system that looks at no `.name.crc` beside a file: a writer other than Hadoop leaves
    # a stale one behind. Not from Hadoop's cache, which the session shares.
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
_ROW_INDEX_COLUMN = "_tmp_metadata_row_index"  # Spark's own name in a read schema: it fills such a column itself
_MOST_SESSIONS = 32


@dataclass(frozen=True, slots=True)
class DiskFile:
    """A file to read.

    path: physical: a local path, or a URI of which nothing is percent-encoded.
    size: the file's true size in bytes. Never the recorded one: Spark silently drops the row groups beyond it.
    """

    path: str
    size: int


def disk_files(storage: Storage, paths: Sequence[str]) -> tuple[DiskFile, ...]:
    """`paths`, physical, with the sizes that the files have now, in the order given.

    Raises:
        MissingFileError: there is no such file.
    """
    return tuple(map(DiskFile, paths, look_at(storage.size, paths, paths)))


class Gateway:
    """The private session beside a user's session, and what only the driver's JVM can do there."""

    def __init__(self, user: SparkSession) -> None:
        self._user = user
        self._context: SparkContext = user.sparkContext
        load_classes(self._context)
        self.session: SparkSession = user.newSession()
        for key, value in _SETTINGS.items():
            self.session.conf.set(key, value)
        self._lowering = self._context._jvm.harness.spark.Lowering  # type: ignore[union-attr]

    @classmethod
    def of(cls, spark: SparkSession) -> Gateway:
        """The gateway of a user's session; the same one each time.

        Raises:
            UnsupportedError: the session has no JVM behind it that Python can reach, as with Spark Connect.
            RequestError: the session was stopped.
        """
        if not has_gateway(spark):
            raise UnsupportedError(
                "Cannot reach the JVM of this Spark session: Spark Connect has no gateway to it; use one that has, "
                "such as harness.spark_session(), or to_spark, which does without",
                cause="NoGateway",
            )
        context = spark.sparkContext
        if context._jsc is None:
            raise RequestError("Cannot read with this Spark session: it was stopped; make a new one")
        if _CACHE.context is not context:
            _CACHE.context, _CACHE.gateways = context, {}
        key = spark._jsparkSession.sessionUUID()
        found = _CACHE.gateways.get(key)
        if found is None:
            found = cls(spark)
            while len(_CACHE.gateways) >= _MOST_SESSIONS:
                del _CACHE.gateways[next(iter(_CACHE.gateways))]
            _CACHE.gateways[key] = found
        return found

    def planned_frame(
        self,
        *,
        file_format: FileFormat,
        read_schema: StructType,
        files: Sequence[DiskFile],
        constants: pa.Table,
        positions: bool,
    ) -> DataFrame:
        """The rows of `files`, in the private session.

        Args:
            read_schema: physical names, in the files' own letter case, with the types that Spark reads them as.
            files: in any order; one that is given twice gives its rows twice.
            constants: one row per file, of bool, int32, int64, float32, float64, string, binary, decimal128, date32 or
                timestamp[us] columns.
            positions: whether rows have their 0-based place in the file; Parquet only.

        Columns: `p0`, `p1`, ... for the fields of `read_schema`, then the constants under their names, then `pos`.
        A filter on constants skips files; filters on and choices of the other columns reach the Parquet scan.

        Raises:
            UnsupportedError: two columns of one exact name, or positions of an ORC file.
        """
        assert constants.num_rows == len(files), "one row of constants per file"
        check_readable(read_schema)
        if positions and file_format != "parquet":
            raise UnsupportedError(f"Cannot number the rows of {file_format.upper()} files with Spark's own reader")
        jvm: Any = self._context._jvm
        frame = self._lowering.planned(
            self.session._jsparkSession,
            self._user._jsparkSession,
            jvm.java.lang.Class.forName(_FORMATS[file_format]).getConstructor(None).newInstance(None),
            read_schema.json(),
            _stream(files, constants),
            OPTIONS,
            positions,
        )
        return DataFrame(frame, self.session)

    def invoke(self, class_name: str, method: str, result: DataType, *columns: Column) -> Column:
        """A column that calls `harness.spark.<class_name>.<method>`, a public static method, on the executors.

        Null where an argument is null: the method then is not called. Arguments are passed as Catalyst has them: bigint
        as long, binary as byte[], string as UTF8String, and so on.
        """
        owner = class_named(self._context, class_name)
        return Column(
            self._lowering.invoke(
                self.session._jsparkSession, owner, method, result.json(), [column._jc for column in columns]
            )
        )

    def bucket_sums(self, frame: DataFrame, *, lanes: tuple[int, int], by: int, bits: int) -> bytes:
        """Runs `frame`, and for each of 1 << `bits` buckets gives five big-endian words of 64 bits.

        They are the rows in the bucket, and low and high word of the sum of each lane, taken as unsigned.

        Args:
            lanes, by: places of bigint columns without nulls; a row's bucket is the lowest bits of that of `by`.
        """
        sums: Any = self._context._jvm.harness.spark.BucketSums  # type: ignore[union-attr]
        return bytes(sums.of(frame._jdf, *lanes, by, bits))

    def expose(self, frame: DataFrame) -> DataFrame:
        """A frame of the private session as one of the user's session: same rows, same scan, no setting changed."""
        return DataFrame(self._lowering.expose(self._user._jsparkSession, frame._jdf), self._user)

    def moved(self, frame: DataFrame, session: SparkSession) -> DataFrame:
        """A frame as one of another session of the application: same rows, same scan."""
        return DataFrame(self._lowering.expose(session._jsparkSession, frame._jdf), session)


@dataclass(slots=True)
class _Cache:
    """Gateways by the id of the user's session, of the one context that a process can have."""

    context: SparkContext | None
    gateways: dict[str, Gateway]


_CACHE = _Cache(None, {})


def has_gateway(spark: object) -> bool:
    """Whether the session has a JVM that Python can reach; one of Spark Connect has not."""
    return isinstance(spark, SparkSession) and hasattr(spark, "_jsparkSession")


def check_readable(schema: StructType) -> None:
    """Refuses read schemas that Spark would fill with other columns' values.

    Raises:
        UnsupportedError: two fields of one struct have the same exact name, or one has a name that Spark reserves.
    """
    if _ROW_INDEX_COLUMN in schema.names:
        raise UnsupportedError(
            f"Cannot read a column named {_ROW_INDEX_COLUMN} with Spark: it keeps the name for itself"
        )
    _check_names(schema, ())


def _check_names(type_: DataType, path: tuple[str, ...]) -> None:
    match type_:
        case StructType():
            for place, name in enumerate(type_.names):
                if name in type_.names[:place]:
                    raise UnsupportedError(
                        "Cannot read a file with Spark that has two columns of one name", field=".".join((*path, name))
                    )
            for field in type_.fields:
                _check_names(field.dataType, (*path, field.name))
        case ArrayType():
            _check_names(type_.elementType, (*path, "element"))
        case MapType():
            _check_names(type_.keyType, (*path, "key"))
            _check_names(type_.valueType, (*path, "value"))
        case _:
            pass


def location(path: str) -> str:
    """A path as Hadoop spells it: scheme://authority/path, file:///... for a local one, and nothing is encoded."""
    plain = local_path(path)
    if is_local(plain):
        # Hadoop takes `..` away as text, the operating system follows links first.
        absolute = os.path.realpath(plain) if ".." in plain.split("/") else os.path.join(os.getcwd(), plain)
        return "file://" + absolute
    return plain


def _stream(files: Sequence[DiskFile], constants: pa.Table) -> bytearray:
    """Locations, sizes and constants as an Arrow IPC stream: all files cross in one call."""
    locations = pa.array([location(file.path) for file in files], pa.string())
    sizes = pa.array([file.size for file in files], pa.int64())
    fields = [pa.field("location", pa.string()), pa.field("size", pa.int64()), *constants.schema]
    table = pa.Table.from_arrays([locations, sizes, *constants.columns], schema=pa.schema(fields))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytearray(sink.getvalue())
