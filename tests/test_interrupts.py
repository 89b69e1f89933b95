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
