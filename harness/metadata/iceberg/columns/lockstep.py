"""A walk over many Avro blocks in step, which notes the places of the wanted fields of their entries.

The blocks of manifests with one schema lie in one buffer, and each is a *lane*: the first entries of all blocks are
walked together, then the second ones, and so on. A step goes over one field of the schema in every lane: functions take
and give arrays with one element per lane. Values are made later, from all entries at once (see `raw`).

Some steps are plain: a number ends at the first byte below 128, a byte string behind its length, an optional value is
there or not. Maps of counts, most of a manifest, are passed in one step whatever they hold: an index of the bytes that
end a number (`Varints`) says where the n-th number from a place ends. Maps of bounds are passed item by item.

A step that takes one NumPy call for ten entries costs as much as for a thousand, so a walk in step pays off from many
lanes on. Where lanes are few and long, `entries` guesses the places of all entries first, and each is a lane.

Anything wrong, or so odd that a decoder of single values had better judge it, raises `UnusualEncoding`. Then `alone` walks over
that manifest entry by entry, notes the same places, and names what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from harness.metadata.files.avro_container import ARRAY, BYTES, LONG, TEXT
from harness.metadata.files.avro_schema import Node
from harness.metadata.model.arrow_values import Places
from harness.storage.records import dataclass

_LONGEST = 10
_PADDING = 16
_CHUNK = 1 << 18
_GROUP = 8
"""Bytes that one byte of the index stands for."""
_SUMS = np.uint64(0x0101010101010101)
_LAST = np.uint64(56)
_FROM = np.array([256 - (1 << place) for place in range(_GROUP)], dtype=np.uint8)
"""The bits of a group that stand at each of its places or behind it."""
_NTH = np.array(
    [([place for place in range(_GROUP) if bits >> place & 1] + [0] * _GROUP)[:_GROUP] for bits in range(1 << _GROUP)],
    dtype=np.int64,
)
"""The place of the first, second, … bit that is set in a group."""


class UnusualEncoding(Exception):
    """A manifest, or a schema, to walk over entry by entry: it may be damaged, or only unusual."""


@dataclass(frozen=True, slots=True)
class Varints:
    """A buffer, with an index of where numbers may end in it.

    data: the bytes, with some zeros behind them, so that reading a few bytes from the last place is no error.
    """

    data: npt.NDArray[np.uint8]
    size: int
    _ends: npt.NDArray[np.uint8]  # a bit for each offset: whether its byte can be the last one of a number
    _within: npt.NDArray[np.uint8]  # how many bits are set up to the end of each group, in its word of groups
    _before: npt.NDArray[np.int32]  # how many bits are set in the words before; for the end of the data, too

    @staticmethod
    def index(blocks: Sequence[bytes]) -> Varints:
        """The index of some blocks, one behind the other, which together have less than 2 GiB."""
        size = sum(map(len, blocks))
        padding = _PADDING + -(size + _PADDING) % (_GROUP * _GROUP)
        data = np.frombuffer(b"".join((*blocks, bytes(padding))), dtype=np.uint8)
        ends = np.empty(len(data) // _GROUP, dtype=np.uint8)
        for start in range(0, len(data), _CHUNK):  # what fits into a cache is many times as fast
            part = data[start : start + _CHUNK]
            ends[start // _GROUP : (start + len(part)) // _GROUP] = np.packbits(part < 0x80, bitorder="little")
        # A product with this number has in each byte the sum of the factor's bytes up to there.
        within = np.bitwise_count(ends).view("<u8") * _SUMS
        before = np.zeros(len(within) + 1, dtype=np.int32)
        np.cumsum(within >> _LAST, out=before[1:], dtype=np.int32)
        return Varints(data, size, ends, within.view(np.uint8), before)

    def skip(self, at: Places) -> Places:
        """The places after a number each."""
        after = at + 1
        longer = (self.data.take(at) >= 0x80).nonzero()[0]
        while longer.size:
            byte = self.data.take(after[longer])
            after[longer] += 1
            longer = longer[byte >= 0x80]
        return after

    def skip_many(self, at: Places, count: Places) -> Places:
        """The places after `count` numbers each, one or more, that follow each other."""
        group = at >> 3
        ends = self._ends.take(group)
        left = self._until(group) - np.bitwise_count(ends & _FROM.take(at & 7)) + count
        if left.size and int(left.max()) > int(self._before[-1]):
            raise UnusualEncoding
        while True:
            # In a group end eight numbers at most, so an eighth of those to come is never too many groups.
            until = self._until(group)
            ahead = (left - until + 7) >> 3
            if not ahead.any():
                break
            group += ahead
        ends = self._ends.take(group)
        nth = _NTH[ends, left - until + np.bitwise_count(ends) - 1]
        after: Places = (group << 3) + nth + 1
        return after

    def _until(self, group: Places) -> Places:
        """The count of numbers that can end up to the end of each group."""
        offsets: Places = self._before.take(group >> 3) + self._within.take(group)
        return offsets

    def numbers(self, at: Places) -> tuple[Places, Places]:
        """The ints or longs at the places, and the places after them; `UnusualEncoding` if one does not fit 64 bits."""
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

    def lengths(self, at: Places) -> tuple[Places, Places]:
        """Lengths or counts at the places, none negative, and the places after them."""
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


Step: TypeAlias = Callable[["FieldOffsets", Places, Places], Places]
"""Takes the places where a value begins, and the numbers of its entries. Returns the places after the value."""

MAX_ITEMS = 100_000
"""A longer list or map is decoded entry by entry, which counts it."""

NOWHERE = -1


@dataclass(slots=True)
class FieldOffsets:
    """The notes of a walk over entries, by slot.

    starts, ends: where the value of a slot lies in the buffer; `NOWHERE` where it is null or missing.
    counts: of an array's items.
    pairs: the places of the values of a map from whole numbers to bytes, by slot and key, and how often the key occurs.
    """

    varints: Varints
    size: int
    starts: dict[str, Places] = field(default_factory=dict)
    ends: dict[str, Places] = field(default_factory=dict)
    counts: dict[str, Places] = field(default_factory=dict)
    pairs: dict[tuple[str, int], tuple[Places, Places]] = field(default_factory=dict)

    def note(self, notes: dict[str, Places], slot: str, entries: Places, places: Places) -> None:
        """Notes places (or counts) of a slot for some entries."""
        if slot not in notes:
            notes[slot] = np.full(self.size, NOWHERE, dtype=np.int64)
        notes[slot][entries] = places

    def note_pairs(self, slot: str, key: int, entries: Places, places: Places) -> None:
        """Notes that the entries' maps have the key, with its value at the places."""
        if (slot, key) not in self.pairs:
            nowhere = np.full(self.size, NOWHERE, dtype=np.int64)
            self.pairs[slot, key] = nowhere, np.zeros(self.size, dtype=np.int64)
        offsets, times = self.pairs[slot, key]
        offsets[entries] = places
        times[entries] += 1


