"""Deletes on DuckDB that scenarios cannot express: positions, keys, and connections (iceberg 4.4, 4.23 to 4.28)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from reading import in_order, rows

from harness.engines import union_arms
from harness.engines.duckdb import lowering
from harness.engines.duckdb.instance import connect
from harness.errors import HarnessError, RequestError
from harness.table import open_table
from harness.writing.iceberg.builder import IcebergFile, IcebergTable

Make = Callable[..., IcebergTable]


@pytest.fixture(params=["by scope", "by sequence number"])
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Return a function that creates a table.

    Reads use either lowering of equality deletes, whatever the table's size.
    """
    monkeypatch.setattr(union_arms, "joins_by_set", lambda plan: request.param == "by scope")
    return lambda schema, **more: IcebergTable.create(tmp_path / "t", schema, **more)


def test_a_delete_of_another_spec_applies_by_path_when_asked(tmp_path: Path) -> None:
    """iceberg 4.4, T9: the flag `lenient_delete_partition`."""
    t = IcebergTable.create(tmp_path / "t", {"id": "long", "even": "boolean"})
    files = [t.write_data([{"id": i, "even": i % 2 == 0} for i in range(first, first + 3)]) for first in (0, 3)]
    t.append(*files)
    t.set_partition_spec([("even", "identity")])
    pairs = [(files[0], 1), (files[1], 0)]
    t.commit(add=[t.write_position_deletes(pairs, spec_id=1, partition={"even": True})])
    assert rows(t, ["id"], lenient_delete_partition=True) == [(0,), (2,), (4,), (5,)]


def test_files_too_long_for_a_bitmap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files with more rows than a bitmap can index use an anti join on positions. The limit is set to 5 rows here."""
    monkeypatch.setattr(lowering, "BITMAP_ROWS", 5)
    t = IcebergTable.create(tmp_path / "t", {"id": "long"}, format_version=3)
    a, b, c = (
        t.write_data([{"id": i} for i in range(first, first + count)], row_group_size=2)
        for first, count in ((0, 6), (10, 4), (20, 6))
    )
    t.append(a, b, c)
    t.commit(add=[*t.write_deletion_vectors({a: [0, 5], c: [1]}), t.write_equality_deletes(["id"], [{"id": 3}])])
    alive = [1, 2, 4, 10, 11, 12, 13, 20, 22, 23, 24, 25]
    assert rows(t, ["id"]) == in_order((i,) for i in alive)
    assert rows(t, ["id"], "id < 5 OR _pos = 1") == in_order([(1,), (2,), (4,), (11,)])
    assert rows(t, ["id", "_deleted"], "_deleted") == in_order((i, True) for i in (0, 3, 5, 21))


def test_text_is_not_filtered_under_another_collation(tmp_path: Path) -> None:
    """iceberg 3.3: files would be skipped by bytes, but rows would be chosen by folded text."""
    t = IcebergTable.create(tmp_path / "t", {"k": "string"})
    t.append(t.write_data([{"k": "a"}]))
    con = connect()
    con.execute("SET default_collation = 'nocase'")
    with pytest.raises(RequestError) as caught:
        open_table(t.location).snapshot().to_duckdb(con, where="k = 'A'")
    assert str(caught.value).startswith(
        "Cannot filter text on a connection with default collation 'nocase': run RESET default_collation on it first"
    )


def ids(*numbers: int) -> list[dict[str, Any]]:
    return [{"id": n} for n in numbers]


@pytest.mark.parametrize("collation", ["nocase", "noaccent", "nocase.noaccent"])
def test_the_collation_of_the_connection_is_not_that_of_keys(make: Make, collation: str) -> None:
    """iceberg 4.28: keys are compared without collation, in the join and in the pooling of keys."""
    t = make({"k": "string", "s": "struct<k: string>"})
    t.append(t.write_data([{"k": k, "s": {"k": k}} for k in ("a", "A", "á", None)]))
    t.commit(add=[t.write_equality_deletes(["k"], [{"k": "A"}])])
    t.append(t.write_data([{"k": k, "s": {"k": k}} for k in ("a", "A")]))
    t.commit(add=[t.write_equality_deletes(["k"], [{"k": "a"}]), t.write_equality_deletes([3], [{"s": {"k": "Á"}}])])
    con = connect()
    con.execute(f"SET default_collation = '{collation}'")
    relation = open_table(t.location).snapshot().to_duckdb(con, columns=["k"])
    assert in_order(relation.fetchall()) == [("A",), ("á",), (None,)]


def test_a_partition_column_that_the_delete_file_lacks(make: Make) -> None:
    """iceberg 4.25: the delete file's partition value is the key."""
    t = make({"id": "long", "p": "int"}, partition_spec=[("p", "identity")])
    t.append(*t.write_partitioned([{"id": i, "p": p} for p in (1, 2) for i in (1, 2)]))
    delete = t.write_equality_deletes(["id"], ids(1), partition={"p": 1})
    delete.data_file["equality_ids"] = [1, 2]
    t.commit(add=[delete])
    assert rows(t) == [(1, 2), (2, 1), (2, 2)]


def with_ids(*numbers: int) -> Callable[[IcebergTable], IcebergFile]:
    def delete(t: IcebergTable) -> IcebergFile:
        handle = t.write_equality_deletes(["id"], ids(1))
        handle.data_file["equality_ids"] = list(numbers)
        return handle

    return delete


@pytest.mark.parametrize(
    ("delete", "cause", "rule"),
    [
        (with_ids(99), "UnknownEqualityField", "iceberg 4.23"),
        (with_ids(3), "UnknownEqualityField", "iceberg 4.23"),
        (with_ids(5), "UnknownEqualityField", "iceberg 4.23"),
        (with_ids(4), "UnknownEqualityField", "iceberg 4.23"),
        (with_ids(), "CorruptManifest", "iceberg 4.23"),
        (with_ids(1, 2), "UnknownEqualityField", "iceberg 4.25"),
    ],
    ids=["unknown id", "list", "below a list", "float", "no ids", "key not in the delete file"],
)
def test_refused(make: Make, delete: Callable[[IcebergTable], IcebergFile], cause: str, rule: str) -> None:
    t = make({"id": "long", "n": "string", "l": "list<int>", "d": "double"})
    t.append(t.write_data([{"id": 1, "n": "x"}]))
    handle = delete(t)
    t.commit(add=[handle])
    with pytest.raises(HarnessError) as caught:
        rows(t)
    assert (caught.value.cause, caught.value.rule) == (cause, rule)
    assert str(caught.value.file).startswith(handle.path)


def test_files_with_different_bounds_are_joined_once(tmp_path: Path) -> None:
    """iceberg 4.6: deletes of one commit apply to all older files.

    Bounds that exclude some of them do not add joins.
    """
    t = IcebergTable.create(tmp_path / "t", {"id": "long"})
    t.append(*[t.write_data(ids(*range(first, first + 4))) for first in (0, 10, 20, 30)])
    t.commit(add=[t.write_equality_deletes(["id"], ids(number)) for number in (1, 12, 23)])
    t.append(t.write_data(ids(1, 12)))
    relation = open_table(t.location).snapshot().to_duckdb()
    assert relation.explain().count("ANTI") == 1
    alive = [0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 30, 31, 32, 33]
    assert sorted(row[0] for row in relation.fetchall()) == alive
