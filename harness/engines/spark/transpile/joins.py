"""The FROM clause: relations, joins, PIVOT, and the names of one SELECT."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from harness.engines.spark.transpile import spark_text
from harness.engines.spark.transpile.expressions import Expressions
from harness.engines.spark.transpile.functions.nested import members
from harness.engines.spark.transpile.spark_text import refusal
from harness.engines.spark.transpile.values import LONG, TypedSql, with_common_type
from harness.errors import UnsupportedError
from harness.metadata.model import schema as dt


@dataclass(frozen=True, slots=True)
class Output:
    """A column of a relation.

    Attributes:
        name: The name in the user's query, or None.
        type: The type.
        sql: Spark's name.
    """

    name: str | None
    type: dt.Type
    sql: str


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation in FROM.

    Attributes:
        name: The name in the user's query.
        alias: Spark's name, which is unique in the query.
        columns: The columns.
    """

    name: str
    alias: str
    columns: tuple[Output, ...]

    def column(self, column: Output) -> TypedSql:
        """Return a column of the relation as an expression."""
        return TypedSql(f"{self.alias}.{column.sql}", column.type)

    def columns_named(self, name: str) -> list[Output]:
        """Return the columns with a name, ignoring case."""
        return [c for c in self.columns if c.name is not None and c.name.casefold() == name.casefold()]


@dataclass(slots=True, kw_only=True)
class NameScope:
    """The names that one SELECT can use.

    Attributes:
        sources: The relations in FROM so far.
        merged: Columns that USING merged, by name in lower case.
        aliases: Expressions of the projection by name in lower case.
        ctes: The relations of WITH by name in lower case.
        outer: The scope of the outer query. None if its names cannot be used.
        reached: True if an inner query has used a column of this scope.
        conditions: Conditions of joins that are moved to WHERE.
    """

    sources: list[Relation] = field(default_factory=list)
    merged: dict[str, TypedSql] = field(default_factory=dict)
    aliases: dict[str, exp.Expr] = field(default_factory=dict)
    ctes: dict[str, tuple[str, tuple[Output, ...]]] = field(default_factory=dict)
    outer: NameScope | None = None
    reached: bool = False
    conditions: list[str] = field(default_factory=list)

    @property
    def is_within(self) -> bool:
        """True if names of an outer query can be used."""
        return self.outer is not None and (bool(self.outer.sources) or self.outer.is_within)

    def mentions_outer(self, sql: str) -> bool:
        """Return whether an expression uses columns of an outer query."""
        around = self.outer
        return around is not None and (
            any(f"{source.alias}." in sql for source in around.sources) or around.mentions_outer(sql)
        )

    def resolve(self, path: tuple[str, ...], lower: Callable[[exp.Expr], TypedSql]) -> TypedSql:
        """Return the expression that a path of names refers to.

        Args:
            path: The names.
            lower: Translates an expression of the projection, for an alias.

        Raises:
            UnsupportedError: The path refers to nothing, or to several things.
        """
        expression = self._column(path)
        if expression is None and path[0].casefold() in self.aliases:
            expression = members(lower(self.aliases[path[0].casefold()]), path[1:], exp.column(path[-1]))
        outer_scope = self.outer
        while expression is None and outer_scope is not None:
            expression = outer_scope._column(path)
            outer_scope.reached |= expression is not None
            outer_scope = outer_scope.outer
        if expression is not None:
            return expression
        raise UnsupportedError(f"Cannot run the query on Spark: {'.'.join(path)} does not name a column of its tables")

    def unqualified(self, name: str) -> TypedSql | None:
        """Return the column of FROM that a single name refers to, or None."""
        if name.casefold() in self.merged:
            return self.merged[name.casefold()]
        matches = [source.column(c) for source in self.sources for c in source.columns_named(name)]
        if len(matches) > 1:
            raise UnsupportedError(f"Cannot run the query on Spark: {name} may be a column of several of its tables")
        return matches[0] if matches else None

    def shadowed(self, name: str) -> bool:
        """Return whether a name is both a column of FROM and a different expression of the projection."""
        alias = self.aliases.get(name.casefold())
        if alias is None or not (
            name.casefold() in self.merged or any(source.columns_named(name) for source in self.sources)
        ):
            return False
        return not isinstance(alias, exp.Column) or alias.name.casefold() != name.casefold()

    def _column(self, path: tuple[str, ...]) -> TypedSql | None:
        """Return the column of FROM that a path refers to, with or without a table name."""
        tables = [source for source in self.sources if source.name.casefold() == path[0].casefold()]
        matches = (
            [source.column(c) for source in tables for c in source.columns_named(path[1])] if len(path) > 1 else []
        )
        if len(matches) > 1:
            raise UnsupportedError(f"Cannot run the query on Spark: {'.'.join(path)} may be one of several columns")
        if not matches:
            base = self.unqualified(path[0])
            return None if base is None else members(base, path[1:], exp.column(path[-1]))
        structs = [c.type for source in self.sources for c in source.columns_named(path[0])]
        fields = [f for type_ in structs if isinstance(type_, dt.StructType) for f in type_.fields]
        if any(f.name.casefold() == path[1].casefold() for f in fields):
            raise UnsupportedError(f"Cannot run the query on Spark: {path[0]} is both a table and a struct in one")
        return members(matches[0], path[2:], exp.column(path[-1]))


