"""The newest run as the tables of `docs/bench/index.md`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from bench_records import Failed, Outcome, Record

START = "<!-- figures: written by `nox -s bench` -->\n"
END = "<!-- end of figures -->\n"


def figures(records: Sequence[Record]) -> str:
    """The tables of one run, one for each group of figures, with what was measured on; Markdown."""
    if not records:
        return "No run has been recorded yet.\n"
    run = records[0].run
    parts = [f"Commit `{run.commit}`, {run.date[:10]}, {run.cores} cores, {run.system}, Python {run.python}."]
    for group in dict.fromkeys(record.group for record in records):
        parts.append(f"### {group}\n\n{_table([record for record in records if record.group == group])}")
    parts.append(f"### Versions\n\n{_versions(records)}")
    return "\n\n".join(parts) + "\n"


def _table(records: Sequence[Record]) -> str:
    names = list(dict.fromkeys(name for record in records for name in record.outcomes))
    lines = [_row(["", *names]), _row(["---", *("---:" for _ in names)])]
    lines += [_row([record.title, *(_cell(record.outcomes.get(name)) for name in names)]) for record in records]
    return "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(outcome: Outcome | None) -> str:
    if outcome is None:
        return ""
    if isinstance(outcome, Failed):
        return "fails"
    peak = "" if outcome.peak_mib is None else f", {outcome.peak_mib:.0f} MiB"
    return f"**{_number(outcome.ratio)}**<br>{_seconds(outcome.wall_s)}, CPU {_seconds(outcome.cpu_s)}{peak}"


def line(record: Record) -> str:
    """A record in a line, for the terminal."""
    parts = []
    for name, outcome in record.outcomes.items():
        if isinstance(outcome, Failed):
            parts.append(f"{name} fails: {outcome.reason}")
        else:
            parts.append(f"{name} {_number(outcome.ratio)} ({_seconds(outcome.wall_s)})")
    return f"{record.figure}: {'; '.join(parts)}"


def _number(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _seconds(value: float) -> str:
    if value < 0.0995:
        return f"{value * 1000:.2g} ms"
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


def _versions(records: Sequence[Record]) -> str:
    found = {(name, outcome.versions) for record in records for name, outcome in record.outcomes.items()}
    return "\n".join(f"- {name}: {versions}" for name, versions in sorted(found))


def put(page: str, tables: str) -> str:
    """The page with these tables between its two marks.

    Raises:
        ValueError: it lacks a mark.
    """
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError("Cannot put figures into the page: it lacks the marks of their place")
    return f"{before}{start}\n{tables}\n{end}{after}"


def write(path: Path, tables: str) -> None:
    """Puts the tables into the page at `path`."""
    path.write_text(put(path.read_text("utf-8"), tables), "utf-8")
