"""The history of a table: the changes of each snapshot or version, as recorded by its writer, also as a picture."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from harness.errors import HarnessError, counted
from harness.metadata.model.drawing import Bar, BarKind, Drawing, as_html
from harness.metadata.model.text_tables import Listing
from harness.metadata.model.times import show_ms

if TYPE_CHECKING:
    from harness.metadata.delta.action_lines import Body, ParsedActions
    from harness.metadata.delta.commits import CommitReader
    from harness.metadata.delta.table import DeltaTable
    from harness.metadata.iceberg.model import IcebergSnapshot
    from harness.metadata.iceberg.table import IcebergTable

_Sizes: TypeAlias = dict[str, tuple[int | None, int | None]]
"""Rows and bytes of files by path."""
_ColumnTypes: TypeAlias = dict[Any, tuple[str, str]]
"""Names and types of top-level columns, by a key that does not change when a column is renamed."""
COUNTS = ("rows_added", "rows_removed", "files_added", "files_removed", "bytes_added", "bytes_removed")
"""Counts of an entry in the history. Files are data files. Rows are removed with files and by position deletes."""


def history(table: Any) -> list[dict[str, Any]]:
    """Return the snapshots or versions of an opened table, newest first.

    Returns:
        One dict per snapshot or version: id, timestamp_ms, operation, writer, `COUNTS`, and schema_changes, which are
            phrases about changes of top-level columns since the previous entry. Unknown values are None. Entries of
            Iceberg tables also have refs, the branches and tags that point to the snapshot.

    Raises:
        HarnessError: A commit cannot be read.
    """
    try:
        if table.format != "delta":
            return [_snapshot(table, each) for each in table.metadata.snapshots.values()][::-1]
        reader, entries = table.commits, []
        for part in table.readable():
            live: _Sizes = {}
            columns: _ColumnTypes = {}
            entries += [_version(table, reader, version, live, columns) for version in part]
    except HarnessError as error:
        raise error.within(table=table.location, format=table.format) from error.__cause__
    return entries[::-1]


def newest(table: Any) -> dict[str, Any] | None:
    """Return the first entry of `history`, or None if the table has no snapshot.

    Earlier commits are not read, so more of its counts may be unknown.
    """
    if table.format == "delta":
        return _version(table, table.commits, table.latest.id, {}, {})
    return None if table.current is None else _snapshot(table, table.current)


def commit_facts(table: Any, ids: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Return the timestamp_ms, operation, and writer of snapshots or versions, as in `history`, by id.

    Only these commits are read. The facts of a version whose commit is no longer in the log are None.

    Args:
        table: The opened table.
        ids: The ids of the snapshots, or the versions.

    Raises:
        HarnessError: A commit cannot be read.
    """
    if table.format == "delta":
        entries = (_version(table, table.commits, version, {}, {}) for version in ids)
    else:
        entries = (_snapshot(table, table.metadata.snapshots[id_]) for id_ in ids)
    return {entry["id"]: {name: entry[name] for name in ("timestamp_ms", "operation", "writer")} for entry in entries}


def _snapshot(table: IcebergTable, snapshot: IcebergSnapshot) -> dict[str, Any]:
    parent = table.metadata.snapshots.get(snapshot.parent_id) if snapshot.parent_id is not None else None
    summary = snapshot.summary
    release = " ".join(filter(None, (summary.get("engine-name"), summary.get("engine-version"))))
    library = summary.get("iceberg-version", "").partition(" (")[0]
    return {
        **{"id": snapshot.id, "timestamp_ms": snapshot.timestamp_ms, "operation": snapshot.operation},
        "writer": ", ".join(filter(None, (release, library))) or None,
        **dict(zip(COUNTS, _counts(snapshot, parent), strict=True)),
        "schema_changes": [] if parent is None else _changes(*(_columns(table, s) for s in (parent, snapshot))),
        "refs": [name for name, ref in table.metadata.refs.items() if ref.snapshot_id == snapshot.id],
    }


def _columns(table: IcebergTable, snapshot: IcebergSnapshot) -> _ColumnTypes:
    schema = None if snapshot.schema_id is None else table.metadata.schemas.get(snapshot.schema_id)
    return {} if schema is None else {field.id: (field.name, str(field.type)) for field in schema.fields}


