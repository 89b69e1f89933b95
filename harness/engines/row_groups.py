"""Row groups of Parquet files, as their footers describe them: rows, places, and statistics as internal values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cache, partial
from typing import Any

import duckdb
import numpy as np
import pyarrow.compute as pc

from harness.engines.data_files import FileName
from harness.engines.duckdb.instance import DuckDBFiles, cursor
from harness.engines.footers import read_footers
from harness.errors import HarnessError
from harness.metadata.filters import sqltext
from harness.metadata.model import schema as dt
from harness.metadata.plan.projection import ColumnSource, Stored, resolve
from harness.metadata.plan.scan_plan import ScanPlan
from harness.storage.records import dataclass


@dataclass(frozen=True, slots=True)
class Stated:
    """The statistics of a column chunk in a Parquet footer; None: there is none that is understood."""

    lower: Any
    upper: Any
    nulls: int | None


@dataclass(frozen=True, slots=True)
class RowGroups:
    """The row groups of a Parquet file.

    rows: of each. chunks: type, least and greatest value as text, and null count, by number and path in the schema, as
    DuckDB shows it. place: that path of a column, given as fields from the top down; None: the file does not hold it.
    """

    rows: Sequence[int]
    chunks: Mapping[tuple[int, str], tuple[str, str | None, str | None, int | None]]
    place: Callable[[tuple[dt.Field, ...]], str | None]

    @property
    def key(self) -> str:
        """The number of a row's group in SQL, by its position."""
        sizes = set(self.rows[:-1])
        if not sizes:
            return "0"
        if len(sizes) == 1 and 0 < self.rows[-1] <= self.rows[0]:
            return f'"_pos" // {self.rows[0]}'
        return _bisected([0, *itertools.accumulate(self.rows)], 0, len(self.rows))

    def statistics(self, path: tuple[dt.Field, ...]) -> Callable[[int], Stated] | None:
        """The statistics of a column by the number of the row group; None: the file does not hold it so."""
        name = self.place(path)
        if name is None:
            return None
        type_ = path[-1].type

        def of(number: int) -> Stated:
            kind, lower, upper, nulls = self.chunks.get((number, name), ("", None, None, None))
            return Stated(_parsed(lower, kind, type_), _parsed(upper, kind, type_), nulls)

        return of


def _place(path: tuple[dt.Field, ...], source: ColumnSource | None) -> str | None:
    """DuckDB's name for a column of single values in a file; None: the file does not hold it so."""
    names = []
    for field, inner in zip(path, (*path[1:], None), strict=True):
        if not isinstance(source, Stored) or isinstance(field.type, dt.ListType | dt.MapType):
            return None
        names.append(source.physical.name)
        if inner is not None and isinstance(field.type, dt.StructType):
            source = source.parts[field.type.fields.index(inner)]
    return ", ".join(names)


def _bisected(starts: Sequence[int], low: int, high: int) -> str:
    """The number of the row group that a position is in, of some groups, as SQL."""
    if high - low == 1:
        return str(low)
    middle = (low + high) // 2
    parts = _bisected(starts, low, middle), _bisected(starts, middle, high)
    return f'CASE WHEN "_pos" < {starts[middle]} THEN {parts[0]} ELSE {parts[1]} END'


def row_groups(plan: ScanPlan, paths: Sequence[str]) -> dict[str, RowGroups]:
    """The row groups of Parquet files by recorded path; none where a footer cannot be read, which reads refuse."""
    wanted = set(paths)
    rows = plan.files.select(["path", "physical", "format", "partition"]).to_pylist()
    files = {row["physical"]: row for row in rows if row["format"] == "parquet" and row["path"] in wanted}
    access = DuckDBFiles(cursor(), plan.storage)
    names = [FileName(row["path"], physical) for physical, row in files.items()]
    said_of = "type, stats_min_value, stats_max_value, stats_null_count"
    columns = f"file_name, row_group_id, row_group_num_rows, path_in_schema, {said_of}"
    try:
        footers = read_footers(access, names, table=plan.table)
        text = f"SELECT {columns} FROM parquet_metadata({access.listed(list(files))}) ORDER BY ALL"
        found = access.connection.execute(text).fetchall() if files else []
    except (duckdb.Error, HarnessError):
        return {}
    sizes: dict[str, dict[int, int]] = {}
    chunks: dict[str, dict[tuple[int, str], Any]] = {}
    for file, group, size, column, *said in found:
        sizes.setdefault(file, {})[group] = size
        chunks.setdefault(file, {})[group, column] = tuple(said)

    @cache
    def place(schema: int, partition: int, path: tuple[dt.Field, ...]) -> str | None:
        try:
            (source,) = resolve(
                path[:1],
                schemas[schema],
                name_mapping=plan.name_mapping,
                partition_ids=frozenset(plan.partitions[partition].constants),
                file_path=plan.table,
                table=plan.table,
                lookup=plan.lookup,
            )
            return _place(path, source)
        except HarnessError:  # no read gives the column
            return None

    schemas = {id(footer.schema): footer.schema for footer in footers.values()}
    return {
        row["path"]: RowGroups(
            list(sizes[access.name(physical)].values()),
            chunks[access.name(physical)],
            partial(place, id(footers[physical].schema), row["partition"]),
        )
        for physical, row in files.items()
        if access.name(physical) in sizes
    }


def created_by(plan: ScanPlan, path: str) -> str | None:
    """The program that wrote a data file, as its Parquet footer says; None: there is no such, or it does not say."""
    at = pc.index(plan.files.column("path"), path).as_py()
    if at < 0 or plan.files.column("format")[at].as_py() != "parquet":
        return None
    access = DuckDBFiles(cursor(), plan.storage)
    try:
        listed = access.listed([plan.files.column("physical")[at].as_py()])
        rows = access.connection.execute(f"SELECT created_by FROM parquet_file_metadata({listed})").fetchall()
    except (duckdb.Error, HarnessError):
        return None
    return rows[0][0] or None


def column_chunks(plan: ScanPlan, physical: Sequence[str]) -> list[tuple[str, int, str, int, int]]:
    """The column chunks of Parquet files: path, row group, column, first byte, bytes. None, if one cannot be read."""
    access = DuckDBFiles(cursor(), plan.storage)
    text = (
        "SELECT file_name, row_group_id, path_in_schema, coalesce(nullif(dictionary_page_offset, 0), "
        "data_page_offset), total_compressed_size "
        f"FROM parquet_metadata({access.listed(physical)})"
    )
    try:
        rows = access.connection.execute(text).fetchall() if physical else []
    except duckdb.Error:
        return []
    paths = {access.name(path): path for path in physical}
    return [(paths[file], *others) for file, *others in rows]


def _parsed(text: str | None, kind: str, type_: dt.Type) -> Any:
    """DuckDB's text of a statistic as an internal value; None: it is not understood, or of no use."""
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
            case dt.StringType() if text is not None and "\\x" not in text:  # so DuckDB shows bytes that are no text
                return text
            case _:
                return None
    except (ValueError, ArithmeticError):
        return None
