"""The distances that columns of a query's result may have between engines, versions of one, and plans of a query.

    allowances("SELECT k, avg(price) FROM orders GROUP BY k", {"orders": schema})    {1: Allowance(ulps=16, ...)}

Four things make the last bits of a floating-point number depend on the engine:

- the average of integers and decimals: an exact sum is divided as doubles, as long doubles, or twice, by engine,
  version and plan (three rows of 0.05 give 0.05 or 0.049999999999999996);
- sums, averages and statistics of floating-point numbers depend on the order in which rows come;
- powers, logarithms and functions of angles are rounded by the library of each engine;
- a difference of such numbers keeps their absolute error, however small it is itself.

A column has an allowance where such a number reaches it through arithmetic, CASE, greatest and the like, aggregates,
derived tables, CTEs, subqueries and set operations. A number that is compared, rounded or made a text or a decimal has
none: its last bit may decide about a row or a digit, and that shows as a difference. Queries that are not understood
have none either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, build_scope

from harness.metadata.model.schema import FloatType, Schema


@dataclass(frozen=True, slots=True)
class Allowance:
    """The distance that two values may have, in units in the last place of the greater one, and the reason."""

    ulps: int
    reason: str


AVERAGE = Allowance(16, "an average, whose division each engine and plan rounds in its own way")
ORDER = Allowance(1 << 12, "a sum or statistic of floating-point numbers, which depends on the order of rows")
LIBRARY = Allowance(4, "a function such as ln or sin, whose last bit each library rounds in its own way")
CANCELLED = Allowance(1 << 22, "a difference of numbers whose last bits differ")


@dataclass(frozen=True, slots=True)
class _Result:
    """The result of an expression. is_float: maybe a float; allowance: None if all engines agree on it."""

    is_float: bool = False
    allowance: Allowance | None = None


_EXACT, _FLOAT = _Result(), _Result(is_float=True)
_STATISTICS = ("stddev", "variance", "var_", "covar", "corr", "regr", "skewness", "kurtosis", "entropy", "sem")
_QUANTILES = ("median", "percentilecont", "quantile_cont")
_SUMS = ("favg", "fsum", "fmean", "kahan_sum", "sumkahan", "product", "geomean", "geometric_mean")
_OF_LIBRARIES = {
    *("pow", "power", "exp", "ln", "log", "log2", "log10", "cbrt"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh"),
}
_DECIDED = (
    *(exp.Predicate, exp.Connector, exp.Not, exp.Is, exp.In, exp.Between, exp.Exists, exp.Count),
    *(exp.Round, exp.Floor, exp.Ceil, exp.Trunc),
)
"""Conditions, counts and rounded numbers."""
_DOUBLES = {exp.DType.DOUBLE, exp.DType.FLOAT}


def allowances(query: str, tables: Mapping[str, Schema], dialect: str = "duckdb") -> dict[int, Allowance]:
    """The columns of a query's result that may differ in their last bits, by place from 0 on.

    They hold for columns of the types FLOAT and DOUBLE only, which the caller must know.

    query: one query. tables: the schemas of the tables that it reads, by name; others are taken for exact. dialect:
    sqlglot's name of the dialect of `query`.
    """
    known: dict[str, object] = {name: dict.fromkeys(schema.names(), "INT") for name, schema in tables.items()}
    floats = {
        (name.casefold(), f.name.casefold())
        for name, schema in tables.items()
        for f in schema.fields
        if isinstance(f.type, FloatType)
    }
    try:
        tree = qualify(
            parse_one(query, dialect=dialect),
            schema=known,
            dialect=dialect,
            validate_qualify_columns=False,
            quote_identifiers=False,
            identify=False,
        )
        scope = build_scope(tree)
        numbers = [] if scope is None else _ColumnReading(floats).outputs(scope)
    except (SqlglotError, RecursionError, AssertionError):  # the last for queries that sqlglot cannot qualify
        return {}
    return {i: n.allowance for i, n in enumerate(numbers) if n.allowance is not None}


@dataclass(frozen=True, slots=True)
class _ColumnReading:
    """Follows columns through the queries inside a query.

    floats: the floating-point columns of tables, by both names in lower case.
    """

    floats: set[tuple[str, str]]
    _known: dict[int, list[_Result]] = field(default_factory=dict)

    def outputs(self, scope: Scope) -> list[_Result]:
        """The columns of a query, by place."""
        key = id(scope.expression)
        if key not in self._known:
            self._known[key] = []  # for a recursive CTE in itself
            self._known[key] = self._outputs(scope)
        return self._known[key]

    def _outputs(self, scope: Scope) -> list[_Result]:
        if scope.set_operation_scopes:
            sides = [self.outputs(side) for side in scope.set_operation_scopes]
            return [_together(pair) for pair in zip(*sides, strict=False)]
        if not isinstance(scope.expression, exp.Query):
            return []
        return [self._number(e, scope) for e in scope.expression.selects]

    def _column(self, column: exp.Column, scope: Scope | None) -> _Result:
        while scope is not None:
            source = scope.sources.get(column.table)
            if isinstance(source, exp.Table):
                is_float = (source.name.casefold(), column.name.casefold()) in self.floats
                return _FLOAT if is_float else _EXACT
            if isinstance(source, Scope):
                query = source.expression
                names = [n.casefold() for n in query.named_selects] if isinstance(query, exp.Query) else []
                if column.name.casefold() not in names:
                    return _EXACT
                outputs = self.outputs(source)
                place = names.index(column.name.casefold())
                return outputs[place] if place < len(outputs) else _EXACT
            scope = scope.parent
        return _EXACT

    def _number(self, node: exp.Expr, scope: Scope) -> _Result:
        match node:
            case exp.Column():
                return self._column(node, scope)
            case exp.Cast():
                inner = self._number(node.this, scope)
                return _Result(True, inner.allowance) if node.to.this in _DOUBLES else _EXACT
            case exp.Subquery() | exp.Query():
                return self._scalar(node, scope)
            case exp.Window() | exp.Filter() | exp.WithinGroup() | exp.Alias() | exp.Paren():
                return self._number(node.this, scope)
            case exp.Case() | exp.If():
                return _together([self._number(n, scope) for n in _results(node)])
            case exp.Literal():
                return _FLOAT if not node.is_string and "e" in node.name.lower() else _EXACT
            case _ if isinstance(node, _DECIDED):
                return _EXACT
            case _ if (
                isinstance(node, exp.AggFunc)
                or _is_statistic(node)
                or (isinstance(node, exp.Anonymous) and node.name.lower() == "mean")
            ):
                return _aggregate(node, self._parts(node, scope))
            case _:
                return _computed(node, self._parts(node, scope))

    def _parts(self, node: exp.Expr, scope: Scope) -> list[_Result]:
        return [self._number(inner, scope) for inner in node.iter_expressions()]

    def _scalar(self, node: exp.Expr, scope: Scope) -> _Result:
        inner = node.unnest()
        found = next((s for s in scope.subquery_scopes if s.expression is inner), None)
        outputs = [] if found is None else self.outputs(found)
        return outputs[0] if outputs else _EXACT


def _results(node: exp.Case | exp.If) -> Iterator[exp.Expr]:
    branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
    yield from (branch.args["true"] for branch in branches)
    default = node.args.get("default") or node.args.get("false")
    if default is not None:
        yield default


def _is_statistic(node: exp.Expr) -> bool:
    name = node.name.lower() if isinstance(node, exp.Anonymous) else node.key
    return isinstance(node, exp.Func) and name.startswith((*_STATISTICS, *_SUMS, *_QUANTILES))


def _aggregate(node: exp.Expr, parts: list[_Result]) -> _Result:
    inner = _together(parts)
    if _is_statistic(node):
        return _Result(True, ORDER)
    if isinstance(node, exp.Sum | exp.Avg | exp.Anonymous) and (inner.is_float or inner.allowance is not None):
        return _Result(True, _greater(ORDER, inner.allowance))
    if isinstance(node, exp.Avg | exp.Anonymous):
        return _Result(True, AVERAGE)
    return inner


def _computed(node: exp.Expr, parts: list[_Result]) -> _Result:
    inner = _together(parts)
    if isinstance(node, exp.Add | exp.Sub) and inner.allowance is not None:
        return _Result(True, CANCELLED)
    if isinstance(node, exp.Div):
        return _Result(True, inner.allowance)
    if (node.name.lower() if isinstance(node, exp.Anonymous) else node.key) in _OF_LIBRARIES:
        return _Result(True, _greater(LIBRARY, inner.allowance))
    return inner


def _together(parts: list[_Result] | tuple[_Result, ...]) -> _Result:
    allowance: Allowance | None = None
    for part in parts:
        allowance = _greater(part.allowance, allowance)
    return _Result(any(p.is_float for p in parts), allowance)


def _greater(left: Allowance | None, right: Allowance | None) -> Allowance | None:
    if left is None or right is None:
        return left or right
    return left if left.ulps >= right.ulps else right
