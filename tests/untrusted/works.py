"""Work that test workers do in place of a read, like code that has taken over a worker."""

import ctypes
import errno
import fcntl
import json
import mmap
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

from harness.untrusted.seccomp import NUMBERS

SECRETS = {"SECRET", "PATH", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN"}


def attempts(request, output):
    """Return the expected and the actual result of each attempt: a value, or the name of its error."""
    from harness.engines.duckdb.instance import connect, cursor

    outside, own, scratch = request["outside"], request["own"], os.environ["TMPDIR"]
    tried = {
        "connect to this machine": ("EPERM", lambda: socket.create_connection(("127.0.0.1", request["port"]), 1)),
        "connect to a local socket": ("EPERM", lambda: socket.socket(socket.AF_UNIX).connect(request["socket"])),
        "run a program": ("EPERM", lambda: subprocess.run([sys.executable, "-c", ""], check=False)),
        "become a program": ("EPERM", lambda: os.execv(sys.executable, [sys.executable, "-c", ""])),
        "fork": ("EPERM", os.fork),
        "end the parent": ("EPERM", lambda: os.kill(os.getppid(), signal.SIGTERM)),
        "end its group": ("EPERM", lambda: os.kill(0, 0)),
        "limit the parent": ("EPERM", lambda: _call("prlimit64", os.getppid(), resource.RLIMIT_CPU, bytes(16), 0)),
        "see its limits": (
            "EPERM",
            lambda: _call("prlimit64", os.getppid(), resource.RLIMIT_CPU, 0, bytes(16)),
        ),
        "renice the parent": ("EPERM", lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 5)),
        "move the parent": ("EPERM", lambda: os.sched_setaffinity(os.getppid(), {0})),
        "have the parent signalled": ("EPERM", lambda: fcntl.fcntl(1, 8, os.getppid())),  # F_SETOWN
        "take memory that has no name": ("EPERM", lambda: os.memfd_create("x")),
        "take memory that stays": ("EPERM", lambda: _call("shmget", 0, 4096, 0o1600)),
        "change who may use a file": ("EPERM", lambda: os.chmod(outside, 0o777)),
        "change a file's times": ("EPERM", lambda: os.utime(own)),
        "change a file's attributes": ("EPERM", lambda: os.setxattr(own, "user.x", b"")),
        "change a file's flags": ("ENOTTY", lambda: _with(own, lambda at: fcntl.ioctl(at, 0x40086602, bytes(8)))),
        "lock a file": ("EPERM", lambda: _with(own, lambda at: fcntl.flock(at, fcntl.LOCK_SH))),
        "outlive the parent": ("EINVAL", lambda: _call("prctl", 1, 0, 0, 0, 0)),
        "make a process by clone": ("EPERM", lambda: _call("clone", signal.SIGCHLD, 0, 0, 0, 0)),
        "make a process by clone3": ("ENOSYS", lambda: _call("clone3", bytes(64), 64)),
        "make a namespace with a thread": ("EPERM", lambda: _call("clone", 0x3D0F00 | 0x40000000, 0, 0, 0, 0)),
        "send a message to a socket": ("EPERM", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)),
        "ring of calls": ("ENOSYS", lambda: _call("io_uring_setup", 1, bytes(120))),
        "end a thread of the parent": ("EPERM", lambda: _signal_thread(os.getppid())),
        "signal a thread of its own": (None, lambda: _signal_thread(os.getpid())),
        "raise a limit": ("ValueError", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 16, 1 << 16))),
        "a core file": (0, lambda: resource.getrlimit(resource.RLIMIT_CORE)[1]),
        "variables": (
            [],
            lambda: sorted(SECRETS & set(os.environ)),
        ),
        "read a file of its own": ("own", lambda: _text(own)),
        "write to scratch": ("written", lambda: _write(f"{scratch}/file")),
        "a thread": (["run"], _in_thread),
        "many files": ("EMFILE", lambda: _open(request["open_files"])),
        "a large file": ("EFBIG", lambda: _write(f"{scratch}/large", request["scratch_bytes"] + 1)),
    }
    if request["landlock"]:
        tried |= {
            "read a file outside": ("EACCES", lambda: _text(outside)),
            "read the parent's variables": ("EACCES", lambda: _text(f"/proc/{os.getppid()}/environ")),
            "write outside": ("EACCES", lambda: _write(f"{outside}.new")),
            "write to its own": ("EACCES", lambda: _write(f"{own}.new")),
        }
    sql = {
        "SET memory_limit = '9GB'": cursor(),
        "SET lock_configuration = false": cursor(),
        "RESET allowed_directories": cursor(),
        "SET enable_external_access = true": cursor(),
        f"FROM read_text('{outside}')": connect(),
        f"FROM read_text('{own}/../../{os.path.basename(outside)}')": cursor(),
        f"FROM read_text('{request['link']}')": cursor(),
        f"ATTACH '{outside}.db'": cursor(),
        f"COPY (SELECT 1) TO '{outside}.csv'": cursor(),
        "INSTALL httpfs": cursor(),
        "LOAD httpfs": cursor(),
        "FROM read_csv('https://127.0.0.1/x.csv')": cursor(),
        f"FROM glob('{os.path.dirname(outside)}/*')": cursor(),
        f"SELECT content FROM read_text('{own}')": cursor(),
    }
    found = {name: [comes, _outcome(attempt)] for name, (comes, attempt) in tried.items()}
    came = {text: _outcome(lambda: at.execute(text).fetchall()) for text, at in sql.items()}  # noqa: B023
    output.write(json.dumps({"attempts": found, "sql": came}).encode())
    return 0


