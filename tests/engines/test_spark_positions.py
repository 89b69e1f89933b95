"""Deleted positions on Spark: the Java test of a row, and the join that replaces it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.types import LongType, StructField, StructType

from harness.engines.spark.deletes import encode, is_marked, unmarked, with_flags
from harness.engines.spark.gateway import DiskFile, Gateway, PlannedRead

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
    """Return the deleted positions and their neighbors, in ascending order."""
    chosen = list(positions)[:20] + list(positions)[-20:]
    around = {p + step for p in chosen for step in (-BLOCK, -64, -1, 0, 1, 64, BLOCK)} | {0, 1, 2**31, 2**32}
    return sorted(p for p in around if p >= 0)


@pytest.fixture
def jvm(spark: SparkSession) -> Any:
    """Return the JVM with harness's classes loaded."""
    return Gateway.for_session(spark).session._jvm


def marked(jvm: Any, bitmap: BitMap64, positions: list[int]) -> list[int]:
    """Return the positions of a batch after marking."""
    long = jvm.org.apache.spark.sql.types.DataTypes.LongType
    vector = jvm.org.apache.spark.sql.execution.vectorized.OnHeapColumnVector(max(1, len(positions)), long)
    for place, position in enumerate(positions):
        vector.putLong(place, position)
    jvm.harness.spark.DeletedPositions(encode(bitmap, LONG_FILE)).mark(vector, len(positions))
    return [int(vector.getLong(place)) for place in range(len(positions))]


@pytest.mark.parametrize("deleted", BITMAPS.values(), ids=list(BITMAPS))
def test_a_row_is_marked_where_its_bit_is_set(jvm, deleted):
    bitmap = BitMap64(deleted)
    positions = neighbours(bitmap)
    assert marked(jvm, bitmap, positions) == [~p if p in bitmap else p for p in positions]  # a batch with gaps
    for first in positions[::5]:
        batch = list(range(first, first + 50))
        assert marked(jvm, bitmap, batch) == [~p if p in bitmap else p for p in batch]
    one_by_one = jvm.harness.spark.DeletedPositions(encode(bitmap, LONG_FILE))
    assert [one_by_one.contains(p) for p in positions] == [p in bitmap for p in positions]


def test_rows_that_have_no_number_are_an_error(jvm):
    """Spark's reader fills the column. If it ever did not, the wrong rows would be deleted."""
    long = jvm.org.apache.spark.sql.types.DataTypes.LongType
    vector = jvm.org.apache.spark.sql.execution.vectorized.OnHeapColumnVector(1, long)
    vector.putNull(0)
    with pytest.raises(Exception, match="did not number the rows"):
        jvm.harness.spark.DeletedPositions(encode(BitMap64([0]), 1)).mark(vector, 1)


ROWS = 200_000


@pytest.fixture(scope="module")
def bitmaps() -> list[BitMap64]:
    chosen = np.random.default_rng(7).integers(0, ROWS, size=(2, 20_000))
    return [BitMap64(chosen[0]), BitMap64(chosen[1][:50])]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return two files of 200,000 rows in 20 row groups. `n` is the row's position, `m` another number."""
    directory = tmp_path_factory.mktemp("data")
    numbers = pa.array(np.arange(ROWS))
    paths = [str(directory / f"{name}.parquet") for name in ("a", "b")]
    for path in paths:
        pq.write_table(pa.table({"n": numbers, "m": numbers}), path, row_group_size=ROWS // 20)
    return paths


@contextmanager
def configured(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    """Change a setting of the user's session and of harness's own."""
    sessions = [spark, Gateway.for_session(spark).session]
    before = [session.conf.get(key) for session in sessions]
    for session in sessions:
        session.conf.set(key, value)
    yield
    for session, former in zip(sessions, before, strict=True):
        session.conf.set(key, former)


@pytest.fixture
def small_splits(spark: SparkSession) -> Iterator[None]:
    with configured(spark, "spark.sql.files.maxPartitionBytes", "100kb"):
        yield


@pytest.fixture(params=["true", "false"], ids=["vectorised", "by row"])
def reader(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    with configured(spark, "spark.sql.parquet.enableVectorizedReader", request.param):
        yield


def scan(gateway: Gateway, paths: list[str], bitmaps: list[BitMap64]) -> DataFrame:
    constants = pa.table(
        {
            "f": pa.array(range(len(paths)), pa.int32()),
            "bits": pa.array([encode(bitmap, ROWS) for bitmap in bitmaps], pa.binary()),
        }
    )
    schema = StructType([StructField("n", LongType()), StructField("m", LongType())])
    return gateway.planned_frame(
        PlannedRead(
            file_format="parquet",
            read_schema=schema,
            files=[DiskFile(path, Path(path).stat().st_size) for path in paths],
            constants=constants,
            positions=True,
            deleted="bits",
        )
    )


@pytest.mark.usefixtures("small_splits", "reader")
def test_positions_of_all_rows(spark, data, bitmaps):
    frame = scan(Gateway.for_session(spark), data, bitmaps)
    position = functions.col("pos")
    is_wrong = (unmarked(position) != functions.col("p0")) | position.isNull()
    assert frame.where(is_wrong).count() == 0
    # Without a filter that Spark pushes, harness itself numbers the rows.
    assert frame.agg(functions.count_if(is_wrong), functions.count("*")).collect() == [(0, 2 * ROWS)]
    assert frame.select("pos").where(position >= 0).count() == 2 * ROWS - sum(map(len, bitmaps))  # no stored column
    gone = frame.where(is_marked(position)).groupBy("f").count().collect()
    assert {row.f: row["count"] for row in gone} == {file: len(bitmap) for file, bitmap in enumerate(bitmaps)}


@pytest.mark.usefixtures("small_splits", "reader")
@pytest.mark.parametrize(
    "condition", ["true", "p0 >= 77777", "p0 % 1000 = 3"], ids=["all", "row groups skipped", "few"]
)
def test_positions_hold_in_files_read_in_parts(spark, data, bitmaps, condition):
    gateway = Gateway.for_session(spark)
    frame = scan(gateway, data, bitmaps)
    kept = frame.where(~is_marked(functions.col("pos"))).where(condition)
    assert kept.rdd.getNumPartitions() > 4
    rows = kept.select("f", "p0").collect()
    numbers = np.arange(ROWS)
    chosen = {"true": numbers, "p0 >= 77777": numbers[77777:], "p0 % 1000 = 3": numbers[3::1000]}[condition]
    for file, bitmap in enumerate(bitmaps):
        assert sorted(row.p0 for row in rows if row.f == file) == [int(n) for n in chosen if n not in bitmap]


@pytest.fixture(params=["10MB", "-1"], ids=["broadcast", "shuffled"])
def threshold(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    with configured(spark, "spark.sql.autoBroadcastJoinThreshold", request.param):
        yield str(request.param)


def test_words_joined_to_the_rows(spark, threshold):
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
