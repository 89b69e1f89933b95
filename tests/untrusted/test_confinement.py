"""The kernel's filter of system calls and control group for a worker. No process is started."""

import struct

import pytest

from harness.untrusted import seccomp
from harness.untrusted.bounds import Bounds
from harness.untrusted.cgroups import worker_group
from harness.untrusted.seccomp import NUMBERS


def verdict(code, audit, number, arguments=()):
    """Return the action that a filter takes for a call."""
    data = struct.pack("=iIQ6Q", number, audit, 0, *arguments, *[0] * (6 - len(arguments)))
    steps, at, value = list(struct.iter_unpack("<HBBI", code)), 0, 0
    while True:
        (kind, yes, no, operand), at = steps[at], at + 1
        match kind:
            case 0x20:
                (value,) = struct.unpack_from("=I", data, operand)
            case 0x54:
                value &= operand
            case 0x15 | 0x35:
                at += yes if (value == operand if kind == 0x15 else value >= operand) else no
            case _:
                return operand


ALLOWED, REFUSED, UNKNOWN = 0x7FFF0000, 0x00050000 | 1, 0x00050000 | 38
OWN, OTHER = 1000, 1001


CALLS: dict[int, list[tuple]] = {
    ALLOWED: [
        ("read",),
        ("futex",),
        ("faccessat2",),
        ("kill", OWN),
        ("tgkill", OWN),
        ("prlimit64", 0),
        ("prlimit64", 1 << 32),  # the kernel uses the lower half
        ("clone", 0x3D0F00),
        ("clone", 0x7D0F00),  # the flags of threads in glibc and in musl
        ("fcntl", 3, 3),
        ("ioctl", 3, 0x5401),
        ("socketpair", 1, 1 | 0o2000000),
        ("sendto", 3, 1, 1, 0, 0),
    ],
    REFUSED: [
        ("socket",),
        ("memfd_create",),
        ("fchmodat",),
        ("kill", 0),
        ("kill", OTHER),
        ("tgkill", OTHER),
        ("prlimit64", OTHER),
        ("sched_getaffinity", OTHER),
        ("sched_setaffinity", 0),
        ("clone", 0x3D0F00 | 17),
        ("clone", 17),
        ("clone", 0x4000 | 0x100 | 17),  # the last one is vfork
        ("fcntl", 3, 10),
        ("socketpair", 1, 2),
        ("socketpair", 16, 1),
        ("sendto", 3, 1, 1, 0, 1 << 40),
    ],
    UNKNOWN: [("clone3",), ("pidfd_open",)],
    0x00050000 | 25: [("ioctl", 3, 0x5412)],
}


@pytest.mark.parametrize(("machine", "audit"), [("x86_64", 0xC000003E), ("aarch64", 0xC00000B7)])
@pytest.mark.parametrize(("comes", "call"), [(comes, call) for comes, calls in CALLS.items() for call in calls])
def test_the_filter_on_both_machines(machine, audit, comes, call):
    code = seccomp.program(machine, OWN, notify=False)
    assert verdict(code, audit, NUMBERS[machine][call[0]], call[1:]) == comes


@pytest.mark.parametrize(
    ("call", "arguments", "comes"),
    [
        ("prlimit64", (0, 7, 0), ALLOWED),
        ("prlimit64", (0, 7, 1 << 40), REFUSED),
        ("prctl", (22,), 0x00050000 | 22),
        ("read", (), ALLOWED),
    ],
)
def test_limits_stay_once_they_are_set(call, arguments, comes):
    for machine, audit in (("x86_64", 0xC000003E), ("aarch64", 0xC00000B7)):
        assert verdict(seccomp.sealing_program(machine, OWN), audit, NUMBERS[machine][call], arguments) == comes


def test_calls_of_other_kinds():
    """These are calls of another machine, and of x86_64's second set. Work names further calls that it needs."""
    code = seccomp.program("x86_64", OWN, notify=False)
    assert verdict(code, 0x40000003, 1) == 0x80000000
    assert verdict(code, 0xC000003E, 0x40000000) == UNKNOWN
    assert verdict(code, 0xC000003E, NUMBERS["x86_64"]["utimensat"]) == REFUSED
    more = seccomp.program("x86_64", OWN, ["utimensat"], notify=True)
    assert verdict(more, 0xC000003E, NUMBERS["x86_64"]["utimensat"]) == ALLOWED
    assert verdict(more, 0xC000003E, NUMBERS["x86_64"]["socket"]) == 0x7FC00000


@pytest.mark.parametrize(
    ("cgroup_line", "controllers", "expected_group"),
    [
        ("0::/user/app/shell.scope", {"user/app": "cpu memory pids"}, "user/app"),
        ("0::/user/app", {"user/app": "memory pids"}, "user/app"),
        ("0::/", {".": "memory pids"}, "."),
        ("0::/user/app", {"user/app": "memory"}, None),
        ("0::/user/app", {}, None),
        ("4:memory:/user", {"user": "memory pids"}, None),
    ],
)
def test_a_group_is_created_where_its_controllers_are_delegated(tmp_path, cgroup_line, controllers, expected_group):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"{cgroup_line}\n")
    mounts = ["1 0 0:1 / / rw - ext4 /dev/x rw", "2 1 0:2 / /cg rw shared:1 - cgroup2 cgroup2 rw"]
    mounts.append("3 1 0:3 / /fast rw - tmpfs tmpfs rw")
    (tmp_path / "proc/self/mountinfo").write_text("\n".join(mounts))
    (tmp_path / "cg/user/app/shell.scope").mkdir(parents=True)
    for where, text in controllers.items():
        (tmp_path / "cg" / where / "cgroup.subtree_control").write_text(text)
    bounds = Bounds(memory_bytes=1, scratch_bytes=1 << 40, threads=7)
    with worker_group(bounds, "/fast/scratch", system=tmp_path) as group:
        group.add_process(77)
        groups = [path for path in tmp_path.rglob("harness-untrusted-*") if path.is_dir()]
        assert [str(path.parent.relative_to(tmp_path / "cg")) for path in groups] == (
            [] if expected_group is None else [expected_group]
        )
        for path in groups:
            assert (path / "cgroup.procs").read_text() == "77"
            assert (path / "pids.max").read_text() == str(7 + 64)
            assert (path / "memory.max").read_text() == str(1 + (512 << 20) + (1 << 40))
            (path / "memory.events").write_text("oom 2\noom_kill 1\n")
        assert group.ran_out_of_memory() is (expected_group is not None)
        for path in groups:  # the kernel removes a group's files with the group
            for file in path.iterdir():
                file.unlink()
    assert list(tmp_path.rglob("harness-untrusted-*")) == []
