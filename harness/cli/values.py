"""Lossless formats of values in JSON and text.

    null                      null
    boolean                   true, false
    integer                   number; text outside ±2^53, where JSON readers would round
    float, double             number that reads back the same, for doubles the shortest; text "NaN", "Infinity",
                              "-Infinity"
    decimal                   text, with its scale: "1.50"; without a fraction, as integers
    date, time, timestamp     text, ISO 8601: "2024-01-31", "12:30:00.5", "2024-01-31T12:30:00.000001"
    timestamp with time zone  the instant in UTC: "2024-01-31T12:30:00Z"
    interval, duration        text, ISO 8601: "P1M2DT3.5S"
    string, uuid, enum        text
    binary                    text, upper-case hex: "00FF"
    list, struct, map         array, object, array of [key, value]

This module only builds SQL expressions. DuckDB evaluates them to format rows; Python would take 2 µs per value. Types
are those of a query's result (`docs/reference/result-types.md`) on a connection in time zone UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from harness.cli.document import EXACT
from harness.errors import json_text
from harness.metadata.filters import sqltext
from harness.storage.records import dataclass

_SPACES = r"\x09-\x0d\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
"""White space that Python strips, as a CSV reader may do."""
_QUOTED = sqltext.text(rf'[,"\r\n]|^[{_SPACES}]|[{_SPACES}]$|^$')

_MOST_REPEATED = 50
"""The maximum number of struct fields for which the expression of a field may be repeated in the text."""
_BARE = {"boolean", "tinyint", "smallint", "integer", "utinyint", "usmallint", "uinteger"}
_UNITS: dict[str, Any] = {
    **{"date": "D", "timestamp_s": "s", "timestamp_ms": "ms", "timestamp": "us", "timestamp_ns": "ns"},
    **{"timestamp with time zone": "us", "timestamptz_ns": "ns"},
}
_NESTED = {"list", "array", "map", "struct", "tuple", "union"}


@dataclass(frozen=True, slots=True)
class _Leaf:
    """SQL for a value that is not nested.

    Attributes:
        text: SQL for the text, NULL for a null.
        bare: SQL for whether the text is a JSON number or boolean.
        escaped: True if JSON may need escapes in the text.
    """

    text: str
    bare: str = "false"
    escaped: bool = False


def is_nested(type_: Any) -> bool:
    """Return whether cells of a DuckDBPyType are written as JSON."""
    return type_.id in _NESTED


def cell(value: str, type_: Any) -> str:
    """Return SQL for a value as text, NULL for null. Strings have no quotes, and nested values are compact JSON.

    Args:
        value: SQL of the value. It may be repeated in the result.
        type_: The DuckDBPyType.
    """
    if type_.id == "union":
        return _union_member(value, type_, cell)
    if type_.id in _NESTED:
        return _unless_null(value, json_value(value, type_))
    return _leaf(value, type_).text


def csv_quoted(text: str, type_: Any) -> str:
    """Return SQL that quotes the text of a cell if CSV requires it. `type_` is the type of the cell's value."""
    if not (type_.id in _NESTED or type_.id == "blob" or _leaf(text, type_).escaped):
        return text
    quoted = f"""concat('"', replace({text}, '"', '""'), '"')"""
    return f"CASE WHEN regexp_matches({text}, {_QUOTED}) THEN {quoted} ELSE {text} END"


