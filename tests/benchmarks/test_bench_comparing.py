"""What became slower: ratios whose middle halves do not meet and whose medians are a tenth apart."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench_comparing import differences, report
from bench_records import Failed, Measured, Outcome, Record
from test_bench_records import FIGURE, RECORD, RUN


def ratio(low: float, middle: float, high: float) -> Measured:
    return replace(FIGURE, ratio_low=low, ratio=middle, ratio_high=high)


def record(outcome: Outcome | None, name: str = "harness", **run: str | int) -> Record:
    others = {} if outcome is None else {name: outcome}
    return replace(RECORD, run=replace(RUN, **run), outcomes={"plain": FIGURE, **others})


BEFORE = ratio(1.9, 2.0, 2.1)


@pytest.mark.parametrize(
    ("after", "kind"),
    [
        pytest.param(ratio(2.3, 2.4, 2.5), "slower", id="slower"),
        pytest.param(ratio(2.05, 2.4, 2.9), None, id="the-middle-halves-meet"),
        pytest.param(ratio(2.11, 2.15, 2.2), None, id="apart-but-less-than-a-tenth"),
        pytest.param(ratio(1.5, 1.6, 1.7), "faster", id="faster"),
        pytest.param(ratio(1.5, 1.6, 1.95), None, id="perhaps-faster"),
        pytest.param(Failed(versions="", reason="no such file"), "failed", id="fails-now"),
        pytest.param(None, "missing", id="no-longer-measured"),
    ],
)
def test_a_difference_is_more_than_the_noise(after, kind):
    found = differences([record(after)], [record(BEFORE)])
    assert [difference.kind for difference in found] == ([] if kind is None else [kind])
    assert all(difference.bad == (kind != "faster") for difference in found)


def test_a_figure_that_is_gone_is_missing():
    assert [difference.kind for difference in differences([], [record(BEFORE)])] == ["missing"]


def test_what_is_new_or_failed_before_is_no_difference():
    assert differences([record(BEFORE)], []) == []
    assert differences([record(BEFORE)], [record(Failed(versions="", reason="x"))]) == []


def test_other_readers_are_not_held_against_the_project():
    assert differences([record(ratio(9, 9, 9), "Polars")], [record(BEFORE, "Polars")]) == []


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


def test_the_report_says_that_nothing_became_slower():
    then = record(BEFORE, date="2026-01-01")
    assert report([record(BEFORE)], [then]).endswith("\nnothing became slower by more than the noise")


def test_without_an_earlier_run_there_is_nothing_to_compare():
    text = "Nothing to compare: there is no such earlier run at this scale."
    assert report([record(BEFORE)], []) == text
