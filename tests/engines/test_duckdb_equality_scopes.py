"""Which data files an equality delete hits, end to end (iceberg 4.1, 4.2, 4.6 to 4.8, 4.29); expectations by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from agreeing import in_order, rows

from harness.table import open_table
from harness.testing.writing.iceberg.builder import IcebergTable

Make = Callable[..., IcebergTable]


def ids(*numbers: int) -> list[dict[str, Any]]:
    return [{"id": n} for n in numbers]


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
    commits, expected = 66, []
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
