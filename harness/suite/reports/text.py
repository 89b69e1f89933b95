"""The text report: faults with the commands that show them again, then a line per engine.

    FAIL  mine::iceberg/deletes/own-commit  An equality delete spares the rows of its own commit
          read 1, all columns: FAIL: 1 row expected only
            ...
          again: harness scenarios run iceberg/deletes/own-commit --engines mine --keep repro

    engine        silently wrong  PASS  FAIL  UNSUPPORTED  ERROR  OPEN  right of claimed  right of all  policy
    duckdb 2.0.0               0   157     0            0      0     3           100.0 %       100.0 %    9/9

Silently wrong are reads that gave other rows than the specification's, or rows of a table that must be refused, and no
error. An engine claims the reads that it does not decline. Policy is apart: answers that harness gives and no
specification demands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

from harness.diff.reports.documents import annotation, limit_annotations
from harness.diff.reports.text import to_text as comparison_text
from harness.errors import counted, visible
from harness.metadata.model.text_tables import align
from harness.suite.results import Case, Check, Outcome, Run, Score

# Words that the reports of a run share.


MEANINGS = {
    Outcome.PASS: "as the specification demands",
    Outcome.FAIL: "wrong rows, or rows of a table that must be refused",
    Outcome.POLICY: "another answer, where harness's is a policy of its own",
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


def case_lines(case: Case) -> Iterator[str]:
    """The reads of a case that are not PASS, with the rows that differ; printable."""
    if case.expected is not None:
        place = f"{case.expected.file}, line {case.expected.line}"
        yield visible(f"listed: {case.expected.reason} ({place})")
    for check in case.checks:
        if check.outcome is Outcome.PASS:
            continue
        place = f"read {check.number}, {check.read}: " if check.number else ""  # else the scenario itself failed
        yield visible(f"{place}{check.outcome.value}: {check.message or MEANINGS[check.outcome]}")
        yield from ("  " + line for line in difference_of(check))
        yield from (visible(f"  note: {note}") for note in check.notes)


def difference_of(check: Check) -> list[str]:
    """The differing rows and columns, `-` expected and `+` read; printable lines."""
    if check.comparison is None:
        return []
    return comparison_text(check.comparison).splitlines()[2:]


def case_summary(case: Case) -> str:
    """The first thing that is wrong, on one line."""
    checks = [check for check in case.checks if check.outcome is not Outcome.PASS]
    if checks:
        check = checks[0]
        more = f" (and {counted(len(checks) - 1, 'more read')})" if len(checks) > 1 else ""
        return visible(f"{check.message or MEANINGS[check.outcome]}{more}")
    return MEANINGS[case.outcome]


_FAULTS = (Outcome.FAIL, Outcome.ERROR, Outcome.XPASS)
_ALWAYS = (Outcome.PASS, Outcome.FAIL, Outcome.UNSUPPORTED, Outcome.ERROR, Outcome.OPEN)


def to_text(run: Run) -> str:
    """The run as lines of text; each ends with a line feed, and holds no other control character."""
    faults = [list(_case(case)) for outcome in _FAULTS for case in run.cases if case.outcome is outcome]
    parts = [*faults, _unsupported(run), _engines(run), _remarks(run), [headline(run)]]
    return "\n\n".join("\n".join(line.rstrip() for line in part) for part in parts if part) + "\n"


def _case(case: Case) -> Iterator[str]:
    label = case.outcome.value
    indent = " " * (len(label) + 2)
    yield f"{label}  {visible(case.id)}  {visible(case.scenario.title)}"
    yield from (indent + line for line in case_lines(case))
    yield f"{indent}again: {visible(case.command)}"


def _unsupported(run: Run) -> list[str]:
    """A line for each reason and engine: reasons are few, scenarios many."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for case in run.cases:
        if case.outcome is Outcome.UNSUPPORTED:
            message = next(check.message for check in case.checks if check.outcome is Outcome.UNSUPPORTED)
            reasons.setdefault((case.engine.name, message or ""), []).append(case.scenario.name)
    return [
        visible(f"UNSUPPORTED  {engine}: {message}  ({names[0]}{f' and {len(names) - 1} more' if names[1:] else ''})")
        for (engine, message), names in reasons.items()
    ]


SCORES = ("silently wrong", "right of claimed", "right of all", "policy")
"""The heads of `score_cells`."""


def score_cells(score: Score) -> tuple[str, str, str, str]:
    """A score in the words of all reports: reads that are silently wrong, shares of right reads, policies."""
    shares = (f"{score.right_of_claimed:.1f} %" if score.claimed else "–", f"{score.right_of_all:.1f} %")
    return f"✗ {score.silent:,}" if score.silent else "0", *shares, f"{score.kept:,}/{score.policies:,}"


