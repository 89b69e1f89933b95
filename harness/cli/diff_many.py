"""Runs `harness diff` of many: query files, and all tables of two namespaces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import harness
from harness.catalogs.names import Name, written
from harness.cli import options, terminal
from harness.cli.diff_batch import Many, Namespace, Progress, bound_tables, compare_all
from harness.cli.diff_request import ENGINES, Request, pair_of_engines, start
from harness.cli.name_lists import names
from harness.cli.query_files import read_queries
from harness.cli.relaxing import Relaxing
from harness.differ.batch import Batch, BatchEntry, BatchOutcome, entry_of
from harness.errors import HarnessError

if TYPE_CHECKING:
    from harness.snapshot import Snapshot
    from harness.table import Table


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
    start(pair_)
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
    start(request.engines)

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
