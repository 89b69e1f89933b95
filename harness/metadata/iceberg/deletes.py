"""The delete index of a snapshot: every live delete, found by data file.

The index is built once from the entries of the delete manifests, and asked once per planned data file. Deletes are kept
by target path, by partition and by sequence number, so that a question costs a binary search and its answer, however
many delete files there are. The rules are those of `harness.metadata.iceberg.delete_scope`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping
from dataclasses import field
from itertools import accumulate
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import CorruptDeleteError, CorruptFileError, InvalidTableError, UnsupportedError
from harness.metadata.iceberg.columns.entries import DataFiles
from harness.metadata.iceberg.delete_scope import (
    DeleteScope,
    first_equality_delete,
    first_position_delete,
    path_bounds,
    vectors_by_target,
)
from harness.metadata.iceberg.manifests import Content, ManifestEntry, Status
from harness.metadata.iceberg.values import Partitions
from harness.metadata.model.arrow_values import array_of, distinct, from_numpy, to_numpy
from harness.metadata.plan.deletes import (
    PositionDeleteFile,
    PositionDeletes,
    PositionFiles,
    StoredVector,
    vectors_table,
)
from harness.storage.paths import PathMap, PhysicalPath
from harness.storage.records import dataclass

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_LAST = chr(0x10FFFF)


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
            EqualityDeletes.build((scope.of_equality_delete(entry), entry.sequence_number) for entry in equality),
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
        elsewhere = tuple(self._elsewhere(data, partition))
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

    def of_path(self, path: str) -> ManifestEntry:
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

    def _elsewhere(self, data: ManifestEntry, partition: Hashable) -> Iterator[ManifestEntry]:
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
    def of(deletes: Iterable[tuple[int, T]]) -> _BySequence[T]:
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
    return {key: _BySequence.of(group) for key, group in groups.items()}


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
        _BySequence.of((entry.sequence_number, entry) for pair, entry in bounds if pair is None),
    )


@dataclass(slots=True)
class EqualityDeletes:
    """Equality deletes by partition; those of an unpartitioned spec hit every partition (iceberg 4.2, 4.6)."""

    everywhere: _BySequence[int]
    by_partition: Mapping[Hashable, _BySequence[int]]
    answers: dict[tuple[Hashable, int, int], tuple[int, ...]]

    @staticmethod
    def build(deletes: Iterable[tuple[Hashable | None, int]]) -> EqualityDeletes:
        """Scopes from the partition (None: every one) and the sequence number of each delete, in order of ordinals."""
        groups: defaultdict[Hashable, list[tuple[int, int]]] = defaultdict(list)
        everywhere: list[tuple[int, int]] = []
        for ordinal, (partition, number) in enumerate(deletes):
            (everywhere if partition is None else groups[partition]).append((number, ordinal))
        by_partition = {key: _BySequence.of(group) for key, group in groups.items()}
        return EqualityDeletes(_BySequence.of(everywhere), by_partition, {})

    def hitting(self, partition: Hashable, number: int) -> tuple[int, ...]:
        """Ordinals, ascending, of the deletes that hit a data file; equal answers are one object."""
        own = self.by_partition.get(partition)
        scope = _NONE if own is None else own
        start, everywhere = (first_equality_delete(deletes.numbers, number) for deletes in (scope, self.everywhere))
        key = (None if own is None else partition, start, everywhere)
        if key not in self.answers:
            self.answers[key] = tuple(sorted(scope.items[start:] + self.everywhere.items[everywhere:]))
        return self.answers[key]


def position_deletes(
    files: DataFiles, index: DeleteIndex, partitions: Partitions, path_map: PathMap
) -> tuple[PositionDeletes, pa.Array]:
    """Return the position deletes of data files, and `FILES.positions`.

    Raises CorruptDeleteError: a delete names a data file but contradicts its partition or sequence number (4.3, 4.4).
    """
    vectors, numbers = _vectors(files, index, partitions)
    table = files.table
    concerned = np.zeros(len(files), dtype=np.bool_)
    targeted = array_of(sorted(index.targeted_paths), pa.string())
    if len(targeted):
        concerned |= to_numpy(pc.is_in(table.column("path"), value_set=targeted))
    scoped = index.scoped_partitions
    specs, tuples = to_numpy(table.column("spec_id")), to_numpy(table.column("tuple"))
    if scoped:
        in_scope = [partitions.key_of(spec, values) in scoped for spec, values in _tuples(files)]
        concerned |= np.array(in_scope, dtype=np.bool_)[tuples]
    for spec in distinct(specs).tolist():
        if index.reaches(spec):
            concerned |= specs == spec
    places = np.flatnonzero(concerned & (numbers < 0)).tolist()
    delete_files: dict[int, tuple[int, ManifestEntry]] = {}
    sets: dict[PositionFiles, int] = {}

    def numbered(entries: Iterable[ManifestEntry]) -> tuple[int, ...]:
        return tuple(delete_files.setdefault(id(e), (len(delete_files), e))[0] for e in entries)

    for place, deletes in zip(places, map(index.for_data_file, files.entries(places)), strict=True):
        if deletes.applied or deletes.suspects:
            source = PositionFiles(numbered(deletes.applied), numbered(deletes.suspects))
            numbers[place] = len(vectors) + sets.setdefault(source, len(sets))
    found = PositionDeletes(
        files=tuple(_delete_file(entry, partitions, path_map) for _, entry in delete_files.values()),
        vectors=vectors_table([vector_of(entry, path_map.physical(entry.file.path)) for entry in vectors]),
        sets=tuple(sets),
    )
    return found, from_numpy(numbers, missing=numbers < 0)


def _vectors(
    files: DataFiles, index: DeleteIndex, partitions: Partitions
) -> tuple[list[ManifestEntry], npt.NDArray[np.int32]]:
    """Return the deletion vectors of data files, and per file the number of its vector, -1 if it has none."""
    numbers = np.full(len(files), -1, dtype=np.int32)
    if not index.vectors:
        return [], numbers
    paths, entries = list(index.vectors), list(index.vectors.values())
    known = pc.index_in(files.table.column("path"), value_set=array_of(paths, pa.string()))
    places = np.flatnonzero(to_numpy(known.is_valid()))
    hit = to_numpy(known.drop_null())
    used, numbers[places] = np.unique(hit, return_inverse=True)
    keys = [partitions.key_of(spec, values) for spec, values in _tuples(files)]
    own = np.array([entry.sequence_number for entry in entries], dtype=np.int64)[hit]
    late = own < to_numpy(files.table.column("sequence_number"))[places]
    tuples = to_numpy(files.table.column("tuple"))[places].tolist()
    scopes = [index.scope.partition_of(entries[vector].file) for vector in hit.tolist()]
    elsewhere = [keys[tuple_] != scope for tuple_, scope in zip(tuples, scopes, strict=True)]
    doubtful = late | np.array(elsewhere, dtype=np.bool_)
    for vector, data in zip(hit[doubtful].tolist(), files.entries(places[doubtful].tolist()), strict=True):
        index.scope.check_vector(entries[vector], data)
    return [entries[vector] for vector in used.tolist()], numbers


def _delete_file(entry: ManifestEntry, partitions: Partitions, path_map: PathMap) -> PositionDeleteFile:
    return PositionDeleteFile(
        path=entry.file.path,
        physical=path_map.physical(entry.file.path),
        format=entry.file.format,
        sequence_number=entry.sequence_number,
        partition=partitions.index_of(entry.file.spec_id, entry.file.partition),
        target=entry.file.referenced_data_file,
        record_count=entry.file.record_count,
    )


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


def equality_deletes(
    files: DataFiles, index: DeleteIndex, partitions: Partitions
) -> tuple[npt.NDArray[np.int64], list[tuple[int, ...]]]:
    """Per file the number of its set of equality deletes, in the order in which sets come; and the sets, as indexes
    into `DeleteIndex.equality_deletes`."""
    if not index.equality_deletes:
        return np.zeros(len(files), dtype=np.int64), [()] if len(files) else []
    keys = [partitions.key_of(spec, values) for spec, values in _tuples(files)]
    pairs = np.stack(
        [to_numpy(files.table.column(name)).astype(np.int64) for name in ("tuple", "sequence_number")], axis=1
    )
    distinct, first, codes = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    sets: dict[tuple[int, ...], int] = {}
    numbers = np.zeros(len(distinct), dtype=np.int64)
    for place in np.argsort(first).tolist():
        tuple_, sequence_number = distinct[place].tolist()
        numbers[place] = sets.setdefault(index.equality.hitting(keys[tuple_], sequence_number), len(sets))
    return numbers[codes.reshape(-1)], list(sets)


def _tuples(files: DataFiles) -> Iterator[tuple[int, Mapping[int, Any]]]:
    """Every partition tuple with its spec."""
    yield from zip(files.specs_of_tuples(), files.tuples, strict=True)
