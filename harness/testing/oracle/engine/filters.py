"""Evaluates a filter on one row: three-valued logic over the tree that sqlglot makes of the filter's SQL.

The dialect is DuckDB's. What the oracle does not evaluate it refuses by name; it never guesses.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import Any, Literal, TypeAlias

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from harness.errors import EngineError, UnsupportedError
from harness.metadata.filters.predicate import Filter
from harness.metadata.model import schema as dt
from harness.metadata.model.schema import Field
from harness.testing.oracle.engine.conversions import inside, single
from harness.testing.oracle.engine.sql_types import (
    Evaluate,
    Term,
    Values,
    as_float,
    comparable,
    constant,
    explicit_cast,
    refused,
    sql_type,
    unless_null,
)

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_WIDE = Context(prec=200)
_FLOATS: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_DECIMALS = {"+": _WIDE.add, "-": _WIDE.subtract, "*": _WIDE.multiply}


def arithmetic(sign: str, left: Term, right: Term) -> Term:
    """`left sign right`, where sign is one of + - *; null if either is null.

    Raises:
        UnsupportedError: the oracle does not compute with these types.
    """
    types = left.type, right.type
    are_numbers = all(isinstance(t, dt.IntegerType | dt.DecimalType | dt.FloatType) for t in types)
    if not are_numbers or any(isinstance(t.literal, str) for t in (left, right)):
        raise _refused(sign, left, right)
    match types:
        case dt.IntegerType(bits=a), dt.IntegerType(bits=b):
            return _integers(sign, left, right, a, b)
        case (dt.FloatType(), _) | (_, dt.FloatType()):
            return _floats(sign, left, right)
        case _:
            return _decimals(sign, left, right)


def negative(term: Term) -> Term:
    """`-term`. A literal stays one."""
    match term.type:
        case dt.IntegerType(bits=bits) if isinstance(term.literal, int):
            value = -term.literal
            return Term(dt.IntegerType(bits), lambda _: value, value)
        case dt.IntegerType(bits=bits):
            return Term(term.type, lambda row: unless_null(lambda v: _fitting(-v, bits), term.evaluate(row)))
        case dt.DecimalType():
            return Term(
                term.type,
                lambda row: unless_null(lambda v: -v if isinstance(v, int) else v.copy_negate(), term.evaluate(row)),
            )
        case dt.FloatType():
            return Term(term.type, lambda row: unless_null(operator.neg, term.evaluate(row)))
        case other:
            raise refused(f"know a negative {other}")


def _both(compute: Callable[[Any, Any], Any], left: Term, right: Term, type_: dt.Type) -> Term:
    def evaluate(row: Values) -> Any:
        first, second = left.evaluate(row), right.evaluate(row)
        return None if first is None or second is None else compute(first, second)

    return Term(type_, evaluate)


def _integers(sign: str, left: Term, right: Term, a: int, b: int) -> Term:
    """Computes in the wider type; a literal takes the other side's type if it fits."""
    if isinstance(right.literal, int) and not isinstance(left.literal, int) and _fits(right.literal, a):
        bits = a
    elif isinstance(left.literal, int) and not isinstance(right.literal, int) and _fits(left.literal, b):
        bits = b
    else:
        bits = max(a, b)
    type_ = {8: dt.IntegerType(8), 16: dt.IntegerType(16), 32: dt.IntegerType(32), 64: dt.IntegerType(64)}[bits]
    return _both(lambda x, y: _fitting(_FLOATS[sign](x, y), bits), left, right, type_)


def _fits(value: int, bits: int) -> bool:
    limit: int = 2 ** (bits - 1)
    return -limit <= value < limit


def _fitting(value: int, bits: int) -> int:
    if not _fits(value, bits):
        raise EngineError(f"Cannot evaluate the filter: {value} overflows {bits} bits")
    return value


def _floats(sign: str, left: Term, right: Term) -> Term:
    """Computes in DOUBLE if one side is DOUBLE, else in FLOAT."""
    is_double = any(t.type == dt.FloatType(64) for t in (left, right))
    bits: Literal[32, 64] = 64 if is_double else 32
    rounded = float if is_double else single
    return _both(
        lambda x, y: rounded(_FLOATS[sign](as_float(x, bits), as_float(y, bits))), left, right, dt.FloatType(bits)
    )


def _decimals(sign: str, left: Term, right: Term) -> Term:
    """Exactly, in at most 38 digits."""
    (p, s), (q, t) = _size(left), _size(right)
    scale = s + t if sign == "*" else max(s, t)
    digits = p + q if sign == "*" else max(p - s, q - t) + scale + 1
    if scale > 38:
        raise _refused(sign, left, right)
    type_ = dt.DecimalType(min(digits, 38), scale)

    def compute(x: Any, y: Any) -> Decimal:
        value = _DECIMALS[sign](Decimal(x), Decimal(y))
        if abs(value) >= Decimal(10) ** (type_.precision - scale):
            raise EngineError(f"Cannot evaluate the filter: {value} overflows {type_}")
        return value

    return _both(compute, left, right, type_)


