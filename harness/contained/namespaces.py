"""A network namespace without a network, in a user namespace where that takes one; and no privileges. Linux."""

from __future__ import annotations

import ctypes
import errno
import platform
import re
import struct
import sys

from harness.contained.syscalls import NUMBERS

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_VERSION = 0x20080522
_READ_ANY_FILE = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""
_COUNTS_BY_NAMESPACE = (5, 14)
"""Before that version of Linux, a limit of threads counts all processes of the user."""

_state = {"own": False}


def leave_network() -> str | None:
    """Leave every network for good, this machine's own too; why that is impossible here, None: it is done.

    The process must have one thread yet. The user namespace takes its privileges over what is outside, of root too.
    """
    if sys.platform != "linux":
        return "there are no network namespaces but on Linux"
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_USER | _NEW_NETWORK) == 0:
        _state["own"] = True
        return None
    return f"the system allows no namespaces ({errno.errorcode[ctypes.get_errno()]})"


def counts_threads() -> bool:
    """Tells whether a limit of threads is one of this process alone, as it is in a user namespace of its own."""
    version = re.match(r"(\d+)\.(\d+)", platform.release())
    return _state["own"] and version is not None and tuple(map(int, version.groups())) >= _COUNTS_BY_NAMESPACE


def drop_privileges(*, keep_files: bool) -> None:
    """Give up what root may do beside its files, such as to raise limits.

    keep_files: files of other users stay readable to root. In a user namespace of its own they are not in any case.
    """
    numbers = NUMBERS.get(platform.machine())
    if sys.platform != "linux" or numbers is None:
        return
    call = ctypes.CDLL(None, use_errno=True).syscall
    header = struct.pack("=Ii", _VERSION, 0)
    had = ctypes.create_string_buffer(24)
    if call(ctypes.c_long(numbers["capget"]), header, had) != 0:
        return
    effective, permitted, _, *_ = struct.unpack("=6I", had.raw)
    kept = effective & permitted & (_READ_ANY_FILE if keep_files else 0)
    call(ctypes.c_long(numbers["capset"]), header, struct.pack("=6I", kept, kept, 0, 0, 0, 0))
