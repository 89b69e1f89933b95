"""Metadata columns end to end, with deletes and filters; expectations by hand (iceberg 5.17, 5.18, 2.11, trap T19)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from agreeing import in_order, rows

from harness.errors import HarnessError
from harness.metadata.model.schema import METADATA, Schema
from harness.table import open_table
from harness.testing.writing.iceberg.builder import DataFileHandle, IcebergTable


def numbered(first: int, count: int) -> list[dict[str, Any]]:
    return [{"id": i} for i in range(first, first + count)]


@pytest.fixture
def both_kinds(tmp_path: Path) -> tuple[IcebergTable, DataFileHandle, DataFileHandle]:
    """Files of ids 0 to 4 and 10 to 14; dead are 1 and 13 by position, 3 and 11 by key, and 0 by both."""
    t = IcebergTable.create(tmp_path / "t", {"id": "long", "n": "string"})
    a, b = t.write_data(numbered(0, 5), row_group_size=2), t.write_data(numbered(10, 5))
    t.append(a, b)
    t.commit(add=[t.write_position_deletes([(a, 0), (a, 1), (b, 3)])])
    t.commit(add=[t.write_equality_deletes(["id"], [{"id": i} for i in (0, 3, 11)])])
    return t, a, b


DEAD = (0, 1, 3, 11, 13)
ALL = [*range(5), *range(10, 15)]

# -- _deleted ---------------------------------------------------------------------------------------------------------


def test_deleted_rows_are_returned_and_flagged(both_kinds: tuple[IcebergTable, Any, Any]) -> None:
    """iceberg 5.17."""
    t, *_ = both_kinds
    assert rows(t, ["id", "_deleted"]) == in_order((i, i in DEAD) for i in ALL)
    assert rows(t, ["_deleted", "_pos"]) == in_order((i in DEAD, i % 10) for i in ALL)
    assert rows(t, ["_deleted"]) == in_order((i in DEAD,) for i in ALL)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("_deleted", DEAD),
        ("NOT _deleted", [i for i in ALL if i not in DEAD]),
        ("_deleted AND id < 10", (0, 1, 3)),
        ("_deleted IS NULL", ()),
        ("id = 3", (3,)),
        ("_pos = 3", (3, 13)),
        ("_deleted OR _pos = 4", (*DEAD, 4, 14)),
        ("NOT (_deleted OR id > 4)", (2, 4)),
    ],
    ids=str,
)
def test_filters_on_deleted(both_kinds: tuple[IcebergTable, Any, Any], where: str, expected: Sequence[int]) -> None:
    """iceberg 5.17: the flag in the projection or in the filter alone."""
    t, *_ = both_kinds
    assert rows(t, ["id", "_deleted"], where) == in_order((i, i in DEAD) for i in expected)


def test_a_filter_alone_on_deleted_shows_deleted_rows(both_kinds: tuple[IcebergTable, Any, Any]) -> None:
    """Who asks for deleted rows in the filter gets them, though the flag itself is not projected."""
    t, *_ = both_kinds
    assert rows(t, ["id"], "_deleted") == in_order((i,) for i in DEAD)
    assert rows(t, ["id"], "_deleted = false") == in_order((i,) for i in ALL if i not in DEAD)


def test_nothing_is_deleted_in_a_table_without_deletes(tmp_path: Path) -> None:
    t = IcebergTable.create(tmp_path / "t", {"id": "long"})
    t.append(t.write_data(numbered(0, 2)), t.write_data(numbered(2, 1), format="avro"))
    assert rows(t, ["_deleted", "id"]) == [(False, 0), (False, 1), (False, 2)]
    assert rows(t, ["id"], "_deleted") == []


@pytest.mark.parametrize("data_format", ["parquet", "avro", "orc"])
def test_deleted_and_null_keys(tmp_path: Path, data_format: Any) -> None:
    """iceberg 4.26: flags are true or false, never null, whatever the keys are."""
    t = IcebergTable.create(tmp_path / "t", {"a": "int", "b": "int"}, format_version=3)
    pairs = [(1, None), (None, 1), (None, None), (1, 1)]
    f = t.write_data([{"a": a, "b": b} for a, b in pairs], format=data_format)
    t.append(f)
    t.commit(add=[t.write_equality_deletes(["b", "a"], [{"a": 1, "b": None}, {"a": None, "b": None}])])
    t.commit(add=[*t.write_deletion_vectors({f: [3]})])
    assert rows(t, ["_pos", "_deleted"]) == [(0, True), (1, False), (2, True), (3, True)]


# -- _file, _pos, _spec_id --------------------------------------------------------------------------------------------


def test_place_of_every_row(both_kinds: tuple[IcebergTable, Any, Any]) -> None:
    """iceberg 5.17, 4.15: positions are those of the unfiltered file."""
    t, a, b = both_kinds
    assert rows(t, ["_file", "_pos", "id"]) == in_order(
        [(a.path, 2, 2), (a.path, 4, 4), (b.path, 0, 10), (b.path, 2, 12), (b.path, 4, 14)]
    )
    assert rows(t, ["_pos"], f"_file = '{a.path}' AND id > 2") == [(4,)]
    assert rows(t, ["id"], "_pos >= 2 AND _pos < 4") == [(12,), (2,)]
    assert rows(t, ["id"], f"_file <> '{a.path}' AND _pos IN (0, 1, 2)") == [(10,), (12,)]
    assert rows(t, ["_spec_id"], "_spec_id = 0 AND id = 4") == [(0,)]
    assert rows(t, ["id"], "_spec_id <> 0") == []


@pytest.mark.parametrize("data_format", ["avro", "orc"])
def test_places_in_other_formats(tmp_path: Path, data_format: Any) -> None:
    t = IcebergTable.create(tmp_path / "t", {"id": "long"})
    a, b = t.write_data(numbered(0, 3), format=data_format), t.write_data(numbered(3, 3), format=data_format)
    t.append(a, b)
    t.commit(add=[t.write_position_deletes([(a, 0), (b, 2)])])
    assert rows(t, ["_file", "_pos"], "id <> 1") == in_order([(a.path, 2), (b.path, 0), (b.path, 1)])


def test_a_file_name_that_is_a_pattern(tmp_path: Path) -> None:
    """iceberg 1.14: paths are raw strings."""
    t = IcebergTable.create(tmp_path / "t", {"id": "long"})
    odd = t.write_data(numbered(0, 2), path=f"{t.location}/data/a [b]*?%20'é.parquet")
    t.append(odd, t.write_data(numbered(2, 1)))
    t.commit(add=[t.write_position_deletes([(odd, 0)])])
    assert rows(t, ["id", "_file"], "id < 2") == [(1, odd.path)]


# -- _partition -------------------------------------------------------------------------------------------------------


def test_partition_is_the_union_of_all_specs(tmp_path: Path) -> None:
    """iceberg 5.17: fields of all specs by id; null where the file's own spec lacks one."""
    t = IcebergTable.create(tmp_path / "t", {"id": "long", "p": "string"})
    t.append(t.write_data([{"id": 0, "p": "a"}]))
    t.set_partition_spec([("p", "identity")])
    t.append(t.write_data([{"id": 1, "p": "a"}]), t.write_data([{"id": 2, "p": None}]))
    t.set_partition_spec([("p", "identity"), ("id", "bucket[4]", "b")])
    f = t.write_data([{"id": 34, "p": "z"}, {"id": 34, "p": "z"}])
    t.append(f)
    t.commit(add=[t.write_position_deletes([(f, 0)])])
    bucket = 2017239379 % 4  # iceberg 3.11
    assert rows(t, ["id", "_spec_id", "_partition"]) == in_order(
        [
            (0, 0, {"p": None, "b": None}),
            (1, 1, {"p": "a", "b": None}),
            (2, 1, {"p": None, "b": None}),
            (34, 2, {"p": "z", "b": bucket}),
        ]
    )
    assert rows(t, ["id"], "_partition.p = 'a'") == [(1,)]
    assert rows(t, ["id"], f"_partition.b = {bucket} AND _spec_id = 2") == [(34,)]


