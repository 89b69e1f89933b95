"""The rows that one commit changed: from change files, or else from added and removed files (delta C4 to C9).

A commit may remove a file and add it again with another deletion vector. The changed rows are then those that only one
of the 2 vectors deletes. Two vectors describe this subset of a file's rows: `hidden`, whose rows are excluded, and
`shown`, whose rows alone are included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa

from harness.errors import InvalidTableError, RequestError
from harness.metadata.delta.actions import Commit, DeletionVectorDescriptor, Metadata, State
from harness.metadata.delta.commits import Locator
from harness.metadata.delta.protocol import is_enabled
from harness.metadata.delta.statistics import record_counts
from harness.metadata.delta.types import DeltaSchema
from harness.metadata.model.schema import CHANGES, Field, ListType, MapType, StructType
from harness.metadata.plan.projection import stored_name
from harness.storage.paths import PhysicalPath

_MERGED = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """Rows of one file that one version inserted or deleted.

    Attributes:
        version: The version.
        change: The kind of change. None: the file is a change file, which records the kind for each row.
        path: The path as recorded.
        physical: The location of the file.
        partition_values: Text by physical column name.
        size: The size of the file in bytes. None: unknown.
        record_count: The number of physical rows. None: unknown.
        hidden: The vector of rows that did not change. None: no row is excluded.
        shown: The vector of rows that may have changed. None: all rows may have changed.
    """

    version: int
    change: Literal["insert", "delete"] | None
    path: str
    physical: PhysicalPath
    partition_values: Mapping[str, str | None]
    size: int | None = None
    record_count: int | None = None
    hidden: DeletionVectorDescriptor | None = None
    shown: DeletionVectorDescriptor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Action:
    """An add or remove action.

    Attributes:
        key: The replay key of the file.
        file: The file, with its deletion vector as `hidden`.
        has_values: True if the action records partition values.
        data_changed: True if rows changed. False: the commit only rearranged rows.
    """

    key: str
    file: ChangedFile
    has_values: bool
    data_changed: bool


def changed_files(commit: Commit, locator: Locator, state_before: Callable[[], State]) -> Iterator[ChangedFile]:
    """Return the rows that a commit changed.

    Args:
        commit: The commit.
        locator: Maps recorded paths to files.
        state_before: Loads the table at the previous version. It is only called for removes that do not record
            partition values.

    Raises:
        InvalidTableError: The commit contradicts itself or the table.
    """
    if commit.cdc:
        for file in commit.cdc:
            yield ChangedFile(
                version=commit.version,
                change=None,
                path=file.path,
                physical=file.physical,
                partition_values=file.partition_values,
                size=file.size,
            )
        return
    if commit.info is not None and commit.info.operation == "MERGE":
        metrics = commit.info.values.get("operationMetrics")
        if isinstance(metrics, dict) and all(str(metrics.get(name)) == "0" for name in _MERGED):
            return  # the MERGE rewrote files and changed no row (delta C9)
    adds = _actions_by_key(commit.adds, locator, commit, "adds")
    removes = _actions_by_key(commit.removes, locator, commit, "removes")
    for key, removed in removes.items():
        added = adds.get(key)
        if added is None and removed.data_changed:
            yield replace(_with_partition_values(removed, locator, commit, state_before), change="delete")
        if added is not None and (removed.data_changed or added.data_changed):
            # the commit replaced the file's deletion vector (delta C6)
            before, after = removed.file.hidden, added.file.hidden
            if after is not None:
                yield replace(added.file, change="delete", hidden=before, shown=after)
            if before is not None:
                yield replace(added.file, change="insert", hidden=after, shown=before)
    for key, added in adds.items():
        if key not in removes and added.data_changed:
            yield replace(added.file, change="insert")


def _with_partition_values(
    removed: _Action, locator: Locator, commit: Commit, state_before: Callable[[], State]
) -> ChangedFile:
    """Return a removed file with its partition values.

    If the remove action does not record them, they are taken from the previous version (delta C8).
    """
    if removed.has_values:
        return removed.file
    vector, files = removed.file.hidden, state_before().files
    for action in _actions(files.filter(pa.compute.equal(files.column("key"), removed.key)), locator, commit.version):
        other = action.file.hidden
        if (vector and vector.unique_id) == (other and other.unique_id):
            return action.file
    raise InvalidTableError(
        f"Cannot read the changes of version {commit.version}: it removes a file without recording "
        "its partition values, and the previous version does not contain the file",
        cause="ChangeFeedError",
        snapshot=commit.version,
        file=removed.file.path,
        rule="delta C8",
    )


def _actions_by_key(files: pa.Table, locator: Locator, commit: Commit, verb: str) -> dict[str, _Action]:
    actions: dict[str, _Action] = {}
    for action in _actions(files, locator, commit.version):
        if action.key in actions:
            raise InvalidTableError(
                f"Cannot read the changes of version {commit.version}: it {verb} a file twice, with two deletion "
                "vectors",
                cause="LogCorrupt",
                snapshot=commit.version,
                file=action.file.path,
                rule="delta C6",
            )
        actions[action.key] = action
    return actions


def _actions(files: pa.Table, locator: Locator, version: int) -> Iterator[_Action]:
    counts = record_counts(files).tolist()
    left_out = [name for name in ("stats", "stats_parsed") if name in files.column_names]
    rows: list[dict[str, Any]] = files.drop_columns(left_out).to_pylist()
    physical = locator.physical(files.column("key")).to_pylist()
    for row, physical_path, count in zip(rows, physical, counts, strict=True):
        values = row["partition_values"]
        file = ChangedFile(
            version=version,
            change=None,
            path=row["path"],
            physical=physical_path,
            partition_values=dict(values or ()),
            size=row["size"],
            record_count=None if count < 0 else count,
            hidden=DeletionVectorDescriptor.from_row(row),
        )
        changes_data = row["data_change"] is not False
        yield _Action(key=row["key"], file=file, has_values=values is not None, data_changed=changes_data)


_ENABLED = "delta.enableChangeDataFeed"


def check_enabled(metadata: Metadata, *, version: int) -> None:
    """Refuse a version without a change data feed.

    Raises:
        RequestError: The property `delta.enableChangeDataFeed` is not true (rule delta C3).
    """
    if not is_enabled(metadata.configuration, _ENABLED):
        message = (
            f"Cannot read changes of version {version}: {_ENABLED} is not true in that version; "
            "start after the version that enables it"
        )
        raise RequestError(message, cause="ChangeFeedError", snapshot=version, rule="delta C3")


def check_names(columns: DeltaSchema, *, version: int) -> None:
    """Refuse a table with a column that has the name of a change data feed column.

    Raises:
        InvalidTableError: The table has such a column (rule delta C10).
    """
    for field in columns.schema.fields:
        if field.name.lower() in CHANGES:
            raise InvalidTableError(
                f"Cannot read changes of version {version}: the table has a column {field.name!r}, which is the name "
                "of a change data feed column",
                cause="ChangeFeedError",
                snapshot=version,
                field=field.name,
                rule="delta C10",
            )


def check_evolution(old: DeltaSchema, new: DeltaSchema, *, version: int, end: int) -> None:
    """Refuse a version whose rows cannot be shown in the schema of version `end`.

    Raises:
        RequestError: The schema changed in an incompatible way (rule delta C11).
    """
    reason = partitioning_difference(old, new) or _fields_difference(old.schema.fields, new.schema.fields, "")
    if reason is not None:
        message = (
            f"Cannot show the changes of version {version} in the schema of version {end}: {reason}; "
            "read the versions before and after that change separately"
        )
        raise RequestError(message, cause="ChangeFeedError", snapshot=version, rule="delta C11")


def partitioning_difference(old: DeltaSchema, new: DeltaSchema) -> str | None:
    """Return how the partition columns differ between two versions, or None if they are the same."""
    before, after = ([stored_name(f) for f in s.partition_columns] for s in (old, new))
    return None if before == after else f"the partition columns changed from {before} to {after}"


def _fields_difference(old: Sequence[Field], new: Sequence[Field], parent: str) -> str | None:
    remaining = {stored_name(f): f for f in new}
    for field in old:
        path = f"{parent}{field.name}"
        other = remaining.pop(stored_name(field), None)
        if other is None:
            return f"column {path} was dropped or renamed"
        if other.name != field.name:
            return f"column {path} was renamed to {parent}{other.name}"
        if (reason := _field_difference(field, other, path)) is not None:
            return reason
    required = next((f.name for f in remaining.values() if f.required), None)
    return None if required is None else f"column {parent}{required} was added as non-nullable"


def _field_difference(old: Field, new: Field, path: str) -> str | None:
    if new.required and not old.required:
        return f"column {path} became non-nullable"
    match old.type, new.type:
        case StructType(fields=before), StructType(fields=after):
            return _fields_difference(before, after, f"{path}.")
        case ListType(element=before_), ListType(element=after_):
            return _field_difference(before_, after_, f"{path}.element")
        case MapType(key=key, value=value), MapType(key=new_key, value=new_value):
            reason = _field_difference(key, new_key, f"{path}.key")
            return reason or _field_difference(value, new_value, f"{path}.value")
        case _ if old.type == new.type:
            return None
        case _:
            return f"column {path} changed from {old.type} to {new.type}"
