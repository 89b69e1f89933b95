"""Files of other programs: answers of readers, suites and results that name, contain or need something forbidden."""

import io
import json
import os
import shutil
import sys
from contextlib import ExitStack

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.errors import EngineError, RequestError
from harness.suite import cases, foreign_files, json_rows
from harness.suite.cases import load_cases
from harness.suite.json_rows import read_rows
from harness.suite.reader import TableAt
from harness.suite.readers import ReaderOptions, open_engine
from harness.suite.result_files import score_results
from harness.suite.results import Outcome
from harness.suite.scenarios.loading import parse
from harness.suite.suite_files import write_suite
from harness.suite.workers import BROKEN_PROTOCOL

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pipes and links of POSIX")


def ipc(rows, new=pa.ipc.new_stream, **options):
    output = io.BytesIO()
    with new(output, rows.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(rows)
    return output.getvalue()


READER = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    answer = {"version": "1"}
    if asked["op"] == "read":
        scope = {"os": os, "output": asked["output"], "folder": os.path.dirname(asked["output"])}
        exec(asked["columns"][0], scope)
        answer = {"id": asked["id"], "rows": scope["rows"]}
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """Read with a program that executes its first column as code and answers with `rows`."""
    program = tmp_path_factory.mktemp("reader") / "reader.py"
    program.write_text(READER, "utf-8")
    with ExitStack() as resources:
        worker = open_engine(f"mine=exec:{sys.executable} {program}", ReaderOptions(), resources)
        yield lambda code: worker.read(TableAt(format="delta", location="/t"), columns=(code,), where=None)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        pytest.param("rows = {table!r}", "expected a path below", id="a file of the table"),
        pytest.param("os.symlink({table!r}, output); rows = output", "links are not followed", id="link"),
        pytest.param(
            "os.symlink(os.path.dirname({table!r}), folder + '/in'); rows = folder + '/in/' + {table!r}.split('/')[-1]",
            "links are not followed",
            id="link to a folder",
        ),
        pytest.param("rows = os.path.relpath({table!r}, folder)", "expected a path below", id="relative"),
        pytest.param("rows = folder + '/../' + os.path.relpath({table!r}, '/tmp')", "expected a path", id="climbs"),
        pytest.param("rows = 'rows'", "expected a path below", id="a name alone"),
        pytest.param("rows = ''", "expected a path below", id="empty"),
        pytest.param("rows = '.'", "expected a path below", id="dot"),
        pytest.param("rows = folder", "expected a path below", id="the folder"),
        pytest.param("rows = folder + '/'", "expected a path below", id="the folder, with a stroke"),
        pytest.param("rows = folder + '/in'; os.makedirs(rows, exist_ok=True)", "it is a directory|links", id="folder"),
        pytest.param("rows = output + chr(0)", "expected a path below", id="NUL"),
        pytest.param("rows = output + chr(0xD800)", "expected a path below", id="half a character"),
        pytest.param("rows = folder + '/' + 'x' * 300", "its name is too long", id="too long"),
        pytest.param("rows = folder + '/x' * 5000", "expected a path below", id="far too long"),
        pytest.param("rows = output", "it does not exist", id="nothing"),
        pytest.param("os.mkfifo(output); rows = output", "it is not a regular file", id="pipe"),
        pytest.param("os.symlink('/dev/zero', output); rows = output", "links are not followed", id="endless"),
    ],
)
def test_an_answer_outside_the_folder_of_the_reader_is_an_error(reader, tmp_path, code, message):
    """No other file is read or removed."""
    table = tmp_path / "part-0.parquet"
    table.write_bytes(b"rows of the table")
    before = "[os.remove(each.path) for each in os.scandir(folder) if not each.is_dir(follow_symlinks=False)]\n"
    with pytest.raises(EngineError, match=f"mine wrote no rows: Cannot read the rows: .*{message}") as caught:
        reader(before + code.format(table=str(table)))
    assert caught.value.cause == BROKEN_PROTOCOL
    assert table.read_bytes() == b"rows of the table"


def test_a_folder_that_became_a_link_is_not_followed(reader, tmp_path):
    table = tmp_path / "part-0.parquet"
    table.write_bytes(b"rows of the table")
    become = f"os.rename(folder, folder + '-kept'); os.symlink({str(tmp_path)!r}, folder)"
    with pytest.raises(EngineError, match="links are not followed"):
        reader(f"{become}; rows = folder + '/part-0.parquet'")
    assert table.read_bytes() == b"rows of the table"
    with pytest.raises(EngineError, match="it does not exist"):
        reader("os.remove(folder); os.rename(folder + '-kept', folder); rows = folder + '/none'")


