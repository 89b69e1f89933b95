from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import harness
from harness.errors import (
    CorruptDeleteError,
    CorruptFileError,
    HarnessWarning,
    InvalidTableError,
    MissingFileError,
    RequestError,
    SchemaMismatchError,
    UnknownColumnError,
)
from harness.metadata.plan.projection import ColumnLookup
from harness.testing.writing.delta.builder import DeltaTable

pytestmark = pytest.mark.usefixtures("one_duckdb")


def snapshot(table: DeltaTable, **how: Any) -> harness.Snapshot:
    return harness.open_table(str(table.directory), **how).snapshot()


def rows(table: DeltaTable, **how: Any) -> list[Any]:
    """Rows by DuckDB, as tuples in a fixed order; asserts that a relation gives the same."""
    at_once = snapshot(table).to_arrow(**how)
    relation = snapshot(table).to_duckdb(**how)
    found = sorted(map(tuple, (row.values() for row in at_once.to_pylist())), key=repr)
    assert sorted(relation.fetchall(), key=repr) == found
    return found


@pytest.fixture
def table(tmp_path) -> DeltaTable:
    """Ids 0 to 9 in partition eu, 10 to 19 in us, 20 to 29 in none."""
    table = DeltaTable.create(tmp_path / "t", {"id": "long", "region": "string"}, partition_columns=["region"])
    for region, start in (("eu", 0), ("us", 10), (None, 20)):
        table.append(table.write_data([{"id": start + i, "region": region} for i in range(10)]))
    return table


# -- the plan


def test_plan(table):
    plan = snapshot(table).plan()
    assert (plan.format, plan.snapshot, plan.filter, plan.name_mapping) == ("delta", 3, None, None)
    assert [f.name for f in plan.columns] == ["id", "region"]
    assert plan.lookup is ColumnLookup.DELTA_NAME
    assert [p.constants for p in plan.partitions] == [{2: "eu"}, {2: "us"}, {2: None}]
    assert (plan.equality_deletes, plan.delete_sets, plan.position_deletes) == ((), ((),), ())
    listed = plan.files.to_pylist()
    for place, file in enumerate(listed):
        handle = table.handles[place]
        assert file == {
            "path": handle.path,
            "physical": str(handle.file),
            "format": "parquet",
            "record_count": 10,
            "size": handle.file.stat().st_size,
            "spec_id": 0,
            "partition": place,
            "sequence_number": None,
            "first_row_id": None,
            "delete_set": 0,
            "has_positions": False,
        }


def test_skipped_files_have_reasons(table):
    plan = snapshot(table).plan(where="region = 'us' AND id < 10 OR region IS NULL AND id = 20")
    assert [file["partition"] for file in plan.files.to_pylist()] == [2]
    assert [(s.path, s.reason, s.record_count) for s in plan.skipped] == [
        (table.handles[0].path, "partition", 10),
        (table.handles[1].path, "statistics", 10),
    ]
    assert plan.skipped[-1] == list(plan.skipped)[1]
    assert [s.reason for s in plan.skipped[:1]] == ["partition"]
    assert plan.counts.files == 3
    assert "2 skipped (1 by partition, 1 by statistics) of 3" in plan.explain()
    assert json.loads(json.dumps(plan.to_dict()))["totals"]["files_read"] == 1
    with pytest.raises(IndexError):
        plan.skipped[2]


def test_pruning_can_be_off(table):
    where = "region = 'us' AND id < 10"
    plan = snapshot(table, prune="off").plan(where=where)
    assert (plan.files.num_rows, len(plan.skipped)) == (3, 0)
    assert rows(table, where=where) == []


def test_a_file_that_is_said_to_be_empty_is_read(table):
    """Against delta F13: a count alone proves nothing."""
    table.append(table.write_data([], partition={"region": "eu"}))
    plan = snapshot(table).plan()
    assert (plan.files.num_rows, len(plan.skipped)) == (4, 0)
    assert len(rows(table)) == 30