def advance(varints: Varints, step: Step, starts: Places, counts: Places) -> tuple[FieldOffsets, Places]:
    """Takes every lane over its next `counts` entries, and gives the places where these end. Raises Unsure.

    step: goes over one entry.
    """
    firsts = np.cumsum(counts) - counts
    order = np.argsort(-counts, kind="stable")
    at, numbers, remaining = starts[order].copy(), firsts[order], counts[order]
    offsets = FieldOffsets(varints, int(counts.sum()))
    try:
        for round_ in range(int(remaining[0]) if len(remaining) else 0):
            # Lanes with fewer entries are at the end; those that are through stay where they are.
            active = int(np.searchsorted(-remaining, -round_, side="left"))
            at[:active] = step(offsets, at[:active], numbers[:active] + round_)
    except IndexError as error:
        raise UnusualEncoding from error
    after = np.empty_like(at)
    after[order] = at
    return offsets, after


def number(slot: str | None = None) -> Step:
    """An int or long."""

    def step(offsets: FieldOffsets, at: Places, entries: Places) -> Places:
        if slot is not None:
            offsets.note(offsets.starts, slot, entries, at)
        return offsets.varints.skip(at)

    return step


def byte_string(slot: str | None = None) -> Step:
    """A string or bytes. Noted are the places of its bytes, without the length."""

    def step(offsets: FieldOffsets, at: Places, entries: Places) -> Places:
        length, start = offsets.varints.lengths(at)
        end = start + length
        if slot is not None:
            offsets.note(offsets.starts, slot, entries, start)
            offsets.note(offsets.ends, slot, entries, end)
        return end

    return step


