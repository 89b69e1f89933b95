"""`harness diff` for many results: query files, or all tables of two namespaces."""

from __future__ import annotations

import dataclasses
import glob
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import click

import harness
from harness.cli import options, terminal
from harness.cli.diff_request import DiffRequest, parsed_names, parsed_tolerances
from harness.cli.options import named_table
from harness.diff.result import Batch, BatchEntry, BatchOutcome, QueryFile, batch_entry
from harness.diff.sources import RowSource
from harness.engines.registry import start_engines
from harness.errors import HarnessError, RequestError
from harness.metadata.catalogs.catalog import Catalog, Name, name_text, parse_name, walk
from harness.metadata.catalogs.resolving import configured_catalogs, open_catalog
from harness.storage.paths import expanded, is_path, local_path
from harness.storage.threads import phase


def compare_files(request: DiffRequest, opening: options.OpeningOptions) -> Batch:
    """Run query files on both sides and compare the results."""
    from harness.diff.query_batch import QueryRun

    paths = [Path(path) for pattern in request.files for path in (sorted(glob.glob(pattern)) or [pattern])]
    queries = [_read(path, request) for path in dict.fromkeys(paths)]
    with terminal.progress("reading metadata"):
        tables = _tables_by_side(request.tables, lambda text: opening.open(text).snapshot())
    engines = dataclasses.replace(request, is_one_table=tables[0] == tables[1]).readers
    start_engines(engines)
    run = QueryRun(engines=engines, tables=tables, dialect=request.dialect.value, max_rows=request.max_rows)
    entries = []
    with terminal.progress("comparing", len(queries), "queries") as advance:
        for query in queries:
            with phase(query.name):
                entries.append(run.run_query(query))
            advance(1)
    title = f"{len(queries)} queries" if len(queries) > 1 else "1 query"
    return Batch(title=f"{title} on {engines[0]} and {engines[1]}", sides=engines, entries=tuple(entries))


_OPTIONS_PREFIX = "-- harness:"
_LISTS = ("--keys", "--exclude")
_OPTIONS = (*_LISTS, "--tolerance")


def _read(path: Path, request: DiffRequest) -> QueryFile:
    """Read a query from a file.

    Its line `-- harness: --keys id --tolerance 'total=0.01 because …'` applies to it alone.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"--sql-file {str(path)!r} cannot be read: {error}") from None
    comments = [
        line.strip()[len(_OPTIONS_PREFIX) :] for line in text.splitlines() if line.strip().startswith(_OPTIONS_PREFIX)
    ]
    try:
        rules = _with_file_options(shlex.split(" ".join(comments)), request)
    except (ValueError, click.BadParameter) as error:
        raise click.BadParameter(f"{path}: in its comment {_OPTIONS_PREFIX} {error}") from None
    return QueryFile(
        name=path.name,
        text=text.rstrip().removesuffix(";"),
        keys=rules.keys,
        tolerance=rules.tolerance,
        exclude=rules.exclude,
    )


def _with_file_options(words: Sequence[str], request: DiffRequest) -> DiffRequest:
    """Return the request with the options in a file's comment added. `--keys` replaces the request's keys."""
    values: dict[str, list[str]] = {name: [] for name in _OPTIONS}
    rest = iter(words)
    for word in rest:
        if word not in values:
            raise ValueError(f"{word!r} is unknown, expected one of {', '.join(_OPTIONS)}")
        value = next(rest, None)
        if value is None:
            raise ValueError(f"{word} has no value")
        values[word].append(value)
    keys, exclude = ([name for text in values[option] for name in parsed_names(text, option)] for option in _LISTS)
    return dataclasses.replace(
        request,
        keys=tuple(keys) or request.keys,
        tolerance={**request.tolerance, **parsed_tolerances(values["--tolerance"])},
        exclude=(*request.exclude, *exclude),
    )


def _tables_by_side(pairs: Sequence[str], open_: Callable[[str], object]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the tables by their names in queries, for the left and the right side.

    A name that is given twice has one table for each side.
    """
    locations_by_name: dict[str, list[str]] = {}
    for pair in pairs:
        name, location = named_table(pair)
        if not name.isidentifier():
            raise click.BadParameter(f"--table {pair!r}: {name!r} is not an identifier; choose a name with NAME=TABLE")
        locations_by_name.setdefault(name, []).append(location)
    for name, locations in locations_by_name.items():
        if len(locations) > 2:
            raise click.BadParameter(
                f"--table {name} is given {len(locations)} times; give it at most twice, once for each side"
            )
    opened = {
        location: open_(location) for locations in locations_by_name.values() for location in dict.fromkeys(locations)
    }
    return (
        {name: opened[locations[0]] for name, locations in locations_by_name.items()},
        {name: opened[locations[-1]] for name, locations in locations_by_name.items()},
    )


