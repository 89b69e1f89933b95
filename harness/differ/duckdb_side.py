"""Sides whose rows DuckDB reads: a relation or a planned table; and Arrow data, in memory or put aside."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from harness.differ.forms import carried, incomparable, plain, storage_type
from harness.differ.hashing import DuckDBValue, child, row_hashes
from harness.differ.result import SideInfo
from harness.differ.sides import MOST_REPEATED, Buckets, Hashing, Some, Sums, with_hashes
from harness.engines.column_values import conform
from harness.engines.duckdb.failures import engine_error
from harness.errors import EngineError
from harness.metadata.filters import sqltext
from harness.metadata.plan.scan_plan import ScanPlan
from harness.storage.threads import phase, tracked

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
    "hugeint": pa.decimal128(38, 0),  # as sums of integers are on engines that lack it
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


def logical(stored: Any, column: str) -> pa.DataType:
    """The Arrow type of a DuckDB type's values. Raises UnsupportedError: its values cannot be compared."""
    match stored.id:
        case "decimal":
            parts = dict(stored.children)
            return pa.decimal128(parts["precision"], parts["scale"])
        case "list" | "array":
            return pa.list_(pa.field("element", logical(child(stored, 0), column)))
        case "map":
            return pa.map_(logical(child(stored, 0), column), logical(child(stored, 1), column))
        case "struct":
            return pa.struct([pa.field(name, logical(part, column)) for name, part in stored.children])
        case plain if plain in _PLAIN:
            return _PLAIN[plain]
        case _:
            raise incomparable(f"DuckDB's column {column!r}", stored, column=column)


def shown(text: str, stored: Any, depth: int = 0) -> str:
    """An expression for the value that Arrow gets whole whatever the connection's settings."""
    match stored.id:
        case "uuid":
            return f"CAST({text} AS BLOB)"
        case "hugeint" | "uhugeint" | "enum":
            return f"CAST({text} AS VARCHAR)"
        case "list" | "array" | "map" | "struct" if _has_lossy(stored):
            return f"CASE WHEN {text} IS NULL THEN NULL ELSE {_shown_parts(text, stored, depth)} END"
        case _:
            return text


def _has_lossy(stored: Any) -> bool:
    match stored.id:
        case "array" | "uuid" | "hugeint" | "uhugeint" | "enum":
            return True
        case "list":
            return _has_lossy(child(stored, 0))
        case "map":
            return _has_lossy(child(stored, 0)) or _has_lossy(child(stored, 1))
        case "struct":
            return any(_has_lossy(part) for _, part in stored.children)
        case _:
            return False


