"""A text as statements, each with a semicolon at its end that is in no quotes and no comment.

DuckDB splits texts too, but 1.5 takes a PIVOT apart into statements without a text, and no version tells whether the
last statement is finished, which a shell must know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from harness.engines.duckdb.instance import cursor
from harness.metadata.catalogs.catalog import Name
from harness.metadata.filters.sqltext import quoted

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
    """The statements of a text, without their semicolons; space and comments are no statement."""
    return [part for part, _ in _parts(text)]


def finished(text: str) -> bool:
    """Tells whether the text ends behind a statement's semicolon."""
    *_, last = ((None, True), *_parts(text))
    return last[1]


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """Statements, each with a sign that its semicolon is there."""
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


# Names as they are typed into SQL: `sales."a-b"`, `"select".orders`.


_PLAIN = re.compile(r"[^\W\d]\w*")


def in_sql(name: Name) -> str:
    """A name of tables, namespaces or columns; a part stands in quotes where SQL wants them."""
    return ".".join(part if _PLAIN.fullmatch(part) and part.lower() not in _words() else quoted(part) for part in name)


@cache
def _words() -> frozenset[str]:
    """The words that DuckDB takes for names only in quotes."""
    with cursor() as own:
        rows = own.execute("SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'")
        return frozenset(word for (word,) in rows.fetchall())
