"""Deletes on Spark: deleted positions, and joins with the keys of equality deletes.

With a gateway, a file's bitmap of deleted positions is a constant of the file, like its partition values. Harness's
reader marks deleted rows batch by batch (`java/MarkedRows.java`), so there is no join, and filters still reach the
Parquet reader. Without a gateway, words of 64 rows are joined with the rows.

With few sets of equality deletes, each set is an arm that is joined with exactly its own delete files. With many sets,
all data files share one join, which compares sequence number and partition as columns (iceberg 4.6, 4.29).

A null key equals only null (iceberg 4.26). Spark runs `<=>` without the fast hash table of longs that `=` on a single
integer column uses. So a set with one key is joined twice: by `=` with the deletes that have a value, and with the null
key, if there is one. For few rows a single join by `<=>` is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import count
from operator import and_, eq, or_
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.functions import col, lit, when

from harness.engines.changes import DELETE_FACTS, first_delete
from harness.engines.spark.dialect import DIALECT
from harness.engines.union_arms import DeletePool, KeySet, key_sets
from harness.metadata.files.roaring import Positions, to_positions
from harness.metadata.model.schema import Field, StringType
from harness.metadata.planned_scan import PlannedScan

Words: TypeAlias = npt.NDArray[np.int64]

_WORD_BITS = 6
_CHUNK_BITS = 12
_BROADCAST_CONF = "spark.sql.autoBroadcastJoinThreshold"


def encode(deleted: BitMap64, rows: int) -> bytes:
    """Return a bitmap as a constant of a file, for `PlannedRead`: 64-bit roaring, in the portable format.

    Args:
        deleted: The deleted positions.
        rows: The number of rows in the file. Greater positions are omitted.
    """
    compact = BitMap64(deleted)
    if len(compact) and compact.max() >= rows:
        compact.remove_range(rows, compact.max() + 1)
    compact.run_optimize()
    return compact.serialize()


def is_marked(position: Column) -> Column:
    """Return whether a row is deleted, given its position from `Gateway.planned_frame`. Never null."""
    return position < 0


def unmarked(position: Column) -> Column:
    """Return the original position of a row, deleted or not."""
    return functions.when(position < 0, functions.bitwise_not(position)).otherwise(position)


def with_flags(
    frame: DataFrame, file: Column, position: Column, deleted: Mapping[int, BitMap64], spark: SparkSession
) -> tuple[DataFrame, Column]:
    """Join rows with the bitmaps of their files, for sessions without a gateway.

    The words of a file are one row as long as all words fit into a broadcast. Otherwise they are split into chunks of
    4,096 rows, which Spark's shuffle distributes over the executors.

    Args:
        frame: Rows of any files. Its columns must not be called `#file`, `#chunk`, or `#words`.
        file: The number of a row's file.
        position: A row's position in its file, from 0.
        deleted: Deleted positions by file number. Other files have none.
        spark: The session.

    Returns:
        The joined frame with all its columns, and an expression for whether a row is deleted.
    """
    size = sum((int(bitmap.max()) >> 3) + 1 for bitmap in deleted.values() if len(bitmap))
    most = str(spark.conf.get(_BROADCAST_CONF)).rstrip("bB")  # in bytes; Spark never broadcasts if it is negative
    if size <= (int(most) if most.lstrip("-").isdigit() else 10 << 20):
        words = functions.broadcast(spark.createDataFrame(_whole(deleted)))
        on, shift = functions.col("#file") == file, position
    else:
        words = spark.createDataFrame(_chunks(deleted))
        chunk = functions.shiftright(position, _CHUNK_BITS)
        on = (functions.col("#file") == file) & (functions.col("#chunk") == chunk)
        shift = position.bitwiseAND((1 << _CHUNK_BITS) - 1)
    place = functions.shiftright(shift, _WORD_BITS).cast("int")
    word = functions.get(functions.col("#words"), place)
    bit = functions.getbit(word, shift.bitwiseAND((1 << _WORD_BITS) - 1).cast("int"))
    return frame.join(words, on, "left"), functions.coalesce(bit == 1, functions.lit(False))


def _whole(deleted: Mapping[int, BitMap64]) -> pa.Table:
    """Return one row per file: the words from position 0 to the last deleted position."""
    hit = {number: bitmap for number, bitmap in deleted.items() if len(bitmap)}
    words = [_words(to_positions(bitmap), (int(bitmap.max()) >> _WORD_BITS) + 1) for bitmap in hit.values()]
    return _table([pa.array(list(hit), pa.int64())], ["#file"], words)


def _chunks(deleted: Mapping[int, BitMap64]) -> pa.Table:
    """Return one row per file and chunk that has deleted positions."""
    files, chunks, words = [], [], []
    per_chunk = 1 << (_CHUNK_BITS - _WORD_BITS)
    for number, bitmap in deleted.items():
        positions = to_positions(bitmap)
        chunk, place = np.unique(positions >> np.uint64(_CHUNK_BITS), return_inverse=True)
        low = positions & np.uint64((1 << _CHUNK_BITS) - 1)
        packed = (place.astype(np.uint64) << np.uint64(_CHUNK_BITS)) | low
        files.append(np.full(chunk.size, number, dtype=np.int64))
        chunks.append(chunk.astype(np.int64))
        words += np.split(_words(packed, chunk.size * per_chunk), chunk.size) if chunk.size else []
    columns = [pa.array(np.concatenate([np.empty(0, np.int64), *parts])) for parts in (files, chunks)]
    return _table(columns, ["#file", "#chunk"], words)


def _words(positions: Positions, count: int) -> Words:
    """Return `count` words with one bit per position, lowest bit first. Positions must ascend."""
    words = np.zeros(count, dtype=np.uint64)
    if positions.size:
        places = positions >> np.uint64(_WORD_BITS)
        starts = np.flatnonzero(np.diff(places, prepend=places[:1] + np.uint64(1)))
        bits = np.uint64(1) << (positions & np.uint64((1 << _WORD_BITS) - 1))
        words[places[starts]] = np.bitwise_or.reduceat(bits, starts)
    return words.view(np.int64)


def _table(keys: list[pa.Array], names: list[str], words: list[Words]) -> pa.Table:
    lengths = np.array([0, *map(len, words)], dtype=np.int64)
    values = pa.array(np.concatenate([np.empty(0, np.int64), *words]))
    lists = pa.LargeListArray.from_arrays(pa.array(np.cumsum(lengths)), values)
    return pa.table([*keys, lists.cast(pa.list_(pa.int64()))], names=[*names, "#words"])


KeyReader: TypeAlias = Callable[[KeySet, Sequence[int]], DataFrame]
"""Returns the keys of some delete files, given a key set and indexes into `ScanPlan.equality_deletes`.

