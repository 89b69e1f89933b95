"""An opened Delta table: its log, the versions that can be read, and the facts that `harness info` shows."""

from __future__ import annotations

import time
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pyarrow.compute as pc

from harness.errors import HarnessError, InvalidTableError, MissingFileError, RequestError, UnsupportedError, warn
from harness.metadata.delta.actions import State
from harness.metadata.delta.commit_times import ENABLED, CommitHistory, check_retention, in_commit_timestamps
from harness.metadata.delta.commits import CommitReader, Locator
from harness.metadata.delta.log_files import LogListing, list_log, read_hint
from harness.metadata.delta.paths import TableRoot
from harness.metadata.delta.protocol import (
    check_catalog,
    check_protocol,
    is_catalog_managed,
    protocol_warnings,
    redirect_warnings,
)
from harness.metadata.delta.replay import load_state
from harness.metadata.delta.scan import DeltaSnapshot, plan_scan
from harness.metadata.delta.segment import (
    LogSegment,
    choose_segment,
    published_listing,
    readable_ranges,
    use_listing,
    with_catalog_answer,
)
from harness.metadata.delta.types import table_schema
from harness.metadata.filters.predicate import Filter
from harness.metadata.model.schema import CHANGES, Schema, check_nesting, describe_field
from harness.metadata.model.times import When, parse_moment, timestamp_ms
from harness.metadata.plan.read_options import ReadOptions
from harness.metadata.planned_scan import PlannedScan, Planner
from harness.storage.gate import IRREGULAR
from harness.storage.paths import PathMap, PhysicalPath, redact
from harness.storage.records import dataclass
from harness.storage.stores import Entry, Storage
from harness.storage.threads import cached_property

if TYPE_CHECKING:
    from harness.metadata.delta.actions import CommitInfo
    from harness.metadata.plan.lifetimes import ChangeRange


_CASE_CONFLICT = "Column {} differs from another column only in letter case (delta T1)"


@dataclass(frozen=True, slots=True)
class DeltaSelection:
    """A selected version of the table, and the schema of that version."""

    snapshot: DeltaSnapshot

    @property
    def schema(self) -> Schema:
        """The schema of the version."""
        return self.snapshot.columns.schema