def test_unknown_columns_are_refused_even_where_no_file_could_match(table):
    with pytest.raises(UnknownColumnError):
        snapshot(table).plan(where="region = 'nowhere' AND nothing = 1")
    with pytest.raises(UnknownColumnError):
        snapshot(table).plan(columns=["nothing"])


def test_names_in_another_letter_case(table):
    assert snapshot(table).plan(columns=["REGION", "Id"]).columns[0].name == "region"
    assert rows(table, columns=["ID"], where="REGION = 'us' AND iD = 12") == [(12,)]


def test_only_partition_columns_give_a_row_per_row(table):
    table.delete(table.handles[0], [0, 1, 2])
    found = rows(table, columns=["region"])
    assert [found.count((region,)) for region in ("eu", "us", None)] == [7, 10, 10]  # V10


# -- filters give the rows that they give without skipping

FILTERS = [
    "region = 'us'",
    "region <> 'us'",
    "NOT (region <> 'us')",
    "region IS NULL AND id > 25",
    "region IN ('eu', 'us') AND id BETWEEN 8 AND 11",
    "region = 'eu' OR id = 25",
    "id % 7 = 0 AND region >= 'eu'",
    "coalesce(region, 'x') = 'x'",
    "id = 5 OR id = 15",
]


@pytest.mark.parametrize("base", ["commits", "checkpoint", "structs"])
def test_filters(table, base):
    table.delete(table.handles[0], [5])
    if base != "commits":
        table.checkpoint(stats_parsed=base == "structs", stats_json=base != "structs")
    whole = snapshot(table).to_arrow()
    for where in FILTERS:
        expected = sorted(map(tuple, (r.values() for r in pa.table(harness_query(whole, where)).to_pylist())), key=repr)
        assert rows(table, where=where) == expected, where


def harness_query(whole: pa.Table, where: str) -> Any:
    return duckdb.connect().from_arrow(whole).filter(where)


def test_nan_is_above_the_recorded_maximum(tmp_path):
    """Trap 9: writers leave NaN out of the bounds."""
    table = DeltaTable.create(tmp_path / "t", {"id": "long", "x": "double"})
    handle = table.write_data([{"id": 1, "x": 1.0}, {"id": 2, "x": 2.0}, {"id": 3, "x": float("nan")}])
    bounds = {"numRecords": 3, "minValues": {"x": 1.0}, "maxValues": {"x": 2.0}, "nullCount": {"x": 0}}
    handle.add["stats"] = json.dumps(bounds)
    table.append(handle)
    for where, expected in {
        "x > 5": [3],
        "x <> 1": [2, 3],
        "x = 'NaN'::DOUBLE": [3],
        "x <= 1": [1],
        "NOT (x < 5)": [3],
        "isnan(x)": [3],
        "x < 0": [],
    }.items():
        assert [i for (i,) in rows(table, columns=["id"], where=where)] == expected, where


# -- deletion vectors


@pytest.mark.parametrize("storage", ["u", "i", "p"])
@pytest.mark.parametrize("form", ["portable", "native"])
def test_deletion_vectors(table, storage, form):
    table.delete_rows({table.handles[0]: [0, 9], table.handles[2]: range(10)}, storage=storage, format=form)
    assert [row[0] for row in rows(table, columns=["id"])] == sorted(
        [*range(1, 9), *range(10, 20)], key=lambda i: repr((i,))
    )
    plan = snapshot(table).plan()
    assert tuple(plan.skipped) == ()  # the file without live rows too: its vector is read before it is believed
    deletes = sorted((d.kind, d.record_count) for d in plan.position_deletes)
    assert deletes == [("deletion vector", 2), ("deletion vector", 10)]
    assert {d.path == "inline" for d in plan.position_deletes} == {storage == "i"}
    loaded = plan.load_positions(range(3))
    assert sorted(list(v) for v in loaded.values()) == [list(range(10)), [0, 9]]


