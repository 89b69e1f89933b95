"""The lifetimes of files, deletes, and rows over a range of commits, for reads of changes and for `harness trace`.

The commits of a range are numbered from 0, oldest first. `BEFORE` stands for the state before the range. A plan with
lifetimes lists each data file that the range touched, with all deletes that applied to it at any time in the range. So
an engine reads each file once and finds for each row:

- `_added_commit`: the number of the commit that added the row's file, or `BEFORE`.
- `_removed_commit`: the number of the commit that removed the row's file; null if no commit of the range did.
- `_deleted_by`: the first delete of the row, see `delete_number`; null if no delete of the range applies to it.

A row is visible from `_added_commit` up to, but not including, the first commit that removed its file or deleted it. It
is never visible if that commit is not later than `_added_commit`: then the deletes were there before the file, or came
with it.

Deletes only end lifetimes. If a commit makes deleted rows visible again, the format's planner ends the file's span at
this commit and begins a new span, so that the plan lists the file twice.
"""

from __future__ import annotations

import enum
from dataclasses import replace
from typing import Final

from harness.errors import InvalidTableError, counted
from harness.metadata.model.schema import LIFETIMES, SNAPSHOT_CHANGES, Field, Schema
from harness.metadata.model.times import When
from harness.storage.records import dataclass

BEFORE: Final = -1
"""The number that stands for the state before the range."""

_NUMBER_BITS: Final = 32
EQUALITY: Final = 1 << 31
"""The least place of an equality delete in a delete number."""


class ChangeMode(enum.Enum):
    """The rows that a read of changes returns."""

    APPENDS = "appends"
    CHANGELOG = "changelog"
    NET = "net"
    UPDATES = "updates"


@dataclass(frozen=True, slots=True)
class Span:
    """The part of the range in which a file or delete was live.

    Attributes:
        added: The number of the commit that added it, or `BEFORE`.
        removed: The number of the commit that removed it. None if it is live at the end of the range.
    """

    added: int
    removed: int | None = None


def overlap(first: Span, second: Span) -> bool:
    """Return whether two spans share a state."""
    return (second.removed is None or first.added < second.removed) and (
        first.removed is None or second.added < first.removed
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeCommit:
    """A commit of the range.

    Attributes:
        id: The snapshot id, or the version of a Delta table.
        ordinal: The value of `_change_ordinal`: the number of the commit among those that show changes. None if the
            commit shows no changes, because it only rewrote files.
        rewrites: True if the commit removed and added data files, so that its removed and added rows may be the same.
    """

    id: int
    ordinal: int | None
    rewrites: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """The lifetimes of everything in a `ScanPlan`.

    Attributes:
        commits: The commits of the range, oldest first. The index of a commit is its number.
        files: The span of each data file, in the order of `ScanPlan.files`.
        equality_deletes: The span of each equality delete, in the order of `ScanPlan.equality_deletes`. A delete
            applies to a file only if their spans overlap. The spans of position deletes are in `DatedPositions`.
        mode: The changes to return. None to return each row of each file once, with its lifetime.
        keys: The columns that identify a row when updates are paired; empty if only row ids do.
        row_ids: Whether rows have row ids. If so, they identify rows before `keys` do.
    """

    commits: tuple[RangeCommit, ...]
    files: tuple[Span, ...]
    equality_deletes: tuple[Span, ...] = ()
    mode: ChangeMode | None = None
    keys: tuple[Field, ...] = ()
    row_ids: bool = False

    def __str__(self) -> str:
        rows = "lifetimes of rows" if self.mode is None else f"changes ({self.mode.value})"
        ids = f", {self.commits[0].id} to {self.commits[-1].id}" if self.commits else ""
        return f"{rows} in {counted(len(self.commits), 'commit')}{ids}"


@dataclass(frozen=True, slots=True)
class ChangeRange:
    """A request for the changes, or the lifetimes, between two moments of a table.

    Attributes:
        from_: The moment at which the range begins. None for the oldest commit that the metadata still has, inclusive.
        to: The moment at which the range ends, inclusive. None for the current state.
        from_inclusive: Whether the changes of the commit `from_` are in the range.
        mode: The changes to return. None to return each row once, with its lifetime.
        keys: The names of the columns that identify a row when updates are paired. None for the table's own.
    """

    from_: When
    to: When
    from_inclusive: bool
    mode: ChangeMode | None
    keys: tuple[str, ...] | None = None


def result_schema(schema: Schema, mode: ChangeMode | None, *, rule: str | None) -> Schema:
    """Return a table's schema with the columns that a plan with lifetimes adds to it.

    These are the columns of `SNAPSHOT_CHANGES`, or the columns of `LIFETIMES` if `mode` is None.

    Raises:
        InvalidTableError: The table has a column with the name of one of these, which violates `rule`.
    """
    fields = LIFETIMES if mode is None else SNAPSHOT_CHANGES
    taken = next((f for f in schema.fields if f.name.lower() in fields), None)
    if taken is not None:
        raise InvalidTableError(
            f"Cannot read changes: the table has a column {taken.name!r}, which is the name of a column of changes",
            cause="ReservedColumn",
            field=taken.name,
            rule=rule,
        )
    return replace(schema, fields=(*schema.fields, *fields.values()))


def delete_number(added: int, place: int) -> int:
    """Return a number that identifies a delete of a row and orders deletes by the commits that added them.

    Args:
        added: The number of the commit that added the delete, or `BEFORE`.
        place: For a position delete, its index in the `DatedPositions` of the data file. For an equality delete,
            `EQUALITY` plus its index in `ScanPlan.equality_deletes`.
    """
    return (added + 1) << _NUMBER_BITS | place


def deleting_commit(number: int) -> int:
    """Return the number of the commit that added the delete with a number from `delete_number`."""
    return (number >> _NUMBER_BITS) - 1


def delete_place(number: int) -> int:
    """Return the place of the delete with a number from `delete_number`."""
    return number & ((1 << _NUMBER_BITS) - 1)
