"""The shapes of rereads: reads of one snapshot by one reader that must agree, whatever the correct rows are.

The rows that satisfy a condition, the rows that do not, and the rows with a null in its column are together all rows.
Each column read alone is the column of all rows. A count is the number of rows. A copy with other metadata returns the
same rows. Filters skip files and row groups, projections omit columns, limits end early, and counts may use the
metadata alone. If one of them ignores deletes or relies on a wrong bound, two results differ. Neither a second reader
nor an oracle is needed. `SHAPES` is the table of these reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from harness.diff.opening import engine_version
from harness.diff.result import Batch, BatchEntry
from harness.engines.registry import find_engine
from harness.errors import RequestError, counted
from harness.metadata.filters.sqltext import quoted
from harness.snapshot import Snapshot
from harness.storage.threads import phase
from harness.suite.rereads.checks import FilteredRows, QueryShape, Reread, Rereads
from harness.suite.rereads.reads import Copies, ReadRequest, SnapshotReads


def reread(
    snapshot: Snapshot, engine: str = "duckdb", *, max_rows: int = 20, shapes: Sequence[str] | None = None
) -> Batch:
    """Read a snapshot in many ways that must agree: whole, by columns, filters, counts and limits, and from copies.

    All rows of the snapshot are held in memory. Filters compare columns with values that occur in the table. Copies of
    the table, with other metadata, are made in a temporary directory. Reads that the engine declines are skipped and
    counted in the title.

    Args:
        snapshot: The snapshot.
        engine: An engine, or a reader of another project, as for `harness.compare`.
        max_rows: The number of differing rows that each report shows.
        shapes: Names of the ways of reading, see `docs/how-to/compare-readers.md`. None means all.

    Returns:
        One entry for each check.

    Raises:
        RequestError: The engine or a shape is unknown.
        HarnessError: Reading all rows fails.
    """
    query_shapes = shapes_of(shapes)
    reads = SnapshotReads(snapshot, find_engine(engine))
    with phase("reading all rows"):
        whole = reads.rows(ReadRequest())
    entries: list[BatchEntry] = []
    with Copies(snapshot) as copies, phase("reading in other ways", unit="checks") as advance:
        checks = Rereads(reads=reads, whole=whole, copies=copies, engine_name=engine, max_rows=max_rows)
        for _, entry in checks.entries(query_shapes):
            entries.append(entry)
            advance(1)
    declined = sum(checks.declined.values())
    numbers = f"{counted(len(entries), 'check')} of {counted(whole.num_rows, 'row')}"
    declines = f", {counted(declined, 'read')} declined ({', '.join(checks.declined)})" if declined else ""
    title = f"{engine_version(engine)} against itself, {numbers}{declines}"
    return Batch(title=title, sides=("all rows, then", "reads again"), entries=tuple(entries))


def shapes_of(names: Sequence[str] | None) -> tuple[QueryShape, ...]:
    """Return the shapes with these names. None means all.

    Raises:
        RequestError: A shape is unknown.
    """
    shapes_by_name = {shape.name: shape for shape in SHAPES}
    for name in names or ():
        if name not in shapes_by_name:
            raise RequestError(
                f"Unknown shape {name!r}: the shapes are {', '.join(shapes_by_name)}", options=("shapes",)
            )
    return tuple(shapes_by_name[name] for name in names or shapes_by_name)


def _counts(checks: Rereads) -> Iterator[Reread]:
    yield Reread(
        name="count(*)",
        expected=lambda: checks.whole,
        actual=lambda: checks.reads.count(None),
        requests=["SELECT count(*) FROM t"],
    )


def _counts_where(checks: Rereads, filtered: FilteredRows) -> Iterator[Reread]:
    where = filtered.condition.where
    yield Reread(
        name=f"count(*) where {filtered.label}",
        expected=lambda: filtered.rows,
        actual=lambda: checks.reads.count(where),
        requests=[f"SELECT count(*) FROM t WHERE {where}"],
        expected_name=f"rows where {filtered.label}",
        expected_requests=[ReadRequest(where=where)],
    )


def _again(checks: Rereads) -> Iterator[Reread]:
    yield _read(checks, "all rows again", ReadRequest())


def _read(checks: Rereads, name: str, request: ReadRequest, *, by_query: bool = False) -> Reread:
    """Return the check of a read that must return all rows, or the requested columns of all rows."""

    def expected() -> pa.Table:
        rows = checks.all_rows(by_query=by_query)
        return rows if request.columns is None else rows.select(list(request.columns))

    return Reread(
        name=name,
        expected=expected,
        actual=lambda: checks.reads.rows(request, by_query=by_query),
        requests=[request],
        limit=request.limit,
    )


def _columns(checks: Rereads) -> Iterator[Reread]:
    names = checks.names
    yield _read(checks, "columns in reverse", ReadRequest(columns=tuple(reversed(names))))
    for name in names if len(names) > 1 else ():
        yield _read(checks, f"column {name} alone", ReadRequest(columns=(name,)))


def _filters(checks: Rereads, filtered: FilteredRows) -> Iterator[Reread]:
    """Check that the rows with a true, false, and null condition are together all rows."""
    condition = filtered.condition
    rest = [ReadRequest(where=f"NOT ({condition.where})")]
    if condition.values:
        rest.append(ReadRequest(where=f"{quoted(condition.column)} IS NULL"))
    yield Reread(
        name=f"{filtered.label}, or not, or null",
        expected=lambda: checks.whole,
        actual=lambda: _concatenated([filtered.rows, *map(checks.reads.rows, rest)]),
        requests=[ReadRequest(where=condition.where), *rest],
    )


def _concatenated(rows: Iterable[pa.Table]) -> pa.Table:
    return pa.concat_tables(rows, promote_options="permissive")


def _hidden(checks: Rereads, filtered: FilteredRows) -> Iterator[Reread]:
    condition = filtered.condition
    others = [name for name in checks.names if name != condition.column and name not in condition.where][:1]
    if others:
        request = ReadRequest(columns=tuple(others), where=condition.where)
        yield Reread(
            name=f"{others[0]} where {filtered.label}",
            expected=lambda: filtered.rows.select(others),
            actual=lambda: checks.reads.rows(request),
            requests=[request],
            expected_name=f"rows where {filtered.label}",
            expected_requests=[ReadRequest(where=condition.where)],
        )


def _parameters(checks: Rereads, filtered: FilteredRows) -> Iterator[Reread]:
    condition = filtered.condition
    if condition.values:
        literal = ReadRequest(where=condition.where)
        request = ReadRequest(where=condition.with_parameters, parameters=tuple(value for value, _ in condition.values))
        yield Reread(
            name=f"{condition.with_parameters.replace(chr(34), '')} for {filtered.label}",
            expected=lambda: checks.reads.rows(literal, by_query=True),
            actual=lambda: checks.reads.rows(request),
            requests=[request],
            expected_name=f"rows where {filtered.label}",
            expected_requests=[literal],
        )


def _limits(checks: Rereads) -> Iterator[Reread]:
    count = checks.whole.num_rows
    for limit in dict.fromkeys((1, max(1, count // 2), count + 1)):
        yield _read(checks, f"limit {limit:,}", ReadRequest(limit=limit), by_query=True)


def _limits_where(checks: Rereads, filtered: FilteredRows) -> Iterator[Reread]:
    where = filtered.condition.where
    if filtered.condition.is_main:
        yield Reread(
            name=f"limit 1 where {filtered.label}",
            expected=lambda: checks.reads.rows(ReadRequest(where=where), by_query=True),
            actual=lambda: checks.reads.rows(ReadRequest(where=where, limit=1)),
            requests=[ReadRequest(where=where, limit=1)],
            expected_name=f"rows where {filtered.label}",
            expected_requests=[ReadRequest(where=where)],
            limit=1,
        )


def _twice(checks: Rereads) -> Iterator[Reread]:
    previous = checks.reads.previous()
    if previous is not None:
        yield _union(checks, f"all rows, and those of {previous}", (ReadRequest(), ReadRequest(at=previous)))


def _twice_where(checks: Rereads, filtered: FilteredRows) -> Iterator[Reread]:
    where = filtered.condition.where
    if filtered.condition.is_main:
        yield _union(
            checks,
            f"{filtered.label}, and not, by one query",
            (ReadRequest(where=where), ReadRequest(where=f"NOT ({where})")),
        )


def _union(checks: Rereads, name: str, parts: tuple[ReadRequest, ReadRequest]) -> Reread:
    first, second = parts
    return Reread(
        name=name,
        expected=lambda: _concatenated(checks.reads.rows(part, by_query=True) for part in parts),
        actual=lambda: checks.reads.rows(replace(first, union=(second,))),
        requests=[replace(first, union=(second,))],
        expected_name="both reads",
        expected_requests=parts,
    )


def _threads(checks: Rereads) -> Iterator[Reread]:
    for threads in (1, 4):
        request = ReadRequest(settings={"threads": threads})
        yield _read(checks, f"by {counted(threads, 'thread')}", request, by_query=True)


def _batches(checks: Rereads) -> Iterator[Reread]:
    rows = max(1, checks.whole.num_rows // 1000)
    yield _read(checks, f"by batches of {counted(rows, 'row')}", ReadRequest(settings={"batch_rows": rows}))


def _splits(checks: Rereads) -> Iterator[Reread]:
    size = max(100, sum(checks.reads.snapshot.plan(()).files.column("size").to_pylist()) // 50)
    yield _read(checks, f"by splits of {size:,} bytes", ReadRequest(settings={"split_bytes": size}))


def _copied(name: str) -> Callable[[Rereads], Iterator[Reread]]:
    """Return the function that makes the checks of a copy: all rows, and the count."""

    def table_checks(checks: Rereads) -> Iterator[Reread]:
        copy = replace(checks.reads, snapshot=checks.copies.get(name))
        yield replace(_read(checks, f"all rows, {name}", ReadRequest()), actual=lambda: copy.rows(ReadRequest()))
        (count,) = _counts(checks)
        yield replace(count, name=f"count(*), {name}", actual=lambda: copy.count(None))

    return table_checks


def _without_statistics(checks: Rereads, filtered: FilteredRows) -> Iterator[Reread]:
    if filtered.condition.is_main:
        copy, request = (
            replace(checks.reads, snapshot=checks.copies.get("statistics")),
            ReadRequest(where=filtered.condition.where),
        )
        yield Reread(
            name=f"{filtered.label}, statistics",
            expected=lambda: filtered.rows,
            actual=lambda: copy.rows(request),
            requests=[request],
            expected_name=f"rows where {filtered.label}",
            expected_requests=[request],
        )


SHAPES: tuple[QueryShape, ...] = (
    QueryShape(
        name="counts",
        read="a count, with a condition and without",
        result="the number of rows",
        table_checks=_counts,
        condition_checks=_counts_where,
    ),
    QueryShape(name="again", read="all rows again", result="all rows", table_checks=_again),
    QueryShape(
        name="columns",
        read="a column alone, and columns in another order",
        result="the same columns of all rows",
        table_checks=_columns,
    ),
    QueryShape(
        name="filters",
        read="the rows where a condition holds, where it does not, and where it is null",
        result="all rows",
        condition_checks=_filters,
    ),
    QueryShape(
        name="hidden",
        read="a column where a condition on another one holds",
        result="the column of the rows where it holds",
        condition_checks=_hidden,
    ),
    QueryShape(
        name="parameters",
        read="a condition with parameters in place of its values",
        result="the rows where it holds",
        needs="parameters",
        condition_checks=_parameters,
    ),
    QueryShape(
        name="limit",
        read="`LIMIT n`, with a condition and without",
        result="`n` rows of all rows, or of those where the condition holds",
        needs="limit",
        table_checks=_limits,
        condition_checks=_limits_where,
    ),
    QueryShape(
        name="twice",
        read="the table twice in one query, by two conditions or of two moments",
        result="the rows of both reads",
        needs="union",
        table_checks=_twice,
        condition_checks=_twice_where,
    ),
    QueryShape(name="threads", read="one thread, and four", result="all rows", needs="threads", table_checks=_threads),
    QueryShape(
        name="batches", read="batches of few rows", result="all rows", needs="batch_rows", table_checks=_batches
    ),
    QueryShape(
        name="splits", read="small parts of files", result="all rows", needs="split_bytes", table_checks=_splits
    ),
    QueryShape(name="moved", read="a copy in another directory", result="all rows", table_checks=_copied("moved")),
    QueryShape(
        name="order",
        read="a copy whose metadata lists the files in the reverse order",
        result="all rows",
        table_checks=_copied("order"),
    ),
    QueryShape(
        name="statistics",
        read="a copy whose metadata has no bounds and counts of values, with a condition and without",
        result="all rows, or those where the condition holds",
        table_checks=_copied("statistics"),
        condition_checks=_without_statistics,
    ),
)
"""All shapes. To add a shape, add an entry."""
