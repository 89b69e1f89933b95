"""All that a process gives up before it sees the first byte of a table; in two steps, around the import of libraries.

Each step says which limits it could not set and why. A system that ignores a limit counts as one that cannot set it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Sequence

from harness.contained import landlock, namespaces, seccomp
from harness.contained.bounds import SPARE_THREADS, Bounds, Unenforced

_PARENT_DEATH_SIGNAL, _NO_NEW_PRIVILEGES = 1, 38
"""Options of Linux's prctl."""


def before_imports(
    parent: int, directories: Sequence[str], scratch: str, calls: Sequence[str] = ()
) -> tuple[Unenforced, int | None]:
    """No network, no other process, no files elsewhere. To be called while the process has one thread.

    Gives the descriptor too by which another process hears of refused system calls, as `seccomp.install` has it.

    Args:
        parent: the process that waits for this one; this one ends when that does.
        directories: whose files may be read. scratch: the one in which files may be written.
        calls: names of system calls that are allowed besides.
    """
    no_namespace = namespaces.leave_network()
    namespaces.drop_privileges(keep_files=no_namespace is not None)
    _end_with(parent)
    _gain_no_privileges()
    landlock.restrict(readable=directories, writable=scratch)
    no_filter, listener = seccomp.install(calls)
    if no_filter is None:
        return {}, listener
    unenforced = {"processes": no_filter}
    if no_namespace is not None:
        unenforced["network"] = f"{no_namespace}, and {no_filter}"
    return unenforced, None


def after_imports(bounds: Bounds, *, filtered: bool) -> Unenforced:
    """The limits of what the process may use, for good. Its libraries count neither as memory nor as time.

    filtered: whether `before_imports` has filtered its system calls.
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
        most = _address_space() + bounds.memory_bytes
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
    if namespaces.counts_threads():
        threads = bounds.threads + SPARE_THREADS
        with contextlib.suppress(OSError, ValueError):  # fewer are allowed already
            resource.setrlimit(resource.RLIMIT_NPROC, (threads, threads))
    if filtered:
        seccomp.seal()
    return unenforced


def _address_space() -> int:
    """In bytes."""
    with open("/proc/self/statm", encoding="ascii") as numbers:
        return int(numbers.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _end_with(parent: int) -> None:
    if sys.platform == "linux":
        _prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _gain_no_privileges() -> None:
    """Without that, only who has privileges may confine itself, because it could fool programs that have them."""
    if sys.platform == "linux":
        _prctl(_NO_NEW_PRIVILEGES, 1)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0)))
