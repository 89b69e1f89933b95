"""Which data files an equality delete hits, end to end (iceberg 4.1, 4.2, 4.6 to 4.8, 4.29); expectations by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agreeing import in_order, rows

from harness.table import open_table
from harness.writing.iceberg.builder import IcebergTable

Make = Callable[..., IcebergTable]


def ids(*numbers: int) -> list[dict[str, Any]]:
    return [{"id": n} for n in numbers]


def test_a_delete_hits_only_older_data(make: Make) -> None:
    """iceberg 4.6, 4.7, T5: strictly older; a row of the same commit and a re-insert later live."""
    t = make({"id": "long", "n": "string"})
    t.append(t.write_data([{"id": 1, "n": "old"}, {"id": 2, "n": "old"}]))
    t.commit(add=[t.write_data([{"id": 1, "n": "same"}]), t.write_equality_deletes(["id"], ids(1))])
    t.append(t.write_data([{"id": 1, "n": "later"}]))
    assert rows(t) == [(1, "later"), (1, "same"), (2, "old")]


def test_compacted_data_keeps_its_older_sequence_number(make: Make) -> None:
    """iceberg 2.10: a file written later under an older *data* sequence number is still hit."""
    t = make({"id": "long"})
    old = t.write_data(ids(1, 2))
    t.append(old)
    t.commit(add=[t.write_equality_deletes(["id"], ids(1))])
    t.commit(add=[t.write_data(ids(1, 2, 3))], remove=[old], sequence_number=1, operation="replace")
    assert rows(t) == [(2,), (3,)]


def test_compacted_data_with_a_new_sequence_number_is_not_hit(make: Make) -> None:
    """iceberg 4.6, 4.8: the delete dangles once its rows were rewritten."""
    t = make({"id": "long"})
    old = t.write_data(ids(1, 2))
    t.append(old)
    t.commit(add=[t.write_equality_deletes(["id"], ids(1))])
    t.commit(add=[t.write_data(ids(1, 2))], remove=[old], operation="replace")
    assert rows(t) == [(1,), (2,)]


def test_a_delete_of_one_partition_leaves_the_others(make: Make) -> None:
    """iceberg 4.6, T5: the same key in two partitions, deleted in one."""
    t = make({"id": "long", "p": "string"}, partition_spec=[("p", "identity")])
    t.append(*t.write_partitioned([{"id": i, "p": p} for p in ("a", "b", None) for i in (1, 2)]))
    t.commit(add=[t.write_equality_deletes(["id"], ids(1), partition={"p": "a"})])
    t.commit(add=[t.write_equality_deletes(["id"], ids(2), partition={"p": None})])
    assert rows(t) == [(1, "b"), (1, None), (2, "a"), (2, "b")]


@pytest.mark.parametrize("later_spec", [[], [("p", "void")]], ids=["no fields", "all void"])
def test_a_delete_of_an_unpartitioned_spec_is_global(make: Make, later_spec: list[tuple[str, str]]) -> None:
    """iceberg 4.2, 4.6, T5: unpartitioned is no fields or all fields void."""
    t = make({"id": "long", "p": "string"}, partition_spec=[("p", "identity")])
    t.append(*t.write_partitioned([{"id": i, "p": p} for p in ("a", "b") for i in (1, 2)]))
    spec_id = t.set_partition_spec(later_spec)
    t.commit(add=[t.write_equality_deletes(["id"], ids(1), spec_id=spec_id, partition={})])
    assert rows(t) == [(2, "a"), (2, "b")]


def test_the_same_tuple_of_another_spec_is_another_partition(make: Make) -> None:
    """iceberg 4.1: partition equality needs the same spec."""
    t = make({"id": "long", "p": "string"}, partition_spec=[("p", "identity", "one")])
    t.append(t.write_data([{"id": 1, "p": "a"}]))
    t.set_partition_spec([("p", "identity", "two")])
    t.append(t.write_data([{"id": 1, "p": "a"}]))
    t.commit(add=[t.write_equality_deletes(["id"], ids(1), partition={"two": "a"})])
    assert rows(t, ["id", "_spec_id"]) == [(1, 0)]


def test_global_and_partition_deletes_together(make: Make) -> None:
    t = make({"id": "long", "p": "string"}, partition_spec=[("p", "identity")])
    t.append(*t.write_partitioned([{"id": i, "p": p} for p in ("a", "b") for i in (1, 2, 3)]))
    t.commit(add=[t.write_equality_deletes(["id"], ids(2), partition={"p": "a"})])
    none = t.set_partition_spec([])
    t.commit(add=[t.write_equality_deletes(["id"], ids(1), spec_id=none)])
    t.append(t.write_data([{"id": 1, "p": "a"}], spec_id=0))
    assert rows(t) == [(1, "a"), (2, "b"), (3, "a"), (3, "b")]


def test_every_commit_has_its_own_scope(make: Make) -> None:
    """iceberg 4.29: deletes of different sequence numbers are not pooled; each commit deletes what was there before."""
    t = make({"id": "long", "n": "long"})
    for n in range(6):
        t.commit(add=[t.write_data([{"id": i, "n": n} for i in range(6)]), t.write_equality_deletes(["id"], ids(n))])
    # The delete of key i was committed in commit i: it hits rows of commits n < i.
    assert rows(t) == in_order((i, n) for n in range(6) for i in range(6) if n >= i)


def test_many_scopes(tmp_path: Path) -> None:
    """iceberg 4.6, 4.29: a stream of commits, each with data and deletes of its own, is lowered by sequence number."""
    t = IcebergTable.create(tmp_path / "t", {"id": "long", "n": "long", "p": "int"}, partition_spec=[("p", "identity")])
    commits, expected = 80, []
    for n in range(commits):
        data = t.write_partitioned([{"id": i, "n": n, "p": p} for p in (0, 1) for i in (n % 7, 7 + n % 3)])
        gone = t.write_equality_deletes(["id"], ids(n % 7, n % 5 + 7), partition={"p": n % 2})
        t.commit(add=[*data, gone])
    for n in range(commits):
        for p in (0, 1):
            later = [m for m in range(n + 1, commits) if m % 2 == p]
            dead = {key for m in later for key in (m % 7, m % 5 + 7)}
            expected += [(i, n, p) for i in (n % 7, 7 + n % 3) if i not in dead]
    plan = open_table(t.location).snapshot().plan()
    assert len(plan.delete_sets) > 64
    assert rows(t) == in_order(expected)
    assert rows(t, ["n"], "p = 1 AND id > 6") == in_order((n,) for i, n, p in expected if p == 1 and i > 6)
    assert rows(t, []) == [()] * len(expected)
