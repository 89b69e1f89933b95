"""DuckDB's words about files, in a caller's words: physical paths for its names, and its errors as one line.

DuckDB keeps of an exception that Python raises under it a text alone: with a traceback and all that led to it, in a
form that changes with Python and with DuckDB (3.11 and 3.13, 1.5 and 2.0 differ). So what is to be read in it stands
between two marks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
_NAME = re.compile(r"harness-[0-9a-f]{32}://\d+/")
_BEGIN, _END = "harness says: ", " (as harness says)"


def marked(call: Callable[P, R]) -> Callable[P, R]:
    """A function that DuckDB calls, whose failures `said` finds again; nothing of what led to one is told with it."""

    @wraps(call)
    def run(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return call(*arguments, **named)
        except Exception as error:
            raise OSError(f"{_BEGIN}{type(error).__name__}: {error}{_END}") from None

    return run


def physical(name: str) -> str:
    """The physical path of a file, by the name under which DuckDB has it."""
    return _NAME.sub("", name)


def is_of_storage(reason: str) -> bool:
    """Whether what DuckDB says is a StorageError of `PlannedFiles`, of which it keeps the text alone."""
    return reason.startswith("StorageError: ")


def said(error: BaseException) -> str:
    """The text of an error of DuckDB, as one line, with physical paths; of one that began in Python, what that said."""
    text = str(error)
    told = text.partition(_BEGIN)[2].partition(_END)[0]
    return " ".join(physical(told or text).split())
