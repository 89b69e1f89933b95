"""Scope of deletes: which delete applies to which data file (iceberg 4.1 to 4.8, 4.14, 4.21).

Only this module decides whether a delete may apply to a file. `DeleteScope` holds the rules. `DeleteIndex` groups the
deletes of a snapshot by target path, by partition, and by sequence number, so that the deletes of a data file are found
by binary search, however many deletes there are.

| delete                | partition (4.1)                               | sequence number (2.10)    | path            |
|-----------------------|-----------------------------------------------|---------------------------|-----------------|
| equality delete       | the same; any, if its spec is unpartitioned   | greater than the file's   | any             |
| position delete file  | the same                                      | at least the file's       | listed in it    |
| deletion vector       | the same                                      | at least the file's       | its target      |

Sequence numbers are *data* sequence numbers. A position delete applies to files of the same commit and of older
commits, an equality delete only to older files (4.7). A file with a deletion vector has no other position deletes
(4.5).

A position delete file of another partition does not apply (4.4). If it lists a live data file, its writer
meant to delete those rows, and readers disagree about them. This is an error (trap T9) unless the caller chose to be
lenient. The contradiction is detected in three cases: if the metadata names exactly one data file; if the delete file
is a *suspect*, which means that it has another spec than the data file and the data file's path is within its path
bounds; and if the delete file is read for another data file. A delete file that lists a data file of the same spec in
another partition is only detected in these cases, because reading the delete files of all partitions would defeat
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
"""Returns the partition of a file, including its spec: equal tuples of two specs are two partitions (iceberg 2.18,
4.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteScope:
    """The rules for the deletes of one snapshot.

    Attributes:
        partition_of: Returns the partition of a data or delete file.
        specs: The partition specs of the table, by id.
        lenient: If True, position delete files and vectors apply by path to files of any partition
            (`lenient_delete_partition`).
        trusted: If True, path bounds and the recorded target limit a position delete file to some files of its
            partition. If False, only the rows of the delete file do.
    """

    partition_of: PartitionOf = field(repr=False)
    specs: Mapping[int, PartitionSpec] = field(repr=False)
    lenient: bool = False
    trusted: bool = True

    def equality_delete_partition(self, delete: DataFile) -> Hashable | None:
        """Return the partition that an equality delete applies to, or None for all partitions (iceberg 4.2, 4.6).

        An equality delete of an unpartitioned spec applies to all partitions.
        """
        spec = self.specs.get(delete.spec_id)
        if spec is None:
            message = f"Delete file has partition spec {delete.spec_id}, expected one of {sorted(self.specs)}"
            raise InvalidTableError(message, cause="MissingSpec", file=delete.path, rule="iceberg 2.22")
        return None if spec.is_unpartitioned else self.partition_of(delete)

    def target(self, file: DataFile, live: Container[str]) -> str | None:
        """Return the only data file that a position delete file can list, or None for several (iceberg 4.4, 4.14)."""
        if not self.trusted:
            return None
        if file.referenced_data_file is not None:
            return file.referenced_data_file
        bounds = path_bounds(file)
        # If equal bounds match no live file, they are truncated or wrong, or the data file is gone. Only the rows of
        # the delete file show which.
        return bounds[0] if bounds is not None and bounds[0] == bounds[1] and bounds[0] in live else None

    def check_target(self, delete: DataFile, data: DataFile, *, rule: str = "iceberg 4.4") -> None:
        """Raise CorruptDeleteError if a delete for a single data file has another partition than that file."""
        if not self.lenient and self.partition_of(delete) != self.partition_of(data):
            raise partition_mismatch(
                (delete.path, delete.spec_id, delete.partition), (data.path, data.spec_id, data.partition), rule
            )

    def check_vector(self, vector: ManifestEntry, data: ManifestEntry) -> None:
        """Raise CorruptDeleteError if a vector is older than its data file or has another partition (iceberg 4.3)."""
        if vector.sequence_number < data.sequence_number:
            message = (
                f"Deletion vector of {data.file.path} has sequence number {vector.sequence_number}, expected at least"
                f" {data.sequence_number}, the number of its data file. Rewrite the vector"
            )
            raise CorruptDeleteError(message, cause="CorruptDeletionVector", file=vector.file.path, rule="iceberg 4.3")
        self.check_target(vector.file, data.file, rule="iceberg 4.3")


def first_position_delete(numbers: Sequence[int], number: int) -> int:
    """Return the index of the first position delete that applies to a data file with a sequence number.

    Position deletes with the same or a later sequence number apply.

    Args:
        numbers: The sequence numbers of the deletes, ascending.
        number: The sequence number of the data file.
    """
    return bisect_left(numbers, number)


def first_equality_delete(numbers: Sequence[int], number: int) -> int:
    """Return the index of the first equality delete that applies to a data file with a sequence number.

    Only equality deletes with a later sequence number apply. Arguments are as for `first_position_delete`.
    """
    return bisect_right(numbers, number)


def vectors_by_target(vectors: Iterable[ManifestEntry]) -> dict[str, ManifestEntry]:
    """Return deletion vectors by the path of their data file. A data file has at most one (iceberg 4.21)."""
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
    """Return the data file paths of those position delete files whose path bounds allow exactly one path."""
    bounds = (path_bounds(entry.file) for entry in deletes if entry.file.content is Content.POSITION_DELETES)
    return frozenset(pair[0] for pair in bounds if pair is not None and pair[0] == pair[1])


def path_bounds(file: DataFile) -> tuple[str, str] | None:
    """Return the lowest and highest path in a position delete file (iceberg 4.14).

    Returns:
        The bounds, or None if they are unknown, not UTF-8, or inverted.
    """
    lower = (file.lower_bounds or {}).get(FILE_PATH_ID)
    upper = (file.upper_bounds or {}).get(FILE_PATH_ID)
    if lower is None or upper is None or lower > upper:
        return None
    try:
        return lower.decode(), upper.decode()
    except UnicodeDecodeError:
        return None


@dataclass(frozen=True, slots=True)
class FileDeletes:
    """The position delete files to read for a data file without a deletion vector.

    Attributes:
        applied: Delete files that apply, by sequence number. A delete file may turn out to have no row for the data
            file.
        suspects: Delete files that do not apply and must not list the data file. Only reading these files can prove it
            (iceberg 4.4).
    """

    applied: tuple[ManifestEntry, ...] = ()
    suspects: tuple[ManifestEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteIndex:
    """The live deletes of one snapshot, created by `build`.

    Attributes:
        equality_deletes: The equality deletes, in the order of the manifests.
        equality: The scopes of `equality_deletes`.
        scope: The rules.
        vectors: Deletion vectors by the recorded path of their data file.
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
        """True if the snapshot has position delete files or deletion vectors."""
        return bool(self.vectors or self._targeted or self._scoped)

    @staticmethod
    def build(
        entries: Iterable[ManifestEntry],
        scope: DeleteScope,
        *,
        format_version: int,
        live_paths: Container[str] = frozenset(),
    ) -> DeleteIndex:
        """Return an index of the entries in the snapshot's delete manifests. Entries of status deleted are left out.

        Args:
            entries: Delete entries, with bounds of the file path (id 2147483546) and of equality keys.
            scope: The rules.
            format_version: The format version of the table.
            live_paths: Recorded paths of the snapshot's live data files. It is enough to pass those that
                `single_targets` returns. If the only path of a delete file is not in `live_paths`, the delete file is
                read for its whole partition, which is slower but returns the same rows (iceberg 4.14).

        Raises:
            CorruptDeleteError: An entry lacks a required field (4.17, 4.23), or a file has two vectors (4.21).
            InvalidTableError: A v1 table has deletes (4.16), or a delete has an unknown spec (2.22).
            UnsupportedError: An equality delete file is in puffin format (2.20).
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
                (scope.equality_delete_partition(entry.file), entry.sequence_number) for entry in equality
            ),
            scope,
            vectors_by_target(entry for entry in positions if entry.file.format == "puffin"),
            _grouped((target, entry) for target, entry in zip(targets, files, strict=True) if target is not None),
            _grouped((scope.partition_of(entry.file), entry) for entry in loose),
            _path_ranges(loose, scope),
        )

    def for_data_file(self, data: ManifestEntry) -> FileDeletes:
        """Return the position delete files for a live data file that has no deletion vector (iceberg 4.5).

        Raises:
            CorruptDeleteError: A delete file is for this data file, but has another partition (4.4).
        """
        path, number = data.file.path, data.sequence_number
        targeting = self._targeted.get(path, _NONE).since(number)
        for entry in targeting:
            self.scope.check_target(entry.file, data.file)
        partition, lenient = self.scope.partition_of(data.file), self.scope.lenient
        foreign_deletes = tuple(self._deletes_of_other_partitions(data, partition))
        applied = (*targeting, *self._scoped.get(partition, _NONE).since(number), *(foreign_deletes if lenient else ()))
        return FileDeletes(
            applied=tuple(sorted(applied, key=lambda entry: entry.sequence_number)),
            suspects=() if lenient else foreign_deletes,
        )

    @property
    def targeted_paths(self) -> frozenset[str]:
        """The recorded paths of data files with their own position delete file, which is for no other data file."""
        return frozenset(self._targeted)

    @property
    def named_paths(self) -> frozenset[str]:
        """The recorded paths of data files with a deletion vector or with their own position delete file."""
        return frozenset(self.vectors) | self.targeted_paths

    def delete_for_path(self, path: str) -> ManifestEntry:
        """Return the deletion vector of a data file, or a delete file for it alone. `path` must be in `named_paths`."""
        vector = self.vectors.get(path)
        return next(iter(self._targeted[path].since(0))) if vector is None else vector

    @property
    def scoped_partitions(self) -> frozenset[Hashable]:
        """The partitions with position delete files that may list any of their data files."""
        return frozenset(self._scoped)

    def has_foreign_deletes(self, spec_id: int) -> bool:
        """Return whether position delete files of other partitions may list data files with the given spec."""
        return any(other != spec_id or self.scope.lenient for other in self._ranges)

    def _deletes_of_other_partitions(self, data: ManifestEntry, partition: Hashable) -> Iterator[ManifestEntry]:
        """Yield delete files of other partitions that may list a data file.

        Delete files with the data file's own spec are included only if the scope is lenient.
        """
        for spec_id, ranges in self._ranges.items():
            if spec_id == data.file.spec_id and not self.scope.lenient:
                continue
            for entry in ranges.files_for_path(data.file.path, data.sequence_number):
                if self.scope.partition_of(entry.file) != partition:
                    yield entry


