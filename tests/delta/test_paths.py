import ast
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import harness
from harness.errors import InvalidTableError, MissingFileError, UnsupportedError
from harness.metadata.delta.commits import ids_of
from harness.metadata.delta.paths import TableRoot, canonical_paths, path_keys
from harness.writing.delta.builder import DeltaTable

LOCAL = TableRoot.at("/data/my table%20#1")
REMOTE = TableRoot.at("s3://bucket/tables/t/")


def canonical(recorded: list[str], root: TableRoot) -> list[str]:
    paths: list[str] = canonical_paths(path_keys(pa.array(recorded, pa.string()), root), root).to_pylist()
    return paths


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        pytest.param("part-0.parquet", "/data/my table%20#1/part-0.parquet", id="plain"),
        pytest.param("a b", "/data/my table%20#1/a b", id="raw space"),
        pytest.param("p=%C3%BC/x", "/data/my table%20#1/p=ü/x", id="UTF-8"),
        pytest.param("what?is#it", "/data/my table%20#1/what?is#it", id="raw ? and #"),
        pytest.param("./a//b/../c", "/data/my table%20#1/a/c", id="dot segments"),
        pytest.param("a//b", "/data/my table%20#1/a/b", id="an empty segment"),
        pytest.param("a/", "/data/my table%20#1/a", id="a slash at the end"),
        pytest.param("../other/x", "/data/other/x", id="above the root"),
        pytest.param("a%3Ab", "/data/my table%20#1/a:b", id="an escaped colon is no scheme"),
        pytest.param("file:///p/x", "/p/x", id="file:///"),
        pytest.param("s3://b/k%20l", "s3://b/k l", id="other store"),
        pytest.param("S3://b/a/../c//d", "s3://b/c//d", id="other store, dot segments"),
    ],
)
def test_canonical_path_in_local_table(recorded, expected):
    assert LOCAL.canonical(recorded) == expected
    assert canonical(["fine", recorded], LOCAL) == [LOCAL.path + "/fine", expected]


@pytest.mark.parametrize("recorded", ["a%zz", "a%2", "%", "a%FFb", "a%00b", "a\x00b", ""])
def test_bad_path_is_refused(recorded):
    with pytest.raises(InvalidTableError):
        LOCAL.canonical(recorded)
    with pytest.raises(InvalidTableError):
        path_keys(pa.array(["x", recorded]), LOCAL)


def test_file_uri_of_another_host_is_refused():
    with pytest.raises(UnsupportedError, match="not a path of this host"):
        LOCAL.canonical("file://server/p/x")


PIECES = st.sampled_from(
    ["a", "b.parquet", "/", "//", "..", ".", "%20", "%25", "%C3%A9", " ", "é", ":", "file:", "s3://h", "+", "="]
)


@given(st.lists(st.lists(PIECES, min_size=1, max_size=6).map("".join), min_size=1, max_size=5))
def test_columns_resolve_as_single_paths_do(recorded):
    for root in (LOCAL, REMOTE):
        try:
            expected = [root.canonical(path) for path in recorded]
        except (InvalidTableError, UnsupportedError) as error:
            with pytest.raises(type(error)):
                path_keys(pa.array(recorded), root)
        else:
            assert canonical(recorded, root) == expected


@given(st.lists(PIECES, min_size=1, max_size=5).map("".join), st.lists(PIECES, min_size=1, max_size=5).map("".join))
def test_two_paths_have_the_same_key_if_they_name_the_same_file(first, second):
    """The keys are equal in one call and in two, whether or not a path starts with the table's folder."""
    for root in (LOCAL, REMOTE):
        spelled = [first, second, f"{root.prefix}{first}", f"{root.prefix}{second}"]
        try:
            files = [root.canonical(path) for path in spelled]
        except (InvalidTableError, UnsupportedError):
            continue
        keys = path_keys(pa.array(spelled), root).to_pylist()
        assert keys == [path_keys(pa.array([path]), root)[0].as_py() for path in spelled]
        assert [a == b for a in keys for b in keys] == [a == b for a in files for b in files]


def test_a_plain_path_is_its_own_key():
    recorded = pa.array(["p=1/a.parquet", "b c"])
    assert path_keys(recorded, LOCAL) is recorded
    within = LOCAL.prefix.replace("%", "%25")
    assert path_keys(pa.array([f"{within}b%20c", "/p/x", "a%253Ab"]), LOCAL).to_pylist() == [
        "b c",
        "/p/x",
        f"{LOCAL.prefix}a%3Ab",
    ]


def test_file_ids_hold_the_deletion_vector():
    files = {
        "key": ["/a", "/a", "/a", "/b"],
        "dv_storage_type": ["u", "u", "i", None],
        "dv_path_or_inline": ["x", "x", "x@4", None],
        "dv_offset": pa.array([4, None, None, None], pa.int64()),
    }
    assert ids_of(pa.table(files)).to_pylist() == ["/a\x00ux@4", "/a\x00ux", "/a\x00ix@4", "/b"]


# Some writers put a file at another location than its path in the log, decoded once (delta L38).
@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=pytest.mark.harness_spark)])
@pytest.mark.parametrize(
    ("recorded", "stored"),
    [
        pytest.param("p=x%20y/a.parquet", "p=x%20y/a.parquet", id="recorded without encoding"),
        pytest.param("p=x%20y/a.parquet", "p=x%2520y/a.parquet", id="stored encoded twice, by deltalake 0.10"),
        pytest.param("p=~/a.parquet", "p=%7E/a.parquet", id="a tilde, by deltalake 0.12 to 0.14"),
        pytest.param("a%3Ab.parquet", "a%3Ab.parquet", id="a file's name"),
    ],
)
def test_a_missing_file_that_exists_under_another_spelling_is_named(tmp_path, recorded, stored, engine):
    made = DeltaTable.create(tmp_path / "t", {"id": "long"})
    handle = made.write_data([{"id": 1}], path="plain.parquet", recorded=recorded)
    made.append(handle)
    target = made.directory / stored
    target.parent.mkdir(exist_ok=True)
    (made.directory / "plain.parquet").rename(target)
    with pytest.raises(MissingFileError, match=re.escape(f"{target} exists")) as error:
        harness.open_table(made.directory).to_arrow(engine=engine)
    path_map = ast.literal_eval(error.value.message.rpartition("path_map=")[2])
    table = harness.open_table(made.directory, path_map=path_map)
    assert table.to_arrow(engine=engine).to_pylist() == [{"id": 1}]
