"""Programs that this process starts: whatever they do with their pipes, a time limit ends them and their children."""

import os
import select
import sys
from contextlib import contextmanager

import pyarrow as pa
import pytest

from harness.errors import EngineError
from harness.suite.reader import TableAt
from harness.suite.workers import BROKEN_PROTOCOL, CRASHED, TIMED_OUT, Worker
from harness.untrusted.children import Child

READER = """
import json, os, subprocess, sys, time

def answer(**values):
    print(json.dumps(values), flush=True)

def start_another():
    '''A process in a session of its own, which holds the pipes of this process.'''
    started = subprocess.Popen(["sleep", "600"], start_new_session=True)
    with open(sys.argv[1], "w") as file:
        file.write(str(started.pid))

json.loads(sys.stdin.readline())
answer(version="1")
code = sys.argv[2]
for line in sys.stdin if code.startswith("asked") else [None]:
    exec(code)
"""
RUNNING = "asked = json.loads(line); "
ROWS = (
    "import pyarrow as pa; t = pa.table({'id': [1]}); "
    "w = pa.ipc.new_stream(asked['output'], t.schema); w.write(t); w.close(); "
)


@pytest.fixture
def reader(tmp_path):
    """Read a table with a program that runs code, once or for each request. The request may be long."""

    @contextmanager
    def opened(code, limit=60.0):
        program = tmp_path / "reader.py"
        program.write_text(READER, "utf-8")
        worker = Worker("mine", [sys.executable, str(program), str(tmp_path / "pid"), code], time_limit_s=limit)
        try:
            yield lambda name: worker.read(TableAt(format="delta", location="/t"), columns=(name,), where=None)
        finally:
            worker.close()

    return opened


def has_ended(process):
    """Return whether a process ends within ten seconds."""
    try:
        opened = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(opened, select.POLLIN)
        return bool(poll.poll(10_000))
    finally:
        os.close(opened)


@pytest.mark.skipif(sys.platform != "linux", reason="processes that left their group are found on Linux")
@pytest.mark.parametrize(
    ("code", "name", "cause", "message"),
    [
        pytest.param("start_another(); time.sleep(600)", "id", TIMED_OUT, "time limit", id="hangs"),
        pytest.param("start_another(); time.sleep(600)", "x" * 200_000, TIMED_OUT, "time limit", id="reads nothing"),
        pytest.param(f"{RUNNING}start_another(); os._exit(3)", "id", CRASHED, "ended with exit code 3", id="ends"),
        pytest.param(
            f"{RUNNING}start_another(); answer(x=1)", "id", BROKEN_PROTOCOL, "breaks the protocol", id="nonsense"
        ),
    ],
)
def test_a_reader_ends_with_all_that_it_started(reader, tmp_path, code, name, cause, message):
    limit = 0.5 if cause == TIMED_OUT else 60.0
    with reader(code, limit) as read, pytest.raises(EngineError, match=message) as caught:
        read(name)
    assert caught.value.cause == cause
    assert has_ended(int((tmp_path / "pid").read_text("utf-8")))


@pytest.mark.parametrize(
    ("code", "message"),
    [
        pytest.param("while True: sys.stdout.write('x' * 65536)", "more than 1,048,576 bytes", id="a line"),
        pytest.param("while True: sys.stdout.write(chr(10) * 65536)", "not JSON", id="lines"),
        pytest.param(
            f"{RUNNING}answer(id=asked['id'], error='e', message='m' * (1 << 20))",
            "more than 1,048,576",
            id="an answer",
        ),
        pytest.param(
            f"{RUNNING}answer(id=asked['id'], error='e' + '[' * 100_000, message=chr(0xD800))", "e\\[\\[", id="a class"
        ),
    ],
)
def test_the_output_of_a_reader_is_bounded(reader, code, message):
    with reader(code) as read, pytest.raises(EngineError, match=message):
        read("id")


def test_output_on_standard_error_blocks_a_reader_only_until_the_next_request(reader):
    code = f"{RUNNING}{ROWS}sys.stderr.write('x' * (8 << 20)); answer(id=asked['id'], rows=asked['output'])"
    with reader(code) as read:
        assert [read("id"), read("x" * 200_000)] == [pa.table({"id": [1]})] * 2


def test_the_last_words_of_a_reader_are_shown(reader):
    code = f"{RUNNING}sys.stderr.write('x' * (1 << 20) + chr(10) + 'out of luck'); sys.stderr.flush(); os._exit(1)"
    with reader(code) as read, pytest.raises(EngineError, match=r"ended with exit code 1: x+ \| out of luck"):
        read("id")


def test_a_child_that_is_not_listened_to_ends():
    """The program waits until its pipes have space."""
    child = Child.start([sys.executable, "-c", "while True: print('x' * 65536)"], dict(os.environ))
    assert child.receive(60.0) is not None
    child.send(b"x" * (1 << 20))
    child.end()
    assert child.process.returncode is not None
