"""Files of writers that counted days in the old calendar before 1582 (delta T20).

Spark before 3.0, and later versions in legacy mode, wrote dates before 1582-10-15, and timestamps before 1900, in the
hybrid Julian calendar and in local zones. DuckDB reads them as proleptic Gregorian, days off. Such a file says so in
its footer; a value that is old enough to be wrong is refused when it is met, every other value is right as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import duckdb

from harness.engines.duckdb import sqltext
from harness.engines.duckdb.columns import Exposed
from harness.engines.duckdb.footers import Footer
from harness.physical import PhysicalField, PhysicalSchema
from harness.schema import DateType, Int96Type, TimestampType

LEGACY_DATES, LEGACY_INT96 = "dates and timestamps", "int96 timestamps"
_KEYS = {"org.apache.spark.legacyDateTime": LEGACY_DATES, "org.apache.spark.legacyINT96": LEGACY_INT96}
_VERSION = "org.apache.spark.version"
_OLDEST_DATE = "DATE '1582-10-15'"
_OLDEST_TIMESTAMP = "TIMESTAMP '1900-01-01 00:00:00'"


def legacy_files(connection: duckdb.DuckDBPyConnection, footers: Mapping[str, Footer]) -> dict[str, frozenset[str]]:
    """By physical path, what a file may hold in the old calendar; files that hold nothing so are left out.

    footers: of the files to look at, by physical path.
    """
    keys = ", ".join(f"{sqltext.text(key)}::BLOB" for key in (*_KEYS, _VERSION))
    paths = {footer.spelling: path for path, footer in footers.items()}
    listed = sqltext.paths(tuple(footers))
    rows = connection.execute(
        f"SELECT file_name, decode(key), value FROM parquet_kv_metadata({listed}) WHERE key IN ({keys})"
    ).fetchall()
    found: dict[str, frozenset[str]] = {}
    for file, key, value in rows:
        kinds = frozenset({_KEYS[key]}) if key in _KEYS else _of_version(bytes(value))
        if kinds:
            found[paths[file]] = found.get(paths[file], frozenset()) | kinds
    return found


def guarded(shown: Sequence[Exposed], schema: PhysicalSchema, legacy: frozenset[str]) -> list[Exposed]:
    """`shown` with the oldest value of each column, at any level, that is the same in both calendars."""
    return [_guarded(column, physical, legacy) for column, physical in zip(shown, schema, strict=True)]


def _guarded(shown: Exposed, physical: PhysicalField, legacy: frozenset[str]) -> Exposed:
    if shown.parts:
        parts = tuple(_guarded(s, p, legacy) for s, p in zip(shown.parts, physical.children, strict=True))
        return replace(shown, parts=parts)
    match physical.type:
        case DateType() if LEGACY_DATES in legacy:
            return replace(shown, oldest=_OLDEST_DATE)
        case TimestampType() if LEGACY_DATES in legacy:
            return replace(shown, oldest=_OLDEST_TIMESTAMP)
        case Int96Type() if LEGACY_INT96 in legacy:
            return replace(shown, oldest=_OLDEST_TIMESTAMP)
        case _:
            return shown


def _of_version(version: bytes) -> frozenset[str]:
    major = version.split(b".", 1)[0]
    return frozenset({LEGACY_DATES, LEGACY_INT96}) if major.isdigit() and int(major) < 3 else frozenset()
