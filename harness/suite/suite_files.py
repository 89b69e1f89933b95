"""The suite as data: tables, reads, and expected results as plain files for programs in any language.

    DIR/suite.json                  all cases, and the meanings of features
    DIR/README.md, schema.json      how to read the suite; the schema of its JSON files and of results
    DIR/CASE/table/                 a table
    DIR/CASE/case.json              the path of the table, its reads, and their expected results
    DIR/CASE/expected/N.arrow       the rows of the N-th read as an Arrow IPC file
    DIR/CASE/expected/N.jsonl       the same as JSON lines, see `json_rows`
    DIR/CASE/intact/                for a broken table, its intact copy, which is a case too

Paths in JSON files are relative to the file. Paths in Iceberg's metadata cannot be relative: versions 1 to 3 of the
format only support absolute paths, and position deletes name data files by the same text. A suite must therefore be
read in the directory that it was written to. `suite.json` names it.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa

import harness
from harness.errors import HarnessWarning, RequestError, json_text
from harness.metadata.model.schema import Field
from harness.rules import find_rule
from harness.storage.outputs import create_path_below, write_file
from harness.suite.foreign_files import path_below, read_json
from harness.suite.json_rows import json_lines_of, read_rows
from harness.suite.protocol import error_class, predicate, schema_fault
from harness.suite.reader import AtKind
from harness.suite.scenarios.building import build, columns_of
from harness.suite.scenarios.features import MEANINGS
from harness.suite.scenarios.model import (
    BuiltScenario,
    ExpectationKeys,
    ExpectedError,
    ResolvedChanges,
    ResolvedExpectation,
    ResolvedSelector,
    Scenario,
    TableCase,
)
from harness.suite.scenarios.verifying import build_intact_copy
from harness.suite.scores import needs_intact_copy
from harness.writing.local_files import FIRST_TIMESTAMP_MS, set_time

FORMAT = 1
"""The version of the JSON files. Readers should reject other versions. `kind` is suite or case."""
INDEX, CASE = "suite.json", "case.json"
_INTACT = "intact"
_SCHEMA = Path(__file__).with_name("suite.json")
_README = Path(__file__).with_name("suite.md")


@cache
def schema() -> dict[str, Any]:
    """Return the JSON schema of the suite's files and of results."""
    document: dict[str, object] = json.loads(_SCHEMA.read_text("utf-8"))
    return document


def write_suite(scenarios: Sequence[Scenario], directory: Path, advance: Callable[[int], object]) -> list[Path]:
    """Build the tables of scenarios in a directory, with their reads and expected results.

    Args:
        scenarios: The scenarios.
        directory: The absolute directory where readers will find the suite. It is created if missing.
        advance: Called with 1 after each scenario.

    Returns:
        The paths of the `case.json` files.

    Raises:
        RequestError: The directory already contains a suite or a folder with a scenario's name, or a scenario cannot be
            built.
    """
    if os.path.lexists(directory / INDEX):
        raise RequestError("A suite already exists: use another directory, or remove it", file=str(directory))
    started = time.time()
    entries, paths = [], []
    for scenario in scenarios:
        place = create_path_below(directory, scenario.name)
        if os.path.lexists(place):
            raise RequestError(f"{place} already exists: use another directory, or remove it")
        built, intact_copy = build(scenario, place), None
        if any(map(needs_intact_copy, built.expectations)):
            # the undamaged history may still break rules
            with warnings.catch_warnings(action="ignore", category=HarnessWarning):
                intact_copy = build_intact_copy(scenario, place / _INTACT)
        paths.append(_write_case(built, place, intact_copy is not None))
        entries.append(_entry(scenario, paths[-1].relative_to(directory), None))
        if intact_copy is not None:
            path = _write_case(_with_sorted_rows(intact_copy), place / _INTACT, False)
            entries.append(_entry(intact_copy.scenario, path.relative_to(directory), scenario.name))
        advance(1)
    document = {
        "format": FORMAT,
        "kind": "suite",
        "version": harness.__version__,
        "directory": str(directory),
        "count": len(scenarios),
        "features": {name: MEANINGS[name] for name in sorted({name for each in scenarios for name in each.features})},
        "cases": entries,
    }
    write_file(directory / "schema.json", _SCHEMA.read_text("utf-8"))
    write_file(directory / "README.md", _README.read_text("utf-8"))
    write_file(directory / INDEX, _json(document))
    _set_times(directory, started)
    return paths


