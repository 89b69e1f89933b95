"""Columns of single values at every depth, as SQL over a table's rows, and their values as internal ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from harness.metadata.filters import sqltext
from harness.metadata.model import schema as dt
from harness.metadata.plan.projection import stored_name
from harness.storage.records import dataclass
from harness.storage.threads import cached_property

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
"""The types of single values that have an order, or are at least equal or not."""
UNORDERED = (dt.UuidType, dt.VariantType, dt.GeometryType, dt.GeographyType, dt.ListType, dt.MapType)
"""Types of which counts alone are compared."""


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """A column of single values as SQL over the table's rows.

    path: the fields from the top down. value: the value of a row, or if `listed` the list of values of a row.
    gaps: counts of null and empty lists on the way, which stand for no value. parent: the count of null structs that
    the column is a field of.
    """

    path: tuple[dt.Field, ...]
    value: str
    listed: bool = False
    gaps: tuple[str, ...] = ()
    parent: str = "0"

    @cached_property
    def name(self) -> str:
        """The names from the top down, with points between them."""
        return ".".join(f.name for f in self.path)

    @cached_property
    def stored(self) -> tuple[str, ...]:
        """The names in data files, from the top down."""
        return tuple(map(stored_name, self.path))

    def each(self, expression: str) -> str:
        """The values of an expression of `x`, a value."""
        if self.listed:
            return f"list_transform({self.value}, lambda x: {expression.format('x')})"
        return expression.format(self.value)

    def count(self, condition: str) -> str:
        """The number of values for which a condition on `x` holds."""
        if self.listed:
            return f"coalesce(sum(len(list_filter({self.value}, lambda x: {condition.format('x')}))), 0)::BIGINT"
        return f"count(*) FILTER ({condition.format(self.value)})"

    def most(self, function: str, condition: str = "") -> str:
        """The least or greatest value, by `min` or `max`, of those for which a condition on `x` holds, for Arrow."""
        if not self.listed:
            found = f"{function}({self.value})" + (f" FILTER ({condition.format(self.value)})" if condition else "")
        else:
            some = f"list_filter({self.value}, lambda x: {condition.format('x')})" if condition else self.value
            found = f"{function}(list_aggregate({some}, '{function}'))"
        return internal(found, self.path[-1].type)

    def aggregates(self) -> tuple[str, ...]:
        """Values with nulls, values without, gaps, least and greatest value; NaN is the greatest."""
        rows, values = "count(*)", f"count({self.value})"
        if self.listed:
            rows = " + ".join((f"coalesce(sum(len({self.value})), 0)::BIGINT", *self.gaps))
            values = f"coalesce(sum(list_aggregate({self.value}, 'count')), 0)::BIGINT"
        return rows, values, " + ".join((self.parent, *self.gaps)), self.most("min"), self.most("max")

    def below(self, *, in_lists: bool) -> Iterator[Leaf]:
        """The columns of single values in this one. in_lists: those in lists and maps, in place of these."""
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
                    leaf = Leaf(path=(*self.path, f), value=value, listed=True, gaps=gaps)
                    yield from leaf.below(in_lists=True)
            case _:
                yield from (self,) if isinstance(type_, (*SINGLE, *UNORDERED)) else ()


def single_columns(schema: dt.Schema) -> Mapping[int, tuple[dt.Field, dt.Field, str]]:
    """The columns of single values by id, those in structs too: the top-level column, the field, and its SQL."""
    found = (leaf for f in schema.fields for leaf in Leaf(path=(f,), value=sqltext.name(f.name)).below(in_lists=False))
    return {leaf.path[-1].id: (leaf.path[0], leaf.path[-1], leaf.value) for leaf in found}


def internal(value: str, type_: dt.Type) -> str:
    """An SQL value of a type as an internal value: days, micros or nanos as numbers; null if there is no order."""
    match type_:
        case dt.DateType():
            return f"date_diff('day', DATE '1970-01-01', {value})"
        case dt.TimeType():
            return f"epoch_us({value})"
        case dt.TimestampType(unit="ns", utc=True):
            return "NULL"  # DuckDB shows them in micros
        case dt.TimestampType(unit=unit):
            return f"epoch_ns({value})" if unit == "ns" else f"epoch_us({value})"
        case _:
            return "NULL" if isinstance(type_, UNORDERED) else value
