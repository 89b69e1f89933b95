"""SQL over tables: the text's own conditions decide which files are read."""

from __future__ import annotations

import datetime
import itertools
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from harness.arguments import checked
from harness.engines.registry import Engine, QueryEngine, duckdb_engine, find_engine, spark_engine
from harness.errors import HarnessError, MissingFileError, RequestError, UnsupportedError
from harness.metadata.filters.predicate import is_decided
from harness.metadata.model.schema import Field, OpaqueType, Schema
from harness.metadata.plan.scan_plan import ScanPlan
from harness.metadata.tables.reading import is_metadata_table
from harness.snapshot import Snapshot, reading
from harness.storage.records import dataclass
from harness.table import Table, open_table

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from harness.metadata.tables.reading import MetadataTable
    from harness.queries.plain import Rewritten, TableReference

_calls = itertools.count()
_token = secrets.token_hex(8)
"""Keeps a query from holding a made-up name by chance."""


@overload
def sql(
    query: str,
    /,
    *,
    engine: Literal["duckdb"] = "duckdb",
    dialect: str = "duckdb",
    connection: duckdb.DuckDBPyConnection | None = None,
    spark: None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache_dir: str | None = None,
    **tables: Table | Snapshot | str,
) -> duckdb.DuckDBPyRelation: ...


@overload
def sql(
    query: str,
    /,
    *,
    engine: Literal["spark"],
    dialect: str = "duckdb",
    connection: None = None,
    spark: SparkSession | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache_dir: str | None = None,
    **tables: Table | Snapshot | str,
) -> DataFrame: ...


@overload
def sql(
    query: str,
    /,
    *,
    engine: str,
    dialect: str = "duckdb",
    connection: duckdb.DuckDBPyConnection | None = None,
    spark: SparkSession | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache_dir: str | None = None,
    **tables: Table | Snapshot | str,
) -> duckdb.DuckDBPyRelation | DataFrame: ...


@checked
def sql(
    query: str,
    /,
    *,
    engine: str = "duckdb",
    dialect: str = "duckdb",
    connection: duckdb.DuckDBPyConnection | None = None,
    spark: SparkSession | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache_dir: str | None = None,
    **tables: Table | Snapshot | str,
) -> duckdb.DuckDBPyRelation | DataFrame:
    """The result of a query over tables, as a lazy DuckDB relation or a lazy Spark DataFrame.

        harness.sql("SELECT region, sum(total) FROM orders WHERE day >= '2024-06-01' GROUP BY region", orders=table)

    `harness.connect` has all tables of catalogs by their names.

    The conditions that concern one table reach its planning, so that files and row groups are skipped; the whole query
    then runs on the engine. Each mention of a table is planned by itself.

    Columns of types that only DuckDB reads leave in another one: sums of integers, which are HUGEINT, as DECIMAL(38,0).
    An integer of more digits fails with an error that names the column, once the rows are asked for.
    `docs/reference/result-types.md` shows all types.

    A table may be read at moments that the query names, at several in one query: `FROM orders AT (VERSION => 3)`,
    `orders AT (TIMESTAMP => '2024-06-01')`, `orders VERSION AS OF 'audit'`, `orders TIMESTAMP AS OF '2024-06-01'`.

    Behind a table's name stand its metadata tables, as `Snapshot.metadata` gives them, on DuckDB only:
    `SELECT * FROM orders.snapshots`.

    On Spark a query means what it means on DuckDB, and its columns have the names and types that they have there; what
    Spark might answer differently is refused (`harness.queries.transpile` says what it knows). It runs under ANSI
    mode, in time zone UTC, whatever the session's settings are, and sees only `tables`. A query in Spark's own dialect
    is run by Spark as it is written, and on DuckDB as sqlglot translates it.

    Args:
        query: one statement that only reads.
        engine: who runs it: `duckdb`, `spark`, or an engine of another package that takes queries. Such an engine takes
            them in its own dialect, reads all files, and gives an Arrow stream.
        dialect: sqlglot's name of the dialect of `query`.
        connection: your DuckDB connection, so that its own tables can be named too, or None for a new one. What is
            put on it is temporary, stands there once however often the same plan is read, and goes with
            `harness.release`.
        spark: your Spark session, or None for `harness.spark_session()`. Nothing of it is changed.
        storage_options, cache_dir: as for `open_table`, for those of `tables` that are locations.
        tables: what the names in the query stand for: a table (at its current snapshot), a snapshot, or a location,
            which is opened if the query names it.

    Raises:
        RequestError: the query cannot be parsed, or writes; there is no such engine, or none
            for queries; an argument is for the other one.
        UnsupportedError: Spark might answer differently than DuckDB; the message names the construct. Or a column of
            the result cannot leave DuckDB; the message names it.
        HarnessError: as for `Snapshot.plan`.
        duckdb.Error: DuckDB refuses the query, such as for an unknown column. It is raised too by what fails once the
            rows are fetched, such as for a file that is gone by now (`docs/reference/errors.md`).
    """
    return run_query(
        query,
        tables,
        engine=engine,
        dialect=dialect,
        connection=connection,
        spark=spark,
        storage_options=storage_options,
        cache_dir=cache_dir,
    )


