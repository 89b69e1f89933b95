"""Avro data files: the physical schema and all rows as Arrow. Delete files in Avro are read the same way.

Row positions count the rows of all blocks (iceberg 7.3), so all rows are returned, in file order. Logical types are
interpreted exactly and for any year.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Literal

import pyarrow as pa

from harness.errors import HarnessError
from harness.metadata.files.avro_container import corrupt_error, open_container
from harness.metadata.files.avro_schema import Cause, Node, path_text, unsupported_schema
from harness.metadata.files.avro_values import DAMAGE, AvroColumn, FieldError, Tally, column_of, error_reason
from harness.metadata.model import schema as dt
from harness.metadata.model.arrow_values import array_of
from harness.metadata.model.file_schema import STORED_LIST, STORED_MAP, STORED_STRUCT, PhysicalField, PhysicalSchema
from harness.storage.limits import DEFAULT, Limits

_CAUSE: Cause = "CorruptDataFile"

_PRIMITIVES: dict[str, dt.Type] = {
    "null": dt.UnknownType(),
    "boolean": dt.BooleanType(),
    "int": dt.IntegerType(32),
    "long": dt.IntegerType(64),
    "float": dt.FloatType(32),
    "double": dt.FloatType(64),
    "bytes": dt.BinaryType(),
    "string": dt.StringType(),
    "enum": dt.StringType(),
}


def _physical_schema(root: Node, file: str) -> PhysicalSchema:
    """Return the columns of a file from its schema tree.

    Raises:
        UnsupportedError: The root is not a record, or a column is a union of several types.
    """
    try:
        if root.kind != "record":
            raise unsupported_schema("its root is not a record")
        return _physical_field("", None, root, ()).children
    except HarnessError as error:
        raise error.within(file=file) from error.__cause__


def _physical_field(name: str, id_: int | None, node: Node, path: tuple[str, ...]) -> PhysicalField:
    """Return a type of the file as a stored field. All of its values may be null."""
    value = _non_null_type(node)
    if value.kind == "union":
        raise unsupported_schema(
            f"column {path_text(path)} is a union of {len(value.children)} types, expected null and one other"
        )
    type_: dt.Type
    match value.kind:
        case "record":
            type_, parts = STORED_STRUCT, list(zip(value.names, value.ids, value.children, strict=True))
        case "array" if value.declared.get("logicalType") == "map":
            item = value.children[0]
            if item.kind != "record" or len(item.children) != 2:
                raise corrupt_error(
                    f"column {path_text(path)} is a map whose items are not records of key and value", None, _CAUSE
                )
            type_, parts = STORED_MAP, list(zip(("key", "value"), item.ids, item.children, strict=True))
        case "array":
            type_, parts = STORED_LIST, [("element", value.declared_id("element-id"), value.children[0])]
        case "map":
            ids = (value.declared_id("key-id"), value.declared_id("value-id"))
            type_ = STORED_MAP
            parts = list(zip(("key", "value"), ids, (Node(kind="string"), value.children[0]), strict=True))
        case _:
            type_, parts = _primitive_type(value), []
    children = tuple(_physical_field(part, part_id, child, (*path, part)) for part, part_id, child in parts)
    return PhysicalField(name=name, id=id_, type=type_, children=children)


def _non_null_type(node: Node) -> Node:
    """Return the type of the values that are not null. A union of several such types is returned unchanged."""
    if node.kind == "union" and len(node.children) == 1:
        return node.children[0]
    return node.value if len(node.children) == 2 else node


def _primitive_type(node: Node) -> dt.Type:
    """Return the type that the logical type specifies.

    Avro requires that unknown and misplaced logical types are ignored.
    """
    plain = dt.FixedType(node.size) if node.kind == "fixed" else _PRIMITIVES[node.kind]
    declared = node.declared
    match declared.get("logicalType"), node.kind:
        case "decimal", "bytes" | "fixed":
            precision, scale = declared.get("precision"), declared.get("scale", 0)
            if not (isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision <= 38):
                return plain
            return dt.DecimalType(precision, scale) if precision > 0 else plain
        case "uuid", "fixed" if node.size == 16:
            return dt.UuidType()
        case "date", "int":
            return dt.DateType()
        case "time-millis", "int":
            return dt.TimeType("ms")
        case "time-micros", "long":
            return dt.TimeType("us")
        case str(name), "long" if name in _TIMESTAMPS:
            utc = declared.get("adjust-to-utc") is True
            return dt.TimestampType(_TIMESTAMPS[name], utc and not name.startswith("local-"))
        case _:
            return plain


_TIMESTAMPS: dict[str, Literal["ms", "us", "ns"]] = {
    "timestamp-millis": "ms",
    "timestamp-micros": "us",
    "timestamp-nanos": "ns",
    "local-timestamp-millis": "ms",
    "local-timestamp-micros": "us",
    "local-timestamp-nanos": "ns",
}


def _arrow_type(stored: PhysicalField) -> pa.DataType:
    """Return the Arrow type of the values. Every field is nullable, whatever the file declares."""
    fields = [pa.field(child.name, _arrow_type(child)) for child in stored.children]
    match stored.type:
        case dt.StructType():
            return pa.struct(fields)
        case dt.ListType():
            return pa.list_(fields[0])
        case dt.MapType():
            return pa.map_(fields[0].type, fields[1].type)
        case dt.UnknownType():
            return pa.null()
        case type_:
            return dt.arrow_type(type_)


def _array(stored: PhysicalField, column: AvroColumn) -> pa.Array:
    """Return the values of a column in the type and encoding that the file declares."""
    type_ = _arrow_type(stored)
    match stored.type:
        case dt.StructType():
            arrays = _arrays(stored.children, column)
            return pa.Array.from_buffers(type_, len(column.values), [_validity(column.values)], children=arrays)
        case dt.ListType() | dt.MapType():
            sizes = column.values
            *starts, end = accumulate((size or 0 for size in sizes), initial=0)
            starts_or_none = (None if size is None else start for size, start in zip(sizes, starts, strict=True))
            offsets = array_of([*starts_or_none, end], pa.int32())
            # a map stored as an array of records of key and value
            is_pairs = len(column.children) < len(stored.children)
            parts = _arrays(stored.children, column.children[0] if is_pairs else column)
            if isinstance(stored.type, dt.ListType):
                return pa.ListArray.from_arrays(offsets, parts[0], type=type_)
            if parts[0].null_count:
                raise ValueError("a map's key is null")
            return pa.MapArray.from_arrays(offsets, *parts)
        case dt.DecimalType() as decimal:
            return _decimals(decimal, column.values)
        case _:
            if not pa.types.is_temporal(type_):
                return array_of(column.values, type_)
            # Convert times as integers, because they may be in any year.
            integers = pa.int32() if type_.bit_width == 32 else pa.int64()
            return array_of(column.values, integers).view(type_)


def _arrays(fields: PhysicalSchema, column: AvroColumn) -> list[pa.Array]:
    return [_array(child, part) for child, part in zip(fields, column.children, strict=True)]


def _decimals(type_: dt.DecimalType, values: Sequence[bytes | None]) -> pa.Array:
    """Decode big-endian two's complement bytes of any length. Raise an error if a value has too many digits."""
    limit = 10**type_.precision
    unscaled = [None if v is None else int.from_bytes(v, "big", signed=True) for v in values]
    if any(v is not None and abs(v) >= limit for v in unscaled):
        raise ValueError(f"a value has more digits than {type_}")
    data = b"".join((v or 0).to_bytes(16, "little", signed=True) for v in unscaled)
    present = [v is not None for v in unscaled]
    return pa.Array.from_buffers(dt.arrow_type(type_), len(unscaled), [_validity(present), pa.py_buffer(data)])


