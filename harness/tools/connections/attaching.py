"""`harness.attach`: tables of a catalog as views of a DuckDB connection, for tools that want one of their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from harness.engines.registry import duckdb_engine
from harness.errors import AmbiguousTableError
from harness.metadata.catalogs.catalog import Name, parse_name, written
from harness.metadata.plan.scan_plan import ScanPlan
from harness.table import Table
from harness.tools.connections.tables import Source, Tables

if TYPE_CHECKING:
    import duckdb

    from harness.engines.duckdb.engine import Attached


def attach(
    connection: duckdb.DuckDBPyConnection, source: Source, /, *, tables: Iterable[str] | None = None, **options: Any
) -> tuple[str, ...]:
    """Make tables of a catalog views of a DuckDB connection, in a schema for each namespace.

        con = duckdb.connect()
        harness.attach(con, "path/to/warehouse", tables=["sales.orders"])
        con.sql("SELECT count(*) FROM sales.orders")

    A view reads the table as it was when it was attached, deletes applied; DuckDB pushes filters and columns of queries
    down to the files' row groups. `harness.connect` skips whole files besides, and reads tables as they are at each
    query; so use it where the tool does not need a connection of DuckDB. Attach again for newer rows.

    Namespaces inside of others are schemas with dots in their names: `"prod.sales"`. Tables without a namespace are in
    `main`. Names that differ in case alone are one to DuckDB, and refused. What the views need belongs to this
    connection; on a cursor of it they cannot be used. `harness.release` takes them away.

    Args:
        connection: yours. Its database is written: in a file, the views stay, and can be used after the next `attach`.
        source: as for `harness.connect`.
        tables: names of tables; None: all of the catalog.
        options: keyword arguments of `harness.open_table`, for each table.

    Returns:
        The names of the views, with their schemas.

    Raises:
        TableNotFoundError: there is no such table; the message has the nearest names.
        RequestError: the connection has something else by that name, or cannot be written.
        HarnessError: as for `harness.connect`, or a table cannot be read.
    """
    plans = view_plans(source, tables, options)
    duckdb_engine().attach(plans, connection)
    return tuple(written((schema or "main", name)) for schema, name in plans)


def view_plans(
    source: Source, tables: Iterable[str] | None, options: dict[str, Any]
) -> dict[tuple[str | None, str], ScanPlan]:
    """Plans of whole tables, by schema and name of the view for each. Arguments and errors are those of `attach`."""
    known = Tables.of(source, options)
    names = list(known.names()) if tables is None else [parse_name(name) for name in tables]
    plans: dict[tuple[str | None, str], ScanPlan] = {}
    taken: dict[tuple[str | None, str], Name] = {}
    for name in names:
        found = known.open(name)
        if found is None:
            raise known.absent(name)
        _, table = found
        view = (".".join(name[:-1]) or None, name[-1])
        folded = (view[0] and view[0].casefold(), view[1].casefold())
        if taken.setdefault(folded, name) != name:
            raise AmbiguousTableError(
                f"Cannot make views of both {written(taken[folded])} and {written(name)}: DuckDB takes them for one "
                "name; attach one of them with tables=[…]",
                cause="AmbiguousName",
                options=("tables",),
            )
        plans[view] = (table.snapshot() if isinstance(table, Table) else table).plan()
    return plans


def attached(
    connection: duckdb.DuckDBPyConnection, source: Source, tables: Iterable[str] | None, options: dict[str, Any]
) -> Attached:
    """As `attach`, for a caller with several connections to one instance: what each of the others needs."""
    return duckdb_engine().attach(view_plans(source, tables, options), connection)
