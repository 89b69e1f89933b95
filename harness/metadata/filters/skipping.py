"""Files that a filter can skip by column statistics: one evaluator over arrays, for both formats.

It says of each file what `harness.metadata.filters.predicate.may_match` says of one. Comparisons of whole numbers,
dates, times, floats and texts are made on arrays; other conditions go file by file. Nothing here says that a row
matches: engines apply all of the filter again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, TypeAlias

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
    may_match,
)
from harness.metadata.model.arrow_values import Mask, Places, from_numpy, scalar_of, to_numpy
from harness.metadata.model.column_stats import ColumnStats
from harness.metadata.model.schema import Field
from harness.storage.records import dataclass


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers, int64 or float64, one per file. known: where there is one."""

    values: npt.NDArray[Any]
    known: Mask

    @staticmethod
    def of(column: pa.Array | pa.ChunkedArray) -> Numbers:
        """The numbers of an Arrow column."""
        return Numbers(to_numpy(pc.fill_null(column, scalar_of(0, column.type))), to_numpy(column.is_valid()))


Decoded: TypeAlias = Numbers | pa.Array
"""Bounds of a column: numbers, or texts, null where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFacts:
    """Facts of a column, one per file: `harness.metadata.model.column_stats.Known` for all of them.

    known: whether anything is said of the column; else the file is kept.
    has_nulls, has_nans, has_values, has_numbers: whether the file may hold a null, a NaN, something that is not null,
        something that is neither.
    lower, upper: both numbers, or both texts; None: of a type whose bounds are looked at one by one.
    """

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
                excluded, text = np.zeros_like(self.known), scalar_of(value, pa.string())
                for compare, bound in zip(_TEXT_EXCLUDES[op], (lower, upper), strict=True):
                    if compare is not None:
                        excluded |= _true(compare(bound, text))
                return self.has_numbers & ~excluded
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
        head, text = pc.utf8_slice_codeunits(self.lower, 0, len(prefix)), scalar_of(prefix, pa.string())
        return ~(_true(pc.less(self.upper, text)) | _true(pc.greater(head, text)))


def without_contradictions(
    lower: Decoded | None, upper: Decoded | None, sound: Mask
) -> tuple[Decoded | None, Decoded | None]:
    """Both bounds, null where lower is above upper (iceberg 3.25) or not `sound`; None for both if one is None."""
    match lower, upper:
        case Numbers(), Numbers():
            sound = sound & ~(lower.known & upper.known & (lower.values > upper.values))
            return Numbers(lower.values, lower.known & sound), Numbers(upper.values, upper.known & sound)
        case pa.Array(), pa.Array():
            inverted = pc.fill_null(pc.greater(lower, upper), scalar_of(False, pa.bool_()))
            inverted = pc.or_(inverted, from_numpy(~sound))
            none = scalar_of(None, pa.string())
            return pc.if_else(inverted, none, lower), pc.if_else(inverted, none, upper)
        case _:
            return None, None


def _fits(value: Any, bounds: Numbers) -> bool:
    if bounds.values.dtype == np.float64:
        return isinstance(value, float)
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _number_excluded(op: Op, value: Any, lower: Numbers, upper: Numbers, has_nans: Mask) -> Mask:
    """True where no number within the bounds satisfies the comparison."""
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
"""The comparisons of a lower and an upper bound with the value by which no text between them satisfies the operator."""


def _true(array: pa.Array) -> Mask:
    found: Mask = to_numpy(pc.fill_null(array, scalar_of(False, pa.bool_())))
    return found


@dataclass(frozen=True, slots=True)
class FileSkipping:
    """Filters against the statistics of the same files. Each condition is looked at once, however many filters ask.

    size: the number of files.
    facts: of a column in all files; None: nothing is known of it.
    stats: of a column in one file.
    """

    size: int
    facts: Callable[[Field], ColumnFacts | None]
    stats: Callable[[int, Field], ColumnStats | None]
    _columns: dict[int, ColumnFacts | None] = field(default_factory=dict)
    _leaves: dict[Leaf, tuple[Mask, Mask]] = field(default_factory=dict)

    def may_hold(self, predicate: Predicate, places: Places) -> Mask:
        """For each file in `places`, whether it may hold a row that makes the predicate true."""
        match predicate:
            case And(parts=parts):
                kept = np.ones(len(places), dtype=np.bool_)
                for part in parts:
                    left = np.flatnonzero(kept)
                    kept[left] = self.may_hold(part, places[left])
                return kept
            case Or(parts=parts):
                kept = np.zeros(len(places), dtype=np.bool_)
                for part in parts:
                    left = np.flatnonzero(~kept)
                    kept[left] = self.may_hold(part, places[left])
                return kept
            case Constant(value=value):
                return np.full(len(places), value is True)
            case Undecided():
                return np.ones(len(places), dtype=np.bool_)
            case _:
                return self._leaf_may_hold(predicate, places)

    def _leaf_may_hold(self, leaf: Leaf, places: Places) -> Mask:
        if leaf not in self._leaves:
            if leaf.field.id not in self._columns:
                self._columns[leaf.field.id] = self.facts(leaf.field)
            facts = self._columns[leaf.field.id]
            everywhere = np.ones(self.size, dtype=np.bool_)
            kept, decided = everywhere, everywhere
            if facts is not None:
                found = facts.may_match(leaf)
                kept, decided = (~facts.known, ~facts.known) if found is None else (~facts.known | found, everywhere)
            self._leaves[leaf] = kept, decided
        kept, decided = self._leaves[leaf]
        for place in places[~decided[places]].tolist():
            kept[place] = may_match(leaf, lambda column, place=place: self.stats(place, column))  # type: ignore[misc]
            decided[place] = True
        mask: Mask = kept[places]
        return mask
