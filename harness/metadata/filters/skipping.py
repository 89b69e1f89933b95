"""Decisions on which files, manifests, or partitions may hold a matching row. One evaluator serves all of them.

A format passes the bounds and counts of a column in many files as `ColumnBounds`; a partition tuple is a column with a
single value. These functions never decide that a row matches, because engines apply the whole filter again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
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
from harness.metadata.model import schema as dt
from harness.metadata.model.arrow_values import (
    CONVERSION_ERRORS,
    Indices,
    Mask,
    array_of,
    from_numpy,
    null_where,
    scalar_of,
    to_numpy,
    true_mask,
)
from harness.metadata.model.schema import Field, UuidType
from harness.storage.records import dataclass


def bound_type(type_: dt.Type) -> pa.DataType | None:
    """Return the Arrow type that holds internal values of a type in order, or None if the type has no bounds.

    Decimals have 256 bits, because a bound may have more digits than the column.
    """
    match type_:
        case dt.BooleanType():
            return pa.bool_()
        case dt.IntegerType() | dt.DateType() | dt.TimeType() | dt.TimestampType():
            return pa.int64()
        case dt.FloatType():
            return pa.float64()
        case dt.DecimalType(scale=scale):
            return pa.decimal256(76, scale)
        case dt.StringType():
            return pa.string()
        case dt.UuidType() | dt.FixedType() | dt.BinaryType():
            return pa.binary()
        case _:
            return None


def bound_array(values: Sequence[Any], type_: dt.Type) -> pa.Array:
    """Return internal values of a type as an array; null for None, NaN, and values that do not fit the type."""
    stored = bound_type(type_)
    if stored is None:
        return pa.nulls(len(values))
    if isinstance(type_, dt.FloatType):
        values = [value if value == value else None for value in values]
    try:
        return array_of(values, stored)
    except CONVERSION_ERRORS:
        return array_of([value if _fits(value, stored) else None for value in values], stored)


def _fits(value: Any, type_: pa.DataType) -> bool:
    try:
        array_of([value], type_)
    except CONVERSION_ERRORS:
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnBounds:
    """Facts about a column of single values, one per file, manifest, or partition.

    Attributes:
        lower: All values except nulls and NaN are at least this. An array of `bound_type`, null if unknown.
        upper: All values except nulls and NaN are at most this, as `lower`.
        has_nulls: False if there is no null. In all masks, True means that there may be one.
        has_nans: False if there is no NaN.
        has_values: False if all values are null.
        has_numbers: False if all values are null or NaN.
        is_exact: True if there is a single value, which is both bounds, and no bound is truncated.
    """

    lower: pa.Array
    upper: pa.Array
    has_nulls: Mask
    has_nans: Mask
    has_values: Mask
    has_numbers: Mask
    is_exact: bool = False

    def __len__(self) -> int:
        return len(self.has_nulls)

    @staticmethod
    def from_statistics(
        type_: dt.Type,
        *,
        lower: pa.Array,
        upper: pa.Array,
        values: pa.Array | None = None,
        nulls: pa.Array | None = None,
        nans: pa.Array | None = None,
        usable: Mask | None = None,
    ) -> ColumnBounds:
        """Return the certain part of recorded statistics.

        Statistics that contradict each other are not used: a lower bound above the upper bound, more nulls and NaN than
        values, or bounds although all values are null or NaN.

        Args:
            type_: The type of the column.
            lower: Recorded lower bounds as an array of `bound_type`, null if unknown. They may be truncated outward.
            upper: Recorded upper bounds, as `lower`.
            values: Counts of values including nulls and NaN, as int64, null if unknown; None if unknown everywhere.
            nulls: Counts of nulls, as `values`.
            nans: Counts of NaN, as `values`. Used only for floats.
            usable: Mask of the rows whose statistics may be used; None for all.
        """
        size, is_float = len(lower), isinstance(type_, dt.FloatType)
        value_count, counted = _counts(values, size)
        null_count, nulls_counted = _counts(nulls, size)
        nan_count, nans_counted = (
            _counts(nans, size) if is_float else (np.zeros(size, np.int64), np.ones(size, np.bool_))
        )
        # Writers that left the column out record 0 values even if the file has rows, so their counts are ignored.
        left_out = counted & (value_count == 0)
        counted = counted & ~left_out
        nulls_counted = nulls_counted & ~left_out
        nans_counted = nans_counted & ~(left_out & is_float) & ~(counted & (nan_count > value_count))
        filled = value_count - np.where(nans_counted, nan_count, 0)  # both at least 0, so nothing overflows
        has_bound = to_numpy(lower.is_valid()) | to_numpy(upper.is_valid())
        is_wrong = counted & nulls_counted & ((null_count > filled) | ((null_count == filled) & has_bound))
        is_wrong |= compare_bounds(pc.greater, lower, upper)
        if usable is not None:
            is_wrong |= ~usable
        counted = counted & nulls_counted & ~is_wrong
        has_values = ~(counted & (null_count == value_count))
        return ColumnBounds(
            lower=null_where(lower, is_wrong),
            upper=null_where(upper, is_wrong),
            has_nulls=~(nulls_counted & ~is_wrong & (null_count == 0)),
            has_nans=~(nans_counted & (~is_wrong | (not is_float)) & (nan_count == 0)),
            has_values=has_values,
            has_numbers=has_values & ~(counted & nans_counted & (null_count == filled)),
        )

    @staticmethod
    def exact(type_: dt.Type, values: Sequence[Any]) -> ColumnBounds:
        """Return the facts of columns with one value in all rows, for example partition values.

        Args:
            type_: The type of the values.
            values: Internal values, one per file or partition; None is null.
        """
        is_null = np.fromiter((value is None for value in values), np.bool_, len(values))
        is_nan = np.fromiter((value != value for value in values), np.bool_, len(values))
        bounds = bound_array(values, type_)
        return ColumnBounds(
            lower=bounds,
            upper=bounds,
            has_nulls=is_null,
            has_nans=is_nan,
            has_values=~is_null,
            has_numbers=~(is_null | is_nan),
            is_exact=True,
        )

    def take(self, places: Indices) -> ColumnBounds:
        """Return the facts at the given indexes, in that order."""
        index_array = from_numpy(places)
        lower = self.lower.take(index_array)
        return ColumnBounds(
            lower=lower,
            upper=lower if self.is_exact else self.upper.take(index_array),
            has_nulls=self.has_nulls[places],
            has_nans=self.has_nans[places],
            has_values=self.has_values[places],
            has_numbers=self.has_numbers[places],
            is_exact=self.is_exact,
        )

    def where(self, mask: Mask, other: ColumnBounds) -> ColumnBounds:
        """Return these facts for rows with a true mask, and the facts of `other` for the remaining rows."""
        mask_array = from_numpy(mask)
        return ColumnBounds(
            lower=pc.if_else(mask_array, self.lower, other.lower),
            upper=pc.if_else(mask_array, self.upper, other.upper),
            has_nulls=np.where(mask, self.has_nulls, other.has_nulls),
            has_nans=np.where(mask, self.has_nans, other.has_nans),
            has_values=np.where(mask, self.has_values, other.has_values),
            has_numbers=np.where(mask, self.has_numbers, other.has_numbers),
        )

    @staticmethod
    def concat(parts: Sequence[ColumnBounds]) -> ColumnBounds:
        """Return the facts of all parts in order. No part may be exact."""
        return ColumnBounds(
            lower=pa.concat_arrays([part.lower for part in parts]),
            upper=pa.concat_arrays([part.upper for part in parts]),
            has_nulls=np.concatenate([part.has_nulls for part in parts]),
            has_nans=np.concatenate([part.has_nans for part in parts]),
            has_values=np.concatenate([part.has_values for part in parts]),
            has_numbers=np.concatenate([part.has_numbers for part in parts]),
        )


def _counts(column: pa.Array | None, size: int) -> tuple[npt.NDArray[np.int64], Mask]:
    """Return counts, and a mask of the counts that are known: neither null nor negative."""
    if column is None:
        return np.zeros(size, np.int64), np.zeros(size, np.bool_)
    counts = to_numpy(pc.fill_null(column, scalar_of(-1, pa.int64())) if column.null_count else column)
    return counts, counts >= 0


def compare_bounds(compare: Any, left: pa.Array, right: pa.Array) -> Mask:
    """Return a mask of the rows that satisfy a comparison of pyarrow.compute; False if a bound is null."""
    if len(left) in (left.null_count, right.null_count):
        return np.zeros(len(left), np.bool_)
    return true_mask(compare(left, right))


TRUNCATION_LENGTH = 16
"""Strings and bytes of this length may be truncated in bounds. It is the default of Iceberg and of Parquet writers."""


def may_match(
    predicate: Predicate, columns: Callable[[Field], ColumnBounds | None], size: int, *, undecided: bool = True
) -> Mask:
    """Return, for each file, whether a row may satisfy a predicate (iceberg 3.19-3.25, delta F1-F8).

    Args:
        predicate: A condition on rows.
        columns: Returns the facts of a column in all files, or None if it has no facts.
        size: Number of files.
        undecided: The result for an `Undecided` part, and for a column without facts. With False
            and exact facts, the result is whether every row matches, whatever values its other columns have.
    """
    match predicate:
        case And(parts=parts):
            may_satisfy = np.ones(size, np.bool_)
            for part in parts:
                may_satisfy &= may_match(part, columns, size, undecided=undecided)
                if not may_satisfy.any():
                    break
            return may_satisfy
        case Or(parts=parts):
            may_satisfy = np.zeros(size, np.bool_)
            for part in parts:
                may_satisfy |= may_match(part, columns, size, undecided=undecided)
                if may_satisfy.all():
                    break
            return may_satisfy
        case Constant(value=value):
            return np.full(size, value is True)
        case Undecided():
            return np.full(size, undecided)
        case _:
            facts = columns(predicate.field)
            return np.full(size, undecided) if facts is None else _leaf_may_match(predicate, facts)


def exact_facts(tuples: Sequence[Mapping[int, Any]]) -> Callable[[Field], ColumnBounds]:
    """Return a function from a field to its facts in partition tuples. A value that a tuple lacks is null."""
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
    """Return a mask of the files whose values may satisfy a comparison. NaN is above all numbers (iceberg 3.21)."""
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
"""How the lower and upper bounds must compare with a value to show that no number between them satisfies the operator.
"""


def _excluded(op: Op, value: Any, facts: ColumnBounds, column: Field) -> Mask:
    """Return a mask of the files in which no number within the bounds satisfies a comparison."""
    if op is Op.NE:
        return _bound_is(_single_value(facts, column), Op.EQ, value)
    if isinstance(column.type, UuidType):
        # Implementations order UUIDs differently (iceberg 3.3).
        return _bound_is(_single_value(facts, column), Op.NE, value) & (op is Op.EQ)
    below, above = _EXCLUDES[op]
    excluded = np.zeros(len(facts), np.bool_)
    if below is not None:
        excluded |= _bound_is(facts.lower, below, value)
    if above is not None:
        excluded |= _bound_is(facts.upper, above, value)
    return excluded


def _any_may_match(values: Sequence[Any], facts: ColumnBounds, column: Field) -> Mask:
    if len(values) <= IN_LIMIT:
        mask = np.zeros(len(facts), np.bool_)
        for value in values:
            mask |= _comparison_may_match(Op.EQ, value, facts, column)
        return mask
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
    return (facts.has_numbers & ~_is_in(_single_value(facts, column), values, column)) | (
        facts.has_values & facts.has_nans & (not nans)
    )


def _is_in(bounds: pa.Array, values: Sequence[Any], column: Field) -> Mask:
    """Return a mask of the bounds that equal one of some values. -0.0 equals 0.0."""
    if bounds.null_count == len(bounds):
        return np.zeros(len(bounds), np.bool_)
    value_set = bound_array(values, column.type).drop_null()
    if pa.types.is_float64(bounds.type):
        # NumPy compares floats as SQL does. Arrow hashes -0.0 and 0.0 differently.
        numbers = to_numpy(pc.fill_null(bounds, scalar_of(0.0, pa.float64())))
        mask: Mask = np.isin(numbers, to_numpy(value_set)) & to_numpy(bounds.is_valid())
        return mask
    return true_mask(pc.is_in(bounds, value_set=value_set))


def _prefix_excluded(prefix: str, facts: ColumnBounds, *, negated: bool) -> Mask:
    """Return a mask of the files that a prefix excludes.

    These are the files in which no text within the bounds starts with the prefix or, if `negated`, every text does.
    """
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


def _single_value(facts: ColumnBounds, column: Field) -> pa.Array:
    """Return the only value of all rows that are neither null nor NaN; null if there may be several."""
    if facts.is_exact:
        return facts.lower
    differ = ~compare_bounds(pc.equal, facts.lower, facts.upper)
    # If a writer truncated the upper bound without rounding it up, a longer value may start with the bound.
    if pa.types.is_string(facts.lower.type):
        differ |= true_mask(pc.greater_equal(pc.utf8_length(facts.lower), scalar_of(TRUNCATION_LENGTH, pa.int32())))
    elif pa.types.is_binary(facts.lower.type) and not isinstance(column.type, UuidType):
        differ |= true_mask(pc.greater_equal(pc.binary_length(facts.lower), scalar_of(TRUNCATION_LENGTH, pa.int32())))
    return null_where(facts.lower, differ)


_COMPARE: dict[Op, Callable[..., pa.Array]] = {
    Op.EQ: pc.equal,
    Op.NE: pc.not_equal,
    Op.LT: pc.less,
    Op.LE: pc.less_equal,
    Op.GT: pc.greater,
    Op.GE: pc.greater_equal,
}


def _bound_is(bounds: pa.Array, op: Op, value: Any) -> Mask:
    """Return a mask of the bounds that satisfy `bound op value`; False for unknown bounds and unfit values."""
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
    """Return, for each pair of files, whether both may contain the same value of a column, or both a null.

    Nulls are equal, and NaN equals NaN. Bounds ignore NaN (iceberg 4.9, 4.23).
    """
    nulls, values = left.has_nulls & right.has_nulls, left.has_values & right.has_values
    nans = left.has_nans & right.has_nans
    return nulls | (values & (nans | ~(_below(column, left, right) | _below(column, right, left))))


def _below(column: Field, low: ColumnBounds, high: ColumnBounds) -> Mask:
    """Return a mask of the pairs in which every value of `low` is certainly less than every value of `high`."""
    if isinstance(column.type, UuidType):
        return np.zeros(len(low), np.bool_)
    below = compare_bounds(pc.less, low.upper, high.lower)
    for bound in (low.lower, high.upper):
        below &= to_numpy(bound.is_valid())
    if pa.types.is_string(low.upper.type) or pa.types.is_binary(low.upper.type):
        # Some writers truncate an upper bound without rounding it up (iceberg 3.9), so values that start with the bound
        # may be above it.
        for place in np.flatnonzero(below).tolist():
            below[place] = not high.lower[place].as_py().startswith(low.upper[place].as_py())
    return below
