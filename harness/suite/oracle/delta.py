"""The scan of a Delta table: the requested version, deletion vectors, and row tracking.

Spec: Delta, "In-Commit Timestamps", "Deletion Vectors", "Row Tracking", "Catalog-managed tables" (L32 to L36, D1 to
D15, W1 to W4; frontier F4).
"""

from __future__ import annotations

import io
import itertools
import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness import errors
from harness.suite.oracle.bitmaps import delta_bitmap, delta_vector, z85
from harness.suite.oracle.delta_log import Log, ReplayedState, canonical_path, list_log, log_error, table_root
from harness.suite.oracle.delta_schema import TableColumns, columns_of, is_catalog_managed, is_true, partition_value
from harness.suite.oracle.paths import Entry, Files, PathPrefixes, join
from harness.suite.oracle.scan import DataFile, Request, Scan, resolve_columns
from harness.suite.oracle.types import METADATA, UNKNOWN, Field, StructType

_STAGED = "_staged_commits"
_ROW_TRACKING = {
    "_row_id": ("baseRowId", "delta.rowTracking.materializedRowIdColumnName"),
    "_row_commit_version": ("defaultRowCommitVersion", "delta.rowTracking.materializedRowCommitVersionColumnName"),
}


def scan_delta(request: Request, files: Files) -> Scan:
    """Return the scan of a read, with all live data files."""
    return DeltaRead(request, files).scan()


