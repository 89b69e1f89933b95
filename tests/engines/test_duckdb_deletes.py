"""Position deletes and deletion vectors end to end; expectations by hand (iceberg 4.1 to 4.22)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from agreeing import in_order, rows

from harness.engines.duckdb import lowering
from harness.engines.duckdb.instance import connect
from harness.errors import HarnessError, RequestError
from harness.table import open_table
from harness.testing.writing.iceberg.builder import DataFileHandle, IcebergTable, corrupt

Delete = Callable[[IcebergTable, dict[DataFileHandle, list[int]]], list[DataFileHandle]]


def by_file(t: IcebergTable, dead: dict[DataFileHandle, list[int]]) -> list[DataFileHandle]:
    return [t.write_position_deletes([(f, p) for p in positions], referenced=f) for f, positions in dead.items()]


def in_one_file(t: IcebergTable, dead: dict[DataFileHandle, list[int]]) -> list[DataFileHandle]:
    pairs = [(f, p) for f, positions in dead.items() for p in positions]
    return [t.write_position_deletes(pairs[::-1], ordered="as given")]


def in_avro(t: IcebergTable, dead: dict[DataFileHandle, list[int]]) -> list[DataFileHandle]:
    return [t.write_position_deletes([(f, p) for f, positions in dead.items() for p in positions], format="avro")]


def in_orc(t: IcebergTable, dead: dict[DataFileHandle, list[int]]) -> list[DataFileHandle]:
    return [t.write_position_deletes([(f, p) for f, positions in dead.items() for p in positions], format="orc")]


def by_vector(t: IcebergTable, dead: dict[DataFileHandle, list[int]]) -> list[DataFileHandle]:
    return list(t.write_deletion_vectors(dead))


WAYS: dict[str, tuple[Delete, int]] = {
    "file per data file": (by_file, 2),
    "one unsorted file": (in_one_file, 2),
    "avro": (in_avro, 2),
    "orc": (in_orc, 2),
    "vectors": (by_vector, 3),
    "position delete files in v3": (in_one_file, 3),
}


@pytest.fixture(params=WAYS.values(), ids=WAYS)
def way(request: pytest.FixtureRequest) -> tuple[Delete, int]:
    return request.param  # type: ignore[no-any-return]


BY_FILE_AND_BY_VECTOR = pytest.mark.parametrize("way", [(in_one_file, 2), (by_vector, 3)], ids=["file", "vector"])
"""Which way it was is known to planning alone, after which all are one."""


def numbered(first: int, count: int) -> list[dict[str, Any]]:
    return [{"id": i, "even": i % 2 == 0} for i in range(first, first + count)]


SCHEMA = {"id": "long", "even": "boolean"}


# -- every way to delete positions ------------------------------------------------------------------------------------


def test_positions_are_physical(tmp_path: Path, way: tuple[Delete, int]) -> None:
    """iceberg 4.12, 4.15, T1: of the unfiltered file, over row groups; duplicates are legal."""
    delete, version = way
    t = IcebergTable.create(tmp_path / "t", SCHEMA, format_version=version)
    a, b = t.write_data(numbered(0, 10), row_group_size=3), t.write_data(numbered(10, 10), row_group_size=3)
    c, d = t.write_data(numbered(20, 10), format="avro"), t.write_data(numbered(30, 10), format="orc")
    t.append(a, b, c, d)
    t.commit(add=delete(t, {a: [0, 2, 3, 9], c: [5, 5, 6], d: [0, 9]}))
    alive = [i for i in range(40) if i not in (0, 2, 3, 9, 25, 26, 30, 39)]
    assert rows(t, ["id"]) == in_order((i,) for i in alive)
    assert rows(t, ["id"], "even") == in_order((i,) for i in alive if i % 2 == 0)
    assert rows(t, ["id"], "id >= 3 AND id < 7") == [(4,), (5,), (6,)]
    assert rows(t, ["id"], "id IN (2, 4, 25, 31)") == [(31,), (4,)]
    assert rows(t, ["even"], "id = 2") == []
    assert rows(t, []) == [()] * len(alive)
    assert rows(t, ["_pos"], "id < 5 OR id > 37") == [(1,), (4,), (8,)]


@BY_FILE_AND_BY_VECTOR
def test_all_rows_and_all_but_one_deleted(tmp_path: Path, way: tuple[Delete, int]) -> None:
    """In files of a byte, of a word and of a vector of rows, and of one more."""
    delete, version = way
    t = IcebergTable.create(tmp_path / "t", SCHEMA, format_version=version)
    dead: dict[DataFileHandle, list[int]] = {}
    for count in (1, 8, 9, 64, 2048, 2049):
        dead[t.write_data(numbered(0, count))] = list(range(count))
        dead[t.write_data(numbered(10_000 * count, count))] = list(range(count - 1))
    t.append(*dead)
    t.commit(add=delete(t, dead))
    assert rows(t, ["id"]) == in_order((10_000 * count + count - 1,) for count in (1, 8, 9, 64, 2048, 2049))


@BY_FILE_AND_BY_VECTOR
def test_deletes_of_a_removed_file_dangle(tmp_path: Path, way: tuple[Delete, int]) -> None:
    """iceberg 4.8: ignored, and never carried over to the file that replaces it."""
    delete, version = way
    t = IcebergTable.create(tmp_path / "t", SCHEMA, format_version=version)
    f = t.write_data(numbered(0, 3))
    t.append(f)
    t.commit(add=delete(t, {f: [1]}))
    t.commit(add=[t.write_data(numbered(0, 3))], remove=[f], operation="replace")
    assert rows(t, ["id"]) == [(0,), (1,), (2,)]


@BY_FILE_AND_BY_VECTOR
def test_row_groups_without_rows(tmp_path: Path, way: tuple[Delete, int]) -> None:
    """iceberg 7.1, 4.15."""
    delete, version = way
    t = IcebergTable.create(tmp_path / "t", {"id": "long"}, format_version=version)
    f = t.write_data([{"id": i} for i in range(20)])
    table = pq.read_table(f.file)
    with pq.ParquetWriter(f.file, table.schema) as writer:
        for start, size in ((0, 0), (0, 10), (10, 0), (10, 10), (20, 0)):
            writer.write_table(table.slice(start, size))
    t.append(f)
    t.commit(add=delete(t, {f: [0, 9, 10, 19]}))
    assert rows(t) == in_order((i,) for i in range(20) if i not in (0, 9, 10, 19))


@BY_FILE_AND_BY_VECTOR
def test_row_groups_of_two_hundred_thousand_rows(tmp_path: Path, way: tuple[Delete, int]) -> None:
    """iceberg T2: the first and last row of each group, and a filter that skips the second group."""
    delete, version = way
    t = IcebergTable.create(tmp_path / "t", {"id": "long"}, format_version=version)
    f = t.write_data(pa.table({"id": pa.array(range(600_000))}), row_group_size=200_000)
    edges = [0, 199_999, 200_000, 399_999, 400_000, 599_999]
    t.append(f)
    t.commit(add=delete(t, {f: edges}))
    near = "id IN (0, 1, 199998, 199999, 400000, 400001, 599998, 599999)"
    assert rows(t, where=near) == in_order([(1,), (199_998,), (400_001,), (599_998,)])
    assert len(rows(t, [], "id < 200000 OR id >= 400000")) == 400_000 - 4


@BY_FILE_AND_BY_VECTOR
def test_a_moved_table(tmp_path: Path, way: tuple[Delete, int]) -> None:
    """iceberg 1.11, 4.13, T10: data, delete and vector paths all follow; a partition directory is called data."""
    delete, version = way
    old = tmp_path / "old"
    t = IcebergTable.create(
        old, {"id": "long", "p": "string"}, format_version=version, partition_spec=[("p", "identity", "data")]
    )
    f = t.write_data([{"id": i, "p": "metadata"} for i in range(4)])
    t.append(f)
    t.commit(add=[*delete(t, {f: [1]}), t.write_equality_deletes(["id"], [{"id": 2}], partition={"data": "metadata"})])
    old.rename(tmp_path / "new")
    assert rows(t, ["id", "_file"], location=tmp_path / "new") == [(0, f.path), (3, f.path)]


@BY_FILE_AND_BY_VECTOR
def test_counts_come_from_rows(tmp_path: Path, way: tuple[Delete, int]) -> None:
    """iceberg T25, 8.5: position, equality and vector deletes under a forged total-records."""
    delete, version = way
    t = IcebergTable.create(tmp_path / "t", SCHEMA, format_version=version)
    f = t.write_data(numbered(0, 10))
    t.append(f)
    more = t.write_equality_deletes(["id"], [{"id": 3}, {"id": 4}])
    t.commit(add=[*delete(t, {f: [4, 5]}), more], summary={"total-records": "10", "deleted-records": "0"})
    snapshot = open_table(str(tmp_path / "t")).snapshot()
    assert snapshot.to_duckdb().aggregate("count(*), min(id), max(id)").fetchall() == [(7, 0, 9)]
    assert snapshot.to_arrow(columns=[]).num_rows == 7


@BY_FILE_AND_BY_VECTOR
def test_positions_and_keys_and_evolution_together(tmp_path: Path, way: tuple[Delete, int]) -> None:
    """iceberg 4.5, 4.6: both kinds hit one file; later columns have defaults where the data file lacks them."""
    delete, version = way
    t = IcebergTable.create(tmp_path / "t", SCHEMA, format_version=version)
    a, b = t.write_data(numbered(0, 6)), t.write_data(numbered(6, 6))
    t.append(a, b)
    t.commit(add=delete(t, {a: [0, 5], b: [0]}))
    t.commit(add=[t.write_equality_deletes(["id"], [{"id": 0}, {"id": 7}])])
    t.rename_column("id", "key")
    t.add_column("id", "string")
    t.append(t.write_data([{"key": 7, "id": "new"}]))
    assert rows(t, ["key", "id"]) == in_order([(k, None) for k in (1, 2, 3, 4, 8, 9, 10, 11)] + [(7, "new")])
    assert rows(t, ["id"], "key = 7") == [("new",)]
    assert rows(t, ["key"], "NOT even AND id IS NULL") == in_order([(1,), (3,), (9,), (11,)])


# -- position delete files --------------------------------------------------------------------------------------------


def test_data_newer_than_the_delete_is_not_hit(tmp_path: Path) -> None:
    """iceberg 4.4: data.seq <= delete.seq."""
    t = IcebergTable.create(tmp_path / "t", SCHEMA)
    f = t.write_data(numbered(0, 3), path=f"{t.location}/data/a.parquet")
    t.commit(add=[t.write_position_deletes([(f, 0), (f, 1)])])
    t.append(f)
    assert rows(t, ["id"]) == [(0,), (1,), (2,)]


def test_positions_beyond_the_end_hit_nothing(tmp_path: Path) -> None:
    t = IcebergTable.create(tmp_path / "t", SCHEMA)
    f = t.write_data(numbered(0, 3))
    t.append(f)
    t.commit(add=[t.write_position_deletes([(f, 2), (f, 3), (f, 2**40)])])
    assert rows(t, ["id"]) == [(0,), (1,)]


def spec_evolution(t: IcebergTable) -> tuple[DataFileHandle, DataFileHandle]:
    """A data file under the first spec, and a position delete of it under another, without a reference."""
    f = t.write_data(numbered(0, 3))
    other = t.write_data(numbered(3, 3))
    t.append(f, other)
    t.set_partition_spec([("even", "identity")])
    return f, t.write_position_deletes([(f, 1), (other, 0)], spec_id=1, partition={"even": True})


def test_a_delete_of_another_spec_is_refused(tmp_path: Path) -> None:
    """iceberg 4.4, T9: never silently dropped."""
    t = IcebergTable.create(tmp_path / "t", SCHEMA)
    f, delete = spec_evolution(t)
    t.commit(add=[delete])
    with pytest.raises(HarnessError) as caught:
        rows(t)
    assert (caught.value.cause, caught.value.rule, caught.value.file, caught.value.table) == (
        "DeletePartitionMismatch",
        "iceberg 4.4",
        delete.path,
        str(tmp_path / "t"),
    )
    assert f.path in str(caught.value)


def test_a_delete_of_another_spec_applies_by_path_when_asked(tmp_path: Path) -> None:
    """iceberg 4.4, T9: the flag `lenient_delete_partition`."""
    t = IcebergTable.create(tmp_path / "t", SCHEMA)
    _, delete = spec_evolution(t)
    t.commit(add=[delete])
    assert rows(t, ["id"], lenient_delete_partition=True) == [(0,), (2,), (4,), (5,)]


@pytest.mark.parametrize(
    "way", [(by_file, 2), (in_avro, 2), (in_orc, 2), (by_vector, 3)], ids=["parquet", "avro", "orc", "vector"]
)
@pytest.mark.parametrize(
    "damage", [Path.unlink, lambda p: corrupt(p, -1), lambda p: p.write_bytes(b"")], ids=["missing", "footer", "empty"]
)
def test_a_damaged_delete_file_is_refused(
    tmp_path: Path, way: tuple[Delete, int], damage: Callable[[Path], Any]
) -> None:
    """iceberg 4.10: never skipped."""
    delete, version = way
    t = IcebergTable.create(tmp_path / "t", SCHEMA, format_version=version)
    f = t.write_data(numbered(0, 3))
    t.append(f)
    handles = delete(t, {f: [1]})
    t.commit(add=handles)
    if handles[0].file.suffix == ".puffin" and damage is not Path.unlink:
        corrupt(handles[0].file, handles[0].data_file["content_offset"] + 8)
    else:
        damage(handles[0].file)
    with pytest.raises(HarnessError) as caught:
        rows(t)
    assert str(caught.value.file).startswith(handles[0].path)
    assert caught.value.table == str(tmp_path / "t")


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


WITH_NAN = {
    "x > 3": [1, 4],
    "x >= 3": [0, 1, 2, 4],
    "x <> 3": [1, 4],
    "x = 3": [0, 2],
    "isnan(x)": [1, 4],
    "x = 'nan'::DOUBLE": [1, 4],
    "x < 3": [],
    "NOT (x > 3)": [0, 2],
}


@pytest.mark.parametrize("counted", [True, False], ids=["nan counted", "nan not counted"])
def test_nan_under_deletes(tmp_path: Path, counted: bool) -> None:
    """iceberg 3.20, 3.21, T15: bounds [3, 3] leave NaN out, and DuckDB's NaN is above all numbers."""
    t = IcebergTable.create(tmp_path / "t", {"x": "double"})
    nan = float("nan")
    f = t.write_data([{"x": x} for x in (3.0, nan, 3.0, nan, nan, 3.0)], row_group_size=3)
    if not counted:
        f.data_file["nan_value_counts"] = None
    t.append(f)
    t.commit(add=in_one_file(t, {f: [3, 5]}))
    assert {where: [p for (p,) in rows(t, ["_pos"], where)] for where in WITH_NAN} == WITH_NAN


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


