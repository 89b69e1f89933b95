"""Functions of regular expressions, and the operators of patterns."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.engines.spark.transpile import spark_text
from harness.engines.spark.transpile.functions.registry import (
    VARCHAR,
    Call,
    Function,
    Lowering,
)
from harness.engines.spark.transpile.values import BOOLEAN, TEXT, TypedSql, list_of

# Regular expressions that RE2 (DuckDB) and Java (Spark) interpret alike. A pattern is parsed, and each part is written
# in Java's syntax: `.` matches anything but a line feed, `$` only the very end, `\s` no vertical tab, and `\b` uses
# ASCII. Parts that the engines interpret differently, or that only one supports, are refused.


_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": "\\t\\n\\f\\r\\x{20}"}
_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "digit": "0-9",
    "lower": "a-z",
    "upper": "A-Z",
    "punct": "!-/:-@\\x{5b}-\\x{60}\\x{7b}-\\x{7e}",
    "space": "\\t\\n\\x{b}\\f\\r\\x{20}",
    "xdigit": "0-9A-Fa-f",
}
_SIGNS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WORD_END = "(?:(?<=[0-9A-Za-z_])(?![0-9A-Za-z_])|(?<![0-9A-Za-z_])(?=[0-9A-Za-z_]))"
_FOLDED = {"k": "\u212a", "s": "\u017f"}
"""Non-ASCII characters that equal a letter if case is ignored."""
_MOST_REPEATS = 1000


class RegexError(Exception):
    """A part of a pattern that may mean different things on the engines."""


@dataclass(frozen=True, slots=True)
class Regex:
    """A pattern in Java's syntax.

    Attributes:
        java: The pattern.
        groups: The number of its groups.
        may_be_empty: True if it can match an empty text.
        repeated: True if a group is inside a repetition.
    """

    java: str
    groups: int
    may_be_empty: bool
    repeated: bool


def parse_regex(pattern: str, options: str = "") -> Regex:
    """Parse a pattern with DuckDB's options `c`, `i`, and `s`.

    Raises:
        RegexError: A part is uncertain. The message names it.
    """
    if pattern.startswith("(?i)"):
        pattern, options = pattern[4:], options + "i"
    if set(options) - set("cis") or {"c", "i"} <= set(options):
        raise RegexError(f"the options {options!r}")
    reader = _RegexReader(pattern, folds="i" in options, lines="s" in options)
    if reader.folds and not pattern.isascii():
        raise RegexError("non-ASCII letters if case is ignored")
    java, empty = reader.alternatives()
    if reader.place < len(pattern):
        raise RegexError("an unmatched parenthesis")
    return Regex(java, reader.groups, empty, reader.repeated)


def java_replacement(text: str, groups: int, shift: int) -> str:
    """Return a replacement text in Java's syntax. `shift` is the number of groups before the groups of the pattern."""
    result, signs = "", iter(text)
    for sign in signs:
        if sign != "\\":
            result += f"\\{sign}" if sign in "$\\" or sign.isdigit() else sign
            continue
        following = next(signs, "")
        if following == "\\":
            result += "\\\\"
        elif following.isdigit() and following.isascii() and int(following) <= groups:
            # No digit can follow, because digits of the text are escaped.
            result += f"${int(following) + shift}"
        else:
            raise RegexError(f"\\{following} in a replacement")
    return result


