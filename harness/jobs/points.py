"""Which point of a table a job reads, in the words of Iceberg's and Delta's readers on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

from harness.errors import RequestError
from harness.snapshot import Changes, Snapshot
from harness.table import Table

_ID, _TIME, _REFS = "snapshot-id", "as-of-timestamp", ("branch", "tag")
_VERSION, _TIMESTAMP = "versionasof", "timestampasof"
_POINTS = (_ID, _TIME, *_REFS, _VERSION, _TIMESTAMP)
_FEED = ("readchangefeed", "readchangedata")
_UNKNOWN = (
    *("start-snapshot-id", "end-snapshot-id", "start-timestamp", "end-timestamp", "stream-from-timestamp"),
    *("pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter"),
)
"""Options that would change the rows; all that are not known here only say how a read goes about it."""


def names_point(options: Mapping[str, str]) -> bool:
    """Whether options of a read name a point in the table's history."""
    return any(key.lower() in _POINTS for key in options)


def read_point(table: Table, options: Mapping[str, str], zone: str) -> Snapshot | Changes:
    """What `spark.read.options(…)` means on a table.

    Args:
        zone: of times that say none.

    Raises:
        RequestError: the options contradict each other, are not of the table's format, or ask what harness cannot do.
        SnapshotNotFoundError: there is no such snapshot.
    """
    given = {key.lower(): value for key, value in options.items()}
    for key in _UNKNOWN:
        if key in given:
            raise RequestError(
                f"Cannot read with the option {key}: harness reads whole snapshots, and changes of Delta tables; run "
                f"the test in a session with the real reader, harness.spark_session(reference='{table.format}')",
                options=(key,),
            )
    if any(given.get(key, "false").lower() == "true" for key in _FEED):
        return _changes(table, given, zone)
    points = [key for key in _POINTS if key in given]
    if len(points) > 1:
        raise RequestError(f"Cannot read at several points: {', '.join(points)}; give one", options=tuple(points))
    if not points:
        return table.snapshot()
    key, value = points[0], given[points[0]]
    if key in (_ID, _TIME, *_REFS) and table.format != "iceberg":
        raise RequestError(f"Cannot read a Delta table with the option {key}: use versionAsOf", options=(key,))
    if key == _VERSION:
        return at_version(table, value)
    if key == _TIMESTAMP:
        return table.snapshot(timestamp=at_zone(value, zone))
    if key in _REFS:
        return table.snapshot(ref=value)
    return table.snapshot(_number(key, value)) if key == _ID else table.snapshot(timestamp=_number(key, value))


def at_version(table: Table, version: str) -> Snapshot:
    """`VERSION AS OF`: a version of a Delta table; a snapshot's id, a branch or a tag of an Iceberg table."""
    if table.format == "delta":
        return table.snapshot(version=_number("versionAsOf", version))
    if version in table.refs():
        return table.snapshot(ref=version)
    return table.snapshot(_number("VERSION AS OF", version))


def at_zone(text: str, zone: str) -> datetime:
    """A time as text, in a zone if it has none.

    Raises:
        RequestError: it is no time.
    """
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        raise RequestError(f"Invalid time {text!r}: expected such as 2026-01-31 12:00:00") from None
    return time if time.tzinfo is not None else time.replace(tzinfo=ZoneInfo(zone))


def _changes(table: Table, given: Mapping[str, str], zone: str) -> Changes:
    first, last = given.get("startingversion"), given.get("endingversion")
    since, until = given.get("startingtimestamp"), given.get("endingtimestamp")
    return table.changes(
        None if first is None else _number("startingVersion", first),
        None if last is None else _number("endingVersion", last),
        from_timestamp=None if since is None else at_zone(since, zone),
        to_timestamp=None if until is None else at_zone(until, zone),
    )


def _number(key: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise RequestError(f"Invalid {key} {text!r}: expected a number", options=(key,)) from None