@BY_FILE_AND_BY_VECTOR
def test_a_file_listed_twice_is_read_twice_when_allowed(tmp_path: Path, way: tuple[Delete, int]) -> None:
    """iceberg 2.13: its deletes hit both readings."""
    delete, version = way
    t = IcebergTable.create(tmp_path / "t", SCHEMA, format_version=version)
    f = t.write_data(numbered(0, 4))
    t.append(f)
    t.append(f)
    t.commit(add=[*delete(t, {f: [1]}), t.write_equality_deletes(["id"], [{"id": 2}])])
    assert rows(t, ["id"], allow_duplicate_files=True) == [(0,), (0,), (3,), (3,)]


@BY_FILE_AND_BY_VECTOR
def test_hundreds_of_files_each_with_its_own_positions(tmp_path: Path, way: tuple[Delete, int]) -> None:
    """More files than positional joins are used for; filters on the file and the rows skip files without a shift."""
    delete, version = way
    t = IcebergTable.create(tmp_path / "t", SCHEMA, format_version=version)
    files = [t.write_data(numbered(10 * n, 4)) for n in range(100)]
    t.append(*files)
    t.commit(add=delete(t, {f: [n % 4] for n, f in enumerate(files) if n % 5}))
    alive = [10 * n + p for n in range(100) for p in range(4) if n % 5 == 0 or p != n % 4]
    assert rows(t, ["id"]) == in_order((i,) for i in alive)
    assert rows(t, ["id"], f"_file = '{files[42].path}'") == [(420,), (421,), (423,)]
    assert rows(t, ["id"], "id > 905 AND id < 923") == in_order((i,) for i in alive if 905 < i < 923)
    view = open_table(str(tmp_path / "t")).snapshot().to_duckdb(columns=["id", "_file", "_pos"])
    assert in_order(view.filter(f"_file >= '{files[98].path}'").project("id").fetchall()) == [
        (i,) for i in (980, 981, 983, 990, 991, 992)
    ]
    assert view.filter("id = 421 OR id = 422").project("id").fetchall() == [(421,)]
