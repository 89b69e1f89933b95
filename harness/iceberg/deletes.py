"""Which deletes hit which data file: the scope rules of section 4a, on manifest entries alone.

An index is built once per snapshot from the live entries of its delete manifests, and asked once per planned data file.
Deletes are kept by target path, by partition and by sequence number, so that a question costs a binary search and its
answer, however many delete files there are.

Rules are compared on *data* sequence numbers (iceberg 2.10): a position delete hits files up to its own number, because
it may delete rows of its own commit; an equality delete hits only files with a smaller one (iceberg 4.7).

A position delete file of another partition does not apply (iceberg 4.4). If it nevertheless names a live data file, its
writer meant to delete those rows, and readers disagree, so the answer here is an error (T9). That shows at three moments:
here, where its metadata names exactly one file; when it is read, because the index lists it as a *suspect* of every file
that has another spec and lies within its path bounds; and when it is read for another file anyway. Not caught: a file
under the same spec that names a file of another tuple, unless one of these moments comes.

Spec: Iceberg, "Scan Planning" and "Delete Formats".
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from harness.errors import CorruptDeleteError, CorruptFileError, InvalidTableError, UnsupportedError
from harness.iceberg.manifests import Content, DataFile, ManifestEntry, Status
from harness.iceberg.specs import PartitionSpec

FILE_PATH_ID = 2147483546
"""Reserved field id of the data file's path in a position delete file (iceberg 4.11)."""

PartitionOf: TypeAlias = Callable[[DataFile], Hashable]
"""The partition tuple of a file, equal for equal tuples of one spec (iceberg 2.18)."""

_LAST = chr(0x10FFFF)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDeletes:
    """One data file, and every delete that applies to it.

    vector: its deletion vector; then `position_files` and `suspects` are empty (iceberg 4.5).
    position_files: position delete files in scope, by sequence number; their rows may name other files only.
    suspects: files out of scope that must not name the data file, which only their rows can tell (iceberg 4.4).
    equality: indexes into `DeleteIndex.equality_deletes`, ascending; files with the same deletes share one tuple.
    """

    data: ManifestEntry
    vector: ManifestEntry | None = None
    position_files: tuple[ManifestEntry, ...] = ()
    suspects: tuple[ManifestEntry, ...] = ()
    equality: tuple[int, ...] = ()

    @property
    def has_positions(self) -> bool:
        """Whether positions must be loaded to know which rows are deleted."""
        return self.vector is not None or bool(self.position_files) or bool(self.suspects)


