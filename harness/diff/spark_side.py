"""A side whose rows Spark reads: a DataFrame of any session, or a planned table."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, assert_never

import duckdb
import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql import types as spark

from harness.diff import hashing as forms
from harness.diff.hashing import NULL, SEEDS, Lane, both_lanes, has_expected_hashes, incomparable_error, to_duckdb_types
from harness.diff.result import SideInfo
from harness.diff.schemas import nanos
from harness.diff.sides import (
    BITS,
    MOST_REPEATED,
    Buckets,
    DuckDBSide,
    Hashing,
    Sums,
    WantedRows,
    narrow_side_rows,
    with_hashes,
    with_types,
)
from harness.engines.spark.arrow_scan import SINGLE
from harness.engines.spark.connect import reader_of
from harness.engines.spark.engine import conform
from harness.engines.spark.executor_python import engine_error, prepare
from harness.engines.spark.gateway import Gateway, has_gateway
from harness.engines.spark.lowering import lower
from harness.engines.spark.session import spark_session
from harness.engines.spark.types import ARROW_METADATA
from harness.errors import EngineError
from harness.metadata.model.schema import arrow_field
from harness.metadata.planned_scan import PlannedScan

_CLASS = "RowHash"
_DIGITS = {forms.Digits.NARROW: 0, forms.Digits.WIDE: 1, forms.Digits.SPLIT: 2}


@dataclass(frozen=True, slots=True)
class SparkValue:
    """A column to hash.

    Attributes:
        column: The column.
        stored: Its Spark type.
        logical: Its meaning; a long may represent a time.
        form: The hash form.
    """

    column: Column
    stored: spark.DataType
    logical: pa.DataType
    form: forms.HashForm


def _hash(value: SparkValue, lane: Lane, gateway: Gateway) -> Column:
    if isinstance(value.stored, spark.NullType) or value.form is forms.Simple.NOTHING:
        return _constant(NULL)
    return functions.coalesce(_non_null_hash(value, lane, gateway), _constant(NULL))


def _non_null_hash(value: SparkValue, lane: Lane, gateway: Gateway) -> Column:
    match value.form, value.stored:
        case forms.Simple.WHOLE, _:
            return _call(gateway, "whole", value.column)
        case forms.Ticks(split=False), _ if _divisor(value.stored, value.logical) == 1:
            return _call(gateway, "whole", value.column)
        case forms.Simple.FLOAT, _:
            return _call(gateway, "real", value.column)
        case forms.Simple.BYTES, spark.StringType() | spark.BinaryType() if not _is_uuid(value.logical):
            return _call(gateway, "secondOfBytes" if lane else "firstOfBytes", value.column)
        case forms.Number(scale=scale, digits=forms.Digits.NARROW), spark.DecimalType():
            return _call(gateway, "narrow", value.column, functions.lit(scale))
        case _:
            text = f"{value.stored.json()}\n{_describe_value(value.form, value.stored, value.logical)}"
            return _call(gateway, "of", value.column, functions.lit(text), functions.lit(lane))


def _describe_value(form: forms.HashForm, stored: spark.DataType, logical: pa.DataType) -> str:
    """Return the description of a value that the Java class `RowHash` parses."""
    if isinstance(stored, spark.NullType):
        return "N"
    match form:
        case forms.Simple.NOTHING:
            return "N"
        case forms.Simple.WHOLE:
            return "W"
        case forms.Simple.FLOAT:
            return "F"
        case forms.Number(scale=scale, digits=digits):
            return f"D{scale},{_DIGITS[digits]};"
        case forms.Ticks(base=base, split=split):
            return f"T{_divisor(stored, logical)},{base // nanos(logical) if split else 0};"
        case forms.Simple.BYTES:
            return "U" if _is_uuid(logical) else "B" if isinstance(stored, spark.BinaryType) else "S"
        case forms.Items(element=element):
            assert isinstance(stored, spark.ArrayType)
            return f"[{_describe_value(element, stored.elementType, logical.value_type)}"
        case forms.Entries(key=key, value=item):
            assert isinstance(stored, spark.MapType)
            keys = _describe_value(key, stored.keyType, logical.key_type)
            return f"<{keys}{_describe_value(item, stored.valueType, logical.item_type)}"
        case forms.StructFields(fields=fields):
            assert isinstance(stored, spark.StructType)
            places = [(logical.get_field_index(name), part) for name, part in fields]
            texts = [
                f"{place};{_describe_value(part, stored.fields[place].dataType, logical.field(place).type)}"
                for place, part in places
            ]
            return "{" + "".join(texts) + "}"
        case other:
            assert_never(other)


def _divisor(stored: spark.DataType, logical: pa.DataType) -> int:
    """Return the number of Spark units in one logical unit. Spark's own time type always counts nanoseconds."""
    return nanos(logical) if stored.typeName() == "time" else 1


