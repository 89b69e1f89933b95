"""Parsing of queries: DuckDB's text to syntax trees, and Spark's text to DuckDB's SQL.

The sqlglot class of a node does not determine its meaning. `concat_ws` is a subclass of `Concat`; `min(x, 2)`, a list
of two values, is a `Min` with an additional argument; and a join by NEAREST is a `Join`. Therefore nodes of such
subclasses, and nodes with arguments that are not listed here, are refused. Calls of functions in the function table
stay generic calls.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp, parse_one
from sqlglot.dialects.dialect import groupconcat_sql
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError

from harness.engines.spark.transpile.functions.table import NAMES
from harness.engines.spark.transpile.spark_text import refusal
from harness.errors import RequestError, UnsupportedError
from harness.metadata.filters.literals import general_form, sqlglot_dialect

_KNOWN_FORMS: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.TryCast  # `literals` ignores it if it cannot fail; `expressions` distinguishes it from Cast
    }
)
_ARGUMENTS = {"this", "expression", "expressions"}
_SET_OPERATION = {"distinct", "by_name", "order", "limit", "offset", "with_"}
_MORE_ARGUMENTS: dict[type[exp.Expr], set[str]] = {
    exp.Alias: {"alias"},
    exp.ArgMax: {"count"},
    exp.ArgMin: {"count"},
    exp.AtTimeZone: {"zone"},
    exp.Between: {"low", "high", "symmetric"},
    exp.CTE: {"alias", "key_expressions", "materialized"},
    exp.Case: {"ifs", "default"},
    exp.Cast: {"to", "format", "default"},
    exp.Column: {"table", "db", "catalog"},
    exp.Comprehension: {"iterator", "condition", "position"},
    exp.Count: {"big_int"},
    exp.DPipe: {"safe"},
    exp.DataType: {"nested", "values"},
    exp.Distinct: {"on"},
    exp.Div: {"safe"},  # division by zero is null; sqlglot 30.8 sets it for every division in DuckDB
    exp.Except: _SET_OPERATION,
    exp.Fetch: {"direction", "count", "limit_options"},
    exp.Group: {"all"},
    exp.GroupConcat: {"separator"},
    exp.Identifier: {"quoted"},
    exp.If: {"true", "false"},
    exp.ILike: {"negate"},
    exp.In: {"field", "query", "unnest"},
    exp.Intersect: _SET_OPERATION,
    exp.Interval: {"unit", "fraction_in_string"},
    exp.Join: {"side", "kind", "method", "on", "using"},
    exp.Lag: {"offset", "default"},
    exp.Lambda: {"colon"},  # the syntax `lambda x: …`; before sqlglot 30.30
    exp.Lateral: {"alias"},
    exp.Lead: {"offset", "default"},
    exp.Like: {"negate"},
    exp.Limit: {"limit_options", "offset"},
    exp.LimitOptions: {"rows", "percent", "with_ties"},
    exp.Literal: {"is_string"},
    exp.Max: {"count"},
    exp.Min: {"count"},
    exp.NthValue: {"offset"},
    exp.Ordered: {"desc", "nulls_first", "with_fill"},
    exp.Pivot: {
        *("alias", "columns", "fields", "group", "include_nulls", "into", "pivot_column_naming", "unpivot", "using"),
        "with_",
    },
    exp.PivotAlias: {"alias"},
    exp.Quantile: {"quantile"},
    exp.Select: {
        *("from_", "joins", "where", "group", "having", "qualify", "windows", "distinct", "order", "limit", "offset"),
        "with_",
    },
    exp.Slice: {"step"},
    exp.Star: {"except_", "replace", "rename"},
    exp.StrPosition: {"substr", "position", "occurrence"},
    exp.Subquery: {"alias", "joins", "pivots", "order", "limit", "offset", "with_"},
    exp.Substring: {"start", "length"},
    exp.Table: {"alias", "db", "catalog", "joins", "pivots"},
    exp.TableAlias: {"columns"},
    exp.Trim: {"position"},
    exp.TryCast: {"to", "safe"},
    exp.Union: _SET_OPERATION,
    exp.Unnest: {"alias", "offset"},
    exp.Values: {"alias"},
    exp.Window: {"partition_by", "order", "over", "spec", "alias", "first"},
    exp.WindowSpec: {"kind", "start", "start_side", "end", "end_side", "exclude"},
    exp.With: {"recursive"},
}
_NO_ARGUMENTS = (exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist)


def check(statement: exp.Expr) -> None:
    """Refuse nodes that later steps would misinterpret.

    Raises:
        UnsupportedError: A node may have another meaning than its class.
    """
    for node in statement.walk():
        kind = type(node)
        if kind not in _KNOWN_FORMS and general_form(kind) is not None:
            raise refusal(node)
        argument_names = set() if kind in _NO_ARGUMENTS else _ARGUMENTS | _MORE_ARGUMENTS.get(kind, set())
        overlooked = [name for name, value in node.args.items() if value and name not in argument_names]
        if overlooked:
            word = None if isinstance(node, exp.Func) else overlooked[0].strip("_").replace("_", " ").upper()
            raise refusal(node, word)


_WITH_SYNTAX = {"CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM", "TRY_CAST"}
"""Functions whose arguments can be separated by keywords instead of commas."""
_BASE: Any = sqlglot_dialect("duckdb").parser_class
_WRITER: Any = DuckDB.Generator


def _list(arguments: list[exp.Expr]) -> exp.Expr:
    """Keep the name of `list(x ORDER BY x)`. DuckDB 1.5 parses it as `list_sort(list(x))`, unlike `array_agg`."""
    call = exp.ArrayAgg.from_arg_list(arguments)
    call.meta["name"] = "LIST"
    return call


class _DuckDBParser(_BASE):  # type: ignore[misc]  # the base is found at run time
    FUNCTIONS = {name: build for name, build in _BASE.FUNCTIONS.items() if name.lower() not in NAMES}  # noqa: RUF012  # sqlglot's
    FUNCTION_PARSERS = {  # noqa: RUF012  # sqlglot's
        name: parse
        for name, parse in _BASE.FUNCTION_PARSERS.items()
        if name in _WITH_SYNTAX or name.lower() not in NAMES
    }
    FUNCTIONS["LIST"] = _list


class _Generator(_WRITER):  # type: ignore[misc]  # the base is found at run time
    """Writes the syntax that was parsed. sqlglot's own generator would add casts, separators, and keywords."""

    TRANSFORMS = {  # noqa: RUF012  # sqlglot's
        **_WRITER.TRANSFORMS,
        exp.ArrayAgg: lambda self, e: self.func(e.meta.get("name", "ARRAY_AGG"), e.this),
        exp.GroupConcat: lambda self, e: groupconcat_sql(self, e, "STRING_AGG", sep=None, within_group=False),
        exp.If: lambda self, e: self.func("IF", e.this, e.args.get("true"), e.args.get("false")),
        exp.LogicalAnd: lambda self, e: self.func("BOOL_AND", e.this),
        exp.LogicalOr: lambda self, e: self.func("BOOL_OR", e.this),
    }

    def join_sql(self, expression: exp.Join, *join_op: str | None) -> str:  # sqlglot before 30.30 passes no `join_op`
        """Write `FROM t, UNNEST(l)` unchanged. sqlglot would add a condition."""
        is_bare = isinstance(expression.this, exp.Unnest) and not any(
            v for k, v in expression.args.items() if k != "this"
        )
        return f", {self.sql(expression.this)}" if is_bare else str(super().join_sql(expression, *join_op))


