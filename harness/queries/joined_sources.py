"""The sources of a SELECT, from the left, and which rows of each its joins and conditions let matter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from harness.metadata.filters.literals import Kind, literal_of
from harness.storage.records import dataclass

_Sources = frozenset[int]
_NONE: _Sources = frozenset()
_OF_ONE = {exp.Paren, exp.Cast, exp.TryCast, exp.Neg, exp.Not, exp.Year, exp.TimestampTrunc, exp.IsNan, exp.Between}
"""Null where `this` is."""
_OF_TWO = {exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Like, exp.StartsWith, exp.Add, exp.Sub, exp.Mul}
"""Null where `this` or `expression` is."""


def rejected(condition: exp.Expr, index_of: Callable[[exp.Column], int | None]) -> frozenset[int]:
    """The sources that the condition is not true for, where all columns of one of them are null.

    index_of: which source a column is of; None: it is not known.
    """
    kind = type(condition)
    if kind is exp.Paren:
        return rejected(condition.this, index_of)
    if kind is exp.And:
        return frozenset().union(*(rejected(part, index_of) for part in condition.flatten()))
    if kind is exp.Or:
        first, *others = (rejected(part, index_of) for part in condition.flatten())
        return first.intersection(*others)
    if kind is exp.Not and type(condition.this) is exp.Is and isinstance(condition.this.expression, exp.Null):
        return _null_with(condition.this.this, index_of)
    if kind is exp.Is and isinstance(condition.expression, exp.Boolean):
        return _null_with(condition.this, index_of)
    if kind is exp.NullSafeEQ:
        literal = literal_of(condition.expression)
        is_value = literal is not None and literal.kind is not Kind.NULL
        return _null_with(condition.this, index_of) if is_value else _NONE
    return _null_with(condition, index_of)


def _null_with(node: exp.Expr, index_of: Callable[[exp.Column], int | None]) -> _Sources:
    """The sources with whose nulls an expression is null; of parts that are not understood, none."""
    kind = type(node)
    if isinstance(node, exp.Column):
        index = index_of(node)
        return _NONE if index is None else frozenset({index})
    if kind in _OF_ONE or (kind is exp.In and node.expressions and not node.args.get("query")):
        return _null_with(node.this, index_of)
    if kind in _OF_TWO:
        return _null_with(node.this, index_of) | _null_with(node.expression, index_of)
    if kind in (exp.And, exp.Or):
        return _null_with(node.this, index_of) & _null_with(node.expression, index_of)
    return _NONE


@dataclass(frozen=True, slots=True)
class JoinedSource:
    """A table, subquery or function in FROM.

    join: the join that attaches the source; None for the first.
    side: the rows that the join fills with nulls; LEFT: rows of this source. Empty where it fills none, or where a
        condition drops all rows that it fills.
    """

    node: exp.Expr
    join: exp.Join | None
    side: str

    @property
    def alias(self) -> str:
        """The name or alias, in lower case."""
        return str(self.node.alias_or_name).casefold()

    @property
    def on(self) -> exp.Expr | None:
        """The condition of ON."""
        return self.join.args.get("on") if self.join is not None else None

    @property
    def kind(self) -> str:
        """SEMI, ANTI, or any other word before JOIN."""
        return self.join.kind if self.join is not None else ""

    @property
    def is_after_comma(self) -> bool:
        """Tells whether a comma stands before it. A comma binds less: `a, b RIGHT JOIN c` fills b with nulls."""
        join = self.join
        return join is not None and not any(join.args.get(key) for key in ("on", "using", "kind", "side", "method"))

    @property
    def using(self) -> tuple[str, ...]:
        """The columns of USING, in lower case."""
        names = (self.join.args.get("using") if self.join is not None else None) or []
        return tuple(str(name.name).casefold() for name in names)


IndexOf = Callable[[exp.Column], "int | None"]
"""The place of the source that a column is of; None: unknown."""


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


def sources_of(select: exp.Select) -> list[JoinedSource] | None:
    """The sources of a SELECT, with the sides as they are written; None where conditions cannot be moved."""
    first = select.args.get("from_")
    if first is None or select.args.get("sample") or select.args.get("laterals"):
        return None
    inner = (first.this.args.get("joins") or []) if isinstance(first.this, exp.Table) else []
    joins = [*inner, *(select.args.get("joins") or [])]
    sources = [JoinedSource(first.this, None, ""), *(JoinedSource(join.this, join, join.side) for join in joins)]
    if any(s.node.args.get("joins") for s in sources[1:]) or not all(_is_known_join(join) for join in joins):
        return None
    return sources


_JOIN = {"this", "side", "kind", "method", "on", "using"}


def _is_known_join(join: exp.Join) -> bool:
    if join.method not in ("", "NATURAL") or any(said for part, said in join.args.items() if part not in _JOIN):
        return False
    if join.side:
        return join.side in ("LEFT", "RIGHT", "FULL") and join.kind in ("", "OUTER")
    return join.kind in ("", "INNER", "CROSS", "SEMI", "ANTI")


def without_dropped(select: exp.Select, sources: Sequence[JoinedSource], index_of: IndexOf) -> list[JoinedSource]:
    """The sources, with fewer outer joins: a condition that no nulls satisfy drops the rows that a join fills."""
    found = list(sources)
    if not any(s.side for s in found):
        return found
    where = select.args.get("where")
    of_where = rejected(where.this, index_of) if where is not None else frozenset()
    while True:
        before = list(found)
        for index in range(1, len(found)):
            dropped = set(of_where)
            for above in range(index + 1, len(found)):
                on = found[above].on
                # A condition of an inner join looks at all sources before it.
                if on is not None and not found[above].side and found[above].kind != "ANTI":
                    dropped |= rejected(on, index_of)
            first = max(i for i in range(index + 1) if found[i].is_after_comma or i == 0)
            side = _kept_side(found[index].side, index in dropped, any(first <= i < index for i in dropped))
            found[index] = replace(found[index], side=side)
        if found == before:
            return found


def _kept_side(side: str, is_own_dropped: bool, is_other_dropped: bool) -> str:
    """The side without rows of nulls that are dropped, in place of the source's own rows or of those on its left."""
    fills_own = side in ("LEFT", "FULL") and not is_own_dropped
    fills_others = side in ("RIGHT", "FULL") and not is_other_dropped
    return {(True, True): "FULL", (True, False): "LEFT", (False, True): "RIGHT"}.get((fills_own, fills_others), "")


