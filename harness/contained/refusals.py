"""The system calls that a worker asked for and was refused, by name: for the error that tells how it ended.

Linux hands a refused call to whoever holds the filter's listener, and has the caller wait for an answer. The process
that waits for the worker takes that descriptor out of it before the worker sees a byte of the table. Where that is
impossible (before 5.6, or in containers that forbid it) calls fail in the same way, and nobody learns their names.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import select
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from harness.contained.syscalls import NUMBERS

_RECEIVE, _SEND = 0xC0502100, 0xC0182101
"""Requests of ioctl, as in linux/seccomp.h: of 80 bytes, and of 24."""
_ASKED_BYTES, _ASKED, _ANSWER = 80, "=Q8xi", "=QqiI"
_MOST_NAMES, _MOST_CALLS = 8, 1000
"""Names that are kept, and calls that are answered. Whoever asks on gets the system's errors."""
_END_S = 1.0


class Refusals:
    """The calls that a worker was refused, from the moment on at which somebody listens."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}

    def names(self) -> tuple[str, ...]:
        """In the order in which they were asked for first."""
        return tuple(self._names)

    @contextmanager
    def heard(self, process: int, descriptor: int) -> Iterator[None]:
        """Calls of a process are answered and noted while the block runs; descriptor: the listener, as it names it."""
        listener = _taken(process, descriptor)
        if listener is None:
            yield
            return
        end, ending = os.pipe()
        # Apart from the thread that waits: a call that is taken back between two looks leaves who asks for it waiting.
        thread = threading.Thread(target=self._listen, args=(listener, end), name="harness-refusals", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread can be had; once nobody listens, calls fail
            for each in (listener, end, ending):
                os.close(each)
            yield
            return
        try:
            yield
        finally:
            os.close(ending)
            thread.join(_END_S)

    def _listen(self, listener: int, end: int) -> None:
        import fcntl

        poll = select.poll()
        for each in (listener, end):
            poll.register(each, select.POLLIN)
        machine = platform.machine()
        names = {number: name for name, number in NUMBERS[machine].items()}
        try:
            for _ in range(_MOST_CALLS):
                ready = dict(poll.poll())
                if end in ready or not ready[listener] & select.POLLIN:
                    return
                asked = bytearray(_ASKED_BYTES)
                try:
                    fcntl.ioctl(listener, _RECEIVE, asked, True)
                    call, number = struct.unpack_from(_ASKED, asked)
                    if len(self._names) < _MOST_NAMES:
                        self._names[names.get(number, f"call {number}")] = None
                    fcntl.ioctl(listener, _SEND, bytearray(struct.pack(_ANSWER, call, 0, -errno.EPERM, 0)), True)
                except OSError:  # the thread that asked is gone
                    continue
        finally:
            os.close(listener)
            os.close(end)


def _taken(process: int, descriptor: int) -> int | None:
    """A descriptor of another process as one of this process; None: the system does not give it."""
    try:
        of_process = os.pidfd_open(process)
    except (OSError, AttributeError):
        return None
    try:
        call = ctypes.CDLL(None, use_errno=True).syscall
        number = NUMBERS[platform.machine()]["pidfd_getfd"]
        taken: int = call(*map(ctypes.c_long, (number, of_process, descriptor, 0)))
        return taken if taken >= 0 else None
    finally:
        os.close(of_process)
