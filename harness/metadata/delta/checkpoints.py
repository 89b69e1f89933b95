"""Checkpoints: all actions in force at one version, in one file, in parts, or with sidecars (delta L11 to L20).

A checkpoint of a large table is a large file. Only the columns that a reader of snapshots needs are read, in batches,
and no row is processed in Python. The layout of a file is determined from its content, never from its name or from
hints (delta L10, L13).
"""

from __future__ import annotations

from dataclasses import field, replace

import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import CorruptFileError, HarnessError, InvalidTableError, MissingFileError
from harness.metadata.delta.action_lines import ParsedActions, add_action, parse_actions
from harness.metadata.delta.actions import ADDS, DomainMetadata, Metadata, Protocol, Transaction
from harness.metadata.delta.checkpoint_files import STATS_ROW, StatisticsScope, read_checkpoint_file
from harness.metadata.delta.checkpoint_statistics import CachedStatistics, CheckpointPart, CheckpointStatistics
from harness.metadata.delta.commits import REMOVE_IDENTITY, Locator, file_actions, ids_of
from harness.metadata.delta.log_files import Checkpoint, CheckpointKind, Hint, LogFile
from harness.metadata.delta.paths import decode_path
from harness.metadata.delta.segment import LogSegment
from harness.metadata.model.arrow_values import first_repeated, scalar_of
from harness.storage.decoded import DECODED, Cache, Key
from harness.storage.gate import IRREGULAR
from harness.storage.paths import join
from harness.storage.records import dataclass
from harness.storage.stores import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointContent:
    """The actions of a checkpoint.

    Attributes:
        protocol: The protocol action.
        metadata: The metaData action.
        adds: Tables of schema `ADDS`, possibly with `stats_parsed`. Keys are unique over all tables.
        transactions: The transactions.
        domains: The domain metadata.
        actions: The number of actions, including tombstones. None for a V2 checkpoint, because its writers count them
            differently.
        sidecars: The number of sidecar files.
        statistics: The statistics that the column `stats_row` of `adds` refers to. None: there is no such column.
    """

    protocol: Protocol | None
    metadata: Metadata | None
    adds: tuple[pa.Table, ...]
    transactions: tuple[Transaction, ...] = ()
    domains: tuple[DomainMetadata, ...] = ()
    actions: int | None = None
    sidecars: int = 0
    statistics: CheckpointStatistics | None = None

    @property
    def files(self) -> int:
        """The number of live files."""
        return sum(table.num_rows for table in self.adds)

    @property
    def size(self) -> int:
        """The approximate memory use in bytes."""
        parts = () if self.statistics is None else self.statistics.parts
        return sum(int(table.get_total_buffer_size()) for table in self.adds) + sum(len(part.data) for part in parts)


def read_checkpoint(
    checkpoint: Checkpoint, storage: Storage, locator: Locator, *, statistics: StatisticsScope = "any"
) -> CheckpointContent:
    """Read the actions of a checkpoint.

    Args:
        checkpoint: The checkpoint.
        storage: The storage that reads its files.
        locator: Maps recorded paths to files.
        statistics: The statistics to read.

    Raises:
        CorruptFileError, MissingFileError: A file is damaged, incomplete, or missing. Another checkpoint may be
            readable.
        InvalidTableError: The checkpoint is readable but contradicts itself. Rules: delta L14, L18.
        UnsupportedError: The checkpoint names files that cannot be opened.
        LimitError: A file exceeds the limits of the storage.
    """
    reader = _CheckpointReader(storage, locator, statistics, ParsedActions(checkpoint.files[0].path))
    for file in checkpoint.files:
        reader.read_top(file)
    reader.read_sidecars(checkpoint)
    return reader.content(checkpoint.files[0].path)


