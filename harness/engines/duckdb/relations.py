"""Runs lowered plans on a DuckDB connection, the user's or one of harness's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from harness.engines import sqltext
from harness.engines.duckdb.failures import engine_error
from harness.engines.duckdb.instance import cursor
from harness.engines.duckdb.lowering import Use, lower, named, numbered
from harness.engines.duckdb.registrations import Registrations, registrar
from harness.engines.sqltext import refuse_same_names
from harness.errors import HarnessError, RequestError
from harness.metadata.filters.predicate import Filter, depends_on_zone, in_any_zone
from harness.metadata.model.arrow_values import child_types, children_of, is_rebuilt, nullable, with_children
from harness.metadata.model.schema import StringType, arrow_field, walk
from harness.metadata.plan.scan_plan import ScanPlan

# DuckDB's Arrow output in the plan's exact types.


def conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """`rows` with the names of `schema` and its types as `conformed` has them, column by column in order.

    DuckDB's lossless Arrow output has its own booleans (bytes) and UUIDs (an extension type); both are unwrapped at any
    level. Nothing is rounded: a value that does not fit raises pyarrow.ArrowInvalid.
    """
    loose = conformed(schema)
    columns = [
        pa.chunked_array([_conform(chunk, f.type) for chunk in column.chunks], f.type)
        for column, f in zip(rows.columns, loose, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=loose)


def conformed(schema: pa.Schema) -> pa.Schema:
    """`schema` with fields that may all be null, at every level.

    Tables hold nulls in required columns (iceberg 5.13), and Arrow wants a value even where a parent is null.
    """
    return pa.schema([f.with_type(nullable(f.type)).with_nullable(True) for f in schema])


def conform_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch as `conform` gives its rows; `schema`: from `conformed`. Without fields, rows are still counted."""
    if not len(schema):
        return batch.select([])
    columns = [_conform(column, f.type) for column, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _conform(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if array.type.equals(wanted):
        return array
    if pa.types.is_null(wanted) and array.null_count == len(array):
        return pa.nulls(len(array))  # DuckDB 1.5 hands out nulls without a type as int32, which no cast undoes
    if isinstance(array.type, pa.BaseExtensionType):
        return _conform(array.storage, wanted)
    if isinstance(wanted, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(wanted, _conform(array, wanted.storage_type))
    if pa.types.is_boolean(wanted) and pa.types.is_int8(array.type):
        return array.cast(pa.bool_())
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(array.type):
        if array.type.tz is not None and wanted.tz is not None:
            return array.cast(wanted)
        return array.cast(pa.timestamp(array.type.unit)).cast(pa.timestamp(wanted.unit)).cast(wanted)
    if is_rebuilt(wanted):
        pairs = zip(children_of(array), child_types(wanted), strict=True)
        return with_children(array, [_conform(child, type_) for child, type_ in pairs], wanted)
    return array.cast(wanted)


def relation(
    plan: ScanPlan, connection: duckdb.DuckDBPyConnection | None = None, *, name: str | None = None
) -> duckdb.DuckDBPyRelation:
    """The plan's rows as a lazy relation.

    Args:
        plan: what to read.
        connection: the user's; None: one of harness's own.
        name: also make the rows a temporary view of this name.

    Raises:
        HarnessError: as `harness.engines.duckdb.lowering.lower` says.
    """
    own = cursor(lossless=False) if connection is None else connection
    with about(plan):
        if name is None:
            add = registrar(own) if connection is None else Registrations(own).table
            return own.sql(lowered(plan, own, add, Use.VIEW))
        register(plan, own, name)
        return own.sql(f"SELECT * FROM {sqltext.name(name)}")


def register(plan: ScanPlan, connection: duckdb.DuckDBPyConnection, name: str, *, use: Use = Use.VIEW) -> None:
    """Makes the plan's rows the temporary view `name` of a connection, replacing a view of that name.

    Raises:
        HarnessError: as for `relation`.
    """
    with about(plan):
        query = lowered(plan, connection, Registrations(connection).table, use)
        connection.execute(f"CREATE OR REPLACE TEMPORARY VIEW {sqltext.name(name)} AS {query}")


def to_arrow(plan: ScanPlan) -> pa.Table:
    """All rows of a plan, in the exact types of its columns (`harness.metadata.model.schema.arrow_type`); row order
    is open.

    Raises:
        HarnessError: as for `relation`.
        CorruptFileError: DuckDB could not decode a data file.
        EngineError: DuckDB failed otherwise while it ran the query.
    """
    connection = cursor()
    with about(plan):
        query = numbered(lower(plan, connection, registrar(connection), Use.ONCE), plan)
        # `pa.table` asks whether it is a frame of pandas, which imports pandas: 0.2 s of the first read
        rows = pa.RecordBatchReader.from_stream(connection.sql(query)).read_all()
        return conform(rows, pa.schema([arrow_field(f) for f in plan.columns])) if plan.columns else rows.select([])


def lowered(
    plan: ScanPlan, connection: duckdb.DuckDBPyConnection, register: Callable[[pa.Table], str], use: Use
) -> str:
    """The query of a plan, its columns under their own names.

    register: as for `harness.engines.duckdb.lowering.lower`.

    Raises:
        HarnessError: as for `relation`.
    """
    with about(plan):
        refuse_same_names(plan.columns, plan.table)
        _check_time_zone(plan, connection)
        _check_collation(plan, connection)
        return named(lower(plan, connection, register, use), plan)


@contextmanager
def about(plan: ScanPlan) -> Iterator[None]:
    """Errors on the way to the rows are harness's, and name the table and the snapshot."""
    try:
        yield
    except HarnessError as error:
        error.within(table=plan.table, snapshot=plan.snapshot, format=plan.format)
        raise
    except (duckdb.Error, pa.ArrowException, OSError, OverflowError, UnicodeError) as error:
        raise engine_error(error, plan).within(format=plan.format) from error


def zoned(filter_: Filter, connection: duckdb.DuckDBPyConnection | None) -> Filter:
    """The filter for planning a read on a connection, which reads its text in the session's time zone (iceberg 11.10).

    connection: the user's; None: one of harness's own, in UTC.
    """
    if connection is None or filter_.any_zone or not depends_on_zone(filter_):
        return filter_
    ((zone,),) = connection.execute("SELECT current_setting('TimeZone')").fetchall()
    return filter_ if zone in ("UTC", "Etc/UTC", "GMT", "Etc/GMT") else in_any_zone(filter_)


def _check_time_zone(plan: ScanPlan, connection: duckdb.DuckDBPyConnection) -> None:
    """A plan that was made for another zone may lack files."""
    if plan.filter is not None and zoned(plan.filter, connection) is not plan.filter:
        raise RequestError(
            "Cannot filter instants on a connection whose time zone is not UTC, by a plan that was made for UTC: plan "
            "the filter for the connection",
            table=plan.table,
        )


def _check_collation(plan: ScanPlan, connection: duckdb.DuckDBPyConnection) -> None:
    """Planning skips files by the bytes of text; the connection must compare text in the same way (iceberg 3.3)."""
    if plan.filter is None or not any(isinstance(f.type, StringType) for _, f in walk(plan.filter.columns)):
        return
    ((collation,),) = connection.execute("SELECT current_setting('default_collation')").fetchall()
    if collation.upper() not in ("", "C", "POSIX", "BINARY"):
        raise RequestError(
            f"Cannot filter text on a connection with default collation {collation!r}: "
            "run RESET default_collation on it first",
            table=plan.table,
        )
