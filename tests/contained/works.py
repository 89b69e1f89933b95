"""What workers of the tests do, in place of a read: as code would that has taken over a worker."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time


def attempts(request, output):
    """What comes of each attempt: a value, or the name of its error."""
    from harness.engines.shared.duckdb_instance import connect, cursor

    outside, own, scratch = request["outside"], request["own"], os.environ["TMPDIR"]
    tried = {
        "connect to this machine": lambda: socket.create_connection(("127.0.0.1", request["port"]), 1),
        "connect to a local socket": lambda: socket.socket(socket.AF_UNIX).connect(request["socket"]),
        "run a program": lambda: subprocess.run([sys.executable, "-c", ""], check=False),
        "become a program": lambda: os.execv(sys.executable, [sys.executable, "-c", ""]),
        "fork": os.fork,
        "end the parent": lambda: os.kill(os.getppid(), signal.SIGTERM),
        "end a thread of the parent": lambda: _signal_thread(os.getppid()),
        "signal a thread of its own": lambda: _signal_thread(os.getpid()),
        "raise a limit": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 16, 1 << 16)),
        "a core file": lambda: resource.getrlimit(resource.RLIMIT_CORE)[1],
        "variables": lambda: sorted(set(os.environ) & {"SECRET", "PATH", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN"}),
        "read a file of its own": lambda: _text(own),
        "write to scratch": lambda: _write(f"{scratch}/file"),
        "a thread": _in_thread,
        "many files": lambda: _open(request["open_files"]),
        "a large file": lambda: _write(f"{scratch}/large", request["scratch_bytes"] + 1),
    }
    if request["landlock"]:
        tried |= {
            "read a file outside": lambda: _text(outside),
            "read the parent's variables": lambda: _text(f"/proc/{os.getppid()}/environ"),
            "write outside": lambda: _write(f"{outside}.new"),
            "write to its own": lambda: _write(f"{own}.new"),
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
    found = {name: _outcome(attempt) for name, attempt in tried.items()}
    found["sql"] = {text: _outcome(lambda: at.execute(text).fetchall()) for text, at in sql.items()}  # noqa: B023
    output.write(json.dumps(found).encode())
    return 0


def memory(request, output):
    output.write(bytearray(request))
    return 0


def endless(request, output):
    sys.stderr.write("begun")
    sys.stderr.flush()
    while request == "busy":
        pass
    time.sleep(1000)


def closed(request, output):
    """Says that it is done, and is not."""
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
    """Signal 0 goes to the main thread of a process, and does nothing but be allowed."""
    call = {"x86_64": 234, "aarch64": 131}[os.uname().machine]  # tgkill
    if ctypes.CDLL(None, use_errno=True).syscall(call, process, process, 0) != 0:
        raise OSError(ctypes.get_errno(), "tgkill")


def _in_thread():
    done = []
    thread = threading.Thread(target=lambda: done.append("run"))
    thread.start()
    thread.join()
    return done