def _boolean(offsets: FieldOffsets, at: Places, entries: Places) -> Places:
    if int(offsets.varints.data.take(at).max()) > 1:
        raise UnusualEncoding
    return at + 1


def record(steps: Sequence[Step]) -> Step:
    """A record's fields, in order."""

    def step(offsets: FieldOffsets, at: Places, entries: Places) -> Places:
        for each in steps:
            at = each(offsets, at, entries)
        return at

    return step


def encoded(inner: Step, slot: str) -> Step:
    """Any value. Noted are where its bytes begin and end."""

    def step(offsets: FieldOffsets, at: Places, entries: Places) -> Places:
        after = inner(offsets, at, entries)
        offsets.note(offsets.starts, slot, entries, at)
        offsets.note(offsets.ends, slot, entries, after)
        return after

    return step


def optional(null: int, inner: Step) -> Step:
    """A union of null, the branch with the index `null`, 0 or 1, and something else."""
    absent, present = 2 * null, 2 - 2 * null

    def step(offsets: FieldOffsets, at: Places, entries: Places) -> Places:
        branch = offsets.varints.data.take(at)
        there = branch == present
        after = at + 1
        if there.all():
            return inner(offsets, after, entries)
        if not (there | (branch == absent)).all():
            raise UnusualEncoding
        if there.any():
            after[there] = inner(offsets, after[there], entries[there])
        return after

    return step


def _array(items: Callable[[FieldOffsets, Places, Places, Places], Places]) -> Step:
    """An array of one block: its count, its items, and the count 0 that ends it."""

    def step(offsets: FieldOffsets, at: Places, entries: Places) -> Places:
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


def _skip_end(offsets: FieldOffsets, at: Places) -> Places:
    if offsets.varints.data.take(at).any():
        raise UnusualEncoding
    return at + 1


def numbers(width: int, slot: str | None = None) -> Step:
    """An array of ints or longs, or of records of two (`width`): a map of counts.

    Noted are where the items are, and how many; an array that is empty has none.
    """

    def items(offsets: FieldOffsets, at: Places, entries: Places, count: Places) -> Places:
        after = offsets.varints.skip_many(at, width * count)
        # A number of more than ten bytes is damage, which the sum of all lengths shows only if there is one item.
        if width == 1 and (after - at > 10).any():
            _check_each(offsets, at, count)
        if slot is not None:
            offsets.note(offsets.starts, slot, entries, at)
            offsets.note(offsets.counts, slot, entries, count)
            offsets.note(offsets.ends, slot, entries, after)
        return after

    return _array(items)


def _check_each(offsets: FieldOffsets, at: Places, count: Places) -> None:
    for item in range(int(count.max())):
        going = count > item
        at, count = at[going], count[going]
        after = offsets.varints.skip(at)
        if (after - at > 10).any():
            raise UnusualEncoding
        at = after


