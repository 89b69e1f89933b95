"""One value of the Parquet variant binary encoding, version 1, as JSON text.

Spec: Parquet, "Variant Binary Encoding". Every offset is checked. A value has no more parts than bytes; where
more are found, parts share bytes, and could multiply without end.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise

from harness.errors import CorruptFileError, UnsupportedError
from harness.files import variant_text

MAX_DEPTH = 128
"""Levels of nesting that are read; Python's stack bounds what could be."""

_OBJECT = 2


def value_text(metadata: bytes, value: bytes) -> str:
    """The value as JSON text, in the forms of `harness.files.variant`.

    Raises:
        CorruptFileError: metadata or value is malformed.
        UnsupportedError: a primitive type or metadata version that is not known, or deeper nesting than `MAX_DEPTH`.
    """
    return _Decoder(_names(metadata), value).text(0, 0)


def object_fields(metadata: bytes, value: bytes) -> dict[str, str]:
    """JSON text by field name, of a value that must be an object. Raises as `value_text` does."""
    decoder = _Decoder(_names(metadata), value)
    if decoder.header(0) & 3 != _OBJECT:
        raise malformed("a partially shredded object has a rest that is no object")
    return decoder.fields(0, 0)


def malformed(reason: str) -> CorruptFileError:
    """The error for a variant that breaks its encoding; the caller knows the file."""
    return CorruptFileError(
        f"Cannot decode variant value: {reason}; rewrite the file", cause="CorruptDataFile", rule="iceberg 6.15"
    )


def unsupported(feature: str) -> UnsupportedError:
    """The error for a variant that may be right and is not read."""
    return UnsupportedError(
        f"Cannot decode variant value: {feature}; leave the column out", cause="UnsupportedType", rule="iceberg 6.15"
    )


@lru_cache(maxsize=4096)
def _names(metadata: bytes) -> tuple[str, ...]:
    """The dictionary of field names."""
    if not metadata:
        raise malformed("the metadata is empty")
    header = metadata[0]
    if header & 0x0F != 1:
        raise unsupported(f"metadata version {header & 0x0F}, expected 1")
    width = (header >> 6) + 1
    size = _unsigned(metadata, 1, width)
    start = 1 + width * (size + 2)
    offsets = [_unsigned(metadata, 1 + width * (index + 1), width) for index in range(min(size, len(metadata)) + 1)]
    names = []
    for low, high in pairwise(offsets):
        if low > high:
            raise malformed("the metadata's offsets descend")
        names.append(_utf8(_slice(metadata, start + low, high - low)))
    return tuple(names)


def _unsigned(data: bytes, position: int, width: int) -> int:
    return int.from_bytes(_slice(data, position, width), "little")


