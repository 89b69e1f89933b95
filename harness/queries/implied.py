"""What a condition says of some columns alone, however much else it is about."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from sqlglot import exp

from harness.metadata.filters.literals import Kind, literal_of
from harness.metadata.filters.operands import WRITTEN_PERIODS
from harness.metadata.filters.parse import unmoved
from harness.metadata.filters.value_texts import DAY_NS
from harness.queries.rewritten import Now

# The moment of a query, as its conditions name it: `day >= current_date - 30`.
#
# A result is lazy: each time that it runs the moment is another one, of the engine's clock, in its session's zone. So
# planning takes only what holds from now on, whenever the result runs: that a column is not before a moment. Of what it
# must be before, nothing is said, for that moment moves on.


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


Renamed: TypeAlias = Callable[[exp.Column], "exp.Expr | None"]
"""What stands in a column's place; None: it cannot be told."""


def implied(condition: exp.Expr, renamed: Renamed, now: Now | None) -> exp.Expr | None:
    """What the condition says of columns that `renamed` knows: true wherever the condition is. None: nothing.

    now: as for `since`; None: nothing is known of it.
    """
    whole = _whole(condition, renamed)
    if whole is not None:
        return whole
    match condition:
        case exp.Paren():
            return implied(condition.this, renamed, now)
        case exp.And():
            parts: Iterator[exp.Expr] = condition.flatten()
            return _all(parts, renamed, now)
        case exp.Or():
            alternatives = [implied(part, renamed, now) for part in condition.flatten()]
            some = [part for part in alternatives if part is not None]
            return exp.or_(*some, copy=False) if len(some) == len(alternatives) else None
        case exp.In(this=exp.Tuple()):
            return _all(_by_column(condition.this, condition.expressions), renamed, now)
        case exp.EQ(this=exp.Tuple(), expression=exp.Tuple()):
            return _all(_by_column(condition.this, [condition.expression]), renamed, now)
        case _:
            weaker = since(condition, now) if now is not None else None
            weaker = unmoved(condition) if weaker is None else weaker
            return None if weaker is None else _whole(weaker, renamed)


def _all(parts: Iterator[exp.Expr], renamed: Renamed, now: Now | None) -> exp.Expr | None:
    known = [p for part in parts if (p := implied(part, renamed, now)) is not None]
    return exp.and_(*known, copy=False) if known else None


def _by_column(row: exp.Tuple, rows: Sequence[exp.Expr]) -> Iterator[exp.Expr]:
    """What `(a, b) IN ((1, 2), (3, 4))` says of each column. Null equals null in a row."""
    columns = row.expressions
    if not rows or any(type(other) is not exp.Tuple or len(other.expressions) != len(columns) for other in rows):
        return
    for i, column in enumerate(columns):
        values = [other.expressions[i] for other in rows]
        kinds = [None if literal is None else literal.kind for literal in map(literal_of, values)]
        if None in kinds:  # may be null
            continue
        listed = [value.copy() for value, kind in zip(values, kinds, strict=True) if kind is not Kind.NULL]
        parts: list[exp.Expr] = [exp.In(this=column.copy(), expressions=listed)] if listed else []
        if Kind.NULL in kinds:
            parts.append(exp.Is(this=column.copy(), expression=exp.Null()))
        yield exp.or_(*parts, copy=False)


def _whole(condition: exp.Expr, renamed: Renamed) -> exp.Expr | None:
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


def is_plain(expression: exp.Expr) -> bool:
    """Whether it means the same however often, and wherever, it is evaluated, and is generated as it was read."""
    return all(_is_plain(node) for node in expression.walk(prune=_is_literal))


def _is_plain(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in _PLAIN_FUNCTIONS
    if isinstance(node, exp.TimeToStr):
        return node.args["format"].name in WRITTEN_PERIODS
    return type(node) in _PLAIN or _is_literal(node) or _is_compared_sum(node)


def _is_compared_sum(node: exp.Expr) -> bool:
    """Whether it is a column and a number, compared with a number: DuckDB moves one to the other, so none overflows."""
    condition = node.parent
    if type(node) not in (exp.Add, exp.Sub):
        return False
    if not isinstance(condition, exp.EQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        return False
    if not any(isinstance(side, exp.Column) for side in (node.this, node.expression)):
        return False
    compared = condition.expression if node.arg_key == "this" else condition.this
    numbers = [literal for side in (node.this, node.expression, compared) if (literal := literal_of(side)) is not None]
    return len(numbers) == 2 and all(number.kind is Kind.INTEGER for number in numbers)


def _is_literal(node: exp.Expr) -> bool:
    """Whether it is made of literals and cannot fail, such as a day and an interval."""
    return isinstance(node, exp.Binary | exp.DateFromParts) and literal_of(node) is not None


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
    exp.Any,
    exp.Array,
    exp.ArrayContains,
    exp.Case,
    exp.Cast,
    exp.Coalesce,
    exp.DataType,
    exp.DataTypeParam,
    exp.Extract,
    exp.If,
    exp.Left,
    exp.Nullif,
    exp.Substring,
    exp.TryCast,
    exp.Year,
    exp.TimestampTrunc,
    exp.Var,
}
_PLAIN_FUNCTIONS = {"date_part", "datepart", "prefix"}
"""That sqlglot has no node for."""
