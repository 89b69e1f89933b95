"""Which snapshot to read, and under which schema (iceberg 1.24, 1.25, 1.31 to 1.37).

Time travel asks the snapshot log, the history of `main`, and never the times of the snapshots themselves: those of
other branches would leak in.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from harness.errors import EncryptedTableError, InvalidTableError, RequestError, SnapshotNotFoundError
from harness.metadata.iceberg.metadata import LogEntry, RefType, Snapshot, SnapshotRef, TableMetadata
from harness.metadata.model.schema import Schema
from harness.metadata.model.times import show_ms
from harness.storage.records import dataclass

MAIN = "main"
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Selection:
    """What to read: a snapshot, None for a table without any (no rows), and the schema that its rows are shown in."""

    snapshot: Snapshot | None
    schema: Schema


def select(
    metadata: TableMetadata,
    *,
    snapshot_id: int | None = None,
    timestamp_ms: int | None = None,
    ref: str | None = None,
) -> Selection:
    """The selected snapshot with the schema that belongs to the way of selecting it (iceberg 1.35).

    No selector: the current snapshot under the current schema. A branch, `main` too: its head under the current schema.
    A snapshot id, time or tag: that snapshot under its own schema.

    Args:
        metadata: the table.
        snapshot_id: any snapshot in the metadata, staged ones too.
        timestamp_ms: what `main` was at that time, inclusive; milliseconds since 1970-01-01 UTC.
        ref: name of a branch or tag, case-sensitive.

    Raises:
        RequestError: more than one selector (iceberg 1.32).
        SnapshotNotFoundError: nothing has that id or name, or nothing was there at that time; says what there is.
        InvalidTableError: the table lost the snapshot of a ref, or the schema of a snapshot.
        EncryptedTableError: the snapshot is encrypted (iceberg 1.31).
    """
    _check_exclusive(snapshot_id=snapshot_id, timestamp=timestamp_ms, ref=ref)
    if snapshot_id is not None:
        snapshot = _by_id(metadata, snapshot_id)
        selection = Selection(snapshot, _schema_of(metadata, snapshot))
    elif timestamp_ms is not None:
        snapshot = _at(metadata, timestamp_ms)
        selection = Selection(snapshot, _schema_of(metadata, snapshot))
    elif ref is not None:
        selection = _by_ref(metadata, ref)
    else:
        selection = Selection(metadata.current_snapshot, metadata.current_schema)
    _check_not_encrypted(metadata, selection.snapshot)
    return selection


def _check_exclusive(**selectors: object) -> None:
    given = [name for name, value in selectors.items() if value is not None]
    if len(given) > 1:
        message = f"Cannot select a snapshot by {' and '.join(given)} at once: give one of them"
        raise RequestError(message, cause="ExclusiveSelectors", rule="iceberg 1.32", options=given)


def _by_id(metadata: TableMetadata, snapshot_id: int) -> Snapshot:
    snapshot = metadata.snapshots.get(snapshot_id)
    if snapshot is None:
        known = [str(known_id) for known_id in metadata.snapshots]
        near = difflib.get_close_matches(str(snapshot_id), known, n=_SHOWN, cutoff=0.8)
        hint = f"did you mean {', '.join(near)}" if near else _newest(metadata)
        raise _not_found(metadata, f"Cannot find snapshot {snapshot_id}: {hint}", snapshot_id, rule="iceberg 1.32")
    return snapshot


def _at(metadata: TableMetadata, time_ms: int) -> Snapshot:
    entry = _last_entry(metadata.snapshot_log, time_ms)
    if entry is None:
        oldest = min((e.timestamp_ms for e in metadata.snapshot_log), default=None)
        hint = "its snapshot log is empty" if oldest is None else f"the oldest available time is {show_ms(oldest)}"
        message = f"Cannot find a snapshot at {show_ms(time_ms)}: {hint}"
        raise _not_found(metadata, message, None, cause="NoSnapshotAtTime", rule="iceberg 1.33")
    snapshot = metadata.snapshots.get(entry.snapshot_id)
    if snapshot is None:
        kept = (e.timestamp_ms for e in metadata.snapshot_log if e.snapshot_id in metadata.snapshots)
        oldest = min(kept, default=None)
        hint = "" if oldest is None else f"; the oldest available time is {show_ms(oldest)}"
        message = f"Cannot read at {show_ms(time_ms)}: snapshot {entry.snapshot_id} of that time has expired{hint}"
        raise _not_found(metadata, message, entry.snapshot_id, rule="iceberg 1.33")
    return snapshot


def _last_entry(log: Iterable[LogEntry], time_ms: int) -> LogEntry | None:
    """The entry with the latest time up to `time_ms`, whatever the order; the last of equal ones (iceberg 1.34)."""
    best: LogEntry | None = None
    for entry in log:
        if entry.timestamp_ms <= time_ms and (best is None or entry.timestamp_ms >= best.timestamp_ms):
            best = entry
    return best


def _by_ref(metadata: TableMetadata, name: str) -> Selection:
    ref = metadata.refs.get(name)
    if ref is None:
        if name == MAIN:
            return Selection(None, metadata.current_schema)
        message = f"Cannot find branch or tag '{name}': {_known_refs(metadata, name)}"
        raise _not_found(metadata, message, None, rule="iceberg 1.37")
    snapshot = _head(metadata, name, ref)
    match ref.type:
        case RefType.BRANCH:
            return Selection(snapshot, metadata.current_schema)
        case RefType.TAG:
            return Selection(snapshot, _schema_of(metadata, snapshot))


def _head(metadata: TableMetadata, name: str, ref: SnapshotRef) -> Snapshot:
    snapshot = metadata.snapshots.get(ref.snapshot_id)
    if snapshot is None:
        raise InvalidTableError(
            f"Cannot read {ref.type.value} '{name}': its snapshot {ref.snapshot_id} is not in the table",
            cause="MissingSnapshot",
            snapshot=ref.snapshot_id,
            file=metadata.file,
            rule="iceberg 1.25",
        )
    return snapshot


def _schema_of(metadata: TableMetadata, snapshot: Snapshot) -> Schema:
    """The schema that was current at the snapshot's commit; the table's where none is recorded (iceberg 1.35)."""
    if snapshot.schema_id is None:
        return metadata.current_schema
    schema = metadata.schemas.get(snapshot.schema_id)
    if schema is None:
        known = ", ".join(map(str, metadata.schemas))
        raise InvalidTableError(
            f"Cannot read snapshot {snapshot.id}: its schema {snapshot.schema_id} is not in the table, only {known}",
            cause="MissingSchema",
            snapshot=snapshot.id,
            file=metadata.file,
            rule="iceberg 1.35",
        )
    return schema


def _check_not_encrypted(metadata: TableMetadata, snapshot: Snapshot | None) -> None:
    if snapshot is not None and (snapshot.key_id is not None or metadata.encryption_keys):
        raise EncryptedTableError(
            f"Cannot read snapshot {snapshot.id}: encrypted table not supported, harness holds no keys",
            snapshot=snapshot.id,
            file=metadata.file,
            rule="iceberg 1.31",
        )


def _not_found(
    metadata: TableMetadata, message: str, snapshot_id: int | None, rule: str, *, cause: str = "MissingSnapshot"
) -> SnapshotNotFoundError:
    return SnapshotNotFoundError(message, cause=cause, snapshot=snapshot_id, file=metadata.file, rule=rule)


def _newest(metadata: TableMetadata) -> str:
    newest = sorted(metadata.snapshots.values(), key=lambda s: (s.timestamp_ms, s.sequence_number), reverse=True)
    if not newest:
        return "the table has no snapshot"
    newest = newest[:_SHOWN]
    return f"the newest are {', '.join(f'{s.id} ({show_ms(s.timestamp_ms)})' for s in newest)}"


def _known_refs(metadata: TableMetadata, name: str) -> str:
    names = difflib.get_close_matches(f"{name}", metadata.refs, n=_SHOWN) or sorted(metadata.refs)[:_SHOWN]
    return f"the table has {', '.join(names)}" if names else "the table has none"
