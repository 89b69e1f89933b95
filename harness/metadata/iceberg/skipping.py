"""Skipping of files by partition tuples and column statistics.

These functions convert partition tuples and encoded bounds to the facts with which `harness.metadata.filters.skipping`
decides. They also convert filters on columns to filters on partition values. Engines apply the whole filter again
(iceberg 3.18).
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
    Indices,
    Mask,
    combine_chunks,
    distinct_values,
    from_numpy,
    null_where,
    scalar_of,
    text_bytes,
    to_numpy,
    true_mask,
)
from harness.metadata.plan.scan_plan import BY_PARTITION, BY_STATISTICS, KEPT, Decisions

# The inclusive projection of a predicate on a source column is a predicate on the partition value. It is true for every
# partition that may hold a matching row, whichever writer computed the partition value.


_AT_MOST = (Op.LT, Op.LE)
_AT_LEAST = (Op.GT, Op.GE)


def project(transform: Transform, source: dt.Field, part: Predicate, target: dt.Field) -> Predicate:
    """Return a predicate on a partition value that is true if the partition may hold a row that matches `part`.

    Args:
        transform: The transform of the partition field.
        source: The source column.
        part: A leaf predicate on `source`, with values of its type.
        target: The partition field, see `partition_target`.

    Returns:
        The predicate. `Constant(True)` means that no partition can be excluded.

    Spec: Iceberg, "Partition Transforms" and "Scan Planning" (rules iceberg 3.13-3.17).
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
                # A literal that does not have the column's type, scale, or range.
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
            # A value can share the first `width` characters and still not have the prefix (trap T16).
            return Constant(True) if part.negated else Comparison(target, Op.EQ, part.prefix[:width])
        case _, StartsWith() | In(negated=True) | Comparison(op=Op.NE):
            return Constant(True)
        case _, In(values=values):
            partition_values = tuple(dict.fromkeys(r for v in values for r in _results(transform, source.type, v)))
            return In(target, partition_values)
        case _, Comparison(op=Op.EQ, value=value):
            results = _results(transform, source.type, value)
            return Comparison(target, Op.EQ, results[0]) if len(results) == 1 else In(target, results)
        case Bucket(), Comparison():
            return Constant(True)
        case _, Comparison(op=op, value=value):
            return _project_range(transform, source.type, op, value, target)
    return Constant(True)


def _results(transform: Bucket | Truncate | Year | Month | Day | Hour, source: dt.Type, value: Any) -> tuple[Any, ...]:
    """Return every partition value that a writer may have stored for rows with `value`."""
    match transform, source:
        case Truncate(width=width), dt.IntegerType():
            floor = value - value % width
            # Below the type's minimum, Java wraps around; other writers do not (iceberg 3.12).
            return (floor, *(wrap(floor, bits) for bits in (32, 64) if floor < -(1 << (bits - 1)) <= value))
        case Day(), dt.DateType():
            return (apply(transform, source)(value),)
        case Year() | Month() | Day() | Hour(), _:
            result = apply(transform, source)(value)
            # Old writers rounded instants before 1970 up instead of down (iceberg 3.13).
            return (result, result + 1) if result < 0 else (result,)
        case _:
            return (apply(transform, source)(value),)


