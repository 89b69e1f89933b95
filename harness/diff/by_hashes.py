"""Comparison of large sides by hashes of rows, which the engines compute and sum.

Both sides sum the hashes of their rows per bucket. If the sums of a bucket agree, it holds the same rows on both sides.
The hashes of the other buckets are fetched, a few million at a time, and counted: a hash that one side has more often
is a difference. Counts are therefore exact, and memory does not grow with the number of rows. Only the rows to show are
fetched as a whole, and `harness.diff.exact` compares them.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias, TypeVar

import duckdb
import pyarrow as pa

from harness.diff.canonical import canonical_values
from harness.diff.closeness import ColumnTolerances, NumberLine, equal_within
from harness.diff.exact import MOST_EXAMPLES, Difference, Rules, distance, distance_text, examples
from harness.diff.hashing import INCOMPARABLE, DuckDBValue, hash_form, hash_of, storage_type, to_duckdb_types
from harness.diff.printing import show
from harness.diff.result import ColumnDifference, GroupDifference
from harness.diff.schemas import display_type
from harness.diff.sides import (
    HASH_PREFIX,
    ArrowSide,
    Buckets,
    DuckDBSide,
    HashedSide,
    Hashing,
    Side,
    WantedRows,
    in_engine,
    recorded_rows,
)
from harness.diff.spread import GroupCounts, Load
from harness.errors import EngineError, HarnessError, RequestError
from harness.storage.threads import phase, track

LABELS = ("left", "right")
HashedSides: TypeAlias = tuple[HashedSide, HashedSide]
_S = TypeVar("_S", bound=Side)
_T = TypeVar("_T")


class SideFailedError(Exception):
    """The failure of one side.

    Attributes:
        number: 0 for the left side, 1 for the right side.
        error: The error that the side raised.
    """

    def __init__(self, number: int, error: HarnessError) -> None:
        super().__init__(number, error)
        self.number = number
        self.error = error


@contextmanager
def side_phase(
    number: int, description: str, total: int | None = None, unit: str = "rows"
) -> Iterator[Callable[[int], None]]:
    """Run a block as a phase that concerns one side, and raise its errors as SideFailedError.

    Wrong requests and incomparable types are raised unchanged, because they are not failures of the side.

    Args:
        number: 0 for the left side, 1 for the right side.
        description: A description of the phase, for example `hashing the {} side`.
        total: The amount of work, if known.
        unit: The unit of `total`.
    """
    try:
        with phase(description.format(LABELS[number]), total, unit) as advance:
            yield advance
    except HarnessError as error:
        if isinstance(error, RequestError) or error.cause == INCOMPARABLE:
            raise
        raise SideFailedError(number, error) from error


def on_both_sides(sides: tuple[_S, _S], description: str, action: Callable[[_S], _T]) -> tuple[_T, _T]:
    """Run an action on the left side, then on the right side, each in a separate phase. Return both results.

    Raises:
        SideFailedError: A side fails.
    """
    result = []
    for number, side in enumerate(sides):
        with side_phase(number, description, recorded_rows(side)):
            result.append(action(side))
    return result[0], result[1]


@dataclass(frozen=True, slots=True)
class RowComparison:
    """The differences between the rows of two sides, and the number of rows on each side.

    Attributes:
        rows: The number of rows on the left and the right side.
        difference: The differences.
        shown_rows: The rows used to compute `difference`.
        by_group: The groups with the most differing rows.
        groups: The number of groups with differing rows.
    """

    rows: tuple[int, int]
    difference: Difference
    shown_rows: tuple[pa.Table, pa.Table]
    by_group: tuple[GroupDifference, ...] = ()
    groups: int = 0


def compare_by_hashes(
    input_sides: tuple[Side, Side], columns: tuple[str, ...], rules: Rules, group_by: tuple[str, ...] = ()
) -> RowComparison:
    """Compare sides of any size by the hashes of their rows.

    Args:
        input_sides: Both sides.
        columns: The columns to compare.
        rules: The rules of the comparison.
        group_by: Columns whose values group the counts of differing rows.

    Raises:
        SideFailedError: A side fails.
        RequestError: Several rows of one side have the same key.
        UnsupportedError: A column has a type whose values cannot be hashed, so that only small sides can be compared.
    """
    sides = on_both_sides(input_sides, "preparing the {} side", in_engine)
    schemas = (sides[0].schema, sides[1].schema)
    forms = (hash_form(*(schema.field(name).type for schema in schemas)) for name in columns)
    hashing = Hashing(columns=columns, forms=tuple(forms), keys=rules.keys)
    buckets = on_both_sides(sides, "hashing the {} side", lambda side: side.buckets(hashing))
    if hashing.keys:
        _check_unique_keys(sides, hashing, buckets)
    tally = HashTally(rules.max_rows)
    groups = GroupCounts(group_by, schemas) if group_by else None
    review = DifferenceReview(hashing, sides, buckets, rules.tolerances, groups)
    parts = list(differing_batches(*buckets))
    with phase("differing buckets", len(parts), "parts") as advance:
        for bucket_group in parts:
            hashes = on_both_sides(
                sides, "fetching hashes of the {} side", partial(_fetch_hashes, bucket_group, hashing)
            )
            tally.count(*hashes, partial(review.apply, bucket_group))
            advance(1)
    further = review.example_keys()
    alone, changed = (tally.examples["left"], tally.examples["right"]), tally.examples["both"]
    fetched = [
        _fetch_rows(number, side, hashing, [*dict.fromkeys([*changed, *alone[number], *further])])
        for number, side in enumerate(sides)
    ]
    left, right = (
        _select_rows(rows, hashing, {*changed, *side_hashes}) for rows, side_hashes in zip(fetched, alone, strict=True)
    )
    difference = rules.difference(left, right, columns)
    by_value = (difference.only_left, difference.only_right, difference.changed)
    by_hash = (len(alone[0]), len(alone[1]), len(changed))
    assert by_value == by_hash, f"rows differ by hash but not by value: {by_hash} by hash, {by_value} by value"
    difference = _with_full_counts(difference, tally, (left, right), hashing)
    if hashing.keys:
        by_column = review.columns(fetched[0], fetched[1], rules)
        difference = replace(difference, by_column=by_column, allowed=review.allowed)
    rows = (row_count(buckets[0]), row_count(buckets[1]))
    return RowComparison(rows, difference, (left, right), *(() if groups is None else groups.ranked()))


def _fetch_hashes(buckets: Sequence[int], hashing: Hashing, side: HashedSide) -> pa.Table:
    return side.hashes(hashing, buckets)


def cheaper_first(sides: tuple[Side, Side]) -> list[int]:
    """Return the numbers of both sides. The side with the faster engine comes first."""
    costs = [(not isinstance(side, ArrowSide | DuckDBSide), side.plan is not None) for side in sides]
    return sorted((0, 1), key=costs.__getitem__)


def _check_unique_keys(sides: HashedSides, hashing: Hashing, buckets: Sequence[Buckets]) -> None:
    """Raise RequestError if several rows of one side have the same key.

    The cheaper engine checks all keys. The second engine checks only buckets whose sums differ between the sides.
    """
    cheap, other = cheaper_first(sides)
    differing = {b: sums for b, sums in buckets[other].items() if sums != buckets[cheap].get(b)}
    for number, requested in ((cheap, buckets[cheap]), (other, differing)):
        parts = list(bucket_batches((b, sums.rows) for b, sums in sorted(requested.items())))
        with side_phase(number, "looking for repeated keys on the {} side", len(parts), "parts") as advance:
            for bucket_group in parts:
                repeated = sides[number].repeated(hashing, bucket_group)
                if repeated.num_rows:
                    first = sides[number].rows(hashing, repeated.column("k1").slice(0, 1))
                    break
                advance(1)
            else:
                continue
        text = ", ".join(f"{name} = {show(first.column(name), 0)}" for name in hashing.keys)
        raise RequestError(
            f"Cannot pair rows by {', '.join(map(repr, hashing.keys))}: the {LABELS[number]} side has "
            f"{repeated.column('n')[0]} rows with {text}; add columns to the key, or compare without keys"
        )


def _fetch_rows(number: int, side: HashedSide, hashing: Hashing, hashes: Sequence[Hash]) -> pa.Table:
    """Fetch one row for each of the wanted hashes, with its hashes."""
    if not hashes:
        return _empty_rows(side, hashing, hashing.names)
    with side_phase(number, "fetching rows of the {} side to show", recorded_rows(side)):
        matches = side.rows(hashing, pa.array(sorted({first for first, _ in hashes}), pa.uint64()))
        rows = _select_rows(matches, hashing, set(hashes))
        if rows.num_rows != len(hashes):
            raise EngineError(
                f"The {LABELS[number]} side returned different rows when it was read again: compare a result that does "
                "not change"
            )
    return rows


def _select_rows(rows: pa.Table, hashing: Hashing, hashes: set[Hash]) -> pa.Table:
    places = [i for i, pair in enumerate(_row_hashes(rows, hashing)) if pair in hashes]
    return rows if len(places) == rows.num_rows else rows.take(pa.array(places, pa.int64()))


def _row_hashes(table: pa.Table, hashing: Hashing) -> list[Hash]:
    first, second = (table.column(f"{HASH_PREFIX}{name}").to_pylist() for name in hashing.grouped_by)
    return list(zip(first, second, strict=True))


def _with_full_counts(
    difference: Difference, tally: HashTally, tables: tuple[pa.Table, pa.Table], hashing: Hashing
) -> Difference:
    """Return the difference with the counts of all rows. The given difference was made from one row per hash."""
    rows, differing = difference.rows, difference.differing
    if not hashing.keys:
        hashes = [_row_hashes(table, hashing) for table in tables]
        counts = [
            tally.examples["right"][hashes[1][row.right or 0]]
            if row.left is None
            else tally.examples["left"][hashes[0][row.left]]
            for row in differing
        ]
        differing = tuple(replace(row, count=count) for row, count in zip(differing, counts, strict=True))
        rows = tuple(replace(row, count=count) for row, count in zip(rows, counts, strict=False))
    return replace(
        difference,
        rows=rows,
        differing=differing,
        only_left=tally.rows["left"],
        only_right=tally.rows["right"],
        changed=tally.rows["both"],
        truncated=len(difference.rows) < tally.kinds,
    )


def _empty_rows(side: Side, hashing: Hashing, names: Sequence[str]) -> pa.Table:
    hashes = [pa.field(f"{HASH_PREFIX}{name}", pa.uint64()) for name in names]
    return pa.schema([*(side.schema.field(name) for name in hashing.columns), *hashes]).empty_table()


MOST_AT_ONCE = 8_000_000
"""The most hashes of both sides that are compared at a time."""
MOST_KEYS = 4_000_000
"""The most keys that an engine groups at a time, because it holds all of them in memory."""
_MEMORY = "800MB"

Hash: TypeAlias = tuple[int, int]
"""Both hash lanes of a row or, with keys, of its key."""


def _empty_hash_counts() -> dict[str, dict[Hash, int]]:
    return {"left": {}, "right": {}, "both": {}}


@dataclass(slots=True)
class HashTally:
    """Counts of the differing rows so far, by kind.

    The kinds are `left` and `right` for rows on one side only, and `both` for keys whose rows differ.

    Attributes:
        most: The most hashes to remember of each kind.
        kinds: The number of distinct rows that differ.
        rows: The number of differing rows by kind; a row that occurs several times counts each time.
        examples: Some hashes by kind, each with the number of surplus rows on a side.
    """

    most: int
    kinds: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    examples: dict[str, dict[Hash, int]] = field(default_factory=_empty_hash_counts)

    def count(
        self, left: pa.Table, right: pa.Table, review: Callable[[duckdb.DuckDBPyConnection], None] | None = None
    ) -> None:
        """Add the differences between the hashes of some buckets. All hashes of these buckets must be passed.

        Args:
            left: The hashes of the left side.
            right: The hashes of the right side.
            review: A function that reads the table `d` of differing hashes (`kind`, the hash lanes `a` and `b`, the
                count `n`), and may delete rows from it.
        """
        with ExitStack() as resources:
            folder = resources.enter_context(tempfile.TemporaryDirectory(prefix="harness-compare-"))
            connection = track(duckdb.connect(config={"memory_limit": _MEMORY, "temp_directory": folder}))
            resources.callback(connection.close)
            connection.execute("SET preserve_insertion_order = false")
            connection.register("l", left)
            connection.register("r", right)
            query = _KEYED if "k1" in left.column_names else _UNKEYED
            connection.execute(f"CREATE TEMPORARY TABLE d AS {query}")
            connection.unregister("l")
            connection.unregister("r")
            if review is not None:
                review(connection)
            totals = connection.sql("SELECT kind, count(*), sum(n)::BIGINT FROM d GROUP BY kind").fetchall()
            for kind, different, rows in totals:
                self.kinds += different
                self.rows[kind] += rows
                if (limit := self.most - len(self.examples[kind])) > 0:
                    query = f"SELECT a, b, n FROM d WHERE kind = '{kind}' ORDER BY a, b LIMIT {limit}"
                    self.examples[kind].update({(a, b): n for a, b, n in connection.sql(query).fetchall()})


_UNKEYED = """
    SELECT h1 AS a, h2 AS b, abs(sum(n))::BIGINT AS n, CASE WHEN sum(n) > 0 THEN 'left' ELSE 'right' END AS kind
    FROM (SELECT h1, h2, 1 AS n FROM l UNION ALL SELECT h1, h2, -1 AS n FROM r)
    GROUP BY h1, h2 HAVING sum(n) <> 0
