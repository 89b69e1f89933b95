"""Functions of numbers."""

from __future__ import annotations

import math
from functools import cache

from harness.metadata.model.schema import DecimalType, FloatType, IntegerType
from harness.queries.transpile import spark_text
from harness.queries.transpile.functions.registry import (
    NUMBER,
    Call,
    Function,
    Lowering,
    Signature,
    formed,
    whole,
)
from harness.queries.transpile.values import BOOLEAN, DOUBLE, Typed, alike, as_decimal, coerced, is_number, type_name

_TINY = IntegerType(8)
_INFINITY = spark_text.literal(math.inf, DOUBLE)


def _number(call: Call, kind: type = object) -> Typed:
    """The first argument, of a kind of numbers. Raises UnsupportedError."""
    value = call.value(0)
    if not is_number(value.type) or not isinstance(value.type, kind):
        raise call.refused(f"{call.name} of {value.type}")
    return value


def _abs(call: Call) -> Typed | None:
    value = _number(call)
    return Typed(f"ABS({value.sql})", value.type)


def _sign(call: Call) -> Typed | None:
    value = _number(call)
    of_nan = f"WHEN ISNAN({value.sql}) THEN 0Y " if isinstance(value.type, FloatType) else ""
    return Typed(f"CASE {of_nan}WHEN {value.sql} > 0 THEN 1Y WHEN {value.sql} < 0 THEN -1Y {_ZERO % value.sql}", _TINY)


_ZERO = "WHEN %s IS NOT NULL THEN 0Y END"


# Spark's functions of doubles give a BIGINT, which holds neither NaN nor 1e300 nor -0.0.


def _floor(double: str) -> str:
    return f"CASE WHEN RINT({double}) > {double} THEN RINT({double}) - 1D ELSE RINT({double}) END"


def _nearest(double: str) -> str:
    """Half away from zero: the shortest text of a double, which Spark rounds, ends in .5 where the double does."""
    return f"(ROUND(ABS({double}), 0) * SIGNUM({double}))"


def _whole_number(name: str) -> Lowering:
    """`floor`, `ceil` and `trunc`."""

    def lower(call: Call) -> Typed | None:
        value = _number(call)
        match value.type:
            case IntegerType() if name == "trunc":
                return value
            case DecimalType(precision=precision):
                whole_type = DecimalType(precision, 0)
                function = {"floor": "FLOOR", "ceil": "CEIL"}.get(name)
                sql = value.sql
                if function is None:
                    sql = f"CASE WHEN {sql} < 0 THEN CEIL({sql}) ELSE FLOOR({sql}) END"
                else:
                    sql = f"{function}({sql})"
                return Typed(f"CAST({sql} AS {type_name(whole_type)})", whole_type)
            case IntegerType():
                return Typed(f"CAST({value.sql} AS DOUBLE)", DOUBLE)
            case FloatType() as type_:
                double = value.sql if type_ == DOUBLE else f"CAST({value.sql} AS DOUBLE)"
                # The sign of a zero is that of the number.
                sql = {
                    "floor": _floor(double),
                    "ceil": f"(- {_floor(f'(- {double})')})",
                    "trunc": f"({_floor(f'ABS({double})')} * SIGNUM({double}))",
                }[name]
                return Typed(f"CAST({sql} AS {type_name(type_)})", type_)
            case _:
                raise call.refused(f"{call.name} of {value.type}")

    return lower


def _round(call: Call) -> Typed | None:
    value = call.value(0)
    places = whole(call.value(1)) if len(call.arguments) == 2 else 0
    if len(call.arguments) > 2 or places is None:
        raise call.refused("round to a number of places that is no literal")
    match value.type:
        case DecimalType(precision=precision, scale=scale) if places >= 0:
            if places >= scale:
                return value
            type_ = DecimalType(precision, places)
            return Typed(f"CAST(ROUND({value.sql}, {places}) AS {type_name(type_)})", type_)
        case IntegerType() if places >= 0:
            return value
        case FloatType(bits=64) if -22 <= places <= 22:
            return Typed(_rounded(value.sql, places, given=len(call.arguments) == 2), DOUBLE)
        case _:
            raise call.refused(f"round of {value.type} to {places} places")


