"""The condition that selects all versions of rows, also those that do not match the condition of a trace.

An update may change the values that the condition tests. The other versions of a row with a row id or keys are found by
a second read.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.metadata.filters.predicate import Filter
from harness.metadata.filters.sqltext import quoted
from harness.metadata.model.schema import (
    BooleanType,
    DateType,
    DecimalType,
    Field,
    IntegerType,
    StringType,
    TimestampType,
    UuidType,
)
from harness.metadata.planned_scan import PlannedScan
from harness.storage.records import dataclass
from harness.trace.model import ENDINGS, EventKind, FollowedBy, TracedCommit, TracedRow

MOST_FOLLOWED = 500
"""The most rows whose other versions are searched."""
_KEY_TYPES = (BooleanType, IntegerType, DecimalType, StringType, DateType, TimestampType, UuidType)
"""Types of keys whose literals can be compared in a condition."""


@dataclass(frozen=True, slots=True)
class OtherVersions:
    """The rows that may have versions that do not match the condition of a trace.

    Attributes:
        row_ids: Their row ids.
        keys: The keys of rows without row ids, as SQL literals.
    """

    row_ids: tuple[int, ...]
    keys: tuple[tuple[str, ...], ...]

    @property
    def are_too_many(self) -> bool:
        """True if there are more than `MOST_FOLLOWED` rows."""
        return len(self.row_ids) + len(self.keys) > MOST_FOLLOWED

    def condition(self, condition: Filter, columns: Sequence[Field]) -> str | None:
        """Return a condition that also selects all versions of these rows, or None if there are no such rows.

        Args:
            condition: The condition of the trace.
            columns: The key columns.
        """
        if self.are_too_many or not (self.row_ids or self.keys):
            return None
        parts = [f"({condition.sql})"]
        if self.row_ids:
            parts.append(f"_row_id IN ({', '.join(map(str, self.row_ids))})")
        return " OR ".join([*parts, *(_equality(columns, each) for each in self.keys)])


def other_versions(
    plan: PlannedScan, rows: Sequence[TracedRow], keys: Sequence[Field], commits: Sequence[TracedCommit]
) -> OtherVersions:
    """Return the rows that may have versions that do not match the condition of a plan.

    Args:
        plan: The plan with the condition of the trace.
        rows: The rows that match it.
        keys: The columns that identify a row without a row id.
        commits: The commits of the range.
    """
    condition = plan.filter
    assert condition is not None
    births = dict(zip(*(plan.files.column(name).to_pylist() for name in ("path", "first_row_id")), strict=True))
    ids = [row.row_id for row in rows if row.row_id is not None and _may_have_others(row, births, commits)]
    return OtherVersions(tuple(ids), tuple(_keys_to_search(condition, rows, keys)))


def _may_have_others(row: TracedRow, births: dict[str, int | None], commits: Sequence[TracedCommit]) -> bool:
    """Return whether a row with a row id may have other versions: before its first one, between two, or after its last.

    A row has its oldest version in the file that assigned its row id by its position. A commit that only deletes rows
    does not update them.
    """
    first, kinds = row.versions[0], [event.kind for event in row.events]
    birth = births.get(first.file)
    is_born_here = birth is not None and birth + first.position == row.row_id
    last = row.events[-1]
    was_visible = last.kind not in (EventKind.HIDDEN, EventKind.NEVER)
    is_ended = last.kind in ENDINGS and was_visible and not _only_deletes(commits[last.commit])
    return is_ended or EventKind.RESTORED in kinds or (kinds[0] is EventKind.ADDED and not is_born_here)


def _only_deletes(commit: TracedCommit) -> bool:
    return commit.operation is not None and commit.operation.lower() == "delete"


def _keys_to_search(condition: Filter, rows: Sequence[TracedRow], keys: Sequence[Field]) -> list[tuple[str, ...]]:
    is_whole = {each.id for each in condition.columns} <= {each.id for each in keys}  # all versions of a key match
    if is_whole or not all(isinstance(each.type, _KEY_TYPES) for each in keys):
        return []
    return list(dict.fromkeys(row.versions[0].key for row in rows if row.followed_by is FollowedBy.KEYS))


def _equality(keys: Sequence[Field], values: Sequence[str]) -> str:
    """Return the condition that the keys have these values, which are SQL literals."""
    parts = (
        f"{quoted(key.name)} {'IS' if value == 'NULL' else '='} {value}"
        for key, value in zip(keys, values, strict=True)
    )
    return f"({' AND '.join(parts)})"
