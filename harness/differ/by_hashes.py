"""The difference of large sides: of hashes that the engines sum, then of the rows to show.

`harness.differ.buckets` finds the differing hashes, `harness.differ.review` looks at the rows behind them, and
`harness.differ.exact` compares the rows to show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias, cast

import pyarrow as pa

from harness.differ.arrow_side import ArrowSide
from harness.differ.buckets import Groups, Hash, HashTally, passes, total, turns
from harness.differ.duckdb_side import DuckDBSide
from harness.differ.exact import Difference, Rules
from harness.differ.forms import INCOMPARABLE, form
from harness.differ.printing import show
from harness.differ.result import GroupDifference
from harness.differ.review import Review
from harness.differ.sides import HASH_PREFIX, Buckets, HashedSide, Hashing, Side, Some
from harness.errors import EngineError, HarnessError, RequestError

LABELS = ("left", "right")
HashedSides: TypeAlias = tuple[HashedSide, HashedSide]


class SideFailedError(Exception):
    """The failure of a side. number: 0 for the left side, 1 for the right one."""

    def __init__(self, number: int, error: HarnessError) -> None:
        super().__init__(number, error)
        self.number = number
        self.error = error


@contextmanager
def failing(number: int) -> Iterator[None]:
    """Tells a side's failure from a wrong request and from incomparable values."""
    try:
        yield
    except HarnessError as error:
        if isinstance(error, RequestError) or error.cause == INCOMPARABLE:
            raise
        raise SideFailedError(number, error) from error


@dataclass(frozen=True, slots=True)
class FoundRows:
    """The differences of rows, and how many rows each side has.

    shown: the rows that the difference was made from. by_group: the groups with most differing rows, of `groups`.
    """

    rows: tuple[int, int]
    difference: Difference
    shown: tuple[pa.Table, pa.Table]
    by_group: tuple[GroupDifference, ...] = ()
    groups: int = 0


def by_hashes(given: tuple[Side, Side], columns: tuple[str, ...], rules: Rules) -> FoundRows:
    """The difference of sides of any size.

    Raises SideFailedError: a side fails; RequestError: several rows of a side have one key; UnsupportedError: values of
    a column are compared in small numbers only.
    """
    sides = hashed(given)
    hashing = hashing_of(sides, columns, rules)
    buckets = []
    for number, side in enumerate(sides):
        with failing(number):
            buckets.append(side.buckets(hashing))
    if hashing.keys:
        _refuse_repeated(sides, hashing, buckets)
    tally = HashTally(rules.max_rows)
    schemas = (sides[0].schema, sides[1].schema)
    groups = Groups(rules.group_by, schemas) if rules.group_by else None
    review = Review(hashing, schemas, rules.relaxations.tolerances, groups)
    for some in passes(buckets[0], buckets[1]):
        hashes = []
        for number, side in enumerate(sides):
            with failing(number):
                hashes.append(side.hashes(hashing, some))

        def fetch(
            number: int, wanted: pa.Table, columns: Sequence[str], some: tuple[int, ...] = some
        ) -> Iterator[pa.Table]:
            rows = sum(buckets[number][b].rows for b in some if b in buckets[number])
            with failing(number):
                yield from sides[number].matching(hashing, Some(wanted.column("a"), some, rows), columns)

        tally.count(hashes[0], hashes[1], partial(review.judge, fetch=fetch))
    further = review.example_keys()
    fetched = [
        _fetched(number, side, hashing, [*dict.fromkeys([*tally.both, *alone, *further])])
        for number, (side, alone) in enumerate(zip(sides, (tally.left, tally.right), strict=True))
    ]
    shown = (
        _only(fetched[0], hashing, {*tally.both, *tally.left}),
        _only(fetched[1], hashing, {*tally.both, *tally.right}),
    )
    difference = rules.difference(*shown, columns)
    by_value = (difference.only_left, difference.only_right, difference.changed)
    by_hash = (len(tally.left), len(tally.right), len(tally.both))
    assert by_value == by_hash, f"rows differ by hash but not by value: {by_hash} by hash, {by_value} by value"
    difference = _counted(difference, tally, shown, hashing)
    if hashing.keys:
        first, second = ({pair: i for i, pair in enumerate(_hashes(rows, hashing))} for rows in fetched)
        by_column = review.columns(fetched[0], fetched[1], (first, second))
        difference = replace(difference, by_column=by_column, allowed=review.allowed)
    return FoundRows(
        (total(buckets[0]), total(buckets[1])),
        difference,
        shown,
        () if groups is None else groups.found(),
        0 if groups is None else len(groups.counts),
    )


def hashed(sides: tuple[Side, Side]) -> HashedSides:
    """The sides in engines that hash their rows. Raises SideFailedError: a side fails."""
    found = []
    for number, side in enumerate(sides):
        with failing(number):
            found.append(cast(HashedSide, side.in_duckdb() if isinstance(side, ArrowSide) else side))
    return found[0], found[1]


def hashing_of(sides: tuple[Side, Side], columns: tuple[str, ...], rules: Rules) -> Hashing:
    """The hashes to make of rows of both sides."""
    left, right = (side.schema for side in sides)
    zeros = rules.signed_zeros
    forms = tuple(form(left.field(c).type, right.field(c).type, signed_zeros=zeros) for c in columns)
    return Hashing(columns=columns, forms=forms, keys=rules.keys)


