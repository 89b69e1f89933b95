"""Filters: a condition in DuckDB's SQL, parsed here and evaluated on one row in three-valued logic (iceberg 3.1).

The grammar, from what binds least to what binds most. Operators of a line bind alike, from the left:

    condition   a OR b
                a AND b
                NOT a
                a IS [NOT] NULL | TRUE | FALSE | DISTINCT FROM b      a ISNULL      a NOTNULL
                a = b      ==  <>  !=  <  <=  >  >=
                a [NOT] BETWEEN b AND c      a [NOT] IN (b, …)      a [NOT] LIKE b [ESCAPE 'c']
                a + b      a - b
                a * b
                -a      +a
                a::type      a.field
    atom        (a)   number   'text'   TRUE   FALSE   NULL   column   "column"   type 'text'   CAST(a AS type)
                starts_with(a, b)   prefix(a, b)   isnan(a)   isinf(a)

What else SQL has, the oracle refuses by name and never guesses. A condition is a term of type boolean.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

from harness.errors import RequestError, UnknownColumnError
from harness.testing.oracle import types as dt
from harness.testing.oracle.terms import (
    Evaluate,
    Term,
    Values,
    arithmetic,
    cast,
    comparable,
    constant,
    negative,
    refused,
    sql_type,
    unless_null,
)
from harness.testing.oracle.types import Field, children, inside, named

Find = Callable[[str], Field]
"""Gives the column that a name means. Raises UnknownColumnError."""


@dataclass(frozen=True)
class Filter:
    """A condition. columns: those that the text names. evaluate: the condition of a row, None for unknown."""

    columns: tuple[Field, ...]
    evaluate: Evaluate


def parse_filter(text: str, find: Find) -> Filter:
    """The filter that a text means.

    Raises RequestError: the text is no condition on a row. UnsupportedError: the oracle does not evaluate the text.
    """
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise RequestError("Cannot parse the filter: a character is half of one; write it in UTF-8")
    parser = _Parser(text, find)
    for token, after in pairwise(parser.tokens):
        is_more = token.kind == "word" and token.text.lower() in ("select", "exists")
        is_aggregate = token.kind == "word" and after.text == "(" and _AGGREGATES.fullmatch(token.text.lower())
        if is_more or is_aggregate or (token.kind == "sign" and token.text in "?$"):
            raise RequestError(f"A filter is a condition on one row, got {token.text}")
    try:
        term = parser.term(0)
    except RecursionError:
        raise RequestError("The filter is nested too deeply") from None
    while parser.accept(";"):
        pass
    if parser.token.kind != "end":
        raise refused(f"know {parser.token.text!r} there, in {text}")
    return Filter(tuple(parser.columns.values()), parser.boolean(term))


class _Token(NamedTuple):
    kind: str  # word, name, number, text, sign, end
    text: str


_TOKENS = re.compile(
    r"""(?P<blank>(?:\s|--[^\n]*|/\*.*?\*/)+)
    | (?P<number>(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<text>'(?:[^']|'')*')
    | (?P<name>"(?:[^"]|"")+")
    | (?P<word>[^\W\d][\w$]*)
    | (?P<sign>::|<=|>=|<>|!=|==|\|\||->>|->|\^@|\*\*|//|!?~~?\*?|[-+*/%^<>=().,;\[\]{}:&|@?!\#$])""",
    re.VERBOSE | re.DOTALL,
)


def _tokens(text: str) -> list[_Token]:
    found, at = [], 0
    while at < len(text):
        match = _TOKENS.match(text, at)
        if match is None:
            raise RequestError(f"Cannot parse the filter: {text[at : at + 20]!a} is no part of SQL")
        at, kind = match.end(), match.lastgroup or ""
        if kind in ("text", "name"):
            quote = match[0][0]
            found.append(_Token(kind, match[0][1:-1].replace(quote * 2, quote)))
        elif kind != "blank":
            found.append(_Token(kind, match[0]))
    return [*found, _Token("end", "")]


