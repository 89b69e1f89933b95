"""Selection of the snapshot to read, by id, reference, or time, and of its schema.

A time is looked up in the snapshot log, which is the history of `main`. The commit times of snapshots are not used,
because they include other branches. `harness.metadata.model.times` defines how a user may specify a moment.

Spec: Iceberg (rules iceberg 1.24, 1.25, 1.31 to 1.37).
"""

from __future__ import annotations

from collections.abc import Iterable

from harness.errors import EncryptedTableError, InvalidTableError, SnapshotNotFoundError
from harness.metadata.iceberg.model import IcebergSnapshot, LogEntry, RefType, TableMetadata
from harness.metadata.model.schema import Schema
from harness.metadata.model.times import When, parse_moment, show_ms, timestamp_ms
from harness.storage.records import dataclass

MAIN = "main"
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class IcebergSelection:
    """A snapshot and the schema of the rows to return. The snapshot is None in a table without snapshots."""

    snapshot: IcebergSnapshot | None
    schema: Schema


def select(metadata: TableMetadata, at: When) -> IcebergSelection:
    """Return the selected snapshot, with the schema that belongs to this kind of selection (iceberg 1.35).

    None selects the current snapshot with the current schema. A branch, including `main`, selects its head with the
    current schema. A snapshot id, time, or tag selects a snapshot with that snapshot's own schema. An id may be any
    snapshot in the metadata, even a staged one. A time selects the state of `main` at that time, inclusive. Names of
    refs are case-sensitive.

    Raises:
        RequestError: As `parse_moment`.
        SnapshotNotFoundError: No snapshot has that id or name, or none existed at that time. The message lists
            alternatives.
        InvalidTableError: The metadata lacks the snapshot of a ref or the schema of a snapshot.
        EncryptedTableError: The snapshot is encrypted (iceberg 1.31).
    """
    match parse_moment(at):
        case None:
            selection = IcebergSelection(metadata.current_snapshot, metadata.current_schema)
        case ("snapshot", int(snapshot_id)):
            snapshot = _by_id(metadata, snapshot_id)
            selection = IcebergSelection(snapshot, _schema_of(metadata, snapshot))
        case ("ref", str(ref)):
            selection = _by_ref(metadata, ref)
        case (_, time):
            snapshot = _at(metadata, timestamp_ms(time))
            selection = IcebergSelection(snapshot, _schema_of(metadata, snapshot))
    selected = selection.snapshot
    if selected is not None and (selected.key_id is not None or metadata.encryption_keys):
        raise EncryptedTableError(
            f"Cannot read snapshot {selected.id}: it is encrypted, and harness holds no keys",
            snapshot=selected.id,
            file=metadata.file,
            rule="iceberg 1.31",
        )
    return selection


def _by_id(metadata: TableMetadata, snapshot_id: int) -> IcebergSnapshot:
    snapshot = metadata.snapshots.get(snapshot_id)
    if snapshot is None:
        import difflib  # only needed if a name is not found

        ids = [str(id_) for id_ in metadata.snapshots]
        similar_ids = difflib.get_close_matches(str(snapshot_id), ids, n=_SHOWN, cutoff=0.8)
        newest = sorted(metadata.snapshots.values(), key=lambda s: (s.timestamp_ms, s.sequence_number), reverse=True)
        hint = "the table has no snapshot"
        if similar_ids or newest:
            latest = ", ".join(f"{s.id} ({show_ms(s.timestamp_ms)})" for s in newest[:_SHOWN])
            hint = f"did you mean {', '.join(similar_ids)}" if similar_ids else f"the newest are {latest}"
        raise _not_found(metadata, f"Cannot find snapshot {snapshot_id}: {hint}", snapshot_id, rule="iceberg 1.32")
    return snapshot


def _at(metadata: TableMetadata, time_ms: int) -> IcebergSnapshot:
    entry = _last_entry(metadata.snapshot_log, time_ms)
    if entry is None:
        oldest = min((e.timestamp_ms for e in metadata.snapshot_log), default=None)
        hint = "its snapshot log is empty" if oldest is None else f"the oldest available time is {show_ms(oldest)}"
        message = f"Cannot find a snapshot at {show_ms(time_ms)}: {hint}"
        raise _not_found(metadata, message, None, cause="NoSnapshotAtTime", rule="iceberg 1.33")
    snapshot = metadata.snapshots.get(entry.snapshot_id)
    if snapshot is None:
        available_times = (e.timestamp_ms for e in metadata.snapshot_log if e.snapshot_id in metadata.snapshots)
        oldest = min(available_times, default=None)
        hint = "" if oldest is None else f"; the oldest available time is {show_ms(oldest)}"
        message = f"Cannot read at {show_ms(time_ms)}: snapshot {entry.snapshot_id} of that time has expired{hint}"
        raise _not_found(metadata, message, entry.snapshot_id, rule="iceberg 1.33")
    return snapshot


def _last_entry(log: Iterable[LogEntry], time_ms: int) -> LogEntry | None:
    """Return the entry with the latest time up to `time_ms`; the last one of several with equal times (iceberg 1.34).

    The log may be out of order.
    """
    best: LogEntry | None = None
    for entry in log:
        if entry.timestamp_ms <= time_ms and (best is None or entry.timestamp_ms >= best.timestamp_ms):
            best = entry
    return best


def _by_ref(metadata: TableMetadata, name: str) -> IcebergSelection:
    ref = metadata.refs.get(name)
    if ref is None:
        if name == MAIN:
            return IcebergSelection(None, metadata.current_schema)
        import difflib

        suggestions = difflib.get_close_matches(name, metadata.refs, n=_SHOWN) or sorted(metadata.refs)[:_SHOWN]
        hint = f"the table has {', '.join(suggestions) or 'none'}"
        raise _not_found(metadata, f"Cannot find branch or tag '{name}': {hint}", None, rule="iceberg 1.37")
    snapshot = metadata.snapshots.get(ref.snapshot_id)
    if snapshot is None:
        raise InvalidTableError(
            f"Cannot read {ref.type.value} '{name}': its snapshot {ref.snapshot_id} is not in the table",
            cause="MissingSnapshot",
            snapshot=ref.snapshot_id,
            file=metadata.file,
            rule="iceberg 1.25",
        )
    is_branch = ref.type is RefType.BRANCH
    return IcebergSelection(snapshot, metadata.current_schema if is_branch else _schema_of(metadata, snapshot))


def _schema_of(metadata: TableMetadata, snapshot: IcebergSnapshot) -> Schema:
    """Return the schema recorded for the snapshot, or the current one if none is recorded (iceberg 1.35)."""
    if snapshot.schema_id is None:
        return metadata.current_schema
    schema = metadata.schemas.get(snapshot.schema_id)
    if schema is None:
        ids = ", ".join(map(str, metadata.schemas))
        raise InvalidTableError(
            f"Cannot read snapshot {snapshot.id}: its schema {snapshot.schema_id} is not in the table, only {ids}",
            cause="MissingSchema",
            snapshot=snapshot.id,
            file=metadata.file,
            rule="iceberg 1.35",
        )
    return schema


def _not_found(
    metadata: TableMetadata, message: str, snapshot_id: int | None, rule: str, *, cause: str = "MissingSnapshot"
) -> SnapshotNotFoundError:
    return SnapshotNotFoundError(message, cause=cause, snapshot=snapshot_id, file=metadata.file, rule=rule)
