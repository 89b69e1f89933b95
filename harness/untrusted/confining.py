"""The rights that a process gives up before it reads the first byte of a table.

The process gives them up in two steps, before and after libraries are imported. Each step returns the limits that it
could not set, with reasons. If a system accepts a limit but does not enforce it, the limit counts as not set.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import re
import signal
import struct
import sys
from collections.abc import Iterable, Sequence

from harness.untrusted import seccomp
from harness.untrusted.bounds import SPARE_THREADS, Bounds, Unenforced
from harness.untrusted.seccomp import NUMBERS

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION, _BENEATH = 1, 1
_READ_FILE, _READ_DIRECTORY = 1 << 2, 1 << 3
_OF_FILES = 0x7 | 1 << 14
_ACCESS = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF}
"""The file access rights that a version of Landlock knows. Later versions add none."""
_SCOPES, _ALL_SCOPES = 6, 0x3
_SYSTEM = (
    *("/usr", "/lib", "/lib64", "/nix/store", "/etc/ld.so.cache", "/etc/localtime"),
    *("/dev/null", "/dev/urandom", "/proc/self", "/proc/meminfo", "/proc/cpuinfo"),
    *("/sys/fs/cgroup", "/sys/devices/system"),
)
"""System paths that libraries read: other libraries, time zones, the size of the machine."""


def restrict_files(*, readable: Iterable[str], writable: str) -> bool:
    """Give up access to all files outside these directories, Python's own and the system's, for good.

    This uses Landlock (Linux 5.13 or later, if enabled). Harness and DuckDB open only files within a table's roots
    anyway; this also restricts code that ignores the roots. A process under Landlock cannot inspect other processes
    and, since Linux 6.12, cannot send them signals. The process must still have only one thread, and must have given up
    gaining privileges.

    Args:
        readable: Directories to read.
        writable: A directory to write.

    Returns:
        False if the system does not support it.
    """
    if sys.platform != "linux":
        return False
    call = ctypes.CDLL(None, use_errno=True).syscall
    version = call(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(_VERSION))
    if version < 1:
        return False
    full_access = _ACCESS.get(version, _ACCESS[3])
    handled = struct.pack("=QQQ", full_access, 0, _ALL_SCOPES)[: 24 if version >= _SCOPES else 8]
    ruleset = call(_CREATE, handled, ctypes.c_size_t(len(handled)), ctypes.c_uint(0))
    if ruleset < 0:
        return False
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    python = (sys.prefix, sys.base_prefix, *filter(None, (*sys.path, sys.pycache_prefix, *libraries)))
    read_access = _READ_FILE | _READ_DIRECTORY
    rules = [(path, read_access) for path in (*_SYSTEM, *python, *readable)]
    for path in readable:
        sign = re.search(r"[*?\[]", path)
        # DuckDB lists this directory to find a path with wildcard characters, although they are quoted
        if sign is not None:
            rules.append((os.path.dirname(path[: sign.start()] + "x"), _READ_DIRECTORY))
    for path, access in [*rules, (writable, full_access)]:
        with contextlib.suppress(OSError):  # a missing path needs no rule
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            of_kind = access if os.path.isdir(path) else access & _OF_FILES
            call(_ADD, ruleset, _BENEATH, struct.pack("=Qi", of_kind, place), ctypes.c_uint(0))
            os.close(place)
    restricted: int = call(_RESTRICT, ruleset, ctypes.c_uint(0))
    os.close(ruleset)
    return restricted == 0


_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_NAMESPACES_VERSION = 0x20080522
_READ_ANY_FILE = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""
_COUNTS_BY_NAMESPACE = (5, 14)
"""Before this version of Linux, a limit on threads counts all processes of the user."""

_state = {"own": False}


def leave_network() -> str | None:
    """Leave every network for good, including the loopback interface.

    The process enters a network namespace without a network, in a new user namespace. It must still have only one
    thread. In the user namespace, it loses its privileges over things outside, even as root.

    Returns:
        None, or the reason why the system cannot do it.
    """
    if sys.platform != "linux":
        return "network namespaces exist only on Linux"
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_USER | _NEW_NETWORK) == 0:
        _state["own"] = True
        return None
    return f"the system allows no namespaces ({errno.errorcode[ctypes.get_errno()]})"


def counts_threads() -> bool:
    """Return whether a limit on threads counts only this process, as it does in a separate user namespace."""
    version = re.match(r"(\d+)\.(\d+)", platform.release())
    return _state["own"] and version is not None and tuple(map(int, version.groups())) >= _COUNTS_BY_NAMESPACE


def drop_privileges(*, keep_files: bool) -> None:
    """Give up the privileges of root, for example the privilege to raise limits.

    Args:
        keep_files: If True, root can still read files of other users. In a separate user namespace, root never can.
    """
    numbers = NUMBERS.get(platform.machine())
    if sys.platform != "linux" or numbers is None:
        return
    call = ctypes.CDLL(None, use_errno=True).syscall
    header = struct.pack("=Ii", _NAMESPACES_VERSION, 0)
    current = ctypes.create_string_buffer(24)
    if call(ctypes.c_long(numbers["capget"]), header, current) != 0:
        return
    effective, permitted, _, *_ = struct.unpack("=6I", current.raw)
    capabilities = effective & permitted & (_READ_ANY_FILE if keep_files else 0)
    call(ctypes.c_long(numbers["capset"]), header, struct.pack("=6I", capabilities, capabilities, 0, 0, 0, 0))


_PARENT_DEATH_SIGNAL, _NO_NEW_PRIVILEGES = 1, 38
"""Options of Linux's prctl."""


