"""The whole table of functions: scalars, and entries for what is no call or is lowered by a module of its own.

Such entries (operators, casts, LIKE, aggregates, window functions) say what `takes` and `written` say in the docs, and
hold calls to draw; nothing is lowered by them.
"""

from __future__ import annotations

from typing import Unpack

from harness.queries.transpile.functions.registry import Domain, Function, FunctionKind
from harness.queries.transpile.functions.table import SCALARS

_COMMON = "values that have a type in common without a cast of text"
_CAST = "refused: cast to one type"
_LAST_BITS = "the [last bits](allowances.md) may differ"
_TIES = "rows that tie may come in another order on either engine"
_NUMBERS = "INTEGER, BIGINT, HUGEINT, DECIMAL, FLOAT, DOUBLE"
_ORDERED = "any but lists, structs, maps, UUID"
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


def _aggregate(*names: str, takes: str, written: str, draws: tuple[str, ...], **domain: Unpack[Domain]) -> Function:
    return Function(names=names, kind=FunctionKind.AGGREGATES, takes=takes, written=written, draws=draws, **domain)


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


def _bits(name: str) -> Function:
    return _aggregate(
        name, takes="INTEGER, BIGINT", written=name.upper(), draws=(f"{name}({{int}})", f"{name}({{long}})")
    )


def _statistic(*names: str, written: str) -> Function:
    draws = (f"{names[0]}({{count}})", f"{names[0]}({{decimal}})", f"{names[0]}({{seconds}})")
    return _aggregate(*names, takes=_NUMBERS, written=written, allowance=_LAST_BITS, draws=draws)


