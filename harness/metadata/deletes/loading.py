"""Deleted positions of data files, loaded from the sources that a plan records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import field
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
from pyroaring import BitMap64

from harness.errors import CorruptDeleteError, HarnessError
from harness.metadata.model.arrow_values import array_of
from harness.metadata.plan.deletes import (
    ChangedRows,
    DatedDelete,
    DatedPositions,
    PathSpellings,
    PositionDeleteFile,
    PositionFiles,
    PositionSource,
    StoredVector,
    Vector,
    authorities,
    partition_mismatch,
)
from harness.metadata.plan.lifetimes import Span, overlap
from harness.metadata.plan.scan_plan import IcebergRules, ScanPlan
from harness.storage.paths import PhysicalPath, RecordedPath, both_paths
from harness.storage.records import dataclass
from harness.storage.stores import Storage
from harness.storage.threads import cached_property, phase

_VectorKey: TypeAlias = tuple[int, int]
"""The ordinal of a data file, and the number of one of its vectors (0: hidden rows, 1: changed rows; or the index of a
dated delete)."""
_FileRow: TypeAlias = dict[str, Any]
"""A data file as a row of `FILES`."""


@dataclass(slots=True)
class PositionLoader:
    """A loader of the deleted positions in one plan. It reads each delete file only once and is not thread-safe."""

    plan: ScanPlan
    storage: Storage
    _loaded: dict[int, BitMap64 | None] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _files: _DeleteFiles | None = None

    def has_same_deletes(self, plan: ScanPlan) -> bool:
        """Return whether this loader also serves another plan.

        The plan must have the same deletes, and its files must be this plan's files or a prefix of them.
        """
        files = self.plan.files
        return self.plan.position_deletes is plan.position_deletes and (
            files is plan.files or files.slice(0, plan.files.num_rows).equals(plan.files)
        )

    def load(self, ordinals: Sequence[int]) -> Mapping[int, BitMap64]:
        """Return the deleted row positions, from 0, by ordinal of the data file.

        Files without deleted positions are absent.

        Raises:
            MissingFileError: A delete file does not exist.
            CorruptFileError: A delete file is damaged.
            CorruptDeleteError: A delete file is damaged or contradicts the plan.
            UnsupportedError: harness cannot read a delete file's format or encryption.
        """
        missing = [ordinal for ordinal in ordinals if ordinal not in self._loaded]
        try:
            self._load(missing)
        except HarnessError as error:
            error.within(table=self.plan.table, format=self.plan.format)
            raise
        return {ordinal: positions for ordinal in ordinals if (positions := self._loaded[ordinal])}

    def load_dated(self, ordinals: Sequence[int]) -> Mapping[int, tuple[BitMap64, ...]]:
        """Return the row positions of each delete of a data file, by ordinal of the data file.

        The plan must have lifetimes. Files without position deletes are absent. The bitmaps must not be changed,
        because files share them.

        Raises:
            CorruptDeleteError: A delete that replaces others does not delete all of their rows, or as for `load`.
            HarnessError: As for `load`.
        """
        try:
            return self._load_dated(ordinals)
        except HarnessError as error:
            error.within(table=self.plan.table, format=self.plan.format)
            raise

    def _load_dated(self, ordinals: Sequence[int]) -> Mapping[int, tuple[BitMap64, ...]]:
        rows = self._rows(ordinals)
        sources = zip(
            rows, self.plan.position_deletes.sources([row["positions"] for row in rows.values()]), strict=True
        )
        dated = {ordinal: source for ordinal, source in sources if isinstance(source, DatedPositions)}
        vectors = {
            (ordinal, place): each.source
            for ordinal, source in dated.items()
            for place, each in enumerate(source.deletes)
            if not isinstance(each.source, int)
        }
        bitmaps = self._read_vectors(vectors, rows) if vectors else {}
        self._files = self._files or _DeleteFiles(self.plan, self.storage)
        loaded: dict[int, tuple[BitMap64, ...]] = {}
        with phase("reading deletes", len(dated), "files") as advance:
            for ordinal, source in dated.items():
                path = rows[ordinal]["path"]
                of_files = self._files.dated_positions(path, source)
                loaded[ordinal] = tuple(
                    of_files[each.source] if isinstance(each.source, int) else bitmaps[ordinal, place]
                    for place, each in enumerate(source.deletes)
                )
                self._check_replacements(ordinal, path, source.deletes, loaded[ordinal])
                advance(1)
        return loaded

    def _check_replacements(
        self, ordinal: int, path: str, deletes: Sequence[DatedDelete], bitmaps: Sequence[BitMap64]
    ) -> None:
        """Raise CorruptDeleteError if a row of a data file was deleted, and a later state no longer deletes it."""
        lifetimes = self.plan.lifetimes
        assert lifetimes is not None
        span = lifetimes.files[ordinal]
        by_commit: defaultdict[int, list[BitMap64]] = defaultdict(list)
        for each, bitmap in zip(deletes, bitmaps, strict=True):
            by_commit[each.span.added].append(bitmap)
        for each, bitmap in zip(deletes, bitmaps, strict=True):
            commit = each.span.removed
            if commit is None or commit <= span.added or (span.removed is not None and commit >= span.removed):
                continue
            rows = bitmap
            for replacement in by_commit.get(commit, ()):  # usually one, and it has all rows
                rows = rows - replacement
            for other, replacement in zip(deletes, bitmaps, strict=True) if rows else ():
                if other.span.added < commit and (other.span.removed is None or other.span.removed > commit):
                    rows = rows - replacement
            if rows:
                source = each.source
                delete = self.plan.position_deletes.files[source] if isinstance(source, int) else source
                is_delta = self.plan.format == "delta"
                point = "version" if is_delta else "snapshot"
                raise CorruptDeleteError(
                    f"{point.capitalize()} {lifetimes.commits[commit].id} replaces a {delete.kind} of {path}, but row "
                    f"{rows[0]} is not deleted any more. Read changes up to the {point} before it, and from it on",
                    cause="UncoveredDelete",
                    file=delete.path,
                    rule=None if is_delta else "iceberg 8.4",
                )

    def _rows(self, ordinals: Sequence[int]) -> dict[int, _FileRow]:
        files = self.plan.files.take(array_of(ordinals, pa.int64())).to_pylist()
        return dict(zip(ordinals, files, strict=True))

    def _load(self, ordinals: Sequence[int]) -> None:
        rows = self._rows(ordinals)
        sources = self.plan.position_deletes.sources([row["positions"] for row in rows.values()])
        vectors: dict[_VectorKey, Vector] = {}
        changed_rows: dict[int, ChangedRows] = {}
        position_files: dict[int, PositionFiles] = {}
        for ordinal, source in zip(rows, sources, strict=True):
            match source:
                case None:
                    self._loaded[ordinal] = None
                case PositionFiles():
                    position_files[ordinal] = source
                case DatedPositions():
                    raise AssertionError("deletes of a plan with lifetimes have no common state")
                case ChangedRows(hidden=hidden_vector, shown=shown_vector):
                    changed_rows[ordinal] = source
                    vectors |= {} if hidden_vector is None else {(ordinal, 0): hidden_vector}
                    vectors[ordinal, 1] = shown_vector
                case _:
                    vectors[ordinal, 0] = source
        bitmaps = self._read_vectors(vectors, rows) if vectors else {}
        self._loaded |= {
            ordinal: positions for (ordinal, _), positions in bitmaps.items() if ordinal not in changed_rows
        }
        for ordinal in changed_rows:
            hidden_rows = bitmaps.get((ordinal, 0), BitMap64())
            self._loaded[ordinal] = self._unchanged(rows[ordinal], bitmaps[ordinal, 1] - hidden_rows)
        if position_files:
            self._files = self._files or _DeleteFiles(self.plan, self.storage)
            with phase("reading deletes", len(position_files), "files") as advance:
                for ordinal, files in position_files.items():
                    self._loaded[ordinal] = self._files.positions(rows[ordinal]["path"], files)
                    advance(1)

    def _unchanged(self, row: _FileRow, changed_rows: BitMap64) -> BitMap64:
        """Return all row positions of a file except the changed ones."""
        from harness.metadata.deletes.delta_vectors import footer_rows

        # The row count comes from the footer: with a recorded count that is too small, the rows after it would seem
        # changed.
        if row["physical"] not in self._counts:
            self._counts[row["physical"]] = footer_rows(row["path"], row["physical"], self.storage)
        everything = BitMap64()
        everything.add_range(0, self._counts[row["physical"]])
        return everything - changed_rows

    def _read_vectors(
        self, vectors: Mapping[_VectorKey, Vector], rows: Mapping[int, _FileRow]
    ) -> dict[_VectorKey, BitMap64]:
        stored: defaultdict[PhysicalPath, dict[_VectorKey, StoredVector]] = defaultdict(dict)
        bitmaps: dict[_VectorKey, BitMap64] = {}
        for key, vector in vectors.items():
            if isinstance(vector, StoredVector):
                stored[vector.physical][key] = vector
                continue
            from harness.metadata.deletes.delta_vectors import check_rows, decode_inline

            row = rows[key[0]]
            try:
                bitmaps[key] = decode_inline(vector, limits=self.storage.limits)
                check_rows(bitmaps[key], row["path"], row["physical"], row["record_count"], self.storage)
            except HarnessError as error:
                raise error.within(file=row["path"]) from error.__cause__
        with phase("reading deletes", len(stored), "files") as advance:
            for physical, members in stored.items():
                is_puffin = next(iter(members.values())).format == "puffin"
                bitmaps |= (self._read_puffin_vectors if is_puffin else self._read_bin_vectors)(physical, members, rows)
                advance(1)
        return bitmaps

    def _read_puffin_vectors(
        self, physical: PhysicalPath, vectors: Mapping[_VectorKey, StoredVector], rows: Mapping[int, _FileRow]
    ) -> dict[_VectorKey, BitMap64]:
        from harness.metadata.deletes.puffin import open_puffin, read_deletion_vector, vector_targets

        path = next(iter(vectors.values())).path  # other vectors may spell the path differently
        puffin = open_puffin(self.storage, physical, file=both_paths(path, physical))
        if any(rows[key[0]]["sequence_number"] is None for key in vectors):  # a server made the plan
            targets = vector_targets(puffin)
            for key, vector in vectors.items():
                self._check_target(vector, rows[key[0]]["path"], targets.get((vector.offset, vector.length)))
        return {
            key: read_deletion_vector(
                puffin, vector, target=rows[key[0]]["path"], data_record_count=rows[key[0]]["record_count"]
            )
            for key, vector in vectors.items()
        }

    def _check_target(self, vector: StoredVector, path: str, target: str | None) -> None:
        """Raise CorruptDeleteError if the footer names another data file for a vector than the plan.

        Args:
            vector: The vector.
            path: The data file in the plan.
            target: The data file in the footer. None if the footer has no vector at this place.
        """
        if target == path:
            return
        rules = self.plan.rules
        assert isinstance(rules, IcebergRules)  # vectors of Delta are in files without a footer
        spellings = PathSpellings(rules.path_map, rules.location, self.plan.table, self.storage.untrusted)
        if target is not None and spellings.equivalent_path(RecordedPath(target), {path}) == path:
            return
        actual = "its file has no vector there" if target is None else f"its file records it for {target}"
        raise CorruptDeleteError(
            f"The plan of the server applies the deletion vector at offset {vector.offset} to {path}, but {actual}. "
            "Open the table with planning='client'",
            cause="CorruptDeletionVector",
            file=vector.path,
            rule="iceberg 4.17",
        )

    def _read_bin_vectors(
        self, physical: PhysicalPath, vectors: Mapping[_VectorKey, StoredVector], rows: Mapping[int, _FileRow]
    ) -> dict[_VectorKey, BitMap64]:
        from harness.metadata.deletes.delta_vectors import check_rows, read_vectors

        bitmaps = read_vectors(self.storage, physical, vectors, {key: rows[key[0]]["path"] for key in vectors})
        for key, positions in bitmaps.items():
            row = rows[key[0]]
            try:
                check_rows(positions, row["path"], row["physical"], row["record_count"], self.storage)
            except HarnessError as error:
                place = f"{physical} at {vectors[key].offset}, of {row['path']}"
                raise error.within(file=place) from error.__cause__
        return bitmaps


@dataclass(slots=True, eq=False)
class _DeleteFiles:
    """Position delete files, read once each, with their positions by data file of the plan.

    Attributes:
        plan: The plan.
        storage: The storage of the files.
        has_warned: True after a warning about a path, so that there is only one.
        scopes: Indexes of the delete files that apply, by the value of `FILES.positions`.
        read: Positions by path of the data file, for each delete file that was read.
        data: The data files of the plan.
    """

    plan: ScanPlan
    storage: Storage
    has_warned: bool = False
    scopes: dict[int, frozenset[int]] = field(default_factory=dict)
    read: dict[int, Mapping[str, BitMap64]] = field(default_factory=dict)
    data: _DataFiles = field(init=False)

    def __post_init__(self) -> None:
        self.data = _DataFiles(self.plan)

    def positions(self, path: str, files: PositionFiles) -> BitMap64 | None:
        """Return the deleted positions of a data file, or None if it has none."""
        for index in files.suspects:
            self._read(index)
        bitmaps = [bitmap for index in files.applied if (bitmap := self._read(index).get(path)) is not None]
        return bitmaps[0] if len(bitmaps) == 1 else BitMap64.union(*bitmaps) if bitmaps else None

    def dated_positions(self, path: str, source: DatedPositions) -> Mapping[int, BitMap64]:
        """Return the positions of a data file in each of its position delete files, by the index of the file."""
        for index in source.suspects:
            self._read(index)
        indexes = {each.source for each in source.deletes if isinstance(each.source, int)}
        return {index: self._read(index).get(path, BitMap64()) for index in indexes}

    def _read(self, index: int) -> Mapping[str, BitMap64]:
        if index not in self.read:
            from harness.metadata.deletes.position_files import read_positions

            delete = self.plan.position_deletes.files[index]
            positions = read_positions(
                self.storage,
                path=delete.path,
                physical=delete.physical,
                format=delete.format,
                record_count=delete.record_count,
                data_files=self.data.ordinals,
                rename=partial(self._resolve_names, delete.path),
            )
            for path in positions:
                self._check_scope(index, delete, path)
            self.read[index] = positions
        return self.read[index]

    def _check_scope(self, index: int, delete: PositionDeleteFile, path: str) -> None:
        """Raise CorruptDeleteError if a delete file has rows for a data file to which it does not apply.

        Rows without effect are ignored: for a data file with a deletion vector (4.5), or for a newer data file (4.4).
        """
        applies = self._applies if self.plan.lifetimes is None else self._applied_in_range
        if applies(index, delete, path):
            return
        row = self.plan.files.slice(self.data.ordinals[path], 1).to_pylist()[0]
        if delete.sequence_number is not None and delete.sequence_number < row["sequence_number"]:
            return
        if delete.target is not None and delete.target != path:
            message = f"Position delete file is for data file {delete.target} but has rows for {path}. Rewrite it"
            raise CorruptDeleteError(message, file=delete.path, rule="iceberg 4.4")
        delete_partition, file_partition = (
            self.plan.partitions[partition] for partition in (delete.partition, row["partition"])
        )
        if delete.sequence_number is None and delete.partition == row["partition"]:
            message = (
                f"Position delete file has rows for {path}, but the plan of the server does not apply it to that file. "
                "Open the table with planning='client'"
            )
            raise CorruptDeleteError(message, file=delete.path, rule="iceberg 4.4")
        raise partition_mismatch(
            (delete.path, delete_partition.spec_id, delete_partition.values),
            (path, row["spec_id"], file_partition.values),
            "iceberg 4.4",
        )

    def _applies(self, index: int, delete: PositionDeleteFile, path: str) -> bool:
        """Return whether a delete file applies to a data file, or is ignored because the data file has a vector."""
        deletes, place = self.plan.position_deletes, self.data.positions[self.data.ordinals[path]]
        source = None if place is None or place < deletes.vectors.num_rows else deletes.source(place)
        if not isinstance(source, PositionFiles) or place is None:
            return place is not None
        if place not in self.scopes:
            self.scopes[place] = frozenset(source.applied)
        return index in self.scopes[place] and delete.target in (None, path)

    def _applied_in_range(self, index: int, delete: PositionDeleteFile, path: str) -> bool:
        """Return the same as `_applies` for a plan with lifetimes.

        The result is also true if the delete file and the data file were never live at the same time.
        """
        sources = [self.data.source(ordinal) for ordinal in self.data.all_ordinals[path]]
        dated = [source for source in sources if isinstance(source, DatedPositions)]
        if any(not isinstance(each.source, int) for source in dated for each in source.deletes):
            return True
        if any(each.source == index for source in dated for each in source.deletes):
            return delete.target in (None, path)
        if any(index in source.suspects for source in dated):
            return False
        return not any(
            overlap(span, other) for span in self.data.spans(path) for other in self.data.delete_spans[index]
        )

    def _resolve_names(self, delete: str, names: Sequence[str]) -> Sequence[str]:
        """Replace paths that match no data file by the data file's path, if the caller's path map equates the two.

        If still no path matches, but one differs from a data file only by scheme or authority, a warning is issued.
        """
        rules = self.plan.rules
        assert isinstance(rules, IcebergRules)  # Delta has no position delete files
        spellings = PathSpellings(rules.path_map, rules.location, self.plan.table, self.storage.untrusted)
        live = self.data.ordinals
        if rules.path_map.explicit_count:
            names = [
                name if name in live else spellings.equivalent_path(RecordedPath(name), live) or name for name in names
            ]
        if not self.has_warned and not any(name in live for name in names):
            others = spellings.similar_paths(names, self.data.authorities)
            data = next((other for other in others if other in live), None)
            if data is not None:
                self.has_warned = True
                spellings.warn(delete, others[data], data)
        return names


@dataclass(frozen=True)
class _DataFiles:
    """The data files of a plan, looked up by the paths in delete files."""

    plan: ScanPlan

    @cached_property
    def ordinals(self) -> dict[str, int]:
        """Return the ordinals of the data files by recorded path. If a path occurs twice, the later file counts."""
        return {path: ordinal for ordinal, path in enumerate(self.plan.files.column("path").to_pylist())}

    @cached_property
    def positions(self) -> list[int | None]:
        """Return the column `FILES.positions` as a list."""
        indexes: list[int | None] = self.plan.files.column("positions").to_pylist()
        return indexes

    @cached_property
    def all_ordinals(self) -> Mapping[str, Sequence[int]]:
        """Return all ordinals of each path."""
        ordinals: defaultdict[str, list[int]] = defaultdict(list)
        for ordinal, path in enumerate(self.plan.files.column("path").to_pylist()):
            ordinals[path].append(ordinal)
        return ordinals

    @cached_property
    def delete_spans(self) -> Mapping[int, Set[Span]]:
        """Return the spans in which each position delete file applied to any data file of a plan with lifetimes."""
        spans: defaultdict[int, set[Span]] = defaultdict(set)
        for source in self.plan.position_deletes.sets:
            for each in source.deletes if isinstance(source, DatedPositions) else ():
                if isinstance(each.source, int):
                    spans[each.source].add(each.span)
        return spans

    def spans(self, path: str) -> list[Span]:
        """Return the spans of a data file in a plan with lifetimes."""
        lifetimes = self.plan.lifetimes
        assert lifetimes is not None
        return [lifetimes.files[ordinal] for ordinal in self.all_ordinals[path]]

    def source(self, ordinal: int) -> PositionSource | None:
        """Return the source of the deleted positions of a data file."""
        place = self.positions[ordinal]
        return None if place is None else self.plan.position_deletes.source(place)

    @cached_property
    def authorities(self) -> frozenset[str]:
        """Return the schemes and authorities of the paths."""
        return authorities(self.plan.files.column("path"))
