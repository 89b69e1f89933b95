"""`harness.connect`: SQL in which every table of a catalog is there by its name.

    with harness.connect("warehouse") as con:
        con.sql("SELECT region, count(*) FROM sales.orders GROUP BY region").show()
        con.execute("SELECT id FROM sales.orders WHERE day = ?", ["2024-01-02"]).fetchone()

A connection of DuckDB's cannot do this: DuckDB 2.0's Python module has neither replacement scans nor table functions,
so its tables are planned before the query is known. Here each statement is read first.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import duckdb
import pyarrow as pa

from harness.connections.statements import Prepared, missing_name_error, prepare, statements
from harness.connections.tables import NamedTables, TableSource
from harness.engines.duckdb.engine import attach as attach_plans
from harness.engines.duckdb.engine import release
from harness.engines.duckdb.instance import connect as new_instance
from harness.engines.duckdb.instance import error_text
from harness.errors import AmbiguousTableError, EngineError, HarnessError, RequestError
from harness.metadata.catalogs.catalog import Name, name_text, parse_name
from harness.metadata.catalogs.resolving import is_foreign_table
from harness.metadata.model.arguments import check_arguments, validate_call
from harness.metadata.plan.scan_plan import ScanPlan
from harness.metadata.planned_scan import PlannedScan
from harness.queries.hints import explain_error
from harness.queries.parameters import binding_error
from harness.queries.sql import instance_error, missing_file
from harness.snapshot import Snapshot
from harness.storage.paths import is_path
from harness.storage.threads import track
from harness.table import OpenOptions, Table

if TYPE_CHECKING:
    import polars as pl


# The rows of the last statement: taken one by one, or as a whole.


class StatementRows:
    """Rows of one statement, the last that ran on its DuckDB connection.

    A query waits until its rows are taken: as a whole they come from a relation, because DuckDB 2.0 copies all rows
    that might be fetched one by one.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, query: str | None) -> None:
        """query: runs when rows are taken; None: the statement ran already."""
        self._connection, self._query = connection, query
        self._relation = None if query is None else connection.sql(query)
        self._is_begun = False
        self.description: list[tuple[Any, ...]] = (connection if self._relation is None else self._relation).description

    def row_source(self) -> duckdb.DuckDBPyConnection:
        """The source of `fetchone` and the like."""
        if self._query is not None and not self._is_begun:
            self._connection.execute(self._query)
        self._is_begun = True
        return self._connection

    def bulk_source(self) -> duckdb.DuckDBPyRelation | duckdb.DuckDBPyConnection:
        """The source of `to_arrow_table` and the like; afterwards no rows are left.

        Raises RequestError: rows were taken one by one. DuckDB 1.5 would leave out those that it holds ready.
        """
        if self._is_begun:
            raise RequestError("Cannot give the other rows as a whole: some were fetched one by one; execute again")
        if self._relation is None:
            return self._connection
        relation = self._relation
        self._query, self._relation = f"FROM ({self._query}\n) LIMIT 0", relation.limit(0)
        return relation


_Result = TypeVar("_Result")


@validate_call
def connect(source: TableSource = None, /, **options: Unpack[OpenOptions]) -> Connection:
    """A connection whose SQL finds tables by their names.

        con = harness.connect()  # all catalogs that are configured: prod.sales.orders
        con = harness.connect("prod")  # one of them
        con = harness.connect("path/to/warehouse")
        con = harness.connect({"orders": "path/to/orders", "ref.days": days})

    A table is opened and planned when a statement uses it; the statement's conditions skip its files, as in
    `harness.sql`. Within a statement it has one version. Names match without regard to case, in quotes too, as those of
    DuckDB; the catalog's own name may stand before them, and a metadata table's behind: `sales.orders.snapshots`. After
    `USE sales` its tables have names of one part, and `SHOW TABLES` lists them. A table may stand by its location too,
    with a slash in it: `FROM 'path/to/orders'`. Tables, views and settings of your own are usable beside, and so are
    files: `CREATE TEMP TABLE mine AS FROM sales.orders`. Tables of a catalog are only read.

    Args:
        source: a catalog, as the argument of `harness.open_table` of that name; or tables by name: locations, which are
            opened at each use, tables and snapshots. None: all catalogs that are configured, for harness or for
            PyIceberg; a name says its catalog first, or is of the only one that has it.
        options: keyword arguments of `harness.open_table`, for each table that is opened.

    Raises:
        RequestError: there is no such catalog.
        TableNotFoundError: there is no such warehouse directory.
        StorageError: the catalog does not answer.
    """
    return Connection(NamedTables.from_source(source, options), new_instance(lossless=False))