def _is_uuid(logical: pa.DataType) -> bool:
    return isinstance(logical, pa.UuidType)


def _constant(word: int) -> Column:
    return functions.lit(word - (1 << 64) if word >> 63 else word).cast("bigint")


def _call(gateway: Gateway, method: str, *arguments: Column) -> Column:
    return gateway.invoke(_CLASS, method, spark.LongType(), *arguments)


def hash_with_duckdb(frame: DataFrame, schema: pa.Schema, hashing: Hashing, *, keep: bool) -> DataFrame:
    """Return the hashes of each row as bigints, with the columns before them if `keep` is set.

    DuckDB computes the hashes on the executors, for sessions whose JVM cannot be reached, as with Spark Connect. This
    is several times slower than Java, and the executors need harness and DuckDB.

    Args:
        frame: The rows.
        schema: The logical types of the columns, by position.
        hashing: The hashes to compute.
        keep: If True, keep the columns.
    """
    prepare(frame.sparkSession)
    column_count = len(frame.schema.fields) if keep else 0
    fields = [
        *frame.schema.fields[:column_count],
        *(spark.StructField(name, spark.LongType()) for name in hashing.names),
    ]

    def hash_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        connection = duckdb.connect(config={"threads": 1})  # one thread, so that DuckDB keeps the order of the rows
        for batch in batches:
            connection.register("batch", to_duckdb_types(pa.Table.from_batches([batch])))
            side = DuckDBSide(info=_WORKER, relation=connection.table("batch"), schema=schema)
            result = pa.table(side.hashed(hashing)).combine_chunks()
            connection.unregister("batch")
            hashes = [pa.array(column.combine_chunks()).view(pa.int64()) for column in result.columns]
            names = [*batch.schema.names[:column_count], *hashing.names]
            yield pa.RecordBatch.from_arrays([*batch.columns[:column_count], *hashes], names=names)

    return frame.mapInArrow(hash_batches, spark.StructType(fields))


