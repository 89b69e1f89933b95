"""The side of a comparison, whatever engine its rows are in.

A side shows some of its rows exactly, and summarises all of them by their hashes, inside its engine:
`harness.differ.duckdb_side` and `harness.differ.spark_side` do it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from harness.differ.forms import HashForm
from harness.differ.result import SideInfo
from harness.metadata.plan.scan_plan import ScanPlan

_T = TypeVar("_T")
BITS = 12
"""The bits of a hash that number a row's bucket: few rows share a bucket, and all sums can be fetched."""
MOST_REPEATED = 5
"""Repeated keys that an error may name."""
HASH_PREFIX = "\0"
"""The prefix of the names of hashes beside the columns of a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hashing:
    """The hashes to make, the same for both sides.

    columns: the compared columns. forms: what of each is hashed. keys: some of the columns; with keys, a row's bucket
    is that of its keys, so that both rows of a key are in one.
    """

    columns: tuple[str, ...]
    forms: tuple[HashForm, ...]
    keys: tuple[str, ...] = ()
    bits: int = BITS

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of hashes: both lanes of the row's and, with keys, of the keys'."""
        return ("h1", "h2", "k1", "k2") if self.keys else ("h1", "h2")

    @property
    def grouped_by(self) -> tuple[str, str]:
        """The lanes that rows are paired by; the first one also numbers the bucket."""
        return ("k1", "k2") if self.keys else ("h1", "h2")

    def lanes(self, row_hashes: Callable[[Sequence[str]], tuple[_T, _T]]) -> dict[str, _T]:
        """The lanes by `names`. row_hashes: both lanes of some columns."""
        hashed = (self.columns, self.keys) if self.keys else (self.columns,)
        return dict(zip(self.names, (lane for columns in hashed for lane in row_hashes(columns)), strict=True))

    def bucket_condition(self, bucket: str, buckets: Sequence[int]) -> str:
        """SQL of either engine for "the expression `bucket` is one of some buckets", which ascend."""
        if buckets[-1] - buckets[0] == len(buckets) - 1:
            return f"{bucket} BETWEEN {buckets[0]} AND {buckets[-1]}"
        return f"{bucket} IN ({', '.join(map(str, buckets))})"

    def form_of(self, column: str) -> HashForm:
        """The form of a column."""
        return self.forms[self.columns.index(column)]


class Sums(NamedTuple):
    """A bucket: how many rows, and the sums of both lanes."""

    rows: int
    first: int
    second: int


Buckets: TypeAlias = Mapping[int, Sums]


@dataclass(frozen=True, slots=True)
class Some:
    """Rows to fetch. wanted: values of `Hashing.grouped_by[0]`; None: all. buckets: those that hold them, ascending.

    rows: how many rows the buckets hold on the side.
    """

    wanted: pa.ChunkedArray | None
    buckets: Sequence[int]
    rows: int

    @property
    def few(self) -> pa.ChunkedArray | None:
        """The wanted hashes; None: so much of the buckets is wanted that all of it is fetched at least as fast."""
        return None if self.wanted is None or len(self.wanted) * 8 > self.rows else self.wanted


def with_hashes(rows: pa.Table, hashes: pa.Table) -> pa.Table:
    """The rows with their hashes beside them, under `HASH_PREFIX`."""
    for name in hashes.column_names:
        rows = rows.append_column(f"{HASH_PREFIX}{name}", hashes.column(name))
    return rows


class Side(Protocol):
    """A side of a comparison. A HarnessError that a method raises is the side's failure."""

    @property
    def info(self) -> SideInfo:
        """Name, engine and table; rows are not counted yet."""

    @property
    def schema(self) -> pa.Schema:
        """Names and logical types of the columns."""

    @property
    def plan(self) -> ScanPlan | None:
        """The plan that is read, where the side is a planned table."""

    def head(self, columns: Sequence[str], limit: int) -> pa.Table:
        """At most `limit` rows of some columns; all of them, if fewer."""


def recorded_rows(side: Side) -> int | None:
    """The rows of the files of a planned side, before deletes; None: the metadata does not tell."""
    return None if side.plan is None else pc.sum(side.plan.files.column("record_count"), skip_nulls=False).as_py()


class HashedSide(Side, Protocol):
    """A side whose engine hashes its rows."""

    def buckets(self, hashing: Hashing) -> Buckets:
        """All rows, summed by bucket; empty buckets are left out."""

    def hashes(self, hashing: Hashing, buckets: Sequence[int]) -> pa.Table:
        """The hashes of the rows of some buckets, ascending, as uint64 columns named `hashing.names`."""

    def rows(self, hashing: Hashing, wanted: pa.Array) -> pa.Table:
        """Rows whose `hashing.grouped_by[0]` is wanted, one of each hash.

        Columns: the compared columns under their names, then the hashes under theirs after `HASH_PREFIX`.
        """

    def matching(self, hashing: Hashing, some: Some, columns: Sequence[str]) -> Iterator[pa.Table]:
        """At least the rows whose hashes are wanted, in parts: some of the columns, then hashes, as `rows` has them."""

    def repeated(self, hashing: Hashing, buckets: Sequence[int]) -> pa.Table:
        """Some of the keys that several rows of some buckets, ascending, have: `k1`, `k2`, and in `n` how many rows."""
