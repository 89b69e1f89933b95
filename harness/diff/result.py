"""The results of one comparison or many, as plain values. All reports are made from them."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.diff.tolerances import Tolerance
from harness.errors import HarnessError, UnsupportedError, counted, visible


class SchemaKind(enum.Enum):
    """The kinds of difference between two schemas. The values are the words used in reports."""

    ONLY_LEFT = "only on the left"
    ONLY_RIGHT = "only on the right"
    TYPE = "different type"
    # different, but compared by value under a rule; reported, but not counted as a difference
    RECONCILED = "reconciled types"
    INCOMPARABLE = "incomparable types"  # different, and their values cannot be compared
    NULLABLE = "different nullability"  # reported, but not counted as a difference
    ORDER = "different order of columns"  # reported, but not counted as a difference


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """A column that differs between the two schemas.

    Attributes:
        column: The column or field, as a path.
        kind: The kind of difference.
        left: The value in the left schema (a type, `nullable`, or a position from 1), or None if it has no such column.
        right: The same for the right schema.
        rule: The rule by which two types are reconciled, otherwise None.
    """

    column: str
    kind: SchemaKind
    left: str | None
    right: str | None
    rule: str | None = None

    @property
    def words(self) -> str:
        """The kind of difference in the words of the reports."""
        return self.kind.value if self.rule is None else f"{self.kind.value}: {self.rule}"

    @property
    def counts(self) -> bool:
        """True if this difference makes the two sides different."""
        return self.kind not in (SchemaKind.RECONCILED, SchemaKind.NULLABLE, SchemaKind.ORDER)


class RowKind(enum.Enum):
    """The kinds of differing rows. The values are the words used in reports."""

    ONLY_LEFT = "only on the left"
    ONLY_RIGHT = "only on the right"
    CHANGED = "changed"  # the same key with other values; only if keys are given


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The data file that a row of a planned table comes from.

    Attributes:
        file: The recorded path of the data file.
        position: The physical row in the file, from 0.
        hidden_by: The recorded paths of the delete files that hide this row on the opposite side. If several position
            delete files apply to the data file, all are listed.
    """

    file: str
    position: int
    hidden_by: tuple[str, ...] = ()


ABSENT = "absent"
"""The text in reports if a side's map has no entry for a key of the opposite side's map."""


