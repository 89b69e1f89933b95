"""Readers in separate processes that take turns in rounds, so that noise affects all of them equally."""

import contextlib
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from bench_made import Scale
from bench_records import FailedMeasurement, Outcome, Sample, summarize

from harness.suite.readers import READERS, OtherReader

_ANSWERING = Path(__file__).with_name("bench_answering.py")
_ROOT = Path(__file__).parents[2]

_READERS = replace(READERS["polars"], name="readers", install=f"{READERS['polars'].install} polars-iceberg")
_BOTH = f"{READERS['duckdb-iceberg'].install} duckdb-extension-delta"
_EXTENSIONS = replace(READERS["duckdb-iceberg"], name="duckdb-extensions", install=_BOTH)
_ON_SPARK = ("spark-iceberg", "spark-delta")
_ENVIRONMENTS = {
    **dict.fromkeys(("polars", "deltalake", "pyiceberg"), "readers"),
    "duckdb_extension": "duckdb-extensions",
    "chdb": "chdb",
    "spark_iceberg": "spark-iceberg",
    "spark_delta": "spark-delta",
}
"""Environments by peer. The other peers run in harness's own interpreter."""
SCRIPTS: Mapping[str, OtherReader] = {
    "readers": _READERS,
    "duckdb-extensions": _EXTENSIONS,
    "chdb": READERS["chdb"],
    # Harness and its dependencies are installed too, so that harness and the jar run on one version of Spark.
    **{name: replace(READERS[name], install=f"{READERS[name].install} -e {_ROOT}") for name in _ON_SPARK},
}
"""The packages to install for each environment."""


class ContenderFailed(Exception):
    """A reader failed. The text is the reason in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A reader and its task.

    Attributes:
        name: The column in the table.
        peer: The module in `peers/`, without `peer_`.
        task: A function of that module.
        arguments: The arguments of the task.
    """

    name: str
    peer: str
    task: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


Turn = Callable[[], tuple[list[int] | None, Sample]]
"""A function that returns the answer and its cost.

It raises ContenderFailed if the reader fails, ends, or times out.
"""


@contextlib.contextmanager
def one_process(contender: Contender, python: str, limit_s: float) -> Iterator[Turn]:
    """Start a contender in one process. Each turn must be answered within `limit_s` seconds."""
    process = _start(contender.peer, contender.task, contender.arguments, python)

    def turn() -> tuple[list[int] | None, Sample]:
        answer = _request(process, limit_s)
        return answer["answer"], Sample(answer["wall_s"], answer["cpu_s"], answer["peak_mib"])

    yield turn
    process.communicate()


@contextlib.contextmanager
def fresh_processes(contender: Contender, python: str, limit_s: float) -> Iterator[Turn]:
    """Run a contender in a new process for each turn, which is timed from its start to its end, at most `limit_s`
    seconds.
    """

    def turn() -> tuple[list[int] | None, Sample]:
        started = time.perf_counter()
        process = _start(contender.peer, contender.task, contender.arguments, python)
        try:
            answer = _request(process, limit_s)
        finally:
            for pipe in filter(None, (process.stdin, process.stdout)):
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - started
        return answer["answer"], Sample(wall, usage.ru_utime + usage.ru_stime, answer["peak_mib"])

    yield turn


@cache
def versions(peer: str, python: str) -> str:
    """Return the names and versions that a peer reports.

    Raises:
        ContenderFailed: The peer cannot be imported.
    """
    process = _start(peer, "versions", {}, python)
    out, _ = process.communicate()
    return str(_parse_answer(out)["versions"])


def _start(peer: str, task: str, arguments: Mapping[str, Any], python: str) -> subprocess.Popen[str]:
    path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
    # Another interpreter has its own packages, which would clash with those of harness.
    environment = {**os.environ, "PYTHONPATH": path if python == sys.executable else ""}
    # Installed packages are compiled. Harness is read from the checkout, and every process would compile it again.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [python, str(_ANSWERING), peer, task]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, **pipes, env=environment, text=True, encoding="utf-8")
    assert process.stdin is not None
    process.stdin.write(json.dumps(arguments) + "\n")
    process.stdin.flush()
    return process


