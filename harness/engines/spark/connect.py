"""Reading on sessions whose JVM Python cannot reach, as with Spark Connect: files by their plain paths.

`reader_of(spark)` gives what reads for a session: the gateway to its JVM where there is one, which is quicker, and
settles its own settings; else `PlainPaths`. That one reads in the user's session, by Spark's own Parquet and ORC
sources, files that Spark finds by their paths and whose types no setting of the session changes. All others are read on
the executors through Arrow. Settings that a lowered plan depends on are checked, because nothing else can be done about
them: they must stay as they are until the rows are read.

What is known of a file (its partition, its deleted rows) is joined to its rows by the path that Spark says they come
from. A file of which Spark knows nothing, and a row of a file that was not planned, are errors.
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

from harness.engines.spark.gateway import OPTIONS, FileFormat, Gateway, check_readable, has_gateway, location
from harness.engines.spark.positions import with_flags
from harness.errors import EngineError, RequestError
from harness.model.file_schema import PhysicalField, walk_stored
from harness.model.schema import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    Field,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    Type,
    UuidType,
    children,
)

_UTC = ("UTC", "Etc/UTC", "Z", "GMT", "Etc/GMT", "+00:00", "UTC+0", "Universal", "Zulu", "Etc/UCT", "UCT")
_FILTER_SETTINGS = {
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
}
_HIDDEN = ("_", ".")
_NO_GLOBS = {"__globPaths__": "false", "recursiveFileLookup": "true", "mergeSchema": "false"}
"""The first has Spark take `[ ] { } * ? \\` in paths for what they are, the second keeps it from reading columns out of
the names of directories."""
_NUMBER, _PATH, _AT = "#number", "#path", "#at"


@dataclass(frozen=True, slots=True)
class PlainPaths:
    """Reads in a session as it is; `session` is the user's own."""

    session: SparkSession

    def check(self, columns: Sequence[Field], condition: str | None) -> None:
        """Refuses a session under whose settings the rows would come out wrong.

        Args:
            columns: all that a plan reads.
            condition: its filter, in Spark's SQL.

        Raises:
            RequestError: naming the setting, its value, and the value needed.
        """
        self._require("spark.sql.ansi.enabled", "true")
        if _has_times(columns) or "TIMESTAMP" in (condition or "").upper():
            self._require("spark.sql.session.timeZone", *_UTC)
        if not _are_distinct(columns):
            self._require("spark.sql.caseSensitive", "true")
        if condition is not None:
            for setting, needed in _FILTER_SETTINGS.items():
                self._require(setting, needed)

    def opens(self, physical: str) -> bool:
        """Whether Spark reads a file of that name: it drops some in silence, and takes a colon for a scheme's end."""
        name = physical.rstrip("/").rpartition("/")[2]
        return not name.startswith(_HIDDEN) and ":" not in name and not name.endswith("._COPYING_")

    def knows(self, schema: Sequence[PhysicalField], used: Sequence[PhysicalField]) -> bool:
        """Whether no setting of the session has a say in what is read of a file.

        Args:
            schema: the file's columns.
            used: those of them that are read.
        """
        settled = all(_is_settled(stored) for stored in walk_stored(used))
        return settled and all(_are_distinct_names([f.name for f in level]) for level in _levels(schema))

    def check_nested(self, schema: Sequence[PhysicalField]) -> None:
        """Refuses a session that cannot tell apart the parts of a file's structs, where they differ by case alone.

        Raises:
            RequestError: as `check`.
        """
        nested = [level for top in schema for level in _levels(top.children)]
        if not all(_are_distinct_names([f.name for f in level]) for level in nested):
            self._require("spark.sql.caseSensitive", "true")

    def planned_frame(
        self,
        *,
        file_format: FileFormat,
        read_schema: SparkStruct,
        paths: Sequence[str],
        constants: pa.Table,
        positions: bool,
        deleted: Sequence[BitMap64] | None,
    ) -> DataFrame:
        """The rows of files, as `Gateway.planned_frame` gives them; with `deleted` also a column of that name.

        Args:
            paths: physical; one that is given twice gives its rows twice.
            constants: one row per file.
            deleted: positions of each file's deleted rows; None: no column.

        Raises:
            UnsupportedError: two columns of one exact name.
            RequestError: the session reads ORC by Hive's classes.
            EngineError: Spark does not find just these files.
        """
        assert constants.num_rows == len(paths), "one row of constants per file"
        check_readable(read_schema)
        if file_format == "orc":
            self._require("spark.sql.orc.impl", "native")
        locations = [location(path) for path in paths]
        by_row = positions or deleted is not None
        frame, found = self._stored(file_format, read_schema, list(dict.fromkeys(locations)), positions=by_row)
        shown = [f"p{i}" for i in range(len(read_schema.names))] + (["pos"] if by_row else [])
        if len(locations) == 1 and constants.num_columns == 0:
            frame = frame.withColumn(_NUMBER, functions.lit(0).cast("bigint"))
        elif constants.num_columns or deleted is not None or len(set(locations)) < len(locations):
            frame = self._joined(frame.select(*shown, _PATH), [found[_normal(place)] for place in locations], constants)
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
        self, file_format: FileFormat, read_schema: SparkStruct, locations: Sequence[str], *, positions: bool
    ) -> tuple[DataFrame, Mapping[str, str]]:
        """Columns `p0`, `p1`, …, `#path`, and perhaps `pos`, of each file once, and how Spark spells the locations."""
        read = self.session.read.format(file_format).schema(read_schema).options(**OPTIONS, **_NO_GLOBS)
        frame = read.load(list(locations))
        found = _found(frame, locations)
        metadata = frame.metadataColumn("_metadata")
        columns = [functions.col(_quoted(name)).alias(f"p{i}") for i, name in enumerate(read_schema.names)]
        columns.append(metadata.getField("file_path").alias(_PATH))
        if positions:
            columns.append(metadata.getField("row_index").alias("pos"))
        return frame.select(*columns), found

    def _joined(self, frame: DataFrame, spellings: Sequence[str], constants: pa.Table) -> DataFrame:
        """`frame` with the constants and the number of each row's file; rows of a file planned twice stand twice.

        spellings: of the files, as Spark lists them.
        """
        rows = [(at, number) for number, spelling in enumerate(spellings) for at in _spellings(spelling)]
        numbers = pa.array([number for _, number in rows], pa.int64())
        keys = pa.table({_AT: pa.array([at for at, _ in rows], pa.string()), _NUMBER: numbers})
        for name, column in zip(constants.column_names, constants.columns, strict=True):
            keys = keys.append_column(name, column.take(numbers))
        told = functions.broadcast(self.session.createDataFrame(keys))
        # An outer join, each of whose columns fails the query where nothing was joined: no row is lost in silence.
        joined = frame.join(told, functions.col(_PATH) == functions.col(_AT), "left")
        kept = [functions.col(name) for name in frame.columns if name != _PATH]
        checked = [_checked(functions.col(name)).alias(name) for name in (_NUMBER, *constants.column_names)]
        return joined.where(_checked(functions.col(_NUMBER)) >= 0).select(*kept, *checked)

    def _require(self, setting: str, *allowed: str) -> None:
        found = _setting(self.session, setting)
        if found is not None and found.lower() not in {value.lower() for value in allowed}:
            raise RequestError(
                f"Cannot read with this Spark session: {setting} is {found}, needed is {allowed[0]}; "
                "set it in the session, where no JVM gateway lets harness read beside it",
                cause="SparkSetting",
            )


