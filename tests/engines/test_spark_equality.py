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
from harness.metadata.model.schema import Field, IntegerType, Schema, StringType, StructType, Type
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


CASES: dict[str, tuple[str, list[Row], list[list[Row]], list[int]]] = {
    # types of the keys; keys of the data rows; keys in each delete file; the rows that live
    "values": ("bigint", [(1,), (2,), (3,), (2,)], [[(2,)], [(3,), (9,)]], [0]),
    "no null deleted": ("bigint", [(None,), (0,), (1,)], [[(0,)]], [0, 2]),
    "null deleted": ("bigint", [(None,), (0,), (1,), (None,)], [[(None,)]], [1, 2]),
    "null and values deleted": ("bigint", [(None,), (0,), (1,)], [[(None,), (1,)]], [1]),
    "the same key many times": ("bigint", [(1,), (2,), (None,)], [[(1,), (1,), (None,)], [(None,), (1,)]], [1]),
    "empty delete files": ("bigint", [(1,), (None,)], [[], []], [0, 1]),
    "no data": ("bigint", [], [[(1,)]], []),
    "text by bytes": ("string", [("a",), ("A",), ("a ",), ("",), (None,), ("\u00e9",), ("e\u0301",)],
                      [[("a",), ("\u00e9",)]], [1, 2, 3, 4, 6]),
    "empty text is not null": ("string", [("",), (None,)], [[("",)]], [1]),
    "null is not empty text": ("string", [("",), (None,)], [[(None,)]], [0]),
    "two keys": ("bigint, string", [(1, "a"), (1, "b"), (2, "a")], [[(1, "a"), (2, "b")]], [1, 2]),
    "two keys, one null": ("bigint, string", [(1, None), (1, ""), (None, "a"), (None, None), (1, "a")],
                           [[(1, None), (None, None)]], [1, 2, 4]),
    "two keys, many times": ("bigint, bigint", [(1, None), (1, 1)], [[(1, None), (1, None)], [(1, None)]], [1]),
}  # fmt: skip


BY_SEQUENCE = (
    "values",
    "null and values deleted",
    "the same key many times",
    "empty delete files",
    "two keys, one null",
)
PARAMETERS = [
    *(pytest.param(*case, 0, id=name) for name, case in CASES.items()),
    *(pytest.param(*CASES[name], Pooled.ALL, id=f"{name}, by sequence number") for name in BY_SEQUENCE),
]


@pytest.mark.parametrize(("types", "data", "files", "expected", "scope"), PARAMETERS)
def test_rows_that_equal_a_delete_in_all_keys_die(
    spark: SparkSession,
    mode: str,
    types: str,
    data: list[Row],
    files: list[list[Row]],
    expected: list[int],
    scope: int | Pooled,
) -> None:
    kinds = types.split(", ")
    deletes = [
        delete(*[root(i, StringType() if kind == "string" else LONG) for i, kind in enumerate(kinds)]) for _ in files
    ]
    keys = Joins(spark, types, files)
    lowering = DeleteJoins(plan(deletes, [tuple(range(len(files)))]), keys.read_keys(deletes))
    labels = ", ".join(f"e{i} {kind}" for i, kind in enumerate(kinds))
    rows = [(i, *values, 1, 0) for i, values in enumerate(data)]
    frame = spark.createDataFrame(rows, f"i int, {labels}, sq bigint, sp bigint")
    assert alive(lowering, frame, scope, mode) == expected


def test_a_scope_sees_its_own_deletes_only(spark: SparkSession, mode: str) -> None:
    deletes = [delete(root(0)), delete(root(0))]
    joins = Joins(spark, "bigint", [[(1,)], [(2,)]])
    lowering = DeleteJoins(plan(deletes, [(0,), (0, 1)]), joins.read_keys(deletes))
    frame = spark.createDataFrame([(0, 1), (1, 2), (2, 3)], "i int, e0 bigint")
    assert alive(lowering, frame, 0, mode) == [1, 2]
    assert alive(lowering, frame, 1, mode) == [2]


