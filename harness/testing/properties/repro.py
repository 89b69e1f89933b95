"""A difference that a property test found, as a directory that shows it to somebody else.

    with reproducing(directory):
        run_state_machine_as_test(machine("iceberg-2"))

leaves in a folder of `directory`: `table/`, the minimal table; `scenario.yaml`, which makes it and expects what the
model has, for `harness run --scenario`; `README.md` with the command, the versions and the difference. Values are
replaced by others of the same order and equality (see `anonymous`), unless the real ones are asked for.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.errors import HarnessError
from harness.testing.models.model import TableModel, model_of
from harness.testing.properties.agreement import Disagreement, Read, disagreement_of
from harness.testing.properties.anonymous import anonymised
from harness.testing.scenarios.building import begin
from harness.testing.scenarios.loading import dump
from harness.testing.scenarios.model import History, Scenario

_PACKAGES: Final = ("lakeharness", "duckdb", "pyarrow", "pyspark", "hypothesis")


@contextmanager
def reproducing(directory: Path | None, *, values: bool = False) -> Iterator[None]:
    """Leave a repro directory for a `Disagreement` that is raised inside, and say in its notes where it is.

    directory: gets a folder for each difference; None: nothing is written. values: keep the values as they were drawn.
    """
    try:
        yield
    except Disagreement as found:
        if directory is not None:
            place = write_repro(found, directory, values=values)
            found.add_note(f"Repro directory: {place}")
        raise


def write_repro(found: Disagreement, directory: Path, *, values: bool = False) -> Path:
    """Write the repro directory of a difference; its path.

    values: keep the values as they were drawn. Without, they are replaced; if the difference does not survive that, the
    README says so and there is neither table nor scenario.
    """
    name = f"{found.scenario.format}-{hashlib.sha256(dump(found.scenario).encode()).hexdigest()[:8]}"
    place = directory / name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    shown = _again(found.scenario, found.read, found.engine, place) if values else _hidden(found, place)
    if shown is None:
        shutil.rmtree(place / "table", ignore_errors=True)
    else:
        (place / "scenario.yaml").write_text(dump(shown.scenario), encoding="utf-8")
    (place / "README.md").write_text(_readme(found, shown, values=values), encoding="utf-8")
    return place


def _hidden(found: Disagreement, place: Path) -> Disagreement | None:
    """The same difference with other values; None: it does not show with these."""
    try:
        scenario, read = anonymised(found.scenario, found.read)
    except HarnessError:  # other values fell into other partitions, so there is no such history
        return None
    return _again(scenario, read, found.engine, place)


def _again(scenario: Scenario, read: Read, engine: str, place: Path) -> Disagreement | None:
    """The difference of a history that is run once more, in `place`; None: there is none."""
    plain = replace(scenario, expectations=())
    try:
        history, model = replayed(plain, place)
    except HarnessError:
        return None
    return disagreement_of(history, model, read, [engine], lambda: plain)


def replayed(scenario: Scenario, directory: Path) -> tuple[History, TableModel]:
    """The table of a scenario, and its model, all operations done.

    Raises:
        HarnessError: an operation cannot be done.
    """
    history, model = begin(scenario, directory), model_of(scenario.format, scenario.table)
    for operation in scenario.history:
        history.apply(operation)
        model.apply(operation)
    return history, model


def _readme(found: Disagreement, shown: Disagreement | None, *, values: bool) -> str:
    versions = "\n".join(f"- {name} {version}" for name, version in _versions())
    if shown is None:
        return (
            f"# {found.engine} and the model differ\n\nThe difference does not show once values are replaced by others,"
            f" so neither table nor scenario is here.\nRun the test again with `--harness-repro-values` to keep the"
            f" values as they were drawn.\n\n## Versions\n\n{versions}\n"
        )
    kept = "as they were drawn" if values else "others of the same types, order and equality"
    return (
        f"# {found.engine} and the model differ\n\n`table/` is the table, `scenario.yaml` makes it and holds the rows"
        f" expected. Values are {kept}.\n\n    harness run --engine {found.engine} --scenario scenario.yaml\n\n"
        f"## Difference\n\n```\n{shown}\n```\n\n## Versions\n\n{versions}\n"
    )


def _versions() -> list[tuple[str, str]]:
    found = [("Python", platform.python_version())]
    for name in _PACKAGES:
        try:
            found.append((name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