Reader: TypeAlias = Gateway | PlainPaths


def reader_of(spark: Any) -> Reader:
    """What reads for a user's session, whose settings stay as they are.

    Raises:
        RequestError: it is no Spark session, or it was stopped.
    """
    if has_gateway(spark):
        return Gateway.of(spark)
    if not all(hasattr(spark, part) for part in ("read", "conf", "createDataFrame")):
        raise RequestError(
            f"Cannot read with an object of type {type(spark).__name__}: expected a SparkSession, classic or of Connect"
        )
    if getattr(spark, "is_stopped", False):
        raise RequestError("Cannot read with this Spark session: it was stopped; make a new one")
    return PlainPaths(spark)


def _found(frame: DataFrame, locations: Sequence[str]) -> Mapping[str, str]:
    """How Spark spells the files that a frame reads, by `_normal` location; asserts that they are just those asked for.

    Raises:
        EngineError: it reads others, or fewer, or fails.
    """
    try:
        spellings = frame.inputFiles()
    except PySparkException as error:
        raise _failure(error) from error
    found = {_normal(unquote(spelling)): spelling for spelling in spellings}
    wanted = {_normal(place): place for place in locations}
    for normal, place in wanted.items():
        if normal not in found:
            raise EngineError("Cannot read the file by its path: Spark does not find it there", file=place)
    for normal in found:
        if normal not in wanted:
            raise EngineError("Cannot read files by their paths: Spark would read one that is not planned", file=normal)
    return found


