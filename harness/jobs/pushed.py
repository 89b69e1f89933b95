"""Filters that Spark pushes into a scan, as harness's own, so that planning skips files by them.

Spark applies every filter again, so what is left out here costs time and no rows. Left out is all whose meaning might
not be exactly the same: floats, parts of structs, `<=>`, and columns whose values travel in another type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from harness.engines.spark.types import storage_type
from harness.model.schema import (
    BooleanType,
    DateType,
    DecimalType,
    Field,
    IntegerType,
    Schema,
    StringType,
    TimestampType,
)

_COMPARISONS = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def condition(filters: Sequence[Mapping[str, Any]], schema: Schema) -> str | None:
    """The filters, or some of them, as SQL for `Snapshot.plan`; None: none can be said."""
    said = [text for text in (_said(each, schema) for each in filters) if text is not None]
    return " AND ".join(said) or None


def _said(node: Mapping[str, Any], schema: Schema) -> str | None:
    op, parts = node.get("op"), node.get("parts", ())
    match op:
        case "AND" | "OR":
            sides = [_said(part, schema) for part in parts]
            return None if None in sides else "(" + f" {op} ".join(str(side) for side in sides) + ")"
        case "NOT":
            inner = _said(parts[0], schema)
            return None if inner is None else f"(NOT {inner})"
        case "IS_NULL" | "IS_NOT_NULL":
            field = _field(parts[0], schema)
            return None if field is None else f"({_quoted(field.name)} {op.replace('_', ' ')})"
        case "IN":
            return _in(parts, schema)
        case _ if op in _COMPARISONS and len(parts) == 2:
            field, value = _field(parts[0], schema), None
            if field is not None:
                value = _literal(parts[1], field)
            return None if field is None or value is None else f"({_quoted(field.name)} {_COMPARISONS[op]} {value})"
        case _:
            return None


def _in(parts: Sequence[Mapping[str, Any]], schema: Schema) -> str | None:
    field = _field(parts[0], schema)
    if field is None or len(parts) < 2:
        return None
    values = [_literal(part, field) for part in parts[1:]]
    if None in values:
        return None
    return f"({_quoted(field.name)} IN ({', '.join(str(value) for value in values)}))"


def _field(node: Mapping[str, Any], schema: Schema) -> Field | None:
    path = node.get("column", ())
    if len(path) != 1:
        return None
    found = [field for field in schema.fields if field.name == path[0]]
    return found[0] if len(found) == 1 else None


def _literal(node: Mapping[str, Any], field: Field) -> str | None:
    """A value as DuckDB's SQL writes it; None: its type is another than the column's, or not for sure the same."""
    if "value" not in node or node["type"] != storage_type(field.type).simpleString():
        return None
    text = str(node["value"])
    try:
        match field.type:
            case BooleanType() | IntegerType():
                return text
            case DecimalType():
                return f"CAST('{text}' AS DECIMAL({field.type.precision}, {field.type.scale}))"
            case StringType():
                return "'" + text.replace("'", "''") + "'"
            case DateType():
                return f"DATE '{date(1970, 1, 1) + timedelta(days=int(text))}'"
            case TimestampType(unit="us", utc=utc):
                time = (_EPOCH + timedelta(microseconds=int(text))).replace(tzinfo=None)
                return f"TIMESTAMPTZ '{time}+00'" if utc else f"TIMESTAMP '{time}'"
            case _:
                return None
    except OverflowError:  # beyond the years of Python
        return None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
