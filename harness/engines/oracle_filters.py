"""A condition in DuckDB's SQL as the tree that the oracle evaluates, parsed without sqlglot, by which harness parses.

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
                starts_with(a, b)   prefix(a, b)   isnan(a)   isinf(a)   upper(a)   lower(a)   coalesce(a, …)
                CASE [a] WHEN b THEN c … [ELSE d] END

Whatever else SQL has is refused by name.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn, TypeAlias

from harness.errors import RequestError, UnsupportedError

Tree: TypeAlias = tuple[Any, ...]
"""A node, see `harness.engines.oracle_conditions`."""


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
_BINDS = {"or": 1, "and": 2, "is": 4, "isnull": 4, "notnull": 4, "between": 6, "in": 6, "like": 6}
_BINDS |= {**dict.fromkeys(("=", "==", "<>", "!=", "<", "<=", ">", ">="), 5), "+": 7, "-": 7, "*": 8, "::": 10}
"""The strength of operators behind a term. NOT a binds with 3, -a with 9."""
_NOT, _SIGN = 3, 9
_RESERVED = re.compile(
    "and|or|not|is|in|like|between|as|when|then|else|end|case|from|select|where|group|order|having|limit|union|on|"
    "distinct|all|any|some|exists|cast|null|true|false|isnull|notnull|escape|using|with"
)
_AGGREGATES = re.compile("count|sum|min|max|avg|first|last|any_value|list|string_agg|median|bool_and|bool_or")
_FUNCTIONS = {"starts_with": "starts with", "prefix": "starts with", "isnan": "is nan", "isinf": "is inf"}
_FUNCTIONS |= {name: name for name in ("upper", "lower", "coalesce")}
_TYPED = re.compile(
    r"date|time|timestamp|timestamptz|timestamp_ns|datetime|uuid|blob|bytea|binary|integer|bigint|double"
)


def parse(text: str) -> Tree:
    """The tree of a condition.

    Raises RequestError: the text is no condition on a row. UnsupportedError: the oracle does not evaluate the text.
    """
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise RequestError("Cannot parse the filter: a character is half of one; write it in UTF-8")
    parser = _Parser(text)
    for token, after in pairwise(parser.tokens):
        is_more = token.kind == "word" and token.text.lower() in ("select", "exists")
        is_aggregate = token.kind == "word" and after.text == "(" and _AGGREGATES.fullmatch(token.text.lower())
        if is_more or is_aggregate or (token.kind == "sign" and token.text in "?$"):
            raise RequestError(f"A filter is a condition on one row, got {token.text}")
    try:
        tree = parser.term(0)
    except RecursionError:
        raise RequestError("The filter is nested too deeply") from None
    while parser.accept(";"):
        pass
    if parser.word in (")", ","):
        parser.fail(f"{parser.word} is in the wrong place")
    if parser.token.kind != "end":
        raise parser.refused(parser.token.text)
    return tree


class _Parser:
    """Turns tokens into nodes. Every method takes the tokens of what the method's name says."""

    def __init__(self, text: str) -> None:
        self.sql, self.at = text, 0
        self.tokens: list[_Token] = []
        place = 0
        while place < len(text):
            match = _TOKENS.match(text, place)
            if match is None:
                self.fail(f"{text[place : place + 20]!a} is no part of SQL")
            place, kind = match.end(), match.lastgroup or ""
            if kind in ("text", "name"):
                quote = match[0][0]
                self.tokens.append(_Token(kind, match[0][1:-1].replace(quote * 2, quote)))
            elif kind != "blank":
                self.tokens.append(_Token(kind, match[0]))
        self.tokens.append(_Token("end", ""))

    @property
    def token(self) -> _Token:
        """The next one."""
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

    def refused(self, part: str) -> UnsupportedError:
        return UnsupportedError(f"Cannot evaluate the filter: the oracle does not know {part}, in {self.sql}")

    def term(self, least: int) -> Tree:
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
            left = ("not", left) if negated else left

    def operation(self, left: Tree, sign: str, strength: int) -> Tree:
        """The rest of an operation."""
        match sign:
            case "and" | "or":
                sides = [left, self.term(strength)]
                while self.accept(sign):
                    sides.append(self.term(strength))
                return sign, *sides
            case "is":
                return self.identity(left)
            case "isnull":
                return "is null", left
            case "notnull":
                return "not", ("is null", left)
            case "between":
                if self.word == "symmetric":
                    raise self.refused("BETWEEN SYMMETRIC")
                low = self.term(strength)
                self.expect("and")
                return "between", left, low, self.term(strength)
            case "in":
                if self.word == "[":
                    raise self.refused("IN [...]")
                self.expect("(")
                return "in", left, *self.listed()
            case "like":
                pattern, escape = self.term(strength), ""
                if self.accept("escape"):
                    escape = self.token.text
                    if self.token.kind != "text" or len(escape) > 1:
                        raise self.refused(f"ESCAPE {escape}")
                    self.at += 1
                return "like", left, pattern, escape
            case "::":
                return "cast", left, *self.type()
            case _:
                return {"==": "=", "!=": "<>"}.get(sign, sign), left, self.term(strength)

    def identity(self, left: Tree) -> Tree:
        """The part that follows IS."""
        negated = self.accept("not")
        if self.accept("distinct"):
            self.expect("from")
            found: Tree = ("is distinct", left, self.term(_BINDS["is"]))
        elif word := self.accept("null", "true", "false"):
            found = (f"is {word}", left)
        else:
            raise self.refused(f"IS {self.token.text}")
        return ("not", found) if negated else found

    def atom(self) -> Tree:
        """A value, a column, a function, or a term in parentheses."""
        (kind, text), word = self.token, self.word
        if kind == "end":
            self.fail("it ends too early" if self.at else "it is empty")
        self.at += 1
        match kind, word:
            case "number", _:
                return "number", text.replace("_", "")
            case "text", _:
                return "text", text
            case "name", _:
                return self.fields(("column", text))
            case "sign", "(":
                inner = self.term(0)
                if self.word == ",":
                    raise self.refused("rows")
                self.expect(")")
                return self.fields(inner)
            case "sign", "-":
                return "negative", self.term(_SIGN)
            case "sign", "+":
                return self.term(_SIGN)
            case "sign", "[" | "{" | "@" | "!" | "~":
                raise self.refused(text)
            case _, "not":
                return "not", self.term(_NOT)
            case _, "null" | "true" | "false":
                return (word,)
            case _, "case":
                return self.case()
            case _, "any" | "all" | "some":
                raise self.refused(text)
            case "word", _ if word == "cast" or not _RESERVED.fullmatch(word):
                return self.named(text, word)
            case _:
                self.fail(f"{text} is in the wrong place")

    def named(self, text: str, word: str) -> Tree:
        """A function or a column, or a type with a text behind it."""
        if (self.token.kind == "text" and _TYPED.fullmatch(word)) or (word == "timestamp" and self.word == "with"):
            self.at -= 1
            type_ = self.type()
            self.at += 1
            return "cast", ("text", self.tokens[self.at - 1].text), *type_
        if not self.accept("("):
            return self.fields(("column", text))
        if word == "cast":
            value = self.term(0)
            self.expect("as")
            type_ = self.type()
            self.expect(")")
            return "cast", value, *type_
        parts = self.listed() if word in _FUNCTIONS else []
        if word != "coalesce" and len(parts) != (2 if word in ("starts_with", "prefix") else 1):
            raise self.refused(f"the function {word}")
        return _FUNCTIONS[word], *parts

    def case(self) -> Tree:
        """The rest of CASE; a value behind CASE is compared with each value behind WHEN."""
        value = None if self.word == "when" else self.term(0)
        parts: list[Tree] = []
        while self.accept("when"):
            condition = self.term(0)
            self.expect("then")
            parts += [condition if value is None else ("=", value, condition), self.term(0)]
        if not parts:
            self.expect("when")
        parts.append(self.term(0) if self.accept("else") else ("null",))
        self.expect("end")
        return "case", *parts

    def fields(self, tree: Tree) -> Tree:
        """The fields behind a column: `"a"."b"`, `("a")."b"`."""
        while self.accept("."):
            kind, name = self.token
            self.at += 1
            if tree[0] != "column" or kind not in ("word", "name") or self.word == "(":
                raise self.refused(f".{name}")
            tree = (*tree, name)
        return tree

    def listed(self) -> list[Tree]:
        """Terms with commas between them, up to the parenthesis."""
        found = [self.term(0)]
        while self.accept(","):
            found.append(self.term(0))
        self.expect(")")
        return found

    def type(self) -> tuple[str, ...]:
        """A type's name, and its sizes."""
        word = self.word
        if not word:
            self.fail("a type is missing")
        self.at += 1
        if word == "timestamp" and self.accept("with"):
            self.expect("time")
            self.expect("zone")
            word = "timestamptz"
        sizes: list[str] = []
        if self.accept("("):
            while self.token.text.isdecimal():
                sizes.append(self.token.text)
                self.at += 1
                self.accept(",")
            self.expect(")")
        return word, *sizes
