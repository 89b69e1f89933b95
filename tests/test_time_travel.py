"""Snapshots by id, time, tag and branch, and the schema that each is read with (iceberg 1.32 to 1.37, T18)."""

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


def test_no_selector_takes_the_current_schema_even_if_newer(history):  # 1.35
    assert read(history["table"]) == CURRENT


def test_a_snapshot_id_takes_the_schema_of_then(history):  # 1.35: the dropped column is back
    t = history["table"]
    assert read(t, history["one"]) == (OLD, [(1, "a")])
    assert read(t, history["two"]) == (OLD, [(1, "a"), (2, "b")])
    assert read(t, history["three"]) == (["id", "new"], [(1, 0), (2, 0), (3, 3)])


def test_a_tag_takes_the_schema_of_then(history):  # 1.35
    assert read(history["table"], ref="first") == (OLD, [(1, "a")])


def test_a_branch_takes_the_current_schema(history):  # 1.35: Java does, also for main by name
    assert read(history["table"], ref="side") == (NEW, [(1, 0), (2, 0), (9, 9)])
    assert read(history["table"], ref="main") == CURRENT


def test_the_snapshot_of_a_branch_by_id(history):
    assert read(history["table"], history["side"]) == (["id", "new"], [(1, 0), (2, 0), (9, 9)])


def test_filters_bind_to_the_chosen_schema(history):  # 1.36
    t = history["table"]
    assert read(t, history["two"], where="old = 'b'")[1] == [(2, "b")]
    assert read(t, where="newest = 0", columns=["id"])[1] == [(1,), (2,)]
    with pytest.raises(harness.UnknownColumnError, match="old"):
        read(t, where="old = 'b'")
    with pytest.raises(harness.UnknownColumnError):
        read(t, history["two"], columns=["newest"])


def test_a_timestamp_never_sees_branches(history):  # 1.33, T18: the branch is newer than main
    t = history["table"]
    times = {s["snapshot-id"]: s["timestamp-ms"] for s in t.snapshots}
    assert times[history["side"]] > times[history["three"]]
    assert read(t, timestamp=times[history["side"]]) == (["id", "new"], [(1, 0), (2, 0), (3, 3)])
    assert read(t, timestamp=times[history["two"]]) == (OLD, [(1, "a"), (2, "b")])
    assert read(t, timestamp=times[history["two"]] - 1) == (OLD, [(1, "a")])


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


def test_deletes_belong_to_their_snapshot(make):  # 4.1
    t = make({"id": "long"})
    f = t.write_data([{"id": i} for i in range(4)])
    one = t.append(f)
    two = t.commit(add=[t.write_position_deletes([(f, 0)])])
    three = t.commit(add=[t.write_equality_deletes(["id"], [{"id": 1}])])
    four = t.commit(add=[t.write_data([{"id": 2}, {"id": 3}])], remove=[f], operation="overwrite")
    got = {name: [i for (i,) in read(t, id_)[1]] for name, id_ in zip("1234", (one, two, three, four), strict=True)}
    assert got == {"1": [0, 1, 2, 3], "2": [1, 2, 3], "3": [2, 3], "4": [2, 3]}


def test_a_staged_snapshot_is_found_by_id_only(make):  # 1.37
    t = make({"id": "long"})
    t.append(t.write_data([{"id": 1}]))
    staged = t.commit(add=[t.write_data([{"id": 2}])], branch=None)
    assert read(t)[1] == [(1,)]
    assert read(t, staged)[1] == [(1,), (2,)]


def test_a_rollback(make):  # 1.33: the log says what was current when
    t = make({"id": "long"})
    one = t.append(t.write_data([{"id": 1}]))
    two = t.append(t.write_data([{"id": 2}]))
    t.set_ref("main", one, "branch")
    assert read(t)[1] == [(1,)]
    assert read(t, two)[1] == [(1,), (2,)]


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
