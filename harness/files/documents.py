"""JSON documents, measured before they are parsed: a value of two bytes takes up to ninety of memory."""

from __future__ import annotations

import re

from harness.limits import Limits

_FOUR = re.compile(rb"[\xf0-\xf7]|\\u[dD][89abAB]")  # characters for which Python holds four bytes for each
_TOKENS = (b"{", b"[", b",", b":")


def check_document(data: bytes, *, file: str, limits: Limits) -> None:
    """Refuses a JSON document that takes too much memory to parse, by its text and by its values.

    Raises:
        LimitError: it has more than `limits.document_bytes`, or more values than `limits.document_values`.
    """
    limits.check("document_bytes", _text_bytes(data), "bytes of text", file=file)
    # Marks inside of texts count, too: this need not be exact, and is faster than any parser.
    limits.check("document_values", sum(map(data.count, _TOKENS)), "values", file=file)


def _text_bytes(data: bytes) -> int:
    """The memory that the text takes as Python holds it: for all of its characters as for the widest."""
    if data.isascii() and b"\\u" not in data:
        return len(data)
    return len(data) * (4 if _FOUR.search(data) else 2)
