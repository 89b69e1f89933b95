"""Allowed differences in the last bits of a query's result between engines, engine versions, and query plans.

    allowances("SELECT k, avg(price) FROM orders GROUP BY k", {"orders": schema})    {1: Allowance(ulps=16, ...)}

The last bits depend on the engine in four cases:

- The average of integers or decimals. The exact sum is divided as doubles, as long doubles, or in two steps, depending
  on the engine, its version, and the plan. Three rows of 0.05 give 0.05 or 0.049999999999999996.
- Sums, averages, and statistics of floating-point numbers, which depend on the order of rows.
- Powers, logarithms, and trigonometric functions, which each engine's library rounds in its own way.
- Differences of these numbers. They keep the absolute error of their operands even if the difference is small.

An inexact number reaches a result column through arithmetic, CASE, functions like greatest, aggregates, derived tables,
CTEs, subqueries, and set operations. Numbers that are compared, rounded, or cast to text or decimal get no allowance,
because the last bit may decide about a row or a digit. Queries that cannot be analyzed get no allowances.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, build_scope

from harness.metadata.model.schema import FloatType, Schema


@dataclass(frozen=True, slots=True)
class Allowance:
    """An allowed difference between two values.

    Attributes:
        ulps: The maximum, in units in the last place of the greater value.
        reason: Why engines differ.
    """

    ulps: int
    reason: str


AVERAGE = Allowance(16, "an average, whose division each engine and plan rounds in its own way")
ORDER = Allowance(1 << 12, "a sum or statistic of floating-point numbers, which depends on the order of rows")
LIBRARY = Allowance(4, "a function like ln or sin, whose last bit depends on the library")
CANCELLED = Allowance(1 << 22, "a difference of numbers whose last bits differ")


@dataclass(frozen=True, slots=True)
class _Result:
    """Properties of an expression.

    Attributes:
        is_float: True if it may be a float.
        allowance: The allowed difference, or None if all engines agree on the value.
    """

    is_float: bool = False
    allowance: Allowance | None = None


_EXACT, _FLOAT = _Result(), _Result(is_float=True)
_STATISTICS = (
    *("stddev", "variance", "var_", "covar", "corr", "regr", "skewness", "kurtosis", "entropy", "sem"),
    *("favg", "fsum", "fmean", "kahan_sum", "sumkahan", "product", "geomean", "geometric_mean"),
    *("median", "percentilecont", "quantile_cont"),
)
_LIBRARY_FUNCTIONS = {
    *("pow", "power", "exp", "ln", "log", "log2", "log10", "cbrt"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh"),
}
_EXACT_KINDS = (
    *(exp.Predicate, exp.Connector, exp.Not, exp.Is, exp.In, exp.Between, exp.Exists, exp.Count),
    *(exp.Round, exp.Floor, exp.Ceil, exp.Trunc),
)
"""Expressions that are conditions, counts, or rounded numbers."""
_DOUBLES = {exp.DType.DOUBLE, exp.DType.FLOAT}


def allowances(query: str, tables: Mapping[str, Schema], dialect: str = "duckdb") -> dict[int, Allowance]:
    """Return the result columns whose values may differ in their last bits, by position from 0.

    An allowance applies only to columns of type FLOAT and DOUBLE. The caller must check the types.

    Args:
        query: The query.
        tables: Schemas by table name. Other tables count as exact.
        dialect: The query's dialect, by sqlglot's name.
    """
    columns: dict[str, object] = {name: dict.fromkeys(schema.names(), "INT") for name, schema in tables.items()}
    floats = {
        (name.casefold(), f.name.casefold())
        for name, schema in tables.items()
        for f in schema.fields
        if isinstance(f.type, FloatType)
    }
    try:
        tree = qualify(
            parse_one(query, dialect=dialect),
            schema=columns,
            dialect=dialect,
            validate_qualify_columns=False,
            quote_identifiers=False,
            identify=False,
        )
        scope = build_scope(tree)
        numbers = [] if scope is None else _ColumnReading(floats).outputs(scope)
    # AssertionError comes from queries that sqlglot cannot qualify
    except (SqlglotError, RecursionError, AssertionError):
        return {}
    return {i: n.allowance for i, n in enumerate(numbers) if n.allowance is not None}


@dataclass(slots=True)
class _ColumnReading:
    """An analyzer that follows columns through nested queries and caches the output columns of each query.

    Attributes:
        floats: Floating-point columns as pairs of table and column name, in lower case.
    """

    floats: AbstractSet[tuple[str, str]]
    _results: dict[int, list[_Result]] = field(default_factory=dict)

    def outputs(self, scope: Scope) -> list[_Result]:
        """Return the output columns of a query, in order."""
        key = id(scope.expression)
        if key not in self._results:
            self._results[key] = []  # stops the recursion if a recursive CTE reads itself
            # The attribute was named `union_scopes` before sqlglot 30.30.
            branches = getattr(scope, "set_operation_scopes", None) or getattr(scope, "union_scopes", ())
            if branches:
                sides = [self.outputs(side) for side in branches]
                self._results[key] = [_combined(pair) for pair in zip(*sides, strict=False)]
            elif isinstance(scope.expression, exp.Query):
                self._results[key] = [self._number(e, scope) for e in scope.expression.selects]
        return self._results[key]

    def _column(self, column: exp.Column, scope: Scope | None) -> _Result:
        while scope is not None:
            source = scope.sources.get(column.table)
            if isinstance(source, exp.Table):
                is_float = (source.name.casefold(), column.name.casefold()) in self.floats
                return _FLOAT if is_float else _EXACT
            if isinstance(source, Scope):
                names = source.expression.named_selects if isinstance(source.expression, exp.Query) else []
                outputs = zip(names, self.outputs(source), strict=False)
                return next((output for name, output in outputs if name.casefold() == column.name.casefold()), _EXACT)
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
                inner_scopes = (s for s in scope.subquery_scopes if s.expression is node.unnest())
                return next((output for s in inner_scopes for output in self.outputs(s)), _EXACT)
            case exp.Window() | exp.Filter() | exp.WithinGroup() | exp.Alias() | exp.Paren():
                return self._number(node.this, scope)
            case exp.Case() | exp.If():
                branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
                results = [branch.args["true"] for branch in branches]
                results += filter(None, [node.args.get("default") or node.args.get("false")])
                return _combined([self._number(n, scope) for n in results])
            case exp.Literal():
                return _FLOAT if not node.is_string and "e" in node.name.lower() else _EXACT
            case _ if isinstance(node, _EXACT_KINDS):
                return _EXACT
            case _:
                return _computed(node, _combined([self._number(part, scope) for part in node.iter_expressions()]))


def _computed(node: exp.Expr, inner: _Result) -> _Result:
    """Return the properties of a function or operator, given the combined properties of its arguments."""
    name = node.name.lower() if isinstance(node, exp.Anonymous) else node.key
    is_average = isinstance(node, exp.Avg) or (isinstance(node, exp.Anonymous) and name == "mean")
    if isinstance(node, exp.Func) and name.startswith(_STATISTICS):
        return _Result(True, ORDER)
    if (is_average or isinstance(node, exp.Sum)) and (inner.is_float or inner.allowance is not None):
        return _Result(True, _greater(ORDER, inner.allowance))
    if is_average:
        return _Result(True, AVERAGE)
    if isinstance(node, exp.Add | exp.Sub) and inner.allowance is not None:
        return _Result(True, CANCELLED)
    if isinstance(node, exp.Div):
        return _Result(True, inner.allowance)
    if name in _LIBRARY_FUNCTIONS:
        return _Result(True, _greater(LIBRARY, inner.allowance))
    return inner


def _combined(parts: Sequence[_Result]) -> _Result:
    return _Result(any(p.is_float for p in parts), _greater(*(p.allowance for p in parts)))


def _greater(*allowances: Allowance | None) -> Allowance | None:
    return max(filter(None, allowances), key=lambda allowance: allowance.ulps, default=None)
