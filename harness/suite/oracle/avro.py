"""A decoder for Avro files and manifests: container, schema, and records (iceberg 2.14, 7.3).

Spec: Apache Avro 1.12, "Object Container Files", "Binary Encoding", "Logical Types"; Iceberg, "Appendix A: Avro".
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from harness.suite.oracle import types as dt
from harness.suite.oracle.documents import (
    MAX_BYTES,
    MAX_EMPTY,
    MAX_TYPES,
    ByteReader,
    check_limit,
    one_stream,
    streams,
    unzstd,
)
from harness.suite.oracle.types import RawColumn, StoredFile
from harness.suite.oracle.values import within_bits

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_CRC_BYTES = 4

Decode: TypeAlias = Callable[[ByteReader], Any]


class UnsupportedAvroError(Exception):
    """A valid Avro file that has no meaning in Iceberg. The message says why."""


def open_avro(data: bytes, *, is_manifest: bool = False) -> StoredFile:
    """Open an Avro container file. In a manifest, logical types do not affect values (iceberg 2.15).

    Raises:
        UnsupportedAvroError: The file has a codec, root type, or union that Iceberg does not use.
        ValueError: The file is cut or damaged. Also raised while rows are consumed.
    """
    source = ByteReader(data)
    if source.take(len(_MAGIC)) != _MAGIC:
        raise ValueError("it does not begin with Obj and version 1")
    header = dict(_block_items(source, lambda s: (_text_bytes(s).decode(), _bytes(s))))
    sync = source.take(_SYNC_BYTES)
    codec = header.get("avro.codec", b"null").decode(errors="replace")
    if codec not in _CODECS:
        raise UnsupportedAvroError(f"its codec is {codec!r}, expected one of {', '.join(_CODECS)}")
    if "avro.schema" not in header:
        raise ValueError("its header has no avro.schema")
    root = _SchemaParser(is_manifest).parse(json.loads(header["avro.schema"]), "")
    if root.column.type != "struct" or root.is_optional:
        raise UnsupportedAvroError("its root is not a record")
    return StoredFile(
        columns=root.column.parts, rows=_records(source, _CODECS[codec], sync, root.decode), header=header
    )


def _records(source: ByteReader, decompress: Callable[[bytes], bytes], sync: bytes, decode: Decode) -> Iterator[Any]:
    """Yield the records in order. Raise ValueError if a block is cut, damaged, or longer than its records."""
    empty = 0
    while source.remaining:
        count, size = _long(source), _long(source)
        if count < 0 or size < 0:
            raise ValueError(f"a block claims {count} records in {size} bytes")
        packed = source.take(size)
        try:
            block = ByteReader(decompress(packed))
        except Exception as error:  # each codec's library has its own error class
            raise ValueError(f"a block cannot be decompressed: {error}") from error
        for _ in range(count):
            start = block.at
            yield decode(block)
            empty += block.at == start
            check_limit(empty, MAX_EMPTY, "records without a byte")
        if block.remaining:
            raise ValueError("a block has more bytes than its records")
        if source.take(_SYNC_BYTES) != sync:
            raise ValueError("a block does not end with the file's marker")


def _long(source: ByteReader) -> int:
    """Return a zigzag-encoded integer of at most ten bytes."""
    number = 0
    for shift in range(0, 70, 7):
        (byte,) = source.take(1)
        number |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (number >> 1) ^ -(number & 1)
    raise ValueError("a number has more than ten bytes")


def _block_items(source: ByteReader, decode: Decode) -> Iterator[Any]:
    """Yield items that are stored in blocks.

    A count precedes each block. After a negative count comes the block's size in bytes.
    """
    empty = 0
    while count := _long(source):
        size = _long(source) if count < 0 else None
        start = source.at
        for _ in range(abs(count)):
            before = source.at
            yield decode(source)
            empty += source.at == before
            check_limit(empty, MAX_EMPTY, "items without a byte")
        if size is not None and source.at != start + size:
            raise ValueError("a block of items does not have its declared length")


def _snappy(data: bytes) -> bytes:
    """Return the content of a raw Snappy block: a varint length, the data, and a CRC-32 of the content."""
    last = next((place for place, byte in enumerate(data[:10]) if byte < 0x80), 9)
    declared = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(data[: last + 1]))
    check_limit(declared, MAX_BYTES, "bytes")
    plain = bytes(pa.Codec("snappy").decompress(data[:-_CRC_BYTES], declared))
    if zlib.crc32(plain).to_bytes(_CRC_BYTES, "big") != data[-_CRC_BYTES:]:
        raise ValueError("its checksum is wrong")
    return plain


def _deflate(data: bytes) -> bytes:
    plain, rest = one_stream("deflate", data)
    checksum = zlib.adler32(plain).to_bytes(4, "big")
    # Python's writers leave up to four bytes of zlib's checksum after the stream.
    if rest not in [checksum[:length] for length in range(5)]:
        raise ValueError("the compressed data does not end with its block")
    return plain


_CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": unzstd,
    "bzip2": partial(streams, "bzip2"),
    "xz": partial(streams, "xz"),
}


@dataclass(frozen=True, slots=True)
class _AvroType:
    """A type of a writer's schema. `decode` reads a value from the stream; `column` has no name and no id yet."""

    column: RawColumn
    decode: Decode
    is_optional: bool = False

    def as_column(self, name: str, field_id: object) -> RawColumn:
        """Return the column with a field's name and id. An id that is not an int is ignored."""
        return replace(self.column, name=name, id=field_id if type(field_id) is int else None)