The columns are `k0`, `k1`, …, then `ks` (the delete's sequence number, bigint) and `kp` (the index of its partition,
bigint; null if the delete applies to all partitions).
"""

_FEW_ROWS = 200_000
_BROADCAST_ROWS = 4_000_000
"""The most deletes in a join with a broadcast. Spark decides by file size, which is small for well-compressed keys."""


def key_columns(key_set: KeySet, roots: Sequence[Column]) -> list[Column]:
    """Return the keys, given the root column of each. A key below a null struct is null (iceberg 4.23).

    Text is compared by bytes, regardless of the default collation (iceberg 4.28).
    """
    keys = []
    for root, names, type_ in zip(roots, key_set.names, key_set.types, strict=True):
        key = reduce(lambda parent, name: parent.getField(name), names, root)
        keys.append(functions.collate(key, "UTF8_BINARY") if isinstance(type_, StringType) else key)
    return keys


@dataclass(slots=True)
class DeleteJoins:
    """The equality deletes of one plan.

    Attributes:
        plan: The plan.
        read_keys: Reads delete files. It is called when an arm needs them, once per set of files.
    """

    plan: PlannedScan
    read_keys: KeyReader
    _read: dict[tuple[KeySet, tuple[int, ...]], DataFrame] = field(default_factory=dict)

    def without_deleted(self, frame: DataFrame, scope: int | DeletePool, roots: Mapping[Field, str]) -> DataFrame:
        """Return the rows of `frame` that no equality delete applies to, with the same columns.

        Args:
            frame: The rows of an arm, with the columns of `UnionArm.values`. No label may begin with `d` and a digit.
            scope: The arm's scope.
            roots: The label in `frame` of each root column.
        """
        for match in self._matches(scope, roots):
            frame = frame.join(match.deletes(), match.on(), "left_anti")
        return frame

    def flagged(
        self, frame: DataFrame, scope: int | DeletePool, roots: Mapping[Field, str]
    ) -> tuple[DataFrame, Column]:
        """Return all rows of `frame` with additional columns, and an expression for whether a delete applies to a row.

        The expression is never null.
        """
        hits = []
        for match in self._matches(scope, roots):
            flag = f"{match.prefix}hit"
            frame = frame.join(match.deletes(once=True).withColumn(flag, lit(True)), match.on(), "left")
            hits.append(col(flag).isNotNull())
        return frame, reduce(or_, hits)

    def with_first_deletes(
        self, frame: DataFrame, scope: DeletePool, roots: Mapping[Field, str]
    ) -> tuple[DataFrame, list[Column]]:
        """Return all rows of `frame` with additional columns, and expressions for the first delete of a row.

        The plan has lifetimes. Each expression is the number of a delete, or null.
        """
        numbers = []
        for place, (key_set, pool, partition) in enumerate(self._pools(scope)):
            keys = key_columns(key_set, [col(roots[root]) for root in key_set.keys])
            labels = [*(f"k{i}" for i in range(len(keys))), *partition]
            facts = functions.collect_list(functions.struct(*DELETE_FACTS)).alias("l")
            deletes = self.read_keys(key_set, pool).groupBy(*labels).agg(facts)
            match = _Match(f"d{place}", deletes, keys, Column.eqNullSafe, self._hint(pool))
            frame = frame.join(match.deletes(), match.on(), "left")
            numbers.append(functions.expr(first_delete(f"d{place}l", DIALECT)))
        return frame, numbers

    def _matches(self, scope: int | DeletePool, roots: Mapping[Field, str]) -> Iterator[_Match]:
        numbers = count()
        for key_set, pool, _ in self._pools(scope):
            keys = key_columns(key_set, [col(roots[root]) for root in key_set.keys])
            yield from self._joined(pool, self._rows(key_set, pool, scope), keys, numbers)

    def _pools(self, scope: int | DeletePool) -> Iterator[tuple[KeySet, Sequence[int], Sequence[str]]]:
        """Yield the deletes that share a join: their keys, their indexes, and the column `kp` if it is compared.

        Pooled deletes for all partitions are compared in fewer columns than deletes for one.
        """
        deletes = self.plan.equality_deletes
        members = self.plan.delete_sets[scope] if isinstance(scope, int) else range(len(deletes))
        for key_set, members_of_set in key_sets(self.plan, members).items():
            if isinstance(scope, int):
                yield key_set, members_of_set, []
                continue
            for partition in ([], ["kp"]):
                pool = [m for m in members_of_set if (deletes[m].partition is None) is (not partition)]
                if pool:
                    yield key_set, pool, partition

    def _joined(
        self, pool: Sequence[int], rows: DataFrame, keys: Sequence[Column], numbers: Iterator[int]
    ) -> Iterator[_Match]:
        hint = self._hint(pool)
        if len(keys) > 1 or self._has_few_rows():
            yield _Match(f"d{next(numbers)}", rows, keys, Column.eqNullSafe, hint)
            return
        null = rows.where(col("k0").isNull()).withColumn("k0", lit(1))
        if self._count(pool) is None or hint is not None:
            null = null.distinct()  # distinct needs a shuffle, which costs small reads more than it saves
        yield _Match(f"d{next(numbers)}", rows.where(col("k0").isNotNull()), keys, eq, hint)
        yield _Match(f"d{next(numbers)}", null, [when(keys[0].isNull(), 1)], eq, "broadcast")

    def _count(self, pool: Sequence[int]) -> int | None:
        """Return the number of rows of some deletes, or None if it is unknown."""
        counts = [self.plan.equality_deletes[m].record_count for m in pool]
        known_counts = [number for number in counts if number is not None]
        return sum(known_counts) if len(known_counts) == len(counts) else None

    def _hint(self, pool: Sequence[int]) -> str | None:
        return "merge" if (self._count(pool) or 0) > _BROADCAST_ROWS else None

    def _rows(self, key_set: KeySet, pool: Sequence[int], scope: int | DeletePool) -> DataFrame:
        """Return the deletes of a pool: one row per row of its files, or one row per key with `ks` and perhaps `kp`."""
        cached = self._read.get((key_set, tuple(pool)))
        if cached is not None:  # reuse the frame, so that Spark can broadcast it once for all arms
            return cached
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
        """Return whether the recorded row counts are small.

        Wrong counts only affect which join is used, not its result.
        """
        counts = self.plan.files.column("record_count")
        total = None if counts.null_count else pc.sum(counts).as_py()
        return total is not None and total <= _FEW_ROWS


@dataclass(frozen=True, slots=True)
class _Match:
    """A join of data rows with deletes.

    Attributes:
        prefix: The prefix of the deletes' columns in the join.
        rows: The deletes: a column `k0`, `k1`, … for each of `keys`, and `ks` and `kp` if they are compared.
        keys: The keys on the data side.
        same: Compares a key of either side.
        hint: A join hint for Spark. None to let Spark decide by file size.
    """

    prefix: str
    rows: DataFrame
    keys: Sequence[Column]
    same: Callable[[Column, Column], Column]
    hint: str | None

    def deletes(self, *, once: bool = False) -> DataFrame:
        """Return the rows to join with. With `once`, at most one of them matches each data row."""
        rows = self.rows.select(*[col(label).alias(f"{self.prefix}{label}") for label in self.rows.columns])
        if once and "ks" not in self.rows.columns:
            rows = rows.distinct()
        return rows if self.hint is None else rows.hint(self.hint)

    def on(self) -> Column:
        """Return the condition under which a delete applies to a row."""
        conditions = [self.same(key, col(f"{self.prefix}k{i}")) for i, key in enumerate(self.keys)]
        if "ks" in self.rows.columns:
            conditions.append(col("sq") < col(f"{self.prefix}ks"))
        if "kp" in self.rows.columns:
            conditions.append(col("sp") == col(f"{self.prefix}kp"))
        return reduce(and_, conditions)
