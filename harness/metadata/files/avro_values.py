"""A decoder of Avro values of every type, for manifests, data files, and delete files.

A `ReadStep` reads the value at a position, appends it to a column or skips it, and returns the position after it. Avro
has no checksum of values. A damaged byte is only noticed if it violates the schema, so every requirement is checked:
union branches, booleans, symbols, lengths, and the last byte of a block.

fastavro does not check these: it reads the last branch for branch -1, crashes on nested types, and exhausts memory if a
count of nulls is large.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from harness.storage.limits import Limits
from harness.storage.records import dataclass

if TYPE_CHECKING:
    from harness.metadata.files.avro_schema import Node

DAMAGE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""The errors that decoders raise for damaged bytes and wrong schemas. Callers add the name of the file."""


class FieldError(ValueError):
    """Damage in a field, raised by decoders for their callers.

    Attributes:
        path: The names of the fields from the top level down.
        reason: The description of the damage.
    """

    def __init__(self, path: tuple[str, ...], reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


def error_reason(error: Exception) -> str:
    """Return the description of a decoder's error."""
    if isinstance(error, FieldError):
        return error.reason
    if isinstance(error, IndexError):
        return "the data ends inside a value"
    if isinstance(error, UnicodeDecodeError):
        return "text is not UTF-8"
    return str(error) or type(error).__name__


def decode_long(data: bytes, position: int) -> tuple[int, int]:
    """Decode an int or long, and return it with the position after it.

    The encoding has groups of 7 bits, with the sign in the lowest bit.

    Raises:
        IndexError: The data ends inside the number.
        ValueError: The number has more than 10 bytes.
    """
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    number = byte & 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    # Ten bytes hold 70 bits. Some writers use them for ids larger than a long, which table metadata also contains in
    # full.
    if shift > 63:
        raise ValueError("a number has more than ten bytes")
    return (number >> 1) ^ -(number & 1), position


def decode_unsigned(data: bytes, position: int) -> tuple[int, int]:
    """Decode a number without a sign, and return it with the position after it. Errors are as for `decode_long`."""
    zigzag, position = decode_long(data, position)
    return (zigzag << 1) ^ (zigzag >> 127), position


def decode_bytes(data: bytes, position: int) -> tuple[bytes, int]:
    """Decode a byte string, and return it with the position after it.

    Raises:
        IndexError: The data ends inside of the byte string.
    """
    length, position = decode_long(data, position)
    end = position + length
    if length < 0 or end > len(data):
        raise IndexError(end)
    return data[position:end], end


def encode_long(number: int) -> bytes:
    """Encode a 64-bit number for `decode_long`."""
    rest, groups = (number << 1) ^ (number >> 63), bytearray()
    while rest > 0x7F:
        groups.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*groups, rest))


@dataclass(slots=True)
class Tally:
    """The counts of one file that are compared with the limits.

    Attributes:
        limits: The limits.
        file: The path of the file, for errors.
        empty: The number of values that took no byte.
        is_manifest: True if lists are limited to `limits.items` items, and to the bytes of their block.
    """

    limits: Limits
    file: str
    empty: int = 0
    is_manifest: bool = True

    def items(self, total: int, count: int, size: int) -> None:
        """Count the items of the next part of a list or map.

        Args:
            total: The number of items so far.
            count: The number of items in the next part.
            size: The bytes of the Avro block.

        Raises:
            LimitError: There are more than `limits.items` items.
            ValueError: There are more items than bytes.
        """
        if not self.is_manifest:
            return
        if count > size:
            raise ValueError(f"an array claims {count} items, more than the data has bytes")
        if total > self.limits.items:  # this runs for each list of each record, so the cheap comparison comes first
            self.limits.check("items", total, "items of one list", file=self.file)

    def count_empty(self) -> None:
        """Count a value that took no byte. Raise LimitError if there are more than `limits.empty_values`."""
        self.empty += 1
        if self.empty > self.limits.empty_values:
            self.limits.check("empty_values", self.empty, "values that take no bytes", file=self.file)


