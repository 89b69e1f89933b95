"""Decide which files, manifests, or partitions may hold a row that a condition needs: one evaluator for all of them.

A format gives the bounds and counts of a column in many files as `ColumnBounds`; a partition tuple is the case of a
column with one value. The functions here never decide that a row matches: engines apply the whole filter again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.metadata.filters.predicate import (
    IN_LIMIT,
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
from harness.metadata.model.arrow_values import CONVERSION_ERRORS, Mask, nulled, scalar_of, to_numpy, true_mask
from harness.metadata.model.column_stats import ColumnBounds, bound_array, compared
from harness.metadata.model.schema import Field, UuidType

TRUNCATION_LENGTH = 16
"""Strings and bytes of this length may be cut in bounds: the default width of Iceberg and of Parquet writers."""


def may_match(
    predicate: Predicate, columns: Callable[[Field], ColumnBounds | None], size: int, *, undecided: bool = True
) -> Mask:
    """Return, for each file, whether some row may make a predicate true (iceberg 3.19-3.25, delta F1-F8).

    Args:
        predicate: A condition on rows.
        columns: The facts of a column in all files; None: nothing is known about the column.
        size: The number of files.
        undecided: The result for a part that planning does not understand, and for a column without facts. With False
            and exact facts, the result is whether every row matches whatever the other columns hold.
    """
    match predicate:
        case And(parts=parts):
            kept = np.ones(size, np.bool_)
            for part in parts:
                kept &= may_match(part, columns, size, undecided=undecided)
                if not kept.any():
                    break
            return kept
        case Or(parts=parts):
            kept = np.zeros(size, np.bool_)
            for part in parts:
                kept |= may_match(part, columns, size, undecided=undecided)
                if kept.all():
                    break
            return kept
        case Constant(value=value):
            return np.full(size, value is True)
        case Undecided():
            return np.full(size, undecided)
        case _:
            facts = columns(predicate.field)
            return np.full(size, undecided) if facts is None else _leaf_may_match(predicate, facts)


def exact_facts(tuples: Sequence[Mapping[int, Any]]) -> Callable[[Field], ColumnBounds]:
    """Return a function from a field to its facts in partition tuples: internal values by field id, missing is null."""
    return cache(lambda column: ColumnBounds.exact(column.type, [values.get(column.id) for values in tuples]))


def _leaf_may_match(leaf: Leaf, facts: ColumnBounds) -> Mask:
    match leaf:
        case IsNull(negated=negated):
            return facts.has_values if negated else facts.has_nulls
        case IsNan(negated=negated):
            return facts.has_numbers if negated else facts.has_values & facts.has_nans
        case Comparison(value=None):
            return np.zeros(len(facts), np.bool_)
        case Comparison(field=column, op=op, value=value):
            return _comparison_may_match(op, value, facts, column)
        case In(field=column, values=values, negated=negated):
            return _none_may_match(values, facts, column) if negated else _any_may_match(values, facts, column)
        case StartsWith(prefix=prefix, negated=negated):
            return facts.has_values & ~_prefix_excluded(prefix, facts, negated=negated)


def _comparison_may_match(op: Op, value: Any, facts: ColumnBounds, column: Field) -> Mask:
    """Return where a NaN, or a number within the bounds, may satisfy a comparison. NaN is above all numbers (3.21)."""
    if value != value:
        nans, numbers = op in (Op.EQ, Op.LE, Op.GE), facts.has_numbers & (op in (Op.LT, Op.LE, Op.NE))
    else:
        nans, numbers = op in (Op.NE, Op.GT, Op.GE), facts.has_numbers & ~_excluded(op, value, facts, column)
    return facts.has_values & ((facts.has_nans & nans) | numbers)


_EXCLUDES: dict[Op, tuple[Op | None, Op | None]] = {
    Op.EQ: (Op.GT, Op.LT),
    Op.LT: (Op.GE, None),
    Op.LE: (Op.GT, None),
    Op.GT: (None, Op.LE),
    Op.GE: (None, Op.LT),
}
"""How a lower and an upper bound compare with a value if no number between them satisfies the operator."""


def _excluded(op: Op, value: Any, facts: ColumnBounds, column: Field) -> Mask:
    """Return where no number within the bounds satisfies a comparison."""
    if op is Op.NE:
        return _bound_is(_only(facts, column), Op.EQ, value)
    if isinstance(column.type, UuidType):
        # Implementations disagree on the order of UUIDs (iceberg 3.3).
        return _bound_is(_only(facts, column), Op.NE, value) & (op is Op.EQ)
    below, above = _EXCLUDES[op]
    excluded = np.zeros(len(facts), np.bool_)
    if below is not None:
        excluded |= _bound_is(facts.lower, below, value)
    if above is not None:
        excluded |= _bound_is(facts.upper, above, value)
    return excluded


def _any_may_match(values: Sequence[Any], facts: ColumnBounds, column: Field) -> Mask:
    if len(values) <= IN_LIMIT:
        found = np.zeros(len(facts), np.bool_)
        for value in values:
            found |= _comparison_may_match(Op.EQ, value, facts, column)
        return found
    if not facts.is_exact:
        return facts.has_values  # iceberg 3.25
    nans = any(value != value for value in values)
    unknown = facts.has_numbers & to_numpy(facts.lower.is_null())
    any_equal: Mask = unknown | _is_in(facts.lower, values, column) | (facts.has_nans & nans)
    return any_equal


def _none_may_match(values: Sequence[Any], facts: ColumnBounds, column: Field) -> Mask:
    if len(values) > IN_LIMIT and not facts.is_exact:
        return facts.has_values
    nans = any(value != value for value in values)
    return (facts.has_numbers & ~_is_in(_only(facts, column), values, column)) | (
        facts.has_values & facts.has_nans & (not nans)
    )


def _is_in(bounds: pa.Array, values: Sequence[Any], column: Field) -> Mask:
    """Return where a bound is one of some values. -0.0 is 0.0."""
    if bounds.null_count == len(bounds):
        return np.zeros(len(bounds), np.bool_)
    wanted = bound_array(values, column.type).drop_null()
    if pa.types.is_float64(bounds.type):
        # NumPy compares floats as SQL does; Arrow's hash of -0.0 is not that of 0.0.
        numbers = to_numpy(pc.fill_null(bounds, scalar_of(0.0, pa.float64())))
        found: Mask = np.isin(numbers, to_numpy(wanted)) & to_numpy(bounds.is_valid())
        return found
    return true_mask(pc.is_in(bounds, value_set=wanted))


def _prefix_excluded(prefix: str, facts: ColumnBounds, *, negated: bool) -> Mask:
    """Return where no text within the bounds starts with a prefix, or with `negated`, where all of them do."""
    excluded = np.zeros(len(facts), np.bool_)
    if not pa.types.is_string(facts.lower.type):
        return excluded
    if negated:
        # If both bounds start with the prefix, then all strings between them do (iceberg T16).
        lower, upper = (true_mask(pc.starts_with(bound, pattern=prefix)) for bound in (facts.lower, facts.upper))
        both: Mask = lower & upper
        return both
    if prefix:
        head = pc.utf8_slice_codeunits(facts.lower, 0, len(prefix))
        excluded = _bound_is(facts.upper, Op.LT, prefix) | _bound_is(head, Op.GT, prefix)
    return excluded


def _only(facts: ColumnBounds, column: Field) -> pa.Array:
    """Return the one value of all rows that are neither null nor NaN, null where there may be several."""
    if facts.is_exact:
        return facts.lower
    differ = ~compared(pc.equal, facts.lower, facts.upper)
    # If a writer cut the upper bound without rounding it up, a long value could hide behind its prefix.
    if pa.types.is_string(facts.lower.type):
        differ |= true_mask(pc.greater_equal(pc.utf8_length(facts.lower), scalar_of(TRUNCATION_LENGTH, pa.int32())))
    elif pa.types.is_binary(facts.lower.type) and not isinstance(column.type, UuidType):
        differ |= true_mask(pc.greater_equal(pc.binary_length(facts.lower), scalar_of(TRUNCATION_LENGTH, pa.int32())))
    return nulled(facts.lower, differ)


_COMPARE: dict[Op, Callable[..., pa.Array]] = {
    Op.EQ: pc.equal,
    Op.NE: pc.not_equal,
    Op.LT: pc.less,
    Op.LE: pc.less_equal,
    Op.GT: pc.greater,
    Op.GE: pc.greater_equal,
}


def _bound_is(bounds: pa.Array, op: Op, value: Any) -> Mask:
    """Return where a bound is known and compares so with a value. Nowhere, if the value is not of the bounds' type."""
    if bounds.null_count == len(bounds):
        return np.zeros(len(bounds), np.bool_)
    if pa.types.is_int64(bounds.type) and isinstance(value, int) and not -(2**63) <= value < 2**63:
        holds = op in ((Op.NE, Op.LT, Op.LE) if value > 0 else (Op.NE, Op.GT, Op.GE))
        return to_numpy(bounds.is_valid()) & holds
    try:
        literal = scalar_of(value, bounds.type)
    except CONVERSION_ERRORS:
        return np.zeros(len(bounds), np.bool_)
    return true_mask(_COMPARE[op](bounds, literal))


def may_share(column: Field, left: ColumnBounds, right: ColumnBounds) -> Mask:
    """Return, for each pair of files, whether both may hold the same value of a column, or both null.

    Nulls are equal, and NaN equals NaN. Bounds leave NaN out (iceberg 4.9, 4.23).
    """
    nulls, values = left.has_nulls & right.has_nulls, left.has_values & right.has_values
    nans = left.has_nans & right.has_nans
    return nulls | (values & (nans | ~(_below(column, left, right) | _below(column, right, left))))


def _below(column: Field, low: ColumnBounds, high: ColumnBounds) -> Mask:
    """Return where every value in `low` is known to be less than every value in `high`."""
    if isinstance(column.type, UuidType):
        return np.zeros(len(low), np.bool_)
    below = compared(pc.less, low.upper, high.lower)
    for bound in (low.lower, high.upper):
        below &= to_numpy(bound.is_valid())
    if pa.types.is_string(low.upper.type) or pa.types.is_binary(low.upper.type):
        # Some writers cut an upper bound without rounding it up (iceberg 3.9): values that start with the bound may be
        # above it.
        for place in np.flatnonzero(below).tolist():
            below[place] = not high.lower[place].as_py().startswith(low.upper[place].as_py())
    return below
