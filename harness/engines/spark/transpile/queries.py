"""Translation of whole queries: SELECT with its clauses, set operations, and WITH.

All names in the result are generated.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from sqlglot import exp
from sqlglot.errors import SqlglotError

from harness.engines.spark.transpile import clauses, spark_text
from harness.engines.spark.transpile.aggregates import with_windows
from harness.engines.spark.transpile.expressions import Expressions
from harness.engines.spark.transpile.joins import (
    FromClause,
    LoweredSparkQuery,
    NameScope,
    Output,
    PivotClause,
    Relation,
    rename_columns,
)
from harness.engines.spark.transpile.ordered_aggregates import check_ordered, direction
from harness.engines.spark.transpile.parser import as_duckdb_sql, check, parse
from harness.engines.spark.transpile.spark_text import refusal
from harness.engines.spark.transpile.values import HUGE, TypedSql, bind, common_type, type_name
from harness.errors import RequestError
from harness.metadata.filters.parse import reason
from harness.metadata.model import schema as dt

_SINCE = (4, 1)
"""The first version of Spark with recursive queries."""
_LEVELS = 10_000
"""The most steps of a recursive query before it fails. Spark's default limit is 100."""


def _mentions(node: exp.Expr, name: str) -> int:
    return sum(t.name.casefold() == name.casefold() and not t.args.get("db") for t in node.find_all(exp.Table))


def _recursive(
    cte: exp.CTE, name: str, around: NameScope, query: Callable[[exp.Expr, NameScope], LoweredSparkQuery]
) -> LoweredSparkQuery:
    """Translate a recursive query. Its columns have the types of its first part.

    Args:
        cte: The query.
        name: Its name on Spark.
        around: The names of the queries before it.
        query: Translates a query.
    """
    node = cte.this
    if not isinstance(node, exp.Union) or node.args.get("distinct") or cte.args.get("key_expressions"):
        raise refusal(cte, "WITH RECURSIVE without UNION ALL", "write UNION ALL, and a condition that ends it")
    for key, value in node.args.items():
        if value and key not in ("this", "expression", "distinct"):
            raise refusal(node, f"{key.strip('_').upper().replace('_', ' ')}")
    if _mentions(node.this, cte.alias) or _mentions(node.expression, cte.alias) != 1:
        raise refusal(cte, "WITH RECURSIVE of a query that names itself more than once")
    start = query(node.this, NameScope(ctes=around.ctes))
    columns = rename_columns(start.columns, cte)
    ctes = {**around.ctes, cte.alias.casefold(): (name, columns)}
    step = query(node.expression, NameScope(ctes=ctes))
    if len(step.columns) != len(columns):
        raise refusal(cte)
    for first, second in zip(columns, step.columns, strict=True):
        integers = all(isinstance(c.type, dt.IntegerType) or c.type == HUGE for c in (first, second))
        if str(first.type) != str(second.type) and not integers:
            raise refusal(cte, f"WITH RECURSIVE of {first.type} and {second.type}", "cast both parts to one type")
    return LoweredSparkQuery(f"{start.sql} UNION ALL ({_as_types(step, [c.type for c in columns])})", columns)


def _as_types(query: LoweredSparkQuery, types: Sequence[dt.Type]) -> str:
    """Return a query with its columns cast to other types."""
    pairs = list(zip(query.columns, types, strict=True))
    if all(str(c.type) == str(t) for c, t in pairs):
        return query.sql
    parts = [c.sql if str(c.type) == str(t) else f"CAST({c.sql} AS {type_name(t)}) AS {c.sql}" for c, t in pairs]
    return f"SELECT {', '.join(parts)} FROM ({query.sql})"


_WORDS: dict[type[exp.Expr], str] = {exp.Union: "UNION", exp.Intersect: "INTERSECT", exp.Except: "EXCEPT"}


def _combine(node: exp.SetOperation, left: LoweredSparkQuery, right: LoweredSparkQuery) -> LoweredSparkQuery:
    """Translate a set operation. Each column gets the common type of both sides."""
    word = _WORDS[type(node)]
    if node.args.get("by_name"):
        left, right = _by_name(node, left, right)
    if len(left.columns) != len(right.columns):
        raise refusal(node, "a set operation of different numbers of columns")
    pairs = list(zip(left.columns, right.columns, strict=True))
    types = [common_type([TypedSql("", a.type), TypedSql("", b.type)], word) for a, b in pairs]
    columns = tuple(Output(c.name, t, c.sql) for c, t in zip(left.columns, types, strict=True))
    all_ = "" if node.args.get("distinct") else " ALL"
    sql = f"SELECT * FROM (({_as_types(left, types)}) {word}{all_} ({_as_types(right, types)}))"
    return LoweredSparkQuery(sql, columns)


