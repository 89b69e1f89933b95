"""Reading on sessions whose JVM is not accessible from Python, for example on Spark Connect.

`reader_of(spark)` returns the reader of a session: the gateway to its JVM if there is one, otherwise harness's source
on the server (`planned_source`) if the server loads it, otherwise `PlainPaths`. `PlainPaths` works in the user's
session. It uses Spark's own Parquet and ORC sources for files that Spark finds by their paths and whose types no
session setting changes. Executors read all other files through Arrow.

A file's partition values and deleted rows are joined to its rows by the path that Spark reports for each row. A file
that Spark does not report, and a row from a file that was not planned, are errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.types import StructType as SparkStruct

from harness.engines.spark.deletes import with_flags
from harness.engines.spark.gateway import OPTIONS, Gateway, check_readable, has_gateway, location
from harness.engines.spark.planned_source import PlannedSource
from harness.engines.spark.session import are_distinct, check_nested, failure, levels, require
from harness.engines.spark.types import quote_name
from harness.errors import EngineError, RequestError
from harness.metadata.model import schema as dt
from harness.metadata.model.file_schema import PhysicalField, walk_stored
from harness.metadata.planned_scan import PlannedScan
from harness.storage.paths import is_local

_HIDDEN = ("_", ".")
_NO_GLOBS = {"__globPaths__": "false", "recursiveFileLookup": "true", "mergeSchema": "false"}
"""Options that disable glob patterns in paths, partition columns from directory names, and schema merging."""
_NUMBER, _PATH, _AT = "#number", "#path", "#at"


@dataclass(frozen=True, slots=True)
class PlainPaths:
    """A reader that works in the user's session and has no access to a JVM."""

    session: SparkSession

    def opens(self, physical: str) -> bool:
        """Return whether Spark reads a file with this name.

        Spark silently skips some names, and a colon ends a URI scheme.
        """
        name = physical.rstrip("/").rpartition("/")[2]
        return not name.startswith(_HIDDEN) and ":" not in name and not name.endswith("._COPYING_")

    def reads_unambiguously(self, schema: Sequence[PhysicalField], used: Sequence[PhysicalField]) -> bool:
        """Return whether Spark session settings cannot change which values a file yields.

        Raises the error of `check_nested`.

        Args:
            schema: The file's columns.
            used: The columns that are read.
        """
        check_nested(self.session, used)
        settled = all(_is_independent_of_settings(stored) for stored in walk_stored(used))
        return settled and all(are_distinct([f.name for f in level]) for level in levels(schema))

    def planned_frame(
        self,
        *,
        file_format: str,
        read_schema: SparkStruct,
        paths: Sequence[str],
        constants: pa.Table,
        positions: bool,
        deleted: Sequence[BitMap64] | None,
    ) -> DataFrame:
        """Return the rows of files, as `Gateway.planned_frame` does.

        Args:
            file_format: As in `gateway.PlannedRead`.
            read_schema: As in `gateway.PlannedRead`.
            paths: The physical paths of the files.
            constants: As in `gateway.PlannedRead`.
            positions: As in `gateway.PlannedRead`.
            deleted: The positions of each file's deleted rows, which add a column `deleted`. None for no such column.

        Raises:
            UnsupportedError: Two columns have exactly the same name.
            RequestError: The session reads ORC with Hive's classes.
            EngineError: Spark does not find exactly these files.
        """
        assert constants.num_rows == len(paths), "one row of constants per file"
        check_readable(read_schema)
        if file_format == "orc":
            require(self.session, "spark.sql.orc.impl", "native")
        locations = [location(path) for path in paths]
        by_row = positions or deleted is not None
        frame, spellings = self._stored(file_format, read_schema, list(dict.fromkeys(locations)), positions=by_row)
        output_columns = [f"p{i}" for i in range(len(read_schema.names))] + (["pos"] if by_row else [])
        if len(locations) == 1 and constants.num_columns == 0:
            frame = frame.withColumn(_NUMBER, functions.lit(0).cast("bigint"))
        elif constants.num_columns or deleted is not None or len(set(locations)) < len(locations):
            frame = self._joined(
                frame.select(*output_columns, _PATH),
                [spellings[_normal_location(place)] for place in locations],
                constants,
            )
            output_columns += constants.column_names
        if deleted is not None:
            bitmaps = dict(enumerate(deleted))
            number, position = functions.col(_NUMBER), functions.col("pos")
            frame, flag = with_flags(frame, number, position, bitmaps, self.session)
            return frame.select(*output_columns, flag.alias("deleted"))
        return frame.select(*output_columns)

    def arrow_frame(self, table: pa.Table) -> DataFrame:
        """Return the rows of a table in the user's session."""
        return self.session.createDataFrame(table)

    def expose(self, frame: DataFrame) -> DataFrame:
        """Return the frame unchanged: it already belongs to the user's session."""
        return frame

    def _stored(
        self, file_format: str, read_schema: SparkStruct, locations: Sequence[str], *, positions: bool
    ) -> tuple[DataFrame, Mapping[str, str]]:
        """Return a frame of the files, each once, and Spark's spellings of their locations.

        The columns are `p0`, `p1`, …, `#path`, and optionally `pos`.
        """
        read = self.session.read.format(file_format).schema(read_schema).options(**OPTIONS, **_NO_GLOBS)
        frame = read.load(list(locations))
        spellings = _spark_spellings(frame, locations)
        metadata = frame.metadataColumn("_metadata")
        columns = [functions.col(quote_name(name)).alias(f"p{i}") for i, name in enumerate(read_schema.names)]
        columns.append(metadata.getField("file_path").alias(_PATH))
        if positions:
            columns.append(metadata.getField("row_index").alias("pos"))
        return frame.select(*columns), spellings

    def _joined(self, frame: DataFrame, spellings: Sequence[str], constants: pa.Table) -> DataFrame:
        """Add the constants and the file number to each row. The rows of a file that was planned twice appear twice."""
        rows = [(at, number) for number, spelling in enumerate(spellings) for at in _spellings(spelling)]
        numbers = pa.array([number for _, number in rows], pa.int64())
        keys = pa.table({_AT: pa.array([at for at, _ in rows], pa.string()), _NUMBER: numbers})
        for name, column in zip(constants.column_names, constants.columns, strict=True):
            keys = keys.append_column(name, column.take(numbers))
        keys_frame = functions.broadcast(self.session.createDataFrame(keys))
        # An outer join whose columns fail the query for unmatched rows: no row is lost silently.
        joined = frame.join(keys_frame, functions.col(_PATH) == functions.col(_AT), "left")
        columns = [functions.col(name) for name in frame.columns if name != _PATH]
        checked = [_checked_constant(functions.col(name)).alias(name) for name in (_NUMBER, *constants.column_names)]
        return joined.where(_checked_constant(functions.col(_NUMBER)) >= 0).select(*columns, *checked)