def check_entry(entry: ManifestEntry, format_version: int) -> None:
    """Raise an error of `DeleteIndex.build` if a delete entry lacks a required field (4.16, 4.17, 4.23)."""
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
            "Equality delete file has no equality ids, so it is unknown which rows it deletes. Rewrite the delete",
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
        raise _invalid_vector(file, reason, missing[0] if missing else "format-version")


def _invalid_vector(file: DataFile, reason: str, field: str) -> CorruptDeleteError:
    return CorruptDeleteError(
        f"Invalid deletion vector: {reason}, expected a complete entry in a table of version 3 or later",
        cause="CorruptDeletionVector",
        file=file.path,
        field=field,
        rule="iceberg 4.17",
    )


@dataclass(frozen=True, slots=True)
class _BySequence(Generic[T]):
    """Deletes, or their indexes, in ascending order of sequence number."""

    numbers: tuple[int, ...]
    items: tuple[T, ...]

    @staticmethod
    def sort(deletes: Iterable[tuple[int, T]]) -> _BySequence[T]:
        ordered = sorted(deletes, key=lambda pair: pair[0])
        return _BySequence(tuple(number for number, _ in ordered), tuple(item for _, item in ordered))

    def since(self, number: int) -> tuple[T, ...]:
        """Return the deletes with this sequence number or a later one."""
        return self.items[first_position_delete(self.numbers, number) :]


