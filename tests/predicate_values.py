"""The value of a predicate for one row, which tests compare with SQL and with file skipping."""

import math
from collections.abc import Callable
from typing import Any, assert_never

from harness.metadata.filters.predicate import (
    OPERATORS,
    And,
    Comparison,
    Constant,
    In,
    IsNan,
    IsNull,
    Leaf,
    Op,
    Or,
    Predicate,
    StartsWith,
    Undecided,
)
from harness.metadata.model.schema import Field


def evaluate(predicate: Predicate, value_of: Callable[[Field], Any]) -> bool | None:
    """Return the predicate's value for one row: True, False, or None for unknown. Undecided parts count as true.

    Args:
        predicate: The predicate.
        value_of: A function that returns the row's internal value of a field.
    """
    match predicate:
        case And(parts=parts):
            return _all(evaluate(p, value_of) for p in parts)
        case Or(parts=parts):
            negated = _all(_not(evaluate(p, value_of)) for p in parts)
            return _not(negated)
        case Constant(value=value):
            return value
        case Undecided():
            return True
        case _:
            value = value_of(predicate.field)
            if value is None:
                return not predicate.negated if isinstance(predicate, IsNull) else None
            return _holds(predicate, value)


def _all(values: Any) -> bool | None:
    unknown = False
    for value in values:
        if value is False:
            return False
        unknown = unknown or value is None
    return None if unknown else True


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _holds(leaf: Leaf, value: Any) -> bool | None:
    """Return the value of a leaf for a value that is not null."""
    match leaf:
        case Comparison(op=op, value=literal):
            return None if literal is None else _compare(value, op, literal)
        case In(values=values, negated=negated):
            return any(_compare(value, Op.EQ, v) for v in values) is not negated
        case IsNull(negated=negated):
            return negated
        case IsNan(negated=negated):
            return _is_nan(value) is not negated
        case StartsWith(prefix=prefix, negated=negated):
            return bool(value.startswith(prefix)) is not negated
        case _ as unreachable:
            assert_never(unreachable)


def _compare(left: Any, op: Op, right: Any) -> bool:
    """Return `left op right`, with NaN greater than all numbers. Python compares int, float, and Decimal exactly."""
    if _is_nan(left) or _is_nan(right):
        left, right = _is_nan(left), _is_nan(right)
    return bool(OPERATORS[op](left, right))


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
