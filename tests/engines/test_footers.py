"""Footers of data files: each is read once, wrong counts are found, and both engines warn alike."""

import re
import warnings
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from footer_edits import FILE_ROWS, chunk, edit, edited, group

import harness
from harness.engines.data_files import FileName
from harness.engines.duckdb.instance import DuckDBFiles
from harness.engines.footers import read_footers
from harness.engines.registry import find_engine
from harness.engines.spark import engine as spark_engine
from harness.errors import CorruptFileError, HarnessWarning, MissingFileError, rule_in_format
from harness.metadata.files import parquet_footer
from harness.metadata.files.parquet_footer import Contradiction, check_counts, parse_tail
from harness.storage.stores import Storage
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable


def test_a_local_file_is_not_checked_again_after_its_end_was_read(tmp_path, monkeypatch):
    path = tmp_path / "[a]*.parquet"
    pq.write_table(pa.table({"id": [1, 2]}), path)
    access = DuckDBFiles(duckdb.connect(), Storage())
    monkeypatch.setattr(Storage, "fault", lambda self, path: "it was looked at")
    assert read_footers(access, [FileName(str(path), str(path))], table="t")[str(path)].rows == 2
    assert access.listed([str(path)]) == f"['{tmp_path}/[[]a][*].parquet']"
    with pytest.raises(MissingFileError, match="it was looked at"):
        access.listed([str(tmp_path / "other.parquet")])


SHOWN = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "VARCHAR": pa.string(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("ms"),
    "TIMESTAMP_NS": pa.timestamp("ns"),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", "UTC"),
    "DECIMAL(9,2)": pa.decimal128(9, 2),
    "DECIMAL(38,10)": pa.decimal128(38, 10),
}


@pytest.mark.parametrize(
    ("columns", "duckdb_types"),
    [
        (SHOWN, tuple(SHOWN)),
        ({"t": pa.timestamp("us")}, ("TIMESTAMP",)),
        ({"ä": pa.int64(), "Ö": pa.int64()}, ("BIGINT", "BIGINT")),
        ({"a": pa.int64(), "A": pa.int64()}, None),  # DuckDB renames the second column
        ({"": pa.int64()}, None),
        ({"a": pa.binary()}, None),  # text, if a connection's setting requests it
        ({"a": pa.list_(pa.int64())}, None),
        ({"a": pa.struct({"a": pa.int64()})}, None),
        ({"a": pa.int64(), "m": pa.map_(pa.string(), pa.int64())}, None),
        ({"a": pa.uint32()}, None),
    ],
)
def test_types_from_a_footer_are_the_types_of_the_binder(tmp_path, columns, duckdb_types):
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.schema(list(columns.items())).empty_table(), path)
    access = DuckDBFiles(duckdb.connect(), Storage())
    footer = read_footers(access, [FileName(path, path)], table="t")[path]
    assert footer.duckdb_types == duckdb_types
    if duckdb_types is not None:
        bound = access.connection.sql(f"SELECT * FROM read_parquet('{path}')")
        assert bound.columns == list(columns)
        assert tuple(map(str, bound.types)) == duckdb_types


ROWS = pa.table(
    {
        "id": pa.array(range(10), pa.int64()),
        "name": pa.array([None if i == 3 else f"n{i}" for i in range(10)]),
        "part": pa.array([{"x": i, "y": None if i % 2 else i} for i in range(10)]),
        "tags": pa.array([[], None, ["a", "b"], *[["c"]] * 7]),
        "map": pa.array([[("k", i)] for i in range(10)], pa.map_(pa.string(), pa.int64())),
    }
)
ID, NAME, X, Y, TAGS = 0, 1, 2, 3, 4

