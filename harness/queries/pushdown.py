"""Which conditions of a query concern one of its tables alone, so that planning may skip files by them.

A condition is taken only from where rows that fail it cannot matter, even to a query that keeps the condition:

- WHERE, for a table that no outer join of that SELECT fills with nulls;
- ON of an inner or semi join, for both sides; of a left join, for the right table; of a right join, for the left ones;
  of an anti join, for the right table.

So each SELECT gives the same rows as before, and with it everything around it, NOT EXISTS and outer joins included.
- HAVING, where it is about keys of the GROUP BY alone;
- what is around a derived table, a CTE that is read once, or an operand of a set operation, where a condition on its
  result is one on the columns that it passes on (`harness.queries.outputs`).

Of a condition over several tables, such as `(a.x = 1 AND …) OR (a.x = 2 AND …)`, each gets what is implied for it.
QUALIFY, conditions with subqueries or with functions are left alone, and so is a SELECT with a sample, a
positional join or an ASOF join, where which rows there are decides which are chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from harness.errors import UnknownColumnError
from harness.filters.literals import literal_of
from harness.filters.parse import filter_of
from harness.filters.parsed import all_of
from harness.filters.predicate import And, Constant, Filter, Or, Predicate, Undecided
from harness.model.schema import Schema
from harness.queries.outputs import Outputs, is_bare_star, is_key, keeps_rows, position_of, projected


@dataclass(frozen=True, slots=True)
class _Source:
    """One table, subquery or function in FROM. `join`: what attaches it; None for the first."""

    node: exp.Expr
    join: exp.Join | None

    @property
    def alias(self) -> str:
        return str(self.node.alias_or_name).casefold()

    @property
    def side(self) -> str:
        return self.join.side if self.join is not None else ""

    @property
    def kind(self) -> str:
        return self.join.kind if self.join is not None else ""


class Pushdown:
    """Finds, per reference to a bound table, the conditions that its rows must satisfy to matter at all."""

    def __init__(self, statement: exp.Expr, schemas: Mapping[int, Schema]) -> None:
        """`schemas`: by the `id` of each reference to a bound table in `statement`."""
        self._schemas = schemas
        self._outputs = Outputs(statement, schemas)
        self._columns: dict[int, frozenset[str] | None] = {}
        self._aliases = {
            str(t.alias_or_name).casefold() for t in statement.find_all(exp.Table, exp.Subquery, exp.Lateral)
        }

    def where(self, table: exp.Table) -> Filter | None:
        """The conditions on `table`, as a filter; None if there are none."""
        if table.args.get("sample") or table.args.get("pivots") or table.alias_column_names:
            return None
        schema = self._schemas[id(table)]
        found = (_filter(condition, schema) for condition in self._on(table, _quoted))
        filters = [f for f in found if f is not None]
        return all_of(filters, schema) if filters else None

    def _on(self, node: exp.Expr, written: Written) -> Iterator[exp.Expr]:
        """What rows of a table or subquery in FROM must satisfy to matter, over its columns.

        written: how a path within its columns is written in the condition; None if it cannot be.
        """
        select = select_of(node)
        sources = None if select is None else _sources(select)
        if select is None or sources is None:
            return
        position = next((i for i, source in enumerate(sources) if source.node is node), None)
        if position is None or [s.alias for s in sources].count(sources[position].alias) > 1:
            return
        place = _Place(select, sources, position)

        def renamed(column: exp.Column) -> exp.Expr | None:
            return self._renamed(column, place, written)

        def renamed_key(column: exp.Column) -> exp.Expr | None:
            return renamed(column) if is_key(select, column) else None

        found = [_implied(condition, renamed) for condition in _conditions(select, sources, position)]
        if _is_preserved(sources, position, len(sources)):
            found += [_implied(condition, renamed) for condition in self._outside(select)]
            found += [_implied(condition, renamed_key) for condition in _of_groups(select)]
        yield from (implied for implied in found if implied is not None)

    def _outside(self, query: exp.Query) -> Iterator[exp.Expr]:
        """What must hold of a query's result to matter to what is around the query, over the columns in its FROM."""
        use = self._outputs.use_of(query)
        if use is None or not keeps_rows(query):
            return
        if isinstance(use, exp.SetOperation):
            names = self._outputs.names(use)
            conditions: Iterator[exp.Expr] = self._outside(use)
        else:
            names = self._outputs.of_source(use)
            conditions = self._on(use, _unquoted)
        for condition in conditions:
            implied = _implied(condition, lambda column: self._inside(query, names, column))
            if implied is not None:
                yield from _conjuncts(implied)

    def _inside(self, query: exp.Query, names: Sequence[str] | None, column: exp.Column) -> exp.Expr | None:
        """What a column of a query's result is inside of the query; of a set operation, in each of its operands.

        names: of the columns of the result, as they are called outside.
        """
        position = position_of(names, column)
        if position is None:
            return None
        if isinstance(query, exp.Select) and not is_bare_star(query):
            return projected(query, position)
        own = self._outputs.names(query)
        # A literal takes the type of the column beside it, so operands of one type only.
        is_cast = isinstance(query, exp.SetOperation) and self._outputs.type_of(query, position) is None
        return None if own is None or is_cast else exp.column(exp.to_identifier(own[position], quoted=True))

    def _renamed(self, column: exp.Column, place: _Place, written: Written) -> exp.Expr | None:
        names = self._unqualified([part.name for part in column.parts], place)
        return None if names is None else written(names)

    def _unqualified(self, names: list[str], place: _Place) -> list[str] | None:
        """The path within the source's columns; None unless the names can mean nothing else."""
        source = place.sources[place.position]
        columns = self._columns_of(source)
        if columns is None:
            return None
        first = names[0].casefold()
        if len(names) > 1 and first == source.alias and names[1].casefold() in columns:
            return names[1:]
        if first in self._aliases or first not in columns or first in _output_names(place.select):
            return None
        others = [self._columns_of(s) for i, s in enumerate(place.sources) if i != place.position]
        return None if any(other is None or first in other for other in others) else names

    def _columns_of(self, source: _Source) -> frozenset[str] | None:
        if id(source.node) not in self._columns:
            names = self._outputs.of_source(source.node)
            self._columns[id(source.node)] = None if names is None else frozenset(name.casefold() for name in names)
        return self._columns[id(source.node)]


