"""The rules of `harness check`: id, severity, subject, and function of each rule."""

from __future__ import annotations

import difflib
import enum
import fnmatch
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

from harness.errors import HarnessError, LimitError, OutsideTableError, RequestError, StorageError
from harness.storage.records import dataclass


class Severity(enum.Enum):
    """The severity of a finding, most severe first."""

    ERROR = "error"
    """Readers may return wrong rows or fail."""
    WARNING = "warning"
    """The specification is violated, but rows are still right."""
    NOTE = "note"
    """Unusual, and worth knowing."""

    @property
    def rank(self) -> int:
        """Position in the order, 0 for the most severe."""
        return list(Severity).index(self)


class Level(enum.Enum):
    """The depth of a check. Each level includes the levels before it."""

    METADATA = "metadata"
    FILES = "files"
    DATA = "data"

    def includes(self, other: Level) -> bool:
        """Return whether a check of this level applies the rules of another level."""
        return list(Level).index(other) <= list(Level).index(self)


class Reads(enum.Enum):
    """The kinds of subjects that rules examine. The value describes the kind for people.

    A rule's function takes a subject from `harness.check.running` and yields a `Breach` for each violation.
    """

    ERROR = "a file that cannot be decoded"
    TABLE = "the metadata file, or the log"
    CHECKPOINT = "a checkpoint, and the commits up to it"
    SNAPSHOT = "the files of a snapshot or version"
    MANIFEST = "a manifest and its line in the manifest list"
    FILE = "a data or delete file: existence, size, footer"
    DELETES = "the deletes of a snapshot, and the positions that they name"
    CHANGES = "a change data file"
    COLUMN = "the values of a column in a data file"
    ROWS = "the rows of data files"
    ORPHAN = "a file that nothing references"

    @property
    def level(self) -> Level:
        """The lowest level at which rules for this kind of subject apply."""
        if self in (Reads.COLUMN, Reads.ROWS):
            return Level.DATA
        return Level.FILES if self in (Reads.FILE, Reads.DELETES, Reads.CHANGES) else Level.METADATA


Subject: TypeAlias = tuple[Reads, Any, int | None]
"""A subject of rules, and the id of the snapshot or version that names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of a statement in a table's files.

    Attributes:
        file: The recorded path of the metadata file, manifest, commit, or data file that contains the statement.
        field: A JSON pointer, or the name of an Avro field.
        entry: The data or delete file that the statement is about.
        column: The name of the column.
        line: The line in a commit, from 1.
    """

    file: str
    field: str | None = None
    entry: str | None = None
    column: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        parts = [self.file if self.line is None else f"{self.file}:{self.line}"]
        for name, value in (("field", self.field), ("entry", self.entry), ("column", self.column)):
            parts += [] if value is None else [f"{name} {value}"]
        return ", ".join(parts)


Spans: TypeAlias = tuple[tuple[float, float], tuple[float, float]]
"""The recorded range and the actual range of a numeric, date, or timestamp column, for drawing."""


@dataclass(frozen=True, slots=True)
class Breach:
    """A violation of a rule, as yielded by the rule's function.

    Attributes:
        place: The place of the wrong statement.
        recorded: The recorded value as text, or None.
        actual: The actual value as text, or None.
        writer: The program that wrote the statement, according to its metadata, or None.
        detail: A sentence that explains the violation, if the title of the rule is not enough.
        spans: Ranges to draw, or None.
    """

    place: Place
    recorded: str | None = None
    actual: str | None = None
    writer: str | None = None
    detail: str | None = None
    spans: Spans | None = None


UNREAD = (OutsideTableError, StorageError, LimitError)
"""Errors that mean that a file was not read. They are no evidence about the table."""


def decoding_breach(place: Place, error: HarnessError, writer: str | None = None) -> Breach:
    """Return the breach for a statement that cannot be decoded, with the error's message and its rule or cause.

    Args:
        place: The place of the statement.
        error: The error of the decoder.
        writer: The program that wrote the statement, or None.

    Raises:
        HarnessError: `error` itself if it is one of `UNREAD`. The statement was then not read.
    """
    if isinstance(error, UNREAD):
        raise error
    return Breach(place=place, detail=f"{error.message} [{error.rule or error.cause}]", writer=writer)


@dataclass(frozen=True, slots=True)
class CheckRule:
    """A rule of `harness check`.

    Attributes:
        id: A permanent id, `ICE-…` or `DEL-…`.
        severity: The severity of a finding.
        reads: The kind of subject.
        title: The rule in a sentence.
        breaks: The rules in docs/rules that a breach violates.
        hurts: The readers that a breach affects, and how.
        mends: The repair, with the files and fields to rewrite.
    """

    id: str
    severity: Severity
    reads: Reads
    title: str
    breaks: tuple[str, ...]
    hurts: str
    mends: str
    _find: Callable[..., Iterable[Breach]]

    @property
    def format(self) -> str:
        """The table format that the rule is about."""
        return "iceberg" if self.id.startswith("ICE-") else "delta"

    @property
    def level(self) -> Level:
        """The lowest level at which the rule applies."""
        return self.reads.level


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A breach of a rule in a table.

    Attributes:
        rule: The rule.
        breach: The breach.
        snapshot: The first snapshot or version with the breach.
    """

    rule: CheckRule
    breach: Breach
    snapshot: int | None = None


RULES: dict[str, CheckRule] = {}
"""All rules by id. Importing a topic's module registers its rules."""

_F = TypeVar("_F", bound=Callable[..., Iterable[Breach]])


def rule(id_: str, severity: Severity, reads: Reads, *breaks: str) -> Callable[[_F], _F]:
    """Register a function as a rule. Its docstring contains the title, "Hurts: …", and "Mends: …".

    The arguments are the attributes of `CheckRule` with the same names.
    """

    def register(find: _F) -> _F:
        assert id_ not in RULES, id_
        title, _, rest = (find.__doc__ or "").partition(".\n")
        hurts, _, mends = " ".join(rest.split()).removeprefix("Hurts: ").partition(" Mends: ")
        RULES[id_] = CheckRule(id_, severity, reads, title, breaks, hurts, mends, find)
        return find

    return register


def unknown_rule(id_: str) -> RequestError:
    """Return the error for an id or pattern that matches no rule. The message names the nearest rules."""
    near = difflib.get_close_matches(id_.upper(), RULES, 3, 0)
    return RequestError(f"Unknown rule {id_!r}: the nearest are {', '.join(near)}")


def select_rules(format: str, level: Level, select: Sequence[str], ignore: Sequence[str]) -> list[CheckRule]:
    """Return the rules for a format and level, ordered by id.

    Args:
        format: The table's format.
        level: The level of the check.
        select: Ids, prefixes of ids like `ICE-2`, or patterns like `*-5*`. If empty, all rules.
        ignore: Ids, prefixes, or patterns of rules to leave out.

    Raises:
        RequestError: No rule matches an id, prefix, or pattern.
    """

    def is_among(id_: str, patterns: Sequence[str]) -> bool:
        return any(fnmatch.fnmatchcase(id_, f"{pattern.upper()}*") for pattern in patterns)

    for pattern in (*select, *ignore):
        if not any(is_among(id_, [pattern]) for id_ in RULES):
            raise unknown_rule(pattern)
    return [
        each
        for id_, each in sorted(RULES.items())
        if each.format == format
        and level.includes(each.level)
        and (not select or is_among(each.id, select))
        and not is_among(each.id, ignore)
    ]
