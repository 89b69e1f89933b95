"""What a read, and a scenario on an engine, comes to.

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

from __future__ import annotations

import enum
import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.differ.result import ComparisonResult
from harness.errors import RequestError


class Outcome(enum.Enum):
    """See the module's table; the values are the words of all reports."""

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
    """One read of a scenario's table by one engine, and what came of it.

    number: the expectation's place in the scenario, from 1; 0: the scenario itself cannot be run.
    read: what was read, in words. message: why it is not PASS, or how the engine refused; None: nothing to say.
    comparison: of the expected rows (left) with those that were read; None: none was made.
    notes: what differs without counting, such as types that hold the same values.
    seconds: that the read took.
    """

    number: int
    read: str
    outcome: Outcome
    message: str | None = None
    comparison: ComparisonResult | None = None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def verified(self) -> bool:
        """Whether what the engine did was held against what it must do."""
        return self.outcome in (Outcome.PASS, Outcome.FAIL)


@dataclass(frozen=True, slots=True)
class Expected:
    """A line of a list of skips or of expected failures: a pattern of `engine::scenario`, and why."""

    pattern: str
    reason: str
    file: str
    line: int

    def matches(self, engine: str, scenario: str) -> bool:
        """Whether a scenario on an engine is meant; `*` matches any part, slashes too."""
        return fnmatch.fnmatchcase(f"{engine}::{scenario}", self.pattern)


def of_checks(checks: Sequence[Check]) -> Outcome:
    """What a scenario comes to whose reads came to these: the worst of them; OPEN only where nothing else is."""
    found = {check.outcome for check in checks}
    ranked = (Outcome.FAIL, Outcome.ERROR, Outcome.UNSUPPORTED, Outcome.PASS)
    return next((outcome for outcome in ranked if outcome in found), Outcome.OPEN)


def as_expected(outcome: Outcome) -> Outcome:
    """The outcome of what is on the list of expected failures."""
    match outcome:
        case Outcome.FAIL | Outcome.ERROR:
            return Outcome.XFAIL
        case Outcome.PASS:
            return Outcome.XPASS
        case _:
            return outcome


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
    return tuple(
        _parsed(line, path, number)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    )


def _parsed(line: str, path: Path, number: int) -> Expected:
    pattern, _, reason = (part.strip() for part in line.partition("#"))
    if not reason:
        raise RequestError(f"Invalid line {number}: {pattern!r} has no reason; say why after a #", file=str(path))
    if "::" not in pattern:
        raise RequestError(f"Invalid line {number}: {pattern!r}, expected ENGINE::SCENARIO", file=str(path))
    return Expected(pattern, reason, str(path), number)
