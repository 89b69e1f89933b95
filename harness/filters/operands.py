"""Which column, and what of it, an expression of a filter stands for."""

from __future__ import annotations

from sqlglot import exp

from harness.filters.literals import Kind, literal_of
from harness.filters.operand_comparison import (
    DayOf,
    HeadOf,
    NullIf,
    Operand,
    OrElse,
    PeriodOf,
    PeriodText,
    SumOf,
    share_type,
)
from harness.model.schema import DateType, Field, IntegerType, StringType, TimestampType

_FIELD = "harness field"
WRITTEN_PERIODS = {"%Y": "YEAR", "%Y-%m": "MONTH", "%Y-%m-%d": "DAY"}
"""Formats of `strftime` that write a unit of time whole, and the unit."""
_DATE_PARTS = ("date_part", "datepart")


def tagged(node: exp.Expr, field: Field | None) -> None:
    """Notes on the node of a column's name which field it is; None: within one that planning does not look into."""
    node.meta[_FIELD] = field


def field_of(node: exp.Expr) -> Field | None:
    """The field that an expression is, in parentheses or not; None: it is no column."""
    field = unwrapped(node).meta.get(_FIELD)
    return field if isinstance(field, Field) else None


def unwrapped(node: exp.Expr) -> exp.Expr:
    """What stands in the parentheses around an expression, if there are any."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def operand_of(node: exp.Expr) -> Operand | None:
    """A column, or what comparisons see through to one; None: neither. Nothing but a `SumOf` can fail."""
    node = unwrapped(node)
    match node:
        case exp.Cast() if type(node) in (exp.Cast, exp.TryCast):
            return _cast(node)
        case exp.TimeToStr():
            field, unit = _clock(node.this), WRITTEN_PERIODS.get(node.args["format"].name)
            is_whole = not any(value for key, value in node.args.items() if key not in ("this", "format"))
            return PeriodText(field, unit) if field is not None and unit is not None and is_whole else None
        case exp.Left():
            return _head(node.this, node.expression)
        case exp.Substring() if _is_number(node.args.get("start"), 1) and node.args.get("length") is not None:
            return _head(node.this, node.args["length"])
        case exp.Coalesce(expressions=[default]):
            field, literal = field_of(node.this), literal_of(default)
            return OrElse(field, literal) if field is not None and literal is not None else None
        case exp.Nullif():
            field, literal = field_of(node.this), literal_of(node.expression)
            is_same = field is not None and literal is not None and share_type(field, [literal])
            return NullIf(field) if field is not None and is_same else None
        case exp.Add() | exp.Sub() if type(node) in (exp.Add, exp.Sub):
            return _sum(node)
        case _:
            period = _period(node)
            return field_of(node) if period is None else period


def _cast(node: exp.Cast) -> Operand | None:
    """As TRY_CAST: none of these casts can fail."""
    field = field_of(node.this)
    if field is None or node.args.get("format") is not None or type(node.to) is not exp.DataType:
        return None
    match field.type, node.to.this:
        case TimestampType(unit="us"), exp.DType.DATE:
            return DayOf(field)
        case DateType(), exp.DType.DATE:
            return field
        case StringType(), (exp.DType.VARCHAR | exp.DType.TEXT):
            return field
        case IntegerType(bits=(8 | 16 | 32)), (exp.DType.INT | exp.DType.BIGINT):
            return field
        case IntegerType(bits=64), exp.DType.BIGINT:
            return field
        case _:
            return None


def _sum(node: exp.Add | exp.Sub) -> SumOf | None:
    column, number = node.this, literal_of(node.expression)
    if number is None and type(node) is exp.Add:
        column, number = node.expression, literal_of(node.this)
    field = field_of(column)
    if field is None or not isinstance(field.type, IntegerType) or number is None or number.kind is not Kind.INTEGER:
        return None
    return SumOf(field, number.value if type(node) is exp.Add else -number.value)


def _head(column: exp.Expr, length: exp.Expr) -> Operand | None:
    """Of a length from 1 on: a negative one leaves characters out at the other end."""
    field, literal = field_of(column), literal_of(length)
    if field is None or not isinstance(field.type, StringType) or literal is None:
        return None
    return HeadOf(field) if literal.kind is Kind.INTEGER and literal.value >= 1 else None


def _is_number(node: exp.Expr | None, number: int) -> bool:
    literal = None if node is None else literal_of(node)
    return literal is not None and literal.kind is Kind.INTEGER and literal.value == number


def _period(node: exp.Expr) -> PeriodOf | None:
    match node:
        case exp.Year():
            of, unit = node.this, "YEAR"
        case exp.Extract() if node.name.upper() in ("YEAR", "YEARS"):
            of, unit = node.expression, "YEAR"
        case exp.Anonymous(expressions=[part, of]) if node.name.lower() in _DATE_PARTS:
            named = literal_of(part)
            if named is None or named.kind is not Kind.STRING or named.value.upper() not in ("YEAR", "YEARS"):
                return None
            unit = "YEAR"
        case exp.TimestampTrunc() | exp.DateTrunc() if isinstance(node.args.get("unit"), exp.Var):
            of, unit = node.this, node.args["unit"].name.upper()
        case _:
            return None
    field = _clock(of)
    # DuckDB 2.0 gives other times than midnight for the hour of a date.
    if field is None or (isinstance(field.type, DateType) and unit.removesuffix("S") in ("HOUR", "MINUTE", "SECOND")):
        return None
    return PeriodOf(field, unit, is_number=not isinstance(node, exp.TimestampTrunc | exp.DateTrunc))


def _clock(node: exp.Expr) -> Field | None:
    """A date, or a wall-clock timestamp in microseconds.

    The year of an instant depends on the session's zone; nanoseconds have functions of their own.
    """
    field = field_of(node)
    match None if field is None else field.type:
        case DateType() | TimestampType(unit="us", utc=False):
            return field
        case _:
            return None