def _size(term: Term) -> tuple[int, int]:
    match term.type:
        case dt.DecimalType(precision=precision, scale=scale):
            return precision, scale
        case dt.IntegerType(bits=bits):
            return (len(str(abs(term.literal))) if isinstance(term.literal, int) else _DIGITS[bits]), 0
        case other:
            raise AssertionError(other)


def _refused(sign: str, left: Term, right: Term) -> UnsupportedError:
    return refused(f"compute {left.type} {sign} {right.type}")


Condition: TypeAlias = Callable[[Values], bool | None]


def compile_filter(filter_: Filter) -> Condition:
    """The filter as a function of a row, whose values are as internal values, by the field ids of top-level columns.

    Raises:
        UnsupportedError: it has something that the oracle does not evaluate.
    """
    if re.search(r"\bIN\s*\[", filter_.sql, re.IGNORECASE):  # sqlglot takes it for IN (...), whose nulls are others
        raise refused(f"know IN [...], in {filter_.sql}")
    (tree,) = Dialect.get_or_raise("duckdb").parse_into(exp.Condition, filter_.sql)
    if tree is None:
        raise UnsupportedError("Cannot evaluate the filter: it is empty")
    _refuse_unknown(tree)
    return _Compiler(filter_.columns).condition(tree)


_PARTS = {"this", "expression", "expressions", "low", "high", "to", "negate", "is_string", "quoted", "is_neg"}


_KNOWN = {
    *(exp.And, exp.Or, exp.Not, exp.Paren, exp.Null, exp.Boolean, exp.Literal, exp.Column, exp.Dot, exp.Identifier),
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.Between, exp.In, exp.Is, exp.Like, exp.Escape, exp.StartsWith, exp.IsNan, exp.IsInf, exp.Anonymous),
    *(exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Cast, exp.DataType),
}
"""Exactly these: a subclass of one of them means something else, as TRY_CAST does."""


def _refuse_unknown(tree: exp.Expr) -> None:
    """Refuses nodes that look like others, and nodes with options that would be overlooked."""
    for node in tree.walk(prune=lambda n: isinstance(n, exp.DataType)):
        if type(node) not in _KNOWN or (type(node) is exp.In and not node.expressions):
            raise _unsupported(node.sql("duckdb"))
        options = {name for name, value in node.args.items() if value} - _PARTS
        if options and not isinstance(node, exp.DataType):
            raise _unsupported(f"{', '.join(sorted(options))} of {node.sql('duckdb')}")


def _unsupported(what: str) -> UnsupportedError:
    return refused(f"know {what}")


