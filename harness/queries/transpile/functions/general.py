"""Functions of values of any type: nulls, and the greatest of several."""

from __future__ import annotations

from sqlglot import exp

from harness.model.schema import ListType, MapType, StructType
from harness.queries.transpile.functions.registry import Call, Function, Kind
from harness.queries.transpile.values import Typed, alike


def _first(call: Call) -> Typed:
    return _several(call, "COALESCE")


def _greatest(call: Call) -> Typed:
    return _ordered(call, "GREATEST")


def _least(call: Call) -> Typed:
    return _ordered(call, "LEAST")


def _ordered(call: Call, name: str) -> Typed:
    found = _several(call, name)
    if isinstance(found.type, ListType | StructType | MapType):
        raise call.refused(f"{call.name} of {found.type}")
    return found


def _several(call: Call, name: str) -> Typed:
    values = [call.value(place) for place in range(len(call.arguments))]
    if len(values) == 1:
        return values[0]
    texts, type_ = alike(values, name)
    return Typed(f"{name}({', '.join(texts)})", type_)


def _null_if(call: Call) -> Typed:
    subject = call.value(0)
    equal = exp.EQ(this=call.arguments[0].copy(), expression=call.arguments[1].copy())
    return Typed(f"CASE WHEN {call.expressions.translate(equal).sql} THEN NULL ELSE {subject.sql} END", subject.type)


_COMMON = "values that have a type in common without a cast of text"

FUNCTIONS = (
    Function(
        names=("coalesce", "ifnull"),
        kind=Kind.GENERAL,
        lowering=_first,
        written="COALESCE",
        agree=_COMMON,
        outside="refused: cast to one type",
        draws=("coalesce({text}, {text})", "ifnull({double}, {double})", "coalesce({long}, {int}, 0)"),
    ),
    Function(
        names=("greatest",),
        kind=Kind.GENERAL,
        lowering=_greatest,
        written="GREATEST",
        agree=f"{_COMMON}, not nested",
        outside="refused: cast to one type",
        draws=("greatest({double}, {double})", "greatest({text}, {text}, 'b')", "greatest({date}, {date})"),
    ),
    Function(
        names=("least",),
        kind=Kind.GENERAL,
        lowering=_least,
        written="LEAST",
        agree=f"{_COMMON}, not nested",
        outside="refused: cast to one type",
        draws=("least({double}, {double})", "least({long}, {int}, 7)", "least({timestamp}, {timestamp})"),
    ),
    Function(
        names=("nullif",),
        kind=Kind.GENERAL,
        lowering=_null_if,
        written="CASE WHEN a = b THEN NULL ELSE a END",
        agree=_COMMON,
        outside="refused: cast to one type",
        draws=("nullif({int}, {int})", "nullif({text}, '')", "nullif({double}, {double})"),
    ),
)
