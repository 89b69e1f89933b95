"""The run of a check: opens a table and applies each rule to its subjects."""

from __future__ import annotations

import importlib
import random
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from harness.check.rules import (
    RULES,
    UNREAD,
    Breach,
    CheckRule,
    Finding,
    Level,
    Place,
    Reads,
    Severity,
    Subject,
    select_rules,
    unknown_rule,
)
from harness.errors import (
    CorruptFileError,
    HarnessError,
    HarnessWarning,
    InvalidTableError,
    MissingFileError,
    OutsideTableWarning,
    RequestError,
    counted,
)
from harness.metadata.model.times import When
from harness.storage.records import dataclass
from harness.storage.threads import phase

if TYPE_CHECKING:
    from harness.check.delta import CheckedDelta
    from harness.check.files import FileStatement
    from harness.check.iceberg import CheckedIceberg
    from harness.table import Table

    Checked: TypeAlias = CheckedDelta | CheckedIceberg

_TOPICS = {
    "iceberg": (
        *("iceberg_metadata", "iceberg_statistics", "iceberg_manifests", "iceberg_deletes"),
        *("files", "data", "rows"),
    ),
    "delta": ("delta_log", "delta_state", "files", "data", "rows"),
}
"""The modules of rules by format."""
MOST = 1_000
"""The maximum number of findings per rule in a report. Further findings are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """The findings in a table, most severe first.

    Attributes:
        table: The location of the table.
        format: The format of the table.
        level: The level of the check.
        findings: The findings, at most 1,000 per rule.
        counts: The number of all findings by rule id.
        rules: The rules that were applied.
        read: The number of subjects read, by kind, for example manifests.
        unchecked: Sentences about what could not be checked, and why.
        seconds: The duration of the check.
    """

    table: str
    format: str
    level: Level
    findings: tuple[Finding, ...]
    counts: Mapping[str, int]
    rules: tuple[CheckRule, ...]
    read: Mapping[str, int]
    unchecked: tuple[str, ...]
    seconds: float

    def __repr__(self) -> str:
        return f"CheckReport({self.table!r}: {self.sentence})"

    def number(self, severity: Severity) -> int:
        """Return the number of findings of a severity."""
        ids = {rule.id for rule in self.rules if rule.severity is severity}
        return sum(number for id_, number in self.counts.items() if id_ in ids)

    def fails(self, at: Severity) -> bool:
        """Return whether there is a finding at least as severe as `at`."""
        return any(self.number(severity) for severity in Severity if severity.rank <= at.rank)

    @property
    def sentence(self) -> str:
        """The outcome in a sentence, without a period."""
        numbers = [counted(number, each.value) for each in Severity if (number := self.number(each))]
        findings = ", ".join(numbers) or ("nothing found" if self.unchecked else "no findings")
        unchecked = f"; {counted(len(self.unchecked), 'thing')} not checked" if self.unchecked else ""
        return f"{findings} by {counted(len(self.rules), 'rule')}{unchecked}"


def check(
    open_table: Callable[[], Table],
    *,
    location: str,
    at: When = None,
    all_snapshots: bool = False,
    level: Level | str = Level.FILES,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    sample_files: int | None = None,
    orphans: bool = False,
) -> CheckReport:
    """Check a table. For the other arguments see `harness.Table.check`.

    Args:
        open_table: Opens the table. If it raises InvalidTableError, the error becomes a finding.
        location: The table's location, for the report.
        at: The snapshot or version.
        all_snapshots: True to check all snapshots or versions.
        level: The level.
        select: Rules to apply.
        ignore: Rules to leave out.
        columns: Columns to check at level `data`.
        sample_files: The number of data files to check at level `data`, or None for all.
        orphans: True to look for unreferenced files.

    Raises:
        RequestError: There is no such rule or snapshot.
        UnsupportedError, StorageError, LimitError, TableNotFoundError: As raised when the table is opened.
    """
    started = time.perf_counter()
    level = _level(level)
    run = _Run(location, level, select, ignore)
    try:
        table = open_table()
    except (InvalidTableError, MissingFileError) as error:
        is_delta = (error.rule or "").startswith(("delta", "frontier")) or "/_delta_log/" in (error.file or "")
        run.format = "delta" if is_delta else "iceberg"
        run.apply_rules((Reads.ERROR, error, None))
        return run.report(time.perf_counter() - started)
    run.format = table.format
    run.check_selection()
    if table._source.format == "iceberg":
        table._source.need_metadata_files("check the table")
    checked_before: set[FileStatement] = set()
    sample = partial(_sample, number=sample_files) if level is Level.DATA else None
    with warnings.catch_warnings(), phase("checking metadata", unit="things") as advance:
        warnings.simplefilter("ignore", HarnessWarning)  # each of these warnings is also a finding
        warnings.simplefilter("default", OutsideTableWarning)  # except this one, which is about the read
        checked = _checked_table(table, at, all_snapshots)
        for subject in checked.subjects():
            run.apply_rules(subject)
            advance(1)
            if subject[0] is Reads.SNAPSHOT and level is not Level.METADATA:
                for file_subject in _file_subjects(table, subject, sample, columns, checked_before):
                    run.apply_rules(file_subject)
        if orphans:
            for subject in _orphan_subjects(checked):
                run.apply_rules(subject)
    return run.report(time.perf_counter() - started)


def _level(level: Level | str) -> Level:
    try:
        return Level(level)
    except ValueError:
        names = ", ".join(each.value for each in Level)
        raise RequestError(f"Invalid level: got {level!r:.40}, expected one of {names}", options=("level",)) from None


def _sample(paths: Sequence[str], number: int | None) -> Sequence[str]:
    """Return a sample of the data files that is the same in every check, or all files if `number` is None."""
    if number is None or number >= len(paths):
        return paths
    return random.Random(0).sample(sorted(paths), number)


def _file_subjects(
    table: Table,
    subject: Subject,
    sample: Callable[[Sequence[str]], Sequence[str]] | None,
    columns: Sequence[str] | None,
    checked_before: set[FileStatement],
) -> Iterator[Subject]:
    """Yield a snapshot's files with statements that were not checked before, and their values if `sample` is given."""
    from harness.check.files import FileRows, checked_files
    from harness.check.values import column_values

    _, checked, id_ = subject
    statements = checked.statements()
    try:
        plan = table.snapshot(id_)._planned()
        readable: list[str] = []
        others: set[str] = set()
        for file in checked_files(plan, statements, checked_before):
            if isinstance(file.fault, UNREAD):
                yield Reads.ERROR, file.fault, id_
                continue
            yield Reads.FILE, file, id_
            if not file.is_data:
                others.add(file.name.recorded)
            elif file.fault is None:
                readable.append(file.name.recorded)
        yield Reads.DELETES, FileRows(plan, statements), id_
        if sample is None:
            return
        read, deletes = sample(readable), [each for each in plan.position_deletes.files if each.path in others]
        try:
            for column in column_values(plan, statements, read, columns) if read else ():
                yield Reads.COLUMN, column, id_
        except CorruptFileError as error:  # its pages may have checksums
            yield Reads.ERROR, error, id_
        if read or deletes:
            yield Reads.ROWS, FileRows(plan, statements, read, deletes), id_
    except HarnessError as error:
        yield Reads.ERROR, error, id_