def conditions(select: exp.Select, sources: Sequence[JoinedSource], position: int) -> Iterator[exp.Expr]:
    """Conditions that all hold of every combination of rows in which a row of the source matters."""
    if is_preserved(sources, position, len(sources)):
        yield from conditions_of(select, "where")
    for index, source in enumerate(sources):
        if source.on is not None and holds_of_both(sources, index, position):
            yield from conjuncts(source.on)


def conditions_of(select: exp.Select, clause: str) -> Iterator[exp.Expr]:
    """The conditions of WHERE or HAVING."""
    found = select.args.get(clause)
    if found is not None:
        yield from conjuncts(found.this)


def partners(sources: Sequence[JoinedSource], position: int) -> frozenset[int]:
    """Sources that a row of this source needs a row of, and whose rows do not depend on this source.

    The sources left of a left join, for the one on its right: a dropped row there needs no match.
    """
    own = sources[position]
    is_joined = own.side == "LEFT" or (own.side == "" and own.kind in ("SEMI", "ANTI"))
    if is_joined and all(s.side in ("", "LEFT") for s in sources[position + 1 :]):
        return frozenset(range(position))
    for index in range(position + 1, len(sources)):
        if sources[index].side == "RIGHT" and is_preserved(sources, position, index):
            is_last = all(s.side in ("", "LEFT") for s in sources[index + 1 :])
            return frozenset({index}) if is_last else frozenset()
    return frozenset()


def is_preserved(sources: Sequence[JoinedSource], position: int, end: int) -> bool:
    """Tells whether joining the sources before `end` gives rows of this one only, none filled with nulls."""
    own = sources[position]
    is_visible = own.side in ("", "RIGHT") and own.kind not in ("SEMI", "ANTI")
    return is_visible and all(s.side in ("", "LEFT") for s in sources[position + 1 : end])


def holds_of_both(sources: Sequence[JoinedSource], index: int, position: int) -> bool:
    """Tells whether rows of a source that fail a condition of the ON, or USING, of source `index` cannot matter."""
    join = sources[index]
    if position > index or join.side == "FULL":
        return False
    if position == index:
        return join.side in ("", "LEFT")
    return join.side in ("", "RIGHT") and join.kind != "ANTI" and is_preserved(sources, position, index)


def conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    """The conditions that a condition joins by AND."""
    match condition:
        case exp.Paren():
            yield from conjuncts(condition.this)
        case exp.And():
            for part in condition.flatten():
                yield from conjuncts(part)
        case _:
            yield condition
