"""Avro container files, with records by field id, decoded value by value as the schema says."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from harness.errors import CorruptFileError, EncryptedTableError, UnsupportedError
from harness.testing.oracle.engine.avro_file import UnsupportedAvroError, open_container, read_items, read_long, take
from harness.testing.oracle.engine.bounded import MOST_EMPTY, Budget

Record: TypeAlias = dict[int | str, Any]
"""Values by field id, or by name where the writer gave no id (iceberg 2.1); in the writer's order."""


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
        container = open_container(data)
        header = {key: value.decode("utf-8", "replace") for key, value in container.header.items()}
        schema = json.loads(header.pop("avro.schema"))
        names: dict[str, Any] = {}
        _collect_names(schema, names)
        read = _Reader(names, Budget(MOST_EMPTY, "values without a byte")).decoded
        records = tuple(container.records(lambda block: read(schema, block)))
    except UnsupportedAvroError as error:
        message = f"Cannot read Avro file: {error}"
        raise UnsupportedError(message, cause="UnsupportedCodec", file=file, rule="iceberg 2.14") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise CorruptFileError(
            f"Cannot decode Avro file: {error!r}", cause="CorruptManifest", file=file, rule="iceberg 2.14"
        ) from error
    return AvroFile(file, header, schema, records)


def value_of(record: Record, field_id: int, *names: str) -> Any:
    """The value with an id, or without one by name (iceberg 2.1); None where the writer has no such field."""
    if field_id in record:
        return record[field_id]
    return next((record[name] for name in names if name in record), None)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads values. empty: how many may still take no byte; records of such may hold each other, each twice."""

    names: Mapping[str, Any]
    empty: Budget

    def decoded(self, schema: Any, block: io.BytesIO) -> Any:
        """The next value. Logical types have no say (iceberg 2.15)."""
        start = block.tell()
        value = self._value(schema, block)
        if block.tell() == start:
            self.empty.spend()
        return value

    def _value(self, schema: Any, block: io.BytesIO) -> Any:
        match schema:
            case list():
                branch = read_long(block)
                if not 0 <= branch < len(schema):
                    raise ValueError(f"branch {branch} of a union of {len(schema)}")
                return self.decoded(schema[branch], block)
            case {"type": "record", "fields": fields}:
                return {_key(f): self.decoded(f["type"], block) for f in fields}
            case {"type": "array", "items": items}:
                return list(read_items(block, lambda block: self.decoded(items, block)))
            case {"type": "map", "values": values}:
                pairs = read_items(block, lambda block: (_text(block), self.decoded(values, block)))
                return dict(pairs)
            case {"type": "fixed", "size": size}:
                return take(block, size)
            case {"type": "enum", "symbols": symbols}:
                return dict(enumerate(symbols))[read_long(block)]
            case {"type": inner}:
                return self.decoded(inner, block)
            case str() if schema in _PRIMITIVES:
                return _PRIMITIVES[schema](block)
            case _:
                return self.decoded(self.names[schema.rpartition(".")[2]], block)


def _bytes(block: io.BytesIO) -> bytes:
    return take(block, read_long(block))


def _text(block: io.BytesIO) -> str:
    return _bytes(block).decode()


def _boolean(block: io.BytesIO) -> bool:
    return (False, True)[take(block, 1)[0]]


_PRIMITIVES: dict[str, Callable[[io.BytesIO], Any]] = {
    "null": lambda _: None,
    "boolean": _boolean,
    "int": read_long,
    "long": read_long,
    "float": lambda block: struct.unpack("<f", take(block, 4))[0],
    "double": lambda block: struct.unpack("<d", take(block, 8))[0],
    "bytes": _bytes,
    "string": _text,
}


def _collect_names(schema: Any, names: dict[str, Any]) -> None:
    for part in _parts(schema):
        if isinstance(part, dict) and "name" in part and part.get("type") in ("record", "fixed", "enum"):
            names[part["name"].rpartition(".")[2]] = part
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
        case str() if schema.rpartition(".")[2] in names:
            return names[schema.rpartition(".")[2]]
        case {"type": (dict() | list()) as inner}:
            return _plain(inner, names)
        case _:
            return schema


def _field_id(field: Mapping[str, Any]) -> int | None:
    found = field.get("field-id")
    try:
        return int(found) if found is not None else None
    except (TypeError, ValueError):
        raise ValueError(f"{found!r} is no field id") from None


def _key(field: Mapping[str, Any]) -> int | str:
    field_id = _field_id(field)
    return str(field["name"]) if field_id is None else field_id
