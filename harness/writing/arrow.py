"""Conversion of stored rows to Arrow tables with field ids, and data files without columns.

The Arrow types are the physical types of data files. Files without columns are assembled byte by byte, because pyarrow
writes a Parquet footer that counts no rows for them, and crashes for ORC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from harness.errors import RequestError
from harness.metadata.model.schema import (
    BinaryType,
    CellValue,
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
    StringType,
    StructType,
    TimestampType,
    TimeType,
    Type,
    UnknownType,
    UuidType,
    VariantType,
    arrow_type,
    children,
)


def group_sizes(rows: int, group: int | None) -> list[int]:
    """Return the number of rows in each row group.

    Args:
        rows: The number of rows in the file.
        group: The maximum number of rows per row group. None for a single row group.
    """
    size = rows if group is None else group
    return [min(size, rows - start) for start in range(0, rows, size)] if rows else []


def write_columnless_parquet(path: Path, groups: Sequence[int], footer: Mapping[str, str]) -> None:
    """Write a Parquet file whose schema is a root without children.

    Args:
        path: The file to write.
        groups: The number of rows in each row group.
        footer: Key-value pairs of the footer.
    """
    schema = _struct({4: _text("schema"), 5: _int(0)})
    row_groups = [_struct({1: _list([]), 2: _long(0), 3: _long(rows)}) for rows in groups]
    fields = {1: _int(2), 2: _list([schema]), 3: _long(sum(groups)), 4: _list(row_groups)}
    if footer:
        fields[5] = _list([_struct({1: _text(key), 2: _text(value)}) for key, value in footer.items()])
    content = _struct(fields)[1]
    path.write_bytes(b"PAR1" + content + len(content).to_bytes(4, "little") + b"PAR1")


def write_columnless_orc(path: Path, rows: int) -> None:
    """Write an uncompressed ORC file with the root struct as its only type, and all rows in one stripe."""
    stripe_footer = _message({2: [_message({1: [0]})]})  # the root is encoded directly, and has no stream
    stripe = _message({1: [3], 2: [0], 3: [0], 4: [len(stripe_footer)], 5: [rows]})
    root = _message({1: [12]})
    statistics = _message({1: [rows]})
    footer = _message({1: [3], 2: [len(stripe_footer)], 3: [stripe], 4: [root], 6: [rows], 7: [statistics], 8: [0]})
    version = bytes([0, 12])
    tail = _message({1: [len(footer)], 2: [0], 4: [version], 5: [0], 8000: [b"ORC"]})
    path.write_bytes(b"ORC" + stripe_footer + footer + tail + bytes([len(tail)]))


# A value in Thrift's compact protocol: the number of its type, and its bytes.
_ThriftValue = tuple[int, bytes]
_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12


def _struct(fields: Mapping[int, _ThriftValue]) -> _ThriftValue:
    content, last = b"", 0
    for number, (kind, value) in fields.items():
        content += bytes([(number - last) << 4 | kind]) + value
        last = number
    return _STRUCT, content + b"\0"


def _list(structs: Sequence[_ThriftValue]) -> _ThriftValue:
    short = len(structs) < 15
    head = bytes([len(structs) << 4 | _STRUCT]) if short else bytes([0xF0 | _STRUCT]) + varint(len(structs))
    return _LIST, head + b"".join(content for _, content in structs)


def _int(number: int) -> _ThriftValue:
    return _I32, varint(2 * number)


def _long(number: int) -> _ThriftValue:
    return _I64, varint(2 * number)


def _text(text: str) -> _ThriftValue:
    return _BINARY, varint(len(text.encode())) + text.encode()


def _message(fields: Mapping[int, Sequence[int] | Sequence[bytes]]) -> bytes:
    """Return a Protocol Buffers message with numbers and byte strings by field number."""
    content = b""
    for number, values in fields.items():
        for value in values:
            if isinstance(value, int):
                content += varint(number << 3) + varint(value)
            else:
                content += varint(number << 3 | 2) + varint(len(value)) + value
    return content


def varint(number: int) -> bytes:
    """Return an unsigned number in the fewest bytes, with 7 bits in each byte."""
    content = bytearray()
    while number >= 0x80:
        content.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*content, number])


FieldIdStyle: TypeAlias = Literal["parquet", "orc", "none"]
_VARIANT = pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)])


def arrow_table(fields: Sequence[Field], rows: Sequence[dict[int, CellValue]], id_style: FieldIdStyle) -> pa.Table:
    """Return an Arrow table of stored rows, with a column for each field of a known type.

    Args:
        fields: The columns.
        rows: The rows, as internal values by field id. A missing value is null.
        id_style: How columns carry their field ids: as Parquet or ORC attributes, or not at all.

    Returns:
        The table. Columns of type unknown are left out, because files do not store them.

    Raises:
        RequestError: A required field is null, or a value does not fit its type.
    """
    fields = [f for f in fields if not isinstance(f.type, UnknownType)]
    if not fields:
        return pa.table({"_": pa.nulls(len(rows))}).drop_columns(["_"])
    arrays = [_array(f, [row.get(f.id) for row in rows], id_style) for f in fields]
    return pa.Table.from_arrays(arrays, schema=pa.schema([_field(f, id_style) for f in fields]))


def with_field_ids(table: pa.Table, fields: Sequence[Field], *, elements: bool = True) -> pa.Table:
    """Return the table with Parquet field ids on every column and nested field that has the name of a field.

    Args:
        table: The table.
        fields: The fields with their ids.
        elements: If true, list elements, map keys, and map values get ids too.
    """
    if not table.schema:
        return table
    by_name = {f.name: f for f in fields}
    schema = pa.schema([_with_ids(f, by_name.get(f.name), elements=elements) for f in table.schema])
    return pa.Table.from_arrays([c.cast(f.type) for c, f in zip(table.columns, schema, strict=True)], schema=schema)


_TYPE_NAMES = [
    "boolean",
    "byte",
    "short",
    "int",
    "integer",
    "long",
    "bigint",
    "float",
    "double",
    "decimal",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "timestamp_ntz",
    "timestamp_ns",
    "timestamptz_ns",
    "string",
    "uuid",
    "fixed",
    "binary",
    "variant",
    "geometry",
    "geography",
]
"""Names of the simple types of both formats, for suggestions in errors."""


def physical_type(type_: Type, id_style: FieldIdStyle) -> pa.DataType:
    """Return the Arrow type that pyarrow writes in the physical type that Iceberg requires for `type_`.

    Args:
        type_: The type of the column.
        id_style: As for `arrow_table`.

    Raises:
        RequestError: The type is unknown.
    """
    match type_:
        case StructType(fields=fields):
            return pa.struct([_field(f, id_style) for f in fields if not isinstance(f.type, UnknownType)])
        case ListType(element=element):
            return pa.list_(_field(element, id_style))
        case MapType(key=key, value=value):
            return pa.map_(_field(key, id_style), _field(value, id_style))
        case VariantType():
            return _VARIANT
        case UuidType():
            return pa.uuid() if id_style != "orc" else pa.binary()
        case FixedType() | GeometryType() | GeographyType() if id_style == "orc":
            return pa.binary()
        case TimeType() if id_style == "orc":
            return pa.int64()
        case OpaqueType():
            near = get_close_matches(str(type_), _TYPE_NAMES, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise RequestError(f"Cannot write a column of the unknown type {type_}{hint}")
        case _:
            return arrow_type(type_)


def _field(field: Field, id_style: FieldIdStyle) -> pa.Field:
    return pa.field(field.name, physical_type(field.type, id_style), not field.required, _metadata(field, id_style))


def _metadata(field: Field, id_style: FieldIdStyle) -> dict[str, str] | None:
    match id_style:
        case "parquet":
            return {"PARQUET:field_id": str(field.id)}
        case "orc":
            return {
                "iceberg.id": str(field.id),
                "iceberg.required": "true" if field.required else "false",
                **_orc_attributes(field.type),
            }
        case "none":
            return None


def _orc_attributes(type_: Type) -> dict[str, str]:
    match type_:
        case UuidType():
            return {"iceberg.binary-type": "UUID"}
        case FixedType(length=length):
            return {"iceberg.binary-type": "FIXED", "iceberg.length": str(length)}
        case GeometryType():
            return {"iceberg.binary-type": "GEOMETRY"}
        case GeographyType():
            return {"iceberg.binary-type": "GEOGRAPHY"}
        case TimeType():
            return {"iceberg.long-type": "TIME"}
        case TimestampType(unit="ns"):
            return {"iceberg.timestamp-unit": "NANOS"}
        case IntegerType(bits=64):
            return {"iceberg.long-type": "LONG"}
        case VariantType():
            return {"iceberg.struct-type": "VARIANT"}
        case _:
            return {}


def _array(field: Field, values: list[Any], id_style: FieldIdStyle) -> pa.Array:
    if field.required and None in values:
        raise RequestError(
            f"Cannot write null into the required field {field.name!r}; make it optional or give a value",
            field=field.name,
        )
    return _typed_array(field.type, values, id_style)


def _typed_array(type_: Type, values: list[Any], id_style: FieldIdStyle) -> pa.Array:
    target = physical_type(type_, id_style)
    nulls = pa.array([v is None for v in values], pa.bool_())
    match type_:
        case StructType(fields=fields):
            parts = [_child(f, values, id_style) for f in fields if not isinstance(f.type, UnknownType)]
            return pa.StructArray.from_arrays(parts, fields=list(target), mask=nulls)
        case ListType(element=element):
            items = [item for v in values if v is not None for item in v]
            return pa.ListArray.from_arrays(_offsets(values), _array(element, items, id_style), type=target, mask=nulls)
        case MapType(key=key, value=value):
            pairs = [pair for v in values if v is not None for pair in v]
            keys = _array(key, [k for k, _ in pairs], id_style)
            return pa.MapArray.from_arrays(
                _offsets(values), keys, _array(value, [v for _, v in pairs], id_style), type=target, mask=nulls
            )
        case UuidType() if id_style != "orc":
            return pa.ExtensionArray.from_storage(target, pa.array(values, pa.binary(16)))
        case _:
            try:
                return pa.array(values, target)
            except (pa.ArrowException, TypeError, ValueError) as exc:
                raise RequestError(f"Cannot write a column of type {type_}: {exc}") from exc


def _child(field: Field, parents: list[Any], id_style: FieldIdStyle) -> pa.Array:
    # Arrow refuses nulls in a required child even if its parent is null, so that child gets a filler value that is
    # never read.
    absent = _filler(field.type) if field.required else None
    return _array(field, [absent if p is None else p.get(field.id) for p in parents], id_style)


def _filler(type_: Type) -> object:
    match type_:
        case StructType(fields=fields):
            return {f.id: _filler(f.type) for f in fields if f.required}
        case ListType() | MapType():
            return []
        case StringType():
            return ""
        case UuidType():
            return bytes(16)
        case FixedType(length=length):
            return bytes(length)
        case BinaryType() | GeometryType() | GeographyType():
            return b""
        case VariantType():
            return {"metadata": b"\x01\x00\x00", "value": b"\x00"}
        case DecimalType():
            return Decimal(0)
        case FloatType():
            return 0.0
        case _:
            return 0


def _offsets(values: list[Any]) -> pa.Array:
    offsets = [0]
    for value in values:
        offsets.append(offsets[-1] + (0 if value is None else len(value)))
    return pa.array(offsets, pa.int32())


def _with_ids(arrow: pa.Field, field: Field | None, *, elements: bool) -> pa.Field:
    if field is None:
        return arrow

    def inside(part: pa.Field, part_field: Field) -> pa.Field:
        marked = _with_ids(part, part_field, elements=elements)
        return marked if elements else marked.remove_metadata()

    inner = children(field.type)
    kind = arrow.type
    if pa.types.is_struct(kind):
        names = {f.name: f for f in inner}
        kind = pa.struct([_with_ids(f, names.get(f.name), elements=elements) for f in kind])
    elif pa.types.is_map(kind) and len(inner) == 2:
        kind = pa.map_(inside(kind.key_field, inner[0]), inside(kind.item_field, inner[1]))
    elif pa.types.is_list(kind) and len(inner) == 1:
        kind = pa.list_(inside(kind.value_field, inner[0]))
    return pa.field(arrow.name, kind, arrow.nullable, _metadata(field, "parquet"))
