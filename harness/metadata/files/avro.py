"""Avro data files: physical schema and all rows as Arrow. Delete files in Avro are read the same way.

Positions are ordinals over all blocks (iceberg 7.3), so rows come whole and in file order.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from harness.errors import CorruptFileError
from harness.metadata.files.avro_numbers import DAMAGE, FieldError, decode_long, reason, within
from harness.metadata.files.avro_schema import Node, parse_writer_schema
from harness.metadata.files.ocf import Cause, blocks, corrupt, read_header
from harness.metadata.model.file_schema import PhysicalSchema
from harness.metadata.model.schema import DecimalType
from harness.storage.limits import DEFAULT, Limits, refusal

# Records of Avro data files, decoded straight into the values of each column.
#
# A decoder of our own, because Avro has no checksum of its records: a damaged byte shows only where it breaks what the
# schema demands, so every such demand is checked. Libraries that decode let much of it pass: a branch that its union
# does # not have, a boolean that is neither, bytes that no record uses. A column at a time it is no slower than theirs.


Read: TypeAlias = Callable[[bytes, int], int]
"""Takes the value at a position and gives the position after it. A `LookupError` or `ValueError` is damage."""


class TooManyError(Exception):
    """More values without a byte than are believed."""


@dataclass(slots=True)
class EmptyValues:
    """Values of a file that take no byte of it: only a count says that they are there. most: are believed."""

    most: int
    found: int = 0

    def add(self) -> None:
        """Counts one. Raises `TooManyError` if there are too many."""
        self.found += 1
        if self.found > self.most:
            raise TooManyError


@dataclass(frozen=True, slots=True)
class Column:
    """A column as it grows. add_null: adds a null in place of a value. array: what was added so far."""

    read: Read
    add_null: Callable[[], None]
    array: Callable[[], pa.Array]


def column_of(node: Node, empty: EmptyValues) -> Column:
    """A column without values yet, of the type and encoding that the node says.

    empty: counts records and items without a byte; one for all columns of a file.
    """
    match node.shape:
        case "value" | "enum" | "decimal":
            column = _values(node)
        case "struct":
            column = _struct(node, empty)
        case "list" | "map" | "pairs":
            column = _items(node, empty)
    return column if node.null_branch == "none" else _optional(column, 0 if node.null_branch == "first" else 2)


def read_records(column: Column, block: bytes, count: int) -> None:
    """Adds the records of a block. Raises `LookupError` or `ValueError` for damage: they must use up its bytes."""
    read, position = column.read, 0
    for _ in range(count):
        position = read(block, position)
    if position != len(block):
        raise ValueError(f"a block holds {len(block) - position} bytes after its last record")


def _optional(column: Column, null: int) -> Column:
    """A union with null; `null` is the encoded index of the null branch, 0 or 2."""
    other, read_value, add_null = 2 - null, column.read, column.add_null

    def read(data: bytes, position: int) -> int:
        branch = data[position]
        if branch == other:
            return read_value(data, position + 1)
        if branch != null:
            raise ValueError(f"a value is of branch {decode_long(data, position)[0]} of a union of 2")
        add_null()
        return position + 1

    return Column(read, add_null, column.array)


def _struct(node: Node, empty: EmptyValues) -> Column:
    columns = [column_of(child, empty) for child in node.children]
    steps = [(name, column.read) for name, column in zip(node.names, columns, strict=True)]
    present: list[bool] = []

    def read(data: bytes, position: int) -> int:
        name, start = "", position
        try:
            for name, step in steps:  # noqa: B007 (the error needs the name)
                position = step(data, position)
        except (LookupError, ValueError) as error:
            raise within(name, error) from error
        if position == start:
            empty.add()
        present.append(True)
        return position

    def add_null() -> None:
        for column in columns:
            column.add_null()
        present.append(False)

    def array() -> pa.Array:
        children = [column.array() for column in columns]
        return pa.Array.from_buffers(node.arrow, len(present), [_validity(present)], children=children)

    return Column(read, add_null, array)


def _items(node: Node, empty: EmptyValues) -> Column:
    """Lists and maps: items in blocks, each behind its count; a negative count is followed by the block's bytes."""
    columns = [column_of(child, empty) for child in node.children]
    offsets: list[int | None] = []
    read_item = _in_turn([column.read for column in columns])
    size = 0

    def read(data: bytes, position: int) -> int:
        nonlocal size
        offsets.append(size)
        while True:
            count, position = decode_long(data, position)
            if count == 0:
                return position
            end = None
            if count < 0:
                length, position = decode_long(data, position)
                count, end = -count, position + length
            for _ in range(count):
                before = position
                position = read_item(data, position)
                if position == before:
                    empty.add()
            if end is not None and position != end:
                raise ValueError("a block of items is not as long as it says")
            size += count

    def add_null() -> None:
        offsets.append(None)

    def array() -> pa.Array:
        ends = pa.array([*offsets, size], pa.int32())
        arrays = [column.array() for column in columns]
        if node.shape == "list":
            return pa.ListArray.from_arrays(ends, arrays[0], type=node.arrow)
        if arrays[0].null_count:
            raise _corrupt("a map's key is null")
        return pa.MapArray.from_arrays(ends, *arrays)

    return Column(read, add_null, array)


