"""Reports of a run: differences between two runs, and the tables of the newest run in `docs/bench/index.md`."""

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from bench_records import FailedMeasurement, Measurement, Outcome, Record

OURS = "harness"
"""The prefix of the names of the project's own readers. Results of the other readers never count as regressions."""

LEAST = 1.1
"""Ratios that differ by less are considered equal."""


Difference: TypeAlias = tuple[Literal["slower", "faster", "failed", "missing"], str]
"""The kind of difference, and a reader's figure in two runs as text. All kinds except `faster` are regressions."""


def differences(now: Sequence[Record], then: Sequence[Record]) -> list[Difference]:
    """Return the differences of the project's figures, in the order of `then`.

    Figures that are only in `now` are ignored.

    A ratio differs if the interquartile ranges of both runs do not overlap and the medians differ by `LEAST`.
    """
    present = {record.figure: record for record in now}
    changes = []
    for record in then:
        current = present.get(record.figure)
        for name, before in record.outcomes.items():
            if not name.startswith(OURS) or isinstance(before, FailedMeasurement):
                continue
            after = None if current is None else current.outcomes.get(name)
            difference = _difference(f"{record.group}, {record.title}, {name}", before, after)
            if difference is not None:
                changes.append(difference)
    return changes


def _difference(what: str, before: Measurement, after: Outcome | None) -> Difference | None:
    match after:
        case None:
            return ("missing", f"{what}: {_figure_text(before)} is no longer measured")
        case FailedMeasurement(reason=reason):
            return ("failed", f"{what}: {_figure_text(before)}, now it fails: {reason}")
    text = f"{what}: {_figure_text(before)}, now {_figure_text(after)}"
    if after.ratio_low > before.ratio_high and after.ratio > before.ratio * LEAST:
        return ("slower", text)
    if after.ratio_high < before.ratio_low and after.ratio * LEAST < before.ratio:
        return ("faster", text)
    return None


def _figure_text(figure: Measurement) -> str:
    return f"{figure.ratio:.3g} ({figure.ratio_low:.3g} to {figure.ratio_high:.3g}) times the floor"


def report(now: Sequence[Record], then: Sequence[Record]) -> str:
    """Return a comparison of two runs as text."""
    if not now or not then:
        return f"Nothing to compare: there is no {'run' if not now else 'such earlier run'} at this scale."
    this, that = now[0].run, then[0].run
    lines = [f"{this.commit} of {this.date} against {that.commit} of {that.date}"]
    if (this.cores, this.system) != (that.cores, that.system):
        lines.append(f"another machine: {that.system}, {that.cores} cores; now {this.system}, {this.cores} cores")
    before = {record.figure: record.outcomes[record.floor].versions for record in then}
    floors = {(r.floor, before[r.figure], r.outcomes[r.floor].versions) for r in now if r.figure in before}
    lines += [f"another floor: {floor}: {old}, now {new}" for floor, old, new in sorted(floors) if old != new]
    changes = differences(now, then)
    lines += [f"{kind}: {text}" for kind, text in changes]
    if not any(kind != "faster" for kind, _ in changes):
        lines.append("nothing became slower by more than the noise")
    return "\n".join(lines)


START = "<!-- figures: written by `nox -s bench` -->\n"
END = "<!-- end of figures -->\n"


def figures(records: Sequence[Record]) -> str:
    """Return the tables of one run in Markdown, one for each group of figures, with the environment."""
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
    if isinstance(outcome, FailedMeasurement):
        return "fails"
    peak = "" if outcome.peak_mib is None else f", {outcome.peak_mib:.0f} MiB"
    return f"**{_number(outcome.ratio)}**<br>{_seconds(outcome.wall_s)}, CPU {_seconds(outcome.cpu_s)}{peak}"


def line(record: Record) -> str:
    """Return a record as one line for the terminal."""
    parts = []
    for name, outcome in record.outcomes.items():
        if isinstance(outcome, FailedMeasurement):
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
    pairs = {(name, outcome.versions) for record in records for name, outcome in record.outcomes.items()}
    return "\n".join(f"- {name}: {versions}" for name, versions in sorted(pairs))


def put(page: str, tables: str) -> str:
    """Return the page with the tables between its two marks.

    Raises:
        ValueError: The page lacks a mark.
    """
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError("Cannot put figures into the page: it lacks the marks of their place")
    return f"{before}{start}\n{tables}\n{end}{after}"