def _by_name(node: exp.Expr, *sides: LoweredSparkQuery) -> list[LoweredSparkQuery]:
    """Return both sides with the columns of either. A column that a side lacks is null."""
    column_maps = [{c.name.casefold(): c for c in side.columns if c.name is not None} for side in sides]
    if any(len(columns_by_name) < len(side.columns) for columns_by_name, side in zip(column_maps, sides, strict=True)):
        raise refusal(node, "BY NAME of columns without explicit names", "name them with AS")
    all_columns = {
        **column_maps[0],
        **{name: column for name, column in column_maps[1].items() if name not in column_maps[0]},
    }
    aligned = []
    for side, columns_by_name in zip(sides, column_maps, strict=True):
        columns, parts = [], []
        for place, (name, other) in enumerate(all_columns.items()):
            value = columns_by_name[name].sql if name in columns_by_name else f"CAST(NULL AS {type_name(other.type)})"
            columns.append(Output(other.name, columns_by_name.get(name, other).type, f"c{place}"))
            parts.append(f"{value} AS c{place}")
        aligned.append(LoweredSparkQuery(f"SELECT {', '.join(parts)} FROM ({side.sql})", tuple(columns)))
    return aligned


@dataclass(frozen=True, slots=True)
class SparkQuery:
    """A query in Spark's SQL. Its columns are called `c0`, `c1`, ….

    Attributes:
        sql: The query.
        names: DuckDB's names of the columns. None for a name that DuckDB derives from the expression.
        types: DuckDB's types of the columns.
        written_back: The parsed query in DuckDB's SQL, for `agreement`.
        needs: Constructs that exist only in later versions of Spark, with the first version that has them.
        parameters: The values of parameters by name, as texts that the query casts.
    """

    sql: str
    names: tuple[str | None, ...]
    types: tuple[dt.Type, ...]
    written_back: str
    needs: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)


def query(
    text: str, tables: Mapping[str, Mapping[str, dt.Type]], values: Mapping[str, object] = MappingProxyType({})
) -> SparkQuery:
    """Translate a query from DuckDB's dialect to Spark's. It has the same rows in ANSI mode and in UTC.

    Args:
        text: A query that DuckDB accepts.
        tables: By table name, the types of the columns by column name.
        values: The values of parameters by name.

    Raises:
        UnsupportedError: A part may mean something else on Spark, or a table is not in `tables`. The message names it.
        RequestError: The text is not SQL, or is nested too deeply.
    """
    try:
        parsed = parse(text)
    except SqlglotError as error:
        raise RequestError(f"Cannot parse the query as duckdb SQL: {reason(error)}.") from error
    statement = parsed[0] if len(parsed) == 1 else None
    if statement is None:
        raise RequestError(f"Expected one query, got {len(parsed)} statements. Run them one by one.")
    check(statement)
    read = as_duckdb_sql(statement)
    marks = [node for node in statement.find_all(exp.Placeholder) if node.name in values]
    texts = {f"p_{node.name}": bind(node, values[node.name]) for node in marks}
    queries = _Queries({name.casefold(): (name, columns) for name, columns in tables.items()})
    try:
        lowered = queries.query(statement, NameScope())
    except RecursionError:
        raise RequestError("The query is nested too deeply. Split it with WITH, or use IN for long lists.") from None
    names, types = tuple(c.name for c in lowered.columns), tuple(c.type for c in lowered.columns)
    bound = {name: text for name, text in texts.items() if text is not None}
    return SparkQuery(lowered.sql, names, types, read, queries.needs, bound)


@dataclass(frozen=True, slots=True)
class _Item:
    """An item of ORDER BY: its value, its direction, and the result column it is equal to, or None."""

    value: TypedSql
    direction: str
    column: str | None


