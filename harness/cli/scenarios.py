"""`harness scenarios`: tables with what reads must give, as data, scripts and sites, and asked of engines."""

from __future__ import annotations

import enum
import fnmatch
import json
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import click

from harness.cli import DIFFERENT, formats, options, results, terminal, untrusted
from harness.cli.document import Printed
from harness.cli.options import Settings, names
from harness.cli.parameters import Argument, Option
from harness.cli.untrusted import is_for_worker
from harness.errors import RequestError, visible
from harness.metadata.model.text_tables import aligned
from harness.storage.outputs import named
from harness.untrusted.seccomp import TABLES_BUILT

if TYPE_CHECKING:
    from harness.suite.cases import Cases
    from harness.suite.finding import EnginePlaces
    from harness.suite.results import Run
    from harness.suite.runner import UnderTest
    from harness.suite.scenarios.model import Scenario


Scenarios: TypeAlias = Annotated[
    list[str] | None,
    Argument(metavar="SCENARIO", help="Names or patterns (iceberg/deletes/*), or scenario files; without any, all."),
]
Features: TypeAlias = Annotated[
    list[str] | None,
    Option("--feature", metavar="NAME", help="Take only scenarios with this feature. Repeatable: any of them."),
]


def list_(
    scenario: Scenarios = None,
    feature: Features = None,
    *,
    out: Printed,
) -> None:
    """List scenarios by name, with their titles.

    Examples:
        harness scenarios list 'iceberg/deletes/*'
        harness scenarios list --feature deletion-vector --format json
    """
    found = chosen(scenario, feature)
    described = [
        {"name": each.name, "title": each.title, "format": each.format, "features": each.features} for each in found
    ]
    lines = (f"{line}\n" for line in aligned([(each.name, each.title) for each in found]))
    out.show("scenarios", {"scenarios": described}, lambda: lines)


def build(
    arguments: Annotated[
        list[str],
        Argument(
            metavar="SCENARIO... DIR",
            help="Names or patterns (iceberg/deletes/*), or scenario files; then the directory to write into.",
        ),
    ],
    everything: Annotated[bool, Option("--all", help="Build every scenario that comes with harness.")] = False,
) -> None:
    """Write the tables of scenarios, each beside its expected rows: a suite for programs in any language.

    Examples:
        harness scenarios build 'iceberg/deletes/*' suite
        harness scenarios build --all suite

    DIR/README.md says how a program reads the suite, and harness judge what it read. Paths inside the tables are
    absolute: build where they will be read.
    """
    from harness.suite.suite import write_suite

    *patterns, target = arguments
    if everything == (len(patterns) > 0):
        raise RequestError("Give either scenarios and a directory, or --all and a directory")
    directory = Path(target).absolute()
    scenarios = chosen(patterns, None)
    with (
        named("the directory", directory),
        terminal.progress("building", len(scenarios), "scenarios") as advance,
    ):
        cases = write_suite(scenarios, directory, advance)
    results.print_result("".join(f"{visible(str(case))}\n" for case in cases))
    terminal.finished(f"built {len(cases):,} scenarios")


def script(
    scenario: Annotated[
        str, Argument(metavar="SCENARIO", help="The name of a scenario, or a scenario file, such as of a repro.")
    ],
    output: Annotated[
        Path | None, Option("--output", metavar="FILE", help="Write here instead of standard output.")
    ] = None,
) -> None:
    """Write a scenario as one Python file, for maintainers of readers.

    Examples:
        harness scenarios script iceberg/deletes/null-keys --output null-keys.py
        python null-keys.py /tmp

    The file needs Python 3.8 and nothing else. It writes the table below a directory, and prints the rows that reads
    must give, the rules that say so, and commands for DuckDB, Spark, Trino, ClickHouse, PyIceberg, Polars and Daft.
    """
    from harness.suite.script import script as script_of

    found = chosen([scenario], None)
    if len(found) > 1:
        raise RequestError(f"A script is of one scenario, and {scenario!r} means {len(found):,}: name one")
    text = script_of(found[0])
    with results.destination(output) as stream:
        results.write_texts([text], stream)


