"""What a comparison comes to, in a word and in a sentence; and the words that all reports share."""

from __future__ import annotations

import enum

from harness.differ.result import ComparisonResult, SideInfo


class Verdict(enum.Enum):
    """What a comparison comes to; the values are the words of the JSON report."""

    EQUAL = "equal"
    DIFFERENT = "different"
    OUTCOME = "different outcome"  # one side failed, the other did not
    FAILED = "could not compare"  # both sides failed


def verdict(comparison: ComparisonResult) -> Verdict:
    """What the comparison comes to."""
    if comparison.failed:
        return Verdict.FAILED
    if comparison.outcomes_differ:
        return Verdict.OUTCOME
    return Verdict.EQUAL if comparison.equal else Verdict.DIFFERENT


def sentence(comparison: ComparisonResult) -> str:
    """The verdict with its counts, on one line, without a full stop."""
    match verdict(comparison):
        case Verdict.EQUAL:
            assert comparison.left.rows is not None
            return f"no difference in {counted(comparison.left.rows, 'row')}"
        case Verdict.FAILED:
            return "both sides failed"
        case Verdict.OUTCOME:
            return f"the left side {_outcome(comparison.left)}, the right side {_outcome(comparison.right)}"
        case Verdict.DIFFERENT:
            return ", ".join(_differences(comparison))


def counted(number: int, noun: str) -> str:
    """`1 row`, `2,000 rows`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def engine_and_place(side: SideInfo) -> str:
    """Engine, table and snapshot of a side, as far as it has them."""
    place = [] if side.table is None else [side.table]
    place += [] if side.snapshot is None else [f"snapshot {side.snapshot}"]
    return ", ".join([side.engine, *place])


def shown_rows(comparison: ComparisonResult) -> int:
    """How many of the differing rows the comparison holds, each counted as often as it occurs."""
    return sum(row.count for row in comparison.rows)


def differing_rows(comparison: ComparisonResult) -> int:
    """How many rows differ, each counted as often as it occurs."""
    return comparison.changed + comparison.only_left + comparison.only_right


def _differences(comparison: ComparisonResult) -> list[str]:
    counts = [
        (comparison.changed, "row", "changed"),
        (comparison.only_left, "row", "only on the left"),
        (comparison.only_right, "row", "only on the right"),
        (sum(difference.counts for difference in comparison.schema), "column", "of different schema"),
    ]
    return [f"{counted(number, noun)} {what}" for number, noun, what in counts if number]


def _outcome(side: SideInfo) -> str:
    if side.error is not None:
        return f"failed with {type(side.error).__name__}"
    return "gave rows" if side.rows is None else f"gave {counted(side.rows, 'row')}"
