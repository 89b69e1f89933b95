"""Literals in SQL text: their SQL type and exact value, or None if engines might read them differently.

Filters are in the dialect of DuckDB, so a literal has the value that DuckDB reads. DuckDB 1.5 and 2.0 agree on
everything that is accepted here.
"""

from __future__ import annotations

import calendar
import datetime
import enum
import math
import operator
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial
from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from harness.metadata.filters.sqltext import (
    DAY_NS,
    parse_bytes,
    parse_date,
    parse_decimal,
    parse_float,
    parse_instant,
    parse_integer,
    parse_time,
    parse_timestamp,
    parse_uuid,
)
from harness.metadata.model.schema import from_unscaled
from harness.storage.records import dataclass


def sqlglot_dialect(dialect: str) -> Dialect:
    """Return sqlglot's dialect called `dialect`. Raises ValueError if there is none."""
    return _duckdb()() if dialect == "duckdb" else Dialect.get_or_raise(dialect)


@cache
def _duckdb() -> type[Dialect]:
    from sqlglot.dialects.duckdb import DuckDB

    base: Any = DuckDB.Parser

    class Parser(base):  # type: ignore[misc]  # the base is found at run time
        def _parse_in(self, this: exp.Expr | None, alias: bool = False) -> exp.Expr:
            """Parse `x IN [1, 2]` as a search in a list.

            sqlglot reads it as `x IN (1, 2)`, which treats nulls differently.
            """
            if self._curr is not None and self._curr.text == "[":
                return exp.In(this=this, field=self._parse_bitwise())
            node: exp.Expr = super()._parse_in(this, alias)
            return node

        def _parse_version(self) -> exp.Expr | None:
            """Parse `t VERSION AS OF 3`, which sqlglot before 30.30 supports only in part."""
            node: exp.Expr | None = super()._parse_version()
            if node is not None:
                return node
            for *before, kind in (("VERSION",), ("TIMESTAMP",), ("FOR", "SYSTEM_TIME")):
                if self._match_text_seq(*before, kind, "AS", "OF"):
                    name = "VERSION" if kind == "VERSION" else "TIMESTAMP"
                    return exp.Version(this=name, expression=self._parse_bitwise(), kind="AS OF")
            return None

    return type("HarnessDuckDB", (DuckDB,), {"Parser": Parser})


# Some nodes of parsed SQL are subclasses of a more general node: sqlglot makes `concat_ws` a `Concat`. `match` and
# `isinstance` accept the node as the general one, although it means something else. So callers check for a special
# form first. This also covers classes that later releases of sqlglot add.


GROUPS = frozenset(
    {
        exp.Expr,
        exp.Expression,
        exp.AggFunc,
        exp.Binary,
        exp.Condition,
        exp.Connector,
        exp.DDL,
        exp.DML,
        exp.DerivedTable,
        exp.Func,
        exp.IntervalOp,
        exp.Predicate,
        exp.Property,
        exp.Query,
        exp.Selectable,
        exp.SetOperation,
        exp.SubqueryPredicate,
        exp.TimeUnit,
        exp.UDTF,
        exp.Unary,
    }
)
"""Base classes that only group others. A node's membership in one of them is no evidence of its meaning."""


def general_form(kind: type[exp.Expr]) -> type[exp.Expr] | None:
    """Return the nearest base class that `match` could confuse with this class of nodes, or None."""
    for base in kind.__mro__[1:]:
        # Classes with an underscore are private to sqlglot; parsers do not create nodes of them.
        if issubclass(base, exp.Expr) and base not in GROUPS and not base.__name__.startswith("_"):
            return base
    return None


# Times without a zone are nanoseconds since 1970-01-01, in the years 1 to 9999 only. Adding units follows SQL.


