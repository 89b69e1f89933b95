"""The rows of what a connection executed: taken one by one, or as a whole."""

from __future__ import annotations

from typing import Any

import duckdb

from harness.engines.shared.duckdb_texts import said
from harness.errors import EngineError, RequestError


class Rows:
    """Rows of one statement, which is the last that ran on its DuckDB connection.

    A query waits until it is known how its rows are wanted: as a whole they come from a relation, because DuckDB 2.0
    first makes a copy of all those that might be fetched one by one.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, query: str | None) -> None:
        """`query`: runs when rows are taken; None: the statement ran already."""
        self._connection, self._query = connection, query
        self._relation = None if query is None else connection.sql(query)
        self._is_begun = False
        self.description: list[tuple[Any, ...]] = (connection if self._relation is None else self._relation).description

    def one_by_one(self) -> duckdb.DuckDBPyConnection:
        """A connection that has `fetchone` and the like."""
        if self._query is not None and not self._is_begun:
            self._connection.execute(self._query)
        self._is_begun = True
        return self._connection

    def as_a_whole(self) -> duckdb.DuckDBPyRelation | duckdb.DuckDBPyConnection:
        """What has `to_arrow_table` and the like; afterwards no rows are left.

        Raises:
            RequestError: rows were taken one by one. DuckDB 1.5 would leave out those that it holds ready.
        """
        if self._is_begun:
            raise RequestError("Cannot give the other rows as a whole: some were fetched one by one; execute again")
        if self._relation is None:
            return self._connection
        relation = self._relation
        self._query, self._relation = f"FROM ({self._query}\n) LIMIT 0", relation.limit(0)
        return relation


def discard(connection: duckdb.DuckDBPyConnection) -> None:
    """Give up rows that nobody fetched: DuckDB 2.0 refuses other work before that, and 1.5 cuts them off silently.

    Raises:
        EngineError: DuckDB has given up the connection's instance.
    """
    try:
        connection.execute("SELECT 1 WHERE false").fetchall()
    except duckdb.FatalException as error:
        raise EngineError(f"DuckDB gave up the instance of this connection: open a new one: {said(error)}") from error
