"""A filter of system calls, which permits only the calls and arguments that a read uses.

Linux lets every process give up system calls for good (seccomp), also in containers and without privileges. Threads
that start later have the same filter. Other calls fail, and the process that waits for the worker records their names
if the system reports them (`harness.untrusted.launching`).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from harness.storage.records import dataclass

_SINCE_5_1 = 424
"""The first number that is the same on every machine.

Calls from this number on fail as on a kernel without them, so that the C library uses older calls.
"""

NUMBERS: dict[str, dict[str, int]] = {}
for _line in Path(__file__).with_name("system_calls.txt").read_text(encoding="ascii").splitlines()[1:]:
    _machine, _first, *_names = _line.split()
    NUMBERS.setdefault(_machine, {}).update({name: number for number, name in enumerate(_names, int(_first))})
"""Numbers of system calls by machine and name."""

# Recorded over tables of many writers, both engines, sorts on disk and every command. The list also has the calls of
# other versions of the C library and of allocators.
ALLOWED = frozenset(
    """
    read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek close dup dup2 dup3 pipe pipe2
    open openat stat fstat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat getcwd
    getdents getdents64 statfs fstatfs fsync fdatasync ftruncate fadvise64 sendfile
    mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2
    mmap munmap mremap mprotect madvise msync brk mbind membarrier
    futex set_robust_list rseq set_tid_address exit exit_group restart_syscall
    sched_yield sched_get_priority_max sched_get_priority_min getcpu
    nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday time times getrusage
    rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack
    poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait eventfd eventfd2
    getpid gettid getppid getpgrp getuid geteuid getgid getegid getresuid getresgid capget
    uname sysinfo getrandom getrlimit recvfrom getsockname
    """.split()  # noqa: SIM905
)
"""Calls that are permitted with any arguments.

None of them affects other processes, or creates something that outlives this process.
"""
TABLES_BUILT = ("utimensat",)
"""Further calls for building scenarios, because their files have given modification times."""


# Classic BPF, as in linux/filter.h and linux/seccomp.h.
_LOAD, _AND, _JUMP_EQUAL, _JUMP_FROM, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW, _KILL, _ERROR, _NOTIFY = 0x7FFF0000, 0x80000000, 0x00050000, 0x7FC00000
_SET_SECCOMP, _MODE_FILTER = 22, 2
_SET_FILTER, _NEW_LISTENER = 1, 8

_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""The kernel's numbers of the machines."""
_X32 = 0x40000000  # the first number of x86_64's second set of calls

_THIS_PROCESS = -1
"""Stands for the id of this process."""
_THREAD, _THREAD_FLAGS = 0x00010F00, 0x007D0F00
"""Flags of clone for a thread, which shares memory, files, handlers, and the process."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """The condition on an argument that a call must meet to be permitted.

    Attributes:
        argument: The number of the argument.
        values: The permitted values.
        mask: The bits of the argument's lower half that are compared.
        whole: If True, the upper half must be 0.
        error: The error of a refused call. None: as for a call that is not listed.
    """

    argument: int
    values: Sequence[int]
    mask: int = 0xFFFFFFFF
    whole: bool = False
    error: int | None = None


_RULES = {
    "kill": (_Rule(0, (_THIS_PROCESS,)),),
    "tgkill": (_Rule(0, (_THIS_PROCESS,)),),  # used by `abort`
    "prlimit64": (_Rule(0, (0, _THIS_PROCESS)),),
    "sched_getaffinity": (_Rule(0, (0, _THIS_PROCESS)),),
    "clone": (_Rule(0, (_THREAD,), mask=_THREAD | ~_THREAD_FLAGS & 0xFFFFFFFF),),
    # Terminal requests (no file is a terminal), the number of readable bytes, and flags that `fcntl` sets too.
    "ioctl": (_Rule(1, (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451), error=errno.ENOTTY),),
    # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC; no signals, locks, leases, or seals.
    "fcntl": (_Rule(1, (0, 1, 2, 3, 4, 1030)),),
    # PR_SET_NAME, PR_GET_NAME, PR_SET_VMA, and one more filter; not the parent's death signal, which must end this
    # process.
    "prctl": (_Rule(0, (15, 16, 0x53564D41, _SET_SECCOMP), error=errno.EINVAL),),
    # Both ends of a stream socket pair are in this process. A datagram socket could send anywhere.
    "socketpair": (_Rule(0, (1,)), _Rule(1, (1,), mask=0xF)),
    "sendto": (_Rule(4, (0,), whole=True),),
}
_SEALED = {"prlimit64": (_Rule(2, (0,), whole=True),), "prctl": (_Rule(0, (15, 16, 0x53564D41), error=errno.EINVAL),)}
"""Calls that set limits, which are refused after the limits are set."""

_Instruction = tuple[int, int, int, int]


def install(more: Iterable[str] = ()) -> tuple[str | None, int | None]:
    """Filter the system calls of this process.

    The process must still have only one thread, and must have given up gaining privileges.

    Args:
        more: Names of further system calls to permit.

    Returns:
        The reason why a filter is impossible here, or None; and the descriptor of the listener for refused calls, or
            None if the system does not report them. Another process must take the descriptor, or this one must close
            it: until then, refused calls wait.
    """
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _AUDIT or sys.maxsize < 1 << 32:
        system = f"{platform.system()} on {platform.machine()}"
        return f"system calls can be filtered only on Linux on {' and '.join(_AUDIT)}, but this is {system}", None
    listener = _load(machine, program(machine, os.getpid(), more, notify=True), _NEW_LISTENER)
    if listener >= 0:
        return None, listener
    if _load(machine, program(machine, os.getpid(), more, notify=False)) == 0:
        return None, None
    return f"the system allows no filter of system calls ({errno.errorcode[ctypes.get_errno()]})", None


def seal() -> None:
    """Give up the right to set limits and filters. `install` must have been called."""
    machine = platform.machine()
    if _load(machine, sealing_program(machine, os.getpid())) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


def sealing_program(machine: str, process: int) -> bytes:
    """Return the filter that `seal` adds, in the kernel's form. The arguments are as for `program`."""
    rest = (_RETURN, 0, 0, _ALLOW)
    return _pack([*_prologue(machine), *_rule_steps(machine, process, _SEALED, _ERROR | errno.EPERM), rest])


