"""Ranges that cover the values of a long IN list, so that files are held against few ranges in place of many values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from harness.filters.predicate import IN_LIMIT, Comparison, Op, Predicate, conjunction, disjunction
from harness.model.schema import BinaryType, Field, FixedType, StringType, UuidType


def covering(field: Field, values: Sequence[Any]) -> Predicate:
    """A condition that each of the values satisfies: at most `IN_LIMIT` ranges, between which the widest gaps are.

    Beside `field IN (values)`, in an AND, it changes nothing: it is true wherever that is.

    Args:
        values: internal values of the field's type, no nulls.
    """
    numbers = sorted({value for value in values if value == value})
    ranges = [_range(field, numbers[start], numbers[end - 1]) for start, end in _spans(field, numbers)]
    # NaN is in no range of numbers that ends below it.
    nans = [Comparison(field, Op.EQ, math.nan)] if any(value != value for value in values) else []
    return disjunction((*ranges, *nans))


def _range(field: Field, low: Any, high: Any) -> Predicate:
    if low == high:
        return Comparison(field, Op.EQ, low)
    return conjunction((Comparison(field, Op.GE, low), Comparison(field, Op.LE, high)))


def _spans(field: Field, values: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """The first and the end of each range among ascending values."""
    most = IN_LIMIT - 1
    if isinstance(field.type, StringType | BinaryType | FixedType | UuidType):  # which have no distances
        starts = sorted({len(values) * i // most for i in range(most)})
    else:
        gaps = sorted(range(1, len(values)), key=lambda i: values[i - 1] - values[i])
        starts = [0, *sorted(gaps[: most - 1])]
    yield from zip(starts, [*starts[1:], len(values)], strict=True)