def _entry(scenario: Scenario, path: Path, intact_copy_of: str | None) -> dict[str, object]:
    return {
        "name": scenario.name,
        "title": scenario.title,
        "table_format": scenario.format,
        "features": list(scenario.features),
        "case": path.as_posix(),
        "intact_of": intact_copy_of,
    }


def _with_sorted_rows(intact_copy: BuiltScenario) -> BuiltScenario:
    """Return the intact copy with its rows sorted by their text, because a read returns them in any order."""
    (read,) = intact_copy.expectations
    assert isinstance(read.expected, pa.Table)
    lines = json_lines_of(read.expected).split("\n")[:-1]
    order = sorted(range(len(lines)), key=lines.__getitem__)
    return replace(intact_copy, expectations=(replace(read, expected=read.expected.take(pa.array(order, pa.int64()))),))


def _set_times(directory: Path, started: float) -> None:
    """Set the same time on all files that were written since `started`, so that archives of a suite are reproducible.

    Files whose time the builder has set keep it.
    """
    for file in directory.rglob("*"):
        if file.is_file() and file.stat().st_mtime > started - 1:  # the clock of the file system may lag
            set_time(file, FIRST_TIMESTAMP_MS)


def _write_case(built: BuiltScenario, directory: Path, has_intact_copy: bool) -> Path:
    """Write `case.json` and the expected rows of a built scenario, and return the path of `case.json`."""
    (directory / "expected").mkdir(parents=True, exist_ok=True)
    scenario, metadata = built.scenario, built.metadata_path
    document = {
        "format": FORMAT,
        "kind": "case",
        "name": scenario.name,
        "title": scenario.title,
        "table_format": scenario.format,
        "features": list(scenario.features),
        "requirements": [_requirement(clause) for clause in scenario.clauses],
        "table": built.location.relative_to(directory).as_posix(),
        "metadata": None if metadata is None else metadata.relative_to(directory).as_posix(),
        "intact": f"{_INTACT}/{CASE}" if has_intact_copy else None,
        "reads": [_read(built, expectation, directory) for expectation in built.expectations],
    }
    path = directory / CASE
    path.write_text(_json(document), "utf-8")
    return path


def _requirement(clause: str) -> dict[str, object]:
    """Return a rule, or another clause that a scenario cites."""
    try:
        rule = find_rule(clause)
    except RequestError:
        return {"id": clause, "title": None, "source": None, "links": []}
    return {"id": rule.name, "title": rule.title, "source": rule.source, "links": list(rule.links)}


def _read(built: BuiltScenario, expectation: ResolvedExpectation, directory: Path) -> dict[str, object]:
    at, expected, rows, error = expectation.at, expectation.expected, None, None
    if isinstance(expected, pa.Table):
        columns = columns_of(built.history, built.scenario.expectations[expectation.number - 1], at)
        rows = _write_rows(expected, columns, directory, expectation.number)
    elif expected is not None:
        error = error_class(expected.kind, expected.cause)
    # A point in history that does not exist has no schema.
    schema = built.history.schema_at(at) if expectation.where is not None and rows is not None else None
    points = ({"kind": kind, "value": getattr(at, kind)} for kind in get_args(AtKind))
    return {
        "number": expectation.number,
        "demand": expectation.demand,
        **{key.name: getattr(expectation, key.name) for key in fields(ExpectationKeys)},
        "predicate": predicate(expectation.where, schema),
        "at": next((point for point in points if point["value"] is not None), None),
        "changes": None if at.changes is None else at.changes.to_json(),
        "catalog": {name: _json_value(value) for name, value in expectation.opening.items()} or None,
        "rows": rows,
        "error": error,
    }


