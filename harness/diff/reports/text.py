"""The text report: plain lines for a terminal or the log of a CI job.

    rows (2 of 2 shown)
          id  region       total
       ~  7   'eu' → 'us'  1.50
          left: data/00001.parquet, row 6
       -  9   'eu'         2.00
          left: data/00001.parquet, row 8, hidden on the right by data/00003-deletes.parquet

`-` is the left side, `+` the right side, and `~` a changed row. If two similar rows are paired without a key, `^` marks
the values that differ. Rows that are too wide are printed as lists of their columns, with the left and the right value
side by side. Each differing part of a nested value has a line below its row: `s.x: 1 → 2`. Long values are cut where
they agree, and the report says so.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.diff.reports.where import where_lines
from harness.diff.result import (
    ColumnDifference,
    ComparisonResult,
    Origin,
    PartDifference,
    RowDifference,
    RowKind,
)
from harness.errors import counted, visible
from harness.metadata.model.text_tables import Column, align, cell_width, shorten, table_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPairing:
    """A differing row, or two rows that are shown together.

    Attributes:
        kind: The kind of difference, or None for two rows that are similar and have no key.
        left: The printed left values by column, or None if the left side has no such row.
        right: The same for the right side.
        left_count: The number of surplus rows on the left.
        right_count: The number of surplus rows on the right.
        marked: By column, whether the two rows differ there. All False for a single row.
        left_origins: As in `RowDifference`.
        right_origins: As in `RowDifference`.
        parts: As in `RowDifference`.
        has_more_parts: As in `RowDifference`.
    """

    kind: RowKind | None
    left: tuple[str, ...] | None
    right: tuple[str, ...] | None
    left_count: int
    right_count: int
    marked: tuple[bool, ...]
    left_origins: tuple[Origin, ...]
    right_origins: tuple[Origin, ...]
    parts: tuple[PartDifference, ...]
    has_more_parts: bool

    @property
    def label(self) -> str:
        """The kind in the words of the reports."""
        return "similar, not equal" if self.kind is None else self.kind.value

    @property
    def count(self) -> int:
        """The number of differing rows. A changed row counts once, although both sides have it."""
        return self.left_count if self.kind is RowKind.CHANGED else self.left_count + self.right_count


def pair_rows(comparison: ComparisonResult) -> tuple[RowPairing, ...]:
    """Return all rows of the comparison: changed rows, then pairs of similar rows, then rows without a partner."""
    rows = comparison.rows
    pairs: list[tuple[RowDifference | None, RowDifference | None]] = []
    pairs += [(row, row) for row in rows if row.kind is RowKind.CHANGED]
    pairs += [(row, rows[row.partner]) for row in rows if row.kind is RowKind.ONLY_LEFT and row.partner is not None]
    alone = [row for row in rows if row.kind is not RowKind.CHANGED and row.partner is None]
    pairs += [(row, None) if row.kind is RowKind.ONLY_LEFT else (None, row) for row in alone]
    return tuple(_pairing(left, right, comparison) for left, right in pairs)


def _pairing(left: RowDifference | None, right: RowDifference | None, comparison: ComparisonResult) -> RowPairing:
    row = left or right
    assert row is not None
    is_pair = left is not None and right is not None
    return RowPairing(
        kind=None if is_pair and left is not right else row.kind,
        left=None if left is None else left.left,
        right=None if right is None else right.right,
        left_count=0 if left is None else left.count,
        right_count=0 if right is None else right.count,
        marked=tuple(is_pair and column in row.differing for column in comparison.columns),
        left_origins=() if left is None else left.left_origins,
        right_origins=() if right is None else right.right_origins,
        parts=row.parts,
        has_more_parts=row.has_more_parts,
    )


_MOST_EXAMPLES = 2


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A heading, column names, and lines of cells.

    Attributes:
        title: The heading.
        names: The column names.
        lines: The cells of each line.
        numbers: The indexes of columns with numbers.
    """

    title: str
    names: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    numbers: frozenset[int]


