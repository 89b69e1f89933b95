"""Reading on sessions whose JVM Python cannot reach, as with Spark Connect.

`reader_of(spark)` gives the reader of a session: the gateway to its JVM where there is one; else harness's source on
the server (`planned_source`), where the server loads it; else `PlainPaths`. That one reads in the user's session, by
Spark's own Parquet and ORC sources, files that Spark finds by their paths and whose types no setting of the session
changes. All others are read on the executors through Arrow.

The partition and the deleted rows of a file are joined to its rows by the path that Spark says the rows come from. A
file of which Spark knows nothing, and a row of a file that was not planned, are errors.
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
from harness.engines.spark.types import quoted
from harness.errors import EngineError, RequestError
from harness.metadata.model import schema as dt
from harness.metadata.model.file_schema import PhysicalField, walk_stored
from harness.metadata.planned_scan import PlannedScan
from harness.storage.paths import is_local

_HIDDEN = ("_", ".")
_NO_GLOBS = {"__globPaths__": "false", "recursiveFileLookup": "true", "mergeSchema": "false"}
"""The first has Spark take `[ ] { } * ? \\` in paths for what they are, the second keeps it from reading columns out of
the names of directories."""
_NUMBER, _PATH, _AT = "#number", "#path", "#at"


@dataclass(frozen=True, slots=True)
class PlainPaths:
    """Reads in a session as it is; `session` is the user's own."""

    session: SparkSession

    def opens(self, physical: str) -> bool:
        """Tells whether Spark reads a file of that name: some it drops in silence, a colon ends a scheme."""
        name = physical.rstrip("/").rpartition("/")[2]
        return not name.startswith(_HIDDEN) and ":" not in name and not name.endswith("._COPYING_")

    def knows(self, schema: Sequence[PhysicalField], used: Sequence[PhysicalField]) -> bool:
        """Tells whether no setting of the session has a say in what is read of a file; raises as `check_nested`.

        schema: the file's columns. used: those of them that are read.
        """
        check_nested(self.session, used)
        settled = all(_is_settled(stored) for stored in walk_stored(used))
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
        """The rows of files, as `Gateway.planned_frame` gives them; with `deleted` also a column of that name.

        deleted: positions of each file's deleted rows; None: no column. Else as in `gateway.PlannedRead`.

        Raises:
            UnsupportedError: two columns of one exact name.
            RequestError: the session reads ORC by Hive's classes.
            EngineError: Spark does not find just these files.
        """
        assert constants.num_rows == len(paths), "one row of constants per file"
        check_readable(read_schema)
        if file_format == "orc":
            require(self.session, "spark.sql.orc.impl", "native")
        locations = [location(path) for path in paths]
        by_row = positions or deleted is not None
        frame, found = self._stored(file_format, read_schema, list(dict.fromkeys(locations)), positions=by_row)
        shown = [f"p{i}" for i in range(len(read_schema.names))] + (["pos"] if by_row else [])
        if len(locations) == 1 and constants.num_columns == 0:
            frame = frame.withColumn(_NUMBER, functions.lit(0).cast("bigint"))
        elif constants.num_columns or deleted is not None or len(set(locations)) < len(locations):
            frame = self._joined(
                frame.select(*shown, _PATH), [found[_normal_location(place)] for place in locations], constants
            )
            shown += constants.column_names
        if deleted is not None:
            bitmaps = dict(enumerate(deleted))
            number, position = functions.col(_NUMBER), functions.col("pos")
            frame, flag = with_flags(frame, number, position, bitmaps, self.session)
            return frame.select(*shown, flag.alias("deleted"))
        return frame.select(*shown)

    def expose(self, frame: DataFrame) -> DataFrame:
        """The frame itself: it belongs to the user's session already."""
        return frame

    def _stored(
        self, file_format: str, read_schema: SparkStruct, locations: Sequence[str], *, positions: bool
    ) -> tuple[DataFrame, Mapping[str, str]]:
        """Columns `p0`, `p1`, …, `#path`, and perhaps `pos`, of each file once, and how Spark spells the locations."""
        read = self.session.read.format(file_format).schema(read_schema).options(**OPTIONS, **_NO_GLOBS)
        frame = read.load(list(locations))
        found = _spark_spellings(frame, locations)
        metadata = frame.metadataColumn("_metadata")
        columns = [functions.col(quoted(name)).alias(f"p{i}") for i, name in enumerate(read_schema.names)]
        columns.append(metadata.getField("file_path").alias(_PATH))
        if positions:
            columns.append(metadata.getField("row_index").alias("pos"))
        return frame.select(*columns), found

    def _joined(self, frame: DataFrame, spellings: Sequence[str], constants: pa.Table) -> DataFrame:
        """`frame` with the constants and the number of each row's file; rows of a file planned twice stand twice."""
        rows = [(at, number) for number, spelling in enumerate(spellings) for at in _spellings(spelling)]
        numbers = pa.array([number for _, number in rows], pa.int64())
        keys = pa.table({_AT: pa.array([at for at, _ in rows], pa.string()), _NUMBER: numbers})
        for name, column in zip(constants.column_names, constants.columns, strict=True):
            keys = keys.append_column(name, column.take(numbers))
        told = functions.broadcast(self.session.createDataFrame(keys))
        # An outer join, each of whose columns fails the query where nothing was joined: no row is lost in silence.
        joined = frame.join(told, functions.col(_PATH) == functions.col(_AT), "left")
        kept = [functions.col(name) for name in frame.columns if name != _PATH]
        checked = [_checked_constant(functions.col(name)).alias(name) for name in (_NUMBER, *constants.column_names)]
        return joined.where(_checked_constant(functions.col(_NUMBER)) >= 0).select(*kept, *checked)


