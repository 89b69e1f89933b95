"""DuckDB's types as Arrow's, and DuckDB's values as expressions that Arrow takes without loss under any settings."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from harness.differ.duckdb_hash import child
from harness.differ.sides import incomparable
from harness.engines.shared import sqltext

_PLAIN = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "utinyint": pa.uint8(),
    "usmallint": pa.uint16(),
    "uinteger": pa.uint32(),
    "ubigint": pa.uint64(),
    "hugeint": pa.decimal256(39, 0),
    "uhugeint": pa.decimal256(39, 0),
    "float": pa.float32(),
    "double": pa.float64(),
    "varchar": pa.string(),
    "enum": pa.string(),
    "blob": pa.binary(),
    "uuid": pa.uuid(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "time_ns": pa.time64("ns"),
    "timestamp": pa.timestamp("us"),
    "timestamp_s": pa.timestamp("s"),
    "timestamp_ms": pa.timestamp("ms"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamp with time zone": pa.timestamp("us", "UTC"),
    "interval": pa.month_day_nano_interval(),
    "null": pa.null(),
}


def logical(stored: Any, column: str) -> pa.DataType:
    """The Arrow type of a DuckDB type's values.

    Raises:
        UnsupportedError: its values cannot be compared.
    """
    match stored.id:
        case "decimal":
            parts = dict(stored.children)
            return pa.decimal128(parts["precision"], parts["scale"])
        case "list" | "array":
            return pa.list_(pa.field("element", logical(child(stored, 0), column)))
        case "map":
            return pa.map_(logical(child(stored, 0), column), logical(child(stored, 1), column))
        case "struct":
            return pa.struct([pa.field(name, logical(part, column)) for name, part in stored.children])
        case plain if plain in _PLAIN:
            return _PLAIN[plain]
        case _:
            raise incomparable(f"DuckDB's column {column!r}", stored, column=column)


def shown(text: str, stored: Any, depth: int = 0) -> str:
    """An expression for the value that Arrow gets whole whatever the connection's settings."""
    match stored.id:
        case "uuid":
            return f"CAST({text} AS BLOB)"
        case "hugeint" | "uhugeint" | "enum":
            return f"CAST({text} AS VARCHAR)"
        case "list" | "array" | "map" | "struct" if _has_lossy(stored):
            return f"CASE WHEN {text} IS NULL THEN NULL ELSE {_shown_parts(text, stored, depth)} END"
        case _:
            return text


def _has_lossy(stored: Any) -> bool:
    match stored.id:
        case "array" | "uuid" | "hugeint" | "uhugeint" | "enum":
            return True
        case "list":
            return _has_lossy(child(stored, 0))
        case "map":
            return _has_lossy(child(stored, 0)) or _has_lossy(child(stored, 1))
        case "struct":
            return any(_has_lossy(part) for _, part in stored.children)
        case _:
            return False


def _shown_parts(text: str, stored: Any, depth: int) -> str:
    item = f"x{depth}"
    match stored.id:
        case "map":
            key = shown(f"{item}.key", child(stored, 0), depth + 1)
            value = shown(f"{item}.value", child(stored, 1), depth + 1)
            entry = f"struct_pack(key := {key}, value := {value})"
            return f"map_from_entries(list_transform(map_entries({text}), lambda {item}: {entry}))"
        case "struct":
            parts = {
                name: shown(f"struct_extract_at({text}, {place})", part, depth)
                for place, (name, part) in enumerate(stored.children, 1)
            }
            return sqltext.struct(parts)
        case _:
            return f"list_transform({text}, lambda {item}: {shown(item, child(stored, 0), depth + 1)})"