def memory(request, output):
    output.write(bytearray(request))
    return 0


def threads(request, output):
    threading.stack_size(1 << 16)
    for _ in range(request):
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    time.sleep(1000)


def holds(request, output):
    """Write more bytes than permitted, in files that are each within the bound."""
    kept = []
    for number in range(8):
        path = f"{os.environ['TMPDIR']}/{number}"
        file = os.open(path, os.O_RDWR | os.O_CREAT)
        os.write(file, bytes(1 << 20))
        if request in ("open", "mapped"):
            os.unlink(path)
        if request == "mapped":
            kept.append(mmap.mmap(file, 4096))
        if request != "open":
            os.close(file)
    time.sleep(1000)


def deep(request, output):
    """Create a path that is too long for the system, level by level, with unreadable directories."""
    at = os.open(os.environ["TMPDIR"], os.O_RDONLY)
    for _ in range(request):
        os.mkdir("d" * 100, 0o300, dir_fd=at)
        at, above = os.open("d" * 100, os.O_PATH, dir_fd=at), at
        os.close(above)
    time.sleep(1000)


def unlisted(request, output):
    """Make a system call that no read makes, and fail."""
    try:
        os.memfd_create("x")
    finally:
        _outcome(lambda: os.chmod("/", 0))


def endless(request, output):
    sys.stderr.write("begun")
    sys.stderr.flush()
    while request == "busy":
        pass
    time.sleep(1000)


def closed(request, output):
    """Close the output, and continue to run."""
    sys.stdout.flush()
    os.close(1)
    os.close(2)
    time.sleep(1000)


def killed(request, output):
    os.kill = None
    signal.raise_signal(request)
    time.sleep(1000)


def output_of(request, output):
    output.write(request["text"].encode())
    sys.stderr.write(request.get("said", ""))
    return request["code"]


def exits(request, output):
    os._exit(request)


def broken(request, output):
    raise ValueError("no\x1bgood")


def _outcome(attempt):
    try:
        return attempt()
    except OSError as error:
        return errno.errorcode[error.errno]
    except Exception as error:
        return type(error).__name__


def _text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def _write(path, size=1):
    with open(path, "wb") as file:
        file.truncate(size)
    return "written"


def _open(number):
    files = []
    try:
        for _ in range(number):
            files.append(open(os.devnull, "rb"))  # noqa: SIM115
    finally:
        for file in files:
            file.close()


def _signal_thread(process):
    """Send signal 0 to the main thread of a process. It does nothing, but needs permission."""
    _call("tgkill", process, process, 0)
    return None


def _call(name, *arguments):
    number = NUMBERS[os.uname().machine][name]
    given = [each if isinstance(each, bytes) else ctypes.c_long(each) for each in (number, *arguments)]
    if ctypes.CDLL(None, use_errno=True).syscall(*given) < 0:
        raise OSError(ctypes.get_errno(), name)
    return "done"


def _with(path, action):
    with open(path, "rb") as file:
        action(file)
    return "done"


def _in_thread():
    done = []
    thread = threading.Thread(target=lambda: done.append("run"))
    thread.start()
    thread.join()
    return done
