"""The suite as data: it is written, read again, and scored against the results of a program."""

import contextlib
import io
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pyarrow as pa
import pytest

from harness.cli import DIFFERENT, DONE, FAILED, main
from harness.errors import EngineError, UnsupportedError
from harness.metadata.model.schema import Field
from harness.suite import suite_files as suites
from harness.suite.cases import load_cases
from harness.suite.json_rows import json_lines_of, json_lines_table
from harness.suite.protocol import ERROR_CLASSES, error_class
from harness.suite.result_files import score_results
from harness.suite.results import Outcome
from harness.suite.runner import EngineUnderTest, run, table_at
from harness.suite.scenarios.building import build, expected_table
from harness.suite.scenarios.loading import find, parse
from harness.suite.scenarios.verifying import build_intact_copy
from harness.suite.suite_files import load_case, schema, write_suite
from harness.suite.workers import Worker
from harness.writing.iceberg.types import parse_type, with_fresh_ids

_BROKEN, _PLAIN = "iceberg/files/missing-data-file", "iceberg/deletes/null-keys"
_STRANGE = "iceberg/manifests/unknown-format"
README = Path(suites.__file__).with_name("suite.md").read_text("utf-8")
_TEXT = """
title: A position delete
format: iceberg
clauses: [iceberg 4.7, a note]
features: [position-delete]
table: {format-version: 2, schema: {id: long not null, name: string}}
history:
  - append: [{data: a, rows: [[1, x], [2, y]]}]
  - commit: {add: [{position-deletes: [[a, 0]]}], as: deleted}
expect:
  - {columns: [name, id], where: id > 1, rows: [[y, 2]]}
  - {at: {snapshot: deleted}, error: CorruptFileError, cause: CorruptManifest, policy: a limit}
  - {open: nobody says}
"""


def written(directory: Path, *names: str, text: str | None = None) -> Path:
    """Write a suite of the scenarios with these names, or of one scenario with this text."""
    found = [scenario for name in names for scenario in find(name)] if text is None else [parse(text, "mine/case")]
    write_suite(found, directory, lambda _: None)
    return directory


@pytest.fixture(scope="module")
def suite(tmp_path_factory) -> Path:
    """Write tables with an intact copy, a catalog's answer, a past version, changes, an open read, and an error."""
    names = (
        "iceberg/files/missing-data-file",
        "iceberg/deletes/null-keys",
        "iceberg/manifests/unknown-format",
        "delta/catalog/held-commit-is-read",
        "iceberg/time-travel/snapshots-and-schemas",
        "delta/change-feed/vacuumed-refused",
        "delta/deletion-vectors/unknown-storage-refused",
        "delta/time-travel/by-version",
        "iceberg/changes/updates-by-stored-row-id",
    )
    return written(tmp_path_factory.mktemp("suite"), *names)


def make_case(suite: Path, name: str) -> dict:
    return json.loads((suite / name / "case.json").read_text("utf-8"))


def test_a_case_contains_reads_and_expected_results(tmp_path):
    case = make_case(written(tmp_path, text=_TEXT), "mine/case")
    first, second, third = case.pop("reads")
    requirement, note = case.pop("requirements")
    assert case == {
        "format": 1,
        "kind": "case",
        "name": "mine/case",
        "title": "A position delete",
        "table_format": "iceberg",
        "features": ["position-delete"],
        "table": "table",
        "metadata": "table/metadata/v3.metadata.json",
        "intact": "intact/case.json",
    }
    assert requirement["title"] == "The same commit"
    assert requirement["links"] == ["https://iceberg.apache.org/spec/#scan-planning"]
    assert note == {"id": "a note", "title": None, "source": None, "links": []}
    assert first == {
        "number": 1,
        "demand": "must",
        "policy": None,
        "open": None,
        "at": None,
        "changes": None,
        "columns": ["name", "id"],
        "where": "id > 1",
        "predicate": {"type": "gt", "term": "id", "value": 1},
        "catalog": None,
        "rows": {
            "count": 1,
            "columns": [
                {"name": "name", "type": "string", "required": False},
                {"name": "id", "type": "long", "required": True},
            ],
            "arrow": "expected/1.arrow",
            "jsonl": "expected/1.jsonl",
        },
        "error": None,
    }
    assert (tmp_path / "mine/case/expected/1.jsonl").read_text("utf-8") == '{"name": "y", "id": 2}\n'
    _, snapshot = json.loads((tmp_path / "mine/case" / case["metadata"]).read_text("utf-8"))["snapshots"]
    assert second["at"] == {"kind": "snapshot_id", "value": snapshot["snapshot-id"]}
    assert (second["error"], second["demand"], second["policy"]) == ("corrupt-metadata", "policy", "a limit")
    assert (third["rows"], third["error"], third["open"]) == (None, None, "nobody says")


