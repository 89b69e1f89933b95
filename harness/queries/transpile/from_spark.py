"""From Spark's dialect to DuckDB's, only where it is certain: a small part of SQL that means the same on both.

Nothing is known of the types of columns here, so what depends on them is refused: `/`, `avg`, casts, most functions.
sqlglot writes the text for DuckDB; each node that it is made of must be one of those below.
"""

from __future__ import annotations

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from harness.errors import RequestError, UnsupportedError

_CLAUSES = (
    *(exp.Select, exp.From, exp.Where, exp.Group, exp.Having, exp.Order, exp.Ordered, exp.Join, exp.Subquery),
    *(exp.With, exp.CTE, exp.Union, exp.Intersect, exp.Except, exp.Distinct, exp.Table, exp.TableAlias, exp.Alias),
    *(exp.Tuple, exp.Paren, exp.Identifier, exp.Column, exp.Star, exp.Literal, exp.Null, exp.Boolean),
)
_OPERATORS = (
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.And, exp.Or, exp.Not, exp.Is, exp.In, exp.Between, exp.Exists, exp.Like),
    *(exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.DPipe, exp.Case, exp.If),
)
_FUNCTIONS = (exp.Count, exp.Sum, exp.Min, exp.Max, exp.Coalesce, exp.Nullif, exp.Length)
_KNOWN = (*_CLAUSES, *_OPERATORS, *_FUNCTIONS)
_WHY = {
    exp.Limit: "which of several rows comes first is open",
    exp.Div: "the digits of a quotient of decimals are others",
    exp.Avg: "the type and digits of an average are others",
    exp.Cast: "what a cast takes and rounds depends on types",
}


def to_duckdb(query: str) -> str:
    """The query in DuckDB's dialect.

    Raises:
        RequestError: it cannot be parsed.
        UnsupportedError: it is not certain that it means the same there; the message names the construct.
    """
    try:
        tree = parse_one(query, dialect="spark")
    except SqlglotError as error:
        raise RequestError(f"Cannot parse the query as Spark's: {' '.join(str(error).split())}") from error
    if "\\" in query:
        raise UnsupportedError(
            "Cannot be sure that a text with a backslash means the same on DuckDB: it is an escape in Spark alone",
            cause="UncertainQuery",
        )
    for node in tree.walk():
        _check(node)
    _check_names(tree)
    return tree.sql(dialect="duckdb")


def _check(node: exp.Expr) -> None:
    if _is_date(node) or isinstance(node, exp.DataType) or _is_date(node.parent):
        return
    if type(node) not in _KNOWN:
        why = next((text for kind, text in _WHY.items() if isinstance(node, kind)), "it is not known to mean the same")
        raise _refused(node, why)
    match node:
        case exp.Literal() if not node.is_string and not node.name.replace(".", "", 1).isdigit():
            raise _refused(node, "its type is another")
        case exp.Like() if not isinstance(node.expression, exp.Literal):
            raise _refused(node, "its pattern may hold a backslash, an escape in Spark alone")
        case exp.Join() if node.args.get("using") or node.args.get("method") or node.args.get("kind") not in _KINDS:
            raise _refused(node, "write the join with ON")
        case exp.Group() if any(value for key, value in node.args.items() if key != "expressions"):
            raise _refused(node, "only plain grouping is known to mean the same")
        case exp.Count() if len(node.args.get("expressions") or ()) or isinstance(node.this, exp.Tuple):
            raise _refused(node, "count of several columns leaves out nulls in Spark alone")
        case exp.Distinct() if len(node.expressions) > 1 or node.args.get("on"):
            raise _refused(node, "it is not known to mean the same")
        case exp.Table() if any(node.args.get(key) for key in ("version", "when", "sample", "pivots", "joins")):
            raise _refused(node, "it is not known to mean the same")


def _check_names(tree: exp.Expr) -> None:
    """Names that each engine may take for another column."""
    for select in tree.find_all(exp.Select):
        if any(select.args.get(key) for key in ("laterals", "hint", "qualify", "windows", "sort", "cluster", "kind")):
            raise _refused(select, "it is not known to mean the same")
        if select.args.get("joins") and any(isinstance(each, exp.Star) or each.is_star for each in select.expressions):
            raise _refused(select.expressions[0], "columns of a join have other names on each engine: name them")
        aliases = {each.alias.casefold() for each in select.expressions if isinstance(each, exp.Alias)}
        for clause in (select.args.get("where"), select.args.get("group"), select.args.get("having")):
            for column in () if clause is None else clause.find_all(exp.Column):
                if not column.table and column.name.casefold() in aliases:
                    raise _refused(column, "it may mean the column or the alias: write the expression")


_KINDS = (None, "", "INNER", "OUTER", "CROSS")


def _is_date(node: exp.Expr | None) -> bool:
    """Whether it is DATE '2024-01-31'."""
    return (
        isinstance(node, exp.Cast)
        and node.to.this == exp.DType.DATE
        and isinstance(node.this, exp.Literal)
        and node.this.is_string
    )


def _refused(node: exp.Expr, why: str) -> UnsupportedError:
    text = " ".join(node.sql(dialect="spark").split())
    shown = text if len(text) <= 60 else f"{text[:59]}…"
    return UnsupportedError(f"Cannot be sure that {shown} means the same on DuckDB: {why}", cause="UncertainQuery")
