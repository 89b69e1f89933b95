"""Arithmetic of decimals and of 128-bit integers, exact as on DuckDB.

DuckDB's result has at most 38 digits, all those after the point among them, and a value beyond is an error. Spark keeps
digits after the point only down to six where 38 are not enough; so factors are narrowed first, and a value for which
that is too narrow is an error there.
"""

from __future__ import annotations

from sqlglot import exp

from harness.model.schema import DecimalType, IntegerType, Type
from harness.queries.transpile.refusal import refused
from harness.queries.transpile.values import HUGE, Typed, as_decimal, coerced, type_name

_MOST = 38
_FEWEST_BEFORE_POINT = 12
"""Digits before the point that narrowed operands keep, at least; fewer would refuse everyday values."""


def arithmetic(node: exp.Expr, left: Typed, sign: str, right: Typed) -> Typed | None:
    """A sum, difference or product; None where the operands are of other types. Raises UnsupportedError."""
    types = (left.type, right.type)
    if not all(isinstance(t, IntegerType | DecimalType) or t == HUGE for t in types):
        return None
    if any(isinstance(t, DecimalType) for t in types):
        return _decimals(node, left, sign, right)
    if HUGE in types:
        a, b = (coerced(v, HUGE, sign) for v in (left, right))
        return Typed(f"CAST(({a} {sign} {b}) AS {type_name(HUGE)})", HUGE)
    return None


def _decimals(node: exp.Expr, left: Typed, sign: str, right: Typed) -> Typed:
    a, b = _decimal(left.type), _decimal(right.type)
    if sign == "*":
        precision, scale = a.precision + b.precision, a.scale + b.scale
    else:
        scale = max(a.scale, b.scale)
        precision = max(a.precision - a.scale, b.precision - b.scale) + scale + 1
    # Spark takes one digit more for a product.
    if precision + 1 > _MOST and scale > 6:
        found = _narrowed(a, b, sign, scale)
        if found is None:
            raise refused(node, f"{left.type} {sign} {right.type}, which may need more than 38 digits,")
        a, b = found
    result = DecimalType(min(precision, _MOST), scale)
    texts = [_as(v, t, sign) for v, t in ((left, a), (right, b))]
    return Typed(f"CAST(({texts[0]} {sign} {texts[1]}) AS {type_name(result)})", result)


def _narrowed(a: DecimalType, b: DecimalType, sign: str, scale: int) -> tuple[DecimalType, DecimalType] | None:
    """Types of the operands with which Spark keeps all digits; None where too few would stand before the point."""
    if sign != "*":
        narrow = DecimalType(_MOST - 1, scale)
        fits = narrow.precision - scale >= _FEWEST_BEFORE_POINT
        return (narrow, narrow) if fits else None
    left = min(a.precision, _MOST - 1 - b.precision) if a.precision >= b.precision else a.precision
    right = min(b.precision, _MOST - 1 - left)
    narrow_a, narrow_b = DecimalType(left, a.scale), DecimalType(right, b.scale)
    narrowed = [new for new, old in ((narrow_a, a), (narrow_b, b)) if new != old]
    fits = scale <= _MOST and all(n.precision - n.scale >= _FEWEST_BEFORE_POINT for n in narrowed)
    return (narrow_a, narrow_b) if fits else None


def _decimal(type_: Type) -> DecimalType:
    return DecimalType(_MOST, 0) if type_ == HUGE else as_decimal(type_)


def _as(value: Typed, type_: DecimalType, sign: str) -> str:
    """A value in a type; a 128-bit integer is a decimal already."""
    if value.type == HUGE and type_ == DecimalType(_MOST, 0):
        return value.sql
    return coerced(value, type_, sign)