def _in_turn(steps: Sequence[Read]) -> Read:
    if len(steps) == 1:
        return steps[0]
    key, value = steps
    return lambda data, position: value(data, key(data, position))


def _values(node: Node) -> Column:
    values: list[Any] = []
    read = _fixed(node.size, values) if node.plain == "fixed" else _READERS[node.plain](values)

    def array() -> pa.Array:
        match node.shape:
            case "decimal":
                return _decimals(node, values)
            case "enum":
                return pa.array([None if v is None else _symbol(node, v) for v in values], pa.string())
            case _:
                return _plain(node, values)

    return Column(read, lambda: values.append(None), array)


def _longs(values: list[Any]) -> Read:
    add = values.append

    def read(data: bytes, position: int) -> int:
        byte = data[position]
        if byte < 0x80:
            add((byte >> 1) ^ -(byte & 1))
            return position + 1
        value, position = decode_long(data, position)
        add(value)
        return position

    return read


def _slices(values: list[Any]) -> Read:
    return _lengths(values.append)


def _texts(values: list[Any]) -> Read:
    add = values.append
    return _lengths(lambda text: add(text.decode()))


def _lengths(add: Callable[[bytes], None]) -> Read:
    """Byte strings behind their lengths."""

    def read(data: bytes, position: int) -> int:
        length, position = decode_long(data, position)
        end = position + length
        if length < 0 or end > len(data):
            raise IndexError(end)
        add(data[position:end])
        return end

    return read


def _fixed(size: int, values: list[Any]) -> Read:
    add = values.append

    def read(data: bytes, position: int) -> int:
        end = position + size
        if end > len(data):
            raise IndexError(end)
        add(data[position:end])
        return end

    return read


def _packed(form: str) -> Callable[[list[Any]], Read]:
    packed = struct.Struct(form)
    size, unpack = packed.size, packed.unpack_from

    def reader(values: list[Any]) -> Read:
        def read(data: bytes, position: int) -> int:
            if position + size > len(data):
                raise IndexError(position)
            values.append(unpack(data, position)[0])
            return position + size

        return read

    return reader


def _booleans(values: list[Any]) -> Read:
    def read(data: bytes, position: int) -> int:
        byte = data[position]
        if byte > 1:
            raise ValueError(f"{byte} is not a boolean")
        values.append(byte == 1)
        return position + 1

    return read


def _nulls(values: list[Any]) -> Read:
    def read(_: bytes, position: int) -> int:
        values.append(None)
        return position

    return read


_READERS: dict[str, Callable[[list[Any]], Read]] = {
    "null": _nulls,
    "boolean": _booleans,
    "int": _longs,
    "long": _longs,
    "float": _packed("<f"),
    "double": _packed("<d"),
    "bytes": _slices,
    "string": _texts,
}