_BINDS = {"or": 1, "and": 2, "is": 4, "isnull": 4, "notnull": 4, "between": 6, "in": 6, "like": 6}
_BINDS |= {**dict.fromkeys(("=", "==", "<>", "!=", "<", "<=", ">", ">="), 5), "+": 7, "-": 7, "*": 8, "::": 10, ".": 11}
"""The strength of operators behind a term. NOT a binds with 3, -a with 9."""
_NOT, _SIGN = 3, 9

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    **dict.fromkeys(("=", "=="), lambda a, b: a == b),
    **dict.fromkeys(("<>", "!="), lambda a, b: a != b),
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_RESERVED = re.compile(
    "and|or|not|is|in|like|between|as|when|then|else|end|case|from|select|where|group|order|having|limit|union|on|"
    "distinct|all|any|some|exists|cast|null|true|false|isnull|notnull|escape|using|with"
)
_AGGREGATES = re.compile("count|sum|min|max|avg|first|last|any_value|list|string_agg|median|bool_and|bool_or")


class _Parser:
    """Turns a text into terms. Every method takes the tokens of what the method's name says."""

    def __init__(self, text: str, find: Find) -> None:
        self.sql, self.find, self.at = text, find, 0
        self.tokens = _tokens(text)
        self.columns: dict[int, Field] = {}

    # Tokens.

    @property
    def token(self) -> _Token:
        """The next one; the text of a word or sign decides, of a quoted name or text only the kind."""
        return self.tokens[self.at]

    @property
    def word(self) -> str:
        """The next word or sign in lower case; empty for anything else."""
        return self.token.text.lower() if self.token.kind in ("word", "sign") else ""

    def accept(self, *words: str) -> str:
        """Takes the next word or sign if it is one of these."""
        found = self.word if self.word in words else ""
        self.at += bool(found)
        return found

    def expect(self, word: str) -> None:
        """Takes this word or sign, which must be next."""
        if not self.accept(word):
            self.fail(f"expected {word.upper()} before {self.token.text!r}")

    def fail(self, reason: str) -> NoReturn:
        raise RequestError(f"Cannot parse the filter {self.sql!r}: {reason}")

    # Terms with operators.

    def term(self, least: int) -> Term:
        """A term of operators that bind more than `least`."""
        left = self.atom()
        while True:
            start = self.at
            negated = self.word == "not" and self.tokens[self.at + 1].text.lower() in ("between", "in", "like")
            self.at += negated
            strength = _BINDS.get(self.word, 0)
            if strength <= least:
                self.at = start
                return left
            left = self.operation(left, self.accept(self.word), strength)
            left = _negation(left.evaluate) if negated else left

    def operation(self, left: Term, sign: str, strength: int) -> Term:
        """The rest of an operation."""
        match sign:
            case "and" | "or":
                sides = [left, self.term(strength)]
                while self.accept(sign):
                    sides.append(self.term(strength))
                return _junction([self.boolean(side) for side in sides], wants_all=sign == "and")
            case "is":
                return self.identity(left)
            case "isnull" | "notnull":
                return _truth(lambda row: (left.evaluate(row) is None) is (sign == "isnull"))
            case "between":
                if self.word == "symmetric":
                    raise refused("know BETWEEN SYMMETRIC")
                low = self.term(strength)
                self.expect("and")
                value, first, last = comparable([left, low, self.term(strength)])
                ends = [_known(_COMPARISONS[">="], value, first), _known(_COMPARISONS["<="], value, last)]
                return _junction([end.evaluate for end in ends], wants_all=True)
            case "in":
                return self.membership(left)
            case "like":
                return self.like(left, self.term(strength))
            case "+" | "-" | "*":
                return arithmetic(sign, left, self.term(strength))
            case "::":
                return cast(left, self.type())
            case ".":
                raise refused("know methods")
            case _:
                first, second = comparable([left, self.term(strength)])
                return _known(_COMPARISONS[sign], first, second)

    def identity(self, left: Term) -> Term:
        """What follows IS."""
        wanted = not self.accept("not")
        if self.accept("null"):
            return _truth(lambda row: (left.evaluate(row) is None) is wanted)
        if self.accept("distinct"):
            self.expect("from")
            first, second = comparable([left, self.term(_BINDS["is"])])
            return _truth(lambda row: (first(row) != second(row)) is wanted)
        word = self.accept("true", "false")
        if not word:
            raise refused(f"know IS {self.token.text}")
        condition = self.boolean(left)
        return _truth(lambda row: (condition(row) is (word == "true")) is wanted)

    def membership(self, left: Term) -> Term:
        """What follows IN."""
        if self.word == "[":
            raise refused(f"know IN [...], in {self.sql}")
        self.expect("(")
        value, *items = comparable([left, *self.listed()])

        def evaluate(row: Values) -> bool | None:
            """Equal to an item, or unknown if that depends on a null."""
            wanted, found = value(row), [item(row) for item in items]
            if wanted is None:
                return None
            if any(item is not None and item == wanted for item in found):
                return True
            return None if None in found else False

        return _truth(evaluate)

    def like(self, left: Term, right: Term) -> Term:
        """What follows LIKE and the pattern."""
        escape = ""
        if self.accept("escape"):
            escape = self.token.text
            if self.token.kind != "text" or len(escape) > 1:
                raise refused(f"know ESCAPE {escape}")
            self.at += 1
        text, pattern = self.text(left), self.text(right)
        return _known(lambda value, form: bool(_regex(form, escape).fullmatch(value)), text, pattern)

    # Terms without operators.

    def atom(self) -> Term:
        """A value, a column, a function, or a term in parentheses."""
        (kind, text), word = self.token, self.word
        if kind == "end":
            self.fail("it ends too early" if self.at else "it is empty")
        self.at += 1
        match kind, word:
            case "number", _:
                return _number(text)
            case "text", _:
                return constant(dt.STRING, text, literal=text)
            case "name", _:
                return self.column(text)
            case "sign", "(":
                inner = self.term(0)
                if self.word == ",":
                    raise refused("know rows")
                self.expect(")")
                return self.below(inner)
            case "sign", "-":
                return negative(self.term(_SIGN))
            case "sign", "+":
                return self.term(_SIGN)
            case "sign", "[" | "{" | "@" | "!" | "~":
                raise refused(f"know {text}, in {self.sql}")
            case _, "not":
                return _negation(self.boolean(self.term(_NOT)))
            case _, "null":
                return constant(dt.UNKNOWN, None)
            case _, "true" | "false":
                return constant(dt.BOOLEAN, word == "true")
            case _, "case" | "any" | "all" | "some":
                raise refused(f"know {text}, in {self.sql}")
            case _, "cast":
                return self.function(word)
            case "word", _ if not _RESERVED.fullmatch(word):
                return self.named(text, word)
            case _:
                self.fail(f"{text} is in the wrong place")

    def named(self, text: str, word: str) -> Term:
        """A function or a column, or a type with a text behind it."""
        if self.word == "(":
            return self.function(word)
        if (self.token.kind == "text" and word in _TYPES) or (word == "timestamp" and self.word == "with"):
            self.at -= 1
            type_ = self.type()
            self.at += 1
            value = self.tokens[self.at - 1].text
            return cast(constant(dt.STRING, value, literal=value), type_)
        return self.column(text)

    def column(self, name: str) -> Term:
        """A column, and the fields inside."""
        found = self.find(name)
        self.columns[found.id] = found
        return self.below(Term(sql_type(found.type), lambda row: row[found.id], path=(found,)))

    def below(self, term: Term) -> Term:
        """The fields behind a column: `"a"."b"`, `("a")."b"`."""
        path = term.path
        while path and self.accept("."):
            kind, name = self.token
            self.at += 1
            if kind not in ("word", "name") or self.word == "(":
                raise refused(f"know {name} of {path[-1].name}")
            found = named(name, children(path[-1].type) if isinstance(path[-1].type, dt.StructType) else ())
            if found is None:
                raise UnknownColumnError(f"Unknown column {path[-1].name}.{name}", field=name)
            path = (*path, found)
        if len(path) < 2:
            return term
        ids = [f.id for f in path]
        return Term(sql_type(path[-1].type), lambda row: inside(row, ids), path=path)

    def function(self, word: str) -> Term:
        """The arguments of a function, in parentheses."""
        self.expect("(")
        match word:
            case "cast":
                value = self.term(0)
                self.expect("as")
                type_ = self.type()
                self.expect(")")
                return cast(value, type_)
            case "starts_with" | "prefix":
                text, start = map(self.text, self.listed(2))
                return _known(lambda value, prefix: value.startswith(prefix), text, start)
            case "isnan" | "isinf":
                (term,) = self.listed(1)
                if not isinstance(term.type, dt.FloatType):
                    raise refused(f"know {word} of {term.type}")
                holds = math.isnan if word == "isnan" else math.isinf
                return _truth(lambda row: unless_null(holds, term.evaluate(row)))
            case _:
                raise refused(f"know the function {word}")

    def listed(self, count: int | None = None) -> list[Term]:
        """Terms with commas between them, up to the parenthesis. count: how many there must be."""
        found = [self.term(0)]
        while self.accept(","):
            found.append(self.term(0))
        self.expect(")")
        if count not in (None, len(found)):
            raise refused(f"know {len(found)} arguments there, in {self.sql}")
        return found

    def type(self) -> dt.Type:
        """A type, by any of the names that DuckDB knows it by."""
        word = self.word
        self.at += 1
        if word == "timestamp" and self.accept("with"):
            self.expect("time")
            self.expect("zone")
            word = "timestamptz"
        sizes: list[int] = []
        if self.accept("("):
            while self.token.kind == "number":
                sizes.append(int(self.token.text))
                self.at += 1
                self.accept(",")
            self.expect(")")
        if word in ("decimal", "numeric", "dec"):
            precision, scale = (*sizes, 0)[:2] if sizes else (18, 3)
            return dt.DecimalType(precision, scale)
        if word not in _TYPES or (sizes and _TYPES[word] != dt.STRING):
            raise refused(f"know the type {word}, in {self.sql}")
        return _TYPES[word]

    def boolean(self, term: Term) -> Evaluate:
        """The condition that a term is."""
        return self.of_type(dt.BOOLEAN, term)

    def text(self, term: Term) -> Evaluate:
        """The text that a term is."""
        return self.of_type(dt.STRING, term)

    def of_type(self, type_: dt.Type, term: Term) -> Evaluate:
        """The values of a term of one type, or of NULL."""
        if term.type not in (type_, dt.UNKNOWN):
            raise refused(f"know a {type_} from {term.type}, in {self.sql}")
        return term.evaluate