def _shown_parts(text: str, stored: Any, depth: int) -> str:
    item = f"x{depth}"
    match stored.id:
        case "map":
            key = shown(f"{item}.key", child(stored, 0), depth + 1)
            value = shown(f"{item}.value", child(stored, 1), depth + 1)
            entry = f"struct_pack(key := {key}, value := {value})"
            return f"map_from_entries(list_transform(map_entries({text}), lambda {item}: {entry}))"
        case "struct":
            parts = {
                name: shown(f"struct_extract_at({text}, {place})", part, depth)
                for place, (name, part) in enumerate(stored.children, 1)
            }
            return sqltext.struct(parts)
        case _:
            return f"list_transform({text}, lambda {item}: {shown(item, child(stored, 0), depth + 1)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class DuckDBSide:
    """Rows of a relation.

    schema: the columns as the side calls them. types: the types in which rows are shown, by place; a column of integers
    may stand for times. keep: must live as long as the relation.
    """

    info: SideInfo
    relation: duckdb.DuckDBPyRelation
    schema: pa.Schema
    types: pa.Schema
    plan: ScanPlan | None = None
    keep: object = field(default=None, compare=False, repr=False)

    def head(self, columns: Sequence[str], limit: int) -> pa.Table:
        """At most `limit` rows."""
        labels = ", ".join(f"{text} AS r{i}" for i, text in enumerate(self._shown(columns)))
        with failing(self.info, self.plan):
            rows = pa.table(_numbered(self.relation).limit(limit).project(labels or "NULL AS r0"))
            return self._conform(rows, columns)

    def buckets(self, hashing: Hashing) -> Buckets:
        """All rows, summed by bucket."""
        with failing(self.info, self.plan):
            bucketed = self._hashed(hashing).project(f"{_bucket(hashing)} AS b, h1, h2")
            summed = bucketed.aggregate("b, count(*) AS n, sum(h1) AS s1, sum(h2) AS s2", "b")
            found = summed.fetchall()
        return {int(b): Sums(int(n), int(s1), int(s2)) for b, n, s1, s2 in found}

    def hashes(self, hashing: Hashing, buckets: Sequence[int]) -> pa.Table:
        """The hashes of the rows of some buckets."""
        with failing(self.info, self.plan):
            return pa.table(self._hashed(hashing).filter(hashing.bucket_condition(_bucket(hashing), buckets)))

    def rows(self, hashing: Hashing, wanted: pa.Array) -> pa.Table:
        """A row of each of the given hashes."""
        labels = [f"r{i}" for i in range(len(hashing.columns))]
        further = dict(zip(labels, self._shown(hashing.columns), strict=True))
        listed = ", ".join(map(str, wanted.to_pylist()))
        number = f"row_number() OVER (PARTITION BY {', '.join(hashing.names)}) AS n"
        with failing(self.info, self.plan):
            kept = self._hashed(hashing, further).filter(f"{hashing.grouped_by[0]} IN ({listed})")
            counted = kept.project(f"{', '.join([*hashing.names, *labels])}, {number}").filter("n = 1")
            found = pa.table(counted.project(", ".join([*hashing.names, *labels])))
            return with_hashes(self._conform(found.select(labels), hashing.columns), found.select(hashing.names))

    def matching(self, hashing: Hashing, some: Some, columns: Sequence[str]) -> Iterator[pa.Table]:
        """At least the rows whose hashes are wanted."""
        labels = [f"r{i}" for i in range(len(columns))]
        further = dict(zip(labels, self._shown(columns), strict=True))
        with failing(self.info, self.plan):
            hashed = self._hashed(hashing, further)
            kept = hashed.filter(hashing.bucket_condition(_bucket(hashing), some.buckets))
            if some.few is not None:
                # One literal: as many as there are, an IN list would cost more than the read.
                listed = f"SELECT unnest(CAST('{some.few.to_pylist()}' AS UBIGINT[]))"
                kept = kept.filter(f"{hashing.grouped_by[0]} IN ({listed})")
            wanted = kept.project(", ".join([*hashing.grouped_by, *labels]))
            renamed = hasattr(wanted, "to_arrow_reader")  # in DuckDB 2.0
            for batch in wanted.to_arrow_reader() if renamed else wanted.fetch_record_batch():
                found = pa.Table.from_batches([batch])
                yield with_hashes(self._conform(found.select(labels), columns), found.select(hashing.grouped_by))

    def repeated(self, hashing: Hashing, buckets: Sequence[int]) -> pa.Table:
        """Keys in some buckets that several rows have."""
        with failing(self.info, self.plan):
            kept = self._hashed(hashing).filter(hashing.bucket_condition(_bucket(hashing), buckets))
            grouped = kept.aggregate("k1, k2, count(*) AS n", "k1, k2").filter("n > 1")
            return pa.table(grouped.order("k1, k2").limit(MOST_REPEATED))

    def _hashed(self, hashing: Hashing, further: Mapping[str, str] | None = None) -> duckdb.DuckDBPyRelation:
        """The hashes of each row, and further expressions by name."""
        lanes = hashing.lanes(lambda columns: row_hashes([self._value(name, hashing) for name in columns]))
        outputs = {**lanes, **(further or {})}
        return _numbered(self.relation).project(", ".join(f"{text} AS {name}" for name, text in outputs.items()))

    def _value(self, name: str, hashing: Hashing) -> DuckDBValue:
        place = self.schema.get_field_index(name)
        return DuckDBValue(f"c{place}", self.relation.types[place], self.types.field(place).type, hashing.form_of(name))

    def _shown(self, columns: Sequence[str]) -> list[str]:
        places = [self.schema.get_field_index(name) for name in columns]
        return [shown(f"c{place}", self.relation.types[place]) for place in places]

    def _conform(self, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
        fields = [self.types.field(self.schema.get_field_index(name)).with_name(name) for name in columns]
        return conform(rows, pa.schema(fields)) if columns else rows.select([])


def _numbered(relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Columns named by place: their own names may differ by case only."""
    return relation.project(", ".join(f"#{i + 1} AS c{i}" for i in range(len(relation.columns))))


def _bucket(hashing: Hashing) -> str:
    return f"({hashing.grouped_by[0]} & {(1 << hashing.bits) - 1})"


@contextmanager
def failing(info: SideInfo, plan: ScanPlan | None = None) -> Iterator[None]:
    """DuckDB's failures as harness's; with a plan, as those of a read of its files."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        if plan is not None:
            raise engine_error(error, plan).within(snapshot=plan.snapshot, format=plan.format) from error
        raise EngineError(f"DuckDB failed: {' '.join(str(error).split())}", table=info.table) from error


# Arrow data: few rows stay in memory, the rest of a stream is put aside in a DuckDB file.


_MEMORY = "512MB"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowSide:
    """Rows of an Arrow stream.

    whole: all rows, where they are in memory. stored: one entry once the rows are in DuckDB. plan: of the
    table that another engine gave the rows of.
    """

    info: SideInfo
    schema: pa.Schema
    whole: pa.Table | None
    resources: ExitStack = field(repr=False)
    stored: list[DuckDBSide] = field(default_factory=list, repr=False)
    plan: ScanPlan | None = field(default=None, repr=False)

    def head(self, columns: Sequence[str], limit: int) -> pa.Table:
        """At most `limit` rows."""
        if self.whole is None:
            return self.in_duckdb().head(columns, limit)
        return self.whole.select(list(columns)).slice(0, limit)

    def in_duckdb(self) -> DuckDBSide:
        """The rows as DuckDB reads them."""
        if not self.stored:
            assert self.whole is not None, "a stream that is not in memory was put aside when it was opened"
            with failing(self.info):
                connection = tracked(duckdb.connect())
                self.resources.callback(connection.close)
                connection.register("rows", carried(self.whole))
            self.stored.append(_side(self, connection))
        return self.stored[0]


def open_arrow(
    data: Any, info: SideInfo, places: Callable[[Sequence[str]], list[int]], limit: int, resources: ExitStack
) -> ArrowSide:
    """The side of an Arrow stream; one that is longer than `limit` rows and no table in memory is put aside on disk.

    Raises UnsupportedError: a long stream has a type that DuckDB cannot hold; EngineError: it breaks; or as `places`.
    """
    if isinstance(data, pa.Table):
        whole = data.select(places(data.column_names))
        return ArrowSide(info=info, schema=whole.schema, whole=whole, resources=resources)
    try:
        reader = pa.RecordBatchReader.from_stream(data)
        chosen = places(reader.schema.names)
        schema = pa.schema([reader.schema.field(i) for i in chosen])
        batches, rows = [], 0
        for batch in reader:
            batches.append(batch.select(chosen))
            rows += batch.num_rows
            if rows > limit:
                break
        else:
            whole = pa.Table.from_batches(batches, schema)
            return ArrowSide(info=info, schema=schema, whole=whole, resources=resources)
    except (pa.ArrowException, OSError) as error:
        message = f"Cannot read the Arrow stream of {info.name}: {' '.join(str(error).split())}"
        raise EngineError(message) from error
    side = ArrowSide(info=info, schema=schema, whole=None, resources=resources)
    held = (batches.pop(0) for _ in range(len(batches)))  # so that each is let go
    side.stored.append(_side(side, _put_aside(chain(held, (batch.select(chosen) for batch in reader)), side)))
    return side


def _put_aside(batches: Iterator[pa.RecordBatch], side: ArrowSide) -> duckdb.DuckDBPyConnection:
    """A database with the rows in its table `rows`."""
    folder = Path(side.resources.enter_context(tempfile.TemporaryDirectory(prefix="harness-compare-")))
    types = pa.schema([(f"c{i}", storage_type(f.type)) for i, f in enumerate(side.schema)])

    def stored() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from carried(pa.Table.from_batches([batch])).to_batches()
            advance(batch.num_rows)

    with failing(side.info), phase("putting rows aside") as advance:
        connection = tracked(duckdb.connect(str(folder / "rows.duckdb"), config={"memory_limit": _MEMORY}))
        side.resources.callback(connection.close)
        connection.execute("SET preserve_insertion_order = false")
        stream = pa.RecordBatchReader.from_batches(types, stored())
        connection.register("stream", stream)
        connection.execute("CREATE TABLE rows AS SELECT * FROM stream")
        connection.unregister("stream")
    return connection


def _side(side: ArrowSide, connection: duckdb.DuckDBPyConnection) -> DuckDBSide:
    types = pa.schema([pa.field(f.name, plain(f.type)) for f in side.schema])
    with failing(side.info):
        relation = connection.sql("SELECT * FROM rows")
        return DuckDBSide(info=side.info, relation=relation, schema=side.schema, types=types, keep=connection)
