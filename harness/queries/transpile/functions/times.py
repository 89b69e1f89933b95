"""Functions of dates and times."""

from __future__ import annotations

from harness.model.schema import DateType, TimestampType
from harness.queries.transpile import spark_text
from harness.queries.transpile.functions.parameters import said
from harness.queries.transpile.functions.registry import Call, Function, Kind
from harness.queries.transpile.values import LONG, Typed

_PARTS = ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE")
_OF_TIMESTAMPS = ("HOUR", "MINUTE")
_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")


def _is_timestamp(value: Typed) -> bool:
    return isinstance(value.type, TimestampType) and value.type.unit == "us"


def _named_part(call: Call) -> Typed | None:
    """`year(x)`."""
    return _part(call, call.name.upper(), call.value(0)) if len(call.arguments) == 1 else None


def _date_part(call: Call) -> Typed | None:
    if len(call.arguments) != 2:
        return None
    part = said(call.value(0))
    if part is None:
        raise call.refused("a part of dates that no literal names")
    return _part(call, part.upper(), call.value(1))


def _part(call: Call, part: str, value: Typed) -> Typed:
    if part not in _PARTS or not (
        _is_timestamp(value) or (isinstance(value.type, DateType) and part not in _OF_TIMESTAMPS)
    ):
        raise call.refused(f"{part.lower()} of {value.type}")
    return Typed(f"CAST({part}({value.sql}) AS BIGINT)", LONG)


def _truncated(call: Call) -> Typed | None:
    if len(call.arguments) != 2:
        return None
    unit, value = (said(call.value(0)) or "?").upper(), call.value(1)
    if unit not in _UNITS or not (isinstance(value.type, DateType) or _is_timestamp(value)):
        raise call.refused(f"date_trunc of {value.type} to {unit.lower()}")
    type_ = value.type if isinstance(value.type, TimestampType) else TimestampType()
    # Spark's is an instant whatever it is given, in the session's zone, which is UTC here.
    return Typed(f"CAST(DATE_TRUNC('{unit}', {value.sql}) AS {spark_text.type_name(type_)})", type_)


def _between(call: Call) -> Typed | None:
    if len(call.arguments) != 3:
        return None
    unit = (said(call.value(0)) or "?").upper()
    ends = [call.value(1), call.value(2)]
    if unit != "DAY" or not all(isinstance(v.type, DateType) or _is_timestamp(v) for v in ends):
        raise call.refused()
    first, last = (f"CAST({v.sql} AS DATE)" for v in ends)
    return Typed(f"CAST(DATEDIFF({last}, {first}) AS BIGINT)", LONG)


FUNCTIONS = (
    *(
        Function(
            names=(part.lower(),),
            kind=Kind.TIMES,
            lowering=_named_part,
            written=part,
            draws=(f"{part.lower()}({{timestamp}})",),
        )
        for part in _PARTS
    ),
    Function(
        names=("date_part", "datepart"),
        kind=Kind.TIMES,
        lowering=_date_part,
        written="the function of the part",
        draws=("date_part('year', {date})", "date_part('minute', {timestamp})"),
    ),
    Function(
        names=("date_trunc", "datetrunc"),
        kind=Kind.TIMES,
        lowering=_truncated,
        written="DATE_TRUNC",
        draws=("date_trunc('month', {date})", "date_trunc('week', {timestamp})"),
    ),
    Function(
        names=("date_diff", "datediff"),
        kind=Kind.TIMES,
        lowering=_between,
        written="DATEDIFF",
        agree="days",
        outside="refused",
        draws=("date_diff('day', {date}, {timestamp})",),
    ),
)
