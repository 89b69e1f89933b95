"""Walks over many Avro blocks in step, noting where the wanted fields of their entries are.

The blocks of one or more manifests with the same schema lie in one buffer, and each is a lane: the first entries of all
blocks are walked together, then the second ones, and so on. A step goes over one field of the schema in every lane;
`layout` puts steps together. Values are made later, from all entries at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from harness.iceberg.columns.varints import Places, Unsure, Varints
from harness.records import dataclass

Step: TypeAlias = Callable[["Walk", Places, Places], Places]
"""From the places where a value begins, and the numbers of the entries that these belong to, to the places after it."""

MOST_ITEMS = 100_000
"""A longer list or map is decoded entry by entry, which counts it."""

NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Walk:
    """What a walk over entries notes, by slot.

    starts, ends: where the value of a slot lies in the buffer; `NOWHERE` where it is null or missing.
    counts: of an array's items.
    pairs: the places of the values of a map from whole numbers to bytes, by slot and key, and how often the key occurs.
    """

    varints: Varints
    starts: dict[str, Places]
    ends: dict[str, Places]
    counts: dict[str, Places]
    pairs: dict[tuple[str, int], tuple[Places, Places]]
    size: int

    @staticmethod
    def over(varints: Varints, size: int) -> Walk:
        """Nothing noted yet of `size` entries."""
        return Walk(varints, {}, {}, {}, {}, size)

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
        found, times = self.pairs[slot, key]
        found[entries] = places
        times[entries] += 1


def walk(varints: Varints, step: Step, starts: Places, counts: Places, ends: Places) -> Walk:
    """Takes every lane from its start to its end.

    Args:
        step: goes over one entry.
        starts, ends: the places of each lane in the buffer. counts: its entries.

    Raises:
        Unsure: a lane does not end where it should, or a step met something odd.
    """
    found, at = advance(varints, step, starts, counts)
    if not np.array_equal(at, ends):
        raise Unsure
    return found


def advance(varints: Varints, step: Step, starts: Places, counts: Places) -> tuple[Walk, Places]:
    """Takes every lane over its next `counts` entries, and gives the places where these end; else as `walk`."""
    firsts = np.cumsum(counts) - counts
    order = np.argsort(-counts, kind="stable")
    at, numbers, remaining = starts[order].copy(), firsts[order], counts[order]
    found = Walk.over(varints, int(counts.sum()))
    try:
        for round_ in range(int(remaining[0]) if len(remaining) else 0):
            # Lanes with fewer entries are at the end; those that are through stay where they are.
            active = int(np.searchsorted(-remaining, -round_, side="left"))
            at[:active] = step(found, at[:active], numbers[:active] + round_)
    except IndexError as error:
        raise Unsure from error
    after = np.empty_like(at)
    after[order] = at
    return found, after


def number(slot: str | None = None) -> Step:
    """An int or long."""

    def step(found: Walk, at: Places, entries: Places) -> Places:
        if slot is not None:
            found.note(found.starts, slot, entries, at)
        return found.varints.skip(at)

    return step


def byte_string(slot: str | None = None) -> Step:
    """A string or bytes. Noted are the places of its bytes, without the length."""

    def step(found: Walk, at: Places, entries: Places) -> Places:
        length, start = found.varints.lengths(at)
        end = start + length
        if slot is not None:
            found.note(found.starts, slot, entries, start)
            found.note(found.ends, slot, entries, end)
        return end

    return step


def boolean() -> Step:
    """A boolean."""

    def step(found: Walk, at: Places, entries: Places) -> Places:
        if int(found.varints.data.take(at).max()) > 1:
            raise Unsure
        return at + 1

    return step


def fixed(size: int) -> Step:
    """Some bytes whose number the schema says."""
    return lambda found, at, entries: at + size


def record(steps: Sequence[Step], slot: str | None = None) -> Step:
    """A record's fields, in order."""

    def step(found: Walk, at: Places, entries: Places) -> Places:
        if slot is not None:
            found.note(found.starts, slot, entries, at)
        for each in steps:
            at = each(found, at, entries)
        if slot is not None:
            found.note(found.ends, slot, entries, at)
        return at

    return step


