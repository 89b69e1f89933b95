"""Every figure on tiny tables, in this process: what harness answers is what was worked out when they were made."""

from __future__ import annotations

import importlib
from dataclasses import replace

import bench
import pytest
from bench_figures import figures, is_large, spark_figures
from bench_made import made
from bench_scales import FULL, SMALL

TINY = replace(
    SMALL, rows=6_000, data_files=2, shares=(0.01,), many_files=3, planned_files=(200,), small_tables=5, rounds=1
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    root = tmp_path_factory.mktemp("bench")
    return {name: made(maker, TINY, root) for name, maker in bench.MAKERS.items()}


@pytest.fixture(scope="module")
def asked(tables):
    return list(figures(tables, TINY))


def test_figures_have_names_of_their_own(tables, asked):
    names = [figure.figure for figure in [*asked, *spark_figures(tables["scanned"])]]
    assert len(set(names)) == len(names)


def test_the_first_reader_is_the_floor(asked):
    assert {figure.contenders[0].peer for figure in asked} == {"floor"}


def test_a_million_files_are_planned_where_that_is_asked_for():
    named = ["plan/delta/1000000/id", "plan/delta/100000/id", "scan/iceberg-none", "share/scattered/1000000"]
    assert [is_large(name, FULL) for name in named] == [True, False, False, False]
    assert not is_large(named[0], replace(FULL, planned_files=(1_000_000,)))


@pytest.mark.usefixtures("one_duckdb")
def test_floors_and_harness_answer(asked, monkeypatch):
    monkeypatch.syspath_prepend(bench.ROOT / "tests/benchmarks/peers")
    wrong = []
    for figure in asked:
        for contender in figure.contenders:
            if contender.peer in ("floor", "harness"):
                task = getattr(importlib.import_module(f"peer_{contender.peer}"), contender.task)
                answer = task(**contender.arguments)()
                if contender.peer == "harness" and answer not in (None, figure.expected):
                    wrong.append((figure.figure, contender.name, answer, figure.expected))
    assert wrong == []


def test_tables_are_made_once(tmp_path):
    made_at = []

    def maker(folder, scale):
        made_at.append(folder)
        return {}

    for scale in (TINY, TINY, replace(TINY, rows=7)):
        made(maker, scale, tmp_path)
    assert len(made_at) == 2
    assert [path for path in made_at if path.exists()] == made_at[1:]  # what is stale is removed
