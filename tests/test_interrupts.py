"""Ctrl-C in a program that uses harness raises a KeyboardInterrupt, and the next call works."""

import subprocess
import sys

import pytest

from harness.storage.limits import contained

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT is sent to a process there")


def test_interrupts_of_duckdb_become_keyboard_interrupts():
    with pytest.raises(KeyboardInterrupt), contained():
        raise RuntimeError("Query interrupted")
    with pytest.raises(RuntimeError, match="no such thing"), contained():
        raise RuntimeError("no such thing")


AT_IMPORT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import harness
def heard(event, arguments):
    if event == "import" and arguments[0] == sys.argv[1] and not sent:
        sent.append(arguments[0])
        os.kill(os.getpid(), signal.SIGINT)
sent = []
sys.addaudithook(heard)
try:
    harness.sql("SELECT 1 AS x").fetchall()
except KeyboardInterrupt:
    print("interrupted", len(sent))
print(harness.sql("SELECT 1 AS x").fetchall())
"""


@pytest.mark.parametrize("module", ["numpy.exceptions", "pyarrow.util", "duckdb"])
def test_an_import_that_ctrl_c_meets_is_whole(module):
    done = subprocess.run([sys.executable, "-c", AT_IMPORT, module], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "interrupted 1\n[(1,)]\n")


STALLED = """
import signal, threading
from harness.storage.threads import read_ahead
raised, main = threading.Event(), threading.get_ident()
def raise_once(*_):
    if not raised.is_set():
        raised.set()
        raise KeyboardInterrupt
signal.signal(signal.SIGINT, raise_once)
started = threading.Barrier(2)
def read(item):
    started.wait()
    while item == "a" and not raised.wait(0.01):  # a signal is lost if the main thread just starts to wait
        signal.pthread_kill(main, signal.SIGINT)
    threading.Event().wait()
try:
    with read_ahead(read, ["a", "b"]) as following:
        following("a")
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_does_not_wait_for_reads_that_stall():
    command = [sys.executable, "-c", STALLED]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "interrupted\n")