def test_a_file_of_the_folder_is_read_and_removed(reader):
    stream = ipc(pa.table({"id": [1]}))
    code = f"rows = folder + '/mine'; open(rows, 'wb').write({stream!r})"
    assert reader(code).to_pydict() == {"id": [1]}
    with pytest.raises(EngineError, match="it does not exist"):
        reader("rows = folder + '/mine'")


NULLS = pa.Array.from_buffers(pa.null(), 1 << 29, [None])
DENSE = pa.UnionArray.from_dense(pa.array([0] * 9, pa.int8()), pa.array([0] * 9, pa.int32()), [pa.array(["x" * 99])])
VIEWS = pa.Array.from_buffers(
    pa.string_view(),
    30_000,
    [None, pa.py_buffer(b"\x10\x27\0\0xxxx\0\0\0\0\0\0\0\0" * 30_000), pa.py_buffer(b"x" * 10_000)],
)
RUNS = pa.RunEndEncodedArray.from_arrays(pa.array([1 << 20], pa.int32()), ["x" * 10_000])
DICTIONARY = pa.DictionaryArray.from_arrays(pa.array(bytes(30_000), pa.uint8()), ["x" * 10_000])
NESTED = pa.DictionaryArray.from_arrays(pa.array(bytes(30_000), pa.uint8()), pa.array([["x"] * 10_000]))
ZEROS = pa.table({"a": [bytes(64 << 20)]})
LIST_VIEWS = pa.array([[1]], pa.list_view(pa.int64()))
FAR_SCALE = pa.array([None], pa.decimal128(9, -2147483646))
ODD_NAME = ipc(pa.table({"name": [1]})).replace(b"name", b"n\xffme")
ODD_ZONE = ipc(pa.table({"t": pa.array([1], pa.timestamp("us", "Zone"))})).replace(b"Zone", b"Z\xffne")
ODD_INNER_NAME = ipc(pa.table({"s": [{"name": 1}]})).replace(b"name", b"n\xffme")


@pytest.fixture
def few_bytes(monkeypatch):
    """Set limits of 32 MiB, which fit the rows of a test."""
    monkeypatch.setattr(json_rows, "MAX_BYTES", 32 << 20)
    monkeypatch.setattr(json_rows, "MAX_ROWS", 4 << 20)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        *(
            pytest.param(ipc(ZEROS, new, compression=codec), "decompress to more", id=codec)
            for codec, new in (("zstd", pa.ipc.new_stream), ("lz4", pa.ipc.new_file))
        ),
        pytest.param(ipc(pa.table({"a": NULLS})), "it has 2 arrays of", id="nulls"),
        pytest.param(ipc(pa.table({"a": DENSE})), "a field is of type 14", id="dense union"),
        pytest.param(ipc(pa.table({"a": LIST_VIEWS})), "a field is of type 25", id="views of lists"),
        pytest.param(ipc(pa.table({"a": VIEWS})), "expand to more", id="views"),
        pytest.param(ipc(pa.table({"a": RUNS})), "expand to more", id="runs"),
        pytest.param(
            ipc(pa.table({"a": pa.ListArray.from_arrays([0, 1 << 20], RUNS)})), "expand to more", id="in lists"
        ),
        pytest.param(ipc(pa.table({"a": DICTIONARY}), pa.ipc.new_file), "expand to more", id="dictionary"),
        pytest.param(ipc(pa.table({"a": NESTED})), "a dictionary is of list", id="dictionary of lists"),
        pytest.param(ipc(pa.table({"a": FAR_SCALE})), "a decimal has the scale -2147483646", id="scale"),
        pytest.param(ODD_NAME, "not UTF-8", id="name"),
        pytest.param(ODD_INNER_NAME, "not UTF-8", id="inner name"),
        pytest.param(ODD_ZONE, "not UTF-8", id="time zone"),
        pytest.param(b"ARROW1\0\0", "the file is truncated", id="no footer"),
        pytest.param(ipc(pa.table({"a": [1]}), pa.ipc.new_file)[:-1], "the file is truncated", id="cut"),
        pytest.param(b"ARROW1\0\0" + b"\xff\xff\xff\x7fARROW1", "the footer is longer", id="footer"),
        pytest.param(b"", "", id="empty"),
    ],
)
def test_rows_that_are_more_than_their_bytes_are_refused(tmp_path, few_bytes, data, message):
    (tmp_path / "rows").write_bytes(data)
    with pytest.raises(RequestError, match=f"Cannot read the rows: .*{message}"):
        read_rows(tmp_path, "rows")


