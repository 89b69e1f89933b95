"""The reads of a job: the snapshot that Spark's options select, the filters that skip files, and the rows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from pyspark.sql.types import StructType

from harness.engines.spark.types import output_column, storage_type
from harness.errors import RequestError, UnsupportedError
from harness.metadata.filters import sqltext
from harness.metadata.model import schema as dt
from harness.snapshot import Changes, Snapshot
from harness.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_COMPARISONS = frozenset({"=", "<>", "!=", "<", "<=", ">", ">="})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def condition(filters: Sequence[Mapping[str, object]], schema: dt.Schema) -> str | None:
    """Return filters that Spark pushes into a scan as SQL for `Snapshot.plan`, or None if none can be translated.

    Planning skips files by these filters. Spark applies the filters again, so a filter that is left out makes the read
    slower but not wrong. Filters whose meaning might differ are left out: on floats, on parts of structs, with `<=>`,
    and on columns that are passed to Spark in another type.
    """
    texts = [text for text in (_filter_sql(each, schema) for each in filters) if text is not None]
    return " AND ".join(texts) or None


def _filter_sql(node: Mapping[str, Any], schema: dt.Schema) -> str | None:
    op, parts = node.get("op"), node.get("parts", ())
    if op in ("AND", "OR", "NOT"):
        inner = [text for text in (_filter_sql(part, schema) for part in parts) if text is not None]
        if len(inner) < len(parts):
            return None
        return f"(NOT {inner[0]})" if op == "NOT" else f"({f' {op} '.join(inner)})"
    field = _field(parts[0], schema) if parts else None
    if field is None:
        return None
    name, values = sqltext.quoted(field.name), [_literal(part, field) for part in parts[1:]]
    if op in ("IS_NULL", "IS_NOT_NULL"):
        return f"({name} {op.replace('_', ' ')})"
    if not values or None in values:
        return None
    if op == "IN":
        return f"({name} IN ({', '.join(map(str, values))}))"
    return f"({name} {op} {values[0]})" if op in _COMPARISONS and len(values) == 1 else None


def _field(node: Mapping[str, Any], schema: dt.Schema) -> dt.Field | None:
    path = node.get("column", ())
    if len(path) != 1:
        return None
    result = [field for field in schema.fields if field.name == path[0]]
    return result[0] if len(result) == 1 else None


def _literal(node: Mapping[str, object], field: dt.Field) -> str | None:
    """Return a value as a literal of DuckDB's SQL, or None if its type may differ from the column's type."""
    if "value" not in node or node["type"] != storage_type(field.type).simpleString():
        return None
    text = str(node["value"])
    try:
        match field.type:
            case dt.BooleanType() | dt.IntegerType():
                return text
            case dt.DecimalType():
                return f"CAST('{text}' AS DECIMAL({field.type.precision}, {field.type.scale}))"
            case dt.StringType():
                return sqltext.text(text)
            case dt.DateType():
                return f"DATE '{date(1970, 1, 1) + timedelta(days=int(text))}'"
            case dt.TimestampType(unit="us", utc=utc):
                time = (_EPOCH + timedelta(microseconds=int(text))).replace(tzinfo=None)
                return f"TIMESTAMPTZ '{time}+00'" if utc else f"TIMESTAMP '{time}'"
            case _:
                return None
    except OverflowError:  # beyond the years that Python supports
        return None


_ID, _TIME, _REFS = "snapshot-id", "as-of-timestamp", ("branch", "tag")
_VERSION, _TIMESTAMP = "versionasof", "timestampasof"
_POINTS = (_ID, _TIME, *_REFS, _VERSION, _TIMESTAMP)
_START, _END = "start-snapshot-id", "end-snapshot-id"
_FEED = ("readchangefeed", "readchangedata")
_UNKNOWN = (
    *("start-timestamp", "end-timestamp", "stream-from-timestamp"),
    *("pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter"),
)
"""Options that would change the rows. Options that are not named here only change how rows are read."""


def names_point(options: Mapping[str, str]) -> bool:
    """Return whether the options of a read select a point or a range in the table's history."""
    return any(key.lower() in (*_POINTS, _START, _END) for key in options)


def read_point(table: Table, options: Mapping[str, str], zone: str) -> Snapshot | Changes:
    """Return the snapshot or changes that `spark.read.options(…)` selects in a table.

    Args:
        table: The table.
        options: The options of the read.
        zone: The time zone of times without one.

    Raises:
        RequestError: The options contradict each other, are not for the table's format, or are not supported.
        SnapshotNotFoundError: There is no such snapshot.
    """
    settings = {key.lower(): value for key, value in options.items()}
    for key in _UNKNOWN:
        if key in settings:
            raise RequestError(
                f"Cannot read with the option {key}: harness reads snapshots, and ranges of snapshots or versions; "
                f"run the test in a session with the real reader, harness.spark_session(reference='{table.format}')",
                options=(key,),
            )
    if any(settings.get(key, "false").lower() == "true" for key in _FEED):
        if table.format != "delta":
            raise RequestError(
                "Cannot read a change feed of an Iceberg table: Spark reads them from Delta tables only; use "
                "harness.sql and changes('orders', …)"
            )
        return table.changes(_change_bound("starting", settings, zone), _change_bound("ending", settings, zone))
    points = [key for key in (*_POINTS, _START) if key in settings]
    if len(points) > 1:
        raise RequestError(
            f"Cannot read at several points: {', '.join(points)}; pass one of them", options=tuple(points)
        )
    if _END in settings and points != [_START]:
        raise RequestError(f"Cannot read with the option {_END}: pass {_START} too", options=(_END,))
    if not points:
        return table.snapshot()
    key, value = points[0], settings[points[0]]
    if key in (_ID, _TIME, *_REFS, _START) and table.format != "iceberg":
        raise RequestError(f"Cannot read a Delta table with the option {key}: use versionAsOf", options=(key,))
    if key == _START:
        return _appended_rows(table, _number(key, value), settings.get(_END))
    if key == _VERSION:
        return at_version(table, value)
    if key == _TIMESTAMP:
        return table.snapshot(_parse_time(value, zone))
    if key in _REFS:
        return table.snapshot(f"ref={value}")
    number = _number(key, value)
    return table.snapshot(number if key == _ID else f"timestamp={number}")