@dataclass(frozen=True, kw_only=True)
class DeltaTable:
    """A Delta table, with its log as it was when the table was opened.

    Attributes:
        location: The location that the user gave, for messages.
        root: The table's directory.
        storage: The storage that reads the table's files.
        options: The user's options.
        log: The files of the log.
    """

    location: str = field(repr=False)
    root: TableRoot = field(repr=False)
    storage: Storage = field(repr=False)
    options: ReadOptions = field(repr=False)
    log: LogListing = field(repr=False)
    format: Literal["delta"] = field(default="delta", init=False)

    @cached_property
    def latest(self) -> DeltaSnapshot:
        """Return the latest version, or the version that the user's library has open.

        Raises:
            HarnessError: As for `read`.
        """
        return self.read(choose_segment(self.log, self.options.pinned_version))

    @property
    def path_map(self) -> PathMap:
        """The map from recorded paths to physical ones."""
        return self.options.path_map

    @property
    def locator(self) -> Locator:
        """The map from recorded paths to files."""
        return Locator(self.root, self.path_map)

    @property
    def commits(self) -> CommitReader:
        """The reader of single commits of the table."""
        return CommitReader(self.storage, self.locator)

    @property
    def schema(self) -> Schema:
        """The schema of the latest version."""
        return self.latest.columns.schema

    @property
    def current(self) -> DeltaSnapshot:
        """The latest version."""
        return self.latest

    @property
    def warnings(self) -> tuple[str, ...]:
        """Irregularities of the log that are harmless to readers, one sentence each."""
        state = self.latest.state
        return (
            *self.log.notes,
            *state.warnings,
            *protocol_warnings(state.protocol),
            *redirect_warnings(state.metadata.configuration, table=self.location),
            *self.latest.feature_warnings,
            *(_CASE_CONFLICT.format(".".join(path)) for path in self.latest.columns.case_conflicts),
        )

    def select(self, at: When) -> DeltaSelection:
        """Return the version at a moment, or the latest version for None (delta L32 to L36).

        Raises:
            RequestError: `at` is the name of a branch or tag, which Delta does not have, or it is invalid as for
                `parse_moment`.
            SnapshotNotFoundError: The log does not have the version. The message names the versions that it has.
            InvalidTableError, UnsupportedError: The version cannot be read.
        """
        try:
            return DeltaSelection(self._snapshot(self._version(at)))
        except HarnessError as error:
            raise error.within(table=self.location, format="delta") from error.__cause__

    def is_next_commit(self, version: int) -> bool:
        """Return whether `version` can be read by adding one commit to the state of the version before it."""
        file = self.log.commits.get(version)
        is_base = any(checkpoint.version == version for checkpoint in self.log.checkpoints)
        is_plain = not self.log.compactions and not self.options.enforce_retention
        return file is not None and file.size != 0 and not is_base and is_plain

    def next_snapshot(self, before: DeltaSnapshot) -> DeltaSnapshot:
        """Return the version after `before` by reading only its commit. `is_next_commit` must be true for the version.

        Raises:
            HarnessError: As for `select`.
        """
        version = before.id + 1
        segment = LogSegment(version=version, checkpoint=None, commits=(self.log.commits[version],), listing=self.log)
        try:
            return self.read(segment, before.state)
        except HarnessError as error:
            raise error.within(table=self.location, format="delta") from error.__cause__

    def newest(self) -> int:
        """List the log again and return its latest version now.

        If a catalog manages the table, this is the newest published version, or the latest version when the table was
        opened.

        Raises:
            TableNotFoundError: The log has no version.
        """
        newest = list_log(self.storage, self.root.path).latest
        return newest if self.log.ceiling is None else max(newest, self.log.ceiling)

    def plan(
        self, selection: DeltaSelection, columns: tuple[str, ...] | None, where: str | Filter | None
    ) -> PlannedScan:
        """Plan a read, see `harness.metadata.delta.scan.plan_scan`."""
        return plan_scan(self, selection.snapshot, columns=columns, where=where)

    def changes(
        self,
        request: ChangeRange,
        columns: tuple[str, ...] | None,
        where: str | Filter | None,
        *,
        allow_out_of_range: bool = False,
    ) -> PlannedScan:
        """Plan a read of changes, see `harness.metadata.delta.changes.plan_changes`."""
        from harness.metadata.delta.changes import plan_changes

        return plan_changes(
            self,
            self._commit_history(),
            request,
            columns=columns,
            where=where,
            allow_out_of_range=allow_out_of_range,
        )

    def lifetimes(
        self, request: ChangeRange, columns: tuple[str, ...] | None, where: str | Filter | None
    ) -> PlannedScan:
        """Plan a read of rows with their lifetimes, see `harness.metadata.delta.lifetimes.plan_lifetimes`."""
        from harness.metadata.delta.lifetimes import plan_lifetimes

        return plan_lifetimes(self, self._commit_history(), request, columns=columns, where=where)

    def lifetimes_planner(self, request: ChangeRange) -> Planner:
        """Return a function that plans reads as `lifetimes`."""
        return partial(self.lifetimes, request)

    def changes_schema(self, request: ChangeRange, *, allow_out_of_range: bool = False) -> Schema:
        """Return the columns of a read of changes. Raises the errors of `resolve_range` and `read`."""
        from harness.metadata.delta.change_range import resolve_range

        versions = resolve_range(request, self._commit_history(), allow_out_of_range=allow_out_of_range)
        end = versions.stop - 1
        snapshot = self.latest if end == self.latest.id else self.read(choose_segment(self.log, end))
        schema = snapshot.columns.schema
        return replace(schema, fields=(*schema.fields, *CHANGES.values()))

    def snapshots(self) -> list[dict[str, Any]]:
        """Return the versions that can be read, ascending.

        Each has the keys id, parent_id, timestamp_ms, operation, and commit_info, the recorded commitInfo.

        Raises:
            CorruptFileError, InvalidTableError: A commit cannot be read.
        """
        reader, files = self.commits, self.log.commits
        versions = [version for part in self.readable() for version in part]
        return [self.entry(v, reader.read_info(files[v]) if v in files else None) for v in versions]

    def refs(self) -> dict[str, dict[str, Any]]:
        """Return branches and tags, which Delta does not have."""
        return {}

    def partitioning(self) -> list[str]:
        """Return the names of the partition columns."""
        return [field.name for field in self.latest.columns.partition_columns]

    def recorded(self) -> dict[str, int]:
        """Return the number of live files in the latest version, and their bytes."""
        files = self.latest.state.files
        return {"files": files.num_rows, "bytes": pc.sum(files.column("size")).as_py() or 0}

    def describe(self) -> dict[str, Any]:
        """Return the latest version as plain values, for `harness info`."""
        state, columns = self.latest.state, self.latest.columns
        files, metadata, protocol = state.files, state.metadata, state.protocol
        return {
            "format": self.format,
            "location": redact(self.location),
            "version": state.version,
            "readable_versions": [[part.start, part.stop - 1] for part in self.readable()],
            "timestamp_ms": self.latest.timestamp_ms,
            "uuid": metadata.id,
            "name": metadata.name,
            "description": metadata.description,
            "created_time_ms": metadata.created_time_ms,
            "protocol": {
                "min_reader_version": protocol.min_reader_version,
                "min_writer_version": protocol.min_writer_version,
                "reader_features": None if protocol.reader_features is None else list(protocol.reader_features),
                "writer_features": None if protocol.writer_features is None else list(protocol.writer_features),
            },
            "column_mapping_mode": columns.mode.value,
            "schema": [describe_field(f) for f in columns.schema.fields],
            "partition_columns": self.partitioning(),
            **self.recorded(),
            "files_with_deletion_vectors": files.num_rows - files.column("dv_storage_type").null_count,
            "transactions": {t.app_id: t.version for t in state.transactions.values()},
            "domains": {d.domain: d.configuration for d in state.domains.values()},
            "history": self.snapshots(),
            "properties": dict(metadata.configuration),
            "warnings": list(self.warnings),
        }

    def readable(self) -> tuple[range, ...]:
        """Return the ranges of versions that can be read, in ascending order."""
        return readable_ranges(self.log)

    def _version(self, at: When) -> int:
        match parse_moment(at):
            case None:
                return self.latest.id
            case ("snapshot", int(version)):
                return version
            case ("ref", name):
                raise RequestError(
                    f"Cannot select {name!r}: Delta tables have no branches or tags; give a version or a timestamp"
                )
            case (_, time):
                return self._commit_history().version_at(timestamp_ms(time))

    def _commit_history(self) -> CommitHistory:
        in_commit = in_commit_timestamps(self.latest.state.metadata.configuration)
        if in_commit is None and is_catalog_managed(self.latest.state.protocol):
            message = (
                "Cannot determine the times of versions: the table's catalog publishes commits later, so the times of "
                f"their files are meaningless, and {ENABLED} is not true as required; give a version"
            )
            raise InvalidTableError(message, cause="NoInCommitTimestamps", table=self.location, rule="frontier F4.7")
        return CommitHistory(
            listing=self.log,
            in_commit=in_commit,
            read_in_commit_timestamp=self._in_commit_timestamp,
        )

    def _snapshot(self, version: int) -> DeltaSnapshot:
        if version == self.latest.id:
            return self.latest
        segment = choose_segment(self.log, version)
        if self.options.enforce_retention:
            if version not in self.log.commits:
                message = (
                    f"Cannot determine the age of version {version}: the log has its checkpoint but not its commit; "
                    "leave enforce_retention out to read it anyway"
                )
                raise UnsupportedError(message, rule="delta L37", options=("enforce_retention",))
            committed_ms = self._commit_history().times_of([version])[version]
            configuration = self.latest.state.metadata.configuration
            check_retention(version, committed_ms, self.log, configuration, now_ms=time.time_ns() // 1_000_000)
        return self.read(segment)

    def read(self, segment: LogSegment, before: State | None = None) -> DeltaSnapshot:
        """Read the version that a segment describes. Refuse it if its protocol is not supported (delta P2).

        Args:
            segment: The files of the log to replay.
            before: The state to start from, as for `load_state`.

        Raises:
            HarnessError: The version cannot be read.
        """
        cache = self.options.cache
        try:
            state = load_state(segment, self.storage, self.locator, statistics="deferred", cache=cache, before=before)
            check_protocol(state.protocol, state.metadata, table=self.location)
            columns = table_schema(state.protocol, state.metadata, table=self.location)
            check_nesting(columns.schema.fields, self.storage.limits)
            in_commit = in_commit_timestamps(state.metadata.configuration, table=self.location)
        except HarnessError as error:
            raise error.within(table=self.location, snapshot=segment.version) from error.__cause__
        for sentence in state.warnings:
            warn(f"Table {redact(self.location)}: {sentence}")
        file = segment.listing.commits.get(segment.version)
        time_ms: int | None = None
        if file is not None:
            time_ms = file.modified_ms
            if in_commit is not None and segment.version >= in_commit.version:
                time_ms = self._in_commit_timestamp(segment.version)
            elif in_commit is None and is_catalog_managed(state.protocol):
                time_ms = None  # the time of publishing differs from the time of the commit (frontier F4.7)
        return DeltaSnapshot(state=state, columns=columns, timestamp_ms=time_ms)

    def _in_commit_timestamp(self, version: int) -> int | None:
        """Return the timestamp in the commit of a version, or None if its first action has none (delta L35)."""
        try:
            info = self.commits.read_info(self.log.commits[version])
        except MissingFileError as error:
            if error.cause == IRREGULAR:
                raise
            return None
        return None if info is None or not info.is_first else info.in_commit_timestamp_ms

    def entry(self, version: int, info: CommitInfo | None) -> dict[str, Any]:
        """Return the entry of a version in `snapshots`, using the commitInfo of its commit."""
        file = self.log.commits.get(version)
        entry: dict[str, Any] = {"id": version, "parent_id": version - 1 if version > 0 else None}
        if file is None:
            return entry | {"timestamp_ms": None, "operation": None, "commit_info": {}}
        time_ms = file.modified_ms if info is None or not info.is_first else info.in_commit_timestamp_ms
        return entry | {
            "timestamp_ms": time_ms if time_ms is not None else file.modified_ms,
            "operation": None if info is None else info.operation,
            "commit_info": {} if info is None else dict(info.values),
        }


def load(
    location: PhysicalPath, storage: Storage, options: ReadOptions, *, listed: tuple[Entry, ...] | None = None
) -> DeltaTable:
    """Open the Delta table at a location, see `harness.table.open_table` for the options.

    Raises:
        TableNotFoundError: There is no log, or it is empty (rule delta L4).
        InvalidTableError, UnsupportedError: The latest version cannot be read.
    """
    root = TableRoot.at(location)

    def opened(listing: LogListing) -> DeltaTable:
        hint = read_hint(storage, root.path) if listing.has_hint else None
        listing = replace(listing, hint=hint, allow_checkpoint_only=options.allow_checkpoint_only)
        effective = listing  # the commits that are known to belong to the table
        if options.answer is not None:
            effective = with_catalog_answer(listing, options.answer, storage)
        elif options.published_only:
            effective = published_listing(listing)
        table = DeltaTable(location=location, root=root, storage=storage, options=options, log=effective)
        if options.published_only and not is_catalog_managed(table.latest.state.protocol):
            table = replace(table, log=listing)  # no catalog manages the table, so all commits in its log belong to it
        check_catalog(table.latest.state.protocol, options)
        return table

    try:
        table = use_listing(storage, root.path, opened, listed=listed)
    except HarnessError as error:
        raise error.within(table=location, format="delta") from error.__cause__
    for note in table.log.notes:
        warn(f"Table {redact(location)}: {note}")
    return table
