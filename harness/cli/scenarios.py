"""`harness scenarios`: tables with expected rows, to run engines on or to write as files and scripts."""

from __future__ import annotations

import ast
import enum
import fnmatch
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import click

from harness.cli import DIFFERENT, formats, options, results, terminal, untrusted
from harness.cli.diff_reports import Reports, finish
from harness.cli.document import DocumentOutput
from harness.cli.options import Settings, names
from harness.cli.parameters import Argument, Option
from harness.cli.untrusted import needs_worker
from harness.errors import RequestError, visible
from harness.metadata.model.text_tables import align
from harness.storage.outputs import write_errors
from harness.untrusted.seccomp import TABLES_BUILT

if TYPE_CHECKING:
    from harness.suite.cases import Cases
    from harness.suite.readers import ReaderOptions
    from harness.suite.results import Run
    from harness.suite.runner import EngineUnderTest
    from harness.suite.scenarios.model import Scenario


Scenarios: TypeAlias = Annotated[
    list[str] | None,
    Argument(
        metavar="SCENARIO", help="Names or patterns (iceberg/deletes/*), or scenario files. [default: all scenarios]"
    ),
]
Keywords: TypeAlias = Annotated[
    str | None,
    Option(
        "-k",
        metavar="EXPR",
        help="Select scenarios whose name or features contain these words, combined with and, or, not, and"
        " parentheses.",
    ),
]


def list_(
    scenario: Scenarios = None,
    keywords: Keywords = None,
    *,
    out: DocumentOutput,
) -> None:
    """List scenarios with their titles.

    Examples:
        harness scenarios list 'iceberg/deletes/*'
        harness scenarios list -k 'deletion-vector and not v3' --format json
    """
    scenarios = select(scenario, keywords)
    documents = [
        {"name": each.name, "title": each.title, "format": each.format, "features": each.features} for each in scenarios
    ]
    lines = (f"{line}\n" for line in align([(each.name, each.title) for each in scenarios]))
    out.show("scenarios", {"scenarios": documents}, lambda: lines)


def build(
    arguments: Annotated[
        list[str],
        Argument(
            metavar="SCENARIO... DIR",
            help="Names or patterns (iceberg/deletes/*), or scenario files, then the directory to write to.",
        ),
    ],
    everything: Annotated[bool, Option("--all", help="Build every scenario that comes with harness.")] = False,
) -> None:
    """Write scenarios as tables with expected rows, for readers in any language.

    Examples:
        harness scenarios build 'iceberg/deletes/*' suite
        harness scenarios build --all suite

    DIR/README.md describes how a program reads the suite. harness scenarios score then scores the program's results.
    Paths inside the tables are absolute, so build them where they will be read.
    """
    from harness.suite.suite_files import write_suite

    *patterns, target = arguments
    if everything == (len(patterns) > 0):
        raise RequestError("Give scenarios and a directory, or --all and a directory")
    directory = Path(target).absolute()
    scenarios = select(patterns)
    with (
        write_errors("the directory", directory),
        terminal.progress("building", len(scenarios), "scenarios") as advance,
    ):
        cases = write_suite(scenarios, directory, advance)
    results.print_result("".join(f"{visible(str(case))}\n" for case in cases))
    terminal.finished(f"built {len(cases):,} scenarios")


def script(
    scenario: Annotated[
        str,
        Argument(metavar="SCENARIO", help="The name of a scenario, or a scenario file, for example of a bug report."),
    ],
    output: Annotated[
        Path | None, Option("-o", "--output", metavar="FILE", help="Write to this file instead of standard output.")
    ] = None,
) -> None:
    """Write a scenario as one Python file, for bug reports to readers.

    Examples:
        harness scenarios script iceberg/deletes/null-keys -o null-keys.py
        python null-keys.py /tmp

    The file only needs Python 3.8. It writes the table below a directory. It prints the expected rows, the rules that
    require them, and commands for DuckDB, Spark, Trino, ClickHouse, PyIceberg, Polars, and Daft.
    """
    from harness.suite.script import script as script_of

    scenarios = select([scenario])
    if len(scenarios) > 1:
        raise RequestError(f"A script has one scenario, but {scenario!r} matches {len(scenarios):,}; name one of them")
    text = script_of(scenarios[0])
    with results.destination(output) as stream:
        results.write_texts([text], stream)


