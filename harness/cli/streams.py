"""The standard streams of the process, where they take no more."""

from __future__ import annotations

import contextlib
import os
from typing import TextIO


def forget(stream: TextIO) -> None:
    """Lose what is left in a standard stream that takes no more: Python would try again at exit, and end with 120."""
    with contextlib.suppress(OSError, ValueError):  # it may have no descriptor, as in tests
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