@dataclass(frozen=True, slots=True)
class LoweredSparkQuery:
    """A translated query and its columns, which are called `c0`, `c1`, … on Spark."""

    sql: str
    columns: tuple[Output, ...]


def rename_columns(columns: tuple[Output, ...], node: exp.Expr) -> tuple[Output, ...]:
    """Return the columns of a source under the names that its alias lists."""
    alias = node.args.get("alias")
    names = [c.name for c in alias.columns] if isinstance(alias, exp.TableAlias) else []
    changed = [Output(name, c.type, c.sql) for name, c in zip(names, columns, strict=False)]
    return (*changed, *columns[len(changed) :])


@dataclass(frozen=True, slots=True)
class PivotClause:
    """A PIVOT or UNPIVOT of a relation, in either syntax.

    Attributes:
        base: The relation.
        node: The parsed clause.
        fields: For PIVOT, columns with their values. For UNPIVOT, the columns that become rows.
        outputs: The aggregates of PIVOT, or the name of UNPIVOT's value column.
    """

    base: exp.Expr
    node: exp.Pivot
    fields: Sequence[exp.Expr]
    outputs: Sequence[exp.Expr]

    @classmethod
    def of_statement(cls, node: exp.Pivot) -> PivotClause:
        """Read `PIVOT t ON …`."""
        if not node.args.get("unpivot"):
            return cls(node.this, node, node.expressions, node.args.get("using") or ())
        into = node.args.get("into")
        if into is None or len(into.expressions) != 1:
            raise refusal(node, "an UNPIVOT of several columns of values")
        field = exp.In(this=into.this, expressions=node.expressions)
        return cls(node.this, node, [field], into.expressions)

    @classmethod
    def of_source(cls, source: exp.Expr) -> PivotClause:
        """Read `t PIVOT (…)` in FROM."""
        clauses = source.args["pivots"]
        if len(clauses) != 1:
            raise refusal(source, "several PIVOTs of one table")
        base = source.copy()
        base.set("pivots", None)
        return cls(base, clauses[0], clauses[0].args.get("fields") or (), clauses[0].expressions)

    def select(self, columns: Sequence[str | None]) -> exp.Query:
        """Return an equivalent SELECT over a relation with these columns."""
        if len(self.fields) != 1 or not isinstance(self.fields[0], exp.In) or not self.outputs:
            raise refusal(self.node, "a PIVOT without explicit values", "name one column and its values: k IN (1, 2)")
        if self.fields[0].args.get("query") is not None or None in columns or len(set(columns)) != len(columns):
            raise refusal(self.node)
        names = [str(name) for name in columns]
        field = self.fields[0]
        return self._unpivoted(field, names) if self.node.args.get("unpivot") else self._pivoted(field, names)

    def _pivoted(self, field: exp.In, columns: list[str]) -> exp.Query:
        """Return a SELECT that groups by the columns in GROUP BY, or by all columns that are not in the clause."""
        group = self.node.args.get("group")
        input_names = {c.name.casefold() for part in (field.this, *self.outputs) for c in part.find_all(exp.Column)}
        keys = [exp.column(name, quoted=True) for name in columns if name.casefold() not in input_names]
        if group is not None:
            keys = [key.copy() for key in group.expressions]
        if not keys:
            raise refusal(self.node, "a PIVOT without keys", "use aggregates with FILTER")
        projection: list[exp.Expr] = list(keys)
        for value in field.expressions:
            if not isinstance(value, exp.Literal | exp.Boolean):
                raise refusal(self.node, "a PIVOT by a value that is not a literal")
            label = value.name if isinstance(value, exp.Literal) else str(value.this).lower()
            for output in self.outputs:
                call, name = output.unalias(), None
                if isinstance(output, exp.Alias):
                    name = f"{label}_{output.alias}"
                elif len(self.outputs) == 1:
                    name = label
                equality = exp.EQ(this=field.this.copy(), expression=value.copy())
                filtered_call = exp.Filter(this=call.copy(), expression=exp.Where(this=equality))
                projection.append(filtered_call if name is None else exp.alias_(filtered_call, name, quoted=True))
        return exp.Select(
            expressions=projection,
            from_=exp.From(this=self.base.copy()),
            group=exp.Group(expressions=[key.copy() for key in keys]),
        )

    def _unpivoted(self, field: exp.In, columns: list[str]) -> exp.Query:
        """Return a UNION of one SELECT per column.

        Rows with null values are omitted unless the clause includes nulls.
        """
        parts = [
            (part.this, part.args["alias"]) if isinstance(part, exp.PivotAlias) else (part, part)
            for part in field.expressions
        ]
        if any(not isinstance(column, exp.Column) or isinstance(column.this, exp.Star) for column, _ in parts):
            raise refusal(self.node, "an UNPIVOT of an expression that is not a column")
        unpivoted = {column.name.casefold() for column, _ in parts}
        others = [exp.column(n, quoted=True) for n in columns if n.casefold() not in unpivoted]
        result: exp.Query | None = None
        for column, label in parts:
            select = exp.Select(
                expressions=[
                    *(other.copy() for other in others),
                    exp.alias_(exp.Literal.string(label.name), field.this.name, quoted=True),
                    exp.alias_(column.copy(), self.outputs[0].name, quoted=True),
                ],
                from_=exp.From(this=self.base.copy()),
            )
            if not self.node.args.get("include_nulls"):
                is_not_null = exp.Not(this=exp.Is(this=column.copy(), expression=exp.Null()))
                select.set("where", exp.Where(this=is_not_null))
            result = select if result is None else exp.Union(this=result, expression=select, distinct=False)
        assert result is not None
        return result