def _item_at(values: Sequence[object], index: int, kind: str) -> Any:
    if not 0 <= index < len(values):
        raise ValueError(f"{kind} {index} of {len(values)}")
    return values[index]


def _bytes(stream: ByteReader) -> bytes:
    return stream.take(_long(stream))


def _text_bytes(stream: ByteReader) -> bytes:
    text = _bytes(stream)
    text.decode()  # text that is not UTF-8 is damage, even if the column is not selected
    return text


_PRIMITIVES: dict[str, tuple[dt.ColumnType, Decode]] = {
    "null": (dt.UNKNOWN, lambda _: None),
    "boolean": (dt.BOOLEAN, lambda stream: _item_at((False, True), stream.take(1)[0], "boolean")),
    "int": (dt.IntegerType(32), lambda stream: within_bits(_long(stream), 32)),
    "long": (dt.IntegerType(64), lambda stream: within_bits(_long(stream), 64)),
    "float": (dt.FloatType(32), lambda stream: struct.unpack("<f", stream.take(4))[0]),
    "double": (dt.FloatType(64), lambda stream: struct.unpack("<d", stream.take(8))[0]),
    "bytes": (dt.BINARY, _bytes),
    "string": (dt.STRING, _text_bytes),
}

_LOGICAL: dict[tuple[str, str], dt.ColumnType] = {
    **{("date", "int"): dt.DATE, ("time-millis", "int"): dt.TimeType("ms"), ("time-micros", "long"): dt.TimeType("us")},
    ("local-timestamp-millis", "long"): dt.TimestampType("ms"),
    ("local-timestamp-micros", "long"): dt.TimestampType("us"),
    ("local-timestamp-nanos", "long"): dt.TimestampType("ns"),
}