SparkReader: TypeAlias = Gateway | PlannedSource | PlainPaths


def reader_of(spark: Any) -> SparkReader:
    """Return the reader of a user's session. The session's settings stay unchanged.

    Raises:
        RequestError: The object is not a Spark session, or the session was stopped.
    """
    if has_gateway(spark):
        return Gateway.for_session(spark)
    if not all(hasattr(spark, part) for part in ("read", "conf", "createDataFrame")):
        raise RequestError(
            f"Cannot read with an object of type {type(spark).__name__}: expected a SparkSession, classic or of Connect"
        )
    if getattr(spark, "is_stopped", False):
        raise RequestError("Cannot read with this Spark session: it was stopped; make a new one")
    return PlannedSource.for_session(spark) or PlainPaths(spark)


def reader_for(plan: PlannedScan, reader: PlannedSource | PlainPaths) -> PlannedSource | PlainPaths:
    """Return the reader for a plan.

    A table with store options is read without the server's source, see `planned_source`.
    """
    is_alone = is_local(plan.table) or not (plan.storage.options or plan.storage.renewal)
    return reader if is_alone else PlainPaths(reader.session)


def _spark_spellings(frame: DataFrame, locations: Sequence[str]) -> Mapping[str, str]:
    """Return Spark's spelling of each file that a frame reads, by normalized location.

    Raises:
        EngineError: The frame reads other files than the given locations.
    """
    try:
        spellings = frame.inputFiles()
    except PySparkException as error:
        raise failure(error) from error
    listed = {_normal_location(unquote(spelling)): spelling for spelling in spellings}
    expected = {_normal_location(place): place for place in locations}
    for normal, place in expected.items():
        if normal not in listed:
            raise EngineError("Cannot read the file by its path: Spark does not find it there", file=place)
    for normal in listed:
        if normal not in expected:
            raise EngineError(
                "Cannot read files by their paths: Spark would read a file that is not planned", file=normal
            )
    return listed


def _checked_constant(constant: Column) -> Column:
    refusal = "Spark returned a row of a file that was not planned"
    joined = functions.col(_NUMBER).isNotNull()
    return functions.when(joined, constant).otherwise(functions.raise_error(functions.lit(refusal)))


def _normal_location(place: str) -> str:
    """Normalize a location: repeated slashes, and the slashes of an empty authority."""
    scheme, _, rest = place.partition(":")
    return f"{scheme.lower()}:/{re.sub('/+', '/', rest).lstrip('/')}"


def _spellings(spelling: str) -> set[str]:
    """Return the spellings of a URI in file lists and in rows. Spark omits an empty authority in rows."""
    return {spelling, re.sub(r"^([A-Za-z][A-Za-z0-9+.-]*):///", r"\1:/", spelling)}


def _is_independent_of_settings(stored: PhysicalField) -> bool:
    """Return whether Spark reads a type alike under all settings, as tried on Spark 4.3.

    Columns of other types are read through Arrow.
    """
    match stored.type:
        case dt.BooleanType() | dt.IntegerType() | dt.DecimalType() | dt.StringType() | dt.BinaryType() | dt.DateType():
            return True
        case dt.FloatType(bits=bits):
            return bits != 16
        case dt.TimestampType(unit=unit):
            return unit == "us"
        case dt.UuidType() | dt.FixedType() | dt.StructType() | dt.ListType() | dt.MapType():
            return True
        case _:
            return False