# The keys of USING are written out, because Spark's rule for the side that a key is taken from differs.


_SIDES = {"": "INNER", "LEFT": "LEFT OUTER", "RIGHT": "RIGHT OUTER", "FULL": "FULL OUTER"}


def join(node: exp.Join, sql: str, source: Relation, scope: NameScope, expressions: Expressions) -> str:
    """Translate a join and add its names to `scope`."""
    if node.method == "NATURAL":
        names = [c.name for c in source.columns if c.name is not None and scope.unqualified(c.name) is not None]
        if not names:
            raise refusal(node, "a NATURAL JOIN without common columns")
        node = node.copy()
        node.set("method", None)
        node.set("using", [exp.to_identifier(name, quoted=True) for name in names])
    side, kind = node.side, node.kind
    if scope.conditions and side in ("RIGHT", "FULL"):
        raise refusal(node, f"a {side} JOIN after a join whose condition uses an outer query")
    if node.method or kind not in ("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI") or side not in _SIDES:
        raise refusal(node, f"a {' '.join(filter(None, (node.method, side, kind)))} JOIN")
    if kind in ("SEMI", "ANTI"):
        return _semi_or_anti_join(node, kind, sql, source, scope, expressions)
    using = node.args.get("using")
    merged = _keys(node, source, scope) if using else {}
    left = dict(scope.merged)
    scope.sources.append(source)
    if merged:
        condition = " AND ".join(f"{a.sql} = {b.sql}" for a, b in merged.values())
        for name, (a, b) in merged.items():
            left[name] = (
                TypedSql(f"COALESCE({a.sql}, {b.sql})", a.type) if side == "FULL" else b if side == "RIGHT" else a
            )
        scope.merged = left
        return f" {_SIDES[side]} JOIN {sql} ON {condition}"
    on = node.args.get("on")
    if on is None:
        if side:
            raise refusal(node, "an outer join without a condition")
        return f" CROSS JOIN {sql}"
    condition = _condition(on, source, scope, expressions)
    # Spark 4.3 fails on some queries with outer names inside a JOIN condition.
    if not side and scope.mentions_outer(condition):
        scope.conditions.append(condition)
        return f" CROSS JOIN {sql}"
    return f" {_SIDES[side]} JOIN {sql} ON {condition}"


