"""ORC files through pyarrow, whose Arrow fields carry the attributes of ORC types (iceberg 7.4)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Literal

import pyarrow as pa
import pyarrow.orc

from harness.model.schema import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    OpaqueType,
    StringType,
    TimestampType,
    TimeType,
    Type,
)
from harness.oracle.engine.stored import Column, Row, StoredFile, rows_of


def open_orc(data: bytes) -> StoredFile:
    """The columns and rows of an ORC file; timestamps come in nanos.

    Raises:
        pyarrow.ArrowException, OSError: the file cannot be read, or has a timestamp that nanos cannot hold.
        ValueError: two columns of one struct have one name.
    """
    file = pyarrow.orc.ORCFile(pa.BufferReader(data))
    table = file.read()
    if not table.schema:  # pyarrow loses the rows of a file without columns
        return StoredFile(columns=(), rows=repeat((), file.nrows))
    columns = _columns(list(table.schema))
    return StoredFile(columns=columns, rows=_rows(table))


def _rows(table: pa.Table) -> Iterator[Row]:
    for batch in table.to_batches(max_chunksize=4096):
        yield from rows_of(batch)


def _columns(fields: list[pa.Field]) -> tuple[Column, ...]:
    names = [f.name for f in fields]
    if len(set(names)) < len(names):
        # pyarrow finds columns by name, and would give one of them twice.
        raise ValueError(f"two of its columns have one name: {', '.join(names)}")
    return tuple(_column(f) for f in fields)


def _column(field: pa.Field) -> Column:
    type_, text = field.type, _attribute(field, "iceberg.id")
    field_id = int(text) if text.removeprefix("-").isdecimal() else None
    if pa.types.is_struct(type_):
        parts = _columns([type_.field(i) for i in range(type_.num_fields)])
        return Column(name=field.name, id=field_id, type="struct", parts=parts)
    if pa.types.is_map(type_):
        return Column(
            name=field.name, id=field_id, type="map", parts=(_column(type_.key_field), _column(type_.item_field))
        )
    if pa.types.is_list(type_):
        return Column(name=field.name, id=field_id, type="list", parts=(_column(type_.value_field),))
    return Column(name=field.name, id=field_id, type=_leaf_type(field))


def _attribute(field: pa.Field, name: str) -> str:
    value: bytes = (field.metadata or {}).get(name.encode(), b"")
    return value.decode(errors="replace")


def _leaf_type(field: pa.Field) -> Type:
    type_ = field.type
    if pa.types.is_binary(type_):
        return _binary(field)
    if pa.types.is_integer(type_):
        if type_.bit_width == 64 and _attribute(field, "iceberg.long-type").upper() == "TIME":
            return TimeType("us")
        bits: Literal[8, 16, 32, 64] = type_.bit_width
        return IntegerType(bits)
    if pa.types.is_timestamp(type_):
        return TimestampType(type_.unit, type_.tz is not None)
    if pa.types.is_decimal(type_):
        return DecimalType(type_.precision, type_.scale)
    if pa.types.is_floating(type_):
        return FloatType(64 if pa.types.is_float64(type_) else 32)
    if pa.types.is_boolean(type_):
        return BooleanType()
    if pa.types.is_date32(type_):
        return DateType()
    return StringType() if pa.types.is_string(type_) else OpaqueType(str(type_))


def _binary(field: pa.Field) -> Type:
    length = _attribute(field, "iceberg.length")
    match _attribute(field, "iceberg.binary-type").upper():
        case "UUID":
            return FixedType(16)
        case "FIXED" if length.isdecimal():
            return FixedType(int(length))
        case "GEOMETRY":
            return GeometryType()
        case "GEOGRAPHY":
            return GeographyType()
        case _:
            return BinaryType()