def _rounded(double: str, places: int, *, given: bool) -> str:
    """A double rounded as on DuckDB: times a power of ten, to the nearest whole number, and divided again.

    Up to 2.0.0, DuckDB rounds the double that is nearest to the product, later the product: 2.675 times 100, whose
    nearest double is 267.5, becomes 267.
    """
    if not given:
        return _nearest(double)
    power = spark_text.literal(10.0 ** abs(places), DOUBLE)
    if places < 0:
        done = f"({_nearest(f'({double} / {power})')} * {power})"
        message = spark_text.text("round() of NaN or infinity to places before the point, which are 0.0 for DuckDB 1.5")
        return f"CASE WHEN ABS({double}) < {_INFINITY} OR {double} IS NULL THEN {done} ELSE RAISE_ERROR({message}) END"
    product = f"({double} * {power})"
    nearest = _nearest(product)
    if _asks_exact_products():
        # Unrounded, the product is 5 ** places times `part`. A remainder is exact: below half, the product was less.
        part, half = f"ABS({double} * {2.0**places!r}D)", f"ABS({double} * {2.0**places / 2!r}D)"
        left = f"(ABS({product}) % {part})"
        lacks = f"ABS({product}) % 1D = 0.5D AND {left} > 0D AND {left} < {half}"
        nearest = (
            f"(CASE WHEN {lacks} THEN ABS({product}) - 0.5D ELSE ROUND(ABS({product}), 0) END * SIGNUM({product}))"
        )
    return f"CASE WHEN ABS({product}) < {_INFINITY} THEN {nearest} / {power} ELSE {double} END"


@cache
def _asks_exact_products() -> bool:
    import duckdb

    with duckdb.connect() as connection:
        return connection.execute("SELECT round(2.675::DOUBLE, 2) = 2.67").fetchall() == [(True,)]


def _remainder(call: Call) -> Typed | None:
    left, right = call.value(0), call.value(1)
    if not all(isinstance(v.type, IntegerType | DecimalType | FloatType) for v in (left, right)):
        raise call.refused(f"% of {left.type} and {right.type}")
    types = (left.type, right.type)
    if any(isinstance(t, DecimalType) for t in types) and not any(isinstance(t, FloatType) for t in types):
        return _decimal_remainder(call, left, right)
    (a, b), type_ = alike((left, right), "%")
    if isinstance(type_, FloatType):
        zero, nan = spark_text.literal(0.0, type_), spark_text.literal(math.nan, type_)
        return Typed(f"CASE WHEN {a} IS NOT NULL AND {b} = {zero} THEN {nan} ELSE {a} % {b} END", type_)
    return Typed(f"({a} % {b})", type_)


def _decimal_remainder(call: Call, left: Typed, right: Typed) -> Typed:
    a, b = as_decimal(left.type), as_decimal(right.type)
    scale = max(a.scale, b.scale)
    precision = max(a.precision - a.scale, b.precision - b.scale) + scale
    if precision > 38:
        raise call.refused(f"{left.type} % {right.type}, which may need more than 38 digits,")
    type_ = DecimalType(precision, scale)
    return Typed(f"CAST(({coerced(left, type_, '%')} % {coerced(right, type_, '%')}) AS {type_name(type_)})", type_)


def _bits(sign: str) -> Lowering:
    def lower(call: Call) -> Typed | None:
        values = [call.value(0), call.value(1)]
        if not all(isinstance(v.type, IntegerType) for v in values):
            raise call.refused(f"{call.name} of {', '.join(str(v.type) for v in values)}")
        (a, b), type_ = alike(values, call.name)
        return Typed(f"({a} {sign} {b})", type_)

    return lower


def _inverted(call: Call) -> Typed | None:
    value = _number(call, IntegerType)
    return Typed(f"(~ {value.sql})", value.type)