def cheaper_first(sides: tuple[Side, Side]) -> list[int]:
    """The numbers of the sides, that of the engine first that answers faster."""
    costs = [0 if isinstance(side, ArrowSide) else 1 if isinstance(side, DuckDBSide) else 2 for side in sides]
    return sorted((0, 1), key=lambda number: costs[number])


def _refuse_repeated(sides: HashedSides, hashing: Hashing, buckets: Sequence[Buckets]) -> None:
    """Asks the cheaper engine about all of its keys, the other one only where the sides differ."""
    cheap, other = cheaper_first(sides)
    differing = {b: sums for b, sums in buckets[other].items() if sums != buckets[cheap].get(b)}
    for number, asked in ((cheap, buckets[cheap]), (other, differing)):
        for some in turns((b, sums.rows) for b, sums in sorted(asked.items())):
            with failing(number):
                repeated = sides[number].repeated(hashing, some)
                if not repeated.num_rows:
                    continue
                first = sides[number].rows(hashing, repeated.column("k1").slice(0, 1))
            text = ", ".join(f"{name} = {show(first.column(name), 0)}" for name in hashing.keys)
            raise RequestError(
                f"Cannot pair rows by {', '.join(map(repr, hashing.keys))}: the {LABELS[number]} side has "
                f"{repeated.column('n')[0]} rows with {text}; add columns to the key, or compare without keys"
            )


def _fetched(number: int, side: HashedSide, hashing: Hashing, wanted: Sequence[Hash]) -> pa.Table:
    """A row of each of the wanted hashes, with its hashes."""
    if not wanted:
        return _empty(side, hashing, hashing.names)
    with failing(number):
        found = side.rows(hashing, pa.array(sorted({first for first, _ in wanted}), pa.uint64()))
        rows = _only(found, hashing, set(wanted))
        if rows.num_rows != len(wanted):
            raise EngineError(
                f"The {LABELS[number]} side gave other rows when it was read again: compare a result that stays the "
                "same"
            )
    return rows


def _only(rows: pa.Table, hashing: Hashing, wanted: set[Hash]) -> pa.Table:
    """The rows whose hashes are wanted."""
    places = [i for i, pair in enumerate(_hashes(rows, hashing)) if pair in wanted]
    return rows if len(places) == rows.num_rows else rows.take(pa.array(places, pa.int64()))


def _hashes(table: pa.Table, hashing: Hashing) -> list[Hash]:
    first, second = (table.column(f"{HASH_PREFIX}{name}").to_pylist() for name in hashing.grouped_by)
    return list(zip(first, second, strict=True))


def _counted(
    difference: Difference, tally: HashTally, shown: tuple[pa.Table, pa.Table], hashing: Hashing
) -> Difference:
    """The difference of a row of each hash, as that of all rows of these hashes."""
    rows = difference.rows
    if not hashing.keys:
        hashes = [_hashes(table, hashing) for table in shown]
        counts = [
            tally.right[hashes[1][right or 0]] if left is None else tally.left[hashes[0][left]]
            for left, right in zip(difference.left_examples, difference.right_examples, strict=True)
        ]
        rows = tuple(replace(row, count=count) for row, count in zip(rows, counts, strict=True))
    return replace(
        difference,
        rows=rows,
        only_left=tally.only_left,
        only_right=tally.only_right,
        changed=tally.changed,
        truncated=len(difference.rows) < tally.kinds,
    )


# Samples of rows by the hashes of their keys: the same keys on both sides, and in every run.


_BITS = 20
_MARGIN = 1.3


def sampled(
    given: tuple[Side, Side], columns: tuple[str, ...], rules: Rules, number: int, resources: ExitStack
) -> tuple[Side, Side]:
    """The rows of at most `number` keys that either side has, in memory. Raises SideFailedError: a side fails."""
    sides = hashed(given)
    hashing = hashing_of(sides, columns, rules)
    place = cheaper_first(sides)[0]
    with failing(place):
        keys = replace(hashing, columns=hashing.keys, forms=tuple(map(hashing.form_of, hashing.keys)))
        rows = total(sides[place].buckets(keys))
    share = min(1.0, (_MARGIN * number + 100) / max(1, rows))
    buckets = range(int(share * (1 << _BITS)))
    drawn = []
    for place, side in enumerate(sides):
        with failing(place):
            wanted = Some(None, buckets, 0)
            parts = list(side.matching(replace(hashing, bits=_BITS), wanted, hashing.columns))
            drawn.append(pa.concat_tables(parts) if parts else _empty(side, hashing, hashing.grouped_by))
    hashes = [_hashes(rows, hashing) for rows in drawn]
    chosen = set(sorted({*hashes[0], *hashes[1]})[:number])
    found = []
    for side, rows, own in zip(sides, drawn, hashes, strict=True):
        places = pa.array([i for i, each in enumerate(own) if each in chosen], pa.int64())
        whole = rows.select(list(hashing.columns)).take(places)
        found.append(ArrowSide(info=side.info, schema=whole.schema, whole=whole, resources=resources))
    return found[0], found[1]


def _empty(side: Side, hashing: Hashing, names: Sequence[str]) -> pa.Table:
    hashes = [pa.field(f"{HASH_PREFIX}{name}", pa.uint64()) for name in names]
    return pa.schema([*(side.schema.field(name) for name in hashing.columns), *hashes]).empty_table()
