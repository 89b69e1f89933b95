"""The change data feed of a Delta table: the rows that a range of commits inserted, deleted, or updated.

A scan of changes reads a file once for each change of the file, with the schema of the last version. The kind, version,
and time of a change are constants of the file. Only change files store the kind of each row.

Spec: Delta, "Change Data Files", "Add File and Remove File" (delta C1 to C12).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from harness import errors
from harness.suite.oracle.delta import DeltaRead
from harness.suite.oracle.delta_log import Action, ReplayedState, apply_actions, canonical_path, vector_id
from harness.suite.oracle.delta_schema import columns_of, is_true
from harness.suite.oracle.documents import Document
from harness.suite.oracle.paths import Files
from harness.suite.oracle.scan import DataFile, Request, Scan, resolve_columns
from harness.suite.oracle.types import CHANGES, Field, Schema, children

_MERGED = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


def scan_delta_changes(request: Request, files: Files) -> Scan:
    """Return the scan of a read of changes, with all changed files."""
    table = DeltaRead(request, files)
    fields = (*table.columns.schema.fields, *CHANGES.values())
    columns, condition, used = resolve_columns(request, Schema(fields=fields), lambda field: field)
    if used - {"_file", "_pos"}:
        names = ", ".join(sorted(used))
        raise errors.UnknownColumnError(f"Unknown columns of changes: {names}", field=names, rule="delta C12")
    versions = _versions(table)
    times = table.times(versions)
    data: list[DataFile] = []
    for state, actions in _commits(table, versions):
        moment = {"_commit_version": state.version, "_commit_timestamp": times[state.version] * 1000}
        for kind, file in _changed_files(table, state, actions):
            constants = moment if kind is None else {"_change_type": kind, **moment}
            by_id = {CHANGES[name].id: value for name, value in constants.items()}
            data.append(replace(file, constants={**file.constants, **by_id}))
    return Scan(
        table=request.location,
        format="delta",
        snapshot=table.state.version,
        columns=columns,
        filter=condition,
        data=tuple(data),
        files=files,
        lookup=table.columns.lookup,
    )


def _versions(table: DeltaRead) -> range:
    """Return the requested versions, whose commits must all exist (delta C1, C2)."""
    assert table.request.changes is not None
    wanted, end = table.request.changes, table.state.version
    if wanted.mode != "changelog" or wanted.keys is not None:
        raise errors.RequestError("Cannot read changes: a change data feed has no modes and no keys", rule="delta C1")
    first, last = wanted.from_ or 0, end if wanted.to is None else wanted.to
    if not 0 <= first <= min(last, end):
        message = f"Cannot read changes of versions {first} to {last}: the latest is {table.latest.version}"
        raise errors.RequestError(message, cause="ChangeFeedError", rule="delta C2")
    versions = range(first + (wanted.from_inclusive is False), end + 1)
    if missing := [version for version in versions if version not in table.log.commits]:
        message = f"Cannot read changes: there are no commits of versions {missing}"
        raise errors.InvalidTableError(message, cause="LogGap", rule="delta C2")
    return versions


def _commits(table: DeltaRead, versions: range) -> Iterator[tuple[ReplayedState, list[Action]]]:
    """Yield the actions of each version, with a state that has only the files that this version added (delta C3)."""
    if not versions:
        return
    state = table.log.load(versions[0])
    for version in versions:
        actions = table.log.actions(version)
        state = replace(state, version=version, adds={})
        apply_actions(state, actions, table.root, table.log.path(table.log.commits[version].name))
        if version == versions[0] or any(name in ("protocol", "metaData") for name, _ in actions):
            _check_version(state, table)
        yield state, actions


def _check_version(state: ReplayedState, table: DeltaRead) -> None:
    """Check that a version has a feed and that its rows fit the last version's schema (delta C3, C10, C11)."""
    columns = columns_of(state, table.request.location)
    refuse = partial(errors.RequestError, cause="ChangeFeedError", snapshot=state.version)
    if not is_true(state, "delta.enableChangeDataFeed"):
        raise refuse(
            f"Cannot read changes: the change data feed is not enabled in version {state.version}", rule="delta C3"
        )
    if reserved := [f.name for f in columns.schema.fields if f.name.lower() in CHANGES]:
        message = f"Cannot read changes: the table has a column named {reserved[0]!r}"
        raise errors.InvalidTableError(message, cause="ChangeFeedError", field=reserved[0], rule="delta C10")
    partitions, last = (list(map(_stored_name, c.partition_columns)) for c in (columns, table.columns))
    if partitions != last or not _can_show(table.columns.schema.fields, columns.schema.fields):
        message = f"Cannot show changes of version {state.version} in the schema of version {table.state.version}"
        raise refuse(message, rule="delta C11")


