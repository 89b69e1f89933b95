"""ASOF joins: of the rows on the right that match, the one that is nearest."""

from __future__ import annotations

from sqlglot import exp

from harness.queries.transpile.refusal import refused

_DESCENDING: dict[type[exp.Expr], bool] = {exp.GTE: True, exp.GT: True, exp.LTE: False, exp.LT: False}


def lateral(node: exp.Join) -> exp.Join:
    """The join as one of the nearest row of each, which is looked for by itself. Raises UnsupportedError."""
    on, right = node.args.get("on"), node.this
    name = right.alias_or_name.casefold()
    if on is None or not name:
        raise refused(node, "an ASOF JOIN with USING", "write its conditions after ON")
    bounds = [part for part in on.flatten() if type(part) in _DESCENDING] if isinstance(on, exp.And) else [on]
    if len(bounds) != 1 or type(bounds[0]) not in _DESCENDING:
        raise refused(node, "an ASOF JOIN without one inequality")
    bound = bounds[0]
    sides = [{c.table.casefold() == name for c in side.find_all(exp.Column)} for side in (bound.this, bound.expression)]
    if sides not in ([{False}, {True}], [{True}, {False}]) or any(not c.table for c in bound.find_all(exp.Column)):
        raise refused(node, "this ASOF JOIN", "write the table before each column of its inequality, one on each side")
    on_the_right = sides[1] == {True}
    nearest = bound.expression if on_the_right else bound.this
    descending = _DESCENDING[type(bound)] is on_the_right
    found = exp.Select(
        expressions=[exp.Star()],
        from_=exp.From(this=right.copy()),
        where=exp.Where(this=on.copy()),
        order=exp.Order(expressions=[exp.Ordered(this=nearest.copy(), desc=descending)]),
        limit=exp.Limit(expression=exp.Literal.number(1)),
    )
    alias = exp.TableAlias(this=exp.to_identifier(right.alias_or_name, quoted=True))
    return exp.Join(
        this=exp.Subquery(this=found, alias=alias), side=node.side or None, kind=node.kind or None, on=exp.true()
    )
