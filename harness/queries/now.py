"""The moment of a query, as its conditions name it: `day >= current_date - 30`.

A result is lazy: each time that it runs the moment is another one, of the engine's clock, in its session's zone. So
planning takes only what holds from now on, whenever the result runs: that a column is not before a moment. Of what it
must be before, nothing is said, for that moment moves on.
"""

from __future__ import annotations

import datetime

from sqlglot import exp

from harness.filters.literals import Kind, literal_of
from harness.filters.value_texts import DAY_NS
from harness.queries.present import Now

_MARGIN = datetime.timedelta(days=2)
"""For a zone up to a day away, and for a clock that is set back."""
_MOMENTS = {"now", "get_current_timestamp", "transaction_timestamp"}


def names_now(tree: exp.Expr) -> bool:
    """Whether a query names its moment."""
    return any(_is_moment(node) for node in tree.walk())


def since(condition: exp.Expr, now: Now) -> exp.Expr | None:
    """That a column is at a moment or after it, where the condition says so for each moment from now on."""
    match condition:
        case exp.GT() | exp.GTE() | exp.EQ() if names_now(condition.expression):
            column, moment = condition.this, condition.expression
        case exp.LT() | exp.LTE() | exp.EQ() if names_now(condition.this):
            column, moment = condition.expression, condition.this
        case exp.Between() if not condition.args.get("symmetric"):
            column, moment = condition.this, condition.args["low"]
        case _:
            return None
    if type(condition) not in (exp.GT, exp.GTE, exp.EQ, exp.LT, exp.LTE, exp.Between):
        return None
    earliest = _earliest(moment, now)
    return None if earliest is None else exp.GTE(this=column.copy(), expression=earliest)


def _earliest(moment: exp.Expr, now: Now) -> exp.Expr | None:
    """The earliest value of an expression of the moment. All that `literal_of` knows of moments grows with them."""
    holder = exp.Paren(this=moment.copy())
    found = [node for node in holder.walk() if _is_moment(node)]
    if len(found) != 1:
        return None
    earliest = now.earliest - _MARGIN
    type_ = exp.DType.DATE if type(found[0]) is exp.CurrentDate else exp.DType.TIMESTAMPNTZ
    found[0].replace(_literal(earliest, type_))
    literal = literal_of(holder)
    if literal is None or literal.kind not in (Kind.DATE, Kind.TIMESTAMP):
        return None
    nanoseconds = literal.value * DAY_NS if literal.kind is Kind.DATE else literal.value
    moved = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=nanoseconds // 1000)
    return _literal(moved, exp.DType.TIMESTAMPNTZ)


def _literal(moment: datetime.datetime, type_: exp.DType) -> exp.Expr:
    text = moment.date().isoformat() if type_ is exp.DType.DATE else moment.isoformat(" ")
    return exp.Cast(this=exp.Literal.string(text), to=exp.DataType(this=type_, nested=False))


def _is_moment(node: exp.Expr) -> bool:
    match node:
        case exp.CurrentDate() | exp.CurrentTimestamp() | exp.Localtimestamp():
            return node.this is None
        case exp.Anonymous():
            return node.name.lower() in _MOMENTS and not node.expressions
        case _:
            return False
