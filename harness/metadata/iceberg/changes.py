"""Plans of the changes in a range of snapshots, and of the lifetimes of rows over it (iceberg section 8)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import cache
from itertools import count, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import HarnessError, RequestError, UnknownColumnError
from harness.metadata.filters.predicate import Filter, fields_of
from harness.metadata.filters.sqltext import bind_columns
from harness.metadata.iceberg.change_range import SnapshotRange, resolve_range
from harness.metadata.iceberg.columns.entries import DataFiles, Extent, FilteredFiles, SkippedDataFiles, concat_files
from harness.metadata.iceberg.dated_deletes import DatedDeletes, DatedEntry
from harness.metadata.iceberg.manifests import ManifestEntry, ManifestFile, Status
from harness.metadata.iceberg.model import IcebergSnapshot, TableMetadata
from harness.metadata.iceberg.scan import (
    IcebergScan,
    OpenedManifests,
    duplicate_data_file,
    files_table,
    partition_numbers,
    skipped_files,
    with_specs_of,
)
from harness.metadata.iceberg.states import ALWAYS, EXPIRED, States
from harness.metadata.iceberg.values import Partitions, read_schema_first
from harness.metadata.model.arrow_values import Indices, first_repeated, from_numpy, scalar_of, to_numpy
from harness.metadata.model.schema import (
    METADATA,
    Field,
    OpaqueType,
    Schema,
    VariantType,
    children,
)
from harness.metadata.plan.lifetimes import (
    BEFORE,
    ChangeMode,
    ChangeRange,
    Lifetimes,
    RangeCommit,
    Span,
    overlap,
    result_schema,
)
from harness.metadata.plan.scan_plan import KEPT, Counts, Decisions, trusted_statistics
from harness.metadata.planned_scan import PlannedScan, within_roots
from harness.storage.paths import RecordedPath
from harness.storage.records import dataclass

if TYPE_CHECKING:
    from harness.metadata.iceberg.table import IcebergTable

_METADATA_COLUMNS = ("_file", "_pos", "_row_id", "_spec_id", "_partition")


def plan_range(
    source: IcebergTable, request: ChangeRange, *, columns: tuple[str, ...] | None, where: str | Filter | None
) -> PlannedScan:
    """Plan a read of the changes in a range of snapshots, or of the lifetimes of rows over it.

    Args:
        source: The table.
        request: The range. With mode None, the plan lists every data file that was live at any time from the state
            before the range to its end. In the other modes, it lists only the files whose rows may have changed.
        columns: The columns of the result, in order: columns of the schema at the end of the range, `_file`, `_pos`,
            `_row_id`, `_spec_id`, `_partition`; and the columns of `SNAPSHOT_CHANGES`, or those of `LIFETIMES` with
            mode None. None for the columns of the schema, followed by `SNAPSHOT_CHANGES` unless the mode is None.
        where: A boolean SQL expression, or a filter, on the same columns; None for all rows.

    Raises:
        RequestError: The range is invalid, a column is unknown, `where` cannot be parsed, or updates cannot be paired
            because rows have neither keys nor row ids.
        HarnessError: As `harness.metadata.iceberg.scan.plan_scan`.
    """
    return range_planner(source, request).plan(columns, where)


def range_planner(source: IcebergTable, request: ChangeRange) -> RangePlanner:
    """Return a planner of several reads of one range, which reads the manifest lists and deletes of the range once.

    The arguments and errors are those of `plan_range`.
    """
    source = replace(source, storage=source.storage.for_read())
    with _naming(source, None):
        commits = resolve_range(source.metadata, request)
    with _naming(source, commits.end.snapshot):
        states = States.read(source, commits)
        source = with_specs_of(states.manifests.values(), source)
    scan = IcebergScan(source, commits.end.schema, source.manifest_cache)
    return RangePlanner(scan, commits, request, states)


@contextmanager
def _naming(source: IcebergTable, snapshot: IcebergSnapshot | None) -> Iterator[None]:
    """Return a context that adds the table and the snapshot to errors."""
    try:
        yield
    except HarnessError as error:
        error.within(table=source.location, snapshot=None if snapshot is None else snapshot.id)
        raise


@dataclass(frozen=True, slots=True)
class _LiveFiles:
    """The data files that were live in the range.

    Attributes:
        files: The files, each once.
        spans: The spans of each file.
        skipped: Further files, which no commit changed and which the filter excludes.
        manifests: The number of manifests that were considered.
        manifests_skipped: The number of these that were not read.
        opened: The manifests that no commit changed.
    """

    files: DataFiles
    spans: Sequence[tuple[Span, ...]]
    skipped: SkippedDataFiles
    manifests: int
    manifests_skipped: int
    opened: OpenedManifests


@dataclass(slots=True)
class _DeleteListing:
    """The deletes that manifests list, with a code for each. A range may list a delete in hundreds of manifests.

    Attributes:
        states: The states of the range.
    """

    states: States
    _codes: dict[Hashable, int] = field(default_factory=dict)
    _manifests: dict[int, str] = field(default_factory=dict)
    _live: dict[str, Indices] = field(default_factory=dict)
    _before: dict[str, Indices] = field(default_factory=dict)

    def choose(self, files: DataFiles) -> list[int]:
        """Note the entries of some manifests, and return the first entry of each delete."""
        names = (*_DELETE_IDENTITY, "manifest", "status", "snapshot_id")
        columns = (files.table.column(name).to_pylist() for name in names)
        live: defaultdict[str, list[int]] = defaultdict(list)
        before: defaultdict[str, list[int]] = defaultdict(list)
        chosen: list[int] = []
        for place, (*identity, number, status, snapshot_id) in enumerate(zip(*columns, strict=True)):
            manifest = files.manifests[number]
            code = self._codes.setdefault(tuple(identity), len(self._codes))
            if self._manifests.setdefault(code, manifest) == manifest:
                chosen.append(place)
            if status != Status.DELETED:
                live[manifest].append(code)
            if manifest in self.states.incomplete and self.states.was_live_before(status, snapshot_id):
                before[manifest].append(code)
        for target, codes in ((self._live, live), (self._before, before)):
            target |= {manifest: np.array(of_manifest, dtype=np.int64) for manifest, of_manifest in codes.items()}
        return chosen

    def code_of(self, entry: ManifestEntry) -> int:
        """Return the code of a delete."""
        file = entry.file
        return self._codes[file.path, file.content_offset, file.referenced_data_file, entry.sequence_number]

    def live_files(self) -> Mapping[str, Indices]:
        """Return the deletes that were live in each manifest, for `States.spans`."""
        return {**self._live, EXPIRED: np.concatenate([np.zeros(0, dtype=np.int64), *self._before.values()])}


_DELETE_IDENTITY = ("path", "content_offset", "referenced_data_file", "sequence_number")
"""Columns that identify a delete. If its data sequence number changes, it applies to other files."""


@dataclass(slots=True)
class RangePlanner:
    """A planner of reads of one range, made by `range_planner`."""

    scan: IcebergScan
    commits: SnapshotRange
    request: ChangeRange
    states: States
    _deletes: tuple[DatedEntry, ...] | None = None

    def plan(self, columns: tuple[str, ...] | None, where: str | Filter | None) -> PlannedScan:
        """Plan a read. The arguments and errors are those of `plan_range`."""
        with _naming(self.scan.source, self.commits.end.snapshot):
            return within_roots(self._plan(columns, where))

    def _plan(self, columns: tuple[str, ...] | None, where: str | Filter | None) -> PlannedScan:
        scan, source, mode = self.scan, self.scan.source, self.request.mode
        metadata, snapshots = source.metadata, self.commits.snapshots
        row_schema = result_schema(scan.schema, mode, rule="iceberg 8.4")
        selected = scan.schema.fields if columns is None and mode is None else change_columns(columns, row_schema)
        condition = None if where is None else scan.filter(where, row_schema)
        keys = self._keys()
        if self._deletes is None:
            self._deletes = () if mode is ChangeMode.APPENDS else self._read_deletes()
        deletes = self._deletes
        equality_ids = frozenset(id_ for each in deletes for id_ in each.entry.file.equality_ids or ())
        statistics = equality_ids | (frozenset() if condition is None else fields_of(condition.predicate))
        skip_condition = condition if self._may_skip(condition, keys) else None
        with_unchanged = mode is None or any(each.span != ALWAYS for each in deletes)
        live = self._live_files(statistics, skip_condition, with_unchanged=with_unchanged)
        first_ids = live.files.table.column("first_row_id")
        row_ids = has_row_ids(metadata, first_ids)
        if mode is ChangeMode.UPDATES and not keys and not row_ids:
            raise RequestError(
                "Cannot pair updates: the rows have no row ids, and the schema has no identifier fields. Pass keys= "
                "with the columns that identify a row",
                cause="NoKeys",
                options=("keys",),
            )
        decisions = self._decisions(live, skip_condition, row_ids)
        partitions = Partitions(metadata.specs, read_schema_first(metadata.schemas, scan.schema))
        filtered = FilteredFiles.split(live.files, decisions)
        skipped = skipped_files(
            SkippedDataFiles(
                pa.concat_tables([filtered.skipped.table, live.skipped.table]),
                lambda: pa.chunked_array([*filtered.skipped.paths().chunks, *live.skipped.paths().chunks], pa.string()),
            ),
            live.files,
            partitions,
        )
        replaces = _replaces(snapshots)
        dated = DatedDeletes(
            files=filtered.files,
            deletes=deletes,
            partitions=partitions,
            source=source,
            replaces=replaces,
            all_paths=cache(
                lambda: pa.chunked_array(
                    [*live.files.table.column("path").chunks, *live.skipped.paths().chunks], pa.string()
                )
            ),
        )
        spans = [live.spans[place] for place in np.flatnonzero(decisions == KEPT).tolist()]
        shows = frozenset(range(len(snapshots))) - replaces
        pieces = list(dated.pieces(spans, has_events=None if mode is None else shows.__contains__))
        places = from_numpy(np.array([piece.place for piece in pieces], dtype=np.int64))
        files = replace(filtered.files, table=filtered.files.table.take(places))
        numbers = partition_numbers(files, partitions)
        positions, position_indexes = dated.position_deletes(pieces)
        delete_sets = dated.sets.number_hits([piece.equality for piece in pieces])
        return PlannedScan(
            table=source.location,
            snapshot=None if self.commits.end.snapshot is None else self.commits.end.snapshot.id,
            schema=scan.schema,
            columns=tuple(map(scan.with_partition_type, selected)),
            filter=condition,
            rules=scan.rules(),
            files=files_table(files, numbers, delete_sets, position_indexes, source),
            equality_deletes=dated.sets.used_deletes(),
            delete_sets=dated.sets.all_sets(),
            position_deletes=positions,
            partitions=partitions.all(),
            skipped=skipped,
            counts=Counts(
                manifests=live.manifests,
                manifests_skipped=live.manifests_skipped,
                files=len(pieces) + len(skipped),
            ),
            warnings=live.opened.warnings,
            trusted=(*live.opened.trusted, *trusted_statistics(skipped, condition)),
            guarded=live.opened.guarded,
            lifetimes=Lifetimes(
                commits=range_commits(snapshots, [piece.span for piece in pieces]),
                files=tuple(piece.span for piece in pieces),
                equality_deletes=dated.equality_spans(),
                mode=mode,
                keys=keys,
                row_ids=row_ids,
            ),
            storage=source.storage,
        )

    def _keys(self) -> tuple[Field, ...]:
        """Return the columns that identify a row: those of the request, or else the identifier fields.

        Raises:
            UnknownColumnError: A column is not in the schema.
            RequestError: A column is nested or has nested values.
        """
        schema, names = self.scan.schema, self.request.keys
        if names is None:
            if self.request.mode is not ChangeMode.UPDATES:
                return ()
            by_id = schema.by_id()
            paths = [by_id[id_] for id_ in schema.identifier_field_ids if id_ in by_id]
            nested = next((".".join(path) for path, _ in paths if len(path) > 1), None)
            if nested is not None:
                raise _key_error(nested, "is inside another column")
            keys = tuple(field for _, field in paths)
        else:
            keys = bind_columns(names, schema)
        for key in keys:
            if key not in schema.fields:
                raise UnknownColumnError(f"Cannot use {key.name} as a key: it is not a column of the table")
            if children(key.type) or isinstance(key.type, VariantType | OpaqueType):
                raise _key_error(key.name, f"is {key.type}, not a single value")
        return keys

    def _may_skip(self, condition: Filter | None, keys: tuple[Field, ...]) -> bool:
        """Return whether files may be skipped because their rows do not satisfy a filter.

        Updates are paired before the filter applies, and a filter must not separate a pair. The rows of a pair have
        equal keys, unless row ids pair them.
        """
        if condition is None or self.request.mode is not ChangeMode.UPDATES:
            return condition is not None
        has_row_ids = self.scan.source.metadata.format_version >= 3
        return not has_row_ids and fields_of(condition.predicate) <= {key.id for key in keys}

    def _decisions(self, live: _LiveFiles, condition: Filter | None, row_ids: bool) -> Decisions:
        """Return for each file whether it is read or skipped.

        With row ids, a commit that rewrites rows is compared by them before the filter applies. So both files of such a
        row are read, even if only one of its versions satisfies the filter.
        """
        skip = None if condition is None else self.scan.skip(condition)
        if skip is None:
            return np.full(len(live.files), KEPT, dtype=np.int8)
        decisions = skip(live.files)
        if row_ids and self.request.mode is ChangeMode.CHANGELOG:
            rewriting = _rewriting([span for spans in live.spans for span in spans])
            is_compared = [
                any(span.added in rewriting or span.removed in rewriting for span in spans) for spans in live.spans
            ]
            decisions[np.array(is_compared, dtype=np.bool_)] = KEPT
        return decisions

    def _read_deletes(self) -> tuple[DatedEntry, ...]:
        """Return every delete that was live in the range, with its spans."""
        states, listing = self.states, _DeleteListing(self.states)
        manifests = [m for m in reversed(tuple(states.manifests.values())) if m.is_deletes]
        incomplete = [m for m in manifests if m.path in states.incomplete]
        complete = [m for m in manifests if m.path not in states.incomplete]
        entries = [
            *self.scan.delete_entries(complete, choose=listing.choose),
            *self.scan.delete_entries(incomplete, live_only=False, choose=listing.choose),
        ]
        by_code = {listing.code_of(entry): replace(entry, status=Status.EXISTING) for entry in entries}
        spans = states.spans(listing.live_files())
        return tuple(DatedEntry(code, by_code[code], span) for code in sorted(spans) for span in spans[code])

    def _live_files(self, statistics: frozenset[int], condition: Filter | None, *, with_unchanged: bool) -> _LiveFiles:
        """Return the data files that were live in the range, each as its newest manifest lists it.

        Args:
            statistics: Ids of the fields whose statistics are needed.
            condition: The filter by which unchanged manifests and files are skipped.
            with_unchanged: If False, only the manifests that a commit changed are read.
        """
        scan, states = self.scan, self.states
        manifests = [m for m in states.manifests.values() if not m.is_deletes]
        numbers = {manifest.path: number for number, manifest in enumerate(manifests)}
        incomplete = [m for m in manifests if m.path in states.incomplete]
        changed = [m for m in manifests if m.path in states.changed and m.path not in states.incomplete]
        unchanged = [m for m in manifests if m.path not in states.changed] if with_unchanged else []
        opened = scan.open(unchanged, condition, statistics)
        first = scan.all_data_files(incomplete, statistics)
        joined = _joined(
            [opened.files, scan.open(changed, None, statistics).files, FilteredFiles.split(first, None)],
            [unchanged, changed, incomplete],
            numbers,
            statistics,
        )
        table = joined.files.table
        codes = _codes(table)
        ends = np.searchsorted(to_numpy(table.column("manifest")), np.arange(len(manifests)), side="right")
        live: dict[str, Indices] = dict(zip(numbers, np.split(codes, ends[:-1]) if manifests else (), strict=True))
        if incomplete:
            statuses = zip(*(first.table.column(name).to_pylist() for name in ("status", "snapshot_id")), strict=True)
            was_live = np.array([states.was_live_before(*each) for each in statuses], dtype=np.bool_)
            is_live = to_numpy(first.table.column("status")) != Status.DELETED
            sizes = [len(live[manifest.path]) for manifest in incomplete]
            entries = np.concatenate([live[manifest.path] for manifest in incomplete])
            live[EXPIRED] = entries[was_live]
            for manifest, end, size in zip(incomplete, np.cumsum(sizes).tolist(), sizes, strict=True):
                live[manifest.path] = live[manifest.path][is_live[end - size : end]]
        spans = states.spans(live)
        newest = np.zeros(len(codes), dtype=np.int64)
        newest[codes] = np.arange(len(codes))  # manifests are in order, and the last entry of a file counts
        places = np.sort(newest[np.array(sorted(spans), dtype=np.int64)])
        files = joined.files.take(places)
        spans_of_files = [spans[code] for code in codes[places].tolist()]
        if not scan.source.options.allow_duplicate_files:
            _refuse_duplicates(joined.files, files, spans_of_files)
        if self.request.mode is ChangeMode.APPENDS:
            is_append = [snapshot.operation == "append" for snapshot in self.commits.snapshots]
            spans_of_files = [
                tuple(Span(span.added) for span in of_file if span.added != BEFORE and is_append[span.added])
                for of_file in spans_of_files
            ]
        return _LiveFiles(
            files=files,
            spans=spans_of_files,
            skipped=joined.skipped,
            manifests=len(changed) + len(incomplete) + len(unchanged),
            manifests_skipped=len(unchanged) - opened.manifests,
            opened=opened,
        )


def change_columns(columns: tuple[str, ...] | None, row_schema: Schema) -> tuple[Field, ...]:
    """Return the columns of a read of changes.

    Args:
        columns: The names. None for all columns of `row_schema`.
        row_schema: The columns of the table and of changes.

    Raises:
        UnknownColumnError: There is no such column.
    """
    if columns is None:
        return row_schema.fields
    selected = bind_columns(columns, row_schema)
    for column in selected:
        if METADATA.get(column.name) == column and column.name not in _METADATA_COLUMNS:
            message = f"Cannot read {column.name} of changes: only {', '.join(_METADATA_COLUMNS)} are available"
            raise UnknownColumnError(message, field=column.name, rule="iceberg 8.4")
    return selected


def range_commits(snapshots: Sequence[IcebergSnapshot], spans: Sequence[Span]) -> tuple[RangeCommit, ...]:
    """Return the commits of a range, given the spans of its files. Commits of operation `replace` show no changes."""
    replaces = _replaces(snapshots)
    rewriting = _rewriting(spans) - replaces
    ordinals = count()
    return tuple(
        RangeCommit(
            id=snapshot.id, ordinal=None if number in replaces else next(ordinals), rewrites=number in rewriting
        )
        for number, snapshot in enumerate(snapshots)
    )


def has_row_ids(metadata: TableMetadata, first_row_ids: pa.ChunkedArray) -> bool:
    """Return whether rows have ids, given `FILES.first_row_id` of their files.

    Files from before an upgrade to version 3 may have no row ids yet.
    """
    size = len(first_row_ids)
    return metadata.format_version >= 3 and (not size or first_row_ids.null_count < size)


def _replaces(snapshots: Sequence[IcebergSnapshot]) -> frozenset[int]:
    return frozenset(number for number, snapshot in enumerate(snapshots) if snapshot.operation == "replace")


def _joined(
    parts: Sequence[FilteredFiles],
    manifests: Sequence[Sequence[ManifestFile]],
    numbers: Mapping[RecordedPath, int],
    statistics: frozenset[int],
) -> FilteredFiles:
    """Return the files of several reads in the order of their manifests.

    Args:
        parts: The files of each read.
        manifests: The manifests of each read.
        numbers: The number of each manifest.
        statistics: Ids of the fields whose statistics are needed.
    """
    columns = Extent(tuple(sorted(statistics))).schema.names
    renumbered: list[FilteredFiles] = []
    for part, of_part in zip(parts, manifests, strict=True):
        lookup = np.array([numbers[manifest.path] for manifest in of_part], dtype=np.int32)
        files, skipped = (
            table.set_column(
                table.schema.get_field_index("manifest"),
                table.schema.field("manifest"),
                from_numpy(lookup[to_numpy(table.column("manifest"))]),
            )
            for table in (part.files.table.select(columns), part.skipped.table)
        )
        renumbered.append(FilteredFiles(replace(part.files, table=files), replace(part.skipped, table=skipped)))
    joined = concat_files(renumbered)
    return replace(joined, files=replace(joined.files, manifests=list(numbers)))


def _codes(table: pa.Table) -> Indices:
    """Return a number for each file, which is equal for entries of the same file.

    A file whose data sequence number changes counts as another file, because other deletes apply to it.
    """
    paths = to_numpy(table.column("path").combine_chunks().dictionary_encode().indices).astype(np.int64)
    _, numbers = np.unique(to_numpy(table.column("sequence_number")), return_inverse=True)
    pairs = paths * (int(numbers.max(initial=0)) + 1) + numbers
    codes: Indices = np.unique(pairs, return_inverse=True)[1]
    return codes


def _refuse_duplicates(entries: DataFiles, files: DataFiles, spans: Sequence[tuple[Span, ...]]) -> None:
    """Raise InvalidTableError if a file is live twice in one state (iceberg 2.13).

    Args:
        entries: The entries of all manifests.
        files: The files, each once.
        spans: The spans of each file.
    """
    paths = files.table.column("path")
    if first_repeated(paths) is None and all(len(of_file) == 1 for of_file in spans):
        return
    by_path: defaultdict[str, list[Span]] = defaultdict(list)
    for path, of_file in zip(paths.to_pylist(), spans, strict=True):
        by_path[path] += of_file
    for path, of_path in by_path.items():
        ordered = sorted(of_path, key=lambda span: span.added)
        if any(overlap(*pair) for pair in pairwise(ordered)):
            is_listed = pc.equal(entries.table.column("path"), scalar_of(path, pa.string()))
            listed_in = entries.table.column("manifest").filter(is_listed).to_pylist()
            raise duplicate_data_file(path, *(entries.manifests[listed_in[place]] for place in (0, -1)))


def _rewriting(spans: Iterable[Span]) -> frozenset[int]:
    """Return the commits that removed a data file and added another one."""
    listed = list(spans)
    return frozenset(s.added for s in listed) & frozenset(s.removed for s in listed if s.removed is not None)


def _key_error(name: str, reason: str) -> RequestError:
    message = f"Cannot use {name} as a key: it {reason}. Pass keys= with other columns"
    return RequestError(message, cause="InvalidKey", field=name, options=("keys",))