@dataclass(frozen=True, slots=True)
class DeleteIndex:
    """The live deletes of one snapshot; `build` makes it.

    equality_deletes: every live equality delete file, in the order of the manifests.
    """

    equality_deletes: tuple[ManifestEntry, ...]
    _partition_of: PartitionOf = field(repr=False)
    _lenient: bool = field(repr=False)
    _vectors: Mapping[str, ManifestEntry] = field(repr=False)
    _targeted: Mapping[str, _BySequence] = field(repr=False)
    _scoped: Mapping[Hashable, _BySequence] = field(repr=False)
    _ranges: Mapping[int, _PathRanges] = field(repr=False)
    _equality: _EqualityScopes = field(repr=False)

    @staticmethod
    def build(
        entries: Iterable[ManifestEntry],
        *,
        specs: Mapping[int, PartitionSpec],
        partition_of: PartitionOf,
        live_paths: Container[str],
        format_version: int,
        mismatched_partitions: Literal["refuse", "apply"] = "refuse",
    ) -> DeleteIndex:
        """The index over the entries of the snapshot's delete manifests; entries with status deleted are left out.

        Args:
            entries: delete entries, with bounds of the file path (id 2147483546) and of equality keys.
            specs: the table's partition specs by id.
            partition_of: the partition tuple of a data or delete file.
            live_paths: recorded paths of the snapshot's live data files. Where some are unknown (skipped manifests),
                deletes on them are looked for in the partition: slower, equally right (iceberg 4.14).
            format_version: the table's.
            mismatched_partitions: `apply` lets position delete files hit files of any partition by path
                (iceberg 4.4, the flag `lenient_delete_partition`).

        Raises:
            CorruptDeleteError: an entry lacks what its kind needs (4.17, 4.23), or two vectors hit one file (4.21).
            InvalidTableError: a v1 table has deletes (4.16), or a delete has an unknown spec (2.22).
            UnsupportedError: an equality delete file in puffin format (2.20).
        """
        live = [entry for entry in entries if entry.status is not Status.DELETED]
        for entry in live:
            _check_entry(entry, format_version)
        equality = tuple(entry for entry in live if entry.file.content is Content.EQUALITY_DELETES)
        positions = [entry for entry in live if entry.file.content is Content.POSITION_DELETES]
        files = [entry for entry in positions if entry.file.format != "puffin"]
        targets = [_target(entry.file, live_paths) for entry in files]
        loose = [entry for entry, target in zip(files, targets, strict=True) if target is None]
        return DeleteIndex(
            equality,
            partition_of,
            mismatched_partitions == "apply",
            _vectors_by_target([entry for entry in positions if entry.file.format == "puffin"]),
            _grouped((target, entry) for target, entry in zip(targets, files, strict=True) if target is not None),
            _grouped((_partition(entry.file, partition_of), entry) for entry in loose),
            _path_ranges(loose),
            _EqualityScopes.build(equality, specs, partition_of),
        )

    def for_data_file(self, data: ManifestEntry) -> FileDeletes:
        """Every delete that applies to a live data file of the snapshot. Deletes without a target are ignored (4.8).

        Raises:
            CorruptDeleteError: a delete names the file but contradicts its partition or sequence number (4.3, 4.4).
        """
        partition = _partition(data.file, self._partition_of)
        equality = self._equality.hitting(partition, data.sequence_number)
        vector = self._vectors.get(data.file.path)
        if vector is not None:
            self._check_vector(vector, data, partition)
            return FileDeletes(data=data, vector=vector, equality=equality)
        position_files = [*self._targeting(data, partition), *self._in_partition(data, partition)]
        elsewhere = tuple(self._elsewhere(data, partition))
        if self._lenient:
            position_files += elsewhere
        return FileDeletes(
            data=data,
            position_files=tuple(sorted(position_files, key=_sequence_number)),
            suspects=() if self._lenient else elsewhere,
            equality=equality,
        )

    def _check_vector(self, vector: ManifestEntry, data: ManifestEntry, partition: Hashable) -> None:
        if vector.sequence_number < data.sequence_number:
            raise CorruptDeleteError(
                f"Deletion vector of {data.file.path} has sequence number {vector.sequence_number}, expected at least"
                f" {data.sequence_number} as its data file. Rewrite the vector",
                cause="CorruptDeletionVector",
                file=vector.file.path,
                rule="iceberg 4.3",
            )
        if _partition(vector.file, self._partition_of) != partition:
            raise partition_mismatch(vector, data, rule="iceberg 4.3")

    def _targeting(self, data: ManifestEntry, partition: Hashable) -> Iterator[ManifestEntry]:
        """Files that name this data file only."""
        for entry in self._targeted.get(data.file.path, _NONE).since(data.sequence_number):
            if not self._lenient and _partition(entry.file, self._partition_of) != partition:
                raise partition_mismatch(entry, data)
            yield entry

    def _in_partition(self, data: ManifestEntry, partition: Hashable) -> tuple[ManifestEntry, ...]:
        return self._scoped.get(partition, _NONE).since(data.sequence_number)

    def _elsewhere(self, data: ManifestEntry, partition: Hashable) -> Iterator[ManifestEntry]:
        """Files of other partitions that may name this data file: of any spec if lenient, else of other specs."""
        for spec_id, ranges in self._ranges.items():
            if spec_id == data.file.spec_id and not self._lenient:
                continue
            for entry in ranges.covering(data.file.path, data.sequence_number):
                if _partition(entry.file, self._partition_of) != partition:
                    yield entry


def live_paths(
    entries: Iterable[ManifestEntry], *, duplicates: Literal["refuse", "allow"] = "refuse"
) -> frozenset[str]:
    """Recorded paths of the live data files among `entries`.

    duplicates: `allow` accepts a file that is live twice; its rows are then read twice.

    Raises:
        InvalidTableError: a file is live twice (iceberg 2.13).
    """
    manifests: dict[str, str] = {}
    for entry in entries:
        if entry.status is Status.DELETED or entry.file.content is not Content.DATA:
            continue
        path = entry.file.path
        if path in manifests and duplicates == "refuse":
            raise InvalidTableError(
                f"Data file is live twice, in manifests {manifests[path]} and {entry.manifest}, so its rows are"
                " undefined. Rewrite the manifests, or allow duplicates to read its rows twice",
                cause="DuplicateDataFile",
                file=path,
                rule="iceberg 2.13",
            )
        manifests[path] = entry.manifest
    return frozenset(manifests)


