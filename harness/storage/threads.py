"""Threads: locks that survive a fork, work done ahead, queries that another thread can end, and steps of the work.

A lock that another thread holds while the process is forked would be held for ever in the child, where that thread is
not. So the child has new locks.
"""

from __future__ import annotations

import importlib
import itertools
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakSet

__all__ = [
    "WATCHED", "Lock", "Phase", "cached_property", "clock", "import_uninterrupted", "interrupt_all", "interruptions",
    "one_ahead", "percent", "phase", "phases", "read_ahead", "track",
]  # fmt: skip


if TYPE_CHECKING:
    from concurrent.futures import Future

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property:  # the standard library's name
        """The `cached_property` of Python 3.12, which has no lock. In 3.11 all objects of a class share one."""

        def __init__(self, function: object) -> None:
            self._made, self._name, self.__doc__ = function, "", function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: object, owner: type | None = None) -> object:
            if instance is None:
                return self
            found = self._made(instance)
            instance.__dict__[self._name] = found
            return found


class Lock:
    """A lock, to be entered by a thread that does not hold it yet; reentrant: or that does. New in a forked child."""

    def __init__(self, *, reentrant: bool = False) -> None:
        self._kind = threading.RLock if reentrant else threading.Lock
        self._lock: Any = self._kind()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *raised: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Forget who holds it."""
        self._lock = self._kind()


_locks: WeakSet[Lock] = WeakSet()


def _renew_all() -> None:
    for lock in list(_locks):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)


# Requests to a store, one after the other: the next answers are waited for while one is worked on.


T = TypeVar("T")
R = TypeVar("R")
_AT_ONCE = 32


@contextmanager
def read_ahead(read: Callable[[T], R], items: Sequence[T]) -> Iterator[Callable[[T], R]]:
    """Return a function that does what `read` does, but reads the next items in other threads before they are needed.

    Args:
        read: The work for an item, which mostly waits for a store.
        items: The items to read ahead, in the order of the calls. The function reads any other item when it is called.
    """
    if len(items) < 2:
        yield read
        return
    from concurrent.futures import ThreadPoolExecutor  # 2 ms, which a table of one manifest need not pay

    rest = iter(items)
    ahead: deque[tuple[T, Future[R]]] = deque()
    pool = ThreadPoolExecutor(min(_AT_ONCE, len(items)))

    def following(item: T) -> R:
        for coming in itertools.islice(rest, _AT_ONCE - len(ahead)):
            ahead.append((coming, pool.submit(read, coming)))
        return ahead.popleft()[1].result() if ahead and ahead[0][0] is item else read(item)

    try:
        yield following
    finally:
        pool.shutdown(wait=not _is_interrupted(), cancel_futures=True)


def _is_interrupted() -> bool:
    """Return whether Ctrl-C ends the block that is being left: then nobody waits for a request that may stall."""
    return isinstance(sys.exception(), KeyboardInterrupt)


@contextmanager
def one_ahead(read: Callable[[T], R], item: T, *, waits: bool) -> Iterator[Callable[[], R]]:
    """A function that gives what `read` gives of an item, or raises what that does; asked for at once if it `waits`."""
    if not waits:
        yield lambda: read(item)
        return
    from concurrent.futures import Future

    future: Future[R] = Future()

    def run() -> None:
        try:
            future.set_result(read(item))
        except BaseException as error:
            future.set_exception(error)

    thread = threading.Thread(target=run, name="harness-ahead", daemon=True)
    thread.start()
    try:
        yield future.result
    finally:
        if not _is_interrupted():
            thread.join()


def import_uninterrupted(name: str) -> ModuleType:
    """Import a module to its end, even if Ctrl-C comes meanwhile, and raise KeyboardInterrupt after that.

    Libraries such as NumPy cannot be imported again in a process once their import was broken off.
    """
    loaded = sys.modules.get(name)
    is_main = threading.current_thread() is threading.main_thread()
    if loaded is not None or not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return importlib.import_module(name)
    signals: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: signals.append(number))
    try:
        return importlib.import_module(name)
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if signals:
            raise KeyboardInterrupt


# The connections and sessions on which queries of harness may be running, so that Ctrl-C can end them.
#
# Python handles a signal once the main thread comes back from C code, when the query is done. Another thread ends it.


class Interruptible(Protocol):
    """A DuckDB connection, or a Spark session."""

    def interrupt(self) -> None:
        """End what runs, if anything does."""


_Connection = TypeVar("_Connection", bound=Interruptible)

_tracking = Lock()
_connections: WeakSet[Interruptible] = WeakSet()
_interruptions: list[None] = []  # an item each time


def track(connection: _Connection) -> _Connection:
    """The connection, known to `interrupt_all` for as long as it lives."""
    with _tracking:
        _connections.add(connection)
    return connection


def interrupt_all() -> None:
    """End all queries that run now; those that start later run."""
    with _tracking:
        _interruptions.append(None)
        connections = list(_connections)
    for connection in connections:
        with suppress(Exception):  # nothing runs on a closed connection, and the others must end
            connection.interrupt()


def interruptions() -> int:
    """The times that all queries were ended: a query that began at another number was ended by somebody."""
    return len(_interruptions)


# The steps of the work, for whoever shows them to a person who waits.


WATCHED = threading.Event()
"""Set once somebody wants to know how far the work is: queries of connections that are made from then on can tell."""
clock = time.monotonic


class Phase:
    """A step of the work.

    total: the number of `unit` in all; None: unknown. done: the number so far; None: nobody counted yet. began: the
    time of `clock`.
    """

    def __init__(self, name: str, total: int | None, unit: str) -> None:
        self.name, self.total, self.unit = name, total, unit
        self.done: int | None = None
        self.began = clock()

    def advance(self, number: int) -> None:
        """Counts what was done."""
        self.done = (self.done or 0) + number


_phases: list[Phase] = []


def phase(name: str, total: int | None = None, unit: str = "rows") -> AbstractContextManager[Callable[[int], None]]:
    """Surrounds a step of the work; the function counts what was done. Nothing is kept unless somebody watches.

    name: in words, such as `reading manifests`. unit: in the plural; a total of `bytes` is shown in larger ones.
    """
    return _recorded_phase(name, total, unit) if WATCHED.is_set() else _UNRECORDED


@contextmanager
def _recorded_phase(name: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
    recorded = Phase(name, total, unit)
    _phases.append(recorded)
    try:
        yield recorded.advance
    finally:
        _phases.remove(recorded)


def _ignored(number: int) -> None:
    """Counts nothing."""


_UNRECORDED = nullcontext(_ignored)


def phases() -> tuple[Phase, ...]:
    """The running phases, the outermost first."""
    return tuple(_phases)


def percent() -> float | None:
    """The percentage of DuckDB's running queries that is done, of the least advanced; None: unknown."""
    with _tracking:
        connections = list(_connections)
    percentages: list[float] = []
    for connection in connections:
        with suppress(Exception):  # a session of Spark has no such method, and a connection may be closed by now
            percentages.append(connection.query_progress())  # type: ignore[attr-defined]
    return min((share for share in percentages if 0 <= share <= 100), default=None)
