"""Avro files of metadata, with records by field id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from harness.errors import CorruptFileError, EncryptedTableError, UnsupportedError
from harness.metadata.model.schema import StringType, Type
from harness.testing.oracle.engine.avro_file import UnsupportedAvroError, open_avro, open_container
from harness.testing.oracle.engine.stored import RawColumn

Record: TypeAlias = dict[int | str, Any]
"""Values by field id, or by name where the writer gave no id (iceberg 2.1); in the writer's order."""


@dataclass(frozen=True, slots=True)
class AvroFile:
    """A container file: its header, its columns, and its records."""

    file: str
    header: Mapping[str, str]
    columns: tuple[RawColumn, ...]
    records: tuple[Record, ...]

    def types(self, *ids: int) -> dict[int | str, Type | Literal["struct", "list", "map"]]:
        """The types of the fields of the record that `ids` lead to."""
        columns = self.columns
        for field_id in ids:
            columns = next((c.parts for c in columns if c.id == field_id), ())
        return {_key(c): c.type for c in columns}


def read_avro(data: bytes, *, file: str) -> AvroFile:
    """All of a container file; `file` is its path, for messages.

    Raises:
        CorruptFileError: it cannot be decoded. UnsupportedError: an unknown codec (iceberg 2.14).
        EncryptedTableError: it is encrypted (iceberg 2.19).
    """
    if data[:4] == b"AGS1":
        raise EncryptedTableError("Cannot read an encrypted file", cause="EncryptedTable", file=file)
    try:
        stored = open_avro(data, is_manifest=True)
        records = tuple(_record(stored.columns, row) for row in stored.rows)
    except UnsupportedAvroError as error:
        message = f"Cannot read Avro file: {error}"
        raise UnsupportedError(message, cause="UnsupportedCodec", file=file, rule="iceberg 2.14") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise CorruptFileError(
            f"Cannot decode Avro file: {error!r}", cause="CorruptManifest", file=file, rule="iceberg 2.14"
        ) from error
    header = {key: value.decode("utf-8", "replace") for key, value in open_container(data).header.items()}
    return AvroFile(file, header, stored.columns, records)


def value_of(record: Record, field_id: int, *names: str) -> Any:
    """The value with an id, or without one by name (iceberg 2.1); None where the writer has no such field."""
    if field_id in record:
        return record[field_id]
    return next((record[name] for name in names if name in record), None)


def _record(columns: Sequence[RawColumn], values: Sequence[Any]) -> Record:
    return {_key(c): _value(c, value) for c, value in zip(columns, values, strict=True)}


def _value(column: RawColumn, value: Any) -> Any:
    match column.type:
        case _ if value is None:
            return None
        case "struct":
            return _record(column.parts, value)
        case "list":
            return [_value(column.parts[0], item) for item in value]
        case StringType():
            return value.decode()
        case _:
            return value


def _key(column: RawColumn) -> int | str:
    return column.name if column.id is None else column.id