def _appended_rows(table: Table, start: int, end: str | None) -> Changes:
    """Return the rows that Iceberg's incremental read selects, with the table's current columns."""
    last = None if end is None else _number(_END, end)
    if table.snapshot(last).schema.fields != table.schema.fields:
        raise RequestError(
            f"Cannot read up to snapshot {end}: the table's schema has changed since; use harness.sql and changes(…)",
            options=(_END,),
        )
    columns = [field.name for field in table.schema.fields]
    return table.changes(start, last, mode="appends", columns=columns)


def _change_bound(side: str, settings: Mapping[str, str], zone: str) -> int | datetime | None:
    """Return the version or time at which a range of changes begins or ends, or None if no option names it."""
    version, time = settings.get(f"{side}version"), settings.get(f"{side}timestamp")
    if version is None:
        return None if time is None else _parse_time(time, zone)
    if time is not None:
        both = (f"{side}Version", f"{side}Timestamp")
        raise RequestError(f"Cannot read changes by {both[0]} and {both[1]} at once: pass one of them", options=both)
    return _number(f"{side}Version", version)


def at_version(table: Table, version: str) -> Snapshot:
    """Return the snapshot of `VERSION AS OF`.

    The value is a version of a Delta table, or a snapshot id, a branch, or a tag of an Iceberg table.
    """
    if table.format == "delta":
        return table.snapshot(_number("versionAsOf", version))
    if version in table.refs():
        return table.snapshot(f"ref={version}")
    return table.snapshot(_number("VERSION AS OF", version))


def _parse_time(text: str, zone: str) -> datetime:
    """Parse a time, in the given zone if the text has none."""
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        raise RequestError(f"Invalid time {text!r}: expected a time such as 2026-01-31 12:00:00") from None
    return time if time.tzinfo is not None else time.replace(tzinfo=ZoneInfo(zone))


def _number(key: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise RequestError(f"Invalid {key} {text!r}: expected a number", options=(key,)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTable:
    """A table that a job reads.

    Attributes:
        name: The table's name.
        schema: The schema in Spark's types.
        frame: A function that returns the rows as a DataFrame. It takes the names of the columns in order, the options
            of the read, and the filters as the JVM describes them. The filters only skip files, and Spark applies them
            again.
        partitioned_by: The partitioning as Spark writes it.
        key: The key under which Spark caches the rows, if they never change. None: the rows may differ in each read.
    """

    name: str
    schema: StructType
    frame: Callable[[SparkSession, Sequence[str], Sequence[Mapping[str, Any]], Mapping[str, str]], DataFrame]
    partitioned_by: tuple[str, ...] = ()
    key: str | None = None


def planned_rows(name: str, table: Table, snapshot: Snapshot, zone: str, partitioned_by: tuple[str, ...]) -> JobTable:
    """Return a lake table at a point of its history. `zone` is the time zone of times without one."""

    def frame(
        spark: SparkSession,
        columns: Sequence[str],
        filters: Sequence[Mapping[str, object]],
        options: Mapping[str, str],
    ) -> DataFrame:
        target_snapshot = snapshot
        # `spark.read.option("snapshot-id", …).table(…)` sends the option after the schema was read
        if names_point(options):
            point = read_point(table, options, zone)
            if isinstance(point, Changes):
                return point.to_spark(spark).select(*map(_quoted, columns))
            if point.schema.fields != snapshot.schema.fields:
                raise RequestError(
                    f"Cannot read {name} at another point: its schema was different; use VERSION AS OF, or "
                    "load its path"
                )
            target_snapshot = point
        where = condition(filters, target_snapshot.schema)
        if where is not None:
            with contextlib.suppress(RequestError, UnsupportedError):  # Spark applies the filter anyway
                return target_snapshot.to_spark(spark, columns=columns, where=where)
        return target_snapshot.to_spark(spark, columns=columns)

    fields = snapshot.schema.fields
    schema = StructType([output_column(field) for field in fields])
    for column, field in zip(schema, fields, strict=True):  # Spark refuses to write nulls into required columns
        column.nullable = not field.required
    key = f"{table.location}@{snapshot.id}/{[field.id for field in fields]}"
    return JobTable(name=name, schema=schema, frame=frame, partitioned_by=partitioned_by, key=key)


def frame_rows(
    name: str, schema: StructType, make: Callable[[SparkSession], DataFrame], partitioned_by: tuple[str, ...] = ()
) -> JobTable:
    """Return a table whose rows come from a DataFrame: a metadata table, changes, or rows that the job itself wrote."""

    def frame(
        spark: SparkSession, columns: Sequence[str], filters: Sequence[object], options: Mapping[str, str]
    ) -> DataFrame:
        if names_point(options):
            raise RequestError(f"Cannot read {name} at another point: it has no history")
        return make(spark).select(*map(_quoted, columns))

    return JobTable(name=name, schema=schema, frame=frame, partitioned_by=partitioned_by)


def _quoted(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"
