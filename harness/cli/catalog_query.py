"""A query with a catalog's names of tables: `harness sql --catalog prod "SELECT … FROM sales.orders"`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import duckdb

from harness.cli.rows import QueryRows, engine_error
from harness.engines.duckdb.instance import cursor
from harness.errors import RequestError, TableNotFoundError
from harness.metadata.catalogs.catalog import written
from harness.queries.parameters import Params
from harness.queries.rewrite import parse_statement, references, refuse_writes
from harness.snapshot import Snapshot
from harness.table import Table
from harness.tools.connections.connection import Connection
from harness.tools.connections.tables import Source, Tables


def run_by_names(
    query: str,
    catalog: str | None,
    given: Mapping[str, Table | Snapshot],
    moment: Mapping[str, Any],
    arguments: Mapping[str, Any],
    dialect: str = "duckdb",
    params: Params = None,
) -> QueryRows:
    """The rows of the query, which is planned now and runs when rows are read.

    Args:
        catalog: as for `harness.connect`.
        given: tables by names of the query, which go before those of the catalog.
        moment: arguments of `Table.snapshot` for the catalog's tables.
        arguments: keyword arguments of `harness.open_table` for these.
        params: values of the query's parameters.

    Raises:
        RequestError: it cannot be parsed, or writes; or it is in another dialect.
        TableNotFoundError: a name stands for nothing.
        EngineError: DuckDB refuses the query.
        HarnessError: see `harness.connect`.
    """
    if dialect != "duckdb":
        raise RequestError(
            f"Cannot find tables of a query in dialect {dialect} by name: say --table NAME=TABLE for each",
            options=("dialect",),
        )
    statement = parse_statement(query)
    refuse_writes(statement)
    # Catalogs are configured where no worker can look.
    source: Source = {} if catalog is None and arguments.get("untrusted") else catalog
    connection = Connection(Tables.of(source, arguments), cursor())
    for name, table in given.items():
        connection.register(name, table)
    named = {written(reference.name) for reference in references(statement)} - given.keys() if moment else ()
    for name in named:
        with contextlib.suppress(TableNotFoundError):  # names of no table are DuckDB's to judge
            found = connection.table(name)
            connection.register(name, found.snapshot(**moment) if isinstance(found, Table) else found)
    try:
        relation = connection.sql(query, params)
    except duckdb.Error as error:
        raise engine_error(error) from error
    assert relation is not None, "a query has a result"
    return QueryRows(relation)