def test_a_suite_lists_cases_and_intact_copies(suite):
    index = json.loads((suite / "suite.json").read_text("utf-8"))
    intact_copies = {each["name"]: each["intact_of"] for each in index["cases"] if each["intact_of"]}
    refused = (
        "iceberg/time-travel/snapshots-and-schemas",
        "delta/change-feed/vacuumed-refused",
        "delta/time-travel/by-version",
    )
    broken = (_BROKEN, *refused, "delta/deletion-vectors/unknown-storage-refused")
    assert intact_copies == {f"{name}/intact": name for name in broken}
    assert index["count"] == 9 == len(index["cases"]) - len(intact_copies)
    assert index["directory"] == str(suite)
    named = {feature for each in index["cases"] for feature in each["features"]}
    assert named == index["features"].keys()
    assert (suite / "README.md").read_text("utf-8") == README
    assert json.loads((suite / "schema.json").read_text("utf-8")) == schema()


@pytest.mark.parametrize("name", ["iceberg/changes/updates-by-stored-row-id", "delta/change-feed/vacuumed-refused"])
def test_a_case_has_the_ranges_of_changes(name, suite, tmp_path):
    (scenario,) = find(name)
    expected = [each.at for each in build(scenario, tmp_path).expectations]
    assert [each.at for each in load_case(suite / name / "case.json").expectations] == expected


def test_a_suite_has_the_same_bytes_and_times_each_time(tmp_path):
    """Reads return the rows of intact copies in any order, and files get the time at which they were written."""
    names = ("delta/checkpoints/files-lost-refused", "iceberg/deletes/null-keys", "iceberg/metadata/view")
    found = []
    for _ in range(2):
        suite = written(tmp_path / "suite", *names)
        files = sorted(path for path in suite.rglob("*") if path.is_file())
        found.append([(str(path), path.read_bytes(), path.stat().st_mtime_ns) for path in files])
        shutil.rmtree(suite)
    assert found[0] == found[1]
    assert max(time for _, _, time in found[0]) < 1_800_000_000 * 10**9


def test_changed_failures_are_listed_by_reader_and_scenario():
    noxfile = pytest.importorskip("noxfile", reason="nox is not installed", exc_type=ImportError)
    first, other = "a::x  # FAIL: 1 row\n", "b::y  # ERROR: no TMP/t/f.parquet\n"
    assert noxfile.changed_failures(first + other, first.replace("1", "2") + other) == []
    assert noxfile.changed_failures(first + other, "c::z  # FAIL: x\n" + first) == [
        "fails: c::z",
        "no longer fails: b::y",
    ]