def run_query(
    query: str,
    tables: Mapping[str, Table | Snapshot | str],
    *,
    engine: str = "duckdb",
    dialect: str = "duckdb",
    connection: duckdb.DuckDBPyConnection | None = None,
    spark: SparkSession | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache_dir: str | None = None,
) -> duckdb.DuckDBPyRelation | DataFrame:
    """Runs `sql` on tables of any names: `sql` takes its own options for no table."""
    name = find_engine(engine).name
    _check_arguments(name, connection, spark)
    _check_tables(tables)
    snapshots = _OnDemand(tables, lambda name: _snapshot(tables[name], storage_options, cache_dir))
    fixed = {name for name, value in tables.items() if isinstance(value, Snapshot)}
    query, moments = _at_moments(query, dialect, snapshots, fixed)
    snapshots = snapshots.also(moments)
    schemas = _OnDemand(snapshots, lambda name: snapshots[name].schema)
    prefix = f"_harness_{_token}_{next(_calls)}"
    metadata = MetadataTables(snapshots)
    if name == "duckdb":
        moment = partial(duckdb_engine().moment, connection)
        rewritten = _rewritten(query, schemas, dialect, prefix, metadata.columns, moment)
        aliased = {reference.view for reference in rewritten.references if reference.aliased}
        read = _read(rewritten, snapshots, metadata, connection)
        return duckdb_engine().query(rewritten.sql, read, connection, aliased=aliased, originals=rewritten.originals)
    from harness.queries.rewrite import rewrite

    if name != "spark":
        other = _in_its_dialect(find_engine(name), dialect)
        rewritten = rewrite(query, schemas, dialect, into=dialect, prefix=prefix, metadata=metadata.columns)
        unfiltered = replace(rewritten, references=tuple(replace(r, where=None) for r in rewritten.references))
        result: Any = other.query(rewritten.sql, _plans(unfiltered, snapshots))
        return result  # type: ignore[no-any-return]
    if dialect == "spark":
        own = rewrite(query, schemas, dialect, into="spark", prefix=prefix, metadata=metadata.columns, now=_present)
        rewritten = _certain(own)
        return spark_engine().query(rewritten.sql, _plans(rewritten, snapshots), spark)
    rewritten = rewrite(query, schemas, dialect, prefix=prefix, metadata=metadata.columns, now=_present)
    return _transpiled(rewritten, snapshots, spark)


def _present() -> datetime.datetime:
    """The present in UTC, without a zone: no run of a query on Spark has an earlier moment."""
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


@checked
def release(connection: duckdb.DuckDBPyConnection) -> None:
    """Take away what harness has left on your DuckDB connection: tables of deletes and constants, and names of files.

    Reads leave such things because a relation is lazy: it, and whatever you derive from it, looks them up each time
    that it runs. So release when you have the rows; relations that were made before can then not be run any more. Views
    that you named, or made of such relations, stay with all that they need; those of `harness.attach` go.
    """
    duckdb_engine().release(connection)


def missing_file(error: Exception, tables: Mapping[str, Table | Snapshot]) -> MissingFileError | None:
    """The error about a file that is gone since a query on `tables` was planned; None: none of theirs is.

    error: DuckDB's, from a relation that `sql` gave, or pyarrow's from a stream of one.
    """
    for value in tables.values():
        snapshot = _snapshot(value)
        try:
            with reading(snapshot.source, snapshot.selection.snapshot):
                found = duckdb_engine().engine_error(error, snapshot.plan())
                if isinstance(found, MissingFileError):
                    raise found
        except MissingFileError as gone:
            return gone
        except HarnessError:  # of a table that cannot be planned any more; `error` is what there is to say
            continue
    return None


def given_up(error: Exception, tables: Mapping[str, Table | Snapshot]) -> HarnessError | None:
    """The error where DuckDB gave up its instance, with the file that did it if it is one of `tables`.

    error: DuckDB's internal or fatal one. None: no table was read.
    """
    found: HarnessError | None = None
    for value in tables.values():
        snapshot = _snapshot(value)
        try:
            with reading(snapshot.source, snapshot.selection.snapshot):
                found = duckdb_engine().engine_error(error, snapshot.plan())
        except HarnessError as gone:
            found = gone
        if found.file is not None:
            return found
    return found


