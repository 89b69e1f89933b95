"""`harness diff` of many: query files, or all tables of two namespaces."""

from __future__ import annotations

import dataclasses
import enum
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli import DIFFERENT, FAILED, results, terminal
from harness.differ.batch import Batch, BatchEntry, BatchOutcome
from harness.errors import RequestError
from harness.metadata.catalogs.catalog import Catalog, Name, parse_name, walk, written
from harness.metadata.catalogs.resolving import configured, open_catalog

_TABLES = ("metadata", "_delta_log")


class QueryDialect(enum.Enum):
    """Whose SQL the files hold."""

    DUCKDB = "duckdb"
    SPARK = "spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Many:
    """Options of comparisons of many queries or tables."""

    sql_file: Annotated[
        list[str] | None,
        typer.Option(
            "--sql-file",
            metavar="FILE",
            help="Compare what the queries of files give, one report for all; further files and patterns may follow.",
        ),
    ] = None
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            metavar="NAME=TABLE",
            help="What a name in the queries of files stands for; twice, on the left and on the right. Repeatable.",
        ),
    ] = None
    dialect: Annotated[
        QueryDialect,
        typer.Option(
            "--dialect",
            help="Whose SQL the files hold. Spark's runs on DuckDB only where it is certain what it means there.",
        ),
    ] = QueryDialect.DUCKDB
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            metavar="FILE",
            help="Where all tables of a namespace are compared: keep here what is done, and go on from there.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class Namespace:
    """The tables that a name or directory stands for. label: what the user called it. tables: by name below it."""

    label: str
    catalog: Catalog
    tables: dict[str, Name]


def namespace(text: str) -> Namespace | None:
    """All tables below a catalog, a namespace or a warehouse directory; None: it is none of these, or a table.

    Raises:
        StorageError: the catalog does not answer.
    """
    if os.path.isdir(text):
        if any(os.path.isdir(os.path.join(text, name)) for name in _TABLES):
            return None
        return _below(text, open_catalog(text), ())
    if "://" in text or "/" in text or os.path.exists(text):
        return None
    try:
        first, *rest = parse_name(text)
    except RequestError:
        return None
    if first.lower() not in configured():
        return None
    catalog, inner = open_catalog(first), tuple(rest)
    if inner and inner in catalog.tables(inner[:-1]):
        return None
    return _below(text, catalog, inner)


def _below(text: str, catalog: Catalog, inner: Name) -> Namespace | None:
    tables = {written(name[len(inner) :]): name for name in walk(catalog, inner)}
    return Namespace(text, catalog, tables) if tables else None


@dataclass(frozen=True, slots=True)
class Progress:
    """What of a run is done, kept in a file so that another run goes on: a line of JSON for each table.

    file: None: nothing is kept. asked: what was asked of all, so that another question starts anew.
    """

    file: Path | None
    asked: str

    def entry(self, name: str, state: str, compare: Callable[[], BatchEntry]) -> BatchEntry:
        """The entry of a run before, of tables in the same state; else a new one, which is kept.

        Raises:
            RequestError: the file cannot be written.
        """
        for line in self._lines():
            if (line.get("name"), line.get("state"), line.get("asked")) == (name, state, self.asked):
                return _entry(line["entry"])
        entry = compare()
        if self.file is not None and entry.outcome is not BatchOutcome.FAILED:
            kept = {"name": name, "state": state, "asked": self.asked, "entry": dataclasses.asdict(entry)}
            try:
                with self.file.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(kept, default=lambda each: each.value) + "\n")
            except OSError as error:
                raise RequestError(f"Cannot write --resume {str(self.file)!r}: {error}") from None
        return entry

    def _lines(self) -> Iterator[dict[str, Any]]:
        if self.file is None or not self.file.exists():
            return
        for line in self.file.read_text("utf-8").splitlines():
            try:
                found = json.loads(line)
            except ValueError:
                continue  # the last line of a run that was ended
            if isinstance(found, dict) and isinstance(found.get("entry"), dict):
                yield found


def _entry(fields: dict[str, Any]) -> BatchEntry:
    return BatchEntry(**{**fields, "outcome": BatchOutcome(fields["outcome"])})


def compare_all(
    left: Namespace,
    right: Namespace,
    compare: Callable[[str, Name, Name], tuple[str, Callable[[], BatchEntry]]],
    progress: Progress,
) -> Batch:
    """The tables of two namespaces by name; one that only one side has is different.

    Args:
        compare: opens both tables of a name; gives their state, and what compares them.
    """
    entries = []
    for name in sorted(left.tables.keys() | right.tables.keys()):
        lacking = [side.label for side in (left, right) if name not in side.tables]
        if lacking:
            entries.append(
                BatchEntry(name=name, outcome=BatchOutcome.DIFFERENT, message=f"{lacking[0]} has no such table")
            )
            continue
        with terminal.progress(f"comparing {name}"):
            state, run = compare(name, left.tables[name], right.tables[name])
            entries.append(progress.entry(name, state, run))
    return Batch(title=f"{left.label} and {right.label}", sides=(left.label, right.label), entries=tuple(entries))


def finish(batch: Batch, format_: str, output: Path | None) -> None:
    """Write the report, and end: 0 if all are equal, 1 if one is different, 2 if one could not be compared.

    Raises:
        typer.Exit: not all are equal.
    """
    from harness.differ.reports import batch as reports

    writers = {
        "text": reports.to_text,
        "json": reports.to_json,
        "junit": reports.to_junit,
        "html": reports.to_html,
    }
    with results.destination(output) as stream:
        results.write_texts([writers[format_](batch)], stream)
    if batch.count(BatchOutcome.DIFFERENT):
        raise typer.Exit(DIFFERENT)
    if not batch.equal:
        raise typer.Exit(FAILED)


def bound_tables(pairs: Sequence[str], open_: Callable[[str], Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What names in queries stand for on the left and on the right side; a name given twice is one of each.

    Raises:
        typer.BadParameter: not NAME=TABLE, or a name three times.
    """
    found: dict[str, list[str]] = {}
    for pair in pairs:
        name, separator, location = pair.partition("=")
        if not (separator and name.isidentifier() and location):
            raise typer.BadParameter(f"--table {pair!r}: expected NAME=TABLE")
        found.setdefault(name, []).append(location)
    for name, locations in found.items():
        if len(locations) > 2:
            raise typer.BadParameter(f"--table {name} is given {len(locations)} times: twice is one for each side")
    opened = {location: open_(location) for locations in found.values() for location in dict.fromkeys(locations)}
    return (
        {name: opened[locations[0]] for name, locations in found.items()},
        {name: opened[locations[-1]] for name, locations in found.items()},
    )