def _shifted(call: Call) -> Typed | None:
    """`<<` and `>>` by a literal: Spark takes the count modulo the width, in 32 or 64 bits."""
    value, count = call.value(0), whole(call.value(1))
    if not isinstance(value.type, IntegerType) or count is None or not 0 <= count < value.type.bits:
        raise call.refused(f"{call.name} by what is no literal below the width of {value.type}")
    if call.value(1).type != value.type and value.type.bits < 32:
        raise call.refused(f"{call.name} of {value.type}", "cast to INTEGER")
    if call.name == ">>":
        return Typed(f"CAST(SHIFTRIGHT({value.sql}, {count}) AS {type_name(value.type)})", value.type)
    # As a product, which overflows where DuckDB's shift does.
    factor = spark_text.integer(2**count, 64)
    wide = f"CAST({value.sql} AS BIGINT)"
    negative = f"WHEN {value.sql} < 0 THEN RAISE_ERROR('a left shift of a negative number')"
    return Typed(f"CASE {negative} ELSE CAST({wide} * {factor} AS {type_name(value.type)}) END", value.type)


def _bit_count(call: Call) -> Typed | None:
    value = _number(call)
    if not isinstance(value.type, IntegerType):
        raise call.refused(f"{call.name} of {value.type}")
    mask = f" & {2**value.type.bits - 1}L" if value.type.bits < 64 else ""
    return Typed(f"CAST(BIT_COUNT(CAST({value.sql} AS BIGINT){mask}) AS TINYINT)", _TINY)


def _special(condition: str) -> Lowering:
    def lower(call: Call) -> Typed | None:
        return Typed(condition.format(_number(call, FloatType).sql, _INFINITY), BOOLEAN)

    return lower


def _of_doubles(names: tuple[str, ...], spark: str, count: int = 1) -> Function:
    return formed(names, Signature((NUMBER,) * count, DOUBLE, spark))


# C has 1 for any power of 1, and for infinite powers of -1.
_POWER = (
    "CASE WHEN {0} = 1D AND {1} IS NOT NULL THEN 1D "
    f"WHEN {{0}} = -1D AND ABS({{1}}) = {_INFINITY} THEN 1D ELSE POWER({{0}}, {{1}}) END"
)
# Spark's are null where there is no logarithm.
_LOGARITHM = (
    f"CASE WHEN {{0}} > 0D THEN LN({{0}}) WHEN {{0}} = 0D THEN {spark_text.literal(-math.inf, DOUBLE)} "
    f"WHEN {{0}} < 0D THEN {spark_text.literal(math.nan, DOUBLE)} END"
)

FUNCTIONS = (
    Function(("abs", "@"), _abs, 1),
    Function(("sign",), _sign, 1),
    Function(("floor",), _whole_number("floor"), 1),
    Function(("ceil", "ceiling"), _whole_number("ceil"), 1),
    Function(("trunc",), _whole_number("trunc"), 1),
    Function(("round",), _round),
    Function(("mod", "%"), _remainder, 2),
    _of_doubles(("sqrt",), "SQRT({0})"),
    _of_doubles(("pow", "power", "**", "^"), _POWER, 2),
    _of_doubles(("exp",), "EXP({0})"),
    *(
        _of_doubles(names, _LOGARITHM.replace("LN", names[0].upper()))
        for names in (("ln",), ("log10", "log"), ("log2",))
    ),
    *(
        _of_doubles((name,), f"{name.upper()}({{0}})")
        for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")
    ),
    _of_doubles(("radians",), f"({{0}} * {math.pi / 180!r}D)"),
    _of_doubles(("degrees",), f"({{0}} * {180 / math.pi!r}D)"),
    _of_doubles(("pi",), f"{math.pi!r}D", 0),
    Function(("&",), _bits("&"), 2),
    Function(("|",), _bits("|"), 2),
    Function(("xor",), _bits("^"), 2),
    Function(("~",), _inverted, 1),
    Function(("<<", ">>"), _shifted, 2),
    Function(("bit_count",), _bit_count, 1),
    Function(("isinf",), _special("(ABS({0}) = {1})"), 1),
    Function(("isfinite",), _special("(ABS({0}) < {1})"), 1),
    Function(
        (
            *("factorial", "gcd", "greatest_common_divisor", "lcm", "least_common_multiple"),
            *("even", "gamma", "lgamma"),
        ),
        refused="compute it before",
    ),
    Function(("cbrt",), refused="use pow(…, 1.0 / 3)"),
    Function(("random", "uuid", "gen_random_uuid"), refused="bind the values as a column"),
)
