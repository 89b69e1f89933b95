"""The reports of many comparisons: text, JSON, JUnit XML or one HTML page. Pure functions of a `Batch`.

format, kind   1, "comparisons"
title, sides   what was compared
counts         by outcome: "equal", "allowed difference", "different", "refused", "failed"
entries        name, outcome, message, left_seconds, right_seconds, comparison: as
               `harness.differ.reports.documents` has it, or null
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

from harness.differ.reports.documents import document, suite
from harness.differ.reports.html import asset
from harness.differ.reports.html import document as page
from harness.differ.result import Batch, BatchEntry, BatchOutcome
from harness.errors import html_text as escaped
from harness.errors import json_text, visible

FORMAT = 1
_SIGNS = {
    BatchOutcome.EQUAL: "=",
    BatchOutcome.ALLOWED: "≈",
    BatchOutcome.DIFFERENT: "≠",
    BatchOutcome.REFUSED: "?",
    BatchOutcome.FAILED: "!",
}
_CLASSES = {
    BatchOutcome.EQUAL: "equal",
    BatchOutcome.ALLOWED: "equal",
    BatchOutcome.DIFFERENT: "different",
    BatchOutcome.REFUSED: "failed",
    BatchOutcome.FAILED: "failed",
}


def to_text(batch: Batch) -> str:
    """A line for each comparison, then the reports of different ones."""
    lines = [f"{summary(batch)}", ""]
    width = max((len(visible(entry.name)) for entry in batch.entries), default=0)
    for entry in batch.entries:
        parts = (("left", entry.left_seconds), ("right", entry.right_seconds))
        times = ", ".join(f"{side} {seconds:.2f} s" for side, seconds in parts if seconds is not None)
        said = f"{visible(entry.message)}{f'  ({times})' if times else ''}"
        lines.append(f"{_SIGNS[entry.outcome]} {visible(entry.name).ljust(width)}  {entry.outcome.value}: {said}")
    for entry in batch.entries:
        if entry.outcome is BatchOutcome.DIFFERENT and entry.report is not None:
            lines += ["", f"── {visible(entry.name)}", "", entry.report.rstrip("\n")]
    return "\n".join(lines) + "\n"


def summary(batch: Batch) -> str:
    """The counts in a sentence."""
    counts = [f"{batch.count(outcome):,} {outcome.value}" for outcome in BatchOutcome if batch.count(outcome)]
    return f"{visible(batch.title)}: {', '.join(counts) or 'nothing to compare'}"


def to_json(batch: Batch) -> str:
    """A JSON document, see the module's table."""
    content = {
        "format": FORMAT,
        "kind": "comparisons",
        "title": batch.title,
        "sides": batch.sides,
        "counts": {outcome.value: batch.count(outcome) for outcome in BatchOutcome},
        "entries": [
            {
                "name": entry.name,
                "outcome": entry.outcome.value,
                "message": entry.message,
                "left_seconds": entry.left_seconds,
                "right_seconds": entry.right_seconds,
                "comparison": entry.document,
            }
            for entry in batch.entries
        ],
    }
    return json_text(content, indent=2) + "\n"


def to_junit(batch: Batch) -> str:
    """A suite with a case for each comparison; what was refused is skipped with its reason."""
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
            found = ElementTree.SubElement(case, kind, {"type": entry.outcome.value, "message": message})
            found.text = "\n" + (entry.report or message)
    return case


def to_html(batch: Batch) -> str:
    """A self-contained page: a table of all comparisons, then the report of each that is not equal, to be opened."""
    body = [*_head(batch), *_table(batch), *_details(batch), "</main>"]
    return page(summary(batch), body, style=asset(__package__, "report.css"))


def _head(batch: Batch) -> Iterator[str]:
    bad = batch.count(BatchOutcome.DIFFERENT)
    tone = "equal" if batch.equal else "different" if bad else "failed"
    sign = "=" if batch.equal else "≠" if bad else "!"
    yield f'<header class="{tone}"><h1><span class="sign" aria-hidden="true">{sign}</span> {escaped(batch.title)}</h1>'
    yield f'<p id="sentence">{escaped(summary(batch).partition(": ")[2])}</p></header><main>'


def _table(batch: Batch) -> Iterator[str]:
    yield '<section aria-labelledby="all"><h2 id="all">Comparisons</h2><div class="scroll"><table class="batch">'
    left, right = (escaped(side) for side in batch.sides)
    yield '<thead><tr><td></td><th scope="col">name</th><th scope="col">outcome</th><th scope="col">finding</th>'
    yield f'<th scope="col" class="number">{left}, s</th><th scope="col" class="number">{right}, s</th></tr></thead>'
    yield "<tbody>"
    for number, entry in enumerate(batch.entries):
        name = f"<code>{escaped(entry.name)}</code>"
        if _has_details(entry):
            name = f'<a href="#entry-{number}">{name}</a>'
        seconds = "".join(
            f'<td class="number">{"" if each is None else f"{each:.2f}"}</td>'
            for each in (entry.left_seconds, entry.right_seconds)
        )
        yield (
            f'<tr class="{_CLASSES[entry.outcome]}"><td class="mark">{_SIGNS[entry.outcome]}</td>'
            f'<th scope="row">{name}</th><td>{entry.outcome.value}</td><td>{escaped(entry.message)}</td>{seconds}</tr>'
        )
    yield "</tbody></table></div></section>"


def _details(batch: Batch) -> Iterator[str]:
    shown = [(number, entry) for number, entry in enumerate(batch.entries) if _has_details(entry)]
    for place, (number, entry) in enumerate(shown):
        yield f'<details id="entry-{number}"{" open" if place == 0 else ""}>'
        yield f"<summary><code>{escaped(entry.name)}</code> {escaped(entry.message)}</summary>"
        yield f"<pre>{escaped(entry.report or '')}</pre></details>"


def _has_details(entry: BatchEntry) -> bool:
    return entry.report is not None and entry.outcome is not BatchOutcome.EQUAL
