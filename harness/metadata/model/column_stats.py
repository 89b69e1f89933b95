"""Column statistics of many files as Arrow arrays, and what may be concluded from them.

Rules: iceberg 3.3, 3.4, 3.19-3.25; delta F2-F8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.metadata.model import schema as dt
from harness.metadata.model.arrow_values import (
    CONVERSION_ERRORS,
    Mask,
    Places,
    array_of,
    from_numpy,
    nulled,
    scalar_of,
    to_numpy,
    true_mask,
)
from harness.storage.records import dataclass


def bound_type(type_: dt.Type) -> pa.DataType | None:
    """Return the Arrow type that holds internal values of a type in order. None: values of the type have no bounds.

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
    """Return internal values of a type as an array: null for None, for NaN, and for a value that is not of the type."""
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
    """Facts of a column of single values, one per file, manifest or partition.

    lower, upper: All values but nulls and NaN lie within. Arrays of `bound_type`, null where unknown.
    has_nulls, has_nans, has_values, has_numbers: Whether there may be a null, a NaN, something that is not null,
        something that is neither.
    is_exact: Both bounds are the only value, and no bound is truncated.
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
    def of(
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

        Statistics that contradict each other are not used: a lower bound above the upper bound, more nulls and NaN
        than values, or bounds although all values are null or NaN.

        Args:
            type_: The type of the column.
            lower: Recorded bounds as arrays of `bound_type`, null where unknown; perhaps truncated outward.
            upper: As `lower`.
            values: Counts of values with nulls and NaN, as int64, null where unknown; None: unknown everywhere.
            nulls: Counts of nulls, as `values`.
            nans: Counts of NaN, as `values`; not used unless the type is a float.
            usable: Where the statistics may be used; None: everywhere.
        """
        size, is_float = len(lower), isinstance(type_, dt.FloatType)
        value_count, counted = _counts(values, size)
        null_count, nulls_counted = _counts(nulls, size)
        nan_count, nans_counted = (
            _counts(nans, size) if is_float else (np.zeros(size, np.int64), np.ones(size, np.bool_))
        )
        # A count of no values in a file with rows comes from writers that left the column out: nothing is known.
        left_out = counted & (value_count == 0)
        counted = counted & ~left_out
        nulls_counted = nulls_counted & ~left_out
        nans_counted = nans_counted & ~(left_out & is_float) & ~(counted & (nan_count > value_count))
        filled = value_count - np.where(nans_counted, nan_count, 0)  # both at least 0, so nothing overflows
        has_bound = to_numpy(lower.is_valid()) | to_numpy(upper.is_valid())
        wrong = counted & nulls_counted & ((null_count > filled) | ((null_count == filled) & has_bound))
        wrong |= compared(pc.greater, lower, upper)
        if usable is not None:
            wrong |= ~usable
        counted = counted & nulls_counted & ~wrong
        has_values = ~(counted & (null_count == value_count))
        return ColumnBounds(
            lower=nulled(lower, wrong),
            upper=nulled(upper, wrong),
            has_nulls=~(nulls_counted & ~wrong & (null_count == 0)),
            has_nans=~(nans_counted & (~wrong | (not is_float)) & (nan_count == 0)),
            has_values=has_values,
            has_numbers=has_values & ~(counted & nans_counted & (null_count == filled)),
        )

    @staticmethod
    def exact(type_: dt.Type, values: Sequence[Any]) -> ColumnBounds:
        """Return the facts of columns that have one value in all rows, such as partition values.

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

    def take(self, places: Places) -> ColumnBounds:
        """Return the facts at some places, in their order."""
        taken = from_numpy(places)
        lower = self.lower.take(taken)
        return ColumnBounds(
            lower=lower,
            upper=lower if self.is_exact else self.upper.take(taken),
            has_nulls=self.has_nulls[places],
            has_nans=self.has_nans[places],
            has_values=self.has_values[places],
            has_numbers=self.has_numbers[places],
            is_exact=self.is_exact,
        )

    def where(self, mask: Mask, other: ColumnBounds) -> ColumnBounds:
        """Return these facts where the mask is true, and the other facts elsewhere."""
        chosen = from_numpy(mask)
        return ColumnBounds(
            lower=pc.if_else(chosen, self.lower, other.lower),
            upper=pc.if_else(chosen, self.upper, other.upper),
            has_nulls=np.where(mask, self.has_nulls, other.has_nulls),
            has_nans=np.where(mask, self.has_nans, other.has_nans),
            has_values=np.where(mask, self.has_values, other.has_values),
            has_numbers=np.where(mask, self.has_numbers, other.has_numbers),
        )

    @staticmethod
    def joined(parts: Sequence[ColumnBounds]) -> ColumnBounds:
        """Return the facts of all parts, one after the other. None of the parts is exact."""
        return ColumnBounds(
            lower=pa.concat_arrays([part.lower for part in parts]),
            upper=pa.concat_arrays([part.upper for part in parts]),
            has_nulls=np.concatenate([part.has_nulls for part in parts]),
            has_nans=np.concatenate([part.has_nans for part in parts]),
            has_values=np.concatenate([part.has_values for part in parts]),
            has_numbers=np.concatenate([part.has_numbers for part in parts]),
        )


def _counts(column: pa.Array | None, size: int) -> tuple[npt.NDArray[np.int64], Mask]:
    """Return counts, and where they are known: neither null nor negative."""
    if column is None:
        return np.zeros(size, np.int64), np.zeros(size, np.bool_)
    found = to_numpy(pc.fill_null(column, scalar_of(-1, pa.int64())) if column.null_count else column)
    return found, found >= 0


def compared(compare: Any, left: pa.Array, right: pa.Array) -> Mask:
    """Return where a comparison of pyarrow.compute holds between two arrays of bounds: not where a bound is null."""
    if len(left) in (left.null_count, right.null_count):
        return np.zeros(len(left), np.bool_)
    return true_mask(compare(left, right))
