"""Iceberg's type and schema JSON to `harness.model.schema` (iceberg 1.22, 1.23, 5.14, 5.15, section 6).

A type name that no rule knows becomes an `OpaqueType`, so that the table's other columns stay readable; whoever
projects, filters or equality-deletes by such a column raises.
"""

from __future__ import annotations

import re
from typing import Any

from harness.iceberg.defaults import parse_default
from harness.iceberg.json_doc import Json, cursor, show
from harness.model.schema import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    Field,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    ListType,
    MapType,
    OpaqueType,
    PrimitiveType,
    Schema,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    Type,
    UnknownType,
    UuidType,
    VariantType,
    walk,
)

MAX_FIELD_ID = 2147483447
"""The largest id of a table's own field; those above are reserved for metadata columns (iceberg 1.23)."""

_NAMED: dict[str, PrimitiveType] = {
    "boolean": BooleanType(),
    "int": IntegerType(32),
    "long": IntegerType(64),
    "float": FloatType(32),
    "double": FloatType(64),
    "date": DateType(),
    "time": TimeType(),
    "timestamp": TimestampType(),
    "timestamptz": TimestampType(utc=True),
    "timestamp_ns": TimestampType("ns"),
    "timestamptz_ns": TimestampType("ns", utc=True),
    "string": StringType(),
    "uuid": UuidType(),
    "binary": BinaryType(),
    "unknown": UnknownType(),
    "variant": VariantType(),
    "geometry": GeometryType(),
    "geography": GeographyType(),
}
_DECIMAL = re.compile(r"decimal\s*\(\s*([0-9]{1,9})\s*,\s*([0-9]{1,9})\s*\)", re.IGNORECASE)
_FIXED = re.compile(r"fixed\s*\[\s*([0-9]{1,9})\s*\]", re.IGNORECASE)
# A coordinate system may hold anything but a comma or a bracket; its letter case is kept.
_GEOMETRY = re.compile(r"geometry\s*\(\s*([^,()\s][^,()]*?)\s*\)", re.IGNORECASE)
_GEOGRAPHY = re.compile(r"geography\s*\(\s*([^,()\s][^,()]*?)\s*(?:,\s*(\w+)\s*)?\)", re.IGNORECASE)
_EDGE_ALGORITHMS = frozenset({"spherical", "vincenty", "thomas", "andoyer", "karney"})


def parse_schema(json: Json | Any) -> Schema:
    """A schema with its id (0 where the JSON gives none, iceberg 1.18), fields and identifier fields.

    Raises:
        InvalidTableError: a field is incomplete, an id occurs twice or is reserved (iceberg 1.23), or a default does
            not fit its type (iceberg 5.15).
    """
    document = cursor(json).under("iceberg 1.22")
    kind = document.optional_text("type")
    if kind is not None and kind.lower() != "struct":
        raise document.error(f"Invalid schema: got type {show(kind)}, expected 'struct'", key="type")
    fields = _struct_fields(document)
    _check_ids(document, fields)
    return Schema(
        id=document.optional_integer("schema-id", bits=32) or 0,
        fields=fields,
        identifier_field_ids=document.integers("identifier-field-ids"),
    )


def parse_type(json: Json | Any) -> Type:
    """The type of a type's JSON: a name, or an object for struct, list and map.

    Raises:
        InvalidTableError: it is neither, or a nested type lacks a part.
    """
    document = cursor(json)
    if isinstance(document.value, str):
        return parse_type_name(document.value)
    kind = document.text("type").lower()
    match kind:
        case "struct":
            return StructType(_struct_fields(document))
        case "list":
            return ListType(_part(document, "element"))
        case "map":
            key_id = document.integer("key-id", bits=32)
            key = Field(id=key_id, name="key", type=parse_type(document.child("key")), required=True)
            return MapType(key, _part(document, "value"))
        case _:
            return OpaqueType(f"{{type: {kind}}}")


def parse_type_name(text: str) -> PrimitiveType:
    """The primitive type called `text`, in any letter case, with blanks between its parts (iceberg 1.22).

    A name that is unknown, or has parameters out of range (such as decimal(39, 0)), gives an `OpaqueType`.
    """
    name = text.strip()
    known = _NAMED.get(name.lower())
    if known is not None:
        return known
    if match := _DECIMAL.fullmatch(name):
        precision, scale = int(match[1]), int(match[2])
        if 1 <= precision <= 38 and scale <= precision:
            return DecimalType(precision, scale)
    elif (match := _FIXED.fullmatch(name)) and int(match[1]) > 0:
        return FixedType(int(match[1]))
    elif match := _GEOMETRY.fullmatch(name):
        return GeometryType(match[1])
    elif match := _GEOGRAPHY.fullmatch(name):
        algorithm = (match[2] or "spherical").lower()
        if algorithm in _EDGE_ALGORITHMS:
            return GeographyType(match[1], algorithm)
    return OpaqueType(text)


def _struct_fields(document: Json) -> tuple[Field, ...]:
    return tuple(_field(item) for item in document.child("fields").items())


def _field(document: Json) -> Field:
    type_ = parse_type(document.child("type"))
    default = document.optional("initial-default")
    return Field(
        id=document.integer("id", bits=32),
        name=document.text("name"),
        type=type_,
        required=document.boolean("required"),
        initial_default=None if default is None else parse_default(default, type_),
        doc=document.optional_text("doc"),
    )


def _part(document: Json, part: str) -> Field:
    """The element of a list or the value of a map. These have no defaults (iceberg 5.10)."""
    return Field(
        id=document.integer(f"{part}-id", bits=32),
        name=part,
        type=parse_type(document.child(part)),
        required=document.boolean(f"{part}-required"),
    )


def _check_ids(document: Json, fields: tuple[Field, ...]) -> None:
    document = document.under("iceberg 1.23")
    seen: dict[int, str] = {}
    for path, field in walk(fields):
        name = ".".join(path)
        if field.id in seen:
            message = f"Invalid schema: field id {field.id} is of '{seen[field.id]}' and '{name}', expected unique ids"
            raise document.error(message, cause="DuplicateFieldId")
        if field.id > MAX_FIELD_ID:
            message = f"Invalid schema: field '{name}' has the reserved id {field.id}, expected at most {MAX_FIELD_ID}"
            raise document.error(message, cause="ReservedFieldId")
        seen[field.id] = name