def test_each_file_has_its_own_vector(table):
    """Trap 14: same row numbers, different files, one file of vectors."""
    table.delete_rows({table.handles[0]: [1], table.handles[1]: [2], table.handles[2]: [3]}, prefix="ab")
    assert {i for (i, _) in rows(table)} == set(range(30)) - {1, 12, 23}
    assert (table.directory / "ab").is_dir()


def test_vectors_hold_whatever_properties_say(table):
    table.delete(table.handles[0], [0])
    table.set_configuration({"delta.enableDeletionVectors": "false"})
    assert len(rows(table)) == 29  # trap 15


def test_vectors_under_filters_and_row_groups(tmp_path):
    table = DeltaTable.create(tmp_path / "t", {"id": "long", "s": "string"})
    handle = table.write_data([{"id": i % 7, "s": "same"} for i in range(1000)], row_group_size=64)
    table.append(handle)
    dead = set(range(0, 1000, 3))
    table.delete(handle, dead)
    expected = sorted(i for i in range(1000) if i not in dead and i % 7 == 5)
    assert [p for (p,) in sorted(rows(table, columns=["_pos"], where="id = 5"))] == expected  # D10, trap 16


def test_deleted_rows_can_be_shown(table):
    table.delete(table.handles[2], range(10))
    found = rows(table, columns=["id", "_deleted"], where="region IS NULL")
    assert found == sorted([(20 + i, True) for i in range(10)], key=repr)


def test_vector_of_rows_without_statistics(tmp_path):
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    handle = table.write_data([{"id": i} for i in range(5)], statistics="none")
    handle.add.pop("stats", None)
    table.append(handle)
    table.delete(handle, [4])
    assert rows(table) == [(0,), (1,), (2,), (3,)]  # D15
    assert snapshot(table).plan().files.column("record_count").to_pylist() == [None]


def test_vector_of_another_file(tmp_path):
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    handle = table.write_data([{"id": i} for i in range(5)])
    table.append(handle)
    table.delete(handle, [5])
    with pytest.raises(CorruptDeleteError) as caught:
        snapshot(table).to_arrow()
    assert caught.value.rule == "delta D9"
    assert caught.value.table == str(table.directory)


def test_row_count_that_lies_under_a_vector(tmp_path):
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    handle = table.write_data([{"id": i} for i in range(5)])
    handle.add["stats"] = handle.add["stats"].replace('"numRecords":5', '"numRecords":50')
    table.append(handle)
    table.delete(handle, [3])
    with pytest.raises(CorruptFileError):
        snapshot(table).to_arrow()  # E9


def test_a_lost_vector_brings_no_row_back(table):
    table.delete(table.handles[0], [0])
    next(table.directory.glob("deletion_vector_*.bin")).unlink()
    with pytest.raises(MissingFileError) as caught:
        snapshot(table).to_arrow()
    assert caught.value.rule == "delta D14"


# -- paths

NAMES = ["a b.parquet", "a%20b.parquet", "x[1].parquet", "q?*.parquet", "é#&=;+.parquet", "_hidden", ".dot", "p=1/f"]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_files(tmp_path, name):
    root = tmp_path / "root [1] 100%25 #?"
    table = DeltaTable.create(root, {"id": "long"})
    decoy = root / "x1.parquet"
    kept = table.write_data([{"id": 1}], path=name)
    table.append(kept)
    table.append(table.write_data([{"id": 99}], path="x1.parquet"))
    table.remove(table.handles[-1])
    table.delete(kept, [])
    assert decoy.exists()
    assert rows(table, columns=["id", "_file"]) == [(1, kept.path)]


def test_partition_values_are_not_those_of_folders(tmp_path):
    value = "a b/c%d:e=f#[1]"
    table = DeltaTable.create(tmp_path / "t", {"id": "long", "p": "string"}, partition_columns=["p"])
    table.append(table.write_data([{"id": 1, "p": value}]))
    table.append(table.write_data([{"id": 2, "p": "x"}], path="p=y/f.parquet"))
    assert rows(table) == [(1, value), (2, "x")]
    assert rows(table, where=f"p = '{value}'") == [(1, value)]  # trap 20


