"""The sides of a comparison: rows that DuckDB reads, and Arrow data in memory or in a DuckDB file on disk.

A side returns some of its rows exactly, and sums the hashes of all rows inside its engine. `DuckDBSide` and
`harness.diff.spark_side.SparkSide` have the same methods with the same results. If a method raises a HarnessError, the
side has failed.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from harness.diff.hashing import (
    DuckDBValue,
    HashForm,
    child_type,
    incomparable_error,
    row_hashes,
    storage_type,
    to_duckdb_types,
)
from harness.diff.paths import narrow_rows
from harness.diff.result import SideInfo
from harness.diff.schemas import conversion_type, display_type
from harness.engines.column_values import conform
from harness.engines.duckdb.failures import engine_error
from harness.errors import EngineError
from harness.metadata.filters import sqltext
from harness.metadata.planned_scan import PlannedScan
from harness.storage.threads import cached_property, phase, track

if TYPE_CHECKING:
    from harness.diff.spark_side import SparkSide

HashedSide: TypeAlias = "DuckDBSide | SparkSide"
"""A side whose engine hashes its rows."""
Side: TypeAlias = "ArrowSide | DuckDBSide | SparkSide"
_T = TypeVar("_T")
BITS = 12
"""The number of hash bits that select a row's bucket.

Few rows share a bucket, and the sums of all buckets fit in memory.
"""
MOST_REPEATED = 5
"""The most repeated keys that `repeated` returns, for an error message."""
HASH_PREFIX = "\0"
"""The prefix of hash columns, which are added to a table beside its own columns."""


@dataclass(frozen=True, kw_only=True)
class Hashing:
    """The hashes to compute, the same for both sides.

    Attributes:
        columns: The compared columns.
        forms: The hash form of each column.
        keys: The key columns, if rows are paired by key. The key then selects the bucket, so that both rows of a key
            are in the same bucket.
    """

    columns: tuple[str, ...]
    forms: tuple[HashForm, ...]
    keys: tuple[str, ...] = ()

    @cached_property
    def _form_by_column(self) -> Mapping[str, HashForm]:
        return dict(zip(self.columns, self.forms, strict=True))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the hash columns: both lanes of the row's hash and, with keys, both lanes of the key's hash."""
        return ("h1", "h2", "k1", "k2") if self.keys else ("h1", "h2")

    @property
    def grouped_by(self) -> tuple[str, str]:
        """The two hash lanes that pair rows. The first lane also selects the bucket."""
        return ("k1", "k2") if self.keys else ("h1", "h2")

    def lanes(self, row_hashes: Callable[[Sequence[str]], tuple[_T, _T]]) -> dict[str, _T]:
        """Return the hash lanes by their names. `row_hashes` returns both lanes for given columns."""
        hashed = (self.columns, self.keys) if self.keys else (self.columns,)
        return dict(zip(self.names, (lane for columns in hashed for lane in row_hashes(columns)), strict=True))

    @property
    def bucket(self) -> str:
        """The SQL expression of a row's bucket number, valid in both engines."""
        return f"({self.grouped_by[0]} & {(1 << BITS) - 1})"

    def bucket_condition(self, buckets: Sequence[int]) -> str:
        """Return the SQL condition that a row is in one of these buckets, which are in ascending order."""
        if buckets[-1] - buckets[0] == len(buckets) - 1:
            return f"{self.bucket} BETWEEN {buckets[0]} AND {buckets[-1]}"
        return f"{self.bucket} IN ({', '.join(map(str, buckets))})"

    def form_of(self, column: str) -> HashForm:
        """Return the hash form of a column."""
        return self._form_by_column[column]


class Sums(NamedTuple):
    """The number of rows in a bucket, and the sums of both hash lanes."""

    rows: int
    first: int
    second: int


Buckets: TypeAlias = Mapping[int, Sums]


@dataclass(frozen=True, slots=True)
class WantedRows:
    """The rows to fetch, given by their hashes.

    Attributes:
        wanted: Values of the lane `Hashing.grouped_by[0]`.
        buckets: The buckets of these hashes, in ascending order.
        rows: The number of rows that the side has in these buckets.
    """

    wanted: pa.ChunkedArray
    buckets: Sequence[int]
    rows: int

    @property
    def filter_hashes(self) -> pa.ChunkedArray | None:
        """The hashes to filter by, or None if fetching all rows of the buckets is at least as fast."""
        return None if len(self.wanted) * 8 > self.rows else self.wanted


