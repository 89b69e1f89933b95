"""What manifests say of one column in many files, as arrays: `harness.model.column_stats.Known` for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.filters.predicate import IN_LIMIT, Comparison, In, IsNan, IsNull, Leaf, Op, StartsWith
from harness.iceberg.columns.bounds import Decoded, Mask, Numbers, decode_bounds
from harness.iceberg.columns.data_files import DataFiles, statistic
from harness.iceberg.values import decode_bound
from harness.model.arrow_values import from_numpy, scalar_of, to_numpy
from harness.model.column_stats import ColumnStats
from harness.model.schema import Field, FloatType
from harness.plan.column_bounds import ColumnBounds
from harness.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFacts:
    """Facts of a column, one per file.

    known: whether anything is said of the column.
    has_nulls, has_nans, has_values, has_numbers: whether the file may hold a null, a NaN, something that is not null,
        something that is neither.
    lower, upper: None: of a type whose bounds are looked at one by one.
    """

    column: Field
    known: Mask
    has_nulls: Mask
    has_nans: Mask
    has_values: Mask
    has_numbers: Mask
    lower: Decoded | None
    upper: Decoded | None

    def may_match(self, leaf: Leaf) -> Mask | None:
        """Per file whether a row may make the condition true; None: it is not decided here."""
        match leaf:
            case IsNull(negated=negated):
                return self.has_values if negated else self.has_nulls
            case IsNan(negated=negated):
                return self.has_numbers if negated else self.has_values & self.has_nans
            case Comparison(value=None):
                return np.zeros_like(self.known)
            case Comparison(op=op, value=value):
                compared = self._compared(op, value)
            case In(values=values, negated=False) if len(values) <= IN_LIMIT:
                compared = self._any_equal(values)
            case In(negated=False):
                return self.has_values
            case StartsWith(prefix=prefix, negated=False):
                compared = self._starts(prefix)
            case _:
                return None
        return None if compared is None else self.has_values & compared

    def _any_equal(self, values: Sequence[Any]) -> Mask | None:
        found = np.zeros_like(self.known)
        for value in values:
            equal = self._compared(Op.EQ, value)
            if equal is None:
                return None
            found |= equal
        return found

    def _compared(self, op: Op, value: Any) -> Mask | None:
        match self.lower, self.upper:
            case Numbers() as lower, Numbers() as upper if _fits(value, lower):
                return self._numbers_compared(op, value, lower, upper)
            case pa.Array() as lower, pa.Array() as upper if isinstance(value, str) and op is not Op.NE:
                return self.has_numbers & ~_text_excluded(op, value, lower, upper)
            case _:
                return None

    def _numbers_compared(self, op: Op, value: Any, lower: Numbers, upper: Numbers) -> Mask:
        """NaN is above all numbers; bounds leave it out (iceberg 3.21)."""
        if value != value:
            holds_for_nan, numbers = op in (Op.EQ, Op.LE, Op.GE), np.full_like(self.known, op in (Op.LT, Op.LE, Op.NE))
        else:
            holds_for_nan = op in (Op.NE, Op.GT, Op.GE)
            numbers = ~_number_excluded(op, value, lower, upper, self.has_nans)
        return (self.has_nans & holds_for_nan) | (self.has_numbers & numbers)

    def _starts(self, prefix: str) -> Mask | None:
        if not isinstance(self.lower, pa.Array) or not isinstance(self.upper, pa.Array):
            return None
        if not prefix:
            return np.ones_like(self.known)
        head = pc.utf8_slice_codeunits(self.lower, 0, len(prefix))
        return ~(_true(pc.less(self.upper, prefix)) | _true(pc.greater(head, prefix)))


def facts_of(files: DataFiles, column: Field, *, is_nested: bool) -> ColumnFacts:
    """The facts of a column. is_nested: it is within a struct; ORC does not count values where the struct is null."""
    values, nulls, nans = (
        _counts(files, name, column) for name in ("value_counts", "null_value_counts", "nan_value_counts")
    )
    encoded = [files.table.column(statistic(name, column.id)) for name in ("lower_bounds", "upper_bounds")]
    known = values.known | nulls.known | nans.known
    for bound in encoded:
        known = known | to_numpy(bound.is_valid())
    rows = _numbers(files.table.column("record_count"))
    partial = ~(values.known & rows.known & (values.values == rows.values)) if is_nested else np.zeros_like(known)
    # A count of no values comes from writers that left the column out: nothing is known.
    usable = ~(values.known & (values.values == 0))
    total = values.known & usable & (values.values >= 0)
    counted_nulls = _plausible(nulls, values, total) & usable & ~partial
    is_float = isinstance(column.type, FloatType)
    counted_nans = _plausible(nans, values, total) & usable if is_float else np.ones_like(known)
    nan_count = nans.values if is_float else np.zeros_like(values.values)
    lower, upper = (decode_bounds(bound, column.type) for bound in encoded)
    return ColumnFacts(
        column=column,
        known=known,
        has_nulls=~(counted_nulls & (nulls.values == 0)),
        has_nans=~(counted_nans & (nan_count == 0)),
        has_values=~(total & counted_nulls & (nulls.values == values.values)),
        # A sum of two counts, each at most the rows of a file, does not overflow; the others are not looked at.
        has_numbers=~(total & counted_nulls & counted_nans) | (nulls.values < values.values - nan_count),
        **_ordered(lower, upper),
    )


def bounds_of(files: DataFiles, column: Field) -> ColumnBounds:
    """The bounds of a column that is not within a struct. Files whose rows nobody counted have none (2.21)."""
    counted = to_numpy(files.table.column("record_count").is_valid())
    facts = facts_of(files, column, is_nested=False)
    if facts.lower is None or facts.upper is None:
        places = enumerate(counted.tolist())
        stats = [stats_of(files, i, column, is_nested=False) if known else ColumnStats() for i, known in places]
        return ColumnBounds.of(column.type, stats)
    return ColumnBounds(
        lower=_as_array(facts.lower, counted),
        upper=_as_array(facts.upper, counted),
        has_nulls=facts.has_nulls | ~counted,
        has_nans=facts.has_nans | ~counted,
        has_values=facts.has_values | ~counted,
    )


def _as_array(bound: Decoded, counted: Mask) -> pa.Array:
    if isinstance(bound, Numbers):
        return from_numpy(bound.values, missing=~(bound.known & counted))
    return pc.if_else(from_numpy(counted), bound, scalar_of(None, pa.string()))


def stats_of(files: DataFiles, place: int, column: Field, *, is_nested: bool) -> ColumnStats:
    """What the manifest knows of a column in one file."""

    def stored(name: str) -> Any:
        return files.table.column(statistic(name, column.id))[place].as_py()

    values, nulls, lower, upper = map(stored, ("value_counts", "null_value_counts", "lower_bounds", "upper_bounds"))
    partial = is_nested and values != files.table.column("record_count")[place].as_py()
    return ColumnStats(
        lower=None if lower is None else decode_bound(column.type, lower),
        upper=None if upper is None else decode_bound(column.type, upper),
        null_count=None if partial else nulls,
        nan_count=stored("nan_value_counts"),
        value_count=values,
    )


def _counts(files: DataFiles, name: str, column: Field) -> Numbers:
    return _numbers(files.table.column(statistic(name, column.id)))


def _numbers(column: pa.ChunkedArray) -> Numbers:
    return Numbers(to_numpy(pc.fill_null(column, scalar_of(0, pa.int64()))), to_numpy(column.is_valid()))


def _plausible(counts: Numbers, values: Numbers, total: Mask) -> Mask:
    found: Mask = counts.known & (counts.values >= 0) & ~(total & (counts.values > values.values))
    return found


def _ordered(lower: Decoded | None, upper: Decoded | None) -> dict[str, Decoded | None]:
    """Both bounds, without those that contradict each other (iceberg 3.25)."""
    match lower, upper:
        case Numbers(), Numbers():
            inverted = lower.known & upper.known & (lower.values > upper.values)
            return {
                "lower": Numbers(lower.values, lower.known & ~inverted),
                "upper": Numbers(upper.values, upper.known & ~inverted),
            }
        case pa.Array(), pa.Array():
            inverted = pc.fill_null(pc.greater(lower, upper), scalar_of(False, pa.bool_()))
            none = scalar_of(None, pa.string())
            return {"lower": pc.if_else(inverted, none, lower), "upper": pc.if_else(inverted, none, upper)}
        case _:
            return {"lower": None, "upper": None}


def _fits(value: Any, bounds: Numbers) -> bool:
    if bounds.values.dtype == np.float64:
        return isinstance(value, float)
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _number_excluded(op: Op, value: Any, lower: Numbers, upper: Numbers, has_nans: Mask) -> Mask:
    """Whether no number within the bounds satisfies the comparison."""
    low, high = lower.values, upper.values
    excluded: Mask
    match op:
        case Op.EQ:
            excluded = (upper.known & (high < value)) | (lower.known & (low > value))
        case Op.NE:
            excluded = lower.known & upper.known & (low == high) & (low == value) & ~has_nans
        case Op.LT:
            excluded = lower.known & (low >= value)
        case Op.LE:
            excluded = lower.known & (low > value)
        case Op.GT:
            excluded = upper.known & (high <= value)
        case Op.GE:
            excluded = upper.known & (high < value)
    return excluded


_TEXT_EXCLUDES: dict[Op, tuple[Callable[..., pa.Array] | None, Callable[..., pa.Array] | None]] = {
    Op.EQ: (pc.greater, pc.less),
    Op.LT: (pc.greater_equal, None),
    Op.LE: (pc.greater, None),
    Op.GT: (None, pc.less_equal),
    Op.GE: (None, pc.less),
}
"""How a lower and an upper bound must compare with the value, so that no text between them satisfies the operator."""


def _text_excluded(op: Op, value: str, lower: pa.Array, upper: pa.Array) -> Mask:
    excluded = np.zeros(len(lower), dtype=np.bool_)
    for compare, bound in zip(_TEXT_EXCLUDES[op], (lower, upper), strict=True):
        if compare is not None:
            excluded |= _true(compare(bound, value))
    return excluded


def _true(array: pa.Array) -> Mask:
    found: Mask = to_numpy(pc.fill_null(array, scalar_of(False, pa.bool_())))
    return found
