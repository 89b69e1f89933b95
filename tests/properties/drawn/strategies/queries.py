"""SELECTs in DuckDB's dialect over two small tables, for which every engine must return the same rows.

Queries have only one correct result: LIMIT follows an order of all columns, and there are no floating-point numbers, so
that neither order nor ties matter. Expressions that can fail, for example a division by zero, are not drawn either.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from hypothesis import strategies as st

from drawn.strategies.types import Draw

Column: TypeAlias = tuple[str, str]
"""The text of a column, and its type."""

TABLES: Mapping[str, Mapping[str, str]] = {
    "t": {"a": "int", "k": "int", "s": "string", "p": "decimal(7, 2)", "d": "date", "l": "list<int>"},
    "u": {"k": "int", "v": "int", "s": "string"},
}
"""Columns by table. `k` and `s` are in both tables; `l` is only unnested."""
_VALUES: Mapping[str, tuple[Any, ...]] = {
    "int": (None, 0, 1, 2, 3, -1, 7),
    "string": (None, "", "a", "b", "ab"),
    "decimal(7, 2)": (None, "0.00", "1.50", "-2.25", "99999.99"),
    "date": (None, 18262, 18263, 18293, -1),
    "list<int>": (None, [], [1], [2, 2], [0, None, 3]),
}
_LITERALS: Mapping[str, tuple[str, ...]] = {
    "int": ("0", "1", "2", "7", "NULL"),
    "string": ("''", "'a'", "'ab'"),
    "decimal(7, 2)": ("1.50", "0", "-2.25"),
    "date": ("DATE '2020-01-01'", "DATE '2020-02-01'"),
    "long": ("1", "3"),
}
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM")
_LATERAL = (
    "JOIN LATERAL (SELECT u.v AS e FROM u WHERE u.k = t.k) AS x ON true",
    "LEFT JOIN LATERAL (SELECT max(u.v) AS e FROM u WHERE u.k = t.k AND u.s = t.s) AS x ON true",
    "LEFT JOIN (SELECT count(*)::INTEGER AS e FROM u WHERE u.v > t.a) AS x ON x.e > 0",
    ", LATERAL (SELECT u.v AS e FROM u WHERE u.k = t.k ORDER BY u.v, u.s LIMIT 1) AS x",
    ", (SELECT t.a + t.k AS e) AS x",
)
_JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN")


def rows(table: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Return a strategy for rows of one of `TABLES` in the form of the builders. Nulls and equal keys are frequent."""
    columns = TABLES[table]
    return st.lists(st.fixed_dictionaries({n: st.sampled_from(_VALUES[t]) for n, t in columns.items()}), max_size=8)


@st.composite
def queries(draw: Draw) -> str:
    """Draw a query over `t` and `u`."""
    sql, width = _query(draw, 2)
    order = f" ORDER BY {', '.join(map(str, range(1, width + 1)))}"
    ending = draw(st.sampled_from(["", "", order, f"{order} LIMIT 3", f"{order} LIMIT 2 OFFSET 1"]))
    return f"SELECT * FROM ({sql}) AS q{ending}"


def _query(draw: Draw, depth: int) -> tuple[str, int]:
    """Draw a query, and return it with the number of its columns. `depth` limits nested queries."""
    kinds = ["plain", "grouped", "unnested", "chosen", *(["plain", "window", "set", "with"] if depth else [])]
    match draw(st.sampled_from(kinds)):
        case "grouped":
            return _grouped(draw, depth)
        case "window":
            return _windowed(draw, depth)
        case "unnested":
            return _unnested(draw, depth)
        case "chosen":
            return _ordered_choice(draw, depth)
        case "set":
            word = draw(st.sampled_from(["UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"]))
            left, right = (f"SELECT k, s FROM {draw(st.sampled_from(['t', 'u']))}{_where(draw, None, 0)}" for _ in "ab")
            return f"{left} {word} {right}", 2
        case "with":
            inner, width = _query(draw, depth - 1)
            names = ", ".join(f"c{i}" for i in range(width))
            return f"WITH w({names}) AS ({inner}) SELECT {names} FROM w", width
        case _:
            source, columns = _source(draw, depth)
            shown = draw(st.lists(st.sampled_from(columns), min_size=1, max_size=3))
            distinct = draw(st.sampled_from(["", "", "DISTINCT "]))
            values = [_value(draw, c) for c in shown]
            if depth and draw(st.integers(0, 4)) == 0:
                values[0] = f"({_of_query(draw, columns)})"
            items = ", ".join(f"{value} AS x{i}" for i, value in enumerate(values))
            return f"SELECT {distinct}{items} FROM {source}{_where(draw, columns, depth)}", len(shown)


