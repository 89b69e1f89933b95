"""Functions of dates and times. The session's time zone is UTC on both engines."""

from __future__ import annotations

import re

from sqlglot import exp

from harness.engines.spark.transpile import spark_text
from harness.engines.spark.transpile.functions.moments import amount, micros
from harness.engines.spark.transpile.functions.registry import (
    MOMENT,
    NUMBER,
    PLACE,
    VARCHAR,
    WHOLE,
    Call,
    Function,
    Lowering,
    Parameter,
    Signature,
    checked_value,
    function_of_forms,
)
from harness.engines.spark.transpile.values import DATE, LONG, TEXT, TypedSql, is_moment, is_timestamp
from harness.metadata.model import schema as dt

_JAVA = {
    "%Y": "yyyy",
    "%y": "yy",
    "%m": "MM",
    "%d": "dd",
    "%H": "HH",
    "%I": "hh",
    "%M": "mm",
    "%S": "ss",
    "%f": "SSSSSS",
    "%j": "DDD",
    "%b": "MMM",
    "%B": "MMMM",
    "%a": "EEE",
    "%A": "EEEE",
    "%p": "a",
    "%-m": "M",
    "%-d": "d",
    "%-H": "H",
    "%-I": "h",
    "%-M": "m",
    "%-S": "s",
    "%-j": "D",
}
_DIGITS = {"%Y": 4, "%m": 2, "%d": 2, "%H": 2, "%M": 2, "%S": 2}
_TOKEN = re.compile(r"%-?.|[^%]+|%", re.DOTALL)


def java_format(pattern: str) -> str | None:
    """Return Java's format for a format of `strftime`. None if no format is known to write the same text."""
    parts, between = [""], ""
    for token in _TOKEN.findall(pattern):
        if token == "%%" or not token.startswith("%"):
            between += "%" if token == "%%" else token
        elif token not in _JAVA or (not between and parts[-1].endswith(_JAVA[token][0])):
            return None  # adjacent equal letters would form one specifier
        else:
            parts += [_quoted(between), _JAVA[token]]
            between = ""
    return "".join([*parts, _quoted(between)])


def parsing_format(pattern: str) -> tuple[str, str] | None:
    """Return Java's format for reading texts that have all digits, and a regular expression for these texts.

    None if a part of the date is missing or repeated.
    """
    tokens = _TOKEN.findall(pattern)
    specifiers = [token for token in tokens if token.startswith("%")]
    if len(set(specifiers)) < len(specifiers) or not {"%Y", "%m", "%d"} <= set(specifiers) <= set(_DIGITS):
        return None
    java = java_format(pattern)
    regex = "".join(
        f"[0-9]{{{_DIGITS[token]}}}" if token in _DIGITS else re.sub(r"([^\w\s]|_)", r"\\\1", token) for token in tokens
    )
    return None if java is None else (java, rf"\A{regex}\z")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'" if text else ""


_CLOCK = dt.TimestampType()
_INSTANT = dt.TimestampType(utc=True)


def _micros(value: TypedSql) -> str | None:
    return micros(value) if is_moment(value.type) else None


MICROS: Parameter = _micros
"""A date or timestamp, as microseconds since 1970."""
_MILLIS = checked_value(
    "{0}",
    "{0} % 1000L = 0",
    "({0} DIV 1000L)",
    "epoch_ms() of a fraction of a millisecond, which DuckDB 2.0 rounds and 1.5 cuts off; use epoch_us()",
)


def _make_timestamp(call: Call) -> TypedSql | None:
    """Translate `make_timestamp`."""
    if len(call.arguments) == 1 and isinstance(call.value(0).type, dt.IntegerType):
        return TypedSql(f"CAST(TIMESTAMP_MICROS({call.value(0).sql}) AS TIMESTAMP_NTZ)", _CLOCK)
    if len(call.arguments) != 6:
        return None
    values = call.values()
    seconds = values[5]
    exact = isinstance(seconds.type, dt.DecimalType) and seconds.type.scale <= 6
    if not all(isinstance(v.type, dt.IntegerType) for v in values[:5]):
        return None
    if not exact and not isinstance(seconds.type, dt.IntegerType):
        raise call.refusal(f"make_timestamp with seconds of {seconds.type}", "cast them to DECIMAL(8, 6)")
    first = ", ".join(str(PLACE(v)) for v in values[:5])
    return TypedSql(f"MAKE_TIMESTAMP_NTZ({first}, CAST({seconds.sql} AS DECIMAL(8, 6)))", _CLOCK)


