"""The HTML report: one file that needs no network, no server and, except for the filter, no script.

All text from tables is escaped. In addition, a content security policy allows only the style and script of this
package, by their hashes, so that even an unescaped value could neither run nor load anything. Differences are marked by
signs and words, not only by color.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from importlib import resources

from harness.diff.reports.text import (
    MORE_PARTS,
    ReportTable,
    RowPairing,
    column_table,
    count_phrase,
    origin_texts,
    pair_rows,
    relaxation_lines,
)
from harness.diff.reports.where import where_html
from harness.diff.result import ComparisonOutcome, ComparisonResult, ReportProvenance, RowKind
from harness.errors import counted
from harness.errors import html_text as escaped
from harness.metadata.model.frames import html_preformatted


def document(title: str, body: Iterable[str], *, style: str, script: str | None = None) -> str:
    """Return a whole page. Its content security policy allows only this style and script, by their hashes.

    Args:
        title: Any text.
        body: Lines of HTML.
        style: The CSS.
        script: The JavaScript, if any.
    """
    scripts = "'none'" if script is None else _hash(script)
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {scripts}; base-uri 'none'; form-action 'none'"
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{escaped(title)}</title>",
        f"<style>{style}</style>",
        "</head>",
        "<body>",
        *body,
        *([] if script is None else [f"<script>{script}</script>"]),
        "</body>",
        "</html>",
    ]
    return "\n".join(lines) + "\n"


def asset(package: str, name: str) -> str:
    """Return a style or script file of a package."""
    return resources.files(package).joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_LEAST, _MOST, _LINE = 320, 760, 22
"""Pixels: the smallest and largest height of a frame, and the height of a line of the text report."""


MOST_FRAMED_ROWS = 20
"""The most differing rows in a notebook, because the notebook's file stores each page."""


def notebook_frame(page: str, text: str) -> str:
    """Return an HTML fragment for notebooks: the page in a frame, and the text below it.

    The sandboxed frame cannot access the notebook, and keeps the styles apart. Code hosts that remove frames from
    notebooks still show the text.

    Args:
        page: The HTML report.
        text: The report for a terminal.
    """
    height = min(_MOST, _LEAST + _LINE * text.count("\n"))
    size = f'width="100%" height="{height}" style="border: 0"'
    # a page has more double quotes and tags than single quotes and ampersands
    quoted = page.replace("&", "&amp;").replace("'", "&#x27;")
    frame = f"<iframe sandbox=\"allow-scripts\" srcdoc='{quoted}' {size}></iframe>"
    return f"<div>{frame}<details><summary>as text</summary>{html_preformatted(text, in_notebook=True)}</details></div>"


STYLES = {
    ComparisonOutcome.EQUAL: ("=", "No difference", "equal"),
    ComparisonOutcome.DIFFERENT: ("≠", "Differences found", "different"),
    ComparisonOutcome.DIFFERENT_OUTCOME: ("≠", "Different outcome", "different"),
    ComparisonOutcome.FAILED: ("!", "Could not compare", "failed"),
}
"""The sign, title, and CSS class of each outcome."""
_MOST_NAMES = 3
MOST_ROWS = 5_000
"""The most differing rows of a page, because browsers cannot open a page of 100,000."""
_MANY_COLUMNS = 30
"""The number of columns beyond which only differing columns are shown at first."""


def to_html(comparison: ComparisonResult, most: int = MOST_ROWS) -> str:
    """Return the comparison as an HTML document.

    `#only=changed` and `#find=TEXT` in its address set the filter.

    Args:
        comparison: The comparison.
        most: The most differing rows to show.
    """
    sign, title, tone = STYLES[comparison.outcome]
    body = [
        *header(tone, sign, title, comparison.sentence, comparison.made),
        "<main>",
        *_summary(comparison),
        *_schema(comparison),
        *where_html(comparison),
        *_totals(column_table(comparison)),
        *_rows(comparison, most),
        "</main>",
    ]
    title = f"{title}: {comparison.left.name} / {comparison.right.name}"
    return document(title, body, style=asset(__package__, "report.css"), script=asset(__package__, "report.js"))


