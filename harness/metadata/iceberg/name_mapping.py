"""Name mappings: field ids for data files that carry none (iceberg 1.30, 5.7).

A mapping is applied by `harness.metadata.plan.projection.resolve`.
"""

from __future__ import annotations

import json

from harness.errors import InvalidTableError
from harness.metadata.files.documents import Json, show
from harness.metadata.model.file_schema import MappedName, NameMapping

PROPERTY = "schema.name-mapping.default"
"""The table property that holds the mapping, as JSON text."""


def parse_name_mapping(text: str, *, file: str | None = None) -> NameMapping:
    """The name mapping that a table property says. `file` is for messages.

    A dot in a name is part of it, names are case-sensitive, 0 is an id like any other, and an entry without a field id
    hides its columns.

    Raises InvalidTableError: the text is no such JSON, one level has a name twice, or the whole has a field id twice.
    """
    try:
        return NameMapping(_level(Json(json.loads(text), file, (PROPERTY,), "iceberg 5.7"), set()))
    except (ValueError, RecursionError) as error:
        message = f"Cannot parse name mapping: got {show(text)}, expected a JSON list"
        raise InvalidTableError(message, file=file, field=PROPERTY, rule="iceberg 5.7") from error


def _level(items: Json, ids: set[int]) -> tuple[MappedName, ...]:
    """ids: those of the whole mapping so far; a column has one place in a file."""
    seen: set[str] = set()
    entries = []
    for item in items.items():
        names = item.texts("names")
        for name in names:
            if name in seen:
                raise item.error(f"Invalid name mapping: the name {show(name)} occurs twice at one level", key="names")
            seen.add(name)
        field_id = item.optional_integer("field-id", bits=32)
        if field_id is not None and field_id in ids:
            raise item.error(f"Invalid name mapping: field id {field_id} occurs twice, expected unique ids")
        if field_id is not None:
            ids.add(field_id)
        fields = item.optional("fields")
        nested = () if fields is None else _level(fields, ids)
        entries.append(MappedName(names=names, field_id=field_id, fields=nested))
    return tuple(entries)
