"""JSON documents, measured before they are parsed: a value of two bytes takes up to ninety of memory."""

from __future__ import annotations

import re

from harness.storage.limits import Limits

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


# What a file is by its first bytes, in words for a message.


HEAD = 4096
"""How many bytes tell."""
_MAGIC = (
    (b"PAR1", "a Parquet file"),
    (b"PARE", "an encrypted Parquet file"),
    (b"Obj\x01", "an Avro file"),
    (b"ORC", "an ORC file"),
    (b"PFA1", "a Puffin file"),
    (b"ARROW1", "an Arrow file"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"\x1f\x8b", "a gzip file"),
    (b"\x28\xb5\x2f\xfd", "a zstandard file"),
)
_SEPARATED = (".csv", ".tsv")


def kind_of(head: bytes, name: str) -> str:
    """Such as `a Parquet file`, given the first `HEAD` bytes of a file and its name."""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if head[8:12] == b"DUCK":
        return "a DuckDB database"
    if not head:
        return "an empty file"
    if not _is_text(head):
        return "a binary file"
    if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"["):
        return "a JSON file"
    return "a CSV file" if name.lower().endswith(_SEPARATED) else "a text file"


def _is_text(head: bytes) -> bool:
    if b"\0" in head:
        return False
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        return len(head) == HEAD and error.start > HEAD - 4  # a character cut in two
    return True
