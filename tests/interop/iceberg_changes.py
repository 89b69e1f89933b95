"""Changes of tables that Apache Iceberg wrote, compared with its own reads: the changelog view, and appended rows.

The view refuses ranges with delete files, and tables with maps or variants. For these, Iceberg reads both ends: the
earlier rows and the inserts must be the later rows and the deletes.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from written_tables import IcebergWrittenTable, assert_same, loaded

import harness
from harness.suite.scores import convert_types

_MODES = {
    "changelog": "",
    "net": ", net_changes => true",
    "updates": ", compute_updates => true, identifier_columns => array('id')",
}
"""The modes that the view has, with its arguments."""
_CHANGE_COLUMNS = ["_change_type", "_change_ordinal", "_commit_snapshot_id"]
_TYPES = {
    "INSERT": "insert",
    "DELETE": "delete",
    "UPDATE_BEFORE": "update_preimage",
    "UPDATE_AFTER": "update_postimage",
}
_HAS_DELETES = "Delete files are currently not supported in changelog scans"
_UNORDERED = "table contains unorderable columns"
_SAME_KEYS = "multiple rows with the same identifier fields"


@dataclass(frozen=True, slots=True)
class _Range:
    """A range of ancestors of a snapshot.

    Attributes:
        start: The snapshot before the range. None for all ancestors.
        end: The last snapshot.
        at: The last snapshot, as harness selects it with the current schema of the table, which Iceberg uses.
        ends: Whether Iceberg can read the rows of both ends with the current schema.
    """

    start: int | None
    end: int
    at: int | str | None
    ends: bool


def compare_changes(written: IcebergWrittenTable) -> None:
    """Compare the changes from each snapshot to the current one and to each branch, and of each commit."""
    opened = harness.open_table(str(written.location))
    for part in _ranges(loaded(written.spark, written.table)):
        if part.start is not None:
            _compare_appends(written, opened, part)
        for mode in _MODES:
            if mode != "updates" or any(field.name == "id" for field in opened.snapshot(part.at).schema.fields):
                _compare_mode(written, opened, part, mode)


def _ranges(java: Any) -> Iterator[_Range]:
    snapshots = {each.snapshotId(): each for each in java.snapshots()}
    current = {key for key, each in snapshots.items() if each.schemaId() == java.schema().schemaId()}
    for name, ref in dict(java.refs()).items():
        if ref.isTag():
            continue
        ancestors = [ref.snapshotId()]
        while (parent := snapshots[ancestors[0]].parentId()) in snapshots:
            ancestors.insert(0, parent)
        end, at = ancestors[-1], None if name == "main" else f"ref={name}"
        readable = current | ({None} if parent is None else set())  # the rows before all snapshots, unless some expired
        for start in (None, *([] if parent is None else [parent]), *ancestors[:-1]):
            yield _Range(start, end, at, {start, end} <= readable)
        for start, each in itertools.pairwise(ancestors[:-1]) if name == "main" else ():
            if each in current:
                yield _Range(start, each, each, start in current)


def _compare_appends(written: IcebergWrittenTable, opened: harness.Table, part: _Range) -> None:
    reader = written.spark.read.option("start-snapshot-id", part.start).option("end-snapshot-id", part.end)
    ours = opened.changes(part.start, part.at, mode="appends").to_arrow()
    assert_same(written.with_texts(reader.table(written.table)), ours.drop(_CHANGE_COLUMNS), f"appends of {part}")
    written.counted["Iceberg reads of appends"] += 1


def _compare_mode(written: IcebergWrittenTable, opened: harness.Table, part: _Range, mode: str) -> None:
    theirs = _view(written, part, mode)
    for engine in _engines(part):
        changes = opened.changes(part.start, part.at, mode=mode, keys=["id"] if mode == "updates" else None)
        if isinstance(theirs, pa.Table):
            ours = changes.to_arrow(engine=engine)
            assert_same(_comparable(theirs, mode), _comparable(ours, mode), f"{mode} of {part} on {engine}")
            written.counted[f"Iceberg reads of changes compared with the view, {mode}"] += 1
        elif _SAME_KEYS in theirs:
            with pytest.raises(harness.HarnessError, match="key"):
                changes.to_arrow(engine=engine)
            written.counted["Iceberg reads of changes with repeated keys"] += 1
        elif part.ends:
            _compare_ends(written, part, changes.to_arrow(engine=engine))


def _engines(part: _Range) -> tuple[str, ...]:
    """Return the engines that read a range. Spark reads only the longest range, because it is slower."""
    return ("duckdb", "spark") if part.start is None else ("duckdb",)


def _view(written: IcebergWrittenTable, part: _Range, mode: str) -> pa.Table | str:
    """Return the rows of the view, or the message of an error that is a limit of the view."""
    options = {"end-snapshot-id": part.end} | ({} if part.start is None else {"start-snapshot-id": part.start})
    listed = ", ".join(f"'{name}', '{value}'" for name, value in options.items())
    table = written.table.removeprefix("ice.")
    try:
        written.spark.sql(
            f"CALL ice.system.create_changelog_view(table => '{table}', changelog_view => 'changed', "
            f"options => map({listed}){_MODES[mode]})"
        )
        rows = written.with_texts(written.spark.table("changed"))
    except Exception as error:  # the classes of Spark, and of the virtual machine
        if any(limit in str(error) for limit in (_HAS_DELETES, _UNORDERED, _SAME_KEYS)):
            return str(error)
        raise
    kinds = pa.array([_TYPES[kind] for kind in rows["_change_type"].to_pylist()], pa.string())
    return rows.set_column(rows.schema.get_field_index("_change_type"), "_change_type", kinds)


def _comparable(rows: pa.Table, mode: str) -> pa.Table:
    """Return the columns that are compared. Net changes name any of several equal rows."""
    return rows.drop(_CHANGE_COLUMNS[1:]) if mode == "net" else rows


def _compare_ends(written: IcebergWrittenTable, part: _Range, changes: pa.Table) -> None:
    """Check that the rows of the first end and the inserts are the rows of the last end and the deletes."""
    inserting = pc.is_in(changes["_change_type"], pa.array(["insert", "update_postimage"]))
    sides = []
    for end, chosen in ((part.start, inserting), (part.end, pc.invert(inserting))):
        changed = changes.filter(chosen).drop(_CHANGE_COLUMNS)
        rows = changed.slice(0, 0)
        if end is not None:
            rows = written.with_texts(written.spark.sql(f"SELECT * FROM {written.table} VERSION AS OF {end}"))
        sides.append(pa.concat_tables([convert_types(rows, changed.schema)[0].cast(changed.schema), changed]))
    found = harness.compare(*sides)
    assert (found.only_left, found.only_right) == (0, 0), f"{part}\n{found.to_text()}"
    written.counted["Iceberg reads of changes compared with both ends"] += 1