def header(tone: str, sign: str, title: str, finding: str, provenance: ReportProvenance | None = None) -> Iterator[str]:
    """Yield the header of a report.

    Args:
        tone: A CSS class.
        sign: The sign before the title.
        title: Any text.
        finding: Any text.
        provenance: How the report was made.
    """
    yield f'<header class="{tone}"><h1><span class="sign" aria-hidden="true">{sign}</span> {escaped(title)}</h1>'
    yield f'<p id="sentence">{escaped(finding)}</p>'
    if provenance is not None:
        yield f'<p class="made">harness {escaped(provenance.version)}, <time>{escaped(provenance.at)}</time>:'
        yield f"<code>{escaped(provenance.command)}</code></p>"
    yield "</header>"


def _summary(comparison: ComparisonResult) -> Iterator[str]:
    yield '<section aria-labelledby="summary"><h2 id="summary">Summary</h2>'
    yield from _counts(comparison)
    yield from _sides(comparison)
    names, keys = (
        ", ".join(f"<code>{escaped(name)}</code>" for name in each) for each in (comparison.columns, comparison.keys)
    )
    text = f"{counted(len(comparison.columns), 'column')} compared"
    paired = f" Rows are paired by {keys}." if keys else ""
    if len(comparison.columns) > _MANY_COLUMNS:
        yield f'<details><summary>{text}.{paired}</summary><p class="columns">{names}</p></details>'
    elif comparison.columns:
        yield f'<p class="columns">{text}: {names}.{paired}</p>'
    if lines := relaxation_lines(comparison):
        items = "".join(f"<li>{escaped(line)}</li>" for line in lines)
        yield f'<div class="relaxed"><b>Not counted as differences</b><ul>{items}</ul></div>'
    yield "</section>"


def _totals(table: ReportTable | None) -> Iterator[str]:
    """Yield a table of counts, which scrolls inside its box if it is long."""
    if table is None:
        return
    heading = escaped(table.title[:1].upper() + table.title[1:])
    yield f'<section aria-labelledby="columns"><h2 id="columns">{heading}</h2>'
    yield '<div class="scroll" tabindex="0" role="group" aria-labelledby="columns"><table class="totals">'
    places = [' class="number"' if i in table.numbers else "" for i in range(len(table.names))]
    cells = "".join(f'<th scope="col"{c}>{escaped(n)}</th>' for n, c in zip(table.names, places, strict=True))
    yield f"<thead><tr>{cells}</tr></thead><tbody>"
    for first, *rest in table.lines:
        cells = "".join(f"<td{c}>{escaped(cell)}</td>" for cell, c in zip(rest, places[1:], strict=True))
        yield f'<tr><th scope="row"><code>{escaped(first)}</code></th>{cells}</tr>'
    yield "</tbody></table></div></section>"


def _counts(comparison: ComparisonResult) -> Iterator[str]:
    if comparison.failed or comparison.outcomes_differ:
        return
    counts = {"schema differences": comparison.counted_schema_differences}
    if not comparison.schema_only:
        changed = {"rows changed": comparison.changed} if comparison.keys else {}
        sides = {"rows only on the left": comparison.only_left, "rows only on the right": comparison.only_right}
        counts = {**changed, **sides, **counts}
    yield '<dl class="counts">'
    for name, number in counts.items():
        attribute = ' class="some"' if number else ""
        yield f"<div{attribute}><dt>{name}</dt><dd>{number:,}</dd></div>"
    yield "</dl>"


def _sides(comparison: ComparisonResult) -> Iterator[str]:
    sides = (comparison.left, comparison.right)
    yield '<div class="scroll"><table class="sides"><thead><tr><td></td>'
    yield '<th scope="col"><span class="mark">−</span> left</th><th scope="col"><span class="mark">+</span> right</th>'
    yield "</tr></thead><tbody>"
    values: dict[str, list[object]] = {
        **{name: [getattr(side, name) for side in sides] for name in ("name", "engine", "table")},
        "read at": [side.point for side in sides],
        "rows": [None if side.rows is None else f"{side.rows:,}" for side in sides],
        "error": [None if s.error is None else f"{type(s.error).__name__}: {s.error}" for s in sides],
    }
    for name, both in values.items():
        if any(value is not None for value in both):
            cells = "".join(f"<td>{'–' if value is None else escaped(value)}</td>" for value in both)
            yield f'<tr class="side-{name.split()[0]}"><th scope="row">{name}</th>{cells}</tr>'
    yield "</tbody></table></div>"


