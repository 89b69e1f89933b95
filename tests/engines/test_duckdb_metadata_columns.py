"""Metadata columns end to end, with deletes and filters; expectations by hand (iceberg 5.17, 5.18, 2.11, trap T19)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from reading import in_order, rows

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


# -- _partition -------------------------------------------------------------------------------------------------------


# -- row lineage ------------------------------------------------------------------------------------------------------


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