def program(machine: str, process: int, more: Iterable[str] = (), *, notify: bool) -> bytes:
    """Return the filter in the kernel's form.

    Args:
        machine: The machine, as `platform.machine` names it.
        process: The id of the process.
        more: Names of further system calls to permit.
        notify: If True, refused calls wait for an answer of the listener.
    """
    numbers = NUMBERS[machine]
    refuse = _NOTIFY if notify else _ERROR | errno.EPERM
    steps: list[_Instruction] = [*_prologue(machine)]
    for number in sorted(numbers[name] for name in {*ALLOWED, *more} & numbers.keys()):
        steps += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    steps += _rule_steps(machine, process, _RULES, refuse)
    # The flags of `clone3` are in memory, which a filter cannot read. It is one of the new calls.
    steps += [(_JUMP_FROM, 0, 1, _SINCE_5_1), (_RETURN, 0, 0, _ERROR | errno.ENOSYS), (_RETURN, 0, 0, refuse)]
    return _pack(steps)


def _prologue(machine: str) -> list[_Instruction]:
    return [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, _AUDIT[machine]),
        (_RETURN, 0, 0, _KILL),  # 32-bit calls have other numbers
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_FROM, 0, 1, _X32),
        (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
    ]


def _rule_steps(
    machine: str, process: int, rules: Mapping[str, Sequence[_Rule]], refuse: int
) -> Iterable[_Instruction]:
    """Yield the instructions for the calls that have rules. The call's number is loaded before and after them."""
    for name, conditions in rules.items():
        number = NUMBERS[machine].get(name)
        if number is None:
            continue
        body: list[_Instruction] = []
        for rule in conditions:
            fails = refuse if rule.error is None else _ERROR | rule.error
            place = _ARGUMENTS + 8 * rule.argument
            if rule.whole:
                body += [(_LOAD, 0, 0, place + 4), (_JUMP_EQUAL, 1, 0, 0), (_RETURN, 0, 0, fails)]
            body += [(_LOAD, 0, 0, place), (_AND, 0, 0, rule.mask)]
            values = [process if value == _THIS_PROCESS else value for value in rule.values]
            body += [(_JUMP_EQUAL, len(values) - at, 0, value) for at, value in enumerate(values)]
            body.append((_RETURN, 0, 0, fails))
        yield (_JUMP_EQUAL, 0, len(body) + 1, number)
        yield from body
        yield (_RETURN, 0, 0, _ALLOW)


def _pack(steps: Iterable[_Instruction]) -> bytes:
    """Return instructions of 8 bytes: code, jump distance if true and if false, operand."""
    return b"".join(struct.pack("<HBBI", *step) for step in steps)


def _load(machine: str, code: bytes, flags: int | None = None) -> int:
    """Load a filter, and return the kernel's answer.

    Returns:
        0, or a descriptor if the flags request one. A negative number is an error.
    """
    buffer = ctypes.create_string_buffer(code, len(code))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer)))
    name, *numbers = ("prctl", _SET_SECCOMP, _MODE_FILTER) if flags is None else ("seccomp", _SET_FILTER, flags)
    call = ctypes.CDLL(None, use_errno=True).syscall
    loaded: int = call(*map(ctypes.c_long, (NUMBERS[machine][name], *numbers)), header, *map(ctypes.c_long, (0, 0)))
    return loaded
