"""Runs lowered plans on a Spark session, the user's or one of harness's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions

from harness.engines.spark.connect import reader_of
from harness.engines.spark.executor_python import engine_error
from harness.engines.spark.lowering import lower, without_call_sites
from harness.engines.spark.session import spark_session
from harness.engines.spark.types import shown
from harness.engines.sqltext import refuse_same_names
from harness.errors import EngineError, HarnessError
from harness.metadata.model.arrow_values import child_types, children_of, is_rebuilt, nullable, with_children
from harness.metadata.model.schema import arrow_field
from harness.metadata.plan.scan_plan import ScanPlan

# Spark's Arrow output of storage types in the plan's exact types.


def conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """`rows` with the names and types of `schema`, column by column in order, whatever their own names.

    rows: what `DataFrame.toArrow` gives for columns of `types.storage_type`; a session's zone is only a label there.

    Bigint becomes a time or a timestamp in nanos, text a UUID, bytes a fixed length, at any level. Nothing is rounded.
    Every field may be null, at every level: tables hold nulls in required columns (iceberg 5.13), and Arrow wants a
    value even where a parent is null.

    Raises:
        EngineError: a value does not fit, or text is no UTF-8 (iceberg 6.11), which Spark does not check.
    """
    loose = pa.schema([f.with_type(nullable(f.type)).with_nullable(True) for f in schema])
    columns = [_column(column, f) for column, f in zip(rows.columns, loose, strict=True)]
    return pa.Table.from_arrays(columns, schema=loose)


def _column(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    try:
        chunks = [_conform(chunk, field.type) for chunk in column.chunks]
        if _has_text(field.type):
            for chunk in chunks:
                chunk.validate(full=True)
    except (pa.ArrowException, ValueError) as error:
        raise EngineError(
            f"Cannot give column {field.name} out as {field.type}: {' '.join(str(error).split())}", field=field.name
        ) from error
    return pa.chunked_array(chunks, field.type)


def _has_text(type_: pa.DataType) -> bool:
    if pa.types.is_nested(type_):
        return any(_has_text(type_.field(i).type) for i in range(type_.num_fields))
    return bool(pa.types.is_string(type_))


def _conform(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if array.type.equals(wanted):
        return array
    if is_rebuilt(wanted):
        pairs = zip(children_of(array), child_types(wanted), strict=True)
        return with_children(array, [_conform(child, type_) for child, type_ in pairs], wanted)
    if isinstance(wanted, pa.UuidType):
        return pa.ExtensionArray.from_storage(wanted, _uuid_bytes(array))
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(array.type):
        return _timestamp(array, wanted)
    return array.cast(wanted)


def _timestamp(array: pa.Array, wanted: pa.TimestampType) -> pa.Array:
    """The same number of units since 1970-01-01 where only the zone differs."""
    if array.type.unit == wanted.unit:
        return array.view(wanted)
    return array.view(pa.timestamp(array.type.unit, wanted.tz)).cast(wanted)


def _uuid_bytes(array: pa.Array) -> pa.Array:
    """The 16 bytes of each canonical text."""
    digits = pc.replace_substring(array.cast(pa.string()), "-", "").fill_null("0" * 32)
    if pc.any(pc.not_equal(pc.binary_length(digits), 32)).as_py():
        raise ValueError("a UUID does not have 32 digits")
    packed = pa.py_buffer(bytes.fromhex("".join(digits.to_pylist())))
    validity = pc.is_valid(array).buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(pa.binary(16), len(array), [validity, packed])


def dataframe(plan: ScanPlan, spark: SparkSession | None = None) -> DataFrame:
    """The plan's rows as a lazy frame of a session, whose settings stay as they are.

    Types that Spark lacks are carried by others, see `harness.engines.spark.types`.

    Args:
        plan: what to read.
        spark: the user's session, or None for one of harness's own.

    Raises:
        HarnessError: as `harness.engines.spark.lowering.lower` says.
    """
    own = spark_session() if spark is None else spark
    reader = reader_of(own)
    with _about(plan), without_call_sites():
        refuse_same_names(plan.columns, plan.table)
        rows = lower(plan, reader)
        fields = [(functions.col(f"c{i}"), shown(f)) for i, f in enumerate(plan.columns)]
        named = rows.select(*[column.alias(field.name, metadata=field.metadata) for column, field in fields])
    return reader.expose(named)


def to_arrow(plan: ScanPlan, spark: SparkSession | None = None) -> pa.Table:
    """All rows of a plan, in the exact types of its columns (`harness.metadata.model.schema.arrow_type`); row order
    is open.

    Raises:
        HarnessError: as for `dataframe`.
        EngineError: Spark failed while it ran the query.
    """
    own = spark_session() if spark is None else spark
    with _about(plan):
        frame = lower(replace(plan, bounds=None), reader_of(own))  # no filter comes later
    try:
        if not plan.columns:  # Arrow results without columns lose their rows on the way
            return pa.table({"": pa.nulls(frame.count())}).select([])
        rows = frame.toArrow()
        return conform(rows, pa.schema([arrow_field(f) for f in plan.columns]))
    except (PySparkException, Py4JError, pa.ArrowException) as error:
        raise engine_error(error, plan.table).within(format=plan.format) from error


@contextmanager
def _about(plan: ScanPlan) -> Iterator[None]:
    """Errors on the way to a query name the table and the snapshot."""
    try:
        yield
    except HarnessError as error:
        error.within(table=plan.table, snapshot=plan.snapshot, format=plan.format)
        raise
