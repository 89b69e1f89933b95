"""`harness check` and `Table.check`: exit codes, levels, selected rules, and report formats."""

import json
import os
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import harness
from harness.check.reports import to_sarif
from harness.cli import main
from harness.errors import HarnessWarning, RequestError, UnknownColumnError
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable


@pytest.fixture
def sound(tmp_path) -> IcebergTable:
    table = IcebergTable.create(tmp_path / "sound", {"id": "long", "x": "double"})
    for first in (0, 10, 20):
        table.append(table.write_data([{"id": i, "x": i / 2} for i in range(first, first + 10)]))
    return table


@pytest.fixture
def lying(tmp_path) -> Path:
    """Two files of ten rows. The second file's greatest `x`, 133, is recorded as 103, and its size is off by one."""
    table = DeltaTable.create(tmp_path / "lying", {"id": "long", "x": "long"})
    for first in (0, 10):
        table.append(table.write_data([{"id": i, "x": i * 7} for i in range(first, first + 10)]))
    commit = tmp_path / "lying/_delta_log/00000000000000000002.json"
    lines = [json.loads(line) for line in commit.read_text("utf-8").splitlines()]
    (add,) = (line["add"] for line in lines if "add" in line)
    add["size"] += 1
    stats = json.loads(add["stats"])
    stats["maxValues"]["x"] = 103
    add["stats"] = json.dumps(stats)
    commit.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    return tmp_path / "lying"


def test_a_sound_table_has_no_findings(sound, capsys):
    assert main(["check", str(sound.location), "--level", "data", "--all-snapshots"]) == 0
    assert "no findings by" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "rules"),
    [
        pytest.param(["--level", "metadata"], 0, [], id="metadata-reads-no-file"),
        pytest.param([], 1, ["DEL-402"], id="files-by-default"),
        pytest.param(["--level", "data"], 1, ["DEL-402", "DEL-503"], id="data"),
        pytest.param(["--level", "data", "--columns", "id"], 1, ["DEL-402"], id="another-column"),
        pytest.param(["--level", "data", "--select", "DEL-5*"], 1, ["DEL-503"], id="a-pattern"),
        pytest.param(["--level", "data", "--select", "del-4,del-503"], 1, ["DEL-402", "DEL-503"], id="two-beginnings"),
        pytest.param(["--level", "data", "--select", "DEL", "--ignore", "DEL-402, *-503"], 0, [], id="all-but-two"),
        pytest.param(["--ignore", "del-402"], 0, [], id="ignored"),
        pytest.param(["--at", "1", "--level", "data"], 0, [], id="the-version-before"),
    ],
)
def test_levels_and_choices(lying, capsys, words, code, rules):
    assert main(["check", str(lying), *words, "--format", "json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert sorted({finding["rule"] for finding in document["findings"]}) == rules


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--select", "ICE"], "no selected rule applies to delta tables at --level files"),
        (["--select", "DEL-5"], "or use --level data"),
        (["--ignore", "DEL"], "no selected rule"),
        (["--select", "DEL-9"], "Unknown rule 'DEL-9': the nearest are DEL-"),
        (["--ignore", "DEL-503,,"], "--ignore 'DEL-503,,' contains an empty name"),
    ],
)
def test_a_selection_that_asks_nothing_is_an_error(lying, capsys, words, sentence):
    assert main(["check", str(lying), *words]) == 2
    out, err = capsys.readouterr()
    assert (out, sentence in err.splitlines()[-1]) == ("", True)


def test_a_finding_says_where_and_what(lying):
    report = harness.open_table(str(lying)).check(level="data", select=["DEL-503"])
    (finding,) = report.findings
    place = finding.breach.place
    assert (place.field, place.column) == ("maxValues", "x")
    assert place.file.endswith("_delta_log/00000000000000000002.json")
    assert (finding.breach.recorded, finding.breach.actual) == ("103", "the greatest is 133")
    assert finding.breach.writer.startswith("parquet-cpp-arrow version ")
    assert finding.breach.spans == ((70.0, 103.0), (70.0, 133.0))


