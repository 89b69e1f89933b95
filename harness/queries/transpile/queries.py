"""Whole queries: SELECT with its clauses, set operations, WITH. All names in the result are made up, and unique."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import SqlglotError

from harness.errors import RequestError
from harness.filters.parse import reason
from harness.model.schema import Type
from harness.queries.transpile import spark_text, unnest
from harness.queries.transpile.expressions import Expressions
from harness.queries.transpile.grouping import group_by
from harness.queries.transpile.nodes import check
from harness.queries.transpile.order_limit import by_output, items_of, limits, order_by, output_of
from harness.queries.transpile.ordering import direction, ordered
from harness.queries.transpile.parser import parse
from harness.queries.transpile.projection import projected
from harness.queries.transpile.refusal import refused
from harness.queries.transpile.relations import Lowered, as_types, check_parts, renamed
from harness.queries.transpile.scopes import Output, Scope
from harness.queries.transpile.sources import Sources
from harness.queries.transpile.unnest import Unnests
from harness.queries.transpile.values import Typed, common_type
from harness.queries.transpile.windows import with_windows


@dataclass(frozen=True, slots=True)
class Query:
    """A query in Spark's SQL.

    sql: its columns are called `c0`, `c1`, ...
    names: what DuckDB calls the columns, where the query itself says it; None: DuckDB makes a name from the expression.
    types: what the columns are on DuckDB, which may travel in other types on Spark.
    """

    sql: str
    names: tuple[str | None, ...]
    types: tuple[Type, ...]


def query(text: str, tables: Mapping[str, Mapping[str, Type]]) -> Query:
    """A query in DuckDB's dialect as one of Spark's, that gives the same rows under ANSI, in UTC.

    Args:
        text: a query that DuckDB accepts over these tables.
        tables: by name the columns of each, by name.

    Raises:
        UnsupportedError: a part that may mean different things on the two engines, or a table that is not among
            `tables`; the message names it.
        RequestError: the text is no SQL, or nested too deeply.
    """
    statement = _parsed(text)
    try:
        lowered = _Queries({name.casefold(): (name, columns) for name, columns in tables.items()}).query(
            statement, Scope()
        )
    except RecursionError:
        raise RequestError("The query is nested too deeply. Split it with WITH, or use IN for long lists.") from None
    return Query(lowered.sql, tuple(c.name for c in lowered.columns), tuple(c.type for c in lowered.columns))


def _parsed(text: str) -> exp.Expr:
    try:
        parsed = parse(text)
    except SqlglotError as error:
        raise RequestError(f"Cannot parse the query as duckdb SQL: {reason(error)}.") from error
    statement = parsed[0] if len(parsed) == 1 else None
    if statement is None:
        raise RequestError(f"Expected one query, got {len(parsed)} statements. Run them one by one.")
    check(statement)
    return statement


_SELECT_PARTS = {
    "expressions",
    "from_",
    "joins",
    "where",
    "group",
    "having",
    "qualify",
    "windows",
    "distinct",
    "order",
    "limit",
    "offset",
    "with_",
}
_SET_PARTS = {"this", "expression", "distinct", "order", "limit", "offset", "with_"}
_SET_WORDS: dict[type[exp.Expr], str] = {exp.Union: "UNION", exp.Intersect: "INTERSECT", exp.Except: "EXCEPT"}


class _Queries:
    """Lowers queries over bound tables, given by name in lower case."""

    def __init__(self, tables: Mapping[str, tuple[str, Mapping[str, Type]]]) -> None:
        self._numbers = itertools.count()
        self._sources = Sources(tables, self._numbers, self.query, self._expressions)

    def query(self, node: exp.Expr, around: Scope) -> Lowered:
        """A query. `around`: the names that it may use besides those of its own tables."""
        match node:
            case exp.Subquery() if not node.args.get("joins") and not node.args.get("pivots"):
                inner = self._with(node, around)
                lowered = self.query(node.this, inner[1])
                return self._ended(node, inner[0], f"({lowered.sql})", lowered.columns)
            case exp.Select():
                check_parts(node, _SELECT_PARTS)
                return self._select(node, around)
            case exp.Values():
                return self._sources.values(node, around)
            case exp.Union() | exp.Intersect() | exp.Except():
                check_parts(node, _SET_PARTS)
                return self._set_operation(node, around)
            case _:
                raise refused(node)

    # WITH, and what follows a query.

    def _with(self, node: exp.Expr, around: Scope) -> tuple[str, Scope]:
        """The WITH clause, and the names under it."""
        clause = node.args.get("with_")
        if clause is None:
            return "", around
        if clause.args.get("recursive"):
            raise refused(clause, "WITH RECURSIVE")
        inner = Scope(ctes=dict(around.ctes), outer=around)
        parts = []
        for cte in clause.expressions:
            lowered = self.query(cte.this, Scope(ctes=inner.ctes))
            name = spark_text.name(f"w{next(self._numbers)}")
            columns = renamed(lowered.columns, cte)
            inner.ctes = {**inner.ctes, cte.alias.casefold(): (name, columns)}
            parts.append(f"{name} AS ({lowered.sql})")
        return f"WITH {', '.join(parts)} ", inner

    def _ended(self, node: exp.Expr, start: str, body: str, columns: tuple[Output, ...]) -> Lowered:
        """A query whose ORDER BY sees its columns only."""
        items = [by_output(item, columns) for item in items_of(node.args.get("order"), columns)]
        return Lowered(f"{start}{body}{order_by(items)}{limits(node)}", columns)

    # SELECT.

    def _select(self, node: exp.Select, around: Scope) -> Lowered:
        start, around = self._with(node, around)
        node = with_windows(node)
        scope = Scope(ctes=around.ctes, outer=around)
        source = self._sources.clause(node, scope)
        scope.aliases = _aliases(node)
        unnest.check(node)
        unnests = Unnests.of(node, next(self._numbers))
        expressions = self._expressions(scope, unnests)
        outputs = [o for e in node.expressions for o in projected(e, scope, expressions)]
        columns = tuple(Output(name, v.type, f"c{i}") for i, (name, v) in enumerate(outputs))
        qualify = node.args.get("qualify")
        shown = [f"{v.sql} AS c{i}" for i, (_, v) in enumerate(outputs)]
        if qualify is not None:
            _check_shadows(qualify, scope)
            shown.append(f"{expressions.boolean(qualify.this)} AS q")
        source += unnests.clause(source)
        if node.args.get("where") is not None:
            source += f" WHERE {expressions.boolean(node.args['where'].this)}"
        source += group_by(node, scope, expressions, [v for _, v in outputs])
        source += self._having(node, scope, expressions)
        distinct = _distinct(node)
        if qualify is None:
            items = self._ordering(node, scope, expressions, outputs, columns)
            return Lowered(
                f"{start}SELECT {distinct}{', '.join(shown)}{source}{order_by(items)}{limits(node)}", columns
            )
        inner = f"SELECT {', '.join(shown)}{source}"
        names = ", ".join(c.sql for c in columns)
        return self._ended(node, start, f"SELECT {distinct}{names} FROM ({inner}) WHERE q", columns)

    def _expressions(self, scope: Scope, unnests: Unnests | None = None) -> Expressions:
        pending: set[int] = set()

        def alias(node: exp.Expr) -> Typed:
            if id(node) in pending:
                raise refused(node, "an alias that is made of itself")
            pending.add(id(node))
            try:
                return expressions.translate(node)
            finally:
                pending.discard(id(node))

        def subquery(node: exp.Query) -> tuple[str, tuple[Type, ...]]:
            lowered = self.query(node, scope)
            return lowered.sql, tuple(c.type for c in lowered.columns)

        expressions = Expressions(
            lambda path: scope.resolve(path, alias),
            subquery,
            None if unnests is None else lambda node: unnests.element(expressions, node),
        )
        return expressions

    def _having(self, node: exp.Select, scope: Scope, expressions: Expressions) -> str:
        having, group = node.args.get("having"), node.args.get("group")
        if having is None:
            return ""
        keys = {e.name.casefold() for e in group.expressions if isinstance(e, exp.Column)} if group is not None else ()
        _check_shadows(having, scope, but=keys)
        return f" HAVING {expressions.boolean(having.this)}"

    def _ordering(
        self,
        node: exp.Select,
        scope: Scope,
        expressions: Expressions,
        outputs: list[tuple[str | None, Typed]],
        columns: tuple[Output, ...],
    ) -> list[str]:
        items = []
        for item in items_of(node.args.get("order"), columns):
            output = output_of(item, columns)
            if output is not None:
                items.append(by_output(item, columns))
                continue
            value = expressions.translate(item.this)
            same = next((c.sql for c, (_, v) in zip(columns, outputs, strict=True) if v.sql == value.sql), None)
            text = ordered(expressions, item)
            items.append(text if same is None else f"{same}{direction(item)}")
        return items

    # UNION, INTERSECT, EXCEPT.

    def _set_operation(self, node: exp.SetOperation, around: Scope) -> Lowered:
        start, around = self._with(node, around)
        left, right = self.query(node.this, around), self.query(node.expression, around)
        if len(left.columns) != len(right.columns):
            raise refused(node, "a set operation of different numbers of columns")
        word = _SET_WORDS[type(node)]
        types = [
            common_type([Typed("", a.type), Typed("", b.type)], word)
            for a, b in zip(left.columns, right.columns, strict=True)
        ]
        columns = tuple(Output(c.name, t, c.sql) for c, t in zip(left.columns, types, strict=True))
        sides = [as_types(side, types) for side in (left, right)]
        all_ = "" if node.args.get("distinct") else " ALL"
        return self._ended(node, start, f"SELECT * FROM (({sides[0]}) {word}{all_} ({sides[1]}))", columns)


def _aliases(node: exp.Select) -> dict[str, exp.Expr]:
    """The expressions that have a name of their own, by name in lower case."""
    named = [(e.alias.casefold(), e.this) for e in node.expressions if isinstance(e, exp.Alias)]
    names = [name for name, _ in named]
    return {name: expression for name, expression in named if names.count(name) == 1}


def _distinct(node: exp.Select) -> str:
    distinct = node.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        raise refused(node, "DISTINCT ON")
    return "" if distinct is None else "DISTINCT "


def _check_shadows(node: exp.Expr, scope: Scope, but: Collection[str] = ()) -> None:
    """Refuses names that are a column and another expression of the projection, where either may be meant.

    In GROUP BY, and in an expression of ORDER BY, it is the column. `but`: names that are the column's here.
    """
    for column in node.find_all(exp.Column):
        if len(column.parts) == 1 and column.name.casefold() not in but and scope.shadowed(column.name):
            raise refused(node, f"{column.name}, which is both a column and another expression of SELECT,")