def _signed(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _slice(data: bytes, position: int, length: int) -> bytes:
    if position + length > len(data):
        raise malformed(f"it ends after {len(data)} bytes, and {length} are expected at {position}")
    return data[position : position + length]


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise malformed(f"text is not UTF-8: {error}") from error


class _Decoder:
    """Decodes one value; positions count from its first byte."""

    def __init__(self, names: tuple[str, ...], data: bytes) -> None:
        self.names = names
        self.data = data
        self.values = 0

    def header(self, position: int) -> int:
        return _unsigned(self.data, position, 1)

    def text(self, position: int, depth: int) -> str:
        self.values += 1
        if self.values > len(self.data):
            raise malformed("values share bytes")
        if depth > MAX_DEPTH:
            raise unsupported(f"it nests deeper than {MAX_DEPTH} levels")
        header = self.header(position)
        match header & 3:
            case 0:
                return self.primitive(header >> 2, position + 1)
            case 1:
                return variant_text.text(_utf8(_slice(self.data, position + 1, header >> 2)))
            case 2:
                return variant_text.record(self.fields(position, depth))
            case _:
                return self.array(position, depth)

    def primitive(self, type_id: int, position: int) -> str:
        if type_id in _CONSTANTS:
            return _CONSTANTS[type_id]
        if type_id in _FIXED:
            width, form = _FIXED[type_id]
            return form(_slice(self.data, position, width))
        if type_id in (15, 16):
            content = _slice(self.data, position + 4, _unsigned(self.data, position, 4))
            return variant_text.binary(content) if type_id == 15 else variant_text.text(_utf8(content))
        raise unsupported(f"primitive type {type_id} is not known")

    def fields(self, position: int, depth: int) -> dict[str, str]:
        header = self.header(position) >> 2
        offset_width, id_width = (header & 3) + 1, (header >> 2 & 3) + 1
        count, start = self.count(position + 1, 4 if header & 16 else 1)
        ids = [_unsigned(self.data, start + id_width * index, id_width) for index in range(count)]
        starts = self.starts(start + id_width * count, offset_width, count)
        fields: dict[str, str] = {}
        for id_, child in zip(ids, starts, strict=True):
            if id_ >= len(self.names):
                raise malformed(f"field name {id_} of {len(self.names)}")
            name = self.names[id_]
            if name in fields:
                raise malformed(f"an object has field {name!r} twice")
            fields[name] = self.text(child, depth + 1)
        return fields

    def array(self, position: int, depth: int) -> str:
        header = self.header(position) >> 2
        count, start = self.count(position + 1, 4 if header & 4 else 1)
        return variant_text.array([self.text(s, depth + 1) for s in self.starts(start, (header & 3) + 1, count)])

    def count(self, position: int, width: int) -> tuple[int, int]:
        """The number of elements and the position after it."""
        count = _unsigned(self.data, position, width)
        if count > len(self.data):
            raise malformed(f"{len(self.data)} bytes claim {count} elements")
        return count, position + width

    def starts(self, position: int, width: int, count: int) -> list[int]:
        """Where each of `count` values starts, given the list of their offsets."""
        first = position + width * (count + 1)
        offsets = [_unsigned(self.data, position + width * index, width) for index in range(count + 1)]
        if first + offsets[-1] > len(self.data):
            raise malformed("its elements reach beyond its end")
        if any(offset >= offsets[-1] for offset in offsets[:-1]):
            raise malformed("an element starts after the last one's end")
        return [first + offset for offset in offsets[:-1]]


_CONSTANTS = {0: "null", 1: "true", 2: "false"}


def _integer(data: bytes) -> str:
    return str(_signed(data))


def _decimal(data: bytes) -> str:
    if data[0] > 38:
        raise malformed(f"a decimal has scale {data[0]}, expected at most 38")
    return variant_text.decimal(_signed(data[1:]), data[0])


def _timestamp(digits: int, *, utc: bool) -> Callable[[bytes], str]:
    return lambda data: variant_text.timestamp(_signed(data), digits=digits, utc=utc)


def _time(data: bytes) -> str:
    micros = _signed(data)
    if not 0 <= micros < 86_400_000_000:
        raise malformed(f"a time has {micros} micros, expected less than a day")
    return variant_text.time(micros)


_FIXED: dict[int, tuple[int, Callable[[bytes], str]]] = {
    3: (1, _integer),
    4: (2, _integer),
    5: (4, _integer),
    6: (8, _integer),
    7: (8, lambda data: variant_text.double(struct.unpack("<d", data)[0])),
    8: (5, _decimal),
    9: (9, _decimal),
    10: (17, _decimal),
    11: (4, lambda data: variant_text.date(_signed(data))),
    12: (8, _timestamp(6, utc=True)),
    13: (8, _timestamp(6, utc=False)),
    14: (4, lambda data: variant_text.single(struct.unpack("<f", data)[0])),
    17: (8, _time),
    18: (8, _timestamp(9, utc=True)),
    19: (8, _timestamp(9, utc=False)),
    20: (16, variant_text.uuid_text),
}
"""Width in bytes and form of the primitive types of fixed width, by type id."""
