"""`harness build`: the tables of scenarios, with the results that reading them must give."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import results
from harness.errors import RequestError, visible

if TYPE_CHECKING:
    from harness.testing.scenarios.model import Scenario


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
    """Write the tables of scenarios, and beside each its expected rows as JSON and Parquet, for any other engine.

    Examples:
        harness build 'iceberg/deletes/*' cases
        harness build --all cases

    DIR/index.json lists the cases; DIR/SCENARIO/case.json says where the table is, what to read and what that gives.
    Paths inside the tables are absolute: build where they will be read.
    """
    from harness.testing.scenarios.answers import write_expected, write_index
    from harness.testing.scenarios.building import build as build_scenario

    *chosen, target = arguments
    directory = Path(target).absolute()
    scenarios = _scenarios(chosen, all_of_them=everything)
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


def _scenarios(chosen: Sequence[str], *, all_of_them: bool) -> list[Scenario]:
    """The scenarios that the arguments name, each once."""
    from harness.testing.scenarios.loading import find, load

    if all_of_them == (len(chosen) > 0):
        raise RequestError("Give either scenarios and a directory, or --all and a directory")
    found = (
        find() if all_of_them else [s for one in chosen for s in ([load(Path(one))] if _is_file(one) else find(one))]
    )
    return list({scenario.name: scenario for scenario in found}.values())


def _is_file(text: str) -> bool:
    return text.endswith((".yaml", ".yml"))
