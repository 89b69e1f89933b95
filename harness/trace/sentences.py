"""The events of rows as phrases, and the state of each row as one plain sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from harness.metadata.plan.lifetimes import BEFORE
from harness.storage.records import dataclass
from harness.trace.model import (
    DeleteKind,
    EventKind,
    FollowedBy,
    RowDelete,
    RowEvent,
    RowVersion,
    TracedCommit,
    TracedRow,
)

_REWRITES = frozenset({"replace", "OPTIMIZE"})
"""Operations that must keep all rows."""


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """Return the shortest end of each path, from a slash on, that no other path has."""
    distinct = list(dict.fromkeys(paths))
    names, depth = dict[str, str](), 1
    rest = distinct
    while rest:
        ends = ["/".join(path.split("/")[-depth:]) for path in rest]
        counts: dict[str, int] = {}
        for end in ends:
            counts[end] = counts.get(end, 0) + 1
        names |= {path: end for path, end in zip(rest, ends, strict=True) if counts[end] == 1 or end == path}
        rest, depth = [path for path in rest if path not in names], depth + 1
    return names


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """The words for the commits and files of a trace.

    Attributes:
        point: The format's word for a commit.
        commits: The commits of the range.
        names: Short names of files by recorded path.
        unread: The commits that added data files that could not be read.
        unread_before: The commits that removed data files that could not be read.
    """

    point: str
    commits: Sequence[TracedCommit]
    names: Mapping[str, str]
    unread: frozenset[int] = frozenset()
    unread_before: frozenset[int] = frozenset()

    def commit(self, number: int) -> str:
        """Return the name of a commit, for example `snapshot 5`."""
        if number == BEFORE:
            return f"before {self.point} {self.commits[0].id}" if self.commits else "before the range"
        return f"{self.point} {self.commits[number].id}"

    def operation(self, number: int) -> str:
        """Return the operation of a commit, for example `overwrite`, or `a commit` if it is unknown."""
        return (None if number == BEFORE else self.commits[number].operation) or "a commit"

    def file(self, path: str) -> str:
        """Return the short name of a file."""
        return self.names.get(path, path)

    def place(self, version: RowVersion) -> str:
        """Return the file and position of a version."""
        return f"{self.file(version.file)} at position {version.position}"

    def worded(self, row: TracedRow) -> TracedRow:
        """Return a row with the texts of its events and its sentence."""
        events = tuple(replace(event, text=self._event(row, event)) for event in row.events)
        return replace(row, events=events, sentence=self._sentence(row))

    def delete(self, version: RowVersion, delete: RowDelete) -> str:
        """Return the delete of a version and why it applies, as a clause."""
        path = "in the log" if delete.path is None else self.file(delete.path)
        match delete.kind:
            case DeleteKind.EQUALITY:
                name = f"equality delete {path}"
                sequence = (
                    f" and its sequence number {delete.sequence_number} is greater than the file's "
                    f"{version.sequence_number}"
                    if delete.sequence_number is not None and version.sequence_number is not None
                    else ""
                )
                return f"{name} matches {_key_text(delete.keys)}{sequence}"
            case DeleteKind.POSITIONS:
                return f"position delete file {path} lists position {version.position} of {self.file(version.file)}"
            case DeleteKind.VECTOR:
                at = "" if delete.offset is None else f" at offset {delete.offset}"
                return f"the deletion vector {path}{at} marks position {version.position} of {self.file(version.file)}"

    def _event(self, row: TracedRow, event: RowEvent) -> str:
        version = row.versions[event.version]
        match event.kind:
            case EventKind.PRESENT | EventKind.RESTORED:
                return f"in {self.place(version)}"
            case EventKind.ADDED:
                return f"to {self.place(version)}"
            case EventKind.CARRIED | EventKind.UPDATED:
                text = f"to {self.place(version)}"
                if event.kind is EventKind.UPDATED and not event.candidates:
                    text += _changed(row.versions[event.version - 1], version)
                return f"{text}{_candidates(row, event, 'ended')}"
            case EventKind.DELETED | EventKind.HIDDEN | EventKind.NEVER:
                return f"{self._reason(version)}{_candidates(row, event, 'was added')}"
            case EventKind.REMOVED:
                return f"{self.file(version.file)} was removed{_candidates(row, event, 'was added')}"
            case EventKind.REPLACED:
                return (
                    f"all files of partition {version.partition} were removed, including {self.file(version.file)}"
                    f"{_candidates(row, event, 'was added')}"
                )

    def _reason(self, version: RowVersion) -> str:
        if version.delete is not None and version.ended_by_delete:
            return self.delete(version, version.delete)
        return f"{self.file(version.file)} was removed"

    def _sentence(self, row: TracedRow) -> str:
        event = row.events[-1]
        version = row.versions[event.version]
        commit, operation = self.commit(event.commit), self.operation(event.commit)
        match event.kind:
            case EventKind.HIDDEN:
                return f"Hidden since {commit}: {self._reason(version)}."
            case EventKind.NEVER:
                return f"Never visible: {commit} added {self.place(version)}, and {self._reason(version)}."
            case EventKind.DELETED:
                return f"Hidden since {commit}: {self._reason(version)}{_candidates(row, event, 'was added')}."
            case EventKind.REMOVED if self._lost_by_rewrite(event):
                return (
                    f"Removed in {commit}: {operation} removed {self.file(version.file)}, and no file that it added "
                    "has an equal row, although this operation must keep all rows."
                )
            case EventKind.REMOVED:
                return (
                    f"Removed in {commit}: {operation} removed {self.file(version.file)}"
                    f"{_candidates(row, event, 'was added')}."
                )
            case EventKind.REPLACED:
                return (
                    f"Removed in {commit}: {operation} removed all files of partition {version.partition}, including "
                    f"{self.file(version.file)}{_candidates(row, event, 'was added')}."
                )
            case _:
                return self._visible(row)

    def _lost_by_rewrite(self, event: RowEvent) -> bool:
        is_readable = event.commit not in self.unread
        return self.operation(event.commit) in _REWRITES and is_readable and not event.candidates

    def _visible(self, row: TracedRow) -> str:
        """Return the sentence for a visible row: since when, and the steps to its current place."""
        firsts = (EventKind.ADDED, EventKind.PRESENT, EventKind.RESTORED)
        begins = [n for n, each in enumerate(row.events) if each.kind in firsts or each.candidates]
        events = row.events[begins[-1] :]
        first = events[0]
        clauses = [self._beginning(row, first)]
        for event in events[1:]:
            verb = "carried it" if event.kind is EventKind.CARRIED else "updated it"
            clauses.append(f"{self.commit(event.commit)} {verb} to {self.place(row.versions[event.version])}")
        text = clauses[0] if len(clauses) == 1 else f"{', '.join(clauses[:-1])}, and {clauses[-1]}"
        if first.kind is EventKind.ADDED and first.commit in self.unread_before:
            text += ", and files that it removed no longer exist"
            return f"Visible since {self.commit(first.commit)} or earlier: {text}."
        return f"Visible since {self.commit(first.commit)}: {text}."

    def _beginning(self, row: TracedRow, event: RowEvent) -> str:
        place, operation = self.place(row.versions[event.version]), self.operation(event.commit)
        match event.kind:
            case EventKind.PRESENT:
                return f"in {place}"
            case EventKind.RESTORED:
                return f"{operation} brought it back in {place}"
            case EventKind.ADDED if operation == "append":
                return f"appended in {place}"
            case _:
                return f"{operation} added {place}{_candidates(row, event, 'ended')}"


def _key_text(keys: Sequence[tuple[str, str | None]]) -> str:
    """Return the keys of an equality delete with the values of the row, as a condition."""
    parts = [
        f"{name}, which the table no longer has"
        if value is None
        else f"{name} IS NULL"
        if value == "NULL"
        else f"{name} = {value}"
        for name, value in keys
    ]
    return " and ".join(parts)


def _changed(old: RowVersion, new: RowVersion) -> str:
    names = [name for name, text in new.texts.items() if old.texts.get(name) != text]
    changes = [f"{name} {_text(old.texts.get(name))} → {_text(new.texts[name])}" for name in names]
    return f", {', '.join(changes)}" if changes else ""


def _text(text: str | None) -> str:
    return "NULL" if text is None else text


def _candidates(row: TracedRow, event: RowEvent, verb: str) -> str:
    """Return the remark on an uncertain connection, or an empty text."""
    if not event.candidates:
        return ""
    trait = "the same keys" if row.followed_by is FollowedBy.KEYS else "equal values"
    if event.candidates == 1:
        return f"; 1 row with {trait} {verb} in the same commit, but several rows correspond to it"
    plural = {"ended": "ended", "was added": "were added"}[verb]
    rows = f"{event.candidates:,} rows with {trait} {plural} in the same commit"
    return f"; {rows}, and the table does not record which of them is this row"