def test_an_archive_has_the_same_bytes_each_time_and_keeps_the_times_of_files(tmp_path):
    noxfile = pytest.importorskip("noxfile", reason="nox is not installed", exc_type=ImportError)
    suite, archive = written(tmp_path / "suite", "delta/log/minimal-actions"), tmp_path / "new/suite.tar.gz"
    os.utime(suite / "README.md", (5, 5.25))
    packed = []
    for _ in range(2):
        noxfile.write_archive(suite, archive)
        packed.append(archive.read_bytes())
        (suite / "README.md").chmod(0o600)
        os.utime(suite)
    assert packed[0] == packed[1]
    with tarfile.open(archive) as opened:
        # Python 3.11.2 does not have it and does not need it
        opened.extraction_filter = getattr(tarfile, "data_filter", None)
        opened.extractall(tmp_path / "new")
    for path in filter(Path.is_file, suite.rglob("*")):
        there = tmp_path / "new/suite" / path.relative_to(suite)
        assert (there.read_bytes(), there.stat().st_mtime_ns) == (path.read_bytes(), path.stat().st_mtime_ns)


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("date", "1970-01-03", 2),
        ("long", 2**53 + 1, 2**53 + 1),
        ("timestamptz", "1970-01-01 00:00:01Z", 1_000_000),
        ("timestamp_ns", "1970-01-01 00:00:00.000000001", 1),
        ("time", "00:00:01", 1_000_000),
        ("decimal(9, 2)", "1.5", "1.50"),
        ("binary", "00ff", "00ff"),
        ("fixed[2]", "00ff", "00ff"),
        ("string", 'a\n"\u2028', 'a\n"\u2028'),
        ("double", math.nan, "NaN"),
        ("double", -math.inf, "-Infinity"),
        ("double", -0.0, -0.0),
        ("float", 0.1, 0.10000000149011612),
        ("uuid", "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000001"),
        ("map<string, int>", {"a": None}, [["a", None]]),
        ("struct<a: int, b: list<date>>", {"a": 1, "b": ["1970-01-02"]}, {"a": 1, "b": [1]}),
    ],
)
def test_values_as_json_lines_and_back(text, value, expected):
    (field,) = with_fresh_ids((Field(id=0, name="c", type=parse_type(text)[0]),), iter(range(1, 9)))
    rows = expected_table((field,), [[value], [None]], {})
    lines = json_lines_of(rows)
    first, second, end = lines.split("\n")
    assert (json.dumps(json.loads(first)["c"]), second, end) == (json.dumps(expected), '{"c": null}', "")
    back = json_lines_table(lines, rows.schema)
    # compared as text, because NaN does not equal NaN
    assert (back.schema, repr(back.to_pylist())) == (rows.schema, repr(rows.to_pylist()))


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        pytest.param("iceberg/files/missing-data-file", 2, id="without-the-damage"),
        pytest.param("delta/deletion-vectors/cardinality-wrong-refused", 2, id="without-what-is-set"),
        pytest.param("iceberg/deletes/two-vectors-for-one-file", 2, id="before-the-second-vector"),
        pytest.param("delta/deletion-vectors/removed-descriptor-incomplete-refused", 1, id="before-the-last-row-goes"),
        pytest.param("delta/time-travel/by-version", 1, id="the-whole-table"),
        pytest.param("iceberg/schema/narrowed-type", 1, id="the-only-commit-plainly"),
        pytest.param("delta/schema/unknown-type-refused", None, id="none"),
    ],
)
def test_the_intact_copy_is_the_longest_readable_history(name, rows, tmp_path):
    (scenario,) = find(name)
    intact_copy = build_intact_copy(scenario, tmp_path / "intact")
    assert (None if intact_copy is None else intact_copy.expectations[0].expected.num_rows) == rows
    assert (tmp_path / "intact").exists() == (rows is not None)


@pytest.mark.parametrize(
    ("kind", "cause", "expected_class"),
    [
        ("UnsupportedError", None, "unsupported-feature"),
        ("EncryptedTableError", None, "unsupported-feature"),
        ("InvalidTableError", "LogGap", "corrupt-metadata"),
        ("CorruptFileError", "CorruptDataFile", "corrupt-data"),
        ("CorruptFileError", "LogCorrupt", "corrupt-metadata"),
        ("InvalidTableError", "CorruptDeletionVector", "corrupt-deletes"),
        ("CorruptDeleteError", None, "corrupt-deletes"),
        ("IsAViewError", None, "not-found"),
        ("SnapshotNotFoundError", None, "not-found"),
        ("UnknownColumnError", None, "invalid-request"),
        ("HarnessError", None, "failed"),
        ("missing-file", None, "missing-file"),
    ],
)
def test_errors_have_neutral_classes(kind, cause, expected_class):
    assert error_class(kind, cause) == expected_class


