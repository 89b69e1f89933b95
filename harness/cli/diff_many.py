"""Runs `harness diff` of many: query files, and all tables of two namespaces."""

from __future__ import annotations

import glob
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import harness
from harness.cli import options, terminal
from harness.cli.diff_batch import Many, Namespace, Progress, bound_tables, compare_all
from harness.cli.diff_request import ENGINES, Request, pair_of_engines
from harness.cli.name_lists import names
from harness.cli.relaxing import Relaxing
from harness.differ.batch import Batch, BatchEntry, BatchOutcome, QueryFile, entry_of
from harness.differ.relaxations import Relaxations
from harness.engines.registry import start_engines
from harness.errors import HarnessError
from harness.metadata.catalogs.catalog import Name, written

if TYPE_CHECKING:
    from harness.snapshot import Snapshot
    from harness.table import Table


# Files with queries, and the options that stand in a comment of each.


_MARK = "-- harness:"
_FLAGS = {"--ignore-case": "ignore_case", "--trim": "trim"}
_LISTS = {"--tolerance": "tolerance", "--rename": "rename"}
_VALUES = {"--exclude": "exclude", "--null-as": "null_as"}


def read_queries(patterns: Sequence[str], keys: Sequence[str], relaxing: Relaxing) -> list[QueryFile]:
    """The queries of files, in the order of their names within a pattern.

    A line `-- harness: --keys id --tolerance 'total=0.01 because …' --exclude loaded` says how that query's results are
    compared, beside what holds for all.

    Args:
        keys, relaxing: what holds for queries that say nothing else.

    Raises:
        typer.BadParameter: there is no such file, or an option in a comment is not understood.
    """
    paths = [Path(path) for pattern in patterns for path in (sorted(glob.glob(pattern)) or [pattern])]
    return [_read(path, keys, relaxing) for path in dict.fromkeys(paths)]


def _read(path: Path, keys: Sequence[str], relaxing: Relaxing) -> QueryFile:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"--sql-file {str(path)!r} cannot be read: {error}") from None
    own = [line.strip()[len(_MARK) :] for line in text.splitlines() if line.strip().startswith(_MARK)]
    try:
        given, own_keys = _options(shlex.split(" ".join(own)))
        found = Relaxing(**given).relaxations(is_foreign=False)
    except (ValueError, typer.BadParameter) as error:
        raise typer.BadParameter(f"{path}: in its comment {_MARK} {error}") from None
    general = relaxing.relaxations(is_foreign=False)
    return QueryFile(
        name=path.name,
        text=text.rstrip().removesuffix(";"),
        keys=tuple(keys if own_keys is None else own_keys),
        relaxations=Relaxations(
            tolerances={**general.tolerances, **found.tolerances},
            exclude=(*general.exclude, *found.exclude),
            rename={**general.rename, **found.rename},
            ignore_case=general.ignore_case or found.ignore_case,
            trim=general.trim or found.trim,
            null_as=found.null_as if found.null_as is not None else general.null_as,
        ),
    )


def _options(words: list[str]) -> tuple[dict[str, Any], list[str] | None]:
    """Arguments of `Relaxing`, and keys.

    Raises:
        ValueError: an option that is none of these, or that lacks its value.
    """
    found: dict[str, Any] = {}
    keys = None
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
            keys = names(value, word)
        elif word in _LISTS:
            found.setdefault(_LISTS[word], []).append(value)
        else:
            found[_VALUES[word]] = value
    return found, keys


def compare_files(
    files: list[str],
    many: Many,
    relaxing: Relaxing,
    engines: str | None,
    keys: str | None,
    max_rows: int,
    open_: Callable[[str], Table],
) -> Batch:
    """What the queries of files give on both sides.

    Raises:
        typer.BadParameter: an option is not for many queries, or not understood.
        HarnessError: a table cannot be opened.
    """
    from harness.differ.query_batch import QueryRun

    pair_ = pair_of_engines(engines if engines is not None else ENGINES)
    if many.resume is not None or relaxing.group_by or relaxing.sample_keys or relaxing.strict:
        raise typer.BadParameter("--sql-file excludes --resume, --group-by, --sample-keys and --strict")
    queries = read_queries(files, names(keys, "--keys") or (), relaxing)
    with terminal.progress("reading metadata"):
        tables = bound_tables(many.table or (), lambda text: open_(text).snapshot())
    start_engines(pair_)
    run = QueryRun(engines=pair_, tables=tables, dialect=many.dialect.value, max_rows=max_rows)
    entries = []
    for query in queries:
        with terminal.progress(f"comparing {query.name}"):
            entries.append(run.entry(query))
    title = f"{len(queries)} queries" if len(queries) > 1 else "1 query"
    return Batch(title=f"{title} on {pair_[0]} and {pair_[1]}", sides=pair_, entries=tuple(entries))


def compare_namespaces(
    sides: tuple[Namespace, Namespace], request: Request, resume: Path | None, arguments: dict[str, Any]
) -> Batch:
    """All tables of two namespaces. arguments: for opening tables.

    Raises:
        RequestError: what is done cannot be kept.
    """
    start_engines(request.engines)

    def compare(name: str, left: Name, right: Name) -> tuple[str, Callable[[], BatchEntry]]:
        try:
            tables = [
                harness.open_table(written(each), catalog=side.catalog, **arguments).snapshot()
                for each, side in zip((left, right), sides, strict=True)
            ]
        except HarnessError as error:
            failed = BatchEntry(name=name, outcome=BatchOutcome.FAILED, message=str(error))
            return "", lambda: failed
        state = " ".join(f"{each.source.location}@{each.id}" for each in tables)
        return state, lambda: _entry(name, request, *tables)

    return compare_all(*sides, compare, Progress(resume, repr(request)))


def _entry(name: str, request: Request, left: Snapshot, right: Snapshot) -> BatchEntry:
    """A table's entry; what cannot be asked of this table, such as keys that it lacks, is said of it alone."""
    try:
        return entry_of(name, request.compare(left, right))
    except HarnessError as error:
        error.respelled(options.spelled)
        return BatchEntry(name=name, outcome=BatchOutcome.REFUSED, message=str(error))
