"""Which files a filter can skip, by partition tuples and column statistics.

Each function turns a filter into a test that is False only when no row can make the filter true. Nothing here drops a
part of the filter: engines apply it in full to what is left (iceberg 3.18).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, assert_never

from harness.filters.predicate import (
    And,
    Comparison,
    Constant,
    In,
    IsNan,
    IsNull,
    Or,
    Predicate,
    StartsWith,
    Undecided,
    conjunction,
    disjunction,
    evaluate,
    fields_of,
)
from harness.iceberg.partition_predicates import project
from harness.iceberg.specs import PartitionField, PartitionSpec
from harness.iceberg.transforms import result_type
from harness.model.schema import Field, Schema, StructType, UnknownType


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
