"""A run of the suite as plain values, from which every report is made."""

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
    """Outcomes of a read, and of a scenario on an engine; the values are the words of all reports.

        PASS         the rows, or the error, that must come
        FAIL         other rows, or rows where the table must be refused
        POLICY       another answer than harness's, where the specification does not demand harness's
        UNSUPPORTED  the engine says that it does not do this
        ERROR        it failed, crashed or hung; or the scenario itself cannot be run
        OPEN         the specification does not decide it; what the engine does is noted
        SKIP         on the list of skips: not run
        XFAIL        on the list of expected failures, and FAIL or ERROR
        XPASS        on that list, and PASS: time to take it off

    FAIL and XPASS make a run fail, and with `strict` ERROR does too.
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

    number: the expectation's place in the scenario, from 1; 0: the scenario itself cannot be run.
    read: what was read, in words. message: why it is not PASS, or how the engine refused; None: nothing to say.
    comparison: of the expected rows (left) with those that were read; None: none was made.
    notes: what differs without counting, such as types that hold the same values.
    seconds: that the read took. wrong_rows: of a FAIL or POLICY, whether rows must come and others came, with no error.
    policy: whether harness's policy demands the outcome, and not the specification.
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
    """A line of a list of skips or of expected failures: a pattern of `engine::scenario`, and why."""

    pattern: str
    reason: str
    file: str
    line: int

    def matches(self, engine: str, scenario: str) -> bool:
        """Tells whether the line means a scenario on an engine; `*` matches any part, slashes too."""
        return fnmatch.fnmatchcase(f"{engine}::{scenario}", self.pattern)


def worst_outcome(checks: Sequence[Check]) -> Outcome:
    """The worst outcome of a scenario's reads; OPEN only if all are open."""
    found = {check.outcome for check in checks}
    ranked = (Outcome.FAIL, Outcome.ERROR, Outcome.UNSUPPORTED, Outcome.POLICY, Outcome.PASS)
    return next((outcome for outcome in ranked if outcome in found), Outcome.OPEN)


AS_LISTED = {Outcome.FAIL: Outcome.XFAIL, Outcome.ERROR: Outcome.XFAIL, Outcome.PASS: Outcome.XPASS}
"""The outcomes of what is on the list of expected failures; others stay."""


def first_match(lines: Iterable[ListEntry], engine: str, scenario: str) -> ListEntry | None:
    """The first line that means a scenario on an engine."""
    return next((line for line in lines if line.matches(engine, scenario)), None)


def read_list(path: Path) -> tuple[ListEntry, ...]:
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
        found.append(ListEntry(pattern, reason, str(path), number))
    return tuple(found)


def format_list(cases: Iterable[Case]) -> str:
    """The list of expected failures of cases that are FAIL or ERROR, each with what is wrong: see `read_list`.

    `TMP` stands for temporary directories, whose names differ from run to run.
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
    """An engine that the suite was run on.

    name: what it calls itself. argument: its name on the command line. options: what else the command line needs for
        it, such as `--python`. folders: a suite and a folder of results that were scored in place of a run.
    """

    name: str
    version: str
    argument: str
    options: tuple[str, ...] = ()
    folders: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadInfo:
    """A read that a scenario asks for, and what it must give.

    number: its place in the scenario, from 1. read: in words. demand: `must`, `policy` or `open`; why: of the last two.
    error: the class of the error that must come; None: rows must, or nothing was decided.
    columns, rows: of the rows that must come, printed, the first of them; count: of all.
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
    """A scenario in reports, with fields of `harness.suite.scenarios.model.Scenario`.

    file: its file, as a path to show; None: it has none. reads: how many expectations it has. policies: how many of
        them are harness's policy. argument: what the command line calls it; None: its name.
    story: the text of its file. expected: its reads, once its table is built. cases: the directory that has it as a
        case; None: none.
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

    expected: the line of a list that applies, None: none does. checks: empty for a SKIP.
    """

    scenario: ScenarioInfo
    engine: EngineInfo
    outcome: Outcome
    checks: tuple[Check, ...] = ()
    expected: ListEntry | None = None

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
        if self.engine.folders is not None:
            return shlex.join(["harness", "scenarios", "score", *self.engine.folders, self.scenario.name])
        engine = ["--engines", self.engine.argument, *self.engine.options]
        if self.scenario.cases is not None:
            given = ["--cases", self.scenario.cases, *engine]
            return shlex.join(["harness", "scenarios", "run", self.scenario.name, *given])
        scenario = self.scenario.name if self.scenario.argument is None else self.scenario.argument
        return shlex.join(["harness", "scenarios", "run", scenario, *engine, "--keep", "repro"])


