"""Conditions of a query that concern one table, so that planning can skip files of that table.

A condition is used only if rows that fail it cannot change the result. The query itself keeps all its conditions. The
sources are:

- WHERE, for a table that no outer join of that SELECT fills with nulls. An outer join does not count if a condition
  drops the rows that it fills.
- ON of an inner or semi join, for both sides. ON of a left join or an anti join, for the right table. ON of a right
  join, for the tables on the left.
- HAVING, if it only uses keys of GROUP BY.
- The query around a derived table, around a CTE that is read once, or around an operand of a set operation, for passed
  columns (`harness.queries.outputs`).

Therefore each SELECT returns the same rows as before, and so does everything around it, including NOT EXISTS and outer
joins.

A condition over several tables, for example `(a.x = 1 AND …) OR (a.x = 2 AND …)`, implies one condition per table. A
condition on a column also applies to columns that equal it by `a.x = b.x`, by USING, or by a chain of these. A computed
column is replaced by its expression. QUALIFY and conditions with subqueries or functions are not used. SELECTs whose
rows depend on which other rows exist are not touched: samples, positional joins, ASOF joins, and joins by NEAREST.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from sqlglot import exp

from harness.errors import UnknownColumnError
from harness.metadata.filters.literals import LiteralKind, literal_of
from harness.metadata.filters.operands import WRITTEN_PERIODS
from harness.metadata.filters.parse import filter_of, unshifted
from harness.metadata.filters.predicate import And, Constant, Filter, Or, Predicate, Undecided, all_filters
from harness.metadata.filters.sqltext import DAY_NS, whole_number
from harness.metadata.model.schema import Schema
from harness.queries import outputs

# The current time of a query, as in `day >= current_date - 30`. A result is lazy and may run several times, each time
# at a later moment. Planning may therefore assume that a column is at or after the moment, but never that it is before
# it.


_MARGIN = datetime.timedelta(days=2)
"""Covers a time zone of up to a day, and a clock that is set back."""
_NOW_FUNCTIONS = {"now", "get_current_timestamp", "transaction_timestamp"}


def references_now(tree: exp.Expr) -> bool:
    """Return whether a query uses the current time."""
    return any(_is_now(node) for node in tree.walk())


def lower_bound(condition: exp.Expr, now: datetime.datetime) -> exp.Expr | None:
    """Return the condition that a column is at or after a fixed instant, if `condition` implies it from `now` on."""
    kind = type(condition)
    if kind in (exp.GT, exp.GTE, exp.EQ) and references_now(condition.expression):
        column, moment = condition.this, condition.expression
    elif kind in (exp.LT, exp.LTE, exp.EQ) and references_now(condition.this):
        column, moment = condition.expression, condition.this
    elif kind is exp.Between and not condition.args.get("symmetric"):
        column, moment = condition.this, condition.args["low"]
    else:
        return None
    earliest = _earliest(moment, now)
    return None if earliest is None else exp.GTE(this=column.copy(), expression=earliest)


def _earliest(moment: exp.Expr, now: datetime.datetime) -> exp.Expr | None:
    """Return the earliest value of an expression that contains the current time, or None if it is too complex.

    Every expression that `literal_of` understands increases with the current time.
    """
    holder = exp.Paren(this=moment.copy())
    nodes = [node for node in holder.walk() if _is_now(node)]
    if len(nodes) != 1:
        return None
    earliest = now - _MARGIN
    type_ = exp.DType.DATE if type(nodes[0]) is exp.CurrentDate else exp.DType.TIMESTAMPNTZ
    nodes[0].replace(_literal(earliest, type_))
    literal = literal_of(holder)
    if literal is None or literal.kind not in (LiteralKind.DATE, LiteralKind.TIMESTAMP):
        return None
    nanoseconds = literal.value * DAY_NS if literal.kind is LiteralKind.DATE else literal.value
    moved = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=nanoseconds // 1000)
    return _literal(moved, exp.DType.TIMESTAMPNTZ)


def _literal(moment: datetime.datetime, type_: exp.DType) -> exp.Expr:
    text = moment.date().isoformat() if type_ is exp.DType.DATE else moment.isoformat(" ")
    return exp.Cast(this=exp.Literal.string(text), to=exp.DataType(this=type_, nested=False))


def _is_now(node: exp.Expr) -> bool:
    match node:
        case exp.CurrentDate() | exp.CurrentTimestamp() | exp.Localtimestamp():
            return node.this is None
        case exp.Anonymous():
            return node.name.lower() in _NOW_FUNCTIONS and not node.expressions
        case _:
            return False


Renaming: TypeAlias = Callable[[exp.Column], "exp.Expr | None"]
"""Returns the expression that replaces a column, or None if there is none."""


def implied(condition: exp.Expr, renamed: Renaming, now: datetime.datetime | None) -> exp.Expr | None:
    """Return the part of a condition that can be expressed with the columns that `renamed` maps, or None.

    The part is true whenever the whole condition is true. `now` is as for `lower_bound`, or None.
    """
    whole = _whole(condition, renamed)
    if whole is not None:
        return whole
    match condition:
        case exp.Paren():
            return implied(condition.this, renamed, now)
        case exp.And():
            parts = condition.flatten()
        case exp.Or():
            alternatives = [implied(part, renamed, now) for part in condition.flatten()]
            kept_parts = [part for part in alternatives if part is not None]
            return exp.or_(*kept_parts, copy=False) if len(kept_parts) == len(alternatives) else None
        case exp.In(this=exp.Tuple()):
            parts = _by_column(condition.this, condition.expressions)
        case exp.EQ(this=exp.Tuple(), expression=exp.Tuple()):
            parts = _by_column(condition.this, [condition.expression])
        case _:
            weaker = lower_bound(condition, now) if now is not None else None
            weaker = unshifted(condition) if weaker is None else weaker
            return None if weaker is None else _whole(weaker, renamed)
    implied_parts = [p for part in parts if (p := implied(part, renamed, now)) is not None]
    return exp.and_(*implied_parts, copy=False) if implied_parts else None


def _by_column(row: exp.Tuple, rows: Sequence[exp.Expr]) -> Iterator[exp.Expr]:
    """Yield one condition per column for a condition on rows: `(a, b) IN ((1, 2), (3, 4))` implies `a IN (1, 3)`.

    In a comparison of rows, null equals null.
    """
    columns = row.expressions
    if not rows or any(type(other) is not exp.Tuple or len(other.expressions) != len(columns) for other in rows):
        return
    for i, column in enumerate(columns):
        values = [other.expressions[i] for other in rows]
        kinds = [None if literal is None else literal.kind for literal in map(literal_of, values)]
        if None in kinds:  # may be null
            continue
        listed = [value.copy() for value, kind in zip(values, kinds, strict=True) if kind is not LiteralKind.NULL]
        parts: list[exp.Expr] = [exp.In(this=column.copy(), expressions=listed)] if listed else []
        if LiteralKind.NULL in kinds:
            parts.append(exp.Is(this=column.copy(), expression=exp.Null()))
        yield exp.or_(*parts, copy=False)


def _whole(condition: exp.Expr, renamed: Renaming) -> exp.Expr | None:
    names = []
    for node in condition.walk(prune=_is_literal):
        name = renamed(node) if isinstance(node, exp.Column) else node
        if name is None or not _is_plain_node(node):
            return None
        if name is not node:
            names.append(name)
    holder = exp.Paren(this=condition.copy())
    for column, name in zip(list(holder.find_all(exp.Column)), names, strict=True):
        column.replace(name)
    result: exp.Expr = holder.this
    return result


def is_plain(expression: exp.Expr) -> bool:
    """Return whether an expression has the same value at any place in a query, and the same text after generation."""
    return all(_is_plain_node(node) for node in expression.walk(prune=_is_literal))


def _is_plain_node(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in _PLAIN_FUNCTIONS
    if isinstance(node, exp.TimeToStr):
        return node.args["format"].name in WRITTEN_PERIODS
    return type(node) in _PLAIN or _is_literal(node) or _is_compared_sum(node)


def _is_compared_sum(node: exp.Expr) -> bool:
    """Return whether a node adds a number to a column and is compared with a number.

    DuckDB subtracts the number on both sides of the comparison, so the sum cannot overflow.
    """
    condition = node.parent
    if type(node) not in (exp.Add, exp.Sub):
        return False
    if not isinstance(condition, exp.EQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        return False
    if not any(isinstance(side, exp.Column) for side in (node.this, node.expression)):
        return False
    compared = condition.expression if node.arg_key == "this" else condition.this
    numbers = [literal for side in (node.this, node.expression, compared) if (literal := literal_of(side)) is not None]
    return len(numbers) == 2 and all(number.kind is LiteralKind.INTEGER for number in numbers)


def _is_literal(node: exp.Expr) -> bool:
    """Return whether a node consists of literals and cannot fail, for example a date plus an interval."""
    return isinstance(node, exp.Binary | exp.DateFromParts) and literal_of(node) is not None


_PLAIN = {
    *(exp.Column, exp.Dot, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Neg, exp.Paren, exp.And, exp.Or),
    *(exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is, exp.In),
    *(exp.Between, exp.Like, exp.StartsWith, exp.IsNan, exp.Any, exp.Array, exp.ArrayContains, exp.Case, exp.Cast),
    *(exp.Coalesce, exp.DataType, exp.DataTypeParam, exp.Extract, exp.If, exp.Left, exp.Nullif, exp.Substring),
    *(exp.TryCast, exp.Year, exp.TimestampTrunc, exp.Var),
}
_PLAIN_FUNCTIONS = {"date_part", "datepart", "prefix"}
"""Functions without a node class in sqlglot."""


def is_key(select: exp.Select, expression: exp.Expr, is_column: Callable[[str], bool]) -> bool:
    """Return whether all rows of a group have the same value of an expression. The result is True without GROUP BY.

    Args:
        select: The SELECT.
        expression: The expression.
        is_column: Returns whether a source of the SELECT may have a column with a name, which hides an alias.
    """
    group = select.args.get("group")
    if group is None or group.args.get("all"):
        return group is None or _is_plain(group)
    if not _is_plain(group):
        return False
    keys: list[exp.Expr] = []
    for key in group.expressions:
        place = whole_number(key.name) if isinstance(key, exp.Literal) else None
        if place is not None and 0 < place <= len(select.expressions):
            keys.append(select.expressions[place - 1].unalias())
            continue
        keys.append(key)
        if type(key) is exp.Column and len(key.parts) == 1 and not is_column(key.name):
            keys += aliased(select, key.name)
    return _is_made_of(expression, keys)


def _is_plain(group: exp.Group) -> bool:
    """Return whether a GROUP BY has no ROLLUP or similar clause, which would replace keys by nulls."""
    return not any(value for key, value in group.args.items() if key not in ("expressions", "all"))


def aliased(select: exp.Select, name: str) -> list[exp.Expr]:
    """Return the expressions of the result columns with this alias."""
    return [e.this for e in select.expressions if isinstance(e, exp.Alias) and e.alias.casefold() == name.casefold()]


def _is_made_of(expression: exp.Expr, keys: list[exp.Expr]) -> bool:
    if expression in keys:
        return True
    return type(expression) is not exp.Column and all(_is_made_of(part, keys) for part in expression.iter_expressions())


class Pushdown:
    """A search for the conditions that rows of each bound table must satisfy to affect the result."""

    def __init__(
        self, statement: exp.Expr, schemas: Mapping[int, Schema], now: datetime.datetime | None = None
    ) -> None:
        """Index a statement.

        Args:
            statement: The statement.
            schemas: Schemas of bound tables by the `id` of each reference.
            now: The current time in UTC without a zone, or None if unknown.
        """
        self._schemas = schemas
        self._now = now
        self._outputs = outputs.OutputColumns(statement, schemas)
        self._aliases = {
            str(t.alias_or_name).casefold() for t in statement.find_all(exp.Table, exp.Subquery, exp.Lateral)
        }
        self._scopes: dict[int, outputs.SourceColumns | None] = {}

    def where(self, table: exp.Table) -> Filter | None:
        """Return the conditions on `table` as a filter, or None if there are none."""
        if table.args.get("sample") or table.args.get("pivots") or table.alias_column_names:
            return None
        schema = self._schemas[id(table)]
        filters = []
        for condition in self._on(table, _quoted):
            with contextlib.suppress(UnknownColumnError, RecursionError):
                filter_ = filter_of(condition, schema)
                if _can_skip(filter_.predicate):
                    filters.append(filter_)
        return all_filters(filters, schema) if filters else None

    def _on(self, node: exp.Expr, written: Callable[[Sequence[str]], exp.Expr | None]) -> Iterator[exp.Expr]:
        """Yield the conditions that rows of a source must satisfy to affect the result.

        `written` turns a path of names into an expression, or returns None if it cannot.
        """
        select = outputs.select_of(node)
        scope = None if select is None else self._scope(select)
        if select is None or scope is None:
            return
        position = next((i for i, source in enumerate(scope.sources) if source.node is node), None)
        if position is None or [s.alias for s in scope.sources].count(scope.sources[position].alias) > 1:
            return
        collected = list(outputs.conditions(select, scope.sources, position))
        keys: list[exp.Expr] = []
        if outputs.is_preserved(scope.sources, position, len(scope.sources)):
            collected = [*collected, *self._outside(select)]
            keys = list(outputs.conditions_of(select, "having"))
        elif among := outputs.filtering_sources(scope.sources, position):
            for condition in (*outputs.conditions_of(select, "where"), *self._outside(select)):
                columns = list(condition.find_all(exp.Column))
                if columns and all(scope.index_of(column) in among for column in columns):
                    collected.append(condition)
        equal = outputs.EqualColumns(scope, position, collected)

        def renamed(column: exp.Column) -> exp.Expr | None:
            path = scope.path([part.name for part in column.parts], position)
            if path is not None:
                return written(path)
            equal_column = equal.own_column(column)
            collected = None if equal_column is None else written([equal_column[0]])
            return (
                collected
                if collected is None or equal_column is None or equal_column[1] is None
                else exp.cast(collected, equal_column[1])
            )

        def aliased_too(column: exp.Column) -> exp.Expr | None:
            collected = renamed(column)
            aliased_expression = _alias(column, scope) if collected is None else None
            return collected if aliased_expression is None else implied(aliased_expression, renamed, None)

        def key_expression(column: exp.Column) -> exp.Expr | None:
            aliased_expression = _alias(column, scope)
            node: exp.Expr | None = column if aliased_expression is None else aliased_expression.unnest()
            while node is not None and not is_key(select, node, scope.is_column):
                parent = node.parent if aliased_expression is None else None
                node = None if isinstance(parent, exp.Predicate | exp.Connector | exp.Having) else parent
            return None if node is None else aliased_too(column)

        in_where = {id(condition) for condition in outputs.conditions_of(select, "where")}
        # The equality of two columns does not help planning.
        useful = [c for c in collected if not outputs.is_equality(c)]
        renamings = [(c, aliased_too if id(c) in in_where else renamed) for c in useful] + [
            (c, key_expression) for c in keys
        ]
        yield from (whole for c, name in renamings if (whole := implied(c, name, self._now)) is not None)

    def _scope(self, select: exp.Select) -> outputs.SourceColumns | None:
        """Return the sources of a SELECT, or None if conditions cannot be moved."""
        if id(select) not in self._scopes:
            scope, sources = None, outputs.sources_of(select)
            if sources is not None:
                columns = [self._outputs.types(source.node) for source in sources]
                scope = outputs.SourceColumns(select, sources, columns, self._aliases)
                scope = replace(scope, sources=outputs.simplify_joins(select, sources, scope.index_of))
            self._scopes[id(select)] = scope
        return self._scopes[id(select)]

    def _outside(self, query: exp.Query) -> Iterator[exp.Expr]:
        """Yield the conditions on a query's result that the surrounding query contains, on the columns in its FROM."""
        use = self._outputs.use_of(query)
        if use is None or not outputs.keeps_rows(query):
            return
        if isinstance(use, exp.SetOperation):
            names = self._outputs.names(use)
            around: Iterator[exp.Expr] = self._outside(use)
        else:
            names = self._outputs.names(use)
            # Fields of a struct are not followed further.
            around = self._on(use, lambda path: _quoted(path) if len(path) == 1 else None)
        for condition in around:
            inner = implied(condition, lambda column: self._inside(query, names, column), None)
            if inner is not None:
                yield from outputs.conjuncts(inner)

    def _inside(self, query: exp.Query, names: Sequence[str] | None, column: exp.Column) -> exp.Expr | None:
        """Return the expression inside a query that a column of its result stands for, or None.

        `names` are all columns of the result.
        """
        position = outputs.position_of(names, column)
        if position is None:
            return None
        if isinstance(query, exp.Select) and not outputs.is_bare_star(query):
            # The expression replaces its column if it is plain and, in a grouped query, a key.
            expression = query.expressions[position].unalias() if position < len(query.expressions) else None
            scope = self._scope(query)
            if (
                expression is None
                or scope is None
                or expression.is_star
                or not is_key(query, expression, scope.is_column)
            ):
                return None
            return _computed(expression)
        own_names = self._outputs.names(query)
        # A literal takes the type of the compared column, so all operands must have that type.
        is_cast = isinstance(query, exp.SetOperation) and self._outputs.type_of(query, position) is None
        return None if own_names is None or is_cast else exp.column(own_names[position], quoted=True)


