"""Functions of numbers."""

from __future__ import annotations

import math
from functools import cache

from harness.engines.spark.transpile import spark_text
from harness.engines.spark.transpile.functions.registry import (
    DECIMAL,
    FLOATING,
    NUMBER,
    NUMERIC,
    WHOLE,
    Call,
    Function,
    Lowering,
    Parameter,
    Signature,
    first_type,
    function_of_forms,
)
from harness.engines.spark.transpile.values import (
    BOOLEAN,
    DOUBLE,
    TypedSql,
    as_decimal,
    coerce,
    type_name,
    with_common_type,
)
from harness.metadata.model import schema as dt

_TINY = dt.IntegerType(8)
_INFINITY = spark_text.literal(math.inf, DOUBLE)


# Spark's functions of doubles return a BIGINT, which can hold neither NaN nor 1e300 nor -0.0.


def _floor(double: str) -> str:
    return f"CASE WHEN RINT({double}) > {double} THEN RINT({double}) - 1D ELSE RINT({double}) END"


def _nearest(double: str) -> str:
    """Round half away from zero. Spark rounds the shortest text of a double, which ends in .5 if the double does."""
    return f"(ROUND(ABS({double}), 0) * SIGNUM({double}))"


def _as_double(value: TypedSql) -> str | None:
    return NUMBER(value) if isinstance(value.type, dt.FloatType) else None


WIDENED: Parameter = _as_double
"""A floating-point number, as a DOUBLE."""


def _to_whole(names: tuple[str, ...], whole: Signature, decimal: str, double: str) -> Function:
    """Return the entry for `floor`, `ceil`, or `trunc`, from its forms for integers, decimals, and doubles."""
    return function_of_forms(
        names,
        whole,
        Signature((DECIMAL,), lambda t: dt.DecimalType(t.precision, 0), f"CAST({decimal} AS {{type}})"),
        Signature((WIDENED,), first_type, f"CAST({double} AS {{type}})"),
    )


def _round(call: Call) -> TypedSql | None:
    value = call.value(0)
    places = call.value(1).number if len(call.arguments) == 2 else 0
    if len(call.arguments) > 2 or places is None:
        raise call.refusal("round to a number of places that is not a literal")
    match value.type:
        case dt.DecimalType(precision=precision, scale=scale) if places >= 0:
            if places >= scale:
                return value
            type_ = dt.DecimalType(precision, places)
            return TypedSql(f"CAST(ROUND({value.sql}, {places}) AS {type_name(type_)})", type_)
        case dt.IntegerType() if places >= 0:
            return value
        case dt.FloatType(bits=64) if -22 <= places <= 22:
            return TypedSql(_round_double(value.sql, places, has_places=len(call.arguments) == 2), DOUBLE)
        case _:
            raise call.refusal(f"round of {value.type} to {places} places")


def _round_double(double: str, places: int, *, has_places: bool) -> str:
    """Round a double like DuckDB: multiply by a power of ten, round to the nearest integer, and divide again.

    DuckDB up to 2.0.0 rounds the double that is nearest to the product; later versions round the exact product. For
    2.675 and 2 places, the exact product is less than 267.5, but the nearest double is 267.5. So later versions return
    2.67.
    """
    if not has_places:
        return _nearest(double)
    power = spark_text.literal(10.0 ** abs(places), DOUBLE)
    if places < 0:
        done = f"({_nearest(f'({double} / {power})')} * {power})"
        message = spark_text.text("round() of NaN or infinity to places before the point, which are 0.0 for DuckDB 1.5")
        return f"CASE WHEN ABS({double}) < {_INFINITY} OR {double} IS NULL THEN {done} ELSE RAISE_ERROR({message}) END"
    product = f"({double} * {power})"
    nearest = _nearest(product)
    if _asks_exact_products():
        # The exact product is 5 ** places times `part`. The remainder is exact: if it is below half, the product was
        # less than .5.
        part, half = f"ABS({double} * {2.0**places!r}D)", f"ABS({double} * {2.0**places / 2!r}D)"
        remainder = f"(ABS({product}) % {part})"
        lacks = f"ABS({product}) % 1D = 0.5D AND {remainder} > 0D AND {remainder} < {half}"
        nearest = (
            f"(CASE WHEN {lacks} THEN ABS({product}) - 0.5D ELSE ROUND(ABS({product}), 0) END * SIGNUM({product}))"
        )
    return f"CASE WHEN ABS({product}) < {_INFINITY} THEN {nearest} / {power} ELSE {double} END"