@dataclass(frozen=True, slots=True)
class _Place:
    """One source of a SELECT among the others."""

    select: exp.Select
    sources: list[_Source]
    position: int


Written: TypeAlias = Callable[[list[str]], exp.Expr | None]


def _quoted(names: list[str]) -> exp.Expr:
    identifiers = [exp.to_identifier(name, quoted=True) for name in names]
    return exp.Column(**dict(zip(("this", "table", "db", "catalog"), reversed(identifiers), strict=False)))


def _unquoted(names: list[str]) -> exp.Expr | None:
    """A column of a subquery; fields of a struct are not followed any further."""
    return exp.column(exp.to_identifier(names[0], quoted=True)) if len(names) == 1 else None


def _implied(condition: exp.Expr, renamed: Callable[[exp.Column], exp.Expr | None]) -> exp.Expr | None:
    """What the condition says of columns that `renamed` knows: true wherever the condition is. None: nothing."""
    whole = _whole(condition, renamed)
    if whole is not None:
        return whole
    match condition:
        case exp.Paren():
            return _implied(condition.this, renamed)
        case exp.And():
            known = [p for part in condition.flatten() if (p := _implied(part, renamed)) is not None]
            return exp.and_(*known, copy=False) if known else None
        case exp.Or():
            parts = [_implied(part, renamed) for part in condition.flatten()]
            some = [part for part in parts if part is not None]
            return exp.or_(*some, copy=False) if len(some) == len(parts) else None
        case _:
            return None


def _whole(condition: exp.Expr, renamed: Callable[[exp.Column], exp.Expr | None]) -> exp.Expr | None:
    names = []
    for node in condition.walk(prune=_is_literal):
        name = renamed(node) if isinstance(node, exp.Column) else node
        if name is None or not _is_plain(node):
            return None
        if name is not node:
            names.append(name)
    holder = exp.Paren(this=condition.copy())
    for column, name in zip(list(holder.find_all(exp.Column)), names, strict=True):
        column.replace(name)
    result: exp.Expr = holder.this
    return result


def _filter(condition: exp.Expr, schema: Schema) -> Filter | None:
    """The condition as a filter, if it tells planning something."""
    try:
        filter_ = filter_of(condition, schema)
    except (UnknownColumnError, RecursionError):
        return None
    return filter_ if _says_something(filter_.predicate) else None


