"""A trace as text: for each row its sentence and its events, then the gaps, and the files without a matching row."""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import counted, visible
from harness.metadata.model.text_tables import Column, fold, table_lines
from harness.metadata.model.times import show_ms
from harness.trace.model import ENDINGS, FileDecision, MissingReport, RowEvent, Trace, TracedRow

MOST_ROWS, MOST_FILES = 50, 50
"""The most rows and live files that a text shows."""
_INDENT = "  "


def to_text(trace: Trace, width: int | None = None) -> str:
    """Return a trace as text for a terminal.

    Args:
        trace: The trace.
        width: The maximum width of a line in cells. None: unlimited.
    """
    lines = [visible(summary(trace))]
    for row in trace.rows[:MOST_ROWS]:
        lines += ["", *_row(trace, row)]
    if len(trace.rows) > MOST_ROWS:
        lines += ["", f"{counted(len(trace.rows) - MOST_ROWS, 'more row')}; the JSON document has all rows"]
    if trace.gaps:
        lines += ["", "Not read:", *(_INDENT + visible(gap) for gap in trace.gaps)]
    if trace.missing is not None:
        lines += ["", *_missing(trace.missing)]
    return "\n".join(line if width is None else fold(line, width) for line in lines)


def summary(trace: Trace) -> str:
    """Return the number of matching rows, and how many of them are visible, as a sentence."""
    shown = sum(row.is_visible for row in trace.rows)
    first, last = (trace.commits[0].id, trace.commits[-1].id) if trace.commits else (None, None)
    span = (
        "of a table without commits"
        if first is None
        else f"in {trace.point} {first}"
        if first == last
        else f"from {trace.point} {first} to {last}"
    )
    if not trace.rows:
        return f"No row {'that can be read ' if trace.gaps else ''}matched {trace.condition} {span}."
    if len(trace.rows) == 1:
        return f"1 row matches {trace.condition} {span}. It is {'' if shown else 'not '}visible at the end."
    return (
        f"{len(trace.rows):,} rows match {trace.condition} {span}. {shown:,} of them {'is' if shown == 1 else 'are'} "
        "visible at the end."
    )


def title(row: TracedRow) -> str:
    """Return the values of a row, and its row id if it has one."""
    values = ", ".join(f"{name}={'NULL' if text is None else text}" for name, text in row.texts.items())
    return values if row.row_id is None else f"{values} (row id {row.row_id})"


def when(trace: Trace, event: RowEvent) -> tuple[str, str, str, str]:
    """Return the commit of an event, its time, its operation, and its writer."""
    commit = trace.commit(event.commit)
    if commit is None:
        return "before", "", "", ""
    time = "" if commit.timestamp_ms is None else show_ms(commit.timestamp_ms)
    return str(commit.id), time, commit.operation or "", commit.writer or ""


def event_text(event: RowEvent) -> str:
    """Return what happened in an event, as a phrase."""
    is_ending = event.kind in ENDINGS
    return f"{event.kind.value}{':' if is_ending else ''} {event.text}"


def _row(trace: Trace, row: TracedRow) -> Iterator[str]:
    yield visible(title(row))
    yield _INDENT + visible(row.sentence)
    names = (trace.point, "time", "operation", "writer")
    cells = [when(trace, event) for event in row.events]
    shown = [place for place in range(len(names)) if any(line[place] for line in cells)]
    columns = [Column(names[place], is_whole=True) for place in shown]
    lines = table_lines(columns, [[[line[place] for place in shown] for line in cells]])
    yield _INDENT + next(lines)
    for event, line in zip(row.events, lines, strict=True):
        yield _INDENT + line
        yield _INDENT * 2 + visible(event_text(event))


def _missing(report: MissingReport) -> Iterator[str]:
    yield visible(report.sentence)
    yield from (_INDENT + visible(file.sentence) for file in report.files[:MOST_FILES])
    hidden = report.files[MOST_FILES:]
    for decision in FileDecision:
        count = sum(file.decision is decision for file in hidden)
        if count:
            yield f"{_INDENT}{counted(count, 'more file')}: {decision.value}"