_NONE: _BySequence[Any] = _BySequence((), ())


def _grouped(keyed: Iterable[tuple[K, ManifestEntry]]) -> dict[K, _BySequence[ManifestEntry]]:
    """Group delete files by key, in ascending order of sequence number."""
    groups: defaultdict[K, list[tuple[int, ManifestEntry]]] = defaultdict(list)
    for key, entry in keyed:
        groups[key].append((entry.sequence_number, entry))
    return {key: _BySequence.sort(group) for key, group in groups.items()}


@dataclass(frozen=True, slots=True)
class _PathRanges:
    """Position delete files by the range of paths that they may list.

    Attributes:
        lowers: Lower bounds of `bounded`, ascending.
        uppers: Upper bounds of `bounded`. An upper bound includes all paths that start with it, because writers
            truncate upper bounds without rounding up.
        highest: The greatest upper bound so far, which ends a search early.
        bounded: Files with known bounds, in order of `lowers`.
        unbounded: Files with unknown bounds.
    """

    lowers: tuple[str, ...]
    uppers: tuple[str, ...]
    highest: tuple[str, ...]
    bounded: tuple[ManifestEntry, ...]
    unbounded: _BySequence[ManifestEntry]

    def files_for_path(self, path: str, number: int) -> Iterator[ManifestEntry]:
        """Yield the delete files that may list `path` and whose sequence number is at least `number`."""
        yield from self.unbounded.since(number)
        for index in range(bisect_right(self.lowers, path) - 1, -1, -1):
            if self.highest[index] < path:
                return
            if self.uppers[index] >= path and self.bounded[index].sequence_number >= number:
                yield self.bounded[index]


