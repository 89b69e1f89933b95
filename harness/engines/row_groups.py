"""Row groups of Parquet files: row counts, statistics, page checksums, and the places of column chunks."""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache, partial
from typing import Any, TypeVar

import duckdb
import numpy as np
import pyarrow.compute as pc

from harness.engines.data_files import FileName
from harness.engines.duckdb.instance import IS_DUCKDB_1, DuckDBFiles, cursor
from harness.engines.footers import read_footers
from harness.errors import HarnessError
from harness.metadata.files.parquet_footer import Contradiction, read_struct, read_varint
from harness.metadata.filters import sqltext
from harness.metadata.model import schema as dt
from harness.metadata.plan.projection import ColumnSource, FileColumn, resolver
from harness.metadata.planned_scan import PlannedScan
from harness.storage.paths import PhysicalPath
from harness.storage.records import dataclass
from harness.storage.stores import Storage
from harness.storage.threads import cached_property

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ChunkStatistics:
    """The statistics of a column chunk.

    An attribute is None if the footer lacks the value or has an unknown form.
    """

    lower: Any
    upper: Any
    nulls: int | None


@dataclass(frozen=True)
class RowGroups:
    """The row groups of a Parquet file.

    Attributes:
        rows: The row count of each row group.
        chunks: By row group number and column path (as DuckDB prints it): the physical type, the minimum and maximum as
            text, the null count, and the offset and length of the column index.
        place: Returns the column path and the stored type of a table column, given the fields from the top level down.
            None if the file does not hold the column.
        read: Reads bytes of the file, given an offset and a length.
    """

    rows: Sequence[int]
    chunks: Mapping[tuple[int, str], tuple[str, str | None, str | None, int | None, int | None, int | None]]
    place: Callable[[tuple[dt.Field, ...]], tuple[str, dt.Type] | None]
    read: Callable[[int, int], bytes]

    @cached_property
    def _indexes(self) -> tuple[int, bytes]:
        """Read all column indexes, which are contiguous in the file. Return the offset of the first and the bytes."""
        spans = [(start, start + length) for *_, start, length in self.chunks.values() if start and length]
        first, last = min(start for start, _ in spans), max(end for _, end in spans)
        return first, self.read(first, last - first)

    @property
    def key(self) -> str:
        """The SQL expression that computes the number of a row's group from the row's position."""
        sizes = set(self.rows[:-1])
        if not sizes:
            return "0"
        if len(sizes) == 1 and 0 < self.rows[-1] <= self.rows[0]:
            return f'"_pos" // {self.rows[0]}'
        return _binary_search_sql([0, *itertools.accumulate(self.rows)], 0, len(self.rows))

    def statistics(
        self, path: tuple[dt.Field, ...]
    ) -> Callable[[int], tuple[ChunkStatistics, ChunkStatistics | None]] | None:
        """Return a function from a row group number to a column's statistics.

        None if the file does not hold the column.

        Args:
            path: The column's fields, from the top level down.

        Returns:
            A function that returns two values: the statistics in the footer, and the statistics of all pages together.
                The second is None if there is no column index or it cannot be parsed.
        """
        placed = self.place(path)
        if placed is None:
            return None
        name, stored = placed
        type_ = path[-1].type

        def by_row_group(number: int) -> tuple[ChunkStatistics, ChunkStatistics | None]:
            kind, lower, upper, nulls, start, length = self.chunks.get((number, name), _NO_CHUNK)
            stated = ChunkStatistics(_parsed(lower, kind, type_), _parsed(upper, kind, type_), nulls)
            if not start or not length:
                return stated, None
            first, data = self._indexes
            return stated, page_statistics(data[start - first : start - first + length], kind, stored, type_)

        return by_row_group


_NO_CHUNK = ("", None, None, None, None, None)


def page_statistics(index: bytes, kind: str, stored: dt.Type, type_: dt.Type) -> ChunkStatistics | None:
    """Return the minimum, maximum, and null count of all pages in a column index.

    None if the index cannot be parsed.

    Args:
        index: The bytes of the column index.
        kind: The physical type.
        stored: The column's type in the file.
        type_: The column's type in the table.
    """
    try:
        fields, _ = read_struct(index, 0, {})
        empty = [flag == 1 for flag in _items(index, fields[_NULL_PAGES], lambda at: (index[at], at + 1))]
        ends = [_items(index, fields[key], partial(_text, index)) for key in (_LEAST, _GREATEST)]
        counts = _items(index, fields[_NULLS], partial(read_varint, index)) if _NULLS in fields else None
        values = [
            [_plain(raw, kind, stored, type_) for raw, is_empty in zip(raws, empty, strict=True) if not is_empty]
            for raws in ends
        ]
    except (KeyError, IndexError, ValueError):  # damaged, or a bound was cut inside a character
        return None
    lower, upper = (None if None in end or not end else end for end in values)
    nulls = None if counts is None else sum(count >> 1 for count in counts)
    return ChunkStatistics(None if lower is None else min(lower), None if upper is None else max(upper), nulls)


