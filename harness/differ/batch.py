"""Many comparisons as one result: of queries, or of the tables of two catalogs."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.differ.relaxations import NOTHING, Relaxations
from harness.differ.result import ComparisonResult


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFile:
    """A query, and how its results are compared.

    name: for reports. text: in the dialect of the batch. keys: by which rows are paired; empty: by none.
    """

    name: str
    text: str
    keys: tuple[str, ...] = ()
    relaxations: Relaxations = NOTHING


class BatchOutcome(enum.Enum):
    """What one comparison comes to; the values are the words of the reports."""

    EQUAL = "equal"
    ALLOWED = "allowed difference"  # within tolerances or allowances, each of them printed
    DIFFERENT = "different"
    REFUSED = "refused"  # nothing was compared: it is not certain what to run
    FAILED = "failed"  # nothing was compared: both sides failed, or there is nothing to read


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEntry:
    """One comparison.

    name: the query's file or the table. message: the finding in a sentence. report: that of the comparison, as text;
    document: the same as the JSON report has it; None: nothing was compared. left_seconds, right_seconds: how long each
    side took; None: not measured for the side alone.
    """

    name: str
    outcome: BatchOutcome
    message: str
    report: str | None = None
    document: Mapping[str, Any] | None = None
    left_seconds: float | None = None
    right_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What many comparisons found.

    title: what was compared, for reports. sides: what the left and the right side is called.
    """

    title: str
    sides: tuple[str, str]
    entries: tuple[BatchEntry, ...]

    def count(self, outcome: BatchOutcome) -> int:
        """How many comparisons came to this."""
        return sum(entry.outcome is outcome for entry in self.entries)

    @property
    def equal(self) -> bool:
        """Whether all were compared, and none is different."""
        return all(entry.outcome in (BatchOutcome.EQUAL, BatchOutcome.ALLOWED) for entry in self.entries)

    def _repr_html_(self) -> str:
        """For notebooks: the page of `harness.differ.reports.batch` in a frame of its own, and its text."""
        from harness.differ.reports import batch
        from harness.differ.reports.page import framed

        return framed(batch.to_html(self), batch.to_text(self))


def entry_of(
    name: str,
    comparison: ComparisonResult,
    *,
    message: str | None = None,
    allowed: bool = False,
    seconds: tuple[float | None, float | None] = (None, None),
) -> BatchEntry:
    """A comparison as an entry. allowed: equal only because of tolerances; message: in place of the usual sentence."""
    from harness.differ.reports.json_report import to_json
    from harness.differ.reports.text import to_text
    from harness.differ.reports.verdict import sentence

    if comparison.failed:
        outcome, message = BatchOutcome.FAILED, f"both sides failed: {comparison.left.error}"
    elif not comparison.equal:
        outcome = BatchOutcome.DIFFERENT
    elif allowed or comparison.allowed:
        outcome = BatchOutcome.ALLOWED
    else:
        outcome = BatchOutcome.EQUAL
    return BatchEntry(
        name=name,
        outcome=outcome,
        message=message or sentence(comparison),
        report=to_text(comparison),
        document=json.loads(to_json(comparison)),
        left_seconds=seconds[0],
        right_seconds=seconds[1],
    )
