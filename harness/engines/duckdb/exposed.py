"""How DuckDB shows the columns of a file: names and types that are its own, and values that it would read wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any

from harness.engines.shared.legacy_calendar import OLDEST_DAY, OLDEST_MICROS, is_legacy
from harness.model.file_schema import PhysicalField, PhysicalSchema
from harness.model.schema import DateType
from harness.records import dataclass

_OLDEST_DATE = f"DATE '{date(1970, 1, 1) + timedelta(days=OLDEST_DAY)}'"
_OLDEST_TIMESTAMP = f"TIMESTAMP '{datetime(1970, 1, 1) + timedelta(microseconds=OLDEST_MICROS)}'"


@dataclass(frozen=True, slots=True)
class Exposed:
    """A file's column as DuckDB shows it: its name (the second of `a`, `A` becomes `A_1`), type text and parts.

    oldest: SQL text of the least value that DuckDB reads right; older ones fail the query. None: all are right.
    """

    name: str
    type: str
    parts: tuple[Exposed, ...] = ()
    oldest: str | None = None


def exposed(label: str, duckdb_type: Any) -> Exposed:
    """The names under which DuckDB shows a column of `duckdb_type` (a DuckDBPyType) and its nested fields."""
    match duckdb_type.id:
        case "struct":
            parts = tuple(exposed(part, type_) for part, type_ in duckdb_type.children)
        case "list" | "array":
            child = next(type_ for part, type_ in duckdb_type.children if part == "child" or not isinstance(type_, int))
            parts = (exposed("element", child),)
        case "map":
            parts = tuple(exposed(part, type_) for part, type_ in duckdb_type.children)
        case _:
            parts = ()
    return Exposed(label, str(duckdb_type), parts)


def guarded(shown: Sequence[Exposed], schema: PhysicalSchema, legacy: frozenset[str]) -> list[Exposed]:
    """`shown` with the oldest value of each column, at any level, that is the same in both calendars (delta T20)."""
    return [_guarded(column, physical, legacy) for column, physical in zip(shown, schema, strict=True)]


def _guarded(shown: Exposed, physical: PhysicalField, legacy: frozenset[str]) -> Exposed:
    if shown.parts:
        parts = tuple(_guarded(s, p, legacy) for s, p in zip(shown.parts, physical.children, strict=True))
        return replace(shown, parts=parts)
    if not is_legacy(physical, legacy):
        return shown
    return replace(shown, oldest=_OLDEST_DATE if isinstance(physical.type, DateType) else _OLDEST_TIMESTAMP)