_WORKER = SideInfo(name="", engine="")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSide:
    """A side whose rows Spark reads.

    The columns of `frame` are named c0, c1, and so on. The other fields are as in `DuckDBSide`.
    """

    info: SideInfo
    frame: DataFrame
    schema: pa.Schema
    stored: pa.Schema | None = None
    plan: PlannedScan | None = None

    def head(self, columns: Sequence[str], limit: int) -> pa.Table:
        """Do the same as `DuckDBSide.head`, on Spark."""
        with translate_spark_errors(self.info):
            return self._conform(self.frame.select(*self._select_columns(columns)).limit(limit).toArrow(), columns)

    def buckets(self, hashing: Hashing) -> Buckets:
        """Do the same as `DuckDBSide.buckets`, on Spark."""
        session = self.frame.sparkSession
        with translate_spark_errors(self.info):
            hashed = self._hashed(hashing)
            if not has_gateway(session):
                return _sums_by_bucket(hashed.withColumn("b", functions.expr(hashing.bucket)))
            lane_index = hashing.names.index(hashing.grouped_by[0])
            result = Gateway.for_session(session).bucket_sums(hashed, lanes=(0, 1), by=lane_index, bits=BITS)
        words = np.frombuffer(result, ">u8").astype(object).reshape(-1, 5)
        return {
            bucket: Sums(rows, low1 + (high1 << 64), low2 + (high2 << 64))
            for bucket, (rows, low1, high1, low2, high2) in enumerate(words.tolist())
            if rows
        }

    def hashes(self, hashing: Hashing, buckets: Sequence[int]) -> pa.Table:
        """Do the same as `DuckDBSide.hashes`, on Spark."""
        with translate_spark_errors(self.info):
            return _as_unsigned(self._hashed(hashing).filter(hashing.bucket_condition(buckets)).toArrow())

    def rows(self, hashing: Hashing, hashes: pa.Array) -> pa.Table:
        """Do the same as `DuckDBSide.rows`, on Spark."""
        signed = pa.array(hashes, pa.uint64()).view(pa.int64()).to_pylist()
        with translate_spark_errors(self.info):
            hashed = self._hashed(hashing, keep=True)
            candidates = hashed.filter(functions.col(hashing.grouped_by[0]).isin(signed)).dropDuplicates(
                list(hashing.names)
            )
            result = candidates.select(*self._select_columns(hashing.columns), *hashing.names).toArrow()
            rows = self._conform(result.select(range(len(hashing.columns))), hashing.columns)
        return with_hashes(rows, _as_unsigned(result.select(hashing.names)))

    def matching(self, hashing: Hashing, target_rows: WantedRows, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Do the same as `DuckDBSide.matching`, on Spark."""
        lane = hashing.grouped_by[0]
        with translate_spark_errors(self.info):
            candidates = self._hashed(hashing, keep=True).filter(hashing.bucket_condition(target_rows.buckets))
            if target_rows.filter_hashes is not None:
                hash_table = pa.table({"w": target_rows.filter_hashes.combine_chunks().view(pa.int64())})
                hash_frame = functions.broadcast(self.frame.sparkSession.createDataFrame(hash_table))
                candidates = candidates.join(hash_frame, functions.col(lane) == functions.col("w"), "left_semi")
            result = candidates.select(*self._select_columns(columns), *hashing.grouped_by).toArrow()
            rows = self._conform(result.select(range(len(columns))), columns)
        yield with_hashes(rows, _as_unsigned(result.select(hashing.grouped_by)))

    def repeated(self, hashing: Hashing, buckets: Sequence[int]) -> pa.Table:
        """Do the same as `DuckDBSide.repeated`, on Spark."""
        with translate_spark_errors(self.info):
            bucket_rows = self._hashed(hashing).filter(hashing.bucket_condition(buckets))
            grouped = bucket_rows.groupBy("k1", "k2").agg(functions.count(functions.lit(1)).alias("n"))
            result = grouped.filter(functions.col("n") > 1).orderBy("k1", "k2").limit(MOST_REPEATED).toArrow()
        return _as_unsigned(result.select(["k1", "k2"])).append_column("n", result.column("n"))

    def with_columns(self, texts: Mapping[int, Callable[[str], str]], types: Mapping[int, pa.DataType]) -> SparkSide:
        """Do the same as `DuckDBSide.with_columns`, on Spark."""
        expressions = [f"{texts.get(i, str)(name)} AS {name}" for i, name in enumerate(self.frame.columns)]
        schema, stored = with_types(self.schema, types), self.stored and with_types(self.stored, types)
        return replace(self, frame=self.frame.selectExpr(*expressions), schema=schema, stored=stored, plan=None)

    def _hashed(self, hashing: Hashing, *, keep: bool = False) -> DataFrame:
        """Return the hashes of each row as bigints, with the columns before them if `keep` is set."""
        session = self.frame.sparkSession
        if not has_gateway(session) or not has_expected_hashes():
            return hash_with_duckdb(self.frame, self.stored or self.schema, hashing, keep=keep)
        gateway = Gateway.for_session(session)

        def chain(hashes: Sequence[Column], lane: Lane) -> Column:
            return reduce(lambda linked, value: _call(gateway, "link", linked, value), hashes, _constant(SEEDS[lane]))

        def row_hashes(columns: Sequence[str]) -> tuple[Column, Column]:
            values = [self._value(name, hashing) for name in columns]
            return both_lanes(lambda lane: [_hash(value, lane, gateway) for value in values], chain)

        outputs = [lane.alias(name) for name, lane in hashing.lanes(row_hashes).items()]
        return self.frame.select(*(["*"] if keep else []), *outputs)

    def _value(self, name: str, hashing: Hashing) -> SparkValue:
        place = self.schema.get_field_index(name)
        column, stored = functions.col(f"c{place}"), self.frame.schema.fields[place].dataType
        return SparkValue(column, stored, (self.stored or self.schema).field(place).type, hashing.form_of(name))

    def _select_columns(self, columns: Sequence[str]) -> list[Column]:
        return [functions.col(f"c{self.schema.get_field_index(name)}") for name in columns]

    def _conform(self, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
        schema = pa.schema([(self.stored or self.schema).field(name) for name in columns])
        return narrow_side_rows(self, conform(rows, schema))


def _sums_by_bucket(bucketed: DataFrame) -> Buckets:
    """Return the sums by bucket `b`, computed without Java. They are exact, as decimals of the unsigned hashes."""
    sums = [f"sum(CAST({lane} AS DECIMAL(20, 0)) + IF({lane} < 0, {1 << 64}, 0))" for lane in ("h1", "h2")]
    result = bucketed.groupBy("b").agg(*map(functions.expr, ("count(*)", *sums))).toArrow()
    columns = [column.to_pylist() for column in result.columns]
    return {b: Sums(n, int(first), int(second)) for b, n, first, second in zip(*columns, strict=True)}


def _as_unsigned(hashes: pa.Table) -> pa.Table:
    """Return Spark's bigints as unsigned 64-bit integers with the same bits."""
    return hashes.cast(pa.schema([(name, pa.uint64()) for name in hashes.column_names]), safe=False)


def open_frame(frame: DataFrame, info: SideInfo, select_columns: Callable[[Sequence[str]], list[int]]) -> SparkSide:
    """Open a user's DataFrame as a side.

    Args:
        frame: The DataFrame.
        info: The description of the side.
        select_columns: A function that returns the indexes of the wanted columns, in the wanted order.
    """
    _check_running(frame.sparkSession)
    with translate_spark_errors(info):
        indexes = select_columns(frame.columns)
        numbered = frame.toDF(*[f"c{i}" for i in range(len(frame.columns))])
        projection = numbered.select(*[numbered[f"c{i}"].alias(f"c{n}") for n, i in enumerate(indexes)])
        schema = pa.schema([arrow_column(frame.schema.fields[i]) for i in indexes])
    return SparkSide(info=info, frame=projection, schema=schema)


def open_plan(plan: PlannedScan, info: SideInfo, session: SparkSession | None) -> SparkSide:
    """Open a planned table as a side. If no session is given, harness's own session is used."""
    session = spark_session() if session is None else session
    _check_running(session)
    reader = reader_of(session)
    with translate_spark_errors(info):
        rows = lower(plan, reader)
        frame = reader.expose(rows.select(*[rows[f"c{i}"] for i in range(len(plan.columns))]))
    return SparkSide(info=info, frame=frame, schema=pa.schema([arrow_field(f) for f in plan.columns]), plan=plan)


def _check_running(session: SparkSession) -> None:
    """Raise a short error if the session was stopped; Spark's own error is very long."""
    context = getattr(session, "_sc", None)
    if context is not None and context._jsc is None:
        raise EngineError("Spark failed: its session was stopped")


@contextmanager
def translate_spark_errors(info: SideInfo) -> Iterator[None]:
    """Raise Spark's errors as harness errors."""
    try:
        yield
    except (PySparkException, Py4JError, pa.ArrowException) as error:
        raise engine_error(error, info.table).within(format=info.format) from error


_PLAIN: Mapping[type[spark.DataType], pa.DataType] = {
    **SINGLE,
    spark.CharType: pa.string(),
    spark.VarcharType: pa.string(),
    spark.DayTimeIntervalType: pa.duration("us"),
}


def arrow_column(column: spark.StructField) -> pa.Field:
    """Return a column's logical type.

    It comes from harness's metadata if harness made the column, otherwise from Spark's type.

    Raises:
        UnsupportedError: Values of the column cannot be compared.
    """
    encoded = (column.metadata or {}).get(ARROW_METADATA)
    if isinstance(encoded, str):
        exact = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(encoded))).field(0)
        if _can_hold(column.dataType, exact.type):
            return exact.with_name(column.name)
    return pa.field(column.name, _arrow_type(column.dataType, column.name), column.nullable)