def _changes(old: _ColumnTypes, new: _ColumnTypes) -> list[str]:
    """Return a phrase for each changed column. The result is empty if the old or the new columns are unknown."""
    if not old or not new or old == new:
        return []
    pairs = [(old[key], new[key]) for key in new if key in old]
    return [
        *(f"added {name}" for key, (name, _) in new.items() if key not in old),
        *(f"dropped {name}" for key, (name, _) in old.items() if key not in new),
        *(f"renamed {before} to {name}" for (before, _), (name, _) in pairs if before != name),
        *(f"retyped {name}" for (_, before), (name, type_) in pairs if before != type_),
    ]


def _counts(snapshot: IcebergSnapshot, parent: IcebergSnapshot | None) -> Iterator[int | None]:
    rows, deleted_rows = _added_and_removed("records", snapshot, parent)
    for kind in ("position-deletes", "equality-deletes"):
        added, removed = _added_and_removed(kind, snapshot, parent)
        if kind == "equality-deletes" and (added, removed) != (0, 0):
            deleted_rows = None  # the rows that equal a deleted key are not counted
        deleted_rows = (
            None if deleted_rows is None or added is None or removed is None else max(deleted_rows + added - removed, 0)
        )
    yield from (
        rows,
        deleted_rows,
        *_added_and_removed("data-files", snapshot, parent),
        *_added_and_removed("files-size", snapshot, parent),
    )


def _added_and_removed(
    kind: str, snapshot: IcebergSnapshot, parent: IcebergSnapshot | None
) -> tuple[int | None, int | None]:
    """Return how many items of a kind were added and removed, according to the summary of a snapshot.

    Writers may leave out counts that are 0. The totals of the snapshot and its parent then supply them.
    """
    summary, operation = snapshot.summary, snapshot.operation
    added = _number(summary.get(f"added-{kind}"))
    removed = _number(summary.get(f"deleted-{kind}", summary.get(f"removed-{kind}")))
    # By the specification, append only adds data files, and delete adds none.
    if operation == "append":
        removed, added = removed or 0, 0 if added is None and kind.endswith("-deletes") else added
    if operation == "delete" and kind in ("records", "data-files"):
        added = added or 0
    after = _number(summary.get(f"total-{kind}"))
    is_first = snapshot.parent_id is None and snapshot.sequence_number == 1
    before = 0 if is_first else None if parent is None else _number(parent.summary.get(f"total-{kind}"))
    if after is not None and before is not None:
        if added is None and removed is None and after == before and kind.endswith("-deletes"):
            return 0, 0  # any additions and removals cancel out, and only the difference counts
        added = removed + after - before if added is None and removed is not None else added
        removed = added - after + before if removed is None and added is not None else removed
    if operation == "delete" and "added-delete-files" in summary:  # this writer counts files, so a missing count is 0
        added, removed = added or 0, removed or 0
    return (None if added is None or added < 0 else added), (None if removed is None or removed < 0 else removed)


def _version(
    table: DeltaTable, reader: CommitReader, version: int, live: _Sizes, columns: _ColumnTypes
) -> dict[str, Any]:
    """Return the entry of a version.

    `live` and `columns` describe the previous version, and are updated to this version.
    """
    file = table.log.commits.get(version)
    actions = None if file is None else reader.read_actions(file)
    entry = table.entry(version, None if actions is None else actions.info)
    info = entry["commit_info"]
    counts = [None] * len(COUNTS) if actions is None else _commit_counts(actions, live, info.get("operationMetrics"))
    declared = {} if actions is None else _declared_columns(actions)
    changes = _changes(columns, declared)
    if declared:
        columns.clear()
        columns |= declared
    return {
        **{key: entry[key] for key in ("id", "timestamp_ms", "operation")},
        "writer": next((w for w in (info.get("engineInfo"), info.get("clientVersion")) if isinstance(w, str)), None),
        **dict(zip(COUNTS, counts, strict=True)),
        "schema_changes": changes,
    }


