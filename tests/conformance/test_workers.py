"""Engines in processes of their own, from the host's side."""

from __future__ import annotations

import sys
from contextlib import ExitStack

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.errors import EngineError, RequestError
from harness.testing.conformance.finding import SERVER, Places, open_engine
from harness.testing.conformance.own import At, TableAt
from harness.testing.conformance.readers import OtherReader, interpreter_of
from harness.testing.conformance.workers import CRASHED, NONSENSE, NOT_INSTALLED, TIMED_OUT, Worker

pytestmark = pytest.mark.slow


@pytest.fixture
def table(tmp_path):
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "a.parquet")
    return TableAt(format="delta", location=str(tmp_path))


@pytest.fixture
def opened():
    with ExitStack() as resources:
        yield lambda name, limit=60.0: open_engine(f"fake_engines:{name}", Places(time_limit_s=limit), resources)


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("import no_such_package", "No module named 'no_such_package'", id="import"),
        pytest.param("def version(): raise ImportError('extension')", "extension", id="version"),
        pytest.param("def version(:", "SyntaxError", id="syntax"),
    ],
)
def test_an_engine_that_is_not_there_is_not_installed(script, text, message):
    with pytest.raises(RequestError, match=message) as caught:
        script(text)
    assert caught.value.cause == NOT_INSTALLED


def test_an_interpreter_without_pyarrow_is_told_before_any_read(tmp_path):
    """Else its failure to hand over rows would look like the refusal of a broken table."""
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
    assert caught.value.cause == NONSENSE


def test_an_interpreter_that_is_not_there(tmp_path):
    with pytest.raises(RequestError, match="does not start"):
        Worker("mine", [str(tmp_path / "python"), "x.py"], time_limit_s=1)


PRESENT = OtherReader(name="two-words", modules=("pyarrow",), install="pyarrow")
ABSENT = OtherReader(name="absent", modules=("pyarrow", "no_such"), install="nosuch")


@pytest.mark.parametrize(
    ("variable", "given", "found"),
    [
        (None, {}, sys.executable),
        ("/env/python", {}, "/env/python"),
        ("/env/python", {"two-words": "/given/python"}, "/given/python"),
    ],
)
def test_an_interpreter_is_given_or_of_the_environment_or_this_one(monkeypatch, variable, given, found):
    monkeypatch.delenv("HARNESS_PYTHON_TWO_WORDS", raising=False)
    if variable:
        monkeypatch.setenv("HARNESS_PYTHON_TWO_WORDS", variable)
    assert interpreter_of(PRESENT, given) == found


def test_a_reader_that_is_missing_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.delenv("HARNESS_PYTHON_ABSENT", raising=False)
    monkeypatch.setenv("HARNESS_READERS", str(tmp_path))
    with pytest.raises(RequestError, match="no_such is not installed; name an interpreter") as caught:
        interpreter_of(ABSENT, {})
    assert caught.value.cause == NOT_INSTALLED
    with pytest.raises(RequestError, match=r"iceberg-go: it is not built; .* nox -s readers-native") as caught:
        open_engine("iceberg-go", Places(), ExitStack())
    assert caught.value.cause == NOT_INSTALLED


def test_a_program_that_was_built_is_asked(tmp_path, monkeypatch):
    built = tmp_path / "iceberg-go" / "reader"
    built.parent.mkdir()
    built.write_text(f"""#!{sys.executable}\nprint('{{"version": "built"}}', flush=True)\ninput()\n""", "utf-8")
    built.chmod(0o755)
    monkeypatch.setenv("HARNESS_READERS", str(tmp_path))
    with ExitStack() as resources:
        assert open_engine("iceberg-go", Places(), resources).version() == "built"
