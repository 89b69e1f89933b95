"""The places of differing rows: ranges of the first key, and data files.

Numbers, dates and times have ranges of equal width. Other keys, such as texts, have ranges of equally many keys, in
their order. Counts are of the rows that were looked at, which a `Spread` tells beside them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeAlias

import pyarrow as pa

from harness.differ.canonical import NEGATIVE_ZERO, canonical_values, order_key
from harness.differ.closeness import Line, LineKind
from harness.differ.exact import Difference, DifferingRow
from harness.differ.forms import digits_of
from harness.differ.printing import show, show_values
from harness.differ.result import GroupDifference, Origin, RowKind, Spread

MOST_RANGES = 20
"""Ranges of a key."""
MOST_FILES = 20
"""Data files that a report names."""
_EXACT = Context(prec=100)
_NANOS = 10**9
_DAY = 86_400
_SECONDS = (_DAY, 3_600, 60)
"""Widths that those of ranges of times are multiples of; shorter ones are multiples of a second."""
_Ranges: TypeAlias = tuple[list[str], Callable[[Any], int]]
"""The names of ranges, and the number of the range that a value lies in."""


def evenly(difference: Difference, most: int) -> list[int]:
    """The numbers of at most about so many of `Difference.differing`, of each kind the same share of all such rows.

    Of large sides some rows of each kind are known. Without this, a rare kind would look like a frequent one.
    """
    totals = (difference.changed, difference.only_left, difference.only_right)
    kinds = [
        ([i for i, row in enumerate(difference.differing) if row.kind is kind], total)
        for kind, total in zip((RowKind.CHANGED, RowKind.ONLY_LEFT, RowKind.ONLY_RIGHT), totals, strict=True)
    ]
    known = [(sum(difference.differing[i].count for i in rows) / total, rows) for rows, total in kinds if rows]
    least = min((share for share, _ in known), default=1.0)
    wanted = sum(least / share * len(rows) for share, rows in known)
    chosen = []
    for share, rows in known:
        number = max(1, round(least / share * len(rows) * min(1.0, most / wanted)))
        chosen += [rows[i * len(rows) // number] for i in range(number)]
    return chosen


def by_key(differing: Iterable[DifferingRow], tables: tuple[pa.Table, pa.Table], key: str, *, is_whole: bool) -> Spread:
    """The differing rows by ranges of a key, and apart from these by values without a place among the others.

    tables: the rows of both sides. is_whole: `tables` holds all rows, and the ranges lie between the keys of all.
    """
    columns = [canonical_values(table.column(key)) for table in tables]

    def write(value: Hashable) -> str:
        side = 0 if value in columns[0] else 1
        return show(tables[side].column(key), columns[side].index(value))

    counts: defaultdict[Hashable, Counter[RowKind]] = defaultdict(Counter)
    for row in differing:
        value = columns[1][row.right or 0] if row.left is None else columns[0][row.left]
        counts[0.0 if value == NEGATIVE_ZERO else value][row.kind] += row.count
    spanned = {value for column in columns for value in column} if is_whole else set(counts)
    line = Line.of(*(table.schema.field(key).type for table in tables))
    placed: set[Any]
    if line is None or pa.types.is_time(line.left) or pa.types.is_duration(line.left):
        placed = spanned - {None}
        labels, number = _in_order(placed, write)
    else:
        placed = {value for value in spanned if _is_finite(value)}
        labels, number = _on_line(placed, line)
    ranges = [Counter[RowKind]() for _ in labels]
    apart: list[tuple[str, Counter[RowKind]]] = []
    for value, kinds in counts.items():
        if value in placed:
            ranges[number(value)].update(kinds)
        else:
            apart.append(("NULL" if value is None else str(value), kinds))
    places = (*zip(labels, ranges, strict=True), *apart)
    return Spread(
        places=tuple(_place((label,), kinds) for label, kinds in places),
        rows=sum(kinds.total() for kinds in counts.values()),
        total=len(places),
        is_whole=is_whole,
    )


def by_file(
    differing: Mapping[int, DifferingRow],
    lefts: Mapping[int, Sequence[Origin]],
    rights: Mapping[int, Sequence[Origin]],
) -> Spread | None:
    """The differing rows by data file; None: of none it is known. A changed row counts once in each of its files.

    differing: by number. lefts, rights: the origins on a side by number of the row.
    """
    counts: defaultdict[str, Counter[RowKind]] = defaultdict(Counter)
    sides: defaultdict[str, set[str]] = defaultdict(set)
    rows = 0
    for number, row in differing.items():
        files = []
        for side, origins in (("left", lefts.get(number, ())), ("right", rights.get(number, ()))):
            files += [origin.file for origin in origins]
            for origin in origins:
                sides[origin.file].add(side)
        rows += min(len(files), row.count)
        for file in set(files) if row.kind is RowKind.CHANGED else files:
            counts[file][row.kind] += 1
    ranked = sorted(counts, key=lambda file: (-counts[file].total(), file))
    places = [_place(("both" if len(sides[f]) > 1 else min(sides[f]), f), counts[f]) for f in ranked[:MOST_FILES]]
    return Spread(places=tuple(places), rows=rows, total=len(ranked)) if ranked else None


def _place(values: tuple[str, ...], kinds: Counter[RowKind]) -> GroupDifference:
    return GroupDifference(
        values=values,
        changed=kinds[RowKind.CHANGED],
        only_left=kinds[RowKind.ONLY_LEFT],
        only_right=kinds[RowKind.ONLY_RIGHT],
    )


def _is_finite(value: Hashable) -> bool:
    return isinstance(value, int | Decimal) or (isinstance(value, float) and math.isfinite(value))


def _on_line(values: Collection[Any], line: Line) -> _Ranges:
    """Ranges of equal width between the smallest and the largest number, date or time."""
    if not values:
        return [], lambda _: 0
    first, last = min(values), max(values)
    if line.kind is LineKind.FLOAT:
        bins = MOST_RANGES if first < last else 1
        width = (Fraction(last) - Fraction(first)) / bins
        labels = [f"from {float(first + i * width):.6g}" for i in range(bins)]
        return labels, lambda value: min(int((Fraction(value) - Fraction(first)) / width), bins - 1) if width else 0
    step, write = _steps(line, first, last)
    first, last = (math.floor(Fraction(value) / step) for value in (first, last))
    bins = min(MOST_RANGES, last - first + 1)
    starts = [first - -i * (last - first + 1) // bins for i in range(bins + 1)]  # rounded up
    labels = [write(a, b - 1) for a, b in pairwise(starts)]
    return labels, lambda value: bisect_right(starts, math.floor(Fraction(value) / step)) - 1


def _steps(line: Line, first: Any, last: Any) -> tuple[Fraction, Callable[[int, int], str]]:
    """The width that those of ranges are multiples of, and the words for the range from one multiple to another."""
    if line.kind is not LineKind.TICKS:
        scale = max(digits_of(type_)[1] for type_ in (line.left, line.right))
        return Fraction(1, 10**scale), lambda *ends: _range(*(f"{Decimal(e).scaleb(-scale, _EXACT):f}" for e in ends))
    if pa.types.is_date(line.left):
        return Fraction(_DAY * 1_000), _days  # a canonical date is in milliseconds, a time in nanoseconds
    seconds = next((each for each in _SECONDS if (last - first) // (each * _NANOS) >= MOST_RANGES), 1)
    zone = line.left.tz

    def since(start: int, _: int) -> str:
        return f"from {show_values(pa.array([start * seconds], pa.timestamp('s', zone and 'UTC')))[0]}"

    return Fraction(seconds * _NANOS), _days if seconds == _DAY else since


def _days(first: int, last: int) -> str:
    return _range(*show_values(pa.array([first, last], pa.date32())))


def _range(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"


def _in_order(values: Collection[Any], write: Callable[[Any], str]) -> _Ranges:
    """Ranges of equally many values, as far as they can be."""
    ordered = sorted(map(order_key, values))
    bins = min(MOST_RANGES, len(ordered))
    starts = [ordered[i * len(ordered) // bins] for i in range(bins)]
    by_order = {order_key(value): value for value in values}
    every = "" if bins == len(ordered) else "from "
    return [every + write(by_order[start]) for start in starts], lambda v: bisect_right(starts, order_key(v)) - 1
