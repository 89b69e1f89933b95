"""Which conditions of a query concern one of its tables alone, so that planning may skip files by them.

A condition is taken only from where rows that fail it cannot matter, even to a query that keeps the condition:

- WHERE, for a table that no outer join of that SELECT fills with nulls. A join whose nulls a condition drops is none;
- ON of an inner or semi join, for both sides; of a left join, for the right table; of a right join, for the left ones;
  of an anti join, for the right table.

So each SELECT gives the same rows as before, and with it everything around it, NOT EXISTS and outer joins included.
- HAVING, where it is about keys of the GROUP BY alone;
- what is around a derived table, a CTE that is read once, or an operand of a set operation, where a condition on its
  result is one on the columns that it passes on (`harness.queries.outputs`).

Of a condition over several tables, such as `(a.x = 1 AND …) OR (a.x = 2 AND …)`, each gets what is implied for it; of
one on a column that equals another one, by `a.x = b.x`, USING or a chain of these, the other one gets it too. A column
that the query computes is what it is computed from: `SELECT year(day) AS y … WHERE y = 2024`.
QUALIFY, conditions with subqueries or with functions are left alone, and so is a SELECT with a sample, a
positional join, an ASOF join or one by NEAREST, where which rows there are decides which are chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from sqlglot import exp

from harness.errors import UnknownColumnError
from harness.metadata.filters.parse import filter_of
from harness.metadata.filters.predicate import And, Constant, Filter, Or, Predicate, Undecided, all_of
from harness.metadata.filters.value_texts import whole_number
from harness.metadata.model.schema import Schema
from harness.queries.implied import implied, is_plain
from harness.queries.outputs import (
    EqualColumns,
    Outputs,
    SourceColumns,
    is_bare_star,
    is_equality,
    keeps_rows,
    position_of,
)
from harness.queries.rewritten import Now
from harness.queries.sources import (
    conditions,
    conjuncts,
    is_preserved,
    of_groups,
    of_where,
    partners,
    select_of,
    sources_of,
    without_dropped,
)

# What all rows of one group of a SELECT have in common.


def is_key(select: exp.Select, expression: exp.Expr, is_column: Callable[[str], bool]) -> bool:
    """Whether all rows of a group have one value of an expression; true where nothing is grouped.

    is_column: whether a source of the SELECT has a column of that name, or may have: it hides an alias of the name.
    """
    group = select.args.get("group")
    if group is None or group.args.get("all"):
        return group is None or _is_plain(group)
    return _is_plain(group) and _is_made_of(expression, list(_keys(select, group, is_column)))


def _is_plain(group: exp.Group) -> bool:
    """ROLLUP and its like put nulls in place of keys."""
    return not any(value for key, value in group.args.items() if key not in ("expressions", "all"))


def _keys(select: exp.Select, group: exp.Group, is_column: Callable[[str], bool]) -> Iterator[exp.Expr]:
    for key in group.expressions:
        place = whole_number(key.name) if isinstance(key, exp.Literal) else None
        if place is not None and 0 < place <= len(select.expressions):
            yield select.expressions[place - 1].unalias()
            continue
        yield key
        if type(key) is exp.Column and len(key.parts) == 1 and not is_column(key.name):
            yield from aliased(select, key.name)


def aliased(select: exp.Select, name: str) -> list[exp.Expr]:
    """What the columns of the result are that are given this name."""
    return [e.this for e in select.expressions if isinstance(e, exp.Alias) and e.alias.casefold() == name.casefold()]


def _is_made_of(expression: exp.Expr, keys: list[exp.Expr]) -> bool:
    if expression in keys:
        return True
    return type(expression) is not exp.Column and all(_is_made_of(part, keys) for part in expression.iter_expressions())


class Pushdown:
    """Finds, per reference to a bound table, the conditions that its rows must satisfy to matter at all."""

    def __init__(self, statement: exp.Expr, schemas: Mapping[int, Schema], now: Now | None = None) -> None:
        """`schemas`: by the `id` of each reference to a bound table in `statement`. now: None: it is not known."""
        self._schemas = schemas
        self._now = now
        self._outputs = Outputs(statement, schemas)
        self._aliases = {
            str(t.alias_or_name).casefold() for t in statement.find_all(exp.Table, exp.Subquery, exp.Lateral)
        }
        self._scopes: dict[int, SourceColumns | None] = {}

    def where(self, table: exp.Table) -> Filter | None:
        """The conditions on `table`, as a filter; None if there are none."""
        if table.args.get("sample") or table.args.get("pivots") or table.alias_column_names:
            return None
        schema = self._schemas[id(table)]
        found = (self._filter(condition, schema) for condition in self._on(table, _quoted))
        filters = [f for f in found if f is not None]
        return all_of(filters, schema) if filters else None

    def _filter(self, condition: exp.Expr, schema: Schema) -> Filter | None:
        """The condition as a filter, if it tells planning something."""
        try:
            filter_ = filter_of(condition, schema)
        except (UnknownColumnError, RecursionError):
            return None
        return filter_ if _says_something(filter_.predicate) else None

    def _on(self, node: exp.Expr, written: Written) -> Iterator[exp.Expr]:
        """What rows of a table or subquery in FROM must satisfy to matter, over its columns.

        written: how a path within its columns is written in the condition; None if it cannot be.
        """
        select = select_of(node)
        scope = None if select is None else self._scope(select)
        if select is None or scope is None:
            return
        position = next((i for i, source in enumerate(scope.sources) if source.node is node), None)
        if position is None or [s.alias for s in scope.sources].count(scope.sources[position].alias) > 1:
            return
        found = list(conditions(select, scope.sources, position))
        keys: list[exp.Expr] = []
        if is_preserved(scope.sources, position, len(scope.sources)):
            found = [*found, *self._outside(select)]
            keys = list(of_groups(select))
        elif among := partners(scope.sources, position):
            found += [c for c in (*of_where(select), *self._outside(select)) if _is_among(c, scope, among)]
        equal = EqualColumns(scope, position, found)

        def renamed(column: exp.Column) -> exp.Expr | None:
            return self._renamed(column, scope, position, written, equal)

        def aliased_too(column: exp.Column) -> exp.Expr | None:
            found = renamed(column)
            made = _alias(column, scope) if found is None else None
            return found if made is None else implied(made, renamed, None)

        def of_key(column: exp.Column) -> exp.Expr | None:
            return aliased_too(column) if _is_of_key(column, scope) else None

        in_where = {id(condition) for condition in of_where(select)}
        # That two columns are equal tells planning nothing by itself.
        told = [c for c in found if not is_equality(c)]
        named = [(c, aliased_too if id(c) in in_where else renamed) for c in told] + [(c, of_key) for c in keys]
        yield from (whole for c, name in named if (whole := implied(c, name, self._now)) is not None)

    def _scope(self, select: exp.Select) -> SourceColumns | None:
        """The sources of a SELECT; None where conditions cannot be moved."""
        if id(select) not in self._scopes:
            sources = sources_of(select)
            if sources is None:
                self._scopes[id(select)] = None
            else:
                columns = [self._outputs.types_of(source.node) for source in sources]
                scope = SourceColumns(select, sources, columns, self._aliases)
                self._scopes[id(select)] = scope.with_sources(without_dropped(select, sources, scope.index_of))
        return self._scopes[id(select)]

    def _outside(self, query: exp.Query) -> Iterator[exp.Expr]:
        """What must hold of a query's result to matter to what is around the query, over the columns in its FROM."""
        use = self._outputs.use_of(query)
        if use is None or not keeps_rows(query):
            return
        if isinstance(use, exp.SetOperation):
            names = self._outputs.names(use)
            around: Iterator[exp.Expr] = self._outside(use)
        else:
            names = self._outputs.of_source(use)
            around = self._on(use, _unquoted)
        for condition in around:
            inner = implied(condition, lambda column: self._inside(query, names, column), None)
            if inner is not None:
                yield from conjuncts(inner)

    def _inside(self, query: exp.Query, names: Sequence[str] | None, column: exp.Column) -> exp.Expr | None:
        """What a column of a query's result is inside of the query; of a set operation, in each of its operands.

        names: of the columns of the result, as they are called outside.
        """
        position = position_of(names, column)
        if position is None:
            return None
        if isinstance(query, exp.Select) and not is_bare_star(query):
            return self._projected(query, position)
        own = self._outputs.names(query)
        # A literal takes the type of the column beside it, so operands of one type only.
        is_cast = isinstance(query, exp.SetOperation) and self._outputs.type_of(query, position) is None
        return None if own is None or is_cast else exp.column(exp.to_identifier(own[position], quoted=True))

    def _projected(self, query: exp.Select, position: int) -> exp.Expr | None:
        """What a column of the result is in FROM, by its place; None where it is not plain, or no key of a group."""
        found = query.expressions[position].unalias() if position < len(query.expressions) else None
        scope = self._scope(query)
        if found is None or scope is None or found.is_star or not is_key(query, found, scope.is_column):
            return None
        return _computed(found)

    def _renamed(
        self, column: exp.Column, scope: SourceColumns, position: int, written: Written, equal: EqualColumns
    ) -> exp.Expr | None:
        path = scope.path([part.name for part in column.parts], position)
        if path is not None:
            return written(path)
        own = equal.of_own(column)
        found = None if own is None else written([own[0]])
        return found if found is None or own is None or own[1] is None else exp.cast(found, own[1])


