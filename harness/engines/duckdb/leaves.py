"""Columns of single values at every nesting depth as SQL, and the aggregates of their values per row group."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from harness.engines.duckdb.instance import cursor
from harness.engines.duckdb.relations import naming_table, relation
from harness.engines.row_groups import ChunkStatistics, row_groups
from harness.metadata.filters import sqltext
from harness.metadata.model import schema as dt
from harness.metadata.model.arrow_values import array_of
from harness.metadata.plan.projection import stored_name
from harness.metadata.plan.scan_plan import without_deletes
from harness.metadata.planned_scan import PlannedScan
from harness.storage.records import dataclass
from harness.storage.threads import cached_property, phase

SINGLE = (
    dt.BooleanType,
    dt.IntegerType,
    dt.FloatType,
    dt.DecimalType,
    dt.DateType,
    dt.TimeType,
    dt.TimestampType,
    dt.StringType,
    dt.UuidType,
    dt.BinaryType,
    dt.FixedType,
)
"""The types of single values that can be ordered or at least compared for equality."""
UNORDERED = (dt.UuidType, dt.VariantType, dt.GeometryType, dt.GeographyType, dt.ListType, dt.MapType)
"""Types of columns whose counts alone are compared."""


@dataclass(frozen=True, kw_only=True)
class LeafColumn:
    """A column of single values, as SQL over the table's rows.

    Attributes:
        path: The fields from the top level down.
        value: The expression for a row's value. If `listed`, for a list of the row's values.
        listed: True if the column is inside a list or map.
        gaps: Expressions that count null and empty lists above the column. They contribute no value.
        parent: The expression that counts null structs around the column.
    """

    path: tuple[dt.Field, ...]
    value: str
    listed: bool = False
    gaps: tuple[str, ...] = ()
    parent: str = "0"

    @cached_property
    def name(self) -> str:
        """Return the field names from the top level down, joined with dots."""
        return ".".join(f.name for f in self.path)

    @cached_property
    def stored(self) -> tuple[str, ...]:
        """Return the names in data files, from the top level down."""
        return tuple(map(stored_name, self.path))

    def each(self, expression: str) -> str:
        """Apply an expression to each value. `expression` has `{}` in place of the value."""
        if self.listed:
            return f"list_transform({self.value}, lambda x: {expression.format('x')})"
        return expression.format(self.value)

    def count(self, condition: str) -> str:
        """Return an expression for the number of values that satisfy a condition."""
        if self.listed:
            return f"coalesce(sum(len(list_filter({self.value}, lambda x: {condition.format('x')}))), 0)::BIGINT"
        return f"count(*) FILTER ({condition.format(self.value)})"

    def most(self, function: str, condition: str = "") -> str:
        """Return an expression for the minimum or maximum of the values, in internal form.

        Args:
            function: `min` or `max`.
            condition: Only values that satisfy this condition count. Empty for all values.
        """
        if not self.listed:
            extreme = f"{function}({self.value})" + (f" FILTER ({condition.format(self.value)})" if condition else "")
        else:
            some = f"list_filter({self.value}, lambda x: {condition.format('x')})" if condition else self.value
            extreme = f"{function}(list_aggregate({some}, '{function}'))"
        return internal_value(extreme, self.path[-1].type)

    def aggregates(self) -> tuple[str, ...]:
        """Return expressions for the column's statistics.

        Returns:
            Five expressions: the number of values with nulls, the number without nulls, the gaps, the minimum, and the
                maximum. NaN is the maximum if there is any.
        """
        rows, values = "count(*)", f"count({self.value})"
        if self.listed:
            rows = " + ".join((f"coalesce(sum(len({self.value})), 0)::BIGINT", *self.gaps))
            values = f"coalesce(sum(list_aggregate({self.value}, 'count')), 0)::BIGINT"
        return rows, values, " + ".join((self.parent, *self.gaps)), self.most("min"), self.most("max")

    def below(self, *, in_lists: bool) -> Iterator[LeafColumn]:
        """Yield the columns of single values in this column.

        With `in_lists`, this includes columns in lists and maps.
        """
        type_ = self.path[-1].type
        match type_:
            case dt.StructType(fields=fields):
                parent = self.count("{} IS NULL")
                for f in fields:
                    value = self.each(f"struct_extract({{}}, {sqltext.text(f.name)})")
                    leaf = replace(self, path=(*self.path, f), value=value, parent=parent)
                    yield from leaf.below(in_lists=in_lists)
            case dt.ListType() | dt.MapType() if in_lists:
                size, *functions = ("len", "{}")
                if isinstance(type_, dt.MapType):
                    size, *functions = ("cardinality", "map_keys({})", "map_values({})")
                gaps = (*self.gaps, self.count(f"coalesce({size}({{}}), 0) = 0"))
                for f, function in zip(dt.children(type_), functions, strict=True):
                    value = f"flatten({self.each(function)})" if self.listed else self.each(function)
                    leaf = LeafColumn(path=(*self.path, f), value=value, listed=True, gaps=gaps)
                    yield from leaf.below(in_lists=True)
            case _:
                yield from (self,) if isinstance(type_, (*SINGLE, *UNORDERED)) else ()


def single_columns(schema: dt.Schema) -> Mapping[int, tuple[dt.Field, dt.Field, str]]:
    """Return the columns of single values, including columns in structs, by field id.

    For each: the top-level column, the field, and the SQL expression of its value.
    """
    leaves = (
        leaf for f in schema.fields for leaf in LeafColumn(path=(f,), value=sqltext.name(f.name)).below(in_lists=False)
    )
    return {leaf.path[-1].id: (leaf.path[0], leaf.path[-1], leaf.value) for leaf in leaves}


def internal_value(value: str, type_: dt.Type) -> str:
    """Return an expression that converts a SQL value to internal form: days, microseconds or nanoseconds as numbers.

    The expression is NULL for types without an order.
    """
    match type_:
        case dt.DateType():
            return f"date_diff('day', DATE '1970-01-01', {value})"
        case dt.TimeType():
            return f"epoch_us({value})"
        case dt.TimestampType(unit="ns", utc=True):
            return "NULL"  # DuckDB returns them in microseconds
        case dt.TimestampType(unit=unit):
            return f"epoch_ns({value})" if unit == "ns" else f"epoch_us({value})"
        case _:
            return "NULL" if isinstance(type_, UNORDERED) else value


_MOST_FILES, _MOST_BYTES = 2_000, 1 << 30
"""The most files and bytes that one query reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupValues:
    """The values of a column in one row group, next to its recorded statistics.

    A file without row groups counts as one group.

    Attributes:
        number: The number of the row group.
        rows: The number of values, including nulls.
        nulls: The number of nulls.
        gaps: The number of nulls caused by a null struct, or by a null or empty list. Some writers count these as
            nulls.
        nans: The number of NaN values.
        least: The minimum of the other values in internal form, or None.
        greatest: The maximum of the other values in internal form, or None.
        stated: The statistics in the footer, see `RowGroups.statistics`.
        pages: The statistics of all pages together, see `RowGroups.statistics`.
    """

    number: int
    rows: int
    nulls: int
    gaps: int
    nans: int
    least: Any
    greatest: Any
    stated: ChunkStatistics | None
    pages: ChunkStatistics | None


