"""`harness scenarios list` and `build`: the scenarios, and their tables with the rows that reads must give."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from harness.cli import formats, options, results
from harness.cli.document import print_document
from harness.errors import RequestError, visible

if TYPE_CHECKING:
    from harness.testing.scenarios.model import Scenario


Scenarios: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SCENARIO", help="Names or patterns (iceberg/deletes/*), or scenario files; without any, all."
    ),
]
Features: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--feature", metavar="NAME", help="Take only scenarios with this feature. Repeatable: any of them."),
]


def list_(
    scenario: Scenarios = None,
    feature: Features = None,
    format_: options.Format = None,
    output: formats.Output = None,
) -> None:
    """List scenarios by name, with their titles.

    Examples:
        harness scenarios list 'iceberg/deletes/*'
        harness scenarios list --feature deletion-vector --format json
    """
    form = formats.form(format_, output, options.Document)
    found = [
        {"name": each.name, "title": each.title, "format": each.format, "features": each.features}
        for each in chosen(scenario, feature)
    ]
    width = max(len(each["name"]) for each in found)
    lines = (visible(f"{each['name']:<{width}}  {each['title']}") + "\n" for each in found)
    print_document("scenarios", {"scenarios": found}, form, output, text=lambda: lines)


def build(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="SCENARIO... DIR",
            help="Names or patterns (iceberg/deletes/*), or scenario files; then the directory to write into.",
        ),
    ],
    everything: Annotated[bool, typer.Option("--all", help="Build every scenario that comes with harness.")] = False,
) -> None:
    """Write the tables of scenarios, each beside its expected rows.

    Examples:
        harness scenarios build 'iceberg/deletes/*' cases
        harness scenarios build --all cases

    The rows are JSON and Parquet, for any other engine. DIR/index.json lists the cases, DIR/SCENARIO/case.json the
    table and its reads. Paths inside the tables are absolute: build where they will be read.
    """
    from harness.testing.scenarios.answers import write_expected, write_index
    from harness.testing.scenarios.building import build as build_scenario

    *patterns, target = arguments
    if everything == (len(patterns) > 0):
        raise RequestError("Give either scenarios and a directory, or --all and a directory")
    directory = Path(target).absolute()
    scenarios = chosen(patterns, None)
    cases = []
    with results.made_in(directory):
        for scenario in scenarios:
            place = directory / scenario.name
            if place.exists():
                raise RequestError(f"{place} is there already: give another directory, or remove it")
            built = build_scenario(scenario, place)
            cases.append((built, write_expected(built, place)))
        write_index(cases, directory)
    results.print_result("".join(f"{visible(str(case))}\n" for _, case in cases))


def chosen(globs: Sequence[str] | None, features: Sequence[str] | None) -> list[Scenario]:
    """The scenarios of such names and features, each once, by name.

    Raises:
        RequestError: a pattern, or a feature, that no scenario has; a file that is no scenario.
    """
    from harness.testing.scenarios.features import MEANINGS
    from harness.testing.scenarios.loading import find, load

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