class DeltaRead:
    """A read of one Delta table.

    Attributes:
        log: The commits that belong to the table.
        latest: The latest version.
        state: The requested version. For a read of changes, the last version of the range.
    """

    def __init__(self, request: Request, files: Files) -> None:
        self.request, self.files = request, files
        self.root, self.paths = table_root(request.location), PathPrefixes(tuple(request.path_map.items()), files)
        self.log, self.latest = self._select_log(list_log(self.root, files))
        self.state = self._state()
        self.columns: TableColumns = columns_of(self.state, request.location)

    def scan(self) -> Scan:
        """Return the scan of the requested version."""
        columns, condition, used = resolve_columns(self.request, self.columns.schema, self._with_table_type)
        self._check_metadata_columns(used)
        materialized = {name: self.state.configuration.get(key) for name, (_, key) in _ROW_TRACKING.items()}
        return Scan(
            table=self.request.location,
            format="delta",
            snapshot=self.state.version,
            columns=columns,
            filter=condition,
            data=tuple(self.data_file(path, add) for (path, _), add in self.state.adds.items()),
            files=self.files,
            lookup=self.columns.lookup,
            materialized={name: key for name, key in materialized.items() if key is not None and name in used},
        )

    def _with_table_type(self, column: Field) -> Field:
        """Return a metadata column with its type in this table, which only `_partition` depends on."""
        if column.id != METADATA["_partition"].id:
            return column
        parts = tuple(replace(f, physical_name=None) for f in self.columns.partition_columns)
        return replace(column, type=StructType(parts) if parts else UNKNOWN)

    def _check_metadata_columns(self, used: set[str]) -> None:
        """Raise an error for metadata columns that this table cannot provide (delta W1, W4)."""
        if "_last_updated_sequence_number" in used:
            name = "_last_updated_sequence_number"
            raise errors.UnknownColumnError("Delta tables have no sequence numbers", field=name)
        for name in sorted(used & _ROW_TRACKING.keys()):
            if not is_true(self.state, "delta.enableRowTracking"):
                message = f"Cannot read {name}: row tracking is not enabled"
                raise errors.RequestError(message, cause="RowTrackingDisabled", field=name, rule="delta W4")
            if any(add.get(_ROW_TRACKING[name][0]) is None for add in self.state.adds.values()):
                raise log_error(f"a file has no {_ROW_TRACKING[name][0]}, which {name} needs", None, "delta W4")

    def _state(self) -> ReplayedState:
        """Return the requested version (delta L32 to L36). The latest version must be readable in any case."""
        request, latest = self.request, self.latest
        if request.ref is not None:
            raise errors.RequestError("Cannot select by ref: Delta tables have no branches and tags")
        selectors = [s for s in (request.snapshot_id, request.version, request.timestamp_ms) if s is not None]
        if len(selectors) > 1:
            raise errors.RequestError("Cannot select by several of version, snapshot_id and timestamp_ms")
        version = request.version if request.snapshot_id is None else request.snapshot_id
        if request.changes is not None and request.changes.to is not None:
            version = min(max(request.changes.to, 0), latest.version)
        if request.timestamp_ms is not None:
            version = self._version_at(request.timestamp_ms)
        return latest if version is None else self.log.load(version)

    def _select_log(self, published: Log) -> tuple[Log, ReplayedState]:
        """Return the commits that belong to the table and the latest version (frontier F4)."""
        request, log = self.request, self._log_with_catalog_answer(published)
        latest = log.load(None)
        columns_of(latest, request.location)
        managed = is_catalog_managed(latest)
        if request.published_only and not managed:
            log, latest = published, published.load(None)
        if managed and request.max_version is None and not request.published_only:
            message = "A catalog manages the table: pass max_version with its answer"
            raise errors.UnsupportedError(message, cause="CatalogManaged", rule="frontier F4.3")
        if not managed and request.max_version is not None:
            message = "max_version is only allowed for a table that a catalog manages"
            raise errors.RequestError(message, cause="CatalogAnswer", rule="frontier F4.5")
        return log, latest

    def _log_with_catalog_answer(self, log: Log) -> Log:
        """Return the log with the commits that the catalog ratified and without later commits."""
        if self.request.max_version is None:
            readable = log.readable()
            if not self.request.published_only or not readable:
                return log
            return log.truncated_at(readable[-1] + 1 if readable[-1] + 1 in log.commits else readable[-1])
        commits, catalog_commits = dict(log.commits), dict(log.catalog_commits)
        staged = {entry.name: entry for entry in self.files.entries(log.path(_STAGED))}
        for version, commit in self.request.ratified:
            if isinstance(commit, bytes):
                catalog_commits[version] = commit
                commits[version] = Entry(f"{version:020}.json", len(commit), None)
            elif commit in staged:
                commits[version] = replace(staged[commit], name=f"{_STAGED}/{commit}")
            elif version not in commits:
                message, file = (
                    f"The ratified commit of version {version} does not exist",
                    log.path(f"{_STAGED}/{commit}"),
                )
                cause = "StagedCommitMissing"
                raise errors.MissingFileError(message, cause=cause, file=file, rule="frontier F4.4")
        return replace(log, commits=dict(sorted(commits.items())), catalog_commits=catalog_commits).truncated_at(
            self.request.max_version
        )

    def times(self, versions: Iterable[int]) -> dict[int, int]:
        """Return times in milliseconds by version: in-commit timestamps, otherwise times of files (delta L33)."""
        first = self._in_commit_start()[0]
        requested = set(versions)
        modified = self._file_times(first) if min(requested, default=first) < first else {}
        return {v: self._in_commit_time(v) if v >= first else modified[v] for v in requested}

    def _version_at(self, timestamp_ms: int) -> int:
        """Return the last version that existed at a time, inclusive (delta L34, L35)."""
        log, (first, since_ms) = self.log, self._in_commit_start()
        if first <= log.latest and (since_ms is None or timestamp_ms >= since_ms):
            times = self.times(v for v in log.readable() if v >= first)
            if any(later <= earlier for earlier, later in itertools.pairwise(times.values())):
                raise log_error("in-commit timestamps do not increase with the version", None, "delta L35")
        else:
            times = self._file_times(first)
        past = [version for version, time in times.items() if time <= timestamp_ms]
        version = max(past, default=None)
        if version is None or (times.get(log.latest) or timestamp_ms) < timestamp_ms:
            message = f"There is no version at {timestamp_ms}"
            raise errors.SnapshotNotFoundError(message, cause="TimestampOutOfRange", rule="delta L34")
        goes_on = version in (log.latest, first - 1) or version + 1 in times
        if not goes_on and times[version] < timestamp_ms:
            message = f"The version at {timestamp_ms} may be one that was removed from the log"
            raise errors.SnapshotNotFoundError(message, cause="TimestampOutOfRange", rule="delta L34")
        return version

    def _in_commit_start(self) -> tuple[int, int | None]:
        """Return the first version with in-commit timestamps and its time (delta L35).

        The time is None if all commits have in-commit timestamps or none has.
        """
        if not is_true(self.latest, "delta.enableInCommitTimestamps"):
            if is_catalog_managed(self.latest):
                message = (
                    "A catalog-managed table needs in-commit timestamps: file times do not show when commits were made"
                )
                raise errors.InvalidTableError(message, cause="NoInCommitTimestamps", rule="frontier F4.7")
            return self.log.latest + 1, None
        keys = [f"delta.inCommitTimestampEnablement{name}" for name in ("Version", "Timestamp")]
        values = [self.latest.configuration.get(key) for key in keys]
        if values == [None, None]:
            return 0, None
        first, since_ms = (int(text) if text is not None and text.isdecimal() else -1 for text in values)
        if not 0 <= first <= self.log.latest or since_ms < 0:
            message = f"In-commit timestamps are enabled at version and time {values}"
            raise errors.InvalidTableError(message, cause="InvalidProperty", rule="delta L35")
        return first, since_ms

    def _file_times(self, end: int) -> dict[int, int]:
        """Return the modification times of the versions below `end`, adjusted to increase strictly (delta L33)."""
        times: dict[int, int] = {}
        last: int | None = None
        for version in (v for v in self.log.readable() if v < end):
            time = self.log.commits[version].modified_ms
            if time is None:
                raise errors.UnsupportedError("The storage has no modification times", rule="delta L33")
            last = time if last is None or time > last else last + 1
            times[version] = last
        return times

    def _in_commit_time(self, version: int) -> int:
        """Return the time that a commit records in its first action."""
        log = self.log
        name, body = next(iter(log.actions(version)), ("", {}))
        time = body.get("inCommitTimestamp") if name == "commitInfo" else None
        if type(time) is not int:
            reason = f"version {version} has no inCommitTimestamp in a first commitInfo"
            raise log_error(reason, log.path(log.commits[version].name), "delta L35")
        return time

    def data_file(self, path: str, add: Mapping[str, Any]) -> DataFile:
        """Return the data file of an action. `path` is the canonical path. The deletion vector is read later."""
        physical = self.paths.physical(path)
        if not self.files.opens(physical):
            raise errors.UnsupportedError("Cannot open files of this scheme", file=physical, rule="delta L41")
        partition = self._partition(add["partitionValues"])
        has_vector = add.get("deletionVector") is not None
        return DataFile(
            path=add["path"],
            physical=physical,
            format="parquet",
            record_count=_record_count(add),
            spec_id=0,
            partition=partition,
            constants=partition,
            sequence_number=None,
            first_row_id=add.get("baseRowId"),
            commit_version=add.get("defaultRowCommitVersion"),
            positions=partial(self.positions, add, physical) if has_vector else None,
        )

    def _partition(self, recorded: Mapping[str, str | None]) -> dict[int, Any]:
        """Return the recorded partition values by field id. Names of columns may differ in case (delta V1 to V8)."""
        exact = {f.physical_name or f.name for f in self.columns.partition_columns}
        any_case = {key.lower(): text for key, text in recorded.items() if key not in exact}
        names = {(f.physical_name or f.name).lower(): f.name for f in self.columns.partition_columns}
        recorded_names = {key.lower() for key in recorded}
        missing = [name for name in names if name not in recorded_names]
        if missing and recorded_names - names.keys():
            message = f"A file has partition values of {', '.join(recorded)}, and none of {missing[0]}"
            field = names[missing[0]]
            raise errors.InvalidTableError(message, cause="PartitionValueError", field=field, rule="delta V2")
        values = {}
        for f in self.columns.partition_columns:
            name = f.physical_name or f.name
            text = recorded[name] if name in recorded else any_case.get(name.lower())
            values[f.id] = partition_value(text, f.type, column=f.name)
        return values

    def positions(self, add: Mapping[str, Any], physical: str) -> set[int]:
        """Return the deleted positions of a data file that has a deletion vector (delta D9)."""
        try:
            positions = self._vector_positions(add["deletionVector"])
            declared, count = add["deletionVector"]["cardinality"], _record_count(add)
            if len(positions) != declared:
                raise _vector_error(f"{len(positions)} positions, declared {declared}", "delta D9")
            if positions and max(positions) >= (self.row_count(physical) if count is None else count):
                raise _vector_error(f"position {max(positions)} is beyond the file's rows", "delta D9")
        except errors.HarnessError as error:
            raise error.within(file=add["path"]) from error.__cause__
        return positions

    def _vector_positions(self, vector: Mapping[str, Any]) -> set[int]:
        """Return the positions of a deletion vector in the log or in a file (delta D1 to D8, D14)."""
        size, text = vector["sizeInBytes"], vector["pathOrInlineDv"]
        try:
            if vector["storageType"] == "i":
                data = z85(text)
                if not 0 <= len(data) - size < 4:
                    raise _vector_error(f"{len(data)} bytes inline, declared {size}", "delta D4")
                # Delta on Spark writes a vector without rows in this way
                return delta_bitmap(data[:size]) if data else set()
            data, offset = self.paths.read(self._vector_path(vector)), vector.get("offset") or 1
            if data[:1] != b"\x01":
                raise _vector_error("the format version of its file is not 1", "delta D5")
            frame = data[offset : offset + size + 8]
            if len(frame) != size + 8 or size < 0:
                raise _vector_error(f"{len(frame)} bytes at its offset, expected {size + 8}", "delta D14")
            return delta_vector(frame)
        except ValueError as error:
            raise _vector_error(str(error), "delta D8") from error

    def _vector_path(self, vector: Mapping[str, Any]) -> str:
        """Return the path of the file that contains a deletion vector (delta D1 to D4)."""
        text = vector["pathOrInlineDv"]
        match vector["storageType"]:
            case "u" if len(text) >= 20:
                name = f"deletion_vector_{uuid.UUID(bytes=z85(text[-20:]))}.bin"
                return join(self.root, text[:-20], name) if text[:-20] else join(self.root, name)
            case "p" if text.startswith("/") or ":" in text.split("/", 1)[0]:
                return canonical_path(text, self.root)
            case other:
                raise _vector_error(f"storage type {other!r}, path {text!r}", "delta D1")

    def row_count(self, physical: str) -> int:
        """Return the number of rows in a file, for files without that number in their statistics (delta D15)."""
        try:
            return int(pq.read_metadata(io.BytesIO(self.files.read(physical))).num_rows)
        except (pa.ArrowException, OSError) as error:
            raise errors.CorruptFileError(f"Cannot read a Parquet footer: {error}") from error


def _vector_error(reason: str, rule: str) -> errors.CorruptDeleteError:
    return errors.CorruptDeleteError(f"Cannot read deletion vector: {reason}", cause="DeletionVectorError", rule=rule)


def _record_count(add: Mapping[str, Any]) -> int | None:
    """Return the number of physical rows according to the statistics, or None if they are not readable (delta R10)."""
    try:
        stats = json.loads(add.get("stats") or "{}")
    except (ValueError, RecursionError):
        stats = {}
    stats_struct = add.get("stats_parsed") or {}
    count = (stats if isinstance(stats, dict) else {}).get("numRecords", stats_struct.get("numRecords"))
    return count if type(count) is int and count >= 0 else None
