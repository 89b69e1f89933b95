"""The files that a filter can skip, by partition tuples and column statistics.

The functions here turn partition tuples and encoded bounds into the facts that `harness.metadata.filters.skipping`
decides on, and filters into filters on partition values. Engines apply the whole filter again (iceberg 3.18).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Literal, assert_never

import numpy as np
import numpy.typing as npt
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
)
from harness.metadata.filters.skipping import ColumnBounds, bound_array, bound_type, exact_facts, may_match
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
    wrap,
)
from harness.metadata.iceberg.values import PER_DAY, decode_bound
from harness.metadata.model import schema as dt
from harness.metadata.model.arrow_values import (
    Mask,
    Places,
    combined,
    distinct,
    from_numpy,
    nulled,
    scalar_of,
    text_bytes,
    to_numpy,
    true_mask,
)
from harness.metadata.plan.scan_plan import BY_PARTITION, BY_STATISTICS, KEPT, Decisions

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
            moved = dt.unscaled(value, scale) + step
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


def decode_bounds(encoded: pa.Array, type_: dt.Type) -> pa.Array:
    """Return bounds of a column as an array of `bound_type`, null where `decode_bound` returns None.

    Source: iceberg 3.21-3.24.
    """
    if encoded.null_count == len(encoded):
        return pa.nulls(len(encoded), bound_type(type_))
    match type_:
        case dt.IntegerType(bits=bits):
            return _numbers(encoded, "i", 4, bits // 8)
        case dt.DateType():
            return _numbers(encoded, "i", 4)
        case dt.TimeType():
            return _numbers(encoded, "i", 8)
        case dt.TimestampType(unit=unit):
            return _numbers(encoded, "i", 8, 4, days=PER_DAY[unit])
        case dt.FloatType(bits=bits):
            return _numbers(encoded, "f", 4, bits // 8)
        case dt.DecimalType():
            return _decimals(encoded, bound_type(type_))
        case dt.UuidType():
            return _of_length(encoded, pc.equal, 16)
        case dt.FixedType(length=length):
            return _of_length(encoded, pc.less_equal, length)
        case dt.BinaryType():
            return encoded
        case dt.StringType():
            with contextlib.suppress(pa.ArrowInvalid):  # some are cut inside a character (iceberg 3.22)
                return encoded.cast(pa.string())
        case _:
            pass
    return bound_array([None if data is None else decode_bound(type_, data) for data in encoded.to_pylist()], type_)


def _of_length(encoded: pa.Array, compare: Callable[..., pa.Array], length: int) -> pa.Array:
    return nulled(encoded, ~true_mask(compare(pc.binary_length(encoded), scalar_of(length, pa.int32()))))


def _by_width(encoded: pa.Array, widths: Iterable[int]) -> Iterator[tuple[Places, npt.NDArray[np.uint8]]]:
    """Yield the places of values that have one of some lengths, and their bytes, one row per value."""
    for width in dict.fromkeys(widths):
        fits = true_mask(pc.equal(pc.binary_length(encoded), scalar_of(width, pa.int32())))
        if fits.any():
            data, _ = text_bytes(encoded if fits.all() else encoded.filter(from_numpy(fits)))
            yield np.flatnonzero(fits), data.reshape(-1, width)


def _numbers(encoded: pa.Array, kind: Literal["i", "f"], *widths: int, days: int = 1) -> pa.Array:
    """Decode bounds of some lengths. days: the unit of a bound of four bytes if the type has eight bytes (3.23)."""
    values = np.zeros(len(encoded), dtype=f"{kind}8")
    missing = np.ones(len(encoded), dtype=np.bool_)
    for places, data in _by_width(encoded, widths):
        width = data.shape[1]
        found = data.view(f"<{kind}{width}")[:, 0]
        unit = days if width == 4 else 1
        most = (2**63 - 1) // unit
        values[places] = found.astype(values.dtype) * unit
        # NaN says nothing, and days that a type of 64 bits cannot count are not bounds of that type.
        missing[places] = (found != found) | ((unit != 1) & (np.abs(found.astype(np.float64)) > most))
    return from_numpy(values, missing=missing)


def _decimals(encoded: pa.Array, type_: pa.DataType) -> pa.Array:
    """Decode big-endian numbers of any length up to that of the type. Longer ones are null."""
    size = type_.byte_width
    numbers = np.zeros((len(encoded), size), dtype=np.uint8)
    missing = np.ones(len(encoded), dtype=np.bool_)
    longest = pc.max(pc.binary_length(encoded)).as_py()
    for places, data in _by_width(encoded, range(1, min(longest, size - 1) + 1)):
        numbers[places] = (data[:, :1] >> 7) * np.uint8(0xFF)
        numbers[places, : data.shape[1]] = data[:, ::-1]
        missing[places] = False
    validity = from_numpy(numbers[:, 0], missing=missing).buffers()[0]
    return pa.Array.from_buffers(type_, len(encoded), [validity, pa.py_buffer(numbers)])


def bounds_of(files: DataFiles, column: dt.Field, *, is_nested: bool = False) -> ColumnBounds:
    """Return the facts of a column. Nothing is known about files whose record count is unknown (iceberg 2.21).

    Args:
        files: Data files with the statistics of the column.
        column: A column of single values.
        is_nested: Whether the column is within a struct. ORC does not count values where the struct is null, so counts
            of nulls are used only if every row is counted.
    """
    rows = files.table.column("record_count")
    values, nulls, nans, lower, upper = (
        combined(files.table.column(statistic(name, column.id))) for name in (*COUNTS, *BOUNDS)
    )
    if is_nested:
        nulls = nulled(nulls, ~true_mask(combined(pc.equal(rows, values))))
    return ColumnBounds.from_statistics(
        column.type,
        lower=decode_bounds(lower, column.type),
        upper=decode_bounds(upper, column.type),
        values=values,
        nulls=nulls,
        nans=nans,
        usable=to_numpy(rows.is_valid()),
    )


def skip_files(
    data: DataFiles,
    specs: Mapping[int, PartitionSpec],
    schema: dt.Schema,
    condition: Filter,
    *,
    by_statistics: bool = True,
) -> Decisions:
    """A decision on each file: KEPT, BY_PARTITION or BY_STATISTICS.

    A record count of 0 decides nothing: counts are wrong in real tables, and opening an empty file costs little. This
    overrules iceberg 2.21, which lets such files be skipped.
    """
    decisions = np.full(len(data), KEPT, dtype=np.int8)
    if not len(data):
        return decisions
    decisions[~_partitions(data, specs, schema, condition)[to_numpy(data.table.column("tuple"))]] = BY_PARTITION
    places = np.flatnonzero(decisions == KEPT)
    if not by_statistics or not len(places):
        return decisions
    table = data.table.select([name for name in data.table.column_names if name != "path"])  # to take paths is slow
    files = DataFiles(table, data.manifests, data.tuples, data.fields).take(places)
    nested = nested_columns(schema)

    @cache
    def bounds(column: dt.Field) -> ColumnBounds | None:
        return bounds_of(files, column, is_nested=column.id in nested) if column.id in files.fields else None

    kept = may_match(decidable(condition.predicate, schema), bounds, len(files))
    decisions[places[~kept]] = BY_STATISTICS
    return decisions


def _partitions(data: DataFiles, specs: Mapping[int, PartitionSpec], schema: dt.Schema, condition: Filter) -> Mask:
    """Return, for each partition tuple, whether its files may hold a row that the filter needs (iceberg 3.14-3.17)."""
    kept = np.ones(len(data.tuples), dtype=np.bool_)
    spec_ids = np.array(data.specs_of_tuples())
    for spec_id in distinct(spec_ids).tolist():
        if spec_id not in specs or not specs[spec_id].fields:
            continue
        places = np.flatnonzero(spec_ids == spec_id)
        facts = exact_facts([data.tuples[place] for place in places.tolist()])
        kept[places] = may_match(projected(condition.predicate, specs[spec_id], schema), facts, len(places))
    return kept
