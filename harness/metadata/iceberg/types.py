"""Parser of Iceberg's JSON for types, schemas, defaults, and name mappings (iceberg 1.22, 1.23, 5.14, 5.15, section 6).

An unknown type name becomes an `OpaqueType`, so that all other columns of the table stay readable. Using a column of
that type in a projection, a filter, or an equality delete raises an error.
"""

from __future__ import annotations

import binascii
import json
import math
import re
import struct
from decimal import Decimal
from typing import Any, TypeVar

from harness.errors import InvalidTableError
from harness.metadata.files.documents import Json, short_repr
from harness.metadata.model import schema as dt
from harness.metadata.model.file_schema import MappedName, NameMapping

# Texts of single values are checked against the exact format, because Python's own parsers for numbers, hexadecimal
# digits, and dates accept more than Iceberg allows (iceberg 5.14, 5.15).


V = TypeVar("V")

_DECIMAL_TYPE = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,4})?")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DATE = re.compile(r"([+-]?[0-9]{4,9})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?")
_DAYS_IN_MONTH = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}


def parse_default(json: Json, type_: dt.Type) -> dt.CellValue:
    """Parse a default value of a type into internal values (see `harness.metadata.model.schema`).

    Structs are objects by field id, and fields may be missing. Maps are `{"keys": [...], "values": [...]}`.

    Returns:
        The value. None for null, and for a value of an unknown type.

    Raises:
        InvalidTableError: The value does not fit the type, or the type allows no default but null (iceberg 5.14).
    """
    json = json.with_rule("iceberg 5.15")
    if json.value is None or isinstance(type_, dt.OpaqueType):
        return None
    match type_:
        case dt.UnknownType() | dt.VariantType() | dt.GeometryType() | dt.GeographyType():
            message = f"Invalid default: got {short_repr(json.value)}, expected null, the only default of type {type_}"
            raise json.with_rule("iceberg 5.14").error(message)
        case dt.StructType(fields=fields):
            by_key = {str(field.id): field for field in fields}
            unknown = sorted(json.object().keys() - by_key.keys())
            if unknown:
                message = f"got the key {short_repr(unknown[0])}, expected the ids of the struct's fields"
                raise json.error(f"Invalid default: {message}")
            present_fields = [field for key, field in by_key.items() if key in json.object()]
            parts = [(field, json.optional(str(field.id))) for field in present_fields]
            return {field.id: None if part is None else parse_default(part, field.type) for field, part in parts}
        case dt.ListType(element=element):
            return [parse_default(item, element.type) for item in json.items()]
        case dt.MapType(key=key, value=value):
            keys = [parse_default(item, key.type) for item in json.child("keys").items()]
            values = [parse_default(item, value.type) for item in json.child("values").items()]
            if len(keys) != len(values):
                raise json.error(
                    f"Invalid default: got {len(keys)} keys and {len(values)} values, expected equally many"
                )
            return list(zip(keys, values, strict=True))
        case _:
            try:
                return parse_primitive(json.value, type_)
            except ValueError as error:
                message = f"Invalid default: got {short_repr(json.value)}, expected {error} for type {type_}"
                raise json.error(message) from error