ReadStep: TypeAlias = Callable[[bytes, int], int]
"""A function that reads the value at a position and returns the position after it. It raises `DAMAGE` for damaged data.
"""


@dataclass(slots=True)
class AvroColumn:
    """A column that grows while it is read.

    Attributes:
        read: The step that appends a value.
        add_null: A function that appends a null.
        values: For records, a flag for each record that tells whether it is present. For lists, the length of each list
            or None. Otherwise the values.
        kind: The shape of the values.
        children: The fields of a record. For lists, the items. For maps, the keys and the values.
    """

    read: ReadStep
    add_null: Callable[[], None]
    values: list[Any]
    kind: Literal["value", "record", "list"] = "value"
    children: tuple[AvroColumn, ...] = field(default=())

    def take(self) -> list[Any]:
        """Return the values so far and remove them. A record is a list of its fields, a map is a list of pairs."""
        values = self.values[:]
        self.values.clear()
        if self.kind == "value":
            return values
        parts = [child.take() for child in self.children]
        if self.kind == "record":
            rows: list[Any] = [list(row) for row in zip(*parts, strict=False)] if parts else [[] for _ in values]
            return (
                rows if all(values) else [row if present else None for row, present in zip(rows, values, strict=True)]
            )
        items = iter(parts[0] if len(parts) == 1 else zip(*parts, strict=True))
        return [None if size is None else [next(items) for _ in range(size)] for size in values]


def plain_column(read: Callable[[list[Any]], ReadStep]) -> AvroColumn:
    """Return a column of values that have no children. `read` makes the step that appends to a list."""
    values: list[Any] = []
    return AvroColumn(read(values), lambda: values.append(None), values)


def optional_column(column: AvroColumn, null: int | None) -> AvroColumn:
    """Return a column of a union with null.

    Args:
        column: The column of the branch that is not null.
        null: The encoded index of the null branch, 0 or 2. None: the union has one type only.
    """
    other, read_value, add_null = 0 if null is None else 2 - null, column.read, column.add_null

    def read(data: bytes, position: int) -> int:
        branch = data[position]
        if branch == other:
            return read_value(data, position + 1)
        if branch != null:
            raise ValueError(f"union branch {decode_long(data, position)[0]} does not exist")
        add_null()
        return position + 1

    return AvroColumn(read, add_null, column.values, column.kind, column.children)


def union_column(branches: Sequence[AvroColumn]) -> AvroColumn:
    """Return a column of a union of several types."""
    values: list[Any] = []

    def read(data: bytes, position: int) -> int:
        index, position = decode_long(data, position)
        if not 0 <= index < len(branches):
            raise ValueError(f"union branch {index} does not exist")
        position = branches[index].read(data, position)
        values.extend(branches[index].take())
        return position

    return AvroColumn(read, lambda: values.append(None), values)


def record_column(steps: Sequence[tuple[str, ReadStep]], children: Sequence[AvroColumn], tally: Tally) -> AvroColumn:
    """Return a column of records.

    Args:
        steps: The names of the fields and the steps that read them, in order.
        children: The columns to which the steps append.
        tally: The counts of the file.
    """
    present: list[bool] = []

    def add_null() -> None:
        for child in children:
            child.add_null()
        present.append(False)

    return AvroColumn(fields_step(steps, tally, present), add_null, present, "record", tuple(children))


def fields_step(steps: Sequence[tuple[str, ReadStep]], tally: Tally, present: list[bool] | None = None) -> ReadStep:
    """Return a step that reads the fields of a record, and appends to `present` for each record."""

    def read(data: bytes, position: int) -> int:
        name, start = "", position
        try:
            for name, step in steps:  # noqa: B007 (the error needs the name)
                position = step(data, position)
        except DAMAGE as error:
            path = error.path if isinstance(error, FieldError) else ()
            raise FieldError((name, *path), error_reason(error)) from error
        if position == start:  # Records without bytes can be nested so that each holds the previous one twice.
            tally.count_empty()
        if present is not None:
            present.append(True)
        return position

    return read


