"""Writing of comparison reports, and the exit code."""

from __future__ import annotations

import enum
import os
import re
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeAlias

import click

import harness
from harness.cli import DIFFERENT, FAILED, formats, results, terminal
from harness.cli.parameters import Option
from harness.cli.untrusted import words
from harness.diff.plan_result import PlanComparison
from harness.diff.result import Batch, BatchOutcome, ComparisonResult, ReportProvenance
from harness.errors import without_secrets


class DiffReportFormat(enum.Enum):
    """Formats of a comparison report."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    HTML = "html"


ReportFile: TypeAlias = tuple[DiffReportFormat, Path | None]
"""A report's format and its file, or None for standard output."""


@dataclass(slots=True, kw_only=True)
class Reports:
    """Options for the reports of a comparison."""

    output: formats.ReportFiles = None
    format_: Annotated[
        DiffReportFormat | None, Option("--format", help="Format of the report on standard output, text by default.")
    ] = None

    def __post_init__(self) -> None:
        _ = self.files  # report contradictions before anything is read

    @property
    def files(self) -> list[ReportFile]:
        """Each report's format and file. Raises the same errors as `formats.report_files`."""
        return formats.report_files(self.format_, self.output, DiffReportFormat)


_PASSWORDS = re.compile(r"(password\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s#]+)", re.IGNORECASE)
"""Passwords in the connection strings for Postgres."""


def _provenance(context: click.Context) -> ReportProvenance:
    """Return the time, the version, and the command line of a report.

    The variable SOURCE_DATE_EPOCH overrides the time, so that reports can be reproduced.
    """
    explicit = {
        name: [f"{text.partition('=')[0]}=***" for text in value] if name == "storage_option" else value
        for name, value in context.params.items()
        if (source := context.get_parameter_source(name)) is not None and source.name == "COMMANDLINE"
    }
    line = ["harness", *(_PASSWORDS.sub(r"\1***", without_secrets(word)) for word in words(context, explicit))]
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    seconds = int(epoch) if re.fullmatch(r"[0-9]{1,11}", epoch) else int(time.time())
    at = datetime.fromtimestamp(seconds, UTC).isoformat().removesuffix("+00:00") + "Z"
    return ReportProvenance(at=at, version=harness.__version__, command=shlex.join(line))


def write_reports(
    result: ComparisonResult | PlanComparison | Batch, reports: Sequence[ReportFile], context: click.Context
) -> None:
    """Write all reports of a comparison, including the command that made them."""
    from harness.diff.reports import batch
    from harness.diff.reports.plans import to_text as plans_text
    from harness.diff.reports.text import to_text

    result = replace(result, made=_provenance(context))
    reporter: object = batch if isinstance(result, Batch) else type(result)
    for report, path in reports:
        width = results.width_for(path)
        with terminal.progress(f"making the {report.value} report"):
            if report is DiffReportFormat.TEXT and width is not None and isinstance(result, ComparisonResult):
                text = to_text(result, width)
            elif report is DiffReportFormat.TEXT and width is not None and isinstance(result, PlanComparison):
                text = plans_text(result, width)
            else:
                text = getattr(reporter, f"to_{report.value}")(result)
        with results.destination(path) as stream:
            write = results.write_lines if report is DiffReportFormat.TEXT else results.write_texts
            write([text], stream)
    places = [str(path) for _, path in reports if path is not None]
    if len(places) == len(reports):  # otherwise nobody would see the outcome
        summary = batch.summary(result) if isinstance(result, Batch) else f"{result.outcome.value}: {result.sentence}"
        terminal.message(f"{summary}; see {', '.join(places)}")


def finish(
    result: ComparisonResult | PlanComparison | Batch, reports: Sequence[ReportFile], context: click.Context
) -> None:
    """Write the reports, and exit with 0 for no difference, 1 for a difference, or 2 if a comparison failed."""
    write_reports(result, reports, context)
    if isinstance(result, Batch):
        terminal.finished(f"compared {result.title}")
        is_different = result.count(BatchOutcome.DIFFERENT) > 0
    elif isinstance(result, PlanComparison):
        terminal.finished("compared plans")
        is_different = not result.failed
        if result.failed:
            terminal.error(f"{result.sentence}: {result.left.error or result.right.error}")
    else:
        rows = [f"{side.rows:,}" for side in (result.left, result.right) if side.rows is not None]
        terminal.finished(f"compared {' with '.join(dict.fromkeys(rows))} rows" if rows else "compared")
        is_different = not result.failed
        if result.failed:
            terminal.error(f"{result.sentence}: {result.left.error or result.right.error}")
    if not result.equal:
        raise click.exceptions.Exit(DIFFERENT if is_different else FAILED)
