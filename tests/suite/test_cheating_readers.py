"""Readers that cheat get worse scores than an honest reader."""

import functools

import pyarrow as pa
import pytest

import harness
from harness.engines.registry import find_engine
from harness.metadata.plan.scan_plan import ScanPlan, without_deletes
from harness.suite.runner import EngineUnderTest, run
from harness.suite.scenarios.loading import find
from harness.suite.scenarios.model import ResolvedSelector


class Honest:
    """Harness itself, as a reader of another project. The cheating readers change a part of it."""

    name = "honest"

    def version(self):
        return "1"

    def capabilities(self):
        return None

    def read(self, table, *, columns, where):
        at = None if table.at is None else ResolvedSelector(**{table.at.kind: table.at.value}).moment
        snapshot = self.point(harness.open_table(table.metadata_path or table.location), at)
        plan = self.planned(snapshot.plan(columns, self.filter(where)))
        return self.rows(find_engine("duckdb").to_arrow(plan))

    def point(self, table, at):
        return table.snapshot(at)

    def filter(self, where):
        return where

    def planned(self, plan: ScanPlan) -> ScanPlan:
        return plan

    def rows(self, rows: pa.Table) -> pa.Table:
        return rows


class Empty(Honest):
    """Returns no rows for every read, also of broken tables."""

    name = "empty"

    def read(self, table, *, columns, where):
        try:
            return super().read(table, columns=columns, where=where).slice(0, 0)
        except harness.HarnessError:
            return pa.table({"id": pa.array([], pa.int64())})


class Refuser(Honest):
    name = "refuser"

    def read(self, table, *, columns, where):
        raise ValueError("the table is not readable")


class Undeleted(Honest):
    name = "undeleted"

    def planned(self, plan):
        return without_deletes(plan)


class Unfiltered(Honest):
    name = "unfiltered"

    def filter(self, where):
        return None


class Newest(Honest):
    name = "newest"

    def point(self, table, at):
        return table.snapshot()


CHEATS = (Empty, Refuser, Undeleted, Unfiltered, Newest)


@functools.cache
def scores():
    """Return the scores of all readers on scenarios that detect every cheat."""
    parts = ("iceberg/deletes/*", "delta/deletion-vectors/*", "*/time-travel/*", "*/pruning/*", "delta/log/*")
    scenarios = [scenario for part in parts for scenario in find(part)]
    assert len(scenarios) > 80
    found = run(scenarios, [EngineUnderTest(reader=each(), argument=each.name) for each in (Honest, *CHEATS)])
    return {engine.name: found.score(engine) for engine in found.engines}


pytestmark = pytest.mark.slow


def test_an_honest_reader_is_right():
    honest = scores()["honest"]
    assert (honest.silent, honest.right_of_claimed > 99) == (0, True)
    assert honest.kept == honest.policies > 20


@pytest.mark.parametrize("cheat", [each.name for each in CHEATS])
def test_a_cheat_does_not_look_good(cheat):
    score, honest = scores()[cheat], scores()["honest"]
    assert score.right_of_all < honest.right_of_all - 3
    assert (score.silent > 5) == (cheat != "refuser")
    if cheat == "refuser":  # refusing everything is never counted as a correct refusal
        assert (score.right_of_all < 10, score.right_of_claimed < 20, score.kept < score.policies / 5) == (
            True,
            True,
            True,
        )
    if cheat == "empty":  # silently wrong for broken tables
        assert (score.right_of_all < 15, score.broken > 5, score.kept < honest.kept / 10) == (True, True, True)
