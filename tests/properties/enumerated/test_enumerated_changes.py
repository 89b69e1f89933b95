"""Between all points of every history of a few operations, the changes are those that the model computes.

The model compares the rows before and after each commit. Only ranges that end at the last operation are read, because
the others are ranges of a shorter history. Spark reads the changes of some histories, many at once.
"""

import shutil
from collections import Counter
from collections.abc import Iterator

import pytest
from drawn.changes import changelog, net
from drawn.strategies.changes import readable
from letters import empty
from reading import CheckedChanges, Failure, TableReading
from tables import EnumeratedTable, begin_table, extend_table
from words import ALPHABET, longer

from harness.suite.scenarios.model import Selector

_AT_ONCE = 500
"""The number of tables that exist, and that Spark reads, at the same time."""
_OF_SPARK = 20
"""Spark reads one of so many histories."""

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", ALPHABET)
def test_every_range_has_the_changes_of_the_model(kind, engines, tmp_path, pytestconfig, record_property) -> None:
    length = pytestconfig.getoption("--length")
    on_duckdb, on_spark = (TableReading([e]) for e in ("duckdb", "spark"))
    counts, models = Counter(), {(): empty(kind)}
    built = {(): begin_table(models[()], tmp_path)}
    try:
        for size in range(1, length + 1):
            steps = longer(models, kind)
            models = {word: model for word, (model, _) in steps.items()}
            parents, built = built, {}
            found: list[Failure] = []
            words = list(steps)
            for start in range(0, len(words), _AT_ONCE):
                new = [
                    extend_table(parents[word[:-1]], word, *steps[word], tmp_path) for word in words[start:][:_AT_ONCE]
                ]
                reads = [(table, read) for table in new for read in _reads(table)]
                counts.update({"histories": len(new), "ranges": len(reads)})
                found += on_duckdb.failures(read for _, read in reads)
                if "spark" in engines:
                    some = {table.word for table in new[::_OF_SPARK]}
                    found += on_spark.failures(r for t, r in reads if t.word in some and r.mode == "changelog")
                if size < length:
                    built |= {table.word: table for table in new}
                elif kind == "delta":
                    for table in new:
                        shutil.rmtree(table.address)
            if found:
                pytest.fail(_report(found, words))
    finally:
        read = ", ".join(f"{name}: {each.counts[name]}" for name, each in (("duckdb", on_duckdb), ("spark", on_spark)))
        text = (
            f"{kind}: {counts['histories']} histories of up to {size} operations, changes of {counts['ranges']} ranges"
        )
        record_property("read", f"{text} planned, those that differ read by {read}")


def _reads(built: EnumeratedTable) -> Iterator[CheckedChanges]:
    """Yield reads of all ranges that end at the current state."""
    model, history = built.model, built.history
    commits = model.commits(Selector())
    if model.format == "delta":
        commits = readable(model, commits)
    columns = model.columns_at(Selector())
    names = [column.name for column in columns]
    for start, first in enumerate(commits):
        chosen = commits[start:]
        if model.format == "delta":
            begin = {"begin": first.name, "inclusive": True}
            moments = ("_change_type", "_commit_version")
        else:
            begin = {"begin": None if first.parent is None else history.commits[first.parent], "inclusive": False}
            moments = ("_change_type", "_change_ordinal", "_commit_snapshot_id")
        for mode in ("changelog", "net") if start == 0 and model.format == "iceberg" else ("changelog",):
            made = changelog(chosen, columns) if mode == "changelog" else net(chosen, columns)
            rows = [
                (
                    *(change.row[column.id] for column in columns),
                    change.kind,
                    *(
                        (change.commit,)
                        if model.format == "delta"
                        else (change.ordinal, history.commits[change.commit])
                    ),
                )
                for change in made
            ]
            yield CheckedChanges(
                of=(built, Selector()),
                address=built.address,
                at=history.resolve(Selector()),
                names=[*names, *moments],
                rows=rows,
                mode=mode,
                **begin,
            )


def _report(failures: list[Failure], words: list) -> str:
    """Return the failure of the smallest word."""
    order = {word: i for i, word in enumerate(words)}
    first = min(failures, key=lambda failure: order[failure.read.of[0].word])
    built, read = first.read.of[0], first.read
    differing = {failure.read.of[0].word for failure in failures}
    return (
        f"{built.model.kind}: {', '.join(built.word)}: {first.engine} {first.problem}, {read.mode} from {read.begin}"
        f"\n{len(differing)} words of {len(built.word)} operations differ"
    )
