"""Drawn reads of changes, and change files in drawn Delta histories."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from drawn.changes import Mode
from drawn.models.delta import DeltaModel
from drawn.models.model import Columns, ModelCommit, TableKind, TableModel, model_of, scenario_rows
from drawn.predicates import Predicate
from drawn.strategies import delta_maintenance
from drawn.strategies.columns import Operation, fresh
from drawn.strategies.histories import DrawnHistory, histories
from drawn.strategies.iceberg_maintenance import MAINTENANCE
from drawn.strategies.predicates import predicates
from drawn.strategies.settings import tables
from drawn.strategies.types import Draw
from harness.metadata.model import schema as dt
from harness.suite.scenarios.model import Selector

MODES: tuple[Mode, ...] = ("changelog", "net", "updates", "appends")


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnRange:
    """A range of commits.

    Attributes:
        first: The snapshot or version at which the range begins. None for the oldest commit of the table.
        is_inclusive: Whether the changes of `first` are in the range.
        end: The point at which the range ends.
        commits: The commits in the range, oldest first.
    """

    first: str | int | None
    is_inclusive: bool
    end: Selector
    commits: tuple[ModelCommit, ...]

    def __str__(self) -> str:
        begin = f"{self.first} {'inclusive' if self.is_inclusive else 'exclusive'}"
        return f"from {begin} to {self.end.kind} {self.end.value}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the range in Hypothesis' reports, without the rows of its commits."""
        printer.text(str(self))

    def features(self, model: TableModel) -> list[str]:
        """Return the names of what the range contains."""
        commits, kind = self.commits, "version" if model.format == "delta" else "snapshot"
        points = [Selector(kind, commit.name) for commit in commits]
        hiding = frozenset[str]().union(*(model.hiding(point) for point in points))
        moved = [
            (c.before.files.keys() - c.after.files.keys(), c.after.files.keys() - c.before.files.keys())
            for c in commits
        ]
        names = {
            "compaction": any(c.operation == "replace" for c in commits),
            "copy-on-write": any(c.operation != "replace" and all(m) for c, m in zip(commits, moved, strict=True)),
            "removed deletes": any(c.uncovers for c in commits),
            "changed columns": len({model.columns_at(point) for point in [*points, self.end]}) > 1,
            "change files": any(c.recorded for c in commits),
        }
        return [*sorted(hiding), *(name for name, holds in names.items() if holds)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesRead:
    """The options of a read of changes.

    Attributes:
        columns: The columns to read. None for all.
        keys: The columns that pair updates.
    """

    mode: Mode
    columns: tuple[str, ...] | None = None
    where: Predicate | None = None
    keys: tuple[str, ...] = ()


@st.composite
def ranges(draw: Draw, model: TableModel) -> DrawnRange | None:
    """Draw a range, most often a long one to the current state. None if the table has no range that can be read."""
    points = model.points()
    end = draw(st.sampled_from([Selector(), *points[::-1]]))
    commits = model.commits(end)
    if isinstance(model, DeltaModel):
        commits = readable(model, commits)
    if not commits:
        return None
    count = draw(st.sampled_from(range(len(commits), -1, -1)))
    chosen = tuple(commits[len(commits) - count :])
    if not chosen:
        return DrawnRange(first=commits[-1].name, is_inclusive=False, end=end, commits=())
    ways: list[tuple[str | int | None, bool]] = [(chosen[0].name, True)]
    if chosen[0].parent is not None:
        ways.append((chosen[0].parent, False))
    if len(chosen) == len(commits) and model.format == "iceberg":
        ways.append((None, False))
    first, is_inclusive = draw(st.sampled_from(ways))
    return DrawnRange(first=first, is_inclusive=is_inclusive, end=end, commits=chosen)


def readable(model: DeltaModel, commits: Sequence[ModelCommit]) -> list[ModelCommit]:
    """Return the last commits whose files exist and whose columns can be shown in the columns of the last version.

    Spec: rules delta C2 and C11.
    """
    readable: list[ModelCommit] = []
    end = model.versions[int(commits[-1].name)].columns if commits else ()
    for commit in reversed(commits):
        version = int(commit.name)
        is_vacuumed = bool(model.vacuumed & {*commit.before.files, *commit.after.files})
        is_vacuumed |= commit.recorded is not None and version <= model.vacuumed_feed
        if is_vacuumed or version <= model.first or not _shows(model.versions[version].columns, end):
            break
        readable.append(commit)
    return readable[::-1]


def _shows(old: Columns, new: Columns) -> bool:
    """Return whether columns differ only by added ones."""
    by_id = {f.id: f for f in new}
    return all(f.id in by_id and by_id[f.id].name == f.name and _same(f.type, by_id[f.id].type) for f in old)


def _same(old: dt.Type, new: dt.Type) -> bool:
    if type(old) is not type(new) or not dt.children(old):
        return old == new
    return _shows(dt.children(old), dt.children(new))


@st.composite
def change_reads(draw: Draw, model: TableModel, end: Selector) -> ChangesRead:
    """Draw the options of a read of changes."""
    columns = model.columns_at(end)
    keyed = [f.name for f in columns if not dt.children(f.type) and not isinstance(f.type, dt.GeometryType)]
    modes = MODES if model.format == "iceberg" else ("changelog",)
    mode = draw(st.sampled_from([each for each in modes if keyed or each != "updates"]))
    names = [f.name for f in columns]
    chosen = draw(st.one_of(st.none(), st.lists(st.sampled_from(names), min_size=1, unique=True).map(tuple)))
    where = draw(st.one_of(st.none(), predicates(columns)))
    keys = draw(st.lists(st.sampled_from(keyed), min_size=1, max_size=3, unique=True)) if mode == "updates" else []
    return ChangesRead(mode=mode, columns=chosen, where=where, keys=tuple(keys))


_DELETES: Mapping[str, Sequence[Sequence[str]]] = {
    "iceberg": (("delete-positions", "delete-by-vectors"), ("delete-equal",), ("upsert",)),
    "delta": (("delete-rows",), ("merge",)),
}
_REWRITES: Mapping[str, Sequence[str]] = {
    "iceberg": ("compact", "copy-on-write", "overwrite"),
    "delta": ("rewrite", "copy-on-write", "overwrite"),
}
_OTHERS: Mapping[str, Sequence[str]] = {
    "iceberg": (
        *("remove", "partition", "rename-column", "drop-column", "widen-column", "roll-back", "expire"),
        *("mark", "side-commit", "upgrade"),
    ),
    "delta": (
        *("remove", "move-column", "checkpoint", "map-columns", "compact-log", "expire-log", "vacuum"),
        "drop-column",
    ),
}
"""The other operations besides appends and new columns. A feed cannot be read across a renamed or widened column."""


@st.composite
def changing_histories(draw: Draw, kind: TableKind) -> DrawnHistory:
    """Draw histories for reads of changes: of a few kinds of operations, so that they meet often."""
    format_ = "delta" if kind == "delta" else "iceberg"
    deletes = draw(st.lists(st.sampled_from(_DELETES[format_]), min_size=1, unique=True))
    rewrites = draw(st.lists(st.sampled_from(_REWRITES[format_]), min_size=1, unique=True))
    others = draw(st.lists(st.sampled_from(_OTHERS[format_]), max_size=4, unique=True))
    only = [
        "append",
        "add-column",
        *itertools.chain(*deletes),
        *rewrites,
        *others,
        *(["upgrade"] if kind == "iceberg-1" else []),
    ]
    options: dict[str, Any] = {"min_size": 3, "max_size": 9, "only": only, "deleting": True}
    if kind == "delta":
        return draw(feeds(more=delta_maintenance.MAINTENANCE if draw(st.booleans()) else None, **options))
    names = draw(st.lists(st.sampled_from(list(MAINTENANCE)), max_size=3, unique=True))
    return draw(histories(kind, more={name: MAINTENANCE[name] for name in names}, **options))


@st.composite
def feeds(draw: Draw, **options: Any) -> DrawnHistory:
    """Draw histories of Delta tables with a change data feed, which some commits write as change files."""
    table = dict(draw(tables("delta")))
    table["configuration"] = {"delta.enableChangeDataFeed": "true"}
    drawn = draw(histories("delta", table=table, **options))
    model = model_of("delta", table)
    assert isinstance(model, DeltaModel)
    operations: list[Operation] = []
    labels: set[str] = set()
    for operation in drawn.operations:
        recorded, plain = _as_commit(model, operation), copy.copy(model)
        plain.versions = list(model.versions)
        plain.apply(operation)
        if recorded is not None and draw(st.booleans()):
            operation = _with_change_files(draw, plain, recorded, labels)
        model.apply(operation)
        operations.append(operation)
    return replace(drawn, operations=tuple(operations), model=model)


def _as_commit(model: DeltaModel, operation: Operation) -> dict[str, Any] | None:
    """Return an operation that changes rows in the form of a commit, or None if it does not change rows."""
    ((name, value),) = operation.items()
    match name:
        case "append":
            return {"add": value}
        case "overwrite":
            return {"add": value, "remove": list(model.current.files)}
        case "remove":
            return {"remove": value}
        case "delete-rows":
            return {"delete-rows": value}
        case "commit" if "data-change" not in value:
            return dict(value)
        case _:
            return None


def _with_change_files(draw: Draw, model: DeltaModel, value: dict[str, Any], labels: set[str]) -> Operation:
    """Return a commit with change files for its changes. `model` is the table after the commit."""
    commit = model.commits(Selector())[-1]
    pairs = draw(st.booleans())
    kinds = ("update_preimage", "update_postimage") if pairs else ("delete", "insert")
    groups: dict[str, tuple[list[Any], list[str]]] = {}
    for kind, held, places in (
        (kinds[0], commit.before, commit.before.places - commit.after.places),
        (kinds[1], commit.after, commit.after.places - commit.before.places),
    ):
        for place in sorted(places):
            row = held.row(place, model.columns)
            rows, changes = groups.setdefault(repr(model.partition_of(row)), ([], []))
            rows += scenario_rows(model.columns, [row])
            changes.append(kind)
    if not groups:
        return {"commit": value}
    files = [{"changes": fresh(labels, "c"), "rows": rows, "change-type": kinds_} for rows, kinds_ in groups.values()]
    return {"commit": {**value, "changes": files}}
