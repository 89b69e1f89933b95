"""Offsets of fields in many Avro blocks, found for all blocks in lockstep.

Blocks of manifests with one schema are put into one buffer, and each block is a *lane*. The first entries of all lanes
are decoded together, then the second entries, and so on. A step skips one field of the schema in every lane: it takes
and returns arrays of byte offsets with one element per lane. Values are decoded later, from all entries at once (see
`stored`).

Some steps are simple: a number ends at the first byte below 128, a byte string ends after its length, and an optional
value is present or absent. Maps of counts, which are most of a manifest, are skipped in one step whatever their length:
`Varints` is an index of the bytes that end a number, so the end of the n-th number after an offset can be looked up.
Maps of bounds are skipped item by item.

A NumPy call costs the same for ten entries as for a thousand, so lockstep pays off only with many lanes. If there are
few, long blocks, `entries` guesses the offsets of all entries first and makes each entry a lane.

Damage, and encodings that only a decoder of single values should handle, raise `UnusualEncoding`. Then `sequential`
decodes that manifest entry by entry, records the same offsets, and reports the error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from harness.metadata.files.avro_container import ARRAY, BYTES, LONG, TEXT
from harness.metadata.files.avro_schema import Node
from harness.metadata.model.arrow_values import Indices
from harness.storage.records import dataclass

_LONGEST = 10
_PADDING = 16
_CHUNK = 1 << 18
_GROUP = 8
"""Number of bytes of data that one byte of the index covers."""
_SUMS = np.uint64(0x0101010101010101)
_LAST = np.uint64(56)
_FROM = np.array([256 - (1 << place) for place in range(_GROUP)], dtype=np.uint8)
"""Masks of the bits at a position and after it, by position in the group."""
_NTH = np.array(
    [([place for place in range(_GROUP) if bits >> place & 1] + [0] * _GROUP)[:_GROUP] for bits in range(1 << _GROUP)],
    dtype=np.int64,
)
"""The position of the first, second, … set bit of a byte."""


class UnusualEncoding(Exception):
    """A manifest or schema that must be decoded entry by entry because it is damaged or unusual."""


@dataclass(frozen=True, slots=True)
class Varints:
    """A buffer with an index of the bytes that can end a number.

    Attributes:
        data: The bytes, padded with zeros so that reading a few bytes from the last offset is safe.
        size: Number of bytes without the padding.
    """

    data: npt.NDArray[np.uint8]
    size: int
    _ends: npt.NDArray[np.uint8]  # a bit per byte of data: whether a number can end there
    # number of set bits up to the end of each group, counted from the start of its word of eight groups
    _within: npt.NDArray[np.uint8]
    _before: npt.NDArray[np.int32]  # number of set bits in all words before; one more element for the end of the data

    @staticmethod
    def index(blocks: Sequence[bytes]) -> Varints:
        """Return a buffer with the given blocks in order, with its index. The blocks have less than 2 GiB in total."""
        size = sum(map(len, blocks))
        padding = _PADDING + -(size + _PADDING) % (_GROUP * _GROUP)
        data = np.frombuffer(b"".join((*blocks, bytes(padding))), dtype=np.uint8)
        ends = np.empty(len(data) // _GROUP, dtype=np.uint8)
        for start in range(0, len(data), _CHUNK):  # chunks that fit into the processor's cache are many times faster
            part = data[start : start + _CHUNK]
            ends[start // _GROUP : (start + len(part)) // _GROUP] = np.packbits(part < 0x80, bitorder="little")
        # Each byte of the product is the sum of the bytes of the first factor up to that byte.
        within = np.bitwise_count(ends).view("<u8") * _SUMS
        before = np.zeros(len(within) + 1, dtype=np.int32)
        np.cumsum(within >> _LAST, out=before[1:], dtype=np.int32)
        return Varints(data, size, ends, within.view(np.uint8), before)

    def skip(self, at: Indices) -> Indices:
        """Return the offset after each number."""
        after = at + 1
        longer = (self.data.take(at) >= 0x80).nonzero()[0]
        while longer.size:
            byte = self.data.take(after[longer])
            after[longer] += 1
            longer = longer[byte >= 0x80]
        return after

    def skip_many(self, at: Indices, count: Indices) -> Indices:
        """Return the offset after `count` consecutive numbers, where each count is 1 or more."""
        group = at >> 3
        ends = self._ends.take(group)
        remaining_numbers = self._numbers_before_end(group) - np.bitwise_count(ends & _FROM.take(at & 7)) + count
        if remaining_numbers.size and int(remaining_numbers.max()) > int(self._before[-1]):
            raise UnusualEncoding
        while True:
            # At most eight numbers end in a group, so skipping an eighth of the remaining numbers never skips too many
            # groups.
            until = self._numbers_before_end(group)
            ahead = (remaining_numbers - until + 7) >> 3
            if not ahead.any():
                break
            group += ahead
        ends = self._ends.take(group)
        nth = _NTH[ends, remaining_numbers - until + np.bitwise_count(ends) - 1]
        after: Indices = (group << 3) + nth + 1
        return after

    def _numbers_before_end(self, group: Indices) -> Indices:
        """Return how many numbers end before the end of each group of bytes."""
        offsets: Indices = self._before.take(group >> 3) + self._within.take(group)
        return offsets

    def numbers(self, at: Indices) -> tuple[Indices, Indices]:
        """Return the number (int or long) at each offset, and the offset after it.

        Raises UnusualEncoding if a number exceeds 64 bits.
        """
        byte = self.data.take(at)
        after = at + 1
        longer = (byte >= 0x80).nonzero()[0]
        if not longer.size:
            return (byte >> 1).astype(np.int64) ^ -(byte & 1).astype(np.int64), after
        values = (byte & 0x7F).astype(np.uint64)
        for place in range(1, _LONGEST):
            if not longer.size:
                break
            byte = self.data.take(after[longer])
            if place == _LONGEST - 1 and int(byte.max()) > 1:
                raise UnusualEncoding
            values[longer] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * place)
            after[longer] += 1
            longer = longer[byte >= 0x80]
        signs = -(values & np.uint64(1)).astype(np.int64)
        return (values >> np.uint64(1)).astype(np.int64) ^ signs, after

    def lengths(self, at: Indices) -> tuple[Indices, Indices]:
        """Return the length or count at each offset, and the offset after it.

        Raises UnusualEncoding if a length is negative.
        """
        byte = self.data.take(at)
        if not (byte & 0x81).any():
            values, after = (byte >> 1).astype(np.int64), at + 1
            negative = False
        else:
            values, after = self.numbers(at)
            negative = bool((values < 0).any())
        if negative or (values.size and int(values.max()) > self.size):
            raise UnusualEncoding
        return values, after


Step: TypeAlias = Callable[["FieldOffsets", Indices, Indices], Indices]
"""Takes the offsets found so far, the offset at which a value begins in each lane, and the number of the entry in each
lane. Returns the offsets after the values."""

MAX_ITEMS = 100_000
"""Longer lists and maps are decoded entry by entry, which counts them against the limits."""

NOWHERE = -1


@dataclass(slots=True)
class FieldOffsets:
    """The byte offsets of fields in some entries, by name of the slot.

    Attributes:
        varints: The buffer.
        size: Number of entries.
        starts: Offset at which the value begins; `NOWHERE` if the value is null or missing.
        ends: Offset at which the value ends.
        counts: Number of items in an array.
        pairs: For maps from integers to bytes, by slot and key: the offsets of the values, and how often the key
            occurs.
    """

    varints: Varints
    size: int
    starts: dict[str, Indices] = field(default_factory=dict)
    ends: dict[str, Indices] = field(default_factory=dict)
    counts: dict[str, Indices] = field(default_factory=dict)
    pairs: dict[tuple[str, int], tuple[Indices, Indices]] = field(default_factory=dict)

    def note(self, notes: dict[str, Indices], slot: str, entries: Indices, places: Indices) -> None:
        """Record offsets (or counts) of a slot for some entries."""
        if slot not in notes:
            notes[slot] = np.full(self.size, NOWHERE, dtype=np.int64)
        notes[slot][entries] = places

    def note_pairs(self, slot: str, key: int, entries: Indices, places: Indices) -> None:
        """Record that the maps of some entries have the key, with the offsets of the values."""
        if (slot, key) not in self.pairs:
            nowhere = np.full(self.size, NOWHERE, dtype=np.int64)
            self.pairs[slot, key] = nowhere, np.zeros(self.size, dtype=np.int64)
        offsets, times = self.pairs[slot, key]
        offsets[entries] = places
        times[entries] += 1


def advance(varints: Varints, step: Step, starts: Indices, counts: Indices) -> tuple[FieldOffsets, Indices]:
    """Decode the next `counts` entries of every lane.

    Args:
        varints: The buffer.
        step: The step over one entry.
        starts: The offset at which each lane begins.
        counts: Number of entries to decode in each lane.

    Returns:
        The offsets of fields, and the offset after the last entry of each lane.

    Raises:
        UnusualEncoding: An entry is damaged or has an unusual encoding.
    """
    firsts = np.cumsum(counts) - counts
    order = np.argsort(-counts, kind="stable")
    at, numbers, remaining = starts[order].copy(), firsts[order], counts[order]
    offsets = FieldOffsets(varints, int(counts.sum()))
    try:
        for round_ in range(int(remaining[0]) if len(remaining) else 0):
            # Lanes are sorted by descending number of entries. Finished lanes, at the end, keep their offsets.
            active = int(np.searchsorted(-remaining, -round_, side="left"))
            at[:active] = step(offsets, at[:active], numbers[:active] + round_)
    except IndexError as error:
        raise UnusualEncoding from error
    after = np.empty_like(at)
    after[order] = at
    return offsets, after


def number(slot: str | None = None) -> Step:
    """Return the step over an int or long."""

    def step(offsets: FieldOffsets, at: Indices, entries: Indices) -> Indices:
        if slot is not None:
            offsets.note(offsets.starts, slot, entries, at)
        return offsets.varints.skip(at)

    return step


def byte_string(slot: str | None = None) -> Step:
    """Return the step over a string or bytes. The step records the offsets of the bytes without the length."""

    def step(offsets: FieldOffsets, at: Indices, entries: Indices) -> Indices:
        length, start = offsets.varints.lengths(at)
        end = start + length
        if slot is not None:
            offsets.note(offsets.starts, slot, entries, start)
            offsets.note(offsets.ends, slot, entries, end)
        return end

    return step


def _boolean(offsets: FieldOffsets, at: Indices, entries: Indices) -> Indices:
    if int(offsets.varints.data.take(at).max()) > 1:
        raise UnusualEncoding
    return at + 1


def record(steps: Sequence[Step]) -> Step:
    """Return the step over the fields of a record, in order."""

    def step(offsets: FieldOffsets, at: Indices, entries: Indices) -> Indices:
        for each in steps:
            at = each(offsets, at, entries)
        return at

    return step


def encoded(inner: Step, slot: str) -> Step:
    """Return the step over any value. The step records the offsets at which the encoded bytes begin and end."""

    def step(offsets: FieldOffsets, at: Indices, entries: Indices) -> Indices:
        after = inner(offsets, at, entries)
        offsets.note(offsets.starts, slot, entries, at)
        offsets.note(offsets.ends, slot, entries, after)
        return after

    return step


def optional(null: int, inner: Step) -> Step:
    """Return the step over a union of null and another type. `null` is the index of the null branch, 0 or 1."""
    absent, present = 2 * null, 2 - 2 * null

    def step(offsets: FieldOffsets, at: Indices, entries: Indices) -> Indices:
        branch = offsets.varints.data.take(at)
        has_value = branch == present
        after = at + 1
        if has_value.all():
            return inner(offsets, after, entries)
        if not (has_value | (branch == absent)).all():
            raise UnusualEncoding
        if has_value.any():
            after[has_value] = inner(offsets, after[has_value], entries[has_value])
        return after

    return step


def _array(items: Callable[[FieldOffsets, Indices, Indices, Indices], Indices]) -> Step:
    """Return the step over an array of one block: a count, the items, and the count 0 that ends the array."""

    def step(offsets: FieldOffsets, at: Indices, entries: Indices) -> Indices:
        count, after = offsets.varints.lengths(at)
        if int(count.max()) > MAX_ITEMS:
            raise UnusualEncoding
        filled = count > 0
        if not filled.any():
            return after
        if filled.all():
            return _skip_end(offsets, items(offsets, after, entries, count))
        after[filled] = _skip_end(offsets, items(offsets, after[filled], entries[filled], count[filled]))
        return after

    return step


def _skip_end(offsets: FieldOffsets, at: Indices) -> Indices:
    if offsets.varints.data.take(at).any():
        raise UnusualEncoding
    return at + 1


def numbers(width: int, slot: str | None = None) -> Step:
    """Return the step over an array of numbers, or, with `width` 2, of pairs of numbers (a map of counts).

    The step records the number of items and the offsets at which they begin and end; nothing for an empty array.
    """

    def items(offsets: FieldOffsets, at: Indices, entries: Indices, count: Indices) -> Indices:
        after = offsets.varints.skip_many(at, width * count)
        # A number of more than ten bytes is damage. The total length reveals it only if there is one item.
        if width == 1 and (after - at > 10).any():
            _check_each(offsets, at, count)
        if slot is not None:
            offsets.note(offsets.starts, slot, entries, at)
            offsets.note(offsets.counts, slot, entries, count)
            offsets.note(offsets.ends, slot, entries, after)
        return after

    return _array(items)


def _check_each(offsets: FieldOffsets, at: Indices, count: Indices) -> None:
    for item in range(int(count.max())):
        going = count > item
        at, count = at[going], count[going]
        after = offsets.varints.skip(at)
        if (after - at > 10).any():
            raise UnusualEncoding
        at = after


def byte_pairs(slot: str = "", keys: Sequence[int] = ()) -> Step:
    """Return the step over an array of pairs of an int and a byte string: a map of bounds.

    The step records the offsets of the values of `keys`.
    """
    bytes_ = [(key, key << 1) for key in keys if 0 <= key < 64]  # in the encoding of Avro

    def items(offsets: FieldOffsets, at: Indices, entries: Indices, count: Indices) -> Indices:
        most = int(count.max())
        uniform = most == int(count.min())
        after = at
        for item in range(most):
            if uniform:
                after = pair_step(offsets, after, entries)
            else:
                going = count > item
                after = after.copy()
                after[going] = pair_step(offsets, after[going], entries[going])
        return after

    def pair_step(offsets: FieldOffsets, at: Indices, entries: Indices) -> Indices:
        key, length = offsets.varints.data.take(at), offsets.varints.data.take(at + 1)
        if ((key & 0x80) | (length & 0x81)).any():
            return long_pair_step(offsets, at, entries)
        # The fast path: each key and each length is a number of one byte, and no length is negative.
        for requested, byte in bytes_:
            hit = key == byte
            if hit.any():
                offsets.note_pairs(slot, requested, entries[hit], at[hit] + 1)
        after: Indices = at + 2 + (length >> 1)
        return after

    def long_pair_step(offsets: FieldOffsets, at: Indices, entries: Indices) -> Indices:
        value = offsets.varints.skip(at)
        if int((value - at).max()) > 10:
            raise UnusualEncoding
        if keys:
            key, _ = offsets.varints.numbers(at)
            for requested in keys:
                hit = key == requested
                if hit.any():
                    offsets.note_pairs(slot, requested, entries[hit], value[hit])
        length, start = offsets.varints.lengths(value)
        return start + length

    return _array(items)


SlotKind: TypeAlias = Literal["number", "numbers", "text", "bytes", "encoded", "counts", "bounds"]


@dataclass(frozen=True, slots=True)
class Slot:
    """A field whose offsets are recorded.

    Attributes:
        id: Its field id.
        name: Its name, used if the schema has no ids (iceberg 2.1).
        kind: `encoded` records the bytes of a whole value. `numbers` is a list. `counts` and `bounds` are maps by field
            id.
        fields: The slots in a record whose own bytes are not recorded.
        pair: The field ids of the key and the value of a map.
        keys: The keys of a map to look up.
        is_strict: If True, a number beyond 64 bits is damage. If False, it is unknown, because some writers have such
            ids.
    """

    id: int
    name: str
    kind: SlotKind
    fields: tuple[Slot, ...] = ()
    pair: tuple[int, int] = (0, 0)
    keys: tuple[int, ...] = ()
    is_strict: bool = False

    def pair_of(self, node: Node) -> tuple[int, int] | None:
        """Return the indexes of key and value in the records of an array, or None for any other type."""
        item = node.children[0] if node.kind == "array" else node
        if node.kind != "array" or item.kind != "record":
            return None
        key, value = item.field_index(self.pair[0], "key"), item.field_index(self.pair[1], "value")
        return None if key is None or value is None or key == value else (key, value)


PATH = Slot(100, "file_path", "text")

KINDS: Mapping[SlotKind, frozenset[str]] = {
    "number": LONG,
    "text": TEXT,
    "bytes": BYTES,
    "numbers": ARRAY,
}
"""The Avro types that a slot of a kind may have. Other kinds may have any type."""


def slots_of(record: Node, slots: Sequence[Slot]) -> list[Slot | None]:
    """Return the slot of each field of a record, or None for a field without a slot.

    If several fields match a slot, the first field gets it.
    """
    offsets: list[Slot | None] = [None] * len(record.children)
    for slot in slots:
        place = record.field_index(slot.id, slot.name)
        if place is not None:
            offsets[place] = slot
    return offsets


def entry_steps(schema: Node, slots: tuple[Slot, ...]) -> tuple[Step, tuple[Step, Step] | None] | None:
    """Return the steps that decode an entry of `schema`.

    Returns:
        A pair: the step over a whole entry, and the steps over the fields before and after the file's path. The second
            item is None if the path is optional. The whole result is None if entries with this schema must be decoded
            one by one.
    """
    try:
        fields = _field_steps(schema, slots)
    except UnusualEncoding:
        return None
    steps = [step for _, step in fields]
    paths = [place for place, (slot, _) in enumerate(fields) if slot is PATH]
    around = (record(steps[: paths[0]]), record(steps[paths[0] + 1 :])) if paths else None
    return record(steps), around


_LARGEST_FIXED = 1 << 20


def _field_steps(schema: Node, slots: Sequence[Slot]) -> list[tuple[Slot | None, Step]]:
    """Return the steps over the fields of a record, each with its slot.

    An inner record with slots is replaced by its fields.
    """
    if schema.kind != "record":
        raise UnusualEncoding
    steps: list[tuple[Slot | None, Step]] = []
    for node, slot in zip(schema.children, slots_of(schema, slots), strict=True):
        if slot is not None and slot.fields and node.kind == "record":
            steps += _field_steps(node, slot.fields)
        elif node.kind != "union":
            steps.append((slot, _value_step(node, slot)))
        else:
            kinds = [branch.kind for branch in node.children]
            if len(kinds) != 2 or kinds.count("null") != 1:
                raise UnusualEncoding
            null = kinds.index("null")
            steps.append((None, optional(null, _value_step(node.children[1 - null], slot))))
    return steps


def _value_step(node: Node, slot: Slot | None) -> Step:
    if slot is None:
        return _skip_step(node)
    if node.kind not in KINDS.get(slot.kind, (node.kind,)):
        raise UnusualEncoding
    match slot.kind:
        case "number":
            return number(slot.name)
        case "text" | "bytes" if node.kind in ("string", "bytes"):
            return byte_string(slot.name)
        case "numbers" if node.children[0].kind in LONG:
            return numbers(1, slot.name)
        case "encoded" if slot.fields:
            return record([step for _, step in _field_steps(node, slot.fields)])
        case "encoded":
            return encoded(_skip_step(node), slot.name)
        case "counts" if slot.pair_of(node) == (0, 1) and _pair_values(node) == "numbers":
            return numbers(2, slot.name)
        case "bounds" if slot.pair_of(node) == (0, 1) and _pair_values(node) == "bytes":
            return byte_pairs(slot.name, slot.keys)
        case _:
            raise UnusualEncoding


def _skip_step(node: Node) -> Step:
    match node.kind:
        case "int" | "long":
            return number()
        case "string" | "bytes":
            return byte_string()
        case "boolean":
            return _boolean
        case "float" | "double":
            return lambda offsets, at, entries: at + (4 if node.kind == "float" else 8)
        case "fixed" if node.size <= _LARGEST_FIXED:
            return lambda offsets, at, entries: at + node.size
        case "record":
            return record([step for _, step in _field_steps(node, ())])
        case "array" if node.children[0].kind in LONG:
            return numbers(1)
        case "array" if _pair_values(node) == "numbers":
            return numbers(2)
        case "array" if _pair_values(node) == "bytes":
            return byte_pairs()
        case _:
            raise UnusualEncoding


def _pair_values(node: Node) -> Literal["numbers", "bytes"] | None:
    """Return the kind of the values in a map with integer keys, or None for any other type."""
    item = node.children[0] if node.kind == "array" else node
    match [part.kind for part in item.children] if item.kind == "record" else []:
        case ["int" | "long", "int" | "long"]:
            return "numbers"
        case ["int" | "long", "bytes" | "string"]:
            return "bytes"
        case _:
            return None