def _project_range(
    transform: Truncate | Year | Month | Day | Hour, source: dt.Type, op: Op, value: Any, target: dt.Field
) -> Predicate:
    """Project one of the operators <, <=, >, and >=.

    Strict bounds are moved by one unit of the stored integer before the transform.
    """
    step = {Op.LT: -1, Op.GT: 1}.get(op, 0)
    match transform, source:
        case Truncate(), dt.StringType() | dt.BinaryType():
            bound = apply(transform, source)(value)
        case Truncate(width=width), dt.DecimalType(scale=scale):
            neighbor = dt.unscaled(value, scale) + step
            bound = dt.from_unscaled(neighbor - neighbor % width, scale)
        case Truncate(width=width), _:
            bound = value + step - (value + step) % width
        case _:
            bounds = _results(transform, source, value + step)
            bound = bounds[-1] if op in _AT_MOST else bounds[0]
    if op in _AT_LEAST:
        return Comparison(target, Op.GE, bound)
    at_most = Comparison(target, Op.LE, bound)
    if isinstance(transform, Truncate) and isinstance(source, dt.IntegerType):
        # For the smallest int and long, Java overflows to a large positive number (iceberg 3.12).
        smallest = [(-(1 << (bits - 1)), bits) for bits in (32, 64)]
        wrapped = tuple(wrap(least - least % transform.width, bits) for least, bits in smallest)
        return Or((at_most, In(target, wrapped)))
    return at_most


def projected(predicate: Predicate, spec: PartitionSpec, schema: dt.Schema) -> Predicate:
    """Return the inclusive projection of a whole filter onto the partition fields of `spec`."""
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
    """Return the source column as a tuple of one; empty if it is missing or inside a list or map (iceberg 3.14)."""
    return tuple(f for f in _columns(schema.fields) if f.id == partition_field.source_id)


def partition_target(partition_field: PartitionField, source: dt.Field) -> dt.Field:
    """Return the partition field as a schema field, with the type of its values."""
    type_ = result_type(partition_field.transform, source.type)
    return dt.Field(id=partition_field.field_id, name=partition_field.name, type=type_)


def _columns(fields: tuple[dt.Field, ...]) -> list[dt.Field]:
    """Return the fields whose statistics count rows: all fields except those inside a list or map (iceberg 3.4)."""
    columns: list[dt.Field] = []
    for field in fields:
        columns.append(field)
        if isinstance(field.type, dt.StructType):
            columns.extend(_columns(field.type.fields))
    return columns


def decidable(predicate: Predicate, schema: dt.Schema) -> Predicate:
    """Return `predicate` with the parts that column statistics cannot decide replaced by `Undecided`.

    Conditions on columns of type unknown, which are always null, are replaced too (iceberg 5.14).

    Spec: Iceberg, "Scan Planning" and "Bound serialization" (rules iceberg 3.19-3.25).
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
    """Return the ids of fields inside structs. ORC does not count their values in rows with a null struct."""
    return frozenset(f.id for f in _columns(schema.fields)) - frozenset(f.id for f in schema.fields)


def decode_bounds(encoded: pa.Array, type_: dt.Type) -> pa.Array:
    """Return bounds of a column as an array of `bound_type`, null if `decode_bound` returns None.

    Spec: Iceberg, "Bound serialization" (rules iceberg 3.21-3.24).
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
            with contextlib.suppress(pa.ArrowInvalid):  # some writers cut text inside a character (iceberg 3.22)
                return encoded.cast(pa.string())
        case _:
            pass
    return bound_array([None if data is None else decode_bound(type_, data) for data in encoded.to_pylist()], type_)


def _of_length(encoded: pa.Array, compare: Callable[..., pa.Array], length: int) -> pa.Array:
    return null_where(encoded, ~true_mask(compare(pc.binary_length(encoded), scalar_of(length, pa.int32()))))


def _by_width(encoded: pa.Array, widths: Iterable[int]) -> Iterator[tuple[Indices, npt.NDArray[np.uint8]]]:
    """Yield, for each width, the positions of the values of that length and their bytes, one row per value."""
    for width in dict.fromkeys(widths):
        fits = true_mask(pc.equal(pc.binary_length(encoded), scalar_of(width, pa.int32())))
        if fits.any():
            data, _ = text_bytes(encoded if fits.all() else encoded.filter(from_numpy(fits)))
            yield np.flatnonzero(fits), data.reshape(-1, width)