def relaxation_lines(comparison: ComparisonResult) -> tuple[str, ...]:
    """Return a line for each kind of difference that did not count."""
    lines = list(comparison.relaxations)
    if comparison.allowed:
        lines.append(f"{counted(comparison.allowed, 'row')} within tolerances")
    if comparison.schema_only:
        lines.append("rows: only the schemas were compared")
    return tuple(lines)


def column_table(comparison: ComparisonResult, *, most: int | None = None) -> ReportTable | None:
    """Return a table of the columns that differ, those with the most differing rows first.

    Args:
        comparison: The comparison.
        most: The most columns to show. None: all columns.

    Returns:
        The table, or None if no differing column is known.
    """
    result = sorted(comparison.by_column, key=lambda each: (-each.rows, -each.allowed))
    if not result:
        return None
    differing = sum(each.rows > 0 for each in result)
    scope = "" if comparison.keys else ", of the similar rows below"
    title = f"columns ({differing:,} of {len(comparison.columns):,} differ{scope})"
    if most is not None and len(result) > most:
        title = f"{title[:-1]}; the {most} with most rows)"
    names = ("column", "rows", "within tolerance", "largest difference", "null left", "null right", "examples")
    column_indexes = [0, 1, *(i for i in range(2, 6) if any(_cells_of(each)[i] for each in result)), 6]
    return ReportTable(
        title,
        tuple(names[i] for i in column_indexes),
        tuple(tuple(_cells_of(each)[i] for i in column_indexes) for each in result[:most]),
        frozenset(place for place, i in enumerate(column_indexes) if i in (1, 2, 3, 4, 5)),
    )


def _cells_of(column: ColumnDifference) -> tuple[str, ...]:
    numbers = (column.rows, column.allowed, column.left_nulls, column.right_nulls)
    rows, allowed, left, right = (f"{number:,}" if number else "" for number in numbers)
    pairs = zip(column.paths or itertools.repeat(""), column.examples[:_MOST_EXAMPLES], strict=False)
    examples = "; ".join(f"{path}{': ' if path else ''}{a} → {b}" for path, (a, b) in pairs)
    return (column.column, rows or "0", allowed, column.largest or "", left, right, examples)


_WIDEST_VALUE = 60
_WIDEST_LINE = 140
_BEFORE_DIFFERENCE = 15
_WIDEST_CELL = 80
_NARROWEST = 20
_MOST_COLUMNS = 40


def to_text(comparison: ComparisonResult, width: int = _WIDEST_LINE, most: int | None = None) -> str:
    """Return the comparison as lines of text, each ending with a line feed and without other control characters.

    Args:
        comparison: The comparison.
        width: The largest width of tables, in terminal cells.
        most: The most rows, or pairs of similar rows, to show. None: all rows of the comparison.
    """
    relaxed = relaxation_lines(comparison)
    parts = [
        [f"{comparison.outcome.value}: {comparison.sentence}"],
        [*_sides(comparison)],
        [
            f"{word} failed: {type(side.error).__name__}: {visible(str(side.error))}"
            for word, side in (("left", comparison.left), ("right", comparison.right))
            if side.error is not None
        ],
        ["not counted as differences", *(f"  {visible(line)}" for line in relaxed)] if relaxed else [],
        [*_schema(comparison)],
        [*where_lines(comparison, width=width)],
        [*_totals(column_table(comparison, most=_MOST_COLUMNS), width)],
        [*_rows(comparison, width, most)],
    ]
    text = "\n\n".join("\n".join(line.rstrip() for line in part) for part in parts if part)
    return text + "\n"


def _sides(comparison: ComparisonResult) -> Iterator[str]:
    cells = []
    for word, side in (("left", comparison.left), ("right", comparison.right)):
        rows = "" if side.rows is None else counted(side.rows, "row")
        place = [] if side.table is None else [side.table]
        place += [] if side.point is None else [side.point]
        size = rows if side.error is None else "failed"
        cells.append((word, side.name, ", ".join([side.engine, *place]), size))
    yield from align(cells, (False, False, False, True))
    if comparison.columns:
        names = ", ".join(map(visible, comparison.columns[:_MOST_COLUMNS]))
        more = len(comparison.columns) - _MOST_COLUMNS
        names += f" and {more:,} more" if more > 0 else ""
        paired = f"; rows paired by {', '.join(map(visible, comparison.keys))}" if comparison.keys else ""
        yield f"compared {counted(len(comparison.columns), 'column')}: {names}{paired}"


