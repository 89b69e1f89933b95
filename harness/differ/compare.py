"""`compare`: whether two results are the same rows, and where they are not.

    harness.compare(table, table, engines=("duckdb", "spark"), keys=["id"])
    harness.compare(connection.sql("..."), spark.sql("..."))

Small sides are compared as they are, by `harness.differ.exact`. Of large ones the engines sum hashes, the rows that
differ are found by these (`harness.differ.buckets`), and only rows to show are fetched, and compared in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from harness.differ.arrow_side import ArrowSide
from harness.differ.buckets import Hash, Tally, passes, passes_of_one, total
from harness.differ.canonical import SignedZeros
from harness.differ.duckdb_side import DuckDBSide
from harness.differ.exact import Difference, keyed_difference, multiset_difference
from harness.differ.forms import INCOMPARABLE, form
from harness.differ.opening import Opening, opened
from harness.differ.origins import columns_of, with_origins
from harness.differ.printing import show
from harness.differ.result import ComparisonResult, RowDifference, SideInfo
from harness.differ.schemas import compare_schemas
from harness.differ.sides import HASH_PREFIX, Buckets, Hashing, Side
from harness.errors import EngineError, HarnessError, RequestError, UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEW = 50_000
"""Rows of a side up to which it is compared as it is."""
_LABELS = ("left", "right")


def compare(
    left: object,
    right: object,
    *,
    keys: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    where: str | None = None,
    engines: Sequence[str] = ("duckdb", "duckdb"),
    spark: SparkSession | None = None,
    max_rows: int = 100,
    names: Sequence[str] | None = None,
    signed_zeros: SignedZeros = "distinct",
    few: int = FEW,
) -> ComparisonResult:
    """All differences of two sides: of schemas, of rows as multisets, and of outcomes, where only one side fails.

    A side is a `Table`, `Snapshot` or `Changes`, read by the engine named in `engines`, or a table of PyIceberg or of
    deltalake; one of these with an engine's name, `(table, "spark")`; a DuckDB relation; a Spark DataFrame; or what has
    an Arrow stream, read once. No setting of a user's connection or session is changed, none has a say in the result.

    Rows are equal where all values are: null equals null and NaN equals NaN, instants are compared in UTC and to the
    nanosecond, decimals by value, text by bytes, maps without order, struct fields by name. Values of columns whose
    types differ are compared by value too, where that can be; the type is then a difference of the schema. A side may
    be read several times, and must give the same rows each time.

    Args:
        keys: columns that tell rows apart on either side, null like any value. Rows of one key are paired, and show as
            changed; without keys, rows are counted.
        columns: what to compare, of both sides; None: all columns.
        where: a boolean SQL expression in DuckDB's dialect; only for tables and snapshots, on both sides.
        engines: `duckdb`, `spark` or `oracle`, for the left and the right side, where it is a planned table.
        spark: the session for planned tables on Spark; None: `harness.spark_session()`.
        max_rows: how many differing rows to show at most. All are counted.
        names: what to call the sides in reports.
        signed_zeros: whether -0.0 is another value than 0.0, `distinct`, or not, `equal`.
        few: sides of at most so many rows are fetched and compared as they are; of larger ones, only rows that differ
            are, found by hashes of 128 bits that the engines compute.

    Raises:
        RequestError: a side is nothing that can be compared, a column is missing, several rows have one key, or an
            argument has no such value.
        UnsupportedError: a column has a type that cannot be compared.
    """
    openings = _openings(left, right, columns, where, engines, spark, names)
    rules = _Rules(tuple(_strings(keys, "keys")), max_rows, signed_zeros, few)
    if max_rows < 0 or few < 0:
        raise RequestError(f"Invalid max_rows {max_rows} or few {few}: expected no negative number")
    for opening in openings:
        opening.check()
    with ExitStack() as resources:
        return _Run(openings, rules, resources).comparison()


@dataclass(frozen=True, slots=True)
class _Rules:
    """How rows are compared."""

    keys: tuple[str, ...]
    max_rows: int
    signed_zeros: SignedZeros
    few: int


class _SideFailedError(Exception):
    """One side failed: an outcome, not an end."""

    def __init__(self, number: int, error: HarnessError) -> None:
        super().__init__(number, error)
        self.number = number
        self.error = error


@dataclass(frozen=True, slots=True)
class _Found:
    """What a way of comparing rows found, and how many rows each side has."""

    rows: tuple[int, int]
    difference: Difference
    shown: tuple[pa.Table, pa.Table]


@dataclass(frozen=True, slots=True)
class _Run:
    """One comparison."""

    openings: tuple[Opening, Opening]
    rules: _Rules
    resources: ExitStack

    def comparison(self) -> ComparisonResult:
        try:
            left, right = self._open(0), self._open(1)
            return self._compared(left, right)
        except _SideFailedError as failed:
            return self._outcome(failed)

    def _open(self, number: int) -> Side:
        with _failing(number):
            return self.openings[number].open(self.rules.few, self.resources)

    def _compared(self, left: Side, right: Side) -> ComparisonResult:
        schema, columns = compare_schemas(left.schema, right.schema)
        _check_keys(self.rules.keys, columns, (left, right))
        sides = (left, right)
        small = self._small(sides, columns)
        if small is None:
            found = self._by_hashes(sides, columns)
        else:
            difference = self._difference(*small, columns)
            found = _Found((small[0].num_rows, small[1].num_rows), difference, small)
        infos = [replace(side.info, rows=rows) for side, rows in zip(sides, found.rows, strict=True)]
        return ComparisonResult(
            left=infos[0],
            right=infos[1],
            columns=columns,
            keys=self.rules.keys,
            schema=schema,
            rows=self._placed(found, sides, columns),
            only_left=found.difference.only_left,
            only_right=found.difference.only_right,
            changed=found.difference.changed,
            truncated=found.difference.truncated,
        )

    def _small(self, sides: tuple[Side, Side], columns: Sequence[str]) -> tuple[pa.Table, pa.Table] | None:
        """All rows of both sides, if these are few; the cheaper engine is asked first."""
        heads: dict[int, pa.Table] = {}
        for number in _cheaper_first(sides):
            side = sides[number]
            if side.plan is not None and side.plan.filter is None and _many(side, self.rules.few):
                return None
            with _failing(number):
                heads[number] = side.head(columns, self.rules.few + 1)
            if heads[number].num_rows > self.rules.few:
                return None
        return heads[0], heads[1]

    def _difference(self, left: pa.Table, right: pa.Table, columns: Sequence[str]) -> Difference:
        rules = self.rules
        if rules.keys:
            return keyed_difference(
                left, right, columns, rules.keys, max_rows=rules.max_rows, signed_zeros=rules.signed_zeros
            )
        return multiset_difference(left, right, columns, max_rows=rules.max_rows, signed_zeros=rules.signed_zeros)

    def _by_hashes(self, sides: tuple[Side, Side], columns: tuple[str, ...]) -> _Found:
        left, right = (side.schema for side in sides)
        zeros = self.rules.signed_zeros
        forms = tuple(form(left.field(c).type, right.field(c).type, signed_zeros=zeros) for c in columns)
        hashing = Hashing(columns=columns, forms=forms, keys=self.rules.keys)
        buckets = []
        for number, side in enumerate(sides):
            with _failing(number):
                buckets.append(side.buckets(hashing))
        if hashing.keys:
            self._refuse_repeated(sides, hashing, buckets)
        tally = Tally(self.rules.max_rows)
        for some in passes(buckets[0], buckets[1]):
            hashes = []
            for number, side in enumerate(sides):
                with _failing(number):
                    hashes.append(side.hashes(hashing, some))
            tally.count(hashes[0], hashes[1])
        shown = (
            self._fetched(0, sides[0], hashing, [*tally.both, *tally.left]),
            self._fetched(1, sides[1], hashing, [*tally.both, *tally.right]),
        )
        difference = self._difference(*shown, columns)
        _check_same(difference, tally)
        return _Found((total(buckets[0]), total(buckets[1])), _counted(difference, tally, shown, hashing), shown)

    def _refuse_repeated(self, sides: tuple[Side, Side], hashing: Hashing, buckets: Sequence[Buckets]) -> None:
        """Asks the cheaper engine about all of its keys, the other one only where the sides differ."""
        cheap, other = _cheaper_first(sides)
        differing = {b: sums for b, sums in buckets[other].items() if sums != buckets[cheap].get(b)}
        for number, asked in ((cheap, buckets[cheap]), (other, differing)):
            for some in passes_of_one(asked):
                _refuse_repeated(number, sides[number], hashing, some)

    def _fetched(self, number: int, side: Side, hashing: Hashing, wanted: Sequence[Hash]) -> pa.Table:
        """A row of each of the wanted hashes."""
        if not wanted:
            return pa.schema([side.schema.field(name) for name in hashing.columns]).empty_table()
        with _failing(number):
            found = side.rows(hashing, pa.array(sorted({first for first, _ in wanted}), pa.uint64()), 1)
            known = set(wanted)
            places = [i for i, pair in enumerate(_hashes(found, hashing)) if pair in known]
            if len(places) != len(known):
                raise EngineError(
                    f"The {_LABELS[number]} side gave other rows when it was read again: compare a result that stays "
                    "the same"
                )
        return found.take(pa.array(places, pa.int64()))

    def _placed(self, found: _Found, sides: tuple[Side, Side], columns: Sequence[str]) -> tuple[RowDifference, ...]:
        """The differing rows with their origins."""
        plans = [None if side.plan is None else columns_of(side.plan) for side in sides]
        if plans == [None, None] or not found.difference.rows:
            return found.difference.rows
        return with_origins(
            found.difference,
            *found.shown,
            columns,
            keys=self.rules.keys,
            left_plan=plans[0],
            right_plan=plans[1],
            signed_zeros=self.rules.signed_zeros,
        )

    def _outcome(self, failed: _SideFailedError) -> ComparisonResult:
        """The other side is read too, to say whether it fails as well."""
        infos: dict[int, SideInfo] = {}
        infos[failed.number] = replace(self.openings[failed.number].info, error=failed.error)
        number = 1 - failed.number
        try:
            side = self._open(number)
            with _failing(number):
                infos[number] = replace(side.info, rows=_count(side, self.rules.few))
        except _SideFailedError as other:
            infos[number] = replace(self.openings[number].info, error=other.error)
        return ComparisonResult(left=infos[0], right=infos[1], keys=self.rules.keys)


def _openings(
    left: object,
    right: object,
    columns: Sequence[str] | None,
    where: str | None,
    engines: Sequence[str],
    spark: SparkSession | None,
    names: Sequence[str] | None,
) -> tuple[Opening, Opening]:
    chosen = None if columns is None else tuple(_strings(columns, "columns"))
    if chosen is not None and len(set(chosen)) < len(chosen):
        raise RequestError(f"Invalid columns {list(chosen)}: a name is there twice")
    for what, pair in (("engines", engines), ("names", names)):
        if pair is not None and (isinstance(pair, str) or len(pair) != 2):
            raise RequestError(f"Invalid {what} {pair!r}: expected two, for the left and the right side")
    pairs = (_with_engine(left, engines[0]), _with_engine(right, engines[1]))
    first, second = (
        Opening(
            data=data,
            label=_LABELS[i],
            name=None if names is None else names[i],
            engine=engine,
            columns=chosen,
            where=where,
            spark=spark,
        )
        for i, (data, engine) in enumerate(pairs)
    )
    return first, second


def _with_engine(side: object, engine: str) -> tuple[object, str]:
    match side:
        case (data, str(own)):
            return opened(data), own
        case _:
            return opened(side), engine


def _strings(values: Sequence[str], what: str) -> Sequence[str]:
    if isinstance(values, str):
        raise RequestError(f"Invalid {what} {values!r}: expected a list of names")
    return values


@contextmanager
def _failing(number: int) -> Iterator[None]:
    """A side's failure, told apart from a wrong request and from what cannot be compared at all."""
    try:
        yield
    except HarnessError as error:
        if isinstance(error, RequestError) or error.cause == INCOMPARABLE:
            raise
        raise _SideFailedError(number, error) from error


