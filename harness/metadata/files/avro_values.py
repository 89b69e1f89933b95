"""Avro values of every type, read into columns or skipped: the one decoder of manifests, data files and delete files.

A step, a `ReadStep`, takes the value at a position, adds it to a column, and returns the position after it; or only skips
it. Avro has no checksum of its values: a damaged byte shows only where it breaks what the schema demands, so every
demand is checked: branches of unions, booleans, symbols, lengths, the last byte of a block. fastavro, which does not
check them, reads the last branch for branch -1, crashes on types that nest, and takes all memory for a count of nulls.
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
"""The errors of decoders for bytes, or a schema, that are wrong; their callers name the file."""


class FieldError(ValueError):
    """Damage in a field; `path` is the names from the top. Only between decoders and those who call them."""

    def __init__(self, path: tuple[str, ...], reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


def error_reason(error: Exception) -> str:
    """A decoder's error in words."""
    if isinstance(error, FieldError):
        return error.reason
    if isinstance(error, IndexError):
        return "the data ends inside a value"
    if isinstance(error, UnicodeDecodeError):
        return "text is not UTF-8"
    return str(error) or type(error).__name__


def decode_long(data: bytes, position: int) -> tuple[int, int]:
    """An int or long, and the position after it: groups of seven bits, the sign in the lowest bit.

    Raises IndexError: the data ends inside the number. ValueError: it has more than ten bytes.
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
    # Ten bytes hold 70 bits. Some writers use them for ids beyond a long, which their metadata has in full, too.
    if shift > 63:
        raise ValueError("a number has more than ten bytes")
    return (number >> 1) ^ -(number & 1), position


def decode_unsigned(data: bytes, position: int) -> tuple[int, int]:
    """A number without a sign, of the same groups, and the position after it; errors as `decode_long`."""
    zigzag, position = decode_long(data, position)
    return (zigzag << 1) ^ (zigzag >> 127), position


def decode_bytes(data: bytes, position: int) -> tuple[bytes, int]:
    """A byte string, and the position after it. Raises `IndexError` if the data ends inside."""
    length, position = decode_long(data, position)
    end = position + length
    if length < 0 or end > len(data):
        raise IndexError(end)
    return data[position:end], end


def encode_long(number: int) -> bytes:
    """Return a number of 64 bits as `decode_long` reads it."""
    rest, groups = (number << 1) ^ (number >> 63), bytearray()
    while rest > 0x7F:
        groups.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*groups, rest))


@dataclass(slots=True)
class Tally:
    """Counts of one file, held against the limits. empty: values that took no byte.

    is_manifest: lists are no longer than `limits.items`, and than the block that they are in.
    """

    limits: Limits
    file: str
    empty: int = 0
    is_manifest: bool = True

    def items(self, total: int, count: int, size: int) -> None:
        """Counts the items of a list or map: in all, of its next part, and the bytes of the Avro block.

        Raises LimitError: they are more than `limits.items`; ValueError: they are more than the bytes.
        """
        if not self.is_manifest:
            return
        if count > size:
            raise ValueError(f"an array claims {count} items, more than the data has bytes")
        if total > self.limits.items:  # asked for each list of each record
            self.limits.check("items", total, "items of one list", file=self.file)

    def count_empty(self) -> None:
        """Counts a value that took no byte. Raises LimitError: there are more than `limits.empty_values`."""
        self.empty += 1
        if self.empty > self.limits.empty_values:
            self.limits.check("empty_values", self.empty, "values without a byte", file=self.file)


ReadStep: TypeAlias = Callable[[bytes, int], int]
"""Takes the value at a position and gives the position after it. `DAMAGE` is damage."""


@dataclass(slots=True)
class AvroColumn:
    """A column as it grows.

    add_null: adds a null in place of a value.
    values: of a record whether it is there, of a list its length or None, of others the values.
    children: a record's fields; a list's items, or its keys and its values.
    """

    read: ReadStep
    add_null: Callable[[], None]
    values: list[Any]
    kind: Literal["value", "record", "list"] = "value"
    children: tuple[AvroColumn, ...] = field(default=())

    def take(self) -> list[Any]:
        """The values so far, which the column then no longer has: a record is a list of its fields, a map of pairs."""
        found = self.values[:]
        self.values.clear()
        if self.kind == "value":
            return found
        parts = [child.take() for child in self.children]
        if self.kind == "record":
            rows: list[Any] = [list(row) for row in zip(*parts, strict=False)] if parts else [[] for _ in found]
            return rows if all(found) else [row if there else None for row, there in zip(rows, found, strict=True)]
        items = iter(parts[0] if len(parts) == 1 else zip(*parts, strict=True))
        return [None if size is None else [next(items) for _ in range(size)] for size in found]


def plain_column(read: Callable[[list[Any]], ReadStep]) -> AvroColumn:
    """A column of values without parts. read: makes the step that adds to a list."""
    values: list[Any] = []
    return AvroColumn(read(values), lambda: values.append(None), values)


def optional_column(column: AvroColumn, null: int | None) -> AvroColumn:
    """A union with null; `null` is the encoded index of the null branch, 0 or 2, or None in a union of one type."""
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
    """Any other union."""
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
    """A column of records. steps: over the fields by name, in order. children: the columns that these add to."""
    present: list[bool] = []

    def add_null() -> None:
        for child in children:
            child.add_null()
        present.append(False)

    return AvroColumn(fields_step(steps, tally, present), add_null, present, "record", tuple(children))


def fields_step(steps: Sequence[tuple[str, ReadStep]], tally: Tally, present: list[bool] | None = None) -> ReadStep:
    """A step over the fields of a record. present: where a record is noted."""

    def read(data: bytes, position: int) -> int:
        name, start = "", position
        try:
            for name, step in steps:  # noqa: B007 (the error needs the name)
                position = step(data, position)
        except DAMAGE as error:
            path = error.path if isinstance(error, FieldError) else ()
            raise FieldError((name, *path), error_reason(error)) from error
        if position == start:  # records of no bytes may hold each other, each twice the one before
            tally.count_empty()
        if present is not None:
            present.append(True)
        return position

    return read


def list_column(children: Sequence[AvroColumn], tally: Tally) -> AvroColumn:
    """A column of lists, or of maps, whose items are a key and a value."""
    sizes: list[int | None] = []
    read = items_step([child.read for child in children], tally, sizes)
    return AvroColumn(read, lambda: sizes.append(None), sizes, "list", tuple(children))


def items_step(steps: Sequence[ReadStep], tally: Tally, sizes: list[Any] | None = None) -> ReadStep:
    """A step over a list: items in blocks, each behind its count; a negative count is followed by the block's bytes.

    steps: over an item. sizes: where the number of items is added.
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
                raise ValueError("a block of items is not as long as it says")

    return read


