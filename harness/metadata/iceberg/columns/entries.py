"""The entries of many manifests, walked at once from guessed places; the walk proves the guess.

Nothing in a block says where its entries begin, but the paths of their files begin alike. So each entry is walked from
the end of its path, and the next entry up to its path. The guess is right only if all of them meet, from the start of
every block to its end. Else blocks are walked in step, see `walk`, where that costs less than entry by entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from itertools import takewhile

import numpy as np

from harness.errors import HarnessError
from harness.metadata.files.avro_container import blocks
from harness.metadata.iceberg.columns.walk import (
    MOST_ITEMS,
    NOWHERE,
    PATH,
    EntrySteps,
    Places,
    Slot,
    Step,
    Unsure,
    Varints,
    Walk,
    advance,
    entry_steps,
    walk,
)
from harness.metadata.iceberg.manifests import ManifestReader
from harness.metadata.model.arrow_values import distinct
from harness.storage.records import dataclass

# The manifests that are worth decoding in step.


_ENTRY_NS = 40_000
_ROUND_NS = 600_000
"""Measured costs of an entry on its own, and of a round, which takes the next entry of every block."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """The plain blocks of a manifest: how many entries each has, and its bytes."""

    number: int
    reader: ManifestReader
    counts: tuple[int, ...]
    data: tuple[bytes, ...]

    @staticmethod
    def of(reader: ManifestReader, number: int) -> Blocks | None:
        """The blocks of a manifest; None: damaged, too many or too long at once, or each entry is to be judged."""
        if reader.is_disputed:
            return None
        container, limits = reader.container, reader.container.limits
        plain = blocks(container.data, container.header, file=container.file, cause="CorruptManifest", limits=limits)
        found: list[tuple[int, bytes]] = []
        entries = size = 0
        try:
            for count, data in plain:
                found.append((count, data))
                entries, size = entries + count, size + len(data)
                if entries > len(container.data) + limits.spare_records or size > limits.block_bytes:
                    return None
        except HarnessError:
            return None
        return Blocks(number, reader, tuple(count for count, _ in found), tuple(data for _, data in found))

    @property
    def schema(self) -> bytes:
        """The writer's, as it is written."""
        return self.reader.container.header.metadata["avro.schema"]

    @property
    def size(self) -> int:
        """Bytes of all blocks."""
        return sum(map(len, self.data))

    @property
    def longest(self) -> int:
        """The most entries of a block."""
        return max(self.counts, default=0)


_BATCH_BYTES = 12 << 20


@dataclass(slots=True)
class ManifestBatch:
    """Manifests of one writer's schema that are walked together, as far as memory allows."""

    blocks: list[Blocks] = field(default_factory=list)
    size: int = 0

    def has_room(self, blocks_: Blocks) -> bool:
        """True if a manifest may be added."""
        if not self.blocks:
            return True
        return blocks_.schema == self.blocks[0].schema and self.size + blocks_.size <= _BATCH_BYTES

    def add(self, blocks_: Blocks) -> None:
        """Adds a manifest."""
        self.blocks.append(blocks_)
        self.size += blocks_.size

    def walked(self, slots: tuple[Slot, ...]) -> tuple[Walk, Sequence[Blocks]] | None:
        """The walk over the entries of manifests that are worth it, and these; None: all go entry by entry.

        Raises:
            Unsure: something is odd.
        """
        if not self.blocks:
            return None
        container = self.blocks[0].reader.container
        steps = entry_steps(container.header.schema, slots) if container.limits.items >= MOST_ITEMS else None
        return None if steps is None else walk_entries(self.blocks, steps)


def worth_it(batch: Sequence[Blocks]) -> frozenset[int]:
    """The manifests to decode in step, so that the whole costs least."""
    ordered = sorted(batch, key=lambda blocks_: blocks_.longest)
    total = sum(sum(blocks_.counts) for blocks_ in batch)
    best, chosen, done = total * _ENTRY_NS, 0, 0
    for place, blocks_ in enumerate(ordered, start=1):
        done += sum(blocks_.counts)
        cost = blocks_.longest * _ROUND_NS + (total - done) * _ENTRY_NS
        if cost <= best:
            best, chosen = cost, place
    return frozenset(blocks_.number for blocks_ in ordered[:chosen])


_FEWEST = 100
"""For fewer entries a guess costs more than it saves."""
_SAMPLES = 64
_SHORTEST = 4
"""Paths that have fewer bytes in common are not looked for."""
_TRIES = 4
_LONGEST_NUMBER = 5
_CHUNK = 1 << 13
"""Entries that are walked at a time: their bytes stay in the processor's cache."""


def walk_entries(batch: Sequence[Blocks], steps: EntrySteps) -> tuple[Walk, Sequence[Blocks]] | None:
    """The walk over the entries of all manifests, or of those that are worth it, and these; None: none is.

    Raises:
        Unsure: something is odd.
    """
    if sum(sum(blocks.counts) for blocks in batch) >= _FEWEST:
        found = _guessed(_Lanes.of(batch), steps)
        if found is not None:
            return found, batch
    chosen = worth_it(batch)
    together = [blocks for blocks in batch if blocks.number in chosen]
    if not together:
        return None
    lanes = _Lanes.of(together)
    return walk(lanes.varints, steps.whole, lanes.starts, lanes.counts, lanes.ends), together


