"""Equality deletes as joins of small frames; expectations by hand (iceberg 4.6, 4.23 to 4.29)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame, SparkSession, functions

from harness.engines.file_groups import Pooled
from harness.engines.spark.deletes import DeleteJoins, key_columns
from harness.engines.union_arms import KeySet, key_roots
from harness.metadata.model.schema import Field, IntegerType, Schema, StringType, Type
from harness.metadata.plan.scan_plan import FILES, Counts, EqualityDelete, ScanPlan
from harness.storage.stores import Storage

Row: TypeAlias = tuple[Any, ...]
LONG = IntegerType(64)


def root(place: int, type_: Type = LONG) -> Field:
    return Field(id=place + 1, name=f"f{place}", type=type_)


def delete(
    *roots: Field, sequence_number: int = 2, partition: int | None = None, record_count: int | None = 1
) -> EqualityDelete:
    return EqualityDelete(
        path="delete",
        physical="delete",
        format="parquet",
        keys=roots,
        key_paths=tuple((f.id,) for f in roots),
        sequence_number=sequence_number,
        partition=partition,
        record_count=record_count,
    )


def plan(deletes: Sequence[EqualityDelete], scopes: Sequence[tuple[int, ...]]) -> ScanPlan:
    return ScanPlan(
        table="table",
        format="iceberg",
        snapshot=1,
        schema=Schema(fields=()),
        columns=(),
        filter=None,
        files=FILES.empty_table(),
        partitions=(),
        equality_deletes=tuple(deletes),
        delete_sets=tuple(scopes),
        position_deletes=(),
        load_positions=lambda ordinals: {},
        name_mapping=None,
        skipped=(),
        counts=Counts(),
        storage=Storage(),
    )


class Joins:
    """Deletes given as rows: per delete file, its keys."""

    def __init__(self, spark: SparkSession, key_types: str, files: Sequence[Sequence[Row]]) -> None:
        self.spark, self.key_types, self.files = spark, key_types, files
        self.reads: list[tuple[int, ...]] = []

    def read_keys(self, deletes: Sequence[EqualityDelete]) -> Any:
        def read(key_set: KeySet, members: Sequence[int]) -> DataFrame:
            self.reads.append(tuple(members))
            rows = [
                (*keys, deletes[m].sequence_number, deletes[m].partition) for m in members for keys in self.files[m]
            ]
            labels = ", ".join(f"k{i} {type_}" for i, type_ in enumerate(self.key_types.split(", ")))
            return self.spark.createDataFrame(rows, f"{labels}, ks bigint, kp bigint")

        return read


@pytest.fixture(params=["dropped", "dropped from few rows", "flagged"])
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param.endswith("few rows"):
        monkeypatch.setattr(DeleteJoins, "_has_few_rows", lambda lowering: True)
    return str(request.param)


def alive(lowering: DeleteJoins, frame: DataFrame, scope: int | Pooled, mode: str) -> list[int]:
    """The column `i` of the rows that live, sorted; a row that came out twice is there twice."""
    labels = {f: f"e{i}" for i, f in enumerate(key_roots(lowering.plan))}
    if mode.startswith("dropped"):
        kept = lowering.without_deleted(frame, scope, labels)
        assert kept.columns == frame.columns
        return sorted(row.i for row in kept.collect())
    flagged, hit = lowering.flagged(frame, scope, labels)
    rows = flagged.select("i", hit.alias("hit")).collect()
    assert sorted(row.i for row in rows) == list(range(len(rows)))
    assert len(rows) == frame.count()
    return sorted(row.i for row in rows if row.hit is False)


def test_text_is_compared_by_bytes_under_any_collation(spark: SparkSession, mode: str) -> None:
    """iceberg 4.28."""
    key = root(0, StringType())
    deletes = [delete(key)]

    def read(key_set: KeySet, members: Sequence[int]) -> DataFrame:
        rows = spark.createDataFrame([("a", 2, None)], "t string, ks bigint, kp bigint")
        collated = functions.collate(functions.col("t"), "UTF8_LCASE")
        return rows.select(key_columns(key_set, [collated])[0].alias("k0"), "ks", "kp")

    lowering = DeleteJoins(plan(deletes, [(0,)]), read)
    data = spark.createDataFrame([(0, "a"), (1, "A"), (2, None)], "i int, t string")
    frame = data.select("i", functions.collate(functions.col("t"), "UTF8_LCASE").alias("e0"))
    assert alive(lowering, frame, 0, mode) == [1, 2]


def physical(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


@pytest.mark.parametrize(
    ("record_count", "join"),
    [(1_000, "BroadcastHashJoin"), (None, "BroadcastHashJoin"), (50_000_000, "SortMergeJoin")],
    ids=["few", "unknown", "many"],
)
def test_spark_broadcasts_unless_there_are_too_many_deletes(
    spark: SparkSession, tmp_path: Path, record_count: int | None, join: str
) -> None:
    deletes = [delete(root(0), record_count=record_count)]
    spark.createDataFrame([(1, 2, None)], "k0 bigint, ks bigint, kp bigint").write.parquet(f"{tmp_path}/d")
    spark.createDataFrame([(0, 1), (1, 2)], "i int, e0 bigint").write.parquet(f"{tmp_path}/r")
    lowering = DeleteJoins(plan(deletes, [(0,)]), lambda key_set, members: spark.read.parquet(f"{tmp_path}/d"))
    kept = lowering.without_deleted(spark.read.parquet(f"{tmp_path}/r"), 0, {root(0): "e0"})
    assert f"{join}" in physical(kept)
    assert [row.i for row in kept.collect()] == [1]


@pytest.mark.parametrize(
    ("rows", "joins"),
    [([10, 20], 1), ([10, 20_000_000], 2), ([10, None], 2), ([], 2)],
    ids=["few", "many", "unknown", "none"],
)
def test_few_rows_are_joined_once(spark: SparkSession, rows: list[int | None], joins: int) -> None:
    file = {"path": "f", "physical": "f", "format": "parquet", "spec_id": 0, "partition": 0, "delete_set": 0}
    listed = [{**file, "has_positions": False, "record_count": count} for count in rows]
    files = pa.Table.from_pylist(listed, schema=FILES)
    deletes = [delete(root(0))]
    read_keys = Joins(spark, "bigint", [[(None,), (1,)]]).read_keys(deletes)
    lowering = DeleteJoins(replace(plan(deletes, [(0,)]), files=files), read_keys)
    frame = spark.createDataFrame([(0, 1), (1, None), (2, 0)], "i int, e0 bigint")
    kept = lowering.without_deleted(frame, 0, {root(0): "e0"})
    analysed = str(kept._jdf.queryExecution().analyzed().toString())
    assert analysed.count("Join LeftAnti") == joins
    assert [row.i for row in kept.collect()] == [2]


def test_a_filter_on_a_key_reaches_the_delete_files(spark: SparkSession, tmp_path: Path) -> None:
    deletes = [delete(root(0))]
    spark.createDataFrame([(7, 2, None)], "k0 bigint, ks bigint, kp bigint").write.parquet(f"{tmp_path}/d")
    spark.createDataFrame([(0, 7), (1, 8)], "i int, e0 bigint").write.parquet(f"{tmp_path}/r")
    lowering = DeleteJoins(plan(deletes, [(0,)]), lambda key_set, members: spark.read.parquet(f"{tmp_path}/d"))
    kept = lowering.without_deleted(spark.read.parquet(f"{tmp_path}/r"), 0, {root(0): "e0"}).where("e0 = 7")
    assert "EqualTo(e0,7)" in physical(kept)
    assert "EqualTo(k0,7)" in physical(kept)
    assert kept.collect() == []
