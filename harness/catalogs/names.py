"""Names of tables and namespaces: the parts of `sales.orders`, and how they are written."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TypeAlias

from harness.errors import RequestError

Name: TypeAlias = tuple[str, ...]
"""The parts of a table's or namespace's name, outermost first; without the catalog's own. Empty: the root."""

_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')
_BARE = re.compile(r"[^\W\d][\w$-]*")
_NEAR = 3


def parse_name(text: str | Name) -> Name:
    """The parts of a dotted name: `sales.orders`, and `sales."a.b"` where a part has a dot itself; parts stay as given.

    Raises:
        RequestError: a part is empty, or a quote is not closed.
    """
    if not isinstance(text, str):
        return tuple(text)
    parts: list[str] = []
    position = 0
    while position < len(text) or not parts:
        found = _PART.match(text, position)
        if found is None or text[found.end() : found.end() + 1] not in ("", "."):
            raise RequestError(f"Invalid name {text!r}: expected parts with dots between, such as sales.orders")
        parts.append(found[2] or found[1].replace('""', '"'))
        position = found.end() + 1
    if text.endswith("."):
        raise RequestError(f"Invalid name {text!r}: it ends with a dot")
    return tuple(parts)


def may_be_name(location: str) -> bool:
    """Whether what is to be opened may be a table's name: it has parts with dots, and is no path that exists."""
    is_path = {"/", "\\", ":"} & set(location) or not all(location.split("."))
    return "." in location and not is_path and not os.path.exists(location)


def written(name: Name) -> str:
    """A name as text that `parse_name` reads."""
    return ".".join(part if _BARE.fullmatch(part) else '"{}"'.format(part.replace('"', '""')) for part in name)


def nearest(name: Name, known: Iterable[Name]) -> tuple[Name, ...]:
    """Up to three of the known names that are most like a name, the nearest first."""
    import difflib  # most names are there

    by_text = {written(each).lower(): each for each in known}
    found = difflib.get_close_matches(written(name).lower(), by_text, _NEAR, 0.5)
    return tuple(by_text[text] for text in found)
