"""The snapshots that a read of changes covers: the ancestors of its end back to its start (iceberg 8.1)."""

from __future__ import annotations

from harness.errors import InvalidTableError, RequestError
from harness.metadata.iceberg.model import IcebergSnapshot, TableMetadata
from harness.metadata.iceberg.time_travel import IcebergSelection, select
from harness.metadata.model.times import When, parse_moment
from harness.metadata.plan.lifetimes import ChangeRange
from harness.storage.records import dataclass


@dataclass(frozen=True, slots=True)
class SnapshotRange:
    """The commits of a range.

    Attributes:
        end: The last snapshot of the range, or None for a table without snapshots; and the schema of the rows.
        snapshots: The snapshots of the range, oldest first. It is empty if the range starts at its end.
        before: The snapshot before the range. None if the range starts with the first commit, or if the snapshot
            expired.
        is_expired: True if the snapshot before the range expired.
    """

    end: IcebergSelection
    snapshots: tuple[IcebergSnapshot, ...]
    before: IcebergSnapshot | None
    is_expired: bool


def resolve_range(metadata: TableMetadata, request: ChangeRange) -> SnapshotRange:
    """Return the snapshots of a range.

    The range ends with the snapshot of `request.to`. It starts after the snapshot of `request.from_`, or with it if
    `request.from_inclusive`. It has only ancestors of its end, so it follows a branch or a rollback. An exclusive start
    may have expired if it is the parent of an ancestor.

    Raises:
        RequestError: As `select`. The cause is `NotAnAncestor` if the start is not an ancestor of the end.
        InvalidTableError: As `select`, or the parents of snapshots form a circle.
        EncryptedTableError: As `select`.
    """
    end = select(metadata, request.to)
    lineage = _ancestors(metadata, end.snapshot)
    places: dict[int | None, int] = {snapshot.id: place for place, snapshot in enumerate(lineage)}
    oldest_parent = lineage[-1].parent_id if lineage else None
    start = None
    if request.from_ is None:
        count = len(lineage)
    else:
        start = _start_id(metadata, request.from_, None if request.from_inclusive else oldest_parent)
        may_precede = not request.from_inclusive and start == oldest_parent  # the parent of the oldest ancestor
        if start not in places and not may_precede:
            raise _not_an_ancestor(metadata, request, start, end.snapshot)
        count = places.get(start, len(lineage)) + request.from_inclusive
    before = lineage[count] if count < len(lineage) else None
    is_expired = before is None and oldest_parent is not None
    return SnapshotRange(end, tuple(reversed(lineage[:count])), before, is_expired)


def _ancestors(metadata: TableMetadata, snapshot: IcebergSnapshot | None) -> list[IcebergSnapshot]:
    """Return a snapshot and its ancestors in the metadata, newest first."""
    ids: set[int] = set()
    lineage: list[IcebergSnapshot] = []
    while snapshot is not None:
        if snapshot.id in ids:
            raise InvalidTableError(
                f"Cannot follow the parents of snapshot {lineage[0].id}: snapshot {snapshot.id} is its own ancestor",
                cause="SnapshotCircle",
                snapshot=snapshot.id,
                file=metadata.file,
                rule="iceberg 8.1",
            )
        ids.add(snapshot.id)
        lineage.append(snapshot)
        snapshot = None if snapshot.parent_id is None else metadata.snapshots.get(snapshot.parent_id)
    return lineage


def _start_id(metadata: TableMetadata, start: When, expired: int | None) -> int | None:
    """Return the id of the snapshot at which a range starts. `expired` is an id that need not be in the metadata."""
    if expired is not None and parse_moment(start, "from_") == ("snapshot", expired):
        return expired
    selected = select(metadata, start).snapshot
    return None if selected is None else selected.id


def _not_an_ancestor(
    metadata: TableMetadata, request: ChangeRange, start: int | None, end: IcebergSnapshot | None
) -> RequestError:
    ids = "the table has no snapshot" if end is None else f"snapshot {start} is not an ancestor of snapshot {end.id}"
    return RequestError(
        f"Cannot read changes from {request.from_!r}: {ids}. Pass an ancestor, or leave from_ out for all changes",
        cause="NotAnAncestor",
        file=metadata.file,
        rule="iceberg 8.1",
        options=("from_",),
    )