def _orphan_subjects(checked: Checked) -> Iterator[Subject]:
    """Yield the unreferenced files below the table's location."""
    from harness.check.files import unreferenced_files

    try:
        for orphan in unreferenced_files(checked.table.storage, *checked.referenced_files()):
            yield Reads.ORPHAN, orphan, None
    except HarnessError as error:
        yield Reads.ERROR, error, None


def _checked_table(table: Table, at: When, all_snapshots: bool) -> Checked:
    source: Any = table._source
    selected = source.select(at).snapshot
    if table.format == "iceberg":
        from harness.check.iceberg import CheckedIceberg

        every = sorted(source.metadata.snapshots.values(), key=lambda each: (each.timestamp_ms, each.sequence_number))
        return CheckedIceberg(source, every if all_snapshots else [selected] if selected is not None else [])
    from harness.check.delta import CheckedDelta

    versions = [version for each in source.readable() for version in each] if all_snapshots else [selected.id]
    return CheckedDelta(source, versions)


_SHOWN_AT_ONCE = "iceberg 5.21"
"""The rule about names that differ only in case.

Such tables are valid, but DuckDB cannot show all their columns at once.
"""
_COUNTED = (Reads.MANIFEST, Reads.SNAPSHOT, Reads.FILE, Reads.COLUMN)
"""Kinds of subjects that are counted in the report."""
_OF_FILES = (Reads.FILE, Reads.DELETES, Reads.COLUMN, Reads.ROWS)
"""Kinds of subjects that are data files of a plan, or parts of them."""


def all_rules() -> list[CheckRule]:
    """Return all rules, ordered by id."""
    for topic in dict.fromkeys(topic for topics in _TOPICS.values() for topic in topics):
        importlib.import_module(f"harness.check.{topic}")
    return [RULES[id_] for id_ in sorted(RULES)]


def find_rule(id_: str) -> CheckRule:
    """Return the rule with an id, in any letter case.

    Raises:
        RequestError: There is no such rule. The message names the nearest ones.
    """
    all_rules()
    if id_.upper() not in RULES:
        raise unknown_rule(id_)
    return RULES[id_.upper()]


