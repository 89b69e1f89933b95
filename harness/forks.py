"""Locks for a process that may be forked while other threads hold them: those threads are not in the child.

A lock that one of them held would be held there for ever, and the next read in the child would wait for it. So the
child has new ones.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property:  # the standard library's name
        """As that of Python 3.12, which has no lock. The one of 3.11 has one for all objects of a class."""

        def __init__(self, made: Any) -> None:
            self._made, self._name, self.__doc__ = made, "", made.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            found = self._made(instance)
            instance.__dict__[self._name] = found
            return found


__all__ = ["Lock", "cached_property"]


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