def partition_mismatch(delete: ManifestEntry, data: ManifestEntry, *, rule: str = "iceberg 4.4") -> CorruptDeleteError:
    """The error for a position delete that names a live data file of another partition."""
    return CorruptDeleteError(
        f"Delete of spec {delete.file.spec_id} and partition {dict(delete.file.partition)} names data file"
        f" {data.file.path} of spec {data.file.spec_id} and partition {dict(data.file.partition)}. Rewrite the delete,"
        " or read with lenient delete partitions to apply it by path",
        cause="DeletePartitionMismatch",
        file=delete.file.path,
        rule=rule,
    )


def _sequence_number(entry: ManifestEntry) -> int:
    return entry.sequence_number


def _partition(file: DataFile, partition_of: PartitionOf) -> Hashable:
    """Equal tuples of different specs are different partitions (iceberg 4.1)."""
    return file.spec_id, partition_of(file)


@dataclass(frozen=True, slots=True)
class _BySequence:
    """Deletes in ascending order of sequence number."""

    numbers: tuple[int, ...]
    entries: tuple[ManifestEntry, ...]

    def since(self, number: int) -> tuple[ManifestEntry, ...]:
        """Deletes with this sequence number or a later one."""
        return self.entries[bisect_left(self.numbers, number) :]


_NONE = _BySequence((), ())


def _by_sequence(entries: Iterable[ManifestEntry]) -> _BySequence:
    ordered = tuple(sorted(entries, key=_sequence_number))
    return _BySequence(tuple(map(_sequence_number, ordered)), ordered)


def _grouped(keyed: Iterable[tuple[Hashable, ManifestEntry]]) -> dict[Hashable, _BySequence]:
    groups: defaultdict[Hashable, list[ManifestEntry]] = defaultdict(list)
    for key, entry in keyed:
        groups[key].append(entry)
    return {key: _by_sequence(entries) for key, entries in groups.items()}


def _vectors_by_target(vectors: Iterable[ManifestEntry]) -> dict[str, ManifestEntry]:
    by_target: dict[str, ManifestEntry] = {}
    for vector in vectors:
        target = vector.file.referenced_data_file
        assert target is not None  # checked by _check_vector_entry
        other = by_target.setdefault(target, vector)
        if other is not vector:
            raise CorruptDeleteError(
                f"Data file {target} has two deletion vectors, in {other.file.path} at {other.file.content_offset} and in"
                f" {vector.file.path} at {vector.file.content_offset}, expected one. Rewrite its deletes",
                cause="MultipleDVs",
                file=vector.file.path,
                rule="iceberg 4.21",
            )
    return by_target


def _check_entry(entry: ManifestEntry, format_version: int) -> None:
    if format_version < 2:
        raise InvalidTableError(
            f"A table of format version {format_version} has a live delete file, expected version 2 or later."
            " Upgrade the table's format version, or remove its deletes",
            cause="UnexpectedDeletes",
            file=entry.file.path,
            rule="iceberg 4.16",
        )
    match entry.file.content:
        case Content.DATA:
            raise CorruptFileError(
                f"Delete manifest lists data file {entry.file.path}, expected delete files only",
                cause="CorruptManifest",
                file=entry.manifest,
                field="content",
                rule="iceberg 2.20",
            )
        case Content.POSITION_DELETES:
            if entry.file.format == "puffin":
                _check_vector_entry(entry, format_version)
        case Content.EQUALITY_DELETES:
            _check_equality_entry(entry)


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
        raise CorruptDeleteError(
            f"Invalid deletion vector: {reason}, expected a complete entry in a table of version 3 or later",
            cause="CorruptDeletionVector",
            file=file.path,
            field=missing[0] if missing else "format-version",
            rule="iceberg 4.17",
        )


def _check_equality_entry(entry: ManifestEntry) -> None:
    if entry.file.format == "puffin":
        raise UnsupportedError(
            "Cannot read equality delete file: its format is puffin, expected parquet, avro or orc",
            cause="UnsupportedFormat",
            file=entry.file.path,
            rule="iceberg 2.20",
        )
    if not entry.file.equality_ids:
        raise CorruptDeleteError(
            "Equality delete file has no equality ids, so what its rows delete is unknown. Rewrite the delete",
            cause="CorruptManifest",
            file=entry.file.path,
            field="equality_ids",
            rule="iceberg 4.23",
        )


