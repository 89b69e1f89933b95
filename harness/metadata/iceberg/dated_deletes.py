"""The deletes of data files over a range of snapshots, and the spans of the files between them (iceberg section 4)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, TypeGuard

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from harness.errors import HarnessError
from harness.metadata.iceberg.columns.entries import DataFiles
from harness.metadata.iceberg.delete_scope import (
    DeleteIndex,
    DeleteScope,
    check_entry,
    single_targets,
    vector_of,
    vectors_by_target,
)
from harness.metadata.iceberg.manifests import Content, ManifestEntry
from harness.metadata.iceberg.planned_deletes import (
    DeleteSets,
    equality_deletes,
    key_columns,
    may_have_delete_files,
    planned_delete_file,
)
from harness.metadata.iceberg.scan import apply_path_map, live_among, warn_of_stray_deletes
from harness.metadata.iceberg.states import ALWAYS
from harness.metadata.iceberg.values import Partitions
from harness.metadata.model.arrow_values import Mask, array_of, to_numpy
from harness.metadata.plan.deletes import (
    DatedDelete,
    DatedPositions,
    PathSpellings,
    PositionDeleteFile,
    PositionDeletes,
)
from harness.metadata.plan.lifetimes import Span, overlap
from harness.storage.records import dataclass

if TYPE_CHECKING:
    from harness.metadata.iceberg.table import IcebergTable


@dataclass(frozen=True, slots=True)
class DatedEntry:
    """A delete file or vector in one of its spans.

    Attributes:
        code: The number of the delete. A delete that was removed and added again has one number.
        entry: The manifest entry.
        span: When the delete was live.
    """

    code: int
    entry: ManifestEntry
    span: Span


@dataclass(frozen=True, slots=True)
class Piece:
    """A data file in one span of a plan.

    Attributes:
        place: The index of the data file.
        span: The span.
        positions: Its position deletes; None if it has none.
        equality: Indexes of the equality deletes that apply to it.
    """

    place: int
    span: Span
    positions: DatedPositions | None
    equality: tuple[int, ...]


def _is_inside(commit: int | None, span: Span) -> TypeGuard[int]:
    """Return whether a commit is after the first state of a span and before its end."""
    return commit is not None and span.added < commit and (span.removed is None or commit < span.removed)


@dataclass(slots=True)
class DatedDeletes:
    """The deletes of a range, applied to its data files.

    Attributes:
        files: The data files.
        deletes: The deletes.
        partitions: The partition tuples of the plan.
        source: The table.
        replaces: The numbers of the commits that did not change rows (operation `replace`).
        all_paths: Returns the paths of the data files and of further files that were live in the range.
    """

    files: DataFiles
    deletes: Sequence[DatedEntry]
    partitions: Partitions
    source: IcebergTable
    replaces: Collection[int]
    all_paths: Callable[[], pa.ChunkedArray]
    index: DeleteIndex = field(init=False)
    sets: DeleteSets = field(init=False)
    _dated: dict[int, DatedEntry] = field(init=False)
    _vectors: dict[str, list[DatedEntry]] = field(init=False)
    _delete_files: dict[int, tuple[int, PositionDeleteFile]] = field(default_factory=dict)
    # by the identity of a tuple, because files with the same deletes share one tuple, which may be long
    _overlapping: dict[tuple[int, Span], tuple[int, ...]] = field(default_factory=dict)
    _read: dict[int, Mapping[str, BitMap64]] = field(default_factory=dict)
    _changed: dict[int, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        source, metadata = self.source, self.source.metadata
        spellings = PathSpellings(source.path_map, metadata.location, source.location, source.storage.untrusted)
        entries = apply_path_map(tuple(each.entry for each in self.deletes), self.all_paths, spellings)
        dated = [replace(each, entry=replace(entry)) for each, entry in zip(self.deletes, entries, strict=True)]
        scope = DeleteScope(
            partition_of=lambda file: self.partitions.key_of(file.spec_id, file.partition),
            specs=metadata.specs,
            lenient=source.options.lenient_delete_partition,
            trusted=not source.storage.untrusted,
        )
        for each in dated:
            check_entry(each.entry, metadata.format_version)
        vectors = [each for each in dated if _is_vector(each.entry)]
        self._vectors = _by_target(vectors)
        newest_vectors = [of_file[-1].entry for of_file in self._vectors.values()]
        others = [each.entry for each in dated if not _is_vector(each.entry)]
        self._dated = {id(each.entry): each for each in dated}
        self.index = DeleteIndex.build(
            [*others, *newest_vectors],
            scope,
            format_version=metadata.format_version,
            live_paths=live_among(single_targets(others), self.all_paths),
        )
        keys = [
            key_columns(e.file.equality_ids or (), self.partitions.schemas, file=e.file.path)
            for e in self.index.equality_deletes
        ]
        self.sets = DeleteSets(self.index.equality_deletes, keys, source, self.partitions)
        if self.deletes:
            warn_of_stray_deletes(self.index, self.files, self.all_paths, spellings)

    def pieces(self, spans: Sequence[tuple[Span, ...]], *, has_events: Callable[[int], bool] | None) -> Iterator[Piece]:
        """Yield the data files with their deletes, once for each span.

        If a commit makes deleted rows visible again, the span of the data file ends there, and another one begins.

        Args:
            spans: The spans of each data file.
            has_events: Returns whether a commit shows changes. Files without changes are then left out. None to return
                all files.
        """
        codes, sets = equality_deletes(self.files, self.index, self.partitions)
        hits = self.sets.narrowed(self.files, [sets[code] for code in codes.tolist()]) if any(sets) else None
        places: Sequence[int] = range(len(self.files))
        may_have_positions = self._may_have_positions()
        if has_events is not None:
            changes_positions = any(
                each.span != ALWAYS and each.entry.file.content is Content.POSITION_DELETES for each in self.deletes
            )
            places = [
                place
                for place in places
                if spans[place] != (ALWAYS,)
                or (changes_positions and may_have_positions[place])
                or (hits is not None and self._has_changes(hits[place]))
            ]
        with_positions = [place for place in places if may_have_positions[place]]
        entries = dict(zip(with_positions, self.files.entries(with_positions), strict=True))
        for place in places:
            for span in spans[place]:
                equality = () if hits is None else self._overlapping_deletes(hits[place], span)
                for piece in self._split(place, entries.get(place), span, equality):
                    if has_events is None or _has_events(piece, self._equality_spans(piece.equality), has_events):
                        yield piece

    def _may_have_positions(self) -> Mask:
        """Return which data files may have vectors or position delete files."""
        mask = may_have_delete_files(self.files, self.index, self.partitions)
        if self._vectors:
            targets = array_of(sorted(self._vectors), pa.string())
            mask |= to_numpy(pc.is_in(self.files.table.column("path"), value_set=targets))
        return mask

    def position_deletes(self, pieces: Iterable[Piece]) -> tuple[PositionDeletes, pa.Array]:
        """Return the position deletes of a plan, and the column `FILES.positions` of its files."""
        numbers: dict[DatedPositions, int] = {}
        indexes = [None if p.positions is None else numbers.setdefault(p.positions, len(numbers)) for p in pieces]
        files = tuple(file for _, file in self._delete_files.values())
        return PositionDeletes(files=files, sets=tuple(numbers)), array_of(indexes, pa.int32())

    def equality_spans(self) -> tuple[Span, ...]:
        """Return the span of each equality delete of the plan."""
        return self._equality_spans(self.sets.used_places())

    def _equality_spans(self, places: Iterable[int]) -> tuple[Span, ...]:
        return tuple(self._dated[id(self.index.equality_deletes[place])].span for place in places)

    def _has_changes(self, places: tuple[int, ...]) -> bool:
        """Return whether a commit added or removed one of some equality deletes."""
        if id(places) not in self._changed:
            self._changed[id(places)] = any(span != ALWAYS for span in self._equality_spans(places))
        return self._changed[id(places)]

    def _overlapping_deletes(self, places: tuple[int, ...], span: Span) -> tuple[int, ...]:
        """Return the equality deletes that were live in some state of a span. Equal results are the same object."""
        if not places:
            return ()
        key = id(places), span
        if key not in self._overlapping:
            spans = self._equality_spans(places)
            hits = tuple(place for place, other in zip(places, spans, strict=True) if overlap(span, other))
            self._overlapping[key] = hits
        return self._overlapping[key]

    def _split(self, place: int, data: ManifestEntry | None, span: Span, equality: tuple[int, ...]) -> Iterator[Piece]:
        """Yield the pieces of a data file in one of its spans."""
        vectors: list[DatedEntry] = []
        files: list[DatedEntry] = []
        suspects: list[DatedEntry] = []
        if data is not None:
            vectors = [each for each in self._vectors.get(data.file.path, ()) if overlap(span, each.span)]
            for each in vectors:
                self.index.scope.check_vector(each.entry, data)
            candidates = self.index.for_data_file(data)
            files, suspects = (
                [each for entry in of_file if overlap(span, (each := self._dated[id(entry)]).span)]
                for of_file in (candidates.applied, candidates.suspects)
            )
        ends = sorted(set(self._reappearances(span, data, vectors, files, self._equality_spans(equality))))
        for start, end in zip([span.added, *ends], [*ends, span.removed], strict=True):
            piece = Span(start, end)
            yield Piece(
                place,
                piece,
                self._positions(piece, vectors, files, suspects),
                self._overlapping_deletes(equality, piece) if ends else equality,
            )

    def _reappearances(
        self,
        span: Span,
        data: ManifestEntry | None,
        vectors: Sequence[DatedEntry],
        files: Sequence[DatedEntry],
        equality: Iterable[Span],
    ) -> Iterator[int]:
        """Yield the commits in a span of a data file that may have made rows visible again.

        These are the commits that removed a delete without a replacement. A commit of operation `replace` replaces all
        deletes that it removes.
        """
        covered = _union(each.span for each in vectors)
        parts = [(each, each.span) for each in vectors]
        parts += [(each, part) for each in files for part in _without(each.span, covered)]
        for end in {part.removed for _, part in parts}:
            if _is_inside(end, span) and end not in self.replaces and self._restores_rows(data, parts, end):
                yield end
        for each in equality:
            if _is_inside(each.removed, span) and each.removed not in self.replaces:
                yield each.removed

    def _restores_rows(
        self, data: ManifestEntry | None, deletes: Sequence[tuple[DatedEntry, Span]], commit: int
    ) -> bool:
        """Return whether a commit made rows of a data file visible again by removing or replacing position deletes.

        If the commit added more deleted rows than it removed, it is assumed to replace all of them, and the loader of
        the positions checks it. Otherwise the deletes are read. If that fails, the result is True: it is never wrong
        to begin a new span, and reading the file raises the error.

        Args:
            data: The data file.
            deletes: The position deletes of the data file, with the spans in which they count.
            commit: The number of the commit.
        """
        removed = [each for each, span in deletes if span.removed == commit]
        added = [each for each, span in deletes if span.added == commit]
        counts = [[each.entry.file.record_count or 0 for each in entries] for entries in (removed, added)]
        if sum(counts[1]) > sum(counts[0]):
            return False
        rest = [each for each, span in deletes if overlap(span, Span(commit, commit + 1))]
        if data is None or self.source.path_map.explicit_count:
            return True
        try:
            old, new = (
                BitMap64.union(BitMap64(), *(self._rows(each, data) for each in entries)) for entries in (removed, rest)
            )
        except HarnessError:
            return True
        return not old <= new

    def _rows(self, delete: DatedEntry, data: ManifestEntry) -> BitMap64:
        """Return the rows of a data file that a position delete file or vector deletes."""
        from harness.metadata.deletes.position_files import read_positions
        from harness.metadata.deletes.puffin import open_puffin, read_deletion_vector

        file, storage = delete.entry.file, self.source.storage
        physical = self.source.path_map.physical(file.path)
        storage.check(physical, file.path)
        if _is_vector(delete.entry):
            puffin, vector = open_puffin(storage, physical, file=file.path), vector_of(delete.entry.file, physical)
            return read_deletion_vector(puffin, vector, target=data.file.path, data_record_count=data.file.record_count)
        if delete.code not in self._read:
            self._read[delete.code] = read_positions(
                storage,
                path=file.path,
                physical=physical,
                format=file.format,
                record_count=file.record_count,
                data_files=frozenset(self.files.table.column("path").to_pylist()),
            )
        return self._read[delete.code].get(data.file.path, BitMap64())

    def _positions(
        self,
        span: Span,
        vectors: Sequence[DatedEntry],
        files: Sequence[DatedEntry],
        suspects: Sequence[DatedEntry],
    ) -> DatedPositions | None:
        """Return the position deletes of a data file in a span, or None if it has none."""
        vectors = [each for each in vectors if overlap(span, each.span)]
        physical = self.source.path_map.physical
        deletes = [
            DatedDelete(vector_of(each.entry.file, physical(each.entry.file.path)), each.span) for each in vectors
        ]
        covered = _union(each.span for each in vectors)
        deletes += [
            DatedDelete(self._number(each), part)
            for each in files
            for part in _without(each.span, covered)
            if overlap(span, part)
        ]
        suspect_numbers = tuple(self._number(each) for each in suspects if overlap(span, each.span))
        if not deletes and not suspect_numbers:
            return None
        return DatedPositions(tuple(sorted(deletes, key=lambda each: each.span.added)), suspect_numbers)

    def _number(self, delete: DatedEntry) -> int:
        """Return the index of a delete file in the plan, and add the file if it is new."""
        if delete.code not in self._delete_files:
            file = planned_delete_file(delete.entry, self.partitions, self.source.path_map)
            self._delete_files[delete.code] = len(self._delete_files), file
        return self._delete_files[delete.code][0]


def _is_vector(entry: ManifestEntry) -> bool:
    return entry.file.content is Content.POSITION_DELETES and entry.file.format == "puffin"


def _by_target(vectors: Iterable[DatedEntry]) -> dict[str, list[DatedEntry]]:
    """Return vectors by the path of their data file, oldest first.

    Raises:
        CorruptDeleteError: A data file has two vectors in one state (iceberg 4.21).
    """
    by_target: defaultdict[str, list[DatedEntry]] = defaultdict(list)
    for vector in sorted(vectors, key=lambda each: each.span.added):
        of_file = by_target[vector.entry.file.referenced_data_file or ""]
        if of_file and overlap(of_file[-1].span, vector.span):
            vectors_by_target([of_file[-1].entry, vector.entry])
        of_file.append(vector)
    return dict(by_target)


def _union(spans: Iterable[Span]) -> list[Span]:
    """Return the parts of the range that spans cover, given the spans in ascending order and without overlaps."""
    parts: list[Span] = []
    for span in spans:
        if parts and parts[-1].removed == span.added:
            span = Span(parts.pop().added, span.removed)
        parts.append(span)
    return parts


def _without(span: Span, covered: Iterable[Span]) -> Iterator[Span]:
    """Yield the parts of a span outside of others, which must be in ascending order and without overlaps."""
    start = span.added
    for other in covered:
        if not overlap(Span(start, span.removed), other):
            continue
        if start < other.added:
            yield Span(start, other.added)
        if other.removed is None:
            return
        start = other.removed
    if span.removed is None or start < span.removed:
        yield Span(start, span.removed)


def _has_events(piece: Piece, equality: Iterable[Span], shows: Callable[[int], bool]) -> bool:
    """Return whether a commit with visible changes added, removed, or deleted rows of a data file."""
    span = piece.span
    positions = () if piece.positions is None else (each.span for each in piece.positions.deletes)
    added = (each.added for each in (*positions, *equality) if span.added < each.added)
    return (
        shows(span.added)
        or (span.removed is not None and shows(span.removed))
        or any(shows(commit) for commit in added if span.removed is None or commit < span.removed)
    )
