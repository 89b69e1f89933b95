"""The results of a run of the suite. All reports are made from them."""

from __future__ import annotations

import enum
import fnmatch
import re
import shlex
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.diff.result import ComparisonResult
from harness.errors import RequestError, visible


class Outcome(enum.Enum):
    """The outcome of a read, or of a scenario on an engine. Reports use the values.

        PASS         the expected rows or the expected error
        FAIL         other rows, or rows of a table that must be refused
        POLICY       another answer than harness's policy, which the specification does not require
        UNSUPPORTED  the engine reports that it does not support the read
        ERROR        the read failed, crashed or hung; or the scenario itself cannot be run
        OPEN         the specification leaves the result open; the report notes the engine's result
        SKIP         on the list of skips: not run
        XFAIL        on the list of expected failures, and FAIL or ERROR
        XPASS        on that list, and PASS: the line should be removed

    FAIL and XPASS make a run fail; with `strict`, ERROR does too.
    """

    PASS = "PASS"
    FAIL = "FAIL"
    POLICY = "POLICY"
    UNSUPPORTED = "UNSUPPORTED"
    ERROR = "ERROR"
    OPEN = "OPEN"
    SKIP = "SKIP"
    XFAIL = "XFAIL"
    XPASS = "XPASS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A read of a scenario's table by an engine, and its outcome.

    Attributes:
        number: The position of the expectation in the scenario, from 1. 0 if the scenario itself cannot be run.
        read: The read in words.
        message: The reason for an outcome other than PASS, or the engine's refusal. None if there is nothing to add.
        comparison: The comparison of the expected rows (left) with the rows that were read. None if there is none.
        notes: Differences that do not count, for example types that hold the same values.
        seconds: The duration of the read.
        wrong_rows: For FAIL and POLICY, whether the engine returned other rows, without an error, where rows are
            expected.
        policy: Whether harness's policy, not the specification, requires the outcome.
    """

    number: int
    read: str
    outcome: Outcome
    message: str | None = None
    comparison: ComparisonResult | None = None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    wrong_rows: bool = False
    policy: bool = False


@dataclass(frozen=True, slots=True)
class ListEntry:
    """A line in a list of skips or expected failures: a pattern for `engine::scenario` and a reason."""

    pattern: str
    reason: str
    file: str
    line: int

    def matches(self, engine: str, scenario: str) -> bool:
        """Return whether the line applies to a scenario on an engine. `*` matches any text, including slashes."""
        return fnmatch.fnmatchcase(f"{engine}::{scenario}", self.pattern)


def worst_outcome(checks: Sequence[Check]) -> Outcome:
    """Return the worst outcome of a scenario's reads. It is OPEN only if all reads are open."""
    outcomes = {check.outcome for check in checks}
    ranked = (Outcome.FAIL, Outcome.ERROR, Outcome.UNSUPPORTED, Outcome.POLICY, Outcome.PASS)
    return next((outcome for outcome in ranked if outcome in outcomes), Outcome.OPEN)


AS_LISTED = {Outcome.FAIL: Outcome.XFAIL, Outcome.ERROR: Outcome.XFAIL, Outcome.PASS: Outcome.XPASS}
"""The outcomes of entries on the list of expected failures. Other outcomes do not change."""


def first_match(lines: Iterable[ListEntry], engine: str, scenario: str) -> ListEntry | None:
    """Return the first line that applies to a scenario on an engine."""
    return next((line for line in lines if line.matches(engine, scenario)), None)


