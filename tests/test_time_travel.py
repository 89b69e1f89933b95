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
CURRENT = (NEW, [(1, 0), (2, 0), (3, 3)])


def test_the_snapshot_of_a_branch_by_id(history):
    assert read(history["table"], history["side"]) == (["id", "new"], [(1, 0), (2, 0), (9, 9)])


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


def test_a_time_before_the_table_names_the_oldest(history):  # 1.33
    with pytest.raises(harness.SnapshotNotFoundError, match="NoSnapshotAtTime") as caught:
        read(history["table"], timestamp=0)
    assert "2023-11-14" in str(caught.value)


def test_unknown_selectors_say_what_there_is(history):
    for selector in ({"snapshot_id": 5}, {"ref": "sid"}):
        with pytest.raises(harness.SnapshotNotFoundError) as caught:
            read(history["table"], **selector)
        assert caught.value.table == str(history["table"].store.directory)
        assert "\n" not in str(caught.value)
    assert "side" in str(caught.value)


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


def test_a_snapshot_without_a_schema_id_takes_the_current_schema(history):  # 1.35, ClickHouse#100304
    t = history["table"]
    t.edit_metadata(lambda doc: [s.pop("schema-id") for s in doc["snapshots"]])
    assert read(t, history["one"]) == (NEW, [(1, 0)])


def test_a_snapshot_of_a_schema_that_is_gone_is_an_error(history):  # 1.35
    t = history["table"]
    t.edit_metadata(lambda doc: [s.update({"schema-id": 99}) for s in doc["snapshots"]])
    assert read(t) == CURRENT
    with pytest.raises(harness.InvalidTableError, match="MissingSchema"):
        read(t, history["one"])


def test_an_expired_snapshot(make):  # 1.33
    t = make({"id": "long"})
    one = t.append(t.write_data([{"id": 1}]))
    ms = t.snapshots[0]["timestamp-ms"]
    t.append(t.write_data([{"id": 2}]))
    t.expire(one)
    with pytest.raises(harness.SnapshotNotFoundError):
        read(t, one)
    with pytest.raises(harness.SnapshotNotFoundError):
        read(t, timestamp=ms)


def test_a_table_without_snapshots(make):  # 1.24
    t = make({"id": "long", "v": "string"})
    assert read(t) == (["id", "v"], [])
    assert harness.open_table(str(t.store.directory)).snapshot().id is None
    with pytest.raises(harness.SnapshotNotFoundError):
        read(t, timestamp=2_000_000_000_000)


def test_an_older_metadata_file_is_an_older_table(make):  # 1.1
    t = make({"id": "long"})
    t.append(t.write_data([{"id": 1}]))
    old = t.metadata_path
    t.append(t.write_data([{"id": 2}]))
    assert harness.open_table(str(old)).snapshot().to_arrow()["id"].to_pylist() == [1]


def test_an_opened_table_stays_as_it_was(make):
    t = make({"id": "long"})
    t.append(t.write_data([{"id": 1}]))
    table = harness.open_table(str(t.store.directory))
    t.append(t.write_data([{"id": 2}]))
    assert table.snapshot().to_arrow()["id"].to_pylist() == [1]
