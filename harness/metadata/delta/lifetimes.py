"""The lifetimes of the rows of a table over a range of versions, as a `ScanPlan`. No change data feed is needed.

The plan follows the add and remove actions of the range's commits. A commit that removes a file and adds it again with
another deletion vector changes the deletes of the file, but not the time since which the file is live. If the new
vector no longer hides a row that the old vector hides, as after RESTORE, the file is listed twice: up to the commit and
from the commit on.

See `harness.metadata.plan.lifetimes`.
"""

from __future__ import annotations

import bisect
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from harness.errors import HarnessError, RequestError
from harness.metadata.deletes.delta_vectors import decode_inline, read_vectors
from harness.metadata.delta.actions import ADDS, DELETION_VECTOR, REMOVES, DeletionVectorDescriptor, State
from harness.metadata.delta.change_files import partitioning_difference
from harness.metadata.delta.change_range import SchemaChange, VersionSchema, resolve_lifetimes, version_schemas
from harness.metadata.delta.checkpoint_files import concat_files
from harness.metadata.delta.commit_times import CommitHistory
from harness.metadata.delta.commits import REMOVE_IDENTITY, Locator, read_log_files
from harness.metadata.delta.log_files import LogFile
from harness.metadata.delta.paths import require_readable
from harness.metadata.delta.protocol import is_enabled
from harness.metadata.delta.replay import (
    FileActions,
    PendingActions,
    RankedActions,
    Ranks,
    two_vectors_error,
    validate_files,
)
from harness.metadata.delta.scan import DeltaScan, DeltaSnapshot, vector_of
from harness.metadata.delta.types import materialized_columns
from harness.metadata.filters.predicate import Filter, filter_for
from harness.metadata.filters.sqltext import bind_columns
from harness.metadata.model.arrow_values import array_of, scalar_of, to_numpy
from harness.metadata.plan.deletes import DatedDelete, DatedPositions, InlineVector, PositionDeletes
from harness.metadata.plan.lifetimes import BEFORE, ChangeRange, Lifetimes, RangeCommit, Span, result_schema
from harness.metadata.plan.scan_plan import FILES, KEPT, DeltaRules
from harness.metadata.planned_scan import PlannedScan, within_roots
from harness.storage.limits import contained
from harness.storage.threads import cached_property

if TYPE_CHECKING:
    from harness.metadata.delta.table import DeltaTable

T = TypeVar("T")
_LogicalFile: TypeAlias = tuple[str, DeletionVectorDescriptor | None]
"""The replay key and the deletion vector of a data file."""
_REMOVES = pa.schema([*REMOVE_IDENTITY, REMOVES.field("data_change")])


def plan_lifetimes(
    source: DeltaTable,
    history: CommitHistory,
    request: ChangeRange,
    *,
    columns: tuple[str, ...] | None,
    where: str | Filter | None,
) -> PlannedScan:
    """Plan a read of every row that was live at any time in a range of versions, with its lifetime.

    Rows have the schema of the last version. A file that was removed before row tracking was enabled has no row ids.

    Args:
        source: The table.
        history: The times of the table's commits.
        request: The range of versions, see `resolve_lifetimes`. Its mode must be None.
        columns: The column names, in order: columns of the schema, metadata columns, and columns of `LIFETIMES`. None:
            all columns of the schema.
        where: A boolean SQL expression over these columns, or a filter. None: all rows.

    Raises:
        RequestError: The range or a column is invalid, or `where` cannot be parsed.
        SnapshotNotFoundError: The log no longer has the versions.
        InvalidTableError, UnsupportedError, MissingFileError: A version of the range cannot be read.
        OutsideTableError: A file is outside the allowed roots.
    """
    try:
        base, versions = resolve_lifetimes(request, history, latest=source.latest.id)
        before = source.select(max(base, 0)).snapshot
        source = replace(source, storage=source.storage.for_read())
        commits = _read_commits([history.listing.commits[version] for version in versions], source)
        timeline = _Timeline(source, before.state, commits, starts_empty=base < 0)
        return within_roots(_plan(timeline, columns, where))
    except HarnessError as error:
        raise error.within(table=source.location, format="delta") from error.__cause__


