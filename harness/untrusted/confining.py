"""All that a process gives up before it sees the first byte of a table; in two steps, around the import of libraries.

Each step names the limits that it could not set, with reasons. A system that ignores a limit cannot set it.
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

# Files that a process gives up for good: Linux's Landlock, since 5.13, where it is switched on. Harness and DuckDB open
# files only within the roots of a table in any case; this holds code that asks neither. A process under Landlock cannot
# look into other processes either, and, since 6.12, send them no signal.


_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION, _BENEATH = 1, 1
_READ_FILE, _READ_DIRECTORY = 1 << 2, 1 << 3
_OF_FILES = 0x7 | 1 << 14
_ACCESS = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF}
"""All access to files that a version knows of; later versions know no more."""
_SCOPES, _ALL_SCOPES = 6, 0x3
_SYSTEM = (
    *("/usr", "/lib", "/lib64", "/nix/store", "/etc/ld.so.cache", "/etc/localtime"),
    *("/dev/null", "/dev/urandom", "/proc/self", "/proc/meminfo", "/proc/cpuinfo"),
    *("/sys/fs/cgroup", "/sys/devices/system"),
)
"""Paths of the system that libraries read: other libraries, time zones, the machine's size."""


def restrict_files(*, readable: Iterable[str], writable: str) -> bool:
    """Give up all files but those below these directories, Python's and the system's; False: the system cannot.

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
    for path in readable:
        sign = re.search(r"[*?\[]", path)
        if sign is not None:  # DuckDB lists this directory to find a path with signs of a pattern, which it quotes
            rules.append((os.path.dirname(path[: sign.start()] + "x"), _READ_DIRECTORY))
    for path, access in [*rules, (writable, every)]:
        with contextlib.suppress(OSError):  # a missing path needs no rule
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            of_kind = access if os.path.isdir(path) else access & _OF_FILES
            call(_ADD, ruleset, _BENEATH, struct.pack("=Qi", of_kind, place), ctypes.c_uint(0))
            os.close(place)
    restricted: int = call(_RESTRICT, ruleset, ctypes.c_uint(0))
    os.close(ruleset)
    return restricted == 0


# A network namespace without a network, in a user namespace where that takes one; and no privileges. Linux.


_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_NAMESPACES_VERSION = 0x20080522
_READ_ANY_FILE = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""
_COUNTS_BY_NAMESPACE = (5, 14)
"""Before that version of Linux, a limit of threads counts all processes of the user."""

_state = {"own": False}


def leave_network() -> str | None:
    """Leave every network for good, this machine's own too; a reason: the system cannot; None: done.

    The process must have one thread yet. The user namespace takes its privileges over things outside, of root too.
    """
    if sys.platform != "linux":
        return "there are no network namespaces but on Linux"
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_USER | _NEW_NETWORK) == 0:
        _state["own"] = True
        return None
    return f"the system allows no namespaces ({errno.errorcode[ctypes.get_errno()]})"


def counts_threads() -> bool:
    """Tells whether a limit of threads counts this process alone, as in a user namespace of its own."""
    version = re.match(r"(\d+)\.(\d+)", platform.release())
    return _state["own"] and version is not None and tuple(map(int, version.groups())) >= _COUNTS_BY_NAMESPACE


def drop_privileges(*, keep_files: bool) -> None:
    """Give up the powers of root, such as to raise limits.

    keep_files: files of other users stay readable to root; in a user namespace of its own they are not in any case.
    """
    numbers = NUMBERS.get(platform.machine())
    if sys.platform != "linux" or numbers is None:
        return
    call = ctypes.CDLL(None, use_errno=True).syscall
    header = struct.pack("=Ii", _NAMESPACES_VERSION, 0)
    had = ctypes.create_string_buffer(24)
    if call(ctypes.c_long(numbers["capget"]), header, had) != 0:
        return
    effective, permitted, _, *_ = struct.unpack("=6I", had.raw)
    kept = effective & permitted & (_READ_ANY_FILE if keep_files else 0)
    call(ctypes.c_long(numbers["capset"]), header, struct.pack("=6I", kept, kept, 0, 0, 0, 0))


_PARENT_DEATH_SIGNAL, _NO_NEW_PRIVILEGES = 1, 38
"""Options of Linux's prctl."""


def before_imports(
    parent: int, directories: Sequence[str], scratch: str, calls: Sequence[str] = ()
) -> tuple[Unenforced, int | None]:
    """No network, no other process, no files elsewhere. To be called while the process has one thread.

    Args:
        parent: the process that waits for this process, which ends with it.
        directories: whose files may be read. scratch: of files that may be written.
        calls: names of further system calls that are allowed.

    Returns:
        The limits that do not hold, and the listener of `seccomp.install`.
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
    """The limits of the process's resources, for good. Its libraries count neither as memory nor as time.

    filtered: True: `before_imports` has filtered its system calls.
    """
    try:
        import resource
    except ImportError:
        reason = f"there are no limits of processes on {sys.platform}"
        return dict.fromkeys(("memory_bytes", "cpu_seconds", "open_files", "scratch_bytes"), reason)
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + bounds.cpu_seconds
    wanted = {
        "cpu_seconds": (resource.RLIMIT_CPU, seconds, seconds + 1),  # a signal that tells, and SIGKILL a second later
        "open_files": (resource.RLIMIT_NOFILE, bounds.open_files, bounds.open_files),
        "scratch_bytes": (resource.RLIMIT_FSIZE, bounds.scratch_bytes, bounds.scratch_bytes),
    }
    unenforced: Unenforced = {}
    if sys.platform == "linux":
        with open("/proc/self/statm", encoding="ascii") as numbers:
            most = int(numbers.read().split()[0]) * os.sysconf("SC_PAGE_SIZE") + bounds.memory_bytes
        wanted["memory_bytes"] = (resource.RLIMIT_AS, most, most)
    else:
        unenforced["memory_bytes"] = f"{sys.platform} does not hold processes to a limit of memory"
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, (kind, *limits) in wanted.items():
        allowed = resource.getrlimit(kind)[1]
        soft, hard = limits if allowed == resource.RLIM_INFINITY else (min(limit, allowed) for limit in limits)
        try:
            resource.setrlimit(kind, (soft, hard))
        except (OSError, ValueError) as error:
            unenforced[name] = f"the system refuses the limit ({error})"
    if counts_threads():
        threads = bounds.threads + SPARE_THREADS
        with contextlib.suppress(OSError, ValueError):  # fewer are allowed already
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
    """Without this, only a privileged process may confine itself, because it could fool programs with privileges."""
    if sys.platform == "linux":
        _prctl(_NO_NEW_PRIVILEGES, 1)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0)))
