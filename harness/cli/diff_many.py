"""`harness diff` of many: query files, or all tables of two namespaces."""

from __future__ import annotations

import dataclasses
import enum
import glob
import hashlib
import json
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

import harness
from harness.cli import DIFFERENT, FAILED, options, terminal
from harness.cli.diff_request import DiffRequest, PlacedReport, RareOption, Relaxing, pair_of_engines, write_reports
from harness.cli.options import named_table, names
from harness.diff.result import Batch, BatchEntry, BatchOutcome, QueryFile, entry_of
from harness.engines.registry import start_engines
from harness.errors import HarnessError, RequestError
from harness.metadata.catalogs.catalog import Catalog, Name, parse_name, walk, written
from harness.metadata.catalogs.resolving import configured, open_catalog
from harness.storage.outputs import append_to_file, write_file
from harness.storage.paths import expanded, is_path, local_path
from harness.storage.threads import phase

if TYPE_CHECKING:
    from harness.snapshot import Snapshot
    from harness.table import Table


_TABLES = ("metadata", "_delta_log")


class QueryDialect(enum.Enum):
    """Dialects of SQL in files."""

    DUCKDB = "duckdb"
    SPARK = "spark"


@dataclass(slots=True, kw_only=True)
class Many:
    """Options of comparisons of many queries or tables."""

    sql_file: Annotated[
        list[str] | None,
        RareOption(
            metavar="FILE",
            help="Compare what the queries of files give, one report for all; further files and patterns may follow.",
        ),
    ] = None
    table: Annotated[
        list[str] | None,
        RareOption(
            metavar="[NAME=]TABLE",
            help="What a name in the queries of files stands for; twice, on the left and on the right. Repeatable.",
        ),
    ] = None
    dialect: Annotated[
        QueryDialect,
        RareOption(
            help="Whose SQL the files hold. Spark's runs on DuckDB only where it is certain what it means there.",
        ),
    ] = QueryDialect.DUCKDB
    resume: Annotated[
        Path | None,
        RareOption(
            metavar="FILE",
            help="Where all tables of a namespace are compared: keep here what is done, and go on from there.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class _Namespace:
    """The tables of a namespace or directory. label: the user's word for it. tables: by name below it."""

    label: str
    catalog: Catalog
    tables: Mapping[str, Name]


def namespace(text: str) -> _Namespace | None:
    """All tables below a catalog, a namespace or a warehouse directory; None: it is none of these, or a table."""
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
        if first.lower() not in configured():
            return None
        catalog, inner = open_catalog(first), tuple(rest)
        if inner and inner in catalog.tables(inner[:-1]):
            return None
    tables = {written(name[len(inner) :]): name for name in walk(catalog, inner)}
    return _Namespace(text, catalog, tables) if tables else None


class _Kept:
    """Comparisons of earlier runs, kept in a file with a line of JSON for each.

    A line holds the table's name, a hash of all that the comparison depends on, and the entry.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._entries = {} if file is None else _read_kept(file)

    def entry(self, name: str, state: str, compare: Callable[[], BatchEntry]) -> BatchEntry:
        """Return the entry of an earlier run with the same state, or else a new one, which is kept."""
        old = self._entries.get((name, state))
        if old is not None:
            return old
        entry = compare()
        if self._file is not None and entry.outcome is not BatchOutcome.FAILED:
            line = {"name": name, "state": state, "entry": dataclasses.asdict(entry)}
            append_to_file(self._file, json.dumps(line, default=lambda each: each.value) + "\n")
        return entry


_LINE_START = '{"name": "'
_ENTRY_TYPES: dict[str, Any] = {
    "name": str,
    "outcome": BatchOutcome,
    "message": str,
    "report": str | None,
    "document": dict | None,
    "asked": tuple,
    "left_seconds": float | None,
    "right_seconds": float | None,
}


def _read_kept(file: Path) -> dict[tuple[str, str], BatchEntry]:
    """Read the entries of a file by name and state, and cut off the unfinished last line of a run that was killed.

    Raises:
        RequestError: the file cannot be written, or holds something else.
    """
    append_to_file(file, "")  # a place that cannot be written is an error before anything is compared
    try:
        *lines, rest = file.read_text("utf-8").split("\n")
        entries = dict(map(_parse_kept, lines))
        if rest[: len(_LINE_START)] != _LINE_START[: len(rest)]:
            raise ValueError
    except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
        raise RequestError(
            "Cannot resume: this is no file that diff --resume wrote, or it is damaged; remove it, or name another",
            file=str(file),
        ) from error
    if rest:
        write_file(file, "".join(f"{line}\n" for line in lines))
    return entries


def _parse_kept(line: str) -> tuple[tuple[str, str], BatchEntry]:
    kept = json.loads(line)
    values = kept["entry"]
    entry = BatchEntry(**{**values, "outcome": BatchOutcome(values["outcome"]), "asked": tuple(values["asked"])})
    if entry.name != kept["name"] or not all(isinstance(getattr(entry, n), t) for n, t in _ENTRY_TYPES.items()):
        raise ValueError("an entry of another form")
    return (kept["name"], kept["state"]), entry


_NOT_IN_STATE = ("storage_options",)
"""Arguments of `open_table` that cannot change rows: what they lead to is identified by its content."""


def _state(tables: Sequence[Snapshot], request: DiffRequest, arguments: dict[str, Any]) -> str:
    """Return a hash of all that a comparison depends on: the content of both tables, engines and options.

    Raises:
        HarnessError: a metadata file cannot be read.
    """
    from harness.diff.opening import engine_version

    depends_on = {
        "harness": harness.__version__,
        "tables": [
            (each._source.location, *each._source.fingerprint(each._selection))  # type: ignore[arg-type]  # of one format
            for each in tables
        ],
        "engines": [engine_version(engine) for engine in request.engines],
        "request": dataclasses.asdict(request),
        "opening": {name: value for name, value in arguments.items() if name not in _NOT_IN_STATE},
    }
    return hashlib.sha256(json.dumps(depends_on, sort_keys=True, default=_as_json).encode()).hexdigest()


def _as_json(value: object) -> object:
    """Return a value of an option for JSON; a set sorted, because its own order changes from run to run."""
    return sorted(map(str, value)) if isinstance(value, frozenset) else str(value)


def finish(batch: Batch, reports: Sequence[PlacedReport], context: click.Context) -> None:
    """Writes the reports, and ends: 0 if all are equal, 1 if one is different, 2 if one could not be compared."""
    write_reports(batch, reports, context)
    terminal.finished(f"compared {batch.title}")
    if batch.count(BatchOutcome.DIFFERENT):
        raise click.exceptions.Exit(DIFFERENT)
    if not batch.equal:
        raise click.exceptions.Exit(FAILED)


def _bound_tables(pairs: Sequence[str], open_: Callable[[str], object]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tables of names in queries, on the left and on the right side. A name given twice is one of each."""
    found: dict[str, list[str]] = {}
    for pair in pairs:
        name, location = named_table(pair)
        if not name.isidentifier():
            raise click.BadParameter(f"--table {pair!r}: {name!r} is no identifier; choose one with NAME=TABLE")
        found.setdefault(name, []).append(location)
    for name, locations in found.items():
        if len(locations) > 2:
            raise click.BadParameter(f"--table {name} is given {len(locations)} times: twice is one for each side")
    opened = {location: open_(location) for locations in found.values() for location in dict.fromkeys(locations)}
    return (
        {name: opened[locations[0]] for name, locations in found.items()},
        {name: opened[locations[-1]] for name, locations in found.items()},
    )


_MARK = "-- harness:"
_FLAGS = {"--ignore-name-case": "ignore_name_case", "--ignore-case": "ignore_case", "--trim": "trim"}
_LISTS = {"--tolerance": "tolerance", "--rename": "rename", "--cast": "cast"}
_VALUES = {"--exclude": "exclude", "--null-as": "null_as"}


def _read(path: Path, keys: Sequence[str], relaxing: Relaxing) -> QueryFile:
    """The query of a file. Its line `-- harness: --keys id --tolerance 'total=0.01 because …'` holds for it alone."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"--sql-file {str(path)!r} cannot be read: {error}") from None
    own = [line.strip()[len(_MARK) :] for line in text.splitlines() if line.strip().startswith(_MARK)]
    try:
        keys, relaxing = _with_own(shlex.split(" ".join(own)), keys, relaxing)
        relaxations = relaxing.relaxations(is_foreign=False)
    except (ValueError, click.BadParameter) as error:
        raise click.BadParameter(f"{path}: in its comment {_MARK} {error}") from None
    return QueryFile(name=path.name, text=text.rstrip().removesuffix(";"), keys=tuple(keys), relaxations=relaxations)


def _with_own(words: Sequence[str], keys: Sequence[str], relaxing: Relaxing) -> tuple[Sequence[str], Relaxing]:
    """Keys and options, with those that the words add or replace."""
    found: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        if word in _FLAGS:
            found[_FLAGS[word]] = True
            continue
        if word not in ("--keys", *_LISTS, *_VALUES):
            raise ValueError(f"is {word!r}, which is none of --keys, {', '.join([*_LISTS, *_VALUES, *_FLAGS])}")
        value = next(rest, None)
        if value is None:
            raise ValueError(f"{word} lacks its value")
        if word == "--keys":
            keys = names(value, word) or ()
        elif word in _LISTS:
            found.setdefault(_LISTS[word], list(getattr(relaxing, _LISTS[word]) or ())).append(value)
        else:
            found[_VALUES[word]] = value
    if relaxing.exclude is not None and "exclude" in found:
        found["exclude"] = f"{relaxing.exclude},{found['exclude']}"
    return keys, dataclasses.replace(relaxing, **found)


def compare_files(
    files: list[str],
    many: Many,
    relaxing: Relaxing,
    engines: str | None,
    keys: str | None,
    max_rows: int,
    open_: Callable[[str], Table],
) -> Batch:
    """Compares the results of query files on both sides."""
    from harness.diff.query_batch import QueryRun

    if many.resume is not None or relaxing.group_by or relaxing.sample_keys or relaxing.strict or relaxing.schema_only:
        raise click.BadParameter("--sql-file excludes --resume, --group-by, --sample-keys, --strict and --schema-only")
    relaxing.relaxations(is_foreign=False)  # an error in them is none of a file
    paths = [Path(path) for pattern in files for path in (sorted(glob.glob(pattern)) or [pattern])]
    queries = [_read(path, names(keys, "--keys") or (), relaxing) for path in dict.fromkeys(paths)]
    with terminal.progress("reading metadata"):
        tables = _bound_tables(many.table or (), lambda text: open_(text).snapshot())
    pair_ = pair_of_engines(engines, is_one_table=tables[0] == tables[1])
    start_engines(pair_)
    run = QueryRun(engines=pair_, tables=tables, dialect=many.dialect.value, max_rows=max_rows)
    entries = []
    with terminal.progress("comparing", len(queries), "queries") as advance:
        for query in queries:
            with phase(query.name):
                entries.append(run.entry(query))
            advance(1)
    title = f"{len(queries)} queries" if len(queries) > 1 else "1 query"
    return Batch(title=f"{title} on {pair_[0]} and {pair_[1]}", sides=pair_, entries=tuple(entries))


def compare_namespaces(
    sides: tuple[_Namespace, _Namespace], request: DiffRequest, resume: Path | None, arguments: dict[str, Any]
) -> Batch:
    """Compares the tables of two namespaces by name. A table of one side only is different. arguments: for opening."""
    start_engines(request.engines)
    left, right = sides
    entries, kept = [], _Kept(resume)
    named = sorted(left.tables.keys() | right.tables.keys())
    with terminal.progress("comparing", len(named), "tables") as advance:
        for name in named:
            with phase(name):
                entries.append(_of_name(name, sides, request, kept, arguments))
            advance(1)
    return Batch(title=f"{left.label} and {right.label}", sides=(left.label, right.label), entries=tuple(entries))


def _of_name(
    name: str, sides: Sequence[_Namespace], request: DiffRequest, kept: _Kept, arguments: dict[str, Any]
) -> BatchEntry:
    """Return the entry of the tables of a name."""
    lacking = [side.label for side in sides if name not in side.tables]
    if lacking:
        return BatchEntry(name=name, outcome=BatchOutcome.DIFFERENT, message=f"{lacking[0]} has no such table")
    try:
        tables = [
            harness.open_table(written(side.tables[name]), catalog=side.catalog, **arguments).snapshot()
            for side in sides
        ]
        state = _state(tables, request, arguments)
    except HarnessError as error:
        return BatchEntry(name=name, outcome=BatchOutcome.FAILED, message=str(error))

    def compare() -> BatchEntry:
        try:
            return entry_of(name, request.compare(*tables))
        except HarnessError as error:  # such as keys that the table lacks
            error.respelled(options.spelled)
            return BatchEntry(name=name, outcome=BatchOutcome.REFUSED, message=str(error))

    return kept.entry(name, state, compare)
