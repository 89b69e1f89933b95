"""The benchmark: requests to harness and its answers, turns, records, regressions, and the page."""

import contextlib
import importlib
import sys
from dataclasses import replace

import bench
import bench_reports
import bench_rounds
import pytest
from bench_figures import figures, spark_figures
from bench_made import FULL, SMALL, cached_table
from bench_records import (
    BenchRun,
    FailedMeasurement,
    Measurement,
    Record,
    Sample,
    from_lines,
    newest_run,
    summarize,
    to_line,
)
from bench_reports import differences, report
from bench_rounds import Contender, ContenderFailed, fresh_processes, one_process

RUN = BenchRun(
    date="2026-11-22T20:00:00+00:00", commit="abc", scale="full", cores=2, system="Linux x86_64", python="3.11.7"
)
FIGURE = Measurement(
    versions="x 1",
    rounds=3,
    wall_s=2.0,
    cpu_s=4.0,
    peak_mib=100,
    ratio_low=1.0,
    ratio=1.0,
    ratio_high=1.0,
)
GONE = FailedMeasurement(versions="y 2", reason="no such file")
RECORD = Record(run=RUN, group="Scans", figure="scan/a", title="a", outcomes={"plain": FIGURE, "harness": GONE})


TINY = replace(
    SMALL,
    rows=6_000,
    changed_rows=20_000,
    data_files=2,
    commits=110,
    many_files=3,
    planned_files=(200,),
    small_tables=5,
    rounds=1,
)


