"""A filter of system calls: those that a read takes, with the arguments that it takes them with, and no other.

Linux lets every process give up calls for good (seccomp), in containers and without privileges too. Threads that start
later have the same filter. Other calls fail; the process that waits for the worker notes its name, where the
system hands it over (`harness.tools.contained.launching`).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence

from harness.storage.records import dataclass

# The system calls of Linux by name, and those that a read of tables takes.
#
# The allow list was counted over tables of many writers, both engines, sorts on disk and every command. As margin it
# holds the calls of other versions of the C library and of allocators. Names stand in the order of their numbers, as in
# the kernel's headers; `-` is a number without a call.


_X86_64 = """
read write open close stat fstat lstat poll lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask rt_sigreturn
ioctl pread64 pwrite64 readv writev access pipe select sched_yield mremap msync mincore madvise shmget shmat shmctl
dup dup2 pause nanosleep getitimer alarm setitimer getpid sendfile socket connect accept sendto recvfrom sendmsg
recvmsg shutdown bind listen getsockname getpeername socketpair setsockopt getsockopt clone fork vfork execve exit
wait4 kill uname semget semop semctl shmdt msgget msgsnd msgrcv msgctl fcntl flock fsync fdatasync truncate
ftruncate getdents getcwd chdir fchdir rename mkdir rmdir creat link unlink symlink readlink chmod fchmod chown
fchown lchown umask gettimeofday getrlimit getrusage sysinfo times ptrace getuid syslog getgid setuid setgid geteuid
getegid setpgid getppid getpgrp setsid setreuid setregid getgroups setgroups setresuid getresuid setresgid getresgid
getpgid setfsuid setfsgid getsid capget capset rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_sigsuspend
sigaltstack utime mknod uselib personality ustat statfs fstatfs sysfs getpriority setpriority sched_setparam
sched_getparam sched_setscheduler sched_getscheduler sched_get_priority_max sched_get_priority_min
sched_rr_get_interval mlock munlock mlockall munlockall vhangup modify_ldt pivot_root _sysctl prctl arch_prctl
adjtimex setrlimit chroot sync acct settimeofday mount umount2 swapon swapoff reboot sethostname setdomainname iopl
ioperm create_module init_module delete_module get_kernel_syms query_module quotactl nfsservctl getpmsg putpmsg
afs_syscall tuxcall security gettid readahead setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr
llistxattr flistxattr removexattr lremovexattr fremovexattr tkill time futex sched_setaffinity sched_getaffinity
set_thread_area io_setup io_destroy io_getevents io_submit io_cancel get_thread_area lookup_dcookie epoll_create
epoll_ctl_old epoll_wait_old remap_file_pages getdents64 set_tid_address restart_syscall semtimedop fadvise64
timer_create timer_settime timer_gettime timer_getoverrun timer_delete clock_settime clock_gettime clock_getres
clock_nanosleep exit_group epoll_wait epoll_ctl tgkill utimes vserver mbind set_mempolicy get_mempolicy mq_open
mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr kexec_load waitid add_key request_key keyctl
ioprio_set ioprio_get inotify_init inotify_add_watch inotify_rm_watch migrate_pages openat mkdirat mknodat fchownat
futimesat newfstatat unlinkat renameat linkat symlinkat readlinkat fchmodat faccessat pselect6 ppoll unshare
set_robust_list get_robust_list splice tee sync_file_range vmsplice move_pages utimensat epoll_pwait signalfd
timerfd_create eventfd fallocate timerfd_settime timerfd_gettime accept4 signalfd4 eventfd2 epoll_create1 dup3 pipe2
inotify_init1 preadv pwritev rt_tgsigqueueinfo perf_event_open recvmmsg fanotify_init fanotify_mark prlimit64
name_to_handle_at open_by_handle_at clock_adjtime syncfs sendmmsg setns getcpu process_vm_readv process_vm_writev
kcmp finit_module sched_setattr sched_getattr renameat2 seccomp getrandom memfd_create kexec_file_load bpf execveat
userfaultfd membarrier mlock2 copy_file_range preadv2 pwritev2 pkey_mprotect pkey_alloc pkey_free statx
io_pgetevents rseq
"""
_AARCH64 = """
io_setup io_destroy io_submit io_cancel io_getevents setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr
listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr getcwd lookup_dcookie eventfd2 epoll_create1
epoll_ctl epoll_pwait dup dup3 fcntl inotify_init1 inotify_add_watch inotify_rm_watch ioctl ioprio_set ioprio_get
flock mknodat mkdirat unlinkat symlinkat linkat renameat umount2 mount pivot_root nfsservctl statfs fstatfs truncate
ftruncate fallocate faccessat chdir fchdir chroot fchmod fchmodat fchownat fchown openat close vhangup pipe2
quotactl getdents64 lseek read write readv writev pread64 pwrite64 preadv pwritev sendfile pselect6 ppoll signalfd4
vmsplice splice tee readlinkat newfstatat fstat sync fsync fdatasync sync_file_range timerfd_create timerfd_settime
timerfd_gettime utimensat acct capget capset personality exit exit_group waitid set_tid_address unshare futex
set_robust_list get_robust_list nanosleep getitimer setitimer kexec_load init_module delete_module timer_create
timer_gettime timer_getoverrun timer_settime timer_delete clock_settime clock_gettime clock_getres clock_nanosleep
syslog ptrace sched_setparam sched_setscheduler sched_getscheduler sched_getparam sched_setaffinity
sched_getaffinity sched_yield sched_get_priority_max sched_get_priority_min sched_rr_get_interval restart_syscall
kill tkill tgkill sigaltstack rt_sigsuspend rt_sigaction rt_sigprocmask rt_sigpending rt_sigtimedwait
rt_sigqueueinfo rt_sigreturn setpriority getpriority reboot setregid setgid setreuid setuid setresuid getresuid
setresgid getresgid setfsuid setfsgid times setpgid getpgid getsid setsid getgroups setgroups uname sethostname
setdomainname getrlimit setrlimit getrusage umask prctl getcpu gettimeofday settimeofday adjtimex getpid getppid
getuid geteuid getgid getegid gettid sysinfo mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr
msgget msgctl msgrcv msgsnd semget semctl semtimedop semop shmget shmctl shmat shmdt socket socketpair bind listen
accept connect getsockname getpeername sendto recvfrom setsockopt getsockopt shutdown sendmsg recvmsg readahead brk
munmap mremap add_key request_key keyctl clone execve mmap fadvise64 swapon swapoff mprotect msync mlock munlock
mlockall munlockall mincore madvise remap_file_pages mbind get_mempolicy set_mempolicy migrate_pages move_pages
rt_tgsigqueueinfo perf_event_open accept4 recvmmsg - - - - - - - - - - - - - - - - wait4 prlimit64 fanotify_init
fanotify_mark name_to_handle_at open_by_handle_at clock_adjtime syncfs setns sendmmsg process_vm_readv
process_vm_writev kcmp finit_module sched_setattr sched_getattr renameat2 seccomp getrandom memfd_create bpf
execveat userfaultfd membarrier mlock2 copy_file_range preadv2 pwritev2 pkey_mprotect pkey_alloc pkey_free statx
io_pgetevents rseq kexec_file_load
"""
_SINCE_5_1 = 424
"""The first number that is the same on every machine."""
_NEWER = """
pidfd_send_signal io_uring_setup io_uring_enter io_uring_register open_tree move_mount fsopen fsconfig fsmount
fspick pidfd_open clone3 close_range openat2 pidfd_getfd faccessat2 process_madvise epoll_pwait2 mount_setattr
quotactl_fd landlock_create_ruleset landlock_add_rule landlock_restrict_self memfd_secret process_mrelease
futex_waitv set_mempolicy_home_node
"""

FIRST_NEW = _SINCE_5_1
"""A call from this number on fails as on a kernel that has it not: the C library then takes the one before it."""


def _numbered(text: str, first: int = 0) -> dict[str, int]:
    return {name: number for number, name in enumerate(text.split(), first) if name != "-"}


NUMBERS: Mapping[str, Mapping[str, int]] = {
    machine: _numbered(text) | _numbered(_NEWER, _SINCE_5_1)
    for machine, text in (("x86_64", _X86_64), ("aarch64", _AARCH64))
}
"""Numbers of system calls by machine and name."""

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
"""Calls with any arguments. None names another process, or makes something that outlives this one."""
TABLES_BUILT = ("utimensat",)
"""Calls that scenarios take besides, whose files have times of their own."""


# Classic BPF, as in linux/filter.h and linux/seccomp.h.
_LOAD, _AND, _JUMP_EQUAL, _JUMP_FROM, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW, _KILL, _ERROR, _NOTIFY = 0x7FFF0000, 0x80000000, 0x00050000, 0x7FC00000
_SET_SECCOMP, _MODE_FILTER = 22, 2
_SET_FILTER, _NEW_LISTENER = 1, 8

_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""The kernel's numbers of the machines."""
_X32 = 0x40000000  # the first number of x86_64's second set of calls

