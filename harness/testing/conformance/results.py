"""A run of the suite as plain values, from which every report is made."""

from __future__ import annotations

import enum
import fnmatch
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.differ.result import BatchEntry, ComparisonResult
from harness.errors import RequestError


class Outcome(enum.Enum):
    """Outcomes of a read, and of a scenario on an engine; the values are the words of all reports.

        PASS         the rows, or the error, that must come
        FAIL         other rows, or rows where the table must be refused
        UNSUPPORTED  the engine says that it does not do this
        ERROR        it failed, crashed or hung; or the scenario itself cannot be run
        OPEN         the specification does not decide it; what the engine does is noted
        SKIP         on the list of skips: not run
        XFAIL        on the list of expected failures, and FAIL or ERROR
        XPASS        on that list, and PASS: time to take it off

    Only FAIL makes a run fail, and with `strict` ERROR and XPASS do too.
    """

    PASS = "PASS"
    FAIL = "FAIL"
    UNSUPPORTED = "UNSUPPORTED"
    ERROR = "ERROR"
    OPEN = "OPEN"
    SKIP = "SKIP"
    XFAIL = "XFAIL"
    XPASS = "XPASS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A read of a scenario's table by an engine, and its outcome.

    number: the expectation's place in the scenario, from 1; 0: the scenario itself cannot be run.
    read: what was read, in words. message: why it is not PASS, or how the engine refused; None: nothing to say.
    comparison: of the expected rows (left) with those that were read; None: none was made.
    notes: what differs without counting, such as types that hold the same values.
    seconds: that the read took. wrong_rows: of a FAIL, whether rows must come and others came, with no error.
    """

    number: int
    read: str
    outcome: Outcome
    message: str | None = None
    comparison: ComparisonResult | None = None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    wrong_rows: bool = False


@dataclass(frozen=True, slots=True)
class Expected:
    """A line of a list of skips or of expected failures: a pattern of `engine::scenario`, and why."""

    pattern: str
    reason: str
    file: str
    line: int

    def matches(self, engine: str, scenario: str) -> bool:
        """Tells whether the line means a scenario on an engine; `*` matches any part, slashes too."""
        return fnmatch.fnmatchcase(f"{engine}::{scenario}", self.pattern)


def of_checks(checks: Sequence[Check]) -> Outcome:
    """The worst outcome of a scenario's reads; OPEN only if all are open."""
    found = {check.outcome for check in checks}
    ranked = (Outcome.FAIL, Outcome.ERROR, Outcome.UNSUPPORTED, Outcome.PASS)
    return next((outcome for outcome in ranked if outcome in found), Outcome.OPEN)


AS_LISTED = {Outcome.FAIL: Outcome.XFAIL, Outcome.ERROR: Outcome.XFAIL, Outcome.PASS: Outcome.XPASS}
"""The outcomes of what is on the list of expected failures; others stay."""


def first_match(lines: Iterable[Expected], engine: str, scenario: str) -> Expected | None:
    """The first line that means a scenario on an engine."""
    return next((line for line in lines if line.matches(engine, scenario)), None)


