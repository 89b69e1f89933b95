"""The sides of a comparison, and the questions to them.

A side shows some of its rows exactly, and sums up all of them by their hashes, inside its engine. The methods of
`DuckDBSide` and `SparkSide` have the same names, and give the same. A HarnessError of theirs is the side's failure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import pyarrow as pa

from harness.differ.forms import HashForm

if TYPE_CHECKING:
    from harness.differ.duckdb_side import ArrowSide, DuckDBSide
    from harness.differ.spark_side import SparkSide

HashedSide: TypeAlias = "DuckDBSide | SparkSide"
"""A side whose engine hashes its rows."""
Side: TypeAlias = "ArrowSide | DuckDBSide | SparkSide"
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

    @property
    def bucket(self) -> str:
        """The number of a row's bucket, in the SQL of either engine."""
        return f"({self.grouped_by[0]} & {(1 << self.bits) - 1})"

    def is_in(self, buckets: Sequence[int]) -> str:
        """A condition on rows in the SQL of either engine: their bucket is one of these, which ascend."""
        if buckets[-1] - buckets[0] == len(buckets) - 1:
            return f"{self.bucket} BETWEEN {buckets[0]} AND {buckets[-1]}"
        return f"{self.bucket} IN ({', '.join(map(str, buckets))})"

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


def retyped(schema: pa.Schema, types: Mapping[int, pa.DataType]) -> pa.Schema:
    """The schema with other types of columns by place."""
    return pa.schema([field.with_type(types.get(i, field.type)) for i, field in enumerate(schema)])
