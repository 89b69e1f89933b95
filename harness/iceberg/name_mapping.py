"""Name mappings: field ids for data files that carry none (iceberg 1.30, 5.7)."""

from __future__ import annotations

import json
from collections.abc import Mapping

from harness.errors import InvalidTableError
from harness.iceberg.json_doc import Json, show
from harness.plan.projection import MappedName, NameMapping

PROPERTY = "schema.name-mapping.default"
"""The table property that holds the mapping, as JSON text."""


def table_name_mapping(properties: Mapping[str, str], *, file: str | None = None) -> NameMapping | None:
    """The name mapping of a table's properties; None if it has none. `file` is for messages.

    Raises:
        InvalidTableError: as for `parse_name_mapping`.
    """
    text = properties.get(PROPERTY)
    return None if text is None else parse_name_mapping(text, file=file)


def parse_name_mapping(text: str, *, file: str | None = None) -> NameMapping:
    """The name mapping in a JSON text.

    A dot in a name is part of it, names are case-sensitive, 0 is an id like any other, and an entry without a field id
    hides its columns.

    Raises:
        InvalidTableError: the text is no such JSON, one level has a name twice, or the whole has a field id twice.
    """
    try:
        document = Json(json.loads(text), file, (PROPERTY,), "iceberg 5.7")
        fields = _level(document)
    except (ValueError, RecursionError) as error:
        raise InvalidTableError(
            f"Cannot parse name mapping: got {show(text)}, expected a JSON list",
            file=file,
            field=PROPERTY,
            rule="iceberg 5.7",
        ) from error
    _check_ids(document, fields, set())
    return NameMapping(fields)


def _level(items: Json) -> tuple[MappedName, ...]:
    seen: set[str] = set()
    entries = []
    for item in items.items():
        names = item.texts("names")
        for name in names:
            if name in seen:
                raise item.error(f"Invalid name mapping: the name {show(name)} occurs twice at one level", key="names")
            seen.add(name)
        fields = item.optional("fields")
        field_id = item.optional_integer("field-id", bits=32)
        entries.append(MappedName(names=names, field_id=field_id, fields=() if fields is None else _level(fields)))
    return tuple(entries)


def _check_ids(document: Json, fields: tuple[MappedName, ...], seen: set[int]) -> None:
    """One column cannot be found in two places of a file."""
    for field in fields:
        if field.field_id is not None and field.field_id in seen:
            raise document.error(f"Invalid name mapping: field id {field.field_id} occurs twice, expected unique ids")
        if field.field_id is not None:
            seen.add(field.field_id)
        _check_ids(document, field.fields, seen)