AGGREGATES = (
    _aggregate(
        "count",
        "count_star",
        takes="*; any; DISTINCT any; a tuple",
        written="COUNT",
        draws=(
            "count(*)",
            "count({text})",
            "count(DISTINCT {int})",
            "count(DISTINCT ({int}, {text}))",
            "count(*) FILTER (WHERE {boolean})",
        ),
    ),
    _aggregate("count_if", "countif", takes="BOOLEAN", written="SUM(CAST(a AS INT))", draws=("count_if({boolean})",)),
    _aggregate(
        "sum",
        takes=_NUMBERS,
        written="SUM, of decimals as DECIMAL(38, s)",
        agree="sums of BIGINT within 64 bits, and of decimals within ten digits more than they have",
        outside="an error on Spark; of decimals of up to eight digits NULL, in a session without ANSI mode",
        allowance=f"of FLOAT and DOUBLE {_LAST_BITS}",
        draws=("sum({int})", "sum({decimal})", "sum({seconds})", "sum(DISTINCT {int})", "sum({int}) * 1.5"),
    ),
    _aggregate(
        "avg",
        "mean",
        takes=_NUMBERS,
        written="an exact sum through a count, as DOUBLE",
        allowance=_LAST_BITS,
        draws=("avg({int})", "avg({decimal})", "avg({seconds})", "avg({int}::HUGEINT)", "mean({int})"),
    ),
    _aggregate(
        "min",
        takes=f"{_ORDERED}[, a literal]",
        written="MIN; of several ARRAY_SORT(COLLECT_LIST(a))",
        draws=("min({int}, 3)", "min({text})", "min({seconds})", "min({date})", "min({decimal})", "min({blob})"),
    ),
    _aggregate(
        "max",
        takes=f"{_ORDERED}[, a literal]",
        written="MAX; of several ARRAY_SORT(COLLECT_LIST(a))",
        draws=("max({text}, 2)", "max({text})", "max({double})", "max({timestamp})", "max({boolean})"),
    ),
    _aggregate(
        "mode",
        takes="any but floats, lists, structs, maps, UUID",
        written="MODE() WITHIN GROUP (ORDER BY a)",
        agree="where one value is the most frequent",
        outside="an error on Spark where several are; refused in windows",
        draws=("mode(row // 1000)", "mode({boolean} IS NULL OR true) FILTER (row > 1)"),
    ),
    _aggregate("bool_and", takes="BOOLEAN", written="BOOL_AND", draws=("bool_and({boolean})",)),
    _aggregate("bool_or", takes="BOOLEAN", written="BOOL_OR", draws=("bool_or({int} > 50)",)),
    _bits("bit_and"),
    _bits("bit_or"),
    _bits("bit_xor"),
    _statistic("stddev_samp", "stddev", written="STDDEV_SAMP"),
    _statistic("stddev_pop", written="STDDEV_POP"),
    _statistic("var_samp", "variance", written="VAR_SAMP"),
    _statistic("var_pop", written="VAR_POP"),
    _aggregate(
        "covar_samp",
        takes="two numbers",
        written="COVAR_SAMP",
        allowance=_LAST_BITS,
        draws=("covar_samp({count}, {count})",),
    ),
    _aggregate(
        "covar_pop",
        takes="two numbers",
        written="COVAR_POP",
        allowance=_LAST_BITS,
        draws=("covar_pop({count}, {count})",),
    ),
    _aggregate(
        "corr",
        takes="two numbers",
        written="CORR, NaN for one pair",
        allowance=_LAST_BITS,
        draws=("corr({count}, {count})",),
    ),
    _aggregate(
        "median",
        takes="INTEGER, BIGINT, DOUBLE, DECIMAL",
        written="PERCENTILE(a, 0.5); of decimals the half of two, cut off",
        agree="decimals of up to 15 digits",
        outside="refused: cast it to DOUBLE",
        allowance=f"of what is no DECIMAL {_LAST_BITS}",
        draws=("median({int})", "median({seconds})", "median({decimal})"),
    ),
    _aggregate(
        "quantile_cont",
        takes="INTEGER, BIGINT, DOUBLE; a literal or a list of them",
        written="PERCENTILE(a, b)",
        outside="refused: cast it to DOUBLE",
        allowance=_LAST_BITS,
        draws=("quantile_cont({int}, 0.3)", "quantile_cont({seconds}, 0.9)"),
    ),
    _aggregate(
        "quantile_disc",
        "quantile",
        takes=f"{_ORDERED}; a literal or a list of them",
        written="an element of ARRAY_SORT(COLLECT_LIST(a))",
        draws=("quantile_disc({int}, 0.35)", "quantile_disc({text}, [0, 0.5, 1])", "quantile({date}, 0.125)"),
    ),
    _aggregate(
        "list",
        "array_agg",
        takes="[DISTINCT] any ORDER BY …",
        written="ARRAY_SORT(COLLECT_LIST(…)), nulls too",
        agree="FILTER; without ORDER BY inside of what takes lists in any order, such as list_sort and len",
        outside="refused without ORDER BY; DISTINCT of floats, or in another order than its own",
        allowance=_TIES,
        draws=(
            "list({text} ORDER BY row)",
            "list({double} ORDER BY {int} DESC NULLS FIRST, row) FILTER (row > 3)",
            "list(DISTINCT t1 ORDER BY t1 DESC)",
            "list({ints} ORDER BY {boolean}, {date} DESC, row)",
            "len(list({int}))",
            "list_sort(list(DISTINCT {text}))",
        ),
    ),
    *(
        _aggregate(
            name,
            takes="any ORDER BY …",
            written="an element of ARRAY_SORT(COLLECT_LIST(…))",
            agree=agree,
            outside="refused without ORDER BY",
            allowance=_TIES,
            draws=(f"{name}({{int}} ORDER BY row)", f"{name}({{text}} ORDER BY {{double}} DESC, row)"),
        )
        for name, agree in (("first", "nulls too"), ("last", "nulls too"), ("any_value", "what is not null"))
    ),
    _aggregate(
        "arg_max",
        "max_by",
        takes=f"any, {_ORDERED}[, a literal]",
        written="MAX_BY; of several ARRAY_SORT(COLLECT_LIST(…))",
        allowance=_TIES,
        draws=("arg_max({text}, row, 3)", "arg_max({text}, row)", "max_by(row, {text} || row)"),
    ),
    _aggregate(
        "arg_min",
        "min_by",
        takes=f"any, {_ORDERED}[, a literal]",
        written="MIN_BY; of several ARRAY_SORT(COLLECT_LIST(…))",
        allowance=_TIES,
        draws=("arg_min({int}, row, 2)", "arg_min({decimal}, row)", "min_by({text}, row)"),
    ),
    _aggregate(
        "string_agg",
        "group_concat",
        "listagg",
        takes="[DISTINCT] VARCHAR[, a literal] ORDER BY …",
        written="ARRAY_JOIN(ARRAY_SORT(COLLECT_LIST(…)), b)",
        outside="refused without ORDER BY",
        allowance=_TIES,
        draws=(
            "string_agg({text}, '-' ORDER BY row DESC)",
            "string_agg({text} ORDER BY {text} NULLS FIRST, row)",
            "string_agg(DISTINCT t1, '+' ORDER BY t1)",
        ),
    ),
    _aggregate(
        "grouping", "grouping_id", takes="keys", written="GROUPING, a bit for each key", draws=("grouping(b1)",)
    ),
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

SUPPORTED: tuple[Function, ...] = (*SCALARS, *OPERATORS, *LIKES, *AGGREGATES)
