"""Ctrl-C handling: Python raises KeyboardInterrupt, and a thread ends queries that run in C code."""

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

from harness.storage.threads import interrupt_all

_AGAIN_S, _WAKE_S, _SECOND_S = 0.05, 0.6, 1.0
"""Seconds between attempts to end queries, until the main thread is signaled, and until a signal is a second Ctrl-C.

Ending queries is repeated because a query that is about to start would miss the first attempt.
"""
_current: list[Interruption] = []


class Interruption:
    """The handling of Ctrl-C during a block.

    Attributes:
        received: True if the process has received the signal.
        raised: True if the main thread has raised the exception.
        ended: Set when queries have been ended.
    """

    def __init__(self) -> None:
        self.received, self.raised, self.ended = False, False, threading.Event()

    def raise_once(self, *_: object) -> None:
        """Raise KeyboardInterrupt the first time only, so that further signals do not interrupt the clean-up."""
        if not self.raised:
            self.received = self.raised = True
            self.ended.wait(_WAKE_S)  # closing a connection waits for its query
            raise KeyboardInterrupt

    def end_queries(self, signals: socket.socket, main_thread: int) -> None:
        """End queries from the first signal until the socket is closed. A second signal ends the process."""
        with signals:
            self.received, began = signals.recv(64) != b"", time.monotonic()
            while self.received:
                interrupt_all()
                self.ended.set()
                age = time.monotonic() - began
                if not self.raised and age < _WAKE_S and sys.platform != "win32":  # it started to wait after the signal
                    signal.pthread_kill(main_thread, signal.SIGINT)
                if select.select([signals], [], [], _AGAIN_S)[0]:
                    self.received = signals.recv(64) != b""
                    if self.received and age > _SECOND_S:
                        from harness.cli.terminal import restore

                        restore()
                        os._exit(130)


@contextlib.contextmanager
def listening(replaced: object = signal.default_int_handler) -> Iterator[None]:
    """Raise KeyboardInterrupt if Ctrl-C is pressed during the block, even if code in the block hides the exception.

    If a caller has set its own handler for the signal, the handler stays in effect.
    """
    interruption, hook = Interruption(), sys.unraisablehook
    replaceable = (signal.default_int_handler, replaced, *(each.raise_once for each in _current))
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) not in replaceable:
        yield
        return

    def drop(error: sys.UnraisableHookArgs) -> None:  # Python discards exceptions raised in `__del__`
        if issubclass(error.exc_type, KeyboardInterrupt):
            interruption.raised = False
        else:
            hook(error)

    signals, wakeup = socket.socketpair()
    wakeup.setblocking(False)
    thread = threading.Thread(target=interruption.end_queries, args=(signals, threading.get_ident()), daemon=True)
    thread.start()
    _current.append(interruption)
    sys.unraisablehook, descriptor = drop, signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
    handler = signal.signal(signal.SIGINT, interruption.raise_once)
    try:
        yield
        check()
    except Exception:
        check()
        raise
    finally:
        interruption.raised = True  # the following lines must not be interrupted
        _current.remove(interruption)
        sys.unraisablehook, _ = hook, signal.set_wakeup_fd(descriptor)
        wakeup.close()
        thread.join(_SECOND_S)  # a call to Spark may hang
        signal.signal(signal.SIGINT, handler)


def was_interrupted() -> bool:
    """Return whether Ctrl-C was pressed.

    The current exception does not show this, because clean-up code may have replaced the KeyboardInterrupt.
    """
    return bool(_current) and _current[-1].received


def check() -> None:
    """Raise KeyboardInterrupt if Ctrl-C was pressed."""
    if was_interrupted():
        raise KeyboardInterrupt