def byte_pairs(slot: str = "", keys: Sequence[int] = ()) -> Step:
    """An array of records of an int and a byte string: a map of bounds. Noted are the values of `keys`."""
    bytes_ = [(key, key << 1) for key in keys if 0 <= key < 64]  # as Avro writes them

    def items(offsets: FieldOffsets, at: Places, entries: Places, count: Places) -> Places:
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

    def pair_step(offsets: FieldOffsets, at: Places, entries: Places) -> Places:
        key, length = offsets.varints.data.take(at), offsets.varints.data.take(at + 1)
        if ((key & 0x80) | (length & 0x81)).any():
            return long_pair_step(offsets, at, entries)
        # Both are numbers of one byte, and no length is negative.
        for wanted, byte in bytes_:
            hit = key == byte
            if hit.any():
                offsets.note_pairs(slot, wanted, entries[hit], at[hit] + 1)
        after: Places = at + 2 + (length >> 1)
        return after

    def long_pair_step(offsets: FieldOffsets, at: Places, entries: Places) -> Places:
        value = offsets.varints.skip(at)
        if int((value - at).max()) > 10:
            raise UnusualEncoding
        if keys:
            key, _ = offsets.varints.numbers(at)
            for wanted in keys:
                hit = key == wanted
                if hit.any():
                    offsets.note_pairs(slot, wanted, entries[hit], value[hit])
        length, start = offsets.varints.lengths(value)
        return start + length

    return _array(items)


SlotKind: TypeAlias = Literal["number", "numbers", "text", "bytes", "encoded", "counts", "bounds"]


@dataclass(frozen=True, slots=True)
class Slot:
    """A field whose places are noted.

    id: its field id. name: what it is called where the schema gives no id (iceberg 2.1).
    kind: `encoded` notes the bytes of a whole value; `numbers` is a list, `counts` and `bounds` are maps from field
        ids.
    fields: the slots of a record whose bytes are not noted.
    pair: the field ids of a map's key and value. keys: the keys of a map that are wanted.
    is_strict: whether a number beyond a long is damage; else it is unknown. Some writers have such ids.
    """

    id: int
    name: str
    kind: SlotKind
    fields: tuple[Slot, ...] = ()
    pair: tuple[int, int] = (0, 0)
    keys: tuple[int, ...] = ()
    is_strict: bool = False

    def pair_of(self, node: Node) -> tuple[int, int] | None:
        """Return the places of key and value in the records of an array; None for any other type."""
        item = node.children[0] if node.kind == "array" else node
        if node.kind != "array" or item.kind != "record":
            return None
        key, value = item.place(self.pair[0], "key"), item.place(self.pair[1], "value")
        return None if key is None or value is None or key == value else (key, value)


PATH = Slot(100, "file_path", "text")

KINDS: Mapping[SlotKind, frozenset[str]] = {
    "number": LONG,
    "text": TEXT,
    "bytes": BYTES,
    "numbers": ARRAY,
}
"""The Avro types that a slot may have; slots of other kinds may have any."""


def slots_of(record: Node, slots: Sequence[Slot]) -> list[Slot | None]:
    """Return the slot of each field of a record. Only the first field of several for one slot has it."""
    offsets: list[Slot | None] = [None] * len(record.children)
    for slot in slots:
        place = record.place(slot.id, slot.name)
        if place is not None:
            offsets[place] = slot
    return offsets


def entry_steps(schema: Node, slots: tuple[Slot, ...]) -> tuple[Step, tuple[Step, Step] | None] | None:
    """The step over a record of `schema`; None: the schema has a form that is decoded entry by entry.

    Beside it those before and behind the path of the file; None: a path may lack. Slots without a field are not noted.
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
    """The steps over the fields of a record, with the slot of each; an inner record counts as its fields."""
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
    """The values of an array that is a map from numbers; None for any other type."""
    item = node.children[0] if node.kind == "array" else node
    match [part.kind for part in item.children] if item.kind == "record" else []:
        case ["int" | "long", "int" | "long"]:
            return "numbers"
        case ["int" | "long", "bytes" | "string"]:
            return "bytes"
        case _:
            return None
