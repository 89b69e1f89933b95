"""`harness check`: checks a table's metadata against the specification, its files, and its rows."""

from __future__ import annotations

import enum
from typing import Annotated

import click

from harness.check.rules import Level, Severity
from harness.cli import DIFFERENT, FAILED, formats, options, results, terminal, untrusted
from harness.cli.parameters import Option


class CheckReportFormat(enum.Enum):
    """Formats of a report."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    GITHUB = "github"
    SARIF = "sarif"
    HTML = "html"


def check(
    location: options.Location,
    at: options.AtOption = None,
    all_snapshots: Annotated[
        bool,
        Option("--all-snapshots", help="Check every snapshot or version, not only the current one."),
    ] = False,
    level: Annotated[
        Level,
        Option(
            help="How much to read: only metadata; also existence, size, and footer of files; also the values "
            "in data files."
        ),
    ] = Level.FILES,
    select: Annotated[
        str | None,
        Option(
            "--select",
            metavar="A,B",
            help="Check only these rules: ids, prefixes (ICE-2), or patterns (*-5*). To explain a rule, run "
            "harness rule ID.",
        ),
    ] = None,
    ignore: Annotated[
        str | None, Option("--ignore", metavar="A,B", help="Skip these rules, named as for --select.")
    ] = None,
    columns: options.ColumnsOption = None,
    sample_files: Annotated[
        int | None, Option("--sample-files", metavar="N", min=1, help="Read the values of only N data files.")
    ] = None,
    orphans: Annotated[
        bool, Option("--orphans", help="List files below the table's location that no snapshot or version references.")
    ] = False,
    fail_on: Annotated[
        Severity, Option("--fail-on", help="The least severe finding that causes exit code 1.")
    ] = Severity.ERROR,
    format_: Annotated[
        CheckReportFormat | None, Option("--format", help="Format of the report on standard output, text by default.")
    ] = None,
    output: formats.ReportFiles = None,
    *,
    opening: options.OpeningOptions,
) -> None:
    """Check a table's metadata against the specification, its files, and its rows.

    Examples:
        harness check warehouse/orders
        harness check warehouse/orders --level data -o findings.html
        harness check warehouse/orders --all-snapshots --level metadata --fail-on warning --format github
        harness check warehouse/orders --select ICE-2,ICE-3 --ignore ICE-201

    Exit code: 0 no findings; 1 findings; 2 not checked, or only in part.
    """
    reports_ = formats.report_files(format_, output, CheckReportFormat)
    if untrusted.needs_worker(opening.context):
        untrusted.run_with_report(opening.context, [location], opening.roots(), reports_)
        return
    from harness.check import reports
    from harness.check.running import check as run

    report = run(
        lambda: opening.open(location),
        location=location,
        at=at,
        all_snapshots=all_snapshots,
        level=level,
        select=options.names(select, "--select") or (),
        ignore=options.names(ignore, "--ignore") or (),
        columns=options.names(columns, "--columns"),
        sample_files=sample_files,
        orphans=orphans,
    )
    for form, path in reports_:
        with results.destination(path) as stream:
            results.write_texts([getattr(reports, f"to_{form.value}")(report)], stream)
    if all(path is not None for _, path in reports_):
        terminal.message(f"{report.sentence}; see {', '.join(str(path) for _, path in reports_)}")
    if report.fails(fail_on):
        raise click.exceptions.Exit(DIFFERENT)
    if report.unchecked:
        raise click.exceptions.Exit(FAILED)
