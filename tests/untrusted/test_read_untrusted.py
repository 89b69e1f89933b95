"""`read_untrusted`: its requests to the worker, and its handling of the answers. One test starts a worker."""

import contextlib
import inspect
import io
import json
import struct
import sys
from datetime import UTC, datetime

import duckdb
import pyarrow as pa
import pytest

import harness
from harness.errors import (
    EngineError,
    InvalidTableError,
    LimitError,
    OutsideTableError,
    RequestError,
    UnknownColumnError,
)
from harness.untrusted import reading
from harness.untrusted.arrow_messages import _FlatTable
from harness.untrusted.launching import WorkerResult
from harness.writing.delta.builder import DeltaTable


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    built = DeltaTable.create(tmp_path_factory.mktemp("reading") / "a [table]", {"id": "long", "s": "string"})
    built.append(built.write_data([{"id": 1, "s": "a"}]))
    built.append(built.write_data([{"id": 2, "s": None}]))
    return str(built.directory)


@pytest.fixture
def here(monkeypatch):
    """Run the worker's part in this process, and return its arguments."""
    started = []

    def run(work, request, **how):
        output = io.BytesIO()
        started.append((work, how))
        return WorkerResult(reading.serve(json.loads(json.dumps(request)), output), output.getvalue(), "")

    monkeypatch.setattr(reading, "run", run)
    return started


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can hold a worker to all limits")
def test_a_query_in_a_worker(table):
    """The paths have wildcards and links. If DuckDB runs out of memory, the query raises an error."""
    query = "SELECT s, current_setting('memory_limit') AS m FROM t ORDER BY id"
    rows = harness.read_untrusted(table, query=query, bounds=harness.Bounds(memory_bytes=2 << 30))
    assert rows.to_pydict() == {"s": ["a", None], "m": ["1.0 GiB", "1.0 GiB"]}


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({}, [(1, "a"), (2, None)]),
        ({"where": "id > 1"}, [(2, None)]),
        ({"columns": ["id"], "at": 1}, [(1,)]),
        ({"query": "SELECT count(*) AS n FROM t WHERE s = 'a'"}, [(1,)]),
        ({"at": datetime(2023, 11, 14, 22, 13, 21, tzinfo=UTC)}, [(1, "a")]),  # the builder's clock
    ],
)
def test_rows(table, here, options, rows):
    found = harness.read_untrusted(table, **options)
    assert sorted(tuple(row.values()) for row in found.to_pylist()) == rows
    ((work, how),) = here
    assert work == "harness.untrusted.reading:serve"
    assert table in how["directories"]


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"where": "x = 1"}, UnknownColumnError, 'Unknown column "x"'),
        ({"query": "SELECT nowhere() FROM t"}, EngineError, "DuckDB cannot run the query: "),
        ({"query": "COPY t TO 'x.csv'"}, RequestError, "A query may only read, got COPY"),
        ({"limits": harness.Limits(actions=0)}, LimitError, "raise the option limits.actions"),
    ],
)
def test_an_error_keeps_its_class_and_place(table, here, options, kind, message):
    with pytest.raises(kind, match=message):
        harness.read_untrusted(table, **options)


def test_read_untrusted_accepts_the_options_of_open_table_and_snapshot():
    """Options of stores and catalogs are refused, because a worker cannot reach these."""
    own = {"columns", "where", "query", "bounds", "waived"}
    others = {"catalog", "planning", "storage_options", "outside", "untrusted", "self"}
    twins = (inspect.signature(harness.open_table), inspect.signature(harness.Table.snapshot))
    known = {name: p.default for twin in twins for name, p in twin.parameters.items() if name not in others}
    taken = inspect.signature(harness.read_untrusted).parameters
    assert {name: p.default for name, p in taken.items() if name not in own} == known


def test_a_table_that_a_catalog_manages(tmp_path, here):
    table = DeltaTable.create(
        tmp_path / "t",
        {"id": "long"},
        features=["catalogManaged", "v2Checkpoint", "deletionVectors"],
        configuration={"delta.enableInCommitTimestamps": "true"},
    )
    for number in range(1, 5):
        table.append(table.write_data([{"id": number}]))
    name, content = table.log.stage(3), table.log.remove_commit_file(4)

    def ids(**how):
        return sorted(harness.read_untrusted(str(table.directory), **how)["id"].to_pylist())

    assert ids(max_version=4, ratified=[name, (4, content)]) == [1, 2, 3, 4]
    assert ids(max_version=4, ratified=[name, (4, content)], at=3) == [1, 2, 3]
    with pytest.warns(harness.HarnessWarning, match="version 2"):
        assert ids(published_only=True) == [1, 2]