def sequence_step(steps: Sequence[ReadStep]) -> ReadStep:
    """A step over values one after the other."""

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
    """Byte strings behind their lengths."""

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
    """A step over a fixed number of bytes."""

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
    """A step over an enum, which adds its symbol."""

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
"""The readers of types without parts."""


def column_of(node: Node, tally: Tally) -> AvroColumn:
    """Return a column of the values of a type."""
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


# Skipping, which is most of the work on a manifest.


def skip_of(node: Node, tally: Tally) -> ReadStep:
    """Return a step over a value of a type that adds it to no column."""
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
"""Kinds of values that take a byte or more: records of them, such as the items of statistics, are skipped in a loop."""
_COUNTS = (["int", "long"], ["long", "long"])
"""The items of the maps of counts, which are most of a manifest."""
_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}


def _skip_bytes_of(size: int, data: bytes, position: int) -> int:
    end = position + size
    if end > len(data):
        raise IndexError(end)
    return end


def skip_long(data: bytes, position: int) -> int:
    """Return the position after a number. Raises as `decode_long`."""
    return position + 1 if data[position] < 0x80 else decode_long(data, position)[1]


def _skip_count(data: bytes, position: int) -> int:
    """Return the position after two numbers."""
    position = position + 1 if data[position] < 0x80 else decode_long(data, position)[1]
    return position + 1 if data[position] < 0x80 else decode_long(data, position)[1]


def skip_bytes(data: bytes, position: int) -> int:
    """Return the position after a byte string or text. Raises as `decode_bytes`."""
    length, position = decode_long(data, position)
    if length < 0 or position + length > len(data):
        raise IndexError(position)
    return position + length


def union_step(steps: Sequence[ReadStep | None]) -> ReadStep:
    """Return a step over a union. steps: over the values of its branches; None for null, which takes no bytes."""

    def read(data: bytes, position: int) -> int:
        byte = data[position]
        index, position = (byte >> 1, position + 1) if not byte & 0x81 else decode_long(data, position)
        if not 0 <= index < len(steps):
            raise ValueError(f"union branch {index} does not exist")
        step = steps[index]
        return position if step is None else step(data, position)

    return read
