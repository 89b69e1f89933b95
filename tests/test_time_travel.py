"""Spellings of moments, and tables that lost a snapshot or a schema; scenarios tell the schemas of moments."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.testing.writing.iceberg.builder import IcebergTable


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., IcebergTable]:
    return lambda schema, **more: IcebergTable.create(tmp_path / "t", schema, **{"format_version": 2, **more})


def read(t: IcebergTable, snapshot_id: int | None = None, **selector: Any) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Column names and rows of a snapshot, read both ways that the default engine offers."""
    how = {k: v for k, v in selector.items() if k in ("columns", "where")}
    selector = {k: v for k, v in selector.items() if k not in how}
    snapshot = harness.open_table(str(t.store.directory)).snapshot(snapshot_id, **selector)
    found = snapshot.to_arrow(**how)
    rows = sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)
    assert sorted(snapshot.to_duckdb(**how).fetchall(), key=repr) == rows
    return found.column_names, rows


@pytest.fixture
def history(make) -> dict[str, Any]:
    """Four snapshots of main, a tag and a branch that outlives them, with a schema change between any two.

    one: (id, old), two: adds row 2; then `old` is dropped and `new` added; three: adds row 3; a branch at two gets row
    9; then `new` is renamed without a snapshot.
    """
    t = make({"id": "long", "old": "string"})
    one = t.append(t.write_data([{"id": 1, "old": "a"}]))
    t.create_tag("first")
    two = t.append(t.write_data([{"id": 2, "old": "b"}]))
    t.create_branch("side")
    t.drop_column("old")
    t.add_column("new", "int", initial_default=0)
    three = t.append(t.write_data([{"id": 3, "new": 3}]))
    side = t.commit(add=[t.write_data([{"id": 9, "new": 9}])], branch="side")
    t.rename_column("new", "newest")
    return {"table": t, "one": one, "two": two, "three": three, "side": side}


OLD, NEW = ["id", "old"], ["id", "newest"]


@pytest.mark.parametrize("form", ["milliseconds", "datetime", "text", "text with an offset"])
def test_forms_of_a_timestamp(history, form):
    t = history["table"]
    ms = next(s["timestamp-ms"] for s in t.snapshots if s["snapshot-id"] == history["one"])
    moment = dt.datetime.fromtimestamp(ms / 1000, dt.UTC)
    value = {
        "milliseconds": ms,
        "datetime": moment,
        "text": moment.strftime("%Y-%m-%dT%H:%M:%S"),
        "text with an offset": moment.astimezone(dt.timezone(dt.timedelta(hours=-5))).isoformat(),
    }[form]
    assert read(t, timestamp=value) == (OLD, [(1, "a")])


def test_selectors_exclude_each_other(history):  # 1.32
    with pytest.raises(harness.RequestError, match="ExclusiveSelectors"):
        read(history["table"], history["one"], ref="main")
    with pytest.raises(harness.RequestError, match="ExclusiveSelectors"):
        read(history["table"], ref="main", timestamp=0)


@pytest.mark.parametrize("form", ["id", "text", "written out", "tag"])
def test_a_moment_is_what_it_looks_like(history, form):
    at = {"id": history["one"], "text": str(history["one"]), "written out": f"snapshot={history['one']}", "tag": "side"}
    expected = read(history["table"], ref="side") if form == "tag" else (OLD, [(1, "a")])
    assert read(history["table"], at[form]) == expected
