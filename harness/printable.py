"""Text of a table such that whoever shows it obeys none of it.

Names, paths and values are written by whoever wrote the table. A terminal, or the page of a CI job, acts on some
characters: it moves the cursor, changes a title, turns the direction of what follows (C0, C1 and DEL, the format
characters, line and paragraph separators). Whatever harness prints passes one of these two functions; formats that
carry data as it is (CSV, Parquet, Arrow) do so everywhere but on a terminal.
"""

from __future__ import annotations

import html
import json
import re
from typing import Any

_NOT_ASCII_PRINTABLE = re.compile(r"[^\n -~]")


def visible(text: str) -> str:
    r"""`text` on one line of printable characters, the others as `\n`, `\x1b`, `\u202e`; so it is valid UTF-8 too."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def visible_lines(text: str) -> str:
    """`text` with its line feeds as they are, and each line as `visible` has it."""
    return "\n".join(map(visible, text.split("\n")))


def html_text(value: object) -> str:
    """Any value as the text of an HTML element or attribute, on one line."""
    return html.escape(visible(str(value)))


def html_lines(text: str) -> str:
    """`text` as the text of an HTML element, with its line feeds."""
    return html.escape(visible_lines(text))


def json_text(value: Any, *, indent: int | None = None, separators: tuple[str, str] | None = None) -> str:
    r"""`value` as JSON, unprintable characters as `\uXXXX`: the same document to whoever parses it.

    Raises:
        ValueError: a number that JSON has not, such as NaN.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators)
    return _escaped(text)


def json_lines(text: str) -> str:
    r"""JSON text, its unprintable characters but line feeds as `\uXXXX`; line feeds stand between values only."""
    return "\n".join(map(_escaped, text.split("\n")))


def _escaped(text: str) -> str:
    return text if text.isprintable() else _NOT_ASCII_PRINTABLE.sub(_json_escape, text)


def _json_escape(found: re.Match[str]) -> str:
    character = found[0]
    # A character beyond the first 2^16 becomes its two surrogates; a lone surrogate stays that.
    return character if character.isprintable() else json.dumps(character)[1:-1]
