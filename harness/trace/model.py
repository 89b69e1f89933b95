"""The values of a trace: commits, versions of rows in files, events of rows, and files without a matching row."""

from __future__ import annotations

import enum
import shutil
from collections.abc import Hashable, Mapping
from dataclasses import field
from typing import Any

from harness.metadata.plan.lifetimes import BEFORE
from harness.storage.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedCommit:
    """A commit of the range.

    Attributes:
        number: The number of the commit in the range, from 0, oldest first.
        id: The snapshot id, or the version of a Delta table.
        timestamp_ms: The time of the commit in milliseconds since 1970-01-01 UTC. None if unknown.
        operation: The operation as recorded. None if unknown.
        writer: The engine or library that wrote the commit, as recorded. None if unknown.
    """

    number: int
    id: int
    timestamp_ms: int | None = None
    operation: str | None = None
    writer: str | None = None


class DeleteKind(enum.Enum):
    """The kinds of deletes that hide rows of a live file."""

    EQUALITY = "equality delete"
    POSITIONS = "position delete file"
    VECTOR = "deletion vector"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDelete:
    """A delete that hides a version of a row.

    Attributes:
        kind: The kind of delete.
        path: The recorded path of the delete file. None for a vector in the log of a Delta table.
        commit: The number of the commit that added the delete, or `BEFORE`.
        offset: The offset of a vector in its file, in bytes.
        sequence_number: The data sequence number of an equality delete or position delete file.
        keys: For an equality delete, each key column with the row's value as an SQL literal. The value is None if it
            was not read, because the table no longer has the column.
    """

    kind: DeleteKind
    path: str | None
    commit: int
    offset: int | None = None
    sequence_number: int | None = None
    keys: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowVersion:
    """A row in a data file, for as long as the file was live.

    Attributes:
        file: The recorded path of the data file.
        position: The position of the row in the file, from 0.
        texts: The values of the shown columns as text. None is a null.
        match: The values of all columns in a form in which equal values compare equal.
        key: The values of the columns that identify a row without a row id, as SQL literals. Empty if there are none.
        added: The number of the commit that added the file, or `BEFORE`.
        removed: The number of the commit that removed the file. None if no commit of the range did.
        delete: The first delete that hides the row, or None.
        row_id: The row id, or None.
        sequence_number: The data sequence number of the file. None for Delta.
        partition: The partition of the file as text, or None if the table is not partitioned.
    """

    file: str
    position: int
    texts: Mapping[str, str | None] = field(hash=False)
    match: tuple[Hashable, ...]
    added: int
    key: tuple[str, ...] = ()
    removed: int | None = None
    delete: RowDelete | None = None
    row_id: int | None = None
    sequence_number: int | None = None
    partition: str | None = None

    @property
    def place(self) -> tuple[str, int]:
        """The file and the position."""
        return self.file, self.position

    @property
    def ended(self) -> int | None:
        """The number of the first commit that removed the file or deleted the row. None if no commit did."""
        deleted = None if self.delete is None else self.delete.commit
        return min((end for end in (self.removed, deleted) if end is not None), default=None)

    @property
    def ended_by_delete(self) -> bool:
        """True if a delete ended the version, and not the removal of its file."""
        return self.delete is not None and self.ended == self.delete.commit

    @property
    def was_visible(self) -> bool:
        """True if a read of some commit in the range returns the version."""
        return self.ended is None or self.ended > self.added


class EventKind(enum.Enum):
    """The kinds of events in the life of a row."""

    PRESENT = "present before the range"
    ADDED = "added"
    CARRIED = "carried"
    UPDATED = "updated"
    RESTORED = "visible again"
    DELETED = "deleted"
    REMOVED = "removed with its file"
    REPLACED = "removed with its partition"
    HIDDEN = "hidden before the range"
    NEVER = "never visible"


