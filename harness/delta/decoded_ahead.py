"""Decoding the next part of a checkpoint while the one before it is worked on: Arrow lets other threads run then."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")

_END: Final = object()


def decoded_ahead(parts: Generator[T, None, None], *, several: bool) -> Generator[T, None, None]:
    """What `parts` gives, in its order, and then its error: one part is held besides the one that was handed out.

    Closing it closes `parts`, once the part that is being made is there: nothing runs on what is closed.

    several: whether there may be more than one part; a thread for a single one costs more than it saves.
    """
    if not several:
        yield from parts
        return
    try:
        with ThreadPoolExecutor(1, thread_name_prefix="harness-decoding") as pool:
            coming = pool.submit(next, parts, _END)
            while (part := coming.result()) is not _END:
                coming = pool.submit(next, parts, _END)
                yield part  # type: ignore[misc]
                del part
    finally:
        parts.close()