def _check_arguments(engine: str, connection: duckdb.DuckDBPyConnection | None, spark: SparkSession | None) -> None:
    if not hasattr(find_engine(engine), "query"):
        raise RequestError(
            f"Cannot run a query on {engine}: it only reads plans; say engine='duckdb' or 'spark'", options=("engine",)
        )
    if engine != "duckdb" and connection is not None:
        raise RequestError(
            f"Cannot use a DuckDB connection on {engine}: leave connection out, or say engine='duckdb'",
            options=("connection", "engine"),
        )
    if engine != "spark" and spark is not None:
        raise RequestError(
            f"Cannot use a Spark session on {engine}: leave spark out, or say engine='spark'",
            options=("spark", "engine"),
        )


def _in_its_dialect(engine: Engine, dialect: str) -> QueryEngine:
    """An engine of another package. Nobody knows what its conditions mean elsewhere: it reads all files.

    Raises:
        RequestError: it takes no queries in this dialect.
    """
    if not isinstance(engine, QueryEngine) or engine.dialect != dialect:
        takes = getattr(engine, "dialect", "none")
        raise RequestError(
            f"Cannot run a query in the dialect {dialect} on {engine.name}: it takes {takes}", options=("dialect",)
        )
    return engine


def _check_tables(tables: Mapping[str, object]) -> None:
    for name, value in tables.items():
        if not isinstance(value, Snapshot | Table | str) and not _is_opened_elsewhere(value):
            raise RequestError(f"Invalid table {name!r}: expected a table, a snapshot or a location, got {value!r}")


def _is_opened_elsewhere(value: object) -> bool:
    """True for a table of another library. Local tables need no catalogs, so they are imported here."""
    from harness.metadata.catalogs.resolving import is_table

    return is_table(value)


def _snapshot(
    value: Table | Snapshot | str, options: Mapping[str, Any] | None = None, cache_dir: str | None = None
) -> Snapshot:
    match value:
        case Snapshot():
            return value
        case Table():
            return value.snapshot()
        case str():
            return open_table(value, storage_options=options, cache_dir=cache_dir).snapshot()
        case of_catalog:
            return open_table(of_catalog, cache_dir=cache_dir).snapshot()


_T = TypeVar("_T")


class _OnDemand(Mapping[str, _T]):
    """Values made when they are first asked for: a query names some of the tables that it is given."""

    def __init__(self, names: Iterable[str], make: Callable[[str], _T], made: Mapping[str, _T] | None = None) -> None:
        self._make, self._made = make, dict(made or {})
        self._names = dict.fromkeys((*names, *self._made))

    def also(self, values: Mapping[str, _T]) -> _OnDemand[_T]:
        """The same and other values."""
        return _OnDemand(self._names, self._make, {**self._made, **values})

    def __getitem__(self, name: str) -> _T:
        if name not in self._made:
            if name not in self._names:
                raise KeyError(name)
            self._made[name] = self._make(name)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _at_moments(
    query: str, dialect: str, snapshots: Mapping[str, Snapshot], fixed: Collection[str]
) -> tuple[str, dict[str, Snapshot]]:
    """The query without the moments of tables that it names, and the tables at these moments by their new names.

    fixed: names of tables that are snapshots already.
    """
    from harness.queries.plain import may_name_moments

    if not may_name_moments(query):
        return query, {}
    from harness.queries.rewrite import bound_name, parse_statement
    from harness.queries.time_travel import pin

    def key(name: tuple[str, ...]) -> str | None:
        table = bound_name(name[0], snapshots) if len(name) == 1 else None
        return None if table in fixed else table

    pinned = pin(parse_statement(query, dialect), lambda name: key(name) is not None)
    if pinned is None:
        return query, {}
    moments: dict[str, Snapshot] = {}
    for alias, (name, moment) in pinned.moments.items():
        source = snapshots[str(key(name))].source
        moments[alias] = Table(source).snapshot(**moment.selector(source.format))
    return pinned.query, moments


def planned(
    reference: TableReference, snapshot: Snapshot, connection: duckdb.DuckDBPyConnection | None = None
) -> ScanPlan:
    """The plan of a table in one place of a query.

    connection: the user's, that the query runs on; None: one in UTC, or Spark.

    Raises HarnessError: as for `Snapshot.plan`.
    """
    where = reference.where
    if where is not None and connection is not None:
        where = duckdb_engine().zoned(where, connection)
    return replace(snapshot.plan(columns=reference.columns, where=where), enough=reference.enough)