def test_a_finding_on_a_commit_names_its_writer(tmp_path):
    table = DeltaTable.create(tmp_path / "t", {"id": "long"}, configuration={"delta.appendOnly": "true"})
    table.append(file := table.write_data([{"id": 1}]))
    table.remove(file)
    (finding,) = harness.open_table(str(tmp_path / "t")).check(level="metadata", select=["DEL-111"]).findings
    assert (finding.breach.actual, finding.breach.writer) == ("delta.appendOnly is true", "harness")


def test_findings_of_lower_severity_fail_on_request(tmp_path, capsys):
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    (tmp_path / "t/data/left-over.parquet").write_bytes(b"x" * 7)
    (named,) = {*(tmp_path / "t/data").iterdir()} - {tmp_path / "t/data/left-over.parquet"}
    for name in (named.name, "gone.parquet"):  # checksums of Hadoop's local file system
        (tmp_path / "t/data" / f".{name}.crc").write_bytes(b"crc")
    words = ["check", str(table.location), "--orphans"]
    assert main(words) == 0
    assert "left-over.parquet" in (out := capsys.readouterr().out)
    assert "7 bytes, age 0.0 days" in out
    assert ".gone.parquet.crc" in out
    assert f".{named.name}.crc" not in out
    assert main([*words, "--fail-on", "note"]) == 1


def test_a_sample_is_the_same_in_every_check(sound):
    table = harness.open_table(str(sound.location))
    read = [table.check(level="data", sample_files=1).read for _ in range(2)]
    assert [each["column"] for each in read] == [2, 2]
    assert table.check(level="data").read["column"] == 6


def test_all_forms_of_a_report(lying, tmp_path):
    names = {"json": "r.json", "junit": "r.xml", "html": "r.html", "sarif": "r.sarif", "github": "r.github"}
    words = [word for name in names.values() for word in ("-o", str(tmp_path / name))]
    assert main(["check", str(lying), "--level", "data", "--format", "github", *words]) == 1
    texts = {form: (tmp_path / name).read_text("utf-8") for form, name in names.items()}
    suite = ElementTree.fromstring(texts["junit"])
    assert [case.get("name").split()[0] for case in suite.iter("testcase") if len(case)] == ["DEL-402", "DEL-503"]
    (run,) = json.loads(texts["sarif"])["runs"]
    driver = run["tool"]["driver"]
    assert [driver["rules"][found["ruleIndex"]]["id"] for found in run["results"]] == ["DEL-402", "DEL-503"]
    assert all(found["message"]["text"] and found["level"] == "error" for found in run["results"])
    assert texts["github"].count("::error title=DEL-") == 2
    assert "recorded 70 to 103, actual 70 to 133" in texts["html"]


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["-o", "r.sarif", "--format", "github"], "::error title=DEL-402"),
        (["-o", "r.sarif", "--format", "sarif"], ""),
        (["-o", "r.sarif"], ""),
        (["-o", "r.txt", "--format", "github"], ""),
        (["-o", "r", "--format", "github"], ""),
    ],
    ids=" ".join,
)
def test_a_format_that_no_file_has_is_that_of_standard_output(lying, tmp_path, monkeypatch, capsys, words, printed):
    monkeypatch.chdir(tmp_path)
    assert main(["check", str(lying), *words]) == 1
    out = capsys.readouterr().out
    assert (out.startswith(printed), bool(out)) == (True, bool(printed))
    assert (tmp_path / words[1]).read_text("utf-8").startswith("{" if words[1] == "r.sarif" else "::error")