def test_files_below_no_common_root(tmp_path):
    source = DeltaTable.create(tmp_path / "source %41", {"id": "long"})
    shared = source.write_data([{"id": 1}], addressing="file:///")
    table = DeltaTable.create(tmp_path / "clone", {"id": "long"})
    table.append(shared, table.write_data([{"id": 2}]))
    with pytest.warns(HarnessWarning, match=r"Files outside of the table are read, in .*/source %41;"):
        assert rows(table) == [(1,), (2,)]  # U3


def test_path_map(tmp_path):
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    handle = table.write_data([{"id": 1}], addressing="file:///", path=str(tmp_path / "old" / "f.parquet"))
    table.append(handle)
    (tmp_path / "old").rename(tmp_path / "new")
    with pytest.raises(MissingFileError):
        snapshot(table).to_arrow()
    mapped = snapshot(table, path_map={str(tmp_path / "old"): str(tmp_path / "new")})
    assert mapped.to_arrow().to_pylist() == [{"id": 1}]


# -- columns


@pytest.mark.parametrize("mode", ["name", "id"])
def test_statistics_and_partitions_go_by_physical_names(tmp_path, mode):
    schema = {"id": "long", "region": "string"}
    table = DeltaTable.create(tmp_path / "t", schema, partition_columns=["region"], column_mapping=mode)
    for region in ("eu", "us"):
        table.append(table.write_data([{"id": 1 if region == "eu" else 2, "region": region}]))
    table.rename_column("region", "place")
    table.rename_column("id", "region")
    assert rows(table, where="place = 'us'") == [(2, "us")]  # trap 11
    plan = snapshot(table).plan(where="place = 'us' OR region > 2")
    assert (plan.files.num_rows, [s.reason for s in plan.skipped]) == (1, ["statistics"])


def test_file_without_a_new_column_is_kept(tmp_path):
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    table.add_column("n", "integer")
    table.append(table.write_data([{"id": 2, "n": 5}]))
    assert rows(table, where="n IS NULL") == [(1, None)]
    assert rows(table, where="n > 3") == [(2, 5)]


def test_partition_metadata_column(table):
    found = snapshot(table).to_arrow(columns=["id", "_partition", "_spec_id"], where="id IN (0, 10, 20)").to_pylist()
    assert sorted((r["id"], r["_partition"], r["_spec_id"]) for r in found) == [
        (0, {"region": "eu"}, 0),
        (10, {"region": "us"}, 0),
        (20, {"region": None}, 0),
    ]


# -- row tracking


ON = {"delta.enableRowTracking": "true"}


def tracked(directory: Path) -> DeltaTable:
    table = DeltaTable.create(directory, {"id": "long"}, configuration=ON)
    table.append(table.write_data([{"id": i} for i in range(3)]))
    table.append(table.write_data([{"id": i} for i in range(3, 6)]))
    return table


def test_row_ids_count_deleted_rows(tmp_path):
    table = tracked(tmp_path / "t")
    table.delete(table.handles[0], [1])
    columns = ["id", "_row_id", "_row_commit_version"]
    found = rows(table, columns=columns)
    base = [int(h.add["baseRowId"]) for h in table.handles]
    versions = [int(h.add["defaultRowCommitVersion"]) for h in table.handles]
    expected = [(0, base[0], versions[0]), (2, base[0] + 2, versions[0])]
    expected += [(3 + i, base[1] + i, versions[1]) for i in range(3)]
    assert found == sorted(expected, key=repr)
    assert rows(table, columns=["id"], where=f"_row_id = {base[1] + 1}") == [(4,)]


