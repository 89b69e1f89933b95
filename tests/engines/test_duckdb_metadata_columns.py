"""Metadata columns end to end, with deletes and filters; expectations by hand (iceberg 5.17, 5.18, 2.11, trap T19)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from reading import in_order, rows

from harness.errors import HarnessError
from harness.metadata.model.schema import METADATA, Schema
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


# -- row lineage ------------------------------------------------------------------------------------------------------

LINEAGE = ["id", "_row_id", "_last_updated_sequence_number"]


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
