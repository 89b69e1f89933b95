"""Filters as trees: as SQL text for the engines, and evaluated in plain three-valued Python for the model.

    predicate = JoinedTest("AND", ComparisonTest("id", IntegerType(64), ">", 1), IsNullTest("note"))
    sql(predicate)                        # ("id" > 1) AND ("note" IS NULL)
    holds(predicate, {"id": 2, "note": None})

`holds` returns True, False, or None (unknown). A row passes if the result is True. Values are internal values (see
`harness.metadata.model.schema`). As in DuckDB, NaN equals itself and is greater than all other numbers; -0.0 equals
0.0.
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
    """A column compared with a value, which is an internal value and not null."""

    column: str
    type: Type
    operator: Operator
    value: Any


@dataclass(frozen=True, slots=True)
class InList:
    """A column compared with a list of values, which are internal values and not null."""

    column: str
    type: Type
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class IsNullTest:
    """A test whether a column of any type is null."""

    column: str


@dataclass(frozen=True, slots=True)
class NotTest:
    """The negation of a condition. It is unknown if the condition is unknown."""

    part: Predicate


@dataclass(frozen=True, slots=True)
class JoinedTest:
    """Two conditions joined by AND or OR."""

    word: Literal["AND", "OR"]
    left: Predicate
    right: Predicate


Predicate: TypeAlias = ComparisonTest | InList | IsNullTest | NotTest | JoinedTest


def quoted(name: str) -> str:
    """Return a column's name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(type_: Type, value: Any) -> str:
    """Return a stored value in SQL."""
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
    """Return the condition as a boolean SQL expression in DuckDB's dialect, unless `name` and `value` write another
    dialect.
    """
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
    """Yield the conditions that contain no other conditions, in the order of the text."""
    match predicate:
        case NotTest(part):
            yield from leaves(part)
        case JoinedTest(_, left, right):
            yield from leaves(left)
            yield from leaves(right)
        case _:
            yield predicate


def literals(predicate: Predicate) -> Iterator[tuple[Type, Any]]:
    """Yield the values of a condition with their types, in the order of the text."""
    for leaf in leaves(predicate):
        if not isinstance(leaf, IsNullTest):
            yield from ((leaf.type, value) for value in (leaf.values if isinstance(leaf, InList) else [leaf.value]))


def holds(predicate: Predicate, row: Mapping[str, Any]) -> bool | None:
    """Return whether a row matches the condition, or None for unknown. `row` has stored values by column name."""
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
    """Return a replacement for a value that Python's operators compare correctly."""
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
