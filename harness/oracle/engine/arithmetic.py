"""Sums, differences and products in a filter, in the types in which DuckDB computes them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, Literal

from harness.errors import EngineError, UnsupportedError
from harness.model.schema import DecimalType, FloatType, IntegerType, Type, UnknownType
from harness.oracle.engine.conversions import single
from harness.oracle.engine.sql_types import Term, Values, as_float

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_WIDE = Context(prec=200)
_FLOATS: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_DECIMALS = {"+": _WIDE.add, "-": _WIDE.subtract, "*": _WIDE.multiply}


def arithmetic(sign: str, left: Term, right: Term) -> Term:
    """`left sign right`, where sign is one of + - *; null if either is null.

    Raises:
        UnsupportedError: the oracle does not compute with these types.
    """
    types = left.type, right.type
    if any(isinstance(t, UnknownType) for t in types) or any(isinstance(t.literal, str) for t in (left, right)):
        raise _refused(sign, left, right)
    match types:
        case IntegerType(bits=a), IntegerType(bits=b):
            return _integers(sign, left, right, a, b)
        case (FloatType(), FloatType() | IntegerType() | DecimalType()) | (IntegerType() | DecimalType(), FloatType()):
            return _floats(sign, left, right)
        case (IntegerType() | DecimalType(), IntegerType() | DecimalType()):
            return _decimals(sign, left, right)
        case _:
            raise _refused(sign, left, right)


def negative(term: Term) -> Term:
    """`-term`. A literal stays one."""
    match term.type:
        case IntegerType(bits=bits) if isinstance(term.literal, int):
            value = -term.literal
            return Term(IntegerType(bits), lambda _: value, value)
        case IntegerType(bits=bits):
            return Term(term.type, lambda row: _fitting(_each(operator.neg, term, row), bits))
        case DecimalType():
            return Term(
                term.type, lambda row: _each(lambda v: -v if isinstance(v, int) else v.copy_negate(), term, row)
            )
        case FloatType():
            return Term(term.type, lambda row: _each(operator.neg, term, row))
        case other:
            raise UnsupportedError(f"Cannot evaluate the filter: the oracle does not know a negative {other}")


def _each(change: Callable[[Any], Any], term: Term, row: Values) -> Any:
    value = term.evaluate(row)
    return None if value is None else change(value)


def _both(compute: Callable[[Any, Any], Any], left: Term, right: Term, type_: Type) -> Term:
    def evaluate(row: Values) -> Any:
        first, second = left.evaluate(row), right.evaluate(row)
        return None if first is None or second is None else compute(first, second)

    return Term(type_, evaluate)


def _integers(sign: str, left: Term, right: Term, a: int, b: int) -> Term:
    """In the wider type; a literal takes the other side's type if it fits."""
    if isinstance(right.literal, int) and not isinstance(left.literal, int) and _fits(right.literal, a):
        bits = a
    elif isinstance(left.literal, int) and not isinstance(right.literal, int) and _fits(left.literal, b):
        bits = b
    else:
        bits = max(a, b)
    type_ = {8: IntegerType(8), 16: IntegerType(16), 32: IntegerType(32), 64: IntegerType(64)}[bits]
    return _both(lambda x, y: _fitting(_FLOATS[sign](x, y), bits), left, right, type_)


def _fits(value: int, bits: int) -> bool:
    limit: int = 2 ** (bits - 1)
    return -limit <= value < limit


def _fitting(value: int | None, bits: int) -> int | None:
    if value is not None and not _fits(value, bits):
        raise EngineError(f"Cannot evaluate the filter: {value} overflows {bits} bits")
    return value


def _floats(sign: str, left: Term, right: Term) -> Term:
    """In DOUBLE if one side is, else in FLOAT."""
    is_double = any(t.type == FloatType(64) for t in (left, right))
    bits: Literal[32, 64] = 64 if is_double else 32
    rounded = float if is_double else single
    return _both(
        lambda x, y: rounded(_FLOATS[sign](as_float(x, bits), as_float(y, bits))), left, right, FloatType(bits)
    )


def _decimals(sign: str, left: Term, right: Term) -> Term:
    """Exactly, in at most 38 digits."""
    (p, s), (q, t) = _size(left), _size(right)
    scale = s + t if sign == "*" else max(s, t)
    digits = p + q if sign == "*" else max(p - s, q - t) + scale + 1
    if scale > 38:
        raise _refused(sign, left, right)
    type_ = DecimalType(min(digits, 38), scale)

    def compute(x: Any, y: Any) -> Decimal:
        value = _DECIMALS[sign](Decimal(x), Decimal(y))
        if abs(value) >= Decimal(10) ** (type_.precision - scale):
            raise EngineError(f"Cannot evaluate the filter: {value} overflows {type_}")
        return value

    return _both(compute, left, right, type_)


def _size(term: Term) -> tuple[int, int]:
    match term.type:
        case DecimalType(precision=precision, scale=scale):
            return precision, scale
        case IntegerType(bits=bits):
            return (len(str(abs(term.literal))) if isinstance(term.literal, int) else _DIGITS[bits]), 0
        case other:
            raise AssertionError(other)


def _refused(sign: str, left: Term, right: Term) -> UnsupportedError:
    return UnsupportedError(f"Cannot evaluate the filter: the oracle does not compute {left.type} {sign} {right.type}")
