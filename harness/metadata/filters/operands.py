"""Comparisons of an expression of a column with a literal, translated into predicates on the column.

If only one direction is certain (the comparison implies the predicate), the predicate is combined with `Undecided`.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from sqlglot import exp

from harness.metadata.filters.literal_comparison import (
    as_nanoseconds,
    compare_column,
    date_nanoseconds,
    never_true,
    share_type,
    uncast_kinds,
)
from harness.metadata.filters.literals import Literal, LiteralKind, literal_of, period_of, without_parentheses
from harness.metadata.filters.predicate import (
    OPERATORS,
    Constant,
    IsNull,
    Op,
    Predicate,
    StartsWith,
    Undecided,
    conjunction,
    disjunction,
)
from harness.metadata.filters.sqltext import DAY_NS, parse_timestamp
from harness.metadata.model.schema import DateType, Field, IntegerType, StringType, TimestampType
from harness.storage.records import dataclass


@dataclass(frozen=True, slots=True)
class DayOf:
    """`CAST(field AS DATE)` of a timestamp."""

    field: Field


@dataclass(frozen=True, slots=True)
class PeriodOf:
    """The unit of time, for example YEAR, that contains a date or a timestamp without a zone.

    Attributes:
        field: The column.
        unit: The unit of time.
        form: The type of the expression. `moment`: the first moment, as in `date_trunc('month', field)`. `number`: the
            number of the year, as in `year(field)`. `text`: a text from `strftime` that starts with the year, for a
            YEAR, MONTH, or DAY.
    """

    field: Field
    unit: str
    form: str


@dataclass(frozen=True, slots=True)
class HeadOf:
    """The first characters of a text: `left(field, 3)`, `substr(field, 1, 3)`."""

    field: Field


@dataclass(frozen=True, slots=True)
class OrElse:
    """`coalesce(field, default)`."""

    field: Field
    default: Literal


@dataclass(frozen=True, slots=True)
class NullIf:
    """`nullif(field, …)`."""

    field: Field


@dataclass(frozen=True, slots=True)
class SumOf:
    """`field + number` on integers. The sum fails if it overflows, so files that may cause an overflow are kept."""

    field: Field
    number: int


Operand: TypeAlias = Field | DayOf | PeriodOf | HeadOf | OrElse | NullIf | SumOf


def compare(operand: Operand, op: Op, literal: Literal) -> Predicate:
    """Return the predicate for `operand op literal`, Undecided if engines could read it differently."""
    if literal.kind is LiteralKind.NULL:
        return Constant(None)
    match operand:
        case DayOf(field=field):
            return _compare_day(field, op, literal)
        case PeriodOf():
            return _compare_period(operand, op, literal)
        case HeadOf(field=field):
            return _compare_head(field, op, literal)
        case OrElse():
            return _compare_or_else(operand, op, literal)
        case NullIf(field=field):
            return conjunction((compare_column(field, op, literal), Undecided()))
        case SumOf():
            return _compare_sum(operand, op, literal)
        case Field():
            return compare_column(operand, op, literal)


def compare_literals(left: Literal, op: Op, right: Literal) -> bool | None:
    """Return the result of comparing two literals.

    Returns:
        The result, or None if the literals have different types or a type that Python orders differently.
    """
    if left.kind is not right.kind or left.kind not in _COMPARED:
        return None
    return bool(OPERATORS[op](left.value, right.value))


_COMPARED = {LiteralKind.BOOLEAN, LiteralKind.INTEGER, LiteralKind.STRING, LiteralKind.DATE, LiteralKind.TIMESTAMP}
_YEARS_FIRST = {"YEAR": "[0-9]{4}", "MONTH": "[0-9]{4}-[0-9]{2}", "DAY": "[0-9]{4}-[0-9]{2}-[0-9]{2}"}


_BIGINT = 2**63
"""Integers from here on may have a type whose sums are rounded."""


def _compare_sum(operand: SumOf, op: Op, literal: Literal) -> Predicate:
    """Compare the column with the literal minus the addend. Also include values whose sum may overflow."""
    field, number = operand.field, operand.number
    if not isinstance(field.type, IntegerType) or literal.kind is not LiteralKind.INTEGER:
        return Undecided()
    if abs(number) >= _BIGINT or abs(literal.value) >= _BIGINT:
        return Undecided()

    def bound(op: Op, value: int) -> Predicate:
        return compare_column(field, op, Literal(LiteralKind.INTEGER, value - number))

    half = 2 ** (field.type.bits - 1)
    beyond = bound(Op.GE, half) if number > 0 else bound(Op.LT, -half)
    return conjunction((disjunction((bound(op, literal.value), beyond)), Undecided()))


def _compare_head(field: Field, op: Op, literal: Literal) -> Predicate:
    """Compare the first characters of a text.

    The first characters are at most the text itself, so a lower bound on them is a lower bound on the text.
    """
    if literal.kind is not LiteralKind.STRING or not literal.value:
        return Undecided()
    match op:
        case Op.EQ:
            return conjunction((StartsWith(field, literal.value), Undecided()))
        case Op.GE | Op.GT:
            return conjunction((compare_column(field, Op.GE, literal), Undecided()))
        case _:
            return Undecided()


def _compare_or_else(operand: OrElse, op: Op, literal: Literal) -> Predicate:
    """Compare `coalesce` with a literal. Only decide if column, default, and literal have the same type."""
    kinds = uncast_kinds(operand.field.type) | (
        {LiteralKind.STRING} if isinstance(operand.field.type, StringType) else set()
    )
    if not {operand.default.kind, literal.kind} <= kinds:
        return Undecided()
    for_null = (IsNull(operand.field),) if compare_literals(operand.default, op, literal) is not False else ()
    return conjunction((disjunction((compare_column(operand.field, op, literal), *for_null)), Undecided()))


def _compare_day(field: Field, op: Op, literal: Literal) -> Predicate:
    """Translate `CAST(timestamp AS DATE) op date` into a range of timestamps."""
    is_date = literal.kind in (LiteralKind.DATE, LiteralKind.STRING)
    start = as_nanoseconds(literal, date_nanoseconds) if is_date else None
    return Undecided() if start is None else _compare_start(field, op, start, start, start + DAY_NS)


def _compare_start(field: Field, op: Op, at: int, start: int, end: int) -> Predicate:
    """Compare the first moment of a period with `at`, which is in the period from `start` to `end`."""

    def bound(op: Op, instant: int) -> Predicate:
        return compare_column(field, op, Literal(LiteralKind.TIMESTAMP, instant))

    match op:
        case Op.EQ if at != start:
            return never_true(field)
        case Op.EQ:
            return conjunction((bound(Op.GE, start), bound(Op.LT, end)))
        case Op.NE:
            return disjunction((bound(Op.LT, start), bound(Op.GE, end)))
        case Op.LT | Op.GE:
            return bound(op, start if at == start else end)
        case Op.LE:
            return bound(Op.LT, end)
        case Op.GT:
            return bound(Op.GE, end)


def _compare_period(operand: PeriodOf, op: Op, literal: Literal) -> Predicate:
    """Translate a comparison of periods into a range of times.

    The result is combined with `Undecided`, because infinite times have no year.
    """
    at: int | None = None
    match operand.form, literal.kind:
        case "number", LiteralKind.INTEGER if 1 <= literal.value <= 9999:
            at = parse_timestamp(f"{literal.value:04}-01-01", digits=6)
        case "text", LiteralKind.STRING if op is Op.EQ and re.fullmatch(_YEARS_FIRST[operand.unit], literal.value):
            at = parse_timestamp(f"{literal.value}-01-01"[:10], digits=6)
        case "moment", (LiteralKind.DATE | LiteralKind.TIMESTAMP):
            at = as_nanoseconds(literal, date_nanoseconds)
        case _:
            pass
    period = None if at is None else period_of(at, operand.unit)
    if at is None or period is None or op is Op.NE:
        return Undecided()
    return conjunction((_compare_start(operand.field, op, at, *period), Undecided()))


_FIELD = "harness field"
WRITTEN_PERIODS = {"%Y": "YEAR", "%Y-%m": "MONTH", "%Y-%m-%d": "DAY"}
"""The formats of `strftime` that write all parts of a unit of time, and that unit."""
_DATE_PARTS = ("date_part", "datepart")


def tag_field(node: exp.Expr, field: Field | None) -> None:
    """Record which field a column node refers to. Pass None for a field that planning ignores."""
    node.meta[_FIELD] = field


def field_of(node: exp.Expr) -> Field | None:
    """Return the field of a column, with or without parentheses around it, or None for any other expression."""
    field = without_parentheses(node).meta.get(_FIELD)
    return field if isinstance(field, Field) else None


def operand_of(node: exp.Expr) -> Operand | None:
    """Return a column, or a supported expression of a column; else None. Only a `SumOf` can fail."""
    node = without_parentheses(node)
    match node:
        case exp.Cast() if type(node) in (exp.Cast, exp.TryCast):
            return _cast(node)
        case exp.TimeToStr():
            field, unit = _zoneless_field(node.this), WRITTEN_PERIODS.get(node.args["format"].name)
            is_whole = not any(value for key, value in node.args.items() if key not in ("this", "format"))
            return PeriodOf(field, unit, "text") if field is not None and unit is not None and is_whole else None
        case exp.Left():
            return _head_operand(node.this, node.expression)
        case exp.Substring(this=text) if node.args.get("start") is not None and node.args.get("length") is not None:
            is_head = literal_of(node.args["start"]) == Literal(LiteralKind.INTEGER, 1)
            return _head_operand(text, node.args["length"]) if is_head else None
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
    """Return the operand of a cast. TRY_CAST is the same, because none of these casts can fail."""
    field = field_of(node.this)
    if field is None or node.args.get("format") is not None or type(node.to) is not exp.DataType:
        return None
    match field.type, node.to.this:
        case TimestampType(unit="us"), exp.DType.DATE:
            return DayOf(field)
        case (DateType(), exp.DType.DATE) | (StringType(), exp.DType.VARCHAR | exp.DType.TEXT):
            return field
        case (IntegerType(), exp.DType.BIGINT) | (IntegerType(bits=(8 | 16 | 32)), exp.DType.INT):
            return field
        case _:
            return None


def _sum(node: exp.Add | exp.Sub) -> SumOf | None:
    column, number = node.this, literal_of(node.expression)
    if number is None and type(node) is exp.Add:
        column, number = node.expression, literal_of(node.this)
    field = field_of(column)
    if (
        field is None
        or not isinstance(field.type, IntegerType)
        or number is None
        or number.kind is not LiteralKind.INTEGER
    ):
        return None
    return SumOf(field, number.value if type(node) is exp.Add else -number.value)


def _head_operand(column: exp.Expr, length: exp.Expr) -> Operand | None:
    """Return the operand for `left` or `substr`, which yield the first characters of a text.

    The length must be 1 or more: a negative length counts from the end of the text.
    """
    field, literal = field_of(column), literal_of(length)
    if field is None or not isinstance(field.type, StringType) or literal is None:
        return None
    return HeadOf(field) if literal.kind is LiteralKind.INTEGER and literal.value >= 1 else None


def _period(node: exp.Expr) -> PeriodOf | None:
    match node:
        case exp.Year():
            operand, unit = node.this, "YEAR"
        case exp.Extract() if node.name.upper() in ("YEAR", "YEARS"):
            operand, unit = node.expression, "YEAR"
        case exp.Anonymous(expressions=[part, operand]) if node.name.lower() in _DATE_PARTS:
            part_name = literal_of(part)
            if (
                part_name is None
                or part_name.kind is not LiteralKind.STRING
                or part_name.value.upper() not in ("YEAR", "YEARS")
            ):
                return None
            unit = "YEAR"
        case exp.TimestampTrunc() | exp.DateTrunc() if isinstance(node.args.get("unit"), exp.Var):
            operand, unit = node.this, node.args["unit"].name.upper()
        case _:
            return None
    field = _zoneless_field(operand)
    # DuckDB 2.0 returns other times than midnight for the hour of a date.
    if field is None or (isinstance(field.type, DateType) and unit.removesuffix("S") in ("HOUR", "MINUTE", "SECOND")):
        return None
    return PeriodOf(field, unit, "moment" if isinstance(node, exp.TimestampTrunc | exp.DateTrunc) else "number")


def _zoneless_field(node: exp.Expr) -> Field | None:
    """Return the field of a column that is a date, or a timestamp without a zone in microseconds, or None.

    The year of an instant depends on the session's time zone.
    """
    field = field_of(node)
    match None if field is None else field.type:
        case DateType() | TimestampType(unit="us", utc=False):
            return field
        case _:
            return None
