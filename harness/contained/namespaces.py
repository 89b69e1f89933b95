"""A network namespace without a network, in a user namespace where that takes one. Linux."""

from __future__ import annotations

import ctypes
import errno
import sys

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000


def leave_network() -> str | None:
    """Leave every network for good, this machine's own too; why that is impossible here, None: it is done.

    The process must have one thread yet. The user namespace takes its privileges over what is outside, of root too.
    """
    if sys.platform != "linux":
        return "there are no network namespaces but on Linux"
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_USER | _NEW_NETWORK) == 0:
        return None
    return f"the system allows no namespaces ({errno.errorcode[ctypes.get_errno()]})"