@cache
def _asks_exact_products() -> bool:
    import duckdb

    with duckdb.connect() as connection:
        return connection.execute("SELECT round(2.675::DOUBLE, 2) = 2.67").fetchall() == [(True,)]


def _remainder(call: Call) -> TypedSql | None:
    left, right = call.values()
    types = (left.type, right.type)
    if not all(isinstance(t, dt.IntegerType | dt.DecimalType | dt.FloatType) for t in types):
        return None
    if any(isinstance(t, dt.DecimalType) for t in types) and not any(isinstance(t, dt.FloatType) for t in types):
        a, b = as_decimal(left.type), as_decimal(right.type)
        scale = max(a.scale, b.scale)
        precision = max(a.precision - a.scale, b.precision - b.scale) + scale
        if precision > 38:
            raise call.refusal(f"{left.type} % {right.type}, which may need more than 38 digits,")
        exact = dt.DecimalType(precision, scale)
        sql = f"({coerce(left, exact, '%')} % {coerce(right, exact, '%')})"
        return TypedSql(f"CAST({sql} AS {type_name(exact)})", exact)
    (dividend, divisor), type_ = with_common_type((left, right), "%")
    sql = f"{dividend} % {divisor}"
    if isinstance(type_, dt.FloatType):
        zero, nan = spark_text.literal(0.0, type_), spark_text.literal(math.nan, type_)
        return TypedSql(f"CASE WHEN {dividend} IS NOT NULL AND {divisor} = {zero} THEN {nan} ELSE {sql} END", type_)
    return TypedSql(f"({sql})", type_)


def _bits(sign: str) -> Lowering:
    def lower(call: Call) -> TypedSql | None:
        values = call.values()
        if not all(isinstance(v.type, dt.IntegerType) for v in values):
            return None
        (a, b), type_ = with_common_type(values, call.name)
        return TypedSql(f"({a} {sign} {b})", type_)

    return lower


def _shift(call: Call) -> TypedSql | None:
    """Translate `<<` and `>>` by a literal. Spark takes the count modulo the width, in 32 or 64 bits."""
    value, count = call.value(0), call.value(1).number
    if not isinstance(value.type, dt.IntegerType) or count is None or not 0 <= count < value.type.bits:
        raise call.refusal(f"{call.name} by a count that is not a literal below the width of {value.type}")
    if call.value(1).type != value.type and value.type.bits < 32:
        raise call.refusal(f"{call.name} of {value.type}", "cast to INTEGER")
    if call.name == ">>":
        return TypedSql(f"CAST(SHIFTRIGHT({value.sql}, {count}) AS {type_name(value.type)})", value.type)
    # A product overflows in the same cases as DuckDB's shift.
    factor = spark_text.integer(2**count, 64)
    wide = f"CAST({value.sql} AS BIGINT)"
    negative = f"WHEN {value.sql} < 0 THEN RAISE_ERROR('a left shift of a negative number')"
    return TypedSql(f"CASE {negative} ELSE CAST({wide} * {factor} AS {type_name(value.type)}) END", value.type)


def _bit_count(call: Call) -> TypedSql | None:
    value = call.value(0)
    if not isinstance(value.type, dt.IntegerType):
        return None
    mask = f" & {2**value.type.bits - 1}L" if value.type.bits < 64 else ""
    return TypedSql(f"CAST(BIT_COUNT(CAST({value.sql} AS BIGINT){mask}) AS TINYINT)", _TINY)