def parse_primitive(value: Any, type_: dt.Type) -> dt.CellValue:
    """Return the internal value of a JSON value of a primitive type, other than null.

    Raises:
        ValueError: The value does not have the type, or its values have no JSON form. The text describes what was
            expected.
    """
    match type_:
        case dt.BooleanType():
            return _instance_of(bool, value, "true or false")
        case dt.IntegerType(bits=bits):
            return _in_range(_instance_of(int, value, f"a {bits}-bit integer"), bits)
        case dt.FloatType(bits=bits):
            return _float(value, bits)
        case dt.DecimalType(precision=precision, scale=scale):
            number = Decimal(value) if _DECIMAL_TYPE.fullmatch(_text(value)) else None
            if number is None or number.as_tuple().exponent != -scale or len(number.as_tuple().digits) > precision:
                raise ValueError(f"a decimal string with {scale} digits after the point and at most {precision} in all")
            return number
        case dt.DateType():
            return _in_range(_days(_text(value)), 32)
        case dt.TimeType(unit=unit):
            return _time(_text(value), PER_SECOND[unit])
        case dt.TimestampType(unit=unit, utc=utc):
            zone, per_second = "+00:00" if utc else "", PER_SECOND[unit]
            date, separator, time = _text(value).removesuffix(zone).partition("T")
            if not separator or not value.endswith(zone):
                raise ValueError(f"a timestamp such as 2024-12-31T23:59:59.999{zone}")
            return _in_range(_days(date) * 86400 * per_second + _time(time, per_second), 64)
        case dt.StringType():
            return _text(value)
        case dt.UuidType():
            if not _UUID.fullmatch(_text(value)):
                raise ValueError("a UUID of 36 characters")
            return bytes.fromhex(value.replace("-", ""))
        case dt.FixedType(length=length):
            return _bytes(_text(value), length)
        case dt.BinaryType():
            return _bytes(_text(value), None)
        case _:
            raise ValueError("no default")


def _instance_of(kind: type[V], value: object, expected: str) -> V:
    if type(value) is not kind:
        raise ValueError(expected)
    return value


def _text(value: object) -> str:
    return _instance_of(str, value, "a string")


def _in_range(number: int, bits: int) -> int:
    if not -1 << bits - 1 <= number < 1 << bits - 1:
        raise ValueError(f"a value of {bits} bits")
    return number


def _float(value: Any, bits: int) -> float:
    if type(value) not in (int, float):
        raise ValueError("a number")
    try:
        # A float column holds the nearest binary32 value, not the decimal text's binary64 value.
        layout = "<f" if bits == 32 else "<d"
        number = float(struct.unpack(layout, struct.pack(layout, float(value)))[0])
    except OverflowError as error:
        raise ValueError("a number in range") from error
    if not math.isfinite(number):
        raise ValueError("a finite number")
    return number


def _bytes(text: str, length: int | None) -> bytes:
    expected = "hexadecimal digits" if length is None else f"{2 * length} hexadecimal digits"
    try:
        value = binascii.unhexlify(text)
    except ValueError as error:
        raise ValueError(expected) from error
    if length is not None and len(value) != length:
        raise ValueError(expected)
    return value


def _days(text: str) -> int:
    """Return the days from 1970-01-01 to an ISO date. The year may be outside 1 to 9999."""
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError("a date such as 2024-12-31")
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= month <= 12 or not 1 <= day <= _DAYS_IN_MONTH[month - 1] + (leap and month == 2):
        raise ValueError("a date that exists")
    # Count from 1 March, so that the leap day is the last day of the year.
    years = year - (month <= 2)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return 365 * years + years // 4 - years // 100 + years // 400 + day_of_year - 719468