def list_column(children: Sequence[AvroColumn], tally: Tally) -> AvroColumn:
    """Return a column of lists or maps. The items of a map are pairs of a key and a value."""
    sizes: list[int | None] = []
    read = items_step([child.read for child in children], tally, sizes)
    return AvroColumn(read, lambda: sizes.append(None), sizes, "list", tuple(children))


def items_step(steps: Sequence[ReadStep], tally: Tally, sizes: list[Any] | None = None) -> ReadStep:
    """Return a step that reads a list in blocks of items.

    Each block starts with its count. After a negative count, the size of the block in bytes follows.

    Args:
        steps: The steps that read an item.
        tally: The counts of the file.
        sizes: A list to which the number of items is appended.
    """
    item = steps[0] if len(steps) == 1 else sequence_step(steps)

    def read(data: bytes, position: int) -> int:
        size = 0
        while True:
            count, position = decode_long(data, position)
            if count == 0:
                if sizes is not None:
                    sizes.append(size)
                return position
            end = None
            if count < 0:
                length, position = decode_long(data, position)
                count, end = -count, position + length
            size += count
            tally.items(size, count, len(data))
            for _ in range(count):
                before = position
                position = item(data, position)
                if position == before:
                    tally.count_empty()
            if end is not None and position != end:
                raise ValueError("a block of items has another length than it declares")

    return read


def sequence_step(steps: Sequence[ReadStep]) -> ReadStep:
    """Return a step that reads several values in a row."""

    def read(data: bytes, position: int) -> int:
        for step in steps:
            position = step(data, position)
        return position

    return read


def _long_step(values: list[Any]) -> ReadStep:
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


def _length_prefixed_step(add: Callable[[bytes], None]) -> ReadStep:
    """Return a step that reads byte strings prefixed with their lengths."""

    def read(data: bytes, position: int) -> int:
        length, position = decode_long(data, position)
        end = position + length
        if length < 0 or end > len(data):
            raise IndexError(end)
        add(data[position:end])
        return end

    return read


def _text_step(values: list[Any]) -> ReadStep:
    add = values.append
    return _length_prefixed_step(lambda text: add(text.decode()))


def fixed_step(size: int, values: list[Any]) -> ReadStep:
    """Return a step that reads a fixed number of bytes."""

    def read(data: bytes, position: int) -> int:
        end = position + size
        if end > len(data):
            raise IndexError(end)
        values.append(data[position:end])
        return end

    return read


def _struct_step(form: str, values: list[Any]) -> ReadStep:
    packed = struct.Struct(form)
    size, unpack = packed.size, packed.unpack_from

    def read(data: bytes, position: int) -> int:
        if position + size > len(data):
            raise IndexError(position)
        values.append(unpack(data, position)[0])
        return position + size

    return read


def _boolean_step(values: list[Any]) -> ReadStep:
    def read(data: bytes, position: int) -> int:
        byte = data[position]
        if byte > 1:
            raise ValueError(f"{byte} is not a boolean")
        values.append(byte == 1)
        return position + 1

    return read


def _null_step(values: list[Any]) -> ReadStep:
    def read(_: bytes, position: int) -> int:
        values.append(None)
        return position

    return read


def enum_step(symbols: Sequence[str], values: list[Any]) -> ReadStep:
    """Return a step that reads an enum and appends its symbol."""

    def read(data: bytes, position: int) -> int:
        index, position = decode_long(data, position)
        if not 0 <= index < len(symbols):
            raise ValueError(f"enum symbol {index} does not exist")
        values.append(symbols[index])
        return position

    return read


PRIMITIVES: dict[str, Callable[[list[Any]], ReadStep]] = {
    "null": _null_step,
    "boolean": _boolean_step,
    "int": _long_step,
    "long": _long_step,
    "float": partial(_struct_step, "<f"),
    "double": partial(_struct_step, "<d"),
    "bytes": lambda values: _length_prefixed_step(values.append),
    "string": _text_step,
}
"""The steps for types without parts."""


