"""Which files a filter can skip, by partition tuples and column statistics.

Each function turns a filter into a test that is False only when no row can make the filter true. Nothing here drops a
part of the filter: engines apply it in full to what is left (iceberg 3.18).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, assert_never

from harness.metadata.filters.predicate import (
    And,
    Comparison,
    Constant,
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
from harness.metadata.iceberg.specs import PartitionField, PartitionSpec
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
    from_unscaled,
    is_defined,
    result_type,
    unscaled,
    wrap,
)
from harness.metadata.model.schema import (
    BinaryType,
    DateType,
    DecimalType,
    Field,
    IntegerType,
    Schema,
    StringType,
    StructType,
    Type,
    UnknownType,
)

# Inclusive projection: from a predicate on a source column to one on the partition value.
#
# It is true for every partition that may hold a matching row. It may be true for others; it must never be false for one
# that matters, whatever writer computed the partition value.


_AT_MOST = (Op.LT, Op.LE)
_AT_LEAST = (Op.GT, Op.GE)


def project(transform: Transform, source: Field, part: Predicate, target: Field) -> Predicate:
    """A predicate on `target`, the partition value, that is true wherever a row of the partition can make `part` true.

    `part` is a leaf on `source`, in `source`'s type; `Constant(True)` says that nothing can be concluded.
    Source: iceberg 3.13-3.17.
    """
    if isinstance(transform, Void | UnknownTransform):
        return Constant(True)
    if isinstance(transform, Identity):
        return Constant(True) if isinstance(part, And | Or | Undecided) else _moved(part, target)
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


def _moved(part: Comparison | In | IsNull | IsNan | StartsWith | Constant, target: Field) -> Predicate:
    return part if isinstance(part, Constant) else replace(part, field=target)


def _project_values(
    transform: Bucket | Truncate | Year | Month | Day | Hour,
    source: Field,
    part: Comparison | In | StartsWith,
    target: Field,
) -> Predicate:
    if not is_defined(transform, source.type):
        return Constant(True)
    match transform, part:
        case Truncate(width=width), StartsWith() if isinstance(source.type, StringType):
            return _project_prefix(width, part, target)
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


def _results(transform: Bucket | Truncate | Year | Month | Day | Hour, source: Type, value: Any) -> tuple[Any, ...]:
    """Every partition value that a writer may have stored for a row with `value`."""
    match transform, source:
        case Truncate(width=width), IntegerType():
            floor = value - value % width
            # Below the type's minimum, Java wraps around; others do not (iceberg 3.12).
            return (floor, *(wrap(floor, bits) for bits in (32, 64) if floor < -(1 << (bits - 1)) <= value))
        case Day(), DateType():
            return (apply(transform, source)(value),)
        case Year() | Month() | Day() | Hour(), _:
            result = apply(transform, source)(value)
            # Old writers rounded instants before 1970 up (iceberg 3.13).
            return (result, result + 1) if result < 0 else (result,)
        case _:
            return (apply(transform, source)(value),)


def _project_range(
    transform: Truncate | Year | Month | Day | Hour, source: Type, op: Op, value: Any, target: Field
) -> Predicate:
    """`op` is one of < <= > >=. Strict bounds move by one unit of the stored integer before the transform."""
    step = {Op.LT: -1, Op.GT: 1}.get(op, 0)
    match transform, source:
        case Truncate(), StringType() | BinaryType():
            bound = apply(transform, source)(value)
        case Truncate(width=width), DecimalType(scale=scale):
            moved = unscaled(value, scale) + step
            bound = from_unscaled(moved - moved % width, scale)
        case Truncate(width=width), _:
            bound = value + step - (value + step) % width
        case _:
            bounds = _results(transform, source, value + step)
            bound = bounds[-1] if op in _AT_MOST else bounds[0]
    if op in _AT_LEAST:
        return Comparison(target, Op.GE, bound)
    at_most = Comparison(target, Op.LE, bound)
    if isinstance(transform, Truncate) and isinstance(source, IntegerType):
        return Or((at_most, In(target, _wrapped(transform.width))))
    return at_most


def _wrapped(width: int) -> tuple[int, ...]:
    """Results of the smallest int and long, which Java lets overflow to a large positive number (iceberg 3.12)."""
    smallest = ((-(1 << (bits - 1)), bits) for bits in (32, 64))
    return tuple(wrap(value - value % width, bits) for value, bits in smallest)


def _project_prefix(width: int, part: StartsWith, target: Field) -> Predicate:
    length = len(part.prefix)
    if length < width:
        return StartsWith(target, part.prefix, part.negated)
    if length == width:
        return Comparison(target, Op.NE if part.negated else Op.EQ, part.prefix)
    # A value that shares the first `width` characters may still not have the prefix (trap T16).
    return Constant(True) if part.negated else Comparison(target, Op.EQ, part.prefix[:width])


def partition_filter(predicate: Predicate, spec: PartitionSpec, schema: Schema) -> Callable[[Mapping[int, Any]], bool]:
    """A test of partition tuples (internal values by partition field id) of `spec`. Source: iceberg 3.14-3.17.

    Predicates on columns that are not in `schema` (metadata columns, ids of another schema) conclude nothing.
    """
    on_tuple = projected(predicate, spec, schema)
    if not fields_of(on_tuple):
        known = evaluate(on_tuple, lambda field: None) is True
        return lambda values: known
    return lambda values: evaluate(on_tuple, lambda field: values.get(field.id)) is True


def projected(predicate: Predicate, spec: PartitionSpec, schema: Schema) -> Predicate:
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


def source_columns(partition_field: PartitionField, schema: Schema) -> tuple[Field, ...]:
    """The source column as a tuple of one; empty if it is not in the schema or below a list or map (iceberg 3.14)."""
    return tuple(f for f in _columns(schema.fields) if f.id == partition_field.source_id)


def partition_target(partition_field: PartitionField, source: Field) -> Field:
    """The partition field as a field of its own, with the type of its values."""
    type_ = result_type(partition_field.transform, source.type)
    return Field(id=partition_field.field_id, name=partition_field.name, type=type_)


def _columns(fields: tuple[Field, ...]) -> list[Field]:
    """The fields whose statistics speak of rows: all but those below a list or map (iceberg 3.4)."""
    found: list[Field] = []
    for field in fields:
        found.append(field)
        if isinstance(field.type, StructType):
            found.extend(_columns(field.type.fields))
    return found


def decidable(predicate: Predicate, schema: Schema) -> Predicate:
    """`predicate` without what column statistics cannot decide: parts on columns that are always null, too (5.14).

    Source: iceberg 3.19-3.25.
    """
    opaque = (StructType, UnknownType)
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


def nested_columns(schema: Schema) -> frozenset[int]:
    """Ids of fields within structs, whose values ORC does not count where the struct itself is null."""
    return frozenset(f.id for f in _columns(schema.fields)) - frozenset(f.id for f in schema.fields)