@dataclass(slots=True)
class _CheckpointReader:
    """A reader of one checkpoint, with the actions collected from its files so far."""

    storage: Storage
    locator: Locator
    statistics: StatisticsScope
    table_actions: ParsedActions
    adds: list[pa.Table] = field(default_factory=list)
    remove_ids: list[pa.Array] = field(default_factory=list)
    rows: int = 0
    parts: list[CheckpointPart] = field(default_factory=list)
    has_adds: bool = False

    def read_top(self, file: LogFile) -> None:
        data, path = self.storage.read_whole(file.path, file.size), file.path
        if not file.name.endswith(".json"):
            self._read_parquet(data, path)
            return
        parsed = self.table_actions = parse_actions(data, file=path, limits=self.storage.limits)
        self.has_adds = True  # a JSON file has no columns that could be lost
        if parsed.adds:
            self.adds.append(file_actions(parsed.adds, ADDS, locator=self.locator, file=path))
        if parsed.removes:
            self.remove_ids.append(
                ids_of(file_actions(parsed.removes, REMOVE_IDENTITY, locator=self.locator, file=path))
            )

    def read_sidecars(self, checkpoint: Checkpoint) -> None:
        """Read all sidecars. Relative paths start at `_delta_log/_sidecars`. The path map maps absolute paths."""
        top = checkpoint.files[0].path
        self._check_layout(checkpoint, top)
        if self.table_actions.sidecars:
            self.has_adds = False  # the add actions are in the sidecars
        for sidecar in self.table_actions.sidecars:
            path, size = sidecar.get("path"), sidecar.get("sizeInBytes")
            if type(path) is not str:
                raise CorruptFileError("A sidecar of the checkpoint has no path", cause="LogCorrupt", file=top)
            try:
                if path.startswith("/") or ":" in path.split("/", 1)[0]:
                    physical = self.locator.path_map.physical(self.locator.root.canonical(path))
                else:
                    physical = join(self.locator.root.log, "_sidecars", decode_path(path))
            except HarnessError as error:
                raise error.within(file=top) from None
            data = self.storage.read_whole(physical, size if type(size) is int else None)
            self._read_parquet(data, physical, is_sidecar=True)

    def content(self, top: str) -> CheckpointContent:
        self._refuse_repeats(top)
        content = CheckpointContent(
            protocol=self.table_actions.protocol,
            metadata=self.table_actions.only_metadata,
            adds=tuple(self.adds),
            transactions=tuple(self.table_actions.transactions),
            domains=tuple(self.table_actions.domains),
            actions=None if self.table_actions.checkpoint_metadata else self.rows,
            sidecars=len(self.table_actions.sidecars),
            statistics=CheckpointStatistics(tuple(self.parts)) if self.parts else None,
        )
        # This is stricter than delta L17: every writer creates the column, and without it the table would seem to have
        # no rows.
        if not self.has_adds:
            message = "Cannot read the checkpoint: it has no column add, so the files that it lists are lost"
            raise CorruptFileError(message, cause="LogCorrupt", file=top, rule="delta L17")
        return content

    def _read_parquet(self, data: bytes, file: str, *, is_sidecar: bool = False) -> None:
        actions = read_checkpoint_file(data, file, self.locator, self.statistics, self.storage.limits)
        for name, body in () if is_sidecar else actions.table_actions:
            add_action(self.table_actions, name, body, place="of the checkpoint")
        if self.statistics == "deferred" and actions.adds:
            self.parts.append(CheckpointPart(file, data, self.rows, self.storage.limits))
        for table in actions.adds:
            place = table.schema.get_field_index(STATS_ROW)
            if place >= 0 and self.rows:  # row numbers count the rows of all files
                rows = pc.add(table.column(place), scalar_of(self.rows, pa.int64()))
                table = table.set_column(place, table.schema.field(place), rows)
            self.adds.append(table)
        self.remove_ids += actions.remove_ids
        self.rows += actions.rows
        self.has_adds |= actions.has_adds

    def _check_layout(self, checkpoint: Checkpoint, top: str) -> None:
        """Check the checkpointMetadata action (delta L14)."""
        marks = self.table_actions.checkpoint_metadata
        if len(marks) > 1:
            raise _malformed_error(f"it has {len(marks)} checkpointMetadata actions, expected one", top)
        if not marks and checkpoint.kind is CheckpointKind.UUID:
            raise _malformed_error("it has no checkpointMetadata action, which its name requires", top)
        if not marks and self.table_actions.sidecars:
            raise _malformed_error("it has sidecars, but no checkpointMetadata action", top)
        if marks and marks[0].get("version") != checkpoint.version:
            version = marks[0].get("version")
            raise _malformed_error(
                f"its checkpointMetadata has version {version}, its name has {checkpoint.version}", top
            )

    def _refuse_repeats(self, top: str) -> None:
        """Refuse files that are listed twice (delta L18)."""
        keys = pa.chunked_array([chunk for table in self.adds for chunk in table.column("key").chunks], pa.string())
        repeated = first_repeated(keys)
        if repeated is not None:
            raise _malformed_error(f"it holds the file {repeated} twice", top, rule="delta L18")
        removed = pa.chunked_array(self.remove_ids, pa.string())
        if not len(removed):
            return
        for table in self.adds:
            ids = ids_of(table)
            both = ids.filter(pc.is_in(ids, value_set=removed))
            if len(both):
                path = both[0].as_py().partition("\x00")[0]
                raise _malformed_error(f"it holds the file {path} both as added and as removed", top, rule="delta L18")


