"""Files that a process gives up for good: Linux's Landlock, since 5.13, where it is switched on.

Harness and DuckDB open files only within the roots of a table in any case; this holds code that would not ask them. A
process under Landlock can look into no other process either, and, since 6.12, send none a signal.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import struct
import sys
from collections.abc import Iterable

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION, _BENEATH = 1, 1
_READ_FILE, _READ_DIRECTORY = 1 << 2, 1 << 3
_OF_FILES = 0x7 | 1 << 14
_ACCESS = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF}
"""All access that a version knows of; those after the last one know more that is of no file."""
_SCOPES, _ALL_SCOPES = 6, 0x3
_SYSTEM = (
    *("/usr", "/lib", "/lib64", "/nix/store", "/etc/ld.so.cache", "/etc/localtime"),
    *("/dev/null", "/dev/urandom", "/proc/self", "/proc/meminfo", "/proc/cpuinfo"),
    *("/sys/fs/cgroup", "/sys/devices/system"),
)
"""What libraries read of the system: each other, time zones, how large the machine is."""


def restrict(*, readable: Iterable[str], writable: str) -> bool:
    """Give up all files but those below these directories, Python's and the system's; whether the system can do that.

    The process must have one thread yet, and have given up to gain privileges.
    """
    if sys.platform != "linux":
        return False
    call = ctypes.CDLL(None, use_errno=True).syscall
    version = call(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(_VERSION))
    if version < 1:
        return False
    every = _ACCESS.get(version, _ACCESS[3])
    handled = struct.pack("=QQQ", every, 0, _ALL_SCOPES)[: 24 if version >= _SCOPES else 8]
    ruleset = call(_CREATE, handled, ctypes.c_size_t(len(handled)), ctypes.c_uint(0))
    if ruleset < 0:
        return False
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    python = (sys.prefix, sys.base_prefix, *filter(None, (*sys.path, sys.pycache_prefix, *libraries)))
    read = _READ_FILE | _READ_DIRECTORY
    rules = [(path, read) for path in (*_SYSTEM, *python, *readable)]
    rules += [(parent, _READ_DIRECTORY) for path in readable for parent in _listed(path)]
    for path, access in [*rules, (writable, every)]:
        with contextlib.suppress(OSError):  # what is not there needs no rule
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            of_kind = access if os.path.isdir(path) else access & _OF_FILES
            call(_ADD, ruleset, _BENEATH, struct.pack("=Qi", of_kind, place), ctypes.c_uint(0))
            os.close(place)
    restricted: int = call(_RESTRICT, ruleset, ctypes.c_uint(0))
    os.close(ruleset)
    return restricted == 0


def _listed(path: str) -> list[str]:
    """The directory whose names DuckDB looks through to find a path that has signs of a pattern, which it quotes."""
    sign = re.search(r"[*?\[]", path)
    return [] if sign is None else [os.path.dirname(path[: sign.start()] + "x")]