def _can_show(fields: Sequence[Field], older: Sequence[Field]) -> bool:
    """Return whether rows of the older fields can be shown with `fields`. Added fields must be nullable."""
    added = {_stored_name(f): f for f in fields}
    for old in older:
        new = added.pop(_stored_name(old), None)
        if new is None or new.name != old.name or (new.required and not old.required):
            return False
        is_nested = bool(children(new.type) or children(old.type))
        if type(new.type) is not type(old.type) or (new.type != old.type and not is_nested):
            return False
        if not _can_show(children(new.type), children(old.type)):
            return False
    return not any(f.required for f in added.values())


def _stored_name(field: Field) -> str:
    return field.physical_name or field.name


def _changed_files(
    table: DeltaRead, state: ReplayedState, actions: Sequence[Action]
) -> Iterator[tuple[str | None, DataFile]]:
    """Yield the files with the rows that a commit changed, each with the kind of change.

    The kind is None for change files, which store it in each row. Change files contain all changes of their commit
    (delta C4). Actions without a change of data are skipped (C5).
    """
    if changes := [body for name, body in actions if name == "cdc"]:
        yield from ((None, table.data_file(canonical_path(body["path"], table.root), body)) for body in changes)
        return
    info: Document = next((body for name, body in actions if name == "commitInfo"), {})
    metrics = info.get("operationMetrics") if info.get("operation") == "MERGE" else None
    if isinstance(metrics, dict) and all(str(metrics.get(name)) == "0" for name in _MERGED):
        return  # the merge rewrote files and changed no row (delta C9)
    removed = _by_path(table, (body for name, body in actions if name == "remove"))
    added = _by_path(table, state.adds.values())
    for path in {**removed, **added}:
        before, after = removed.get(path), added.get(path)
        if all(body is None or body.get("dataChange") is False for body in (before, after)):
            continue
        if before is None or after is None:
            action, kind = (
                (after, "insert")
                if before is None
                else (_with_partition_values(table, state.version, before), "delete")
            )
            yield kind, table.data_file(path, action or {})
            continue
        # the deletion vector was replaced: the changed rows are those that only one of the two vectors deletes (delta
        # C6)
        file = table.data_file(path, after)
        for kind, hiding, other in (("delete", after, before), ("insert", before, after)):
            if hiding.get("deletionVector") is not None:
                yield kind, replace(file, positions=partial(_positions_outside_change, table, file, hiding, other))


def _by_path(table: DeltaRead, bodies: Iterable[Document]) -> dict[str, Document]:
    """Return actions by canonical path. Raise InvalidTableError if a commit adds or removes a file twice (delta C6)."""
    by_path: dict[str, Document] = {}
    for body in bodies:
        if by_path.setdefault(canonical_path(body["path"], table.root), body) is not body:
            message = "A commit adds or removes a file twice with different deletion vectors"
            raise errors.InvalidTableError(message, cause="LogCorrupt", file=body["path"], rule="delta C6")
    return by_path


def _with_partition_values(table: DeltaRead, version: int, remove: Document) -> Document:
    """Return a `remove` with partition values, if necessary the `add` of the previous version (delta C8)."""
    if remove.get("partitionValues") is not None:
        return remove
    key = (canonical_path(remove["path"], table.root), vector_id(remove.get("deletionVector")))
    add = table.log.load(version - 1).adds.get(key) if version else None
    if add is None:
        message = f"Version {version} removes a file without partition values that version {version - 1} does not have"
        raise errors.InvalidTableError(message, cause="ChangeFeedError", file=remove["path"], rule="delta C8")
    return add


def _positions_outside_change(table: DeltaRead, file: DataFile, hiding: Document, other: Document) -> set[int]:
    """Return the positions of all rows except those that `hiding` deletes and `other` does not delete (delta C6)."""
    hidden, hidden_by_other = (
        set[int]() if body.get("deletionVector") is None else table.positions(body, file.physical)
        for body in (hiding, other)
    )
    return set(range(table.row_count(file.physical))) - (hidden - hidden_by_other)