"""
# Each key occurs at most once per side; `_check_unique_keys` has made sure.
_KEYED = """
    SELECT coalesce(l.k1, r.k1) AS a, coalesce(l.k2, r.k2) AS b, 1::BIGINT AS n,
        CASE WHEN r.k1 IS NULL THEN 'left' WHEN l.k1 IS NULL THEN 'right' ELSE 'both' END AS kind
    FROM l FULL JOIN r ON l.k1 = r.k1 AND l.k2 = r.k2
    WHERE l.k1 IS NULL OR r.k1 IS NULL OR l.h1 <> r.h1 OR l.h2 <> r.h2
"""


def differing_batches(left: Buckets, right: Buckets, most: int = MOST_AT_ONCE) -> Iterator[tuple[int, ...]]:
    """Group the buckets whose sums differ into batches of at most `most` rows. A batch has at least one bucket."""
    differing = sorted(b for b in left.keys() | right.keys() if left.get(b) != right.get(b))
    sizes = {b: sum(side[b].rows for side in (left, right) if b in side) for b in differing}
    return bucket_batches(sizes.items(), most)


def bucket_batches(sizes: Iterable[tuple[int, int]], most: int = MOST_KEYS) -> Iterator[tuple[int, ...]]:
    """Group buckets into batches of at most `most` rows. A batch has at least one bucket.

    Args:
        sizes: The buckets in ascending order, each with its number of rows.
        most: The largest number of rows in a batch.
    """
    turn: list[int] = []
    rows = 0
    for bucket, size in sizes:
        if turn and rows + size > most:
            yield tuple(turn)
            turn, rows = [], 0
        turn.append(bucket)
        rows += size
    if turn:
        yield tuple(turn)


def row_count(buckets: Buckets) -> int:
    """Return the number of a side's rows."""
    return sum(sums.rows for sums in buckets.values())