def test_the_table_is_opened_as_untrusted(tmp_path, here):
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    (tmp_path / "t" / "_delta_log" / f"{0:020d}.crc").write_text('{"numFiles": 3}')
    with pytest.raises(InvalidTableError, match="records numFiles 3, the log has 0; in an untrusted table, this is an"):
        harness.read_untrusted(str(table.directory))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"query": "FROM t", "where": "id = 1"}, "Cannot use query together with columns or where"),
        ({"columns": "id"}, "expected a list of names"),
        ({"waived": ["everything"]}, "Cannot waive 'everything'"),
        ({"allowed_roots": ["s3://elsewhere"]}, "Cannot read an untrusted table that is not on a local disk"),
    ],
)
def test_what_cannot_be_asked(table, here, options, message):
    with pytest.raises(RequestError, match=message):
        harness.read_untrusted(table, **options)
    assert here == []


def test_remote_tables_are_refused():
    with pytest.raises(RequestError, match="the process that reads it has no network; copy it") as told:
        harness.read_untrusted("s3://user:secret@bucket/table?token=x")
    assert "x" not in str(told.value).partition("table s3")[2]


def ipc(rows, **options):
    output = io.BytesIO()
    with pa.ipc.new_stream(output, rows.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(rows)
    return output.getvalue()


BAD_UTF8 = pa.Table.from_arrays(
    [pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])], ["s"]
)
BAD_OFFSETS = pa.Table.from_arrays(
    [pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\xff\xff\0\0\1\0\0\0"), pa.py_buffer(b"a")])],
    ["s"],
)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param((0, b""), id="nothing"),
        pytest.param((0, b"no arrow"), id="no-arrow"),
        pytest.param((0, ipc(pa.table({"a": [1, 2, 3]}))[:-40]), id="cut"),
        pytest.param((0, ipc(BAD_UTF8)), id="no-text"),
        pytest.param((0, ipc(BAD_OFFSETS)), id="offsets-beyond"),
        pytest.param((2, b"\x80"), id="no-json"),
        pytest.param((2, b"[" * 100_000), id="nested"),
        pytest.param((2, b"[1]"), id="no-object"),
        pytest.param((2, b'{"kind": "warn", "message": "m", "options": []}'), id="no-class"),
        pytest.param((2, b'{"kind": "re", "message": "m", "options": []}'), id="a-module"),
        pytest.param((2, b'{"kind": "EngineError", "options": []}'), id="no-message"),
        pytest.param((1, b""), id="no-such-code"),
    ],
)
def test_output_of_a_compromised_worker_is_refused(table, monkeypatch, answer):
    monkeypatch.setattr(reading, "run", lambda *_, **__: WorkerResult(*answer, ""))
    with pytest.raises(EngineError, match="Cannot read what the process for the untrusted table returned"):
        harness.read_untrusted(table)


def patched(stream, before, after):
    assert stream.count(before) == 1
    return stream.replace(before, after)


def one_field_often(stream):
    """Point all fields of a schema at the first field."""
    data = bytearray(stream)
    count, at = _FlatTable(stream[8:], struct.unpack_from("<I", stream, 8)[0]).table(2)._find_vector(1, 4)
    first = at + struct.unpack_from("<I", data, 8 + at)[0]
    for place in range(at, at + 4 * count, 4):
        struct.pack_into("<I", data, 8 + place, first - place)
    return bytes(data)


def growing():
    values = [pa.array(["a"]), pa.array(["a", "b"])]
    batches = [pa.record_batch([pa.DictionaryArray.from_arrays([0], each)], ["d"]) for each in values]
    return ipc(pa.Table.from_batches(batches), emit_dictionary_deltas=True)


