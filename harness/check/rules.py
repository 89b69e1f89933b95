"""The rules of `harness check` as values: an id, how bad a breach is, what a rule reads, and its function."""

from __future__ import annotations

import difflib
import enum
import fnmatch
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

from harness.errors import HarnessError, LimitError, OutsideTableError, RequestError, StorageError
from harness.storage.records import dataclass


class Severity(enum.Enum):
    """The weight of a finding, heaviest first."""

    ERROR = "error"
    """A reader may give wrong rows, or fail."""
    WARNING = "warning"
    """Against the specification; rows are still right."""
    NOTE = "note"
    """Odd, and worth knowing."""

    @property
    def rank(self) -> int:
        """0 for the heaviest."""
        return list(Severity).index(self)


class Level(enum.Enum):
    """The depths of a check, each with those before it."""

    METADATA = "metadata"
    FILES = "files"
    DATA = "data"

    def includes(self, other: Level) -> bool:
        """True if a check of this level asks the rules of the other one."""
        return list(Level).index(other) <= list(Level).index(self)


class Reads(enum.Enum):
    """The things that rules read, each with the level that has them. The value is for people.

    A rule's function takes what it reads, as `harness.check.running` hands it over, and gives `Found`.
    """

    ERROR = "a file that cannot be decoded"
    TABLE = "the metadata file, or the log"
    CHECKPOINT = "a checkpoint, and the commits up to it"
    SNAPSHOT = "the files of a snapshot or version"
    MANIFEST = "a manifest and its line in the manifest list"
    FILE = "a data or delete file: existence, size, footer"
    DELETES = "the deletes of a snapshot, and the positions that they name"
    CHANGES = "a file of changes"
    COLUMN = "the values of a column in a data file"
    ROWS = "the rows of data files"
    ORPHAN = "a file that nothing names"

    @property
    def level(self) -> Level:
        """The level from which on such rules are asked."""
        if self in (Reads.COLUMN, Reads.ROWS):
            return Level.DATA
        return Level.FILES if self in (Reads.FILE, Reads.DELETES, Reads.CHANGES) else Level.METADATA


Subject: TypeAlias = tuple[Reads, Any, int | None]
"""A thing that rules read, and the id of the snapshot, or the version, that names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of a statement.

    file: recorded path of the metadata file, manifest, commit or data file that says it. field: a JSON pointer, or the
    name of a field of Avro. entry: the data or delete file that the statement is about. column: by its name.
    line: of a commit, from 1.
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
"""The recorded range and the actual range of a column of numbers, days or instants, for a picture."""


@dataclass(frozen=True, slots=True)
class Breach:
    """A breach of a rule, as the rule's function gives it.

    recorded, actual: values as text; None: there is none. writer: the program that wrote the statement, as it says.
    detail: a sentence where the rule's title does not say enough. spans: None: there is none to draw.
    """

    place: Place
    recorded: str | None = None
    actual: str | None = None
    writer: str | None = None
    detail: str | None = None
    spans: Spans | None = None


UNREAD = (OutsideTableError, StorageError, LimitError)
"""Errors by which a file is not read: they say nothing about the table."""


def decoding_breach(place: Place, error: HarnessError, writer: str | None = None) -> Breach:
    """Return the breach where a decoder refuses a statement, with the error's sentence, and its rule or class.

    Raises:
        HarnessError: `error` itself, if it is one of `UNREAD`, so that nothing is known about the statement.
    """
    if isinstance(error, UNREAD):
        raise error
    return Breach(place=place, detail=f"{error.message} [{error.rule or error.cause}]", writer=writer)


@dataclass(frozen=True, slots=True)
class CheckRule:
    """A rule.

    id: `ICE-…` or `DEL-…`, for good. title: the rule in a sentence. breaks: the numbers in docs/rules that a breach is
    against. hurts: the readers that a breach hurts, and how. mends: the repair, with the files and fields to rewrite.
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
        """The format that the rule is about."""
        return "iceberg" if self.id.startswith("ICE-") else "delta"

    @property
    def level(self) -> Level:
        """The level from which on the rule is asked."""
        return self.reads.level


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A breach of a rule in a table. snapshot: the snapshot or version in which the breach was met first."""

    rule: CheckRule
    breach: Breach
    snapshot: int | None = None


RULES: dict[str, CheckRule] = {}
"""All rules by id. The modules of topics fill the register when they are imported."""

_F = TypeVar("_F", bound=Callable[..., Iterable[Breach]])


def rule(id_: str, severity: Severity, reads: Reads, *breaks: str) -> Callable[[_F], _F]:
    """Makes a function a rule. Its docstring is the title, and then "Hurts: …" and "Mends: …".

    Arguments are those of `Rule`.
    """

    def register(find: _F) -> _F:
        assert id_ not in RULES, id_
        title, _, rest = (find.__doc__ or "").partition(".\n")
        hurts, _, mends = " ".join(rest.split()).removeprefix("Hurts: ").partition(" Mends: ")
        RULES[id_] = CheckRule(id_, severity, reads, title, breaks, hurts, mends, find)
        return find

    return register


def unknown_rule(id_: str) -> RequestError:
    """Return the error for an id or pattern that no rule has. The message names the nearest rules."""
    near = difflib.get_close_matches(id_.upper(), RULES, 3, 0)
    return RequestError(f"Unknown rule {id_!r}: the nearest are {', '.join(near)}")


def select_rules(format: str, level: Level, select: Sequence[str], ignore: Sequence[str]) -> list[CheckRule]:
    """Return the rules of a format and level, in the order of their ids.

    Args:
        format: Of the table.
        level: Of the check.
        select: Ids, beginnings of ids such as `ICE-2`, or patterns such as `*-5*`. If it is empty, every rule.
        ignore: Ids, beginnings or patterns of the rules that are left out.

    Raises:
        RequestError: No rule has such an id.
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
