"""Schema changes as functions from a schema to a schema.

A column path is a dotted name. `element`, `key`, and `value` lead into lists and maps. The schema id does not change
here, because the table numbers its schemas.

Spec: Iceberg, "Schema Evolution".
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TypeAlias

from harness.errors import RequestError
from harness.metadata.model.schema import Field, ListType, MapType, Schema, StructType, Type, children
from harness.writing.local_files import FieldPath

_Siblings: TypeAlias = tuple[Field, ...]


def find_field(schema: Schema, path: FieldPath) -> Field:
    """Return the field at a path. A text that equals a column's name means that column, even if it contains dots.

    Raises:
        RequestError: There is no such field.
    """
    return _locate(schema, path)[-1]


def field_chain(schema: Schema, field_id: int) -> tuple[Field, ...]:
    """Return the fields from the top level down to the field with an id.

    Raises:
        RequestError: There is no such field.
    """
    chain = _chain(schema.fields, field_id)
    if chain is None:
        raise RequestError(f"No field has the id {field_id}; the columns are {', '.join(schema.names())}")
    return chain


def project(fields: _Siblings, ids: Collection[int]) -> _Siblings:
    """Return the fields with some ids, all their children, and the structs above them. All become optional."""
    projection = []
    for f in fields:
        if f.id in ids:
            projection.append(replace(f, required=False))
        elif isinstance(f.type, StructType) and (inner := project(f.type.fields, ids)):
            projection.append(replace(f, required=False, type=StructType(inner)))
    return tuple(projection)


def rename_fields(fields: _Siblings, names: dict[int, str]) -> _Siblings:
    """Return the fields with other names at every level, by field id."""
    return tuple(
        replace(f, name=names.get(f.id, f.name), type=with_children(f.type, rename_fields(children(f.type), names)))
        for f in fields
    )


def add(schema: Schema, parent: FieldPath | None, field: Field) -> Schema:
    """Return the schema with a new field at the end of the top level, or of the struct at `parent`."""
    return _edit_children(schema, None if parent is None else find_field(schema, parent), lambda level: (*level, field))


def drop(schema: Schema, path: FieldPath) -> Schema:
    """Return the schema without the field at a path."""
    return _edit_siblings(schema, path, lambda level, last: tuple(f for f in level if f.id != last.id))


def change(schema: Schema, path: FieldPath, edit: Callable[[Field], Field]) -> Schema:
    """Return the schema with the field at a path changed by a function."""
    return _edit_siblings(schema, path, lambda level, last: tuple(edit(f) if f.id == last.id else f for f in level))


def move(schema: Schema, path: FieldPath, index: int) -> Schema:
    """Return the schema with the field at a path moved to a 0-based position among its siblings."""

    def reorder(level: _Siblings, last: Field) -> _Siblings:
        others = [f for f in level if f.id != last.id]
        return (*others[:index], last, *others[index:])

    return _edit_siblings(schema, path, reorder)


def _edit_siblings(schema: Schema, path: FieldPath, edit: Callable[[_Siblings, Field], _Siblings]) -> Schema:
    """Apply a function to the field at a path and its siblings, and return the new schema."""
    *above, last = _locate(schema, path)
    return _edit_children(schema, above[-1] if above else None, lambda level: edit(level, last))


def _locate(schema: Schema, path: FieldPath) -> tuple[Field, ...]:
    whole = {f.name: f for f in schema.fields}
    if isinstance(path, str) and path in whole:
        return (whole[path],)
    parts = tuple(path.split(".")) if isinstance(path, str) else path
    for names, f in schema.walk():
        if names == parts:
            return field_chain(schema, f.id)
    raise RequestError(f"No column {'.'.join(parts)!r}; the columns are {', '.join(schema.names())}")


def _chain(fields: _Siblings, field_id: int) -> tuple[Field, ...] | None:
    for f in fields:
        if f.id == field_id:
            return (f,)
        below = _chain(children(f.type), field_id)
        if below is not None:
            return (f, *below)
    return None


def with_children(type_: Type, level: tuple[Field, ...]) -> Type:
    """Return a nested type with other children. A primitive type is returned unchanged."""
    match type_:
        case StructType():
            return StructType(level)
        case ListType():
            return ListType(*level)
        case MapType():
            return MapType(*level)
        case _:
            return type_


def _edit_children(schema: Schema, parent: Field | None, edit: Callable[[_Siblings], _Siblings]) -> Schema:
    """Apply a function to the children of `parent` (None: the top level), and return the new schema."""

    def visit(level: _Siblings) -> _Siblings:
        result = []
        for f in level:
            below = children(f.type)
            changed = edit(below) if parent is not None and f.id == parent.id else visit(below)
            result.append(replace(f, type=with_children(f.type, changed)) if below or changed else f)
        return tuple(result)

    return replace(schema, fields=edit(schema.fields) if parent is None else visit(schema.fields))