class _Dialect(DuckDB):
    """DuckDB's dialect without index conversion: sqlglot subtracts 1 from indexes of lists whose type it infers."""

    INDEX_OFFSET = 0
    Generator = _Generator


def parse(text: str) -> list[exp.Expr | None]:
    """Parse the statements of a text. Raises SqlglotError."""
    dialect = _Dialect()
    statements: list[exp.Expr | None] = _DuckDBParser(dialect=dialect).parse(dialect.tokenize(text), text)
    for statement in statements:
        for node in list(statement.walk()) if statement is not None else ():
            plainer = _simplify(node)
            if plainer is not None:
                node.replace(plainer)
    return statements


def as_duckdb_sql(statement: exp.Expr) -> str:
    """Write a parsed query in DuckDB's SQL. If its meaning differs from the original text, sqlglot misread the text."""
    return _Dialect().generate(statement, comments=False)


def parse_condition(text: str) -> exp.Expr:
    """Parse a condition. Raises SqlglotError."""
    dialect = _Dialect()
    (condition,) = _DuckDBParser(dialect=dialect).parse_into(exp.Condition, dialect.tokenize(text), text)
    assert isinstance(condition, exp.Expr)
    return condition


def _simplify(node: exp.Expr) -> exp.Expr | None:
    """Return an equivalent node of a more common class, or None."""
    match node:
        case exp.Select(args={"from_": exp.From(this=exp.Values(alias="_values") as values)}) if isinstance(
            node.parent, exp.CTE
        ):
            values.set("alias", None)  # a CTE that consists of VALUES, around which sqlglot put a SELECT
            return values
        case exp.RawString():
            return exp.Literal.string(node.name)
        case exp.Map():
            return exp.Anonymous(
                this="map", expressions=[v for v in (node.args.get("keys"), node.args.get("values")) if v]
            )
        case exp.Anonymous(expressions=[operand]) if str(node.this).upper() in ("ALL", "ANY", "SOME"):
            return exp.All(this=operand) if str(node.this).upper() == "ALL" else exp.Any(this=operand)
        case exp.EQ(expression=exp.Any(this=operand)) | exp.NEQ(expression=exp.All(this=operand)):
            query = operand.unnest()
            if not isinstance(query, exp.Query):
                return None
            membership = exp.In(this=node.this, query=exp.Subquery(this=query))
            return membership if isinstance(node, exp.EQ) else exp.Not(this=membership)
        case _:
            return None


