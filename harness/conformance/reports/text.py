"""The text report: what is wrong, each with a command that shows it again, then a line per engine.

    FAIL  mine::iceberg/deletes/own-commit  An equality delete spares the rows of its own commit
          read 1, all columns: FAIL: 1 row expected only
            ...
          again: harness run --engine mine --scenario iceberg/deletes/own-commit --keep repro

    engine         PASS  FAIL  UNSUPPORTED  ERROR  OPEN  verified
    duckdb 2.0.0    157     0            0      0     3  412 of 415 reads (99.3 %)

Verified is the share of all reads that were held against what they must give.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from harness.conformance.outcomes import Outcome
from harness.conformance.reports.wording import headline, lines_of
from harness.conformance.results import Case, Run
from harness.printable import visible

_TOLD = (Outcome.FAIL, Outcome.ERROR, Outcome.XPASS)
_ALWAYS = (Outcome.PASS, Outcome.FAIL, Outcome.UNSUPPORTED, Outcome.ERROR, Outcome.OPEN)


def to_text(run: Run) -> str:
    """The run as lines of text; each ends with a line feed, and holds no other control character."""
    told = [list(_case(case)) for outcome in _TOLD for case in run.cases if case.outcome is outcome]
    parts = [*told, _unsupported(run), _engines(run), _remarks(run), [headline(run)]]
    return "\n\n".join("\n".join(line.rstrip() for line in part) for part in parts if part) + "\n"


def _case(case: Case) -> Iterator[str]:
    label = case.outcome.value
    indent = " " * (len(label) + 2)
    yield f"{label}  {visible(case.id)}  {visible(case.scenario.title)}"
    yield from (indent + line for line in lines_of(case))
    yield f"{indent}again: {visible(case.command)}"


def _unsupported(run: Run) -> list[str]:
    """One line per reason and engine: the reasons are few, the scenarios many."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for case in run.cases:
        if case.outcome is Outcome.UNSUPPORTED:
            message = next(check.message for check in case.checks if check.outcome is Outcome.UNSUPPORTED)
            reasons.setdefault((case.engine.name, message or ""), []).append(case.scenario.name)
    return [
        visible(f"UNSUPPORTED  {engine}: {message}  ({names[0]}{f' and {len(names) - 1} more' if names[1:] else ''})")
        for (engine, message), names in reasons.items()
    ]


def _engines(run: Run) -> list[str]:
    """The table of engines."""
    counts = run.counts()
    shown = [outcome for outcome in Outcome if outcome in _ALWAYS or counts[outcome]]
    lines = [["engine", *(outcome.value for outcome in shown), "verified"]]
    for engine in run.engines:
        own = run.counts(engine)
        numbers = [f"{own[outcome]:,}" for outcome in shown]
        lines.append([visible(f"{engine.name} {engine.version}"), *numbers, str(run.share(engine))])
    return list(_aligned(lines))


def _aligned(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """Cells in columns; all but the first and the last to the right."""
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    last = len(widths) - 1
    for line in lines:
        padded = [" " * (width - cell_len(cell)) for cell, width in zip(line, widths, strict=True)]
        cells = [
            cell + space if number in (0, last) else space + cell
            for number, (cell, space) in enumerate(zip(line, padded, strict=True))
        ]
        yield "  ".join(cells)


def _remarks(run: Run) -> list[str]:
    missing = [f"not run: {name}: {why}" for name, why in run.missing.items()]
    unused = [f"unused: {line.file}, line {line.line}: nothing matches {line.pattern}" for line in run.unused]
    where = ", ".join(f"{name} {value}" for name, value in run.environment.items())
    return [visible(line) for line in [*missing, *unused, where] if line]
