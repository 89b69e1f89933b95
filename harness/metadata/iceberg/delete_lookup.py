"""Search structures of the delete index: delete files by sequence number, by path range, by delete set."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

from harness.metadata.iceberg.manifests import DataFile, ManifestEntry
from harness.storage.records import dataclass

FILE_PATH_ID = 2147483546
"""Reserved field id of the data file's path in a position delete file (iceberg 4.11)."""

K = TypeVar("K", bound=Hashable)

_LAST = chr(0x10FFFF)


@dataclass(frozen=True, slots=True)
class BySequence:
    """Deletes in ascending order of sequence number."""

    numbers: tuple[int, ...]
    entries: tuple[ManifestEntry, ...]

    def since(self, number: int) -> tuple[ManifestEntry, ...]:
        """Deletes with this sequence number or a later one."""
        return self.entries[bisect_left(self.numbers, number) :]


def by_sequence(entries: Iterable[ManifestEntry]) -> BySequence:
    """The given delete files in order."""
    ordered = tuple(sorted(entries, key=lambda entry: entry.sequence_number))
    return BySequence(tuple(entry.sequence_number for entry in ordered), ordered)


def grouped(keyed: Iterable[tuple[K, ManifestEntry]]) -> dict[K, BySequence]:
    """Delete files by key."""
    groups: defaultdict[K, list[ManifestEntry]] = defaultdict(list)
    for key, entry in keyed:
        groups[key].append(entry)
    return {key: by_sequence(entries) for key, entries in groups.items()}


def path_bounds(file: DataFile) -> tuple[str, str] | None:
    """Lowest and highest path in a position delete file; None if unknown, undecodable or inverted (iceberg 4.14)."""
    lower = (file.lower_bounds or {}).get(FILE_PATH_ID)
    upper = (file.upper_bounds or {}).get(FILE_PATH_ID)
    if lower is None or upper is None or lower > upper:
        return None
    try:
        return lower.decode(), upper.decode()
    except UnicodeDecodeError:
        return None


@dataclass(frozen=True, slots=True)
class PathRanges:
    """Position delete files by the range of paths that they may name.

    lowers, uppers, bounded: in ascending order of lower bound; an upper bound takes in every path that it begins, as
        writers cut upper bounds without rounding up. highest: the greatest upper bound so far, to stop a search early.
    unbounded: files whose range is unknown.
    """

    lowers: tuple[str, ...]
    uppers: tuple[str, ...]
    highest: tuple[str, ...]
    bounded: tuple[ManifestEntry, ...]
    unbounded: BySequence

    def covering(self, path: str, number: int) -> Iterator[ManifestEntry]:
        """Files that may name `path`, with this sequence number or a later one."""
        yield from self.unbounded.since(number)
        for index in range(bisect_right(self.lowers, path) - 1, -1, -1):
            if self.highest[index] < path:
                return
            if self.uppers[index] >= path and self.bounded[index].sequence_number >= number:
                yield self.bounded[index]


def path_ranges(files: Iterable[ManifestEntry], *, trusted: bool = True) -> dict[int, PathRanges]:
    """Ranges by spec id. trusted: whether bounds are believed; else each file may name any path."""
    by_spec: defaultdict[int, list[ManifestEntry]] = defaultdict(list)
    for entry in files:
        by_spec[entry.file.spec_id].append(entry)
    return {spec_id: _ranges_of(entries, trusted) for spec_id, entries in by_spec.items()}


def _ranges_of(files: list[ManifestEntry], trusted: bool) -> PathRanges:
    bounds = [(path_bounds(entry.file) if trusted else None, entry) for entry in files]
    known = sorted(((pair[0], pair[1] + _LAST, entry) for pair, entry in bounds if pair), key=lambda item: item[0])
    uppers = tuple(upper for _, upper, _ in known)
    highest: list[str] = []
    for upper in uppers:
        highest.append(max(upper, highest[-1]) if highest else upper)
    return PathRanges(
        tuple(lower for lower, _, _ in known),
        uppers,
        tuple(highest),
        tuple(entry for _, _, entry in known),
        by_sequence(entry for pair, entry in bounds if pair is None),
    )


@dataclass(frozen=True, slots=True)
class _DeleteSet:
    """Equality deletes of one partition, or the global ones, in ascending order of sequence number."""

    numbers: tuple[int, ...]
    ordinals: tuple[int, ...]

    def start(self, number: int) -> int:
        """Where the deletes that hit a data file with this sequence number begin: strictly later (iceberg 4.6)."""
        return bisect_right(self.numbers, number)


_EMPTY = _DeleteSet((), ())


@dataclass(frozen=True, slots=True)
class DeleteSets:
    """Equality deletes by partition; those of an unpartitioned spec hit every partition (iceberg 4.2, 4.6)."""

    everywhere: _DeleteSet
    by_partition: Mapping[Hashable, _DeleteSet]
    answers: dict[tuple[Hashable, int, int], tuple[int, ...]]

    @staticmethod
    def build(deletes: Iterable[tuple[Hashable | None, int]]) -> DeleteSets:
        """Scopes from the partition (None: every one) and the sequence number of each delete, in order of ordinals."""
        groups: defaultdict[Hashable, list[tuple[int, int]]] = defaultdict(list)
        everywhere: list[tuple[int, int]] = []
        for ordinal, (partition, number) in enumerate(deletes):
            (everywhere if partition is None else groups[partition]).append((number, ordinal))
        return DeleteSets(_delete_set(everywhere), {key: _delete_set(group) for key, group in groups.items()}, {})

    def hitting(self, partition: Hashable, number: int) -> tuple[int, ...]:
        """Ordinals, ascending, of the deletes that hit a data file; equal answers are one object."""
        own = self.by_partition.get(partition)
        scope = _EMPTY if own is None else own
        key = (None if own is None else partition, scope.start(number), self.everywhere.start(number))
        if key not in self.answers:
            self.answers[key] = tuple(sorted(scope.ordinals[key[1] :] + self.everywhere.ordinals[key[2] :]))
        return self.answers[key]


def _delete_set(group: list[tuple[int, int]]) -> _DeleteSet:
    group.sort()
    return _DeleteSet(tuple(number for number, _ in group), tuple(ordinal for _, ordinal in group))