def make_case(
    scenario: ScenarioInfo, engine: EngineInfo, checks: Sequence[Check], xfails: Sequence[ListEntry] = ()
) -> Case:
    """The case of these checks, by the list of expected failures."""
    outcome, line = worst_outcome(checks), first_match(xfails, engine.name, scenario.name)
    shown = outcome if line is None else AS_LISTED.get(outcome, outcome)
    return Case(scenario=scenario, engine=engine, outcome=shown, checks=tuple(checks), expected=line)


def unused_lines(lines: Iterable[ListEntry], cases: Sequence[Case]) -> tuple[ListEntry, ...]:
    """The lines that mean none of the cases."""
    return tuple(line for line in lines if not any(line.matches(c.engine.name, c.scenario.name) for c in cases))


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """An engine's reads by what came of them. Reads that the specification leaves open are none of them.

    Of the specification's demands (MUST):
        wrong: other rows, or another count, and no error. broken: rows of a table that must be refused.
        right: the rows, or the error, that must come. failed: errors, crashes, hangs. declined: the rest.
    Of harness's policy: kept: answered as harness does; policies: all of them.
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
        """The reads that are wrong without an error."""
        return self.wrong + self.broken

    @property
    def claimed(self) -> int:
        """The reads that the engine did not decline."""
        return self.wrong + self.broken + self.right + self.failed

    @property
    def right_of_claimed(self) -> float:
        """The percentage of right ones among the reads that the engine did not decline; 0 without any."""
        return 100 * self.right / max(1, self.claimed)

    @property
    def right_of_all(self) -> float:
        """The percentage of right ones among all reads; 0 without any."""
        return 100 * self.right / max(1, self.claimed + self.declined)

    def __str__(self) -> str:
        shares = f"right {self.right_of_claimed:.1f} % of what it claims, {self.right_of_all:.1f} % of everything"
        return f"{self.silent:,} silently wrong, {shares}; {self.kept:,} of {self.policies:,} policies"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """All that a run found.

    missing: engines and kinds of cases that could not run, by name, and why.
    unused: lines of lists that no scenario and engine of this run match.
    environment: versions, and whatever else results may depend on. meanings: of features, a line each.
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
        """Counts of scenarios by outcome, on one engine or on all."""
        return Counter(case.outcome for case in self.cases if engine is None or case.engine is engine)

    def score(self, engine: EngineInfo, format: str | None = None) -> Score:
        """The engine's reads of this run by what came of them. format: of its tables alone; None: all."""
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
        """The formats of the scenarios' tables, each once."""
        return tuple(sorted({scenario.format for scenario in self.scenarios}))

    def features(self) -> tuple[str, ...]:
        """The features of the scenarios, each once, in alphabetical order."""
        return tuple(sorted({feature for scenario in self.scenarios for feature in scenario.features}))

    def cases_with_feature(self, feature: str, engine: EngineInfo) -> tuple[Case, ...]:
        """The cases of one cell of the table of features."""
        return tuple(case for case in self.cases if case.engine is engine and feature in case.scenario.features)

    def passed(self) -> bool:
        """Return whether nothing is FAIL or XPASS."""
        counts = self.counts()
        return not (counts[Outcome.FAIL] or counts[Outcome.XPASS])

    def engines_without_results(self) -> tuple[Case, ...]:
        """The first case of each engine that has shown nothing: every scenario on it is ERROR."""
        ran = [case for case in self.cases if case.outcome is not Outcome.SKIP]
        of_each = ([case for case in ran if case.engine is engine] for engine in self.engines)
        return tuple(cases[0] for cases in of_each if cases and all(c.outcome is Outcome.ERROR for c in cases))

    def passed_strictly(self) -> bool:
        """Tells whether nothing is FAIL, ERROR or XPASS."""
        return self.passed() and not self.counts()[Outcome.ERROR]