ENDINGS = frozenset({EventKind.DELETED, EventKind.REMOVED, EventKind.REPLACED, EventKind.HIDDEN, EventKind.NEVER})
"""The kinds of events after which a row is not visible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowEvent:
    """An event in the life of a row.

    Attributes:
        kind: The kind of event.
        commit: The number of the commit, or `BEFORE`.
        version: The index in `TracedRow.versions` of the version that began or ended.
        candidates: For an event that connects to one of several equal rows, but it is not recorded to which: the number
            of these rows. Otherwise 0.
        text: The event as a phrase.
    """

    kind: EventKind
    commit: int
    version: int
    candidates: int = 0
    text: str = ""


class FollowedBy(enum.Enum):
    """The ways in which versions of a row are recognized as the same row."""

    ROW_ID = "row id"
    KEYS = "keys"
    VALUES = "values"


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRow:
    """The life of a row.

    Attributes:
        followed_by: How the versions were recognized as one row.
        versions: The versions of the row, oldest first.
        events: The events of the row, oldest first.
        sentence: The state of the row at the end of the range and its reason, as a sentence.
    """

    followed_by: FollowedBy
    versions: tuple[RowVersion, ...]
    events: tuple[RowEvent, ...]
    sentence: str = ""

    @property
    def is_visible(self) -> bool:
        """True if a read at the end of the range returns the row."""
        return self.events[-1].kind not in ENDINGS

    @property
    def row_id(self) -> int | None:
        """The row id, or None."""
        return self.versions[-1].row_id

    @property
    def texts(self) -> Mapping[str, str | None]:
        """The values of the newest version as text."""
        return self.versions[-1].texts


class FileDecision(enum.Enum):
    """The ways in which a read of the table treats a live file."""

    BY_PARTITION = "skipped by its partition"
    BY_STATISTICS = "skipped by its column statistics"
    BY_MANIFEST = "skipped with its manifest"
    READ = "read"
    LOST = "not readable"


SKIPPED = frozenset({FileDecision.BY_PARTITION, FileDecision.BY_STATISTICS, FileDecision.BY_MANIFEST})
"""The decisions on files that a read does not open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FalseStatistic:
    """A recorded fact about a file that a row of the file contradicts.

    Attributes:
        column: The column or partition field.
        recorded: The recorded fact.
        value: The value of the row.
        position: The position of the row in the file.
    """

    column: str
    recorded: str
    value: str
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateFile:
    """A live file that could hold a matching row, and why a read of the table finds none in it.

    Attributes:
        path: The recorded path.
        decision: How a read of the table treats the file.
        partition: The partition as text, or None if the table is not partitioned.
        bounds: The recorded bounds of the columns in the condition, as text, by column.
        visible: The number of visible rows in the file that match. A read of the table misses them if the file is
            skipped.
        deleted: The number of rows in the file that match, but are deleted.
        false: The recorded facts that are wrong, if the file is skipped although it has matching rows.
        sentence: The reason as a sentence.
    """

    path: str
    decision: FileDecision
    partition: str | None = None
    bounds: Mapping[str, str] = field(default_factory=dict, hash=False)
    visible: int = 0
    deleted: int = 0
    false: tuple[FalseStatistic, ...] = ()
    sentence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingReport:
    """Why a read at the end of the range finds no matching row.

    Attributes:
        files: The live files.
        sentence: The result as a sentence.
    """

    files: tuple[CandidateFile, ...]
    sentence: str

    @property
    def hides_rows(self) -> bool:
        """True if wrong metadata makes reads skip a file with visible matching rows."""
        return any(file.visible and file.decision in SKIPPED for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The lives of all rows that match a condition.

    It prints as text. Notebooks show it as a time line.

    Attributes:
        table: The location of the table.
        format: `iceberg` or `delta`.
        condition: The condition as SQL.
        commits: The commits of the range, oldest first.
        rows: The rows that matched at some time in the range.
        gaps: A sentence for each part of the history that could not be read.
        missing: Why no live row matches. None if the trace was made without this report.
    """

    table: str
    format: str
    condition: str
    commits: tuple[TracedCommit, ...]
    rows: tuple[TracedRow, ...]
    gaps: tuple[str, ...] = ()
    missing: MissingReport | None = None

    @property
    def point(self) -> str:
        """The format's word for a commit: `snapshot` or `version`."""
        return "version" if self.format == "delta" else "snapshot"

    def commit(self, number: int) -> TracedCommit | None:
        """Return the commit with a number, or None for the state before the range."""
        return None if number == BEFORE else self.commits[number]

    def __str__(self) -> str:
        return self.to_text(width=shutil.get_terminal_size().columns)

    def to_text(self, *, width: int | None = None) -> str:
        """Return the trace as text for a terminal.

        Args:
            width: The maximum width of a line in cells. None: unlimited.
        """
        from harness.trace.text import to_text

        return to_text(self, width)

    def to_dict(self) -> dict[str, Any]:
        """Return the trace as plain values, in the form that `docs/reference/json.md` describes."""
        from harness.trace.documents import to_dict

        return to_dict(self)

    def to_html(self) -> str:
        """Return the trace as one HTML page that needs no network: a time line for each row."""
        from harness.trace.html import to_html

        return to_html(self)

    def _repr_html_(self) -> str:
        from harness.diff.reports.html import MOST_FRAMED_ROWS, notebook_frame
        from harness.trace.html import to_html

        return notebook_frame(to_html(self, MOST_FRAMED_ROWS), self.to_text())
