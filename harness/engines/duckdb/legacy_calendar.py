"""Values of the old calendar on DuckDB: each column of such files gets its oldest value that is right (delta T20)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta

from harness.engines.duckdb.columns import Exposed
from harness.engines.shared.legacy_calendar import OLDEST_DAY, OLDEST_MICROS, is_legacy
from harness.model.file_schema import PhysicalField, PhysicalSchema
from harness.model.schema import DateType

_OLDEST_DATE = f"DATE '{date(1970, 1, 1) + timedelta(days=OLDEST_DAY)}'"
_OLDEST_TIMESTAMP = f"TIMESTAMP '{datetime(1970, 1, 1) + timedelta(microseconds=OLDEST_MICROS)}'"


def guarded(shown: Sequence[Exposed], schema: PhysicalSchema, legacy: frozenset[str]) -> list[Exposed]:
    """`shown` with the oldest value of each column, at any level, that is the same in both calendars."""
    return [_guarded(column, physical, legacy) for column, physical in zip(shown, schema, strict=True)]


def _guarded(shown: Exposed, physical: PhysicalField, legacy: frozenset[str]) -> Exposed:
    if shown.parts:
        parts = tuple(_guarded(s, p, legacy) for s, p in zip(shown.parts, physical.children, strict=True))
        return replace(shown, parts=parts)
    if not is_legacy(physical, legacy):
        return shown
    return replace(shown, oldest=_OLDEST_DATE if isinstance(physical.type, DateType) else _OLDEST_TIMESTAMP)