def _semi_or_anti_join(
    node: exp.Join, kind: str, sql: str, source: Relation, scope: NameScope, expressions: Expressions
) -> str:
    """Translate a semi or anti join. Names of its table cannot be used afterwards."""
    if node.args.get("using"):
        keys = _keys(node, source, scope)
        condition = " AND ".join(f"{a.sql} = {b.sql}" for a, b in keys.values())
    elif node.args.get("on") is not None:
        scope.sources.append(source)
        condition = _condition(node.args["on"], source, scope, expressions)
        scope.sources.remove(source)
    else:
        raise refusal(node, f"a {kind} JOIN without a condition")
    return f" LEFT {kind} JOIN {sql} ON {condition}"


def _condition(on: exp.Expr, source: Relation, scope: NameScope, expressions: Expressions) -> str:
    """Translate an ON condition. Spark does not accept a subquery in it that uses columns of both sides."""
    for node in on.walk(prune=lambda part: isinstance(part, exp.Query)):
        if isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query") is not None):
            text = expressions.translate(node).sql
            sides = {other is source for other in scope.sources if f"{other.alias}." in text}
            if len(sides) > 1:
                raise refusal(node, "a subquery in a JOIN condition that uses both sides")
    return expressions.boolean(on)


def _keys(node: exp.Join, source: Relation, scope: NameScope) -> dict[str, tuple[TypedSql, TypedSql]]:
    """Return the columns that USING compares, left and right, by name in lower case."""
    keys = {}
    for identifier in node.args["using"]:
        left, right = scope.unqualified(identifier.name), source.columns_named(identifier.name)
        if left is None or len(right) != 1 or str(left.type) != str(right[0].type):
            raise refusal(node, f"USING ({identifier.name}) of columns of different types")
        keys[identifier.name.casefold()] = (left, source.column(right[0]))
    return keys


_DESCENDING: dict[type[exp.Expr], bool] = {exp.GTE: True, exp.GT: True, exp.LTE: False, exp.LT: False}