def read_list(path: Path) -> tuple[ListEntry, ...]:
    """Read a list of skips or expected failures. Each line has a pattern, then `# reason`. Comment lines are skipped.

    Raises:
        RequestError: The file cannot be read, or a line has no reason or no `::`.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"Cannot read the list: {error}", file=str(path)) from error
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        pattern, _, reason = (part.strip() for part in line.partition("#"))
        if not pattern:
            continue
        if not reason:
            raise RequestError(f"Invalid line {number}: {pattern!r} has no reason; add one after a #", file=str(path))
        if "::" not in pattern:
            raise RequestError(f"Invalid line {number}: {pattern!r}, expected ENGINE::SCENARIO", file=str(path))
        entries.append(ListEntry(pattern, reason, str(path), number))
    return tuple(entries)


def format_list(cases: Iterable[Case]) -> str:
    """Return a list of expected failures with all cases that are FAIL or ERROR; see `read_list`.

    Temporary directories, whose names differ in each run, are shown as `TMP`.
    """
    temporary = re.compile(rf"(file:/*|/)?{re.escape(tempfile.gettempdir().strip('/'))}/[^/\s'\"]+")
    lines = []
    for case in cases:
        if case.outcome in (Outcome.FAIL, Outcome.ERROR):
            message = next((check.message for check in case.checks if check.outcome is case.outcome), None)
            reason = temporary.sub("TMP", visible(message or "no message"))
            lines.append(f"{case.id}  # {case.outcome.value}: {reason}\n")
    return "".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """An engine of a run.

    Attributes:
        name: The name that the engine reports.
        argument: The engine's name on the command line.
        options: Other command-line options that it needs, for example `--python`.
        folders: The suite and the folder of results if results were scored without a run. None otherwise.
    """

    name: str
    version: str
    argument: str
    options: tuple[str, ...] = ()
    folders: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadInfo:
    """A read of a scenario and its expected result.

    Attributes:
        number: The position in the scenario, from 1.
        read: The read in words.
        demand: `must`, `policy`, or `open`.
        why: The reason for `policy` or `open`.
        error: The class of the expected error. None if rows are expected or the result is undecided.
        columns: The names of the expected columns.
        rows: The first expected rows as text.
        count: The number of all expected rows.
    """

    number: int
    read: str
    demand: str
    why: str | None = None
    error: str | None = None
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioInfo:
    """A scenario in reports. `harness.suite.scenarios.model.Scenario` describes the other fields.

    Attributes:
        file: The path of the scenario's file for display. None if there is no file.
        reads: The number of expectations.
        policies: The number of expectations that follow harness's policy.
        argument: The scenario on the command line. None means its name.
        story: The text of the file.
        expected: The reads, once the table is built.
        cases: The directory that contains the scenario as a case. None if it is not a case.
    """

    name: str
    title: str
    format: str
    clauses: tuple[str, ...]
    features: tuple[str, ...]
    file: str | None
    reads: int
    policies: int = 0
    argument: str | None = None
    story: str = ""
    expected: tuple[ReadInfo, ...] = ()
    cases: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A scenario on an engine.

    Attributes:
        expected: The line of a list that applies. None if there is none.
        checks: The reads. Empty for a SKIP.
    """

    scenario: ScenarioInfo
    engine: EngineInfo
    outcome: Outcome
    checks: tuple[Check, ...] = ()
    expected: ListEntry | None = None

    @property
    def id(self) -> str:
        """The identifier `engine::scenario`, as in lists of expected failures."""
        return f"{self.engine.name}::{self.scenario.name}"

    @property
    def seconds(self) -> float:
        """The duration of the reads in seconds."""
        return sum(check.seconds for check in self.checks)

    @property
    def command(self) -> str:
        """The command that repeats the case. For built scenarios it keeps the table in `repro`."""
        if self.engine.folders is not None:
            return shlex.join(["harness", "scenarios", "score", *self.engine.folders, self.scenario.name])
        engine = ["--engines", self.engine.argument, *self.engine.options]
        if self.scenario.cases is not None:
            options = ["--cases", self.scenario.cases, *engine]
            return shlex.join(["harness", "scenarios", "run", self.scenario.name, *options])
        scenario = self.scenario.name if self.scenario.argument is None else self.scenario.argument
        return shlex.join(["harness", "scenarios", "run", scenario, *engine, "--keep", "repro"])


def make_case(
    scenario: ScenarioInfo, engine: EngineInfo, checks: Sequence[Check], xfails: Sequence[ListEntry] = ()
) -> Case:
    """Return the case with these checks, adjusted by the list of expected failures."""
    outcome, line = worst_outcome(checks), first_match(xfails, engine.name, scenario.name)
    adjusted = outcome if line is None else AS_LISTED.get(outcome, outcome)
    return Case(scenario=scenario, engine=engine, outcome=adjusted, checks=tuple(checks), expected=line)


