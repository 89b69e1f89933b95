"""Inclusive projection: from a predicate on a source column to one on the partition value.

It is true for every partition that may hold a matching row. It may be true for others; it must never be false for one
that matters, whatever writer computed the partition value.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.filters.predicate import (
    And,
    Comparison,
    Constant,
    In,
    IsNan,
    IsNull,
    Op,
    Or,
    Predicate,
    StartsWith,
    Undecided,
)
from harness.iceberg.transforms import (
    Bucket,
    Day,
    Hour,
    Identity,
    Month,
    Transform,
    Truncate,
    UnknownTransform,
    Void,
    Year,
    apply,
    from_unscaled,
    is_defined,
    unscaled,
    wrap,
)
from harness.model.schema import BinaryType, DateType, DecimalType, Field, IntegerType, StringType, Type

_AT_MOST = (Op.LT, Op.LE)
_AT_LEAST = (Op.GT, Op.GE)


def project(transform: Transform, source: Field, part: Predicate, target: Field) -> Predicate:
    """A predicate on `target`, the partition value, that is true wherever a row of the partition can make `part` true.

    `part` is a leaf on `source`, in `source`'s type; `Constant(True)` says that nothing can be concluded.
    Source: iceberg 3.13-3.17.
    """
    if isinstance(transform, Void | UnknownTransform):
        return Constant(True)
    if isinstance(transform, Identity):
        return Constant(True) if isinstance(part, And | Or | Undecided) else _moved(part, target)
    match part:
        case IsNull(negated=negated):
            return IsNull(target, negated)
        case Comparison() | In() | StartsWith():
            try:
                return _project_values(transform, source, part, target)
            except (TypeError, ValueError, AttributeError, OverflowError):
                # A literal that is not of the column's type, scale or range.
                return Constant(True)
        case Constant():
            return part
        case _:
            return Constant(True)


def _moved(part: Comparison | In | IsNull | IsNan | StartsWith | Constant, target: Field) -> Predicate:
    return part if isinstance(part, Constant) else replace(part, field=target)


def _project_values(
    transform: Bucket | Truncate | Year | Month | Day | Hour,
    source: Field,
    part: Comparison | In | StartsWith,
    target: Field,
) -> Predicate:
    if not is_defined(transform, source.type):
        return Constant(True)
    match transform, part:
        case Truncate(width=width), StartsWith() if isinstance(source.type, StringType):
            return _project_prefix(width, part, target)
        case _, StartsWith() | In(negated=True) | Comparison(op=Op.NE):
            return Constant(True)
        case _, In(values=values):
            found = tuple(dict.fromkeys(r for v in values for r in _results(transform, source.type, v)))
            return In(target, found)
        case _, Comparison(op=Op.EQ, value=value):
            results = _results(transform, source.type, value)
            return Comparison(target, Op.EQ, results[0]) if len(results) == 1 else In(target, results)
        case Bucket(), Comparison():
            return Constant(True)
        case _, Comparison(op=op, value=value):
            return _project_range(transform, source.type, op, value, target)
    return Constant(True)


def _results(transform: Bucket | Truncate | Year | Month | Day | Hour, source: Type, value: Any) -> tuple[Any, ...]:
    """Every partition value that a writer may have stored for a row with `value`."""
    match transform, source:
        case Truncate(width=width), IntegerType():
            floor = value - value % width
            # Below the type's minimum, Java wraps around; others do not (iceberg 3.12).
            return (floor, *(wrap(floor, bits) for bits in (32, 64) if floor < -(1 << (bits - 1)) <= value))
        case Day(), DateType():
            return (apply(transform, source)(value),)
        case Year() | Month() | Day() | Hour(), _:
            result = apply(transform, source)(value)
            # Old writers rounded instants before 1970 up (iceberg 3.13).
            return (result, result + 1) if result < 0 else (result,)
        case _:
            return (apply(transform, source)(value),)


def _project_range(
    transform: Truncate | Year | Month | Day | Hour, source: Type, op: Op, value: Any, target: Field
) -> Predicate:
    """`op` is one of < <= > >=. Strict bounds move by one unit of the stored integer before the transform."""
    step = {Op.LT: -1, Op.GT: 1}.get(op, 0)
    match transform, source:
        case Truncate(), StringType() | BinaryType():
            bound = apply(transform, source)(value)
        case Truncate(width=width), DecimalType(scale=scale):
            moved = unscaled(value, scale) + step
            bound = from_unscaled(moved - moved % width, scale)
        case Truncate(width=width), _:
            bound = value + step - (value + step) % width
        case _:
            bounds = _results(transform, source, value + step)
            bound = bounds[-1] if op in _AT_MOST else bounds[0]
    if op in _AT_LEAST:
        return Comparison(target, Op.GE, bound)
    at_most = Comparison(target, Op.LE, bound)
    if isinstance(transform, Truncate) and isinstance(source, IntegerType):
        return Or((at_most, In(target, _wrapped(transform.width))))
    return at_most


def _wrapped(width: int) -> tuple[int, ...]:
    """Results of the smallest int and long, which Java lets overflow to a large positive number (iceberg 3.12)."""
    smallest = ((-(1 << (bits - 1)), bits) for bits in (32, 64))
    return tuple(wrap(value - value % width, bits) for value, bits in smallest)


def _project_prefix(width: int, part: StartsWith, target: Field) -> Predicate:
    length = len(part.prefix)
    if length < width:
        return StartsWith(target, part.prefix, part.negated)
    if length == width:
        return Comparison(target, Op.NE if part.negated else Op.EQ, part.prefix)
    # A value that shares the first `width` characters may still not have the prefix (trap T16).
    return Constant(True) if part.negated else Comparison(target, Op.EQ, part.prefix[:width])