def optional(null: int, inner: Step) -> Step:
    """A union of null, the branch with the index `null`, 0 or 1, and something else."""
    absent, present = 2 * null, 2 - 2 * null

    def step(found: Walk, at: Places, entries: Places) -> Places:
        branch = found.varints.data.take(at)
        there = branch == present
        after = at + 1
        if there.all():
            return inner(found, after, entries)
        if not (there | (branch == absent)).all():
            raise Unsure
        if there.any():
            after[there] = inner(found, after[there], entries[there])
        return after

    return step


def _array(items: Callable[[Walk, Places, Places, Places], Places]) -> Step:
    """An array of one block: its count, its items, and the count 0 that ends it."""

    def step(found: Walk, at: Places, entries: Places) -> Places:
        count, after = found.varints.lengths(at)
        if int(count.max()) > MOST_ITEMS:
            raise Unsure
        filled = count > 0
        if not filled.any():
            return after
        if filled.all():
            return _ended(found, items(found, after, entries, count))
        after[filled] = _ended(found, items(found, after[filled], entries[filled], count[filled]))
        return after

    return step


def _ended(found: Walk, at: Places) -> Places:
    if found.varints.data.take(at).any():
        raise Unsure
    return at + 1


def number_items(slot: str | None = None) -> Step:
    """An array of ints or longs. Noted are the items' places, and how many they are; one that is empty has none."""

    def items(found: Walk, at: Places, entries: Places, count: Places) -> Places:
        if slot is not None:
            found.note(found.starts, slot, entries, at)
            found.note(found.counts, slot, entries, count)
        after = found.varints.skip_many(at, count)
        # A number of more than ten bytes is damage, which the sum of all lengths shows only if there is one item.
        if (after - at > 10).any():
            _check_each(found, at, count)
        return after

    return _array(items)


def _check_each(found: Walk, at: Places, count: Places) -> None:
    for item in range(int(count.max())):
        going = count > item
        at, count = at[going], count[going]
        after = found.varints.skip(at)
        if (after - at > 10).any():
            raise Unsure
        at = after


def number_pairs(slot: str | None = None) -> Step:
    """An array of records of two ints or longs: a map of counts. Noted are the items' places, and how many they are."""

    def items(found: Walk, at: Places, entries: Places, count: Places) -> Places:
        if slot is not None:
            found.note(found.starts, slot, entries, at)
            found.note(found.counts, slot, entries, count)
        after = found.varints.skip_many(at, 2 * count)
        if slot is not None:
            found.note(found.ends, slot, entries, after)
        return after

    return _array(items)


def byte_pairs(slot: str = "", keys: Sequence[int] = ()) -> Step:
    """An array of records of an int and a byte string: a map of bounds. Noted are the values of `keys`."""
    bytes_ = [(key, key << 1) for key in keys if 0 <= key < 64]  # as Avro writes them

    def items(found: Walk, at: Places, entries: Places, count: Places) -> Places:
        most = int(count.max())
        uniform = most == int(count.min())
        after = at
        for item in range(most):
            if uniform:
                after = one(found, after, entries)
            else:
                going = count > item
                after = after.copy()
                after[going] = one(found, after[going], entries[going])
        return after

    def one(found: Walk, at: Places, entries: Places) -> Places:
        key, length = found.varints.data.take(at), found.varints.data.take(at + 1)
        if ((key & 0x80) | (length & 0x81)).any():
            return long_one(found, at, entries)
        # Both are numbers of one byte, and no length is negative.
        for wanted, byte in bytes_:
            hit = key == byte
            if hit.any():
                found.note_pairs(slot, wanted, entries[hit], at[hit] + 1)
        after: Places = at + 2 + (length >> 1)
        return after

    def long_one(found: Walk, at: Places, entries: Places) -> Places:
        value = found.varints.skip(at)
        if int((value - at).max()) > 10:
            raise Unsure
        if keys:
            key, _ = found.varints.numbers(at)
            for wanted in keys:
                hit = key == wanted
                if hit.any():
                    found.note_pairs(slot, wanted, entries[hit], value[hit])
        length, start = found.varints.lengths(value)
        return start + length

    return _array(items)
