"""The changes between two points of a drawn history, computed from its model.

    commits = drawn.model.commits(Selector())[1:]
    changelog(commits, columns)      # the rows that each commit inserted and deleted, in the columns of the end

A row is identified by its data file and its position there, so the model needs no deletes of its own here: it compares
the visible rows before and after each commit.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from drawn.models.model import Columns, ModelCommit, Row, scenario_rows, visible_row
from drawn.predicates import Predicate, holds

Mode: TypeAlias = Literal["appends", "changelog", "net", "updates"]
INSERTED = ("insert", "update_postimage")
"""The kinds of change that add a row. The other kinds remove one."""


@dataclass(frozen=True, slots=True)
class RowChange:
    """A changed row.

    Attributes:
        kind: The value of `_change_type`.
        ordinal: The number of the commit among those that show changes.
        commit: The label of the snapshot, or the version.
        row: The row in the columns of the end.
        moved: Whether the commit added or removed the row's file.
        row_id: The row id that the file stores.
    """

    kind: str
    ordinal: int
    commit: str | int
    row: Row
    moved: bool = False
    row_id: int | None = None


def row_text(columns: Columns, row: Row) -> str:
    """Return a text that is equal for equal rows. NaN equals itself, and -0.0 differs from 0.0."""
    return repr(scenario_rows(columns, [row]))


def shown(commits: Iterable[ModelCommit]) -> list[ModelCommit]:
    """Return the commits that show changes."""
    return [commit for commit in commits if commit.operation != "replace"]


def changelog(commits: Sequence[ModelCommit], columns: Columns) -> list[RowChange]:
    """Return the rows that the commits inserted and deleted. Rows that a commit only moved do not count."""
    return [
        change
        for ordinal, commit in enumerate(shown(commits))
        for change in _without_moved(commit, _commit_changes(commit, ordinal, columns), columns)
    ]


def _commit_changes(commit: ModelCommit, ordinal: int, columns: Columns) -> list[RowChange]:
    if commit.recorded is not None:
        return [
            RowChange(kind, ordinal, commit.name, visible_row(columns, old, row)) for kind, old, row in commit.recorded
        ]
    before, after = commit.before, commit.after
    gone, came = sorted(before.places - after.places), sorted(after.places - before.places)
    sides = (("delete", before, after, gone), ("insert", after, before, came))
    return [
        RowChange(kind, ordinal, commit.name, held.row(place, columns), place[0] not in other.files, held.row_id(place))
        for kind, held, other, places in sides
        for place in places
    ]


def _without_moved(commit: ModelCommit, changes: list[RowChange], columns: Columns) -> list[RowChange]:
    """Leave out the rows of removed files that are equal to rows of added files, if a commit of Iceberg has both.

    A row whose row id is on both sides is only compared with the row of its id.
    """
    if isinstance(commit.name, int):
        return changes
    ids = {kind: {c.row_id for c in changes if c.moved and c.kind == kind} for kind in ("delete", "insert")}
    common_ids = (ids["delete"] & ids["insert"]) - {None}
    texts = [(row_text(columns, c.row), c.row_id if c.row_id in common_ids else None) for c in changes]
    moved = {
        kind: Counter(t for t, c in zip(texts, changes, strict=True) if c.moved and c.kind == kind) for kind in ids
    }
    common = moved["delete"] & moved["insert"]
    left = {"insert": common.copy(), "delete": common.copy()}
    kept = []
    for change, text in zip(changes, texts, strict=True):
        if change.moved and left[change.kind][text]:
            left[change.kind][text] -= 1
        else:
            kept.append(change)
    return kept


def appends(commits: Sequence[ModelCommit], columns: Columns) -> list[RowChange]:
    """Return all rows of the files that append commits added."""
    return [
        RowChange("insert", ordinal, commit.name, commit.after.row((label, position), columns))
        for ordinal, commit in enumerate(shown(commits))
        if commit.operation == "append"
        for label, file in commit.after.files.items()
        if label not in commit.before.files
        for position in range(len(file.rows))
    ]


def net(commits: Sequence[ModelCommit], columns: Columns) -> list[RowChange]:
    """Return the changes that remain when an insert and a later delete of equal rows cancel, and the reverse."""
    stacks: dict[str, list[RowChange]] = defaultdict(list)
    changes = [c for i, commit in enumerate(shown(commits)) for c in _commit_changes(commit, i, columns)]
    for change in sorted(changes, key=lambda c: (c.ordinal, c.kind)):
        stack = stacks[row_text(columns, change.row)]
        if stack and stack[-1].kind != change.kind:
            stack.pop()
        else:
            stack.append(change)
    return [change for stack in stacks.values() for change in stack]


OPEN = "open"
"""The kind of a change that may or may not be part of an update."""


def updates(changes: Sequence[RowChange], keys: Columns) -> list[RowChange]:
    """Return the changes with a deleted and an inserted row of one commit as an update if they are the same row.

    These have the same row id, or else the same keys. If a commit deleted and inserted rows with the same keys, and
    several of one kind, their changes are `OPEN`.
    """
    by_id: dict[tuple[int, int], list[RowChange]] = defaultdict(list)
    for change in changes:
        if change.row_id is not None:
            by_id[change.ordinal, change.row_id].append(change)
    pairs = [pair for pair in by_id.values() if [c.kind for c in pair] in (["delete", "insert"], ["insert", "delete"])]
    paired = {id(change) for pair in pairs for change in pair}
    groups: dict[tuple[int, str], list[RowChange]] = defaultdict(list)
    for change in changes:
        if id(change) not in paired:
            groups[change.ordinal, row_text(keys, change.row)].append(change)
    made: list[RowChange] = []
    for group in groups.values():
        if len({change.kind for change in group}) == 1:
            made += group
        elif len(group) == 2:
            pairs.append(group)
        else:
            made += (replace(change, kind=OPEN) for change in group)
    kinds = {"delete": "update_preimage", "insert": "update_postimage"}
    return [*made, *(replace(change, kind=kinds[change.kind]) for pair in pairs for change in pair)]


def matching(changes: Iterable[RowChange], columns: Columns, where: Predicate | None) -> list[RowChange]:
    """Return the changes whose rows match a filter."""
    if where is None:
        return list(changes)
    return [c for c in changes if holds(where, {f.name: c.row.get(f.id) for f in columns}) is True]


def balance(changes: Iterable[tuple[Any, str, str]]) -> Counter[tuple[Any, str]]:
    """Return how many more rows were inserted than deleted, by commit and text of the row, without zeros.

    Args:
        changes: The commit, the kind of change, and the text of each row.
    """
    counts: Counter[tuple[Any, str]] = Counter()
    for commit, kind, text in changes:
        counts[commit, text] += 1 if kind in INSERTED else -1
    return Counter({key: count for key, count in counts.items() if count})
