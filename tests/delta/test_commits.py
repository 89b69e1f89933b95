import json

import pytest

from harness.errors import CorruptFileError, MissingFileError
from harness.metadata.delta.commits import CommitReader, Locator, parse_commit
from harness.metadata.delta.log_files import LogFile
from harness.metadata.delta.paths import TableRoot
from harness.storage.stores import Storage

LOCATOR = Locator(TableRoot.at("/t"))


def commit(*actions, locator=LOCATOR, separator="\n"):
    data = separator.join(action if isinstance(action, str) else json.dumps(action) for action in actions)
    return parse_commit(data.encode(), file="/t/_delta_log/7.json", version=7, locator=locator)


def add(path, **fields):
    return {"add": {"path": path, "partitionValues": {}, "size": 1, "dataChange": True, **fields}}


def remove(path, **fields):
    return {"remove": {"path": path, "dataChange": True, **fields}}


def vector(name, **fields):
    return {"storageType": "u", "pathOrInlineDv": name, "sizeInBytes": 10, "cardinality": 2, **fields}


def test_longs_are_exact():
    got = commit(add("a", size=2**53 + 1, modificationTime=2**63 - 1))
    assert got.adds.column("size").to_pylist() == [2**53 + 1]
    assert got.adds.column("modification_time").to_pylist() == [2**63 - 1]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        pytest.param('{"add":{}}{"add":{}}', "is not JSON", id="two objects"),
        pytest.param('["add"]', "is not a JSON object", id="a list"),
        pytest.param('{"add":3}', "is not an object", id="action is a number"),
        pytest.param('{"add":{"path":"x","partitionValues":{},"size":NaN}}', "is not JSON", id="NaN"),
        pytest.param({**add("a"), **remove("b")}, "holds 2 actions", id="two actions"),
        pytest.param({"add": {"partitionValues": {}, "size": 1}}, "has no path", id="no path"),
        pytest.param({"add": {"path": "a", "size": 1}}, "has no partitionValues", id="no partition values"),
        pytest.param({"add": {"path": "a", "partitionValues": {}}}, "has no size", id="no size"),
        pytest.param(add("a", partitionValues={"p": 1}), "expected text or null", id="partition value is a number"),
        pytest.param(add("a", partitionValues=[]), "not an object", id="partition values are a list"),
        pytest.param(add("a", size="1"), "is '1', expected int64", id="size is text"),
        pytest.param(add("a", size=1.0), "is 1.0, expected int64", id="size is a float"),
        pytest.param(add("a", size=2**63), "does not fit int64", id="size is too large"),
        pytest.param(add("a", stats={}), "is {}, expected string", id="stats are an object"),
        pytest.param(add("\ud800"), "does not fit string", id="half of a surrogate pair"),
        (add("a", deletionVector={"storageType": "u"}), "on line 2 has a deletionVector without pathOrInlineDv"),
        (add("a", deletionVector={"cardinality": 1}), "a deletionVector without storageType"),
        (add("a", deletionVector={}), "the add on line 2 has a deletionVector without storageType"),
        (add("a", deletionVector={**vector("x"), "sizeInBytes": None}), "without sizeInBytes"),
        pytest.param(
            remove("a", deletionVector={"StorageType": "u"}),
            "the remove on line 2 has a deletionVector without storageType",
            id="vector of a removal",
        ),
        pytest.param(add("a", deletionVector="u"), "expected", id="vector is text"),
        pytest.param({"protocol": {"minReaderVersion": "1"}}, "expected an integer", id="reader version is text"),
        pytest.param({"txn": {"version": 1}}, "has no appId", id="no appId"),
        ({"metaData": {"partitionColumns": [1], "configuration": {}}}, "expected text"),
        pytest.param(b"\xff".decode("latin-1").encode("latin-1"), "is not JSON", id="not UTF-8"),
    ],
)
def test_bad_line_is_refused(line, reason):
    data = line if isinstance(line, bytes) else (line if isinstance(line, str) else json.dumps(line)).encode()
    data = json.dumps(add("fine")).encode() + b"\n" + data
    with pytest.raises(CorruptFileError) as caught:
        parse_commit(data, file="7.json", version=7, locator=LOCATOR)
    assert reason in str(caught.value)
    assert caught.value.file == "7.json"


def test_read_commit(tmp_path):
    log = tmp_path / "_delta_log"
    log.mkdir()
    path = log / f"{0:020d}.json"
    path.write_text(json.dumps(add("a")))
    reader = CommitReader(Storage(), Locator(TableRoot.at(str(tmp_path))))
    assert reader.read_commit(LogFile(str(path), 0, 1, None)).adds.column("key").to_pylist() == ["a"]
    path.write_bytes(b"")
    with pytest.raises(CorruptFileError, match="an empty file"):
        reader.read_commit(LogFile(str(path), 0, 0, None))
    path.unlink()
    with pytest.raises(MissingFileError):
        reader.read_commit(LogFile(str(path), 0, 1, None))
