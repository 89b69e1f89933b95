"""Ctrl-C ends the command within a moment, wherever it is: in Python, in a query of DuckDB or Spark, in an import.

Python's own handler raises KeyboardInterrupt, but not before the main thread comes back from C code. So a thread waits
for the signal beside it, and ends the queries; what they then raise counts as the interruption that it is. Where Python
drops what the handler raises, as in callbacks of weak references, the thread lets it be raised again. Where the main
thread began to wait just after the signal, as for a key, the thread wakes it.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

_AGAIN_S = 0.05
"""A query that was about to start does not hear the first call."""
_SECOND_S = 1.0
"""Some programs hand on a signal that the terminal has sent already: that close together, two are one."""
_LAST_S = 1.0
"""Seconds that the end of the command waits for Spark."""
_CALL_S = 0.5
"""Seconds that the main thread waits until queries are told to end. Only Spark takes time."""
_END = 0


class Interruption:
    """An asked-for end: true from the moment of the signal on. asked: is set then. raised: KeyboardInterrupt was."""

    def __init__(self) -> None:
        self.asked, self._called, self._dropped = threading.Event(), threading.Event(), threading.Event()
        self.raised, self._main = False, threading.get_ident()
        self._signals, self._wakeup = socket.socketpair()
        self._signals.setblocking(False)
        self._wakeup.setblocking(False)

    def __bool__(self) -> bool:
        return self.asked.is_set() or signal.SIGINT in self._waiting()

    def was_dropped(self) -> bool:
        """Tells, once, whether the raised KeyboardInterrupt was dropped."""
        dropped = self._dropped.is_set()
        self._dropped.clear()
        return dropped

    def wait_for_call(self) -> None:
        """Waits until queries were told to end. A connection that goes waits for its query, and hears nothing more."""
        self._called.wait(_CALL_S)

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Runs a thread that ends queries on a signal, and the process on a later second one."""
        listener = threading.Thread(target=self._listen, name="harness-interruption", daemon=True)
        before = signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        unraisable = sys.unraisablehook

        def note(dropped: sys.UnraisableHookArgs) -> None:
            if self.asked.is_set() and issubclass(dropped.exc_type, KeyboardInterrupt):
                self._dropped.set()
            else:
                unraisable(dropped)

        sys.unraisablehook = note
        listener.start()
        try:
            yield
        finally:
            sys.unraisablehook = unraisable
            signal.set_wakeup_fd(before)
            self._wakeup.send(bytes([_END]))
            listener.join(_LAST_S)

    def close(self) -> None:
        """Hear no more; what was asked stays asked."""
        if self:
            self.asked.set()
        self._wakeup.close()
        self._signals.close()

    def _waiting(self) -> bytes:
        """The numbers of signals that the thread has not seen yet."""
        try:
            return self._signals.recv(64, socket.MSG_PEEK)
        except OSError:  # there are none, or it is closed
            return b""

    def _listen(self) -> None:
        first: float | None = None
        own = 0  # signals of this thread, which come back to it as those of the user do
        while self._signals.fileno() >= 0:
            try:
                select.select([self._signals], [], [], _AGAIN_S if self.asked.is_set() else None)
            except (OSError, ValueError):  # closed meanwhile; a traceback from here may abort the process as it ends
                return
            numbers = self._waiting()
            if _END in numbers:
                return
            heard = numbers.count(signal.SIGINT)
            own, heard = max(own - heard, 0), max(heard - own, 0)
            if heard:
                if first is None:
                    first = time.monotonic()
                elif time.monotonic() - first > _SECOND_S:
                    from harness.cli.terminal import restore

                    restore()
                    os._exit(130)
                self.asked.set()
            elif not numbers and not self.raised and sys.platform != "win32":  # main thread is in C code
                own += 1
                signal.pthread_kill(self._main, signal.SIGINT)
            with contextlib.suppress(OSError):  # only now: it counts as asked at every moment
                self._signals.recv(len(numbers))
            if self.asked.is_set():
                _end_queries()
                self._called.set()
            if self._dropped.is_set():
                own += 1
                _thread.interrupt_main()


def let_end() -> None:
    """Lets a finished command clean up undisturbed by Ctrl-C; a second Ctrl-C ends the process."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, lambda number, _: signal.signal(number, signal.SIG_DFL))


def end_deaf() -> None:
    """Ignores Ctrl-C as the last act of the process, when Python has taken its handlers away."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def listening() -> Iterator[Interruption]:
    """Listens for Ctrl-C while the block runs, in the main thread and if no caller handles it."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        with contextlib.closing(Interruption()) as found:
            yield found
        return

    def raise_once(number: int, frame: FrameType | None) -> None:
        # A second time it would break off what the first one cleans up.
        if not found.raised or found.was_dropped():
            found.raised = True
            found.asked.set()
            found.wait_for_call()
            raise KeyboardInterrupt

    # The handler needs what it asks; before that, Python's own one raises.
    with contextlib.closing(Interruption()) as found:
        signal.signal(signal.SIGINT, raise_once)
        try:
            with found.heard():
                _current.append(found)
                yield found
        finally:
            if found in _current:
                _current.remove(found)
            if signal.getsignal(signal.SIGINT) is raise_once:
                signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def set_aside() -> Iterator[None]:
    """Lets Ctrl-C end a block of `anew` inside this block; between such blocks it is a KeyboardInterrupt."""
    if not _current:  # nobody listens, or a caller does
        yield
        return
    handler, wakeup = signal.getsignal(signal.SIGINT), signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        signal.set_wakeup_fd(wakeup)


@contextlib.contextmanager
def anew() -> Iterator[None]:
    """Listens afresh while the block runs, within `set_aside`. An interruption of the block is a KeyboardInterrupt."""
    with listening() as found:
        yield
        if found:
            raise KeyboardInterrupt


def check() -> None:
    """Raises KeyboardInterrupt if an end was asked for. Clean-up may have put an error in its place."""
    if _current and _current[-1]:
        raise KeyboardInterrupt


_current: list[Interruption] = []


def _end_queries() -> None:
    from harness.storage.threads import interrupt_all

    with contextlib.suppress(Exception):  # whatever Spark's gateway raises while it goes
        interrupt_all()
