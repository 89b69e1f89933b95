"""The restrictions of a worker, and the error for each way in which it can end.

The workers run code like code that has taken over a worker.
"""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.errors import EngineError, LimitError, RequestError
from harness.storage.limits import parse_numbers
from harness.untrusted import confining, launching, seccomp
from harness.untrusted.bounds import Bounds, check_waived
from harness.untrusted.confining import before_imports
from harness.untrusted.launching import run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux can hold a worker to all limits"),
]
HAS_LANDLOCK = sys.platform == "linux" and ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) >= 1


@pytest.fixture(autouse=True)
def works(monkeypatch):
    """Let workers find `works.py`, which is beside this file."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))


@pytest.fixture(scope="module")
def attempts_result(tmp_path_factory):
    """Return the results of one worker's attempts, near a server and files outside its directory."""
    root = tmp_path_factory.mktemp("contained")
    own, outside, link = root / "own" / "file", root / "outside", root / "own" / "link"
    own.parent.mkdir()
    own.write_text("own")
    outside.write_text("outside")
    link.symlink_to(outside)
    heard = root / "heard"
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as local,
        pytest.MonkeyPatch.context() as patch,
    ):
        local.bind(str(heard))
        local.listen()
        for name in ("SECRET", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN"):
            patch.setenv(name, "secret")
        patch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))
        bounds = Bounds(open_files=64, scratch_bytes=1 << 20)
        request = {
            "outside": str(outside),
            "own": str(own),
            "link": str(link),
            "landlock": HAS_LANDLOCK,
            "port": server.getsockname()[1],
            "socket": str(heard),
            "open_files": bounds.open_files,
            "scratch_bytes": bounds.scratch_bytes,
        }
        finished = run("works:attempts", request, bounds=bounds, directories=[str(own.parent)])
    assert (finished.code, finished.stderr) == (0, "")
    assert finished.refused_calls[:2] == ("socket", "vfork")
    return json.loads(finished.output) | {"files left": sorted(path.name for path in root.rglob("*"))}


def test_permitted_and_refused_calls_of_a_worker(attempts_result):
    attempts = attempts_result["attempts"]
    assert len(attempts) >= 36
    assert {name: came for name, (comes, came) in attempts.items() if came != comes} == {}


def test_no_file_is_made_or_taken_away(attempts_result):
    assert attempts_result["files left"] == ["file", "heard", "link", "outside", "own"]


def test_sql_unlocks_nothing_and_reads_no_other_file(attempts_result):
    *refused, allowed = attempts_result["sql"].items()
    assert {text: came for text, came in refused if "Exception" not in str(came)} == {}
    assert allowed[1] == [["own"]]


def test_memory():
    with pytest.raises((LimitError, EngineError)) as told:
        run("works:memory", 1 << 30, bounds=Bounds(memory_bytes=256 << 20))
    assert "MemoryError" in told.value.message
    assert "268,435,456 bytes of memory were allowed by the option bounds.memory_bytes" in told.value.message
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("work", "request_", "bounds", "message"),
    [
        ("endless", "busy", {"cpu_seconds": 1}, "took too many seconds of processor time, 1 are allowed"),
        ("closed", None, {"wall_seconds": 1}, "took too many seconds, 1 are allowed"),
        ("memory", 101, {"output_bytes": 100}, "returned too many bytes, 100 are allowed"),
        ("threads", 100, {"threads": 50}, "started too many threads, 50 are allowed"),
        ("holds", "plain", {"scratch_bytes": 4 << 20}, "wrote too many bytes or files to its directory"),
        ("holds", "open", {"scratch_bytes": 4 << 20}, "holds too many bytes in files"),
        ("holds", "mapped", {"scratch_bytes": 4 << 20}, "holds too many bytes in files"),
        ("deep", 60, {"scratch_bytes": 4 << 20}, "wrote too many bytes or files to its directory"),
    ],
)
def test_a_worker_at_a_limit(monkeypatch, tmp_path, work, request_, bounds, message):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(LimitError) as told:
        run(f"works:{work}", request_, bounds=Bounds(**bounds))
    (name,) = bounds
    assert list(tmp_path.iterdir()) == []
    assert message in told.value.message
    assert told.value.message.endswith(f"raise the option bounds.{name}")


@pytest.mark.parametrize(
    ("work", "request_", "cause", "message"),
    [
        ("killed", signal.SIGKILL, "Killed", "was killed, possibly because memory ran out"),
        ("killed", signal.SIGSEGV, "Crashed", "crashed with SIGSEGV"),
        ("exits", 0, "Crashed", "ended with exit code 0"),
        ("exits", 1, "Crashed", "ended with exit code 1"),
        (
            "unlisted",
            None,
            "Crashed",
            "exit code 4; .* it was refused the system calls memfd_create, chmod: .* PermissionError",
        ),
        ("broken", None, "Crashed", r"ended with exit code 4; .* ValueError: no\\x1bgood"),
    ],
)
def test_a_worker_that_ends_otherwise(work, request_, cause, message):
    with pytest.raises(EngineError, match=message) as told:
        run(f"works:{work}", request_, bounds=Bounds())
    assert told.value.cause == cause
    assert "\n" not in str(told.value)
    assert "\x1b" not in str(told.value)


def test_the_exit_code_output_and_stderr_of_a_worker():
    request = {"text": "é", "code": 1, "said": "x" * 100_000}
    found = run("works:output_of", request, bounds=Bounds(output_bytes=2))
    assert (found.code, found.output.decode(), len(found.stderr)) == (1, "é", 1 << 16)