def read_list(path: Path) -> tuple[Expected, ...]:
    """A list of skips or expected failures: on each line a pattern, then `# reason`. Lines of comments are left out.

    Raises:
        RequestError: the file cannot be read, or a line has no reason or no `::`.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"Cannot read the list: {error}", file=str(path)) from error
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        pattern, _, reason = (part.strip() for part in line.partition("#"))
        if not pattern:
            continue
        if not reason:
            raise RequestError(f"Invalid line {number}: {pattern!r} has no reason; say why after a #", file=str(path))
        if "::" not in pattern:
            raise RequestError(f"Invalid line {number}: {pattern!r}, expected ENGINE::SCENARIO", file=str(path))
        found.append(Expected(pattern, reason, str(path), number))
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """An engine that the suite was run on.

    name: what it calls itself. asked: by what name it was asked for. arguments: what else the command line needs for
        it, such as `--python`.
    """

    name: str
    version: str
    asked: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioInfo:
    """A scenario in reports, with fields of `harness.testing.scenarios.model.Scenario`.

    file: its file, as a path to show; None: it has none. reads: how many expectations it has.
    asked: what the command line calls it; None: its name.
    """

    name: str
    title: str
    format: str
    clauses: tuple[str, ...]
    features: tuple[str, ...]
    file: str | None
    reads: int
    asked: str | None = None


@dataclass(frozen=True, slots=True)
class Violation:
    """A check whose reads do not agree, or whose second read fails. shape: its name."""

    shape: str
    entry: BatchEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """A reader's reads of one table. checks: their number. declined: by shape, the reads that the reader declined."""

    checks: int
    declined: Mapping[str, int]
    violations: tuple[Violation, ...]

    def as_dict(self) -> dict[str, Any]:
        """The agreement as plain values."""
        violations = [
            {
                "shape": each.shape,
                "name": each.entry.name,
                "outcome": each.entry.outcome.value,
                "message": each.entry.message,
                "asked": each.entry.asked,
            }
            for each in self.violations
        ]
        return {"checks": self.checks, "declined": dict(self.declined), "violations": violations}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A scenario on an engine.

    expected: the line of a list that applies, None: none does. checks: empty for a SKIP.
    agreement: the reader against itself on the table; None: not asked, or the reader does not read it.
    """

    scenario: ScenarioInfo
    engine: EngineInfo
    outcome: Outcome
    checks: tuple[Check, ...] = ()
    expected: Expected | None = None
    agreement: Agreement | None = None

    @property
    def id(self) -> str:
        """`engine::scenario`, as lists of expected failures say it."""
        return f"{self.engine.name}::{self.scenario.name}"

    @property
    def seconds(self) -> float:
        """Seconds that the reads took."""
        return sum(check.seconds for check in self.checks)

    @property
    def command(self) -> str:
        """The command that shows the case again and leaves its table in `repro`."""
        engine = ["--engines", self.engine.asked, *self.engine.arguments]
        scenario = self.scenario.name if self.scenario.asked is None else self.scenario.asked
        return shlex.join(["harness", "scenarios", "run", scenario, *engine, "--keep", "repro"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """An engine's reads by what came of them. Reads that the specification leaves open are none of them.

    wrong: other rows than the specification's, or another count, and no error. broken: rows of a table that must be
    refused. right: the rows, or the error, that must come. failed: errors, crashes, hangs. declined: the rest.
    """

    wrong: int = 0
    broken: int = 0
    right: int = 0
    failed: int = 0
    declined: int = 0

    @property
    def claimed(self) -> int:
        """The reads that the engine did not decline."""
        return self.wrong + self.broken + self.right + self.failed

    @property
    def of_claimed(self) -> float:
        """The percentage of right ones among the reads that the engine did not decline; 0 without any."""
        return 100 * self.right / max(1, self.claimed)

    @property
    def of_all(self) -> float:
        """The percentage of right ones among all reads; 0 without any."""
        return 100 * self.right / max(1, self.claimed + self.declined)

    def __str__(self) -> str:
        return f"{self.wrong:,} wrong, right {self.of_claimed:.1f} % of what it reads, {self.of_all:.1f} % of all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """All that a run found.

    missing: engines that could not run, by name, and why. unused: lines of lists that no scenario and engine of this
        run match. environment: versions, and whatever else results may depend on. meanings: of features, a line each.
    """

    engines: tuple[EngineInfo, ...]
    scenarios: tuple[ScenarioInfo, ...]
    cases: tuple[Case, ...]
    missing: Mapping[str, str] = field(default_factory=dict)
    unused: tuple[Expected, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    meanings: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def counts(self, engine: EngineInfo | None = None) -> Counter[Outcome]:
        """Counts of scenarios by outcome, on one engine or on all."""
        return Counter(case.outcome for case in self.cases if engine is None or case.engine is engine)

    def score(self, engine: EngineInfo) -> Score:
        """The engine's reads of this run by what came of them."""
        checks = [check for case in self.cases if case.engine is engine for check in case.checks]
        counts = Counter(check.outcome for check in checks)
        wrong = sum(check.outcome is Outcome.FAIL and check.wrong_rows for check in checks)
        reads = sum(scenario.reads for scenario in self.scenarios) - counts[Outcome.OPEN]
        right, failed = counts[Outcome.PASS], counts[Outcome.ERROR]
        return Score(
            wrong=wrong,
            broken=counts[Outcome.FAIL] - wrong,
            right=right,
            failed=failed,
            declined=max(0, reads - counts[Outcome.FAIL] - right - failed),
        )

    def features(self) -> tuple[str, ...]:
        """The features of the scenarios, each once, in alphabetical order."""
        return tuple(sorted({feature for scenario in self.scenarios for feature in scenario.features}))

    def of_feature(self, feature: str, engine: EngineInfo) -> tuple[Case, ...]:
        """The cases of one cell of the matrix."""
        return tuple(case for case in self.cases if case.engine is engine and feature in case.scenario.features)

    def agreements(self) -> dict[str, list[Agreement]]:
        """By engine, its name and version, the agreements with itself; empty where no engine was asked."""
        found: dict[str, list[Agreement]] = {}
        for case in self.cases:
            if case.agreement is not None:
                found.setdefault(f"{case.engine.name} {case.engine.version}", []).append(case.agreement)
        return found

    def passed(self) -> bool:
        """Tells whether nothing is FAIL, and no reader disagrees with itself."""
        agreed = all(not one.violations for found in self.agreements().values() for one in found)
        return agreed and not self.counts()[Outcome.FAIL]

    def unread(self) -> tuple[Case, ...]:
        """The first case of each engine that has shown nothing: every scenario on it is ERROR."""
        ran = [case for case in self.cases if case.outcome is not Outcome.SKIP]
        of_each = ([case for case in ran if case.engine is engine] for engine in self.engines)
        return tuple(cases[0] for cases in of_each if cases and all(c.outcome is Outcome.ERROR for c in cases))

    def passed_strictly(self) -> bool:
        """Tells whether nothing is FAIL, ERROR or XPASS."""
        counts = self.counts()
        return self.passed() and not (counts[Outcome.ERROR] or counts[Outcome.XPASS])
