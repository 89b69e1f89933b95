"""The text, Markdown, and GitHub reports of a run.

The text report lists failures with the commands that repeat them:

    FAIL  mine::iceberg/deletes/own-commit  An equality delete spares the rows of its own commit
          read 1, all columns: FAIL: 1 row expected only
            ...
          again: harness scenarios run iceberg/deletes/own-commit --engines mine --keep repro

    engine        silently wrong  PASS  FAIL  UNSUPPORTED  ERROR  OPEN  right of claimed  right of all  policy
    duckdb 2.0.0               0   157     0            0      0     3           100.0 %       100.0 %    9/9

A read is silently wrong if the engine returned other rows than the specification requires, or rows of a table that must
be refused, and no error. An engine claims the reads that it does not decline. Policy is counted separately: results
that harness chose and no specification requires.
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

MEANINGS = {
    Outcome.PASS: "as the specification requires",
    Outcome.FAIL: "wrong rows, or rows of a table that must be refused",
    Outcome.POLICY: "a result that differs from harness's policy",
    Outcome.UNSUPPORTED: "the engine does not support this",
    Outcome.ERROR: "failed, crashed or hung",
    Outcome.OPEN: "the specification leaves it open",
    Outcome.SKIP: "on the list of skips: not run",
    Outcome.XFAIL: "fails as listed in the expected failures",
    Outcome.XPASS: "passes although listed in the expected failures",
}


def headline(run: Run) -> str:
    """Return the numbers of scenarios and engines and the counts of outcomes, without a full stop."""
    sizes = f"{counted(len(run.scenarios), 'scenario')} on {counted(len(run.engines), 'engine')}"
    return f"{sizes}: {tally(run.counts())}"


def tally(counts: Counter[Outcome]) -> str:
    """Return the counts as text like `150 PASS, 2 FAIL`. Outcomes that do not occur are omitted."""
    return ", ".join(f"{counts[outcome]:,} {outcome.value}" for outcome in Outcome if counts[outcome]) or "nothing run"


def case_lines(case: Case) -> Iterator[str]:
    """Yield printable lines for the reads of a case that are not PASS, with the rows that differ."""
    if case.expected is not None:
        place = f"{case.expected.file}, line {case.expected.line}"
        yield visible(f"listed: {case.expected.reason} ({place})")
    for check in case.checks:
        if check.outcome is Outcome.PASS:
            continue
        # number 0 means that the scenario itself failed
        place = f"read {check.number}, {check.read}: " if check.number else ""
        yield visible(f"{place}{check.outcome.value}: {check.message or MEANINGS[check.outcome]}")
        yield from ("  " + line for line in difference_of(check))
        yield from (visible(f"  note: {note}") for note in check.notes)


def difference_of(check: Check) -> list[str]:
    """Return printable lines for the differing rows and columns.

    Expected rows begin with `-`, rows that were read with `+`.
    """
    if check.comparison is None:
        return []
    return comparison_text(check.comparison).splitlines()[2:]


def case_summary(case: Case) -> str:
    """Return the first problem of a case on one line."""
    checks = [check for check in case.checks if check.outcome is not Outcome.PASS]
    if checks:
        check = checks[0]
        suffix = f" (and {counted(len(checks) - 1, 'more read')})" if len(checks) > 1 else ""
        return visible(f"{check.message or MEANINGS[check.outcome]}{suffix}")
    return MEANINGS[case.outcome]


_FAULTS = (Outcome.FAIL, Outcome.ERROR, Outcome.XPASS)
_ALWAYS = (Outcome.PASS, Outcome.FAIL, Outcome.UNSUPPORTED, Outcome.ERROR, Outcome.OPEN)


def to_text(run: Run) -> str:
    """Return the run as lines of text. Each ends with a line feed and contains no other control character."""
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
    """Return a line for each reason and engine, because a few reasons usually apply to many scenarios."""
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
"""The column headings for `score_cells`."""


def score_cells(score: Score) -> tuple[str, str, str, str]:
    """Return a score as all reports show it: silently wrong reads, percentages of correct reads, and policies."""
    shares = (f"{score.right_of_claimed:.1f} %" if score.claimed else "–", f"{score.right_of_all:.1f} %")
    return f"✗ {score.silent:,}" if score.silent else "0", *shares, f"{score.kept:,}/{score.policies:,}"


def _engines(run: Run) -> list[str]:
    """Return the table of engines, with a row for each format of their tables."""
    counts = run.counts()
    outcomes = [outcome for outcome in Outcome if outcome in _ALWAYS or counts[outcome]]
    lines = [["engine", SCORES[0], *(outcome.value for outcome in outcomes), *SCORES[1:]]]
    for engine in run.engines:
        engine_counts, (silent, *rest) = run.counts(engine), score_cells(run.score(engine))
        numbers = [f"{engine_counts[outcome]:,}" for outcome in outcomes]
        lines.append([f"{engine.name} {engine.version}", silent, *numbers, *rest])
        if len(run.formats()) > 1:
            for format_ in run.formats():
                silent, *rest = score_cells(run.score(engine, format_))
                lines.append([f"  {format_}", silent, *("" for _ in outcomes), *rest])
    return list(align(lines, [False, *(True for _ in lines[0][1:])]))


def _remarks(run: Run) -> list[str]:
    missing = [f"not run: {name}: {reason}" for name, reason in run.missing.items()]
    unused_lines = [
        f"unused: {line.file}, line {line.line}: nothing matches {line.pattern}" for line in run.unused_lines
    ]
    environment = ", ".join(f"{name} {value}" for name, value in run.environment.items())
    return [visible(line) for line in [*missing, *unused_lines, environment] if line]


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
"""The sign of each outcome, the worst first."""


def to_markdown(run: Run) -> str:
    """Return the legend and the table of features by engine as Markdown, for a README or the summary of a CI step."""
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
    legend = "✓ as the specification requires · ✗ wrong rows, or a broken table read · ! error, crash or hang"
    rest = "– the engine does not support this · ~ a result that differs from harness's policy"
    rest += " · ? open in the specification · numbers count scenarios, in the last lines reads"
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
    """Return a cell of the table of features: each sign with its number of scenarios, the worst first.

    For example, `✗ 3 ! 2 – 4 ? 1 ✓ 2` means that three scenarios fail, two end in an error, four are not supported, one
    is open, and two pass. The cell is empty if there are no scenarios.
    """
    counts: Counter[str] = Counter(SIGNS[case.outcome] for case in cases)
    return " ".join(f"{sign} {counts[sign]}" for sign in dict.fromkeys(SIGNS.values()) if counts[sign])


def _cell(text: str) -> str:
    return visible(" ".join(text.split())).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


_KINDS = {Outcome.FAIL: "error", Outcome.ERROR: "warning", Outcome.XPASS: "error"}


def to_github(run: Run) -> str:
    """Return workflow commands for GitHub, one per line, followed by the summary of the run as plain text.

    FAIL and XPASS become errors, and ERROR becomes a warning. GitHub shows ten annotations of a kind per step and
    silently drops the rest, so at most nine are written, and one that counts the rest.
    """
    return "".join(line + "\n" for line in [*_annotations(run), visible(headline(run))])


def _annotations(run: Run) -> Iterator[str]:
    for outcome, kind in _KINDS.items():
        yield from limit_annotations(
            [case for case in run.cases if case.outcome is outcome],
            partial(_annotation, kind),
            partial(_more, kind, outcome.value),
        )


def _more(kind: str, outcome: str, remaining: int) -> str:
    text = f"{counted(remaining, 'more scenario')} ended as {outcome}; see the log or another report"
    return annotation(kind, text, title=outcome)


def _annotation(kind: str, case: Case) -> str:
    file = {} if case.scenario.file is None else {"file": visible(case.scenario.file), "line": "1"}
    title = visible(f"{case.outcome.value} {case.id}")
    # GitHub decodes an escaped line feed.
    text = f"{visible(f'{case.scenario.title}: {case_summary(case)}')}\nagain: {visible(case.command)}"
    return annotation(kind, text, **file, title=title)
