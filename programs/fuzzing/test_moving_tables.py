"""Reads of tables that change: rows of one version, or a HarnessError. `fuzz.py --moving 1000` runs more reads."""

import itertools

import pytest
from moving_tables import KINDS, begin_table, changes, publish, read_while_it_moves

import harness


@pytest.mark.parametrize("kind", KINDS)
def test_a_read_is_of_one_version(tmp_path, kind):
    outcomes = read_while_it_moves(kind, tmp_path, reads=12)
    assert outcomes["rows"] > 0
    assert outcomes["versions"] > 1


@pytest.mark.parametrize("kind", KINDS)
def test_each_version_is_what_the_writer_says(tmp_path, kind):
    history = begin_table(kind, tmp_path / "made")
    for ids in itertools.islice(changes(kind, history), 10):
        publish(history.location, tmp_path / "live")
        rows = harness.open_table(str(tmp_path / "live")).snapshot().to_arrow()
        assert sorted(rows["id"].to_pylist()) == ids
    assert len(list(tmp_path.rglob("live/**/*.parquet"))) <= 6  # out of eight or more