def test_the_same_deletes_are_read_once_for_all_branches(spark: SparkSession) -> None:
    deletes = [delete(root(0))]
    joins = Joins(spark, "bigint", [[(1,)]])
    lowering = DeleteJoins(plan(deletes, [(0,)]), joins.read_keys(deletes))
    frame = spark.createDataFrame([(0, 1), (1, 2)], "i int, e0 bigint")
    assert [alive(lowering, frame, 0, "dropped") for _ in range(3)] == [[1]] * 3
    assert joins.reads == [(0,)]


def test_many_scopes_compare_sequence_numbers_and_partitions(spark: SparkSession, mode: str) -> None:
    """iceberg 4.6: strictly older data, of the same partition unless the delete is global; null keys too."""
    key = root(0)
    deletes = [
        delete(key, sequence_number=3, partition=0),
        delete(key, sequence_number=5, partition=1),
        delete(key, sequence_number=2, partition=1),
        delete(key, sequence_number=4),
    ]
    keys: list[list[Row]] = [[(1,), (None,)], [(1,), (2,)], [(1,), (2,), (None,)], [(7,), (None,)]]
    lowering = DeleteJoins(plan(deletes, [(0, 1, 2, 3)]), Joins(spark, "bigint", keys).read_keys(deletes))
    cases = [
        (0, 1, 2, 0, "dies"),  # key, sequence number, partition
        (1, 1, 3, 0, "lives"),
        (2, 1, 4, 1, "dies"),
        (3, 1, 5, 1, "lives"),
        (4, 2, 4, 0, "lives"),
        (5, 2, 4, 1, "dies"),
        (6, 7, 3, 0, "dies"),
        (7, 7, 3, 1, "dies"),
        (8, 7, 4, 1, "lives"),
        (9, None, 2, 0, "dies"),
        (10, None, 3, 1, "dies"),
        (11, None, 4, 1, "lives"),
    ]
    frame = spark.createDataFrame([case[:4] for case in cases], "i int, e0 bigint, sq bigint, sp bigint")
    assert alive(lowering, frame, Pooled.ALL, mode) == [case[0] for case in cases if case[4] == "lives"]


@pytest.mark.parametrize("scope", [0, Pooled.ALL], ids=["by scope", "by sequence number"])
def test_each_key_set_deletes_for_itself(spark: SparkSession, mode: str, scope: int | Pooled) -> None:
    deletes = [delete(root(0)), delete(root(1)), delete(root(0), root(1))]
    files: list[list[Row]] = [[(1,)], [(20,), (None,)], [(3, 30), (None, 40)]]

    def read(key_set: KeySet, members: Sequence[int]) -> DataFrame:
        labels = ", ".join(f"k{i} bigint" for i in range(len(key_set.keys)))
        rows = [(*keys, 2, None) for m in members for keys in files[m]]
        return spark.createDataFrame(rows, f"{labels}, ks bigint, kp bigint")

    lowering = DeleteJoins(plan(deletes, [(0, 1, 2)]), read)
    data = [(1, 30), (2, 20), (3, 30), (3, 31), (2, None), (None, 40), (None, 41)]
    rows = [(i, *keys, 1, 0) for i, keys in enumerate(data)]
    frame = spark.createDataFrame(rows, "i int, e0 bigint, e1 bigint, sq bigint, sp bigint")
    assert alive(lowering, frame, scope, mode) == [3, 6]


def test_a_key_below_a_null_struct_is_null(spark: SparkSession) -> None:
    """iceberg 4.23; names may hold dots and differ by case only from others."""
    inner = Field(id=11, name="x.y", type=LONG)
    outer = Field(id=1, name="s", type=StructType((inner,)))
    key_set = KeySet((outer,), (("x.y",),), (LONG,))
    frame = spark.createDataFrame([(0, (5,)), (1, (None,)), (2, None)], "i int, s struct<`x.y`: bigint>")
    [key] = key_columns(key_set, [functions.col("s")])
    assert [tuple(row) for row in frame.select("i", key).orderBy("i").collect()] == [(0, 5), (1, None), (2, None)]


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
