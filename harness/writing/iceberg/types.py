"""Iceberg types and values for the builder: parsed from text, and converted to internal values, JSON, and bytes.

The code follows the specification and is independent of the reader, so that a mistake in one of them is detected by the
other.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, Generic, TypeVar

from harness.errors import RequestError
from harness.metadata.model.schema import (
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
    Schema,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    Type,
    UnknownType,
    UuidType,
    VariantType,
    children,
)
from harness.writing.iceberg.evolution import with_children

_EPOCH = dt.datetime(1970, 1, 1)
_EXACT = decimal.Context(prec=80, traps=[decimal.Inexact, decimal.InvalidOperation])
_TOKEN = re.compile(r"\s*([<>(),:\[\]]|[^\s<>(),:\[\]]+)")
_SIMPLE: dict[str, Type] = {
    "boolean": BooleanType(),
    "int": IntegerType(32),
    "long": IntegerType(64),
    "float": FloatType(32),
    "double": FloatType(64),
    "date": DateType(),
    "time": TimeType(),
    "timestamp": TimestampType("us"),
    "timestamptz": TimestampType("us", utc=True),
    "timestamp_ns": TimestampType("ns"),
    "timestamptz_ns": TimestampType("ns", utc=True),
    "string": StringType(),
    "uuid": UuidType(),
    "binary": BinaryType(),
    "variant": VariantType(),
    "unknown": UnknownType(),
    "geometry": GeometryType(),
    "geography": GeographyType(),
}


_T = TypeVar("_T")


class TypeText(Generic[_T]):
    """The tokens of a type's text, which are consumed from the front.

    Args:
        tokens: The tokens.
        bare: A function that returns the type that starts with a word, and consumes its arguments.
    """

    def __init__(self, tokens: list[str], bare: Callable[[str, TypeText[_T]], _T]) -> None:
        self.tokens, self._bare = tokens, bare

    def parse(self, text: str, example: str) -> tuple[_T, bool]:
        """Return the type of all tokens, and whether the text ends in `not null`.

        Args:
            text: The whole text, for errors.
            example: A valid type, for errors.

        Raises:
            RequestError: The text is not a type.
        """
        parsed_type = self.next_type()
        if self.tokens:
            token = self.tokens[0]
            raise RequestError(f"Cannot read the type {text!r}: unexpected {token!r}; write for example {example}")
        return parsed_type

    def next_type(self) -> tuple[_T, bool]:
        """Consume the next type, and return it and whether it ends in `not null`."""
        if not self.tokens:
            raise RequestError("Cannot read a type: the text ends too early; write for example map<string, int>")
        type_ = self._bare(self.tokens.pop(0), self)
        required = [t.lower() for t in self.tokens[:2]] == ["not", "null"]
        if required:
            del self.tokens[:2]
        return type_, required

    def arguments(self, count: int) -> list[tuple[_T, bool]]:
        """Consume and return `count` types between `<` and `>`."""
        self.expect("<")
        types = []
        for number in range(1, count + 1):
            types.append(self.next_type())
            self.expect(">" if number == count else ",")
        return types

    def members(self) -> Iterator[tuple[str, _T, bool]]:
        """Consume and yield the fields of a struct between `<` and `>`: name, type, and whether it is required."""
        separator = self.expect("<")
        while separator != ">":
            name = self.tokens.pop(0)
            self.expect(":")
            yield (name, *self.next_type())
            separator = self.expect(",", ">")

    def words(self, end: str) -> str:
        """Consume an opening bracket and the words up to `end`, and return the words."""
        place = self.tokens.index(end)
        words = "".join(self.tokens[1:place])
        del self.tokens[: place + 1]
        return words

    def expect(self, *expected: str) -> str:
        """Consume and return the next token, which must be one of `expected`.

        Raises:
            RequestError: It is another token, or the end of the text.
        """
        if not self.tokens or self.tokens[0] not in expected:
            actual = " ".join(self.tokens) or "the end"
            raise RequestError(f"Cannot read a type: expected {' or '.join(expected)}, got {actual}")
        return self.tokens.pop(0)


def parse_type(text: str) -> tuple[Type, bool]:
    """Return the type of a type text, and whether the text ends in `not null`. Every nested field gets the id 0.

    Examples: `int`, `decimal(9, 2)`, `fixed[16]`, `geometry(EPSG:4326)`, `list<string not null>`, `map<string, int>`,
    `struct<a: int, b: struct<c: string>>`. A name that Iceberg does not define becomes an opaque type.

    Raises:
        RequestError: The text cannot be parsed.
    """
    return TypeText(_TOKEN.findall(text), _parse_bare).parse(text, "list<string>")


def schema_of(columns: Schema | Mapping[str, str]) -> Schema:
    """Return a schema for a mapping of column names to type texts. A schema is returned unchanged.

    Ids are counted from 1, and all fields of one level come before their nested fields.
    """
    if isinstance(columns, Schema):
        return columns
    fields = []
    for name, text in columns.items():
        type_, required = parse_type(text)
        fields.append(Field(id=0, name=name, type=type_, required=required))
    return Schema(fields=with_fresh_ids(tuple(fields), count(1)))


def with_fresh_ids(fields: tuple[Field, ...], ids: Iterator[int]) -> tuple[Field, ...]:
    """Return the fields with new ids. All fields of one level come before their children."""
    numbers = [next(ids) for _ in fields]
    below = [with_children(f.type, with_fresh_ids(children(f.type), ids)) for f in fields]
    return tuple(
        Field(id=number, name=f.name, type=type_, required=f.required, doc=f.doc)
        for number, type_, f in zip(numbers, below, fields, strict=True)
    )


def schema_json(schema: Schema, write_defaults: Mapping[int, object]) -> dict[str, object]:
    """Return the schema as in the metadata file. `write_defaults` holds JSON values by field id."""
    doc = {"type": "struct", "schema-id": schema.id, "fields": [_field_json(f, write_defaults) for f in schema.fields]}
    if schema.identifier_field_ids:
        doc["identifier-field-ids"] = list(schema.identifier_field_ids)
    return doc


def type_json(type_: Type, write_defaults: Mapping[int, object]) -> object:
    """Return a type as in the metadata file: a text for primitive types, an object for nested types."""
    match type_:
        case StructType(fields=fields):
            return {"type": "struct", "fields": [_field_json(f, write_defaults) for f in fields]}
        case ListType(element=element):
            return {
                "type": "list",
                "element-id": element.id,
                "element": type_json(element.type, write_defaults),
                "element-required": element.required,
            }
        case MapType(key=key, value=value):
            return {
                "type": "map",
                "key-id": key.id,
                "key": type_json(key.type, write_defaults),
                "value-id": value.id,
                "value": type_json(value.type, write_defaults),
                "value-required": value.required,
            }
        case GeometryType("OGC:CRS84"):
            return "geometry"
        case GeographyType("OGC:CRS84", "spherical"):
            return "geography"
        case FixedType(length=length):
            return f"fixed[{length}]"
        case _:
            return str(type_)


def stored_value(type_: Type, value: object) -> Any:
    """Convert a Python value to internal values, as `harness.metadata.model.schema` defines them.

    Internal values stay unchanged.

    Structs are mappings by name (a missing name is null), maps are mappings or pairs, and variants are {"metadata":
    bytes, "value": bytes}.

    Raises:
        RequestError: The value does not fit the type, or names a struct field that does not exist.
    """
    if value is None:
        return None
    try:
        return _convert(type_, value)
    except (TypeError, ValueError, AttributeError, decimal.DecimalException) as exc:
        raise RequestError(f"Cannot store {value!r} as {type_}: {exc}") from exc


def default_json(type_: Type, value: Any) -> object:
    """Return a stored value in the JSON single-value form of defaults (iceberg 5.15)."""
    if value is None:
        return None
    match type_:
        case DateType():
            return _date_text(value)
        case TimeType():
            return (_EPOCH + dt.timedelta(microseconds=value)).time().isoformat()
        case TimestampType(unit=unit, utc=utc):
            seconds, rest = divmod(value, 10**9 if unit == "ns" else 10**6)
            digits = f"{rest:09d}" if unit == "ns" else f"{rest:06d}"
            days, second = divmod(seconds, 86_400)
            time = (_EPOCH + dt.timedelta(seconds=second)).time().isoformat()
            return f"{_date_text(days)}T{time}.{digits}{'+00:00' if utc else ''}"
        case DecimalType():
            return f"{value:f}"
        case UuidType():
            return str(uuid.UUID(bytes=value))
        case FixedType() | BinaryType():
            return value.hex()
        case StructType(fields=fields):
            return {str(f.id): default_json(f.type, value[f.id]) for f in fields if f.id in value}
        case ListType(element=element):
            return [default_json(element.type, v) for v in value]
        case MapType(key=key, value=item):
            return {
                "keys": [default_json(key.type, k) for k, _ in value],
                "values": [default_json(item.type, v) for _, v in value],
            }
        case _:
            return value


_DAYS_OF_400_YEARS = 146_097


def _date_text(days: int) -> str:
    """Return the ISO form of a date in any year. Years with more or less than four digits have a sign, as in Java."""
    cycles, day = divmod(days + _EPOCH.toordinal() - 1, _DAYS_OF_400_YEARS)
    date = dt.date.fromordinal(day + 1)
    year = date.year + 400 * cycles
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{date.month:02d}-{date.day:02d}"


_PACKED = {"boolean": "<?", "int": "<i", "date": "<i", "float": "<f", "double": "<d"}
_PACKED |= dict.fromkeys(("long", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), "<q")


def bound_bytes(type_: Type, value: Any) -> bytes | None:
    """Return a stored value in the binary single-value form of bounds (iceberg 3.22).

    Returns:
        The bytes, or None if the type has no bounds.
    """
    packed = _PACKED.get(str(type_))
    if packed is not None:
        return struct.pack(packed, value)
    match type_:
        case StringType():
            return str(value).encode()
        case UuidType() | FixedType() | BinaryType():
            return bytes(value)
        case DecimalType(scale=scale):
            return minimal_bytes(unscaled(value, scale))
        case _:
            return None


def from_unscaled(number: int, scale: int) -> decimal.Decimal:
    """Return a decimal with `scale` fraction digits from its digits. The result is exact at any decimal precision."""
    return decimal.Decimal(number).scaleb(-scale, _EXACT)


def unscaled(value: decimal.Decimal, scale: int) -> int:
    """Return the digits of a decimal with `scale` fraction digits as an integer."""
    return int(value.scaleb(scale, _EXACT))


def minimal_bytes(number: int) -> bytes:
    """Return the shortest big-endian two's complement of an integer."""
    magnitude = number if number >= 0 else ~number
    return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def _parse_bare(word: str, text: TypeText[Type]) -> Type:
    match word.lower():
        case "struct":
            members = text.members()
            return StructType(tuple(Field(id=0, name=n, type=t, required=required) for n, t, required in members))
        case "list":
            ((element, required),) = text.arguments(1)
            return ListType(Field(id=0, name="element", type=element, required=required))
        case "map":
            (key, _), (value, required) = text.arguments(2)
            value_field = Field(id=0, name="value", type=value, required=required)
            return MapType(Field(id=0, name="key", type=key, required=True), value_field)
        case "decimal":
            precision, scale = text.words(")").split(",")
            return DecimalType(int(precision), int(scale))
        case "fixed":
            return FixedType(int(text.words("]")))
        case "geometry" if text.tokens[:1] == ["("]:
            return GeometryType(text.words(")"))
        case "geography" if text.tokens[:1] == ["("]:
            return GeographyType(*text.words(")").split(","))
        case name:
            return _SIMPLE.get(name, OpaqueType(name))


