"""Redirected tables: their data is, or is about to be, at another place (frontier F5.3).

Delta on Spark keeps the redirection in table properties and sets them without the features of the same names, so it is
the properties that count. Harness never follows a redirection: which of two tables is meant is the user's to say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from harness.delta.paths import TableRoot
from harness.errors import InvalidTableError, UnsupportedError

_READER_WRITER = ("delta.redirectReaderWriter-preview", "delta.redirectReaderWriter")
_WRITER_ONLY = ("delta.redirectWriterOnly-preview", "delta.redirectWriterOnly")
_READY = "REDIRECT-READY"
_IN_PROGRESS = ("ENABLE-REDIRECT-IN-PROGRESS", "DROP-REDIRECT-IN-PROGRESS")
_NONE = "NO-REDIRECT"


def check_redirect(configuration: Mapping[str, str], *, table: str | None = None) -> None:
    """Returns if the rows of the table are its own, whatever features its protocol has.

    The log of a redirected table is copied with its property, so the table at the place that the property names is the
    one to read. table: where this one is; None: not known, so another place is meant.

    Raises:
        UnsupportedError: reads of the table belong to another place; says which.
        InvalidTableError: the property cannot be understood, so whose the rows are is not known.
    """
    for name in _READER_WRITER:
        text = configuration.get(name)
        if text is None:
            continue
        document = _document(text)
        state = document.get("state")
        if state == _READY and not _is_at(table, document):
            raise UnsupportedError(
                f"Cannot read a redirected table: its data is at {_place(document)}; read the table there",
                cause="UnsupportedFeature",
                field=name,
                rule="frontier F5.3",
            )
        if state not in (_READY, *_IN_PROGRESS, _NONE):
            raise InvalidTableError(
                f"Invalid table property {name}: got {text!r}, expected a JSON object with the state {_READY}, "
                f"{' or '.join(_IN_PROGRESS)}",
                cause="InvalidProperty",
                field=name,
                rule="frontier F5.3",
            )


def redirect_warnings(configuration: Mapping[str, str], *, table: str) -> tuple[str, ...]:
    """What a reader of a table that is moving should know, one sentence each; `check_redirect` lets it be read.

    A redirection of writers alone leaves the table to readers that do not follow it, which may then see an old version.
    """
    found = []
    for name in (*_READER_WRITER, *_WRITER_ONLY):
        document = _document(configuration.get(name, ""))
        state = document.get("state")
        if state in _IN_PROGRESS:
            found.append(
                f"The table is being redirected to {_place(document)} or back ({state}); its own rows are read"
            )
        elif state == _READY and not _is_at(table, document):
            found.append(f"Writers of the table write to {_place(document)}: this may be an older version of it")
    return tuple(found)


def _document(text: str) -> Mapping[str, Any]:
    """The object in a text; empty where there is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _is_at(table: str | None, document: Mapping[str, Any]) -> bool:
    """Whether the redirection leads to the table at this location."""
    place = _destination(document)
    return table is not None and place is not None and TableRoot.of(table).path == TableRoot.of(place).path


def _place(document: Mapping[str, Any]) -> str:
    place = _destination(document)
    return "a place that its property does not name" if place is None else place


def _destination(document: Mapping[str, Any]) -> str | None:
    """Where the data is, as far as the property says; `spec` is a text with JSON, or an object."""
    spec = document.get("spec")
    inner = _document(spec) if isinstance(spec, str) else spec if isinstance(spec, dict) else {}
    place = inner.get("destPath")
    return place if isinstance(place, str) and place else None