class _Compiler:
    """Turns nodes into terms and conditions over the given columns."""

    def __init__(self, columns: Sequence[Field]) -> None:
        self.columns = columns

    # Conditions.

    def condition(self, node: exp.Expr) -> Condition:
        match node:
            case exp.Paren():
                return self.condition(node.this)
            case exp.And():
                return _conjunction(self.condition(node.this), self.condition(node.expression))
            case exp.Or():
                negated = (_negation(self.condition(part)) for part in (node.this, node.expression))
                return _negation(_conjunction(*negated))
            case exp.Not():
                return _negation(self.condition(node.this))
            case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
                left, right = comparable([self.term(node.this), self.term(node.expression)])
                return _known(_COMPARISONS[type(node)], left, right)
            case exp.NullSafeEQ() | exp.NullSafeNEQ():
                left, right = comparable([self.term(node.this), self.term(node.expression)])
                wanted = isinstance(node, exp.NullSafeEQ)
                return lambda row: (left(row) == right(row)) is wanted
            case exp.Between():
                terms = [self.term(part) for part in (node.this, node.args["low"], node.args["high"])]
                value, low, high = comparable(terms)
                return _conjunction(
                    _known(_COMPARISONS[exp.GTE], value, low), _known(_COMPARISONS[exp.LTE], value, high)
                )
            case exp.In() if node.expressions:
                value, *items = comparable([self.term(node.this), *map(self.term, node.expressions)])
                return _membership(value, items)
            case exp.Is():
                return self.identity(node)
            case _:
                return self.test(node)

    def identity(self, node: exp.Is) -> Condition:
        match node.expression:
            case exp.Null():
                value = self.term(node.this).evaluate
                return lambda row: value(row) is None
            case exp.Boolean() as wanted:
                condition, truth = self.condition(node.this), bool(wanted.this)
                return lambda row: condition(row) is truth
            case other:
                raise _unsupported(f"IS {other.sql('duckdb')}")

    def test(self, node: exp.Expr) -> Condition:
        """Functions that are conditions, and terms that are boolean."""
        match node:
            case exp.Escape(this=exp.Like() as like):
                return self.like(like, node.expression)
            case exp.Like():
                return self.like(node, None)
            case exp.StartsWith():
                text, prefix = self.text(node.this), self.text(node.expression)
                return _known(lambda value, start: value.startswith(start), text, prefix)
            case exp.Anonymous() if node.name.lower() in ("prefix", "starts_with") and len(node.expressions) == 2:
                text, prefix = map(self.text, node.expressions)
                return _known(lambda value, start: value.startswith(start), text, prefix)
            case exp.IsNan() | exp.IsInf():
                return self.float_test(node)
            case _:
                pass
        term = self.term(node)
        if not isinstance(term.type, dt.BooleanType | dt.UnknownType):
            raise _unsupported(f"a condition of type {term.type}: {node.sql('duckdb')}")
        return term.evaluate

    def float_test(self, node: exp.IsNan | exp.IsInf) -> Condition:
        term = self.term(node.this)
        if not isinstance(term.type, dt.FloatType):
            raise _unsupported(f"{node.sql('duckdb')} of {term.type}")
        infinities = (float("inf"), float("-inf"))
        holds = (lambda v: v != v) if isinstance(node, exp.IsNan) else (lambda v: v in infinities)
        return lambda row: unless_null(holds, term.evaluate(row))

    def like(self, node: exp.Like, escape: exp.Expr | None) -> Condition:
        if escape is not None and not (isinstance(escape, exp.Literal) and escape.is_string and len(escape.name) < 2):
            raise _unsupported(f"ESCAPE {escape.sql('duckdb')}")
        sign = "" if escape is None else escape.name
        text, pattern = self.text(node.this), self.text(node.expression)
        matches = _known(
            lambda value, like: re.fullmatch(_regex(like, sign), value, re.DOTALL) is not None, text, pattern
        )
        return _negation(matches) if node.args.get("negate") else matches

    def text(self, node: exp.Expr) -> Evaluate:
        term = self.term(node)
        if not isinstance(term.type, dt.StringType | dt.UnknownType):
            raise _unsupported(f"text from {term.type}: {node.sql('duckdb')}")
        return term.evaluate

    # Terms.

    def term(self, node: exp.Expr) -> Term:
        match node:
            case exp.Paren():
                return self.term(node.this)
            case exp.Null():
                return constant(dt.UnknownType(), None)
            case exp.Boolean():
                return constant(dt.BooleanType(), bool(node.this))
            case exp.Literal():
                return constant(dt.StringType(), node.this, literal=node.this) if node.is_string else _number(node.this)
            case exp.Column() | exp.Dot():
                return self.column(node)
            case exp.Neg():
                return negative(self.term(node.this))
            case exp.Add() | exp.Sub() | exp.Mul():
                sign = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}[type(node)]
                return arithmetic(sign, self.term(node.this), self.term(node.expression))
            case exp.Cast():
                return explicit_cast(self.term(node.this), _named_type(node.to))
            case exp.And() | exp.Or() | exp.Not() | exp.Predicate() | exp.IsNan() | exp.StartsWith():
                return Term(dt.BooleanType(), self.condition(node))
            case _:
                raise _unsupported(node.sql("duckdb"))

    def column(self, node: exp.Expr) -> Term:
        """A column, or a field inside one: `"a"`, `("a")."b"`."""
        names, base = [], node
        while isinstance(base, exp.Dot):
            names.append(base.expression.name)
            base = base.this
        while isinstance(base, exp.Paren):
            base = base.this
        if not isinstance(base, exp.Column) or any(base.args.get(part) for part in ("table", "db", "catalog")):
            raise _unsupported(node.sql("duckdb"))
        top = _named(base.name, self.columns, node)
        ids, inner = [], top
        for name in reversed(names):
            if not isinstance(inner.type, dt.StructType):
                raise _unsupported(node.sql("duckdb"))
            inner = _named(name, inner.type.fields, node)
            ids.append(inner.id)
        return Term(sql_type(inner.type), lambda row: inside(row[top.id], ids))


def _named(name: str, fields: Sequence[Field], node: exp.Expr) -> Field:
    found = [f for f in fields if f.name == name] or [f for f in fields if f.name.lower() == name.lower()]
    if len(found) != 1:
        raise _unsupported(f"which column is {node.sql('duckdb')}")
    return found[0]