_OWN = -1
"""Stands for the id of the process."""
_THREAD, _THREAD_FLAGS = 0x00010F00, 0x007D0F00
"""Flags of clone for a thread: memory, files, handlers and the process are shared."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """The condition on an argument for a call to be allowed.

    mask: of its lower half, which bits are looked at. values: what they may be. whole: the upper half must be 0 too.
    error: of a call that is not allowed, None: as of one that is not listed.
    """

    argument: int
    values: Sequence[int]
    mask: int = 0xFFFFFFFF
    whole: bool = False
    error: int | None = None


_RULES = {
    "kill": (_Rule(0, (_OWN,)),),
    "tgkill": (_Rule(0, (_OWN,)),),  # `abort`
    "prlimit64": (_Rule(0, (0, _OWN)),),
    "sched_getaffinity": (_Rule(0, (0, _OWN)),),
    "clone": (_Rule(0, (_THREAD,), mask=_THREAD | ~_THREAD_FLAGS & 0xFFFFFFFF),),
    # Of the terminal, which none of its files is, how much there is to read, and what `fcntl` does as well.
    "ioctl": (_Rule(1, (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451), error=errno.ENOTTY),),
    # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC; not whom to signal, locks, leases or seals.
    "fcntl": (_Rule(1, (0, 1, 2, 3, 4, 1030)),),
    # PR_SET_NAME, PR_GET_NAME, PR_SET_VMA, and once more a filter; not the parent's death, which must end this process.
    "prctl": (_Rule(0, (15, 16, 0x53564D41, _SET_SECCOMP), error=errno.EINVAL),),
    # Both ends of a stream are in the process. One of datagrams could be sent anywhere.
    "socketpair": (_Rule(0, (1,)), _Rule(1, (1,), mask=0xF)),
    "sendto": (_Rule(4, (0,), whole=True),),
}
_SEALED = {"prlimit64": (_Rule(2, (0,), whole=True),), "prctl": (_Rule(0, (15, 16, 0x53564D41), error=errno.EINVAL),)}
"""Calls that end once the limits are set: those that set them."""

_Step = tuple[int, int, int, int]


def install(more: Iterable[str] = ()) -> tuple[str | None, int | None]:
    """Filter the calls of this process: why that is impossible here, None: it is done; and where refusals are told.

    The latter is a descriptor, which another process must take or this one close: until then, a call that is refused
    waits. None: the system tells nobody. The process must have one thread yet, and have given up to gain privileges.
    more: names of calls that are allowed besides.
    """
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _AUDIT or sys.maxsize < 1 << 32:
        here = f"{platform.system()} on {platform.machine()}"
        return f"a filter of system calls is made for Linux on {' and '.join(_AUDIT)}, this is {here}", None
    told = _load(machine, program(machine, os.getpid(), more, told=True), _NEW_LISTENER)
    if told >= 0:
        return None, told
    if _load(machine, program(machine, os.getpid(), more, told=False)) == 0:
        return None, None
    return f"the system allows no filter of system calls ({errno.errorcode[ctypes.get_errno()]})", None


def seal() -> None:
    """Give up to set limits and filters. To be called once `install` has made one."""
    machine = platform.machine()
    if _load(machine, sealed(machine, os.getpid())) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


def sealed(machine: str, process: int) -> bytes:
    """The filter that `seal` adds, as the kernel takes it; machine and process as for `program`."""
    rest = (_RETURN, 0, 0, _ALLOW)
    return _packed([*_start(machine), *_checked(machine, process, _SEALED, _ERROR | errno.EPERM), rest])


def program(machine: str, process: int, more: Iterable[str] = (), *, told: bool) -> bytes:
    """The filter as the kernel takes it.

    Args:
        machine: as `platform.machine` names it.
        process: id of the one that is filtered.
        more: names of calls that are allowed besides.
        told: whether refusals wait for an answer of whoever listens.
    """
    numbers = NUMBERS[machine]
    refuse = _NOTIFY if told else _ERROR | errno.EPERM
    steps: list[_Step] = [*_start(machine)]
    for number in sorted(numbers[name] for name in {*ALLOWED, *more} & numbers.keys()):
        steps += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    steps += _checked(machine, process, _RULES, refuse)
    # The flags of `clone3` are in memory, where no filter sees them; it is one of the new ones.
    steps += [(_JUMP_FROM, 0, 1, FIRST_NEW), (_RETURN, 0, 0, _ERROR | errno.ENOSYS), (_RETURN, 0, 0, refuse)]
    return _packed(steps)


def _start(machine: str) -> list[_Step]:
    return [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, _AUDIT[machine]),
        (_RETURN, 0, 0, _KILL),  # calls of 32 bits have other numbers
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_FROM, 0, 1, _X32),
        (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
    ]


def _checked(machine: str, process: int, rules: Mapping[str, Sequence[_Rule]], refuse: int) -> Iterable[_Step]:
    """Each call that has rules, with its number loaded before and after."""
    for name, conditions in rules.items():
        number = NUMBERS[machine].get(name)
        if number is None:
            continue
        body: list[_Step] = []
        for rule in conditions:
            fails = refuse if rule.error is None else _ERROR | rule.error
            place = _ARGUMENTS + 8 * rule.argument
            if rule.whole:
                body += [(_LOAD, 0, 0, place + 4), (_JUMP_EQUAL, 1, 0, 0), (_RETURN, 0, 0, fails)]
            body += [(_LOAD, 0, 0, place), (_AND, 0, 0, rule.mask)]
            values = [process if value == _OWN else value for value in rule.values]
            body += [(_JUMP_EQUAL, len(values) - at, 0, value) for at, value in enumerate(values)]
            body.append((_RETURN, 0, 0, fails))
        yield (_JUMP_EQUAL, 0, len(body) + 1, number)
        yield from body
        yield (_RETURN, 0, 0, _ALLOW)


def _packed(steps: Iterable[_Step]) -> bytes:
    """Instructions of 8 bytes: code, how far to jump if true and if false, operand."""
    return b"".join(struct.pack("<HBBI", *step) for step in steps)


def _load(machine: str, code: bytes, flags: int | None = None) -> int:
    """The answer of the system: 0, or a descriptor if flags ask for one, or less than 0."""
    kept = ctypes.create_string_buffer(code, len(code))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(code) // 8, ctypes.addressof(kept)))
    name, *numbers = ("prctl", _SET_SECCOMP, _MODE_FILTER) if flags is None else ("seccomp", _SET_FILTER, flags)
    call = ctypes.CDLL(None, use_errno=True).syscall
    loaded: int = call(*map(ctypes.c_long, (NUMBERS[machine][name], *numbers)), header, *map(ctypes.c_long, (0, 0)))
    return loaded
