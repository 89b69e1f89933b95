"""The driver's JVM, as far as harness uses it: planned files become a DataFrame without any path being listed again.

Frames are made in a private session beside the user's, because what a read needs (exact column names, nanoseconds as
numbers, UTC) are settings of a session. `Gateway.expose` then wraps the analysed plan into the user's session: the scan
keeps the private session and its settings, everything that the user builds on top follows the user's.
"""

from __future__ import annotations

import base64
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from harness.engines.spark.compiled import class_named, load_classes
from harness.engines.spark.executor_python import engine_error
from harness.engines.spark.hadoop_options import check_access, hadoop_location
from harness.errors import RequestError, UnsupportedError
from harness.storage.paths import is_local, local_path

# What every read needs, whatever the user's session says. Anything with a say in which rows or values come out.
SETTINGS = {
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
    modified: when it was modified, in ms since 1970; 0: unknown. A file that is another when its rows are read fails.
    """

    path: str
    size: int
    modified: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRead:
    """A read as the JVM gets it.

    file_format: `parquet`, `orc` or `refused`: to read a file then fails with the text of its first constant.
    read_schema: physical names, in the files' own letter case, with the types that Spark reads them as.
    files: in any order; one that is given twice gives its rows twice.
    constants: one row per file, of bool, int32, int64, float32, float64, string, binary, decimal128, date32 or
        timestamp[us] columns.
    positions: whether rows have their 0-based place in the file; Parquet only.
    deleted: which constant holds deleted positions, as `deletes.encode` made them, of each file. `pos` of such a row is
        the complement of its position, and so below 0.
    options: of Hadoop, for the stores that the files are in.
    bounds: what is known of the columns in each file, see `file_bounds`; filters on them then skip files.
    root: the location of the table that the files are of, as Spark's plans show it.

    Raises UnsupportedError: two columns of one exact name, or positions of an ORC file.
    """

    file_format: str
    read_schema: StructType
    files: Sequence[DiskFile]
    constants: pa.Table
    positions: bool = False
    deleted: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    bounds: pa.Table | None = None
    root: str | None = None

    def __post_init__(self) -> None:
        assert self.constants.num_rows == len(self.files), "one row of constants per file"
        assert self.bounds is None or self.bounds.num_rows == len(self.files), "one row of bounds per file"
        check_readable(self.read_schema)
        if self.positions and self.file_format != "parquet":
            raise UnsupportedError(
                f"Cannot number the rows of {self.file_format.upper()} files with Spark's own reader"
            )

    @property
    def bitmap(self) -> int:
        """The place of `deleted` among the constants; below 0: there is none."""
        return -1 if self.deleted is None else self.constants.column_names.index(self.deleted)


def hadoop_opens(physical: str) -> bool:
    """Tells whether Spark can open a file of that name: Hadoop takes a colon in a local one for the end of a scheme."""
    return not is_local(physical) or ":" not in physical.rsplit("/", 1)[-1]


class PlannedReads(ABC):
    """Reads planned files in the JVM of a session: by `Gateway` the driver's, by `planned_source` that of a server.

    session: the frames are its.
    """

    session: SparkSession

    @property
    @abstractmethod
    def is_local(self) -> bool:
        """Whether this process is where files are read: the session has no executors beside its driver."""

    @abstractmethod
    def check_access(self, physical: Sequence[str]) -> None:
        """Refuses files of stores that Spark has no file system for, see `hadoop_options`."""

    @abstractmethod
    def planned_frame(self, read: PlannedRead) -> DataFrame:
        """The rows of a read, in `session`.

        Columns: `p0`, `p1`, ... for the fields of `read_schema`, then the constants under their names, then `pos`.
        A filter on constants skips files; filters on and choices of the other columns reach the Parquet scan.
        """

    @abstractmethod
    def read_ends(self, physical: Sequence[str], options: Mapping[str, str], most: int) -> bytes:
        """Read the ends of Parquet and ORC files on executors, without failing for any file.

        Args:
            physical: The physical paths of the files.
            options: As in `PlannedRead`.
            most: The largest number of bytes of an end. Of a longer one only the length comes back.

        Returns:
            The records that `looks.decode` decodes.
        """


class Gateway(PlannedReads):
    """The private session beside a user's session, and what only the driver's JVM can do there."""

    def __init__(self, user: SparkSession) -> None:
        self._user = user
        self._context: SparkContext = user.sparkContext
        load_classes(self._context)
        self.session: SparkSession = user.newSession()
        for key, value in SETTINGS.items():
            self.session.conf.set(key, value)
        self._lowering = self._context._jvm.harness.spark.Lowering  # type: ignore[union-attr]

    @classmethod
    def for_session(cls, spark: SparkSession) -> Gateway:
        """The gateway of a user's session; the same one each time.

        Raises UnsupportedError: Python can reach no JVM of the session. RequestError: it was stopped.
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
        key = spark._jsparkSession.sessionUUID()
        found = _GATEWAYS.get(key)
        if found is None:
            found = cls(spark)
            if any(other._context is not context for other in _GATEWAYS.values()):
                _GATEWAYS.clear()  # of a context that was stopped
            while len(_GATEWAYS) >= _MOST_SESSIONS:
                del _GATEWAYS[next(iter(_GATEWAYS))]
            _GATEWAYS[key] = found
        return found

    @property
    def is_local(self) -> bool:
        """Whether the session has no executors beside its driver."""
        return bool(self._context._jsc.isLocal())

    def check_access(self, physical: Sequence[str]) -> None:
        """Refuses files of stores that this session's Spark has no file system for, see `hadoop_options`."""
        check_access(self._context, physical)

    def read_ends(self, physical: Sequence[str], options: Mapping[str, str], most: int) -> bytes:
        """Read the ends of files on the executors of the driver's JVM."""
        job: Any = self._context._jvm.harness.spark.FileEnds  # type: ignore[union-attr]
        try:
            text = job.text(self._user._jsparkSession, bytearray(joined(physical)), {**OPTIONS, **options}, most)
            return base64.b64decode(text)
        except Py4JError as error:
            raise engine_error(error) from error

    def planned_frame(self, read: PlannedRead) -> DataFrame:
        """The rows of a read, in the private session."""
        frame = self._lowering.planned(
            self.session._jsparkSession,
            self._user._jsparkSession,
            read.file_format,
            read.read_schema.json(),
            stream(read.files, read.constants),
            {**OPTIONS, **read.options},
            read.positions,
            read.bitmap,
            None if read.bounds is None else ipc(read.bounds),
            None if read.root is None else location(read.root),
        )
        return DataFrame(frame, self.session)

    def invoke(self, class_name: str, method: str, result: DataType, *columns: Column) -> Column:
        """A column that calls `harness.spark.<class_name>.<method>`, a public static method, on the executors.

        Null where an argument is null. Arguments come as Catalyst has them: string as UTF8String, binary as byte[].
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
        return bytes(sums.for_session(frame._jdf, *lanes, by, bits))

    def expose(self, frame: DataFrame) -> DataFrame:
        """A frame of the private session as one of the user's session: same rows, same scan, no setting changed."""
        return self.moved(frame, self._user)

    def moved(self, frame: DataFrame, session: SparkSession) -> DataFrame:
        """A frame as one of another session of the application: same rows, same scan."""
        return DataFrame(self._lowering.expose(session._jsparkSession, frame._jdf), session)


_GATEWAYS: dict[str, Gateway] = {}
"""Gateways by the id of the user's session, of the one context that a process can have."""


def has_gateway(spark: object) -> bool:
    """Tells whether the session has a JVM that Python can reach; one of Spark Connect has not."""
    return isinstance(spark, SparkSession) and hasattr(spark, "_jsparkSession")


def check_readable(schema: StructType) -> None:
    """Raises UnsupportedError for two fields of one exact name in a struct, or a name that Spark reserves."""
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
            for inner in type_.fields:
                _check_names(inner.dataType, (*path, inner.name))
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
    return hadoop_location(plain)


def joined(physical: Sequence[str]) -> bytes:
    """The locations of files, as the JVM takes them: a NUL between two."""
    return "\0".join(map(location, physical)).encode()


def stream(files: Sequence[DiskFile], constants: pa.Table) -> bytearray:
    """Locations, sizes, times and constants as an Arrow IPC stream: all files cross in one call."""
    locations = pa.array([location(file.path) for file in files], pa.string())
    sizes = pa.array([file.size for file in files], pa.int64())
    times = pa.array([file.modified for file in files], pa.int64())
    fields = [pa.field("location", pa.string()), pa.field("size", pa.int64()), pa.field("modified", pa.int64())]
    schema = pa.schema([*fields, *constants.schema])
    return ipc(pa.Table.from_arrays([locations, sizes, times, *constants.columns], schema=schema))


def ipc(table: pa.Table) -> bytearray:
    """A table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytearray(sink.getvalue())
