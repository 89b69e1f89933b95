"""Engines in separate processes, as the starting process sees them."""

import sys
from contextlib import ExitStack

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.errors import EngineError, RequestError, UnsupportedError
from harness.suite import readers
from harness.suite.reader import At, TableAt
from harness.suite.readers import SERVER, OtherReader, ReaderOptions, interpreter_of, open_engine, split_settings
from harness.suite.scenarios.model import ResolvedChanges
from harness.suite.workers import BROKEN_PROTOCOL, CRASHED, NOT_INSTALLED, TIMED_OUT, Worker

pytestmark = pytest.mark.slow


@pytest.fixture
def table(tmp_path):
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "a.parquet")
    return TableAt(format="delta", location=str(tmp_path))


@pytest.fixture
def opened():
    with ExitStack() as resources:
        yield lambda name, limit=60.0: open_engine(f"fake_engines:{name}", ReaderOptions(time_limit_s=limit), resources)


@pytest.fixture
def script(tmp_path):
    def worker(text, limit=60.0):
        path = tmp_path / "script.py"
        path.write_text(text, "utf-8")
        made = Worker("scripted", [sys.executable, str(SERVER), str(path)], time_limit_s=limit)
        made_workers.append(made)
        return made

    made_workers: list[Worker] = []
    yield worker
    for made in made_workers:
        made.close()


def read(engine, table, where=None):
    return engine.read(table, columns=None, where=where)


@pytest.mark.parametrize(
    ("name", "cause", "message"),
    [
        pytest.param("Refusing", "ValueError", "this table is odd", id="refusal"),
        pytest.param("Crashing", CRASHED, "crashed with SIGKILL", id="crash"),
        pytest.param("Hanging", TIMED_OUT, "time limit: no answer within 0.5 s", id="hang"),
        pytest.param("Panicking", CRASHED, "panicked: Panic: index out of bounds", id="panic"),
    ],
)
def test_an_engine_fails_and_the_next_read_is_served(opened, table, monkeypatch, name, cause, message):
    engine = opened(name, 0.5 if name == "Hanging" else 60.0)
    with pytest.raises(EngineError, match=message) as caught:
        read(engine, table)
    assert caught.value.cause == cause
    if name in ("Crashing", "Hanging"):
        monkeypatch.setattr(engine, "_limit", 60.0)
        assert read(engine, table, where="true").num_rows == 2


def test_a_script_gets_the_selector_and_may_write_its_own_file(script, tmp_path):
    worker = script(f"""
import pyarrow as pa
NAME = "mine"
def version(): return "2"
def read(table, columns, where):
    rows = pa.table({{"said": [f"{{table.format}} {{table.at.kind}} {{table.at.value}} {{columns}} {{where}}"]}})
    with pa.ipc.new_file({str(tmp_path / "own.arrow")!r}, rows.schema) as writer:
        writer.write_table(rows)
    return {str(tmp_path / "own.arrow")!r}
""")
    at = TableAt(format="iceberg", location="/x", metadata_path="/x/m.json", at=At("snapshot_id", 2**62 + 1))
    rows = worker.read(at, columns=("a",), where="a > 1")
    assert worker.name == "mine"
    assert rows.to_pylist() == [{"said": f"iceberg snapshot_id {2**62 + 1} ('a',) a > 1"}]


def test_a_script_gets_the_range_of_changes(script):
    worker = script("""
import pyarrow as pa
def version(): return "2"
def read(table, columns, where): raise NotImplementedError
def changes(table, range, columns, where):
    parts = (range.from_, range.to, range.from_inclusive, range.mode, range.keys, columns, where)
    return pa.table({"said": [str(parts)]})
""")
    changes = ResolvedChanges(from_=2**62 + 1, to="main", mode="updates", keys=("id",))
    rows = worker.changes(TableAt(format="iceberg", location="/x"), changes, columns=("a",), where="a > 1")
    assert rows.to_pylist() == [{"said": f"({2**62 + 1}, 'main', False, 'updates', ['id'], ('a',), 'a > 1')"}]


def says(text, code):
    """Return a statement with which a reader writes a text and a trace of nine frames, and exits."""
    trace = "\n".join([text, *(f"  frame {number}" for number in range(9))])
    return f"print({trace!r}, file=sys.stderr, flush=True); os._exit({code})"


