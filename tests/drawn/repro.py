"""A difference that a property test found, as a directory that shows it to somebody else.

    with reproducing(directory):
        assert_agrees(history, drawn, shape, "duckdb")

leaves in a folder of `directory`: `table/`, the minimal table; `scenario.yaml`, which makes it and expects of its rows
what the model has, for `harness scenarios run`; `query.sql` and `expected.txt`, where what differs is the result of a
query; `README.md` with the command, the versions and the difference. Values are replaced by others of the same order
and equality (see `anonymous`), unless the real ones are asked for.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from scenario_text import dump

from drawn.agreement import Disagreement, assert_agrees, described, made, scenario_of
from drawn.anonymous import anonymised
from drawn.models.model import scenario_rows
from drawn.reads import Read, Shape, answer, reads_of
from drawn.strategies.histories import DrawnHistory
from harness.errors import HarnessError
from harness.testing.scenarios.model import History

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
    digest = hashlib.sha256(f"{dump(scenario_of(found.drawn))}{found.shape}".encode()).hexdigest()
    place = directory / f"{found.drawn.format}-{digest[:8]}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    shown = _again(found.drawn, found.shape, found.engine, place) if values else _hidden(found, place)
    if shown is None:
        for path in place.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    (place / "README.md").write_text(_readme(found, shown, values=values), encoding="utf-8")
    return place


def _hidden(found: Disagreement, place: Path) -> Disagreement | None:
    """The same difference with other values; None: it does not show with these."""
    try:
        drawn, shape = anonymised(found.drawn, found.shape)
    except HarnessError:  # other values fell into other partitions, so there is no such history
        return None
    return _again(drawn, shape, found.engine, place)


def _again(drawn: DrawnHistory, shape: Shape, engine: str, place: Path) -> Disagreement | None:
    """The difference of a history that is run once more, in `place`; None: there is none."""
    plain = [shape] if isinstance(shape, Read) else [Read(at=r.at, where=r.where) for r in reads_of(shape)]
    try:
        with made(drawn, place) as history:
            (place / "scenario.yaml").write_text(dump(scenario_of(drawn, plain)), encoding="utf-8")
            if not isinstance(shape, Read):
                _write_query(shape, drawn, history, place)
            assert_agrees(history, drawn, shape, engine)
    except Disagreement as found:
        return found
    except HarnessError:
        return None
    return None


def _write_query(shape: Shape, drawn: DrawnHistory, history: History, place: Path) -> None:
    columns, rows = answer(drawn.model, shape)
    lines = [[column.name for column in columns], *scenario_rows(columns, rows)]
    (place / "query.sql").write_text(f"{described(shape, history)}\n", encoding="utf-8")
    (place / "expected.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _readme(found: Disagreement, shown: Disagreement | None, *, values: bool) -> str:
    versions = "\n".join(f"- {name} {version}" for name, version in _versions())
    if shown is None:
        return (
            f"# {found.engine} and the model differ\n\nThe difference does not show once values are replaced by others,"
            f" so neither table nor scenario is here.\nRun the test again with `--harness-repro-values` to keep the"
            f" values as they were drawn.\n\n## Versions\n\n{versions}\n"
        )
    kept = "as they were drawn" if values else "others of the same types, order and equality"
    if isinstance(shown.shape, Read):
        made_by = "`scenario.yaml` makes it and holds the rows expected"
        command = f"harness scenarios run scenario.yaml --engines {found.engine}"
    else:
        made_by = "`scenario.yaml` makes it, and `query.sql` gives the rows of `expected.txt`"
        command = f'harness sql --engine {found.engine} --table t=table "$(cat query.sql)"'
    return (
        f"# {found.engine} and the model differ\n\n`table/` is the table, {made_by}. Values are {kept}.\n\n"
        f"    {command}\n\n## Difference\n\n```\n{shown}\n```\n\n## Versions\n\n{versions}\n"
    )


def _versions() -> list[tuple[str, str]]:
    found = [("Python", platform.python_version())]
    for name in _PACKAGES:
        try:
            found.append((name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
