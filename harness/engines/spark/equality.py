"""Lowers equality deletes to joins of Spark, one or two per set of key ids.

Which deletes hit which data file is settled in the plan's delete sets. Where there are few scopes, each is a arm
that is joined with exactly its own delete files. Where there are many (a stream that commits deletes every minute), all
data files share one join, in which a delete's greatest sequence number and its partition are compared as columns
(iceberg 4.6, 4.29).

A null key equals null and nothing else (iceberg 4.26). Spark runs `<=>` on two columns per key, which costs the hash
table of plain longs that `=` on one integer column gets. So a set of one key is joined twice: with the deletes that
have a value, by `=`, and with the one that has none, if there is one. Few rows are joined once, by `<=>`: there a join
costs what it takes to start.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import count
from operator import and_, or_
from typing import TypeAlias, assert_never

import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, functions
from pyspark.sql.functions import col, lit, when

from harness.engines.file_groups import Pooled
from harness.engines.key_sets import KeySet, key_sets
from harness.metadata.model.schema import Field, StringType
from harness.metadata.plan.scan_plan import ScanPlan

KeyReader: TypeAlias = Callable[[KeySet, Sequence[int]], DataFrame]
"""Key set and indexes into `ScanPlan.equality_deletes` to the rows of those files: the keys as `k0`, `k1`, …, then `ks`
(the delete's sequence number, bigint) and `kp` (its partition's index, bigint; null: it hits all partitions)."""

_FEW_ROWS = 200_000
_BROADCAST_ROWS = 4_000_000
"""A join with more deletes shuffles: Spark judges by the size of files, which well-compressed keys make small."""


def key_columns(key_set: KeySet, roots: Sequence[Column]) -> list[Column]:
    """The keys, given the root column of each. A key below a null struct is null (iceberg 4.23).

    Text is compared by bytes, whatever collation is the default (iceberg 4.28).
    """
    keys = []
    for root, names, type_ in zip(roots, key_set.names, key_set.types, strict=True):
        key = reduce(lambda parent, name: parent.getField(name), names, root)
        keys.append(functions.collate(key, "UTF8_BINARY") if isinstance(type_, StringType) else key)
    return keys


@dataclass(frozen=True, slots=True)
class EqualityLowering:
    """The equality deletes of one plan.

    read_keys: reads delete files; called when a arm needs them, once per set of files.
    """

    plan: ScanPlan
    read_keys: KeyReader
    _read: dict[tuple[KeySet, tuple[int, ...]], DataFrame] = field(default_factory=dict)

    def without_deleted(self, frame: DataFrame, scope: int | Pooled, roots: Mapping[Field, str]) -> DataFrame:
        """The rows of `frame` that no equality delete hits, with its columns.

        Args:
            frame: with the columns of `roots`, and, where deletes are pooled, `sq` (the data sequence number
                of the row's file) and `sp` (the index of its partition). No label may begin with `d` and a digit.
            scope: the arm's.
            roots: the label in `frame` of each root column.
        """
        for match in self._matches(scope, roots):
            frame = frame.join(match.deletes(), match.on(), "left_anti")
        return frame

    def flagged(self, frame: DataFrame, scope: int | Pooled, roots: Mapping[Field, str]) -> tuple[DataFrame, Column]:
        """All rows of `frame`, with more columns, and whether an equality delete hits a row; never null.

        Args: as for `without_deleted`.
        """
        hits = []
        for match in self._matches(scope, roots):
            flag = f"{match.prefix}hit"
            frame = frame.join(match.once().withColumn(flag, lit(True)), match.on(), "left")
            hits.append(col(flag).isNotNull())
        return frame, reduce(or_, hits)

    def _matches(self, scope: int | Pooled, roots: Mapping[Field, str]) -> Iterator[_Match]:
        members = self.plan.delete_sets[scope] if isinstance(scope, int) else range(len(self.plan.equality_deletes))
        numbers = count()
        for key_set, chosen in key_sets(self.plan, members).items():
            keys = key_columns(key_set, [col(roots[root]) for root in key_set.keys])
            for pool in [chosen] if isinstance(scope, int) else self._pools(chosen):
                yield from self._joined(pool, self._rows(key_set, pool, scope), keys, numbers)

    def _pools(self, members: Sequence[int]) -> list[list[int]]:
        """The delete files that are compared in the same columns: those of all partitions apart from those of one."""
        deletes = self.plan.equality_deletes
        everywhere = [m for m in members if deletes[m].partition is None]
        return [pool for pool in (everywhere, [m for m in members if deletes[m].partition is not None]) if pool]

    def _joined(
        self, pool: Sequence[int], rows: DataFrame, keys: Sequence[Column], numbers: Iterator[int]
    ) -> Iterator[_Match]:
        known = self._count(pool)
        size = _Size.LARGE if known is not None and known > _BROADCAST_ROWS else _Size.ANY
        if len(keys) > 1 or self._has_few_rows():
            yield _Match(f"d{next(numbers)}", rows, keys, _Same.NULL_SAFE, size)
            return
        null = rows.where(col("k0").isNull()).withColumn("k0", lit(1))
        if known is None or known > _BROADCAST_ROWS:
            null = null.distinct()  # a shuffle: it costs small reads more than it spares them
        yield _Match(f"d{next(numbers)}", rows.where(col("k0").isNotNull()), keys, _Same.EQUAL, size)
        yield _Match(f"d{next(numbers)}", null, [when(keys[0].isNull(), 1)], _Same.EQUAL, _Size.TINY)

    def _rows(self, key_set: KeySet, pool: Sequence[int], scope: int | Pooled) -> DataFrame:
        """The deletes of a pool: a row per row of its files, or, with `ks` and perhaps `kp`, the last of each key.

        The same pool is the same frame each time, which lets Spark broadcast it once for all arms.
        """
        found = self._read.get((key_set, tuple(pool)))
        if found is not None:
            return found
        labels = [f"k{i}" for i in range(len(key_set.keys))]
        rows = self.read_keys(key_set, pool)
        if isinstance(scope, int):
            rows = rows.select(*labels)
        else:
            partition = [] if self.plan.equality_deletes[pool[0]].partition is None else ["kp"]
            rows = rows.groupBy(*labels, *partition).agg(functions.max("ks").alias("ks"))
        self._read[key_set, tuple(pool)] = rows
        return rows

    def _has_few_rows(self) -> bool:
        """Whether the data files say so; what they say changes the join, not its result."""
        counts = self.plan.files.column("record_count")
        total = pc.sum(counts).as_py()
        return total is not None and counts.null_count == 0 and total <= _FEW_ROWS

    def _count(self, pool: Sequence[int]) -> int | None:
        counts = [self.plan.equality_deletes[m].record_count for m in pool]
        known = [number for number in counts if number is not None]
        return sum(known) if len(known) == len(counts) else None


class _Same(enum.Enum):
    """When a key of a row and one of a delete are the same."""

    EQUAL = "both have the same value"
    NULL_SAFE = "both have the same value or none"

    def holds(self, left: Column, right: Column) -> Column:
        return left == right if self is _Same.EQUAL else left.eqNullSafe(right)


class _Size(enum.Enum):
    """How many deletes there are, by which Spark decides how to join."""

    TINY = "so few, or of so little each, that they are always broadcast"
    LARGE = "too many to broadcast"
    ANY = "as many as the size of the files lets expect"

    def hinted(self, frame: DataFrame) -> DataFrame:
        match self:
            case _Size.TINY:
                return frame.hint("broadcast")
            case _Size.LARGE:
                return frame.hint("merge")
            case _Size.ANY:
                return frame
            case _:
                assert_never(self)


@dataclass(frozen=True, slots=True)
class _Match:
    """One join of data rows with deletes.

    prefix: of the labels of the deletes' columns in the joined frame.
    rows: the deletes: a column `k0`, `k1`, … for each of `keys`, and `ks` and `kp` where they are compared.
    keys: on the data side.
    """

    prefix: str
    rows: DataFrame
    keys: Sequence[Column]
    same: _Same
    size: _Size

    def deletes(self) -> DataFrame:
        """The rows to join with, the same delete perhaps more than once."""
        return self.size.hinted(self._renamed())

    def once(self) -> DataFrame:
        """The rows to join with, at most one for each data row."""
        return self.size.hinted(self._renamed() if "ks" in self.rows.columns else self._renamed().distinct())

    def on(self) -> Column:
        """When a delete hits a row."""
        conditions = [self.same.holds(key, col(f"{self.prefix}k{i}")) for i, key in enumerate(self.keys)]
        if "ks" in self.rows.columns:
            conditions.append(col("sq") < col(f"{self.prefix}ks"))
        if "kp" in self.rows.columns:
            conditions.append(col("sp") == col(f"{self.prefix}kp"))
        return reduce(and_, conditions)

    def _renamed(self) -> DataFrame:
        return self.rows.select(*[col(label).alias(f"{self.prefix}{label}") for label in self.rows.columns])