def _alias(column: exp.Column, scope: outputs.SourceColumns) -> exp.Expr | None:
    """Return the expression to which a result column's alias refers, or None if the name may mean something else."""
    if len(column.parts) > 1 or scope.is_column(column.name) or column.name.casefold() in scope.hiding:
        return None
    candidates = aliased(scope.select, column.name)
    computed = _computed(candidates[0]) if len(candidates) == 1 else None
    is_closed = computed is not None and all(scope.is_column(inner.name) for inner in computed.find_all(exp.Column))
    return computed if is_closed else None


def _computed(expression: exp.Expr) -> exp.Expr | None:
    """Return an expression that may replace its column, or None if it must not be evaluated a second time."""
    if not is_plain(expression) or expression.find(exp.Column) is None:
        return None
    return expression.copy() if type(expression) is exp.Column else exp.Paren(this=expression.copy())


def _quoted(names: Sequence[str]) -> exp.Expr:
    identifiers = [exp.to_identifier(name, quoted=True) for name in names]
    return exp.Column(**dict(zip(("this", "table", "db", "catalog"), reversed(identifiers), strict=False)))


def _can_skip(predicate: Predicate) -> bool:
    """Return whether planning could ever skip a file because of a predicate."""
    match predicate:
        case And(parts=parts):
            return any(_can_skip(p) for p in parts)
        case Or(parts=parts):
            return all(_can_skip(p) for p in parts)
        case Constant(value=value):
            return value is not True
        case Undecided():
            return False
        case _:
            return True
