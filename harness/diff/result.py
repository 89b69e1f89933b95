"""The findings of a comparison, or of many, as plain values: every report is made from them."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.diff.tolerances import Tolerance
from harness.errors import HarnessError, UnsupportedError, counted, visible


class SchemaKind(enum.Enum):
    """The kinds of difference of two schemas in a column; the values are the words of the reports."""

    ONLY_LEFT = "only on the left"
    ONLY_RIGHT = "only on the right"
    TYPE = "different type"
    RECONCILED = "reconciled types"  # different, compared by value by a rule; reported, and no difference
    INCOMPARABLE = "incomparable types"  # different, and values of one are not compared with values of the other
    NULLABLE = "different nullability"  # reported, and no difference
    ORDER = "different order of columns"  # reported, and no difference


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """A column that differs in the schemas of both sides.

    left, right: what each side says (a type, `nullable`, a place from 1); None: it has no such column. rule: of types
        that are reconciled, the rule by which they are.
    """

    column: str
    kind: SchemaKind
    left: str | None
    right: str | None
    rule: str | None = None

    @property
    def words(self) -> str:
        """The kind of the difference, as reports say it."""
        return self.kind.value if self.rule is None else f"{self.kind.value}: {self.rule}"

    @property
    def counts(self) -> bool:
        """Tells whether this makes the two sides differ."""
        return self.kind not in (SchemaKind.RECONCILED, SchemaKind.NULLABLE, SchemaKind.ORDER)


class RowKind(enum.Enum):
    """The kinds of differing rows; the values are the words of the reports."""

    ONLY_LEFT = "only on the left"
    ONLY_RIGHT = "only on the right"
    CHANGED = "changed"  # the same key, other values; only where keys are given


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The origin of a row of a planned table.

    file: the data file, as recorded. position: the physical row in it, from 0. hidden_by: the delete files that hide
    this row on the other side, as recorded; of several position delete files that hit the data file, all.
    """

    file: str
    position: int
    hidden_by: tuple[str, ...] = ()


ABSENT = "absent"
"""The text in reports for a side without an entry that the other side's map has."""


@dataclass(frozen=True, slots=True)
class PartDifference:
    """A part of a nested value that differs between two rows.

    column: of the value. path: the part with its column, such as `s.x`, `l[1]` for the first element of a list or
    `m['k']` for the value of a key. left, right: printed as in `RowDifference`; None: this side has no such entry.
    """

    column: str
    path: str
    left: str | None
    right: str | None

    @property
    def values(self) -> tuple[str, str]:
        """Both values, as reports show them."""
        return (ABSENT if self.left is None else self.left, ABSENT if self.right is None else self.right)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDifference:
    """A row that the sides have a different number of, or with keys, one whose other columns differ.

    left, right: the values, printed so that a difference is visible, in the order of `ComparisonResult.columns`; None:
    the side has no such row. count: how many more of it that side has; 1 for a changed row. differing: names of the
    columns that differ; for a changed row, and for one with a partner. partner: index in `ComparisonResult.rows` of the
    row of the other side that is most like this one, sharing at least half of its columns; each is the other's partner.
    None: there is none, or rows are paired by key. left_origins, right_origins: at most as many as `count`; empty for a
    side that is no table. parts: of the nested values in `differing`, the parts that differ, and where `has_more_parts`
    not all of them.
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
    """The differences in one column, among rows that are paired.

    rows: how many pairs differ in it. allowed: how many more differ, within its tolerance. left_nulls, right_nulls: of
    `rows`, how many are null on that side. largest: how far the values lie apart where they do most, printed; None:
    they cannot be subtracted. examples: some values of both sides, printed as in `RowDifference`. paths: of a column of
    nested values, the differing part whose values each example shows, as in `PartDifference`.
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
    """The number of differing rows of a group. values: printed; those of the left side for a changed row."""

    values: tuple[str, ...]
    changed: int = 0
    only_left: int = 0
    only_right: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The number of differing rows by where they lie.

    places: ranges of a key in their order, empty ones too, or those data files that hold most, each with its side:
    `left`, `right` or `both`. rows: how many differing rows were looked at, each counted as often as it occurs. total:
    how many places there are. is_whole: the ranges lie between the keys of all rows, not of those looked at alone.
    """

    places: tuple[GroupDifference, ...]
    rows: int
    total: int
    is_whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SideInfo:
    """A side, for the reports.

    name: the caller's, or the kind of object. engine: name and version, such as `duckdb 2.0.0`. table, format,
    snapshot: of a planned table, else None. rows: None: it failed, or none were read. error: why it gave no rows.
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
        """The snapshot or version in words."""
        return (
            None if self.snapshot is None else f"{'version' if self.format == 'delta' else 'snapshot'} {self.snapshot}"
        )


class ComparisonOutcome(enum.Enum):
    """The outcomes of a comparison; the values are the words of the JSON report."""

    EQUAL = "equal"
    DIFFERENT = "different"
    DIFFERENT_OUTCOME = "different outcome"  # one side failed, the other did not
    FAILED = "could not compare"  # both sides failed, or one declined