SHARED = {
    "views": pa.table({"a": pa.array(["x" * 99, None, "y", ""]).cast(pa.string_view()), "b": [1, 2, None, 4]}),
    "views of bytes": pa.table({"a": pa.array([b"x" * 99, None]).cast(pa.binary_view())}),
    "runs": pa.table({"a": pa.RunEndEncodedArray.from_arrays([2, 3], [7, None]), "b": ["x", "y", None]}),
    "runs of nulls": pa.table({"a": pa.RunEndEncodedArray.from_arrays([2], pa.nulls(1))}),
    "dictionary of numbers": pa.table({"a": pa.array([1.5, None, 1.5]).dictionary_encode()}),
    "dictionary of decimals": pa.table({"a": pa.array([1], pa.decimal128(9, 2)).dictionary_encode()}),
    "nested": pa.table(
        {"a": [{"x": [1, None], "y": "z"}, None], "b": pa.array([[("k", 1)], []], pa.map_("string", "int64"))}
    ),
    "no rows": pa.table({"a": pa.array([], pa.string_view())}),
    "no columns": pa.table({"a": [1, 2]}).select([]),
    "polars": pa.table(pl.DataFrame({"a": ["x" * 20, None], "c": ["k", "k"]}, schema_overrides={"c": pl.Categorical})),
}


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
@pytest.mark.parametrize("new", [pa.ipc.new_stream, pa.ipc.new_file], ids=["stream", "file"])
@pytest.mark.parametrize("rows", SHARED.values(), ids=SHARED)
def test_rows_of_other_programs_are_read_as_they_wrote_them(tmp_path, rows, new, compression):
    (tmp_path / "rows").write_bytes(ipc(rows, new, compression=compression))
    found = read_rows(tmp_path, "rows")
    found.validate(full=True)
    assert found.schema == rows.schema
    assert found.to_pylist() == rows.to_pylist()


def test_a_file_whose_stream_begins_later_or_has_no_end_is_read(tmp_path):
    """Writers in Rust align the first message to 64 bytes. Writers may omit the end of the stream."""
    data = ipc(pa.table({"a": [1, 2]}), pa.ipc.new_file)
    end = data.rindex(b"\xff\xff\xff\xff\0\0\0\0")
    (tmp_path / "rows").write_bytes(b"ARROW1" + bytes(58) + data[8:end] + data[end + 8 :])
    assert read_rows(tmp_path, "rows").to_pydict() == {"a": [1, 2]}


def test_json_rows_are_bounded(tmp_path, monkeypatch):
    (tmp_path / "rows").write_text('{"a": [[], [], []]}\n', "utf-8")
    assert read_rows(tmp_path, "rows", is_json=True).num_rows == 1
    monkeypatch.setattr(foreign_files, "MAX_JSON_VALUES", 5)
    with pytest.raises(RequestError, match="Cannot read the rows: it has more than 5 values"):
        read_rows(tmp_path, "rows", is_json=True)
    monkeypatch.setattr(foreign_files, "MAX_JSON_BYTES", 5)
    with pytest.raises(RequestError, match="Cannot read the rows: it has more than 5 bytes"):
        read_rows(tmp_path, "rows", is_json=True)


@pytest.mark.parametrize("value", ["true", "[]", "{}", '"x"', "1e400", '"\\ud800"', "9" * 5000, "[" * 3000])
@pytest.mark.parametrize("type_", [pa.uuid(), pa.int32(), pa.binary(4), pa.struct([("x", pa.uuid())])], ids=str)
def test_json_that_is_no_value_of_its_column_is_an_error_of_the_rows(tmp_path, type_, value):
    (tmp_path / "rows").write_text(f'{{"a": {value}}}\n', "utf-8")
    with pytest.raises(RequestError, match="Cannot read the rows"):
        read_rows(tmp_path, "rows", pa.schema([("a", type_)]), is_json=True)


TEXT = """
title: Two rows
format: delta
clauses: [delta L24]
table: {schema: {id: long}}
history:
  - append: [{data: a, rows: [[1], [2]]}]
expect: {rows: [[1], [2]]}
"""


@pytest.fixture
def suite(tmp_path):
    write_suite([parse(TEXT, "mine")], tmp_path / "suite", lambda _: None)
    return tmp_path / "suite"


