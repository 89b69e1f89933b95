"""Readers and cases: published case formats, made by hand in the form of their suites, and harness's own engines."""

import datetime
import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.cli import main
from harness.errors import OutsideTableError
from harness.suite.reader import HarnessReader
from harness.suite.scenarios.building import build
from harness.suite.scenarios.loading import from_mapping
from harness.suite.scenarios.model import ResolvedExpectation, ResolvedSelector
from harness.writing.delta.builder import DeltaTable

SCHEMA = {"id": "long", "At": "timestamp", "letter": "string"}
TIME = "2024-05-06 07:08:09Z"
ROWS = [[1, TIME, "a"], [2, None, "b"], [3, TIME, None]]
INSTANT = datetime.datetime(2024, 5, 6, 7, 8, 9)  # INT96's Julian day and nanoseconds


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Make a table of two versions: one row, then three rows."""
    history = [{"append": [{"data": "a", "rows": ROWS[:1]}]}, {"append": [{"data": "b", "rows": ROWS[1:]}]}]
    told = {
        "title": "Two",
        "format": "delta",
        "clauses": [],
        "table": {"schema": SCHEMA, "configuration": {"k": "v"}},
        "history": history,
        "expect": {"rows": []},
    }
    return build(from_mapping(told, "two"), tmp_path_factory.mktemp("made")).location


def written(place, content):
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(content))


def rows(place, ids, **columns):
    """Write rows as Spark does: in two files, with INT96, next to files without rows."""
    place.mkdir(parents=True)
    values = {1: (INSTANT, "a"), 2: (None, "b"), 3: (INSTANT, None)}
    kinds = {"id": pa.int64(), "At": pa.timestamp("us"), "letter": pa.string()}
    for number, kept in enumerate([ids[:1], ids[1:]]):
        parts = {"id": kept, "At": [values[i][0] for i in kept], "letter": [values[i][1] for i in kept]}
        table = pa.table({name: pa.array(parts[name], kinds[name]) for name in columns or kinds})
        pq.write_table(table, place / f"part-{number}.parquet", use_deprecated_int96_timestamps=True)
    for name in ("_SUCCESS", ".part-0.parquet.crc", "_part-9.parquet"):
        (place / name).write_bytes(b"none")


def ran(directory, capsys, *options, code=0):
    """Return the JSON report of a run."""
    assert main(["scenarios", "run", "--cases", str(directory), "--format", "json", *options]) == code
    return json.loads(capsys.readouterr().out)


def outcomes(report):
    return {(case["engine"], case["scenario"]): case["outcome"] for case in report["cases"]}


@pytest.fixture
def dat(table, tmp_path):
    """Make a case of Delta's acceptance tests."""
    case = tmp_path / "reader_tests/generated/two"
    shutil.copytree(table, case / "delta")
    written(case / "test_case_info.json", {"name": "two", "description": "Two versions"})
    for reading, version, ids in (("latest", 2, [3, 2, 1]), ("v1", 1, [1])):
        rows(case / "expected" / reading / "table_content", ids)
        told = {"version": version, "properties": {"k": "v"}, "min_reader_version": 1, "min_writer_version": 2}
        written(case / "expected" / reading / "table_version_metadata.json", told)
    return case


def test_readings_of_an_acceptance_test_are_scored_version_by_version(dat, tmp_path, capsys):
    report = ran(tmp_path, capsys, "--engines", "duckdb,oracle")
    name = "reader_tests/generated/two"
    assert outcomes(report) == {
        ("duckdb", name): "PASS",
        ("oracle", name): "PASS",
        ("duckdb", f"{name}/table_version_metadata"): "PASS",
        ("oracle", f"{name}/table_version_metadata"): "UNSUPPORTED",
    }
    assert [check["read"] for check in report["cases"][0]["checks"]] == ["all columns", "all columns at version 1"]


def test_other_rows_or_properties_than_those_of_an_acceptance_test_fail(dat, tmp_path, capsys):
    shutil.rmtree(dat / "expected/v1/table_content")
    rows(dat / "expected/v1/table_content", [2])
    file = dat / "expected/latest/table_version_metadata.json"
    file.write_text(file.read_text().replace('"v"', '"w"'))
    report = ran(tmp_path, capsys, "--engines", "duckdb", code=1)
    assert [case["outcome"] for case in report["cases"]] == ["FAIL", "FAIL"]
    read, told = report["cases"]
    assert [check["outcome"] for check in read["checks"]] == ["PASS", "FAIL"]
    assert [check["outcome"] for check in told["checks"]] == ["FAIL", "PASS"]
    assert read["command"] == (f"harness scenarios run reader_tests/generated/two --cases {tmp_path} --engines duckdb")