def _check_keys(keys: Sequence[str], columns: Sequence[str], sides: tuple[Side, Side]) -> None:
    for key in keys:
        lacking = [label for label, side in zip(_LABELS, sides, strict=True) if key not in side.schema.names]
        if lacking:
            raise RequestError(f"Cannot pair rows by {key!r}: the {lacking[0]} side has no such column", field=key)
        if key not in columns:
            types = " and ".join(str(side.schema.field(key).type) for side in sides)
            raise RequestError(f"Cannot pair rows by {key!r}: its types {types} cannot be compared", field=key)


def _refuse_repeated(number: int, side: Side, hashing: Hashing, buckets: Sequence[int]) -> None:
    with _failing(number):
        repeated = side.repeated(hashing, buckets)
        if repeated.num_rows == 0:
            return
        first = side.rows(hashing, repeated.column("k1").slice(0, 1), 1)
    text = ", ".join(f"{name} = {show(first.column(name), 0)}" for name in hashing.keys)
    raise RequestError(
        f"Cannot pair rows by {', '.join(map(repr, hashing.keys))}: the {_LABELS[number]} side has "
        f"{repeated.column('n')[0]} rows with {text}; add columns to the key, or compare without keys"
    )


def _cheaper_first(sides: tuple[Side, Side]) -> list[int]:
    costs = [0 if isinstance(side, ArrowSide) else 1 if isinstance(side, DuckDBSide) else 2 for side in sides]
    return sorted((0, 1), key=lambda number: costs[number])


