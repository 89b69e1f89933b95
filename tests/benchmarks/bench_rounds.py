"""Turns: every reader runs once a round, so that a noisy moment hits all of them alike."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from bench_contenders import Contender, ContenderFailed, Interpreters, Turn, fresh_processes, one_process, versions
from bench_made import Scale
from bench_records import Failed, Outcome, Sample, measured

_LEAST = 2
_MORE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One row of the table: readers with the same to do.

    figure: its name in the history, which stays. group, title: its heading and its row. expected: the right answer.
    contenders: the first is the floor, what can hardly be done faster; it reads deleted rows too.
    fresh: each turn is a process of its own, timed from its start to its end.
    """

    figure: str
    group: str
    title: str
    expected: list[int]
    contenders: tuple[Contender, ...]
    fresh: bool = False


def measure(figure: Figure, scale: Scale, interpreters: Interpreters) -> dict[str, Outcome]:
    """What each reader took, by name; without the readers that are not installed.

    Raises:
        ContenderFailed: the floor fails, so that there is nothing to take ratios to.
    """
    said = {}
    for contender in figure.contenders:
        python = interpreters.of(contender.peer)
        if python is not None:
            said[contender.name] = versions(contender.peer, python)
    kind = fresh_processes if figure.fresh else one_process
    with ExitStack() as stack:
        pythons = [(contender, interpreters.of(contender.peer)) for contender in figure.contenders]
        running = {
            contender.name: stack.enter_context(kind(contender, python, scale.turn_s))
            for contender, python in pythons
            if python is not None
        }
        samples, failed = _samples(figure, scale, running)
    floor = figure.contenders[0].name
    if floor in failed:
        raise ContenderFailed(f"{figure.figure}: {floor} fails: {failed[floor]}")
    return {
        name: Failed(versions=said[name], reason=failed[name])
        if name in failed
        else measured(samples[name], samples[floor], said[name])
        for name in said
    }


def _samples(
    figure: Figure, scale: Scale, running: Mapping[str, Turn]
) -> tuple[dict[str, list[Sample]], dict[str, str]]:
    samples: dict[str, list[Sample]] = {name: [] for name in running}
    failed: dict[str, str] = {}
    started = time.perf_counter()
    for round_ in itertools.count():
        if round_ and enough(round_ - 1, time.perf_counter() - started, scale):
            break
        # There and back, so that nobody always follows the same reader.
        for name, turn in running.items() if round_ % 2 == 0 else reversed(running.items()):
            if name in failed:
                continue
            try:
                answer, sample = turn()
            except ContenderFailed as error:
                failed[name] = str(error)
                continue
            # The floor may see what was deleted.
            if name != figure.contenders[0].name and answer is not None and answer != figure.expected:
                failed[name] = f"wrong answer: {answer}, not {figure.expected}"
            elif round_:  # the first does not count
                samples[name].append(sample)
        if not round_:
            started = time.perf_counter()
    return samples, failed


def enough(rounds: int, seconds: float, scale: Scale) -> bool:
    """Whether so many rounds in so many seconds will do: what is quick is noisy, and has more of them."""
    if rounds < scale.rounds:
        return rounds >= _LEAST and seconds > scale.figure_s
    return rounds >= _MORE * scale.rounds or seconds > scale.figure_s / _MORE
