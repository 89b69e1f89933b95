"""The matrix feature × engine as Markdown, for a README or a step's summary.

A cell says what came of the scenarios with the feature, the worst first: `✗ 3 ! 2 – 4 ? 1 ✓ 2` says that three fail,
two end in an error, four are not supported, one is open, and two pass.
"""

from __future__ import annotations

from collections import Counter

from harness.conformance.outcomes import Outcome
from harness.conformance.reports.wording import headline
from harness.conformance.results import Case, Run
from harness.printable import visible

SIGNS = {
    Outcome.FAIL: "✗",
    Outcome.XFAIL: "✗",
    Outcome.ERROR: "!",
    Outcome.UNSUPPORTED: "–",
    Outcome.OPEN: "?",
    Outcome.SKIP: "·",
    Outcome.PASS: "✓",
    Outcome.XPASS: "✓",
}
"""By outcome, the worst first."""


def to_markdown(run: Run) -> str:
    """Two tables, engines and features, with a legend."""
    names = [_cell(f"{engine.name} {engine.version}") for engine in run.engines]
    matrix = [
        [f"`{_cell(feature)}`", *(cell_text(run.of_feature(feature, engine)) for engine in run.engines)]
        for feature in run.features()
    ]
    totals = ["**all scenarios**", *(cell_text([c for c in run.cases if c.engine is e]) for e in run.engines)]
    verified = ["**verified reads**", *(f"{run.share(engine).percent:.1f} %" for engine in run.engines)]
    legend = "✓ as the specification demands · ✗ wrong rows, or a broken table read · ! error, crash or hang"
    rest = "– the engine says that it does not read this · ? open in the specification · numbers are scenarios"
    lines = [
        f"{_cell(headline(run))}.",
        "",
        *_table(["feature", *names], [*matrix, totals, verified]),
        "",
        f"{legend} · {rest}.",
        _cell(", ".join(f"{name} {value}" for name, value in run.environment.items())),
    ]
    return "\n".join(lines) + "\n"


def cell_text(cases: list[Case] | tuple[Case, ...]) -> str:
    """A cell of the matrix: each sign with how many scenarios, the worst first; empty for none."""
    counts: Counter[str] = Counter(SIGNS[case.outcome] for case in cases)
    return " ".join(f"{sign} {counts[sign]}" for sign in dict.fromkeys(SIGNS.values()) if counts[sign])


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    marks = ["---", *(":---:" for _ in head[1:])]
    return [f"| {' | '.join(line)} |" for line in [head, marks, *rows]]


def _cell(text: str) -> str:
    return visible(" ".join(text.split())).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