def json_value(value: str, type_: Any, *, spaced: bool = False, depth: int = 0) -> str:
    """Return SQL for a value as JSON, `null` for null. Only control characters are escaped.

    Args:
        value: SQL of the value.
        type_: The DuckDBPyType.
        spaced: True for a space after each comma and colon.
        depth: The number of lambdas around it. Each has its own parameter name.
    """
    comma, item = ", " if spaced else ",", f"x{depth}"

    def part(text: str, child_type: object) -> str:
        return json_value(text, child_type, spaced=spaced, depth=depth)

    def in_lambda(text: str, child_type: object) -> str:
        return json_value(text, child_type, spaced=spaced, depth=depth + 1)

    match type_.id:
        case "list":
            text = _joined(value, item, in_lambda(item, dict(type_.children)["child"]), comma)
        case "array":
            child = dict(type_.children)["child"]
            text = _joined(f"CAST({value} AS {child}[])", item, in_lambda(item, child), comma)
        case "map":
            pair = [in_lambda(f"struct_extract({item}, '{name}')", child_type) for name, child_type in type_.children]
            text = _joined(f"map_entries({value})", item, f"concat('[', {pair[0]}, '{comma}', {pair[1]}, ']')", comma)
        case "struct" | "tuple":
            places = enumerate(type_.children, 1)
            if len(type_.children) > _MOST_REPEATED:
                # In a large struct, extract each field only once: struct_extract_at takes time proportional to the
                # number of fields (DuckDB 2.0.1).
                parts = (
                    f"list_transform([struct_extract_at({value}, {n})], lambda {item}: {in_lambda(item, child)})[1]"
                    for n, (_, child) in places
                )
            else:
                parts = (part(f"struct_extract_at({value}, {n})", child_type) for n, (_, child_type) in places)
            # Fields of a tuple have no names. Arrow uses these names.
            names = [name or f"element{n}" for n, (name, _) in enumerate(type_.children, 1)]
            text = json_object(names, parts, spaced=spaced)
        case "union":
            return f"coalesce({_union_member(value, type_, part)}, 'null')"
        case _:
            return f"coalesce({_json_leaf(_leaf(value, type_))}, 'null')"
    return f"coalesce({_unless_null(value, text)}, 'null')"


def json_object(names: Iterable[str], values: Iterable[str], *, spaced: bool) -> str:
    """Return SQL for a JSON object with members whose values are SQL of JSON. `spaced` is as for `json_value`."""
    comma, colon = (", ", ": ") if spaced else (",", ":")
    members = [
        f"{sqltext.text((comma if place else '') + json_text(name) + colon)}, {value}"
        for place, (name, value) in enumerate(zip(names, values, strict=True))
    ]
    braced = ["'{'", *members, "'}'"]
    return f"concat({', '.join(braced)})"


def _joined(items: str, item: str, text: str, comma: str) -> str:
    return f"concat('[', array_to_string(list_transform({items}, lambda {item}: {text}), '{comma}'), ']')"


def _unless_null(value: str, text: str) -> str:
    return f"CASE WHEN {value} IS NOT NULL THEN {text} END"


def _union_member(value: str, type_: Any, convert: Callable[[str, Any], str]) -> str:
    cases = (
        f"WHEN {sqltext.text(name)} THEN {convert(f'union_extract({value}, {sqltext.text(name)})', member_type)}"
        for name, member_type in type_.children[1:]  # the first child is the tag
    )
    return f"CASE CAST(union_tag({value}) AS VARCHAR) {' '.join(cases)} END"


def _json_leaf(leaf: _Leaf) -> str:
    if leaf.bare == "true":
        return leaf.text
    quoted = (
        f"CAST(to_json({leaf.text}) AS VARCHAR)"
        if leaf.escaped
        else _unless_null(leaf.text, f"""concat('"', {leaf.text}, '"')""")
    )
    return quoted if leaf.bare == "false" else f"CASE WHEN {leaf.bare} THEN {leaf.text} ELSE {quoted} END"


