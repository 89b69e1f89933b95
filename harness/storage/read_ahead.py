"""What a store is asked one after the other: the next answers are waited for while one is worked on."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")
_AT_ONCE = 32


@contextmanager
def read_ahead(read: Callable[[T], bytes], items: Sequence[T]) -> Iterator[Callable[[T], bytes]]:
    """A function that gives what `read` gives of an item, or raises what that does.

    items: those that are read ahead, in the order in which they will be asked for; others may be asked for too.
    """
    if len(items) < 2:
        yield read
        return
    rest = iter(items)
    ahead: deque[tuple[T, Future[bytes]]] = deque()
    pool = ThreadPoolExecutor(min(_AT_ONCE, len(items)))

    def following(item: T) -> bytes:
        for coming in itertools.islice(rest, _AT_ONCE - len(ahead)):
            ahead.append((coming, pool.submit(read, coming)))
        return ahead.popleft()[1].result() if ahead and ahead[0][0] is item else read(item)

    try:
        yield following
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def one_ahead(read: Callable[[T], R], item: T, *, waits: bool) -> Iterator[Callable[[], R]]:
    """A function that gives what `read` gives of an item, or raises what that does; asked for at once if it `waits`.

    What is not called for may fail unseen.
    """
    if not waits:
        yield lambda: read(item)
        return
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(read, item).result
