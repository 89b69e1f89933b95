"""The files that a filter can skip, by partition tuples and column statistics.

Each function turns a filter into a test that is False only when no row can make the filter true. Nothing here drops a
part of the filter: engines apply it in full to what is left (iceberg 3.18).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.metadata.filters.predicate import (
    And,
    Comparison,
    Constant,
    Filter,
    In,
    IsNan,
    IsNull,
    Op,
    Or,
    Predicate,
    StartsWith,
    Undecided,
    conjunction,
    disjunction,
    evaluate,
    fields_of,
)
from harness.metadata.filters.skipping import ColumnFacts, Decoded, FileSkipping, Numbers, without_contradictions
from harness.metadata.iceberg.columns.entries import BOUNDS, COUNTS, DataFiles, statistic
from harness.metadata.iceberg.model import PartitionField, PartitionSpec
from harness.metadata.iceberg.transforms import (
    Bucket,
    Day,
    Hour,
    Identity,
    Month,
    Transform,
    Truncate,
    UnknownTransform,
    Void,
    Year,
    apply,
    is_defined,
    result_type,
    unscaled,
    wrap,
)
from harness.metadata.iceberg.values import PER_DAY, decode_bound
from harness.metadata.model import schema as dt
from harness.metadata.model.arrow_values import Mask, Places, from_numpy, scalar_of, to_numpy
from harness.metadata.model.column_stats import ColumnBounds, ColumnStats
from harness.metadata.plan.scan_plan import BY_PARTITION, BY_STATISTICS, KEPT, Verdicts

# The inclusive projection of a predicate on a source column to one on the partition value. It is true for every
# partition that may hold a matching row, whatever writer computed the partition value.


_AT_MOST = (Op.LT, Op.LE)
_AT_LEAST = (Op.GT, Op.GE)


def project(transform: Transform, source: dt.Field, part: Predicate, target: dt.Field) -> Predicate:
    """A predicate on `target`, the partition value, that is true wherever a row of the partition can make `part` true.

    `part` is a leaf on `source`, in `source`'s type; `Constant(True)` says that nothing can be concluded.
    Source: iceberg 3.13-3.17.
    """
    if isinstance(transform, Void | UnknownTransform):
        return Constant(True)
    if isinstance(transform, Identity):
        if isinstance(part, Constant):
            return part
        return Constant(True) if isinstance(part, And | Or | Undecided) else replace(part, field=target)
    match part:
        case IsNull(negated=negated):
            return IsNull(target, negated)
        case Comparison() | In() | StartsWith():
            try:
                return _project_values(transform, source, part, target)
            except (TypeError, ValueError, AttributeError, OverflowError):
                # A literal that is not of the column's type, scale or range.
                return Constant(True)
        case Constant():
            return part
        case _:
            return Constant(True)


def _project_values(
    transform: Bucket | Truncate | Year | Month | Day | Hour,
    source: dt.Field,
    part: Comparison | In | StartsWith,
    target: dt.Field,
) -> Predicate:
    if not is_defined(transform, source.type):
        return Constant(True)
    match transform, part:
        case Truncate(width=width), StartsWith() if isinstance(source.type, dt.StringType):
            if len(part.prefix) < width:
                return StartsWith(target, part.prefix, part.negated)
            if len(part.prefix) == width:
                return Comparison(target, Op.NE if part.negated else Op.EQ, part.prefix)
            # A value that shares the first `width` characters may still not have the prefix (trap T16).
            return Constant(True) if part.negated else Comparison(target, Op.EQ, part.prefix[:width])
        case _, StartsWith() | In(negated=True) | Comparison(op=Op.NE):
            return Constant(True)
        case _, In(values=values):
            found = tuple(dict.fromkeys(r for v in values for r in _results(transform, source.type, v)))
            return In(target, found)
        case _, Comparison(op=Op.EQ, value=value):
            results = _results(transform, source.type, value)
            return Comparison(target, Op.EQ, results[0]) if len(results) == 1 else In(target, results)
        case Bucket(), Comparison():
            return Constant(True)
        case _, Comparison(op=op, value=value):
            return _project_range(transform, source.type, op, value, target)
    return Constant(True)


def _results(transform: Bucket | Truncate | Year | Month | Day | Hour, source: dt.Type, value: Any) -> tuple[Any, ...]:
    """Every partition value that a writer may have stored for a row with `value`."""
    match transform, source:
        case Truncate(width=width), dt.IntegerType():
            floor = value - value % width
            # Below the type's minimum, Java wraps around; others do not (iceberg 3.12).
            return (floor, *(wrap(floor, bits) for bits in (32, 64) if floor < -(1 << (bits - 1)) <= value))
        case Day(), dt.DateType():
            return (apply(transform, source)(value),)
        case Year() | Month() | Day() | Hour(), _:
            result = apply(transform, source)(value)
            # Old writers rounded instants before 1970 up (iceberg 3.13).
            return (result, result + 1) if result < 0 else (result,)
        case _:
            return (apply(transform, source)(value),)


def _project_range(
    transform: Truncate | Year | Month | Day | Hour, source: dt.Type, op: Op, value: Any, target: dt.Field
) -> Predicate:
    """`op` is one of < <= > >=. Strict bounds move by one unit of the stored integer before the transform."""
    step = {Op.LT: -1, Op.GT: 1}.get(op, 0)
    match transform, source:
        case Truncate(), dt.StringType() | dt.BinaryType():
            bound = apply(transform, source)(value)
        case Truncate(width=width), dt.DecimalType(scale=scale):
            moved = unscaled(value, scale) + step
            bound = dt.from_unscaled(moved - moved % width, scale)
        case Truncate(width=width), _:
            bound = value + step - (value + step) % width
        case _:
            bounds = _results(transform, source, value + step)
            bound = bounds[-1] if op in _AT_MOST else bounds[0]
    if op in _AT_LEAST:
        return Comparison(target, Op.GE, bound)
    at_most = Comparison(target, Op.LE, bound)
    if isinstance(transform, Truncate) and isinstance(source, dt.IntegerType):
        # The smallest int and long, which Java lets overflow to a large positive number (iceberg 3.12).
        smallest = [(-(1 << (bits - 1)), bits) for bits in (32, 64)]
        wrapped = tuple(wrap(least - least % transform.width, bits) for least, bits in smallest)
        return Or((at_most, In(target, wrapped)))
    return at_most


def partition_filter(
    predicate: Predicate, spec: PartitionSpec, schema: dt.Schema
) -> Callable[[Mapping[int, Any]], bool]:
    """A test of partition tuples (internal values by partition field id) of `spec`. Source: iceberg 3.14-3.17.

    Predicates on columns that are not in `schema` (metadata columns, ids of another schema) conclude nothing.
    """
    on_tuple = projected(predicate, spec, schema)
    if not fields_of(on_tuple):
        known = evaluate(on_tuple, lambda field: None) is True
        return lambda values: known
    return lambda values: evaluate(on_tuple, lambda field: values.get(field.id)) is True


def projected(predicate: Predicate, spec: PartitionSpec, schema: dt.Schema) -> Predicate:
    """The inclusive projection of a whole filter onto the partition fields of `spec`."""
    match predicate:
        case And(parts=parts):
            return conjunction(tuple(projected(part, spec, schema) for part in parts))
        case Or(parts=parts):
            return disjunction(tuple(projected(part, spec, schema) for part in parts))
        case Constant():
            return predicate
        case Undecided():
            return Constant(True)
        case Comparison() | In() | IsNull() | IsNan() | StartsWith():
            source = predicate.field
            on_field = [f for f in spec.fields if f.source_id == source.id and source_columns(f, schema)]
            projections = tuple(project(f.transform, source, predicate, partition_target(f, source)) for f in on_field)
            return conjunction(projections) if projections else Constant(True)
        case _:
            assert_never(predicate)


def source_columns(partition_field: PartitionField, schema: dt.Schema) -> tuple[dt.Field, ...]:
    """The source column as a tuple of one; empty if it is not in the schema or below a list or map (iceberg 3.14)."""
    return tuple(f for f in _columns(schema.fields) if f.id == partition_field.source_id)


def partition_target(partition_field: PartitionField, source: dt.Field) -> dt.Field:
    """The partition field as a field of its own, with the type of its values."""
    type_ = result_type(partition_field.transform, source.type)
    return dt.Field(id=partition_field.field_id, name=partition_field.name, type=type_)


def _columns(fields: tuple[dt.Field, ...]) -> list[dt.Field]:
    """The fields whose statistics speak of rows: all but those below a list or map (iceberg 3.4)."""
    found: list[dt.Field] = []
    for field in fields:
        found.append(field)
        if isinstance(field.type, dt.StructType):
            found.extend(_columns(field.type.fields))
    return found


def decidable(predicate: Predicate, schema: dt.Schema) -> Predicate:
    """`predicate` without what column statistics cannot decide: parts on columns that are always null, too (5.14).

    Source: iceberg 3.19-3.25.
    """
    opaque = (dt.StructType, dt.UnknownType)
    columns = frozenset(f.id for f in _columns(schema.fields) if not isinstance(f.type, opaque))

    def lower(part: Predicate) -> Predicate:
        match part:
            case And(parts=parts):
                return conjunction(tuple(map(lower, parts)))
            case Or(parts=parts):
                return disjunction(tuple(map(lower, parts)))
            case Constant() | Undecided():
                return part
            case _:
                return part if part.field.id in columns else Undecided()

    return lower(predicate)


def nested_columns(schema: dt.Schema) -> frozenset[int]:
    """Ids of fields within structs, whose values ORC does not count where the struct itself is null."""
    return frozenset(f.id for f in _columns(schema.fields)) - frozenset(f.id for f in schema.fields)


def decode_bounds(encoded: pa.ChunkedArray, type_: dt.Type) -> Decoded | None:
    """The bounds of a column of `type_`; None: it has a type that is decoded one by one. Source: iceberg 3.21-3.24."""
    array = encoded.combine_chunks()
    match type_:
        case dt.IntegerType(bits=bits):
            return _numbers(array, "i", 4, bits // 8)
        case dt.DateType():
            return _numbers(array, "i", 4)
        case dt.TimeType():
            return _numbers(array, "i", 8)
        case dt.TimestampType(unit=unit):
            return _numbers(array, "i", 8, 4, days=PER_DAY[unit])
        case dt.FloatType(bits=bits):
            return _numbers(array, "f", 4, bits // 8)
        case dt.StringType():
            try:
                return array.cast(pa.string())
            except pa.ArrowInvalid:  # some are cut inside a character, and are looked at one by one (iceberg 3.22)
                return None
        case _:
            return None


def _numbers(array: pa.Array, kind: Literal["i", "f"], *widths: int, days: int = 1) -> Numbers | None:
    """Bounds of those lengths. days: the unit of a bound of four bytes, where the type's own have eight (3.23)."""
    values = np.zeros(len(array), dtype=f"{kind}8")
    known = np.zeros(len(array), dtype=np.bool_)
    for width in dict.fromkeys(widths):
        of_width = pc.equal(pc.binary_length(array), scalar_of(width, pa.int32()))
        fits = pc.fill_null(of_width, scalar_of(False, pa.bool_()))
        chosen = array.filter(fits)
        if not len(chosen):
            continue
        start = np.frombuffer(chosen.buffers()[1], dtype=np.int32)[chosen.offset]
        layout = f"<{kind}{width}"
        found = np.frombuffer(chosen.buffers()[2], dtype=layout, count=len(chosen), offset=int(start))
        unit = days if width == 4 else 1
        # Beyond 64 bits only Python's numbers count right.
        if unit != 1 and int(np.abs(found.astype(np.int64)).max()) * unit >= 1 << 63:
            return None
        places = np.flatnonzero(to_numpy(fits))
        values[places] = found.astype(values.dtype) * unit
        known[places] = found == found  # NaN says nothing
    return Numbers(values, known)