@dataclass(slots=True)
class ColumnTotals:
    """The differences found so far in one column.

    Attributes:
        counts: Counts by the names of `ColumnDifference` fields.
        furthest: The largest distance between two values.
        furthest_key: The hash of the key with the largest distance.
        keys: The key hashes of some differing rows.
    """

    counts: Counter[str] = field(default_factory=Counter)
    furthest: float = -1.0
    furthest_key: Hash | None = None
    keys: list[Hash] = field(default_factory=list)

    def add(self, counts: Sequence[int], furthest: float | None, key: Any, keys: Any) -> None:
        """Add the totals of some buckets: one row of a query over `_SUMS`."""
        self.counts.update(dict(zip(_COUNTS, counts, strict=True)))
        if furthest is not None and furthest > self.furthest:
            self.furthest, self.furthest_key = furthest, (key["a"], key["b"])
        self.keys = [*self.keys, *((each["a"], each["b"]) for each in keys or ())][:MOST_EXAMPLES]

    def examples(self) -> list[Hash]:
        """Return the key hashes of rows to show. The row with the largest distance between both values comes first."""
        first = [] if self.furthest_key is None else [self.furthest_key]
        return list(dict.fromkeys([*first, *self.keys]))[:MOST_EXAMPLES]


@dataclass(slots=True)
class DifferenceReview:
    """Totals of the differences by column and by group, without differences that are within tolerances.

    The rows of some buckets are fetched from both sides and joined by the hashes of their keys. A separate database
    computes the totals, so that only totals stay in memory.
    """

    hashing: Hashing
    sides: HashedSides
    buckets: tuple[Buckets, Buckets]
    tolerances: ColumnTolerances
    groups: GroupCounts | None
    totals: dict[str, ColumnTotals] = field(default_factory=dict)
    allowed: int = 0

    def apply(self, bucket_group: Sequence[int], connection: duckdb.DuckDBPyConnection) -> None:
        """Add the differing hashes of some buckets, which are in table `d`.

        Rows that differ only within tolerances are deleted from `d`.
        """
        load = partial(self._load_rows, bucket_group, connection)
        if self.hashing.keys:
            self._by_column(connection, load)
        if self.groups is not None:
            self.groups.count(connection, load)

    def example_keys(self) -> list[Hash]:
        """Return the key hashes of the rows that `columns` needs."""
        return list(dict.fromkeys(key for totals in self.totals.values() for key in totals.examples()))

    def columns(self, left: pa.Table, right: pa.Table, rules: Rules) -> tuple[ColumnDifference, ...]:
        """Return the columns that differ, with examples from the rows of both sides, which must have hash columns."""
        places = [{key: i for i, key in enumerate(_row_hashes(rows, self.hashing))} for rows in (left, right)]
        result = []
        for name, totals in self.totals.items():
            pairs = [(places[0][key], places[1][key]) for key in totals.examples()]
            largest = None
            if pairs and totals.furthest_key is not None:
                values = zip((left.column(name), right.column(name)), pairs[0], strict=True)
                gap = distance(*(canonical_values(column.slice(place, 1))[0] for column, place in values))
                line = NumberLine.for_types(left.schema.field(name).type, right.schema.field(name).type)
                largest = None if line is None or gap is None else distance_text(line, gap)
            texts, paths = examples(left, right, name, pairs, rules)
            result.append(ColumnDifference(column=name, largest=largest, examples=texts, paths=paths, **totals.counts))
        places_of = {name: place for place, name in enumerate(self.hashing.columns)}
        return tuple(sorted(result, key=lambda each: places_of[each.column]))

    def _by_column(self, connection: duckdb.DuckDBPyConnection, load: Load) -> None:
        names = [name for name in self.hashing.columns if name not in self.hashing.keys]
        hash_pairs = pa.table(connection.sql("SELECT a, b FROM d WHERE kind = 'both'"))
        if not hash_pairs.num_rows or not names:
            return
        for number, label in enumerate("lr"):
            load(label, number, hash_pairs, names)
        types = [connection.table(label).types[2:] for label in "lr"]
        columns = [self._column(i, name, (types[0][i], types[1][i])) for i, name in enumerate(names)]
        parts = [range(len(names))[start : start + _MOST_COLUMNS] for start in range(0, len(names), _MOST_COLUMNS)]
        queries = [
            f"SELECT l.k1 AS a, l.k2 AS b, {', '.join(columns[part.start : part.stop])} "
            "FROM l JOIN r ON l.k1 = r.k1 AND l.k2 = r.k2"
            for part in parts
        ]
        if self.tolerances:
            # A row passes if some column is within its tolerance, and no column differs otherwise or cannot be
            # compared.
            verdicts = [
                f"SELECT a, b, coalesce({' OR '.join(f'd{i}' for i in part)}, TRUE) AS d, "
                f"{' OR '.join(f'p{i}' for i in part)} AS p FROM ({text})"
                for part, text in zip(parts, queries, strict=True)
            ]
            connection.execute(
                f"CREATE TEMPORARY TABLE passed AS SELECT a, b FROM ({' UNION ALL '.join(verdicts)}) GROUP BY a, b "
                "HAVING bool_or(p) AND NOT bool_or(d)"
            )
            connection.execute("DELETE FROM d USING passed p WHERE d.kind = 'both' AND d.a = p.a AND d.b = p.b")
            self.allowed += connection.execute("SELECT count(*) FROM passed").fetchall()[0][0]
        for part, text in zip(parts, queries, strict=True):
            sums = ", ".join(_SUMS.format(i=i, most=MOST_EXAMPLES) for i in part)
            (result,) = connection.execute(f"SELECT {sums} FROM ({text})").fetchall()
            width = len(result) // len(part)
            for place, name in enumerate(names[part.start : part.stop]):
                *counts, furthest, key, keys = result[place * width : (place + 1) * width]
                if counts[0] or counts[1]:
                    self.totals.setdefault(name, ColumnTotals()).add(counts, furthest, key, keys)

    def _column(self, i: int, name: str, stored: tuple[object, object]) -> str:
        """Return the SQL expressions that compare one column of both sides.

        The output columns say whether the column differs (`d`), whether it differs only within its tolerance (`p`),
        whether the left or right value is null (`m`, `n`), and how large the distance is (`x`).
        """
        types = [side.schema.field(name).type for side in self.sides]
        texts = [f"{label}.c{i}" for label in "lr"]
        form = self.hashing.form_of(name)
        values = [
            DuckDBValue(text, stored_type, display_type(type_), form)
            for text, stored_type, type_ in zip(texts, stored, types, strict=True)
        ]
        unequal = f"({hash_of(values[0], 0)} <> {hash_of(values[1], 0)})"
        passed = (
            f"({equal_within(values[0], values[1], self.tolerances[name])})" if name in self.tolerances else "FALSE"
        )
        line = NumberLine.for_types(types[0], types[1])
        gap = "NULL::DOUBLE" if line is None else line.distance(*texts)
        differs = f"{unequal} AND NOT {passed}"
        return (
            f"{differs} AS d{i}, {unequal} AND {passed} AS p{i}, {differs} AND {texts[0]} IS NULL AS m{i}, "
            f"{differs} AND {texts[1]} IS NULL AS n{i}, CASE WHEN {differs} THEN {gap} END AS x{i}"
        )

    def _load_rows(
        self,
        bucket_group: Sequence[int],
        connection: duckdb.DuckDBPyConnection,
        label: str,
        number: int,
        hash_pairs: pa.Table,
        names: Sequence[str],
    ) -> None:
        """Create the table `label` with the wanted rows of one side.

        The columns are both hash lanes, then c0, c1, and so on.
        """
        side, counts = self.sides[number], self.buckets[number]
        types = [(f"c{i}", storage_type(side.schema.field(name).type)) for i, name in enumerate(names)]
        target_rows = WantedRows(
            hash_pairs.column("a"), bucket_group, sum(counts[b].rows for b in bucket_group if b in counts)
        )

        def batches() -> Iterator[pa.RecordBatch]:
            with side_phase(number, "fetching differing rows of the {} side", recorded_rows(side)):
                for rows in side.matching(self.hashing, target_rows, names):
                    values = to_duckdb_types(rows.select(list(names)))
                    hashes = [rows.column(f"{HASH_PREFIX}{name}") for name in self.hashing.grouped_by]
                    yield from pa.table([*hashes, *values.columns], schema=whole).to_batches()

        whole = pa.schema([("k1", pa.uint64()), ("k2", pa.uint64()), *types])
        connection.register("stream", pa.RecordBatchReader.from_batches(whole, batches()))
        connection.register("wanted", hash_pairs)
        # The join key is an expression because DuckDB 1.5 pushes join bounds into pyarrow, which rejects unsigned
        # 64-bit values.
        connection.execute(
            f"CREATE OR REPLACE TEMPORARY TABLE {label} AS SELECT s.* FROM stream s SEMI JOIN wanted w "
            "ON xor(s.k1, 0) = w.a AND xor(s.k2, 0) = w.b"
        )
        connection.unregister("stream")
        connection.unregister("wanted")


_MOST_COLUMNS = 32
"""The most columns that one query compares: DuckDB's planning time grows with the square of their number (2.0.1)."""
_COUNTS = ("rows", "allowed", "left_nulls", "right_nulls")
_SUMS = (
    "count(*) FILTER (d{i}), count(*) FILTER (p{i}), count(*) FILTER (m{i}), count(*) FILTER (n{i}), max(x{i}), "
    "arg_max({{'a': a, 'b': b}}, x{i}), arg_min({{'a': a, 'b': b}}, a, {most}) FILTER (d{i})"
)