def test_classes_of_errors_are_the_same_in_code_schema_and_words():
    assert schema()["$defs"]["read"]["properties"]["error"]["enum"] == [None, *ERROR_CLASSES]
    assert dict(re.findall(r"^\| `([a-z-]+)` \| ([^|`]+) \|$", README.partition("| Class |")[2], re.MULTILINE)) == (
        ERROR_CLASSES
    )


def test_the_suites_readme_names_all_keys_of_the_schema():
    """The first columns of the tables of suite.json, of case.json and of a read contain the keys."""
    for kind, start in (("suite", "`suite.json` has"), ("case", "`case.json` has"), ("read", "A read has")):
        table = README.partition(start)[2].partition("\n\n")[2].partition("\n\n")[0]
        cells = [line.split(" | ")[0] for line in table.splitlines()]
        assert re.findall(r"`(\w+)`", " ".join(cells)) == list(schema()["$defs"][kind]["properties"]), kind


def results(folder: Path, **files: object) -> Path:
    """Make a folder of results. `files` has the content by path, with `__` for `/`: text, bytes, or a JSON value."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content if isinstance(content, str | bytes) else json.dumps(content)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    return folder


def expected_rows(suite: Path, name: str, ending: str = "jsonl") -> bytes:
    return (suite / name / f"expected/1.{ending}").read_bytes()


def arrow(array: pa.Array) -> bytes:
    """Return an Arrow stream with a column `a`."""
    stream = io.BytesIO()
    table = pa.table({"a": array})
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return stream.getvalue()


NO_TEXT = pa.Array.from_buffers(pa.utf8(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
REFUSAL = {"error": "Missing", "message": "no such file"}


@pytest.mark.parametrize(
    ("case", "files", "outcome", "words"),
    [
        (_PLAIN, {"1.arrow": ...}, "PASS", None),
        (_PLAIN, {"1.jsonl": ...}, "PASS", None),
        (_PLAIN, {"1.jsonl": ""}, "FAIL", "expected and not read"),
        (_PLAIN, {}, "UNSUPPORTED", "not run: there is no result"),
        (_PLAIN, {"1.json": {"unsupported": "no deletes"}}, "UNSUPPORTED", "no deletes"),
        (_PLAIN, {"1.json": {"error": "unsupported-feature", "message": "none"}}, "UNSUPPORTED", "none"),
        (_PLAIN, {"1.json": REFUSAL}, "ERROR", "Missing: no such file"),
        (_PLAIN, {"1.json": {"count": -1}}, "FAIL", "count(*) is -1"),
        (_PLAIN, {"1.jsonl": ..., "1.json": {"count": -1}}, "FAIL", "count(*) is -1"),
        (_PLAIN, {"1.jsonl": ..., "1.arrow": ...}, "ERROR", "one result, got arrow and jsonl"),
        (_PLAIN, {"1.jsonl": ..., "1.json": {"unsupported": "no"}}, "ERROR", "one result, got jsonl and json"),
        (_PLAIN, {"1.arrow": "no Arrow"}, "ERROR", "Cannot read the rows"),
        (_PLAIN, {"1.arrow": arrow(NO_TEXT)}, "ERROR", "Invalid UTF8"),
        (_PLAIN, {"1.arrow": arrow(pa.array([1]))}, "FAIL", "expected and not read"),
        (_PLAIN, {"1.jsonl": '{"a": "x", "b": "y"}'}, "ERROR", "Cannot read the rows"),
        (_PLAIN, {"1.json": {"rows": 1}}, "ERROR", "the result has no 'unsupported'"),
        (_PLAIN, {"1.json": "{"}, "ERROR", "Cannot read the result"),
        (_BROKEN, {"1.json": REFUSAL, "intact/1.jsonl": ...}, "PASS", None),
        (
            _BROKEN,
            {"1.json": REFUSAL, "intact/1.json": REFUSAL},
            "UNSUPPORTED",
            "the intact copy is not read correctly",
        ),
        (_BROKEN, {"1.json": REFUSAL}, "UNSUPPORTED", "not read correctly either: not run"),
        (_BROKEN, {"1.json": {**REFUSAL, "panic": True}, "intact/1.jsonl": ...}, "ERROR", "no such file"),
        (_BROKEN, {"1.jsonl": "", "intact/1.jsonl": ...}, "FAIL", "expected missing-file"),
        (_STRANGE, {"1.json": {"unsupported": "of that format"}}, "PASS", None),
        (_STRANGE, {}, "UNSUPPORTED", "not run"),
    ],
)
def test_a_result_is_scored(case, files, outcome, words, suite, tmp_path):
    given = {}
    for name, content in files.items():
        place, _, ending = name.rpartition(".")
        own = f"{case}/intact" if place.startswith("intact/") else case
        given[f"{case}/{name}"] = expected_rows(suite, own, ending) if content is ... else content
    other = {f"{_PLAIN if case != _PLAIN else _BROKEN}/1.json": {"unsupported": "another case"}}
    run = score_results(suite, results(tmp_path, **given, **other))
    (found,) = [each for each in run.cases if each.scenario.name == case]
    check = found.checks[0]
    assert check.outcome is Outcome(outcome)
    assert words is None or words in check.message


def test_rows_that_only_harness_refuses_are_not_a_mistake(tmp_path):
    suite = written(tmp_path / "suite", text=_TEXT)
    given = {"mine/case/1.jsonl": expected_rows(suite, "mine/case"), "mine/case/2.jsonl": "", "mine/case/3.jsonl": ""}
    run = score_results(suite, results(tmp_path / "results", **given))
    assert [check.outcome for check in run.cases[0].checks] == [Outcome.PASS, Outcome.POLICY, Outcome.OPEN]
    score = run.score(run.engines[0])
    assert (score.right, score.silent, score.kept, score.policies) == (1, 0, 0, 1)


def test_right_results_are_right_and_empty_ones_are_not(suite, tmp_path, capfd):
    index = json.loads((suite / "suite.json").read_text("utf-8"))
    for entry in index["cases"]:
        for read in make_case(suite, entry["name"])["reads"]:
            place = f"{entry['name']}/{read['number']}"
            right = {f"{place}.json": {"error": read["error"], "message": "as it must"}}
            if read["rows"]:
                right = {f"{place}.jsonl": (suite / entry["name"] / read["rows"]["jsonl"]).read_bytes()}
            results(tmp_path / "right", **right)
            results(tmp_path / "empty", **{f"{place}.jsonl": ""})
    results(tmp_path / "right", **{"reader.json": {"name": "mine", "version": "1.2", "language": "Go"}})
    assert main(["scenarios", "score", str(suite), str(tmp_path / "right")]) == DONE
    printed = capfd.readouterr().out
    assert re.search(r"^mine 1\.2 +0 ", printed, re.MULTILINE)
    assert "9 PASS" in printed
    report = tmp_path / "report.json"
    assert main(["scenarios", "score", str(suite), str(tmp_path / "empty"), "--output", str(report)]) == DIFFERENT
    found = json.loads(report.read_text("utf-8"))
    assert found["engines"][0]["name"] == "empty"
    assert {case["outcome"] for case in found["cases"]} == {"FAIL"}
    last = [each["name"] for each in index["cases"] if not each["intact_of"]][-1]
    assert found["cases"][-1]["command"] == f"harness scenarios score {suite} {tmp_path / 'empty'} {last}"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{tmp}", "{tmp}"], "Cannot read the suite: it does not exist"),
        (["{suite}", "{tmp}/none"], "The folder of results does not exist"),
        (["{suite}", "{tmp}"], "The folder contains no result of the suite"),
        (["{suite}", "{tmp}", "no/such"], "No case matches no/such"),
        (["{suite}", "{suite}", "--output", "x.csv"], "the suffix means csv"),
    ],
)
def test_an_error_of_scoring_is_one_line(arguments, words, suite, tmp_path, capfd):
    assert main(["scenarios", "score", *(each.format(suite=suite, tmp=tmp_path) for each in arguments)]) == FAILED
    assert words in capfd.readouterr().err


def test_expected_failures_are_a_list(suite, tmp_path, capfd):
    folder = results(tmp_path / "mine", **{f"{_PLAIN}/1.jsonl": ""})
    known = tmp_path / "known.txt"
    known.write_text(f"mine::{_PLAIN}  # deletes are not applied\n")
    assert main(["scenarios", "score", str(suite), str(folder), _PLAIN, "--xfails", str(known)]) == DONE
    assert "1 XFAIL" in capfd.readouterr().out


def test_the_program_of_the_readme_reads_the_suite(tmp_path, capfd):
    suite = written(tmp_path / "suite", "delta/log/*", _PLAIN)
    (program,) = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    (tmp_path / "mine.py").write_text(program, "utf-8")
    subprocess.run([sys.executable, tmp_path / "mine.py", suite, tmp_path / "results"], check=True, timeout=60)
    run = score_results(suite, tmp_path / "results")
    outcomes = {case.scenario.name: case.outcome for case in run.cases}
    assert (outcomes[_PLAIN], outcomes["delta/log/moved-table"]) == (Outcome.UNSUPPORTED, Outcome.FAIL)
    assert outcomes["delta/log/minimal-actions"] is Outcome.PASS
    assert sum(outcome is Outcome.PASS for outcome in outcomes.values()) >= 5


SOME_FILTERED = ("delta/skipping/*", "delta/log/m*", "delta/time-travel/by-version")
SIMPLE = Path(__file__).parent / "programs/simple.py"


def test_a_program_has_one_score_whether_it_is_run_or_its_results_are_scored(tmp_path):
    """The program supports no filters, which it reports in its first answer and for each filtered read."""
    suite, program = written(tmp_path / "suite", *SOME_FILTERED), [sys.executable, str(SIMPLE)]
    with contextlib.closing(Worker("simple", program, time_limit_s=60)) as reader:
        ran = run(load_cases(suite), [EngineUnderTest(reader=reader, argument="simple")])
        for path in suite.rglob("case.json"):
            case = load_case(path)
            place = tmp_path / "results" / case.scenario.name
            place.mkdir(parents=True)
            for each in case.expectations:
                answer(reader, table_at(case, each), each, place)
    scored = score_results(suite, tmp_path / "results")
    outcomes = [[(c.scenario.name, c.outcome) for c in found.cases] for found in (ran, scored)]
    assert outcomes[0] == outcomes[1]
    assert ran.score(ran.engines[0]) == scored.score(scored.engines[0])
    assert ran.score(ran.engines[0]).right > 2


def answer(reader, table, expectation, place):
    """Write a reader's answer as a program writes its results."""
    file = place / f"{expectation.number}.json"
    try:
        rows = reader.read(table, columns=expectation.columns, where=expectation.where)
    except UnsupportedError as error:
        file.write_text(json.dumps({"unsupported": error.message}), "utf-8")
    except EngineError as error:
        file.write_text(json.dumps({"error": error.cause, "message": error.message}), "utf-8")
    else:
        with pa.ipc.new_file(file.with_suffix(".arrow"), rows.schema) as stream:
            stream.write_table(rows)


@pytest.mark.slow
def test_every_case_reads_back_and_its_own_rows_are_right(tmp_path):
    """For all scenarios, rows as JSON lines equal rows as Arrow, and expected rows copied as results are correct."""
    suite = written(tmp_path / "suite", "*")
    index = json.loads((suite / "suite.json").read_text("utf-8"))
    for entry in index["cases"]:
        for read in load_case(suite / entry["case"]).expectations:
            place = f"{entry['name']}/{read.number}"
            if isinstance(read.expected, pa.Table):
                lines = (suite / entry["name"] / f"expected/{read.number}.jsonl").read_text("utf-8")
                back = json_lines_table(lines, read.expected.schema)
                assert (back.schema.types, json_lines_of(back)) == (read.expected.schema.types, lines), place
                results(tmp_path / "right", **{f"{place}.jsonl": lines})
            elif read.expected is not None:
                results(tmp_path / "right", **{f"{place}.json": {"error": read.expected.kind, "message": "as it must"}})
    run = score_results(suite, tmp_path / "right")
    score = run.score(run.engines[0])
    assert (score.right_of_all, score.kept) == (100, score.policies)
    assert {case.outcome for case in run.cases} == {Outcome.PASS, Outcome.OPEN}
