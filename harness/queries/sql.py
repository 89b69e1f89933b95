"""`harness.sql`: SQL over tables, where the conditions in the query decide which files are read."""

from __future__ import annotations

import datetime
import itertools
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

from harness.engines.registry import Engine, find_engine
from harness.errors import HarnessError, MissingFileError, RequestError, UnsupportedError
from harness.metadata.filters.predicate import is_decided
from harness.metadata.model.arguments import validate_call
from harness.queries.inputs import Inputs, QuerySource
from harness.queries.parameters import Params, binding_error, by_name, numbered
from harness.queries.plain import Rewritten, rewrite_plain
from harness.table import Table

if TYPE_CHECKING:
    import duckdb
    from pyspark.sql import DataFrame, SparkSession

    from harness.engines.spark.transpile.queries import SparkQuery
    from harness.metadata.model.schema import Field
    from harness.metadata.planned_scan import PlannedScan

_calls = itertools.count()
_token = secrets.token_hex(8)
"""Part of generated names, so that no query contains one of them by chance."""


@overload
def sql(
    query: str,
    tables: Mapping[str, object] | None = None,
    *,
    params: Params = None,
    engine: Literal["duckdb"] = "duckdb",
    dialect: str = "duckdb",
    connection: duckdb.DuckDBPyConnection | None = None,
    spark: None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> duckdb.DuckDBPyRelation: ...


@overload
def sql(
    query: str,
    tables: Mapping[str, object] | None = None,
    *,
    params: Params = None,
    engine: Literal["spark"],
    dialect: str = "duckdb",
    connection: None = None,
    spark: SparkSession | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> DataFrame: ...


@overload
def sql(
    query: str,
    tables: Mapping[str, object] | None = None,
    *,
    params: Params = None,
    engine: str,
    dialect: str = "duckdb",
    connection: duckdb.DuckDBPyConnection | None = None,
    spark: SparkSession | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> duckdb.DuckDBPyRelation | DataFrame: ...


@validate_call
def sql(
    query: str,
    tables: Mapping[str, object] | None = None,
    *,
    params: Params = None,
    engine: str = "duckdb",
    dialect: str = "duckdb",
    connection: duckdb.DuckDBPyConnection | None = None,
    spark: SparkSession | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> duckdb.DuckDBPyRelation | DataFrame:
    """Run a query over tables and return a lazy DuckDB relation or a lazy Spark DataFrame.

        orders = harness.open_table("warehouse/orders")
        harness.sql("SELECT region, sum(total) FROM orders GROUP BY region", {"orders": orders})

    `harness.connect` gives access to all tables of a catalog by name.

    Conditions that concern one table skip its files and row groups, separately for each mention of the table. The
    engine then runs the whole query.

    Sums of integers are HUGEINT: `int` in Python, DECIMAL(38,0) in Arrow and Spark. A sum with more than 38 digits
    fails when the rows are fetched, and the error names the column. `docs/reference/result-types.md` lists all types.

    A query may read a table at several versions or times: `FROM orders AT (VERSION => 3)`, `orders AT (TIMESTAMP =>
    '2024-06-01')`, `orders VERSION AS OF 'audit'`, `orders TIMESTAMP AS OF '2024-06-01'`.

    The table function `changes` reads the changes between two moments: `FROM changes('orders', 3, 5, mode := 'net')`.
    Its arguments are literals: the name or location of a table, then the arguments of `Table.changes`.

    A query may name a table by its location, in quotes and with a slash: `FROM 'warehouse/orders'`. On DuckDB, it may
    also read a table's metadata tables: `FROM orders.snapshots`.

    On Spark, a query has the meaning, names, and types that it has on DuckDB. It is refused if Spark might answer
    differently. It runs under ANSI mode in time zone UTC, whatever the session's settings are, and sees only `tables`.
    A query in Spark's own dialect runs on Spark as written, and on DuckDB as translated by sqlglot.

    Args:
        query: A statement that only reads.
        tables: The tables by the names in the query: tables (at their current snapshots), snapshots, or locations,
            which are opened if the query names them. On DuckDB also pandas, Polars, or Arrow data frames.
        params: Values for `?`, `$1`, or `$name`: a list, or a mapping by name. The engine binds them, and planning
            skips files with them. DuckDB 1 runs such a query immediately and keeps its rows.
        engine: `duckdb`, `spark`, or an engine of another package that runs queries. An engine of another
            package takes its own dialect, reads all files, and returns an Arrow stream.
        dialect: The dialect of `query`, by sqlglot's name.
        connection: Your DuckDB connection, whose own tables the query may use, or None for a new one. Temporary objects
            are created on it, once for each plan, until `harness.detach`.
        spark: Your Spark session, or None for `harness.spark_session()`. It is not changed.
        storage_options: As for `open_table`, for tables given or named by location.

    Returns:
        The result, which runs when its rows are fetched.

    Raises:
        RequestError: The query cannot be parsed, or writes. The engine does not exist or does not run queries. An
            argument does not apply to this engine.
        UnsupportedError: Spark might answer differently than DuckDB, or a column of the result cannot leave DuckDB. The
            message names the construct or the column.
        TableNotFoundError: A name is not a table. The message has the nearest names.
        HarnessError: As for `Snapshot.plan`.
        EngineError: DuckDB rejects the query, for example because of an unknown column. `__cause__` is DuckDB's error.
            If fetching rows fails, for example because a file was removed, the error is a `duckdb.Error`
            (`docs/reference/errors.md`).
    """
    engine_ = find_engine(engine)
    _check_arguments(engine_, connection, spark)
    import duckdb

    from harness.engines.duckdb.relations import parse_error, user_tables

    query = numbered(query, dialect) if "?" in query else query
    inputs = Inputs.for_query(query, dialect, tables or {}, storage_options=storage_options)
    try:
        return _result(inputs, {} if params is None else by_name(params), dialect, engine_, connection, spark)
    except duckdb.ParserException as error:
        raise parse_error(inputs.query) or RequestError(f"Cannot parse the query: {error}") from None
    except duckdb.Error as error:
        from harness.queries import hints

        if (binding := binding_error(error)) is not None:
            raise binding from None
        is_of_name = isinstance(error, duckdb.CatalogException)
        connection_tables = user_tables(connection) if connection is not None and is_of_name else ()
        raise hints.explain_error(
            error, inputs.query, inputs.named_schemas(), connection_tables
        ) from error.with_traceback(None)


def _result(
    inputs: Inputs,
    values: Mapping[str, object],
    dialect: str,
    engine: Engine,
    connection: duckdb.DuckDBPyConnection | None,
    spark: SparkSession | None,
) -> duckdb.DuckDBPyRelation | DataFrame:
    """Return the result of a query on an engine that runs queries."""
    prefix = f"_harness_{_token}_{next(_calls)}"
    if engine.name == "duckdb":
        from harness.engines.duckdb import relations

        rewritten = None
        if dialect == "duckdb":
            rewritten = rewrite_plain(inputs.query, inputs.schemas, prefix=prefix, connection=connection)
        if rewritten is None:
            rewritten = _rewriting(inputs, dialect, prefix)(
                now=partial(relations.transaction_start, connection), values=values
            )
        aliased = {reference.view for reference in rewritten.references if reference.aliased}
        read, originals = inputs.read(rewritten, connection), rewritten.originals
        return relations.query(
            rewritten.sql, read, connection, aliased=aliased, originals=originals, parameters=values or None
        )
    rewrite = _rewriting(inputs, dialect, prefix)
    if engine.name != "spark":
        assert engine.query is not None, "checked before"
        if values:
            raise RequestError(
                f"Cannot bind values on {engine.name}: only DuckDB and Spark support values",
                options=("params", "engine"),
            )
        if engine.dialect != dialect:
            raise RequestError(
                f"Cannot run a query in the dialect {dialect} on {engine.name}: it accepts "
                f"{engine.dialect or 'no dialect'}",
                options=("dialect",),
            )
        # Filters written in the dialect of another package cannot be evaluated here, so no file is skipped.
        rewritten = rewrite(into=dialect)
        unfiltered = replace(rewritten, references=tuple(replace(r, where=None) for r in rewritten.references))
        result: Any = engine.query(rewritten.sql, inputs.plans(unfiltered))
        return result  # type: ignore[no-any-return]
    from harness.engines.spark.engine import query as run_on_spark

    if dialect == "spark":
        spark_query = rewrite(into="spark", now=_current_time)
        # Decided filters have the same meaning in both dialects.
        decided = (
            r.where if r.where is not None and is_decided(r.where.predicate) else None for r in spark_query.references
        )
        references = tuple(replace(r, where=where) for r, where in zip(spark_query.references, decided, strict=True))
        rewritten = replace(spark_query, references=references)
        return run_on_spark(rewritten.sql, inputs.plans(rewritten), spark, parameters=values)
    rewritten = rewrite(now=_current_time, values=values)
    plans = inputs.plans(rewritten)
    lowered, columns = _transpiled(rewritten, values, plans, engine.version())
    return run_on_spark(lowered.sql, plans, spark, columns=columns, parameters=lowered.parameters)


def _rewriting(inputs: Inputs, dialect: str, prefix: str) -> Callable[..., Rewritten]:
    """Return `rewrite` with the arguments for this query filled in. The caller adds the remaining arguments."""
    from harness.queries.rewrite import rewrite

    return partial(rewrite, inputs.query, inputs.schemas, dialect, prefix=prefix, metadata=inputs.metadata.columns)


def _current_time() -> datetime.datetime:
    """Return the current time in UTC without a zone. Every run of the query on Spark happens later."""
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


def missing_file(error: Exception, tables: Mapping[str, Table | QuerySource]) -> MissingFileError | None:
    """Return the error for a file that was removed after a query was planned, or None if no file is missing.

    Args:
        error: DuckDB's error from a relation that `sql` returned, or pyarrow's error from a stream of the relation.
        tables: The tables of the query.
    """
    return next(
        (translated for translated in _translations(error, tables) if isinstance(translated, MissingFileError)), None
    )


def instance_error(error: Exception, tables: Mapping[str, Table | QuerySource]) -> HarnessError | None:
    """Return the error for a failed DuckDB instance. It names the file that caused it if the file belongs to `tables`.

    Args:
        error: DuckDB's internal or fatal error.
        tables: The tables of the query. If there are none, the result is None.
    """
    translated: HarnessError | None = None
    for translated in _translations(error, tables):
        if translated.file is not None:
            return translated
    return translated


def _translations(error: Exception, tables: Mapping[str, Table | QuerySource]) -> Iterator[HarnessError]:
    """Yield the harness error for DuckDB's error, once for each table, as if that table had caused it."""
    from harness.engines.duckdb.failures import engine_error

    for value in tables.values():
        source = value.snapshot() if isinstance(value, Table) else value
        try:
            with source._reading():
                raise engine_error(error, source._planned())
        except HarnessError as translated:
            yield translated


def _check_arguments(engine: Engine, connection: duckdb.DuckDBPyConnection | None, spark: SparkSession | None) -> None:
    if engine.query is None:
        raise RequestError(
            f"Cannot run a query on {engine.name}: it only reads plans; use engine='duckdb' or 'spark'",
            options=("engine",),
        )
    for option, value, owner, words in (
        ("connection", connection, "duckdb", "a DuckDB connection"),
        ("spark", spark, "spark", "a Spark session"),
    ):
        if engine.name != owner and value is not None:
            raise RequestError(
                f"Cannot use {words} on {engine.name}: leave {option} out, or use engine='{owner}'",
                options=(option, "engine"),
            )


def _transpiled(
    rewritten: Rewritten, values: Mapping[str, Any], plans: Mapping[str, PlannedScan], version: str
) -> tuple[SparkQuery, tuple[Field, ...]]:
    """Translate a query from DuckDB's dialect to Spark's. Return the query and the columns of its result.

    DuckDB describes the result first, so it rejects invalid queries.

    Args:
        rewritten: The query.
        values: Values of parameters by name.
        plans: The tables that the query reads, by name.
        version: The version of Spark.
    """
    from harness.engines.duckdb.relations import query_columns, syntax_trees
    from harness.engines.spark.transpile import agreement, queries

    described = query_columns(rewritten.sql, plans, rewritten.originals, parameters=values or None)
    try:
        lowered = queries.query(
            rewritten.sql, {view: {f.name: f.type for f in plan.columns} for view, plan in plans.items()}, values
        )
        difference = agreement.misreading(*syntax_trees(rewritten.sql, lowered.written_back))
        if difference is not None:
            part = rewritten.as_written(difference.part(rewritten.sql))
            raise UnsupportedError(
                f"Cannot run the query on Spark: Spark reads the part that begins with {part[:60]!r} differently than "
                "DuckDB; rewrite that part, or run the query on DuckDB",
                options=("engine",),
            )
        columns = agreement.result_columns(lowered, described)
    except UnsupportedError as error:  # the message shows the query with generated table names
        for reference in rewritten.references:
            error.message = error.message.replace(reference.view, reference.table)
        raise
    for construct, since in lowered.needs.items():
        if tuple(int(part) for part in version.split(".")[:2]) < since:
            raise UnsupportedError(
                f"Cannot run {construct} on Spark {version}: it requires Spark {since[0]}.{since[1]}; run the query on "
                "DuckDB",
                options=("engine",),
            )
    return lowered, columns
