"""Delete sets made fewer: the rules alone say which deletes a file may have beside its own (iceberg 4.6, 4.29)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

from harness.engines.spark.lowering import with_merged_scopes
from harness.metadata.model.schema import Schema
from harness.metadata.plan.scan_plan import FILES, Counts, EqualityDelete, ScanPlan
from harness.storage.stores import Storage
from harness.table import open_table
from harness.testing.writing.iceberg.builder import IcebergTable

Delete: TypeAlias = tuple[int, int | None]
"""Its sequence number and the number of its partition."""
File: TypeAlias = tuple[int | None, int, tuple[int, ...]]
"""Its sequence number, the number of its partition, and its own deletes."""


def plan(files: Sequence[File], deletes: Sequence[Delete], record_count: int | None = 10) -> ScanPlan:
    sets = list(dict.fromkeys(own for _, _, own in files))
    constant = {"path": "f", "physical": "f", "format": "parquet", "spec_id": 0, "has_positions": False}
    rows = [
        {**constant, "sequence_number": number, "partition": partition, "delete_set": sets.index(own)}
        for number, partition, own in files
    ]
    return ScanPlan(
        table="table",
        format="iceberg",
        snapshot=1,
        schema=Schema(fields=()),
        columns=(),
        filter=None,
        files=pa.Table.from_pylist(rows, schema=FILES),
        partitions=(),
        equality_deletes=tuple(
            EqualityDelete(
                path="d",
                physical="d",
                format="parquet",
                keys=(),
                key_paths=(),
                sequence_number=number,
                partition=partition,
                record_count=record_count,
            )
            for number, partition in deletes
        ),
        delete_sets=tuple(sets),
        position_deletes=(),
        load_positions=lambda ordinals: {},
        name_mapping=None,
        skipped=(),
        counts=Counts(),
        storage=Storage(),
    )


def sets_of(plan: ScanPlan) -> list[tuple[int, ...]]:
    return [plan.delete_sets[number] for number in plan.files.column("delete_set").to_pylist()]


def hits(delete: Delete, number: int, partition: int) -> bool:
    return delete[0] > number and delete[1] in (None, partition)


@st.composite
def drawn(draw: st.DrawFn) -> tuple[list[File], list[Delete]]:
    deletes = draw(st.lists(st.tuples(st.integers(1, 4), st.sampled_from([None, 0, 1])), max_size=6))
    files: list[File] = []
    for number, partition in draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), max_size=8)):
        may = [i for i, delete in enumerate(deletes) if hits(delete, number, partition)]
        own = draw(st.lists(st.sampled_from(may), unique=True)) if may else []
        files.append((number, partition, tuple(sorted(own))))
    return files, deletes


@given(drawn())
@example(([(0, 0, (0,)), (1, 0, (1,))], [(1, None), (2, None)]))
def test_a_file_gains_only_deletes_that_the_rules_let_hit_it(table: tuple[list[File], list[Delete]]) -> None:
    files, deletes = table
    merged = with_merged_scopes(plan(files, deletes))
    assert merged.files.schema == FILES
    for (number, partition, own), now in zip(files, sets_of(merged), strict=True):
        assert set(own) <= set(now)
        assert bool(own) == bool(now)
        assert now == tuple(sorted(set(now)))
        assert all(hits(deletes[member], number, partition) for member in now)


@given(drawn())
def test_files_of_one_age_and_partition_share_a_set(table: tuple[list[File], list[Delete]]) -> None:
    """As do files of all partitions that no delete is for alone."""
    files, deletes = table
    alone = {partition for _, partition in deletes}
    sets: dict[tuple[int | None, int | None], set[tuple[int, ...]]] = {}
    for (number, partition, own), now in zip(files, sets_of(with_merged_scopes(plan(files, deletes))), strict=True):
        if own:
            sets.setdefault((number, partition if partition in alone else None), set()).add(now)
    assert all(len(shared) == 1 for shared in sets.values())


@pytest.mark.parametrize(
    ("record_count", "shared"),
    [(500_000, True), (500_001, False), (None, False)],
    ids=["moderate", "too many", "unknown"],
)
def test_only_sets_of_few_rows_are_joined(record_count: int | None, shared: bool) -> None:
    asked = plan([(1, 0, (0,)), (1, 0, (1,)), (1, 0, ())], [(2, None), (2, None)], record_count)
    assert sets_of(with_merged_scopes(asked)) == ([(0, 1), (0, 1), ()] if shared else sets_of(asked))


def test_files_without_a_sequence_number_keep_their_sets() -> None:
    asked = plan([(None, 0, (0,)), (1, 0, (1,))], [(2, None), (2, None)])
    assert with_merged_scopes(asked) is asked


def test_files_that_bounds_tell_apart_are_joined_once(spark: SparkSession, tmp_path: Path) -> None:
    t = IcebergTable.create(tmp_path / "t", {"id": "long"})
    t.append(*[t.write_data([{"id": first + i} for i in range(4)]) for first in (0, 10, 20, 30)])
    t.commit(add=[t.write_equality_deletes(["id"], [{"id": id}]) for id in (1, 12, 23)])
    t.append(t.write_data([{"id": 1}, {"id": 12}]))
    snapshot = open_table(str(t.store.directory)).snapshot()
    assert len(snapshot.plan().delete_sets) == 4
    frame = snapshot.to_spark(spark)
    assert sorted(row.id for row in frame.collect()) == sorted([0, 2, 3, 10, 11, 13, 20, 21, 22, *range(30, 34), 1, 12])
    assert str(frame._jdf.queryExecution().analyzed().toString()).count("Join LeftAnti") == 1
