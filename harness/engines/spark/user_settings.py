"""Settings of a user's session that a lowered plan depends on, where harness can make no session beside it.

Nothing else can be done about them than to check them: they must stay as they are until the rows are read.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from harness.errors import EngineError, RequestError
from harness.metadata.model.file_schema import PhysicalField, walk_stored
from harness.metadata.model.schema import Field, StructType, TimestampType, Type, children

_UTC = ("UTC", "Etc/UTC", "Z", "GMT", "Etc/GMT", "+00:00", "UTC+0", "Universal", "Zulu", "Etc/UCT", "UCT")
_FILTER_SETTINGS = {
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
}


def check_session(session: SparkSession, columns: Sequence[Field], condition: str | None) -> None:
    """Refuses a session under whose settings the rows would come out wrong.

    Args:
        columns: all that a plan reads.
        condition: its filter, in Spark's SQL.

    Raises:
        RequestError: naming the setting, its value, and the value needed.
    """
    require(session, "spark.sql.ansi.enabled", "true")
    if _has_times(columns) or "TIMESTAMP" in (condition or "").upper():
        require(session, "spark.sql.session.timeZone", *_UTC)
    if not all(_is_distinct_type(column.type) for column in columns):
        require(session, "spark.sql.caseSensitive", "true")
    if condition is not None:
        for setting, needed in _FILTER_SETTINGS.items():
            require(session, setting, needed)


def check_nested(session: SparkSession, schema: Sequence[PhysicalField]) -> None:
    """Refuses a session that cannot tell apart the parts of a file's structs, where they differ by case alone.

    Raises:
        RequestError: as `check_session`.
    """
    nested = [level for top in schema for level in levels(top.children)]
    if not all(are_distinct([f.name for f in level]) for level in nested):
        require(session, "spark.sql.caseSensitive", "true")


def tells_apart(session: SparkSession, used: Sequence[PhysicalField]) -> bool:
    """Tells whether the session can tell apart the columns of a file that are read.

    Raises:
        RequestError: as `check_nested`.
    """
    check_nested(session, used)
    return are_distinct([f.name for f in used]) or setting_of(session, "spark.sql.caseSensitive") == "true"


def require(session: SparkSession, setting: str, *allowed: str) -> None:
    """Returns if a setting has one of the allowed values, in any case.

    Raises:
        RequestError: it has another.
    """
    found = setting_of(session, setting)
    if found is not None and found.lower() not in {value.lower() for value in allowed}:
        raise RequestError(
            f"Cannot read with this Spark session: {setting} is {found}, needed is {allowed[0]}; "
            "set it in the session, where no JVM gateway lets harness read beside it",
            cause="SparkSetting",
        )


def setting_of(session: SparkSession, name: str) -> str | None:
    """The value of a setting, set or not; None: this Spark has no such setting."""
    try:
        return str(session.conf.get(name))
    except PySparkException as error:
        if "SQL_CONF_NOT_FOUND" in str(error):
            return None
        raise failure(error) from error


def failure(error: Exception) -> EngineError:
    """The error for a request that the server refused."""
    return EngineError(f"Spark failed: {' '.join(str(error).split(' JVM stacktrace:')[0].split())[:500]}")


def levels(schema: Sequence[PhysicalField]) -> list[Sequence[PhysicalField]]:
    """The fields that stand beside each other, at every level."""
    inner = [f.children for f in walk_stored(schema) if isinstance(f.type, StructType)]
    return [schema, *inner]


def are_distinct(names: Sequence[str]) -> bool:
    """Tells whether no two names differ by case alone, or not at all."""
    return len({name.casefold() for name in names}) == len(names)


def _is_distinct_type(type_: Type) -> bool:
    parts = children(type_)
    if isinstance(type_, StructType) and not are_distinct([part.name for part in parts]):
        return False
    return all(_is_distinct_type(part.type) for part in parts)


def _has_times(columns: Sequence[Field]) -> bool:
    return any(isinstance(f.type, TimestampType) or _has_times(children(f.type)) for f in columns)
