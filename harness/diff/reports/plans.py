"""The reports of a comparison of two plans: text, JSON, JUnit XML, or an HTML page.

    different: 1 file differs: 1 missing delete; rows: 2 rows only on the left

    table  sales.orders, snapshot 4
    left   server's plan  3 files  0 deletes
    right  client's plan  3 files  1 delete

    missing delete (1)
      data/3.parquet: the server's plan lacks the equality delete data/4-deletes.parquet (keys id)

All functions depend only on their arguments.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from xml.etree import ElementTree

from harness.diff.plan_result import PlanComparison, PlanDifference, PlanDifferenceKind, PlanSide
from harness.diff.reports import documents
from harness.diff.reports.html import STYLES, asset, header
from harness.diff.reports.html import document as page
from harness.diff.reports.text import to_text as rows_text
from harness.errors import counted, json_text, visible
from harness.errors import html_text as escaped
from harness.metadata.model.frames import html_preformatted
from harness.metadata.model.text_tables import align

FORMAT = 1


def to_text(comparison: PlanComparison, width: int | None = None) -> str:
    """Return the comparison as lines of text, each ending with a line feed.

    Args:
        comparison: The comparison.
        width: The maximum width of tables of rows, in terminal cells. None for the default width.
    """
    parts = [
        [f"{comparison.outcome.value}: {visible(comparison.sentence)}"],
        [*_sides(comparison)],
        [
            f"{word} failed: {type(side.error).__name__}: {visible(str(side.error))}"
            for word, side in (("left", comparison.left), ("right", comparison.right))
            if side.error is not None
        ],
        [
            f"harness refuses the {side.name} plan: {type(side.refusal).__name__}: {visible(str(side.refusal))}"
            for side in (comparison.left, comparison.right)
            if side.refusal is not None
        ],
        *([*_kind_lines(comparison, kind)] for kind in PlanDifferenceKind if kind.counts),
        [*_rest_lines(comparison)],
        [*_uncounted_lines(comparison)],
        [*_row_lines(comparison, width)],
    ]
    return "\n\n".join("\n".join(line.rstrip() for line in part) for part in parts if part) + "\n"


def _sides(comparison: PlanComparison) -> Iterator[str]:
    point = "no snapshot" if comparison.snapshot is None else f"snapshot {comparison.snapshot}"
    where = "" if comparison.where is None else f", where {comparison.where}"
    cells = [("table", f"{comparison.table}, {point}{where}", "", "")]
    yield from (visible(line) for line in align([cells[0][:2]]))
    sides = (("left ", comparison.left), ("right", comparison.right))
    yield from align([(word, f"{side.name} plan", *_sizes(side)) for word, side in sides])


def _sizes(side: PlanSide) -> tuple[str, str]:
    if side.files is None:
        return "failed", ""
    return counted(side.files, "file"), counted(side.deletes or 0, "delete")


def _of_kind(comparison: PlanComparison, kind: PlanDifferenceKind) -> list[PlanDifference]:
    return [difference for difference in comparison.differences if difference.kind is kind]


def _kind_lines(comparison: PlanComparison, kind: PlanDifferenceKind) -> Iterator[str]:
    """Yield a heading with the number of all differences of a kind, and a line for each difference that is shown."""
    if number := comparison.counts.get(kind, 0):
        yield f"{kind.value} ({number:,})"
        yield from (f"  {difference.sentence}" for difference in _of_kind(comparison, kind))


def _rest_lines(comparison: PlanComparison) -> Iterator[str]:
    if comparison.truncated:
        yield "more differences are not shown; the counts above are exact"


def _uncounted_lines(comparison: PlanComparison) -> Iterator[str]:
    lines = [visible(note) for note in comparison.notes]
    for kind in PlanDifferenceKind:
        if not kind.counts:
            lines += _kind_lines(comparison, kind)
    if lines:
        yield "not counted as differences"
        yield from (f"  {line}" for line in lines)


def _row_lines(comparison: PlanComparison, width: int | None) -> Iterator[str]:
    if comparison.rows is not None:
        is_refused = comparison.left.refusal is not None or comparison.right.refusal is not None
        how = ", for a reader that follows the refused plan" if is_refused else ""
        yield f"rows of the files that differ{how}"
        text = rows_text(comparison.rows) if width is None else rows_text(comparison.rows, width)
        yield from (f"  {line}" for line in text.splitlines())


def to_json(comparison: PlanComparison) -> str:
    """Return the comparison as a JSON document. `docs/reference/json.md` describes its keys."""
    document = {
        "format": FORMAT,
        "kind": "plan comparison",
        "verdict": comparison.outcome.value,
        "summary": comparison.sentence,
        "made": comparison.made and asdict(comparison.made),
        "table": comparison.table,
        "snapshot": documents.snapshot_id(comparison.snapshot),
        "where": comparison.where,
        "left": _side(comparison.left),
        "right": _side(comparison.right),
        "files": comparison.files,
        "counts": {kind.name.lower(): number for kind, number in comparison.counts.items()},
        "differences": [
            {
                "kind": difference.kind.name.lower(),
                "counts": difference.kind.counts,
                "file": difference.file,
                "delete": difference.delete,
                "rows": difference.rows,
                "sentence": difference.sentence,
            }
            for difference in comparison.differences
        ],
        "truncated": comparison.truncated,
        "notes": comparison.notes,
        "rows_read": comparison.rows_read,
        "rows": comparison.rows and json.loads(documents.to_json(comparison.rows)),
    }
    return json_text(document, indent=2) + "\n"


def _side(side: PlanSide) -> dict[str, object]:
    return {
        "plan": side.name,
        "files": side.files,
        "deletes": side.deletes,
        "error": documents.error_document(side.error),
        "refusal": documents.error_document(side.refusal),
    }


def to_junit(comparison: PlanComparison) -> str:
    """Return the comparison as a JUnit XML document for CI servers.

    The suite `harness diff` has the cases `outcome`, `plans`, and `rows`. A difference is a failure with the text
    report. Cases that could not be compared are skipped.
    """
    is_made = comparison.left.error is None and comparison.right.error is None
    rows = None if comparison.rows is None or comparison.rows.equal else comparison.rows.sentence
    is_refused = comparison.left.refusal is not None or comparison.right.refusal is not None
    plans = comparison.sentence if comparison.files or is_refused else None
    cases = [
        _case("outcome", None if is_made else comparison.sentence, comparison),
        _case("plans", plans, comparison),
        _case("rows", rows, comparison),
    ]
    if not is_made:
        for case in cases[1:]:
            ElementTree.SubElement(case, "skipped", {"message": "a plan could not be made"})
    properties = [
        ("table", comparison.table),
        ("snapshot", str(comparison.snapshot)),
        ("left", comparison.left.name),
        ("right", comparison.right.name),
    ]
    return documents.document([documents.suite("harness diff", properties, cases)])


def _case(name: str, message: str | None, comparison: PlanComparison) -> ElementTree.Element:
    case = ElementTree.Element("testcase", {"classname": "harness.diff", "name": name, "time": "0"})
    if message is not None:
        text = {"type": comparison.outcome.value, "message": visible(message)}
        result = ElementTree.SubElement(case, "error" if comparison.failed else "failure", text)
        result.text = "\n" + to_text(comparison)
    return case


def to_html(comparison: PlanComparison) -> str:
    """Return the comparison as a self-contained page: the counts by kind, and the text report."""
    sign, title, tone = STYLES[comparison.outcome]
    body = [
        *header(tone, sign, title, comparison.sentence, comparison.made),
        "<main>",
        *_counts(comparison),
        html_preformatted(to_text(comparison)),
        "</main>",
    ]
    names = f"{comparison.left.name} plan / {comparison.right.name} plan"
    return page(f"{title}: {names} of {comparison.table}", body, style=asset(__package__, "report.css"))


def _counts(comparison: PlanComparison) -> Iterator[str]:
    numbers = {"files that differ": comparison.files}
    numbers |= {kind.value: number for kind, number in comparison.counts.items() if kind.counts}
    yield '<dl class="counts">'
    for name, number in numbers.items():
        attribute = ' class="some"' if number else ""
        yield f"<div{attribute}><dt>{escaped(name)}</dt><dd>{number:,}</dd></div>"
    yield "</dl>"