WRONG: dict[str, tuple[dict[tuple[int, ...], int], str]] = {
    "no values": (
        {chunk(0, ID, 5): 0},
        "column 'id' of row group 0 has 0 values (num_values), expected 5, one per row",
    ),
    "fewer values": ({chunk(1, NAME, 5): 4}, "column 'name' of row group 1 has 4 values (num_values), expected 5"),
    "more values": ({chunk(1, ID, 5): 6}, "column 'id' of row group 1 has 6 values"),
    "in a struct": ({chunk(0, Y, 5): 3}, "column 'part.y' of row group 0 has 3 values"),
    "of a list": ({chunk(0, TAGS, 5): 4}, "row group 0 has 4 values (num_values), expected at least 5, one per row"),
    "negative values": ({chunk(0, ID, 5): -5}, "column 'id' of row group 0 has a num_values of -5"),
    "fewer rows of a group": ({group(0, 3): 4}, "column 'id' of row group 0 has 5 values (num_values), expected 4"),
    "negative rows of a group": ({group(1, 3): -(2**63)}, "row group 1 counts -9223372036854775808 rows"),
    "rows of the file": ({FILE_ROWS: 9}, "it counts 9 rows, its row groups 10"),
    "rows of all": (
        {FILE_ROWS: 2**63, **{group(i, 3): 2**62 for i in (0, 1)}},
        "column 'id' of row group 0 has 5 values",
    ),
    "negative size": ({chunk(0, ID, 7): -1}, "column 'id' of row group 0 has a total_compressed_size of -1"),
    "negative size in memory": ({chunk(0, X, 6): -7}, "row group 0 has a total_uncompressed_size of -7"),
    "negative place": ({chunk(0, ID, 9): -1}, "column 'id' of row group 0 has a data_page_offset of -1"),
    "negative dictionary": ({chunk(0, ID, 11): -1}, "column 'id' of row group 0 has a dictionary_page_offset of -1"),
    "other type": ({chunk(0, ID, 1): 1}, "column 'id' of row group 0 has physical type 1, but its schema has 2"),
}
PLACES: dict[str, tuple[dict[tuple[int, ...], int], str]] = {
    "beyond the file": ({chunk(1, ID, 9): 2**40, chunk(1, ID, 11): 2**40}, "column 'id' of row group 1 is at bytes"),
    "too long": ({chunk(1, ID, 7): 2**62}, "column 'id' of row group 1 is at bytes"),
    "in the magic": ({chunk(0, ID, 9): 3, chunk(0, ID, 11): 0}, "column 'id' of row group 0 is at bytes 3"),
}
"""In trusted files, DuckDB reports offsets beyond the end, as usual."""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("counts") / "a.parquet"
    pq.write_table(ROWS, path, row_group_size=5)
    return path.read_bytes()


def footer_of(file: bytes) -> bytes:
    return file[-8 - int.from_bytes(file[-8:-4], "little") : -8]