def _outcome_words(side: SideInfo) -> str:
    if side.error is not None:
        return f"failed with {type(side.error).__name__}"
    return "gave rows" if side.rows is None else f"gave {counted(side.rows, 'row')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportProvenance:
    """The making of a report. at: in UTC, to the second. version: of harness. command: without secrets."""

    at: str
    version: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonResult:
    """All that a comparison found.

    columns: the compared columns: those that both sides have in comparable types, in the left side's order. keys: by
    which rows were paired; empty: none. schema: differences of the schemas. rows: differing rows, changed ones first,
    then those only on the left, then those only on the right; not all of them where `truncated`. only_left, only_right,
    changed: how many rows differ, each row counted as often as it occurs; exact, whatever `rows` holds. allowed: how
    many pairs of rows differ within tolerances alone, which is no difference. by_column: the columns that differ, with
    keys of all pairs of rows, without of the alike ones in `rows`. grouped_by, by_group: the columns that differing
    rows are counted by, and the groups, those with most of them first, of `groups` in all. by_key: differing rows by
    ranges of the first of `keys`. by_file: by data file, where a side is a table. relaxations: a line each.
    schema_only: no rows were read. made: None: not by a command.
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
        """Tells whether both sides failed or one declined to read, so that nothing could be compared."""
        return self.outcome is ComparisonOutcome.FAILED

    @property
    def outcomes_differ(self) -> bool:
        """Tells whether one side failed and the other did not."""
        return self.outcome is ComparisonOutcome.DIFFERENT_OUTCOME

    @property
    def equal(self) -> bool:
        """Tells whether both sides gave rows, and no difference was found that counts."""
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
        """The number of schema differences that count."""
        return sum(difference.counts for difference in self.schema)

    @property
    def differing(self) -> int:
        """The number of differing rows, each counted as often as it occurs."""
        return self.changed + self.only_left + self.only_right

    @property
    def rows_shown(self) -> int:
        """The number of differing rows in `rows`, each counted as often as it occurs."""
        return sum(row.count for row in self.rows)

    @property
    def sentence(self) -> str:
        """The verdict with its counts, on one line, without a full stop."""
        match self.outcome:
            case ComparisonOutcome.EQUAL if self.schema_only:
                return f"no difference of schema in {counted(len(self.columns), 'column')}"
            case ComparisonOutcome.EQUAL:
                return f"no difference in {counted(self.left.rows or 0, 'row')}"
            case ComparisonOutcome.FAILED:
                failed = [name for name in ("left", "right") if getattr(self, name).error is not None]
                return "both sides failed" if len(failed) > 1 else f"the {failed[0]} side declined to read"
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
        """The verdict, both sides, and where rows differ; `to_text` has the rows too."""
        from harness.diff.reports.where import where_lines

        sides = []
        for word, side in (("left", self.left), ("right", self.right)):
            known = filter(None, (side.name, side.engine, side.table, side.point, _outcome_words(side)))
            sides.append(visible(f"  {word}: {', '.join(known)}"))
        where = [*where_lines(self, most=5)]
        framed = ["", *where, ""] if where else []
        return "\n".join([f"{self.outcome.value}: {self.sentence}", *sides, *framed, "  all of it: .to_text()"])

    def _repr_html_(self) -> str:
        """The page of `to_html` with its first rows in a frame of its own, and its text, for notebooks."""
        from harness.diff.reports.html import MOST_FRAMED_ROWS, notebook_frame, to_html
        from harness.diff.reports.text import to_text

        return notebook_frame(to_html(self, MOST_FRAMED_ROWS), to_text(self, most=MOST_FRAMED_ROWS))

    def to_text(self) -> str:
        """The report for a terminal or a log, see `harness.diff.reports.text`."""
        from harness.diff.reports.text import to_text

        return to_text(self)

    def to_json(self) -> str:
        """The report as one JSON document, see `harness.diff.reports.documents`."""
        from harness.diff.reports.documents import to_json

        return to_json(self)

    def to_junit(self) -> str:
        """The report as JUnit XML, for CI servers, see `harness.diff.reports.documents`."""
        from harness.diff.reports.documents import to_junit

        return to_junit(self)

    def to_html(self) -> str:
        """The report as one HTML file that needs no network, see `harness.diff.reports.html`."""
        from harness.diff.reports.html import to_html

        return to_html(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFile:
    """A query, and how its results are compared.

    name: for reports. text: in the dialect of the batch. keys: by which rows are paired; empty: by none. tolerance,
    exclude: as for `harness.compare`.
    """

    name: str
    text: str
    keys: tuple[str, ...] = ()
    tolerance: Mapping[str, Tolerance] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()


class BatchOutcome(enum.Enum):
    """The outcomes of one comparison of many; the values are the words of the reports."""

    EQUAL = "equal"
    ALLOWED = "allowed difference"  # within tolerances or allowances, each of them printed
    DIFFERENT = "different"
    REFUSED = "refused"  # nothing was compared: it is not certain what to run
    FAILED = "failed"  # nothing was compared: both sides failed, or there is nothing to read


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEntry:
    """A comparison.

    name: the query's file or the table. message: the finding in a sentence. report: that of the comparison, as text;
    document: the same in JSON; None: nothing was compared. asked: the queries and commands of a difference, for people,
    if its report has them. left_seconds, right_seconds: None: not measured.
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
    """The findings of many comparisons.

    title: what was compared. sides: what the left and the right side is called. made: None: not by a command.
    """

    title: str
    sides: tuple[str, str]
    entries: tuple[BatchEntry, ...]
    made: ReportProvenance | None = field(default=None, compare=False)

    def count(self, outcome: BatchOutcome) -> int:
        """The number of comparisons with this outcome."""
        return sum(entry.outcome is outcome for entry in self.entries)

    @property
    def equal(self) -> bool:
        """Tells whether all were compared, and none is different."""
        return all(entry.outcome in (BatchOutcome.EQUAL, BatchOutcome.ALLOWED) for entry in self.entries)

    def _repr_html_(self) -> str:
        """The page of `harness.diff.reports.batch` in a frame of its own, and its text, for notebooks."""
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
    """A comparison as an entry. message: the allowances within which alone it is equal."""
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