def test_harness_answers_every_figure_rightly_on_tiny_tables(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(bench.ROOT / "programs/benchmarks/peers")
    tables = {name: cached_table(maker, TINY, tmp_path) for name, maker in bench.MAKERS.items()}
    all_figures, wrong = list(figures(tables, TINY)), []
    for figure in all_figures:
        assert figure.contenders[0].peer == "floor"
        for contender in figure.contenders:
            if contender.peer in ("floor", "harness"):
                task = getattr(importlib.import_module(f"peer_{contender.peer}"), contender.task)
                answer = task(**contender.arguments)()
                if contender.peer == "harness" and answer not in (None, figure.expected):
                    wrong.append((figure.figure, contender.name, answer, figure.expected))
    assert wrong == []
    names = [figure.figure for figure in [*all_figures, *spark_figures(tables)]]
    assert len(set(names)) == len(names)


SCALE = replace(SMALL, rounds=2, figure_s=0)
"""Two rounds, and no further rounds for fast figures."""


TURNS: list[str] = []


@contextlib.contextmanager
def scripted_process(contender: Contender, python: str, limit_s: float):
    """A reader whose arguments contain the results of its turns: an answer and seconds, or a failure."""
    answers = iter(contender.arguments["turns"])

    def turn():
        TURNS.append(contender.name)
        answer = next(answers)
        if isinstance(answer, str):
            raise ContenderFailed(answer)
        return answer[0], Sample(answer[1], answer[1], None)

    yield turn


@pytest.fixture
def measure_turns(monkeypatch):
    """A function that measures scripted readers and returns their results.

    A reader that is not installed is left out.
    """
    monkeypatch.setattr(bench_rounds, "one_process", scripted_process)
    monkeypatch.setattr(bench_rounds, "versions", lambda peer, python: f"{peer} 1")
    TURNS.clear()

    def run(**turns):
        contenders = [
            Contender(name=name, peer="floor", task="", arguments={"turns": answers}) for name, answers in turns.items()
        ]
        contenders.append(Contender(name="Polars", peer="polars", task="", arguments={"turns": []}))
        figure = bench_rounds.Figure(figure="f", group="g", title="t", expected=[7], contenders=tuple(contenders))
        return bench_rounds.measure(figure, SCALE, {})

    return run


def test_readers_take_turns_there_and_back_and_the_first_round_does_not_count(measure_turns):
    outcomes = measure_turns(floor=[(None, 1)] * 3, a=[([7], 100), ([7], 2), ([7], 2)])
    assert TURNS == ["floor", "a", "a", "floor", "floor", "a"]
    assert list(outcomes) == ["floor", "a"]
    assert (outcomes["a"].rounds, outcomes["a"].ratio_high) == (2, 2)


def test_a_wrong_answer_and_an_error_are_failures(measure_turns):
    outcomes = measure_turns(floor=[([9], 1)] * 3, a=[([7], 1), ([8], 1)], b=[([7], 1), "Oh: no"])
    assert outcomes["a"] == FailedMeasurement(versions="floor 1", reason="wrong answer: [8], not [7]")
    assert outcomes["b"] == FailedMeasurement(versions="floor 1", reason="Oh: no")
    assert isinstance(outcomes["floor"], Measurement)  # the floor may return deleted rows
    with pytest.raises(ContenderFailed, match=r"^f: floor fails: Oh: no$"):
        measure_turns(floor=["Oh: no"])


IDLE = Contender(name="floor", peer="floor", task="checkpoint", arguments={"files": []})


@pytest.mark.slow
def test_readers_run_in_processes_of_their_own():
    broken = replace(IDLE, name="broken", arguments={"files": ["nowhere.parquet"]})
    figure = bench_rounds.Figure(figure="f", group="g", title="t", expected=[], contenders=(IDLE, broken))
    outcomes = bench_rounds.measure(figure, replace(SCALE, rounds=1), {})
    assert "duckdb" in outcomes["floor"].versions
    assert outcomes["broken"].reason.startswith("FileNotFoundError: ")


def test_a_fresh_process_is_timed_and_a_turn_that_takes_too_long_has_failed():
    with fresh_processes(IDLE, sys.executable, 60) as turn:
        answer, sample = turn()
    # the call alone takes microseconds
    assert (answer, sample.wall_s > 0.01, sample.cpu_s > 0.01) == (None, True, True)
    with one_process(IDLE, sys.executable, 0.001) as turn, pytest.raises(ContenderFailed, match=r"^no answer in 0"):
        turn()


def test_ratios_are_taken_within_rounds():
    # The ratios by round are 2, 1.5, and 1, and their median is used. The ratio of the medians would be 3 / 2.
    floor = [Sample(1, 1, None), Sample(2, 1, None), Sample(4, 1, None)]
    mine = [Sample(2, 5, 10), Sample(3, 7, 30), Sample(4, 6, 20)]
    ratios = {"ratio_low": 1.25, "ratio": 1.5, "ratio_high": 1.75}
    assert summarize(mine, floor, "x 1") == replace(FIGURE, wall_s=3, cpu_s=6, peak_mib=20, **ratios)
    only = summarize([Sample(1.234567, 1, None)], [Sample(1, 1, None)], "")
    assert (only.wall_s, only.ratio_low, only.ratio_high, only.peak_mib) == (1.235, 1.235, 1.235, None)


def test_the_history_can_be_read_and_the_page_has_its_newest_figures():
    lines = bench.HISTORY.read_text("utf-8")
    records = from_lines(lines)
    assert [to_line(record) for record in records] == lines.splitlines()
    page = bench.PAGE.read_text("utf-8")
    assert bench_reports.put(page, bench_reports.figures(newest_run(records, FULL.name))) == page


def ratio(low: float, middle: float, high: float) -> Measurement:
    return replace(FIGURE, ratio_low=low, ratio=middle, ratio_high=high)


def record(outcome: Measurement | FailedMeasurement | None, name: str = "harness", **run: str | int) -> Record:
    others = {} if outcome is None else {name: outcome}
    return replace(RECORD, run=replace(RUN, **run), outcomes={"plain": FIGURE, **others})


BEFORE = ratio(1.9, 2.0, 2.1)


@pytest.mark.parametrize(
    ("now", "then", "kinds"),
    [
        (record(ratio(2.3, 2.4, 2.5)), record(BEFORE), ["slower"]),
        (record(ratio(2.05, 2.4, 2.9)), record(BEFORE), []),  # the interquartile ranges overlap
        (record(ratio(2.11, 2.15, 2.2)), record(BEFORE), []),  # less than a tenth
        (record(ratio(1.5, 1.6, 1.7)), record(BEFORE), ["faster"]),
        (record(ratio(1.5, 1.6, 1.95)), record(BEFORE), []),
        (record(GONE), record(BEFORE), ["failed"]),
        (record(None), record(BEFORE), ["missing"]),
        (record(BEFORE), record(GONE), []),
        (record(ratio(9, 9, 9), "Polars"), record(BEFORE, "Polars"), []),  # peers do not count
    ],
)
def test_a_difference_is_more_than_the_noise(now, then, kinds):
    assert [kind for kind, _ in differences([now], [then])] == kinds


def test_the_report_names_runs_machines_floors_and_differences():
    then = record(BEFORE, date="2026-01-01")
    now = record(ratio(2.3, 2.4, 2.5), date="2026-02-01", commit="def", cores=8)
    now = replace(now, outcomes={**now.outcomes, "plain": replace(FIGURE, versions="x 2")})
    assert report([now], [then]) == (
        "def of 2026-02-01 against abc of 2026-01-01\n"
        "another machine: Linux x86_64, 2 cores; now Linux x86_64, 8 cores\n"
        "another floor: plain: x 1, now x 2\n"
        "slower: Scans, a, harness: 2 (1.9 to 2.1) times the floor, now 2.4 (2.3 to 2.5) times the floor"
    )
    assert report([record(BEFORE)], [then]).endswith("\nnothing became slower by more than the noise")
    assert report([then], []) == "Nothing to compare: there is no such earlier run at this scale."