def select(globs: Sequence[str] | None = None, keywords: str | None = None) -> list[Scenario]:
    """Return the scenarios that match names and keywords, each once, ordered by name.

    Args:
        globs: Names, patterns of names, or scenario files. None or empty means all.
        keywords: An expression for `keyword_filter`, or None.

    Raises:
        RequestError: A pattern matches no scenario, a file is not a scenario, or no scenario matches the keywords.
    """
    from harness.suite.scenarios.loading import find, load

    candidates = (
        scenario
        for glob in globs or ("*",)
        for scenario in ([load(Path(glob))] if glob.endswith(".yaml") else find(glob))
    )
    by_name = {scenario.name: scenario for scenario in candidates}
    matches = keyword_filter(keywords)
    selected = [by_name[name] for name in sorted(by_name) if matches((name, *by_name[name].features))]
    if not selected:
        raise RequestError(f"No scenario matches -k {keywords!r}: harness scenarios list --format json shows features")
    return selected


def keyword_filter(expression: str | None) -> Callable[[Iterable[str]], bool]:
    """Return a function that matches a scenario's name and features with an expression, as `pytest -k` does.

    Raises:
        click.BadParameter: The expression is not words joined by `and`, `or`, `not`, and parentheses.
    """
    if expression is None:
        return lambda _: True
    words: list[str] = []
    code = []
    for token in re.findall(r"[()]|[^\s()]+", expression):
        if token in ("and", "or", "not", "(", ")"):
            code.append(token)
        else:
            code.append(f"has[{len(words)}]")
            words.append(token.casefold())

    try:
        tree = ast.parse(" ".join(code), "-k", "eval")
    except (SyntaxError, RecursionError, MemoryError):
        tree = None
    if tree is None or not all(isinstance(node, _LOGIC) for node in ast.walk(tree)):
        raise click.BadParameter(f"-k {expression!r}: expected words with and, or, not and parentheses")
    compiled = compile(tree, "-k", "eval")

    def matches(texts: Iterable[str]) -> bool:
        folded = [text.casefold() for text in texts]
        return bool(eval(compiled, {}, {"has": [any(word in text for text in folded) for word in words]}))

    return matches


_LOGIC = (ast.Expression, ast.BoolOp, ast.boolop, ast.UnaryOp, ast.Not, ast.Subscript, ast.Name, ast.Constant, ast.Load)
"""The allowed nodes of a `-k` expression. Its words become items of a list `has`."""


def _select_cases(directory: Path, globs: Sequence[str] | None, keywords: str | None) -> Cases:
    """Return the cases of a directory that match names and keywords.

    Raises:
        RequestError: No case matches.
    """
    from harness.suite.cases import load_cases

    cases, matches = load_cases(directory), keyword_filter(keywords)
    selected = tuple(
        case
        for case in cases.cases
        if any(fnmatch.fnmatchcase(case.scenario.name, glob) for glob in globs or ("*",))
        and matches((case.scenario.name, *case.scenario.features))
    )
    if not selected and (globs or keywords):
        raise RequestError(f"No case matches: there are {len(cases.cases):,}", file=str(directory))
    return replace(cases, cases=selected)


ALL = "all"
"""Stands for every known engine that can run."""


