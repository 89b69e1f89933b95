"""Delta types for the builder: type text to the JSON of `schemaString`, and that JSON to logical types.

The code follows the protocol and is independent of the reader, so that a mistake in one of them is detected by the
other.

Spec: Delta, "Schema Serialization Format".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Any, TypeAlias

from harness.metadata.model.schema import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    ListType,
    MapType,
    OpaqueType,
    Schema,
    StringType,
    StructType,
    TimestampType,
    Type,
    UnknownType,
    VariantType,
    children,
)
from harness.writing.iceberg.evolution import with_children
from harness.writing.iceberg.types import TypeText

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object that is written, for example an action or a field of a schema."""
SchemaText: TypeAlias = Mapping[str, Any]

PHYSICAL_NAME = "delta.columnMapping.physicalName"
COLUMN_ID = "delta.columnMapping.id"
CHAR_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"

_TOKEN = re.compile(r"\s*([<>(),:]|[^\s<>(),:]+)")
_CHARACTERS = re.compile(r"\b(?:var)?char\(\d+\)")
_ALIASES = {"int": "integer", "bigint": "long", "smallint": "short", "tinyint": "byte", "list": "array"}
_SIMPLE: dict[str, Type] = {
    "boolean": BooleanType(),
    "byte": IntegerType(8),
    "short": IntegerType(16),
    "integer": IntegerType(32),
    "long": IntegerType(64),
    "float": FloatType(32),
    "double": FloatType(64),
    "date": DateType(),
    "timestamp": TimestampType("us", utc=True),
    "timestamp_ntz": TimestampType("us"),
    "string": StringType(),
    "binary": BinaryType(),
    "variant": VariantType(),
    "void": UnknownType(),
}


def schema_json(schema: SchemaText | Schema) -> JsonObject:
    """Return the `schemaString` document of a schema.

    Args:
        schema: A mapping of column names to type texts (see `parse_type`) or JSON types; a document; or a logical
            schema, whose ids and physical names become annotations of column mapping if it has physical names.
    """
    if isinstance(schema, Schema):
        return {"type": "struct", "fields": [_field_to_json(f) for f in schema.fields]}
    if schema.get("type") == "struct" and isinstance(schema.get("fields"), list):
        return dict(schema)
    return {"type": "struct", "fields": [field_json(name, text) for name, text in schema.items()]}


def field_json(name: str, type_text: str | JsonObject) -> JsonObject:
    """Return a field with the type of a text. The types char and varchar are recorded in its metadata (delta T4)."""
    if not isinstance(type_text, str):
        return {"name": name, "type": type_text, "nullable": True, "metadata": {}}
    type_, nullable = parse_type(_CHARACTERS.sub("string", type_text))
    metadata = {}
    if _CHARACTERS.search(type_text):
        metadata[CHAR_VARCHAR] = type_text.removesuffix("not null").strip()
    return {"name": name, "type": type_, "nullable": nullable, "metadata": metadata}


def parse_type(text: str) -> tuple[Any, bool]:
    """Return the JSON type of a type text, and whether it may be null.

    Examples: `int`, `decimal(9, 2)`, `timestamp` (an instant), `timestamp_ntz`, `void`, `array<string not null>`,
    `map<string, int>`, `struct<a: int not null, b: struct<c: string>>`. A name that Delta does not define stays
    unchanged.

    Raises:
        RequestError: The text cannot be parsed.
    """
    type_, required = TypeText[Any](_TOKEN.findall(text), _parse_bare).parse(text, "array<string>")
    return type_, not required


def schema_of(document: JsonObject, *, mapped: bool) -> Schema:
    """Return the logical schema of a `schemaString` document.

    Args:
        document: The document.
        mapped: If true, column mapping is on, and fields get the ids and physical names of their annotations. Otherwise
            the annotations are ignored. Fields without an id, elements, keys, and values get ids above 1,000,000.
    """
    schema = Schema(fields=_fields_from_json(document["fields"], count(1_000_001)))
    return schema if mapped else Schema(fields=_without_physical_names(schema.fields))


