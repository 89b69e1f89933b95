"""The rows that one commit changed: from change files, else from added and removed files (delta C4 to C9).

A file that a commit removes and adds again, with another deletion vector, changed only in the rows by which the two
vectors differ; so a part of a file's rows is given by two vectors, one that hides rows and one that alone shows any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from harness.errors import InvalidTableError, RequestError
from harness.metadata.delta.actions import Commit, DeletionVectorDescriptor, Metadata, State
from harness.metadata.delta.commits import Locator
from harness.metadata.delta.protocol import is_enabled
from harness.metadata.delta.statistics import record_counts
from harness.metadata.delta.types import DeltaSchema
from harness.metadata.model.schema import CHANGES, Field, ListType, MapType, StructType, Type
from harness.metadata.plan.projection import stored_name

ChangeType: TypeAlias = Literal["insert", "delete"]
_MERGED = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """Rows of one file that one version inserted or deleted.

    version: that version.
    change: None: the file is a change file, and says itself what happened to each row.
    path: as recorded. physical: where the file is.
    partition_values: text by physical column name.
    size: bytes, None if unknown. record_count: physical rows, None if unknown.
    hidden: rows that did not change; None: no row is hidden.
    shown: the only rows that changed, less the hidden ones; None: all.
    """

    version: int
    change: ChangeType | None
    path: str
    physical: str
    partition_values: Mapping[str, str | None]
    size: int | None = None
    record_count: int | None = None
    hidden: DeletionVectorDescriptor | None = None
    shown: DeletionVectorDescriptor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Action:
    """An add or a remove. data_changed: False for rearrangements of the same rows."""

    path: str
    key: str
    physical: str
    partition_values: Mapping[str, str | None] | None
    size: int | None
    record_count: int | None
    data_changed: bool
    vector: DeletionVectorDescriptor | None

    def rows(
        self,
        commit: Commit,
        change: ChangeType,
        *,
        hidden: DeletionVectorDescriptor | None,
        shown: DeletionVectorDescriptor | None = None,
    ) -> ChangedFile:
        return ChangedFile(
            version=commit.version,
            change=change,
            path=self.path,
            physical=self.physical,
            partition_values=self.partition_values or {},
            size=self.size,
            record_count=self.record_count,
            hidden=hidden,
            shown=shown,
        )


def changed_files(commit: Commit, locator: Locator, state_before: Callable[[], State]) -> Iterator[ChangedFile]:
    """The rows that a commit changed.

    Args:
        commit: the version's. locator: tells where files are.
        state_before: the table at the version before; called only for removes that do not record what is needed.

    Raises:
        InvalidTableError: the commit contradicts itself, or removes a file that is not there.
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
    if _is_idle_merge(commit):
        return
    adds = _by_key(commit.adds, locator, commit, "adds")
    removes = _by_key(commit.removes, locator, commit, "removes")
    for key, removed in removes.items():
        added = adds.get(key)
        if added is not None:
            yield from _rewritten(removed, added, commit)
        elif removed.data_changed:
            whole = _completed(removed, locator, commit, state_before)
            yield whole.rows(commit, "delete", hidden=whole.vector)
    for key, added in adds.items():
        if key not in removes and added.data_changed:
            yield added.rows(commit, "insert", hidden=added.vector)


def _rewritten(removed: _Action, added: _Action, commit: Commit) -> Iterator[ChangedFile]:
    """A file that a commit gave another deletion vector (delta C6)."""
    if not (removed.data_changed or added.data_changed):
        return
    before, after = removed.vector, added.vector
    if after is not None:
        yield added.rows(commit, "delete", hidden=before, shown=after)
    if before is not None:
        yield added.rows(commit, "insert", hidden=after, shown=before)


def _is_idle_merge(commit: Commit) -> bool:
    """A MERGE that rewrote files and changed no row (delta C9)."""
    if commit.info is None or commit.info.operation != "MERGE":
        return False
    metrics = commit.info.values.get("operationMetrics")
    return isinstance(metrics, dict) and all(str(metrics.get(name)) == "0" for name in _MERGED)


def _completed(removed: _Action, locator: Locator, commit: Commit, state_before: Callable[[], State]) -> _Action:
    """A remove with its partition values, if need be those of the file that it removes (delta C8)."""
    if removed.partition_values is not None:
        return removed
    vector = None if removed.vector is None else removed.vector.unique_id
    files = state_before().files
    for found in _actions(files.filter(pa.compute.equal(files.column("key"), removed.key)), locator):
        if vector == (None if found.vector is None else found.vector.unique_id):
            return replace(found, data_changed=True)
    raise InvalidTableError(
        f"Cannot read the changes of version {commit.version}: it removes a file without its partition values, and the "
        "version before does not have that file",
        cause="ChangeFeedError",
        snapshot=commit.version,
        file=removed.path,
        rule="delta C8",
    )


