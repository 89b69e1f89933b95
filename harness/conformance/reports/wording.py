"""Words that the reports of a run share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from harness.conformance.outcomes import Check, Outcome
from harness.conformance.results import Case, Run
from harness.differ.reports.text import to_text
from harness.differ.reports.verdict import counted
from harness.printable import visible

MEANINGS = {
    Outcome.PASS: "as the specification demands",
    Outcome.FAIL: "wrong rows, or rows of a table that must be refused",
    Outcome.UNSUPPORTED: "the engine says that it does not do this",
    Outcome.ERROR: "failed, crashed or hung",
    Outcome.OPEN: "the specification does not decide",
    Outcome.SKIP: "on the list of skips, not run",
    Outcome.XFAIL: "fails, as the list of expected failures says",
    Outcome.XPASS: "passes, against the list of expected failures",
}


def headline(run: Run) -> str:
    """The run in a sentence, without a full stop: scenarios, engines and counts."""
    what = f"{counted(len(run.scenarios), 'scenario')} on {counted(len(run.engines), 'engine')}"
    return f"{what}: {tally(run.counts())}"


def tally(counts: Counter[Outcome]) -> str:
    """`150 PASS, 2 FAIL`; what does not occur is left out."""
    return ", ".join(f"{counts[outcome]:,} {outcome.value}" for outcome in Outcome if counts[outcome]) or "nothing run"


def lines_of(case: Case) -> Iterator[str]:
    """What is to be said of a case: its reads that are not PASS, with the rows that differ; printable."""
    if case.expected is not None:
        place = f"{case.expected.file}, line {case.expected.line}"
        yield visible(f"listed: {case.expected.reason} ({place})")
    for check in case.checks:
        if check.outcome is Outcome.PASS:
            continue
        yield visible(f"{place_of(check)}{check.outcome.value}: {check.message or MEANINGS[check.outcome]}")
        yield from ("  " + line for line in difference_of(check))
        yield from (visible(f"  note: {note}") for note in check.notes)


def place_of(check: Check) -> str:
    """`read 2, columns id at version 3: `; nothing where the scenario itself failed."""
    return f"read {check.number}, {check.read}: " if check.number else ""


def difference_of(check: Check) -> list[str]:
    """The differing rows and columns, `-` expected and `+` read; printable lines."""
    if check.comparison is None:
        return []
    return to_text(check.comparison).splitlines()[2:]


def summary_of(case: Case) -> str:
    """The first thing that is wrong, on one line."""
    told = [check for check in case.checks if check.outcome is not Outcome.PASS]
    if told:
        check = told[0]
        more = f" (and {counted(len(told) - 1, 'more read')})" if len(told) > 1 else ""
        return visible(f"{check.message or MEANINGS[check.outcome]}{more}")
    return MEANINGS[case.outcome]