_LONGEST = 1_100
"""The maximum length of a text in a report, in characters, long enough for a path in an object store.

A table may have a name of a megabyte, and each of 1,000 findings may contain it.
"""


def _clipped(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters)"


def _shorten(breach: Breach) -> Breach:
    """Truncate the long texts of a breach."""

    def cut(record: Place | Breach, *names: str) -> dict[str, Any]:
        texts = {name: text for name in names if (text := getattr(record, name)) is not None and len(text) > _LONGEST}
        return {name: _clipped(text) for name, text in texts.items()}

    place = cut(breach.place, "file", "field", "entry", "column")
    texts_ = cut(breach, "recorded", "actual", "writer", "detail")
    return replace(breach, place=replace(breach.place, **place), **texts_) if place or texts_ else breach


class _Run:
    """A running check, with its findings so far."""

    def __init__(self, location: str, level: Level, select: Sequence[str], ignore: Sequence[str]) -> None:
        self.format, self._location, self._level = "iceberg", location, level
        all_rules()
        self._selected = {format: select_rules(format, level, select, ignore) for format in _TOPICS}
        self._about: dict[tuple[str, Reads], list[CheckRule]] = {}
        for rule in (rule for rules in self._selected.values() for rule in rules):
            self._about.setdefault((rule.format, rule.reads), []).append(rule)
        self._findings: list[Finding] = []
        self._counts: Counter[str] = Counter()
        self._reported: set[tuple[str, Breach]] = set()
        self._read: Counter[str] = Counter()
        self._unchecked: list[str] = []
        self._left_out = 0
        self._writers: dict[str, str | None] = {}

    def check_selection(self) -> None:
        """Raise RequestError if no selected rule applies to the table, which would then pass the check unread."""
        if self._selected[self.format]:
            return
        remedy = "" if self._level is Level.DATA else ", or use level='data'"
        raise RequestError(
            f"Cannot check: no selected rule applies to {self.format} tables at level={self._level.value!r}; "
            f"select other rules{remedy}",
            table=self._location,
            options=("level",),
        )

    def apply_rules(self, subject: Subject) -> None:
        """Apply the rules for a kind of subject to one subject. An error counts as a subject that could not be decoded.

        Raises:
            RequestError: The subject is a RequestError.
        """
        reads, value, snapshot = subject
        if isinstance(value, RequestError):
            raise value
        is_fault = isinstance(value, InvalidTableError | MissingFileError) and value.rule != _SHOWN_AT_ONCE
        if reads is Reads.ERROR and not is_fault:
            self._leave_out(str(value))
            return
        if reads in _COUNTED:
            self._read[reads.name.lower()] += 1
        for rule in self._about.get((self.format, reads), ()):
            try:
                for breach in rule._find(value):
                    self._add(rule, self._with_writer(breach, value) if reads in _OF_FILES else breach, snapshot)
            except HarnessError as error:
                self._leave_out(f"{rule.id} was not applied: {error}")

    def _leave_out(self, sentence: str) -> None:
        """Record that a part was not checked, and why. At most `MOST` sentences are kept."""
        self._left_out += 1
        if self._left_out <= MOST:
            self._unchecked.append(_clipped(sentence))

    def _with_writer(self, breach: Breach, value: Any) -> Breach:
        """Return the breach with its writer. If the writer is unknown, the footer of the data file supplies it."""
        from harness.engines.row_groups import created_by

        entry = breach.place.entry
        if breach.writer is not None or entry is None:
            return breach
        if entry not in self._writers:
            self._writers[entry] = created_by(value.plan, entry)
        return replace(breach, writer=self._writers[entry])

    def _add(self, rule: CheckRule, breach: Breach, snapshot: int | None) -> None:
        """Add a finding unless it was already reported for another snapshot."""
        breach = _shorten(breach)
        if (rule.id, breach) in self._reported:
            return
        self._counts[rule.id] += 1
        if self._counts[rule.id] <= MOST:
            self._reported.add((rule.id, breach))
            self._findings.append(Finding(rule=rule, breach=breach, snapshot=snapshot))

    def report(self, seconds: float) -> CheckReport:
        """Return the report, with the most severe findings first."""
        remaining = self._left_out - len(self._unchecked)
        unchecked = [*self._unchecked, *([f"{counted(remaining, 'more thing')}"] if remaining else ())]
        return CheckReport(
            table=self._location,
            format=self.format,
            level=self._level,
            findings=tuple(sorted(self._findings, key=lambda each: (each.rule.severity.rank, each.rule.id))),
            counts=dict(self._counts),
            rules=tuple(self._selected[self.format]),
            read=dict(self._read),
            unchecked=tuple(unchecked),
            seconds=seconds,
        )
