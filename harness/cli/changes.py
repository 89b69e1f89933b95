"""`harness changes`: the rows that were inserted, deleted, and updated between two moments."""

from __future__ import annotations

from typing import Annotated

from harness.cli import results, terminal, untrusted
from harness.cli.formats import MAX_ROWS, MaxRows, RowsOutput, number_of_rows
from harness.cli.options import ColumnsOption, EndOption, Location, OpeningOptions, Where, names
from harness.cli.parameters import Option
from harness.metadata.model.times import parse_moment
from harness.metadata.plan.lifetimes import ChangeMode


def changes(
    location: Location,
    from_: Annotated[
        str | None,
        Option(
            "--from",
            metavar="WHEN",
            help="The beginning of the range: an id or version, a time, a branch, or a tag. By default the oldest "
            "snapshot of an Iceberg table. Delta tables require it.",
        ),
    ] = None,
    to: EndOption = None,
    from_inclusive: Annotated[
        bool | None,
        Option(
            "--from-inclusive/--from-exclusive",
            help="Whether the changes of the commit --from itself are read. By default they are read for Delta "
            "versions, but not for Iceberg snapshots.",
        ),
    ] = None,
    mode: Annotated[
        ChangeMode,
        Option(
            help="Read added rows (appends), every insert and delete (changelog), the difference between the ends "
            "(net), or inserts, deletes, and updates (updates). Delta tables only have changelog."
        ),
    ] = ChangeMode.CHANGELOG,
    keys: Annotated[
        str | None,
        Option(
            metavar="A,B",
            help="With --mode updates, the columns that identify a row. By default the identifier fields.",
        ),
    ] = None,
    columns: ColumnsOption = None,
    where: Where = None,
    *,
    out: RowsOutput,
    max_rows: MaxRows = str(MAX_ROWS),
    engine: Annotated[str, Option(metavar="NAME", help="The engine that reads: duckdb or spark.")] = "duckdb",
    opening: OpeningOptions,
) -> None:
    """Show the rows that were inserted, deleted, and updated.

    Examples:
        harness changes warehouse/orders --from 7000000000000001 --to audit
        harness changes warehouse/orders --from 2024-06-01 --mode net --where "region = 'eu'" -o changes.parquet

    The rows have the table's columns and columns that describe the change. They have no order. For an order, use FROM
    changes('warehouse/orders', 1, 5) ORDER BY … in harness sql.
    """
    most = number_of_rows(max_rows)
    for moment, name in ((from_, "from_"), (to, "to")):
        parse_moment(moment, name)  # report a malformed time before the table is opened
    if opening.untrusted:
        untrusted.refuse_engines([engine], "--engine", ("duckdb",))
    untrusted.run_in_worker_if_untrusted([location], opening, out)
    from harness.cli.writers import QueryRows, write_rows
    from harness.engines.duckdb.failures import engine_error
    from harness.engines.duckdb.instance import cursor
    from harness.engines.registry import find_engine

    find_engine(engine)  # report an unknown engine before the table is opened
    with terminal.progress("planning"):
        result = opening.open(location).changes(
            from_,
            to,
            from_inclusive=from_inclusive,
            mode=mode.value,
            keys=names(keys, "--keys"),
            columns=names(columns, "--columns"),
            where=where,
        )
    with results.destination(out.output) as stream, terminal.progress_until_written("reading", stream):
        if engine == "duckdb":
            rows = QueryRows(result.to_duckdb(cursor()), lambda error: engine_error(error, result._plan))
        else:
            rows = QueryRows.from_arrow(result.to_arrow(engine=engine))
        write_rows(rows, out.form, stream, max_rows=most)
    terminal.finished("read the changes")
