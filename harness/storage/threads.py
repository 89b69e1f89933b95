"""Helpers for threads: fork-safe locks, reading ahead, interruptible queries, and phases for progress.

If a process forks while another thread holds a lock, the child would never get the lock, because that thread does not
exist there. Therefore the child gets new locks.
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
        """The `cached_property` of Python 3.12, which needs no lock. In 3.11 all objects of a class share a lock."""

        def __init__(self, function: object) -> None:
            self._made, self._name, self.__doc__ = function, "", function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: object, owner: type | None = None) -> object:
            if instance is None:
                return self
            value = self._made(instance)
            instance.__dict__[self._name] = value
            return value


class Lock:
    """A lock that is new in a forked child. If `reentrant`, a thread that holds it may enter it again."""

    def __init__(self, *, reentrant: bool = False) -> None:
        self._kind = threading.RLock if reentrant else threading.Lock
        self._lock: Any = self._kind()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *raised: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Replace the lock, so that no thread holds it."""
        self._lock = self._kind()


_locks: WeakSet[Lock] = WeakSet()


def _renew_all() -> None:
    for lock in list(_locks):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)


T = TypeVar("T")
R = TypeVar("R")
_AT_ONCE = 32


@contextmanager
def read_ahead(read: Callable[[T], R], items: Sequence[T], *, at_once: int = _AT_ONCE) -> Iterator[Callable[[T], R]]:
    """Yield a function like `read` that reads the next items in other threads before they are needed.

    Args:
        read: The function for an item. It mostly waits for a store.
        items: The items to read ahead, in the order of the calls. Other items are read when they are requested.
        at_once: The maximum number of items that are read ahead.
    """
    if len(items) < 2:
        yield read
        return
    # the imports take 2 ms, which a table with one manifest does not need to spend
    from concurrent.futures import Future
    from queue import SimpleQueue

    rest = iter(items)
    ahead: deque[tuple[T, Future[R]]] = deque()
    tasks: SimpleQueue[tuple[T, Future[R]] | None] = SimpleQueue()
    # Python waits for the threads of a ThreadPoolExecutor before it ends, also if they stall.
    threads: list[threading.Thread] = []

    def work() -> None:
        while (task := tasks.get()) is not None:
            _resolve(task[1], read, task[0])
            del task  # the result may be large

    def following(item: T) -> R:
        for coming in itertools.islice(rest, at_once - len(ahead)):
            ahead.append((coming, Future()))
            tasks.put(ahead[-1])
            if len(threads) < at_once:
                threads.append(threading.Thread(target=work, name="harness-ahead", daemon=True))
                threads[-1].start()
        return ahead.popleft()[1].result() if ahead and ahead[0][0] is item else read(item)

    try:
        yield following
    finally:
        for _, future in ahead:
            future.cancel()
        for _ in threads:
            tasks.put(None)
        if not _is_interrupted():
            for thread in threads:
                thread.join()


def _resolve(future: Future[R], read: Callable[[T], R], item: T) -> None:
    """Call `read(item)` for a future, unless the future was canceled."""
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(read(item))
        except BaseException as error:
            future.set_exception(error)


def _is_interrupted() -> bool:
    """Return whether Ctrl-C has ended the current block. A request that may stall must then not be waited for."""
    return isinstance(sys.exception(), KeyboardInterrupt)


@contextmanager
def one_ahead(read: Callable[[T], R], item: T, *, waits: bool) -> Iterator[Callable[[], R]]:
    """Yield a function that returns the result of `read(item)` or raises its error.

    If `waits` is true, `read` starts in a thread at once. Otherwise, the function calls it.
    """
    if not waits:
        yield lambda: read(item)
        return
    from concurrent.futures import Future

    future: Future[R] = Future()

    thread = threading.Thread(target=_resolve, args=(future, read, item), name="harness-ahead", daemon=True)
    thread.start()
    try:
        yield future.result
    finally:
        if not _is_interrupted():
            thread.join()


def import_uninterrupted(name: str) -> ModuleType:
    """Import a module completely even if Ctrl-C is pressed, and raise KeyboardInterrupt afterwards.

    Some libraries, for example NumPy, cannot be imported again in a process after an interrupted import.
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


# Python handles a signal only when the main thread returns from C code, which is after the query. Another thread ends
# running queries through the connections and sessions registered here.


class Interruptible(Protocol):
    """A DuckDB connection or a Spark session."""

    def interrupt(self) -> None:
        """Stop the running query, if there is one."""


_Connection = TypeVar("_Connection", bound=Interruptible)

_tracking = Lock()
_connections: WeakSet[Interruptible] = WeakSet()
_interruptions: list[None] = []  # one item per interruption


def track(connection: _Connection) -> _Connection:
    """Register a connection for `interrupt_all` for as long as it lives, and return it."""
    with _tracking:
        _connections.add(connection)
    return connection


def interrupt_all() -> None:
    """Stop all queries that are running now. Queries that start later are not affected."""
    with _tracking:
        _interruptions.append(None)
        connections = list(_connections)
    for connection in connections:
        with suppress(Exception):  # a closed connection runs nothing, and the other queries must still end
            connection.interrupt()


def interruptions() -> int:
    """Return how many times all queries were stopped.

    If the number has changed since a query started, that query was stopped.
    """
    return len(_interruptions)


WATCHED = threading.Event()
"""Set if something displays progress. Queries on connections created afterwards can report their progress."""
clock = time.monotonic


class Phase:
    """A step of the work.

    Attributes:
        name: The step in words.
        total: The total number of units, or None if unknown.
        unit: The unit in the plural.
        done: The number of units so far, or None if nothing was counted yet.
        began: The start, by `clock`.
    """

    def __init__(self, name: str, total: int | None, unit: str) -> None:
        self.name, self.total, self.unit = name, total, unit
        self.done: int | None = None
        self.began = clock()

    def advance(self, number: int) -> None:
        """Add to the number of finished units."""
        self.done = (self.done or 0) + number


_phases: list[Phase] = []


def phase(name: str, total: int | None = None, unit: str = "rows") -> AbstractContextManager[Callable[[int], None]]:
    """Return a context for a step of the work, which yields a function that counts finished units.

    Nothing is recorded unless something displays progress.

    Args:
        name: The step in words, for example `reading manifests`.
        total: The total number of units, or None if unknown.
        unit: The unit in the plural. Totals of `bytes` are displayed in larger units.
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
    """Count nothing."""


_UNRECORDED = nullcontext(_ignored)


def phases() -> tuple[Phase, ...]:
    """Return the running phases, outermost first."""
    return tuple(_phases)


def percent() -> float | None:
    """Return the progress in percent of the DuckDB query that is least advanced, or None if unknown."""
    with _tracking:
        connections = list(_connections)
    percentages: list[float] = []
    for connection in connections:
        with suppress(Exception):  # a Spark session has no such method, and a connection may be closed by now
            percentages.append(connection.query_progress())  # type: ignore[attr-defined]
    return min((share for share in percentages if 0 <= share <= 100), default=None)