def _truth(evaluate: Evaluate) -> Term:
    return Term(dt.BOOLEAN, evaluate)


def _junction(conditions: Sequence[Evaluate], *, wants_all: bool) -> Term:
    """AND, or OR: decided by the first condition that decides, else unknown if one is."""

    def evaluate(row: Values) -> bool | None:
        is_unknown = False
        for condition in conditions:
            value = condition(row)
            if value is (not wants_all):
                return not wants_all
            is_unknown |= value is None
        return None if is_unknown else wants_all

    return _truth(evaluate)


def _negation(condition: Evaluate) -> Term:
    return _truth(lambda row: unless_null(operator.not_, condition(row)))


def _known(holds: Callable[[Any, Any], bool], left: Evaluate, right: Evaluate) -> Term:
    """Unknown if either side is null."""

    def evaluate(row: Values) -> bool | None:
        first, second = left(row), right(row)
        return None if first is None or second is None else holds(first, second)

    return _truth(evaluate)


def _regex(like: str, escape: str) -> re.Pattern[str]:
    """The regular expression of a LIKE pattern; without ESCAPE, DuckDB has no escape sign."""
    pieces, signs = [], iter(like)
    for sign in signs:
        if sign == escape:
            following = next(signs, None)
            if following is None:
                raise refused("know a LIKE pattern that ends with its escape sign")
            pieces.append(re.escape(following))
        else:
            pieces.append({"%": ".*", "_": "."}.get(sign, re.escape(sign)))
    return re.compile("".join(pieces), re.DOTALL)


