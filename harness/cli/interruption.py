"""Ctrl-C ends the command within a moment, in Python and in a query of DuckDB or Spark.

The handler of the signal raises KeyboardInterrupt once, so that nothing breaks off the clean-up. Python calls it only
when the main thread is back from C code. So a thread waits for the signal too, and tells queries to end.
"""

from __future__ import annotations

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

from harness.storage.threads import interrupt_all

_AGAIN_S = 0.05
"""A query that was about to start does not hear the first call."""
_WAKE_S, _SECOND_S = 0.6, 1.0
"""Seconds in which the main thread is woken, and after which a signal is a second Ctrl-C, no echo of the first."""
_CALL_S, _LAST_S = 0.5, 1.0
"""Seconds that the main thread waits for the first call, and the end of the command for the last one, to Spark."""
_current: list[Interruption] = []


class Interruption:
    """A Ctrl-C: true once it was heard. raised: whether the main thread has its KeyboardInterrupt."""

    def __init__(self) -> None:
        self.heard, self.called, self.raised = threading.Event(), threading.Event(), False

    def __bool__(self) -> bool:
        return self.heard.is_set()

    def raise_once(self, _number: int, _frame: FrameType | None) -> None:
        """Raise KeyboardInterrupt the first time, when queries were told to end: closing a connection waits."""
        if not self.raised:
            self.raised = True
            self.heard.set()
            self.called.wait(_CALL_S)
            raise KeyboardInterrupt

    def listen(self, signals: socket.socket, main_thread: int) -> None:
        """End queries from the signal on, until the socket is closed at its other end. A second ends the process."""
        first: float | None = None
        while True:
            try:
                numbers = signals.recv(64) if select.select([signals], [], [], _AGAIN_S if self else None)[0] else None
            except (OSError, ValueError):  # closed; a traceback of this thread may abort the process as it ends
                return
            if numbers == b"":
                return
            now = time.monotonic()
            if numbers and first is not None and now - first > _SECOND_S:
                from harness.cli.terminal import restore

                restore()
                os._exit(130)
            first = now if first is None and numbers else first
            if first is not None:
                self.heard.set()
                interrupt_all()
                self.called.set()
                # The main thread began to wait just after the signal, or Python dropped what the handler raised.
                if not self.raised and now - first < _WAKE_S and sys.platform != "win32":
                    signal.pthread_kill(main_thread, signal.SIGINT)


@contextlib.contextmanager
def listening(replaced: object = signal.default_int_handler) -> Iterator[Interruption]:
    """Listen for Ctrl-C while the block runs, in the main thread and unless a caller handles it.

    Args:
        replaced: a handler of the command's start, whose place this takes.
    """
    found = Interruption()
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) not in (signal.default_int_handler, replaced):
        yield found
        return
    hook = sys.unraisablehook

    def note(dropped: sys.UnraisableHookArgs) -> None:  # of a callback or `__del__`, where Python raises nothing
        if found and issubclass(dropped.exc_type, KeyboardInterrupt):
            found.raised = False
        else:
            hook(dropped)

    signals, wakeup = socket.socketpair()
    wakeup.setblocking(False)
    before = signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
    listener = threading.Thread(
        target=found.listen, args=(signals, threading.get_ident()), name="harness-interruption", daemon=True
    )
    listener.start()
    sys.unraisablehook = note
    _current.append(found)
    handler = signal.signal(signal.SIGINT, found.raise_once)
    try:
        yield found
    finally:
        found.raised = True  # nothing breaks off what follows
        _current.remove(found)
        sys.unraisablehook = hook
        signal.set_wakeup_fd(before)
        wakeup.close()
        listener.join(_LAST_S)
        signals.close()
        signal.signal(signal.SIGINT, handler)


@contextlib.contextmanager
def set_aside() -> Iterator[None]:
    """Let Ctrl-C end a block of `anew` inside this block; between such blocks it is a KeyboardInterrupt."""
    if not _current:  # nobody listens, or a caller does
        yield
        return
    wakeup, handler = signal.set_wakeup_fd(-1), signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        signal.set_wakeup_fd(wakeup)


@contextlib.contextmanager
def anew() -> Iterator[None]:
    """Listen afresh while the block runs, within `set_aside`. An interruption of the block is a KeyboardInterrupt."""
    with listening():
        yield
        check()


def check() -> None:
    """Raise KeyboardInterrupt if Ctrl-C was heard. Clean-up may have put an error in its place."""
    if _current and _current[-1]:
        raise KeyboardInterrupt