class _RegexReader:
    def __init__(self, pattern: str, *, folds: bool, lines: bool) -> None:
        self.pattern, self.folds, self.lines = pattern, folds, lines
        self.place = self.groups = 0
        self.repeated = False

    def _next(self) -> str:
        return self.pattern[self.place : self.place + 1]

    def _take(self) -> str:
        sign = self._next()
        if not sign:
            raise RegexError("a pattern that ends too early")
        self.place += 1
        return sign

    def alternatives(self) -> tuple[str, bool]:
        parts = [self._sequence()]
        while self._next() == "|":
            self.place += 1
            parts.append(self._sequence())
        return "|".join(java for java, _ in parts), any(empty for _, empty in parts)

    def _sequence(self) -> tuple[str, bool]:
        java, empty = "", True
        while self._next() not in ("", "|", ")"):
            before = self.groups
            atom, atom_empty = self._atom()
            count = re.compile(r"[*+?]|\{\d+(,\d*)?\}").match(self.pattern, self.place)
            if count is not None:
                atom, atom_empty = self._repeated(atom, count[0], atom_empty, captured=self.groups > before)
            java, empty = java + atom, empty and atom_empty
        return java, empty

    def _repeated(self, atom: str, count: str, empty: bool, *, captured: bool) -> tuple[str, bool]:
        self.place += len(count)
        numbers = [int(n) if len(n) <= 9 else _MOST_REPEATS + 1 for n in re.findall(r"\d+", count)]
        if empty:
            raise RegexError("a repetition of a part that may be empty")
        if any(n > _MOST_REPEATS for n in numbers) or numbers == [0] or (len(numbers) > 1 and numbers[0] > numbers[1]):
            raise RegexError(f"the repetition {count}")
        self.repeated |= captured and count != "?"
        lazy = "?" if self._next() == "?" else ""
        self.place += len(lazy)
        if self._next() in ("*", "+", "?"):
            raise RegexError("a repetition of a repetition")
        return f"{atom}{count}{lazy}", count[0] in "*?" or numbers[:1] == [0]

    def _atom(self) -> tuple[str, bool]:
        sign = self._take()
        match sign:
            case ".":
                return ("(?s:.)" if self.lines else "[^\\n]"), False
            case "^":
                return "\\A", True
            case "$":
                return "\\z", True
            case "(":
                return self._group()
            case "[":
                return self._class(), False
            case "\\":
                return self._escaped()
            case "*" | "+" | "?" | "{" | "}" | "]":
                raise RegexError(f"{sign} by itself")
            case _:
                return self._sign(sign), False

    def _group(self) -> tuple[str, bool]:
        head = "("
        group_name = re.compile(r"\?P?<\w+>").match(self.pattern, self.place)
        if self.pattern.startswith("?:", self.place):
            head, self.place = "(?:", self.place + 2
        elif self._next() == "?" and group_name is None:
            raise RegexError("this group")
        else:
            self.place += len(group_name[0]) if group_name is not None else 0
            self.groups += 1
        java, empty = self.alternatives()
        if self._take() != ")":
            raise RegexError("a group without an end")
        return f"{head}{java})", empty

    def _escaped(self) -> tuple[str, bool]:
        sign = self._take()
        if sign == "b" and not self.folds:
            return _WORD_END, True
        if sign.lower() in _CLASSES and not (self.folds and sign.lower() == "w"):
            return f"[{'^' if sign.isupper() else ''}{_CLASSES[sign.lower()]}]", False
        return self._sign(self._plain(sign)), False

    def _plain(self, sign: str) -> str:
        """Return the character that an escape represents."""
        if sign in _SIGNS:
            return _SIGNS[sign]
        if sign.isalnum() or not sign.isascii():
            raise RegexError(f"\\{sign}")
        return sign

    def _sign(self, sign: str) -> str:
        if self.folds and sign.isalpha():
            return f"[{sign.lower()}{sign.upper()}{_FOLDED.get(sign.lower(), '')}]"
        return _java_character(sign)

    def _class(self) -> str:
        negated = self._next() == "^"
        self.place += negated
        members = self._member()
        while self._next() != "]":
            members += self._member()
        self.place += 1
        return f"[{'^' if negated else ''}{members}]"

    def _member(self) -> str:
        posix = re.compile(r"\[:(\w+):\]").match(self.pattern, self.place)
        if posix is not None:
            if self.folds or posix[1] not in _POSIX:
                raise RegexError(posix[0])
            self.place += len(posix[0])
            return _POSIX[posix[1]]
        first = self._take()
        if first == "[":
            raise RegexError("[ in brackets")
        if first == "\\":
            first = self._take()
            if first in _CLASSES and not (self.folds and first == "w"):
                return _CLASSES[first]
            first = self._plain(first)
        last = first
        if self._next() == "-" and self.pattern[self.place + 1 : self.place + 2] not in ("]", ""):
            self.place += 1
            last = self._take()
            if last == "\\":
                last = self._plain(self._take())
            if last == "[" or ord(last) < ord(first):
                raise RegexError(f"the range {first}-{last}")
        java = _java_character(first) if first == last else f"{_java_character(first)}-{_java_character(last)}"
        if not self.folds:
            return java
        letters = [chr(code) for code in range(ord(first), ord(last) + 1) if chr(code).isalpha()]
        return java + "".join(f"{letter.swapcase()}{_FOLDED.get(letter.lower(), '')}" for letter in letters)