_TABLES = ("metadata", "_delta_log")
"""Directories that tables have and warehouses do not have."""


@dataclass(frozen=True, slots=True)
class _Namespace:
    """The tables of a namespace or directory.

    Attributes:
        label: The user's name for it.
        catalog: The catalog.
        tables: Full names by the name below the namespace.
    """

    label: str
    catalog: Catalog
    tables: Mapping[str, Name]


def _namespace(text: str) -> _Namespace | None:
    """Return all tables below a catalog, namespace, or warehouse directory, or None for any other text."""
    inner: Name = ()
    place = local_path(expanded(text))
    if os.path.isdir(place):
        if any(os.path.isdir(os.path.join(place, name)) for name in _TABLES):
            return None
        catalog = open_catalog(text)
    elif is_path(text) or os.path.exists(text):
        return None
    else:
        try:
            first, *rest = parse_name(text)
        except RequestError:
            return None
        if first.lower() not in configured_catalogs():
            return None
        catalog, inner = open_catalog(first), tuple(rest)
        if inner and inner in catalog.tables(inner[:-1]):
            return None
    tables = {name_text(name[len(inner) :]): name for name in walk(catalog, inner)}
    return _Namespace(text, catalog, tables) if tables else None


_Namespaces: TypeAlias = tuple[_Namespace, _Namespace]


def namespaces_of(request: DiffRequest) -> _Namespaces | None:
    """Return the namespaces or directories to compare, or None if the request names tables, files, or databases."""
    if len(request.locations) < 2 or request.queries is not None or any(map(RowSource.parse, request.locations)):
        return None
    left, right = map(_namespace, request.locations)
    if left is None or right is None:
        return None
    if request.moments != (None, None):
        raise click.BadParameter("--at needs one table on each side, but these are namespaces or warehouses")
    return left, right


def compare_namespaces(sides: _Namespaces, request: DiffRequest, opening: options.OpeningOptions) -> Batch:
    """Compare the tables of two namespaces by name. A table that only one side has counts as different."""
    start_engines(request.readers)
    entries = []
    names = sorted({name for side in sides for name in side.tables})
    with terminal.progress("comparing", len(names), "tables") as advance:
        for name in names:
            with phase(name):
                entries.append(_compare_pair(name, sides, request, opening.arguments()))
            advance(1)
    left, right = (side.label for side in sides)
    return Batch(title=f"{left} and {right}", sides=(left, right), entries=tuple(entries))


def _compare_pair(name: str, sides: _Namespaces, request: DiffRequest, arguments: Mapping[str, Any]) -> BatchEntry:
    """Compare the two tables that have this name. `arguments` are for `open_table`."""
    lacking = [side.label for side in sides if name not in side.tables]
    if lacking:
        return BatchEntry(name=name, outcome=BatchOutcome.DIFFERENT, message=f"{lacking[0]} has no such table")
    try:
        tables = [
            harness.open_table(name_text(side.tables[name]), catalog=side.catalog, **arguments).snapshot()
            for side in sides
        ]
    except HarnessError as error:
        return BatchEntry(name=name, outcome=BatchOutcome.FAILED, message=str(error))
    try:
        return batch_entry(name, harness.compare(*tables, **request.rules, engines=request.readers))
    except HarnessError as error:  # for example, the table lacks the keys
        error.with_option_names(options.option_for)
        return BatchEntry(name=name, outcome=BatchOutcome.REFUSED, message=str(error))
