"""What differs in each column: counts, the largest distance and examples, of pairs of rows."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from decimal import Decimal, localcontext

import pyarrow as pa

from harness.differ.canonical import Row
from harness.differ.closeness import Kind, Line
from harness.differ.printing import show_pair
from harness.differ.result import ColumnDifference

MOST_EXAMPLES = 3
"""Pairs of values that are shown of a column."""
_SECONDS = {"date": Decimal("0.001"), "other": Decimal("1e-9")}


def column_differences(
    left: pa.Table,
    right: pa.Table,
    columns: Sequence[str],
    left_rows: Sequence[Row],
    right_rows: Sequence[Row],
    pairs: Sequence[tuple[int, int]],
    passed: Mapping[tuple[int, int], tuple[bool, ...]],
) -> tuple[ColumnDifference, ...]:
    """The columns in which some pair differs, in the order of `columns`.

    Args:
        left_rows, right_rows: canonical rows of the tables. pairs: indexes in both. passed: by pair and column, what is
            let pass.
    """
    found = []
    for number, column in enumerate(columns):
        unequal = [(i, j) for i, j in pairs if left_rows[i][number] != right_rows[j][number]]
        differing = [pair for pair in unequal if not (pair in passed and passed[pair][number])]
        if not unequal:
            continue
        line = Line.of(left.schema.field(column).type, right.schema.field(column).type)
        distances = {} if line is None else _distances(differing, number, left_rows, right_rows)
        furthest = max(distances, key=distances.__getitem__, default=None)
        found.append(
            ColumnDifference(
                column=column,
                rows=len(differing),
                allowed=len(unequal) - len(differing),
                left_nulls=sum(left_rows[i][number] is None for i, _ in differing),
                right_nulls=sum(right_rows[j][number] is None for _, j in differing),
                largest=None if line is None or furthest is None else distance_text(line, distances[furthest]),
                examples=examples(left, right, column, differing, furthest),
            )
        )
    return tuple(found)


def examples(
    left: pa.Table,
    right: pa.Table,
    column: str,
    differing: Sequence[tuple[int, int]],
    furthest: tuple[int, int] | None,
) -> tuple[tuple[str, str], ...]:
    """Some different pairs of values, printed: first those that lie furthest apart."""
    texts: dict[tuple[str, str], None] = {}
    for i, j in [*([] if furthest is None else [furthest]), *differing]:
        a, b = show_pair(left.column(column), i, right.column(column), j)
        texts[a, b] = None
        if len(texts) == MOST_EXAMPLES:
            break
    return tuple(texts)


def distance(left: Hashable, right: Hashable) -> Decimal | float | None:
    """How far two canonical values lie apart; None: one is null or not finite."""
    match left, right:
        case ((float() | "-0.0"), (float() | "-0.0")):
            apart = abs(float(left) - float(right))
            return apart if apart < float("inf") else None
        case ((int() | Decimal()), (int() | Decimal())):
            with localcontext() as context:
                context.prec = 80
                return abs(Decimal(left) - Decimal(right))
        case _:
            return None


def distance_text(line: Line, apart: Decimal | float) -> str:
    """A distance of values on a line, as reports say it."""
    if line.kind is not Kind.TICKS:
        return format(apart, "f") if isinstance(apart, Decimal) else repr(apart)
    dates = pa.types.is_date(line.left) and pa.types.is_date(line.right)
    seconds = Decimal(apart) * _SECONDS["date" if dates else "other"]
    if dates and seconds % 86_400 == 0:
        return f"{seconds / 86_400:f} d"
    return f"{seconds.normalize():f} s"


def _distances(
    pairs: Sequence[tuple[int, int]], number: int, left_rows: Sequence[Row], right_rows: Sequence[Row]
) -> dict[tuple[int, int], Decimal | float]:
    apart = {(i, j): distance(left_rows[i][number], right_rows[j][number]) for i, j in pairs}
    return {pair: value for pair, value in apart.items() if value is not None}