def _numbers(encoded: pa.Array, kind: Literal["i", "f"], *widths: int, days: int = 1) -> pa.Array:
    """Decode bounds that are numbers of one of the given widths in bytes.

    Args:
        encoded: The encoded bounds.
        kind: `i` for integers, `f` for floats.
        widths: The allowed lengths.
        days: The length of a day in units of the type, if bounds of four bytes are days (iceberg 3.23).
    """
    values = np.zeros(len(encoded), dtype=f"{kind}8")
    missing = np.ones(len(encoded), dtype=np.bool_)
    for places, data in _by_width(encoded, widths):
        width = data.shape[1]
        numbers = data.view(f"<{kind}{width}")[:, 0]
        unit = days if width == 4 else 1
        most = (2**63 - 1) // unit
        values[places] = numbers.astype(values.dtype) * unit
        # NaN is not a bound, and neither is a number of days that overflows a 64-bit type.
        missing[places] = (numbers != numbers) | ((unit != 1) & (np.abs(numbers.astype(np.float64)) > most))
    return from_numpy(values, missing=missing)


def _decimals(encoded: pa.Array, type_: pa.DataType) -> pa.Array:
    """Decode big-endian numbers of any length up to the length of the type. Longer numbers are null."""
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
    """Return the facts of a column. Files with an unknown record count have no facts (iceberg 2.21).

    Args:
        files: Data files with the statistics of the column.
        column: A column of single values.
        is_nested: True for a column inside a struct. ORC does not count values in rows with a null struct, so
            null counts are used only if every row is counted.
    """
    rows = files.table.column("record_count")
    values, nulls, nans, lower, upper = (
        combine_chunks(files.table.column(statistic(name, column.id))) for name in (*COUNTS, *BOUNDS)
    )
    if is_nested:
        nulls = null_where(nulls, ~true_mask(combine_chunks(pc.equal(rows, values))))
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
    """Decide for each file whether it is read: KEPT, BY_PARTITION, or BY_STATISTICS.

    A record count of 0 does not skip a file, because real tables record wrong counts and opening an empty file costs
    little. This overrules iceberg 2.21, which allows readers to skip the file.

    Args:
        data: The files.
        specs: The partition specs of the table, by id.
        schema: The schema of the read.
        condition: The filter.
        by_statistics: If False, only partition tuples skip files.
    """
    decisions = np.full(len(data), KEPT, dtype=np.int8)
    if not len(data):
        return decisions
    decisions[~_partitions(data, specs, schema, condition)[to_numpy(data.table.column("tuple"))]] = BY_PARTITION
    places = np.flatnonzero(decisions == KEPT)
    if not by_statistics or not len(places):
        return decisions
    table = data.table.select([name for name in data.table.column_names if name != "path"])  # taking paths is slow
    files = DataFiles(table, data.manifests, data.tuples, data.fields).take(places)
    nested = nested_columns(schema)

    @cache
    def bounds(column: dt.Field) -> ColumnBounds | None:
        return bounds_of(files, column, is_nested=column.id in nested) if column.id in files.fields else None

    may_hold = may_match(decidable(condition.predicate, schema), bounds, len(files))
    decisions[places[~may_hold]] = BY_STATISTICS
    return decisions


def _partitions(data: DataFiles, specs: Mapping[int, PartitionSpec], schema: dt.Schema, condition: Filter) -> Mask:
    """Return, for each partition tuple, whether its files may hold a row that the filter needs (iceberg 3.14-3.17)."""
    may_hold = np.ones(len(data.tuples), dtype=np.bool_)
    spec_ids = np.array(data.specs_of_tuples())
    for spec_id in distinct_values(spec_ids).tolist():
        if spec_id not in specs or not specs[spec_id].fields:
            continue
        places = np.flatnonzero(spec_ids == spec_id)
        facts = exact_facts([data.tuples[place] for place in places.tolist()])
        may_hold[places] = may_match(projected(condition.predicate, specs[spec_id], schema), facts, len(places))
    return may_hold