def _field_json(field: Field, write_defaults: Mapping[int, object]) -> dict[str, object]:
    doc: dict[str, object] = {
        "id": field.id,
        "name": field.name,
        "required": field.required,
        "type": type_json(field.type, write_defaults),
    }
    if field.doc is not None:
        doc["doc"] = field.doc
    if field.initial_default is not None:
        doc["initial-default"] = default_json(field.type, field.initial_default)
    if field.id in write_defaults:
        doc["write-default"] = write_defaults[field.id]
    return doc


def _convert(type_: Type, value: Any) -> Any:
    match type_:
        case StructType(fields=fields):
            unknown = set(value) - {f.name for f in fields}
            if unknown:
                raise ValueError(f"no field named {', '.join(sorted(map(repr, unknown)))}")
            return {f.id: stored_value(f.type, value[f.name]) for f in fields if f.name in value}
        case ListType(element=element):
            return [stored_value(element.type, v) for v in value]
        case MapType(key=key, value=item):
            pairs = value.items() if isinstance(value, Mapping) else value
            return [(stored_value(key.type, k), stored_value(item.type, v)) for k, v in pairs]
        case DateType() if isinstance(value, dt.date):
            return (value - _EPOCH.date()).days
        case TimeType() if isinstance(value, dt.time):
            return (dt.datetime.combine(_EPOCH.date(), value) - _EPOCH) // dt.timedelta(microseconds=1)
        case TimestampType(unit=unit) if isinstance(value, dt.datetime):
            if value.tzinfo is not None:
                value = value.astimezone(dt.UTC).replace(tzinfo=None)
            return (value - _EPOCH) // dt.timedelta(microseconds=1) * (1000 if unit == "ns" else 1)
        case DecimalType(scale=scale):
            return decimal.Decimal(value).quantize(decimal.Decimal(1).scaleb(-scale), context=_EXACT)
        case UuidType():
            return value if isinstance(value, bytes) else uuid.UUID(str(value)).bytes
        case FloatType():
            return float(value)
        case FixedType(length=length) if len(value) != length:
            raise ValueError(f"{len(value)} bytes")
        case VariantType():
            return {"metadata": bytes(value["metadata"]), "value": bytes(value["value"])}
        case _:
            return value
