"""Paths to columns and their parts.

`s.x` is a field of a struct, `l.element` an element of a list, `m.value` a value of a map, and `m.key` a key. If a
column is named `s.x`, the text `s.x` means that column.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

import pyarrow as pa

from harness.diff.canonical import decode_array
from harness.diff.schemas import normal_type
from harness.errors import RequestError
from harness.metadata.model.arrow_values import child_types, children_of, is_list, with_children

ColumnPath: TypeAlias = tuple[str, ...]
"""The name of a column, followed by the names of nested parts from outside to inside."""
ELEMENT, KEY, VALUE = "element", "key", "value"
_MOST_NAMES = 20
_MOST_COMPARED = 10_000
"""The most names that are searched for one similar to a misspelled name."""


def child_names(type_: pa.DataType) -> tuple[str, ...]:
    """Return the names of the parts of a type without encodings, in the order of `child_types`."""
    if pa.types.is_struct(type_):
        return tuple(field.name for field in type_)
    if pa.types.is_map(type_):
        return (KEY, VALUE)
    return (ELEMENT,) if is_list(type_) else ()


def _parts(type_: pa.DataType) -> list[tuple[str, pa.DataType]]:
    names = child_names(type_)
    return list(zip(names, child_types(type_), strict=True)) if names else []


def walk_type(type_: pa.DataType) -> Iterator[tuple[ColumnPath, pa.DataType]]:
    """Yield a type and all its parts at every level, each with its path inside the type."""
    plain_type = normal_type(type_)
    yield (), plain_type
    for name, part in _parts(plain_type):
        for path, inner in walk_type(part):
            yield (name, *path), inner


def find_path(text: str, schema: pa.Schema) -> ColumnPath | None:
    """Return the path to the column or part that a text names, or None if the schema has none.

    Raises:
        RequestError: The text can mean several parts, because names contain dots.
    """
    if text in schema.names:
        return (text,)
    paths = [
        (field.name, *inner)
        for field in schema
        if is_inside(text, field.name)
        for inner in _find_inside(text[len(field.name) + 1 :], normal_type(field.type))
    ]
    if len(paths) > 1:
        raise RequestError(f"Cannot resolve {text!r}: {len(paths)} parts have that name", field=text)
    return paths[0] if paths else None


def is_inside(text: str, column: str) -> bool:
    """Return whether a text may name a part of a column, regardless of the column's type."""
    return text.startswith(f"{column}.")


def _find_inside(text: str, type_: pa.DataType) -> Iterator[ColumnPath]:
    for name, part in _parts(type_):
        if text == name:
            yield (name,)
        elif is_inside(text, name):
            yield from ((name, *inner) for inner in _find_inside(text[len(name) + 1 :], part))


def type_at(path: ColumnPath, schema: pa.Schema) -> pa.DataType:
    """Return the type of the part at a path. The path must be one that `find_path` returned for this schema."""
    type_ = schema.field(path[0]).type
    for name in path[1:]:
        type_ = dict(_parts(normal_type(type_)))[name]
    return type_


def is_in_key(path: ColumnPath, schema: pa.Schema) -> bool:
    """Return whether a path leads to keys of a map, or to parts of such keys."""
    above = (path[:end] for end in range(1, len(path)) if path[end] == KEY)
    return any(pa.types.is_map(normal_type(type_at(each, schema))) for each in above)


def float_texts(schema: pa.Schema, excluded: Collection[str] = ()) -> list[str]:
    """Return the texts that name all float columns and parts, except those in keys of maps.

    Args:
        schema: The schema.
        excluded: Columns to skip.
    """
    paths = [
        (field.name, *path)
        for field in schema
        if field.name not in excluded
        for path, type_ in walk_type(field.type)
        if pa.types.is_floating(type_)
    ]
    return [".".join(path) for path in paths if not is_in_key(path, schema)]


def suggestion(text: str, schemas: Iterable[pa.Schema | Sequence[str]]) -> str:
    """Return a hint for a misspelled name: similar names, or else the names of the columns.

    Args:
        text: The misspelled name.
        schemas: The schemas of the sides, or only the names of their columns.
    """
    names: dict[str, None] = {}
    columns: dict[str, None] = {}
    for schema in schemas:
        columns |= dict.fromkeys(schema.names if isinstance(schema, pa.Schema) else schema)
        if isinstance(schema, pa.Schema):
            names |= dict.fromkeys(islice((".".join(path) for path in _all_paths(schema)), _MOST_COMPARED))
    names |= columns
    folded = {name.casefold(): name for name in names}
    near = [folded[name] for name in difflib.get_close_matches(text.casefold(), folded, n=3)]
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    more = ", …" if len(columns) > _MOST_NAMES else ""
    return f"there are {', '.join(map(repr, islice(columns, _MOST_NAMES))) or 'no columns'}{more}"


