"""`harness.connect`: SQL that can use every table of a catalog by its name.

    with harness.connect("warehouse") as con:
        con.sql("SELECT region, count(*) FROM sales.orders GROUP BY region").show()
        con.execute("SELECT id FROM sales.orders WHERE day = ?", ["2024-01-02"]).fetchone()

A plain DuckDB connection cannot do this. DuckDB 2.0's Python module has neither replacement scans nor table functions,
so tables would have to be planned before the query is known. Here each statement is parsed first.
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
from harness.queries.inputs import QuerySource
from harness.queries.parameters import binding_error
from harness.queries.sql import instance_error, missing_file
from harness.snapshot import Snapshot
from harness.storage.paths import is_path
from harness.storage.threads import track
from harness.table import OpenOptions, Table

if TYPE_CHECKING:
    import polars as pl


class StatementRows:
    """The rows of the last statement on a DuckDB connection.

    A query does not run until its rows are fetched. If they are fetched all together, they come from a relation,
    because DuckDB 2.0 copies all rows that might be fetched one by one.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, query: str | None) -> None:
        """Prepare the rows of a query. It runs when they are fetched.

        Args:
            connection: The DuckDB connection.
            query: The query. None: the statement has already run.
        """
        self._connection, self._query = connection, query
        self._relation = None if query is None else connection.sql(query)
        self._is_begun = False
        self.description: list[tuple[Any, ...]] = (connection if self._relation is None else self._relation).description

    def row_source(self) -> duckdb.DuckDBPyConnection:
        """Return the object to call `fetchone` and similar methods on."""
        if self._query is not None and not self._is_begun:
            self._connection.execute(self._query)
        self._is_begun = True
        return self._connection

    def bulk_source(self) -> duckdb.DuckDBPyRelation | duckdb.DuckDBPyConnection:
        """Return the object to call `to_arrow_table` and similar methods on. After that, no rows are left.

        Raises:
            RequestError: Some rows were fetched one by one. DuckDB 1.5 would skip rows that it has buffered.
        """
        if self._is_begun:
            raise RequestError("Cannot fetch the remaining rows together: some were fetched one by one; execute again")
        if self._relation is None:
            return self._connection
        relation = self._relation
        self._query, self._relation = f"FROM ({self._query}\n) LIMIT 0", relation.limit(0)
        return relation


_Result = TypeVar("_Result")


@validate_call
def connect(source: TableSource = None, /, **options: Unpack[OpenOptions]) -> Connection:
    """Return a connection whose SQL finds tables by their names.

        con = harness.connect()  # all configured catalogs: prod.sales.orders
        con = harness.connect("prod")  # one of them
        con = harness.connect("path/to/warehouse")
        con = harness.connect({"orders": "path/to/orders", "ref.days": days})

    A table is opened and planned when a statement uses it, and files that the statement's conditions exclude are
    skipped, as in `harness.sql`. Within one statement, a table has one version.

    Names match regardless of case, also in quotes, as in DuckDB. The catalog's own name may come before a name, and a
    metadata table after it: `sales.orders.snapshots`. After `USE sales`, its tables have names of one part, and `SHOW
    TABLES` lists them. A location with a slash can be used in place of a name: `FROM 'path/to/orders'`. As in
    `harness.sql`, `FROM changes('sales.orders', 3, 5)` reads changes. Your own tables, views, settings, and files can
    be used too: `CREATE TEMP TABLE mine AS FROM sales.orders`. Tables of a catalog can only be read.

    Args:
        source: A catalog or its name, as for `catalog` of `harness.open_table`; or tables by name: locations, which are
            opened at each use, tables and snapshots. None: all catalogs that are configured for harness or PyIceberg. A
            name then begins with its catalog, unless only one catalog has it.
        options: Keyword arguments of `harness.open_table`, for each table that is opened.

    Returns:
        The connection.

    Raises:
        RequestError: There is no such catalog.
        TableNotFoundError: The warehouse directory does not exist.
        StorageError: The catalog does not answer.
    """
    return Connection(NamedTables.from_source(source, options), new_instance(lossless=False))


