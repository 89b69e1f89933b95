"""Position deletes and deletion vectors end to end; expectations by hand (iceberg 4.1 to 4.22)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from reading import in_order, rows

from harness.engines.duckdb import lowering
from harness.engines.duckdb.instance import connect
from harness.errors import RequestError
from harness.table import open_table
from harness.testing.writing.iceberg.builder import DataFileHandle, IcebergTable

Delete = Callable[[IcebergTable, dict[DataFileHandle, list[int]]], list[DataFileHandle]]


def in_one_file(t: IcebergTable, dead: dict[DataFileHandle, list[int]]) -> list[DataFileHandle]:
    pairs = [(f, p) for f, positions in dead.items() for p in positions]
    return [t.write_position_deletes(pairs[::-1], ordered="as given")]


def by_vector(t: IcebergTable, dead: dict[DataFileHandle, list[int]]) -> list[DataFileHandle]:
    return list(t.write_deletion_vectors(dead))


BY_FILE_AND_BY_VECTOR = pytest.mark.parametrize("way", [(in_one_file, 2), (by_vector, 3)], ids=["file", "vector"])
"""Which way it was is known to planning alone, after which all are one."""


def numbered(first: int, count: int) -> list[dict[str, Any]]:
    return [{"id": i, "even": i % 2 == 0} for i in range(first, first + count)]


SCHEMA = {"id": "long", "even": "boolean"}


# -- position delete files --------------------------------------------------------------------------------------------


def spec_evolution(t: IcebergTable) -> tuple[DataFileHandle, DataFileHandle]:
    """A data file under the first spec, and a position delete of it under another, without a reference."""
    f = t.write_data(numbered(0, 3))
    other = t.write_data(numbered(3, 3))
    t.append(f, other)
    t.set_partition_spec([("even", "identity")])
    return f, t.write_position_deletes([(f, 1), (other, 0)], spec_id=1, partition={"even": True})


def test_a_delete_of_another_spec_applies_by_path_when_asked(tmp_path: Path) -> None:
    """iceberg 4.4, T9: the flag `lenient_delete_partition`."""
    t = IcebergTable.create(tmp_path / "t", SCHEMA)
    _, delete = spec_evolution(t)
    t.commit(add=[delete])
    assert rows(t, ["id"], lenient_delete_partition=True) == [(0,), (2,), (4,), (5,)]


@BY_FILE_AND_BY_VECTOR
def test_files_too_long_for_a_bitmap(tmp_path: Path, way: tuple[Delete, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of more rows than a bitmap can index lose positions one by one; here already those of more than 5."""
    monkeypatch.setattr(lowering, "_BITMAP_ROWS", 5)
    delete, version = way
    t = IcebergTable.create(tmp_path / "t", SCHEMA, format_version=version)
    a, b, c = (
        t.write_data(numbered(0, 6), row_group_size=2),
        t.write_data(numbered(10, 4)),
        t.write_data(numbered(20, 6)),
    )
    t.append(a, b, c)
    t.commit(add=[*delete(t, {a: [0, 5], c: [1]}), t.write_equality_deletes(["id"], [{"id": 3}])])
    alive = [1, 2, 4, 10, 11, 12, 13, 20, 22, 23, 24, 25]
    assert rows(t, ["id"]) == in_order((i,) for i in alive)
    assert rows(t, ["id"], "id < 5 OR _pos = 1") == in_order([(1,), (2,), (4,), (11,)])
    dead = in_order((i, True) for i in (0, 3, 5, 21))
    assert rows(t, ["id", "_deleted"], "_deleted") == dead


def test_text_is_not_filtered_under_another_collation(tmp_path: Path) -> None:
    """iceberg 3.3: files would be skipped by bytes and rows chosen by folded text."""
    t = IcebergTable.create(tmp_path / "t", {"k": "string"})
    t.append(t.write_data([{"k": "a"}]))
    con = connect()
    con.execute("SET default_collation = 'nocase'")
    with pytest.raises(RequestError) as caught:
        open_table(t.location).snapshot().to_duckdb(con, where="k = 'A'")
    assert str(caught.value).startswith(
        "Cannot filter text on a connection with default collation 'nocase': run RESET default_collation on it first"
    )
