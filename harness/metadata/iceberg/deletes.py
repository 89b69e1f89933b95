"""Which deletes hit which data file: the scope rules of section 4a, on manifest entries alone.

An index is built once per snapshot from the live entries of its delete manifests, and asked once per planned data file.
Deletes are kept by target path, by partition and by sequence number, so that a question costs a binary search and its
answer, however many delete files there are.

Rules are compared on *data* sequence numbers (iceberg 2.10): a position delete hits files up to its own number, because
it may delete rows of its own commit; an equality delete hits only files with a smaller one (iceberg 4.7).

A position delete file of another partition does not apply (iceberg 4.4). If it nevertheless names a live data file, its
writer meant to delete those rows, and readers disagree, so the answer here is an error (T9). That shows at three
moments: here, where its metadata names exactly one file; when it is read, because the index lists it as a *suspect* of
every file that has another spec and lies within its path bounds; and when it is read for another file anyway. Not
caught: a file that names a data file of its own spec and another tuple, unless one of these moments comes. To read the
delete files of all partitions for that would undo partition pruning.

Spec: Iceberg, "Scan Planning" and "Delete Formats".
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import CorruptDeleteError, CorruptFileError, InvalidTableError, UnsupportedError
from harness.metadata.iceberg.columns.data_files import DataFiles
from harness.metadata.iceberg.delete_lookup import BySequence, DeleteSets, PathRanges, grouped, path_bounds, path_ranges
from harness.metadata.iceberg.manifests import Content, DataFile, ManifestEntry, Status
from harness.metadata.iceberg.partitions import Partitions
from harness.metadata.iceberg.relocation import authorities
from harness.metadata.iceberg.specs import PartitionSpec
from harness.metadata.model.arrow_values import array_of, distinct, to_numpy
from harness.storage.records import dataclass
from harness.storage.threads import cached_property

PartitionOf: TypeAlias = Callable[[DataFile], Hashable]
"""The partition tuple of a file, equal for equal tuples of one spec (iceberg 2.18)."""


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
    _targeted: Mapping[str, BySequence] = field(repr=False)
    _scoped: Mapping[Hashable, BySequence] = field(repr=False)
    _ranges: Mapping[int, PathRanges] = field(repr=False)
    _equality: DeleteSets = field(repr=False)

    @staticmethod
    def build(
        entries: Iterable[ManifestEntry],
        *,
        specs: Mapping[int, PartitionSpec],
        partition_of: PartitionOf,
        format_version: int,
        live_paths: Container[str] = frozenset(),
        mismatched_partitions: Literal["refuse", "apply"] = "refuse",
        trusted: bool = True,
    ) -> DeleteIndex:
        """The index over the entries of the snapshot's delete manifests; entries with status deleted are left out.

        Args:
            entries: delete entries, with bounds of the file path (id 2147483546) and of equality keys.
            specs: the table's partition specs by id.
            partition_of: the partition tuple of a data or delete file.
            format_version: the table's.
            live_paths: recorded paths of the snapshot's live data files; those of `single_targets` are enough. A delete
                file on one path that is not among them is read for its whole partition: slower, equally right
                (iceberg 4.14).
            mismatched_partitions: `apply` lets position delete files and vectors hit files of any partition by path
                (iceberg 4.3, 4.4, the flag `lenient_delete_partition`).
            trusted: whether what entries say of a position delete file, its bounds and the one data file that it is
                for, keeps it from files of its partition; else only its rows do.

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
        targets = [_target(entry.file, live_paths) if trusted else None for entry in files]
        loose = [entry for entry, target in zip(files, targets, strict=True) if target is None]
        return DeleteIndex(
            equality,
            partition_of,
            mismatched_partitions == "apply",
            _vectors_by_target([entry for entry in positions if entry.file.format == "puffin"]),
            grouped((target, entry) for target, entry in zip(targets, files, strict=True) if target is not None),
            grouped((_partition(entry.file, partition_of), entry) for entry in loose),
            path_ranges(loose, trusted=trusted),
            DeleteSets.build((_scope(entry, specs, partition_of), entry.sequence_number) for entry in equality),
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
        position_files = [
            *self._targeting(data, partition),
            *self._scoped.get(partition, _NONE).since(data.sequence_number),
        ]
        elsewhere = tuple(self._elsewhere(data, partition))
        if self._lenient:
            position_files += elsewhere
        return FileDeletes(
            data=data,
            position_files=tuple(sorted(position_files, key=_sequence_number)),
            suspects=() if self._lenient else elsewhere,
            equality=equality,
        )

    @property
    def named_paths(self) -> frozenset[str]:
        """The recorded paths that a deletion vector, or a position delete file of one data file, is for."""
        return frozenset(self._vectors) | frozenset(self._targeted)

    def of_path(self, path: str) -> ManifestEntry:
        """A delete of the vectors and files for one data file, by that file's path, which is one of `named_paths`."""
        vector = self._vectors.get(path)
        return next(iter(self._targeted[path].since(0))) if vector is None else vector

    @property
    def scoped_partitions(self) -> frozenset[Hashable]:
        """The partitions, with their spec, that have position delete files for any of their data files."""
        return frozenset(self._scoped)

    def reaches(self, spec_id: int) -> bool:
        """Whether position delete files of other partitions than its own may concern a data file of the spec."""
        return any(other != spec_id or self._lenient for other in self._ranges)

    def equality_of(self, partition: Hashable, sequence_number: int) -> tuple[int, ...]:
        """The equality deletes that hit the data files of a partition, with its spec, and a sequence number."""
        return self._equality.hitting(partition, sequence_number)

    def _check_vector(self, vector: ManifestEntry, data: ManifestEntry, partition: Hashable) -> None:
        if vector.sequence_number < data.sequence_number:
            raise CorruptDeleteError(
                f"Deletion vector of {data.file.path} has sequence number {vector.sequence_number}, expected at least"
                f" {data.sequence_number} as its data file. Rewrite the vector",
                cause="CorruptDeletionVector",
                file=vector.file.path,
                rule="iceberg 4.3",
            )
        if not self._lenient and _partition(vector.file, self._partition_of) != partition:
            raise partition_mismatch(vector, data, rule="iceberg 4.3")

    def _targeting(self, data: ManifestEntry, partition: Hashable) -> Iterator[ManifestEntry]:
        """Files that name this data file only."""
        for entry in self._targeted.get(data.file.path, _NONE).since(data.sequence_number):
            if not self._lenient and _partition(entry.file, self._partition_of) != partition:
                raise partition_mismatch(entry, data)
            yield entry

    def _elsewhere(self, data: ManifestEntry, partition: Hashable) -> Iterator[ManifestEntry]:
        """Files of other partitions that may name this data file: of any spec if lenient, else of other specs."""
        for spec_id, ranges in self._ranges.items():
            if spec_id == data.file.spec_id and not self._lenient:
                continue
            for entry in ranges.covering(data.file.path, data.sequence_number):
                if _partition(entry.file, self._partition_of) != partition:
                    yield entry


def single_targets(deletes: Iterable[ManifestEntry]) -> frozenset[str]:
    """The paths that are the only one in the path bounds of a position delete file, if the files have them."""
    bounds = (path_bounds(entry.file) for entry in deletes if entry.file.content is Content.POSITION_DELETES)
    return frozenset(pair[0] for pair in bounds if pair is not None and pair[0] == pair[1])


def partition_mismatch(delete: ManifestEntry, data: ManifestEntry, *, rule: str = "iceberg 4.4") -> CorruptDeleteError:
    """The error for a position delete or a vector that names a live data file of another partition."""
    return CorruptDeleteError(
        f"Delete of spec {delete.file.spec_id} and partition {dict(delete.file.partition)} names data file"
        f" {data.file.path} of spec {data.file.spec_id} and partition {dict(data.file.partition)}. Rewrite the delete,"
        " or apply it by path with lenient_delete_partition=True",
        cause="DeletePartitionMismatch",
        file=delete.file.path,
        rule=rule,
        options=("lenient_delete_partition",),
    )


def _sequence_number(entry: ManifestEntry) -> int:
    return entry.sequence_number


def _partition(file: DataFile, partition_of: PartitionOf) -> Hashable:
    """Equal tuples of different specs are different partitions (iceberg 4.1)."""
    return file.spec_id, partition_of(file)


_NONE = BySequence((), ())


def _vectors_by_target(vectors: Iterable[ManifestEntry]) -> dict[str, ManifestEntry]:
    by_target: dict[str, ManifestEntry] = {}
    for vector in vectors:
        target = vector.file.referenced_data_file
        assert target is not None  # checked by _check_vector_entry
        other = by_target.setdefault(target, vector)
        if other is not vector:
            raise CorruptDeleteError(
                f"Data file {target} has two deletion vectors, in {other.file.path} at {other.file.content_offset} and"
                f" in {vector.file.path} at {vector.file.content_offset}, expected one. Rewrite its deletes",
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
    bounds = path_bounds(file)
    # Equal bounds that no live file has are cut, or wrong, or of a file that is gone: only reading tells which.
    return bounds[0] if bounds is not None and bounds[0] == bounds[1] and bounds[0] in live else None


def _scope(entry: ManifestEntry, specs: Mapping[int, PartitionSpec], partition_of: PartitionOf) -> Hashable | None:
    """The partition that an equality delete hits; None: all, as its spec is unpartitioned (iceberg 4.2, 4.6)."""
    spec = specs.get(entry.file.spec_id)
    if spec is None:
        raise InvalidTableError(
            f"Delete file has partition spec {entry.file.spec_id}, expected one of {sorted(specs)}",
            cause="MissingSpec",
            file=entry.file.path,
            rule="iceberg 2.22",
        )
    return None if spec.is_unpartitioned else _partition(entry.file, partition_of)


# Which deletes apply to the planned data files: the delete index, asked for those files only that it can concern.


@dataclass(frozen=True)
class PlannedFiles:
    """The data files of a plan with their position deletes, by recorded path.

    files: in the order of the plan. with_positions: by ordinal, those that may have deleted positions.
    """

    files: DataFiles
    with_positions: Mapping[int, FileDeletes]

    def __contains__(self, path: object) -> bool:
        return path in self._ordinals

    def __getitem__(self, path: str) -> FileDeletes:
        ordinal = self._ordinals[path]
        found = self.with_positions.get(ordinal)
        return FileDeletes(data=self.files.entry(ordinal)) if found is None else found

    @cached_property
    def authorities(self) -> frozenset[str]:
        """Schemes and authorities that their paths begin with."""
        return authorities(self.files.table.column("path"))

    @cached_property
    def _ordinals(self) -> dict[str, int]:
        # Of a path that is there twice, the later one.
        return {path: ordinal for ordinal, path in enumerate(self.files.table.column("path").to_pylist())}


def with_positions(files: DataFiles, index: DeleteIndex, partitions: Partitions) -> dict[int, FileDeletes]:
    """By ordinal, the files that may have deleted positions, with the sources of these.

    Raises:
        CorruptDeleteError: as `DeleteIndex.for_data_file`.
    """
    table = files.table
    concerned = np.zeros(len(files), dtype=np.bool_)
    named = index.named_paths
    if named:
        concerned |= to_numpy(pc.is_in(table.column("path"), value_set=array_of(sorted(named), pa.string())))
    scoped = index.scoped_partitions
    specs, tuples = to_numpy(table.column("spec_id")), to_numpy(table.column("tuple"))
    if scoped:
        in_scope = [(spec, partitions.key_of(spec, values)) in scoped for spec, values in _tuples(files)]
        concerned |= np.array(in_scope, dtype=np.bool_)[tuples]
    for spec in distinct(specs).tolist():
        if index.reaches(spec):
            concerned |= specs == spec
    places = np.flatnonzero(concerned).tolist()
    found = zip(places, map(index.for_data_file, files.entries(places)), strict=True)
    return {ordinal: deletes for ordinal, deletes in found if deletes.has_positions}


def equality_deletes(
    files: DataFiles, index: DeleteIndex, partitions: Partitions
) -> tuple[npt.NDArray[np.int64], list[tuple[int, ...]]]:
    """Per file the number of its set of equality deletes, in the order in which sets come; and the sets, as indexes
    into `DeleteIndex.equality_deletes`."""
    if not index.equality_deletes:
        return np.zeros(len(files), dtype=np.int64), [()] if len(files) else []
    keys = [(spec, partitions.key_of(spec, values)) for spec, values in _tuples(files)]
    pairs = np.stack(
        [to_numpy(files.table.column(name)).astype(np.int64) for name in ("tuple", "sequence_number")], axis=1
    )
    distinct, first, codes = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    sets: dict[tuple[int, ...], int] = {}
    numbers = np.zeros(len(distinct), dtype=np.int64)
    for place in np.argsort(first).tolist():
        tuple_, sequence_number = distinct[place].tolist()
        numbers[place] = sets.setdefault(index.equality_of(keys[tuple_], sequence_number), len(sets))
    return numbers[codes.reshape(-1)], list(sets)


def _tuples(files: DataFiles) -> Iterator[tuple[int, Mapping[int, Any]]]:
    """Every partition tuple with its spec."""
    yield from zip(files.specs_of_tuples(), files.tuples, strict=True)