Written: TypeAlias = Callable[[Sequence[str]], exp.Expr | None]


def _alias(column: exp.Column, scope: SourceColumns) -> exp.Expr | None:
    """What a column of the result is computed from, where nothing but its alias has the name."""
    if len(column.parts) > 1 or scope.is_column(column.name) or column.name.casefold() in scope.hiding:
        return None
    found = aliased(scope.select, column.name)
    made = _computed(found[0]) if len(found) == 1 else None
    is_closed = made is not None and all(scope.is_column(inner.name) for inner in made.find_all(exp.Column))
    return made if is_closed else None


def _computed(expression: exp.Expr) -> exp.Expr | None:
    """An expression in place of the column that it makes; None unless it can be evaluated again."""
    if not is_plain(expression) or expression.find(exp.Column) is None:
        return None
    return expression.copy() if type(expression) is exp.Column else exp.Paren(this=expression.copy())


def _is_of_key(column: exp.Column, scope: SourceColumns) -> bool:
    """Whether a column of HAVING stands in an expression of which all rows of a group have one value."""
    made = _alias(column, scope)
    node: exp.Expr | None = column if made is None else made.unnest()
    while node is not None:
        if is_key(scope.select, node, scope.is_column):
            return True
        node = (
            node.parent
            if made is None and not isinstance(node.parent, exp.Predicate | exp.Connector | exp.Having)
            else None
        )
    return False


def _is_among(condition: exp.Expr, scope: SourceColumns, sources: frozenset[int]) -> bool:
    """Whether a condition is about columns of these sources alone."""
    columns = list(condition.find_all(exp.Column))
    return bool(columns) and all(scope.index_of(column) in sources for column in columns)


def _quoted(names: Sequence[str]) -> exp.Expr:
    identifiers = [exp.to_identifier(name, quoted=True) for name in names]
    return exp.Column(**dict(zip(("this", "table", "db", "catalog"), reversed(identifiers), strict=False)))


def _unquoted(names: Sequence[str]) -> exp.Expr | None:
    """A column of a subquery; fields of a struct are not followed any further."""
    return exp.column(exp.to_identifier(names[0], quoted=True)) if len(names) == 1 else None


def _says_something(predicate: Predicate) -> bool:
    """Whether planning could ever skip a file for it."""
    match predicate:
        case And(parts=parts):
            return any(_says_something(p) for p in parts)
        case Or(parts=parts):
            return all(_says_something(p) for p in parts)
        case Constant(value=value):
            return value is not True
        case Undecided():
            return False
        case _:
            return True
