"""The reports of a trace: JSON, text, and pages, by structure."""

import json
import re

import pytest

import harness
from harness.cli import main
from harness.writing.iceberg.builder import IcebergTable

HOSTILE = "</svg><script>alert(1)</script>\x1b[31m\u202e"


@pytest.fixture
def table(tmp_path):
    """A table whose row 1 is carried and then deleted, row 2 is updated, and row 3 is visible."""
    table = IcebergTable.create(tmp_path / "t", {"id": "long", "note": "string"})
    old = table.write_data([{"id": id_, "note": HOSTILE} for id_ in (1, 2, 3)], path="data/old.parquet")
    new = table.write_data(
        [{"id": id_, "note": HOSTILE if id_ != 2 else "new"} for id_ in (1, 2, 3)], path="data/<b>new.parquet"
    )
    table.append(old)
    table.commit(add=[new], remove=[old], operation="overwrite")
    table.commit(add=[table.write_equality_deletes(["id"], [{"id": 1}], path="data/gone.parquet")])
    return table


@pytest.fixture
def trace(table):
    return harness.open_table(table.metadata_path).trace("id < 9", keys=["id"], missing=True)


def test_the_document(table, trace):
    document = json.loads(json.dumps(trace.to_dict()))
    first, second, third = (snapshot["snapshot-id"] for snapshot in table.snapshots)
    assert list(document)[:2] == ["format", "kind"]
    assert (document["format"], document["kind"], document["table_format"]) == (1, "trace", "iceberg")
    assert (document["condition"], document["from"], document["to"], document["gaps"]) == ("id < 9", first, third, [])
    assert [commit["id"] for commit in document["commits"]] == [first, second, third]
    gone, updated, kept = document["rows"]
    assert [row["visible"] for row in (gone, updated, kept)] == [False, True, True]
    assert [(event["kind"], event["commit"], event["version"]) for event in gone["events"]] == [
        *(("added", first, 0), ("carried", second, 1), ("deleted", third, 1)),
    ]
    assert [event["kind"] for event in updated["events"]] == ["added", "updated"]
    assert (gone["values"], gone["followed_by"], gone["row_id"]) == ({"id": "1", "note": HOSTILE}, "keys", None)
    version = gone["versions"][1]
    assert (version["added"], version["removed"], version["position"]) == (second, None, 0)
    assert version["delete"] == {
        "kind": "equality delete",
        "path": f"{table.location}/data/gone.parquet",
        "offset": None,
        "sequence_number": 3,
        "keys": {"id": "1"},
        "added": third,
    }
    (file,) = document["missing"]["files"]
    assert (file["decision"], file["visible"], file["deleted"], file["false"]) == ("read", 2, 1, [])


def test_the_text_has_a_sentence_and_a_line_for_each_event(trace):
    text = trace.to_text(width=60)
    assert str(trace).splitlines()[0].startswith("3 rows match")
    for row in trace.rows:
        assert row.sentence.endswith(".")
        assert re.sub(r"\s+", " ", row.sentence) in re.sub(r"\s+", " ", text)
    assert not {"\x1b", "\u202e"} & set(text)
    assert sum(line.startswith(f"  {trace.commits[0].id} ") for line in text.splitlines()) == 3


def test_the_page_has_a_time_line_for_each_row(trace):
    page = trace.to_html()
    sections = re.findall(r'<section class="row (\w+)".*?</section>', page, re.DOTALL)
    assert sections == ["hidden", "visible", "visible"]
    drawings = re.findall(r"<svg class=\"picture\".*?</svg>", page, re.DOTALL)
    # A bar for each version, and one in the legend; for row 1 also the time that it is hidden in a live file.
    assert [drawing.count("<rect") for drawing in drawings] == [5, 3, 3]
    assert [drawing.count('class="end"') for drawing in drawings] == [1, 0, 0]
    assert [drawing.count("<g>") for drawing in drawings] == [2, 2, 2]
    events = [part.count("<tr>") for part in re.findall(r'<table class="events">.*?</tbody>', page, re.DOTALL)]
    assert events == [1 + len(row.events) for row in trace.rows]
    assert "<script>" not in page
    assert "<b>new" not in page
    assert not {"\x1b", "\u202e"} & set(page)


def test_a_page_and_a_text_show_some_rows_of_many(tmp_path):
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": number} for number in range(150)]))
    trace = harness.open_table(table.metadata_path).trace("id >= 0")
    assert trace.to_html().count('<section class="row') == 100
    assert trace._repr_html_().count("&lt;section class=") == 0  # the page in the frame keeps its tags
    assert len(trace.to_dict()["rows"]) == 150
    assert trace.to_text().count("Visible since") == 50


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_the_command_writes_each_format(table, trace, tmp_path, capfdbinary, form):
    arguments = ["trace", str(table.metadata_path), "--where", "id < 9", "--keys", "id", "--missing"]
    assert main([*arguments, "--format", form]) == 0
    printed = capfdbinary.readouterr().out.decode()
    suffix = {"text": "txt"}.get(form, form)
    assert main([*arguments, "--output", str(tmp_path / f"x.{suffix}")]) == 0
    assert (tmp_path / f"x.{suffix}").read_bytes().decode() == printed
    expected = {"text": trace.to_text, "html": trace.to_html}
    if form == "json":
        assert json.loads(printed) == json.loads(json.dumps(trace.to_dict()))
    else:
        assert printed.rstrip("\n") == expected[form]().rstrip("\n")


def test_the_exit_code_tells_of_false_statistics(table, capfd):
    file = table.write_data([{"id": 7, "note": "x"}])

    def no_bounds(document):
        for record in document.records:
            for each in record["data_file"]["upper_bounds"]:
                each["value"] = (1).to_bytes(8, "little") if each["key"] == 1 else each["value"]
            for each in record["data_file"]["lower_bounds"]:
                each["value"] = (0).to_bytes(8, "little") if each["key"] == 1 else each["value"]

    table.append(file)
    table.edit_manifest(file, no_bounds)
    arguments = ["trace", str(table.metadata_path), "--where", "id = 7"]
    assert [main(arguments), main([*arguments, "--missing"])] == [0, 1]
    assert main([*arguments, "--keys", "nope"]) == 2
    assert capfd.readouterr().err.count("\n") == 1
