"""Texts cast to other types: those that both engines read alike, by a regular expression; others are an error.

DuckDB reads `1e3`, `0x10`, `1_000` and `1.5` as an INTEGER, `2024/1/5` as a DATE; Spark reads `1.5d` as a DOUBLE.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.model.schema import BooleanType, DateType, DecimalType, FloatType, IntegerType, TimestampType, Type
from harness.queries.transpile import spark_text

_DIGITS = r"([0-9]+\.?[0-9]*|\.[0-9]+)"
_DAY = r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?"


@dataclass(frozen=True, slots=True)
class _Reading:
    """Texts of a type, as regular expressions of Java: those that both engines read alike, and what neither reads."""

    alike: str
    neither: str


# What has a sign that is in no number, or begins with none of a number.
_NO_NUMBER = r"\A\s*\z|[^0-9A-Za-z_.+\-\s]|\A\s*[^0-9+.\-\siInN]|\A[0-9]+-"
_INTEGER = _Reading(r"\A *[+-]?[0-9]+ *\z", _NO_NUMBER)
_DECIMAL = _Reading(rf"\A *[+-]?{_DIGITS} *\z", _NO_NUMBER)
_DOUBLE = _Reading(rf"\A *[+-]?{_DIGITS}([eE][+-]?[0-9]+)? *\z", _NO_NUMBER)
_NO_DAY = r"\A(?!.*(?i:epoch|inf))([^0-9]*|[^-/\\ ]*)\z"
_DATE = _Reading(rf"\A{_DAY}\z", _NO_DAY)
_TIMESTAMP = _Reading(rf"\A{_DAY}([ T]{_CLOCK})?\z", _NO_DAY)
_BOOLEAN = _Reading(r"\A(?i:t|true|y|yes|1|f|false|n|no|0)\z", r"\A(?!(?i:t|true|y|yes|1|f|false|n|no|0)\z)")


def _reading(to: Type) -> _Reading | None:
    match to:
        case IntegerType():
            return _INTEGER
        case DecimalType():
            return _DECIMAL
        case FloatType(bits=64):
            return _DOUBLE
        case DateType():
            return _DATE
        case TimestampType(unit="us", utc=False):
            return _TIMESTAMP
        case BooleanType():
            return _BOOLEAN
        case _:
            return None


def read(text: str, to: Type) -> str | None:
    """`CAST(text AS to)`; None for types of which nothing is certain."""
    reading = _reading(to)
    return None if reading is None else _guarded(text, to, reading, "CAST", "")


def try_read(text: str, to: Type) -> str | None:
    """`TRY_CAST(text AS to)`; None for types of which nothing is certain."""
    reading = _reading(to)
    if reading is None:
        return None
    return _guarded(text, to, reading, "TRY_CAST", f"WHEN {text} RLIKE {spark_text.text(reading.neither)} THEN NULL ")


def _guarded(text: str, to: Type, reading: _Reading, cast: str, none: str) -> str:
    message = spark_text.text(f"a text that DuckDB and Spark may read differently as {to}")
    return (
        f"CASE WHEN {text} IS NULL THEN NULL WHEN {text} RLIKE {spark_text.text(reading.alike)} "
        f"THEN {cast}({text} AS {spark_text.type_name(to)}) {none}ELSE RAISE_ERROR({message}) END"
    )