def _validity(present: Sequence[bool]) -> pa.Buffer | None:
    """Return the validity bitmap, or None if all values are present."""
    return None if all(present) else array_of(present, pa.bool_()).buffers()[1]


def read_avro(data: bytes, *, file: str, limits: Limits = DEFAULT) -> tuple[PhysicalSchema, pa.Table]:
    """Read the columns and all rows of an Avro container, in file order.

    Values keep their stored units. Enums become text. A UUID in fixed bytes becomes Arrow's uuid.

    Args:
        data: The content of the file.
        file: The path of the file, for errors.
        limits: The limits on types, values, and memory.

    Raises:
        CorruptFileError: The file is not an Avro container, is truncated, or has a wrong checksum, length, or value
            (rules iceberg 2.14, 7.3).
        EncryptedTableError: The file is an encrypted stream.
        UnsupportedError: The codec is not in iceberg 2.14, or a type is recursive or a union of more than null and one
            type (rule iceberg 7.3).
        LimitError: The file exceeds `limits`.
    """
    container = open_container(data, file=file, cause=_CAUSE, limits=limits)
    fields = _physical_schema(container.schema, file)
    column = column_of(container.schema, Tally(limits, file, is_manifest=False))
    try:
        for count, block in container.blocks():
            container.read_block(column.read, count, block)
        array = _array(PhysicalField(name="", id=None, type=STORED_STRUCT, children=fields), column)
    except (pa.ArrowException, OverflowError) as error:
        raise corrupt_error(f"a value does not fit its type: {error}", file, _CAUSE) from error
    except DAMAGE as error:
        path = ".".join(error.path) if isinstance(error, FieldError) else None
        raise corrupt_error(error_reason(error), file, _CAUSE, path) from error
    return fields, pa.Table.from_batches([pa.RecordBatch.from_struct_array(array)])


def schema_of_avro(head: bytes, *, file: str, limits: Limits = DEFAULT) -> PhysicalSchema:
    """Return the columns of an Avro container. `head` must contain its whole header.

    Raises:
        HarnessError: As for `read_avro`.
    """
    return _physical_schema(open_container(head, file=file, cause=_CAUSE, limits=limits).schema, file)