def _by_key(files: pa.Table, locator: Locator, commit: Commit, deed: str) -> dict[str, _Action]:
    found: dict[str, _Action] = {}
    for action in _actions(files, locator):
        if action.key in found:
            raise InvalidTableError(
                f"Cannot read the changes of version {commit.version}: it {deed} a file twice, with two deletion "
                "vectors",
                cause="LogCorrupt",
                snapshot=commit.version,
                file=action.path,
                rule="delta C6",
            )
        found[action.key] = action
    return found


def _actions(files: pa.Table, locator: Locator) -> Iterator[_Action]:
    counts = record_counts(files).tolist()
    left_out = [name for name in ("stats", "stats_parsed") if name in files.column_names]
    rows: list[dict[str, Any]] = files.drop_columns(left_out).to_pylist()
    physical = locator.physical(files.column("key")).to_pylist()
    for row, where, count in zip(rows, physical, counts, strict=True):
        values = row["partition_values"]
        yield _Action(
            path=row["path"],
            key=row["key"],
            physical=where,
            partition_values=None if values is None else dict(values),
            size=row["size"],
            record_count=None if count < 0 else count,
            data_changed=row["data_change"] is not False,
            vector=DeletionVectorDescriptor.of(row),
        )


# The check that the versions of a change data feed can be shown in one schema (delta C3, C10, C11).


_ENABLED = "delta.enableChangeDataFeed"


def check_enabled(metadata: Metadata, *, version: int) -> None:
    """Returns if the table keeps a change data feed as of `version`.

    Raises:
        RequestError: it does not. Rule: delta C3.
    """
    if not is_enabled(metadata.configuration, _ENABLED):
        raise RequestError(
            f"Cannot read changes of version {version}: {_ENABLED} is not true as of that version; "
            "start after the version that sets it",
            cause="ChangeFeedError",
            snapshot=version,
            rule="delta C3",
        )


def check_names(columns: DeltaSchema, *, version: int) -> None:
    """Returns if no column of the table is called like a column of the feed.

    Raises:
        InvalidTableError: one is. Rule: delta C10.
    """
    for field in columns.schema.fields:
        if field.name.lower() in CHANGES:
            raise InvalidTableError(
                f"Cannot read changes of version {version}: the table has a column {field.name!r}, a name that the "
                "change data feed needs",
                cause="ChangeFeedError",
                snapshot=version,
                field=field.name,
                rule="delta C10",
            )


def check_evolution(old: DeltaSchema, new: DeltaSchema, *, version: int, end: int) -> None:
    """Returns if rows of `version` can be shown in the schema of version `end`: it has the same columns, perhaps more.

    Raises:
        RequestError: a column was renamed, dropped or changed, or the partitioning was. Rule: delta C11.
    """
    reason = _difference(old, new)
    if reason is not None:
        raise RequestError(
            f"Cannot show the changes of version {version} in the schema of version {end}: {reason}; "
            "read the versions before and after that change apart",
            cause="ChangeFeedError",
            snapshot=version,
            rule="delta C11",
        )


def _difference(old: DeltaSchema, new: DeltaSchema) -> str | None:
    before, after = (tuple(stored_name(f) for f in s.partition_columns) for s in (old, new))
    if before != after:
        return f"the partition columns changed from {list(before)} to {list(after)}"
    return _fields_differ(old.schema.fields, new.schema.fields, "")


def _fields_differ(old: Sequence[Field], new: Sequence[Field], parent: str) -> str | None:
    known = {stored_name(f): f for f in new}
    for field in old:
        path = f"{parent}{field.name}"
        other = known.pop(stored_name(field), None)
        if other is None:
            return f"column {path} was dropped or renamed"
        if other.name != field.name:
            return f"column {path} was renamed to {parent}{other.name}"
        if (reason := _field_differs(field, other, path)) is not None:
            return reason
    required = next((f.name for f in known.values() if f.required), None)
    return None if required is None else f"column {parent}{required} was added and is never null"


def _field_differs(old: Field, new: Field, path: str) -> str | None:
    if new.required and not old.required:
        return f"column {path} became one that is never null"
    return _types_differ(old.type, new.type, path)


def _types_differ(old: Type, new: Type, path: str) -> str | None:
    match old, new:
        case StructType(fields=before), StructType(fields=after):
            return _fields_differ(before, after, f"{path}.")
        case ListType(element=before_), ListType(element=after_):
            return _field_differs(before_, after_, f"{path}.element")
        case MapType(key=key, value=value), MapType(key=new_key, value=new_value):
            reason = _field_differs(key, new_key, f"{path}.key")
            return reason or _field_differs(value, new_value, f"{path}.value")
        case _ if old == new:
            return None
        case _:
            return f"column {path} changed from {old} to {new}"
