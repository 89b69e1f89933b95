"""Iceberg schemas from their JSON (iceberg 1.22, 1.23, 5.14, 5.15)."""

from __future__ import annotations

import re
from typing import Any

from harness.errors import InvalidTableError
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
)
from harness.oracle.planner.documents import Document, needed, optional
from harness.oracle.planner.iceberg_defaults import default_of

_LARGEST_ID = 2147483447
_PLAIN: dict[str, PrimitiveType] = {
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


def schema_of(document: Document, *, file: str) -> Schema:
    """A schema; its id is 0 where it has none (iceberg 1.18).

    Raises:
        InvalidTableError: a part is missing, or ids are repeated or reserved (iceberg 1.23).
    """
    schema = Schema(id=optional(document, "schema-id", int, file=file) or 0, fields=_fields(document, file))
    seen: set[int] = set()
    for path, field in schema.walk():
        if field.id in seen or field.id > _LARGEST_ID:
            message = f"Invalid schema: field id {field.id} is repeated or reserved"
            raise InvalidTableError(message, file=file, field=".".join(path), rule="iceberg 1.23")
        seen.add(field.id)
    return schema


def type_of(document: Any, *, file: str) -> Type:
    """A type from its name or its object; what is not known is opaque (iceberg 1.22).

    Raises:
        InvalidTableError: a part of a nested type is missing.
    """
    if isinstance(document, str):
        return _named(document)
    match needed(document, "type", str, file=file).lower():
        case "struct":
            return StructType(_fields(document, file))
        case "list":
            return ListType(_part(document, "element", file))
        case "map":
            key = Field(
                id=needed(document, "key-id", int, file=file),
                name="key",
                type=type_of(document.get("key"), file=file),
                required=True,
            )
            return MapType(key, _part(document, "value", file))
        case other:
            return OpaqueType(f"{{type: {other}}}")


def _fields(document: Document, file: str) -> tuple[Field, ...]:
    return tuple(_field(item, file) for item in needed(document, "fields", list, file=file))


def _field(item: Any, file: str) -> Field:
    type_ = type_of(needed(item, "type", type(item.get("type")), file=file), file=file)
    return Field(
        id=needed(item, "id", int, file=file),
        name=needed(item, "name", str, file=file),
        type=type_,
        required=needed(item, "required", bool, file=file),
        initial_default=default_of(item.get("initial-default"), type_, file=file),
        doc=optional(item, "doc", str, file=file),
    )


def _part(document: Document, name: str, file: str) -> Field:
    return Field(
        id=needed(document, f"{name}-id", int, file=file),
        name=name,
        type=type_of(document.get(name), file=file),
        required=needed(document, f"{name}-required", bool, file=file),
    )


def _named(text: str) -> PrimitiveType:
    name = text.strip()
    if name.lower() in _PLAIN:
        return _PLAIN[name.lower()]
    match = re.fullmatch(r"(\w+)\s*[(\[](.*)[)\]]", name)
    kind = match[1].lower() if match else ""
    parameters = [part.strip() for part in match[2].split(",")] if match else []
    match kind, parameters:
        case "decimal", [precision, scale] if precision.isdecimal() and scale.isdecimal():
            if 1 <= int(precision) <= 38 and int(scale) <= int(precision):
                return DecimalType(int(precision), int(scale))
        case "fixed", [length] if length.isdecimal() and int(length) > 0:
            return FixedType(int(length))
        case "geometry", [crs] if crs:
            return GeometryType(crs)
        case "geography", [crs] if crs:
            return GeographyType(crs)
        case "geography", [crs, algorithm] if crs and algorithm.lower() in _EDGES:
            return GeographyType(crs, algorithm.lower())
    return OpaqueType(text)


_EDGES = frozenset({"spherical", "vincenty", "thomas", "andoyer", "karney"})