def unused_lines(lines: Iterable[ListEntry], cases: Sequence[Case]) -> tuple[ListEntry, ...]:
    """Return the lines that apply to none of the cases."""
    return tuple(line for line in lines if not any(line.matches(c.engine.name, c.scenario.name) for c in cases))


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The counts of an engine's reads. Reads that the specification leaves open are excluded.

    Attributes:
        wrong: Reads with other rows or another count, and no error.
        broken: Reads that returned rows of a table that must be refused.
        right: Reads with the expected rows or the expected error.
        failed: Errors, crashes, and hangs.
        declined: All other reads that the specification requires.
        kept: Reads that follow harness's policy.
        policies: All reads with a policy.
    """

    wrong: int = 0
    broken: int = 0
    right: int = 0
    failed: int = 0
    declined: int = 0
    kept: int = 0
    policies: int = 0

    @property
    def silent(self) -> int:
        """The number of reads that are wrong without an error."""
        return self.wrong + self.broken

    @property
    def claimed(self) -> int:
        """The number of reads that the engine did not decline."""
        return self.wrong + self.broken + self.right + self.failed

    @property
    def right_of_claimed(self) -> float:
        """The percentage of correct reads among those that the engine did not decline. 0 if there are none."""
        return 100 * self.right / max(1, self.claimed)

    @property
    def right_of_all(self) -> float:
        """The percentage of correct reads among all reads. 0 if there are none."""
        return 100 * self.right / max(1, self.claimed + self.declined)

    def __str__(self) -> str:
        shares = f"right {self.right_of_claimed:.1f} % of what it claims, {self.right_of_all:.1f} % of everything"
        return f"{self.silent:,} silently wrong, {shares}; {self.kept:,} of {self.policies:,} policies"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of the suite and its results.

    Attributes:
        missing: Engines and kinds of cases that could not be run, by name, with the reason.
        unused_lines: Lines of lists that match no scenario and engine of this run.
        environment: Versions and other properties that results may depend on.
        meanings: The meaning of each feature, one line each.
    """

    engines: tuple[EngineInfo, ...]
    scenarios: tuple[ScenarioInfo, ...]
    cases: tuple[Case, ...]
    missing: Mapping[str, str] = field(default_factory=dict)
    unused_lines: tuple[ListEntry, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    meanings: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def counts(self, engine: EngineInfo | None = None) -> Counter[Outcome]:
        """Return the number of scenarios by outcome, for one engine or for all."""
        return Counter(case.outcome for case in self.cases if engine is None or case.engine is engine)

    def score(self, engine: EngineInfo, format: str | None = None) -> Score:
        """Return the score of an engine. With `format`, only its tables are counted."""
        scenarios = [each for each in self.scenarios if format in (None, each.format)]
        cases = [case for case in self.cases if case.engine is engine and format in (None, case.scenario.format)]
        checks = [check for case in cases for check in case.checks]
        must = [check for check in checks if not check.policy]
        counts = Counter(check.outcome for check in must)
        wrong = sum(check.outcome is Outcome.FAIL and check.wrong_rows for check in must)
        reads = sum(each.reads - each.policies for each in scenarios) - counts[Outcome.OPEN]
        right, failed = counts[Outcome.PASS], counts[Outcome.ERROR]
        return Score(
            wrong=wrong,
            broken=counts[Outcome.FAIL] - wrong,
            right=right,
            failed=failed,
            declined=max(0, reads - counts[Outcome.FAIL] - right - failed),
            kept=sum(check.policy and check.outcome is Outcome.PASS for check in checks),
            policies=sum(each.policies for each in scenarios),
        )

    def formats(self) -> tuple[str, ...]:
        """Return the distinct formats of the scenarios' tables."""
        return tuple(sorted({scenario.format for scenario in self.scenarios}))

    def features(self) -> tuple[str, ...]:
        """Return the distinct features of the scenarios in alphabetical order."""
        return tuple(sorted({feature for scenario in self.scenarios for feature in scenario.features}))

    def cases_with_feature(self, feature: str, engine: EngineInfo) -> tuple[Case, ...]:
        """Return the cases of an engine with a feature, which form one cell in the table of features."""
        return tuple(case for case in self.cases if case.engine is engine and feature in case.scenario.features)

    def passed(self) -> bool:
        """Return whether there is no FAIL and no XPASS."""
        counts = self.counts()
        return not (counts[Outcome.FAIL] or counts[Outcome.XPASS])

    def engines_without_results(self) -> tuple[Case, ...]:
        """Return the first case of each engine on which every scenario is an ERROR."""
        ran = [case for case in self.cases if case.outcome is not Outcome.SKIP]
        of_each = ([case for case in ran if case.engine is engine] for engine in self.engines)
        return tuple(cases[0] for cases in of_each if cases and all(c.outcome is Outcome.ERROR for c in cases))

    def passed_strictly(self) -> bool:
        """Return whether there is no FAIL, ERROR, or XPASS."""
        return self.passed() and not self.counts()[Outcome.ERROR]