def _schema(comparison: ComparisonResult) -> Iterator[str]:
    if not comparison.schema:
        return
    yield '<section aria-labelledby="schema"><h2 id="schema">Schema</h2>'
    yield '<div class="scroll" tabindex="0" role="group" aria-labelledby="schema"><table class="schema">'
    yield '<thead><tr><td></td><th scope="col">column</th><th scope="col">left</th><th scope="col">right</th>'
    yield '<th scope="col">what</th></tr></thead><tbody>'
    for difference in comparison.schema:
        kind, mark, remark = ("counting", "≠", "") if difference.counts else ("remark", "", ", does not count")
        sides = zip(("left", "right"), (difference.left, difference.right), strict=True)
        cells = "".join(f'<td class="{side}">{"–" if value is None else escaped(value)}</td>' for side, value in sides)
        yield f'<tr class="{kind}"><td class="mark">{mark}</td>'
        yield f'<th scope="row"><code>{escaped(difference.column)}</code></th>{cells}'
        yield f"<td>{escaped(difference.words)}{remark}</td></tr>"
    yield "</tbody></table></div></section>"


def _rows(comparison: ComparisonResult, most: int) -> Iterator[str]:
    if comparison.differing:
        rows = pair_rows(comparison)[:most]
        shown_count, differing = sum(row.count for row in rows), comparison.differing
        yield '<section aria-labelledby="rows"><h2 id="rows">Differing rows</h2>'
        yield f'<p id="extent">{shown_count:,} of {differing:,} differing rows are in this report.</p>'
        if shown_count < comparison.rows_shown and most < MOST_ROWS:
            yield "<p><code>to_html()</code> shows more of them.</p>"
        elif shown_count < comparison.rows_shown:
            yield f"<p>A page ends at {MOST_ROWS:,}; a report in JSON, <code>--output rows.json</code>, has as many as "
            yield "<code>--max-rows</code> (<code>max_rows</code> in Python) lets show.</p>"
        elif shown_count < differing:
            yield "<p><code>--max-rows</code> (<code>max_rows</code> in Python) shows more of them.</p>"
        if rows:
            yield from _row_table(comparison, rows)
        yield "</section>"


def _row_table(comparison: ComparisonResult, rows: tuple[RowPairing, ...]) -> Iterator[str]:
    # A column that differs in some pair of rows has one column per side. Other columns need only one.
    split = {
        name: any(row.marked[number] for row in rows)
        for number, name in enumerate(comparison.columns)
        if name not in comparison.keys
    }
    if any(row.kind is None for row in rows):
        yield "<p>Without keys, rows that share at least half of their values are paired: similar, not equal.</p>"
    yield from _filter(rows, split)
    yield '<div class="scroll" tabindex="0" role="group" aria-labelledby="rows"><table class="rows">'
    yield from _head(comparison, split)
    for row in rows:
        yield from _row(row, comparison, split)
    yield '</table></div><p id="none" hidden>No row passes the filter.</p>'


def _kind(row: RowPairing) -> str:
    return "alike" if row.kind is None else row.kind.name.lower()


def _filter(rows: tuple[RowPairing, ...], split: dict[str, bool]) -> Iterator[str]:
    """Yield the filter. Its choices work without a script. Its text box needs the script, which makes it visible."""
    kinds = {_kind(row): row.label for row in rows}
    yield '<form class="filter" role="search" aria-label="Filter of the differing rows"><fieldset><legend>Show</legend>'
    for kind, label in {"all": "all", **kinds}.items():
        number = len(rows) if kind == "all" else sum(_kind(row) == kind for row in rows)
        checked = " checked" if kind == "all" else ""
        yield (
            f'<label><input type="radio" name="only" value="{kind}"{checked}> {label} '
            f'<span class="number">{number:,}</span></label>'
        )
    yield "</fieldset>"
    if any(split.values()) and not all(split.values()):
        checked = " checked" if len(split) > _MANY_COLUMNS else ""
        yield f'<label><input type="checkbox" name="differing"{checked}> only keys and columns that differ</label>'
    yield '<label class="find" hidden>Find <input type="search" name="find" autocomplete="off"></label>'
    yield '<output id="matching" aria-live="polite"></output></form>'


