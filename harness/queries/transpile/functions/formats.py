"""Formats of dates: DuckDB's (strftime) in the words of Java."""

from __future__ import annotations

import re

_JAVA = {
    "%Y": "yyyy",
    "%y": "yy",
    "%m": "MM",
    "%d": "dd",
    "%H": "HH",
    "%I": "hh",
    "%M": "mm",
    "%S": "ss",
    "%f": "SSSSSS",
    "%j": "DDD",
    "%b": "MMM",
    "%B": "MMMM",
    "%a": "EEE",
    "%A": "EEEE",
    "%p": "a",
    "%-m": "M",
    "%-d": "d",
    "%-H": "H",
    "%-I": "h",
    "%-M": "m",
    "%-S": "s",
    "%-j": "D",
}
_DIGITS = {"%Y": 4, "%m": 2, "%d": 2, "%H": 2, "%M": 2, "%S": 2}
_TOKEN = re.compile(r"%-?.|[^%]+|%", re.DOTALL)


def java_format(pattern: str) -> str | None:
    """The format by which Java writes the same text; None where that is not known."""
    parts, between = [""], ""
    for token in _TOKEN.findall(pattern):
        if token == "%%" or not token.startswith("%"):
            between += "%" if token == "%%" else token
        elif token not in _JAVA or (not between and parts[-1].endswith(_JAVA[token][0])):
            return None  # beside each other, the same letters would be one specifier
        else:
            parts += [_quoted(between), _JAVA[token]]
            between = ""
    return "".join([*parts, _quoted(between)])


def parsing_format(pattern: str) -> tuple[str, str] | None:
    """The format by which Java reads a text with all its digits, and the expression that such texts match.

    None where DuckDB's reading is not known to be the same: where a part of the date is missing or twice there.
    """
    tokens = _TOKEN.findall(pattern)
    named = [token for token in tokens if token.startswith("%")]
    if len(set(named)) < len(named) or not {"%Y", "%m", "%d"} <= set(named) <= set(_DIGITS):
        return None
    java = java_format(pattern)
    regex = "".join(
        f"[0-9]{{{_DIGITS[token]}}}" if token in _DIGITS else re.sub(r"([^\w\s]|_)", r"\\\1", token) for token in tokens
    )
    return None if java is None else (java, rf"\A{regex}\z")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'" if text else ""
