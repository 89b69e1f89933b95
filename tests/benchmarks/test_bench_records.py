"""Samples become figures, figures become lines, and lines runs."""

from __future__ import annotations

from dataclasses import replace

import bench
import pytest
from bench_records import (
    Failed,
    Measured,
    Record,
    Run,
    Sample,
    earlier_run,
    from_line,
    from_lines,
    measured,
    newest_run,
    to_line,
)

RUN = Run(date="2026-11-22T20:00:00+00:00", commit="abc", scale="full", cores=2, system="Linux x86_64", python="3.11.7")
FIGURE = Measured(
    versions="x 1", rounds=3, wall_s=2.0, cpu_s=4.0, peak_mib=100, ratio_low=1.0, ratio=1.0, ratio_high=1.0
)
RECORD = Record(
    run=RUN,
    group="Scans",
    figure="scan/a",
    title="a",
    outcomes={"plain": FIGURE, "harness": Failed(versions="y 2", reason="no such file")},
)


def test_ratios_are_taken_within_rounds():
    # Round by round 2, 1.5 and 1: the median of ratios. The ratio of medians would be 3 / 2.
    floor = [Sample(1, 1, None), Sample(2, 1, None), Sample(4, 1, None)]
    mine = [Sample(2, 5, 10), Sample(3, 7, 30), Sample(4, 6, 20)]
    assert measured(mine, floor, "x 1") == Measured(
        versions="x 1", rounds=3, wall_s=3, cpu_s=6, peak_mib=20, ratio_low=1.25, ratio=1.5, ratio_high=1.75
    )


def test_one_round_has_no_spread_and_unknown_memory_is_none():
    only = measured([Sample(3, 1, None)], [Sample(2, 1, None)], "")
    assert (only.ratio_low, only.ratio, only.ratio_high, only.peak_mib) == (1.5, 1.5, 1.5, None)


def test_figures_have_four_digits():
    assert measured([Sample(1.234567, 1, None)], [Sample(1, 1, None)], "").wall_s == 1.235


def test_a_line_gives_the_record_back():
    line = to_line(RECORD)
    assert "\n" not in line
    assert from_line(line) == RECORD
    assert from_lines(f"{line}\n\n{line}\n") == [RECORD, RECORD]


def test_a_line_of_another_format_is_refused():
    with pytest.raises(ValueError, match=r"^Cannot read a line of the history: its format is 1, not 2$"):
        from_line(to_line(RECORD).replace('"format": 2', '"format": 1'))


def at(date: str, commit: str = "abc", scale: str = "full") -> Record:
    return replace(RECORD, run=replace(RUN, date=date, commit=commit, scale=scale))


def test_runs_are_told_apart_by_date_and_scale():
    first, second, small = at("2026-01-01"), at("2026-01-02"), at("2026-01-03", scale="small")
    history = [first, second, second, small]
    assert newest_run(history, "full") == [second, second]
    assert newest_run(history, "other") == []
    assert earlier_run(history, "full", before="2026-01-02") == [first]
    assert earlier_run(history, "full", before="2026-01-01") == []  # a run is not compared with itself
    assert earlier_run(history, "small", before="2026-01-04") == [small]


def test_the_newest_earlier_run_counts_or_that_of_a_commit():
    history = [at("2026-01-01", "abc1"), at("2026-02-01", "def2"), at("2026-03-01", "abc3")]
    assert earlier_run(history, "full", before="2026-03-01") == [history[1]]
    assert earlier_run(history, "full", before="2026-03-01", commit="abc") == [history[0]]
    assert earlier_run(history, "full", before="2026-03-01", commit="abc3") == []


def test_the_history_can_be_read():
    lines = bench.HISTORY.read_text("utf-8") if bench.HISTORY.is_file() else ""
    assert [to_line(record) for record in from_lines(lines)] == lines.splitlines()