@pytest.mark.parametrize(
    ("ending", "message"),
    [
        pytest.param("os.kill(os.getpid(), 9)", r"crashed with SIGKILL \[", id="signal"),
        pytest.param("ctypes.string_at(0)", r"with SIGSEGV: Fatal Python error: Segmentation fault \|", id="segv"),
        pytest.param(says("bad news", 3), r"code 3: frame 6 \| frame 7 \| frame 8 \[", id="last lines"),
        pytest.param("os._exit(134)", r"ended with exit code 134 \(SIGABRT\)", id="of a shell"),
        pytest.param(says("panic: index 7", 2), r"code 2: panic: index 7 \| frame 0 \| frame 1 \[", id="Go"),
        pytest.param(says("Exception in thread x: y", 1), r"code 1: Exception in thread x: y \| frame 0", id="Java"),
        pytest.param(says("thread 'main' panicked at a.rs:1:2:", 101), r"101: thread 'main' panicked at", id="Rust"),
    ],
)
def test_a_crash_shows_its_cause(script, table, ending, message):
    worker = script(f"""
import ctypes, os, sys
def version(): return "1"
def read(table, columns, where): {ending}
""")
    with pytest.raises(EngineError, match=message) as caught:
        read(worker, table)
    assert caught.value.cause == CRASHED


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "import sys\nprint('Exception in thread main: no jar', file=sys.stderr)\nraise ValueError('gone')",
            "ValueError: gone: Exception in thread main: no jar",
            id="cause",
        ),
        pytest.param("import no_such_package", "No module named 'no_such_package'", id="import"),
        pytest.param("def version(): raise ImportError('extension')", "extension", id="version"),
        pytest.param("def version(:", "SyntaxError", id="syntax"),
    ],
)
def test_an_engine_that_is_not_there_is_not_installed(script, text, message):
    with pytest.raises(RequestError, match=message) as caught:
        script(text)
    assert caught.value.cause == NOT_INSTALLED


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("duckdb", "called duckdb: this is the name of an engine"),
        ("spark", "called spark: this is the name of an engine"),
        ("oracle", "called oracle: this is the name of an engine"),
        ("DuckDB", "called DuckDB: this is the name of an engine"),
        ("\x1b[2J", "printable characters"),
        ("x" * 1001, "up to 1000 printable"),
    ],
)
def test_a_reader_must_not_have_the_name_of_an_engine(script, name, message):
    """If it had the name of an engine, a comparison would run harness's engine, and reports would mix the two."""
    with pytest.raises(RequestError, match=message) as caught:
        script(f"NAME = {name!r}\ndef version(): return '1'")
    assert caught.value.cause != NOT_INSTALLED


def test_a_program_is_not_named_like_an_engine(tmp_path):
    program = tmp_path / "duckdb"
    program.write_text(f"""#!{sys.executable}\nprint('{{"version": "1"}}', flush=True)\ninput()\n""", "utf-8")
    program.chmod(0o755)
    with ExitStack() as resources:
        with pytest.raises(RequestError, match="called duckdb: this is the name of an engine"):
            open_engine(f"exec:{program}", ReaderOptions(), resources)
        assert open_engine(f"mine=exec:{program}", ReaderOptions(), resources).name == "mine"


def test_an_interpreter_without_pyarrow_is_reported_before_any_read(tmp_path):
    """Otherwise its failure to return rows would look like the refusal of a broken table."""
    (tmp_path / "pyarrow.py").write_text("raise ImportError", "utf-8")
    (tmp_path / "script.py").write_text("def version(): return '2'", "utf-8")
    command = [sys.executable, str(SERVER), str(tmp_path / "script.py")]
    with pytest.raises(RequestError, match="lacks pyarrow") as caught:
        Worker("mine", command, time_limit_s=1, environment={"PYTHONPATH": str(tmp_path)})
    assert caught.value.cause == NOT_INSTALLED


def test_rows_that_are_no_arrow_data_are_nonsense(script, table, tmp_path):
    (tmp_path / "junk").write_bytes(b"junk")
    worker = script(f"def version(): return '2'\ndef read(table, columns, where): return {str(tmp_path / 'junk')!r}")
    with pytest.raises(EngineError, match="Cannot read the rows") as caught:
        read(worker, table)
    assert caught.value.cause == BROKEN_PROTOCOL


def test_an_interpreter_that_is_not_there(tmp_path):
    with pytest.raises(RequestError, match="does not start"):
        Worker("mine", [str(tmp_path / "python"), "x.py"], time_limit_s=1)


PRESENT = OtherReader(name="two-words", modules=("pyarrow",), install="pyarrow")
ABSENT = OtherReader(name="absent", modules=("pyarrow", "no_such"), install="nosuch")


@pytest.mark.parametrize(
    ("variable", "interpreters", "expected"),
    [
        (None, {}, sys.executable),
        ("/env/python", {}, "/env/python"),
        ("/env/python", {"two-words": "/given/python"}, "/given/python"),
    ],
)
def test_an_interpreter_comes_from_the_argument_the_environment_or_sys_executable(
    monkeypatch, variable, interpreters, expected
):
    monkeypatch.delenv("HARNESS_PYTHON_TWO_WORDS", raising=False)
    if variable:
        monkeypatch.setenv("HARNESS_PYTHON_TWO_WORDS", variable)
    assert interpreter_of(PRESENT, interpreters) == expected


