"""Files of writers that counted days in the old calendar before 1582 (delta T20).

Spark before 3.0, and later versions in legacy mode, wrote dates before 1582-10-15, and instants before 1900, in the
hybrid Julian calendar and in local zones. Readers that take them for proleptic Gregorian are days off. Such a file says
so in its footer; a value that is old enough to be wrong is refused when it is met, every other value is right as it is.
Timestamps without a zone are younger than that: no writer rebases them, and neither does Spark when it reads.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.engines.shared import sqltext
from harness.engines.shared.duckdb_files import DuckDBFiles
from harness.model.file_schema import PhysicalField, PhysicalSchema, walk_stored
from harness.model.schema import DateType, Int96Type, TimestampType

OLDEST_DAY = -141427
"""1582-10-15, the first day that both calendars count alike, in days since 1970-01-01."""
OLDEST_MICROS = -2208988800000000
"""1900-01-01T00:00, the first timestamp that is alike in every zone, in micros since 1970-01-01."""

_DATES, _INT96 = "dates and timestamps", "int96 timestamps"
_KEYS = {"org.apache.spark.legacyDateTime": _DATES, "org.apache.spark.legacyINT96": _INT96}
_VERSION = "org.apache.spark.version"


def legacy_files(files: DuckDBFiles, physical: Sequence[str]) -> dict[str, frozenset[str]]:
    """By physical path, what a file may hold in the old calendar; files that hold nothing so are left out.

    files: opens them.
    """
    if not physical:
        return {}
    keys = ", ".join(f"{sqltext.text(key)}::BLOB" for key in (*_KEYS, _VERSION))
    paths = {files.name(path): path for path in physical}
    rows = files.connection.execute(
        f"SELECT file_name, decode(key), value FROM parquet_kv_metadata({files.listed(physical)}) WHERE key IN ({keys})"
    ).fetchall()
    found: dict[str, frozenset[str]] = {}
    for file, key, value in rows:
        kinds = frozenset({_KEYS[key]}) if key in _KEYS else _of_version(bytes(value))
        if kinds:
            found[paths[file]] = found.get(paths[file], frozenset()) | kinds
    return found


def is_dated(schema: PhysicalSchema) -> bool:
    """Tells whether a file of that schema has a column, at any level, that could be in the old calendar."""
    every = frozenset({_DATES, _INT96})
    return any(is_legacy(stored, every) for stored in walk_stored(schema))


def is_legacy(stored: PhysicalField, legacy: frozenset[str]) -> bool:
    """Whether old values of a stored column are in the old calendar. `legacy`: of its file, from `legacy_files`."""
    match stored.type:
        case DateType() | TimestampType(utc=True):
            return _DATES in legacy
        case Int96Type():
            return _INT96 in legacy
        case _:
            return False


def _of_version(version: bytes) -> frozenset[str]:
    major = version.split(b".", 1)[0]
    return frozenset({_DATES, _INT96}) if major.isdigit() and int(major) < 3 else frozenset()