def facts_of(files: DataFiles, column: dt.Field, *, is_nested: bool) -> ColumnFacts:
    """The facts of a column. is_nested: it is within a struct; ORC does not count values where the struct is null."""
    values, nulls, nans = (Numbers.of(files.table.column(statistic(name, column.id))) for name in COUNTS)
    encoded = [files.table.column(statistic(name, column.id)) for name in BOUNDS]
    known = values.known | nulls.known | nans.known
    for bound in encoded:
        known = known | to_numpy(bound.is_valid())
    rows = Numbers.of(files.table.column("record_count"))
    partial = ~(values.known & rows.known & (values.values == rows.values)) if is_nested else np.zeros_like(known)
    # A count of no values comes from writers that left the column out: nothing is known.
    usable = ~(values.known & (values.values == 0))
    total = values.known & usable & (values.values >= 0)
    counted_nulls = _plausible(nulls, values, total) & usable & ~partial
    is_float = isinstance(column.type, dt.FloatType)
    counted_nans = _plausible(nans, values, total) & usable if is_float else np.ones_like(known)
    nan_count = nans.values if is_float else np.zeros_like(values.values)
    bounds = [decode_bounds(bound, column.type) for bound in encoded]
    empty = nulls.values + np.where(counted_nans, nan_count, 0)
    sound = ~(counted_nulls & total & has_bounds(bounds, encoded) & (empty >= values.values))
    counted_nulls, counted_nans = counted_nulls & sound, counted_nans & (sound | (not is_float))
    lower, upper = without_contradictions(bounds[0], bounds[1], sound)
    return ColumnFacts(
        known=known,
        has_nulls=~(counted_nulls & (nulls.values == 0)),
        has_nans=~(counted_nans & (nan_count == 0)),
        has_values=~(total & counted_nulls & (nulls.values == values.values)),
        # A sum of two counts, each at most the rows of a file, does not overflow; the others are not looked at.
        has_numbers=~(total & counted_nulls & counted_nans) | (nulls.values < values.values - nan_count),
        lower=lower,
        upper=upper,
    )