@dataclass(frozen=True, slots=True)
class _Lanes:
    """Blocks that lie in one buffer, one behind the other. counts: their entries. starts, ends: their places."""

    blocks: Sequence[bytes]
    counts: Places
    starts: Places
    ends: Places
    varints: Varints

    @staticmethod
    def of(batch: Sequence[Blocks]) -> _Lanes:
        data = [block for blocks in batch for block in blocks.data]
        counts = np.array([count for blocks in batch for count in blocks.counts], dtype=np.int64)
        sizes = np.array([len(block) for block in data], dtype=np.int64)
        if (counts < 0).any() or (counts > sizes).any() or int(sizes.sum()) >= 1 << 31:
            raise Unsure
        ends = np.cumsum(sizes)
        return _Lanes(data, counts, ends - sizes, ends, Varints.of(data))


def _guessed(lanes: _Lanes, steps: EntrySteps) -> Walk | None:
    """The walk from guessed places; None: there is no guess, or it is wrong."""
    if steps.around_path is None:
        return None
    try:
        paths = _paths(lanes, _common_text(lanes, steps.whole))
        return None if paths is None else _proved(lanes, paths, *steps.around_path)
    except (Unsure, IndexError):
        return None


def _common_text(lanes: _Lanes, step: Step) -> bytes:
    """The common beginning of the paths of the first entries of some blocks."""
    some = distinct(np.linspace(0, len(lanes.starts) - 1, _SAMPLES).astype(np.int64))
    found, _ = advance(lanes.varints, step, lanes.starts[some], np.minimum(lanes.counts[some], 2))
    if PATH.name not in found.starts:
        return b""
    places = zip(found.starts[PATH.name].tolist(), found.ends[PATH.name].tolist(), strict=True)
    texts = [lanes.varints.data[start:end].tobytes() for start, end in places]
    first, last = min(texts), max(texts)  # what is between them in order begins as both do
    return bytes(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))


def _paths(lanes: _Lanes, text: bytes) -> Places | None:
    """The places of the paths; None: they are not as many as entries. Shorter texts are tried, by parts of the path."""
    for _ in range(_TRIES):
        if len(text) < _SHORTEST:
            return None
        found = _occurrences(lanes, text)
        if found is not None:
            return found
        text = text[: text.rstrip(b"/").rfind(b"/") + 1]
    return None


def _occurrences(lanes: _Lanes, text: bytes) -> Places | None:
    found = []
    for block, count, start in zip(lanes.blocks, lanes.counts.tolist(), lanes.starts.tolist(), strict=True):
        pieces = block.split(text)
        if len(pieces) != count + 1:
            return None
        before = np.fromiter(map(len, pieces), np.int64, count)
        found.append(np.cumsum(before) + np.arange(count) * len(text) + start)
    return np.concatenate(found)


def _proved(lanes: _Lanes, paths: Places, before: Step, behind: Step) -> Walk:
    """The walk over entries whose paths begin there. before, behind: the steps around the path.

    Raises:
        Unsure, IndexError: they do not.
    """
    size, varints = len(paths), lanes.varints
    found = Walk.over(varints, size)
    ends = paths + _lengths_before(varints, paths)
    starts = np.full(size + 1, NOWHERE, dtype=np.int64)  # of the blocks, by their first entry, and the end of the last
    starts[np.cumsum(lanes.counts) - lanes.counts] = lanes.starts
    starts[size] = lanes.ends[-1]
    at = np.zeros(1, dtype=np.int64)
    for first in range(0, size, _CHUNK):
        entries = np.arange(first, min(first + _CHUNK, size))
        at = np.concatenate((at[-1:], behind(found, ends[entries], entries)))
        expected = starts[first : first + len(at)]
        length, path = varints.lengths(before(found, at[:-1], entries))
        if (
            ((expected != NOWHERE) & (expected != at)).any()
            or (path != paths[entries]).any()
            or (length != ends[entries] - path).any()
        ):
            raise Unsure
    if int(at[-1]) != int(lanes.ends[-1]):
        raise Unsure
    found.starts[PATH.name], found.ends[PATH.name] = paths, ends
    return found


def _lengths_before(varints: Varints, places: Places) -> Places:
    """The lengths whose numbers end right before the places, if a number is before them, too."""
    at = places - 1
    values = varints.data.take(at).astype(np.int64)
    more = np.ones(len(places), dtype=np.bool_)
    for _ in range(_LONGEST_NUMBER - 1):
        at = at - 1
        byte = varints.data.take(at)
        more &= byte >= 0x80
        if not more.any():
            break
        values = np.where(more, values << 7 | byte & 0x7F, values)
    found: Places = values >> 1
    return found
