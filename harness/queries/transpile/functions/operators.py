"""Operators and casts, for the docs and the tests: `expressions`, `comparisons` and `casts` lower them."""

from __future__ import annotations

from typing import Unpack

from harness.queries.transpile.functions.registry import Domain, Function, Kind


def _operator(names: tuple[str, ...], takes: str, written: str, *draws: str, **domain: Unpack[Domain]) -> Function:
    return Function(names=names, kind=Kind.OPERATORS, takes=takes, written=written, draws=draws, **domain)


_COMMON = "values that have a type in common without a cast of text"
_CAST = "refused: cast to one type"

FUNCTIONS = (
    _operator(
        ("+", "-", "*"),
        "numbers; dates and intervals",
        "in the type that DuckDB gives",
        "({count} + {place})",
        "({double} * {double})",
        "({decimal} - {decimal})",
        "({near} + INTERVAL 1 MONTH)",
        "({near} - INTERVAL '1 day 2 hours')",
        "({near} + {count} * INTERVAL 1 DAY)",
        "({date} - {date})",
        agree="decimals of up to 38 digits",
        outside="refused: decimals that may need more digits",
    ),
    _operator(
        ("/",),
        "numbers",
        "a / b of doubles; by 0 an infinity with the sign of a, or NaN",
        "({int} / 7)",
        "({decimal} / 3)",
        "({double} / {double})",
        "({int} / {decimal})",
        outside="refused: 32-bit floats",
    ),
    _operator(("//",), "integers", "a DIV b", "({int} // 7)", outside="refused: other numbers"),
    _operator(
        ("=", "<>", "<", "<=", ">", ">=", "BETWEEN", "IS DISTINCT FROM"),
        "any, any",
        "the same",
        "({double} < {double})",
        "({text} IS DISTINCT FROM {text})",
        "({date} <= {timestamp})",
        "({int} BETWEEN {int} AND {long})",
        "(({timestamp} - {timestamp}) > INTERVAL 1 DAY)",
        "(({int}, {text}) = ({int}, {text}))",
        agree=f"{_COMMON}, not nested; tuples by = alone",
        outside=_CAST,
    ),
    _operator(
        ("IN",),
        "any, values or a list",
        "IN, ARRAY_CONTAINS",
        "({int} IN (1, 2, NULL))",
        "({double} NOT IN (0.5, 'nan'))",
        "({int} IN {ints})",
        "(({int}, {text}) IN ((1, 'a'), (0, NULL)))",
        "({int} IN [1, NULL])",
        agree=_COMMON,
        outside=_CAST,
    ),
    _operator(
        ("CASE", "if"),
        "BOOLEAN, any",
        "CASE",
        "CASE WHEN {boolean} THEN {int} ELSE {long} END",
        "CASE {int} WHEN 1 THEN 'a' WHEN {int} THEN {text} END",
        "if({boolean}, {double}, 0)",
        agree=_COMMON,
        outside=_CAST,
    ),
    _operator(
        ("CAST", "::"),
        "any",
        "CAST, with DuckDB's rounding; texts behind a guard",
        "({decimal}::INT)",
        "({angle}::DECIMAL(10, 2))",
        "({date}::VARCHAR)",
        "({timestamp}::VARCHAR)",
        "({int}::VARCHAR::INT)",
        "({date}::VARCHAR::DATE)",
        "({ints}::BIGINT[])",
        "({timestamp}::DATE)",
        agree="numbers, dates and timestamps among each other; texts that both engines read alike, in plain digits",
        outside="an error for other texts; refused: floats as text, blobs, nested types, time zones",
    ),
    _operator(
        ("TRY_CAST",),
        "any",
        "TRY_CAST, with DuckDB's rounding; texts behind a guard",
        "TRY_CAST({int} AS TINYINT)",
        "TRY_CAST({double} AS INT)",
        "TRY_CAST({ascii} AS INT)",
        "TRY_CAST({ascii} AS DATE)",
        "TRY_CAST({decimal} AS DECIMAL(3, 1))",
        agree="as CAST; texts that neither engine reads are null",
        outside="an error for texts that one of them may read",
    ),
    _operator(
        ("AND", "OR", "NOT", "IS NULL", "IS TRUE"),
        "BOOLEAN",
        "the same",
        "({boolean} AND {int} > 1 OR NOT {boolean})",
        "({text} IS NULL)",
        "({boolean} IS NOT TRUE)",
    ),
    Function(names=("typeof", "pg_typeof"), kind=Kind.OPERATORS, refused="write the type as a text"),
    Function(names=("hash",), kind=Kind.OPERATORS, refused="use md5() of a text"),
)