NUMBERS = pa.table({"a": range(8), "b": range(8)})  # 64 bytes each
NULLS = pa.Array.from_buffers(pa.null(), 1 << 29, [None])
DENSE = pa.UnionArray.from_dense(pa.array([0] * 9, pa.int8()), pa.array([0] * 9, pa.int32()), [pa.array(["x" * 99])])
DICTIONARY = pa.DictionaryArray.from_arrays(pa.array(bytes(30_000), pa.uint8()), ["x" * 10_000])


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        pytest.param(ipc(pa.table({"a": bytes(1 << 20)}), compression="zstd"), "it is compressed", id="zstd"),
        pytest.param(ipc(pa.table({"a": bytes(1 << 20)}), compression="lz4"), "it is compressed", id="lz4"),
        pytest.param(ipc(pa.table({"a": NULLS})), "it has 2 arrays of", id="nulls"),
        (ipc(pa.table({"a": pa.LargeListArray.from_arrays([0, 1 << 29], NULLS)})), "it has 3 arrays of"),
        pytest.param(ipc(pa.table({"a": pa.array(["x" * 99]).cast(pa.string_view())})), "of type 24", id="views"),
        (ipc(pa.table({"a": pa.RunEndEncodedArray.from_arrays([1 << 30], [1])})), "a field is of type 22"),
        pytest.param(ipc(pa.table({"a": DENSE})), "a field is of type 14", id="dense-union"),
        pytest.param(growing(), "a dictionary grows", id="deltas"),
        pytest.param(ipc(pa.table({"a": DICTIONARY})), "its dictionaries expand to more", id="dictionary"),
        (ipc(pa.table({"a": pa.ListArray.from_arrays([0, 30_000], DICTIONARY)})), "its dictionaries expand to more"),
        (patched(ipc(NUMBERS), struct.pack("<4q", 64, 0, 64, 64), struct.pack("<4q", 64, 0, 0, 64)), "overlap"),
        pytest.param(
            patched(ipc(NUMBERS), struct.pack("<4q", 64, 0, 64, 64), struct.pack("<4q", 64, 0, 64, 1 << 40)),
            "a buffer ends after its message",
            id="buffer-beyond",
        ),
        pytest.param(one_field_often(ipc(NUMBERS)), "repeats a part", id="one-field"),
        pytest.param(ipc(pa.table({"a": [1]}, metadata={"harness.warnings": "x" * (1 << 21)})), "warnings", id="said"),
    ],
)
def test_an_answer_that_expands_beyond_its_bytes(table, monkeypatch, stream, message):
    monkeypatch.setattr(reading, "run", lambda *_, **__: WorkerResult(0, stream, ""))
    with pytest.raises(
        EngineError, match=f"Cannot read what the process for the untrusted table returned: .*{message}"
    ):
        harness.read_untrusted(table, bounds=harness.Bounds(output_bytes=32 << 20))


@pytest.mark.parametrize(("where", "rows"), [(None, 2), ("id > 1", 1), ("id > 9", 0)])
def test_rows_without_columns_are_as_many_as_they_are(table, here, where, rows):
    found = harness.read_untrusted(table, columns=[], where=where)
    assert (found.num_columns, found.num_rows) == (0, rows)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 'a'::ENUM('a', 'b') AS e, [1, NULL] AS l, {'x': 1, 'y': ['z']} AS s, MAP {'k': 2} AS m",
        "SELECT now() AS t, uuid() AS u, true AS b, 'x'::BLOB AS x, INTERVAL 1 DAY AS i, NULL AS n, 'b'::VARCHAR AS v",
        "SELECT union_value(k := 1) AS u, '1'::BIT AS z, [['a'::ENUM('a')]] AS e, 1::HUGEINT AS h, '{}'::JSON AS j",
        "SELECT range AS a, CASE WHEN range % 2 = 0 THEN 'even' END AS b FROM range(300000)",
        "SELECT * FROM t WHERE false",
    ],
)
def test_an_answer_of_every_type_is_read(table, here, query):
    expected = duckdb.connect().execute(query.replace("FROM t", "FROM (SELECT 1)"))
    rows = harness.read_untrusted(table, query=query)
    assert rows.num_rows == len(expected.fetchall())


@pytest.mark.parametrize("stream", [ipc(NUMBERS), growing(), ipc(pa.table({"a": [["x"]], "b": [None]}))])
def test_damaged_answers_are_errors(stream):
    """A flipped bit in the messages raises an error of harness or pyarrow, or changes rows; there is no crash."""
    for at in range(len(stream)):
        for bit in (1, 0x80):
            damaged = stream[:at] + bytes([stream[at] ^ bit]) + stream[at + 1 :]
            with contextlib.suppress(EngineError):
                reading._decode_rows(damaged, 1 << 20)


def test_long_error_messages_are_cut(table, monkeypatch):
    texts = {"message": "\u202e" * 100_000, "file": "f" * 100_000}
    said = json.dumps({"kind": "EngineError", "options": [], **texts}).encode()
    monkeypatch.setattr(reading, "run", lambda *_, **__: WorkerResult(2, said, ""))
    with pytest.raises(EngineError) as told:
        harness.read_untrusted(table)
    assert (len(told.value.message), len(told.value.file)) == (1 << 16, 1 << 16)
    sent = json.loads(json.dumps(reading._error_document(told.value)))
    assert (len(sent["message"]), len(sent["file"])) == (1 << 16, 1 << 12)
    long = WorkerResult(2, b'{"kind": "EngineError", "options": [], "message": "' + bytes(1 << 20) + b'"}', "")
    monkeypatch.setattr(reading, "run", lambda *_, **__: long)
    with pytest.raises(EngineError, match="its error is not a harness error"):
        harness.read_untrusted(table)


def test_control_characters_from_a_worker_are_escaped(table, monkeypatch):
    said = {"kind": "OutsideTableError", "message": "\x1b]0;m", "cause": "c\n", "file": "\u202e", "options": ["\x1b"]}
    monkeypatch.setattr(reading, "run", lambda *_, **__: WorkerResult(2, json.dumps(said).encode(), ""))
    with pytest.raises(OutsideTableError) as told:
        harness.read_untrusted(table)
    assert str(told.value) == r"\x1b]0;m [c\n; file \u202e]"
