"""Reads in a process that was forked while other threads held shared locks."""

import os
import signal
import threading

import pytest

import harness
from harness.storage import threads
from harness.writing.delta.builder import DeltaTable

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no process is forked here"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]


def in_a_child(action):
    """Return the exit code of a child process that runs an action. A signal ends it if it hangs."""
    child = os.fork()
    if child == 0:
        signal.alarm(5)
        try:
            action()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def meanwhile(hold, action):
    """Return the result of an action while another thread is inside a block."""
    inside, done = threading.Event(), threading.Event()

    def wait():
        inside.set()
        done.wait(10)

    thread = threading.Thread(target=hold, args=(wait,))
    thread.start()
    try:
        assert inside.wait(10)
        return action()
    finally:
        done.set()
        thread.join()


def holding(lock):
    def hold(wait):
        with lock:
            wait()

    return hold


def test_a_read_in_a_child_while_threads_of_its_parent_read(tmp_path):
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))

    def read():
        assert harness.open_table(str(tmp_path / "t")).snapshot().to_arrow().num_rows == 1

    read()
    assert meanwhile(holding(threads._tracking), lambda: in_a_child(read)) == 0
