"""The reports of many comparisons: text, JSON, JUnit XML, or one HTML page.

All functions are pure functions of a `Batch`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from xml.etree import ElementTree

from harness.diff.reports.documents import document, suite
from harness.diff.reports.html import asset, header
from harness.diff.reports.html import document as page
from harness.diff.result import Batch, BatchEntry, BatchOutcome
from harness.errors import html_text as escaped
from harness.errors import json_text, visible
from harness.metadata.model.frames import html_preformatted
from harness.metadata.model.text_tables import align

FORMAT = 1
_STYLES = {
    BatchOutcome.DIFFERENT: ("≠", "different"),
    BatchOutcome.FAILED: ("!", "failed"),
    BatchOutcome.REFUSED: ("?", "failed"),
    BatchOutcome.ALLOWED: ("≈", "equal"),
    BatchOutcome.EQUAL: ("=", "equal"),
}
"""The sign and CSS class of each outcome, in the order in which reports list them."""


def _ranked(batch: Batch) -> list[BatchEntry]:
    ranks = list(_STYLES)
    return sorted(batch.entries, key=lambda entry: ranks.index(entry.outcome))


def to_text(batch: Batch) -> str:
    """Return a line for each comparison, those that differ first, followed by the reports of those that differ."""
    lines = [summary(batch), ""]
    cells = []
    for entry in _ranked(batch):
        parts = (("left", entry.left_seconds), ("right", entry.right_seconds))
        times = ", ".join(f"{side} {seconds:.2f} s" for side, seconds in parts if seconds is not None)
        text = f"{entry.message}{f'  ({times})' if times else ''}"
        outcome = "" if entry.outcome is BatchOutcome.EQUAL else f"{entry.outcome.value}: "
        cells.append((f"{_STYLES[entry.outcome][0]} {entry.name}", f"{outcome}{text}"))
    lines += align(cells)
    for entry in batch.entries:
        if entry.outcome is BatchOutcome.DIFFERENT and entry.report is not None:
            lines += ["", f"── {visible(entry.name)}", "", entry.report.rstrip("\n")]
    return "\n".join(lines) + "\n"


def summary(batch: Batch) -> str:
    """Return the title and the counts in one sentence."""
    counts = [f"{batch.count(outcome):,} {outcome.value}" for outcome in BatchOutcome if batch.count(outcome)]
    return f"{visible(batch.title)}: {', '.join(counts) or 'nothing to compare'}"


def to_json(batch: Batch) -> str:
    """Return a JSON document. `docs/reference/json.md` describes its keys."""
    content = {
        "format": FORMAT,
        "kind": "comparisons",
        "title": batch.title,
        "sides": batch.sides,
        "made": batch.made and asdict(batch.made),
        "counts": {outcome.value: batch.count(outcome) for outcome in BatchOutcome},
        "entries": [
            {
                "name": entry.name,
                "outcome": entry.outcome.value,
                "message": entry.message,
                "asked": entry.commands,
                "left_seconds": entry.left_seconds,
                "right_seconds": entry.right_seconds,
                "comparison": entry.document,
            }
            for entry in batch.entries
        ],
    }
    return json_text(content, indent=2) + "\n"


def to_junit(batch: Batch) -> str:
    """Return a JUnit suite with a case for each comparison. Refused comparisons are skipped with their reason."""
    properties = [("left", batch.sides[0]), ("right", batch.sides[1])]
    return document([suite("harness diff", properties, [_case(entry) for entry in batch.entries])])


def _case(entry: BatchEntry) -> ElementTree.Element:
    seconds = sum(each or 0.0 for each in (entry.left_seconds, entry.right_seconds))
    attributes = {"classname": "harness.diff", "name": visible(entry.name), "time": f"{seconds:.3f}"}
    case = ElementTree.Element("testcase", attributes)
    message = visible(entry.message)
    match entry.outcome:
        case BatchOutcome.EQUAL:
            pass
        case BatchOutcome.ALLOWED:
            ElementTree.SubElement(case, "system-out").text = message
        case BatchOutcome.REFUSED:
            ElementTree.SubElement(case, "skipped", {"message": message})
        case BatchOutcome.DIFFERENT | BatchOutcome.FAILED:
            kind = "failure" if entry.outcome is BatchOutcome.DIFFERENT else "error"
            result = ElementTree.SubElement(case, kind, {"type": entry.outcome.value, "message": message})
            result.text = "\n" + (entry.report or message)
    return case


def to_html(batch: Batch) -> str:
    """Return a self-contained page: a table of all comparisons, and a collapsed report of each unequal one."""
    if batch.equal:
        sign, tone = _STYLES[BatchOutcome.EQUAL]
    else:
        sign, tone = _STYLES[BatchOutcome.DIFFERENT if batch.count(BatchOutcome.DIFFERENT) else BatchOutcome.FAILED]
    head = header(tone, sign, batch.title, summary(batch).partition(": ")[2], batch.made)
    entries = _ranked(batch)
    body = [*head, "<main>", *_table(entries, batch.sides), *_details(entries), "</main>"]
    return page(summary(batch), body, style=asset(__package__, "report.css"))


def _table(entries: Sequence[BatchEntry], sides: tuple[str, str]) -> Iterator[str]:
    """Yield a table of all comparisons, with columns for seconds only if times were measured."""
    timed = any(each is not None for entry in entries for each in (entry.left_seconds, entry.right_seconds))
    heads = "".join(f'<th scope="col" class="number">{escaped(side)}, s</th>' for side in sides) if timed else ""
    yield '<section aria-labelledby="all"><h2 id="all">Comparisons</h2>'
    yield '<div class="scroll" tabindex="0" role="group" aria-labelledby="all"><table class="batch">'
    yield '<thead><tr><td></td><th scope="col">name</th><th scope="col">outcome</th><th scope="col">finding</th>'
    yield f"{heads}</tr></thead><tbody>"
    for number, entry in enumerate(entries):
        name = f"<code>{escaped(entry.name)}</code>"
        if _has_details(entry):
            name = f'<a href="#entry-{number}">{name}</a>'
        sign, tone = _STYLES[entry.outcome]
        yield f'<tr class="{tone}"><td class="mark">{sign}</td><th scope="row">{name}</th>'
        yield f"<td>{entry.outcome.value}</td><td>{escaped(entry.message)}</td>"
        for each in (entry.left_seconds, entry.right_seconds) if timed else ():
            yield f'<td class="number">{"" if each is None else f"{each:.2f}"}</td>'
        yield "</tr>"
    yield "</tbody></table></div></section>"


def _details(entries: Sequence[BatchEntry]) -> Iterator[str]:
    is_open = " open"
    for number, entry in enumerate(entries):
        if _has_details(entry):
            yield f"<details{is_open}>"  # browsers open it for a link to its content
            yield f"<summary><code>{escaped(entry.name)}</code> {escaped(entry.message)}</summary>"
            yield f'<div id="entry-{number}">{html_preformatted(entry.report or "")}</div></details>'
            is_open = ""


def _has_details(entry: BatchEntry) -> bool:
    return entry.report is not None and entry.outcome is not BatchOutcome.EQUAL