@dataclass(frozen=True, slots=True)
class MetadataTables:
    """The metadata tables that a query names, each opened once."""

    snapshots: Mapping[str, Snapshot]
    _opened: dict[tuple[str, str], MetadataTable] = field(default_factory=dict)

    def columns(self, table: str, name: str) -> Schema | None:
        """The columns of a metadata table of `table`; None: it has none of that name."""
        snapshot = self.snapshots[table]
        if not is_metadata_table(snapshot.source.format, name):
            return None
        found = self._opened[table, name] = snapshot.metadata_table(name)
        return Schema(
            fields=tuple(Field(id=i, name=n, type=OpaqueType("metadata")) for i, n in enumerate(found.schema.names))
        )

    def read(self, reference: TableReference) -> pa.Table:
        """The metadata table that a query reads in this place."""
        found = self._opened[reference.table, str(reference.metadata)]
        # Rows are counted by some column.
        names = None if reference.columns is None else reference.columns or found.schema.names[:1]
        snapshot = self.snapshots[reference.table]
        with reading(snapshot.source, snapshot.selection.snapshot):
            return found.to_arrow(names)


def _rewritten(
    query: str,
    schemas: Mapping[str, Schema],
    dialect: str,
    prefix: str,
    metadata: Callable[[str, str], Schema | None],
    now: Callable[[], datetime.datetime],
) -> Rewritten:
    if dialect == "duckdb":
        from harness.queries.plain import rewrite_plain

        plain = rewrite_plain(query, schemas, prefix=prefix)
        if plain is not None:
            return plain
    from harness.queries.rewrite import rewrite

    return rewrite(query, schemas, dialect, prefix=prefix, metadata=metadata, now=now)


def _read(
    rewritten: Rewritten,
    snapshots: Mapping[str, Snapshot],
    metadata: MetadataTables,
    connection: duckdb.DuckDBPyConnection | None,
) -> dict[str, ScanPlan | pa.Table]:
    """Plans of tables, and metadata tables themselves, by the names of their views."""
    tables = {r.view: metadata.read(r) for r in rewritten.references if r.metadata is not None}
    plans = {r.view: planned(r, snapshots[r.table], connection) for r in rewritten.references if r.metadata is None}
    return {**plans, **tables}


def _plans(rewritten: Rewritten, snapshots: Mapping[str, Snapshot]) -> dict[str, ScanPlan]:
    for reference in rewritten.references:
        if reference.metadata is not None:
            raise RequestError(
                f"Cannot read {reference.table}.{reference.metadata} on Spark: DuckDB reads metadata tables; say "
                "engine='duckdb'",
                options=("engine",),
            )
    return {reference.view: planned(reference, snapshots[reference.table]) for reference in rewritten.references}


def _certain(rewritten: Rewritten) -> Rewritten:
    """The query with only those filters for planning that mean the same in both dialects."""
    return replace(
        rewritten,
        references=tuple(
            r if r.where is None or is_decided(r.where.predicate) else replace(r, where=None)
            for r in rewritten.references
        ),
    )


def _transpiled(rewritten: Rewritten, snapshots: Mapping[str, Snapshot], spark: SparkSession | None) -> DataFrame:
    """A query in DuckDB's dialect, on Spark. DuckDB describes its result first, and so refuses what it would refuse."""
    from harness.queries.transpile import agreement, queries

    plans = _plans(rewritten, snapshots)
    described = duckdb_engine().columns_of(rewritten.sql, plans, rewritten.originals)
    try:
        lowered = queries.query(
            rewritten.sql, {view: {f.name: f.type for f in plan.columns} for view, plan in plans.items()}
        )
        _refuse_misread(rewritten, *duckdb_engine().syntax_trees(rewritten.sql, lowered.written_back))
        columns = agreement.result_columns(lowered, described)
    except UnsupportedError as error:  # shows the query, in which the user's tables have names of their own
        for reference in rewritten.references:
            error.message = error.message.replace(reference.view, reference.table)
        raise
    _check_version(lowered.needs)
    return spark_engine().query(lowered.sql, plans, spark, columns=columns)


def _refuse_misread(rewritten: Rewritten, tree: str, written_back: str) -> None:
    """Raises UnsupportedError: sqlglot, whose reading Spark gets, takes the query for another one than DuckDB."""
    from harness.queries.transpile.agreement import misreading

    found = misreading(tree, written_back)
    if found is not None:
        part = rewritten.as_written(found.part(rewritten.sql))
        raise UnsupportedError(
            f"Cannot run it on Spark: what begins with {part[:60]!r} is not read as DuckDB reads it; write it in "
            "other words, or run it on DuckDB",
            options=("engine",),
        )


def _check_version(needs: Mapping[str, tuple[int, int]]) -> None:
    version = spark_engine().version()
    for construct, since in needs.items():
        if tuple(int(part) for part in version.split(".")[:2]) < since:
            raise UnsupportedError(
                f"Cannot run {construct} on Spark {version}: it came with {since[0]}.{since[1]}; run it on DuckDB",
                options=("engine",),
            )