def _all_paths(schema: pa.Schema) -> Iterator[ColumnPath]:
    return ((field.name, *path) for field in schema for path, _ in walk_type(field.type))


def narrow_schema(
    schema: pa.Schema, selection: Collection[ColumnPath] | None, excluded: Collection[ColumnPath]
) -> pa.Schema:
    """Return the schema without excluded struct fields.

    If some fields of a column are selected, its other fields are left out too.

    Args:
        schema: The schema.
        selection: Paths to the selected columns and fields. None: all columns.
        excluded: Paths to fields to leave out.

    Raises:
        RequestError: A path leads to a part that is not a struct field, or all fields of a struct are left out.
    """
    for path in (*(selection or ()), *excluded):
        is_field = len(path) == 1 or pa.types.is_struct(normal_type(type_at(path[:-1], schema)))
        if not is_field or is_in_key(path, schema):
            raise RequestError(
                f"Cannot select or exclude only {'.'.join(path)!r}: it is not a field of a struct, or is in the "
                f"keys of a map; name a field, or the whole column {path[0]!r}",
                field=".".join(path),
            )
    fields = []
    for field in schema:
        selected_paths = [path[1:] for path in selection or () if path[0] == field.name]
        exclusions = [path[1:] for path in excluded if path[0] == field.name]
        field_selection = None if () in selected_paths or not selected_paths else selected_paths
        fields.append(field.with_type(_narrow_type(field.type, field.name, field_selection, exclusions)))
    return pa.schema(fields)


def _narrow_type(
    type_: pa.DataType, path: str, selection: list[ColumnPath] | None, exclusions: list[ColumnPath]
) -> pa.DataType:
    """Return a type without some struct fields.

    Args:
        type_: The type.
        path: The type's path, for messages.
        selection: Paths to the fields to keep. None: all fields.
        exclusions: Paths to the fields to leave out.
    """
    if selection is None and not exclusions:
        return type_
    if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        return _narrow_type(type_.value_type, path, selection, exclusions)
    parts: dict[str, pa.DataType] = {}
    for name, part in _parts(type_):
        part_selection = None if selection is None else [each[1:] for each in selection if each[0] == name]
        if (name,) in exclusions or (part_selection == [] and pa.types.is_struct(type_)):
            continue
        rest = [each[1:] for each in exclusions if each[0] == name]
        parts[name] = _narrow_type(
            part, f"{path}.{name}", None if not part_selection or () in part_selection else part_selection, rest
        )
    if not parts:
        raise RequestError(f"Cannot leave out all fields of {path!r}: leave out {path!r}", field=path)
    return _with_parts(type_, parts)


def _with_parts(type_: pa.DataType, parts: Mapping[str, pa.DataType]) -> pa.DataType:
    """Return a nested type with new types for its parts. Struct fields without a new type are left out."""
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(parts[field.name]) for field in type_ if field.name in parts])
    if pa.types.is_map(type_):
        return pa.map_(type_.key_field.with_type(parts[KEY]), type_.item_field.with_type(parts[VALUE]))
    element = type_.value_field.with_type(parts[ELEMENT])
    return pa.large_list(element) if pa.types.is_large_list(type_) else pa.list_(element)


def narrow_rows(rows: pa.Table, types: Mapping[str, pa.DataType]) -> pa.Table:
    """Return the rows with only the struct fields that the given types have.

    Columns without a given type are unchanged.
    """
    for name, type_ in types.items():
        place = rows.schema.get_field_index(name)
        if place >= 0 and _has_more(rows.schema.field(place).type, type_):
            column = rows.column(place)
            chunks = [_narrow_array(chunk, type_) for chunk in column.chunks]
            rows = rows.set_column(place, name, pa.chunked_array(chunks, chunks[0].type if chunks else type_))
    return rows


def _has_more(type_: pa.DataType, target: pa.DataType) -> bool:
    """Return whether structs in a type have fields that are missing in another type."""
    source, other = normal_type(type_), normal_type(target)
    others = dict(_parts(other))
    return any(name not in others or _has_more(part, others[name]) for name, part in _parts(source))


def _narrow_array(array: pa.Array, target: pa.DataType) -> pa.Array:
    if not _has_more(array.type, target):
        return array
    array = decode_array(array)
    target = target.value_type if pa.types.is_dictionary(target) or pa.types.is_run_end_encoded(target) else target
    types = dict(_parts(target))
    children = zip(child_names(array.type), children_of(array), strict=True)
    parts = {name: _narrow_array(part, types[name]) for name, part in children if name in types}
    return with_children(array, [*parts.values()], _with_parts(array.type, {n: part.type for n, part in parts.items()}))
