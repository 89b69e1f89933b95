"""The key columns of equality deletes, looked up in all schemas that the table ever had (iceberg 4.23)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from harness.errors import InvalidTableError, UnsupportedError
from harness.model.schema import Field, FloatType, Schema, StructType, Type, children


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
