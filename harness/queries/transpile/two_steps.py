"""SELECTs that Spark runs in two steps, one in a query inside: GROUPS by numbers, and UNNEST of results.

GROUPS counts groups of equal rows: a RANGE over their numbers, which a query inside makes by DENSE_RANK. UNNEST that is
no key works on the results of groups and windows, where Spark's EXPLODE works on the rows that a SELECT reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from harness.metadata.filters.literals import literal_of
from harness.queries.transpile import clauses, windows
from harness.queries.transpile.clauses import place_of
from harness.queries.transpile.scopes import NameScope, Output
from harness.queries.transpile.spark_text import refused

_PARTS_OF_CALLS = (exp.Order, exp.Ordered, exp.Distinct, exp.Tuple, exp.Where, exp.If, exp.PropertyEQ)
_OF_VALUES = (
    *(exp.Binary, exp.Unary, exp.Func, exp.Cast, exp.Bracket, exp.Between, exp.In, exp.Alias, exp.Order, exp.Ordered),
    *(exp.Distinct, exp.Tuple, exp.Where),
)
"""Nodes whose parts are values of their own, one by one."""
_NO_VALUES = (exp.Lambda, exp.Slice, exp.Comprehension, exp.Kwarg, exp.Any, exp.All)
_INSIDE = ("from_", "joins", "where", "group", "having")
_AFTER = ("distinct", "limit", "offset")


@dataclass(slots=True)
class Steps:
    """A SELECT in two steps.

    inner: the first step; its columns are called `h0`, `h1`, ..., those of a star last.
    """

    inner: exp.Select
    _outer: exp.Select
    _firm: int

    def outer(self, columns: Sequence[Output]) -> exp.Select:
        """The second step over the columns of the first, with those of a star in its place."""
        items: list[exp.Expr] = []
        for item in self._outer.expressions:
            if not isinstance(item, exp.Star):
                items.append(item)
                continue
            for place, column in enumerate(columns[self._firm :], self._firm):
                one = _column(place)
                items.append(exp.Paren(this=one) if column.name is None else exp.alias_(one, column.name, quoted=True))
        self._outer.set("expressions", items)
        return self._outer


def named(columns: Sequence[Output]) -> tuple[Output, ...]:
    """The columns of the first step as the second one calls them."""
    return tuple(Output(f"h{place}", c.type, c.sql) for place, c in enumerate(columns))


def split(select: exp.Select, scope: NameScope) -> Steps | None:
    """The SELECT in two steps; None: Spark runs it in one. Raises UnsupportedError.

    scope: the meaning of its names.
    """
    unnested = clauses.works_on_results(select)
    if not unnested and not _has(select, _counts_groups):
        return None
    if select.args.get("distinct") is not None and select.args["distinct"].args.get("on") is not None:
        raise refused(select, "DISTINCT ON of this", "choose the rows in a query around it")
    plain = _without_aliases(select, scope)
    second = _Second(plain, exp.Explode if unnested else exp.Window)
    parts = {part: plain.args.get(part) for part in _AFTER}
    outer = exp.Select(expressions=[second.item(item) for item in plain.expressions], **parts)
    order, qualify = plain.args.get("order"), plain.args.get("qualify")
    if order is not None:
        outer.set("order", exp.Order(expressions=[second.order(item) for item in order.expressions]))
    inside = {part: plain.args.get(part) for part in _INSIDE}
    if qualify is not None and unnested:
        inside["qualify"] = qualify
    elif qualify is not None:
        outer.set("qualify", exp.Qualify(this=second.replaced(qualify.this)))
    first = exp.Select(expressions=[*second.first, *second.stars], **inside)
    return Steps(first, outer, len(second.first))


def _has(select: exp.Select, wanted: Callable[[exp.Expr], bool]) -> bool:
    """Tells whether the projection, QUALIFY or ORDER BY has such a node of this SELECT, and not of a query in it."""
    parts = [*select.expressions, select.args.get("qualify"), select.args.get("order")]
    nodes = (node for part in parts if part is not None for node in part.walk())
    return any(wanted(node) and node.find_ancestor(exp.Select) is select for node in nodes)


def _counts_groups(node: exp.Expr) -> bool:
    """Tells whether a node is a window whose frame counts groups."""
    return (
        isinstance(node, exp.Window) and node.args.get("spec") is not None and windows.counts_groups(node.args["spec"])
    )


def _column(place: int) -> exp.Column:
    return exp.column(f"h{place}")


@dataclass(slots=True)
class _Second:
    """Makes the second step; the values that it needs are computed in the first.

    kind: of the nodes that it does. first: the expressions of the first step; stars: its stars.
    """

    select: exp.Select
    kind: type[exp.Expr]
    first: list[exp.Expr] = field(default_factory=list)
    stars: list[exp.Expr] = field(default_factory=list)

    def item(self, node: exp.Expr) -> exp.Expr:
        """An item of the projection, under the name that it had."""
        if node.find(exp.Star) is not None and not isinstance(node, exp.Alias) and self._is_star(node):
            self.stars.append(node.copy())
            if len(self.stars) > 1:
                raise refused(node, "several stars beside this", "name the columns")
            return exp.Star()
        if node.find(exp.Columns) is not None:
            raise refused(node, "COLUMNS beside this", "name the columns")
        if isinstance(node, exp.Alias):
            return exp.alias_(self.replaced(node.this), node.alias, quoted=True)
        found = self.replaced(node)
        if isinstance(node, exp.Column):
            return exp.alias_(found, node.name, quoted=True)
        return exp.Paren(this=found) if isinstance(found, exp.Column) else found

    def _is_star(self, node: exp.Expr) -> bool:
        subject = node.this if isinstance(node, exp.Like | exp.Column) else node
        return isinstance(subject, exp.Star) or (isinstance(subject, exp.Column) and isinstance(subject.this, exp.Star))

    def order(self, node: exp.Expr) -> exp.Expr:
        """An item of ORDER BY: a column of the result, or an expression."""
        subject = node.this if isinstance(node, exp.Ordered) else node
        names = {item.alias_or_name.casefold() for item in self.select.expressions}
        is_name = isinstance(subject, exp.Column) and not subject.table and subject.name.casefold() in names
        if place_of(subject) is not None or is_name or isinstance(subject, exp.Var):
            return node.copy()
        copy = node.copy()
        copy.set("this", self.replaced(subject))
        return copy

    def replaced(self, node: exp.Expr) -> exp.Expr:
        """An expression with columns of the first step in place of the expressions computed there."""
        if literal_of(node) is not None or isinstance(node, exp.Star):
            return node.copy()
        if isinstance(node, exp.Interval) and node.find(exp.Column) is None:
            return node.copy()
        if isinstance(node, _NO_VALUES):
            raise refused(node, "this beside GROUPS by numbers or UNNEST", "compute it in a query inside")
        if self._is_done(node):
            return self._unnest(node) if isinstance(node, exp.Explode) else self._window(node)
        if isinstance(node, _PARTS_OF_CALLS) or any(self._is_done(inner) for inner in node.walk()):
            return self._rebuilt(node)
        if node not in self.first:
            self.first.append(node.copy())
        return _column(self.first.index(node))

    def _is_done(self, node: exp.Expr) -> bool:
        done = isinstance(node, exp.Explode) if self.kind is exp.Explode else _counts_groups(node)
        return done and node.find_ancestor(exp.Select) is self.select

    def _rebuilt(self, node: exp.Expr) -> exp.Expr:
        if not isinstance(node, _OF_VALUES) or (isinstance(node, exp.In) and node.args.get("query") is not None):
            raise refused(node, "this around GROUPS by numbers or UNNEST", "compute it in a query around")
        copy = node.copy()
        for key, value in node.args.items():
            if isinstance(node, exp.PropertyEQ) and key == "this":
                continue
            if isinstance(value, list):
                copy.set(key, [self.replaced(v) if isinstance(v, exp.Expr) else v for v in value])
            elif isinstance(value, exp.Expr) and not isinstance(value, exp.DataType | exp.Var | exp.Identifier):
                copy.set(key, self.replaced(value))
        return copy

    def _unnest(self, node: exp.Expr) -> exp.Expr:
        copy = node.copy()
        copy.set("this", self.replaced(node.this))
        return copy

    def _window(self, node: exp.Expr) -> exp.Expr:
        """The window over numbers of groups."""
        copy = node.copy()
        copy.set("this", self._call(node.this))
        partition, order = node.args.get("partition_by") or [], node.args.get("order")
        if order is None:
            raise refused(node, "GROUPS without an order")
        copy.set("partition_by", [self.replaced(key) for key in partition])
        number = exp.Window(
            this=exp.DenseRank(), partition_by=[key.copy() for key in partition], order=order.copy(), over="OVER"
        )
        if number not in self.first:
            self.first.append(number)
        by = exp.Ordered(this=_column(self.first.index(number)), nulls_first=False)
        copy.set("order", exp.Order(expressions=[by]))
        copy.args["spec"].set("kind", "RANGE")
        return copy

    def _call(self, node: exp.Expr) -> exp.Expr:
        """The function of a window, its arguments replaced."""
        if not isinstance(node, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
            return self._rebuilt(node)
        copy = node.copy()
        copy.set("this", self._call(node.this))
        if isinstance(node, exp.Filter):
            copy.set("expression", self._rebuilt(node.expression))
        return copy


def _without_aliases(select: exp.Select, scope: NameScope) -> exp.Select:
    """The SELECT with expressions in place of their aliases and of their numbers in GROUP BY."""
    plain = select.copy()
    items = list(select.expressions)
    group = plain.args.get("group")
    if group is not None and group.args.get("all"):
        raise refused(select, "GROUP BY ALL of this", "name the keys")
    for key in list(group.expressions) if group is not None else ():
        place = place_of(key)
        if place is not None and 1 <= place <= len(items):
            key.replace(items[place - 1].unalias().copy())
    named = (*plain.expressions, group, plain.args.get("having"), plain.args.get("qualify"))
    for part in named:
        for column in list(part.find_all(exp.Column)) if part is not None else ():
            _without_alias(column, part, plain, scope)
    return plain


def _without_alias(column: exp.Column, part: exp.Expr, select: exp.Select, scope: NameScope) -> None:
    name = column.name.casefold()
    if len(column.parts) > 1 or name not in scope.aliases or isinstance(column.this, exp.Star):
        return
    if column.find_ancestor(exp.Select) is not select or part is select.args.get("having"):
        if scope.unqualified(name) is None or scope.shadowed(name):
            raise refused(column, f"the alias {column.name} here", "write the expression")
    elif scope.unqualified(name) is None:
        meant = scope.aliases[name]
        others = [c.name for c in meant.find_all(exp.Column) if c.name.casefold() in scope.aliases]
        if any(scope.unqualified(other) is None for other in others):
            raise refused(column, f"the alias {column.name} of another alias", "write the expression")
        column.replace(exp.Paren(this=meant.copy()))
    elif scope.shadowed(name) and part is select.args.get("qualify"):
        raise refused(column, f"{column.name}, which is both a column and another expression of SELECT,")
