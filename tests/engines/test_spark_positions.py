"""Deleted positions on Spark: the Java test of a row, and the join that stands in for it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.types import LongType, StructField, StructType
from stored_on_spark import disk_files

from harness.engines.spark.gateway import Gateway
from harness.engines.spark.positions import encode, is_deleted, with_flags

BROADCAST = "spark.sql.autoBroadcastJoinThreshold"
SPLIT = "spark.sql.files.maxPartitionBytes"
LONG_FILE = 1 << 40
BLOCK = 1 << 16

BITMAPS = {
    "none": [],
    "the first row": [0],
    "the edges of blocks": [BLOCK - 1, BLOCK, 2 * BLOCK - 1, 5 * BLOCK],
    "a run over blocks": range(BLOCK - 10, 3 * BLOCK + 10),
    "every other row": range(1, BLOCK, 2),
    "the edges of 32 bits": [2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + BLOCK],
    "far apart": [7, 2**35 + 7, 2**35 + 8],
}


def neighbours(positions: BitMap64) -> list[int]:
    """Positions around those that are deleted, both kinds, in ascending order."""
    chosen = list(positions)[:20] + list(positions)[-20:]
    around = {p + step for p in chosen for step in (-BLOCK, -64, -1, 0, 1, 64, BLOCK)} | {0, 1, 2**31, 2**32}
    return sorted(p for p in around if p >= 0)


@pytest.mark.parametrize("deleted", BITMAPS.values(), ids=list(BITMAPS))
def test_a_row_is_deleted_where_its_bit_is_set(spark: SparkSession, deleted: list[int]) -> None:
    gateway = Gateway.of(spark)
    bitmap = BitMap64(deleted)
    encoded = encode(bitmap, LONG_FILE)
    positions = neighbours(bitmap)
    frame = gateway.session.createDataFrame([(p,) for p in positions], "pos bigint").coalesce(1)
    # One array for all rows, and an array of its own for each row: Spark does either.
    shared = is_deleted(gateway, functions.lit(encoded), functions.col("pos"))
    copied = is_deleted(gateway, functions.concat(functions.lit(encoded), functions.lit(b"")), functions.col("pos"))
    rows = frame.select("pos", shared.alias("shared"), copied.alias("copied")).collect()
    assert [tuple(row) for row in rows] == [(p, p in bitmap, p in bitmap) for p in positions]


def test_no_bitmap_deletes_nothing(spark: SparkSession) -> None:
    gateway = Gateway.of(spark)
    frame = gateway.session.createDataFrame([(None, 0), (encode(BitMap64([0]), 1), 0)], "b binary, pos bigint")
    flag = is_deleted(gateway, functions.col("b"), functions.col("pos"))
    assert [row[0] for row in frame.select(flag).collect()] == [False, True]


def test_bitmaps_that_take_turns_in_one_task(spark: SparkSession) -> None:
    gateway = Gateway.of(spark)
    left, right = BitMap64([0, 2, BLOCK]), BitMap64([1, 2])
    frame = gateway.session.createDataFrame([(p,) for p in (0, 1, 2, 3, BLOCK)], "pos bigint").coalesce(1)
    flags = [is_deleted(gateway, functions.lit(encode(b, 2 * BLOCK)), functions.col("pos")) for b in (left, right)]
    rows = frame.select("pos", flags[0].alias("left"), flags[1].alias("right")).collect()
    assert [tuple(row) for row in rows] == [(p, p in left, p in right) for p in (0, 1, 2, 3, BLOCK)]


def test_the_encoded_bitmap_is_small_and_leaves_the_given_one_alone() -> None:
    run = BitMap64(range(1_000_000))
    assert len(encode(run, 1_000_000)) < 300
    assert encode(BitMap64([1, 5, 6]), 5) == encode(BitMap64([1]), 5)
    assert len(run) == 1_000_000
    given = BitMap64([1, 5])
    encode(given, 2)
    assert list(given) == [1, 5]


ROWS = 200_000


@pytest.fixture(scope="module")
def bitmaps() -> list[BitMap64]:
    chosen = np.random.default_rng(7).integers(0, ROWS, size=(2, 20_000))
    return [BitMap64(chosen[0]), BitMap64(chosen[1][:50])]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two files of 200,000 rows in 20 row groups; `n` is the row's position, `m` something else."""
    directory = tmp_path_factory.mktemp("data")
    numbers = pa.array(np.arange(ROWS))
    paths = [str(directory / f"{name}.parquet") for name in ("a", "b")]
    for path in paths:
        pq.write_table(pa.table({"n": numbers, "m": numbers}), path, row_group_size=ROWS // 20)
    return paths


@pytest.fixture
def small_splits(spark: SparkSession) -> Iterator[None]:
    sessions = [spark, Gateway.of(spark).session]
    before = [session.conf.get(SPLIT) for session in sessions]
    for session in sessions:
        session.conf.set(SPLIT, "100kb")
    yield
    for session, value in zip(sessions, before, strict=True):
        session.conf.set(SPLIT, value)


def scan(gateway: Gateway, paths: list[str], bitmaps: list[BitMap64]) -> DataFrame:
    constants = pa.table(
        {
            "f": pa.array(range(len(paths)), pa.int32()),
            "bits": pa.array([encode(bitmap, ROWS) for bitmap in bitmaps], pa.binary()),
        }
    )
    schema = StructType([StructField("n", LongType()), StructField("m", LongType())])
    return gateway.planned_frame(
        file_format="parquet",
        read_schema=schema,
        files=disk_files(paths),
        constants=constants,
        positions=True,
    )


@pytest.mark.usefixtures("small_splits")
@pytest.mark.parametrize(
    "condition", ["true", "p0 >= 77777", "p0 % 1000 = 3"], ids=["all", "row groups skipped", "few"]
)
def test_positions_hold_in_files_read_in_parts(
    spark: SparkSession, data: list[str], bitmaps: list[BitMap64], condition: str
) -> None:
    gateway = Gateway.of(spark)
    frame = scan(gateway, data, bitmaps)
    kept = frame.where(~is_deleted(gateway, functions.col("bits"), functions.col("pos"))).where(condition)
    assert kept.rdd.getNumPartitions() > 4
    rows = kept.select("f", "p0").collect()
    numbers = np.arange(ROWS)
    chosen = {"true": numbers, "p0 >= 77777": numbers[77777:], "p0 % 1000 = 3": numbers[3::1000]}[condition]
    for file, bitmap in enumerate(bitmaps):
        assert sorted(row.p0 for row in rows if row.f == file) == [int(n) for n in chosen if n not in bitmap]


def test_filters_and_chosen_columns_still_reach_the_scan(
    spark: SparkSession, data: list[str], bitmaps: list[BitMap64]
) -> None:
    gateway = Gateway.of(spark)
    frame = scan(gateway, data, bitmaps)
    kept = frame.where(~is_deleted(gateway, functions.col("bits"), functions.col("pos"))).where("p0 = 9 and f = 1")
    query = kept.select("p0")
    text = str(query._jdf.queryExecution().executedPlan().toString())
    assert "EqualTo(n,9)" in text
    assert "ReadSchema: struct<n:bigint,_tmp" in text
    assert "Join" not in text
    assert [row.p0 for row in query.collect()] == ([] if 9 in bitmaps[1] else [9])


@pytest.fixture(params=["10MB", "-1"], ids=["broadcast", "shuffled"])
def threshold(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    before = spark.conf.get(BROADCAST)
    spark.conf.set(BROADCAST, request.param)
    yield str(request.param)
    spark.conf.set(BROADCAST, before)


def test_words_joined_to_the_rows(spark: SparkSession, threshold: str) -> None:
    long_positions = [2**31, 2**33] if threshold == "-1" else [70_000]
    deleted = {
        1: BitMap64([0, 63, 64, 4095, 4096, 8191, *long_positions]),
        2: BitMap64(range(100, 5000)),
        3: BitMap64(),
    }
    rows = [(f, p) for f in (1, 2, 3, 4) for p in (0, 1, 62, 63, 64, 65, 99, 100, 4095, 4096, 4999, 5000, 8191)]
    rows += [(1, p + step) for p in long_positions for step in (-1, 0, 1)]
    frame = spark.createDataFrame(rows, "f int, pos bigint")
    joined, flag = with_flags(frame, functions.col("f"), functions.col("pos"), deleted, spark)
    found = joined.select("f", "pos", flag.alias("hit")).orderBy("f", "pos").collect()
    assert [tuple(row) for row in found] == [(f, p, p in deleted.get(f, ())) for f, p in sorted(rows)]
    text = str(joined._jdf.queryExecution().executedPlan().toString())
    assert ("BroadcastHashJoin" in text) is (threshold != "-1")


def test_no_words_delete_nothing(spark: SparkSession, threshold: str) -> None:
    frame = spark.createDataFrame([(1, 0)], "f int, pos bigint")
    joined, flag = with_flags(frame, functions.col("f"), functions.col("pos"), {}, spark)
    assert [row[0] for row in joined.select(flag).collect()] == [False]