class _Queries:
    """Translates queries over tables by name in lower case.

    Attributes:
        needs: The constructs found so far that need a later version of Spark.
    """

    def __init__(self, tables: Mapping[str, tuple[str, Mapping[str, dt.Type]]]) -> None:
        self._numbers = itertools.count()
        self.needs: dict[str, tuple[int, int]] = {}
        self._sources = FromClause(tables, self._numbers, self.query, self._expressions)

    def query(self, node: exp.Expr, around: NameScope) -> LoweredSparkQuery:
        """Translate a query. `around` holds the names that it may use in addition to the names of its own tables."""
        match node:
            case exp.Subquery() if not node.args.get("joins") and not node.args.get("pivots"):
                start, inner = self._with(node, around)
                lowered = self.query(node.this, inner)
                return self._with_order_and_limit(node, start, f"({lowered.sql})", lowered.columns)
            case exp.Select():
                start, around = self._with(node, around)
                node = with_windows(node)
                scope = NameScope(ctes=around.ctes, outer=around)
                source = self._sources.clause(node, scope)
                scope.aliases = _aliases(node)
                return self._select(node, scope, start, source)
            case exp.Pivot():
                return self._sources.pivot(PivotClause.of_statement(node), around)
            case exp.Values():
                return self._sources.values(node, around)
            case exp.Union() | exp.Intersect() | exp.Except():
                start, around = self._with(node, around)
                both = _combine(node, self.query(node.this, around), self.query(node.expression, around))
                return self._with_order_and_limit(node, start, both.sql, both.columns)
            case _:
                raise refusal(node)

    def _with(self, node: exp.Expr, around: NameScope) -> tuple[str, NameScope]:
        """Translate a WITH clause. Return the text, and the names that the query after it may use."""
        clause = node.args.get("with_")
        if clause is None:
            return "", around
        inner = NameScope(ctes=dict(around.ctes), outer=around)
        parts, any_recursive = [], False
        for cte in clause.expressions:
            name = spark_text.name(f"w{next(self._numbers)}")
            is_recursive = bool(clause.args.get("recursive")) and _mentions(cte.this, cte.alias) > 0
            if is_recursive:
                lowered, any_recursive = _recursive(cte, name, inner, self.query), True
                self.needs["WITH RECURSIVE"] = _SINCE
            else:
                lowered = self.query(cte.this, NameScope(ctes=inner.ctes))
            columns = rename_columns(lowered.columns, cte)
            inner.ctes = {**inner.ctes, cte.alias.casefold(): (name, columns)}
            levels = f" MAX RECURSION LEVEL {_LEVELS}" if is_recursive else ""
            parts.append(f"{name}{levels} AS ({lowered.sql})")
        return f"WITH {'RECURSIVE ' if any_recursive else ''}{', '.join(parts)} ", inner

    def _with_order_and_limit(
        self, node: exp.Expr, start: str, body: str, columns: tuple[Output, ...]
    ) -> LoweredSparkQuery:
        """Translate a query whose ORDER BY can refer only to its columns."""
        items = [clauses.by_output(item, columns) for item in clauses.items_of(node.args.get("order"), columns)]
        return LoweredSparkQuery(f"{start}{body}{clauses.ends(items, node)}", columns)

    def _select(self, node: exp.Select, scope: NameScope, start: str, source: str) -> LoweredSparkQuery:
        """Translate a SELECT over the FROM clause `source`, in two steps if necessary. `start` is its WITH clause."""
        steps = clauses.in_two_steps(node)
        if steps is not None:
            scope.aliases = _aliases(steps[0])
            first = self._select(steps[0], scope, "", source)
            name = f"h{next(self._numbers)}"
            columns = tuple(Output(f"h{place}", c.type, c.sql) for place, c in enumerate(first.columns))
            second = NameScope(sources=[Relation(name, name, columns)], ctes=scope.ctes)
            return self._select(steps[1], second, start, f" FROM ({first.sql}) AS {name}")
        unnests = clauses.Unnests(
            f"u{next(self._numbers)}", len({call.this for call in clauses.unnest_calls(node)}) > 1
        )
        expressions = self._expressions(scope, unnests)
        outputs = [o for e in node.expressions for o in clauses.project(e, scope, expressions)]
        columns = tuple(Output(name, v.type, f"c{i}") for i, (name, v) in enumerate(outputs))
        projection = [f"{v.sql} AS c{i}" for i, (_, v) in enumerate(outputs)]
        items = self._ordering(node, expressions, outputs, columns)
        row_condition = self._row_condition(node, scope, expressions, outputs, items)
        source += unnests.clause(source)
        conditions = list(scope.conditions)
        if node.args.get("where") is not None:
            conditions.append(expressions.boolean(node.args["where"].this))
        source += f" WHERE {' AND '.join(conditions)}" if conditions else ""
        source += clauses.group_by(node, scope, expressions, [v for _, v in outputs])
        having, group = node.args.get("having"), node.args.get("group")
        if having is not None:
            keys = [] if group is None else [e.name.casefold() for e in group.expressions if isinstance(e, exp.Column)]
            _check_shadows(having, scope, but=keys)
            source += f" HAVING {expressions.boolean(having.this)}"
        distinct = "DISTINCT " if (node.args.get("distinct") is not None and _distinct_on(node) is None) else ""
        hidden = {item.value.sql: f"o{i}" for i, item in enumerate(items) if item.column is None}
        order = node.args.get("order")
        is_late = node.args.get("group") is not None or (order is not None and order.find(exp.Window) is not None)
        # In a correlated query, Spark ignores the order of a LIMIT if the order's expressions are not in the
        # projection.
        is_forgotten = bool(hidden and clauses.limits(node)) and scope.is_within
        if row_condition is None and (distinct or not hidden or not (is_late or is_forgotten)):
            end = clauses.ends([f"{item.column or item.value.sql}{item.direction}" for item in items], node)
            return LoweredSparkQuery(f"{start}SELECT {distinct}{', '.join(projection)}{source}{end}", columns)
        if distinct and hidden:
            raise refusal(node, "an order by something other than a result column")
        # Spark cannot order by an aggregate or window function outside the projection, so rows are chosen in an outer
        # query.
        projection += [f"{sql} AS {name}" for sql, name in hidden.items()]
        where = ""
        if row_condition is not None:
            projection, where = [*projection, f"{row_condition} AS q"], " WHERE q"
        end = clauses.ends([f"{item.column or hidden[item.value.sql]}{item.direction}" for item in items], node)
        names = ", ".join(c.sql for c in columns)
        rows = f"(SELECT {', '.join(projection)}{source}){where}{end}"
        rows = f"(SELECT * FROM {rows})" if is_forgotten else rows
        return LoweredSparkQuery(f"{start}SELECT {distinct}{names} FROM {rows}", columns)

    def _row_condition(
        self,
        node: exp.Select,
        scope: NameScope,
        expressions: Expressions,
        outputs: list[tuple[str | None, TypedSql]],
        items: list[_Item],
    ) -> str | None:
        """Return the condition of QUALIFY, or a condition for the first row of each DISTINCT ON group.

        None without either.
        """
        qualify, on = node.args.get("qualify"), _distinct_on(node)
        if on is None:
            if qualify is None:
                return None
            _check_shadows(qualify, scope)
            return expressions.boolean(qualify.this)
        if qualify is not None or not items:
            raise refusal(node, "DISTINCT ON", "add ORDER BY, so that it is certain which row is the first")
        keys = []
        for key in on:
            place = clauses.place_of(key)
            if place is None:
                _check_shadows(key, scope)
                keys.append(expressions.translate(key).sql)
            elif 1 <= place <= len(outputs):
                keys.append(outputs[place - 1][1].sql)
            else:
                raise refusal(node, "a number in DISTINCT ON")
        order = ", ".join(f"{item.value.sql}{item.direction}" for item in items)
        return f"ROW_NUMBER() OVER (PARTITION BY {', '.join(keys)} ORDER BY {order}) = 1"

    def _expressions(self, scope: NameScope, unnests: clauses.Unnests | None = None) -> Expressions:
        pending: set[int] = set()

        def alias(node: exp.Expr) -> TypedSql:
            if id(node) in pending:
                raise refusal(node, "an alias that refers to itself")
            pending.add(id(node))
            try:
                return expressions.translate(node)
            finally:
                pending.discard(id(node))

        def subquery(node: exp.Query) -> tuple[str, tuple[dt.Type, ...]]:
            lowered = self.query(node, scope)
            return lowered.sql, tuple(c.type for c in lowered.columns)

        expressions = Expressions(
            lambda path: scope.resolve(path, alias),
            subquery,
            None if unnests is None else lambda node: unnests.element(expressions, node),
        )
        return expressions

    def _ordering(
        self,
        node: exp.Select,
        expressions: Expressions,
        outputs: list[tuple[str | None, TypedSql]],
        columns: tuple[Output, ...],
    ) -> list[_Item]:
        items = []
        for item in clauses.items_of(node.args.get("order"), columns):
            output = clauses.output_of(item, columns)
            value = expressions.translate(item.this) if output is None else outputs[columns.index(output)][1]
            check_ordered(item, value.type)
            result_column = next(
                (c.sql for c, (_, v) in zip(columns, outputs, strict=True) if v.sql == value.sql), None
            )
            items.append(_Item(value, direction(item), result_column if output is None else output.sql))
        return items


def _aliases(node: exp.Select) -> dict[str, exp.Expr]:
    """Return the expressions with a unique alias, by alias in lower case."""
    pairs = [(e.alias.casefold(), e.this) for e in node.expressions if isinstance(e, exp.Alias)]
    names = [name for name, _ in pairs]
    return {name: expression for name, expression in pairs if names.count(name) == 1}


def _distinct_on(node: exp.Select) -> list[exp.Expr] | None:
    """Return the keys of DISTINCT ON, or None without DISTINCT ON."""
    distinct = node.args.get("distinct")
    on = None if distinct is None else distinct.args.get("on")
    if on is None:
        return None
    return list(on.expressions) if isinstance(on, exp.Tuple) else [on.this if isinstance(on, exp.Paren) else on]


def _check_shadows(node: exp.Expr, scope: NameScope, but: Collection[str] = ()) -> None:
    """Refuse names that may mean a column or an expression of SELECT. Names in `but` are allowed."""
    for column in node.find_all(exp.Column):
        if len(column.parts) == 1 and column.name.casefold() not in but and scope.shadowed(column.name):
            raise refusal(node, f"{column.name}, which is both a column and another expression of SELECT,")