def with_hashes(rows: pa.Table, hashes: pa.Table) -> pa.Table:
    """Add hash columns to the rows, with `HASH_PREFIX` before their names."""
    for name in hashes.column_names:
        rows = rows.append_column(f"{HASH_PREFIX}{name}", hashes.column(name))
    return rows


def with_types(schema: pa.Schema, types: Mapping[int, pa.DataType]) -> pa.Schema:
    """Return a schema with other types for some columns, given by index."""
    return pa.schema([field.with_type(types.get(i, field.type)) for i, field in enumerate(schema)])


def narrow_side_rows(side: HashedSide, rows: pa.Table) -> pa.Table:
    """Return rows of a side without the struct fields that its schema leaves out."""
    return (
        rows if side.stored is None else narrow_rows(rows, dict(zip(side.schema.names, side.schema.types, strict=True)))
    )


_PLAIN = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "utinyint": pa.uint8(),
    "usmallint": pa.uint16(),
    "uinteger": pa.uint32(),
    "ubigint": pa.uint64(),
    "hugeint": pa.decimal128(38, 0),  # the type that engines without HUGEINT use for sums of integers
    "uhugeint": pa.decimal256(39, 0),
    "float": pa.float32(),
    "double": pa.float64(),
    "varchar": pa.string(),
    "enum": pa.string(),
    "blob": pa.binary(),
    "uuid": pa.uuid(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "time_ns": pa.time64("ns"),
    "timestamp": pa.timestamp("us"),
    "timestamp_s": pa.timestamp("s"),
    "timestamp_ms": pa.timestamp("ms"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamp with time zone": pa.timestamp("us", "UTC"),
    "interval": pa.month_day_nano_interval(),
    "null": pa.null(),
}
_LOSSY = re.compile(r"UUID|HUGEINT|ENUM|\[\d+\]")
"""DuckDB types whose values Arrow does not receive exactly.

A field name may look like one of these types. The cast then changes nothing.
"""


def arrow_type(stored: Any, column: str) -> pa.DataType:
    """Return the Arrow type for the values of a DuckDB type.

    Raises:
        UnsupportedError: Values of the type cannot be compared.
    """
    match stored.id:
        case "decimal":
            parts = dict(stored.children)
            return pa.decimal128(parts["precision"], parts["scale"])
        case "list" | "array":
            return pa.list_(pa.field("element", arrow_type(child_type(stored, 0), column)))
        case "map":
            return pa.map_(arrow_type(child_type(stored, 0), column), arrow_type(child_type(stored, 1), column))
        case "struct":
            return pa.struct([pa.field(name, arrow_type(part, column)) for name, part in stored.children])
        case plain if plain in _PLAIN:
            return _PLAIN[plain]
        case _:
            raise incomparable_error(f"DuckDB's column {column!r}", stored, column=column)


def exact_expression(text: str, stored: object) -> str:
    """Return an expression whose value reaches Arrow unchanged, regardless of the connection's settings."""
    return f"CAST({text} AS {_exact_type(stored)})" if _LOSSY.search(str(stored)) else text


def _exact_type(stored: Any) -> str:
    match stored.id:
        case "uuid":
            return "BLOB"
        case "hugeint" | "uhugeint" | "enum":
            return "VARCHAR"
        case "list" | "array":
            return f"{_exact_type(child_type(stored, 0))}[]"
        case "map":
            return f"MAP({_exact_type(child_type(stored, 0))}, {_exact_type(child_type(stored, 1))})"
        case "struct":
            return f"STRUCT({', '.join(f'{sqltext.name(name)} {_exact_type(part)}' for name, part in stored.children)})"
        case _:
            return str(stored)


@dataclass(frozen=True, slots=True, kw_only=True)
class DuckDBSide:
    """A side whose rows DuckDB reads: a relation or a planned table.

    Attributes:
        info: The description of the side.
        relation: The rows.
        schema: The columns with their names and logical types. An integer column may represent times.
        stored: The same columns with all struct fields, if `schema` leaves some out.
        plan: The plan, if the side is a planned table.
        keep: An object that must live as long as the relation.
    """

    info: SideInfo
    relation: duckdb.DuckDBPyRelation
    schema: pa.Schema
    stored: pa.Schema | None = None
    plan: PlannedScan | None = None
    keep: object = field(default=None, compare=False, repr=False)

    def head(self, columns: Sequence[str], limit: int) -> pa.Table:
        """Return at most `limit` rows of some columns."""
        with translate_duckdb_errors(self.info, self.plan):
            outputs = self._outputs(self._exact_expressions(columns)) or "NULL AS r0"
            return self._conform(pa.table(_with_numbered_columns(self.relation).limit(limit).project(outputs)), columns)

    def buckets(self, hashing: Hashing) -> Buckets:
        """Return the sums of all rows by bucket. Empty buckets are left out."""
        with translate_duckdb_errors(self.info, self.plan):
            bucketed = self.hashed(hashing).project(f"{hashing.bucket} AS b, h1, h2")
            result = bucketed.aggregate("b, count(*) AS n, sum(h1) AS s1, sum(h2) AS s2", "b").fetchall()
        return {int(b): Sums(int(n), int(s1), int(s2)) for b, n, s1, s2 in result}

    def hashes(self, hashing: Hashing, buckets: Sequence[int]) -> pa.Table:
        """Return the hashes of the rows in some buckets, as uint64 columns named `hashing.names`.

        The buckets are given in ascending order.
        """
        with translate_duckdb_errors(self.info, self.plan):
            return pa.table(self.hashed(hashing).filter(hashing.bucket_condition(buckets)))

    def rows(self, hashing: Hashing, hashes: pa.Array) -> pa.Table:
        """Return one row for each of the given hashes.

        The result has the compared columns under their names, then the hash columns with `HASH_PREFIX` before their
        names.

        Args:
            hashing: The hashes to compute.
            hashes: Values of the lane `hashing.grouped_by[0]`.
        """
        expressions = self._exact_expressions(hashing.columns)
        names = ", ".join(hashing.names)
        with translate_duckdb_errors(self.info, self.plan):
            candidates = self.hashed(hashing, expressions).filter(
                f"{hashing.grouped_by[0]} IN ({', '.join(map(str, hashes.to_pylist()))})"
            )
            counted = candidates.project(f"*, row_number() OVER (PARTITION BY {names}) AS n").filter("n = 1")
            matches = pa.table(counted.project(", ".join([*expressions, names])))
            return with_hashes(self._conform(matches, hashing.columns), matches.select(hashing.names))

    def matching(self, hashing: Hashing, target_rows: WantedRows, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield batches that hold at least the rows with the wanted hashes.

        A batch has the given columns, then hash columns as in `rows`.
        """
        expressions = self._exact_expressions(columns)
        with translate_duckdb_errors(self.info, self.plan):
            candidates = self.hashed(hashing, expressions).filter(hashing.bucket_condition(target_rows.buckets))
            if target_rows.filter_hashes is not None:
                # The hashes are passed as one literal: for this many values, an IN list would cost more than the read.
                hash_query = f"SELECT unnest(CAST('{target_rows.filter_hashes.to_pylist()}' AS UBIGINT[]))"
                candidates = candidates.filter(f"{hashing.grouped_by[0]} IN ({hash_query})")
            projected = candidates.project(", ".join([*expressions, *hashing.grouped_by]))
            renamed = hasattr(projected, "to_arrow_reader")  # since DuckDB 2.0
            for batch in projected.to_arrow_reader() if renamed else projected.fetch_record_batch():
                result = pa.Table.from_batches([batch])
                yield with_hashes(self._conform(result, columns), result.select(hashing.grouped_by))

    def repeated(self, hashing: Hashing, buckets: Sequence[int]) -> pa.Table:
        """Return some keys that occur in several rows.

        The result has the hash lanes `k1` and `k2` of each key, and the number of rows in `n`. Only the given buckets,
        which are in ascending order, are searched.
        """
        with translate_duckdb_errors(self.info, self.plan):
            bucket_rows = self.hashed(hashing).filter(hashing.bucket_condition(buckets))
            grouped = bucket_rows.aggregate("k1, k2, count(*) AS n", "k1, k2").filter("n > 1")
            return pa.table(grouped.order("k1, k2").limit(MOST_REPEATED))

    def with_columns(self, texts: Mapping[int, Callable[[str], str]], types: Mapping[int, pa.DataType]) -> DuckDBSide:
        """Return the side with some columns, given by index, replaced by other values and types.

        Args:
            texts: Functions that turn the SQL of the column into the SQL of its new value.
            types: The new types.
        """
        projection = ", ".join(f"{texts.get(i, str)(f'#{i + 1}')} AS c{i}" for i in range(len(self.schema)))
        schema, stored = with_types(self.schema, types), self.stored and with_types(self.stored, types)
        return replace(self, relation=self.relation.project(projection), schema=schema, stored=stored, plan=None)

    def hashed(self, hashing: Hashing, further: Mapping[str, str] | None = None) -> duckdb.DuckDBPyRelation:
        """Return a relation with the given expressions and the hashes of each row."""
        lanes = hashing.lanes(lambda columns: row_hashes([self._value(name, hashing) for name in columns]))
        return _with_numbered_columns(self.relation).project(self._outputs({**(further or {}), **lanes}))

    def _outputs(self, texts: Mapping[str, str]) -> str:
        return ", ".join(f"{text} AS {name}" for name, text in texts.items())

    def _value(self, name: str, hashing: Hashing) -> DuckDBValue:
        place = self.schema.get_field_index(name)
        type_ = display_type((self.stored or self.schema).field(place).type)
        return DuckDBValue(f"c{place}", self.relation.types[place], type_, hashing.form_of(name))

    def _exact_expressions(self, columns: Sequence[str]) -> dict[str, str]:
        places = map(self.schema.get_field_index, columns)
        return {f"r{i}": exact_expression(f"c{place}", self.relation.types[place]) for i, place in enumerate(places)}

    def _conform(self, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
        schema = pa.schema([(f.name, display_type(f.type)) for f in map((self.stored or self.schema).field, columns)])
        return narrow_side_rows(self, conform(rows.select(range(len(columns))), schema))


def _with_numbered_columns(relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Rename the columns by position, because DuckDB ignores case and their own names may differ only by case."""
    return relation.project(", ".join(f"#{i + 1} AS c{i}" for i in range(len(relation.columns))))


@contextmanager
def translate_duckdb_errors(info: SideInfo, plan: PlannedScan | None = None) -> Iterator[None]:
    """Raise DuckDB's errors as harness errors. If a plan is given, they are reported as failures to read its files."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        if plan is not None:
            raise engine_error(error, plan).within(snapshot=plan.snapshot, format=plan.format) from error
        raise EngineError(f"DuckDB failed: {' '.join(str(error).split())}", table=info.table) from error


_MEMORY = "512MB"


@dataclass(frozen=True, kw_only=True)
class ArrowSide:
    """Rows in memory.

    Attributes:
        info: The description of the side.
        whole: All rows.
        resources: Closed after the comparison.
        plan: The plan, if another engine read these rows from a planned table.
    """

    info: SideInfo
    whole: pa.Table
    resources: ExitStack = field(repr=False)
    plan: PlannedScan | None = field(default=None, repr=False)

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the columns."""
        return self.whole.schema

    def head(self, columns: Sequence[str], limit: int) -> pa.Table:
        """Return at most `limit` rows of some columns."""
        return self.whole.select(list(columns)).slice(0, limit)

    @cached_property
    def in_duckdb(self) -> DuckDBSide:
        """Return the same rows as a DuckDB side."""
        with translate_duckdb_errors(self.info):
            connection = track(duckdb.connect())
            self.resources.callback(connection.close)
            connection.register("rows", to_duckdb_types(self.whole))
        return _duckdb_side(self.info, self.schema, connection)


def narrow_side(side: Side, schema: pa.Schema) -> Side:
    """Return the side with only the struct fields that a schema has."""
    if schema.equals(side.schema):
        return side
    if isinstance(side, ArrowSide):
        return replace(side, whole=narrow_rows(side.whole, dict(zip(schema.names, schema.types, strict=True))))
    return replace(side, schema=schema, stored=side.stored or side.schema)


def recorded_rows(side: Side) -> int | None:
    """Return the row count that a planned side's metadata records, before deletes, or None if there is none."""
    return None if side.plan is None else pc.sum(side.plan.files.column("record_count"), skip_nulls=False).as_py()


def in_engine(side: Side) -> HashedSide:
    """Return the side in an engine that can hash its rows."""
    return side.in_duckdb if isinstance(side, ArrowSide) else side


def open_arrow(
    data: object, info: SideInfo, select_columns: Callable[[Sequence[str]], list[int]], limit: int, resources: ExitStack
) -> ArrowSide | DuckDBSide:
    """Open an Arrow stream as a side. A stream of more than `limit` rows that is not an Arrow table is written to disk.

    Raises:
        UnsupportedError: DuckDB cannot store a type of the stream.
        EngineError: The stream fails.
    """
    if isinstance(data, pa.Table):
        return ArrowSide(info=info, whole=data.select(select_columns(data.column_names)), resources=resources)
    try:
        reader = pa.RecordBatchReader.from_stream(data)
        indexes = select_columns(reader.schema.names)
        schema = pa.schema([reader.schema.field(i) for i in indexes])
        batches, rows = [], 0
        for batch in reader:
            batches.append(batch.select(indexes))
            rows += batch.num_rows
            if rows > limit:
                break
        else:
            return ArrowSide(info=info, whole=pa.Table.from_batches(batches, schema), resources=resources)
    except (pa.ArrowException, OSError) as error:
        message = f"Cannot read the Arrow stream of {info.name}: {' '.join(str(error).split())}"
        raise EngineError(message) from error
    first_batches = (batches.pop(0) for _ in range(len(batches)))  # releases each batch once it is written
    return _spill_to_disk(chain(first_batches, (batch.select(indexes) for batch in reader)), info, schema, resources)


def _spill_to_disk(
    batches: Iterator[pa.RecordBatch], info: SideInfo, schema: pa.Schema, resources: ExitStack
) -> DuckDBSide:
    """Write the rows to a DuckDB database on disk."""
    folder = Path(resources.enter_context(tempfile.TemporaryDirectory(prefix="harness-compare-")))
    types = pa.schema([(f"c{i}", storage_type(f.type)) for i, f in enumerate(schema)])

    def stored() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from to_duckdb_types(pa.Table.from_batches([batch])).to_batches()
            advance(batch.num_rows)

    with translate_duckdb_errors(info), phase("putting rows aside") as advance:
        connection = track(duckdb.connect(str(folder / "rows.duckdb"), config={"memory_limit": _MEMORY}))
        resources.callback(connection.close)
        connection.execute("SET preserve_insertion_order = false")
        stream = pa.RecordBatchReader.from_batches(types, stored())
        connection.register("stream", stream)
        connection.execute("CREATE TABLE rows AS SELECT * FROM stream")
        connection.unregister("stream")
    return _duckdb_side(info, schema, connection)


def _duckdb_side(info: SideInfo, schema: pa.Schema, connection: duckdb.DuckDBPyConnection) -> DuckDBSide:
    with translate_duckdb_errors(info):
        return DuckDBSide(info=info, relation=connection.sql("SELECT * FROM rows"), schema=schema, keep=connection)


def reconcile(sides: tuple[Side, Side], columns: tuple[str, ...]) -> tuple[Side, Side]:
    """Return both sides with converted columns, if columns have to be converted before they are compared.

    A number compared with a float becomes the nearest float (`TypeRule.ROUNDING`). It is parsed from the number's text,
    because every engine does that in the same way. DuckDB's direct cast divides, and can return the float beside it. A
    boolean compared with an integer becomes 1 or 0 (`TypeRule.TRUTH`).
    """
    schemas, result = [side.schema for side in sides], []
    for side, schema, other in zip(sides, schemas, reversed(schemas), strict=True):
        conversions = {
            schema.get_field_index(n): conversion_type(schema.field(n).type, other.field(n).type) for n in columns
        }
        types = {place: type_ for place, type_ in conversions.items() if type_ is not None}
        casts = {place: _CASTS[type_].format for place, type_ in types.items()}
        result.append(in_engine(side).with_columns(casts, types) if types else side)
    return result[0], result[1]


_CASTS = {
    pa.float32(): "CAST(CAST({} AS STRING) AS FLOAT)",
    pa.float64(): "CAST(CAST({} AS STRING) AS DOUBLE)",
    pa.int32(): "CAST({} AS INT)",
}
"""Casts in SQL that both engines understand."""