def _java_character(sign: str) -> str:
    return sign if sign.isascii() and sign.isalnum() else f"\\x{{{ord(sign):x}}}"


_TEXTS = list_of(TEXT)


def _subject(call: Call) -> str:
    text = VARCHAR(call.value(0))
    if text is None:
        raise call.refusal(f"{call.name} of {call.value(0).type}")
    return text


def _regex(call: Call, options: str = "") -> Regex:
    pattern = call.value(1).text
    if pattern is None:
        raise call.refusal("a regular expression that is not a literal")
    try:
        return parse_regex(pattern, options)
    except RegexError as error:
        raise call.refusal(f"a regular expression with {error}", "use the syntax that RE2 and Java share") from None


def _options(call: Call, place: int) -> str:
    if len(call.arguments) <= place:
        return ""
    options = call.value(place).text
    if options is None:
        raise call.refusal("options that are not literals")
    return options


def _matches(call: Call, start: str = "", end: str = "") -> TypedSql | None:
    regex = _regex(call, _options(call, 2))
    return TypedSql(f"({_subject(call)} RLIKE {spark_text.text(start + regex.java + end)})", BOOLEAN)


def _replace(call: Call) -> TypedSql | None:
    """Translate `regexp_replace`: the first match, or all with the option `g`. Spark's function replaces all."""
    options = _options(call, 3)
    regex, text = _regex(call, options.replace("g", "")), call.value(2).text
    if text is None:
        raise call.refusal("a replacement that is not a literal")
    if "g" in options:
        if regex.may_be_empty:
            raise call.refusal("all matches of a pattern that may be empty")
        java, shift = regex.java, 0
    else:
        # Anchored at the start, the pattern matches once, and the text before the first match is kept.
        java, shift = f"\\A((?s).*?)({regex.java})", 2
    if regex.repeated and "\\" in text:
        raise call.refusal("a group that is repeated, in a replacement")
    try:
        by = java_replacement(text, regex.groups, shift)
    except RegexError as error:
        raise call.refusal(str(error)) from None
    by = by if shift == 0 else f"$1{by}"
    return TypedSql(f"REGEXP_REPLACE({_subject(call)}, {spark_text.text(java)}, {spark_text.text(by)})", TEXT)


def _extract(function: str) -> Lowering:
    def lower(call: Call) -> TypedSql | None:
        group = call.value(2).number if len(call.arguments) > 2 else 0
        regex = _regex(call, _options(call, 3))
        if group is None or not 0 <= group <= regex.groups or (group > 0 and regex.repeated):
            raise call.refusal("this group of a regular expression")
        if function == "REGEXP_EXTRACT_ALL" and regex.may_be_empty:
            raise call.refusal("all matches of a pattern that may be empty")
        type_ = TEXT if function == "REGEXP_EXTRACT" else _TEXTS
        return TypedSql(f"{function}({_subject(call)}, {spark_text.text(regex.java)}, {group})", type_)

    return lower


def _split(call: Call) -> TypedSql | None:
    regex = _regex(call)
    if regex.may_be_empty:
        raise call.refusal("a split by a pattern that may be empty")
    return TypedSql(f"SPLIT({_subject(call)}, {spark_text.text(regex.java)})", _TEXTS)


FUNCTIONS = (
    Function(("regexp_matches",), _matches),
    Function(("regexp_full_match", "SIMILAR TO"), lambda call: _matches(call, "\\A(?:", ")\\z")),
    Function(("regexp_replace",), _replace),
    Function(("regexp_extract",), _extract("REGEXP_EXTRACT")),
    Function(("regexp_extract_all",), _extract("REGEXP_EXTRACT_ALL")),
    Function(("regexp_split_to_array", "string_split_regex", "str_split_regex"), _split, 2),
    Function(
        ("a ~ b",),
        alternative="use regexp_matches() or regexp_full_match(): which of them it is depends on DuckDB's version",
    ),
    Function(("GLOB",), alternative="use LIKE or regexp_matches()"),
    Function(("regexp_escape",), alternative="write the pattern as a literal"),
)
