"""The whole table of functions: scalars, and entries for what is no call or is lowered by a module of its own.

Such entries (operators, casts, LIKE, window functions) say what `takes` and `written` say in the docs, and
hold calls to draw; nothing is lowered by them.
"""

from __future__ import annotations

from typing import Unpack

from harness.queries.transpile.aggregates import AGGREGATES
from harness.queries.transpile.functions.registry import Domain, Function, FunctionKind
from harness.queries.transpile.functions.table import SCALARS

_COMMON = "values that have a type in common without a cast of text"
_CAST = "refused: cast to one type"
_WINDOW = "OVER (PARTITION BY b1 ORDER BY row)"


def _operator(names: tuple[str, ...], takes: str, written: str, *draws: str, **domain: Unpack[Domain]) -> Function:
    return Function(names=names, kind=FunctionKind.OPERATORS, takes=takes, written=written, draws=draws, **domain)


OPERATORS = (
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
)


def _like(names: tuple[str, ...], takes: str, written: str, *draws: str, outside: str) -> Function:
    kind = FunctionKind.PATTERNS
    return Function(names=names, kind=kind, takes=takes, written=written, draws=draws, outside=outside)


LIKES = (
    _like(
        ("LIKE",),
        "VARCHAR, literal",
        "LIKE",
        "({text} LIKE 'a%')",
        "({text} NOT LIKE '%$_b%' ESCAPE '$')",
        outside="refused: patterns that are no literals",
    ),
    _like(
        ("ILIKE",),
        "VARCHAR, literal",
        "LIKE, both in lower case",
        "({text} ILIKE 'A%')",
        "({text} NOT ILIKE '_x%')",
        outside="refused: patterns that are no literals, or have letters beyond ASCII",
    ),
)


def _window(*names: str, written: str, draws: tuple[str, ...], takes: str = "", **domain: Unpack[Domain]) -> Function:
    return Function(names=names, kind=FunctionKind.WINDOWS, takes=takes, written=written, draws=draws, **domain)


def _neighbour(name: str) -> Function:
    """`lag` or `lead`."""
    return _window(
        name,
        takes="any[, a literal[, any]]",
        written=name.upper(),
        agree="IGNORE NULLS too",
        draws=(
            f"{name}({{text}}) {_WINDOW}",
            f"{name}({{int}}, 2, 0) {_WINDOW}",
            f"{name}({{date}} IGNORE NULLS) {_WINDOW}",
        ),
    )


def _edge(*names: str, written: str) -> Function:
    """`first_value` or `last_value`."""
    return _window(
        *names,
        takes="any",
        written=written,
        agree="IGNORE NULLS too",
        draws=(f"{names[0]}({{text}}) {_WINDOW}", f"{names[0]}({{int}} IGNORE NULLS) {_WINDOW}"),
    )


WINDOWS = (
    _window("row_number", written="ROW_NUMBER", draws=(f"row_number() {_WINDOW}",)),
    _window("rank", written="RANK", draws=("rank() OVER (ORDER BY {text})",)),
    _window("dense_rank", written="DENSE_RANK", draws=("dense_rank() OVER (ORDER BY {int} DESC)",)),
    _window("percent_rank", written="PERCENT_RANK", draws=("percent_rank() OVER (ORDER BY {double})",)),
    _window("cume_dist", written="CUME_DIST", draws=("cume_dist() OVER (ORDER BY {date} NULLS FIRST)",)),
    _window("ntile", takes="a literal", written="NTILE", draws=(f"ntile(4) {_WINDOW}",)),
    _neighbour("lag"),
    _neighbour("lead"),
    _edge("first_value", written="FIRST_VALUE"),
    _edge("last_value", written="LAST_VALUE"),
    _window(
        "nth_value",
        takes="any, a literal",
        written="NTH_VALUE",
        agree="IGNORE NULLS too",
        draws=(f"nth_value({{text}}, 3) {_WINDOW}",),
    ),
    _window(
        "OVER",
        written="OVER (…)",
        agree="any aggregate without DISTINCT; names of WINDOW; ROWS; RANGE over integers, and by INTERVAL over dates "
        "and timestamps; GROUPS without numbers",
        outside="refused: EXCLUDE, and GROUPS by numbers",
        draws=(
            "count(*) OVER (ORDER BY {near} RANGE BETWEEN INTERVAL 2 DAYS PRECEDING AND INTERVAL 90 MINUTES FOLLOWING)",
            "sum({int}) OVER (ORDER BY {count} GROUPS UNBOUNDED PRECEDING)",
            "list({text} ORDER BY row) OVER (PARTITION BY b1)",
            "sum({int}) OVER (ORDER BY row ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING)",
            "count({text}) OVER (ORDER BY {count} RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING)",
            "max({text}) OVER (PARTITION BY {count} ORDER BY {int} RANGE UNBOUNDED PRECEDING)",
        ),
    ),
)

SUPPORTED: tuple[Function, ...] = (*SCALARS, *OPERATORS, *LIKES, *WINDOWS, *(entry.function for entry in AGGREGATES))
