"""A text as statements: they end with a semicolon that is in no quotes and no comment.

DuckDB splits texts too, but 1.5 takes a PIVOT apart into statements without a text, and none of its versions says
whether the last one is finished, which a shell must know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""
    (?P<end>;)
    | --[^\n]*(?:\n|\Z)
    | /\*.*?(?:\*/|(?P<open_comment>\Z))
    | (?<![\w])[eE]'(?:[^'\\]|\\.|'')*(?:'|(?P<open_escaped>\Z))
    | '(?:[^']|'')*(?:'|(?P<open_text>\Z))
    | "(?:[^"]|"")*(?:"|(?P<open_name>\Z))
    | (?<![\w$])\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?(?:\$(?P=tag)\$|(?P<open_dollar>\Z))
    | (?P<other>[^\s])
    """,
    re.VERBOSE | re.DOTALL,
)
_OPEN = ("open_comment", "open_escaped", "open_text", "open_name", "open_dollar")


def statements(text: str) -> list[str]:
    """The statements of a text, without their semicolons; what has nothing but space and comments is none."""
    return [part for part, _ in _parts(text)]


def finished(text: str) -> bool:
    """Whether the text ends behind a statement's semicolon, so that nothing more of it is to come."""
    *_, last = ((None, True), *_parts(text))
    return last[1]


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """Statements, and of each whether its semicolon is there."""
    start, has_content, is_open = 0, False, False
    for token in _TOKEN.finditer(text):
        if token["end"] is not None:
            if has_content:
                yield text[start : token.start()].strip(), True
            start, has_content = token.end(), False
        elif not token[0].startswith(("--", "/*")):
            has_content = True
        is_open = is_open or any(token[kind] is not None for kind in _OPEN)
    if has_content or is_open:
        yield text[start:].strip(), False
