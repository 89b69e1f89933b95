"""The change data feed: every row that a range of versions inserted, deleted, or updated, as a `ScanPlan`.

The plan reads each changed file once for each of its changes, in the schema of the last version. The kind and the time
of a change are constants of the file, except in change files, which store the kind for each row.

Spec: Delta, "Change Data Files".
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from harness.errors import HarnessError, UnknownColumnError
from harness.metadata.delta.actions import PARTITION_VALUES, Commit, State
from harness.metadata.delta.change_files import ChangedFile, changed_files, check_enabled, check_evolution, check_names
from harness.metadata.delta.change_range import ChangeRequest, VersionSchema, resolve_range, version_schemas
from harness.metadata.delta.commit_times import CommitHistory
from harness.metadata.delta.commits import Locator
from harness.metadata.delta.partition_values import partition_tuples
from harness.metadata.delta.replay import load_state
from harness.metadata.delta.scan import vector_of
from harness.metadata.delta.segment import choose_segment
from harness.metadata.delta.types import DeltaSchema
from harness.metadata.filters.sqltext import bind_columns
from harness.metadata.model.arrow_values import array_of
from harness.metadata.model.schema import CHANGES, METADATA, Field, Schema
from harness.metadata.plan.deletes import ChangedRows, PositionDeletes, Vector, vectors_table
from harness.metadata.plan.scan_plan import FILES, Counts, DeltaRules, Partition
from harness.metadata.planned_scan import PlannedScan, within_roots
from harness.storage.threads import cached_property

if TYPE_CHECKING:
    from harness.metadata.delta.table import DeltaTable

_METADATA_COLUMNS = ("_file", "_pos")


def plan_changes(
    source: DeltaTable, history: CommitHistory, request: ChangeRequest, *, columns: tuple[str, ...] | None
) -> PlannedScan:
    """Plan a read of changes.

    Args:
        source: The table.
        history: The times of the table's commits.
        request: The range of versions.
        columns: The columns to read, in order: columns of the table, `_change_type`, `_commit_version`,
            `_commit_timestamp`, `_file`, and `_pos`. None: the table's columns, then the 3 columns of the feed.

    Raises:
        RequestError: The range is invalid, a version in it has no change data feed, the schema changed incompatibly in
            it, or a column is unknown.
        InvalidTableError, UnsupportedError, MissingFileError: A version of the range cannot be read.
        OutsideTableError: A file is outside the allowed roots.
    """
    source = replace(source, storage=source.storage.for_read())
    try:
        return within_roots(_ChangeFeed(source, history, resolve_range(request, history)).plan(columns))
    except HarnessError as error:
        raise error.within(table=source.location, format="delta") from error.__cause__


@dataclass
class _ChangeFeed:
    source: DeltaTable
    history: CommitHistory
    versions: range
    previous_states: dict[int, State] = field(default_factory=dict)

    def plan(self, columns: tuple[str, ...] | None) -> PlannedScan:
        delta_schema = self._final_schema()
        fields = (*delta_schema.schema.fields, *CHANGES.values())
        schema = replace(delta_schema.schema, fields=fields)
        selected_columns = fields if columns is None else _bind_columns(columns, schema)
        locator = self.source.locator
        changes = (changed_files(commit, locator, partial(self._previous_state, commit)) for commit in self._commits)
        files = [file for of_commit in changes for file in of_commit]
        partitions, indexes = self._partitions(files, delta_schema.partition_columns)
        deletes, positions = _position_deletes(files, locator)
        return PlannedScan(
            table=self.source.location,
            snapshot=self.versions[-1] if self.versions else self.history.listing.latest,
            schema=schema,
            columns=selected_columns,
            filter=None,
            rules=DeltaRules(lookup=delta_schema.lookup),
            files=_files_table(files, indexes, positions),
            partitions=partitions,
            position_deletes=deletes,
            counts=Counts(files=len(files)),
            storage=self.source.storage,
        )

    @cached_property
    def _commits(self) -> tuple[Commit, ...]:
        commits = self.history.listing.commits
        return tuple(self.source.commits.read_commits([commits[version] for version in self.versions]))

    def _final_schema(self) -> DeltaSchema:
        """Return the schema of the last version. Refuse earlier versions that cannot be shown in this schema."""
        first = self._state(self.versions[0] if self.versions else self.history.listing.latest)
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


def _bind_columns(names: Sequence[str], schema: Schema) -> tuple[Field, ...]:
    fields = bind_columns(names, schema)
    for f in fields:
        if f.name not in _METADATA_COLUMNS and METADATA.get(f.name) == f:
            message = f"Cannot read {f.name} from a change data feed: the feed has no such column"
            raise UnknownColumnError(message, field=f.name, rule="delta C12")
    return fields


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