@pytest.fixture(params=["the first chunks of a process", "later chunks"])
def chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parse chunks field by field until compiling regular expressions pays off."""
    monkeypatch.setattr(parquet_footer, "FEW_CHUNKS", 0 if request.param == "later chunks" else 1 << 62)


@pytest.mark.usefixtures("chunks")
def test_a_footer_that_adds_up(file):
    tail = parse_tail(file)
    assert tail is not None
    for schema in (b"", tail.schema):
        check_counts(footer_of(file), len(file), schema)


@pytest.mark.usefixtures("chunks")
@pytest.mark.parametrize("name", [*WRONG, *PLACES])
def test_a_footer_that_contradicts_itself(name, file):
    changes, words = (WRONG | PLACES)[name]
    footer = edited(footer_of(file), changes)
    tail = parse_tail(file)
    assert tail is not None
    size = len(file) - len(footer_of(file)) + len(footer)
    for schema in (b"", tail.schema):
        with pytest.raises(Contradiction, match=re.escape(words)):
            check_counts(footer, size, schema)
        if name in WRONG:
            with pytest.raises(Contradiction, match=re.escape(words)):
                check_counts(footer, None, schema)


@pytest.mark.usefixtures("chunks")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda footer: footer[:-3], "it is cut"),
        (lambda footer: footer[:-1] + b"\x06\x06\x02\0", "it has field 3 of a struct twice"),
        (lambda footer: footer[:-1] + b"\x09\x04\x0c\0", "it has field 2 of a struct twice"),
        (lambda footer: b"\x15\x02\0", "it has no schema"),
        (lambda footer: b"\x29\x1c\x58\0" * 2 + b"\0", "has no value|cut|tree|twice"),
        (lambda footer: b"\x16" + b"\xff" * 11, "a number in it does not end"),
        (lambda footer: b"\x1b" * 9, "it has an invalid value"),
    ],
)
def test_a_missing_footer(change, words, file):
    with pytest.raises(Contradiction, match=words):
        check_counts(change(footer_of(file)), None)


def iceberg(folder: Path) -> tuple[str, Path]:
    table = IcebergTable.create(folder / "t", {"id": "long", "name": "string"})
    data = table.write_data([{"id": i, "name": f"n{i}"} for i in range(10)], row_group_size=5)
    table.append(data)
    return table.location, Path(data.file)


def delta(folder: Path) -> tuple[str, Path]:
    table = DeltaTable.create(folder / "t", {"id": "long", "name": "string"})
    data = table.write_data([{"id": i, "name": f"n{i}"} for i in range(10)])
    table.append(data)
    return str(folder / "t"), next((folder / "t").glob("*.parquet"))


LOST: dict[str, dict[tuple[int, ...], int]] = {
    "no values": {chunk(0, ID, 5): 0},
    "fewer values": {chunk(0, ID, 5): 1},
    "negative size": {chunk(0, ID, 7): -1},
    "rows of the file": {FILE_ROWS: 9},
}
DAMAGE = r"Cannot read the footer of a Parquet file: .*; restore the file"


@pytest.mark.parametrize(
    ("engine", "untrusted"),
    [("duckdb", False), ("duckdb", True), pytest.param("spark", False, marks=pytest.mark.harness_spark)],
)
@pytest.mark.parametrize("make", [iceberg, delta])
@pytest.mark.parametrize("name", LOST)
def test_no_row_is_lost_by_a_count(name, make, engine, untrusted, tmp_path):
    location, file = make(tmp_path)
    edit(file, LOST[name])
    snapshot = harness.open_table(location, untrusted=untrusted).snapshot()
    for read in ({}, {"columns": ["name"]}, {"where": "id = 2"}):
        with pytest.raises(CorruptFileError, match=DAMAGE) as caught:
            snapshot.to_arrow(**read, engine=engine)
        assert file.name in str(caught.value.file)


def test_a_delete_file(tmp_path):
    """A chunk without keys would delete no row."""
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": i} for i in range(4)]))
    deletes = table.write_equality_deletes(["id"], [{"id": 1}])
    table.commit(add=[deletes])
    edit(Path(deletes.file), {chunk(0, ID, 5): 0})
    with pytest.raises(CorruptFileError, match=DAMAGE):
        harness.open_table(table.location).snapshot().to_arrow()


ENGINES = ["duckdb", pytest.param("spark", marks=pytest.mark.harness_spark)]


def read(location: Path, engine: str, request: pytest.FixtureRequest, **how: Any) -> tuple[list[Any], list[str]]:
    """Return the rows, sorted, and the texts of all warnings."""
    plan = harness.open_table(str(location)).snapshot().plan(**how)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", HarnessWarning)
        if engine == "spark":
            found = spark_engine.to_arrow(plan, request.getfixturevalue("spark"))
        else:
            found = find_engine(engine).to_arrow(plan)
    rows = sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)
    return rows, [str(warning.message) for warning in caught if issubclass(warning.category, HarnessWarning)]


@pytest.mark.parametrize("engine", ENGINES)
def test_delta_files_of_other_names_are_warned_of(engine, tmp_path, request):
    """delta T7, T10: without column mapping, its columns are not found, and one warning reports this."""
    t = DeltaTable.create(tmp_path / "t", {"id": "long", "s": "string"})
    names = {"id": "col-1", "s": "col-2"}
    unlike = [t.write_data([{"id": i, "s": "x"}], names=names) for i in (1, 2)]
    t.append(t.write_data([{"id": 0}]), *unlike)
    rows, said = read(t.directory, engine, request)
    assert rows == [(0, None), (None, None), (None, None)]
    assert len(said) == 1
    assert f"{unlike[0].path} (" in said[0]
    assert ", and 1 more files, of table" in said[0]
    assert said[0].endswith("[delta T7]")  # the rule that makes the values null, like iceberg 5.2
    assert rule_in_format("iceberg 5.2", "delta") == "delta T7"


@pytest.mark.parametrize("engine", ENGINES)
def test_iceberg_files_of_other_ids_are_warned_of(engine, tmp_path, request):
    """iceberg 5.2: this table looks like a table whose columns were all dropped since, which it is."""
    t = IcebergTable.create(tmp_path / "t", {"a": "long"})
    old = t.write_data([{"a": 1}])
    t.append(old)
    t.add_column("b", "long")
    t.drop_column("a")
    t.append(t.write_data([{"b": 2}]))
    rows, said = read(t.store.directory, engine, request)
    assert rows == [(2,), (None,)]
    assert len(said) == 1
    assert said[0].startswith(f"Data file {old.path} of table")
    assert said[0].endswith("[iceberg 5.2]")
