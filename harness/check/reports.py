"""Reports of a check as text, JSON, JUnit, GitHub annotations, SARIF, and HTML."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from urllib.parse import quote
from xml.etree import ElementTree

import harness
from harness.check.rules import CheckRule, Finding, Severity, Spans
from harness.check.running import CheckReport
from harness.errors import counted, html_text, json_text, visible

_SARIF_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
_GITHUB_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def by_rule(report: CheckReport) -> Iterator[tuple[CheckRule, list[Finding]]]:
    """Group the findings by rule, most severe first."""
    findings_by_rule: dict[str, list[Finding]] = {}
    for finding in report.findings:
        findings_by_rule.setdefault(finding.rule.id, []).append(finding)
    return ((findings[0].rule, findings) for findings in findings_by_rule.values())


def to_text(report: CheckReport, *, most: int = 20) -> str:
    """Format the report for people, with at most `most` findings per rule."""
    lines = []
    for rule, findings in by_rule(report):
        lines += [f"{rule.severity.value:8}{rule.id}  {rule.title}  [{', '.join(rule.breaks)}]"]
        for finding in findings[:most]:
            lines += [f"        {visible(line)}" for line in finding_lines(finding)]
        remaining = report.counts[rule.id] - min(len(findings), most)
        lines += [f"        and {counted(remaining, 'more finding')}"] if remaining else []
        lines += [f"        affects: {rule.hurts}", f"        fix:     {rule.mends}", ""]
    lines += [visible(f"not checked: {sentence}") for sentence in report.unchecked]
    read = ", ".join(counted(number, name) for name, number in report.read.items())
    lines.append(f"{report.sentence} in {visible(report.table)}, level {report.level.value}: {read or 'nothing'} read")
    return "\n".join(lines) + "\n"


def finding_lines(finding: Finding) -> list[str]:
    """Return a finding in two lines: its place, then the recorded and the actual value."""
    breach = finding.breach
    values = [] if breach.recorded is None else [f"recorded {breach.recorded}"]
    values += [] if breach.actual is None else [breach.actual]
    words = "; ".join(filter(None, (breach.detail, ", ".join(values))))
    return [str(breach.place), f"  {words}{f' (by {breach.writer})' if breach.writer else ''}"]


def plain(report: CheckReport) -> dict[str, object]:
    """Return the report as JSON values."""
    return {
        "format": 1,
        "kind": "check",
        "summary": report.sentence,
        "table": report.table,
        "table_format": report.format,
        "level": report.level.value,
        "seconds": round(report.seconds, 3),
        "read": dict(report.read),
        "unchecked": list(report.unchecked),
        "rules": [
            {
                "id": rule.id,
                "severity": rule.severity.value,
                **{name: getattr(rule, name) for name in ("title", "breaks", "hurts", "mends")},
                "findings": report.counts.get(rule.id, 0),
            }
            for rule in report.rules
        ],
        "findings": [
            {
                "rule": finding.rule.id,
                "severity": finding.rule.severity.value,
                "snapshot": finding.snapshot,
                **asdict(finding.breach.place),
                **{name: getattr(finding.breach, name) for name in ("recorded", "actual", "writer", "detail")},
            }
            for finding in report.findings
        ],
    }


def to_json(report: CheckReport) -> str:
    """Format the report as a JSON document."""
    return json_text(plain(report), indent=2) + "\n"


def to_junit(report: CheckReport) -> str:
    """Format the report as JUnit XML, with a test case for each rule."""
    from harness.diff.reports.documents import document, suite

    findings_by_rule = {rule.id: findings for rule, findings in by_rule(report)}
    cases = []
    for rule in report.rules:
        case = ElementTree.Element("testcase", {"classname": "harness.check", "name": f"{rule.id} {rule.title}"})
        if rule.id in findings_by_rule:
            attributes = {
                "type": rule.severity.value,
                "message": visible(finding_lines(findings_by_rule[rule.id][0])[1].strip()),
            }
            kind = "failure" if rule.severity is Severity.ERROR else "system-out"
            lines = [visible(line) for finding in findings_by_rule[rule.id] for line in finding_lines(finding)]
            ElementTree.SubElement(case, kind, attributes if kind == "failure" else {}).text = "\n".join(lines)
        cases.append(case)
    if report.unchecked:
        case = ElementTree.Element("testcase", {"classname": "harness.check", "name": "Everything was checked"})
        error = ElementTree.SubElement(case, "error", {"message": counted(len(report.unchecked), "thing")})
        error.text = "\n".join(map(visible, report.unchecked))
        cases.append(case)
    properties = [("table", visible(report.table)), ("level", report.level.value)]
    return document([suite("harness.check", properties, cases)])


def to_github(report: CheckReport) -> str:
    """Format the findings as GitHub Actions annotations, one per line, followed by the outcome as plain text."""
    from harness.diff.reports.documents import annotation, limit_annotations

    def line(finding: Finding) -> str:
        title = f"{finding.rule.id} {finding.rule.title}"
        text = visible(" ".join(line.strip() for line in finding_lines(finding)))
        return annotation(_GITHUB_LEVELS[finding.rule.severity], text, title=title)

    lines: list[str] = []
    for severity, level in _GITHUB_LEVELS.items():
        findings = [each for each in report.findings if each.rule.severity is severity]
        not_kept = report.number(severity) - len(findings)

        def more(remaining: int, level: str = level, not_kept: int = not_kept) -> str:
            return annotation(level, f"{counted(remaining + not_kept, 'more finding')}; see the log or another report")

        lines += limit_annotations(findings, line, more)
    unchecked = limit_annotations(
        report.unchecked,
        lambda sentence: annotation("error", visible(sentence), title="Not checked"),
        lambda number: annotation(
            "error", f"{counted(number, 'more thing')} not checked; see the log or another report"
        ),
    )
    return "\n".join([*lines, *unchecked, visible(report.sentence)]) + "\n"


_SARIF_SPECIAL = str.maketrans({"\\": r"\\", "[": r"\[", "]": r"\]", "{": "{{", "}": "}}"})
"""Escapes for characters that form links and placeholders in SARIF messages. Spec: SARIF 2.1.0, 3.11.5 and 3.11.6."""


def _sarif_message(text: str) -> dict[str, str]:
    return {"text": visible(text).translate(_SARIF_SPECIAL)}


def to_sarif(report: CheckReport) -> str:
    """Format the findings as SARIF 2.1.0 for code scanning viewers."""
    rules = [
        {
            "id": rule.id,
            "shortDescription": {"text": rule.title},
            "fullDescription": {"text": f"{rule.hurts} Fix: {rule.mends}."},
            "defaultConfiguration": {"level": _SARIF_LEVELS[rule.severity]},
            "properties": {"breaks": list(rule.breaks)},
        }
        for rule in report.rules
    ]
    places = {rule.id: place for place, rule in enumerate(report.rules)}
    results = []
    for finding in report.findings:
        place = finding.breach.place
        location: dict[str, object] = {
            "artifactLocation": {"uri": quote(place.file, safe="/:", errors="backslashreplace")}
        }
        if place.line is not None:
            location["region"] = {"startLine": place.line}
        results.append(
            {
                "ruleId": finding.rule.id,
                "ruleIndex": places[finding.rule.id],
                "level": _SARIF_LEVELS[finding.rule.severity],
                "message": _sarif_message(" ".join(line.strip() for line in finding_lines(finding))),
                "locations": [{"physicalLocation": location}],
            }
        )
    invocation = {
        "executionSuccessful": not report.unchecked,
        "toolExecutionNotifications": [
            {"level": "error", "message": _sarif_message(each)} for each in report.unchecked
        ],
    }
    driver = {"name": "harness check", "version": harness.__version__, "rules": rules}
    document = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results, "invocations": [invocation]}],
    }
    return json.dumps(document, indent=2) + "\n"


def to_html(report: CheckReport) -> str:
    """Format the report as an HTML page: the counts, then each rule with its findings and drawings of value ranges."""
    from harness.diff.reports.html import asset
    from harness.diff.reports.html import document as page

    is_clean = not report.findings and not report.unchecked
    read = ", ".join(counted(number, name) for name, number in report.read.items()) or "nothing"
    body = [
        f'<header class="{"equal" if is_clean else "different"}">',
        f'<h1><span class="sign">{"✓" if is_clean else "≠"}</span>{html_text(report.table)}</h1>',
        f"<p>{html_text(report.sentence)}; level {report.level.value}: {html_text(read)} read</p>",
        "</header>",
        "<main>",
        '<section><dl class="counts">',
        *(
            f'<div class="{"some" if report.number(each) else "none"}"><dt>{each.value}</dt>'
            f"<dd>{report.number(each):,}</dd></div>"
            for each in Severity
        ),
        "</dl></section>",
    ]
    for rule, findings in by_rule(report):
        body += _section(rule, findings, report.counts[rule.id])
    if report.unchecked:
        listed = "".join(f"<li>{html_text(visible(sentence))}</li>" for sentence in report.unchecked)
        body.append(f"<section><h2>Not checked</h2><ul>{listed}</ul></section>")
    title = f"harness check {report.table}"
    return page(title, [*body, "</main>"], style=asset("harness.diff.reports", "report.css"))


def _section(rule: CheckRule, findings: list[Finding], number: int) -> Iterator[str]:
    facts = f"{rule.severity.value}, {counted(number, 'finding')}; against {', '.join(rule.breaks)}"
    yield f'<section id="{rule.id}"><h2>{rule.id}: {html_text(rule.title)}</h2>'
    yield f"<p>{html_text(facts)}. {html_text(rule.hurts)} Fix: {html_text(rule.mends)}.</p>"
    drawn = any(each.breach.spans is not None for each in findings)
    head = ["where", "recorded", "actual", *(["recorded above actual"] if drawn else []), "written by"]
    yield '<div class="scroll" tabindex="0"><table><thead><tr>'
    names = "".join(f'<th scope="col">{name}</th>' for name in head)
    yield f"{names}</tr></thead><tbody>"
    for each in findings:
        breach = each.breach
        cells = [str(breach.place), breach.recorded or "", breach.actual or breach.detail or ""]
        picture = [_bars(breach.spans)] if drawn else []
        texts = [html_text(visible(cell)) for cell in cells]
        row = [*texts, *picture, html_text(visible(breach.writer or ""))]
        yield "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>"
    yield "</tbody></table></div>"
    yield f"<p>{counted(number - len(findings), 'more finding')}</p>" if number > len(findings) else ""
    yield "</section>"


def _bars(spans: Spans | None) -> str:
    """Draw the recorded range above the actual range, on one scale."""
    if spans is None:
        return ""
    low, high = min(span[0] for span in spans), max(span[1] for span in spans)
    scale = _WIDTH / (high - low) if high > low else 0.0
    bars = []
    for place, (first, last) in enumerate(spans):
        start, length = (first - low) * scale, max(2.0, (last - first) * scale)
        at = min(start, _WIDTH - length)
        bars.append(f'<rect x="{at:.1f}" y="{2 + 10 * place}" width="{length:.1f}" height="7" fill="{_FILLS[place]}"/>')
    label = f"recorded {spans[0][0]:g} to {spans[0][1]:g}, actual {spans[1][0]:g} to {spans[1][1]:g}"
    return f'<svg width="{_WIDTH}" height="22" role="img" aria-label="{html_text(label)}">{"".join(bars)}</svg>'


_WIDTH = 160
_FILLS = ("#8a5300", "#0b57d0")
"""Colors of the recorded and the actual range. Both have enough contrast on light and dark pages."""