def _schema(comparison: ComparisonResult) -> Iterator[str]:
    if not comparison.schema:
        return
    yield "schema"
    lines = [("", "column", "left", "right", "")]
    for difference in comparison.schema:
        mark, remark = ("!", "") if difference.counts else (" ", " (does not count)")
        left, right = difference.left or "-", difference.right or "-"
        lines.append((mark, difference.column, left, right, difference.words + remark))
    yield from ("  " + line for line in align(lines))


def _totals(table: ReportTable | None, width: int) -> Iterator[str]:
    if table is not None:
        yield visible(table.title)
        columns = [Column(name, to_right=i in table.numbers) for i, name in enumerate(table.names)]
        widest = max(_NARROWEST, width - _WIDEST_LINE + _WIDEST_CELL)
        short = [[shorten(visible(cell), widest) for cell in line] for line in table.lines]
        yield from (f"   {line}" for line in table_lines(columns, [short], width=max(width, _WIDEST_CELL) - 3))


def _rows(comparison: ComparisonResult, width: int, most: int | None) -> Iterator[str]:
    if not comparison.rows and not comparison.truncated:
        return
    rows = pair_rows(comparison)[:most]
    shown_count, differing = sum(row.count for row in rows), comparison.differing
    yield f"rows ({shown_count:,} of {differing:,} shown)"
    if rows:
        yield from _row_lines(rows, comparison, width)
    if shown_count < differing:
        yield f"{counted(differing - shown_count, 'more differing row')} not shown; the counts above are exact"


