"""Repro directories: a planted fault is found, reduced to few operations, and shown by the reduced scenario."""

from bisect import bisect_left

import pytest
from drawn.agreement import Disagreement, DrawnRead, build_table
from drawn.reads import ReadShape
from drawn.repro import reproducing
from drawn.strategies import histories
from hypothesis import HealthCheck, Phase, given, seed, settings

from harness.metadata.iceberg import delete_scope
from harness.suite.scenarios.building import build
from harness.suite.scenarios.loading import load
from harness.suite.scenarios.verifying import read_with, verify

TABLE = {"schema": {"id": "long"}}
SETTINGS = settings(
    max_examples=40,
    deadline=None,
    database=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)


def plant(monkeypatch) -> None:
    """Make equality deletes apply to files with the same sequence number."""
    monkeypatch.setattr(delete_scope, "bisect_right", bisect_left)


def verdicts(directory, tmp_path):
    built = build(load(directory / "scenario.yaml"), tmp_path)
    return [verify(e, read_with(built, "duckdb")) is None for e in built.expectations]


def test_a_planted_fault_leaves_a_small_scenario_that_shows_it(tmp_path, monkeypatch, capsys) -> None:
    @seed(7)
    @SETTINGS
    @given(histories("iceberg-2", max_size=3, only=("append", "upsert"), table=TABLE))
    def faulty(drawn) -> None:
        with build_table(drawn) as history:
            read = DrawnRead(history, drawn, ReadShape())
            read.assert_same(model=read.by_model(), duckdb=read.by("duckdb"))

    with monkeypatch.context() as fault:
        plant(fault)
        with pytest.raises(Disagreement) as caught, reproducing(tmp_path / "repro"):
            faulty()
        (directory,) = (tmp_path / "repro").iterdir()
        assert verdicts(directory, tmp_path / "with") == [False]
    assert len(caught.value.drawn.operations) <= 3
    assert verdicts(directory, tmp_path / "without") == [True]
    assert (directory / "table" / "metadata").is_dir()
    assert "harness scenarios run scenario.yaml --engines duckdb" in (directory / "README.md").read_text()
    assert str(directory) in "".join(caught.value.__notes__)
