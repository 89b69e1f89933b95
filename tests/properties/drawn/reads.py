"""Reads of a table in the shapes that users write: their results in the model, and their text for the engines.

    read = ReadShape(where=ComparisonTest("id", IntegerType(64), ">", 1))
    answer(model, GroupedRows(read, measures=(("count", None),)))       # the column m0, and one row
    text(GroupedRows(read, measures=(("count", None),)), lambda at: "t")  # SELECT count(*) AS "m0" FROM t WHERE "id" >
    1

Shapes have only one correct result: LIMIT follows an order of all selected columns, and only exact numbers are ordered,
grouped, or summed.
"""

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from typing import Any, Literal, TypeAlias, assert_never

from drawn.models.model import Columns, Row, TableModel
from drawn.predicates import Predicate, comparable, holds, literals, quoted, sql
from harness.metadata.model.schema import DateType, DecimalType, Field, IntegerType, Type
from harness.suite.scenarios.model import Selector

CURRENT = Selector()
Measure: TypeAlias = tuple[Literal["count", "min", "max", "sum"], str | None]
"""An aggregate of a column. `count` of None is `count(*)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadShape:
    """A plain read: the point, the columns in order (None: all), and the filter (None: all rows)."""

    at: Selector = CURRENT
    columns: tuple[str, ...] | None = None
    where: Predicate | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """A read with parameters in place of the literals of its filter."""

    read: ReadShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A column of an order."""

    column: str
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class FirstRows:
    """The first rows of a read in an order that contains all of its columns, and perhaps others."""

    read: ReadShape
    order: tuple[Order, ...]
    limit: int


@dataclass(frozen=True, slots=True)
class GroupedRows:
    """Aggregates of a read's rows. The read's columns are the keys; None means one group of all rows."""

    read: ReadShape
    measures: tuple[Measure, ...] = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class PairedRows:
    """A join of two reads of the table.

    Attributes:
        on: One column of each read.
        outer: If true, rows of the left read without a match are kept.
    """

    left: ReadShape
    right: ReadShape
    on: tuple[str, str]
    outer: bool


Shape: TypeAlias = ReadShape | Bound | FirstRows | GroupedRows | PairedRows


def reads_of(shape: Shape) -> tuple[ReadShape, ...]:
    """Return the plain reads that a shape consists of."""
    return (shape,) if isinstance(shape, ReadShape) else tuple(_reads(shape).values())


def _reads(shape: Shape) -> dict[str, ReadShape]:
    parts = {each.name: getattr(shape, each.name) for each in fields(shape)}
    return {name: part for name, part in parts.items() if isinstance(part, ReadShape)}


def answer(model: TableModel, shape: Shape) -> tuple[Columns, list[Row]]:
    """Return the columns and rows of a shape. The rows of `FirstRows` are in its order."""
    match shape:
        case ReadShape():
            return _visible_rows(model, shape), _matching_rows(model, shape)
        case Bound(read):
            return answer(model, read)
        case FirstRows(read, order, limit):
            ids = {f.name: f.id for f in model.columns_at(read.at)}
            rows = _matching_rows(model, read)
            for each in reversed(order):
                rows = _sorted(rows, ids[each.column], each)
            return _visible_rows(model, read), rows[:limit]
        case GroupedRows(read, measures=measures):
            return _group_rows(model, read, measures)
        case PairedRows():
            return _pair_rows(model, shape)
        case _:
            assert_never(shape)


def _visible_rows(model: TableModel, read: ReadShape) -> Columns:
    columns = model.columns_at(read.at)
    by_name = {f.name: f for f in columns}
    return columns if read.columns is None else tuple(by_name[n] for n in read.columns)


def _matching_rows(model: TableModel, read: ReadShape) -> list[Row]:
    """Return the rows that match the filter, with all columns of the table."""
    columns, rows, where = model.columns_at(read.at), model.rows(read.at), read.where
    if where is None:
        return rows
    return [r for r in rows if holds(where, {f.name: r.get(f.id) for f in columns}) is True]


def _sorted(rows: list[Row], id_: int, order: Order) -> list[Row]:
    nulls = [r for r in rows if r.get(id_) is None]
    rest = [r for r in rows if r.get(id_) is not None]
    rest.sort(key=lambda r: comparable(r[id_]), reverse=order.descending)
    return nulls + rest if order.nulls_first else rest + nulls


def _group_rows(model: TableModel, read: ReadShape, measures: Sequence[Measure]) -> tuple[Columns, list[Row]]:
    columns = {f.name: f for f in model.columns_at(read.at)}
    keys = () if read.columns is None else _visible_rows(model, read)
    groups: dict[tuple[Any, ...], list[Row]] = {} if keys else {(): []}
    for row in _matching_rows(model, read):
        groups.setdefault(tuple(row.get(f.id) for f in keys), []).append(row)
    sources = [None if name is None else columns[name] for _, name in measures]
    made = [
        Field(id=-1 - i, name=f"m{i}", type=_measure_expression(function, source))
        for i, ((function, _), source) in enumerate(zip(measures, sources, strict=True))
    ]
    rows = []
    for values, members in groups.items():
        row = {f.id: value for f, value in zip(keys, values, strict=True)}
        for column, (function, _), source in zip(made, measures, sources, strict=True):
            row[column.id] = _measure(function, [0 if source is None else r.get(source.id) for r in members])
        rows.append(row)
    return (*keys, *made), rows