def lateral(node: exp.Join) -> exp.Join:
    """Rewrite an ASOF join as a lateral join with the nearest row."""
    on, right = node.args.get("on"), node.this
    name = right.alias_or_name.casefold()
    if on is None or not name:
        raise refusal(node, "an ASOF JOIN with USING", "write its conditions after ON")
    bounds = [part for part in on.flatten() if type(part) in _DESCENDING] if isinstance(on, exp.And) else [on]
    if len(bounds) != 1 or type(bounds[0]) not in _DESCENDING:
        raise refusal(node, "an ASOF JOIN without one inequality")
    bound = bounds[0]
    sides = [{c.table.casefold() == name for c in side.find_all(exp.Column)} for side in (bound.this, bound.expression)]
    if sides not in ([{False}, {True}], [{True}, {False}]) or any(not c.table for c in bound.find_all(exp.Column)):
        raise refusal(node, "this ASOF JOIN", "write the table before each column of its inequality, one on each side")
    on_the_right = sides[1] == {True}
    nearest = bound.expression if on_the_right else bound.this
    descending = _DESCENDING[type(bound)] is on_the_right
    nearest_row = exp.Select(
        expressions=[exp.Star()],
        from_=exp.From(this=right.copy()),
        where=exp.Where(this=on.copy()),
        order=exp.Order(expressions=[exp.Ordered(this=nearest.copy(), desc=descending)]),
        limit=exp.Limit(expression=exp.Literal.number(1)),
    )
    alias = exp.TableAlias(this=exp.to_identifier(right.alias_or_name, quoted=True))
    return exp.Join(
        this=exp.Subquery(this=nearest_row, alias=alias), side=node.side or None, kind=node.kind or None, on=exp.true()
    )


