"""Annotations of a GitHub workflow: FAIL as an error, ERROR as a warning, XPASS as a notice.

GitHub shows ten of a kind per step and drops the rest in silence, so nine are written, and one that counts the rest.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.conformance.outcomes import Outcome
from harness.conformance.reports.wording import headline, summary_of
from harness.conformance.results import Case, Run
from harness.differ.reports.verdict import counted
from harness.printable import visible

_KINDS = {Outcome.FAIL: "error", Outcome.ERROR: "warning", Outcome.XPASS: "notice"}
_MOST = 10


def to_github(run: Run) -> str:
    """Workflow commands, a line each, then the run's sentence as plain text."""
    return "".join(line + "\n" for line in [*_annotations(run), visible(headline(run))])


def _annotations(run: Run) -> Iterator[str]:
    for outcome, kind in _KINDS.items():
        cases = [case for case in run.cases if case.outcome is outcome]
        shown = cases if len(cases) <= _MOST else cases[: _MOST - 1]
        yield from (_annotation(kind, case) for case in shown)
        if left := len(cases) - len(shown):
            text = f"{counted(left, 'more scenario')} came to {outcome.value}; see the log or another report"
            yield f"::{kind} title={outcome.value}::{_data(text)}"


def _annotation(kind: str, case: Case) -> str:
    file = "" if case.scenario.file is None else f"file={_property(visible(case.scenario.file))},line=1,"
    title = _property(visible(f"{case.outcome.value} {case.id}"))
    # GitHub turns an escaped line feed back into one.
    text = f"{visible(f'{case.scenario.title}: {summary_of(case)}')}\nagain: {visible(case.command)}"
    return f"::{kind} {file}title={title}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
