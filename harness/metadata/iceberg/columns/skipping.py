"""Which live data files cannot hold a row that a filter wants: by partition tuple, then by statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
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
    Filter,
    In,
    IsNan,
    IsNull,
    Leaf,
    Op,
    Or,
    Predicate,
    StartsWith,
    Undecided,
    fields_of,
    may_match,
)
from harness.metadata.iceberg.columns.data_files import DataFiles, statistic
from harness.metadata.iceberg.partition_skipping import decidable, nested_columns, partition_filter
from harness.metadata.iceberg.specs import PartitionSpec
from harness.metadata.iceberg.values import PER_DAY, decode_bound
from harness.metadata.model.arrow_values import from_numpy, scalar_of, to_numpy
from harness.metadata.model.column_stats import ColumnBounds, ColumnStats
from harness.metadata.model.schema import (
    DateType,
    Field,
    FloatType,
    IntegerType,
    Schema,
    StringType,
    TimestampType,
    TimeType,
    Type,
)
from harness.metadata.plan.scan_plan import BY_PARTITION, BY_STATISTICS, KEPT, Verdicts
from harness.storage.records import dataclass

# Encoded bounds of one column in many files, decoded at once as `harness.metadata.iceberg.values.decode_bound` does
# each.


Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Numbers:
    """Bounds that are numbers: int64 or float64. known: where there is one."""

    values: npt.NDArray[Any]
    known: Mask


Decoded: TypeAlias = Numbers | pa.Array
"""Numbers, or texts, null where there is none."""


def decode_bounds(encoded: pa.ChunkedArray, type_: Type) -> Decoded | None:
    """The bounds of a column of `type_`; None: it has a type that is decoded one by one. Source: iceberg 3.21-3.24."""
    array = encoded.combine_chunks()
    match type_:
        case IntegerType(bits=bits):
            return _whole(array, (4, bits // 8))
        case DateType():
            return _whole(array, (4,))
        case TimeType():
            return _whole(array, (8,))
        case TimestampType(unit=unit):
            return _whole(array, (8, 4), PER_DAY[unit])
        case FloatType(bits=bits):
            return _floats(array, bits)
        case StringType():
            return _texts(array)
        case _:
            return None


def _whole(array: pa.Array, widths: tuple[int, ...], days: int = 1) -> Numbers | None:
    """days: what a bound of four bytes counts, where the type's own bounds have eight (iceberg 3.23)."""
    values = np.zeros(len(array), dtype=np.int64)
    known = np.zeros(len(array), dtype=np.bool_)
    for width in dict.fromkeys(widths):
        places, found = _of_width(array, width, "<i8" if width == 8 else "<i4")
        # Beyond 64 bits only Python's numbers count right.
        if width == 4 and days != 1 and len(found) and int(np.abs(found.astype(np.int64)).max()) * days >= 1 << 63:
            return None
        values[places] = found.astype(np.int64) * (days if width == 4 else 1)
        known[places] = True
    return Numbers(values, known)