class _SchemaParser:
    """A parser for a writer's schema. With `is_manifest`, integers have any size, and decimals remain bytes."""

    def __init__(self, is_manifest: bool) -> None:
        self.is_manifest = is_manifest
        self.named_types: dict[str, Mapping[str, object]] = {}  # named types that were declared so far
        self.enclosing_records: list[str] = []  # records that contain the current type
        self.types = 0

    def parse(self, schema: Any, namespace: str) -> _AvroType:
        self.types += 1
        # types that each contain the next one twice expand to millions
        check_limit(self.types, MAX_TYPES, "types in its schema")
        match schema:
            case str() if schema in _PRIMITIVES:
                return self.primitive(schema, {})
            case str():
                full = next(
                    (name for name in (_full_name(schema, namespace), schema) if name in self.named_types), None
                )
                if full is None:
                    raise ValueError(f"its schema names an unknown type {schema!r}")
                return self.named_type(self.named_types[full], full)
            case list():
                return self.union(schema, namespace)
            case {"type": "record" | "error" | "enum" | "fixed", "name": str(name)}:
                full = _full_name(name, str(schema.get("namespace") or namespace))
                self.named_types[full] = schema
                return self.named_type(schema, full)
            case {"type": "array", "items": items}:
                return self.array(schema, self.parse(items, namespace))
            case {"type": "map", "values": values}:
                key, value = self.primitive("string", {}), self.parse(values, namespace)
                parts = (key.as_column("key", schema.get("key-id")), value.as_column("value", schema.get("value-id")))
                pair = _AvroType(_unnamed("map", parts), lambda s: (_text_bytes(s), value.decode(s)))
                return _AvroType(pair.column, lambda s: list(_block_items(s, pair.decode)))
            case {"type": str(name)} if name in _PRIMITIVES:
                return self.primitive(name, schema)
            case {"type": inner}:
                return self.parse(inner, namespace)
            case _:
                raise ValueError("its schema contains a value that is not an Avro type")

    def union(self, branches: list[Any], namespace: str) -> _AvroType:
        types = [self.parse(branch, namespace) for branch in branches]
        others = [t for t in types if t.column.type != dt.UNKNOWN]
        if len(types) == 1:
            return types[0]
        if len(types) != 2 or len(others) != 1:
            raise UnsupportedAvroError(f"it has a union of {len(types)} types, expected null and one other")
        return _AvroType(others[0].column, lambda s: _item_at(types, _long(s), "branch").decode(s), is_optional=True)

    def named_type(self, schema: Mapping[str, Any], full: str) -> _AvroType:
        match schema["type"]:
            case "enum":
                symbols = [str(symbol).encode() for symbol in schema.get("symbols", ())]
                return _AvroType(_unnamed(dt.STRING), lambda s: _item_at(symbols, _long(s), "enum symbol"))
            case "fixed":
                size = schema.get("size")
                if not isinstance(size, int) or size < 0:
                    raise ValueError(f"its schema has a fixed type of size {size!r}")
                is_uuid = schema.get("logicalType") == "uuid" and size == 16
                type_ = dt.UUID if is_uuid else dt.FixedType(size)
                return self.decimal(type_, lambda stream: stream.take(size), schema)
            case _ if full in self.enclosing_records:
                raise UnsupportedAvroError(f"the record {full} contains itself")
            case _:
                return self.record(schema, full)

    def record(self, schema: Mapping[str, Any], full: str) -> _AvroType:
        fields = schema.get("fields")
        is_list = isinstance(fields, list) and all(isinstance(f, dict) and {"name", "type"} <= f.keys() for f in fields)
        if fields is None or not is_list:
            raise ValueError("its schema has a record without proper fields")
        names = [str(f["name"]) for f in fields]
        if len(set(names)) < len(names):
            raise ValueError("its schema has two fields with the same name")
        self.enclosing_records.append(full)
        types = [self.parse(f["type"], full.rpartition(".")[0]) for f in fields]
        self.enclosing_records.pop()
        parts = tuple(t.as_column(name, f.get("field-id")) for t, name, f in zip(types, names, fields, strict=True))
        return _AvroType(_unnamed("struct", parts), lambda stream: tuple(t.decode(stream) for t in types))

    def array(self, schema: Mapping[str, object], item: _AvroType) -> _AvroType:
        if schema.get("logicalType") != "map":
            part = item.as_column("element", schema.get("element-id"))
            return _AvroType(_unnamed("list", (part,)), lambda stream: list(_block_items(stream, item.decode)))
        if item.column.type != "struct" or item.is_optional or len(item.column.parts) != 2:
            raise ValueError("its schema has a map whose items are not records of a key and a value")

        def decode(stream: ByteReader) -> list[Any]:
            pairs = list(_block_items(stream, item.decode))
            if any(key is None for key, _ in pairs):
                raise ValueError("a map's key is null")
            return pairs

        return _AvroType(_unnamed("map", item.column.parts), decode)

    def primitive(self, name: str, schema: Mapping[str, object]) -> _AvroType:
        """Return a primitive type with its logical type. Avro ignores unknown and misplaced logical types."""
        type_, decode = _PRIMITIVES[name]
        annotation = str(schema.get("logicalType"))
        local = _LOGICAL.get((f"local-{annotation}", name))
        if isinstance(local, dt.TimestampType):
            type_ = dt.TimestampType(local.unit, schema.get("adjust-to-utc") is True)
        if self.is_manifest and name in ("int", "long"):
            decode = _long
        return self.decimal(_LOGICAL.get((annotation, name), type_), decode, schema)

    def decimal(self, type_: dt.ColumnType, decode: Decode, schema: Mapping[str, Any]) -> _AvroType:
        """Return the type, or the annotated decimal type: a big-endian two's complement number of any length."""
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        is_annotated = schema.get("logicalType") == "decimal" and (
            type_ == dt.BINARY or isinstance(type_, dt.FixedType)
        )
        is_sized = isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision <= 38
        if self.is_manifest or not is_annotated or not is_sized or not precision:
            return _AvroType(_unnamed(type_), decode)

        def number(stream: ByteReader) -> Decimal:
            unscaled = int.from_bytes(decode(stream), "big", signed=True)
            if abs(unscaled) >= 10**precision:
                raise ValueError(f"a value has more than {precision} digits")
            return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))

        return _AvroType(_unnamed(dt.DecimalType(precision, scale)), number)


def _unnamed(type_: dt.ColumnType | Literal["struct", "list", "map"], parts: tuple[RawColumn, ...] = ()) -> RawColumn:
    return RawColumn(name="", id=None, type=type_, parts=parts)


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