_FIXED = {"SECOND": 10**9, "MINUTE": 60 * 10**9, "HOUR": 3600 * 10**9, "DAY": DAY_NS, "WEEK": 7 * DAY_NS}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def add_units(nanoseconds: int, count: int, unit: str) -> int | None:
    """Return a time without a zone moved by `count` units.

    Adding months keeps the day of the month, or uses the last day of a shorter month.

    Returns:
        The time in nanoseconds since 1970-01-01, or None if it is outside the years 1 to 9999 or the unit is unknown.
    """
    unit = unit.upper().removesuffix("S")
    if unit in _FIXED:
        total = nanoseconds + count * _FIXED[unit]
    elif unit in _MONTHS:
        days, of_day = divmod(nanoseconds, DAY_NS)
        if not _FIRST_DAY <= days <= _LAST_DAY:
            return None
        date = datetime.date.fromordinal(days + _EPOCH)
        year, month = divmod(date.year * 12 + date.month - 1 + count * _MONTHS[unit], 12)
        if not 1 <= year <= 9999:
            return None
        last = calendar.monthrange(year, month + 1)[1]
        date = datetime.date(year, month + 1, min(date.day, last))
        total = (date.toordinal() - _EPOCH) * DAY_NS + of_day
    else:
        return None
    return total if _FIRST_DAY * DAY_NS <= total < (_LAST_DAY + 1) * DAY_NS else None


_EPOCH = datetime.date(1970, 1, 1).toordinal()
_FIRST_DAY, _LAST_DAY = 1 - _EPOCH, datetime.date.max.toordinal() - _EPOCH


