"""The interface to the driver's JVM: planned files become a DataFrame without listing any path again.

Frames are created in a private session next to the user's session, because the things that a read needs (exact column
names, nanoseconds as numbers, UTC) are session settings. `Gateway.expose` then wraps the analyzed plan for the user's
session: the scan keeps the private session and its settings, and everything that the user builds on top uses the user's
settings.
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

# Settings of every read, regardless of the user's session: all settings that affect which rows or values are returned.
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
# Options that Spark otherwise reads from the settings of the session that executes the query.
OPTIONS = {
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    # Local files are read by the Hadoop file system that ignores `.name.crc` files, because writers other than Hadoop
    # leave stale ones behind. The cache is disabled because the session shares it.
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
_ROW_INDEX_COLUMN = "_tmp_metadata_row_index"  # a name that Spark reserves: it fills such a column with row indexes
_MOST_SESSIONS = 32


@dataclass(frozen=True, slots=True)
class DiskFile:
    """A file to read.

    Attributes:
        path: The physical path: a local path, or a URI without percent-encoding.
        size: The file's true size in bytes, never the recorded one: Spark silently skips row groups beyond the size.
        modified: The modification time in ms since 1970, or 0 if unknown. The read fails if the file has changed.
    """

    path: str
    size: int
    modified: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRead:
    """A read in the form that the JVM receives.

    Attributes:
        file_format: `parquet`, `orc`, or `refused`. Reading a `refused` file fails with the text of its first constant.
        read_schema: The physical names in the files' letter case, with the types that Spark uses for the columns.
        files: The files in any order. The rows of a file that is listed twice are returned twice.
        constants: One row per file. The columns have type bool, int32, int64, float32, float64, string, binary,
            decimal128, date32, or timestamp[us].
        positions: True if the result has the 0-based position of each row. Parquet only.
        deleted: The name of the constant that holds each file's deleted positions, encoded by `deletes.encode`. The
            `pos` of a deleted row is the bitwise complement of its position, and therefore negative.
        options: Hadoop's options for the stores of the files.
        bounds: The known bounds of columns per file, see `file_bounds`. Filters on these columns skip files.
        root: The location of the files' table, as Spark's plans display it.

    Raises:
        UnsupportedError: Two columns have exactly the same name, or positions are requested for ORC files.
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
        """The index of `deleted` among the constants, or -1 if there is none."""
        return -1 if self.deleted is None else self.constants.column_names.index(self.deleted)


def hadoop_opens(physical: str) -> bool:
    """Return whether Spark can open a file with this name.

    In a local file name, Hadoop treats the text before a colon as a URI scheme.
    """
    return not is_local(physical) or ":" not in physical.rsplit("/", 1)[-1]


class PlannedReads(ABC):
    """A reader of planned files in the JVM of the driver (`Gateway`) or of a Connect server (`planned_source`).

    Attributes:
        session: The session in which frames are created.
    """

    session: SparkSession

    @property
    @abstractmethod
    def is_local(self) -> bool:
        """True if files are read on this machine, because the session has no executors other than its driver."""

    @abstractmethod
    def check_access(self, physical: Sequence[str]) -> None:
        """Refuse files in stores that Spark has no file system for, see `hadoop_options`."""

    @abstractmethod
    def planned_frame(self, read: PlannedRead) -> DataFrame:
        """Return the rows of a read in `session`.

        The columns are `p0`, `p1`, ... for the fields of `read_schema`, then the constants under their names, then
        `pos`. A filter on constants skips files. Filters and projections of all remaining columns reach the Parquet
        scan.
        """

    @abstractmethod
    def arrow_frame(self, table: pa.Table) -> DataFrame:
        """Return the rows of a table in `session`."""

    @abstractmethod
    def read_ends(self, physical: Sequence[str], options: Mapping[str, str], most: int) -> bytes:
        """Read the ends of Parquet and ORC files on executors. Problems with a file are part of the result.

        Args:
            physical: The physical paths of the files.
            options: As in `PlannedRead`.
            most: The largest number of bytes to return for an end. For a longer end only its length is returned.

        Returns:
            Records that `file_opener.decode` decodes.
        """