def _head(comparison: ComparisonResult, split: dict[str, bool]) -> Iterator[str]:
    number = sum(split.values())
    down = ' rowspan="2"' if number else ""
    keys = "".join(f'{escaped(name)} <span class="key">key</span> ' for name in comparison.keys)
    yield f'<thead><tr><th scope="col"{down} class="what"><div>{keys or "difference"}</div></th>'
    for name, is_split in split.items():
        place = ' scope="colgroup" colspan="2"' if is_split else f' scope="col"{down} class="same"'
        yield f"<th{place}>{escaped(name)}</th>"
    yield "</tr>"
    if number:
        sides = '<th scope="col" class="left">− left</th><th scope="col" class="right">+ right</th>'
        yield f"<tr>{sides * number}</tr>"
    yield "</thead>"


def _row(row: RowPairing, comparison: ComparisonResult, split: dict[str, bool]) -> Iterator[str]:
    """Yield a row. Its header cell contains the keys and stays visible."""
    kind = _kind(row)
    yield f'<tbody class="difference {kind}" data-kind="{kind}"><tr>'
    yield '<th scope="row" class="what"><div>'
    lefts, rights = row.left or row.right or (), row.right or row.left or ()
    cells = zip(lefts, rights, row.marked, strict=True)
    values = dict(zip(comparison.columns, cells, strict=True))
    yield from (f"<code>{escaped(values[name][0])}</code>" for name in comparison.keys)
    yield f"{_what(row, comparison)}</div></th>"
    for name, is_split in split.items():
        left, right, marked = values[name]
        parts = [part for part in row.parts if part.column == name]
        if parts:
            yield _parts_cell("left", "−", [(part.path, part.values[0]) for part in parts])
            yield _parts_cell("right", "+", [(part.path, part.values[1]) for part in parts])
        elif marked:
            yield _cell("left", "−", left) + _cell("right", "+", right)
        else:
            place = ' colspan="2"' if is_split else ' class="same"'
            yield f"<td{place}><div>{escaped(left)}</div></td>"
    yield "</tr>"
    if row.left_origins or row.right_origins:
        yield f'<tr class="origins"><th scope="row">from</th><td colspan="{len(split) + sum(split.values())}"><ul>'
        yield from (f'<li class="{side}"><b>{side}</b> {escaped(text)}</li>' for side, text in origin_texts(row))
        yield "</ul></td></tr>"
    yield "</tbody>"


def _cell(side: str, sign: str, value: str) -> str:
    return (
        f'<td class="{side} differs"><div><span class="mark" aria-hidden="true">{sign}</span>'
        f'<span class="aside">{side}: </span><mark>{escaped(value)}</mark></div></td>'
    )


def _parts_cell(side: str, sign: str, parts: Iterable[tuple[str, str]]) -> str:
    """Return the cell of a nested value: its differing parts by their paths."""
    lines = "".join(f"<div><code>{escaped(path)}</code> <mark>{escaped(value)}</mark></div>" for path, value in parts)
    return (
        f'<td class="{side} differs"><span class="mark" aria-hidden="true">{sign}</span>'
        f'<span class="aside">{side}: </span>{lines}</td>'
    )


def _what(row: RowPairing, comparison: ComparisonResult) -> str:
    sign = {RowKind.ONLY_LEFT: "−", RowKind.ONLY_RIGHT: "+"}.get(row.kind or RowKind.CHANGED, "≠")
    names = [escaped(name) for name, marked in zip(comparison.columns, row.marked, strict=True) if marked]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    inside = f'<span class="in">in {", ".join(names[:_MOST_NAMES])}{more}</span>' if names else ""
    further = f'<span class="in">{MORE_PARTS}</span>' if row.has_more_parts else ""
    return f'<span class="mark" aria-hidden="true">{sign}</span> {row.label}{count_phrase(row)}{inside}{further}'
