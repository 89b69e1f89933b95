"""Conditions on a column that is moved in time, `day + INTERVAL 1 MONTH >= DATE '2020-02-29'`, as what they imply."""

from __future__ import annotations

from sqlglot import exp

from harness.filters.literals import Kind, literal_of

_FLIPPED = {exp.EQ: exp.EQ, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE}
_MARGIN_DAYS = 4
"""Months differ by at most three days, and in a time zone days by some hours."""
_FIRST, _LAST = "0001-01-01", "9999-12-31"


def unmoved(condition: exp.Expr) -> exp.Expr | None:
    """A condition on the column alone, true wherever `condition` is, or where the move might fail; None: there is none.

    A move can only fail close to the ends of the calendar, so rows outside of the years from 1 to 9999 satisfy it. What
    the column is does not matter: an interval is added to dates, timestamps and instants
    alone, and what a number is added to, and then compared with a moment, is a date.

    Args:
        condition: a comparison of a column with a literal.
    """
    kind = type(condition)
    if kind not in _FLIPPED:
        return None
    left, right = condition.this, condition.expression
    if literal_of(right) is None:
        left, right, kind = right, left, _FLIPPED[kind]
    literal, moved = literal_of(right), _moved(left)
    if literal is None or moved is None or literal.kind not in (Kind.DATE, Kind.TIMESTAMP):
        return None
    column, interval, back = moved
    ends: list[exp.Expr] = []
    if kind is not exp.LT and kind is not exp.LTE:
        ends.append(exp.GTE(this=column.copy(), expression=_earlier(back(this=right.copy(), expression=interval))))
    if kind is not exp.GT and kind is not exp.GTE:
        ends.append(exp.LTE(this=column.copy(), expression=_later(back(this=right.copy(), expression=interval))))
    outside = [
        exp.LT(this=column.copy(), expression=_date(_FIRST)),
        exp.GT(this=column.copy(), expression=_date(_LAST)),
    ]
    return exp.or_(exp.and_(*ends, copy=False), *outside, copy=False)


def _moved(node: exp.Expr) -> tuple[exp.Expr, exp.Interval, type[exp.Add | exp.Sub]] | None:
    """The column, the interval, and how a literal is moved back; None: it is no moved column."""
    while isinstance(node, exp.Paren):
        node = node.this
    left, right = node.this, node.args.get("expression")
    match node:
        case exp.Add() if type(node) is exp.Add and isinstance(left, exp.Interval):
            left, right = right, left
        case exp.Add() | exp.Sub() if type(node) in (exp.Add, exp.Sub):
            pass
        case _:
            return None
    if not isinstance(left, exp.Column | exp.Dot):
        return None
    if not isinstance(right, exp.Interval):
        days = None if right is None else literal_of(right)
        if days is None or days.kind is not Kind.INTEGER:
            return None
        right = _days(days.value)
    return left, right.copy(), exp.Sub if type(node) is exp.Add else exp.Add


def _earlier(moment: exp.Expr) -> exp.Expr:
    return exp.Sub(this=exp.Paren(this=moment), expression=_days(_MARGIN_DAYS))


def _later(moment: exp.Expr) -> exp.Expr:
    return exp.Add(this=exp.Paren(this=moment), expression=_days(_MARGIN_DAYS))


def _days(count: int) -> exp.Interval:
    return exp.Interval(this=exp.Literal.string(str(count)), unit=exp.Var(this="DAY"))


def _date(text: str) -> exp.Expr:
    return exp.Cast(this=exp.Literal.string(text), to=exp.DataType(this=exp.DType.DATE, nested=False))
