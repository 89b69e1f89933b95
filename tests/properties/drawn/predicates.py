"""Filters as trees: SQL text for the engines, and plain three-valued Python for the model.

    predicate = Join("AND", Compare("id", IntegerType(64), ">", 1), IsNull("note"))
    sql(predicate)                        # ("id" > 1) AND ("note" IS NULL)
    holds(predicate, {"id": 2, "note": None})

`holds` gives True, False or None (unknown); a row passes where it is True. Values are as internal values (see
`harness.metadata.model.schema`). NaN equals itself and is above all other numbers, as DuckDB has it; -0.0 equals 0.0.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, TypeAlias, assert_never

from harness.metadata.model.schema import BooleanType, DateType, DecimalType, StringType, TimestampType, Type

Operator: TypeAlias = Literal["=", "<>", "<", "<=", ">", ">="]
OPERATORS: tuple[Operator, ...] = ("=", "<", ">=", "<>", "<=", ">")
_MEANT: Mapping[Operator, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_EPOCH = dt.datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class ComparisonTest:
    """A column compared with a value. value: internal values, not null."""

    column: str
    type: Type
    operator: Operator
    value: Any


@dataclass(frozen=True, slots=True)
class InList:
    """A column among values. values: internal values, not null."""

    column: str
    type: Type
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class IsNullTest:
    """A column of any type that is null."""

    column: str


@dataclass(frozen=True, slots=True)
class NotTest:
    """The contrary, unknown where it is unknown."""

    part: Predicate


@dataclass(frozen=True, slots=True)
class JoinedTest:
    """Two conditions, both or either of which must hold."""

    word: Literal["AND", "OR"]
    left: Predicate
    right: Predicate


Predicate: TypeAlias = ComparisonTest | InList | IsNullTest | NotTest | JoinedTest


def quoted(name: str) -> str:
    """A column's name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(type_: Type, value: Any) -> str:
    """A stored value in SQL."""
    match type_:
        case BooleanType():
            return "TRUE" if value else "FALSE"
        case StringType():
            return "'" + str(value).replace("'", "''") + "'"
        case DateType():
            return f"DATE '{dt.date(1970, 1, 1) + dt.timedelta(days=value)}'"
        case TimestampType(utc=utc):
            moment = (_EPOCH + dt.timedelta(microseconds=value)).isoformat(sep=" ", timespec="microseconds")
            return f"TIMESTAMPTZ '{moment}+00:00'" if utc else f"TIMESTAMP '{moment}'"
        case DecimalType():
            return format(value, "f")
        case _:
            return repr(value)


def sql(
    predicate: Predicate, *, name: Callable[[str], str] = quoted, value: Callable[[Type, Any], str] = literal
) -> str:
    """The condition as a boolean SQL expression, in DuckDB's dialect unless names and values are written otherwise."""
    match predicate:
        case ComparisonTest(column, type_, sign, compared):
            return f"{name(column)} {sign} {value(type_, compared)}"
        case InList(column, type_, values):
            return f"{name(column)} IN ({', '.join(value(type_, v) for v in values)})"
        case IsNullTest(column):
            return f"{name(column)} IS NULL"
        case NotTest(part):
            return f"NOT ({sql(part, name=name, value=value)})"
        case JoinedTest(word, left, right):
            return f"({sql(left, name=name, value=value)}) {word} ({sql(right, name=name, value=value)})"
        case _:
            assert_never(predicate)


def leaves(predicate: Predicate) -> Iterator[ComparisonTest | InList | IsNullTest]:
    """The parts of a condition that are no conditions of others, in the order of its text."""
    match predicate:
        case NotTest(part):
            yield from leaves(part)
        case JoinedTest(_, left, right):
            yield from leaves(left)
            yield from leaves(right)
        case _:
            yield predicate


def literals(predicate: Predicate) -> Iterator[tuple[Type, Any]]:
    """The values of a condition with their types, in the order of its text."""
    for leaf in leaves(predicate):
        if not isinstance(leaf, IsNullTest):
            yield from ((leaf.type, value) for value in (leaf.values if isinstance(leaf, InList) else [leaf.value]))


def holds(predicate: Predicate, row: Mapping[str, Any]) -> bool | None:
    """Tells whether a row meets the condition; None: unknown. row: stored values by name of column."""
    match predicate:
        case ComparisonTest(column, _, sign, value):
            return None if row[column] is None else _MEANT[sign](comparable(row[column]), comparable(value))
        case InList(column, _, values):
            return None if row[column] is None else comparable(row[column]) in map(comparable, values)
        case IsNullTest(column):
            return row[column] is None
        case NotTest(part):
            inner = holds(part, row)
            return None if inner is None else not inner
        case JoinedTest(word, left, right):
            return _joined(word, holds(left, row), holds(right, row))
        case _:
            assert_never(predicate)


def comparable(value: Any) -> Any:
    """The stand-in for a value in comparisons by Python's operators."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    if isinstance(value, str):
        return value.encode("utf-8")
    return Decimal(value) if isinstance(value, int) else value


def _joined(word: Literal["AND", "OR"], left: bool | None, right: bool | None) -> bool | None:
    decisive = word == "OR"
    if left is decisive or right is decisive:
        return decisive
    return None if left is None or right is None else not decisive
