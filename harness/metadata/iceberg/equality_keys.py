"""The key columns of equality deletes, looked up in all schemas that the table ever had (iceberg 4.23)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.errors import InvalidTableError, UnsupportedError
from harness.metadata.iceberg.manifests import DataFile, ManifestEntry
from harness.metadata.iceberg.values import decode_bound
from harness.metadata.model.schema import (
    BinaryType,
    DateType,
    DecimalType,
    Field,
    FixedType,
    FloatType,
    IntegerType,
    Schema,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    Type,
    children,
)


def key_columns(
    ids: Iterable[int], schemas: Iterable[Schema], *, file: str
) -> tuple[tuple[Field, ...], tuple[tuple[int, ...], ...]]:
    """The keys of one delete file, in ascending order of field id.

    Args:
        ids: the file's `equality_ids`.
        schemas: every schema of the table, that of the read first, then the newest: a column since dropped or renamed
            still counts.
        file: for messages.

    Returns:
        Per key its top-level column, pruned down to the key, and the path of field ids from that column to the key.

    Raises:
        InvalidTableError: an id is in no schema, lies below a list or map, or is not a single value.
        UnsupportedError: a float key, which the format forbids: writers and engines disagree on -0.0 and 0.0.
    """
    known = tuple(schemas)
    found = [_find(field_id, known, file) for field_id in sorted(set(ids))]
    return tuple(root for root, _ in found), tuple(path for _, path in found)


def read_schema_first(schemas: Mapping[int, Schema], read: Schema) -> tuple[Schema, ...]:
    """The table's schemas, that of the read first, then by descending id.

    Its meaning of a field id goes before newer ones: replacing a table gives ids of old columns to new ones of the same
    name, whatever their types, and old snapshots stay.
    """
    others = sorted((schema for schema in schemas.values() if schema.id != read.id), key=lambda s: -s.id)
    return (read, *others)


def _find(field_id: int, schemas: tuple[Schema, ...], file: str) -> tuple[Field, tuple[int, ...]]:
    for schema in schemas:
        for root in schema.fields:
            pruned = _prune(root, field_id)
            if pruned is not None:
                root, path = _checked(pruned, field_id, file)
                return (root if schema is schemas[0] else _optional(root)), path
    raise InvalidTableError(
        f"Cannot apply an equality delete: no schema of the table has its key field id {field_id}",
        cause="UnknownEqualityField",
        file=file,
        field=str(field_id),
        rule="iceberg 4.23",
    )


def _prune(field: Field, field_id: int) -> tuple[Field, tuple[int, ...]] | None:
    """`field` reduced to the path that leads to `field_id`, with that path, or None if the id is not below it."""
    if field.id == field_id:
        return field, (field.id,)
    for child in children(field.type):
        below = _prune(child, field_id)
        if below is not None:
            pruned, path = below
            type_: Type = StructType((pruned,)) if isinstance(field.type, StructType) else field.type
            return replace(field, type=type_), (field.id, *path)
    return None


def _optional(field: Field) -> Field:
    """A dropped column: files written since lack it, required or not."""
    type_ = field.type
    if isinstance(type_, StructType):
        type_ = StructType(tuple(_optional(f) for f in type_.fields))
    return replace(field, type=type_, required=False)


def _checked(found: tuple[Field, tuple[int, ...]], field_id: int, file: str) -> tuple[Field, tuple[int, ...]]:
    current, path = found
    for step in path[1:]:
        if not isinstance(current.type, StructType):
            raise _refused(field_id, f"lies below {current.name!r}, a list or map", file)
        current = next(f for f in current.type.fields if f.id == step)
    if children(current.type):
        raise _refused(field_id, f"is {current.type}, not a single value", file)
    if isinstance(current.type, FloatType):
        raise UnsupportedError(
            f"Cannot apply an equality delete: its key {current.name!r} is {current.type}, which the format forbids",
            cause="UnknownEqualityField",
            file=file,
            field=current.name,
            rule="iceberg 4.23",
        )
    return found


def _refused(field_id: int, why: str, file: str) -> InvalidTableError:
    return InvalidTableError(
        f"Cannot apply an equality delete: its key field id {field_id} {why}",
        cause="UnknownEqualityField",
        file=file,
        field=str(field_id),
        rule="iceberg 4.23",
    )


# Whether an equality delete can hit a data file at all, from what their manifests say about the keys (iceberg 4.9).


# Not uuid: its bounds have no agreed order (3.3). Not boolean: two values never exclude much.
_ORDERED = (BinaryType, DateType, DecimalType, FixedType, FloatType, IntegerType, StringType, TimestampType, TimeType)


def may_hit(delete: ManifestEntry, data: ManifestEntry, keys: Sequence[Field]) -> bool:
    """False only if no row of the equality delete can equal a row of the data file, by counts and bounds of the keys.

    Scope is not looked at; `DeleteIndex` has done that.

    Args:
        delete: the delete's entry, with statistics of the keys.
        data: the data file's entry, likewise.
        keys: the delete's top-level keys with their newest type. Keys inside structs must be left out: writers differ
            on whether a null struct counts as null of its fields. Fewer keys only make the answer True more often.
    """
    return all(_may_share(key, delete.file, data.file) for key in keys)


def _may_share(key: Field, delete: DataFile, data: DataFile) -> bool:
    """Whether some value of `key`, or null, may be in both files."""
    if _may_hold_null(key, delete) and _may_hold_null(key, data):
        return True
    if _only_null(key, delete) or _only_null(key, data):
        return False
    # Bounds leave NaN out, and NaN equals NaN (4.23).
    if isinstance(key.type, FloatType) and _may_hold_nan(key, delete) and _may_hold_nan(key, data):
        return True
    return not (_below(key, delete, data) or _below(key, data, delete))


def _may_hold_null(key: Field, file: DataFile) -> bool:
    return _count(file.null_value_counts, key, file) != 0


def _may_hold_nan(key: Field, file: DataFile) -> bool:
    return _count(file.nan_value_counts, key, file) != 0


def _only_null(key: Field, file: DataFile) -> bool:
    values, nulls = (_count(counts, key, file) for counts in (file.value_counts, file.null_value_counts))
    return values is not None and values == nulls


def _count(counts: Mapping[int, int] | None, key: Field, file: DataFile) -> int | None:
    """None: not known. A count of no values comes from writers that left the column out, and says nothing (3.19)."""
    if counts is None or (file.value_counts or {}).get(key.id) == 0:
        return None
    return counts.get(key.id)


def _below(key: Field, low: DataFile, high: DataFile) -> bool:
    """Whether every value in `low` is known to be less than every value in `high`."""
    if not isinstance(key.type, _ORDERED):
        return False
    low_bounds, high_bounds = _bounds(key, low), _bounds(key, high)
    if low_bounds is None or high_bounds is None or not low_bounds[1] < high_bounds[0]:
        return False
    # An upper bound cut without rounding up is met on disk (3.9): values that it begins may be above it.
    return not (isinstance(low_bounds[1], str | bytes) and high_bounds[0].startswith(low_bounds[1]))


def _bounds(key: Field, file: DataFile) -> tuple[Any, Any] | None:
    """Both bounds as internal values; None if one is unknown or they are inverted (iceberg 3.25)."""
    lower, upper = (file.lower_bounds or {}).get(key.id), (file.upper_bounds or {}).get(key.id)
    if lower is None or upper is None:
        return None
    decoded = decode_bound(key.type, lower), decode_bound(key.type, upper)
    if decoded[0] is None or decoded[1] is None or decoded[0] > decoded[1]:
        return None
    return decoded