@pytest.mark.skipif(sys.platform == "win32", reason="no file has such a name there")
def test_a_message_in_sarif_has_no_link_and_no_placeholder_of_the_table(tmp_path, capsys):
    """SARIF 2.1.0, 3.11.5: braces are doubled. 3.11.6: brackets and backslashes are escaped by a backslash."""
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    (tmp_path / "t/data" / "[text](https:x){0}\\b").write_bytes(b"x")
    assert main(["check", str(table.location), "--orphans", "--format", "sarif"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    assert r"\[text\](https:x){{0}}\\b" in found["message"]["text"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        pytest.param({"level": "rows"}, RequestError, "expected one of metadata, files, data", id="level"),
        pytest.param({"select": ["DEL-4O2"]}, RequestError, "the nearest are DEL-402", id="rule"),
        pytest.param({"level": "data", "columns": ["y"]}, UnknownColumnError, "the columns are id, x", id="column"),
    ],
)
def test_what_cannot_be_asked(lying, options, error, message):
    with pytest.raises(error, match=message):
        harness.open_table(str(lying)).check(**options)


def test_a_check_that_cannot_run_is_no_finding(tmp_path, capsys):
    assert main(["check", str(tmp_path / "nothing")]) == 2
    assert "Cannot find a table" in capsys.readouterr().err


def test_a_table_that_cannot_be_opened_is_a_finding(lying, capsys):
    (lying / "_delta_log/00000000000000000001.json").write_text("{", "utf-8")
    assert main(["check", str(lying)]) == 1
    assert "DEL-001" in capsys.readouterr().out


def test_annotations_are_no_more_than_github_shows(tmp_path, capsys):
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    table.append(*(table.write_data([{"id": 1}]) for _ in range(12)))
    commit = tmp_path / "t/_delta_log/00000000000000000001.json"
    commit.write_text(re.sub(r'"size": ?\d+', '"size": 1', commit.read_text("utf-8")), "utf-8")
    assert main(["check", str(tmp_path / "t"), "--format", "github"]) == 1
    *lines, sentence = capsys.readouterr().out.splitlines()
    assert len(lines) == 10
    assert all(line.startswith("::error title=DEL-402") for line in lines[:9])
    assert lines[9] == "::error ::3 more findings; see the log or another report"
    assert sentence.startswith("12 errors by")


@pytest.mark.slow
def test_sarif_keeps_to_its_schema(lying):
    """The classes of pydantic-sarif were generated from the schema of SARIF 2.1.0 and reject unknown keys."""
    model = pytest.importorskip("pydantic_sarif.model", reason="pydantic-sarif is of the session tests-slow")
    report = harness.open_table(str(lying)).check(level="data")
    document = json.loads(to_sarif(report))
    assert model.StaticAnalysisResultsFormatSarifVersion210JsonSchema(**document).runs[0].results
    document["runs"][0]["results"][0]["wrong"] = 1
    with pytest.raises(ValueError, match="wrong"):
        model.StaticAnalysisResultsFormatSarifVersion210JsonSchema(**document)


def linked(directory, name, target):
    (directory / name).symlink_to(target, target_is_directory=True)


@pytest.mark.skipif(os.name == "nt", reason="links take a right on Windows")
@pytest.mark.parametrize("options", [[], ["--set", "outside=refuse"]], ids=["warn", "refuse"])
def test_orphans_are_not_looked_for_behind_links(tmp_path, capsys, options):
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign/secret.txt").write_text("x")
    linked(tmp_path / "t", "out", tmp_path / "foreign")
    linked(tmp_path / "t", "loop", tmp_path / "t")
    linked(tmp_path / "t", "file.parquet", tmp_path / "foreign/secret.txt")
    (tmp_path / "t/left.parquet").write_bytes(b"x")
    assert main(["check", str(tmp_path / "t"), "--orphans", "--format", "json", *options]) == 2
    document = json.loads(capsys.readouterr().out)
    assert [Path(found["file"]).name for found in document["findings"]] == ["left.parquet"]
    (sentence,) = document["unchecked"]
    assert "3 links" in sentence
    assert all(f"/t/{name}" in sentence for name in ("out", "loop", "file.parquet"))
    assert "secret" not in sentence


@pytest.fixture
def foreign(tmp_path):
    """A table whose second data file has an absolute path outside the table."""
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    for _ in range(2):
        table.append(table.write_data([{"id": 7}]))
    (tmp_path / "foreign").mkdir()
    commit = tmp_path / "t/_delta_log/00000000000000000002.json"
    lines = [json.loads(line) for line in commit.read_text("utf-8").splitlines()]
    (add,) = (line["add"] for line in lines if "add" in line)
    moved = tmp_path / "foreign" / Path(add["path"]).name
    (tmp_path / "t" / add["path"]).rename(moved)
    add["path"] = moved.as_posix()
    commit.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    return tmp_path / "t"


def test_a_foreign_file_is_checked_with_a_warning(foreign):
    with pytest.warns(HarnessWarning, match="outside of the table"):
        report = harness.open_table(str(foreign)).check(level="data")
    assert (report.findings, report.unchecked) == ((), ())


@pytest.mark.parametrize("options", [["--set", "outside=refuse"], ["--untrusted"]], ids=" ".join)
@pytest.mark.parametrize("form", ["text", "json", "junit", "github", "sarif", "html"])
def test_a_file_that_may_not_be_read_is_not_no_finding(foreign, capsys, options, form):
    if options == ["--untrusted"] and form != "text":
        pytest.skip("the worker runs the same report")
    assert main(["check", str(foreign), "--level", "data", "--format", form, *options]) == 2
    out = capsys.readouterr().out
    assert "no findings" not in out
    assert "beyond the table" in out
    marks = {
        "junit": "<error ",
        "github": "::error title=Not checked",
        "sarif": '"executionSuccessful": false',
        "html": "≠",
    }
    assert marks.get(form, "nothing found") in out


@pytest.mark.skipif(os.name == "nt", reason="links take a right on Windows")
def test_a_data_file_that_is_a_link_is_not_checked_and_the_others_are(tmp_path):
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    first, second = (table.write_data([{"id": number}]) for number in (1, 2))
    table.append(first, second)
    (tmp_path / "foreign").mkdir()
    path = tmp_path / "t" / first.path
    path.rename(tmp_path / "foreign" / path.name)
    path.symlink_to(tmp_path / "foreign" / path.name)
    report = harness.open_table(str(tmp_path / "t"), outside="refuse").check(level="data")
    assert (report.findings, report.read["column"]) == ((), 1)
    assert len(report.unchecked) == 1
    assert path.name in report.unchecked[0]


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "1" * 5_000, '{"type": "struct"'], ids=lambda text: text[:10])
def test_a_broken_schema_below_a_checkpoint_is_a_finding(tmp_path, text):
    """The version is read from the checkpoint only, so the table can be read."""
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    table.checkpoint()
    commit = tmp_path / "t/_delta_log/00000000000000000000.json"
    lines = [json.loads(line) for line in commit.read_text("utf-8").splitlines()]
    for line in lines:
        if "metaData" in line:
            line["metaData"]["schemaString"] = text
    commit.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    report = harness.open_table(str(tmp_path / "t")).check(level="data", all_snapshots=True)
    assert "DEL-107" in report.counts


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
@pytest.mark.parametrize("form", ["text", "json", "junit", "github", "sarif", "html"])
def test_an_orphan_whose_name_is_not_utf8(tmp_path, capsysbinary, form):
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    (tmp_path / os.fsdecode(b"t/left\xff.parquet")).write_bytes(b"x")
    assert main(["check", str(tmp_path / "t"), "--orphans", "--format", form]) == 0
    assert b"left" in capsysbinary.readouterr().out


def test_the_suffix_of_sarif(lying, tmp_path):
    words = ["--level", "data", "--fail-on", "warning", "--output", str(tmp_path / "findings.sarif")]
    assert main(["check", str(lying), *words, "--output", str(tmp_path / "findings.html")]) == 1
    assert json.loads((tmp_path / "findings.sarif").read_text("utf-8"))["version"] == "2.1.0"


@pytest.mark.parametrize("form", ["text", "json", "junit", "github", "sarif", "html"])
def test_a_long_name_is_cut_in_a_report(tmp_path, capsys, form):
    """200 findings about a column whose name has 50,000 characters."""
    name = "n" * 50_000
    table = DeltaTable.create(tmp_path / "t", {name: "long"})
    files = [table.write_data([{name: number}]) for number in range(200)]
    table.append(*files)
    for file in files:
        pq.write_table(pa.table({name: ["text"]}), tmp_path / "t" / file.path)
    assert main(["check", str(tmp_path / "t"), "--select", "DEL-404", "--format", form]) == 1
    assert "50,000 characters" in (out := capsys.readouterr().out) or form == "github"
    assert len(out) < 2_000_000
