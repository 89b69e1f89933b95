"""Avro container files, with records by field id.

fastavro decodes; what it makes of logical types (dates outside its calendar are errors, for one) is kept away by
taking them out of the header first (iceberg 2.15).
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import fastavro

from harness.errors import CorruptFileError, EncryptedTableError, UnsupportedError

Record: TypeAlias = dict[int | str, Any]
"""Values by field id, or by name where the writer gave no id (iceberg 2.1); in the writer's order."""

_MAGIC = b"Obj\x01"
_CODECS = frozenset({"null", "deflate", "snappy", "zstandard", "bzip2", "xz"})


@dataclass(frozen=True, slots=True)
class AvroFile:
    """A container file: its header without schema, its schema as written, and its records."""

    file: str
    header: Mapping[str, str]
    schema: Any
    records: tuple[Record, ...]

    def kinds(self, *ids: int) -> dict[int | str, str]:
        """Per field of the record that `ids` lead to: its logical type, or else its primitive type."""
        names: dict[str, Any] = {}
        schema = _plain(self.schema, names)
        _collect_names(schema, names)
        for field_id in ids:
            fields = (f for f in schema.get("fields", ()) if _field_id(f) == field_id)
            schema = _plain(next((f["type"] for f in fields), {}), names)
        found: dict[int | str, str] = {}
        for f in schema.get("fields", ()) if isinstance(schema, dict) else ():
            kind = _plain(f["type"], names)
            found[_key(f)] = str(kind.get("logicalType", kind.get("type"))) if isinstance(kind, dict) else str(kind)
        return found


def read_avro(data: bytes, *, file: str) -> AvroFile:
    """All of a container file; `file` is its path, for messages.

    Raises:
        CorruptFileError: it cannot be decoded. UnsupportedError: an unknown codec (iceberg 2.14).
        EncryptedTableError: it is encrypted (iceberg 2.19).
    """
    if data[:4] == b"AGS1":
        raise EncryptedTableError("Cannot read an encrypted file", cause="EncryptedTable", file=file)
    try:
        header, sync, start = _header(data)
        schema = json.loads(header.pop("avro.schema"))
        codec = header.get("avro.codec", "null") or "null"
        if codec not in _CODECS:
            message = f"Cannot read Avro file: codec {codec!r} is not known"
            raise UnsupportedError(message, cause="UnsupportedCodec", file=file, rule="iceberg 2.14")
        plain = {"avro.schema": json.dumps(_without_logical_types(schema)), "avro.codec": codec}
        stream = io.BytesIO(_MAGIC + _encoded(plain) + sync + data[start:])
        names: dict[str, Any] = {}
        _collect_names(schema, names)
        records = tuple(_by_id(schema, record, names) for record in fastavro.reader(stream))
    except UnsupportedError:
        raise
    except Exception as error:  # fastavro lets through whatever it stumbles over
        raise CorruptFileError(
            f"Cannot decode Avro file: {error!r}", cause="CorruptManifest", file=file, rule="iceberg 2.14"
        ) from error
    return AvroFile(file, header, schema, records)


def value_of(record: Record, field_id: int, *names: str) -> Any:
    """The value with an id, or without one by name (iceberg 2.1); None where the writer has no such field."""
    if field_id in record:
        return record[field_id]
    return next((record[name] for name in names if name in record), None)


def _header(data: bytes) -> tuple[dict[str, str], bytes, int]:
    stream = io.BytesIO(data)
    if stream.read(4) != _MAGIC:
        raise ValueError("it does not begin like one")
    header: dict[str, str] = {}
    while (count := _read_long(stream)) != 0:
        if count < 0:
            _read_long(stream)  # bytes of the block
        for _ in range(abs(count)):
            key = _read_bytes(stream).decode()
            header[key] = _read_bytes(stream).decode("utf-8", "replace")
    sync = stream.read(16)
    if len(sync) != 16:
        raise ValueError("it ends within its header")
    return header, sync, stream.tell()


def _read_long(stream: io.BytesIO) -> int:
    number = shift = 0
    while True:
        (byte,) = stream.read(1)
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1)


def _read_bytes(stream: io.BytesIO) -> bytes:
    length = _read_long(stream)
    data = stream.read(length) if length >= 0 else b""
    if len(data) != length:
        raise ValueError("it ends within its header")
    return data


def _encoded(header: Mapping[str, str]) -> bytes:
    parts = [_long(len(header))]
    for key, value in header.items():
        parts += [_long(len(key.encode())), key.encode(), _long(len(value.encode())), value.encode()]
    return b"".join((*parts, _long(0)))


def _long(number: int) -> bytes:
    rest, out = number << 1, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*out, rest))


def _without_logical_types(schema: Any) -> Any:
    match schema:
        case dict():
            return {k: _without_logical_types(v) for k, v in schema.items() if k not in ("logicalType", "default")}
        case list():
            return [_without_logical_types(item) for item in schema]
        case _:
            return schema


def _collect_names(schema: Any, names: dict[str, Any]) -> None:
    for part in _parts(schema):
        if isinstance(part, dict) and "name" in part and part.get("type") in ("record", "fixed", "enum"):
            names[part["name"]] = part
        _collect_names(part, names)


def _parts(schema: Any) -> Iterator[Any]:
    match schema:
        case list():
            yield from schema
        case {"type": "record", "fields": fields}:
            yield from (f["type"] for f in fields)
        case {"type": "array", "items": items}:
            yield items
        case {"type": "map", "values": values}:
            yield values
        case {"type": (dict() | list()) as inner}:
            yield inner
        case _:
            return


def _plain(schema: Any, names: Mapping[str, Any]) -> Any:
    """The schema of a value that is there: a union's other branch, a name's meaning."""
    match schema:
        case list():
            branches = [branch for branch in schema if branch != "null"]
            return _plain(branches[0], names) if len(branches) == 1 else {}
        case str() if schema in names:
            return names[schema]
        case {"type": (dict() | list()) as inner}:
            return _plain(inner, names)
        case _:
            return schema


def _by_id(schema: Any, value: Any, names: Mapping[str, Any]) -> Any:
    if value is None:
        return None
    match _plain(schema, names):
        case {"type": "record", "fields": fields}:
            return {_key(f): _by_id(f["type"], value[f["name"]], names) for f in fields}
        case {"type": "array", "items": items}:
            return [_by_id(items, item, names) for item in value]
        case _:
            return value


def _field_id(field: Mapping[str, Any]) -> int | None:
    found = field.get("field-id")
    return int(found) if found is not None else None


def _key(field: Mapping[str, Any]) -> int | str:
    field_id = _field_id(field)
    return str(field["name"]) if field_id is None else field_id