def test_partition_of_an_unpartitioned_table_is_null(tmp_path: Path) -> None:
    """iceberg 5.17."""
    t = IcebergTable.create(tmp_path / "t", {"id": "long"})
    t.append(t.write_data(numbered(0, 1)))
    assert rows(t, ["_partition", "id"]) == [(None, 0)]


# -- row lineage ------------------------------------------------------------------------------------------------------

LINEAGE = ["id", "_row_id", "_last_updated_sequence_number"]


def test_row_ids_count_over_all_files(tmp_path: Path) -> None:
    """iceberg 5.18, 2.11, T19: deletes and pruning leave ids as they are."""
    t = IcebergTable.create(tmp_path / "t", {"id": "long"}, format_version=3)
    a, b, c = t.write_data(numbered(0, 3)), t.write_data(numbered(10, 3)), t.write_data(numbered(20, 3))
    t.append(a, b)
    t.append(c)
    t.commit(add=[*t.write_deletion_vectors({a: [1], c: [0]}), t.write_equality_deletes(["id"], [{"id": 11}])])
    whole = [(0, 0, 1), (2, 2, 1), (10, 3, 1), (12, 5, 1), (21, 7, 2), (22, 8, 2)]
    assert rows(t, LINEAGE) == in_order(whole)
    assert rows(t, LINEAGE, "id >= 10") == in_order(whole[2:])
    assert rows(t, ["id"], "_row_id = 5 OR _row_id = 7") == [(12,), (21,)]
    assert rows(t, ["_row_id"], "_last_updated_sequence_number = 2 AND id <> 21") == [(8,)]
    assert rows(t, ["_row_id", "_deleted"], "id < 10") == [(0, False), (1, True), (2, False)]


