"""The places where differing rows are: ranges of the first key, data files, and partitions.

Numbers, dates, and times are divided into ranges of equal width. Other keys, like texts, are divided in their order
into ranges with equally many keys. Only sampled rows are counted, and a `Spread` records how many rows were counted.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa

from harness.diff.canonical import NEGATIVE_ZERO, CanonicalRow, canonical_rows, canonical_values, order_key
from harness.diff.closeness import LineKind, NumberLine
from harness.diff.exact import Difference, DifferingRow
from harness.diff.hashing import digits_of
from harness.diff.printing import date_text, show, timestamp_text
from harness.diff.result import GroupDifference, Origin, RowKind, Spread
from harness.diff.schemas import display_type
from harness.metadata.plan.scan_plan import ScanPlan

MOST_RANGES = 20
"""The most ranges of a key."""
MOST_FILES = 20
"""The most data files that a report names."""
_NANOS = 10**9
_DAY = 86_400
_Ranges: TypeAlias = tuple[list[str], Callable[[Any], int]]
"""The names of ranges, and a function that returns the number of the range for a value."""


def sample_evenly(difference: Difference, most: int) -> list[int]:
    """Return a sample of about `most` differing rows, as indexes of `Difference.differing`.

    Each kind is sampled at the same rate. For large sides, only some rows of each kind are known. Without equal rates,
    a rare kind would look like a frequent one.
    """
    rows_by_share = []
    for kind in RowKind:
        if rows := [number for number, row in enumerate(difference.differing) if row.kind is kind]:
            row_count = sum(difference.differing[number].count for number in rows)
            rows_by_share.append((row_count / getattr(difference, kind.name.lower()), rows))
    smallest_share = min((share for share, _ in rows_by_share), default=1.0)
    ideal_size = sum(smallest_share / share * len(rows) for share, rows in rows_by_share)
    sample = []
    for share, rows in rows_by_share:
        number = max(1, round(smallest_share / share * len(rows) * min(1.0, most / ideal_size)))
        sample += [rows[i * len(rows) // number] for i in range(number)]
    return sample


def spread_by_key(difference: Difference, tables: tuple[pa.Table, pa.Table], key: str, *, is_whole: bool) -> Spread:
    """Count the differing rows by ranges of a key, followed by NULL, NaN, and infinities.

    Args:
        difference: The difference.
        tables: The rows of both sides.
        key: The key column.
        is_whole: True if `tables` holds all rows, so that the ranges span all keys.
    """
    columns = [[0.0 if v == NEGATIVE_ZERO else v for v in canonical_values(table.column(key))] for table in tables]
    counts: defaultdict[object, Counter[RowKind]] = defaultdict(Counter)
    for row in map(difference.differing.__getitem__, sample_evenly(difference, len(difference.differing))):
        value = columns[1][row.right or 0] if row.left is None else columns[0][row.left]
        counts[value][row.kind] += row.count
    spanned = {value for column in columns for value in column} if is_whole else set(counts)
    line = NumberLine.for_types(*(table.schema.field(key).type for table in tables))
    if line is None or pa.types.is_time(line.left) or pa.types.is_duration(line.left):
        placed = spanned - {None}
        where = {v: (table, i) for table, column in zip(tables, columns, strict=True) for i, v in enumerate(column)}
        labels, number = _equal_count_ranges(placed, lambda value: show(where[value][0].column(key), where[value][1]))
    else:
        placed = {value for value in spanned if isinstance(value, int | float | Decimal) and math.isfinite(value)}
        labels, number = _equal_width_ranges(placed, line) if placed else ([], lambda _: 0)
    places = [(label, Counter[RowKind]()) for label in labels]
    for value, kinds in counts.items():
        if value in placed:
            places[number(value)][1].update(kinds)
        else:
            places.append(("NULL" if value is None else str(value), kinds))
    rows = sum(kinds.total() for kinds in counts.values())
    result = tuple(_group_difference((label,), kinds) for label, kinds in places)
    return Spread(places=result, rows=rows, total=len(result), is_whole=is_whole)


MOST_GROUPS = 20
"""The most groups that a report shows."""
_MOST_COUNTED = 100_000
"""The most groups that are counted; there could be as many as rows."""
_KINDS = {"both": RowKind.CHANGED, "left": RowKind.ONLY_LEFT, "right": RowKind.ONLY_RIGHT}

Load: TypeAlias = Callable[[str, int, pa.Table, Sequence[str]], None]


def partition_columns(plan: ScanPlan) -> tuple[str, ...]:
    """Return the columns of a planned table whose values are partition values.

    Columns that are only the source of another transform, like a bucket or a day, are left out.
    """
    sources = {source for partition in plan.partitions for source in partition.constants}
    return tuple(field.name for field in plan.columns if field.id in sources)


@dataclass(slots=True)
class GroupCounts:
    """Counts of differing rows so far, by the printed values of some columns.

    Attributes:
        columns: The columns.
        schemas: The schemas of both sides.
        counts: The counts by values and kind.
    """

    columns: tuple[str, ...]
    schemas: tuple[pa.Schema, pa.Schema]
    counts: defaultdict[tuple[str, ...], Counter[RowKind]] = field(default_factory=lambda: defaultdict(Counter))

    def count(self, connection: duckdb.DuckDBPyConnection, load: Load) -> None:
        """Add the rows of the table `d` of differing hashes.

        Args:
            connection: The connection with the table.
            load: A function that creates a table of the rows with wanted hashes.
        """
        for number, label, kinds in ((0, "l", "'left', 'both'"), (1, "r", "'right'")):
            hash_pairs = pa.table(connection.sql(f"SELECT a, b FROM d WHERE kind IN ({kinds})"))
            if not hash_pairs.num_rows:
                continue
            load(label, number, hash_pairs, self.columns)
            names = [f"c{i}" for i in range(len(self.columns))]
            columns = ", ".join(names)
            once = f"SELECT DISTINCT ON (k1, k2) * FROM {label}"
            grouped = (
                f"SELECT {columns}, d.kind, sum(d.n)::BIGINT AS n FROM ({once}) x JOIN d ON d.a = x.k1 AND d.b = x.k2 "
                f"WHERE d.kind IN ({kinds}) GROUP BY {columns}, d.kind ORDER BY n DESC LIMIT {_MOST_COUNTED}"
            )
            result = pa.table(connection.sql(grouped))
            types = [display_type(self.schemas[number].field(name).type) for name in self.columns]
            group_columns = [result.column(i).cast(type_) for i, type_ in enumerate(types)]
            counted = zip(result.column("kind").to_pylist(), result.column("n").to_pylist(), strict=True)
            for place, (kind, rows) in enumerate(counted):
                self.counts[tuple(show(column, place) for column in group_columns)][_KINDS[kind]] += rows

    def ranked(self) -> tuple[tuple[GroupDifference, ...], int]:
        """Return the groups with the most differing rows, and the number of all groups."""
        return _rank_groups(self.counts)


def _rank_groups(counts: Mapping[tuple[str, ...], Counter[RowKind]]) -> tuple[tuple[GroupDifference, ...], int]:
    """Return the groups with the most differing rows, and the number of all groups, from counts by printed values."""
    first = sorted(counts.items(), key=lambda item: (-item[1].total(), item[0]))[:MOST_GROUPS]
    return tuple(_group_difference(values, kinds) for values, kinds in first), len(counts)


def count_by_columns(
    difference: Difference, tables: tuple[pa.Table, pa.Table], columns: Sequence[str]
) -> tuple[tuple[GroupDifference, ...], int]:
    """Count the differing rows by the values of some columns.

    A changed row is in the group of its left side.

    Args:
        difference: The difference.
        tables: All rows of both sides.
        columns: The columns.

    Returns:
        The groups with the most differing rows, and the number of all groups.
    """
    if not columns or not difference.differing:
        return (), 0
    values = [canonical_rows(table, columns) for table in tables]
    counts: defaultdict[tuple[str, ...], Counter[RowKind]] = defaultdict(Counter)
    printed: dict[CanonicalRow, tuple[str, ...]] = {}
    for row in difference.differing:
        side, place = (1, row.right or 0) if row.left is None else (0, row.left)
        group = values[side][place]
        if group not in printed:
            printed[group] = tuple(show(tables[side].column(name), place) for name in columns)
        counts[printed[group]][row.kind] += row.count
    return _rank_groups(counts)


def spread_by_file(
    differing: Mapping[int, DifferingRow],
    lefts: Mapping[int, Sequence[Origin]],
    rights: Mapping[int, Sequence[Origin]],
) -> Spread | None:
    """Count the differing rows by data file, or return None if no row's file is known.

    A changed row counts once in each of its files.

    Args:
        differing: The differing rows by number.
        lefts: The origins on the left side, by number of the row.
        rights: The origins on the right side, by number of the row.
    """
    counts: defaultdict[str, Counter[RowKind]] = defaultdict(Counter)
    sides: defaultdict[str, set[str]] = defaultdict(set)
    rows = 0
    for number, row in differing.items():
        origins = (("left", lefts.get(number, ())), ("right", rights.get(number, ())))
        pairs = [(side, origin.file) for side, result in origins for origin in result]
        files = [file for _, file in pairs]
        for file in set(files) if row.kind is RowKind.CHANGED else files:
            counts[file][row.kind] += 1
        for side, file in pairs:
            sides[file].add(side)
        rows += min(len(files), row.count)
    ranked = sorted(counts, key=lambda file: (-counts[file].total(), file))
    places = [
        _group_difference(("both" if len(sides[f]) > 1 else min(sides[f]), f), counts[f]) for f in ranked[:MOST_FILES]
    ]
    return Spread(places=tuple(places), rows=rows, total=len(ranked)) if ranked else None


def _group_difference(values: tuple[str, ...], kinds: Counter[RowKind]) -> GroupDifference:
    return GroupDifference(values=values, **{kind.name.lower(): number for kind, number in kinds.items()})


def _equal_width_ranges(values: Collection[Any], line: NumberLine) -> _Ranges:
    """Divide the interval from the smallest to the largest number, date, or time into ranges of equal width."""
    first, last = Fraction(min(values)), Fraction(max(values))
    if line.kind is LineKind.FLOAT:
        bins = MOST_RANGES if first < last else 1
        width = (last - first) / bins or Fraction(1)
        labels = [f"from {float(first + i * width):.6g}" for i in range(bins)]
        return labels, lambda value: min(int((Fraction(value) - first) / width), bins - 1)
    step, write = _range_step(line, first, last)
    low, high = first // step, last // step + 1
    bins = min(MOST_RANGES, high - low)
    starts = [low - -i * (high - low) // bins for i in range(bins + 1)]  # rounded up
    labels = [write(start, end - 1) for start, end in pairwise(starts)]
    return labels, lambda value: bisect_right(starts, Fraction(value) // step) - 1


def _range_step(line: NumberLine, first: Fraction, last: Fraction) -> tuple[Fraction, Callable[[int, int], str]]:
    """Return the step whose multiples are the bounds of the ranges, and a function that names a range."""
    match line.kind:
        case LineKind.TICKS if pa.types.is_date(line.left):
            return Fraction(_DAY * _NANOS), lambda *ends: " to ".join(dict.fromkeys(map(date_text, ends)))
        case LineKind.TICKS:
            seconds = next((s for s in (_DAY, 3_600, 60) if last - first >= MOST_RANGES * s * _NANOS), 1)
            zone = "" if line.left.tz is None else "Z"
            return Fraction(seconds * _NANOS), lambda start, _: f"from {timestamp_text(start * seconds, 's', zone)}"
        case _:
            scale = max(digits_of(type_)[1] for type_ in (line.left, line.right))
            texts = Context(prec=100)
            return Fraction(1, 10**scale), lambda *ends: " to ".join(
                dict.fromkeys(f"{Decimal(end).scaleb(-scale, texts):f}" for end in ends)
            )


def _equal_count_ranges(values: Collection[object], write: Callable[[Any], str]) -> _Ranges:
    """Divide values into ranges with equally many values, as far as possible."""
    ordered = sorted(values, key=order_key)
    bins = min(MOST_RANGES, len(ordered))
    firsts = [ordered[i * len(ordered) // bins] for i in range(bins)]
    starts = [order_key(first) for first in firsts]
    prefix = "" if bins == len(ordered) else "from "
    return [prefix + write(first) for first in firsts], lambda value: bisect_right(starts, order_key(value)) - 1