@dataclass(frozen=True, slots=True)
class FromClause:
    """Translates FROM clauses.

    Attributes:
        tables: The tables by name in lower case: the name on Spark, and the columns.
        numbers: Numbers for generated names.
        query: Translates a query in a scope.
        expressions: Returns the translator of expressions in a scope.
    """

    tables: Mapping[str, tuple[str, Mapping[str, dt.Type]]]
    numbers: Iterator[int]
    query: Callable[[exp.Expr, NameScope], LoweredSparkQuery]
    expressions: Callable[[NameScope], Expressions]

    def clause(self, node: exp.Select, scope: NameScope) -> str:
        """Translate the FROM clause of a SELECT and add its relations to `scope`. Empty without FROM."""
        clause = node.args.get("from_")
        if clause is None:
            return ""
        first = clause.this
        # In `FROM a JOIN b SELECT ...`, the joins are parsed as part of the first table.
        joins = [*(first.args.get("joins") or ()), *(node.args.get("joins") or ())]
        sql, source = self._source(first, scope)
        scope.sources.append(source)
        expressions = self.expressions(scope)
        text = f" FROM {sql}"
        for item in joins:
            if item.method == "ASOF":
                item = lateral(item)
            if item.this.args.get("joins"):
                raise refusal(item, "a join inside a join")
            sql, source = self._source(item.this, scope)
            if sql.startswith("LATERAL ") and (item.side in ("RIGHT", "FULL") or item.kind in ("SEMI", "ANTI")):
                raise refusal(item, f"a {item.side or item.kind} JOIN of a relation that uses columns to its left")
            text += join(item, sql, source, scope, expressions)
        return text

    def values(self, node: exp.Values, around: NameScope) -> LoweredSparkQuery:
        """Translate a VALUES list. Each column has one type for all rows."""
        expressions = self.expressions(NameScope(ctes=around.ctes, outer=around))
        rows = [[expressions.translate(value) for value in row.expressions] for row in node.expressions]
        columns = [with_common_type(values, "VALUES") for values in zip(*rows, strict=True)]
        listed = ", ".join(f"({', '.join(row)})" for row in zip(*(texts for texts, _ in columns), strict=True))
        outputs = tuple(Output(f"col{i}", type_, f"c{i}") for i, (_, type_) in enumerate(columns))
        names = ", ".join(c.sql for c in outputs)
        return LoweredSparkQuery(f"SELECT * FROM VALUES {listed} AS v({names})", outputs)

    def pivot(self, pivot: PivotClause, around: NameScope) -> LoweredSparkQuery:
        """Translate a PIVOT or UNPIVOT."""
        _, base = self._source(pivot.base, NameScope(ctes=around.ctes, outer=around))
        return self.query(pivot.select([c.name for c in base.columns]), around)

    def _source(self, node: exp.Expr, scope: NameScope) -> tuple[str, Relation]:
        """Translate a relation. The text begins with LATERAL if the relation uses columns of relations to its left."""
        alias = f"t{next(self.numbers)}"
        if node.args.get("pivots"):
            pivot = PivotClause.of_source(node)
            lowered = self.pivot(pivot, NameScope(ctes=scope.ctes, outer=scope.outer))
            name = str(pivot.node.alias) or str(node.alias_or_name)
            return f"({lowered.sql}) AS {alias}", Relation(name, alias, rename_columns(lowered.columns, pivot.node))
        inner = node.this if isinstance(node, exp.Lateral) else node
        name = str(node.alias_or_name)
        match inner:
            case exp.Table() if isinstance(inner.this, exp.Identifier) and not inner.args.get("db"):
                sql, columns = self._relation(inner.name, scope)
            case exp.Subquery() if isinstance(inner.this, exp.Query | exp.Values | exp.Pivot):
                inner_scope = NameScope(sources=scope.sources, merged=scope.merged, ctes=scope.ctes, outer=scope.outer)
                lowered = self.query(inner, inner_scope)
                sql, columns = f"{'LATERAL ' if inner_scope.reached else ''}({lowered.sql})", lowered.columns
            case exp.Values():
                lowered = self.values(inner, scope.outer or NameScope())
                sql, columns = f"({lowered.sql})", lowered.columns
            case exp.Unnest() if len(inner.expressions) == 1:
                return self._unnested(inner.expressions[0], node, alias, scope, "unnest")
            case exp.Table() if isinstance(inner.this, exp.Anonymous) and not inner.args.get("db"):
                return self._unnested(inner.this, node, alias, scope, str(inner.this.this).lower())
            case _:
                raise refusal(node)
        return f"{sql} AS {alias}", Relation(name, alias, rename_columns(columns, node))

    def _unnested(
        self, listed: exp.Expr, node: exp.Expr, alias: str, scope: NameScope, function: str
    ) -> tuple[str, Relation]:
        """Translate a list in FROM to one row per element.

        Without a column alias, the column has the relation's name.
        """
        value = self.expressions(scope).translate(listed)
        if not isinstance(value.type, dt.ListType):
            raise refusal(node, f"{function} of {value.type} in FROM")
        offset = (node.this if isinstance(node, exp.Lateral) else node).args.get("offset")
        name = str(node.alias) or function
        columns = [Output(function if offset else name, value.type.element.type, "c0")]
        call = f"EXPLODE({value.sql}) AS {alias}(c0)"
        if offset:
            offset_name = offset.name if isinstance(offset, exp.Identifier) else "ordinality"
            columns.append(Output(offset_name, LONG, "c1"))
            places = f"SELECT col AS c0, CAST(pos + 1 AS BIGINT) AS c1 FROM POSEXPLODE({value.sql})"
            call = f"({places}) AS {alias}"
        prefix = "LATERAL " if scope.sources else ""
        return f"{prefix}{call}", Relation(name, alias, rename_columns(tuple(columns), node))

    def _relation(self, name: str, scope: NameScope) -> tuple[str, tuple[Output, ...]]:
        cte = scope.ctes.get(name.casefold())
        if cte is not None:
            return cte
        if name.casefold() not in self.tables:
            raise UnsupportedError(
                f"Cannot read {name} on Spark: it is not a given table, and views of a session are not visible"
            )
        bound, fields = self.tables[name.casefold()]
        return spark_text.name(bound), tuple(Output(c, type_, spark_text.name(c)) for c, type_ in fields.items())