def test_removed_files_do_not_shift_row_ids(tmp_path: Path) -> None:
    """iceberg 2.11, T19: a deleted entry in the middle of a rewritten manifest."""
    t = IcebergTable.create(tmp_path / "t", {"id": "long"}, format_version=3)
    a, b, c = (t.write_data(numbered(10 * n, 2)) for n in range(3))
    t.append(a, b, c)
    t.commit(remove=[b], operation="delete")
    assert rows(t, LINEAGE) == in_order([(0, 0, 1), (1, 1, 1), (20, 4, 1), (21, 5, 1)])


@pytest.mark.parametrize("data_format", ["parquet", "avro", "orc"])
def test_stored_lineage_wins_and_its_nulls_inherit(tmp_path: Path, data_format: Any) -> None:
    """iceberg 5.18: a compacted file stores what its rows were called before."""
    t = IcebergTable.create(tmp_path / "t", {"id": "long"}, format_version=3)
    lineage = Schema(fields=(*t.schema.fields, METADATA["_row_id"], METADATA["_last_updated_sequence_number"]))
    stored = [(1, 100, 7), (2, None, 8), (3, 102, None), (4, None, None)]
    f = t.write_data([dict(zip(LINEAGE, row, strict=True)) for row in stored], schema=lineage, format=data_format)
    t.append(t.write_data(numbered(0, 1)))
    t.append(f)
    t.commit(add=t.write_deletion_vectors({f: [3]}))
    assert rows(t, LINEAGE) == in_order([(0, 0, 1), (1, 100, 7), (2, 2, 8), (3, 102, 2)])
    assert rows(t, ["id"]) == [(0,), (1,), (2,), (3,)]
    assert open_table(t.location).snapshot().to_arrow().column_names == ["id"]