def _failure(error: Exception) -> EngineError:
    return EngineError(f"Spark failed: {' '.join(str(error).split(' JVM stacktrace:')[0].split())[:500]}")


def _setting(session: SparkSession, name: str) -> str | None:
    """Its value, set or not; None: this Spark has no such setting."""
    try:
        return str(session.conf.get(name))
    except PySparkException as error:
        if "SQL_CONF_NOT_FOUND" in str(error):
            return None
        raise _failure(error) from error


def _checked(constant: Column) -> Column:
    refusal = "Spark gave a row of a file that it was not told to read"
    joined = functions.col(_NUMBER).isNotNull()
    return functions.when(joined, constant).otherwise(functions.raise_error(functions.lit(refusal)))


def _normal(place: str) -> str:
    """A location without what may be spelled in several ways: repeated slashes, and those of an empty authority."""
    scheme, _, rest = place.partition(":")
    return f"{scheme.lower()}:/{re.sub('/+', '/', rest).lstrip('/')}"


def _spellings(spelling: str) -> list[str]:
    """A URI as Spark lists it, and as it names it in rows, where an empty authority is left out."""
    short = re.sub(r"^([A-Za-z][A-Za-z0-9+.-]*):///", r"\1:/", spelling)
    return list(dict.fromkeys((spelling, short)))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _is_settled(stored: PhysicalField) -> bool:
    """Whether Spark gives a type alike under all settings, tried on Spark 4.3; others are read through Arrow."""
    match stored.type:
        case BooleanType() | IntegerType() | DecimalType() | StringType() | BinaryType() | DateType():
            return True
        case FloatType(bits=bits):
            return bits != 16
        case TimestampType(unit=unit):
            return unit == "us"
        case UuidType() | FixedType() | StructType() | ListType() | MapType():
            return True
        case _:
            return False


def _levels(schema: Sequence[PhysicalField]) -> list[Sequence[PhysicalField]]:
    """The fields that stand beside each other, at every level."""
    inner = [f.children for f in walk_stored(schema) if isinstance(f.type, StructType)]
    return [schema, *inner]


def _are_distinct_names(names: Sequence[str]) -> bool:
    return len({name.casefold() for name in names}) == len(names)


def _are_distinct(columns: Sequence[Field]) -> bool:
    """Whether no struct among the columns has names that differ by case alone."""
    return all(_is_distinct_type(column.type) for column in columns)


def _is_distinct_type(type_: Type) -> bool:
    parts = children(type_)
    if isinstance(type_, StructType) and not _are_distinct_names([part.name for part in parts]):
        return False
    return all(_is_distinct_type(part.type) for part in parts)


def _has_times(columns: Sequence[Field]) -> bool:
    return any(isinstance(f.type, TimestampType) or _has_times(children(f.type)) for f in columns)