def period_of(nanoseconds: int, unit: str) -> tuple[int, int] | None:
    """Return the period that contains a time, like `date_trunc`: its first nanosecond and the first of the next period.

    Returns:
        Both, or None if one is outside the years 1 to 9999 or the unit is unknown. Weeks begin on Mondays.
    """
    unit = unit.upper().removesuffix("S")
    days = nanoseconds // DAY_NS
    if unit == "WEEK":
        start = ((days + _THURSDAY) // 7 * 7 - _THURSDAY) * DAY_NS  # 1970-01-01 was a Thursday
    elif unit in _FIXED:
        start = nanoseconds // _FIXED[unit] * _FIXED[unit]
    elif unit in _MONTHS and _FIRST_DAY <= days <= _LAST_DAY:
        date = datetime.date.fromordinal(days + _EPOCH)
        month = (date.month - 1) // _MONTHS[unit] * _MONTHS[unit] + 1
        start = (datetime.date(date.year, month, 1).toordinal() - _EPOCH) * DAY_NS
    else:
        return None
    end = add_units(start, 1, unit)
    return None if end is None or add_units(start, 0, unit) is None else (start, end)


_THURSDAY = 3


class LiteralKind(enum.Enum):
    """The SQL type of a literal. Values are internal values, except that times and timestamps are in nanoseconds."""

    NULL = "null"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    DOUBLE = "double"
    STRING = "string"
    DATE = "date"
    TIMESTAMP = "timestamp"
    INSTANT = "timestamp with time zone"
    TIME = "time"
    UUID = "uuid"
    BYTES = "blob"


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal in SQL text, with its type."""

    kind: LiteralKind
    value: Any


def literal_of(node: exp.Expr) -> Literal | None:
    """Return the literal value of an expression, through signs and casts, or None if it is not a known literal."""
    if general_form(type(node)) is not None and type(node) is not exp.TryCast:
        return None
    match node:
        case exp.Paren():
            return literal_of(node.this)
        case exp.Null():
            return Literal(LiteralKind.NULL, None)
        case exp.Boolean():
            return Literal(LiteralKind.BOOLEAN, bool(node.this))
        case exp.Literal():
            return Literal(LiteralKind.STRING, node.this) if node.is_string else _number(node.this)
        case exp.Neg():
            inner = literal_of(node.this)
            if inner is None or inner.kind not in (
                LiteralKind.INTEGER,
                LiteralKind.DECIMAL,
                LiteralKind.FLOAT,
                LiteralKind.DOUBLE,
            ):
                return None
            # Arithmetic on Decimal would round to the context's precision.
            is_decimal = isinstance(inner.value, Decimal)
            return Literal(inner.kind, inner.value.copy_negate() if is_decimal else -inner.value)
        case exp.Cast():  # also TRY_CAST, because `_cast` accepts no cast that could fail
            inner = literal_of(node.this)
            return None if inner is None or node.args.get("format") is not None else _cast(inner, node.to)
        case exp.Add() | exp.Sub() | exp.Mul():
            return _arithmetic(node)
        case exp.TimestampTrunc():
            return _truncate(node)
        case exp.DateFromParts():
            parts = [node.args.get(name) for name in ("year", "month", "day")]
            numbers = [number for part in parts if part is not None and (number := _small_integer(part)) is not None]
            days = parse_date("{:04d}-{:02d}-{:02d}".format(*numbers)) if len(numbers) == 3 else None
            return None if days is None else Literal(LiteralKind.DATE, days)
        case _:
            return None


def _truncate(node: exp.TimestampTrunc) -> Literal | None:
    """Return `date_trunc` of a date or timestamp literal, for units that both types have."""
    literal, unit = literal_of(node.this), node.args.get("unit")
    if (
        literal is None
        or literal.kind not in (LiteralKind.DATE, LiteralKind.TIMESTAMP)
        or not isinstance(unit, exp.Var)
    ):
        return None
    # DuckDB 2.0 returns other times than midnight for the hour of a date.
    if literal.kind is LiteralKind.DATE and unit.name.upper().removesuffix("S") in ("HOUR", "MINUTE", "SECOND"):
        return None
    period = period_of(literal.value * DAY_NS if literal.kind is LiteralKind.DATE else literal.value, unit.name)
    return None if period is None else Literal(LiteralKind.TIMESTAMP, period[0])


def _arithmetic(node: exp.Binary) -> Literal | None:
    """Return the result of arithmetic that cannot fail in any engine: on 32-bit integers, dates, and intervals."""
    number = _small_integer(node)
    if number is not None:
        return Literal(LiteralKind.INTEGER, number)
    left, right = without_parentheses(node.this), without_parentheses(node.expression)
    if isinstance(node, exp.Mul):
        return None
    if isinstance(node, exp.Add) and (isinstance(left, exp.Interval) or _small_integer(left) is not None):
        left, right = right, left  # the date is on the left from here on
    base, sign = literal_of(left), -1 if isinstance(node, exp.Sub) else 1
    if base is None:
        return None
    if isinstance(right, exp.Interval):
        return _add_interval(base, right, sign)
    days = _small_integer(right) if base.kind is LiteralKind.DATE else None
    return None if days is None else _date(base.value + sign * days)


def _small_integer(node: exp.Expr) -> int | None:
    """Return the value of an INTEGER expression made of numbers only, without casts to narrower types, or None.

    Each part of the expression is visited once.
    """
    node = without_parentheses(node)
    match node:
        case exp.Literal() if not node.is_string:
            literal = _number(node.this)
            value = literal.value if literal is not None and literal.kind is LiteralKind.INTEGER else None
        case exp.Neg(this=exp.Literal()):
            literal = literal_of(node)
            value = literal.value if literal is not None and literal.kind is LiteralKind.INTEGER else None
        case exp.Neg():
            inner = _small_integer(node.this)
            value = None if inner is None else -inner
        case exp.Add() | exp.Sub() | exp.Mul():
            left = _small_integer(node.this)
            right = None if left is None else _small_integer(node.expression)
            value = None if left is None or right is None else _ARITHMETIC[type(node)](left, right)
        case _:
            value = None
    return value if value is not None and -(2**31) <= value < 2**31 else None


_ARITHMETIC: dict[type[exp.Expr], Callable[[int, int], int]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
}


def without_parentheses(node: exp.Expr) -> exp.Expr:
    """Return the expression inside any parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _add_interval(literal: Literal, interval: exp.Interval, sign: int) -> Literal | None:
    """Return a date or timestamp moved by an interval of one unit. In SQL, the result is a TIMESTAMP."""
    unit = interval.args.get("unit")
    amount = literal_of(interval.this) if interval.this is not None else None
    count = parse_integer(str(amount.value)) if amount is not None and amount.kind in _COUNTS else None
    if count is None or not isinstance(unit, exp.Var) or literal.kind not in (LiteralKind.DATE, LiteralKind.TIMESTAMP):
        return None
    start = literal.value * DAY_NS if literal.kind is LiteralKind.DATE else literal.value
    if start % 1000:  # engines differ on TIMESTAMP_NS
        return None
    timestamp = add_units(start, sign * count, unit.name)
    return None if timestamp is None else Literal(LiteralKind.TIMESTAMP, timestamp)


_COUNTS = (LiteralKind.INTEGER, LiteralKind.STRING)


def _date(days: int) -> Literal | None:
    return Literal(LiteralKind.DATE, days) if add_units(days * DAY_NS, 0, "DAY") is not None else None


def _number(text: str) -> Literal | None:
    text = text.replace("_", "")
    if re.fullmatch(r"\d+", text):
        if len(text.lstrip("0")) > 39:  # Python refuses texts of thousands of digits
            return None
        value = int(text.lstrip("0") or "0")
        return Literal(LiteralKind.INTEGER, value) if value < 2**127 else None
    if re.fullmatch(r"\d+\.\d*|\.\d+", text):
        # DuckDB reads a number of more than 38 digits as a DOUBLE.
        return Literal(LiteralKind.DECIMAL, Decimal(text)) if len(text) <= 38 else None
    if re.fullmatch(r"(\d+\.?\d*|\.\d+)[eE][+-]?\d+", text):
        number = float(text)
        return Literal(LiteralKind.DOUBLE, number) if math.isfinite(number) else None
    return None


def _cast(literal: Literal, to: exp.DataType) -> Literal | None:
    """Return `CAST(literal AS to)`, or None if the cast could fail, round, or is unknown."""
    if type(to) is not exp.DataType:
        return None
    if literal.kind is LiteralKind.NULL:
        return literal
    target = _CAST_TYPES.get(to.this)
    if isinstance(target, int):
        number = parse_integer(literal.value) if literal.kind is LiteralKind.STRING else literal.value
        if literal.kind not in (LiteralKind.INTEGER, LiteralKind.STRING) or number is None:
            return None
        return Literal(LiteralKind.INTEGER, number) if -(1 << target - 1) <= number < 1 << target - 1 else None
    if to.this == exp.DType.DECIMAL:
        return _cast_decimal(literal, to)
    if target is None or (to.expressions and target is not LiteralKind.STRING):
        return None
    if literal.kind is target:
        return literal
    if literal.kind is LiteralKind.STRING:
        parse = _PARSERS.get(target)
        value = None if parse is None else parse(literal.value)
        return None if value is None else Literal(target, value)
    value = literal.value
    match literal.kind, target:
        case LiteralKind.DATE, (LiteralKind.TIMESTAMP | LiteralKind.INSTANT):
            return Literal(target, value * DAY_NS)
        case LiteralKind.TIMESTAMP, LiteralKind.INSTANT:
            return Literal(target, value)
        case LiteralKind.TIMESTAMP, LiteralKind.DATE:
            return _date(value // DAY_NS)
        case ((LiteralKind.INTEGER | LiteralKind.DECIMAL | LiteralKind.FLOAT), LiteralKind.DOUBLE):
            number = double(value)
        case ((LiteralKind.INTEGER | LiteralKind.DECIMAL | LiteralKind.DOUBLE), LiteralKind.FLOAT):
            number = float32(value)
        case _:
            return None
    return None if number is None else Literal(target, number)


_CAST_TYPES: dict[exp.DType, LiteralKind | int] = {
    exp.DType.TINYINT: 8,
    exp.DType.SMALLINT: 16,
    exp.DType.INT: 32,
    exp.DType.BIGINT: 64,
    exp.DType.FLOAT: LiteralKind.FLOAT,
    exp.DType.DOUBLE: LiteralKind.DOUBLE,
    exp.DType.VARCHAR: LiteralKind.STRING,
    exp.DType.TEXT: LiteralKind.STRING,
    exp.DType.DATE: LiteralKind.DATE,
    exp.DType.TIMESTAMP: LiteralKind.TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: LiteralKind.TIMESTAMP,
    exp.DType.TIMESTAMPTZ: LiteralKind.INSTANT,
    exp.DType.TIME: LiteralKind.TIME,
    exp.DType.UUID: LiteralKind.UUID,
    exp.DType.VARBINARY: LiteralKind.BYTES,
    exp.DType.BOOLEAN: LiteralKind.BOOLEAN,
}


def _cast_decimal(literal: Literal, to: exp.DataType) -> Literal | None:
    value = parse_decimal(literal.value) if literal.kind is LiteralKind.STRING else literal.value
    if literal.kind not in (LiteralKind.STRING, LiteralKind.INTEGER, LiteralKind.DECIMAL) or value is None:
        return None
    sizes = [p.this.name for p in to.expressions] or ["18", "3"]
    if not all(re.fullmatch("[0-9]{1,2}", size) for size in sizes):
        return None
    precision, scale = int(sizes[0]), int(sizes[1]) if len(sizes) > 1 else 0
    unscaled = Fraction(value) * 10**scale
    if unscaled.denominator != 1 or abs(unscaled) >= 10**precision:
        return None
    return Literal(LiteralKind.DECIMAL, from_unscaled(int(unscaled), scale))


def double(value: int | float | Decimal) -> float | None:
    """Return the DOUBLE to which engines convert a number, or None if they may round differently."""
    if isinstance(value, float):
        return value
    # Up to 15 digits, the number and the power of ten are exact doubles, so the single division rounds only once.
    return float(value) if _is_short(value, digits=15, power=22) else None


def float32(value: int | float | Decimal) -> float | None:
    """Return the FLOAT to which engines convert a number, or None if it is too large or they may round differently."""
    nearest = nearest_float32(value)
    if nearest is None or isinstance(value, float):
        return nearest
    # Up to 7 digits, the number and the power of ten are exact floats. A number that needs rounding is not accepted.
    return nearest if nearest == value and _is_short(value, digits=7, power=10) else None


def parse_float32(text: str) -> float | None:
    """Return the FLOAT that a text represents, or None if engines may round differently."""
    number = parse_float(text)
    if number is None or not math.isfinite(number):
        return number
    nearest = nearest_float32(number)
    return nearest if nearest is not None and Fraction(Decimal(text)) == Fraction(nearest) else None


def nearest_float32(value: int | float | Decimal) -> float | None:
    """Return the nearest 32-bit float, or None on overflow. Rounding twice may miss the nearest by one step."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return None


_PARSERS: dict[LiteralKind, Callable[[str], Any]] = {
    LiteralKind.DATE: parse_date,
    LiteralKind.TIMESTAMP: partial(parse_timestamp, digits=6),
    LiteralKind.INSTANT: partial(parse_instant, digits=6),
    LiteralKind.TIME: parse_time,
    LiteralKind.UUID: parse_uuid,
    LiteralKind.BYTES: parse_bytes,
    LiteralKind.DOUBLE: parse_float,
    LiteralKind.FLOAT: parse_float32,
}


def _is_short(value: int | Decimal, *, digits: int, power: int) -> bool:
    parts = Decimal(value).as_tuple()
    return len(parts.digits) <= digits and isinstance(parts.exponent, int) and abs(parts.exponent) <= power