def struct_fields(json_type: object) -> Iterator[JsonObject]:
    """Yield every struct field at every level of a JSON type, parents first."""
    if not isinstance(json_type, dict):
        return
    for f in json_type.get("fields", ()):
        yield f
        yield from struct_fields(f["type"])
    for part in ("elementType", "keyType", "valueType"):
        yield from struct_fields(json_type.get(part))


def type_names(json_type: object) -> Iterator[str]:
    """Yield the names of all primitive types in a JSON type."""
    match json_type:
        case str():
            yield json_type
        case dict():
            for part in ("elementType", "keyType", "valueType"):
                if part in json_type:
                    yield from type_names(json_type[part])
            for f in json_type.get("fields", ()):
                yield from type_names(f["type"])
        case _:
            pass


def _fields_from_json(documents: list[JsonObject], ids: Iterator[int]) -> tuple[Field, ...]:
    return tuple(
        Field(
            id=f["metadata"].get(COLUMN_ID) or next(ids),
            name=f["name"],
            type=_type_from_json(f["type"], ids),
            required=not f["nullable"],
            physical_name=f["metadata"].get(PHYSICAL_NAME),
        )
        for f in documents
    )


def _without_physical_names(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    return tuple(
        replace(f, physical_name=None, type=with_children(f.type, _without_physical_names(children(f.type))))
        for f in fields
    )


def _type_from_json(json_type: object, ids: Iterator[int]) -> Type:
    match json_type:
        case {"type": "struct", "fields": fields}:
            return StructType(_fields_from_json(fields, ids))
        case {"type": "array", "elementType": element, "containsNull": nullable}:
            return ListType(
                Field(id=next(ids), name="element", type=_type_from_json(element, ids), required=not nullable)
            )
        case {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": nullable}:
            return MapType(
                Field(id=next(ids), name="key", type=_type_from_json(key, ids), required=True),
                Field(id=next(ids), name="value", type=_type_from_json(value, ids), required=not nullable),
            )
        case str() if json_type.startswith("decimal"):
            precision, scale = re.findall(r"\d+", json_type) or ("10", "0")
            return DecimalType(int(precision), int(scale))
        case _:
            return _SIMPLE.get(str(json_type), OpaqueType(str(json_type)))


def _field_to_json(f: Field) -> JsonObject:
    mapped = {} if f.physical_name is None else {COLUMN_ID: f.id, PHYSICAL_NAME: f.physical_name}
    return {"name": f.name, "type": _type_to_json(f.type), "nullable": not f.required, "metadata": mapped}


def _type_to_json(type_: Type) -> object:
    match type_:
        case StructType(fields=fields):
            return {"type": "struct", "fields": [_field_to_json(f) for f in fields]}
        case ListType(element=element):
            return {"type": "array", "elementType": _type_to_json(element.type), "containsNull": not element.required}
        case MapType(key=key, value=value):
            parts = {"keyType": _type_to_json(key.type), "valueType": _type_to_json(value.type)}
            return {"type": "map", **parts, "valueContainsNull": not value.required}
        case DecimalType(precision=precision, scale=scale):
            return f"decimal({precision},{scale})"
        case _:
            return next((name for name, simple_type in _SIMPLE.items() if simple_type == type_), str(type_))


def _parse_bare(word: str, text: TypeText[Any]) -> object:
    name = _ALIASES.get(word.lower(), word)
    match name:
        case "struct" if text.tokens[:2] == ["<", ">"]:
            del text.tokens[:2]
            return {"type": "struct", "fields": []}
        case "struct":
            members = [{"name": n, "type": t, "nullable": not r, "metadata": {}} for n, t, r in text.members()]
            return {"type": "struct", "fields": members}
        case "array":
            ((element, required),) = text.arguments(1)
            return {"type": "array", "elementType": element, "containsNull": not required}
        case "map":
            (key, _), (value, required) = text.arguments(2)
            return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": not required}
        case _ if text.tokens[:1] == ["("]:
            return f"{name}({text.words(')')})"
        case _:
            return name
