"""Descriptions, which are nested mappings and lists, printed as one JSON document or as indented text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from harness.cli import results
from harness.cli.options import Document
from harness.errors import json_text
from harness.metadata.model.text_tables import label, record_lines, value_text

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
        title = f"{indent}{label(key)}:"
        match value:
            case dict() if value:
                yield title
                yield from _mapping(value, indent + "  ", width)
            case [dict(), *_]:
                yield title
                yield from record_lines(value, indent + "  ", width)
            case [*sentences] if any(isinstance(item, str) and " " in item for item in sentences):
                yield title
                yield from (f"{indent}  {value_text('', item)}" for item in sentences)
            case _:
                yield f"{title} {value_text(key, value)}"


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
