"""What a check found, as text, JSON, JUnit, annotations of GitHub, SARIF and HTML."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import harness
from harness.errors import counted, html_text, json_text, visible
from harness.tools.check.rules import Finding, Rule, Severity
from harness.tools.check.running import CheckReport

_SARIF_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
_GITHUB_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def by_rule(report: CheckReport) -> Iterator[tuple[Rule, list[Finding]]]:
    """The findings by rule, heaviest first."""
    found: dict[str, list[Finding]] = {}
    for finding in report.findings:
        found.setdefault(finding.rule.id, []).append(finding)
    return ((findings[0].rule, findings) for findings in found.values())


def to_text(report: CheckReport, *, most: int = 20) -> str:
    """The report for people. most: findings of one rule that are shown."""
    lines = []
    for rule, findings in by_rule(report):
        lines += [f"{rule.severity.value:8}{rule.id}  {rule.title}  [{', '.join(rule.breaks)}]"]
        for finding in findings[:most]:
            lines += [f"        {visible(line)}" for line in said(finding)]
        more = report.counts[rule.id] - min(len(findings), most)
        lines += [f"        and {counted(more, 'more finding')}"] if more else []
        lines += [f"        hurts: {rule.hurts}", f"        mend:  {rule.mends}", ""]
    lines += [visible(f"not checked: {sentence}") for sentence in report.unchecked]
    read = ", ".join(counted(number, name) for name, number in report.read.items())
    lines.append(f"{report.sentence} in {visible(report.table)}, level {report.level.value}: {read or 'nothing'} read")
    return "\n".join(lines) + "\n"


def said(finding: Finding) -> list[str]:
    """A finding in one or two lines: where, and the recorded value beside the actual one."""
    found = finding.found
    values = [] if found.recorded is None else [f"recorded {found.recorded}"]
    values += [] if found.actual is None else [found.actual]
    words = "; ".join(
        [*([found.detail] if found.detail else []), ", ".join(values)] if values else [found.detail or ""]
    )
    return [str(found.place), f"  {words}{f' (by {found.writer})' if found.writer else ''}"]


def plain(report: CheckReport) -> dict[str, Any]:
    """The report as plain values."""
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
                "title": rule.title,
                "breaks": list(rule.breaks),
                "hurts": rule.hurts,
                "mends": rule.mends,
                "findings": report.counts.get(rule.id, 0),
            }
            for rule in report.rules
        ],
        "findings": [
            {
                "rule": finding.rule.id,
                "severity": finding.rule.severity.value,
                "snapshot": finding.snapshot,
                "file": finding.found.place.file,
                "field": finding.found.place.field,
                "entry": finding.found.place.entry,
                "column": finding.found.place.column,
                "line": finding.found.place.line,
                "recorded": finding.found.recorded,
                "actual": finding.found.actual,
                "writer": finding.found.writer,
                "detail": finding.found.detail,
            }
            for finding in report.findings
        ],
    }


def to_json(report: CheckReport) -> str:
    """The report as a JSON document."""
    return json_text(plain(report), indent=2) + "\n"


def to_junit(report: CheckReport) -> str:
    """The report as JUnit XML: a case for each rule that was asked."""
    from harness.differ.reports.documents import document, suite

    found = {rule.id: findings for rule, findings in by_rule(report)}
    cases = []
    for rule in report.rules:
        case = ElementTree.Element("testcase", {"classname": "harness.check", "name": f"{rule.id} {rule.title}"})
        if rule.id in found:
            attributes = {"type": rule.severity.value, "message": visible(said(found[rule.id][0])[1].strip())}
            kind = "failure" if rule.severity is Severity.ERROR else "system-out"
            lines = [visible(line) for finding in found[rule.id] for line in said(finding)]
            ElementTree.SubElement(case, kind, attributes if kind == "failure" else {}).text = "\n".join(lines)
        cases.append(case)
    properties = [("table", visible(report.table)), ("level", report.level.value)]
    return document([suite("harness.check", properties, cases)])


def to_github(report: CheckReport) -> str:
    """The findings as annotations of GitHub's actions, a line each."""
    lines = []
    for finding in report.findings:
        title = f"{finding.rule.id} {finding.rule.title}"
        text = visible(" ".join(line.strip() for line in said(finding)))
        level = _GITHUB_LEVELS[finding.rule.severity]
        lines.append(f"::{level} title={_escaped(title, property=True)}::{_escaped(text)}")
    return "\n".join([*lines, f"::notice ::{_escaped(report.sentence)}"]) + "\n"


def _escaped(text: str, *, property: bool = False) -> str:
    for mark, code in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"), *(((":", "%3A"), (",", "%2C")) if property else ())):
        text = text.replace(mark, code)
    return text


def to_sarif(report: CheckReport) -> str:
    """The findings as SARIF 2.1.0, for viewers of code scanning."""
    rules = [
        {
            "id": rule.id,
            "shortDescription": {"text": rule.title},
            "fullDescription": {"text": f"{rule.hurts} Mend: {rule.mends}."},
            "defaultConfiguration": {"level": _SARIF_LEVELS[rule.severity]},
            "properties": {"breaks": list(rule.breaks)},
        }
        for rule in report.rules
    ]
    places = {rule.id: place for place, rule in enumerate(report.rules)}
    results = []
    for finding in report.findings:
        place = finding.found.place
        location: dict[str, Any] = {"artifactLocation": {"uri": place.file}}
        if place.line is not None:
            location["region"] = {"startLine": place.line}
        results.append(
            {
                "ruleId": finding.rule.id,
                "ruleIndex": places[finding.rule.id],
                "level": _SARIF_LEVELS[finding.rule.severity],
                "message": {"text": " ".join(line.strip() for line in said(finding))},
                "locations": [{"physicalLocation": location}],
            }
        )
    driver = {"name": "harness check", "version": harness.__version__, "rules": rules}
    return (
        json.dumps(
            {
                "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
                "version": "2.1.0",
                "runs": [{"tool": {"driver": driver}, "results": results}],
            },
            indent=2,
        )
        + "\n"
    )


def to_html(report: CheckReport) -> str:
    """The report as a page of its own."""
    from harness.differ.reports.html import asset
    from harness.differ.reports.html import document as page

    body = ["<main>", f"<h1>harness check {html_text(report.table)}</h1>", f"<p>{html_text(report.sentence)}</p>"]
    for rule, findings in by_rule(report):
        body.append(f"<h2>{rule.severity.value} {rule.id}: {html_text(rule.title)}</h2>")
        body.append(f"<p>{html_text(rule.hurts)} Mend: {html_text(rule.mends)}.</p>")
        rows = "".join(
            f"<tr><td>{html_text(str(each.found.place))}</td><td>{html_text(each.found.recorded or '')}</td>"
            f"<td>{html_text(each.found.actual or each.found.detail or '')}</td></tr>"
            for each in findings
        )
        head = "<tr><th>where</th><th>recorded</th><th>actual</th></tr>"
        body.append(f'<div class="scroll"><table>{head}{rows}</table></div>')
    title = f"harness check {report.table}"
    return page(title, [*body, "</main>"], style=asset("harness.differ.reports", "report.css"))
