"""Checks a table: opens it, and asks each rule about the things that the rule reads."""

from __future__ import annotations

import importlib
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.errors import HarnessError, HarnessWarning, InvalidTableError, MissingFileError, counted
from harness.metadata.model.times import parse_moment
from harness.storage.records import dataclass
from harness.storage.threads import phase
from harness.tools.check.rules import Finding, Found, Level, Reads, Rule, Severity, Thing, chosen

if TYPE_CHECKING:
    from harness.table import Table

_TOPICS = {
    "iceberg": ("iceberg_metadata", "iceberg_manifests", "iceberg_deletes", "files", "data"),
    "delta": ("delta_log", "files", "data"),
}
"""The modules of rules, by format."""
MOST = 1_000
"""Findings of one rule that are kept; the others are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """The findings in a table, heaviest first.

    counts: of all findings, by id of the rule, also of those that are not kept. rules: those that were asked.
    read: things that were read, by name, such as manifests. unchecked: what could not be checked, and why; a sentence
    each. seconds: that the check took.
    """

    table: str
    format: str
    level: Level
    findings: tuple[Finding, ...]
    counts: Mapping[str, int]
    rules: tuple[Rule, ...]
    read: Mapping[str, int]
    unchecked: tuple[str, ...]
    seconds: float

    def number(self, severity: Severity) -> int:
        """The number of findings of a severity."""
        ids = {rule.id for rule in self.rules if rule.severity is severity}
        return sum(number for id_, number in self.counts.items() if id_ in ids)

    def fails(self, at: Severity) -> bool:
        """True if there is a finding as heavy as `at`."""
        return any(self.number(severity) for severity in Severity if severity.rank <= at.rank)

    @property
    def sentence(self) -> str:
        """The outcome in a sentence, without a full stop."""
        numbers = [counted(number, each.value) for each in Severity if (number := self.number(each))]
        return f"{', '.join(numbers) or 'no findings'} by {counted(len(self.rules), 'rule')}"


def check(
    open_table: Callable[[], Table],
    *,
    location: str,
    at: str | int | None = None,
    all_snapshots: bool = False,
    level: Level = Level.FILES,
    rules: Sequence[str] = (),
    ignore: Sequence[str] = (),
    columns: Sequence[str] | None = None,
) -> CheckReport:
    """Checks a table, see `harness.Table.check` for the arguments.

    open_table: opens the table; an InvalidTableError of it is a finding.

    Raises:
        RequestError: there is no such rule or snapshot. UnsupportedError, StorageError, LimitError, TableNotFoundError:
        as opening the table raises.
    """
    started = time.perf_counter()
    run = _Run(location, level, rules, ignore)
    try:
        table = open_table()
    except (InvalidTableError, MissingFileError) as error:
        run.format = "delta" if (error.rule or "").startswith("delta") else "iceberg"
        run.ask((Reads.ERROR, error, None))
        return run.report(time.perf_counter() - started)
    run.format = table.format
    seen: set[str] = set()
    with warnings.catch_warnings(), phase("checking metadata", unit="things") as advance:
        warnings.simplefilter("ignore", HarnessWarning)  # each of them is a finding
        for thing in _things(table, at, all_snapshots):
            run.ask(thing)
            advance(1)
            if thing[0] is Reads.SNAPSHOT and level is not Level.METADATA:
                for other in _of_files(table, thing, level, columns, seen):
                    run.ask(other)
    return run.report(time.perf_counter() - started)


def _of_files(
    table: Table, thing: Thing, level: Level, columns: Sequence[str] | None, seen: set[str]
) -> Iterator[Thing]:
    """The files of a snapshot that were not seen before, and their values."""
    from harness.tools.check.data import column_values
    from harness.tools.check.files import DeletedRows, checked_files

    _, checked, id_ = thing
    statements = checked.statements()
    try:
        plan = table.snapshot(**parse_moment(id_)).plan()
        new = [path for path in plan.files.column("path").to_pylist() if path not in seen]
        for file in checked_files(plan, statements.says, seen):
            yield Reads.FILE, file, id_
        yield Reads.DELETES, DeletedRows(plan, statements.says), id_
        if level is Level.DATA and new:
            for column in column_values(plan, statements, new, columns):
                yield Reads.COLUMNS, column, id_
    except HarnessError as error:
        yield Reads.ERROR, error, id_


def _things(table: Table, at: str | int | None, all_snapshots: bool) -> Iterator[Thing]:
    source: Any = table.source
    if table.format == "iceberg":
        from harness.tools.check.iceberg import CheckedIceberg

        every = sorted(source.metadata.snapshots.values(), key=lambda each: (each.timestamp_ms, each.sequence_number))
        moment = parse_moment(at)
        chosen_ = source.select(moment.get("snapshot_id"), moment.get("timestamp"), moment.get("ref")).snapshot
        snapshots = every if all_snapshots else [chosen_] if chosen_ is not None else []
        return CheckedIceberg(source, snapshots, source.source).things()
    from harness.tools.check.delta import CheckedDelta

    moment = parse_moment(at)
    selected = source.select(moment.get("snapshot_id"), moment.get("timestamp"), moment.get("ref")).snapshot.id
    versions = [version for each in source.readable() for version in each] if all_snapshots else [selected]
    return CheckedDelta(source, versions).things()


class _Run:
    """The findings so far."""

    def __init__(self, location: str, level: Level, rules: Sequence[str], ignored: Sequence[str]) -> None:
        self.format, self._location, self._level = "iceberg", location, level
        for topics in _TOPICS.values():
            for topic in topics:
                importlib.import_module(f"harness.tools.check.{topic}")
        self._asked = {format: chosen(format, level, rules, ignored) for format in _TOPICS}
        self._findings: list[Finding] = []
        self._counts: Counter[str] = Counter()
        self._read: Counter[str] = Counter()
        self._unchecked: list[str] = []

    def ask(self, thing: Thing) -> None:
        """Asks the rules about a thing. An error is a breach of the rule that files can be decoded."""
        reads, value, snapshot = thing
        if reads is Reads.ERROR and not isinstance(value, InvalidTableError | MissingFileError):
            self._unchecked.append(str(value))
            return
        self._read[reads.name.lower()] += 1
        for rule in self._asked[self.format]:
            if rule.reads is reads:
                try:
                    for found in rule.find(value):
                        self._add(rule, found, snapshot)
                except HarnessError as error:
                    self._unchecked.append(f"{rule.id} was not asked: {error}")

    def _add(self, rule: Rule, found: Found, snapshot: int | None) -> None:
        self._counts[rule.id] += 1
        if self._counts[rule.id] <= MOST:
            self._findings.append(Finding(rule=rule, found=found, snapshot=snapshot))

    def report(self, seconds: float) -> CheckReport:
        """What was found, heaviest first."""
        return CheckReport(
            table=self._location,
            format=self.format,
            level=self._level,
            findings=tuple(sorted(self._findings, key=lambda each: (each.rule.severity.rank, each.rule.id))),
            counts=dict(self._counts),
            rules=tuple(self._asked[self.format]),
            read=dict(self._read),
            unchecked=tuple(self._unchecked),
            seconds=seconds,
        )