def _plan(timeline: _Timeline, columns: tuple[str, ...] | None, where: str | Filter | None) -> PlannedScan:
    source, schemas = timeline.source, timeline.schemas
    last = schemas[-1]
    schema = last.columns.schema
    row_schema = result_schema(schema, None, rule=None)
    selected_columns = schema.fields if columns is None else bind_columns(columns, row_schema)
    condition = None if where is None else filter_for(where, row_schema)
    files = timeline.files
    _check_partitioning(files, timeline)
    actions = validate_files(timeline.first_actions(files), last.metadata)
    require_readable(actions.column("key"), source.root, source.storage)
    state = replace(
        timeline.before,
        version=timeline.end,
        protocol=last.protocol,
        metadata=last.metadata,
        files=actions,
        statistics=None if timeline.starts_empty else timeline.before.statistics,
    )
    snapshot = DeltaSnapshot(state=state, columns=last.columns)
    scan = DeltaScan(source, snapshot, requires_row_ids=False)
    statistics = scan.statistics()
    decisions = scan.decisions(condition, statistics, snapshot.partitions)
    plan = scan.plan_files(selected_columns, condition, statistics, decisions)
    planned = [files[place] for place in np.flatnonzero(decisions == KEPT).tolist()]
    sets = tuple(file.positions(source.locator) for file in planned if file.vectors)
    numbers = iter(range(len(sets)))
    positions = array_of([next(numbers) if file.vectors else None for file in planned], pa.int32())
    index = FILES.get_field_index("positions")
    configuration = last.metadata.configuration
    return replace(
        plan,
        # for all columns, because the reader of changes may add row ids to the columns
        rules=DeltaRules(lookup=last.columns.lookup, materialized=materialized_columns(configuration)),
        files=plan.files.set_column(index, FILES.field(index), positions),
        position_deletes=PositionDeletes(sets=sets),
        lifetimes=Lifetimes(
            commits=timeline.range_commits(),
            files=tuple(Span(file.added, file.removed) for file in planned),
            row_ids=is_enabled(configuration, "delta.enableRowTracking"),
        ),
    )


def _check_partitioning(files: Sequence[_File], timeline: _Timeline) -> None:
    """Refuse a file whose version has other partition columns than the last version.

    The partition values of the file would be missing, or would be read as values of other columns.
    """
    *earlier, last = timeline.schemas
    starts = [each.version for each in timeline.schemas]
    reasons = [partitioning_difference(each.columns, last.columns) for each in earlier]
    if not any(reasons):
        return
    for file in files:
        version = timeline.before.version if file.added == BEFORE else timeline.commits.versions[file.added]
        place = bisect.bisect_right(starts, version) - 1
        reason = reasons[place] if place < len(reasons) else None
        if reason is not None:
            raise RequestError(
                f"Cannot show the rows of version {version} in the schema of version {timeline.end}: {reason}; "
                "read the versions before and after that change separately",
                cause="ChangeFeedError",
                snapshot=version,
                file=file.key,
                rule="delta C11",
            )


@dataclass(frozen=True, slots=True)
class _DatedVector:
    """A deletion vector and the part of the range in which it applied to its data file."""

    vector: DeletionVectorDescriptor
    span: Span


@dataclass(slots=True, eq=False)
class _File:
    """A data file in the part of the range in which it was live without interruption.

    Attributes:
        key: The replay key of the file.
        added: The number of the commit that added it, or `BEFORE`.
        first: The index of its first add action in `_Timeline.actions`. The statistics of this action cover all rows
            that are visible at any time, because later vectors hide more rows.
        newest: The index of its newest add action.
        removed: The number of the commit that removed it; None if it is live at the end of the range.
        vectors: Its deletion vectors in their order.
    """

    key: str
    added: int
    first: int
    newest: int
    removed: int | None = None
    vectors: list[_DatedVector] = field(default_factory=list)

    @property
    def vector(self) -> DeletionVectorDescriptor | None:
        """The current deletion vector."""
        last = self.vectors[-1] if self.vectors else None
        return None if last is None or last.span.removed is not None else last.vector

    def end(self, number: int) -> None:
        """End the span of the file and of its deletion vector with a commit."""
        self.removed = number
        if self.vector is not None:
            self.vectors[-1] = replace(self.vectors[-1], span=Span(self.vectors[-1].span.added, number))

    def replace_vector(self, vector: DeletionVectorDescriptor, number: int, action: int) -> None:
        """Give the file another deletion vector. `action` is the index of the add action that records it."""
        if self.vector is not None:
            self.vectors[-1] = replace(self.vectors[-1], span=Span(self.vectors[-1].span.added, number))
        self.vectors.append(_DatedVector(vector, Span(number)))
        self.newest = action

    def positions(self, locator: Locator) -> DatedPositions:
        """Return the deletion vectors as a source of deleted positions."""
        return DatedPositions(tuple(DatedDelete(vector_of(each.vector, locator), each.span) for each in self.vectors))