def _engines(run: Run) -> list[str]:
    """The table of engines, and of their tables by format."""
    counts = run.counts()
    shown = [outcome for outcome in Outcome if outcome in _ALWAYS or counts[outcome]]
    lines = [["engine", SCORES[0], *(outcome.value for outcome in shown), *SCORES[1:]]]
    for engine in run.engines:
        own, (silent, *rest) = run.counts(engine), score_cells(run.score(engine))
        numbers = [f"{own[outcome]:,}" for outcome in shown]
        lines.append([f"{engine.name} {engine.version}", silent, *numbers, *rest])
        if len(run.formats()) > 1:
            for format_ in run.formats():
                silent, *rest = score_cells(run.score(engine, format_))
                lines.append([f"  {format_}", silent, *("" for _ in shown), *rest])
    return list(align(lines, [False, *(True for _ in lines[0][1:])]))


def _remarks(run: Run) -> list[str]:
    missing = [f"not run: {name}: {why}" for name, why in run.missing.items()]
    unused_lines = [
        f"unused: {line.file}, line {line.line}: nothing matches {line.pattern}" for line in run.unused_lines
    ]
    where = ", ".join(f"{name} {value}" for name, value in run.environment.items())
    return [visible(line) for line in [*missing, *unused_lines, where] if line]


# The table of features by engine as Markdown, for a README or a step's summary.
#
# A cell says what came of the scenarios with the feature, the worst first: `✗ 3 ! 2 – 4 ? 1 ✓ 2` says that three fail,
# two end in an error, four are not supported, one is open, and two pass.


SIGNS = {
    Outcome.FAIL: "✗",
    Outcome.XFAIL: "✗",
    Outcome.ERROR: "!",
    Outcome.UNSUPPORTED: "–",
    Outcome.POLICY: "~",
    Outcome.OPEN: "?",
    Outcome.SKIP: "·",
    Outcome.PASS: "✓",
    Outcome.XPASS: "✓",
}
"""Outcomes, the worst first."""


def to_markdown(run: Run) -> str:
    """Return the legend, and the table of features by engine."""
    names = [_cell(f"{engine.name} {engine.version}") for engine in run.engines]
    features = [
        [f"`{_cell(feature)}`", *(cell_text(run.cases_with_feature(feature, engine)) for engine in run.engines)]
        for feature in run.features()
    ]
    totals = ["**all scenarios**", *(cell_text([c for c in run.cases if c.engine is e]) for e in run.engines)]
    ends = [
        [f"**{head}, {format_}**", *cells]
        for format_ in reversed(run.formats())
        for head, *cells in zip(SCORES, *(score_cells(run.score(each, format_)) for each in run.engines), strict=True)
    ]
    marks = ["---", *(":---:" for _ in names)]
    legend = "✓ as the specification demands · ✗ wrong rows, or a broken table read · ! error, crash or hang"
    rest = "– the engine says that it does not read this · ~ another answer than harness gives by a policy of its own"
    rest += " · ? open in the specification · numbers are scenarios, in the last lines reads"
    lines = [
        f"{_cell(headline(run))}.",
        "",
        f"{legend} · {rest}.",
        "",
        *(f"| {' | '.join(row)} |" for row in [["feature", *names], marks, *features, totals, *ends]),
        "",
        _cell(", ".join(f"{name} {value}" for name, value in run.environment.items())),
    ]
    return "\n".join(lines) + "\n"


def cell_text(cases: list[Case] | tuple[Case, ...]) -> str:
    """A cell of the table of features: each sign with how many scenarios, the worst first; empty for none."""
    counts: Counter[str] = Counter(SIGNS[case.outcome] for case in cases)
    return " ".join(f"{sign} {counts[sign]}" for sign in dict.fromkeys(SIGNS.values()) if counts[sign])


def _cell(text: str) -> str:
    return visible(" ".join(text.split())).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


# Annotations of a GitHub workflow: FAIL and XPASS as errors, ERROR as a warning.
#
# GitHub shows ten of a kind per step and drops the rest in silence, so nine are written, and one that counts the rest.


_KINDS = {Outcome.FAIL: "error", Outcome.ERROR: "warning", Outcome.XPASS: "error"}


def to_github(run: Run) -> str:
    """Workflow commands, a line each, then the run's sentence as plain text."""
    return "".join(line + "\n" for line in [*_annotations(run), visible(headline(run))])


def _annotations(run: Run) -> Iterator[str]:
    for outcome, kind in _KINDS.items():
        yield from limit_annotations(
            [case for case in run.cases if case.outcome is outcome],
            partial(_annotation, kind),
            partial(_more, kind, outcome.value),
        )


def _more(kind: str, outcome: str, left: int) -> str:
    text = f"{counted(left, 'more scenario')} came to {outcome}; see the log or another report"
    return annotation(kind, text, title=outcome)


def _annotation(kind: str, case: Case) -> str:
    file = {} if case.scenario.file is None else {"file": visible(case.scenario.file), "line": "1"}
    title = visible(f"{case.outcome.value} {case.id}")
    # GitHub turns an escaped line feed back into one.
    text = f"{visible(f'{case.scenario.title}: {case_summary(case)}')}\nagain: {visible(case.command)}"
    return annotation(kind, text, **file, title=title)
