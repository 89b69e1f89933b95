"""Reads of drawn tables in every shape, mostly at points where deletes apply to rows."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from drawn.models.model import TableModel
from drawn.predicates import literals
from drawn.reads import Bound, FirstRows, GroupedRows, Measure, Order, PairedRows, ReadShape, Shape
from drawn.strategies.predicates import predicates
from drawn.strategies.types import Draw
from harness.metadata.model import schema as dt
from harness.suite.scenarios.model import Selector


@st.composite
def reads(draw: Draw, model: TableModel) -> Shape:
    """Draw a read in any shape, 59 of 60 times at a point where deletes apply to rows, if there is any.

    Hypothesis derives several examples from one that increased its coverage, so rare choices occur in groups.
    """
    points = model.points()[::-1]
    hiding = [at for at in points if model.hiding(at)]
    more = 59 * len(points) // max(1, len(hiding))
    chosen = hiding + points + hiding * more  # Hypothesis often draws the first or the last element
    at = draw(st.sampled_from(chosen))
    exact = [f for f in _readable_columns(model, at) if _is_exact(f)]
    bound = [f for f in exact if not isinstance(f.type, dt.TimestampType)]
    kinds = ["rows", *(["bound"] if bound else []), "count", *(["groups", "first", "pairs"] if exact else [])]
    match draw(st.sampled_from(kinds)):
        case "bound":
            where = draw(predicates(bound).filter(lambda p: any(True for _ in literals(p))))
            return Bound(ReadShape(at=at, columns=draw(_some(_readable_columns(model, at))), where=where))
        case "first":
            return _first(draw, model, at, exact)
        case "groups":
            return _groups(draw, model, at, exact)
        case "pairs":
            return _pairs(draw, model, at, chosen)
        case "count":
            return GroupedRows(ReadShape(at=at, where=_where(draw, model, at)), measures=(("count", None),))
        case _:
            shown = draw(st.one_of(st.none(), _some(model.columns_at(at))))
            return ReadShape(at=at, columns=shown, where=_where(draw, model, at))


def _readable_columns(model: TableModel, at: Selector) -> list[dt.Field]:
    """Return the columns whose types queries do not change. DuckDB lacks some of the table's types."""
    return [f for f in model.columns_at(at) if not any(_is_changed(g.type) for _, g in dt.walk((f,)))]


def _is_changed(type_: dt.Type) -> bool:
    match type_:
        case dt.FixedType() | dt.GeometryType() | dt.UnknownType() | dt.TimestampType(unit="ns", utc=True):
            return True
        case _:
            return False


_ORDERED = (dt.BooleanType, dt.DateType, dt.DecimalType, dt.IntegerType, dt.StringType, dt.TimestampType)


def _is_exact(f: dt.Field) -> bool:
    """Return whether values of the column are ordered and equal values are identical. Floats have two zeros."""
    return isinstance(f.type, _ORDERED)


def _some(columns: Sequence[dt.Field], *, max_size: int | None = None) -> st.SearchStrategy[tuple[str, ...]]:
    names = [f.name for f in columns]
    return st.lists(st.sampled_from(names), min_size=1, max_size=max_size, unique=True).map(tuple)


def _where(draw: Draw, model: TableModel, at: Selector) -> Any:
    conditions = predicates(model.columns_at(at))
    return draw(st.one_of(st.none(), conditions, conditions))


def _first(draw: Draw, model: TableModel, at: Selector, exact: Sequence[dt.Field]) -> FirstRows:
    shown, by = draw(_some(exact)), draw(_some(exact))
    names = dict.fromkeys((*by, *shown))
    order = [Order(column=n, descending=draw(st.booleans()), nulls_first=draw(st.booleans())) for n in names]
    return FirstRows(
        ReadShape(at=at, columns=shown, where=_where(draw, model, at)), tuple(order), draw(st.integers(1, 4))
    )


def _groups(draw: Draw, model: TableModel, at: Selector, exact: Sequence[dt.Field]) -> GroupedRows:
    measures: list[Measure] = [("count", None)]
    for f in exact:
        measures += [("count", f.name), ("min", f.name), ("max", f.name)]
        match f.type:
            case dt.IntegerType(bits=bits) if bits < 64:  # beyond 64 bits, only DuckDB sums longs exactly
                measures.append(("sum", f.name))
            case dt.DecimalType(precision=precision) if precision <= 28:
                measures.append(("sum", f.name))
    keys = draw(st.one_of(st.none(), _some(exact, max_size=2)))
    chosen = draw(st.lists(st.sampled_from(measures), min_size=1, max_size=3, unique=True))
    return GroupedRows(ReadShape(at=at, columns=keys, where=_where(draw, model, at)), measures=tuple(chosen))


def _pairs(draw: Draw, model: TableModel, at: Selector, points: Sequence[Selector]) -> PairedRows:
    """Draw a join with a read at another time or with another filter."""
    other = draw(st.sampled_from(points))
    left, right = _readable_columns(model, at), _readable_columns(model, other)
    keys = [(f.name, g.name) for f in left for g in right if _is_exact(f) and f.type == g.type]
    if not keys:
        other = at
        keys = [(f.name, f.name) for f in left if _is_exact(f)]
    sides = [
        ReadShape(
            at=point, columns=draw(_some(_readable_columns(model, point), max_size=3)), where=_where(draw, model, point)
        )
        for point in (at, other)
    ]
    return PairedRows(sides[0], sides[1], draw(st.sampled_from(keys)), draw(st.booleans()))
