"""Every history of a few operations makes a table whose snapshots all have the rows of the model.

The smallest failing word is reported: shorter words are read first, and words of the same length in alphabetical order.
"""

import shutil
from collections.abc import Iterator

import pytest
from letters import empty
from reading import CheckedRead, Failure, TableReading, keep_scenario
from tables import EnumeratedTable, begin_table, extend_table
from words import ALPHABET, longer

from harness.suite.scenarios.model import Expectation, Selector

_AT_ONCE = 2000
"""The number of tables that exist, and that Spark reads, at the same time."""

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", ALPHABET)
def test_every_history_reads_as_the_model_says(kind, engines, tmp_path, pytestconfig, record_property) -> None:
    length, reading = pytestconfig.getoption("--length"), TableReading(engines)
    models = {(): empty(kind)}
    built = {(): begin_table(models[()], tmp_path)}
    words = 0
    try:
        for size in range(1, length + 1):
            steps = longer(models, kind)
            models = {word: model for word, (model, _) in steps.items()}
            parents, built, found = built, {}, []
            for chunk in _chunks(list(steps)):
                new = [extend_table(parents[word[:-1]], word, *steps[word], tmp_path) for word in chunk]
                words += len(new)
                found += reading.failures(read for table in new for read in _reads(table, is_last=size == length))
                if size < length:
                    built |= {table.word: table for table in new}
                elif kind == "delta":
                    for table in new:
                        shutil.rmtree(table.address)
            if found:
                order = {word: i for i, word in enumerate(models)}
                pytest.fail(_report(sorted(found, key=lambda failure: order[failure.read.of[0].word])))
    finally:
        record_property("read", f"{kind}: {words} histories of up to {size} operations, {reading}")


def _chunks(words: list) -> Iterator[list]:
    for start in range(0, len(words), _AT_ONCE):
        yield words[start : start + _AT_ONCE]


def _reads(built: EnumeratedTable, *, is_last: bool) -> Iterator[CheckedRead]:
    """Yield reads of every snapshot and of the current table. Tables of shorter words are also read by key."""
    model, history = built.model, built.history
    points = [point for point in model.points() if point.kind in ("snapshot", "version")]
    for selector in [*points, Selector()]:
        columns = model.columns_at(selector)
        rows = [tuple(row[column.id] for column in columns) for row in model.rows(selector)]
        now = {"of": (built, selector), "address": built.address, "at": history.resolve(selector)}
        names = [column.name for column in columns]
        yield CheckedRead(names=names, rows=rows, earlier=selector.value is not None, **now)
    if not is_last:
        found = [row[1:2] for row in rows if row[0] in (1, None)]
        yield CheckedRead(names=["p"], rows=found, asked=["p"], where=f"{names[0]} = 1 OR {names[0]} IS NULL", **now)
        yield CheckedRead(names=[], rows=rows, counted=True, **now)


def _report(failures: list[Failure]) -> str:
    """Return the failure of the smallest word, and the scenario that shows it."""
    read, engine, problem = failures[0].read, failures[0].engine, failures[0].problem
    built, selector = read.of
    words = list(dict.fromkeys(failure.read.of[0].word for failure in failures))
    asked = None if read.asked is None else tuple(read.asked)
    expected = Expectation(at=selector, columns=asked, where=read.where, rows=[list(row) for row in read.rows])
    place = keep_scenario(f"{built.model.kind}-{'-'.join(built.word)}", built.scenario(expectations=(expected,)))
    return (
        f"{built.model.kind}: {', '.join(built.word)}: {engine} {problem}, at {selector.kind} {selector.value}"
        f"\n{len(words)} words of {len(built.word)} operations differ; scenario: {place}"
    )
