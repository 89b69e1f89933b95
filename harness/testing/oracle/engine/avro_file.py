"""Avro types: how each is decoded, and which stored column it is."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

from harness.metadata.model.schema import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    FloatType,
    IntegerType,
    StringType,
    TimestampType,
    TimeType,
    Type,
    UnknownType,
    UuidType,
)
from harness.testing.oracle.engine.avro_blocks import UnsupportedAvroError, open_container, read_items, read_long, take
from harness.testing.oracle.engine.bounded import MOST_TYPES, Budget
from harness.testing.oracle.engine.stored import Column, StoredFile


@dataclass(frozen=True, slots=True)
class AvroType:
    """A type of a writer's schema.

    column: what it stores; its name and id are those of the field that has the type, where there is one.
    decode: takes a value off the stream.
    """

    column: Column
    decode: Callable[[io.BytesIO], Any]
    is_optional: bool = False

    def named(self, name: str, field_id: Any) -> Column:
        """The column under a field's name and id; an id that is no int is none."""
        is_id = isinstance(field_id, int) and not isinstance(field_id, bool)
        return replace(self.column, name=name, id=field_id if is_id else None)


def parse_type(schema: Any) -> AvroType:
    """The type that a writer's schema describes.

    Raises:
        UnsupportedAvroError: a union other than of null and one type, or a type that contains itself.
        ValueError: no Avro schema.
    """
    return _Names({}, (), Budget(MOST_TYPES, "types in its schema")).parse(schema, "")


def _integer(bits: int) -> Callable[[io.BytesIO], int]:
    def decode(stream: io.BytesIO) -> int:
        number = read_long(stream)
        if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            raise ValueError(f"{number} has more than {bits} bits")
        return number

    return decode


def _boolean(stream: io.BytesIO) -> bool:
    (byte,) = take(stream, 1)
    if byte > 1:
        raise ValueError(f"{byte} is not a boolean")
    return byte == 1


def _float(stream: io.BytesIO) -> float:
    return float(struct.unpack("<f", take(stream, 4))[0])


def _double(stream: io.BytesIO) -> float:
    return float(struct.unpack("<d", take(stream, 8))[0])


def _bytes(stream: io.BytesIO) -> bytes:
    return take(stream, read_long(stream))


def _text(stream: io.BytesIO) -> bytes:
    text = _bytes(stream)
    text.decode()  # text that is no UTF-8 is damage, whether or not the column is asked for
    return text


def _null(_: io.BytesIO) -> None:
    return None


_PRIMITIVES: dict[str, tuple[Type, Callable[[io.BytesIO], Any]]] = {
    "null": (UnknownType(), _null),
    "boolean": (BooleanType(), _boolean),
    "int": (IntegerType(32), _integer(32)),
    "long": (IntegerType(64), _integer(64)),
    "float": (FloatType(32), _float),
    "double": (FloatType(64), _double),
    "bytes": (BinaryType(), _bytes),
    "string": (StringType(), _text),
}

_LOGICAL: dict[tuple[str, str], Type] = {
    ("date", "int"): DateType(),
    ("time-millis", "int"): TimeType("ms"),
    ("time-micros", "long"): TimeType("us"),
    ("local-timestamp-millis", "long"): TimestampType("ms"),
    ("local-timestamp-micros", "long"): TimestampType("us"),
    ("local-timestamp-nanos", "long"): TimestampType("ns"),
}
_ADJUSTABLE: dict[tuple[str, str], Literal["ms", "us", "ns"]] = {
    ("timestamp-millis", "long"): "ms",
    ("timestamp-micros", "long"): "us",
    ("timestamp-nanos", "long"): "ns",
}


