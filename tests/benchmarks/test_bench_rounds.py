"""Turns, answers and failures, with readers that are told what to say; and one reader in a real process."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import ClassVar

import bench_rounds
import pytest
from bench_contenders import Contender, ContenderFailed, FreshProcesses, Interpreters, ReaderProcess
from bench_records import Failed, Measured, Sample
from bench_scales import SMALL

SCALE = replace(SMALL, rounds=2, figure_s=0)
"""Two rounds, and none for being quick."""
LONG = replace(SMALL, rounds=3, figure_s=50)
HERE = Interpreters({})


class Told:
    """A reader whose peer says what its turns give: seconds, or a failure from some turn on."""

    turns: ClassVar[list[str]] = []

    def __init__(self, contender: Contender, python: str, limit_s: float) -> None:
        self.name, self.answers = contender.name, iter(contender.arguments["turns"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def turn(self):
        self.turns.append(self.name)
        said = next(self.answers)
        if isinstance(said, str):
            raise ContenderFailed(said)
        answer, seconds = said
        return answer, Sample(seconds, seconds, None)


@pytest.fixture
def told(monkeypatch):
    monkeypatch.setattr(bench_rounds, "ReaderProcess", Told)
    monkeypatch.setattr(bench_rounds, "versions", lambda peer, python: f"{peer} 1")
    monkeypatch.setattr(Told, "turns", [])
    return Told


def figure(**turns) -> bench_rounds.Figure:
    contenders = tuple(
        Contender(name=name, peer="floor", task="", arguments={"turns": said}) for name, said in turns.items()
    )
    return bench_rounds.Figure(figure="f", group="g", title="t", expected=[7], contenders=contenders)


def test_readers_take_turns_there_and_back(told):
    bench_rounds.measure(figure(a=[([7], 1)] * 3, b=[([7], 1)] * 3), SCALE, HERE)
    assert told.turns == ["a", "b", "b", "a", "a", "b"]


def test_the_first_round_does_not_count(told):
    slow_start = [([7], 100), ([7], 2), ([7], 2)]
    found = bench_rounds.measure(figure(floor=[(None, 1)] * 3, a=slow_start), SCALE, HERE)
    assert isinstance(found["a"], Measured)
    assert (found["a"].rounds, found["a"].ratio_high) == (2, 2)


def test_a_wrong_answer_and_an_error_are_failures(told):
    wrong = [([7], 1), ([8], 1)]
    found = bench_rounds.measure(figure(floor=[([9], 1)] * 3, a=wrong, b=[([7], 1), "Oh: no"]), SCALE, HERE)
    assert found["a"] == Failed(versions="floor 1", reason="wrong answer: [8], not [7]")
    assert found["b"] == Failed(versions="floor 1", reason="Oh: no")
    assert isinstance(found["floor"], Measured)  # it may see deleted rows


def test_without_a_floor_there_is_no_figure(told):
    with pytest.raises(ContenderFailed, match=r"^f: floor fails: Oh: no$"):
        bench_rounds.measure(figure(floor=["Oh: no"]), SCALE, HERE)


@pytest.mark.parametrize(
    ("rounds", "seconds", "expected"),
    [
        pytest.param(2, 49, False, id="time-is-left"),
        pytest.param(1, 51, False, id="one-is-too-few"),
        pytest.param(2, 51, True, id="the-time-is-over"),
        pytest.param(3, 11, True, id="a-fifth-of-the-time"),
        pytest.param(3, 9, False, id="quick-ones-have-more"),
        pytest.param(14, 9, False, id="up-to-five-times-as-many"),
        pytest.param(15, 9, True, id="five-times-as-many"),
    ],
)
def test_rounds_end_by_number_and_time(rounds, seconds, expected):
    assert bench_rounds.enough(rounds, seconds, LONG) is expected


def test_a_reader_that_is_not_installed_is_left_out(told):
    polars = Contender(name="Polars", peer="polars", task="", arguments={"turns": []})
    asked = figure(floor=[([7], 1)] * 3)
    found = bench_rounds.measure(replace(asked, contenders=(*asked.contenders, polars)), SCALE, HERE)
    assert list(found) == ["floor"]


@pytest.mark.slow
def test_readers_run_in_processes_of_their_own():
    floor = Contender(name="floor", peer="floor", task="checkpoint", arguments={"files": []})
    broken = replace(floor, name="broken", arguments={"files": ["nowhere.parquet"]})
    asked = bench_rounds.Figure(figure="f", group="g", title="t", expected=[], contenders=(floor, broken))
    found = bench_rounds.measure(asked, replace(SCALE, rounds=1), HERE)
    assert isinstance(found["floor"], Measured)
    assert "duckdb" in found["floor"].versions
    assert isinstance(found["broken"], Failed)
    assert found["broken"].reason.startswith("FileNotFoundError: ")


def test_a_fresh_process_is_timed_from_its_start_to_its_end():
    idle = Contender(name="idle", peer="floor", task="checkpoint", arguments={"files": []})
    answer, sample = FreshProcesses(idle, sys.executable, 60).turn()
    assert answer is None
    assert sample.wall_s > 0.01  # the call alone takes micros
    assert sample.cpu_s > 0.01


def test_a_turn_that_takes_too_long_has_failed():
    idle = Contender(name="idle", peer="floor", task="checkpoint", arguments={"files": []})
    with (
        ReaderProcess(idle, sys.executable, 0.001) as reader,
        pytest.raises(ContenderFailed, match=r"^no answer in 0 s$"),
    ):
        reader.turn()