SCHEMA_STRING = json.dumps(
    {
        "type": "struct",
        "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in SCHEMA.items()],
    }
)
SPECS = {
    "all": ({"type": "read", "expected": {"rowCount": 3, "fileCount": 2, "filesSkipped": 0}}, [1, 2, 3]),
    "old": ({"type": "read", "version": 1, "expected": {"rowCount": 1}}, [1]),
    "then": ({"type": "read", "timestamp": "9999-01-01T00:00:00Z", "error": {"errorCode": "DELTA_LATER"}}, None),
    "some": ({"type": "read", "predicate": "`id` <=> 3 OR letter RLIKE '^b'", "expected": {"rowCount": 2}}, [2, 3]),
    "ids": (
        {"type": "read", "columns": ["id"], "predicate": "at = '2024-05-06 07:08:09'", "expected": {"rowCount": 2}},
        [1, 3],
    ),
    "negative": ({"type": "read", "version": -1, "expected": {"rowCount": 0}}, None),
    "never": ({"type": "snapshotConstruction", "version": 99, "error": {"errorCode": "DELTA_VERSION"}}, None),
    "fails": ({"type": "read", "error": {"errorCode": "DELTA_UNSUPPORTED_FEATURES_FOR_READ"}}, None),
    "told": (
        {
            "type": "snapshot_construction",
            "expected": {
                "protocol": {"minReaderVersion": 1, "minWriterVersion": 2},
                "metadata": {
                    "format": {"provider": "parquet", "options": {}},
                    "schemaString": SCHEMA_STRING,
                    "partitionColumns": [],
                    "configuration": {"k": "v"},
                    "createdTime": 5,
                },
            },
        },
        None,
    ),
    "told-wrong": ({"type": "snapshot", "expected": {"protocol": {"minReaderVersion": 2}}}, None),
    "feed": ({"type": "cdf", "startVersion": 0}, None),
    "more": ({"type": "cdf", "startVersion": 1}, None),
    "limited": ({"type": "read", "limit": 1, "expected": {"rowCount": 1}}, [1]),
    "torn": ({"type": "read", "predicate": "id = (", "expected": {"rowCount": 1}}, [1]),
    "rowless": ({"type": "read", "expected": {"rowCount": 1}}, None),
    "miscounted": ({"type": "read", "expected": {"rowCount": 2}}, [1, 2, 3]),
    "bare": ({"type": "read"}, None),
}


@pytest.fixture
def workloads(table, tmp_path):
    """Make a table of the acceptance workloads."""
    folder = tmp_path / "two"
    shutil.copytree(table, folder / "delta")
    written(folder / "table_info.json", {"name": "two", "tags": []})
    for name, (spec, ids) in SPECS.items():
        written(folder / f"specs/{name}.json", spec)
        if ids is not None:
            named = {"id": 0} if "columns" in spec else {}
            rows(folder / f"expected/{name}/expected_data", ids, **named)
    return tmp_path


def test_workloads_are_scored_and_those_of_unknown_kinds_are_counted(workloads, capsys):
    report = ran(workloads, capsys, "--engines", "duckdb", code=1)
    assert {name.removeprefix("two/"): outcome for (_, name), outcome in outcomes(report).items()} == {
        "all": "PASS",
        "old": "PASS",
        "then": "PASS",
        "some": "PASS",
        "ids": "PASS",
        "negative": "PASS",
        "never": "PASS",
        "fails": "FAIL",
        "told": "PASS",
        "told-wrong": "FAIL",
    }
    assert report["missing"] == {
        "cdf": "2 cases of an unknown kind",
        "predicate that cannot be parsed": "1 case of an unknown kind",
        "read with a rowCount that differs from its expected rows": "1 case of an unknown kind",
        "read with limit": "1 case of an unknown kind",
        "read without a file of expected rows": "1 case of an unknown kind",
        "read without an expectation": "1 case of an unknown kind",
    }
    titles = {each["name"]: each["title"] for each in report["scenarios"]}
    assert titles["two/all"] == "all (fileCount 2, filesSkipped 0)"


def test_workloads_run_by_name_on_a_reader_of_another_project(workloads, capsys):
    report = ran(workloads, capsys, "two/a*", "two/never", "two/told", "--engines", "fake_engines:Fake", code=1)
    found = {"two/all": "PASS", "two/never": "FAIL", "two/told": "UNSUPPORTED"}
    assert outcomes(report) == {("fake", name): outcome for name, outcome in found.items()}


def test_a_suite_as_data_is_run_like_its_scenarios(tmp_path, capsys):
    names = ["iceberg/deletes/null-keys", "iceberg/deletes/vector-of-wrong-checksum", "delta/checkpoints/multi-part"]
    assert main(["scenarios", "build", *names, str(tmp_path / "suite")]) == 0
    capsys.readouterr()
    report = ran(tmp_path / "suite", capsys, "--engines", "duckdb,oracle")
    assert outcomes(report) == {(engine, name): "PASS" for engine in ("duckdb", "oracle") for name in names}
    assert "equality-delete" in report["scenarios"][1]["features"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "No cases: expected suite.json, folders with test_case_info.json, or folders specs"),
        (["--keep", "x"], "Cannot combine --cases and --keep"),
        (["--untrusted"], "Cannot combine --cases and --untrusted"),
    ],
)
def test_a_directory_without_cases_is_refused(options, message, tmp_path, capsys):
    assert main(["scenarios", "run", "--cases", str(tmp_path), "--engines", "duckdb", *options]) == 2
    assert message in capsys.readouterr().err


def test_a_case_that_cannot_be_read_is_named(tmp_path, capsys):
    written(tmp_path / "specs/torn.json", [1])
    assert main(["scenarios", "run", "--cases", str(tmp_path)]) == 2
    assert "Cannot read the case: ValueError: not an object" in capsys.readouterr().err


READ = ResolvedExpectation(number=1, at=ResolvedSelector(), columns=None, where=None, expected=None)


@pytest.mark.parametrize("name", ["duckdb", "oracle"])
def test_files_are_read_within_one_directory(tmp_path, name):
    table = DeltaTable.create(tmp_path / "tables" / "clone", {"id": "long"})
    data = table.write_data([{"id": 1}])
    (tmp_path / "tables" / "source").mkdir()
    moved = shutil.move(data.file, tmp_path / "tables" / "source")
    data.add["path"] = f"file://{moved}"
    table.append(data)
    location = str(table.directory)
    assert HarnessReader(name, str(tmp_path / "tables")).answer(location, READ).num_rows == 1
    with pytest.raises(OutsideTableError):
        HarnessReader(name, location).answer(location, READ)
