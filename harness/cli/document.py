"""Descriptions (nested mappings and lists), printed as a JSON document or as indented text."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any

from harness.cli import formats, results
from harness.cli.parameters import Option
from harness.errors import json_text
from harness.metadata.model.text_tables import label, record_lines, value_text

EXACT = 2**53
"""The largest integer that all JSON readers represent exactly."""
FORMAT = 1
"""The version of these documents. It changes if a key is removed or changes its meaning."""


class DocumentFormat(enum.Enum):
    """Formats of a printed description."""

    TEXT = "text"
    JSON = "json"


class PictureFormat(enum.Enum):
    """Formats of a printed description that has a drawing."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"


class _Printable(formats.OutputOptions):
    def show(self, kind: str, content: Mapping[str, object], text: Callable[[], Iterable[str]] | None = None) -> None:
        """Print a description.

        Args:
            kind: The kind of description, for JSON.
            content: The description.
            text: Returns the text for people. None means `text_document`.
        """
        if is_json := self.form.value == "json":
            # The key `format` is the version of the document, so a table's format is stored as `table_format`.
            values = {"table_format" if key == "format" else key: value for key, value in plain(content).items()}
            texts: Iterable[str] = [json_text({"format": FORMAT, "kind": kind, **values}, indent=2) + "\n"]
        else:
            texts = text_document(content, results.width_for(self.output)) if text is None else text()
        with results.destination(self.output) as stream:
            write = results.write_texts if is_json else results.write_lines
            write(texts, stream)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DocumentOutput(_Printable):
    """Options for a printed description."""

    formats = DocumentFormat
    format_: Annotated[
        DocumentFormat | None, Option("--format", help="Output format: text (default) or a JSON document.")
    ] = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class PictureOutput(_Printable):
    """Options for a printed description that has a drawing."""

    formats = PictureFormat
    format_: Annotated[
        PictureFormat | None,
        Option("--format", help="Output format: text (default), a JSON document, or an HTML page."),
    ] = None


def text_document(content: Mapping[str, object], width: int | None = None) -> Iterator[str]:
    """Yield lines for a person: `key: value`, nested mappings indented, and lists of mappings as tables."""
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


def plain(value: object) -> Any:
    """Convert a Python value to a JSON value, including nested mappings and sequences."""
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
