"""The result of a comparison of two plans, as plain values."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.diff.result import ComparisonOutcome, ComparisonResult, ReportProvenance
from harness.errors import HarnessError, UnsupportedError, counted

SERVER, CLIENT, SAVED = "server", "client", "saved"
"""The kinds of plans: made by the catalog's server, made by harness from the metadata files, and made earlier."""


class PlanDifferenceKind(enum.Enum):
    """The kinds of difference between two plans. The values are the words used in reports."""

    MISSING_FILE = "missing file"
    ADDED_FILE = "added file"
    REPEATED_FILE = "repeated file"
    MISSING_DELETE = "missing delete"
    ADDED_DELETE = "added delete"
    DIFFERENT_DELETE = "different delete"
    SEQUENCE_NUMBER = "different sequence number"
    DROPPED_RESIDUAL = "dropped residual"
    WIDER_RESIDUAL = "wider residual"
    NARROWER_RESIDUAL = "narrower residual"
    DIFFERENT_RESIDUAL = "different residual"  # the residual is invalid, or no rows were read and it may be equivalent
    PARTITION = "different partition"
    FORMAT = "different file format"
    FIRST_ROW_ID = "different first row id"
    STATISTICS = "different statistic"
    SKIPPED_FILE = "skipped file"  # reported, but not counted as a difference
    SIZE = "different size"  # reported, but not counted as a difference

    @property
    def counts(self) -> bool:
        """True if the two plans differ because of a difference of this kind."""
        return self not in (PlanDifferenceKind.SKIPPED_FILE, PlanDifferenceKind.SIZE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDifference:
    """A difference between two plans in one data file.

    Attributes:
        kind: The kind of difference.
        file: The recorded path of the data file.
        sentence: The difference in one line, without a period at the end. Paths inside the table are relative to it.
        delete: The recorded path of the delete file that differs, otherwise None.
        rows: For a file that one plan lacks, the number of its rows that match the filter. For a residual, the number
            of rows that only the residual or only the filter keeps. None for other kinds, or if no rows were read.
    """

    kind: PlanDifferenceKind
    file: str
    sentence: str
    delete: str | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSide:
    """A plan, as described in reports.

    Attributes:
        name: `server`, `client`, or `saved`.
        files: The number of data files in the plan, or None if the plan could not be made.
        deletes: The number of delete files and deletion vectors in the plan.
        error: The error, if the plan could not be made.
        refusal: The error if harness refuses to read the plan, otherwise None. A refusal counts as a difference.
    """

    name: str
    files: int | None = None
    deletes: int | None = None
    error: HarnessError | None = field(default=None, compare=False)
    refusal: HarnessError | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanComparison:
    """The result of `harness.compare_plans`.

    Attributes:
        table: The table's name or location.
        snapshot: The snapshot id, or None if the table has no snapshot.
        where: The filter of the plans, or None for all rows.
        left: The left plan.
        right: The right plan.
        differences: The differences in the first files that differ, in the order of the files. Incomplete if
            `truncated`.
        counts: The number of all differences by kind, including differences that are not in `differences`.
        files: The number of all data files that differ.
        truncated: True if `differences` does not hold all differences.
        notes: Sentences about properties of a whole plan that do not count as differences.
        rows: The comparison of the rows in files that differ in more than residuals and statistics. None if there are
            no such files, or if no rows were read.
        rows_read: True if the rows of differing files could be read to decide about differences.
        made: How the report was made, or None if it was not made by a command.
    """

    table: str
    snapshot: int | None
    where: str | None
    left: PlanSide
    right: PlanSide
    differences: tuple[PlanDifference, ...] = ()
    counts: Mapping[PlanDifferenceKind, int] = field(default_factory=dict)
    files: int = 0
    truncated: bool = False
    notes: tuple[str, ...] = ()
    rows: ComparisonResult | None = None
    rows_read: bool = True
    made: ReportProvenance | None = field(default=None, compare=False)

    @property
    def outcome(self) -> ComparisonOutcome:
        """The outcome of the comparison."""
        errors = [side.error for side in (self.left, self.right) if side.error is not None]
        if errors:
            incomparable = len(errors) > 1 or isinstance(errors[0], UnsupportedError)
            return ComparisonOutcome.FAILED if incomparable else ComparisonOutcome.DIFFERENT_OUTCOME
        rows_differ = self.rows is not None and not self.rows.equal
        is_refused = any(side.refusal is not None for side in (self.left, self.right))
        is_different = rows_differ or is_refused or self.files > 0
        return ComparisonOutcome.DIFFERENT if is_different else ComparisonOutcome.EQUAL

    @property
    def equal(self) -> bool:
        """True if both plans were made and do not differ, apart from differences that do not count."""
        return self.outcome is ComparisonOutcome.EQUAL

    @property
    def failed(self) -> bool:
        """True if nothing could be compared, because both plans failed or one was refused."""
        return self.outcome is ComparisonOutcome.FAILED

    @property
    def sentence(self) -> str:
        """The outcome with its counts, on one line and without a period at the end."""
        match self.outcome:
            case ComparisonOutcome.EQUAL:
                return f"no difference in {counted(self.right.files or 0, 'file')}"
            case ComparisonOutcome.DIFFERENT:
                counts = [counted(number, kind.value) for kind, number in self.counts.items() if kind.counts]
                parts = [f"{counted(self.files, 'file')} differ{'s' if self.files == 1 else ''}: {', '.join(counts)}"]
                sides = (self.left, self.right)
                refused = [f"harness refuses the {each.name} plan" for each in sides if each.refusal is not None]
                rows = [] if self.rows is None else [f"rows: {self.rows.sentence}"]
                return "; ".join((*(parts if self.files else ()), *refused, *rows))
            case _:
                failed = [side for side in (self.left, self.right) if side.error is not None]
                if len(failed) > 1:
                    return "neither plan could be made"
                return f"the {failed[0].name} plan failed with {type(failed[0].error).__name__}"

    def __repr__(self) -> str:
        return f"PlanComparison({self.outcome.value}: {self.sentence})"

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        """Return the HTML report in a frame and the text report, for notebooks."""
        from harness.diff.reports.html import notebook_frame

        return notebook_frame(self.to_html(), self.to_text())

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, as `docs/reference/json.md` describes them."""
        document: dict[str, Any] = json.loads(self.to_json())
        return document

    def to_text(self) -> str:
        """Return the report for a terminal or a log, see `harness.diff.reports.plans`."""
        from harness.diff.reports.plans import to_text

        return to_text(self)

    def to_json(self) -> str:
        """Return the report as a JSON document, see `harness.diff.reports.plans`."""
        from harness.diff.reports.plans import to_json

        return to_json(self)

    def to_junit(self) -> str:
        """Return the report as JUnit XML for CI servers, see `harness.diff.reports.plans`."""
        from harness.diff.reports.plans import to_junit

        return to_junit(self)

    def to_html(self) -> str:
        """Return the report as one HTML file that needs no network, see `harness.diff.reports.plans`."""
        from harness.diff.reports.plans import to_html

        return to_html(self)
