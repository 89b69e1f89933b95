"""Keys of equality deletes end to end (iceberg 4.23 to 4.30); expectations by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from reading import in_order, rows

from harness.engines.duckdb.instance import connect
from harness.errors import HarnessError
from harness.table import open_table
from harness.testing.writing.iceberg.builder import DataFileHandle, IcebergTable

Make = Callable[..., IcebergTable]


def ids(*numbers: int) -> list[dict[str, Any]]:
    return [{"id": n} for n in numbers]


@pytest.mark.parametrize("collation", ["nocase", "noaccent", "nocase.noaccent"])
def test_the_collation_of_the_connection_is_not_that_of_keys(make: Make, collation: str) -> None:
    """iceberg 4.28: no collation, in the join and in the pooling of keys."""
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
    """iceberg 4.25: the delete file's own tuple gives the key."""
    t = make({"id": "long", "p": "int"}, partition_spec=[("p", "identity")])
    t.append(*t.write_partitioned([{"id": i, "p": p} for p in (1, 2) for i in (1, 2)]))
    delete = t.write_equality_deletes(["id"], ids(1), partition={"p": 1})
    delete.data_file["equality_ids"] = [1, 2]
    t.commit(add=[delete])
    assert rows(t) == [(1, 2), (2, 1), (2, 2)]


# -- refusals -------------------------------------------------------------------------------------------------------


def with_ids(*numbers: int) -> Callable[[IcebergTable], DataFileHandle]:
    def delete(t: IcebergTable) -> DataFileHandle:
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
def test_refused(make: Make, delete: Callable[[IcebergTable], DataFileHandle], cause: str, rule: str) -> None:
    t = make({"id": "long", "n": "string", "l": "list<int>", "d": "double"})
    t.append(t.write_data([{"id": 1, "n": "x"}]))
    handle = delete(t)
    t.commit(add=[handle])
    with pytest.raises(HarnessError) as caught:
        rows(t)
    assert (caught.value.cause, caught.value.rule) == (cause, rule)
    assert str(caught.value.file).startswith(handle.path)