def group_values(
    plan: PlannedScan, leaves: Sequence[LeafColumn], paths: Sequence[str]
) -> Iterator[tuple[str, LeafColumn, Sequence[GroupValues]]]:
    """Yield the values of columns in files of a plan by path, column, and row group. Deletes are not applied."""
    with phase("reading values", len(paths), "files") as advance:
        for part in _parts(plan, paths):
            yield from _values(plan, leaves, part)
            advance(len(part))


def _parts(plan: PlannedScan, paths: Sequence[str]) -> Iterator[Sequence[str]]:
    """Split the files into parts that one query reads."""
    sizes = dict(zip(plan.files.column("path").to_pylist(), plan.files.column("size").to_pylist(), strict=True))
    part: list[str] = []
    size = 0
    for path in paths:
        if part and (len(part) == _MOST_FILES or size > _MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(path)
        size += sizes.get(path) or 0
    if part:
        yield part


def _values(
    plan: PlannedScan, leaves: Sequence[LeafColumn], paths: Sequence[str]
) -> Iterator[tuple[str, LeafColumn, Sequence[GroupValues]]]:
    footers = row_groups(plan, paths)
    keys = {path: footers[path].key if path in footers else "0" for path in paths}
    aggregates_by_group = _aggregate_values(plan, leaves, keys, LeafColumn.aggregates)
    numbers = _nan_statistics(plan, leaves, keys, aggregates_by_group)
    by_path: dict[str, list[tuple[int, Sequence[Any]]]] = {}
    for (path, number), values in aggregates_by_group.items():
        by_path.setdefault(path, []).append((number, values))
    for path, rows in by_path.items():
        for place, leaf in enumerate(leaves):
            stated_of = footers[path].statistics(leaf.path) if path in footers else None
            groups = []
            for number, values in rows:
                count, present, gaps, least, greatest = values[5 * place : 5 * place + 5]
                nans, greatest = numbers.get((path, number, place), (0, greatest))
                stated, pages = (None, None) if stated_of is None else stated_of(number)
                groups.append(
                    GroupValues(
                        number=number,
                        rows=count,
                        nulls=count - present,
                        gaps=gaps,
                        nans=nans,
                        least=None if _is_nan(least) else least,
                        greatest=greatest,
                        stated=stated,
                        pages=pages,
                    )
                )
            yield path, leaf, groups


_Answers: TypeAlias = Mapping[tuple[str, int], Sequence[Any]]
"""The aggregates of all columns, in column order, by file path and row group number."""


def _nan_statistics(
    plan: PlannedScan, leaves: Sequence[LeafColumn], keys: Mapping[str, str], answers: _Answers
) -> dict[tuple[str, int, int], tuple[int, Any]]:
    """Return the NaN count and the maximum without NaN, by file, row group, and column index, for groups with NaN.

    This takes a second pass over the affected columns. Testing every value for NaN in the first pass would cost 10
    percent.
    """
    floats = [place for place, leaf in enumerate(leaves) if isinstance(leaf.path[-1].type, dt.FloatType)]
    places = {(*at, place) for at, values in answers.items() for place in floats if _is_nan(values[5 * place + 4])}
    if not places:
        return {}
    columns = sorted({place for *_, place in places})
    again = _aggregate_values(
        plan,
        [leaves[place] for place in columns],
        {path: keys[path] for path, *_ in sorted(places)},
        lambda leaf: (leaf.count("isnan({})"), leaf.most("max", "NOT isnan({})")),
    )
    return {
        (path, number, place): (values[2 * i], values[2 * i + 1])
        for (path, number), values in again.items()
        for i, place in enumerate(columns)
        if (path, number, place) in places
    }


MOST_COLUMNS = 500
"""The most columns that one query aggregates.

DuckDB keeps all aggregates of a group in one block of 256 KiB. If they need more, a division by zero ends the process
(2.0.1, 50,000 aggregates).
"""


def _aggregate_values(
    plan: PlannedScan,
    leaves: Sequence[LeafColumn],
    keys: Mapping[str, str],
    aggregates: Callable[[LeafColumn], Sequence[str]],
) -> _Answers:
    """Compute aggregates per file and row group.

    Args:
        plan: The plan.
        leaves: The columns.
        keys: For each file path, the SQL expression of a row's group number. Files with equal expressions share a
            query.
        aggregates: Returns the SQL aggregates of a column.
    """
    paths_by_key: dict[str, list[str]] = {}
    for path, key in keys.items():
        paths_by_key.setdefault(key, []).append(path)
    values_by_group: dict[tuple[str, int], list[Any]] = {}
    for key, paths in paths_by_key.items():
        more = ["_file"] if key == "0" else ["_file", "_pos"]
        for part in _queries(leaves):
            connection = cursor()
            relation(rows_of(plan, paths, more, _prune_columns(part)), connection, name="leaf_rows")
            outputs = ["_file", key, *(text for leaf in part for text in aggregates(leaf))]
            with naming_table(plan):
                table = connection.sql(f"SELECT {', '.join(outputs)} FROM leaf_rows GROUP BY ALL").to_arrow_table()
            for path, number, *values in zip(*(column.to_pylist() for column in table.columns), strict=True):
                values_by_group.setdefault((path, number), []).extend(values)
    return values_by_group


def _queries(leaves: Sequence[LeafColumn]) -> Iterator[Sequence[LeafColumn]]:
    """Yield the columns in parts that one query can aggregate.

    Each level of lists adds an aggregate to a column. Columns whose names differ only in case are put in different
    parts, because one DuckDB query cannot return both.
    """
    part: list[LeafColumn] = []
    size, names = 0, dict[str, int]()
    for leaf in leaves:
        weight, top = 1 + len(leaf.gaps), leaf.path[0]
        if part and (size + weight > MOST_COLUMNS or names.get(top.name.lower(), top.id) != top.id):
            yield part
            part, size, names = [], 0, {}
        part.append(leaf)
        size += weight
        names[top.name.lower()] = top.id
    if part:
        yield part


def _prune_columns(leaves: Sequence[LeafColumn]) -> list[dt.Field]:
    """Return the top-level columns of the leaves. Their structs keep only the fields that lead to these leaves."""
    field_ids = {id(field) for leaf in leaves for field in leaf.path}

    def prune(field: dt.Field) -> dt.Field:
        match field.type:
            case dt.StructType(fields=fields):
                return replace(
                    field, type=dt.StructType(tuple(prune(part) for part in fields if id(part) in field_ids))
                )
            case dt.ListType(element=element) if id(element) in field_ids:
                return replace(field, type=dt.ListType(prune(element)))
            case dt.MapType(key=key, value=value) if id(value) in field_ids:
                return replace(field, type=dt.MapType(key, prune(value)))
            case _:
                return field

    return [prune(top) for top in {leaf.path[0].id: leaf.path[0] for leaf in leaves}.values()]


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def rows_of(plan: PlannedScan, paths: Sequence[str], more: Sequence[str], fields: Sequence[dt.Field]) -> PlannedScan:
    """Return the plan for some of its files without deletes.

    The columns are the metadata columns `more`, then `fields`.
    """
    files = plan.files.filter(pc.is_in(plan.files.column("path"), array_of(paths, pa.string())))
    return without_deletes(replace(plan, columns=(*(dt.METADATA[name] for name in more), *fields), files=files))