def site(
    arguments: Annotated[
        list[Path],
        Argument(
            metavar="REPORT [EARLIER] DIR",
            help="A report of scenarios run as JSON, another one to compare it with, and the directory to write into.",
        ),
    ],
) -> None:
    """Write a run as a site: who reads what, and each reader's answer to each scenario as a difference.

    Examples:
        harness scenarios site matrix.json site
        harness scenarios site matrix.json last-month.json site

    DIR/index.html is the first page. The pages need no server and no network, and their filters alone a script. A
    scenario that a reader reads wrongly comes with its table as one Python file, for the reader's maintainers.
    """
    from harness.suite.reports.site import write_site

    if len(arguments) not in (2, 3):
        raise RequestError("Give a report, perhaps an earlier one, and a directory")
    *reports, directory = arguments
    documents = []
    for path in reports:
        try:
            documents.append(json.loads(path.read_text("utf-8")))
        except (OSError, ValueError, RecursionError) as error:
            raise RequestError(f"Cannot read the report: {error}", file=str(path)) from error
    with named("the directory", directory):
        earlier = documents[1] if len(documents) > 1 else None
        first = write_site(documents[0], directory, earlier, _script_or_none)
    results.print_result(f"{visible(str(first))}\n")


def _script_or_none(name: str) -> str | None:
    """The script of a scenario of that name. None: harness has no such scenario, or its table is too large."""
    from harness.suite.scenarios.loading import find
    from harness.suite.script import script as script_of

    try:
        return script_of(find(name)[0])
    except RequestError:
        return None


def chosen(globs: Sequence[str] | None, features: Sequence[str] | None) -> list[Scenario]:
    """The scenarios of such names and features, each once, by name.

    Raises:
        RequestError: a pattern, or a feature, that no scenario has; a file that is no scenario.
    """
    from harness.suite.scenarios.features import MEANINGS
    from harness.suite.scenarios.loading import find, load

    for feature in features or ():
        if feature not in MEANINGS:
            raise RequestError(f"Unknown feature {feature!r}: there are {', '.join(sorted(MEANINGS))}")
    found = (
        scenario
        for glob in globs or ("*",)
        for scenario in ([load(Path(glob))] if glob.endswith(".yaml") else find(glob))
    )
    named = {scenario.name: scenario for scenario in found}
    wanted = [named[name] for name in sorted(named) if not features or set(features) & set(named[name].features)]
    if not wanted:
        raise RequestError(f"No scenario with the feature {' or '.join(features or ())} has such a name")
    return wanted


def _chosen_cases(directory: Path, globs: Sequence[str] | None, features: Sequence[str] | None) -> Cases:
    """The cases of a directory that have such names and features. Raises RequestError if there is none."""
    from harness.suite.cases import load_cases

    found = load_cases(directory)
    kept = tuple(
        case
        for case in found.cases
        if any(fnmatch.fnmatchcase(case.scenario.name, glob) for glob in globs or ("*",))
        and (not features or {*features} & {*case.scenario.features})
    )
    if not kept and (globs or features):
        raise RequestError(f"No case has such a name and feature: there are {len(found.cases):,}", file=str(directory))
    return replace(found, cases=kept)


ALL = "all"
"""Stands for every engine that is known and can run."""


