"""`harness judge`: what any program read of a suite that is data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from harness.cli import formats, terminal
from harness.cli.parameters import Argument
from harness.cli.scenarios import ExitZero, Formats, Outputs, Report, StrictOption, WriteXfails, Xfails, report


def judge(
    suite: Annotated[Path, Argument(metavar="SUITE", help="The directory of a suite, with suite.json.")],
    folder: Annotated[Path, Argument(metavar="RESULTS", help="The folder that the program wrote.")],
    case: Annotated[
        list[str] | None,
        Argument(metavar="CASE", help="Names or patterns (iceberg/deletes/*); without any, all cases."),
    ] = None,
    xfails: Xfails = None,
    write_xfails: WriteXfails = None,
    format_: Formats = None,
    output: Outputs = None,
    strict: StrictOption = False,
    exit_zero: ExitZero = False,
) -> None:
    """Judge the results that a program in any language left in a folder.

    Examples:
        harness judge suite results
        harness judge suite results 'delta/*' --output report.html

    SUITE is a directory of harness scenarios build, or the published one; its README.md says what a program writes.
    Exits with 0 if no case is FAIL or passes against --xfails, with 1 if one is or does, with 2 if SUITE or RESULTS
    cannot be read.
    """
    from harness.suite.results import read_list
    from harness.suite.written import NOT_RUN, judge_results

    written = formats.placed(format_, output, Report)
    expected = [line for path in xfails or () for line in read_list(path)]
    with terminal.progress("judging"):
        found = judge_results(suite, folder, patterns=case or (), xfails=expected)
    checks = [check for each in found.cases for check in each.checks]
    left_out = sum(check.message == NOT_RUN for check in checks)
    done = f"judged {len(checks) - left_out:,} reads of {len(found.cases):,} cases; {left_out:,} have no result"
    report(found, written, done, write_xfails=write_xfails, strict=strict, exit_zero=exit_zero)