def test_the_error_for_a_missing_reader_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.delenv("HARNESS_PYTHON_ABSENT", raising=False)
    monkeypatch.setenv("HARNESS_READERS", str(tmp_path))
    with pytest.raises(
        RequestError, match="no_such is not installed; set HARNESS_PYTHON_ABSENT to an interpreter"
    ) as caught:
        interpreter_of(ABSENT, {})
    assert caught.value.cause == NOT_INSTALLED
    with pytest.raises(RequestError, match=r"iceberg-go: it is not built; .* nox -s readers -- native") as caught:
        open_engine("iceberg-go", ReaderOptions(), ExitStack())
    assert caught.value.cause == NOT_INSTALLED


SETTABLE = """
import os, sys
import pyarrow as pa

with open(os.path.join(os.path.dirname(__file__), "starts"), "a") as starts:
    starts.write("started\\n")
if "threads=many" in sys.argv:
    raise ValueError("threads: 'many' is no number")

def version(): return "1, " + " ".join(sys.argv[1:])

def read(table, columns, where):
    if where is not None:
        raise NotImplementedError
    return pa.table({"process": [os.getpid()]})
"""


@pytest.fixture
def settable(tmp_path, monkeypatch):
    """Open the reader `mine`, which a script serves and which caches files between reads."""
    path = tmp_path / "settable.py"
    path.write_text(SETTABLE, "utf-8")
    monkeypatch.setattr(readers, "SCRIPT", path)
    monkeypatch.setattr(readers, "READERS", {"mine": OtherReader("mine", (), "", keeps_files=True)})
    with ExitStack() as resources:
        yield lambda name: open_engine(name, ReaderOptions(time_limit_s=60), resources)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("duckdb-iceberg", ("duckdb-iceberg", ())),
        ("duckdb-iceberg:threads=1", ("duckdb-iceberg", ("threads=1",))),
        ("chdb:a=1:b=x:y", ("chdb", ("a=1", "b=x:y"))),
        ("spark-iceberg:spark.sql.x.y=", ("spark-iceberg", ("spark.sql.x.y=",))),
        ("module:Class", ("module:Class", ())),
        ("mine=exec:program a=b", ("mine=exec:program a=b", ())),
    ],
)
def test_settings_follow_the_name_of_a_reader(name, parts):
    assert split_settings(name) == parts


def test_a_reader_gets_and_uses_its_settings(settable):
    reader = settable("mine:threads=1:memory=1GB")
    assert (reader.name, reader.version()) == ("mine:threads=1:memory=1GB", "1, mine threads=1 memory=1GB")
    assert (settable("mine").name, settable("mine").version()) == ("mine", "1, mine")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mine:threads=many", "Cannot use the engine mine:threads=many .* 'many' is no number"),
        ("mine:threads", "Invalid setting 'threads' of the engine mine: expected mine:SETTING=VALUE"),
        ("duckdb:threads=1", "duckdb accepts no settings"),
        ("iceberg-go:threads=1", "iceberg-go accepts no settings"),
    ],
)
def test_a_wrong_setting_is_an_error_that_no_missing_reader_explains(settable, name, message):
    with pytest.raises(RequestError, match=message) as caught:
        settable(name)
    assert caught.value.cause != NOT_INSTALLED


def test_nothing_that_a_reader_keeps_of_a_table_reaches_another_table(settable):
    reader = settable("mine")
    one, other = (TableAt(format="delta", location=f"/{name}") for name in ("one", "other"))
    processes = [read(reader, table)["process"][0].as_py() for table in (one, one, other, one)]
    assert processes[0] == processes[1]
    assert len(set(processes)) == 3


def test_a_process_that_declined_a_table_serves_the_next_one(settable, tmp_path):
    reader = settable("mine")
    with pytest.raises(UnsupportedError):
        read(reader, TableAt(format="delta", location="/one"), where="id = 1")
    read(reader, TableAt(format="delta", location="/other"))
    assert (tmp_path / "starts").read_text("utf-8") == "started\n"


def test_a_program_that_was_built_is_used(tmp_path, monkeypatch):
    built = tmp_path / "iceberg-go" / "reader"
    built.parent.mkdir()
    built.write_text(f"""#!{sys.executable}\nprint('{{"version": "built"}}', flush=True)\ninput()\n""", "utf-8")
    built.chmod(0o755)
    monkeypatch.setenv("HARNESS_READERS", str(tmp_path))
    with ExitStack() as resources:
        assert open_engine("iceberg-go", ReaderOptions(), resources).version() == "built"