SparkReader: TypeAlias = Gateway | PlannedSource | PlainPaths


def reader_of(spark: Any) -> SparkReader:
    """The reader of a user's session, whose settings stay as they are.

    Raises RequestError: it is no Spark session, or it was stopped.
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
    """The reader of a plan: options for the store of its table are not for the server, see `planned_source`."""
    is_alone = is_local(plan.table) or not (plan.storage.options or plan.storage.renewal)
    return reader if is_alone else PlainPaths(reader.session)


def _spark_spellings(frame: DataFrame, locations: Sequence[str]) -> Mapping[str, str]:
    """Spark's spellings of the files that a frame reads, by `_normal` location; an EngineError for any others."""
    try:
        spellings = frame.inputFiles()
    except PySparkException as error:
        raise failure(error) from error
    found = {_normal_location(unquote(spelling)): spelling for spelling in spellings}
    wanted = {_normal_location(place): place for place in locations}
    for normal, place in wanted.items():
        if normal not in found:
            raise EngineError("Cannot read the file by its path: Spark does not find it there", file=place)
    for normal in found:
        if normal not in wanted:
            raise EngineError("Cannot read files by their paths: Spark would read one that is not planned", file=normal)
    return found


def _checked_constant(constant: Column) -> Column:
    refusal = "Spark gave a row of a file that it was not told to read"
    joined = functions.col(_NUMBER).isNotNull()
    return functions.when(joined, constant).otherwise(functions.raise_error(functions.lit(refusal)))


def _normal_location(place: str) -> str:
    """A location without what may be spelled in several ways: repeated slashes, and those of an empty authority."""
    scheme, _, rest = place.partition(":")
    return f"{scheme.lower()}:/{re.sub('/+', '/', rest).lstrip('/')}"


def _spellings(spelling: str) -> set[str]:
    """A URI as Spark lists it, and as it names it in rows, where an empty authority is left out."""
    return {spelling, re.sub(r"^([A-Za-z][A-Za-z0-9+.-]*):///", r"\1:/", spelling)}


def _is_settled(stored: PhysicalField) -> bool:
    """Tells whether Spark gives a type alike under all settings, tried on Spark 4.3; others are read through Arrow."""
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