def test_without_a_first_row_id_there_is_no_lineage(tmp_path: Path) -> None:
    """iceberg 5.18: null in every row, although the file stores ids."""
    t = IcebergTable.create(tmp_path / "t", {"id": "long"})
    lineage = Schema(fields=(*t.schema.fields, METADATA["_row_id"], METADATA["_last_updated_sequence_number"]))
    f = t.write_data([{"id": 1, "_row_id": 100, "_last_updated_sequence_number": 7}, {"id": 2}], schema=lineage)
    t.append(f)
    t.commit(add=[t.write_position_deletes([(f, 1)])])
    t.upgrade(3)
    assert rows(t, LINEAGE) == [(1, None, None)]
    assert rows(t, ["id"], "_row_id IS NULL") == [(1,)]
    assert rows(t, ["id"], "_row_id = 100") == []


def test_lineage_needs_the_recorded_row_count(tmp_path: Path) -> None:
    """iceberg 7.2: ids of a file of another length than recorded would collide with the next file's."""
    t = IcebergTable.create(tmp_path / "t", {"id": "long"}, format_version=3)
    f = t.write_data(numbered(0, 3))
    f.data_file["record_count"] = 2
    t.append(f)
    with pytest.raises(HarnessError) as caught:
        rows(t, ["_row_id"])
    assert (caught.value.rule, caught.value.file) == ("iceberg 7.2", f.path)


# -- all together -----------------------------------------------------------------------------------------------------


def test_all_metadata_columns_and_nothing_else(both_kinds: tuple[IcebergTable, Any, Any]) -> None:
    t, a, b = both_kinds
    names = ["_row_id", "_deleted", "_partition", "_pos", "_file", "_spec_id", "_last_updated_sequence_number"]
    assert rows(t, names) == in_order((None, i in DEAD, None, i % 10, (a if i < 5 else b).path, 0, None) for i in ALL)


def test_a_user_column_with_the_name_of_a_metadata_column(tmp_path: Path) -> None:
    """iceberg 5.19: the user's column wins."""
    t = IcebergTable.create(tmp_path / "t", {"_pos": "string", "id": "long"})
    f = t.write_data([{"_pos": "a", "id": 1}, {"_pos": "b", "id": 2}])
    t.append(f)
    t.commit(add=[t.write_position_deletes([(f, 0)])])
    assert rows(t, ["_pos", "id", "_file"]) == [("b", 2, f.path)]
    assert rows(t, ["id"], "_pos = 'b'") == [(2,)]


@pytest.mark.parametrize(
    "name", ["deleted", "Deleted", "c0", "e0", "s", "d", "f", "p", "k0", "file_row_number", "FILE_INDEX"]
)
def test_user_columns_named_like_ours_inside(tmp_path: Path, name: str) -> None:
    """iceberg 5.21: internal names never meet the table's."""
    t = IcebergTable.create(tmp_path / "t", {name: "long", "_c0": "int"})
    f = t.write_data([{name: i, "_c0": -i} for i in range(5)])
    t.append(f)
    t.commit(add=[t.write_position_deletes([(f, 0)])])
    t.commit(add=[t.write_equality_deletes([name], [{name: 3}])])
    assert rows(t, [name, "_pos"]) == [(1, 1), (2, 2), (4, 4)]
    assert rows(t, [name, "_deleted"], f'"{name}" < 2') == [(0, True), (1, False)]
    assert rows(t, ["_c0"], f'"{name}" <> 2') == [(-1,), (-4,)]


def test_metadata_columns_by_position_and_by_bitmap_of_many_files(tmp_path: Path) -> None:
    """More files than positional joins are used for, several specs of constants, and both kinds of deletes."""
    t = IcebergTable.create(
        tmp_path / "t", {"id": "long", "p": "int"}, format_version=3, partition_spec=[("p", "identity")]
    )
    files = [t.write_data([{"id": 10 * p + i, "p": p} for i in range(3)]) for p in range(70)]
    t.append(*files)
    t.commit(add=t.write_deletion_vectors({f: [p % 3] for p, f in enumerate(files)}))
    found = rows(t, ["id", "_file", "_pos", "_partition", "_row_id"], "_pos < 2")
    expected = [
        (10 * p + i, f.path, i, {"p": p}, 3 * p + i) for p, f in enumerate(files) for i in range(2) if i != p % 3
    ]
    assert found == in_order(expected)