def _write_rows(rows: pa.Table, columns: Sequence[Field], directory: Path, number: int) -> dict[str, object]:
    # A required column of a damaged table may hold nulls, which other implementations of Arrow reject.
    values = [f.with_nullable(f.nullable or rows.column(i).null_count > 0) for i, f in enumerate(rows.schema)]
    schema, name = pa.schema(values), f"expected/{number}"
    with pa.ipc.new_file(directory / f"{name}.arrow", schema) as file:
        file.write_table(pa.Table.from_arrays(rows.columns, schema=schema))
    (directory / f"{name}.jsonl").write_text(json_lines_of(rows), "utf-8")
    types = [{"name": f.name, "type": str(f.type), "required": f.required} for f in columns]
    return {"count": rows.num_rows, "columns": types, "arrow": f"{name}.arrow", "jsonl": f"{name}.jsonl"}


def _json_value(value: object) -> object:
    """Return a part of a catalog's answer as JSON, with the content of commits as text."""
    if isinstance(value, tuple):
        return [_json_value(each) for each in value]
    return value.decode() if isinstance(value, bytes) else value


def _json(document: object) -> str:
    return json_text(document, indent=1) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A suite in a directory.

    Attributes:
        cases: The paths of the `case.json` files by name, without intact copies.
        features: The meanings of features by name.
    """

    directory: Path
    version: str
    features: Mapping[str, str]
    cases: Mapping[str, Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteCase(TableCase):
    """A case of a suite. `intact_copy` is the `case.json` of the intact copy, or None if there is none."""

    intact_copy: Path | None


def load_suite(directory: Path) -> Suite:
    """Return the suite in a directory.

    Raises:
        RequestError: There is no suite, `suite.json` does not conform to its schema, or a case is outside the
            directory.
    """
    document = json_object(directory, INDEX, "suite")
    return Suite(
        directory=directory,
        version=document["version"],
        features=document["features"],
        cases={
            each["name"]: path_below(directory, each["case"], "the case")
            for each in document["cases"]
            if each["intact_of"] is None
        },
    )


def load_case(path: Path) -> SuiteCase:
    """Return the case of a `case.json` with its expected rows.

    Expected errors have neutral classes, see `protocol.ERROR_CLASSES`.

    Raises:
        RequestError: A file cannot be read, does not conform to its schema, or is outside the folder of the case.
    """
    place = path.parent
    document = json_object(place, path.name, "case")
    path_below(place, document["name"], "the case by its name")  # results and tables are found by this name
    scenario = Scenario(
        name=document["name"],
        path=None,
        title=document["title"],
        format=document["table_format"],
        clauses=tuple(each["id"] for each in document["requirements"]),
        features=tuple(document["features"]),
        table={},
        history=(),
        expectations=(),
    )
    return SuiteCase(
        scenario=scenario,
        location=path_below(place, document["table"], "the table"),
        metadata_path=None if document["metadata"] is None else path_below(place, document["metadata"], "the metadata"),
        expectations=tuple(_expectation(read, place) for read in document["reads"]),
        intact_copy=None if document["intact"] is None else path_below(place, document["intact"], "the intact copy"),
    )


def _expectation(read: Mapping[str, Any], place: Path) -> ResolvedExpectation:
    at = {} if read["at"] is None else {read["at"]["kind"]: read["at"]["value"]}
    changes = None if read["changes"] is None else ResolvedChanges.from_json(read["changes"])
    keys = {key.name: read.get(key.name) for key in fields(ExpectationKeys)}
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in keys.items()}
    expected: pa.Table | ExpectedError | None = None if read["error"] is None else ExpectedError(read["error"])
    if read["rows"] is not None:
        expected = read_rows(place, read["rows"]["arrow"])
    return ResolvedExpectation(
        number=read["number"],
        at=ResolvedSelector(**at, changes=changes),
        expected=expected,
        opening=read["catalog"] or {},
        **values,
    )


def json_object(folder: Path, name: str, kind: str) -> dict[str, Any]:
    """Return the JSON object in a file below a folder, validated against a definition of the schema.

    Raises:
        RequestError: The file cannot be read or does not conform to the schema.
    """
    document: dict[str, Any] = read_json(folder, name, f"the {kind}")
    if wrong := schema_fault(document, kind, schema(), f"the {kind}"):
        raise RequestError(f"Invalid {kind}: {wrong}", file=str(folder / name))
    return document