def _declared_columns(actions: ParsedActions) -> _ColumnTypes:
    """Return the columns that a commit declares. The result is empty if it declares none or they cannot be parsed."""
    try:
        fields = [field for metadata in actions.metadata for field in json.loads(metadata.schema_string)["fields"]]
        names = [(f["metadata"].get("delta.columnMapping.physicalName", f["name"]), f["name"]) for f in fields]
        return {key: (name, str(f["type"])) for (key, name), f in zip(names, fields, strict=True)}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _commit_counts(actions: ParsedActions, live: _Sizes, metrics: object) -> Iterator[int | None]:
    """Yield the counts of a commit. `live` holds the files known to be live before the commit, and is updated."""
    after = {body["path"]: _sizes(body) for body in actions.adds}
    removed = {body["path"]: _sizes(body) for body in actions.removes}
    before = {path: live.get(path, (None, None)) for path in removed} | {
        path: live[path] for path in after if path in live
    }
    for path, (rows, size) in removed.items():  # a remove may repeat the statistics of its add
        before[path] = (before[path][0] if rows is None else rows, before[path][1] if size is None else size)
    new_sizes = [sizes for path, sizes in after.items() if path not in before]
    old_sizes = [sizes for path, sizes in before.items() if path not in after]
    row_counts = [(before[path][0], after[path][0]) for path in after if path in before]
    row_losses = [
        None if old_count is None or new_count is None else old_count - new_count for old_count, new_count in row_counts
    ]
    added = _sum([*(rows for rows, _ in new_sizes), *(None if n is None else max(-n, 0) for n in row_losses)])
    if added is None and isinstance(metrics, Mapping):  # the files have no statistics
        added = _number(str(metrics.get("numOutputRows", metrics.get("num_added_rows"))))
    yield added
    yield _sum([*(rows for rows, _ in old_sizes), *(None if n is None else max(n, 0) for n in row_losses)])
    yield from (
        len(new_sizes),
        len(old_sizes),
        _sum([size for _, size in new_sizes]),
        _sum([size for _, size in old_sizes]),
    )
    for path in removed:
        live.pop(path, None)
    live |= after


def _sizes(action: Body) -> tuple[int | None, int | None]:
    """Return the number of live rows and the number of bytes in an added or removed file; None if unknown."""
    try:
        rows = json.loads(action.get("stats") or "{}").get("numRecords")
    # the log is not validated, so statistics may be anything
    except (ValueError, TypeError, AttributeError, RecursionError):
        rows = None
    deleted, size = (action.get("deletionVector") or {}).get("cardinality", 0), action.get("size")
    is_known = isinstance(rows, int) and isinstance(deleted, int)
    return (rows - deleted if is_known else None), (size if isinstance(size, int) else None)


def _sum(values: Sequence[int | None]) -> int | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) if len(numbers) == len(values) else None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and len(text) < 19 else None


MOST_BARS = 30


def draw_history(entries: Sequence[Mapping[str, Any]], most: int) -> Drawing:
    """Return a picture of a history by rows added and removed.

    If no entry has row counts, files are counted instead. If there are more than `most` entries, the oldest entries
    share one bar.
    """
    unit = "rows" if any(entry["rows_added"] is not None for entry in entries) else "files"
    newest = entries if len(entries) <= most else entries[: most - 1]
    earlier, bars = entries[len(newest) :], [_bar(entry, unit) for entry in newest]
    if earlier:
        changes = sum(len(entry["schema_changes"]) for entry in earlier)
        rest = {name: sum(entry[name] or 0 for entry in earlier) for name in COUNTS}
        schema_changes = {"schema_changes": [f"{changes:,} changes of the schema"] if changes else []}
        bars.append(replace(_bar(rest | schema_changes, unit), label=f"{len(earlier):,} earlier", is_rest=True))
    times = " to ".join(dict.fromkeys(_time(entry) for entry in (*entries[-1:], *entries[:1])))
    points = counted(len(entries), "snapshot" if any("refs" in entry for entry in entries) else "version")
    return Drawing(title="history", note=f"{points}, {times}", bars=tuple(bars))


def _bar(entry: Mapping[str, Any], unit: str) -> Bar:
    rows, files = (
        " ".join(f"{sign}{'?' if number is None else f'{number:,}'}" for sign, number in signed if number != 0)
        for signed in ([("+", entry[f"{name}_added"]), ("-", entry[f"{name}_removed"])] for name in (unit, "files"))
    )
    refs = [f"ref {name}" for name in entry.get("refs", ())]
    version = "" if "refs" in entry else str(entry.get("id", ""))
    remarks = [*refs, *entry["schema_changes"], *([f"files {files}"] if files and unit != "files" else [])]
    return Bar(
        label=" ".join(filter(None, (version, _time(entry), entry.get("operation")))),
        parts=tuple((kind, entry[f"{unit}_{kind.word}"] or 0) for kind in (BarKind.ADDED, BarKind.REMOVED)),
        value=f"{rows or 0} {unit}",
        remark=", ".join(remarks),
    )


def _time(entry: Mapping[str, Any]) -> str:
    time = entry.get("timestamp_ms")
    return "unknown time" if time is None else show_ms(time).partition(".")[0].replace("T", " ")


class History(Listing):
    """The history of a table, newest entry first (see `history`). Notebooks show it as a table and a picture."""

    def _repr_html_(self) -> str:
        return as_html(draw_history(self, MOST_BARS)) + super()._repr_html_()