def _floats(array: pa.Array, bits: int) -> Numbers:
    values = np.zeros(len(array), dtype=np.float64)
    known = np.zeros(len(array), dtype=np.bool_)
    for width in dict.fromkeys((4, bits // 8)):
        places, found = _of_width(array, width, "<f8" if width == 8 else "<f4")
        values[places] = found
        known[places] = ~np.isnan(found)
    return Numbers(values, known)


def _of_width(array: pa.Array, width: int, layout: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Where the bounds of a length are, and their bytes as numbers."""
    of_width = pc.equal(pc.binary_length(array), scalar_of(width, pa.int32()))
    fits = pc.fill_null(of_width, scalar_of(False, pa.bool_()))
    places: npt.NDArray[np.int64] = np.flatnonzero(to_numpy(fits))
    chosen = array.filter(fits)
    if not len(chosen):
        return places, np.zeros(0, dtype=layout)
    offsets = np.frombuffer(chosen.buffers()[1], dtype=np.int32)[chosen.offset :]
    start = int(offsets[0])
    return places, np.frombuffer(chosen.buffers()[2], dtype=layout, count=len(chosen), offset=start)


def _texts(array: pa.Array) -> pa.Array | None:
    """None: some are cut inside a character, and are looked at one by one (iceberg 3.22)."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        return None


# What manifests say of one column in many files, as arrays: `harness.metadata.model.column_stats.Known` for all of
# them.


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


# A filter against the statistics of many data files at once: what `metrics_filter` of one file says of each.
#
# Comparisons of whole numbers, dates, times, floats and texts are made on arrays. Other conditions go file by file,
# over # those files that the conditions before left.


Places: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Matching:
    """Filters against the statistics of some data files. nested: ids of fields within structs."""

    files: DataFiles
    nested: frozenset[int]
    _facts: dict[int, ColumnFacts] = field(default_factory=dict)

    def may_hold(self, predicate: Predicate, places: Places) -> Mask:
        """For each file in `places`, whether it may hold a row that makes the predicate true.

        Files whose record count is unknown may hold anything: writers that could not count rows could not count values
        either (iceberg 2.21).
        """
        if not fields_of(predicate):
            return self._holds(predicate, places)
        counted = to_numpy(self.files.table.column("record_count").is_valid())[places]
        kept = np.ones(len(places), dtype=np.bool_)
        kept[counted] = self._holds(predicate, places[counted])
        return kept

    def _holds(self, predicate: Predicate, places: Places) -> Mask:
        match predicate:
            case And(parts=parts):
                kept = np.ones(len(places), dtype=np.bool_)
                for part in parts:
                    left = np.flatnonzero(kept)
                    kept[left] = self._holds(part, places[left])
                return kept
            case Or(parts=parts):
                kept = np.zeros(len(places), dtype=np.bool_)
                for part in parts:
                    left = np.flatnonzero(~kept)
                    kept[left] = self._holds(part, places[left])
                return kept
            case Constant(value=value):
                return np.full(len(places), value is True)
            case Undecided():
                return np.ones(len(places), dtype=np.bool_)
            case _:
                return self._leaf(predicate, places)

    def _leaf(self, leaf: Leaf, places: Places) -> Mask:
        if leaf.field.id not in self.files.fields:
            return np.ones(len(places), dtype=np.bool_)
        is_nested = leaf.field.id in self.nested
        if leaf.field.id not in self._facts:
            self._facts[leaf.field.id] = facts_of(self.files, leaf.field, is_nested=is_nested)
        facts = self._facts[leaf.field.id]
        decided = facts.may_match(leaf)
        kept = ~facts.known[places]
        if decided is not None:
            return kept | decided[places]
        for i in np.flatnonzero(~kept).tolist():
            kept[i] = may_match(leaf, partial(self._stats, int(places[i]), is_nested))
        return kept

    def _stats(self, place: int, is_nested: bool, column: Field) -> ColumnStats:
        return stats_of(self.files, place, column, is_nested=is_nested)


def skip_files(data: DataFiles, specs: Mapping[int, PartitionSpec], schema: Schema, condition: Filter) -> Verdicts:
    """A verdict on each file: KEPT, BY_PARTITION or BY_STATISTICS.

    A record count of 0 decides nothing: counts are wrong in real tables, and opening an empty file costs little. This
    overrules iceberg 2.21, which lets such files be skipped.
    """
    verdicts = np.full(len(data), KEPT, dtype=np.int8)
    if not len(data):
        return verdicts
    may_match = _tuples_that_match(data, specs, schema, condition.predicate)
    verdicts[~may_match[to_numpy(data.table.column("tuple"))]] = BY_PARTITION
    places = np.flatnonzero(verdicts == KEPT)
    held = Matching(data, nested_columns(schema)).may_hold(decidable(condition.predicate, schema), places)
    verdicts[places[~held]] = BY_STATISTICS
    return verdicts


def _tuples_that_match(
    data: DataFiles, specs: Mapping[int, PartitionSpec], schema: Schema, predicate: Predicate
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """For each of `DataFiles.tuples` whether a row of the partition may make the filter true."""
    tests: dict[int, Callable[[Mapping[int, Any]], bool]] = {}
    for spec_id, spec in specs.items():
        tests[spec_id] = partition_filter(predicate, spec, schema) if spec.fields else lambda values: True
    found = zip(data.specs_of_tuples(), data.tuples, strict=True)
    return np.array([spec not in tests or tests[spec](values) for spec, values in found], dtype=np.bool_)
