"""Offsets of fields in manifests, found entry by entry.

This slower decoder reads the manifests that `lockstep` does not: those with few entries, and those with unusual
encodings. Both decoders record the same offsets. A value in an unusual encoding is written again in the usual encoding,
after the block's own bytes: an array of several blocks as one block, a map whose items have more than two plain fields
as plain pairs, and an enum as text. If the items of a map have an unknown layout, or a number exceeds 64 bits, the
value counts as unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from harness.metadata.files.avro_container import LONG, check_kind, decode_error
from harness.metadata.files.avro_schema import Node
from harness.metadata.files.avro_values import (
    DAMAGE,
    ReadStep,
    Tally,
    column_of,
    decode_bytes,
    decode_long,
    encode_long,
    fields_step,
    skip_bytes,
    skip_of,
    union_step,
)
from harness.metadata.iceberg.columns.lockstep import KINDS, NOWHERE, FieldOffsets, Slot, Varints, slots_of
from harness.metadata.iceberg.manifests import ManifestReader
from harness.storage.records import dataclass


def sequential_offsets(
    reader: ManifestReader, slots: tuple[Slot, ...], groups: Iterable[Iterable[tuple[int, bytes]]]
) -> Iterator[FieldOffsets]:
    """Yield the offsets of fields for each group of blocks, read entry by entry.

    Args:
        reader: The reader of the manifest that has the blocks, or of the first of several manifests with the same
            schema.
        slots: The fields to find.
        groups: Groups of blocks; each block comes with its number of entries.

    Raises:
        CorruptFileError: A block is damaged or truncated, or a field has the wrong type.
        LimitError: A block exceeds the limits.
    """
    container = reader.container
    notes, tally = _OffsetRecorder(), Tally(container.limits, container.file)
    try:
        step = _record(container.schema, slots, notes, tally)
    except DAMAGE as error:
        raise decode_error(error, file=container.file) from error

    lists = notes.lists()

    def read(data: bytes, position: int) -> int:
        for places in lists:
            places.append(NOWHERE)
        return step(data, position)

    for group in groups:
        notes.clear()
        for count, block in group:
            notes.begin(block, count)
            try:
                container.read_block(read, count, block)
            except DAMAGE as error:
                raise decode_error(error, file=container.file) from error
            notes.end()
        yield notes.walk()


@dataclass(slots=True)
class _OffsetRecorder:
    """A recorder of the offsets in a group of blocks, one offset per entry and field.

    Attributes:
        data: The blocks before the current one, each followed by the bytes that were written for it.
        base: Number of bytes in `data`.
        entries: Number of entries in `data` and in the current block.
        block: The current block. Offsets are relative to its start until `end` is called.
        count: Number of entries in the current block.
        written: Bytes that follow the current block: values written again in the usual encoding.
    """

    data: list[bytes] = field(default_factory=list)
    base: int = 0
    entries: int = 0
    block: bytes = b""
    count: int = 0
    written: bytearray = field(default_factory=bytearray)
    starts: dict[str, list[int]] = field(default_factory=dict)
    ends: dict[str, list[int]] = field(default_factory=dict)
    counts: dict[str, list[int]] = field(default_factory=dict)
    pairs: dict[tuple[str, int], list[int]] = field(default_factory=dict)

    def lists(self) -> list[list[int]]:
        return [*self.starts.values(), *self.ends.values(), *self.counts.values(), *self.pairs.values()]

    def clear(self) -> None:
        self.data.clear()
        self.base = self.entries = 0
        for places in self.lists():
            places.clear()

    def begin(self, block: bytes, count: int) -> None:
        self.block, self.count, self.written = block, count, bytearray()
        self.entries += count

    def end(self) -> None:
        """End the current block, and make its offsets relative to the start of the group."""
        if self.base:
            first = self.entries - self.count
            for places in (*self.starts.values(), *self.ends.values(), *self.pairs.values()):
                places[first:] = [NOWHERE if at == NOWHERE else at + self.base for at in places[first:]]
        self.data += (self.block, bytes(self.written))
        self.base += len(self.block) + len(self.written)

    def write(self, data: bytes) -> tuple[int, int]:
        """Append bytes after the block, and return the offsets at which they begin and end."""
        start = len(self.block) + len(self.written)
        self.written += data
        return start, start + len(data)

    def walk(self) -> FieldOffsets:
        offsets = FieldOffsets(Varints.index(self.data), self.entries)
        for arrays, places in ((offsets.starts, self.starts), (offsets.ends, self.ends), (offsets.counts, self.counts)):
            arrays.update({slot: np.array(values, dtype=np.int64) for slot, values in places.items()})
        for key, values in self.pairs.items():
            at = np.array(values, dtype=np.int64)
            offsets.pairs[key] = at, (at != NOWHERE).astype(np.int64)
        return offsets


def _record(record: Node, slots: tuple[Slot, ...], notes: _OffsetRecorder, tally: Tally) -> ReadStep:
    if record.kind != "record":
        raise TypeError(f"expected a record, got {record.kind}")
    steps = []
    for name, node, slot in zip(record.names, record.children, slots_of(record, slots), strict=True):
        if slot is not None:
            check_kind(node, KINDS.get(slot.kind, frozenset()), name)
        steps.append((name, _step(node, slot, notes, tally)))
    return fields_step(steps, tally)


def _step(node: Node, slot: Slot | None, notes: _OffsetRecorder, tally: Tally) -> ReadStep:
    if slot is None or node.kind == "null":
        return skip_of(node, tally)
    if node.kind == "union":
        branches = [None if child.kind == "null" else _step(child, slot, notes, tally) for child in node.children]
        return union_step(branches)
    if slot.fields:
        return _record(node, slot.fields, notes, tally)
    starts = notes.starts.setdefault(slot.name, [])
    if slot.kind == "number":
        return _number(slot, starts)
    ends = notes.ends.setdefault(slot.name, [])
    match slot.kind:
        case "text" | "bytes" if node.kind in ("string", "bytes"):
            return _byte_string(starts, ends)
        case "text" | "bytes":

            def place(value: Any) -> None:
                starts[-1], ends[-1] = notes.write(value.encode() if isinstance(value, str) else value)

            return _rewrite(node, tally, place)
        case "encoded":
            return _encoded(skip_of(node, tally), starts, ends)
        case "numbers":
            notes.counts.setdefault(slot.name, [])
            return _rewrite(node, tally, lambda values: _note_numbers(notes, slot.name, len(values), values))
        case "counts" | "bounds":
            return _map(node, slot, notes, tally)


def _number(slot: Slot, starts: list[int]) -> ReadStep:
    def read(data: bytes, position: int) -> int:
        value, end = decode_long(data, position)
        if is_long(value):
            starts[-1] = position
        elif slot.is_strict:
            raise ValueError(f"{value} exceeds 64 bits")
        return end

    return read


def _byte_string(starts: list[int], ends: list[int]) -> ReadStep:
    def read(data: bytes, position: int) -> int:
        ends[-1] = end = skip_bytes(data, position)
        starts[-1] = decode_long(data, position)[1]
        return end

    return read


def _encoded(skip: ReadStep, starts: list[int], ends: list[int]) -> ReadStep:
    def read(data: bytes, position: int) -> int:
        starts[-1], ends[-1] = position, skip(data, position)
        return ends[-1]

    return read


def _rewrite(node: Node, tally: Tally, note: Callable[[Any], None]) -> ReadStep:
    """Return a step that decodes a value and calls `note` with it."""
    column = column_of(node, tally)

    def read(data: bytes, position: int) -> int:
        end = column.read(data, position)
        note(column.take()[0])
        return end

    return read


def _note_numbers(notes: _OffsetRecorder, name: str, count: int, numbers: list[Any]) -> None:
    """Write numbers as an array of one block, and record where it is.

    `count` is the number of items, which is half of the numbers for a map.
    """
    if count and all(map(is_long, numbers)):
        notes.starts[name][-1], notes.ends[name][-1] = notes.write(b"".join(map(encode_long, numbers)))
        notes.counts[name][-1] = count


def _map(node: Node, slot: Slot, notes: _OffsetRecorder, tally: Tally) -> ReadStep:
    notes.counts.setdefault(slot.name, [])
    places_by_key = (
        {} if slot.kind == "counts" else {key: notes.pairs.setdefault((slot.name, key), []) for key in slot.keys}
    )
    decode = _pairs_decoder(node, slot, tally)
    if decode is None:
        return skip_of(node, tally)

    def read(data: bytes, position: int) -> int:
        values_by_key, end = decode(data, position)
        requested = [(key, values_by_key[key]) for key in slot.keys if key in values_by_key]
        if slot.kind == "counts":
            numbers = [number for key, value in requested if is_long(value) for number in (key, value)]
            _note_numbers(notes, slot.name, len(numbers) // 2, numbers)
            return end
        for key, value in requested:
            if type(value) is bytes:
                places_by_key[key][-1], _ = notes.write(encode_long(len(value)) + value)
        return end

    return read


def map_decoder(reader: ManifestReader, slot: Slot) -> Callable[[bytes | None], dict[int, Any] | None]:
    """Return a function that decodes a map of statistics, like `value_counts`, to its known values by field id."""
    file = reader.container.schema.field(2, "data_file")
    node = None if file is None else file.field(slot.id, slot.name)
    tally = Tally(reader.container.limits, reader.container.file)
    decode = None if node is None else _pairs_decoder(node.value, slot, tally)

    def decoded(data: bytes | None) -> dict[int, Any] | None:
        if data is None or decode is None:
            return None
        values_by_key, _ = decode(data, 0)
        return {id_: value for id_, value in values_by_key.items() if type(value) is bytes or is_long(value)}

    return decoded


_Pairs: TypeAlias = tuple[dict[int, Any], int]


def _pairs_decoder(node: Node, slot: Slot, tally: Tally) -> Callable[[bytes, int], _Pairs] | None:
    """Return a function that decodes a map and returns its known values and the offset after it.

    A value that is null or whose key occurs twice is unknown (iceberg 2.8).

    Returns:
        The function, or None if the type is not an array of key-value records.
    """
    places = slot.pair_of(node)
    if places is None:
        return None
    item, (key, value) = node.children[0].children, places
    if places == (0, 1) and len(item) == 2 and item[0].kind in LONG and item[1].kind in ("long", "int", "bytes"):
        return partial(_usual_pairs, decode_long if item[1].kind in LONG else decode_bytes, tally)
    column = column_of(node, tally)

    def decode(data: bytes, position: int) -> _Pairs:
        end = column.read(data, position)
        (items,) = column.take()
        times = Counter([item[key] for item in items])
        pairs = [(item[key], item[value]) for item in items if times[item[key]] == 1 and item[value] is not None]
        return {
            id_: values_by_key.encode() if type(values_by_key) is str else values_by_key for id_, values_by_key in pairs
        }, end

    return decode


def _usual_pairs(decode: Callable[[bytes, int], tuple[Any, int]], tally: Tally, data: bytes, position: int) -> _Pairs:
    """Decode a map whose items are exactly a number and a plain value. Most of the time per entry is spent here."""
    pairs: dict[int, Any] = {}
    repeated: set[int] = set()
    size = 0
    while True:
        count, position = decode_long(data, position)
        if count == 0:
            break
        end = None
        if count < 0:
            length, position = decode_long(data, position)
            count, end = -count, position + length
        size += count
        tally.items(size, count, len(data))
        for _ in range(count):
            byte = data[position]
            if byte < 0x80:
                key, position = (byte >> 1) ^ -(byte & 1), position + 1
            else:
                key, position = decode_long(data, position)
            if key in pairs:
                repeated.add(key)
            pairs[key], position = decode(data, position)
        if end is not None and position != end:
            raise ValueError("a block of items has another length than it declares")
    for key in repeated:
        del pairs[key]
    return pairs, position


def is_long(number: object) -> bool:
    """Return whether a value is an integer of at most 64 bits. Integers in Avro may be longer."""
    return type(number) is int and -(1 << 63) <= number < 1 << 63
