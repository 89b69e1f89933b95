"""Avro values of every type, read into columns: the one decoder of manifests, data files and delete files.

A step, a `Read`, takes the value at a position, adds it to a column, and returns the position after it; or only skips
it. Columns are put together by `avro_decoding` (manifests, only the wanted fields) and `avro` (data files, as Arrow).

Hot loops repeat inline how a number is encoded: a call per number would double their time.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from functools import lru_cache, partial
from itertools import repeat
from typing import Any, Literal, TypeAlias

from harness.storage.limits import Limits
from harness.storage.records import dataclass

DAMAGE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""The errors of decoders for bytes, or a schema, that are wrong; their callers name the file."""


class FieldError(ValueError):
    """Damage in a field; `path` is the names from the top. Only between decoders and those who call them."""

    def __init__(self, path: tuple[str, ...], reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


def reason(error: Exception) -> str:
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

    def nothing(self) -> None:
        """Counts a value that took no byte. Raises LimitError: there are more than `limits.empty_values`."""
        self.empty += 1
        if self.empty > self.limits.empty_values:
            self.limits.check("empty_values", self.empty, "values without a byte", file=self.file)


Read: TypeAlias = Callable[[bytes, int], int]
"""Takes the value at a position and gives the position after it. `DAMAGE` is damage."""


@dataclass(frozen=True, slots=True)
class AvroColumn:
    """A column as it grows.

    add_null: adds a null in place of a value.
    values: of a record whether it is there, of a list its length or None, of others the values.
    children: a record's fields, None for a field that is missing; a list's items, or its keys and its values.
    """

    read: Read
    add_null: Callable[[], None]
    values: list[Any]
    kind: Literal["value", "record", "list"] = "value"
    children: tuple[AvroColumn | None, ...] = field(default=())

    def take(self) -> list[Any]:
        """The values so far, which the column then no longer has: a record is a list of its fields, a map of pairs."""
        found = self.values[:]
        self.values.clear()
        if self.kind == "value":
            return found
        parts = [repeat(None, len(found)) if child is None else child.take() for child in self.children]
        if self.kind == "record":
            rows: list[Any] = [list(row) for row in zip(*parts, strict=False)] if parts else [[] for _ in found]
            return rows if all(found) else [row if there else None for row, there in zip(rows, found, strict=True)]
        items = iter(parts[0] if len(parts) == 1 else zip(*parts, strict=True))
        return [None if size is None else [next(items) for _ in range(size)] for size in found]


def plain_column(read: Callable[[list[Any]], Read]) -> AvroColumn:
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


def record_column(steps: Sequence[tuple[str, Read]], children: Sequence[AvroColumn | None], tally: Tally) -> AvroColumn:
    """A column of records. steps: over the fields by name, in order. children: the columns that these add to."""
    present: list[bool] = []

    def add_null() -> None:
        for child in children:
            if child is not None:
                child.add_null()
        present.append(False)

    return AvroColumn(fields_step(steps, tally, present), add_null, present, "record", tuple(children))


def fields_step(steps: Sequence[tuple[str, Read]], tally: Tally, present: list[bool] | None = None) -> Read:
    """A step over the fields of a record. present: where a record is noted."""

    def read(data: bytes, position: int) -> int:
        name, start = "", position
        try:
            for name, step in steps:  # noqa: B007 (the error needs the name)
                position = step(data, position)
        except DAMAGE as error:
            path = error.path if isinstance(error, FieldError) else ()
            raise FieldError((name, *path), reason(error)) from error
        if position == start:  # records of no bytes may hold each other, each twice the one before
            tally.nothing()
        if present is not None:
            present.append(True)
        return position

    return read


def list_column(children: Sequence[AvroColumn], tally: Tally) -> AvroColumn:
    """A column of lists, or of maps, whose items are a key and a value."""
    sizes: list[int | None] = []
    read = items_step([child.read for child in children], tally, sizes)
    return AvroColumn(read, lambda: sizes.append(None), sizes, "list", tuple(children))


def items_step(steps: Sequence[Read], tally: Tally, sizes: list[Any] | None = None) -> Read:
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
                    tally.nothing()
            if end is not None and position != end:
                raise ValueError("a block of items is not as long as it says")

    return read


def sequence_step(steps: Sequence[Read]) -> Read:
    """A step over values one after the other."""

    def read(data: bytes, position: int) -> int:
        for step in steps:
            position = step(data, position)
        return position

    return read


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


def _texts(values: list[Any]) -> Read:
    add = values.append
    return _lengths(lambda text: add(text.decode()))


def fixed(size: int, values: list[Any]) -> Read:
    """A step over a fixed number of bytes."""

    def read(data: bytes, position: int) -> int:
        end = position + size
        if end > len(data):
            raise IndexError(end)
        values.append(data[position:end])
        return end

    return read


def _packed(form: str, values: list[Any]) -> Read:
    packed = struct.Struct(form)
    size, unpack = packed.size, packed.unpack_from

    def read(data: bytes, position: int) -> int:
        if position + size > len(data):
            raise IndexError(position)
        values.append(unpack(data, position)[0])
        return position + size

    return read


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


def enum(symbols: Sequence[str], values: list[Any]) -> Read:
    """A step over an enum, which adds its symbol."""

    def read(data: bytes, position: int) -> int:
        index, position = decode_long(data, position)
        if not 0 <= index < len(symbols):
            raise ValueError(f"enum symbol {index} does not exist")
        values.append(symbols[index])
        return position

    return read


PRIMITIVES: dict[str, Callable[[list[Any]], Read]] = {
    "null": _nulls,
    "boolean": _booleans,
    "int": _longs,
    "long": _longs,
    "float": partial(_packed, "<f"),
    "double": partial(_packed, "<d"),
    "bytes": lambda values: _lengths(values.append),
    "string": _texts,
}
"""The readers of types without parts."""


def unknown(skip: Read, values: list[Any]) -> Read:
    """A step over a value of an unforeseen form, which adds a null."""

    def read(data: bytes, position: int) -> int:
        position = skip(data, position)
        values.append(None)
        return position

    return read


def memo(skip: Read, column: AvroColumn, convert: Callable[[Any], Any], values: list[Any]) -> Read:
    """A step that adds converted values: each distinct encoding is converted once. Equal encodings give one object."""
    known: dict[bytes, Any] = {}

    def read(data: bytes, position: int) -> int:
        end = skip(data, position)
        encoded = data[position:end]
        if encoded not in known:
            column.read(data, position)
            known[encoded] = convert(column.take()[0])
        values.append(known[encoded])
        return end

    return read


# Skipping numbers and byte strings, and the maps of statistics: most of a manifest.


def skip_long(data: bytes, position: int) -> int:
    """The position after a number."""
    while data[position] > 0x7F:
        position += 1
    return position + 1


def skip_bytes(data: bytes, position: int) -> int:
    """The position after a byte string or text."""
    length, position = decode_long(data, position)
    if length < 0 or position + length > len(data):
        raise IndexError(position)
    return position + length


def _next_block(data: bytes, position: int) -> tuple[int, int]:
    """The number of items in the next block of an array (0 at its end), and the position of the first one."""
    byte = data[position]
    if byte < 0x80 and not byte & 1:
        return byte >> 1, position + 1
    count, position = decode_long(data, position)
    if count < 0:  # the size of the block in bytes follows
        count = -count
        _, position = decode_long(data, position)
    if count > len(data):
        raise ValueError(f"an array claims {count} items, more than the data has bytes")
    return count, position


@lru_cache(maxsize=256)
def _numbers(count: int) -> re.Pattern[bytes]:
    return re.compile(rb"(?:[\x80-\xff]*+[\x00-\x7f]){%d}" % count)


def skip_long_items(data: bytes, position: int) -> int:
    """The position after an array of (number, number) records."""
    count, position = _next_block(data, position)
    while count:
        end = position + 2 * count
        # One byte each is the usual case of counts; otherwise the regular expression is the fastest loop there is.
        if data[position:end].isascii():
            position = end
        else:
            match = _numbers(2 * count).match(data, position)
            if match is None:
                raise IndexError(position)
            position = match.end()
        count, position = _next_block(data, position)
    return position


def skip_bytes_items(data: bytes, position: int) -> int:
    """The position after an array of (number, byte string) records."""
    count, position = _next_block(data, position)
    while count:
        for _ in range(count):
            while data[position] > 0x7F:
                position += 1
            length = data[position + 1]
            if length < 0x80 and not length & 1:
                position += 2 + (length >> 1)
            else:
                position = skip_bytes(data, position + 1)
        count, position = _next_block(data, position)
    return position


def int_map(
    decode: Callable[[bytes, int], tuple[Any, int]],
    skip: Read,
    keep: AbstractSet[int] | None,
    tally: Tally,
    values: list[Any],
) -> Read:
    """A step over an array of (number, value) records, which adds a dict of the keys in `keep` (None: all keys).

    decode, skip: over a value. A statistic that is given twice is unknown (iceberg 2.8).
    """

    def read(data: bytes, position: int) -> int:
        found: dict[int, Any] = {}
        repeated: set[int] = set()
        count, position = _next_block(data, position)
        while count:
            tally.items(len(found) + count, count, len(data))
            for _ in range(count):
                byte = data[position]
                if byte < 0x80:
                    key = (byte >> 1) ^ -(byte & 1)
                    position += 1
                else:
                    key, position = decode_long(data, position)
                if keep is None or key in keep:
                    if key in found:
                        repeated.add(key)
                    found[key], position = decode(data, position)
                else:
                    position = skip(data, position)
            count, position = _next_block(data, position)
        for key in repeated:
            del found[key]
        values.append(found)
        return position

    return read


def pairs_map(items: AvroColumn, keep: AbstractSet[int] | None, values: list[Any]) -> Read:
    """A step over statistics whose items are not plain pairs. items: lists of records of key and value."""

    def read(data: bytes, position: int) -> int:
        position = items.read(data, position)
        (pairs,) = items.take()
        times = Counter(key for key, _ in pairs)
        known = ((key, value) for key, value in pairs if value is not None and times[key] == 1)
        values.append({key: value for key, value in known if keep is None or key in keep})
        return position

    return read