def _request(process: subprocess.Popen[str], limit_s: float) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    expired = threading.Event()

    def end() -> None:
        expired.set()
        process.kill()

    late = threading.Timer(limit_s, end)
    late.start()
    with contextlib.suppress(BrokenPipeError):  # its output before the end can still be read
        process.stdin.write("run\n")
        process.stdin.flush()
    line = process.stdout.readline()
    late.cancel()
    if not line and expired.is_set():
        raise ContenderFailed(f"no answer in {limit_s:.0f} s")
    return _parse_answer(line)


def _parse_answer(line: str) -> dict[str, Any]:
    if not line.strip():
        raise ContenderFailed("the process ended without an answer")
    answer: dict[str, Any] = json.loads(line)
    if "failed" in answer:
        raise ContenderFailed(answer["failed"])
    return answer


_LEAST = 2
_MORE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One row of the table: readers with the same task.

    Attributes:
        figure: The name in the history, which never changes.
        group: The heading.
        title: The title of the row.
        expected: The right answer.
        contenders: The readers. The first is the floor, which is hardly possible to beat, and also reads deleted rows.
        fresh: If true, each turn is a separate process, timed from its start to its end.
    """

    figure: str
    group: str
    title: str
    expected: list[int]
    contenders: tuple[Contender, ...]
    fresh: bool = False


def measure(figure: Figure, scale: Scale, pythons: Mapping[str, str]) -> dict[str, Outcome]:
    """Measure a figure and return the cost of each reader by name. Readers that are not installed are left out.

    Args:
        figure: The figure.
        scale: The scale.
        pythons: The interpreters by environment.

    Raises:
        ContenderFailed: The floor fails, so that ratios cannot be computed.
    """
    candidates = ((each, _python(each.peer, pythons)) for each in figure.contenders)
    contenders = {contender.name: (contender, python) for contender, python in candidates if python is not None}
    versions_by_name = {name: versions(contender.peer, python) for name, (contender, python) in contenders.items()}
    kind = fresh_processes if figure.fresh else one_process
    with contextlib.ExitStack() as stack:
        running = {name: stack.enter_context(kind(*each, scale.turn_s)) for name, each in contenders.items()}
        samples, failed = _samples(figure, scale, running)
    floor = figure.contenders[0].name
    if floor in failed:
        raise ContenderFailed(f"{figure.figure}: {floor} fails: {failed[floor]}")
    return {
        name: FailedMeasurement(versions=versions_by_name[name], reason=failed[name])
        if name in failed
        else summarize(samples[name], samples[floor], versions_by_name[name])
        for name in versions_by_name
    }


def _python(peer: str, pythons: Mapping[str, str]) -> str | None:
    return pythons.get(_ENVIRONMENTS[peer]) if peer in _ENVIRONMENTS else sys.executable


def _samples(
    figure: Figure, scale: Scale, running: Mapping[str, Turn]
) -> tuple[dict[str, list[Sample]], dict[str, str]]:
    samples: dict[str, list[Sample]] = {name: [] for name in running}
    failed: dict[str, str] = {}
    started = time.perf_counter()
    for round_ in itertools.count():
        if round_ and enough(round_ - 1, time.perf_counter() - started, scale):
            break
        # The order alternates, so that no reader always follows the same reader.
        for name, turn in running.items() if round_ % 2 == 0 else reversed(running.items()):
            if name in failed:
                continue
            try:
                answer, sample = turn()
            except ContenderFailed as error:
                failed[name] = str(error)
                continue
            # The floor may return deleted rows.
            if name != figure.contenders[0].name and answer is not None and answer != figure.expected:
                failed[name] = f"wrong answer: {answer}, not {figure.expected}"
            elif round_:  # the first round does not count
                samples[name].append(sample)
        if not round_:
            started = time.perf_counter()
    return samples, failed


def enough(rounds: int, seconds: float, scale: Scale) -> bool:
    """Return whether a number of rounds is sufficient. Fast figures are noisy, and need more rounds."""
    if rounds < scale.rounds:
        return rounds >= _LEAST and seconds > scale.figure_s
    return rounds >= _MORE * scale.rounds or seconds > scale.figure_s / _MORE
