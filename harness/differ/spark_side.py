"""A side whose rows Spark reads: a frame of any session, or a planned table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import assert_never

import duckdb
import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Window, functions
from pyspark.sql import types as spark

from harness.differ.forms import (
    Bytes,
    Digits,
    Entries,
    Fields,
    Float,
    Form,
    Items,
    Nothing,
    Number,
    Ticks,
    Whole,
    nanos,
)
from harness.differ.hashing import BLOCK, LANES, NULL, SEEDS, Lane, Value, is_known, row_hashes
from harness.differ.relaxations import Relaxations
from harness.differ.result import SideInfo
from harness.differ.sides import HASH_PREFIX, MOST_REPEATED, Buckets, Hashing, Some, Sums
from harness.differ.storage_types import carried
from harness.engines.spark.engine import conform
from harness.engines.spark.executor_python import engine_error, prepare
from harness.engines.spark.gateway import Gateway, has_gateway
from harness.errors import EngineError
from harness.metadata.plan.scan_plan import ScanPlan

# Hashes as Spark columns: `harness.differ.hashing` by calls of the Java class `RowHash`.


_CLASS = "RowHash"
_DIGITS = {Digits.NARROW: 0, Digits.WIDE: 1, Digits.SPLIT: 2}


@dataclass(frozen=True, slots=True)
class HashedColumn:
    """A column to hash: its Spark type, what it stands for (a long may be a time), and what is hashed."""

    column: Column
    stored: spark.DataType
    logical: pa.DataType
    form: Form


def spark_row_hashes(values: Sequence[HashedColumn], gateway: Gateway) -> tuple[Column, Column]:
    """Both lanes of the hash of a row, as the bigints of the same bits."""
    first, second = (_blocks([_hash(value, lane, gateway) for value in values], lane, gateway) for lane in LANES)
    return first, second


def _blocks(hashes: Sequence[Column], lane: Lane, gateway: Gateway) -> Column:
    if len(hashes) <= BLOCK:
        return _chain(hashes, lane, gateway)
    return _chain([_chain(hashes[i : i + BLOCK], lane, gateway) for i in range(0, len(hashes), BLOCK)], lane, gateway)


def _chain(hashes: Sequence[Column], lane: Lane, gateway: Gateway) -> Column:
    linked = _constant(SEEDS[lane])
    for value in hashes:
        linked = _call(gateway, "link", linked, value)
    return linked


def _hash(value: HashedColumn, lane: Lane, gateway: Gateway) -> Column:
    if isinstance(value.stored, spark.NullType) or isinstance(value.form, Nothing):
        return _constant(NULL)
    return functions.coalesce(_not_null(value, lane, gateway), _constant(NULL))


def _not_null(value: HashedColumn, lane: Lane, gateway: Gateway) -> Column:
    match value.form, value.stored:
        case Whole(), _:
            return _call(gateway, "whole", value.column)
        case Ticks(split=False), _ if _divisor(value.stored, value.logical) == 1:
            return _call(gateway, "whole", value.column)
        case Float(signed_zeros=zeros), _:
            return _call(gateway, "real" if zeros == "distinct" else "realWithOneZero", value.column)
        case Bytes(), spark.StringType() | spark.BinaryType() if not _is_uuid(value.logical):
            return _call(gateway, "secondOfBytes" if lane else "firstOfBytes", value.column)
        case Number(scale=scale, digits=Digits.NARROW), spark.DecimalType():
            return _call(gateway, "narrow", value.column, functions.lit(scale))
        case _:
            text = f"{value.stored.json()}\n{_described(value.form, value.stored, value.logical)}"
            return _call(gateway, "of", value.column, functions.lit(text), functions.lit(lane))


def _described(form: Form, stored: spark.DataType, logical: pa.DataType) -> str:
    """What the value is, as `RowHash` reads it."""
    if isinstance(stored, spark.NullType):
        return "N"
    match form:
        case Nothing():
            return "N"
        case Whole():
            return "W"
        case Float(signed_zeros=zeros):
            return "F" if zeros == "distinct" else "Z"
        case Number(scale=scale, digits=digits):
            return f"D{scale},{_DIGITS[digits]};"
        case Ticks(base=base, split=split):
            return f"T{_divisor(stored, logical)},{base // nanos(logical) if split else 0};"
        case Bytes():
            return "U" if _is_uuid(logical) else "B" if isinstance(stored, spark.BinaryType) else "S"
        case Items(element=element):
            assert isinstance(stored, spark.ArrayType)
            return f"[{_described(element, stored.elementType, logical.value_type)}"
        case Entries(key=key, value=item):
            assert isinstance(stored, spark.MapType)
            keys = _described(key, stored.keyType, logical.key_type)
            return f"<{keys}{_described(item, stored.valueType, logical.item_type)}"
        case Fields(fields=fields):
            assert isinstance(stored, spark.StructType)
            places = [(logical.get_field_index(name), part) for name, part in fields]
            texts = [
                f"{place};{_described(part, stored.fields[place].dataType, logical.field(place).type)}"
                for place, part in places
            ]
            return "{" + "".join(texts) + "}"
        case other:
            assert_never(other)


def _divisor(stored: spark.DataType, logical: pa.DataType) -> int:
    """How many of the numbers that Spark holds are one of the logical unit: its own times are nanos always."""
    return nanos(logical) if stored.typeName() == "time" else 1


def _is_uuid(logical: pa.DataType) -> bool:
    return isinstance(logical, pa.UuidType)


def _constant(word: int) -> Column:
    return functions.lit(word - (1 << 64) if word >> 63 else word).cast("bigint")


def _call(gateway: Gateway, method: str, *arguments: Column) -> Column:
    return gateway.invoke(_CLASS, method, spark.LongType(), *arguments)


# Hashes of a frame's rows by DuckDB on the executors: for sessions whose JVM cannot be reached, as with Spark Connect.
#
# Slower than calls of Java, several times, and needs harness and DuckDB on the executors.


def hashed_by_duckdb(frame: DataFrame, schema: pa.Schema, hashing: Hashing, *, keep: bool) -> DataFrame:
    """The hashes of each row as bigints, and with `keep` the columns before them.

    schema: what the frame's columns stand for, by place.
    """
    prepare(frame.sparkSession)
    kept = list(frame.schema.fields) if keep else []
    fields = [*kept, *(spark.StructField(name, spark.LongType()) for name in hashing.names)]
    return frame.mapInArrow(_hasher(schema, hashing, len(kept)), spark.StructType(fields))


def _hasher(
    schema: pa.Schema, hashing: Hashing, kept: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def hash_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        connection = duckdb.connect(config={"threads": 1})
        for batch in batches:
            columns = [*batch.columns[:kept], *_hashes(batch, schema, hashing, connection)]
            names = [*batch.schema.names[:kept], *hashing.names]
            yield pa.RecordBatch.from_arrays(columns, names=names)

    return hash_batches


def _hashes(
    batch: pa.RecordBatch, schema: pa.Schema, hashing: Hashing, connection: duckdb.DuckDBPyConnection
) -> list[pa.Array]:
    """In the order of the rows: DuckDB keeps it in one thread."""
    rows = carried(pa.Table.from_batches([batch]))
    names = [f"c{i}" for i in range(rows.num_columns)]
    connection.register("batch", rows.rename_columns(names))
    relation = connection.table("batch")
    values = {
        name: Value(f"c{i}", relation.types[i], schema.field(i).type, hashing.form_of(name))
        for i, name in enumerate(schema.names)
        if name in hashing.columns
    }
    lanes: tuple[str, ...] = row_hashes([values[name] for name in hashing.columns])
    if hashing.keys:
        lanes = (*lanes, *row_hashes([values[name] for name in hashing.keys]))
    outputs = ", ".join(f"{text} AS {name}" for name, text in zip(hashing.names, lanes, strict=True))
    found = pa.table(relation.project(outputs)).combine_chunks()
    connection.unregister("batch")
    return [pa.array(column.combine_chunks()).view(pa.int64()) for column in found.columns]


_HALF = 32
_MOST_ROWS = 1 << 31
"""Rows of a bucket whose hashes' halves surely sum up within 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSide:
    """Rows of a frame whose columns are called c0, c1, … here.

    schema: the columns as the side calls them, and what their values stand for.
    """

    info: SideInfo
    frame: DataFrame
    schema: pa.Schema
    plan: ScanPlan | None = None

    def head(self, columns: Sequence[str], limit: int) -> pa.Table:
        """At most `limit` rows."""
        with failing(self.info):
            return self._conform(self.frame.select(*self._shown(columns)).limit(limit).toArrow(), columns)

    def buckets(self, hashing: Hashing) -> Buckets:
        """All rows, summed by bucket."""
        session = self.frame.sparkSession
        with failing(self.info):
            hashed = self._hashed(hashing)
            if not has_gateway(session):
                return _grouped(hashed.withColumn("b", _bucket(hashing)))
            by = hashing.names.index(hashing.grouped_by[0])
            found = Gateway.of(session).bucket_sums(hashed, lanes=(0, 1), by=by, bits=hashing.bits)
        words = np.frombuffer(found, ">u8").astype(object).reshape(-1, 5)
        return {
            bucket: Sums(rows, low1 + (high1 << 64), low2 + (high2 << 64))
            for bucket, (rows, low1, high1, low2, high2) in enumerate(words.tolist())
            if rows
        }

    def hashes(self, hashing: Hashing, buckets: Sequence[int]) -> pa.Table:
        """The hashes of the rows of some buckets."""
        with failing(self.info):
            bucketed = self._hashed(hashing).withColumn("b", _bucket(hashing))
            kept = bucketed.filter(functions.expr(hashing.bucket_condition("b", buckets)))
            return _unsigned(kept.select(*hashing.names).toArrow())

    def rows(self, hashing: Hashing, wanted: pa.Array, per_hash: int) -> pa.Table:
        """Rows of given hashes."""
        signed = pa.array(wanted, pa.uint64()).view(pa.int64()).to_pylist()
        alike = Window.partitionBy(*hashing.names).orderBy(*hashing.names)
        with failing(self.info):
            hashed = self._hashed(hashing, keep=True)
            kept = hashed.filter(functions.col(hashing.grouped_by[0]).isin(signed))
            counted = kept.withColumn("n", functions.row_number().over(alike)).filter(functions.col("n") <= per_hash)
            found = counted.select(*self._shown(hashing.columns), *hashing.names).toArrow()
            rows = self._conform(found.select(range(len(hashing.columns))), hashing.columns)
        for name in hashing.names:
            rows = rows.append_column(f"{HASH_PREFIX}{name}", _unsigned(found.select([name])).column(0))
        return rows

    def matching(self, hashing: Hashing, some: Some, columns: Sequence[str]) -> Iterator[pa.Table]:
        """At least the rows whose hashes are wanted."""
        lane = hashing.grouped_by[0]
        with failing(self.info):
            bucketed = self._hashed(hashing, keep=True).withColumn("b", _bucket(hashing))
            kept = bucketed.filter(functions.expr(hashing.bucket_condition("b", some.buckets)))
            if some.few is not None:
                wanted = pa.table({"w": some.few.combine_chunks().view(pa.int64())})
                listed = functions.broadcast(self.frame.sparkSession.createDataFrame(wanted))
                kept = kept.join(listed, functions.col(lane) == functions.col("w"), "left_semi")
            found = kept.select(*self._shown(columns), *hashing.grouped_by).toArrow()
            rows = self._conform(found.select(range(len(columns))), columns)
        for name in hashing.grouped_by:
            rows = rows.append_column(f"{HASH_PREFIX}{name}", _unsigned(found.select([name])).column(0))
        yield rows

    def repeated(self, hashing: Hashing, buckets: Sequence[int]) -> pa.Table:
        """Keys in some buckets that several rows have."""
        with failing(self.info):
            hashed = self._hashed(hashing).withColumn("b", _bucket(hashing))
            kept = hashed.filter(functions.expr(hashing.bucket_condition("b", buckets)))
            grouped = kept.groupBy("k1", "k2").agg(functions.count(functions.lit(1)).alias("n"))
            found = grouped.filter(functions.col("n") > 1).orderBy("k1", "k2").limit(MOST_REPEATED).toArrow()
        return _unsigned(found.select(["k1", "k2"])).append_column("n", found.column("n"))

    def _hashed(self, hashing: Hashing, *, keep: bool = False) -> DataFrame:
        """The hashes of each row as bigints, and with `keep` the columns before them."""
        session = self.frame.sparkSession
        if not has_gateway(session) or not is_known():
            return hashed_by_duckdb(self.frame, self.schema, hashing, keep=keep)
        gateway = Gateway.of(session)
        lanes: tuple[Column, ...] = spark_row_hashes([self._value(name, hashing) for name in hashing.columns], gateway)
        if hashing.keys:
            lanes = (*lanes, *spark_row_hashes([self._value(name, hashing) for name in hashing.keys], gateway))
        outputs = [lane.alias(name) for name, lane in zip(hashing.names, lanes, strict=True)]
        return self.frame.select(*(["*"] if keep else []), *outputs)

    def _value(self, name: str, hashing: Hashing) -> HashedColumn:
        place = self.schema.get_field_index(name)
        column, stored = functions.col(f"c{place}"), self.frame.schema.fields[place].dataType
        return HashedColumn(column, stored, self.schema.field(place).type, hashing.form_of(name))

    def _shown(self, columns: Sequence[str]) -> list[Column]:
        return [functions.col(f"c{self.schema.get_field_index(name)}") for name in columns]

    def _conform(self, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
        return conform(rows, pa.schema([self.schema.field(name) for name in columns]))


def _grouped(bucketed: DataFrame) -> Buckets:
    """The sums by bucket `b`, without Java."""
    low = (1 << _HALF) - 1
    halves = [
        functions.sum(half).alias(f"{lane}_{i}")
        for lane in ("h1", "h2")
        for i, half in enumerate(
            (functions.col(lane).bitwiseAND(low), functions.shiftrightunsigned(functions.col(lane), _HALF))
        )
    ]
    found = bucketed.groupBy("b").agg(functions.count(functions.lit(1)).alias("n"), *halves).toArrow()
    buckets = {}
    for bucket, rows, *sums in zip(*(column.to_pylist() for column in found.columns), strict=True):
        if rows >= _MOST_ROWS:
            raise EngineError(f"Cannot sum the hashes of {rows} rows in one bucket: too many rows are alike")
        buckets[bucket] = Sums(rows, sums[0] + (sums[1] << _HALF), sums[2] + (sums[3] << _HALF))
    return buckets


def _bucket(hashing: Hashing) -> Column:
    return functions.col(hashing.grouped_by[0]).bitwiseAND((1 << hashing.bits) - 1)


def _unsigned(hashes: pa.Table) -> pa.Table:
    """Spark's bigints as the 64 bits that they are."""
    columns = [
        pa.chunked_array([chunk.view(pa.uint64()) for chunk in column.chunks], pa.uint64()) for column in hashes.columns
    ]
    return pa.table(columns, names=hashes.column_names)


def with_text(side: SparkSide, texts: Sequence[int], relaxations: Relaxations, folded: tuple[str, str]) -> SparkSide:
    """The side with the form of its text in which it is compared.

    texts: places of columns of text. folded: letters, and what they are in lower case, where Java says otherwise.
    """

    def form(column: Column) -> Column:
        if relaxations.trim:
            column = functions.trim(column)
        if relaxations.null_as is not None:
            column = functions.nullif(column, functions.lit(relaxations.null_as))
        if relaxations.ignore_case:
            column = functions.lower(functions.translate(column, *folded))
        return column

    names = side.frame.columns
    chosen = [
        form(functions.col(name)).alias(name) if i in texts else functions.col(name) for i, name in enumerate(names)
    ]
    return replace(side, frame=side.frame.select(*chosen), plan=None)


def with_casts(side: SparkSide, casts: Mapping[int, str]) -> SparkSide:
    """The side with columns, by place, in another type. casts: expressions with {} for the column."""
    names = side.frame.columns
    chosen = [f"{casts.get(i, '{}').format(name)} AS {name}" for i, name in enumerate(names)]
    return replace(side, frame=side.frame.selectExpr(*chosen), plan=None)


@contextmanager
def failing(info: SideInfo) -> Iterator[None]:
    """Spark's failures as harness's."""
    try:
        yield
    except (PySparkException, Py4JError, pa.ArrowException) as error:
        raise engine_error(error, info.table).within(format=info.format) from error