def _path_ranges(files: Iterable[ManifestEntry], scope: DeleteScope) -> dict[int, _PathRanges]:
    """Group delete files by spec id, as path ranges."""
    by_spec: defaultdict[int, list[tuple[tuple[str, str] | None, ManifestEntry]]] = defaultdict(list)
    for entry in files:
        by_spec[entry.file.spec_id].append((path_bounds(entry.file) if scope.trusted else None, entry))
    return {spec_id: _ranges_of(bounds) for spec_id, bounds in by_spec.items()}


def _ranges_of(bounds: list[tuple[tuple[str, str] | None, ManifestEntry]]) -> _PathRanges:
    bounded_files = sorted(
        ((pair[0], pair[1] + _LAST, entry) for pair, entry in bounds if pair), key=lambda item: item[0]
    )
    uppers = tuple(upper for _, upper, _ in bounded_files)
    return _PathRanges(
        tuple(lower for lower, _, _ in bounded_files),
        uppers,
        tuple(accumulate(uppers, max)),
        tuple(entry for _, _, entry in bounded_files),
        _BySequence.sort((entry.sequence_number, entry) for pair, entry in bounds if pair is None),
    )


@dataclass(slots=True)
class EqualityDeletes:
    """Equality deletes by partition. Deletes of an unpartitioned spec apply to every partition (iceberg 4.2, 4.6).

    Attributes:
        global_deletes: Indexes of the deletes of unpartitioned specs.
        by_partition: Indexes of all remaining deletes.
        cached_sets: Results of `deletes_for`.
    """

    global_deletes: _BySequence[int]
    by_partition: Mapping[Hashable, _BySequence[int]]
    cached_sets: dict[tuple[Hashable, int, int], tuple[int, ...]]

    @staticmethod
    def build(deletes: Iterable[tuple[Hashable | None, int]]) -> EqualityDeletes:
        """Return the scopes of deletes, given the partition (None: all) and sequence number of each, in order."""
        groups: defaultdict[Hashable, list[tuple[int, int]]] = defaultdict(list)
        global_deletes: list[tuple[int, int]] = []
        for ordinal, (partition, number) in enumerate(deletes):
            (global_deletes if partition is None else groups[partition]).append((number, ordinal))
        by_partition = {key: _BySequence.sort(group) for key, group in groups.items()}
        return EqualityDeletes(_BySequence.sort(global_deletes), by_partition, {})

    def deletes_for(self, partition: Hashable, number: int) -> tuple[int, ...]:
        """Return the ascending indexes of the deletes that apply to a data file. Equal results are the same object."""
        partition_deletes = self.by_partition.get(partition)
        scope = _NONE if partition_deletes is None else partition_deletes
        start, global_start = (
            first_equality_delete(deletes.numbers, number) for deletes in (scope, self.global_deletes)
        )
        key = (None if partition_deletes is None else partition, start, global_start)
        if key not in self.cached_sets:
            self.cached_sets[key] = tuple(sorted(scope.items[start:] + self.global_deletes.items[global_start:]))
        return self.cached_sets[key]


def vector_of(file: DataFile, physical: PhysicalPath) -> StoredVector:
    """Return the deletion vector that a manifest entry describes.

    Args:
        file: The file of the entry.
        physical: The physical path of the file that holds the vector.

    Raises:
        CorruptDeleteError: The entry does not record where in the file the vector is (4.17).
    """
    if file.content_offset is None or file.content_size is None:
        missing = "content_offset" if file.content_offset is None else "content_size_in_bytes"
        raise _invalid_vector(file, f"its entry has no {missing}", missing)
    return StoredVector(
        path=file.path,
        physical=physical,
        format="puffin",
        offset=file.content_offset,
        length=file.content_size,
        record_count=file.record_count,
    )