def select_of(table: exp.Expr) -> exp.Select | None:
    """The SELECT that names the table, or has the subquery, directly in FROM."""
    node = table.parent
    if isinstance(node, exp.Join):
        node = node.parent
    if isinstance(node, exp.Table):
        # `FROM a JOIN b SELECT …` is parsed with the joins inside the first table.
        node = node.parent
    if isinstance(node, exp.From):
        node = node.parent
    return node if isinstance(node, exp.Select) else None


def _sources(select: exp.Select) -> list[_Source] | None:
    """What a SELECT reads, from the left; None where conditions cannot be moved."""
    first = select.args.get("from_")
    if first is None or select.args.get("sample") or select.args.get("laterals"):
        return None
    inner = (first.this.args.get("joins") or []) if isinstance(first.this, exp.Table) else []
    joins = [*inner, *(select.args.get("joins") or [])]
    sources = [_Source(first.this, None), *(_Source(join.this, join) for join in joins)]
    if any(s.node.args.get("joins") for s in sources[1:]) or not all(_is_known_join(join) for join in joins):
        return None
    return sources


def _is_known_join(join: exp.Join) -> bool:
    if join.method not in ("", "NATURAL"):
        return False
    if join.side:
        return join.side in ("LEFT", "RIGHT", "FULL") and join.kind in ("", "OUTER")
    return join.kind in ("", "INNER", "CROSS", "SEMI", "ANTI")


def _conditions(select: exp.Select, sources: list[_Source], position: int) -> Iterator[exp.Expr]:
    where = select.args.get("where")
    if where is not None and _is_preserved(sources, position, len(sources)):
        yield from _conjuncts(where.this)
    for index, source in enumerate(sources):
        on = source.join.args.get("on") if source.join is not None else None
        if on is not None and _may_filter_by_on(sources, index, position):
            yield from _conjuncts(on)


def _of_groups(select: exp.Select) -> Iterator[exp.Expr]:
    having = select.args.get("having")
    if having is not None:
        yield from _conjuncts(having.this)


def _is_preserved(sources: list[_Source], position: int, end: int) -> bool:
    """Whether joining the sources before `end` gives rows of this one only, none filled with nulls in its place."""
    own = sources[position]
    is_visible = own.side in ("", "RIGHT") and own.kind not in ("SEMI", "ANTI")
    return is_visible and all(s.side in ("", "LEFT") for s in sources[position + 1 : end])


def _may_filter_by_on(sources: list[_Source], index: int, position: int) -> bool:
    """Whether rows of a source that fail a condition of the ON of source `index` cannot matter."""
    join = sources[index]
    if position > index or join.side == "FULL":
        return False
    if position == index:
        return join.side in ("", "LEFT")
    return join.side in ("", "RIGHT") and join.kind != "ANTI" and _is_preserved(sources, position, index)


def _conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    match condition:
        case exp.Paren():
            yield from _conjuncts(condition.this)
        case exp.And():
            for part in condition.flatten():
                yield from _conjuncts(part)
        case _:
            yield condition


def _output_names(select: exp.Select) -> set[str]:
    return {e.alias.casefold() for e in select.expressions if isinstance(e, exp.Alias)}


_PLAIN = {
    exp.Column,
    exp.Dot,
    exp.Identifier,
    exp.Literal,
    exp.Boolean,
    exp.Null,
    exp.Neg,
    exp.Paren,
    exp.And,
    exp.Or,
    exp.Not,
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.Is,
    exp.In,
    exp.Between,
    exp.Like,
    exp.StartsWith,
    exp.IsNan,
    exp.Cast,
    exp.DataType,
    exp.DataTypeParam,
    exp.TryCast,
    exp.Year,
    exp.TimestampTrunc,
    exp.Var,
}


def _is_plain(node: exp.Expr) -> bool:
    """Whether the node means the same however often, and wherever, it is evaluated, and is generated as it was read."""
    return type(node) in _PLAIN or _is_literal(node)


def _is_literal(node: exp.Expr) -> bool:
    """Whether it is arithmetic of literals that cannot fail, such as a day and an interval."""
    return isinstance(node, exp.Binary) and literal_of(node) is not None


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
