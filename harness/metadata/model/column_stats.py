"""Column statistics, and what may be concluded from them. Rules: iceberg 3.3, 3.4, 3.19-3.25; delta F2-F8."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.metadata.model import schema as dt
from harness.metadata.model.arrow_values import Mask
from harness.storage.records import dataclass

TRUNCATION_LENGTH = 16
"""Strings and bytes of this length may be cut in bounds: the default width of Iceberg and of Parquet writers."""


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """Statistics of one column in one file, manifest or partition; None is unknown, never zero (iceberg 3.19, T12).

    lower, upper: outer bounds as internal values, without nulls and NaN, perhaps truncated outward (iceberg 3.20).
    null_count, nan_count: rows that are null or NaN.
    value_count: rows, with nulls and NaN.
    """

    lower: Any = None
    upper: Any = None
    null_count: int | None = None
    nan_count: int | None = None
    value_count: int | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """The certain part of `ColumnStats`, without the parts that cannot be believed."""

    lower: Any
    upper: Any
    has_nulls: bool  # may hold nulls
    has_nans: bool  # may hold NaN
    has_values: bool  # may hold something that is not null
    has_numbers: bool  # may hold something that is neither null nor NaN
    is_ordered: bool  # whether values between the bounds mean something for ranges

    @classmethod
    def of(cls, type_: dt.Type, stats: ColumnStats) -> Known:
        """The usable part of the statistics of a column of `type_`."""
        is_float = isinstance(type_, dt.FloatType)
        if _contradict(type_, stats):
            return cls(None, None, True, is_float, True, True, is_ordered=not isinstance(type_, dt.UuidType))
        counts = (stats.value_count, stats.null_count, stats.nan_count)
        # A count of no values in a file with rows comes from writers that left the column out: nothing is known.
        values, nulls, nans = counts if counts[0] != 0 else (None, None, None)
        values = _count(values, None)
        nulls = _count(nulls, values)
        nans = _count(nans, values) if is_float else 0
        lower, upper = _bounds(type_, stats)
        return cls(
            lower=lower,
            upper=upper,
            has_nulls=nulls != 0,
            has_nans=nans != 0,
            has_values=values is None or nulls != values,
            has_numbers=values is None or nulls is None or nans is None or nulls + nans < values,
            is_ordered=not isinstance(type_, dt.UuidType),
        )

    @property
    def only(self) -> Any:
        """The one value of all rows that are not null; None if there may be several."""
        if self.lower is None or self.upper is None or self.has_nans or self.lower != self.upper:
            return None
        # Should a writer have cut the upper bound without rounding it up, a long value could hide behind its prefix.
        if isinstance(self.lower, str | bytes) and len(self.lower) >= TRUNCATION_LENGTH and self.is_ordered:
            return None
        return self.lower


def _contradict(type_: dt.Type, stats: ColumnStats) -> bool:
    """Return whether statistics contradict each other: then none of them is believed.

    Rows that are all null, or null and NaN, have no bounds; there are no more of them than rows; and no lower bound is
    above the upper one. A wrong count that hides a delete brings its rows back.
    """
    values, nulls, nans = stats.value_count, stats.null_count, stats.nan_count
    lower, upper = (bound if _is_bound(type_, bound) else None for bound in (stats.lower, stats.upper))
    if lower is not None and upper is not None and lower > upper:
        return True
    if not values or nulls is None:
        return False
    empty = nulls + (nans or 0 if isinstance(type_, dt.FloatType) else 0)
    has_bounds = lower is not None or upper is not None
    return empty > values or (has_bounds and empty == values)


def _count(count: int | None, values: int | None) -> int | None:
    if count is None or count < 0 or (values is not None and count > values):
        return None
    return count


def _bounds(type_: dt.Type, stats: ColumnStats) -> tuple[Any, Any]:
    """The usable bounds: of the type's own class, no NaN (iceberg 3.21), not inverted (iceberg 3.25)."""
    lower = stats.lower if _is_bound(type_, stats.lower) else None
    upper = stats.upper if _is_bound(type_, stats.upper) else None
    if lower is not None and upper is not None and lower > upper:
        return None, None
    return lower, upper


def _is_bound(type_: dt.Type, value: Any) -> bool:
    """True for a value that can be a bound of the type; types without an order have none (iceberg 3.24)."""
    match type_:
        case dt.BooleanType():
            return isinstance(value, bool)
        case dt.IntegerType() | dt.DateType() | dt.TimeType() | dt.TimestampType():
            return isinstance(value, int) and not isinstance(value, bool)
        case dt.FloatType():
            return (
                isinstance(value, float | int)
                and not isinstance(value, bool)
                and not (isinstance(value, float) and math.isnan(value))
            )
        case dt.DecimalType():
            return isinstance(value, Decimal) and value.is_finite()
        case dt.StringType():
            return isinstance(value, str)
        case dt.UuidType() | dt.FixedType() | dt.BinaryType():
            return isinstance(value, bytes)
        case _:
            return False


# Bounds of a column in each file of a plan, for an engine that filters later than the plan was made.


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnBounds:
    """Facts of a column of single values, one per file.

    lower, upper: internal values that all values but nulls and NaN lie within; None: unknown. A list, or an Arrow array
        of int64, float64 or string.
    has_nulls, has_nans, has_values: whether the file may hold a null, a NaN, something that is not null.
    """

    lower: Sequence[Any] | pa.Array
    upper: Sequence[Any] | pa.Array
    has_nulls: Mask
    has_nans: Mask
    has_values: Mask

    @staticmethod
    def joined(parts: Sequence[ColumnBounds], order: npt.NDArray[np.int64]) -> ColumnBounds:
        """Lists of several parts as one, of which `order` says where each file is."""
        lower = [value for part in parts for value in part.lower]
        upper = [value for part in parts for value in part.upper]
        return ColumnBounds(
            lower=[lower[i] for i in order.tolist()],
            upper=[upper[i] for i in order.tolist()],
            has_nulls=np.concatenate([part.has_nulls for part in parts])[order],
            has_nans=np.concatenate([part.has_nans for part in parts])[order],
            has_values=np.concatenate([part.has_values for part in parts])[order],
        )

    @staticmethod
    def of(type_: dt.Type, stats: Sequence[ColumnStats]) -> ColumnBounds:
        """The certain part of the statistics of a column in each file."""
        known = [Known.of(type_, each) for each in stats]
        return ColumnBounds(
            lower=[each.lower for each in known],
            upper=[each.upper for each in known],
            has_nulls=np.array([each.has_nulls for each in known], dtype=np.bool_),
            has_nans=np.array([each.has_nans for each in known], dtype=np.bool_),
            has_values=np.array([each.has_values for each in known], dtype=np.bool_),
        )