def changed(path, **values):
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **values}), "utf-8")


def with_rows(path, **values):
    (read,) = json.loads(path.read_text("utf-8"))["reads"]
    changed(path, reads=[{**read, "rows": {**read["rows"], **values}}])


def linked(path, target):
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.symlink_to(target)


def piped(path):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("attack", "message"),
    [
        pytest.param(
            lambda s: changed(s / "mine/case.json", table=str(s.parent)), "the table: expected", id="absolute"
        ),
        pytest.param(lambda s: changed(s / "mine/case.json", table="../../t"), "the table: expected", id="climbs"),
        pytest.param(lambda s: linked(s / "mine/table", s.parent), "the table: links", id="table is a link"),
        pytest.param(lambda s: changed(s / "mine/case.json", metadata="/m"), "the metadata: expected", id="metadata"),
        pytest.param(
            lambda s: changed(s / "mine/case.json", intact="../case.json"), "the intact copy: expected", id="intact"
        ),
        pytest.param(
            lambda s: changed(s / "mine/case.json", name="../mine"), "the case by its name: expected", id="name"
        ),
        pytest.param(lambda s: with_rows(s / "mine/case.json", arrow="/dev/zero"), "the rows: expected", id="rows"),
        pytest.param(lambda s: linked(s / "mine/expected/1.arrow", "/dev/zero"), "the rows: links", id="endless rows"),
        pytest.param(
            lambda s: piped(s / "mine/expected/1.arrow"), "the rows: it is not a regular", id="rows are a pipe"
        ),
        pytest.param(lambda s: piped(s / "mine/case.json"), "the case: it is not a regular", id="case is a pipe"),
        pytest.param(lambda s: linked(s / "suite.json", "/dev/zero"), "the suite: links", id="endless suite"),
        pytest.param(lambda s: piped(s / "suite.json"), "the suite: it is not a regular", id="suite is a pipe"),
    ],
)
@pytest.mark.parametrize("load", [load_cases, lambda suite: score_results(suite, suite)], ids=["cases", "score"])
def test_a_suite_reads_its_own_regular_files_alone(suite, load, attack, message):
    attack(suite)
    with pytest.raises(RequestError, match=f"Cannot read {message}"):
        load(suite)


@pytest.mark.parametrize(
    ("attack", "message"),
    [
        pytest.param(os.mkfifo, "it is not a regular file", id="pipe"),
        pytest.param(lambda path: path.symlink_to("/dev/zero"), "links are not followed", id="endless"),
        pytest.param(lambda path: path.mkdir(), "it is a directory", id="folder"),
    ],
)
@pytest.mark.parametrize("name", ["1.arrow", "1.jsonl", "1.json"])
def test_a_result_is_a_regular_file_of_its_folder(suite, tmp_path, name, attack, message):
    (tmp_path / "results/mine").mkdir(parents=True)
    attack(tmp_path / "results/mine" / name)
    ((check,),) = [case.checks for case in score_results(suite, tmp_path / "results").cases]
    assert check.outcome is Outcome.ERROR
    assert message in check.message


@pytest.fixture
def workload(tmp_path):
    """Make a case of the acceptance workloads."""
    rows = tmp_path / "w/expected/all/expected_data/part.parquet"
    for folder in (rows.parent, tmp_path / "w/specs", tmp_path / "w/delta"):
        folder.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2]}), rows)
    (tmp_path / "w/specs/all.json").write_text('{"type": "read", "expected": {"rowCount": 2}}', "utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("attack", "message"),
    [
        pytest.param(lambda w: linked(w / "delta", "/"), "links are not followed", id="table"),
        pytest.param(lambda w: piped(w / "specs/all.json"), "it is not a regular file", id="pipe"),
        pytest.param(
            lambda w: linked(w / "expected/all/expected_data/part.parquet", "/dev/zero"), "links are not", id="endless"
        ),
        pytest.param(
            lambda w: pq.write_table(
                pa.table({"s": ["x" * 9999] * 9999}), w / "expected/all/expected_data/part.parquet"
            ),
            "its rows take more than 1,048,576 bytes",
            id="bomb",
        ),
    ],
)
def test_a_published_case_reads_its_own_regular_files_alone(workload, monkeypatch, attack, message):
    assert len(load_cases(workload).cases) == 1
    monkeypatch.setattr(cases, "MAX_BYTES", 1 << 20)
    attack(workload / "w")
    with pytest.raises(RequestError, match=message):
        load_cases(workload)