# Spark's dialect to DuckDB's: only the small part of SQL that means the same on both. The types of columns are not
# known here, so constructs that depend on types are refused: `/`, `avg`, casts, most functions.


_BINARY = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.And, exp.Or, exp.Is)
_PLAIN = (
    *(*_BINARY, exp.Not, exp.Like, exp.Neg, exp.Paren, exp.Null, exp.Boolean, exp.Exists, exp.Add, exp.Sub, exp.Mul),
    *(exp.Tuple, exp.From, exp.Where, exp.Group, exp.Having, exp.Order, exp.Distinct, exp.Star),
    *(exp.Sum, exp.Min, exp.Max, exp.Coalesce, exp.Nullif),
)
_AS_DUCKDB = (
    *(exp.Alias, exp.Between, exp.Case, exp.Column, exp.Count, exp.CTE, exp.DPipe, exp.Identifier, exp.If, exp.In),
    *(exp.Literal, exp.Ordered, exp.TableAlias, exp.With),
)
_CERTAIN: dict[type[exp.Expr], frozenset[str]] = {
    **dict.fromkeys(_PLAIN, frozenset()),
    **{kind: frozenset(_MORE_ARGUMENTS[kind]) for kind in _AS_DUCKDB},
    **dict.fromkeys((exp.Union, exp.Intersect, exp.Except), frozenset({"distinct", "order", "limit", "with_"})),
    exp.Join: frozenset({"side", "kind", "on"}),
    exp.Length: frozenset({"binary", "encoding"}),
    exp.Select: frozenset({"from_", "joins", "where", "group", "having", "distinct", "order", "limit", "with_"}),
    exp.Subquery: frozenset({"alias", "with_"}),
    exp.Table: frozenset({"alias", "db", "catalog"}),
}
"""Nodes with the same meaning, and their allowed arguments besides `_ARGUMENTS`."""
_WHY = {
    exp.Avg: "the type and digits of an average differ",
    exp.Cast: "the engines accept and round different values in a cast",
    exp.Count: "count of several columns skips nulls only in Spark",
    exp.Div: "the digits of a quotient of decimals differ",
    exp.Join: "write the join with ON",
    exp.Like: "its pattern may contain a backslash, which is an escape only in Spark",
    exp.Limit: "each engine may return different rows",
    exp.Literal: "its type differs",
}


def to_duckdb(query: str) -> str:
    """Translate a query from Spark's dialect to DuckDB's.

    Raises:
        RequestError: The query cannot be parsed.
        UnsupportedError: A construct may mean something else on DuckDB. The message names the construct.
    """
    try:
        tree = parse_one(query, dialect="spark")
    except SqlglotError as error:
        raise RequestError(f"Cannot parse the query as Spark's: {' '.join(str(error).split())}") from error
    if "\\" in query:
        raise UnsupportedError(
            "Cannot be sure that a text with a backslash means the same on DuckDB: it is an escape only in Spark",
            cause="UncertainQuery",
        )
    for node in tree.walk(prune=_is_date):
        if not _is_date(node) and not _is_certain(node):
            why = (text for kind, text in _WHY.items() if isinstance(node, kind))
            raise _uncertain_order(node, next(why, "it is not known to mean the same"))
    for select in tree.find_all(exp.Select):
        if select.args.get("joins") and any(each.is_star for each in select.expressions):
            raise _uncertain_order(select.expressions[0], "the engines name columns of a join differently: name them")
        aliases = {each.alias.casefold() for each in select.expressions if isinstance(each, exp.Alias)}
        clauses = filter(None, map(select.args.get, ("where", "group", "having")))
        for column in (column for clause in clauses for column in clause.find_all(exp.Column)):
            if not column.table and column.name.casefold() in aliases:
                raise _uncertain_order(column, "it may mean the column or the alias: write the expression")
    return tree.sql(dialect="duckdb")


def _is_certain(node: exp.Expr) -> bool:
    arguments = _CERTAIN.get(type(node))
    if arguments is None or any(value and key not in arguments | _ARGUMENTS for key, value in node.args.items()):
        return False
    match node:
        case exp.Literal():
            return node.is_string or node.name.replace(".", "", 1).isdigit()
        case exp.Like():
            return isinstance(node.expression, exp.Literal)
        case exp.Join():
            return node.kind in ("", "INNER", "OUTER", "CROSS")
        case exp.Count():
            return not node.expressions and not isinstance(node.this, exp.Tuple)
        case exp.Distinct():
            return len(node.expressions) <= 1
        case _:
            return True


def _is_date(node: exp.Expr) -> bool:
    """Return whether a node is a date literal like DATE '2024-01-31'."""
    return isinstance(node, exp.Cast) and node.to.this == exp.DType.DATE and node.this.is_string


def _uncertain_order(node: exp.Expr, why: str) -> UnsupportedError:
    text = " ".join(node.sql(dialect="spark").split())
    excerpt = text if len(text) <= 60 else f"{text[:59]}…"
    return UnsupportedError(f"Cannot be sure that {excerpt} means the same on DuckDB: {why}", cause="UncertainQuery")