class Gateway(PlannedReads):
    """The private session next to a user's session, and operations that need the driver's JVM."""

    def __init__(self, user: SparkSession) -> None:
        self._user = user
        self._context: SparkContext = user.sparkContext
        load_classes(self._context)
        self.session: SparkSession = user.newSession()
        for key, value in SETTINGS.items():
            self.session.conf.set(key, value)
        self._lowering = self._context._jvm.harness.spark.Lowering  # type: ignore[union-attr]  # set while Spark runs

    @classmethod
    def for_session(cls, spark: SparkSession) -> Gateway:
        """Return the gateway of a user's session, which is created once.

        Raises:
            UnsupportedError: Python cannot access the session's JVM.
            RequestError: The session was stopped.
        """
        if not has_gateway(spark):
            raise UnsupportedError(
                "Cannot reach the JVM of this Spark session: Spark Connect has no gateway; use a classic session "
                "like harness.spark_session(), or to_spark, which needs no gateway",
                cause="NoGateway",
            )
        context = spark.sparkContext
        if context._jsc is None:
            raise RequestError("Cannot read with this Spark session: it was stopped; make a new one")
        key = spark._jsparkSession.sessionUUID()
        gateway = _GATEWAYS.get(key)
        if gateway is None:
            gateway = cls(spark)
            if any(other._context is not context for other in _GATEWAYS.values()):
                _GATEWAYS.clear()  # they belong to a context that was stopped
            while len(_GATEWAYS) >= _MOST_SESSIONS:
                del _GATEWAYS[next(iter(_GATEWAYS))]
            _GATEWAYS[key] = gateway
        return gateway

    @property
    def is_local(self) -> bool:
        """True if the session has no executors other than its driver."""
        return bool(self._context._jsc.isLocal())

    def check_access(self, physical: Sequence[str]) -> None:
        """Refuse files in stores that this session's Spark has no file system for, see `hadoop_options`."""
        check_access(self._context, physical)

    def read_ends(self, physical: Sequence[str], options: Mapping[str, str], most: int) -> bytes:
        """Read the ends of files on the executors of the driver's JVM."""
        job: Any = self._context._jvm.harness.spark.FileEnds  # type: ignore[union-attr]  # set while Spark runs
        try:
            text = job.text(
                self._user._jsparkSession, bytearray(join_locations(physical)), {**OPTIONS, **options}, most
            )
            return base64.b64decode(text)
        except Py4JError as error:
            raise engine_error(error) from error

    def planned_frame(self, read: PlannedRead) -> DataFrame:
        """Return the rows of a read in the private session."""
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

    def arrow_frame(self, table: pa.Table) -> DataFrame:
        """Return the rows of a table in the private session."""
        jvm: Any = self._context._jvm
        active, active_in_jvm = SparkSession._activeSession, jvm.SparkSession.getActiveSession()
        try:
            return self.session.createDataFrame(table)
        finally:  # createDataFrame makes its session the active one
            SparkSession._activeSession = active
            if active_in_jvm.isDefined():
                jvm.SparkSession.setActiveSession(active_in_jvm.get())
            else:
                jvm.SparkSession.clearActiveSession()

    def invoke(self, class_name: str, method: str, result: DataType, *columns: Column) -> Column:
        """Return a column that calls a public static method of `harness.spark.<class_name>` on the executors.

        The column is null if an argument is null. Arguments have Catalyst's types: string is UTF8String, binary is
        byte[].
        """
        owner = class_named(self._context, class_name)
        return Column(
            self._lowering.invoke(
                self.session._jsparkSession, owner, method, result.json(), [column._jc for column in columns]
            )
        )

    def bucket_sums(self, frame: DataFrame, *, lanes: tuple[int, int], by: int, bits: int) -> bytes:
        """Run `frame` and return five big-endian 64-bit words for each of `1 << bits` buckets.

        Args:
            frame: The frame.
            lanes: The indexes of two bigint columns without nulls to sum.
            by: The index of a bigint column without nulls. The lowest bits of its value are a row's bucket.
            bits: The number of these bits.

        Returns:
            For each bucket: its row count, and the low and high word of the unsigned sum of each lane.
        """
        sums: Any = self._context._jvm.harness.spark.BucketSums  # type: ignore[union-attr]  # set while Spark runs
        return bytes(sums.of(frame._jdf, *lanes, by, bits))

    def expose(self, frame: DataFrame) -> DataFrame:
        """Return a frame of the private session as a frame of the user's session, with the same rows and scan."""
        return self.move(frame, self._user)

    def move(self, frame: DataFrame, session: SparkSession) -> DataFrame:
        """Return a frame for use in another session of the application, with the same rows and the same scan."""
        return DataFrame(self._lowering.expose(session._jsparkSession, frame._jdf), session)


_GATEWAYS: dict[str, Gateway] = {}
"""The gateways by the id of the user's session. All belong to the one context that a process can have."""


def has_gateway(spark: object) -> bool:
    """Return whether Python can access the session's JVM. Spark Connect provides no access."""
    return isinstance(spark, SparkSession) and hasattr(spark, "_jsparkSession")


def check_readable(schema: StructType) -> None:
    """Raise UnsupportedError if a struct has two fields with exactly the same name, or a column has a reserved name."""
    if _ROW_INDEX_COLUMN in schema.names:
        raise UnsupportedError(f"Cannot read a column named {_ROW_INDEX_COLUMN} with Spark, which reserves this name")
    _check_names(schema, ())


def _check_names(type_: DataType, path: tuple[str, ...]) -> None:
    match type_:
        case StructType():
            for place, name in enumerate(type_.names):
                if name in type_.names[:place]:
                    raise UnsupportedError(
                        "Cannot read a file with Spark that has two columns with the same name",
                        field=".".join((*path, name)),
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
    """Return a path in Hadoop's spelling: scheme://authority/path, or file:///... for a local one, without encoding."""
    plain = local_path(path)
    if is_local(plain):
        # Hadoop removes `..` from the text, but the operating system follows links first.
        absolute = os.path.realpath(plain) if ".." in plain.split("/") else os.path.join(os.getcwd(), plain)
        return "file://" + absolute
    return hadoop_location(plain)


def join_locations(physical: Sequence[str]) -> bytes:
    """Return the locations of files in the form that the JVM reads: separated by NUL bytes."""
    return "\0".join(map(location, physical)).encode()


def stream(files: Sequence[DiskFile], constants: pa.Table) -> bytearray:
    """Return locations, sizes, times, and constants as an Arrow IPC stream, to pass all files in one call."""
    locations = pa.array([location(file.path) for file in files], pa.string())
    sizes = pa.array([file.size for file in files], pa.int64())
    times = pa.array([file.modified for file in files], pa.int64())
    fields = [pa.field("location", pa.string()), pa.field("size", pa.int64()), pa.field("modified", pa.int64())]
    schema = pa.schema([*fields, *constants.schema])
    return ipc(pa.Table.from_arrays([locations, sizes, times, *constants.columns], schema=schema))


def ipc(table: pa.Table) -> bytearray:
    """Return a table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytearray(sink.getvalue())
