"""A trace as an HTML page: for each row a time line of its versions over the commits, and a table of its events.

The page needs no network and no script. Texts of the table are escaped, and words carry what colors carry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.diff.reports.html import asset, document
from harness.errors import counted, html_text
from harness.metadata.model.drawing import BarKind
from harness.metadata.model.text_tables import cut_text
from harness.metadata.plan.lifetimes import BEFORE
from harness.trace.model import EventKind, FileDecision, MissingReport, RowVersion, Trace, TracedRow
from harness.trace.sentences import short_names
from harness.trace.text import event_text, summary, title, when

MOST_ROWS, _MOST_FILES = 100, 1_000
"""The most rows and files that a page shows."""
_MOST_TICKS, _LABEL = 12, 60
_LEFT, _WIDTH = 3, 94
"""The place of the first commit and the distance to the end of the range, in percent of the width."""
_TOP, _LANE = 22, 34
"""The height of the axis and of a version, in pixels."""
_VISIBLE, _HIDDEN = BarKind.ADDED.color, BarKind.SKIPPED.color
_MARKS = {
    EventKind.DELETED: ("×", BarKind.DELETED.color),
    EventKind.HIDDEN: ("×", BarKind.DELETED.color),
    EventKind.NEVER: ("×", BarKind.DELETED.color),
    EventKind.REMOVED: ("■", BarKind.DELETED.color),
    EventKind.REPLACED: ("■", BarKind.DELETED.color),
}
"""The sign and the color of each end of a row."""


def to_html(trace: Trace, most: int = MOST_ROWS) -> str:
    """Return a trace as an HTML page.

    Args:
        trace: The trace.
        most: The most rows to show.
    """
    is_visible = any(row.is_visible for row in trace.rows)
    body = [
        f'<header class="{"equal" if is_visible else "different"}">',
        f'<h1><span class="sign">{"✓" if is_visible else "×"}</span>{html_text(trace.table)}</h1>',
        f"<p>{html_text(summary(trace))}</p>",
        "</header>",
        "<main>",
    ]
    names = short_names(version.file for row in trace.rows for version in row.versions)
    for number, row in enumerate(trace.rows[:most], 1):
        body += _section(trace, row, number, names)
    if len(trace.rows) > most:
        body.append(f"<p>{counted(len(trace.rows) - most, 'more row')}; the JSON document has all rows.</p>")
    if trace.gaps:
        items = "".join(f"<li>{html_text(gap)}</li>" for gap in trace.gaps)
        body.append(f'<section class="gaps"><h2>Not read</h2><ul>{items}</ul></section>')
    if trace.missing is not None:
        body += _missing(trace.missing)
    body.append("</main>")
    return document(f"harness trace {trace.table}", body, style=asset("harness.diff.reports", "report.css"))


def _section(trace: Trace, row: TracedRow, number: int, names: Mapping[str, str]) -> Iterator[str]:
    sign = "✓" if row.is_visible else "×"
    yield f'<section class="row {"visible" if row.is_visible else "hidden"}" aria-labelledby="row-{number}">'
    yield f'<h2 id="row-{number}">{html_text(cut_text(title(row), _LABEL * 3))}</h2>'
    yield f"<p>{sign} {html_text(row.sentence)}</p>"
    yield f"<figure>{_time_line(trace, row, names)}</figure>"
    yield f'<div class="scroll" tabindex="0" role="group" aria-labelledby="row-{number}">'
    yield '<table class="events"><thead><tr>'
    heads = ("", trace.point, "time", "operation", "writer", "event")
    yield from (f'<th scope="col">{head}</th>' for head in heads)
    yield "</tr></thead><tbody>"
    ticks = _ticks(row)
    for event in row.events:
        cells = (f"#{ticks[event.commit]}", *when(trace, event), event_text(event))
        yield f"<tr>{''.join(f'<td>{html_text(cell)}</td>' for cell in cells)}</tr>"
    yield "</tbody></table></div></section>"


def _ticks(row: TracedRow) -> dict[int, int]:
    """Return the number of each commit with an event, in order, from 1."""
    return {commit: number for number, commit in enumerate(sorted({event.commit for event in row.events}), 1)}


def _time_line(trace: Trace, row: TracedRow, names: Mapping[str, str]) -> str:
    """Return the versions of a row as bars, from top to bottom, over the commits that matter to the row."""
    ticks = _ticks(row)
    commits = sorted(ticks.keys() | {version.removed for version in row.versions if version.removed is not None})
    place = {commit: _LEFT + _WIDTH / len(commits) * number for number, commit in enumerate(commits)}
    height = _TOP + _LANE * len(row.versions) + 24
    parts = [*_axis(ticks, place, height - 24)]
    for lane, version in enumerate(row.versions):
        parts += _lane(trace, row, lane, version, place, names)
    parts += _legend(row, height)
    label = html_text(f"time line: {row.sentence}")
    style = 'fill="currentColor" font-family="system-ui, sans-serif" font-size="13"'
    head = f'<svg class="picture" xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" width="100%"'
    return f'{head} height="{height + 8}" {style}>{"".join(parts)}</svg>'


def _axis(ticks: Mapping[int, int], place: Mapping[int, float], bottom: int) -> Iterator[str]:
    every = -(-len(ticks) // _MOST_TICKS)
    for commit, number in ticks.items():
        x = f"{place[commit]:g}%"
        if (number - 1) % every == 0:
            text = "before" if commit == BEFORE else f"#{number}"
            yield f'<text x="{x}" y="12" text-anchor="middle" font-size="12">{text}</text>'
        yield f'<line x1="{x}" x2="{x}" y1="18" y2="{bottom}" stroke="currentColor" stroke-opacity="0.25"/>'
    yield '<text x="100%" y="12" text-anchor="end" font-size="12">end</text>'


def _lane(
    trace: Trace,
    row: TracedRow,
    lane: int,
    version: RowVersion,
    place: Mapping[int, float],
    names: Mapping[str, str],
) -> Iterator[str]:
    """Yield the bar of a version: while it was visible, then while it was hidden in a live file, and its end."""
    y, end = _TOP + _LANE * lane, _LEFT + _WIDTH
    start = place[version.added]
    until = start if not version.was_visible else end if version.ended is None else place[version.ended]
    gone = end if version.removed is None else place[version.removed]
    name = f"{names.get(version.file, version.file)}, position {version.position}"
    yield f"<g><title>{html_text(name)}</title>"
    yield _bar(until, gone, y + 16, f'"{_HIDDEN}" fill-opacity="0.4"')
    yield _bar(start, until, y + 16, f'"{_VISIBLE}"')
    is_late = start > _LEFT + _WIDTH / 2
    anchor, x = ("end", max(until, gone)) if is_late else ("start", start)
    text = html_text(cut_text(name, _LABEL, tail=_LABEL // 2))
    yield f'<text x="{x:g}%" y="{y + 11}" text-anchor="{anchor}">{text}</text>'
    for event in row.events:
        if event.version == lane and event.kind in _MARKS:
            sign, color = _MARKS[event.kind]
            mark = f'fill="{color}" font-size="20" font-weight="700" text-anchor="middle"'
            yield f'<text class="end" x="{until:g}%" y="{y + 28}" {mark}>{sign}</text>'
    yield "</g>"


def _bar(start: float, end: float, y: int, fill: str) -> str:
    if end <= start:
        return ""
    return f'<rect x="{start:g}%" y="{y}" width="{end - start:g}%" height="10" fill={fill}/>'


def _legend(row: TracedRow, y: int) -> Iterator[str]:
    """Yield the meanings of the colors and signs in the time line of a row."""
    kinds = {event.kind for event in row.events}
    is_hidden = any(version.delete is not None and version.ended != version.removed for version in row.versions)
    x = 0
    for is_shown, sign, color, words in (
        (any(version.was_visible for version in row.versions), "", f'"{_VISIBLE}"', "visible"),
        (is_hidden, "", f'"{_HIDDEN}" fill-opacity="0.4"', "hidden in a live file"),
        *((kind in kinds, sign, f'"{color}"', kind.value) for kind, (sign, color) in _MARKS.items()),
    ):
        if not is_shown:
            continue
        if sign:
            yield f'<text x="{x}" y="{y}" fill={color} font-weight="700">{sign}</text>'
        else:
            yield f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill={color}/>'
        yield f'<text x="{x + 15}" y="{y}">{words}</text>'
        x += 15 + 7 * (len(words) + 2)


def _missing(report: MissingReport) -> Iterator[str]:
    yield f'<section class="missing"><h2>Live files</h2><p>{html_text(report.sentence)}</p>'
    yield '<div class="scroll" tabindex="0"><table><thead><tr><th scope="col">a read</th><th scope="col">why</th>'
    yield "</tr></thead><tbody>"
    for file in report.files[:_MOST_FILES]:
        is_wrong = file.decision is not FileDecision.READ and (file.visible or file.deleted)
        decision = f"{'× ' if is_wrong else ''}{file.decision.value}"
        yield f"<tr><td>{html_text(decision)}</td><td>{html_text(file.sentence)}</td></tr>"
    yield "</tbody></table></div>"
    if len(report.files) > _MOST_FILES:
        yield f"<p>{counted(len(report.files) - _MOST_FILES, 'more file')}; the JSON document has all files.</p>"
    yield "</section>"
