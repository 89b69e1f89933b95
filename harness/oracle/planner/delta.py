"""Plans a read of a Delta table."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from harness.errors import InvalidTableError, RequestError, UnknownColumnError
from harness.filters.column_binding import bind_columns
from harness.filters.parse import parse_filter
from harness.model.metadata_columns import METADATA
from harness.model.schema import Field, StructType, UnknownType
from harness.oracle.planner.delta_catalog import check_known, known
from harness.oracle.planner.delta_log import Log, State, list_log, load
from harness.oracle.planner.delta_paths import check_readable, table_root
from harness.oracle.planner.delta_schema import Columns, columns_of, is_catalog_managed, is_true
from harness.oracle.planner.delta_times import version_at
from harness.oracle.planner.delta_values import partition_value
from harness.oracle.planner.delta_vectors import Target, Vectors, vector_path
from harness.oracle.planner.request import Request
from harness.plan.scan_plan import FILES, Counts, Partition, PositionDelete, ScanPlan
from harness.storage.paths import PathMap
from harness.storage.stores import Storage

_ROW_TRACKING = {
    "_row_id": ("baseRowId", "delta.rowTracking.materializedRowIdColumnName"),
    "_row_commit_version": ("defaultRowCommitVersion", "delta.rowTracking.materializedRowCommitVersionColumnName"),
}


def plan_delta(request: Request, storage: Storage) -> ScanPlan:
    """The plan of a read, with all live data files in it.

    Raises:
        HarnessError: as `harness.oracle.planner.plan_unpruned`.
    """
    root = table_root(request.location)
    state = _state(request, list_log(root, storage), storage)
    columns = columns_of(state, table=request.location)
    chosen = columns.schema.fields if request.columns is None else bind_columns(request.columns, columns.schema)
    condition = None if request.where is None else parse_filter(request.where, columns.schema)
    used = {f.name for f in (*chosen, *(condition.columns if condition else ())) if METADATA.get(f.name) == f}
    _check_metadata_columns(used, state)
    paths = PathMap(tuple(request.path_map.items()))
    files = _Files(state, columns, paths, storage)
    for (path, _), add in state.adds.items():
        files.add(path, add)
    targets = files.targets
    return ScanPlan(
        table=request.location,
        format="delta",
        snapshot=state.version,
        schema=columns.schema,
        columns=tuple(_typed(f, columns) for f in chosen),
        filter=condition,
        files=pa.Table.from_pylist(files.rows, schema=FILES),
        partitions=tuple(files.partitions),
        equality_deletes=(),
        delete_sets=((),),
        position_deletes=tuple(
            PositionDelete(
                kind="deletion vector",
                path=vector_path(target.vector, root) or "inline",
                offset=target.vector.get("offset"),
                length=target.vector["sizeInBytes"],
                record_count=target.vector["cardinality"],
                files=(ordinal,),
            )
            for ordinal, target in targets.items()
        ),
        load_positions=Vectors(targets, root, storage, paths, request.location).load,
        name_mapping=None,
        skipped=(),
        counts=Counts(files=len(files.rows)),
        storage=storage,
        lookup=columns.lookup,
        materialized=_materialized(state, used),
        row_commit_versions=_row_commit_versions(state),
    )


def _state(request: Request, log: Log, storage: Storage) -> State:
    """The version asked for (delta L32 to L36). The latest must be readable in any case."""
    if request.ref is not None:
        raise RequestError("Cannot select by ref: Delta tables have no branches and tags")
    selectors = [s for s in (request.snapshot_id, request.version, request.timestamp_ms) if s is not None]
    if len(selectors) > 1:
        raise RequestError("Cannot select by several of version, snapshot_id and timestamp_ms")
    published, log = log, known(log, request, storage)
    latest = load(log, None, storage)
    columns_of(latest, table=request.location)
    if request.published_only and not is_catalog_managed(latest):
        log = published
        latest = load(log, None, storage)
    check_known(latest, request)
    version = request.version if request.snapshot_id is None else request.snapshot_id
    if request.timestamp_ms is not None:
        version = version_at(request.timestamp_ms, log, latest, storage)
    return latest if version is None else load(log, version, storage)


@dataclass(slots=True)
class _Files:
    """The rows of the plan's table of files, as they come."""

    state: State
    columns: Columns
    paths: PathMap
    storage: Storage
    rows: list[dict[str, Any]] = field(default_factory=list)
    partitions: list[Partition] = field(default_factory=list)
    targets: dict[int, Target] = field(default_factory=dict)

    def add(self, path: str, add: dict[str, Any]) -> None:
        """The file of an add, with a partition of its own."""
        ordinal, physical, vector = len(self.rows), self.paths.physical(path), add.get("deletionVector")
        check_readable(physical, self.storage)
        count = _record_count(add)
        if vector is not None:
            self.targets[ordinal] = Target(add["path"], physical, count, vector)
        self.rows.append(
            {
                "path": add["path"],
                "physical": physical,
                "format": "parquet",
                "record_count": count,
                "size": add["size"],
                "spec_id": 0,
                "partition": self._partition(add),
                "sequence_number": None,
                "first_row_id": add.get("baseRowId"),
                "delete_set": 0,
                "has_positions": vector is not None,
            }
        )

    def _partition(self, add: dict[str, Any]) -> int:
        """delta V1 to V8: the log's values, by physical name; else by one that differs in case."""
        recorded = add["partitionValues"]
        any_case = {key.lower(): text for key, text in recorded.items()}

        def text_of(f: Field) -> str | None:
            name = f.physical_name or f.name
            found: str | None = recorded[name] if name in recorded else any_case.get(name.lower())
            return found

        values = {f.id: partition_value(text_of(f), f.type, column=f.name) for f in self.columns.partition_columns}
        names = {f.id: f.name for f in self.columns.partition_columns}
        self.partitions.append(Partition(spec_id=0, values=values, constants=values, names=names))
        return len(self.partitions) - 1