@dataclass(frozen=True, slots=True)
class _Names:
    """Named types so far, and the records that the current place is inside of."""

    known: dict[str, Mapping[str, Any]]
    inside: tuple[str, ...]
    budget: Budget

    def parse(self, schema: Any, namespace: str) -> AvroType:
        self.budget.spend()  # types that each hold the next one twice are soon millions
        match schema:
            case str() if schema in _PRIMITIVES:
                return _primitive(schema, {})
            case str():
                full = next((name for name in (_full(schema, namespace), schema) if name in self.known), None)
                if full is None:
                    raise ValueError(f"its schema names an unknown type {schema!r}")
                return self.declared(self.known[full], full)
            case list():
                return self.union(schema, namespace)
            case {"type": "record" | "error" | "enum" | "fixed", "name": str(name)}:
                full = _full(name, str(schema.get("namespace") or namespace))
                self.known[full] = schema
                return self.declared(schema, full)
            case {"type": "array", "items": items}:
                return self.array(schema, self.parse(items, namespace))
            case {"type": "map", "values": values}:
                return _map(schema, self.parse(values, namespace))
            case {"type": str(name)} if name in _PRIMITIVES:
                return _primitive(name, schema)
            case {"type": inner}:
                return self.parse(inner, namespace)
            case _:
                raise ValueError("its schema has something that is no Avro type")

    def union(self, branches: list[Any], namespace: str) -> AvroType:
        types = [self.parse(branch, namespace) for branch in branches]
        if len(types) == 1:
            return types[0]
        nulls = [isinstance(t.column.type, UnknownType) for t in types]
        if len(types) != 2 or sum(nulls) != 1:
            raise UnsupportedAvroError(f"it has a union of {len(types)} types, expected null and one other")
        null, other = nulls.index(True), types[nulls.index(False)]

        def decode(stream: io.BytesIO) -> Any:
            branch = read_long(stream)
            if branch not in (0, 1):
                raise ValueError(f"a value is of branch {branch} of a union of 2")
            return None if branch == null else other.decode(stream)

        return AvroType(other.column, decode, is_optional=True)

    def declared(self, schema: Mapping[str, Any], full: str) -> AvroType:
        match schema["type"]:
            case "enum":
                return _enum([str(symbol) for symbol in schema.get("symbols", ())])
            case "fixed":
                return _fixed(schema)
            case _ if full in self.inside:
                raise UnsupportedAvroError(f"the record {full} contains itself")
            case _:
                return self.record(schema, full)

    def record(self, schema: Mapping[str, Any], full: str) -> AvroType:
        below = _Names(self.known, (*self.inside, full), self.budget)
        fields = schema.get("fields")
        if not isinstance(fields, list) or not all(
            isinstance(f, dict) and {"name", "type"} <= f.keys() for f in fields
        ):
            raise ValueError("its schema has a record without proper fields")
        names = [str(f["name"]) for f in fields]
        if len(set(names)) < len(names):
            raise ValueError("its schema has two fields of one name")
        types = [below.parse(f["type"], full.rpartition(".")[0]) for f in fields]
        parts = tuple(t.named(name, f.get("field-id")) for t, name, f in zip(types, names, fields, strict=True))
        return AvroType(
            Column(name="", id=None, type="struct", parts=parts), lambda stream: tuple(t.decode(stream) for t in types)
        )

    def array(self, schema: Mapping[str, Any], item: AvroType) -> AvroType:
        if schema.get("logicalType") != "map":
            part = item.named("element", schema.get("element-id"))
            return AvroType(
                Column(name="", id=None, type="list", parts=(part,)), lambda s: list(read_items(s, item.decode))
            )
        if item.column.type != "struct" or item.is_optional or len(item.column.parts) != 2:
            raise ValueError("its schema has a map whose items are no records of key and value")
        column = Column(name="", id=None, type="map", parts=item.column.parts)
        return AvroType(column, lambda stream: _with_keys(list(read_items(stream, item.decode))))


def _primitive(name: str, schema: Mapping[str, Any]) -> AvroType:
    """A primitive type as its logical type reads it; one that is unknown or misplaced is ignored, as Avro says."""
    type_, decode = _PRIMITIVES[name]
    annotation = (str(schema.get("logicalType")), name)
    if annotation in _ADJUSTABLE:
        type_ = TimestampType(_ADJUSTABLE[annotation], schema.get("adjust-to-utc") is True)
    return _decimal(_LOGICAL.get(annotation, type_), decode, schema)


def _fixed(schema: Mapping[str, Any]) -> AvroType:
    size = schema.get("size")
    if not isinstance(size, int) or size < 0:
        raise ValueError(f"its schema has a fixed type of size {size!r}")
    is_uuid = schema.get("logicalType") == "uuid" and size == 16
    return _decimal(UuidType() if is_uuid else FixedType(size), lambda stream: take(stream, size), schema)


def _decimal(type_: Type, decode: Callable[[io.BytesIO], Any], schema: Mapping[str, Any]) -> AvroType:
    """The type, or the decimal that its bytes are annotated to be: big-endian two's complement of any length."""
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    is_annotated = schema.get("logicalType") == "decimal" and isinstance(type_, BinaryType | FixedType)
    is_sized = isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision <= 38
    if not is_annotated or not is_sized or not precision:
        return AvroType(Column(name="", id=None, type=type_), decode)

    def number(stream: io.BytesIO) -> Decimal:
        unscaled = int.from_bytes(decode(stream), "big", signed=True)
        if abs(unscaled) >= 10**precision:
            raise ValueError(f"a value has more than {precision} digits")
        return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))

    return AvroType(Column(name="", id=None, type=DecimalType(precision, scale)), number)


def _enum(symbols: list[str]) -> AvroType:
    def decode(stream: io.BytesIO) -> bytes:
        index = read_long(stream)
        if not 0 <= index < len(symbols):
            raise ValueError(f"enum symbol {index} of {len(symbols)}")
        return symbols[index].encode()

    return AvroType(Column(name="", id=None, type=StringType()), decode)


def _map(schema: Mapping[str, Any], value: AvroType) -> AvroType:
    key = AvroType(Column(name="", id=None, type=StringType()), _text)
    parts = (key.named("key", schema.get("key-id")), value.named("value", schema.get("value-id")))
    column = Column(name="", id=None, type="map", parts=parts)
    return AvroType(column, lambda stream: list(read_items(stream, lambda s: (key.decode(s), value.decode(s)))))


def _with_keys(pairs: list[Any]) -> list[Any]:
    if any(key is None for key, _ in pairs):
        raise ValueError("a map's key is null")
    return pairs


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


# Avro data files, decoded byte by byte: the container, its schema, and its records (iceberg 7.3).


def open_avro(data: bytes) -> StoredFile:
    """The columns and rows of an Avro container.

    Raises:
        UnsupportedAvroError: a codec or a type that Iceberg's files do not have.
        ValueError: no Avro container, cut, or damaged; also while its rows are taken.
    """
    container = open_container(data)
    if "avro.schema" not in container.header:
        raise ValueError("its header has no avro.schema")
    root = parse_type(json.loads(container.header["avro.schema"]))
    if root.column.type != "struct" or root.is_optional:
        raise UnsupportedAvroError("its root is not a record")
    return StoredFile(columns=root.column.parts, rows=container.records(root.decode))
