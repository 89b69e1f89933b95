"""Verdicts: whether what a read of a mutant came to is fine.

Fine is: the rows of the table as it was, a HarnessError, or other rows where the oracle, which plans and reads by
itself, gives the same. Filters skip files by statistics, which nobody can check: where those were changed, rows that
only a read without skipping finds are fine too, and no row may come that such a read does not have.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from fuzz_reading import Leaked, Outcome, Refused, Rows


class Kind(enum.Enum):
    """What became of a mutant; all from WRONG on are findings."""

    SAME = "same rows"
    REFUSED = "HarnessError"
    OTHER = "other rows, agreed"
    UNJUDGED = "rows, the judge died"
    SKIPPED = "agreed without skipping"
    WRONG = "WRONG ROWS"
    DISPUTED = "DISPUTED ROWS"
    LEAK = "OTHER EXCEPTION"
    SOCKET = "SOCKET"
    CRASH = "CRASH"
    TIME = "TIME"
    MEMORY = "MEMORY"

    @property
    def is_finding(self) -> bool:
        """Whether harness did what it must not."""
        return self not in _FINE


_FINE = (Kind.SAME, Kind.REFUSED, Kind.OTHER, Kind.SKIPPED, Kind.UNJUDGED)


@dataclass(frozen=True, slots=True)
class Verdict:
    """signature: alike for findings that one change of harness would mend, as far as that can be told."""

    kind: Kind
    detail: str = ""
    signature: str = ""


def judged(
    outcome: Outcome,
    original: Outcome,
    oracle: Callable[[], Outcome | None],
    unpruned: Callable[[], Outcome],
) -> Verdict:
    """The verdict on one read.

    outcome, original: what DuckDB gives of the mutant, and of the table before.
    oracle, unpruned: called where they are needed: what the oracle gives of the mutant, and DuckDB without skipping.
    """
    match outcome:
        case Leaked("MemoryError"):
            return Verdict(Kind.MEMORY, str(outcome), f"memory {outcome.place}")
        case Leaked():
            return Verdict(Kind.LEAK, str(outcome), f"leak {outcome.kind} {outcome.place}")
        case Refused():
            return Verdict(Kind.REFUSED)
        case Rows():
            return _judged_rows(outcome, original, oracle(), unpruned)


def _judged_rows(rows: Rows, original: Outcome, judge: Outcome | None, unpruned: Callable[[], Outcome]) -> Verdict:
    told = f"DuckDB: {rows}; before: {original}; oracle: {judge}"
    match judge:
        case Rows() if judge == rows:
            return Verdict(Kind.SAME if rows == original else Kind.OTHER)
        case Rows():
            every = unpruned()
            if every == judge and isinstance(every, Rows) and every.types == rows.types and rows.counts <= every.counts:
                return Verdict(Kind.SKIPPED)
            return Verdict(Kind.WRONG, f"{told}; {_differing(rows, judge)}", "wrong")
        case _ if rows == original:
            return Verdict(Kind.SAME)
        case None:
            return Verdict(Kind.OTHER)
        case Refused() | Leaked():
            # The oracle opens files that a filter lets DuckDB skip.
            is_skipping = isinstance(unpruned(), Refused)
            return Verdict(Kind.SKIPPED) if is_skipping else Verdict(Kind.DISPUTED, told, "disputed")


def _differing(rows: Rows, judge: Rows) -> str:
    if rows.types != judge.types:
        return f"types {rows.types} and {judge.types}"
    more, less = list((rows.counts - judge.counts).elements()), list((judge.counts - rows.counts).elements())
    return f"only of DuckDB {more[:3]}, only of the oracle {less[:3]}".replace("\x1f", " | ")