def _double_function(names: tuple[str, ...], spark: str, count: int = 1) -> Function:
    return function_of_forms(names, Signature((NUMBER,) * count, DOUBLE, spark))


# C defines any power of 1, and infinite powers of -1, as 1.
_POWER = (
    "CASE WHEN {0} = 1D AND {1} IS NOT NULL THEN 1D "
    f"WHEN {{0}} = -1D AND ABS({{1}}) = {_INFINITY} THEN 1D ELSE POWER({{0}}, {{1}}) END"
)
# Spark's logarithm is null if it is not defined.
_LOGARITHM = (
    f"CASE WHEN {{0}} > 0D THEN LN({{0}}) WHEN {{0}} = 0D THEN {spark_text.literal(-math.inf, DOUBLE)} "
    f"WHEN {{0}} < 0D THEN {spark_text.literal(math.nan, DOUBLE)} END"
)
_SIGN = "WHEN {0} > 0 THEN 1Y WHEN {0} < 0 THEN -1Y WHEN {0} IS NOT NULL THEN 0Y END"
_AS_DOUBLE = Signature((WHOLE,), DOUBLE, "CAST({0} AS DOUBLE)")

FUNCTIONS = (
    function_of_forms(("abs", "@"), Signature((NUMERIC,), first_type, "ABS({0})")),
    function_of_forms(
        ("sign",),
        Signature((FLOATING,), _TINY, f"CASE WHEN ISNAN({{0}}) THEN 0Y {_SIGN}"),
        Signature((NUMERIC,), _TINY, f"CASE {_SIGN}"),
    ),
    # A zero keeps the sign of the number.
    _to_whole(("floor",), _AS_DOUBLE, "FLOOR({0})", _floor("{0}")),
    _to_whole(("ceil", "ceiling"), _AS_DOUBLE, "CEIL({0})", f"(- {_floor('(- {0})')})"),
    _to_whole(
        ("trunc",),
        Signature((WHOLE,), first_type, "{0}"),
        "CASE WHEN {0} < 0 THEN CEIL({0}) ELSE FLOOR({0}) END",
        f"({_floor('ABS({0})')} * SIGNUM({{0}}))",
    ),
    Function(("round",), _round),
    Function(("mod", "%"), _remainder, 2),
    _double_function(("sqrt",), "SQRT({0})"),
    _double_function(("pow", "power", "**", "^"), _POWER, 2),
    _double_function(("exp",), "EXP({0})"),
    *(
        _double_function(names, _LOGARITHM.replace("LN", names[0].upper()))
        for names in (("ln",), ("log10", "log"), ("log2",))
    ),
    *(
        _double_function((name,), f"{name.upper()}({{0}})")
        for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")
    ),
    _double_function(("radians",), f"({{0}} * {math.pi / 180!r}D)"),
    _double_function(("degrees",), f"({{0}} * {180 / math.pi!r}D)"),
    _double_function(("pi",), f"{math.pi!r}D", 0),
    Function(("&",), _bits("&"), 2),
    Function(("|",), _bits("|"), 2),
    Function(("xor",), _bits("^"), 2),
    function_of_forms(("~",), Signature((WHOLE,), first_type, "(~ {0})")),
    Function(("<<", ">>"), _shift, 2),
    Function(("bit_count",), _bit_count, 1),
    function_of_forms(("isinf",), Signature((FLOATING,), BOOLEAN, f"(ABS({{0}}) = {_INFINITY})")),
    function_of_forms(("isfinite",), Signature((FLOATING,), BOOLEAN, f"(ABS({{0}}) < {_INFINITY})")),
    Function(
        (
            *("factorial", "gcd", "greatest_common_divisor", "lcm", "least_common_multiple"),
            *("even", "gamma", "lgamma"),
        ),
        alternative="compute it before",
    ),
    Function(("cbrt",), alternative="use pow(…, 1.0 / 3)"),
    Function(("random", "uuid", "gen_random_uuid"), alternative="bind the values as a column"),
)