def _plain(node: Node, values: Sequence[Any]) -> pa.Array:
    """Values as they are; dates, times and timestamps through their integers, since they may lie in any year."""
    if pa.types.is_temporal(node.arrow):
        integers = pa.int32() if node.arrow.bit_width == 32 else pa.int64()
        return pa.array(values, integers).view(node.arrow)
    return pa.array(values, node.arrow)


def _symbol(node: Node, index: int) -> str:
    if not 0 <= index < len(node.symbols):
        raise _corrupt(f"enum symbol {index} of {len(node.symbols)}")
    return node.symbols[index]


def _decimals(node: Node, values: Sequence[bytes | None]) -> pa.Array:
    """Big-endian two's complement bytes of any length; a value with too many digits is damage."""
    assert isinstance(node.type, DecimalType)
    limit = 10**node.type.precision
    unscaled = [None if v is None else int.from_bytes(v, "big", signed=True) for v in values]
    if any(v is not None and abs(v) >= limit for v in unscaled):
        raise _corrupt(f"a value has more digits than {node.type}")
    data = b"".join((v or 0).to_bytes(16, "little", signed=True) for v in unscaled)
    present = [v is not None for v in unscaled]
    return pa.Array.from_buffers(node.arrow, len(unscaled), [_validity(present), pa.py_buffer(data)])


def _validity(present: Sequence[bool]) -> pa.Buffer | None:
    """A bitmap of the values that are there; None if all are."""
    return None if all(present) else pa.array(present, pa.bool_()).buffers()[1]


def _corrupt(reason: str) -> CorruptFileError:
    return CorruptFileError(f"Cannot decode Avro file: {reason}; restore it", cause="CorruptDataFile")


_CAUSE: Cause = "CorruptDataFile"


def read_avro(data: bytes, *, file: str, limits: Limits = DEFAULT) -> tuple[PhysicalSchema, pa.Table]:
    """The columns of an Avro container and all its rows, in file order.

    The table's columns are the schema's, in order and by name. Ids come from `field-id`, `element-id`, `key-id` and
    `value-id`. Values keep their stored units; enums come as text, a UUID in fixed bytes as Arrow's uuid, a UUID in
    text as text.

    Raises:
        CorruptFileError: not an Avro container, cut, or damaged: a checksum, a length, or a value that its type does
            not have (iceberg 2.14, 7.3).
        EncryptedTableError: an encrypted stream.
        UnsupportedError: a codec outside iceberg 2.14, a union other than of null and one type, a recursive type (7.3).
        LimitError: it asks for more than `limits` allow.
    """
    header = read_header(data, file=file, cause=_CAUSE, limits=limits)
    root = parse_writer_schema(header.schema, file=file, limits=limits)
    column = column_of(root, EmptyValues(limits.empty_values))
    try:
        for count, block in blocks(data, header, file=file, cause=_CAUSE, limits=limits):
            read_records(column, block, count)
        array = column.array()
    except TooManyError as error:
        asked = f"more than {limits.empty_values:,} of its values have no byte"
        raise refusal("empty_values", asked, file=file) from error
    except CorruptFileError as error:
        raise error.within(file=file) from error.__cause__
    except (pa.ArrowException, OverflowError) as error:
        raise corrupt(f"a value does not fit its type: {error}", file, _CAUSE) from error
    except DAMAGE as error:
        path = ".".join(error.path) if isinstance(error, FieldError) else None
        raise corrupt(reason(error), file, _CAUSE, path) from error
    return root.fields(), pa.Table.from_batches([pa.RecordBatch.from_struct_array(array)])


def schema_of_avro(head: bytes, *, file: str, limits: Limits = DEFAULT) -> PhysicalSchema:
    """The columns of an Avro container, from its first bytes, which must hold the whole header; no record is read.

    Raises:
        CorruptFileError: not an Avro container, or `head` ends inside its header.
        EncryptedTableError, UnsupportedError, LimitError: as `read_avro`.
    """
    header = read_header(head, file=file, cause=_CAUSE, limits=limits)
    return parse_writer_schema(header.schema, file=file, limits=limits).fields()