_NULL_PAGES, _LEAST, _GREATEST, _NULLS = (number << 4 | 9 for number in (1, 2, 3, 5))
"""The fields of a column index, in the key format of `read_struct`: null flags, minimums, maximums, and null counts."""


def _items(data: bytes, at: int, read: Callable[[int], tuple[T, int]]) -> list[T]:
    """Read a list in Thrift's compact protocol. `read` returns an element and the offset after it."""
    count, at = data[at] >> 4, at + 1
    if count == 0x0F:
        count, at = read_varint(data, at)
    items = []
    for _ in range(count):
        item, at = read(at)
        items.append(item)
    return items


def _text(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = read_varint(data, at)
    return data[at : at + length], at + length


def _plain(raw: bytes, kind: str, stored: dt.Type, type_: dt.Type) -> Any:
    """Decode a value in Parquet's plain encoding to internal form. None if it is NaN or its type is not supported."""
    number = int.from_bytes(raw, "little" if kind in ("INT32", "INT64") else "big", signed=True)
    match type_, stored:
        case dt.IntegerType(), dt.IntegerType():
            return number
        case dt.DateType(), dt.DateType():
            return number
        case dt.TimestampType(unit="us"), dt.TimestampType(unit=unit) if kind == "INT64":
            return {"ms": number * 1_000, "us": number, "ns": number // 1_000}[unit]
        case dt.DecimalType(), dt.DecimalType(scale=scale):
            return dt.from_unscaled(number, scale)
        case dt.FloatType(), dt.FloatType(bits=bits) if len(raw) * 8 == bits and bits != 16:
            value = float(np.frombuffer(raw, f"<f{len(raw)}")[0])
            return None if math.isnan(value) else value
        case dt.StringType(), dt.StringType():
            return raw.decode()
        case _:
            return None


def _segments_below(
    field: dt.Field, source: ColumnSource, above: tuple[str, ...] = ()
) -> Iterator[tuple[int, tuple[str, dt.Type]]]:
    """Yield the leaf columns below a field: field id, path in DuckDB's form, and stored type.

    Leaf columns inside lists and maps, and those that the file does not store, are omitted.
    """
    if not isinstance(source, FileColumn) or isinstance(field.type, dt.ListType | dt.MapType):
        return
    names = (*above, source.physical.name)
    if not isinstance(field.type, dt.StructType):
        yield field.id, (", ".join(names), source.physical.type)
        return
    for inner, part in zip(field.type.fields, source.parts, strict=True):
        yield from _segments_below(inner, part, names)


def _binary_search_sql(starts: Sequence[int], low: int, high: int) -> str:
    """Return a SQL expression for the number of the row group that contains a position, for groups `low` to `high`."""
    if high - low == 1:
        return str(low)
    middle = (low + high) // 2
    parts = _binary_search_sql(starts, low, middle), _binary_search_sql(starts, middle, high)
    return f'CASE WHEN "_pos" < {starts[middle]} THEN {parts[0]} ELSE {parts[1]} END'


_INDEX = "NULL, NULL" if IS_DUCKDB_1 else "column_index_offset, column_index_length"


def row_groups(plan: PlannedScan, paths: Sequence[str]) -> dict[str, RowGroups]:
    """Return the row groups of Parquet files by recorded path.

    The result is empty if a footer cannot be read: a read of the file reports the error.
    """
    selected = set(paths)
    rows = plan.files.select(["path", "physical", "format", "partition"]).to_pylist()
    files = {row["physical"]: row for row in rows if row["format"] == "parquet" and row["path"] in selected}
    access = DuckDBFiles(cursor(), plan.storage)
    names = [FileName(row["path"], physical) for physical, row in files.items()]
    statistics = f"type, stats_min_value, stats_max_value, stats_null_count, {_INDEX}"
    columns = f"file_name, row_group_id, row_group_num_rows, path_in_schema, {statistics}"
    try:
        footers = read_footers(access, names, table=plan.table)
        readable = [path for path in files if not footers[path].foreign]
        text = f"SELECT {columns} FROM parquet_metadata({access.listed(readable)}) ORDER BY ALL"
        rows_of_chunks = access.connection.execute(text).fetchall() if readable else []
    except (duckdb.Error, HarnessError):
        return {}
    sizes: dict[str, dict[int, int]] = {}
    chunks: dict[str, dict[tuple[int, str], Any]] = {}
    for file, group, size, column, *chunk in rows_of_chunks:
        sizes.setdefault(file, {})[group] = size
        chunks.setdefault(file, {})[group, column] = tuple(chunk)

    @cache
    def source_of(schema: int, partition: int) -> Callable[[dt.Field], ColumnSource]:
        return resolver(
            plan.schema.fields,
            schemas[schema],
            name_mapping=plan.name_mapping,
            partition_ids=frozenset(plan.partitions[partition].constants),
            file_path=plan.table,
            table=plan.table,
            lookup=plan.lookup,
        )

    @cache
    def places(schema: int, partition: int, top: int) -> Mapping[int, tuple[str, dt.Type]]:
        try:
            return dict(_segments_below(tops[top], source_of(schema, partition)(tops[top])))
        except HarnessError:  # reading the column fails as well
            return {}

    def place(schema: int, partition: int, path: tuple[dt.Field, ...]) -> tuple[str, dt.Type] | None:
        return places(schema, partition, path[0].id).get(path[-1].id)

    tops = {field.id: field for field in plan.schema.fields}
    schemas = {id(footer.schema): footer.schema for footer in footers.values()}
    return {
        row["path"]: RowGroups(
            list(sizes[access.name(physical)].values()),
            chunks[access.name(physical)],
            partial(place, id(footers[physical].schema), row["partition"]),
            partial(_bytes_of, plan.storage, physical),
        )
        for physical, row in files.items()
        if access.name(physical) in sizes
    }


def _bytes_of(storage: Storage, path: PhysicalPath, start: int, length: int) -> bytes:
    return storage.read(path, offset=start, length=length)


def created_by(plan: PlannedScan, path: str) -> str | None:
    """Return the program that wrote a data file, from its Parquet footer.

    None if the footer or its entry is missing.
    """
    ordinal = pc.index(plan.files.column("path"), path).as_py()
    if ordinal < 0 or plan.files.column("format")[ordinal].as_py() != "parquet":
        return None
    access = DuckDBFiles(cursor(), plan.storage)
    try:
        path_list = access.listed([plan.files.column("physical")[ordinal].as_py()])
        rows = access.connection.execute(f"SELECT created_by FROM parquet_file_metadata({path_list})").fetchall()
    except (duckdb.Error, HarnessError):
        return None
    return rows[0][0] or None


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """A leaf column's bytes in one row group.

    Attributes:
        group: The number of the row group.
        column: The column's path, as DuckDB prints it.
        start: The offset of the first byte.
        size: The size in bytes.
    """

    group: int
    column: str
    start: int
    size: int


def column_chunks(plan: PlannedScan, physical: Sequence[PhysicalPath]) -> dict[PhysicalPath, list[ColumnChunk]]:
    """Return the column chunks of Parquet files by physical path. Files whose footers cannot be read are omitted."""
    access = DuckDBFiles(cursor(), plan.storage)
    text = (
        "SELECT file_name, row_group_id, path_in_schema, coalesce(nullif(dictionary_page_offset, 0), "
        "data_page_offset), total_compressed_size "
        f"FROM parquet_metadata({access.listed(physical)})"
    )
    try:
        rows = access.connection.execute(text).fetchall() if physical else []
    except duckdb.Error:  # one of the files is at fault
        parts = [column_chunks(plan, [path]) for path in physical] if len(physical) > 1 else []
        return {path: chunks for part in parts for path, chunks in part.items()}
    paths = {access.name(path): path for path in physical}
    chunks_by_path: dict[PhysicalPath, list[ColumnChunk]] = {}
    for file, *chunk in rows:
        chunks_by_path.setdefault(paths[file], []).append(ColumnChunk(*chunk))
    return chunks_by_path


_SIZE, _CHECKSUM = 3 << 4 | 5, 4 << 4 | 5
"""Fields of a page header, in the key format of `read_struct`: compressed size and checksum, 32-bit integers."""


def has_checksum(data: bytes) -> bool:
    """Return whether the page that begins with these bytes has a checksum. A truncated header counts as having none."""
    try:
        header, _ = read_struct(data, 0, {})
    except (IndexError, Contradiction):
        return False
    return _CHECKSUM in header


def damaged_pages(chunk: bytes) -> Iterator[int]:
    """Yield the offsets, within a column chunk, of pages whose checksum is wrong or whose header is unreadable."""
    at = 0
    while at < len(chunk):
        try:
            header, start = read_struct(chunk, at, {})
            end = start + header[_SIZE]
        except (IndexError, KeyError, Contradiction):
            yield at
            return
        if end > len(chunk) or end < start:
            yield at
            return
        checksum = header.get(_CHECKSUM)
        if checksum is not None and zlib.crc32(memoryview(chunk)[start:end]) != checksum & 0xFFFFFFFF:
            yield at
        at = end


def _parsed(text: str | None, kind: str, type_: dt.Type) -> Any:
    """Convert DuckDB's text of a statistic to internal form. None if it is NaN or cannot be parsed."""
    try:
        match type_:
            case dt.BooleanType() if text in ("false", "true"):
                return text == "true"
            case dt.IntegerType() if text is not None:
                return int(text)
            case dt.FloatType() if text is not None and kind in ("FLOAT", "DOUBLE"):
                number = float(np.float32(text)) if kind == "FLOAT" else float(text)
                return None if math.isnan(number) else number
            case dt.DecimalType() if text is not None:
                return Decimal(text)
            case dt.DateType() if text is not None:
                return sqltext.parse_date(text)
            case dt.TimestampType(unit="us") if text is not None:
                nanos = sqltext.parse_instant(text, digits=9)
                return None if nanos is None else nanos // 1_000
            # DuckDB prints bytes that are not text with `\x`
            case dt.StringType() if text is not None and "\\x" not in text:
                return text
            case _:
                return None
    except (ValueError, ArithmeticError):
        return None