@dataclass(frozen=True, slots=True)
class PartDifference:
    """A part of a nested value that differs between two rows.

    Attributes:
        column: The column of the value.
        path: The part with its column, like `s.x`, `l[1]` for the first element of a list, or `m['k']` for the value of
            a key.
        left: The left value, printed as in `RowDifference`, or None if the left side has no such entry.
        right: The same for the right side.
    """

    column: str
    path: str
    left: str | None
    right: str | None

    @property
    def values(self) -> tuple[str, str]:
        """Both values as shown in reports."""
        return (ABSENT if self.left is None else self.left, ABSENT if self.right is None else self.right)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDifference:
    """A row that one side has more often than the other or, with keys, a row whose other columns differ.

    Attributes:
        kind: The kind of difference.
        count: The number of surplus rows on that side; 1 for a changed row.
        left: The left values in the order of `ComparisonResult.columns`, printed so that differences are visible. None
            if the left side has no such row.
        right: The same for the right side.
        differing: The names of the columns that differ, if the row is changed or has a partner.
        partner: The index in `ComparisonResult.rows` of the most similar row of the opposite side, which shares at
            least half of its columns. Partners are mutual. None if there is none, or if rows are paired by key.
        left_origins: The origins of the row on the left side, at most `count` places. Empty if the side is not a table.
        right_origins: The same for the right side.
        parts: The parts that differ in nested values of the columns in `differing`.
        has_more_parts: True if `parts` does not list all differing parts.
    """

    kind: RowKind
    count: int = 1
    left: tuple[str, ...] | None
    right: tuple[str, ...] | None
    differing: tuple[str, ...] = ()
    partner: int | None = None
    left_origins: tuple[Origin, ...] = ()
    right_origins: tuple[Origin, ...] = ()
    parts: tuple[PartDifference, ...] = ()
    has_more_parts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDifference:
    """The differences in one column, among paired rows.

    Attributes:
        column: The column.
        rows: The number of pairs that differ in the column.
        allowed: The number of further pairs that differ within the tolerance.
        left_nulls: The number of pairs in `rows` with null on the left side.
        right_nulls: The number of pairs in `rows` with null on the right side.
        largest: The largest distance between two values as text, or None if they cannot be subtracted.
        examples: Some values of both sides, printed as in `RowDifference`.
        paths: For nested values, the differing part that each example shows, as in `PartDifference`.
    """

    column: str
    rows: int
    allowed: int = 0
    left_nulls: int = 0
    right_nulls: int = 0
    largest: str | None = None
    examples: tuple[tuple[str, str], ...] = ()
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDifference:
    """The number of differing rows in a group.

    Attributes:
        values: The group's values as text. A changed row is in the group of its left values.
        changed: The number of changed rows.
        only_left: The number of rows only on the left.
        only_right: The number of rows only on the right.
    """

    values: tuple[str, ...]
    changed: int = 0
    only_left: int = 0
    only_right: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The number of differing rows by place: by range of a key, or by data file.

    Attributes:
        places: Key ranges in their order, including empty ones; or the data files with the most differing rows, each
            with its side, `left`, `right`, or `both`.
        rows: The number of differing rows that were counted; a row that occurs several times counts each time.
        total: The number of all places.
        is_whole: True if the ranges span the keys of all rows, not only of the rows that were counted.
    """

    places: tuple[GroupDifference, ...]
    rows: int
    total: int
    is_whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SideInfo:
    """A side, as described in reports.

    Attributes:
        name: The user's name for the side, or the kind of object.
        engine: The engine's name and version, for example `duckdb 2.0.0`.
        table: The location of a planned table, otherwise None.
        snapshot: The snapshot id or version of a planned table, otherwise None.
        rows: The number of rows, or None if the side failed or was not read.
        format: The format of a planned table, otherwise None.
        error: The error, if the side failed.
    """

    name: str
    engine: str
    table: str | None = None
    snapshot: int | None = None
    rows: int | None = None
    format: str | None = None
    error: HarnessError | None = field(default=None, compare=False)

    @property
    def point(self) -> str | None:
        """The snapshot or version as text."""
        return (
            None if self.snapshot is None else f"{'version' if self.format == 'delta' else 'snapshot'} {self.snapshot}"
        )


class ComparisonOutcome(enum.Enum):
    """The outcomes of a comparison. The values are the words of the JSON report's key `verdict`."""

    EQUAL = "equal"
    DIFFERENT = "different"
    DIFFERENT_OUTCOME = "different outcome"  # only one side failed
    FAILED = "could not compare"  # both sides failed, or one refused to read