class Connection:
    """A separate DuckDB instance whose statements can use tables of a catalog by name. `connect` creates one.

    It has the methods of a connection and of a cursor of the Python Database API (PEP 249), like DuckDB's own
    connections. Parameters are `?`, `$1`, or `$name`, and `harness.sql` describes the errors.
    """

    def __init__(self, tables: NamedTables, connection: duckdb.DuckDBPyConnection) -> None:
        self._tables, self._connection = tables, connection
        self._read: Mapping[str, QuerySource] = {}
        self._rows: StatementRows | None = None
        self._is_lent = False
        self.arraysize = 1

    def __repr__(self) -> str:
        within = f", within={name_text(self.within)!r}" if self.within else ""
        return f"Connection({self._tables.description()}{within})"

    @validate_call
    def sql(self, query: str, parameters: object = None) -> duckdb.DuckDBPyRelation | None:
        """Return the result of a query as a lazy DuckDB relation, or None for statements without a result.

        The relation's tables stay on the connection until `release`.

        Args:
            query: One or more statements. The last one has the result.
            parameters: Values for the last statement: a sequence, or a mapping by name.

        Raises:
            TableNotFoundError: No table has that name. The message lists similar names.
            HarnessError: As for `harness.sql`.
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
        """Run statements. The rows of the last one can then be fetched.

        Args:
            query: One or more statements.
            parameters: Values for the last statement: a sequence, or a mapping by name.

        Returns:
            This connection.

        Raises:
            HarnessError: As for `sql`.
        """
        self._run(self._run_all_but_last(query), parameters)
        return self

    @validate_call
    def executemany(self, query: str, parameters: Iterable[object]) -> Connection:
        """Run statements once for each set of parameters. Each run plans the catalog's tables again.

        Args:
            query: One or more statements.
            parameters: Sets of values for the last statement.

        Returns:
            This connection.

        Raises:
            HarnessError: As for `sql`.
        """
        for each in parameters:
            self.execute(query, each)
        return self

    def plans(self, query: str) -> list[tuple[str, ScanPlan]]:
        """Return the plan for each place where a query names a table of the catalog, with the table's name.

        Neither the query nor the statements before it are run.

        Args:
            query: One or more statements. The last one is planned.

        Raises:
            HarnessError: As for `sql`.
        """
        prepared = self._prepare(_split_statements(query)[-1])
        return [(reference.table, plan) for reference, plan in prepared.reads if isinstance(plan, PlannedScan)]

    def table(self, name: str) -> Table | Snapshot:
        """Return the table with a name, or at a path like `./orders`: its current state, or the registered one.

        Args:
            name: The name or path.

        Raises:
            TableNotFoundError: There is no such table. The message lists similar names.
            AmbiguousTableError: There are several tables of that name. The message lists them.
        """
        parts = (name,) if is_path(name) and '"' not in name else parse_name(name)
        result = self._tables.open(parts)
        if result is None:
            raise self._tables.missing_table_error(parts)
        return result[1]

    @property
    def within(self) -> Name:
        """The namespace of the catalog that `USE` selected. Empty if there is none."""
        return self._tables.within

    def names(self, *, everywhere: bool = True) -> Iterator[Name]:
        """Return the names of all tables, as tuples of their parts. The catalog lists them lazily.

        Args:
            everywhere: If False, and if `USE` has selected a namespace, return only names in this namespace, without
                the namespace.
        """
        return self._tables.names(everywhere=everywhere)

    def register(self, name: str, value: object) -> Connection:
        """Make a table, snapshot, location, or an Arrow, pandas, or Polars frame available by name.

        If PyIceberg or deltalake opened the table, harness reads the version that they opened.

        Args:
            name: The name.
            value: The table or frame.

        Returns:
            This connection.

        Raises:
            RequestError: DuckDB cannot read a value of this type.
        """
        if isinstance(value, Table | Snapshot | str) or is_foreign_table(value):
            self._tables.register(name, value)
            return self
        try:
            self._connection.register(name, value)
        except (duckdb.Error, TypeError) as error:
            raise RequestError(
                f"Cannot register {name}: DuckDB cannot read an object of type {type(value).__name__}"
            ) from error
        return self

    def unregister(self, name: str) -> Connection:
        """Remove a name that `register` added.

        Args:
            name: The name.

        Returns:
            This connection.
        """
        if self._tables.registered.pop(parse_name(name), None) is None:
            self._connection.unregister(name)
        return self

    def cursor(self) -> Connection:
        """Return another connection to the same instance and names, with its own temporary tables and transaction."""
        return Connection(self._tables, track(self._connection.cursor()))

    @property
    def description(self) -> list[tuple[Any, ...]] | None:
        """The columns of the rows, each as a tuple of seven values (PEP 249). The first two are name and type."""
        return None if self._rows is None else self._rows.description

    @property
    def rowcount(self) -> int:
        """Always -1, because DuckDB does not count rows before they are fetched."""
        return -1

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row, or None if there are no more.

        Raises:
            MissingFileError: A file was deleted after the table was planned.
            duckdb.Error: DuckDB fails on a row.
        """
        return self._fetch(lambda rows: rows.row_source().fetchone())

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """Return the next rows, by default `arraysize` of them. Raises the errors of `fetchone`.

        Args:
            size: The number of rows.
        """
        return self._fetch(lambda rows: rows.row_source().fetchmany(self.arraysize if size is None else size))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all remaining rows. Raises the errors of `fetchone`."""
        return self._fetch(lambda rows: rows.row_source().fetchall())

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.fetchone, None)

    def arrow(self) -> pa.Table:
        """Return all rows as an Arrow table.

        Raises:
            RequestError: Some rows were fetched one by one.
            MissingFileError, duckdb.Error: As for `fetchone`.
        """
        return self._fetch(lambda rows: rows.bulk_source().to_arrow_table())

    def to_batches(self, batch_rows: int = 100_000) -> pa.RecordBatchReader:
        """Return all rows as a stream of Arrow batches, while DuckDB reads. Raises the errors of `arrow`.

        Args:
            batch_rows: The number of rows in a batch.
        """
        return self._fetch(lambda rows: rows.bulk_source().to_arrow_reader(batch_rows))

    def df(self) -> Any:
        """Return all rows as a pandas DataFrame. Raises the errors of `arrow`."""
        return self._fetch(lambda rows: rows.bulk_source().df())

    def pl(self) -> pl.DataFrame:
        """Return all rows as a Polars DataFrame.

        Raises:
            RequestError: Polars is not installed, or some rows were fetched one by one.
            MissingFileError, duckdb.Error: As for `fetchone`.
        """
        try:
            import polars as pl
        except ImportError:
            raise RequestError("Cannot make a Polars DataFrame: polars is not installed, pip install polars") from None
        return pl.DataFrame(self.arrow())

    def begin(self) -> Connection:
        """Begin a transaction on your own tables.

        It does not affect the catalog's tables: each statement plans them again.
        """
        self._connection.begin()
        return self

    def commit(self) -> Connection:
        """Commit all changes since `begin`. Without `begin`, each change is committed at once."""
        self._end_transaction("COMMIT")
        return self

    def rollback(self) -> Connection:
        """Undo all changes since `begin`."""
        self._end_transaction("ROLLBACK")
        return self

    def interrupt(self) -> None:
        """Interrupt the query that another thread is running on this connection."""
        self._connection.interrupt()

    def release(self) -> None:
        """Remove the tables of reads, as `harness.detach` does. Relations made before can no longer be used."""
        release(self._connection)
        self._rows, self._is_lent, self._read = None, False, {}

    def close(self) -> None:
        """Close the connection. Relations that it returned can no longer be used."""
        self._connection.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run_all_but_last(self, query: str) -> Prepared:
        """Run all statements except the last one, and prepare the last one."""
        *first, last = _split_statements(query)
        for statement in first:
            self._run(self._prepare(statement), None)
        return self._prepare(last)

    def _prepare(self, statement: str) -> Prepared:
        if self._rows is not None:
            self._rows = None
            try:  # until rows are discarded, DuckDB 2.0 refuses other work; 1.5 drops them silently
                self._connection.execute("SELECT 1 WHERE false").fetchall()
            except duckdb.FatalException as error:
                message = f"DuckDB invalidated the instance of this connection: open a new one: {error_text(error)}"
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

    def _end_transaction(self, statement: str) -> None:
        try:
            self._connection.execute(statement)
        except duckdb.TransactionException:  # there is no transaction; in PEP 249 there always is one
            return

    def _fetch(self, fetch: Callable[[StatementRows], _Result]) -> _Result:
        if self._rows is None:
            raise RequestError("Cannot fetch rows: execute a query first; rows from before `sql` or `plans` are gone")
        with self._errors(self._read), warnings.catch_warnings():
            # DuckDB warns that it copies rows for Arrow if they might be fetched one by one.
            warnings.filterwarnings("ignore", "Arrow output on a DB-API result", UserWarning)
            return fetch(self._rows)

    @contextmanager
    def _errors(self, tables: Mapping[str, QuerySource], prepared: Prepared | None = None) -> Iterator[None]:
        """Raise DuckDB's errors as harness errors, as far as they can still be translated after a statement has begun.

        Args:
            tables: The tables that the statement reads.
            prepared: The statement, if it is about to begin.
        """
        try:
            yield
        except duckdb.Error as error:
            result: HarnessError | None = None
            if isinstance(error, duckdb.IOException):
                result = missing_file(error, tables)
            elif isinstance(error, duckdb.InternalException | duckdb.FatalException):
                result = instance_error(error, tables)
            if prepared is None:
                raise result or error from error
            if result is None and isinstance(error, duckdb.CatalogException | duckdb.BinderException):
                result = missing_name_error(error, prepared, self._tables)
            schemas = {name: snapshot.schema for name, snapshot in tables.items()}
            raise (
                result or binding_error(error) or explain_error(error, prepared.text, schemas)
            ) from error.with_traceback(None)


def _split_statements(query: str) -> list[str]:
    result = statements(query)
    if not result:
        raise RequestError("Cannot run an empty text: it has no statement")
    return result


def attach(
    connection: duckdb.DuckDBPyConnection,
    source: TableSource,
    /,
    *,
    tables: Iterable[str] | None = None,
    **options: Unpack[OpenOptions],
) -> tuple[str, ...]:
    """Create views of a catalog's tables on a DuckDB connection, in a schema for each namespace.

        con = duckdb.connect()
        harness.attach(con, "path/to/warehouse", tables=["sales.orders"])
        con.sql("SELECT count(*) FROM sales.orders")

    Use it for tools that need a plain DuckDB connection. A view reads the table as it was when it was attached, with
    deletes applied, and DuckDB skips row groups by a query's filter. `harness.connect` also skips whole files, and
    reads the current version of tables in each query. Attach again to see newer rows.

    A nested namespace is a schema with dots in its name: `"prod.sales"`. Tables without a namespace are in `main`.
    Names that differ only in case are the same name in DuckDB, and are refused. The views can be used only on this
    connection, not on its cursors. `harness.detach` removes them.

    Args:
        connection: Your connection. Its database is changed: in a database file, the views stay, and can be used again
            after the next `attach`.
        source: As for `harness.connect`.
        tables: Names of tables. None: all tables of the catalog.
        options: Keyword arguments of `harness.open_table`, for each table.

    Returns:
        The names of the views, with their schemas.

    Raises:
        TableNotFoundError: A table does not exist. The message lists similar names.
        RequestError: The connection already has another object by that name, or its database cannot be written.
        HarnessError: As for `harness.connect`, or a table cannot be read.
    """
    check_arguments({"connection": connection, "names": tables}, ("names",))
    plans = plan_views(source, tables, options)
    attach_plans(plans, connection)
    return tuple(name_text((schema or "main", name)) for schema, name in plans)


@validate_call
def detach(connection: duckdb.DuckDBPyConnection) -> None:
    """Remove everything that harness has put on your DuckDB connection: views of `attach`, and data that reads need.

    `Snapshot.to_duckdb` and `harness.sql` leave tables of deletes and constants, and names of files, on a connection
    that you pass. A relation is lazy, so it and all relations derived from it use these each time they run. Detach
    after you have fetched the rows; relations made before can no longer be used. Views that you created from relations
    stay, with everything they need.

    Args:
        connection: Your connection.

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
    """Return plans of whole tables by the schema and name of their views. See `attach` for arguments and errors."""
    named_tables = NamedTables.from_source(source, options)
    names = list(named_tables.names()) if tables is None else [parse_name(name) for name in tables]
    plans: dict[tuple[str | None, str], PlannedScan] = {}
    names_by_view: dict[tuple[str | None, str], Name] = {}
    for name in names:
        result = named_tables.open(name)
        if result is None:
            raise named_tables.missing_table_error(name)
        _, table = result
        view = (".".join(name[:-1]) or None, name[-1])
        folded = (view[0] and view[0].casefold(), view[1].casefold())
        first = names_by_view.setdefault(folded, name)
        if first != name:
            raise AmbiguousTableError(
                f"Cannot make views of both {name_text(first)} and {name_text(name)}: they are one name to "
                "DuckDB; attach one of them with tables=[…]",
                cause="AmbiguousName",
                options=("tables",),
            )
        plans[view] = (table.snapshot() if isinstance(table, Table) else table)._planned()
    return plans