class Connection:
    """A DuckDB instance of its own, in whose statements tables of a catalog are there by name. Made by `connect`.

    It has the methods of a connection and of a cursor of the Python Database API (PEP 249), as DuckDB's own connections
    do: parameters are `?`, `$1` or `$name`, and errors are those of `harness.sql`.
    """

    def __init__(self, tables: NamedTables, connection: duckdb.DuckDBPyConnection) -> None:
        self._tables, self._connection = tables, connection
        self._read: Mapping[str, Snapshot] = {}
        self._rows: StatementRows | None = None
        self._is_lent = False
        self.arraysize = 1

    def __repr__(self) -> str:
        within = f", within={name_text(self.within)!r}" if self.within else ""
        return f"Connection({self._tables.description()}{within})"

    @validate_call
    def sql(self, query: str, parameters: object = None) -> duckdb.DuckDBPyRelation | None:
        """The result of a query as a lazy DuckDB relation; None for statements without one.

        The relation's tables stay on the connection until `release`.

        Args:
            query: statements of which the last one gives the result.
            parameters: values for the last statement: a sequence, or a mapping by name.

        Raises:
            As `harness.sql`, and TableNotFoundError: a name stands for nothing; the message has the nearest ones.
        """
        prepared = self._run_all_but_last(query)
        with self._errors(prepared.tables, prepared):
            text = prepared.runnable(self._connection, parameters)
            self._is_lent = True
            relation = self._connection.sql(text, params=parameters)
        self._tables = prepared.chosen or self._tables
        return relation

    @validate_call
    def execute(self, query: str, parameters: object = None) -> Connection:
        """Run statements; the rows of the last one are there to be fetched. Arguments and errors are those of `sql`."""
        self._run(self._run_all_but_last(query), parameters)
        return self

    @validate_call
    def executemany(self, query: str, parameters: Iterable[object]) -> Connection:
        """Run statements once for each set of parameters, each time on tables as they are then. Raises as `sql`."""
        for each in parameters:
            self.execute(query, each)
        return self

    def plans(self, query: str) -> list[tuple[str, ScanPlan]]:
        """The plan of each place where a query names a table of the catalog, with the table's name.

        Nothing runs, neither the query nor statements before it. Raises as `sql`.
        """
        prepared = self._prepare(_split_statements(query)[-1])
        return [(reference.table, plan) for reference, plan in prepared.reads if isinstance(plan, PlannedScan)]

    def table(self, name: str) -> Table | Snapshot:
        """Return the table of a name, or at a path such as `./orders`, as it is now, or as registered.

        Raises TableNotFoundError, AmbiguousTableError: there is none, or there are several; the message has names.
        """
        parts = (name,) if is_path(name) and '"' not in name else parse_name(name)
        found = self._tables.open(parts)
        if found is None:
            raise self._tables.missing_table_error(parts)
        return found[1]

    @property
    def within(self) -> Name:
        """The namespace of the catalog that `USE` chose; empty: none."""
        return self._tables.within

    def names(self, *, everywhere: bool = True) -> Iterator[Name]:
        """The names of all tables, in parts. The catalog is asked as they are taken.

        everywhere: False: after `USE`, only those in the namespace that was chosen, as they can be written there.
        """
        return self._tables.names(everywhere=everywhere)

    def register(self, name: str, value: object) -> Connection:
        """Let a name stand for a table, a snapshot or a location, or a frame of Arrow, pandas or Polars.

        A table that PyIceberg or deltalake opened is read by harness, at its version.

        Raises RequestError: DuckDB reads no such value.
        """
        if isinstance(value, Table | Snapshot | str) or is_foreign_table(value):
            self._tables.register(name, value)
            return self
        try:
            self._connection.register(name, value)
        except (duckdb.Error, TypeError) as error:
            raise RequestError(f"Cannot register {name}: DuckDB reads no {type(value).__name__}") from error
        return self

    def unregister(self, name: str) -> Connection:
        """Take back a name of `register`."""
        if self._tables.registered.pop(parse_name(name), None) is None:
            self._connection.unregister(name)
        return self

    def cursor(self) -> Connection:
        """Another connection to the same instance and names, with temporary tables and a transaction of its own."""
        return Connection(self._tables, track(self._connection.cursor()))

    # The last statement.

    @property
    def description(self) -> list[tuple[Any, ...]] | None:
        """The columns of the rows, seven values for each, of which the first two are name and type."""
        return None if self._rows is None else self._rows.description

    @property
    def rowcount(self) -> int:
        """-1: DuckDB does not count rows before they are fetched."""
        return -1

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row; None: there are no more.

        Raises MissingFileError, duckdb.Error: a file is gone since the table was planned, or DuckDB fails on a row.
        """
        return self._fetch(lambda rows: rows.row_source().fetchone())

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next rows, `arraysize` if not said otherwise. Raises as `fetchone`."""
        return self._fetch(lambda rows: rows.row_source().fetchmany(self.arraysize if size is None else size))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left. Raises as `fetchone`."""
        return self._fetch(lambda rows: rows.row_source().fetchall())

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.fetchone, None)

    def arrow(self) -> pa.Table:
        """All rows as an Arrow table. Raises as `fetchone`, and RequestError: some were fetched one by one."""
        return self._fetch(lambda rows: rows.bulk_source().to_arrow_table())

    def to_batches(self, batch_rows: int = 100_000) -> pa.RecordBatchReader:
        """All rows as a stream of Arrow batches, while DuckDB reads. Raises as `arrow`."""
        return self._fetch(lambda rows: rows.bulk_source().to_arrow_reader(batch_rows))

    def df(self) -> Any:
        """All rows as a pandas DataFrame. Raises as `arrow`."""
        return self._fetch(lambda rows: rows.bulk_source().df())

    def pl(self) -> pl.DataFrame:
        """All rows as a Polars DataFrame. Raises as `arrow`, and RequestError: there is no Polars."""
        try:
            import polars as pl
        except ImportError:
            raise RequestError("Cannot make a Polars DataFrame: polars is not installed, pip install polars") from None
        return pl.DataFrame(self.arrow())

    # The DuckDB instance.

    def begin(self) -> Connection:
        """Begin a transaction on tables of your own. Tables of the catalog are read as they are at each statement."""
        self._connection.begin()
        return self

    def commit(self) -> Connection:
        """Keep all changes since `begin`; without it, they are kept already."""
        self._end_transaction("COMMIT")
        return self

    def rollback(self) -> Connection:
        """Undo all changes since `begin`."""
        self._end_transaction("ROLLBACK")
        return self

    def interrupt(self) -> None:
        """End the query that another thread runs here."""
        self._connection.interrupt()

    def release(self) -> None:
        """Take away the tables of reads, as `harness.detach` does: relations made before can not be run any more."""
        release(self._connection)
        self._rows, self._is_lent, self._read = None, False, {}

    def close(self) -> None:
        """End the connection; relations that it gave end with it."""
        self._connection.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run_all_but_last(self, query: str) -> Prepared:
        """Runs all statements but the last one, which is ready to run."""
        *first, last = _split_statements(query)
        for statement in first:
            self._run(self._prepare(statement), None)
        return self._prepare(last)

    def _prepare(self, statement: str) -> Prepared:
        if self._rows is not None:
            self._rows = None
            try:  # DuckDB 2.0 refuses other work before rows are given up, and 1.5 cuts them off silently
                self._connection.execute("SELECT 1 WHERE false").fetchall()
            except duckdb.FatalException as error:
                message = f"DuckDB gave up the instance of this connection: open a new one: {error_text(error)}"
                raise EngineError(message) from error
        return prepare(statement, self._tables, self._connection)

    def _run(self, prepared: Prepared, parameters: object) -> None:
        if self._read and not self._is_lent:
            self.release()
        with self._errors(prepared.tables, prepared):
            text = prepared.runnable(self._connection, parameters)
            waits = prepared.gives_rows and parameters is None
            if not waits:
                self._connection.execute(text, parameters)
            self._rows = StatementRows(self._connection, text if waits else None)
        self._read, self._tables = prepared.tables, prepared.chosen or self._tables

    def _end_transaction(self, how: str) -> None:
        try:
            self._connection.execute(how)
        except duckdb.TransactionException:  # there is none; PEP 249 has one always
            return

    def _fetch(self, fetch: Callable[[StatementRows], _Result]) -> _Result:
        if self._rows is None:
            raise RequestError("Cannot fetch rows: execute a query first; rows from before `sql` or `plans` are gone")
        with self._errors(self._read), warnings.catch_warnings():
            # Rows that might be fetched one by one are copied for Arrow.
            warnings.filterwarnings("ignore", "Arrow output on a DB-API result", UserWarning)
            return fetch(self._rows)

    @contextmanager
    def _errors(self, tables: Mapping[str, Snapshot], prepared: Prepared | None = None) -> Iterator[None]:
        """Errors of DuckDB become harness's; rows of a statement that has begun may fail with DuckDB's own.

        tables: that the statement reads. prepared: the statement, which is to begin.
        """
        try:
            yield
        except duckdb.Error as error:
            found: HarnessError | None = None
            if isinstance(error, duckdb.IOException):
                found = missing_file(error, tables)
            elif isinstance(error, duckdb.InternalException | duckdb.FatalException):
                found = instance_error(error, tables)
            if prepared is None:
                raise found or error from error
            if found is None and isinstance(error, duckdb.CatalogException | duckdb.BinderException):
                found = missing_name_error(error, prepared, self._tables)
            known = {name: snapshot.schema for name, snapshot in tables.items()}
            raise found or binding_error(error) or explain_error(error, prepared.text, known) from error.with_traceback(
                None
            )


def _split_statements(query: str) -> list[str]:
    found = statements(query)
    if not found:
        raise RequestError("Cannot run nothing: the text has no statement")
    return found


# `harness.attach`: tables of a catalog as views of a DuckDB connection, for tools that bring a connection.


def attach(
    connection: duckdb.DuckDBPyConnection,
    source: TableSource,
    /,
    *,
    tables: Iterable[str] | None = None,
    **options: Unpack[OpenOptions],
) -> tuple[str, ...]:
    """Make tables of a catalog views of a DuckDB connection, in a schema for each namespace.

        con = duckdb.connect()
        harness.attach(con, "path/to/warehouse", tables=["sales.orders"])
        con.sql("SELECT count(*) FROM sales.orders")

    A view reads the table as it was when it was attached, deletes applied; DuckDB pushes filters and columns of queries
    down to the files' row groups. `harness.connect` skips whole files besides, and reads tables as they are at each
    query. Attach again for newer rows.

    Namespaces inside of others are schemas with dots in their names: `"prod.sales"`. Tables without a namespace are in
    `main`. Names that differ in case alone are one to DuckDB, and refused. The views belong to this connection; on a
    cursor of it they cannot be used. `harness.detach` takes them away.

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
    check_arguments({"connection": connection, "names": tables}, ("names",))
    plans = plan_views(source, tables, options)
    attach_plans(plans, connection)
    return tuple(name_text((schema or "main", name)) for schema, name in plans)


