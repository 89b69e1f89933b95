"""Directories that killed processes leave behind, and processes that run out of memory."""

import os
import subprocess
import sys

import pytest

from harness.cli import main, terminal
from harness.untrusted import launching

pytestmark = pytest.mark.skipif(os.name != "posix", reason="no worker runs on Windows")


@pytest.fixture(autouse=True)
def temporary(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_directories_that_nobody_holds_go_with_the_next_worker(tmp_path):
    """SIGKILL leaves directories of any depth, also unreadable ones. Directories in use and of other users stay."""
    deep = tmp_path / f"{launching.PREFIX}killed"
    inner = os.path.join(deep, *["d" * 100] * 30)
    os.makedirs(inner)
    for name in ("file", "other"):
        with open(os.path.join(inner, name), "wb"):
            pass
    os.chmod(os.path.dirname(inner), 0)
    (tmp_path / "else").mkdir()
    (tmp_path / f"{launching.PREFIX}link").symlink_to(tmp_path / "else")
    (tmp_path / f"{launching.PREFIX}file").touch()
    with launching.worker_directory() as first:
        with launching.worker_directory() as second:
            assert {os.path.basename(path) for path in (first, second)} | {
                "else",
                f"{launching.PREFIX}link",
                f"{launching.PREFIX}file",
            } == set(os.listdir(tmp_path))
        assert not os.path.exists(second)
        assert os.path.exists(first)


HELD = """
import os, sys, tempfile
tempfile.tempdir = sys.argv[1]
from harness.untrusted.launching import worker_directory
with worker_directory():
    os.kill(os.getpid(), 9)
"""


def test_a_killed_process_leaves_a_directory_until_the_next(tmp_path):
    subprocess.run([sys.executable, "-c", HELD, str(tmp_path)], check=False)
    assert len(os.listdir(tmp_path)) == 1
    with launching.worker_directory() as path:
        assert os.listdir(tmp_path) == [os.path.basename(path)]
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("limit", [200 << 20, 400 << 20, 500 << 20])
def test_too_little_address_space_is_one_line(monkeypatch, capsys, limit):
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limit, limit))
    assert main(["info", "nothing"]) == 2
    assert capsys.readouterr().err == (
        f"error: Cannot run in {limit:,} bytes of address space: harness needs at least 536,870,912; raise the limit "
        "of the shell, `ulimit -v`, or of the service\n"
    )


def test_libraries_spare_address_space_where_there_is_little(monkeypatch):
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda kind: (2 << 30, 2 << 30))
    monkeypatch.setattr(os, "environ", {"OMP_NUM_THREADS": "8"})
    assert main(["--version"]) == 0
    assert (os.environ["MALLOC_ARENA_MAX"], os.environ["OMP_NUM_THREADS"]) == ("2", "8")


@pytest.mark.parametrize(
    "problem",
    [
        MemoryError(),
        OSError(12, "Cannot allocate memory"),
        ImportError("x.so: failed to map segment from shared object"),
        RuntimeError("can't start new thread"),
    ],
)
def test_an_out_of_memory_error_is_one_line(capsys, problem):
    terminal.failure(problem)
    said = capsys.readouterr().err
    assert said.startswith(f"error: The process ran out of memory ({type(problem).__name__}: ")
    assert said.count("\n") == 1
