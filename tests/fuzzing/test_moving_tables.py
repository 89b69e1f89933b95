"""Reads of tables that change meanwhile: rows of one version, or a HarnessError. `fuzz.py --moving 1000` reads more."""

from __future__ import annotations

from random import Random

import pytest
from moving_tables import KINDS, publish, read_while_it_moves

import harness


@pytest.mark.parametrize("kind", KINDS)
def test_a_read_is_of_one_version(tmp_path, kind):
    outcomes = read_while_it_moves(kind, tmp_path, reads=12, seed=1)
    assert outcomes["rows"] > 0
    assert outcomes["versions"] > 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_is_the_table(tmp_path, kind):
    table = KINDS[kind](tmp_path / "made", Random(1))
    for change in (
        lambda: table.append([1, 2, 3]),
        table.delete,
        lambda: table.append([4]),
        table.delete,
        table.compact,
    ):
        change()
        publish(table.place, tmp_path / "live")
        rows = harness.open_table(str(tmp_path / "live")).snapshot().to_arrow()
        assert sorted(rows["id"].to_pylist()) == table.model.ids()
    table.append([5])
    table.tidy()
    publish(table.place, tmp_path / "live")
    rows = harness.open_table(str(tmp_path / "live")).snapshot().to_arrow()
    assert sorted(rows["id"].to_pylist()) == table.model.ids()
    assert len(list((tmp_path / "live").rglob("*.parquet"))) < len(list(tmp_path.rglob("made/**/*.parquet"))) + 3
