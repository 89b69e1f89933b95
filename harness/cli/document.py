"""Descriptions (nested mappings and lists) as one JSON document, or as indented text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.cells import cell_len

from harness.cli.values import plain, text_of
from harness.cli.writers import DOCUMENT_VERSION


def json_document(kind: str, content: Mapping[str, Any]) -> str:
    """`content` with `version` and `kind` in front; values as described in `harness.cli.values`."""
    document = {"version": DOCUMENT_VERSION, "kind": kind, **plain(content)}
    return json.dumps(document, ensure_ascii=False, allow_nan=False, indent=2) + "\n"


def text_document(content: Mapping[str, Any]) -> Iterator[str]:
    """Lines for a person: `key: value`, nested mappings indented, lists of mappings as aligned tables."""
    yield from (line.rstrip() + "\n" for line in _mapping(plain(content), ""))


def _mapping(content: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in content.items():
        label = f"{indent}{str(key).replace('_', ' ') if not indent else key}:"
        if isinstance(value, dict) and value:
            yield label
            yield from _mapping(value, indent + "  ")
        elif _is_table(value):
            yield label
            yield from _table(value, indent + "  ")
        elif isinstance(value, list) and any(isinstance(item, str) and " " in item for item in value):
            yield label
            yield from (f"{indent}  {_one_line(item)}" for item in value)
        else:
            yield f"{label} {_one_line(value)}"


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(isinstance(item, dict) for item in value)


def _table(rows: Sequence[Mapping[str, Any]], indent: str) -> Iterator[str]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, *([_one_line(row.get(name)) for name in names] for row in rows)]
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell + " " * (width - cell_len(cell)) for cell, width in zip(line, widths, strict=True))
        yield indent + "  ".join(cells)


def _one_line(value: Any) -> str:
    match value:
        case None | [] | {}:
            return "-"
        case list() if not any(isinstance(item, list | dict) for item in value):
            text = ", ".join(_one_line(item) for item in value)
        case dict():
            text = ", ".join(f"{key}={_one_line(item)}" for key, item in value.items())
        case _:
            text = text_of(value) or ""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