def _number(text: str) -> Term:
    """A number as DuckDB types it: INTEGER and wider, DECIMAL with as many digits as are written, or DOUBLE."""
    text = text.replace("_", "")
    if text.isdecimal() and int(text) < 2**127:
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
    raise refused(f"know the number {text}")


_TYPES: dict[str, dt.Type] = {
    **dict.fromkeys(("boolean", "bool"), dt.BOOLEAN),
    **dict.fromkeys(("tinyint", "int1"), dt.IntegerType(8)),
    **dict.fromkeys(("smallint", "int2", "short"), dt.IntegerType(16)),
    **dict.fromkeys(("integer", "int", "int4", "signed"), dt.IntegerType(32)),
    **dict.fromkeys(("bigint", "int8", "long"), dt.IntegerType(64)),
    **dict.fromkeys(("float", "real", "float4"), dt.FloatType(32)),
    **dict.fromkeys(("double", "float8"), dt.FloatType(64)),
    **dict.fromkeys(("varchar", "text", "string", "char", "bpchar"), dt.STRING),
    **dict.fromkeys(("blob", "bytea", "binary", "varbinary"), dt.BINARY),
    **dict.fromkeys(("timestamp", "datetime"), dt.TimestampType()),
    **{"date": dt.DATE, "time": dt.TimeType(), "uuid": dt.UUID},
    **{"timestamptz": dt.TimestampType("us", utc=True), "timestamp_ns": dt.TimestampType("ns")},
}
