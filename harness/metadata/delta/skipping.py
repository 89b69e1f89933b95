"""The live files of a snapshot that may hold a row that a filter wants (delta F1 to F13, V12).

Partition values are exact: the filter is decided once per partition tuple, and what is left of it, on other columns, is
held against the statistics of the tuple's files. The engine applies all of the filter again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.metadata.delta.checkpoint_statistics import FilesStatistics
from harness.metadata.delta.partition_values import PartitionTuples
from harness.metadata.delta.statistics import FileStats, StatisticsBounds, array_type, as_array, leaves
from harness.metadata.filters.predicate import (
    And,
    Constant,
    Or,
    Predicate,
    Undecided,
    conjunction,
    disjunction,
    evaluate,
    fields_of,
)
from harness.metadata.filters.skipping import ColumnFacts, Decoded, FileSkipping, Numbers, without_contradictions
from harness.metadata.model.arrow_values import Mask, array_of, to_numpy
from harness.metadata.model.schema import Field, FloatType, Schema, Type
from harness.metadata.plan.scan_plan import BY_PARTITION, BY_STATISTICS, KEPT, Verdicts


def skipping_of(statistics: FileStats) -> FileSkipping:
    """Filters against the statistics of some files."""
    rows = _counts(statistics.rows)

    def facts(column: Field) -> ColumnFacts | None:
        bounds = statistics.columns.get(column.id)
        return None if bounds is None else _facts(bounds, rows, column.type)

    return FileSkipping(len(statistics.rows), facts, statistics.of)


def _facts(bounds: StatisticsBounds, rows: Numbers, type_: Type) -> ColumnFacts:
    """Without the null count nothing is known of a column (delta F3)."""
    nulls = _counts(bounds.nulls)
    sound = ~(nulls.known & rows.known & (rows.values > 0) & (nulls.values >= rows.values) & _has_bounds(bounds))
    counted = nulls.known & rows.known & (rows.values > 0) & (nulls.values <= rows.values) & sound
    has_values = ~(counted & (nulls.values == rows.values))
    lower, upper = _arrays(bounds, sound, type_)
    return ColumnFacts(
        known=nulls.known,
        has_nulls=~(counted & (nulls.values == 0)),
        has_nans=np.full_like(has_values, isinstance(type_, FloatType)),
        has_values=has_values,
        has_numbers=has_values,
        lower=lower,
        upper=upper,
    )


def _has_bounds(bounds: StatisticsBounds) -> Mask:
    """Return per file whether the column has a bound."""
    lower, upper = (
        to_numpy(each.is_valid())
        if isinstance(each, pa.Array)
        else np.array([bound is not None for bound in each], dtype=np.bool_)
        for each in (bounds.lower, bounds.upper)
    )
    found: Mask = lower | upper
    return found


def _arrays(bounds: StatisticsBounds, sound: Mask, type_: Type) -> tuple[Decoded | None, Decoded | None]:
    """Bounds of whole numbers or texts; None: the column is of another type, or a bound does not fit an array."""
    stored = array_type(type_)
    if stored is None:
        return None, None
    try:
        lower, upper = as_array(bounds.lower, stored), as_array(bounds.upper, stored)
    except (pa.ArrowException, OverflowError, UnicodeError):
        return None, None
    if pa.types.is_string(stored):
        return without_contradictions(lower, upper, sound)
    return without_contradictions(Numbers.of(lower), Numbers.of(upper), sound)


def _counts(values: Sequence[int | None] | pa.Array) -> Numbers:
    """Counts; unknown where one is negative or does not fit."""
    if not isinstance(values, pa.Array):
        values = array_of([None if value is None or value >= 2**63 else value for value in values], pa.int64())
    found = Numbers.of(values)
    return Numbers(found.values, found.known & (found.values >= 0))


def skip_files(
    files: FilesStatistics,
    partitions: PartitionTuples,
    schema: Schema,
    predicate: Predicate,
    *,
    by_statistics: bool = True,
) -> Verdicts:
    """A verdict on each file: KEPT, BY_PARTITION or BY_STATISTICS. partitions: the partition tuples of these files."""
    residuals = [bind(predicate, values) for values in partitions.tuples]
    decided = np.array([BY_PARTITION if r == Constant(False) else KEPT for r in residuals], dtype=np.int8)
    verdicts: Verdicts = decided[partitions.indexes] if residuals else np.zeros(files.files.num_rows, dtype=np.int8)
    open_ = np.array([not isinstance(residual, Constant) for residual in residuals], dtype=np.bool_)
    if not open_.any() or not by_statistics:
        return verdicts
    places = np.flatnonzero(open_[partitions.indexes])
    ids = frozenset[int]().union(*(fields_of(residual) for residual in residuals))
    wanted = leaves(schema, ids)
    if not wanted:
        return verdicts
    numbers: dict[Predicate, int] = {}
    numbered = np.array([numbers.setdefault(residual, len(numbers)) for residual in residuals])
    for found, statistics in files.read(wanted, places):
        skipping = skipping_of(statistics)
        for residual, group in _grouped(list(numbers), numbered[partitions.indexes[found]]):
            verdicts[found[group[~skipping.may_hold(residual, group)]]] = BY_STATISTICS
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
    """The rest of a filter on files whose columns `values`, by field id, are constant; internal values.

    A Constant where nothing is left to decide. Unknown and false are not told apart: there is no NOT above the leaves,
    and neither keeps a row (V12).
    """
    match predicate:
        case And(parts=parts):
            left = [part for part in (bind(p, values) for p in parts) if part != Constant(True)]
            if any(isinstance(part, Constant) for part in left):
                return Constant(False)
            return conjunction(tuple(left)) if left else Constant(True)
        case Or(parts=parts):
            bound = [bind(p, values) for p in parts]
            if Constant(True) in bound:
                return Constant(True)
            left = [part for part in bound if not isinstance(part, Constant)]
            return disjunction(tuple(left)) if left else Constant(False)
        case Constant(value=value):
            return Constant(value is True)
        case Undecided():
            return predicate
        case leaf if leaf.field.id in values:
            return Constant(evaluate(leaf, lambda f: values[f.id]) is True)
        case _:
            return predicate