@dataclass(frozen=True, slots=True, eq=False)
class _Commits:
    """The commits of a range.

    Attributes:
        versions: The version of each commit.
        operations: The operation of each commit; None if it is not recorded.
        schemas: The protocol and metadata actions of each commit.
        actions: The file actions of all commits.
    """

    versions: tuple[int, ...]
    operations: tuple[str | None, ...]
    schemas: tuple[SchemaChange, ...]
    actions: RankedActions


def _read_commits(files: Sequence[LogFile], source: DeltaTable) -> _Commits:
    locator, storage = source.locator, source.storage
    actions = FileActions(PendingActions(ADDS, locator), PendingActions(_REMOVES, locator), storage.limits)
    operations: list[str | None] = []
    schemas: list[SchemaChange] = []
    for file, data in read_log_files(files, storage, locator):
        with contained(file=file.path):
            parsed = actions.parse(data, file=file.path)
        operations.append(None if parsed.info is None else parsed.info.operation)
        schemas.append((file.version, parsed.protocol, parsed.only_metadata))
    return _Commits(tuple(file.version for file in files), tuple(operations), tuple(schemas), actions.finish())


@dataclass(eq=False)
class _Timeline:
    """The files that were live in a range of versions.

    Attributes:
        source: The table.
        before: The state before the range, or the state of version 0 if the range starts with version 0.
        commits: The commits of the range.
        starts_empty: True if the range starts with version 0.
        files: All files, in the order in which they were added.
        live: The files that are live after the commits so far, by key.
    """

    source: DeltaTable
    before: State
    commits: _Commits
    starts_empty: bool
    files: list[_File] = field(default_factory=list)
    live: dict[str, _File] = field(default_factory=dict)

    def __post_init__(self) -> None:
        actions, count = self.commits.actions, 0
        if not self.starts_empty:
            for count, (key, vector) in enumerate(_logical_files(self.before.files), 1):
                self._add(key, vector, BEFORE, count - 1)
        adds = _by_rank(actions.add_ranks, enumerate(_logical_files(actions.adds), count))
        removes = _by_rank(actions.remove_ranks, _logical_files(actions.removes))
        for number in sorted({*adds, *removes}):
            self._apply(number, adds[number], removes[number])

    @cached_property
    def schemas(self) -> tuple[VersionSchema, ...]:
        """Return the schemas that were in force in the range, ascending."""
        before, changes = self.before, self.commits.schemas
        start = (before.version, before.protocol, before.metadata)
        return tuple(version_schemas((start, *changes[self.starts_empty :]), table=self.source.location))

    @property
    def end(self) -> int:
        """The last version of the range."""
        return self.commits.versions[-1] if self.commits.versions else self.before.version

    def first_actions(self, files: Sequence[_File]) -> pa.Table:
        """Return the first add action of each file, with the newest row ids that are recorded.

        If row tracking is enabled for a table with files, a commit adds them again with row ids.
        """
        base = () if self.starts_empty else (self.before.files,)
        actions = concat_files((*base, self.commits.actions.adds))
        first, newest = (array_of([getattr(file, name) for file in files], pa.int64()) for name in ("first", "newest"))
        table = actions.take(first)
        for name in ("base_row_id", "default_row_commit_version"):
            values = pc.coalesce(actions.column(name).take(newest), table.column(name))
            table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), values)
        return table

    def range_commits(self) -> tuple[RangeCommit, ...]:
        """Return the commits with their ordinals. A commit whose actions all have `dataChange` false has none."""
        actions, ordinals = self.commits.actions, itertools.count()
        changing: set[int] = set()
        for table, ranks in ((actions.adds, actions.add_ranks), (actions.removes, actions.remove_ranks)):
            flags = pc.fill_null(table.column("data_change"), scalar_of(True, pa.bool_()))
            changing.update(ranks[to_numpy(flags)].tolist())
        rewriting = {file.added for file in self.files} & {file.removed for file in self.files}
        return tuple(
            RangeCommit(id=version, ordinal=next(ordinals), rewrites=number in rewriting)
            if number in changing
            else RangeCommit(id=version, ordinal=None)
            for number, version in enumerate(self.commits.versions)
        )

    def _add(self, key: str, vector: DeletionVectorDescriptor | None, number: int, action: int) -> None:
        vectors = [] if vector is None else [_DatedVector(vector, Span(number))]
        file = _File(key, number, action, action, vectors=vectors)
        self.files.append(file)
        self.live[key] = file

    def _apply(self, number: int, adds: Sequence[tuple[int, _LogicalFile]], removes: Sequence[_LogicalFile]) -> None:
        """Apply the commit with a number. `adds` has the index of each add action."""
        removed = {key for key, vector in removes if key in self.live and _is_same(self.live[key].vector, vector)}
        added: set[str] = set()
        for index, (key, vector) in adds:
            file = self.live.get(key)
            if key in added or (file is not None and key not in removed and not _is_same(file.vector, vector)):
                raise two_vectors_error(key).within(snapshot=self.commits.versions[number])
            added.add(key)
            if file is None:
                self._add(key, vector, number, index)
            elif key not in removed:
                file.newest = index  # the commit only changed what the log records about the file
            elif vector is None or self._restores_rows(file, vector, self.commits.operations[number]):
                file.end(number)
                self._add(key, vector, number, index)
            else:
                file.replace_vector(vector, number, index)
        for key in removed - added:
            self.live.pop(key).end(number)

    def _restores_rows(self, file: _File, vector: DeletionVectorDescriptor, operation: str | None) -> bool:
        """Return whether a new deletion vector of a file does not hide all rows that the current vector hides.

        The vectors are only read if the new one is not larger, or if the commit is a RESTORE. In other cases, the
        loader of deleted positions refuses a vector that restores rows.
        """
        current = file.vector
        if current is None or (vector.cardinality > current.cardinality and operation != "RESTORE"):
            return False
        try:
            before, after = (self._read_vector(file, each) for each in (current, vector))
        except HarnessError:
            return True  # this is never wrong, and reading the file raises the error
        return not before <= after

    def _read_vector(self, file: _File, descriptor: DeletionVectorDescriptor) -> BitMap64:
        vector = vector_of(descriptor, self.source.locator)
        if isinstance(vector, InlineVector):
            return decode_inline(vector, limits=self.source.storage.limits)
        return read_vectors(self.source.storage, vector.physical, {0: vector}, {0: file.key})[0]


def _logical_files(actions: pa.Table) -> Iterator[_LogicalFile]:
    """Yield the replay key and the deletion vector of each action."""
    names = [f.name for f in DELETION_VECTOR]
    vectors = actions.select(names).filter(actions.column(names[0]).is_valid()).to_pylist()
    remaining = iter(vectors)
    has_vector = actions.column(names[0]).is_valid().to_pylist()
    for key, is_present in zip(actions.column("key").to_pylist(), has_vector, strict=True):
        yield key, DeletionVectorDescriptor.from_row(next(remaining)) if is_present else None


def _is_same(first: DeletionVectorDescriptor | None, second: DeletionVectorDescriptor | None) -> bool:
    return (first and first.unique_id) == (second and second.unique_id)


def _by_rank(ranks: Ranks, items: Iterable[T]) -> defaultdict[int, list[T]]:
    """Return items by their ranks."""
    groups: defaultdict[int, list[T]] = defaultdict(list)
    for rank, item in zip(ranks.tolist(), items, strict=True):
        groups[rank].append(item)
    return groups