def _source(draw: Draw, depth: int) -> tuple[str, list[Column]]:
    """Draw the text after FROM, and return it with its columns."""
    left, right = _columns("t"), _columns("u")
    kind = draw(st.sampled_from(["table", "table", "join", "derived", "using", "list", "lateral"]))
    if kind == "list":
        word = draw(st.sampled_from([", UNNEST(t.l) AS x(e)", "LEFT JOIN UNNEST(t.l) AS x(e) ON true"]))
        return f"t {word}", [*left, ("x.e", "int")]
    if kind == "lateral":
        return f"t {draw(st.sampled_from(_LATERAL))}", [*left, ("x.e", "int")]
    if kind == "join":
        word = draw(st.sampled_from(_JOINS))
        on = f"t.k = u.k{draw(st.sampled_from(['', ' AND u.v > 0', ' AND t.s = u.s', ' AND t.a < u.v']))}"
        return f"t {word} u ON {on}", left if word in ("SEMI JOIN", "ANTI JOIN") else left + right
    if kind == "using":
        word = draw(st.sampled_from(_JOINS[:4]))
        return f"t {word} u USING (k)", [("k", "int"), *(c for c in left + right if not c[0].endswith(".k"))]
    if kind == "derived" and depth:
        where = _where(draw, left, depth - 1)
        return f"(SELECT a + 1 AS e, k, s, p, d FROM t{where}) AS r", [
            ("r.e", "int"),
            *((f"r.{n}", TABLES["t"][n]) for n in "kspd"),
        ]
    return "t", left


def _columns(table: str) -> list[Column]:
    """Return the columns that occur in expressions."""
    return [(f"{table}.{name}", type_) for name, type_ in TABLES[table].items() if type_ in _LITERALS]


_OF_RESULTS = (
    "SELECT t.k AS x0, unnest(list(t.a ORDER BY t.a)) AS x1, count(*) AS x2 FROM t{} GROUP BY t.k HAVING count(*) < 4",
    "SELECT unnest(t.l) AS x0, count(*) AS x1, unnest([max(t.k), min(t.k)]) AS x2 FROM t{} GROUP BY t.l",
    "SELECT t.k AS x0, unnest(t.l) + t.k AS x1, sum(t.a) OVER (PARTITION BY t.s) AS x2 FROM t{}",
    "SELECT t.k AS x0, unnest(t.l) AS x1, sum(t.a) OVER (ORDER BY t.s GROUPS 1 PRECEDING) AS x2 FROM t{} "
    "QUALIFY rank() OVER (ORDER BY t.k) < 4",
)
"""Queries with UNNEST of the results of groups and windows."""


def _unnested(draw: Draw, depth: int) -> tuple[str, int]:
    """Draw a query with lists in the projection, side by side or grouped by their elements."""
    where = _where(draw, _columns("t"), depth)
    other = draw(st.sampled_from(["unnest(t.l) + t.a", "unnest([t.a, t.k])", "unnest(range(t.k))", "t.s"]))
    if draw(st.booleans()):
        inner = f"SELECT unnest(t.l) AS e, t.a AS b FROM t{where}"
        return f"SELECT e AS x0, count(*) AS x1, sum(b) AS x2 FROM ({inner}) AS r GROUP BY e", 3
    if draw(st.integers(0, 2)) == 0:
        return f"{draw(st.sampled_from(_OF_RESULTS)).format(where)}", 3
    return f"SELECT t.k AS x0, unnest(t.l) AS x1, {other} AS x2 FROM t{where}", 3


