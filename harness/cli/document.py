"""Descriptions, which are nested mappings and lists, printed as one JSON document or as indented text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from harness.cli import results
from harness.cli.options import Document
from harness.errors import json_text, size_text, visible
from harness.metadata.model.text_tables import Column, table_lines

EXACT = 2**53
"""The largest integer up to which JSON readers round none."""
FORMAT = 1
"""The number of these documents. It changes when a key changes its meaning or goes."""


def print_document(
    kind: str,
    content: Mapping[str, Any],
    format_: Document,
    output: Path | None = None,
    *,
    text: Callable[[], Iterable[str]] | None = None,
) -> None:
    """Prints a description. text: gives it for people; None: `text_document` does."""
    if format_ is Document.JSON:
        texts: Iterable[str] = [json_document(kind, content)]
    else:
        texts = text_document(content, results.width_for(output)) if text is None else text()
    with results.destination(output) as stream:
        write = results.write_texts if format_ is Document.JSON else results.write_lines
        write(texts, stream)


def json_document(kind: str, content: Mapping[str, Any]) -> str:
    """`content` behind `format` and `kind`; values as `harness.cli.values` says.

    `format` is the number of the document. A table's format in `content` becomes `table_format`.
    """
    values = {"table_format" if key == "format" else key: value for key, value in plain(content).items()}
    document = {"format": FORMAT, "kind": kind, **values}
    return json_text(document, indent=2) + "\n"


def text_document(content: Mapping[str, Any], width: int | None = None) -> Iterator[str]:
    """Lines for a person: `key: value`, nested mappings indented, lists of mappings as tables of that width.

    Points in time, which are milliseconds since 1970 in `content`, are shown as ISO 8601.
    """
    yield from (line.rstrip() + "\n" for line in _mapping(plain(content), "", width))


def _mapping(content: Mapping[str, Any], indent: str, width: int | None) -> Iterator[str]:
    for key, value in content.items():
        label = f"{indent}{_label(key)}:"
        match value:
            case dict() if value:
                yield label
                yield from _mapping(value, indent + "  ", width)
            case [dict(), *_]:
                yield label
                yield from listed(value, indent + "  ", width)
            case [*sentences] if any(isinstance(item, str) and " " in item for item in sentences):
                yield label
                yield from (f"{indent}  {_one_line(item)}" for item in sentences)
            case _:
                yield f"{label} {_cell(key, value)}"


def listed(rows: Sequence[Mapping[str, Any]], indent: str = "", width: int | None = None) -> Iterator[str]:
    """Rows as a table without the columns that are empty everywhere. A row's own tables stand under the row."""
    values = {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}
    shown = {
        name: column
        for name, column in values.items()
        if any(value not in (None, [], {}) for value in column) and not any(map(_is_table, column))
    }
    columns = [
        Column(_label(name), is_whole=is_number, to_right=is_number and not name.endswith(_TIMES))
        for name, column in shown.items()
        for is_number in [all(isinstance(value, int | None) and not isinstance(value, bool) for value in column)]
    ]
    cells = [[_cell(name, row.get(name)) for name in shown] for row in rows]
    lines = table_lines(columns, [cells], width=None if width is None else width - len(indent))
    yield indent + next(lines)
    for row, line in zip(rows, lines):  # noqa: B905  # notes follow
        yield indent + line
        for value in row.values():
            if _is_table(value):
                yield from listed(value, indent + "    ", width)
    yield from (indent + note for note in lines)


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(isinstance(item, dict) for item in value)


_TIMES = ("timestamp_ms", "updated_ms")


def _label(key: str) -> str:
    return visible(key.removesuffix("_ms") if key.endswith(_TIMES) else key)


def _cell(key: str, value: Any) -> str:
    if key.endswith(_TIMES) and isinstance(value, int):
        return f"{np.datetime64(value, 'ms')}Z"
    if "bytes" in key.split("_") and isinstance(value, int):
        return size_text(value)
    return _one_line(value)


def _one_line(value: Any) -> str:
    match value:
        case None | []:
            return "-"
        case dict() if not value:  # the pattern {} is any mapping
            return "-"
        case list() if not any(isinstance(item, list | dict) for item in value):
            return ", ".join(_one_line(item) for item in value)
        case dict():
            return ", ".join(f"{visible(key)}={_one_line(item)}" for key, item in value.items())
        case _:
            return visible(text_of(value) or "")


def plain(value: Any) -> Any:
    """A Python value as a JSON value, by the same rules; mappings and sequences at every level."""
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if -EXACT <= value <= EXACT else str(value)
        case float():
            infinite = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
            return value if math.isfinite(value) else infinite
        case Decimal():
            return format(value, "f")
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex().upper()
        case datetime() | date() | time():
            return value.isoformat().replace("+00:00", "Z")
        case timedelta():
            seconds = format(Decimal(value // timedelta(microseconds=1)) / 10**6, "f")
            return f"PT{seconds.rstrip('0').rstrip('.') if '.' in seconds else seconds}S"
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(item) for item in value]
        case _:
            return str(value)


def text_of(value: Any) -> str | None:
    """A JSON value as one text, None for null: strings bare, the rest as compact JSON."""
    if value is None or isinstance(value, str):
        return value
    return json_text(value, separators=(",", ":"))
