"""`LakeTable`: a table that a test makes from the text of a scenario, with its expected rows."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from harness.errors import RequestError
from harness.suite.scenarios.building import build
from harness.suite.scenarios.evidence import collect_evidence
from harness.suite.scenarios.features import missing_features
from harness.suite.scenarios.loading import from_mapping, parse_yaml, read_document
from harness.suite.scenarios.model import BuiltScenario, Scenario
from harness.suite.scenarios.verifying import read_with, verify
from harness.table import Table, open_table

LakeSource: TypeAlias = "str | Mapping[str, Any] | Path | Scenario"
"""A scenario: its text, the same as a mapping, its file, or a result of `harness.suite.scenarios.loading.find`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeTable:
    """A table on disk, made from a scenario.

    It can be passed to anything that accepts an Arrow stream, as its current rows.

    Attributes:
        name: The table's name in the test.
        engines: The engines that `check` uses by default.
        prepare: A function that is called with an engine's name before the engine reads, or None.
    """

    name: str
    _built: BuiltScenario = field(repr=False)
    engines: tuple[str, ...] = ("duckdb",)
    prepare: Callable[[str], object] | None = field(default=None, repr=False)

    @property
    def table(self) -> Table:
        """The table, opened again each time.

        Raises:
            HarnessError: The table is broken, as its scenario intends.
        """
        return open_table(self.location)

    @property
    def location(self) -> str:
        """The address to open: the directory, or the metadata file if the directory does not identify it."""
        return self._built.address

    @property
    def directory(self) -> Path:
        """The table's directory."""
        return self._built.location

    def check(self, engine: str | None = None) -> None:
        """Fail unless each read of the scenario returns the expected rows or raises the expected error.

        Expectations that the scenario marks as open are not checked.

        Args:
            engine: `duckdb`, `spark` or `oracle`. None: each engine of the test run.

        Raises:
            AssertionError: A read had another result. The message is the report.
            RequestError: The scenario has no expectations, or the engine does not exist.
        """
        __tracebackhide__ = True
        if not self._built.expectations:
            raise RequestError(f"Cannot check the table {self.name}: its scenario has no `expect`")
        for name in self.engines if engine is None else (engine,):
            if self.prepare is not None:
                self.prepare(name)
            read = read_with(self._built, name)
            matches = {each.number: verify(each, read) for each in self._built.expectations if each.open is None}
            place = f"table {self.name} on {name}, expectation"
            failures = [f"{place} {number}: {fault}" for number, fault in matches.items() if fault is not None]
            if failures:
                raise AssertionError("\n".join(failures))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.snapshot().__arrow_c_stream__(requested_schema)


def scenario_of(source: LakeSource, name: str) -> Scenario:
    """Return the scenario that a test passes. Its `title`, `clauses` and `expect` may be left out.

    Args:
        source: The scenario.
        name: The scenario's name, if the source does not name it.

    Raises:
        RequestError: The source is not a scenario. The message names the wrong key.
    """
    match source:
        case Scenario():
            return source
        case Path():
            return _with_defaults(read_document(source), source.stem, source)
        case str():
            return _with_defaults(parse_yaml(textwrap.dedent(source), name), name, None)
        case _:
            return _with_defaults(source, name, None)


def make_table(
    source: LakeSource,
    directory: Path,
    *,
    name: str = "t",
    engines: tuple[str, ...] = ("duckdb",),
    prepare: Callable[[str], object] | None = None,
) -> LakeTable:
    """Make a scenario's table in the new folder `name` of a directory.

    Args:
        source: The scenario.
        directory: The directory.
        name: The table's name.
        engines: The engines that `LakeTable.check` uses by default.
        prepare: A function that is called with an engine's name before the engine reads, or None.

    Raises:
        RequestError: The folder exists, the scenario is wrong, or the table does not show a feature that the scenario
            declares.
    """
    place = directory / name
    if place.exists():
        raise RequestError(f"Cannot make the table {name}: a table of that name exists; pass another name=")
    built = build(scenario_of(source, name), place)
    if built.scenario.features:
        missing = missing_features(collect_evidence(built))
        if missing:
            raise RequestError(f"Cannot use the table {name}: it does not show the features {', '.join(missing)}")
    return LakeTable(name=name, _built=built, engines=engines, prepare=prepare)


def _with_defaults(document: object, name: str, path: Path | None) -> Scenario:
    optional = {"title": name, "clauses": [], "expect": []}
    return from_mapping({**optional, **document} if isinstance(document, Mapping) else document, name, path=path)