class SuiteReportFormat(enum.Enum):
    """Formats of a report about a run."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    GITHUB = "github"
    HTML = "html"
    MARKDOWN = "markdown"


Xfails: TypeAlias = Annotated[
    list[Path] | None,
    Option("--xfails", metavar="FILE", help="Expect the failures listed in this file, with lines as for --skips."),
]
Format: TypeAlias = Annotated[
    SuiteReportFormat | None, Option("--format", help="Format of the report on standard output, text by default.")
]
WriteXfails: TypeAlias = Annotated[
    Path | None,
    Option("--write-xfails", metavar="FILE", help="Write each FAIL and ERROR to this file, for use with --xfails."),
]
StrictOption: TypeAlias = Annotated[bool, Option("--strict", help="Also exit with 1 for an ERROR.")]
ExitZero: TypeAlias = Annotated[bool, Option("--exit-zero", help="Exit with 0 if the suite ran, whatever its outcome.")]


def run(
    scenario: Scenarios = None,
    engines: Annotated[
        str | None,
        Option(
            "--engines",
            metavar="A,B",
            help="Engines by name, or MODULE:ATTRIBUTE, or all for every engine that can run. [default: "
            "duckdb, spark, and oracle, if they can run]",
        ),
    ] = None,
    keywords: Keywords = None,
    cases: Annotated[
        Path | None,
        Option(
            "--cases",
            metavar="DIR",
            help="Run the cases in this directory instead: a suite from scenarios build, Delta's acceptance "
            "tests, or acceptance workloads.",
        ),
    ] = None,
    skips: Annotated[
        list[Path] | None,
        Option(
            "--skips",
            metavar="FILE",
            help="Skip the scenarios listed in this file, with lines ENGINE::SCENARIO # reason.",
        ),
    ] = None,
    xfails: Xfails = None,
    write_xfails: WriteXfails = None,
    format_: Format = None,
    output: formats.ReportFiles = None,
    python: Annotated[
        list[str] | None,
        Option("--python", metavar="NAME=PATH", help="Run an engine in this Python interpreter. Repeatable."),
    ] = None,
    time_limit: Annotated[
        float,
        Option("--time-limit", metavar="S", min=0.1, help="End a read by another project's reader after S seconds."),
    ] = 60.0,
    keep: Annotated[
        Path | None, Option("--keep", metavar="DIR", help="Build the tables in this directory and keep them.")
    ] = None,
    strict: StrictOption = False,
    exit_zero: ExitZero = False,
    untrusted: options.Untrusted = False,
    set_: options.Set = None,
    *,
    context: click.Context,
) -> None:
    """Run scenarios on engines and report which engines read them correctly.

    Examples:
        harness scenarios run --engines duckdb,spark
        harness scenarios run 'iceberg/deletes/*' -o report.xml -o report.html
        harness scenarios run --cases reader_tests/generated --engines duckdb,polars

    Exit code: 0 passed; 1 a scenario is FAIL, or one listed in --xfails passes; 2 the suite or an engine of --engines
    could not run, or every scenario on an engine is ERROR.
    """
    from harness.suite.cases import Cases
    from harness.suite.readers import ReaderOptions
    from harness.suite.results import read_list
    from harness.suite.runner import OutcomeLists
    from harness.suite.runner import run as run_suite

    if opening := Settings.parse(set_, untrusted=untrusted).opening:
        raise click.BadParameter(f"--set {next(iter(opening))}: scenarios only accept bounds and waived")
    reports = formats.report_files(format_, output, SuiteReportFormat)
    if needs_worker(context):
        _run_untrusted(context, reports)
        return
    lists = OutcomeLists(
        skips=tuple(line for path in skips or () for line in read_list(path)),
        xfails=tuple(line for path in xfails or () for line in read_list(path)),
    )
    if cases is not None and keep is not None:
        raise RequestError("Cannot combine --cases and --keep: the tables of cases already exist")
    scenarios = select(scenario, keywords) if cases is None else _select_cases(cases, scenario, keywords)
    number = len(scenarios.cases if isinstance(scenarios, Cases) else scenarios)
    places = ReaderOptions(
        pythons=options.pairs(python, "--python"),
        time_limit_s=time_limit,
        tables=tempfile.gettempdir() if untrusted else None,  # in the worker, tables must be in its scratch directory
    )
    with ExitStack() as resources:
        with terminal.progress("starting engines"):
            ready, missing = _open_readers(names(engines, "--engines"), places, resources)
        with terminal.progress("scenarios"):
            outcome = run_suite(scenarios, ready, lists=lists, keep=keep, missing=missing)
    done = f"ran {number:,} scenarios on {', '.join(each.name for each in outcome.engines)}"
    write_reports(outcome, reports, done, write_xfails=write_xfails, strict=strict, exit_zero=exit_zero)


def write_reports(
    outcome: Run,
    reports: Sequence[tuple[SuiteReportFormat, Path | None]],
    done: str,
    *,
    write_xfails: Path | None,
    strict: bool,
    exit_zero: bool,
) -> None:
    """Write the reports of a run and end the command.

    Args:
        outcome: The run.
        reports: Each format with its file, or None for standard output.
        done: The last line on a terminal.
        write_xfails: The file for failures, or None.
        strict: True if an ERROR also fails the run.
        exit_zero: True if the outcome does not matter for the exit code.

    Raises:
        click.exceptions.Exit: The run did not pass. The code is 1.
        RequestError: Every scenario on an engine is ERROR.
    """
    from harness.suite.reports import html, json_report, text
    from harness.suite.results import format_list

    writers = {
        SuiteReportFormat.TEXT: text.to_text,
        SuiteReportFormat.JSON: json_report.to_json,
        SuiteReportFormat.JUNIT: json_report.to_junit,
        SuiteReportFormat.GITHUB: text.to_github,
        SuiteReportFormat.HTML: html.to_html,
        SuiteReportFormat.MARKDOWN: text.to_markdown,
    }
    for form, path in reports:
        with results.destination(path) as stream:
            write = results.write_lines if form is SuiteReportFormat.TEXT else results.write_texts
            write([writers[form](outcome)], stream)
    if write_xfails is not None:
        with results.destination(write_xfails) as stream:
            results.write_texts([format_list(outcome.cases)], stream)
    terminal.finished(done)
    is_passed = outcome.passed_strictly() if strict else outcome.passed()
    if not (is_passed or exit_zero):
        raise click.exceptions.Exit(DIFFERENT)
    for case in outcome.engines_without_results():
        message = next((f": {check.message}" for check in case.checks if check.message), "")
        raise RequestError(
            f"Engine {case.engine.name} could not read any scenario: all are ERROR; {case.scenario.name}{message}"
        )


def _run_untrusted(context: click.Context, reports: Sequence[tuple[SuiteReportFormat, Path | None]]) -> None:
    """Run the suite in a worker. Its tables are removed with the worker."""
    parameters = context.params
    if parameters["cases"] is not None:
        raise RequestError("Cannot combine --cases and --untrusted: the tables of cases are not built in the worker")
    if parameters["keep"] is not None or parameters["python"] or parameters["write_xfails"] is not None:
        raise RequestError(
            "Cannot run scenarios with --untrusted and --keep, --python, or --write-xfails: the worker leaves no files"
        )
    engines = names(parameters["engines"], "--engines") or untrusted.ENGINES
    untrusted.refuse_engines(engines, "--engines")
    files = [*(parameters["skips"] or ()), *(parameters["xfails"] or ())]
    scenarios = [name for name in parameters["scenario"] or () if name.endswith(".yaml")]
    untrusted.run_with_report(
        context,
        [],
        [str(file) for file in (*files, *scenarios)],
        reports,
        instead={"engines": ",".join(engines)},
        calls=TABLES_BUILT,
    )


def _open_readers(
    names: Sequence[str] | None, places: ReaderOptions, resources: ExitStack
) -> tuple[list[EngineUnderTest], dict[str, str]]:
    """Return the engines to run, and the reasons why other engines cannot run, by name.

    The engines are those requested, or those of harness that can run.

    Raises:
        RequestError: A requested engine does not exist or is not installed, or no engine can run.
    """
    from harness.engines.registry import engine_names
    from harness.suite.readers import check_names, open_engine, reader_names, split_settings
    from harness.suite.runner import EngineUnderTest
    from harness.suite.workers import NOT_INSTALLED

    check_names(dict.fromkeys(name for name in [*(names or ()), *places.pythons] if name != ALL))
    requested = dict.fromkeys(names or ())
    optional = engine_names() if names is None else reader_names() if ALL in requested else ()
    ready: list[EngineUnderTest] = []
    missing: dict[str, str] = {}
    for name in dict.fromkeys([*(name for name in requested if name != ALL), *optional]):
        try:
            reader = open_engine(name, places, resources)
        except RequestError as error:
            if name in requested or error.cause != NOT_INSTALLED:
                raise
            missing[name] = error.message
            continue
        base, _ = split_settings(name)
        arguments = ("--python", f"{base}={places.pythons[base]}") if base in places.pythons else ()
        ready.append(EngineUnderTest(reader=reader, argument=name, options=arguments))
    if not ready:
        raise RequestError(f"No engine can run: {'; '.join(missing.values())}")
    return ready, missing


def score(
    suite: Annotated[Path, Argument(metavar="SUITE", help="The directory of a suite, with suite.json.")],
    folder: Annotated[Path, Argument(metavar="RESULTS", help="The folder that the reader wrote.")],
    case: Annotated[
        list[str] | None,
        Argument(metavar="CASE", help="Names or patterns (iceberg/deletes/*). [default: all cases]"),
    ] = None,
    xfails: Xfails = None,
    write_xfails: WriteXfails = None,
    format_: Format = None,
    output: formats.ReportFiles = None,
    strict: StrictOption = False,
    exit_zero: ExitZero = False,
) -> None:
    """Score results that a reader in any language wrote to a folder.

    Examples:
        harness scenarios score suite results
        harness scenarios score suite results 'delta/*' -o report.html

    SUITE is a directory from harness scenarios build, or the published suite. Its README.md describes what a reader
    writes. Exit code: 0 passed; 1 a case is FAIL, or one listed in --xfails passes; 2 SUITE or RESULTS cannot be read.
    """
    from harness.suite.result_files import NOT_RUN, score_results
    from harness.suite.results import read_list

    reports = formats.report_files(format_, output, SuiteReportFormat)
    expected = [line for path in xfails or () for line in read_list(path)]
    with terminal.progress("scoring"):
        outcome = score_results(suite, folder, patterns=case or (), xfails=expected)
    checks = [check for each in outcome.cases for check in each.checks]
    missing = sum(check.message == NOT_RUN for check in checks)
    done = f"scored {len(checks) - missing:,} reads of {len(outcome.cases):,} cases; {missing:,} have no result"
    write_reports(outcome, reports, done, write_xfails=write_xfails, strict=strict, exit_zero=exit_zero)


def reread(
    location: options.Location,
    engine: Annotated[
        str, Option("--engine", metavar="NAME", help="An engine, or a reader of another project.")
    ] = "duckdb",
    at: options.AtOption = None,
    shapes: Annotated[
        str | None, Option("--shapes", metavar="A,B", help="Read only in these ways. [default: all]")
    ] = None,
    max_rows: Annotated[
        int, Option("-n", "--max-rows", metavar="N", min=0, help="Show at most N differing rows. All are counted.")
    ] = 20,
    *,
    reports: Reports,
    opening: options.OpeningOptions,
) -> None:
    """Read a table in many ways with one engine, and compare the results.

    Examples:
        harness scenarios reread warehouse/orders
        harness scenarios reread warehouse/orders --engine polars --shapes counts,filters

    This needs neither a second reader nor expected rows. Exit code: 0 all reads agree; 1 two reads differ; 2 a read
    failed, or the table cannot be read.
    """
    from harness.engines.registry import start_engines
    from harness.suite.rereads.shapes import reread as reread_snapshot

    if needs_worker(opening.context):
        untrusted.refuse_engines([engine], "--engine")
        untrusted.run_with_report(opening.context, [location], opening.roots(), reports.files)
        return
    with terminal.progress("reading"):
        snapshot = opening.snapshot(location, at)
        start_engines([engine])
        batch = reread_snapshot(snapshot, engine, max_rows=max_rows, shapes=names(shapes, "--shapes"))
    finish(batch, reports.files, opening.context)