def _row_lines(rows: Sequence[RowPairing], comparison: ComparisonResult, width: int) -> Iterator[str]:
    header = ["", *map(visible, comparison.columns)]
    longest = min(max(map(cell_width, header)), _NARROWEST)
    widest = _WIDEST_VALUE if width >= _WIDEST_LINE else max((width - longest - 12) // 2, _NARROWEST)
    lines = [_lines(row, widest) for row in rows]
    widths = [max(map(cell_width, column)) for column in zip(header, *itertools.chain(*lines), strict=True)]
    if sum(widths) + 2 * len(widths) <= width:
        yield from _grid(rows, header, lines)
    else:
        for number, row in enumerate(rows, 1):
            yield from _record(number, row, comparison, widest)
    if any(cell_width(visible(value)) > widest for row in rows for value in (*(row.left or ()), *(row.right or ()))):
        yield f"values longer than {widest} characters are cut (…); the JSON report shows more of them"


def _grid(rows: Sequence[RowPairing], header: list[str], lines: list[list[list[str]]]) -> Iterator[str]:
    """Yield rows under a common header, the left row above the right row."""
    for row, row_lines in zip(rows, lines, strict=True):
        if any(row.marked) and row.kind is not RowKind.CHANGED:
            carets = ["^" * max(map(cell_width, pair)) for pair in zip(*row_lines, strict=True)][1:]
            row_lines.append(["", *(c if m else "" for c, m in zip(carets, row.marked, strict=True))])
    grid = align([header, *itertools.chain(*lines)])
    yield "  " + next(grid)
    indent = " " * (max(len(line[0]) for row_lines in lines for line in row_lines) + 4)
    for row, row_lines in zip(rows, lines, strict=True):
        yield from ("  " + line for line in itertools.islice(grid, len(row_lines)))
        yield from (f"{indent}{path}: {a} → {b}" for path, a, b in _part_cells(row, _WIDEST_VALUE))
        if row.has_more_parts:
            yield f"{indent}{MORE_PARTS}"
        yield from (f"{indent}{side}: {text}" for side, text in origin_texts(row))


def _record(number: int, row: RowPairing, comparison: ComparisonResult, widest: int) -> Iterator[str]:
    """Yield a row as a list of its columns. For two rows, only the keys and the differing columns are listed."""
    yield f"  {number}. {row.label}{count_phrase(row)}"
    left, right = _cells(row, widest)
    columns = [
        ("!" if marked else "", name, a, b)
        for name, marked, a, b in zip(comparison.columns, row.marked, left, right, strict=True)
        if not any(row.marked) or marked or name in comparison.keys
    ]
    parts: dict[str, list[tuple[str, ...]]] = {part.column: [] for part in row.parts}
    for part, cells in zip(row.parts, _part_cells(row, widest), strict=True):
        parts[part.column].append(("!", *cells))
    lines = [line for column in columns for line in parts.get(column[1], [column])]
    column_mask = (True, True, row.left is not None, row.right is not None)
    table = [tuple(itertools.compress(line, column_mask)) for line in (("", "column", "- left", "+ right"), *lines)]
    yield from ("     " + line for line in align(table))
    if row.has_more_parts:
        yield f"     {MORE_PARTS}"
    if len(columns) < len(comparison.columns):
        yield f"     {counted(len(comparison.columns) - len(columns), 'equal column')} left out"
    yield from (f"     {side}: {text}" for side, text in origin_texts(row))


def _lines(row: RowPairing, widest: int) -> list[list[str]]:
    """Return one or two grid lines for a row. Each has a mark and cells.

    A changed row has one line, whose differing cells show both values.
    """
    left, right = _cells(row, widest)
    if row.kind is RowKind.CHANGED:
        return [["~", *(f"{a} → {b}" if m else a for a, b, m in zip(left, right, row.marked, strict=True))]]
    lines = [] if row.left is None else [[f"-{_count_mark(row.left_count)}", *left]]
    return lines if row.right is None else [*lines, [f"+{_count_mark(row.right_count)}", *right]]


def _count_mark(count: int) -> str:
    return "" if count == 1 else f" {count:,}x"


def count_phrase(row: RowPairing) -> str:
    """Return how often a row occurs on its side, as text to append. Empty if it occurs once."""
    if row.left_count and row.right_count and row.left_count != row.right_count:
        return f", {row.left_count:,} times on the left, {row.right_count:,} times on the right"
    count = max(row.left_count, row.right_count)
    return "" if count == 1 else f", {count:,} times"


def _cells(row: RowPairing, widest: int) -> tuple[list[str], list[str]]:
    """Return the values of both sides, shortened. A side that lacks the row has empty texts."""
    nothing = ("",) * len(row.marked)
    lefts = row.left if row.left is not None else nothing
    rights = row.right if row.right is not None else nothing
    cells = zip(lefts, rights, row.marked, strict=True)
    result = [_excerpts(a, b, widest, is_pair=marked) for a, b, marked in cells]
    return [a for a, _ in result], [b for _, b in result]


MORE_PARTS = "further parts differ"


def _part_cells(row: RowPairing, widest: int) -> Iterator[tuple[str, str, str]]:
    """Yield the path and both shortened values of each differing part of a row."""
    for part in row.parts:
        yield visible(part.path), *_excerpts(*part.values, widest, is_pair=True)


def _excerpts(left: str, right: str, widest: int, *, is_pair: bool) -> tuple[str, str]:
    """Return shortened forms of two values. The forms of a pair contain the first difference."""
    a, b = visible(left), visible(right)
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))
    start = len(list(pairs)) if is_pair else 0
    return _excerpt(a, start, widest), _excerpt(b, start, widest)


def _excerpt(text: str, difference: int, widest: int) -> str:
    """Return at most `widest` cells of `text`, including the character at `difference`."""
    if (cells := cell_width(text)) <= widest:
        return text
    widest = widest if cells == len(text) else widest // 2
    start = max(0, min(difference - _BEFORE_DIFFERENCE, len(text) - widest))
    before, after = ("…" if start else ""), ("…" if start + widest < len(text) else "")
    return before + text[start + len(before) : start + widest - len(after)] + after


def origin_texts(row: RowPairing) -> Iterator[tuple[str, str]]:
    """Yield the side and the text of each origin of a row: the file and row, and the deletes that hide it."""
    for side, other, origins in (("left", "right", row.left_origins), ("right", "left", row.right_origins)):
        for origin in origins:
            hidden = f", hidden on the {other} by {', '.join(origin.hidden_by)}" if origin.hidden_by else ""
            yield side, visible(f"{origin.file}, row {origin.position}{hidden}")