def _strftime(call: Call) -> TypedSql | None:
    """Translate `strftime`."""
    value, pattern = call.value(0), call.value(1).text
    if pattern is None or not is_moment(value.type) or value.type == _INSTANT:
        raise call.refusal(f"strftime of {value.type} with a format that is not a literal")
    java = java_format(pattern)
    if java is None:
        raise call.refusal(f"strftime with {pattern!r}", "use the specifiers that docs/reference/functions.md lists")
    condition, text = f"YEAR({value.sql}) BETWEEN 1 AND 9999", f"DATE_FORMAT({value.sql}, {spark_text.text(java)})"
    return TypedSql(checked_value(value.sql, condition, text, "strftime() outside the years 1 to 9999"), TEXT)


def _strptime(call: Call) -> TypedSql | None:
    """Translate `strptime`. DuckDB also reads texts with missing digits; the translation raises an error for them."""
    text, pattern = VARCHAR(call.value(0)), call.value(1).text
    formats = parsing_format(pattern) if pattern is not None else None
    if text is None or formats is None:
        raise call.refusal("strptime with this format", "use %Y, %m, %d, %H, %M, %S and separators")
    java, regex = formats
    condition, timestamp = (
        f"{text} RLIKE {spark_text.text(regex)}",
        f"TO_TIMESTAMP_NTZ({text}, {spark_text.text(java)})",
    )
    return TypedSql(
        checked_value(text, condition, timestamp, "strptime() of a text that lacks digits of its format"), _CLOCK
    )


def _at_time_zone(call: Call) -> TypedSql | None:
    """Translate AT TIME ZONE, for UTC only: the rules of other zones change with releases of either engine."""
    zone, value = call.value(1).text, call.value(0)
    if zone is None or zone.upper() != "UTC" or not is_timestamp(value.type):
        raise call.refusal(f"AT TIME ZONE {zone or ''}".strip(), "use UTC")
    type_ = _CLOCK if value.type == _INSTANT else _INSTANT
    return TypedSql(f"CAST({value.sql} AS {spark_text.type_name(type_)})", type_)


def _date_add(call: Call) -> TypedSql | None:
    """Translate `date_add` like the operator."""
    return call.expressions.translate(exp.Add(this=call.arguments[0].copy(), expression=call.arguments[1].copy()))


def _interval(unit: str) -> Lowering:
    """Return the lowering of `to_days(n)` and similar functions."""
    return lambda call: amount(call.value(0), unit)


FUNCTIONS = (
    Function(("date_add",), _date_add, 2),
    *(Function((f"to_{unit}s",), _interval(unit), 1) for unit in ("year", "month", "week", "day", "hour", "minute")),
    function_of_forms(
        ("epoch_ms",),
        Signature((WHOLE,), _CLOCK, "CAST(TIMESTAMP_MILLIS({0}) AS TIMESTAMP_NTZ)"),
        Signature((MICROS,), LONG, _MILLIS),
    ),
    function_of_forms(("epoch_us",), Signature((MICROS,), LONG, "{0}")),
    function_of_forms(("epoch_ns",), Signature((MICROS,), LONG, "({0} * 1000L)")),
    function_of_forms(
        ("to_timestamp",),
        Signature((WHOLE,), _INSTANT, "TIMESTAMP_SECONDS({0})"),
        Signature((NUMBER,), _INSTANT, "TIMESTAMP_MICROS(CAST(RINT({0} * 1000000D) AS BIGINT))"),
    ),
    function_of_forms(("make_date",), Signature((PLACE, PLACE, PLACE), DATE, "MAKE_DATE({0}, {1}, {2})")),
    Function(("make_timestamp",), _make_timestamp),
    function_of_forms(("last_day",), Signature((MOMENT,), DATE, "LAST_DAY(CAST({0} AS DATE))")),
    function_of_forms(("dayname",), Signature((MOMENT,), TEXT, "DATE_FORMAT({0}, 'EEEE')")),
    function_of_forms(("monthname",), Signature((MOMENT,), TEXT, "DATE_FORMAT({0}, 'MMMM')")),
    Function(("strftime",), _strftime, 2),
    Function(("strptime",), _strptime, 2),
    Function(("timezone", "AT TIME ZONE"), _at_time_zone, 2),
    Function(("age",), alternative="use date_diff()"),
    Function(("time_bucket",), alternative="use date_trunc()"),
    Function(("try_strptime",), alternative="use strptime() on texts of the format"),
    Function(
        ("now", "current_date", "current_timestamp", "today", "get_current_timestamp"),
        alternative="write the moment as a literal",
    ),
)
