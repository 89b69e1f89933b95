"""One table, many bases: commits, checkpoints of every kind, compacted commits, bad hints (delta L6 to L27)."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from delta_bases import content, states_by_base

import harness
from harness.errors import HarnessWarning
from harness.testing.writing.delta.builder import DeltaTable

SCHEMA = {"id": "long", "part": "string"}


def long_history(folder: Path) -> DeltaTable:
    """11 versions: adds, deletion vectors, a whole file removed and added again, a compacting rewrite, a new column."""
    table = DeltaTable.create(
        folder, SCHEMA, partition_columns=["part"], features=["deletionVectors", "v2Checkpoint", "domainMetadata"]
    )
    a = table.write_data([{"id": i, "part": "a b"} for i in range(4)])
    b = table.write_data([{"id": i, "part": None} for i in range(4, 8)])
    table.append(a, b)
    table.delete(a, [0])
    table.checkpoint("classic", hint=False)
    table.delete(a, [3])
    table.commit([{"txn": {"appId": "app", "version": 7}}])
    table.remove(b)
    table.append(b)
    table.checkpoint("v2-parquet", sidecars=2, hint=False)
    c = table.write_data([{"id": i, "part": "c"} for i in range(8, 10)])
    table.append(c)
    table.compact(5, 7)
    table.commit([{"txn": {"appId": "app", "version": 9}}])
    table.add_column("note", "string")
    table.checkpoint("v2-json", sidecars=1)
    table.commit(add=[table.write_data([{"id": 10, "part": "c", "note": "n"}])], remove=[c])
    table.delete(b, [1])
    table.compact(10, 11)
    return table


ROWS = [(1, "a b", None), (2, "a b", None), (4, None, None), (6, None, None), (7, None, None), (10, "c", "n")]


def rows(location: Path) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in harness.open_table(str(location)).snapshot().to_arrow().to_pylist())


def test_every_base_gives_the_same_state(tmp_path):
    table = long_history(tmp_path / "t")
    states = states_by_base(str(table.directory))
    assert len(states) == 8  # 3 checkpoints and none, each with and without compacted commits
    assert sum(name.endswith("with compactions") for name in states) == 4
    assert {content(state) for state in states.values()} == {content(states["commits"])}
    assert states["commits"].files.num_rows == 3
    assert rows(table.directory) == ROWS


@pytest.mark.parametrize("version", range(12))
def test_every_version_is_the_same_from_every_base(tmp_path, version):
    states = states_by_base(str(long_history(tmp_path / "t").directory), version)
    assert len({content(state) for state in states.values()}) == 1


def test_a_difference_between_bases_is_seen(tmp_path):
    table = long_history(tmp_path / "t")
    table.edit_commit(1, lambda actions: actions.pop())  # the checkpoints know of the file, the commits do not
    states = states_by_base(str(table.directory), 2)
    assert len({content(state) for state in states.values()}) == 2


@pytest.mark.parametrize(
    "hint",
    [
        pytest.param(None, id="missing"),
        pytest.param("", id="empty"),
        pytest.param("{", id="no-json"),
        pytest.param('{"version": 2, "size": 1}', id="stale"),
        pytest.param('{"version": 3, "size": 1}', id="dangling"),
        pytest.param('{"version": 99, "size": 1}', id="from-the-future"),
        pytest.param('{"version": "9"}', id="wrong-type"),
        pytest.param('{"version": 6, "size": 999, "parts": 4}', id="wrong-parts"),
    ],
)
def test_no_hint_changes_the_rows(tmp_path, hint):
    """delta L6, L8 to L10"""
    table = long_history(tmp_path / "t")
    place = table.directory / "_delta_log" / "_last_checkpoint"
    if hint is None:
        place.unlink()
    else:
        place.write_text(hint)
    with pytest.warns(HarnessWarning, match="newer files may be lost") if " 99," in str(hint) else nullcontext():
        assert rows(table.directory) == ROWS


def test_an_older_base_does_when_newer_ones_are_broken_and_the_reader_is_told(tmp_path):
    """delta L9, L19"""
    table = long_history(tmp_path / "t")
    log = table.directory / "_delta_log"
    for broken, checkpoint in enumerate(sorted(log.glob("*.checkpoint*"), reverse=True), 1):
        checkpoint.write_bytes(b"no checkpoint")
        with pytest.warns(HarnessWarning) as told:
            assert rows(table.directory) == ROWS
        assert len(told) == broken
        assert f"Cannot use {checkpoint.name}: Cannot read the " in str(told[-1].message)


def test_bases_after_a_clean_up(tmp_path):
    """delta L29: without commit 0 the checkpoints are the only bases."""
    table = long_history(tmp_path / "t")
    table.expire_log(2)
    states = states_by_base(str(table.directory))
    assert "commits" not in states
    assert len({content(state) for state in states.values()}) == 1
    assert rows(table.directory) == ROWS