def has_bounds(decoded: Sequence[Decoded | None], encoded: Sequence[pa.Array]) -> Mask:
    """Return per file whether the column has a bound that says something: one that decodes, if that is known."""
    found = np.zeros(len(encoded[0]), dtype=np.bool_)
    for bound, stored in zip(decoded, encoded, strict=True):
        found |= bound.known if isinstance(bound, Numbers) else to_numpy(stored.is_valid())
    return found


def bounds_of(files: DataFiles, column: dt.Field) -> ColumnBounds:
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


def stats_of(files: DataFiles, place: int, column: dt.Field, *, is_nested: bool) -> ColumnStats:
    """The statistics of a column in one file."""

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


def _plausible(counts: Numbers, values: Numbers, total: Mask) -> Mask:
    found: Mask = counts.known & (counts.values >= 0) & ~(total & (counts.values > values.values))
    return found


def may_hold(files: DataFiles, nested: frozenset[int], predicate: Predicate, places: Places) -> Mask:
    """For each file in `places`, whether it may hold a row that makes the predicate true.

    Files whose record count is unknown may hold anything (iceberg 2.21). nested: ids of fields within structs.
    """

    def facts(column: dt.Field) -> ColumnFacts | None:
        return facts_of(files, column, is_nested=column.id in nested) if column.id in files.fields else None

    def stats(place: int, column: dt.Field) -> ColumnStats:
        return stats_of(files, place, column, is_nested=column.id in nested)

    skipping = FileSkipping(len(files), facts, stats)
    if not fields_of(predicate):
        return skipping.may_hold(predicate, places)
    counted = to_numpy(files.table.column("record_count").is_valid())[places]
    kept = np.ones(len(places), dtype=np.bool_)
    kept[counted] = skipping.may_hold(predicate, places[counted])
    return kept


