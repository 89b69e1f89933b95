"""A filter of system calls: no socket, no other program or process, no hold on other processes.

Linux lets every process give up calls for good (seccomp), in containers and without privileges too. Threads that start
later have the same filter. `socketpair` stays: both of its ends are in the process.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Mapping

from harness.records import dataclass

_SET_SECCOMP, _MODE_FILTER = 22, 2

# Classic BPF, as in linux/filter.h and linux/seccomp.h.
_LOAD, _JUMP_EQUAL, _JUMP_FROM, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_CLONE_THREAD = 0x00010000

_SAME_EVERYWHERE = {
    **{"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427},
    **{"pidfd_send_signal": 424, "pidfd_open": 434, "pidfd_getfd": 438},
}


@dataclass(frozen=True, slots=True)
class _Machine:
    """audit: the kernel's number of the architecture. calls: those that fail. clone: may make threads.

    tgkill: may signal the process itself, which `abort` does.
    """

    audit: int
    calls: Mapping[str, int]
    clone: int
    tgkill: int


_MACHINES = {
    "x86_64": _Machine(
        0xC000003E,
        {
            **{"socket": 41, "fork": 57, "vfork": 58, "execve": 59, "execveat": 322},
            **{"kill": 62, "tkill": 200, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297},
            **{"ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311},
            **{"unshare": 272, "setns": 308, "mount": 165, "bpf": 321, "userfaultfd": 323, "keyctl": 250},
        },
        clone=56,
        tgkill=234,
    ),
    "aarch64": _Machine(
        0xC00000B7,
        {
            **{"socket": 198, "execve": 221, "execveat": 281},
            **{"kill": 129, "tkill": 130, "rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240},
            **{"ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271},
            **{"unshare": 97, "setns": 268, "mount": 40, "bpf": 280, "userfaultfd": 282, "keyctl": 219},
        },
        clone=220,
        tgkill=131,
    ),
}
_CLONE3 = 435
_X32 = 0x40000000  # the first number of x86_64's second set of calls


def install() -> str | None:
    """Filter the calls of this process; why that is impossible here, None: it is done.

    The process must have one thread yet, and have given up to gain privileges.
    """
    machine = _MACHINES.get(platform.machine())
    if sys.platform != "linux" or machine is None or sys.maxsize < 1 << 32:
        here = f"{platform.system()} on {platform.machine()}"
        return f"a filter of system calls is made for Linux on {' and '.join(_MACHINES)}, this is {here}"
    program = _program(machine, os.getpid())
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(_SET_SECCOMP, ctypes.c_ulong(_MODE_FILTER), header, ctypes.c_ulong(0), ctypes.c_ulong(0)) == 0:
        return None
    return f"the system allows no filter of system calls ({errno.errorcode[ctypes.get_errno()]})"


def _program(machine: _Machine, process: int) -> bytes:
    """Instructions of 8 bytes: code, how far to jump if true and if false, operand. process: id of the own one."""
    fail = (_RETURN, 0, 0, _ERROR | errno.EPERM)
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, machine.audit),
        (_RETURN, 0, 0, _KILL),  # calls of 32 bits have other numbers
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_FROM, 0, 1, _X32),
        fail,
        (_JUMP_EQUAL, 0, 1, _CLONE3),  # its flags are in memory; the C library then takes `clone`
        (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
    ]
    for number in sorted({*machine.calls.values(), *_SAME_EVERYWHERE.values()}):
        steps += [(_JUMP_EQUAL, 0, 1, number), fail]
    steps += [
        (_JUMP_EQUAL, 0, 4, machine.tgkill),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_JUMP_EQUAL, 1, 0, process),
        fail,
        (_RETURN, 0, 0, _ALLOW),
        (_JUMP_EQUAL, 0, 3, machine.clone),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_JUMP_ANY_BIT, 1, 0, _CLONE_THREAD),
        fail,
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("<HBBI", *step) for step in steps)