def test_modules_in_the_working_directory_are_not_those_of_a_worker(monkeypatch, tmp_path):
    (tmp_path / "works.py").write_text("raise SystemExit('taken over')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", ".", os.environ["PYTHONPATH"]]))
    assert run("works:output_of", {"text": "", "code": 0}, bounds=Bounds()).code == 0


def test_an_interrupted_read_leaves_no_process(monkeypatch, tmp_path):
    """Ctrl-C raises KeyboardInterrupt wherever this process waits."""
    begun: list[int] = []

    def interrupt(self, stream, data):
        begun.append(self._child.process.pid)
        raise KeyboardInterrupt

    monkeypatch.setattr(launching._Exchange, "_accept", interrupt)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        run("works:endless", "idle", bounds=Bounds())
    with pytest.raises(ProcessLookupError):
        os.kill(begun[0], 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("no_filter", "no_namespace", "unenforced"),
    [
        (None, None, {}),
        (None, "no namespaces", {}),
        ("no filter", None, {"processes": "no filter"}),
        ("no filter", "no namespaces", {"processes": "no filter", "network": "no namespaces, and no filter"}),
    ],
)
def test_a_network_is_given_up_by_either_of_two(monkeypatch, no_filter, no_namespace, unenforced):
    monkeypatch.setattr(seccomp, "install", lambda calls: (no_filter, None))
    monkeypatch.setattr(confining, "leave_network", lambda: no_namespace)
    for name in ("restrict_files", "drop_privileges", "_die_with_parent", "_gain_no_privileges"):
        monkeypatch.setattr(f"harness.untrusted.confining.{name}", lambda *_, **__: False)
    assert before_imports(1, [], "") == (unenforced, None)


CONFINED = """
import ctypes, os, struct, sys
number = 126 if os.uname().machine == "x86_64" else 91
capset = ctypes.CDLL(None).syscall(number, struct.pack("=Ii", 0x20080522, 0), bytes(24))
from harness.untrusted import confining
confining.leave_network = lambda: "no namespaces"
unenforced, listener = confining.before_imports(os.getppid(), [], sys.argv[1])
listener is None or os.close(listener)
print(capset, unenforced)
try:
    open(sys.argv[1] + "/../outside")
except PermissionError as error:
    print(error.strerror)
"""


@pytest.mark.skipif(not HAS_LANDLOCK, reason="this kernel has no Landlock")
def test_a_process_without_privileges_and_namespaces_is_confined_too(tmp_path):
    """This is the situation in a container, and on GitHub's runners."""
    (tmp_path / "outside").touch()
    (tmp_path / "scratch").mkdir()
    command = [sys.executable, "-c", CONFINED, str(tmp_path / "scratch")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("0 {}\nPermission denied\n", "")


@pytest.mark.parametrize(("system", "machine"), [("Darwin", "arm64"), ("Linux", "riscv64")])
def test_there_is_no_filter_for_other_systems(monkeypatch, system, machine):
    monkeypatch.setattr(seccomp.platform, "system", lambda: system)
    monkeypatch.setattr(seccomp.platform, "machine", lambda: machine)
    reason = f"system calls can be filtered only on Linux on x86_64 and aarch64, but this is {system} on {machine}"
    assert seccomp.install() == (reason, None)


def test_a_limit_that_cannot_be_enforced_refuses_the_read_unless_it_is_waived(monkeypatch, tmp_path):
    """The worker finds a different machine. Its output is then not read."""
    (tmp_path / "sitecustomize.py").write_text("import platform\nplatform.machine = lambda: 'vax'\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]]))
    work = ("works:output_of", {"text": "rows", "code": 0})
    with pytest.raises(RequestError) as told:
        run(*work, bounds=Bounds(), waived=["network"])
    assert "processes: system calls can be filtered only on Linux on x86_64 and aarch64" in told.value.message
    assert "Run it on Linux, in a container if necessary, or use the option waived to accept" in told.value.message
    assert run(*work, bounds=Bounds(), waived=["processes", "network"]).output == b"rows"


def test_a_system_without_processes_like_these(monkeypatch):
    monkeypatch.setattr(launching, "os", SimpleNamespace(name="nt"))
    with pytest.raises(RequestError, match="the limits need Linux; run it there"):
        run("works:output_of", None, bounds=Bounds())


def test_bounds_from_texts():
    assert parse_numbers(Bounds, "bound", {"open_files": "1_0"}) == Bounds(open_files=10)


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (lambda: parse_numbers(Bounds, "bound", {"speed": "1"}), "Unknown bound 'speed': there are memory_bytes, "),
        (lambda: parse_numbers(Bounds, "bound", {"open_files": "-1"}), "Invalid bound open_files='-1'"),
        (lambda: Bounds(open_files=0), "Invalid bound open_files=0: expected a whole number of at least 1"),
        (lambda: Bounds(open_files=True), "Invalid bound open_files=True"),
        (lambda: check_waived(["wall_seconds"]), "Cannot waive 'wall_seconds': expected one of memory_bytes, "),
        (lambda: check_waived("paths"), "Cannot waive 'paths'"),
    ],
)
def test_invalid_bounds_are_refused(refused, message):
    with pytest.raises(RequestError, match=message):
        refused()


def test_a_worker_ends_with_the_process_that_waits_for_it():
    """If the parent is not the process named in the request, that process has ended."""
    assert threading.current_thread() is threading.main_thread()
    script = (
        "import os, sys; from harness.untrusted.confining import _die_with_parent\n"
        "_die_with_parent(os.getppid()); print('waits', flush=True); _die_with_parent(1 << 30); print('lives on')"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.returncode) == ("waits\n", 1)