def _time(text: str, per_second: int) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError("a time such as 23:59:59.999999")
    hours, minutes, seconds = int(match[1]), int(match[2]), int(match[3] or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError("a time of the day")
    fraction, rest = divmod(int((match[4] or "").ljust(9, "0")) * per_second, 10**9)
    if rest:
        raise ValueError(f"at most {len(str(per_second)) - 1} digits of a second")
    return ((hours * 60 + minutes) * 60 + seconds) * per_second + fraction


MAX_FIELD_ID = 2147483447
"""The largest id of a table's own field. Larger ids are reserved for metadata columns (iceberg 1.23)."""

_NAMED: dict[str, dt.PrimitiveType] = {
    "boolean": dt.BooleanType(),
    "int": dt.IntegerType(32),
    "long": dt.IntegerType(64),
    "float": dt.FloatType(32),
    "double": dt.FloatType(64),
    "date": dt.DateType(),
    "time": dt.TimeType(),
    "timestamp": dt.TimestampType(),
    "timestamptz": dt.TimestampType(utc=True),
    "timestamp_ns": dt.TimestampType("ns"),
    "timestamptz_ns": dt.TimestampType("ns", utc=True),
    "string": dt.StringType(),
    "uuid": dt.UuidType(),
    "binary": dt.BinaryType(),
    "unknown": dt.UnknownType(),
    "variant": dt.VariantType(),
    "geometry": dt.GeometryType(),
    "geography": dt.GeographyType(),
}
_DECIMAL = re.compile(r"decimal\s*\(\s*([0-9]{1,9})\s*,\s*([0-9]{1,9})\s*\)", re.IGNORECASE)
_FIXED = re.compile(r"fixed\s*\[\s*([0-9]{1,9})\s*\]", re.IGNORECASE)
# The name of a coordinate system may contain anything but a comma or a bracket, and its letter case is kept.
_GEOMETRY = re.compile(r"geometry\s*\(\s*([^,()\s][^,()]*?)\s*\)", re.IGNORECASE)
_GEOGRAPHY = re.compile(r"geography\s*\(\s*([^,()\s][^,()]*?)\s*(?:,\s*(\w+)\s*)?\)", re.IGNORECASE)
_EDGE_ALGORITHMS = frozenset({"spherical", "vincenty", "thomas", "andoyer", "karney"})


def parse_schema(json: Json | object) -> dt.Schema:
    """Parse a schema with its id, fields, and identifier fields. The id is 0 if the JSON has none (iceberg 1.18).

    Raises:
        InvalidTableError: A field is incomplete, an id occurs twice or is reserved (iceberg 1.23), or a default does
            not fit its type (iceberg 5.15).
    """
    document = (json if isinstance(json, Json) else Json(json)).with_rule("iceberg 1.22")
    kind = document.optional_text("type")
    if kind is not None and kind.lower() != "struct":
        raise document.error(f"Invalid schema: got type {short_repr(kind)}, expected 'struct'", key="type")
    fields = _struct_fields(document)
    _check_ids(document, fields)
    return dt.Schema(
        id=document.optional_integer("schema-id", bits=32) or 0,
        fields=fields,
        identifier_field_ids=document.integers("identifier-field-ids"),
    )


def parse_type(json: Json | object) -> dt.Type:
    """Parse a type, which is a name or an object for a struct, list, or map.

    Raises:
        InvalidTableError: The JSON is neither, or a nested type lacks a part.
    """
    document = json if isinstance(json, Json) else Json(json)
    if isinstance(document.value, str):
        return parse_type_name(document.value)
    kind = document.text("type").lower()
    match kind:
        case "struct":
            return dt.StructType(_struct_fields(document))
        case "list":
            return dt.ListType(_part(document, "element"))
        case "map":
            key_id = document.integer("key-id", bits=32)
            key = dt.Field(id=key_id, name="key", type=parse_type(document.child("key")), required=True)
            return dt.MapType(key, _part(document, "value"))
        case _:
            return dt.OpaqueType(f"{{type: {kind}}}")


def parse_type_name(text: str) -> dt.PrimitiveType:
    """Parse the name of a primitive type, in any letter case and with blanks between its parts (iceberg 1.22).

    An unknown name, or one with parameters out of range (for example decimal(39, 0)), becomes an `OpaqueType`.
    """
    name = text.strip()
    named_type = _NAMED.get(name.lower())
    if named_type is not None:
        return named_type
    if match := _DECIMAL.fullmatch(name):
        precision, scale = int(match[1]), int(match[2])
        if 1 <= precision <= 38 and scale <= precision:
            return dt.DecimalType(precision, scale)
    elif (match := _FIXED.fullmatch(name)) and int(match[1]) > 0:
        return dt.FixedType(int(match[1]))
    elif match := _GEOMETRY.fullmatch(name):
        return dt.GeometryType(match[1])
    elif match := _GEOGRAPHY.fullmatch(name):
        algorithm = (match[2] or "spherical").lower()
        if algorithm in _EDGE_ALGORITHMS:
            return dt.GeographyType(match[1], algorithm)
    return dt.OpaqueType(text)


def _struct_fields(document: Json) -> tuple[dt.Field, ...]:
    fields = []
    for item in document.child("fields").items():
        type_ = parse_type(item.child("type"))
        default = item.optional("initial-default")
        field = dt.Field(
            id=item.integer("id", bits=32),
            name=item.text("name"),
            type=type_,
            required=item.boolean("required"),
            initial_default=None if default is None else parse_default(default, type_),
            doc=item.optional_text("doc"),
        )
        fields.append(field)
    return tuple(fields)


def _part(document: Json, part: str) -> dt.Field:
    """Return the element of a list or the value of a map. These have no defaults (iceberg 5.10)."""
    return dt.Field(
        id=document.integer(f"{part}-id", bits=32),
        name=part,
        type=parse_type(document.child(part)),
        required=document.boolean(f"{part}-required"),
    )


def _check_ids(document: Json, fields: tuple[dt.Field, ...]) -> None:
    document = document.with_rule("iceberg 1.23")
    names: dict[int, str] = {}
    for path, field in dt.walk(fields):
        name = ".".join(path)
        if field.id in names:
            message = (
                f"Invalid schema: field id {field.id} belongs to '{names[field.id]}' and '{name}', expected unique ids"
            )
            raise document.error(message, cause="DuplicateFieldId")
        if field.id > MAX_FIELD_ID:
            message = f"Invalid schema: field '{name}' has the reserved id {field.id}, expected at most {MAX_FIELD_ID}"
            raise document.error(message, cause="ReservedFieldId")
        names[field.id] = name


# Name mappings assign field ids to the columns of data files without ids (iceberg 1.30, 5.7).

NAME_MAPPING = "schema.name-mapping.default"
"""The table property that holds the name mapping, as JSON text."""


def parse_name_mapping(text: str, *, file: str | None = None) -> NameMapping:
    """Parse the name mapping in a table property.

    A dot in a name is part of the name, names are case-sensitive, 0 is an ordinary id, and an entry without a field id
    hides its columns.

    Args:
        text: The JSON text.
        file: The path of the metadata file, for messages.

    Raises:
        InvalidTableError: The text is not a name mapping, one level has a name twice, or a field id occurs twice.
    """
    try:
        return NameMapping(_parse_level(Json(json.loads(text), file, (NAME_MAPPING,), "iceberg 5.7"), set()))
    except (ValueError, RecursionError) as error:
        message = f"Cannot parse name mapping: got {short_repr(text)}, expected a JSON list"
        raise InvalidTableError(message, file=file, field=NAME_MAPPING, rule="iceberg 5.7") from error


def _parse_level(items: Json, ids: set[int]) -> tuple[MappedName, ...]:
    """Parse one level of a name mapping.

    `ids` collects the ids of the whole mapping, because each may occur only once.
    """
    used_names: set[str] = set()
    entries = []
    for item in items.items():
        names = item.texts("names")
        for name in names:
            if name in used_names:
                raise item.error(
                    f"Invalid name mapping: the name {short_repr(name)} occurs twice at one level", key="names"
                )
            used_names.add(name)
        field_id = item.optional_integer("field-id", bits=32)
        if field_id is not None and field_id in ids:
            raise item.error(f"Invalid name mapping: field id {field_id} occurs twice, expected unique ids")
        if field_id is not None:
            ids.add(field_id)
        fields = item.optional("fields")
        nested = () if fields is None else _parse_level(fields, ids)
        entries.append(MappedName(names=names, field_id=field_id, fields=nested))
    return tuple(entries)