def _target(file: DataFile, live: Container[str]) -> str | None:
    """The only data file that a position delete file can name; None if it may name several (iceberg 4.4, 4.14)."""
    if file.referenced_data_file is not None:
        return file.referenced_data_file
    bounds = _path_bounds(file)
    # Equal bounds that no live file has are cut, or wrong, or of a file that is gone: only reading tells which.
    return bounds[0] if bounds is not None and bounds[0] == bounds[1] and bounds[0] in live else None


def _path_bounds(file: DataFile) -> tuple[str, str] | None:
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
    unbounded: _BySequence

    def covering(self, path: str, number: int) -> Iterator[ManifestEntry]:
        """Files that may name `path`, with this sequence number or a later one."""
        yield from self.unbounded.since(number)
        for index in range(bisect_right(self.lowers, path) - 1, -1, -1):
            if self.highest[index] < path:
                return
            if self.uppers[index] >= path and self.bounded[index].sequence_number >= number:
                yield self.bounded[index]


def _path_ranges(files: Iterable[ManifestEntry]) -> dict[int, _PathRanges]:
    """Ranges by spec id."""
    by_spec: defaultdict[int, list[ManifestEntry]] = defaultdict(list)
    for entry in files:
        by_spec[entry.file.spec_id].append(entry)
    return {spec_id: _path_ranges_of(entries) for spec_id, entries in by_spec.items()}


def _path_ranges_of(files: list[ManifestEntry]) -> _PathRanges:
    bounds = [(_path_bounds(entry.file), entry) for entry in files]
    known = sorted(((pair[0], pair[1] + _LAST, entry) for pair, entry in bounds if pair), key=lambda item: item[0])
    uppers = tuple(upper for _, upper, _ in known)
    highest: list[str] = []
    for upper in uppers:
        highest.append(max(upper, highest[-1]) if highest else upper)
    return _PathRanges(
        tuple(lower for lower, _, _ in known),
        uppers,
        tuple(highest),
        tuple(entry for _, _, entry in known),
        _by_sequence(entry for pair, entry in bounds if pair is None),
    )


@dataclass(frozen=True, slots=True)
class _EqualityScope:
    """Equality deletes of one partition, or the global ones, in ascending order of sequence number."""

    numbers: tuple[int, ...]
    ordinals: tuple[int, ...]

    def start(self, number: int) -> int:
        """Where the deletes that hit a data file with this sequence number begin: strictly later (iceberg 4.6)."""
        return bisect_right(self.numbers, number)


_EMPTY = _EqualityScope((), ())


@dataclass(frozen=True, slots=True)
class _EqualityScopes:
    """Equality deletes by partition; those of an unpartitioned spec hit every partition (iceberg 4.2, 4.6)."""

    everywhere: _EqualityScope
    by_partition: Mapping[Hashable, _EqualityScope]
    answers: dict[tuple[Hashable, int, int], tuple[int, ...]]

    @staticmethod
    def build(
        deletes: tuple[ManifestEntry, ...], specs: Mapping[int, PartitionSpec], partition_of: PartitionOf
    ) -> _EqualityScopes:
        groups: defaultdict[Hashable, list[tuple[int, int]]] = defaultdict(list)
        everywhere: list[tuple[int, int]] = []
        for ordinal, entry in enumerate(deletes):
            group = everywhere if _spec(entry, specs).is_unpartitioned else groups[_partition(entry.file, partition_of)]
            group.append((entry.sequence_number, ordinal))
        return _EqualityScopes(
            _equality_scope(everywhere), {key: _equality_scope(group) for key, group in groups.items()}, {}
        )

    def hitting(self, partition: Hashable, number: int) -> tuple[int, ...]:
        own = self.by_partition.get(partition)
        scope = _EMPTY if own is None else own
        key = (None if own is None else partition, scope.start(number), self.everywhere.start(number))
        if key not in self.answers:
            self.answers[key] = tuple(sorted(scope.ordinals[key[1] :] + self.everywhere.ordinals[key[2] :]))
        return self.answers[key]


def _equality_scope(group: list[tuple[int, int]]) -> _EqualityScope:
    group.sort()
    return _EqualityScope(tuple(number for number, _ in group), tuple(ordinal for _, ordinal in group))


def _spec(entry: ManifestEntry, specs: Mapping[int, PartitionSpec]) -> PartitionSpec:
    spec = specs.get(entry.file.spec_id)
    if spec is None:
        raise InvalidTableError(
            f"Delete file has partition spec {entry.file.spec_id}, expected one of {sorted(specs)}",
            cause="MissingSpec",
            file=entry.file.path,
            rule="iceberg 2.22",
        )
    return spec
