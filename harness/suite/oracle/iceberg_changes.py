"""The changes of an Iceberg table: the rows in which each snapshot of a range differs from its parent.

All rows of each snapshot are read in the schema of the last one. A row is the same in two snapshots if its file and
position are the same. The changes become a scan that reads a file once for each snapshot and kind of change.

Spec: Iceberg, "Reserved Field IDs", "Row Lineage" (iceberg 8.1 to 8.4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness import errors
from harness.suite.oracle.files import open_file
from harness.suite.oracle.iceberg import IcebergRead, open_iceberg
from harness.suite.oracle.iceberg_manifests import LiveFile, live_files
from harness.suite.oracle.iceberg_metadata import ListedSnapshot, select_snapshot
from harness.suite.oracle.paths import Files
from harness.suite.oracle.reading import values_of
from harness.suite.oracle.scan import ChangeRange, DataFile, Request, Scan
from harness.suite.oracle.types import METADATA, SNAPSHOT_CHANGES, Field, Schema, children, find_field

INSERT, DELETE = "insert", "delete"
_IDENTITY = tuple(METADATA[name] for name in ("_file", "_pos", "_row_id"))
_METADATA = {"_file", "_pos", "_row_id", "_spec_id", "_partition"}


@dataclass(frozen=True, eq=False)
class _Row:
    """A row of a snapshot.

    Attributes:
        values: A text that is the same for rows with equal values.
        key: The same for the columns that pair updates. None if there are none.
        row_id: The row id. None if the table has none.
    """

    file: DataFile
    position: int
    values: str
    key: str | None
    row_id: int | None


@dataclass(frozen=True)
class _State:
    """The data files of a snapshot by path, and its rows by path and position."""

    files: Mapping[str, DataFile]
    rows: Mapping[tuple[str, int], _Row]


@dataclass(frozen=True)
class _Change:
    """A row of the result."""

    type: str
    ordinal: int
    snapshot: ListedSnapshot
    row: _Row


def scan_iceberg_changes(request: Request, files: Files) -> Scan:
    """Return the scan of a read of changes, with all changed files."""
    assert request.changes is not None
    table = open_iceberg(_at(request, request.changes.to), files)
    fields = table.metadata.current_schema.fields
    if reserved := [f.name for f in fields if f.name.lower() in SNAPSHOT_CHANGES]:
        message = f"Cannot read changes: the table has a column named {reserved[0]!r}"
        raise errors.InvalidTableError(message, cause="ReservedColumn", field=reserved[0], rule="iceberg 8.4")
    columns, condition, used = table.columns(Schema(fields=(*fields, *SNAPSHOT_CHANGES.values())))
    if used - _METADATA:
        names = ", ".join(sorted(used - _METADATA))
        raise errors.UnknownColumnError(f"Unknown columns of changes: {names}", field=names, rule="iceberg 8.4")
    return table.scan(columns, condition, tuple(_changed_files(_changes(table, request.changes), files)))


def _at(request: Request, moment: int | str | None) -> Request:
    """Return a request for the snapshot with an id, or of a branch or tag."""
    snapshot_id, ref = (None, moment) if isinstance(moment, str) else (moment, None)
    return replace(request, snapshot_id=snapshot_id, ref=ref)


def _range(table: IcebergRead, wanted: ChangeRange) -> list[ListedSnapshot]:
    """Return the snapshots of the range, oldest first. They are ancestors of the last one (iceberg 8.1)."""
    ancestors: list[ListedSnapshot] = []
    snapshot = table.snapshot
    while snapshot is not None:
        if snapshot in ancestors:
            message = f"Cannot read changes: snapshot {snapshot.id} is its own ancestor"
            raise errors.InvalidTableError(message, rule="iceberg 8.1")
        ancestors.append(snapshot)
        snapshot = _parent(table, snapshot)
    ids = [each.id for each in ancestors]
    if ancestors and ancestors[-1].parent_id is not None and not wanted.from_inclusive:
        ids.append(ancestors[-1].parent_id)  # it may be expired
    if wanted.from_ is None:
        return ancestors[::-1]
    first = wanted.from_
    if first not in ids:
        selected, _ = select_snapshot(table.metadata, _at(table.request, first))
        first = None if selected is None else selected.id
    if first not in ids:
        message = f"Cannot read changes: {wanted.from_} is not an ancestor of the end of the range"
        raise errors.RequestError(message, cause="NotAnAncestor", rule="iceberg 8.1")
    return ancestors[: ids.index(first) + bool(wanted.from_inclusive)][::-1]


def _parent(table: IcebergRead, snapshot: ListedSnapshot) -> ListedSnapshot | None:
    """Return the parent of a snapshot, or None if there is none or it is expired."""
    return None if snapshot.parent_id is None else table.metadata.snapshots.get(snapshot.parent_id)


def _changes(table: IcebergRead, wanted: ChangeRange) -> list[_Change]:
    """Return the changes in the range. A snapshot that only replaced files has none (iceberg 8.4)."""
    read = _StateReader(table, wanted)
    changes: list[_Change] = []
    ordinal = 0
    for snapshot in _range(table, wanted):
        if snapshot.operation == "replace":
            continue
        left, came = _differences(read.before(snapshot), read.after(snapshot), keep_moved=wanted.mode == "net")
        if wanted.mode == "appends":
            left, came = [], came if snapshot.operation == "append" else []
        kinds = [(DELETE, left), (INSERT, came)]
        if wanted.mode == "updates":
            kinds = _with_updates(left, came)
        changes += (_Change(kind, ordinal, snapshot, row) for kind, rows in kinds for row in rows)
        ordinal += 1
    return _net(changes) if wanted.mode == "net" else changes


@dataclass(frozen=True)
class _StateReader:
    """A reader of whole snapshots. Deletes do not count for a read of appends (iceberg 8.2)."""

    table: IcebergRead
    wanted: ChangeRange

    def after(self, snapshot: ListedSnapshot) -> _State:
        """Return the rows of a snapshot."""
        return self._state(live_files(self.table.metadata, snapshot, self.table.paths))

    def before(self, snapshot: ListedSnapshot) -> _State:
        """Return the rows of the parent of a snapshot, which may be expired. The first snapshot has no parent."""
        parent = _parent(self.table, snapshot)
        if parent is not None or snapshot.parent_id is None:
            return _State({}, {}) if parent is None else self.after(parent)
        return self._state(live_files(self.table.metadata, snapshot, self.table.paths, before=True))

    def _state(self, live: Sequence[LiveFile]) -> _State:
        data = self.table.data_files(live)
        if self.wanted.mode == "appends":
            data = tuple(replace(file, equality=(), positions=None) for file in data)
        fields, keys = self.table.metadata.current_schema.fields, self._keys()
        scan = self.table.scan((*fields, *_IDENTITY), None, data)
        files = {file.path: file for file in data}
        rows = {}
        for *values, path, position, row_id in values_of(scan):
            texts = dict(zip(fields, map(_text, values), strict=True))
            key = "|".join(texts[f] for f in keys) if keys else None
            rows[path, position] = _Row(files[path], position, "|".join(texts.values()), key, row_id)
        return _State(files, rows)

    def _keys(self) -> list[Field]:
        """Return the columns that pair updates."""
        schema, wanted = self.table.metadata.current_schema, self.wanted
        if wanted.mode != "updates":
            return []
        if wanted.keys is None:
            keys = [next((f for f in schema.fields if f.id == id_), None) for id_ in schema.identifier_ids]
        else:
            keys = [find_field(name, schema.fields) for name in wanted.keys]
        chosen = [f for f in keys if f is not None]
        if len(chosen) < len(keys) and wanted.keys is not None:
            raise errors.UnknownColumnError(f"Unknown column in keys: {', '.join(wanted.keys)}")
        if len(chosen) < len(keys) or any(children(f.type) for f in chosen):
            raise errors.RequestError("Cannot pair updates: a key is not a single value of a row", cause="InvalidKey")
        if not chosen and self.table.metadata.version < 3:
            raise errors.RequestError("Cannot pair updates: there are no row ids and no keys", cause="NoKeys")
        return chosen


def _text(value: object) -> str:
    """Return a text that is the same for equal values. NaNs are equal; 0.0 and -0.0 are not; maps have no order."""
    match value:
        case list():
            items = list(map(_text, value))
            return str(sorted(items) if value and isinstance(value[0], tuple) else items)
        case dict():
            return str({key: _text(part) for key, part in value.items()})
        case tuple():
            return str(tuple(map(_text, value)))
        case _:
            return repr(value)


def _differences(before: _State, after: _State, *, keep_moved: bool) -> tuple[list[_Row], list[_Row]]:
    """Return the rows that a snapshot deleted and inserted, without those that it only moved to other files.

    Net changes keep moved rows: their delete undoes the insert before it, as in Iceberg's own changelog view.
    A row moved if it left with a removed file and an equal row came with an added file. If the row ids of both sides
    match, they must be rows of the same id.
    """
    left = [row for place, row in before.rows.items() if place not in after.rows]
    came = [row for place, row in after.rows.items() if place not in before.rows]
    if keep_moved:
        return left, came
    removed = [row for row in left if row.file.path not in after.files]
    added = [row for row in came if row.file.path not in before.files]
    shared = {row.row_id for row in removed} & {row.row_id for row in added} - {None}

    def identity(row: _Row) -> Hashable:
        return row.values, row.row_id if row.row_id in shared else None

    moved = Counter(map(identity, removed)) & Counter(map(identity, added))
    return _without(left, set(removed), moved, identity), _without(came, set(added), moved, identity)


def _without(
    rows: Iterable[_Row], candidates: set[_Row], moved: Counter[Hashable], identity: Callable[[_Row], Hashable]
) -> list[_Row]:
    """Return the rows without as many candidates of each identity as moved."""
    remaining, kept = moved.copy(), []
    for row in rows:
        if row in candidates and remaining[identity(row)] > 0:
            remaining[identity(row)] -= 1
        else:
            kept.append(row)
    return kept


def _with_updates(left: list[_Row], came: list[_Row]) -> list[tuple[str, list[_Row]]]:
    """Return the changes of a snapshot by type, with deleted and inserted rows paired by row id, then by key."""
    pairs: list[tuple[_Row, _Row]] = []
    identities: tuple[Callable[[_Row], Hashable], ...] = (lambda row: row.row_id, lambda row: row.key)
    for identity in identities:
        before, after = (_by_identity(rows, identity) for rows in (left, came))
        for each in before.keys() & after.keys() - {None}:
            if len(before[each]) == len(after[each]) == 1:
                pairs.append((before[each][0], after[each][0]))
            elif identity is identities[1]:
                raise errors.RequestError("Cannot pair updates: keys do not identify rows", cause="DuplicateKeys")
        left = [row for row in left if row not in (old for old, _ in pairs)]
        came = [row for row in came if row not in (new for _, new in pairs)]
    updates = [("update_preimage", [old for old, _ in pairs]), ("update_postimage", [new for _, new in pairs])]
    return [(DELETE, left), (INSERT, came), *updates]


def _by_identity(rows: list[_Row], identity: Callable[[_Row], Hashable]) -> dict[Hashable, list[_Row]]:
    """Return the rows of each identity."""
    by_identity: dict[Hashable, list[_Row]] = {}
    for row in rows:
        by_identity.setdefault(identity(row), []).append(row)
    return by_identity


def _net(changes: Iterable[_Change]) -> list[_Change]:
    """Return the changes without inserts and deletes of equal rows that undo each other, like nested parentheses."""
    open_changes: dict[str, list[_Change]] = {}
    for change in changes:  # in the order of the snapshots, deletes first
        stack = open_changes.setdefault(change.row.values, [])
        if stack and stack[-1].type != change.type:
            stack.pop()
        else:
            stack.append(change)
    return [change for stack in open_changes.values() for change in stack]


def _changed_files(changes: Iterable[_Change], files: Files) -> Iterable[DataFile]:
    """Yield each changed file once for each type of change and snapshot, with all other rows deleted by position."""
    groups: dict[Hashable, list[_Change]] = {}
    for change in changes:
        groups.setdefault((change.type, change.ordinal, change.row.file.path), []).append(change)
    for group in groups.values():
        file, first = group[0].row.file, group[0]
        values = (first.type, first.ordinal, first.snapshot.id)
        constants = {f.id: value for f, value in zip(SNAPSHOT_CHANGES.values(), values, strict=True)}
        count = sum(1 for _ in open_file(file, files).rows)
        others = set(range(count)) - {change.row.position for change in group}
        yield replace(file, constants={**file.constants, **constants}, equality=(), positions=others.copy)
