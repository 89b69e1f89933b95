"""Text of a file as values of the other side's types, as DuckDB expressions that round nothing and guess nothing."""

from __future__ import annotations

import pyarrow as pa

from harness.differ.schemas import normal_type
from harness.engines.shared import sqltext

_INTEGER = r"\s*[-+]?\d+(\.0*)?\s*"
_FRACTION = r"\.\d{6}\d*[1-9]"
_MOST_DIGITS = 38
_SUBTRACTED = 36
"""Of decimals whose difference is exact within 38 digits, as tolerances want it."""
_KEPT = 10
"""Digits after the point that a decimal may have more than the other side's, so that they show as a difference."""


def read_as(text: str, column: str, type_: pa.DataType) -> str:
    """The text as a value of a type: what is no such value raises an error that names the column and the text.

    Of types that text does not stand for (nested ones, bytes), it stays text.
    """
    type_, kind = normal_type(type_), pa.types
    if kind.is_integer(type_):
        name = f"{'U' if kind.is_unsigned_integer(type_) else ''}{_INTEGERS[type_.bit_width]}"
        return _checked(text, column, name, f"regexp_full_match({text}, {sqltext.text(_INTEGER)})")
    if kind.is_decimal(type_):
        kept = min(_KEPT, _MOST_DIGITS - min(type_.precision, _MOST_DIGITS))
        scale = type_.scale + kept
        width = _SUBTRACTED if type_.precision + kept <= _SUBTRACTED else _MOST_DIGITS
        digits = rf"\s*[-+]?\d*\.?\d{{0,{scale}}}0*\s*"
        return _checked(
            text, column, f"DECIMAL({width}, {scale})", f"regexp_full_match({text}, {sqltext.text(digits)})"
        )
    if kind.is_date(type_):
        moment = f"CAST({text} AS TIMESTAMP)"
        return _checked(text, column, "DATE", f"{moment} = date_trunc('day', {moment})")
    if kind.is_timestamp(type_):
        name = "TIMESTAMP" if type_.tz is None else "TIMESTAMP WITH TIME ZONE"
        return _checked(text, column, name, f"NOT regexp_matches({text}, {sqltext.text(_FRACTION)})")
    name = _PLAIN.get(str(type_), "")
    return f"CAST({text} AS {name})" if name else text


def _checked(text: str, column: str, name: str, holds: str) -> str:
    wrong = f"error({sqltext.text(f'column {column} has a text that is no {name}: ')} || {text})"
    return f"CASE WHEN {text} IS NULL THEN NULL WHEN {holds} THEN CAST({text} AS {name}) ELSE {wrong} END"


_INTEGERS = {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}
_PLAIN = {
    "bool": "BOOLEAN",
    "float": "FLOAT",
    "double": "DOUBLE",
    "time64[us]": "TIME",
    "time32[ms]": "TIME",
    "time32[s]": "TIME",
}
