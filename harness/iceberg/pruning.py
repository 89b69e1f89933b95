"""Which manifests and files a filter can skip: by manifest summaries, partition tuples, and column statistics.

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
    may_match,
)
from harness.iceberg.manifest_list import FieldSummary, ManifestFile
from harness.iceberg.partition_predicates import project
from harness.iceberg.specs import PartitionField, PartitionSpec
from harness.iceberg.transforms import Void, result_type
from harness.iceberg.values import decode_bound
from harness.model.column_stats import ColumnStats
from harness.model.schema import Field, FloatType, Schema, StructType, UnknownType


def partition_filter(predicate: Predicate, spec: PartitionSpec, schema: Schema) -> Callable[[Mapping[int, Any]], bool]:
    """A test of partition tuples (internal values by partition field id) of `spec`. Source: iceberg 3.14-3.17.

    Predicates on columns that are not in `schema` (metadata columns, ids of another schema) conclude nothing.
    """
    projected = _projected(predicate, spec, schema)
    if not fields_of(projected):
        known = evaluate(projected, lambda field: None) is True
        return lambda values: known
    return lambda values: evaluate(projected, lambda field: values.get(field.id)) is True


def manifest_filter(predicate: Predicate, spec: PartitionSpec, schema: Schema) -> Callable[[ManifestFile], bool]:
    """A test of manifests of `spec` by their partition summaries, which some writers get wrong (iceberg 3.9).

    Use it only where the caller asked for it, and check opened manifests with `summary_check`. Source: iceberg 3.6-3.8.
    """
    projected = _projected(predicate, spec, schema)
    positions = {f.field_id: position for position, f in enumerate(spec.fields)}

    def may_hold(manifest: ManifestFile) -> bool:
        summaries = manifest.partitions
        if summaries is None or len(summaries) != len(spec.fields):
            return True
        return may_match(projected, lambda field: _summary_stats(summaries[positions[field.id]], field))

    return may_hold


def summary_check(manifest: ManifestFile, spec: PartitionSpec, schema: Schema) -> Callable[[Mapping[int, Any]], bool]:
    """A test whether a partition tuple of an opened manifest is within the manifest's summaries (iceberg 3.9).

    One that is not proves the writer wrong: summaries of this table should not be used any more.
    """
    summaries = manifest.partitions
    if summaries is None or len(summaries) != len(spec.fields):
        return lambda values: True
    stats = [
        (target, _summary_stats(summary, target))
        for f, summary in zip(spec.fields, summaries, strict=True)
        if not isinstance(f.transform, Void)
        for target in (_target(f, source) for source in _sources(f, schema))
    ]
    return lambda values: all(_is_within(values.get(target.id), known) for target, known in stats)


def _is_within(value: Any, known: ColumnStats) -> bool:
    if value is None:
        return known.null_count != 0
    if value != value:  # NaN has no place between bounds
        return True
    below = known.lower is not None and value < known.lower
    above = known.upper is not None and value > known.upper
    return not (below or above or known.value_count is not None)


def _projected(predicate: Predicate, spec: PartitionSpec, schema: Schema) -> Predicate:
    """The inclusive projection of a whole filter onto the partition fields of `spec`."""
    match predicate:
        case And(parts=parts):
            return conjunction(tuple(_projected(part, spec, schema) for part in parts))
        case Or(parts=parts):
            return disjunction(tuple(_projected(part, spec, schema) for part in parts))
        case Constant():
            return predicate
        case Undecided():
            return Constant(True)
        case Comparison() | In() | IsNull() | IsNan() | StartsWith():
            source = predicate.field
            on_field = [f for f in spec.fields if f.source_id == source.id and _sources(f, schema)]
            projections = tuple(project(f.transform, source, predicate, _target(f, source)) for f in on_field)
            return conjunction(projections) if projections else Constant(True)
        case _:
            assert_never(predicate)


def _sources(partition_field: PartitionField, schema: Schema) -> tuple[Field, ...]:
    """The source column as a tuple of one; empty if it is not in the schema or below a list or map (iceberg 3.14)."""
    return tuple(f for f in _columns(schema.fields) if f.id == partition_field.source_id)


def _target(partition_field: PartitionField, source: Field) -> Field:
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


def _summary_stats(summary: FieldSummary, field: Field) -> ColumnStats:
    """A summary as statistics of the partition field: counts of 0 and 1 say "none" and "all" (iceberg 3.6, 3.7)."""
    is_float = isinstance(field.type, FloatType)
    if summary.lower is None and summary.upper is None and summary.contains_null and not is_float:
        return ColumnStats(lower=None, upper=None, null_count=1, nan_count=0, value_count=1)
    return ColumnStats(
        lower=None if summary.lower is None else decode_bound(field.type, summary.lower),
        upper=None if summary.upper is None else decode_bound(field.type, summary.upper),
        null_count=None if summary.contains_null else 0,
        # Some writers say "no NaN" whatever the data holds (iceberg 3.7).
        nan_count=None if is_float else 0,
        value_count=None,
    )