def column_of(node: Node, tally: Tally) -> AvroColumn:
    """Return a column for the values of a type."""
    match node.kind:
        case "record":
            children = [column_of(child, tally) for child in node.children]
            return record_column([(n, c.read) for n, c in zip(node.names, children, strict=True)], children, tally)
        case "array":
            return list_column([column_of(node.children[0], tally)], tally)
        case "map":
            return list_column([plain_column(PRIMITIVES["string"]), column_of(node.children[0], tally)], tally)
        case "union":
            branches = [column_of(branch, tally) for branch in node.children]
            kinds = [branch.kind for branch in node.children]
            if len(branches) == 1:
                return optional_column(branches[0], None)
            if len(branches) == 2 and kinds.count("null") == 1:
                null = kinds.index("null")
                return optional_column(branches[1 - null], null * 2)
            return union_column(branches)
        case "enum":
            return plain_column(partial(enum_step, node.symbols))
        case "fixed":
            return plain_column(partial(fixed_step, node.size))
        case _:
            return plain_column(PRIMITIVES[node.kind])


def skip_of(node: Node, tally: Tally) -> ReadStep:
    """Return a step that skips a value of a type. Most of the time for reading a manifest is spent on skipping."""
    match node.kind:
        case "int" | "long" | "enum":
            return skip_long
        case "bytes" | "string":
            return skip_bytes
        case "array":
            return items_step([skip_of(node.children[0], tally)], tally)
        case "map":
            return items_step([skip_bytes, skip_of(node.children[0], tally)], tally)
        case "record" if [child.kind for child in node.children] in _COUNTS:
            return _skip_count
        case "record" if node.children and all(child.kind in _PLAIN for child in node.children):
            return sequence_step([skip_of(child, tally) for child in node.children])
        case "record":
            fields = [(name, skip_of(child, tally)) for name, child in zip(node.names, node.children, strict=True)]
            return fields_step(fields, tally)
        case "union":
            steps = [None if branch.kind == "null" else skip_of(branch, tally) for branch in node.children]
            return union_step(steps)
        case _:
            return partial(_skip_bytes_of, _SIZES.get(node.kind, node.size))


_PLAIN = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})
"""Kinds of values that take at least a byte.

Records of them, for example the items of statistics, are skipped in a loop.
"""
_COUNTS = (["int", "long"], ["long", "long"])
"""The items of maps of counts, which are most of a manifest."""
_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}


def _skip_bytes_of(size: int, data: bytes, position: int) -> int:
    end = position + size
    if end > len(data):
        raise IndexError(end)
    return end


def skip_long(data: bytes, position: int) -> int:
    """Return the position after a number. Errors are as for `decode_long`."""
    return position + 1 if data[position] < 0x80 else decode_long(data, position)[1]


def _skip_count(data: bytes, position: int) -> int:
    """Return the position after two numbers."""
    position = position + 1 if data[position] < 0x80 else decode_long(data, position)[1]
    return position + 1 if data[position] < 0x80 else decode_long(data, position)[1]


def skip_bytes(data: bytes, position: int) -> int:
    """Return the position after a byte string or text. Errors are as for `decode_bytes`."""
    length, position = decode_long(data, position)
    if length < 0 or position + length > len(data):
        raise IndexError(position)
    return position + length


def union_step(steps: Sequence[ReadStep | None]) -> ReadStep:
    """Return a step over a union.

    Args:
        steps: The steps over the values of each branch. None: the branch is null, which takes no bytes.
    """

    def read(data: bytes, position: int) -> int:
        byte = data[position]
        index, position = (byte >> 1, position + 1) if not byte & 0x81 else decode_long(data, position)
        if not 0 <= index < len(steps):
            raise ValueError(f"union branch {index} does not exist")
        step = steps[index]
        return position if step is None else step(data, position)

    return read