_ALL_OF_T = "t.a, t.k, t.s, t.p, t.d"
"""An order of all distinguishable rows of `t`. Equal rows are interchangeable."""
_ORDERED_CALLS = (
    f"list(t.s ORDER BY t.k DESC NULLS FIRST, {_ALL_OF_T})",
    f"first(t.p ORDER BY {_ALL_OF_T})",
    f"any_value(t.d ORDER BY t.s DESC, {_ALL_OF_T})",
    "arg_max(t.a, t.a, 2)",
    "list(DISTINCT t.s ORDER BY t.s)",
    "string_agg(DISTINCT t.s, '-' ORDER BY t.s DESC)",
    "max(t.d, 2)",
    "min(t.s, 3)",
    "quantile_disc(t.p, [0.25, 0.6])",
    "quantile_disc(t.a, 0.4)",
    "median(t.p)",
    "count(DISTINCT (t.k, t.s))",
    "len(list(t.a))",
)


def _ordered_choice(draw: Draw, depth: int) -> tuple[str, int]:
    """Draw a query that selects rows and values by an order: DISTINCT ON, and aggregates with ORDER BY."""
    where, key = _where(draw, _columns("t"), depth), draw(st.sampled_from(["t.k", "t.s", "t.p"]))
    if draw(st.booleans()):
        way = draw(st.sampled_from(["", " DESC", " NULLS FIRST"]))
        return f"SELECT DISTINCT ON ({key}) t.a AS x0, t.s AS x1 FROM t{where} ORDER BY t.d{way}, {_ALL_OF_T}", 2
    some = f" FILTER (WHERE {_condition(draw, _columns('t'), 0)})" if draw(st.integers(0, 3)) == 0 else ""
    calls = [draw(st.sampled_from(_ORDERED_CALLS)) for _ in range(2)]
    shown = f"{calls[0]}{'' if calls[0].startswith('len(') else some} AS x1, {calls[1]} AS x2"
    return f"SELECT {key} AS x0, {shown} FROM t{where} GROUP BY {key}", 3


def _where(draw: Draw, columns: Sequence[Column] | None, depth: int) -> str:
    """Draw a WHERE clause or nothing. `columns` is None for the columns that both tables have."""
    known = columns if columns is not None else [("k", "int"), ("s", "string")]
    parts = draw(st.lists(st.just(None), max_size=2))
    texts = [_condition(draw, known, depth) for _ in parts]
    return f" WHERE {draw(st.sampled_from([' AND ', ' OR '])).join(texts)}" if texts else ""


def _condition(draw: Draw, columns: Sequence[Column], depth: int) -> str:
    name, type_ = draw(st.sampled_from(columns))
    literal = st.sampled_from(_LITERALS[type_])
    match draw(st.sampled_from(["compare", "compare", "in", "null", "between", "not", *(["query"] * min(depth, 1))])):
        case "in":
            return f"{name} IN ({draw(literal)}, {draw(literal)})"
        case "null":
            return f"{name} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
        case "between":
            return f"{name} BETWEEN {draw(literal)} AND {draw(literal)}"
        case "not":
            return f"NOT ({_condition(draw, columns, 0)})"
        case "query":
            return _of_query(draw, columns)
        case _:
            return f"{name} {draw(st.sampled_from(_COMPARISONS))} {draw(literal)}"


def _of_query(draw: Draw, columns: Sequence[Column]) -> str:
    """Draw a condition with a subquery over a second reference to `u`."""
    names = [name for name, type_ in columns if type_ == "int"]
    name = draw(st.sampled_from(names))
    inner = draw(st.sampled_from(["", " WHERE z.v > 0", " WHERE z.s = 'a'", " WHERE z.k IS NOT NULL"]))
    match draw(st.sampled_from(["in", "not in", "exists", "scalar", "> ANY", "<= ALL", "= ANY"])):
        case "exists":
            word = draw(st.sampled_from(["", "NOT "]))
            return f"{word}EXISTS (SELECT 1 FROM u AS z WHERE z.k = {name})"
        case "scalar":
            return f"{name} > (SELECT max(z.v) FROM u AS z{inner})"
        case word:
            return f"{name} {word.upper()} (SELECT z.k FROM u AS z{inner})"