def _many(side: Side, few: int) -> bool:
    """Whether a planned table surely has too many rows to fetch, whatever its deletes: then no read finds it out."""
    assert side.plan is not None
    if side.plan.equality_deletes or side.plan.position_deletes:
        return False
    counts = side.plan.files.column("record_count").to_pylist()
    return None not in counts and sum(counts) > few


def _count(side: Side, few: int) -> int:
    """How many rows a side has; all of its values are read, as far as they can be compared."""
    head = side.head(side.schema.names, few + 1)
    if head.num_rows <= few:
        return int(head.num_rows)
    forms = {}
    for name, type_ in zip(side.schema.names, side.schema.types, strict=True):
        try:
            forms[name] = form(type_, type_)
        except UnsupportedError:
            continue
    return total(side.buckets(Hashing(columns=tuple(forms), forms=tuple(forms.values()))))


def _hashes(table: pa.Table, hashing: Hashing) -> list[Hash]:
    first, second = (table.column(f"{HASH_PREFIX}{name}").to_pylist() for name in hashing.grouped_by)
    return list(zip(first, second, strict=True))


def _check_same(difference: Difference, tally: Tally) -> None:
    """Rows whose hashes differ must differ, or the hashes or the values are wrong; both would be a fault of harness."""
    found = difference.only_left, difference.only_right, difference.changed
    hashed = len(tally.left), len(tally.right), len(tally.both)
    assert found == hashed, f"rows differ by hash but not by value: {hashed} by hash, {found} by value"


def _counted(difference: Difference, tally: Tally, shown: tuple[pa.Table, pa.Table], hashing: Hashing) -> Difference:
    """The difference of a row of each hash, as that of all rows of these hashes."""
    counts = []
    examples = (difference.left_examples, difference.right_examples)
    hashes = [_hashes(table, hashing) if table.num_rows else [] for table in shown]
    for row, left, right in zip(difference.rows, *examples, strict=True):
        count = 1
        if not hashing.keys:
            count = tally.right[hashes[1][right or 0]] if left is None else tally.left[hashes[0][left]]
        counts.append(replace(row, count=count))
    return replace(
        difference,
        rows=tuple(counts),
        only_left=tally.only_left,
        only_right=tally.only_right,
        changed=tally.changed,
        truncated=len(difference.rows) < tally.kinds,
    )