def _record_count(add: dict[str, Any]) -> int | None:
    """Physical rows, as the statistics say if they can be read (delta R10)."""
    try:
        stats = json.loads(add.get("stats") or "{}")
    except (ValueError, RecursionError):
        stats = {}
    parsed = add.get("stats_parsed") or {}
    count = (stats if isinstance(stats, dict) else {}).get("numRecords", parsed.get("numRecords"))
    return count if type(count) is int and count >= 0 else None


def _check_metadata_columns(used: set[str], state: State) -> None:
    """delta W1, W4."""
    if "_last_updated_sequence_number" in used:
        raise UnknownColumnError("Delta tables have no sequence numbers", field="_last_updated_sequence_number")
    for name in sorted(used & _ROW_TRACKING.keys()):
        if not is_true(state, "delta.enableRowTracking"):
            message = f"Cannot read {name}: row tracking is not enabled"
            raise RequestError(message, cause="RowTrackingDisabled", field=name, rule="delta W4")
        if any(add.get(_ROW_TRACKING[name][0]) is None for add in state.adds.values()):
            message = f"Cannot read {name}: a file has no {_ROW_TRACKING[name][0]}"
            raise InvalidTableError(message, cause="LogCorrupt", field=name, rule="delta W4")


def _materialized(state: State, used: set[str]) -> dict[str, str]:
    """delta W2, W3."""
    configuration = (state.metadata or {}).get("configuration") or {}
    names = {name: configuration.get(key) for name, (_, key) in _ROW_TRACKING.items() if name in used}
    return {name: column for name, column in names.items() if column is not None}


def _row_commit_versions(state: State) -> pa.Array:
    return pa.array([add.get("defaultRowCommitVersion") for add in state.adds.values()], pa.int64())


def _typed(column: Field, columns: Columns) -> Field:
    """`_partition` gets the struct that this table gives it."""
    if column.id != METADATA["_partition"].id:
        return column
    parts = tuple(replace(f, physical_name=None) for f in columns.partition_columns)
    return replace(column, type=StructType(parts) if parts else UnknownType())
