"""Which conditions of a query concern one of its tables alone, so that planning may skip files by them.

A condition is taken only from where rows that fail it cannot matter, even to a query that keeps the condition:

- WHERE, for a table that no outer join of that SELECT fills with nulls;
- ON of an inner or semi join, for both sides; of a left join, for the right table; of a right join, for the left ones;
  of an anti join, for the right table.

So each SELECT gives the same rows as before, and with it everything around it, NOT EXISTS and outer joins included.
HAVING, QUALIFY, conditions with subqueries or with functions are left alone, and so is a SELECT with a sample, a
positional join or an ASOF join, where which rows there are decides which are chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from harness.errors import UnknownColumnError
from harness.filters.literals import literal_of
from harness.filters.parse import filter_of
from harness.filters.parsed import all_of
from harness.filters.predicate import And, Constant, Filter, Or, Predicate, Undecided
from harness.model.schema import Schema


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
        self._aliases = {
            str(t.alias_or_name).casefold() for t in statement.find_all(exp.Table, exp.Subquery, exp.Lateral)
        }

    def where(self, table: exp.Table) -> Filter | None:
        """The conditions on `table`, as a filter; None if there are none."""
        select = select_of(table)
        if select is None or table.alias_column_names or table.args.get("sample"):
            return None
        sources = _sources(select)
        if sources is None or table.args.get("pivots"):
            return None
        position = next((i for i, source in enumerate(sources) if source.node is table), None)
        if position is None:
            return None
        if [s.alias for s in sources].count(sources[position].alias) > 1:
            return None
        conditions = _conditions(select, sources, position)
        found = (self._filter(condition, select, sources, position) for condition in conditions)
        filters = [f for f in found if f is not None]
        return all_of(filters, self._schemas[id(table)]) if filters else None

    def _filter(self, condition: exp.Expr, select: exp.Select, sources: list[_Source], position: int) -> Filter | None:
        """The condition as a filter, if it concerns that source alone and tells planning something."""
        if not all(_is_plain(node) for node in condition.walk(prune=_is_literal)):
            return None
        schema = self._schemas[id(sources[position].node)]
        condition = condition.copy()
        for column in list(condition.find_all(exp.Column)):
            names = self._unqualified([part.name for part in column.parts], select, sources, position)
            if names is None:
                return None
            identifiers = [exp.to_identifier(name, quoted=True) for name in names]
            keys = ("this", "table", "db", "catalog")
            column.replace(exp.Column(**dict(zip(keys, reversed(identifiers), strict=False))))
        try:
            filter_ = filter_of(condition, schema)
        except (UnknownColumnError, RecursionError):
            return None
        return filter_ if _says_something(filter_.predicate) else None

    def _unqualified(
        self, names: list[str], select: exp.Select, sources: list[_Source], position: int
    ) -> list[str] | None:
        """The path within the source's table; None unless the names can mean nothing else."""
        columns = self._columns_of(sources[position])
        if columns is None:
            return None
        first = names[0].casefold()
        if len(names) > 1 and first == sources[position].alias and names[1].casefold() in columns:
            return names[1:]
        if first in self._aliases or first not in columns or first in _output_names(select):
            return None
        others = [self._columns_of(s) for i, s in enumerate(sources) if i != position]
        return None if any(other is None or first in other for other in others) else names

    def _columns_of(self, source: _Source) -> set[str] | None:
        schema = self._schemas.get(id(source.node))
        is_changed = isinstance(source.node, exp.Table) and (
            source.node.alias_column_names or source.node.args.get("pivots")
        )
        return None if schema is None or is_changed else {name.casefold() for name in schema.names()}


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