def _arrow_type(stored: spark.DataType, column: str) -> pa.DataType:
    match stored:
        case spark.DecimalType():
            return pa.decimal128(stored.precision, stored.scale)
        case spark.ArrayType():
            element = _arrow_type(stored.elementType, column)
            return pa.list_(pa.field("element", element, stored.containsNull))
        case spark.MapType():
            value = pa.field("value", _arrow_type(stored.valueType, column), stored.valueContainsNull)
            return pa.map_(_arrow_type(stored.keyType, column), value)
        case spark.StructType():
            return pa.struct([pa.field(f.name, _arrow_type(f.dataType, column), f.nullable) for f in stored.fields])
        case _ if type(stored) in _PLAIN:
            return _PLAIN[type(stored)]
        case _ if stored.typeName() == "time":
            precision: Any = getattr(stored, "precision", 6)
            return pa.time64("us" if precision <= 6 else "ns")
        case _:
            raise incomparable_error(f"Spark's column {column!r}", stored.simpleString(), column=column)


def _can_hold(stored: spark.DataType, exact: pa.DataType) -> bool:
    """Return whether a Spark type can hold values of the type in harness's column metadata.

    The metadata survives some casts and can then be wrong.
    """
    kind = pa.types
    match stored:
        case spark.ArrayType():
            return bool(kind.is_list(exact)) and _can_hold(stored.elementType, exact.value_type)
        case spark.MapType():
            parts = (stored.keyType, "key_type"), (stored.valueType, "item_type")
            return bool(kind.is_map(exact)) and all(_can_hold(part, getattr(exact, name)) for part, name in parts)
        case spark.StructType():
            return (
                bool(kind.is_struct(exact))
                and stored.names == [field.name for field in exact]
                and all(_can_hold(f.dataType, exact.field(i).type) for i, f in enumerate(stored.fields))
            )
        case spark.LongType():
            return bool(kind.is_int64(exact) or kind.is_time(exact) or kind.is_timestamp(exact))
        case spark.StringType():
            return bool(kind.is_string(exact)) or isinstance(exact, pa.UuidType)
        case spark.BinaryType():
            return bool(kind.is_binary(exact) or kind.is_fixed_size_binary(exact))
        case _:
            return bool(_arrow_type(stored, "").equals(exact))