def _leaf(value: str, type_: Any) -> _Leaf:
    text = f"CAST({value} AS VARCHAR)"
    match type_.id:
        case kind if kind in _BARE:
            return _Leaf(text, "true")
        case "bigint" | "ubigint" | "hugeint":
            return _Leaf(text, _is_exact(value))
        case "decimal":
            return _decimal(value, text, *(int(size) for _, size in type_.children))
        case "float" | "double":
            is_finite = f"isfinite({value})"
            other = f"CASE WHEN isnan({value}) THEN 'NaN' WHEN {value} > 0 THEN 'Infinity' ELSE '-Infinity' END"
            return _Leaf(f"CASE WHEN {is_finite} THEN {text} ELSE {_unless_null(value, other)} END", is_finite)
        case "blob":
            return _Leaf(f"hex({value})")
        case "geometry":
            return _Leaf(f"hex(ST_AsWKB({value}))")
        case "uuid" | "time" | "time_ns":
            return _Leaf(text)
        case "interval":
            return _Leaf(_interval(value))
        case kind if kind in _UNITS:
            return _Leaf(_moment(value, text, type_))
        case _:
            return _Leaf(text, escaped=True)


def _is_exact(value: str) -> str:
    return f"{value} BETWEEN {-EXACT} AND {EXACT}"


def _decimal(value: str, text: str, precision: int, scale: int) -> _Leaf:
    if scale == 0:
        return _Leaf(text, "true" if precision < len(str(EXACT)) else _is_exact(value))
    # DuckDB writes no digit before the decimal point if all digits are behind it.
    return _Leaf(rf"regexp_replace({text}, '^(-?)\.', '\10.')" if scale == precision else text)


def _interval(value: str) -> str:
    months = f"(date_part('year', {value}) * 12 + date_part('month', {value}))"
    days = f"date_part('day', {value})"
    micros = " + ".join(
        f"date_part('{part}', {value}) * {size}"
        for part, size in (("hour", 3_600_000_000), ("minute", 60_000_000), ("microseconds", 1))
    )
    seconds = f"rtrim(rtrim(CAST(CAST({micros} AS DECIMAL(20,0)) * 0.000001::DECIMAL(7,6) AS VARCHAR), '0'), '.')"
    parts = (
        f"CASE WHEN {months} <> 0 THEN concat({months}, 'M') END",
        f"CASE WHEN {days} <> 0 THEN concat({days}, 'D') END",
        f"CASE WHEN {micros} <> 0 OR ({months} = 0 AND {days} = 0) THEN concat('T', {seconds}, 'S') END",
    )
    return _unless_null(value, f"concat('P', {', '.join(parts)})")


def _moment(value: str, text: str, type_: Any) -> str:
    """Return SQL for ISO 8601 text.

    Infinite values become the values that Arrow stores for them, and year 0 is 1 BC.
    """
    kind, unit = type_.id, _UNITS[type_.id]
    largest = 2**31 - 1 if unit == "D" else 2**63 - 1
    zone = "Z" if kind in ("timestamp with time zone", "timestamptz_ns") else ""
    usual, local = f"replace({text}, ' ', 'T')", value
    if kind == "timestamp with time zone":
        # A conversion to the time zone would use the Julian calendar before 1582.
        local = f"make_timestamp(epoch_us({value}))"
        usual = f"replace(CAST({local} AS VARCHAR), ' ', 'T') || 'Z'"
    elif zone:
        usual = f"left({usual}, -3) || 'Z'"  # replaces +00
    day = ", ".join(f"date_part('{part}', {local})" for part in ("year", "month", "day"))
    early = f"printf('%04d-%02d-%02d', {day})"
    if kind != "date":
        early = f"concat({early}, 'T', CAST(CAST({local} AS TIMESTAMP) AS TIME), '{zone}')"
    cases = [
        f"WHEN {value} = CAST('{sign}infinity' AS {type_}) THEN '{np.datetime64(int(f'{sign}{largest}'), unit)}{zone}'"
        for sign in ("", "-")
    ]
    if not kind.endswith("_ns"):  # these types begin in 1677
        cases.append(f"WHEN {value} < CAST('0001-01-01' AS {type_}) THEN {early}")
    return f"CASE {' '.join(cases)} ELSE {usual} END"
