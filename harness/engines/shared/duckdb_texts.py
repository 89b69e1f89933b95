"""What DuckDB says of files, in a caller's words: physical paths for its names, and its errors as one line."""

from __future__ import annotations

import re

_NAME = re.compile(r"harness-[0-9a-f]{32}://\d+/")
_AT = re.compile(r"\n+At:\n.*", re.DOTALL)
_FRAME = re.compile(r"^(?:Traceback \(most recent call last\):|\s+File \"[^\"]*\", line \d+.*)$\n?", re.MULTILINE)


def physical(name: str) -> str:
    """The physical path of a file, by the name under which DuckDB has it."""
    return _NAME.sub("", name)


def is_of_storage(reason: str) -> bool:
    """Whether what DuckDB says is a StorageError of `PlannedFiles`, of which it keeps the text alone."""
    return "StorageError" in reason


def said(error: BaseException) -> str:
    """What an error of DuckDB says, as one line, with physical paths, and without the places in Python's code."""
    return " ".join(physical(_FRAME.sub("", _AT.sub("", str(error)))).split())