def _outcome_words(side: SideInfo) -> str:
    if side.error is not None:
        return f"failed with {type(side.error).__name__}"
    return "returned rows" if side.rows is None else f"returned {counted(side.rows, 'row')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportProvenance:
    """How a report was made.

    Attributes:
        at: The time in UTC, to the second.
        version: The version of harness.
        command: The command, without secrets.
    """

    at: str
    version: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonResult:
    """The result of a comparison.

    Attributes:
        left: The left side.
        right: The right side.
        columns: The compared columns: those that both sides have in comparable types, in the order of the left side.
        keys: The columns by which rows were paired. Empty: rows were counted.
        schema: The differences of the schemas.
        rows: Differing rows: changed rows, then rows only on the left, then rows only on the right. Incomplete if
            `truncated`.
        only_left: The number of rows only on the left. This and the next two counts are exact, regardless of `rows`; a
            row that occurs several times counts each time.
        only_right: The number of rows only on the right.
        changed: The number of changed rows.
        truncated: True if `rows` does not hold all differing rows.
        allowed: The number of pairs of rows that differ only within tolerances, which does not count as a difference.
        by_column: The columns that differ. With keys, all pairs of rows are counted; without keys, the similar rows in
            `rows`.
        grouped_by: The columns by whose values differing rows are counted in `by_group`.
        by_group: The groups with the most differing rows.
        groups: The number of all groups.
        by_key: The differing rows by ranges of the first of `keys`.
        by_file: The differing rows by data file, if a side is a table.
        relaxations: A line for each kind of difference that does not count.
        schema_only: True if no rows were read.
        made: How the report was made, or None if it was not made by a command.
    """

    left: SideInfo
    right: SideInfo
    columns: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    schema: tuple[SchemaDifference, ...] = ()
    rows: tuple[RowDifference, ...] = ()
    only_left: int = 0
    only_right: int = 0
    changed: int = 0
    truncated: bool = False
    allowed: int = 0
    by_column: tuple[ColumnDifference, ...] = ()
    grouped_by: tuple[str, ...] = ()
    by_group: tuple[GroupDifference, ...] = ()
    groups: int = 0
    by_key: Spread | None = None
    by_file: Spread | None = None
    relaxations: tuple[str, ...] = ()
    schema_only: bool = False
    made: ReportProvenance | None = field(default=None, compare=False)

    @property
    def failed(self) -> bool:
        """True if nothing could be compared, because both sides failed or one refused to read."""
        return self.outcome is ComparisonOutcome.FAILED

    @property
    def outcomes_differ(self) -> bool:
        """True if one side failed and the opposite side did not."""
        return self.outcome is ComparisonOutcome.DIFFERENT_OUTCOME

    @property
    def equal(self) -> bool:
        """True if both sides returned rows and do not differ, apart from differences that do not count."""
        return self.outcome is ComparisonOutcome.EQUAL

    @property
    def outcome(self) -> ComparisonOutcome:
        """The outcome of the comparison."""
        errors = [side.error for side in (self.left, self.right) if side.error is not None]
        if errors:
            incomparable = len(errors) > 1 or isinstance(errors[0], UnsupportedError)
            return ComparisonOutcome.FAILED if incomparable else ComparisonOutcome.DIFFERENT_OUTCOME
        return (
            ComparisonOutcome.DIFFERENT
            if self.differing or self.counted_schema_differences
            else ComparisonOutcome.EQUAL
        )

    @property
    def counted_schema_differences(self) -> int:
        """The number of schema differences that make the sides different."""
        return sum(difference.counts for difference in self.schema)

    @property
    def differing(self) -> int:
        """The number of differing rows; a row that occurs several times counts each time."""
        return self.changed + self.only_left + self.only_right

    @property
    def rows_shown(self) -> int:
        """The number of differing rows in `rows`; a row that occurs several times counts each time."""
        return sum(row.count for row in self.rows)

    @property
    def sentence(self) -> str:
        """The outcome with its counts, on one line and without a period at the end."""
        match self.outcome:
            case ComparisonOutcome.EQUAL if self.schema_only:
                return f"no schema difference in {counted(len(self.columns), 'column')}"
            case ComparisonOutcome.EQUAL:
                return f"no difference in {counted(self.left.rows or 0, 'row')}"
            case ComparisonOutcome.FAILED:
                failed = [name for name in ("left", "right") if getattr(self, name).error is not None]
                return "both sides failed" if len(failed) > 1 else f"the {failed[0]} side refused to read"
            case ComparisonOutcome.DIFFERENT_OUTCOME:
                return f"the left side {_outcome_words(self.left)}, the right side {_outcome_words(self.right)}"
            case ComparisonOutcome.DIFFERENT:
                counts = [
                    (self.changed, "row", "changed"),
                    (self.only_left, "row", "only on the left"),
                    (self.only_right, "row", "only on the right"),
                    (self.counted_schema_differences, "column", "of different schema"),
                ]
                return ", ".join(f"{counted(number, noun)} {what}" for number, noun, what in counts if number)

    def __repr__(self) -> str:
        return f"ComparisonResult({self.outcome.value}: {self.sentence})"

    def __str__(self) -> str:
        """Return the outcome, both sides, and where rows differ. `to_text` adds the rows."""
        from harness.diff.reports.where import where_lines

        sides = []
        for word, side in (("left", self.left), ("right", self.right)):
            details = filter(None, (side.name, side.engine, side.table, side.point, _outcome_words(side)))
            sides.append(visible(f"  {word}: {', '.join(details)}"))
        where = [*where_lines(self, most=5)]
        framed = ["", *where, ""] if where else []
        return "\n".join([f"{self.outcome.value}: {self.sentence}", *sides, *framed, "  full report: .to_text()"])

    def _repr_html_(self) -> str:
        """Return the HTML report with its first rows in a frame, and its text, for notebooks."""
        from harness.diff.reports.html import MOST_FRAMED_ROWS, notebook_frame, to_html
        from harness.diff.reports.text import to_text

        return notebook_frame(to_html(self, MOST_FRAMED_ROWS), to_text(self, most=MOST_FRAMED_ROWS))

    def to_text(self) -> str:
        """Return the report for a terminal or a log, see `harness.diff.reports.text`."""
        from harness.diff.reports.text import to_text

        return to_text(self)

    def to_json(self) -> str:
        """Return the report as a JSON document, see `harness.diff.reports.documents`."""
        from harness.diff.reports.documents import to_json

        return to_json(self)

    def to_junit(self) -> str:
        """Return the report as JUnit XML for CI servers, see `harness.diff.reports.documents`."""
        from harness.diff.reports.documents import to_junit

        return to_junit(self)

    def to_html(self) -> str:
        """Return the report as one HTML file that needs no network, see `harness.diff.reports.html`."""
        from harness.diff.reports.html import to_html

        return to_html(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFile:
    """A query, with the options for comparing its results.

    Attributes:
        name: The query's name in reports.
        text: The query in the dialect of the batch.
        keys: The columns that pair rows. Empty: rows are counted.
        tolerance: As for `harness.compare`.
        exclude: As for `harness.compare`.
    """

    name: str
    text: str
    keys: tuple[str, ...] = ()
    tolerance: Mapping[str, Tolerance] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()


class BatchOutcome(enum.Enum):
    """The outcomes of one comparison in a batch. The values are the words used in reports."""

    EQUAL = "equal"
    ALLOWED = "allowed difference"  # within tolerances or allowances, all of which are printed
    DIFFERENT = "different"
    REFUSED = "refused"  # nothing was compared, because it is not certain what to run
    FAILED = "failed"  # nothing was compared, because both sides failed or there is nothing to read


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEntry:
    """One comparison in a batch.

    Attributes:
        name: The name of the query's file or of the table.
        outcome: The outcome.
        message: The result in one sentence.
        report: The comparison's report as text, or None if nothing was compared.
        document: The comparison's report as JSON, or None if nothing was compared.
        commands: The queries and commands that show a difference, if the report has them.
        left_seconds: The time of the left side, or None if it was not measured.
        right_seconds: The time of the right side, or None if it was not measured.
    """

    name: str
    outcome: BatchOutcome
    message: str
    report: str | None = None
    document: Mapping[str, Any] | None = None
    commands: tuple[str, ...] = ()
    left_seconds: float | None = None
    right_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The results of many comparisons.

    Attributes:
        title: A title that says which sides were compared.
        sides: The names of the left and the right side.
        entries: The comparisons.
        made: How the report was made, or None if it was not made by a command.
    """

    title: str
    sides: tuple[str, str]
    entries: tuple[BatchEntry, ...]
    made: ReportProvenance | None = field(default=None, compare=False)

    def count(self, outcome: BatchOutcome) -> int:
        """Return the number of comparisons with an outcome."""
        return sum(entry.outcome is outcome for entry in self.entries)

    @property
    def equal(self) -> bool:
        """True if everything was compared and all results are equal."""
        return all(entry.outcome in (BatchOutcome.EQUAL, BatchOutcome.ALLOWED) for entry in self.entries)

    def _repr_html_(self) -> str:
        """Return the HTML report of `harness.diff.reports.batch` in a frame, and its text, for notebooks."""
        from harness.diff.reports import batch
        from harness.diff.reports.html import notebook_frame

        return notebook_frame(batch.to_html(self), batch.to_text(self))


def batch_entry(
    name: str,
    comparison: ComparisonResult,
    *,
    message: str | None = None,
    seconds: tuple[float | None, float | None] = (None, None),
) -> BatchEntry:
    """Return a comparison as an entry of a batch.

    Args:
        name: The entry's name.
        comparison: The comparison.
        message: The allowances within which it is equal, if it is equal only because of them.
        seconds: The time of the left and the right side.
    """
    from harness.diff.reports.documents import to_json
    from harness.diff.reports.text import to_text

    if comparison.failed:
        error = comparison.left.error or comparison.right.error
        outcome, message = BatchOutcome.FAILED, f"{comparison.sentence}: {error}"
    elif not comparison.equal:
        outcome = BatchOutcome.DIFFERENT
    elif message is not None or comparison.allowed:
        outcome = BatchOutcome.ALLOWED
    else:
        outcome = BatchOutcome.EQUAL
    return BatchEntry(
        name=name,
        outcome=outcome,
        message=message or comparison.sentence,
        report=to_text(comparison),
        document=json.loads(to_json(comparison)),
        left_seconds=seconds[0],
        right_seconds=seconds[1],
    )