def _malformed_error(reason: str, file: str, *, rule: str = "delta L14") -> InvalidTableError:
    return InvalidTableError(f"The checkpoint is malformed: {reason}", cause="LogCorrupt", file=file, rule=rule)


def read_base(
    segment: LogSegment, storage: Storage, locator: Locator, statistics: StatisticsScope, cache: Cache | None
) -> tuple[LogSegment, CheckpointContent | None]:
    """Read the checkpoint of a segment, or the next readable one if it is unusable (delta L9, L15, L19).

    Returns:
        The segment that starts from the checkpoint that was read, and the content of that checkpoint. The content is
            None if the segment starts from commit 0.
    """
    first: HarnessError | None = None
    while segment.checkpoint is not None:
        try:
            content = _read_cached(segment.checkpoint, storage, locator, statistics, cache)
            _refuse_parts_of_v2(content, segment.checkpoint)
            _check_hint_counts(content, segment.hint, segment.checkpoint.files[0])
            return segment, content
        except (CorruptFileError, MissingFileError) as error:
            if error.cause == IRREGULAR:
                raise
            first, reason = first or error, error.message
        following = segment.fallback(reason)
        if following is None:
            raise first
        segment = following
    return segment, None


def _read_cached(
    checkpoint: Checkpoint, storage: Storage, locator: Locator, statistics: StatisticsScope, cache: Cache | None
) -> CheckpointContent:
    """Return the content of a checkpoint, from the cache if possible. A checkpoint with sidecars is always read."""
    key = None if cache is None or statistics != "deferred" else _cache_key(checkpoint, storage, locator, cache)
    content = None if key is None else DECODED.get(key, CheckpointContent)
    if content is None:
        content = read_checkpoint(checkpoint, storage, locator, statistics=statistics)
        if key is None or content.sidecars:
            return content
        DECODED.put(key, content)
    if cache is None or key is None or content.statistics is None:
        return content
    # The cache of statistics is not part of the cached content: another table may use another cache directory, or none.
    return replace(content, statistics=replace(content.statistics, cache=CachedStatistics(key)))


def _cache_key(checkpoint: Checkpoint, storage: Storage, locator: Locator, cache: Cache) -> Key | None:
    versions = [cache.version(storage, file.path) for file in checkpoint.files]
    if None in versions:
        return None
    # The decoded content also depends on the location of the table and on the limits.
    fingerprint = repr((versions, locator, storage.limits, checkpoint.version))
    return Key("checkpoint", "\n".join(file.path for file in checkpoint.files), len(versions), fingerprint)


def _refuse_parts_of_v2(content: CheckpointContent, checkpoint: Checkpoint) -> None:
    """Refuse a multi-part checkpoint in a table with the feature v2Checkpoint (delta L13)."""
    features = () if content.protocol is None else (content.protocol.reader_features or ())
    if checkpoint.kind is CheckpointKind.MULTI_PART and "v2checkpoint" in {name.lower() for name in features}:
        message = "Cannot use a checkpoint in parts: the table has the feature v2Checkpoint, which forbids them"
        raise CorruptFileError(message, cause="LogCorrupt", file=checkpoint.files[0].path, rule="delta L13")


def _check_hint_counts(content: CheckpointContent, hint: Hint | None, file: LogFile) -> None:
    """Refuse a checkpoint whose counts differ from the hint.

    A checkpoint that lost actions can otherwise be read without an error. Only the counts in the hint reveal the loss.
    """
    if hint is None:
        return
    hint_count, actual_count, unit = (
        (hint.actions, content.actions, "actions") if hint.files is None else (hint.files, content.files, "live files")
    )
    if hint_count is None or actual_count is None or hint_count == actual_count:
        return
    message = (
        f"Cannot use the checkpoint: it holds {actual_count} {unit}, but _last_checkpoint records {hint_count}. If the "
        "checkpoint is correct, delete _last_checkpoint"
    )
    raise CorruptFileError(message, cause="LogCorrupt", file=file.path, rule="delta L10")
