"""Which live files of a snapshot may hold a row that a filter wants (delta F1 to F13, V12).

Partition values are exact: the filter is decided once per partition tuple, and what is left of it, on other columns, is
held against the statistics of the tuple's files. Nothing here says that a row matches; the engine applies all of the
filter again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.metadata.delta.checkpoint_statistics import FilesStatistics
from harness.metadata.delta.partition_values import PartitionTuples
from harness.metadata.delta.statistics import Bounds, FileStats, array_type, as_array, leaves
from harness.metadata.filters.predicate import (
    IN_LIMIT,
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Leaf,
    Op,
    Or,
    Predicate,
    StartsWith,
    Undecided,
    evaluate,
    fields_of,
    may_match,
)
from harness.metadata.model.schema import Schema, Type
from harness.metadata.plan.scan_plan import BY_PARTITION, BY_STATISTICS, KEPT, Verdicts
from harness.storage.records import dataclass

# A filter against the statistics of many files at once: what `harness.metadata.filters.predicate.may_match` says of
# each of # them.
#
# Comparisons of whole numbers, dates, times and texts are made on arrays; other conditions go file by file. Each
# condition is looked at once, however many files and partitions it concerns.


Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Matching:
    """Filters against the statistics of the same files."""

    statistics: FileStats
    _leaves: dict[Leaf, Mask] = field(default_factory=dict)
    _columns: dict[int, _Column | None] = field(default_factory=dict)

    def files(self, predicate: Predicate, places: npt.NDArray[np.int64]) -> Mask:
        """For each file in `places`, whether it may hold a row that makes the predicate true."""
        match predicate:
            case And(parts=parts):
                return functools.reduce(np.logical_and, (self.files(part, places) for part in parts))
            case Or(parts=parts):
                return functools.reduce(np.logical_or, (self.files(part, places) for part in parts))
            case Constant(value=value):
                return np.full(len(places), value is True)
            case Undecided():
                return np.ones(len(places), dtype=np.bool_)
            case _:
                if predicate not in self._leaves:
                    self._leaves[predicate] = self._leaf(predicate)
                mask: Mask = self._leaves[predicate][places]
                return mask

    def _leaf(self, leaf: Leaf) -> Mask:
        bounds = self.statistics.columns.get(leaf.field.id)
        if bounds is None:
            return np.ones(len(self.statistics.rows), dtype=np.bool_)
        column = self._column(leaf.field.id, bounds, leaf.field.type)
        compared = None if column is None else column.may_match(leaf)
        if compared is not None:
            return compared
        count = len(self.statistics.rows)
        return np.fromiter((may_match(leaf, self.statistics.of(place)) for place in range(count)), np.bool_, count)

    def _column(self, field_id: int, bounds: Bounds, type_: Type) -> _Column | None:
        if field_id not in self._columns:
            self._columns[field_id] = _Column.of(bounds, self.statistics.rows, type_)
        return self._columns[field_id]


@dataclass(frozen=True, slots=True)
class _Column:
    """The statistics of a column of whole numbers or texts as arrays; bounds that contradict each other are null.

    known: whether the null count is known, without which nothing is.
    """

    lower: pa.Array
    upper: pa.Array
    known: Mask
    all_null: Mask
    no_nulls: Mask
    is_text: bool

    @staticmethod
    def of(bounds: Bounds, rows: Sequence[int | None] | pa.Array, type_: Type) -> _Column | None:
        """None: the column is of another type, or a bound does not fit an array."""
        stored = array_type(type_)
        if stored is None:
            return None
        try:
            lower, upper = as_array(bounds.lower, stored), as_array(bounds.upper, stored)
        except (pa.ArrowException, OverflowError, UnicodeError):
            return None
        inverted = pc.fill_null(pc.greater(lower, upper), False)
        lower, upper = (pc.if_else(inverted, pa.scalar(None, stored), bound) for bound in (lower, upper))
        counts = _numbers(rows)
        nulls = _numbers(bounds.nulls)
        known = nulls >= 0
        return _Column(
            lower=lower,
            upper=upper,
            known=known,
            all_null=known & (counts > 0) & (nulls == counts),
            no_nulls=known & (counts > 0) & (nulls == 0),
            is_text=pa.types.is_string(stored),
        )

    def may_match(self, leaf: Leaf) -> Mask | None:
        """Per file; None: not decided here."""
        match leaf:
            case IsNull(negated=False):
                return ~self.no_nulls
            case IsNull(negated=True):
                return ~self.all_null
            case Comparison(op=op, value=value) if self._compares(value) and not (op is Op.NE and self.is_text):
                return ~self.all_null & ~(self.known & self._excluded(op, value))
            case In(values=values, negated=False) if len(values) <= IN_LIMIT and all(map(self._compares, values)):
                excluded = np.array([self._excluded(Op.EQ, value) for value in values]).all(axis=0)
                return ~self.all_null & ~(self.known & excluded)
            case StartsWith(prefix=prefix, negated=False) if self.is_text:
                starts = pc.utf8_slice_codeunits(self.lower, 0, len(prefix)) if prefix else self.lower
                below = pc.fill_null(pc.greater(starts, prefix), False).to_numpy(zero_copy_only=False)
                above = self._where(pc.less, self.upper, prefix)
                return ~self.all_null & ~(self.known & (above | (below if prefix else False)))
            case _:
                return None

    def _compares(self, value: Any) -> bool:
        if self.is_text:
            return isinstance(value, str)
        return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63

    def _excluded(self, op: Op, value: Any) -> Mask:
        """Whether no value within the bounds satisfies the comparison."""
        match op:
            case Op.EQ:
                return self._where(pc.less, self.upper, value) | self._where(pc.greater, self.lower, value)
            case Op.NE:
                return self._where(pc.equal, self.lower, value) & self._where(pc.equal, self.upper, value)
            case Op.LT:
                return self._where(pc.greater_equal, self.lower, value)
            case Op.LE:
                return self._where(pc.greater, self.lower, value)
            case Op.GT:
                return self._where(pc.less_equal, self.upper, value)
            case Op.GE:
                return self._where(pc.less, self.upper, value)

    def _where(self, compare: Callable[[pa.Array, pa.Scalar], pa.Array], bound: pa.Array, value: Any) -> Mask:
        found: Mask = pc.fill_null(compare(bound, pa.scalar(value, bound.type)), False).to_numpy(zero_copy_only=False)
        return found


def _numbers(values: Sequence[int | None] | pa.Array) -> npt.NDArray[np.int64]:
    """As an array; -1 is unknown, and so is what does not fit."""
    if not isinstance(values, pa.Array):
        values = pa.array([None if value is None or value >= 2**63 else value for value in values], pa.int64())
    found: npt.NDArray[np.int64] = pc.fill_null(values, -1).to_numpy(zero_copy_only=False)
    return found


def skip_files(
    files: FilesStatistics,
    partitions: PartitionTuples,
    schema: Schema,
    predicate: Predicate,
) -> Verdicts:
    """A verdict on each file: KEPT, BY_PARTITION or BY_STATISTICS.

    partitions: the partition tuples of these files.
    """
    residuals = [bind(predicate, values) for values in partitions.tuples]
    decided = np.array([_decided(residual) for residual in residuals], dtype=np.int8)
    verdicts: Verdicts = decided[partitions.indexes] if residuals else np.zeros(files.files.num_rows, dtype=np.int8)
    open_ = np.array([not isinstance(residual, Constant) for residual in residuals], dtype=np.bool_)
    if not open_.any():
        return verdicts
    places = np.flatnonzero(open_[partitions.indexes])
    ids = frozenset[int]().union(*(fields_of(residual) for residual in residuals))
    wanted = leaves(schema, ids)
    if not wanted:
        return verdicts
    numbers: dict[Predicate, int] = {}
    numbered = np.array([numbers.setdefault(residual, len(numbers)) for residual in residuals])
    for found, statistics in files.read(wanted, places):
        matching = Matching(statistics)
        for residual, group in _grouped(list(numbers), numbered[partitions.indexes[found]]):
            verdicts[found[group[~matching.files(residual, group)]]] = BY_STATISTICS
    return verdicts


def _grouped(
    residuals: Sequence[Predicate], codes: npt.NDArray[np.int64]
) -> Iterator[tuple[Predicate, npt.NDArray[np.int64]]]:
    """Each residual that any file has, with the places of its files. codes: per file an index into `residuals`."""
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(residuals) + 1))
    for number in np.flatnonzero(np.diff(starts)).tolist():
        yield residuals[number], order[starts[number] : starts[number + 1]]


def bind(predicate: Predicate, values: Mapping[int, Any]) -> Predicate:
    """What is left of a filter on files whose columns `values`, by field id, are constant; internal values.

    A Constant where nothing is left to decide. Unknown and false are not told apart: there is no NOT above the leaves,
    and neither keeps a row (V12).
    """
    match predicate:
        case And(parts=parts):
            left = [part for part in (bind(p, values) for p in parts) if part != Constant(True)]
            if any(isinstance(part, Constant) for part in left):
                return Constant(False)
            return _joined(left, And, empty=True)
        case Or(parts=parts):
            bound = [bind(p, values) for p in parts]
            if Constant(True) in bound:
                return Constant(True)
            return _joined([part for part in bound if not isinstance(part, Constant)], Or, empty=False)
        case Constant(value=value):
            return Constant(value is True)
        case Undecided():
            return predicate
        case leaf if leaf.field.id in values:
            return Constant(evaluate(leaf, lambda f: values[f.id]) is True)
        case _:
            return predicate


def _joined(
    parts: Sequence[Predicate], kind: Callable[[tuple[Predicate, ...]], Predicate], *, empty: bool
) -> Predicate:
    if not parts:
        return Constant(empty)
    return parts[0] if len(parts) == 1 else kind(tuple(parts))


def _decided(residual: Predicate) -> int:
    return BY_PARTITION if residual == Constant(False) else KEPT