def test_materialized_row_ids(tmp_path):
    table = tracked(tmp_path / "t")
    handle = table.write_data([{"id": 7}, {"id": 8}], row_ids=[1, None], row_commit_versions=[None, 1])
    table.append(handle)
    base, version = handle.add["baseRowId"], handle.add["defaultRowCommitVersion"]
    found = rows(table, columns=["id", "_row_id", "_row_commit_version"], where="id > 6")
    assert found == [(7, 1, version), (8, base + 1, 1)]
    assert snapshot(table).to_arrow().column_names == ["id"]  # W5


@pytest.mark.parametrize(
    ("type_", "values", "stored"),
    [
        (pa.float64(), [1.5, 2.5], "double"),
        (pa.string(), ["1", "2"], "string"),
        (pa.list_(pa.int64()), [[1], []], "list"),
    ],
)
@pytest.mark.parametrize("column", ["_row_id", "_row_commit_version"])
def test_materialized_columns_of_another_type_are_refused(tmp_path, column, type_, values, stored):
    table = tracked(tmp_path / "t")
    handle = table.write_data([{"id": 7}, {"id": 8}], row_ids=[1, 2], row_commit_versions=[1, 2])
    table.append(handle)
    written = pq.read_table(handle.file)
    place = 1 + ["_row_id", "_row_commit_version"].index(column)
    pq.write_table(written.set_column(place, written.schema.names[place], pa.array(values, type_)), handle.file)
    assert rows(table, columns=["id"], where="id > 6") == [(7,), (8,)]
    with pytest.raises(SchemaMismatchError, match=f"Cannot read column {column}: the file stores {stored}") as caught:
        rows(table, columns=["id", column])
    assert (caught.value.rule, caught.value.field) == ("delta T23", column)


@pytest.mark.parametrize("column", ["_row_id", "_row_commit_version"])
def test_row_tracking_that_is_off(tmp_path, column):
    table = DeltaTable.create(tmp_path / "t", {"id": "long"}, features=["rowTracking", "domainMetadata"])
    table.append(table.write_data([{"id": 1}]))
    with pytest.raises(RequestError) as caught:
        snapshot(table).plan(columns=[column])
    assert str(caught.value) == (
        f"Cannot read {column}: row tracking is not enabled on this version of the table "
        f"[RowTrackingDisabled; table {table.directory}, snapshot 1, field {column}, rule delta W4]"
    )


@pytest.mark.parametrize(
    ("column", "key"), [("_row_id", "baseRowId"), ("_row_commit_version", "defaultRowCommitVersion")]
)
def test_row_tracking_with_a_gap(tmp_path, column, key):
    table = tracked(tmp_path / "t")

    def forget(actions: list[Any]) -> None:
        for action in actions:
            action.get("add", {}).pop(key, None)

    table.edit_commit(2, forget)
    assert len(rows(table)) == 6
    with pytest.raises(InvalidTableError) as caught:
        snapshot(table).plan(columns=[column])
    assert (caught.value.rule, caught.value.file) == ("delta W4", table.handles[1].path)
    assert snapshot(table).plan(columns=[column], where="id < 3").files.num_rows == 1


def test_columns_of_the_other_format(table):
    with pytest.raises(UnknownColumnError, match="Delta tables have no sequence numbers"):
        snapshot(table).plan(columns=["_last_updated_sequence_number"])


# -- damage


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda add: add["partitionValues"].update(n="x"), id="partition value"),
        pytest.param(lambda add: add["partitionValues"].update(n="99999999999"), id="out of range"),
    ],
)
def test_partition_value_that_is_none(tmp_path, damage: Callable[[Any], None]):
    table = DeltaTable.create(tmp_path / "t", {"id": "long", "n": "integer"}, partition_columns=["n"])
    handle = table.write_data([{"id": 1, "n": 1}])
    damage(handle.add)
    table.append(handle)
    with pytest.raises(InvalidTableError) as caught:
        snapshot(table).plan()
    assert (caught.value.cause, caught.value.file, caught.value.field) == ("PartitionValueError", handle.path, "n")
    assert caught.value.table == str(table.directory)