def _conjunction(left: Condition, right: Condition) -> Condition:
    """False if one side is, else unknown if one side is. The right side is not evaluated if the left one decides."""

    def both(row: Values) -> bool | None:
        first = left(row)
        second = False if first is False else right(row)
        if first is False or second is False:
            return False
        return None if first is None or second is None else True

    return both


def _negation(condition: Condition) -> Condition:
    return lambda row: None if (value := condition(row)) is None else not value


def _known(holds: Callable[[Any, Any], bool], left: Evaluate, right: Evaluate) -> Condition:
    """Unknown if either side is null."""

    def condition(row: Values) -> bool | None:
        first, second = left(row), right(row)
        return None if first is None or second is None else bool(holds(first, second))

    return condition


def _membership(value: Evaluate, items: Sequence[Evaluate]) -> Condition:
    """IN: equal to one of them, or unknown if that depends on a null."""

    def condition(row: Values) -> bool | None:
        wanted, found = value(row), [item(row) for item in items]
        if wanted is None:
            return None
        if any(item is not None and item == wanted for item in found):
            return True
        return None if None in found else False

    return condition


_COMPARISONS: dict[type[exp.Expr], Callable[[Any, Any], bool]] = {
    exp.EQ: lambda a, b: a == b,
    exp.NEQ: lambda a, b: a != b,
    exp.LT: lambda a, b: a < b,
    exp.LTE: lambda a, b: a <= b,
    exp.GT: lambda a, b: a > b,
    exp.GTE: lambda a, b: a >= b,
}


def _regex(like: str, escape: str) -> str:
    """The regular expression of a LIKE pattern; without ESCAPE, DuckDB has no escape sign."""
    pieces, signs = [], iter(like)
    for sign in signs:
        if sign == escape:
            following = next(signs, None)
            if following is None:
                raise _unsupported("a LIKE pattern that ends with its escape sign")
            pieces.append(re.escape(following))
        else:
            pieces.append({"%": ".*", "_": "."}.get(sign, re.escape(sign)))
    return "".join(pieces)


def _number(text: str) -> Term:
    """A number as DuckDB types it: INTEGER and wider, DECIMAL with as many digits as are written, or DOUBLE."""
    text = text.replace("_", "")
    if re.fullmatch(r"\d+", text) and int(text) < 2**127:
        value = int(text)
        if value >= 2**63:
            return constant(dt.DecimalType(39, 0), value)  # HUGEINT: all that matters is that it is exact
        return constant(dt.IntegerType(32 if value < 2**31 else 64), value, literal=value)
    found = re.fullmatch(r"(\d*)\.(\d*)", text)
    if found is not None and 0 < len(found[1] + found[2]) <= 38:
        scale, digits = len(found[2]), (found[1] + found[2]).lstrip("0") or "0"
        precision = max(len(found[1].lstrip("0")) + scale, 1)
        return constant(dt.DecimalType(precision, scale), Decimal((0, tuple(map(int, digits)), -scale)))
    if re.fullmatch(r"(\d+\.?\d*|\.\d+)[eE][+-]?\d+", text):
        return constant(dt.FloatType(64), float(text))
    raise _unsupported(f"the number {text}")


_TYPES: dict[exp.DType, dt.Type] = {
    exp.DType.BOOLEAN: dt.BooleanType(),
    exp.DType.TINYINT: dt.IntegerType(8),
    exp.DType.SMALLINT: dt.IntegerType(16),
    exp.DType.INT: dt.IntegerType(32),
    exp.DType.BIGINT: dt.IntegerType(64),
    exp.DType.FLOAT: dt.FloatType(32),
    exp.DType.DOUBLE: dt.FloatType(64),
    exp.DType.VARCHAR: dt.StringType(),
    exp.DType.TEXT: dt.StringType(),
    exp.DType.DATE: dt.DateType(),
    exp.DType.TIME: dt.TimeType(),
    exp.DType.TIMESTAMP: dt.TimestampType(),
    exp.DType.TIMESTAMPNTZ: dt.TimestampType(),
    exp.DType.TIMESTAMPTZ: dt.TimestampType("us", utc=True),
    exp.DType.TIMESTAMP_NS: dt.TimestampType("ns"),
    exp.DType.UUID: dt.UuidType(),
    exp.DType.VARBINARY: dt.BinaryType(),
}


def _named_type(to: exp.DataType) -> dt.Type:
    sizes = [size.name for size in to.expressions]
    if to.this == exp.DType.DECIMAL and all(size.isdigit() for size in sizes):
        precision, scale = (*map(int, sizes), 0)[:2] if sizes else (18, 3)
        return dt.DecimalType(precision, scale)
    if to.this not in _TYPES or (sizes and to.this not in (exp.DType.VARCHAR, exp.DType.TEXT)):
        raise _unsupported(f"the type {to.sql('duckdb')}")
    return _TYPES[to.this]