def before_imports(
    parent: int, directories: Sequence[str], scratch: str, calls: Sequence[str] = ()
) -> tuple[Unenforced, int | None]:
    """Give up the network, other processes, and files elsewhere. The process must still have only one thread.

    Args:
        parent: The process that waits for this one. This process ends with it.
        directories: Directories to read.
        scratch: A directory to write.
        calls: Names of further system calls to allow.

    Returns:
        The limits that could not be set, and the listener of `seccomp.install`.
    """
    no_namespace = leave_network()
    drop_privileges(keep_files=no_namespace is not None)
    _die_with_parent(parent)
    _gain_no_privileges()
    restrict_files(readable=directories, writable=scratch)
    no_filter, listener = seccomp.install(calls)
    if no_filter is None:
        return {}, listener
    unenforced = {"processes": no_filter}
    if no_namespace is not None:
        unenforced["network"] = f"{no_namespace}, and {no_filter}"
    return unenforced, None


def after_imports(bounds: Bounds, *, filtered: bool) -> Unenforced:
    """Limit the resources of the process for good. Memory and time that imports used do not count.

    Args:
        bounds: The limits.
        filtered: True if `before_imports` has filtered system calls.

    Returns:
        The limits that could not be set.
    """
    try:
        import resource
    except ImportError:
        reason = f"processes cannot be limited on {sys.platform}"
        return dict.fromkeys(("memory_bytes", "cpu_seconds", "open_files", "scratch_bytes"), reason)
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + bounds.cpu_seconds
    resource_limits = {
        # first a signal that tells the reason, and SIGKILL a second later
        "cpu_seconds": (resource.RLIMIT_CPU, seconds, seconds + 1),
        "open_files": (resource.RLIMIT_NOFILE, bounds.open_files, bounds.open_files),
        "scratch_bytes": (resource.RLIMIT_FSIZE, bounds.scratch_bytes, bounds.scratch_bytes),
    }
    unenforced: Unenforced = {}
    if sys.platform == "linux":
        with open("/proc/self/statm", encoding="ascii") as numbers:
            most = int(numbers.read().split()[0]) * os.sysconf("SC_PAGE_SIZE") + bounds.memory_bytes
        resource_limits["memory_bytes"] = (resource.RLIMIT_AS, most, most)
    else:
        unenforced["memory_bytes"] = f"{sys.platform} does not enforce memory limits"
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, (kind, *limits) in resource_limits.items():
        allowed = resource.getrlimit(kind)[1]
        soft, hard = limits if allowed == resource.RLIM_INFINITY else (min(limit, allowed) for limit in limits)
        try:
            resource.setrlimit(kind, (soft, hard))
        except (OSError, ValueError) as error:
            unenforced[name] = f"the system refuses the limit ({error})"
    if counts_threads():
        threads = bounds.threads + SPARE_THREADS
        with contextlib.suppress(OSError, ValueError):  # the system already allows fewer
            resource.setrlimit(resource.RLIMIT_NPROC, (threads, threads))
    if filtered:
        seccomp.seal()
    return unenforced


def _die_with_parent(parent: int) -> None:
    if sys.platform == "linux":
        _prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _gain_no_privileges() -> None:
    """Give up the ability to gain privileges. Linux requires this before an unprivileged process may confine itself."""
    if sys.platform == "linux":
        _prctl(_NO_NEW_PRIVILEGES, 1)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0)))