def _value(draw: Draw, column: Column) -> str:
    """Draw a column, or an expression of one."""
    name, type_ = column
    made = {
        "int": ("{0} + 1", "-{0}", "coalesce({0}, 0)", "CASE WHEN {0} > 1 THEN {0} ELSE 0 END", "{0} % 3"),
        "string": ("{0} || 'x'", "coalesce({0}, 'none')", "length({0})"),
        "decimal(7, 2)": ("{0} * 2", "{0} - 0.5", "{0} > 1"),
        "date": ("{0} + 1", "year({0})", "{0} IS NULL"),
    }
    return str(draw(st.sampled_from(["{0}", "{0}", *made[type_]]))).format(name)


def _grouped(draw: Draw, depth: int) -> tuple[str, int]:
    source, columns = _source(draw, depth)
    keys = draw(st.lists(st.sampled_from(columns), max_size=2, unique=True))
    texts = [name for name, _ in keys]
    aggregates = [_aggregate(draw, columns) for _ in range(draw(st.integers(1, 2)))]
    items = ", ".join(f"{text} AS x{i}" for i, text in enumerate([*texts, *aggregates]))
    kinds = ["{}", "{}", "ROLLUP ({})", "CUBE ({})", "GROUPING SETS (({}), ())"]
    clause = f" GROUP BY {draw(st.sampled_from(kinds)).format(', '.join(texts))}" if texts else ""
    having = draw(st.sampled_from(["", "", " HAVING count(*) > 1", " HAVING max(t.k) > 0"]))
    having = having if "t." not in having or any(name == "t.k" for name, _ in columns) else ""
    return f"SELECT {items} FROM {source}{_where(draw, columns, depth)}{clause}{having}", len(texts) + len(aggregates)


def _aggregate(draw: Draw, columns: Sequence[Column]) -> str:
    name, type_ = draw(st.sampled_from(columns))
    sums = ("sum({0})", "sum({0}) + 1", "sum({0}) * 1.5") if type_ in ("int", "decimal(7, 2)") else ()
    calls = ("count(*)", "count({0})", "min({0})", "max({0})", "count(DISTINCT {0})", *sums)
    some = f" FILTER (WHERE {_condition(draw, columns, 0)})" if draw(st.integers(0, 4)) == 0 else ""
    call = str(draw(st.sampled_from(calls))).format(name)
    return call + some if call.endswith(")") else call


_EXCLUDED = ("", "", " EXCLUDE CURRENT ROW", " EXCLUDE GROUP", " EXCLUDE TIES")


def _windowed(draw: Draw, depth: int) -> tuple[str, int]:
    source, columns = _source(draw, depth)
    name, type_ = draw(st.sampled_from(columns))
    by, order = draw(st.sampled_from(columns))[0], draw(st.sampled_from(columns))[0]
    calls = ["rank()", "dense_rank()", "count(*)", f"min({name})", f"max({name})", "percent_rank()"]
    calls += [f"sum({name})"] if type_ == "int" else []
    way = draw(st.sampled_from(["", " DESC", " NULLS FIRST"]))
    frames = [
        "",
        "",
        " GROUPS UNBOUNDED PRECEDING",
        " GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
        " GROUPS 2 PRECEDING",
    ]
    frames += [" RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", " GROUPS BETWEEN 1 FOLLOWING AND 2 FOLLOWING"]
    if by != order and order.endswith(".d"):
        frames += [" RANGE BETWEEN INTERVAL 1 MONTH PRECEDING AND CURRENT ROW", " RANGE INTERVAL 31 DAYS PRECEDING"]
    frame = draw(st.sampled_from(frames))
    frame += draw(st.sampled_from(_EXCLUDED)) if frame and "FOLLOWING AND" not in frame else ""
    over = draw(st.sampled_from([f"ORDER BY {order}{way}", f"PARTITION BY {by} ORDER BY {order}{way}"]))
    call = draw(st.sampled_from(calls))
    call += f" OVER ({over}{'' if 'rank' in call else frame})"
    qualify = f" QUALIFY rank() OVER ({over}) < 3" if draw(st.integers(0, 3)) == 0 else ""
    return f"SELECT {name} AS x0, {call} AS x1 FROM {source}{_where(draw, columns, depth)}{qualify}", 2