class Report(enum.Enum):
    """Forms of a written run."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    GITHUB = "github"
    HTML = "html"
    MARKDOWN = "markdown"


Xfails: TypeAlias = Annotated[
    list[Path] | None,
    Option("--xfails", metavar="FILE", help="Expect the failures in this file, with lines as for --skips."),
]
Formats: TypeAlias = Annotated[
    list[Report] | None,
    Option(
        "--format",
        metavar="FORMAT",
        help="Write text, json, junit, github, html or markdown. Repeatable, each for the --output in its place.",
    ),
]
Outputs: TypeAlias = Annotated[
    list[Path] | None,
    Option(
        "--output",
        metavar="FILE",
        help="Write the report here instead of standard output; the suffix says the format. Repeatable.",
    ),
]
WriteXfails: TypeAlias = Annotated[
    Path | None,
    Option("--write-xfails", metavar="FILE", help="Write each FAIL and ERROR here, as a list for --xfails."),
]
StrictOption: TypeAlias = Annotated[bool, Option("--strict", help="Exit with 1 also for an ERROR.")]
ExitZero: TypeAlias = Annotated[
    bool, Option("--exit-zero", help="Exit with 0 whatever the outcomes are, if the suite ran.")
]


def run(
    scenario: Scenarios = None,
    engines: Annotated[
        str | None,
        Option(
            "--engines",
            metavar="A,B",
            help="Engines by name, or MODULE:ATTRIBUTE; all: every engine that can run. [default: those of duckdb, "
            "spark and oracle that can run]",
        ),
    ] = None,
    feature: Features = None,
    cases: Annotated[
        Path | None,
        Option(
            "--cases",
            metavar="DIR",
            help="Run the cases in this directory instead: a suite that build wrote, Delta's acceptance tests, or "
            "acceptance workloads.",
        ),
    ] = None,
    skips: Annotated[
        list[Path] | None,
        Option(
            "--skips", metavar="FILE", help="Leave scenarios out by this file, with lines of ENGINE::SCENARIO # reason."
        ),
    ] = None,
    xfails: Xfails = None,
    write_xfails: WriteXfails = None,
    format_: Formats = None,
    output: Outputs = None,
    python: Annotated[
        list[str] | None,
        Option("--python", metavar="NAME=PATH", help="Run an engine in this interpreter. Repeatable."),
    ] = None,
    time_limit: Annotated[
        float,
        Option("--time-limit", metavar="S", min=0.1, help="End a read of a foreign engine after so many seconds."),
    ] = 60.0,
    against_itself: Annotated[
        bool,
        Option(
            "--against-itself",
            help="Read each table in many ways that must agree, too: filters, columns, counts, limits, copies.",
        ),
    ] = False,
    shapes: Annotated[
        str | None,
        Option(
            "--shapes", metavar="A,B", help="With --against-itself, read in these ways alone. [default: all of them]"
        ),
    ] = None,
    keep: Annotated[Path | None, Option("--keep", metavar="DIR", help="Build the tables here, and leave them.")] = None,
    strict: StrictOption = False,
    exit_zero: ExitZero = False,
    untrusted: options.Untrusted = False,
    set_: options.Set = None,
    *,
    context: click.Context,
) -> None:
    """Run scenarios on engines, and report who reads them rightly.

    Examples:
        harness scenarios run --engines duckdb,spark
        harness scenarios run 'iceberg/deletes/*' --output report.xml
        harness scenarios run --cases reader_tests/generated --engines duckdb,polars

    Exits with 0 if no scenario is FAIL or passes against --xfails, and no engine disagrees with itself, with 1 if one
    is or does, with 2 if the suite, or an engine asked for, could not run, or if every scenario on an engine is ERROR.
    """
    from harness.suite.cases import Cases
    from harness.suite.finding import EnginePlaces
    from harness.suite.itself import shapes_of
    from harness.suite.results import read_list
    from harness.suite.runner import Lists
    from harness.suite.runner import run as run_suite

    if opening := Settings.of(set_, untrusted=untrusted).opening:
        raise click.BadParameter(f"--set {next(iter(opening))}: of scenarios, bounds and waived alone are set")
    if shapes is not None and not against_itself:
        raise click.BadParameter("--shapes goes with --against-itself alone")
    ways = shapes_of(names(shapes, "--shapes")) if against_itself else ()
    written = formats.placed(format_, output, Report)
    if is_for_worker(context):
        _run_untrusted(context, written)
        return
    lists = Lists(
        skips=tuple(line for path in skips or () for line in read_list(path)),
        xfails=tuple(line for path in xfails or () for line in read_list(path)),
    )
    if cases is not None and keep is not None:
        raise RequestError("Cannot run --cases with --keep: their tables are there already")
    scenarios = chosen(scenario, feature) if cases is None else _chosen_cases(cases, scenario, feature)
    number = len(scenarios.cases if isinstance(scenarios, Cases) else scenarios)
    places = EnginePlaces(
        pythons=options.pairs(python, "--python"),
        time_limit_s=time_limit,
        tables=tempfile.gettempdir() if untrusted else None,  # in the worker, where all that it writes is
    )
    with ExitStack() as resources:
        with terminal.progress("starting engines"):
            ready, missing = _opened(names(engines, "--engines"), places, resources)
        with terminal.progress("scenarios"):
            found = run_suite(scenarios, ready, lists=lists, keep=keep, missing=missing, shapes=ways)
    done = f"ran {number:,} scenarios on {', '.join(each.name for each in found.engines)}"
    report(found, written, done, write_xfails=write_xfails, strict=strict, exit_zero=exit_zero)


def report(
    found: Run,
    written: Sequence[tuple[Report, Path | None]],
    done: str,
    *,
    write_xfails: Path | None,
    strict: bool,
    exit_zero: bool,
) -> None:
    """Writes the reports of a run and ends the command. done: the last line on a terminal.

    Raises:
        click.exceptions.Exit: with 1, as the outcomes say. RequestError: an engine has read nothing.
    """
    from harness.suite.reports import html, json_report, text
    from harness.suite.results import written_list

    writers = {
        Report.TEXT: text.to_text,
        Report.JSON: json_report.to_json,
        Report.JUNIT: json_report.to_junit,
        Report.GITHUB: text.to_github,
        Report.HTML: html.to_html,
        Report.MARKDOWN: text.to_markdown,
    }
    for form, path in written:
        with results.destination(path) as stream:
            write = results.write_lines if form is Report.TEXT else results.write_texts
            write([writers[form](found)], stream)
    if write_xfails is not None:
        with results.destination(write_xfails) as stream:
            results.write_texts([written_list(found.cases)], stream)
    terminal.finished(done)
    passed = found.passed_strictly() if strict else found.passed()
    if not (passed or exit_zero):
        raise click.exceptions.Exit(DIFFERENT)
    for case in found.unread():
        told = next((f": {check.message}" for check in case.checks if check.message), "")
        raise RequestError(f"Engine {case.engine.name} read no scenario, each is ERROR; {case.scenario.name}{told}")


def _run_untrusted(context: click.Context, written: Sequence[tuple[Report, Path | None]]) -> None:
    """Runs the suite in a worker, whose tables go with it."""
    given = context.params
    if given["cases"] is not None:
        raise RequestError("Cannot run --cases with --untrusted: their tables are not built in the worker")
    if given["keep"] is not None or given["python"] or given["write_xfails"] is not None:
        raise RequestError(
            "Cannot run scenarios with --untrusted and --keep, --python or --write-xfails: nothing of them is left"
        )
    if len(written) > 1:
        raise RequestError("Cannot write more than one report with --untrusted: give one --format")
    engines = names(given["engines"], "--engines") or untrusted.ENGINES
    untrusted.refuse_engines(engines, "--engines")
    files = [*(given["skips"] or ()), *(given["xfails"] or ())]
    scenarios = [name for name in given["scenario"] or () if name.endswith(".yaml")]
    ((form, output),) = written
    untrusted.run(
        context,
        [],
        [str(file) for file in (*files, *scenarios)],
        output=output,
        instead={"engines": ",".join(engines), "format_": [form], "output": None},
        calls=TABLES_BUILT,
    )


def _opened(
    names: Sequence[str] | None, places: EnginePlaces, resources: ExitStack
) -> tuple[list[UnderTest], dict[str, str]]:
    """The requested engines, or harness's own that can run; and by name the reasons why others cannot run.

    Raises:
        RequestError: an engine that was asked for by name does not exist or is not installed; or none can run.
    """
    from harness.engines.registry import engine_names
    from harness.suite.finding import check_names, known_engines, open_engine, split_settings
    from harness.suite.runner import UnderTest
    from harness.suite.workers import NOT_INSTALLED

    check_names(dict.fromkeys(name for name in [*(names or ()), *places.pythons] if name != ALL))
    asked = dict.fromkeys(names or ())
    optional = engine_names() if names is None else known_engines() if ALL in asked else ()
    ready: list[UnderTest] = []
    missing: dict[str, str] = {}
    for name in dict.fromkeys([*(name for name in asked if name != ALL), *optional]):
        try:
            reader = open_engine(name, places, resources)
        except RequestError as error:
            if name in asked or error.cause != NOT_INSTALLED:
                raise
            missing[name] = error.message
            continue
        base, _ = split_settings(name)
        arguments = ("--python", f"{base}={places.pythons[base]}") if base in places.pythons else ()
        ready.append(UnderTest(reader=reader, asked=name, arguments=arguments))
    if not ready:
        raise RequestError(f"No engine can run: {'; '.join(missing.values())}")
    return ready, missing
