"""Iceberg schemas from their JSON, with default values (iceberg 1.22, 1.23, 5.14, 5.15)."""

from __future__ import annotations

import math
import re
from typing import Any

from harness.errors import InvalidTableError
from harness.testing.oracle import types as dt
from harness.testing.oracle.documents import Document, needed, of_kind, optional
from harness.testing.oracle.texts import ICEBERG, parsed, single, within_bits
from harness.testing.oracle.types import Field, Schema, walk


def _default_of(value: Any, type_: dt.Type, *, file: str) -> Any:
    """The internal value of a default; None for null."""
    try:
        return _stored(value, type_)
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as error:
        raise InvalidTableError(
            f"Invalid default: got {value!r:.80} for type {type_}: {error}", file=file, rule="iceberg 5.15"
        ) from error


def _stored(value: Any, type_: dt.Type) -> Any:
    if value is None or isinstance(type_, dt.OpaqueType):
        return None
    match type_:
        case dt.StructType(fields=fields):
            by_id = {str(f.id): f for f in fields}
            return {by_id[key].id: _stored(item, by_id[key].type) for key, item in value.items()}
        case dt.ListType(element=element):
            return [_stored(item, element.type) for item in of_kind(value, list)]
        case dt.MapType(key=key, value=item):
            pairs = zip(of_kind(value["keys"], list), of_kind(value["values"], list), strict=True)
            return [(_stored(k, key.type), _stored(v, item.type)) for k, v in pairs]
        case _:
            return _primitive(value, type_)


def _primitive(value: Any, type_: dt.Type) -> Any:
    match type_:
        case dt.BOOLEAN:
            return of_kind(value, bool)
        case dt.IntegerType(bits=bits):
            return within_bits(of_kind(value, int), bits)
        case dt.FloatType(bits=bits):
            number = float(value if type(value) is float else of_kind(value, int))
            rounded = number if bits == 64 else single(number)
            if not math.isfinite(rounded):
                raise ValueError("expected a finite number")
            return rounded
        case dt.FixedType() | dt.BINARY:
            data = bytes.fromhex(of_kind(value, str))
            if len(data) * 2 != len(value) or (isinstance(type_, dt.FixedType) and len(data) != type_.length):
                raise ValueError("expected other hexadecimal digits")
            return data
        case dt.DecimalType(scale=scale) if len(of_kind(value, str).partition(".")[2]) != scale:
            raise ValueError(f"expected {scale} digits after the point")
        case _:
            return parsed(of_kind(value, str), type_, ICEBERG)


_LARGEST_ID = 2147483447
_PLAIN: dict[str, dt.Type] = {
    "boolean": dt.BOOLEAN,
    "int": dt.IntegerType(32),
    "long": dt.IntegerType(64),
    "float": dt.FloatType(32),
    "double": dt.FloatType(64),
    "date": dt.DATE,
    "time": dt.TimeType(),
    "timestamp": dt.TimestampType(),
    "timestamptz": dt.TimestampType(utc=True),
    "timestamp_ns": dt.TimestampType("ns"),
    "timestamptz_ns": dt.TimestampType("ns", utc=True),
    "string": dt.STRING,
    "uuid": dt.UUID,
    "binary": dt.BINARY,
    "unknown": dt.UNKNOWN,
    "variant": dt.VARIANT,
    "geometry": dt.GeometryType(),
    "geography": dt.GeographyType(),
}


def schema_of(document: Document, *, file: str) -> Schema:
    """A schema; its id is 0 where it has none (iceberg 1.18, 1.23)."""
    schema = Schema(id=optional(document, "schema-id", int, file=file) or 0, fields=_fields(document, file))
    seen: set[int] = set()
    for path, field in walk(schema.fields):
        if field.id in seen or field.id > _LARGEST_ID:
            message = f"Invalid schema: field id {field.id} is repeated or reserved"
            raise InvalidTableError(message, file=file, field=path, rule="iceberg 1.23")
        seen.add(field.id)
    return schema


def _type_of(document: Any, *, file: str) -> dt.Type:
    """A type from its name or its object; what is not known is opaque (iceberg 1.22)."""
    if isinstance(document, str):
        return _named(document)
    match needed(document, "type", str, file=file).lower():
        case "struct":
            return dt.StructType(_fields(document, file))
        case "list":
            return dt.ListType(_part(document, "element", file))
        case "map":
            key = Field(
                id=needed(document, "key-id", int, file=file),
                name="key",
                type=_type_of(document.get("key"), file=file),
                required=True,
            )
            return dt.MapType(key, _part(document, "value", file))
        case other:
            return dt.OpaqueType(f"{{type: {other}}}")


def _fields(document: Document, file: str) -> tuple[Field, ...]:
    return tuple(_field(item, file) for item in needed(document, "fields", list, file=file))


def _field(item: Any, file: str) -> Field:
    type_ = _type_of(needed(item, "type", type(item.get("type")), file=file), file=file)
    return Field(
        id=needed(item, "id", int, file=file),
        name=needed(item, "name", str, file=file),
        type=type_,
        required=needed(item, "required", bool, file=file),
        initial_default=_default_of(item.get("initial-default"), type_, file=file),
        doc=optional(item, "doc", str, file=file),
    )


def _part(document: Document, name: str, file: str) -> Field:
    return Field(
        id=needed(document, f"{name}-id", int, file=file),
        name=name,
        type=_type_of(document.get(name), file=file),
        required=needed(document, f"{name}-required", bool, file=file),
    )


def _named(text: str) -> dt.Type:
    name = text.strip()
    if name.lower() in _PLAIN:
        return _PLAIN[name.lower()]
    match = re.fullmatch(r"(\w+)\s*[(\[](.*)[)\]]", name)
    kind = match[1].lower() if match else ""
    parameters = [part.strip() for part in match[2].split(",")] if match else []
    match kind, parameters:
        case "decimal", [precision, scale] if precision.isdecimal() and scale.isdecimal():
            if 1 <= int(precision) <= 38 and int(scale) <= int(precision):
                return dt.DecimalType(int(precision), int(scale))
        case "fixed", [length] if length.isdecimal() and int(length) > 0:
            return dt.FixedType(int(length))
        case "geometry", [crs] if crs:
            return dt.GeometryType(crs)
        case "geography", [crs] if crs:
            return dt.GeographyType(crs)
        case "geography", [crs, algorithm] if crs and algorithm.lower() in _EDGES:
            return dt.GeographyType(crs, algorithm.lower())
    return dt.OpaqueType(text)


_EDGES = frozenset({"spherical", "vincenty", "thomas", "andoyer", "karney"})