@validate_call
def detach(connection: duckdb.DuckDBPyConnection) -> None:
    """Take away what harness has put on your DuckDB connection: views of `attach`, and what reads need.

    `Snapshot.to_duckdb` and `harness.sql` leave tables of deletes and constants, and names of files, on a connection
    that you pass, because a relation is lazy: it, and whatever you derive from it, looks them up each time that it
    runs. Detach when you have the rows; relations that were made before can then not be run any more. Views that you
    named, or made of such relations, stay with all that they need.

    Raises:
        EngineError: The connection is closed.
    """
    try:
        release(connection)
    except duckdb.ConnectionException as error:
        raise EngineError(f"Cannot detach from the connection: {error}") from error


def plan_views(
    source: TableSource, tables: Iterable[str] | None, options: Mapping[str, Any]
) -> dict[tuple[str | None, str], PlannedScan]:
    """Plans of whole tables, by schema and name of the view for each. Arguments and errors are those of `attach`."""
    known = NamedTables.from_source(source, options)
    names = list(known.names()) if tables is None else [parse_name(name) for name in tables]
    plans: dict[tuple[str | None, str], PlannedScan] = {}
    taken: dict[tuple[str | None, str], Name] = {}
    for name in names:
        found = known.open(name)
        if found is None:
            raise known.missing_table_error(name)
        _, table = found
        view = (".".join(name[:-1]) or None, name[-1])
        folded = (view[0] and view[0].casefold(), view[1].casefold())
        if taken.setdefault(folded, name) != name:
            raise AmbiguousTableError(
                f"Cannot make views of both {name_text(taken[folded])} and {name_text(name)}: DuckDB takes them for one "
                "name; attach one of them with tables=[…]",
                cause="AmbiguousName",
                options=("tables",),
            )
        plans[view] = (table.snapshot() if isinstance(table, Table) else table)._planned()
    return plans
