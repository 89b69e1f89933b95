"""Reading a trace: every version of the matching rows in a range, followed across files, and described.

One plan with lifetimes lists each data file of the range once, so that each file is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from harness.engines.registry import find_engine
from harness.errors import MissingFileError, RequestError
from harness.metadata.filters.predicate import Filter, filter_for
from harness.metadata.filters.sqltext import bind_columns
from harness.metadata.model.schema import Field, Schema
from harness.metadata.model.times import When
from harness.metadata.plan.lifetimes import BEFORE, ChangeRange
from harness.metadata.plan.read_options import Prune
from harness.metadata.planned_scan import PlannedScan, Planner
from harness.metadata.tables.history import commit_facts
from harness.storage.paths import redact
from harness.storage.records import dataclass
from harness.trace.decisions import candidate_files
from harness.trace.identity import MOST_FOLLOWED, other_versions
from harness.trace.linking import follow, with_replaced_partitions
from harness.trace.lost import LostFile, lost_sentences, without_lost_files
from harness.trace.missing import missing_report
from harness.trace.model import EventKind, RowVersion, Trace, TracedCommit, TracedRow
from harness.trace.sentences import Wording, short_names
from harness.trace.versions import columns_to_read, versions_of

if TYPE_CHECKING:
    from harness.snapshot import FormatTable

MOST_VERSIONS = 10_000
"""The most versions of rows that a trace reads. A trace is for a few rows."""
_TOO_MANY = (
    f"More than {MOST_FOLLOWED:,} rows match, so their versions that do not match are not shown. Use a condition that "
    "fewer rows match."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest:
    """The rows to trace, and the range.

    Attributes:
        where: A boolean SQL expression.
        from_: The first commit of the range, inclusive. None for the oldest one that the metadata has.
        to: The last commit of the range. None for the current state.
        columns: The columns to read and compare. None for all columns.
        keys: The columns that identify a row without a row id. None for the identifier fields of the table, if any.
        missing: True to explain why no live row matches. Then no file is skipped.
    """

    where: str | Filter
    from_: When = None
    to: When = None
    columns: tuple[str, ...] | None = None
    keys: tuple[str, ...] | None = None
    missing: bool = False


def trace(source: FormatTable, request: TraceRequest) -> Trace:
    """Return the lives of all rows that match the condition of a request.

    Args:
        source: The table.
        request: The rows and the range.

    Raises:
        RequestError: A column is unknown, the condition cannot be parsed, `from_` is not an ancestor of `to`, or too
            many rows match.
        HarnessError: The table cannot be read.
    """
    selection = source.select(request.to)
    condition = filter_for(request.where, selection.schema)
    shown = selection.schema.fields if request.columns is None else bind_columns(request.columns, selection.schema)
    if request.columns is not None and not any(each in selection.schema.fields for each in shown):
        raise RequestError("Cannot compare rows without a column of the table: name at least one", options=("columns",))
    keys = _keys(request, selection.schema)
    text = request.where if isinstance(request.where, str) else condition.sql
    empty = Trace(table=redact(source.location), format=source.format, condition=text, commits=(), rows=())
    if selection.snapshot is None:
        return empty
    source_to_read = replace(source, options=replace(source.options, prune=Prune.OFF)) if request.missing else source
    span = ChangeRange(request.from_, request.to, from_inclusive=True, mode=None)
    reader = _Reader(source_to_read.lifetimes_planner(span), shown, keys)
    matching = reader.read(condition)
    others = other_versions(matching.plan, matching.rows, keys, _commits(source, matching.plan, matching.rows))
    wider = others.condition(condition, keys)
    whole = matching if wider is None else reader.read(filter_for(wider, selection.schema))
    rows = with_replaced_partitions(whole.rows, _replaced_partitions(reader.plan, whole.rows))
    commits = _commits(source, whole.plan, rows)
    wording = Wording(
        point="version" if source.format == "delta" else "snapshot",
        commits=commits,
        names=short_names([*matching.paths(), *whole.paths()]),
        unread=frozenset(each.span.added for each in whole.lost),
        unread_before=frozenset(
            each.span.removed
            for each in whole.lost
            if each.span.removed is not None and (each.data_file is None or each.hides_all)
        ),
    )
    missing = None
    if request.missing:
        files = candidate_files(source, selection, condition, matching.table, matching.lost_data_files())
        missing = missing_report(files, matching.versions, wording, text)
    return replace(
        empty,
        missing=missing,
        commits=commits,
        rows=tuple(wording.worded(row) for row in rows),
        gaps=(
            *_expired(source, request, commits),
            *lost_sentences(whole.lost, wording),
            *([_TOO_MANY] if others.are_too_many else []),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Matches:
    """The versions of rows that match a condition.

    Attributes:
        plan: The plan that was read.
        table: Its rows.
        versions: The version that each row describes.
        rows: The rows to which the versions belong.
        lost: Files of the plan that do not exist.
    """

    plan: PlannedScan
    table: pa.Table
    versions: list[RowVersion]
    rows: tuple[TracedRow, ...]
    lost: tuple[LostFile, ...]

    def paths(self) -> list[str]:
        deletes = (version.delete for version in self.versions)
        return [
            *self.plan.files.column("path").to_pylist(),
            *(delete.path for delete in deletes if delete is not None and delete.path is not None),
            *(each.path for each in self.lost),
        ]

    def lost_data_files(self) -> frozenset[str]:
        """Return the data files whose rows are not in the result, because they or their deletes do not exist."""
        missing = {each.path for each in self.lost if each.data_file is None}
        return frozenset(missing | {each.data_file for each in self.lost if each.hides_all and each.data_file})


@dataclass(frozen=True, slots=True)
class _Reader:
    """The reads of a trace: the function that plans them, the columns to show, and the columns that identify rows."""

    plan: Planner
    shown: tuple[Field, ...]
    keys: tuple[Field, ...]

    def read(self, condition: Filter) -> _Matches:
        plan = self.plan(None, condition)
        columns = columns_to_read(plan, (*self.shown, *self.keys, *condition.columns))
        table, plan, lost = _read(replace(plan, columns=columns))
        versions = versions_of(plan, table, self.shown, self.keys)
        return _Matches(plan=plan, table=table, versions=versions, rows=follow(versions), lost=lost)


def _keys(request: TraceRequest, schema: Schema) -> tuple[Field, ...]:
    if request.keys is not None:
        return bind_columns(request.keys, schema)
    columns = {field.id: field for field in schema.fields}
    ids = schema.identifier_field_ids
    return tuple(columns[id_] for id_ in ids) if all(id_ in columns for id_ in ids) else ()


def _read(plan: PlannedScan) -> tuple[pa.Table, PlannedScan, tuple[LostFile, ...]]:
    """Read the rows of a plan. Files that do not exist are left out.

    Returns:
        The rows, the plan that was read, and the files that do not exist.
    """
    lost: tuple[LostFile, ...] = ()
    try:
        rows = _rows(plan)
    except MissingFileError:
        plan, lost = without_lost_files(plan)
        if not lost:
            raise
        rows = _rows(plan)
    if rows.num_rows > MOST_VERSIONS:
        raise RequestError(
            f"Cannot trace more than {MOST_VERSIONS:,} versions of rows: use a condition that fewer rows match",
            table=plan.table,
            options=("where",),
        )
    return rows, plan, lost


def _rows(plan: PlannedScan) -> pa.Table:
    return find_engine("duckdb").to_arrow(replace(plan, enough=MOST_VERSIONS + 1))


def _replaced_partitions(planned: Planner, rows: Iterable[TracedRow]) -> Callable[[int, str], bool]:
    """Return a function that returns whether a commit removed all files of a partition.

    The files are planned once more without the condition, because a condition hides files of a partition. That is only
    necessary if a row was removed with its file.
    """
    is_needed = any(
        event.kind is EventKind.REMOVED and row.versions[event.version].partition is not None
        for row in rows
        for event in row.events
    )
    ends: dict[str, list[tuple[int, int | None]]] = {}
    if is_needed:
        plan = planned((), None)
        assert plan.lifetimes is not None
        names = [str(partition) for partition in plan.partitions]
        for place, file in zip(plan.files.column("partition").to_pylist(), plan.lifetimes.files, strict=True):
            ends.setdefault(names[place], []).append((file.added, file.removed))

    def is_replaced(commit: int, partition: str) -> bool:
        live = [(a, r) for a, r in ends.get(partition, ()) if a < commit and (r is None or r >= commit)]
        return bool(live) and all(removed == commit for _, removed in live)

    return is_replaced


def _commits(source: FormatTable, plan: PlannedScan, rows: Iterable[TracedRow]) -> tuple[TracedCommit, ...]:
    """Return the commits of the range. Only the commits of events have facts, because reading facts takes time."""
    assert plan.lifetimes is not None
    ids = [commit.id for commit in plan.lifetimes.commits]
    used = {event.commit for row in rows for event in row.events if event.commit != BEFORE}
    facts = commit_facts(source, [ids[number] for number in sorted(used)])
    return tuple(TracedCommit(number=number, id=id_, **facts.get(id_, {})) for number, id_ in enumerate(ids))


def _expired(source: FormatTable, request: TraceRequest, commits: tuple[TracedCommit, ...]) -> tuple[str, ...]:
    """Return a sentence if the metadata no longer has the beginning of the history."""
    if request.from_ is not None or not commits:
        return ()
    first = commits[0].id
    if source.format == "delta":
        is_first, point = first == 0, "version"
    else:
        is_first, point = source.metadata.snapshots[first].parent_id is None, "snapshot"
    if is_first:
        return ()
    return (
        f"The metadata begins with {point} {first}. Earlier commits are no longer recorded, so rows that were removed "
        "before are not shown, nor which commits brought older rows.",
    )