def _measure_expression(function: str, source: Field | None) -> Type:
    """Return the type of a measure. The type of a sum has 38 digits."""
    if source is None or function == "count":
        return IntegerType(64)
    if function == "sum":
        return DecimalType(38, source.type.scale if isinstance(source.type, DecimalType) else 0)
    return source.type


def _measure(function: str, values: Sequence[Any]) -> Any:
    present = [v for v in values if v is not None]
    match function:
        case "count":
            return len(present)
        case _ if not present:
            return None
        case "sum":
            return sum(map(Decimal, present))
        case _:
            return (min if function == "min" else max)(present, key=comparable)


def _pair_rows(model: TableModel, shape: PairedRows) -> tuple[Columns, list[Row]]:
    sides = [(read, _visible_rows(model, read), _matching_rows(model, read)) for read in (shape.left, shape.right)]
    (_, left, left_rows), (_, right, right_rows) = sides
    ids = [
        next(f.id for f in model.columns_at(read.at) if f.name == name)
        for (read, *_), name in zip(sides, shape.on, strict=True)
    ]
    named = [replace(f, name=f"{side} {f.name}") for side, fields in (("a", left), ("b", right)) for f in fields]
    columns = tuple(replace(f, id=-1 - i) for i, f in enumerate(named))
    rows = []
    for row in left_rows:
        key = row.get(ids[0])
        partners: list[Row] = [r for r in right_rows if key is not None and r.get(ids[1]) == key]
        for partner in partners or ([{}] if shape.outer else []):
            values = [*(row.get(f.id) for f in left), *(partner.get(f.id) for f in right)]
            rows.append({-1 - i: value for i, value in enumerate(values)})
    return columns, rows


def text(shape: Shape, table: Callable[[Selector], str], name: Callable[[str], str] = quoted) -> str:
    """Return a query in DuckDB's dialect.

    Args:
        shape: The shape.
        table: A function that returns the text in FROM for a point of the history.
        name: A function that writes a column's name.
    """
    match shape:
        case ReadShape():
            return _select(shape, table, name, sql)
        case Bound(read):
            return _select(read, table, name, lambda where: sql(where, name=name, value=lambda type_, value: "?"))
        case FirstRows(read, order, limit):
            by = ", ".join(
                f"{name(o.column)} {'DESC' if o.descending else 'ASC'} NULLS {'FIRST' if o.nulls_first else 'LAST'}"
                for o in order
            )
            return f"{_select(read, table, name, sql)} ORDER BY {by} LIMIT {limit}"
        case GroupedRows(read, measures=measures):
            keys = [name(n) for n in read.columns or ()]
            calls = [f"{f}({'*' if n is None else name(n)}) AS {name(f'm{i}')}" for i, (f, n) in enumerate(measures)]
            rows = f"SELECT {', '.join(keys + calls)} FROM {table(read.at)}{_where(read, sql)}"
            return rows + (f" GROUP BY {', '.join(keys)}" if keys else "")
        case PairedRows(left, right, on, outer):
            shown = [
                f"{side}.{name(n)} AS {name(f'{side} {n}')}"
                for side, read in (("a", left), ("b", right))
                for n in read.columns or ()
            ]
            whole = [f"(SELECT * FROM {table(read.at)}{_where(read, sql)})" for read in (left, right)]
            join = f"{whole[0]} AS a {'LEFT JOIN' if outer else 'JOIN'} {whole[1]} AS b"
            return f"SELECT {', '.join(shown)} FROM {join} ON a.{name(on[0])} = b.{name(on[1])}"
        case _:
            assert_never(shape)


def parameters(shape: Bound) -> list[Any]:
    """Return the values of the parameters in the text of a shape, as Python values."""
    assert shape.read.where is not None
    epoch = dt.date(1970, 1, 1)
    return [
        epoch + dt.timedelta(days=value) if isinstance(type_, DateType) else value
        for type_, value in literals(shape.read.where)
    ]


def _select(
    read: ReadShape, table: Callable[[Selector], str], name: Callable[[str], str], condition: Callable[[Predicate], str]
) -> str:
    columns = "*" if read.columns is None else ", ".join(map(name, read.columns))
    return f"SELECT {columns} FROM {table(read.at)}{_where(read, condition)}"


def _where(read: ReadShape, condition: Callable[[Predicate], str]) -> str:
    return "" if read.where is None else f" WHERE {condition(read.where)}"