def skip_files(
    data: DataFiles,
    specs: Mapping[int, PartitionSpec],
    schema: dt.Schema,
    condition: Filter,
    *,
    by_statistics: bool = True,
) -> Verdicts:
    """A verdict on each file: KEPT, BY_PARTITION or BY_STATISTICS.

    A record count of 0 decides nothing: counts are wrong in real tables, and opening an empty file costs little. This
    overrules iceberg 2.21, which lets such files be skipped.
    """
    verdicts = np.full(len(data), KEPT, dtype=np.int8)
    if not len(data):
        return verdicts
    tests: dict[int, Callable[[Mapping[int, Any]], bool]] = {}
    for spec_id, spec in specs.items():
        tests[spec_id] = partition_filter(condition.predicate, spec, schema) if spec.fields else lambda values: True
    tuples = zip(data.specs_of_tuples(), data.tuples, strict=True)
    may_match = np.array([spec not in tests or tests[spec](values) for spec, values in tuples], dtype=np.bool_)
    verdicts[~may_match[to_numpy(data.table.column("tuple"))]] = BY_PARTITION
    if not by_statistics:
        return verdicts
    places = np.flatnonzero(verdicts == KEPT)
    held = may_hold(data, nested_columns(schema), decidable(condition.predicate, schema), places)
    verdicts[places[~held]] = BY_STATISTICS
    return verdicts
