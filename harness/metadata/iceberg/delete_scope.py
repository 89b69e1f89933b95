"""The scope of deletes: which delete applies to which data file (iceberg 4.1 to 4.8, 4.14, 4.21).

This module alone decides if a delete may hit a file. `DeleteScope` has the rules. `DeleteIndex` keeps the deletes of a
snapshot by target path, by partition and by sequence number, so that finding those of a data file costs a binary search
and its answer, however many there are.

| delete                | partition (4.1)                               | sequence number (2.10)    | path            |
|-----------------------|-----------------------------------------------|---------------------------|-----------------|
| equality delete       | the same; any, if its spec is unpartitioned   | greater than the file's   | any             |
| position delete file  | the same                                      | at least the file's       | those it names  |
| deletion vector       | the same                                      | at least the file's       | the one it says |

Sequence numbers are *data* sequence numbers. A position delete hits files of its own commit, an equality delete only
older ones (4.7). A file with a vector has no other position deletes (4.5).

A position delete file of another partition does not apply (4.4). If it names a live data file all the same, its writer
meant to delete those rows, and readers disagree: that is an error (trap T9), unless the caller chose to be lenient. It
shows where the metadata names exactly one file; when the file is read, because it is a *suspect* of every file that has
another spec and lies within its path bounds; and when it is read for another file. A file that names a data file of its
own spec and another tuple is caught at these moments only: to read the delete files of all partitions would undo
partition skipping.

Spec: Iceberg, "Scan Planning" and "Delete Formats".
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import accumulate
from typing import Any, Generic, TypeAlias, TypeVar

from harness.errors import CorruptDeleteError, CorruptFileError, InvalidTableError, UnsupportedError
from harness.metadata.iceberg.manifests import Content, DataFile, ManifestEntry, Status
from harness.metadata.iceberg.model import PartitionSpec
from harness.metadata.plan.deletes import FILE_PATH_ID, StoredVector, partition_mismatch
from harness.storage.paths import PhysicalPath
from harness.storage.records import dataclass

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_LAST = chr(0x10FFFF)
PartitionOf: TypeAlias = Callable[[DataFile], Hashable]
"""The partition of a file, with its spec: equal tuples of two specs are two partitions (iceberg 2.18, 4.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteScope:
    """The rules for the deletes of one snapshot.

    partition_of: the partition of a data or delete file. specs: the table's, by id.
    lenient: position delete files and vectors hit files of any partition by path (`lenient_delete_partition`).
    trusted: the metadata of a position delete file, its bounds and the data file that it is for, keeps it from files of
        its partition; else only its rows do.
    """

    partition_of: PartitionOf = field(repr=False)
    specs: Mapping[int, PartitionSpec] = field(repr=False)
    lenient: bool = False
    trusted: bool = True

    def equality_delete_partition(self, delete: ManifestEntry) -> Hashable | None:
        """The partition that an equality delete hits; None: all, as its spec is unpartitioned (iceberg 4.2, 4.6)."""
        spec = self.specs.get(delete.file.spec_id)
        if spec is None:
            message = f"Delete file has partition spec {delete.file.spec_id}, expected one of {sorted(self.specs)}"
            raise InvalidTableError(message, cause="MissingSpec", file=delete.file.path, rule="iceberg 2.22")
        return None if spec.is_unpartitioned else self.partition_of(delete.file)

    def target(self, file: DataFile, live: Container[str]) -> str | None:
        """The only data file that a position delete file can name; None: it may name several (iceberg 4.4, 4.14)."""
        if not self.trusted:
            return None
        if file.referenced_data_file is not None:
            return file.referenced_data_file
        bounds = path_bounds(file)
        # Equal bounds that no live file has are cut, or wrong, or of a file that is gone: only reading tells which.
        return bounds[0] if bounds is not None and bounds[0] == bounds[1] and bounds[0] in live else None

    def check_target(self, delete: ManifestEntry, data: ManifestEntry, *, rule: str = "iceberg 4.4") -> None:
        """Refuses a delete for one data file that has another partition than that file."""
        if not self.lenient and self.partition_of(delete.file) != self.partition_of(data.file):
            own, other = delete.file, data.file
            raise partition_mismatch(
                (own.path, own.spec_id, own.partition), (other.path, other.spec_id, other.partition), rule
            )

    def check_vector(self, vector: ManifestEntry, data: ManifestEntry) -> None:
        """Refuses a vector that is older than its data file, or of another partition (iceberg 4.3)."""
        if vector.sequence_number < data.sequence_number:
            message = (
                f"Deletion vector of {data.file.path} has sequence number {vector.sequence_number}, expected at least"
                f" {data.sequence_number} as its data file. Rewrite the vector"
            )
            raise CorruptDeleteError(message, cause="CorruptDeletionVector", file=vector.file.path, rule="iceberg 4.3")
        self.check_target(vector, data, rule="iceberg 4.3")


def first_position_delete(numbers: Sequence[int], number: int) -> int:
    """The place of the first position delete that hits a data file of a sequence number: its own, or a later one.

    numbers: the deletes' sequence numbers, ascending.
    """
    return bisect_left(numbers, number)


def first_equality_delete(numbers: Sequence[int], number: int) -> int:
    """The place of the first equality delete that hits a data file of a sequence number: strictly later ones do."""
    return bisect_right(numbers, number)


def vectors_by_target(vectors: Iterable[ManifestEntry]) -> dict[str, ManifestEntry]:
    """Deletion vectors by the path of their data file, which has one at most (iceberg 4.21)."""
    by_target: dict[str, ManifestEntry] = {}
    for vector in vectors:
        target = vector.file.referenced_data_file
        assert target is not None  # checked with the entry (iceberg 4.17)
        other = by_target.setdefault(target, vector)
        if other is not vector:
            message = (
                f"Data file {target} has two deletion vectors, in {other.file.path} at {other.file.content_offset} and"
                f" in {vector.file.path} at {vector.file.content_offset}, expected one. Rewrite its deletes"
            )
            raise CorruptDeleteError(message, cause="MultipleDVs", file=vector.file.path, rule="iceberg 4.21")
    return by_target


def single_targets(deletes: Iterable[ManifestEntry]) -> frozenset[str]:
    """The paths that are the only one in the path bounds of a position delete file."""
    bounds = (path_bounds(entry.file) for entry in deletes if entry.file.content is Content.POSITION_DELETES)
    return frozenset(pair[0] for pair in bounds if pair is not None and pair[0] == pair[1])


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


# The index of a snapshot's deletes.


@dataclass(frozen=True, slots=True)
class FileDeletes:
    """The position delete files that concern a data file without a deletion vector.

    applied: delete files in scope, by sequence number; their rows may name other data files only.
    suspects: delete files out of scope that must not name the data file, which only their rows show (iceberg 4.4).
    """

    applied: tuple[ManifestEntry, ...] = ()
    suspects: tuple[ManifestEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteIndex:
    """The live deletes of one snapshot; `build` makes it.

    equality: the scopes of `equality_deletes`, which are in the order of the manifests.
    vectors: deletion vectors by the recorded path of their data file.
    """

    equality_deletes: tuple[ManifestEntry, ...]
    equality: EqualityDeletes
    scope: DeleteScope
    vectors: Mapping[str, ManifestEntry] = field(repr=False)
    _targeted: Mapping[str, _BySequence[ManifestEntry]] = field(repr=False)
    _scoped: Mapping[Hashable, _BySequence[ManifestEntry]] = field(repr=False)
    _ranges: Mapping[int, _PathRanges] = field(repr=False)

    @property
    def has_positions(self) -> bool:
        """Whether the snapshot has position delete files or deletion vectors."""
        return bool(self.vectors or self._targeted or self._scoped)

    @staticmethod
    def build(
        entries: Iterable[ManifestEntry],
        scope: DeleteScope,
        *,
        format_version: int,
        live_paths: Container[str] = frozenset(),
    ) -> DeleteIndex:
        """The index over the entries of the snapshot's delete manifests; entries with status deleted are left out.

        Args:
            entries: delete entries, with bounds of the file path (id 2147483546) and of equality keys.
            live_paths: recorded paths of the snapshot's live data files; those of `single_targets` are enough. A delete
                file on one path that is not among them is read for its whole partition: slower, equally right
                (iceberg 4.14).

        Raises:
            CorruptDeleteError: an entry lacks what its kind needs (4.17, 4.23), or two vectors hit one file (4.21).
            InvalidTableError: a v1 table has deletes (4.16), or a delete has an unknown spec (2.22).
            UnsupportedError: an equality delete file in puffin format (2.20).
        """
        live = [entry for entry in entries if entry.status is not Status.DELETED]
        for entry in live:
            check_entry(entry, format_version)
        equality = tuple(entry for entry in live if entry.file.content is Content.EQUALITY_DELETES)
        positions = [entry for entry in live if entry.file.content is Content.POSITION_DELETES]
        files = [entry for entry in positions if entry.file.format != "puffin"]
        targets = [scope.target(entry.file, live_paths) for entry in files]
        loose = [entry for entry, target in zip(files, targets, strict=True) if target is None]
        return DeleteIndex(
            equality,
            EqualityDeletes.build(
                (scope.equality_delete_partition(entry), entry.sequence_number) for entry in equality
            ),
            scope,
            vectors_by_target(entry for entry in positions if entry.file.format == "puffin"),
            _grouped((target, entry) for target, entry in zip(targets, files, strict=True) if target is not None),
            _grouped((scope.partition_of(entry.file), entry) for entry in loose),
            _path_ranges(loose, scope),
        )

    def for_data_file(self, data: ManifestEntry) -> FileDeletes:
        """Return the position delete files of a live data file that has no vector (iceberg 4.5).

        Raises CorruptDeleteError: a delete names the file but contradicts its partition (4.4).
        """
        path, number = data.file.path, data.sequence_number
        targeting = self._targeted.get(path, _NONE).since(number)
        for entry in targeting:
            self.scope.check_target(entry, data)
        partition, lenient = self.scope.partition_of(data.file), self.scope.lenient
        elsewhere = tuple(self._deletes_of_other_partitions(data, partition))
        applied = (*targeting, *self._scoped.get(partition, _NONE).since(number), *(elsewhere if lenient else ()))
        return FileDeletes(
            applied=tuple(sorted(applied, key=lambda entry: entry.sequence_number)),
            suspects=() if lenient else elsewhere,
        )

    @property
    def targeted_paths(self) -> frozenset[str]:
        """The recorded paths that a position delete file of one data file is for."""
        return frozenset(self._targeted)

    @property
    def named_paths(self) -> frozenset[str]:
        """The recorded paths that a deletion vector, or a position delete file of one data file, is for."""
        return frozenset(self.vectors) | self.targeted_paths

    def delete_for_path(self, path: str) -> ManifestEntry:
        """A delete of the vectors and files for one data file, by that file's path, which is one of `named_paths`."""
        vector = self.vectors.get(path)
        return next(iter(self._targeted[path].since(0))) if vector is None else vector

    @property
    def scoped_partitions(self) -> frozenset[Hashable]:
        """The partitions that have position delete files for any of their data files."""
        return frozenset(self._scoped)

    def reaches(self, spec_id: int) -> bool:
        """True if position delete files of other partitions may concern a data file of the spec."""
        return any(other != spec_id or self.scope.lenient for other in self._ranges)

    def _deletes_of_other_partitions(self, data: ManifestEntry, partition: Hashable) -> Iterator[ManifestEntry]:
        """Files of other partitions that may name this data file: of any spec if lenient, else of other specs."""
        for spec_id, ranges in self._ranges.items():
            if spec_id == data.file.spec_id and not self.scope.lenient:
                continue
            for entry in ranges.covering(data.file.path, data.sequence_number):
                if self.scope.partition_of(entry.file) != partition:
                    yield entry


def check_entry(entry: ManifestEntry, format_version: int) -> None:
    """Refuses a delete entry that lacks what its kind needs (4.16, 4.17, 4.23). Raises as `DeleteIndex.build`."""
    if format_version < 2:
        message = (
            f"A table of format version {format_version} has a live delete file, expected version 2 or later."
            " Upgrade the table's format version, or remove its deletes"
        )
        raise InvalidTableError(message, cause="UnexpectedDeletes", file=entry.file.path, rule="iceberg 4.16")
    file = entry.file
    if file.content is Content.DATA:
        raise CorruptFileError(
            f"Delete manifest lists data file {file.path}, expected delete files only",
            cause="CorruptManifest",
            file=entry.manifest,
            field="content",
            rule="iceberg 2.20",
        )
    is_puffin = file.format == "puffin"
    if file.content is Content.POSITION_DELETES:
        if is_puffin:
            _check_vector_entry(entry, format_version)
    elif is_puffin:
        message = "Cannot read equality delete file: its format is puffin, expected parquet, avro or orc"
        raise UnsupportedError(message, cause="UnsupportedFormat", file=file.path, rule="iceberg 2.20")
    elif not file.equality_ids:
        raise CorruptDeleteError(
            "Equality delete file has no equality ids, so what its rows delete is unknown. Rewrite the delete",
            cause="CorruptManifest",
            file=file.path,
            field="equality_ids",
            rule="iceberg 4.23",
        )


def _check_vector_entry(entry: ManifestEntry, format_version: int) -> None:
    file = entry.file
    needed = {
        "referenced_data_file": file.referenced_data_file,
        "content_offset": file.content_offset,
        "content_size_in_bytes": file.content_size,
    }
    missing = [name for name, value in needed.items() if value is None]
    if missing or format_version < 3:
        reason = (
            f"its entry has no {' and no '.join(missing)}" if missing else f"the table has version {format_version}"
        )
        raise _invalid_vector(entry, reason, missing[0] if missing else "format-version")


def _invalid_vector(entry: ManifestEntry, reason: str, field: str) -> CorruptDeleteError:
    return CorruptDeleteError(
        f"Invalid deletion vector: {reason}, expected a complete entry in a table of version 3 or later",
        cause="CorruptDeletionVector",
        file=entry.file.path,
        field=field,
        rule="iceberg 4.17",
    )


@dataclass(frozen=True, slots=True)
class _BySequence(Generic[T]):
    """Deletes, or their ordinals, in ascending order of sequence number."""

    numbers: tuple[int, ...]
    items: tuple[T, ...]

    @staticmethod
    def sort(deletes: Iterable[tuple[int, T]]) -> _BySequence[T]:
        ordered = sorted(deletes, key=lambda pair: pair[0])
        return _BySequence(tuple(number for number, _ in ordered), tuple(item for _, item in ordered))

    def since(self, number: int) -> tuple[T, ...]:
        """Deletes with this sequence number or a later one."""
        return self.items[first_position_delete(self.numbers, number) :]


_NONE: _BySequence[Any] = _BySequence((), ())


def _grouped(keyed: Iterable[tuple[K, ManifestEntry]]) -> dict[K, _BySequence[ManifestEntry]]:
    """Delete files by key."""
    groups: defaultdict[K, list[tuple[int, ManifestEntry]]] = defaultdict(list)
    for key, entry in keyed:
        groups[key].append((entry.sequence_number, entry))
    return {key: _BySequence.sort(group) for key, group in groups.items()}


@dataclass(frozen=True, slots=True)
class _PathRanges:
    """Position delete files by the range of paths that they may name.

    lowers, uppers, bounded: in ascending order of lower bound; an upper bound takes in every path that it begins, as
        writers cut upper bounds without rounding up. highest: the greatest upper bound so far, to stop a search early.
    unbounded: files whose range is unknown.
    """

    lowers: tuple[str, ...]
    uppers: tuple[str, ...]
    highest: tuple[str, ...]
    bounded: tuple[ManifestEntry, ...]
    unbounded: _BySequence[ManifestEntry]

    def covering(self, path: str, number: int) -> Iterator[ManifestEntry]:
        """Files that may name `path`, with this sequence number or a later one."""
        yield from self.unbounded.since(number)
        for index in range(bisect_right(self.lowers, path) - 1, -1, -1):
            if self.highest[index] < path:
                return
            if self.uppers[index] >= path and self.bounded[index].sequence_number >= number:
                yield self.bounded[index]


def _path_ranges(files: Iterable[ManifestEntry], scope: DeleteScope) -> dict[int, _PathRanges]:
    """Ranges by spec id."""
    by_spec: defaultdict[int, list[tuple[tuple[str, str] | None, ManifestEntry]]] = defaultdict(list)
    for entry in files:
        by_spec[entry.file.spec_id].append((path_bounds(entry.file) if scope.trusted else None, entry))
    return {spec_id: _ranges_of(bounds) for spec_id, bounds in by_spec.items()}


def _ranges_of(bounds: list[tuple[tuple[str, str] | None, ManifestEntry]]) -> _PathRanges:
    known = sorted(((pair[0], pair[1] + _LAST, entry) for pair, entry in bounds if pair), key=lambda item: item[0])
    uppers = tuple(upper for _, upper, _ in known)
    return _PathRanges(
        tuple(lower for lower, _, _ in known),
        uppers,
        tuple(accumulate(uppers, max)),
        tuple(entry for _, _, entry in known),
        _BySequence.sort((entry.sequence_number, entry) for pair, entry in bounds if pair is None),
    )


@dataclass(slots=True)
class EqualityDeletes:
    """Equality deletes by partition; those of an unpartitioned spec hit every partition (iceberg 4.2, 4.6)."""

    global_deletes: _BySequence[int]
    by_partition: Mapping[Hashable, _BySequence[int]]
    cached_sets: dict[tuple[Hashable, int, int], tuple[int, ...]]

    @staticmethod
    def build(deletes: Iterable[tuple[Hashable | None, int]]) -> EqualityDeletes:
        """Scopes from the partition (None: every one) and the sequence number of each delete, in order of ordinals."""
        groups: defaultdict[Hashable, list[tuple[int, int]]] = defaultdict(list)
        global_deletes: list[tuple[int, int]] = []
        for ordinal, (partition, number) in enumerate(deletes):
            (global_deletes if partition is None else groups[partition]).append((number, ordinal))
        by_partition = {key: _BySequence.sort(group) for key, group in groups.items()}
        return EqualityDeletes(_BySequence.sort(global_deletes), by_partition, {})

    def deletes_for(self, partition: Hashable, number: int) -> tuple[int, ...]:
        """Ordinals, ascending, of the deletes that hit a data file; equal answers are one object."""
        own = self.by_partition.get(partition)
        scope = _NONE if own is None else own
        start, global_start = (
            first_equality_delete(deletes.numbers, number) for deletes in (scope, self.global_deletes)
        )
        key = (None if own is None else partition, start, global_start)
        if key not in self.cached_sets:
            self.cached_sets[key] = tuple(sorted(scope.items[start:] + self.global_deletes.items[global_start:]))
        return self.cached_sets[key]


def vector_of(entry: ManifestEntry, physical: PhysicalPath) -> StoredVector:
    """Return the deletion vector of an entry, which has a complete place. physical: the path of its file.

    Raises CorruptDeleteError: the entry does not say where in the file the vector is (4.17).
    """
    file = entry.file
    if file.content_offset is None or file.content_size is None:
        missing = "content_offset" if file.content_offset is None else "content_size_in_bytes"
        raise _invalid_vector(entry, f"its entry has no {missing}", missing)
    return StoredVector(
        path=file.path,
        physical=physical,
        format="puffin",
        offset=file.content_offset,
        length=file.content_size,
        record_count=file.record_count,
    )
