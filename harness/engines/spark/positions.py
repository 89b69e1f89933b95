"""Rows deleted by their position: bitmaps that travel to the executors, and the test of one row.

With a gateway, a file's bitmap is a constant of the file, like its partition values, and harness's reader marks the
positions of deleted rows, batch by batch (`java/MarkedRows.java`): no join, whole-stage code generation stays, filters
and chosen columns still reach the Parquet reader, and a batch costs what its deleted rows cost. The bitmap travels as a
compressed roaring bitmap: 20,000 deletes in 2 million rows take 40 kB where plain bits take 250. A small one goes along
with every task that reads a part of the file; above 16 KiB an executor fetches it once, as a broadcast.

Without a gateway, words of 64 rows are joined to the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession, functions

from harness.metadata.files.roaring import Positions, to_positions

Words: TypeAlias = npt.NDArray[np.int64]

_WORD_BITS = 6
_CHUNK_BITS = 12
_BROADCAST_CONF = "spark.sql.autoBroadcastJoinThreshold"


def encode(deleted: BitMap64, rows: int) -> bytes:
    """The bitmap as a constant of its file, for `Gateway.planned_frame`: 64-bit roaring, in the portable format.

    Args:
        deleted: positions from 0.
        rows: of the file; positions from there on are left out.
    """
    compact = BitMap64(deleted)
    if len(compact) and compact.max() >= rows:
        compact.remove_range(rows, compact.max() + 1)
    compact.run_optimize()
    return compact.serialize()


def is_marked(position: Column) -> Column:
    """Whether the row of a position is deleted, as `Gateway.planned_frame` marks it; never null."""
    return position < 0


def unmarked(position: Column) -> Column:
    """The position itself, of any row."""
    return functions.when(position < 0, functions.bitwise_not(position)).otherwise(position)


def with_flags(
    frame: DataFrame, file: Column, position: Column, deleted: Mapping[int, BitMap64], spark: SparkSession
) -> tuple[DataFrame, Column]:
    """`frame` joined with bitmaps, and whether a row of it is deleted; for sessions without a gateway.

    Args:
        frame: rows of any files; its columns stay, none may be called `#file`, `#chunk` or `#words`.
        file: a whole number that names the row's file.
        position: of the row in its file, from 0.
        deleted: positions by number of the file; other files have none.
        spark: the session of `frame`.

    Words of one file are one row as long as all of them fit into a broadcast. Larger ones are cut in chunks of 4,096
    rows, which Spark's shuffle spreads over the executors.
    """
    size = sum((int(bitmap.max()) >> 3) + 1 for bitmap in deleted.values() if len(bitmap))
    if size <= _broadcast_bytes(spark):
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


def _broadcast_bytes(spark: SparkSession) -> int:
    """The size up to which Spark broadcasts, in bytes; below 0: it never does."""
    text = str(spark.conf.get(_BROADCAST_CONF))
    digits = text.rstrip("bB")
    return int(digits) if digits.lstrip("-").isdigit() else 10 << 20


def _whole(deleted: Mapping[int, BitMap64]) -> pa.Table:
    """One row per file: its words from position 0 to the last deleted one."""
    hit = {number: bitmap for number, bitmap in deleted.items() if len(bitmap)}
    words = [_words(to_positions(bitmap), (int(bitmap.max()) >> _WORD_BITS) + 1) for bitmap in hit.values()]
    return _table([pa.array(list(hit), pa.int64())], ["#file"], words)


def _chunks(deleted: Mapping[int, BitMap64]) -> pa.Table:
    """One row per file and chunk that has deletes."""
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
    """`count` words with one bit per position, lowest first; positions ascend."""
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
