"""The change data feed: every row that a range of versions inserted, deleted, or updated, as a `ScanPlan`.

The plan reads each changed file once for each of its changes, in the schema of the last version. The kind and the time
of a change are constants of the file, except in change files, which store the kind for each row.

Spec: Delta, "Change Data Files".
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from harness.errors import HarnessError, RequestError, UnknownColumnError
from harness.metadata.delta.actions import PARTITION_VALUES, Commit, State
from harness.metadata.delta.change_files import ChangedFile, changed_files, check_enabled, check_evolution, check_names
from harness.metadata.delta.change_range import VersionSchema, resolve_range, version_schemas
from harness.metadata.delta.commit_times import CommitHistory
from harness.metadata.delta.commits import Locator
from harness.metadata.delta.partition_values import partition_tuples
from harness.metadata.delta.replay import load_state
from harness.metadata.delta.scan import vector_of
from harness.metadata.delta.segment import choose_segment
from harness.metadata.delta.types import DeltaSchema
from harness.metadata.filters.predicate import Filter, filter_for
from harness.metadata.filters.skipping import ColumnBounds, may_match
from harness.metadata.filters.sqltext import bind_columns
from harness.metadata.model.arrow_values import array_of
from harness.metadata.model.schema import CHANGES, METADATA, Field
from harness.metadata.plan.deletes import ChangedRows, PositionDeletes, Vector, vectors_table
from harness.metadata.plan.lifetimes import ChangeMode, ChangeRange
from harness.metadata.plan.read_options import Prune
from harness.metadata.plan.scan_plan import (
    BY_PARTITION,
    FILES,
    KEPT,
    Counts,
    Decisions,
    DeltaRules,
    Partition,
    SkippedFiles,
    trusted_statistics,
)
from harness.metadata.planned_scan import PlannedScan, within_roots
from harness.storage.threads import cached_property

if TYPE_CHECKING:
    from harness.metadata.delta.table import DeltaTable

METADATA_COLUMNS = ("_file", "_pos")
"""The metadata columns of a change data feed."""


def plan_changes(
    source: DeltaTable,
    history: CommitHistory,
    request: ChangeRange,
    *,
    columns: tuple[str, ...] | None,
    where: str | Filter | None = None,
    allow_out_of_range: bool = False,
) -> PlannedScan:
    """Plan a read of changes.

    Args:
        source: The table.
        history: The times of the table's commits.
        request: The range of versions.
        columns: The columns to read, in order: columns of the table, `_change_type`, `_commit_version`,
            `_commit_timestamp`, `_file`, and `_pos`. None: the table's columns, then the 3 columns of the feed.
        where: A boolean SQL expression over these columns, or a filter for them. None: all changes. Partition values,
            `_commit_version`, `_commit_timestamp`, and `_change_type` skip files.
        allow_out_of_range: As for `resolve_range`.

    Raises:
        RequestError: The range is invalid, a version in it has no change data feed, the schema changed incompatibly in
            it, a column is unknown, `where` cannot be parsed, or the mode or the keys do not apply to Delta tables.
        InvalidTableError, UnsupportedError, MissingFileError: A version of the range cannot be read.
        OutsideTableError: A file is outside the allowed roots.
    """
    source = replace(source, storage=source.storage.for_read())
    try:
        _check_options(request)
        versions = resolve_range(request, history, allow_out_of_range=allow_out_of_range)
        return within_roots(_ChangeFeed(source, history, versions).plan(columns, where))
    except HarnessError as error:
        raise error.within(table=source.location, format="delta") from error.__cause__


def _check_options(request: ChangeRange) -> None:
    if request.mode is not ChangeMode.CHANGELOG:
        name = None if request.mode is None else request.mode.value
        raise RequestError(
            f"Invalid option mode={name!r}: a Delta table has a change data feed, which is only read as changelog",
            options=("mode",),
        )
    if request.keys is not None:
        raise RequestError(
            "Invalid option keys: the change data feed of a Delta table records which rows were updated",
            options=("keys",),
        )


@dataclass
class _ChangeFeed:
    source: DeltaTable
    history: CommitHistory
    versions: range
    previous_states: dict[int, State] = field(default_factory=dict)

    def plan(self, columns: tuple[str, ...] | None, where: str | Filter | None) -> PlannedScan:
        delta_schema = self._final_schema()
        fields = (*delta_schema.schema.fields, *CHANGES.values())
        schema = replace(delta_schema.schema, fields=fields)
        selected_columns = fields if columns is None else bind_columns(columns, schema)
        condition = None if where is None else filter_for(where, schema)
        _check_metadata_columns((*selected_columns, *(() if condition is None else condition.columns)))
        locator = self.source.locator
        changes = (changed_files(commit, locator, partial(self._previous_state, commit)) for commit in self._commits)
        all_files = [file for of_commit in changes for file in of_commit]
        partitions, indexes = self._partitions(all_files, delta_schema.partition_columns)
        decisions = self._decisions(condition, partitions, indexes)
        files, kept_indexes = list(compress(all_files, decisions == KEPT)), list(compress(indexes, decisions == KEPT))
        deletes, positions = _position_deletes(files, locator)
        skipped = _skipped_files(all_files, indexes, decisions, partitions)
        return PlannedScan(
            table=self.source.location,
            snapshot=self.versions.stop - 1,
            schema=schema,
            columns=selected_columns,
            filter=condition,
            rules=DeltaRules(lookup=delta_schema.lookup),
            files=_files_table(files, kept_indexes, positions),
            partitions=partitions,
            position_deletes=deletes,
            skipped=skipped,
            counts=Counts(files=len(all_files)),
            trusted=trusted_statistics(skipped, condition),
            storage=self.source.storage,
        )

    def _decisions(
        self, condition: Filter | None, partitions: Sequence[Partition], indexes: Sequence[int]
    ) -> Decisions:
        """Return for each file whether the filter keeps it, by the constants of the file."""
        decisions: Decisions = np.full(len(indexes), KEPT, np.int8)
        if condition is None or self.source.options.prune is Prune.OFF or not indexes:
            return decisions
        constants = [partition.constants for partition in partitions]

        @cache
        def facts(column: Field) -> ColumnBounds | None:
            is_constant = np.array([column.id in each for each in constants])
            if not is_constant.any():
                return None
            exact = ColumnBounds.exact(column.type, [each.get(column.id) for each in constants])
            nulls = pa.nulls(len(constants), exact.lower.type)
            # A change file records the type of each change in its rows.
            return exact.where(is_constant, ColumnBounds.from_statistics(column.type, lower=nulls, upper=nulls))

        may_hold = may_match(condition.predicate, facts, len(partitions))
        decisions[~may_hold[indexes]] = BY_PARTITION
        return decisions

    @cached_property
    def _commits(self) -> tuple[Commit, ...]:
        commits = self.history.listing.commits
        return tuple(self.source.commits.read_commits([commits[version] for version in self.versions]))

    def _final_schema(self) -> DeltaSchema:
        """Return the schema of the last version. Refuse earlier versions that cannot be shown in this schema."""
        first = self._state(self.versions[0] if self.versions else self.versions.stop - 1)
        later = ((commit.version, commit.protocol, commit.metadata) for commit in self._commits[1:])
        changes = ((first.version, first.protocol, first.metadata), *later)
        schemas: list[VersionSchema] = []
        for each in version_schemas(changes, table=self.source.location):
            check_enabled(each.metadata, version=each.version)
            check_names(each.columns, version=each.version)
            schemas.append(each)
        last = schemas[-1].columns
        for each in schemas[:-1]:
            check_evolution(each.columns, last, version=each.version, end=self.versions[-1])
        return last

    def _state(self, version: int) -> State:
        segment = choose_segment(self.history.listing, version)
        return load_state(segment, self.source.storage, self.source.locator, statistics="none")

    def _previous_state(self, commit: Commit) -> State:
        if commit.version not in self.previous_states:
            self.previous_states[commit.version] = self._state(commit.version - 1)
        return self.previous_states[commit.version]

    def _partitions(
        self, files: Sequence[ChangedFile], columns: tuple[Field, ...]
    ) -> tuple[tuple[Partition, ...], list[int]]:
        """Return the distinct file constants, and for each file the index of its constants.

        The constants of a file are its partition tuple, the version, and the kind of change.
        """
        values = [list(file.partition_values.items()) for file in files]
        paths = array_of([file.path for file in files], pa.string())
        recorded = pa.table({"path": paths, "partition_values": array_of(values, PARTITION_VALUES)})
        tuples = partition_tuples(recorded, columns)
        times = self.history.times_of(sorted({file.version for file in files}))
        numbers: dict[Hashable, int] = {}
        partitions: list[Partition] = []
        indexes: list[int] = []
        for file, number in zip(files, tuples.indexes.tolist(), strict=True):
            place = numbers.setdefault((number, file.version, file.change), len(partitions))
            if place == len(partitions):
                partition_values = tuples.tuples[number]
                constants: dict[int, Any] = {
                    **partition_values,
                    CHANGES["_commit_version"].id: file.version,
                    CHANGES["_commit_timestamp"].id: times[file.version] * 1000,
                }
                if file.change is not None:
                    constants[CHANGES["_change_type"].id] = file.change
                partitions.append(Partition(spec_id=0, values=partition_values, constants=constants))
            indexes.append(place)
        return tuple(partitions), indexes


def _check_metadata_columns(columns: Sequence[Field]) -> None:
    for f in columns:
        if f.name not in METADATA_COLUMNS and METADATA.get(f.name) == f:
            message = f"Cannot read {f.name} from a change data feed: the feed has no such column"
            raise UnknownColumnError(message, field=f.name, rule="delta C12")


def _files_table(files: Sequence[ChangedFile], partitions: Sequence[int], positions: Sequence[int | None]) -> pa.Table:
    rows = [
        {
            "path": file.path,
            "physical": file.physical,
            "format": "parquet",
            "record_count": file.record_count,
            "size": file.size,
            "spec_id": 0,
            "partition": partition,
            "delete_set": 0,
            "positions": place,
        }
        for file, partition, place in zip(files, partitions, positions, strict=True)
    ]
    return pa.Table.from_pylist(rows, schema=FILES)


def _skipped_files(
    files: Sequence[ChangedFile], partitions: Sequence[int], decisions: Decisions, tuples: tuple[Partition, ...]
) -> SkippedFiles:
    def load() -> tuple[Mapping[str, Any], tuple[Partition, ...]]:
        rows = list(compress(zip(files, partitions, strict=True), decisions != KEPT))
        return {
            "path": array_of([file.path for file, _ in rows], pa.string()),
            "record_count": array_of([file.record_count for file, _ in rows], pa.int64()),
            "size": array_of([file.size for file, _ in rows], pa.int64()),
            "partition": array_of([number for _, number in rows], pa.int32()),
        }, tuples

    return SkippedFiles.lazy(decisions[decisions != KEPT], load)


def _position_deletes(files: Sequence[ChangedFile], locator: Locator) -> tuple[PositionDeletes, list[int | None]]:
    """Return the unchanged rows of each file as deleted positions, and the index of each file's entry in them."""
    vectors: list[Vector] = []
    sets: list[ChangedRows] = []
    for file in files:
        hidden_vector, shown_vector = (
            None if each is None else vector_of(each, locator) for each in (file.hidden, file.shown)
        )
        if shown_vector is not None:
            sets.append(ChangedRows(hidden_vector, shown_vector))
        elif hidden_vector is not None:
            vectors.append(hidden_vector)
    of_vector, of_set = iter(range(len(vectors))), iter(range(len(vectors), len(vectors) + len(sets)))
    positions = [
        next(of_set) if file.shown is not None else next(of_vector) if file.hidden is not None else None
        for file in files
    ]
    return PositionDeletes(vectors=vectors_table(vectors), sets=tuple(sets)), positions
